// Properties of a queue of fpga/src/async_fifo.rs, with clocks that run free of each other: it neither overflows nor underflows,
// loses, repeats nor reorders, and one bit of a pointer that crosses changes at a time.
//
// Resets are the link's: its own proof shows that halves are emptied together.
`ifdef FORMAL
    localparam F_BITS = $bits(write_pointer_q);
    localparam [F_BITS-1:0] F_WORDS = 1 << (F_BITS - 1);
    always @* assume (!write_reset && !read_reset);

    // A step of time, in which either clock may rise, or both.
    (* gclk *) reg f_time;
    reg [F_BITS-1:0] f_write_gray = 0, f_read_gray = 0;
    always @(posedge f_time) begin
        f_write_gray <= write_gray_q;
        f_read_gray <= read_gray_q;
    end
    wire [F_BITS-1:0] f_write_change = f_write_gray ^ write_gray_q;
    wire [F_BITS-1:0] f_read_change = f_read_gray ^ read_gray_q;

    // The word number `f_number`, any one, is kept when it is written, and must be what is offered when it is its turn.
    (* anyconst *) wire [F_BITS-1:0] f_number;
    reg [$bits(write_data)-1:0] f_kept;
    always @(posedge write_clock) if (push && write_pointer_q == f_number) f_kept <= write_data;

    function [F_BITS-1:0] f_binary(input [F_BITS-1:0] gray);
        integer f_bit;
        begin
            f_binary[F_BITS-1] = gray[F_BITS-1];
            for (f_bit = F_BITS - 2; f_bit >= 0; f_bit = f_bit - 1) f_binary[f_bit] = f_binary[f_bit+1] ^ gray[f_bit];
        end
    endfunction

    // What each side has seen of the other's pointer, on its way: never ahead, never behind what came before.
    wire [F_BITS-1:0] f_held = write_pointer_q - read_pointer_q;
    wire [F_BITS-1:0] f_ahead = f_number - read_pointer_q;
    wire [F_BITS-1:0] f_seen_0 = f_binary(write_gray_at_read_stage_0) - read_pointer_q;
    wire [F_BITS-1:0] f_seen_1 = f_binary(write_gray_at_read_stage_1) - read_pointer_q;
    wire [F_BITS-1:0] f_seen_2 = f_binary(write_gray_at_read_stage_2) - read_pointer_q;
    wire [F_BITS-1:0] f_used_0 = write_pointer_q - f_binary(read_gray_at_write_stage_0);
    wire [F_BITS-1:0] f_used_1 = write_pointer_q - f_binary(read_gray_at_write_stage_1);
    wire [F_BITS-1:0] f_used_2 = write_pointer_q - f_binary(read_gray_at_write_stage_2);

    always @* begin
        one_bit_of_the_write_pointer: assert ((f_write_change & (f_write_change - 1'b1)) == 0);
        one_bit_of_the_read_pointer: assert ((f_read_change & (f_read_change - 1'b1)) == 0);
        no_overflow: assert (f_held <= F_WORDS && (!has_room_q || f_held < F_WORDS));
        no_underflow: assert (!has_word_q || f_held != 0);
        order: assert (!(has_word_q && f_ahead == 0) || read_data == f_kept);
        write_code: assert (write_gray_q == (write_pointer_q ^ (write_pointer_q >> 1)));
        read_code: assert (read_gray_q == (read_pointer_q ^ (read_pointer_q >> 1)));
        seen: assert (f_seen_2 <= f_seen_1 && f_seen_1 <= f_seen_0 && f_seen_0 <= f_held);
        used: assert (f_used_2 >= f_used_1 && f_used_1 >= f_used_0 && f_used_0 >= f_held && f_used_2 <= F_WORDS);
        room: assert (!has_room_q || f_used_2 < F_WORDS);
        word: assert (!has_word_q || f_seen_2 != 0);
        place: assert (!(f_ahead < f_held) || memory_mem[f_number[F_BITS-2:0]] == f_kept);
    end
`endif
