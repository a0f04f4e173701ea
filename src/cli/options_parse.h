/* What reads the values of flags; each names the flag in its error. */
#ifndef RT_CLI_OPTIONS_PARSE_H
#define RT_CLI_OPTIONS_PARSE_H

#include <ringtrue/ringtrue.h>

/* A whole number in [low, high]; suffixes k, M, G. */
rt_status rt_option_int(rt_context *ctx, const char *flag, const char *text, int64_t low, int64_t high,
                        int64_t *out) RT_NODISCARD;
rt_status rt_option_real(rt_context *ctx, const char *flag, const char *text, double *out) RT_NODISCARD;
/* A time in seconds: a positive number with s (or nothing), m or h behind it. */
rt_status rt_option_time(rt_context *ctx, const char *flag, const char *text, double *out) RT_NODISCARD;
/* Numbers with commas between them; what *list held is freed. */
rt_status rt_option_list(rt_context *ctx, const char *flag, const char *text, int64_t **list,
                         int64_t *n) RT_NODISCARD;
rt_status rt_option_unknown(rt_context *ctx, const char *flag, const char *value, const char *allowed);

#endif
