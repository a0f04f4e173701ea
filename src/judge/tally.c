/* Classification of elements, and the counts of a tensor.  Every comparison is written so that a NaN fails.
 */
#include <string.h>

#include "judge/sweep.h"

static const char *const class_names[] = {"ROUNDED", "FAITHFUL", "EXPLAINED", "SUSPECT",
                                          "WRONG",   "SPECIAL",  "UNDEFINED"};

const char *rt_class_name(rt_class c)
{
    return class_names[c];
}

/* Bin of a ratio: 16 an octave from 2^-24; below goes to bin 0, above (or NaN) to the last. */
static int ratio_bin(double r)
{
    if (!(r < 0x1p8))
        return RT_RATIO_BINS - 1;
    if (!(r > 0x1p-24))
        return 0;
    int e;
    const double m = frexp(r, &e); /* r = m 2^e, m in [1/2, 1) */
    const int bin = (e - 1 + 24) * 16 + (int)((m - 0.5) * 32);
    return bin < 0 ? 0 : bin >= RT_RATIO_BINS ? RT_RATIO_BINS - 1 : bin;
}

double rt_tally_ratio_quantile(const rt_tally *t, double q)
{
    int64_t total = 0, seen = 0;
    for (int i = 0; i < RT_RATIO_BINS; i++)
        total += t->ratio_bins[i];
    if (total == 0)
        return 0;
    for (int i = 0; i < RT_RATIO_BINS; i++) {
        seen += t->ratio_bins[i];
        if ((double)seen >= q * (double)total) {
            if (i == 0)
                return 0;
            const double edge = ldexp(0.5 + (double)(i % 16 + 1) / 32, i / 16 - 24 + 1);
            return edge < t->max_ratio_lambda ? edge : t->max_ratio_lambda;
        }
    }
    return t->max_ratio_lambda;
}

double rt_tally_bias(const rt_tally *t, double *z)
{
    const int64_t n = t->elements - t->count[RT_CLASS_UNDEFINED] - t->count[RT_CLASS_SPECIAL];
    *z = 0;
    if (n <= 0)
        return 0;
    const double mean = (double)t->bias_sum * 0x1p-20 / (double)n;
    if (t->bias_squares > 0)
        *z = mean * (double)n / sqrt((double)t->bias_squares * 0x1p-10);
    return mean;
}

bool rt_tally_pass(const rt_tally *t)
{
    return t->judged && t->count[RT_CLASS_WRONG] == 0 && t->count[RT_CLASS_SPECIAL] == 0 &&
           t->count[RT_CLASS_SUSPECT] == 0;
}

static bool before(const rt_element *a, const rt_element *b)
{
    if (a->b != b->b)
        return a->b < b->b;
    if (a->pos != b->pos)
        return a->pos < b->pos;
    if (a->head != b->head)
        return a->head < b->head;
    return a->dim < b->dim;
}

/* "First" prefers what fails for certain over what is only unlikely. */
static bool comes_first(const rt_element *a, const rt_element *b)
{
    const bool ha = a->found != RT_CLASS_SUSPECT, hb = b->found != RT_CLASS_SUSPECT;
    return ha != hb ? ha : before(a, b);
}

/* A larger ratio, or the same at an earlier place; a SPECIAL (no ratio) is worse than any. */
static bool is_worse(const rt_element *a, const rt_element *b)
{
    const bool sa = a->found == RT_CLASS_SPECIAL, sb = b->found == RT_CLASS_SPECIAL;
    if (sa != sb)
        return sa;
    if (!sa && a->ratio > b->ratio)
        return true;
    if (!sa && b->ratio > a->ratio)
        return false;
    return before(a, b);
}

