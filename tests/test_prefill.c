/* Prefill with persistent KV: which way goes round, what a chunk's ring carries, bytes by closed form. */
#include "planned.h"

/* 2-byte elements everywhere on the wire. */
static const rt_wire_sizes wire = {2.0, 2.0, 2.0};

static bool moves_keys(const rt_pass *pass)
{
    bool keys = false, queries = false;
    for (int64_t i = 0; i < pass->n_moves; i++) {
        keys = keys || pass->moves[i].payload == RT_PAYLOAD_KV;
        queries = queries || pass->moves[i].payload == RT_PAYLOAD_Q;
    }
    assert_true(keys != queries);
    return keys;
}

/* Pass-KV iff T / (T + Pc) >= 2 Hkv / H: the bound is 1/8 for 128 query heads on 8, 1/2 for 32 on 8. */
static void prefill_chooses_by_the_rule(void **state)
{
    (void)state;
    static const struct {
        int64_t fresh, all, heads, kv_heads;
        bool keys;
    } table[] = {{40, 320, 128, 8, true}, {39, 320, 128, 8, false}, {40, 80, 32, 8, true},
                 {39, 80, 32, 8, false},  {80, 80, 16, 8, true},    {80, 80, 8, 8, false},
                 {80, 40, 16, 8, true}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const rt_problem p = problem_make(table[i].fresh, table[i].all, table[i].heads, table[i].kv_heads,
                                          2, RT_MASK_CAUSAL_BOTTOM_RIGHT);
        const char *const names[] = {"prefill", "prefill:pass=auto", "prefill:pass=pass-kv",
                                     "prefill:pass=pass-q"};
        const bool want[] = {table[i].keys, table[i].keys, true, false};
        for (int n = 0; n < 4; n++) {
            made m = plan_make(&p, names[n], RT_LAYOUT_ZIGZAG, 4);
            assert_int_equal(moves_keys(&m.plan.forward), want[n]);
            assert_int_equal(moves_keys(&m.plan.backward), want[n]);
            made_reset(&m);
        }
    }
}

/* Pass-KV: 2 (P - 1) (S/P) Hkv D e for every chunk, where the last shard of keys lacks what later chunks bring.
 * Pass-Q: (P - 1) T H D e once, however it is cut, and the partials home, (P - 1) T H (D e + 4). */
static void prefill_bytes_match_closed_form(void **state)
{
    (void)state;
    for (int32_t ranks = 1; ranks <= 5; ranks++) {
        for (int64_t chunk = 0; chunk <= 12; chunk += 5) {
            const int64_t t = 12, keys = 50, chunks = chunk == 0 ? 1 : (t + chunk - 1) / chunk;
            const rt_problem p =
                problem_make(t * ranks, keys * ranks, 8, 2, 8, RT_MASK_CAUSAL_BOTTOM_RIGHT);
            for (int pass_q = 0; pass_q < 2; pass_q++) {
                char name[64];
                (void)snprintf(name, sizeof name, "prefill:pass=pass-%s,chunk=%d", pass_q ? "q" : "kv",
                               (int)chunk);
                made m = plan_make(&p, name, RT_LAYOUT_CONTIGUOUS, ranks);
                rt_counters f = plan_count(&p, &m, &wire, false), b = plan_count(&p, &m, &wire, true);
                for (int32_t r = 0; r < ranks; r++) {
                    const double token = 2 * 16 * 2, q = (double)(t * 8 * 8 * 2);
                    int64_t later =
                        0; /* keys of the last shard that a chunk does not have yet, over the chunks */
                    for (int64_t n = 0; n < chunks && chunk > 0; n++)
                        later += (n + 1) * chunk < t ? t - (n + 1) * chunk : 0;
                    const double all = (double)(ranks * chunks * keys - later) * token;
                    const double next = (double)(chunks * keys - (r == ranks - 2 ? later : 0)) * token;
                    t_assert_bits_eq(f.sent[RT_PAYLOAD_KV][r], pass_q || ranks == 1 ? 0.0 : all - next);
                    t_assert_bits_eq(f.sent[RT_PAYLOAD_Q][r], pass_q ? (ranks - 1) * q : 0.0);
                    t_assert_bits_eq(f.sent[RT_PAYLOAD_STATE][r],
                                     pass_q ? (ranks - 1) * (double)(t * 8) * (8 * 2 + 4) : 0.0);
                    t_assert_bits_eq(b.sent[RT_PAYLOAD_DKV][r], pass_q || ranks == 1 ? 0.0 : all);
                    t_assert_bits_eq(b.sent[RT_PAYLOAD_DQ][r], pass_q && ranks > 1 ? ranks * q : 0.0);
                }
                assert_int_equal(f.max_partials, ranks);
                assert_int_equal(f.steps, chunks * ranks + (pass_q && ranks > 1));
                rt_counters_reset(&f);
                rt_counters_reset(&b);
                made_reset(&m);
            }
        }
    }
}

/* Zigzag, 16 tokens on 2 ranks, 4 queries of each at a time: rank 0 has 0-3 and 12-15, rank 1 4-7 and 8-11.  The first
 * chunk's ring carries the keys that are there by then, 0-7, again in the second chunk's; with a window of 3 the second
 * needs 5-15. */
static void prefill_chunks_carry_the_keys_they_see(void **state)
{
    (void)state;
    static const int64_t slots[2][2][2][2] = {/* window, chunk, shard */
                                              {{{0, 4}, {0, 4}}, {{0, 8}, {0, 8}}},
                                              {{{0, 4}, {0, 4}}, {{4, 8}, {1, 8}}}};
    for (int w = 0; w < 2; w++) {
        rt_problem p = problem_make(16, 16, 4, 2, 8, RT_MASK_CAUSAL);
        p.has_window = w == 1;
        p.window_left = 3;
        p.window_right = -1;
        made m = plan_make(&p, "prefill:pass=pass-kv,chunk=4", RT_LAYOUT_ZIGZAG, 2);
        for (int pass = 0; pass < 2; pass++) {
            const rt_pass *x = pass == 0 ? &m.plan.forward : &m.plan.backward;
            int64_t found = 0;
            for (int64_t t = 0; t < x->n_steps; t++)
                for (int64_t i = x->steps[t].move0; i < x->steps[t].move1; i++) {
                    const rt_piece *piece = &x->moves[i].piece;
                    const int64_t *want = slots[w][t >= x->n_steps / 2][piece->shard];
                    assert_int_equal(piece->slot0, want[0]);
                    assert_int_equal(piece->slot1, want[1]);
                    found++;
                }
            assert_int_equal(found,
                             pass == 0 ? 4 : 4 + 8); /* KV one hop, DKV two, of two shards and chunks */
        }
        made_reset(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefill_chooses_by_the_rule),
        cmocka_unit_test(prefill_bytes_match_closed_form),
        cmocka_unit_test(prefill_chunks_carry_the_keys_they_see),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
