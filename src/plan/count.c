/* What a pass costs: pairs, operations, bytes and messages per rank, buffers, the critical path. */
#include "plan/grid.h"

#include <stdlib.h>
#include <string.h>

void rt_counters_reset(rt_counters *c)
{
    if (c == NULL)
        return;
    rt_free(c->pairs);
    rt_free(c->flops);
    for (int k = 0; k < RT_PAYLOAD_COUNT; k++)
        rt_free(c->sent[k]);
    rt_free(c->messages);
    rt_free(c->buffers);
    memset(c, 0, sizeof *c);
}

static rt_status counters_alloc(rt_context *ctx, int32_t ranks, rt_counters *c)
{
    c->ranks = ranks;
    c->pairs = rt_calloc(ctx, ranks, sizeof *c->pairs);
    c->flops = rt_calloc(ctx, ranks, sizeof *c->flops);
    c->messages = rt_calloc(ctx, ranks, sizeof *c->messages);
    c->buffers = rt_calloc(ctx, ranks, sizeof *c->buffers);
    bool ok = c->pairs != NULL && c->flops != NULL && c->messages != NULL && c->buffers != NULL;
    for (int k = 0; k < RT_PAYLOAD_COUNT; k++) {
        c->sent[k] = rt_calloc(ctx, ranks, sizeof *c->sent[k]);
        ok = ok && c->sent[k] != NULL;
    }
    return ok ? RT_OK : RT_ERR_NOMEM;
}

/* Bytes of one row (a token of a head) of a payload. */
static double row_bytes(rt_payload payload, const rt_problem *p, const rt_wire_sizes *w)
{
    const double d = (double)p->dim, dv = (double)p->dim_v;
    switch (payload) {
    case RT_PAYLOAD_Q:
        return d * w->kv;
    case RT_PAYLOAD_KV:
        return (d + dv) * w->kv;
    case RT_PAYLOAD_STATE:
        return dv * w->state + 4.0;
    case RT_PAYLOAD_DO: /* with LSE and delta, four bytes each */
        return dv * w->kv + 8.0;
    case RT_PAYLOAD_DQ:
        return d * w->dkv;
    case RT_PAYLOAD_DKV:
        return (d + dv) * w->dkv;
    case RT_PAYLOAD_COUNT:
        break;
    }
    return 0.0;
}

static void work_count(const rt_pass *pass, const rt_problem *p, bool backward, int64_t *step_pairs,
                       rt_counters *c)
{
    const double d = (double)p->dim, dv = (double)p->dim_v;
    const double per_pair = backward ? 2.0 * (3.0 * d + 2.0 * dv) : 2.0 * (d + dv);
    for (int64_t t = 0; t < pass->n_steps; t++) {
        int64_t most = 0;
        for (int64_t i = pass->steps[t].tile0; i < pass->steps[t].tile1; i++) {
            const rt_tile *tile = &pass->tiles[i];
            step_pairs[tile->rank] += tile->pairs * (tile->q.head1 - tile->q.head0);
            most = step_pairs[tile->rank] > most ? step_pairs[tile->rank] : most;
        }
        c->critical_pairs += most;
        for (int64_t i = pass->steps[t].tile0; i < pass->steps[t].tile1; i++) {
            int32_t r = pass->tiles[i].rank;
            c->pairs[r] += step_pairs[r];
            step_pairs[r] = 0;
        }
    }
    int64_t most = 0;
    double total = 0.0;
    for (int32_t r = 0; r < c->ranks; r++) {
        c->flops[r] = (double)c->pairs[r] * per_pair;
        total += (double)c->pairs[r];
        most = c->pairs[r] > most ? c->pairs[r] : most;
    }
    c->max_over_mean = most > 0 ? (double)most * (double)c->ranks / total : 1.0;
}

static void traffic_count(const rt_pass *pass, const rt_problem *p, const rt_wire_sizes *w, rt_counters *c)
{
    for (int64_t i = 0; i < pass->n_moves; i++) {
        const rt_move *m = &pass->moves[i];
        if (m->from == m->to)
            continue;
        int64_t rows = (m->piece.slot1 - m->piece.slot0) * (m->piece.head1 - m->piece.head0) * p->batch;
        c->sent[m->payload][m->from] += (double)rows * row_bytes(m->payload, p, w);
        c->messages[m->from]++;
    }
}

/* A tile's place in the order in which those of one kernel call are neighbours. */
typedef struct {
    int64_t step, tile;
    int32_t rank, call;
} call_place;

static int call_compare(const void *a, const void *b)
{
    const call_place *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    return (x->tile > y->tile) - (x->tile < y->tile);
}

static void calls_sort(const rt_pass *pass, call_place *order)
{
    for (int64_t t = 0; t < pass->n_steps; t++)
        for (int64_t i = pass->steps[t].tile0; i < pass->steps[t].tile1; i++)
            order[i] = (call_place){t, i, pass->tiles[i].rank, pass->tiles[i].call};
    qsort(order, (size_t)pass->n_tiles, sizeof *order, call_compare);
}

