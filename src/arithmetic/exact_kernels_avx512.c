/* The elementwise passes of the exact arithmetic for one instruction set: avx512. */
#include "arithmetic/exact_kernels.h"

#if defined(RT_EXACT_AVX)
#define RT_W 8
#define RT_KERNELS rt_exact_kernels_avx512
#include "arithmetic/exact_kernels_body.h"
#endif
