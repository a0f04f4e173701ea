/* Output folders that appear complete or not at all: written aside, then renamed. */
#include "io/file.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Remove a file, or a folder with what it holds.  Links are removed, never followed. */
static void remove_tree(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return;
    if (!S_ISDIR(info.st_mode)) {
        (void)unlink(path);
        return;
    }
    DIR *folder = opendir(path);
    if (folder) {
        struct dirent *entry;
        while ((entry = readdir(folder)) != NULL) {
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                continue;
            char *child = rt_text_format(NULL, "%s/%s", path, entry->d_name);
            if (child)
                remove_tree(child);
            rt_free(child);
        }
        closedir(folder);
    }
    (void)rmdir(path);
}

static bool exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

/* "out/" means "out"; and a folder cannot be renamed over "/", "." or "..". */
static rt_status clean_path(rt_context *ctx, const char *path, char **out)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    const char *base = path;
    for (size_t i = 0; i < n; i++) {
        if (path[i] == '/')
            base = path + i + 1;
    }
    size_t length = n - (size_t)(base - path);
    if (length == 0 || (length <= 2 && strncmp(base, "..", length) == 0))
        return rt_fail(ctx, RT_ERR_ARG, "output folder '%s' has no name of its own; give one, e.g. out",
                       path);
    *out = rt_text_copy_n(ctx, path, n);
    return *out ? RT_OK : RT_ERR_NOMEM;
}

static rt_status refuse_existing(rt_context *ctx, const char *path)
{
    return rt_fail(ctx, RT_ERR_IO, "output '%s' exists and stays as it is. Hint: another name, or --force",
                   path);
}

/* What --force does not replace either: a device, a pipe, a socket. */
static bool special(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && !S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode) &&
           !S_ISLNK(info.st_mode);
}

rt_status rt_folder_begin(rt_context *ctx, const char *path, bool force, char **aside)
{
    char *target = NULL;
    RT_TRY(clean_path(ctx, path, &target));
    rt_status st = RT_OK;
    char *made = NULL;
    if (!force && exists(target)) {
        st = refuse_existing(ctx, target);
        goto free_target;
    }
    if (special(target)) {
        st = rt_fail(ctx, RT_ERR_IO, "output '%s' is no folder and stays as it is", target);
        goto free_target;
    }
    for (int tries = 0; !made; tries++) { /* two starts within one tick of the clock may meet */
        made = rt_path_aside(ctx, target, "part");
        if (!made) {
            st = RT_ERR_NOMEM;
            goto free_target;
        }
        if (mkdir(made, 0777) == 0)
            break;
        int err = errno;
        if (err != EEXIST || tries == 100) {
            st = rt_fail(ctx, RT_ERR_IO, "cannot create the folder '%s': %s", made, strerror(err));
            rt_free(made);
            goto free_target;
        }
        rt_free(made);
        made = NULL;
    }
    *aside = made;
free_target:
    rt_free(target);
    return st;
}

rt_status rt_folder_commit(rt_context *ctx, const char *path, bool force, char **aside)
{
    char *target = NULL, *old = NULL;
    RT_TRY(clean_path(ctx, path, &target));
    rt_status st = RT_OK;
    bool replaces = exists(target);
    if (replaces && !force) {
        st = refuse_existing(ctx, target);
        goto free_target;
    }
    if (replaces) {
        old = rt_path_aside(ctx, target, "old");
        if (!old) {
            st = RT_ERR_NOMEM;
            goto free_target;
        }
        if (rename(target, old) != 0) {
            st = rt_fail(ctx, RT_ERR_IO, "cannot move the old '%s' away: %s", target, strerror(errno));
            goto free_old;
        }
    }
    if (rename(*aside, target) != 0) {
        st = rt_fail(ctx, RT_ERR_IO, "cannot rename '%s' to '%s': %s", *aside, target, strerror(errno));
        if (old)
            (void)rename(old, target); /* the old one comes back */
        goto free_old;
    }
    if (old)
        remove_tree(old);
    rt_free(*aside);
    *aside = NULL;
free_old:
    rt_free(old);
free_target:
    rt_free(target);
    return st;
}

void rt_folder_abandon(char **aside)
{
    if (!aside || !*aside)
        return;
    remove_tree(*aside);
    rt_free(*aside);
    *aside = NULL;
}
