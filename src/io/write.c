/* The safetensors writer: the file is created at its full size, its blocks reserved, and mapped, so that
 * the caller fills tensors in any order and a full disk is an error at creation and not a signal later. */
#include "io/file.h"
#include "io/json.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static rt_status check_decls(rt_context *ctx, const char *path, const rt_tensor_decl *t, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        bool shape_good = t[i].ndim >= 0 && t[i].ndim <= RT_MAX_DIMS;
        for (int32_t d = 0; shape_good && d < t[i].ndim; d++)
            shape_good = t[i].shape[d] >= 0;
        if (!shape_good)
            return rt_fail(ctx, RT_ERR_ARG, "%s: tensor %s: shape must be at most %d non-negative extents",
                           path, rt_text_excerpt(t[i].name).text, RT_MAX_DIMS);
        if (!rt_safetensors_dtype(t[i].dtype))
            return rt_fail(ctx, RT_ERR_ARG, "%s: tensor %s: dtype %s is no format of a file", path,
                           rt_text_excerpt(t[i].name).text, rt_dtype_name(t[i].dtype));
        bool name_good = strcmp(t[i].name, "__metadata__") != 0;
        for (int64_t j = 0; name_good && j < i; j++)
            name_good = strcmp(t[i].name, t[j].name) != 0;
        if (!name_good)
            return rt_fail(ctx, RT_ERR_ARG, "%s: tensor name %s is taken; names must differ", path,
                           rt_text_excerpt(t[i].name).text);
    }
    return RT_OK;
}

/* Offsets of the tensors in the data section, elements of 8 bytes first, then 4, 2, 1: with the start of
 * the data at a multiple of 64, every tensor is aligned to its element. */
static rt_status place(rt_context *ctx, const char *path, const rt_tensor_decl *t, int64_t count,
                       int64_t *offset, int64_t *order, int64_t *total)
{
    int64_t at = 0, placed = 0;
    for (size_t size = 8; size >= 1; size /= 2) {
        for (int64_t i = 0; i < count; i++) {
            if (rt_dtype_size(t[i].dtype) != size)
                continue;
            int64_t bytes;
            if (!rt_dense_bytes(t[i].dtype, t[i].ndim, t[i].shape, &bytes) ||
                __builtin_add_overflow(at, bytes, total))
                return rt_fail(ctx, RT_ERR_ARG, "%s: tensor %s: the size overflows 64 bits", path,
                               rt_text_excerpt(t[i].name).text);
            order[placed++] = i;
            offset[i] = at;
            at = *total;
        }
    }
    *total = at;
    return RT_OK;
}

/* {"dtype":..,"shape":[..],"data_offsets":[..]}; NULL when memory is out. */
static json_t *entry_make(const rt_tensor_decl *t, int64_t offset)
{
    int64_t bytes = 0;
    (void)rt_dense_bytes(t->dtype, t->ndim, t->shape, &bytes); /* checked by place */
    json_t *shape = json_array();
    int bad = !shape;
    for (int32_t d = 0; !bad && d < t->ndim; d++)
        bad |= json_array_append_new(shape, json_integer(t->shape[d]));
    if (bad) {
        json_decref(shape);
        return NULL;
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", rt_safetensors_dtype(t->dtype), "shape", shape,
                     "data_offsets", (json_int_t)offset, (json_int_t)(offset + bytes));
}

/* The header's text without padding, from the JSON library (free). */
static rt_status header_make(rt_context *ctx, const char *path, const rt_tensor_decl *t, int64_t count,
                             const int64_t *offset, const int64_t *order, const char *metadata, char **text)
{
    rt_status st = RT_ERR_NOMEM;
    json_t *root = json_object();
    if (!root)
        return rt_fail(ctx, st, "%s: no memory for the header", path);
    if (metadata) {
        json_t *m = json_pack("{s:s}", "ringtrue", metadata);
        if (!m || json_object_set_new(root, "__metadata__", m) != 0) {
            st = rt_fail(ctx, RT_ERR_ARG, "%s: the metadata must be UTF-8", path);
            goto free_root;
        }
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t id = order[i];
        json_t *entry = entry_make(&t[id], offset[id]);
        if (!entry) {
            st = rt_fail(ctx, RT_ERR_NOMEM, "%s: no memory for the header", path);
            goto free_root;
        }
        if (json_object_set_new(root, t[id].name, entry) != 0) {
            st = rt_fail(ctx, RT_ERR_ARG, "%s: tensor name %s must be UTF-8", path,
                         rt_text_excerpt(t[id].name).text);
            goto free_root;
        }
    }
    *text = json_dumps(root, JSON_COMPACT);
    st = *text ? RT_OK : rt_fail(ctx, RT_ERR_NOMEM, "%s: no memory for the header", path);
free_root:
    json_decref(root);
    return st;
}

