/* The text behind the colon of a plan's or a layout's name: "key=value,key=value".  Values hold no comma; a
 * list of numbers is written with slashes, "0/64/96". */
#ifndef RT_BASE_PARAMETERS_H
#define RT_BASE_PARAMETERS_H

#include <stdbool.h>

#include <ringtrue/status.h>

/* `what` names the owner in errors: "plan ring", "layout striped".  `text` NULL is "". */

/* A whole name, as given: it is printed in JSON and SVG, so that some characters are refused; and something stands
 * behind its colon.  `noun`: "plan", "layout".  RT_ERR_ARG. */
rt_status rt_parameters_check_text(rt_context *ctx, const char *noun, const char *name) RT_NODISCARD;
/* Every key is one of `known` (ended by a NULL key; NULL: none), given once, and has a value.  RT_ERR_ARG. */
rt_status rt_parameters_check(rt_context *ctx, const char *what, const rt_parameter *known,
                              const char *text) RT_NODISCARD;
/* Where the value of `key` stands and how long it is; NULL if it is not given. */
const char *rt_parameters_find(const char *text, const char *key, int *length);
/* A number; `otherwise` where it is not given.  RT_ERR_ARG names what is allowed. */
rt_status rt_parameters_number(rt_context *ctx, const char *what, const char *text, const char *key,
                               int64_t least, int64_t most, int64_t otherwise, int64_t *out) RT_NODISCARD;
/* The index of the value in `names` (ended by NULL). */
rt_status rt_parameters_choice(rt_context *ctx, const char *what, const char *text, const char *key,
                               const char *const *names, int otherwise, int *out) RT_NODISCARD;
/* A list of numbers with slashes, rt_alloc; *out NULL and *n 0 where it is not given. */
rt_status rt_parameters_list(rt_context *ctx, const char *what, const char *text, const char *key,
                             int64_t **out, int64_t *n) RT_NODISCARD;

/* The file that a value of `length` characters names, rt_alloc: a name without a leading slash lies in `folder` (NULL or "": the working
 * directory). */
rt_status rt_parameters_path(rt_context *ctx, const char *folder, const char *value, int length,
                             char **out) RT_NODISCARD;

#endif
