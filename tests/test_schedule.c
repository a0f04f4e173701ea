/* Orders, work and memory of the planners against published tables and closed forms. */
#include "planned.h"

/* ---- orders ------------------------------------------------------------------------------------------ */

/* Shards whose KV a rank computes with, step after step, as digits. */
static const char *order_of(const rt_pass *pass, int32_t rank, char text[64])
{
    size_t n = 0;
    for (int64_t i = 0; i < pass->n_tiles; i++)
        if (pass->tiles[i].rank == rank)
            text[n++] = (char)('0' + pass->tiles[i].kv.shard);
    text[n] = '\0';
    return text;
}

static void kv_orders_match_the_tables(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        int32_t rank;
        const char *forward, *backward;
    } table[] = {
        {"double-ring:window=1", 0, "07654321", "12345670"},
        {"double-ring:window=1", 5, "54321076", "67012345"},
        {"double-ring:window=2", 0, "01674523", "32547610"},
        {"double-ring:window=2", 5, "54321076", "67012345"},
        {"double-ring:window=4", 0, "03214765", "56741230"},
        {"double-ring:window=4", 5, "54761032", "23016745"},
        {"double-ring:window=8", 5, "54321076", "67012345"},
        {"double-ring:window=2,order=loongtrain", 0, "01674523", "01674523"},
        {"double-ring:window=4,order=loongtrain", 5, "54761032", "54761032"},
        {"ring", 3, "32107654", "32107654"},
        {"ring:backward=own-last", 3, "32107654", "45670123"},
        {"ring:order=up", 3, "34567012", "34567012"},
        {"ring:order=up,backward=own-last", 3, "34567012", "21076543"},
        {"all-gather:form=rotate", 3, "32107654", "32107654"},
        {"all-gather:form=rotate,order=up", 3, "34567012", "34567012"},
        {"ring:last-hop=yes", 3, "32107654", "32107654"},
        {"pass-q", 3, "33333333", "33333333"},
    };
    const rt_problem p = problem_make(16, 16, 2, 1, 4, RT_MASK_FULL);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[64];
        made m = plan_make(&p, table[i].plan, RT_LAYOUT_CONTIGUOUS, 8);
        assert_string_equal(order_of(&m.plan.forward, table[i].rank, text), table[i].forward);
        assert_string_equal(order_of(&m.plan.backward, table[i].rank, text), table[i].backward);
        made_reset(&m);
    }
}

/* Ranks that moves of a payload out of a window connect, from `rank` on, as digits until the ring closes. */
static const char *ring_of(const rt_pass *pass, rt_payload payload, int32_t window, int32_t rank,
                           char text[16])
{
    size_t n = 0;
    for (int32_t at = rank; n == 0 || at != rank;) {
        int32_t next = -1;
        for (int64_t i = 0; i < pass->n_moves; i++) {
            const rt_move *m = &pass->moves[i];
            if (m->payload == payload && m->from == at && m->to / window != at / window) {
                assert_true(next < 0 || next == m->to);
                next = m->to;
            }
        }
        assert_true(next >= 0 && n < 15);
        text[n++] = (char)('0' + at);
        at = next;
    }
    text[n] = '\0';
    return text;
}

/* MindSpeed's rings between windows: of KV in the forward, of DKV in the backward (which runs it against the
 * order in which the table lists the members).  LoongTrain's DKV has the rings of KV. */
static void rings_between_windows_match_the_table(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        int32_t window, rank;
        const char *kv, *dkv;
    } table[] = {{"double-ring:window=2", 2, 0, "0246", "0743"},
                 {"double-ring:window=2", 2, 1, "1357", "1652"},
                 {"double-ring:window=4", 4, 0, "04", "0725"},
                 {"double-ring:window=4", 4, 1, "15", "1436"},
                 {"double-ring:window=2,order=loongtrain", 2, 1, "1357", "1357"},
                 {"double-ring:window=4,order=loongtrain", 4, 1, "15", "15"}};
    const rt_problem p = problem_make(16, 16, 2, 1, 4, RT_MASK_FULL);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[16];
        made m = plan_make(&p, table[i].plan, RT_LAYOUT_CONTIGUOUS, 8);
        assert_string_equal(ring_of(&m.plan.forward, RT_PAYLOAD_KV, table[i].window, table[i].rank, text),
                            table[i].kv);
        assert_string_equal(ring_of(&m.plan.backward, RT_PAYLOAD_DKV, table[i].window, table[i].rank, text),
                            table[i].dkv);
        made_reset(&m);
    }
}

