/** @file status.h  Outcomes, the context that carries an error's text, and memory. */
#ifndef RINGTRUE_STATUS_H
#define RINGTRUE_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RT_NODISCARD __attribute__((warn_unused_result))
#define RT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define RT_NODISCARD
#define RT_PRINTF(fmt, args)
#endif

/** What a fallible call returns.  Outputs are untouched unless it is RT_OK. */
typedef enum {
    RT_OK = 0,
    RT_ERR_ARG = -1,         /**< the caller's argument is outside what is allowed (exit 2) */
    RT_ERR_NOMEM = -2,       /**< memory could not be had (exit 4) */
    RT_ERR_IO = -3,          /**< a file could not be opened, read or written (exit 3) */
    RT_ERR_FORMAT = -4,      /**< a file or a spec is not what it claims to be (exit 3) */
    RT_ERR_MPI = -5,         /**< MPI refused or ranks disagree (exit 4) */
    RT_ERR_UNSUPPORTED = -6, /**< valid, but not what this build or this version does (exit 2) */
    RT_ERR_SYSTEM = -7       /**< a wrong environment: a BLAS that fails its self-test, flushed
                                  subnormals (exit 4) */
} rt_status;

/** Progress callback: done of total units of `what`.  Called from the thread that made the call. */
typedef void (*rt_progress_fn)(void *arg, const char *what, int64_t done, int64_t total);

/** Carries the text of the first error, and the progress callback.  One per thread of control.
 *  Plain data: `rt_context ctx = {0};` is a valid, silent context. */
typedef struct {
    char message[640];       /**< one line: what, value, what is allowed, hint; empty when RT_OK */
    rt_progress_fn progress; /**< NULL: silent */
    void *progress_arg;
} rt_context;

/** Write the text of an error into `ctx` (NULL allowed) and return `status`.  Local.  The function
 *  that decides an error calls this; those above it only pass the status up. */
rt_status rt_fail(rt_context *ctx, rt_status status, const char *format, ...) RT_PRINTF(3, 4);

/** The process exit code of the command for a status: 0, 2 (usage), 3 (input), 4 (system). */
int rt_status_exit_code(rt_status status);

/** Report progress through `ctx`, if it has a callback. */
void rt_progress(rt_context *ctx, const char *what, int64_t done, int64_t total);

/** 64-byte aligned memory for count items of size bytes; NULL and RT_ERR_NOMEM in ctx when
 *  count * size overflows or memory is out.  count 0 gives a valid pointer.  Not cleared. */
void *rt_alloc(rt_context *ctx, int64_t count, size_t size) RT_NODISCARD;
/** The same, cleared to zero bytes. */
void *rt_calloc(rt_context *ctx, int64_t count, size_t size) RT_NODISCARD;
/** Free what rt_alloc gave; NULL allowed. */
void rt_free(void *p);
/** Bytes now held through rt_alloc, by all threads: a test fixture checks that it returns to 0. */
int64_t rt_alloc_live(void);

/** A parameter that a plan or a layout takes behind the colon of its name. */
typedef struct {
    const char *key;
    const char *values; /**< what is allowed, for people: "1 .. P", "mindspeed | loongtrain" */
    const char *summary;
} rt_parameter;

/** Pass a failure up. */
#define RT_TRY(call)                                                                                       \
    do {                                                                                                   \
        rt_status rt_try_status_ = (call);                                                                 \
        if (rt_try_status_ != RT_OK)                                                                       \
            return rt_try_status_;                                                                         \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
