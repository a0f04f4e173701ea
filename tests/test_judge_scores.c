/* The judge on bent scores: ALiBi, bias, softcap, sinks, dropout; dsink and dbias. */
#include <omp.h>

#include "bent.h"

static uint64_t state_of_random = UINT64_C(0x9e3779b97f4a7c15);

static int64_t draw(int64_t lo, int64_t hi)
{
    uint64_t *s = &state_of_random;
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return lo + (int64_t)((*s * UINT64_C(2685821657736338717) >> 33) % (uint64_t)(hi - lo + 1));
}

/* ---- noise -------------------------------------------------------------------------------------- */

typedef struct {
    double lambda, bound; /* the largest ratios */
} largest;

/* Random problems in the arithmetic: every tensor's largest err / B_lambda lies in (0.05, 1]. */
static void noise_fills_bounds(const char *what, unsigned bends, rt_dtype t, emu_arithmetic a, int problems)
{
    largest top[RT_RESULT_COUNT] = {{0, 0}};
    for (int n = 0; n < problems; n++) {
        const int64_t hkv = draw(1, 2), s = draw(30, 60), d = draw(1, 4) * 8;
        rt_problem p =
            emu_problem(s, s, hkv * draw(1, 2), hkv, d, draw(0, 1) == 0 ? RT_MASK_CAUSAL : RT_MASK_FULL);
        p.batch = draw(1, 2);
        emu_case c;
        emu_create(&c, bent(p, bends, shapes[n % 8], n % 3 == 0), kinds[draw(0, 2)], (int32_t)draw(1, 4),
                   draw(0, 3) == 0 ? RT_FAMILY_TILTED : RT_FAMILY_GAUSSIAN, (uint64_t)draw(0, 1 << 30), t);
        a.d.block_keys = draw(0, 1) == 0 ? 16 : 64;
        a.head_casts = draw(0, 1) == 0;
        a.sink_is_key = draw(0, 1) == 0 || a.d.join == RT_JOIN_RAW;
        emu_run(&c, &a);
        const rt_judge_options o = {.truth = n % 2 == 0 ? RT_TRUTH_EXACT : RT_TRUTH_F64};
        const rt_verdict v = emu_judge_with(&c, &a.d, &o);
        for (int k = RT_LSE; k < RT_RESULT_COUNT; k++) {
            assert_int_equal(v.tensor[k].judged, c.in.present[k]);
            top[k].lambda = fmax(top[k].lambda, v.tensor[k].max_ratio_lambda);
            top[k].bound = fmax(top[k].bound, v.tensor[k].max_ratio);
            if (v.tensor[k].count[RT_CLASS_WRONG] + v.tensor[k].count[RT_CLASS_SPECIAL] > 0)
                print_error("%s, problem %d: %s, b %d pos %d head %d dim %d: got %g truth %g B %g\n", what,
                            n, rt_tensor_name((rt_tensor_id)k), (int)v.tensor[k].first.b,
                            (int)v.tensor[k].first.pos, (int)v.tensor[k].first.head,
                            (int)v.tensor[k].first.dim, v.tensor[k].first.got, v.tensor[k].first.truth,
                            v.tensor[k].first.bound);
            assert_int_equal(v.tensor[k].count[RT_CLASS_WRONG] + v.tensor[k].count[RT_CLASS_SPECIAL] +
                                 v.tensor[k].count[RT_CLASS_UNDEFINED],
                             0);
        }
        emu_reset(&c);
    }
    printf("# %-22s", what);
    for (int k = RT_LSE; k < RT_RESULT_COUNT; k++)
        if (top[k].lambda > 0)
            printf("  %s %.3f (%.3f)", rt_tensor_name((rt_tensor_id)k), top[k].lambda, top[k].bound);
    printf("\n");
    for (int k = RT_LSE; k < RT_RESULT_COUNT; k++) {
        t_assert_le(top[k].lambda, 1);
        t_assert_le(top[k].bound, 1);
        if (k < RT_DSINK || (k == RT_DSINK && (bends & SINK) != 0) ||
            (k == RT_DBIAS && (bends & BIAS) != 0))
            assert_true(top[k].lambda >
                        (k == RT_DSINK ? 0.02 : 0.05)); /* dsink: few elements to find it in */
    }
}

