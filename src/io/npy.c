/* The npy reader and writer: magic, version, header length, a Python dictionary literal of three keys,
 * data.
 *
 * The literal's grammar is read directly: strings without escapes, True and False, a tuple of integers. */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* bf16 has no descr of its own.  Programs write it as two bytes of nothing, as the name that the
 * bfloat16 extension type registers, or as the 16-bit integers that hold its bits. */
static const struct {
    const char *descr;
    rt_dtype dtype;
} descrs[] = {{"f8", RT_F64},  {"f4", RT_F32},  {"f2", RT_F16}, {"i4", RT_I32}, {"i8", RT_I64},
              {"u2", RT_BF16}, {"b1", RT_BOOL}, {"u1", RT_U8},  {"i1", RT_I8}};
#define DESCRS_READ                                                                                        \
    "f8 f4 f2 i4 i8 with '<' or '>', '|b1', '|u1', '|i1', and for bf16 '<u2', '>u2', '<V2', '|V2', "       \
    "'bfloat16'"

static bool descr_parse(const char *descr, rt_dtype *t, bool *swap)
{
    *swap = false;
    if (strcmp(descr, "bfloat16") == 0 || strcmp(descr, "|V2") == 0 || strcmp(descr, "<V2") == 0) {
        *t = RT_BF16;
        return true;
    }
    for (size_t i = 0; i < sizeof descrs / sizeof descrs[0]; i++) {
        if (descr[0] == '\0' || strcmp(descr + 1, descrs[i].descr) != 0)
            continue;
        bool single = rt_dtype_size(descrs[i].dtype) == 1; /* a byte has no order, and its descr says so */
        if (single ? descr[0] != '|' : descr[0] != '<' && descr[0] != '>')
            return false;
        *t = descrs[i].dtype;
        *swap = descr[0] == '>';
        return true;
    }
    return false;
}

/* A cursor over the literal, which is not terminated. */
typedef struct {
    const char *at, *end;
} cursor;

static void skip_space(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

static bool take(cursor *c, char wanted)
{
    skip_space(c);
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

static bool take_word(cursor *c, const char *word)
{
    size_t n = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0)
        return false;
    c->at += n;
    return true;
}

static bool take_string(cursor *c, char *out, size_t size)
{
    skip_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    char quote = *c->at++;
    size_t n = 0;
    while (c->at < c->end && *c->at != quote) {
        if (n + 1 >= size || *c->at < 0x20 || *c->at == 0x7f || *c->at == '\\')
            return false;
        out[n++] = *c->at++;
    }
    out[n] = '\0';
    if (c->at == c->end)
        return false;
    c->at++;
    return true;
}

static bool take_size(cursor *c, int64_t *out)
{
    skip_space(c);
    if (c->at == c->end || *c->at < '0' || *c->at > '9')
        return false;
    int64_t n = 0;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *c->at - '0', &n))
            return false;
        c->at++;
    }
    if (c->at < c->end && *c->at == 'L') /* integers written by Python 2 */
        c->at++;
    *out = n;
    return true;
}

/* (), (3,), (3, 4), (3, 4,); "(3)" is an integer in parentheses and no tuple. */
static bool take_shape(cursor *c, rt_view *v)
{
    if (!take(c, '('))
        return false;
    v->ndim = 0;
    bool comma = true;
    while (!take(c, ')')) {
        if (!comma || v->ndim == RT_MAX_DIMS || !take_size(c, &v->shape[v->ndim]))
            return false;
        v->ndim++;
        comma = take(c, ',');
    }
    return v->ndim != 1 || comma;
}

enum { HAS_DESCR = 1, HAS_ORDER = 2, HAS_SHAPE = 4, HAS_ALL = 7 };

