/* The named orders: index lists of the frameworks, padding, work under masks, lists from files. */
#include <ringtrue/layout.h>

#include <stdio.h>

#include "check.h"
#include "layout/build.h"
#include "runner.h"
#include "scratch.h"

static rt_problem problem_make(int64_t sq, int64_t sk, rt_mask_kind mask)
{
    return t_problem(1, sq, sk, 1, 1, 1, 1, mask);
}

static rt_layout made(const rt_problem *p, const char *name, int32_t ranks, const int64_t *padded)
{
    rt_layout l;
    rt_context ctx = {0};
    const rt_layout_options o = {
        .name = name, .remainder = RT_REMAINDER_SPREAD, .padded_q = padded, .padded_k = padded};
    t_assert_ok(&ctx, rt_layout_make(&ctx, p, &o, ranks, &l));
    assert_string_equal(l.name, name);
    return l;
}

/* "0 7|1 6": the positions of rank after rank; -1 for the rows that are padding. */
static void holds(const rt_layout *l, rt_side side, const char *want)
{
    char got[2000] = "";
    size_t n = 0;
    const rt_layout_side *s = &l->side[side];
    for (int32_t r = 0; r < l->ranks; r++) {
        int64_t rows[200];
        assert_in_range(s->rows[r], 0, 200);
        for (int64_t i = 0; i < s->rows[r]; i++)
            rows[i] = -1;
        for (int64_t i = 0; i < rt_layout_count(l, side, r); i++)
            rows[rt_layout_row(s, rt_layout_positions(l, side, r)[i])] = rt_layout_positions(l, side, r)[i];
        for (int64_t i = 0; i < s->rows[r]; i++)
            n += (size_t)snprintf(got + n, sizeof got - n, "%s%lld", i > 0 ? " " : "", (long long)rows[i]);
        if (r + 1 < l->ranks)
            n += (size_t)snprintf(got + n, sizeof got - n, "|");
    }
    if (strcmp(got, want) != 0)
        fail_msg("%s: %s, not %s", l->name, got, want);
}

static void expect(const rt_problem *p, const char *name, int32_t ranks, const char *want)
{
    rt_layout l = made(p, name, ranks, NULL);
    holds(&l, RT_SIDE_Q, want);
    if (p->seqlen_q == p->seqlen_k)
        holds(&l, RT_SIDE_KV, want);
    rt_layout_reset(&l);
}

static void lists_of_whole_sequences(void **state)
{
    (void)state;
    const rt_problem p = problem_make(16, 16, RT_MASK_CAUSAL), eight = problem_make(8, 8, RT_MASK_CAUSAL),
                     twelve = problem_make(12, 12, RT_MASK_CAUSAL);
    expect(&p, "zigzag", 4, "0 1 14 15|2 3 12 13|4 5 10 11|6 7 8 9");
    expect(&p, "zigzag", 2, "0 1 2 3 12 13 14 15|4 5 6 7 8 9 10 11");
    expect(&p, "striped", 4, "0 4 8 12|1 5 9 13|2 6 10 14|3 7 11 15");
    expect(&p, "striped:stripe=2", 4, "0 1 8 9|2 3 10 11|4 5 12 13|6 7 14 15");
    expect(&p, "fpdt:chunks=2", 4, "0 1 8 9|2 3 10 11|4 5 12 13|6 7 14 15");
    expect(&twelve, "zigzag", 2, "0 1 2 9 10 11|3 4 5 6 7 8");
    expect(&eight, "head-tail", 2, "0 1 6 7|2 3 4 5");
    expect(&eight, "head-tail", 4, "0 7|1 6|2 5|3 4");
    /* in the list of all ranks' slots, one behind the other, where the tokens are in their order */
    const int64_t gather[] = {0, 2, 4, 6, 7, 5, 3, 1};
    rt_layout l = made(&eight, "zigzag", 4, NULL);
    for (int64_t i = 0; i < 8; i++)
        assert_int_equal(l.side[0].first[l.side[0].rank_of[i]] + l.side[0].slot_of[i], gather[i]);
    rt_layout_reset(&l);
}

