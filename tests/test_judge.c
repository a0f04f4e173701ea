/* The judge on whole results: biased and truncating arithmetics, bounds, threads, places. */
#include <omp.h>

#include "emulator.h"

/* ---- what is not random -------------------------------------------------------------------------- */

static void biased_exp_passes_when_declared_and_fails_in_lse_when_not(void **state)
{
    (void)state;
    for (int n = 0; n < 6; n++) {
        emu_case c;
        emu_create(&c, emu_problem(70, 70, 2, 1, 16, n % 2 == 0 ? RT_MASK_CAUSAL : RT_MASK_FULL),
                   RT_LAYOUT_ZIGZAG, 1 + n % 3, RT_FAMILY_GAUSSIAN, (uint64_t)n, n < 4 ? RT_BF16 : RT_F32);
        emu_arithmetic a = emu_declared(n < 4 ? RT_BF16 : RT_F32);
        a.exp_error = n % 2 == 0 ? 5e-5 : -5e-5;
        emu_run(&c, &a);
        a.d.exp_rel = 5e-5;
        assert_true(emu_judge(&c, &a.d).pass);
        a.d.exp_rel = 2.4e-7;
        const rt_verdict v = emu_judge(&c, &a.d);
        assert_false(v.pass);
        assert_false(rt_tally_pass(&v.tensor[RT_LSE]));
        /* it is everywhere, so most rows show it */
        assert_true(v.tensor[RT_LSE].count[RT_CLASS_SUSPECT] + v.tensor[RT_LSE].count[RT_CLASS_WRONG] > 70);
        emu_reset(&c);
    }
}

/* Scores near 50 that are sums of 4096 positive products: truncation of every step has the same sign. */
static void positive_case(emu_case *c)
{
    rt_problem p = emu_problem(4, 256, 1, 1, 4096, RT_MASK_FULL);
    p.dim_v = 8;
    p.scale = (double)(float)(50.0 / 9216);
    emu_create(c, p, RT_LAYOUT_CONTIGUOUS, 1, RT_FAMILY_GAUSSIAN, 5, RT_BF16);
    for (int t = RT_Q; t <= RT_K; t++)
        for (int64_t i = 0; i < emu_elements(&c->p, (rt_tensor_id)t); i++)
            c->t[t][i] = 1 + fabs(c->t[t][i]) / 8;
    for (int t = RT_Q; t <= RT_K; t++)
        for (int64_t i = 0; i < emu_elements(&c->p, (rt_tensor_id)t); i++)
            c->t[t][i] = rt_round_to(RT_BF16, c->t[t][i]);
    c->in.present[RT_DOUT] = false;
}

static void truncated_sums_pass_as_matrix_unit_and_are_caught_as_f32(void **state)
{
    (void)state;
    emu_case c;
    positive_case(&c);
    emu_arithmetic a = emu_declared(RT_BF16);
    emu_run(&c, &a);
    assert_true(emu_judge(&c, &a.d).pass);
    assert_true(rt_declared_accumulate(&a.d, "tc-hopper"));
    emu_run(&c, &a);
    assert_true(emu_judge(&c, &a.d).pass);
    assert_true(rt_declared_accumulate(&a.d, "f32"));
    const rt_verdict v = emu_judge(&c, &a.d);
    assert_false(v.pass);
    assert_int_equal(v.tensor[RT_LSE].count[RT_CLASS_SUSPECT] + v.tensor[RT_LSE].count[RT_CLASS_WRONG], 4);
    emu_reset(&c);
}

