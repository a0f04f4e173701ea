/* The flags of a mask: windows, prefixes, slices from a text file, key lengths, a dense mask from an npy file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"

#define SLICE_HINT "a line is 'q0 q1 k0 k1 KIND', KIND full causal inv-causal bi-causal; # begins a comment"

/* One line: a slice, or nothing (empty, a comment). */
static rt_status parse_line(rt_context *ctx, const char *path, int64_t number, char *line, rt_slice *out,
                            bool *found)
{
    long long at[4];
    char kind[16], rest[2];
    line[strcspn(line, "#\r\n")] = '\0';
    *found = line[strspn(line, " \t")] != '\0';
    if (!*found)
        return RT_OK;
    if (sscanf(line, "%lld %lld %lld %lld %15s %1s", &at[0], &at[1], &at[2], &at[3], kind, rest) != 5 ||
        !rt_slice_parse(kind, &out->kind))
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: line %lld is '%.60s'; " SLICE_HINT, path, (long long)number,
                       line);
    out->q0 = at[0];
    out->q1 = at[1];
    out->k0 = at[2];
    out->k1 = at[3];
    return RT_OK;
}

/* Twice through the file: to count, then to keep. */
static rt_status read_slices(rt_context *ctx, const char *path, rt_problem *p)
{
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return rt_fail(ctx, RT_ERR_IO, "cannot open the slices '%s': %s", path, strerror(errno));
    rt_status st = RT_OK;
    char *line = NULL;
    size_t room = 0;
    for (int keep = 0; keep < 2 && st == RT_OK; keep++) {
        int64_t number = 0, n = 0;
        rewind(f);
        while (st == RT_OK && getline(&line, &room, f) >= 0) {
            rt_slice s;
            bool found = false;
            st = parse_line(ctx, path, ++number, line, &s, &found);
            if (st == RT_OK && found && keep == 1 && n < p->n_slices)
                p->slices[n] = s;
            n += found;
        }
        if (st == RT_OK && ferror(f))
            st = rt_fail(ctx, RT_ERR_IO, "cannot read the slices '%s': %s", path, strerror(errno));
        if (st == RT_OK && keep == 0 && n == 0)
            st = rt_fail(ctx, RT_ERR_FORMAT, "%s: no slice; " SLICE_HINT, path);
        if (st == RT_OK && keep == 0) {
            p->slices = rt_alloc(ctx, n, sizeof *p->slices);
            p->n_slices = n;
            st = p->slices == NULL ? RT_ERR_NOMEM : RT_OK;
        }
    }
    free(line);
    (void)fclose(f);
    return st;
}

rt_status rt_options_mask(rt_context *ctx, const rt_options *o, rt_problem *p)
{
    p->has_window = o->n_window > 0;
    p->window_left = o->n_window > 0 ? o->window[0] : 0;
    p->window_right = o->n_window > 0 ? o->window[1] : 0;
    p->prefix = o->prefix;
    if (o->n_key_lengths > 0 && o->n_key_lengths != p->batch)
        return rt_fail(ctx, RT_ERR_ARG, "--key-lengths has %lld numbers; batch is %lld: one for each",
                       (long long)o->n_key_lengths, (long long)p->batch);
    if (o->n_key_lengths > 0) {
        p->key_valid = rt_calloc(ctx, p->batch * p->seqlen_k, 1);
        if (p->key_valid == NULL)
            return RT_ERR_NOMEM;
    }
    for (int64_t b = 0; b < o->n_key_lengths; b++) {
        const int64_t n = o->key_lengths[b];
        if (n < 0 || n > p->seqlen_k)
            return rt_fail(ctx, RT_ERR_ARG, "--key-lengths: %lld; 0 to the length of the keys, %lld",
                           (long long)n, (long long)p->seqlen_k);
        memset(p->key_valid + b * p->seqlen_k, 1, (size_t)n);
    }
    if (o->dense_mask != NULL)
        RT_TRY(rt_dense_mask_read(ctx, o->dense_mask, p));
    return o->slices != NULL ? read_slices(ctx, o->slices, p) : RT_OK;
}
