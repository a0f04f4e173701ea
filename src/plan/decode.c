/* Decode with a KV cache: few queries, many keys, which stay where they are (interleaved over the ranks, for
 * instance).  The queries go to every rank whose keys they see; each rank computes one partial for them in one
 * kernel call; the partials are joined on the way home:
 *   tree    in ceil(log2 P) levels: the rank at distance i from the owner sends to i - 2^level (Tree Attention)
 *   ag-rs   all-gather of Q, then a ring reduce-scatter: the partial of an owner's rows goes from rank to rank,
 *           each joins its own (vLLM DCP)
 *   a2a     all-to-all: rank j gets head shard j of every partial and joins them in the order of the ranks; then
 *           it goes to the owner of the queries (vLLM DCP; there the head shard is at home already)
 * Statistics travel with each partial (vLLM gathers LSE beforehand and sends O alone).
 *
 * Nobody trains through decode; the backward is the same exchange: Q and DO go where the keys are, DQ comes
 * home, added in the order of the ranks, DKV is at home. */
#include "plan/build.h"

#include <string.h>

enum { TREE, AG_RS, A2A };

typedef struct {
    int join;
    const uint8_t *grid; /* P x P: queries of shard q see keys of rank r, at q * P + r */
} decode;

/* Where rank r keeps what belongs to the queries of shard s: its distance from their owner. */
static int32_t distance(int32_t r, int32_t s, int32_t ranks)
{
    return (r - s + ranks) % ranks;
}

static int32_t at_distance(int32_t s, int64_t i, int32_t ranks)
{
    return (int32_t)((s + i) % ranks);
}

static rt_status gather(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, const decode *d,
                        bool backward)
{
    const int32_t ranks = c->l->ranks;
    RT_TRY(rt_builder_step(ctx, b));
    for (int32_t s = 0; s < ranks; s++) {
        const rt_piece q = rt_piece_whole(c->p, c->l, RT_SIDE_Q, s);
        for (int32_t i = 1; i < ranks; i++) {
            const int32_t r = at_distance(s, i, ranks);
            if (!d->grid[(int64_t)s * ranks + r])
                continue;
            RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_Q, q, s, r, 0, i, RT_PUT));
            if (backward)
                RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_DO, q, s, r, 0, i, RT_PUT));
        }
    }
    return RT_OK;
}

/* Every rank: the queries of all shards against its own keys, in one call. */
static rt_status compute(rt_context *ctx, rt_builder *b, const rt_pair_counter *c)
{
    RT_TRY(rt_builder_step(ctx, b));
    for (int32_t r = 0; r < c->l->ranks; r++) {
        for (int32_t s = 0; s < c->l->ranks; s++) {
            rt_tile tile;
            memset(&tile, 0, sizeof tile);
            tile.rank = r;
            tile.q = rt_piece_whole(c->p, c->l, RT_SIDE_Q, s);
            tile.kv = rt_piece_whole(c->p, c->l, RT_SIDE_KV, r);
            tile.q_buf = tile.dst_q = distance(r, s, c->l->ranks);
            RT_TRY(rt_builder_compute(ctx, b, c, tile));
        }
    }
    return rt_builder_longest_first(ctx, b);
}

/* Whether ranks at distance i0 .. i1 - 1 from shard s have a partial of its queries. */
static bool any_partial(const decode *d, int32_t ranks, int32_t s, int64_t i0, int64_t i1)
{
    for (int64_t i = i0; i < i1 && i < ranks; i++)
        if (d->grid[(int64_t)s * ranks + at_distance(s, i, ranks)])
            return true;
    return false;
}

/* The partial of shard s's queries, from distance i to distance k, where it is joined. */
static rt_status hop(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, int32_t s, int64_t i,
                     int64_t k)
{
    const int32_t ranks = c->l->ranks;
    return rt_builder_send(ctx, b, RT_PAYLOAD_STATE, rt_piece_whole(c->p, c->l, RT_SIDE_Q, s),
                           at_distance(s, i, ranks), at_distance(s, k, ranks), (int32_t)i, (int32_t)k,
                           RT_JOIN);
}

