/* What the spec's reader and writer share. */
#ifndef RT_IO_SPEC_H
#define RT_IO_SPEC_H

#include <jansson.h>

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

/* An object being read, and how to name its keys: "arithmetic." before those of a nested one. */
typedef struct {
    rt_context *ctx;
    const char *where, *inside;
    json_t *object;
} rt_spec_reader;
/* RT_ERR_FORMAT that names key, value and what is allowed. */
rt_status rt_spec_refuse(const rt_spec_reader *r, const char *key, const json_t *v,
                         const char *allowed) RT_NODISCARD;
/* The object has no key but those of `known`, which ends with NULL. */
rt_status rt_spec_check_keys(const rt_spec_reader *r, const char *const *known) RT_NODISCARD;

/* alibi, bias, softcap, sink, dropout (spec_scores.c).  The rest of the problem has been read.  What tensors hold comes
 * later: names[RT_SINK], names[RT_BIAS] and bias_shape are set, sink and bias stay NULL. */
rt_status rt_spec_read_scores(const rt_spec_reader *r, rt_spec *s) RT_NODISCARD;
/* Not 0: a value could not be made. */
int rt_spec_write_scores(json_t *o, const rt_spec *s);

#endif
