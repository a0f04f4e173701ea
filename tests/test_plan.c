/* Planners, counters and printers, against closed forms and against plans written out by hand. */
#include <ringtrue/plan.h>

#include <jansson.h>

#include "check.h"

static rt_problem problem_make(int64_t sq, int64_t sk, int64_t hq, int64_t hkv, int64_t d,
                               rt_mask_kind mask)
{
    rt_problem p;
    memset(&p, 0, sizeof p);
    p.batch = 1;
    p.seqlen_q = sq;
    p.seqlen_k = sk;
    p.heads_q = hq;
    p.heads_kv = hkv;
    p.dim = p.dim_v = d;
    p.scale = rt_rsqrt_dim(d);
    p.mask = mask;
    return p;
}

typedef struct {
    rt_layout l;
    rt_plan plan;
} made;

static made plan_make(const rt_problem *p, const char *name, rt_layout_kind kind, int32_t ranks)
{
    made m;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_layout_create(&ctx, p, kind, RT_REMAINDER_SPREAD, ranks, &m.l));
    t_assert_ok(&ctx, rt_plan_create(&ctx, name, p, &m.l, &m.plan));
    t_assert_ok(&ctx, rt_plan_verify(&ctx, &m.plan, p, &m.l));
    return m;
}

static void made_reset(made *m)
{
    rt_plan_reset(&m->plan);
    rt_layout_reset(&m->l);
}

static rt_counters count(const rt_problem *p, const made *m, bool backward)
{
    const rt_wire_sizes w = {2.0, 4.0, 4.0};
    rt_counters c;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_plan_count(&ctx, backward ? &m->plan.backward : &m->plan.forward, p, &m->l, &w,
                                    backward, &c));
    return c;
}

/* Bytes sent per rank by ring, S = 131072, H = 32, Hkv = 8, D = 128, 2-byte KV, 4-byte dKV, in MiB. */
static void ring_bytes_match_worked_table(void **state)
{
    (void)state;
    static const struct {
        int32_t ranks;
        double forward, kv, dkv;
    } table[] = {{2, 256, 256, 1024}, {4, 384, 384, 1024}, {8, 448, 448, 1024}, {16, 480, 480, 1024}};
    const double mib = 1048576.0;
    const rt_problem p = problem_make(131072, 131072, 32, 8, 128, RT_MASK_CAUSAL);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        made m = plan_make(&p, "ring", RT_LAYOUT_CONTIGUOUS, table[i].ranks);
        rt_counters f = count(&p, &m, false), b = count(&p, &m, true);
        for (int32_t r = 0; r < table[i].ranks; r++) {
            t_assert_bits_eq(f.sent[RT_PAYLOAD_KV][r], table[i].forward * mib);
            t_assert_bits_eq(b.sent[RT_PAYLOAD_KV][r], table[i].kv * mib);
            t_assert_bits_eq(b.sent[RT_PAYLOAD_DKV][r], table[i].dkv * mib);
            t_assert_bits_eq(f.sent[RT_PAYLOAD_DKV][r], 0.0);
            t_assert_bits_eq(f.sent[RT_PAYLOAD_STATE][r] + f.sent[RT_PAYLOAD_Q][r], 0.0);
            assert_int_equal(f.messages[r], table[i].ranks - 1);
            assert_int_equal(b.messages[r], 2 * table[i].ranks - 1);
        }
        rt_counters_reset(&f);
        rt_counters_reset(&b);
        made_reset(&m);
    }
}

