/* Masks of every kind against their definition, pair by pair; their rules; worked values. */
#include "masks.h"

static rt_problem problem_make(int64_t batch, int64_t sq, int64_t sk, rt_mask_kind mask)
{
    return (rt_problem){.batch = batch,
                        .seqlen_q = sq,
                        .seqlen_k = sk,
                        .heads_q = 4,
                        .heads_kv = 2,
                        .dim = 64,
                        .dim_v = 64,
                        .scale_kind = RT_SCALE_RSQRT_DIM,
                        .scale = rt_rsqrt_dim(64),
                        .mask = mask};
}

static rt_problem problem_random(uint64_t *s, int parts)
{
    rt_problem p = problem_make(1 + t_mask_below(s, 3), 1 + t_mask_below(s, 24), 1 + t_mask_below(s, 24),
                                (rt_mask_kind)t_mask_below(s, 3));
    t_mask_random(s, parts, &p);
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_problem_check(&ctx, &p));
    return p;
}

static void row_check(const rt_problem *p, int64_t b, int64_t i, bool interval)
{
    int64_t lo, hi, all[24], seen_first = -1, seen_last = -1, n = 0;
    uint8_t seen[24];
    rt_mask_row(p, i, &lo, &hi);
    assert_true((lo < hi && lo >= 0 && hi <= p->seqlen_k) || (lo == 0 && hi == 0));
    for (int64_t j = 0; j < p->seqlen_k; j++)
        all[j] = p->seqlen_k - 1 - j; /* any order */
    const int64_t count = rt_mask_row_keys(p, b, i, all, p->seqlen_k, seen);
    for (int64_t j = 0; j < p->seqlen_k; j++) {
        const bool sees = t_mask_sees(p, b, i, j);
        int64_t c0, c1;
        rt_mask_column(p, j, &c0, &c1);
        assert_true((c0 < c1 && c0 >= 0 && c1 <= p->seqlen_q) || (c0 == 0 && c1 == 0));
        assert_int_equal(rt_mask_visible(p, b, i, j), sees);
        assert_int_equal(seen[p->seqlen_k - 1 - j], sees);
        assert_true(!sees || (lo <= j && j < hi && c0 <= i && i < c1));
        if (interval) {
            assert_int_equal(lo <= j && j < hi, sees);
            assert_int_equal(c0 <= i && i < c1, sees);
        }
        if (sees) {
            seen_first = seen_first < 0 ? j : seen_first;
            seen_last = j;
            n++;
        }
    }
    assert_int_equal(count, n);
    assert_int_equal(rt_mask_row_count(p, b, i, INT64_MAX), n);
    assert_int_equal(rt_mask_row_count(p, b, i, 1), n > 0);
    if (p->key_valid == NULL && p->dense == NULL) { /* the hull is the smallest */
        assert_int_equal(lo, n > 0 ? seen_first : 0);
        assert_int_equal(hi, n > 0 ? seen_last + 1 : 0);
    }
}

static void every_mask_matches_its_definition(void **state)
{
    (void)state;
    uint64_t s = 11;
    int64_t intervals = 0, others = 0;
    for (int round = 0; round < 3000; round++) {
        rt_problem p = problem_random(&s, round & T_MASK_ALL);
        const bool interval = rt_mask_is_interval(&p);
        intervals += interval;
        others += !interval;
        for (int64_t b = 0; b < p.batch; b++)
            for (int64_t i = 0; i < p.seqlen_q; i++)
                row_check(&p, b, i, interval);
        rt_problem_reset(&p);
    }
    assert_true(intervals > 200 && others > 2000);
}

static void pairs_are_summed_over_the_batch(void **state)
{
    (void)state;
    uint64_t s = 5;
    for (int round = 0; round < 3000; round++) {
        rt_problem p = problem_random(&s, round & T_MASK_ALL);
        int64_t q[24], k[24], nq = 0, nk = 0, want = 0;
        for (int64_t i = 0; i < p.seqlen_q; i++)
            if (t_mask_below(&s, 2) == 0)
                q[nq++] = i;
        for (int64_t j = 0; j < p.seqlen_k; j++)
            if (t_mask_below(&s, 2) == 0)
                k[nk++] = j;
        for (int64_t n = nk - 1; n > 0 && (round / 64) % 2 == 0; n--) { /* some lists in a random order */
            const int64_t m = t_mask_below(&s, n + 1), t = k[n];
            k[n] = k[m];
            k[m] = t;
        }
        for (int64_t b = 0; b < p.batch; b++)
            for (int64_t x = 0; x < nq; x++)
                for (int64_t y = 0; y < nk; y++)
                    want += t_mask_sees(&p, b, q[x], k[y]);
        assert_int_equal(rt_mask_pairs(&p, q, nq, k, nk), want);
        rt_problem_reset(&p);
    }
}

static int64_t slice_pairs(rt_slice slice, int64_t sq, int64_t sk)
{
    rt_problem p = problem_make(1, sq, sk, RT_MASK_FULL);
    p.slices = &slice;
    p.n_slices = 1;
    int64_t n = 0;
    for (int64_t i = 0; i < sq; i++)
        n += rt_mask_row_count(&p, 0, i, INT64_MAX);
    return n;
}

