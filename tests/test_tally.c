/* Counting: what each element is found to be, what is not a number, and how tallies add up. */
#include <omp.h>

#include "emulator.h"
#include "judge/sweep.h"

/* A right result of a small problem: the truth, rounded. */
static emu_arithmetic right_result(emu_case *c, rt_problem p, int32_t ranks, rt_dtype t)
{
    const emu_arithmetic a = emu_declared(t);
    emu_create(c, p, RT_LAYOUT_CONTIGUOUS, ranks, RT_FAMILY_GAUSSIAN, 21, t);
    emu_truth e;
    emu_observe(c, &a.d, &e);
    emu_fill(c, &e);
    emu_truth_reset(&e);
    assert_true(emu_judge(c, &a.d).pass);
    return a;
}

static void set_row(emu_case *c, rt_tensor_id t, int64_t pos, int64_t h, double x)
{
    for (int64_t d = 0; d < emu_width(&c->p, t); d++)
        emu_row(c, t, 0, pos, h)[d] = x;
}

/* ---- results that are not numbers --------------------------------------------------------------- */

static void one_nan_or_infinity_in_any_result_is_special(void **state)
{
    (void)state;
    static const double bad[] = {T_NAN, T_INF, -T_INF};
    emu_case c;
    const emu_arithmetic a = right_result(&c, emu_problem(20, 20, 2, 1, 6, RT_MASK_CAUSAL), 2, RT_BF16);
    for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++)
        for (int n = 0; n < 3; n++) {
            double *x = emu_row(&c, (rt_tensor_id)t, 0, 13, 0), good = *x;
            *x = bad[n];
            const rt_verdict v = emu_judge(&c, &a.d);
            *x = good;
            assert_false(v.pass);
            const rt_tally *y = &v.tensor[t];
            assert_int_equal(y->count[RT_CLASS_SPECIAL], 1);
            assert_int_equal(y->ulp_bins[RT_ULP_BINS - 1], 1);
            assert_int_equal(y->first.found, RT_CLASS_SPECIAL);
            assert_int_equal(y->first.pos, 13);
            assert_int_equal(y->worst.pos, 13);
            t_assert_bits_eq(y->first.got, bad[n]);
        }
    emu_reset(&c);
}

static void tensor_of_nans_or_zeros_fails(void **state)
{
    (void)state;
    emu_case c;
    const emu_arithmetic a = right_result(&c, emu_problem(12, 12, 2, 2, 4, RT_MASK_FULL), 1, RT_F32);
    for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++)
        for (int nan = 0; nan <= 1; nan++) {
            const int64_t n = emu_elements(&c.p, (rt_tensor_id)t);
            double *kept = malloc((size_t)n * sizeof *kept);
            assert_non_null(kept);
            memcpy(kept, c.t[t], (size_t)n * sizeof *kept);
            for (int64_t i = 0; i < n; i++)
                c.t[t][i] = nan ? T_NAN : 0;
            const rt_verdict v = emu_judge(&c, &a.d);
            memcpy(c.t[t], kept, (size_t)n * sizeof *kept);
            free(kept);
            assert_false(v.pass);
            assert_int_equal(v.tensor[t].count[nan ? RT_CLASS_SPECIAL : RT_CLASS_WRONG], n);
        }
    emu_reset(&c);
}

/* dv of one key is the sum of dout: 80000 is beyond f16. */
static void overflow_of_f16_is_right_where_the_truth_overflows(void **state)
{
    (void)state;
    static const struct {
        double got;
        rt_class want;
    } table[] = {{T_INF, RT_CLASS_ROUNDED},
                 {-T_INF, RT_CLASS_SPECIAL},
                 {T_NAN, RT_CLASS_SPECIAL},
                 {65504, RT_CLASS_WRONG},
                 {0, RT_CLASS_WRONG}};
    emu_case c;
    const emu_arithmetic a = right_result(&c, emu_problem(4, 1, 1, 1, 4, RT_MASK_FULL), 1, RT_F16);
    for (int64_t i = 0; i < 4; i++)
        set_row(&c, RT_DOUT, i, 0, 20000);
    c.in.present[RT_DQ] = c.in.present[RT_DK] = false;
    for (size_t n = 0; n < sizeof table / sizeof table[0]; n++) {
        set_row(&c, RT_DV, 0, 0, table[n].got);
        assert_int_equal(emu_judge(&c, &a.d).tensor[RT_DV].count[table[n].want], 4);
    }
    emu_reset(&c);
}

