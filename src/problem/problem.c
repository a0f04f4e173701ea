/* The problem's own rules, its copy and digest, and 1/sqrt(D) as the nearest double by integers. */
#include "problem/mask.h"
#include "problem/score.h"

#include <math.h>
#include <string.h>

__extension__ typedef unsigned __int128 u128;

/* The arrays that a problem owns: NULL where a part is not set. */
enum { OWNED = 8 };

typedef struct {
    void **at;
    int64_t count;
    size_t size;
} owned;

static int64_t bias_count(const rt_problem *p)
{
    return p->bias_shape[0] * p->bias_shape[1] * p->bias_shape[2] * p->bias_shape[3];
}

static void owned_list(rt_problem *p, owned list[OWNED])
{
    const owned all[OWNED] = {{(void **)&p->cu_q, p->documents + 1, sizeof *p->cu_q},
                              {(void **)&p->cu_k, p->documents + 1, sizeof *p->cu_k},
                              {(void **)&p->slices, p->n_slices, sizeof *p->slices},
                              {(void **)&p->key_valid, p->batch * p->seqlen_k, sizeof *p->key_valid},
                              {(void **)&p->dense, p->seqlen_q * p->seqlen_k, sizeof *p->dense},
                              {(void **)&p->alibi, p->heads_q, sizeof *p->alibi},
                              {(void **)&p->bias, bias_count(p), sizeof *p->bias},
                              {(void **)&p->sink, p->heads_q, sizeof *p->sink}};
    memcpy(list, all, sizeof all);
}

void rt_problem_reset(rt_problem *p)
{
    if (p == NULL)
        return;
    owned list[OWNED];
    owned_list(p, list);
    for (int k = 0; k < OWNED; k++)
        rt_free(*list[k].at);
    memset(p, 0, sizeof *p);
}

rt_status rt_problem_copy(rt_context *ctx, const rt_problem *from, rt_problem *to)
{
    rt_problem copy = *from;
    owned list[OWNED];
    owned_list(&copy, list);
    void *source[OWNED];
    for (int k = 0; k < OWNED; k++) {
        source[k] = *list[k].at;
        *list[k].at = NULL;
    }
    for (int k = 0; k < OWNED; k++) {
        if (source[k] == NULL)
            continue;
        *list[k].at = rt_alloc(ctx, list[k].count, list[k].size);
        if (*list[k].at == NULL) {
            rt_problem_reset(&copy);
            return RT_ERR_NOMEM;
        }
        memcpy(*list[k].at, source[k], (size_t)list[k].count * list[k].size);
    }
    *to = copy;
    return RT_OK;
}

static rt_status positive_check(rt_context *ctx, const char *name, int64_t value)
{
    if (value >= 1)
        return RT_OK;
    return rt_fail(ctx, RT_ERR_ARG, "%s is %lld; it must be at least 1", name, (long long)value);
}

/* Every tensor must be countable, with room for bytes: batch * length * heads * dim < 2^59. */
static rt_status size_check(rt_context *ctx, const char *name, int64_t b, int64_t s, int64_t h, int64_t d)
{
    int64_t n = 0;
    if (!__builtin_mul_overflow(b, s, &n) && !__builtin_mul_overflow(n, h, &n) &&
        !__builtin_mul_overflow(n, d, &n) && n < INT64_C(1) << 59)
        return RT_OK;
    return rt_fail(ctx, RT_ERR_ARG,
                   "%s of %lld x %lld x %lld x %lld elements is too large: at most 2^59 elements", name,
                   (long long)b, (long long)s, (long long)h, (long long)d);
}

static rt_status documents_check(rt_context *ctx, const char *name, const int64_t *cu, int64_t documents,
                                 int64_t length)
{
    if (cu == NULL)
        return rt_fail(ctx, RT_ERR_ARG, "%s is missing; %lld documents need %lld boundaries", name,
                       (long long)documents, (long long)(documents + 1));
    if (cu[0] != 0)
        return rt_fail(ctx, RT_ERR_ARG, "%s starts with %lld; the first boundary must be 0", name,
                       (long long)cu[0]);
    for (int64_t n = 0; n < documents; n++) {
        if (cu[n + 1] < cu[n])
            return rt_fail(ctx, RT_ERR_ARG,
                           "%s falls from %lld to %lld after boundary %lld; boundaries must ascend", name,
                           (long long)cu[n], (long long)cu[n + 1], (long long)n);
    }
    if (cu[documents] != length)
        return rt_fail(ctx, RT_ERR_ARG, "%s ends with %lld; the last boundary must be the length, %lld",
                       name, (long long)cu[documents], (long long)length);
    return RT_OK;
}

static uint64_t double_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static rt_status scale_check(rt_context *ctx, const rt_problem *p)
{
    if (!isfinite(p->scale))
        return rt_fail(ctx, RT_ERR_ARG, "scale is %g; it must be finite", p->scale);
    switch (p->scale_kind) {
    case RT_SCALE_RSQRT_DIM:
        if (double_bits(p->scale) != double_bits(rt_rsqrt_dim(p->dim)))
            return rt_fail(ctx, RT_ERR_ARG, "scale is %.17g; 1/sqrt(%lld) is %.17g", p->scale,
                           (long long)p->dim, rt_rsqrt_dim(p->dim));
        return RT_OK;
    case RT_SCALE_F32:
        if (double_bits(p->scale) != double_bits(rt_round_to(RT_F32, p->scale)))
            return rt_fail(ctx, RT_ERR_ARG, "scale %.17g is not a binary32 value; the nearest is %.17g",
                           p->scale, rt_round_to(RT_F32, p->scale));
        return RT_OK;
    case RT_SCALE_F64:
        return RT_OK;
    }
    return rt_fail(ctx, RT_ERR_ARG,
                   "scale kind %d is unknown; 0 (1/sqrt(dim)), 1 (f32) and 2 (f64) are known",
                   (int)p->scale_kind);
}

