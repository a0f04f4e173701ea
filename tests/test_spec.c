/* The spec: what each key means, that each key broken in any way is refused by name, and that what is
 * written parses back to the same. */
#include "check.h"
#include "scratch.h"

#include <ringtrue/io.h>

/* A good spec, key by key, so that a test can replace any value. */
typedef struct {
    const char *key, *value;
} entry;
static const entry good[] = {
    {"ringtrue", "1"},
    {"comment", "\"any text\""},
    {"batch", "2"},
    {"seqlen", "12"},
    {"seqlen_k", "20"},
    {"heads", "8"},
    {"kv_heads", "2"},
    {"dim", "16"},
    {"dim_v", "24"},
    {"scale", "{\"f32\": 0.1}"},
    {"mask", "\"causal-bottom-right\""},
    {"cu_seqlens", "[0, 5, 5, 12]"},
    {"cu_seqlens_k", "[0, 9, 9, 20]"},
    {"order", "\"sbhd\""},
    {"tensors", "{\"q\": \"query\", \"lse\": \"softmax_lse\"}"},
    {"lse", "{\"shape\": \"sbh\", \"base\": \"2\"}"},
    {"ranks", "3"},
    {"layout", "{\"positions\": \"pos\", \"positions_k\": \"pos_k\"}"},
    {"remainder", "\"ceil\""},
    {"algorithm", "\"ring\""},
    {"arithmetic",
     "{\"accumulate\": \"tc-hopper\", \"exp\": 6e-5, \"tanh\": 3e-4, \"block_keys\": 128, "
     "\"probabilities\": \"bf16\", "
     "\"partial\": \"f16\", \"state\": \"f32\", \"join\": \"raw\", \"grad_partial\": \"tf32\", "
     "\"grad_state\": \"f64\"}"},
};
#define N_KEYS (sizeof good / sizeof good[0])

/* The good spec with the value of `key` replaced (NULL: left out) and `more` added. */
static char *spec_text(const char *key, const char *value, const char *more)
{
    static char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, "{");
    bool first = true;
    for (size_t i = 0; i < N_KEYS; i++) {
        bool this = key && strcmp(key, good[i].key) == 0;
        if (this && !value)
            continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\n \"%s\": %s", first ? "" : ",",
                                 good[i].key, this ? value : good[i].value);
        first = false;
    }
    (void)snprintf(text + used, sizeof text - used, "%s}", more ? more : "");
    return text;
}

static void parse(const char *text, rt_dtype input, rt_spec *out)
{
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_spec_parse(&ctx, text, strlen(text), "spec.json", input, out));
}

static void expect_error(const char *text, const char *says)
{
    rt_context ctx = {0};
    rt_spec s, before;
    memset(&s, 0x5a, sizeof s);
    memset(&before, 0x5a, sizeof before);
    rt_status st = rt_spec_parse(&ctx, text, strlen(text), "spec.json", RT_BF16, &s);
    if (st != RT_ERR_FORMAT)
        print_error("accepted, or another status: %s\n", text);
    t_assert_status(&ctx, st, RT_ERR_FORMAT);
    t_assert_says(&ctx, "spec.json");
    t_assert_says(&ctx, says);
    assert_memory_equal(&s, &before, sizeof s);
}