static const struct {
    unsigned bends;
    const char *name;
} each[] = {{ALIBI, "alibi"}, {BIAS, "bias"},       {SOFTCAP, "softcap"},
            {SINK, "sink"},   {DROPOUT, "dropout"}, {ALIBI | BIAS | SOFTCAP | SINK | DROPOUT, "all"}};

static void noise_of_f32_fills_bounds(void **state)
{
    (void)state;
    for (int n = 0; n < 6; n++) {
        if (t_left_out(n))
            continue;
        emu_arithmetic a = emu_declared(RT_F32);
        a.d.join = (rt_join_form)(n % 4);
        a.d.tanh_rel = 0x1p-24;
        noise_fills_bounds(each[n].name, each[n].bends, RT_F32, a, 24);
    }
}

static void noise_of_bf16_fills_bounds(void **state)
{
    (void)state;
    for (int n = 0; n < 6; n++) {
        if (t_left_out(n + 4)) /* the sinks at least */
            continue;
        emu_arithmetic a = emu_declared(RT_BF16);
        a.d.join = (rt_join_form)((n + 1) % 4);
        a.d.tanh_rel = 0x1p-24;
        noise_fills_bounds(each[n].name, each[n].bends, RT_BF16, a, 24);
    }
}

static void noise_of_f16_states_fills_bounds(void **state)
{
    (void)state;
    emu_arithmetic a = emu_declared(RT_F16);
    a.d.state = a.d.grad_state = RT_F16;
    a.d.tanh_rel = 0x1p-24;
    noise_fills_bounds("f16, states f16", each[5].bends, RT_F16, a, 24);
}

/* A biased tanh passes where it is declared, and its error is what is found where a better one is. */
static void biased_tanh_passes_when_declared_and_fails_when_not(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        emu_case c;
        emu_create(&c, bent(emu_problem(50, 50, 2, 1, 16, RT_MASK_FULL), SOFTCAP, NULL, false),
                   kinds[n % 3], 1 + n % 3, RT_FAMILY_GAUSSIAN, (uint64_t)n, RT_F32);
        emu_arithmetic a = emu_declared(RT_F32);
        a.tanh_error = n % 2 == 0 ? 0x1p-11 : -0x1p-11;
        emu_run(&c, &a);
        a.d.tanh_rel = 0x1p-11;
        rt_verdict v = emu_judge(&c, &a.d);
        assert_true(v.pass);
        assert_true(v.tensor[RT_LSE].max_ratio_lambda > 0.3);
        a.d.tanh_rel = 0x1p-22;
        v = emu_judge(&c, &a.d);
        assert_false(rt_tally_pass(&v.tensor[RT_LSE]));
        /* undeclared: the least accurate in use */
        rt_declared least;
        rt_declared_init(&least, RT_F32);
        t_assert_bits_eq(least.tanh_rel, 0x1p-11);
        assert_true(emu_judge(&c, &least).pass);
        emu_reset(&c);
    }
}

/* A tanh from exponentials has an error that is not relative: near 0 it is found where an accurate one is declared, and
 * covered where nothing is. */
static void tanh_from_exponentials_passes_undeclared(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        emu_case c;
        rt_problem p = bent(emu_problem(40, 40, 2, 1, 8, RT_MASK_FULL), SOFTCAP, NULL, false);
        p.softcap = 400;
        emu_create(&c, p, RT_LAYOUT_CONTIGUOUS, 1, RT_FAMILY_GAUSSIAN, (uint64_t)n, RT_F32);
        emu_arithmetic a = emu_declared(RT_F32);
        a.raw_tanh = true;
        emu_run(&c, &a);
        assert_false(emu_judge(&c, &a.d).pass);
        a.d.tanh_rel = 0x1p-24;
        a.d.assumed = RT_DECL_TANH;
        const rt_verdict v = emu_judge(&c, &a.d);
        for (int k = RT_LSE; k < RT_TENSOR_COUNT; k++)
            t_assert_le(v.tensor[k].max_ratio_lambda, 1);
        emu_reset(&c);
    }
}

