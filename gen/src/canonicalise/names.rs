//! Which names are taken, and which can never be used.

use std::collections::{HashMap, HashSet};

/// Words of Verilog-2001 and of SystemVerilog, which some tools read `.v` files as, and the name of the sink.
const RESERVED: &str = "
    accept_on alias always always_comb always_ff always_latch and assert assign assume automatic before begin bind
    bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle checker class clocking cmos config
    const constraint context continue cover covergroup coverpoint cross deassign default defparam design disable
    dist do edge else end endcase endchecker endclass endclocking endconfig endfunction endgenerate endgroup
    endinterface endmodule endpackage endprimitive endprogram endproperty endsequence endspecify endtable endtask
    enum event eventually expect export extends extern final first_match for force foreach forever fork forkjoin
    function generate genvar global highz0 highz1 if iff ifnone ignore_bins illegal_bins implements implies import
    incdir include initial inout input inside instance int integer interconnect interface intersect join join_any
    join_none large let liblist library local localparam logic longint macromodule matches medium modport module
    nand negedge nettype new nexttime nmos nor noshowcancelled not notif0 notif1 null or output package packed
    parameter pmos posedge primitive priority program property protected pull0 pull1 pulldown pullup
    pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase randsequence rcmos real realtime ref reg
    reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1 s_always s_eventually s_nexttime
    s_until s_until_with scalared sequence shortint shortreal showcancelled signed small soft solve specify
    specparam static string strong strong0 strong1 struct super supply0 supply1 sync_accept_on sync_reject_on table
    tagged task this throughout time timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand trior trireg
    type typedef union unique unique0 unsigned until until_with untyped use uwire var vectored virtual void wait
    wait_order wand weak weak0 weak1 while wildcard wire with within wor xnor xor _unused_ok
";

/// Names taken in a module.
#[derive(Clone, Debug)]
pub(super) struct Names {
    reserved: HashSet<&'static str>,
    taken: HashSet<String>,
    /// The last suffix given to a wished name.
    suffixes: HashMap<String, u64>,
}

impl Names {
    /// Nothing is taken but the reserved words.
    pub(super) fn new() -> Self {
        Self { reserved: RESERVED.split_ascii_whitespace().collect(), taken: HashSet::new(), suffixes: HashMap::new() }
    }

    /// Whether the name can never be used.
    pub(super) fn is_reserved(&self, name: &str) -> bool {
        self.reserved.contains(name)
    }

    /// Takes the name as it is; false if it was taken before.
    pub(super) fn take(&mut self, name: &str) -> bool {
        self.taken.insert(name.to_owned())
    }

    /// Takes the wished name, or the first of `_2`, `_3`, ... behind it that is free.
    pub(super) fn claim(&mut self, wished: &str) -> String {
        if !self.is_reserved(wished) && self.take(wished) {
            return wished.to_owned();
        }
        let mut suffix = self.suffixes.get(wished).copied().unwrap_or(1);
        loop {
            suffix += 1;
            let name = format!("{wished}_{suffix}");
            if self.take(&name) {
                self.suffixes.insert(wished.to_owned(), suffix);
                return name;
            }
        }
    }

    /// Takes the first free name of `kind_1`, `kind_2`, ...
    pub(super) fn number(&mut self, kind: &str) -> String {
        // The key has a character that no name has, so that it never meets the suffix of a wish.
        let key = format!("{kind} ");
        let mut number = self.suffixes.get(&key).copied().unwrap_or(0);
        loop {
            number += 1;
            let name = format!("{kind}_{number}");
            if self.take(&name) {
                self.suffixes.insert(key, number);
                return name;
            }
        }
    }
}
