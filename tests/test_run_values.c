/* Values with closed forms, finite differences, empty rows, and what is not finite: how far each reaches.
 */
#include "runner.h"

static const t_how hows[] = {
    {RT_LAYOUT_CONTIGUOUS, 1, "single", 0}, {RT_LAYOUT_ZIGZAG, 3, "ring", 0},
    {RT_LAYOUT_STRIPED, 4, "split", 0},     {RT_LAYOUT_POSITIONS, 3, "pass-q", 0},
    {RT_LAYOUT_CONTIGUOUS, 5, "ring", 0},
};
enum { HOWS = sizeof hows / sizeof hows[0] };

static int64_t cu_q[] = {0, 9, 12, 12, 26, 40}, cu_k[] = {0, 9, 12, 17, 17, 35};

/* Causal GQA documents: one without queries, one without keys, one with more queries than keys. */
static rt_problem documents(rt_mask_kind mask)
{
    rt_problem p = t_problem(2, 40, 35, 4, 2, 6, 5, mask);
    p.documents = 5;
    p.cu_q = cu_q;
    p.cu_k = cu_k;
    return p;
}

/* ---- Q = 0: the tracer ------------------------------------------------------------------------------- */

static int64_t visible(const rt_problem *p, int64_t i)
{
    int64_t n = 0;
    for (int64_t j = 0; j < p->seqlen_k; j++)
        n += t_sees(p, i, j);
    return n;
}

/* With q = 0 every visible key weighs 1/n and v holds bits: LSE = ln n, and O is one division of two
 * integers. */
static void tracer_rows(const t_tensors *t)
{
    const rt_problem *p = t->p;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->seqlen_q; i++)
            for (int64_t h = 0; h < p->heads_q; h++) {
                const int64_t n = visible(p, i);
                const double lse = *t_row(t, RT_LSE, b, i, h), *out = t_row(t, RT_OUT, b, i, h);
                if (n == 0) {
                    t_assert_bits_eq(lse, -T_INF);
                    continue;
                }
                t_assert_le((double)fabsl((long double)lse - logl((long double)n)), rt_ulp(RT_F64, lse));
                assert_int_equal(llround(exp(lse)), n);
                for (int64_t d = 0; d < p->dim_v; d++) {
                    double sum = 0;
                    for (int64_t j = 0; j < p->seqlen_k; j++)
                        sum += t_sees(p, i, j) ? (double)((j >> (d % 20)) & 1) : 0;
                    t_assert_bits_eq(out[d], sum / (double)n);
                }
            }
}

/* dK = 0; dV_j = sum_i dO_i / n_i; dQ_i = scale [mean_j (dO_i.V_j) K_j - (dO_i.O_i) mean_j K_j], each
 * within a sum's bound: (number of terms + Dv + 20) u times the sum of magnitudes. */
static void tracer_gradients(const t_tensors *t)
{
    const rt_problem *p = t->p;
    const int64_t group = p->heads_q / p->heads_kv;
    const long double u = 0x1p-53L;
    for (int64_t e = 0; e < t_rows(p, RT_DK) * p->dim; e++)
        t_assert_bits_eq(t->x[RT_DK][e], 0.0);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t j = 0; j < p->seqlen_k; j++)
            for (int64_t h = 0; h < p->heads_kv; h++)
                for (int64_t d = 0; d < p->dim_v; d++) {
                    long double sum = 0, size = 0;
                    for (int64_t i = 0; i < p->seqlen_q; i++)
                        for (int64_t x = h * group; x < (h + 1) * group; x++) {
                            if (!t_sees(p, i, j))
                                continue;
                            const double o = t_row(t, RT_DOUT, b, i, x)[d];
                            sum += (long double)o / (long double)visible(p, i);
                            size += fabsl((long double)o) / (long double)visible(p, i);
                        }
                    t_assert_le((double)fabsl((long double)t_row(t, RT_DV, b, j, h)[d] - sum),
                                (double)((long double)(p->seqlen_q * group + 20) * u * size));
                }
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->seqlen_q; i++)
            for (int64_t h = 0; h < p->heads_q; h++) {
                const long double n = (long double)visible(p, i), scale = 1 / sqrtl((long double)p->dim);
                const double *dout = t_row(t, RT_DOUT, b, i, h), *out = t_row(t, RT_OUT, b, i, h);
                long double delta = 0, large = 0;
                for (int64_t d = 0; d < p->dim_v; d++) {
                    delta += (long double)dout[d] * (long double)out[d];
                    large += fabsl((long double)dout[d]); /* v and O are at most 1 */
                }
                for (int64_t d = 0; d < p->dim; d++) {
                    long double first = 0, mean = 0, size = 0;
                    for (int64_t j = 0; j < p->seqlen_k; j++) {
                        if (!t_sees(p, i, j))
                            continue;
                        const double *v = t_row(t, RT_V, b, j, h / group);
                        const long double k = (long double)t_row(t, RT_K, b, j, h / group)[d];
                        long double dot = 0;
                        for (int64_t c = 0; c < p->dim_v; c++)
                            dot += (long double)dout[c] * (long double)v[c];
                        first += dot * k / n;
                        mean += k / n;
                        size += 2 * large * fabsl(k) / n;
                    }
                    t_assert_le((double)fabsl((long double)t_row(t, RT_DQ, b, i, h)[d] -
                                              scale * (first - delta * mean)),
                                (double)((n + (long double)p->dim_v + 20) * u * scale * size));
                }
            }
}

