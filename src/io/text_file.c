/* A text file that appears complete or not at all. */
#include "io/text_file.h"

#include "io/file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static rt_status refuse_existing(rt_context *ctx, const char *path)
{
    return rt_fail(ctx, RT_ERR_IO, "output '%s' exists and stays as it is. Hint: another name, or --force",
                   path);
}

static rt_status refuse_folder(rt_context *ctx, const char *path)
{
    return rt_fail(ctx, RT_ERR_IO, "output '%s' is a folder; a file is needed", path);
}

rt_status rt_text_file_begin(rt_context *ctx, const char *path, bool force, rt_text_file *out)
{
    rt_text_file f = {.force = force};
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return refuse_folder(ctx, path);
    if (path[0] == '\0')
        return rt_fail(ctx, RT_ERR_ARG, "the output file needs a name");
    if (!force && lstat(path, &info) == 0)
        return refuse_existing(ctx, path);
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) /* a device or a pipe would be lost */
        return rt_fail(ctx, RT_ERR_IO, "output '%s' is no regular file and stays as it is", path);
    f.path = rt_text_copy(ctx, path);
    if (f.path == NULL)
        return RT_ERR_NOMEM;
    rt_status st = RT_OK;
    for (int tries = 0; f.file == NULL; tries++) { /* two starts within one tick of the clock may meet */
        f.aside = rt_path_aside(ctx, path, "part");
        if (f.aside == NULL) {
            st = RT_ERR_NOMEM;
            break;
        }
        f.file = fopen(f.aside, "wx");
        if (f.file != NULL)
            break;
        const int err = errno;
        if (err != EEXIST || tries == 100) {
            st = rt_fail(ctx, RT_ERR_IO, "cannot create '%s': %s", f.aside, strerror(err));
            break;
        }
        rt_free(f.aside);
    }
    if (st != RT_OK) {
        rt_free(f.aside);
        rt_free(f.path);
        return st;
    }
    *out = f;
    return RT_OK;
}

/* Without force, a file that came meanwhile is not replaced either: link refuses it. */
static rt_status put_in_place(rt_context *ctx, const rt_text_file *f)
{
    if (!f->force && link(f->aside, f->path) == 0) {
        (void)unlink(f->aside);
        return RT_OK;
    }
    if (!f->force && errno == EEXIST)
        return refuse_existing(ctx, f->path);
    if (rename(f->aside, f->path) != 0) /* and where the file system knows no links */
        return rt_fail(ctx, RT_ERR_IO, "cannot rename '%s' to '%s': %s", f->aside, f->path,
                       strerror(errno));
    return RT_OK;
}

rt_status rt_text_file_end(rt_context *ctx, rt_text_file *f, rt_status before)
{
    if (f->file == NULL)
        return before;
    rt_status st = before;
    const bool bad = fflush(f->file) != 0 || ferror(f->file) != 0;
    const int err = errno;
    if (fclose(f->file) != 0 || bad)
        st = st == RT_OK ? rt_fail(ctx, RT_ERR_IO, "'%s' could not be written: %s", f->path, strerror(err))
                         : st;
    if (st == RT_OK)
        st = put_in_place(ctx, f);
    if (st != RT_OK)
        (void)unlink(f->aside);
    rt_free(f->aside);
    rt_free(f->path);
    memset(f, 0, sizeof *f);
    return st;
}
