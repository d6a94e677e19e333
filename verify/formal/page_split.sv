// The page split keeps its promises to the blocks behind it, and cuts each request into pieces with exactly one last.
//
// Assumed of its neighbours: no request comes without a place (key_decoder's credit), and nothing is given back that was not
// taken. What it promises: no more single answers, walks, or slots of a long request are under way than there are places
// (`@SINGLES@`, `@WALKS@`, `@SLOTS@` of each of two turns), a long request opens when every slot of its turn is free, and no
// split context is opened while it is in use.
`ifdef FORMAL
    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
    always @* if (!f_started) assume (!reset_n);

    reg [5:0] f_places, f_singles, f_walks, f_slots_0, f_slots_1, f_requests;
    reg [3:0] f_contexts;
    reg f_turn;
    wire f_takes_single = piece_valid & ~piece_is_split;
    wire f_takes_slot = piece_valid & piece_is_long;
    wire f_opens = piece_valid & piece_is_split & piece_is_first;
    wire f_opens_long = f_opens & piece_is_long;
    always @(posedge clk)
        if (!reset_n) begin
            {f_places, f_singles, f_walks, f_slots_0, f_slots_1, f_requests} <= 0;
            f_contexts <= 0;
            f_turn <= 0;
        end else begin
            f_places <= f_places + checked_valid - place_freed;
            f_singles <= f_singles + f_takes_single - single_place_freed;
            f_walks <= f_walks + piece_valid - walk_ended - walk_unused;
            f_slots_0 <= f_slots_0 + (f_takes_slot & ~f_turn) - (slot_freed & ~slot_freed_turn);
            f_slots_1 <= f_slots_1 + (f_takes_slot & f_turn) - (slot_freed & slot_freed_turn);
            f_requests <= f_requests + checked_valid - (piece_valid & piece_is_last);
            f_contexts <= (f_contexts | ({3'b0, f_opens} << piece_split_context)) & ~({3'b0, context_freed} << context_freed_number);
            f_turn <= f_turn ^ (f_takes_slot & piece_is_last);
        end
    always @* begin
        // The first requests come when the list of contexts is filled.
        assume (!checked_valid || (ready && f_places < @PLACES@));
        assume (!single_place_freed || f_singles != 0);
        assume (f_walks >= {5'b0, walk_ended} + {5'b0, walk_unused});
        assume (!slot_freed || (slot_freed_turn ? f_slots_1 : f_slots_0) != 0);
        assume (!context_freed || f_contexts[context_freed_number]);
        // A request of several pages is translated, and none has so many pages that the count wraps.
        assume (!checked_valid || !(checked_may_have_more && checked_is_translated) || checked_pages_minus_one != 0);
    end

    (* hierconn *) wire [5:0] \queue.f_held ;
    (* hierconn *) wire [3:0] \contexts.f_out ;
    reg [4:0] f_room;
    always @* f_room = 5'd@PLACES@ - \queue.f_held [4:0] - {4'b0, popped};
    always @* if (f_started) begin
        singles: assert (f_singles <= @SINGLES@);
        walks: assert (f_walks <= @WALKS@);
        slots: assert (f_slots_0 <= @SLOTS@ && f_slots_1 <= @SLOTS@);
        context_is_free: assert (!f_opens || !f_contexts[piece_split_context]);
        opens_with_all_slots: assert (!f_opens_long || (f_turn ? f_slots_1 : f_slots_0) == 0);
        one_last: assert (f_requests == \queue.f_held + current_valid);
        queue_has_room: assert (!pushes || queue_in_ready);
        places: assert (f_places == \queue.f_held + place_freed_q);
        single_count: assert ({1'b0, single_credit_count} == 6'd@SINGLES@ - f_singles);
        walk_count: assert ({3'b0, walk_credit_count} == 6'd@WALKS@ - f_walks);
        slot_count_0: assert ({2'b0, long_slots_0_count} == 6'd@SLOTS@ - f_slots_0);
        slot_count_1: assert ({2'b0, long_slots_1_count} == 6'd@SLOTS@ - f_slots_1);
        context_list: assert (f_contexts == \contexts.f_out );
        turn: assert (f_turn == long_turn);
        room: assert (places_count == f_room);
        single_in_time: assert (!single_credit_available || single_credit_count != 0);
        walk_in_time: assert (!walk_credit_available || walk_credit_count != 0);
        all_in_time_0: assert (!long_slots_0_full || f_slots_0 == 0);
        all_in_time_1: assert (!long_slots_1_full || f_slots_1 == 0);
        slot_in_time: assert (!(current_valid && current_is_long && has_slot)
            || (f_turn ? f_slots_1 : f_slots_0) < (current_is_opening ? 1 : @SLOTS@));
        answer_in_time: assert (!may_answer || (single_credit_count != 0 && walk_credit_count != 0));
        opening: assert (!current_valid || current_is_opening == (current_is_first & current_is_split));
        long_is_split: assert (!(current_valid && current_is_long) || current_is_split);
        single_is_last: assert (!current_valid || current_is_split || (current_is_first && current_is_last));
        busy_when_ready: assert (ready || (f_places == 0 && !current_valid));
    end

    // Pieces of one request: its context stays, its slots follow each other, and nothing comes between them.
    reg f_is_open;
    reg [1:0] f_context;
    reg [2:0] f_slot;
    always @(posedge clk)
        if (!reset_n) f_is_open <= 0;
        else if (piece_valid) begin
            f_is_open <= !piece_is_last;
            f_context <= piece_split_context;
            f_slot <= piece_split_slot;
        end
    always @* if (f_started) begin
        first_opens: assert (!piece_valid || piece_is_first == !f_is_open);
        is_open: assert (f_is_open == (current_valid & !current_is_first));
        open_is_split: assert (!f_is_open || current_is_split);
        open_context: assert (!f_is_open || (current_context == f_context && current_slot == f_slot + 3'd1));
        same_context: assert (!(piece_valid && f_is_open) || (piece_is_split && piece_split_context == f_context));
        next_slot: assert (!(piece_valid && f_is_open) || piece_split_slot == f_slot + 3'd1);
    end
`endif