static void spec_each_key_is_read(void **state)
{
    (void)state;
    rt_spec s;
    parse(spec_text(NULL, NULL, NULL), RT_BF16, &s);
    const rt_problem *p = &s.problem;
    assert_int_equal(p->batch, 2);
    assert_int_equal(p->seqlen_q, 12);
    assert_int_equal(p->seqlen_k, 20);
    assert_int_equal(p->heads_q, 8);
    assert_int_equal(p->heads_kv, 2);
    assert_int_equal(p->dim, 16);
    assert_int_equal(p->dim_v, 24);
    assert_int_equal(p->scale_kind, RT_SCALE_F32);
    t_assert_bits_eq(p->scale, 0x1.99999ap-4);
    assert_int_equal(p->mask, RT_MASK_CAUSAL_BOTTOM_RIGHT);
    assert_int_equal(p->documents, 3);
    const int64_t cu_q[4] = {0, 5, 5, 12}, cu_k[4] = {0, 9, 9, 20};
    assert_memory_equal(p->cu_q, cu_q, sizeof cu_q);
    assert_memory_equal(p->cu_k, cu_k, sizeof cu_k);
    assert_int_equal(s.order, RT_ORDER_SBHD);
    assert_string_equal(s.names[RT_Q], "query");
    assert_string_equal(s.names[RT_LSE], "softmax_lse");
    assert_string_equal(s.names[RT_DOUT], "dout");
    assert_int_equal(s.lse_shape, RT_LSE_SBH);
    assert_true(s.lse_base2);
    assert_int_equal(s.ranks, 3);
    assert_string_equal(s.layout, "positions");
    assert_string_equal(s.positions, "pos");
    assert_string_equal(s.positions_k, "pos_k");
    assert_int_equal(s.remainder, RT_REMAINDER_CEIL);
    assert_string_equal(s.algorithm, "ring");
    const rt_declared *d = &s.declared;
    assert_int_equal(d->accumulate, RT_ACC_TC);
    assert_string_equal(d->accumulate_name, "tc-hopper");
    t_assert_bits_eq(d->exp_rel, 6e-5);
    t_assert_bits_eq(d->tanh_rel, 3e-4);
    assert_int_equal(d->block_keys, 128);
    assert_int_equal(d->probabilities, RT_BF16);
    assert_int_equal(d->partial, RT_F16);
    assert_int_equal(d->state, RT_F32);
    assert_int_equal(d->join, RT_JOIN_RAW);
    assert_int_equal(d->grad_partial, RT_TF32);
    assert_int_equal(d->grad_state, RT_F64);
    assert_int_equal(d->assumed, 0);
    rt_spec_reset(&s);
}

#define SHORT "{\"ringtrue\": 1, \"batch\": 1, \"seqlen\": 9, \"heads\": 4, \"dim\": 8, \"mask\": \"full\""

static void spec_defaults_are_as_documented(void **state)
{
    (void)state;
    rt_spec s;
    rt_declared d;
    parse(SHORT "}", RT_F16, &s);
    const rt_problem *p = &s.problem;
    assert_int_equal(p->seqlen_k, 9);
    assert_int_equal(p->heads_kv, 4);
    assert_int_equal(p->dim_v, 8);
    assert_int_equal(p->scale_kind, RT_SCALE_RSQRT_DIM);
    t_assert_bits_eq(p->scale, 0x1.6a09e667f3bcdp-2);
    assert_int_equal(p->documents, 0);
    assert_null(p->cu_q);
    assert_int_equal(s.order, RT_ORDER_BSHD);
    for (int t = 0; t < RT_TENSOR_COUNT; t++)
        assert_string_equal(s.names[t], rt_tensor_name((rt_tensor_id)t));
    assert_int_equal(s.lse_shape, RT_LSE_BHS);
    assert_false(s.lse_base2);
    assert_int_equal(s.ranks, 1);
    assert_string_equal(s.layout, "contiguous");
    assert_null(s.positions);
    assert_int_equal(s.remainder, RT_REMAINDER_SPREAD);
    assert_string_equal(s.algorithm, "single");
    rt_declared_init(&d, RT_F16);
    assert_memory_equal(&s.declared, &d, sizeof d);
    assert_int_equal(d.assumed, RT_DECL_ALL);
    rt_spec_reset(&s);

    /* each field of the arithmetic clears its own bit */
    static const struct {
        const char *text;
        uint32_t bit;
    } fields[] = {{"\"accumulate\": \"f64\"", RT_DECL_ACCUMULATE},
                  {"\"exp\": 0", RT_DECL_EXP},
                  {"\"tanh\": 0", RT_DECL_TANH},
                  {"\"block_keys\": 1", RT_DECL_BLOCK},
                  {"\"probabilities\": \"f32\"", RT_DECL_PROBABILITIES},
                  {"\"partial\": \"f32\"", RT_DECL_PARTIAL},
                  {"\"state\": \"bf16\"", RT_DECL_STATE},
                  {"\"join\": \"split\"", RT_DECL_JOIN},
                  {"\"grad_partial\": \"f32\"", RT_DECL_GRAD_PARTIAL},
                  {"\"grad_state\": \"f32\"", RT_DECL_GRAD_STATE}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        char text[300];
        (void)snprintf(text, sizeof text, SHORT ", \"arithmetic\": {%s}}", fields[i].text);
        parse(text, RT_F16, &s);
        assert_int_equal(s.declared.assumed, (uint32_t)RT_DECL_ALL & ~fields[i].bit);
        rt_spec_reset(&s);
    }
    parse(SHORT ", \"arithmetic\": \"f64\"}", RT_F16, &s);
    assert_true(rt_declared_of("f64", &d));
    assert_memory_equal(&s.declared, &d, sizeof d);
    rt_spec_reset(&s);
    parse(SHORT ", \"cu_seqlens\": [0, 4, 9]}", RT_F16, &s);
    assert_memory_equal(s.problem.cu_q, s.problem.cu_k, 3 * sizeof(int64_t));
    rt_spec_reset(&s);
}

