/* Dumps with sinks and biases as npy: by rank with their own rows, whole files beside them, and what is wrong. */
#include <ringtrue/io.h>

#include "scratch.h"

enum { B = 2, S = 6, H = 2, D = 2, P = 3 };

/* Zigzag over 3 ranks: the six runs have one token each. */
static const int64_t position[P][2] = {{0, 5}, {1, 4}, {2, 3}};

static double bias_value(int64_t h, int64_t i, int64_t j)
{
    return (double)(100 * h + 10 * i + j);
}

static void write_npy(const char *folder, const char *name, int32_t ndim, const int64_t *shape,
                      const double *x)
{
    char path[900];
    rt_context ctx = {0};
    (void)snprintf(path, sizeof path, "%s/%s.npy", folder, name);
    t_assert_ok(&ctx, rt_npy_write(&ctx, path, RT_F64, ndim, shape, x));
}

static void write_spec(const char *folder, const char *keys)
{
    char path[900], text[600];
    (void)snprintf(path, sizeof path, "%s/spec.json", folder);
    (void)snprintf(
        text, sizeof text,
        "{\"ringtrue\": 1, \"batch\": %d, \"seqlen\": %d, \"heads\": %d, \"dim\": %d, \"mask\": \"full\", "
        "\"ranks\": %d, \"layout\": \"zigzag\", %s}",
        B, S, H, D, P, keys);
    t_write_file(path, text, strlen(text));
}

static void write_inputs(const char *folder)
{
    assert_int_equal(mkdir(folder, 0777), 0);
    double x[B * 2 * H * D] = {0};
    for (int r = 0; r < P; r++)
        for (int t = 0; t < 3; t++) {
            char name[40];
            (void)snprintf(name, sizeof name, "rank%d.%s", r, rt_tensor_name((rt_tensor_id)t));
            write_npy(folder, name, 4, (int64_t[]){B, 2, H, D}, x);
        }
}

/* Each rank's rows of a bias, or of what is `factor` times it. */
static void write_rows(const char *folder, const char *tensor, double factor)
{
    for (int r = 0; r < P; r++) {
        double x[H * 2 * S];
        char name[40];
        for (int64_t e = 0; e < H * 2 * S; e++)
            x[e] = factor * bias_value(e / (2 * S), position[r][e / S % 2], e % S);
        (void)snprintf(name, sizeof name, "rank%d.%s", r, tensor);
        write_npy(folder, name, 4, (int64_t[]){1, H, 2, S}, x);
    }
}

static void check_bias(const rt_problem *p)
{
    assert_non_null(p->bias);
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < S; i++)
            for (int64_t j = 0; j < S; j++)
                t_assert_bits_eq(rt_score_bias(p, 1, h, i, j), bias_value(h, i, j));
}

static void ranks_hold_their_rows(void **state)
{
    (void)state;
    rt_context ctx = {0};
    const char *folder = t_scratch("ranks");
    const double sink[H] = {0.5, -2}, dsink[H] = {3, 4};
    write_inputs(folder);
    write_rows(folder, "mask", 1);
    write_rows(folder, "dbias", 2);
    write_npy(folder, "rank0.s", 1, (int64_t[]){H}, sink);
    write_npy(folder, "rank0.dsink", 1, (int64_t[]){H}, dsink);
    write_spec(folder, "\"sink\": \"s\", \"bias\": {\"shape\": \"1hss\", \"tensor\": \"mask\"}");
    rt_dump d;
    t_assert_ok(&ctx, rt_dump_open(&ctx, &folder, 1, NULL, &d));
    check_bias(&d.spec.problem);
    t_assert_bits_eq(d.spec.problem.sink[1], -2);
    assert_true(d.present[RT_DSINK] && d.present[RT_DBIAS] && d.dtype[RT_DBIAS] == RT_F64);
    double row[S];
    for (int64_t i = 0; i < S; i++) {
        rt_dump_load(&d, RT_DBIAS, 0, i, 1, row);
        for (int64_t j = 0; j < S; j++)
            t_assert_bits_eq(row[j], 2 * bias_value(1, i, j));
    }
    rt_dump_load(&d, RT_DSINK, 0, 0, 1, row);
    t_assert_bits_eq(row[0], 4);
    /* the spec says the same when it is written and read */
    char *text = NULL;
    rt_spec again;
    t_assert_ok(&ctx, rt_spec_write(&ctx, &d.spec, &text));
    t_assert_ok(&ctx, rt_spec_parse(&ctx, text, strlen(text), "again", RT_F64, &again));
    assert_string_equal(again.names[RT_SINK], "s");
    assert_string_equal(again.names[RT_BIAS], "mask");
    assert_memory_equal(again.problem.bias_shape, d.spec.problem.bias_shape,
                        sizeof again.problem.bias_shape);
    rt_spec_reset(&again);
    rt_free(text);
    rt_dump_close(&d);
}

