/* format.h (room-internal): the shape of each number format, and bit-level access to binary64. */
#ifndef RT_NUMBER_FORMAT_H
#define RT_NUMBER_FORMAT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <ringtrue/number.h>

/* A binary floating format.  Patterns of magnitudes ascend with the values they stand for, so a step
 * of one in the pattern is a step to the neighbouring value. */
typedef struct {
    int32_t fraction;  /* fraction bits: precision minus one */
    int32_t emin;      /* exponent of the smallest normal number */
    int32_t shift;     /* empty low bits of a stored element (tf32 lies in the upper bits of an f32) */
    uint64_t max;      /* magnitude pattern of the largest finite value */
    uint64_t overflow; /* pattern that takes its place beyond: infinity, or NaN (e4m3) */
    uint64_t nan;      /* the canonical quiet NaN, positive */
    uint64_t sign;     /* the sign bit */
    bool infinity;     /* whether `overflow` is an infinity */
} rt_format;

/* The shapes.  Macros of initialisers, not objects, so that a function which takes one of them
 * by constant is compiled for it. */
#define RT_FORMAT_F64                                                                                      \
    {                                                                                                      \
        .fraction = 52, .emin = -1022, .shift = 0, .max = UINT64_C(0x7fefffffffffffff),                    \
        .overflow = UINT64_C(0x7ff0000000000000), .nan = UINT64_C(0x7ff8000000000000),                     \
        .sign = UINT64_C(0x8000000000000000), .infinity = true                                             \
    }
#define RT_FORMAT_F32                                                                                      \
    {                                                                                                      \
        .fraction = 23, .emin = -126, .shift = 0, .max = 0x7f7fffff, .overflow = 0x7f800000,               \
        .nan = 0x7fc00000, .sign = 0x80000000, .infinity = true                                            \
    }
#define RT_FORMAT_BF16                                                                                     \
    {                                                                                                      \
        .fraction = 7, .emin = -126, .shift = 0, .max = 0x7f7f, .overflow = 0x7f80, .nan = 0x7fc0,         \
        .sign = 0x8000, .infinity = true                                                                   \
    }
#define RT_FORMAT_F16                                                                                      \
    {                                                                                                      \
        .fraction = 10, .emin = -14, .shift = 0, .max = 0x7bff, .overflow = 0x7c00, .nan = 0x7e00,         \
        .sign = 0x8000, .infinity = true                                                                   \
    }
#define RT_FORMAT_E4M3                                                                                     \
    {                                                                                                      \
        .fraction = 3, .emin = -6, .shift = 0, .max = 0x7e, .overflow = 0x7f, .nan = 0x7f, .sign = 0x80,   \
        .infinity = false                                                                                  \
    }
#define RT_FORMAT_E5M2                                                                                     \
    {                                                                                                      \
        .fraction = 2, .emin = -14, .shift = 0, .max = 0x7b, .overflow = 0x7c, .nan = 0x7e, .sign = 0x80,  \
        .infinity = true                                                                                   \
    }
#define RT_FORMAT_TF32                                                                                     \
    {                                                                                                      \
        .fraction = 10, .emin = -126, .shift = 13, .max = 0x3fbff, .overflow = 0x3fc00, .nan = 0x3fe00,    \
        .sign = 0x40000, .infinity = true                                                                  \
    }

enum { RT_F64_FRACTION = 52, RT_F64_BIAS = 1023, RT_F64_EMIN = -1022 };
#define RT_F64_MAGNITUDE UINT64_C(0x7fffffffffffffff)
#define RT_F64_INF UINT64_C(0x7ff0000000000000)
#define RT_F64_NAN UINT64_C(0x7ff8000000000000)
#define RT_F64_IMPLICIT UINT64_C(0x0010000000000000)

/* The shape of a floating dtype; NULL for integers. */
const rt_format *rt_format_of(rt_dtype t);

static inline uint64_t rt_f64_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double rt_f64_from_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Where a directed rounding of a magnitude goes. */
typedef enum { RT_TO_NEAREST, RT_TO_ZERO, RT_FROM_ZERO } rt_direction;

/* The magnitude pattern of a finite |x| in a format, rounded as if the exponent had no upper end: the
 * caller looks whether the pattern lies beyond f->max. */
static inline uint64_t rt_format_magnitude(const rt_format *f, uint64_t x, rt_direction d)
{
    int32_t e = (int32_t)(x >> RT_F64_FRACTION);
    uint64_t m = x & (RT_F64_IMPLICIT - 1);
    if (e != 0) {
        m |= RT_F64_IMPLICIT;
        e -= RT_F64_BIAS;
    } else {
        e = RT_F64_EMIN;
    }
    /* |x| = m 2^(e-52).  One unit of the result is 2^(top - fraction), so m loses `cut` bits. */
    int32_t top = e < f->emin ? f->emin : e;
    int32_t cut = top - e + RT_F64_FRACTION - f->fraction;
    uint64_t kept = 0, lost = m, half = UINT64_MAX; /* cut > 53: m is below half a unit */
    if (cut <= 53) {
        kept = m >> cut;
        lost = m & ((UINT64_C(1) << cut) - 1);
        half = (UINT64_C(1) << cut) >> 1;
    }
    if (d == RT_TO_NEAREST) {
        /* cut 0 has half 0 and lost 0, and must not round. */
        kept += lost > half || (lost == half && lost != 0 && (kept & 1) != 0);
    } else if (d == RT_FROM_ZERO) {
        kept += lost != 0;
    }
    /* A normal `kept` carries its leading one into the exponent field; a carry of the rounding goes the
     * same way. */
    return ((uint64_t)(top - f->emin) << f->fraction) + kept;
}

/* The element nearest to the binary64 of bits u. */
static inline uint64_t rt_format_encode(const rt_format *f, uint64_t u)
{
    uint64_t x = u & RT_F64_MAGNITUDE;
    uint64_t sign = x != u ? f->sign : 0;
    uint64_t r;
    if (x > RT_F64_INF) {
        r = f->nan;
    } else {
        r = x == RT_F64_INF ? f->overflow : rt_format_magnitude(f, x, RT_TO_NEAREST);
        if (r > f->max) {
            r = f->overflow;
        }
        if (r != f->nan) {
            r |= sign;
        }
    }
    return r << f->shift;
}

/* The binary64 bits of an element. */
static inline uint64_t rt_format_decode(const rt_format *f, uint64_t element)
{
    uint64_t b = element >> f->shift;
    uint64_t sign = (b & f->sign) != 0 ? UINT64_C(1) << 63 : 0;
    uint64_t r = b & (f->sign - 1);
    if (r > f->max) {
        return f->infinity && r == f->overflow ? RT_F64_INF | sign : RT_F64_NAN;
    }
    int32_t field = (int32_t)(r >> f->fraction);
    uint64_t m = r & ((UINT64_C(1) << f->fraction) - 1);
    int32_t e = f->emin;
    if (field != 0) {
        e += field - 1;
        m |= UINT64_C(1) << f->fraction;
    } else if (m == 0) {
        return sign;
    } else if (f->emin > RT_F64_EMIN) {
        /* A subnormal of a smaller format is a normal binary64. */
        while (m >> f->fraction == 0) {
            m <<= 1;
            e--;
        }
    } else {
        return sign | m;
    }
    uint64_t fraction = (m << (RT_F64_FRACTION - f->fraction)) & (RT_F64_IMPLICIT - 1);
    return sign | ((uint64_t)(e + RT_F64_BIAS) << RT_F64_FRACTION) | fraction;
}

#endif