rt_status rt_problem_check(rt_context *ctx, const rt_problem *p)
{
    RT_TRY(positive_check(ctx, "batch", p->batch));
    RT_TRY(positive_check(ctx, "seqlen", p->seqlen_q));
    RT_TRY(positive_check(ctx, "seqlen_k", p->seqlen_k));
    RT_TRY(positive_check(ctx, "heads", p->heads_q));
    RT_TRY(positive_check(ctx, "kv_heads", p->heads_kv));
    RT_TRY(positive_check(ctx, "dim", p->dim));
    RT_TRY(positive_check(ctx, "dim_v", p->dim_v));
    if (p->heads_q % p->heads_kv != 0)
        return rt_fail(ctx, RT_ERR_ARG, "heads %lld is not a multiple of kv_heads %lld",
                       (long long)p->heads_q, (long long)p->heads_kv);
    int64_t widest = p->dim > p->dim_v ? p->dim : p->dim_v;
    RT_TRY(size_check(ctx, "q", p->batch, p->seqlen_q, p->heads_q, widest));
    RT_TRY(size_check(ctx, "k", p->batch, p->seqlen_k, p->heads_kv, widest));
    /* the pairs of all heads are counted in 64 bits */
    RT_TRY(size_check(ctx, "the score matrix", p->seqlen_q, p->seqlen_k, p->heads_q, p->batch));
    RT_TRY(scale_check(ctx, p));
    RT_TRY(rt_score_check(ctx, p));
    if (rt_mask_name(p->mask) == NULL)
        return rt_fail(ctx, RT_ERR_ARG,
                       "mask kind %d is unknown; full, causal and causal-bottom-right are known",
                       (int)p->mask);
    if (p->documents < 0 || p->documents >= INT64_C(1) << 40)
        return rt_fail(ctx, RT_ERR_ARG, "documents is %lld; it must be 0 (none) to 2^40",
                       (long long)p->documents);
    if (p->documents == 0) {
        if (p->cu_q != NULL || p->cu_k != NULL)
            return rt_fail(ctx, RT_ERR_ARG, "document boundaries are given, but documents is 0");
    } else {
        RT_TRY(documents_check(ctx, "cu_seqlens_q", p->cu_q, p->documents, p->seqlen_q));
        RT_TRY(documents_check(ctx, "cu_seqlens_k", p->cu_k, p->documents, p->seqlen_k));
    }
    return rt_mask_check(ctx, p);
}

/* floor(2^shift / d), by long division one bit at a time: the remainder stays below d < 2^63. */
static u128 power_of_two_div(int shift, uint64_t d)
{
    u128 quotient = 0;
    uint64_t rest = 1;
    for (int i = 0;; i++) {
        quotient <<= 1;
        if (rest >= d) {
            rest -= d;
            quotient |= 1;
        }
        if (i == shift)
            return quotient;
        rest <<= 1;
    }
}

/* m = floor(2^s / sqrt(d)) with s such that m has 54 bits: the 53 of a double and the one that
 * decides the rounding.  m^2 <= 2^2s / d is the same as m^2 <= floor(2^2s / d), so 128 bits do.  A tie
 * would need d * m^2 = 2^2s with m odd: there is none, and the last bit alone decides. */
double rt_rsqrt_dim(int64_t dim)
{
    if (dim < 1)
        return (double)NAN;
    int s = 53;
    u128 square = power_of_two_div(2 * s, (uint64_t)dim);
    while (square >> 106 == 0) {
        s++;
        square = power_of_two_div(2 * s, (uint64_t)dim);
    }
    uint64_t m = 0;
    for (int bit = 53; bit >= 0; bit--) {
        uint64_t t = m | UINT64_C(1) << bit;
        if ((u128)t * t <= square)
            m = t;
    }
    double x = (double)((m >> 1) + (m & 1));
    for (int i = 0; i < s - 1; i++)
        x *= 0.5;
    return x;
}

/* A step of splitmix64: each field changes all later bits, and the order of the fields counts. */
uint64_t rt_digest_mix(uint64_t h, uint64_t field)
{
    uint64_t z = (h ^ field) + UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t rt_problem_digest(const rt_problem *p)
{
    const uint64_t field[] = {(uint64_t)p->batch,   (uint64_t)p->seqlen_q,   (uint64_t)p->seqlen_k,
                              (uint64_t)p->heads_q, (uint64_t)p->heads_kv,   (uint64_t)p->dim,
                              (uint64_t)p->dim_v,   (uint64_t)p->scale_kind, double_bits(p->scale),
                              (uint64_t)p->mask,    (uint64_t)p->documents};
    uint64_t h = UINT64_C(0x72696e6774727565);
    for (size_t i = 0; i < sizeof field / sizeof field[0]; i++)
        h = rt_digest_mix(h, field[i]);
    for (int64_t n = 0; p->documents > 0 && n <= p->documents; n++) {
        h = rt_digest_mix(h, (uint64_t)p->cu_q[n]);
        h = rt_digest_mix(h, (uint64_t)p->cu_k[n]);
    }
    return rt_score_digest(rt_mask_digest(h, p), p);
}
