/* The picture of a plan: its page. */
#include "show/plan_svg.h"

/* Bytes on the wire, as plan prints them. */
static const rt_wire_sizes wire = {2.0, 4.0, 4.0};

enum { MARGIN = 24, MAP = 330, SIDE = 490, MAPS_TOP = 90, BARS_TOP = 212, BARS = 185 };

static void head(const rt_plan_picture *s, bool verified)
{
    const rt_problem *p = s->p;
    char mask[RT_MASK_TEXT];
    rt_svg_text(s->f, MARGIN, 32, "t", "%s, %s layout, %d rank%s", s->plan->name, s->l->name,
                (int)s->plan->ranks, s->plan->ranks == 1 ? "" : "s");
    rt_svg_text(s->f, MARGIN, 50, "g",
                "B %lld, Sq %lld, Sk %lld, heads %lld/%lld, D %lld/%lld, mask %s%s%s", (long long)p->batch,
                (long long)p->seqlen_q, (long long)p->seqlen_k, (long long)p->heads_q,
                (long long)p->heads_kv, (long long)p->dim, (long long)p->dim_v, rt_mask_text(mask, p),
                p->documents > 0 ? " inside documents" : "",
                verified ? "; proved: every visible pair once, every result home" : "");
}

static void rank_legend(const rt_plan_picture *s, double x, double y)
{
    const int32_t n = s->plan->ranks < 16 ? s->plan->ranks : 16;
    rt_svg_text(s->f, x, y, "h", "Ranks");
    for (int32_t r = 0; r < n; r++) {
        const double u = x + (double)(r % 8) * 54, v = y + 8 + (double)(r / 8) * 18;
        rt_svg_rect(s->f, u, v, 12, 12, rt_svg_rank_colour(r, s->plan->ranks).text, 1);
        rt_svg_text(s->f, u + 16, v + 10, "", "%d%s", (int)r, r == 15 && n < s->plan->ranks ? " .." : "");
    }
}

static void payload_legend(const rt_plan_picture *s, double x, double y)
{
    static const char *const meaning[RT_PAYLOAD_COUNT] = {"queries",         "keys and values",
                                                          "partial results", "dO, lse, delta",
                                                          "gradient of Q",   "gradients of K and V"};
    rt_svg_text(s->f, x, y, "h", "Messages: leave when their step begins, have landed when it ends");
    for (int k = 0; k < RT_PAYLOAD_COUNT; k++) {
        const double u = x + (double)(k % 2) * 250, v = y + 16 + (double)(k / 2) * 16;
        rt_svg_arrow(s->f, (rt_payload)k, u, v - 4, u + 26, v - 4, 1);
        rt_svg_text(s->f, u + 31, v, "", "%s: %s", rt_payload_name((rt_payload)k), meaning[k]);
    }
}

/* How many ranks have bars, and the pixels of a rank. */
static int32_t bars_count(const rt_plan_picture *s, double *row)
{
    const int32_t n = s->plan->ranks < 64 ? s->plan->ranks : 64;
    *row = BARS / (double)n < 16 ? BARS / (double)n : 16;
    return n;
}

static double bars_height(const rt_plan_picture *s)
{
    double row = 0;
    const int32_t n = bars_count(s, &row);
    return 22 + (double)n * row;
}

/* Bars per rank: work of both passes, and bytes sent by payload. */
static void bars(const rt_plan_picture *s, double x, double y)
{
    double row = 0;
    const int32_t n = bars_count(s, &row);
    const double half = row > 6 ? (row - 2) / 2 : row / 2, thin = row > 6 ? 0.5 : 0;
    double most_work[2] = {0, 0}, most_bytes = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t r = 0; r < s->plan->ranks; r++) {
            double sent = 0;
            for (int k = 0; k < RT_PAYLOAD_COUNT; k++)
                sent += s->count[pass].sent[k][r];
            most_work[pass] = (double)s->count[pass].pairs[r] > most_work[pass]
                                  ? (double)s->count[pass].pairs[r]
                                  : most_work[pass];
            most_bytes = sent > most_bytes ? sent : most_bytes;
        }
    const double most = most_work[0] > most_work[1] ? most_work[0] : most_work[1];
    rt_svg_text(s->f, x, y, "h", "Visible pairs computed");
    rt_svg_text(s->f, x + 230, y, "h", "Bytes sent (up to %s)", rt_svg_bytes(most_bytes).text);
    for (int32_t r = 0; r < n; r++) {
        const double v = y + 8 + (double)r * row;
        if (row >= 10 || r % 8 == 0)
            rt_svg_text(s->f, x + 18, v + (row >= 10 ? 10 : 6), "e s", "%d", (int)r);
        for (int pass = 0; pass < 2; pass++) {
            const rt_counters *c = &s->count[pass];
            const double at = v + (double)pass * half;
            if (most > 0)
                rt_svg_rect(s->f, x + 22, at, 180 * (double)c->pairs[r] / most, half - thin,
                            rt_svg_rank_colour(r, s->plan->ranks).text, pass == 0 ? 1 : 0.6);
            double u = x + 230;
            for (int k = 0; k < RT_PAYLOAD_COUNT && most_bytes > 0; k++) {
                const double w = 200 * c->sent[k][r] / most_bytes;
                if (w > 0)
                    rt_svg_rect(s->f, u, at, w, half - thin, rt_svg_payload_colour((rt_payload)k), 0.8);
                u += w;
            }
        }
    }
    rt_svg_text(s->f, x, y + 20 + (double)n * row, "g", "upper bar forward, lower bar backward%s",
                n < s->plan->ranks ? "; the first 64 ranks" : "");
}

