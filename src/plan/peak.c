/* What travels and is held besides the ranks' own shards: how many buffers, and how many elements, at most.
 *
 * Row by row (cell by cell of the grid): Q, KV and DO are held from their landing to their last reading: going
 * backward in time, a reading begins the interval and a landing ends it; what stays from the forward to the backward
 * is read after the one and landed before the other.  Results are held from the first
 * writing until they are moved away: that is seen going forward. */
#include "plan/grid.h"

#include <string.h>

typedef struct {
    int32_t stamp; /* the last step + 1 that counted it besides the live ones */
    bool live;
} cell;

typedef struct {
    cell *cells;    /* room for the largest shard of the side; NULL until first used */
    int64_t n_live; /* live cells */
    int64_t stamp;  /* the last step + 1 that counted the buffer besides the live ones */
} tenant;

typedef struct {
    int64_t buffers, elements;
} amount;

typedef struct {
    rt_context *ctx;
    const rt_pass *pass;
    const rt_problem *p;
    const rt_layout *l;
    rt_grid grid;
    int64_t *rows[2]; /* rows (slots times heads) of each cell of a side, at the shard's offset */
    int64_t *first;   /* where the buffers of a payload of a rank begin */
    tenant *tenants;
    amount *live; /* per rank */
    amount *held; /* (steps, P) */
    bool backward;
} tenancy;

/* Elements of a row: a STATE has its LSE with it, a DO its LSE and delta. */
static int64_t row_elements(const tenancy *h, rt_payload payload)
{
    const int64_t d = h->p->dim, dv = h->p->dim_v;
    const int64_t each[RT_PAYLOAD_COUNT] = {d, d + dv, dv + 1, dv + 2, d, d + dv};
    return each[payload] * h->p->batch;
}

typedef enum { TOUCH, BEGIN, END } event;

/* The rows of a piece in a travelling buffer are in use in step t (TOUCH), or are held from now on, or no longer. */
static rt_status note(const tenancy *h, event what, int64_t t, rt_payload payload, int32_t rank,
                      int32_t buf, const rt_piece *piece)
{
    if (buf == 0)
        return RT_OK;
    const rt_side side = piece->side;
    const int64_t *rows = h->rows[side] + h->grid.offset[side][piece->shard],
                  width = row_elements(h, payload);
    const rt_cells c = rt_grid_cells(&h->grid, piece);
    tenant *x = &h->tenants[h->first[rt_buffer_row(h->l, payload, rank)] + buf];
    amount *live = &h->live[rank], *held = &h->held[t * h->l->ranks + rank];
    if (x->cells == NULL) {
        x->cells = rt_calloc(h->ctx, h->grid.max_cells[side], sizeof *x->cells);
        if (x->cells == NULL)
            return RT_ERR_NOMEM;
    }
    if (what == TOUCH && x->n_live == 0 && x->stamp != t + 1) {
        x->stamp = t + 1;
        held->buffers++;
    }
    const int64_t before = x->n_live;
    for (int64_t s = c.s0; s < c.s1; s++)
        for (int64_t i = s * c.width + c.h0; i < s * c.width + c.h1; i++) {
            cell *at = &x->cells[i];
            if (what == TOUCH) {
                held->elements += !at->live && at->stamp != t + 1 ? rows[i] * width : 0;
                at->stamp = (int32_t)t + 1;
            } else if (at->live != (what == BEGIN)) {
                at->live = what == BEGIN;
                x->n_live += at->live ? 1 : -1;
                live->elements += at->live ? rows[i] * width : -rows[i] * width;
            }
        }
    live->buffers += (x->n_live > 0) - (before > 0);
    return RT_OK;
}

static rt_status note_source(const tenancy *h, event what, int64_t t, const rt_move *m)
{
    return note(h, what, t, m->payload, m->from, m->src_buf, &m->piece);
}

static rt_status note_landing(const tenancy *h, event what, int64_t t, const rt_move *m)
{
    return note(h, what, t, m->payload, m->to, m->dst_buf, &m->piece);
}

static rt_status note_reading(const tenancy *h, event what, int64_t t, const rt_tile *x)
{
    RT_TRY(note(h, what, t, RT_PAYLOAD_Q, x->rank, x->q_buf, &x->q));
    RT_TRY(note(h, what, t, RT_PAYLOAD_KV, x->rank, x->kv_buf, &x->kv));
    return h->backward ? note(h, what, t, RT_PAYLOAD_DO, x->rank, x->q_buf, &x->q) : RT_OK;
}

static rt_status note_writing(const tenancy *h, event what, int64_t t, const rt_tile *x)
{
    RT_TRY(note(h, what, t, h->backward ? RT_PAYLOAD_DQ : RT_PAYLOAD_STATE, x->rank, x->dst_q, &x->q));
    return h->backward ? note(h, what, t, RT_PAYLOAD_DKV, x->rank, x->dst_kv, &x->kv) : RT_OK;
}

/* Before anything else of a step: what lives through it. */
static void count_live(const tenancy *h, int64_t t)
{
    for (int32_t r = 0; r < h->l->ranks; r++) {
        h->held[t * h->l->ranks + r].buffers += h->live[r].buffers;
        h->held[t * h->l->ranks + r].elements += h->live[r].elements;
    }
}

