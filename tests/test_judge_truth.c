/* What the judge takes for true where scores are bent: the correctly rounded value of dsink and dbias, samples of them, and rows whose
 * scores are beyond what either truth resolves. */
#include <omp.h>

#include "bent.h"
#include "referee.h"

enum { EVERYTHING = ALIBI | BIAS | SOFTCAP | SINK | DROPOUT };

/* ---- the exact truth ----------------------------------------------------------------------------- */

/* The truth rounds to what MPFR's value rounds to. */
static void agrees_with_the_referee(const emu_case *c, const emu_truth *e, const rt_verdict *v, int n)
{
    referee_inputs in = {.p = &c->p};
    double *want[RT_RESULT_COUNT] = {NULL};
    for (int t = RT_Q; t <= RT_DOUT; t++)
        in.x[t] = c->t[t];
    for (int t = RT_LSE; t < RT_RESULT_COUNT; t++)
        want[t] = c->t[t] == NULL && t >= RT_DSINK
                      ? NULL
                      : calloc((size_t)emu_elements(&c->p, (rt_tensor_id)t), sizeof(double));
    for (int t = RT_DSINK; t <= RT_DBIAS; t++) {
        int64_t differ = 0;
        (void)referee_results(&in, c->in.dtype[t], RT_F32, want);
        for (int64_t i = 0; c->t[t] != NULL && i < emu_elements(&c->p, (rt_tensor_id)t); i++)
            differ += !t_same(rt_round_to(c->in.dtype[t], e->truth[t][i]) + 0.0, want[t][i]) &&
                      t_bits(want[t][i]) != REFEREE_UNKNOWN;
        if (differ > v->certificate[t].undecided)
            print_error("case %d, %s: %d differ, %d undecided\n", n, rt_tensor_name((rt_tensor_id)t),
                        (int)differ, (int)v->certificate[t].undecided);
        t_assert_le((double)differ, (double)v->certificate[t].undecided);
    }
    for (int t = RT_LSE; t < RT_RESULT_COUNT; t++)
        free(want[t]);
}

/* dsink and dbias have the correctly rounded value, for every shape of the bias, alone and with all that bends a score. */
static void gradients_of_scores_have_an_exact_truth(void **state)
{
    (void)state;
    static const rt_dtype formats[] = {RT_F32, RT_BF16, RT_F16};
    int64_t undecided = 0, elements = 0;
    for (int n = 0; n < 24; n++) {
        if (t_left_out(n))
            continue;
        rt_problem p = emu_problem(19, 19, 4, 2, 5, n % 2 == 0 ? RT_MASK_CAUSAL : RT_MASK_FULL);
        p.batch = 2;
        emu_case c;
        emu_create(&c, bent(p, n < 8 ? BIAS | SINK : EVERYTHING, shapes[n % 8], n % 3 == 0), kinds[n % 3],
                   1 + n % 3, n % 5 == 4 ? RT_FAMILY_TILTED : RT_FAMILY_GAUSSIAN, (uint64_t)n,
                   formats[n % 3]);
        const emu_arithmetic a = emu_declared(formats[n % 3]);
        emu_truth e;
        emu_observe_with(&c, &a.d, RT_TRUTH_EXACT, &e);
        const rt_judge_options o = {.truth = RT_TRUTH_EXACT};
        emu_fill(&c, &e);
        const rt_verdict v = emu_judge_with(&c, &a.d, &o);
        for (int t = RT_DSINK; t <= RT_DBIAS; t++) { /* what was filled in is the truth, rounded */
            assert_int_equal(v.truth[t], RT_TRUTH_EXACT);
            assert_int_equal(v.tensor[t].count[RT_CLASS_ROUNDED] + v.certificate[t].undecided,
                             v.tensor[t].elements);
            assert_int_equal(v.certificate[t].fast + v.certificate[t].undecided, v.tensor[t].elements);
            undecided += v.certificate[t].undecided;
            elements += v.tensor[t].elements;
        }
        agrees_with_the_referee(&c, &e, &v, n);
        emu_truth_reset(&e);
        emu_reset(&c);
    }
    printf("# dsink and dbias: %d of %d undecided\n", (int)undecided, (int)elements);
    t_assert_le((double)undecided, 1e-3 * (double)elements);
}