static void tracer_counts_keys_and_has_its_closed_forms(void **state)
{
    (void)state;
    const rt_problem problems[] = {t_problem(1, 67, 67, 4, 2, 8, 7, RT_MASK_CAUSAL),
                                   t_problem(2, 20, 67, 2, 1, 3, 8, RT_MASK_FULL),
                                   documents(RT_MASK_CAUSAL_BOTTOM_RIGHT), documents(RT_MASK_CAUSAL)};
    for (int x = 0; x < 4; x++)
        for (int y = 0; y < HOWS; y++) {
            if (t_left_out(HOWS * x + y))
                continue;
            t_tensors t;
            t_tensors_create(&problems[x], &t);
            t_fill(&t, RT_FAMILY_TRACER, 7);
            t_run(&t, &hows[y]);
            tracer_rows(&t);
            tracer_gradients(&t);
            t_tensors_free(&t);
        }
}

/* ---- other closed forms ------------------------------------------------------------------------------ */

/* V constant = c: O = c.  n weights and a sum each: numerator and l are off by (n + 20) u at most, in
 * opposite ways. */
static void constant_v_comes_back(void **state)
{
    (void)state;
    const rt_problem p = documents(RT_MASK_CAUSAL);
    for (int y = 0; y < HOWS; y++) {
        t_tensors t;
        t_tensors_create(&p, &t);
        t_fill(&t, RT_FAMILY_GAUSSIAN, 3);
        for (int64_t e = 0; e < t_rows(&p, RT_V) * p.dim_v; e++)
            t.x[RT_V][e] = 0.7 + (double)(e % p.dim_v);
        t_run(&t, &hows[y]);
        for (int64_t e = 0; e < t_rows(&p, RT_OUT) * p.dim_v; e++) {
            const double want = isinf(t.x[RT_LSE][e / p.dim_v]) ? 0.0 : 0.7 + (double)(e % p.dim_v);
            t_assert_le(fabs(t.x[RT_OUT][e] - want), 2 * (18 + 20) * 0x1p-53 * want);
        }
        t_tensors_free(&t);
    }
}

/* All K equal: LSE = s + ln n.  q and k are small integers and the scale is 1/2, so that s is exact. */
static void equal_keys_add_the_log_of_their_number(void **state)
{
    (void)state;
    rt_problem p = documents(RT_MASK_CAUSAL);
    p.scale_kind = RT_SCALE_F32;
    p.scale = 0.5;
    for (int y = 0; y < HOWS; y++) {
        t_tensors t;
        t_tensors_create(&p, &t);
        t_fill(&t, RT_FAMILY_GAUSSIAN, 4);
        for (int64_t e = 0; e < t_rows(&p, RT_Q) * p.dim; e++)
            t.x[RT_Q][e] = (double)(e % 11 - 5);
        for (int64_t e = 0; e < t_rows(&p, RT_K) * p.dim; e++)
            t.x[RT_K][e] = (double)(e % p.dim - 2);
        t_run(&t, &hows[y]);
        for (int64_t r = 0; r < t_rows(&p, RT_LSE); r++) {
            const int64_t i = r / p.heads_q % p.seqlen_q, n = visible(&p, i);
            double s = 0;
            for (int64_t d = 0; d < p.dim; d++)
                s += 0.5 * t.x[RT_Q][r * p.dim + d] * (double)(d - 2);
            if (n == 0)
                t_assert_bits_eq(t.x[RT_LSE][r], -T_INF);
            else /* 1 ulp of the logarithm, half a one of the sum */
                t_assert_le(
                    (double)fabsl((long double)t.x[RT_LSE][r] - (long double)s - logl((long double)n)),
                    0x1p-52 * log((double)n) + 0x1p-53 * fabs(s + log((double)n)));
        }
        t_tensors_free(&t);
    }
}

