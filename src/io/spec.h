/* What the spec's reader and writer share. */
#ifndef RT_IO_SPEC_H
#define RT_IO_SPEC_H

#include <ringtrue/io.h>

/* Everything that a spec leaves to defaults; the problem stays empty. */
rt_status rt_spec_defaults(rt_context *ctx, rt_dtype input, rt_spec *out) RT_NODISCARD;

/* A copy of n numbers, NULL when memory is out. */
int64_t *rt_spec_list_copy(rt_context *ctx, const int64_t *from, int64_t n) RT_NODISCARD;

/* The keys of "arithmetic" that are dtypes, with their bit of rt_declared.assumed. */
#define RT_SPEC_DTYPE_KEYS 5
typedef struct {
    const char *key;
    uint32_t bit;
} rt_spec_dtype_key;
extern const rt_spec_dtype_key rt_spec_dtype_keys[RT_SPEC_DTYPE_KEYS];
rt_dtype *rt_spec_declared_dtype(rt_declared *d, size_t i);

#endif