/* The largest number of kernel calls that share a query row: its partials. */
static rt_status partials_count(rt_context *ctx, const rt_pass *pass, const rt_problem *p,
                                const rt_layout *l, rt_counters *c)
{
    rt_grid g;
    RT_TRY(rt_grid_create(ctx, pass, p, l, &g));
    rt_status status = RT_ERR_NOMEM;
    struct {
        int64_t calls, last; /* how many, and the number of the last that was counted */
    } *cell = rt_calloc(ctx, g.offset[RT_SIDE_Q][l->ranks], sizeof *cell);
    call_place *order = rt_alloc(ctx, pass->n_tiles, sizeof *order);
    if (cell == NULL || order == NULL)
        goto free_cells;
    calls_sort(pass, order);
    int64_t call = 0;
    for (int64_t k = 0; k < pass->n_tiles; k++) {
        const bool same = k > 0 && order[k].step == order[k - 1].step &&
                          order[k].rank == order[k - 1].rank && order[k].call == order[k - 1].call;
        call += !same;
        const rt_piece *q = &pass->tiles[order[k].tile].q;
        rt_cells cells = rt_grid_cells(&g, q);
        for (int64_t s = cells.s0; s < cells.s1; s++) {
            for (int64_t h = cells.h0; h < cells.h1; h++) {
                const int64_t i = g.offset[RT_SIDE_Q][q->shard] + s * cells.width + h;
                cell[i].calls += cell[i].last != call;
                cell[i].last = call;
                c->max_partials = cell[i].calls > c->max_partials ? cell[i].calls : c->max_partials;
            }
        }
    }
    status = RT_OK;

free_cells:
    rt_free(order);
    rt_free(cell);
    rt_grid_reset(&g);
    return status;
}

/* Which travelling buffers are held.  Q, KV and DO are held from their landing to their last reading:
 * going backward in time, a reading begins the interval and a landing ends it.  Results are held
 * from the first writing until they are moved away: that is seen going forward. */
typedef struct {
    const rt_pass *pass;
    const rt_layout *l;
    const int64_t *first;
    bool *live;     /* per buffer */
    int64_t *stamp; /* per buffer: the last step + 1 that counted it besides the live ones */
    int64_t *count; /* per rank: live buffers */
    int64_t *held;  /* (steps, P) */
} tenancy;

static int64_t tenancy_index(const tenancy *h, rt_payload payload, int32_t rank, int32_t buf)
{
    return h->first[rt_buffer_row(h->l, payload, rank)] + buf;
}

/* Buffer `buf` is in use in step t, besides those that live through it. */
static void tenancy_touch(const tenancy *h, int64_t t, rt_payload payload, int32_t rank, int32_t buf)
{
    const int64_t i = tenancy_index(h, payload, rank, buf);
    if (buf == 0 || h->live[i] || h->stamp[i] == t + 1)
        return;
    h->stamp[i] = t + 1;
    h->held[t * h->l->ranks + rank]++;
}

static void tenancy_set(const tenancy *h, rt_payload payload, int32_t rank, int32_t buf, bool live)
{
    const int64_t i = tenancy_index(h, payload, rank, buf);
    if (buf == 0 || h->live[i] == live)
        return;
    h->live[i] = live;
    h->count[rank] += live ? 1 : -1;
}

static void tenancy_inputs(const tenancy *h, bool backward)
{
    const int32_t ranks = h->l->ranks;
    for (int64_t t = h->pass->n_steps - 1; t >= 0; t--) {
        const rt_step *step = &h->pass->steps[t];
        for (int32_t r = 0; r < ranks; r++)
            h->held[t * ranks + r] += h->count[r];
        for (int64_t i = step->move0; i < step->move1; i++) {
            const rt_move *m = &h->pass->moves[i];
            if (rt_payload_is_result(m->payload))
                continue;
            tenancy_touch(h, t, m->payload, m->to, m->dst_buf);
            tenancy_touch(h, t, m->payload, m->from, m->src_buf);
        }
        for (int64_t i = step->move0; i < step->move1; i++) {
            const rt_move *m = &h->pass->moves[i];
            if (!rt_payload_is_result(m->payload))
                tenancy_set(h, m->payload, m->to, m->dst_buf, false);
        }
        for (int64_t i = step->move0; i < step->move1; i++) {
            const rt_move *m = &h->pass->moves[i];
            if (!rt_payload_is_result(m->payload))
                tenancy_set(h, m->payload, m->from, m->src_buf, true);
        }
        for (int64_t i = step->tile0; i < step->tile1; i++) {
            const rt_tile *tile = &h->pass->tiles[i];
            tenancy_touch(h, t, RT_PAYLOAD_Q, tile->rank, tile->q_buf);
            tenancy_touch(h, t, RT_PAYLOAD_KV, tile->rank, tile->kv_buf);
            tenancy_set(h, RT_PAYLOAD_Q, tile->rank, tile->q_buf, true);
            tenancy_set(h, RT_PAYLOAD_KV, tile->rank, tile->kv_buf, true);
            if (backward) {
                tenancy_touch(h, t, RT_PAYLOAD_DO, tile->rank, tile->q_buf);
                tenancy_set(h, RT_PAYLOAD_DO, tile->rank, tile->q_buf, true);
            }
        }
    }
}