static void a_file_beside_holds_the_whole(void **state)
{
    (void)state;
    rt_context ctx = {0};
    const char *folder = t_scratch("whole");
    double bias[H * S * S], sink[H] = {1, 2};
    for (int64_t e = 0; e < H * S * S; e++)
        bias[e] = bias_value(e / S / S, e / S % S, e % S);
    write_inputs(folder);
    write_npy(folder, "all-bias", 4, (int64_t[]){1, H, S, S}, bias);
    write_npy(folder, "logits", 1, (int64_t[]){H}, sink);
    write_spec(folder,
               "\"sink\": \"logits.npy\", \"bias\": {\"shape\": \"1hss\", \"tensor\": \"all-bias.npy\"}");
    rt_dump d;
    t_assert_ok(&ctx, rt_dump_open(&ctx, &folder, 1, NULL, &d));
    check_bias(&d.spec.problem);
    t_assert_bits_eq(d.spec.problem.sink[1], 2);
    assert_false(d.present[RT_DSINK] || d.present[RT_DBIAS]);
    rt_dump_close(&d);
}

static void refused(const char *folder, const char *keys, rt_status want, const char *says)
{
    rt_context ctx = {0};
    rt_dump d;
    write_spec(folder, keys);
    t_assert_status(&ctx, rt_dump_open(&ctx, &folder, 1, NULL, &d), want);
    t_assert_says(&ctx, says);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    const char *folder = t_scratch("wrong");
    const double bad[H] = {1, T_NAN}, inf[S] = {0, 0, 0, T_INF, 0, 0};
    write_inputs(folder);
    write_rows(folder, "bias", 1);
    write_npy(folder, "rank0.sink", 1, (int64_t[]){H}, bad);
    write_npy(folder, "rank0.row", 4, (int64_t[]){1, 1, 1, S}, inf);
    refused(folder, "\"sink\": \"sink\"", RT_ERR_FORMAT, "sink of head 1 is nan; it must be finite");
    refused(folder, "\"bias\": {\"shape\": \"111s\", \"tensor\": \"row\"}", RT_ERR_FORMAT,
            "bias at (0, 0, 0, 3) is inf; it must be finite, or -inf");
    refused(folder, "\"bias\": {\"shape\": \"11ss\"}", RT_ERR_FORMAT,
            "tensor 'bias' is f64 (1, 2, 2, 6); the spec gives (1, 1, 2, 6)");
    refused(folder, "\"bias\": {\"shape\": \"1hss\", \"tensor\": \"b\"}", RT_ERR_IO, "rank0.b.npy");
    refused(folder, "\"bias\": {\"shape\": \"1hss\", \"tensor\": \"b.npy\"}", RT_ERR_IO, "b.npy");
    assert_int_equal(unlink(t_scratch("wrong/rank1.bias.npy")), 0);
    refused(folder, "\"bias\": {\"shape\": \"1hss\"}", RT_ERR_IO, "rank1.bias.npy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_hold_their_rows),
        cmocka_unit_test(a_file_beside_holds_the_whole),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, t_scratch_setup, t_scratch_teardown);
}
