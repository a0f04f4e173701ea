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
rt_status rt_cli_grid(rt_cli *c) RT_NODISCARD;
/* The groups that grid was asked for. */
rt_status rt_cli_groups(rt_cli *c) RT_NODISCARD;
/* run --relayout: the dump in another layout. */
rt_status rt_cli_relayout(rt_cli *c) RT_NODISCARD;
rt_status rt_cli_check(rt_cli *c) RT_NODISCARD;
rt_status rt_cli_diff(rt_cli *c) RT_NODISCARD;
rt_status rt_cli_info(rt_cli *c) RT_NODISCARD;
rt_status rt_cli_bench(rt_cli *c) RT_NODISCARD;

/* Open the dump that the arguments name, `first` of them on. */
rt_status rt_cli_open(rt_cli *c, int64_t first, int64_t count, rt_dump *out) RT_NODISCARD;
/* The same for a verb that computes: open on all processes or on none, and the BLAS tested. */
rt_status rt_cli_open_together(rt_cli *c, rt_dump *out) RT_NODISCARD;
/* What --layout, --remainder and the padded offsets say, or else the dump's spec (NULL: none); the lists stay
 * theirs. */
rt_status rt_cli_layout_options(rt_cli *c, const rt_problem *p, const rt_dump *from,
                                rt_layout_options *how) RT_NODISCARD;
/* The layout that they make, over --ranks or the dump's. */
rt_status rt_cli_layout(rt_cli *c, const rt_problem *p, const rt_dump *from, rt_layout *out) RT_NODISCARD;
/* Declare the tensors with the positions of rank r's rows (-1: padding): "pos", and "pos_k" where the sides
 * differ; how many. */
int64_t rt_cli_position_decls(const rt_layout *l, int32_t r, rt_tensor_decl *decl);
void rt_cli_positions(const rt_layout *l, rt_side side, int32_t r, int64_t *list);
/* Write a dump into -o in another layout, complete or not at all; adds the bytes to *written. */
rt_status rt_cli_write_ranks(rt_cli *c, const rt_dump *in, const rt_layout *l,
                             uint64_t *written) RT_NODISCARD;
/* The plan that --plan asks for, or else the dump's spec. */
rt_status rt_cli_plan_create(rt_cli *c, const rt_dump *d, const rt_layout *l, rt_plan *out) RT_NODISCARD;
/* A plan's name into the spec of a dump that is written to the folder `aside`: files that its parameters name (in `folder`; NULL: where the
 * program runs) are copied there, by process 0, and named anew. */
rt_status rt_cli_plan_files(rt_cli *c, const char *folder, const char *name, const char *aside,
                            rt_spec *spec) RT_NODISCARD;
/* Write the layout that rt_cli_layout made from the same dump into a spec. */
rt_status rt_cli_layout_spec(rt_cli *c, const rt_dump *from, const rt_layout *l,
                             rt_spec *spec) RT_NODISCARD;
/* Batches, rows, heads and width of a tensor (a result, or an input that has rows). */
int64_t rt_cli_batch(const rt_problem *p, rt_tensor_id t);
void rt_cli_shape(const rt_problem *p, rt_tensor_id t, int64_t *seqlen, int64_t *heads, int64_t *width);
bool rt_cli_key_side(rt_tensor_id t);
/* The tensor of a dense mask. */
rt_tensor_decl rt_cli_mask_decl(const rt_problem *p);
/* --list: one line, the name as a flag takes it and what it does; then a comment for each parameter. */
void rt_cli_list(const char *name, const rt_parameter *parameters, const char *summary);
void rt_cli_print_fingerprint(FILE *f, rt_tensor_id t, rt_dtype dtype, const rt_fingerprint *x);

/* Certificates and product counts of all processes, on process 0.  Collective. */
rt_status rt_cli_total_certificates(rt_cli *c, rt_run_stats *stats) RT_NODISCARD;

#endif
