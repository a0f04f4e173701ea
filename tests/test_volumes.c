/* Bytes that the planners send, forward and backward, against published tables and closed forms. */
#include "planned.h"

/* B 1, S 8192, P 4, 32 query heads, 8 key heads, d 128, 2 bytes. */
static void message_sizes_match_the_frameworks(void **state)
{
    (void)state;
    const rt_problem p = problem_make(8192, 8192, 32, 8, 128, RT_MASK_CAUSAL);
    const rt_wire_sizes same = {2.0, 2.0, 2.0}, wide = {2.0, 4.0, 2.0};
    const double m = 8388608.0;
    static const struct {
        const char *plan;
        double kv, back_kv, dkv; /* in M */
        bool wide;
    } table[] = {{"ring:backward=own-last", 3, 3, 3, false}, /* TE, MindSpeed */
                 {"ring", 3, 3, 8, true},                    /* PyTorch: gradients of 4 bytes */
                 {"ring", 3, 3, 4, false},                   /* Paddle */
                 {"ring:last-hop=yes", 4, 4, 8, true},       /* JAX */
                 {"double-ring:window=2", 3, 3, 3, false},   /* MindSpeed */
                 {"double-ring:window=2,order=loongtrain", 3, 3, 6, false}, /* LoongTrain: P + P / w */
                 {"all-gather:form=chunks", 3, 3, 3, false},                /* TE */
                 {"all-gather:stride=1", 3, 3, 3, false},                   /* llama3 */
                 {"all-gather:form=rotate", 3, 3, 8, true}};                /* PyTorch */
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        made x = plan_make(&p, table[i].plan, RT_LAYOUT_ZIGZAG, 4);
        const rt_wire_sizes *w = table[i].wide ? &wide : &same;
        t_assert_bits_eq(sent(&p, &x, w, false, RT_PAYLOAD_KV), table[i].kv * m);
        t_assert_bits_eq(sent(&p, &x, w, true, RT_PAYLOAD_KV), table[i].back_kv * m);
        t_assert_bits_eq(sent(&p, &x, w, true, RT_PAYLOAD_DKV), table[i].dkv * m);
        made_reset(&x);
    }
    /* all-to-all forward: 3/4 of Q, K, V and O; a STATE has its LSE too, 4 bytes a row */
    made x = plan_make(&p, "ulysses", RT_LAYOUT_ZIGZAG, 4);
    const double rows = 3.0 * 2048.0 * 8.0;
    t_assert_bits_eq(sent(&p, &x, &same, false, RT_PAYLOAD_Q) + sent(&p, &x, &same, false, RT_PAYLOAD_KV) +
                         sent(&p, &x, &same, false, RT_PAYLOAD_STATE) - 4.0 * rows,
                     31457280.0);
    made_reset(&x);
}

/* MiB sent per rank, S = 131072, 32/8 heads, D = 128, 2 bytes: computed at S / 64 and multiplied, since all of it
 * grows as S. */
static void volumes_match_the_worked_table(void **state)
{
    (void)state;
    static const struct {
        int32_t ranks;
        double ring, dkv, q, partials, ulysses;
    } table[] = {{2, 256, 1024, 512, 520, 640},
                 {4, 384, 1024, 768, 780, 480},
                 {8, 448, 1024, 896, 910, 280},
                 {16, 480, 1024, 960, 975, 180}};
    const rt_problem p = problem_make(2048, 2048, 32, 8, 128, RT_MASK_CAUSAL);
    const rt_wire_sizes w = {2.0, 4.0, 2.0}, same = {2.0, 2.0, 2.0};
    const double mib = 1048576.0 / 64.0;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const int32_t ranks = table[i].ranks;
        made ring = plan_make(&p, "ring", RT_LAYOUT_ZIGZAG, ranks),
             pass_q = plan_make(&p, "pass-q", RT_LAYOUT_ZIGZAG, ranks),
             ulysses = plan_make(&p, "ulysses", RT_LAYOUT_ZIGZAG, ranks);
        t_assert_bits_eq(sent(&p, &ring, &w, false, RT_PAYLOAD_KV), table[i].ring * mib);
        t_assert_bits_eq(sent(&p, &ring, &w, true, RT_PAYLOAD_DKV), table[i].dkv * mib);
        t_assert_bits_eq(sent(&p, &pass_q, &w, false, RT_PAYLOAD_Q), table[i].q * mib);
        t_assert_bits_eq(sent(&p, &pass_q, &w, false, RT_PAYLOAD_STATE), table[i].partials * mib);
        const double heads_away = (double)(ranks - 1) * 2048.0 / ranks * 32.0 / ranks; /* rows of a STATE */
        t_assert_bits_eq(sent(&p, &ulysses, &w, false, RT_PAYLOAD_Q) +
                             sent(&p, &ulysses, &w, false, RT_PAYLOAD_KV) +
                             sent(&p, &ulysses, &w, false, RT_PAYLOAD_STATE) - 4.0 * heads_away,
                         table[i].ulysses * mib);
        /* and the same again: dO in; dQ, dK, dV out; a DO has LSE and delta too, 8 bytes a row */
        t_assert_bits_eq(sent_all(&p, &ulysses, &same, true) - 8.0 * heads_away, table[i].ulysses * mib);
        made_reset(&ring);
        made_reset(&pass_q);
        made_reset(&ulysses);
    }
}

