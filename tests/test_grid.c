/* Process groups: the tables of Megatron, Paddle and MindSpeed, and properties for any world. */
#include <ringtrue/grid.h>

#include "check.h"
#include "scratch.h"

static const char *const megatron[] = {"tp", "cp", "ep", "dp", "pp"};

static rt_grid grid_make(const char *order, int64_t tp, int64_t cp, int64_t ep, int64_t dp, int64_t pp)
{
    const int64_t size[] = {tp, cp, ep, dp, pp};
    rt_context ctx = {0};
    rt_grid g;
    t_assert_ok(&ctx, rt_grid_init(&ctx, order, megatron, size, 5, &g));
    return g;
}

/* "0 2|1 3": the groups begin with these. */
static void begins(const rt_groups *g, const char *want)
{
    char got[4000] = "";
    size_t n = 0;
    for (int64_t i = 0; i < g->count; i++)
        for (int64_t k = g->first[i]; k < g->first[i + 1]; k++)
            n += (size_t)snprintf(got + n, sizeof got - n, "%s%lld",
                                  k > g->first[i] ? " "
                                  : i > 0         ? "|"
                                                  : "",
                                  (long long)g->ranks[k]);
    if (strncmp(got, want, strlen(want)) != 0)
        fail_msg("%s, not %s", got, want);
}

static void axes(const rt_grid *grid, const char *which, const char *want)
{
    rt_groups g;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_grid_groups(&ctx, grid, which, &g));
    begins(&g, want);
    rt_groups_reset(&g);
}

static void megatron_tables(void **state)
{
    (void)state;
    static const struct {
        int64_t tp, cp, dp;
        const char *groups[4];
    } table[] = {{2, 2, 2, {"0 1|2 3|4 5|6 7", "0 2|1 3|4 6|5 7", "0 4|1 5|2 6|3 7", "0 2 4 6|1 3 5 7"}},
                 {1, 4, 2, {"0|1|2|3|4|5|6|7", "0 1 2 3|4 5 6 7", "0 4|1 5|2 6|3 7", "0 1 2 3 4 5 6 7"}},
                 {2, 4, 1, {"0 1|2 3|4 5|6 7", "0 2 4 6|1 3 5 7", "0|1|2|3|4|5|6|7", "0 2 4 6|1 3 5 7"}},
                 {4, 2, 1, {"0 1 2 3|4 5 6 7", "0 4|1 5|2 6|3 7", "0|1|2|3|4|5|6|7", "0 4|1 5|2 6|3 7"}}};
    static const char *const which[] = {"tp", "cp", "dp", "dp-cp"};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const rt_grid g = grid_make("tp-cp-ep-dp-pp", table[i].tp, table[i].cp, 1, table[i].dp, 1);
        assert_int_equal(g.world, 8);
        for (int k = 0; k < 4; k++)
            axes(&g, which[k], table[i].groups[k]);
    }
    rt_grid g = grid_make("tp-cp-ep-dp-pp", 2, 2, 1, 2, 2);
    axes(&g, "cp", "0 2|1 3|4 6|5 7|8 10");
    axes(&g, "dp", "0 4|1 5|2 6|3 7|8 12");
    axes(&g, "pp", "0 8|1 9|2 10");
    axes(&g, "tp-pp", "0 1 8 9|2 3 10 11");
    g = grid_make("tp-cp-pp-ep-dp", 2, 2, 1, 2, 2);
    axes(&g, "pp", "0 4|1 5|2 6");
    axes(&g, "dp", "0 8|1 9|2 10");
    axes(&g, "cp-dp", "0 2 8 10|1 3 9 11");         /* in the grid's order, whatever the words' */
    g = grid_make("tp-cp-ep-dp-pp", 1, 1, 2, 2, 2); /* expert layers */
    axes(&g, "ep", "0 1|2 3|4 5|6 7");
    axes(&g, "dp", "0 2|1 3|4 6|5 7");
}

