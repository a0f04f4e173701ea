/* The second half of opening a dump: its tensors found in the files, and their shapes held against the spec
 * and the layout. */
#include <inttypes.h>
#include <string.h>

#include "io/dump.h"
#include "io/file.h"

static int64_t file_ranks(const rt_dump_opener *o)
{
    return o->d.per_rank ? o->d.spec.ranks : 1;
}

/* ---- the tensors ---- */

rt_file *rt_dump_file_of(const rt_dump_opener *o, int64_t rank, const char *name)
{
    if (!o->src.npy)
        return &o->d.files[o->d.per_rank ? rank : 0];
    for (int64_t i = 0; i < o->src.count; i++) {
        if (strcmp(o->src.items[i].name, name) == 0 && (!o->d.per_rank || o->src.items[i].rank == rank))
            return &o->d.files[i];
    }
    return NULL;
}

const rt_file_tensor *rt_dump_lookup(const rt_dump_opener *o, int64_t rank, const char *name)
{
    const rt_file *f = rt_dump_file_of(o, rank, name);
    if (!f)
        return NULL;
    return o->src.npy ? &f->tensors[0] : rt_file_find(f, name);
}

rt_status rt_dump_absent(const rt_dump_opener *o, int64_t rank, const char *name)
{
    if (o->src.npy && o->src.per_rank)
        return rt_dump_missing_file(o, rank, name);
    if (o->src.npy)
        return rt_fail(o->ctx, RT_ERR_IO, "missing file '%s/%s.npy'", o->src.folder, name);
    return rt_fail(o->ctx, RT_ERR_FORMAT, "%s: tensor '%s' is missing",
                   rt_dump_file_of(o, rank, name)->path, name);
}

static rt_status find_tensor(rt_dump_opener *o, rt_tensor_id t)
{
    const char *name = o->d.spec.names[t], *usual = rt_tensor_name(t);
    int64_t ranks = file_ranks(o), have = 0, lacking = -1;
    const rt_file_tensor **found = o->found + (int64_t)t * o->d.spec.ranks;
    for (int64_t r = 0; r < ranks; r++) {
        found[r] = rt_dump_lookup(o, r, name);
        have += found[r] != NULL;
        if (!found[r] && lacking < 0)
            lacking = r;
    }
    /* absent everywhere is allowed, but not of the inputs and not of what the spec names itself */
    bool needed = t == RT_Q || t == RT_K || t == RT_V || strcmp(name, usual) != 0;
    if (have < ranks && (have > 0 || needed))
        return rt_dump_absent(o, lacking, name);
    if (have == 0)
        return RT_OK;
    rt_dtype first = found[0]->view.dtype;
    for (int64_t r = 0; r < ranks; r++) {
        rt_dtype got = found[r]->view.dtype;
        if (!rt_dtype_is_float(got))
            return rt_fail(o->ctx, RT_ERR_FORMAT, "%s: tensor '%s' is %s; %s must be a floating format",
                           rt_dump_file_of(o, r, name)->path, name, rt_dtype_name(got), usual);
        if (got != first)
            return rt_fail(o->ctx, RT_ERR_FORMAT, "%s: tensor '%s' is %s, but rank 0 has it in %s",
                           rt_dump_file_of(o, r, name)->path, name, rt_dtype_name(got),
                           rt_dtype_name(first));
    }
    o->d.present[t] = true;
    o->d.dtype[t] = first;
    return RT_OK;
}

rt_status rt_dump_find_tensors(rt_dump_opener *o)
{
    o->found = rt_calloc(o->ctx, RT_TENSOR_COUNT * (int64_t)o->d.spec.ranks, sizeof(void *));
    if (!o->found)
        return RT_ERR_NOMEM;
    for (int t = 0; t < RT_TENSOR_COUNT; t++)
        RT_TRY(find_tensor(o, (rt_tensor_id)t));
    return RT_OK;
}

/* Where (B, S, H, D) are among a stored tensor's axes; D of an LSE is not stored. */
static void axes_of(const rt_spec *s, rt_tensor_id t, int axis[4])
{
    static const int by_order[3][4] = {{0, 1, 2, 3}, {1, 0, 2, 3}, {0, 2, 1, 3}};
    static const int by_lse[3][4] = {{0, 2, 1, -1}, {0, 1, 2, -1}, {1, 0, 2, -1}};
    memcpy(axis, t == RT_LSE ? by_lse[s->lse_shape] : by_order[s->order], 4 * sizeof *axis);
}