/* USP at P = 8, u x r: MiB of the all-to-alls and of the ring; both rank orders. */
static void hybrid_volumes_match_the_worked_table(void **state)
{
    (void)state;
    static const struct {
        int u;
        double exchange, ring;
    } table[] = {{1, 0, 448}, {2, 160, 192}, {4, 240, 64}, {8, 280, 0}};
    const rt_problem p = problem_make(2048, 2048, 32, 8, 128, RT_MASK_CAUSAL);
    const rt_wire_sizes w = {2.0, 2.0, 2.0};
    const double mib = 1048576.0 / 64.0;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        for (int low = 0; low < 2; low++) {
            char name[64];
            (void)snprintf(name, sizeof name, "hybrid:ulysses=%d,order=%s", table[i].u,
                           low ? "ring-low" : "ulysses-low");
            made m = plan_make(&p, name, RT_LAYOUT_ZIGZAG, 8);
            const double u = table[i].u, rows = (u - 1.0) * 256.0 * 32.0 / u;
            const double kv = (u - 1.0) * 256.0 * 8.0 / u * 512.0; /* of the all-to-all */
            t_assert_bits_eq(sent(&p, &m, &w, false, RT_PAYLOAD_Q) + kv +
                                 sent(&p, &m, &w, false, RT_PAYLOAD_STATE) - 4.0 * rows,
                             table[i].exchange * mib);
            t_assert_bits_eq(sent(&p, &m, &w, false, RT_PAYLOAD_KV) - kv, table[i].ring * mib);
            made_reset(&m);
        }
}

/* Going back, the all-to-alls carry the same again (dO in; dQ, dK, dV out, and 8 bytes a row of DO) and the ring its KV
 * and their gradients, once more where it goes the forward's way; Q and KV of the all-to-all stay, or go again. */
static void hybrid_backward_sends_the_same_again(void **state)
{
    (void)state;
    static const struct {
        int u;
        double exchange, ring;
    } table[] = {{1, 0, 448}, {2, 160, 192}, {4, 240, 64}, {8, 280, 0}};
    const rt_problem p = problem_make(2048, 2048, 32, 8, 128, RT_MASK_CAUSAL);
    const rt_wire_sizes w = {2.0, 2.0, 2.0};
    const double mib = 1048576.0 / 64.0;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        for (int kind = 0; kind < 8; kind++) {
            const int low = kind % 2, last = kind / 2 % 2, again = kind / 4, r = 8 / table[i].u;
            char name[96];
            (void)snprintf(name, sizeof name, "hybrid:ulysses=%d,order=%s,backward=%s%s", table[i].u,
                           low ? "ring-low" : "ulysses-low", last ? "own-last" : "own-first",
                           again ? ",keep=no" : "");
            made m = plan_make(&p, name, RT_LAYOUT_ZIGZAG, 8);
            const double u = table[i].u, rows = (u - 1.0) * 256.0 * 32.0 / u;
            const double kv = (u - 1.0) * 256.0 * 8.0 / u * 512.0, q = rows * 256.0; /* of the all-to-all */
            const double hops = r == 1 ? 0 : last ? 1 : (double)r / (r - 1);         /* in rings of KV */
            const double ring = table[i].ring * mib;
            t_assert_bits_eq(sent(&p, &m, &w, true, RT_PAYLOAD_Q), again ? q : 0.0);
            t_assert_bits_eq(sent(&p, &m, &w, true, RT_PAYLOAD_KV), ring + (again ? kv : 0.0));
            t_assert_bits_eq(sent(&p, &m, &w, true, RT_PAYLOAD_DKV), kv + ring * hops);
            t_assert_bits_eq(sent_all(&p, &m, &w, true) - 8.0 * rows - (again ? q + kv : 0.0),
                             table[i].exchange * mib + ring + ring * hops);
            made_reset(&m);
        }
}