static void paddle_order(void **state)
{
    (void)state;
    static const char *const names[] = {"model", "sep", "sharding", "pipe", "data"};
    const int64_t eight[] = {2, 2, 1, 1, 2}, piped[] = {2, 2, 1, 2, 1}, sixteen[] = {2, 2, 1, 2, 2};
    rt_context ctx = {0};
    rt_grid g;
    t_assert_ok(&ctx, rt_grid_init(&ctx, "model-sep-sharding-pipe-data", names, eight, 5, &g));
    axes(&g, "sep", "0 2|1 3|4 6|5 7");
    t_assert_ok(&ctx, rt_grid_init(&ctx, "model-sep-sharding-pipe-data", names, piped, 5, &g));
    axes(&g, "sep", "0 2|1 3|4 6|5 7"); /* pipe in place of data: the same */
    t_assert_ok(&ctx, rt_grid_init(&ctx, "model-sep-sharding-pipe-data", names, sixteen, 5, &g));
    axes(&g, "data-sep", "0 2 8 10|1 3 9 11");
    axes(&g, "pipe-model", "0 1 4 5|2 3 6 7");
    axes(&g, "pipe", "0 4|1 5");
    axes(&g, "data", "0 8|1 9");
}

static void hierarchies(void **state)
{
    (void)state;
    static const struct {
        int64_t tp, cp, sizes[3], n, level;
        const char *want;
    } table[] = {{1, 16, {2, 2, 4}, 3, 0, "0 1|2 3|4 5"},       {1, 16, {2, 2, 4}, 3, 1, "0 2|1 3|4 6|5 7"},
                 {1, 16, {2, 2, 4}, 3, 2, "0 4 8 12|1 5 9 13"}, {1, 8, {2, 4}, 2, 0, "0 1|2 3|4 5|6 7"},
                 {1, 8, {2, 4}, 2, 1, "0 2 4 6|1 3 5 7"},       {2, 4, {2, 2}, 2, 0, "0 2|4 6|1 3|5 7"},
                 {2, 4, {2, 2}, 2, 1, "0 4|2 6|1 5|3 7"}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const rt_grid g = grid_make("tp-cp-ep-dp-pp", table[i].tp, table[i].cp, 1, 1, 1);
        rt_groups cp, level;
        rt_context ctx = {0};
        t_assert_ok(&ctx, rt_grid_groups(&ctx, &g, "cp", &cp));
        t_assert_ok(&ctx, rt_groups_level(&ctx, &cp, table[i].sizes, table[i].n, table[i].level, &level));
        begins(&level, table[i].want);
        rt_groups_reset(&level);
        const int64_t wrong[] = {3, 2};
        t_assert_status(&ctx, rt_groups_level(&ctx, &cp, wrong, 2, 0, &level), RT_ERR_ARG);
        t_assert_says(&ctx, "product is 6");
        rt_groups_reset(&cp);
    }
}

static void hybrids(void **state)
{
    (void)state;
    const rt_grid g = grid_make("cp", 1, 8, 1, 1, 1);
    rt_groups cp, ring, ulysses;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_grid_groups(&ctx, &g, "cp", &cp));
    t_assert_ok(&ctx, rt_groups_hybrid(&ctx, &cp, 2, false, &ring, &ulysses));
    begins(&ulysses, "0 1|2 3|4 5|6 7");
    begins(&ring, "0 2 4 6|1 3 5 7");
    rt_groups_reset(&ring);
    rt_groups_reset(&ulysses);
    t_assert_ok(&ctx, rt_groups_hybrid(&ctx, &cp, 2, true, &ring, &ulysses));
    begins(&ulysses, "0 4|1 5|2 6|3 7");
    begins(&ring, "0 1 2 3|4 5 6 7");
    rt_groups_reset(&ring);
    rt_groups_reset(&ulysses);
    t_assert_status(&ctx, rt_groups_hybrid(&ctx, &cp, 3, true, &ring, &ulysses), RT_ERR_ARG);
    t_assert_says(&ctx, "ulysses is 3");
    rt_groups_reset(&cp);
}

