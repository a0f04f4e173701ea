/* test_generate.c: generated inputs depend on coordinates only, and each family is what it says. */
#include <math.h>

#include <ringtrue/generate.h>

#include "check.h"

enum { MAX_DIM = 256 };

static void family_names_parse_back(void **state)
{
    (void)state;
    const char *const want[] = {"gaussian", "exact", "tracer", "tilted", "huge"};
    for (int i = 0; i < 5; i++) {
        rt_family f;
        assert_string_equal(rt_family_name((rt_family)i), want[i]);
        assert_true(rt_family_parse(want[i], &f));
        assert_int_equal(f, i);
    }
    rt_family f = RT_FAMILY_TILTED;
    assert_false(rt_family_parse("gauss", &f));
    assert_false(rt_family_parse("gaussian2", &f));
    assert_false(rt_family_parse("", &f));
    assert_false(rt_family_parse(NULL, &f));
    assert_int_equal(f, RT_FAMILY_TILTED);
    assert_string_equal(rt_family_name((rt_family)17), "?");
}

/* ---- coordinates -------------------------------------------------------------------------------- */

static int compare_u64(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

/* A row of 8 gaussians carries far more than 64 bits: rows of different coordinates share no such row,
 * not even shifted by a pair of dims. */
static void rows_differ_wherever_a_coordinate_does(void **state)
{
    (void)state;
    const int64_t big[] = {
        0, 1, 2, INT64_C(65535), INT64_C(65536), INT64_C(1) << 32, (INT64_C(1) << 47) + 1};
    const int64_t heads[] = {0, 1, 255, 65535};
    const int64_t batches[] = {0, 1, 65536, UINT32_MAX};
    const uint64_t seeds[] = {0, 1, UINT64_C(1) << 32, UINT64_MAX};
    static uint64_t seen[7 * 4 * 4 * 4 * 4 * 2];
    int64_t n = 0;
    double row[16];
    for (int s = 0; s < 4; s++) {
        for (int id = RT_Q; id <= RT_DOUT; id++) {
            for (int p = 0; p < 7; p++) {
                for (int h = 0; h < 4; h++) {
                    for (int b = 0; b < 4; b++) {
                        rt_generate_row(RT_FAMILY_GAUSSIAN, seeds[s], (rt_tensor_id)id, RT_F64, batches[b],
                                        big[p], heads[h], 16, 1, row);
                        for (int half = 0; half < 2; half++) {
                            uint64_t hash = 0;
                            for (int d = 8 * half; d < 8 * half + 8; d++) {
                                hash = (hash ^ t_bits(row[d])) * UINT64_C(0x9e3779b97f4a7c15);
                                hash ^= hash >> 29;
                            }
                            seen[n++] = hash;
                        }
                    }
                }
            }
        }
    }
    assert_int_equal(n, (int64_t)(sizeof seen / sizeof seen[0]));
    qsort(seen, (size_t)n, sizeof seen[0], compare_u64);
    for (int64_t i = 1; i < n; i++) {
        assert_true(seen[i] != seen[i - 1]);
    }
}

static void a_row_is_a_function_of_its_coordinates(void **state)
{
    (void)state;
    for (int f = RT_FAMILY_GAUSSIAN; f <= RT_FAMILY_HUGE; f++) {
        for (int id = RT_Q; id <= RT_DOUT; id++) {
            double a[MAX_DIM], b[MAX_DIM], other[MAX_DIM];
            rt_generate_row((rt_family)f, 7, (rt_tensor_id)id, RT_F64, 1, 300, 2, 96, 1000, a);
            rt_generate_row((rt_family)f, 8, (rt_tensor_id)id, RT_F64, 0, 12, 0, 64, 1000, other);
            rt_generate_row((rt_family)f, 7, (rt_tensor_id)id, RT_F64, 1, 300, 2, 96, 1000, b);
            for (int d = 0; d < 96; d++) {
                t_assert_bits_eq(b[d], a[d]);
            }
            /* Fewer dims are a prefix, also odd counts, and nothing beyond them is written.  (TILTED's key
             * direction depends on D.) */
            for (int64_t dims = 4; dims < 12; dims++) {
                b[dims] = 1234.5;
                rt_generate_row((rt_family)f, 7, (rt_tensor_id)id, RT_F64, 1, 300, 2, dims, 1000, b);
                for (int d = f == RT_FAMILY_TILTED && id == RT_K ? 1 : 0; d < dims; d++) {
                    t_assert_bits_eq(b[d], a[d]);
                }
                t_assert_bits_eq(b[dims], 1234.5);
            }
        }
    }
}

/* The numbers of version 1, so that a seed in a report means the same tomorrow and elsewhere. */
static void gaussian_values_are_pinned(void **state)
{
    (void)state;
    const uint32_t key[2] = {0xdeadbeef, 0x01234567};
    /* position 0x5_00000003, head 9, batch 4, tensor v: dims 2 and 3 are blocks 3, 4, 5. */
    double row[4];
    rt_generate_row(RT_FAMILY_GAUSSIAN, UINT64_C(0x01234567deadbeef), RT_V, RT_F64, 4, INT64_C(0x500000003),
                    9, 4, 1, row);
    uint32_t words[12];
    for (uint32_t c = 0; c < 3; c++) {
        const uint32_t counter[4] = {3, 5 | 9u << 16, 4, 2u << 28 | (3 + c)};
        rt_philox(key, counter, words + 4 * c);
    }
    for (int i = 0; i < 2; i++) {
        double sum = -6.0;
        for (int w = 0; w < 6; w++) {
            sum += (words[6 * i + w] % 65536 + 0.5) / 65536 + (words[6 * i + w] / 65536 + 0.5) / 65536;
        }
        t_assert_bits_eq(row[2 + i], sum);
    }
}

/* ---- families ----------------------------------------------------------------------------------- */

static void gaussian_has_the_moments_of_a_gaussian(void **state)
{
    (void)state;
    enum { ROWS = 2000, D = 64 };
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0, neighbour = 0;
    for (int64_t pos = 0; pos < ROWS; pos++) {
        double row[D];
        rt_generate_row(RT_FAMILY_GAUSSIAN, 42, RT_Q, RT_F64, 0, pos, 3, D, ROWS, row);
        for (int d = 0; d < D; d++) {
            double x = row[d];
            t_assert_le(fabs(x), 393210.0 / 65536.0);
            m1 += x;
            m2 += x * x;
            m3 += x * x * x;
            m4 += x * x * x * x;
            neighbour += d > 0 ? x * row[d - 1] : 0;
        }
    }
    const double n = (double)ROWS * D, root = sqrt(n);
    /* Five standard deviations each; the fourth moment of twelve uniforms is 2.9. */
    t_assert_le(fabs(m1 / n), 5 / root);
    t_assert_le(fabs(m2 / n - 1), 5 * sqrt(2.0) / root);
    t_assert_le(fabs(m3 / n), 5 * sqrt(15.0) / root);
    t_assert_le(fabs(m4 / n - 2.9), 5 * sqrt(96.0) / root);
    t_assert_le(fabs(neighbour / n), 5 / root);
}

static void rows_are_rounded_to_the_dtype(void **state)
{
    (void)state;
    const rt_dtype types[] = {RT_F32, RT_BF16, RT_F16, RT_E4M3, RT_E5M2};
    for (int f = RT_FAMILY_GAUSSIAN; f <= RT_FAMILY_HUGE; f++) {
        for (int t = 0; t < 5; t++) {
            double exact[64], rounded[64];
            rt_generate_row((rt_family)f, 5, RT_K, RT_F64, 0, 77, 1, 64, 100, exact);
            rt_generate_row((rt_family)f, 5, RT_K, types[t], 0, 77, 1, 64, 100, rounded);
            for (int d = 0; d < 64; d++) {
                t_assert_bits_eq(rounded[d], rt_round_to(types[t], exact[d]));
            }
        }
    }
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t d = 0; d < n; d++) {
        sum += a[d] * b[d];
    }
    return sum;
}

