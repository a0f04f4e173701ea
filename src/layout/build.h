/* A side of a layout while it is built: an order writes positions of the (padded) sequence, rank after rank;
 * padding is taken out of them afterwards. */
#ifndef RT_LAYOUT_BUILD_H
#define RT_LAYOUT_BUILD_H

#include <ringtrue/layout.h>

typedef struct rt_token_order rt_token_order;

/* An order that has a name. */
typedef struct {
    rt_layout_info info;
    rt_layout_kind kind; /* prepare may say another */
    /* Reads the parameters; *unit: what every segment must be a multiple of where frameworks define the
     * order (1: nothing). */
    rt_status (*prepare)(rt_context *ctx, rt_token_order *o, int64_t *unit);
    /* Writes the positions of rank r; how many of its slots are the first half of a zigzag (else all). */
    int64_t (*rank)(rt_token_order *o, int32_t r);
    bool documents; /* the segments are the documents */
} rt_token_order_entry;

struct rt_token_order {
    const rt_problem *p;
    const rt_token_order_entry *entry;
    const char *what;       /* "layout striped", for errors */
    const char *parameters; /* behind the colon, or "" */
    rt_side side;
    int32_t ranks;
    rt_remainder remainder;
    int64_t length; /* of the sequence, with its padding */
    /* Runs are cut in each segment: the sequence, or its documents or chunks. */
    int64_t segments, *bounds; /* segments + 1, rt_alloc */
    const int64_t *padded;     /* documents + 1, or NULL */
    rt_layout_kind kind;
    /* What the parameters say, each read by the unit of the orders that take it. */
    int64_t stripe, ulysses, chunks, block;
    bool ring_low, pairs;
    int choice;       /* usp: tokens; interleaved: queries */
    int64_t *work;    /* ptrr: rank of each block; rt_alloc */
    rt_layout_side s; /* first, half, pos are filled */
    int64_t at;       /* positions written */
};

const rt_token_order_entry *rt_token_orders(void);
/* The order of that name (up to its colon), NULL if there is none. */
const rt_token_order_entry *rt_token_order_find(const char *name);

/* Where run k of n starts in [start, end): k == n gives the end. */
int64_t rt_run_start(int64_t length, int64_t n, int64_t k, rt_remainder rem);
rt_status rt_layout_side_alloc(rt_context *ctx, int64_t length, int32_t ranks,
                               rt_layout_side *s) RT_NODISCARD;
void rt_layout_side_reset(rt_layout_side *s);
/* rank_of and slot_of from pos, which is known to be a permutation. */
void rt_layout_side_invert(rt_layout_side *s, int32_t ranks);

/* Turn a side over the padded sequence into one over the tokens. */
rt_status rt_padding_remove(rt_context *ctx, const rt_problem *p, rt_side side, const int64_t *padded,
                            int32_t ranks, rt_layout_side *s) RT_NODISCARD;

/* Deal n items of the given work over the ranks: by work descending (equal work in its order), there and back.
 * rank[i] becomes the rank of item i. */
rt_status rt_deal(rt_context *ctx, const int64_t *work, int64_t n, int32_t ranks,
                  int64_t *rank) RT_NODISCARD;

#endif
