/* The plan of a dump, and the files that its parameters name: a dump carries them with it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/parameters.h"
#include "cli/cli.h"

rt_status rt_cli_plan_create(rt_cli *c, const rt_dump *d, const rt_layout *l, rt_plan *out)
{
    const rt_problem *p = &d->spec.problem;
    return c->o->has_plan ? rt_plan_create(c->ctx, c->o->plan, p, l, out)
                          : rt_plan_create_in(c->ctx, d->folder, d->spec.algorithm, p, l, out);
}

static rt_status copy_file(rt_context *ctx, const char *from, const char *to)
{
    char block[4096];
    size_t n = 0;
    FILE *in = fopen(from, "r");
    if (in == NULL)
        return rt_fail(ctx, RT_ERR_IO, "cannot open '%s': %s", from, strerror(errno));
    FILE *out = fopen(to, "w");
    bool good = out != NULL;
    while (good && (n = fread(block, 1, sizeof block, in)) > 0)
        good = fwrite(block, 1, n, out) == n;
    const bool read = ferror(in) == 0;
    if (out != NULL && fclose(out) != 0)
        good = false;
    const int err = errno;
    (void)fclose(in);
    return good && read ? RT_OK
                        : rt_fail(ctx, RT_ERR_IO, "cannot copy '%s' to '%s': %s", from, to, strerror(err));
}

/* One parameter "key=@FILE": the file becomes key.txt beside the dump's. */
static rt_status carry(rt_cli *c, const char *folder, const char *key, int key_length, const char *value,
                       int length, const char *aside)
{
    char to[4200], *from = NULL;
    if (!c->root)
        return RT_OK;
    if (snprintf(to, sizeof to, "%s/%.*s.txt", aside, key_length, key) >= (int)sizeof to)
        return rt_fail(c->ctx, RT_ERR_ARG, "-o %.80s..: the path is too long", c->o->output);
    rt_status st = rt_parameters_path(c->ctx, folder, value, length, &from);
    if (st == RT_OK)
        st = copy_file(c->ctx, from, to);
    rt_free(from);
    return st;
}

rt_status rt_cli_plan_files(rt_cli *c, const char *folder, const char *name, const char *aside,
                            rt_spec *spec)
{
    const char *at = name + strcspn(name, ":");
    const size_t room = sizeof spec->algorithm;
    size_t used = (size_t)(at - name);
    memcpy(spec->algorithm, name, used);
    spec->algorithm[used] = '\0';
    while (*at != '\0') { /* the colon or a comma, then key=value */
        const size_t item = strcspn(at + 1, ","), key = strcspn(at + 1, "=,");
        const bool file = key + 1 < item && at[1 + key] == '=' && at[2 + key] == '@';
        int n;
        if (file) {
            RT_TRY(carry(c, folder, at + 1, (int)key, at + 3 + key, (int)(item - key - 2), aside));
            n = snprintf(spec->algorithm + used, room - used, "%c%.*s=@%.*s.txt", *at, (int)key, at + 1,
                         (int)key, at + 1);
        } else {
            n = snprintf(spec->algorithm + used, room - used, "%.*s", (int)item + 1, at);
        }
        if (n < 0 || (size_t)n >= room - used)
            return rt_fail(c->ctx, RT_ERR_ARG, "plan \"%s\" is too long for a dump's spec", name);
        used += (size_t)n;
        at += item + 1;
    }
    return RT_OK;
}
