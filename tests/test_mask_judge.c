/* The judge under every mask: what the declared arithmetic gives passes, with bounds that it fills; what another
 * mask gives, off by one somewhere, does not. */
#include "emulator.h"

static const int parts_of[] = {T_MASK_WINDOW,
                               T_MASK_PREFIX,
                               T_MASK_WINDOW | T_MASK_PREFIX,
                               T_MASK_SLICES,
                               T_MASK_KEYS,
                               T_MASK_DENSE,
                               T_MASK_WINDOW | T_MASK_DOCUMENTS | T_MASK_PREFIX,
                               T_MASK_SLICES | T_MASK_KEYS,
                               T_MASK_KEYS | T_MASK_DOCUMENTS | T_MASK_DENSE,
                               T_MASK_ALL};
enum { N_PARTS = sizeof parts_of / sizeof parts_of[0] };
static const rt_layout_kind kinds[] = {RT_LAYOUT_CONTIGUOUS, RT_LAYOUT_ZIGZAG, RT_LAYOUT_STRIPED};

static rt_problem problem_make(uint64_t *s, int turn, int64_t most)
{
    const int64_t sq = most / 2 + t_mask_below(s, most / 2 + 1),
                  sk = turn % 2 == 0 ? sq : most / 2 + t_mask_below(s, most / 2 + 1),
                  group = 1 + t_mask_below(s, 2);
    rt_problem p = emu_problem(sq, sk, group, 1, 8, (rt_mask_kind)(turn % 3));
    p.batch = 1 + turn / N_PARTS % 2;
    t_mask_random(s, parts_of[turn % N_PARTS], &p);
    return p;
}

static void judged(emu_case *c, const rt_declared *d, const rt_judge_options *o,
                   double top[RT_TENSOR_COUNT], const char *what)
{
    char text[RT_MASK_TEXT];
    const rt_verdict v = emu_judge_with(c, d, o);
    for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++)
        top[t] = fmax(top[t], v.tensor[t].max_ratio_lambda);
    if (!v.pass)
        fail_msg("%s: %s, Sq %lld, Sk %lld", what, rt_mask_text(text, &c->p), (long long)c->p.seqlen_q,
                 (long long)c->p.seqlen_k);
}

static void right_results_pass_and_fill_their_bounds(void **state)
{
    (void)state;
    uint64_t s = 41;
    double top[RT_TENSOR_COUNT] = {0}, sampled[RT_TENSOR_COUNT] = {0};
    for (int turn = 0; turn < 4 * N_PARTS; turn++) {
        if (t_left_out(turn))
            continue;
        const rt_dtype t = turn % 3 == 0 ? RT_F32 : RT_BF16;
        emu_case c;
        emu_create(&c, problem_make(&s, turn, turn % 8 == 7 ? 300 : 48), kinds[turn % 3],
                   1 + (int32_t)t_mask_below(&s, 4), RT_FAMILY_GAUSSIAN, (uint64_t)turn, t);
        const emu_arithmetic a = emu_declared(t);
        emu_run(&c, &a);
        judged(&c, &a.d, &(rt_judge_options){.truth = RT_TRUTH_EXACT}, top, "exact truth");
        judged(&c, &a.d, &(rt_judge_options){.truth = RT_TRUTH_F64}, sampled, "f64 truth");
        judged(&c, &a.d, &(rt_judge_options){.sampling = RT_SAMPLE_BOTH, .samples = 20, .seed = 3}, sampled,
               "sampled");
        judged(&c, &a.d, &(rt_judge_options){.sampling = RT_SAMPLE_KEYS, .samples = 20, .seed = 3}, sampled,
               "sampled keys");
        emu_reset(&c);
    }
    for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++)
        t_assert_le(0.1, top[t]);
}

/* The same pairs said by a dense mask: the same verdict in all that it counts and names. */
static void a_mask_in_other_words_has_the_same_verdict(void **state)
{
    (void)state;
    uint64_t s = 63;
    for (int turn = 0; turn < 2 * N_PARTS; turn++) {
        if (t_left_out(turn))
            continue;
        rt_problem p = problem_make(&s, turn, turn % 5 == 0 ? 300 : 60);
        p.batch = 1; /* a dense mask knows no batch */
        uint8_t *dense = rt_alloc(NULL, p.seqlen_q * p.seqlen_k, 1);
        assert_non_null(dense);
        for (int64_t i = 0; i < p.seqlen_q; i++)
            for (int64_t j = 0; j < p.seqlen_k; j++)
                dense[i * p.seqlen_k + j] = t_mask_sees(&p, 0, i, j);
        emu_case c;
        emu_create(&c, p, kinds[turn % 3], 1 + turn % 3, RT_FAMILY_GAUSSIAN, (uint64_t)turn, RT_BF16);
        const emu_arithmetic a = emu_declared(RT_BF16);
        emu_run(&c, &a);
        const rt_judge_options o = {.truth = turn % 2 == 0 ? RT_TRUTH_EXACT : RT_TRUTH_F64};
        const rt_verdict one = emu_judge_with(&c, &a.d, &o);
        rt_problem words = emu_problem(p.seqlen_q, p.seqlen_k, p.heads_q, p.heads_kv, p.dim, RT_MASK_FULL);
        words.dense = dense;
        rt_problem_reset(&c.p);
        c.p = words;
        const rt_verdict other = emu_judge_with(&c, &a.d, &o);
        assert_true(one.pass && emu_same(&one, &other));
        emu_reset(&c);
    }
}