/* 65519.99 rounds to 65504, but a sum that is a little larger does not. */
static void overflow_of_f16_is_explained_where_the_truth_nearly_overflows(void **state)
{
    (void)state;
    emu_case c;
    const emu_arithmetic a = right_result(&c, emu_problem(3, 1, 1, 1, 4, RT_MASK_FULL), 1, RT_F16);
    set_row(&c, RT_DOUT, 0, 0, 32768);
    set_row(&c, RT_DOUT, 1, 0, 32736);
    set_row(&c, RT_DOUT, 2, 0, 15.9921875);
    c.in.present[RT_DQ] = c.in.present[RT_DK] = false;
    set_row(&c, RT_DV, 0, 0, T_INF);
    assert_int_equal(emu_judge(&c, &a.d).tensor[RT_DV].count[RT_CLASS_EXPLAINED], 4);
    set_row(&c, RT_DV, 0, 0, 65504);
    assert_int_equal(emu_judge(&c, &a.d).tensor[RT_DV].count[RT_CLASS_ROUNDED], 4);
    set_row(&c, RT_DOUT, 2, 0, -4000); /* far from it */
    set_row(&c, RT_DV, 0, 0, T_INF);
    assert_int_equal(emu_judge(&c, &a.d).tensor[RT_DV].count[RT_CLASS_SPECIAL], 4);
    emu_reset(&c);
}

/* ---- empty rows --------------------------------------------------------------------------------- */

/* Nine queries, six keys, bottom-right: the first three see nothing. */
static void empty_rows_lse_conventions_are_counted_by_name(void **state)
{
    (void)state;
    emu_case c;
    const emu_arithmetic a =
        right_result(&c, emu_problem(9, 6, 1, 1, 4, RT_MASK_CAUSAL_BOTTOM_RIGHT), 3, RT_BF16);
    double *lse = c.t[RT_LSE];
    lse[0] = -T_INF;
    lse[1] = T_INF;
    lse[2] = 0;
    const rt_verdict v = emu_judge(&c, &a.d);
    const rt_tally *y = &v.tensor[RT_LSE];
    assert_true(v.pass);
    assert_int_equal(y->empty_minus_inf, 1);
    assert_int_equal(y->empty_plus_inf, 1);
    assert_int_equal(y->empty_zero, 1);
    assert_int_equal(y->count[RT_CLASS_EXPLAINED], 2);
    static const double odd[] = {T_NAN, 1, -1e30, 0x1p-140};
    for (int n = 0; n < 4; n++) {
        lse[1] = odd[n];
        const rt_verdict w = emu_judge(&c, &a.d);
        assert_false(w.pass);
        assert_int_equal(w.tensor[RT_LSE].count[RT_CLASS_SPECIAL], 1);
        assert_int_equal(w.tensor[RT_LSE].first.pos, 1);
    }
    lse[1] = -0.0;
    assert_int_equal(emu_judge(&c, &a.d).tensor[RT_LSE].empty_zero, 2);
    emu_reset(&c);
}