/* LoongTrain's DKV: w hops inside a window, the last of them while nobody computes, then one to the next window. */
static void gradients_go_round_each_window(void **state)
{
    (void)state;
    const rt_problem p = problem_make(16, 16, 2, 1, 4, RT_MASK_FULL);
    made m = plan_make(&p, "double-ring:window=4,order=loongtrain", RT_LAYOUT_CONTIGUOUS, 8);
    const rt_pass *b = &m.plan.backward;
    int64_t inside = 0, across = 0, idle = 0;
    for (int64_t t = 0; t < b->n_steps; t++) {
        idle += b->steps[t].tile0 == b->steps[t].tile1;
        for (int64_t i = b->steps[t].move0; i < b->steps[t].move1; i++)
            if (b->moves[i].payload == RT_PAYLOAD_DKV)
                *(b->moves[i].from / 4 == b->moves[i].to / 4 ? &inside : &across) += 1;
    }
    assert_int_equal(inside, 8 * 8);
    assert_int_equal(across, 8 * 2);
    assert_int_equal(idle, 3); /* two windows end, and the hop home */
    made_reset(&m);
}

/* The message that starts the next window is on its way during the whole inner ring before it. */
static void windows_start_ahead(void **state)
{
    (void)state;
    const rt_problem p = problem_make(16, 16, 2, 1, 4, RT_MASK_FULL);
    made m = plan_make(&p, "double-ring:window=4", RT_LAYOUT_CONTIGUOUS, 8);
    const rt_pass *f = &m.plan.forward;
    for (int64_t t = 0; t < f->n_steps; t++)
        for (int64_t i = f->steps[t].move0; i < f->steps[t].move1; i++)
            assert_int_equal(f->moves[i].from / 4 == f->moves[i].to / 4,
                             i - f->steps[t].move0 < 8 && t != 7 && t != 3);
    assert_int_equal(f->steps[0].move1 - f->steps[0].move0, 16);
    assert_int_equal(f->steps[3].move1 - f->steps[3].move0, 0);
    made_reset(&m);
}

/* ---- work -------------------------------------------------------------------------------------------- */

/* Causal pairs per rank of 16 tokens: contiguous, zigzag, striped; every planner that leaves queries at home. */
static void causal_work_matches_the_table(void **state)
{
    (void)state;
    static const struct {
        int32_t ranks;
        int64_t w[3][8];
    } table[] = {{2, {{136, 392}, {264, 264}, {256, 272}}},
                 {4, {{136, 392, 648, 904}, {520, 520, 520, 520}, {496, 512, 528, 544}}},
                 {8,
                  {{136, 392, 648, 904, 1160, 1416, 1672, 1928},
                   {1032, 1032, 1032, 1032, 1032, 1032, 1032, 1032},
                   {976, 992, 1008, 1024, 1040, 1056, 1072, 1088}}}};
    static const char *const plans[] = {"ring",
                                        "double-ring",
                                        "all-gather",
                                        "all-gather:form=chunks",
                                        "all-gather:form=rotate",
                                        "ring:move=needed"};
    const rt_wire_sizes w = {2.0, 2.0, 2.0};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        for (size_t k = 0; k < sizeof plans / sizeof plans[0]; k++)
            for (int kind = 0; kind < 3; kind++) {
                const rt_problem p =
                    problem_make(16 * table[i].ranks, 16 * table[i].ranks, 1, 1, 4, RT_MASK_CAUSAL);
                made m = plan_make(&p, plans[k], (rt_layout_kind)kind, table[i].ranks);
                rt_counters c = plan_count(&p, &m, &w, false);
                for (int32_t r = 0; r < table[i].ranks; r++)
                    assert_int_equal(c.pairs[r], table[i].w[kind][r]);
                rt_counters_reset(&c);
                made_reset(&m);
            }
}