/* One key whose score is 800 above the others': exp(-800) is zero, so each row that sees it is its V,
 * exactly. */
static void one_huge_logit_takes_the_row(void **state)
{
    (void)state;
    rt_problem p = t_problem(1, 40, 40, 2, 1, 4, 3, RT_MASK_CAUSAL);
    p.scale_kind = RT_SCALE_F64;
    p.scale = 1;
    const int64_t key = 17;
    for (int y = 0; y < HOWS; y++) {
        t_tensors t;
        t_tensors_create(&p, &t);
        t_fill(&t, RT_FAMILY_GAUSSIAN, 5);
        for (int64_t e = 0; e < t_rows(&p, RT_Q) * p.dim; e++)
            t.x[RT_Q][e] = e % p.dim == 0 ? 1 : 0;
        for (int64_t j = 0; j < p.seqlen_k; j++)
            t_row(&t, RT_K, 0, j, 0)[0] = j == key ? 801 : (double)(j % 2);
        t_run(&t, &hows[y]);
        for (int64_t i = key; i < p.seqlen_q; i++)
            for (int64_t h = 0; h < p.heads_q; h++) {
                t_assert_bits_eq(*t_row(&t, RT_LSE, 0, i, h), 801);
                for (int64_t d = 0; d < p.dim_v; d++)
                    t_assert_bits_eq(t_row(&t, RT_OUT, 0, i, h)[d], t_row(&t, RT_V, 0, key, 0)[d]);
                for (int64_t d = 0; d < p.dim;
                     d++) /* all weight on one key: dS = 0 but for rounding of delta */
                    t_assert_le(fabs(t_row(&t, RT_DQ, 0, i, h)[d]), 801 * 3 * 6 * 6 * 3 * 0x1p-52);
            }
        t_tensors_free(&t);
    }
}

/* ---- finite differences ------------------------------------------------------------------------------ */

static long double objective_change(const t_tensors *plus, const t_tensors *minus)
{
    long double sum = 0;
    for (int64_t e = 0; e < t_rows(plus->p, RT_OUT) * plus->p->dim_v; e++)
        sum += ((long double)plus->x[RT_OUT][e] - (long double)minus->x[RT_OUT][e]) *
               (long double)plus->x[RT_DOUT][e];
    return sum;
}

/* f = sum(O dO), (f(x + h) - f(x - h)) / 2h against the gradient.
 *
 * Along one entry of q or k a row's scores move by slopes of at most A = scale max|k| (or |q|), so that its
 * part of f is E_w[dO.v] under an exponential tilt, whose third derivative is the joint cumulant of dO.v
 * and three slopes.  A joint cumulant of four bounded variables is at most sum over partitions (parts - 1)!
 * = 1 + 7 + 12 + 6 = 26 times the product of their bounds: truncation <= h^2/6 * 26 G A^3 per row, G = max
 * |dO.v|.  f is linear in v. Rounding: each O is within its bound, twice, over 2h: sum |dO| bound(O) / h.
 */
