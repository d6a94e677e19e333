// AXI: an output channel that says valid keeps valid and payload until ready, unless reset comes.
`ifdef FORMAL
    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
    always @* if (!f_started) assume (!reset_n);

    reg f_waits;
    wire [$bits({@PAYLOAD@}) - 1:0] f_payload = {@PAYLOAD@};
    reg [$bits({@PAYLOAD@}) - 1:0] f_offered;
    always @(posedge clk) begin
        f_waits <= reset_n & @VALID@ & ~@READY@;
        f_offered <= f_payload;
    end
    always @* if (f_started && f_waits) begin
        valid_holds: assert (@VALID@);
        payload_holds: assert (f_payload == f_offered);
    end
    // After reset nothing is offered.
    reg f_was_reset;
    always @(posedge clk) f_was_reset <= !reset_n;
    always @* if (f_started && f_was_reset) begin
        reset_silences: assert (!@VALID@);
    end
`endif