/* Zigzag: each later step is two full tiles of half shards on every rank; contiguous: rank r idles after step r. */
static void work_per_step_and_idle_slots_match_closed_forms(void **state)
{
    (void)state;
    const rt_wire_sizes w = {2.0, 2.0, 2.0};
    for (int32_t ranks = 2; ranks <= 8; ranks++) {
        const int64_t t = 8, half = t / 2;
        const rt_problem p = problem_make(t * ranks, t * ranks, 3, 1, 4, RT_MASK_CAUSAL);
        made z = plan_make(&p, "ring", RT_LAYOUT_ZIGZAG, ranks),
             c = plan_make(&p, "ring", RT_LAYOUT_CONTIGUOUS, ranks),
             u = plan_make(&p, "ulysses", RT_LAYOUT_CONTIGUOUS, ranks);
        rt_counters of_z = plan_count(&p, &z, &w, false), of_c = plan_count(&p, &c, &w, false),
                    of_u = plan_count(&p, &u, &w, true);
        for (int64_t s = 0; s < ranks; s++)
            for (int32_t r = 0; r < ranks; r++) {
                assert_int_equal(of_z.step_pairs[s * ranks + r],
                                 3 * (s == 0 ? half * half + half * (half + 1) : 2 * half * half));
                assert_int_equal(of_c.step_pairs[s * ranks + r], s == 0   ? 3 * t * (t + 1) / 2
                                                                 : s <= r ? 3 * t * t
                                                                          : 0);
            }
        assert_int_equal(of_z.idle_slots, 0);
        assert_int_equal(of_z.slots, ranks * ranks);
        assert_int_equal(of_c.idle_slots, ranks * (ranks - 1) / 2);
        assert_int_equal(of_c.slots, ranks * ranks);
        assert_int_equal(of_u.slots, ranks); /* 3 heads: the other ranks are idle */
        assert_int_equal(of_u.idle_slots, ranks > 3 ? ranks - 3 : 0);
        rt_counters_reset(&of_z);
        rt_counters_reset(&of_c);
        rt_counters_reset(&of_u);
        made_reset(&z);
        made_reset(&c);
        made_reset(&u);
    }
}

/* After the exchange the groups of every program's shard order hold the halves of a zigzag again: all ranks compute
 * the same, in every step. */
static void hybrid_shard_orders_are_balanced(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"hybrid-te:ulysses=2", "hybrid:ulysses=2"},
        {"hybrid-mindspeed:ulysses=2", "hybrid:ulysses=2,backward=own-last"},
        {"usp:ulysses=2", "hybrid:ulysses=2"},
        {"usp:ulysses=2,order=ring-low", "hybrid:ulysses=2,order=ring-low"},
        {"usp:ulysses=4", "hybrid:ulysses=4,backward=own-last"},
        {"hybrid-te:ulysses=2", "hybrid:ulysses=2,window=2"}};
    const rt_wire_sizes w = {2.0, 2.0, 2.0};
    const rt_problem p = problem_make(64, 64, 4, 4, 4, RT_MASK_CAUSAL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        made m;
        rt_context ctx = {0};
        const rt_layout_options o = {.name = cases[i][0], .remainder = RT_REMAINDER_REFUSE};
        t_assert_ok(&ctx, rt_layout_make(&ctx, &p, &o, 8, &m.l));
        t_assert_ok(&ctx, rt_plan_create(&ctx, cases[i][1], &p, &m.l, &m.plan));
        t_assert_ok(&ctx, rt_plan_verify(&ctx, &m.plan, &p, &m.l));
        for (int backward = 0; backward < 2; backward++) {
            rt_counters c = plan_count(&p, &m, &w, backward);
            for (int64_t s = 0; s < c.steps; s++)
                for (int32_t r = 1; r < 8; r++)
                    assert_int_equal(c.step_pairs[s * 8 + r], c.step_pairs[s * 8]);
            assert_int_equal(c.idle_slots, 0);
            assert_int_equal(c.max_partials, strstr(cases[i][1], "=4") != NULL ? 2 : 4);
            rt_counters_reset(&c);
        }
        made_reset(&m);
    }
}