static void lists_of_hybrids(void **state)
{
    (void)state;
    const rt_problem eight = problem_make(8, 8, RT_MASK_CAUSAL), p = problem_make(16, 16, RT_MASK_CAUSAL);
    expect(&eight, "hybrid-te:ulysses=2", 4, "0 7|1 6|2 5|3 4");
    expect(&eight, "hybrid-mindspeed:ulysses=2", 4, "0 1|6 7|2 3|4 5");
    expect(&p, "usp:ulysses=2", 8, "0 1|14 15|2 3|12 13|4 5|10 11|6 7|8 9");
    expect(&p, "usp:ulysses=2,order=ring-low", 8, "0 1|2 3|4 5|6 7|14 15|12 13|10 11|8 9");
    /* basic and strip cut by the global rank, whichever ranks are neighbours */
    expect(&eight, "usp:ulysses=2,tokens=basic,order=ring-low", 4, "0 1|2 3|4 5|6 7");
    expect(&eight, "usp:ulysses=2,tokens=strip", 4, "0 2|4 6|1 3|5 7");
    /* 3 divides no half: the ranks of a Ulysses group cut across the seam */
    const rt_problem q = problem_make(12, 12, RT_MASK_CAUSAL);
    expect(&q, "usp:ulysses=3", 6, "0 1|2 9|10 11|3 4|5 6|7 8");
    /* a group of a Ulysses size holds a zigzag of the ring, whatever the framework's order */
    for (int k = 0; k < 2; k++) {
        rt_layout l = made(&p, k == 0 ? "hybrid-te:ulysses=2" : "hybrid-mindspeed:ulysses=2", 8, NULL);
        assert_int_equal(l.kind, k == 0 ? RT_LAYOUT_ZIGZAG : RT_LAYOUT_USP);
        rt_layout_reset(&l);
    }
    rt_layout l = made(&p, "usp", 4, NULL);
    assert_int_equal(l.kind, RT_LAYOUT_ZIGZAG);
    assert_int_equal(l.side[0].half[1], 2);
    rt_layout_reset(&l);
}

static void lists_of_documents(void **state)
{
    (void)state;
    rt_problem p = problem_make(24, 24, RT_MASK_CAUSAL);
    int64_t cu[] = {0, 8, 24};
    p.documents = 2;
    p.cu_q = p.cu_k = cu;
    expect(&p, "zigzag-doc", 2, "0 1 6 7 8 9 10 11 20 21 22 23|2 3 4 5 12 13 14 15 16 17 18 19");
    expect(&p, "zigzag-doc", 4, "0 7 8 9 22 23|1 6 10 11 20 21|2 5 12 13 18 19|3 4 14 15 16 17");
    expect(&p, "contiguous-doc", 2, "0 1 2 3 8 9 10 11 12 13 14 15|4 5 6 7 16 17 18 19 20 21 22 23");
    rt_problem e = problem_make(12, 12, RT_MASK_CAUSAL), pt = problem_make(16, 16, RT_MASK_CAUSAL);
    int64_t te[] = {0, 8, 12}, docs[] = {0, 4, 16};
    e.documents = pt.documents = 2;
    e.cu_q = e.cu_k = te;
    pt.cu_q = pt.cu_k = docs;
    expect(&e, "zigzag-doc", 2, "0 1 6 7 8 11|2 3 4 5 9 10");
    expect(&pt, "head-tail-doc", 2, "0 3 4 5 6 13 14 15|1 2 7 8 9 10 11 12");
    rt_problem f = problem_make(40, 40, RT_MASK_CAUSAL);
    int64_t four[] = {0, 8, 16, 24, 40};
    f.documents = 4;
    f.cu_q = f.cu_k = four;
    expect(&f, "zigzag-doc", 4,
           "0 7 8 15 16 23 24 25 38 39|1 6 9 14 17 22 26 27 36 37|2 5 10 13 18 21 28 29 34 35|"
           "3 4 11 12 19 20 30 31 32 33");
}

