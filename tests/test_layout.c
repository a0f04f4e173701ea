/* Layouts: index lists by hand, every remainder rule, and lists by position. */
#include <ringtrue/layout.h>

#include "check.h"

static rt_problem problem_make(int64_t sq, int64_t sk)
{
    rt_problem p;
    memset(&p, 0, sizeof p);
    p.batch = p.heads_q = p.heads_kv = p.dim = p.dim_v = 1;
    p.scale = 1.0;
    p.seqlen_q = sq;
    p.seqlen_k = sk;
    return p;
}

static rt_layout layout_make(int64_t sq, int64_t sk, rt_layout_kind kind, rt_remainder rem, int32_t ranks)
{
    rt_problem p = problem_make(sq, sk);
    rt_layout l;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_layout_create(&ctx, &p, kind, rem, ranks, &l));
    return l;
}

/* Rank r holds exactly `n` positions, and they are these. */
static void rank_holds(const rt_layout *l, rt_side side, int32_t r, const int64_t *want, int64_t n)
{
    assert_int_equal(rt_layout_count(l, side, r), n);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(rt_layout_positions(l, side, r)[i], want[i]);
}
#define HOLDS(l, side, r, ...)                                                                             \
    do {                                                                                                   \
        const int64_t want_[] = {__VA_ARGS__};                                                             \
        rank_holds(l, side, r, want_, (int64_t)(sizeof want_ / sizeof want_[0]));                          \
    } while (0)

static void zigzag_16_over_4_and_2(void **state)
{
    (void)state;
    rt_layout l = layout_make(16, 16, RT_LAYOUT_ZIGZAG, RT_REMAINDER_REFUSE, 4);
    for (int side = 0; side < 2; side++) {
        HOLDS(&l, (rt_side)side, 0, 0, 1, 14, 15);
        HOLDS(&l, (rt_side)side, 1, 2, 3, 12, 13);
        HOLDS(&l, (rt_side)side, 2, 4, 5, 10, 11);
        HOLDS(&l, (rt_side)side, 3, 6, 7, 8, 9);
        assert_int_equal(l.side[side].half[0], 2);
    }
    assert_string_equal(l.note, "");
    rt_layout_reset(&l);
    l = layout_make(16, 16, RT_LAYOUT_ZIGZAG, RT_REMAINDER_SPREAD, 2);
    HOLDS(&l, RT_SIDE_Q, 0, 0, 1, 2, 3, 12, 13, 14, 15);
    HOLDS(&l, RT_SIDE_Q, 1, 4, 5, 6, 7, 8, 9, 10, 11);
    rt_layout_reset(&l);
}

static void striped_16_over_4(void **state)
{
    (void)state;
    rt_layout l = layout_make(16, 16, RT_LAYOUT_STRIPED, RT_REMAINDER_REFUSE, 4);
    HOLDS(&l, RT_SIDE_Q, 0, 0, 4, 8, 12);
    HOLDS(&l, RT_SIDE_Q, 1, 1, 5, 9, 13);
    HOLDS(&l, RT_SIDE_KV, 2, 2, 6, 10, 14);
    HOLDS(&l, RT_SIDE_KV, 3, 3, 7, 11, 15);
    assert_int_equal(l.side[RT_SIDE_Q].half[3], 4);
    rt_layout_reset(&l);
}

static void contiguous_remainder_rules(void **state)
{
    (void)state;
    rt_layout l = layout_make(10, 12, RT_LAYOUT_CONTIGUOUS, RT_REMAINDER_SPREAD, 4);
    HOLDS(&l, RT_SIDE_Q, 0, 0, 1, 2);
    HOLDS(&l, RT_SIDE_Q, 1, 3, 4, 5);
    HOLDS(&l, RT_SIDE_Q, 2, 6, 7);
    HOLDS(&l, RT_SIDE_Q, 3, 8, 9);
    HOLDS(&l, RT_SIDE_KV, 3, 9, 10, 11);
    assert_non_null(strstr(l.note, "spread"));
    assert_non_null(strstr(l.note, "multiples of 4"));
    rt_layout_reset(&l);
    l = layout_make(9, 9, RT_LAYOUT_CONTIGUOUS, RT_REMAINDER_CEIL, 4); /* 3 3 3 0 */
    HOLDS(&l, RT_SIDE_Q, 2, 6, 7, 8);
    assert_int_equal(rt_layout_count(&l, RT_SIDE_Q, 3), 0);
    assert_non_null(strstr(l.note, "ceil"));
    rt_layout_reset(&l);
    l = layout_make(11, 11, RT_LAYOUT_CONTIGUOUS, RT_REMAINDER_LAST, 4); /* 2 2 2 5 */
    HOLDS(&l, RT_SIDE_Q, 0, 0, 1);
    HOLDS(&l, RT_SIDE_Q, 3, 6, 7, 8, 9, 10);
    assert_non_null(strstr(l.note, "last"));
    rt_layout_reset(&l);
}