static void double_rings(void **state)
{
    (void)state;
    static const struct {
        int64_t window;
        const char *groups[3], *seen[2]; /* seen by ranks 0 and 5 */
    } table[] = {{1,
                  {"0|1|2|3|4|5|6|7", "0 1 2 3 4 5 6 7", "0 1 2 3 4 5 6 7"},
                  {"0 7 6 5 4 3 2 1", "5 4 3 2 1 0 7 6"}},
                 {2,
                  {"0 1|2 3|4 5|6 7", "0 2 4 6|1 3 5 7", "0 3 4 7|1 2 5 6"},
                  {"0 1 6 7 4 5 2 3", "5 4 3 2 1 0 7 6"}},
                 {4,
                  {"0 1 2 3|4 5 6 7", "0 4|1 5|2 6|3 7", "0 5 2 7|1 6 3 4"},
                  {"0 3 2 1 4 7 6 5", "5 4 7 6 1 0 3 2"}}};
    const rt_grid g = grid_make("cp", 1, 8, 1, 1, 1);
    rt_groups cp, out;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_grid_groups(&ctx, &g, "cp", &cp));
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        for (int k = 0; k < 3; k++) {
            t_assert_ok(&ctx, rt_groups_double_ring(&ctx, &cp, table[i].window, (rt_double_ring)k, &out));
            begins(&out, table[i].groups[k]);
            rt_groups_reset(&out);
        }
        for (int k = 0; k < 2; k++) {
            int64_t order[8], first[] = {0, 8};
            rt_double_ring_order(8, table[i].window, k == 0 ? 0 : 5, order);
            const rt_groups one = {1, first, order};
            begins(&one, table[i].seen[k]);
        }
    }
    t_assert_status(&ctx, rt_groups_double_ring(&ctx, &cp, 3, RT_DOUBLE_RING_KV, &out), RT_ERR_ARG);
    t_assert_says(&ctx, "window is 3");
    rt_groups_reset(&cp);
}

/* LoongTrain's interleaved placement of 16 ranks in windows of 4, as InternEvo's source has it in a comment (with its slips
 * mended: 10 and 11 are in the second ring), and of 8 in windows of 2 and 1. */
static void interleaved_windows(void **state)
{
    (void)state;
    static const struct {
        int64_t ranks, window;
        const char *intra, *inter;
    } table[] = {{16, 4, "0 2 4 6|1 3 5 7|8 10 12 14|9 11 13 15", "0 1 8 9|2 3 10 11|4 5 12 13|6 7 14 15"},
                 {8, 2, "0 2|1 3|4 6|5 7", "0 1 4 5|2 3 6 7"},
                 {8, 1, "0|1|2|3|4|5|6|7", "0 1 2 3 4 5 6 7"}};
    rt_groups cp, placed, out;
    rt_context ctx = {0};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const rt_grid g = grid_make("cp", 1, table[i].ranks, 1, 1, 1);
        t_assert_ok(&ctx, rt_grid_groups(&ctx, &g, "cp", &cp));
        t_assert_ok(&ctx, rt_groups_interleave(&ctx, &cp, table[i].window, &placed));
        t_assert_ok(&ctx,
                    rt_groups_double_ring(&ctx, &placed, table[i].window, RT_DOUBLE_RING_INTRA, &out));
        begins(&out, table[i].intra);
        rt_groups_reset(&out);
        t_assert_ok(&ctx, rt_groups_double_ring(&ctx, &placed, table[i].window, RT_DOUBLE_RING_KV, &out));
        begins(&out, table[i].inter);
        rt_groups_reset(&out);
        rt_groups_reset(&placed);
        t_assert_status(&ctx, rt_groups_interleave(&ctx, &cp, table[i].ranks, &placed), RT_ERR_ARG);
        t_assert_says(&ctx, "twice as much must divide");
        rt_groups_reset(&cp);
    }
    /* two groups, each for itself, in ranks of the world */
    const rt_grid g = grid_make("tp-cp", 2, 4, 1, 1, 1);
    t_assert_ok(&ctx, rt_grid_groups(&ctx, &g, "cp", &cp));
    t_assert_ok(&ctx, rt_groups_interleave(&ctx, &cp, 2, &placed));
    begins(&placed, "0 4 2 6|1 5 3 7");
    rt_groups_reset(&placed);
    rt_groups_reset(&cp);
}