/* Real lengths in padded documents: a short tail, one shorter than 2P, an empty one that is only padding. */
static void padded_documents(void **state)
{
    (void)state;
    rt_problem p = problem_make(10, 10, RT_MASK_CAUSAL);
    int64_t cu[] = {0, 7, 7, 10}, padded[] = {0, 8, 12, 16};
    p.documents = 3;
    p.cu_q = p.cu_k = cu;
    rt_layout l = made(&p, "zigzag-doc", 2, padded);
    holds(&l, RT_SIDE_Q, "0 1 6 -1 -1 -1 7 -1|2 3 4 5 -1 -1 8 9");
    assert_int_equal(rt_layout_count(&l, RT_SIDE_KV, 0), 4);
    assert_int_equal(l.side[0].padded, 16);
    assert_int_equal(rt_layout_global_row(&l.side[0], 7), 12);
    assert_string_equal(l.note, "");
    rt_layout_reset(&l);
    l = made(&p, "contiguous", 2, padded); /* other orders are laid over the padded sequence, too */
    holds(&l, RT_SIDE_Q, "0 1 2 3 4 5 6 -1|-1 -1 -1 -1 7 8 9 -1");
    rt_layout_reset(&l);
    l = made(&p, "zigzag", 2, padded);
    holds(&l, RT_SIDE_Q, "0 1 2 3 7 8 9 -1|4 5 6 -1 -1 -1 -1 -1");
    assert_int_equal(l.side[0].half[0], 4); /* of its slots: padding counts for nothing */
    assert_int_equal(l.side[0].half[1], 3);
    rt_layout_reset(&l);
    /* without padding the short and the empty document follow the remainder rule */
    l = made(&p, "zigzag-doc", 2, NULL);
    holds(&l, RT_SIDE_Q, "0 1 6 7|2 3 4 5 8 9");
    assert_non_null(strstr(l.note, "zigzag-doc only for multiples of 4"));
    rt_layout_reset(&l);
}

/* Packed lengths 9 8 8 8 12 in rooms of 12 8 8 8 12 and 12, two ranks: what the fast path of a framework gets wrong. */
static void padded_lengths_that_do_not_divide(void **state)
{
    (void)state;
    rt_problem p = problem_make(57, 57, RT_MASK_CAUSAL);
    int64_t cu[] = {0, 9, 17, 25, 37, 45, 57}, padded[] = {0, 12, 20, 28, 40, 48, 60};
    p.documents = 6;
    p.cu_q = p.cu_k = cu;
    rt_layout l = made(&p, "zigzag-doc", 2, padded);
    assert_int_equal(l.side[0].rows[0], 30);
    assert_int_equal(l.side[0].rows[1], 30);
    assert_int_equal(rt_layout_count(&l, RT_SIDE_Q, 0),
                     27); /* tokens 9 .. 11 of the first are its tail run */
    assert_int_equal(rt_layout_count(&l, RT_SIDE_Q, 1), 30);
    rt_layout_reset(&l);
}