/* What stays for the backward is held when the forward ends, and when the backward begins. */
static rt_status note_kept(const tenancy *h, event what, int64_t t)
{
    for (int64_t i = 0; i < h->pass->n_held; i++) {
        const rt_held *x = &h->pass->held[i];
        RT_TRY(note(h, what, t, x->payload, x->rank, x->buf, &x->piece));
    }
    return RT_OK;
}

static rt_status inputs(const tenancy *h)
{
    if (h->pass->n_steps > 0 && !h->backward)
        RT_TRY(note_kept(h, BEGIN, h->pass->n_steps - 1));
    for (int64_t t = h->pass->n_steps - 1; t >= 0; t--) {
        const rt_step *step = &h->pass->steps[t];
        const rt_move *moves = h->pass->moves;
        const rt_tile *tiles = h->pass->tiles;
        count_live(h, t);
        for (int64_t i = step->move0; i < step->move1; i++)
            if (!rt_payload_is_result(moves[i].payload)) {
                RT_TRY(note_landing(h, TOUCH, t, &moves[i]));
                RT_TRY(note_source(h, TOUCH, t, &moves[i]));
            }
        for (int64_t i = step->tile0; i < step->tile1; i++)
            RT_TRY(note_reading(h, TOUCH, t, &tiles[i]));
        if (t == 0 && h->backward)
            RT_TRY(note_kept(h, TOUCH, t));
        for (int64_t i = step->move0; i < step->move1; i++)
            if (!rt_payload_is_result(moves[i].payload))
                RT_TRY(note_landing(h, END, t, &moves[i]));
        for (int64_t i = step->move0; i < step->move1; i++)
            if (!rt_payload_is_result(moves[i].payload))
                RT_TRY(note_source(h, BEGIN, t, &moves[i]));
        for (int64_t i = step->tile0; i < step->tile1; i++)
            RT_TRY(note_reading(h, BEGIN, t, &tiles[i]));
    }
    return RT_OK;
}

static rt_status results(const tenancy *h)
{
    for (int64_t t = 0; t < h->pass->n_steps; t++) {
        const rt_step *step = &h->pass->steps[t];
        const rt_move *moves = h->pass->moves;
        const rt_tile *tiles = h->pass->tiles;
        count_live(h, t);
        for (int64_t i = step->move0; i < step->move1; i++)
            if (rt_payload_is_result(moves[i].payload)) {
                RT_TRY(note_source(h, TOUCH, t, &moves[i]));
                RT_TRY(note_landing(h, TOUCH, t, &moves[i]));
            }
        for (int64_t i = step->tile0; i < step->tile1; i++)
            RT_TRY(note_writing(h, TOUCH, t, &tiles[i]));
        for (int64_t i = step->move0; i < step->move1; i++)
            if (rt_payload_is_result(moves[i].payload))
                RT_TRY(note_source(h, END, t, &moves[i]));
        for (int64_t i = step->tile0; i < step->tile1; i++)
            RT_TRY(note_writing(h, BEGIN, t, &tiles[i]));
        for (int64_t i = step->move0; i < step->move1; i++)
            if (rt_payload_is_result(moves[i].payload))
                RT_TRY(note_landing(h, BEGIN, t, &moves[i]));
    }
    return RT_OK;
}

static rt_status tenancy_create(tenancy *h)
{
    RT_TRY(rt_grid_create(h->ctx, h->pass, h->p, h->l, &h->grid));
    for (int s = 0; s < 2; s++)
        RT_TRY(rt_grid_rows_create(h->ctx, &h->grid, (rt_side)s, &h->rows[s]));
    RT_TRY(rt_buffer_table_create(h->ctx, h->pass, h->l, &h->first));
    h->tenants = rt_calloc(h->ctx, h->first[(int64_t)RT_PAYLOAD_COUNT * h->l->ranks], sizeof *h->tenants);
    h->live = rt_calloc(h->ctx, h->l->ranks, sizeof *h->live);
    h->held = rt_calloc(h->ctx, h->pass->n_steps, (size_t)h->l->ranks * sizeof *h->held);
    return h->tenants != NULL && h->live != NULL && h->held != NULL ? RT_OK : RT_ERR_NOMEM;
}

rt_status rt_peak_count(rt_context *ctx, const rt_pass *pass, const rt_problem *p, const rt_layout *l,
                        bool backward, int64_t *buffers, int64_t *elements)
{
    tenancy h = {.ctx = ctx, .pass = pass, .p = p, .l = l, .backward = backward};
    rt_status status = tenancy_create(&h);
    if (status == RT_OK)
        status = inputs(&h);
    if (status == RT_OK) {
        memset(h.live, 0, (size_t)l->ranks * sizeof *h.live); /* results have buffers of their own */
        status = results(&h);
    }
    for (int64_t i = 0; i < pass->n_steps * l->ranks && status == RT_OK; i++) {
        const int64_t r = i % l->ranks;
        buffers[r] = h.held[i].buffers > buffers[r] ? h.held[i].buffers : buffers[r];
        elements[r] = h.held[i].elements > elements[r] ? h.held[i].elements : elements[r];
    }
    if (h.tenants != NULL)
        for (int64_t i = 0; i < h.first[(int64_t)RT_PAYLOAD_COUNT * l->ranks]; i++)
            rt_free(h.tenants[i].cells);
    rt_free(h.tenants);
    rt_free(h.first);
    rt_free(h.live);
    rt_free(h.held);
    rt_free(h.rows[0]);
    rt_free(h.rows[1]);
    rt_grid_reset(&h.grid);
    return status;
}
