/* Planners that schedule by need: balanced, burst, adaptive, groupcast, decode.  Worked schedules, bytes and
 * partials by closed form; that they are right is the verifier's proof, for many problems, and that of the exact results of test_sweep.c. */
#include "planned.h"
#include "schedules.h"

/* 2-byte elements everywhere on the wire. */
static rt_counters count(const rt_problem *p, const made *m, bool backward)
{
    const rt_wire_sizes w = {2.0, 2.0, 2.0};
    rt_counters c;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_plan_count(&ctx, backward ? &m->plan.backward : &m->plan.forward, p, &m->l, &w,
                                    backward, &c));
    return c;
}

static double sum(const double *x, int32_t n)
{
    double total = 0.0;
    for (int32_t i = 0; i < n; i++)
        total += x[i];
    return total;
}

/* q * P + kv of the one tile of a rank in a step; -1 if it has none. */
static int64_t entry(const rt_pass *pass, int64_t step, int32_t rank, int32_t ranks)
{
    int64_t got = -1;
    for (int64_t i = pass->steps[step].tile0; i < pass->steps[step].tile1; i++) {
        const rt_tile *t = &pass->tiles[i];
        if (t->rank != rank)
            continue;
        assert_int_equal(got, -1);
        got = (int64_t)t->q.shard * ranks + t->kv.shard;
    }
    return got;
}

/* The steps of the pass that compute are those of the table, rounds x ranks. */
static void schedule_is(const rt_pass *pass, const int64_t *table, int64_t rounds, int32_t ranks)
{
    int64_t round = 0;
    for (int64_t t = 0; t < pass->n_steps; t++) {
        if (pass->steps[t].tile0 == pass->steps[t].tile1)
            continue;
        assert_true(round < rounds);
        for (int32_t r = 0; r < ranks; r++)
            assert_int_equal(entry(pass, t, r, ranks), table[round * ranks + r]);
        round++;
    }
    assert_int_equal(round, rounds);
}

static void pieces_equal(const rt_piece *a, const rt_piece *b)
{
    assert_int_equal(a->side, b->side);
    assert_int_equal(a->shard, b->shard);
    assert_int_equal(a->slot0, b->slot0);
    assert_int_equal(a->slot1, b->slot1);
    assert_int_equal(a->head0, b->head0);
    assert_int_equal(a->head1, b->head1);
}

static void passes_equal(const rt_pass *a, const rt_pass *b)
{
    assert_int_equal(a->n_steps, b->n_steps);
    assert_int_equal(a->n_tiles, b->n_tiles);
    assert_int_equal(a->n_moves, b->n_moves);
    for (int64_t i = 0; i < a->n_steps; i++) {
        assert_int_equal(a->steps[i].tile1, b->steps[i].tile1);
        assert_int_equal(a->steps[i].move1, b->steps[i].move1);
    }
    for (int64_t i = 0; i < a->n_tiles; i++) {
        const rt_tile *x = &a->tiles[i], *y = &b->tiles[i];
        pieces_equal(&x->q, &y->q);
        pieces_equal(&x->kv, &y->kv);
        assert_int_equal(x->rank, y->rank);
        assert_int_equal(x->kv_buf, y->kv_buf);
        assert_int_equal(x->dst_q, y->dst_q);
        assert_int_equal(x->pairs, y->pairs);
    }
    for (int64_t i = 0; i < a->n_moves; i++) {
        const rt_move *x = &a->moves[i], *y = &b->moves[i];
        pieces_equal(&x->piece, &y->piece);
        assert_int_equal(x->payload, y->payload);
        assert_int_equal(x->from, y->from);
        assert_int_equal(x->to, y->to);
        assert_int_equal(x->src_buf, y->src_buf);
        assert_int_equal(x->dst_buf, y->dst_buf);
        assert_int_equal(x->how, y->how);
    }
}

/* ---- balanced ------------------------------------------------------------------------------------------ */

