/* What joins and bends the scores: ALiBi, additive bias, softcap, sinks, dropout: their rules, and their
 * values at a pair of original positions. */
#include "problem/score.h"

#include "number/philox.h"
#include "problem/mask.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool rt_problem_has_scores(const rt_problem *p)
{
    return p->alibi != NULL || p->bias != NULL || p->softcap > 0 || p->sink != NULL || p->dropout > 0;
}

/* ---- ALiBi ------------------------------------------------------------------------------------------- */

int64_t rt_score_diagonal(const rt_problem *p, int64_t i)
{
    int64_t q0 = 0, k0 = 0, len_q = p->seqlen_q, len_k = p->seqlen_k;
    if (p->documents > 0) {
        const int64_t n = rt_document_of_query(p, i);
        q0 = p->cu_q[n];
        k0 = p->cu_k[n];
        len_q = p->cu_q[n + 1] - q0;
        len_k = p->cu_k[n + 1] - k0;
    }
    return k0 + (i - q0) + (p->mask == RT_MASK_CAUSAL_BOTTOM_RIGHT ? len_k - len_q : 0);
}

double rt_score_alibi(const rt_problem *p, int64_t h, int64_t i, int64_t j, double *low)
{
    *low = 0;
    if (p->alibi == NULL)
        return 0;
    const int64_t d = rt_score_diagonal(p, i) - j;
    const double slope = -p->alibi[h], distance = (double)(d < 0 ? -d : d), product = slope * distance;
    *low = fma(slope, distance, -product);
    return product;
}

/* The usual slopes: with n heads, n a power of two, head h has 2^(-8 (h + 1) / n); else the largest power
 * of two below takes its own, and the other heads every second one of twice as many. */
double rt_alibi_standard(int64_t h, int64_t heads)
{
    int64_t n = 1;
    while (2 * n <= heads)
        n *= 2;
    int64_t step = h + 1;
    if (h >= n) {
        step = 2 * (h - n) + 1;
        n *= 2;
    }
    /* 2^(-8 step / n), from the roots 2^(-8 / n), 2^(-16 / n) .. that its bits ask for */
    double slope = 1, root[64];
    int roots = 0;
    for (int64_t m = n; m > 0; m /= 2)
        roots++; /* n = 2^(roots - 1) */
    root[roots - 1] = 0x1p-8;
    for (int k = roots - 1; k > 0; k--)
        root[k - 1] = sqrt(root[k]);
    for (int k = 0; k < roots; k++)
        if ((step >> k & 1) != 0)
            slope *= root[k];
    return rt_round_to(RT_F32, slope);
}

/* ---- additive bias ----------------------------------------------------------------------------------- */

const double *rt_score_bias_row(const rt_problem *p, int64_t b, int64_t h, int64_t i)
{
    const int64_t *n = p->bias_shape;
    return p->bias + (((n[0] > 1 ? b : 0) * n[1] + (n[1] > 1 ? h : 0)) * n[2] + (n[2] > 1 ? i : 0)) * n[3];
}

double rt_score_bias(const rt_problem *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return p->bias == NULL ? 0 : rt_score_bias_row(p, b, h, i)[j];
}

bool rt_bias_shape_parse(const char *name, const rt_problem *p, int64_t shape[4])
{
    static const char letters[] = "bhss";
    const int64_t full[4] = {p->batch, p->heads_q, p->seqlen_q, p->seqlen_k};
    if (strlen(name) != 4 || name[3] != 's')
        return false;
    for (int k = 0; k < 4; k++) {
        if (name[k] != '1' && name[k] != letters[k])
            return false;
        shape[k] = name[k] == '1' ? 1 : full[k];
    }
    return true;
}

void rt_bias_shape_name(const rt_problem *p, char name[5])
{
    memcpy(name, "bhss", 5);
    for (int k = 0; k < 3; k++)
        if (p->bias_shape[k] == 1)
            name[k] = '1';
}

