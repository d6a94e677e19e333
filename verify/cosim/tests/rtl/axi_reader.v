// Issues every command as a read burst, legal or not, and passes the data on.
module axi_reader (
    input wire clk,
    input wire reset_n,
    input wire command_valid,
    output wire command_ready,
    input wire [3:0] command_id,
    input wire [63:0] command_address,
    input wire [7:0] command_length,
    input wire [2:0] command_size,
    input wire [1:0] command_burst,
    output wire beat_valid,
    input wire beat_ready,
    output wire [3:0] beat_id,
    output wire [127:0] beat_data,
    output wire [1:0] beat_response,
    output wire beat_last,
    output wire [3:0] m_axi_arid,
    output wire [63:0] m_axi_araddr,
    output wire [7:0] m_axi_arlen,
    output wire [2:0] m_axi_arsize,
    output wire [1:0] m_axi_arburst,
    output wire m_axi_arvalid,
    input wire m_axi_arready,
    input wire [3:0] m_axi_rid,
    input wire [127:0] m_axi_rdata,
    input wire [1:0] m_axi_rresp,
    input wire m_axi_rlast,
    input wire m_axi_rvalid,
    output wire m_axi_rready
);
    assign m_axi_arid = command_id;
    assign m_axi_araddr = command_address;
    assign m_axi_arlen = command_length;
    assign m_axi_arsize = command_size;
    assign m_axi_arburst = command_burst;
    assign m_axi_arvalid = command_valid && reset_n;
    assign command_ready = m_axi_arready;
    assign beat_id = m_axi_rid;
    assign beat_data = m_axi_rdata;
    assign beat_response = m_axi_rresp;
    assign beat_last = m_axi_rlast;
    assign beat_valid = m_axi_rvalid;
    assign m_axi_rready = beat_ready;
    wire unused = &{clk};
endmodule