/* Double ring at P = 8: of 448 MiB, what goes between windows. */
static void bytes_between_windows_match_the_worked_table(void **state)
{
    (void)state;
    static const struct {
        int window;
        double across;
    } table[] = {{1, 448}, {2, 192}, {4, 64}, {8, 0}};
    const rt_problem p = problem_make(2048, 2048, 32, 8, 128, RT_MASK_CAUSAL);
    const rt_wire_sizes w = {2.0, 2.0, 2.0};
    const double mib = 1048576.0 / 64.0;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char name[64];
        double across[8];
        rt_context ctx = {0};
        (void)snprintf(name, sizeof name, "double-ring:window=%d", table[i].window);
        made m = plan_make(&p, name, RT_LAYOUT_ZIGZAG, 8);
        t_assert_ok(&ctx, rt_plan_sent_across(&ctx, &m.plan.forward, &p, 8, &w, table[i].window, across));
        for (int r = 0; r < 8; r++)
            t_assert_bits_eq(across[r], table[i].across * mib);
        t_assert_bits_eq(sent(&p, &m, &w, false, RT_PAYLOAD_KV), 448.0 * mib);
        t_assert_status(&ctx, rt_plan_sent_across(&ctx, &m.plan.forward, &p, 8, &w, 0, across), RT_ERR_ARG);
        made_reset(&m);
    }
}

/* A causal mask over contiguous shards needs half of the ring's KV, and of DKV (with what comes straight home). */
static void needed_moves_are_half_in_a_causal_ring(void **state)
{
    (void)state;
    const rt_wire_sizes w = {2.0, 2.0, 2.0};
    for (int32_t ranks = 2; ranks <= 8; ranks++)
        for (int way = 0; way < 2; way++) {
            const rt_problem p = problem_make(8 * ranks, 8 * ranks, 2, 1, 4, RT_MASK_CAUSAL);
            made m = plan_make(&p, way ? "ring:move=needed,backward=own-last" : "ring:move=needed",
                               RT_LAYOUT_CONTIGUOUS, ranks);
            rt_counters f = plan_count(&p, &m, &w, false), b = plan_count(&p, &m, &w, true);
            double kv = 0, back = 0, dkv = 0;
            for (int32_t r = 0; r < ranks; r++) {
                kv += f.sent[RT_PAYLOAD_KV][r];
                back += b.sent[RT_PAYLOAD_KV][r];
                dkv += b.sent[RT_PAYLOAD_DKV][r];
            }
            const double shard = 8.0 * 8.0 * 2.0, half = (double)(ranks * (ranks - 1) / 2) * shard;
            t_assert_bits_eq(kv, half);
            /* the way back: each passes through ranks that do not need it, on to those that do */
            t_assert_bits_eq(back, way ? (double)(ranks * (ranks - 1) - ranks * (ranks - 1) / 2 +
                                                  (ranks - 1) * (ranks - 2) / 2) *
                                             shard
                                       : half);
            t_assert_bits_eq(dkv, way ? half : half + (double)(ranks - 1) * shard);
            rt_counters_reset(&f);
            rt_counters_reset(&b);
            made_reset(&m);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_sizes_match_the_frameworks),
        cmocka_unit_test(volumes_match_the_worked_table),
        cmocka_unit_test(hybrid_volumes_match_the_worked_table),
        cmocka_unit_test(hybrid_backward_sends_the_same_again),
        cmocka_unit_test(bytes_between_windows_match_the_worked_table),
        cmocka_unit_test(needed_moves_are_half_in_a_causal_ring),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
