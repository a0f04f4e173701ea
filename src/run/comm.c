/* The processes that share the work, over MPI or alone.  The only file that starts MPI. */
#include "run/comm.h"

#include <stdlib.h>
#include <string.h>

rt_status rt_mpi_check(rt_context *ctx, int code, const char *call)
{
    if (code == MPI_SUCCESS)
        return RT_OK;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        strcpy(text, "unknown error");
    return rt_fail(ctx, RT_ERR_MPI, "%s failed: %s", call, text);
}

/* Whether a launcher started this process as part of a job.  Without one MPI_Init would still work, but it
 * starts a daemon and costs a second: not worth it for a job of one. */
static bool in_a_job(void)
{
    static const char *const marks[] = {"OMPI_COMM_WORLD_SIZE", "PMI_RANK",        "PMIX_RANK", "PMI_SIZE",
                                        "SLURM_STEP_NODELIST",  "SMPI_GLOBAL_SIZE"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (getenv(marks[i]) != NULL)
            return true;
    return false;
}

rt_status rt_comm_create(rt_context *ctx, rt_comm **out)
{
    rt_comm *c = rt_calloc(ctx, 1, sizeof *c);
    if (c == NULL)
        return RT_ERR_NOMEM;
    c->size = 1;
    c->comm = MPI_COMM_NULL;
    c->piece = RT_COMM_PIECE;
    int running = 0;
    if (MPI_Initialized(&running) != MPI_SUCCESS)
        running = 0;
    if (running || in_a_job()) {
        int provided = MPI_THREAD_SINGLE;
        rt_status st = RT_OK;
        if (!running) {
            st = rt_mpi_check(ctx, MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided),
                              "MPI_Init_thread");
            c->owns_mpi = st == RT_OK;
        }
        if (st == RT_OK)
            st = rt_mpi_check(ctx, MPI_Comm_dup(MPI_COMM_WORLD, &c->comm), "MPI_Comm_dup");
        if (st == RT_OK)
            st = rt_mpi_check(ctx, MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN),
                              "MPI_Comm_set_errhandler");
        if (st == RT_OK)
            st = rt_mpi_check(ctx, MPI_Comm_size(c->comm, &c->size), "MPI_Comm_size");
        if (st == RT_OK)
            st = rt_mpi_check(ctx, MPI_Comm_rank(c->comm, &c->rank), "MPI_Comm_rank");
        if (st != RT_OK) {
            rt_comm_destroy(&c);
            return st;
        }
    }
    *out = c;
    return RT_OK;
}

rt_status rt_comm_self(rt_context *ctx, rt_comm **out)
{
    rt_comm *c = rt_calloc(ctx, 1, sizeof *c);
    if (c == NULL)
        return RT_ERR_NOMEM;
    c->size = 1;
    c->comm = MPI_COMM_NULL;
    c->piece = RT_COMM_PIECE;
    *out = c;
    return RT_OK;
}

void rt_comm_destroy(rt_comm **comm)
{
    if (*comm == NULL)
        return;
    if ((*comm)->comm != MPI_COMM_NULL)
        (void)MPI_Comm_free(&(*comm)->comm);
    if ((*comm)->owns_mpi)
        (void)MPI_Finalize();
    rt_free(*comm);
    *comm = NULL;
}

int32_t rt_comm_rank(const rt_comm *c)
{
    return c->rank;
}

int32_t rt_comm_size(const rt_comm *c)
{
    return c->size;
}

rt_ranks rt_comm_ranks(const rt_comm *c, int32_t ranks)
{
    rt_ranks of = {0, 0};
    while (of.first < ranks && rt_comm_owner(c, of.first, ranks) < c->rank)
        of.first++;
    of.end = of.first;
    while (of.end < ranks && rt_comm_owner(c, of.end, ranks) == c->rank)
        of.end++;
    return of;
}

int32_t rt_comm_owner(const rt_comm *c, int32_t rank, int32_t ranks)
{
    return (int32_t)((int64_t)rank * c->size / ranks);
}

rt_status rt_comm_agree(rt_context *ctx, rt_comm *c, rt_status mine)
{
    if (c->size == 1)
        return mine;
    struct {
        int value, rank;
    } in = {mine == RT_OK ? 1 : 0, c->rank}, worst; /* MINLOC: the lowest rank with a failure */
    RT_TRY(
        rt_mpi_check(ctx, MPI_Allreduce(&in, &worst, 1, MPI_2INT, MPI_MINLOC, c->comm), "MPI_Allreduce"));
    if (worst.value == 1)
        return RT_OK;
    struct {
        int status;
        char message[sizeof ctx->message];
    } said = {.status = (int)mine};
    if (ctx != NULL)
        memcpy(said.message, ctx->message, sizeof said.message);
    RT_TRY(
        rt_mpi_check(ctx, MPI_Bcast(&said, (int)sizeof said, MPI_BYTE, worst.rank, c->comm), "MPI_Bcast"));
    if (ctx != NULL)
        memcpy(ctx->message, said.message, sizeof said.message);
    return (rt_status)said.status;
}

