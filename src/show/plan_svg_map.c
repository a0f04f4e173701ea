/* The mask of a problem, and whose work each part of it is. */
#include "show/plan_svg.h"

#include <stdlib.h>

enum { CELLS = 64, FINE = 128, SAMPLES = 8, MAPS = 16, BESIDE = 14, BELOW = 24 };

/* The forward's tiles, findable by the pair of shards. */
typedef struct {
    int64_t key, tile;
} place;

typedef struct {
    const rt_plan_picture *s;
    place *order;
    int64_t cells;  /* at most so many rows, and columns */
    int64_t window; /* queries and keys [0, window) are drawn; all of them unless owners change too often */
    int64_t head[MAPS + 1]; /* the first of each group of heads that the tiles tell apart */
    int64_t groups, drawn;
} map;

static int compare(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->tile > y->tile) - (x->tile < y->tile);
}

static int64_t key_of(const map *m, int32_t q, int32_t kv)
{
    return (int64_t)q * m->s->l->ranks + kv;
}

/* The rank that computes query i against key j for query head h; -1 where none does. */
static int32_t worker(const map *m, int64_t i, int64_t j, int64_t h)
{
    const rt_layout_side *q = &m->s->l->side[RT_SIDE_Q], *kv = &m->s->l->side[RT_SIDE_KV];
    const rt_pass *pass = &m->s->plan->forward;
    const int64_t key = key_of(m, q->rank_of[i], kv->rank_of[j]), a = q->slot_of[i], b = kv->slot_of[j];
    int64_t lo = 0, hi = pass->n_tiles;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (m->order[mid].key < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < pass->n_tiles && m->order[lo].key == key; lo++) {
        const rt_tile *t = &pass->tiles[m->order[lo].tile];
        if (t->q.slot0 <= a && a < t->q.slot1 && t->kv.slot0 <= b && b < t->kv.slot1 && t->q.head0 <= h &&
            h < t->q.head1)
            return t->rank;
    }
    return -1;
}

/* How often the owner changes from one position to the next. */
static int64_t changes(const rt_layout_side *side)
{
    int64_t n = 0;
    for (int64_t i = 1; i < side->length; i++)
        n += side->rank_of[i] != side->rank_of[i - 1];
    return n;
}

/* Where the heads of the tiles begin and end. */
static rt_status heads_find(map *m)
{
    const rt_plan_picture *s = m->s;
    bool *cut = rt_calloc(s->ctx, s->p->heads_q + 1, sizeof *cut);
    if (cut == NULL)
        return RT_ERR_NOMEM;
    cut[0] = true;
    for (int64_t i = 0; i < s->plan->forward.n_tiles; i++) {
        const rt_tile *t = &s->plan->forward.tiles[i];
        cut[t->q.head0] = cut[t->q.head1] = true;
    }
    for (int64_t h = 0; h < s->p->heads_q; h++)
        if (cut[h]) {
            if (m->groups <= MAPS)
                m->head[m->groups] = h;
            m->groups++;
        }
    rt_free(cut);
    m->drawn = m->groups < MAPS ? m->groups : MAPS;
    return RT_OK;
}

/* How much of the sides is drawn. */
static void window_find(map *m)
{
    const rt_plan_picture *s = m->s;
    const int64_t q = s->p->seqlen_q, k = s->p->seqlen_k;
    const int64_t q_changes = changes(&s->l->side[RT_SIDE_Q]), k_changes = changes(&s->l->side[RT_SIDE_KV]);
    const int64_t most = q_changes > k_changes ? q_changes : k_changes, longest = q > k ? q : k;
    m->cells = most < CELLS ? CELLS : FINE;
    m->window = most >= FINE && most >= longest / 8 ? CELLS : longest;
}

static rt_status prepare(map *m)
{
    const rt_pass *pass = &m->s->plan->forward;
    window_find(m);
    RT_TRY(heads_find(m));
    m->order = rt_alloc(m->s->ctx, pass->n_tiles, sizeof *m->order);
    if (m->order == NULL)
        return RT_ERR_NOMEM;
    for (int64_t i = 0; i < pass->n_tiles; i++)
        m->order[i] = (place){key_of(m, pass->tiles[i].q.shard, pass->tiles[i].kv.shard), i};
    qsort(m->order, (size_t)pass->n_tiles, sizeof *m->order, compare);
    return RT_OK;
}