static void truncating_kernels_pass_as_declared(void **state)
{
    (void)state;
    static const char *const units[] = {"tc-hopper", "tc-ampere", "tc-volta", "tc-hopper-fp8"};
    for (int n = 0; n < 16; n++) {
        emu_case c;
        const rt_dtype t =
            n % 2 == 0 ? RT_BF16 : RT_F32; /* values of 8 bits in f32 files show what bf16 hides */
        emu_create(&c,
                   emu_problem(40 + 9 * n, 40 + 9 * n, 2, 1, 8 + 5 * (n % 3),
                               n % 3 == 0 ? RT_MASK_FULL : RT_MASK_CAUSAL),
                   n % 2 == 0 ? RT_LAYOUT_STRIPED : RT_LAYOUT_CONTIGUOUS, 1 + n % 4, RT_FAMILY_GAUSSIAN,
                   (uint64_t)n, RT_BF16);
        for (int i = RT_OUT; i < RT_TENSOR_COUNT; i++)
            c.in.dtype[i] = t;
        emu_arithmetic a = emu_declared(RT_BF16);
        a.d.partial = a.d.grad_partial = t;
        assert_true(rt_declared_accumulate(&a.d, units[n % 4]));
        emu_run(&c, &a);
        const rt_verdict v = emu_judge(&c, &a.d);
        for (int i = RT_LSE; i < RT_TENSOR_COUNT; i++)
            t_assert_le(v.tensor[i].max_ratio_lambda, 1);
        assert_true(v.pass);
        emu_reset(&c);
    }
}

static void huge_logits_pass_where_weights_underflow(void **state)
{
    (void)state;
    for (int n = 0; n < 12; n++) {
        emu_case c;
        const rt_dtype t = n % 2 == 0 ? RT_F32 : RT_BF16;
        emu_create(&c, emu_problem(48, 48, 2, 2, 8, n % 3 == 0 ? RT_MASK_CAUSAL : RT_MASK_FULL),
                   RT_LAYOUT_CONTIGUOUS, 2 + n % 3, RT_FAMILY_HUGE, (uint64_t)n, t);
        const emu_arithmetic a = emu_declared(t);
        emu_run(&c, &a);
        const rt_verdict v = emu_judge(&c, &a.d);
        for (int i = RT_LSE; i < RT_TENSOR_COUNT; i++)
            t_assert_le(v.tensor[i].max_ratio_lambda, 1);
        emu_reset(&c);
    }
}

/* The key that takes the whole row comes after one whose v is a thousand times larger: O - 1 (O - O_b)
 * keeps the rounding of the difference. */
static void sigmoid_join_passes_where_a_later_partial_takes_the_row(void **state)
{
    (void)state;
    emu_case c;
    emu_create(&c, emu_problem(2, 2, 1, 1, 16, RT_MASK_FULL), RT_LAYOUT_CONTIGUOUS, 2, RT_FAMILY_GAUSSIAN,
               1, RT_F32);
    emu_arithmetic a = emu_declared(RT_F32);
    for (int64_t d = 0; d < 16; d++) {
        emu_row(&c, RT_Q, 0, 0, 0)[d] = 64;
        emu_row(&c, RT_K, 0, 0, 0)[d] = 0;
        emu_row(&c, RT_K, 0, 1, 0)[d] = 16;
        emu_row(&c, RT_V, 0, 0, 0)[d] = (double)(1.0f + (float)d / 17);
        emu_row(&c, RT_V, 0, 1, 0)[d] = (double)(1e-3f * (1 + (float)d / 13));
    }
    emu_run(&c, &a);
    const double got = emu_row(&c, RT_OUT, 0, 0, 0)[3], truth = emu_row(&c, RT_V, 0, 1, 0)[3];
    t_assert_le(0x1p-26, fabs(got - truth)); /* of the size of the other v's roundings */
    assert_true(emu_judge(&c, &a.d).pass);
    a.d.join = RT_JOIN_RAW; /* which has no such difference */
    const rt_verdict v = emu_judge(&c, &a.d);
    assert_true(v.tensor[RT_OUT].count[RT_CLASS_WRONG] > 0);
    emu_reset(&c);
}

/* ---- bounds ------------------------------------------------------------------------------------- */

