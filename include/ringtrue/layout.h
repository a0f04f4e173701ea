/** @file layout.h  Which rank owns which token, and in which slot.  All calls are local. */
#ifndef RINGTRUE_LAYOUT_H
#define RINGTRUE_LAYOUT_H

#include <ringtrue/problem.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { RT_SIDE_Q = 0, RT_SIDE_KV = 1 } rt_side;

typedef enum {
    RT_LAYOUT_CONTIGUOUS = 0, /**< rank r owns the r-th of P runs */
    RT_LAYOUT_ZIGZAG,         /**< 2P runs; rank r owns runs r and 2P-1-r, in that order ("head-tail") */
    RT_LAYOUT_STRIPED,        /**< token t belongs to rank t mod P */
    RT_LAYOUT_POSITIONS       /**< an explicit list: position of each slot of each rank */
} rt_layout_kind;

/** Who holds the remainder when the runs do not divide the length. */
typedef enum {
    RT_REMAINDER_SPREAD = 0, /**< the first S mod n runs hold one token more */
    RT_REMAINDER_CEIL,       /**< runs of ceil(S/n); the last ones shorter or empty */
    RT_REMAINDER_LAST,       /**< runs of floor(S/n); the last one holds the rest */
    RT_REMAINDER_REFUSE /**< an error, as in the frameworks that define the layout for multiples only */
} rt_remainder;

const char *rt_layout_name(rt_layout_kind k); /**< contiguous zigzag striped positions */
bool rt_layout_parse(const char *name, rt_layout_kind *out);
const char *rt_remainder_name(rt_remainder r); /**< spread ceil last refuse */
bool rt_remainder_parse(const char *name, rt_remainder *out);

/** One side (queries, or keys and values) of a layout. */
typedef struct {
    int64_t length;   /**< tokens of the whole sequence */
    int64_t *first;   /**< P + 1; slots of rank r are pos[first[r] .. first[r+1]) */
    int64_t *half;    /**< P; slots of rank r before half[r] are its first half (zigzag), all otherwise */
    int64_t *pos;     /**< length; original position of each slot, rank after rank */
    int32_t *rank_of; /**< length; owner of each original position */
    int64_t *slot_of; /**< length; its slot on that owner */
} rt_layout_side;

typedef struct {
    rt_layout_kind kind;
    rt_remainder remainder;
    int32_t ranks;          /**< P >= 1 */
    rt_layout_side side[2]; /**< [RT_SIDE_Q], [RT_SIDE_KV] */
    char note[200];         /**< empty, or what a user should know: e.g. zigzag for a length that its
                                 frameworks do not define */
} rt_layout;

/** Build contiguous, zigzag or striped for Sq and Sk of `p` over P ranks.  Ranks may end up with no
 *  token.  RT_ERR_ARG when remainder is REFUSE and a run count does not divide, or P < 1. */
rt_status rt_layout_create(rt_context *ctx, const rt_problem *p, rt_layout_kind kind, rt_remainder rem,
                           int32_t ranks, rt_layout *out) RT_NODISCARD;
/** Build from position lists: n_q[r], n_kv[r] slots of rank r, lists rank after rank (copied).
 *  RT_ERR_FORMAT when a position is missing, repeated or out of range, naming it and the rank. */
rt_status rt_layout_from_positions(rt_context *ctx, const rt_problem *p, int32_t ranks, const int64_t *n_q,
                                   const int64_t *q_pos, const int64_t *n_kv, const int64_t *kv_pos,
                                   rt_layout *out) RT_NODISCARD;
/** Release. */
void rt_layout_reset(rt_layout *l);

static inline int64_t rt_layout_count(const rt_layout *l, rt_side s, int32_t r)
{
    return l->side[s].first[r + 1] - l->side[s].first[r];
}
static inline const int64_t *rt_layout_positions(const rt_layout *l, rt_side s, int32_t r)
{
    return l->side[s].pos + l->side[s].first[r];
}

#ifdef __cplusplus
}
#endif
#endif
