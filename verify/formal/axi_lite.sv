// AXI4-Lite of hdl/src/csr.rs: answers wait unchanged, and each address is answered once: a write when its data has come too.
`ifdef FORMAL
    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
    always @* if (!f_started) assume (!reset_n);

    // Addresses and data that were taken and are not answered.
    reg [1:0] f_aw, f_w, f_ar;
    reg f_b_waits, f_r_waits;
    reg [1:0] f_bresp, f_rresp;
    reg [31:0] f_rdata;
    wire f_b = axil_bvalid & axil_bready;
    wire f_r = axil_rvalid & axil_rready;
    always @(posedge clk) begin
        f_aw <= !reset_n ? 0 : f_aw + (axil_awvalid & axil_awready) - f_b;
        f_w <= !reset_n ? 0 : f_w + (axil_wvalid & axil_wready) - f_b;
        f_ar <= !reset_n ? 0 : f_ar + (axil_arvalid & axil_arready) - f_r;
        f_b_waits <= reset_n & axil_bvalid & ~axil_bready;
        f_r_waits <= reset_n & axil_rvalid & ~axil_rready;
        {f_bresp, f_rresp, f_rdata} <= {axil_bresp, axil_rresp, axil_rdata};
    end
    always @* if (f_started) begin
        write_answer_holds: assert (!f_b_waits || (axil_bvalid && axil_bresp == f_bresp));
        read_answer_holds: assert (!f_r_waits || (axil_rvalid && axil_rresp == f_rresp && axil_rdata == f_rdata));
        write_was_asked: assert (!axil_bvalid || (f_aw != 0 && f_w != 0));
        read_was_asked: assert (!axil_rvalid || f_ar != 0);
        // What is taken and not answered is held in the registers.
        aw_count: assert (f_aw == {1'b0, aw_full} + {1'b0, bvalid_q});
        w_count: assert (f_w == {1'b0, w_full} + {1'b0, bvalid_q});
        ar_count: assert (f_ar == {1'b0, read_busy});
    end
`endif