/* One batch sees nothing, or all, where another does not: blocks are those of the batch in hand. */
static void each_batch_has_its_own_blocks(void **state)
{
    (void)state;
    static const int64_t lengths[][2] = {{0, 40}, {40, 0}, {40, 7}};
    for (int n = 0; n < 3; n++) {
        emu_case c;
        rt_problem p = emu_problem(40, 40, 2, 1, 8, RT_MASK_FULL);
        double top[RT_TENSOR_COUNT] = {0};
        p.batch = 2;
        p.key_valid = rt_calloc(NULL, 80, 1);
        assert_non_null(p.key_valid);
        for (int64_t b = 0; b < 2; b++)
            memset(p.key_valid + 40 * b, 1, (size_t)lengths[n][b]);
        emu_create(&c, p, RT_LAYOUT_CONTIGUOUS, 1, RT_FAMILY_GAUSSIAN, 8, RT_BF16);
        const emu_arithmetic a = emu_declared(RT_BF16);
        emu_run(&c, &a);
        judged(&c, &a.d, &(rt_judge_options){.truth = RT_TRUTH_EXACT}, top, "exact truth");
        judged(&c, &a.d, &(rt_judge_options){.truth = RT_TRUTH_F64}, top, "f64 truth");
        emu_reset(&c);
    }
}

/* NaN and infinities where no query looks are nobody's business. */
static void hidden_slots_are_not_judged(void **state)
{
    (void)state;
    emu_case c;
    rt_problem p = emu_problem(40, 40, 2, 1, 8, RT_MASK_CAUSAL);
    p.batch = 2;
    p.key_valid = rt_alloc(NULL, 80, 1);
    assert_non_null(p.key_valid);
    memset(p.key_valid, 1, 80);
    memset(p.key_valid + 30, 0, 10); /* of the first batch */
    emu_create(&c, p, RT_LAYOUT_ZIGZAG, 3, RT_FAMILY_GAUSSIAN, 5, RT_BF16);
    for (int64_t j = 30; j < 40; j++) {
        emu_row(&c, RT_K, 0, j, 0)[3] = T_NAN;
        emu_row(&c, RT_V, 0, j, 0)[j % 8] = T_INF;
    }
    const emu_arithmetic a = emu_declared(RT_BF16);
    emu_run(&c, &a);
    assert_true(emu_judge(&c, &a.d).pass);
    emu_row(&c, RT_DK, 0, 31, 0)[2] = 0.5; /* a gradient where there is none */
    assert_false(emu_judge(&c, &a.d).pass);
    emu_reset(&c);
}

/* One step off in one part; false if the part is not there to be changed. */
static bool mutate(uint64_t *s, rt_problem *p, int how)
{
    const int64_t n = p->n_slices > 0 ? t_mask_below(s, p->n_slices) : 0;
    switch (how) {
    case 0:
        p->window_left += p->has_window && p->window_left >= 0;
        return p->has_window;
    case 1:
        p->window_right += p->has_window && p->window_right >= 0;
        return p->has_window;
    case 2:
        p->prefix += p->prefix > 0;
        return p->prefix > 0;
    case 3:
        if (p->n_slices > 0)
            p->slices[n].kind = (rt_slice_kind)(((int)p->slices[n].kind + 1) % 4);
        return p->n_slices > 0;
    case 4:
        if (p->key_valid != NULL)
            p->key_valid[t_mask_below(s, p->seqlen_k)] ^= 1;
        return p->key_valid != NULL;
    default:
        if (p->dense != NULL)
            p->dense[t_mask_below(s, p->seqlen_q * p->seqlen_k)] ^= 1;
        return p->dense != NULL;
    }
}

static bool differ(const rt_problem *a, const rt_problem *b)
{
    for (int64_t x = 0; x < a->batch; x++)
        for (int64_t i = 0; i < a->seqlen_q; i++)
            for (int64_t j = 0; j < a->seqlen_k; j++)
                if (t_mask_sees(a, x, i, j) != t_mask_sees(b, x, i, j))
                    return true;
    return false;
}

static void another_mask_fails(void **state)
{
    (void)state;
    uint64_t s = 87;
    int64_t caught[6] = {0};
    for (int turn = 0; turn < 6 * N_PARTS; turn++) {
        rt_problem right = problem_make(&s, turn, 24), wrong;
        rt_context ctx = {0};
        t_assert_ok(&ctx, rt_problem_copy(&ctx, &right, &wrong));
        if (!mutate(&s, &wrong, turn / N_PARTS) || !differ(&right, &wrong)) {
            rt_problem_reset(&wrong);
            rt_problem_reset(&right);
            continue;
        }
        emu_case c;
        emu_create(&c, wrong, RT_LAYOUT_CONTIGUOUS, 1, RT_FAMILY_GAUSSIAN, (uint64_t)turn, RT_F32);
        const emu_arithmetic a = emu_declared(RT_F32);
        emu_run(&c, &a);
        assert_true(emu_judge(&c, &a.d).pass);
        rt_problem_reset(&c.p);
        c.p = right;
        char text[RT_MASK_TEXT];
        if (emu_judge(&c, &a.d).pass)
            fail_msg("change %d of %s passes", turn / N_PARTS, rt_mask_text(text, &right));
        caught[turn / N_PARTS]++;
        emu_reset(&c);
    }
    for (int how = 0; how < 6; how++)
        assert_true(caught[how] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_results_pass_and_fill_their_bounds),
        cmocka_unit_test(a_mask_in_other_words_has_the_same_verdict),
        cmocka_unit_test(each_batch_has_its_own_blocks),
        cmocka_unit_test(hidden_slots_are_not_judged),
        cmocka_unit_test(another_mask_fails),
    };
    return cmocka_run_group_tests_name("mask_judge", tests, NULL, t_teardown_memory);
}
