// The MPT cache: no two ways of a set hold the same owner, so that no two hit; and a hit is of the last fill of its owner,
// since the last flush, under the epochs of the lookup: those of its region and, of PDs, either that of its bucket or that of
// all. So it is of nothing that an epoch or a flush has made invalid.
//
// `f_set` is any one set.
`ifdef FORMAL
    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
    always @* if (!f_started) assume (!reset_n);

    localparam F_SET_BITS = $bits(f1_set);
    localparam F_OWNER_BITS = $bits(owners_0_read_0);
    (* anyconst *) wire [F_SET_BITS - 1:0] f_set;
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

    // The last fill of one owner, any one, and what it was a cycle before.
    localparam F_EPOCH_BITS = $bits(f1_epoch);
    (* anyconst *) wire [F_OWNER_BITS - 1:0] f_owner;
    wire f_is_filled = f1_valid && !f_busy && f1_set == f_set && {f1_index, f1_table_set, 1'b1} == f_owner;
    // Whether it is of another bucket's PD, above its epochs.
    reg [F_EPOCH_BITS:0] f_fill, f_fill_1;
    reg f_has, f_has_1, f_is_asked, f_may_hit;
    wire [F_EPOCH_BITS - 1:0] f_agrees = ~(f_fill_1[F_EPOCH_BITS - 1:0] ^ lookup_epoch ^ late_epoch);
    // Epochs from below: region 8, PD 8, table set 6, the rest of the PD's, all PDs 8.
    wire f_region_agrees = &f_agrees[7:0] && &f_agrees[21:16];
    wire f_pd_agrees = &f_agrees[15:8] && &f_agrees[F_EPOCH_BITS - 9:22] && !f_fill_1[F_EPOCH_BITS];
    wire f_any_pd_agrees = &f_agrees[F_EPOCH_BITS - 1:F_EPOCH_BITS - 8];
    wire [F_EPOCH_BITS:0] f_fill_of_0 = f_tag_0[F_OWNER_BITS + F_EPOCH_BITS:F_OWNER_BITS];
    wire [F_EPOCH_BITS:0] f_fill_of_1 = f_tag_1[F_OWNER_BITS + F_EPOCH_BITS:F_OWNER_BITS];
    always @* assume (!lookup_valid || lookup_index[F_SET_BITS - 1:0] == s1_set);
    always @(posedge clk) begin
        {f_has_1, f_fill_1} <= {f_has, f_fill};
        f_is_asked <= s1_set == f_set && {lookup_index[23:F_SET_BITS], lookup_table_set, 1'b1} == f_owner;
        f_may_hit <= f_has_1 && f_region_agrees && (f_pd_agrees || f_any_pd_agrees);
        if (!reset_n || f_busy) f_has <= 0;
        else if (f_is_filled) {f_has, f_fill} <= {1'b1, f1_is_foreign, f1_epoch};
    end
    always @* if (f_started && f_owner[0]) begin
        held_0: assert (!(f_is_clean && f_owner_0 == f_owner) || (f_has && f_fill_of_0 == f_fill));
        held_1: assert (!(f_is_clean && f_owner_1 == f_owner) || (f_has && f_fill_of_1 == f_fill));
        read_0: assert (!(!s1_busy && !f_busy && s1_set == f_set && tags_0_read_0[F_OWNER_BITS - 1:0] == f_owner)
            || (f_has_1 && tags_0_read_0[F_OWNER_BITS + F_EPOCH_BITS:F_OWNER_BITS] == f_fill_1));
        read_1: assert (!(!s1_busy && !f_busy && s1_set == f_set && tags_1_read_0[F_OWNER_BITS - 1:0] == f_owner)
            || (f_has_1 && tags_1_read_0[F_OWNER_BITS + F_EPOCH_BITS:F_OWNER_BITS] == f_fill_1));
        nothing_stale: assert (!(s2_found && f_is_asked) || f_may_hit);
    end
`endif