/* 2(P-1) T Hkv D e forward, and 2P T Hkv D e_g more backward, for odd P and D != Dv too. */
static void ring_bytes_match_closed_form(void **state)
{
    (void)state;
    for (int32_t ranks = 1; ranks <= 7; ranks++) {
        rt_problem p = problem_make(210 * 2, 210 * 2, 4, 2, 6, RT_MASK_FULL);
        p.dim_v = 10;
        p.batch = 3;
        const double t = 420.0 / (double)ranks, row = 3.0 * t * 2.0 * (6.0 + 10.0);
        if (420 % (2 * ranks) != 0)
            continue;
        for (int kind = 0; kind < 3; kind++) {
            made m = plan_make(&p, "ring", (rt_layout_kind)kind, ranks);
            rt_counters f = count(&p, &m, false), b = count(&p, &m, true);
            for (int32_t r = 0; r < ranks; r++) {
                t_assert_bits_eq(f.sent[RT_PAYLOAD_KV][r], (double)(ranks - 1) * row * 2.0);
                t_assert_bits_eq(b.sent[RT_PAYLOAD_KV][r], (double)(ranks - 1) * row * 2.0);
                t_assert_bits_eq(b.sent[RT_PAYLOAD_DKV][r], ranks == 1 ? 0.0 : (double)ranks * row * 4.0);
                t_assert_bits_eq(f.flops[r], (double)f.pairs[r] * 32.0);
                t_assert_bits_eq(b.flops[r], (double)b.pairs[r] * 2.0 * (18.0 + 20.0));
                assert_int_equal(f.pairs[r], 3 * 4 * 420 * (420 / ranks));
                assert_int_equal(f.buffers[r], ranks == 1 ? 0 : ranks == 2 ? 1 : 2);
                assert_int_equal(b.buffers[r], ranks == 1 ? 0 : ranks == 2 ? 3 : 4);
            }
            assert_int_equal(f.steps, ranks);
            assert_int_equal(b.steps, ranks == 1 ? 1 : ranks + 1);
            assert_int_equal(f.max_partials, ranks);
            rt_counters_reset(&f);
            rt_counters_reset(&b);
            made_reset(&m);
        }
    }
}

/* Causal pairs per rank, exact. */
static void causal_work_matches_table(void **state)
{
    (void)state;
    static const struct {
        int32_t ranks;
        rt_layout_kind kind;
        int64_t w[8];
        int64_t balance; /* max over mean, in 1/10000, to nearest */
    } table[] = {
        {2, RT_LAYOUT_CONTIGUOUS, {2080, 6176}, 14961},
        {2, RT_LAYOUT_ZIGZAG, {4128, 4128}, 10000},
        {2, RT_LAYOUT_STRIPED, {4096, 4160}, 10078},
        {4, RT_LAYOUT_CONTIGUOUS, {2080, 6176, 10272, 14368}, 17471},
        {4, RT_LAYOUT_ZIGZAG, {8224, 8224, 8224, 8224}, 10000},
        {4, RT_LAYOUT_STRIPED, {8128, 8192, 8256, 8320}, 10117},
        {8, RT_LAYOUT_CONTIGUOUS, {2080, 6176, 10272, 14368, 18464, 22560, 26656, 30752}, 18733},
        {8, RT_LAYOUT_ZIGZAG, {16416, 16416, 16416, 16416, 16416, 16416, 16416, 16416}, 10000},
        {8, RT_LAYOUT_STRIPED, {16192, 16256, 16320, 16384, 16448, 16512, 16576, 16640}, 10136},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const rt_problem p =
            problem_make(64 * table[i].ranks, 64 * table[i].ranks, 1, 1, 4, RT_MASK_CAUSAL);
        made m = plan_make(&p, "ring", table[i].kind, table[i].ranks);
        for (int backward = 0; backward < 2; backward++) {
            rt_counters c = count(&p, &m, backward);
            for (int32_t r = 0; r < table[i].ranks; r++)
                assert_int_equal(c.pairs[r], table[i].w[r]);
            assert_int_equal((int64_t)(c.max_over_mean * 10000.0 + 0.5), table[i].balance);
            rt_counters_reset(&c);
        }
        made_reset(&m);
    }
}

/* Pairs of rank r at step t, per head. */
static int64_t step_pairs(const rt_pass *pass, int64_t t, int32_t r)
{
    int64_t n = 0;
    for (int64_t i = pass->steps[t].tile0; i < pass->steps[t].tile1; i++)
        n += pass->tiles[i].rank == r ? pass->tiles[i].pairs : 0;
    return n;
}

