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
    rt_free(c->elements);
    rt_free(c->held);
    rt_free(c->step_pairs);
    memset(c, 0, sizeof *c);
}

static rt_status counters_alloc(rt_context *ctx, int64_t steps, int32_t ranks, rt_counters *c)
{
    c->ranks = ranks;
    c->steps = steps;
    c->elements = rt_calloc(ctx, ranks, sizeof *c->elements);
    c->held = rt_calloc(ctx, ranks, sizeof *c->held);
    c->step_pairs = rt_calloc(ctx, steps, (size_t)ranks * sizeof *c->step_pairs);
    c->pairs = rt_calloc(ctx, ranks, sizeof *c->pairs);
    c->flops = rt_calloc(ctx, ranks, sizeof *c->flops);
    c->messages = rt_calloc(ctx, ranks, sizeof *c->messages);
    c->buffers = rt_calloc(ctx, ranks, sizeof *c->buffers);
    bool ok = c->pairs != NULL && c->flops != NULL && c->messages != NULL && c->buffers != NULL &&
              c->elements != NULL && c->held != NULL && c->step_pairs != NULL;
    for (int k = 0; k < RT_PAYLOAD_COUNT; k++) {
        c->sent[k] = rt_calloc(ctx, ranks, sizeof *c->sent[k]);
        ok = ok && c->sent[k] != NULL;
    }
    return ok ? RT_OK : RT_ERR_NOMEM;
}

double rt_plan_row_bytes(rt_payload payload, const rt_problem *p, const rt_wire_sizes *w)
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

double rt_plan_pair_flops(const rt_problem *p, bool backward)
{
    const double d = (double)p->dim, dv = (double)p->dim_v;
    return backward ? 2.0 * (3.0 * d + 2.0 * dv) : 2.0 * (d + dv);
}

static void work_count(const rt_pass *pass, const rt_problem *p, bool backward, rt_counters *c)
{
    const double per_pair = rt_plan_pair_flops(p, backward);
    for (int64_t t = 0; t < pass->n_steps; t++) {
        int64_t most = 0, *step = c->step_pairs + t * c->ranks;
        int32_t working = 0;
        for (int64_t i = pass->steps[t].tile0; i < pass->steps[t].tile1; i++) {
            const rt_tile *tile = &pass->tiles[i];
            step[tile->rank] += tile->pairs * (tile->q.head1 - tile->q.head0);
        }
        for (int32_t r = 0; r < c->ranks; r++) {
            c->pairs[r] += step[r];
            working += step[r] > 0;
            most = step[r] > most ? step[r] : most;
        }
        c->critical_pairs += most;
        c->slots += working > 0 ? c->ranks : 0;
        c->idle_slots += working > 0 ? c->ranks - working : 0;
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

static double move_bytes(const rt_move *m, const rt_problem *p, const rt_wire_sizes *w)
{
    const int64_t rows = (m->piece.slot1 - m->piece.slot0) * (m->piece.head1 - m->piece.head0) * p->batch;
    return (double)rows * rt_plan_row_bytes(m->payload, p, w);
}

static void traffic_count(const rt_pass *pass, const rt_problem *p, const rt_wire_sizes *w, rt_counters *c)
{
    for (int64_t i = 0; i < pass->n_moves; i++) {
        const rt_move *m = &pass->moves[i];
        if (m->from == m->to)
            continue;
        c->sent[m->payload][m->from] += move_bytes(m, p, w);
        c->messages[m->from]++;
    }
}

/* Elements of what stays from the forward to the backward. */
static void held_count(const rt_pass *pass, const rt_problem *p, rt_counters *c)
{
    for (int64_t i = 0; i < pass->n_held; i++) {
        const rt_held *x = &pass->held[i];
        const int64_t rows =
            (x->piece.slot1 - x->piece.slot0) * (x->piece.head1 - x->piece.head0) * p->batch;
        c->held[x->rank] += rows * (x->payload == RT_PAYLOAD_KV ? p->dim + p->dim_v : p->dim);
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

rt_status rt_plan_sent_across(rt_context *ctx, const rt_pass *pass, const rt_problem *p, int32_t ranks,
                              const rt_wire_sizes *w, int32_t node, double *across)
{
    if (node < 1)
        return rt_fail(ctx, RT_ERR_ARG, "ranks of a node is %d; at least 1 is needed", (int)node);
    memset(across, 0, (size_t)ranks * sizeof *across);
    for (int64_t i = 0; i < pass->n_moves; i++)
        if (pass->moves[i].from / node != pass->moves[i].to / node)
            across[pass->moves[i].from] += move_bytes(&pass->moves[i], p, w);
    return RT_OK;
}

rt_status rt_plan_count(rt_context *ctx, const rt_pass *pass, const rt_problem *p, const rt_layout *l,
                        const rt_wire_sizes *w, bool backward, rt_counters *out)
{
    RT_TRY(rt_pass_structure_check(ctx, pass, p, l, backward));
    rt_counters c;
    memset(&c, 0, sizeof c);
    rt_status status = counters_alloc(ctx, pass->n_steps, l->ranks, &c);
    if (status != RT_OK)
        goto reset_counters;
    work_count(pass, p, backward, &c);
    traffic_count(pass, p, w, &c);
    held_count(pass, p, &c);
    status = partials_count(ctx, pass, p, l, &c);
    if (status != RT_OK)
        goto reset_counters;
    status = rt_peak_count(ctx, pass, p, l, backward, c.buffers, c.elements);
    if (status != RT_OK)
        goto reset_counters;
    *out = c;
    return RT_OK;

reset_counters:
    rt_counters_reset(&c);
    return status;
}
