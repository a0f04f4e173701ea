/* The process groups that grid prints. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* Rows of text, or lists of a JSON object.  Text is held back until all is known to be right. */
typedef struct {
    rt_cli *c;
    json_t *groups; /* NULL: text */
    FILE *f;        /* NULL: JSON */
} printer;

static void show(printer *w, const char *name, const rt_groups *g)
{
    json_t *all = w->groups != NULL ? json_array() : NULL;
    for (int64_t i = 0; i < g->count; i++) {
        json_t *one = json_array();
        if (all == NULL)
            fprintf(w->f, "  %-14s", name);
        for (int64_t k = g->first[i]; k < g->first[i + 1]; k++) {
            if (all == NULL)
                fprintf(w->f, " %lld", (long long)g->ranks[k]);
            else
                json_array_append_new(one, json_integer(g->ranks[k]));
        }
        if (all == NULL)
            fprintf(w->f, "\n");
        json_array_append_new(all, one);
    }
    if (all != NULL)
        json_object_set_new(w->groups, name, all);
}

/* Show groups that a call made, and let go of them. */
static rt_status show_made(printer *w, const char *name, rt_status made, rt_groups *g)
{
    RT_TRY(made);
    show(w, name, g);
    rt_groups_reset(g);
    return RT_OK;
}

static rt_status show_axes(printer *w, const rt_grid *grid, const char *name, const char *axes)
{
    rt_groups g;
    return show_made(w, name, rt_grid_groups(w->c->ctx, grid, axes, &g), &g);
}

/* ---- inside the context-parallel groups ---------------------------------------------------------------- */

static rt_status show_levels(printer *w, const rt_groups *cp)
{
    const rt_grid_options *o = &w->c->o->grid;
    for (int64_t i = 0; i < o->n_levels; i++) {
        rt_groups g;
        char name[40];
        (void)snprintf(name, sizeof name, "cp-level-%lld", (long long)i + 1);
        RT_TRY(show_made(w, name, rt_groups_level(w->c->ctx, cp, o->levels, o->n_levels, i, &g), &g));
    }
    return RT_OK;
}

/* The order in which every rank of the rings sees KV: itself, then the others. */
static rt_status show_orders(printer *w, const char *name, const rt_groups *rings, int64_t window,
                             bool reverse)
{
    const int64_t n = rings->first[1], total = rings->first[rings->count];
    rt_groups g = {.count = total};
    rt_status st = RT_ERR_NOMEM;
    int64_t *order = rt_alloc(w->c->ctx, n, sizeof *order);
    g.first = rt_calloc(w->c->ctx, total + 1, sizeof *g.first);
    g.ranks = rt_alloc(w->c->ctx, total * n, sizeof *g.ranks);
    if (order == NULL || g.first == NULL || g.ranks == NULL)
        goto reset;
    for (int64_t i = 0; i < total; i++) {
        rt_double_ring_order(n, window, i % n, order);
        for (int64_t k = 0; k < n; k++)
            g.ranks[i * n + k] = rings->ranks[i / n * n + order[reverse ? n - 1 - k : k]];
        g.first[i + 1] = (i + 1) * n;
    }
    show(w, name, &g);
    st = RT_OK;
reset:
    rt_free(order);
    rt_groups_reset(&g);
    return st;
}

/* MindSpeed's dKV has a ring of its own between the windows; LoongTrain's has the rings of KV once more. */
static rt_status show_windows(printer *w, const rt_groups *rings, int64_t window, bool mindspeed)
{
    static const struct {
        const char *name;
        rt_double_ring which;
    } mine[2][4] = {{{"intra-window", RT_DOUBLE_RING_INTRA},
                     {"inter-window", RT_DOUBLE_RING_KV},
                     {"dkv-intra", RT_DOUBLE_RING_INTRA},
                     {"dkv-inter", RT_DOUBLE_RING_KV}},
                    {{"intra-window", RT_DOUBLE_RING_INTRA},
                     {"inter-kv", RT_DOUBLE_RING_KV},
                     {"inter-dkv", RT_DOUBLE_RING_DKV}}};
    for (int i = 0; i < (mindspeed ? 3 : 4); i++) {
        rt_groups g;
        RT_TRY(show_made(w, mine[mindspeed][i].name,
                         rt_groups_double_ring(w->c->ctx, rings, window, mine[mindspeed][i].which, &g),
                         &g));
    }
    RT_TRY(show_orders(w, "kv-order", rings, window, false));
    return show_orders(w, "kv-order-back", rings, window, mindspeed);
}

