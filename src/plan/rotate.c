/* Passes in which KV goes round (see rotate.h).  A step t of n has three things: every lane computes its queries
 * against the KV that it meets; that KV moves to who meets it next; and in the backward the gradient of a
 * shard follows one step behind, picks up each contribution where it arrives, and goes home at the end. */
#include "plan/rotate.h"

#include <string.h>

typedef struct {
    rt_context *ctx;
    rt_builder *b;
    const rt_pair_counter *c;
    const rt_rotation *x;
    int32_t n;     /* groups */
    bool backward; /* which pass */
    bool back;     /* the steps are those of the forward, last one first */
    /* Where only what is needed moves, else NULL: (n, P), whether the group that meets the KV of a shard at step t
     * needs it; and (P), the first and the last such step, where the owner's own does not count if it comes last */
    bool *need;
    int32_t *first, *last;
} rotor;

static int32_t wrap(int64_t x, int64_t n)
{
    return (int32_t)((x % n + n) % n);
}

static int32_t rank_of(const rotor *o, int32_t m, int32_t a)
{
    return o->x->strided ? a * o->n + m : m * o->x->lanes + a;
}

/* Step t in the order of the forward: window k of the outer ring, place x in the inner one. */
static void step_split(const rotor *o, int64_t t, int64_t *k, int64_t *x)
{
    const int64_t f = o->back ? o->n - 1 - t : t;
    *k = (o->x->up ? 1 : -1) * (f / o->x->window);
    *x = (o->x->up ? 1 : -1) * (f % o->x->window);
}

/* The group whose KV group m meets at step t. */
static int32_t meets(const rotor *o, int32_t m, int64_t t)
{
    const int32_t w = o->x->window;
    int64_t k, x;
    step_split(o, t, &k, &x);
    return wrap(m / w + k, o->n / w) * w + wrap(m % w + x, w);
}

/* The group that meets the KV of group s at step t. */
static int32_t who(const rotor *o, int32_t s, int64_t t)
{
    const int32_t w = o->x->window;
    int64_t k, x;
    step_split(o, t, &k, &x);
    return wrap(s / w - k, o->n / w) * w + wrap(s % w - x, w);
}

/* ---- buffers ----------------------------------------------------------------------------------------- */

/* Lane a keeps what belongs to shard b of its own group here: 0 .. u-1.  What travels has sets of u buffers. */
static int32_t own_buffer(int32_t a, int32_t b)
{
    return rt_shard_buffer(a, b);
}

static int32_t travel_buffer(const rotor *o, int64_t set, int32_t b)
{
    return (int32_t)(set * o->x->lanes) + b;
}

/* Whether the KV of step t is that of the own group. */
static bool meets_own(const rotor *o, int64_t t)
{
    return o->back ? t == o->n - 1 : t == 0;
}

/* KV of step t.  Two sets of buffers alternate, so that one is read and sent while the other is filled; what
 * starts a window stays until the next window's start is there, so a double ring has two such pairs. */
static int32_t kv_buffer(const rotor *o, int64_t t, int32_t a, int32_t b)
{
    const int64_t w = o->x->window, turn = o->back ? t : t - w; /* of the window starts */
    if (meets_own(o, t))
        return own_buffer(a, b);
    if (o->x->gather)
        return travel_buffer(o, o->back ? t + 1 : t, b);
    if (t % w == 0)
        return travel_buffer(o, (w > 1 ? 3 : 1) + turn / w % 2, b);
    return travel_buffer(o, 1 + (t % w - 1) % 2, b);
}

/* The first and the last step at which somebody contributes to DKV of a shard (n and -1: nobody). */
static int64_t first_need(const rotor *o, int32_t shard)
{
    return o->need != NULL ? o->first[shard] : 0;
}

static int64_t last_need(const rotor *o, int32_t shard)
{
    return o->need != NULL ? o->last[shard] : o->n - (o->back ? 2 : 1);
}

