/* exact against the referee: every element of small problems, random and adversarial, in all formats; and with what joins and bends
 * the scores, alone and together.
 * RT_REFEREE_CASES=N runs the first N cases instead of the suite's; RT_REFEREE_FIRST=C starts at case C. */
#include <math.h>
#include <time.h>

#include "exact_run.h"
#include "masks.h"
#include "referee.h"
#include "score_cases.h"
#include "scratch.h"

enum { CASES = 1000, SCORE_CASES = 1000, MAX_S = 24, MAX_D = 16, MAX_DOCUMENTS = 4 };

enum family {
    GAUSSIAN,
    HUGE_LOGITS,
    CANCELLING,
    EQUAL,
    TIES,
    SUBNORMAL,
    SINGLE,
    SINK,
    INTEGERS,
    OVERFLOW,
    WIDE,
    FAR,
    FAMILIES
};
static const char *const names[] = {"gaussian", "huge",      "cancelling", "equal",    "ties", "subnormal",
                                    "single",   "mass sink", "integers",   "overflow", "wide", "far"};

static const rt_dtype formats[] = {RT_F64, RT_F32, RT_BF16, RT_F16, RT_E4M3, RT_E5M2};

typedef struct {
    uint64_t seed;
    enum family family;
    rt_dtype input, output, lse;
    rt_problem p;
    int64_t cu_q[MAX_DOCUMENTS + 1], cu_k[MAX_DOCUMENTS + 1];
    t_how how;
} example;

static int64_t below(uint64_t *s, int64_t n)
{
    return (int64_t)(t_random(s) % (uint64_t)n);
}

static double uniform(uint64_t *s)
{
    return (double)(t_random(s) >> 11) * 0x1p-53;
}

static double gaussian(uint64_t *s)
{
    double x = -6;
    for (int i = 0; i < 12; i++)
        x += uniform(s);
    return x;
}

/* The format's gap around 1, its smallest positive and its largest value: of these types, by what they are.
 */
static double gap(rt_dtype t)
{
    return t == RT_F64    ? 0x1p-52
           : t == RT_F32  ? 0x1p-23
           : t == RT_BF16 ? 0x1p-7
           : t == RT_F16  ? 0x1p-10
           : t == RT_E4M3 ? 0x1p-3
                          : 0x1p-2;
}

static double tiny(rt_dtype t)
{
    return t == RT_F64    ? 0x1p-1074
           : t == RT_F32  ? 0x1p-149
           : t == RT_BF16 ? 0x1p-133
           : t == RT_F16  ? 0x1p-24
           : t == RT_E4M3 ? 0x1p-9
                          : 0x1p-16;
}

static double largest(rt_dtype t)
{
    return t == RT_F64    ? 0x1.fffffffffffffp1023
           : t == RT_F32  ? 0x1.fffffep127
           : t == RT_BF16 ? 0x1.fep127
           : t == RT_F16  ? 65504
           : t == RT_E4M3 ? 448
                          : 57344;
}

static void cut(uint64_t *s, int64_t length, int64_t documents, int64_t *cu)
{
    cu[0] = 0;
    for (int64_t n = 1; n < documents; n++)
        cu[n] = below(s, length + 1);
    cu[documents] = length;
    for (int64_t a = 1; a < documents; a++)
        for (int64_t b = a + 1; b < documents; b++)
            if (cu[b] < cu[a]) {
                const int64_t x = cu[a];
                cu[a] = cu[b];
                cu[b] = x;
            }
}