/* ---- planted faults ------------------------------------------------------------------------------ */

static void faults_are_found(void **state)
{
    (void)state;
    static const struct {
        unsigned bends, fault;
        rt_tensor_id where;
    } table[] = {
        {SINK, EMU_NO_SINK, RT_LSE},
        {SINK, EMU_SINK_EACH_CALL, RT_LSE},
        {SINK, EMU_SINK_EACH_CALL, RT_OUT},
        {SINK, EMU_DSINK_SIGN, RT_DSINK},
        {BIAS, EMU_BIAS_HEAD, RT_OUT},
        {BIAS, EMU_BIAS_HEAD, RT_DBIAS},
        {ALIBI, EMU_LOCAL_ALIBI, RT_LSE},
        {ALIBI, EMU_LOCAL_ALIBI, RT_DQ},
        {SOFTCAP, EMU_NO_SOFTCAP, RT_LSE},
        {SOFTCAP, EMU_NO_SLOPE, RT_DQ},
        {SOFTCAP, EMU_NO_SLOPE, RT_DK},
        {DROPOUT, EMU_LOCAL_DROPOUT, RT_OUT},
        {DROPOUT, EMU_LOCAL_DROPOUT, RT_DV},
        {DROPOUT, EMU_NO_DROPOUT_SCALE, RT_OUT},
        {DROPOUT, EMU_NO_DROPOUT_SCALE, RT_DV},
    };
    for (size_t n = 0; n < sizeof table / sizeof table[0]; n++)
        for (int f = 0; f < 2; f++) {
            if (t_left_out(2 * (int64_t)n + f))
                continue;
            const rt_dtype t = f == 0 ? RT_BF16 : RT_F32;
            emu_case c;
            emu_create(&c,
                       bent(emu_problem(64, 64, 2, 1, 16, RT_MASK_CAUSAL), table[n].bends, "1hss", false),
                       RT_LAYOUT_ZIGZAG, 4, RT_FAMILY_GAUSSIAN, n, t);
            emu_arithmetic a = emu_declared(t);
            a.d.tanh_rel = 0x1p-24;
            a.sink_is_key = true;
            emu_run(&c, &a);
            assert_true(emu_judge(&c, &a.d).pass);
            a.faults = table[n].fault;
            emu_run(&c, &a);
            const rt_verdict v = emu_judge(&c, &a.d);
            assert_false(v.pass);
            const rt_tally *y = &v.tensor[table[n].where];
            if (y->count[RT_CLASS_WRONG] == 0)
                print_error("fault %u in %s (%s)\n", table[n].fault, rt_tensor_name(table[n].where),
                            rt_dtype_name(t));
            assert_true(y->count[RT_CLASS_WRONG] > 0);
            if (table[n].fault == EMU_NO_SLOPE || table[n].fault == EMU_DSINK_SIGN)
                assert_true(rt_tally_pass(&v.tensor[RT_OUT]) && rt_tally_pass(&v.tensor[RT_DV]));
            if (table[n].bends == DROPOUT)
                assert_true(rt_tally_pass(&v.tensor[RT_LSE]));
            emu_reset(&c);
        }
}

