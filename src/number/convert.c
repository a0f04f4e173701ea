/* convert.c: arrays of stored elements to doubles and back.
 *
 * The same results as rt_decode and rt_encode bit for bit, in loops that a compiler turns into vector
 * code for the formats that tensors have.  Elements may lie at any address: each is copied out. */
#include <ringtrue/number.h>

#include "number/format.h"

/* Files are little-endian, and are read as they lie. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "this version needs a little-endian processor");

/* Loops that are compiled for AVX2 too and chosen at run time; the same operations, so the same bits. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&   \
    !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

/* Widening of binary32 is exact; NaN becomes the canonical one. */
static inline double widen_f32(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    uint64_t wide = rt_f64_bits((double)x);
    const uint64_t nan = (uint64_t)0 - (uint64_t)((u & 0x7fffffff) > 0x7f800000); /* no branch: vectors */
    return rt_f64_from_bits((wide & ~nan) | (RT_F64_NAN & nan));
}

/* f16 to f32: move the fields and adjust the exponent's bias (112 apart).  A subnormal m 2^-24 is
 * (2^-14 + m 2^-24) - 2^-14, and that difference is exact. */
static inline double widen_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
    const uint32_t normal = (magnitude << 13) + (UINT32_C(112) << 23);
    const uint32_t shifted = (magnitude << 13) + (UINT32_C(113) << 23);
    const uint32_t base = UINT32_C(113) << 23; /* 2^-14 */
    float a, b;
    memcpy(&a, &shifted, sizeof a);
    memcpy(&b, &base, sizeof b);
    const float difference = a - b;
    uint32_t subnormal;
    memcpy(&subnormal, &difference, sizeof subnormal);
    uint32_t r = magnitude < 0x0400 ? subnormal : normal;
    r = magnitude >= 0x7c00 ? normal + (UINT32_C(112) << 23) : r;
    return widen_f32(r | sign);
}

/* e5m2 is the upper byte of an f16.  e4m3's fields fit f16's, whose bias is 8 larger. */
static inline double widen_e5m2(uint8_t b)
{
    return widen_f16((uint16_t)(b << 8));
}

static inline double widen_e4m3(uint8_t b)
{
    const uint16_t h = (uint16_t)((b & 0x80) << 8 | (b & 0x7f) << 7);
    const double x = widen_f16(h) * 256.0;
    return (b & 0x7f) == 0x7f ? rt_f64_from_bits(RT_F64_NAN) : x;
}

static void load_f64(const unsigned char *src, int64_t n, double *dst)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t u;
        memcpy(&u, src + 8 * i, sizeof u);
        dst[i] = rt_f64_from_bits((u & RT_F64_MAGNITUDE) > RT_F64_INF ? RT_F64_NAN : u);
    }
}

WIDE static void load_f32(const unsigned char *restrict src, int64_t n, double *restrict dst)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, src + 4 * i, sizeof u);
        dst[i] = widen_f32(u);
    }
}

WIDE static void load_bf16(const unsigned char *restrict src, int64_t n, double *restrict dst)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t u;
        memcpy(&u, src + 2 * i, sizeof u);
        dst[i] = widen_f32((uint32_t)u << 16);
    }
}

WIDE static void load_f16(const unsigned char *restrict src, int64_t n, double *restrict dst)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t u;
        memcpy(&u, src + 2 * i, sizeof u);
        dst[i] = widen_f16(u);
    }
}

static void load_e4m3(const unsigned char *src, int64_t n, double *dst)
{
    for (int64_t i = 0; i < n; i++) {
        dst[i] = widen_e4m3(src[i]);
    }
}

static void load_e5m2(const unsigned char *src, int64_t n, double *dst)
{
    for (int64_t i = 0; i < n; i++) {
        dst[i] = widen_e5m2(src[i]);
    }
}

static void load_any(rt_dtype t, const unsigned char *src, int64_t n, double *dst)
{
    const size_t size = rt_dtype_size(t);
    for (int64_t i = 0; i < n; i++) {
        uint64_t u = 0;
        memcpy(&u, src + (size_t)i * size, size);
        dst[i] = rt_decode(t, u);
    }
}

void rt_load(rt_dtype t, const void *src, int64_t n, double *dst)
{
    switch (t) {
    case RT_F64:
        load_f64(src, n, dst);
        break;
    case RT_F32:
        load_f32(src, n, dst);
        break;
    case RT_BF16:
        load_bf16(src, n, dst);
        break;
    case RT_F16:
        load_f16(src, n, dst);
        break;
    case RT_E4M3:
        load_e4m3(src, n, dst);
        break;
    case RT_E5M2:
        load_e5m2(src, n, dst);
        break;
    case RT_I32:
    case RT_I64:
    case RT_BOOL:
    case RT_U8:
    case RT_I8:
        load_any(t, src, n, dst);
        break;
    case RT_TF32: /* never stored: no element has these bytes */
    case RT_DTYPE_COUNT:
        for (int64_t i = 0; i < n; i++) {
            dst[i] = rt_f64_from_bits(RT_F64_NAN);
        }
        break;
    }
}

static void store_f64(const double *src, int64_t n, unsigned char *dst)
{
    static const rt_format f64 = RT_FORMAT_F64;
    for (int64_t i = 0; i < n; i++) {
        uint64_t u = rt_f64_bits(src[i]);
        u = (u & RT_F64_MAGNITUDE) > RT_F64_INF ? f64.nan : u;
        memcpy(dst + 8 * i, &u, sizeof u);
    }
}

static void store_f32(const double *src, int64_t n, unsigned char *dst)
{
    static const rt_format f32 = RT_FORMAT_F32;
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = (uint32_t)rt_format_encode(&f32, rt_f64_bits(src[i]));
        memcpy(dst + 4 * i, &u, sizeof u);
    }
}

static void store_bf16(const double *src, int64_t n, unsigned char *dst)
{
    static const rt_format bf16 = RT_FORMAT_BF16;
    for (int64_t i = 0; i < n; i++) {
        uint16_t u = (uint16_t)rt_format_encode(&bf16, rt_f64_bits(src[i]));
        memcpy(dst + 2 * i, &u, sizeof u);
    }
}

static void store_f16(const double *src, int64_t n, unsigned char *dst)
{
    static const rt_format f16 = RT_FORMAT_F16;
    for (int64_t i = 0; i < n; i++) {
        uint16_t u = (uint16_t)rt_format_encode(&f16, rt_f64_bits(src[i]));
        memcpy(dst + 2 * i, &u, sizeof u);
    }
}

static void store_any(rt_dtype t, const double *src, int64_t n, unsigned char *dst)
{
    const size_t size = rt_dtype_size(t);
    for (int64_t i = 0; i < n; i++) {
        uint64_t u = rt_encode(t, src[i]);
        memcpy(dst + (size_t)i * size, &u, size);
    }
}

void rt_store(rt_dtype t, const double *src, int64_t n, void *dst)
{
    switch (t) {
    case RT_F64:
        store_f64(src, n, dst);
        break;
    case RT_F32:
        store_f32(src, n, dst);
        break;
    case RT_BF16:
        store_bf16(src, n, dst);
        break;
    case RT_F16:
        store_f16(src, n, dst);
        break;
    case RT_E4M3:
    case RT_E5M2:
    case RT_I32:
    case RT_I64:
    case RT_BOOL:
    case RT_U8:
    case RT_I8:
        store_any(t, src, n, dst);
        break;
    case RT_TF32: /* never stored */
    case RT_DTYPE_COUNT:
        break;
    }
}
