/* What the readers of the two file formats share. */
#ifndef RT_IO_FILE_H
#define RT_IO_FILE_H

#include <ringtrue/io.h>

/* A whole file mapped for reading.  An empty file has map NULL. */
typedef struct {
    void *map;
    size_t size;
} rt_mapping;

rt_status rt_mapping_open(rt_context *ctx, const char *path, rt_mapping *out) RT_NODISCARD;
void rt_mapping_close(rt_mapping *m);

/* Fill count, tensors and metadata (npy: also owned) of `f`, whose path and map are set.  On failure
 * the caller closes `f`, which releases what was made. */
rt_status rt_safetensors_parse(rt_context *ctx, rt_file *f) RT_NODISCARD;
rt_status rt_npy_parse(rt_context *ctx, rt_file *f) RT_NODISCARD;
/* The format's name of a dtype; NULL for tf32, which no file holds. */
const char *rt_safetensors_dtype(rt_dtype t);
#define RT_NPY_MAGIC "\x93NUMPY"
#define RT_NPY_MAGIC_SIZE 6

/* Copies of text, in rt_alloc memory. */
char *rt_text_copy(rt_context *ctx, const char *s) RT_NODISCARD;
char *rt_text_copy_n(rt_context *ctx, const char *s, size_t n) RT_NODISCARD;
/* printf into rt_alloc memory. */
char *rt_text_format(rt_context *ctx, const char *format, ...) RT_PRINTF(2, 3) RT_NODISCARD;

/* Bytes of a dense tensor; false when it does not fit int64. */
bool rt_dense_bytes(rt_dtype t, int32_t ndim, const int64_t *shape, int64_t *bytes);
/* Row-major (or, reversed, Fortran) strides for v->shape. */
void rt_view_set_strides(rt_view *v, bool fortran);

/* A name beside `path` that nobody else uses: "<path>.<tag>-<token>". */
char *rt_path_aside(rt_context *ctx, const char *path, const char *tag) RT_NODISCARD;

/* "(1, 96, 4, 64)" */
typedef struct {
    char text[200];
} rt_shape_text;
rt_shape_text rt_shape_print(int32_t ndim, const int64_t *shape);

#endif
