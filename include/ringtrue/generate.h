/** @file generate.h  Inputs made from a seed: a value depends on (seed, tensor, batch, original
 *  position, head, dim) only, so that any layout and any P get the same numbers.  All calls are local. */
#ifndef RINGTRUE_GENERATE_H
#define RINGTRUE_GENERATE_H

#include <ringtrue/problem.h>
#include <ringtrue/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    RT_FAMILY_GAUSSIAN = 0, /**< q, k, v, dout ~ N(0,1): the sum of twelve uniforms of 16 bits, minus 6,
                                 exact in integers, hence the same bits on every machine; |x| < 6 */
    RT_FAMILY_EXACT,  /**< summable small integers.  Key j's score is K * floor(j/2) with a step so large
                                 that exp underflows to zero for all but the visible keys of the highest pair:
                                 every weight is 0, 1 or 1/2, v and dout are integers of at most 4 in
                                 magnitude, so every sum in every order is exact in binary64.  Needs D >= 4,
                                 Sk <= 131072, dtype f64 f32 bf16 f16, and scale 1 (the generator's scale) */
    RT_FAMILY_TRACER, /**< q = 0: every visible key weighs the same, exp(LSE) counts them.  v holds
                                 bits of the key's position (dim d: bit d mod 20), k and dout gaussian */
    RT_FAMILY_TILTED, /**< gaussian, and all heads share a direction along which q is constant and k grows
                                 with its position: the running maximum moves in every block */
    RT_FAMILY_HUGE    /**< gaussian times 64 for q and k: logits of thousands, one key takes each row */
} rt_family;

const char *rt_family_name(rt_family f); /**< gaussian exact tracer tilted huge */
bool rt_family_parse(const char *name, rt_family *out);

/** Fill one row (all dims) of q, k, v or dout, of a sink (head h, one dim) or a bias (Sk dims), rounded to dtype t (as doubles).  Inputs of family EXACT are
 *  exact in t, others are rounded to nearest even. */
void rt_generate_row(rt_family f, uint64_t seed, rt_tensor_id id, rt_dtype t, int64_t b, int64_t pos,
                     int64_t head, int64_t dims, int64_t seqlen, double *row);
/** Whether the family can be made for this problem and dtype; RT_ERR_ARG with the rule that fails. */
rt_status rt_generate_check(rt_context *ctx, rt_family f, const rt_problem *p, rt_dtype t) RT_NODISCARD;

/** Rows of inputs to read and of results to write, by original position; both are called by several threads, never for the same row. */
typedef struct {
    void (*load)(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, double *row);
    void (*store)(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, const double *row);
    void *arg;
} rt_result_io;
/** Results (out lse dq dk dv) of family TRACER by closed form, in O(S D) operations: a right run of any length, e.g. a million tokens.  Binary64
 *  with relative errors below S 2^-52 of the sums of moduli.  RT_ERR_ARG for what has no closed form here: other families, documents, a causal
 *  mask with Sq != Sk. */
rt_status rt_generate_results(rt_context *ctx, rt_family f, const rt_problem *p,
                              const rt_result_io *io) RT_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
