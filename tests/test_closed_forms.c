/* What the plans' counters say against closed forms and worked numbers: memory of the forms that keep or gather, decode with a
 * cache, work, and where one algorithm begins to send less than another. */
#include "planned.h"
#include "schedules.h"

static const rt_wire_sizes half = {2.0, 2.0, 2.0};

static rt_counters counted(const rt_problem *p, const made *m, bool backward, const rt_wire_sizes *w)
{
    rt_counters c;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_plan_count(&ctx, backward ? &m->plan.backward : &m->plan.forward, p, &m->l, w,
                                    backward, &c));
    return c;
}

/* Bytes that every rank sends of a payload (the same on each, or the test fails). */
static double sent_by_each(const rt_problem *p, const made *m, bool backward, rt_payload y)
{
    rt_counters c = counted(p, m, backward, &half);
    const double bytes = c.sent[y][0];
    for (int32_t r = 1; r < c.ranks; r++)
        t_assert_bits_eq(c.sent[y][r], bytes);
    rt_counters_reset(&c);
    return bytes;
}

static void peak_is(const rt_problem *p, const made *m, bool backward, int64_t elements, int64_t buffers)
{
    rt_counters c = counted(p, m, backward, &half);
    for (int32_t r = 0; r < c.ranks; r++) {
        assert_int_equal(c.elements[r], elements);
        assert_int_equal(c.buffers[r], buffers);
    }
    rt_counters_reset(&c);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- memory ------------------------------------------------------------------------------------------ */

/* TransformerEngine's two passes: P partial outputs of T H D at the end, one of them at home, each with its LSE; and the
 * KV that is read, and until the step before the last that which arrives.  Nothing else of the ring changes. */
static void two_passes_keep_every_partial(void **state)
{
    (void)state;
    for (int32_t ranks = 2; ranks <= 8; ranks++) {
        const int64_t t = 8, h = 6, hkv = 2, d = 4, kv = 2 * t * hkv * d, partial = t * h * (d + 1);
        const rt_problem p = problem_make(t * ranks, t * ranks, h, hkv, d, RT_MASK_CAUSAL);
        made m = plan_make(&p, "ring:join=end", RT_LAYOUT_ZIGZAG, ranks),
             ring = plan_make(&p, "ring", RT_LAYOUT_ZIGZAG, ranks);
        const int64_t last = kv + (ranks - 1) * partial, before = 2 * kv + (ranks - 2) * partial;
        rt_counters c = counted(&p, &m, false, &half), as = counted(&p, &ring, false, &half);
        for (int32_t r = 0; r < ranks; r++) {
            /* causal: KV of a rank below is read by its first half, KV of one above by the second half of the rows */
            int64_t most = kv, partials = 0;
            for (int32_t step = 1; step < ranks; step++) {
                const bool below = step <= r;
                partials += below ? partial : partial / 2;
                most = larger(most, partials + (step < ranks - 1 ? 2 * kv : below ? kv / 2 : kv));
            }
            assert_int_equal(c.elements[r], most);
            assert_int_equal(c.pairs[r], as.pairs[r]);
            assert_int_equal(c.messages[r], as.messages[r]);
            t_assert_bits_eq(c.sent[RT_PAYLOAD_KV][r], as.sent[RT_PAYLOAD_KV][r]);
            t_assert_bits_eq(c.sent[RT_PAYLOAD_STATE][r], 0.0);
        }
        assert_int_equal(c.steps, ranks + 1);
        assert_int_equal(c.max_partials, ranks);
        assert_int_equal(c.idle_slots, 0);
        rt_counters_reset(&c);
        rt_counters_reset(&as);
        made_reset(&m);
        made_reset(&ring);
        const rt_problem full = problem_make(t * ranks, t * ranks, h, hkv, d, RT_MASK_FULL);
        m = plan_make(&full, "ring:join=end", RT_LAYOUT_ZIGZAG, ranks);
        peak_is(&full, &m, false, ranks == 2 ? last : larger(last, before), ranks);
        assert_int_equal(last - kv - (ranks - 1) * t * h + t * h * d, ranks * t * h * d);
        made_reset(&m);
    }
}

/* KV of all others, and in the backward their gradients too: in one call or one for each half, it is the same. */
static void gathered_gradients_double_the_peak(void **state)
{
    (void)state;
    static const char *const names[] = {"all-gather", "all-gather:form=chunks"};
    for (int32_t ranks = 2; ranks <= 8; ranks++)
        for (int n = 0; n < 2; n++) {
            const int64_t t = 8, hkv = 3, d = 4, others = 2 * (ranks - 1) * t * hkv * d;
            const rt_problem p = problem_make(t * ranks, t * ranks, 6, hkv, d, RT_MASK_FULL);
            made m = plan_make(&p, names[n], RT_LAYOUT_ZIGZAG, ranks);
            peak_is(&p, &m, false, others, ranks - 1);
            peak_is(&p, &m, true, 2 * others, 2 * (ranks - 1));
            made_reset(&m);
        }
    for (int64_t stride = 1; stride <= 6; stride++) { /* llama3: two buffers of so many heads */
        const rt_problem p = problem_make(32, 32, 12, 12, 4, RT_MASK_FULL);
        char name[64];
        (void)snprintf(name, sizeof name, "all-gather:stride=%d", (int)stride);
        made m = plan_make(&p, name, RT_LAYOUT_CONTIGUOUS, 4);
        peak_is(&p, &m, false, 2 * 2 * 24 * stride * 4, 2 * 3);
        made_reset(&m);
    }
}

/* Sq = n P queries spread over the ranks, Sk keys in the cache, Sk 2 Hkv D / P of them on each.  At the peak a rank has the
 * queries of the P - 1 others and its partials for them; an all-to-all has, a step later, those partials and the joined
 * heads of all shards, which for two ranks is more.  Per rank and token Q goes to all (all-gather), and P - 1
 * partials go away: to the owner in levels or round a ring, or head by head with one hop home. */
static void decode_memory_and_bytes_match_closed_forms(void **state)
{
    (void)state;
    static const char *const names[] = {"decode:join=tree", "decode:join=ag-rs", "decode:join=a2a"};
    for (int32_t ranks = 2; ranks <= 8; ranks++)
        for (int join = 0; join < 3; join++) {
            const int64_t n = 2, h = 840, hkv = 4, d = 3, dv = 5, batch = 2;
            rt_problem p = problem_make(n * ranks, 7 * ranks, h, hkv, d, RT_MASK_FULL);
            p.dim_v = dv;
            p.batch = batch;
            made m = plan_make(&p, names[join], RT_LAYOUT_STRIPED, ranks);
            for (int32_t r = 0; r < ranks; r++)
                assert_int_equal(rt_layout_count(&m.l, RT_SIDE_KV, r) * batch * hkv * (d + dv),
                                 p.seqlen_k * batch * hkv * (d + dv) / ranks);
            const int64_t rows = batch * n * h, away = (ranks - 1) * rows;
            const int64_t compute = away * (d + dv + 1), joined = (away + rows) * (dv + 1);
            peak_is(&p, &m, false, join == 2 ? larger(compute, joined) : compute,
                    join == 2 ? 2 * ranks - 1 : 2 * (ranks - 1));
            /* Q, DO with LSE and delta, and DQ */
            peak_is(&p, &m, true, away * (2 * d + dv + 2), 3 * (ranks - 1));
            rt_counters c = counted(&p, &m, false, &half);
            double state_bytes = 0;
            for (int32_t r = 0; r < ranks; r++) {
                t_assert_bits_eq(c.sent[RT_PAYLOAD_Q][r], (double)(away * d * 2));
                t_assert_bits_eq(c.sent[RT_PAYLOAD_KV][r], 0.0);
                state_bytes += c.sent[RT_PAYLOAD_STATE][r];
                if (join == 1)
                    t_assert_bits_eq(c.sent[RT_PAYLOAD_STATE][r], (double)(away * (dv * 2 + 4)));
                if (join == 2) /* head shards are equal: 840 is divisible by all */
                    t_assert_bits_eq(c.sent[RT_PAYLOAD_STATE][r],
                                     (double)((away + away / ranks) * (dv * 2 + 4)));
            }
            if (join == 0)
                t_assert_bits_eq(state_bytes, (double)(ranks * away * (dv * 2 + 4)));
            assert_int_equal(c.max_partials, ranks);
            assert_int_equal(c.idle_slots, 0);
            rt_counters_reset(&c);
            made_reset(&m);
        }
}

/* ---- bytes ------------------------------------------------------------------------------------------- */

/* JAX sends KV home too: P hops in either pass, and P of the gradient. */
static void the_last_hop_costs_one_message_more(void **state)
{
    (void)state;
    for (int32_t ranks = 2; ranks <= 9; ranks++) {
        const rt_problem p = problem_make(6 * ranks, 6 * ranks, 4, 2, 8, RT_MASK_CAUSAL);
        made m = plan_make(&p, "ring:last-hop=yes", RT_LAYOUT_ZIGZAG, ranks);
        const double hop = 2.0 * 6 * 2 * 8 * 2;
        t_assert_bits_eq(sent_by_each(&p, &m, false, RT_PAYLOAD_KV), ranks * hop);
        t_assert_bits_eq(sent_by_each(&p, &m, true, RT_PAYLOAD_KV), ranks * hop);
        t_assert_bits_eq(sent_by_each(&p, &m, true, RT_PAYLOAD_DKV), ranks * hop);
        made_reset(&m);
    }
}

/* Gradients that go home at the end: each rank sends P - 1 of them, in one step, and holds as many until then. */
static void gradients_at_the_end_make_one_hop(void **state)
{
    (void)state;
    static const char *const names[] = {"ring:gradient=end", "ring:gradient=end,backward=own-last"};
    for (int32_t ranks = 2; ranks <= 8; ranks++)
        for (int n = 0; n < 2; n++) {
            const int64_t t = 8, shard = 2 * t * 3 * 4;
            const rt_problem p = problem_make(t * ranks, t * ranks, 6, 3, 4, RT_MASK_FULL);
            made m = plan_make(&p, names[n], RT_LAYOUT_ZIGZAG, ranks);
            t_assert_bits_eq(sent_by_each(&p, &m, true, RT_PAYLOAD_KV), (double)((ranks - 1) * shard * 2));
            t_assert_bits_eq(sent_by_each(&p, &m, true, RT_PAYLOAD_DKV), (double)((ranks - 1) * shard * 2));
            const rt_pass *b = &m.plan.backward;
            assert_int_equal(b->n_steps, ranks + 1 + n); /* own-last: KV is sent before the first */
            for (int64_t i = 0; i < b->n_moves; i++) {
                const bool home = b->moves[i].payload == RT_PAYLOAD_DKV;
                assert_int_equal(home, rt_pass_step(b, i) == b->n_steps - 1);
                if (home)
                    assert_int_equal(b->moves[i].to, b->moves[i].piece.shard);
            }
            /* a step before the end: all but one of the gradients and two of KV, or all and the KV that is read */
            peak_is(&p, &m, true, ranks * shard, ranks);
            made_reset(&m);
        }
}

/* Ulysses sends less than the ring from P > H / Hkv + 1 on. */
static void ulysses_sends_less_from_its_crossover_on(void **state)
{
    (void)state;
    static const int32_t each[] = {2, 3, 4, 6, 8, 12};
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++)
        for (int64_t group = 1; group <= 12; group++) {
            const int32_t ranks = each[i];
            const rt_problem p =
                problem_make(12 * ranks, 12 * ranks, 24 * group, 24, 2, RT_MASK_FULL); /* Hkv >= P */
            made u = plan_make(&p, "ulysses", RT_LAYOUT_CONTIGUOUS, ranks),
                 ring = plan_make(&p, "ring", RT_LAYOUT_CONTIGUOUS, ranks);
            const double rows =
                (ranks - 1) * 12.0 * 24.0 * (double)group / ranks; /* a STATE has an LSE each */
            const double around = sent_by_each(&p, &ring, false, RT_PAYLOAD_KV),
                         across = sent_by_each(&p, &u, false, RT_PAYLOAD_Q) +
                                  sent_by_each(&p, &u, false, RT_PAYLOAD_KV) +
                                  sent_by_each(&p, &u, false, RT_PAYLOAD_STATE) - 4.0 * rows;
            assert_int_equal(across<around, ranks> group + 1);
            assert_int_equal(across > around, ranks < group + 1);
            made_reset(&u);
            made_reset(&ring);
        }
}

