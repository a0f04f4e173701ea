/* bench --peer: PyTorch's attention, in turn with ours. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/bench.h"

extern char **environ;
static const char script[] = "validation/peer/sdpa_peer.py";

/* RINGTRUE_PEER, or the script in the working folder, or in a folder above the program (a build inside the
 * source tree). */
static bool find_script(char *path, size_t size)
{
    const char *named = getenv("RINGTRUE_PEER");
    if (named != NULL)
        return snprintf(path, size, "%s", named) < (int)size && access(path, R_OK) == 0;
    if (snprintf(path, size, "%s", script) < (int)size && access(path, R_OK) == 0)
        return true;
    char at[4096];
    const ssize_t n = readlink("/proc/self/exe", at, sizeof at - 1);
    if (n <= 0)
        return false;
    at[n] = '\0';
    for (char *slash = strrchr(at, '/'); slash != NULL; slash = strrchr(at, '/')) {
        *slash = '\0';
        if (snprintf(path, size, "%s/%s", at, script) < (int)size && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

static rt_status spawn(rt_context *ctx, char *const argv[], rt_bench_peer *x)
{
    int down[2], up[2];
    if (pipe(down) != 0)
        return rt_fail(ctx, RT_ERR_SYSTEM, "--peer: no pipe: %s", strerror(errno));
    if (pipe(up) != 0) {
        close(down[0]);
        close(down[1]);
        return rt_fail(ctx, RT_ERR_SYSTEM, "--peer: no pipe: %s", strerror(errno));
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, down[0], 0);
    posix_spawn_file_actions_adddup2(&actions, up[1], 1);
    const int ends[4] = {down[0], down[1], up[0], up[1]};
    for (int i = 0; i < 4; i++)
        if (ends[i] > 1)
            posix_spawn_file_actions_addclose(&actions, ends[i]);
    const int bad = posix_spawnp(&x->pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(down[0]);
    close(up[1]);
    x->to = fdopen(down[1], "w");
    x->from = fdopen(up[0], "r");
    if (bad != 0)
        x->pid = 0;
    return bad == 0 && x->to != NULL && x->from != NULL
               ? RT_OK
               : rt_fail(
                     ctx, RT_ERR_SYSTEM,
                     "--peer: %s does not start: %s. Hint: RINGTRUE_PYTHON names a python3 that has torch",
                     argv[0], strerror(bad != 0 ? bad : errno));
}

rt_status rt_bench_peer_start(rt_context *ctx, const rt_problem *p, int threads, rt_bench_peer *out)
{
    char path[4096], numbers[7][24];
    if (p->mask != RT_MASK_FULL && p->mask != RT_MASK_CAUSAL)
        return rt_fail(ctx, RT_ERR_ARG, "--peer: mask %s is not one of PyTorch's. Hint: full or causal",
                       rt_mask_name(p->mask));
    if (!find_script(path, sizeof path))
        return rt_fail(ctx, RT_ERR_SYSTEM,
                       "--peer: %s is not found. Hint: call it in the source folder, or let RINGTRUE_PEER "
                       "name the script",
                       script);
    const char *named = getenv("RINGTRUE_PYTHON");
    char python[4096], mask[32];
    snprintf(python, sizeof python, "%s", named != NULL ? named : "python3");
    snprintf(mask, sizeof mask, "%s", rt_mask_name(p->mask));
    const int64_t values[7] = {p->batch, p->seqlen_q, p->heads_q, p->heads_kv, p->dim, threads, 0};
    for (int i = 0; i < 6; i++)
        snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)values[i]);
    char *const argv[] = {python,     path,       numbers[0], numbers[1], numbers[2],
                          numbers[3], numbers[4], mask,       numbers[5], NULL};
    (void)signal(SIGPIPE, SIG_IGN); /* a peer that ends early is told by its end of file */
    rt_bench_peer x = {.pid = 0};
    rt_status st = spawn(ctx, argv, &x);
    if (st == RT_OK && fgets(x.name, sizeof x.name, x.from) == NULL)
        st = rt_fail(ctx, RT_ERR_SYSTEM,
                     "--peer: %s has no torch with a flash attention for this CPU. Hint: RINGTRUE_PYTHON "
                     "names a python3 that has",
                     python);
    if (st != RT_OK) {
        rt_bench_peer_stop(&x);
        return st;
    }
    x.name[strcspn(x.name, "\n")] = '\0';
    *out = x;
    return RT_OK;
}

rt_status rt_bench_peer_once(rt_context *ctx, rt_bench_peer *x, double *forward, double *both)
{
    char line[128];
    if (fputs("go\n", x->to) == EOF || fflush(x->to) != 0 || fgets(line, sizeof line, x->from) == NULL ||
        sscanf(line, "%lf %lf", forward, both) != 2 || !(*forward > 0) || !(*both > 0))
        return rt_fail(ctx, RT_ERR_SYSTEM, "--peer: %s stopped before its turn was over", x->name);
    return RT_OK;
}

void rt_bench_peer_stop(rt_bench_peer *x)
{
    if (x->to != NULL)
        fclose(x->to);
    if (x->from != NULL)
        fclose(x->from);
    if (x->pid > 0)
        (void)waitpid(x->pid, NULL, 0);
    memset(x, 0, sizeof *x);
}
