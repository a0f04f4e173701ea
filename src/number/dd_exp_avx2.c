/* rt_dd_exp's loop for one instruction set: avx2. */
#include "number/dd_exp.h"

#if defined(RT_DD_AVX)
#define RT_W 4
#define RT_DD_EXP_NAME rt_dd_exp_avx2
#include "number/dd_exp_body.h"
#endif