/* One element of dsink or dbias three bounds off is WRONG, and named. */
static void planted_error_of_three_bounds_is_wrong_where_it_is(void **state)
{
    (void)state;
    for (int n = 0; n < 16; n++) {
        if (t_left_out(n))
            continue;
        rt_problem p = emu_problem(21, 21, 4, 2, 6, n % 2 == 0 ? RT_MASK_CAUSAL : RT_MASK_FULL);
        p.batch = 2;
        emu_case c;
        emu_create(&c, bent(p, BIAS | SINK | (n % 3 == 0 ? DROPOUT : 0), shapes[n % 8], false),
                   kinds[n % 3], 1 + n % 4, RT_FAMILY_GAUSSIAN, (uint64_t)n, n < 8 ? RT_BF16 : RT_F32);
        const emu_arithmetic a = emu_declared(n < 8 ? RT_BF16 : RT_F32);
        emu_truth e;
        emu_observe(&c, &a.d, &e);
        emu_fill(&c, &e);
        assert_true(emu_judge(&c, &a.d).pass);
        for (int t = RT_DSINK; t <= RT_DBIAS; t++) {
            const rt_tensor_id id = (rt_tensor_id)t;
            const int64_t width = emu_width(&c.p, id), heads = emu_heads(&c.p, id);
            int64_t at = draw(0, emu_elements(&c.p, id) - 1);
            while (!(e.bound[t][at] > 0))
                at = draw(0, emu_elements(&c.p, id) - 1);
            const double good = c.t[t][at];
            c.t[t][at] = rt_round_up(c.in.dtype[t], e.truth[t][at] + 3 * e.bound[t][at]);
            const rt_verdict v = emu_judge(&c, &a.d);
            assert_false(v.pass);
            assert_int_equal(v.tensor[t].count[RT_CLASS_WRONG], 1);
            const rt_element *f = &v.tensor[t].first;
            t_assert_bits_eq(f->got, c.t[t][at]);
            assert_int_equal(f->dim, at % width);
            assert_int_equal(f->head, at / width % heads);
            assert_int_equal(f->pos, at / width / heads % emu_length(&c.p, id));
            assert_int_equal(f->b, at / width / heads / emu_length(&c.p, id));
            c.t[t][at] = good;
        }
        emu_truth_reset(&e);
        emu_reset(&c);
    }
}

/* ---- values -------------------------------------------------------------------------------------- */

/* Two equal keys and a sink of the same logit: thirds. */
static void sink_takes_its_share(void **state)
{
    (void)state;
    emu_case c;
    rt_problem p = emu_problem(1, 2, 1, 1, 4, RT_MASK_FULL);
    emu_sinks(&p, 0);
    p.sink[0] = 0;
    emu_create(&c, p, RT_LAYOUT_CONTIGUOUS, 1, RT_FAMILY_GAUSSIAN, 1, RT_F32);
    for (int64_t d = 0; d < 4; d++) {
        c.t[RT_Q][d] = 0;
        c.t[RT_V][d] = 3;
        c.t[RT_V][4 + d] = 6;
        c.t[RT_DOUT][d] = 1;
    }
    const emu_arithmetic a = emu_declared(RT_F32);
    emu_truth e;
    emu_observe(&c, &a.d, &e);
    t_assert_le(fabs(e.truth[RT_LSE][0] - log(3.0)), 1e-15);
    t_assert_le(fabs(e.truth[RT_OUT][0] - 3), 1e-14);
    t_assert_le(fabs(e.truth[RT_DSINK][0] + 4), 1e-14); /* -1/3 of delta = 12 */
    t_assert_le(e.bound[RT_DSINK][0], 1e-4);
    emu_truth_reset(&e);
    emu_reset(&c);
}

