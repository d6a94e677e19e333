// The queue of requests in the page split, as fifo_count.sv; besides, a long request in it is one of several pages.
`include "fifo_count.sv"
`ifdef FORMAL
    // The highest bits of an entry: whether it is long, and whether it is of several pages.
    localparam F_LONG = $bits(out_data_1) - 1;
    localparam F_DEPTH = 1 << (F_BITS - 1);
    reg f_is_legal;
    integer f_slot;
    always @* begin
        f_is_legal = !(out_valid && out_data_1[F_LONG] && !out_data_1[F_LONG - 1]);
        for (f_slot = 0; f_slot < F_DEPTH; f_slot = f_slot + 1)
            if ({1'b0, f_slot[F_BITS - 2:0] - read_pointer[F_BITS - 2:0]} < f_stored
                && entries_1[f_slot][F_LONG] && !entries_1[f_slot][F_LONG - 1])
                f_is_legal = 0;
    end
    always @* if (f_started) begin
        long_is_split: assert (f_is_legal);
    end
`endif