/* Create, reserve and map `size` bytes at path. */
static rt_status storage_make(rt_context *ctx, const char *path, int64_t size, void **map)
{
    rt_status st = RT_OK;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return rt_fail(ctx, RT_ERR_IO, "cannot create '%s': %s", path, strerror(errno));
    int err = posix_fallocate(fd, 0, (off_t)size);
    if (err != 0) {
        st = rt_fail(ctx, RT_ERR_IO, "cannot reserve %lld bytes for '%s': %s", (long long)size, path,
                     strerror(err));
        goto close_fd;
    }
    *map = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*map == MAP_FAILED)
        st = rt_fail(ctx, RT_ERR_IO, "cannot map '%s': %s", path, strerror(errno));
close_fd:
    close(fd);
    if (st != RT_OK)
        (void)unlink(path);
    return st;
}

static void writer_release(rt_file_writer *w)
{
    rt_free(w->data);
    rt_free(w->path);
    memset(w, 0, sizeof *w);
}

rt_status rt_file_create(rt_context *ctx, const char *path, const rt_tensor_decl *tensors, int64_t count,
                         const char *metadata, rt_file_writer *out)
{
    RT_TRY(check_decls(ctx, path, tensors, count));
    rt_file_writer w = {0};
    char *text = NULL;
    rt_status st = RT_ERR_NOMEM;
    int64_t total = 0;
    int64_t *offset = rt_alloc(ctx, count, 2 * sizeof *offset);
    if (!offset)
        return st;
    int64_t *order = offset + count;
    st = place(ctx, path, tensors, count, offset, order, &total);
    if (st != RT_OK)
        goto free_offset;
    st = header_make(ctx, path, tensors, count, offset, order, metadata, &text);
    if (st != RT_OK)
        goto free_offset;

    int64_t used = (int64_t)strlen(text), start = (8 + used + 63) / 64 * 64, size;
    if (__builtin_add_overflow(start, total, &size)) {
        st = rt_fail(ctx, RT_ERR_ARG, "%s: the file's size overflows 64 bits", path);
        goto free_text;
    }
    st = RT_ERR_NOMEM;
    w.path = rt_text_copy(ctx, path);
    w.data = rt_calloc(ctx, count, sizeof *w.data);
    if (!w.path || !w.data)
        goto release;
    st = storage_make(ctx, path, size, &w.map);
    if (st != RT_OK)
        goto release;
    w.map_size = (size_t)size;
    w.count = count;
    char *bytes = w.map;
    uint64_t length = (uint64_t)start - 8;
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(unsigned char)(length >> (8 * i) & 0xff);
    memcpy(bytes + 8, text, (size_t)used);
    memset(bytes + 8 + used, ' ', (size_t)(start - 8 - used));
    for (int64_t i = 0; i < count; i++)
        w.data[i] = bytes + start + offset[i];
    *out = w;
    goto free_text;

release:
    writer_release(&w);
free_text:
    free(text);
free_offset:
    rt_free(offset);
    return st;
}

rt_status rt_file_finish(rt_context *ctx, rt_file_writer *w)
{
    rt_status st = RT_OK;
    if (msync(w->map, w->map_size, MS_SYNC) != 0) {
        st = rt_fail(ctx, RT_ERR_IO, "cannot write '%s': %s", w->path, strerror(errno));
        (void)unlink(w->path);
    }
    munmap(w->map, w->map_size);
    writer_release(w);
    return st;
}

void rt_file_abandon(rt_file_writer *w)
{
    if (!w || !w->map)
        return;
    munmap(w->map, w->map_size);
    (void)unlink(w->path);
    writer_release(w);
}
