/* The elementwise passes of the exact arithmetic for one instruction set: plain. */
#include "arithmetic/exact_kernels.h"

#define RT_W 2
#define RT_KERNELS rt_exact_kernels_plain
#include "arithmetic/exact_kernels_body.h"
