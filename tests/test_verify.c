/* The verifier: it accepts every plan of every planner, and names each way of damaging one. */
#include <ringtrue/plan.h>

#include <time.h>

#include "check.h"

static rt_problem problem_make(int64_t sq, int64_t sk, rt_mask_kind mask)
{
    rt_problem p;
    memset(&p, 0, sizeof p);
    p.batch = 1;
    p.seqlen_q = sq;
    p.seqlen_k = sk;
    p.heads_q = 4;
    p.heads_kv = 2;
    p.dim = p.dim_v = 4;
    p.scale = 0.5;
    p.mask = mask;
    return p;
}

static uint32_t random_next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void plan_is_proved(const rt_problem *p, const rt_layout *l)
{
    for (const rt_planner *each = rt_planners(); each->name != NULL; each++) {
        rt_plan plan;
        rt_context ctx = {0};
        t_assert_ok(&ctx, rt_plan_create(&ctx, each->name, p, l, &plan));
        assert_string_equal(plan.name, each->name);
        t_assert_ok(&ctx, rt_plan_verify(&ctx, &plan, p, l));
        rt_plan_reset(&plan);
    }
}

static void every_named_layout_and_mask_is_proved(void **state)
{
    (void)state;
    const int64_t lengths[][2] = {{1, 1}, {7, 7}, {32, 32}, {33, 33}, {5, 40}, {40, 5}, {31, 17}};
    int64_t cu_q[] = {0, 0, 0, 0, 0}, cu_k[] = {0, 0, 0, 0, 0}, turn = 0;
    for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++) {
        for (int mask = 0; mask < 3; mask++) {
            for (int docs = 0; docs < 2; docs++) {
                rt_problem p = problem_make(lengths[n][0], lengths[n][1], (rt_mask_kind)mask);
                if (docs) { /* the second of four is empty */
                    cu_q[1] = cu_q[2] = p.seqlen_q / 3;
                    cu_k[1] = cu_k[2] = p.seqlen_k / 2;
                    cu_q[3] = p.seqlen_q / 2;
                    cu_k[3] = p.seqlen_k / 2;
                    cu_q[4] = p.seqlen_q;
                    cu_k[4] = p.seqlen_k;
                    p.documents = 4;
                    p.cu_q = cu_q;
                    p.cu_k = cu_k;
                }
                for (int32_t ranks = 1; ranks <= 9; ranks++) {
                    for (int kind = 0; kind < 9; kind++) {
                        if (t_left_out(turn++))
                            continue;
                        rt_layout l;
                        rt_context ctx = {0};
                        t_assert_ok(&ctx, rt_layout_create(&ctx, &p, (rt_layout_kind)(kind / 3),
                                                           (rt_remainder)(kind % 3), ranks, &l));
                        plan_is_proved(&p, &l);
                        rt_layout_reset(&l);
                    }
                }
            }
        }
    }
}

static void random_position_lists_are_proved(void **state)
{
    (void)state;
    uint32_t seed = 3;
    for (int round = 0; round < t_cases(200); round++) {
        rt_problem p = problem_make(1 + random_next(&seed) % 30, 1 + random_next(&seed) % 30,
                                    (rt_mask_kind)(random_next(&seed) % 3));
        const int32_t ranks = 1 + (int32_t)(random_next(&seed) % 5);
        int64_t n[2][5] = {{0}, {0}}, pos[2][30];
        for (int side = 0; side < 2; side++) {
            const int64_t length = side == 0 ? p.seqlen_q : p.seqlen_k;
            for (int64_t i = 0; i < length; i++) {
                int64_t at = random_next(&seed) % (i + 1);
                pos[side][i] = pos[side][at];
                pos[side][at] = i;
                n[side][random_next(&seed) % (uint32_t)ranks]++;
            }
        }
        rt_layout l;
        rt_context ctx = {0};
        t_assert_ok(&ctx, rt_layout_from_positions(&ctx, &p, ranks, n[0], pos[0], n[1], pos[1], &l));
        plan_is_proved(&p, &l);
        rt_layout_reset(&l);
    }
}

