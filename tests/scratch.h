/* scratch.h: a folder of its own for a test that writes files, and whole files written and read at once. */
#ifndef RT_TESTS_SCRATCH_H
#define RT_TESTS_SCRATCH_H

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static char t_scratch_folder[256];

static inline const char *t_scratch(const char *name)
{
    static char paths[8][600]; /* several may stand in one expression */
    static unsigned turn;
    char *path = paths[turn++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", t_scratch_folder, name);
    return path;
}

static inline void t_remove(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return;
    DIR *folder = S_ISDIR(info.st_mode) ? opendir(path) : NULL;
    struct dirent *entry;
    while (folder && (entry = readdir(folder)) != NULL) {
        char child[1200];
        if ((size_t)snprintf(child, sizeof child, "%s/%s", path, entry->d_name) >= sizeof child)
            continue;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            t_remove(child);
    }
    if (folder)
        closedir(folder);
    (void)(S_ISDIR(info.st_mode) ? rmdir(path) : unlink(path));
}

static inline int t_scratch_setup(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(t_scratch_folder, sizeof t_scratch_folder, "%s/ringtrue-test-XXXXXX",
                   tmp ? tmp : "/tmp");
    return mkdtemp(t_scratch_folder) ? 0 : -1;
}

static inline int t_scratch_teardown(void **state)
{
    t_remove(t_scratch_folder);
    return t_teardown_memory(state);
}

static inline void t_write_file(const char *path, const void *bytes, size_t length)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    if (length)
        assert_int_equal(fwrite(bytes, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
}

static inline size_t t_read_file(const char *path, void *bytes, size_t room)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, room, f);
    (void)fclose(f);
    return n;
}

static inline int t_exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

/* The entries of a folder, "." and ".." apart. */
static inline int t_count_entries(const char *path)
{
    DIR *folder = opendir(path);
    assert_non_null(folder);
    int n = 0;
    while (readdir(folder) != NULL)
        n++;
    closedir(folder);
    return n - 2;
}

static inline void t_check_says(const rt_context *ctx, const char *wanted, const char *file, int line)
{
    if (!strstr(ctx->message, wanted)) {
        print_error("message lacks '%s': %s\n", wanted, ctx->message);
        _fail(file, line);
    }
}
/* The error's text has this in it. */
#define t_assert_says(ctx, wanted) t_check_says((ctx), (wanted), __FILE__, __LINE__)

/* xorshift64*: the same numbers everywhere from a printed seed. */
static inline uint64_t t_random(uint64_t *s)
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * UINT64_C(2685821657736338717);
}

#endif