static void spec_scale_is_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        rt_scale_kind kind;
        double value;
    } scales[] = {{"\"rsqrt_dim\"", RT_SCALE_RSQRT_DIM, 0x1.6a09e667f3bcdp-2},
                  {"{\"f32\": \"rsqrt_dim\"}", RT_SCALE_F32, 0x1.6a09e6p-2},
                  {"{\"f64\": \"rsqrt_dim\"}", RT_SCALE_F64, 0x1.6a09e667f3bcdp-2},
                  {"{\"f32\": 0.35355339059327373}", RT_SCALE_F32, 0x1.6a09e6p-2},
                  {"{\"f64\": 0.1}", RT_SCALE_F64, 0.1},
                  {"{\"f32\": 1}", RT_SCALE_F32, 1},
                  {"{\"f64\": -2.5}", RT_SCALE_F64, -2.5},
                  {"{\"f64\": 5e-324}", RT_SCALE_F64, 0x1p-1074}};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        char text[300];
        rt_spec s;
        (void)snprintf(text, sizeof text, SHORT ", \"scale\": %s}", scales[i].text);
        parse(text, RT_F32, &s);
        assert_int_equal(s.problem.scale_kind, scales[i].kind);
        t_assert_bits_eq(s.problem.scale, scales[i].value);
        rt_spec_reset(&s);
    }
}

