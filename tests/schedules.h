/* schedules.h: the variants of the planners that schedule by need, and problems that vary in everything. */
#ifndef RT_TESTS_SCHEDULES_H
#define RT_TESTS_SCHEDULES_H

#include <ringtrue/ringtrue.h>

#include <string.h>

/* For any problem and any number of ranks. */
static const char *const schedule_variants[] = {"balanced",
                                                "burst",
                                                "adaptive",
                                                "groupcast",
                                                "decode",
                                                "decode:join=ag-rs",
                                                "decode:join=a2a",
                                                "prefill",
                                                "prefill:pass=pass-kv",
                                                "prefill:pass=pass-q",
                                                "prefill:pass=pass-kv,chunk=3",
                                                "prefill:pass=pass-q,chunk=3",
                                                NULL};

/* The step that holds move number i. */
static inline int64_t rt_pass_step(const rt_pass *pass, int64_t i)
{
    int64_t t = 0;
    while (i >= pass->steps[t].move1)
        t++;
    return t;
}

static inline uint32_t vary(int round, uint32_t salt)
{
    uint32_t x = (uint32_t)round * 2654435761u + salt * 40503u + 12345u;
    x = (x ^ x >> 15) * 2246822519u;
    x = (x ^ x >> 13) * 3266489917u;
    return x ^ x >> 16;
}

/* One of eight additions to a mask: none, two windows, a prefix, both, key padding, dense, padding and window.
 * valid has room for B x Sk, dense for Sq x Sk. */
static inline void masks_vary(rt_problem *p, int kind, uint8_t *valid, uint8_t *dense)
{
    p->has_window = kind == 1 || kind == 2 || kind == 4 || kind == 7;
    p->window_left = kind == 2 ? -1 : 6;
    p->window_right = kind == 1 ? -1 : 3;
    p->prefix = kind == 3 || kind == 4 ? 5 : 0;
    for (int64_t i = 0; i < p->batch * p->seqlen_k; i++)
        valid[i] = vary((int)i, 7) % 4 != 0;
    for (int64_t i = 0; i < p->seqlen_q * p->seqlen_k; i++)
        dense[i] = vary((int)i, 8) % 16 == 0;
    p->key_valid = kind == 5 || kind == 7 ? valid : NULL;
    p->dense = kind == 6 ? dense : NULL;
}

/* Problem number `round`, of at most 2 batches and 40 tokens a side; returns P, 1 .. 9.  What it points to is the
 * caller's: cu 2 x 4, valid 2 x 40, dense 40 x 40. */
static inline int32_t problem_vary(rt_problem *p, int round, int64_t cu[2][4], uint8_t *valid,
                                   uint8_t *dense)
{
    memset(p, 0, sizeof *p);
    p->batch = 1 + (int64_t)(vary(round, 1) % 2);
    p->seqlen_q = 1 + (int64_t)(vary(round, 2) % 40);
    p->seqlen_k = round % 2 ? p->seqlen_q : 1 + (int64_t)(vary(round, 3) % 40);
    p->heads_kv = 1 + (int64_t)(vary(round, 4) % 2);
    p->heads_q = p->heads_kv * (1 + (int64_t)(vary(round, 5) % 3));
    p->dim = 4;
    p->dim_v = 3;
    p->scale = 0.5;
    p->scale_kind = RT_SCALE_F64;
    p->mask = (rt_mask_kind)(vary(round, 6) % 3);
    if (vary(round, 9) % 3 == 0) {
        const int64_t length[2] = {p->seqlen_q, p->seqlen_k};
        for (int s = 0; s < 2; s++) {
            cu[s][0] = 0;
            cu[s][1] = cu[s][2] = length[s] / 3; /* the second document is empty */
            cu[s][3] = length[s];
        }
        p->documents = 3;
        p->cu_q = cu[0];
        p->cu_k = cu[1];
    }
    masks_vary(p, (int)(vary(round, 10) % 8), valid, dense);
    return 1 + (int32_t)(vary(round, 11) % 9);
}

#endif
