/* emulator.h: attention in a declared arithmetic, written as plainly as can be, and a judge's bench for it.
 *
 * Every rounding point that a declaration names is one here: binary32 scores, softmax and sums; P and dS,
 * partial outputs, the joined state, the gradients of each step and their sum rounded to the formats that
 * are declared. */
#ifndef RT_TESTS_EMULATOR_H
#define RT_TESTS_EMULATOR_H

#include <ringtrue/generate.h>
#include <ringtrue/judge.h>

#include "masks.h"

/* A problem with all its tensors as doubles, (B, S, H, width), lse with width 1. */
typedef struct {
    rt_problem p;
    rt_layout l;
    rt_plan plan;
    rt_judge_input in; /* present and dtype are the test's to change */
    double *t[RT_TENSOR_COUNT];
} emu_case;

int64_t emu_length(const rt_problem *p, rt_tensor_id t);
int64_t emu_heads(const rt_problem *p, rt_tensor_id t);
int64_t emu_width(const rt_problem *p, rt_tensor_id t);
int64_t emu_elements(const rt_problem *p, rt_tensor_id t);
double *emu_row(const emu_case *c, rt_tensor_id t, int64_t b, int64_t pos, int64_t h);

/* A problem of one batch: D = Dv, scale 1/sqrt(D) in binary32, no documents. */
rt_problem emu_problem(int64_t sq, int64_t sk, int64_t hq, int64_t hkv, int64_t dim, rt_mask_kind mask);

/* Takes the problem over, makes the layout and the plan (ring; single for one rank) and inputs of the
 * family, all tensors present in format t (lse in f32; everything f64 for f64), results zero. */
void emu_create(emu_case *c, rt_problem p, rt_layout_kind layout, int32_t ranks, rt_family family,
                uint64_t seed, rt_dtype t);
void emu_reset(emu_case *c);

typedef struct {
    rt_declared d;    /* join, formats, block of keys; accumulate f32 or a matrix unit */
    double exp_error; /* every exponential of the kernel is wrong by this, relative */
    bool head_casts;  /* dk, dv of each query head are rounded before the heads of a group are added */
} emu_arithmetic;

/* All binary32 but P, dS and the partials, which are in `kernel`; join sigmoid; exp right to half an ulp.
 */
emu_arithmetic emu_declared(rt_dtype kernel);

/* Fills lse, out, dq, dk, dv. */
void emu_run(emu_case *c, const emu_arithmetic *a);
/* sum x_k y_k as the arithmetic accumulates it. */
float emu_dot(const emu_arithmetic *a, const double *x, const double *y, int64_t n, int64_t stride);

rt_verdict emu_judge(emu_case *c, const rt_declared *d);
rt_verdict emu_judge_with(emu_case *c, const rt_declared *d, const rt_judge_options *o);
/* The truth and both bounds of every element, in arrays like those of the case. */
typedef struct {
    const emu_case *c;
    double *truth[RT_TENSOR_COUNT], *bound[RT_TENSOR_COUNT], *lambda[RT_TENSOR_COUNT];
    int64_t rows;
} emu_truth;
void emu_observe(emu_case *c, const rt_declared *d, emu_truth *out);
void emu_truth_reset(emu_truth *t);
/* Whether two tallies of a verdict are the same in all that they count and name. */
bool emu_same(const rt_verdict *a, const rt_verdict *b);
/* Results become the truth, rounded to their formats. */
void emu_fill(emu_case *c, const emu_truth *t);

#endif
