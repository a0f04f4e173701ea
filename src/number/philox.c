/* philox.c: counter-based random words, through Random123; and eight at a time, which a compiler turns into vectors. */
#include <ringtrue/number.h>

#include "number/philox.h"

#include <string.h>

#include <Random123/philox.h>

void rt_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    const philox4x32_key_t k = {{key[0], key[1]}};
    const philox4x32_ctr_t c = {{counter[0], counter[1], counter[2], counter[3]}};
    const philox4x32_ctr_t r = philox4x32_R(10, c, k);
    memcpy(out, r.v, sizeof r.v);
}

/* Compiled for AVX2 too, and chosen at run time. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&   \
    !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

/* The constants of Philox4x32 (Salmon et al., SC'11). */
WIDE void rt_philox_lanes(const uint32_t key[2], uint32_t x[4][RT_PHILOX_LANES])
{
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        for (int l = 0; l < RT_PHILOX_LANES; l++) {
            const uint64_t u = UINT64_C(0xD2511F53) * x[0][l], v = UINT64_C(0xCD9E8D57) * x[2][l];
            const uint32_t one = x[1][l], three = x[3][l];
            x[0][l] = (uint32_t)(v >> 32) ^ one ^ k0;
            x[1][l] = (uint32_t)v;
            x[2][l] = (uint32_t)(u >> 32) ^ three ^ k1;
            x[3][l] = (uint32_t)u;
        }
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
}
