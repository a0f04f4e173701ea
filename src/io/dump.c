/* A dump: its files opened, its spec found, its layout built, and every tensor's shape checked against
 * both, so that what reads rows afterwards needs no check.
 *
 * Order of the work: files by name -> spec -> ranks (here) -> tensors -> lengths -> layout (dump_check.c).
 */
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <sys/stat.h>

#include "io/dump.h"
#include "io/file.h"

/* ---- the spec ---- */

static rt_status parse_spec(rt_dump_opener *o, const char *text, size_t size, rt_dtype input)
{
    rt_spec s = {0};
    RT_TRY(rt_spec_parse(o->ctx, text, size, o->where, input, &s));
    rt_spec_reset(&o->d.spec);
    o->d.spec = s;
    return RT_OK;
}

/* The text of the spec: of the file given, of the first file's metadata, or of spec.json.  `file` is the
 * mapping that holds it, if one does. */
static rt_status find_spec(rt_dump_opener *o, const char *spec_path, rt_mapping *file, const char **text,
                           size_t *size)
{
    const char *inside = o->src.npy ? NULL : o->d.files[0].metadata;
    if (!spec_path && inside) {
        o->where = rt_text_format(o->ctx, "%s: metadata \"ringtrue\"", o->d.files[0].path);
        *text = inside;
        *size = strlen(inside);
        return o->where ? RT_OK : RT_ERR_NOMEM;
    }
    o->where =
        spec_path ? rt_text_copy(o->ctx, spec_path) : rt_text_format(o->ctx, "%s/spec.json", o->src.folder);
    if (!o->where)
        return RT_ERR_NOMEM;
    struct stat info;
    if (!spec_path && stat(o->where, &info) != 0)
        return rt_fail(o->ctx, RT_ERR_IO,
                       "'%s' has no spec: no metadata key \"ringtrue\" and no '%s'. Hint: --spec FILE",
                       o->src.items[0].path, o->where);
    RT_TRY(rt_mapping_open(o->ctx, o->where, file));
    *text = file->map ? file->map : "";
    *size = file->size;
    return RT_OK;
}

/* ---- the files ---- */

static rt_status open_one(rt_dump_opener *o, int64_t i)
{
    const rt_source *s = &o->src.items[i];
    rt_context inner = {0};
    rt_status st = rt_file_open(&inner, s->path, &o->d.files[i]);
    if (st != RT_OK && s->rank >= 0)
        return rt_fail(o->ctx, st, "rank %" PRId64 ": %s", s->rank, inner.message);
    return st == RT_OK ? st : rt_fail(o->ctx, st, "%s", inner.message);
}

rt_status rt_dump_missing_file(const rt_dump_opener *o, int64_t rank, const char *name)
{
    int32_t ranks = o->d.spec.ranks;
    if (o->src.listed)
        return rt_fail(o->ctx, RT_ERR_IO,
                       "the list of %" PRId64 " files has no file for rank %" PRId64 " of %" PRId32 "%s%s",
                       o->src.count, rank, ranks, name ? ", tensor " : "", name ? name : "");
    return rt_fail(o->ctx, RT_ERR_IO,
                   "missing file '%s/rank%" PRId64 "%s%s.%s': rank %" PRId64 " of %" PRId32, o->src.folder,
                   rank, name ? "." : "", name ? name : "", name ? "npy" : "safetensors", rank, ranks);
}

/* One file per rank: exactly ranks 0 .. P-1. */
static rt_status check_ranks(const rt_dump_opener *o)
{
    int64_t ranks = o->d.spec.ranks, i = 0;
    for (int64_t r = 0; r < ranks; r++) {
        if (i == o->src.count || o->src.items[i].rank != r)
            return rt_dump_missing_file(o, r, NULL);
        i++;
        while (o->src.npy && i < o->src.count && o->src.items[i].rank == r)
            i++;
    }
    if (i < o->src.count)
        return rt_fail(o->ctx, RT_ERR_FORMAT,
                       "surplus file '%s': it would be rank %" PRId64 ", but the spec gives ranks %" PRId64
                       " (0 to %" PRId64 ")",
                       o->src.items[i].path, o->src.items[i].rank, ranks, ranks - 1);
    return RT_OK;
}

static bool name_used(const rt_spec *s, const char *name)
{
    for (int t = 0; t < RT_NAME_COUNT; t++) {
        if (s->names[t] && strcmp(s->names[t], name) == 0)
            return true;
    }
    return (s->positions && strcmp(s->positions, name) == 0) ||
           (s->dense_mask && strcmp(s->dense_mask, name) == 0) ||
           (s->positions_k && strcmp(s->positions_k, name) == 0);
}

/* npy files that the spec does not speak of are not opened. */
static void drop_unused(rt_dump_opener *o)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < o->src.count; i++) {
        rt_source *s = &o->src.items[i];
        if (name_used(&o->d.spec, s->name)) {
            o->src.items[kept++] = *s;
        } else {
            rt_free(s->path);
            rt_free(s->name);
        }
    }
    o->src.count = kept;
}

static rt_status open_rest(rt_dump_opener *o)
{
    o->d.per_rank = o->src.per_rank;
    if (o->d.spec.ranks == 1) { /* one rank: its file is the global one, whatever its name */
        o->d.per_rank = true;
        for (int64_t i = 0; i < o->src.count && !o->src.per_rank; i++)
            o->src.items[i].rank = 0;
    }
    if (o->d.per_rank)
        RT_TRY(check_ranks(o));
    if (o->src.npy)
        drop_unused(o);
    for (int64_t i = o->src.npy ? 0 : 1; i < o->src.count; i++) {
        RT_TRY(open_one(o, i));
        o->d.n_files = i + 1;
    }
    return RT_OK;
}

