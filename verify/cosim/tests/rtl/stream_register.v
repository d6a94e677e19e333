// A register with a handshake. Takes one beat every second cycle.
module stream_register (
    input wire clk,
    input wire reset_n,
    input wire in_valid,
    output wire in_ready,
    input wire [99:0] in_data,
    output wire out_valid,
    input wire out_ready,
    output wire [99:0] out_data
);
    reg full;
    reg [99:0] data;
    assign in_ready = !full;
    assign out_valid = full;
    assign out_data = data;
    always @(posedge clk) begin
        if (!reset_n) full <= 1'b0;
        else if (in_valid && in_ready) full <= 1'b1;
        else if (out_ready) full <= 1'b0;
        if (in_valid && in_ready) data <= in_data;
    end
endmodule