/* The exact truth and binary64's agree far within the bounds, batch for batch. */
static void both_truths_agree(void **state)
{
    (void)state;
    for (int n = 0; n < 8; n++) {
        if (t_left_out(n))
            continue;
        rt_problem p = emu_problem(26, 26, 4, 2, 8, n % 2 == 0 ? RT_MASK_CAUSAL : RT_MASK_FULL);
        p.batch = 2;
        emu_case c;
        emu_create(&c, bent(p, n < 5 ? 1u << n : each[5].bends, shapes[n], n % 3 == 0), kinds[n % 3], 2,
                   RT_FAMILY_GAUSSIAN, (uint64_t)n, RT_F32);
        const emu_arithmetic a = emu_declared(RT_F32);
        emu_truth exact, plain;
        emu_observe_with(&c, &a.d, RT_TRUTH_EXACT, &exact);
        emu_observe(&c, &a.d, &plain);
        for (int t = RT_LSE; t < RT_RESULT_COUNT; t++)
            for (int64_t i = 0; c.t[t] != NULL && i < emu_elements(&c.p, (rt_tensor_id)t); i++)
                if (isfinite(plain.truth[t][i]))
                    t_assert_le(fabs(exact.truth[t][i] - plain.truth[t][i]), 1e-6 * plain.bound[t][i]);
        emu_truth_reset(&exact);
        emu_truth_reset(&plain);
        emu_reset(&c);
    }
}

/* A row that the bias empties: nothing without a sink, the sink alone with one. */
static void hidden_rows_hold_nothing_but_the_sink(void **state)
{
    (void)state;
    for (int sink = 0; sink < 2; sink++) {
        emu_case c;
        rt_problem p =
            bent(emu_problem(12, 12, 2, 1, 4, RT_MASK_FULL), BIAS | (sink ? SINK : 0), "11ss", false);
        for (int64_t j = 0; j < 12; j++)
            p.bias[5 * 12 + j] = -T_INF;
        emu_create(&c, p, RT_LAYOUT_CONTIGUOUS, 2, RT_FAMILY_GAUSSIAN, 1, RT_F32);
        const emu_arithmetic a = emu_declared(RT_F32);
        emu_run(&c, &a);
        rt_verdict v = emu_judge(&c, &a.d);
        assert_true(v.pass);
        assert_int_equal(v.tensor[RT_LSE].empty_minus_inf, sink ? 0 : 2);
        *emu_row(&c, RT_LSE, 0, 5, 1) = sink ? -T_INF : 1;
        v = emu_judge(&c, &a.d);
        assert_int_equal(v.tensor[RT_LSE].count[RT_CLASS_SPECIAL], 1);
        emu_run(&c, &a);
        emu_row(&c, RT_DBIAS, 0, 5, 0)[3] = 1e-30;
        v = emu_judge(&c, &a.d);
        assert_false(rt_tally_pass(&v.tensor[RT_DBIAS]));
        emu_reset(&c);
    }
}

/* A NaN in v_j reaches what keeps pair (i, j), and not what drops it. */
static void dropped_values_reach_nothing(void **state)
{
    (void)state;
    emu_case c;
    emu_create(&c, bent(emu_problem(16, 16, 1, 1, 4, RT_MASK_FULL), DROPOUT, NULL, false),
               RT_LAYOUT_CONTIGUOUS, 1, RT_FAMILY_GAUSSIAN, 1, RT_F32);
    const emu_arithmetic a = emu_declared(RT_F32);
    emu_run(&c, &a);
    emu_row(&c, RT_V, 0, 3, 0)[1] = T_NAN;
    int64_t keep = 0;
    for (int64_t i = 0; i < 16; i++) {
        const bool kept = rt_dropout_keep(&c.p, 0, 0, i, 3);
        keep += kept;
        if (kept)
            emu_row(&c, RT_OUT, 0, i, 0)[1] = T_NAN;
    }
    assert_true(keep > 0 && keep < 16);
    const rt_verdict v = emu_judge(&c, &a.d);
    assert_int_equal(v.tensor[RT_OUT].count[RT_CLASS_UNDEFINED], keep);
    assert_int_equal(v.tensor[RT_OUT].count[RT_CLASS_SPECIAL], 0);
    assert_int_equal(v.tensor[RT_LSE].count[RT_CLASS_UNDEFINED], 0);
    emu_reset(&c);
}

/* Equal weights, v = 1, P = 1/2 dropped: an error of the exponentials moves O as far as the kept ones are uneven,
 * e sqrt(sum w mu^2 - O^2), where without dropout it would not move it at all. */