/* Burst's backward, which moves the queries' side, against the ring's, in MiB: S = 131072, P = 8, D = 128.  It loses
 * where four heads share a key head, and wins where none does. */
static void burst_wins_where_no_heads_share(void **state)
{
    (void)state;
    static const struct {
        int64_t kv_heads;
        double kv, dkv, burst; /* dkv with 2 bytes; with 4 it is twice as much */
    } table[] = {{8, 448, 512, 2844}, {32, 1792, 2048, 2844}};
    for (int i = 0; i < 2; i++) {
        const rt_problem p = problem_make(131072, 131072, 32, table[i].kv_heads, 128, RT_MASK_CAUSAL);
        made burst = plan_make(&p, "burst", RT_LAYOUT_ZIGZAG, 8),
             ring = plan_make(&p, "ring", RT_LAYOUT_ZIGZAG, 8);
        const double mib = 1048576.0, rows = 7.0 * 16384 * 32;
        t_assert_bits_eq(sent_by_each(&p, &ring, true, RT_PAYLOAD_KV), table[i].kv * mib);
        t_assert_bits_eq(sent_by_each(&p, &ring, true, RT_PAYLOAD_DKV), table[i].dkv * mib);
        const double moved = sent_by_each(&p, &burst, true, RT_PAYLOAD_Q) +
                             sent_by_each(&p, &burst, true, RT_PAYLOAD_DO) +
                             sent_by_each(&p, &burst, true, RT_PAYLOAD_DQ);
        t_assert_bits_eq(moved, rows * (2 * 256 + 8) + 8.0 * 16384 * 32 * 256);
        t_assert_le(moved, (table[i].burst + 0.5) * mib); /* the table has whole MiB */
        t_assert_le((table[i].burst - 0.5) * mib, moved);
        assert_int_equal(moved < (table[i].kv + table[i].dkv) * mib, i == 1);
        assert_int_equal(moved < (table[i].kv + 2 * table[i].dkv) * mib, i == 1);
        made_reset(&burst);
        made_reset(&ring);
    }
}