const char *rt_score_text(char text[RT_SCORE_TEXT], const rt_problem *p)
{
    char shape[5] = "";
    if (p->bias != NULL)
        rt_bias_shape_name(p, shape);
    const struct {
        bool set;
        const char *name;
        double value;
    } parts[] = {{p->alibi != NULL, "alibi", 0},
                 {p->softcap > 0, "softcap", p->softcap},
                 {p->sink != NULL, "sink", 0},
                 {p->dropout > 0, "dropout", p->dropout}};
    size_t used = 0;
    text[0] = '\0';
    if (p->bias != NULL)
        used = (size_t)snprintf(text, RT_SCORE_TEXT, "bias %s", shape);
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
        if (!parts[k].set)
            continue;
        used += (size_t)snprintf(text + used, RT_SCORE_TEXT - used, "%s%s", used > 0 ? ", " : "",
                                 parts[k].name);
        if (parts[k].value > 0)
            used += (size_t)snprintf(text + used, RT_SCORE_TEXT - used, " %.9g", parts[k].value);
    }
    if (p->dropout > 0)
        (void)snprintf(text + used, RT_SCORE_TEXT - used, " (seed %llu)",
                       (unsigned long long)p->dropout_seed);
    return text;
}

/* ---- dropout ----------------------------------------------------------------------------------------- */

enum { LANES = RT_PHILOX_LANES, RUN = 4 * LANES };

static uint32_t threshold_of(const rt_problem *p)
{
    return (uint32_t)(p->dropout * 0x1p32);
}

static void counter_of(int64_t b, int64_t h, int64_t i, int64_t block, uint32_t c[4])
{
    c[0] = (uint32_t)block;
    c[1] = (uint32_t)i;
    c[2] = (uint32_t)h | (uint32_t)(i >> 32) << 24;
    c[3] = (uint32_t)b | (uint32_t)(block >> 32 & 0xf) << 24 | 0xf0000000u;
}

bool rt_dropout_keep(const rt_problem *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
    if (!(p->dropout > 0))
        return true;
    const uint32_t key[2] = {(uint32_t)p->dropout_seed, (uint32_t)(p->dropout_seed >> 32)};
    uint32_t counter[4], word[4];
    counter_of(b, h, i, j / 4, counter);
    rt_philox(key, counter, word);
    return word[j % 4] >= threshold_of(p);
}

/* LANES blocks of four keys from `block` on; x[k][lane] is word k. */
static void draw_blocks(const rt_problem *p, int64_t b, int64_t h, int64_t i, int64_t block,
                        uint32_t x[4][LANES])
{
    const uint32_t key[2] = {(uint32_t)p->dropout_seed, (uint32_t)(p->dropout_seed >> 32)};
    for (int l = 0; l < LANES; l++) {
        uint32_t c[4];
        counter_of(b, h, i, block + l, c);
        for (int k = 0; k < 4; k++)
            x[k][l] = c[k];
    }
    rt_philox_lanes(key, x);
}

/* RUN consecutive positions, the first a multiple of 4: just the blocks of one draw. */
static bool is_run(const int64_t *k_pos)
{
    int64_t odd = k_pos[0] % 4;
    for (int64_t c = 1; c < RUN; c++)
        odd |= k_pos[c] - k_pos[0] - c;
    return odd == 0;
}

void rt_dropout_row(const rt_problem *p, int64_t b, int64_t h, int64_t i, const int64_t *k_pos, int64_t n,
                    uint8_t *keep)
{
    if (!(p->dropout > 0)) {
        memset(keep, 1, (size_t)n);
        return;
    }
    const uint32_t threshold = threshold_of(p);
    uint32_t x[4][LANES];
    int64_t first = -1; /* the blocks of x: first .. first + LANES - 1 */
    for (int64_t c = 0; c < n;) {
        const int64_t block = k_pos[c] / 4;
        if (first < 0 || block < first || block >= first + LANES) {
            first = block;
            draw_blocks(p, b, h, i, first, x);
        }
        if (block == first && n - c >= RUN && is_run(k_pos + c)) {
            for (int l = 0; l < LANES; l++)
                for (int k = 0; k < 4; k++)
                    keep[c + 4 * l + k] = x[k][l] >= threshold;
            c += RUN;
            continue;
        }
        keep[c] = x[k_pos[c] % 4][block - first] >= threshold;
        c++;
    }
}

/* ---- the rules --------------------------------------------------------------------------------------- */

static rt_status alibi_check(rt_context *ctx, const rt_problem *p)
{
    for (int64_t h = 0; p->alibi != NULL && h < p->heads_q; h++) {
        const double size = fabs(p->alibi[h]);
        if (!(size >= 0x1p-500 && size <= 0x1p500) && (size > 0 || isnan(size)))
            return rt_fail(
                ctx, RT_ERR_ARG,
                "alibi: the slope of head %lld is %g; it must be 0 or finite, of 2^-500 to 2^500",
                (long long)h, p->alibi[h]);
    }
    return RT_OK;
}

