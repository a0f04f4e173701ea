/* Results that lie beside a midpoint by less than any precision shows.
 *
 * A class is the keys of one score, a sink among them.  Let the highest have n_1 keys with sum of v_d S_1, and let S_1 / (n_1 keep) = M be
 * a midpoint.  Then
 *   O - M = sum over the other classes of w_c (S_c - n_c keep M) / (Z keep),
 * whose sign is that of the sum divided by the weight of the highest class in it that does not vanish: numbers of ordinary size.
 * With one key highest, L = z_1 + ln(1 + ..) lies above its score z_1. */
#include <math.h>

#include "arithmetic/exact_mpfr.h"

enum { BITS = 512, WIDE = 2 * RT_EXACT_BITS, KEEP_BITS = 1200 };

bool rt_mpfr_scaled(const rt_problem *p, const mpfr_t score, mpfr_t out)
{
    rt_mpfr_scale(out, p);
    mpfr_mul(out, out, score, MPFR_RNDN);
    if (p->scale_kind != RT_SCALE_RSQRT_DIM || mpfr_zero_p(score))
        return true;
    const long root = (long)(sqrt((double)p->dim) + 0.5);
    if (root * root != p->dim)
        return false;
    mpfr_div_si(out, score, root, MPFR_RNDN); /* a whole quotient, or a repeating fraction */
    mpfr_t back;
    mpfr_init2(back, WIDE + 64);
    mpfr_mul_si(back, out, root, MPFR_RNDN);
    const bool exact = mpfr_cmp(back, score) == 0;
    mpfr_clear(back);
    return exact;
}

/* by x = sum, exactly, for a midpoint x beside c: +1 that above, -1 that below, 0 neither; then midpoint = x. */
static int at_midpoint(const mpfr_t sum, const mpfr_t by, double c, double gap_below, double gap_above,
                       mpfr_t midpoint)
{
    mpfr_t t;
    mpfr_init2(t, WIDE + 64);
    int side = 0;
    for (int turn = 1; turn >= -1 && side == 0; turn -= 2) {
        mpfr_set_d(midpoint, turn > 0 ? gap_above : -gap_below, MPFR_RNDN);
        mpfr_div_2ui(midpoint, midpoint, 1, MPFR_RNDN);
        mpfr_add_d(midpoint, midpoint, c, MPFR_RNDN);
        mpfr_mul(t, midpoint, by, MPFR_RNDN);
        if (mpfr_cmp(t, sum) == 0)
            side = turn;
    }
    mpfr_clear(t);
    return side;
}

/* The neighbour above (sign > 0) or below the midpoint on `side` of c. */
static double beside(rt_dtype format, double c, double gap_below, double gap_above, int side, int sign)
{
    const double x = rt_round_to(format, side > 0 ? (sign > 0 ? c + 0.75 * gap_above : c)
                                                  : (sign < 0 ? c - 0.75 * gap_below : c));
    return x < 0 || x > 0 || isnan(x) ? x : 0.0;
}

static bool below_quarter(const mpfr_t x, double gap_below, double gap_above)
{
    mpfr_t four;
    mpfr_init2(four, mpfr_get_prec(x)); /* a quarter of a subnormal gap is no double */
    mpfr_mul_2ui(four, x, 2, MPFR_RNDU);
    const bool below = mpfr_cmp_d(four, gap_below < gap_above ? gap_below : gap_above) < 0;
    mpfr_clear(four);
    return below;
}

