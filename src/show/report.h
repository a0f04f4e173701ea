/* Reports: a verdict as text and as JSON.  Conventions of nccl-tests and HPL: lines that are not data start
 * with '#', a header with units, one self-describing row per tensor, a last summary line. */
#ifndef RT_SHOW_REPORT_H
#define RT_SHOW_REPORT_H

#include <stdio.h>

#include <ringtrue/ringtrue.h>

/* What was judged: for the head of the report. */
typedef struct {
    const char *name;   /* as the user gave it */
    const char *replay; /* the command line */
    const rt_spec *spec;
    const rt_layout *layout;
    const rt_plan *plan;
    const rt_declared *declared;
    const bool *present; /* RT_RESULT_COUNT */
    int processes, threads;
    double peak_mib;
} rt_report;

/* Whether the problem has the tensor: dsink and dbias only with a sink and a bias. */
bool rt_show_has(const rt_report *r, rt_tensor_id t);
/* Why a tensor was not judged. */
const char *rt_show_why_not(const rt_report *r, rt_tensor_id t);
void rt_show_problem(FILE *f, const rt_problem *p);
/* How the elements of an exact run were decided; products[1] of products[0] BLAS products were wrong. */
void rt_show_certificates(FILE *f, const rt_certificate certificate[RT_RESULT_COUNT],
                          const int64_t products[2]);
void rt_show_declared(FILE *f, const rt_declared *d, bool softcap);
void rt_show_verdict(FILE *f, const rt_report *r, const rt_verdict *v);
rt_status rt_show_verdict_json(rt_context *ctx, FILE *f, const rt_report *r,
                               const rt_verdict *v) RT_NODISCARD;

#endif