/* Where the contribution of step t to DKV is written and joined by what arrives. */
static int32_t dkv_buffer(const rotor *o, int64_t t, int32_t shard, int32_t a, int32_t b)
{
    const bool stays = meets_own(o, t) && (o->back || last_need(o, shard) == 0 || o->n == 1);
    return stays ? own_buffer(a, b) : travel_buffer(o, 1 + t % 2, b);
}

/* ---- pieces ------------------------------------------------------------------------------------------ */

void rt_lane_heads(const rt_problem *p, int32_t u, rt_head_deal deal, int32_t a, int64_t q[2],
                   int64_t kv[2])
{
    const int64_t group = p->heads_q / p->heads_kv, each = p->heads_q / u, rest = p->heads_q % u;
    if (deal == RT_HEADS_SPREAD) {
        q[0] = a * each + (a < rest ? a : rest);
        q[1] = q[0] + each + (a < rest);
    } else {
        const int64_t copies = u > p->heads_kv ? u / p->heads_kv : 1; /* lanes to a key head */
        const int64_t keys = copies > 1 ? 1 : (p->heads_kv + u - 1) / u,
                      part = (group + copies - 1) / copies;
        const int64_t from = a / copies * keys * group + a % copies * part;
        const int64_t end = (a / copies + 1) * keys * group;
        q[0] = from < p->heads_q ? from : p->heads_q;
        q[1] = copies > 1 && from + part < end ? from + part : end;
        q[1] = q[1] < p->heads_q ? q[1] : p->heads_q;
        q[0] = q[0] < q[1] ? q[0] : q[1];
    }
    kv[0] = q[0] / group;
    kv[1] = q[0] < q[1] ? (q[1] - 1) / group + 1 : kv[0];
}

/* The slots of a shard with the heads of lane a. */
static rt_piece lane_piece(const rotor *o, rt_side side, int32_t shard, int32_t a)
{
    rt_piece piece = rt_piece_whole(o->c->p, o->c->l, side, shard);
    int64_t q[2], kv[2];
    rt_lane_heads(o->c->p, o->x->lanes, o->x->deal, a, q, kv);
    piece.head0 = side == RT_SIDE_Q ? q[0] : kv[0];
    piece.head1 = side == RT_SIDE_Q ? q[1] : kv[1];
    return piece;
}

/* ---- the steps --------------------------------------------------------------------------------------- */

/* Inside every group: each owner's heads to the lanes that compute them, or results home.  A key head may have
 * been in several lanes: its gradients are added at home, those of the owner's own lane first. */
static rt_status exchange(const rotor *o, rt_payload payload)
{
    const bool home = rt_payload_is_result(payload);
    for (int32_t m = 0; m < o->n; m++)
        for (int32_t owner = 0; owner < o->x->lanes; owner++)
            for (int32_t a = 0; a < o->x->lanes; a++) {
                const int32_t shard = rank_of(o, m, owner), lane = rank_of(o, m, a),
                              at = own_buffer(a, owner);
                if (a == owner)
                    continue;
                RT_TRY(rt_builder_send(o->ctx, o->b, payload,
                                       lane_piece(o, rt_payload_side(payload), shard, a),
                                       home ? lane : shard, home ? shard : lane, home ? at : 0,
                                       home ? 0 : at, payload == RT_PAYLOAD_DKV ? RT_ADD : RT_PUT));
            }
    return RT_OK;
}

/* The tile of lane a of group m at step t: its heads of its group's shard b against shard c of the group that it meets. */
static rt_tile tile_of(const rotor *o, int64_t t, int32_t m, int32_t a, int32_t b, int32_t c)
{
    const int32_t shard = rank_of(o, meets(o, m, t), c);
    rt_tile tile = {.rank = rank_of(o, m, a),
                    .q = lane_piece(o, RT_SIDE_Q, rank_of(o, m, b), a),
                    .kv = lane_piece(o, RT_SIDE_KV, shard, a),
                    .q_buf = own_buffer(a, b),
                    .kv_buf = kv_buffer(o, t, a, c),
                    .dst_q = o->x->late && !o->backward ? (int32_t)t : own_buffer(a, b)};
    if (o->backward)
        tile.dst_kv =
            o->x->scatter ? (meets_own(o, t) ? 0 : (int32_t)t + 1) : dkv_buffer(o, t, shard, a, c);
    return tile;
}