static void causal_work_per_step_matches_closed_form(void **state)
{
    (void)state;
    for (int32_t ranks = 2; ranks <= 8; ranks++) {
        const int64_t t = 6, s = t * ranks;
        const rt_problem p = problem_make(s, s, 1, 1, 4, RT_MASK_CAUSAL);
        made c = plan_make(&p, "ring", RT_LAYOUT_CONTIGUOUS, ranks),
             z = plan_make(&p, "ring", RT_LAYOUT_ZIGZAG, ranks),
             x = plan_make(&p, "ring", RT_LAYOUT_STRIPED, ranks);
        for (int32_t r = 0; r < ranks; r++) {
            for (int64_t step = 0; step < ranks; step++) {
                int64_t diagonal = t * (t + 1) / 2;
                assert_int_equal(step_pairs(&c.plan.forward, step, r), step == 0   ? diagonal
                                                                       : step <= r ? t * t
                                                                                   : 0);
                assert_int_equal(step_pairs(&z.plan.forward, step, r), step == 0 ? diagonal : t * t / 2);
                assert_int_equal(step_pairs(&x.plan.backward, step, r),
                                 step <= r ? diagonal : t * (t - 1) / 2);
            }
        }
        rt_counters n = count(&p, &c, false);
        assert_int_equal(n.critical_pairs, (ranks - 1) * t * t + t * (t + 1) / 2);
        rt_counters_reset(&n);
        n = count(&p, &z, false);
        assert_int_equal(n.critical_pairs, n.pairs[0]);
        rt_counters_reset(&n);
        made_reset(&c);
        made_reset(&z);
        made_reset(&x);
    }
}

static void reference_flops(void **state)
{
    (void)state;
    const rt_problem p = problem_make(8192, 8192, 32, 8, 128, RT_MASK_CAUSAL);
    for (int32_t ranks = 1; ranks <= 4; ranks += 3) {
        made m = plan_make(&p, ranks == 1 ? "single" : "ring", RT_LAYOUT_ZIGZAG, ranks);
        for (int backward = 0; backward < 2; backward++) {
            rt_counters c = count(&p, &m, backward);
            double sum = 0.0;
            for (int32_t r = 0; r < ranks; r++)
                sum += c.flops[r];
            t_assert_bits_eq(sum, backward ? 1374557306880.0 : 549822922752.0);
            rt_counters_reset(&c);
        }
        made_reset(&m);
    }
}

/* Pairs per rank under causal masks inside documents. */
static void document_work_matches_table(void **state)
{
    (void)state;
    static const struct {
        int64_t documents, cu[4];
        int32_t ranks;
        int64_t w[3][4]; /* contiguous, zigzag, striped */
    } table[] = {
        {2, {0, 8, 24}, 2, {{46, 126}, {102, 70}, {80, 92}}},
        {2, {0, 8, 24}, 4, {{21, 25, 45, 81}, {51, 51, 43, 27}, {34, 40, 46, 52}}},
        {3, {0, 16, 32, 64}, 2, {{272, 528}, {528, 272}, {384, 416}}},
        {2, {0, 48, 64}, 2, {{528, 784}, {272, 1040}, {640, 672}}},
        {2, {0, 48, 64}, 4, {{136, 392, 648, 136}, {136, 136, 520, 520}, {304, 320, 336, 352}}},
        {2, {0, 32, 64}, 4, {{136, 392, 136, 392}, {264, 264, 264, 264}, {240, 256, 272, 288}}},
        {3, {0, 4, 8, 64}, 2, {{320, 1296}, {832, 784}, {792, 824}}},
        {3, {0, 4, 8, 64}, 4, {{56, 264, 520, 776}, {440, 392, 392, 392}, {380, 396, 412, 428}}},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int64_t cu[4];
        memcpy(cu, table[i].cu, sizeof cu);
        const int64_t s = cu[table[i].documents];
        rt_problem p = problem_make(s, s, 1, 1, 4, RT_MASK_CAUSAL);
        p.documents = table[i].documents;
        p.cu_q = p.cu_k = cu;
        for (int kind = 0; kind < 3; kind++) {
            made m = plan_make(&p, "ring", (rt_layout_kind)kind, table[i].ranks);
            rt_counters c = count(&p, &m, false);
            for (int32_t r = 0; r < table[i].ranks; r++)
                assert_int_equal(c.pairs[r], table[i].w[kind][r]);
            rt_counters_reset(&c);
            made_reset(&m);
        }
    }
}

