// From the state after its scrub: the TLB finds a page only if it was filled in under the same key, which contains the epochs, since the last flush.
//
// `f_key` is any one. Together with the fence, which gives no epochs out again before a flush, this is: after a completed
// invalidation nothing old is found.
`ifdef FORMAL
    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
    always @* if (!f_started) assume (!reset_n);

    localparam F_SET_BITS = $bits(pages_f1_set);
    localparam F_KEY_BITS = $bits(pages_f1_key);
    (* anyconst *) wire [F_KEY_BITS + F_SET_BITS - 1:0] f_key;
    wire [F_KEY_BITS + F_SET_BITS - 1:0] f_fill_key = {fill_epoch, fill_table_set, fill_mpt_index, fill_virtual_page};
    wire [F_KEY_BITS + F_SET_BITS - 1:0] f_piece_key = {piece_epoch, piece_table_set, piece_mpt_index, piece_virtual_page};
    // The MPT index lies above the virtual page.
    wire [F_SET_BITS - 1:0] f_set = f_key[F_SET_BITS - 1:0] ^ f_key[$bits(fill_virtual_page) +: F_SET_BITS];
    wire [F_KEY_BITS - 1:0] f_tag = f_key[F_KEY_BITS + F_SET_BITS - 1:F_SET_BITS];

    // It was filled in. A lookup that is under way at a flush may still find what was there before it.
    reg f_is_filled, f_flushed_1, f_s1_is_key, f_s2_is_key;
    always @(posedge clk)
        if (!reset_n) {f_is_filled, f_flushed_1, f_s1_is_key, f_s2_is_key} <= 0;
        else begin
            f_flushed_1 <= flush;
            f_is_filled <= (f_is_filled & ~f_flushed_1) | (fill_valid & f_fill_key == f_key);
            f_s1_is_key <= piece_valid & piece_is_translated & f_piece_key == f_key;
            f_s2_is_key <= f_s1_is_key;
        end

    (* anyseq *) wire f_any_way;
    wire f_busy = !pages_scrub_count[F_SET_BITS];
    wire f_is_clean = pages_scrub_count > {1'b0, f_set};
    // What the scrub after reset leaves.
    reg f_is_later = 1'b0;
    always @(posedge clk) f_is_later <= f_started;
    always @* if (f_started && !f_is_later) assume (!pages_tags_0[f_set][0] && !pages_tags_1[f_set][0]);
    always @* if (f_started) assume (reset_n);
    always @* if (f_started && !f_is_filled) begin
        found_was_filled: assert (!(f_s2_is_key && looked_up_valid && !looked_up_is_miss));
        held_was_filled: assert (!f_is_clean || !(pages_tags_0[f_set] == {f_tag, 1'b1} || pages_tags_1[f_set] == {f_tag, 1'b1}));
        fill_1: assert (!(pages_f1_valid && !f_busy && pages_f1_set == f_set && pages_f1_key == f_tag));
        fill_2: assert (!(pages_f2_valid && !f_busy && pages_f2_set == f_set && pages_f2_key == f_tag));
        read: assert (!(f_s1_is_key && pages_s1_valid && !f_busy)
            || !(pages_tags_0_read_0 == {f_tag, 1'b1} || pages_tags_1_read_0 == {f_tag, 1'b1}));
    end
    always @* if (f_started) begin
        key_1: assert (!f_s1_is_key || pages_s1_key == f_tag);
        set_1: assert (!f_s1_is_key || pages_s1_set == f_set);
        scrub_drops_fills: assert (!f_busy || ((pages_scrub_count == 0 || !pages_f1_valid)
            && (pages_scrub_count < 2 || !pages_f2_valid)));
        scrub_clears: assert (!(f_busy && f_is_clean) || !(pages_tags_0[f_set][0] || pages_tags_1[f_set][0]));
        flush_starts_scrub: assert (!f_flushed_1 || (f_busy && pages_scrub_count == 0));
    end
`endif