/* One call of a kernel per rank: the lane's heads of its group's queries against those keys. */
static rt_status compute(const rotor *o, int64_t t)
{
    const int32_t u = o->x->lanes;
    for (int32_t m = 0; m < o->n; m++)
        for (int32_t a = 0; a < u; a++) {
            const rt_piece any = lane_piece(o, RT_SIDE_Q, rank_of(o, m, a), a);
            for (int32_t i = 0; i < u * u && any.head0 < any.head1; i++)
                RT_TRY(rt_builder_compute(o->ctx, o->b, o->c, tile_of(o, t, m, a, i / u, i % u)));
        }
    return rt_builder_longest_first(o->ctx, o->b);
}

/* Whether the KV that arrives for step t is of use: then, or at a later step that it is passed on to. */
static bool kv_of_use(const rotor *o, int64_t t, int32_t shard)
{
    const int64_t w = o->x->window, end = t % w == 0 ? o->n : (t / w + 1) * w;
    if (o->need == NULL)
        return true;
    for (int64_t later = t; later < (o->x->gather ? t + 1 : end); later++)
        if (o->need[later * o->c->l->ranks + shard] && !meets_own(o, later))
            return true;
    return false;
}

/* The KV that groups will meet at step `t`, from where it is at step `from`; -1: from its owners. */
static rt_status send_kv(const rotor *o, int64_t from, int64_t t)
{
    for (int32_t m = 0; m < o->n; m++)
        for (int32_t a = 0; a < o->x->lanes; a++)
            for (int32_t c = 0; c < o->x->lanes; c++) {
                const int32_t group = from < 0 ? m : meets(o, m, from), shard = rank_of(o, group, c);
                const int32_t to = t < o->n ? who(o, group, t) : group;
                const int32_t src = from < 0 ? own_buffer(a, c) : kv_buffer(o, from, a, c);
                if (kv_of_use(o, t, shard) || t == o->n)
                    RT_TRY(rt_builder_send(o->ctx, o->b, RT_PAYLOAD_KV, lane_piece(o, RT_SIDE_KV, shard, a),
                                           rank_of(o, m, a), rank_of(o, to, a), src, kv_buffer(o, t, a, c),
                                           RT_PUT));
            }
    return RT_OK;
}

/* The moves of KV that are in flight during step t (-1: before the first). */
static rt_status kv_moves(const rotor *o, int64_t t)
{
    const int64_t w = o->x->window;
    if (o->x->gather) {
        for (int64_t later = o->back ? 0 : 1; later < o->n && t == (o->back ? -1 : 0); later++)
            if (!meets_own(o, later))
                RT_TRY(send_kv(o, -1, later));
        return RT_OK;
    }
    if (t < 0)
        return o->back && o->n > 1 ? send_kv(o, -1, 0) : RT_OK;
    if ((t + 1) % w != 0 && t + 1 < o->n && !meets_own(o, t + 1))
        RT_TRY(send_kv(o, t, t + 1));
    if (t % w == 0 && t + w < o->n && !meets_own(o, t + w))
        RT_TRY(send_kv(o, t, t + w));
    return o->x->extra_hop && !o->back && o->n > 1 && t == o->n - 1 ? send_kv(o, t, o->n) : RT_OK;
}

/* Whether gradients go round each window to where they began it, and from there to the next one: LoongTrain's way,
 * one hop more for every window. */
static bool goes_round(const rotor *o)
{
    return o->backward && !o->back && o->x->window > 1 && o->x->window < o->n && o->need == NULL;
}