static rt_status join_tree(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, const decode *d)
{
    const int32_t ranks = c->l->ranks;
    for (int64_t span = 1; span < ranks; span *= 2) {
        RT_TRY(rt_builder_step(ctx, b));
        for (int32_t s = 0; s < ranks; s++)
            for (int64_t i = span; i < ranks; i += 2 * span)
                if (any_partial(d, ranks, s, i, i + span))
                    RT_TRY(hop(ctx, b, c, s, i, i - span));
    }
    return RT_OK;
}

static rt_status join_reduce_scatter(rt_context *ctx, rt_builder *b, const rt_pair_counter *c,
                                     const decode *d)
{
    const int32_t ranks = c->l->ranks;
    for (int64_t i = 1; i < ranks; i++) {
        RT_TRY(rt_builder_step(ctx, b));
        for (int32_t s = 0; s < ranks; s++)
            if (any_partial(d, ranks, s, 1, i + 1))
                RT_TRY(hop(ctx, b, c, s, i, (i + 1) % ranks));
    }
    return RT_OK;
}

static rt_status join_all_to_all(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, const decode *d)
{
    const int32_t ranks = c->l->ranks;
    for (int home = 0; home < 2 && ranks > 1; home++) {
        RT_TRY(rt_builder_step(ctx, b));
        for (int32_t s = 0; s < ranks; s++) {
            for (int32_t j = 0; j < ranks; j++) {
                rt_piece shard = rt_piece_whole(c->p, c->l, RT_SIDE_Q, s);
                const int32_t joined = ranks + distance(j, s, ranks);
                shard.head0 = c->p->heads_q * j / ranks;
                shard.head1 = c->p->heads_q * (j + 1) / ranks;
                if (home && any_partial(d, ranks, s, 0, ranks))
                    RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_STATE, shard, j, s, joined, 0, RT_PUT));
                for (int32_t r = 0; r < ranks && !home; r++)
                    if (d->grid[(int64_t)s * ranks + r])
                        RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_STATE, shard, r, j, distance(r, s, ranks),
                                               joined, RT_JOIN));
            }
        }
    }
    return RT_OK;
}

static rt_status gradients_home(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, const decode *d)
{
    const int32_t ranks = c->l->ranks;
    RT_TRY(rt_builder_step(ctx, b));
    for (int32_t s = 0; s < ranks; s++)
        for (int32_t r = 0; r < ranks; r++)
            if (r != s && d->grid[(int64_t)s * ranks + r])
                RT_TRY(rt_builder_send(ctx, b, RT_PAYLOAD_DQ, rt_piece_whole(c->p, c->l, RT_SIDE_Q, s), r,
                                       s, distance(r, s, ranks), 0, RT_ADD));
    return RT_OK;
}

static rt_status decode_pass(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                             const void *arg)
{
    const decode *d = arg;
    const bool many = c->l->ranks > 1;
    if (many)
        RT_TRY(gather(ctx, b, c, d, backward));
    RT_TRY(compute(ctx, b, c));
    if (backward)
        return many ? gradients_home(ctx, b, c, d) : RT_OK;
    switch (d->join) {
    case AG_RS:
        return join_reduce_scatter(ctx, b, c, d);
    case A2A:
        return join_all_to_all(ctx, b, c, d);
    default:
        return join_tree(ctx, b, c, d);
    }
}

const rt_plan_parameter rt_decode_parameters[] = {
    {"join", "tree | ag-rs | a2a", "how partials are joined on the way home (default: tree)"},
    {NULL, NULL, NULL}};

rt_status rt_plan_decode(rt_context *ctx, const rt_problem *p, const rt_layout *l, const rt_plan_options *o,
                         rt_plan *out)
{
    static const char *const joins[] = {"tree", "ag-rs", "a2a", NULL};
    decode d = {TREE, NULL};
    uint8_t *grid = NULL;
    rt_pair_counter c;
    RT_TRY(rt_plan_option_choice(ctx, o, "join", joins, TREE, &d.join));
    RT_TRY(rt_pair_counter_init(ctx, p, l, &c));
    rt_status status = rt_shard_grid(ctx, &c, &grid);
    rt_pair_counter_reset(&c);
    d.grid = grid;
    if (status == RT_OK)
        status = rt_plan_passes(ctx, p, l, o, decode_pass, &d, out);
    rt_free(grid);
    return status;
}
