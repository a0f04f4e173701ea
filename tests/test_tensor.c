/* test_tensor.c: names, addresses in a view, order-free fingerprints. */
#include <ringtrue/tensor.h>

#include "check.h"

static void names_are_those_of_the_dump(void **state)
{
    (void)state;
    const char *const want[RT_NAME_COUNT] = {"q",  "k",  "v",     "dout",  "lse",  "out", "dq",
                                             "dk", "dv", "dsink", "dbias", "sink", "bias"};
    for (int i = 0; i < RT_NAME_COUNT; i++) {
        assert_string_equal(rt_tensor_name((rt_tensor_id)i), want[i]);
    }
    assert_string_equal(rt_tensor_name(RT_NAME_COUNT), "?");
}

static void view_at_follows_the_strides(void **state)
{
    (void)state;
    static const unsigned char data[4096];
    const rt_dtype types[] = {RT_F64, RT_F32, RT_BF16, RT_E4M3, RT_I64};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        const int64_t size = (int64_t)rt_dtype_size(types[t]);
        /* (2, 3, 4) stored with the axes in the order 1, 2, 0, one of them backwards. */
        const rt_view v = {.data = data + 1 + 8 * 23,
                           .dtype = types[t],
                           .ndim = 3,
                           .shape = {2, 3, 4},
                           .stride = {1, 8, -2}};
        for (int64_t i = 0; i < 2; i++) {
            for (int64_t j = 0; j < 3; j++) {
                for (int64_t k = 0; k < 4; k++) {
                    const int64_t index[] = {i, j, k};
                    const unsigned char *at = rt_view_at(&v, index);
                    assert_true(at == data + 1 + 8 * 23 + (i + 8 * j - 2 * k) * size);
                }
            }
        }
    }
    const rt_view scalar = {.data = data, .dtype = RT_F32, .ndim = 0};
    assert_true(rt_view_at(&scalar, NULL) == data);
}

/* ---- fingerprints ------------------------------------------------------------------------------- */

enum { B = 2, S = 5, H = 3, D = 8 };

static float element(int64_t b, int64_t s, int64_t h, int64_t d)
{
    return (float)(1000 * b + 100 * s + 10 * h + d) + 0.25F;
}

static void fill(float *x)
{
    for (int64_t i = 0; i < B * S * H * D; i++) {
        x[i] = element(i / (S * H * D), i / (H * D) % S, i / D % H, i % D);
    }
}

static rt_fingerprint fingerprint(const float *x)
{
    rt_fingerprint f = {{0, 0}};
    for (int64_t r = 0; r < B * S * H; r++) {
        rt_fingerprint_row(&f, RT_OUT, r / (S * H), r / H % S, r % H, RT_F32, x + r * D, D);
    }
    return f;
}

static int same(rt_fingerprint a, rt_fingerprint b)
{
    return a.lane[0] == b.lane[0] && a.lane[1] == b.lane[1];
}

/* A change must show in each lane: they are separate hashes. */
static int differs(rt_fingerprint a, rt_fingerprint b)
{
    return a.lane[0] != b.lane[0] && a.lane[1] != b.lane[1];
}

static void fingerprint_does_not_know_order_or_split(void **state)
{
    (void)state;
    float x[B * S * H * D];
    fill(x);
    const rt_fingerprint want = fingerprint(x);
    assert_true(want.lane[0] != 0 && want.lane[1] != 0 && want.lane[0] != want.lane[1]);
    for (int64_t ranks = 1; ranks <= 4; ranks++) {
        rt_fingerprint total = {{0, 0}};
        for (int64_t rank = ranks - 1; rank >= 0; rank--) {
            rt_fingerprint part = {{0, 0}};
            for (int64_t r = B * S * H - 1; r >= 0; r--) {
                if ((r * 7 + 3) % ranks == rank) {
                    rt_fingerprint_row(&part, RT_OUT, r / (S * H), r / H % S, r % H, RT_F32, x + r * D, D);
                }
            }
            rt_fingerprint_add(&total, &part);
        }
        assert_true(same(total, want));
    }
    /* Rows at an odd address give the same. */
    char odd[sizeof x + 1];
    memcpy(odd + 1, x, sizeof x);
    rt_fingerprint f = {{0, 0}};
    for (int64_t r = 0; r < B * S * H; r++) {
        rt_fingerprint_row(&f, RT_OUT, r / (S * H), r / H % S, r % H, RT_F32,
                           odd + 1 + (size_t)(r * D) * sizeof(float), D);
    }
    assert_true(same(f, want));
}

static void fingerprint_sees_every_swap_and_bit(void **state)
{
    (void)state;
    float x[B * S * H * D];
    fill(x);
    const rt_fingerprint want = fingerprint(x);
    for (int64_t i = 0; i < B * S * H * D; i++) {
        const int64_t j = (i * 31 + 17) % (B * S * H * D);
        if (j != i) {
            float t = x[i];
            x[i] = x[j];
            x[j] = t;
            assert_true(differs(fingerprint(x), want));
            x[j] = x[i];
            x[i] = t;
        }
        float saved = x[i];
        uint32_t u;
        memcpy(&u, &x[i], sizeof u);
        u ^= UINT32_C(1) << (i % 31);
        memcpy(&x[i], &u, sizeof u);
        assert_true(differs(fingerprint(x), want));
        x[i] = saved;
    }
    assert_true(same(fingerprint(x), want));
}

