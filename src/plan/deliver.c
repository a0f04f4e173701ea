/* The proof of delivery: the pass is executed on symbols.  For each cell of each buffer it is known how
 * many tiles' contributions are in it, and the sum modulo 2^64 of their hashes: a set in 16 bytes, whatever
 * order it was gathered in.  A set that lost, doubled or mixed up a contribution differs from the
 * expected one in count, or in hash with a chance of 2^-64. */
#include "plan/grid.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    uint64_t sum;
    int32_t count;  /* contributions; for Q, KV and DO: 1 where the rows are there */
    int32_t landed; /* 2 * step + 2 + (put) of the last landing */
} cell;

/* Stamps are step + 1, 0 for never. */
typedef struct {
    cell *cells;   /* room for the largest shard of the side; NULL until first used */
    int64_t held;  /* cells with a count */
    int32_t shard; /* whose rows these are; -1 when nothing is held */
    int32_t sent, read, written, landed;
} buffer;

typedef struct {
    rt_context *ctx;
    const rt_pass *pass;
    const rt_layout *l;
    const char *name;
    bool backward;
    rt_grid grid;
    int64_t *first; /* (payload, P) + 1: where the buffers of a payload of a rank begin */
    buffer *buffers;
    cell *expected[2]; /* what the home of a result on this side must hold */
    cell *flight;      /* cells of the results in flight, move after move */
    int64_t step;
} symbolic;