static void exact_scores_are_1024_per_pair_in_every_format(void **state)
{
    (void)state;
    const rt_dtype types[] = {RT_F64, RT_F32, RT_BF16, RT_F16};
    const int64_t positions[] = {0, 1, 2, 3, 31, 32, 511, 512, 8191, 8192, 65535, 131070, 131071};
    for (int64_t dims = 4; dims <= 9; dims++) {
        double q[9], k[9], wide[9];
        rt_generate_row(RT_FAMILY_EXACT, 3, RT_Q, RT_F64, 0, 5, 0, dims, 131072, q);
        for (size_t p = 0; p < sizeof positions / sizeof positions[0]; p++) {
            rt_generate_row(RT_FAMILY_EXACT, 3, RT_K, RT_F64, 0, positions[p], 0, dims, 131072, wide);
            for (int t = 0; t < 4; t++) {
                rt_generate_row(RT_FAMILY_EXACT, 3, RT_K, types[t], 0, positions[p], 0, dims, 131072, k);
                t_assert_bits_eq(dot(q, k, dims), 1024.0 * (double)(positions[p] / 2));
                for (int d = 0; d < dims; d++) {
                    t_assert_bits_eq(k[d], wide[d]);
                    t_assert_bits_eq(rt_round_to(types[t], q[d]), q[d]);
                }
            }
        }
    }
}