static void dropout_makes_values_uneven(void **state)
{
    (void)state;
    emu_case c;
    rt_problem p = emu_problem(8, 64, 1, 1, 4, RT_MASK_FULL);
    p.dropout = 0.5;
    p.dropout_seed = 3;
    emu_create(&c, p, RT_LAYOUT_CONTIGUOUS, 1, RT_FAMILY_GAUSSIAN, 1, RT_F32);
    for (int64_t i = 0; i < emu_elements(&c.p, RT_Q); i++)
        c.t[RT_Q][i] = 0;
    for (int64_t i = 0; i < emu_elements(&c.p, RT_V); i++)
        c.t[RT_V][i] = 1;
    emu_arithmetic a = emu_declared(RT_F32);
    a.d.exp_rel = 1e-3;
    emu_truth e;
    emu_observe(&c, &a.d, &e);
    for (int64_t i = 0; i < 8; i++) {
        double kept = 0;
        for (int64_t j = 0; j < 64; j++)
            kept += rt_dropout_keep(&c.p, 0, 0, i, j);
        const double O = 2 * kept / 64, sigma = sqrt(4 * kept / 64 - O * O);
        t_assert_le(fabs(e.truth[RT_OUT][4 * i] - O), 1e-14);
        t_assert_le(0.999 * 1e-3 * sigma, e.lambda[RT_OUT][4 * i]);
        t_assert_le(e.lambda[RT_OUT][4 * i], 1.1e-3 * sigma);
    }
    emu_truth_reset(&e);
    emu_reset(&c);
}

static void verdict_of_any_number_of_threads_is_the_same(void **state)
{
    (void)state;
    for (int n = 0; n < 8; n++) {
        rt_problem p = emu_problem(140, 140, 4, 2, 8, RT_MASK_CAUSAL);
        p.batch = 2;
        emu_case c;
        emu_create(&c, bent(p, each[5].bends, shapes[n], n % 2 == 0), RT_LAYOUT_ZIGZAG, 3,
                   RT_FAMILY_GAUSSIAN, 11, RT_BF16);
        const emu_arithmetic a = emu_declared(RT_BF16);
        c.in.present[RT_DBIAS] = n == 0; /* the emulator's own would take its time */
        if (n == 0)
            emu_run(&c, &a);
        c.in.present[RT_DBIAS] = true;
        const rt_judge_options o = {.truth = n < 4 ? RT_TRUTH_EXACT : RT_TRUTH_F64};
        omp_set_num_threads(1);
        const rt_verdict one = emu_judge_with(&c, &a.d, &o);
        for (int threads = 2; threads <= 3; threads++) {
            omp_set_num_threads(threads);
            const rt_verdict v = emu_judge_with(&c, &a.d, &o);
            assert_true(emu_same(&one, &v));
        }
        omp_set_num_threads(1);
        emu_reset(&c);
    }
}

int main(void)
{
    omp_set_num_threads(1); /* small problems: more threads would only wait */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sink_takes_its_share),
        cmocka_unit_test(both_truths_agree),
        cmocka_unit_test(hidden_rows_hold_nothing_but_the_sink),
        cmocka_unit_test(dropped_values_reach_nothing),
        cmocka_unit_test(dropout_makes_values_uneven),
        cmocka_unit_test(noise_of_f32_fills_bounds),
        cmocka_unit_test(noise_of_bf16_fills_bounds),
        cmocka_unit_test(noise_of_f16_states_fills_bounds),
        cmocka_unit_test(biased_tanh_passes_when_declared_and_fails_when_not),
        cmocka_unit_test(tanh_from_exponentials_passes_undeclared),
        cmocka_unit_test(faults_are_found),
        cmocka_unit_test(planted_error_of_three_bounds_is_wrong_where_it_is),
        cmocka_unit_test(verdict_of_any_number_of_threads_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
