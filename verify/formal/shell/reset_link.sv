// Properties of fpga/src/link.rs, with clocks that run free of each other and resets at any time.
//
// The registers run, ack and their synchronisers are a ring of which one place at most differs from the next: a handshake
// of four phases in which no edge is ever missed.
`ifdef FORMAL
    (* gclk *) reg f_time;
    wire [7:0] f_ring = {run_q, run_at_pcie_stage_0, run_at_pcie_stage_1, run_at_pcie_stage_2,
                         ~ack_q, ~ack_at_engine_stage_0, ~ack_at_engine_stage_1, ~ack_at_engine_stage_2};
    wire [6:0] f_edges = f_ring[7:1] ^ f_ring[6:0];

    // Whether a side's halves have been emptied since it last worked.
    reg f_engine_is_empty = 1'b0, f_pcie_is_empty = 1'b0;
    always @(posedge engine_clock) f_engine_is_empty <= engine_empties_q | (f_engine_is_empty & ~engine_works_q);
    always @(posedge pcie_clock) f_pcie_is_empty <= ack_q | (f_pcie_is_empty & ~pcie_works_q);

    always @* begin
        four_phases: assert ((f_edges & (f_edges - 1'b1)) == 0);
        engine_is_stopped_while_the_other_is_emptied: assert (!(pcie_clear && engine_up));
        pcie_is_stopped_while_the_other_is_emptied: assert (!(engine_clear && pcie_up));
        both_are_emptied_together: assert (!engine_clear || pcie_clear);
        engine_works_only_with_the_other: assert (!engine_up || (run_q && !ack_q));
        starts_empty: assert (!ack_q || !run_q || f_engine_is_empty);
        // No more than three steps of the ring lie between what a side says and what it does.
        pcie_asked: assert (!pcie_works_q || !ack_q);
        settled: assert (!run_q || ack_q || engine_settle_q == 0 || run_q);
    end
`endif
