/* rt_dd_exp's loop for one instruction set: avx512. */
#include "number/dd_exp.h"

#if defined(RT_DD_AVX)
#define RT_W 8
#define RT_DD_EXP_NAME rt_dd_exp_avx512
#include "number/dd_exp_body.h"
#endif