/* The n-th of SAMPLES positions spread over [a, b). */
static int64_t sample_at(int64_t a, int64_t b, int64_t n, int64_t count)
{
    return count == b - a ? a + n : a + (2 * n + 1) * (b - a) / (2 * count);
}

/* One cell: the share of it that is visible, by a sample, over the batch; and the rank that computes it. */
static double cell_read(const map *m, const int64_t q[2], const int64_t k[2], int64_t head, int32_t *rank)
{
    int64_t qs[SAMPLES], ks[SAMPLES];
    const int64_t nq = q[1] - q[0] < SAMPLES ? q[1] - q[0] : SAMPLES,
                  nk = k[1] - k[0] < SAMPLES ? k[1] - k[0] : SAMPLES;
    *rank = -1;
    for (int64_t i = 0; i < nq; i++)
        qs[i] = sample_at(q[0], q[1], i, nq);
    for (int64_t i = 0; i < nk; i++)
        ks[i] = sample_at(k[0], k[1], i, nk);
    const int64_t pairs = rt_mask_pairs(m->s->p, qs, nq, ks, nk);
    for (int64_t i = 0; i < nq && pairs > 0 && *rank < 0; i++) {
        const int64_t a = (i + nq / 2) % nq; /* from the middle */
        for (int64_t j = 0; j < nk && *rank < 0; j++) {
            const int64_t b = (j + nk / 2) % nk;
            if (rt_mask_pairs(m->s->p, &qs[a], 1, &ks[b], 1) > 0)
                *rank = worker(m, qs[a], ks[b], head);
        }
    }
    return (double)pairs / (double)(nq * nk * m->s->p->batch);
}

/* A tenth of a pixel, as it is written: what ends where the next begins leaves no seam. */
static double tenth(double x)
{
    return (double)(int64_t)(x * 10 + 0.5) / 10;
}

/* One map: cells of equal rank and share that follow each other in a row are one rectangle. */
static void draw(const map *m, int64_t head, double x, double y, double size, int64_t cells)
{
    const rt_plan_picture *s = m->s;
    const int64_t sq = s->p->seqlen_q < m->window ? s->p->seqlen_q : m->window,
                  sk = s->p->seqlen_k < m->window ? s->p->seqlen_k : m->window;
    const int64_t nq = sq < cells ? sq : cells, nk = sk < cells ? sk : cells;
    const double dy = size / (double)nq, dx = size / (double)nk;
    fprintf(s->f, "<g shape-rendering=\"crispEdges\">\n");
    for (int64_t a = 0; a < nq; a++) {
        const int64_t q[2] = {a * sq / nq, (a + 1) * sq / nq};
        int64_t begun = 0;
        int32_t run = -1;
        double share = 0;
        for (int64_t b = 0; b <= nk; b++) {
            int32_t rank = -1;
            const int64_t k[2] = {b * sk / nk, (b + 1) * sk / nk};
            const double now = b < nk ? cell_read(m, q, k, head, &rank) : 0;
            if (b < nk && b > begun && rank == run && now <= share && now >= share)
                continue;
            if (run >= 0) {
                const double u = tenth(x + (double)begun * dx), v = tenth(y + (double)a * dy);
                rt_svg_rect(s->f, u, v, tenth(x + (double)b * dx) - u, tenth(y + (double)(a + 1) * dy) - v,
                            rt_svg_rank_colour(run, s->plan->ranks).text, 0.25 + 0.75 * share);
            }
            begun = b;
            run = rank;
            share = now;
        }
    }
    fprintf(s->f, "</g>\n");
    rt_svg_frame(s->f, x, y, size, size, false);
}