static void exact_values_are_integers_up_to_four(void **state)
{
    (void)state;
    int count[2][9] = {{0}};
    const rt_tensor_id ids[] = {RT_V, RT_DOUT};
    for (int i = 0; i < 2; i++) {
        for (int64_t pos = 0; pos < 100; pos++) {
            double row[37];
            rt_generate_row(RT_FAMILY_EXACT, 1, ids[i], RT_BF16, 0, pos, 2, 37, 100, row);
            for (int d = 0; d < 37; d++) {
                t_assert_le(fabs(row[d]), 4.0);
                t_assert_bits_eq(row[d], rint(row[d]) + 0.0);
                count[i][(int)row[d] + 4]++;
            }
        }
        for (int v = 0; v < 9; v++) {
            assert_in_range(count[i][v], 300, 530); /* 3700 / 9 = 411, sd 19 */
        }
    }
}

/* By hand: weights 0, 1/2 and 1 instead of exponentials; the same through exp, in any order; and the
 * gradients, all sums exact. */
static void exact_attention_has_a_closed_form(void **state)
{
    (void)state;
    enum { S = 21, D = 6, DV = 5 };
    static double q[S][D], k[S][D], v[S][DV], g[S][DV];
    for (int i = 0; i < S; i++) {
        rt_generate_row(RT_FAMILY_EXACT, 11, RT_Q, RT_BF16, 0, i, 0, D, S, q[i]);
        rt_generate_row(RT_FAMILY_EXACT, 11, RT_K, RT_BF16, 0, i, 0, D, S, k[i]);
        rt_generate_row(RT_FAMILY_EXACT, 11, RT_V, RT_BF16, 0, i, 0, DV, S, v[i]);
        rt_generate_row(RT_FAMILY_EXACT, 11, RT_DOUT, RT_BF16, 0, i, 0, DV, S, g[i]);
    }
    bool dq_seen = false, dk_seen = false;
    for (int i = 0; i < S; i++) { /* causal: keys 0 .. i */
        double o[DV] = {0}, top = dot(q[i], k[i], D), z = 0, dq[D] = {0};
        for (int j = i; j >= 0; j--) {
            z += exp(dot(q[i], k[j], D) - top);
        }
        t_assert_bits_eq(z, i % 2 == 1 ? 2.0 : 1.0);
        for (int j = i; j >= 0; j--) {
            for (int d = 0; d < DV; d++) {
                o[d] += exp(dot(q[i], k[j], D) - top) / z * v[j][d];
            }
        }
        const double delta = dot(g[i], o, DV);
        for (int j = 0; j <= i; j++) {
            const double weight = j / 2 != i / 2 ? 0.0 : i % 2 == 1 ? 0.5 : 1.0;
            t_assert_bits_eq(exp(dot(q[i], k[j], D) - top) / z, weight);
            const double ds = weight * (dot(g[i], v[j], DV) - delta);
            for (int d = 0; d < D; d++) {
                dq[d] += ds * k[j][d];
                dk_seen = dk_seen || fabs(ds * q[i][d]) > 0;
            }
        }
        for (int d = 0; d < DV; d++) {
            const double want = i % 2 == 1 ? (v[i][d] + v[i - 1][d]) / 2 : v[i][d];
            t_assert_bits_eq(o[d] + 0.0, want + 0.0);
            t_assert_bits_eq(rt_round_to(RT_BF16, want), want);
        }
        for (int d = 0; d < D; d++) {
            const double half = (dot(g[i], v[i], DV) - delta) / 2;
            const double want = i % 2 == 1 ? half * (k[i][d] - k[i - 1][d]) : 0.0;
            t_assert_bits_eq(dq[d] + 0.0, want + 0.0);
            dq_seen = dq_seen || fabs(want) > 0;
        }
    }
    assert_true(dq_seen && dk_seen); /* the family tests the gradients too */
}

