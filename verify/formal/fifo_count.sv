// How many entries a queue holds, for the block above; fifo.sv shows that the queue keeps them.
`ifdef FORMAL
    localparam F_BITS = $bits(write_pointer);
    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
    wire [F_BITS - 1:0] f_stored = write_pointer - read_pointer;
    wire [F_BITS:0] f_held = {1'b0, f_stored} + {{F_BITS{1'b0}}, out_valid};
    always @* if (f_started) begin
        stored: assert (f_stored <= 1 << (F_BITS - 1));
    end
`endif
