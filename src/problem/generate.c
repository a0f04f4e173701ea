/* generate.c: inputs as a function of (seed, tensor, batch, original position, head, dim).
 *
 * The seed is Philox's key and the coordinates are its counter, so that a value needs no history and any
 * rank can make any element.  Values come from integers by one exact step; only storing them in a format
 * rounds. */
#include <ringtrue/generate.h>

#include <inttypes.h>
#include <string.h>

/* The counter, 128 bits: no two coordinates within these limits share one.
 *   word 0: position, low 32 bits          word 1: position, next 16 bits, and head, 16 bits
 *   word 2: batch, 32 bits                 word 3: tensor, 4 bits, and block of dims, 28 bits */
#define POSITION_LIMIT (INT64_C(1) << 48)
#define HEAD_LIMIT (INT64_C(1) << 16)
#define BATCH_LIMIT (INT64_C(1) << 32)
#define DIM_LIMIT (INT64_C(1) << 27) /* three blocks for two dims: below 2^28 blocks */

_Static_assert(RT_NAME_COUNT <= 15, "four bits hold the tensor, and 15 is dropout's");

#define EXACT_SEQLEN_LIMIT INT64_C(131072)

static const char *const names[] = {
    [RT_FAMILY_GAUSSIAN] = "gaussian", [RT_FAMILY_EXACT] = "exact", [RT_FAMILY_TRACER] = "tracer",
    [RT_FAMILY_TILTED] = "tilted",     [RT_FAMILY_HUGE] = "huge",
};
enum { FAMILY_COUNT = sizeof names / sizeof names[0] };

const char *rt_family_name(rt_family f)
{
    return (unsigned)f < FAMILY_COUNT ? names[f] : "?";
}

bool rt_family_parse(const char *name, rt_family *out)
{
    for (int f = 0; name != NULL && f < FAMILY_COUNT; f++) {
        if (strcmp(name, names[f]) == 0) {
            *out = (rt_family)f;
            return true;
        }
    }
    return false;
}

/* One row's random words. */
typedef struct {
    uint32_t key[2];
    uint32_t counter[4];
} stream;

static stream stream_of(uint64_t seed, rt_tensor_id id, int64_t b, int64_t pos, int64_t head)
{
    const uint64_t p = (uint64_t)pos;
    return (stream){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {(uint32_t)p, (uint32_t)((p >> 32) & 0xffff) | (uint32_t)head << 16, (uint32_t)b,
                    (uint32_t)id << 28},
    };
}

static void stream_block(const stream *s, uint64_t block, uint32_t out[4])
{
    const uint32_t counter[4] = {s->counter[0], s->counter[1], s->counter[2],
                                 s->counter[3] | (uint32_t)(block & 0x0fffffff)};
    rt_philox(s->key, counter, out);
}

/* The mean of a 16-bit word u is 32767.5, so (u + 1/2) / 65536 is a uniform centred on 1/2, and twelve
 * of them minus 6 is (sum u - 393210) / 65536: variance 1 - 2^-32, symmetric, |x| < 6, exact. */
static double gaussian_from(const uint32_t words[6])
{
    int64_t sum = 0;
    for (int i = 0; i < 6; i++) {
        sum += (words[i] & 0xffff) + (words[i] >> 16);
    }
    return (double)(sum - 393210) * 0x1p-16;
}

/* Two values need 24 half-words: three blocks, none wasted. */
static void gaussian_row(const stream *s, int64_t dims, double *row)
{
    for (int64_t d = 0; d < dims; d += 2) {
        uint32_t words[12];
        for (uint64_t c = 0; c < 3; c++) {
            stream_block(s, 3 * (uint64_t)(d / 2) + c, words + 4 * c);
        }
        row[d] = gaussian_from(words);
        if (d + 1 < dims) {
            row[d + 1] = gaussian_from(words + 6);
        }
    }
}

/* Integers -4 .. 4. */
static void small_integer_row(const stream *s, int64_t dims, double *row)
{
    uint32_t words[4] = {0};
    for (int64_t d = 0; d < dims; d++) {
        if (d % 4 == 0) {
            stream_block(s, (uint64_t)(d / 4), words);
        }
        row[d] = (double)(int64_t)(((uint64_t)words[d % 4] * 9) >> 32) - 4.0;
    }
}

/* EXACT.  With m = floor(j/2) in base 16, m = d0 + 16 d1 + 256 d2 + 4096 d3:
 *   q = (1024, 16384, 16384, 16384, 0, ...)     k = (d0, d1, 16 d2, 256 d3, small integers ...)
 * so that q.k = 1024 m.  Every entry has at most 4 significant bits and is below 2^15, hence exact in
 * f64, f32, bf16 and f16; partial sums of q.k are multiples of 1024 below 2^26.  The next lower pair weighs
 * exp(-1024), which is zero in binary64 (smallest subnormal: exp(-744.4)).  q is zero where k is random,
 * so the scores do not see those dims but dq does: there it is dS times the difference of two keys. */
static void exact_row(const stream *s, rt_tensor_id id, int64_t pos, int64_t dims, double *row)
{
    if (id == RT_Q) {
        for (int64_t d = 0; d < dims; d++) {
            row[d] = d == 0 ? 1024.0 : d < 4 ? 16384.0 : 0.0;
        }
        return;
    }
    small_integer_row(s, dims, row);
    if (id == RT_K) {
        const double unit[4] = {1.0, 1.0, 16.0, 256.0};
        int64_t m = pos / 2;
        for (int64_t d = 0; d < 4 && d < dims; d++) {
            row[d] = (double)(m % 16) * unit[d];
            m /= 16;
        }
    }
}

