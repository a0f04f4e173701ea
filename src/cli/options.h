/* The one table of flags: it drives the parser and the help. */
#ifndef RT_CLI_OPTIONS_H
#define RT_CLI_OPTIONS_H

#include <ringtrue/ringtrue.h>

enum { RT_MAX_ARGUMENTS = 4096, RT_MAX_DECLARATIONS = 16 };

/* What grid was asked for groups; 0: not said. */
typedef struct {
    bool asked; /* a flag of the groups was given */
    const char *order, *cp_order, *double_ring;
    int64_t world, tp, cp, dp, pp, ep, sharding, ulysses, window, most;
    int64_t *levels, n_levels, *lengths, n_lengths; /* lists: rt_alloc */
    bool hybrid;
} rt_grid_options;

/* What the flags said. */
typedef struct {
    const char *verb;
    uint64_t given[4]; /* a bit for each flag that was given, in the order of the table */
    const char *arguments[RT_MAX_ARGUMENTS];
    int64_t n_arguments;
    rt_family family;
    uint64_t seed;
    int64_t batch, seqlen, seqlen_k, heads, kv_heads, dim, dim_v, ranks;
    rt_dtype dtype, out_dtype;
    bool has_out_dtype;
    rt_mask_kind mask;
    const char *slices, *dense_mask; /* files */
    int64_t *window, *key_lengths;   /* rt_alloc */
    int64_t n_window, n_key_lengths, prefix;
    int64_t *cu_q, *cu_k; /* rt_alloc */
    int64_t n_cu_q, n_cu_k;
    int64_t *padded_q, *padded_k; /* rt_alloc */
    int64_t n_padded_q, n_padded_k;
    bool unpadded; /* --cu-seqlens-padded none */
    const char *scale;
    const char *plan, *layout, *arith, *spec, *output, *remainder, *svg, *trace;
    rt_transport transport;
    rt_machine cost;
    bool has_cost;
    const char *declare[RT_MAX_DECLARATIONS];
    int64_t n_declare;
    double delta, budget; /* budget: seconds */
    int64_t samples;
    rt_truth truth;
    rt_sampling sampling;
    int64_t iters, warmup; /* bench */
    bool peer, ring;
    bool alibi, sink;
    const char *bias; /* a shape */
    double softcap, dropout;
    uint64_t dropout_seed;
    bool has_layout, has_remainder, has_ranks, has_plan;
    rt_remainder remainder_kind;
    rt_grid_options grid;
    bool relayout;
    bool json, fingerprint, force, verify, list, summary, table, forward_only, results, full, quiet, help;
} rt_options;

/* Parse the arguments after the verb.  RT_ERR_ARG with one line on what is wrong. */
rt_status rt_options_parse(rt_context *ctx, int argc, char **argv, rt_options *out) RT_NODISCARD;
void rt_options_reset(rt_options *o);
/* The help of a verb, from the table. */
void rt_options_help(FILE *f, const char *verb);
/* The problem that the flags describe (gen, plan). */
rt_status rt_options_problem(rt_context *ctx, const rt_options *o, rt_problem *out) RT_NODISCARD;
/* alibi, bias, softcap, sink and dropout of the flags (scores.c); sink and bias drawn from the generator, or zeros where
 * the values do not matter.  The sizes of p are set. */
rt_status rt_options_scores(rt_context *ctx, const rt_options *o, bool values, rt_problem *p) RT_NODISCARD;
/* The parts of the mask beyond --mask and the documents, into a problem whose sizes are set (not checked). */
rt_status rt_options_mask(rt_context *ctx, const rt_options *o, rt_problem *p) RT_NODISCARD;
/* Whether that flag was given, by its name without the dashes. */
bool rt_options_given(const rt_options *o, const char *name);
/* The name of a flag that was given and describes the problem, NULL if none: such flags and a dump exclude
 * each other. */
const char *rt_options_problem_flag(const rt_options *o);
/* Apply --declare KEY=VALUE to a declaration. */
rt_status rt_options_declare(rt_context *ctx, const rt_options *o, rt_declared *d) RT_NODISCARD;

#endif
