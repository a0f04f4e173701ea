/* A layout from a text file: per line a side, a rank, and the positions of its slots. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout/build.h"

/* Positions of one side, rank after rank. */
typedef struct {
    int64_t *pos, *rows; /* rows: P */
    int64_t n, room;
    int32_t rank; /* of the last line */
} list;

static rt_status append(rt_context *ctx, list *x, int64_t pos)
{
    if (x->n == x->room) {
        const int64_t room = x->room > 0 ? 2 * x->room : 1024;
        int64_t *more = rt_alloc(ctx, room, sizeof *more);
        if (more == NULL)
            return RT_ERR_NOMEM;
        if (x->n > 0)
            memcpy(more, x->pos, (size_t)x->n * sizeof *more);
        rt_free(x->pos);
        x->pos = more;
        x->room = room;
    }
    x->pos[x->n++] = pos;
    return RT_OK;
}

static rt_status line_read(rt_context *ctx, const char *where, int64_t number, const char *text,
                           int32_t ranks, list lists[2])
{
    const char *at = text + strspn(text, " \t\r\n");
    const size_t word = strcspn(at, " \t\r\n");
    const bool both = word == 3 && strncmp(at, "qkv", 3) == 0, q = both || (word == 1 && *at == 'q'),
               kv = both || (word == 2 && strncmp(at, "kv", 2) == 0);
    if (*at == '\0' || *at == '#')
        return RT_OK;
    if (!q && !kv)
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: line %lld begins with \"%.*s\"; q, kv, qkv or # is needed",
                       where, (long long)number, (int)(word < 20 ? word : 20), at);
    int32_t rank = -1;
    for (at += word;;) {
        at += strspn(at, " \t\r\n");
        if (*at == '\0' || *at == '#')
            break;
        char *end = NULL;
        errno = 0;
        const long long x = strtoll(at, &end, 10);
        if (end == at || errno != 0 || (*end != '\0' && *end != '#' && !isspace((unsigned char)*end)))
            return rt_fail(ctx, RT_ERR_FORMAT, "%s: line %lld: \"%.*s\" is no whole number", where,
                           (long long)number,
                           (int)(strcspn(at, " \t\r\n") < 20 ? strcspn(at, " \t\r\n") : 20), at);
        at = end;
        if (rank >= 0) {
            for (int side = 0; side < 2; side++) {
                if (side == 0 ? !q : !kv)
                    continue;
                RT_TRY(append(ctx, &lists[side], x));
                lists[side].rows[rank]++;
            }
            continue;
        }
        if (x < 0 || x >= ranks)
            return rt_fail(ctx, RT_ERR_FORMAT, "%s: line %lld: rank %lld is not in 0 .. %d (--ranks %d)",
                           where, (long long)number, x, (int)ranks - 1, (int)ranks);
        rank = (int32_t)x;
        for (int side = 0; side < 2; side++) {
            if (side == 0 ? !q : !kv)
                continue;
            if (rank < lists[side].rank)
                return rt_fail(
                    ctx, RT_ERR_FORMAT,
                    "%s: line %lld: rank %d comes after rank %d; the ranks of a side must ascend", where,
                    (long long)number, (int)rank, (int)lists[side].rank);
            lists[side].rank = rank;
        }
    }
    return rank >= 0 ? RT_OK
                     : rt_fail(ctx, RT_ERR_FORMAT, "%s: line %lld names no rank", where, (long long)number);
}

rt_status rt_layout_read(rt_context *ctx, const rt_problem *p, const char *path, int32_t ranks,
                         rt_layout *out)
{
    if (ranks < 1)
        return rt_fail(ctx, RT_ERR_ARG, "ranks is %d; a layout needs at least 1", (int)ranks);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return rt_fail(ctx, RT_ERR_IO, "cannot open '%s': %s", path, strerror(errno));
    list lists[2] = {{.pos = NULL}, {.pos = NULL}};
    char *text = NULL;
    size_t size = 0;
    rt_status st = RT_ERR_NOMEM;
    for (int side = 0; side < 2; side++) {
        lists[side].rows = rt_calloc(ctx, ranks, sizeof(int64_t));
        if (lists[side].rows == NULL)
            goto free_lists;
    }
    st = RT_OK;
    for (int64_t number = 1; st == RT_OK && getline(&text, &size, f) >= 0; number++)
        st = line_read(ctx, path, number, text, ranks, lists);
    if (st == RT_OK && ferror(f))
        st = rt_fail(ctx, RT_ERR_IO, "cannot read '%s': %s", path, strerror(errno));
    if (st != RT_OK)
        goto free_lists;
    rt_context inner = {.message = ""};
    st = rt_layout_from_positions(&inner, p, ranks, lists[0].rows, lists[0].pos, lists[1].rows,
                                  lists[1].pos, out);
    if (st != RT_OK)
        st = rt_fail(ctx, st, "%s: %s", path, inner.message);
free_lists:
    free(text);
    for (int side = 0; side < 2; side++) {
        rt_free(lists[side].pos);
        rt_free(lists[side].rows);
    }
    fclose(f);
    return st;
}
