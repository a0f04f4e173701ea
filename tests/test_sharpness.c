/* How sharp the bounds are: planted errors are found, and the noise of the declared arithmetic fills them.
 */
#include <omp.h>

#include "emulator.h"

static uint64_t state_of_random = UINT64_C(0x9e3779b97f4a7c15);

static int64_t draw(int64_t lo, int64_t hi)
{
    uint64_t *s = &state_of_random;
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return lo + (int64_t)((*s * UINT64_C(2685821657736338717) >> 33) % (uint64_t)(hi - lo + 1));
}

static const rt_layout_kind kinds[] = {RT_LAYOUT_CONTIGUOUS, RT_LAYOUT_ZIGZAG, RT_LAYOUT_STRIPED};

/* ---- planted errors ----------------------------------------------------------------------------- */

/* The value beyond truth + by in the format, at least that far away. */
static double away(rt_dtype t, double truth, double by)
{
    return by > 0 ? rt_round_up(t, truth + by) : rt_round_down(t, truth + by);
}

static void same_place(const rt_element *e, int64_t b, int64_t pos, int64_t head, int64_t dim, double got)
{
    assert_int_equal(e->b, b);
    assert_int_equal(e->pos, pos);
    assert_int_equal(e->head, head);
    assert_int_equal(e->dim, dim);
    t_assert_bits_eq(e->got, got);
}

/* One element of tensor t is off by `times` the bound (B, or B_lambda): what class is it found in? */
static void plant(emu_case *c, const rt_declared *d, const emu_truth *e, rt_tensor_id t, double times,
                  bool lambda, rt_class want)
{
    const int64_t width = emu_width(&c->p, t), heads = emu_heads(&c->p, t),
                  at = draw(0, emu_elements(&c->p, t) - 1);
    const double bound = e->bound[t][at], by = times * (lambda ? e->lambda[t][at] : bound);
    if (!(bound > 0))
        return; /* an empty row: not what this is about */
    const double good = c->t[t][at],
                 bad = away(c->in.dtype[t], e->truth[t][at], draw(0, 1) == 0 ? by : -by);
    if (!isfinite(bad) || (want == RT_CLASS_SUSPECT && !(fabs(bad - e->truth[t][at]) < 0.99 * bound)))
        return;
    c->t[t][at] = bad;
    const rt_verdict v = emu_judge(c, d);
    c->t[t][at] = good;
    assert_false(v.pass);
    for (int i = RT_LSE; i < RT_TENSOR_COUNT; i++) {
        const rt_tally *y = &v.tensor[i];
        assert_int_equal(rt_tally_pass(y), i != (int)t);
        assert_int_equal(y->elements, emu_elements(&c->p, (rt_tensor_id)i));
        assert_int_equal(y->count[RT_CLASS_ROUNDED] + y->count[RT_CLASS_FAITHFUL],
                         y->elements - (i == (int)t ? 1 : 0));
    }
    const rt_tally *y = &v.tensor[t];
    assert_int_equal(y->count[want], 1);
    assert_true(y->has_first && y->has_worst);
    assert_int_equal(y->first.found, want);
    const int64_t pos = at / width / heads % emu_length(&c->p, t),
                  b = at / width / heads / emu_length(&c->p, t);
    same_place(&y->first, b, pos, at / width % heads, at % width, bad);
    same_place(&y->worst, b, pos, at / width % heads, at % width, bad);
    t_assert_bits_eq(y->worst.bound, bound);
    if (want == RT_CLASS_WRONG)
        t_assert_le(3, y->worst.ratio * (1 + 1e-12));
}

static void planted_error_of_three_bounds_is_wrong_where_it_is(void **state)
{
    (void)state;
    static const rt_dtype types[] = {RT_BF16, RT_F16, RT_F32};
    for (int n = 0; n < t_cases(45); n++) {
        const int64_t hkv = draw(1, 2), group = draw(1, 2), s = draw(5, 60), d = draw(2, 24);
        const rt_mask_kind mask = n % 2 == 0 ? RT_MASK_CAUSAL : RT_MASK_FULL;
        const rt_dtype t = types[n % 3];
        emu_case c;
        rt_problem p = emu_problem(s, s, hkv * group, hkv, d, mask);
        p.batch = draw(1, 2);
        emu_create(&c, p, kinds[draw(0, 2)], (int32_t)draw(1, 4), RT_FAMILY_GAUSSIAN, (uint64_t)n, t);
        emu_arithmetic a = emu_declared(t);
        a.d.exp_rel = n % 5 == 0 ? 1e-4 : 2.4e-7;
        a.d.join = (rt_join_form)(n % 4);
        emu_truth e;
        emu_observe(&c, &a.d, &e);
        emu_fill(&c, &e);
        assert_true(emu_judge(&c, &a.d).pass);
        for (int k = RT_LSE; k < RT_TENSOR_COUNT; k++) {
            plant(&c, &a.d, &e, (rt_tensor_id)k, 3, false, RT_CLASS_WRONG);
            plant(&c, &a.d, &e, (rt_tensor_id)k, 1.02, true, RT_CLASS_SUSPECT);
        }
        emu_truth_reset(&e);
        emu_reset(&c);
    }
}

/* ---- noise -------------------------------------------------------------------------------------- */

typedef struct {
    double lambda, bound; /* the largest ratios */
} largest;

