// The split buffer sends exactly one last segment for each request that it finishes, framed as response_port.sv assumes, and
// never more segments than its queue has places. Not in hold mode, where whether anything is sent depends on the pieces.
`ifdef FORMAL
    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
    always @* if (!f_started) assume (!reset_n);
    always @* assume (!hold_mode);

    (* hierconn *) wire [5:0] \segment_queue.f_held ;
    // Requests that were finished, less last segments; a request that failed has sent its last before it is finished.
    reg [2:0] f_balance;
    reg f_is_inside, f_is_open;
    always @(posedge clk)
        if (!reset_n) {f_balance, f_is_inside, f_is_open} <= 0;
        else begin
            f_balance <= f_balance + finishes - (emits & open_last);
            if (taken) f_is_inside <= !d2_is_last;
            if (emitted) f_is_open <= !emitted_last;
        end
    wire [2:0] f_due = {2'b0, open_valid & open_last} - {2'b0, f_is_inside & skip};
    always @* if (f_started) begin
        one_last: assert (f_balance == f_due);
        framed: assert (!emitted || emitted_first == !f_is_open);
        room: assert (!emitted || segment_queue_in_ready);
        skips_inside: assert (!skip || f_is_inside);
        continues_inside: assert (!continues || (f_is_inside && !skip));
        inside_continues: assert (!(f_is_inside && !skip) || continues);
        framed_next: assert (!open_valid || open_first == !(emitted ? !emitted_last : f_is_open));
        framed_end: assert (open_valid || !(emitted ? !emitted_last : f_is_open));
        places: assert ({1'b0, output_places_count} == 6'd16 - \segment_queue.f_held - {5'b0, segment_taken});
        in_time: assert (!output_places_available || output_places_count >= 2);
        in_time_too: assert (!emitted || output_places_count >= 1);
    end
`endif
