/** @file problem.h  The mathematical question: sizes, scale, and which key each query sees.
 *
 *  Glossary of dimensions, the same everywhere: B batch; Sq, Sk lengths in tokens; Hq, Hkv heads
 *  (query head h uses key head floor(h / (Hq/Hkv))); D head dim of q and k; Dv of v and out;
 *  P context-parallel ranks; R a rank; n_q, n_kv tokens of a rank.  Positions are original ones
 *  (0 .. S-1 of the whole sequence), never indices on a rank.  All calls are local. */
#ifndef RINGTRUE_PROBLEM_H
#define RINGTRUE_PROBLEM_H

#include <ringtrue/number.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    RT_MASK_FULL = 0,
    RT_MASK_CAUSAL,             /**< top-left: key j visible to query i iff j <= i */
    RT_MASK_CAUSAL_BOTTOM_RIGHT /**< j <= i + (Sk - Sq), per document where there are documents */
} rt_mask_kind;

/** "full", "causal", "causal-bottom-right". */
const char *rt_mask_name(rt_mask_kind m);
bool rt_mask_parse(const char *name, rt_mask_kind *out);

/** How the exact value of the score scale is named. */
typedef enum {
    RT_SCALE_RSQRT_DIM = 0, /**< 1/sqrt(D), the real number */
    RT_SCALE_F32,           /**< the binary32 value `scale` */
    RT_SCALE_F64            /**< the binary64 value `scale` */
} rt_scale_kind;

typedef struct {
    int64_t batch;              /**< B >= 1 */
    int64_t seqlen_q, seqlen_k; /**< Sq, Sk >= 1, tokens */
    int64_t heads_q, heads_kv;  /**< Hq a multiple of Hkv */
    int64_t dim, dim_v;         /**< D, Dv >= 1 */
    rt_scale_kind scale_kind;
    double scale; /**< the value (nearest double for RSQRT_DIM); finite */
    rt_mask_kind mask;
    int64_t documents;    /**< 0: one document without boundaries */
    int64_t *cu_q, *cu_k; /**< documents + 1 boundaries, ascending, 0 .. Sq and 0 .. Sk; owned
                                       (rt_alloc); NULL when documents == 0.  Empty documents allowed */
} rt_problem;

/** Release what the problem owns and clear it. */
void rt_problem_reset(rt_problem *p);
/** Copy, owning its own boundaries. */
rt_status rt_problem_copy(rt_context *ctx, const rt_problem *from, rt_problem *to) RT_NODISCARD;
/** Check every rule above; RT_ERR_ARG names the first that is broken. */
rt_status rt_problem_check(rt_context *ctx, const rt_problem *p) RT_NODISCARD;
/** The scale of kind RSQRT_DIM as the nearest double (correctly rounded). */
double rt_rsqrt_dim(int64_t dim);

/** The keys that query position i sees: a half-open range of original positions [*lo, *hi), empty
 *  when *lo >= *hi (then both are 0).  Every mask of this version is one range per query. */
void rt_mask_row(const rt_problem *p, int64_t i, int64_t *lo, int64_t *hi);
/** The query positions that see key position j, [*lo, *hi). */
void rt_mask_column(const rt_problem *p, int64_t j, int64_t *lo, int64_t *hi);
/** Document of a query position (0 without documents) and of a key position. */
int64_t rt_document_of_query(const rt_problem *p, int64_t i);
int64_t rt_document_of_key(const rt_problem *p, int64_t j);
/** Visible (query, key) pairs between two position lists (lists in any order, values distinct).
 *  Cost O(n_q log n_k) when k_pos ascends, O(n_q n_k) otherwise. */
int64_t rt_mask_pairs(const rt_problem *p, const int64_t *q_pos, int64_t n_q, const int64_t *k_pos,
                      int64_t n_k);
/** A 64-bit digest of every field (any rank can compare it with the others'). */
uint64_t rt_problem_digest(const rt_problem *p);

#ifdef __cplusplus
}
#endif
#endif
