// Properties of a level that crosses: what comes out was there so many edges ago.
`ifdef FORMAL
    reg f_0 = 1'b0, f_1 = 1'b0, f_2 = 1'b0;
    always @(posedge to_clock) {f_2, f_1, f_0} <= {f_1, f_0, level_q};
    reg f_level = 1'b0;
    always @(posedge from_clock) f_level <= d;
    always @* begin
        register: assert (level_q == f_level);
        stages: assert ({level_at_other_stage_2, level_at_other_stage_1, level_at_other_stage_0} == {f_2, f_1, f_0});
        delay: assert (q == f_2);
    end
`endif