static void prefill_and_cache(void **state)
{
    (void)state;
    const rt_problem d = problem_make(1, 25, RT_MASK_CAUSAL_BOTTOM_RIGHT);
    rt_layout l = made(&d, "interleaved", 4, NULL);
    holds(&l, RT_SIDE_KV, "0 4 8 12 16 20 24|1 5 9 13 17 21|2 6 10 14 18 22|3 7 11 15 19 23");
    holds(&l, RT_SIDE_Q, "0|||");
    rt_layout_reset(&l);
    const rt_problem e = problem_make(4, 10, RT_MASK_CAUSAL_BOTTOM_RIGHT);
    l = made(&e, "interleaved:size=2,queries=first", 2, NULL);
    holds(&l, RT_SIDE_KV, "0 1 4 5 8 9|2 3 6 7");
    holds(&l, RT_SIDE_Q, "0 1 2 3|");
    rt_layout_reset(&l);
    l = made(&e, "interleaved:queries=zigzag", 2, NULL);
    holds(&l, RT_SIDE_Q, "0 3|1 2");
    rt_layout_reset(&l);
    const rt_problem c = problem_make(8, 20, RT_MASK_CAUSAL_BOTTOM_RIGHT);
    l = made(&c, "chunked:chunks=0/8/12", 2, NULL);
    holds(&l, RT_SIDE_KV, "0 1 6 7 8 11 12 13 18 19|2 3 4 5 9 10 14 15 16 17");
    holds(&l, RT_SIDE_Q, "0 1 6 7|2 3 4 5");
    rt_layout_reset(&l);
    l = made(&c, "chunked:chunks=0/8/12/20", 2, NULL); /* the end may be said */
    assert_int_equal(rt_layout_count(&l, RT_SIDE_KV, 0), 10);
    rt_layout_reset(&l);
}

static void dealing_by_work(void **state)
{
    (void)state;
    const int64_t work[] = {9, 14, 2, 20, 10, 15, 8, 14, 16, 19, 15, 3, 12, 1, 12, 10};
    const int64_t want[4][4] = {{3, 12, 13, 14}, {2, 4, 7, 9}, {1, 8, 11, 15}, {0, 5, 6, 10}},
                  sums[] = {45, 45, 43, 47};
    int64_t rank[16], n[4] = {0}, sum[4] = {0};
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_deal(&ctx, work, 16, 4, rank));
    for (int64_t i = 0; i < 16; i++) {
        assert_in_range(rank[i], 0, 3);
        assert_int_equal(want[rank[i]][n[rank[i]]++], i);
        sum[rank[i]] += work[i];
    }
    for (int r = 0; r < 4; r++)
        assert_int_equal(sum[r], sums[r]);
}

static void ptrr_deals_the_blocks_of_the_mask(void **state)
{
    (void)state;
    rt_problem p = problem_make(16, 16, RT_MASK_CAUSAL);
    int64_t cu[] = {0, 4, 12, 16};
    p.documents = 3;
    p.cu_q = p.cu_k = cu;
    expect(&p, "ptrr:block=1", 2, "2 3 5 6 8 11 12 13|0 1 4 7 9 10 14 15");
    rt_layout l = made(&p, "ptrr:block=1,work=pairs", 2, NULL);
    int64_t keys[16];
    for (int64_t i = 0; i < 16; i++)
        keys[i] = i;
    for (int32_t r = 0; r < 2; r++)
        assert_int_equal(rt_mask_pairs(&p, rt_layout_positions(&l, RT_SIDE_Q, r), 8, keys, 16), 28);
    rt_layout_reset(&l);
    /* blocks of 4: each sees 1, 1, 2, 1 of them; pairs 10, 10, 26, 10 */
    expect(&p, "ptrr:block=4", 2, "8 9 10 11 12 13 14 15|0 1 2 3 4 5 6 7");
    const rt_problem odd = problem_make(10, 10, RT_MASK_CAUSAL); /* the last block has 2 */
    expect(&odd, "ptrr:block=4", 2, "8 9|0 1 2 3 4 5 6 7");
    const rt_problem cross = problem_make(8, 4, RT_MASK_FULL); /* keys of another length: in runs */
    l = made(&cross, "ptrr:block=2", 2, NULL);
    holds(&l, RT_SIDE_KV, "0 1|2 3");
    rt_layout_reset(&l);
}