static void empty_rows_output_and_gradient_must_be_zero(void **state)
{
    (void)state;
    emu_case c;
    const emu_arithmetic a =
        right_result(&c, emu_problem(9, 6, 1, 1, 4, RT_MASK_CAUSAL_BOTTOM_RIGHT), 2, RT_BF16);
    for (int n = 0; n < 2; n++) {
        double *x = emu_row(&c, n == 0 ? RT_OUT : RT_DQ, 0, 1, 0);
        *x = -0.0;
        assert_true(emu_judge(&c, &a.d).pass);
        *x = 0x1p-133; /* the smallest bf16 */
        const rt_verdict v = emu_judge(&c, &a.d);
        assert_false(v.pass);
        assert_int_equal(v.tensor[n == 0 ? RT_OUT : RT_DQ].count[RT_CLASS_WRONG], 1);
        *x = T_NAN;
        assert_false(emu_judge(&c, &a.d).pass);
        *x = 0;
    }
    emu_reset(&c);
}

/* ---- inputs that are not numbers ---------------------------------------------------------------- */

/* Four queries, twelve keys: keys 4 to 11 are never seen. */
static void nan_in_masked_slots_changes_nothing(void **state)
{
    (void)state;
    emu_case c;
    const emu_arithmetic a = right_result(&c, emu_problem(4, 12, 2, 1, 4, RT_MASK_CAUSAL), 2, RT_F32);
    emu_run(&c, &a);
    const rt_verdict clean = emu_judge(&c, &a.d);
    for (int64_t j = 4; j < 12; j++) {
        set_row(&c, RT_K, j, 0, j % 2 == 0 ? T_NAN : T_INF);
        set_row(&c, RT_V, j, 0, j % 3 == 0 ? T_NAN : -T_INF);
    }
    const rt_verdict v = emu_judge(&c, &a.d);
    assert_true(clean.pass && v.pass);
    assert_true(emu_same(&clean, &v));
    /* what they get themselves is zero and nothing else */
    *emu_row(&c, RT_DK, 0, 7, 0) = 1e-30;
    assert_int_equal(emu_judge(&c, &a.d).tensor[RT_DK].count[RT_CLASS_WRONG], 1);
    emu_reset(&c);
    /* and an empty row's own q, dout */
    (void)right_result(&c, emu_problem(9, 6, 1, 1, 4, RT_MASK_CAUSAL_BOTTOM_RIGHT), 2, RT_F32);
    const rt_verdict before = emu_judge(&c, &a.d);
    set_row(&c, RT_Q, 1, 0, T_NAN);
    set_row(&c, RT_DOUT, 2, 0, T_NAN);
    const rt_verdict after = emu_judge(&c, &a.d);
    assert_true(emu_same(&before, &after));
    emu_reset(&c);
}

enum { S = 10, AT = 6 };

/* A NaN at (AT, dim 1) of input t of a causal problem of S tokens; results that depend on it become NaN. */
static emu_arithmetic nan_case(emu_case *c, rt_tensor_id t, double what)
{
    const emu_arithmetic a = right_result(c, emu_problem(S, S, 2, 1, 4, RT_MASK_CAUSAL), 2, RT_BF16);
    emu_row(c, t, 0, AT, 0)[1] = what;
    for (int64_t i = 0; i < S; i++)
        for (int64_t h = 0; h < 2; h++) {
            const bool key = t == RT_K || t == RT_V, row = key ? i >= AT : i == AT && h == 0;
            if (row && t != RT_DOUT && t != RT_V) {
                set_row(c, RT_LSE, i, h, T_NAN);
                set_row(c, RT_OUT, i, h, T_NAN);
            }
            if (row && t == RT_V)
                emu_row(c, RT_OUT, 0, i, h)[1] = T_NAN;
            if (row)
                set_row(c, RT_DQ, i, h, T_NAN);
        }
    for (int64_t j = 0; j < S; j++)
        if (j <= AT || t == RT_K || t == RT_V) { /* keys that a touched row sees */
            set_row(c, RT_DK, j, 0, T_NAN);
            if (t == RT_K || t == RT_Q)
                set_row(c, RT_DV, j, 0, T_NAN);
            if (t == RT_DOUT)
                emu_row(c, RT_DV, 0, j, 0)[1] = T_NAN;
        }
    return a;
}

