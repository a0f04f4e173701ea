/* Which files make a dump.  In a folder: rank0.safetensors and so on; else the only *.safetensors; else
 * rank0.q.npy and so on; else q.npy and so on.  In a list: the i-th safetensors file is rank i's. */
#include "io/sources.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/file.h"

typedef enum { RANK_SAFETENSORS, ONE_SAFETENSORS, RANK_NPY, ONE_NPY, N_KINDS, NO_TENSORS = N_KINDS } kind;

static void source_reset(rt_source *s)
{
    rt_free(s->path);
    rt_free(s->name);
    memset(s, 0, sizeof *s);
}

void rt_sources_reset(rt_sources *s)
{
    for (int64_t i = 0; i < s->count; i++)
        source_reset(&s->items[i]);
    rt_free(s->items);
    rt_free(s->folder);
    memset(s, 0, sizeof *s);
}

/* "rank12." gives 12 and what follows; NULL when the name does not begin so. */
static const char *take_rank(const char *base, int64_t *rank)
{
    if (strncmp(base, "rank", 4) != 0)
        return NULL;
    const char *at = base + 4;
    int64_t r = 0;
    while (*at >= '0' && *at <= '9' && at - base < 4 + 9)
        r = 10 * r + (*at++ - '0');
    if (at == base + 4 || *at != '.' || (base[4] == '0' && at > base + 5)) /* rank007 is not rank 7 */
        return NULL;
    *rank = r;
    return at + 1;
}

/* What a file is by its name: rank, and for npy the tensor's name (a range of `base`). */
static kind classify(const char *base, int64_t *rank, const char **name, size_t *name_length)
{
    size_t n = strlen(base);
    const char *rest = take_rank(base, rank);
    if (!rest)
        *rank = -1;
    if (n > 12 && strcmp(base + n - 12, ".safetensors") == 0)
        return rest && strcmp(rest, "safetensors") == 0 ? RANK_SAFETENSORS : ONE_SAFETENSORS;
    if (n > 4 && strcmp(base + n - 4, ".npy") == 0) {
        bool ranked = rest && strlen(rest) > 4;
        *name = ranked ? rest : base;
        *name_length = n - (size_t)(*name - base) - 4;
        if (!ranked)
            *rank = -1;
        return ranked ? RANK_NPY : ONE_NPY;
    }
    return NO_TENSORS;
}

static rt_status add(rt_context *ctx, rt_sources *s, int64_t *room, rt_source item)
{
    if (s->count == *room) {
        int64_t more = *room * 2 + 16;
        rt_source *items = rt_alloc(ctx, more, sizeof *items);
        if (!items)
            return RT_ERR_NOMEM;
        if (s->count)
            memcpy(items, s->items, (size_t)s->count * sizeof *items);
        rt_free(s->items);
        s->items = items;
        *room = more;
    }
    s->items[s->count++] = item;
    return RT_OK;
}

static rt_status add_file(rt_context *ctx, rt_sources *s, int64_t *room, const char *path, int64_t rank,
                          const char *name, size_t name_length)
{
    rt_source item = {NULL, rank, NULL};
    item.path = rt_text_copy(ctx, path);
    if (name)
        item.name = rt_text_copy_n(ctx, name, name_length);
    rt_status st = !item.path || (name && !item.name) ? RT_ERR_NOMEM : add(ctx, s, room, item);
    if (st != RT_OK)
        source_reset(&item);
    return st;
}

/* One pass over a folder: counts[kind], or, with `wanted`, the files of that kind. */
static rt_status scan(rt_context *ctx, const char *folder, int64_t counts[N_KINDS], kind wanted,
                      rt_sources *s)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return rt_fail(ctx, RT_ERR_IO, "cannot open the folder '%s': %s", folder, strerror(errno));
    rt_status st = RT_OK;
    int64_t room = s->count;
    struct dirent *entry;
    while (st == RT_OK && (entry = readdir(dir)) != NULL) {
        int64_t rank;
        const char *name = NULL;
        size_t length = 0;
        kind k = classify(entry->d_name, &rank, &name, &length);
        if (k == NO_TENSORS)
            continue;
        if (counts)
            counts[k]++;
        if (k != wanted)
            continue;
        char *path = rt_text_format(ctx, "%s/%s", folder, entry->d_name);
        st = path ? add_file(ctx, s, &room, path, k == ONE_SAFETENSORS ? -1 : rank, name, length)
                  : RT_ERR_NOMEM;
        rt_free(path);
    }
    closedir(dir);
    return st;
}

