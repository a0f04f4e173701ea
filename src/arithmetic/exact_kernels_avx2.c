/* The elementwise passes of the exact arithmetic for one instruction set: avx2. */
#include "arithmetic/exact_kernels.h"

#if defined(RT_EXACT_AVX)
#define RT_W 4
#define RT_KERNELS rt_exact_kernels_avx2
#include "arithmetic/exact_kernels_body.h"
#endif
