/* masks.h: the definition of every mask for one pair, by the book; and random masks of every kind. */
#ifndef RT_TESTS_MASKS_H
#define RT_TESTS_MASKS_H

#include <ringtrue/problem.h>

#include "check.h"

/* Whether a pair lies in a slice: the corner that the kind is aligned to, row by row. */
static inline bool t_in_slice(const rt_slice *s, int64_t i, int64_t j)
{
    if (i < s->q0 || i >= s->q1 || j < s->k0 || j >= s->k1)
        return false;
    const bool below_diagonal = j - s->k1 <= i - s->q1, above_diagonal = j - s->k0 >= i - s->q0;
    switch (s->kind) {
    case RT_SLICE_CAUSAL:
        return below_diagonal;
    case RT_SLICE_INV_CAUSAL:
        return above_diagonal;
    case RT_SLICE_BI_CAUSAL:
        return below_diagonal && above_diagonal;
    case RT_SLICE_FULL:
    default:
        return true;
    }
}

/* Whether query i sees key j in batch b: the document is found by walking. */
static inline bool t_mask_sees(const rt_problem *p, int64_t b, int64_t i, int64_t j)
{
    int64_t q0 = 0, q1 = p->seqlen_q, k0 = 0, k1 = p->seqlen_k;
    for (int64_t n = 0; n < p->documents; n++)
        if (p->cu_q[n] <= i && i < p->cu_q[n + 1]) {
            q0 = p->cu_q[n];
            q1 = p->cu_q[n + 1];
            k0 = p->cu_k[n];
            k1 = p->cu_k[n + 1];
        }
    if (j < k0 || j >= k1)
        return false;
    const int64_t shift = p->mask == RT_MASK_CAUSAL_BOTTOM_RIGHT ? (k1 - k0) - (q1 - q0) : 0;
    const int64_t past = (i - q0 + shift) - (j - k0); /* how far back the key lies */
    if (j - k0 >= p->prefix) {
        if (p->mask != RT_MASK_FULL && past < 0)
            return false;
        if (p->has_window && p->window_left != -1 && past > p->window_left)
            return false;
        if (p->has_window && p->window_right != -1 && -past > p->window_right)
            return false;
    }
    bool in_slice = p->n_slices == 0;
    for (int64_t n = 0; n < p->n_slices; n++)
        in_slice = in_slice || t_in_slice(&p->slices[n], i, j);
    if (!in_slice || (p->key_valid != NULL && p->key_valid[b * p->seqlen_k + j] == 0))
        return false;
    return p->dense == NULL || p->dense[i * p->seqlen_k + j] != 0;
}

/* Which parts a random mask has. */
enum {
    T_MASK_WINDOW = 1,
    T_MASK_PREFIX = 2,
    T_MASK_SLICES = 4,
    T_MASK_KEYS = 8,
    T_MASK_DENSE = 16,
    T_MASK_DOCUMENTS = 32,
    T_MASK_ALL = 63
};

static inline int64_t t_mask_below(uint64_t *s, int64_t n)
{
    *s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((*s >> 33) % (uint64_t)n);
}

static inline void t_mask_cut(uint64_t *s, int64_t *cu, int64_t n, int64_t length)
{
    cu[0] = 0;
    cu[n] = length;
    for (int64_t x = 1; x < n; x++) { /* sorted as they come; empty documents now and then */
        int64_t at = t_mask_below(s, length + 1), y = x;
        for (; y > 1 && cu[y - 1] > at; y--)
            cu[y] = cu[y - 1];
        cu[y] = at;
    }
}

/* Rectangles that cut the plane once along the queries and each part once along the keys, some left out. */
static inline void t_mask_slices(uint64_t *s, rt_problem *p)
{
    const int64_t Sq = p->seqlen_q, Sk = p->seqlen_k;
    p->slices = rt_alloc(NULL, 8, sizeof *p->slices);
    assert_non_null(p->slices);
    for (int64_t q0 = 0; q0 < Sq && p->n_slices < 7;) {
        const int64_t q1 = p->n_slices < 4 ? q0 + 1 + t_mask_below(s, Sq - q0) : Sq,
                      cut = t_mask_below(s, Sk + 1);
        for (int half = 0; half < 2; half++) {
            const rt_slice x = {q0, q1, half == 0 ? 0 : cut, half == 0 ? cut : Sk,
                                (rt_slice_kind)t_mask_below(s, 4)};
            if (x.k0 < x.k1 && (p->n_slices == 0 || t_mask_below(s, 5) > 0))
                p->slices[p->n_slices++] = x;
        }
        q0 = q1;
    }
}

/* Add the parts to a problem that has none of them; it owns them (rt_problem_reset). */
static inline void t_mask_random(uint64_t *s, int parts, rt_problem *p)
{
    const int64_t Sq = p->seqlen_q, Sk = p->seqlen_k, B = p->batch;
    if (parts & T_MASK_DOCUMENTS) {
        p->documents = 1 + t_mask_below(s, 4);
        p->cu_q = rt_alloc(NULL, p->documents + 1, sizeof *p->cu_q);
        p->cu_k = rt_alloc(NULL, p->documents + 1, sizeof *p->cu_k);
        assert_true(p->cu_q != NULL && p->cu_k != NULL);
        t_mask_cut(s, p->cu_q, p->documents, Sq);
        t_mask_cut(s, p->cu_k, p->documents, Sk);
    }
    if (parts & T_MASK_WINDOW) {
        p->has_window = true;
        p->window_left = t_mask_below(s, Sk / 2 + 3) - 1;
        p->window_right = t_mask_below(s, Sk / 2 + 3) - 1;
    }
    if (parts & T_MASK_PREFIX)
        p->prefix = t_mask_below(s, Sk / 2 + 1);
    if (parts & T_MASK_SLICES)
        t_mask_slices(s, p);
    if (parts & T_MASK_KEYS) { /* lengths, and holes in every other one */
        p->key_valid = rt_alloc(NULL, B * Sk, 1);
        assert_non_null(p->key_valid);
        for (int64_t b = 0; b < B; b++) {
            const int64_t length = t_mask_below(s, Sk + 1), holes = t_mask_below(s, 2);
            for (int64_t j = 0; j < Sk; j++)
                p->key_valid[b * Sk + j] = j < length && (holes == 0 || t_mask_below(s, 3) > 0);
        }
    }
    if (parts & T_MASK_DENSE) {
        p->dense = rt_alloc(NULL, Sq * Sk, 1);
        assert_non_null(p->dense);
        const int64_t one_in = 1 + t_mask_below(s, 4);
        for (int64_t x = 0; x < Sq * Sk; x++)
            p->dense[x] = t_mask_below(s, one_in + 1) > 0;
    }
}

#endif
