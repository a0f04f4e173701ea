/* The steps of a pass: a row per rank, a column per step, messages between them. */
#include "show/plan_svg.h"

#include <stdio.h>

enum { FEW_RANKS = 16, FEW_STEPS = 20, MOST_RANKS = 128, MOST_STEPS = 40, LAST = 6, LINES = 3, HEAD = 58 };

rt_picture_size rt_picture_measure(const rt_plan_picture *s, const rt_pass *pass)
{
    rt_picture_size z = {.ranks = s->plan->ranks, .first = pass->n_steps};
    z.compact = z.ranks > FEW_RANKS || pass->n_steps > FEW_STEPS;
    z.ranks = z.ranks < MOST_RANKS ? z.ranks : MOST_RANKS;
    if (pass->n_steps > MOST_STEPS) {
        z.first = MOST_STEPS - LAST;
        z.last = LAST;
    }
    z.row = z.compact ? 12 : 46;
    z.box = z.compact ? 12 : 68;
    z.gap = z.compact ? 26 : 66;
    z.width = 60 + (double)(z.first + z.last + (z.last > 0)) * (z.box + z.gap) + 30;
    const int lines = rt_picture_lines(pass);
    z.head = HEAD + (!z.compact && lines > LINES ? 10 * (double)(lines - LINES) : 0);
    z.height = z.head + (double)z.ranks * z.row + 8;
    return z;
}

/* What a rank does in a step. */
typedef struct {
    int64_t tiles, pairs, calls; /* pairs over all heads */
    int32_t q0, q1, kv0, kv1;    /* lowest and highest shard */
    int64_t head0, head1;        /* of the queries */
} work;

typedef struct {
    const rt_plan_picture *s;
    const rt_picture_size *z;
    const rt_pass *pass;
    bool backward;
    double x, y;  /* of the first step's box and the first rank's row */
    work *now;    /* of the step, per rank */
    int64_t most; /* pairs of a rank in a step, at most */
} view;

static void work_read(const view *v, const rt_step *step)
{
    for (int32_t r = 0; r < v->s->plan->ranks; r++)
        v->now[r] = (work){0};
    for (int64_t i = step->tile0; i < step->tile1; i++) {
        const rt_tile *t = &v->pass->tiles[i];
        work *w = &v->now[t->rank];
        const bool first = w->tiles == 0;
        w->q0 = first || t->q.shard < w->q0 ? t->q.shard : w->q0;
        w->q1 = first || t->q.shard > w->q1 ? t->q.shard : w->q1;
        w->kv0 = first || t->kv.shard < w->kv0 ? t->kv.shard : w->kv0;
        w->kv1 = first || t->kv.shard > w->kv1 ? t->kv.shard : w->kv1;
        w->head0 = first || t->q.head0 < w->head0 ? t->q.head0 : w->head0;
        w->head1 = first || t->q.head1 > w->head1 ? t->q.head1 : w->head1;
        w->tiles++;
        w->calls = t->call + 1 > w->calls ? t->call + 1 : w->calls;
        w->pairs += t->pairs * (t->q.head1 - t->q.head0);
    }
}

/* The column of a step; -1: it is left out. */
static int64_t column(const view *v, int64_t t)
{
    if (t < v->z->first)
        return t;
    return t >= v->pass->n_steps - v->z->last ? t - (v->pass->n_steps - v->z->last) + v->z->first + 1 : -1;
}

static double column_x(const view *v, int64_t c)
{
    return v->x + (double)c * (v->z->box + v->z->gap);
}

/* "q3" in the colour of its owner, or "q0-7". */
static void chip(const view *v, double x, double y, char what, int32_t a, int32_t b)
{
    rt_svg_rect(v->s->f, x, y - 9, 27, 11,
                a == b ? rt_svg_rank_colour(a, v->s->plan->ranks).text : "#e5e5e5", 0.55);
    if (a == b)
        rt_svg_text(v->s->f, x + 13.5, y, "s m", "%c%d", what, (int)a);
    else
        rt_svg_text(v->s->f, x + 13.5, y, "s m", "%c%d-%d", what, (int)a, (int)b);
}

/* The tiles of rank r as parts of a matrix, to scale: its query shards from the first to the last, against its
 * key shards. */