static void draw(example *e, int64_t number)
{
    uint64_t s = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(number + 1);
    memset(e, 0, sizeof *e);
    for (int i = 0; i < 4; i++)
        (void)t_random(&s);
    e->family = (enum family)(number % FAMILIES);
    e->input = e->family == FAR && below(&s, 2) ? RT_F64 : formats[below(&s, 6)];
    e->output = formats[below(&s, 6)];
    e->lse = below(&s, 2) ? RT_F32 : formats[below(&s, 6)];
    /* mostly small: the referee's time goes with the square of the length */
    const int64_t most = e->family == FAR           ? 3
                         : e->family == HUGE_LOGITS ? 5
                         : below(&s, 12) == 0       ? MAX_S
                                                    : 7;
    const int64_t sq = 1 + below(&s, most), sk = below(&s, 2) ? sq : 1 + below(&s, most);
    const int64_t group = 1 + below(&s, 3), hkv = 1 + below(&s, 2),
                  d = below(&s, 3) ? 1 + below(&s, 6) : 1 + below(&s, MAX_D);
    e->p = t_problem(below(&s, 8) ? 1 : 2, sq, sk, hkv * group, hkv, d,
                     1 + below(&s, below(&s, 3) ? 6 : MAX_D), (rt_mask_kind)below(&s, 3));
    if (e->family == SINGLE && below(&s, 2))
        e->p.seqlen_k = 1;
    if (below(&s, 4) == 0) {
        e->p.documents = 1 + below(&s, MAX_DOCUMENTS);
        cut(&s, e->p.seqlen_q, e->p.documents, e->cu_q);
        cut(&s, e->p.seqlen_k, e->p.documents, e->cu_k);
    }
    switch (below(&s, 6)) {
    case 0:
    case 1:
        break; /* 1/sqrt(D) */
    case 2:
        e->p.scale_kind = RT_SCALE_F32;
        e->p.scale = (double)(float)(gaussian(&s) * 0.5);
        break;
    case 3:
        e->p.scale_kind = RT_SCALE_F64;
        e->p.scale = gaussian(&s) * 0.5;
        break;
    case 4:
        e->p.scale_kind = RT_SCALE_F64;
        e->p.scale = ldexp(below(&s, 2) ? 1 : -1, (int)below(&s, 5) - 3);
        break;
    default:
        e->p.scale_kind = RT_SCALE_F32;
        e->p.scale = below(&s, 6) == 0 ? 0 : (double)(float)(1 / sqrt((double)d));
        break;
    }
    e->how = (t_how){.layout = below(&s, 2) ? RT_LAYOUT_STRIPED : RT_LAYOUT_CONTIGUOUS,
                     .ranks = (int32_t)(1 + below(&s, 3)),
                     .plan = "ring"};
    if (below(&s, 3) == 0)
        e->how.plan = "single";
    e->seed = s;
}

static double sign(uint64_t *s)
{
    return below(s, 2) ? 1 : -1;
}

/* One element of q, k, v or dout, before it is rounded to the input's format. */
static double element(const example *e, rt_tensor_id t, uint64_t *s)
{
    const double x = gaussian(s);
    switch (e->family) {
    case HUGE_LOGITS:
        return t == RT_Q || t == RT_K ? 12 * x : x;
    case EQUAL:
    case TIES:
        if (t == RT_Q)
            return 0;
        if (t == RT_V) /* neighbours of the result's format and what lies between */
            return e->family == EQUAL ? (double)below(s, 5) - 2
                                      : sign(s) * (1 + gap(e->output) * 0.5 * (double)below(s, 5));
        return t == RT_DOUT ? (double)below(s, 5) - 2 : x;
    case SUBNORMAL:
        return t == RT_V || t == RT_DOUT
                   ? tiny(e->output) * (double)(below(s, 17) - 8) * (below(s, 2) ? 1 : 0.25)
               : below(s, 3) ? x
                             : tiny(e->input) * (double)below(s, 9);
    case SINGLE:
        return t == RT_V || t == RT_DOUT ? 1 + gap(e->output) * 0.5 * (double)below(s, 8)
               : below(s, 2)             ? (double)(below(s, 64) - 32)
                                         : x;
    case INTEGERS:
        return (double)(below(s, 5) - 2);
    case OVERFLOW: {
        const double top = largest(e->output) < largest(e->input) ? largest(e->output) : largest(e->input);
        if (t == RT_V)
            return sign(s) * top * (1 - 0.5 * gap(e->output) * (double)(below(s, 5) - 2));
        return t == RT_DOUT ? x : 0.5 * x;
    }
    case WIDE:
        return ldexp(x, (int)below(s, 25) - (t == RT_Q || t == RT_K ? 21 : 12));
    case FAR: /* products of a thousand binary orders of magnitude; scores whose rounding is far above 1 */
        return e->input != RT_F64 ? (t == RT_Q || t == RT_K ? 0x1p28 * x : x)
               : below(s, 3)      ? x
                                  : ldexp(x, (int)below(s, 1600) - 800);
    case GAUSSIAN:
    case CANCELLING:
    case SINK:
    case FAMILIES:
    default:
        return x;
    }
}

static double clamp(rt_dtype t, double x)
{
    const double r = referee_round_d(t, x);
    return r > largest(t) || isnan(r) ? largest(t) : r < -largest(t) ? -largest(t) : r;
}