/* The extents (B, S, H, D) that the spec gives; S is a rank's own. */
static void extents_of(const rt_problem *p, rt_tensor_id t, int64_t slots, int64_t extent[4])
{
    extent[0] = p->batch;
    extent[1] = slots;
    extent[2] = rt_dump_on_kv_side(t) ? p->heads_kv : p->heads_q;
    extent[3] = t == RT_LSE ? 1 : t == RT_Q || t == RT_K || t == RT_DQ || t == RT_DK ? p->dim : p->dim_v;
}

/* The stored view with its axes in the order (B, S, H, D), the batch axis added where it is left out.
 * Extents B, H, D are checked here, S later: it is the layout's. */
static rt_status permute(const rt_dump_opener *o, rt_tensor_id t, int64_t rank, rt_view *out)
{
    const rt_spec *s = &o->d.spec;
    const rt_view *v = &o->found[(int64_t)t * s->ranks + rank]->view;
    int axis[4];
    int64_t want[4], stored[4] = {0};
    axes_of(s, t, axis);
    extents_of(&s->problem, t, -1, want);
    int full = t == RT_LSE ? 3 : 4;
    bool no_batch = v->ndim == full - 1 && want[0] == 1;
    bool good = v->ndim == full || no_batch;
    rt_view p = {v->data, v->dtype, 4, {1, 1, 1, 1}, {0}};
    for (int a = 0; good && a < 4; a++) {
        int at = axis[a];
        if (at < 0 || (no_batch && a == 0))
            continue;
        if (no_batch && at > axis[0])
            at--;
        p.shape[a] = v->shape[at];
        p.stride[a] = v->stride[at];
        good = a == 1 || p.shape[a] == want[a];
    }
    if (good) {
        *out = p;
        return RT_OK;
    }
    char expected[160] = "(";
    size_t used = 1;
    for (int a = 0; a < 4; a++) {
        if (axis[a] >= 0)
            stored[axis[a]] = want[a];
    }
    for (int a = 0; a < full; a++)
        used +=
            (size_t)(stored[a] < 0 ? snprintf(expected + used, sizeof expected - used, "%sS", a ? ", " : "")
                                   : snprintf(expected + used, sizeof expected - used, "%s%" PRId64,
                                              a ? ", " : "", stored[a]));
    return rt_fail(o->ctx, RT_ERR_FORMAT,
                   "%s: tensor '%s' (%s) has shape %s; the spec gives %s) in order %s%s",
                   rt_dump_file_of(o, rank, s->names[t])->path, s->names[t], rt_tensor_name(t),
                   rt_shape_print(v->ndim, v->shape).text, expected,
                   t == RT_LSE ? rt_lse_shape_name(s->lse_shape) : rt_order_name(s->order),
                   want[0] == 1 ? ", the batch axis may be left out" : "");
}

static rt_status permute_all(rt_dump_opener *o)
{
    int32_t ranks = o->d.spec.ranks;
    o->d.views = rt_calloc(o->ctx, RT_RESULT_COUNT * (int64_t)ranks, sizeof *o->d.views);
    if (!o->d.views)
        return RT_ERR_NOMEM;
    for (int t = 0; t < RT_TENSOR_COUNT; t++) {
        for (int64_t r = 0; o->d.present[t] && r < file_ranks(o); r++)
            RT_TRY(permute(o, (rt_tensor_id)t, r, &o->d.views[(int64_t)t * ranks + r]));
    }
    return RT_OK;
}

/* ---- the layout ---- */

/* Rows of q and k that the spec speaks of: tokens, and padding where it says how much. */
static int64_t rows_wanted(const rt_spec *s, int side)
{
    const int64_t *padded = side ? s->padded_k : s->padded_q;
    return padded ? padded[s->problem.documents] : side ? s->problem.seqlen_k : s->problem.seqlen_q;
}

/* The lengths of q and k over all files.  Comes before the layout is built, so that a wrong length in the
 * spec is an error of the spec and not an attempt to list its positions. */
