// Properties of a cache of hdl/src/prim/cache.rs with two ways, named `@CACHE@` in its block: no two ways of a set hold keys
// that a fill does not tell apart, so that no two hit. `@FILLS@` is the read port of fills. Where lookups compare the whole
// key, `@KEY@` in the cycle after they begin, a hit is of what was last filled under the very key, its epochs included, and
// since the last flush: so of nothing that an epoch or a flush has made invalid.
//
// `f_set` is any one set; what is shown of it holds of all.
`ifdef FORMAL
`define F_COMPACT_compact
    localparam F_SET_BITS = $bits(@CACHE@_f1_set);
    localparam F_PART_BITS = $bits(@CACHE@_f2_part);
    localparam F_KEY_BITS = $bits(@CACHE@_f1_key);

    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
    always @* if (!f_started) assume (!reset_n);

    (* anyconst *) wire [F_SET_BITS - 1:0] f_set;
    wire f_busy = !@CACHE@_scrub_count[F_SET_BITS];
    wire f_is_clean = @CACHE@_scrub_count > {1'b0, f_set};
    wire [F_PART_BITS:0] f_part_0 = @CACHE@_parts_0[f_set];
    wire [F_PART_BITS:0] f_part_1 = @CACHE@_parts_1[f_set];

    // What fills compare of the keys of both stages.
    reg [F_PART_BITS - 1:0] f_fold_read, f_fold_fill;
    integer f_bit;
    always @* begin
        f_fold_read = 0;
        f_fold_fill = 0;
        for (f_bit = 0; f_bit < F_KEY_BITS; f_bit = f_bit + 1) begin
            f_fold_read[f_bit % F_PART_BITS] = f_fold_read[f_bit % F_PART_BITS] ^ @CACHE@_f1_key[f_bit];
            f_fold_fill[f_bit % F_PART_BITS] = f_fold_fill[f_bit % F_PART_BITS] ^ @CACHE@_f2_key[f_bit];
        end
    end

    always @* if (f_started) begin
        ways_differ: assert (!f_is_clean || !(f_part_0[0] && f_part_0 == f_part_1));
        fill_differs: assert (!(@CACHE@_f2_valid && @CACHE@_f2_set == f_set && f_is_clean)
            || (@CACHE@_f2_way ? f_part_0 : f_part_1) != {@CACHE@_f2_part, 1'b1});
        part_of_read: assert (!@CACHE@_f1_valid || @CACHE@_f1_part == f_fold_read);
        part_of_fill: assert (!@CACHE@_f2_valid || @CACHE@_f2_part == f_fold_fill);
        fill_read: assert (!(@CACHE@_f1_valid && @CACHE@_f1_set == f_set && !f_busy)
            || (@CACHE@_parts_0_@FILLS@ == f_part_0 && @CACHE@_parts_1_@FILLS@ == f_part_1));
        scrub_drops_fills: assert (!f_busy || ((@CACHE@_scrub_count == 0 || !@CACHE@_f1_valid)
            && (@CACHE@_scrub_count < 2 || !@CACHE@_f2_valid)));
        scrub_range: assert (f_busy || @CACHE@_scrub_count[F_SET_BITS - 1:0] == 0);
    end
`ifdef F_COMPACT_@KIND@
    // Both ways are read for a lookup, and compared in the next cycle. In the last cycle of a scrub the last set still reads
    // as it was before, and the lookup counts: assumed is that none comes then. The fence lets nothing in until the caches
    // are ready.
    reg f_was_busy;
    always @(posedge clk) f_was_busy <= f_busy;
    always @* assume (!(f_was_busy && !f_busy && @CACHE@_s1_valid));
    always @* if (f_started && @CACHE@_s1_valid && @CACHE@_s1_set == f_set && !f_busy) begin
        one_hit: assert (!(@CACHE@_parts_0_@LOOKUPS@[0] && @CACHE@_parts_0_@LOOKUPS@ == @CACHE@_parts_1_@LOOKUPS@));
    end
`else
    wire [F_KEY_BITS:0] f_tag_0 = @CACHE@_tags_0[f_set];
    wire [F_KEY_BITS:0] f_tag_1 = @CACHE@_tags_1[f_set];
    reg [F_PART_BITS - 1:0] f_folded_0, f_folded_1;
    always @* begin
        f_folded_0 = 0;
        f_folded_1 = 0;
        for (f_bit = 0; f_bit < F_KEY_BITS; f_bit = f_bit + 1) begin
            f_folded_0[f_bit % F_PART_BITS] = f_folded_0[f_bit % F_PART_BITS] ^ f_tag_0[f_bit + 1];
            f_folded_1[f_bit % F_PART_BITS] = f_folded_1[f_bit % F_PART_BITS] ^ f_tag_1[f_bit + 1];
        end
    end
    always @* if (f_started) begin
        part_of_tag_0: assert (!f_is_clean
            || (f_tag_0[0] == f_part_0[0] && (!f_tag_0[0] || f_part_0[F_PART_BITS:1] == f_folded_0)));
        part_of_tag_1: assert (!f_is_clean
            || (f_tag_1[0] == f_part_1[0] && (!f_tag_1[0] || f_part_1[F_PART_BITS:1] == f_folded_1)));
        read_differs: assert (!(@CACHE@_s1_valid && @CACHE@_s1_set == f_set)
            || !(@CACHE@_tags_0_read_0[0] && @CACHE@_tags_0_read_0 == @CACHE@_tags_1_read_0));
        one_hit: assert (!(@CACHE@_s2_counts && @CACHE@_s2_set == f_set)
            || !(@CACHE@_s2_matches_0 && @CACHE@_s2_matches_1));
    end

    // What was last filled under one key, any one, and that of one and two cycles before.
    localparam F_VALUE_BITS = $bits(@CACHE@_f2_value);
    (* anyconst *) wire [F_KEY_BITS - 1:0] f_key;
    reg f_has, f_has_1, f_has_2, f_is_asked;
    reg [F_VALUE_BITS - 1:0] f_value, f_value_1, f_value_2;
    wire [F_VALUE_BITS - 1:0] f_value_of_0 = @CACHE@_values_0[f_set];
    wire [F_VALUE_BITS - 1:0] f_value_of_1 = @CACHE@_values_1[f_set];
    always @(posedge clk) begin
        f_is_asked <= reset_n && @CACHE@_s1_valid && @CACHE@_s1_set == f_set && @KEY@ == f_key;
        {f_has_1, f_has_2, f_value_1, f_value_2} <= {f_has, f_has_1, f_value, f_value_1};
        if (!reset_n || f_busy) f_has <= 0;
        else if (@CACHE@_f2_valid && @CACHE@_f2_set == f_set && @CACHE@_f2_key == f_key) begin
            f_has <= 1;
            f_value <= @CACHE@_f2_value;
        end
    end
    always @* if (f_started) begin
        held_0: assert (!(f_is_clean && f_tag_0 == {f_key, 1'b1}) || (f_has && f_value_of_0 == f_value));
        held_1: assert (!(f_is_clean && f_tag_1 == {f_key, 1'b1}) || (f_has && f_value_of_1 == f_value));
        read_0: assert (!(@CACHE@_s1_valid && @CACHE@_s1_set == f_set && @CACHE@_tags_0_read_0 == {f_key, 1'b1})
            || (f_has_1 && @CACHE@_values_0_read_0 == f_value_1));
        read_1: assert (!(@CACHE@_s1_valid && @CACHE@_s1_set == f_set && @CACHE@_tags_1_read_0 == {f_key, 1'b1})
            || (f_has_1 && @CACHE@_values_1_read_0 == f_value_1));
        nothing_stale: assert (!(f_is_asked && @CACHE@_s2_counts && (@CACHE@_s2_matches_0 || @CACHE@_s2_matches_1))
            || (f_has_2 && (@CACHE@_s2_value_0 | @CACHE@_s2_value_1) == f_value_2));
    end
`endif
`endif
