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
/* Fills d.spec.problem.dense where the spec names a dense mask. */
rt_status rt_dump_dense_mask(rt_dump_opener *o, const char *spec_path) RT_NODISCARD;
/* Fills d.views and d.layout, and checks every shape. */
rt_status rt_dump_check(rt_dump_opener *o) RT_NODISCARD;

/* The file of `rank` (npy: of its tensor `name`), the tensor in it, NULL if there is none, and the error that says so.
 */
rt_file *rt_dump_file_of(const rt_dump_opener *o, int64_t rank, const char *name);
const rt_file_tensor *rt_dump_lookup(const rt_dump_opener *o, int64_t rank, const char *name);
rt_status rt_dump_absent(const rt_dump_opener *o, int64_t rank, const char *name);
/* The bias has rows of its own for each query: then a rank's file holds those of its queries. */
static inline bool rt_dump_by_query(const rt_problem *p)
{
    return p->bias_shape[2] == p->seqlen_q;
}
/* Reads sink and bias into the problem and fills the views of their gradients (dump_scores.c). */
rt_status rt_dump_check_scores(rt_dump_opener *o) RT_NODISCARD;

#endif