bool rt_mpfr_leading_output(const rt_mpfr_row *r, int64_t d, rt_dtype format, double *out)
{
    const int64_t Dv = r->p->dim_v, first = r->classes - 1;
    mpfr_t sum, midpoint, t, rest, total, alpha, w, keep, by;
    mpfr_inits2(WIDE, sum, midpoint, t, (mpfr_ptr)0);
    mpfr_inits2(BITS, rest, total, alpha, w, (mpfr_ptr)0);
    mpfr_inits2(KEEP_BITS, keep, by, (mpfr_ptr)0);
    mpfr_set_zero(sum, 1);
    mpfr_set_zero(rest, 1);
    mpfr_set_zero(total, 1);
    mpfr_set_d(keep, 1, MPFR_RNDN);
    mpfr_sub_d(keep, keep, r->p->dropout, MPFR_RNDN);
    rt_mpfr_scale(alpha, r->p);
    int64_t n = 0, lead = -1;
    for (int64_t j = 0; j < r->n; j++)
        if (r->class_of[j] == first) {
            mpfr_add_d(sum, sum, r->v[j * Dv + d], MPFR_RNDN);
            n++;
        }
    double c, below, above;
    mpfr_mul_si(by, keep, (long)n, MPFR_RNDN);
    mpfr_div(t, sum, by, MPFR_RNDN);
    rt_exact_candidate(format, mpfr_get_d(t, MPFR_RNDN), &c, &below, &above);
    const int side = at_midpoint(sum, by, c, below, above, midpoint);
    mpfr_mul(midpoint, midpoint, keep, MPFR_RNDN);
    double size = 0;
    for (int64_t x = first - 1; side != 0 && x >= 0; x--) {
        int64_t member = -1;
        mpfr_set_zero(t, 1); /* S_c - n_c keep M */
        for (int64_t j = 0; j < r->n; j++)
            if (r->class_of[j] == x) {
                mpfr_add_d(t, t, r->v[j * Dv + d], MPFR_RNDN);
                mpfr_sub(t, t, midpoint, MPFR_RNDN);
                member = j;
            }
        if (mpfr_zero_p(t))
            continue;
        lead = lead < 0 ? member : lead;
        const double off = rt_mpfr_gap(r, member, lead, alpha, w);
        size = off > size && !rt_mpfr_vanishes(r, w, off) ? off : size;
        mpfr_exp(w, w, MPFR_RNDN);
        mpfr_mul(w, w, t, MPFR_RNDN);
        mpfr_add(rest, rest, w, MPFR_RNDN);
        mpfr_abs(w, w, MPFR_RNDN);
        mpfr_add(total, total, w, MPFR_RNDU);
    }
    bool told = false;
    if (lead >= 0 && size < 0x1p400) {
        mpfr_mul_d(w, total, 4 * size + 2 * (double)r->n + 16, MPFR_RNDU);
        mpfr_div_2ui(w, w, BITS, MPFR_RNDU);
        told = mpfr_cmpabs(rest, w) > 0;
        /* and small: |O - M| <= total exp(z_lead - z_1) / keep */
        const double off = rt_mpfr_gap(r, lead, r->top, alpha, w);
        const bool sure = rt_mpfr_vanishes(r, w, off) || off < 0x1p400;
        mpfr_exp(w, w, MPFR_RNDU);
        mpfr_mul(w, w, total, MPFR_RNDU);
        mpfr_div(w, w, keep, MPFR_RNDU);
        mpfr_mul_2ui(w, w, 1, MPFR_RNDU);
        told = told && sure && below_quarter(w, below, above);
        if (told)
            *out = beside(format, c, below, above, side, mpfr_sgn(rest));
    }
    mpfr_clears(sum, midpoint, t, rest, total, alpha, w, keep, by, (mpfr_ptr)0);
    return told;
}

bool rt_mpfr_leading_lse(const rt_mpfr_row *r, rt_dtype format, double *lse)
{
    int64_t n = 0;
    for (int64_t j = 0; j < r->n; j++)
        n += r->class_of[j] == r->classes - 1;
    if (n != 1 || r->classes < 2)
        return false;
    bool told = false;
    double c, below, above;
    mpfr_t x, midpoint, one, alpha, sum, w;
    mpfr_inits2(WIDE, x, midpoint, (mpfr_ptr)0);
    mpfr_inits2(BITS, one, alpha, sum, w, (mpfr_ptr)0);
    if (rt_mpfr_exact_value(r, r->top, x)) {
        mpfr_set_si(one, 1, MPFR_RNDN);
        rt_exact_candidate(format, mpfr_get_d(x, MPFR_RNDN), &c, &below, &above);
        const int side = at_midpoint(x, one, c, below, above, midpoint);
        rt_mpfr_scale(alpha, r->p);
        mpfr_set_zero(sum, 1); /* ln(1 + sum) <= sum */
        double size = 0;
        for (int64_t j = 0; side != 0 && j < r->n; j++) {
            if (j == r->top)
                continue;
            const double off = rt_mpfr_gap(r, j, r->top, alpha, w);
            size = off > size && !rt_mpfr_vanishes(r, w, off) ? off : size;
            mpfr_exp(w, w, MPFR_RNDU);
            mpfr_add(sum, sum, w, MPFR_RNDU);
        }
        mpfr_mul_2ui(sum, sum, 1, MPFR_RNDU); /* their errors */
        told = side != 0 && size < 0x1p400 && below_quarter(sum, below, above);
        if (told)
            *lse = beside(format, c, below, above, side, 1);
    }
    mpfr_clears(x, midpoint, one, alpha, sum, w, (mpfr_ptr)0);
    return told;
}
