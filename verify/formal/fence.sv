// The fence, from the state after its scrub and with any epochs: a completion comes only when the generation has changed since
// the invalidation was accepted and everything of the old one has been finished; the epochs of what it named have changed
// then, and are later in the order in which they are given out.
//
// Followed are the `f_number`-th of three invalidations and the bucket `f_bucket` of table set 0, any ones. Assumed: what the engine
// reports as accepted or finished carries its generation, accepted at most three cycles after it was sampled; nothing finishes
// that was not accepted; functions have table set 0; context requests and requests without an end are left out.
`ifdef FORMAL
    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
    always @* if (!f_started) assume (!reset_n);
    always @* if (f_started) assume (reset_n);

    localparam F_BUCKET_BITS = $bits(epochs_read_0_address) - 1;
    (* anyconst *) wire [F_BUCKET_BITS - 1:0] f_bucket;
    (* anyconst *) wire [7:0] f_bucket_epoch;
    (* anyconst *) wire [5:0] f_set_epoch;
    (* anyconst *) wire [3:0] f_number;

    // Registers of software do not change.
    (* anyconst *) wire [23:0] f_mask;
    always @* assume (mpt_mask_0 == f_mask);

    // The epochs of the bucket, one of each generation. What the scrub leaves, but changed any number of times.
    (* anyseq *) wire [15:0] f_any_epochs;
    (* anyseq *) wire [7:0] f_other_epoch;
    reg [7:0] f_epoch_0, f_epoch_1;
    wire f_reads_bucket = epochs_read_2_address[F_BUCKET_BITS - 1:0] == f_bucket;
    wire [7:0] f_epochs_read =
        !f_reads_bucket ? f_other_epoch : epochs_read_2_address[F_BUCKET_BITS] ? f_epoch_1 : f_epoch_0;
    wire f_writes_bucket = epochs_write_enable && epochs_write_address[F_BUCKET_BITS - 1:0] == f_bucket;
    always @(posedge clk)
        if (!reset_n) {f_epoch_0, f_epoch_1} <= {f_bucket_epoch, f_bucket_epoch};
        else if (f_writes_bucket) begin
            if (epochs_write_address[F_BUCKET_BITS]) f_epoch_1 <= epochs_write_value;
            else f_epoch_0 <= epochs_write_value;
        end
    always @* assume (!function_map_write_valid && !long_opened && !context_accepted && !context_finished);

    // Requests of each generation that were accepted and are not finished; and those that are not reported done besides. The
    // block's counts of reports (RAM) are left out: `f_report_0` and `f_report_1` are reports, any ones, as matched.
    reg [3:0] f_open_0, f_open_1, f_unreported_0, f_unreported_1;
    (* anyseq *) wire f_report_0, f_report_1;
    reg f_generation_1, f_generation_2, f_generation_3;
    wire f_accepted_0 = request_accepted & ~request_accepted_generation;
    wire f_accepted_1 = request_accepted & request_accepted_generation;
    wire f_finished_0 = response_finished & ~finished_generation;
    wire f_finished_1 = response_finished & finished_generation;
    always @(posedge clk)
        if (!reset_n) begin
            {f_open_0, f_open_1, f_unreported_0, f_unreported_1} <= 0;
            {f_generation_1, f_generation_2, f_generation_3} <= 0;
        end else begin
            f_open_0 <= f_open_0 + f_accepted_0 - f_finished_0;
            f_open_1 <= f_open_1 + f_accepted_1 - f_finished_1;
            f_unreported_0 <= f_unreported_0 + f_finished_0 - f_report_0;
            f_unreported_1 <= f_unreported_1 + f_finished_1 - f_report_1;
            {f_generation_1, f_generation_2, f_generation_3} <= {generation, f_generation_1, f_generation_2};
        end
    always @* begin
        assume (!f_finished_0 || f_open_0 != 0);
        assume (!f_finished_1 || f_open_1 != 0);
        assume (!f_report_0 || f_unreported_0 != 0);
        assume (!f_report_1 || f_unreported_1 != 0);
        assume (!request_accepted || (ready && (request_accepted_generation == f_generation_1
            || request_accepted_generation == f_generation_2 || request_accepted_generation == f_generation_3)));
        assume (!request_accepted || (f_open_0 < 2 && f_open_1 < 2 && f_unreported_0 < 2 && f_unreported_1 < 2));
    end

    // Epochs under which a request of the bucket and table set would be admitted.
    wire [7:0] f_bucket_now = generation_q ? f_epoch_1 : f_epoch_0;
    wire [13:0] f_epoch = {set_epoch_0, f_bucket_now};

    // The invalidation that is followed.
    reg [3:0] f_accepts, f_completes;
    reg f_is_followed, f_names_bucket, f_names_set, f_old, f_is_flipped, f_is_drained;
    reg [13:0] f_old_epoch;
    reg [15:0] f_tag;
    reg [23:0] f_index;
    wire f_accept = invalidate_valid & invalidate_ready;
    wire f_complete = invalidated_valid & invalidated_ready;
    wire f_is_it = f_accept && f_accepts == f_number;
    wire f_is_flipped_now = f_is_flipped || (f_is_followed && generation != f_old);
    reg [2:0] f_settled;
    always @(posedge clk)
        if (!reset_n) begin
            {f_accepts, f_completes, f_is_followed, f_is_flipped, f_is_drained, f_settled} <= 0;
        end else begin
            f_accepts <= f_accepts + f_accept;
            f_completes <= f_completes + f_complete;
            if (f_is_it) begin
                f_is_followed <= 1;
                f_tag <= invalidate_tag;
                f_index <= invalidate_key[31:8];
                f_names_bucket <= invalidate_scope < 2;
                f_names_set <= invalidate_scope >= 3;
                f_old <= generation;
                f_old_epoch <= f_epoch;
            end
            f_is_flipped <= f_is_flipped_now;
            f_settled <= !f_is_flipped_now ? 0 : f_settled < 4 ? f_settled + 1'b1 : f_settled;
            if (f_settled == 4 && (f_old ? f_open_1 : f_open_0) == 0
                && (f_old ? f_unreported_1 : f_unreported_0) == 0) f_is_drained <= 1;
        end
    wire f_is_completed = f_is_followed && invalidated_valid && f_completes == f_number;
    // The bucket of an index of table set 0.
    wire f_is_of_bucket = f_bucket == ((f_index & mpt_mask_0) % 24'd@BUCKETS@);
    always @* begin
        assume (f_number < 3 && (f_accepts < 3 || !invalidate_valid));
    end
    // A flush starts the order again; it is looked at until the first.
    reg f_is_flushed;
    always @(posedge clk) f_is_flushed <= reset_n & (f_is_flushed | flush);
    always @* if (f_started) begin
        tag: assert (!f_is_completed || invalidated_tag == f_tag);
        was_asked: assert (!invalidated_valid || f_completes != f_accepts);
        flipped: assert (!f_is_completed || f_is_flipped);
        all_finished: assert (!f_is_completed || f_is_drained);
        bucket_changed: assert (!(f_is_completed && f_names_bucket && f_is_of_bucket) || f_epoch != f_old_epoch);
        set_changed: assert (!(f_is_completed && f_names_set) || set_epoch_0 != f_old_epoch[13:8]);
        later: assert (!f_is_followed || f_is_flushed || f_epoch >= f_old_epoch);
        wrap_is_behind_flush: assert (!(flip && set_change_0 && set_epoch_0 == 6'h3f) || f_is_flushed);
    end
`endif
