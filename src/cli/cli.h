/* The verbs: each returns a status, or leaves *code at 1 for a numeric failure. */
#ifndef RT_CLI_CLI_H
#define RT_CLI_CLI_H

#include "cli/options.h"

typedef struct {
    rt_context *ctx;
    rt_comm *comm;
    const rt_options *o;
    const char *replay; /* the command line */
    bool root;          /* this process prints */
    int code;           /* exit code of a call that went well: 0, or 1 for a numeric failure */
} rt_cli;

rt_status rt_cli_gen(rt_cli *c) RT_NODISCARD;
rt_status rt_cli_run(rt_cli *c) RT_NODISCARD;
rt_status rt_cli_plan(rt_cli *c) RT_NODISCARD;
rt_status rt_cli_check(rt_cli *c) RT_NODISCARD;
rt_status rt_cli_diff(rt_cli *c) RT_NODISCARD;
rt_status rt_cli_info(rt_cli *c) RT_NODISCARD;
rt_status rt_cli_bench(rt_cli *c) RT_NODISCARD;

/* Open the dump that the arguments name, `first` of them on. */
rt_status rt_cli_open(rt_cli *c, int64_t first, int64_t count, rt_dump *out) RT_NODISCARD;
/* The same for a verb that computes: open on all processes or on none, and the BLAS tested. */
rt_status rt_cli_open_together(rt_cli *c, rt_dump *out) RT_NODISCARD;
/* Rows, heads and width of a tensor. */
void rt_cli_shape(const rt_problem *p, rt_tensor_id t, int64_t *seqlen, int64_t *heads, int64_t *width);
bool rt_cli_key_side(rt_tensor_id t);
void rt_cli_print_fingerprint(FILE *f, rt_tensor_id t, rt_dtype dtype, const rt_fingerprint *x);

/* Certificates and product counts of all processes, on process 0.  Collective. */
rt_status rt_cli_total_certificates(rt_cli *c, rt_run_stats *stats) RT_NODISCARD;

#endif
