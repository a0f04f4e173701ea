/* status.c: error texts, exit codes, progress, and the one allocator pair.
 *
 * Each block carries, in the 64 bytes before it, the pointer that the C library gave and its size, so
 * that rt_free needs no size and the count of live bytes is exact. */
#include <ringtrue/status.h>

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

typedef struct {
    void *raw;
    int64_t bytes;
} block_header;

_Static_assert(sizeof(block_header) <= ALIGNMENT, "the header lies in the alignment gap");

/* The one allowed global: it counts, and decides nothing. */
static atomic_int_fast64_t live_bytes;

rt_status rt_fail(rt_context *ctx, rt_status status, const char *format, ...)
{
    if (ctx == NULL) {
        return status;
    }
    /* Written aside first: an argument may be ctx->message itself. */
    char text[sizeof ctx->message];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0) {
        text[0] = '\0';
    } else if ((size_t)length >= sizeof text) {
        memcpy(text + sizeof text - 4, "...", 4);
    }
    /* One line, whatever names and values from files it quotes. */
    for (char *c = text; *c != '\0'; c++) {
        unsigned char u = (unsigned char)*c;
        if (u < 0x20 || u == 0x7f) {
            *c = ' ';
        }
    }
    memcpy(ctx->message, text, strlen(text) + 1);
    return status;
}

int rt_status_exit_code(rt_status status)
{
    switch (status) {
    case RT_OK:
        return 0;
    case RT_ERR_ARG:
    case RT_ERR_UNSUPPORTED:
        return 2;
    case RT_ERR_IO:
    case RT_ERR_FORMAT:
        return 3;
    case RT_ERR_NOMEM:
    case RT_ERR_MPI:
    case RT_ERR_SYSTEM:
        return 4;
    }
    return 4;
}

void rt_progress(rt_context *ctx, const char *what, int64_t done, int64_t total)
{
    if (ctx != NULL && ctx->progress != NULL) {
        ctx->progress(ctx->progress_arg, what, done, total);
    }
}

static void *block_create(rt_context *ctx, int64_t count, size_t size, int clear)
{
    const size_t overhead = 2 * ALIGNMENT;
    size_t bytes;
    if (count < 0 || (uint64_t)count > SIZE_MAX || __builtin_mul_overflow((size_t)count, size, &bytes) ||
        bytes > (size_t)INT64_MAX - overhead) {
        (void)rt_fail(ctx, RT_ERR_NOMEM, "memory for %lld items of %zu bytes: more than can be addressed",
                      (long long)count, size);
        return NULL;
    }
    /* calloc leaves large blocks to the kernel's zero pages: untouched memory stays unused. */
    void *raw = clear ? calloc(1, bytes + overhead) : malloc(bytes + overhead);
    if (raw == NULL) {
        (void)rt_fail(ctx, RT_ERR_NOMEM, "out of memory: %zu bytes were refused (%lld held now)", bytes,
                      (long long)rt_alloc_live());
        return NULL;
    }
    size_t to_boundary = ALIGNMENT - (size_t)((uintptr_t)raw % ALIGNMENT); /* 1 .. 64 */
    if (to_boundary < sizeof(block_header)) {
        to_boundary += ALIGNMENT;
    }
    char *block = (char *)raw + to_boundary;
    const block_header header = {raw, (int64_t)bytes};
    memcpy(block - sizeof header, &header, sizeof header);
    atomic_fetch_add_explicit(&live_bytes, (int64_t)bytes, memory_order_relaxed);
    return block;
}

void *rt_alloc(rt_context *ctx, int64_t count, size_t size)
{
    return block_create(ctx, count, size, 0);
}

void *rt_calloc(rt_context *ctx, int64_t count, size_t size)
{
    return block_create(ctx, count, size, 1);
}

void rt_free(void *p)
{
    if (p == NULL) {
        return;
    }
    block_header header;
    memcpy(&header, (const char *)p - sizeof header, sizeof header);
    atomic_fetch_sub_explicit(&live_bytes, header.bytes, memory_order_relaxed);
    free(header.raw);
}

int64_t rt_alloc_live(void)
{
    return (int64_t)atomic_load_explicit(&live_bytes, memory_order_relaxed);
}