static rt_status show_double_ring(printer *w, const rt_groups *rings, bool ulysses_low)
{
    const rt_grid_options *o = &w->c->o->grid;
    const int64_t n = rings->first[1];
    const char *whose = o->double_ring != NULL ? o->double_ring : "mindspeed";
    if (strcmp(whose, "loongtrain-interleaved") != 0)
        return show_windows(w, rings, o->window, strcmp(whose, "mindspeed") == 0);
    if (o->window >= 8 || o->window == n || (o->ulysses > 1 && ulysses_low))
        return rt_fail(w->c->ctx, RT_ERR_ARG,
                       "loongtrain-interleaved: LoongTrain places ranks as without it when the window is 8 "
                       "or more, or "
                       "the whole ring, or Ulysses ranks are neighbours. Hint: --double-ring loongtrain");
    rt_groups placed;
    RT_TRY(rt_groups_interleave(w->c->ctx, rings, o->window, &placed));
    const rt_status st = show_windows(w, &placed, o->window, false);
    rt_groups_reset(&placed);
    return st;
}

static rt_status show_rings(printer *w, const rt_groups *cp)
{
    const rt_grid_options *o = &w->c->o->grid;
    if (o->ulysses == 0)
        return o->window > 0 ? show_double_ring(w, cp, false) : RT_OK;
    rt_groups rings, ulysses;
    const bool low = o->cp_order != NULL && strcmp(o->cp_order, "ring-low") == 0;
    RT_TRY(rt_groups_hybrid(w->c->ctx, cp, o->ulysses, low, &rings, &ulysses));
    show(w, "ulysses", &ulysses);
    show(w, "ring", &rings);
    const rt_status st = o->window > 0 ? show_double_ring(w, &rings, !low) : RT_OK;
    rt_groups_reset(&rings);
    rt_groups_reset(&ulysses);
    return st;
}

/* Megatron's hybrid context parallelism: groups of every power of two up to half of the dp-cp ranks. */
static rt_status show_hybrid(printer *w, const rt_grid *grid)
{
    const rt_grid_options *o = &w->c->o->grid;
    if (o->hybrid) {
        rt_groups all;
        RT_TRY(rt_grid_groups(w->c->ctx, grid, "dp-cp", &all));
        rt_status st = RT_OK;
        for (int64_t size = 2; size <= all.first[1] / 2 && st == RT_OK; size *= 2) {
            rt_groups g;
            char name[40];
            (void)snprintf(name, sizeof name, "hybrid-cp-%lld", (long long)size);
            st = show_made(w, name, rt_groups_slices(w->c->ctx, &all, size, &g), &g);
        }
        rt_groups_reset(&all);
        RT_TRY(st);
    }
    if (o->n_lengths > 0 && o->most == 0)
        return rt_fail(w->c->ctx, RT_ERR_ARG,
                       "--lengths needs --max-len: how many tokens does a rank take?");
    json_t *sizes = w->groups != NULL && o->n_lengths > 0 ? json_array() : NULL;
    for (int64_t i = 0; i < o->n_lengths; i++) {
        const long long size = (long long)rt_hybrid_cp_size(o->lengths[i], o->most);
        if (sizes == NULL)
            fprintf(w->f, "  hybrid-cp-size %lld %lld\n", (long long)o->lengths[i], size);
        else
            json_array_append_new(sizes, json_pack("[I, I]", (json_int_t)o->lengths[i], (json_int_t)size));
    }
    if (sizes != NULL)
        json_object_set_new(w->groups, "hybrid-cp-size", sizes);
    return RT_OK;
}

