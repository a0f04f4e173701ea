/* Partials of a row and contributions to a key, by the kernel calls of a plan. */
#include "emulator.h"
#include "judge/group.h"

enum { MOST = 64 };

static int32_t groups_of(const emu_case *c, const rt_pass *pass, rt_side side, int32_t *of, int32_t *again)
{
    rt_context ctx = {.message = ""};
    int32_t groups = 0;
    assert_true(c->p.seqlen_q <= MOST && c->p.seqlen_k <= MOST);
    t_assert_ok(&ctx, rt_call_groups(&ctx, &c->p, &c->l, pass, side, of, &groups, again));
    return groups;
}

/* a and b divide the positions alike. */
static void same_partition(const int32_t *a, const int32_t *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            assert_int_equal(a[i] == a[j], b[i] == b[j]);
}

static void use_plan(emu_case *c, const char *name)
{
    rt_context ctx = {.message = ""};
    rt_plan_reset(&c->plan);
    t_assert_ok(&ctx, rt_plan_create(&ctx, name, &c->p, &c->l, &c->plan));
}

static void a_ring_brings_a_shard_at_a_time(void **state)
{
    (void)state;
    static const rt_layout_kind kinds[] = {RT_LAYOUT_CONTIGUOUS, RT_LAYOUT_ZIGZAG, RT_LAYOUT_STRIPED};
    for (int n = 0; n < 6; n++) {
        emu_case c;
        emu_create(&c, emu_problem(41, 41, 4, 2, 4, n % 2 == 0 ? RT_MASK_FULL : RT_MASK_CAUSAL),
                   kinds[n / 2], 4, RT_FAMILY_GAUSSIAN, 1, RT_F32);
        int32_t of[MOST], again[MOST];
        assert_int_equal(groups_of(&c, &c.plan.forward, RT_SIDE_KV, of, NULL), 4);
        same_partition(of, c.l.side[RT_SIDE_KV].rank_of, 41);
        assert_int_equal(groups_of(&c, &c.plan.backward, RT_SIDE_Q, of, again), 4);
        same_partition(of, c.l.side[RT_SIDE_Q].rank_of, 41);
        for (int64_t j = 0; j < 41; j++)
            assert_int_equal(again[j], 0);
        emu_reset(&c);
    }
}

/* Shards of different documents never meet: they may be one group, and no row has two partials. */
static void shards_that_no_row_sees_together_are_not_told_apart(void **state)
{
    (void)state;
    rt_context ctx = {.message = ""};
    rt_problem p = emu_problem(40, 40, 2, 1, 4, RT_MASK_CAUSAL);
    p.documents = 4;
    p.cu_q = rt_alloc(&ctx, 5, sizeof *p.cu_q);
    p.cu_k = rt_alloc(&ctx, 5, sizeof *p.cu_k);
    assert_true(p.cu_q != NULL && p.cu_k != NULL);
    for (int64_t i = 0; i < 5; i++)
        p.cu_q[i] = p.cu_k[i] = 10 * i;
    emu_case c;
    emu_create(&c, p, RT_LAYOUT_CONTIGUOUS, 4, RT_FAMILY_GAUSSIAN, 1, RT_F32);
    int32_t of[MOST];
    assert_int_equal(groups_of(&c, &c.plan.forward, RT_SIDE_KV, of, NULL), 1);
    emu_reset(&c);
}