/* Tiles that hold something visible for a row: its partials. */
static int64_t row_partials(const rt_problem *p, const made *m, int32_t r, int64_t slot)
{
    int64_t n = 0, lo, hi;
    rt_mask_row(p, rt_layout_positions(&m->l, RT_SIDE_Q, r)[slot], &lo, &hi);
    for (int64_t i = 0; i < m->plan.forward.n_tiles; i++) {
        const rt_tile *t = &m->plan.forward.tiles[i];
        bool sees = false;
        for (int64_t k = t->kv.slot0; k < t->kv.slot1; k++) {
            int64_t j = rt_layout_positions(&m->l, RT_SIDE_KV, t->kv.shard)[k];
            sees = sees || (lo <= j && j < hi);
        }
        n += sees && t->q.shard == r && t->q.slot0 <= slot && slot < t->q.slot1;
    }
    return n;
}

static void partials_per_row_match_closed_form(void **state)
{
    (void)state;
    const int32_t ranks = 4;
    const int64_t t = 4;
    const rt_problem p = problem_make(16, 16, 2, 1, 4, RT_MASK_CAUSAL);
    for (int kind = 0; kind < 3; kind++) {
        made m = plan_make(&p, "ring", (rt_layout_kind)kind, ranks);
        rt_counters c = count(&p, &m, false);
        for (int32_t r = 0; r < ranks; r++) {
            for (int64_t slot = 0; slot < t; slot++) {
                int64_t want = kind == RT_LAYOUT_CONTIGUOUS ? r + 1
                               : kind == RT_LAYOUT_ZIGZAG   ? (slot < t / 2 ? r + 1 : ranks)
                                                            : (slot == 0 ? r + 1 : ranks);
                assert_int_equal(row_partials(&p, &m, r, slot), want);
            }
        }
        assert_int_equal(c.max_partials, ranks);
        rt_counters_reset(&c);
        made_reset(&m);
    }
    made m = plan_make(&p, "single", RT_LAYOUT_CONTIGUOUS, 1);
    rt_counters c = count(&p, &m, false);
    assert_int_equal(c.max_partials, 1);
    rt_counters_reset(&c);
    made_reset(&m);
}

static void ring_zigzag_computes_only_the_halves_that_count(void **state)
{
    (void)state;
    const rt_problem p = problem_make(32, 32, 4, 2, 4, RT_MASK_CAUSAL);
    made m = plan_make(&p, "ring", RT_LAYOUT_ZIGZAG, 4);
    assert_int_equal(m.plan.forward.n_tiles, 16);
    for (int64_t i = 0; i < 16; i++) {
        const rt_tile *t = &m.plan.forward.tiles[i];
        assert_int_equal(t->q.slot0, t->kv.shard > t->rank ? 4 : 0);
        assert_int_equal(t->q.slot1, 8);
        assert_int_equal(t->kv.slot0, 0);
        assert_int_equal(t->kv.slot1, t->kv.shard < t->rank ? 4 : 8);
        assert_int_equal(t->q.head1, 4);
        assert_int_equal(t->kv.head1, 2);
    }
    made_reset(&m);
}

/* Documents empty other halves: 3 documents over runs of 4 tokens, tile of rank 0 against the keys of
 * rank 1. */
static void ring_zigzag_documents_shrink_the_tile(void **state)
{
    (void)state;
    static const struct {
        int64_t cu[4], q0, q1, k0, k1, pairs;
    } table[] = {{{0, 8, 28, 32}, 0, 4, 0, 4, 16},  /* head against head */
                 {{0, 4, 24, 32}, 4, 8, 4, 8, 16},  /* tail against tail */
                 {{0, 8, 24, 32}, 0, 8, 0, 8, 32}}; /* both: the rectangle around them */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int64_t cu[4];
        memcpy(cu, table[i].cu, sizeof cu);
        rt_problem p = problem_make(32, 32, 4, 2, 4, RT_MASK_FULL);
        p.documents = 3;
        p.cu_q = p.cu_k = cu;
        made m = plan_make(&p, "ring", RT_LAYOUT_ZIGZAG, 4);
        int64_t found = 0;
        for (int64_t n = 0; n < m.plan.forward.n_tiles; n++) {
            const rt_tile *t = &m.plan.forward.tiles[n];
            if (t->rank != 0 || t->kv.shard != 1)
                continue;
            found++;
            assert_int_equal(t->q.slot0, table[i].q0);
            assert_int_equal(t->q.slot1, table[i].q1);
            assert_int_equal(t->kv.slot0, table[i].k0);
            assert_int_equal(t->kv.slot1, table[i].k1);
            assert_int_equal(t->pairs, table[i].pairs);
        }
        assert_int_equal(found, 1);
        made_reset(&m);
    }
}

