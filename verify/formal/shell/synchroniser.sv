// Properties of fpga/src/crossing.rs: what comes out was there so many edges ago.
`ifdef FORMAL
    reg [$bits(d)-1:0] f_0 = 0, f_1 = 0, f_2 = 0;
    always @(posedge clock) {f_2, f_1, f_0} <= {f_1, f_0, d};
    always @* begin
        delay: assert (q == f_2);
        stages: assert ({stage_2, stage_1, stage_0} == {f_2, f_1, f_0});
    end
`endif