static void nan_in_visible_input_makes_its_dependents_undefined(void **state)
{
    (void)state;
    const int64_t touched = S - AT, keys = AT + 1;
    const struct {
        rt_tensor_id t;
        int64_t undefined[5]; /* lse out dq dk dv */
    } table[] = {{RT_Q, {1, 4, 4, 4 * keys, 4 * keys}},
                 {RT_K, {2 * touched, 8 * touched, 8 * touched, 4 * S, 4 * S}},
                 {RT_V, {0, 2 * touched, 8 * touched, 4 * S, 0}},
                 {RT_DOUT, {0, 0, 4, 4 * keys, keys}}};
    for (int n = 0; n < 4; n++) {
        emu_case c;
        const emu_arithmetic a = nan_case(&c, table[n].t, T_NAN);
        const rt_verdict v = emu_judge(&c, &a.d);
        for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++) {
            assert_int_equal(v.tensor[t].count[RT_CLASS_UNDEFINED], table[n].undefined[t - RT_LSE]);
            assert_int_equal(v.tensor[t].count[RT_CLASS_UNDEFINED] + v.tensor[t].count[RT_CLASS_ROUNDED] +
                                 v.tensor[t].count[RT_CLASS_FAITHFUL],
                             v.tensor[t].elements);
        }
        assert_true(v.pass);
        emu_reset(&c);
    }
}

static void finite_result_of_a_nan_is_special(void **state)
{
    (void)state;
    emu_case c;
    const emu_arithmetic a = nan_case(&c, RT_K, T_NAN);
    for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++) {
        double *x = emu_row(&c, (rt_tensor_id)t, 0, 8, 0);
        *x = 0.5;
        const rt_verdict v = emu_judge(&c, &a.d);
        *x = T_NAN;
        assert_false(v.pass);
        assert_int_equal(v.tensor[t].count[RT_CLASS_SPECIAL], 1);
        assert_int_equal(v.tensor[t].first.pos, 8);
    }
    *emu_row(&c, RT_OUT, 0, AT - 1, 0) = T_NAN; /* a row that does not see the key */
    const rt_verdict v = emu_judge(&c, &a.d);
    assert_int_equal(v.tensor[RT_OUT].count[RT_CLASS_SPECIAL], 1);
    assert_int_equal(v.tensor[RT_OUT].first.pos, AT - 1);
    emu_reset(&c);
}

static void any_result_of_an_infinity_is_undefined(void **state)
{
    (void)state;
    emu_case c;
    const emu_arithmetic a = nan_case(&c, RT_K, T_INF);
    assert_true(emu_judge(&c, &a.d).pass);
    *emu_row(&c, RT_OUT, 0, 8, 0) = 0.5;
    *emu_row(&c, RT_LSE, 0, 8, 0) = T_INF;
    const rt_verdict v = emu_judge(&c, &a.d);
    assert_true(v.pass);
    assert_int_equal(v.tensor[RT_LSE].count[RT_CLASS_UNDEFINED], 2 * (S - AT));
    emu_reset(&c);
}

/* ---- units -------------------------------------------------------------------------------------- */

static void lse_in_base_two_is_judged_in_base_two(void **state)
{
    (void)state;
    emu_case c;
    emu_arithmetic a = right_result(&c, emu_problem(30, 30, 2, 2, 8, RT_MASK_CAUSAL), 2, RT_BF16);
    emu_run(&c, &a);
    c.in.lse_base2 = true;
    const rt_verdict natural = emu_judge(&c, &a.d);
    assert_false(rt_tally_pass(&natural.tensor[RT_LSE]));
    assert_true(rt_tally_pass(&natural.tensor[RT_OUT]));
    for (int64_t i = 0; i < emu_elements(&c.p, RT_LSE); i++)
        c.t[RT_LSE][i] = (double)((float)c.t[RT_LSE][i] * (float)1.4426950408889634);
    const rt_verdict v = emu_judge(&c, &a.d);
    assert_true(v.pass);
    t_assert_le(0.05, v.tensor[RT_LSE].max_ratio_lambda);
    c.t[RT_LSE][17] += 1e-3;
    assert_false(emu_judge(&c, &a.d).pass);
    emu_reset(&c);
}