static void balanced_schedule_is_the_published_one(void **state)
{
    (void)state;
    static const int64_t p4[] = {0, 5, 10, 15, 12, 4, 9, 14, -1, -1, 8, 13};
    static const int64_t p8[] = {0,  9,  18, 27, 36, 45, 54, 63, 56, 8,  17, 26, 35, 44,
                                 53, 62, 48, 57, 16, 25, 34, 43, 52, 61, 40, 49, 58, 24,
                                 33, 42, 51, 60, -1, -1, -1, -1, 32, 41, 50, 59};
    static const int64_t p5[] = {0, 6, 12, 18, 24, 20, 5, 11, 17, 23, 15, 21, 10, 16, 22};
    static const struct {
        int32_t ranks;
        const int64_t *table;
        int64_t rounds;
    } worked[] = {{4, p4, 3}, {8, p8, 5}, {5, p5, 3}};
    for (int i = 0; i < 3; i++) {
        const int32_t ranks = worked[i].ranks;
        const rt_problem p = problem_make(8 * ranks, 8 * ranks, 2, 1, 4, RT_MASK_CAUSAL);
        made m = plan_make(&p, "balanced", RT_LAYOUT_CONTIGUOUS, ranks);
        schedule_is(&m.plan.forward, worked[i].table, worked[i].rounds, ranks);
        schedule_is(&m.plan.backward, worked[i].table, worked[i].rounds, ranks);
        made_reset(&m);
    }
}

/* floor(P / 2) + 1 rounds; for even P the share of slots in use is 1 - 1 / (P + 2).  A rank sends its keys to the
 * floor(P / 2) ranks above it, its queries to the helpers of the pairs beyond, and returns what it helped with. */
static void balanced_slots_and_bytes_match_closed_form(void **state)
{
    (void)state;
    for (int32_t ranks = 1; ranks <= 9; ranks++) {
        const int64_t t = 12, half = ranks / 2;
        const rt_problem p = problem_make(t * ranks, t * ranks, 4, 2, 8, RT_MASK_CAUSAL);
        made m = plan_make(&p, "balanced", RT_LAYOUT_CONTIGUOUS, ranks);
        rt_counters f = count(&p, &m, false), b = count(&p, &m, true);
        int64_t rounds = 0, used = m.plan.forward.n_tiles;
        for (int64_t s = 0; s < m.plan.forward.n_steps; s++)
            rounds += m.plan.forward.steps[s].tile1 > m.plan.forward.steps[s].tile0;
        assert_int_equal(rounds, half + 1);
        assert_int_equal(used, ranks * (ranks + 1) / 2);
        assert_int_equal(rounds * ranks - used, ranks % 2 == 0 ? ranks / 2 : 0);
        assert_int_equal(f.idle_slots, ranks % 2 == 0 ? ranks / 2 : 0);
        const double q = (double)t * 4 * 8 * 2, kv = (double)t * 2 * 16 * 2, stats = (double)t * 4 * 4;
        for (int32_t r = 0; r < ranks; r++) {
            const int64_t above = ranks - 1 - r, keys = above < half ? above : half,
                          queries = r > half ? r - half : 0, helped = above > half ? above - half : 0;
            t_assert_bits_eq(f.sent[RT_PAYLOAD_KV][r], (double)keys * kv);
            t_assert_bits_eq(f.sent[RT_PAYLOAD_Q][r], (double)queries * q);
            t_assert_bits_eq(f.sent[RT_PAYLOAD_STATE][r], (double)helped * (q + stats));
            t_assert_bits_eq(b.sent[RT_PAYLOAD_KV][r], (double)keys * kv);
            t_assert_bits_eq(b.sent[RT_PAYLOAD_DO][r], (double)queries * (q + 2 * stats));
            t_assert_bits_eq(b.sent[RT_PAYLOAD_DQ][r], (double)helped * q);
            t_assert_bits_eq(b.sent[RT_PAYLOAD_DKV][r], (double)(r < half ? r : half) * kv);
        }
        assert_int_equal(f.max_partials, ranks);
        rt_counters_reset(&f);
        rt_counters_reset(&b);
        made_reset(&m);
    }
}

