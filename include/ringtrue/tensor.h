/** @file tensor.h  Views of stored tensors, and their order-free fingerprints.  All calls are local. */
#ifndef RINGTRUE_TENSOR_H
#define RINGTRUE_TENSOR_H

#include <ringtrue/number.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RT_MAX_DIMS 8

/** The tensors of a dump, in the order in which they are judged. */
typedef enum {
    RT_Q = 0,        /**< (B, Sq, Hq, D) */
    RT_K,            /**< (B, Sk, Hkv, D) */
    RT_V,            /**< (B, Sk, Hkv, Dv) */
    RT_DOUT,         /**< (B, Sq, Hq, Dv), the gradient that arrives at the output */
    RT_LSE,          /**< (B, Hq, Sq), natural log of the sum of exponentials */
    RT_OUT,          /**< (B, Sq, Hq, Dv) */
    RT_DQ,           /**< (B, Sq, Hq, D) */
    RT_DK,           /**< (B, Sk, Hkv, D) */
    RT_DV,           /**< (B, Sk, Hkv, Dv) */
    RT_TENSOR_COUNT, /**< those above have a row for each token and head; not those below */

    /* results of a problem with a sink or a bias; as rows (batch, position, head) of `width` elements: */
    RT_DSINK = RT_TENSOR_COUNT, /**< (Hq), of the logits: batch 0, position 0, head h, width 1 */
    RT_DBIAS, /**< (Bb, Hb, Sb, Sk), the shape of the bias: summed over what was broadcast.  Row (b, i, h) of
                   width Sk; keys by original position */
    RT_RESULT_COUNT, /**< every tensor of a dump that is a result has a number below */

    RT_SINK = RT_RESULT_COUNT, /**< (Hq); these two belong to the problem and are kept there */
    RT_BIAS,                   /**< (Bb, Hb, Sb, Sk) */
    RT_NAME_COUNT
} rt_tensor_id;

/** "q" "k" "v" "dout" "lse" "out" "dq" "dk" "dv" "dsink" "dbias" "sink" "bias". */
const char *rt_tensor_name(rt_tensor_id id);

/** A borrowed view: owns nothing; what it points at must outlive it.  Strides in elements. */
typedef struct {
    const void *data; /**< first element; any alignment; little-endian elements */
    rt_dtype dtype;
    int32_t ndim;
    int64_t shape[RT_MAX_DIMS];
    int64_t stride[RT_MAX_DIMS];
} rt_view;

/** Address of the element at `index` (ndim long, in range). */
const void *rt_view_at(const rt_view *v, const int64_t *index);

/** An order-free fingerprint: a sum modulo 2^64 in two lanes of a hash (XXH3) of each element's
 *  coordinates and bits, so that any split over ranks adds up to the same value. */
typedef struct {
    uint64_t lane[2];
} rt_fingerprint;

/** Add a row of n elements: tensor, batch b, original position pos, head h, dims 0..n-1.  NaNs count
 *  as one canonical NaN; -0 and +0 differ. */
void rt_fingerprint_row(rt_fingerprint *f, rt_tensor_id id, int64_t b, int64_t pos, int64_t h, rt_dtype t,
                        const void *row, int64_t n);
void rt_fingerprint_add(rt_fingerprint *f, const rt_fingerprint *other);

#ifdef __cplusplus
}
#endif
#endif