void rt_tally_merge(rt_tally *into, const rt_tally *from)
{
    into->judged = into->judged || from->judged;
    if (from->judged)
        into->dtype = from->dtype;
    into->elements += from->elements;
    for (int i = 0; i < RT_CLASS_COUNT; i++)
        into->count[i] += from->count[i];
    for (int i = 0; i < RT_RATIO_BINS; i++)
        into->ratio_bins[i] += from->ratio_bins[i];
    for (int i = 0; i < RT_ULP_BINS; i++)
        into->ulp_bins[i] += from->ulp_bins[i];
    into->unknown += from->unknown;
    into->bias_sum += from->bias_sum;
    into->bias_squares += from->bias_squares;
    into->empty_minus_inf += from->empty_minus_inf;
    into->empty_plus_inf += from->empty_plus_inf;
    into->empty_zero += from->empty_zero;
    into->max_ratio = from->max_ratio > into->max_ratio ? from->max_ratio : into->max_ratio;
    if (from->max_ratio_lambda > into->max_ratio_lambda ||
        (from->max_ratio_lambda >= into->max_ratio_lambda && from->max_ratio_lambda > 0 &&
         before(&from->peak, &into->peak))) {
        into->max_ratio_lambda = from->max_ratio_lambda;
        memcpy(into->part, from->part, sizeof into->part);
        into->peak = from->peak;
    }
    if (from->has_first && (!into->has_first || comes_first(&from->first, &into->first))) {
        into->first = from->first;
        into->has_first = true;
    }
    if (from->has_worst && (!into->has_worst || is_worse(&from->worst, &into->worst))) {
        into->worst = from->worst;
        into->has_worst = true;
    }
}

static void note(rt_tally *t, const rt_element *e)
{
    if (e->found != RT_CLASS_WRONG && e->found != RT_CLASS_SPECIAL && e->found != RT_CLASS_SUSPECT)
        return;
    if (!t->has_first || comes_first(e, &t->first)) {
        t->first = *e;
        t->has_first = true;
    }
    if (!t->has_worst || is_worse(e, &t->worst)) {
        t->worst = *e;
        t->has_worst = true;
    }
}

/* An empty row's LSE: -inf, or a convention that is known (+inf of FlashAttention-2, 0). */
static rt_class empty_lse(rt_tally *t, double got)
{
    if (rt_is_minus_inf(got)) {
        t->empty_minus_inf++;
        return RT_CLASS_ROUNDED;
    }
    if (isinf(got)) {
        t->empty_plus_inf++;
        return RT_CLASS_EXPLAINED;
    }
    if (got >= 0 && got <= 0) {
        t->empty_zero++;
        return RT_CLASS_EXPLAINED;
    }
    return RT_CLASS_SPECIAL;
}

static void count_ulps(rt_tally *t, rt_class c, rt_dtype format, double got, double truth)
{
    static const double edge[] = {1, 2, 4, 16, 256};
    int bin = 0;
    const double signed_ulps = (got - truth) / rt_ulp(format, truth), ulps = fabs(signed_ulps);
    if (c != RT_CLASS_ROUNDED)
        for (bin = 1; bin <= 5 && !(ulps <= edge[bin - 1]); bin++)
            ;
    t->ulp_bins[bin]++;
    const double limit = ulps < 1024 ? signed_ulps : signed_ulps > 0 ? 1024 : -1024;
    t->bias_sum += (int64_t)(limit * 0x1p20);
    t->bias_squares += (int64_t)(limit * limit * 0x1p10);
}

/* Whether x overflows the format to what came (an infinity, or the NaN of a format without one). */
static bool overflows_to(rt_dtype format, double x, double got)
{
    const double rounded = rt_round_to(format, x);
    return isfinite(x) && !isfinite(rounded) && isnan(got) == isnan(rounded) &&
           (isnan(got) || (got > 0) == (rounded > 0));
}

/* An overflow is a right answer where the truth overflows, or could before its last rounding. */
static rt_class overflow(rt_dtype format, double got, double truth, const rt_bounds *b)
{
    const double sign = truth < 0 ? -1 : 1;
    if (overflows_to(format, truth, got))
        return RT_CLASS_ROUNDED;
    if (overflows_to(format, truth + sign * (b->lambda - b->rounding), got))
        return RT_CLASS_EXPLAINED;
    return overflows_to(format, truth + sign * (b->det + b->radius), got) ? RT_CLASS_SUSPECT
                                                                          : RT_CLASS_SPECIAL;
}

