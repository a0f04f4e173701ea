/* The problem: its rules, the scale to the last bit, and masks against their definition. */
#include <ringtrue/problem.h>

#include "check.h"

static rt_problem problem_make(int64_t sq, int64_t sk, rt_mask_kind mask)
{
    rt_problem p;
    memset(&p, 0, sizeof p);
    p.batch = 1;
    p.seqlen_q = sq;
    p.seqlen_k = sk;
    p.heads_q = 8;
    p.heads_kv = 2;
    p.dim = 64;
    p.dim_v = 64;
    p.scale_kind = RT_SCALE_RSQRT_DIM;
    p.scale = rt_rsqrt_dim(64);
    p.mask = mask;
    return p;
}

static uint32_t random_next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static int64_t random_below(uint32_t *state, int64_t n)
{
    return (int64_t)random_next(state) % n;
}

static int int64_compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void random_cut(uint32_t *state, int64_t *cu, int64_t documents, int64_t length)
{
    cu[0] = 0;
    for (int64_t n = 1; n < documents; n++)
        cu[n] = random_below(state, length + 1);
    cu[documents] = length;
    qsort(cu, (size_t)documents + 1, sizeof *cu, int64_compare);
}

/* A random problem with Sq, Sk in 1 .. 24, any mask, and 0 to 5 documents, some of them empty. */
static rt_problem problem_random(uint32_t *state)
{
    rt_problem p = problem_make(1 + random_below(state, 24), 1 + random_below(state, 24),
                                (rt_mask_kind)random_below(state, 3));
    p.documents = random_below(state, 6);
    if (p.documents > 0) {
        p.cu_q = rt_alloc(NULL, p.documents + 1, sizeof *p.cu_q);
        p.cu_k = rt_alloc(NULL, p.documents + 1, sizeof *p.cu_k);
        assert_non_null(p.cu_q);
        assert_non_null(p.cu_k);
        random_cut(state, p.cu_q, p.documents, p.seqlen_q);
        random_cut(state, p.cu_k, p.documents, p.seqlen_k);
    }
    return p;
}

/* The definition, for one pair: the document is found by walking. */
static bool visible(const rt_problem *p, int64_t i, int64_t j)
{
    int64_t q0 = 0, q1 = p->seqlen_q, k0 = 0, k1 = p->seqlen_k;
    for (int64_t n = 0; n < p->documents; n++) {
        if (p->cu_q[n] <= i && i < p->cu_q[n + 1]) {
            q0 = p->cu_q[n];
            q1 = p->cu_q[n + 1];
            k0 = p->cu_k[n];
            k1 = p->cu_k[n + 1];
        }
    }
    if (j < k0 || j >= k1)
        return false;
    if (p->mask == RT_MASK_CAUSAL)
        return j - k0 <= i - q0;
    if (p->mask == RT_MASK_CAUSAL_BOTTOM_RIGHT)
        return j - k0 <= i - q0 + ((k1 - k0) - (q1 - q0));
    return true;
}

static void mask_random_row_and_column_match_definition(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        rt_problem p = problem_random(&seed);
        rt_context ctx = {0};
        t_assert_ok(&ctx, rt_problem_check(&ctx, &p));
        int64_t seen = 0, total = 0;
        for (int64_t i = 0; i < p.seqlen_q; i++) {
            int64_t lo, hi;
            rt_mask_row(&p, i, &lo, &hi);
            assert_true(lo < hi || (lo == 0 && hi == 0));
            assert_true(lo >= 0 && hi <= p.seqlen_k);
            total += hi - lo;
            for (int64_t j = 0; j < p.seqlen_k; j++) {
                int64_t c0, c1;
                rt_mask_column(&p, j, &c0, &c1);
                assert_true(c0 < c1 || (c0 == 0 && c1 == 0));
                assert_true(c0 >= 0 && c1 <= p.seqlen_q);
                assert_int_equal(lo <= j && j < hi, visible(&p, i, j));
                assert_int_equal(c0 <= i && i < c1, visible(&p, i, j));
                seen += visible(&p, i, j);
            }
        }
        assert_int_equal(seen, total);
        rt_problem_reset(&p);
    }
}