/* ---- work -------------------------------------------------------------------------------------------- */

/* Causal pairs of rank r, T = S / P: contiguous r T^2 + T (T + 1) / 2; zigzag c^2 (2 P - 1) + c (c + 1) on every rank, c = T / 2;
 * striped T (r + 1) + P T (T - 1) / 2.  All ranks together: S (S + 1) / 2. */
static void causal_work_matches_closed_forms(void **state)
{
    (void)state;
    for (int32_t ranks = 1; ranks <= 9; ranks++)
        for (int kind = 0; kind < 3; kind++) {
            const int64_t t = 10, c = t / 2, s = t * ranks;
            const rt_problem p = problem_make(s, s, 1, 1, 4, RT_MASK_CAUSAL);
            made m = plan_make(&p, "ring", (rt_layout_kind)kind, ranks);
            for (int backward = 0; backward < 2; backward++) {
                rt_counters x = counted(&p, &m, backward, &half);
                for (int64_t r = 0; r < ranks; r++)
                    assert_int_equal(x.pairs[r], kind == RT_LAYOUT_CONTIGUOUS ? r * t * t + t * (t + 1) / 2
                                                 : kind == RT_LAYOUT_ZIGZAG
                                                     ? c * c * (2 * ranks - 1) + c * (c + 1)
                                                     : t * (r + 1) + ranks * t * (t - 1) / 2);
                rt_counters_reset(&x);
            }
            made_reset(&m);
        }
}

