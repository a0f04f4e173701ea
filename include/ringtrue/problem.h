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

/** What is visible inside a slice: a rectangle of queries and keys (MagiAttention's four types). */
typedef enum {
    RT_SLICE_FULL = 0,
    RT_SLICE_CAUSAL,     /**< aligned to the bottom right corner: j - k1 <= i - q1 */
    RT_SLICE_INV_CAUSAL, /**< aligned to the top left corner: j - k0 >= i - q0 */
    RT_SLICE_BI_CAUSAL   /**< both */
} rt_slice_kind;

/** "full", "causal", "inv-causal", "bi-causal"; NULL for any other. */
const char *rt_slice_name(rt_slice_kind k);
bool rt_slice_parse(const char *name, rt_slice_kind *out);

typedef struct {
    int64_t q0, q1, k0, k1; /**< queries [q0, q1), keys [k0, k1), original positions */
    rt_slice_kind kind;
} rt_slice;

/** A pair (i, j) is visible iff every part of the mask that is set says so: `mask`, documents, window,
 *  slices, key_valid, dense.  All zero: the parts are not set. */
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
    /** Sliding window around the diagonal of `mask` (that of top-left for full and causal, bottom-right for
     *  causal-bottom-right; per document where there are documents): i + shift - window_left <= j <= i +
     *  shift + window_right; -1: no limit on that side */
    bool has_window;
    int64_t window_left, window_right; /**< -1 .. 2^40 */
    int64_t prefix;     /**< prefix-LM: the first `prefix` keys (of each document) are visible whatever the
                         causal mask and the window say */
    int64_t n_slices;   /**< 0: none.  Else a pair must lie in a slice; no pair in two of them */
    rt_slice *slices;   /**< owned */
    uint8_t *key_valid; /**< B x Sk, 0: padding, 1: a key; owned; NULL: none */
    uint8_t *dense;     /**< Sq x Sk, 1: visible; owned; NULL: none */

    /* The score, in this order: s = scale q.k + alibi + bias, then softcap tanh(s / softcap), then the mask. */
    double
        *alibi; /**< Hq slopes, 0 or of magnitude 2^-500 to 2^500, added as -slope |i + shift - j|, i and j
                        within their document, shift that of the window; owned; NULL: none */
    double *
        bias; /**< additive, dense in bias_shape: finite, or -inf, which hides the pair; owned; NULL: none */
    int64_t bias_shape[4]; /**< (B, Hq, Sq, Sk), each of the first three may be 1 (broadcast) */
    bool no_dbias;  /**< the gradient of the bias is not a result (it needs Hq Sq Sk numbers on the way) */
    double softcap; /**< 2^-500 to 2^500, or 0: none */
    double *sink; /**< Hq logits, finite: exp(sink_h) joins the sum Z of every row, once; a row that sees no
                       key has O = 0 and L = sink_h; owned; NULL: none */
    /** Probability of dropping, [0, 1), or 0: none.  O = sum_j P_ij m_ij / (1 - dropout) v_j, m_ij = 0 where the
     *  pair is dropped, else 1; L does not know of it.  What k_j.q_i says still counts in Z, what v_j holds then
     *  reaches nothing.  1 - dropout is the exact difference. */
    double dropout;
    uint64_t dropout_seed;
} rt_problem;

/** Release what the problem owns and clear it. */
void rt_problem_reset(rt_problem *p);
/** Copy, owning its own boundaries. */
rt_status rt_problem_copy(rt_context *ctx, const rt_problem *from, rt_problem *to) RT_NODISCARD;
/** Check every rule above; RT_ERR_ARG names the first that is broken. */
rt_status rt_problem_check(rt_context *ctx, const rt_problem *p) RT_NODISCARD;
/** The scale of kind RSQRT_DIM as the nearest double (correctly rounded). */
double rt_rsqrt_dim(int64_t dim);

/** Whether query position i sees key position j in batch b. */
bool rt_mask_visible(const rt_problem *p, int64_t b, int64_t i, int64_t j);
/** Whether every query sees one run of keys, the same in every batch: then rt_mask_row and rt_mask_column say
 *  exactly what is visible.  (No slices, key_valid, dense; no prefix beside a window that ends to the left.) */
bool rt_mask_is_interval(const rt_problem *p);
/** A half-open range of original positions [*lo, *hi) that holds every key that query position i sees in any
 *  batch; empty (then both are 0) only if it sees none.  key_valid and dense are not looked at. */