static void bounds_are_positive_finite_and_ordered(void **state)
{
    (void)state;
    static const rt_family families[] = {RT_FAMILY_GAUSSIAN, RT_FAMILY_HUGE, RT_FAMILY_TILTED,
                                         RT_FAMILY_TRACER};
    static const rt_dtype types[] = {RT_BF16, RT_F16, RT_F32};
    for (int n = 0; n < 24; n++) {
        emu_case c;
        emu_create(&c, emu_problem(33, 33, 4, 2, 12, n % 2 == 0 ? RT_MASK_CAUSAL : RT_MASK_FULL),
                   RT_LAYOUT_ZIGZAG, 1 + n % 4, families[n % 4], (uint64_t)n, types[n % 3]);
        rt_declared d;
        rt_declared_init(&d, types[n % 3]);
        d.join = (rt_join_form)(n % 4);
        emu_truth e;
        emu_observe(&c, &d, &e);
        for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++)
            for (int64_t i = 0; i < emu_elements(&c.p, (rt_tensor_id)t); i++) {
                assert_true(isfinite(e.truth[t][i]) && isfinite(e.bound[t][i]));
                assert_true(e.lambda[t][i] > 0 && e.lambda[t][i] <= e.bound[t][i]);
            }
        assert_int_equal(e.rows, 33 * (3 * 4 + 2 * 2));
        emu_truth_reset(&e);
        emu_reset(&c);
    }
}

/* A coarser declaration never has a smaller bound. */
static void bounds_grow_with_each_declared_inaccuracy(void **state)
{
    (void)state;
    emu_case c;
    emu_create(&c, emu_problem(40, 40, 4, 2, 8, RT_MASK_CAUSAL), RT_LAYOUT_CONTIGUOUS, 3,
               RT_FAMILY_GAUSSIAN, 3, RT_F32);
    const emu_arithmetic base = emu_declared(RT_F32);
    emu_truth fine;
    emu_observe(&c, &base.d, &fine);
    for (int n = 0; n < 9; n++) {
        rt_declared d = base.d;
        d.exp_rel = n == 0 ? 1e-4 : d.exp_rel;
        d.block_keys = n == 1 ? 2 : d.block_keys;
        d.probabilities = n == 2 ? RT_BF16 : d.probabilities;
        d.partial = n == 3 ? RT_BF16 : d.partial;
        d.state = n == 4 ? RT_BF16 : d.state;
        d.join = n == 5 ? RT_JOIN_TWO_PASS : n >= 6 ? RT_JOIN_SIGMOID : d.join;
        d.grad_partial = n == 6 ? RT_BF16 : d.grad_partial;
        d.grad_state = n == 7 ? RT_BF16 : d.grad_state;
        if (n == 8)
            assert_true(rt_declared_accumulate(&d, "tc-hopper-fp8"));
        static const bool grows[9][RT_TENSOR_COUNT - RT_LSE] = {
            /* lse out dq dk dv */
            {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, {0, 1, 1, 1, 1}, {0, 1, 1, 1, 0}, {0, 1, 1, 1, 0},
            {0, 0, 0, 0, 0}, {0, 0, 1, 1, 1}, {0, 0, 1, 1, 1}, {1, 1, 1, 1, 1}};
        emu_truth e;
        emu_observe(&c, &d, &e);
        for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++) {
            double more = 0, most = 0;
            for (int64_t i = 0; i < emu_elements(&c.p, (rt_tensor_id)t) && n != 5; i++) {
                t_assert_le(fine.bound[t][i], e.bound[t][i]);
                t_assert_le(fine.lambda[t][i], e.lambda[t][i]);
                more = fmax(more, e.lambda[t][i] / fine.lambda[t][i]);
                most = fmax(most, e.bound[t][i] / fine.bound[t][i]);
            }
            if (n == 4 && t == RT_LSE) /* a coarse joined output leaves LSE alone */
                t_assert_le(most, 1);
            /* bf16 is 2^16 times coarser than f32: what is rounded to it rules */
            if (grows[n][t - RT_LSE])
                assert_true(more > (n >= 2 && n <= 7 ? 30 : 1.05) && most > (n >= 2 && n <= 7 ? 30 : 1.05));
        }
        emu_truth_reset(&e);
    }
    emu_truth_reset(&fine);
    emu_reset(&c);
}

/* One key, 200 rows of two heads, w = 1, dout = 1: dv = 400, which any order of binary32 additions may miss
 * by 400 gamma_400. */
