/* ringtrue grid: the positions of a layout, rank by rank, or the process groups of a world. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static void list_layouts(void)
{
    const rt_layout_info *x;
    for (int64_t i = 0; (x = rt_layout_listed(i)) != NULL; i++)
        rt_cli_list(x->name, x->parameters, x->summary);
}

/* Visible pairs of each rank's queries with all keys, one head; the largest over their mean. */
static rt_status count_work(rt_cli *c, const rt_problem *p, const rt_layout *l, int64_t **out,
                            double *ratio)
{
    int64_t *pairs = rt_alloc(c->ctx, l->ranks, sizeof *pairs),
            *keys = rt_alloc(c->ctx, p->seqlen_k, sizeof *keys);
    if (pairs == NULL || keys == NULL) {
        rt_free(pairs);
        rt_free(keys);
        return RT_ERR_NOMEM;
    }
    for (int64_t i = 0; i < p->seqlen_k; i++)
        keys[i] = i;
    double sum = 0, most = 0;
    for (int32_t r = 0; r < l->ranks; r++) {
        pairs[r] = rt_mask_pairs(p, rt_layout_positions(l, RT_SIDE_Q, r), rt_layout_count(l, RT_SIDE_Q, r),
                                 keys, p->seqlen_k);
        sum += (double)pairs[r];
        most = (double)pairs[r] > most ? (double)pairs[r] : most;
        rt_progress(c->ctx, "pairs", r + 1, l->ranks);
    }
    *ratio = sum > 0 ? most * l->ranks / sum : 1;
    *out = pairs;
    rt_free(keys);
    return RT_OK;
}

/* The positions of a rank's rows, -1 for padding; rt_free. */
static rt_status rows_of(rt_cli *c, const rt_layout *l, rt_side side, int32_t r, int64_t **rows)
{
    *rows = rt_alloc(c->ctx, l->side[side].rows[r], sizeof **rows);
    if (*rows == NULL)
        return RT_ERR_NOMEM;
    rt_cli_positions(l, side, r, *rows);
    return RT_OK;
}

static rt_status show_text(rt_cli *c, const rt_problem *p, const rt_layout *l, const int64_t *pairs,
                           double ratio)
{
    printf("# ringtrue %s  grid  layout %s  remainder %s  P %d  Sq %lld  Sk %lld\n", RT_VERSION, l->name,
           rt_remainder_name(l->remainder), (int)l->ranks, (long long)p->seqlen_q, (long long)p->seqlen_k);
    if (l->note[0] != '\0')
        printf("# note: %s\n", l->note);
    rt_tensor_decl decl[2];
    const bool two = rt_cli_position_decls(l, 0, decl) == 2;
    if (!c->o->summary)
        printf("# side rank positions of its rows (-1: padding)\n");
    for (int side = 0; side < (two ? 2 : 1) && !c->o->summary; side++)
        for (int32_t r = 0; r < l->ranks; r++) {
            int64_t *rows;
            RT_TRY(rows_of(c, l, (rt_side)side, r, &rows));
            printf("  %s %d", !two ? "qkv" : side == 0 ? "q" : "kv", (int)r);
            for (int64_t i = 0; i < l->side[side].rows[r]; i++)
                printf(" %lld", (long long)rows[i]);
            printf("\n");
            rt_free(rows);
        }
    for (int32_t r = 0; r < l->ranks; r++)
        printf("# rank %d: %lld queries, %lld keys, %lld visible pairs\n", (int)r,
               (long long)rt_layout_count(l, RT_SIDE_Q, r), (long long)rt_layout_count(l, RT_SIDE_KV, r),
               (long long)pairs[r]);
    printf("# max / mean pairs %.4f\n", ratio);
    return RT_OK;
}

