/* check.h: CMocka and the assertions that it lacks.  Every comparison of floats is written in the
 * positive form, so that a NaN fails it. */
#ifndef RT_TESTS_CHECK_H
#define RT_TESTS_CHECK_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ringtrue/status.h>

/* math.h's INFINITY and NAN are floats, which clang's -Wdouble-promotion minds. */
#define T_INF ((double)__builtin_inff())
#define T_NAN ((double)__builtin_nanf(""))

/* A sanitizer takes ten times as long, and looks at what the code does to memory and threads, not for wrong numbers: there a
 * long list of cases is thinned, evenly (no loop here has the period of 7).  The other builds run all of them. */
#ifdef RT_TEST_SANITIZED
enum { T_EVERY = 7 };
#else
enum { T_EVERY = 1 };
#endif

/* So many of n cases. */
static inline int t_cases(int n)
{
    return (n + T_EVERY - 1) / T_EVERY;
}

/* Whether case number n of a list is left out; the first never is. */
static inline bool t_left_out(int64_t n)
{
    return n % T_EVERY != 0;
}

static inline uint64_t t_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double t_from_bits(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* The same bits; -0 and +0 differ, all NaNs are equal. */
static inline int t_same(double a, double b)
{
    const uint64_t magnitude = UINT64_C(0x7fffffffffffffff), inf = UINT64_C(0x7ff0000000000000);
    uint64_t x = t_bits(a), y = t_bits(b);
    return x == y || ((x & magnitude) > inf && (y & magnitude) > inf);
}

static inline void t_check_bits_eq(double got, double want, const char *text, const char *file, int line)
{
    if (!t_same(got, want)) {
        print_error("%s: got %.17g (%a), want %.17g (%a)\n", text, got, got, want, want);
        _fail(file, line);
    }
}

static inline void t_check_le(double err, double bound, const char *text, const char *file, int line)
{
    if (!(err <= bound)) {
        print_error("%s: %.17g is not <= %.17g\n", text, err, bound);
        _fail(file, line);
    }
}

static inline void t_check_status(const rt_context *ctx, rt_status got, rt_status want, const char *text,
                                  const char *file, int line)
{
    if (got != want) {
        print_error("%s: status %d, want %d: %s\n", text, (int)got, (int)want,
                    ctx != NULL ? ctx->message : "");
        _fail(file, line);
    }
    /* An error without its line is a mistake too. */
    if (want != RT_OK && ctx != NULL && (ctx->message[0] == '\0' || strchr(ctx->message, '\n') != NULL)) {
        print_error("%s: status %d needs one line of text, has \"%s\"\n", text, (int)got, ctx->message);
        _fail(file, line);
    }
}

/* Bits of got and want are equal; all NaNs are equal. */
#define t_assert_bits_eq(got, want) t_check_bits_eq((got), (want), #got " == " #want, __FILE__, __LINE__)
/* err <= bound; a NaN on either side fails. */
#define t_assert_le(err, bound) t_check_le((err), (bound), #err " <= " #bound, __FILE__, __LINE__)
/* The call succeeded; prints the context's message otherwise.  ctx is an rt_context pointer. */
#define t_assert_ok(ctx, status) t_check_status((ctx), (status), RT_OK, #status, __FILE__, __LINE__)
/* The call failed (or not) as wanted, and said why in one line.  A want of RT_OK asks for no text. */
#define t_assert_status(ctx, got, want) t_check_status((ctx), (got), (want), #got, __FILE__, __LINE__)

/* A group teardown: everything that was allocated is free again. */
static inline int t_teardown_memory(void **state)
{
    (void)state;
    int64_t live = rt_alloc_live();
    if (live != 0) {
        print_error("%" PRId64 " bytes are still allocated\n", live);
        return -1;
    }
    return 0;
}

#endif
