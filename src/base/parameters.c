/* Parameters of plans and layouts, as text. */
#include "base/parameters.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rt_status rt_parameters_check_text(rt_context *ctx, const char *noun, const char *name)
{
    for (const char *c = name; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || strchr("\"\\<>&", *c) != NULL)
            return rt_fail(ctx, RT_ERR_ARG, "%s %.60s: a name has no quotes, backslashes, <, > or &", noun,
                           name);
    const size_t n = strcspn(name, ":");
    if (name[n] == ':' && name[n + 1] == '\0')
        return rt_fail(ctx, RT_ERR_ARG, "%s %.60s: parameters, key=value, come behind the colon", noun,
                       name);
    return RT_OK;
}

rt_status rt_parameters_check(rt_context *ctx, const char *what, const rt_parameter *known,
                              const char *text)
{
    const char *at = text != NULL ? text : "";
    bool more = *at != '\0';
    while (more) { /* after a comma there must be another */
        const size_t item = strcspn(at, ","), key = strcspn(at, "=,");
        char list[512] = "";
        bool found = false;
        for (const rt_parameter *each = known; each != NULL && each->key != NULL; each++) {
            found = found || (strlen(each->key) == key && strncmp(each->key, at, key) == 0);
            const size_t used = strlen(list);
            (void)snprintf(list + used, sizeof list - used, "%s%s=(%s)", used > 0 ? ", " : "", each->key,
                           each->values);
        }
        if (!found || key == item || key + 1 == item)
            return rt_fail(ctx, RT_ERR_ARG,
                           "%s: parameter \"%.*s\" is unknown or has no value; it takes %s", what,
                           (int)item, at, list[0] != '\0' ? list : "none");
        for (const char *before = text; before < at; before += strcspn(before, ",") + 1)
            if (strncmp(before, at, key + 1) == 0)
                return rt_fail(ctx, RT_ERR_ARG, "%s: parameter %.*s is given twice", what, (int)key, at);
        at += item;
        more = *at == ',';
        at += more;
    }
    return RT_OK;
}

const char *rt_parameters_find(const char *text, const char *key, int *length)
{
    const char *at = text != NULL ? text : "", *value = NULL;
    while (*at != '\0') {
        const size_t item = strcspn(at, ","), n = strcspn(at, "=,");
        if (strlen(key) == n && strncmp(key, at, n) == 0 && n < item) {
            value = at + n + 1;
            *length = (int)(item - n - 1);
        }
        at += item;
        at += *at == ',';
    }
    return value;
}

/* The number that `text` begins with, and where it ends. */
static bool number_read(const char *text, const char **end, int64_t *out)
{
    char *stop = NULL;
    if (*text != '-' && (*text < '0' || *text > '9'))
        return false;
    errno = 0;
    const long long n = strtoll(text, &stop, 10);
    *end = stop;
    *out = n;
    return stop != text && errno == 0;
}

rt_status rt_parameters_number(rt_context *ctx, const char *what, const char *text, const char *key,
                               int64_t least, int64_t most, int64_t otherwise, int64_t *out)
{
    int length = 0;
    const char *value = rt_parameters_find(text, key, &length), *end = NULL;
    int64_t n = 0;
    *out = otherwise;
    if (value == NULL)
        return RT_OK;
    if (!number_read(value, &end, &n) || end != value + length || n < least || n > most)
        return rt_fail(ctx, RT_ERR_ARG, "%s: %s is \"%.*s\"; a number from %lld to %lld is allowed", what,
                       key, length, value, (long long)least, (long long)most);
    *out = n;
    return RT_OK;
}

rt_status rt_parameters_choice(rt_context *ctx, const char *what, const char *text, const char *key,
                               const char *const *names, int otherwise, int *out)
{
    int length = 0;
    const char *value = rt_parameters_find(text, key, &length);
    char known[256] = "";
    *out = otherwise;
    if (value == NULL)
        return RT_OK;
    for (int i = 0; names[i] != NULL; i++) {
        if (strlen(names[i]) == (size_t)length && strncmp(names[i], value, (size_t)length) == 0) {
            *out = i;
            return RT_OK;
        }
        const size_t used = strlen(known);
        (void)snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", names[i]);
    }
    return rt_fail(ctx, RT_ERR_ARG, "%s: %s is \"%.*s\"; it is one of %s", what, key, length, value, known);
}

rt_status rt_parameters_list(rt_context *ctx, const char *what, const char *text, const char *key,
                             int64_t **out, int64_t *n)
{
    int length = 0;
    const char *value = rt_parameters_find(text, key, &length);
    *out = NULL;
    *n = 0;
    if (value == NULL)
        return RT_OK;
    int64_t count = 1;
    for (int i = 0; i < length; i++)
        count += value[i] == '/';
    int64_t *list = rt_alloc(ctx, count, sizeof *list);
    if (list == NULL)
        return RT_ERR_NOMEM;
    const char *at = value, *stop = value + length;
    for (int64_t i = 0; i < count; i++) {
        const char *end = NULL;
        if (!number_read(at, &end, &list[i]) || (end != stop && *end != '/')) {
            rt_free(list);
            return rt_fail(ctx, RT_ERR_ARG,
                           "%s: %s is \"%.*s\"; numbers with slashes between them are needed", what, key,
                           length, value);
        }
        at = end + 1;
    }
    *out = list;
    *n = count;
    return RT_OK;
}

rt_status rt_parameters_path(rt_context *ctx, const char *folder, const char *value, int length, char **out)
{
    const bool inside = folder != NULL && folder[0] != '\0' && value[0] != '/';
    const size_t size = (inside ? strlen(folder) + 1 : 0) + (size_t)length + 1;
    *out = rt_alloc(ctx, (int64_t)size, 1);
    if (*out == NULL)
        return RT_ERR_NOMEM;
    (void)snprintf(*out, size, "%s%s%.*s", inside ? folder : "", inside ? "/" : "", length, value);
    return RT_OK;
}