static void fill(const example *e, t_tensors *t)
{
    uint64_t s = e->seed;
    const rt_problem *p = t->p;
    for (int id = RT_Q; id <= RT_DOUT; id++) {
        const int64_t width = t_width(p, (rt_tensor_id)id);
        const bool constant = id == RT_DOUT && below(&s, 5) == 0; /* rows of dout that are zero */
        for (int64_t r = 0; r < t_rows(p, (rt_tensor_id)id); r++)
            for (int64_t d = 0; d < width; d++)
                t->x[id][r * width + d] =
                    constant && r % 2 == 0 ? 0 : clamp(e->input, element(e, (rt_tensor_id)id, &s));
    }
    if (e->family ==
        CANCELLING) /* pairs of equal keys with opposite values; now and then one that is not quite */
        for (int64_t b = 0; b < p->batch; b++)
            for (int64_t j = 0; j + 1 < p->seqlen_k; j += 2)
                for (int64_t h = 0; h < p->heads_kv; h++) {
                    memcpy(t_row(t, RT_K, b, j + 1, h), t_row(t, RT_K, b, j, h),
                           (size_t)p->dim * sizeof(double));
                    for (int64_t d = 0; d < p->dim_v; d++) {
                        const double v = t_row(t, RT_V, b, j, h)[d];
                        t_row(t, RT_V, b, j + 1, h)[d] =
                            below(&s, 8) ? -v : clamp(e->input, -v * (1 + gap(e->input)));
                    }
                }
    if (e->family == SINK) { /* one key takes it all: its score leads by up to thousands */
        static const double leads[] = {20, 90, 400, 900, 2500, 6000};
        const double lead = leads[below(&s, p->seqlen_k > 4 || p->dim > 6 ? 5 : 6)];
        for (int64_t b = 0; b < p->batch; b++)
            for (int64_t h = 0; h < p->heads_kv; h++) {
                const int64_t j = below(&s, p->seqlen_k);
                t_row(t, RT_K, b, j, h)[0] = clamp(e->input, lead);
                for (int64_t d = 0; d < p->dim_v;
                     d++) /* a midpoint of the result's format, where the input has it */
                    t_row(t, RT_V, b, j, h)[d] =
                        clamp(e->input, 1 + gap(e->output) * (0.5 + (double)below(&s, 2)));
            }
        for (int64_t r = 0; r < t_rows(p, RT_Q); r++)
            t->x[RT_Q][r * p->dim] = clamp(e->input, 1 + uniform(&s));
    }
}

static int64_t total_undecided[RT_RESULT_COUNT], total_elements, total_ties, total_mpfr, total_rational;