static void judge_element(rt_tally *t, rt_element *e, const rt_bounds *b, uint8_t undefined)
{
    const double got = e->got, truth = e->truth;
    if (undefined > 0) {
        /* A NaN must show; after an infinity several answers are right. */
        e->found = undefined == 2 && isfinite(got) ? RT_CLASS_SPECIAL : RT_CLASS_UNDEFINED;
        t->ulp_bins[RT_ULP_BINS - 1]++;
    } else if (isinf(b->known)) { /* what is not known is not judged; but finite inputs make no NaN */
        e->found =
            isnan(got) && !overflows_to(t->dtype, DBL_MAX, got) ? RT_CLASS_SPECIAL : RT_CLASS_UNDEFINED;
        t->unknown++;
        t->ulp_bins[RT_ULP_BINS - 1]++;
    } else if (rt_is_minus_inf(truth)) {
        e->found = empty_lse(t, got);
        t->ulp_bins[e->found == RT_CLASS_SPECIAL ? RT_ULP_BINS - 1 : 0]++;
    } else if (!isfinite(got) || !isfinite(truth)) {
        e->found = overflow(t->dtype, got, truth, b);
        t->ulp_bins[RT_ULP_BINS - 1]++;
    } else {
        const double err = fabs(got - truth);
        e->bound = b->bound;
        e->bound_lambda = b->lambda;
        e->ratio = err > 0 ? err / b->bound : 0;
        double likely = err > 0 ? err / b->lambda : 0;
        likely = likely <= DBL_MAX ? likely : RT_INF; /* of a NaN too */
        /* The truth is known to a radius: rounded only if both ends round to what came. */
        const double radius = b->radius, low = rt_round_to(t->dtype, truth - radius),
                     high = rt_round_to(t->dtype, truth + radius);
        if (got >= low && got <= low && got >= high && got <= high)
            e->found = RT_CLASS_ROUNDED;
        else if (fabs(truth) <= rt_max_finite(t->dtype) && got >= rt_round_down(t->dtype, truth) &&
                 got <= rt_round_up(t->dtype, truth)) /* beyond, the largest value is no neighbour */
            e->found = RT_CLASS_FAITHFUL;
        else if (err <= b->lambda)
            e->found = RT_CLASS_EXPLAINED;
        else if (err <= b->bound)
            e->found = RT_CLASS_SUSPECT;
        else
            e->found = RT_CLASS_WRONG;
        t->ratio_bins[ratio_bin(likely)]++;
        count_ulps(t, e->found, t->dtype, got, truth);
        t->max_ratio = e->ratio > t->max_ratio ? e->ratio : t->max_ratio;
        if (likely > t->max_ratio_lambda ||
            (likely >= t->max_ratio_lambda && likely > 0 && before(e, &t->peak))) {
            t->max_ratio_lambda = likely;
            t->peak = *e;
            const double parts[RT_BOUND_PARTS] = {b->sys, b->random, b->rounding, b->known,
                                                  b->det, b->lambda, b->bound};
            memcpy(t->part, parts, sizeof parts);
        }
    }
    t->count[e->found]++;
    t->elements++;
    note(t, e);
}

void rt_tally_row(const rt_sweep *s, rt_sweep_work *w, rt_tensor_id id, int64_t pos, int64_t head,
                  int64_t n, const double *truth, const rt_bounds *bounds, const uint8_t *undefined)
{
    rt_tally *t = &w->tally[id];
    t->judged = true;
    t->dtype = s->in->dtype[id];
    double *got = w->got;
    s->in->load(s->in->arg, id, s->b, pos, head, got);
    for (int64_t d = 0; d < n; d++) {
        rt_element e = {.b = s->b, .pos = pos, .head = head, .dim = d, .got = got[d], .truth = truth[d]};
        judge_element(t, &e, &bounds[d], undefined == NULL ? 0 : undefined[d]);
    }
    if (s->o->observe == NULL)
        return;
    double *bound = w->got + n, *lambda = bound + n; /* got is three rows long */
    for (int64_t d = 0; d < n; d++) {
        bound[d] = bounds[d].bound;
        lambda[d] = bounds[d].lambda;
    }
#pragma omp critical(rt_judge_observe)
    s->o->observe(s->o->observe_arg, id, s->b, pos, head, n, truth, bound, lambda);
}
