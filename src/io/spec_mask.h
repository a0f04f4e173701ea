/* The keys of a spec that describe a mask beyond "mask" and the documents. */
#ifndef RT_IO_SPEC_MASK_H
#define RT_IO_SPEC_MASK_H

#include <jansson.h>

#include <ringtrue/io.h>

/* The names of those keys, for lists of what is known. */
#define RT_SPEC_MASK_KEYS "window", "prefix", "slices", "key_lengths", "key_ranges", "dense_mask"

/* window, prefix, slices, key_valid of s->problem, whose sizes are known, and s->dense_mask. */
rt_status rt_spec_read_mask(rt_context *ctx, const char *where, const json_t *root,
                            rt_spec *s) RT_NODISCARD;
/* How many sets failed. */
int rt_spec_write_mask(json_t *root, const rt_spec *s);

#endif
