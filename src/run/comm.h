/* Inside of rt_comm, for the transports of this room. */
#ifndef RT_RUN_COMM_H
#define RT_RUN_COMM_H

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#endif
#include <mpi.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#include <ringtrue/run.h>

struct rt_comm {
    MPI_Comm comm; /* MPI_COMM_NULL: alone */
    int rank, size;
    bool owns_mpi;
    int64_t piece; /* bytes: longer messages travel in pieces (counts of MPI are int); tests set it low */
};

enum { RT_COMM_PIECE = 1 << 30 };

rt_status rt_mpi_check(rt_context *ctx, int code, const char *call) RT_NODISCARD;

#endif
