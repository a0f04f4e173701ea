/* a * b + c is two roundings, compiled with the project's flags for a processor that could do it in one. */
#include <math.h>

#include "check.h"
#include "contraction_probe.h"

static void contraction_of_double_expression_rounds_twice(void **state)
{
    (void)state;
    /* a * b = 1 - 2^-56 rounds to 1. */
    volatile double a = 1 + 0x1p-28, b = 1 - 0x1p-28, c = -1;
    t_assert_bits_eq(fma(a, b, c), -0x1p-56);
    t_assert_bits_eq(contraction_double(a, b, c), 0.0);
}

static void contraction_of_float_expression_rounds_twice(void **state)
{
    (void)state;
    /* a * b = 1 - 2^-26 rounds to 1. */
    volatile float a = 1 + 0x1p-13f, b = 1 - 0x1p-13f, c = -1;
    t_assert_bits_eq((double)fmaf(a, b, c), -0x1p-26);
    t_assert_bits_eq((double)contraction_float(a, b, c), 0.0);
}

int main(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("fma")) {
        puts("skipped: this processor has no fused multiply-add");
        return 77;
    }
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contraction_of_double_expression_rounds_twice),
        cmocka_unit_test(contraction_of_float_expression_rounds_twice),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