/* Values that a key must not have; every key must be here (checked below). */
static const entry bad[] = {
    {"ringtrue", "2"},
    {"ringtrue", "0"},
    {"ringtrue", "\"1\""},
    {"ringtrue", "1.0"},
    {"comment", "3"},
    {"batch", "0"},
    {"batch", "-1"},
    {"batch", "1.5"},
    {"batch", "2.0"},
    {"batch", "true"},
    {"seqlen", "0"},
    {"seqlen", "\"12\""},
    {"seqlen", "1099511627777"},
    {"seqlen", "9223372036854775807"},
    {"seqlen_k", "0"},
    {"seqlen_k", "null"},
    {"heads", "0"},
    {"heads", "[8]"},
    {"kv_heads", "3"},
    {"kv_heads", "16"},
    {"kv_heads", "0"},
    {"dim", "0"},
    {"dim", "{}"},
    {"dim_v", "0"},
    {"dim_v", "\"x\""},
    {"scale", "0.125"},
    {"scale", "\"rsqrt\""},
    {"scale", "{}"},
    {"scale", "{\"f32\": 1, \"f64\": 1}"},
    {"scale", "{\"bf16\": 1}"},
    {"scale", "{\"f32\": \"x\"}"},
    {"scale", "{\"f32\": 1e39}"},
    {"scale", "{\"f32\": null}"},
    {"mask", "\"diagonal\""},
    {"mask", "\"Causal\""},
    {"mask", "1"},
    {"cu_seqlens", "12"},
    {"cu_seqlens", "[]"},
    {"cu_seqlens", "[0]"},
    {"cu_seqlens", "[0, 5, 5, 11]"},
    {"cu_seqlens", "[1, 5, 5, 12]"},
    {"cu_seqlens", "[0, 5, 4, 12]"},
    {"cu_seqlens", "[0, 5.0, 5, 12]"},
    {"cu_seqlens", "[0, 5, 13, 12]"},
    {"cu_seqlens_k", "[0, 20]"},
    {"cu_seqlens_k", "[0, 9, 9, 12]"},
    {"cu_seqlens_k", "\"x\""},
    {"order", "\"thd\""},
    {"order", "4"},
    {"tensors", "[]"},
    {"tensors.q", "{\"q\": 1}"},
    {"tensors.q", "{\"q\": \"\"}"},
    {"x", "{\"x\": \"y\"}"},
    {"tensors.v", "{\"v\": \"k\"}"},
    {"lse", "\"bhs\""},
    {"lse.shape", "{\"shape\": \"hbs\"}"},
    {"lse.base", "{\"base\": 2}"},
    {"lse.base", "{\"base\": \"10\"}"},
    {"axes", "{\"axes\": \"bhs\"}"},
    {"ranks", "0"},
    {"ranks", "1048577"},
    {"ranks", "\"3\""},
    {"layout", "\"zig-zag\""},
    {"layout", "\"positions\""},
    {"layout", "3"},
    {"layout.positions", "{}"},
    {"layout.positions", "{\"positions\": 3}"},
    {"layout.positions_k", "{\"positions\": \"pos\"}"},
    {"layout.positions_k", "{\"positions\": \"pos\", \"positions_k\": \"\"}"},
    {"list", "{\"positions\": \"pos\", \"list\": \"pos\"}"},
    {"remainder", "\"first\""},
    {"remainder", "0"},
    {"algorithm", "\"magic\""},
    {"algorithm", "null"},
    {"arithmetic", "\"f17\""},
    {"arithmetic", "64"},
    {"arithmetic.accumulate", "{\"accumulate\": \"f16\"}"},
    {"arithmetic.accumulate", "{\"accumulate\": 32}"},
    {"arithmetic.exp", "{\"exp\": \"1e-4\"}"},
    {"arithmetic.exp", "{\"exp\": -1e-4}"},
    {"arithmetic.exp", "{\"exp\": 1}"},
    {"arithmetic.tanh", "{\"tanh\": 1}"},
    {"arithmetic.tanh", "{\"tanh\": \"fast\"}"},
    {"arithmetic.block_keys", "{\"block_keys\": 0}"},
    {"arithmetic.block_keys", "{\"block_keys\": 1.5}"},
    {"arithmetic.probabilities", "{\"probabilities\": \"i32\"}"},
    {"arithmetic.partial", "{\"partial\": \"f8\"}"},
    {"arithmetic.state", "{\"state\": 32}"},
    {"arithmetic.join", "{\"join\": \"sum\"}"},
    {"arithmetic.grad_partial", "{\"grad_partial\": \"bool\"}"},
    {"arithmetic.grad_state", "{\"grad_state\": null}"},
    {"rounding", "{\"rounding\": \"up\"}"},
};

/* "arithmetic.exp" breaks the value of "arithmetic"; a name that is no key is one inside the object given.
 */
static const char *outer_key(size_t i)
{
    for (size_t k = 0; k < N_KEYS; k++) {
        size_t n = strlen(good[k].key);
        if (strncmp(bad[i].key, good[k].key, n) == 0 && (bad[i].key[n] == '\0' || bad[i].key[n] == '.'))
            return good[k].key;
    }
    for (; i > 0; i--) {
        if (strchr(bad[i - 1].key, '.'))
            return outer_key(i - 1);
    }
    return NULL;
}

static void spec_each_key_broken_is_named(void **state)
{
    (void)state;
    char quoted[80];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(quoted, sizeof quoted, "\"%s\"", bad[i].key);
        expect_error(spec_text(outer_key(i), bad[i].value, NULL), quoted);
    }
    for (size_t k = 0; k < N_KEYS; k++) { /* none forgotten; wrong type; twice */
        size_t i = 0;
        while (i < sizeof bad / sizeof bad[0] && strcmp(bad[i].key, good[k].key) != 0)
            i++;
        assert_true(i < sizeof bad / sizeof bad[0]);
        char more[600];
        (void)snprintf(quoted, sizeof quoted, "\"%s\"", good[k].key);
        expect_error(spec_text(good[k].key, "[[]]", NULL), quoted);
        (void)snprintf(more, sizeof more, ",\n \"%s\": %s", good[k].key, good[k].value);
        char *text = spec_text(NULL, NULL, more);
        expect_error(text, good[k].key);
        expect_error(text, "duplicate key at line 23");
        (void)snprintf(more, sizeof more, ",\n \"%sx\": %s", good[k].key, good[k].value);
        (void)snprintf(quoted, sizeof quoted, "unknown key \"%sx\"", good[k].key);
        expect_error(spec_text(NULL, NULL, more), quoted);
    }
}