/* Pairs by rank under document masks, and causal ones. */
static void work_under_masks(void **state)
{
    (void)state;
    static const struct {
        int64_t documents, length[4];
        int32_t ranks;
        int64_t work[4][8]; /* contiguous, zigzag, striped, zigzag-doc; -1: not defined there */
    } table[] = {
        {2, {8, 16}, 2, {{46, 126}, {102, 70}, {80, 92}, {86, 86}}},
        {2, {8, 16}, 4, {{21, 25, 45, 81}, {51, 51, 43, 27}, {34, 40, 46, 52}, {43, 43, 43, 43}}},
        {3, {16, 16, 32}, 2, {{272, 528}, {528, 272}, {384, 416}, {400, 400}}},
        {2, {48, 16}, 2, {{528, 784}, {272, 1040}, {640, 672}, {656, 656}}},
        {2,
         {48, 16},
         4,
         {{136, 392, 648, 136}, {136, 136, 520, 520}, {304, 320, 336, 352}, {328, 328, 328, 328}}},
        {2,
         {32, 32},
         4,
         {{136, 392, 136, 392}, {264, 264, 264, 264}, {240, 256, 272, 288}, {264, 264, 264, 264}}},
        {3, {4, 4, 56}, 2, {{320, 1296}, {832, 784}, {792, 824}, {808, 808}}},
        {3, {4, 4, 56}, 4, {{56, 264, 520, 776}, {440, 392, 392, 392}, {380, 396, 412, 428}, {-1}}},
        {4, {8, 8, 8, 16}, 4, {{-1}, {-1}, {-1}, {61, 61, 61, 61}}},
        {1, {32}, 2, {{136, 392}, {264, 264}, {256, 272}, {264, 264}}},
        {1,
         {64},
         4,
         {{136, 392, 648, 904}, {520, 520, 520, 520}, {496, 512, 528, 544}, {520, 520, 520, 520}}},
        {1,
         {128},
         8,
         {{136, 392, 648, 904, 1160, 1416, 1672, 1928},
          {1032, 1032, 1032, 1032, 1032, 1032, 1032, 1032},
          {976, 992, 1008, 1024, 1040, 1056, 1072, 1088},
          {1032, 1032, 1032, 1032, 1032, 1032, 1032, 1032}}},
        {2, {4, 12}, 2, {{-1}, {-1}, {-1}, {44, 44}}},
        {1, {128}, 2, {{2080, 6176}, {4128, 4128}, {4096, 4160}, {4128, 4128}}},
        {1,
         {256},
         4,
         {{2080, 6176, 10272, 14368},
          {8224, 8224, 8224, 8224},
          {8128, 8192, 8256, 8320},
          {8224, 8224, 8224, 8224}}},
    };
    static const char *const names[] = {"contiguous", "zigzag", "striped", "zigzag-doc"};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int64_t cu[5] = {0};
        for (int64_t d = 0; d < table[i].documents; d++)
            cu[d + 1] = cu[d] + table[i].length[d];
        rt_problem p = problem_make(cu[table[i].documents], cu[table[i].documents], RT_MASK_CAUSAL);
        p.documents = table[i].documents;
        p.cu_q = p.cu_k = cu;
        int64_t keys[256];
        for (int64_t k = 0; k < p.seqlen_k; k++)
            keys[k] = k;
        for (int k = 0; k < 4; k++) {
            rt_context ctx = {0};
            rt_layout l;
            const rt_layout_options o = {.name = names[k], .remainder = RT_REMAINDER_REFUSE};
            if (table[i].work[k][0] < 0 && k == 3) { /* 4 % 8 != 0 */
                t_assert_status(&ctx, rt_layout_make(&ctx, &p, &o, table[i].ranks, &l), RT_ERR_ARG);
                assert_non_null(
                    strstr(ctx.message, "each document of seqlen divisible by 8, but number 0 has 4"));
            }
            if (table[i].work[k][0] < 0)
                continue;
            t_assert_ok(&ctx, rt_layout_make(&ctx, &p, &o, table[i].ranks, &l));
            for (int32_t r = 0; r < table[i].ranks; r++) {
                const int64_t got = rt_mask_pairs(&p, rt_layout_positions(&l, RT_SIDE_Q, r),
                                                  rt_layout_count(&l, RT_SIDE_Q, r), keys, p.seqlen_k);
                if (got != table[i].work[k][r])
                    fail_msg("row %zu, %s, rank %d: %lld pairs, not %lld", i, names[k], (int)r,
                             (long long)got, (long long)table[i].work[k][r]);
            }
            rt_layout_reset(&l);
        }
    }
}