static void tracer_weighs_all_keys_alike_and_names_them(void **state)
{
    (void)state;
    for (int64_t pos = 0; pos < 1100000; pos += 54321) {
        double q[24], v[24], k[24];
        rt_generate_row(RT_FAMILY_TRACER, 9, RT_Q, RT_BF16, 1, pos, 0, 24, 2000000, q);
        rt_generate_row(RT_FAMILY_TRACER, 9, RT_V, RT_BF16, 1, pos, 0, 24, 2000000, v);
        rt_generate_row(RT_FAMILY_TRACER, 9, RT_K, RT_F64, 1, pos, 0, 24, 2000000, k);
        int64_t decoded = 0;
        double size = 0;
        for (int d = 0; d < 24; d++) {
            t_assert_bits_eq(q[d], 0.0);
            assert_true(t_same(v[d], 0.0) || t_same(v[d], 1.0));
            size += fabs(k[d]);
            if (d < 20) {
                decoded |= (int64_t)v[d] << d;
            } else {
                t_assert_bits_eq(v[d], v[d - 20]);
            }
        }
        assert_int_equal(decoded, pos % (1 << 20));
        t_assert_le(1.0, size);
    }
}

static void tilted_climbs_along_the_sequence(void **state)
{
    (void)state;
    const int64_t dims[] = {4, 64, 96, 128, 256};
    enum { S = 1024 };
    for (int i = 0; i < 5; i++) {
        double first = 0, last = 0, q[MAX_DIM], k[MAX_DIM], plain[MAX_DIM];
        double previous = -1;
        for (int64_t pos = 0; pos < S; pos++) {
            rt_generate_row(RT_FAMILY_TILTED, 2, RT_Q, RT_F64, 0, pos, 1, dims[i], S, q);
            rt_generate_row(RT_FAMILY_TILTED, 2, RT_K, RT_F64, 0, pos, 1, dims[i], S, k);
            t_assert_bits_eq(q[0], 4.0);
            assert_true(k[0] > previous);
            previous = k[0];
            first = pos == 0 ? k[0] : first;
            last = k[0];
            rt_generate_row(RT_FAMILY_GAUSSIAN, 2, RT_K, RT_F64, 0, pos, 1, dims[i], S, plain);
            for (int64_t d = 1; d < dims[i]; d++) {
                t_assert_bits_eq(k[d], plain[d]);
            }
        }
        const double climb = 4 * (last - first) / sqrt((double)dims[i]);
        t_assert_le(31.9, climb);
        t_assert_le(climb, 46.0);
    }
}

static void huge_is_gaussian_times_64_for_q_and_k(void **state)
{
    (void)state;
    for (int id = RT_Q; id <= RT_DOUT; id++) {
        double huge[32], plain[32];
        rt_generate_row(RT_FAMILY_HUGE, 2, (rt_tensor_id)id, RT_F64, 0, 5, 1, 32, 10, huge);
        rt_generate_row(RT_FAMILY_GAUSSIAN, 2, (rt_tensor_id)id, RT_F64, 0, 5, 1, 32, 10, plain);
        for (int d = 0; d < 32; d++) {
            t_assert_bits_eq(huge[d], id == RT_Q || id == RT_K ? 64 * plain[d] : plain[d]);
        }
    }
}

/* ---- what can be made --------------------------------------------------------------------------- */

static rt_problem usual(void)
{
    return (rt_problem){.batch = 1,
                        .seqlen_q = 64,
                        .seqlen_k = 64,
                        .heads_q = 2,
                        .heads_kv = 1,
                        .dim = 64,
                        .dim_v = 64,
                        .scale_kind = RT_SCALE_F64,
                        .scale = 1.0,
                        .mask = RT_MASK_CAUSAL};
}

