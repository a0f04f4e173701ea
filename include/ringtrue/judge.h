/** @file judge.h  How far a result is from the truth, against what its declared arithmetic explains.
 *
 *  For every element: err = |x - truth|, and two bounds that follow from the inputs and the declared arithmetic.
 *  B holds whatever the roundings do.  B_lambda takes the roundings as independent and without bias (Hoeffding's
 *  inequality): B_lambda = (what is not random) + lambda * sqrt(sum of squares) + (the final rounding), never above B,
 *  with lambda = sqrt(2 ln(2 N / delta)) for the N elements of the tensor; an error of the exponential and the
 *  truncation of a matrix unit are not random and enter undivided.  Formulas: src/judge/budget.h. */
#ifndef RINGTRUE_JUDGE_H
#define RINGTRUE_JUDGE_H

#include <ringtrue/arithmetic.h>
#include <ringtrue/run.h>
#include <ringtrue/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The ladder, best first. */
typedef enum {
    RT_CLASS_ROUNDED = 0, /**< the truth, rounded to the tensor's format */
    RT_CLASS_FAITHFUL,    /**< one of the two neighbours of the truth */
    RT_CLASS_EXPLAINED,   /**< err <= B_lambda */
    RT_CLASS_SUSPECT,     /**< err <= B */
    RT_CLASS_WRONG,       /**< err > B: the declared arithmetic cannot have produced it */
    RT_CLASS_SPECIAL, /**< NaN or infinity where there is none, or none where there is one, or an empty row that
                               holds something */
    RT_CLASS_UNDEFINED, /**< depends on a NaN or infinity of the inputs, or its truth is not known: not judged */
    RT_CLASS_COUNT
} rt_class;

const char *rt_class_name(rt_class c);

/** One element, in original coordinates. */
typedef struct {
    int64_t b, pos, head,
        dim; /**< dim 0 for lse, dsink; head is a key head for dk, dv; dim is the key of dbias */
    double got, truth, bound, bound_lambda, ratio;
    rt_class found;
} rt_element;

enum { RT_RATIO_BINS = 512, RT_ULP_BINS = 8 };

/** The parts of a bound: B_lambda = min(SYS + RANDOM, DET) + ROUNDING + TRUTH, and B. */
enum {
    RT_PART_SYS = 0,      /**< not random, undivided */
    RT_PART_RANDOM,       /**< lambda times the random part's sigma */
    RT_PART_ROUNDING,     /**< the last rounding, to the tensor's format */
    RT_PART_TRUTH,        /**< the truth's radius, and that it is held as a double */
    RT_PART_DET,          /**< the worst case of everything before the last rounding */
    RT_PART_BOUND_LAMBDA, /**< B_lambda */
    RT_PART_BOUND,        /**< B */
    RT_BOUND_PARTS
};

/** The count of one tensor.  Plain data: two tallies add up in any order to the same bits. */
typedef struct {
    bool judged;
    rt_dtype dtype;
    int64_t elements;
    int64_t count[RT_CLASS_COUNT];
    double max_ratio;                  /**< largest err / B */
    double max_ratio_lambda;           /**< largest err / B_lambda */
    int64_t ratio_bins[RT_RATIO_BINS]; /**< err / B_lambda in 16 bins an octave, [2^-24, 2^8) */
    /** |error| in ulps of the format: 0 (rounded), <=1, <=2, <=4, <=16, <=256, more, not finite */
    int64_t ulp_bins[RT_ULP_BINS];
    int64_t bias_sum;     /**< signed error in 2^-20 ulps, each limited to +-1024 ulps */
    int64_t bias_squares; /**< squares of the same in 2^-10 ulp^2; for the z-score */
    int64_t empty_minus_inf, empty_plus_inf, empty_zero; /**< lse: what empty rows hold */
    /** elements whose truth is not known: scores so large that binary64 says nothing of the weights, where `exact` has
     *  no value either (gradients of rows beyond 2^40; out of such rows in binary64); UNDEFINED, if not NaN */
    int64_t unknown;
    bool has_first, has_worst;
    rt_element first; /**< the first WRONG or SPECIAL (else SUSPECT) in order (b, pos, head, dim) */
    rt_element worst; /**< the largest err / B */
    double part[RT_BOUND_PARTS]; /**< of the largest err / B_lambda */
    rt_element peak;             /**< the element of the largest err / B_lambda, whose parts those are */
} rt_tally;

/** The ratio below which 99.99 % of the finite elements lie (upper edge of its bin); 0 if none. */
double rt_tally_ratio_quantile(const rt_tally *t, double q);
/** Mean signed error in ulps, and its z-score (0 when there is nothing to judge). */
double rt_tally_bias(const rt_tally *t, double *z);