/* Whoever computes what: the visible pairs of all heads, once forward and once backward; max / mean is what it says. */
static void every_planner_counts_every_pair(void **state)
{
    (void)state;
    for (int round = 0; round < 24; round++) {
        rt_problem p;
        uint8_t dense[41 * 41], valid[2 * 41];
        int64_t cu[2][4], pairs = 0;
        const int32_t ranks = problem_vary(&p, round, cu, valid, dense);
        for (int64_t b = 0; b < p.batch; b++)
            for (int64_t i = 0; i < p.seqlen_q; i++)
                for (int64_t j = 0; j < p.seqlen_k; j++)
                    pairs += rt_mask_visible(&p, b, i, j) ? p.heads_q : 0;
        for (const rt_planner *each = rt_planners(); each->name != NULL; each++) {
            made m = plan_make(&p, each->name, (rt_layout_kind)(round % 3), ranks);
            for (int backward = 0; backward < 2; backward++) {
                rt_counters c = counted(&p, &m, backward, &half);
                int64_t all = 0, most = 0, of_steps = 0;
                for (int32_t r = 0; r < ranks; r++) {
                    all += c.pairs[r];
                    most = larger(most, c.pairs[r]);
                }
                for (int64_t i = 0; i < c.steps * ranks; i++)
                    of_steps += c.step_pairs[i];
                assert_int_equal(all, pairs);
                assert_int_equal(of_steps, pairs);
                if (pairs > 0)
                    t_assert_bits_eq(c.max_over_mean, (double)most * (double)ranks / (double)pairs);
                else
                    t_assert_bits_eq(c.max_over_mean, 1.0);
                rt_counters_reset(&c);
            }
            made_reset(&m);
        }
    }
}