static void bounds_of_key_gradients_cover_a_sum_over_all_rows(void **state)
{
    (void)state;
    emu_case c;
    emu_create(&c, emu_problem(200, 1, 2, 1, 4, RT_MASK_FULL), RT_LAYOUT_CONTIGUOUS, 1, RT_FAMILY_GAUSSIAN,
               1, RT_F32);
    for (int64_t i = 0; i < emu_elements(&c.p, RT_DOUT); i++)
        c.t[RT_DOUT][i] = 1;
    for (int64_t i = 0; i < emu_elements(&c.p, RT_Q); i++)
        c.t[RT_Q][i] = 0;
    const emu_arithmetic a = emu_declared(RT_F32);
    emu_truth e;
    emu_observe(&c, &a.d, &e);
    t_assert_bits_eq(e.truth[RT_DV][0], 400);
    t_assert_le(400 * 400 * 0x1p-24, e.bound[RT_DV][0]);
    t_assert_le(e.bound[RT_DV][0], 4 * 400 * 400 * 0x1p-24);
    emu_truth_reset(&e);
    emu_reset(&c);
}

/* ---- the verdict does not depend on who works on it --------------------------------------------- */

static void verdict_of_any_number_of_threads_is_the_same(void **state)
{
    (void)state;
    const int before = omp_get_max_threads();
    rt_problem p = emu_problem(300, 300, 4, 2, 8, RT_MASK_CAUSAL);
    p.batch = 2;
    emu_case c;
    emu_create(&c, p, RT_LAYOUT_ZIGZAG, 3, RT_FAMILY_GAUSSIAN, 11, RT_BF16);
    const emu_arithmetic a = emu_declared(RT_BF16);
    emu_run(&c, &a);
    for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++) /* equal errors in several places, too */
        for (int64_t i = 7; i < emu_elements(&c.p, (rt_tensor_id)t); i += 997)
            c.t[t][i] = i % 2 == 0 ? T_NAN : c.t[t][i] + 3;
    omp_set_num_threads(1);
    const rt_verdict one = emu_judge(&c, &a.d);
    assert_false(one.pass);
    for (int threads = 2; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        const rt_verdict v = emu_judge(&c, &a.d);
        assert_true(emu_same(&one, &v));
    }
    omp_set_num_threads(before);
    emu_reset(&c);
}

static void nothing_to_judge_is_no_pass(void **state)
{
    (void)state;
    emu_case c;
    emu_create(&c, emu_problem(6, 6, 1, 1, 4, RT_MASK_FULL), RT_LAYOUT_CONTIGUOUS, 1, RT_FAMILY_GAUSSIAN, 1,
               RT_BF16);
    const emu_arithmetic a = emu_declared(RT_BF16);
    emu_run(&c, &a);
    assert_true(emu_judge(&c, &a.d).pass);
    for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++) { /* one tensor less each time */
        c.in.present[t] = false;
        const rt_verdict v = emu_judge(&c, &a.d);
        assert_int_equal(v.pass, t < RT_TENSOR_COUNT - 1);
        for (int i = RT_LSE; i < RT_TENSOR_COUNT; i++)
            assert_int_equal(v.tensor[i].judged, i > t);
    }
    for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++)
        c.in.present[t] = true;
    c.in.present[RT_DOUT] = false; /* gradients without what they came from */
    const rt_verdict v = emu_judge(&c, &a.d);
    assert_true(v.pass && v.tensor[RT_LSE].judged && v.tensor[RT_OUT].judged);
    assert_false(v.tensor[RT_DQ].judged || v.tensor[RT_DK].judged || v.tensor[RT_DV].judged);
    emu_reset(&c);
}

/* ---- places ------------------------------------------------------------------------------------- */

static void place_is(const emu_case *c, rt_tensor_id t, int64_t pos, const char *want)
{
    const rt_element e = {.pos = pos};
    char text[400];
    rt_element_place(&c->p, &c->l, &c->plan, t, &e, text, sizeof text);
    assert_string_equal(text, want);
    char small[12];
    rt_element_place(&c->p, &c->l, &c->plan, t, &e, small, sizeof small);
    assert_int_equal(strlen(small), sizeof small - 1);
    assert_memory_equal(small, want, sizeof small - 1);
}

