/* Run by the configure step: which flavour of OpenBLAS a program that links it gets at run time. */
#include <stdio.h>

#include <cblas.h>

int main(void)
{
    static const char *const flavours[] = {"serial", "pthread", "OpenMP"};
    int parallel = openblas_get_parallel();
    const char *flavour = parallel >= 0 && parallel <= 2 ? flavours[parallel] : "unknown";
    return printf("%s: %s\n", flavour, openblas_get_config()) > 0 ? 0 : 1;
}