static int64_t judge(int64_t number, bool scores)
{
    example e;
    draw(&e, number);
    if (e.p.documents > 0) {
        e.p.cu_q = e.cu_q;
        e.p.cu_k = e.cu_k;
    }
    uint64_t mask_seed = (uint64_t)number; /* a third of the cases has other parts of a mask too */
    if (number % 3 == 0)
        t_mask_random(&mask_seed, (int)t_mask_below(&mask_seed, T_MASK_DOCUMENTS), &e.p);
    uint64_t score_seed = e.seed ^ 1;
    if (scores) {
        e.input =
            e.family == FAR && e.input == RT_F64 ? RT_F32 : e.input; /* the referee's bits have an end */
        const int many = (int)(number / FAMILIES), alone = 1 << (many % 5);
        score_cases_add(&e.p, many % 3 == 0 ? alone : (int)score_below(&score_seed, SCORE_ALL + 1),
                        &score_seed);
    }
    t_tensors got;
    double *want[RT_RESULT_COUNT] = {NULL};
    t_tensors_create(&e.p, &got);
    for (int t = RT_LSE; t < RT_RESULT_COUNT; t++)
        want[t] = calloc((size_t)(1 + t_rows(&e.p, (rt_tensor_id)t) * t_width(&e.p, (rt_tensor_id)t)),
                         sizeof(double));
    fill(&e, &got);
    const referee_inputs in = {&e.p, {got.x[RT_Q], got.x[RT_K], got.x[RT_V], got.x[RT_DOUT]}};
    total_ties += referee_results(&in, e.output, e.lse, want);
    rt_run_stats stats;
    exact_run(&got, &e.how, true, e.output, e.lse, &stats);
    bool wrong = false;
    char text[RT_MASK_TEXT];
    for (int t = RT_LSE; t < RT_RESULT_COUNT; t++) {
        const int64_t n = t_rows(&e.p, (rt_tensor_id)t) * t_width(&e.p, (rt_tensor_id)t);
        const rt_certificate *c = &stats.certificate[t];
        int64_t differ = 0, first = -1;
        for (int64_t x = 0; x < n; x++)
            if (t_bits(want[t][x]) != REFEREE_UNKNOWN && !t_same(got.x[t][x], want[t][x])) {
                first = first < 0 ? x : first;
                differ++;
            }
        /* what is not reported as undecided is right, and nothing of the forward is undecided, but ties of scores that a softcap has pressed
         * together beyond the last precision */
        const bool open = c->undecided > 0 && !(e.p.softcap > 0);
        /* the first that is undecided: what is right lies in its interval */
        const rt_undecided *u = &c->first;
        const int64_t at =
            ((u->b * t_length(&e.p, (rt_tensor_id)t) + u->pos) * t_heads(&e.p, (rt_tensor_id)t) + u->head) *
                t_width(&e.p, (rt_tensor_id)t) +
            u->dim;
        const rt_dtype to = t == RT_LSE ? e.lse : e.output;
        const double low = rt_round_to(to, u->low),
                     high = rt_round_to(to, u->high); /* NaN: e4m3's overflow */
        const bool outside = c->undecided > 0 && t_bits(want[t][at]) != REFEREE_UNKNOWN &&
                             !isnan(want[t][at]) &&
                             ((!isnan(low) && low > want[t][at]) || (!isnan(high) && want[t][at] > high) ||
                              !(u->low <= u->high && u->high - u->low <= 2.001 * c->widest));
        if (outside)
            print_error("case %" PRId64 ", %s element %" PRId64
                        ": want %a, which is not between %a and %a (widest %a)\n",
                        number, rt_tensor_name((rt_tensor_id)t), at, want[t][at], u->low, u->high,
                        c->widest);
        const bool bad = outside || differ > c->undecided || ((t == RT_OUT || t == RT_LSE) && open) ||
                         c->fast + c->exact_case + c->mpfr + c->undecided != n;
        if (bad) {
            print_error("case %" PRId64 " (%s%s, %s in, %s out, lse %s): %s: %" PRId64 " of %" PRId64
                        " differ; fast %" PRId64 " exact %" PRId64 " mpfr %" PRId64 " undecided %" PRId64
                        "\n",
                        number, scores ? "scores, " : "", names[e.family], rt_dtype_name(e.input),
                        rt_dtype_name(e.output), rt_dtype_name(e.lse), rt_tensor_name((rt_tensor_id)t),
                        differ, n, c->fast, c->exact_case, c->mpfr, c->undecided);
            if (first >= 0)
                print_error("  element %" PRId64 ": got %a, want %a; Sq %" PRId64 " Sk %" PRId64
                            " D %" PRId64 " Dv %" PRId64 " mask %s documents %" PRId64 " scale %a\n",
                            first, got.x[t][first], want[t][first], e.p.seqlen_q, e.p.seqlen_k, e.p.dim,
                            e.p.dim_v, rt_mask_text(text, &e.p), e.p.documents, e.p.scale);
            if (scores)
                print_error("  alibi %d bias %d softcap %g sink %d dropout %g\n", e.p.alibi != NULL,
                            e.p.bias != NULL, e.p.softcap, e.p.sink != NULL, e.p.dropout);
        }
        wrong = wrong || bad;
        total_undecided[t] += c->undecided;
        total_elements += n;
        total_mpfr += c->mpfr;
        total_rational += c->exact_case;
        free(want[t]);
    }
    t_tensors_free(&got);
    e.p.cu_q = e.p.cu_k = NULL; /* not the problem's own */
    rt_problem_reset(&e.p);
    return wrong;
}

static int64_t number_of(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoll(text, NULL, 10) : otherwise;
}

static void judge_all(bool scores, int64_t otherwise)
{
    const int64_t first = number_of("RT_REFEREE_FIRST", 0),
                  cases = number_of("RT_REFEREE_CASES", otherwise);
    int64_t wrong = 0;
    memset(total_undecided, 0, sizeof total_undecided);
    total_elements = total_ties = total_mpfr = total_rational = 0;
    for (int64_t c = first; c < first + cases; c++)
        wrong += judge(c, scores);
    print_message("# %" PRId64 " elements of %" PRId64 " cases; %" PRId64 " exact ties and zeros, %" PRId64
                  " rational, %" PRId64 " by MPFR; undecided: dq %" PRId64 ", dk %" PRId64 ", dv %" PRId64
                  ", dsink %" PRId64 ", dbias %" PRId64 "\n",
                  total_elements, cases, total_ties, total_rational, total_mpfr, total_undecided[RT_DQ],
                  total_undecided[RT_DK], total_undecided[RT_DV], total_undecided[RT_DSINK],
                  total_undecided[RT_DBIAS]);
    assert_int_equal(wrong, 0);
    assert_true(total_ties > 0 && total_mpfr > 0);
}

static void test_referee(void **state)
{
    (void)state;
    judge_all(false, t_cases(CASES));
}

static void test_scores(void **state)
{
    (void)state;
    judge_all(true, t_cases(SCORE_CASES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_referee), cmocka_unit_test(test_scores)};
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