static void gradients_agree_with_central_differences(void **state)
{
    (void)state;
    const rt_problem p = documents(RT_MASK_CAUSAL);
    const double h = 0x1p-13;
    t_tensors t, plus, minus, want, bound;
    t_tensors_create(&p, &t);
    t_tensors_create(&p, &plus);
    t_tensors_create(&p, &minus);
    t_tensors_create(&p, &want);
    t_tensors_create(&p, &bound);
    t_fill(&t, RT_FAMILY_GAUSSIAN, 21);
    t_reference(&t, &want, &bound);
    const t_how how = {RT_LAYOUT_ZIGZAG, 3, "ring", 0};
    t_run(&t, &how);
    double rounding = 0, large[RT_TENSOR_COUNT] = {0};
    for (int64_t e = 0; e < t_rows(&p, RT_OUT) * p.dim_v; e++)
        rounding += fabs(t.x[RT_DOUT][e]) * bound.x[RT_OUT][e] / h;
    for (int id = RT_Q; id <= RT_DOUT; id++)
        for (int64_t e = 0; e < t_rows(&p, (rt_tensor_id)id) * t_width(&p, (rt_tensor_id)id); e++)
            large[id] = fmax(large[id], fabs(t.x[id][e]));
    const double G = (double)p.dim_v * large[RT_DOUT] * large[RT_V];
    const rt_tensor_id input[] = {RT_Q, RT_K, RT_V}, gradient[] = {RT_DQ, RT_DK, RT_DV};
    int checked = 0;
    for (int x = 0; x < 3; x++) {
        const int64_t n = t_rows(&p, input[x]) * t_width(&p, input[x]);
        const double A = x == 2 ? 0 : p.scale * large[x == 0 ? RT_K : RT_Q];
        const double rows =
            x == 0 ? 1 : (double)(14 * p.heads_q / p.heads_kv); /* of the longest document */
        const double tolerance = rounding + rows * h * h / 6 * 26 * G * A * A * A;
        for (int64_t e = 3; e < n; e += n / 12) {
            t_copy_inputs(&plus, &t);
            t_copy_inputs(&minus, &t);
            plus.x[input[x]][e] += h;
            minus.x[input[x]][e] -= h;
            const long double step = (long double)plus.x[input[x]][e] - (long double)minus.x[input[x]][e];
            t_run(&plus, &how);
            t_run(&minus, &how);
            const long double got = (long double)t.x[gradient[x]][e];
            t_assert_le((double)fabsl(objective_change(&plus, &minus) / step - got), tolerance);
            checked += fabsl(got) > 100 * (long double)tolerance;
        }
    }
    assert_true(checked > 20); /* most entries are far larger than what the check allows */
    t_tensors_free(&t);
    t_tensors_free(&plus);
    t_tensors_free(&minus);
    t_tensors_free(&want);
    t_tensors_free(&bound);
}

/* ---- empty rows, and what is not finite -------------------------------------------------------------- */

static void empty_rows_are_zero_with_no_gradient(void **state)
{
    (void)state;
    const rt_problem problems[] = {t_problem(2, 40, 13, 4, 2, 6, 5, RT_MASK_CAUSAL_BOTTOM_RIGHT),
                                   documents(RT_MASK_FULL), documents(RT_MASK_CAUSAL_BOTTOM_RIGHT)};
    for (int x = 0; x < 3; x++)
        for (int y = 0; y < HOWS; y++) {
            if (t_left_out(HOWS * x + y))
                continue;
            const rt_problem *p = &problems[x];
            t_tensors t;
            t_tensors_create(p, &t);
            t_fill(&t, RT_FAMILY_GAUSSIAN, 6);
            t_run(&t, &hows[y]);
            int empty = 0;
            for (int64_t r = 0; r < t_rows(p, RT_OUT); r++) {
                if (visible(p, r / p->heads_q % p->seqlen_q) > 0) {
                    assert_true(isfinite(t.x[RT_LSE][r]));
                    continue;
                }
                empty++;
                t_assert_bits_eq(t.x[RT_LSE][r], -T_INF);
                for (int64_t d = 0; d < p->dim_v; d++)
                    t_assert_bits_eq(t.x[RT_OUT][r * p->dim_v + d], 0.0);
                for (int64_t d = 0; d < p->dim; d++)
                    t_assert_bits_eq(t.x[RT_DQ][r * p->dim + d], 0.0);
            }
            assert_true(empty > 0);
            for (int64_t e = 0; e < t_rows(p, RT_DK) * p->dim; e++)
                assert_true(isfinite(t.x[RT_DK][e]));
            for (int64_t e = 0; e < t_rows(p, RT_DV) * p->dim_v; e++)
                assert_true(isfinite(t.x[RT_DV][e]));
            t_tensors_free(&t);
        }
}

/* What a token that nobody sees (or that sees nobody) holds reaches nothing: same bits as with zeros there.
 */
