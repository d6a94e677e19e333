// The MPT cache: no two ways of a set hold the same owner, so that no two hit.
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
`endif