static void mask_pairs_any_lists_match_definition(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (int round = 0; round < 2000; round++) {
        rt_problem p = problem_random(&seed);
        int64_t q[24], k[24], nq = 0, nk = 0, want = 0;
        for (int64_t i = 0; i < p.seqlen_q; i++) {
            if (random_below(&seed, 2) == 0)
                q[nq++] = i;
        }
        for (int64_t j = 0; j < p.seqlen_k; j++) {
            if (random_below(&seed, 2) == 0)
                k[nk++] = j;
        }
        for (int64_t n = nk - 1; n > 0 && round % 2 == 0; n--) { /* every other list in a random order */
            int64_t m = random_below(&seed, n + 1), t = k[n];
            k[n] = k[m];
            k[m] = t;
        }
        for (int64_t a = 0; a < nq; a++) {
            for (int64_t b = 0; b < nk; b++)
                want += visible(&p, q[a], k[b]);
        }
        assert_int_equal(rt_mask_pairs(&p, q, nq, k, nk), want);
        rt_problem_reset(&p);
    }
}

static void mask_sq_ne_sk_corners(void **state)
{
    (void)state;
    int64_t lo, hi;
    rt_problem p = problem_make(3, 5, RT_MASK_CAUSAL);
    rt_mask_row(&p, 0, &lo, &hi);
    assert_true(lo == 0 && hi == 1);
    rt_mask_column(&p, 4, &lo, &hi); /* beyond the last query */
    assert_true(lo == 0 && hi == 0);
    p.mask = RT_MASK_CAUSAL_BOTTOM_RIGHT;
    rt_mask_row(&p, 0, &lo, &hi);
    assert_true(lo == 0 && hi == 3);
    rt_mask_row(&p, 2, &lo, &hi);
    assert_true(lo == 0 && hi == 5);
    p = problem_make(5, 3, RT_MASK_CAUSAL_BOTTOM_RIGHT);
    rt_mask_row(&p, 1, &lo, &hi); /* an empty row */
    assert_true(lo == 0 && hi == 0);
    rt_mask_row(&p, 2, &lo, &hi);
    assert_true(lo == 0 && hi == 1);
}

static void document_empty_ones_are_skipped(void **state)
{
    (void)state;
    int64_t cu_q[] = {0, 0, 3, 3, 5}, cu_k[] = {0, 2, 2, 2, 4};
    rt_problem p = problem_make(5, 4, RT_MASK_FULL);
    p.documents = 4;
    p.cu_q = cu_q;
    p.cu_k = cu_k;
    assert_int_equal(rt_document_of_query(&p, 0), 1);
    assert_int_equal(rt_document_of_query(&p, 2), 1);
    assert_int_equal(rt_document_of_query(&p, 3), 3);
    assert_int_equal(rt_document_of_key(&p, 1), 0);
    assert_int_equal(rt_document_of_key(&p, 2), 3);
    int64_t lo, hi;
    rt_mask_row(&p, 0, &lo, &hi); /* document 1 has no keys */
    assert_true(lo == 0 && hi == 0);
    rt_mask_row(&p, 4, &lo, &hi);
    assert_true(lo == 2 && hi == 4);
}

