/* The messages of a step: arrows, and one bar for ranks that all send to each other. */
#include <string.h>

#include "show/plan_svg.h"

enum { FEW = 3 }; /* a group of fewer ranks is drawn as arrows */

typedef struct {
    const rt_plan_picture *s;
    const rt_picture_size *z;
    const rt_pass *pass;
    const rt_step *step;
    double x0, x1, y; /* the gap after the boxes, and the first rank's row */
    int32_t P;
    char *sends;  /* of one payload: P x P, whether rank a sends to rank b */
    int32_t *bar; /* P: lowest rank of the group that a rank all sends to and receives from, or -1 */
} gap;

static double row_middle(const gap *g, int32_t r, rt_payload y)
{
    const double at = g->y + (double)r * g->z->row;
    return g->z->compact ? at + 5 : at + 10 + 4 * (double)y;
}

static void sends_read(const gap *g, rt_payload y)
{
    memset(g->sends, 0, (size_t)g->P * (size_t)g->P);
    for (int64_t i = g->step->move0; i < g->step->move1; i++) {
        const rt_move *m = &g->pass->moves[i];
        if (m->payload == y && m->from != m->to)
            g->sends[(int64_t)m->from * g->P + m->to] = 1;
    }
}

/* Whether rank r with all that it sends to is a group in which each sends to every other and to nobody else. */
static bool is_group(const gap *g, int32_t r)
{
    const char *mine = g->sends + (int64_t)r * g->P;
    int32_t members = 1;
    for (int32_t a = 0; a < g->P; a++) {
        if (mine[a] == 0)
            continue;
        const char *other = g->sends + (int64_t)a * g->P;
        members++;
        for (int32_t b = 0; b < g->P; b++)
            if (other[b] != (b == r ? 1 : b == a ? 0 : mine[b]))
                return false;
    }
    return members >= FEW;
}

/* Into g->bar; returns how many bars there are. */
static int32_t groups_find(const gap *g)
{
    int32_t n = 0;
    for (int32_t r = 0; r < g->P; r++)
        g->bar[r] = -1;
    for (int32_t r = 0; r < g->P; r++) {
        if (g->bar[r] >= 0 || !is_group(g, r))
            continue;
        g->bar[r] = r;
        for (int32_t a = r + 1; a < g->P; a++)
            if (g->sends[(int64_t)r * g->P + a] != 0)
                g->bar[a] = r;
        n++;
    }
    return n;
}

/* Bars whose ranks do not overlap share a place: the place of each rank's bar into place[0 .. P); returns how many. */
static int32_t places_find(const gap *g, int32_t *place)
{
    int32_t most = 0;
    for (int32_t r = 0; r < g->P; r++) {
        if (g->bar[r] < r) { /* -1, or found with the lowest rank */
            place[r] = g->bar[r] < 0 ? 0 : place[g->bar[r]];
            continue;
        }
        int32_t at = 0;
        for (int32_t a = 0; a < r; a++) /* bars that begin above r and end below it */
            for (int32_t b = r + 1; b < g->P && g->bar[a] == a; b++)
                if (g->bar[b] == a && place[a] >= at)
                    at = place[a] + 1;
        place[r] = at;
        most = at + 1 > most ? at + 1 : most;
    }
    return most;
}

static void bars_draw(const gap *g, rt_payload y, const int32_t *place, double x, double apart)
{
    FILE *f = g->s->f;
    for (int32_t r = 0; r < g->P; r++) {
        if (g->bar[r] != r)
            continue;
        const double at = x + apart * (double)place[r];
        int32_t last = r, n = 0;
        for (int32_t a = r; a < g->P; a++)
            if (g->bar[a] == r) {
                last = a;
                n++;
            }
        fprintf(f, "<g>");
        rt_svg_hint(f, "%s: each of %d ranks sends to each of the others", rt_payload_name(y), (int)n);
        for (int32_t a = r; a <= last; a++)
            if (g->bar[a] == r) {
                const double v = row_middle(g, a, y);
                rt_svg_arrow(f, y, g->x0 + 1, v, g->x1 - 1, v, 1);
                rt_svg_dot(f, y, at, v);
            }
        rt_svg_bar(f, y, at, row_middle(g, r, y), row_middle(g, last, y));
        fprintf(f, "</g>\n");
    }
}