static rt_status bias_check(rt_context *ctx, const rt_problem *p)
{
    const int64_t full[4] = {p->batch, p->heads_q, p->seqlen_q, p->seqlen_k}, *n = p->bias_shape;
    if (p->bias == NULL)
        return RT_OK;
    for (int k = 0; k < 4; k++)
        if (n[k] != full[k] && (n[k] != 1 || k == 3))
            return rt_fail(ctx, RT_ERR_ARG,
                           "bias has shape (%lld, %lld, %lld, %lld); each extent must be 1 or that of "
                           "(B, Hq, Sq, Sk) = (%lld, %lld, %lld, %lld), the last Sk",
                           (long long)n[0], (long long)n[1], (long long)n[2], (long long)n[3],
                           (long long)full[0], (long long)full[1], (long long)full[2], (long long)full[3]);
    const int64_t count = n[0] * n[1] * n[2] * n[3];
    for (int64_t x = 0; x < count; x++)
        if (!(p->bias[x] < RT_INF))
            return rt_fail(ctx, RT_ERR_ARG,
                           "bias at (%lld, %lld, %lld, %lld) is %g; it must be finite, or -inf to hide the "
                           "pair",
                           (long long)(x / n[3] / n[2] / n[1]), (long long)(x / n[3] / n[2] % n[1]),
                           (long long)(x / n[3] % n[2]), (long long)(x % n[3]), p->bias[x]);
    return RT_OK;
}

static rt_status dropout_check(rt_context *ctx, const rt_problem *p)
{
    if (!(p->dropout >= 0 && p->dropout < 1))
        return rt_fail(ctx, RT_ERR_ARG, "dropout is %g; it must be 0 (none) or a probability below 1",
                       p->dropout);
    if (!(p->dropout > 0))
        return RT_OK;
    const struct {
        const char *what;
        int64_t value, limit;
    } sizes[] = {{"batch", p->batch, INT64_C(1) << 24},
                 {"heads", p->heads_q, INT64_C(1) << 24},
                 {"seqlen", p->seqlen_q, INT64_C(1) << 40},
                 {"seqlen_k", p->seqlen_k, INT64_C(1) << 38}};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
        if (sizes[k].value > sizes[k].limit)
            return rt_fail(ctx, RT_ERR_ARG, "%s is %lld; with dropout it is at most %lld", sizes[k].what,
                           (long long)sizes[k].value, (long long)sizes[k].limit);
    return RT_OK;
}

rt_status rt_score_check(rt_context *ctx, const rt_problem *p)
{
    RT_TRY(alibi_check(ctx, p));
    RT_TRY(bias_check(ctx, p));
    if (!(p->softcap >= 0x1p-500 && p->softcap <= 0x1p500) &&
        (p->softcap > 0 || p->softcap < 0 || isnan(p->softcap)))
        return rt_fail(ctx, RT_ERR_ARG, "softcap is %g; it must be 2^-500 to 2^500, or 0 (none)",
                       p->softcap);
    for (int64_t h = 0; p->sink != NULL && h < p->heads_q; h++)
        if (!isfinite(p->sink[h]))
            return rt_fail(ctx, RT_ERR_ARG, "sink of head %lld is %g; it must be finite", (long long)h,
                           p->sink[h]);
    return dropout_check(ctx, p);
}

/* ---- digest ------------------------------------------------------------------------------------------ */

static uint64_t mix_doubles(uint64_t h, const double *x, int64_t n)
{
    h = rt_digest_mix(h, x == NULL ? 0 : (uint64_t)n);
    for (int64_t i = 0; x != NULL && i < n; i++) {
        uint64_t u;
        memcpy(&u, &x[i], sizeof u);
        h = rt_digest_mix(h, u);
    }
    return h;
}

uint64_t rt_score_digest(uint64_t h, const rt_problem *p)
{
    if (!rt_problem_has_scores(p))
        return h;
    const int64_t *n = p->bias_shape;
    h = mix_doubles(h, p->alibi, p->heads_q);
    h = mix_doubles(h, p->bias, p->bias == NULL ? 0 : n[0] * n[1] * n[2] * n[3]);
    for (int k = 0; p->bias != NULL && k < 4; k++)
        h = rt_digest_mix(h, (uint64_t)n[k]);
    h = rt_digest_mix(h, p->bias != NULL && p->no_dbias);
    h = mix_doubles(h, &p->softcap, 1);
    h = mix_doubles(h, p->sink, p->heads_q);
    h = mix_doubles(h, &p->dropout, 1);
    return rt_digest_mix(h, p->dropout > 0 ? p->dropout_seed : 0);
}