static uint64_t tile_hash(int64_t tile)
{
    uint64_t z = ((uint64_t)tile + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static buffer *buffer_get(const symbolic *s, rt_payload payload, int32_t rank, int32_t buf)
{
    return &s->buffers[s->first[rt_buffer_row(s->l, payload, rank)] + buf];
}

static rt_status buffer_open(const symbolic *s, rt_payload payload, buffer *b)
{
    if (b->cells == NULL)
        b->cells = rt_calloc(s->ctx, s->grid.max_cells[rt_payload_side(payload)], sizeof *b->cells);
    return b->cells != NULL ? RT_OK : RT_ERR_NOMEM;
}

/* Run BODY for each cell index `i` of `c`. */
#define FOR_CELLS(c, i)                                                                                    \
    for (int64_t s_ = (c).s0; s_ < (c).s1; s_++)                                                           \
        for (int64_t i = s_ * (c).width + (c).h0; i < s_ * (c).width + (c).h1; i++)

static void cells_clear(const symbolic *s, rt_payload payload, buffer *b)
{
    memset(b->cells, 0, (size_t)s->grid.max_cells[rt_payload_side(payload)] * sizeof *b->cells);
    b->held = 0;
    b->shard = -1;
}

/* "it holds nothing" / "it holds rows of shard 3" / "it lacks some of these rows" */
static const char *holding_text(char text[64], const buffer *b, int32_t wanted)
{
    if (b->held == 0)
        (void)snprintf(text, 64, "it holds nothing");
    else if (b->shard != wanted)
        (void)snprintf(text, 64, "it holds shard %d", (int)b->shard);
    else
        (void)snprintf(text, 64, "it holds only some of these rows");
    return text;
}

static rt_status stale_fail(const symbolic *s, int32_t rank, const char *what, int64_t index,
                            rt_payload payload, const rt_piece *piece, int32_t buf, const buffer *b)
{
    char text[RT_PIECE_TEXT], holding[64];
    return rt_fail(s->ctx, RT_ERR_FORMAT,
                   "%s step %lld rank %d: %s %lld reads stale data: it needs %s in buffer %d, %s", s->name,
                   (long long)s->step, (int)rank, what, (long long)index,
                   rt_piece_text(text, payload, piece), (int)buf, holding_text(holding, b, piece->shard));
}

static bool buffer_has(const symbolic *s, const buffer *b, const rt_piece *piece)
{
    if (b->held == 0 || b->shard != piece->shard)
        return false;
    rt_cells c = rt_grid_cells(&s->grid, piece);
    FOR_CELLS(c, i)
    {
        if (b->cells[i].count == 0)
            return false;
    }
    return true;
}

static int64_t cells_count(rt_cells c)
{
    return (c.s1 - c.s0) * (c.h1 - c.h0);
}

/* A move reads its source as it stands at the start of the step: results into the flight list. */
static rt_status move_read(const symbolic *s, int64_t index, cell *flight)
{
    const rt_move *m = &s->pass->moves[index];
    buffer *b = buffer_get(s, m->payload, m->from, m->src_buf);
    b->sent = (int32_t)s->step + 1;
    if (!rt_payload_is_result(m->payload)) {
        if (!buffer_has(s, b, &m->piece))
            return stale_fail(s, m->from, "move", index, m->payload, &m->piece, m->src_buf, b);
        return RT_OK;
    }
    if (b->held > 0 && b->shard != m->piece.shard)
        return stale_fail(s, m->from, "move", index, m->payload, &m->piece, m->src_buf, b);
    rt_cells c = rt_grid_cells(&s->grid, &m->piece);
    int64_t n = 0;
    FOR_CELLS(c, i)
    {
        flight[n++] = b->held > 0 ? b->cells[i] : (cell){0, 0, 0};
    }
    return RT_OK;
}

/* A result that was sent away has left its source. */
static void move_leave(const symbolic *s, const rt_move *m)
{
    buffer *b = buffer_get(s, m->payload, m->from, m->src_buf);
    if (b->held == 0 || !rt_payload_is_result(m->payload))
        return;
    rt_cells c = rt_grid_cells(&s->grid, &m->piece);
    FOR_CELLS(c, i)
    {
        b->held -= b->cells[i].count > 0;
        b->cells[i] = (cell){0, 0, 0};
    }
    if (b->held == 0)
        b->shard = -1;
}

static rt_status tile_read(const symbolic *s, int64_t index, rt_payload payload)
{
    const rt_tile *t = &s->pass->tiles[index];
    const bool kv = payload == RT_PAYLOAD_KV;
    const rt_piece *piece = kv ? &t->kv : &t->q;
    const int32_t buf = kv ? t->kv_buf : t->q_buf;
    buffer *b = buffer_get(s, payload, t->rank, buf);
    b->read = (int32_t)s->step + 1;
    if (!buffer_has(s, b, piece))
        return stale_fail(s, t->rank, "tile", index, payload, piece, buf, b);
    return RT_OK;
}

static rt_status tile_write(const symbolic *s, int64_t index, rt_payload payload)
{
    const rt_tile *t = &s->pass->tiles[index];
    const bool kv = payload == RT_PAYLOAD_DKV;
    const rt_piece *piece = kv ? &t->kv : &t->q;
    const int32_t buf = kv ? t->dst_kv : t->dst_q;
    buffer *b = buffer_get(s, payload, t->rank, buf);
    char text[RT_PIECE_TEXT];
    RT_TRY(buffer_open(s, payload, b));
    if (b->sent == s->step + 1)
        return rt_fail(
            s->ctx, RT_ERR_FORMAT,
            "%s step %lld rank %d: tile %lld writes %s to buffer %d while that buffer is in flight",
            s->name, (long long)s->step, (int)t->rank, (long long)index,
            rt_piece_text(text, payload, piece), (int)buf);
    if (b->held > 0 && b->shard != piece->shard)
        return rt_fail(s->ctx, RT_ERR_FORMAT,
                       "%s step %lld rank %d: tile %lld writes %s to buffer %d over shard %d's, which was "
                       "not moved away",
                       s->name, (long long)s->step, (int)t->rank, (long long)index,
                       rt_piece_text(text, payload, piece), (int)buf, (int)b->shard);
    b->written = (int32_t)s->step + 1;
    b->shard = piece->shard;
    rt_cells c = rt_grid_cells(&s->grid, piece);
    FOR_CELLS(c, i)
    {
        b->held += b->cells[i].count == 0;
        b->cells[i].count++;
        b->cells[i].sum += tile_hash(index);
    }
    return RT_OK;
}

static rt_status landing_fail(const symbolic *s, int64_t index, const char *damage)
{
    const rt_move *m = &s->pass->moves[index];
    char text[RT_PIECE_TEXT];
    return rt_fail(s->ctx, RT_ERR_FORMAT,
                   "%s step %lld rank %d: move %lld (%s, from rank %d, %s) lands on buffer %d %s", s->name,
                   (long long)s->step, (int)m->to, (long long)index,
                   rt_piece_text(text, m->payload, &m->piece), (int)m->from, rt_how_name(m->how),
                   (int)m->dst_buf, damage);
}

/* What a landing must not destroy. */
static rt_status landing_check(const symbolic *s, int64_t index, buffer *b)
{
    const rt_move *m = &s->pass->moves[index];
    const bool result = rt_payload_is_result(m->payload);
    const int32_t now = (int32_t)s->step + 1;
    char damage[96];
    if (b->sent == now)
        return landing_fail(s, index, "while that buffer is in flight");
    if (b->read == now)
        return landing_fail(s, index, "while a tile reads it");
    if (m->how == RT_PUT && b->written == now)
        return landing_fail(s, index, "over what a tile of the same step wrote");
    if (b->landed == now && b->held > 0 && b->shard != m->piece.shard)
        return landing_fail(s, index, "on which another move landed in the same step");
    if (result && b->held > 0 && b->shard != m->piece.shard) {
        (void)snprintf(damage, sizeof damage,
                       m->how == RT_PUT ? "over shard %d's, which was not moved away"
                                        : "on the wrong piece: it holds shard %d",
                       (int)b->shard);
        return landing_fail(s, index, damage);
    }
    if (b->held == 0 || b->shard != m->piece.shard)
        return RT_OK;
    rt_cells c = rt_grid_cells(&s->grid, &m->piece);
    FOR_CELLS(c, i)
    {
        /* several may be added in one step, in the order of the listing; a put stands alone */
        if (b->cells[i].landed / 2 == now && (m->how == RT_PUT || b->cells[i].landed % 2 == 1))
            return landing_fail(s, index, "on which another move landed in the same step");
        if (result && m->how == RT_PUT && b->cells[i].count > 0)
            return landing_fail(s, index, "over contributions that are already there");
    }
    return RT_OK;
}

static rt_status move_land(const symbolic *s, int64_t index, const cell *flight)
{
    const rt_move *m = &s->pass->moves[index];
    const bool result = rt_payload_is_result(m->payload);
    buffer *b = buffer_get(s, m->payload, m->to, m->dst_buf);
    RT_TRY(buffer_open(s, m->payload, b));
    RT_TRY(landing_check(s, index, b));
    if (b->held == 0 || b->shard != m->piece.shard)
        cells_clear(s, m->payload, b);
    b->shard = m->piece.shard;
    b->landed = (int32_t)s->step + 1;
    rt_cells c = rt_grid_cells(&s->grid, &m->piece);
    int64_t n = 0;
    FOR_CELLS(c, i)
    {
        cell arriving = result ? flight[n++] : (cell){0, 1, 0};
        b->held -= b->cells[i].count > 0;
        b->cells[i].count = m->how == RT_PUT ? arriving.count : b->cells[i].count + arriving.count;
        b->cells[i].sum = m->how == RT_PUT ? arriving.sum : b->cells[i].sum + arriving.sum;
        b->cells[i].landed = 2 * ((int32_t)s->step + 1) + (m->how == RT_PUT);
        b->held += b->cells[i].count > 0;
    }
    return RT_OK;
}

static rt_status step_execute(const symbolic *s)
{
    const rt_step *step = &s->pass->steps[s->step];
    cell *flight = s->flight;
    for (int64_t i = step->move0; i < step->move1; i++) {
        RT_TRY(move_read(s, i, flight));
        flight += cells_count(rt_grid_cells(&s->grid, &s->pass->moves[i].piece));
    }
    for (int64_t i = step->move0; i < step->move1; i++)
        move_leave(s, &s->pass->moves[i]);
    for (int64_t i = step->tile0; i < step->tile1; i++) {
        RT_TRY(tile_read(s, i, RT_PAYLOAD_Q));
        RT_TRY(tile_read(s, i, RT_PAYLOAD_KV));
        if (s->backward) {
            RT_TRY(tile_read(s, i, RT_PAYLOAD_DO));
            RT_TRY(tile_write(s, i, RT_PAYLOAD_DQ));
            RT_TRY(tile_write(s, i, RT_PAYLOAD_DKV));
        } else {
            RT_TRY(tile_write(s, i, RT_PAYLOAD_STATE));
        }
    }
    flight = s->flight;
    for (int64_t i = step->move0; i < step->move1; i++) {
        RT_TRY(move_land(s, i, flight));
        flight += cells_count(rt_grid_cells(&s->grid, &s->pass->moves[i].piece));
    }
    return RT_OK;
}

/* Where else contributions to a cell ended up: " (2 are left in buffer 1 of rank 3)". */
static void leftover_text(const symbolic *s, rt_payload payload, int32_t shard, int64_t i, char text[80])
{
    text[0] = '\0';
    for (int32_t r = 0; r < s->l->ranks; r++) {
        const int64_t row = rt_buffer_row(s->l, payload, r), n = s->first[row + 1] - s->first[row];
        for (int64_t buf = 1; buf < n; buf++) {
            const buffer *b = buffer_get(s, payload, r, (int32_t)buf);
            if (b->held > 0 && b->shard == shard && b->cells[i].count > 0) {
                (void)snprintf(text, 80, "; %d are left in buffer %lld of rank %d", (int)b->cells[i].count,
                               (long long)buf, (int)r);
                return;
            }
        }
    }
}

static rt_status home_check(const symbolic *s, rt_payload payload, int32_t r)
{
    const rt_side side = rt_payload_side(payload);
    const buffer *b = buffer_get(s, payload, r, 0);
    const cell *want = s->expected[side] + s->grid.offset[side][r];
    const int64_t n = s->grid.offset[side][r + 1] - s->grid.offset[side][r];
    for (int64_t i = 0; i < n; i++) {
        cell got = b->held > 0 ? b->cells[i] : (cell){0, 0, 0};
        if (got.count == want[i].count && got.sum == want[i].sum)
            continue;
        rt_piece piece = rt_grid_piece(&s->grid, side, r, i);
        char text[RT_PIECE_TEXT], left[80];
        leftover_text(s, payload, r, i, left);
        if (got.count == 0)
            return rt_fail(s->ctx, RT_ERR_FORMAT,
                           "%s step %lld (the last) rank %d: %s never came home: 0 of %d contributions are "
                           "in buffer 0%s",
                           s->name, (long long)s->pass->n_steps - 1, (int)r,
                           rt_piece_text(text, payload, &piece), (int)want[i].count, left);
        return rt_fail(s->ctx, RT_ERR_FORMAT,
                       "%s step %lld (the last) rank %d: %s is not complete at home: %d contributions, not "
                       "the %d of all "
                       "its tiles%s",
                       s->name, (long long)s->pass->n_steps - 1, (int)r,
                       rt_piece_text(text, payload, &piece), (int)got.count, (int)want[i].count, left);
    }
    return RT_OK;
}

static rt_status buffers_create(symbolic *s)
{
    RT_TRY(rt_buffer_table_create(s->ctx, s->pass, s->l, &s->first));
    const int64_t n = s->first[(int64_t)RT_PAYLOAD_COUNT * s->l->ranks];
    s->buffers = rt_calloc(s->ctx, n, sizeof *s->buffers);
    if (s->buffers == NULL)
        return RT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++)
        s->buffers[i].shard = -1;
    return RT_OK;
}

/* Before the pass, each rank has its own Q, KV (and DO) at home. */
static rt_status homes_fill(const symbolic *s)
{
    static const rt_payload inputs[] = {RT_PAYLOAD_Q, RT_PAYLOAD_KV, RT_PAYLOAD_DO};
    for (int k = 0; k < (s->backward ? 3 : 2); k++) {
        const rt_side side = rt_payload_side(inputs[k]);
        for (int32_t r = 0; r < s->l->ranks; r++) {
            if (rt_layout_count(s->l, side, r) == 0)
                continue;
            buffer *b = buffer_get(s, inputs[k], r, 0);
            RT_TRY(buffer_open(s, inputs[k], b));
            b->shard = r;
            b->held = s->grid.offset[side][r + 1] - s->grid.offset[side][r];
            for (int64_t i = 0; i < b->held; i++)
                b->cells[i].count = 1;
        }
    }
    return RT_OK;
}

/* And in the backward what they hold from the forward. */
static rt_status held_fill(const symbolic *s)
{
    char text[RT_PIECE_TEXT];
    for (int64_t k = 0; k < s->pass->n_held && s->backward; k++) {
        const rt_held *x = &s->pass->held[k];
        buffer *b = buffer_get(s, x->payload, x->rank, x->buf);
        RT_TRY(buffer_open(s, x->payload, b));
        if (b->held > 0 && b->shard != x->piece.shard)
            return rt_fail(s->ctx, RT_ERR_FORMAT,
                           "%s rank %d: held piece %lld, %s, shares buffer %d with shard %d", s->name,
                           (int)x->rank, (long long)k, rt_piece_text(text, x->payload, &x->piece),
                           (int)x->buf, (int)b->shard);
        b->shard = x->piece.shard;
        rt_cells c = rt_grid_cells(&s->grid, &x->piece);
        FOR_CELLS(c, i)
        {
            b->held += b->cells[i].count == 0;
            b->cells[i].count = 1;
        }
    }
    return RT_OK;
}

/* After the forward, what is kept for the backward has come and was not overwritten. */
static rt_status held_check(const symbolic *s)
{
    char text[RT_PIECE_TEXT], holding[64];
    for (int64_t k = 0; k < s->pass->n_held && !s->backward; k++) {
        const rt_held *x = &s->pass->held[k];
        const buffer *b = buffer_get(s, x->payload, x->rank, x->buf);
        if (!buffer_has(s, b, &x->piece))
            return rt_fail(
                s->ctx, RT_ERR_FORMAT,
                "%s rank %d: held piece %lld is not there for the backward: when the %s has ended, "
                "%s should be in buffer %d; %s",
                s->name, (int)x->rank, (long long)k, s->name, rt_piece_text(text, x->payload, &x->piece),
                (int)x->buf, holding_text(holding, b, x->piece.shard));
    }
    return RT_OK;
}

static rt_status expected_create(symbolic *s)
{
    for (int side = 0; side < 2; side++) {
        s->expected[side] = rt_calloc(s->ctx, s->grid.offset[side][s->l->ranks], sizeof *s->expected[side]);
        if (s->expected[side] == NULL)
            return RT_ERR_NOMEM;
        for (int64_t t = 0; t < s->pass->n_tiles; t++) {
            const rt_piece *piece = side == RT_SIDE_Q ? &s->pass->tiles[t].q : &s->pass->tiles[t].kv;
            cell *shard = s->expected[side] + s->grid.offset[side][piece->shard];
            rt_cells c = rt_grid_cells(&s->grid, piece);
            FOR_CELLS(c, i)
            {
                shard[i].count++;
                shard[i].sum += tile_hash(t);
            }
        }
    }
    return RT_OK;
}

static rt_status flight_create(symbolic *s)
{
    int64_t most = 0;
    for (int64_t t = 0; t < s->pass->n_steps; t++) {
        int64_t n = 0;
        for (int64_t i = s->pass->steps[t].move0; i < s->pass->steps[t].move1; i++)
            n += cells_count(rt_grid_cells(&s->grid, &s->pass->moves[i].piece));
        most = n > most ? n : most;
    }
    s->flight = rt_alloc(s->ctx, most, sizeof *s->flight);
    return s->flight != NULL ? RT_OK : RT_ERR_NOMEM;
}

static rt_status symbolic_execute(symbolic *s)
{
    RT_TRY(buffers_create(s));
    RT_TRY(homes_fill(s));
    RT_TRY(held_fill(s));
    RT_TRY(expected_create(s));
    RT_TRY(flight_create(s));
    for (s->step = 0; s->step < s->pass->n_steps; s->step++)
        RT_TRY(step_execute(s));
    RT_TRY(held_check(s));
    for (int32_t r = 0; r < s->l->ranks; r++) {
        RT_TRY(home_check(s, s->backward ? RT_PAYLOAD_DQ : RT_PAYLOAD_STATE, r));
        if (s->backward)
            RT_TRY(home_check(s, RT_PAYLOAD_DKV, r));
    }
    return RT_OK;
}

rt_status rt_pass_deliver_check(rt_context *ctx, const rt_pass *pass, const rt_problem *p,
                                const rt_layout *l, bool backward)
{
    symbolic s;
    memset(&s, 0, sizeof s);
    s.ctx = ctx;
    s.pass = pass;
    s.l = l;
    s.name = backward ? "backward" : "forward";
    s.backward = backward;
    RT_TRY(rt_grid_create(ctx, pass, p, l, &s.grid));
    rt_status status = symbolic_execute(&s);
    if (s.buffers != NULL) {
        for (int64_t i = 0; i < s.first[(int64_t)RT_PAYLOAD_COUNT * l->ranks]; i++)
            rt_free(s.buffers[i].cells);
    }
    rt_free(s.buffers);
    rt_free(s.first);
    rt_free(s.expected[0]);
    rt_free(s.expected[1]);
    rt_free(s.flight);
    rt_grid_reset(&s.grid);
    return status;
}