/* A helper's partial leaves one step after it was computed, and is joined. */
static void balanced_helpers_return_one_step_later(void **state)
{
    (void)state;
    const rt_problem p = problem_make(70, 70, 2, 2, 4, RT_MASK_CAUSAL);
    made m = plan_make(&p, "balanced", RT_LAYOUT_CONTIGUOUS, 7);
    const rt_pass *pass = &m.plan.forward;
    int64_t helped = 0, returned = 0;
    for (int64_t t = 0; t < pass->n_steps; t++) {
        for (int64_t i = pass->steps[t].tile0; i < pass->steps[t].tile1; i++)
            helped += pass->tiles[i].q.shard != pass->tiles[i].rank;
        for (int64_t i = pass->steps[t].move0; i < pass->steps[t].move1; i++) {
            const rt_move *move = &pass->moves[i];
            if (move->payload != RT_PAYLOAD_STATE)
                continue;
            assert_int_equal(move->how, RT_JOIN);
            assert_int_equal(move->to, move->piece.shard);
            assert_int_equal(entry(pass, t - 1, move->from, 7), move->piece.shard * 7 + move->from);
            returned++;
        }
    }
    assert_int_equal(helped, 6); /* 1 in round 1, 2 in round 2, 3 in round 3 */
    assert_int_equal(returned, helped);
    made_reset(&m);
}

/* Where the mask empties no pair of shards nobody helps. */
static void balanced_is_the_ring_where_nothing_is_masked(void **state)
{
    (void)state;
    for (int full = 0; full < 2; full++) {
        const rt_problem p = problem_make(40, 40, 2, 1, 4, full ? RT_MASK_FULL : RT_MASK_CAUSAL);
        made m = plan_make(&p, "balanced", RT_LAYOUT_ZIGZAG, 5),
             ring = plan_make(&p, "ring", RT_LAYOUT_ZIGZAG, 5);
        assert_int_equal(m.plan.forward.n_steps, 5);
        for (int64_t t = 0; t < 5; t++)
            for (int32_t r = 0; r < 5; r++)
                assert_int_equal(entry(&m.plan.forward, t, r, 5), entry(&ring.plan.forward, t, r, 5));
        made_reset(&m);
        made_reset(&ring);
    }
}

/* ---- adaptive ------------------------------------------------------------------------------------------ */

static void adaptive_schedules_are_the_worked_ones(void **state)
{
    (void)state;
    static const int64_t p2[] = {0, 3, -1, 2};
    static const int64_t p4[] = {0, 5, 10, 15, 8, 4, 9, 12, -1, -1, 14, 13};
    static const int64_t p8[] = {0,  9,  18, 27, 36, 45, 54, 63, 16, 8,  17, 26, 35, 44, 53, 56,
                                 24, 33, 42, 25, 34, 43, 48, 57, -1, 41, 50, 59, 32, 40, 49, 58,
                                 -1, -1, -1, 51, 60, -1, 52, 62, -1, -1, -1, -1, -1, -1, -1, 61};
    static const int64_t band[] = {0, 9, 18, 27, 36, 45, 54, 63, -1, 8, 17, 26, 35, 44, 53, 62};
    static const struct {
        int32_t ranks;
        const int64_t *table;
        int64_t rounds;
    } worked[] = {{2, p2, 2}, {4, p4, 3}, {8, p8, 6}};
    for (int i = 0; i < 3; i++) {
        const int32_t ranks = worked[i].ranks;
        const rt_problem p = problem_make(8 * ranks, 8 * ranks, 2, 1, 4, RT_MASK_CAUSAL);
        made m = plan_make(&p, "adaptive", RT_LAYOUT_CONTIGUOUS, ranks);
        schedule_is(&m.plan.forward, worked[i].table, worked[i].rounds, ranks);
        schedule_is(&m.plan.backward, worked[i].table, worked[i].rounds, ranks);
        made_reset(&m);
    }
    rt_problem p =
        problem_make(64, 64, 2, 1, 4, RT_MASK_CAUSAL); /* a window: tiles q0k0, q1k0, q1k1, q2k1, .. */
    p.has_window = true;
    p.window_left = 8;
    p.window_right = -1;
    made m = plan_make(&p, "adaptive", RT_LAYOUT_CONTIGUOUS, 8);
    schedule_is(&m.plan.forward, band, 2, 8);
    made_reset(&m);
}