static void ring_of_512_is_made_and_proved_quickly(void **state)
{
    (void)state;
    const rt_problem p = problem_make(8192, 8192, RT_MASK_CAUSAL);
    rt_layout l;
    rt_plan plan;
    rt_context ctx = {0};
    clock_t start = clock();
    t_assert_ok(&ctx, rt_layout_create(&ctx, &p, RT_LAYOUT_ZIGZAG, RT_REMAINDER_REFUSE, 512, &l));
    t_assert_ok(&ctx, rt_plan_create(&ctx, "ring", &p, &l, &plan));
    double made = (double)(clock() - start) / (double)CLOCKS_PER_SEC;
    t_assert_ok(&ctx, rt_plan_verify(&ctx, &plan, &p, &l));
    double proved = (double)(clock() - start) / (double)CLOCKS_PER_SEC;
    print_message("P = 512, S = 8192: %lld tiles made in %.2f s CPU, proved in %.2f s more\n",
                  (long long)plan.forward.n_tiles, made, proved - made);
    assert_int_equal(plan.forward.n_tiles, 512 * 512);
    rt_plan_reset(&plan);
    rt_layout_reset(&l);
}

/* Damage.  Each case makes a sound ring of 4 over 32 tokens, full mask, and spoils one thing. */

typedef struct {
    rt_problem p;
    rt_layout l;
    rt_plan plan;
} bed;

static bed bed_make(const char *planner, rt_layout_kind kind, rt_mask_kind mask)
{
    bed b;
    rt_context ctx = {0};
    b.p = problem_make(32, 32, mask);
    t_assert_ok(&ctx, rt_layout_create(&ctx, &b.p, kind, RT_REMAINDER_REFUSE, 4, &b.l));
    t_assert_ok(&ctx, rt_plan_create(&ctx, planner, &b.p, &b.l, &b.plan));
    t_assert_ok(&ctx, rt_plan_verify(&ctx, &b.plan, &b.p, &b.l));
    return b;
}

static bed ring_make(void)
{
    return bed_make("ring", RT_LAYOUT_CONTIGUOUS, RT_MASK_FULL);
}

/* The plan is refused, and the text has every one of the words. */
#define REFUSED(b, ...)                                                                                    \
    do {                                                                                                   \
        const char *const words_[] = {__VA_ARGS__};                                                        \
        bed_refused(b, words_, sizeof words_ / sizeof words_[0]);                                          \
    } while (0)