/* Computed with 400-bit integers. */
static void rsqrt_dim_is_correctly_rounded(void **state)
{
    (void)state;
    static const struct {
        int64_t dim;
        double want;
    } list[] = {{1, 0x1p+0},
                {2, 0x1.6a09e667f3bcdp-1},
                {3, 0x1.279a74590331cp-1},
                {4, 0x1p-1},
                {5, 0x1.c9f25c5bfedd9p-2},
                {6, 0x1.a20bd700c2c3ep-2},
                {7, 0x1.83091e6a7f7e7p-2},
                {24, 0x1.a20bd700c2c3ep-3},
                {32, 0x1.6a09e667f3bcdp-3},
                {40, 0x1.43d136248490fp-3},
                {48, 0x1.279a74590331cp-3},
                {56, 0x1.11acee560242ap-3},
                {64, 0x1p-3},
                {72, 0x1.e2b7dddfefa66p-4},
                {80, 0x1.c9f25c5bfedd9p-4},
                {96, 0x1.a20bd700c2c3ep-4},
                {100, 0x1.999999999999ap-4},
                {112, 0x1.83091e6a7f7e7p-4},
                {120, 0x1.75e9746a0b098p-4},
                {128, 0x1.6a09e667f3bcdp-4},
                {192, 0x1.279a74590331cp-4},
                {256, 0x1p-4},
                {320, 0x1.c9f25c5bfedd9p-5},
                {576, 0x1.5555555555555p-5},
                {999, 0x1.032ef3f5dc32cp-5},
                {1536, 0x1.a20bd700c2c3ep-6},
                {3000, 0x1.2b2129ee6f3adp-6},
                {4093, 0x1.0018036087163p-6},
                {4096, 0x1p-6},
                {INT64_C(9007199254740993), 0x1.6a09e667f3bccp-27},
                {INT64_C(4611686018427400249), 0x1.ffffffffffff4p-32},
                {INT64_MAX, 0x1.6a09e667f3bcdp-32}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        t_assert_bits_eq(rt_rsqrt_dim(list[i].dim), list[i].want);
    /* a rolling sum of the bits of dims 1 .. 4096, from the same 400-bit integers */
    uint64_t sum = 0;
    for (int64_t d = 1; d <= 4096; d++)
        sum = sum * UINT64_C(6364136223846793005) + t_bits(rt_rsqrt_dim(d));
    assert_true(sum == UINT64_C(0xe6b5828e4e69a15c));
    t_assert_bits_eq(rt_rsqrt_dim(0), T_NAN);
}

static void problem_check_names_what_is_broken(void **state)
{
    (void)state;
    int64_t good[] = {0, 4, 16}, falls[] = {0, 9, 4}, ends[] = {0, 4, 15}, starts[] = {1, 4, 16};
    const rt_problem base = problem_make(16, 16, RT_MASK_CAUSAL);
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_problem_check(&ctx, &base));
#define BROKEN(change, word)                                                                               \
    do {                                                                                                   \
        rt_problem p = base;                                                                               \
        rt_context c = {0};                                                                                \
        change;                                                                                            \
        t_assert_status(&c, rt_problem_check(&c, &p), RT_ERR_ARG);                                         \
        if (strstr(c.message, word) == NULL)                                                               \
            fail_msg("\"%s\" does not say %s", c.message, word);                                           \
    } while (0)
    BROKEN(p.batch = 0, "batch");
    BROKEN(p.seqlen_q = 0, "seqlen");
    BROKEN(p.seqlen_k = -1, "seqlen_k");
    BROKEN(p.heads_q = 0, "heads");
    BROKEN(p.heads_kv = 0, "kv_heads");
    BROKEN(p.heads_kv = 3, "multiple");
    BROKEN(p.dim = 0, "dim");
    BROKEN(p.dim_v = 0, "dim_v");
    BROKEN(p.seqlen_q = INT64_MAX, "too large");
    BROKEN(p.scale = T_INF, "finite");
    BROKEN(p.scale = T_NAN, "finite");
    BROKEN(p.scale = 0.5, "1/sqrt(64)");
    BROKEN((p.scale_kind = RT_SCALE_F32, p.scale = 0.1), "binary32");
    BROKEN(p.scale_kind = (rt_scale_kind)9, "scale kind");
    BROKEN(p.mask = (rt_mask_kind)9, "mask");
    BROKEN(p.documents = -1, "documents");
    BROKEN(p.cu_q = good, "documents is 0");
    BROKEN((p.documents = 2, p.cu_k = good), "cu_seqlens_q");
    BROKEN((p.documents = 2, p.cu_q = good), "cu_seqlens_k");
    BROKEN((p.documents = 2, p.cu_q = good, p.cu_k = falls), "falls");
    BROKEN((p.documents = 2, p.cu_q = ends, p.cu_k = good), "ends");
    BROKEN((p.documents = 2, p.cu_q = starts, p.cu_k = good), "starts");
#undef BROKEN
    rt_problem p = base;
    p.scale_kind = RT_SCALE_F32;
    p.scale = 0.125;
    t_assert_ok(&ctx, rt_problem_check(&ctx, &p));
    p.scale_kind = RT_SCALE_F64;
    p.scale = -0.1;
    t_assert_ok(&ctx, rt_problem_check(&ctx, &p));
}