static rt_status show_cp(printer *w, const rt_grid *grid, const char *cp_axis)
{
    rt_groups cp;
    RT_TRY(rt_grid_groups(w->c->ctx, grid, cp_axis, &cp));
    rt_status st = show_levels(w, &cp);
    if (st == RT_OK)
        st = show_rings(w, &cp);
    rt_groups_reset(&cp);
    return st;
}

/* ---- whole worlds -------------------------------------------------------------------------------------- */

static int64_t or_one(int64_t n)
{
    return n > 0 ? n : 1;
}

/* dp from the world, or the world from dp. */
static rt_status sizes_agree(rt_cli *c, int64_t others, int64_t *dp)
{
    const rt_grid_options *o = &c->o->grid;
    *dp = o->dp > 0 ? o->dp : o->world > 0 && o->world % others == 0 ? o->world / others : 1;
    if (o->world > 0 && others * *dp != o->world)
        return rt_fail(c->ctx, RT_ERR_ARG,
                       "--world %lld is not a multiple of the other sizes' product, %lld%s",
                       (long long)o->world, (long long)(others * *dp),
                       o->dp > 0 ? ". Hint: without --dp it follows from --world" : "");
    return RT_OK;
}

static void head(printer *w, const rt_grid *g, const char *order)
{
    if (w->groups != NULL)
        return;
    fprintf(w->f, "# ringtrue %s  grid  world %lld  order %s ", RT_VERSION, (long long)g->world, order);
    for (int32_t k = 0; k < g->n_axes; k++)
        fprintf(w->f, " %s %lld", g->name[k], (long long)g->size[k]);
    fprintf(w->f, "\n# group          ranks\n");
}

static rt_status megatron(printer *w, const char *order, int64_t *world)
{
    static const char *const names[] = {"tp", "cp", "ep", "dp", "pp"};
    static const char *const shown[] = {"tp", "cp", "dp", "pp", "dp-cp", "tp-cp", "tp-pp", "tp-dp-cp"};
    const rt_grid_options *o = &w->c->o->grid;
    int64_t size[5] = {or_one(o->tp), or_one(o->cp), 1, 1, or_one(o->pp)};
    rt_grid g;
    if (o->sharding > 0)
        return rt_fail(w->c->ctx, RT_ERR_ARG, "--sharding is an axis of --order paddle alone");
    RT_TRY(sizes_agree(w->c, size[0] * size[1] * size[4], &size[3]));
    RT_TRY(rt_grid_init(w->c->ctx, order, names, size, 5, &g));
    *world = g.world;
    head(w, &g, order);
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        RT_TRY(show_axes(w, &g, shown[i], shown[i]));
    RT_TRY(show_cp(w, &g, "cp"));
    RT_TRY(show_hybrid(w, &g));
    if (or_one(o->ep) == 1)
        return RT_OK;
    /* the expert layers have a grid of their own, over the same ranks, without cp */
    const int64_t rest = size[0] * o->ep * size[4];
    if (g.world % rest != 0)
        return rt_fail(w->c->ctx, RT_ERR_ARG,
                       "--ep %lld: the %lld ranks of the world are no multiple of tp x ep x pp = %lld",
                       (long long)o->ep, (long long)g.world, (long long)rest);
    int64_t expert[5] = {size[0], 1, o->ep, g.world / rest, size[4]};
    RT_TRY(rt_grid_init(w->c->ctx, order, names, expert, 5, &g));
    RT_TRY(show_axes(w, &g, "ep", "ep"));
    RT_TRY(show_axes(w, &g, "tp-ep", "tp-ep"));
    RT_TRY(show_axes(w, &g, "tp-ep-pp", "tp-ep-pp"));
    return show_axes(w, &g, "expert-dp", "dp");
}