void rt_mask_row(const rt_problem *p, int64_t i, int64_t *lo, int64_t *hi);
/** The same of the query positions that see key position j, [*lo, *hi). */
void rt_mask_column(const rt_problem *p, int64_t j, int64_t *lo, int64_t *hi);
/** seen[c] = 1 where query position i of batch b sees k_pos[c], else 0, for n positions in any order; returns
 *  how many it sees.  Cost O(n + slices). */
int64_t rt_mask_row_keys(const rt_problem *p, int64_t b, int64_t i, const int64_t *k_pos, int64_t n,
                         uint8_t *seen);
/** How many keys query position i of batch b sees, of all; counted up to `most`. */
int64_t rt_mask_row_count(const rt_problem *p, int64_t b, int64_t i, int64_t most);
/** The mask in words, documents aside: "causal, window (128, 0), prefix 16, 4 slices, key padding, dense".
 *  Returns text. */
#define RT_MASK_TEXT 160
const char *rt_mask_text(char text[RT_MASK_TEXT], const rt_problem *p);
/** Document of a query position (0 without documents) and of a key position. */
int64_t rt_document_of_query(const rt_problem *p, int64_t i);
int64_t rt_document_of_key(const rt_problem *p, int64_t j);
/** Visible (query, key) pairs between two position lists (lists in any order, values distinct), summed over the
 *  batch.  Cost O(n_q log n_k) (times the slices) when k_pos ascends and neither key_valid nor dense is set,
 *  O(B n_q n_k) otherwise. */
int64_t rt_mask_pairs(const rt_problem *p, const int64_t *q_pos, int64_t n_q, const int64_t *k_pos,
                      int64_t n_k);
/* ---- what joins and bends the scores (score.c) ----------------------------------------------------- */

/** Whether any of alibi, bias, softcap, sink and dropout is set. */
bool rt_problem_has_scores(const rt_problem *p);
/** In words: "bias 1hss, alibi, softcap 30, sink, dropout 0.1 (seed 7)"; "" without.  Returns text. */
#define RT_SCORE_TEXT 160
const char *rt_score_text(char text[RT_SCORE_TEXT], const rt_problem *p);
/** The key position to which query i has ALiBi distance 0 (it may lie outside the keys): the distance of key j
 *  of the same document is |rt_score_diagonal(p, i) - j|. */
int64_t rt_score_diagonal(const rt_problem *p, int64_t i);
/** The ALiBi term of head h at (i, j), -slope |i + shift - j|, exactly: the value returned (the product, rounded
 *  to nearest) plus *low.  A slope has 53 bits and a distance at most 41, so that the rest fits.  0 without. */
double rt_score_alibi(const rt_problem *p, int64_t h, int64_t i, int64_t j, double *low);
/** The usual slope of head h of n: 2^(-8 (h + 1) / n) for a power of two; else those of the largest power of two
 *  m below, then every second one of 2 m.  Rounded to binary32 from within 2^-48 of it. */
double rt_alibi_standard(int64_t h, int64_t n);
/** The bias of (b, h, i, j): a finite number or -inf; 0 without.  And its row of Sk elements (there must be one). */
double rt_score_bias(const rt_problem *p, int64_t b, int64_t h, int64_t i, int64_t j);
const double *rt_score_bias_row(const rt_problem *p, int64_t b, int64_t h, int64_t i);
/** TransformerEngine's names of broadcast shapes: bhss, 1hss, b1ss, 11ss, 111s and so on, "1" for an axis of extent
 *  1.  Parse fills shape for the sizes of p; false for another name. */
bool rt_bias_shape_parse(const char *name, const rt_problem *p, int64_t shape[4]);
void rt_bias_shape_name(const rt_problem *p, char name[5]);
/** Whether dropout keeps the pair: word j mod 4 of Philox4x32-10 (rt_philox) is at least floor(dropout 2^32), with
 *    key     (low half, high half) of dropout_seed
 *    counter floor(j/4) bits 0..31 | i bits 0..31 | h bits 0..23, i bits 32..39 | b bits 0..23, floor(j/4) bits
 *            32..35, 1111
 *  (words 0 to 3, each from its low bits), i, j, h, b the original positions, query head and batch.  True without.
 *  The generator's counters never end in 1111: the same seed may serve both. */
bool rt_dropout_keep(const rt_problem *p, int64_t b, int64_t h, int64_t i, int64_t j);
/** The same for n keys at k_pos: keep[c] is 1 or 0.  Fast where positions ascend. */
void rt_dropout_row(const rt_problem *p, int64_t b, int64_t h, int64_t i, const int64_t *k_pos, int64_t n,
                    uint8_t *keep);

/** A 64-bit digest of every field (any rank can compare it with the others'). */
uint64_t rt_problem_digest(const rt_problem *p);

#ifdef __cplusplus
}
#endif
#endif