static void problem_copy_owns_its_boundaries(void **state)
{
    (void)state;
    int64_t cu_q[] = {0, 4, 16}, cu_k[] = {0, 5, 16};
    rt_problem p = problem_make(16, 16, RT_MASK_CAUSAL), copy;
    p.documents = 2;
    p.cu_q = cu_q;
    p.cu_k = cu_k;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_problem_copy(&ctx, &p, &copy));
    assert_ptr_not_equal(copy.cu_q, cu_q);
    uint64_t digest = rt_problem_digest(&p);
    assert_true(rt_problem_digest(&copy) == digest);
    cu_q[1] = 3;
    assert_int_equal(copy.cu_q[1], 4);
    assert_int_equal(copy.cu_k[1], 5);
    assert_true(rt_problem_digest(&p) != digest);
    rt_problem_reset(&copy);
    assert_null(copy.cu_q);
}

static void problem_digest_changes_with_every_field(void **state)
{
    (void)state;
    int64_t cu[] = {0, 4, 16}, other[] = {0, 5, 16};
    rt_problem base = problem_make(16, 16, RT_MASK_CAUSAL);
    base.documents = 2;
    base.cu_q = base.cu_k = cu;
    rt_problem list[13];
    for (int i = 0; i < 13; i++)
        list[i] = base;
    list[0].batch = 2;
    list[1].seqlen_q = 17;
    list[2].seqlen_k = 17;
    list[3].heads_q = 16;
    list[4].heads_kv = 4;
    list[5].dim = 32;
    list[6].dim_v = 32;
    list[7].scale_kind = RT_SCALE_F64;
    list[8].scale = 0.25;
    list[9].mask = RT_MASK_FULL;
    list[10].documents = 1;
    list[11].cu_q = other;
    list[12].cu_k = other;
    for (int i = 0; i < 13; i++)
        assert_true(rt_problem_digest(&list[i]) != rt_problem_digest(&base));
    assert_true(rt_problem_digest(&list[11]) != rt_problem_digest(&list[12]));
    assert_true(rt_problem_digest(&list[1]) != rt_problem_digest(&list[2]));
}

static void mask_names_round_trip(void **state)
{
    (void)state;
    for (int m = 0; m < 3; m++) {
        rt_mask_kind back = RT_MASK_FULL;
        assert_true(rt_mask_parse(rt_mask_name((rt_mask_kind)m), &back));
        assert_int_equal(back, m);
    }
    rt_mask_kind untouched = RT_MASK_CAUSAL;
    assert_false(rt_mask_parse("Causal", &untouched));
    assert_int_equal(untouched, RT_MASK_CAUSAL);
    assert_string_equal(rt_mask_name(RT_MASK_CAUSAL_BOTTOM_RIGHT), "causal-bottom-right");
    assert_null(rt_mask_name((rt_mask_kind)3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mask_random_row_and_column_match_definition),
        cmocka_unit_test(mask_pairs_any_lists_match_definition),
        cmocka_unit_test(mask_sq_ne_sk_corners),
        cmocka_unit_test(document_empty_ones_are_skipped),
        cmocka_unit_test(rsqrt_dim_is_correctly_rounded),
        cmocka_unit_test(problem_check_names_what_is_broken),
        cmocka_unit_test(problem_copy_owns_its_boundaries),
        cmocka_unit_test(problem_digest_changes_with_every_field),
        cmocka_unit_test(mask_names_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