/* ---- tallies ------------------------------------------------------------------------------------ */

/* A tally as one thread makes it, from random elements at random places. */
static rt_tally random_tally(uint64_t *s, int64_t n)
{
    rt_tally t = {.judged = n > 0, .dtype = RT_BF16};
    for (int64_t i = 0; i < n; i++) {
        uint64_t r = (*s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407));
        const rt_class found = (rt_class)((r >> 33) % RT_CLASS_COUNT);
        rt_element e = {.b = (int64_t)(r >> 40) % 2,
                        .pos = (int64_t)(r >> 45) % 40,
                        .head = (int64_t)(r >> 52) % 3,
                        .dim = (int64_t)(r >> 57),
                        .ratio = (double)((r >> 20) % 5),
                        .found = found};
        rt_tally one = {.judged = true,
                        .dtype = RT_BF16,
                        .elements = 1,
                        .bias_sum = (int64_t)(r >> 30) - (INT64_C(1) << 33),
                        .bias_squares = (int64_t)(r >> 44),
                        .max_ratio = e.ratio,
                        .max_ratio_lambda = e.ratio,
                        .peak = e,
                        .has_first = true,
                        .has_worst = true,
                        .first = e,
                        .worst = e,
                        .empty_zero = (int64_t)(r >> 63)};
        one.count[found] = 1;
        one.ratio_bins[(r >> 21) % RT_RATIO_BINS] = 1;
        one.ulp_bins[(r >> 25) % RT_ULP_BINS] = 1;
        one.part[0] = (double)e.pos;
        if (found != RT_CLASS_WRONG && found != RT_CLASS_SPECIAL && found != RT_CLASS_SUSPECT)
            one.has_first = one.has_worst = false;
        rt_tally_merge(&t, &one);
    }
    return t;
}

static bool same_tally(const rt_tally *a, const rt_tally *b)
{
    const rt_verdict x = {.tensor[RT_OUT] = *a}, y = {.tensor[RT_OUT] = *b};
    return emu_same(&x, &y);
}

static void merging_in_any_order_gives_the_same_tally(void **state)
{
    (void)state;
    enum { PARTS = 6 };
    uint64_t seed = 77;
    for (int round = 0; round < 50; round++) {
        rt_tally part[PARTS];
        for (int i = 0; i < PARTS; i++)
            part[i] = random_tally(&seed, (round + i) % 7 == 0 ? 0 : 1 + (round * 5 + i) % 9);
        rt_tally forward = {0}, backward = {0}, tree = {0}, pair = {0};
        for (int i = 0; i < PARTS; i++)
            rt_tally_merge(&forward, &part[i]);
        for (int i = PARTS; i-- > 0;)
            rt_tally_merge(&backward, &part[i]);
        for (int i = 0; i < PARTS; i += 2) {
            memset(&pair, 0, sizeof pair);
            rt_tally_merge(&pair, &part[(i + 3) % PARTS]);
            rt_tally_merge(&pair, &part[(i + 4) % PARTS]);
            rt_tally_merge(&tree, &pair);
        }
        assert_true(same_tally(&forward, &backward));
        assert_true(same_tally(&forward, &tree));
    }
}

