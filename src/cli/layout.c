/* The layout that flags and spec ask for. */
#include <string.h>

#include "cli/cli.h"

static rt_status offsets(rt_cli *c, const rt_problem *p, const char *flag, int64_t n)
{
    if (n == p->documents + 1 && p->documents > 0)
        return RT_OK;
    return rt_fail(c->ctx, RT_ERR_ARG,
                   "--%s has %lld offsets; with %lld documents it needs %lld.  Hint: documents come with "
                   "cu_seqlens",
                   flag, (long long)n, (long long)p->documents,
                   (long long)(p->documents > 0 ? p->documents + 1 : 0));
}

rt_status rt_cli_layout_options(rt_cli *c, const rt_problem *p, const rt_dump *from, rt_layout_options *how)
{
    const rt_options *o = c->o;
    const rt_spec *s = from != NULL ? &from->spec : NULL;
    *how =
        (rt_layout_options){.name = o->has_layout                       ? o->layout
                                    : s != NULL && s->positions == NULL ? s->layout
                                                                        : NULL,
                            .remainder = s != NULL && !o->has_remainder ? s->remainder : o->remainder_kind,
                            .padded_q = s != NULL && !o->unpadded ? s->padded_q : NULL,
                            .padded_k = s != NULL && !o->unpadded ? s->padded_k : NULL,
                            .folder = s != NULL && !o->has_layout ? from->folder : NULL};
    if (o->n_padded_q > 0) {
        RT_TRY(offsets(c, p, "cu-seqlens-padded", o->n_padded_q));
        how->padded_q = o->padded_q;
        how->padded_k = o->padded_q;
    }
    if (o->n_padded_k > 0) {
        RT_TRY(offsets(c, p, "cu-seqlens-k-padded", o->n_padded_k));
        how->padded_k = o->padded_k;
    }
    return RT_OK;
}

rt_status rt_cli_layout(rt_cli *c, const rt_problem *p, const rt_dump *from, rt_layout *out)
{
    const rt_options *o = c->o;
    const int32_t ranks = from != NULL && !o->has_ranks ? from->spec.ranks : (int32_t)o->ranks;
    if (from == NULL || from->spec.positions == NULL || o->has_layout) {
        rt_layout_options how;
        RT_TRY(rt_cli_layout_options(c, p, from, &how));
        return rt_layout_make(c->ctx, p, &how, ranks, out);
    }
    if (ranks != from->spec.ranks)
        return rt_fail(
            c->ctx, RT_ERR_ARG,
            "--ranks %d: the dump's layout is a position list for %d ranks. Hint: give --layout too", ranks,
            from->spec.ranks);
    return rt_layout_copy(c->ctx, &from->layout, out);
}

/* One list of positions serves both sides where they are the same. */
static bool sides_differ(const rt_layout *l)
{
    const rt_layout_side *q = &l->side[RT_SIDE_Q], *k = &l->side[RT_SIDE_KV];
    if (q->length != k->length || memcmp(q->rows, k->rows, (size_t)l->ranks * sizeof *q->rows) != 0 ||
        memcmp(q->first, k->first, ((size_t)l->ranks + 1) * sizeof *q->first) != 0 ||
        memcmp(q->pos, k->pos, (size_t)q->length * sizeof *q->pos) != 0)
        return true;
    for (int64_t i = 0; i < q->length; i++)
        if (rt_layout_row(q, i) != rt_layout_row(k, i))
            return true;
    return false;
}

int64_t rt_cli_position_decls(const rt_layout *l, int32_t r, rt_tensor_decl *decl)
{
    const bool two = sides_differ(l);
    for (int side = 0; side < (two ? 2 : 1); side++)
        decl[side] = (rt_tensor_decl){.name = side == 0 ? "pos" : "pos_k",
                                      .dtype = RT_I64,
                                      .ndim = 1,
                                      .shape = {l->side[side].rows[r]}};
    return two ? 2 : 1;
}

void rt_cli_positions(const rt_layout *l, rt_side side, int32_t r, int64_t *list)
{
    const rt_layout_side *s = &l->side[side];
    const int64_t *pos = rt_layout_positions(l, side, r);
    for (int64_t i = 0; i < s->rows[r]; i++)
        list[i] = -1;
    for (int64_t i = 0; i < rt_layout_count(l, side, r); i++)
        list[rt_layout_row(s, pos[i])] = pos[i];
}

static rt_status copy_offsets(rt_context *ctx, const int64_t *from, int64_t n, int64_t **to)
{
    rt_free(*to);
    *to = NULL;
    if (from == NULL)
        return RT_OK;
    *to = rt_alloc(ctx, n, sizeof **to);
    if (*to == NULL)
        return RT_ERR_NOMEM;
    memcpy(*to, from, (size_t)n * sizeof **to);
    return RT_OK;
}

static rt_status copy_text(rt_context *ctx, const char *from, char **to)
{
    rt_free(*to);
    *to = NULL;
    if (from == NULL)
        return RT_OK;
    *to = rt_alloc(ctx, (int64_t)strlen(from) + 1, 1);
    if (*to == NULL)
        return RT_ERR_NOMEM;
    strcpy(*to, from);
    return RT_OK;
}

rt_status rt_cli_layout_spec(rt_cli *c, const rt_dump *from, const rt_layout *l, rt_spec *spec)
{
    const bool list = l->kind == RT_LAYOUT_POSITIONS;
    const int64_t n = spec->problem.documents + 1;
    rt_layout_options how;
    RT_TRY(rt_cli_layout_options(c, &spec->problem, from, &how));
    spec->ranks = l->ranks;
    spec->remainder = l->remainder;
    strcpy(spec->layout, list ? "positions" : l->name);
    RT_TRY(copy_offsets(c->ctx, list ? NULL : how.padded_q, n, &spec->padded_q));
    RT_TRY(copy_offsets(c->ctx, list ? NULL : how.padded_k, n, &spec->padded_k));
    RT_TRY(copy_text(c->ctx, list ? "pos" : NULL, &spec->positions));
    return copy_text(c->ctx, list && sides_differ(l) ? "pos_k" : NULL, &spec->positions_k);
}