static rt_status check_lengths(const rt_dump_opener *o)
{
    const rt_spec *s = &o->d.spec;
    for (int side = 0; side < 2; side++) {
        rt_tensor_id t = side ? RT_K : RT_Q;
        int64_t total = 0, want = rows_wanted(s, side);
        for (int64_t r = 0; r < file_ranks(o); r++) {
            if (__builtin_add_overflow(total, o->d.views[(int64_t)t * o->d.spec.ranks + r].shape[1],
                                       &total))
                total = INT64_MAX;
        }
        if (total < want || (total > want && !s->positions)) /* a list may name rows that are padding */
            return rt_fail(o->ctx, RT_ERR_FORMAT,
                           "%s: key \"%s\" %s %" PRId64 ", but tensor '%s' has %" PRId64
                           " tokens in %" PRId64 " file%s in order %s",
                           o->where,
                           s->padded_q ? (side ? "cu_seqlens_k_padded" : "cu_seqlens_padded")
                           : side      ? "seqlen_k"
                                       : "seqlen",
                           s->padded_q ? "ends with" : "is", want, o->d.spec.names[t], total, file_ranks(o),
                           file_ranks(o) == 1 ? "" : "s", rt_order_name(o->d.spec.order));
    }
    return RT_OK;
}

/* Append one rank's positions from its integer tensor. */
static rt_status read_positions(const rt_dump_opener *o, int64_t rank, const char *name, int64_t expected,
                                int64_t *list)
{
    const rt_file_tensor *t = rt_dump_lookup(o, rank, name);
    if (!t)
        return rt_dump_absent(o, rank, name);
    const rt_view *v = &t->view;
    if (v->ndim != 1 || (v->dtype != RT_I32 && v->dtype != RT_I64))
        return rt_fail(o->ctx, RT_ERR_FORMAT,
                       "%s: positions '%s' must be one axis of i32 or i64, are %s %s",
                       rt_dump_file_of(o, rank, name)->path, name, rt_dtype_name(v->dtype),
                       rt_shape_print(v->ndim, v->shape).text);
    if (v->shape[0] != expected)
        return rt_fail(o->ctx, RT_ERR_FORMAT,
                       "%s: positions '%s' list %" PRId64 " slots, but rank %" PRId64
                       "'s tensors have %" PRId64,
                       rt_dump_file_of(o, rank, name)->path, name, v->shape[0], rank, expected);
    for (int64_t i = 0; i < expected; i++) {
        int32_t small;
        if (v->dtype == RT_I32) {
            memcpy(&small, rt_view_at(v, &i), sizeof small);
            list[i] = small;
        } else {
            memcpy(&list[i], rt_view_at(v, &i), sizeof list[i]);
        }
    }
    return RT_OK;
}

static rt_status build_from_positions(rt_dump_opener *o)
{
    const rt_spec *s = &o->d.spec;
    if (!o->d.per_rank)
        return rt_fail(
            o->ctx, RT_ERR_FORMAT,
            "%s: layout positions '%s' need one file per rank; the dump is one global file and ranks is "
            "%" PRId32,
            o->where, s->positions, s->ranks);
    rt_status st = RT_ERR_NOMEM;
    int64_t *n[2] = {NULL, NULL}, *pos[2] = {NULL, NULL};
    for (int side = 0; side < 2; side++) {
        const rt_view *v = &o->d.views[(int64_t)(side ? RT_K : RT_Q) * s->ranks];
        const char *name = side && s->positions_k ? s->positions_k : s->positions;
        n[side] = rt_alloc(o->ctx, s->ranks, sizeof **n);
        int64_t at = 0;
        for (int32_t r = 0; r < s->ranks; r++)
            at += v[r].shape[1]; /* checked by check_lengths not to overflow */
        pos[side] = rt_alloc(o->ctx, at, sizeof **pos);
        if (!n[side] || !pos[side])
            goto free_lists;
        at = 0;
        for (int32_t r = 0; r < s->ranks; r++) {
            n[side][r] = v[r].shape[1];
            st = read_positions(o, r, name, n[side][r], pos[side] + at);
            if (st != RT_OK)
                goto free_lists;
            at += n[side][r];
        }
        st = RT_ERR_NOMEM;
    }
    rt_context inner = {0};
    st = rt_layout_from_positions(&inner, &s->problem, s->ranks, n[0], pos[0], n[1], pos[1], &o->d.layout);
    if (st != RT_OK)
        st = rt_fail(o->ctx, st, "%s: positions '%s'%s%s: %s", o->src.folder, s->positions,
                     s->positions_k ? " and " : "", s->positions_k ? s->positions_k : "", inner.message);
free_lists:
    for (int side = 0; side < 2; side++) {
        rt_free(n[side]);
        rt_free(pos[side]);
    }
    return st;
}

