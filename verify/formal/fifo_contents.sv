// Shows the block above what a queue's memory holds.
`ifdef FORMAL
    localparam F_DEPTH = 1 << ($bits(write_pointer) - 1);
    wire [F_DEPTH * $bits(in_data_0) - 1:0] f_entries;
    wire [F_DEPTH - 1:0] f_is_held;
    wire [$bits(write_pointer) - 1:0] f_stored = write_pointer - read_pointer;
    genvar f_slot;
    generate
        for (f_slot = 0; f_slot < F_DEPTH; f_slot = f_slot + 1) begin : f_slots
            wire [$bits(write_pointer) - 2:0] f_ahead = f_slot[$bits(write_pointer) - 2:0] - read_pointer[$bits(write_pointer) - 2:0];
            assign f_entries[f_slot * $bits(in_data_0) +: $bits(in_data_0)] = entries_0[f_slot];
            assign f_is_held[f_slot] = {1'b0, f_ahead} < f_stored;
        end
    endgenerate
`endif