static void reading(const rt_plan_picture *s, bool compact, double y)
{
    if (compact) {
        rt_svg_text(
            s->f, MARGIN, y, "g",
            "A square is what a rank computes in a step, in the colour of the owner of its keys (of its "
            "queries, where the keys are many).");
        rt_svg_text(s->f, MARGIN, y + 14, "g",
                    "The paler, the less of the largest work; an empty square is idle.");
        return;
    }
    rt_svg_text(
        s->f, MARGIN, y, "g",
        "A box is what a rank computes in a step: whose queries (q) against whose keys (k), which part of "
        "their matrix,");
    rt_svg_text(s->f, MARGIN, y + 14, "g",
                "paler where the mask hides more of it; the bar below is its share of the largest work.");
    rt_svg_text(
        s->f, MARGIN, y + 28, "g",
        "Messages are arrows, counted above; an upright bar: each rank with a dot on it sends to each "
        "of the others.");
}

static rt_status page(const rt_plan_picture *s, bool verified)
{
    const rt_picture_size z[2] = {rt_picture_measure(s, &s->plan->forward),
                                  rt_picture_measure(s, &s->plan->backward)};
    const double rest = MARGIN + 14 + 40 + SIDE + MARGIN;
    double width = rest + (rt_picture_splits_heads(s) ? 2 * MAP + 14 : MAP);
    for (int pass = 0; pass < 2; pass++)
        width = z[pass].width + 2 * MARGIN > width ? z[pass].width + 2 * MARGIN : width;
    rt_picture_maps maps;
    RT_TRY(rt_picture_map_measure(s, width - rest, MAP, &maps));
    const double side = MARGIN + 14 + (maps.width > MAP ? maps.width : MAP) + 40;
    const double bottom[2] = {MAPS_TOP + maps.height, BARS_TOP + bars_height(s)};
    const double top = (bottom[0] > bottom[1] ? bottom[0] : bottom[1]) + 70;
    const double height = top + z[0].height + 30 + z[1].height + MARGIN;
    char title[200];
    (void)snprintf(title, sizeof title, "%s, %.60s, %d ranks", s->plan->name, s->l->name,
                   (int)s->plan->ranks);
    rt_svg_begin(s->f, width, height, title);
    head(s, verified);
    RT_TRY(rt_picture_map(s, &maps, MARGIN + 14, MAPS_TOP));
    rank_legend(s, side, 80);
    payload_legend(s, side, 140);
    bars(s, side, BARS_TOP);
    reading(s, z[0].compact || z[1].compact, top - 38);
    RT_TRY(rt_picture_steps(s, false, &z[0], MARGIN, top));
    RT_TRY(rt_picture_steps(s, true, &z[1], MARGIN, top + z[0].height + 30));
    rt_svg_end(s->f);
    return RT_OK;
}

rt_status rt_show_plan_svg(rt_context *ctx, FILE *f, const rt_plan *plan, const rt_problem *p,
                           const rt_layout *l, bool verified)
{
    rt_plan_picture s = {.ctx = ctx, .f = f, .plan = plan, .p = p, .l = l};
    RT_TRY(rt_plan_count(ctx, &plan->forward, p, l, &wire, false, &s.count[0]));
    rt_status st = rt_plan_count(ctx, &plan->backward, p, l, &wire, true, &s.count[1]);
    if (st == RT_OK)
        st = page(&s, verified);
    rt_counters_reset(&s.count[0]);
    rt_counters_reset(&s.count[1]);
    return st;
}