rt_status rt_comm_same(rt_context *ctx, rt_comm *c, uint64_t value, const char *what)
{
    if (c->size == 1)
        return RT_OK;
    uint64_t both[2] = {value, ~value}, least[2]; /* min(x) and min(~x) = ~max(x) */
    RT_TRY(
        rt_mpi_check(ctx, MPI_Allreduce(both, least, 2, MPI_UINT64_T, MPI_MIN, c->comm), "MPI_Allreduce"));
    if (least[0] == ~least[1])
        return RT_OK;
    return rt_fail(
        ctx, RT_ERR_MPI,
        "the processes were not given the same %s: digests run from %016llx to %016llx (process %d has "
        "%016llx). Hint: the same files and flags on every host",
        what, (unsigned long long)least[0], (unsigned long long)~least[1], c->rank,
        (unsigned long long)value);
}

rt_status rt_comm_sum_words(rt_context *ctx, rt_comm *c, uint64_t *words, int64_t count)
{
    if (c->size == 1)
        return RT_OK;
    return rt_mpi_check(ctx, MPI_Allreduce(MPI_IN_PLACE, words, (int)count, MPI_UINT64_T, MPI_SUM, c->comm),
                        "MPI_Allreduce");
}

enum { TAG_GATHER = 32001 };

rt_status rt_comm_broadcast(rt_context *ctx, rt_comm *c, void *data, int64_t bytes)
{
    if (c->size == 1)
        return RT_OK;
    for (int64_t at = 0; at < bytes; at += c->piece) {
        const int64_t n = bytes - at < c->piece ? bytes - at : c->piece;
        RT_TRY(rt_mpi_check(ctx, MPI_Bcast((char *)data + at, (int)n, MPI_BYTE, 0, c->comm), "MPI_Bcast"));
    }
    return RT_OK;
}

rt_status rt_comm_gather(rt_context *ctx, rt_comm *c, const void *mine, int64_t bytes, void **all,
                         int64_t **offsets)
{
    *all = NULL;
    *offsets = NULL;
    int64_t *at = rt_calloc(ctx, c->size + 1, sizeof *at),
            *counts = rt_calloc(ctx, c->size, sizeof *counts);
    char *data = NULL;
    rt_status st = at != NULL && counts != NULL ? RT_OK : RT_ERR_NOMEM;
    st = rt_comm_agree(ctx, c, st);
    if (st != RT_OK)
        goto free_counts;
    counts[0] = bytes;
    if (c->size > 1)
        st = rt_mpi_check(ctx, MPI_Gather(&bytes, 1, MPI_INT64_T, counts, 1, MPI_INT64_T, 0, c->comm),
                          "MPI_Gather");
    if (st == RT_OK && c->rank == 0) {
        for (int32_t r = 0; r < c->size; r++)
            at[r + 1] = at[r] + counts[r];
        data = rt_alloc(ctx, at[c->size], 1);
        st = data == NULL ? RT_ERR_NOMEM : RT_OK;
    }
    st = rt_comm_agree(ctx, c, st);
    if (st != RT_OK)
        goto free_counts;
    if (c->rank == 0)
        memcpy(data, mine, (size_t)bytes);
    for (int32_t r = 1; r < c->size && st == RT_OK; r++) {
        const int64_t total = c->rank == 0 ? counts[r] : bytes;
        for (int64_t x = 0; x < total && st == RT_OK; x += c->piece) {
            const int n = (int)(total - x < c->piece ? total - x : c->piece);
            if (c->rank == 0)
                st = rt_mpi_check(
                    ctx, MPI_Recv(data + at[r] + x, n, MPI_BYTE, r, TAG_GATHER, c->comm, MPI_STATUS_IGNORE),
                    "MPI_Recv");
            else if (c->rank == r)
                st = rt_mpi_check(
                    ctx, MPI_Send((const char *)mine + x, n, MPI_BYTE, 0, TAG_GATHER, c->comm), "MPI_Send");
        }
    }
    if (st == RT_OK && c->rank == 0) {
        *all = data;
        *offsets = at;
        data = NULL;
        at = NULL;
    }
free_counts:
    rt_free(data);
    rt_free(at);
    rt_free(counts);
    return st;
}