/** A tensor passes when nothing is WRONG, SPECIAL or SUSPECT (lambda leaves SUSPECT a chance below delta). */
bool rt_tally_pass(const rt_tally *t);

/** What is judged.  `load` gives a row (all dims) of a tensor as doubles; called from several threads at once. */
typedef struct {
    void (*load)(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, double *row);
    void *arg;
    bool present[RT_RESULT_COUNT]; /**< q, k, v must be; gradients are judged only if dout is,
                                          dsink and dbias only if the problem has a sink, a bias */
    rt_dtype dtype[RT_RESULT_COUNT];
    bool lse_base2;
    void (*release)(
        void *arg); /**< NULL, or: what was read so far may leave memory; called between blocks */
} rt_judge_input;

typedef enum {
    RT_TRUTH_F64 = 0, /**< binary64, with a radius of B * 2^-53 / u that both bounds include */
    RT_TRUTH_EXACT    /**< correctly rounded to the tensor's format, by the arithmetic `exact` */
} rt_truth;

typedef enum {
    RT_SAMPLE_AUTO = 0, /**< as the budget demands */
    RT_SAMPLE_KEYS,     /**< all rows of lse, out, dq; a sample of keys for dk, dv */
    RT_SAMPLE_BOTH      /**< samples of both */
} rt_sampling;

typedef struct {
    /** the wish; a pair with a NaN or an infinity in k or v, and what the budget forbids, gets F64 */
    rt_truth truth;
    /** > 0: rows and keys are sampled where all of them would take longer; 0: all are judged */
    double budget_seconds;
    rt_sampling sampling;
    int64_t samples; /**< how many (query, head) rows and (key, head) rows to sample; 0: 1024 of each */
    uint64_t seed;   /**< of the samples: spread over ranks, halves, documents and heads */
    double delta;    /**< chance that a right result exceeds B_lambda somewhere in a tensor; 0: 1e-6 */
    /** NULL, or called for each row judged (one thread at a time): truth, B, B_lambda of its n elements, in the unit
     *  of the stored tensor. */
    void (*observe)(void *arg, rt_tensor_id t, int64_t b, int64_t pos, int64_t h, int64_t n,
                    const double *truth, const double *bound, const double *bound_lambda);
    void *observe_arg;
} rt_judge_options;

typedef struct {
    rt_tally tensor[RT_RESULT_COUNT];
    double lambda[RT_RESULT_COUNT];
    double delta;
    bool pass; /**< at least one tensor was judged and every judged one passes */
    rt_truth truth[RT_RESULT_COUNT];
    int64_t judged[RT_RESULT_COUNT], total[RT_RESULT_COUNT]; /**< (token, head) rows */
    bool
        given_lse; /**< dk, dv, dsink: judged given the dump's lse and out, whose bounds are carried along */
    double estimate; /**< seconds that judging everything would have taken, 0 if it was not asked */
    rt_certificate certificate[RT_RESULT_COUNT];
    /** BLAS products that exact took and checked; of which wrong, and computed again */
    int64_t products[2];
    double seconds;
} rt_verdict;

/** Judge.  Memory O(S (D + Dv)) per key head.  With a budget: everything if an estimate (from a small part of this problem) says that it
 *  fits; else all rows of lse, out and dq if these fit, and a sample of keys; else samples of both, and dk, dv given the dump's own lse and out; dsink then also given these.  A sample takes the rows of dbias that
 *  belong to a sample of queries, if each is of one query, batch and head (or all heads, with one key head); else
 *  every element wants rows that are not sampled, and dbias is not judged.  dbias takes another pass over the pairs (exact: two), and memory of 8 to 14 times the bias's.  Collective over comm: the
 *  (batch, key head) pairs are dealt to the processes, and every process gets the whole verdict. */
rt_status rt_judge(rt_context *ctx, rt_comm *comm, const rt_problem *p, const rt_layout *l,
                   const rt_plan *plan, const rt_declared *declared, const rt_judge_input *in,
                   const rt_judge_options *o, rt_verdict *out) RT_NODISCARD;

/** Where an element lives and what brought its counterpart: one line of text, e.g. "document 1, owner rank 2, slot 17 of
 *  64 (second half), keys of shard 2 at step 0, of shard 1 at step 1".  Local. */
void rt_element_place(const rt_problem *p, const rt_layout *l, const rt_plan *plan, rt_tensor_id t,
                      const rt_element *e, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
