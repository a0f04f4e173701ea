/* A dump while it is being opened. */
#ifndef RT_IO_DUMP_H
#define RT_IO_DUMP_H

#include "io/sources.h"

typedef struct {
    rt_context *ctx;
    rt_sources src; /* item i is file i of d */
    rt_dump d;
    const rt_file_tensor **found; /* [tensor * P + rank] as d.views */
    char *where;                  /* the spec's name */
} rt_dump_opener;

static inline bool rt_dump_on_kv_side(rt_tensor_id t)
{
    return t == RT_K || t == RT_V || t == RT_DK || t == RT_DV;
}

/* RT_ERR_IO that names the file of `rank` (npy: of its tensor `name`) as missing. */
rt_status rt_dump_missing_file(const rt_dump_opener *o, int64_t rank, const char *name);
/* Which tensors are there: fills found, d.present and d.dtype. */
rt_status rt_dump_find_tensors(rt_dump_opener *o) RT_NODISCARD;
/* Fills d.views and d.layout, and checks every shape. */
rt_status rt_dump_check(rt_dump_opener *o) RT_NODISCARD;

#endif