/* Bi-causal is the diagonal where the slice is square, empty where it is taller than wide. */
static void slices_have_their_four_shapes(void **state)
{
    (void)state;
    assert_int_equal(slice_pairs((rt_slice){0, 4, 0, 4, RT_SLICE_FULL}, 6, 6), 16);
    assert_int_equal(slice_pairs((rt_slice){0, 4, 0, 4, RT_SLICE_CAUSAL}, 6, 6), 10);
    assert_int_equal(slice_pairs((rt_slice){0, 4, 0, 4, RT_SLICE_INV_CAUSAL}, 6, 6), 10);
    assert_int_equal(slice_pairs((rt_slice){1, 5, 2, 6, RT_SLICE_BI_CAUSAL}, 6, 6), 4);
    assert_int_equal(slice_pairs((rt_slice){0, 5, 0, 4, RT_SLICE_BI_CAUSAL}, 6, 6), 0);
    assert_int_equal(slice_pairs((rt_slice){0, 4, 0, 6, RT_SLICE_BI_CAUSAL}, 6, 6), 12);
    assert_int_equal(slice_pairs((rt_slice){0, 2, 0, 5, RT_SLICE_CAUSAL}, 6, 6), 9); /* bottom right */
    assert_int_equal(slice_pairs((rt_slice){0, 5, 0, 2, RT_SLICE_CAUSAL}, 6, 6), 3); /* three empty rows */
    assert_int_equal(slice_pairs((rt_slice){0, 5, 0, 2, RT_SLICE_INV_CAUSAL}, 6, 6), 3);
}

/* What a chunk of three queries sees of twelve keys under causal and two windows: TransformerEngine's
 * all-gather of two ranks. */
static void windows_give_the_ranges_of_all_gather(void **state)
{
    (void)state;
    static const struct {
        rt_mask_kind mask;
        int64_t left, right, range[4][2];
    } table[] = {{RT_MASK_CAUSAL, -1, -1, {{0, 3}, {0, 6}, {0, 9}, {0, 12}}},
                 {RT_MASK_FULL, 2, 0, {{0, 3}, {1, 6}, {4, 9}, {7, 12}}},
                 {RT_MASK_CAUSAL, 2, 3, {{0, 3}, {1, 6}, {4, 9}, {7, 12}}},
                 {RT_MASK_FULL, 3, 3, {{0, 6}, {0, 9}, {3, 12}, {6, 12}}}};
    for (size_t n = 0; n < sizeof table / sizeof table[0]; n++) {
        rt_problem p = problem_make(1, 12, 12, table[n].mask);
        p.has_window = true;
        p.window_left = table[n].left;
        p.window_right = table[n].right;
        assert_true(rt_mask_is_interval(&p));
        for (int64_t c = 0; c < 4; c++) {
            int64_t lo = 12, hi = 0;
            for (int64_t i = 3 * c; i < 3 * c + 3; i++) {
                int64_t a, b;
                rt_mask_row(&p, i, &a, &b);
                lo = a < lo ? a : lo;
                hi = b > hi ? b : hi;
            }
            assert_int_equal(lo, table[n].range[c][0]);
            assert_int_equal(hi, table[n].range[c][1]);
        }
    }
}

static void bad_fields_are_refused(void **state)
{
    (void)state;
    uint8_t two[256] = {[7] = 2}, good[256] = {1};
    rt_slice one[] = {{0, 4, 0, 4, RT_SLICE_FULL}}, low[] = {{4, 4, 0, 4, RT_SLICE_FULL}},
             far[] = {{0, 4, 0, 17, RT_SLICE_FULL}}, odd[] = {{0, 4, 0, 4, (rt_slice_kind)7}},
             meet[] = {{8, 12, 0, 4, RT_SLICE_FULL}, {0, 9, 3, 8, RT_SLICE_FULL}},
             apart[] = {{0, 8, 0, 8, RT_SLICE_CAUSAL}, {0, 7, 1, 8, RT_SLICE_INV_CAUSAL}},
             touch[] = {{0, 8, 0, 8, RT_SLICE_CAUSAL}, {0, 8, 0, 8, RT_SLICE_INV_CAUSAL}};
    const rt_problem base = problem_make(1, 16, 16, RT_MASK_CAUSAL);
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_problem_check(&ctx, &base));
#define CHECKED(change, status, word)                                                                      \
    do {                                                                                                   \
        rt_problem p = base;                                                                               \
        rt_context c = {0};                                                                                \
        change;                                                                                            \
        t_assert_status(&c, rt_problem_check(&c, &p), status);                                             \
        if (strstr(c.message, word) == NULL)                                                               \
            fail_msg("\"%s\" does not say %s", c.message, word);                                           \
    } while (0)
    CHECKED((p.has_window = true, p.window_left = -2), RT_ERR_ARG, "window is (-2, 0)");
    CHECKED((p.has_window = true, p.window_right = INT64_MAX), RT_ERR_ARG, "window is");
    CHECKED((p.has_window = true, p.window_left = p.window_right = -1), RT_OK, "");
    CHECKED(p.prefix = -1, RT_ERR_ARG, "prefix is -1");
    CHECKED(p.prefix = 17, RT_ERR_ARG, "prefix is 17");
    CHECKED(p.n_slices = 1, RT_ERR_ARG, "1 slices are missing");
    CHECKED(p.slices = one, RT_ERR_ARG, "0 slices are given");
    CHECKED((p.slices = one, p.n_slices = 1), RT_OK, "");
    CHECKED((p.slices = low, p.n_slices = 1), RT_ERR_ARG, "queries [4, 4)");
    CHECKED((p.slices = far, p.n_slices = 1), RT_ERR_ARG, "keys [0, 17)");
    CHECKED((p.slices = odd, p.n_slices = 1), RT_ERR_ARG, "kind 7");
    CHECKED((p.slices = meet, p.n_slices = 2), RT_ERR_ARG, "slices 1 and 0 overlap");
    CHECKED((p.slices = apart, p.n_slices = 2), RT_OK, ""); /* rectangles meet, pairs do not */
    CHECKED((p.slices = touch, p.n_slices = 2), RT_ERR_ARG, "overlap");
    CHECKED(p.key_valid = two, RT_ERR_ARG, "key_valid [0, 7] is 2");
    CHECKED(p.key_valid = good, RT_OK, "");
    CHECKED(p.dense = two, RT_ERR_ARG, "dense mask [0, 7] is 2");
    CHECKED(p.dense = good, RT_OK, "");