/* Partials joined into a row at most. */
static void partials_match_closed_forms(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        int64_t most;
    } table[] = {{"ring", 8},
                 {"double-ring:window=4", 8},
                 {"all-gather", 1},
                 {"all-gather:form=chunks", 1},
                 {"ulysses", 1},
                 {"all-gather:form=rotate", 8},
                 {"all-gather:stride=1", 1},
                 {"single", 1},
                 {"pass-q", 8},
                 {"hybrid:ulysses=2", 4},
                 {"hybrid:ulysses=4", 2},
                 {"hybrid:ulysses=8", 1}};
    const rt_problem p = problem_make(64, 64, 8, 2, 4, RT_MASK_CAUSAL);
    const rt_wire_sizes w = {2.0, 2.0, 2.0};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        made m = plan_make(&p, table[i].plan, RT_LAYOUT_ZIGZAG, 8);
        rt_counters c = plan_count(&p, &m, &w, false);
        assert_int_equal(c.max_partials, table[i].most);
        rt_counters_reset(&c);
        made_reset(&m);
    }
}

/* Two calls per rank, one for each half of its queries; the keys that a call sees are one run: S = 12, P = 2, chunks
 * of 3. */
static void chunk_calls_see_one_run_of_keys(void **state)
{
    (void)state;
    static const struct {
        int64_t left, right, lo[4], hi[4]; /* of the chunks; left -2: causal */
    } table[] = {{-2, 0, {0, 0, 0, 0}, {3, 6, 9, 12}},
                 {2, 0, {0, 1, 4, 7}, {3, 6, 9, 12}},
                 {3, 3, {0, 0, 3, 6}, {6, 9, 12, 12}}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        rt_problem p = problem_make(12, 12, 1, 1, 4, table[i].left == -2 ? RT_MASK_CAUSAL : RT_MASK_FULL);
        p.has_window = table[i].left != -2;
        p.window_left = table[i].left;
        p.window_right = table[i].right;
        made m = plan_make(&p, "all-gather:form=chunks", RT_LAYOUT_ZIGZAG, 2);
        const rt_pass *f = &m.plan.forward;
        bool seen[4][12] = {{false}};
        int32_t call_of[4] = {-1, -1, -1, -1};
        for (int64_t n = 0; n < f->n_tiles; n++) {
            const rt_tile *x = &f->tiles[n];
            const int64_t *q = rt_layout_positions(&m.l, RT_SIDE_Q, x->q.shard),
                          *k = rt_layout_positions(&m.l, RT_SIDE_KV, x->kv.shard);
            assert_int_equal(x->q.slot1 - x->q.slot0, 3);
            const int64_t chunk = q[x->q.slot0] / 3;
            assert_true(call_of[chunk] < 0 || call_of[chunk] == x->call);
            call_of[chunk] = x->call;
            for (int64_t a = x->q.slot0; a < x->q.slot1; a++)
                for (int64_t b = x->kv.slot0; b < x->kv.slot1; b++)
                    seen[chunk][k[b]] = seen[chunk][k[b]] || rt_mask_visible(&p, 0, q[a], k[b]);
        }
        for (int chunk = 0; chunk < 4; chunk++)
            for (int64_t j = 0; j < 12; j++)
                assert_int_equal(seen[chunk][j], table[i].lo[chunk] <= j && j < table[i].hi[chunk]);
        assert_int_equal(call_of[0] + call_of[3], 1); /* rank 0 has the first and the last */
        assert_int_equal(call_of[1] + call_of[2], 1);
        assert_true(i > 0 || call_of[3] == 0); /* the longest first */
        made_reset(&m);
    }
}

/* ---- memory ------------------------------------------------------------------------------------------ */

/* Elements held besides the rank's own shard, forward: the published forms, less the rank's own part of what is
 * gathered. */