static void tenancy_results(const tenancy *h, bool backward)
{
    const int32_t ranks = h->l->ranks;
    const rt_payload of_q = backward ? RT_PAYLOAD_DQ : RT_PAYLOAD_STATE;
    for (int64_t t = 0; t < h->pass->n_steps; t++) {
        const rt_step *step = &h->pass->steps[t];
        for (int32_t r = 0; r < ranks; r++)
            h->held[t * ranks + r] += h->count[r];
        for (int64_t i = step->move0; i < step->move1; i++) {
            const rt_move *m = &h->pass->moves[i];
            if (!rt_payload_is_result(m->payload))
                continue;
            tenancy_touch(h, t, m->payload, m->from, m->src_buf);
            tenancy_touch(h, t, m->payload, m->to, m->dst_buf);
        }
        for (int64_t i = step->move0; i < step->move1; i++) {
            const rt_move *m = &h->pass->moves[i];
            if (rt_payload_is_result(m->payload))
                tenancy_set(h, m->payload, m->from, m->src_buf, false);
        }
        for (int64_t i = step->tile0; i < step->tile1; i++) {
            const rt_tile *tile = &h->pass->tiles[i];
            tenancy_touch(h, t, of_q, tile->rank, tile->dst_q);
            tenancy_set(h, of_q, tile->rank, tile->dst_q, true);
            if (backward) {
                tenancy_touch(h, t, RT_PAYLOAD_DKV, tile->rank, tile->dst_kv);
                tenancy_set(h, RT_PAYLOAD_DKV, tile->rank, tile->dst_kv, true);
            }
        }
        for (int64_t i = step->move0; i < step->move1; i++) {
            const rt_move *m = &h->pass->moves[i];
            if (rt_payload_is_result(m->payload))
                tenancy_set(h, m->payload, m->to, m->dst_buf, true);
        }
    }
}

static rt_status buffers_count(rt_context *ctx, const rt_pass *pass, const rt_layout *l, bool backward,
                               rt_counters *c)
{
    int64_t *first;
    RT_TRY(rt_buffer_table_create(ctx, pass, l, &first));
    const int64_t n = first[(int64_t)RT_PAYLOAD_COUNT * l->ranks];
    rt_status status = RT_ERR_NOMEM;
    tenancy h = {pass, l, first, NULL, NULL, NULL, NULL};
    h.live = rt_calloc(ctx, n, sizeof *h.live);
    h.stamp = rt_calloc(ctx, n, sizeof *h.stamp);
    h.count = rt_calloc(ctx, l->ranks, sizeof *h.count);
    h.held = rt_calloc(ctx, pass->n_steps, (size_t)l->ranks * sizeof *h.held);
    if (h.live == NULL || h.stamp == NULL || h.count == NULL || h.held == NULL)
        goto free_tenancy;
    tenancy_inputs(&h, backward);
    memset(h.live, 0, (size_t)n * sizeof *h.live);
    memset(h.count, 0, (size_t)l->ranks * sizeof *h.count);
    tenancy_results(&h, backward);
    for (int64_t i = 0; i < pass->n_steps * l->ranks; i++) {
        int64_t *most = &c->buffers[i % l->ranks];
        *most = h.held[i] > *most ? h.held[i] : *most;
    }
    status = RT_OK;

free_tenancy:
    rt_free(h.live);
    rt_free(h.stamp);
    rt_free(h.count);
    rt_free(h.held);
    rt_free(first);
    return status;
}

rt_status rt_plan_count(rt_context *ctx, const rt_pass *pass, const rt_problem *p, const rt_layout *l,
                        const rt_wire_sizes *w, bool backward, rt_counters *out)
{
    RT_TRY(rt_pass_structure_check(ctx, pass, p, l, backward));
    rt_counters c;
    memset(&c, 0, sizeof c);
    int64_t *step_pairs = NULL;
    rt_status status = counters_alloc(ctx, l->ranks, &c);
    if (status != RT_OK)
        goto reset_counters;
    step_pairs = rt_calloc(ctx, l->ranks, sizeof *step_pairs);
    if (step_pairs == NULL) {
        status = RT_ERR_NOMEM;
        goto reset_counters;
    }
    c.steps = pass->n_steps;
    work_count(pass, p, backward, step_pairs, &c);
    rt_free(step_pairs);
    traffic_count(pass, p, w, &c);
    status = partials_count(ctx, pass, p, l, &c);
    if (status != RT_OK)
        goto reset_counters;
    status = buffers_count(ctx, pass, l, backward, &c);
    if (status != RT_OK)
        goto reset_counters;
    *out = c;
    return RT_OK;

reset_counters:
    rt_counters_reset(&c);
    return status;
}