/* Documents of 48 and 16 tokens over two ranks: a zigzag over all of them is worse than none, one inside each is even. */
static void documents_need_a_zigzag_of_their_own(void **state)
{
    (void)state;
    static const struct {
        const char *layout;
        int64_t pairs[2];
        double max_over_mean;
    } table[] = {{"contiguous", {528, 784}, 784.0 / 656},
                 {"zigzag", {272, 1040}, 1040.0 / 656},
                 {"striped", {640, 672}, 672.0 / 656},
                 {"zigzag-doc", {656, 656}, 1.0}};
    int64_t cu[] = {0, 48, 64};
    rt_problem p = problem_make(64, 64, 3, 1, 4, RT_MASK_CAUSAL);
    p.documents = 2;
    p.cu_q = p.cu_k = cu;
    static const char *const plans[] = {"ring", "all-gather", "all-gather:form=chunks", "groupcast"};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        for (size_t n = 0; n < sizeof plans / sizeof plans[0]; n++) {
            rt_context ctx = {0};
            made m;
            const rt_layout_options o = {.name = table[i].layout, .remainder = RT_REMAINDER_REFUSE};
            t_assert_ok(&ctx, rt_layout_make(&ctx, &p, &o, 2, &m.l));
            t_assert_ok(&ctx, rt_plan_create(&ctx, plans[n], &p, &m.l, &m.plan));
            t_assert_ok(&ctx, rt_plan_verify(&ctx, &m.plan, &p, &m.l));
            rt_counters c = counted(&p, &m, false, &half);
            for (int r = 0; r < 2; r++)
                assert_int_equal(c.pairs[r], 3 * table[i].pairs[r]);
            t_assert_bits_eq(c.max_over_mean, table[i].max_over_mean);
            rt_counters_reset(&c);
            made_reset(&m);
        }
}

/* DistFlashAttn: of the r + 1 tiles of rank r's queries min(r, P / 2) + 1 are its own, helpers return the others. */
static void balanced_partials_are_local_or_returned(void **state)
{
    (void)state;
    for (int32_t ranks = 1; ranks <= 9; ranks++) {
        const rt_problem p = problem_make(4 * ranks, 4 * ranks, 1, 1, 4, RT_MASK_CAUSAL);
        made m = plan_make(&p, "balanced", RT_LAYOUT_CONTIGUOUS, ranks);
        int64_t own[9] = {0}, all[9] = {0}, returned[9] = {0};
        for (int64_t i = 0; i < m.plan.forward.n_tiles; i++) {
            const rt_tile *t = &m.plan.forward.tiles[i];
            own[t->q.shard] += t->rank == t->q.shard;
            all[t->q.shard]++;
        }
        for (int64_t i = 0; i < m.plan.forward.n_moves; i++)
            if (m.plan.forward.moves[i].payload == RT_PAYLOAD_STATE)
                returned[m.plan.forward.moves[i].to]++;
        for (int32_t r = 0; r < ranks; r++) {
            assert_int_equal(own[r], (r < ranks / 2 ? r : ranks / 2) + 1);
            assert_int_equal(all[r], r + 1);
            assert_int_equal(returned[r], all[r] - own[r]);
        }
        made_reset(&m);
    }
}

/* ---- what a rank sees -------------------------------------------------------------------------------- */

/* The run of keys that a rank's queries see, as what groupcast brings and what is at home. */
static void seen_is(const rt_problem *p, int32_t ranks, const int64_t want[][2])
{
    made m = plan_make(p, "groupcast", RT_LAYOUT_CONTIGUOUS, ranks);
    for (int32_t r = 0; r < ranks; r++) {
        int64_t lo = p->seqlen_k, hi = 0, keys = 0;
        for (int64_t i = 0; i < m.plan.forward.n_tiles; i++) {
            const rt_tile *t = &m.plan.forward.tiles[i];
            if (t->rank != r)
                continue;
            const int64_t *at = rt_layout_positions(&m.l, RT_SIDE_KV, t->kv.shard);
            for (int64_t k = t->kv.slot0; k < t->kv.slot1; k++) {
                bool seen = false;
                for (int64_t q = 0; q < rt_layout_count(&m.l, RT_SIDE_Q, r); q++)
                    seen = seen || rt_mask_visible(p, 0, rt_layout_positions(&m.l, RT_SIDE_Q, r)[q], at[k]);
                if (!seen)
                    continue;
                lo = at[k] < lo ? at[k] : lo;
                hi = larger(hi, at[k] + 1);
                keys++;
            }
        }
        assert_int_equal(lo, want[r][0]);
        assert_int_equal(hi, want[r][1]);
        assert_int_equal(keys, hi - lo);
    }
    made_reset(&m);
}

