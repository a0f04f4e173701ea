/* Sampling and exact truths in the judge: what is sampled, what it still catches, what it says. */
#include <math.h>
#include <omp.h>

#include "check.h"

#include <ringtrue/ringtrue.h>

#include "judge/sample.h"

enum { S = 360, H = 4, G = 2, D = 16, RANKS = 3 };

/* A tracer run in memory, right by closed form, in bf16 with an f32 lse. */
typedef struct {
    rt_problem p;
    double *data[RT_TENSOR_COUNT];
    rt_dtype dtype[RT_TENSOR_COUNT];
} world;

static int64_t heads_of(rt_tensor_id t)
{
    return t == RT_K || t == RT_V || t == RT_DK || t == RT_DV ? G : H;
}

static double *row_of(const world *w, rt_tensor_id t, int64_t pos, int64_t h)
{
    const int64_t width = t == RT_LSE ? 1 : D;
    return w->data[t] + (pos * heads_of(t) + h) * width;
}

static void load(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, double *row)
{
    (void)b;
    memcpy(row, row_of(arg, t, pos, h), (size_t)(t == RT_LSE ? 1 : D) * sizeof *row);
}

static void store(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, const double *row)
{
    (void)b;
    const world *w = arg;
    double *to = row_of(w, t, pos, h);
    for (int64_t d = 0; d < (t == RT_LSE ? 1 : D); d++)
        to[d] = rt_round_to(w->dtype[t], row[d]);
}

/* The executor's store has the rank and slot too. */
static void exact_store(void *arg, rt_tensor_id t, int32_t rank, int64_t slot, int64_t b, int64_t pos,
                        int64_t h, const double *row)
{
    (void)rank, (void)slot;
    store(arg, t, b, pos, h, row);
}

static void world_make(world *w)
{
    rt_context ctx = {.message = ""};
    *w = (world){.p = {.batch = 1,
                       .seqlen_q = S,
                       .seqlen_k = S,
                       .heads_q = H,
                       .heads_kv = G,
                       .dim = D,
                       .dim_v = D,
                       .mask = RT_MASK_CAUSAL}};
    w->p.scale = rt_rsqrt_dim(D);
    for (int t = 0; t < RT_TENSOR_COUNT; t++) {
        w->dtype[t] = t == RT_LSE ? RT_F32 : RT_BF16;
        w->data[t] = rt_calloc(&ctx, S * H * D, sizeof(double));
        assert_non_null(w->data[t]);
    }
    for (int t = RT_Q; t <= RT_DOUT; t++)
        for (int64_t i = 0; i < S; i++)
            for (int64_t h = 0; h < heads_of((rt_tensor_id)t); h++)
                rt_generate_row(RT_FAMILY_TRACER, 3, (rt_tensor_id)t, RT_BF16, 0, i, h, D, S,
                                row_of(w, (rt_tensor_id)t, i, h));
    t_assert_ok(&ctx, rt_generate_results(&ctx, RT_FAMILY_TRACER, &w->p, &(rt_result_io){load, store, w}));
}

static void world_free(world *w)
{
    for (int t = 0; t < RT_TENSOR_COUNT; t++)
        rt_free(w->data[t]);
}

static rt_verdict judge(const world *w, rt_judge_options o)
{
    rt_context ctx = {.message = ""};
    rt_comm *comm = NULL;
    rt_layout l;
    rt_plan plan = {.name = ""};
    rt_declared d;
    rt_verdict v;
    world copy = *w;
    rt_judge_input in = {.load = load, .arg = &copy};
    for (int t = 0; t < RT_TENSOR_COUNT; t++) {
        in.present[t] = true;
        in.dtype[t] = w->dtype[t];
    }
    assert_true(rt_declared_of("f64", &d));
    t_assert_ok(&ctx, rt_comm_self(&ctx, &comm));
    t_assert_ok(&ctx, rt_layout_create(&ctx, &w->p, RT_LAYOUT_ZIGZAG, RT_REMAINDER_SPREAD, RANKS, &l));
    t_assert_ok(&ctx, rt_plan_create(&ctx, "ring", &w->p, &l, &plan));
    t_assert_ok(&ctx, rt_judge(&ctx, comm, &w->p, &l, &plan, &d, &in, &o, &v));
    rt_plan_reset(&plan);
    rt_layout_reset(&l);
    rt_comm_destroy(&comm);
    return v;
}