static void peak_elements_match_closed_forms(void **state)
{
    (void)state;
    const rt_wire_sizes w = {2.0, 2.0, 2.0};
    for (int32_t ranks = 3; ranks <= 8; ranks++) {
        const int64_t t = 8, s = t * ranks, hq = 2 * ranks, hkv = ranks, d = 4, others = s - t;
        const rt_problem p = problem_make(s, s, hq, hkv, d, RT_MASK_FULL);
        const struct {
            const char *plan;
            int64_t elements, buffers;
        } table[] = {{"ring", 4 * t * hkv * d, 2},
                     {"all-gather", 2 * others * hkv * d, ranks - 1},
                     {"all-gather:form=chunks", 2 * others * hkv * d, ranks - 1},
                     {"all-gather:stride=1", 2 * 2 * others * d, 2 * (ranks - 1)},
                     /* Q, K, V and O of Hq/P heads, with an LSE to a row of O */
                     {"ulysses", (ranks - 1) * t * (d * (2 * hq + 2 * hkv) + hq) / ranks, 3 * (ranks - 1)},
                     /* queries like the KV of a ring, and the partials until they go home */
                     {"pass-q", (ranks - 1) * t * hq * (d + 1), ranks - 1}};
        for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
            made m = plan_make(&p, table[i].plan, RT_LAYOUT_CONTIGUOUS, ranks);
            rt_counters c = plan_count(&p, &m, &w, false);
            for (int32_t r = 0; r < ranks; r++) {
                int64_t want = table[i].elements, buffers = table[i].buffers;
                if (i ==
                    5) { /* at the last step but one: two buffers of queries, the partials without one */
                    const int64_t before = 2 * t * hq * d + (ranks - 2) * t * hq * (d + 1),
                                  last = t * hq * d + (ranks - 1) * t * hq * (d + 1);
                    want = before > last ? before : last;
                    buffers = ranks;
                }
                assert_int_equal(c.elements[r], want);
                assert_int_equal(c.buffers[r], buffers);
            }
            rt_counters_reset(&c);
            made_reset(&m);
        }
    }
}

/* What stays from the forward to the backward, and is held in both: Q and KV of the rank's heads.  In a ring between
 * groups it is there besides the KV that travels. */
static void what_is_kept_matches_closed_forms(void **state)
{
    (void)state;
    const rt_wire_sizes w = {2.0, 2.0, 2.0};
    for (int32_t ranks = 2; ranks <= 8; ranks++) {
        const int64_t t = 8, hq = 2 * ranks, hkv = ranks, d = 4, away = (ranks - 1) * t;
        const rt_problem p = problem_make(t * ranks, t * ranks, hq, hkv, d, RT_MASK_FULL);
        for (int again = 0; again < 2; again++) {
            made m = plan_make(&p, again ? "ulysses:keep=no" : "ulysses", RT_LAYOUT_CONTIGUOUS, ranks);
            rt_counters f = plan_count(&p, &m, &w, false), b = plan_count(&p, &m, &w, true);
            assert_int_equal(m.plan.backward.n_held, again ? 0 : 2 * ranks * (ranks - 1));
            for (int32_t r = 0; r < ranks; r++) {
                const int64_t kept = away * (hq + 2 * hkv) * d / ranks;
                assert_int_equal(f.held[r], again ? 0 : kept);
                assert_int_equal(b.held[r], again ? 0 : kept);
                assert_int_equal(f.elements[r], kept + away * hq * (d + 1) / ranks);
                /* a DO has LSE and delta, DQ and DKV are as large as Q and KV */
                assert_int_equal(b.elements[r], 2 * kept + away * hq * (d + 2) / ranks);
            }
            rt_counters_reset(&f);
            rt_counters_reset(&b);
            made_reset(&m);
        }
    }
    rt_problem p = problem_make(64, 64, 8, 4, 4, RT_MASK_FULL);
    for (int backward = 0; backward < 2; backward++) {
        made keep = plan_make(&p, "hybrid:ulysses=2", RT_LAYOUT_CONTIGUOUS, 8),
             again = plan_make(&p, "hybrid:ulysses=2,keep=no", RT_LAYOUT_CONTIGUOUS, 8);
        rt_counters x = plan_count(&p, &keep, &w, backward), y = plan_count(&p, &again, &w, backward);
        for (int32_t r = 0; r < 8; r++) {
            assert_int_equal(x.held[r], 8 * (4 * 4 + 2 * 8));
            /* its own group's KV is not needed after the first step; in the backward that is so either way */
            assert_int_equal(x.elements[r] - y.elements[r], backward ? 0 : 8 * 2 * 8);
        }
        rt_counters_reset(&x);
        rt_counters_reset(&y);
        made_reset(&keep);
        made_reset(&again);
    }
    static uint8_t no_key[64]; /* nothing is visible: what is held is there, read or not */
    p.key_valid = no_key;
    made m = plan_make(&p, "ulysses", RT_LAYOUT_CONTIGUOUS, 4);
    rt_counters c = plan_count(&p, &m, &w, true);
    assert_int_equal(c.pairs[0], 0);
    assert_int_equal(c.elements[0], c.held[0] + 3 * 16 * 2 * (4 + 2));
    rt_counters_reset(&c);
    made_reset(&m);
}