/* ---- any problem, any order --------------------------------------------------------------------------- */

static int64_t pick(uint64_t *seed, int64_t least, int64_t most)
{
    return least + (int64_t)(t_random(seed) % (uint64_t)(most - least + 1));
}

static void name_pick(uint64_t *seed, const rt_problem *p, int32_t ranks, char name[120])
{
    int64_t u = pick(seed, 1, ranks);
    while (ranks % u != 0)
        u--;
    switch (pick(seed, 0, 11)) {
    case 0:
        (void)snprintf(name, 120, "striped:stripe=%lld", (long long)pick(seed, 1, 5));
        return;
    case 1:
        (void)snprintf(name, 120, "fpdt:chunks=%lld", (long long)pick(seed, 1, 4));
        return;
    case 2:
        (void)snprintf(name, 120, "zigzag-doc");
        return;
    case 3:
        (void)snprintf(name, 120, "contiguous-doc");
        return;
    case 4:
        (void)snprintf(name, 120, "ptrr:block=%lld,work=%s", (long long)pick(seed, 1, 6),
                       pick(seed, 0, 1) ? "pairs" : "blocks");
        return;
    case 5:
        (void)snprintf(name, 120, "hybrid-te:ulysses=%lld", (long long)u);
        return;
    case 6:
        (void)snprintf(name, 120, "hybrid-mindspeed:ulysses=%lld", (long long)u);
        return;
    case 7:
    case 8:
        (void)snprintf(name, 120, "usp:ulysses=%lld,order=%s,tokens=%s", (long long)u,
                       pick(seed, 0, 1) ? "ring-low" : "ulysses-low",
                       (const char *const[]){"zigzag", "basic", "strip"}[pick(seed, 0, 2)]);
        return;
    case 9:
        (void)snprintf(
            name, 120, "interleaved:size=%lld,queries=%s", (long long)pick(seed, 1, 4),
            (const char *const[]){"contiguous", "zigzag", "first", "interleaved"}[pick(seed, 0, 3)]);
        return;
    case 10:
        if (p->seqlen_k >= p->seqlen_q) {
            const int64_t old = p->seqlen_k - p->seqlen_q;
            (void)snprintf(name, 120,
                           old > 1    ? "chunked:chunks=0/%lld/%lld"
                           : old == 1 ? "chunked:chunks=0/1"
                                      : "chunked:chunks=0",
                           (long long)pick(seed, 1, old > 1 ? old - 1 : 1), (long long)old);
            return;
        }
        (void)snprintf(name, 120, "head-tail");
        return;
    default:
        (void)snprintf(name, 120, "zigzag");
    }
}

/* Every position has one owner, one slot and one row, and rows ascend with the slots; so do the positions, but in
 * USP's strip, where a rank may have the end of one residue and the start of the next. */