static void first_prefers_what_fails_for_certain_and_worst_what_has_no_ratio(void **state)
{
    (void)state;
    rt_tally a = {.judged = true, .has_first = true, .has_worst = true}, b = a, c = a;
    a.first = a.worst = (rt_element){.pos = 1, .found = RT_CLASS_SUSPECT, .ratio = 0.5};
    b.first = b.worst = (rt_element){.pos = 9, .found = RT_CLASS_WRONG, .ratio = 40};
    c.first = c.worst = (rt_element){.pos = 5, .found = RT_CLASS_SPECIAL};
    rt_tally_merge(&a, &b);
    assert_int_equal(a.first.pos, 9);
    assert_int_equal(a.worst.pos, 9);
    rt_tally_merge(&a, &c);
    assert_int_equal(a.first.pos, 5);
    assert_int_equal(a.worst.pos, 5);
    /* Of equals the earlier in (b, pos, head, dim), whichever comes in first. */
    static const rt_element low[] = {{.b = 1, .pos = 5, .head = 5, .dim = 5},
                                     {.b = 2, .pos = 4, .head = 5, .dim = 5},
                                     {.b = 2, .pos = 5, .head = 4, .dim = 5},
                                     {.b = 2, .pos = 5, .head = 5, .dim = 4}};
    for (int i = 0; i < 8; i++) {
        rt_tally x = {.judged = true, .has_first = true, .has_worst = true, .max_ratio_lambda = 2}, y = x;
        x.first = x.worst = x.peak =
            (rt_element){.b = 2, .pos = 5, .head = 5, .dim = 5, .found = RT_CLASS_WRONG, .ratio = 2};
        y.first = low[i / 2];
        y.first.found = RT_CLASS_WRONG;
        y.first.ratio = 2;
        y.worst = y.peak = y.first;
        rt_tally both = i % 2 == 0 ? x : y;
        rt_tally_merge(&both, i % 2 == 0 ? &y : &x);
        const rt_tally want = {.first = y.first, .worst = y.worst, .peak = y.peak};
        assert_memory_equal(&both.first, &want.first, sizeof want.first);
        assert_memory_equal(&both.worst, &want.worst, sizeof want.worst);
        assert_memory_equal(&both.peak, &want.peak, sizeof want.peak);
    }
    assert_false(rt_tally_pass(&(rt_tally){.elements = 1}));
    assert_true(rt_tally_pass(&(rt_tally){.judged = true, .elements = 1}));
    static const rt_class failing[] = {RT_CLASS_SUSPECT, RT_CLASS_WRONG, RT_CLASS_SPECIAL};
    for (int i = 0; i < 3; i++) {
        rt_tally t = {.judged = true, .elements = 1000000};
        t.count[failing[i]] = 1;
        assert_false(rt_tally_pass(&t));
    }
}

/* Bin b holds [2^(b/16 - 24) (1 + (b mod 16)/16), the next): the quantile is the upper edge of its bin. */
static void quantile_is_the_upper_edge_of_its_bin(void **state)
{
    (void)state;
    rt_tally t = {.judged = true, .max_ratio_lambda = 100};
    t_assert_bits_eq(rt_tally_ratio_quantile(&t, 0.9999), 0);
    t.ratio_bins[0] = 10; /* exact results */
    t_assert_bits_eq(rt_tally_ratio_quantile(&t, 0.9999), 0);
    t.ratio_bins[24 * 16] = 9989;   /* from 1 */
    t.ratio_bins[24 * 16 + 24] = 1; /* from 3 */
    t_assert_bits_eq(rt_tally_ratio_quantile(&t, 0.5), 1 + 1.0 / 16);
    t_assert_bits_eq(rt_tally_ratio_quantile(&t, 0.9999), 1 + 1.0 / 16);
    t_assert_bits_eq(rt_tally_ratio_quantile(&t, 1), 3.125);
    t.max_ratio_lambda = 3.01;
    t_assert_bits_eq(rt_tally_ratio_quantile(&t, 1), 3.01);
}