static void move_to_oneself_sends_nothing(void **state)
{
    (void)state;
    const rt_problem p = problem_make(32, 32, 4, 2, 4, RT_MASK_FULL);
    made m = plan_make(&p, "ring", RT_LAYOUT_CONTIGUOUS, 4);
    m.plan.forward.moves[0].to = m.plan.forward.moves[0].from;
    rt_counters c = count(&p, &m, false);
    t_assert_bits_eq(c.sent[RT_PAYLOAD_KV][0], 2.0 * 8.0 * 2.0 * 8.0 * 2.0);
    assert_int_equal(c.messages[0], 2);
    assert_int_equal(c.messages[1], 3);
    rt_counters_reset(&c);
    made_reset(&m);
}

static void ring_listing_is_as_described(void **state)
{
    (void)state;
    const int32_t ranks = 4;
    const rt_problem p = problem_make(32, 32, 4, 2, 4, RT_MASK_FULL);
    made m = plan_make(&p, "ring", RT_LAYOUT_CONTIGUOUS, ranks);
    const int32_t kv_buf[] = {0, 1, 2, 1}, dkv_buf[] = {1, 2, 1, 2};
    const rt_pass *b = &m.plan.backward;
    for (int64_t t = 0; t < b->n_steps; t++) {
        assert_int_equal(b->steps[t].tile1 - b->steps[t].tile0, t < 4 ? 4 : 0);
        assert_int_equal(b->steps[t].move1 - b->steps[t].move0, (t < 3 ? 4 : 0) + (t > 0 ? 4 : 0));
        for (int64_t i = b->steps[t].tile0; i < b->steps[t].tile1; i++) {
            const rt_tile *x = &b->tiles[i];
            assert_int_equal(x->rank, i - b->steps[t].tile0);
            assert_int_equal(x->q.shard, x->rank);
            assert_int_equal(x->kv.shard, (x->rank - t + 4) % 4);
            assert_int_equal(x->kv_buf, kv_buf[t]);
            assert_int_equal(x->dst_kv, dkv_buf[t]);
            assert_int_equal(x->q_buf + x->dst_q, 0);
        }
        for (int64_t i = b->steps[t].move0; i < b->steps[t].move1; i++) {
            const rt_move *x = &b->moves[i];
            assert_int_equal(x->to, (x->from + 1) % 4);
            if (x->payload == RT_PAYLOAD_KV) {
                assert_int_equal(x->piece.shard, (x->from - t + 4) % 4);
                assert_int_equal(x->src_buf, kv_buf[t]);
                assert_int_equal(x->dst_buf, kv_buf[t + 1]);
                assert_int_equal(x->how, RT_PUT);
            } else {
                assert_int_equal(x->payload, RT_PAYLOAD_DKV);
                assert_int_equal(x->piece.shard, (x->from - t + 5) % 4);
                assert_int_equal(x->src_buf, dkv_buf[t - 1]);
                assert_int_equal(x->dst_buf, t < 4 ? dkv_buf[t] : 0);
                assert_int_equal(x->how, t < 4 ? RT_ADD : RT_PUT);
                assert_true(t < 4 || x->to == x->piece.shard);
            }
        }
    }
    made_reset(&m);
}

static void ring_empty_shards_do_not_move(void **state)
{
    (void)state;
    const rt_problem p = problem_make(3, 2, 2, 1, 4, RT_MASK_FULL);
    made m = plan_make(&p, "ring", RT_LAYOUT_CONTIGUOUS, 5); /* q 1 1 1 0 0, kv 1 1 0 0 0 */
    assert_int_equal(m.plan.forward.n_tiles, 6);
    assert_int_equal(m.plan.forward.n_moves, 2 * 4);
    assert_int_equal(m.plan.backward.n_moves, 2 * 4 + 2 * 5);
    made_reset(&m);
}