static void any_order_is_a_permutation(void **state)
{
    (void)state;
    uint64_t seed = 20261130;
    for (int trial = 0; trial < 6000; trial++) {
        const int32_t ranks = (int32_t)pick(&seed, 1, 9);
        const int64_t sq = pick(&seed, 1, 40), sk = pick(&seed, 0, 1) ? sq : pick(&seed, 1, 60);
        rt_problem p = problem_make(sq, sk, (rt_mask_kind)pick(&seed, 0, 2));
        int64_t cu[2][6], room[2][6], n[2] = {sq, sk};
        p.documents = pick(&seed, 0, 1) ? pick(&seed, 1, 5) : 0;
        for (int side = 0; side < 2; side++) {
            cu[side][0] = room[side][0] = 0;
            for (int64_t d = 1; d <= p.documents; d++) {
                cu[side][d] = d == p.documents ? n[side] : pick(&seed, cu[side][d - 1], n[side]);
                room[side][d] = room[side][d - 1] + cu[side][d] - cu[side][d - 1] + pick(&seed, 0, 5);
            }
        }
        if (p.documents > 0) {
            p.cu_q = cu[0];
            p.cu_k = cu[1];
        }
        char name[120];
        name_pick(&seed, &p, ranks, name);
        const bool padded = p.documents > 0 && pick(&seed, 0, 1) && strncmp(name, "chunked", 7) != 0;
        const rt_layout_options o = {.name = name,
                                     .remainder = (rt_remainder)pick(&seed, 0, 2),
                                     .padded_q = padded ? room[0] : NULL,
                                     .padded_k = padded ? room[1] : NULL};
        rt_layout l, copy;
        rt_context ctx = {0};
        t_assert_ok(&ctx, rt_layout_make(&ctx, &p, &o, ranks, &l));
        t_assert_ok(&ctx, rt_layout_copy(&ctx, &l, &copy));
        rt_layout_reset(&l);
        for (int side = 0; side < 2; side++) {
            const rt_layout_side *x = &copy.side[side];
            int64_t rows = 0;
            assert_int_equal(x->length, n[side]);
            assert_int_equal(x->first[ranks], x->length);
            assert_int_equal(x->padded, padded ? room[side][p.documents] : n[side]);
            for (int32_t r = 0; r < ranks; r++) {
                const int64_t *pos = rt_layout_positions(&copy, (rt_side)side, r);
                rows += x->rows[r];
                assert_in_range(x->half[r], 0, rt_layout_count(&copy, (rt_side)side, r));
                for (int64_t i = 0; i < rt_layout_count(&copy, (rt_side)side, r); i++) {
                    assert_int_equal(x->rank_of[pos[i]], r);
                    assert_int_equal(x->slot_of[pos[i]], i);
                    assert_in_range(rt_layout_row(x, pos[i]), i, x->rows[r] - 1);
                    if (i > 0) {
                        assert_true(pos[i] > pos[i - 1] || strstr(name, "strip") != NULL);
                        assert_true(rt_layout_row(x, pos[i]) > rt_layout_row(x, pos[i - 1]));
                    }
                }
            }
            assert_int_equal(rows, x->padded);
        }
        rt_layout_reset(&copy);
    }
}

/* ---- names and files that are wrong ------------------------------------------------------------------- */

static void refuse(const rt_problem *p, const char *name, const char *text)
{
    rt_context ctx = {0};
    rt_layout l;
    const rt_layout_options o = {.name = name};
    const rt_status st = rt_layout_make(&ctx, p, &o, 4, &l);
    if (st == RT_OK || strstr(ctx.message, text) == NULL)
        fail_msg("%s: status %d, \"%s\" does not say \"%s\"", name, (int)st, ctx.message, text);
}