static void sampled_both_passes_and_says_what_it_judged(void **state)
{
    (void)state;
    world w;
    world_make(&w);
    const rt_verdict v = judge(
        &w,
        (rt_judge_options){.truth = RT_TRUTH_EXACT, .sampling = RT_SAMPLE_BOTH, .samples = 100, .seed = 1});
    assert_true(v.pass);
    assert_true(v.given_lse);
    assert_int_equal(v.judged[RT_OUT], 100);
    assert_int_equal(v.total[RT_OUT], S * H);
    assert_int_equal(v.tensor[RT_OUT].elements, 100 * D);
    assert_int_equal(v.tensor[RT_DQ].elements, 100 * D);
    assert_int_equal(v.tensor[RT_LSE].elements, 100);
    assert_int_equal(v.judged[RT_DK], 100);
    assert_int_equal(v.total[RT_DK], S * G);
    assert_int_equal(v.tensor[RT_DV].elements, 100 * D);
    assert_int_equal(v.truth[RT_OUT], RT_TRUTH_EXACT);
    assert_int_equal(v.truth[RT_DK], RT_TRUTH_F64);
    assert_true(v.products[0] > 0);
    assert_int_equal(v.products[1], 0);
    world_free(&w);
}

static void sampled_keys_judges_all_rows_without_the_dumps_lse(void **state)
{
    (void)state;
    world w;
    world_make(&w);
    /* lse and out are worthless: dk and dv must not depend on them */
    for (int64_t i = 0; i < S * H; i++)
        w.data[RT_LSE][i] += 1;
    const rt_verdict v =
        judge(&w, (rt_judge_options){.sampling = RT_SAMPLE_KEYS, .samples = 60, .seed = 5});
    assert_false(v.given_lse);
    assert_int_equal(v.tensor[RT_LSE].count[RT_CLASS_WRONG], S * H);
    assert_int_equal(v.judged[RT_OUT], S * H);
    assert_int_equal(v.judged[RT_DV], 60);
    assert_true(rt_tally_pass(&v.tensor[RT_OUT]));
    assert_true(rt_tally_pass(&v.tensor[RT_DK]));
    assert_true(rt_tally_pass(&v.tensor[RT_DV]));
    world_free(&w);
}

static void a_fault_on_one_rank_is_caught_by_every_seed(void **state)
{
    (void)state;
    world w;
    world_make(&w);
    rt_context ctx = {.message = ""};
    rt_layout l;
    t_assert_ok(&ctx, rt_layout_create(&ctx, &w.p, RT_LAYOUT_ZIGZAG, RT_REMAINDER_SPREAD, RANKS, &l));
    for (int64_t i = 0; i < S;
         i++) /* rank 1 lost a half of its gradients, and its outputs are off by one in sixteen */
        if (l.side[RT_SIDE_Q].rank_of[i] == 1)
            for (int64_t h = 0; h < H; h++)
                for (int64_t d = 0; d < D; d++) {
                    row_of(&w, RT_OUT, i, h)[d] *= 1.0625;
                    row_of(&w, RT_DQ, i, h)[d] *= 0.5;
                    if (h < G)
                        row_of(&w, RT_DV, i, h)[d] *= 0.5;
                }
    rt_layout_reset(&l);
    for (uint64_t seed = 0; seed < 5; seed++) {
        const rt_verdict v =
            judge(&w, (rt_judge_options){.sampling = RT_SAMPLE_BOTH, .samples = 40, .seed = seed});
        assert_false(v.pass);
        assert_true(v.tensor[RT_LSE].count[RT_CLASS_WRONG] == 0);
        assert_true(v.tensor[RT_OUT].count[RT_CLASS_WRONG] > 0);
        assert_true(v.tensor[RT_DQ].count[RT_CLASS_WRONG] > 0);
        assert_true(v.tensor[RT_DV].count[RT_CLASS_WRONG] > 0);
        assert_true(v.tensor[RT_DK].count[RT_CLASS_WRONG] == 0);
    }
    world_free(&w);
}

static void a_tiny_budget_samples_and_none_judges_all(void **state)
{
    (void)state;
    world w;
    world_make(&w);
    rt_verdict v = judge(
        &w, (rt_judge_options){.truth = RT_TRUTH_EXACT, .budget_seconds = 1e-6, .samples = 16, .seed = 2});
    assert_int_equal(v.judged[RT_OUT], 16);
    assert_true(v.estimate > 1e-6);
    assert_int_equal(v.truth[RT_OUT], RT_TRUTH_F64); /* exact rows do not fit either */
    v = judge(&w, (rt_judge_options){.truth = RT_TRUTH_EXACT, .budget_seconds = 1e6});
    assert_int_equal(v.judged[RT_OUT], S * H);
    assert_int_equal(v.truth[RT_DV], RT_TRUTH_EXACT);
    assert_true(v.pass);
    world_free(&w);
}