/* Two specs in one dump: which one is meant? */
static rt_status check_metadata(const rt_dump_opener *o)
{
    const char *first = o->d.files[0].metadata;
    for (int64_t i = 1; i < o->d.n_files; i++) {
        const char *m = o->d.files[i].metadata;
        if (m && strcmp(m, first) != 0)
            return rt_fail(
                o->ctx, RT_ERR_FORMAT,
                "%s: metadata \"ringtrue\" differs from that of '%s'. Hint: --spec FILE overrides both",
                o->d.files[i].path, o->d.files[0].path);
    }
    return RT_OK;
}

/* ---- opening ---- */

static rt_status open_dump(rt_dump_opener *o, const char *spec_path, rt_mapping *spec_file)
{
    const char *text = NULL;
    size_t size = 0;
    o->d.files = rt_calloc(o->ctx, o->src.count, sizeof *o->d.files);
    if (!o->d.files)
        return RT_ERR_NOMEM;
    if (!o->src.npy) {
        RT_TRY(open_one(o, 0));
        o->d.n_files = 1;
    }
    RT_TRY(find_spec(o, spec_path, spec_file, &text, &size));
    RT_TRY(parse_spec(o, text, size, RT_F32));
    RT_TRY(open_rest(o));
    if (!spec_path && text == o->d.files[0].metadata)
        RT_TRY(check_metadata(o));
    RT_TRY(rt_dump_find_tensors(o));
    /* undeclared arithmetic is assumed from q's dtype, known only now */
    RT_TRY(parse_spec(o, text, size, o->d.dtype[RT_Q]));
    RT_TRY(rt_dump_dense_mask(o, spec_path));
    return rt_dump_check(o);
}

rt_status rt_dump_open(rt_context *ctx, const char *const *paths, int64_t n_paths, const char *spec_path,
                       rt_dump *out)
{
    rt_dump_opener o = {0};
    rt_mapping spec_file = {NULL, 0};
    o.ctx = ctx;
    RT_TRY(rt_sources_find(ctx, paths, n_paths, &o.src));
    rt_status st = RT_ERR_NOMEM;
    o.d.path = rt_text_copy(ctx, paths[0]);
    if (o.d.path)
        st = open_dump(&o, spec_path, &spec_file);
    rt_mapping_close(&spec_file);
    if (st != RT_OK)
        rt_free(o.src.folder);
    else
        o.d.folder = o.src.folder;
    o.src.folder = NULL;
    rt_sources_reset(&o.src);
    rt_free(o.found);
    rt_free(o.where);
    if (st == RT_OK)
        *out = o.d;
    else
        rt_dump_close(&o.d);
    return st;
}

void rt_dump_close(rt_dump *d)
{
    if (!d)
        return;
    for (int64_t i = 0; i < d->n_files; i++)
        rt_file_close(&d->files[i]);
    rt_free(d->files);
    rt_free(d->views);
    rt_free(d->path);
    rt_free(d->folder);
    rt_layout_reset(&d->layout);
    rt_spec_reset(&d->spec);
    memset(d, 0, sizeof *d);
}

/* ---- reading ---- */

const void *rt_dump_row(const rt_dump *d, rt_tensor_id t, int64_t b, int64_t pos, int64_t h)
{
    const rt_view *v = d->views + (int64_t)t * d->spec.ranks;
    if (t == RT_DSINK || (t == RT_DBIAS && !rt_dump_by_query(&d->spec.problem))) /* rank 0's, as it is */
        return rt_view_at(v, (int64_t[]){b, pos, h, 0});
    const rt_layout_side *side = &d->layout.side[rt_dump_on_kv_side(t) ? RT_SIDE_KV : RT_SIDE_Q];
    int64_t row = d->per_rank ? rt_layout_row(side, pos) : rt_layout_global_row(side, pos);
    if (d->per_rank)
        v += side->rank_of[pos];
    int64_t at = b * v->stride[0] + row * v->stride[1] + h * v->stride[2];
    return (const char *)v->data + at * (int64_t)rt_dtype_size(v->dtype);
}

void rt_dump_load(const rt_dump *d, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, double *row)
{
    const rt_view *v = d->views + (int64_t)t * d->spec.ranks;
    const char *at = rt_dump_row(d, t, b, pos, h);
#if defined(__GNUC__)
    /* Rows of one head are strides apart, too far for the processor to guess: it is told where a reader in order will be soon. */
    const int64_t size = (int64_t)rt_dtype_size(v->dtype), ahead = 6 * v->stride[1] * size;
    const uintptr_t soon = (uintptr_t)at + (uintptr_t)ahead;
    for (int64_t line = 0; line < v->shape[3] * size; line += 64)
        __builtin_prefetch(
            (const void *)(soon + (uintptr_t)line)); /* an address, never read: it may lie outside */
#endif
    rt_load(v->dtype, at, v->shape[3], row);
}

void rt_dump_release(rt_dump *d)
{
    size_t total = 0;
    for (int64_t i = 0; i < d->n_files; i++)
        total += d->files[i].map_size;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const int64_t now = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    int64_t last = __atomic_load_n(&d->released, __ATOMIC_RELAXED);
    if (total < (size_t)1 << 30 || now - last < 100 ||
        !__atomic_compare_exchange_n(&d->released, &last, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    for (int64_t i = 0; i < d->n_files; i++)
        if (d->files[i].map != NULL)
            (void)madvise(d->files[i].map, d->files[i].map_size, MADV_DONTNEED);
}
