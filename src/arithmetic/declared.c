/* The declaration of an arithmetic: names, defaults, and our own arithmetics declared in full. */
#include <string.h>

#include <ringtrue/arithmetic.h>

static const char *const join_names[] = {"sigmoid", "two-pass", "split", "raw"};

const char *rt_join_name(rt_join_form j)
{
    return join_names[j];
}

bool rt_join_parse(const char *name, rt_join_form *out)
{
    for (int i = 0; i < 4; i++)
        if (strcmp(name, join_names[i]) == 0) {
            *out = (rt_join_form)i;
            return true;
        }
    return false;
}

/* Truncated fused dot-add: L products a step, F fraction bits in the alignment, fraction bits of the result.  Measured
 * on hardware by Khattak and Mikaitis (arXiv 2512.07004) and Xie et al. (arXiv 2511.10909). */
static const struct {
    const char *name;
    rt_acc_kind kind;
    int32_t step, fraction, bits;
} accumulators[] = {
    {"f32", RT_ACC_F32, 0, 0, 0},
    {"f64", RT_ACC_F64, 0, 0, 0},
    {"tc-volta", RT_ACC_TC, 4, 23, 23},
    {"tc-ampere", RT_ACC_TC, 8, 24, 23},
    {"tc-ada-fp8", RT_ACC_TC, 16, 13, 13},
    {"tc-hopper", RT_ACC_TC, 16, 25, 23},
    {"tc-hopper-fp8", RT_ACC_TC, 32, 13, 13},
    {"tc-blackwell", RT_ACC_TC, 16, 25, 23},
    {"tc-blackwell-fp8", RT_ACC_TC, 32, 25, 23},
};

bool rt_declared_accumulate(rt_declared *d, const char *name)
{
    for (size_t i = 0; i < sizeof accumulators / sizeof accumulators[0]; i++)
        if (strcmp(accumulators[i].name, name) == 0) {
            d->accumulate = accumulators[i].kind;
            d->tc_step = accumulators[i].step;
            d->tc_fraction = accumulators[i].fraction;
            d->tc_bits = accumulators[i].bits;
            strcpy(d->accumulate_name, accumulators[i].name);
            return true;
        }
    return false;
}

const char *rt_declared_accumulate_names(void)
{
    return "f32 f64 tc-volta tc-ampere tc-ada-fp8 tc-hopper tc-hopper-fp8 tc-blackwell tc-blackwell-fp8";
}

void rt_declared_init(rt_declared *d, rt_dtype input)
{
    const rt_dtype low = input == RT_F64 ? RT_F32 : input;
    memset(d, 0, sizeof *d);
    (void)rt_declared_accumulate(d, "f32");
    d->exp_rel = 0x1p-13;  /* a CPU kernel in use has 1.09e-4: validation/exp_accuracy.py */
    d->tanh_rel = 0x1p-11; /* PTX: tanh.approx.f32 */
    d->block_keys = 16;
    d->probabilities = low;
    d->partial = low;
    d->state = low;
    d->join = RT_JOIN_TWO_PASS;
    d->grad_partial = low;
    d->grad_state = low;
    d->assumed = RT_DECL_ALL;
}

bool rt_declared_of(const char *name, rt_declared *d)
{
    if (strcmp(name, "f32") == 0) {
        memset(d, 0, sizeof *d);
        (void)rt_declared_accumulate(d, "f32");
        d->exp_rel = 0x1p-22; /* its own 2^x: 1.4e-7 at most (test_f32.c), and base 2 */
        d->tanh_rel = 0x1p-22;
        d->block_keys = 512;
        d->probabilities = d->partial = d->state = d->grad_partial = d->grad_state = RT_F32;
        d->join = RT_JOIN_RAW;
        return true;
    }
    /* exact rounds once: f64's declaration covers it with room to spare */
    if (strcmp(name, "f64") != 0 && strcmp(name, "exact") != 0)
        return false;
    memset(d, 0, sizeof *d);
    (void)rt_declared_accumulate(d, "f64");
    d->exp_rel = 0x1p-52;  /* SLEEF u10: 1 ulp */
    d->tanh_rel = 0x1p-52; /* likewise */
    d->block_keys = 256;
    d->probabilities = d->partial = d->state = d->grad_partial = d->grad_state = RT_F64;
    d->join = RT_JOIN_RAW;
    return true;
}