/* 100 random problems in the arithmetic; every tensor's largest err / B_lambda lies in (0.05, 1]. */
static void noise_fills_bounds(rt_dtype t, emu_arithmetic a, const char *what)
{
    largest top[RT_TENSOR_COUNT] = {{0, 0}};
    for (int n = 0; n < t_cases(100); n++) {
        const bool causal = draw(0, 1) == 0;
        const int64_t hkv = 1, group = draw(1, 2), s = draw(0, 9) == 0 ? draw(100, 160) : draw(32, 72),
                      d = draw(1, 4) * 8;
        emu_case c;
        emu_create(&c,
                   emu_problem(s, s, hkv * group, hkv, s < 64 && draw(0, 7) == 0 ? 64 : d,
                               causal ? RT_MASK_CAUSAL : RT_MASK_FULL),
                   kinds[draw(0, 2)], (int32_t)draw(1, 4),
                   draw(0, 3) == 0 ? RT_FAMILY_TILTED : RT_FAMILY_GAUSSIAN, (uint64_t)draw(0, 1 << 30), t);
        a.d.block_keys = draw(0, 1) == 0 ? 16 : 64;
        a.head_casts = draw(0, 1) == 0;
        emu_run(&c, &a);
        const rt_verdict v = emu_judge(&c, &a.d);
        for (int k = RT_LSE; k < RT_TENSOR_COUNT; k++) {
            top[k].lambda = fmax(top[k].lambda, v.tensor[k].max_ratio_lambda);
            top[k].bound = fmax(top[k].bound, v.tensor[k].max_ratio);
            assert_int_equal(v.tensor[k].count[RT_CLASS_WRONG] + v.tensor[k].count[RT_CLASS_SPECIAL] +
                                 v.tensor[k].count[RT_CLASS_UNDEFINED],
                             0);
        }
        emu_reset(&c);
    }
    printf("# %-34s", what);
    for (int k = RT_LSE; k < RT_TENSOR_COUNT; k++)
        printf("  %s %.3f (%.3f)", rt_tensor_name((rt_tensor_id)k), top[k].lambda, top[k].bound);
    printf("\n");
    for (int k = RT_LSE; k < RT_TENSOR_COUNT; k++) {
        t_assert_le(top[k].lambda, 1);
        t_assert_le(top[k].bound, 1);
        assert_true(top[k].lambda > 0.05);
    }
}

static emu_arithmetic with(rt_dtype p, rt_dtype partial, rt_dtype state, rt_dtype grad_partial,
                           rt_dtype grad_state, rt_join_form join)
{
    emu_arithmetic a = emu_declared(RT_F32);
    a.d.probabilities = p;
    a.d.partial = partial;
    a.d.state = state;
    a.d.grad_partial = grad_partial;
    a.d.grad_state = grad_state;
    a.d.join = join;
    return a;
}

static void noise_of_bf16_sigmoid_fills_bounds(void **state)
{
    (void)state;
    noise_fills_bounds(RT_BF16, with(RT_BF16, RT_BF16, RT_F32, RT_BF16, RT_F32, RT_JOIN_SIGMOID),
                       "bf16, sigmoid");
}

static void noise_of_f16_sigmoid_fills_bounds(void **state)
{
    (void)state;
    noise_fills_bounds(RT_F16, with(RT_F16, RT_F16, RT_F32, RT_F16, RT_F32, RT_JOIN_SIGMOID),
                       "f16, sigmoid");
}

static void noise_of_f32_sigmoid_fills_bounds(void **state)
{
    (void)state;
    noise_fills_bounds(RT_F32, with(RT_F32, RT_F32, RT_F32, RT_F32, RT_F32, RT_JOIN_SIGMOID),
                       "f32, sigmoid");
}

static void noise_of_f32_raw_fills_bounds(void **state)
{
    (void)state;
    noise_fills_bounds(RT_F32, with(RT_F32, RT_F32, RT_F32, RT_F32, RT_F32, RT_JOIN_RAW), "f32, raw");
}

static void noise_of_f32_two_pass_fills_bounds(void **state)
{
    (void)state;
    noise_fills_bounds(RT_F32, with(RT_F32, RT_F32, RT_F32, RT_F32, RT_F32, RT_JOIN_TWO_PASS),
                       "f32, two-pass");
}

static void noise_of_bf16_states_fills_bounds(void **state)
{
    (void)state;
    noise_fills_bounds(RT_BF16, with(RT_BF16, RT_BF16, RT_BF16, RT_BF16, RT_BF16, RT_JOIN_TWO_PASS),
                       "bf16, two-pass, states bf16");
}

static void noise_of_f16_states_fills_bounds(void **state)
{
    (void)state;
    noise_fills_bounds(RT_F16, with(RT_F16, RT_F32, RT_F16, RT_F32, RT_F16, RT_JOIN_SPLIT),
                       "f16, split, states f16");
}

static void noise_of_bf16_f32_partials_fills_bounds(void **state)
{
    (void)state;
    noise_fills_bounds(RT_BF16, with(RT_BF16, RT_F32, RT_F32, RT_F32, RT_F32, RT_JOIN_SPLIT),
                       "bf16, split, partials f32");
}

int main(void)
{
    omp_set_num_threads(1); /* hundreds of small problems: more threads would only wait */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_error_of_three_bounds_is_wrong_where_it_is),
        cmocka_unit_test(noise_of_bf16_sigmoid_fills_bounds),
        cmocka_unit_test(noise_of_f16_sigmoid_fills_bounds),
        cmocka_unit_test(noise_of_f32_sigmoid_fills_bounds),
        cmocka_unit_test(noise_of_f32_raw_fills_bounds),
        cmocka_unit_test(noise_of_f32_two_pass_fills_bounds),
        cmocka_unit_test(noise_of_bf16_states_fills_bounds),
        cmocka_unit_test(noise_of_f16_states_fills_bounds),
        cmocka_unit_test(noise_of_bf16_f32_partials_fills_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
