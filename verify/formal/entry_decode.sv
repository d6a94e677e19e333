// The digest of an MPT entry (hdl/src/entry_decode.rs) is what the contract says, over integers, for any entry.
`ifdef FORMAL
    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
    always @* if (!f_started) assume (!reset_n);

    // The raw region at the input, and with the stages of the block.
    wire [63:0] f_va = {replay_entry_2[31:0], replay_entry_1[127:96]};
    wire [63:0] f_length = replay_entry_1[63:0];
    wire [1:0] f_base = replay_table_set ? page_shift_base_1 : page_shift_base_0;
    wire [4:0] f_shift = {3'b0, f_base} + {1'b0, replay_entry_3[127:124]};
    reg [63:0] f_va_1, f_va_2, f_va_3, f_length_1, f_length_2, f_length_3;
    reg [4:0] f_shift_1, f_shift_2, f_shift_3;
    reg f_valid_1, f_valid_2, f_valid_3;
    always @(posedge clk) begin
        f_valid_1 <= reset_n & replay_valid;
        f_valid_2 <= reset_n & f_valid_1;
        f_valid_3 <= reset_n & f_valid_2;
        {f_va_1, f_va_2, f_va_3} <= {f_va, f_va_1, f_va_2};
        {f_length_1, f_length_2, f_length_3} <= {f_length, f_length_1, f_length_2};
        {f_shift_1, f_shift_2, f_shift_3} <= {f_shift, f_shift_1, f_shift_2};
    end

    wire [64:0] f_end = {1'b0, f_va_3} + {1'b0, f_length_3};
    wire [64:0] f_last = f_end - 65'd1;
    wire [64:0] f_first_page = ({1'b0, f_va_3} >> f_shift_3) >> 12;
    wire [64:0] f_last_page = (f_last >> f_shift_3) >> 12;
    wire [64:0] f_pages = f_last_page - f_first_page + 65'd1;
    always @* if (f_started && f_valid_3) begin
        va: assert (fill_line_va == f_va_3);
        empty: assert (fill_line_is_empty == (f_length_3 == 0));
        last: assert (f_length_3 == 0 || fill_line_last == f_last[63:0]);
        wraps: assert (fill_line_wraps == (f_end > 65'h1_0000_0000_0000_0000));
        base: assert (fill_line_base_page == f_first_page[31:0]);
        too_large: assert (fill_line_too_large == (f_length_3 != 0 && f_pages > 65'h1_0000_0000));
    end
    always @* if (f_started && f_valid_1) begin
        shift: assert (fill_page_shift == f_shift_1);
    end
`endif
