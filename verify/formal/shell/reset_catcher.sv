// Properties of the catcher of fpga/src/crossing.rs: a reset is caught without a clock, seen behind two edges, held for as many
// edges as there are stages, and ended in time.
`ifdef FORMAL
    // Edges since the reset was low last; 5 stands for more.
    reg [2:0] f_edges = 0;
    always @(posedge clock or negedge reset_n)
        if (!reset_n) f_edges <= 0;
        else if (f_edges != 3'd5) f_edges <= f_edges + 3'd1;
    always @* begin
        caught: assert (f_edges != 0 || {stage_2, stage_1, stage_0} == 0);
        held: assert (f_edges < 3'd2 || f_edges == 3'd5 || !q);
        ends: assert (f_edges != 3'd5 || q);
        stages: assert ({stage_2, stage_1, stage_0} == {f_edges >= 3'd3, f_edges >= 3'd2, f_edges >= 3'd1});
        behind: assert (f_edges == 0 || stage_3 == (f_edges >= 3'd4));
    end
`endif
