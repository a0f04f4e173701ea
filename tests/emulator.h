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
    double *t[RT_RESULT_COUNT];
} emu_case;

int64_t emu_batch(const rt_problem *p, rt_tensor_id t);
int64_t emu_length(const rt_problem *p, rt_tensor_id t);
int64_t emu_heads(const rt_problem *p, rt_tensor_id t);
int64_t emu_width(const rt_problem *p, rt_tensor_id t);
int64_t emu_elements(const rt_problem *p, rt_tensor_id t);
double *emu_row(const emu_case *c, rt_tensor_id t, int64_t b, int64_t pos, int64_t h);

/* Bent scores for it: slopes; a bias of the shape "bhss" .. "111s", with some pairs hidden if asked for; sinks. */
void emu_alibi(rt_problem *p);
void emu_bias(rt_problem *p, const char *shape, bool hides);
void emu_sinks(rt_problem *p, double middle);
/* A problem of one batch: D = Dv, scale 1/sqrt(D) in binary32, no documents. */
rt_problem emu_problem(int64_t sq, int64_t sk, int64_t hq, int64_t hkv, int64_t dim, rt_mask_kind mask);

/* Takes the problem over, makes the layout and the plan (ring; single for one rank) and inputs of the
 * family, all tensors present in format t (lse in f32; everything f64 for f64), results zero. */
void emu_create(emu_case *c, rt_problem p, rt_layout_kind layout, int32_t ranks, rt_family family,
                uint64_t seed, rt_dtype t);
void emu_reset(emu_case *c);

typedef struct {
    rt_declared d;     /* join, formats, block of keys; accumulate f32 or a matrix unit */
    double exp_error;  /* every exponential of the kernel is wrong by this, relative */
    double tanh_error; /* the same of the softcap's tanh */
    bool head_casts;   /* dk, dv of each query head are rounded before the heads of a group are added */
    bool sink_is_key;  /* the sink begins the first call's softmax, instead of joining the row at its end */
    bool raw_tanh;     /* tanh is made from exponentials */
    unsigned faults;   /* emu_fault */
} emu_arithmetic;

/* What a kernel or the code around it may get wrong with bent scores. */
enum {
    EMU_SINK_EACH_CALL = 1, /* every call of a row counts the sink */
    EMU_LOCAL_ALIBI = 2,    /* distances between slots of the ranks instead of positions */
    EMU_LOCAL_DROPOUT = 4,  /* the mask of slots instead of positions */
    EMU_NO_DROPOUT_SCALE = 8,
    EMU_BIAS_HEAD = 16, /* the bias of the next head */
    EMU_NO_SOFTCAP = 32,
    EMU_NO_SLOPE = 64, /* the backward forgets the softcap's derivative */
    EMU_NO_SINK = 128,
    EMU_DSINK_SIGN = 256
};

/* All binary32 but P, dS and the partials, which are in `kernel`; join sigmoid; exp right to half an ulp.
 */
emu_arithmetic emu_declared(rt_dtype kernel);

/* Fills lse, out, dq, dk, dv; dsink and dbias of a problem that has them. */
void emu_run(emu_case *c, const emu_arithmetic *a);
/* sum x_k y_k as the arithmetic accumulates it. */
float emu_dot(const emu_arithmetic *a, const double *x, const double *y, int64_t n, int64_t stride);

rt_verdict emu_judge(emu_case *c, const rt_declared *d);
rt_verdict emu_judge_with(emu_case *c, const rt_declared *d, const rt_judge_options *o);
/* The truth and both bounds of every element, in arrays like those of the case. */
typedef struct {
    const emu_case *c;
    double *truth[RT_RESULT_COUNT], *bound[RT_RESULT_COUNT], *lambda[RT_RESULT_COUNT];
    int64_t rows;
} emu_truth;
void emu_observe(emu_case *c, const rt_declared *d, emu_truth *out); /* binary64's */
void emu_observe_with(emu_case *c, const rt_declared *d, rt_truth truth, emu_truth *out);
void emu_truth_reset(emu_truth *t);
/* Whether two tallies of a verdict are the same in all that they count and name. */
bool emu_same(const rt_verdict *a, const rt_verdict *b);
/* Results become the truth, rounded to their formats. */
void emu_fill(emu_case *c, const emu_truth *t);

#endif
