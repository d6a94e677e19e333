// Has the ports of the engine and handles one request at a time, to test the bench of the engine without the engine.
// A request reads the line at its VA and answers with 1 + pd segments; segment n has pa = first word of the line + n, or
// the status MtrBusError (25) and an event. A context lookup is answered with root + index.
module engine_stub (
    input wire aclk,
    input wire aresetn,
    input wire [207:0] s_axis_req_tdata,
    input wire s_axis_req_tvalid,
    output wire s_axis_req_tready,
    output wire [159:0] m_axis_rsp_tdata,
    output wire m_axis_rsp_tvalid,
    input wire m_axis_rsp_tready,
    input wire [23:0] s_axis_done_tdata,
    input wire s_axis_done_tvalid,
    output wire s_axis_done_tready,
    input wire [167:0] s_axis_ctx_tdata,
    input wire s_axis_ctx_tvalid,
    output wire s_axis_ctx_tready,
    output wire [111:0] m_axis_ctx_tdata,
    output reg m_axis_ctx_tvalid,
    input wire m_axis_ctx_tready,
    input wire [215:0] s_axis_inv_tdata,
    input wire s_axis_inv_tvalid,
    output wire s_axis_inv_tready,
    output reg [15:0] m_axis_inv_tdata,
    output reg m_axis_inv_tvalid,
    input wire m_axis_inv_tready,
    output wire [127:0] m_axis_fault_tdata,
    output reg m_axis_fault_tvalid,
    input wire m_axis_fault_tready,
    output wire [6:0] m_axi_tbl_arid,
    output wire [63:0] m_axi_tbl_araddr,
    output wire [7:0] m_axi_tbl_arlen,
    output wire [2:0] m_axi_tbl_arsize,
    output wire [1:0] m_axi_tbl_arburst,
    output wire m_axi_tbl_arvalid,
    input wire m_axi_tbl_arready,
    input wire [6:0] m_axi_tbl_rid,
    input wire [511:0] m_axi_tbl_rdata,
    input wire [1:0] m_axi_tbl_rresp,
    input wire m_axi_tbl_rlast,
    input wire m_axi_tbl_rvalid,
    output wire m_axi_tbl_rready,
    input wire [11:0] s_axil_awaddr,
    input wire s_axil_awvalid,
    output wire s_axil_awready,
    input wire [31:0] s_axil_wdata,
    input wire [3:0] s_axil_wstrb,
    input wire s_axil_wvalid,
    output wire s_axil_wready,
    output wire [1:0] s_axil_bresp,
    output reg s_axil_bvalid,
    input wire s_axil_bready,
    input wire [11:0] s_axil_araddr,
    input wire s_axil_arvalid,
    output wire s_axil_arready,
    output reg [31:0] s_axil_rdata,
    output wire [1:0] s_axil_rresp,
    output reg s_axil_rvalid,
    input wire s_axil_rready,
    // The name is the engine's; it is a common word of C++.
    /* verilator lint_off SYMRSVDWORD */
    output wire interrupt
    /* verilator lint_on SYMRSVDWORD */
);
    localparam [2:0] IDLE = 3'd0, ADDRESS = 3'd1, DATA = 3'd2, RESPOND = 3'd3, DONE = 3'd4;
    reg [2:0] state;
    reg [15:0] tag;
    reg [7:0] function_number;
    reg [23:0] last_segment;
    reg [23:0] segment;
    reg [63:0] va;
    reg [31:0] length;
    reg [63:0] pa;
    reg is_error;
    reg [63:0] requests;
    reg [4:0] scrub;
    reg [103:0] context_answer;

    // Registers: status (ready, idle), the counter of requests, and one scratch word per offset 0 to 0x1fc.
    reg [31:0] scratch [0:127];
    wire write = s_axil_awvalid && s_axil_wvalid && !s_axil_bvalid;
    wire read = s_axil_arvalid && !s_axil_rvalid;
    assign s_axil_awready = write;
    assign s_axil_wready = write;
    assign s_axil_arready = read;
    assign s_axil_bresp = 2'd0;
    assign s_axil_rresp = 2'd0;
    always @(posedge aclk) begin
        if (!aresetn) begin
            s_axil_bvalid <= 1'b0;
            s_axil_rvalid <= 1'b0;
        end else begin
            if (write) s_axil_bvalid <= 1'b1;
            else if (s_axil_bready) s_axil_bvalid <= 1'b0;
            if (read) s_axil_rvalid <= 1'b1;
            else if (s_axil_rready) s_axil_rvalid <= 1'b0;
        end
        if (write && !s_axil_awaddr[9]) scratch[s_axil_awaddr[8:2]] <= s_axil_wdata;
        if (read) begin
            if (s_axil_araddr == 12'h008) s_axil_rdata <= {30'd0, state == IDLE, scrub[4]};
            else if (s_axil_araddr == 12'h200) s_axil_rdata <= requests[31:0];
            else if (s_axil_araddr == 12'h204) s_axil_rdata <= requests[63:32];
            else s_axil_rdata <= scratch[s_axil_araddr[8:2]];
        end
    end

    assign s_axis_req_tready = state == IDLE && scrub[4];
    assign m_axi_tbl_arid = tag[6:0];
    assign m_axi_tbl_araddr = {va[63:6], 6'd0};
    assign m_axi_tbl_arlen = 8'd0;
    assign m_axi_tbl_arsize = 3'd6;
    assign m_axi_tbl_arburst = 2'd1;
    assign m_axi_tbl_arvalid = state == ADDRESS;
    assign m_axi_tbl_rready = state == DATA;
    assign m_axis_rsp_tvalid = state == RESPOND;
    wire is_last = is_error || segment == last_segment;
    assign m_axis_rsp_tdata = {
        2'd0, is_error ? 32'd0 : length, is_error ? 64'd0 : pa + {40'd0, segment}, is_last, segment == 24'd0,
        segment[19:0], 2'd0, is_error ? 3'd7 : 3'd0, is_error ? 3'd5 : 3'd0, is_error ? 8'd25 : 8'd0,
        function_number, tag
    };
    always @(posedge aclk) begin
        if (!aresetn) begin
            state <= IDLE;
            requests <= 64'd0;
            scrub <= 5'd0;
            m_axis_fault_tvalid <= 1'b0;
        end else begin
            if (!scrub[4]) scrub <= scrub + 5'd1;
            if (m_axis_fault_tready) m_axis_fault_tvalid <= 1'b0;
            case (state)
                IDLE: if (s_axis_req_tvalid && scrub[4]) begin
                    state <= ADDRESS;
                    requests <= requests + 64'd1;
                end
                ADDRESS: if (m_axi_tbl_arready) state <= DATA;
                DATA: if (m_axi_tbl_rvalid) begin
                    state <= RESPOND;
                    if (m_axi_tbl_rresp != 2'd0) m_axis_fault_tvalid <= 1'b1;
                end
                RESPOND: if (m_axis_rsp_tready && is_last) state <= DONE;
                // The next request waits until the DMA of this one is reported.
                default: if (s_axis_done_tvalid && s_axis_done_tdata == {function_number, tag}) state <= IDLE;
            endcase
        end
        if (state == IDLE) begin
            tag <= s_axis_req_tdata[15:0];
            function_number <= s_axis_req_tdata[23:16];
            last_segment <= s_axis_req_tdata[83:60];
            va <= s_axis_req_tdata[171:108];
            length <= s_axis_req_tdata[203:172];
            segment <= 24'd0;
        end
        if (state == DATA) begin
            pa <= m_axi_tbl_rdata[63:0];
            is_error <= m_axi_tbl_rresp != 2'd0;
        end
        if (state == RESPOND && m_axis_rsp_tready) segment <= segment + 24'd1;
    end
    assign s_axis_done_tready = 1'b1;
    assign m_axis_fault_tdata = {va, 24'd0, 3'd0, 2'd0, 3'd7, 8'd25, function_number, tag};

    assign s_axis_ctx_tready = !m_axis_ctx_tvalid;
    assign m_axis_ctx_tdata = {8'd0, context_answer};
    always @(posedge aclk) begin
        if (!aresetn) m_axis_ctx_tvalid <= 1'b0;
        else if (s_axis_ctx_tvalid && s_axis_ctx_tready) m_axis_ctx_tvalid <= 1'b1;
        else if (m_axis_ctx_tready) m_axis_ctx_tvalid <= 1'b0;
        if (s_axis_ctx_tready) begin
            context_answer <= {
                s_axis_ctx_tdata[123:60] + {32'd0, s_axis_ctx_tdata[59:28]}, 16'd0, s_axis_ctx_tdata[23:0]
            };
        end
    end

    assign s_axis_inv_tready = !m_axis_inv_tvalid;
    always @(posedge aclk) begin
        if (!aresetn) m_axis_inv_tvalid <= 1'b0;
        else if (s_axis_inv_tvalid && s_axis_inv_tready) m_axis_inv_tvalid <= 1'b1;
        else if (m_axis_inv_tready) m_axis_inv_tvalid <= 1'b0;
        if (s_axis_inv_tready) m_axis_inv_tdata <= s_axis_inv_tdata[15:0];
    end
    assign interrupt = m_axis_fault_tvalid;
    wire unused = &{
        s_axis_req_tdata, s_axis_ctx_tdata, s_axis_inv_tdata, m_axi_tbl_rid, m_axi_tbl_rdata, m_axi_tbl_rlast, va,
        s_axil_wstrb, s_axil_awaddr, s_axil_araddr, segment
    };
endmodule