#undef CHECKED
}

/* Random rectangles of random kinds: refused exactly when some pair lies in two of them. */
static void overlaps_are_found_pair_by_pair(void **state)
{
    (void)state;
    uint64_t s = 77;
    int64_t met = 0, rounds = 4000;
    for (int64_t round = 0; round < rounds; round++) {
        rt_problem p = problem_make(1, 6, 6, RT_MASK_FULL);
        rt_slice x[2];
        for (int n = 0; n < 2; n++) {
            x[n].q0 = t_mask_below(&s, 6);
            x[n].q1 = x[n].q0 + 1 + t_mask_below(&s, 6 - x[n].q0);
            x[n].k0 = t_mask_below(&s, 6);
            x[n].k1 = x[n].k0 + 1 + t_mask_below(&s, 6 - x[n].k0);
            x[n].kind = (rt_slice_kind)t_mask_below(&s, 4);
        }
        bool both = false;
        for (int64_t i = 0; i < 6; i++)
            for (int64_t j = 0; j < 6; j++)
                both = both || (t_in_slice(&x[0], i, j) && t_in_slice(&x[1], i, j));
        p.slices = x;
        p.n_slices = 2;
        rt_context ctx = {0};
        assert_int_equal(rt_problem_check(&ctx, &p), both ? RT_ERR_ARG : RT_OK);
        met += both;
    }
    assert_true(met > rounds / 10 && met < rounds - rounds / 10);
}

static void digest_and_copy_hold_every_field(void **state)
{
    (void)state;
    rt_slice slices[] = {{0, 4, 0, 4, RT_SLICE_FULL}}, other[] = {{0, 4, 0, 4, RT_SLICE_CAUSAL}};
    uint8_t valid[16] = {1}, dense[256] = {1};
    rt_problem list[9];
    for (int i = 0; i < 9; i++)
        list[i] = problem_make(1, 16, 16, RT_MASK_CAUSAL);
    list[1].has_window = list[2].has_window = list[3].has_window = true;
    list[2].window_left = 1;
    list[3].window_right = 1;
    list[4].prefix = 1;
    list[5].slices = slices;
    list[6].slices = other;
    list[5].n_slices = list[6].n_slices = 1;
    list[7].key_valid = valid;
    list[8].dense = dense;
    for (int a = 0; a < 9; a++)
        for (int b = 0; b < a; b++)
            assert_true(rt_problem_digest(&list[a]) != rt_problem_digest(&list[b]));
    rt_problem all = list[2], copy;
    all.prefix = 3;
    all.slices = slices;
    all.n_slices = 1;
    all.key_valid = valid;
    all.dense = dense;
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_problem_copy(&ctx, &all, &copy));
    const uint64_t digest = rt_problem_digest(&all);
    assert_true(rt_problem_digest(&copy) == digest);
    valid[15] = 1;
    assert_true(rt_problem_digest(&all) != digest);
    assert_true(rt_problem_digest(&copy) == digest);
    rt_problem_reset(&copy);
    char text[RT_MASK_TEXT];
    assert_string_equal(rt_mask_text(text, &all),
                        "causal, window (1, 0), prefix 3, 1 slices, key padding, dense");
    assert_string_equal(rt_mask_text(text, &list[0]), "causal");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mask_matches_its_definition),
        cmocka_unit_test(pairs_are_summed_over_the_batch),
        cmocka_unit_test(slices_have_their_four_shapes),
        cmocka_unit_test(windows_give_the_ranges_of_all_gather),
        cmocka_unit_test(bad_fields_are_refused),
        cmocka_unit_test(overlaps_are_found_pair_by_pair),
        cmocka_unit_test(digest_and_copy_hold_every_field),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