static void spec_missing_keys_are_named(void **state)
{
    (void)state;
    static const char *const required[] = {"ringtrue", "batch", "seqlen", "heads", "dim", "mask"};
    char quoted[80];
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        (void)snprintf(quoted, sizeof quoted, "\"%s\" is missing", required[i]);
        expect_error(spec_text(required[i], NULL, NULL), quoted);
    }
    expect_error(spec_text("cu_seqlens_k", NULL, NULL), "\"cu_seqlens_k\" is missing");
    expect_error(spec_text("cu_seqlens", NULL, NULL), "\"cu_seqlens_k\"");
    expect_error("", "not JSON");
    expect_error("[]", "must be a JSON object");
    expect_error("{\"ringtrue\": 1,\n \"batch\": }", "line 2");
    expect_error("{\"bad\\nkey\\u0007\": \"a\\nb\"}", "unknown key \"bad?key?\"");
}

static void spec_cut_anywhere_is_an_error(void **state)
{
    (void)state;
    const char *text = spec_text(NULL, NULL, NULL);
    size_t size = strlen(text);
    for (size_t n = 0; n < size; n++) {
        rt_context ctx = {0};
        rt_spec s;
        t_assert_status(&ctx, rt_spec_parse(&ctx, text, n, "spec.json", RT_BF16, &s), RT_ERR_FORMAT);
    }
}

static void assert_equal(const rt_spec *a, const rt_spec *b)
{
    assert_true(rt_problem_digest(&a->problem) == rt_problem_digest(&b->problem));
    assert_int_equal(a->problem.scale_kind, b->problem.scale_kind);
    t_assert_bits_eq(a->problem.scale, b->problem.scale);
    assert_int_equal(a->problem.mask, b->problem.mask);
    assert_int_equal(a->problem.documents, b->problem.documents);
    assert_int_equal(a->order, b->order);
    for (int t = 0; t < RT_TENSOR_COUNT; t++)
        assert_string_equal(a->names[t], b->names[t]);
    assert_int_equal(a->lse_shape, b->lse_shape);
    assert_int_equal(a->lse_base2, b->lse_base2);
    assert_int_equal(a->ranks, b->ranks);
    assert_string_equal(a->layout, b->layout);
    assert_int_equal(a->remainder, b->remainder);
    assert_int_equal(a->positions != NULL, b->positions != NULL);
    assert_int_equal(a->positions_k != NULL, b->positions_k != NULL);
    if (a->positions)
        assert_string_equal(a->positions, b->positions);
    if (a->positions_k)
        assert_string_equal(a->positions_k, b->positions_k);
    assert_string_equal(a->algorithm, b->algorithm);
    assert_memory_equal(&a->declared, &b->declared, sizeof a->declared);
}

static void spec_written_parses_back_equal(void **state)
{
    (void)state;
    static const char *const more[] = {NULL, "\"f64\"", "{\"exp\": 2.3841857910156251e-07}",
                                       "{\"join\": \"two-pass\", \"grad_state\": \"bf16\"}"};
    for (int i = 0; i < 5; i++) {
        rt_context ctx = {0};
        rt_spec s, copy, back;
        char text[600];
        char *written = NULL;
        (void)snprintf(
            text, sizeof text,
            SHORT
            ", \"scale\": {\"f64\": 0.14433756729740646}, \"layout\": \"striped\", \"arithmetic\": %s}",
            i < 4 && more[i] ? more[i] : "{}");
        parse(i < 4 ? text : spec_text(NULL, NULL, NULL), RT_F16, &s);
        t_assert_ok(&ctx, rt_spec_copy(&ctx, &s, &copy));
        t_assert_ok(&ctx, rt_spec_write(&ctx, &s, &written));
        assert_equal(&s, &copy);
        parse(written, RT_F16, &back);
        assert_equal(&s, &back);
        rt_spec_reset(&s);
        assert_equal(&copy, &back); /* the copy stands alone */
        rt_spec_reset(&copy);
        rt_spec_reset(&back);
        rt_free(written);
    }
}