/* The hop that ends a window, before step t. */
static rt_status dkv_round(const rotor *o, int64_t t)
{
    RT_TRY(rt_builder_step(o->ctx, o->b));
    for (int32_t m = 0; m < o->n; m++)
        for (int32_t a = 0; a < o->x->lanes; a++)
            for (int32_t c = 0; c < o->x->lanes; c++) {
                const int32_t group = meets(o, m, t - 1), shard = rank_of(o, group, c);
                RT_TRY(rt_builder_send(o->ctx, o->b, RT_PAYLOAD_DKV, lane_piece(o, RT_SIDE_KV, shard, a),
                                       rank_of(o, m, a), rank_of(o, who(o, group, t - o->x->window), a),
                                       travel_buffer(o, 1 + (t - 1) % 2, c), travel_buffer(o, 3, c),
                                       RT_PUT));
            }
    return RT_OK;
}

/* The gradients of step t - 1 go to who computes the next contribution, or home after the last. */
static rt_status dkv_moves(const rotor *o, int64_t t)
{
    const bool round = goes_round(o) && t % o->x->window == 0; /* they are where they began the window */
    for (int32_t m = 0; m < o->n && t > 0; m++)
        for (int32_t a = 0; a < o->x->lanes; a++)
            for (int32_t c = 0; c < o->x->lanes; c++) {
                const int32_t group = meets(o, m, t - 1), shard = rank_of(o, group, c);
                const int64_t first = first_need(o, shard), last = last_need(o, shard);
                const bool home = t == last + 1;
                const int32_t to = home ? group : who(o, group, t);
                if (t - 1 < first || t - 1 > last || (!o->back && last == 0))
                    continue; /* nothing yet, no longer, or it was at home from the start */
                const int32_t at = round ? who(o, group, t - o->x->window) : m;
                RT_TRY(rt_builder_send(o->ctx, o->b, RT_PAYLOAD_DKV, lane_piece(o, RT_SIDE_KV, shard, a),
                                       rank_of(o, at, a), rank_of(o, to, a),
                                       travel_buffer(o, round ? 3 : 1 + (t - 1) % 2, c),
                                       home ? own_buffer(a, c) : travel_buffer(o, 1 + t % 2, c),
                                       home && !o->back ? RT_PUT : RT_ADD));
            }
    return RT_OK;
}

/* Which KV is needed where: at step t by the group that meets it. */
static rt_status need_create(rotor *o)
{
    const int32_t ranks = o->c->l->ranks;
    o->need = rt_calloc(o->ctx, (int64_t)o->n * ranks, sizeof *o->need);
    o->first = rt_alloc(o->ctx, ranks, sizeof *o->first);
    o->last = rt_alloc(o->ctx, ranks, sizeof *o->last);
    if (o->need == NULL || o->first == NULL || o->last == NULL)
        return RT_ERR_NOMEM;
    for (int32_t s = 0; s < ranks; s++) {
        o->first[s] = o->n;
        o->last[s] = -1;
    }
    for (int32_t t = 0; t < o->n; t++)
        for (int32_t s = 0; s < o->n; s++)
            for (int32_t i = 0; i < o->x->lanes * o->x->lanes; i++) {
                const int32_t shard = rank_of(o, s, i / o->x->lanes);
                const rt_piece kv = rt_piece_whole(o->c->p, o->c->l, RT_SIDE_KV, shard);
                const rt_piece q =
                    rt_piece_whole(o->c->p, o->c->l, RT_SIDE_Q, rank_of(o, who(o, s, t), i % o->x->lanes));
                bool *need = &o->need[t * ranks + shard];
                *need = *need || rt_pair_counter_count(o->c, &q, &kv) > 0;
                if (!*need || (o->back && meets_own(o, t)))
                    continue;
                o->first[shard] = t < o->first[shard] ? t : o->first[shard];
                o->last[shard] = t;
            }
    return RT_OK;
}

/* The heads of the others in its group that a lane keeps: no later move has their buffers for its target. */
static rt_status keep(const rotor *o, rt_payload payload)
{
    for (int32_t m = 0; m < o->n; m++)
        for (int32_t a = 0; a < o->x->lanes; a++)
            for (int32_t b = 0; b < o->x->lanes; b++)
                if (a != b)
                    RT_TRY(rt_builder_hold(o->ctx, o->b, payload,
                                           lane_piece(o, rt_payload_side(payload), rank_of(o, m, b), a),
                                           rank_of(o, m, a), own_buffer(a, b)));
    return RT_OK;
}