static void hidden_slots_reach_nothing(void **state)
{
    (void)state;
    const rt_problem problems[] = {t_problem(1, 40, 70, 2, 1, 6, 5, RT_MASK_CAUSAL),
                                   t_problem(1, 70, 40, 2, 1, 6, 5, RT_MASK_CAUSAL_BOTTOM_RIGHT),
                                   documents(RT_MASK_CAUSAL), documents(RT_MASK_CAUSAL_BOTTOM_RIGHT)};
    const double poison[] = {T_NAN, T_INF, -T_INF, 1e308, -1e308};
    for (int x = 0; x < 4; x++)
        for (int y = 0; y < HOWS; y++) {
            if (t_left_out(HOWS * x + y))
                continue;
            const rt_problem *p = &problems[x];
            t_tensors t, zero;
            t_tensors_create(p, &t);
            t_tensors_create(p, &zero);
            t_fill(&t, RT_FAMILY_GAUSSIAN, 8);
            int hidden = 0;
            for (int64_t b = 0; b < p->batch; b++) {
                for (int64_t i = 0; i < p->seqlen_q; i++)
                    for (int64_t h = 0; h < p->heads_q && visible(p, i) == 0; h++, hidden++) {
                        memset(t_row(&t, RT_Q, b, i, h), 0, (size_t)p->dim * sizeof(double));
                        memset(t_row(&t, RT_DOUT, b, i, h), 0, (size_t)p->dim_v * sizeof(double));
                    }
                for (int64_t j = 0; j < p->seqlen_k; j++) {
                    bool seen = false;
                    for (int64_t i = 0; i < p->seqlen_q; i++)
                        seen = seen || t_sees(p, i, j);
                    for (int64_t h = 0; h < p->heads_kv && !seen; h++, hidden++) {
                        memset(t_row(&t, RT_K, b, j, h), 0, (size_t)p->dim * sizeof(double));
                        memset(t_row(&t, RT_V, b, j, h), 0, (size_t)p->dim_v * sizeof(double));
                    }
                }
            }
            assert_true(hidden > 0);
            t_copy_inputs(&zero, &t);
            t_run(&zero, &hows[y]);
            int64_t turn = 0;
            for (int id = RT_Q; id <= RT_DOUT;
                 id++) /* the zeros of a gaussian set are those that were put there */
                for (int64_t e = 0; e < t_rows(p, (rt_tensor_id)id) * t_width(p, (rt_tensor_id)id); e++)
                    if (t_same(t.x[id][e], 0.0))
                        t.x[id][e] = poison[turn++ % 5];
            t_run(&t, &hows[y]);
            t_check_same(&t, &zero, "hidden slots");
            t_tensors_free(&t);
            t_tensors_free(&zero);
        }
}

/* The results that depend on element d of row (b, pos, h) of an input, marked NaN:
 * - q_i or k_j: the row i (rows that see j) of O, LSE and dQ; dK and dV of every key such a row sees
 * - v_j: element d of O in rows that see j; through delta their dQ, and dK of every key that they see
 * - dO_i: dQ_i, dK of every key that i sees, and element d of dV there
 * A pair that is dropped hands nothing to O and dV. */
static void mark(const t_tensors *want, rt_tensor_id id, int64_t b, int64_t pos, int64_t h, int64_t d)
{
    const rt_problem *p = want->p;
    const int64_t group = p->heads_q / p->heads_kv;
    for (int64_t x = 0; x < p->heads_q; x++)
        for (int64_t i = 0; i < p->seqlen_q; i++) {
            const bool touched = id == RT_Q || id == RT_DOUT
                                     ? x == h && i == pos
                                     : x / group == h && t_sees(p, i, pos) &&
                                           (id == RT_K || rt_dropout_keep(p, b, x, i, pos));
            if (!touched || visible(p, i) == 0)
                continue;
            const bool row = id == RT_Q || id == RT_K;
            if (row)
                *t_row(want, RT_LSE, b, i, x) = T_NAN;
            for (int64_t c = 0; c < p->dim_v; c++)
                if (row || (id == RT_V && c == d))
                    t_row(want, RT_OUT, b, i, x)[c] = T_NAN;
            for (int64_t c = 0; c < p->dim; c++)
                t_row(want, RT_DQ, b, i, x)[c] = T_NAN;
            for (int64_t j = 0; j < p->seqlen_k; j++) {
                if (!t_sees(p, i, j))
                    continue;
                for (int64_t c = 0; c < p->dim; c++)
                    t_row(want, RT_DK, b, j, x / group)[c] = T_NAN;
                for (int64_t c = 0; c < p->dim_v; c++)
                    if ((row || (id == RT_DOUT && c == d)) && rt_dropout_keep(p, b, x, i, j))
                        t_row(want, RT_DV, b, j, x / group)[c] = T_NAN;
            }
        }
}