/* Runs of 6 tokens: rank 0 has 0-5 and 18-23, rank 1 has 6-11 and 12-17; documents 0-9 and 10-23. */
static void place_names_document_owner_half_and_steps(void **state)
{
    (void)state;
    rt_context ctx = {0};
    rt_problem p = emu_problem(24, 24, 2, 1, 4, RT_MASK_CAUSAL);
    p.documents = 2;
    p.cu_q = rt_alloc(&ctx, 3, sizeof *p.cu_q);
    p.cu_k = rt_alloc(&ctx, 3, sizeof *p.cu_k);
    assert_true(p.cu_q != NULL && p.cu_k != NULL);
    const int64_t cu[] = {0, 10, 24};
    memcpy(p.cu_q, cu, sizeof cu);
    memcpy(p.cu_k, cu, sizeof cu);
    emu_case c;
    emu_create(&c, p, RT_LAYOUT_ZIGZAG, 2, RT_FAMILY_GAUSSIAN, 1, RT_F32);
    place_is(&c, RT_OUT, 20,
             "document 1, owner rank 0, slot 8 of 12 (second half); keys of shard 0 at step 0, keys of "
             "shard 1 at step 1");
    place_is(&c, RT_LSE, 3,
             "document 0, owner rank 0, slot 3 of 12 (first half); keys of shard 0 at step 0");
    place_is(&c, RT_DQ, 14,
             "document 1, owner rank 1, slot 8 of 12 (second half); keys of shard 1 at step 0");
    place_is(&c, RT_DK, 11,
             "document 1, owner rank 1, slot 5 of 12 (first half); queries of shard 1 at step 0, queries "
             "of shard 0 at step 1");
    place_is(&c, RT_DV, 9,
             "document 0, owner rank 1, slot 3 of 12 (first half); queries of shard 1 at step 0");
    emu_reset(&c);
}

static void place_says_when_nothing_is_seen(void **state)
{
    (void)state;
    emu_case c;
    emu_create(&c, emu_problem(9, 6, 1, 1, 4, RT_MASK_CAUSAL_BOTTOM_RIGHT), RT_LAYOUT_STRIPED, 3,
               RT_FAMILY_GAUSSIAN, 1, RT_F32);
    place_is(&c, RT_OUT, 1, "owner rank 1, slot 0 of 3; it sees no key");
    place_is(&c, RT_OUT, 3, "owner rank 0, slot 1 of 3; keys of shard 0 at step 0");
    emu_reset(&c);
    emu_create(&c, emu_problem(4, 6, 1, 1, 4, RT_MASK_CAUSAL), RT_LAYOUT_CONTIGUOUS, 1, RT_FAMILY_GAUSSIAN,
               1, RT_F32);
    place_is(&c, RT_DK, 5, "owner rank 0, slot 5 of 6; no query sees it");
    emu_reset(&c);
}

int main(void)
{
    omp_set_num_threads(1); /* small problems: more threads would only wait */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(biased_exp_passes_when_declared_and_fails_in_lse_when_not),
        cmocka_unit_test(truncated_sums_pass_as_matrix_unit_and_are_caught_as_f32),
        cmocka_unit_test(truncating_kernels_pass_as_declared),
        cmocka_unit_test(huge_logits_pass_where_weights_underflow),
        cmocka_unit_test(sigmoid_join_passes_where_a_later_partial_takes_the_row),
        cmocka_unit_test(bounds_of_key_gradients_cover_a_sum_over_all_rows),
        cmocka_unit_test(bounds_are_positive_finite_and_ordered),
        cmocka_unit_test(bounds_grow_with_each_declared_inaccuracy),
        cmocka_unit_test(verdict_of_any_number_of_threads_is_the_same),
        cmocka_unit_test(nothing_to_judge_is_no_pass),
        cmocka_unit_test(place_names_document_owner_half_and_steps),
        cmocka_unit_test(place_says_when_nothing_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