/* The quantile of a judged tensor: every ratio is in the bin that it belongs to. */
static void ratios_are_counted_in_their_bins(void **state)
{
    (void)state;
    emu_case c;
    const emu_arithmetic a = right_result(&c, emu_problem(1, 1, 1, 1, 1, RT_MASK_FULL), 1, RT_F32);
    for (int i = RT_OUT; i < RT_TENSOR_COUNT; i++)
        c.in.present[i] = false;
    const double truth = c.t[RT_LSE][0];
    for (int n = 1; n < 40; n++) {
        c.t[RT_LSE][0] = truth + n * 0x1p-21;
        const rt_verdict v = emu_judge(&c, &a.d);
        const rt_tally *y = &v.tensor[RT_LSE];
        int bin = -1;
        for (int i = 0; i < RT_RATIO_BINS; i++)
            bin = y->ratio_bins[i] > 0 ? i : bin;
        const double low = ldexp(1 + (bin % 16) / 16.0, bin / 16 - 24),
                     high = ldexp(1 + (bin % 16 + 1) / 16.0, bin / 16 - 24);
        t_assert_le(low, y->max_ratio_lambda);
        t_assert_le(y->max_ratio_lambda, high);
        t_assert_bits_eq(rt_tally_ratio_quantile(y, 0.9999), y->max_ratio_lambda);
    }
    emu_reset(&c);
}

static void bias_is_the_mean_in_ulps_with_its_z(void **state)
{
    (void)state;
    double z = 1;
    t_assert_bits_eq(rt_tally_bias(&(rt_tally){.judged = true}, &z), 0);
    t_assert_bits_eq(z, 0);
    rt_tally t = {.elements = 8, .bias_sum = INT64_C(4) << 20, .bias_squares = INT64_C(4) << 10};
    t_assert_bits_eq(rt_tally_bias(&t, &z), 0.5);
    t_assert_bits_eq(z, 2); /* the sum over the root of the sum of squares */
    t.elements = 10;
    t.count[RT_CLASS_UNDEFINED] = t.count[RT_CLASS_SPECIAL] = 1; /* they have no error */
    t_assert_bits_eq(rt_tally_bias(&t, &z), 0.5);
    t.bias_sum = -t.bias_sum;
    t_assert_bits_eq(rt_tally_bias(&t, &z), -0.5);
    t_assert_bits_eq(z, -2);
}

/* Every element of out one ulp above the truth's rounding. */
static void bias_of_results_one_ulp_up_is_near_one(void **state)
{
    (void)state;
    emu_case c;
    const emu_arithmetic a = right_result(&c, emu_problem(40, 40, 2, 2, 16, RT_MASK_FULL), 1, RT_BF16);
    for (int64_t i = 0; i < emu_elements(&c.p, RT_OUT); i++)
        c.t[RT_OUT][i] += rt_ulp(RT_BF16, c.t[RT_OUT][i]);
    double z;
    const rt_verdict v = emu_judge(&c, &a.d);
    t_assert_le(fabs(rt_tally_bias(&v.tensor[RT_OUT], &z) - 1), 0.05);
    t_assert_le(30, z); /* root of 1280 elements */
    assert_int_equal(v.tensor[RT_OUT].ulp_bins[0], 0);
    /* A truth just below a power of two has half the ulp of its rounding. */
    const int64_t *bins = v.tensor[RT_OUT].ulp_bins;
    assert_int_equal(bins[1] + bins[2] + bins[3], v.tensor[RT_OUT].elements);
    assert_true(bins[3] < 10);
    emu_reset(&c);
}

