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
    RT_LAYOUT_POSITIONS,      /**< an explicit list: position of each slot of each rank */
    RT_LAYOUT_BLOCK_STRIPED,  /**< block t of `stripe` tokens belongs to rank t mod P */
    RT_LAYOUT_CONTIGUOUS_DOC, /**< every document is cut in P runs; rank r owns the r-th of each */
    RT_LAYOUT_ZIGZAG_DOC,     /**< every document is cut in 2P runs; rank r owns r and 2P-1-r of each */
    RT_LAYOUT_PTRR,           /**< blocks of queries dealt by their work, there and back over the ranks */
    RT_LAYOUT_USP,            /**< ring runs (zigzag or striped) cut again over the Ulysses ranks */
    RT_LAYOUT_INTERLEAVED,    /**< a KV cache in turns over the ranks; the queries elsewhere */
    RT_LAYOUT_CHUNKED         /**< KV: chunks, each zigzag on its own; queries: the last chunk */
} rt_layout_kind;

/** Who holds the remainder when the runs do not divide the length. */
typedef enum {
    RT_REMAINDER_SPREAD = 0, /**< the first S mod n runs hold one token more */
    RT_REMAINDER_CEIL,       /**< runs of ceil(S/n); the last ones shorter or empty */
    RT_REMAINDER_LAST,       /**< runs of floor(S/n); the last one holds the rest */
    RT_REMAINDER_REFUSE /**< an error, as in the frameworks that define the layout for multiples only */
} rt_remainder;

/** contiguous zigzag striped positions block-striped contiguous-doc zigzag-doc ptrr usp interleaved chunked */
const char *rt_layout_name(rt_layout_kind k);
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
    /* Padding.  A slot is a token; in a file a rank's tensor may have rows that are no token. */
    int64_t *rows;      /**< P; rows of rank r's tensors in a file, n of its slots and its padding */
    int64_t *row_of;    /**< length; row of each original position there; NULL: row = slot, no padding */
    int64_t padded;     /**< rows of a tensor that holds all tokens in order; length without padding */
    int64_t *padded_of; /**< length; row of each original position there; NULL: row = position */
} rt_layout_side;

#define RT_LAYOUT_NAME_MAX 512

typedef struct {
    rt_layout_kind kind; /**< that of the order: a hybrid whose slots are a zigzag's is RT_LAYOUT_ZIGZAG */
    char name[RT_LAYOUT_NAME_MAX]; /**< with its parameters, as given */
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
/** A layout that has a name. */
typedef struct {
    const char *name;
    const char *summary;            /**< one line */
    const rt_parameter *parameters; /**< ended by a NULL key; NULL: none */
} rt_layout_info;
/** The i-th named layout, from 0; NULL behind the last. */
const rt_layout_info *rt_layout_listed(int64_t i);
/** Is that the name of a layout, "zigzag", "striped:stripe=2", with keys that it takes?  RT_ERR_ARG says what
 *  is known.  The values are read when the layout is made. */
rt_status rt_layout_check_name(rt_context *ctx, const char *name) RT_NODISCARD;

/** What rt_layout_make needs besides the problem; zero: contiguous, spread, no padding. */
typedef struct {
    const char *name; /**< NULL: contiguous */
    rt_remainder remainder;
    /** documents + 1 offsets each, or NULL: document d's tokens are the first of the places padded[d] ..
     *  padded[d+1] of a padded sequence; the order is laid over that sequence, then its padding is taken out
     *  (padded_q and padded_k both or none). */
    const int64_t *padded_q, *padded_k;
    const char
        *folder; /**< where a list's file without a leading slash lies; NULL: where the program runs */
} rt_layout_options;
/** Build a named layout for Sq and Sk of `p` over P ranks.  Orders that framework docs define for multiples
 *  only follow `remainder` for other lengths (per document in the -doc orders), and `note` says so.  Ranks
 *  may end up with no token.  ptrr counts the work of the problem's mask.  RT_ERR_ARG for an unknown name or
 *  parameter, for REFUSE where a count does not divide, for offsets that leave a document no room;
 *  positions:file=PATH reads a list (rt_layout_read), RT_ERR_IO or RT_ERR_FORMAT. */
rt_status rt_layout_make(rt_context *ctx, const rt_problem *p, const rt_layout_options *o, int32_t ranks,
                         rt_layout *out) RT_NODISCARD;
/** Do `padded` offsets give each document of that side room?  RT_ERR_ARG names the first that lacks it. */
rt_status rt_layout_check_padding(rt_context *ctx, const rt_problem *p, rt_side side,
                                  const int64_t *padded) RT_NODISCARD;
/** Read a list of positions, a text file: per line a side (q, kv, or qkv for both), a rank, and the positions
 *  of its slots in order, -1 for padding; `#` begins a comment.  A rank without a line has no slot; lines of
 *  one rank and side follow each other.  What `ringtrue grid` prints is such a file. */
rt_status rt_layout_read(rt_context *ctx, const rt_problem *p, const char *path, int32_t ranks,
                         rt_layout *out) RT_NODISCARD;
/** Build from position lists: n_q[r], n_kv[r] rows of rank r, lists rank after rank (copied); -1: padding.
 *  RT_ERR_FORMAT when a position is missing, repeated or out of range, naming it and the rank. */
rt_status rt_layout_from_positions(rt_context *ctx, const rt_problem *p, int32_t ranks, const int64_t *n_q,
                                   const int64_t *q_pos, const int64_t *n_kv, const int64_t *kv_pos,
                                   rt_layout *out) RT_NODISCARD;
/** Copy, owning its own lists. */
rt_status rt_layout_copy(rt_context *ctx, const rt_layout *from, rt_layout *to) RT_NODISCARD;
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

/** The row of an original position in a file of its owner. */
static inline int64_t rt_layout_row(const rt_layout_side *s, int64_t pos)
{
    return s->row_of != NULL ? s->row_of[pos] : s->slot_of[pos];
}
/** The row of an original position in a file that holds all tokens in order. */
static inline int64_t rt_layout_global_row(const rt_layout_side *s, int64_t pos)
{
    return s->padded_of != NULL ? s->padded_of[pos] : pos;
}

#ifdef __cplusplus
}
#endif
#endif