/* A mask of one token a rank, so that its pairs are the grid; the schedule was worked out from the rules apart from this code, and is
 * another for a budget of 5 or 7, for partials that cost nothing, and for a first choice within the budget.  Round 0
 * needs keys and queries, so that a step of moves goes ahead. */
static void adaptive_budget_decides(void **state)
{
    (void)state;
    static const char grid[] = "010111100010010010111111101111100111";
    static const int64_t want[] = {5,  6,  13, 21, 28, 35, 1,  10, 16, 22, 29, 30, 4,  19, -1,
                                   23, 24, 34, 3,  -1, 20, 18, 26, -1, -1, -1, -1, -1, 27, 33};
    uint8_t dense[36];
    for (int i = 0; i < 36; i++)
        dense[i] = grid[i] == '1';
    rt_problem p = problem_make(6, 6, 2, 1, 4, RT_MASK_FULL);
    p.dense = dense;
    made m = plan_make(&p, "adaptive", RT_LAYOUT_CONTIGUOUS, 6);
    schedule_is(&m.plan.forward, want, 5, 6);
    schedule_is(&m.plan.backward, want, 5, 6);
    assert_int_equal(m.plan.forward.steps[0].tile1, 0);
    assert_true(m.plan.forward.steps[0].move1 > 0);
    made_reset(&m);
}

/* The ranks' units of a round: KV 2 at either end (4 for one's own), Q 1 at either end, and 1 at either end for each
 * partial of the round before; at most 6 but for a first choice. */
static void adaptive_keeps_its_budget(void **state)
{
    (void)state;
    const int32_t ranks = 13;
    const rt_problem p = problem_make(ranks * 4, ranks * 4, 1, 1, 4, RT_MASK_CAUSAL);
    made m = plan_make(&p, "adaptive", RT_LAYOUT_CONTIGUOUS, ranks);
    const rt_pass *pass = &m.plan.forward;
    int64_t before[13] = {0}, helped = 0;
    for (int64_t t = 0; t < pass->n_steps; t++) {
        int64_t units[13], after[13] = {0};
        bool first_choice[13] = {false};
        memcpy(units, before, sizeof units);
        for (int64_t i = pass->steps[t].tile0; i < pass->steps[t].tile1; i++) {
            const rt_tile *x = &pass->tiles[i];
            if (x->q.shard == x->rank) {
                units[x->rank] += 2;
                units[x->kv.shard] += 2;
                if (x->kv.shard == (x->rank + t) % ranks)
                    first_choice[x->rank] = first_choice[x->kv.shard] = true;
            } else {
                helped++;
                units[x->rank]++;
                units[x->q.shard]++;
                after[x->rank]++;
                after[x->q.shard]++;
            }
        }
        for (int32_t r = 0; r < ranks; r++)
            assert_true(first_choice[r] || units[r] <= 6);
        memcpy(before, after, sizeof before);
    }
    assert_true(helped > 0);
    made_reset(&m);
}