static void single_moves_shards_and_results(void **state)
{
    (void)state;
    const rt_problem p = problem_make(12, 12, 2, 1, 4, RT_MASK_CAUSAL);
    made m = plan_make(&p, "single", RT_LAYOUT_CONTIGUOUS, 1);
    assert_int_equal(m.plan.forward.n_steps, 1);
    assert_int_equal(m.plan.forward.n_tiles, 1);
    assert_int_equal(m.plan.forward.n_moves + m.plan.backward.n_moves, 0);
    assert_int_equal(m.plan.forward.tiles[0].pairs, 78);
    made_reset(&m);
    m = plan_make(&p, "single", RT_LAYOUT_CONTIGUOUS, 3);
    assert_int_equal(m.plan.forward.n_tiles, 6);
    assert_int_equal(m.plan.forward.n_moves, 4 + 2);
    assert_int_equal(m.plan.backward.n_moves, 6 + 4);
    rt_counters c = count(&p, &m, true);
    assert_int_equal(c.pairs[1] + c.pairs[2], 0);
    t_assert_bits_eq(c.sent[RT_PAYLOAD_DO][1], 4.0 * 2.0 * (4.0 * 2.0 + 8.0));
    t_assert_bits_eq(c.sent[RT_PAYLOAD_Q][2], 4.0 * 2.0 * 4.0 * 2.0);
    t_assert_bits_eq(c.sent[RT_PAYLOAD_DQ][0], 2.0 * 4.0 * 2.0 * 4.0 * 4.0);
    t_assert_bits_eq(c.sent[RT_PAYLOAD_DKV][0], 2.0 * 4.0 * 1.0 * 8.0 * 4.0);
    t_assert_bits_eq(c.max_over_mean, 3.0);
    /* Q, KV and DO of two shards while DQ and DKV of the two are written */
    assert_int_equal(c.buffers[0], 10);
    rt_counters_reset(&c);
    c = count(&p, &m, false);
    t_assert_bits_eq(c.sent[RT_PAYLOAD_STATE][0], 2.0 * 4.0 * 2.0 * (4.0 * 4.0 + 4.0));
    assert_int_equal(c.buffers[0], 6);
    rt_counters_reset(&c);
    made_reset(&m);
}

static void unknown_planner_lists_the_known(void **state)
{
    (void)state;
    const rt_problem p = problem_make(8, 8, 1, 1, 4, RT_MASK_FULL),
                     other = problem_make(9, 8, 1, 1, 4, RT_MASK_FULL);
    rt_layout l;
    rt_plan plan;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_layout_create(&ctx, &p, RT_LAYOUT_CONTIGUOUS, RT_REMAINDER_SPREAD, 2, &l));
    t_assert_status(&ctx, rt_plan_create(&ctx, "rings", &p, &l, &plan), RT_ERR_ARG);
    assert_non_null(strstr(ctx.message, "rings"));
    assert_non_null(strstr(ctx.message, "single, ring"));
    t_assert_status(&ctx, rt_plan_create(&ctx, "ring", &other, &l, &plan), RT_ERR_ARG);
    assert_non_null(strstr(ctx.message, "Sq 8"));
    rt_layout_reset(&l);
}

static char *print_text(const rt_problem *p, const made *m, bool json)
{
    char *text = NULL;
    size_t size = 0;
    rt_context ctx = {0};
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    t_assert_ok(
        &ctx,
        json ? rt_plan_print_json(&ctx, f, &m->plan, p, &m->l, &(rt_plan_print_options){.verified = true})
             : rt_plan_print(&ctx, f, &m->plan, p, &m->l, &(rt_plan_print_options){.verified = true}));
    assert_int_equal(fclose(f), 0);
    return text;
}

static void print_rows_match_the_plan(void **state)
{
    (void)state;
    const rt_problem p = problem_make(10, 10, 4, 2, 4, RT_MASK_CAUSAL);
    made m = plan_make(&p, "ring", RT_LAYOUT_ZIGZAG, 3);
    char *text = print_text(&p, &m, false);
    int64_t rows[2] = {0, 0}, fields_want = 19;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        if (line[0] == '#')
            continue;
        rows[strstr(line, " tile ") == NULL]++;
        int64_t fields = 0;
        for (const char *c = line; *c != '\0'; c++)
            fields += *c != ' ' && (c == line || c[-1] == ' ');
        assert_int_equal(fields, fields_want);
    }
    assert_int_equal(rows[0], m.plan.forward.n_tiles + m.plan.backward.n_tiles);
    assert_int_equal(rows[1], m.plan.forward.n_moves + m.plan.backward.n_moves);
    free(text);
    text = print_text(&p, &m, false);
    assert_non_null(strstr(text, "# note: frameworks define zigzag only for multiples of 6"));
    assert_non_null(strstr(text, "critical path"));
    free(text);
    made_reset(&m);
}