/* The slices of keys that llama3's preparation gives the ranks. */
static void slices_of_keys_match_llama3(void **state)
{
    (void)state;
    int64_t cu[] = {0, 7, 14, 16}, two[] = {0, 6, 16};
    rt_problem p = problem_make(16, 16, 1, 1, 4, RT_MASK_CAUSAL);
    p.documents = 3;
    p.cu_q = p.cu_k = cu;
    seen_is(&p, 8,
            (const int64_t[][2]){{0, 2}, {0, 4}, {0, 6}, {0, 8}, {7, 10}, {7, 12}, {7, 14}, {14, 16}});
    p.mask = RT_MASK_FULL;
    seen_is(&p, 8,
            (const int64_t[][2]){{0, 7}, {0, 7}, {0, 7}, {0, 14}, {7, 14}, {7, 14}, {7, 14}, {14, 16}});
    p.mask = RT_MASK_CAUSAL;
    p.documents = 2;
    p.cu_q = p.cu_k = two;
    seen_is(&p, 4, (const int64_t[][2]){{0, 4}, {0, 8}, {6, 12}, {6, 16}});
}

/* USP over eight ranks: after the all-to-all all members of a group have the queries of one zigzag pair of chunks. */
static void members_of_a_group_hold_one_pair_of_chunks(void **state)
{
    (void)state;
    static const int64_t pairs[4][4] = {{0, 1, 14, 15}, {2, 3, 12, 13}, {4, 5, 10, 11}, {6, 7, 8, 9}};
    static const char *const cases[][2] = {
        {"usp:ulysses=2", "hybrid:ulysses=2"},
        {"usp:ulysses=2,order=ring-low", "hybrid:ulysses=2,order=ring-low"}};
    const rt_problem p = problem_make(16, 16, 4, 2, 4, RT_MASK_CAUSAL);
    for (int n = 0; n < 2; n++) {
        rt_context ctx = {0};
        made m;
        const rt_layout_options o = {.name = cases[n][0], .remainder = RT_REMAINDER_REFUSE};
        t_assert_ok(&ctx, rt_layout_make(&ctx, &p, &o, 8, &m.l));
        t_assert_ok(&ctx, rt_plan_create(&ctx, cases[n][1], &p, &m.l, &m.plan));
        for (int32_t r = 0; r < 8; r++) {
            bool holds[16] = {false};
            for (int64_t i = 0; i < m.plan.forward.n_tiles; i++) {
                const rt_tile *t = &m.plan.forward.tiles[i];
                if (t->rank != r)
                    continue;
                assert_int_equal(t->q.head1 - t->q.head0, 2);
                for (int64_t k = t->q.slot0; k < t->q.slot1; k++)
                    holds[rt_layout_positions(&m.l, RT_SIDE_Q, t->q.shard)[k]] = true;
            }
            const int64_t *want = pairs[n == 0 ? r / 2 : r % 4];
            for (int64_t i = 0; i < 16; i++)
                assert_int_equal(holds[i], i == want[0] || i == want[1] || i == want[2] || i == want[3]);
        }
        made_reset(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_passes_keep_every_partial),
        cmocka_unit_test(gathered_gradients_double_the_peak),
        cmocka_unit_test(decode_memory_and_bytes_match_closed_forms),
        cmocka_unit_test(the_last_hop_costs_one_message_more),
        cmocka_unit_test(gradients_at_the_end_make_one_hop),
        cmocka_unit_test(ulysses_sends_less_from_its_crossover_on),
        cmocka_unit_test(burst_wins_where_no_heads_share),
        cmocka_unit_test(causal_work_matches_closed_forms),
        cmocka_unit_test(every_planner_counts_every_pair),
        cmocka_unit_test(documents_need_a_zigzag_of_their_own),
        cmocka_unit_test(balanced_partials_are_local_or_returned),
        cmocka_unit_test(slices_of_keys_match_llama3),
        cmocka_unit_test(members_of_a_group_hold_one_pair_of_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