static void bed_refused(bed *b, const char *const *words, size_t n)
{
    rt_context ctx = {0};
    t_assert_status(&ctx, rt_plan_verify(&ctx, &b->plan, &b->p, &b->l), RT_ERR_FORMAT);
    for (size_t i = 0; i < n; i++) {
        if (strstr(ctx.message, words[i]) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", ctx.message, words[i]);
    }
    rt_plan_reset(&b->plan);
    rt_layout_reset(&b->l);
}

static rt_tile *tile_of(rt_pass *pass, int64_t step, int32_t rank)
{
    for (int64_t i = pass->steps[step].tile0; i < pass->steps[step].tile1; i++) {
        if (pass->tiles[i].rank == rank)
            return &pass->tiles[i];
    }
    fail_msg("no tile at step %d of rank %d", (int)step, (int)rank);
    return pass->tiles;
}

static rt_move *move_of(rt_pass *pass, int64_t step, rt_payload payload, int32_t from)
{
    for (int64_t i = pass->steps[step].move0; i < pass->steps[step].move1; i++) {
        if (pass->moves[i].payload == payload && pass->moves[i].from == from)
            return &pass->moves[i];
    }
    fail_msg("no move at step %d of rank %d", (int)step, (int)from);
    return pass->moves;
}

static void tile_drop(rt_pass *pass, int64_t step, int32_t rank)
{
    int64_t i = tile_of(pass, step, rank) - pass->tiles;
    memmove(pass->tiles + i, pass->tiles + i + 1, (size_t)(pass->n_tiles - i - 1) * sizeof *pass->tiles);
    pass->n_tiles--;
    pass->steps[step].tile1--;
    for (int64_t t = step + 1; t < pass->n_steps; t++) {
        pass->steps[t].tile0--;
        pass->steps[t].tile1--;
    }
}

static void tile_append(rt_pass *pass, rt_tile tile, int64_t step)
{
    rt_tile *tiles = rt_alloc(NULL, pass->n_tiles + 1, sizeof *tiles);
    assert_non_null(tiles);
    int64_t at = pass->steps[step].tile1;
    memcpy(tiles, pass->tiles, (size_t)at * sizeof *tiles);
    tiles[at] = tile;
    memcpy(tiles + at + 1, pass->tiles + at, (size_t)(pass->n_tiles - at) * sizeof *tiles);
    rt_free(pass->tiles);
    pass->tiles = tiles;
    pass->n_tiles++;
    pass->steps[step].tile1++;
    for (int64_t t = step + 1; t < pass->n_steps; t++) {
        pass->steps[t].tile0++;
        pass->steps[t].tile1++;
    }
}

static void move_drop(rt_pass *pass, int64_t step, rt_payload payload, int32_t from)
{
    int64_t i = move_of(pass, step, payload, from) - pass->moves;
    memmove(pass->moves + i, pass->moves + i + 1, (size_t)(pass->n_moves - i - 1) * sizeof *pass->moves);
    pass->n_moves--;
    pass->steps[step].move1--;
    for (int64_t t = step + 1; t < pass->n_steps; t++) {
        pass->steps[t].move0--;
        pass->steps[t].move1--;
    }
}

static void move_append(rt_pass *pass, rt_move move, int64_t step)
{
    rt_move *moves = rt_alloc(NULL, pass->n_moves + 1, sizeof *moves);
    assert_non_null(moves);
    int64_t at = pass->steps[step].move1;
    memcpy(moves, pass->moves, (size_t)at * sizeof *moves);
    moves[at] = move;
    memcpy(moves + at + 1, pass->moves + at, (size_t)(pass->n_moves - at) * sizeof *moves);
    rt_free(pass->moves);
    pass->moves = moves;
    pass->n_moves++;
    pass->steps[step].move1++;
    for (int64_t t = step + 1; t < pass->n_steps; t++) {
        pass->steps[t].move0++;
        pass->steps[t].move1++;
    }
}

static void damage_tile_twice(void **state)
{
    (void)state;
    bed b = ring_make();
    tile_append(&b.plan.forward, *tile_of(&b.plan.forward, 2, 1), 2);
    REFUSED(&b, "forward step 2 rank 1", "computes again", "KV shard 3");
    b = ring_make(); /* the other direction, and only a part: two rows of one head */
    rt_tile part = *tile_of(&b.plan.backward, 1, 2);
    part.q.slot0 = 6;
    part.q.head0 = 3;
    part.kv.head0 = 1;
    part.pairs = 16;
    tile_append(&b.plan.backward, part, 3);
    REFUSED(&b, "backward step 3 rank 2", "computes again", "step 1, rank 2");
}

static void damage_tile_missing(void **state)
{
    (void)state;
    bed b = ring_make();
    tile_drop(&b.plan.forward, 2, 3);
    REFUSED(&b, "forward step 2 rank 3", "a tile is missing", "Q shard 3 against KV shard 1", "256 visible",
            "0 are computed");
    b = ring_make();
    tile_drop(&b.plan.backward, 0, 1);
    REFUSED(&b, "backward step 0 rank 1", "a tile is missing");
    b = ring_make();
    tile_of(&b.plan.forward, 3, 0)->kv.slot1 = 7;
    tile_of(&b.plan.forward, 3, 0)->pairs = 56;
    REFUSED(&b, "forward step 3 rank 0", "a tile is missing", "224 are computed");
    b = bed_make("ring", RT_LAYOUT_ZIGZAG, RT_MASK_CAUSAL); /* a half too few is found, too */
    tile_of(&b.plan.forward, 0, 2)->q.slot0 = 4;
    tile_of(&b.plan.forward, 0, 2)->pairs = 26;
    REFUSED(&b, "forward step 0 rank 2", "a tile is missing", "144 visible", "104 are computed");
}

static void damage_wrong_pairs(void **state)
{
    (void)state;
    bed b = ring_make();
    tile_of(&b.plan.backward, 1, 3)->pairs++;
    tile_of(&b.plan.backward, 1, 2)->pairs--; /* the sum is still right */
    REFUSED(&b, "backward step 1 rank 2", "says 63 visible pairs", "has 64");
}

static void damage_stale_reading(void **state)
{
    (void)state;
    bed b = ring_make();
    tile_of(&b.plan.forward, 1, 2)->kv_buf = 0;
    REFUSED(&b, "forward step 1 rank 2", "tile", "stale", "needs KV shard 1", "buffer 0",
            "it holds shard 2");
    b = ring_make();
    move_of(&b.plan.forward, 2, RT_PAYLOAD_KV, 1)->src_buf = 1;
    REFUSED(&b, "forward step 2 rank 1", "move", "stale", "needs KV shard 3", "it holds shard 0");
    b = ring_make();
    tile_of(&b.plan.forward, 1, 2)->q_buf = 5;
    REFUSED(&b, "forward step 1 rank 2", "stale", "needs Q shard 2", "it holds nothing");
    b = ring_make(); /* half of what the next step reads */
    move_of(&b.plan.forward, 0, RT_PAYLOAD_KV, 1)->piece.slot1 = 4;
    REFUSED(&b, "forward step 1 rank 2", "stale", "only some of these rows");
    b = ring_make(); /* one head too few */
    move_of(&b.plan.backward, 0, RT_PAYLOAD_KV, 1)->piece.head1 = 1;
    REFUSED(&b, "backward step 1 rank 2", "stale", "only some of these rows");
    b = ring_make(); /* DKV of another shard than the buffer holds */
    move_of(&b.plan.backward, 2, RT_PAYLOAD_DKV, 1)->piece.shard = 2;
    REFUSED(&b, "backward step 2 rank 1", "stale", "needs DKV shard 2", "it holds shard 0");
}

static void damage_move_dropped(void **state)
{
    (void)state;
    bed b = ring_make();
    move_drop(&b.plan.forward, 1, RT_PAYLOAD_KV, 2);
    REFUSED(&b, "forward step 2 rank 3", "stale", "needs KV shard 1", "it holds nothing");
    b = ring_make();
    move_drop(&b.plan.backward, 2, RT_PAYLOAD_DKV, 0);
    REFUSED(&b, "backward step 3 rank 0", "over shard 3's, which was not moved away");
    b = bed_make("single", RT_LAYOUT_STRIPED, RT_MASK_CAUSAL);
    move_drop(&b.plan.backward, 0, RT_PAYLOAD_DO, 3);
    REFUSED(&b, "backward step 1 rank 0", "stale", "needs DO shard 3");
    b = bed_make("single", RT_LAYOUT_STRIPED, RT_MASK_CAUSAL);
    move_drop(&b.plan.backward, 0, RT_PAYLOAD_Q, 2);
    REFUSED(&b, "backward step 1 rank 0", "stale", "needs Q shard 2");
}

static void damage_home_missing(void **state)
{
    (void)state;
    bed b = ring_make();
    move_drop(&b.plan.backward, 4, RT_PAYLOAD_DKV, 1);
    REFUSED(&b, "backward step 4 (the last) rank 2", "DKV shard 2", "never came home", "0 of 4",
            "4 are left in buffer 2 of rank 1");
    b = ring_make();
    tile_of(&b.plan.backward, 2, 3)->dst_q = 1;
    REFUSED(&b, "backward step 4 (the last) rank 3", "DQ shard 3", "not complete at home",
            "3 contributions, not the 4", "1 are left in buffer 1 of rank 3");
    b = ring_make();
    tile_of(&b.plan.forward, 0, 1)->dst_q = 2;
    REFUSED(&b, "forward step 3 (the last) rank 1", "STATE shard 1", "3 contributions, not the 4");
    b = bed_make("single", RT_LAYOUT_CONTIGUOUS, RT_MASK_FULL);
    /* the second half of the heads of a state stays behind */
    for (int64_t i = 0; i < b.plan.forward.n_moves; i++) {
        if (b.plan.forward.moves[i].payload == RT_PAYLOAD_STATE && b.plan.forward.moves[i].to == 2)
            b.plan.forward.moves[i].piece.head1 = 2;
    }
    REFUSED(&b, "forward step 2 (the last) rank 2", "STATE shard 2 slots [0, 8) heads [2, 4)",
            "never came home");
    b = bed_make("single", RT_LAYOUT_CONTIGUOUS, RT_MASK_FULL);
    for (int64_t i = 0; i < b.plan.backward.n_moves; i++) { /* and here the first half of the slots */
        if (b.plan.backward.moves[i].payload == RT_PAYLOAD_DKV && b.plan.backward.moves[i].to == 3)
            b.plan.backward.moves[i].piece.slot0 = 3;
    }
    REFUSED(&b, "backward step 2 (the last) rank 3", "DKV shard 3 slots [0, 3) heads [0, 2)",
            "never came home", "4 are left in buffer 3 of rank 0");
}

static void damage_contribution_doubled(void **state)
{
    (void)state;
    bed b = ring_make();
    move_append(&b.plan.backward, *move_of(&b.plan.backward, 1, RT_PAYLOAD_DKV, 0), 1);
    REFUSED(&b, "backward step 4 (the last) rank 0", "not complete at home", "5 contributions, not the 4");
}

static void damage_buffer_reused(void **state)
{
    (void)state;
    bed b = ring_make();
    move_of(&b.plan.forward, 1, RT_PAYLOAD_KV, 0)->dst_buf = 1;
    REFUSED(&b, "forward step 1 rank 1", "while that buffer is in flight");
    b = ring_make();
    rt_move late = *move_of(&b.plan.forward, 2, RT_PAYLOAD_KV, 0);
    late.piece.shard = 1; /* what rank 0 holds at step 3, put where rank 1 is reading */
    late.src_buf = late.dst_buf = 1;
    move_append(&b.plan.forward, late, 3);
    REFUSED(&b, "forward step 3 rank 1", "while a tile reads it");
    b = ring_make();
    move_append(&b.plan.forward, *move_of(&b.plan.forward, 2, RT_PAYLOAD_KV, 3), 2);
    REFUSED(&b, "forward step 2 rank 0", "another move landed in the same step");
    b = ring_make(); /* two different shards on one buffer in one step */
    move_of(&b.plan.forward, 0, RT_PAYLOAD_KV, 3)->to = 3;
    REFUSED(&b, "forward step 0 rank 3", "another move landed in the same step");
    b = ring_make();
    tile_of(&b.plan.backward, 2, 1)->dst_kv = 2;
    REFUSED(&b, "backward step 2 rank 1", "writes DKV", "while that buffer is in flight");
    b = ring_make();
    move_of(&b.plan.backward, 1, RT_PAYLOAD_DKV, 2)->how = RT_PUT;
    REFUSED(&b, "backward step 1 rank 3", "over what a tile of the same step wrote");
}

static void damage_add_on_wrong_piece(void **state)
{
    (void)state;
    bed b = ring_make();
    move_of(&b.plan.backward, 2, RT_PAYLOAD_DKV, 0)->to = 2;
    REFUSED(&b, "backward step 2 rank 2", "from rank 0", "add", "on the wrong piece: it holds shard 0");
}

static void damage_structure(void **state)
{
    (void)state;
    bed b = ring_make();
    move_of(&b.plan.backward, 4, RT_PAYLOAD_DKV, 1)->to = 3;
    REFUSED(&b, "backward step 4 rank 1", "home of shard 3");
    b = ring_make();
    move_of(&b.plan.forward, 0, RT_PAYLOAD_KV, 1)->dst_buf = 0;
    REFUSED(&b, "forward step 0 rank 1", "lands in buffer 0 of rank 2");
    b = ring_make();
    tile_of(&b.plan.forward, 1, 0)->kv.head0 = 1;
    REFUSED(&b, "forward step 1 rank 0", "do not belong");
    b = ring_make();
    tile_of(&b.plan.forward, 1, 0)->q.slot1 = 9;
    REFUSED(&b, "forward step 1 rank 0", "outside the shard's 8 slots");
    b = ring_make();
    tile_of(&b.plan.forward, 1, 0)->kv.slot0 = 8;
    REFUSED(&b, "forward step 1 rank 0", "is empty or outside");
    b = ring_make();
    tile_of(&b.plan.forward, 1, 3)->q.shard = 4;
    REFUSED(&b, "forward step 1", "shard of a piece is rank 4");
    b = ring_make();
    tile_of(&b.plan.forward, 1, 3)->rank = -1;
    REFUSED(&b, "forward step 1", "computing rank is rank -1");
    b = ring_make();
    tile_of(&b.plan.forward, 1, 3)->kv_buf = -1;
    REFUSED(&b, "kv_buf is -1");
    b = ring_make();
    tile_of(&b.plan.forward, 1, 3)->dst_kv = 1;
    REFUSED(&b, "the forward has no DKV");
    b = ring_make();
    move_of(&b.plan.forward, 1, RT_PAYLOAD_KV, 3)->to = 4;
    REFUSED(&b, "the receiver is rank 4");
    b = ring_make();
    move_of(&b.plan.forward, 1, RT_PAYLOAD_KV, 3)->how = RT_ADD;
    REFUSED(&b, "KV cannot be moved with add");
    b = ring_make();
    move_of(&b.plan.backward, 1, RT_PAYLOAD_DKV, 3)->how = RT_JOIN;
    REFUSED(&b, "DKV cannot be moved with join");
    b = ring_make();
    move_of(&b.plan.forward, 1, RT_PAYLOAD_KV, 3)->payload = RT_PAYLOAD_DKV;
    REFUSED(&b, "does not belong in the forward");
    b = ring_make();
    move_of(&b.plan.forward, 1, RT_PAYLOAD_KV, 3)->payload = RT_PAYLOAD_Q;
    REFUSED(&b, "on the side of the keys");
    b = ring_make();
    b.plan.forward.steps[1].tile0 = 5;
    REFUSED(&b, "forward step 1", "do not follow");
    b = ring_make();
    b.plan.backward.n_steps = 4;
    REFUSED(&b, "backward", "are in no step");
    b = ring_make();
    b.plan.ranks = 5;
    REFUSED(&b, "for 5 ranks");
}

/* Kernel calls are numbered without a gap, and a call writes a query's partial to one place. */
static void damage_calls(void **state)
{
    (void)state;
    bed b = ring_make();
    tile_of(&b.plan.forward, 1, 2)->call = 1;
    REFUSED(&b, "forward step 1 rank 2", "kernel call 1", "without a gap", "0 is missing");
    b = ring_make();
    tile_of(&b.plan.backward, 3, 0)->call = -1;
    REFUSED(&b, "backward step 3 rank 0", "kernel call -1");
    b = ring_make();
    rt_tile *whole = tile_of(&b.plan.forward, 2, 1), rest = *whole;
    whole->kv.slot1 = rest.kv.slot0 = 4;
    whole->pairs = rest.pairs = 32;
    rest.dst_q = 3;
    tile_append(&b.plan.forward, rest, 2);
    REFUSED(&b, "forward step 2 rank 1", "one kernel call (0) for Q shard 1", "write buffers 3 and 0");
}

/* Not every change is damage: the order of a listing, a wider move than is read. */
static void harmless_changes_are_accepted(void **state)
{
    (void)state;
    bed b = bed_make("ring", RT_LAYOUT_ZIGZAG, RT_MASK_CAUSAL);
    rt_tile *x = tile_of(&b.plan.backward, 1, 0), *y = tile_of(&b.plan.backward, 1, 2), swap = *x;
    *x = *y;
    *y = swap;
    /* one tile as two, one per group of heads */
    rt_tile *whole = tile_of(&b.plan.forward, 2, 1), rest = *whole;
    rest.q.head0 = 2;
    rest.kv.head0 = 1;
    whole->q.head1 = 2;
    whole->kv.head1 = 1;
    tile_append(&b.plan.forward, rest, 2);
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_plan_verify(&ctx, &b.plan, &b.p, &b.l));
    rt_plan_reset(&b.plan);
    rt_layout_reset(&b.l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_named_layout_and_mask_is_proved),
        cmocka_unit_test(random_position_lists_are_proved),
        cmocka_unit_test(ring_of_512_is_made_and_proved_quickly),
        cmocka_unit_test(damage_tile_twice),
        cmocka_unit_test(damage_tile_missing),
        cmocka_unit_test(damage_wrong_pairs),
        cmocka_unit_test(damage_stale_reading),
        cmocka_unit_test(damage_move_dropped),
        cmocka_unit_test(damage_home_missing),
        cmocka_unit_test(damage_contribution_doubled),
        cmocka_unit_test(damage_buffer_reused),
        cmocka_unit_test(damage_add_on_wrong_piece),
        cmocka_unit_test(damage_structure),
        cmocka_unit_test(damage_calls),
        cmocka_unit_test(harmless_changes_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