/* Who owns the positions of a side: a strip of `size` by 8 pixels, level or upright. */
static void strip(const map *m, rt_side side, double x, double y, double size)
{
    const rt_layout_side *o = &m->s->l->side[side];
    const int64_t n = o->length < m->window ? o->length : m->window;
    for (int64_t i = 0, end = 0; i < n; i = end) {
        while (end < n && o->rank_of[end] == o->rank_of[i])
            end++;
        const double at = (double)i * size / (double)n, length = (double)(end - i) * size / (double)n;
        const rt_colour c = rt_svg_rank_colour(o->rank_of[i], m->s->plan->ranks);
        if (side == RT_SIDE_Q)
            rt_svg_rect(m->s->f, x, y + at, 8, length, c.text, 1);
        else
            rt_svg_rect(m->s->f, x + at, y, length, 8, c.text, 1);
    }
}

static void heads_text(const map *m, int64_t g, char text[64])
{
    const int64_t end = g + 1 < m->groups ? m->head[g + 1] : m->s->p->heads_q;
    if (end - m->head[g] == 1)
        (void)snprintf(text, 64, "head %lld", (long long)m->head[g]);
    else
        (void)snprintf(text, 64, "heads %lld-%lld", (long long)m->head[g], (long long)end - 1);
}

bool rt_picture_splits_heads(const rt_plan_picture *s)
{
    for (int64_t i = 0; i < s->plan->forward.n_tiles; i++)
        if (s->plan->forward.tiles[i].q.head0 > 0 || s->plan->forward.tiles[i].q.head1 < s->p->heads_q)
            return true;
    return false;
}

static bool is_part(const map *m)
{
    return m->window < m->s->p->seqlen_q || m->window < m->s->p->seqlen_k;
}

rt_status rt_picture_map_measure(const rt_plan_picture *s, double width, double height,
                                 rt_picture_maps *out)
{
    map m = {.s = s};
    window_find(&m);
    RT_TRY(heads_find(&m));
    rt_picture_maps z = {.beside = 1, .size = height};
    int64_t rows = 1;
    for (int64_t c = 1; c <= m.drawn && m.drawn > 1; c++) {
        const int64_t n = (m.drawn + c - 1) / c;
        const double w = (width - BESIDE * (double)(c - 1)) / (double)c,
                     h = (height - BELOW * (double)(n - 1)) / (double)n, size = w < h ? w : h;
        if (c == 1 || size > z.size) {
            z.size = size;
            z.beside = c;
            rows = n;
        }
    }
    z.width = (double)z.beside * (z.size + BESIDE) - BESIDE;
    z.height =
        (double)rows * (z.size + BELOW) - BELOW + (m.groups > m.drawn ? 14 : 0) + (is_part(&m) ? 14 : 0);
    *out = z;
    return RT_OK;
}

rt_status rt_picture_map(const rt_plan_picture *s, const rt_picture_maps *z, double x, double y)
{
    map m = {.s = s};
    double below = y + z->height; /* for remarks, the last one first */
    rt_status st = prepare(&m);
    if (st != RT_OK)
        goto free_order;
    if (m.drawn == 1) {
        rt_svg_text(s->f, x, y - 14, "", "keys, coloured by owner");
        strip(&m, RT_SIDE_KV, x, y - 10, z->size);
        strip(&m, RT_SIDE_Q, x - 10, y, z->size);
        fprintf(s->f, "<g transform=\"translate(%.1f %.1f) rotate(-90)\">", x - 14, y + z->size);
        rt_svg_text(s->f, 0, 0, "", "queries, coloured by owner");
        fprintf(s->f, "</g>\n");
        draw(&m, 0, x, y, z->size, m.cells);
    } else {
        for (int64_t g = 0; g < m.drawn; g++) {
            char text[64];
            heads_text(&m, g, text);
            const double u = x + (double)(g % z->beside) * (z->size + BESIDE),
                         v = y + (double)(g / z->beside) * (z->size + BELOW);
            rt_svg_text(s->f, u, v - 3, "", "%s", text);
            draw(&m, m.head[g], u, v, z->size, z->size < 200 ? CELLS / 2 : m.cells);
        }
    }
    if (is_part(&m)) {
        rt_svg_text(s->f, x, below, "g",
                    "only the first %lld queries and keys: the owner changes from token to token",
                    (long long)m.window);
        below -= 14;
    }
    if (m.groups > m.drawn)
        rt_svg_text(s->f, x, below, "g", "and %lld more groups of heads, not drawn",
                    (long long)(m.groups - m.drawn));
free_order:
    rt_free(m.order);
    return st;
}