static void check_names_the_rule_that_fails(void **state)
{
    (void)state;
    rt_context ctx = {0};
    rt_problem p = usual();
    for (int f = RT_FAMILY_GAUSSIAN; f <= RT_FAMILY_HUGE; f++) {
        t_assert_ok(&ctx, rt_generate_check(&ctx, (rt_family)f, &p, RT_BF16));
        t_assert_status(&ctx, rt_generate_check(&ctx, (rt_family)f, &p, RT_I32), RT_ERR_ARG);
        t_assert_status(&ctx, rt_generate_check(&ctx, (rt_family)f, &p, RT_TF32), RT_ERR_ARG);
        if (f != RT_FAMILY_EXACT) {
            t_assert_ok(&ctx, rt_generate_check(&ctx, (rt_family)f, &p, RT_E4M3));
        }
    }
    const struct {
        int64_t dim, seqlen_k;
        rt_scale_kind kind;
        double scale;
        rt_dtype t;
        const char *word;
    } bad[] = {
        {3, 64, RT_SCALE_F64, 1.0, RT_F64, "dim"},
        {64, 131073, RT_SCALE_F64, 1.0, RT_F64, "131072"},
        {64, 64, RT_SCALE_F64, 0.5, RT_F64, "scale"},
        {64, 64, RT_SCALE_F64, 2.0, RT_F64, "scale"},
        {64, 64, RT_SCALE_F64, T_NAN, RT_F64, "scale"},
        {64, 64, RT_SCALE_RSQRT_DIM, 0.125, RT_F64, "--scale 1"},
        {64, 64, RT_SCALE_F32, 1.0, RT_E5M2, "dtype"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        p = usual();
        p.dim = bad[i].dim;
        p.seqlen_k = bad[i].seqlen_k;
        p.scale_kind = bad[i].kind;
        p.scale = bad[i].scale;
        ctx.message[0] = '\0';
        t_assert_status(&ctx, rt_generate_check(&ctx, RT_FAMILY_EXACT, &p, bad[i].t), RT_ERR_ARG);
        assert_non_null(strstr(ctx.message, bad[i].word));
    }
    p = usual();
    p.dim = 4;
    p.seqlen_k = 131072;
    t_assert_ok(&ctx, rt_generate_check(&ctx, RT_FAMILY_EXACT, &p, RT_F16));
    p = usual();
    p.dim = 4096; /* tilted keys would reach 512 */
    t_assert_status(&ctx, rt_generate_check(&ctx, RT_FAMILY_TILTED, &p, RT_E4M3), RT_ERR_ARG);
    t_assert_ok(&ctx, rt_generate_check(&ctx, RT_FAMILY_TILTED, &p, RT_BF16));
    p = usual();
    p.heads_q = 65537;
    t_assert_status(&ctx, rt_generate_check(&ctx, RT_FAMILY_GAUSSIAN, &p, RT_BF16), RT_ERR_ARG);
    p = usual();
    p.seqlen_q = 0;
    t_assert_status(&ctx, rt_generate_check(&ctx, RT_FAMILY_GAUSSIAN, &p, RT_BF16), RT_ERR_ARG);
    t_assert_status(&ctx, rt_generate_check(&ctx, (rt_family)9, &p, RT_BF16), RT_ERR_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(family_names_parse_back),
        cmocka_unit_test(rows_differ_wherever_a_coordinate_does),
        cmocka_unit_test(a_row_is_a_function_of_its_coordinates),
        cmocka_unit_test(gaussian_values_are_pinned),
        cmocka_unit_test(gaussian_has_the_moments_of_a_gaussian),
        cmocka_unit_test(rows_are_rounded_to_the_dtype),
        cmocka_unit_test(exact_scores_are_1024_per_pair_in_every_format),
        cmocka_unit_test(exact_values_are_integers_up_to_four),
        cmocka_unit_test(exact_attention_has_a_closed_form),
        cmocka_unit_test(tracer_weighs_all_keys_alike_and_names_them),
        cmocka_unit_test(tilted_climbs_along_the_sequence),
        cmocka_unit_test(huge_is_gaussian_times_64_for_q_and_k),
        cmocka_unit_test(check_names_the_rule_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
