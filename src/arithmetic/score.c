/* What joins and bends the scores of a row. */
#include "arithmetic/score.h"

#include <float.h>
#include <math.h>

enum { CHUNK = 64 };

/* softcap c: x = s / c, s <- c tanh x; its slope 1 - tanh^2 x = 4 e / (1 + e)^2 with e = exp(-2 |x|), which keeps its
 * relative accuracy where tanh is all but 1. */
static void cap(double c, int64_t n, double *s, double *slope)
{
    double x[CHUNK], e[CHUNK];
    for (int64_t at = 0; at < n; at += CHUNK) {
        const int64_t m = n - at < CHUNK ? n - at : CHUNK;
        for (int64_t k = 0; k < m; k++) {
            x[k] = s[at + k] / c;
            e[k] = -2.0 * fabs(x[k]);
        }
        rt_tanh_vector(x, m);
        for (int64_t k = 0; k < m; k++)
            s[at + k] = c * x[k];
        if (slope == NULL)
            continue;
        rt_exp_vector(e, m);
        for (int64_t k = 0; k < m; k++)
            slope[at + k] = 4.0 * e[k] / ((1.0 + e[k]) * (1.0 + e[k]));
    }
}

void rt_score_row(const rt_problem *p, int64_t b, int64_t h, int64_t i, const int64_t *k_pos, int64_t n,
                  double *s, double *slope)
{
    if (p->alibi != NULL) {
        const double steep = -p->alibi[h];
        const int64_t zero = rt_score_diagonal(p, i);
        for (int64_t c = 0; c < n; c++) {
            const int64_t d = k_pos[c] - zero;
            s[c] += steep * (double)(d < 0 ? -d : d);
        }
    }
    const double *bias = p->bias == NULL ? NULL : rt_score_bias_row(p, b, h, i);
    for (int64_t c = 0; bias != NULL && c < n; c++)
        s[c] += bias[k_pos[c]];
    if (p->softcap > 0)
        cap(p->softcap, n, s, slope);
    for (int64_t c = 0; slope != NULL && !(p->softcap > 0) && c < n; c++)
        slope[c] = 1.0;
    for (int64_t c = 0; bias != NULL && c < n; c++) /* whatever became of it on the way */
        s[c] = rt_is_minus_inf(bias[k_pos[c]]) ? -RT_INF : s[c];
}

void rt_score_row_floats(const rt_problem *p, int64_t b, int64_t h, int64_t i, const int64_t *k_pos,
                         int64_t n, float *s, double *slope)
{
    static const double ln2 = 0.69314718055994530942, most = (double)FLT_MAX / 2;
    double x[CHUNK];
    for (int64_t at = 0; at < n; at += CHUNK) {
        const int64_t m = n - at < CHUNK ? n - at : CHUNK;
        for (int64_t k = 0; k < m; k++)
            x[k] = ln2 * (double)s[at + k];
        rt_score_row(p, b, h, i, k_pos + at, m, x, slope == NULL ? NULL : slope + at);
        for (int64_t k = 0; k < m; k++) {
            double y = x[k] / ln2; /* a bias that stands for a mask must stay finite */
            y = y < -most && !rt_is_minus_inf(y) ? -most : y > most ? most : y;
            s[at + k] = (float)y;
        }
    }
}

double rt_score_join_sink(double sink, double *m, double *l)
{
    const double top = sink > *m ? sink : *m, c = rt_exp_scalar(*m - top);
    *l = *l * c + rt_exp_scalar(sink - top);
    *m = top;
    return c;
}
