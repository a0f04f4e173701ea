/* Uses the installed headers and library: the umbrella header compiles alone, and calls reach code that
 * stands on each room's dependencies. */
#include <stdio.h>
#include <string.h>

#include <ringtrue/ringtrue.h>

int main(void)
{
    rt_context ctx = {0};
    if (rt_fail(&ctx, RT_ERR_ARG, "planted %d", 42) != RT_ERR_ARG || strcmp(ctx.message, "planted 42") != 0)
        return 1;
    if (rt_arithmetic_find("f64") == NULL)
        return 1;
    if (rt_blas_self_test(&ctx) != RT_OK) {
        fprintf(stderr, "%s\n", ctx.message);
        return 1;
    }
    printf("ringtrue %s, %s\n", RT_VERSION, rt_blas_description());
    return 0;
}