static rt_status paddle(printer *w, int64_t *world)
{
    static const char *const names[] = {"model", "sep", "sharding", "pipe", "data"};
    static const char order[] = "model-sep-sharding-pipe-data"; /* Paddle writes it the other way round */
    const rt_grid_options *o = &w->c->o->grid;
    int64_t size[5] = {or_one(o->tp), or_one(o->cp), or_one(o->sharding), or_one(o->pp), 1};
    rt_grid g;
    if (o->ep > 0 || o->hybrid || o->n_lengths > 0)
        return rt_fail(w->c->ctx, RT_ERR_ARG,
                       "--ep, --hybrid-cp and --lengths are Megatron's, not Paddle's");
    RT_TRY(sizes_agree(w->c, size[0] * size[1] * size[2] * size[3], &size[4]));
    RT_TRY(rt_grid_init(w->c->ctx, order, names, size, 5, &g));
    *world = g.world;
    head(w, &g, order);
    for (int i = 0; i < 5; i++)
        RT_TRY(show_axes(w, &g, names[i], names[i]));
    if (size[1] > 1) { /* fused groups, for the gradients and for the model */
        RT_TRY(show_axes(w, &g, "data-sep", "data-sep"));
        RT_TRY(show_axes(w, &g, "pipe-model", "pipe-model"));
    }
    return show_cp(w, &g, "sep");
}

rt_status rt_cli_groups(rt_cli *c)
{
    const rt_grid_options *o = &c->o->grid;
    const char *order = o->order != NULL ? o->order : "megatron";
    int64_t world = 1;
    if (o->cp_order != NULL && o->ulysses == 0)
        return rt_fail(c->ctx, RT_ERR_ARG, "--cp-order needs --ulysses: the order of which groups?");
    if (o->double_ring != NULL && o->window == 0)
        return rt_fail(c->ctx, RT_ERR_ARG, "--double-ring needs --cp-window: windows of how many ranks?");
    if (o->most > 0 && o->n_lengths == 0)
        return rt_fail(c->ctx, RT_ERR_ARG, "--max-len needs --lengths: which sequences?");
    char *text = NULL;
    size_t size = 0;
    printer w = {c, c->o->json ? json_object() : NULL, c->o->json ? NULL : open_memstream(&text, &size)};
    rt_status st;
    if (w.groups == NULL && w.f == NULL)
        return rt_fail(c->ctx, RT_ERR_NOMEM, "no memory for the groups");
    if (strcmp(order, "paddle") == 0)
        st = paddle(&w, &world);
    else /* MindSpeed's loops give Megatron's default */
        st = megatron(&w,
                      strcmp(order, "megatron") == 0 || strcmp(order, "mindspeed") == 0 ? "tp-cp-ep-dp-pp"
                                                                                        : order,
                      &world);
    if (w.groups == NULL) {
        const bool lost = fclose(w.f) != 0;
        if (st == RT_OK && lost)
            st = rt_fail(c->ctx, RT_ERR_NOMEM, "no memory for the groups");
        if (st == RT_OK)
            (void)fwrite(text, 1, size, stdout); /* main looks at stdout */
        free(text);
        return st;
    }
    json_t *all = json_pack("{s:i, s:s, s:s, s:s, s:I, s:o}", "schema", 1, "ringtrue", RT_VERSION, "verb",
                            "grid", "order", order, "world", (json_int_t)world, "groups", w.groups);
    if (st == RT_OK && all == NULL)
        st = rt_fail(c->ctx, RT_ERR_NOMEM, "no memory for the JSON, or the order is not UTF-8");
    if (st == RT_OK && (json_dumpf(all, stdout, JSON_COMPACT) != 0 || putchar('\n') == EOF))
        st = rt_fail(c->ctx, RT_ERR_IO, "standard output could not be written");
    json_decref(all);
    return st;
}