/* What a NaN of a key keeps from an exact truth has binary64's, and its radius; the rest of the tensor stays exact. */
static void pairs_without_an_exact_truth_keep_binary64(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) { /* elements of one pair; of both */
        rt_problem p = emu_problem(24, 24, 4, 2, 4, RT_MASK_CAUSAL);
        emu_case c;
        emu_create(&c, bent(p, BIAS | SINK, n == 0 ? "1hss" : "11ss", false), RT_LAYOUT_ZIGZAG, 2,
                   RT_FAMILY_GAUSSIAN, 1, RT_F32);
        const emu_arithmetic a = emu_declared(RT_F32);
        emu_truth exact, plain;
        emu_row(&c, RT_K, 0, 20, 0)[1] = T_NAN; /* rows 20 .. 23 of heads 0 and 1 */
        emu_observe_with(&c, &a.d, RT_TRUTH_EXACT, &exact);
        emu_observe(&c, &a.d, &plain);
        int64_t other = 0;
        for (int64_t h = 0; h < c.p.bias_shape[1]; h++)
            for (int64_t x = 0; x < 24 * 24; x++) {
                const int64_t at = emu_row(&c, RT_DBIAS, 0, x / 24, h) - c.t[RT_DBIAS] + x % 24;
                if (h < 2) {
                    t_assert_bits_eq(exact.bound[RT_DBIAS][at], plain.bound[RT_DBIAS][at]);
                    t_assert_bits_eq(exact.truth[RT_DBIAS][at], plain.truth[RT_DBIAS][at]);
                }
                other += exact.bound[RT_DBIAS][at] < plain.bound[RT_DBIAS][at];
            }
        assert_true(n == 0 ? other > 590 : other == 0); /* of 600 visible pairs in heads 2 and 3 */
        t_assert_bits_eq(exact.bound[RT_DSINK][0], plain.bound[RT_DSINK][0]);
        assert_true(exact.bound[RT_DSINK][3] < plain.bound[RT_DSINK][3]);
        emu_truth_reset(&exact);
        emu_truth_reset(&plain);
        emu_reset(&c);
    }
}

/* ---- biases beyond all range --------------------------------------------------------------------- */

/* Every result becomes MPFR's, rounded. */
static void fill_by_the_referee(emu_case *c)
{
    referee_inputs in = {.p = &c->p};
    referee_truth truth;
    for (int t = RT_Q; t <= RT_DOUT; t++)
        in.x[t] = c->t[t];
    referee_evaluate(&in, 800, &truth);
    for (int t = RT_LSE; t < RT_RESULT_COUNT; t++)
        for (int64_t i = 0; i < truth.n[t]; i++)
            c->t[t][i] = rt_round_to(c->in.dtype[t], mpfr_get_d(truth.value[t][i], MPFR_RNDN));
    referee_reset(&truth);
}

/* Scores of 3e38: binary64 says nothing of such a row's weights.  Right results never fail, what no truth resolves is counted, and the
 * rest is judged as ever. */
static void scores_beyond_binary64_never_fail_what_is_right(void **state)
{
    (void)state;
    enum { ONE_KEY, TWO_KEYS, ROW, MASKING, KINDS };
    static const rt_dtype formats[] = {RT_F64, RT_F32, RT_BF16};
    for (int n = 0; n < 3 * KINDS; n++) {
        const int kind = n % KINDS;
        if (t_left_out(n))
            continue;
        rt_problem p = emu_problem(20, 20, 2, 1, 8, RT_MASK_FULL);
        emu_case c;
        emu_create(&c, bent(p, BIAS | (n / KINDS % 2 == 0 ? SINK : 0), "11ss", false), kinds[n % 3], 2,
                   RT_FAMILY_GAUSSIAN, (uint64_t)n, formats[n / KINDS]);
        for (int64_t j = 0; j < 20; j++) {
            double *row = c.p.bias + 3 * 20;
            const double big = 0x1.0000001p127; /* its lse is rounded by 2^100 in f32 */
            row[j] = kind == ROW ? -big : row[j];
            if (kind == ONE_KEY && j == 4)
                row[j] = big;
            if (kind == TWO_KEYS && (j == 4 || j == 11))
                row[j] = big;
            for (int64_t i = 0; i < 20 && kind == MASKING; i++)
                c.p.bias[i * 20 + j] = j > i ? -big : c.p.bias[i * 20 + j];
        }
        fill_by_the_referee(&c);
        const emu_arithmetic a = emu_declared(formats[n / KINDS]);
        rt_declared d = a.d;
        if (formats[n / KINDS] == RT_F64)
            assert_true(rt_declared_of("f64", &d));
        /* with a sink the row of -3e38 is the sink's alone */
        const bool sink_alone = kind == ROW && n / KINDS % 2 == 0, lost = kind < MASKING && !sink_alone;
        for (int way = 0; way < 4; way++) {
            const rt_judge_options o = {.truth = way % 2 == 0 ? RT_TRUTH_EXACT : RT_TRUTH_F64,
                                        .sampling = way < 2 ? RT_SAMPLE_AUTO : RT_SAMPLE_BOTH,
                                        .samples = 40};
            const rt_verdict v = emu_judge_with(&c, &d, &o);
            for (int t = RT_LSE; t < RT_RESULT_COUNT; t++) {
                const rt_tally *y = &v.tensor[t];
                if (y->judged && !rt_tally_pass(y))
                    print_error("kind %d, %s, way %d: %s fails: got %g truth %g B %g B_lambda %g\n", kind,
                                rt_dtype_name(c.in.dtype[RT_OUT]), way, rt_tensor_name((rt_tensor_id)t),
                                y->first.got, y->first.truth, y->first.bound, y->first.bound_lambda);
                assert_true(!y->judged || rt_tally_pass(y));
                assert_int_equal(y->unknown, y->count[RT_CLASS_UNDEFINED]);
                /* lse is always known; dq of row 3 and every dk, dv never; out only by MPFR */
                const bool out = t == RT_OUT && (way % 2 == 1 || formats[n / KINDS] == RT_F64);
                if (way < 2 && y->judged)
                    assert_int_equal(y->unknown, !lost                                       ? 0
                                                 : out || t == RT_DQ                         ? 2 * 8
                                                 : t == RT_DBIAS                             ? 20
                                                 : t == RT_DK || t == RT_DV || t == RT_DSINK ? y->elements
                                                                                             : 0);
            }
        }
        /* what is wrong is found where it is known, the lse of that row among it */
        const rt_judge_options o = {.truth = RT_TRUTH_EXACT};
        double *lse = emu_row(&c, RT_LSE, 0, 3, 1), *dq = emu_row(&c, RT_DQ, 0, 7, 0);
        *lse += (fabs(*lse) + 1) * 0x1p-5;
        dq[2] += 4;
        const rt_verdict v = emu_judge_with(&c, &d, &o);
        /* exp(sink - m), m = -3e38, may be anything */
        assert_int_equal(v.tensor[RT_LSE].count[RT_CLASS_WRONG], sink_alone ? 0 : 1);
        assert_int_equal(v.tensor[RT_DQ].count[RT_CLASS_WRONG], 1);
        emu_reset(&c);
    }
}