/* One call that has every key: the bounds are those of one rank, to the bit. */
static void a_plan_of_one_call_has_no_join(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        emu_case c, one;
        const rt_problem p = emu_problem(37, 37, 4, 2, 8, n % 2 == 0 ? RT_MASK_CAUSAL : RT_MASK_FULL);
        emu_create(&c, p, RT_LAYOUT_CONTIGUOUS, 3, RT_FAMILY_GAUSSIAN, 2, RT_BF16);
        emu_create(&one, p, RT_LAYOUT_CONTIGUOUS, 1, RT_FAMILY_GAUSSIAN, 2, RT_BF16);
        emu_arithmetic a = emu_declared(RT_BF16);
        a.d.join = (rt_join_form)n;
        emu_truth ring, single, alone;
        emu_observe(&c, &a.d, &ring);
        use_plan(&c, "single");
        for (int64_t i = 0; i < c.plan.forward.n_tiles; i++)
            c.plan.forward.tiles[i].call = 0;
        for (int64_t i = 0; i < c.plan.backward.n_tiles; i++)
            c.plan.backward.tiles[i].call = 0;
        emu_observe(&c, &a.d, &single);
        emu_observe(&one, &a.d, &alone);
        for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++) {
            double more = 0;
            for (int64_t i = 0; i < emu_elements(&c.p, (rt_tensor_id)t); i++) {
                t_assert_bits_eq(single.bound[t][i], alone.bound[t][i]);
                t_assert_bits_eq(single.lambda[t][i], alone.lambda[t][i]);
                more = fmax(more, ring.lambda[t][i] / single.lambda[t][i]);
            }
            assert_true(more > 1.01);
        }
        emu_truth_reset(&ring);
        emu_truth_reset(&single);
        emu_truth_reset(&alone);
        emu_reset(&c);
        emu_reset(&one);
    }
}

/* Calls of two shards each, as where a ring runs over groups that gather first: two partials. */
static void a_call_of_two_shards_is_one_partial(void **state)
{
    (void)state;
    emu_case c;
    emu_create(&c, emu_problem(40, 40, 2, 1, 4, RT_MASK_FULL), RT_LAYOUT_CONTIGUOUS, 4, RT_FAMILY_GAUSSIAN,
               1, RT_F32);
    use_plan(&c, "single");
    int32_t of[MOST], want[MOST];
    for (int64_t i = 0; i < c.plan.forward.n_tiles; i++) {
        rt_tile *t = &c.plan.forward.tiles[i];
        t->call = 2 * t->q.shard + t->kv.shard / 2;
    }
    for (int64_t j = 0; j < 40; j++)
        want[j] = c.l.side[RT_SIDE_KV].rank_of[j] / 2;
    assert_int_equal(groups_of(&c, &c.plan.forward, RT_SIDE_KV, of, NULL), 2);
    same_partition(of, want, 40);
    emu_reset(&c);
}

/* Where each query head of a group is a call of its own, a key's gradient is added from both. */
static void heads_in_calls_of_their_own_contribute_each(void **state)
{
    (void)state;
    emu_case c;
    emu_create(&c, emu_problem(30, 30, 2, 1, 4, RT_MASK_FULL), RT_LAYOUT_CONTIGUOUS, 1, RT_FAMILY_GAUSSIAN,
               1, RT_F32);
    int32_t of[MOST], again[MOST];
    const emu_arithmetic a = emu_declared(RT_F32);
    emu_truth before, after;
    emu_observe(&c, &a.d, &before);
    rt_pass *pass = &c.plan.backward;
    assert_int_equal(pass->n_tiles, 1);
    rt_tile two[2] = {pass->tiles[0], pass->tiles[0]}, *kept = pass->tiles;
    two[0].q.head1 = two[1].q.head0 = 1;
    two[1].call = 1;
    pass->tiles = two;
    pass->n_tiles = pass->steps[0].tile1 = 2;
    assert_int_equal(groups_of(&c, pass, RT_SIDE_KV, of, NULL), 1);
    assert_int_equal(groups_of(&c, pass, RT_SIDE_Q, of, again), 1);
    for (int64_t j = 0; j < 30; j++)
        assert_int_equal(again[j], 1);
    emu_observe(&c, &a.d, &after);
    for (int64_t i = 0; i < emu_elements(&c.p, RT_DK); i++) {
        assert_true(after.lambda[RT_DK][i] > before.lambda[RT_DK][i]);
        t_assert_bits_eq(after.lambda[RT_DQ][i], before.lambda[RT_DQ][i]);
    }
    emu_truth_reset(&before);
    emu_truth_reset(&after);
    pass->tiles = kept;
    pass->n_tiles = pass->steps[0].tile1 = 1;
    emu_reset(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_brings_a_shard_at_a_time),
        cmocka_unit_test(shards_that_no_row_sees_together_are_not_told_apart),
        cmocka_unit_test(a_plan_of_one_call_has_no_join),
        cmocka_unit_test(a_call_of_two_shards_is_one_partial),
        cmocka_unit_test(heads_in_calls_of_their_own_contribute_each),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
