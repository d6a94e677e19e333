// The checks of hdl/src/access_check.rs are those of the contract, over integers: for any request and any region.
//
// Assumed: the line that comes two cycles after the lookup is the digest of some region, as entry_decode.sv shows it;
// `lookup_length_minus_one` is what its name says.
`ifdef FORMAL
`define F_@PART@
    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
    always @* if (!f_started) assume (!reset_n);
    always @* assume (lookup_length_minus_one == lookup_length - 32'd1);

    // The request, with the stages of the block.
    reg [63:0] f_va_2, f_va_3, f_va_4;
    reg [31:0] f_length_2, f_length_3, f_length_4, f_key_2, f_key_3;
    reg [3:0] f_operation_2, f_operation_3, f_operation_4;
    reg [23:0] f_pd_2, f_pd_3, f_qpn_2, f_qpn_3;
    reg [7:0] f_early_2, f_early_3, f_early_4;
    reg f_ends_2, f_ends_3, f_ends_4, f_valid_2;
    reg f_is_rebased_2, f_is_rebased_3, f_is_beyond_2, f_is_beyond_3, f_is_parent_2, f_is_parent_3;
    reg [63:0] f_region_va_2, f_region_va_3;
    reg [4:0] f_shift_3, f_shift_4;
    wire [7:0] f_shape = lookup_operation > 5 ? 8'h1 : lookup_length > 32'h8000_0000 ? 8'h2
        : (atomic_shape_check && lookup_operation == 4 && !lookup_is_rebased && !lookup_is_parent && (lookup_length != 8 || lookup_va[2:0] != 0)) ? 8'h3
        : (hold_mode && lookup_length > 32'h7000) ? 8'h4 : 8'h0;
    always @(posedge clk) begin
        f_valid_2 <= reset_n & lookup_valid;
        f_va_2 <= lookup_va;
        f_length_2 <= lookup_length;
        f_key_2 <= lookup_key;
        f_operation_2 <= lookup_operation;
        f_pd_2 <= lookup_pd;
        f_qpn_2 <= lookup_qpn;
        f_early_2 <= f_shape != 0 ? f_shape : lookup_length == 0 ? 8'h0 : lookup_status;
        f_ends_2 <= f_shape != 0 || lookup_length == 0 || lookup_status != 0;
        {f_is_rebased_2, f_is_beyond_2, f_is_parent_2} <= {lookup_is_rebased, lookup_is_beyond, lookup_is_parent};
        {f_is_rebased_3, f_is_beyond_3, f_is_parent_3} <= {f_is_rebased_2, f_is_beyond_2, f_is_parent_2};
        {f_region_va_2, f_region_va_3} <= {lookup_region_va, f_region_va_2};
        f_va_3 <= f_va_2;
        f_length_3 <= f_length_2;
        f_key_3 <= f_key_2;
        f_operation_3 <= f_operation_2;
        f_pd_3 <= f_pd_2;
        f_qpn_3 <= f_qpn_2;
        f_early_3 <= f_early_2;
        f_ends_3 <= f_ends_2;
        f_shift_3 <= page_shift;
        f_va_4 <= f_va_3;
        f_length_4 <= f_length_3;
        f_operation_4 <= f_operation_3;
        f_early_4 <= f_early_3;
        f_ends_4 <= f_ends_3;
        f_shift_4 <= f_shift_3;
    end

    // The region whose digest the line is; any one.
    (* anyseq *) wire [63:0] f_region_va, f_region_length;
    wire [64:0] f_region_end = {1'b0, f_region_va} + {1'b0, f_region_length};
    wire [64:0] f_region_last = f_region_end - 65'd1;
    always @* begin
        assume (page_shift <= 18);
        assume (line_va == f_region_va);
        assume (line_is_empty == (f_region_length == 0));
        assume (f_region_length == 0 || line_last == f_region_last[63:0]);
        assume (line_wraps == (f_region_end > 65'h1_0000_0000_0000_0000));
        assume (line_base_page == ((f_region_va >> f_shift_3) >> 12));
        assume (line_is_bound_window == (line_is_window && line_is_bound && !line_is_direct));
        assume (!line_is_zero_based || !line_is_direct);
    end

    // Over integers of 66 bits.
    wire [65:0] f_end = {2'b0, f_va_3} + {34'b0, f_length_3};
    wire f_is_inside = {2'b0, f_va_3} >= {2'b0, f_region_va} && f_end <= {1'b0, f_region_end}
        && f_end <= 66'h1_0000_0000_0000_0000;
    wire f_is_within_memory = f_end <= 66'h1_0000_0000_0000_0000;
    wire f_is_remote = f_operation_3 >= 2 && f_operation_3 <= 4;
    wire f_region_wraps = f_region_end > 65'h1_0000_0000_0000_0000;
    wire f_has_moved = f_is_rebased_3 && !(line_is_zero_based && line_va == f_region_va_3);
    wire f_is_no_parent = f_is_parent_3 && (line_is_window || line_is_direct || line_is_zero_based);
    wire [7:0] f_found = f_has_moved ? 8'hb
        : f_key_3 != line_key ? 8'hc
        : ((line_is_window && !f_is_remote) || f_is_no_parent) ? 8'hd
        : (line_is_window && !line_is_bound) ? 8'he
        : f_pd_3 != line_pd ? 8'hf
        : (line_checks_qpn && f_qpn_3 != line_qpn) ? 8'h10
        : (!f_is_parent_3 && !line_allowed[f_operation_3]) ? 8'h11
        : (!line_is_direct && f_region_wraps) ? 8'h12
        : (!line_is_direct && line_too_large) ? 8'h13
        : (f_is_beyond_3 || (line_is_direct ? !f_is_within_memory : !f_is_inside)) ? 8'h14
        : (line_is_window && line_is_direct) ? 8'h15 : 8'h0;
    // Whatever is wrong with a parent has one status.
    wire [7:0] f_status = f_ends_3 ? f_early_3 : f_found == 0 ? 8'h0 : f_is_parent_3 ? 8'h15 : f_found;
    // Round once more: with the address rebased, or to the parent with what the window says.
    wire f_goes_rebased = line_is_zero_based && !f_is_rebased_3 && !f_is_parent_3;
    wire f_goes_round = !f_ends_3 && !f_is_parent_3 && (f_goes_rebased || line_is_bound_window);
    wire [64:0] f_own_va = {1'b0, f_va_3} + {1'b0, f_region_va};
    wire [63:0] f_page = (f_va_3 >> f_shift_3) >> 12;
    wire [63:0] f_base_page = (f_region_va >> f_shift_3) >> 12;
    wire [65:0] f_last = f_end - 66'd1;
    wire [63:0] f_last_page = (f_last[63:0] >> f_shift_3) >> 12;
    reg [7:0] f_status_4;
    reg f_is_translated_4, f_is_legal_4, f_goes_round_4, f_goes_rebased_4;
    reg [64:0] f_own_va_4;
    reg [63:0] f_given_va_4;
    reg [31:0] f_bound_key_4, f_given_key_4;
    reg [63:0] f_page_4, f_base_page_4, f_last_page_4;
    always @(posedge clk) begin
        f_status_4 <= f_status;
        f_is_translated_4 <= f_status == 0 && !f_ends_3 && !line_is_direct;
        f_is_legal_4 <= f_length_3 != 0 && f_length_3 <= 32'h8000_0000 && f_is_within_memory;
        {f_goes_round_4, f_goes_rebased_4} <= {f_goes_round, f_goes_rebased};
        {f_own_va_4, f_given_va_4} <= {f_own_va, f_va_3};
        {f_bound_key_4, f_given_key_4} <= {line_bound_key, f_key_3};
        f_page_4 <= f_page;
        f_base_page_4 <= f_base_page;
        f_last_page_4 <= f_last_page;
    end

    // How many cycles have passed since reset: the stages hold what came before it otherwise.
    reg [2:0] f_cycles = 0;
    always @(posedge clk) f_cycles <= !reset_n ? 0 : f_cycles < 4 ? f_cycles + 1'b1 : f_cycles;
    always @* if (f_cycles == 4 && checked_valid) begin
`ifdef F_STATUS
        status: assert (checked_status == f_status_4);
        translated: assert (checked_is_translated == f_is_translated_4);
        stays: assert (!f_goes_round_4);
`endif
`ifdef F_PAGES
        virtual_page: assert (checked_virtual_page == f_page_4[31:0]);
        index_of_page: assert (checked_page_index == f_page_4[31:0] - f_base_page_4[31:0]);
        // A legal request touches 2^19 + 1 pages at most, so that 20 bits tell how many.
        pages: assert (!f_is_legal_4 || {44'b0, checked_pages_minus_one} == f_last_page_4 - f_page_4);
        crosses: assert (!f_is_legal_4 || checked_may_have_more == (f_last_page_4 != f_page_4));
`endif
    end
    always @* if (f_cycles == 4 && again_valid) begin
`ifdef F_STATUS
        one_way: assert (!checked_valid);
        round: assert (f_goes_round_4);
        status_along: assert (again_status == (f_goes_rebased_4 ? 8'h0 : f_status_4));
        key_next: assert (again_key == (f_goes_rebased_4 ? f_given_key_4 : f_bound_key_4));
        va_next: assert (again_va == (f_goes_rebased_4 ? f_own_va_4[63:0] : f_given_va_4));
        beyond: assert (again_is_beyond == (f_goes_rebased_4 && f_own_va_4[64]));
        kind: assert (again_is_rebased == f_goes_rebased_4 && again_is_parent == !f_goes_rebased_4);
`endif
    end
`endif