static void print_json_parses_and_matches(void **state)
{
    (void)state;
    const rt_problem p = problem_make(10, 10, 4, 2, 4, RT_MASK_CAUSAL);
    made m = plan_make(&p, "ring", RT_LAYOUT_ZIGZAG, 3);
    char *text = print_text(&p, &m, true);
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        fail_msg("line %d: %s", error.line, error.text);
    assert_int_equal(json_integer_value(json_object_get(root, "schema")), 1);
    assert_string_equal(json_string_value(json_object_get(root, "planner")), "ring");
    for (int backward = 0; backward < 2; backward++) {
        const rt_pass *pass = backward ? &m.plan.backward : &m.plan.forward;
        json_t *j = json_object_get(root, backward ? "backward" : "forward");
        json_t *steps = json_object_get(j, "steps");
        assert_int_equal(json_array_size(steps), pass->n_steps);
        for (int64_t t = 0; t < pass->n_steps; t++) {
            json_t *step = json_array_get(steps, (size_t)t), *tiles = json_object_get(step, "tiles");
            assert_int_equal(json_array_size(tiles), pass->steps[t].tile1 - pass->steps[t].tile0);
            assert_int_equal(json_array_size(json_object_get(step, "moves")),
                             pass->steps[t].move1 - pass->steps[t].move0);
            for (size_t i = 0; i < json_array_size(tiles); i++) {
                const rt_tile *x = &pass->tiles[pass->steps[t].tile0 + (int64_t)i];
                json_t *tile = json_array_get(tiles, i);
                assert_int_equal(json_integer_value(json_object_get(tile, "pairs")), x->pairs);
                assert_true(json_is_integer(json_object_get(tile, "call")));
                assert_int_equal(json_integer_value(json_object_get(tile, "call")), x->call);
            }
        }
        rt_counters c = count(&p, &m, backward);
        json_t *counters = json_object_get(j, "counters");
        assert_int_equal(json_integer_value(json_object_get(counters, "critical_pairs")), c.critical_pairs);
        json_t *kv = json_object_get(json_object_get(counters, "sent_bytes"), "KV");
        assert_int_equal(json_array_size(kv), 3);
        for (size_t r = 0; r < 3; r++)
            t_assert_bits_eq(json_number_value(json_array_get(kv, r)), c.sent[RT_PAYLOAD_KV][r]);
        rt_counters_reset(&c);
    }
    json_decref(root);
    free(text);
    made_reset(&m);
}

static void print_to_a_full_device_is_an_error(void **state)
{
    (void)state;
    FILE *f = fopen("/dev/full", "w");
    if (f == NULL)
        skip();
    const rt_problem p = problem_make(10, 10, 4, 2, 4, RT_MASK_CAUSAL);
    made m = plan_make(&p, "ring", RT_LAYOUT_ZIGZAG, 3);
    rt_context ctx = {0};
    t_assert_status(&ctx,
                    rt_plan_print(&ctx, f, &m.plan, &p, &m.l, &(rt_plan_print_options){.verified = true}),
                    RT_ERR_IO);
    (void)fclose(f);
    made_reset(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_bytes_match_worked_table),
        cmocka_unit_test(ring_bytes_match_closed_form),
        cmocka_unit_test(causal_work_matches_table),
        cmocka_unit_test(causal_work_per_step_matches_closed_form),
        cmocka_unit_test(reference_flops),
        cmocka_unit_test(document_work_matches_table),
        cmocka_unit_test(partials_per_row_match_closed_form),
        cmocka_unit_test(ring_zigzag_computes_only_the_halves_that_count),
        cmocka_unit_test(ring_zigzag_documents_shrink_the_tile),
        cmocka_unit_test(move_to_oneself_sends_nothing),
        cmocka_unit_test(ring_listing_is_as_described),
        cmocka_unit_test(ring_empty_shards_do_not_move),
        cmocka_unit_test(single_moves_shards_and_results),
        cmocka_unit_test(unknown_planner_lists_the_known),
        cmocka_unit_test(print_rows_match_the_plan),
        cmocka_unit_test(print_json_parses_and_matches),
        cmocka_unit_test(print_to_a_full_device_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