static void tracer_row(const stream *s, rt_tensor_id id, int64_t pos, int64_t dims, double *row)
{
    if (id == RT_Q) {
        for (int64_t d = 0; d < dims; d++) {
            row[d] = 0.0;
        }
    } else if (id == RT_V) {
        for (int64_t d = 0; d < dims; d++) {
            row[d] = (double)((pos >> (d % 20)) & 1);
        }
    } else {
        gaussian_row(s, dims, row);
    }
}

/* The smallest r with r * r >= dim. */
static int64_t root_above(int64_t dim)
{
    int64_t r = 1;
    while (r * r < dim) {
        r++;
    }
    return r;
}

/* TILTED.  q[0] = 4 and k[0] = 8 r pos / seqlen with r the root of D rounded up, so that with
 * the usual scale 1/sqrt(D) the score climbs by 32 r / sqrt(D), 32 to 46, from the first key to the last.
 */
static double tilt_of_key(int64_t pos, int64_t dims, int64_t seqlen)
{
    return (double)(8 * root_above(dims)) * (double)pos / (double)seqlen;
}

void rt_generate_row(rt_family f, uint64_t seed, rt_tensor_id id, rt_dtype t, int64_t b, int64_t pos,
                     int64_t head, int64_t dims, int64_t seqlen, double *row)
{
    const stream s = stream_of(seed, id, b, pos, head);
    const bool score_side = id == RT_Q || id == RT_K;
    switch (f) {
    case RT_FAMILY_EXACT:
        exact_row(&s, id, pos, dims, row);
        break;
    case RT_FAMILY_TRACER:
        tracer_row(&s, id, pos, dims, row);
        break;
    case RT_FAMILY_TILTED:
        gaussian_row(&s, dims, row);
        if (score_side) {
            row[0] = id == RT_Q ? 4.0 : tilt_of_key(pos, dims, seqlen);
        }
        break;
    case RT_FAMILY_HUGE:
        gaussian_row(&s, dims, row);
        for (int64_t d = 0; score_side && d < dims; d++) {
            row[d] *= 64.0;
        }
        break;
    case RT_FAMILY_GAUSSIAN:
        gaussian_row(&s, dims, row);
        break;
    }
    for (int64_t d = 0; t != RT_F64 && d < dims; d++) {
        row[d] = rt_round_to(t, row[d]);
    }
}

static rt_status exact_check(rt_context *ctx, const rt_problem *p, rt_dtype t)
{
    if (p->dim < 4) {
        return rt_fail(ctx, RT_ERR_ARG, "family exact needs a head dim of at least 4: dim %" PRId64,
                       p->dim);
    }
    if (p->seqlen_k > EXACT_SEQLEN_LIMIT) {
        return rt_fail(ctx, RT_ERR_ARG, "family exact needs at most %" PRId64 " keys: seqlen_k %" PRId64,
                       EXACT_SEQLEN_LIMIT, p->seqlen_k);
    }
    if (t != RT_F64 && t != RT_F32 && t != RT_BF16 && t != RT_F16) {
        return rt_fail(ctx, RT_ERR_ARG, "family exact needs dtype f64, f32, bf16 or f16: %s",
                       rt_dtype_name(t));
    }
    if (rt_problem_has_scores(p))
        return rt_fail(
            ctx, RT_ERR_ARG,
            "family exact has no alibi, bias, softcap, sink or dropout: its weights would not stay exact");
    if (p->scale_kind == RT_SCALE_RSQRT_DIM || !(p->scale >= 1.0 && p->scale <= 1.0)) {
        return rt_fail(ctx, RT_ERR_ARG, "family exact needs scale 1: scale is %.17g%s. Hint: --scale 1",
                       p->scale, p->scale_kind == RT_SCALE_RSQRT_DIM ? " (1/sqrt(dim))" : "");
    }
    return RT_OK;
}

rt_status rt_generate_check(rt_context *ctx, rt_family f, const rt_problem *p, rt_dtype t)
{
    const struct {
        const char *what;
        int64_t value, limit;
    } sizes[] = {
        {"batch", p->batch, BATCH_LIMIT},
        {"seqlen", p->seqlen_q, POSITION_LIMIT},
        {"seqlen_k", p->seqlen_k, POSITION_LIMIT},
        {"heads", p->heads_q, HEAD_LIMIT},
        {"kv_heads", p->heads_kv, HEAD_LIMIT},
        {"dim", p->dim, DIM_LIMIT},
        {"dim_v", p->dim_v, DIM_LIMIT},
    };
    if ((unsigned)f >= FAMILY_COUNT) {
        return rt_fail(ctx, RT_ERR_ARG, "family %d: gaussian, exact, tracer, tilted or huge are known",
                       (int)f);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].limit) {
            return rt_fail(ctx, RT_ERR_ARG, "%s %" PRId64 ": generated inputs need 1 to %" PRId64,
                           sizes[i].what, sizes[i].value, sizes[i].limit);
        }
    }
    if (!rt_dtype_is_float(t) || t == RT_TF32) {
        return rt_fail(ctx, RT_ERR_ARG, "dtype %s: inputs are f64, f32, bf16, f16, e4m3 or e5m2",
                       rt_dtype_name(t));
    }
    if (f == RT_FAMILY_EXACT) {
        return exact_check(ctx, p, t);
    }
    if (f == RT_FAMILY_TILTED && 8.0 * (double)root_above(p->dim) > rt_max_finite(t)) {
        return rt_fail(ctx, RT_ERR_ARG,
                       "family tilted: keys reach %" PRId64 " at dim %" PRId64 ", the largest %s is %g",
                       8 * root_above(p->dim), p->dim, rt_dtype_name(t), rt_max_finite(t));
    }
    return RT_OK;
}
