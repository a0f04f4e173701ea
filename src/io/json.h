/* The one door to the JSON library: strict loading, and excerpts of values for error texts. */
#ifndef RT_IO_JSON_H
#define RT_IO_JSON_H

#include <jansson.h>

#include <ringtrue/status.h>

/* A short, one-line, printable piece of something longer.  Returned by value so that it can stand in an
 * argument list: rt_json_excerpt(v).text. */
typedef struct {
    char text[72];
} rt_excerpt;

rt_excerpt rt_json_excerpt(const json_t *v); /* the value as JSON */
rt_excerpt rt_text_excerpt(const char *s);   /* the text in quotes, control characters as '?' */

/* Load an object, duplicate keys refused.  `where` names the text in errors, which have line and column.
 * The caller owns *out (json_decref). */
rt_status rt_json_load(rt_context *ctx, const char *where, const char *text, size_t length,
                       json_t **out) RT_NODISCARD;

#endif