static void positions_are_spread_distinct_and_follow_the_seed(void **state)
{
    (void)state;
    rt_context ctx = {.message = ""};
    int64_t cu[] = {0, 100, 350, S};
    rt_problem p = {.batch = 1,
                    .seqlen_q = S,
                    .seqlen_k = S,
                    .heads_q = 1,
                    .heads_kv = 1,
                    .dim = 8,
                    .dim_v = 8,
                    .mask = RT_MASK_CAUSAL,
                    .documents = 3,
                    .cu_q = cu,
                    .cu_k = cu};
    rt_layout l;
    t_assert_ok(&ctx, rt_layout_create(&ctx, &p, RT_LAYOUT_ZIGZAG, RT_REMAINDER_SPREAD, 5, &l));
    enum { N = 30 };
    int64_t first[N], again[N], other[N];
    rt_sample_positions(&l.side[0], N, 9, 0, 0, 0, first);
    rt_sample_positions(&l.side[0], N, 9, 0, 0, 0, again);
    rt_sample_positions(&l.side[0], N, 10, 0, 0, 0, other);
    assert_memory_equal(first, again, sizeof first);
    assert_memory_not_equal(first, other, sizeof first);
    bool half[5][2] = {{false}}, document[3] = {false};
    for (int i = 0; i < N; i++) {
        assert_true(i == 0 || first[i] > first[i - 1]);
        const int32_t r = l.side[0].rank_of[first[i]];
        half[r][l.side[0].slot_of[first[i]] >= l.side[0].half[r]] = true;
        document[rt_document_of_query(&p, first[i])] = true;
    }
    for (int r = 0; r < 5; r++)
        assert_true(half[r][0] && half[r][1]);
    assert_true(document[0] && document[1] && document[2]);
    /* as many as there are: every position once */
    int64_t all[S];
    rt_sample_positions(&l.side[0], S, 1, 0, 0, 0, all);
    for (int64_t i = 0; i < S; i++)
        assert_int_equal(all[i], i);
    rt_layout_reset(&l);
}

/* A correctly rounded run is ROUNDED throughout against the exact truth, and an ulp more is only FAITHFUL. */
static void exact_truth_knows_the_correct_rounding(void **state)
{
    (void)state;
    world w;
    world_make(&w);
    for (int64_t i = 0; i < S; i++) /* a gaussian problem instead */
        for (int64_t h = 0; h < H; h++)
            rt_generate_row(RT_FAMILY_GAUSSIAN, 3, RT_Q, RT_BF16, 0, i, h, D, S, row_of(&w, RT_Q, i, h));
    rt_context ctx = {.message = ""};
    rt_comm *comm = NULL;
    rt_layout l;
    rt_plan plan = {.name = ""};
    t_assert_ok(&ctx, rt_comm_self(&ctx, &comm));
    t_assert_ok(&ctx, rt_layout_create(&ctx, &w.p, RT_LAYOUT_STRIPED, RT_REMAINDER_SPREAD, 4, &l));
    t_assert_ok(&ctx, rt_plan_create(&ctx, "ring", &w.p, &l, &plan));
    const rt_run_io io = {.load = load,
                          .store = exact_store,
                          .arg = &w,
                          .backward = true,
                          .result = RT_BF16,
                          .lse_result = RT_F32};
    t_assert_ok(&ctx, rt_run(&ctx, comm, &w.p, &l, &plan, rt_arithmetic_find("exact"), &io, NULL));
    rt_plan_reset(&plan);
    rt_layout_reset(&l);
    rt_comm_destroy(&comm);
    rt_verdict v = judge(&w, (rt_judge_options){.truth = RT_TRUTH_EXACT});
    for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++)
        assert_int_equal(v.tensor[t].count[RT_CLASS_ROUNDED], v.tensor[t].elements);
    double *x = row_of(&w, RT_OUT, 333, 1) + 5;
    *x += rt_ulp(RT_BF16, *x);
    v = judge(&w, (rt_judge_options){.truth = RT_TRUTH_EXACT});
    assert_int_equal(v.tensor[RT_OUT].count[RT_CLASS_ROUNDED], v.tensor[RT_OUT].elements - 1);
    world_free(&w);
}

int main(void)
{
    omp_set_num_threads(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sampled_both_passes_and_says_what_it_judged),
        cmocka_unit_test(sampled_keys_judges_all_rows_without_the_dumps_lse),
        cmocka_unit_test(a_fault_on_one_rank_is_caught_by_every_seed),
        cmocka_unit_test(a_tiny_budget_samples_and_none_judges_all),
        cmocka_unit_test(positions_are_spread_distinct_and_follow_the_seed),
        cmocka_unit_test(exact_truth_knows_the_correct_rounding),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