static void zigzag_remainder_is_by_runs(void **state)
{
    (void)state;
    rt_layout l = layout_make(9, 9, RT_LAYOUT_ZIGZAG, RT_REMAINDER_SPREAD, 2); /* runs 3 2 2 2 */
    HOLDS(&l, RT_SIDE_Q, 0, 0, 1, 2, 7, 8);
    HOLDS(&l, RT_SIDE_Q, 1, 3, 4, 5, 6);
    assert_int_equal(l.side[RT_SIDE_Q].half[0], 3);
    assert_int_equal(l.side[RT_SIDE_Q].half[1], 2);
    assert_non_null(strstr(l.note, "zigzag only for multiples of 4"));
    rt_layout_reset(&l);
    l = layout_make(5, 5, RT_LAYOUT_ZIGZAG, RT_REMAINDER_CEIL, 2); /* runs 2 2 1 0 */
    HOLDS(&l, RT_SIDE_Q, 0, 0, 1);
    HOLDS(&l, RT_SIDE_Q, 1, 2, 3, 4);
    rt_layout_reset(&l);
    l = layout_make(7, 7, RT_LAYOUT_ZIGZAG, RT_REMAINDER_LAST, 2); /* runs 1 1 1 4 */
    HOLDS(&l, RT_SIDE_Q, 0, 0, 3, 4, 5, 6);
    HOLDS(&l, RT_SIDE_Q, 1, 1, 2);
    rt_layout_reset(&l);
}

/* Every position has one owner and one slot, whatever the kind, the rule, P and the lengths. */
static void every_layout_is_a_permutation(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        for (int rem = 0; rem < 3; rem++) {
            for (int32_t ranks = 1; ranks <= 9; ranks++) {
                for (int64_t s = 1; s <= 40; s++) {
                    rt_layout l = layout_make(s, 41 - s, (rt_layout_kind)kind, (rt_remainder)rem, ranks);
                    for (int side = 0; side < 2; side++) {
                        const rt_layout_side *x = &l.side[side];
                        assert_int_equal(x->first[0], 0);
                        assert_int_equal(x->first[ranks], x->length);
                        for (int32_t r = 0; r < ranks; r++)
                            assert_in_range(x->half[r], 0, rt_layout_count(&l, (rt_side)side, r));
                        for (int64_t i = 0; i < x->length; i++) {
                            int32_t r = x->rank_of[i];
                            assert_true(r >= 0 && r < ranks);
                            assert_true(x->slot_of[i] < rt_layout_count(&l, (rt_side)side, r));
                            assert_int_equal(rt_layout_positions(&l, (rt_side)side, r)[x->slot_of[i]], i);
                            if (kind == RT_LAYOUT_STRIPED)
                                assert_int_equal(r, i % ranks);
                        }
                    }
                    bool divides = s % (kind == RT_LAYOUT_ZIGZAG ? 2 * ranks : ranks) == 0 &&
                                   (41 - s) % (kind == RT_LAYOUT_ZIGZAG ? 2 * ranks : ranks) == 0;
                    assert_int_equal(l.note[0] == '\0', divides);
                    rt_layout_reset(&l);
                }
            }
        }
    }
}

static void refuse_names_the_next_multiple(void **state)
{
    (void)state;
    rt_layout l;
    memset(&l, 0x5a, sizeof l);
    rt_layout before = l;
    rt_problem p = problem_make(16, 257);
    rt_context ctx = {0};
    t_assert_status(&ctx, rt_layout_create(&ctx, &p, RT_LAYOUT_ZIGZAG, RT_REMAINDER_REFUSE, 4, &l),
                    RT_ERR_ARG);
    assert_non_null(strstr(ctx.message, "seqlen_k 264"));
    assert_non_null(strstr(ctx.message, "257"));
    assert_memory_equal(&l, &before, sizeof l);
    t_assert_status(&ctx, rt_layout_create(&ctx, &p, RT_LAYOUT_CONTIGUOUS, RT_REMAINDER_SPREAD, 0, &l),
                    RT_ERR_ARG);
    t_assert_status(&ctx, rt_layout_create(&ctx, &p, RT_LAYOUT_POSITIONS, RT_REMAINDER_SPREAD, 2, &l),
                    RT_ERR_ARG);
}