static void spec_masks_parse_back_equal(void **state)
{
    (void)state;
    static const char *const more[] = {
        "\"window\": [3, -1], \"prefix\": 2",
        "\"slices\": [[0, 4, 0, 8, \"causal\"], [4, 8, 2, 4, \"full\"], [4, 8, 4, 8, \"bi-causal\"]]",
        "\"key_lengths\": [5, 0]", "\"key_ranges\": [[[0, 2], [3, 5]], [[7, 8]]]",
        "\"window\": [-1, -1], \"key_ranges\": [[[0, 2], [2, 8]], [[0, 8]]], \"dense_mask\": \"d.npy\""};
    for (int i = 0; i < 5; i++) {
        rt_context ctx = {0};
        rt_spec s, copy, back;
        char text[400], *written = NULL;
        (void)snprintf(text, sizeof text,
                       "{\"ringtrue\": 1, \"batch\": 2, \"seqlen\": 8, \"heads\": 1, \"dim\": 4, \"mask\": "
                       "\"full\", %s}",
                       more[i]);
        parse(text, RT_F16, &s);
        const rt_problem *p = &s.problem;
        assert_int_equal(p->has_window, i == 0 || i == 4);
        assert_int_equal(p->window_left, i == 0 ? 3 : i == 4 ? -1 : 0);
        assert_int_equal(p->prefix, i == 0 ? 2 : 0);
        assert_int_equal(p->n_slices, i == 1 ? 3 : 0);
        assert_int_equal(p->key_valid != NULL, i >= 2);
        if (i == 1)
            assert_true(p->slices[0].q1 == 4 && p->slices[1].k0 == 2 && p->slices[2].k1 == 8 &&
                        p->slices[2].kind == RT_SLICE_BI_CAUSAL);
        for (int j = 0; i >= 2 && j < 8; j++) {
            assert_int_equal(p->key_valid[j], i == 2 ? j < 5 : i == 3 ? j < 2 || j == 3 || j == 4 : 1);
            assert_int_equal(p->key_valid[8 + j], i == 2 ? 0 : i == 3 ? j == 7 : 1);
        }
        t_assert_ok(&ctx, rt_spec_copy(&ctx, &s, &copy));
        t_assert_ok(&ctx, rt_spec_write(&ctx, &s, &written));
        parse(written, RT_F16, &back);
        assert_equal(&s, &back);
        rt_spec_reset(&s);
        assert_equal(&copy, &back);
        assert_int_equal(copy.dense_mask != NULL, i == 4);
        if (i == 4)
            assert_string_equal(back.dense_mask, "d.npy");
        rt_spec_reset(&copy);
        rt_spec_reset(&back);
        rt_free(written);
    }
}

static void spec_init_is_the_shortest_spec(void **state)
{
    (void)state;
    rt_context ctx = {0};
    rt_spec s, t;
    parse(SHORT "}", RT_BF16, &s);
    t_assert_ok(&ctx, rt_spec_init(&ctx, &s.problem, RT_BF16, &t));
    assert_equal(&s, &t);
    rt_spec_reset(&s);
    t.problem.scale_kind = RT_SCALE_F64;
    t.problem.scale = t_from_bits(UINT64_C(0x7ff0000000000000));
    char *written = NULL;
    t_assert_status(&ctx, rt_spec_write(&ctx, &t, &written), RT_ERR_ARG); /* JSON has no infinity */
    assert_null(written);
    rt_spec_reset(&t);
    rt_spec_reset(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spec_each_key_is_read),
        cmocka_unit_test(spec_defaults_are_as_documented),
        cmocka_unit_test(spec_scale_is_exact),
        cmocka_unit_test(spec_each_key_broken_is_named),
        cmocka_unit_test(spec_missing_keys_are_named),
        cmocka_unit_test(spec_cut_anywhere_is_an_error),
        cmocka_unit_test(spec_written_parses_back_equal),
        cmocka_unit_test(spec_masks_parse_back_equal),
        cmocka_unit_test(spec_init_is_the_shortest_spec),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