static rt_status build_layout(rt_dump_opener *o)
{
    const rt_spec *s = &o->d.spec;
    if (s->positions)
        return build_from_positions(o);
    rt_context inner = {0};
    const rt_layout_options how = {s->layout, s->remainder, s->padded_q, s->padded_k, o->src.folder};
    rt_status st = rt_layout_make(&inner, &s->problem, &how, s->ranks, &o->d.layout);
    if (st == RT_OK)
        return st;
    return rt_fail(o->ctx, st == RT_ERR_ARG ? RT_ERR_FORMAT : st, "%s: %s", o->where, inner.message);
}

/* S of every tensor of every rank against the layout. */
static rt_status check_slots(const rt_dump_opener *o)
{
    const rt_spec *s = &o->d.spec;
    for (int t = 0; t < RT_TENSOR_COUNT; t++) {
        rt_side side = rt_dump_on_kv_side((rt_tensor_id)t) ? RT_SIDE_KV : RT_SIDE_Q;
        for (int64_t r = 0; o->d.present[t] && r < file_ranks(o); r++) {
            int64_t got = o->d.views[(int64_t)t * s->ranks + r].shape[1];
            int64_t want = o->d.per_rank ? o->d.layout.side[side].rows[r] : o->d.layout.side[side].padded;
            if (got == want)
                continue;
            if (!o->d.per_rank || s->positions)
                return rt_fail(o->ctx, RT_ERR_FORMAT,
                               "%s: tensor '%s' has %" PRId64 " tokens, expected are %" PRId64,
                               rt_dump_file_of(o, r, s->names[t])->path, s->names[t], got, want);
            return rt_fail(o->ctx, RT_ERR_FORMAT,
                           "%s: tensor '%s' of rank %" PRId64 ": layout %s (remainder %s, ranks %" PRId32
                           ") gives %" PRId64 " slots, the file has %" PRId64
                           ". Hint: another \"remainder\", or \"layout\": {\"positions\": NAME}",
                           rt_dump_file_of(o, r, s->names[t])->path, s->names[t], r, s->layout,
                           rt_remainder_name(s->remainder), s->ranks, want, got);
        }
    }
    return RT_OK;
}

/* Rows must be contiguous: a tensor of Fortran order is copied, dense in (B, S, H, D). */
static rt_status make_dense(rt_dump_opener *o, rt_view *v, rt_file *f)
{
    size_t size = rt_dtype_size(v->dtype);
    rt_view dense = *v;
    rt_view_set_strides(&dense, false);
    int64_t rows = v->shape[0] * v->shape[1] * v->shape[2], n = v->shape[3], row = 0;
    char *copy = rt_alloc(o->ctx, rows * n, size);
    if (!copy)
        return RT_ERR_NOMEM;
    for (int64_t b = 0; b < v->shape[0]; b++) {
        for (int64_t s = 0; s < v->shape[1]; s++) {
            for (int64_t h = 0; h < v->shape[2]; h++, row++) {
                for (int64_t i = 0; i < n; i++)
                    memcpy(copy + (size_t)(row * n + i) * size, rt_view_at(v, (int64_t[]){b, s, h, i}),
                           size);
            }
        }
    }
    rt_free(f->owned);
    f->owned = copy;
    dense.data = copy;
    *v = dense;
    f->tensors[0].view = dense;
    return RT_OK;
}

static rt_status make_all_dense(rt_dump_opener *o)
{
    for (int t = 0; o->src.npy && t < RT_RESULT_COUNT; t++) {
        for (int64_t r = 0; o->d.present[t] && r < file_ranks(o); r++) {
            rt_view *v = &o->d.views[(int64_t)t * o->d.spec.ranks + r];
            if (v->shape[3] > 1 && v->stride[3] != 1)
                RT_TRY(make_dense(o, v, rt_dump_file_of(o, r, o->d.spec.names[t])));
        }
    }
    return RT_OK;
}

rt_status rt_dump_check(rt_dump_opener *o)
{
    RT_TRY(permute_all(o));
    RT_TRY(check_lengths(o));
    RT_TRY(build_layout(o));
    RT_TRY(check_slots(o));
    RT_TRY(rt_dump_check_scores(o));
    return make_all_dense(o);
}
