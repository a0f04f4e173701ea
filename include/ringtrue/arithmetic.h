/** @file arithmetic.h  How numbers are represented, added, exponentiated, joined and rounded: the
 *  declaration (data, for the judge) and the arithmetics that run (operations, for the executor). */
#ifndef RINGTRUE_ARITHMETIC_H
#define RINGTRUE_ARITHMETIC_H

#include <ringtrue/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How a product of matrices is accumulated. */
typedef enum {
    RT_ACC_F32 = 0, /**< binary32, to nearest, any order */
    RT_ACC_F64,     /**< binary64, to nearest, any order */
    RT_ACC_TC       /**< a matrix unit: truncated fused dot-add (L products a step, F fraction bits kept
                         in alignment, result truncated to `bits` fraction bits); not random */
} rt_acc_kind;

typedef enum {
    RT_JOIN_SIGMOID = 0, /**< O <- O - sigmoid(l_b - l)(O - O_b) */
    RT_JOIN_TWO_PASS,    /**< all l first, then O = sum O_r exp(l_r - l) */
    RT_JOIN_SPLIT,       /**< max, L = max + log sum exp, O = sum O_r exp(l_r - L), fixed order */
    RT_JOIN_RAW          /**< unnormalised (m, l, O~), one division at the end */
} rt_join_form;

const char *rt_join_name(rt_join_form j); /**< sigmoid two-pass split raw */
bool rt_join_parse(const char *name, rt_join_form *out);

/** The arithmetic that a result is said to have been computed in.  The judge derives its bounds from
 *  this.  `assumed` has a bit for each field that was not declared and is taken at its least accurate
 *  (the report lists them). */
typedef struct {
    rt_acc_kind accumulate;
    int32_t tc_step, tc_fraction, tc_bits; /**< L, F, bits of RT_ACC_TC */
    char accumulate_name[32];              /**< as declared: f32 f64 tc-volta tc-ampere tc-ada-fp8 tc-hopper
                                     tc-hopper-fp8 tc-blackwell tc-blackwell-fp8 */
    double exp_rel;                        /**< relative accuracy of the kernel's exponential; not random */
    /** relative accuracy of the tanh of a softcap; not random.  Undeclared it may also be one that is made from
     *  exponentials, whose error near 0 is not relative */
    double tanh_rel;
    int64_t block_keys;     /**< keys per block of the online softmax inside one kernel call */
    rt_dtype probabilities; /**< P and dS are rounded to this before the products */
    rt_dtype partial;       /**< block outputs are rounded to this before the join */
    rt_dtype state;         /**< the joined output is kept in this */
    rt_join_form join;
    rt_dtype grad_partial; /**< per-step dq, dk, dv are rounded to this */
    rt_dtype grad_state;   /**< dq, dk, dv are added over the steps in this */
    uint32_t assumed;
} rt_declared;

enum {
    RT_DECL_ACCUMULATE = 1 << 0,
    RT_DECL_EXP = 1 << 1,
    RT_DECL_BLOCK = 1 << 2,
    RT_DECL_PROBABILITIES = 1 << 3,
    RT_DECL_PARTIAL = 1 << 4,
    RT_DECL_STATE = 1 << 5,
    RT_DECL_JOIN = 1 << 6,
    RT_DECL_GRAD_PARTIAL = 1 << 7,
    RT_DECL_GRAD_STATE = 1 << 8,
    RT_DECL_TANH = 1 << 9, /**< matters to a problem with a softcap only */
    RT_DECL_ALL = (1 << 10) - 1
};

/** Everything undeclared, for inputs of dtype `input`: each field at its least accurate that kernels
 *  in use have.  accumulate f32, exp 2^-13 (1.2e-4), tanh 2^-11 (what tanh.approx has), 16 keys a block, the rest in the input's format
 *  (f32 for f64 inputs), join two-pass. */
void rt_declared_init(rt_declared *d, rt_dtype input);
/** What ringtrue's own arithmetic `name` (f64) is, fully declared; false for an unknown name. */
bool rt_declared_of(const char *name, rt_declared *d);
/** Set accumulate (and the tc parameters) by name; false for an unknown name. */
bool rt_declared_accumulate(rt_declared *d, const char *name);
/** The known names of rt_declared_accumulate, separated by spaces. */
const char *rt_declared_accumulate_names(void);

/** An element that was left undecided; dim is the key of dbias.  Its true value lies between low and high. */
typedef struct {
    int64_t b, pos, head, dim;
    double low, high;
} rt_undecided;

/** How the elements of a result of the arithmetic `exact` were decided.  Sums of any order; one per tensor. */
typedef struct {
    int64_t fast; /**< by the error bound of the double-double pass */
    /** as a rational number (one key, equal classes), or as the rule says (empty rows, NaN inputs) */
    int64_t exact_case;
    int64_t mpfr; /**< by MPFR at rising precision */
    /** not decided (gradients at the cap; in the judge, gradients that the fast pass leaves open): the
     *  nearest value of the last approximation stands there */
    int64_t undecided;
    rt_undecided first; /**< of these, in order (b, pos, head, dim) */
    double widest;      /**< of these, the largest (high - low) / 2; infinite where nothing is known */
    /** largest error bound that decided a fast one, relative to the largest result of its row */
    double radius;
    int64_t precision; /**< largest number of bits that MPFR needed */
} rt_certificate;
/** Add one certificate to another: counts add up, extremes are kept. */
void rt_certificate_add(rt_certificate *to, const rt_certificate *from);
/** Count one more undecided element. */
void rt_certificate_undecided(rt_certificate *to, const rt_undecided *element);

/* ---- arithmetics that run --------------------------------------------------------------------- */

/** What a tile works on: one rank's rows and keys, already decoded.  Row-major, contiguous.
 *  Shapes: q (B, n_q, Hq, D), dout (B, n_q, Hq, Dv), k (B, n_kv, Hkv, D), v (B, n_kv, Hkv, Dv) where n_q,
 *  n_kv are those of the piece's slots and the head ranges are those of the pieces. */
struct rt_arithmetic_ops;
typedef struct rt_arithmetic_ops rt_arithmetic_ops;

/** The arithmetics, ended by NULL. */
const rt_arithmetic_ops *const *rt_arithmetics(void);
/** By name, NULL if unknown. */
const rt_arithmetic_ops *rt_arithmetic_find(const char *name);
const char *rt_arithmetic_name(const rt_arithmetic_ops *a);
/** The dtype of its results when nothing else is asked for. */
rt_dtype rt_arithmetic_result(const rt_arithmetic_ops *a);

/** The BLAS in use: "OpenBLAS 0.3.21 Haswell, OpenMP, 2 threads".  Static storage of the library. */
const char *rt_blas_description(void);
/** Small exact products against integers: RT_ERR_SYSTEM, naming the kernel, when the BLAS in use is
 *  wrong on this processor; also when it is the pthread flavour and cannot be driven by one thread. */
rt_status rt_blas_self_test(rt_context *ctx) RT_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
