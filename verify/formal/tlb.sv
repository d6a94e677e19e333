// Property of the TLB: what it finds was filled in under the same key, which contains the epochs, since the last flush.
//
// `f_key` and `f_page` are any ones. Together with the fence (which gives no epochs out again before a flush) this is: after
// a completed invalidation nothing old is found.
`ifdef FORMAL
    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
    always @* if (!f_started) assume (!reset_n);

    localparam F_SET_BITS = $bits(pages_f1_set);
    localparam F_KEY_BITS = $bits(pages_f1_key);
    (* anyconst *) wire [F_KEY_BITS + F_SET_BITS - 1:0] f_key;
    (* anyconst *) wire [$bits(fill_page) - 1:0] f_page;
    wire [F_KEY_BITS + F_SET_BITS - 1:0] f_fill_key = {fill_epoch, fill_table_set, fill_mpt_index, fill_virtual_page};
    wire [F_KEY_BITS + F_SET_BITS - 1:0] f_piece_key = {piece_epoch, piece_table_set, piece_mpt_index, piece_virtual_page};
    // The MPT index lies above the virtual page.
    wire [F_SET_BITS - 1:0] f_set = f_key[F_SET_BITS - 1:0] ^ f_key[$bits(fill_virtual_page) +: F_SET_BITS];
    wire [F_KEY_BITS - 1:0] f_tag = f_key[F_KEY_BITS + F_SET_BITS - 1:F_SET_BITS];

    // It was filled in. A lookup that is under way at a flush may still find what was there before it.
    reg f_is_filled, f_flushed_1;
    reg f_s1_is_key, f_s2_is_key;
    always @(posedge clk)
        if (!reset_n) begin
            f_is_filled <= 0;
            f_flushed_1 <= 0;
            f_s1_is_key <= 0;
            f_s2_is_key <= 0;
        end else begin
            f_flushed_1 <= flush;
            f_is_filled <= (f_is_filled & ~f_flushed_1) | (fill_valid & f_fill_key == f_key & fill_page == f_page);
            f_s1_is_key <= piece_valid & piece_is_translated & f_piece_key == f_key;
            f_s2_is_key <= f_s1_is_key;
        end

    wire f_is_clean = pages_scrub_count > {1'b0, f_set};
    wire f_busy = !pages_scrub_count[F_SET_BITS];
    wire f_value_0 = pages_tags_0[f_set] == {f_tag, 1'b1} && pages_values_0[f_set] == f_page;
    wire f_value_1 = pages_tags_1[f_set] == {f_tag, 1'b1} && pages_values_1[f_set] == f_page;
    always @* if (f_started && !f_is_filled) begin
        found_was_filled: assert (!(f_s2_is_key && looked_up_valid && !looked_up_is_miss)
            || (pages_s2_value_0 | pages_s2_value_1) != f_page);
        held_was_filled: assert (!f_is_clean || !(f_value_0 || f_value_1));
        fill_1: assert (!(pages_f1_valid && !f_busy && pages_f1_set == f_set && pages_f1_key == f_tag) || pages_f1_value != f_page);
        fill_2: assert (!(pages_f2_valid && !f_busy && pages_f2_set == f_set && pages_f2_key == f_tag) || pages_f2_value != f_page);
        read_0: assert (!(f_s1_is_key && pages_s1_valid && !f_busy && pages_tags_0_read_0 == {f_tag, 1'b1}) || pages_values_0_read_0 != f_page);
        read_1: assert (!(f_s1_is_key && pages_s1_valid && !f_busy && pages_tags_1_read_0 == {f_tag, 1'b1}) || pages_values_1_read_0 != f_page);
    end
    always @* if (f_started && f_s2_is_key && !f_is_filled) begin
        way_0: assert (!(pages_s2_counts && pages_s2_matches_0) || pages_s2_value_0 != f_page);
        way_1: assert (!(pages_s2_counts && !pages_s2_matches_0 && pages_s2_matches_1) || pages_s2_value_1 != f_page);
    end
    always @* if (f_started) begin
        only_way_0: assert (!(pages_s2_counts && pages_s2_matches_0) || pages_s2_value_1 == 0);
        only_way_1: assert (!(pages_s2_counts && !pages_s2_matches_0) || pages_s2_value_0 == 0);
        key_1: assert (!f_s1_is_key || pages_s1_key == f_tag);
        set_1: assert (!f_s1_is_key || pages_s1_set == f_set);
        flush_starts_scrub: assert (!f_flushed_1 || (f_busy && pages_scrub_count == 0));
    end
`endif