/* ---- samples ------------------------------------------------------------------------------------- */

/* Sampled: dsink from every row, given the dump's lse and out; dbias by rows where each is of one query and pair, else not. */
static void samples_judge_dsink_and_rows_of_dbias(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        int64_t kv_heads;
        bool judged;
    } table[] = {{"1hss", 2, true},  {"bhss", 2, true},  {"11ss", 1, true}, {"11ss", 2, false},
                 {"1h1s", 2, false}, {"111s", 1, false}, {"b1ss", 1, true}};
    for (size_t n = 0; n < sizeof table / sizeof table[0]; n++)
        for (int way = 0; way < 4; way++) {
            if (t_left_out(4 * (int64_t)n + way))
                continue;
            const rt_sampling sampling = way % 2 == 0 ? RT_SAMPLE_BOTH : RT_SAMPLE_KEYS;
            emu_case c;
            emu_create(&c,
                       bent(emu_problem(120, 120, 4, table[n].kv_heads, 8, RT_MASK_CAUSAL), EVERYTHING,
                            table[n].shape, false),
                       RT_LAYOUT_ZIGZAG, 2, RT_FAMILY_GAUSSIAN, 4, RT_BF16);
            emu_arithmetic a = emu_declared(RT_BF16);
            a.d.tanh_rel = 0x1p-24;
            emu_run(&c, &a);
            const rt_judge_options o = {.sampling = sampling,
                                        .samples = 60,
                                        .seed = 3,
                                        .truth = way / 2 == 0 ? RT_TRUTH_F64 : RT_TRUTH_EXACT};
            rt_verdict v = emu_judge_with(&c, &a.d, &o);
            assert_true(v.pass);
            assert_true(v.tensor[RT_DSINK].judged && v.given_lse == (sampling == RT_SAMPLE_BOTH));
            assert_int_equal(v.judged[RT_DSINK], 4);
            assert_int_equal(v.tensor[RT_DBIAS].judged, table[n].judged);
            const int64_t heads = c.p.bias_shape[1];
            assert_int_equal(v.judged[RT_DBIAS], table[n].judged ? heads * 15 : 0);
            assert_int_equal(v.tensor[RT_DBIAS].elements, table[n].judged ? heads * 15 * 120 : 0);
            if (table[n].judged) {
                assert_int_equal(v.total[RT_DBIAS], heads * 120);
                assert_int_equal(v.truth[RT_DBIAS],
                                 way == 2 ? RT_TRUTH_EXACT : RT_TRUTH_F64); /* all rows: too dear */
                const int64_t last = heads - 1;
                for (int64_t i = 0; i < 120;
                     i++) /* in each row, one element of each the row's query sees */
                    emu_row(&c, RT_DBIAS, 0, i, last)[i / 2] += 3;
                v = emu_judge_with(&c, &a.d, &o);
                assert_int_equal(v.tensor[RT_DBIAS].count[RT_CLASS_WRONG], 15);
                assert_int_equal(v.tensor[RT_DBIAS].first.head, last);
                assert_int_equal(v.tensor[RT_DBIAS].first.dim, v.tensor[RT_DBIAS].first.pos / 2);
            }
            c.t[RT_DSINK][2] += 0.5;
            v = emu_judge_with(&c, &a.d, &o);
            assert_false(rt_tally_pass(&v.tensor[RT_DSINK]));
            assert_int_equal(v.tensor[RT_DSINK].first.head, 2);
            emu_reset(&c);
        }
}

int main(void)
{
    omp_set_num_threads(1); /* small problems: more threads would only wait */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_scores_have_an_exact_truth),
        cmocka_unit_test(pairs_without_an_exact_truth_keep_binary64),
        cmocka_unit_test(scores_beyond_binary64_never_fail_what_is_right),
        cmocka_unit_test(samples_judge_dsink_and_rows_of_dbias),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
