// Every answer that comes to the response port leaves it once, and beats of one response stay together.
//
// Assumed of its neighbours: no more than `@SINGLES@` single answers are under way (page_split.sv shows that it sends no more),
// and the segments of a response come in order: first, ..., last.
`ifdef FORMAL
    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
    always @* if (!f_started) assume (!reset_n);

    wire f_hit = looked_up_valid & ~looked_up_is_split & ~looked_up_is_miss;
    wire f_walk = result_valid & ~result_is_context & ~result_is_split;
    wire f_sent = response_valid & response_ready;
    wire f_segment = segment_valid & segment_ready;
    reg [5:0] f_singles, f_inside;
    reg f_in_response, f_out_open, f_in_open;
    always @(posedge clk)
        if (!reset_n) begin
            f_singles <= 0;
            f_inside <= 0;
            f_out_open <= 0;
            f_in_open <= 0;
            f_in_response <= 0;
        end else begin
            // Under way for the page split, and not yet answered by a last beat.
            f_singles <= f_singles + f_hit + f_walk - single_place_freed;
            f_inside <= f_inside + f_hit + f_walk + (f_segment & segment_last) - (f_sent & response_last);
            if (f_sent) f_out_open <= !response_last;
            if (f_segment) f_in_open <= !segment_last;
        end
    always @* begin
        assume (f_singles + f_hit + f_walk <= @SINGLES@);
        assume (!segment_valid || segment_first == !f_in_open);
    end

    (* hierconn *) wire [5:0] \hits.f_held ;
    (* hierconn *) wire [5:0] \walks.f_held ;
    always @* if (f_started) begin
        one_last: assert (f_inside == \hits.f_held + \walks.f_held + (out_valid & out_last));
        hits_have_room: assert (!hits_in_valid || hits_in_ready);
        walks_have_room: assert (!walk_came_next || walks_in_ready);
        singles: assert (f_singles == \hits.f_held + \walks.f_held + single_place_freed_q);
        first: assert (!response_valid || response_first == !f_out_open);
        open: assert (f_in_open == (out_valid ? !out_last : f_out_open));
        locks: assert (locked == f_in_open);
    end
`endif