static void matrix(const view *v, const rt_step *step, int32_t r, double x, double y, double size)
{
    const work *w = &v->now[r];
    const double high = size / (double)(w->q1 - w->q0 + 1), wide = size / (double)(w->kv1 - w->kv0 + 1);
    const rt_colour c = rt_svg_rank_colour(r, v->s->plan->ranks);
    for (int64_t i = step->tile0; i < step->tile1; i++) {
        const rt_tile *t = &v->pass->tiles[i];
        if (t->rank != r)
            continue;
        const double nq = (double)rt_layout_count(v->s->l, RT_SIDE_Q, t->q.shard),
                     nk = (double)rt_layout_count(v->s->l, RT_SIDE_KV, t->kv.shard);
        const double rows = (double)(t->q.slot1 - t->q.slot0),
                     columns = (double)(t->kv.slot1 - t->kv.slot0);
        rt_svg_rect(v->s->f, x + wide * ((double)(t->kv.shard - w->kv0) + (double)t->kv.slot0 / nk),
                    y + high * ((double)(t->q.shard - w->q0) + (double)t->q.slot0 / nq),
                    wide * columns / nk, high * rows / nq, c.text,
                    0.3 + 0.7 * (double)t->pairs / (rows * columns * (double)v->s->p->batch));
    }
    rt_svg_frame(v->s->f, x, y, size, size, false);
}

static void hint(const view *v, int64_t t, int32_t r)
{
    const work *w = &v->now[r];
    rt_svg_hint(
        v->s->f,
        "step %lld, rank %d: %lld tile%s, queries of %d..%d, keys of %d..%d, heads %lld..%lld, %lld "
        "visible pairs",
        (long long)t, (int)r, (long long)w->tiles, w->tiles == 1 ? "" : "s", (int)w->q0, (int)w->q1,
        (int)w->kv0, (int)w->kv1, (long long)w->head0, (long long)w->head1 - 1, (long long)w->pairs);
}

static void box_full(const view *v, const rt_step *step, int64_t t, int32_t r, double x, double y)
{
    const work *w = &v->now[r];
    FILE *f = v->s->f;
    fprintf(f, "<g>");
    if (w->tiles == 0) {
        rt_svg_frame(f, x, y, v->z->box, 40, true);
        if (step->tile1 > step->tile0)
            rt_svg_text(f, x + v->z->box / 2, y + 24, "s m g", "idle");
        fprintf(f, "</g>\n");
        return;
    }
    hint(v, t, r);
    rt_svg_frame(f, x, y, v->z->box, 40, false);
    matrix(v, step, r, x + 3, y + 3, 30);
    chip(v, x + 37, y + 13, 'q', w->q0, w->q1);
    chip(v, x + 37, y + 26, 'k', w->kv0, w->kv1);
    if (w->head0 > 0 || w->head1 < v->s->p->heads_q) {
        if (w->head1 - w->head0 == 1)
            rt_svg_text(f, x + 50.5, y + 37, "s m g", "h%lld", (long long)w->head0);
        else
            rt_svg_text(f, x + 50.5, y + 37, "s m g", "h%lld-%lld", (long long)w->head0,
                        (long long)w->head1 - 1);
    }
    if (v->most > 0)
        rt_svg_rect(f, x + 3, y + 35, 30 * (double)w->pairs / (double)v->most, 3, "#555", 1);
    fprintf(f, "</g>\n");
}

static void box_compact(const view *v, int64_t t, int32_t r, double x, double y)
{
    const work *w = &v->now[r];
    FILE *f = v->s->f;
    if (w->tiles == 0) {
        rt_svg_frame(f, x + 1, y + 1, 10, 8, true);
        return;
    }
    const int32_t shard = w->kv0 == w->kv1 ? w->kv0 : w->q0 == w->q1 ? w->q0 : r;
    const double share = v->most > 0 ? (double)w->pairs / (double)v->most : 0;
    fprintf(f, "<g>");
    hint(v, t, r);
    rt_svg_rect(f, x + 1, y + 1, 10, 8, rt_svg_rank_colour(shard, v->s->plan->ranks).text,
                0.3 + 0.7 * share);
    fprintf(f, "</g>\n");
}