static rt_status json_lists(rt_cli *c, const rt_layout *l, rt_side side, json_t *all)
{
    for (int32_t r = 0; r < l->ranks; r++) {
        int64_t *rows;
        json_t *list = json_array();
        RT_TRY(rows_of(c, l, side, r, &rows));
        for (int64_t i = 0; i < l->side[side].rows[r]; i++)
            json_array_append_new(list, json_integer(rows[i]));
        rt_free(rows);
        json_array_append_new(all, list);
    }
    return RT_OK;
}

static rt_status show_json(rt_cli *c, const rt_problem *p, const rt_layout *l, const int64_t *pairs,
                           double ratio)
{
    json_t *q = json_array(), *kv = json_array(), *work = json_array();
    rt_status st = RT_OK;
    if (!c->o->summary)
        st = json_lists(c, l, RT_SIDE_Q, q);
    if (!c->o->summary && st == RT_OK)
        st = json_lists(c, l, RT_SIDE_KV, kv);
    for (int32_t r = 0; r < l->ranks; r++)
        json_array_append_new(work, json_integer(pairs[r]));
    json_t *all = json_pack("{s:i, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:s, s:o, s:o, s:o, s:f}", "schema",
                            1, "ringtrue", RT_VERSION, "verb", "grid", "layout", l->name, "remainder",
                            rt_remainder_name(l->remainder), "ranks", (int)l->ranks, "seqlen",
                            (json_int_t)p->seqlen_q, "seqlen_k", (json_int_t)p->seqlen_k, "note", l->note,
                            "q", q, "kv", kv, "pairs", work, "max_over_mean", ratio);
    if (st == RT_OK && all == NULL)
        st = rt_fail(c->ctx, RT_ERR_NOMEM, "no memory for the JSON, or the layout's name is not UTF-8");
    if (st == RT_OK &&
        (json_dumpf(all, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17)) != 0 || putchar('\n') == EOF))
        st = rt_fail(c->ctx, RT_ERR_IO, "standard output could not be written");
    json_decref(all);
    return st;
}

static rt_status show_positions(rt_cli *c, const rt_problem *p, const rt_dump *from)
{
    rt_layout l;
    int64_t *pairs = NULL;
    double ratio = 1;
    RT_TRY(rt_cli_layout(c, p, from, &l));
    rt_status st = count_work(c, p, &l, &pairs, &ratio);
    if (st == RT_OK)
        st = c->o->json ? show_json(c, p, &l, pairs, ratio) : show_text(c, p, &l, pairs, ratio);
    rt_free(pairs);
    rt_layout_reset(&l);
    return st;
}

rt_status rt_cli_grid(rt_cli *c)
{
    const rt_options *o = c->o;
    if (!c->root)
        return RT_OK;
    if (o->list) {
        list_layouts();
        return RT_OK;
    }
    const bool positions = o->n_arguments > 0 || o->has_layout || o->has_ranks;
    if (o->grid.asked && positions)
        return rt_fail(
            c->ctx, RT_ERR_ARG,
            "grid prints the positions of a layout (--layout, --ranks, a dump) or the groups of a "
            "world (--world, --tp, --cp ..), one of the two");
    if (o->grid.asked)
        return rt_cli_groups(c);
    if (!positions)
        return rt_fail(
            c->ctx, RT_ERR_ARG,
            "grid needs --layout NAME --ranks P (positions), or --tp, --cp, --world .. (groups)");
    if (o->n_arguments > 0) {
        const char *flag = rt_options_problem_flag(o);
        if (flag != NULL)
            return rt_fail(
                c->ctx, RT_ERR_ARG,
                "--%s: the dump '%s' says this itself. Hint: grid takes a dump, or flags of the problem",
                flag, o->arguments[0]);
        rt_dump d;
        RT_TRY(rt_cli_open(c, 0, o->n_arguments, &d));
        const rt_status st = show_positions(c, &d.spec.problem, &d);
        rt_dump_close(&d);
        return st;
    }
    rt_problem p;
    RT_TRY(rt_options_problem(c->ctx, o, &p));
    const rt_status st = show_positions(c, &p, NULL);
    rt_problem_reset(&p);
    return st;
}