static void hybrid_cp(void **state)
{
    (void)state;
    static const int64_t rule[][2] = {{4096, 1},  {5000, 2}, {10000, 4}, {16384, 4},
                                      {20000, 8}, {1, 1},    {0, 1}};
    for (size_t i = 0; i < sizeof rule / sizeof rule[0]; i++)
        assert_int_equal(rt_hybrid_cp_size(rule[i][0], 4096), rule[i][1]);
    const rt_grid g = grid_make("tp-cp-ep-dp-pp", 1, 4, 1, 2, 1);
    rt_groups all, out;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_grid_groups(&ctx, &g, "dp-cp", &all));
    t_assert_ok(&ctx, rt_groups_slices(&ctx, &all, 4, &out));
    begins(&out, "0 1 2 3|4 5 6 7");
    rt_groups_reset(&out);
    t_assert_ok(&ctx, rt_groups_slices(&ctx, &all, 3, &out)); /* the last may be shorter */
    begins(&out, "0 1 2|3 4 5|6 7");
    rt_groups_reset(&out);
    rt_groups_reset(&all);
}

/* Each kind of group splits the world: every rank is in one, first ranks ascend along plain axes. */
static void every_rank_once(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int trial = 0; trial < 300; trial++) {
        int64_t n[5];
        for (int i = 0; i < 5; i++)
            n[i] = 1 + (int64_t)(t_random(&seed) % (i == 1 ? 9 : 3));
        const rt_grid g =
            grid_make(trial % 2 ? "tp-cp-ep-dp-pp" : "pp-dp-cp-tp-ep", n[0], n[1], n[2], n[3], n[4]);
        int64_t window = 1 + (int64_t)(t_random(&seed) % (uint64_t)n[1]);
        while (n[1] % window != 0)
            window--;
        static const char *const which[] = {"tp", "cp", "dp-cp", "tp-dp-cp", "ep-pp"};
        for (int k = 0; k < 5 + 3; k++) {
            rt_groups out, cp;
            rt_context ctx = {0};
            t_assert_ok(&ctx, rt_grid_groups(&ctx, &g, k < 5 ? which[k] : "cp", &cp));
            if (k < 5)
                out = cp;
            else
                t_assert_ok(&ctx, rt_groups_double_ring(&ctx, &cp, window, (rt_double_ring)(k - 5), &out));
            uint8_t *seen = test_calloc((size_t)g.world, 1);
            assert_int_equal(out.first[out.count], g.world);
            for (int64_t i = 0; i < g.world; i++) {
                assert_in_range(out.ranks[i], 0, g.world - 1);
                assert_int_equal(seen[out.ranks[i]]++, 0);
            }
            for (int64_t i = 1; i < out.count && k < 5; i++)
                assert_true(out.ranks[out.first[i]] > out.ranks[out.first[i - 1]]);
            test_free(seen);
            rt_groups_reset(&out);
            if (k >= 5)
                rt_groups_reset(&cp);
        }
    }
}

static void wrong_orders(void **state)
{
    (void)state;
    static const struct {
        const char *order;
        int64_t size[5];
        const char *says;
    } bad[] = {{"tp-cp", {1, 2, 1, 2, 1}, "dp is 2, but the order \"tp-cp\" does not name it"},
               {"tp-cp-tp", {1, 1, 1, 1, 1}, "axis tp is there twice"},
               {"tp-xp", {1, 1, 1, 1, 1}, "axis xp is unknown; known: tp cp ep dp pp"},
               {"tp--cp", {1, 1, 1, 1, 1}, "with dashes between"},
               {"", {1, 1, 1, 1, 1}, "names no axis"},
               {"tp-cp", {0, 1, 1, 1, 1}, "tp is 0; it must be at least 1"},
               {"tp-cp-ep-dp-pp", {65536, 65536, 1, 1, 1}, "more than 2^31 - 1 ranks"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rt_context ctx = {0};
        rt_grid g;
        t_assert_status(&ctx, rt_grid_init(&ctx, bad[i].order, megatron, bad[i].size, 5, &g), RT_ERR_ARG);
        t_assert_says(&ctx, bad[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megatron_tables), cmocka_unit_test(paddle_order),
        cmocka_unit_test(hierarchies),     cmocka_unit_test(hybrids),
        cmocka_unit_test(double_rings),    cmocka_unit_test(interleaved_windows),
        cmocka_unit_test(hybrid_cp),       cmocka_unit_test(every_rank_once),
        cmocka_unit_test(wrong_orders),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