static void given_grid_refused(const rt_problem *p, const rt_layout *l, const char *name, const char *words)
{
    rt_plan plan;
    rt_context ctx = {0};
    const rt_status st = rt_plan_create(&ctx, name, p, l, &plan);
    assert_true(st == RT_ERR_ARG || st == RT_ERR_IO);
    if (strstr(ctx.message, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", ctx.message, words);
}

static void adaptive_takes_a_given_grid(void **state)
{
    (void)state;
    static const int64_t all[] = {0, 4, 8, 1, 5, 6, 2, 3, 7};
    const rt_problem p = problem_make(24, 24, 2, 1, 4, RT_MASK_CAUSAL);
    made causal = plan_make(&p, "adaptive", RT_LAYOUT_CONTIGUOUS, 3);
    made same = plan_make(&p, "adaptive:grid=100/110/111", RT_LAYOUT_CONTIGUOUS, 3);
    passes_equal(&same.plan.forward, &causal.plan.forward);
    passes_equal(&same.plan.backward, &causal.plan.backward);
    /* more tiles than the mask needs: their data moves, nothing is computed */
    made more = plan_make(&p, "adaptive:grid=111/111/111", RT_LAYOUT_CONTIGUOUS, 3);
    assert_int_equal(more.plan.forward.n_tiles, 6);
    assert_int_equal(more.plan.forward.n_moves, 6);
    const rt_problem full = problem_make(24, 24, 2, 1, 4, RT_MASK_FULL);
    made every = plan_make(&full, "adaptive:grid=111111111", RT_LAYOUT_CONTIGUOUS, 3);
    schedule_is(&every.plan.forward, all, 3, 3);
    FILE *f = fopen("grid.txt", "w");
    assert_non_null(f);
    assert_true(fputs("1 0 0\n1, 1, 0\n1 1 1\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    made file = plan_make(&p, "adaptive:grid=@grid.txt", RT_LAYOUT_CONTIGUOUS, 3);
    passes_equal(&file.plan.forward, &causal.plan.forward);
    assert_int_equal(remove("grid.txt"), 0);
    given_grid_refused(&p, &causal.l, "adaptive:grid=100/110/101", "lacks tile q2k1");
    given_grid_refused(&p, &causal.l, "adaptive:grid=100/110", "6 tiles; 3 ranks have 3 rows of 3");
    given_grid_refused(&p, &causal.l, "adaptive:grid=100/110/1111", "10 tiles; 3 ranks");
    given_grid_refused(&p, &causal.l, "adaptive:grid=100/11x/111", "'x'");
    given_grid_refused(&p, &causal.l, "adaptive:grid=@nowhere.txt", "'nowhere.txt'");
    made_reset(&causal);
    made_reset(&same);
    made_reset(&more);
    made_reset(&every);
    made_reset(&file);
}

/* ---- burst --------------------------------------------------------------------------------------------- */

static void burst_bytes_match_worked_table(void **state)
{
    (void)state;
    static const struct {
        int32_t ranks;
        double backward;
    } table[] = {{2, 2064}, {4, 2584}, {8, 2844}, {16, 2974}};
    const rt_problem p = problem_make(131072, 131072, 32, 8, 128, RT_MASK_CAUSAL);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const int32_t ranks = table[i].ranks;
        made m = plan_make(&p, "burst", RT_LAYOUT_CONTIGUOUS, ranks),
             ring = plan_make(&p, "ring", RT_LAYOUT_CONTIGUOUS, ranks);
        rt_counters b = count(&p, &m, true);
        for (int32_t r = 0; r < ranks; r++) {
            const double rows = 131072.0 / ranks * 32;
            t_assert_bits_eq(b.sent[RT_PAYLOAD_Q][r], (ranks - 1) * rows * 256);
            t_assert_bits_eq(b.sent[RT_PAYLOAD_DO][r], (ranks - 1) * rows * (256 + 8));
            t_assert_bits_eq(b.sent[RT_PAYLOAD_DQ][r], ranks * rows * 256);
            t_assert_bits_eq(b.sent[RT_PAYLOAD_KV][r] + b.sent[RT_PAYLOAD_DKV][r], 0.0);
            const double mib =
                (b.sent[RT_PAYLOAD_Q][r] + b.sent[RT_PAYLOAD_DO][r] + b.sent[RT_PAYLOAD_DQ][r]) / 1048576;
            t_assert_le(mib - table[i].backward, 0.5); /* the table has whole MiB */
            t_assert_le(table[i].backward - mib, 0.5);
        }
        passes_equal(&m.plan.forward, &ring.plan.forward);
        rt_counters_reset(&b);
        made_reset(&m);
        made_reset(&ring);
    }
}

/* ---- groupcast ----------------------------------------------------------------------------------------- */

/* Of what a ring moves: 1/2 on contiguous shards, 3/4 on zigzag ones, under a causal mask; all of it under none. */
static void groupcast_volume_is_exact(void **state)
{
    (void)state;
    for (int32_t ranks = 2; ranks <= 9; ranks++) {
        for (int kind = 0; kind < 4; kind++) {
            const rt_layout_kind layout = kind % 2 == 0 ? RT_LAYOUT_CONTIGUOUS : RT_LAYOUT_ZIGZAG;
            const double share = kind >= 2 ? 1.0 : kind == 0 ? 0.5 : 0.75;
            const rt_problem p =
                problem_make(ranks * 8, ranks * 8, 4, 2, 8, kind >= 2 ? RT_MASK_FULL : RT_MASK_CAUSAL);
            made m = plan_make(&p, "groupcast", layout, ranks), ring = plan_make(&p, "ring", layout, ranks);
            rt_counters f = count(&p, &m, false), b = count(&p, &m, true), whole = count(&p, &ring, false);
            const double moved = sum(whole.sent[RT_PAYLOAD_KV], ranks) * share;
            t_assert_bits_eq(sum(f.sent[RT_PAYLOAD_KV], ranks), moved);
            t_assert_bits_eq(sum(b.sent[RT_PAYLOAD_KV], ranks), moved);
            t_assert_bits_eq(sum(b.sent[RT_PAYLOAD_DKV], ranks), moved);
            assert_int_equal(f.steps, 2);
            assert_int_equal(b.steps, 3);
            assert_int_equal(f.max_partials, 2); /* its own keys, and all others' in one call */
            rt_counters_reset(&f);
            rt_counters_reset(&b);
            rt_counters_reset(&whole);
            made_reset(&m);
            made_reset(&ring);
        }
    }
}

/* Every key that moves is seen by a query of its destination; with stages as with one. */
static void groupcast_moves_only_what_is_seen(void **state)
{
    (void)state;
    const char *const names[] = {"groupcast", "groupcast:stages=2"};
    for (int round = 0; round < 24; round++) {
        rt_problem p = problem_make(37, 41, 2, 1, 4, (rt_mask_kind)(round % 3));
        uint8_t dense[37 * 41], valid[41];
        masks_vary(&p, round / 3, valid, dense);
        made m = plan_make(&p, names[round % 2], (rt_layout_kind)(round % 3), 5);
        const rt_pass *pass = &m.plan.forward;
        for (int64_t i = 0; i < pass->n_moves; i++) {
            const rt_move *move = &pass->moves[i];
            const int64_t *k_pos = rt_layout_positions(&m.l, RT_SIDE_KV, move->piece.shard);
            for (int64_t k = move->piece.slot0; k < move->piece.slot1; k++)
                assert_true(rt_mask_pairs(&p, rt_layout_positions(&m.l, RT_SIDE_Q, move->to),
                                          rt_layout_count(&m.l, RT_SIDE_Q, move->to), k_pos + k, 1) > 0);
        }
        made_reset(&m);
    }
    const rt_problem p = problem_make(60, 60, 2, 1, 4, RT_MASK_CAUSAL);
    made m = plan_make(&p, "groupcast:stages=5", RT_LAYOUT_CONTIGUOUS, 6);
    assert_int_equal(m.plan.forward.n_steps, 6);
    assert_int_equal(m.plan.backward.n_steps, 7);
    for (int64_t i = 0; i < m.plan.forward.n_moves; i++) /* stage k: sources k + 1 ranks away */
        assert_int_equal(m.plan.forward.moves[i].to - m.plan.forward.moves[i].from,
                         rt_pass_step(&m.plan.forward, i) + 1);
    made_reset(&m);
}

/* ---- decode -------------------------------------------------------------------------------------------- */

static double payload_of_steps(const rt_pass *pass, const rt_problem *p, rt_payload payload, int64_t step0,
                               int64_t step1)
{
    double rows = 0.0;
    for (int64_t i = pass->steps[step0].move0; i < pass->steps[step1 - 1].move1; i++) {
        const rt_move *m = &pass->moves[i];
        if (m->payload == payload && m->from != m->to)
            rows +=
                (double)((m->piece.slot1 - m->piece.slot0) * (m->piece.head1 - m->piece.head0) * p->batch);
    }
    return rows;
}

/* Sq queries spread over the ranks, keys interleaved: rows (token, head) over all ranks.  Gather: Sq H (P - 1).  Tree
 * and reduce-scatter: as many partials.  All-to-all: Sq H (P - 1) again, and one hop home with Sq H (P - 1) / P. */
static void decode_rows_match_closed_form(void **state)
{
    (void)state;
    for (int32_t ranks = 1; ranks <= 8; ranks++) {
        const int64_t sq = ranks, heads = 840;
        rt_problem p = problem_make(sq, 30 * ranks, heads, 840, 2, RT_MASK_FULL);
        p.batch = 2;
        const double rows = 2.0 * (double)(sq * heads), all = rows * (ranks - 1);
        int64_t levels = 0;
        for (int32_t span = 1; span < ranks; span *= 2)
            levels++;
        for (int join = 0; join < 3; join++) {
            const char *const names[] = {"decode:join=tree", "decode:join=ag-rs", "decode:join=a2a"};
            const int64_t joins[] = {levels, ranks - 1, 1};
            made m = plan_make(&p, names[join], RT_LAYOUT_STRIPED, ranks);
            const rt_pass *f = &m.plan.forward, *b = &m.plan.backward;
            const int64_t first = ranks > 1 ? 2 : 1, home = join == 2 && ranks > 1,
                          n = ranks > 1 ? joins[join] : 0;
            assert_int_equal(f->n_steps, first + n + home);
            rt_counters c = count(&p, &m, false);
            assert_int_equal(c.max_partials, ranks);
            t_assert_bits_eq(payload_of_steps(f, &p, RT_PAYLOAD_Q, 0, f->n_steps), all);
            t_assert_bits_eq(sum(c.sent[RT_PAYLOAD_KV], ranks), 0.0);
            if (n > 0)
                t_assert_bits_eq(payload_of_steps(f, &p, RT_PAYLOAD_STATE, first, first + n), all);
            if (home)
                t_assert_bits_eq(payload_of_steps(f, &p, RT_PAYLOAD_STATE, f->n_steps - 1, f->n_steps),
                                 rows * (ranks - 1) / ranks);
            t_assert_bits_eq(payload_of_steps(b, &p, RT_PAYLOAD_DQ, 0, b->n_steps), all);
            rt_counters_reset(&c);
            made_reset(&m);
        }
    }
}

/* The tree: at level n the ranks at an odd multiple of 2^n from the owner send 2^n ranks nearer. */
static void decode_tree_halves_the_ranks(void **state)
{
    (void)state;
    const rt_problem p = problem_make(1, 60, 2, 1, 4, RT_MASK_CAUSAL_BOTTOM_RIGHT);
    made m = plan_make(&p, "decode", RT_LAYOUT_STRIPED, 6);
    static const int32_t want[][3] = {{2, 1, 0}, {2, 3, 2}, {2, 5, 4}, {3, 2, 0}, {4, 4, 0}};
    const rt_pass *pass = &m.plan.forward;
    int n = 0;
    assert_int_equal(pass->n_steps, 5);
    for (int64_t i = 0; i < pass->n_moves; i++) {
        const rt_move *move = &pass->moves[i];
        if (move->payload != RT_PAYLOAD_STATE)
            continue;
        assert_true(n < 5);
        assert_int_equal(rt_pass_step(pass, i), want[n][0]);
        assert_int_equal(move->from, want[n][1]);
        assert_int_equal(move->to, want[n][2]);
        assert_int_equal(move->how, RT_JOIN);
        n++;
    }
    assert_int_equal(n, 5);
    made_reset(&m);
}

/* The reduce-scatter begins behind the owner and goes round to it; all-to-all joins in the order of the ranks. */
static void decode_orders_of_joins(void **state)
{
    (void)state;
    const rt_problem p = problem_make(3, 60, 3, 1, 4, RT_MASK_FULL);
    made ring = plan_make(&p, "decode:join=ag-rs", RT_LAYOUT_STRIPED, 3),
         all = plan_make(&p, "decode:join=a2a", RT_LAYOUT_STRIPED, 3);
    for (int64_t i = 0; i < ring.plan.forward.n_moves; i++) {
        const rt_move *m = &ring.plan.forward.moves[i];
        if (m->payload == RT_PAYLOAD_STATE) {
            assert_int_equal(m->to, (m->from + 1) % 3);
            assert_int_equal(m->from, (m->piece.shard + rt_pass_step(&ring.plan.forward, i) - 1) % 3);
        }
    }
    int32_t last[3][3] = {{-1, -1, -1}, {-1, -1, -1}, {-1, -1, -1}};
    for (int64_t i = 0; i < all.plan.forward.n_moves; i++) {
        const rt_move *m = &all.plan.forward.moves[i];
        if (m->payload != RT_PAYLOAD_STATE || m->how != RT_JOIN)
            continue;
        assert_int_equal(m->piece.head0, m->to); /* three heads, three ranks */
        assert_int_equal(m->piece.head1, m->to + 1);
        assert_int_equal(last[m->to][m->piece.shard] + 1, m->from);
        last[m->to][m->piece.shard] = m->from;
    }
    for (int32_t r = 0; r < 3; r++)
        for (int32_t s = 0; s < 3; s++)
            assert_int_equal(last[r][s], 2);
    made_reset(&ring);
    made_reset(&all);
}

/* ---- the table ----------------------------------------------------------------------------------------- */

/* A pair of shards that a rank computes in two tiles stands there once. */
static void table_names_a_pair_once(void **state)
{
    (void)state;
    rt_problem p = problem_make(12, 12, 2, 1, 4, RT_MASK_CAUSAL);
    p.prefix = 2; /* rank 1 sees keys 0, 1 and 5 of rank 0 */
    p.has_window = true;
    p.window_left = 1;
    p.window_right = -1;
    made m = plan_make(&p, "groupcast", RT_LAYOUT_CONTIGUOUS, 2);
    assert_int_equal(m.plan.forward.n_tiles, 4);
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    rt_context ctx = {0};
    const rt_plan_print_options table = {.table = true};
    assert_non_null(f);
    t_assert_ok(&ctx, rt_plan_print(&ctx, f, &m.plan, &p, &m.l, &table));
    assert_int_equal(fclose(f), 0);
    assert_non_null(strstr(text, "\n  forward       0  q0k0  q1k1\n  forward       1     .  q1k0\n"));
    assert_null(strstr(text, " tile "));
    free(text);
    made_reset(&m);
}

/* ---- all of them --------------------------------------------------------------------------------------- */

static void every_variant_is_proved_for_every_mask(void **state)
{
    (void)state;
    for (int round = 0; round < t_cases(240); round++) {
        rt_problem p;
        uint8_t dense[41 * 41], valid[2 * 41];
        int64_t cu[2][4];
        const int32_t ranks = problem_vary(&p, round, cu, valid, dense);
        rt_context ctx = {0};
        rt_layout l;
        t_assert_ok(&ctx, rt_layout_create(&ctx, &p, (rt_layout_kind)(round % 3),
                                           (rt_remainder)(round / 3 % 3), ranks, &l));
        for (int n = 0; schedule_variants[n] != NULL; n++) {
            rt_plan plan;
            t_assert_ok(&ctx, rt_plan_create(&ctx, schedule_variants[n], &p, &l, &plan));
            assert_string_equal(plan.name, schedule_variants[n]);
            t_assert_ok(&ctx, rt_plan_verify(&ctx, &plan, &p, &l));
            rt_plan_reset(&plan);
        }
        rt_layout_reset(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(balanced_schedule_is_the_published_one),
        cmocka_unit_test(balanced_slots_and_bytes_match_closed_form),
        cmocka_unit_test(balanced_helpers_return_one_step_later),
        cmocka_unit_test(balanced_is_the_ring_where_nothing_is_masked),
        cmocka_unit_test(adaptive_schedules_are_the_worked_ones),
        cmocka_unit_test(adaptive_budget_decides),
        cmocka_unit_test(adaptive_keeps_its_budget),
        cmocka_unit_test(adaptive_takes_a_given_grid),
        cmocka_unit_test(burst_bytes_match_worked_table),
        cmocka_unit_test(groupcast_volume_is_exact),
        cmocka_unit_test(groupcast_moves_only_what_is_seen),
        cmocka_unit_test(decode_rows_match_closed_form),
        cmocka_unit_test(decode_tree_halves_the_ranks),
        cmocka_unit_test(decode_orders_of_joins),
        cmocka_unit_test(table_names_a_pair_once),
        cmocka_unit_test(every_variant_is_proved_for_every_mask),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