static void fingerprint_sees_each_coordinate(void **state)
{
    (void)state;
    const float row[2] = {1.5F, 1.5F};
    const struct {
        rt_tensor_id id;
        int64_t b, pos, h;
        rt_dtype t;
        int64_t n;
    } cases[] = {
        {RT_DK, 1, 2, 3, RT_F32, 1}, {RT_DV, 1, 2, 3, RT_F32, 1},
        {RT_DK, 0, 2, 3, RT_F32, 1}, {RT_DK, 1, 3, 2, RT_F32, 1},
        {RT_DK, 1, 2, 4, RT_F32, 1}, {RT_DK, 1, 4, 3, RT_F32, 1},
        {RT_DK, 2, 1, 3, RT_F32, 1}, {RT_DK, 1, 2, 3, RT_I32, 1},
        {RT_DK, 1, 2, 3, RT_F32, 2}, {RT_DK, 1, 2 + (INT64_C(1) << 32), 3, RT_F32, 1},
    };
    enum { N = sizeof cases / sizeof cases[0], TWO = 8 };
    rt_fingerprint f[N] = {{{0, 0}}};
    for (int i = 0; i < N; i++) {
        rt_fingerprint_row(&f[i], cases[i].id, cases[i].b, cases[i].pos, cases[i].h, cases[i].t, row,
                           cases[i].n);
        for (int j = 0; j < i; j++) {
            assert_true(differs(f[i], f[j]));
        }
    }
    /* The second of two equal elements does not count like the first. */
    assert_true(f[TWO].lane[0] != 2 * f[0].lane[0] && f[TWO].lane[1] != 2 * f[0].lane[1]);
    rt_fingerprint empty = {{5, 7}};
    rt_fingerprint_row(&empty, RT_Q, 0, 0, 0, RT_F32, row, 0);
    rt_fingerprint_row(&empty, RT_Q, 0, 0, 0, RT_TF32, row, 1);
    assert_true(empty.lane[0] == 5 && empty.lane[1] == 7);
}

static rt_fingerprint of_bits(rt_dtype t, uint64_t bits)
{
    rt_fingerprint f = {{0, 0}};
    rt_fingerprint_row(&f, RT_OUT, 0, 0, 0, t, &bits, 1);
    return f;
}

static void fingerprint_takes_nans_as_one_and_zeros_as_two(void **state)
{
    (void)state;
    const struct {
        rt_dtype t;
        uint64_t nan[3], inf, negative_zero;
    } cases[] = {
        {RT_F64,
         {UINT64_C(0x7ff8000000000000), UINT64_C(0xfff8000000000000), UINT64_C(0x7ff0000000000001)},
         UINT64_C(0x7ff0000000000000),
         UINT64_C(0x8000000000000000)},
        {RT_F32, {0x7fc00000, 0xffc00000, 0x7f800001}, 0x7f800000, 0x80000000},
        {RT_BF16, {0x7fc0, 0xffc0, 0xff81}, 0x7f80, 0x8000},
        {RT_F16, {0x7e00, 0xfe00, 0x7c01}, 0x7c00, 0x8000},
        {RT_E5M2, {0x7e, 0x7d, 0xff}, 0x7c, 0x80},
        {RT_E4M3, {0x7f, 0xff, 0x7f}, 0x7e, 0x80}, /* no infinity: the largest value instead */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const rt_dtype t = cases[i].t;
        const rt_fingerprint nan = of_bits(t, cases[i].nan[0]);
        assert_true(same(of_bits(t, cases[i].nan[1]), nan));
        assert_true(same(of_bits(t, cases[i].nan[2]), nan));
        assert_true(differs(of_bits(t, cases[i].inf), nan));
        assert_true(differs(of_bits(t, cases[i].inf | cases[i].negative_zero), of_bits(t, cases[i].inf)));
        assert_true(differs(of_bits(t, cases[i].negative_zero), of_bits(t, 0)));
    }
    /* Integers have no NaN. */
    assert_true(differs(of_bits(RT_I32, 0xffc00000), of_bits(RT_I32, 0x7fc00000)));
    assert_true(differs(of_bits(RT_I64, UINT64_MAX), of_bits(RT_I64, UINT64_MAX - 1)));
    assert_true(differs(of_bits(RT_BOOL, 1), of_bits(RT_BOOL, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_the_dump),
        cmocka_unit_test(view_at_follows_the_strides),
        cmocka_unit_test(fingerprint_does_not_know_order_or_split),
        cmocka_unit_test(fingerprint_sees_every_swap_and_bit),
        cmocka_unit_test(fingerprint_sees_each_coordinate),
        cmocka_unit_test(fingerprint_takes_nans_as_one_and_zeros_as_two),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
