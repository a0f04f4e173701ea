/* Values of flags: numbers, times, lists. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options_parse.h"

rt_status rt_option_int(rt_context *ctx, const char *flag, const char *text, int64_t low, int64_t high,
                        int64_t *out)
{
    char *end = NULL;
    errno = 0;
    const int64_t v = strtoll(text, &end, 10);
    int64_t unit = 1;
    if (end != text && *end != '\0')
        unit = end[1] != '\0'               ? 0
               : *end == 'k' || *end == 'K' ? 1 << 10
               : *end == 'M'                ? 1 << 20
               : *end == 'G'                ? 1 << 30
                                            : 0;
    if (end == text || unit == 0 || errno != 0 || v < 0 || v > high / unit || v * unit < low)
        return rt_fail(ctx, RT_ERR_ARG,
                       "--%s %s: a whole number from %lld to %lld (suffixes k, M, G are powers of 1024)",
                       flag, text, (long long)low, (long long)high);
    *out = v * unit;
    return RT_OK;
}

rt_status rt_option_real(rt_context *ctx, const char *flag, const char *text, double *out)
{
    char *end = NULL;
    *out = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(*out))
        return rt_fail(ctx, RT_ERR_ARG, "--%s %s: a finite number is needed", flag, text);
    return RT_OK;
}

/* A time: a positive number with s (or nothing), m or h behind it. */
rt_status rt_option_time(rt_context *ctx, const char *flag, const char *text, double *out)
{
    char *end = NULL;
    const double v = strtod(text, &end);
    const double unit = strcmp(end, "m") == 0                   ? 60
                        : strcmp(end, "h") == 0                 ? 3600
                        : *end == '\0' || strcmp(end, "s") == 0 ? 1
                                                                : 0;
    if (end == text || !(v > 0) || !isfinite(v) || !(unit > 0))
        return rt_fail(ctx, RT_ERR_ARG, "--%s %s: a positive time is needed, e.g. 60s, 5m, 1h", flag, text);
    *out = v * unit;
    return RT_OK;
}

rt_status rt_option_list(rt_context *ctx, const char *flag, const char *text, int64_t **list, int64_t *n)
{
    int64_t count = 1;
    for (const char *c = text; *c != '\0'; c++)
        count += *c == ',';
    int64_t *v = rt_alloc(ctx, count, sizeof *v);
    if (v == NULL)
        return RT_ERR_NOMEM;
    const char *at = text;
    for (int64_t i = 0; i < count; i++) {
        char *end = NULL;
        errno = 0;
        v[i] = strtoll(at, &end, 10);
        if (end == at || errno != 0 || (*end != ',' && *end != '\0')) {
            rt_free(v);
            return rt_fail(ctx, RT_ERR_ARG, "--%s %s: whole numbers separated by commas, e.g. 0,128,320",
                           flag, text);
        }
        at = end + 1;
    }
    rt_free(*list);
    *list = v;
    *n = count;
    return RT_OK;
}

rt_status rt_option_unknown(rt_context *ctx, const char *flag, const char *value, const char *allowed)
{
    return rt_fail(ctx, RT_ERR_ARG, "--%s %s: unknown; allowed: %s", flag, value, allowed);
}
