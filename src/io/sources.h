/* Which files make a dump: found by name, before any is opened. */
#ifndef RT_IO_SOURCES_H
#define RT_IO_SOURCES_H

#include <ringtrue/io.h>

typedef struct {
    char *path;
    int64_t rank; /* -1: global */
    char *name;   /* npy: the tensor's name in the dump ("q" of rank0.q.npy); NULL for safetensors */
} rt_source;

typedef struct {
    char *folder;       /* where they lie, and spec.json with them */
    bool listed;        /* given one by one; else found in the folder */
    bool npy, per_rank; /* per_rank: by their names */
    int64_t count;
    rt_source *items; /* ordered by rank, then name */
} rt_sources;

rt_status rt_sources_find(rt_context *ctx, const char *const *paths, int64_t n_paths,
                          rt_sources *out) RT_NODISCARD;
void rt_sources_reset(rt_sources *s);

#endif
