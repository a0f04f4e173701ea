/** @file number.h  Number formats: conversion to the bit, ulps, roundoff; all without libm and
 *  without reading the rounding mode, so that every machine gives the same bits.  All calls are local. */
#ifndef RINGTRUE_NUMBER_H
#define RINGTRUE_NUMBER_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include <ringtrue/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Infinity and the canonical quiet NaN, as doubles. */
#define RT_INF ((double)INFINITY)
#define RT_NAN ((double)NAN)
/** -infinity: the LSE and the running maximum of a row that has seen no key. */
static inline bool rt_is_minus_inf(double x)
{
    return x < -DBL_MAX;
}

/** Element types of files and of declared roundings.  E4M3 is the "fn" flavour (no infinity,
 *  one NaN pattern per sign, largest 448); E5M2 is IEEE-like (largest 57344).  TF32 exists as a
 *  rounding only, never in a file. */
typedef enum {
    RT_F64 = 0,
    RT_F32,
    RT_BF16,
    RT_F16,
    RT_E4M3,
    RT_E5M2,
    RT_TF32,
    RT_I32,
    RT_I64,
    RT_BOOL,
    RT_U8,
    RT_I8,
    RT_DTYPE_COUNT
} rt_dtype;

/** Lower-case name as the spec and the flags use it: f64 f32 bf16 f16 e4m3 e5m2 tf32 i32 i64 bool u8 i8. */
const char *rt_dtype_name(rt_dtype t);
/** The dtype of a name (also fp16, fp32, fp64, float16, float32, float64, bfloat16); false if none. */
bool rt_dtype_parse(const char *name, rt_dtype *out);
/** Bytes of one element in a file; 0 for tf32. */
size_t rt_dtype_size(rt_dtype t);
/** True for the seven floating formats. */
bool rt_dtype_is_float(rt_dtype t);

/** Unit roundoff u of round-to-nearest: 2^-p, p the precision in bits (f64 53, f32 24, bf16 8,
 *  f16 and tf32 11, e4m3 4, e5m2 3).  0 for integers. */
double rt_unit_roundoff(rt_dtype t);
/** Half of the smallest subnormal: the largest absolute error of one rounding near zero (f64: 2^-1074, the
 *  next binary64 above it; 0 for integers). */
double rt_half_tiny(rt_dtype t);
/** Largest finite value. */
double rt_max_finite(rt_dtype t);

/** The value of a stored element (exact; every format here is a subset of binary64, integers
 *  beyond 2^53 excepted).  `bits` is the element in the low bytes. */
double rt_decode(rt_dtype t, uint64_t bits);
/** The element nearest to x, ties to even; overflow gives infinity (NaN for e4m3, which has no
 *  infinity); NaN gives the canonical quiet NaN.  Subnormals are kept.  Integers: clamped to the type's
 *  range, NaN as 0.  tf32: the f32 element whose low 13 bits are zero. */
uint64_t rt_encode(rt_dtype t, double x);
/** rt_decode(rt_encode(x)); for RT_F64 x itself. */
double rt_round_to(rt_dtype t, double x);

/** The gap between neighbours of format t at |x| (an ulp): 2^(e-p+1) for 2^e <= |x| < 2^(e+1), the
 *  smallest subnormal near zero. x finite.  */
double rt_ulp(rt_dtype t, double x);
/** Number of representable values from a to b in format t (a, b finite values of the format,
 *  -0 and +0 the same point); saturates at INT64_MAX. */
int64_t rt_ulp_distance(rt_dtype t, double a, double b);
/** The largest value of the format <= x, and the smallest >= x (infinities where there is none). */
double rt_round_down(rt_dtype t, double x);
double rt_round_up(rt_dtype t, double x);

/** Load n consecutive elements at `src` (any alignment) as doubles. */
void rt_load(rt_dtype t, const void *src, int64_t n, double *dst);
/** Store n doubles at `dst`, each rounded once to nearest even. */
void rt_store(rt_dtype t, const double *src, int64_t n, void *dst);

/** Philox4x32-10 (Salmon et al., SC'11), through Random123: four words for (key, counter). */
void rt_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/** Checks that this thread rounds to nearest and neither flushes nor ignores subnormals;
 *  RT_ERR_SYSTEM with the name of what is wrong.  Run at start by every command. */
rt_status rt_float_environment_check(rt_context *ctx) RT_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