static rt_status read_dictionary(rt_context *ctx, const char *path, cursor c, rt_view *v, bool *fortran,
                                 bool *swap)
{
    unsigned have = 0;
    bool comma = true;
    if (!take(&c, '{'))
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: npy header is not a dictionary (no '{')", path);
    while (!take(&c, '}')) {
        char key[24], text[24];
        if (!comma || !take_string(&c, key, sizeof key) || !take(&c, ':'))
            return rt_fail(ctx, RT_ERR_FORMAT, "%s: npy header is not a dictionary of 'key': value", path);
        unsigned bit = strcmp(key, "descr") == 0           ? HAS_DESCR
                       : strcmp(key, "fortran_order") == 0 ? HAS_ORDER
                       : strcmp(key, "shape") == 0         ? HAS_SHAPE
                                                           : 0;
        if (bit == 0)
            return rt_fail(ctx, RT_ERR_FORMAT,
                           "%s: npy header has key '%s'; allowed are descr, fortran_order, shape", path,
                           key);
        if (have & bit)
            return rt_fail(ctx, RT_ERR_FORMAT, "%s: npy header has key '%s' twice", path, key);
        have |= bit;
        if (bit == HAS_DESCR) {
            if (!take_string(&c, text, sizeof text))
                return rt_fail(ctx, RT_ERR_FORMAT,
                               "%s: npy descr must be a string of one element type; read are " DESCRS_READ,
                               path);
            if (!descr_parse(text, &v->dtype, swap))
                return rt_fail(ctx, RT_ERR_FORMAT, "%s: unknown npy descr '%s'; read are " DESCRS_READ,
                               path, text);
        } else if (bit == HAS_ORDER) {
            *fortran = take_word(&c, "True");
            if (!*fortran && !take_word(&c, "False"))
                return rt_fail(ctx, RT_ERR_FORMAT, "%s: npy fortran_order must be True or False", path);
        } else if (!take_shape(&c, v)) {
            return rt_fail(ctx, RT_ERR_FORMAT,
                           "%s: npy shape must be a tuple of at most %d non-negative integers", path,
                           RT_MAX_DIMS);
        }
        comma = take(&c, ',');
    }
    skip_space(&c);
    if (c.at != c.end)
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: npy header goes on after its dictionary", path);
    if (have != HAS_ALL)
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: npy header lacks '%s'", path,
                       !(have & HAS_DESCR)   ? "descr"
                       : !(have & HAS_ORDER) ? "fortran_order"
                                             : "shape");
    return RT_OK;
}

/* Locate the literal: where it starts, and where the data do. */
static rt_status find_header(rt_context *ctx, const rt_file *f, cursor *literal)
{
    const char *bytes = f->map;
    if (!bytes || f->map_size < RT_NPY_MAGIC_SIZE || memcmp(bytes, RT_NPY_MAGIC, RT_NPY_MAGIC_SIZE) != 0)
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: bad magic: an npy file begins with \\x93NUMPY", f->path);
    if (f->map_size < 10)
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: npy file ends inside its first 10 bytes", f->path);
    int major = (unsigned char)bytes[6], minor = (unsigned char)bytes[7];
    if (major < 1 || major > 3 || minor != 0)
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: npy version %d.%d; read are 1.0, 2.0 and 3.0", f->path,
                       major, minor);
    size_t width = major == 1 ? 2 : 4, start = 8 + width, length = 0;
    if (f->map_size < start)
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: npy file ends inside its header length", f->path);
    for (size_t i = 0; i < width; i++)
        length |= (size_t)(unsigned char)bytes[8 + i] << (8 * i);
    if (length > f->map_size - start)
        return rt_fail(ctx, RT_ERR_FORMAT,
                       "%s: npy header of %zu bytes is longer than the file, which has %zu left", f->path,
                       length, f->map_size - start);
    if (length == 0 || bytes[start + length - 1] != '\n')
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: npy header of %zu bytes does not end with a line break",
                       f->path, length);
    literal->at = bytes + start;
    literal->end = bytes + start + length;
    return RT_OK;
}

static void copy_swapped(const char *from, char *to, int64_t count, size_t size)
{
    for (int64_t i = 0; i < count; i++, from += size, to += size) {
        for (size_t b = 0; b < size; b++)
            to[b] = from[size - 1 - b];
    }
}