/* What stayed in a buffer of its step: the partials are joined to that of step 0, on their own rank; gradients go to the
 * owners of their keys, all to all.  In the order in which they were computed. */
static rt_status late_results(const rotor *o)
{
    const rt_payload payload = o->backward ? RT_PAYLOAD_DKV : RT_PAYLOAD_STATE;
    RT_TRY(rt_builder_step(o->ctx, o->b));
    for (int64_t t = 0; t < o->n; t++)
        for (int32_t r = 0; r < o->n; r++) {
            rt_tile x = tile_of(o, t, r, 0, 0, 0); /* also of ranks whose tiles are not wanted */
            const int32_t buf = o->backward ? x.dst_kv : x.dst_q;
            if (buf > 0 && rt_tile_shrink(o->c, &x) > 0)
                RT_TRY(rt_builder_send(o->ctx, o->b, payload, o->backward ? x.kv : x.q, r,
                                       o->backward ? x.kv.shard : r, buf, 0,
                                       o->backward ? RT_ADD : RT_JOIN));
        }
    return RT_OK;
}

static rt_status rotate_steps(const rotor *o)
{
    const bool many = o->x->lanes > 1;
    if (many && o->x->keep) {
        RT_TRY(keep(o, RT_PAYLOAD_Q));
        RT_TRY(keep(o, RT_PAYLOAD_KV));
    }
    /* the exchange before, and where the backward starts with the KV that the forward had last, that KV */
    if (many) {
        RT_TRY(rt_builder_step(o->ctx, o->b));
        if (!(o->backward && o->x->keep)) {
            RT_TRY(exchange(o, RT_PAYLOAD_Q));
            RT_TRY(exchange(o, RT_PAYLOAD_KV));
        }
        if (o->backward)
            RT_TRY(exchange(o, RT_PAYLOAD_DO));
    }
    if (o->back && o->n > 1) {
        RT_TRY(rt_builder_step(o->ctx, o->b));
        RT_TRY(kv_moves(o, -1));
    }
    const bool follows = o->backward && o->n > 1 && !o->x->scatter;
    const int64_t steps = follows && !o->back ? (int64_t)o->n + 1 : o->n;
    for (int64_t t = 0; t < steps; t++) {
        rt_progress(o->ctx, o->backward ? "planning backward" : "planning forward", t, steps);
        if (t > 0 && goes_round(o) && t % o->x->window == 0)
            RT_TRY(dkv_round(o, t));
        RT_TRY(rt_builder_step(o->ctx, o->b));
        if (t < o->n) {
            RT_TRY(compute(o, t));
            RT_TRY(kv_moves(o, t));
        }
        if (follows)
            RT_TRY(dkv_moves(o, t));
    }
    if ((o->backward ? o->x->scatter : o->x->late) && o->n > 1)
        RT_TRY(late_results(o));
    if (many) {
        RT_TRY(rt_builder_step(o->ctx, o->b));
        RT_TRY(exchange(o, o->backward ? RT_PAYLOAD_DQ : RT_PAYLOAD_STATE));
        if (o->backward)
            RT_TRY(exchange(o, RT_PAYLOAD_DKV));
    }
    return RT_OK;
}

static rt_status rotate_pass(rt_context *ctx, rt_builder *b, const rt_pair_counter *c, bool backward,
                             const void *arg)
{
    const rt_rotation *x = arg;
    rotor o = {.ctx = ctx, .b = b, .c = c, .x = x, .n = c->l->ranks / x->lanes, .backward = backward};
    o.back = backward && x->own_last;
    rt_status status = x->needed ? need_create(&o) : RT_OK;
    if (status == RT_OK)
        status = rotate_steps(&o);
    rt_free(o.need);
    rt_free(o.first);
    rt_free(o.last);
    return status;
}

rt_status rt_plan_rotation(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                           const rt_plan_options *o, const rt_rotation *x, rt_plan *out)
{
    return rt_plan_passes(ctx, p, l, o, rotate_pass, x, out);
}
