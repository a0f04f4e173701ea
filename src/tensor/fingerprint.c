/* fingerprint.c: order-free fingerprints of tensors.
 *
 * A tensor's fingerprint is the sum, modulo 2^64 in each of two lanes, of a 128-bit hash of every element:
 * addition does not care which rank holds an element or when it is added.  What two elements of a row
 * have in common (tensor, dtype, batch, position, head) is hashed once, and that hash is a part of what
 * is hashed for each of them. */
#include <ringtrue/tensor.h>

/* The implementation inline: the lengths are constants, and most of the hash folds away. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "number/format.h"

typedef struct {
    int64_t batch, position, head;
    int32_t tensor, dtype;
} row_words;

typedef struct {
    uint64_t row[2];
    uint64_t dim;
    uint64_t bits;
} element_words;

_Static_assert(sizeof(row_words) == 32 && sizeof(element_words) == 32, "no padding is hashed");

/* n elements of `size` bytes, those whose magnitude is a NaN replaced by one: `above` is the largest
 * magnitude that is not a NaN. */
static inline void add_elements(rt_fingerprint *f, XXH128_hash_t row, const unsigned char *data, int64_t n,
                                size_t size, uint64_t magnitude, uint64_t above, uint64_t nan)
{
    uint64_t low = 0, high = 0;
    element_words e = {{row.low64, row.high64}, 0, 0};
    for (int64_t i = 0; i < n; i++) {
        uint64_t u = 0;
        memcpy(&u, data + (size_t)i * size, size);
        e.dim = (uint64_t)i;
        e.bits = (u & magnitude) > above ? nan : u;
        XXH128_hash_t h = XXH3_128bits(&e, sizeof e);
        low += h.low64;
        high += h.high64;
    }
    f->lane[0] += low;
    f->lane[1] += high;
}

void rt_fingerprint_row(rt_fingerprint *f, rt_tensor_id id, int64_t b, int64_t pos, int64_t h, rt_dtype t,
                        const void *row, int64_t n)
{
    const row_words words = {b, pos, h, (int32_t)id, (int32_t)t};
    const XXH128_hash_t common = XXH3_128bits(&words, sizeof words);
    const rt_format *format = rt_format_of(t);
    uint64_t magnitude = 0, above = 0, nan = 0; /* integers: nothing is a NaN */
    if (format != NULL) {
        magnitude = format->sign - 1;
        above = format->infinity ? format->overflow : format->max;
        nan = format->nan;
    }
    switch (rt_dtype_size(t)) {
    case 8:
        add_elements(f, common, row, n, 8, magnitude, above, nan);
        break;
    case 4:
        add_elements(f, common, row, n, 4, magnitude, above, nan);
        break;
    case 2:
        add_elements(f, common, row, n, 2, magnitude, above, nan);
        break;
    case 1:
        add_elements(f, common, row, n, 1, magnitude, above, nan);
        break;
    default: /* tf32: never stored */
        break;
    }
}

void rt_fingerprint_add(rt_fingerprint *f, const rt_fingerprint *other)
{
    f->lane[0] += other->lane[0];
    f->lane[1] += other->lane[1];
}
