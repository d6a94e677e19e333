// Properties of fpga/src/link.rs, with clocks that run free of each other and resets of any length at any time.
//
// The registers run, ack and their synchronisers are a ring of which one place at most differs from the next: a handshake
// of four phases in which no edge is ever missed.
`ifdef FORMAL
    wire [7:0] f_ring = {run_q, run_at_pcie_stage_0, run_at_pcie_stage_1, run_at_pcie_stage_2,
                         ~ack_q, ~ack_at_engine_stage_0, ~ack_at_engine_stage_1, ~ack_at_engine_stage_2};
    wire [6:0] f_edges = f_ring[7:1] ^ f_ring[6:0];

    // Whether the engine's halves have been emptied since they last worked.
    reg f_is_empty = 1'b0;
    always @(posedge engine_clock) f_is_empty <= engine_clear | (f_is_empty & ~engine_works_q);

    // Cycles of the PCIe side for which its halves are held empty and the engine's side has said that it is done with its own.
    reg [3:0] f_waited = 4'd0;
    always @(posedge pcie_clock) f_waited <= (ack_q && run_at_pcie_q) ? f_waited + (f_waited != 4'd15) : 4'd0;
    reg f_was_acknowledged = 1'b0;
    reg f_was_drained = 1'b0;
    always @(posedge pcie_clock) {f_was_acknowledged, f_was_drained} <= {ack_q, drained};

    // Whether pointers of a side may have moved since its halves were emptied, and what the other side sees of that: a
    // synchroniser like that of a pointer.
    reg f_pcie_moved = 1'b0, f_engine_moved = 1'b0;
    reg [2:0] f_pcie_seen = 3'd0, f_engine_seen = 3'd0;
    always @(posedge pcie_clock) f_pcie_moved <= !pcie_clear;
    always @(posedge engine_clock) f_engine_moved <= !engine_clear && (f_engine_moved || engine_up);
    always @(posedge engine_clock) f_pcie_seen <= {f_pcie_seen[1:0], f_pcie_moved};
    always @(posedge pcie_clock) f_engine_seen <= {f_engine_seen[1:0], f_engine_moved};

    always @* begin
        four_phases: assert ((f_edges & (f_edges - 1'b1)) == 0);
        engine_is_stopped_while_the_other_is_emptied: assert (!(pcie_clear && engine_up));
        pcie_is_stopped_while_the_other_is_emptied: assert (!(engine_clear && pcie_up));
        both_are_emptied_together: assert (!engine_clear || pcie_clear);
        engine_works_only_with_the_other: assert (!engine_up || (run_q && !ack_q && !ack_at_engine_q));
        pcie_works_only_when_asked: assert (!pcie_up || !ack_q);
        emptied_before_the_other_works: assert (!run_q || engine_up || f_is_empty);
        emptied: assert (engine_settle_q < 3'd1 || f_is_empty);
        counted: assert (!run_q || engine_settle_q == 3'd0 || engine_settle_q == 3'd7);
        pcie_settles: assert (pcie_settle_q == (f_waited > 4'd7 ? 3'd7 : f_waited[2:0]) || (f_was_acknowledged && !ack_q));
        settled: assert (!(f_was_acknowledged && !ack_q) || f_waited > 4'd7);
        drained_first: assert (!(f_was_acknowledged && !ack_q) || f_was_drained);
        pcie_rests: assert (!ack_q || !f_pcie_moved);
        engine_rests: assert (!run_q || engine_works_q || !f_engine_moved);
        pcie_rest_is_seen: assert (({ack_at_engine_stage_2, ack_at_engine_stage_1, ack_at_engine_stage_0} & f_pcie_seen) == 3'd0);
        engine_rest_is_seen: assert (!ack_q
            || ({run_at_pcie_stage_2, run_at_pcie_stage_1, run_at_pcie_stage_0} & f_engine_seen) == 3'd0);
        engine_begins_with_the_others_pointers_at_zero: assert (!(engine_clear || (run_q && ack_q)) || f_pcie_seen == 3'd0);
        pcie_begins_with_the_others_pointers_at_zero: assert (!(run_at_pcie_q && ack_q) || f_engine_seen == 3'd0);
        reset_of_the_port: assert (pcie_reset_n || !port_reset_n);
    end

    // A reset is caught without a clock, seen behind two edges, held for as many edges as there are stages, and ended in time.
`define F_CATCHER(RESET, CLOCK, RESET_N) \
    /* Edges since the reset was low last; 5 stands for more. */ \
    reg [2:0] f_``RESET``_edges = 0; \
    always @(posedge CLOCK or negedge RESET_N) \
        if (!RESET_N) f_``RESET``_edges <= 0; \
        else if (f_``RESET``_edges != 3'd5) f_``RESET``_edges <= f_``RESET``_edges + 3'd1; \
    always @* begin \
        assert (f_``RESET``_edges <= 3'd5); \
        assert (RESET``_stage_0 == (f_``RESET``_edges >= 3'd1)); \
        assert (RESET``_stage_1 == (f_``RESET``_edges >= 3'd2)); \
        assert (RESET``_stage_2 == (f_``RESET``_edges >= 3'd3)); \
        assert (f_``RESET``_edges == 0 || RESET``_stage_3 == (f_``RESET``_edges >= 3'd4)); \
        assert (f_``RESET``_edges < 3'd2 || f_``RESET``_edges == 3'd5 || !RESET``_q); \
        assert (f_``RESET``_edges != 3'd5 || RESET``_q); \
    end
    `F_CATCHER(engine_reset, engine_clock, engine_reset_n)
    `F_CATCHER(pcie_reset, pcie_clock, pcie_reset_n)
`endif
