/* Files as mappings: a file is mapped private and read-only, its size is known before a byte is
 * touched, and everything the readers hand out points into the mapping. */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

rt_status rt_mapping_open(rt_context *ctx, const char *path, rt_mapping *out)
{
    /* non-blocking: a FIFO in the place of a file must be refused, not waited for */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return rt_fail(ctx, RT_ERR_IO, "cannot open '%s': %s", path, strerror(errno));
    rt_status st = RT_OK;
    struct stat info;
    rt_mapping m = {NULL, 0};
    if (fstat(fd, &info) != 0) {
        st = rt_fail(ctx, RT_ERR_IO, "cannot get the size of '%s': %s", path, strerror(errno));
        goto close_fd;
    }
    if (!S_ISREG(info.st_mode)) {
        st = rt_fail(ctx, RT_ERR_IO, "'%s' is not a regular file", path);
        goto close_fd;
    }
    m.size = (size_t)info.st_size;
    if (m.size > 0) {
        m.map = mmap(NULL, m.size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (m.map == MAP_FAILED) {
            st = rt_fail(ctx, RT_ERR_IO, "cannot map '%s': %s", path, strerror(errno));
            goto close_fd;
        }
    }
    *out = m;
close_fd:
    close(fd);
    return st;
}

void rt_mapping_close(rt_mapping *m)
{
    if (m->map)
        munmap(m->map, m->size);
    m->map = NULL;
    m->size = 0;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), e = strlen(end);
    return n >= e && strcmp(s + n - e, end) == 0;
}

rt_status rt_file_open(rt_context *ctx, const char *path, rt_file *out)
{
    rt_file f = {0};
    rt_mapping m;
    RT_TRY(rt_mapping_open(ctx, path, &m));
    f.map = m.map;
    f.map_size = m.size;
    rt_status st = RT_ERR_NOMEM;
    f.path = rt_text_copy(ctx, path);
    if (!f.path)
        goto close_file;
    bool magic = f.map_size >= RT_NPY_MAGIC_SIZE && memcmp(f.map, RT_NPY_MAGIC, RT_NPY_MAGIC_SIZE) == 0;
    st = magic || ends_with(path, ".npy") ? rt_npy_parse(ctx, &f) : rt_safetensors_parse(ctx, &f);
    if (st != RT_OK)
        goto close_file;
    *out = f;
    return RT_OK;
close_file:
    rt_file_close(&f);
    return st;
}

void rt_file_close(rt_file *f)
{
    if (!f)
        return;
    for (int64_t i = 0; i < f->count; i++)
        rt_free(f->tensors[i].name);
    rt_free(f->tensors);
    rt_free(f->metadata);
    rt_free(f->owned);
    rt_free(f->path);
    if (f->map)
        munmap(f->map, f->map_size);
    memset(f, 0, sizeof *f);
}

const rt_file_tensor *rt_file_find(const rt_file *f, const char *name)
{
    for (int64_t i = 0; i < f->count; i++) {
        if (strcmp(f->tensors[i].name, name) == 0)
            return &f->tensors[i];
    }
    return NULL;
}

/* ---- small helpers of the room ---- */

char *rt_text_copy_n(rt_context *ctx, const char *s, size_t n)
{
    char *copy = rt_alloc(ctx, (int64_t)n + 1, 1);
    if (!copy)
        return NULL;
    memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

char *rt_text_copy(rt_context *ctx, const char *s)
{
    return rt_text_copy_n(ctx, s, strlen(s));
}

char *rt_text_format(rt_context *ctx, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0) {
        (void)rt_fail(ctx, RT_ERR_NOMEM, "cannot format a text");
        return NULL;
    }
    char *text = rt_alloc(ctx, (int64_t)n + 1, 1);
    if (!text)
        return NULL;
    va_start(args, format);
    (void)vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    return text;
}

bool rt_dense_bytes(rt_dtype t, int32_t ndim, const int64_t *shape, int64_t *bytes)
{
    int64_t n = (int64_t)rt_dtype_size(t);
    bool empty = false;
    for (int32_t i = 0; i < ndim; i++)
        empty |= shape[i] == 0;
    if (empty) { /* whatever the other extents are */
        *bytes = 0;
        return true;
    }
    for (int32_t i = 0; i < ndim; i++) {
        if (__builtin_mul_overflow(n, shape[i], &n))
            return false;
    }
    *bytes = n;
    return true;
}

void rt_view_set_strides(rt_view *v, bool fortran)
{
    int64_t step = 1;
    for (int32_t i = 0; i < v->ndim; i++) {
        int32_t axis = fortran ? i : v->ndim - 1 - i;
        v->stride[axis] = step;
        /* an empty tensor has no element to reach, so its strides may be anything that does not overflow */
        if (__builtin_mul_overflow(step, v->shape[axis], &step))
            step = 0;
    }
}

char *rt_path_aside(rt_context *ctx, const char *path, const char *tag)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    uint64_t token = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    return rt_text_format(ctx, "%s.%s-%ld-%" PRIx64, path, tag, (long)getpid(), token);
}

rt_shape_text rt_shape_print(int32_t ndim, const int64_t *shape)
{
    rt_shape_text s = {"("};
    size_t used = 1;
    for (int32_t i = 0; i < ndim && used < sizeof s.text - 24; i++)
        used +=
            (size_t)snprintf(s.text + used, sizeof s.text - used, i ? ", %" PRId64 : "%" PRId64, shape[i]);
    (void)snprintf(s.text + used, sizeof s.text - used, ")");
    return s;
}