static void positions_list_is_copied(void **state)
{
    (void)state;
    rt_problem p = problem_make(4, 3);
    int64_t n_q[] = {3, 0, 1}, q[] = {2, 0, 3, 1}, n_kv[] = {1, 1, 1}, kv[] = {2, 0, 1};
    rt_layout l;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_layout_from_positions(&ctx, &p, 3, n_q, q, n_kv, kv, &l));
    q[0] = 9;
    HOLDS(&l, RT_SIDE_Q, 0, 2, 0, 3);
    HOLDS(&l, RT_SIDE_Q, 2, 1);
    HOLDS(&l, RT_SIDE_KV, 0, 2);
    assert_int_equal(l.side[RT_SIDE_Q].rank_of[3], 0);
    assert_int_equal(l.side[RT_SIDE_Q].slot_of[3], 2);
    assert_int_equal(l.side[RT_SIDE_Q].rank_of[1], 2);
    assert_int_equal(l.kind, RT_LAYOUT_POSITIONS);
    rt_layout_reset(&l);
}

static void positions_bad_lists_are_named(void **state)
{
    (void)state;
    rt_problem p = problem_make(4, 4);
    const int64_t two[] = {2, 2}, three[] = {2, 1}, five[] = {2, 3}, minus[] = {-1, 5};
    const int64_t good[] = {3, 1, 0, 2}, twice[] = {3, 1, 0, 3}, outside[] = {3, 1, 4, 0},
                  below[] = {3, 1, -2, 0};
    const int64_t longer[] = {3, 1, 0, 2, 1};
    const struct {
        const int64_t *n, *pos;
        const char *says, *rank;
    } list[] = {{two, twice, "position 3 is repeated", "rank 1 slot 1"},
                {two, outside, "position 4", "rank 1, slot 0"},
                {two, below, "position -2", "rank 1, slot 0"},
                {three, good, "position 2 is missing", "2 ranks"},
                {five, longer, "position 1 is repeated", "rank 1 slot 2"},
                {minus, good, "-1 slots", "rank 0"}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        for (int side = 0; side < 2; side++) {
            rt_layout l;
            rt_context ctx = {0};
            rt_status status =
                side == 0 ? rt_layout_from_positions(&ctx, &p, 2, list[i].n, list[i].pos, two, good, &l)
                          : rt_layout_from_positions(&ctx, &p, 2, two, good, list[i].n, list[i].pos, &l);
            t_assert_status(&ctx, status, RT_ERR_FORMAT);
            if (strstr(ctx.message, list[i].says) == NULL || strstr(ctx.message, list[i].rank) == NULL ||
                strncmp(ctx.message, side == 0 ? "query" : "key", 3) != 0)
                fail_msg("\"%s\" does not say %s, %s", ctx.message, list[i].says, list[i].rank);
        }
    }
}

static void names_round_trip(void **state)
{
    (void)state;
    for (int i = 0; i <= RT_LAYOUT_CHUNKED; i++) {
        rt_layout_kind k;
        assert_true(rt_layout_parse(rt_layout_name((rt_layout_kind)i), &k));
        assert_int_equal(k, i);
    }
    for (int i = 0; i < 4; i++) {
        rt_remainder r;
        assert_true(rt_remainder_parse(rt_remainder_name((rt_remainder)i), &r));
        assert_int_equal(r, i);
    }
    rt_layout_kind k;
    assert_false(rt_layout_parse("headtail", &k));
    assert_null(rt_layout_name((rt_layout_kind)(RT_LAYOUT_CHUNKED + 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zigzag_16_over_4_and_2),
        cmocka_unit_test(striped_16_over_4),
        cmocka_unit_test(contiguous_remainder_rules),
        cmocka_unit_test(zigzag_remainder_is_by_runs),
        cmocka_unit_test(every_layout_is_a_permutation),
        cmocka_unit_test(refuse_names_the_next_multiple),
        cmocka_unit_test(positions_list_is_copied),
        cmocka_unit_test(positions_bad_lists_are_named),
        cmocka_unit_test(names_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
