// Properties of a queue of hdl/src/prim/fifo.rs: it neither overflows nor loses nor repeats nor reorders.
//
// Entries are numbered by counters of their own as they are accepted and taken. The entry number `f_number`, any one, is
// kept when it is accepted, and must be what is offered when it is its turn; then all are, in order.
`ifdef FORMAL
    localparam F_BITS = $bits(write_pointer);
    localparam [F_BITS:0] F_DEPTH = 1 << (F_BITS - 1);
`ifdef HAS_in_data_3
    wire [$bits(in_data_0) + $bits(in_data_1) + $bits(in_data_2) + $bits(in_data_3) - 1:0] f_in_data =
        {in_data_3, in_data_2, in_data_1, in_data_0};
    wire [$bits(f_in_data) - 1:0] f_out_data = {out_data_3, out_data_2, out_data_1, out_data_0};
    wire [$bits(f_in_data) - 1:0] f_output =
        {entries_3_read_0, entries_2_read_0, entries_1_read_0, entries_0_read_0};
    `define F_ENTRY(n) {entries_3[n], entries_2[n], entries_1[n], entries_0[n]}
`elsif HAS_in_data_2
    wire [$bits(in_data_0) + $bits(in_data_1) + $bits(in_data_2) - 1:0] f_in_data = {in_data_2, in_data_1, in_data_0};
    wire [$bits(f_in_data) - 1:0] f_out_data = {out_data_2, out_data_1, out_data_0};
    wire [$bits(f_in_data) - 1:0] f_output = {entries_2_read_0, entries_1_read_0, entries_0_read_0};
    `define F_ENTRY(n) {entries_2[n], entries_1[n], entries_0[n]}
`elsif HAS_in_data_1
    wire [$bits(in_data_0) + $bits(in_data_1) - 1:0] f_in_data = {in_data_1, in_data_0};
    wire [$bits(f_in_data) - 1:0] f_out_data = {out_data_1, out_data_0};
    wire [$bits(f_in_data) - 1:0] f_output = {entries_1_read_0, entries_0_read_0};
    `define F_ENTRY(n) {entries_1[n], entries_0[n]}
`else
    wire [$bits(in_data_0) - 1:0] f_in_data = in_data_0;
    wire [$bits(f_in_data) - 1:0] f_out_data = out_data_0;
    wire [$bits(f_in_data) - 1:0] f_output = entries_0_read_0;
    `define F_ENTRY(n) entries_0[n]
`endif

    reg f_started = 1'b0;
    always @(posedge clk) f_started <= 1'b1;
    always @* if (!f_started) assume (!reset_n);

    (* anyconst *) wire [F_BITS:0] f_number;
    reg [F_BITS:0] f_accepted, f_taken;
    reg f_is_kept;
    reg [$bits(f_in_data) - 1:0] f_kept;
    wire f_accepts = in_valid & in_ready;
    wire f_takes = out_valid & out_ready;
    wire [F_BITS:0] f_held = f_accepted - f_taken;
    wire [F_BITS:0] f_ahead = f_number - f_taken;
    always @(posedge clk)
        if (!reset_n) begin
            f_accepted <= 0;
            f_taken <= 0;
            f_is_kept <= 0;
        end else begin
            if (f_accepts) f_accepted <= f_accepted + 1'b1;
            if (f_takes) f_taken <= f_taken + 1'b1;
            if (f_accepts && f_accepted == f_number) begin
                f_is_kept <= 1;
                f_kept <= f_in_data;
            end else if (f_takes && f_taken == f_number) f_is_kept <= 0;
        end

    // What the output offered and was not taken.
    reg f_waits;
    reg [$bits(f_in_data) - 1:0] f_offered;
    // Cycles for which something was held and nothing offered.
    reg [1:0] f_silent;
    always @(posedge clk) begin
        f_waits <= reset_n & out_valid & ~out_ready;
        f_offered <= f_out_data;
        f_silent <= (!reset_n | out_valid | f_held == 0) ? 0 : f_silent + 1'b1;
    end

    // Where the entry is, to make the induction work.
    wire [F_BITS - 1:0] f_stored = write_pointer - read_pointer;
    wire [F_BITS:0] f_place = {1'b0, read_pointer} + f_ahead - {{F_BITS{1'b0}}, out_valid_q};
    wire f_is_output = f_ahead == 0 & out_valid_q;

    always @* if (f_started) begin
        no_overflow: assert (f_held <= F_DEPTH + 1'b1);
        nothing_from_nothing: assert (!out_valid || f_held != 0);
        order: assert (!(out_valid && f_ahead == 0) || (f_is_kept && f_out_data == f_kept));
        room: assert (in_ready || f_held == F_DEPTH + 1'b1 || (f_held == F_DEPTH && !out_valid));
        offer: assert (f_silent < 2);
        hold: assert (!f_waits || (out_valid && f_out_data == f_offered));
        count: assert (f_held == {1'b0, f_stored} + {{F_BITS{1'b0}}, out_valid_q});
        pointers: assert (f_stored <= F_DEPTH);
        silence: assert (f_silent == 0 || (f_stored != 0 && !out_valid_q) || f_silent == 1);
        presence: assert (f_is_kept == (f_ahead < f_held));
        place: assert (!f_is_kept || (f_is_output ? f_output == f_kept : `F_ENTRY(f_place[F_BITS - 2:0]) == f_kept));
    end
`undef F_ENTRY
`endif