/* ---- heads ------------------------------------------------------------------------------------------- */

/* Query and key heads that a rank computes with: "0-1/0", "-" if none. */
static const char *heads_of(const rt_pass *pass, int32_t rank, char text[64])
{
    (void)snprintf(text, 64, "-");
    for (int64_t i = 0; i < pass->n_tiles; i++) {
        const rt_tile *x = &pass->tiles[i];
        if (x->rank == rank)
            (void)snprintf(text, 64, "%d-%d/%d-%d", (int)x->q.head0, (int)x->q.head1 - 1, (int)x->kv.head0,
                           (int)x->kv.head1 - 1);
    }
    return text;
}

static void heads_are_dealt_as_described(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        int64_t hq, hkv;
        int32_t ranks;
        const char *heads[8];
    } table[] = {
        {"ulysses", 7, 7, 4, {"0-1/0-1", "2-3/2-3", "4-5/4-5", "6-6/6-6"}},
        {"ulysses", 8, 2, 4, {"0-1/0-0", "2-3/0-0", "4-5/1-1", "6-7/1-1"}}, /* replication */
        {"ulysses", 6, 2, 4, {"0-1/0-0", "2-3/0-1", "4-4/1-1", "5-5/1-1"}}, /* a group is split */
        {"ulysses:heads=pad", 6, 2, 4, {"0-1/0-0", "2-2/0-0", "3-4/1-1", "5-5/1-1"}},
        {"ulysses:heads=pad", 28, 7, 2, {"0-15/0-3", "16-27/4-6"}}, /* as 32/8 */
        {"ulysses", 28, 7, 2, {"0-13/0-3", "14-27/3-6"}},
        {"ulysses", 2, 1, 4, {"0-0/0-0", "1-1/0-0", "-", "-"}},
        {"ulysses:heads=pad", 3, 3, 2, {"0-1/0-1", "2-2/2-2"}},
        {"ulysses:heads=pad", 6, 2, 5, {"0-1/0-0", "2-2/0-0", "3-4/1-1", "5-5/1-1", "-"}},
        {"ulysses:heads=pad", 2, 2, 4, {"0-0/0-0", "-", "1-1/1-1", "-"}},
        {"hybrid:ulysses=2", 3, 1, 4, {"0-1/0-0", "2-2/0-0", "0-1/0-0", "2-2/0-0"}},
        {"hybrid:ulysses=2,order=ring-low", 3, 1, 4, {"0-1/0-0", "0-1/0-0", "2-2/0-0", "2-2/0-0"}},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char text[64];
        const rt_problem p = problem_make(16, 16, table[i].hq, table[i].hkv, 4, RT_MASK_FULL);
        made m = plan_make(&p, table[i].plan, RT_LAYOUT_CONTIGUOUS, table[i].ranks);
        for (int32_t r = 0; r < table[i].ranks; r++) {
            assert_string_equal(heads_of(&m.plan.forward, r, text), table[i].heads[r]);
            assert_string_equal(heads_of(&m.plan.backward, r, text), table[i].heads[r]);
        }
        made_reset(&m);
    }
}