rt_status rt_npy_parse(rt_context *ctx, rt_file *f)
{
    cursor literal = {NULL, NULL};
    RT_TRY(find_header(ctx, f, &literal));
    rt_view v = {0};
    bool fortran = false, swap = false;
    RT_TRY(read_dictionary(ctx, f->path, literal, &v, &fortran, &swap));
    int64_t bytes, left = (int64_t)f->map_size - (literal.end - (const char *)f->map);
    if (!rt_dense_bytes(v.dtype, v.ndim, v.shape, &bytes))
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: the size of npy shape %s overflows 64 bits", f->path,
                       rt_shape_print(v.ndim, v.shape).text);
    if (bytes != left)
        return rt_fail(ctx, RT_ERR_FORMAT,
                       "%s: npy data %s: %" PRId64 " bytes, shape %s of %s takes %" PRId64, f->path,
                       left < bytes ? "shorter than its shape (truncated file?)" : "longer than its shape",
                       left, rt_shape_print(v.ndim, v.shape).text, rt_dtype_name(v.dtype), bytes);
    rt_view_set_strides(&v, fortran);
    v.data = literal.end;
    if (swap) {
        size_t size = rt_dtype_size(v.dtype);
        f->owned = rt_alloc(ctx, bytes, 1);
        if (!f->owned)
            return RT_ERR_NOMEM;
        copy_swapped(literal.end, f->owned, bytes / (int64_t)size, size);
        v.data = f->owned;
    }
    f->tensors = rt_calloc(ctx, 1, sizeof *f->tensors);
    if (!f->tensors)
        return RT_ERR_NOMEM;
    const char *base = strrchr(f->path, '/');
    base = base ? base + 1 : f->path;
    size_t n = strlen(base);
    if (n > 4 && strcmp(base + n - 4, ".npy") == 0)
        n -= 4;
    f->tensors[0].name = rt_text_copy_n(ctx, base, n);
    if (!f->tensors[0].name)
        return RT_ERR_NOMEM;
    f->tensors[0].view = v;
    f->count = 1;
    return RT_OK;
}

/* ---- the writer ---- */

static const char *descr_written(rt_dtype t)
{
    switch (t) {
    case RT_F64:
        return "<f8";
    case RT_F32:
        return "<f4";
    case RT_F16:
        return "<f2";
    case RT_BF16:
        return "<V2";
    case RT_E4M3:
    case RT_E5M2:
        return "|u1";
    case RT_I32:
        return "<i4";
    case RT_I64:
        return "<i8";
    case RT_BOOL:
        return "|b1";
    case RT_U8:
        return "|u1";
    case RT_I8:
        return "|i1";
    case RT_TF32:
    case RT_DTYPE_COUNT:
        break;
    }
    return NULL;
}

static bool write_all(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

rt_status rt_npy_write(rt_context *ctx, const char *path, rt_dtype t, int32_t ndim, const int64_t *shape,
                       const void *data)
{
    int64_t bytes;
    const char *descr = descr_written(t);
    bool good = descr && ndim >= 0 && ndim <= RT_MAX_DIMS;
    for (int32_t d = 0; good && d < ndim; d++)
        good = shape[d] >= 0;
    if (!good || !rt_dense_bytes(t, ndim, shape, &bytes))
        return rt_fail(ctx, RT_ERR_ARG,
                       "%s: npy needs a dtype of files and at most %d extents whose product fits", path,
                       RT_MAX_DIMS);

    rt_shape_text tuple = rt_shape_print(ndim, shape);
    if (ndim == 1)
        (void)snprintf(tuple.text, sizeof tuple.text, "(%" PRId64 ",)", shape[0]);
    char header[512];
    int n = snprintf(header + 10, sizeof header - 10,
                     "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, tuple.text);
    size_t used = 10 + (size_t)n, start = (used + 1 + 63) / 64 * 64;
    memcpy(header, RT_NPY_MAGIC "\x01\x00", 8);
    header[8] = (char)(unsigned char)((start - 10) & 0xff);
    header[9] = (char)(unsigned char)((start - 10) >> 8);
    memset(header + used, ' ', start - 1 - used);
    header[start - 1] = '\n';

    rt_status st = RT_OK;
    char *aside = rt_path_aside(ctx, path, "part");
    if (!aside)
        return RT_ERR_NOMEM;
    int fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        st = rt_fail(ctx, RT_ERR_IO, "cannot create '%s': %s", aside, strerror(errno));
        goto free_aside;
    }
    bool written = write_all(fd, header, start) && write_all(fd, data, (size_t)bytes);
    int err = errno;
    if (close(fd) != 0 && written) {
        written = false;
        err = errno;
    }
    if (written && rename(aside, path) != 0) {
        written = false;
        err = errno;
    }
    if (!written) {
        st = rt_fail(ctx, RT_ERR_IO, "cannot write '%s': %s", path, strerror(err));
        (void)unlink(aside);
    }
free_aside:
    rt_free(aside);
    return st;
}