static void not_finite_reaches(const char *arithmetic, double dropout)
{
    t_run_in(arithmetic);
    const rt_mask_kind masks[] = {RT_MASK_CAUSAL, RT_MASK_FULL};
    const double bad[] = {T_NAN, T_INF, -T_INF};
    for (int m = 0; m < 2; m++)
        for (int y = 0; y < HOWS; y++) {
            if (t_left_out(HOWS * m + y))
                continue;
            rt_problem p = documents(masks[m]);
            p.dropout = dropout;
            t_tensors t, clean, want;
            t_tensors_create(&p, &t);
            t_tensors_create(&p, &clean);
            t_tensors_create(&p, &want);
            t_fill(&clean, RT_FAMILY_GAUSSIAN, 9);
            t_run(&clean, &hows[y]);
            for (int id = RT_Q; id <= RT_DOUT; id++)
                for (int x = 0; x < 3; x++) {
                    const rt_tensor_id what = (rt_tensor_id)id;
                    const int64_t pos = x == 0 ? 10 : x == 1 ? 25 : 4, h = t_heads(&p, what) - 1, d = 2 + x;
                    t_copy_inputs(&t, &clean);
                    for (int r = RT_LSE; r < RT_TENSOR_COUNT; r++)
                        memcpy(want.x[r], clean.x[r],
                               (size_t)(t_rows(&p, (rt_tensor_id)r) * t_width(&p, (rt_tensor_id)r)) *
                                   sizeof(double));
                    t_row(&t, what, 1, pos, h)[d] = bad[x];
                    mark(&want, what, 1, pos, h, d);
                    t_run(&t, &hows[y]);
                    char text[100];
                    (void)snprintf(text, sizeof text, "%g in %s, token %d, plan %s, mask %d", bad[x],
                                   rt_tensor_name(what), (int)pos, hows[y].plan, m);
                    t_check_same(&t, &want, text);
                }
            t_tensors_free(&t);
            t_tensors_free(&clean);
            t_tensors_free(&want);
        }
}

static void not_finite_reaches_what_depends_on_it_and_no_more(void **state)
{
    (void)state;
    not_finite_reaches("exact", 0);
    not_finite_reaches("exact", 0.5);
    not_finite_reaches("f64", 0.5);
    not_finite_reaches("f64", 0);
}

/* Finite inputs that overflow: in a score, the row is NaN; in dP, what it gives to the keys that the row
 * sees is not finite, and nothing else changes.  Either way keys hidden in the same block stay as they
 * were. */
static void overflow_stays_in_its_row(void **state)
{
    (void)state;
    const rt_problem p = documents(RT_MASK_CAUSAL);
    const int64_t pos = 4, head = 1;
    for (int y = 0; y < HOWS; y++)
        for (int in_score = 0; in_score < 2; in_score++) {
            t_tensors t, want;
            t_tensors_create(&p, &t);
            t_tensors_create(&p, &want);
            t_fill(&want, RT_FAMILY_GAUSSIAN, 10);
            const rt_tensor_id row = in_score ? RT_Q : RT_DOUT, key = in_score ? RT_K : RT_V;
            for (int64_t j = 0; j < p.seqlen_k; j++)
                t_row(&want, key, 0, j, 0)[0] = 32 + (double)(j % 3);
            t_run(&want, &hows[y]);
            t_copy_inputs(&t, &want);
            t_row(&t, row, 0, pos, head)[0] = 1e308;
            mark(&want, row, 0, pos, head, 0);
            t_run(&t, &hows[y]);
            for (int r = RT_LSE; r < RT_TENSOR_COUNT; r++)
                for (int64_t e = 0; e < t_rows(&p, (rt_tensor_id)r) * t_width(&p, (rt_tensor_id)r); e++) {
                    if (isnan(want.x[r][e]) && !in_score)
                        continue; /* finite in dV, infinite or NaN elsewhere: whatever the sums make of it
                                   */
                    t_assert_bits_eq(t.x[r][e], want.x[r][e]);
                }
            t_tensors_free(&t);
            t_tensors_free(&want);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tracer_counts_keys_and_has_its_closed_forms),
        cmocka_unit_test(constant_v_comes_back),
        cmocka_unit_test(equal_keys_add_the_log_of_their_number),
        cmocka_unit_test(one_huge_logit_takes_the_row),
        cmocka_unit_test(gradients_agree_with_central_differences),
        cmocka_unit_test(empty_rows_are_zero_with_no_gradient),
        cmocka_unit_test(hidden_slots_reach_nothing),
        cmocka_unit_test(not_finite_reaches_what_depends_on_it_and_no_more),
        cmocka_unit_test(overflow_stays_in_its_row),
    };
    return cmocka_run_group_tests_name("run values", tests, NULL, t_teardown_memory);
}