/* Within a call the longest tile first, and the calls of a rank too. */
static void the_longest_comes_first(void **state)
{
    (void)state;
    static const char *const plans[] = {"ulysses", "all-gather", "all-gather:form=chunks", "hybrid",
                                        "single"};
    const rt_problem p = problem_make(64, 64, 8, 2, 4, RT_MASK_CAUSAL);
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        made m = plan_make(&p, plans[i], RT_LAYOUT_CONTIGUOUS, 4);
        const rt_pass *f = &m.plan.forward;
        int64_t compared = 0;
        for (int64_t t = 0; t < f->n_steps; t++)
            for (int64_t n = f->steps[t].tile0 + 1; n < f->steps[t].tile1; n++) {
                const rt_tile *a = &f->tiles[n - 1], *b = &f->tiles[n];
                assert_true(a->rank <= b->rank);
                if (a->rank == b->rank && a->call == b->call) {
                    assert_true(a->pairs >= b->pairs);
                    compared++;
                }
            }
        assert_true(compared > 0);
        made_reset(&m);
    }
}

static void refused(const char *name, int32_t ranks, const char *words)
{
    const rt_problem p = problem_make(16, 16, 4, 2, 4, RT_MASK_FULL);
    rt_layout l;
    rt_plan plan;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_layout_create(&ctx, &p, RT_LAYOUT_CONTIGUOUS, RT_REMAINDER_SPREAD, ranks, &l));
    t_assert_status(&ctx, rt_plan_create(&ctx, name, &p, &l, &plan), RT_ERR_ARG);
    if (strstr(ctx.message, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", ctx.message, words);
    rt_layout_reset(&l);
}

static void bad_parameters_are_refused(void **state)
{
    (void)state;
    refused("ring:order=left", 4, "order is \"left\"; it is one of down, up");
    refused("ring:window=2", 4,
            "parameter \"window=2\" is unknown or has no value; it takes order=(down | up)");
    refused("ring:last-hop=yes,move=needed", 4, "move=all");
    refused("pass-q:order=up", 4, "it takes none");
    refused("double-ring:window=3", 8,
            "plan double-ring: window is \"3\"; it must divide 8: 1, 2, 4, 8 are allowed");
    refused("double-ring:window=0", 8, "a number from 1 to 8");
    refused("hybrid:ulysses=5", 6, "ulysses is \"5\"; it must divide 6");
    refused("hybrid:ulysses=2,window=2", 6, "window is \"2\"; it must divide 3");
    refused("all-gather:stride=3", 4, "a number from 1 to 2");
    refused("all-gather:form=rotate,stride=1", 4, "no stride");
    refused("all-gather:order=up", 4, "form=rotate");
    refused("ulysses:heads", 4, "heads");
    refused("ulysses:keep=maybe", 4, "keep is \"maybe\"; it is one of yes, no");
    refused("hybrid:keep=1", 4, "keep is \"1\"; it is one of yes, no");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kv_orders_match_the_tables),
        cmocka_unit_test(rings_between_windows_match_the_table),
        cmocka_unit_test(windows_start_ahead),
        cmocka_unit_test(gradients_go_round_each_window),
        cmocka_unit_test(causal_work_matches_the_table),
        cmocka_unit_test(work_per_step_and_idle_slots_match_closed_forms),
        cmocka_unit_test(hybrid_shard_orders_are_balanced),
        cmocka_unit_test(partials_match_closed_forms),
        cmocka_unit_test(chunk_calls_see_one_run_of_keys),
        cmocka_unit_test(peak_elements_match_closed_forms),
        cmocka_unit_test(what_is_kept_matches_closed_forms),
        cmocka_unit_test(heads_are_dealt_as_described),
        cmocka_unit_test(the_longest_comes_first),
        cmocka_unit_test(bad_parameters_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