/* One arrow for all pieces of a payload between two ranks, unless a bar tells it. */
static void arrows_draw(const gap *g, rt_payload y, double opacity)
{
    for (int32_t a = 0; a < g->z->ranks; a++)
        for (int32_t b = 0; b < g->z->ranks && g->bar[a] < 0; b++)
            if (g->sends[(int64_t)a * g->P + b] != 0)
                rt_svg_arrow(g->s->f, y, g->x0 + 1, row_middle(g, a, y), g->x1 - 1, row_middle(g, b, y),
                             opacity);
}

/* All payloads, the bars of one beside those of the others. */
static rt_status draw(gap *g, int64_t arrows)
{
    const size_t P = (size_t)g->P;
    int32_t n[RT_PAYLOAD_COUNT] = {0}, all = 0;
    rt_status st = RT_ERR_NOMEM;
    int32_t *place = rt_alloc(g->s->ctx, RT_PAYLOAD_COUNT, P * sizeof *place);
    g->sends = rt_alloc(g->s->ctx, g->P, P);
    g->bar = rt_alloc(g->s->ctx, g->P, sizeof *g->bar);
    if (place == NULL || g->sends == NULL || g->bar == NULL)
        goto free_all;
    for (int y = 0; y < RT_PAYLOAD_COUNT && !g->z->compact; y++) {
        sends_read(g, (rt_payload)y);
        const int32_t groups = groups_find(g);
        n[y] = groups > 0 ? places_find(g, place + (size_t)y * P) : 0;
        all += n[y];
    }
    const double wide = g->x1 - g->x0 - 20, apart = all > 1 && wide / (all - 1) < 8 ? wide / (all - 1) : 8;
    double x = (g->x0 + g->x1 - 4) / 2 - apart * (all - 1) / 2;
    for (int y = 0; y < RT_PAYLOAD_COUNT; y++) {
        sends_read(g, (rt_payload)y);
        if (g->z->compact || groups_find(g) == 0)
            memset(g->bar, -1, P * sizeof *g->bar);
        bars_draw(g, (rt_payload)y, place + (size_t)y * P, x, apart);
        arrows_draw(g, (rt_payload)y, arrows > 5 * (int64_t)g->P ? 0.4 : 1);
        x += apart * n[y];
    }
    st = RT_OK;
free_all:
    rt_free(g->bar);
    rt_free(g->sends);
    rt_free(place);
    return st;
}

static void count_moves(const rt_pass *pass, const rt_step *step, int64_t count[RT_PAYLOAD_COUNT])
{
    for (int y = 0; y < RT_PAYLOAD_COUNT; y++)
        count[y] = 0;
    for (int64_t i = step->move0; i < step->move1; i++)
        count[pass->moves[i].payload] += pass->moves[i].from != pass->moves[i].to;
}

int rt_picture_lines(const rt_pass *pass)
{
    int most = 0;
    for (int64_t t = 0; t < pass->n_steps; t++) {
        int64_t count[RT_PAYLOAD_COUNT];
        int lines = 0;
        count_moves(pass, &pass->steps[t], count);
        for (int y = 0; y < RT_PAYLOAD_COUNT; y++)
            lines += count[y] > 0;
        most = lines > most ? lines : most;
    }
    return most;
}

rt_status rt_picture_messages(const rt_plan_picture *s, const rt_picture_size *z, const rt_pass *pass,
                              const rt_step *step, double x, double y)
{
    FILE *f = s->f;
    gap g = {.s = s, .z = z, .pass = pass, .step = step, .x0 = x, .x1 = x + z->gap, .y = y};
    int64_t count[RT_PAYLOAD_COUNT], arrows = 0;
    const double middle = (g.x0 + g.x1) / 2, top = y - 6;
    g.P = s->plan->ranks;
    count_moves(pass, step, count);
    for (int k = 0; k < RT_PAYLOAD_COUNT; k++)
        arrows += count[k];
    if (arrows == 0)
        return RT_OK;
    if (z->compact && arrows > 4 * (int64_t)g.P) { /* too many to tell apart */
        rt_svg_rect(f, g.x0 + 6, y, z->gap - 12, (double)z->ranks * z->row - 2, "#888", 0.25);
        rt_svg_text(f, middle, top - 10, "s m", "%lld", (long long)arrows);
        return RT_OK;
    }
    int line = 0;
    for (int k = RT_PAYLOAD_COUNT - 1; k >= 0 && !z->compact; k--)
        if (count[k] > 0)
            rt_svg_text(f, middle, top - 10 * (double)line++, "s m", "%lld %s", (long long)count[k],
                        rt_payload_name((rt_payload)k));
    return draw(&g, arrows);
}
