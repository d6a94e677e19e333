// The MPT cache: no two ways of a set hold the same owner, so that no two hit; what it finds was filled in under the same
// epochs, table set and index since the last flush.
//
// `f_set` is any one set; `f_index`, `f_table_set`, `f_epoch` and `f_line_key` (for the line) are any ones.
`ifdef FORMAL
    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
    always @* if (!f_started) assume (!reset_n);

    localparam F_SET_BITS = $bits(f1_set);
    localparam F_OWNER_BITS = $bits(owners_0_read_0);
    localparam F_EPOCH_BITS = $bits(fill_epoch);
    (* anyconst *) wire [$bits(fill_index) - 1:0] f_index;
    (* anyconst *) wire [$bits(fill_table_set) - 1:0] f_table_set;
    (* anyconst *) wire [F_EPOCH_BITS - 1:0] f_epoch;
    (* anyconst *) wire [31:0] f_line_key;
    wire [F_SET_BITS - 1:0] f_set = f_index[F_SET_BITS - 1:0];
    // As a tag holds it, below the page shift.
    wire [F_OWNER_BITS + F_EPOCH_BITS - 1:0] f_tag =
        {f_epoch, f_index[$bits(fill_index) - 1:F_SET_BITS], f_table_set, 1'b1};
    wire f_busy = !scrub_count[F_SET_BITS];
    wire f_is_clean = scrub_count > {1'b0, f_set};
    wire [$bits(tags_0_read_0) - 1:0] f_tag_0 = tags_0[f_set];
    wire [$bits(tags_0_read_0) - 1:0] f_tag_1 = tags_1[f_set];
    wire [F_OWNER_BITS - 1:0] f_owner_0 = owners_0[f_set];
    wire [F_OWNER_BITS - 1:0] f_owner_1 = owners_1[f_set];

    always @* if (f_started) begin
        ways_differ: assert (!f_is_clean || !(f_owner_0[0] && f_owner_0 == f_owner_1));
        tags_are_owners: assert (!f_is_clean
            || (f_tag_0[F_OWNER_BITS - 1:0] == f_owner_0 && f_tag_1[F_OWNER_BITS - 1:0] == f_owner_1));
        fill_read: assert (!(f1_valid && f1_set == f_set && !f_busy)
            || (owners_0_read_0 == f_owner_0 && owners_1_read_0 == f_owner_1));
        one_hit: assert (!(!s1_busy && !f_busy && s1_set == f_set)
            || !(tags_0_read_0[0] && tags_0_read_0[F_OWNER_BITS - 1:0] == tags_1_read_0[F_OWNER_BITS - 1:0]));
        scrub_drops_fills: assert (!f_busy || scrub_count == 0 || !f1_valid);
        fills_differ: assert (!(f1_valid && f2_valid && f1_set == f2_set));
    end

    // The lookup comes a cycle after its index.
    reg [$bits(early_index) - 1:0] f_early_index;
    always @(posedge clk) f_early_index <= early_index;
    always @* assume (lookup_index == f_early_index);

    // The fill of the chosen entry on its way; its line comes three cycles later.
    reg f_fill_1, f_fill_2, f_fill_3, f_is_filled, f_s2_is_it, f_s3_is_it, f_flushed_1, f_flushed_2;
    wire f_fills = fill_valid && fill_index == f_index && fill_table_set == f_table_set && fill_epoch == f_epoch;
    wire f_looks = lookup_valid && lookup_is_replay && lookup_index == f_index && lookup_table_set == f_table_set
        && lookup_epoch[F_EPOCH_BITS - 1:0] == f_epoch;
    always @(posedge clk)
        if (!reset_n) {f_fill_1, f_fill_2, f_fill_3, f_is_filled, f_s2_is_it, f_s3_is_it, f_flushed_1, f_flushed_2} <= 0;
        else begin
            {f_flushed_1, f_flushed_2} <= {flush, f_flushed_1};
            f_fill_1 <= f_fills;
            f_fill_2 <= f_fill_1;
            f_fill_3 <= f_fill_2;
            f_is_filled <= (f_is_filled & ~f_flushed_2) | (f_fill_3 & fill_line_key == f_line_key);
            f_s2_is_it <= f_looks;
            f_s3_is_it <= f_s2_is_it & found;
        end

    wire f_is_0 = f_is_clean && f_tag_0[F_OWNER_BITS + F_EPOCH_BITS - 1:0] == f_tag;
    wire f_is_1 = f_is_clean && f_tag_1[F_OWNER_BITS + F_EPOCH_BITS - 1:0] == f_tag;
    wire f_holds_0 = lines_0[{f_set, 1'b0}][31:0] == f_line_key;
    wire f_holds_1 = lines_0[{f_set, 1'b1}][31:0] == f_line_key;
    wire f_writes_2_0 = f2_valid && f2_set == f_set && !f2_way;
    wire f_writes_2_1 = f2_valid && f2_set == f_set && f2_way;
    wire f_writes_3_0 = f3_valid && f3_set == f_set && !f3_way;
    wire f_writes_3_1 = f3_valid && f3_set == f_set && f3_way;
    wire f_read_0 = !s1_busy && !f_busy && s1_set == f_set && tags_0_read_0[F_OWNER_BITS + F_EPOCH_BITS - 1:0] == f_tag;
    wire f_read_1 = !s1_busy && !f_busy && s1_set == f_set && tags_1_read_0[F_OWNER_BITS + F_EPOCH_BITS - 1:0] == f_tag;
    always @* if (f_started) begin
        fill_1: assert (!(f1_valid && f1_set == f_set && {f1_epoch, f1_index, f1_table_set, 1'b1} == f_tag) || f_fill_1);
        fill_2_0: assert (!(f_writes_2_0 && f_is_0) || f_fill_2);
        fill_2_1: assert (!(f_writes_2_1 && f_is_1) || f_fill_2);
        fill_3_0: assert (!(f_writes_3_0 && f_is_0) || f_fill_3);
        fill_3_1: assert (!(f_writes_3_1 && f_is_1) || f_fill_3);
        read_of_fill_0: assert (!(f_writes_3_0 && f_read_0) || f_fill_3);
        read_of_fill_1: assert (!(f_writes_3_1 && f_read_1) || f_fill_3);
    end
    always @* if (f_started && !f_is_filled) begin
        held_0: assert (!(f_is_0 && f_holds_0 && !f_writes_2_0 && !f_writes_3_0));
        held_1: assert (!(f_is_1 && f_holds_1 && !f_writes_2_1 && !f_writes_3_1));
        read_0: assert (!(f_read_0 && f_holds_0 && !f_writes_3_0));
        read_1: assert (!(f_read_1 && f_holds_1 && !f_writes_3_1));
        found_0: assert (!(f_s2_is_it && s2_found && !s2_way && s2_set == f_set && f_holds_0));
        found_1: assert (!(f_s2_is_it && s2_found && s2_way && s2_set == f_set && f_holds_1));
        found_was_filled: assert (!f_s3_is_it || line_key != f_line_key);
    end
    always @* if (f_started) begin
        set_of_lookup: assert (!f_s2_is_it || s2_set == f_set);
        set_of_index: assert (s1_set == f_early_index[F_SET_BITS - 1:0]);
    end
`endif