static void wrong_names(void **state)
{
    (void)state;
    const rt_problem p = problem_make(8, 8, RT_MASK_CAUSAL), c = problem_make(4, 8, RT_MASK_CAUSAL);
    refuse(&p, "snake", "allowed: contiguous zigzag striped");
    refuse(&p, "zigzag:stripe=2", "it takes none");
    refuse(&p, "striped:stride=2", "it takes stripe=(1 ..)");
    refuse(&p, "striped:stripe", "has no value");
    refuse(&p, "striped:stripe=", "has no value");
    refuse(&p, "striped:stripe=0", "stripe is \"0\"; a number from 1");
    refuse(&p, "striped:stripe=2x", "stripe is \"2x\"");
    refuse(&p, "usp:ulysses=3", "ulysses is 3; it must divide the 4 ranks");
    refuse(&p, "usp:order=low", "it is one of ulysses-low, ring-low");
    refuse(&p, "positions", "Hint: positions:file=PATH");
    refuse(&p, "positions:file=nowhere.txt", "cannot open 'nowhere.txt'");
    refuse(&p, "positions:file=a\"b", "no quotes");
    refuse(&c, "chunked", "Hint: chunked:chunks=0/4");
    refuse(&c, "chunked:chunks=0/3", "that of the 4 queries, 4");
    refuse(&c, "chunked:chunks=0/5/4", "ascending from 0");
    refuse(&c, "chunked:chunks=0/a", "numbers with slashes");
    rt_problem d = problem_make(8, 8, RT_MASK_CAUSAL);
    int64_t cu[] = {0, 3, 8}, tight[] = {0, 2, 8}, late[] = {1, 4, 12}, good[] = {0, 4, 12};
    d.documents = 2;
    d.cu_q = d.cu_k = cu;
    const struct {
        const rt_problem *p;
        const int64_t *padded;
        const char *says;
    } bad[] = {{&d, tight, "document 0 the places 0 to 2; its 3 tokens need 3"},
               {&d, late, "begins with 1"},
               {&p, good, "needs cu_seqlens"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rt_context ctx = {0};
        rt_layout l;
        const rt_layout_options o = {.padded_q = bad[i].padded, .padded_k = bad[i].padded};
        t_assert_status(&ctx, rt_layout_make(&ctx, bad[i].p, &o, 2, &l), RT_ERR_ARG);
        assert_non_null(strstr(ctx.message, bad[i].says));
    }
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void lists_from_files(void **state)
{
    (void)state;
    const rt_problem p = problem_make(4, 4, RT_MASK_CAUSAL), c = problem_make(2, 4, RT_MASK_CAUSAL);
    write_text("list.txt", "# any order\nqkv 0  2 -1\nqkv 0 0 # goes on\n\n\tqkv 3 3 1 -1\n");
    rt_layout l = made(&p, "positions:file=list.txt", 4, NULL);
    holds(&l, RT_SIDE_Q, "2 -1 0|||3 1 -1");
    holds(&l, RT_SIDE_KV, "2 -1 0|||3 1 -1");
    assert_int_equal(l.kind, RT_LAYOUT_POSITIONS);
    rt_layout_reset(&l);
    write_text("list.txt", "q 1 1 0\nkv 0 3 2\nkv 2 0 1\n");
    l = made(&c, "positions:file=list.txt", 4, NULL);
    holds(&l, RT_SIDE_Q, "|1 0||");
    holds(&l, RT_SIDE_KV, "3 2||0 1|");
    rt_layout_reset(&l);
    static const struct {
        const char *text, *says;
    } bad[] = {{"qkv 0 0 1 2 4\n", "position 4 (rank 0, slot 3) is not in 0 .. 3"},
               {"qkv 0 0 1 2\n", "position 3 is missing"},
               {"qkv 0 0 1 2 3 1\n", "position 1 is repeated"},
               {"qkv 4 0\n", "line 1: rank 4 is not in 0 .. 3"},
               {"# x\nqv 0 1\n", "line 2 begins with \"qv\""},
               {"qkv 0 1x\n", "\"1x\" is no whole number"},
               {"qkv\n", "line 1 names no rank"},
               {"qkv 1 0 1\nqkv 0 2 3\n", "rank 0 comes after rank 1"},
               {"", "position 0 is missing"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_text("list.txt", bad[i].text);
        refuse(&p, "positions:file=list.txt", bad[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_whole_sequences),
        cmocka_unit_test(lists_of_hybrids),
        cmocka_unit_test(lists_of_documents),
        cmocka_unit_test(padded_documents),
        cmocka_unit_test(padded_lengths_that_do_not_divide),
        cmocka_unit_test(prefill_and_cache),
        cmocka_unit_test(dealing_by_work),
        cmocka_unit_test(ptrr_deals_the_blocks_of_the_mask),
        cmocka_unit_test(work_under_masks),
        cmocka_unit_test(any_order_is_a_permutation),
        cmocka_unit_test(wrong_names),
        cmocka_unit_test(lists_from_files),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