/* B_lambda is what its printed parts add up to, and an exact truth adds no more than that it is held as a double. */
static void parts_add_up_and_an_exact_truth_costs_a_rounding(void **state)
{
    (void)state;
    emu_case c;
    const emu_arithmetic a = right_result(&c, emu_problem(40, 40, 2, 2, 16, RT_MASK_CAUSAL), 1, RT_BF16);
    const rt_judge_options o = {.truth = RT_TRUTH_EXACT};
    const rt_verdict f64 = emu_judge(&c, &a.d), exact = emu_judge_with(&c, &a.d, &o);
    for (int i = 0; i < 2 * RT_TENSOR_COUNT; i++) {
        const int id = i % RT_TENSOR_COUNT;
        const rt_verdict *v = i < RT_TENSOR_COUNT ? &f64 : &exact;
        const rt_tally *t = &v->tensor[id];
        if (!t->judged)
            continue;
        const double *p = t->part, likely = fmin(p[RT_PART_SYS] + p[RT_PART_RANDOM], p[RT_PART_DET]);
        const double sum = likely + p[RT_PART_ROUNDING] + p[RT_PART_TRUTH];
        t_assert_le(fabs(sum - p[RT_PART_BOUND_LAMBDA]), 0x1p-50 * sum);
        t_assert_le(p[RT_PART_BOUND_LAMBDA], p[RT_PART_BOUND]);
        if (v == &exact && (id == RT_LSE || id == RT_OUT)) { /* every element is decided */
            assert_int_equal(v->truth[id], RT_TRUTH_EXACT);
            t_assert_le(p[RT_PART_TRUTH], 0x1p-51 * fabs(t->peak.truth));
        }
    }
    emu_reset(&c);
}

static void an_exact_truth_takes_the_radius_of_the_f64_one_away(void **state)
{
    (void)state;
    const double inputs[3] = {0, 0.5,
                              RT_INF}; /* decided; open by a half; beyond the range of the fast pass */
    for (int i = 0; i < 3; i++) {
        rt_bounds b = {.sys = 1, .random = 2, .rounding = 0.5, .det = 6, .last = 1, .radius = 1};
        rt_budget_know(&b, 0x1p70); /* what the bounds are made of must not drown in it */
        const double exact = -0.25, known = inputs[i] + 0x1p-54;
        double truth = -0.5;
        assert_int_equal(rt_sweep_take_exact(&exact, inputs[i], 1, &truth, &b), i < 2);
        t_assert_bits_eq(truth, i < 2 ? exact : -0.5);
        t_assert_bits_eq(b.bound, i < 2 ? 7 + known : 0x1p70);
        t_assert_bits_eq(b.lambda, i < 2 ? 3.5 + known : 0x1p70);
        t_assert_bits_eq(b.known, i < 2 ? known : 0x1p70);
        t_assert_bits_eq(b.radius, i == 0 ? 0 : i == 1 ? known : 1);
    }
}

int main(void)
{
    omp_set_num_threads(1); /* small problems: more threads would only wait */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_nan_or_infinity_in_any_result_is_special),
        cmocka_unit_test(tensor_of_nans_or_zeros_fails),
        cmocka_unit_test(overflow_of_f16_is_right_where_the_truth_overflows),
        cmocka_unit_test(overflow_of_f16_is_explained_where_the_truth_nearly_overflows),
        cmocka_unit_test(empty_rows_lse_conventions_are_counted_by_name),
        cmocka_unit_test(empty_rows_output_and_gradient_must_be_zero),
        cmocka_unit_test(nan_in_masked_slots_changes_nothing),
        cmocka_unit_test(nan_in_visible_input_makes_its_dependents_undefined),
        cmocka_unit_test(finite_result_of_a_nan_is_special),
        cmocka_unit_test(any_result_of_an_infinity_is_undefined),
        cmocka_unit_test(lse_in_base_two_is_judged_in_base_two),
        cmocka_unit_test(merging_in_any_order_gives_the_same_tally),
        cmocka_unit_test(first_prefers_what_fails_for_certain_and_worst_what_has_no_ratio),
        cmocka_unit_test(quantile_is_the_upper_edge_of_its_bin),
        cmocka_unit_test(ratios_are_counted_in_their_bins),
        cmocka_unit_test(bias_is_the_mean_in_ulps_with_its_z),
        cmocka_unit_test(bias_of_results_one_ulp_up_is_near_one),
        cmocka_unit_test(parts_add_up_and_an_exact_truth_costs_a_rounding),
        cmocka_unit_test(an_exact_truth_takes_the_radius_of_the_f64_one_away),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
