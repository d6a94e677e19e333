// Four registers behind AXI4-Lite; other offsets are answered with SLVERR.
module lite_registers (
    input wire aclk,
    input wire aresetn,
    input wire [11:0] s_axil_awaddr,
    input wire s_axil_awvalid,
    output wire s_axil_awready,
    input wire [31:0] s_axil_wdata,
    input wire [3:0] s_axil_wstrb,
    input wire s_axil_wvalid,
    output wire s_axil_wready,
    output reg [1:0] s_axil_bresp,
    output reg s_axil_bvalid,
    input wire s_axil_bready,
    input wire [11:0] s_axil_araddr,
    input wire s_axil_arvalid,
    output wire s_axil_arready,
    output reg [31:0] s_axil_rdata,
    output reg [1:0] s_axil_rresp,
    output reg s_axil_rvalid,
    input wire s_axil_rready
);
    reg [31:0] registers [0:3];
    wire write = s_axil_awvalid && s_axil_wvalid && !s_axil_bvalid;
    wire read = s_axil_arvalid && !s_axil_rvalid;
    assign s_axil_awready = write;
    assign s_axil_wready = write;
    assign s_axil_arready = read;
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
        if (write) begin
            s_axil_bresp <= s_axil_awaddr[11:4] == 8'd0 ? 2'd0 : 2'd2;
            if (s_axil_awaddr[11:4] == 8'd0) registers[s_axil_awaddr[3:2]] <= s_axil_wdata;
        end
        if (read) begin
            s_axil_rresp <= s_axil_araddr[11:4] == 8'd0 ? 2'd0 : 2'd2;
            s_axil_rdata <= registers[s_axil_araddr[3:2]];
        end
    end
    wire unused = &{s_axil_wstrb, s_axil_awaddr[1:0], s_axil_araddr[1:0]};
endmodule