static rt_status find_in_folder(rt_context *ctx, const char *folder, rt_sources *s)
{
    int64_t counts[N_KINDS] = {0};
    s->folder = rt_text_copy(ctx, folder);
    if (!s->folder)
        return RT_ERR_NOMEM;
    RT_TRY(scan(ctx, folder, counts, NO_TENSORS, s));
    kind k = RANK_SAFETENSORS;
    while (k < N_KINDS && counts[k] == 0)
        k++;
    if (k == NO_TENSORS)
        return rt_fail(
            ctx, RT_ERR_IO,
            "'%s' holds no dump: neither rank0.safetensors .., nor one *.safetensors, nor rank0.q.npy .., "
            "nor q.npy ..",
            folder);
    if (k == ONE_SAFETENSORS && counts[k] > 1)
        return rt_fail(ctx, RT_ERR_FORMAT,
                       "'%s' holds %" PRId64
                       " safetensors files and none is named rank0.safetensors. Hint: name the "
                       "files rank0.safetensors .., or list them in the order of the ranks",
                       folder, counts[k]);
    s->per_rank = k == RANK_SAFETENSORS || k == RANK_NPY;
    s->npy = k == RANK_NPY || k == ONE_NPY;
    return scan(ctx, folder, NULL, k, s);
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static rt_status find_in_list(rt_context *ctx, const char *const *paths, int64_t n, rt_sources *s)
{
    int64_t room = 0, ranked = 0, npy = 0;
    s->listed = true;
    const char *base = base_of(paths[0]);
    s->folder = base == paths[0]
                    ? rt_text_copy(ctx, ".")
                    : rt_text_copy_n(ctx, paths[0], (size_t)(base - paths[0]) - (base - paths[0] > 1));
    if (!s->folder)
        return RT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) {
        int64_t rank;
        const char *name = NULL;
        size_t length = 0;
        kind k = classify(base_of(paths[i]), &rank, &name, &length);
        ranked += k == RANK_NPY;
        npy += k == RANK_NPY || k == ONE_NPY;
        if (!name)
            rank = n > 1 ? i : -1; /* safetensors: by place in the list, whatever their names */
        RT_TRY(add_file(ctx, s, &room, paths[i], rank, name, length));
    }
    if (npy != 0 && (npy != n || (ranked != 0 && ranked != n)))
        return rt_fail(
            ctx, RT_ERR_FORMAT,
            "a list of files must be safetensors, or rank0.q.npy .., or q.npy .., not a mixture");
    s->npy = npy > 0;
    s->per_rank = s->npy ? ranked > 0 : n > 1;
    return RT_OK;
}

static int source_order(const void *a, const void *b)
{
    const rt_source *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->name && y->name ? strcmp(x->name, y->name) : 0;
}

rt_status rt_sources_find(rt_context *ctx, const char *const *paths, int64_t n_paths, rt_sources *out)
{
    if (n_paths < 1)
        return rt_fail(ctx, RT_ERR_ARG, "no dump given; give a folder, a file, or a list of files");
    rt_sources s = {0};
    struct stat info;
    rt_status st;
    if (n_paths == 1 && stat(paths[0], &info) == 0 && S_ISDIR(info.st_mode))
        st = find_in_folder(ctx, paths[0], &s);
    else
        st = find_in_list(ctx, paths, n_paths, &s);
    if (st != RT_OK) {
        rt_sources_reset(&s);
        return st;
    }
    qsort(s.items, (size_t)s.count, sizeof *s.items, source_order);
    *out = s;
    return RT_OK;
}