static rt_status draw(const view *v)
{
    FILE *f = v->s->f;
    for (int32_t r = 0; r < v->z->ranks; r++) {
        const double y = v->y + (double)r * v->z->row;
        if (!v->z->compact || r % 8 == 0)
            rt_svg_text(f, v->x - 8, y + (v->z->compact ? 8 : 24), "e", "rank %d", (int)r);
    }
    for (int64_t t = 0; t < v->pass->n_steps; t++) {
        const int64_t c = column(v, t);
        if (c < 0)
            continue;
        const rt_step *step = &v->pass->steps[t];
        const double x = column_x(v, c);
        work_read(v, step);
        if (!v->z->compact || t % 4 == 0)
            rt_svg_text(f, x + v->z->box / 2, v->y - 6, v->z->compact ? "s m" : "m",
                        v->z->compact ? "%lld" : "step %lld", (long long)t);
        for (int32_t r = 0; r < v->z->ranks; r++) {
            const double y = v->y + (double)r * v->z->row;
            if (v->z->compact)
                box_compact(v, t, r, x, y);
            else
                box_full(v, step, t, r, x, y);
        }
        RT_TRY(rt_picture_messages(v->s, v->z, v->pass, step, x + v->z->box, v->y));
    }
    if (v->pass->n_steps > 0 && !v->z->compact &&
        v->pass->steps[v->pass->n_steps - 1].move1 > v->pass->steps[v->pass->n_steps - 1].move0)
        rt_svg_text(f, column_x(v, v->z->first + v->z->last + (v->z->last > 0)), v->y - 6, "g", "end");
    if (v->z->last > 0)
        rt_svg_text(f, column_x(v, v->z->first) + v->z->box / 2, v->y + 12, "m", "...");
    return RT_OK;
}

rt_status rt_picture_steps(const rt_plan_picture *s, bool backward, const rt_picture_size *size, double x,
                           double y)
{
    const rt_pass *pass = backward ? &s->plan->backward : &s->plan->forward;
    const rt_counters *c = &s->count[backward];
    view v = {s, size, pass, backward, x + 60, y + size->head, NULL, 0};
    double bytes = 0;
    int64_t messages = 0, held = 0;
    char drawn[120] = "", kept[160] = "";
    for (int32_t r = 0; r < c->ranks; r++) {
        held = c->held[r] > held ? c->held[r] : held;
        messages += c->messages[r];
        for (int k = 0; k < RT_PAYLOAD_COUNT; k++)
            bytes += c->sent[k][r];
    }
    rt_svg_text(s->f, x, y + 12, "h", "%s: %lld step%s, %lld message%s, %s, work max/mean %.3f",
                backward ? "Backward" : "Forward", (long long)pass->n_steps, pass->n_steps == 1 ? "" : "s",
                (long long)messages, messages == 1 ? "" : "s", rt_svg_bytes(bytes).text, c->max_over_mean);
    if (size->ranks < s->plan->ranks || size->last > 0)
        (void)snprintf(drawn, sizeof drawn, "drawn: ranks 0..%d of %d, steps 0..%lld%s of %lld",
                       (int)size->ranks - 1, (int)s->plan->ranks, (long long)size->first - 1,
                       size->last > 0 ? " and the last six" : "", (long long)pass->n_steps);
    if (pass->n_held > 0)
        (void)snprintf(kept, sizeof kept,
                       "Q and KV of other shards %s: %lld piece%s, up to %lld elements a rank",
                       backward ? "are there from the forward" : "stay for the backward",
                       (long long)pass->n_held, pass->n_held == 1 ? "" : "s", (long long)held);
    if (drawn[0] != '\0' || kept[0] != '\0')
        rt_svg_text(s->f, x, y + 27, "g", "%s%s%s", kept, drawn[0] != '\0' && kept[0] != '\0' ? "; " : "",
                    drawn);
    v.now = rt_alloc(s->ctx, s->plan->ranks, sizeof *v.now);
    if (v.now == NULL)
        return RT_ERR_NOMEM;
    for (int64_t t = 0; t < pass->n_steps; t++) {
        work_read(&v, &pass->steps[t]);
        for (int32_t r = 0; r < s->plan->ranks; r++)
            v.most = v.now[r].pairs > v.most ? v.now[r].pairs : v.most;
    }
    const rt_status st = draw(&v);
    rt_free(v.now);
    return st;
}
