// A free list of hdl/src/prim/free_list.rs: every number is either free or given out, once; there is always room to give one
// back. Its user must give back what is out only, after `ready`: assumed here, shown of the users.
`ifdef FORMAL
    localparam F_BITS = $bits(take_number);
    localparam F_NUMBERS = 1 << F_BITS;
`ifndef F_BELOW
    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
    always @* if (!f_started) assume (!reset_n);
`else
    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
`endif

    (* hierconn *) wire [F_NUMBERS * F_BITS - 1:0] \queue.f_entries ;
    (* hierconn *) wire [F_NUMBERS - 1:0] \queue.f_is_held ;
    (* hierconn *) wire [F_BITS:0] \queue.f_stored ;

    // Numbers that were taken and not given back.
    reg [F_NUMBERS - 1:0] f_out;
    wire [F_NUMBERS - 1:0] f_takes = {F_NUMBERS{take & take_valid}} & ({{F_NUMBERS - 1{1'b0}}, 1'b1} << take_number);
    wire [F_NUMBERS - 1:0] f_gives = {F_NUMBERS{give}} & ({{F_NUMBERS - 1{1'b0}}, 1'b1} << give_number);
    always @(posedge clk) f_out <= !reset_n ? 0 : (f_out | f_takes) & ~f_gives;
`ifdef F_BELOW
    always @* if (f_started) begin
        given_was_out: assert (!give || (f_out[give_number] && ready));
    end
`else
    always @* assume (!give || (f_out[give_number] && ready));
`endif

    // Places that hold each number: free in the queue, offered, given out, or still to be filled in.
    reg [F_BITS + 1:0] f_places, f_count;
    reg f_is_in_one_place;
    integer f_number, f_place;
    always @* begin
        f_is_in_one_place = 1;
        f_count = {1'b0, \queue.f_stored } + take_valid;
        for (f_number = 0; f_number < F_NUMBERS; f_number = f_number + 1) begin
            f_count = f_count + f_out[f_number];
            f_places = {{F_BITS + 1{1'b0}}, f_out[f_number]} + (take_valid && take_number == f_number)
                + (f_number >= fill_count);
            for (f_place = 0; f_place < F_NUMBERS; f_place = f_place + 1)
                f_places = f_places + (\queue.f_is_held [f_place]
                    && \queue.f_entries [f_place * F_BITS +: F_BITS] == f_number);
            if (f_places != 1) f_is_in_one_place = 0;
        end
    end
    always @* if (f_started) begin
        never_twice: assert (!(take_valid && f_out[take_number]));
        in_one_place: assert (f_is_in_one_place);
        none_lost: assert (f_count == {1'b0, fill_count});
        room: assert (!queue_in_valid || queue_in_ready);
        fill_range: assert (fill_count <= F_NUMBERS);
    end
`endif
