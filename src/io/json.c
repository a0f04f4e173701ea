/* Strict JSON on top of jansson. */
#include "io/json.h"

#include <string.h>

typedef struct {
    rt_excerpt *e;
    size_t used;
} excerpt_sink;

static int excerpt_add(const char *piece, size_t size, void *arg)
{
    excerpt_sink *s = arg;
    size_t room = sizeof s->e->text - 4 - s->used; /* room for "..." and the end */
    size_t n = size < room ? size : room;
    memcpy(s->e->text + s->used, piece, n);
    s->used += n;
    if (n < size) {
        memcpy(s->e->text + s->used, "...", 3);
        s->used += 3;
        return -1; /* enough: a value of 100 MB must not be printed for its first 60 bytes */
    }
    return 0;
}

rt_excerpt rt_json_excerpt(const json_t *v)
{
    rt_excerpt e = {{0}};
    excerpt_sink s = {&e, 0};
    (void)json_dump_callback(v, excerpt_add, &s,
                             JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(17));
    return e;
}

rt_excerpt rt_text_excerpt(const char *s)
{
    rt_excerpt e = {{0}};
    size_t n = 0;
    e.text[n++] = '"';
    while (*s != '\0' && n < sizeof e.text - 5) {
        unsigned char c = (unsigned char)*s++;
        e.text[n++] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    if (*s != '\0') {
        memcpy(e.text + n, "...", 3);
        n += 3;
    }
    e.text[n] = '"';
    return e;
}

rt_status rt_json_load(rt_context *ctx, const char *where, const char *text, size_t length, json_t **out)
{
    json_error_t err;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &err);
    if (!root) {
        if (json_error_code(&err) == json_error_out_of_memory)
            return rt_fail(ctx, RT_ERR_NOMEM, "%s: no memory to read its JSON", where);
        /* the library quotes the text near the error, which may hold a line break */
        for (char *c = err.text; *c; c++) {
            if ((unsigned char)*c < 0x20)
                *c = ' ';
        }
        if (json_error_code(&err) == json_error_duplicate_key)
            return rt_fail(ctx, RT_ERR_FORMAT, "%s: duplicate key at line %d, column %d: %s", where,
                           err.line, err.column, err.text);
        return rt_fail(ctx, RT_ERR_FORMAT, "%s: not JSON at line %d, column %d: %s", where, err.line,
                       err.column, err.text);
    }
    if (!json_is_object(root)) {
        rt_status st = rt_fail(ctx, RT_ERR_FORMAT, "%s: must be a JSON object {...}, is %s", where,
                               rt_json_excerpt(root).text);
        json_decref(root);
        return st;
    }
    *out = root;
    return RT_OK;
}
