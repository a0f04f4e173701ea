/* The executor and arithmetic f64 together: every layout, number of ranks, plan and mask against the triple
 * loop, and to the bit where the inputs are summable. */
#include "runner.h"

#include <omp.h>

#include "run/buffers.h"

static const rt_layout_kind layouts[] = {RT_LAYOUT_CONTIGUOUS, RT_LAYOUT_ZIGZAG, RT_LAYOUT_STRIPED,
                                         RT_LAYOUT_POSITIONS};
static const char *const plans[] = {"ring", "single", "split", "pass-q"};
static const int32_t ranks[] = {1, 2, 3, 4, 5, 8};

static const char *describe(const rt_problem *p, const t_how *how)
{
    static char text[200];
    (void)snprintf(text, sizeof text, "%s over %s, P = %d, %lldx%lld, %s, %lld documents, heads %lld/%lld",
                   how->plan, rt_layout_name(how->layout), (int)how->ranks, (long long)p->seqlen_q,
                   (long long)p->seqlen_k, rt_mask_name(p->mask), (long long)p->documents,
                   (long long)p->heads_q, (long long)p->heads_kv);
    return text;
}

static rt_problem with_documents(rt_problem p, int64_t n, int64_t *cu_q, int64_t *cu_k)
{
    p.documents = n;
    p.cu_q = cu_q;
    p.cu_k = cu_k;
    return p;
}

/* Boundaries: one empty, some shorter than P, none on a shard's edge; then with queries and keys of their
 * own, where one document has queries only and one has keys only. */
static int64_t cu_same[] = {0, 5, 5, 8, 131, 199, 257};
static int64_t cu_q_own[] = {0, 41, 41, 48, 50, 129}, cu_k_own[] = {0, 100, 103, 103, 131, 257};

/* ---- gaussian inputs against the triple loop --------------------------------------------------------- */

/* Problem number n with one layout for each P and plan (rotated by n), or with all. */
static void gaussian(const rt_problem *p, int n, bool all_layouts)
{
    t_tensors t, want, bound;
    if (t_left_out(n))
        return;
    t_tensors_create(p, &t);
    t_tensors_create(p, &want);
    t_tensors_create(p, &bound);
    t_fill(&t, RT_FAMILY_GAUSSIAN, 100 + (uint64_t)n);
    t_reference(&t, &want, &bound);
    double worst = 0;
    for (int r = 0; r < 6; r++)
        for (int x = 0; x < 4; x++) {
            if (all_layouts ? t_left_out(4 * r + x) : x != (r + n) % 4)
                continue;
            const t_how how = {layouts[x], ranks[r], plans[all_layouts ? 0 : (r + n / 2) % 4], 0};
            t_run(&t, &how);
            t_check_close(&t, &want, &bound, describe(p, &how), &worst);
        }
    /* The bound is not so wide that it would let anything through. */
    assert_true(worst > 1e-3);
    t_tensors_free(&t);
    t_tensors_free(&want);
    t_tensors_free(&bound);
}

static void gaussian_causal_gqa_is_within_bound(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 257, 257, 8, 2, 64, 64, RT_MASK_CAUSAL);
    gaussian(&p, 0, true);
}

static void gaussian_full_mqa_is_within_bound(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 257, 257, 2, 1, 64, 64, RT_MASK_FULL);
    gaussian(&p, 1, false);
}

static void gaussian_fewer_queries_bottom_right_is_within_bound(void **state)
{
    (void)state;
    const rt_problem p = t_problem(2, 129, 257, 4, 2, 96, 64, RT_MASK_CAUSAL_BOTTOM_RIGHT);
    gaussian(&p, 2, false);
}

static void gaussian_more_queries_bottom_right_mha_is_within_bound(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 257, 129, 4, 4, 64, 64, RT_MASK_CAUSAL_BOTTOM_RIGHT);
    gaussian(&p, 3, false);
}

static void gaussian_top_left_of_unequal_lengths_is_within_bound(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 129, 257, 4, 2, 64, 96, RT_MASK_CAUSAL);
    gaussian(&p, 4, false);
}

static void gaussian_causal_documents_is_within_bound(void **state)
{
    (void)state;
    const rt_problem p =
        with_documents(t_problem(1, 257, 257, 8, 2, 96, 64, RT_MASK_CAUSAL), 6, cu_same, cu_same);
    gaussian(&p, 5, false);
}

static void gaussian_full_documents_of_unequal_lengths_is_within_bound(void **state)
{
    (void)state;
    const rt_problem p =
        with_documents(t_problem(2, 129, 257, 4, 1, 64, 64, RT_MASK_FULL), 5, cu_q_own, cu_k_own);
    gaussian(&p, 6, false);
}

static void gaussian_bottom_right_documents_is_within_bound(void **state)
{
    (void)state;
    const rt_problem p = with_documents(t_problem(1, 129, 257, 4, 4, 64, 64, RT_MASK_CAUSAL_BOTTOM_RIGHT),
                                        5, cu_q_own, cu_k_own);
    gaussian(&p, 7, false);
}

/* The other families move the running maximum, or give each row to one key. */
static void tilted_and_huge_are_within_bound(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 300, 300, 2, 1, 16, 16, RT_MASK_CAUSAL);
    t_tensors t, want, bound;
    t_tensors_create(&p, &t);
    t_tensors_create(&p, &want);
    t_tensors_create(&p, &bound);
    const rt_family family[] = {RT_FAMILY_TILTED, RT_FAMILY_HUGE};
    for (int f = 0; f < 2; f++) {
        t_fill(&t, family[f], 9);
        t_reference(&t, &want, &bound);
        for (int x = 0; x < 4; x++) {
            const t_how how = {layouts[x], 4 - x % 2, plans[x], 0};
            t_run(&t, &how);
            t_check_close(&t, &want, &bound, describe(&p, &how), NULL);
        }
    }
    t_tensors_free(&t);
    t_tensors_free(&want);
    t_tensors_free(&bound);
}

/* ---- summable inputs: one set of bits ---------------------------------------------------------------- */

/* The row's visible keys of the highest pair share all the weight; everything that follows is a sum of
 * small multiples of 1/4, exact in any order. */
static void exact_closed_form(const t_tensors *in, t_tensors *want)
{
    const rt_problem *p = in->p;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < p->seqlen_q; i++) {
                const int64_t g = h / (p->heads_q / p->heads_kv);
                int64_t top = -1;
                for (int64_t j = 0; j < p->seqlen_k; j++)
                    if (t_sees(p, i, j))
                        top = j;
                *t_row(want, RT_LSE, b, i, h) = -T_INF;
                if (top < 0)
                    continue;
                const int64_t first = top % 2 == 1 && t_sees(p, i, top - 1) ? top - 1 : top;
                const int64_t n = top - first + 1;
                const double w = n == 2 ? 0.5 : 1.0;
                double *out = t_row(want, RT_OUT, b, i, h), *dq = t_row(want, RT_DQ, b, i, h), delta = 0;
                const double *dout = t_row(in, RT_DOUT, b, i, h), *q = t_row(in, RT_Q, b, i, h);
                *t_row(want, RT_LSE, b, i, h) =
                    1024.0 * (double)(top / 2) + (n == 2 ? 0.693147180559945309417 : 0.0);
                for (int64_t d = 0; d < p->dim_v; d++) {
                    for (int64_t j = first; j <= top; j++)
                        out[d] += w * t_row(in, RT_V, b, j, g)[d];
                    delta += dout[d] * out[d];
                }
                for (int64_t j = first; j <= top; j++) {
                    double ds = -delta, *dk = t_row(want, RT_DK, b, j, g),
                           *dv = t_row(want, RT_DV, b, j, g);
                    for (int64_t d = 0; d < p->dim_v; d++) {
                        ds += dout[d] * t_row(in, RT_V, b, j, g)[d];
                        dv[d] += w * dout[d];
                    }
                    for (int64_t d = 0; d < p->dim; d++) {
                        dq[d] += w * ds * t_row(in, RT_K, b, j, g)[d];
                        dk[d] += w * ds * q[d];
                    }
                }
            }
}

static void exact(rt_problem p, uint64_t seed)
{
    p.scale_kind = RT_SCALE_F64;
    p.scale = 1.0;
    t_tensors t, want;
    t_tensors_create(&p, &t);
    t_tensors_create(&p, &want);
    t_fill(&t, RT_FAMILY_EXACT, seed);
    exact_closed_form(&t, &want);
    for (int x = 0; x < 4; x++)
        for (int r = 0; r < 6; r++)
            for (int k = 0; k < 4; k++) {
                if (t_left_out(24 * x + 4 * r + k))
                    continue;
                const t_how how = {layouts[x], ranks[r], plans[k], 0};
                t_run(&t, &how);
                t_check_same(&t, &want, describe(&p, &how));
            }
    t_tensors_free(&t);
    t_tensors_free(&want);
}

static void exact_inputs_give_the_closed_form_everywhere(void **state)
{
    (void)state;
    exact(t_problem(1, 65, 65, 4, 2, 8, 6, RT_MASK_CAUSAL), 1);
    exact(t_problem(2, 37, 65, 2, 1, 5, 4, RT_MASK_CAUSAL_BOTTOM_RIGHT), 2);
    exact(t_problem(1, 65, 37, 2, 2, 4, 7, RT_MASK_CAUSAL_BOTTOM_RIGHT), 3);
    exact(t_problem(1, 33, 50, 2, 2, 4, 4, RT_MASK_FULL), 4);
    int64_t cu[] = {0, 3, 3, 10, 31, 64, 65};
    exact(with_documents(t_problem(1, 65, 65, 4, 2, 8, 8, RT_MASK_CAUSAL), 6, cu, cu), 5);
    int64_t cu_q[] = {0, 9, 12, 12, 40}, cu_k[] = {0, 4, 4, 20, 61};
    exact(with_documents(t_problem(1, 40, 61, 4, 1, 4, 4, RT_MASK_FULL), 4, cu_q, cu_k), 6);
    exact(with_documents(t_problem(1, 40, 61, 4, 1, 4, 4, RT_MASK_CAUSAL_BOTTOM_RIGHT), 4, cu_q, cu_k), 7);
}

/* Several row and key blocks in one tile. */
static void exact_inputs_give_the_closed_form_over_many_blocks(void **state)
{
    (void)state;
    rt_problem p = t_problem(1, 700, 700, 2, 1, 4, 4, RT_MASK_CAUSAL);
    p.scale_kind = RT_SCALE_F64;
    p.scale = 1.0;
    t_tensors t, want;
    t_tensors_create(&p, &t);
    t_tensors_create(&p, &want);
    t_fill(&t, RT_FAMILY_EXACT, 8);
    exact_closed_form(&t, &want);
    for (int x = 0; x < 4; x++) {
        const t_how how = {layouts[x], x == 0 ? 1 : 2, plans[x], 0};
        t_run(&t, &how);
        t_check_same(&t, &want, describe(&p, &how));
    }
    t_tensors_free(&t);
    t_tensors_free(&want);
}

/* ---- odd sizes --------------------------------------------------------------------------------------- */

static void small(rt_problem p, uint64_t seed)
{
    t_tensors t, want, bound;
    t_tensors_create(&p, &t);
    t_tensors_create(&p, &want);
    t_tensors_create(&p, &bound);
    t_fill(&t, RT_FAMILY_GAUSSIAN, seed);
    t_reference(&t, &want, &bound);
    for (int x = 0; x < 4; x++)
        for (int r = 0; r < 6; r++)
            for (int k = 0; k < 4; k++) {
                if (t_left_out(24 * x + 4 * r + k))
                    continue;
                const t_how how = {layouts[x], ranks[r], plans[k], 0};
                t_run(&t, &how);
                t_check_close(&t, &want, &bound, describe(&p, &how), NULL);
            }
    t_tensors_free(&t);
    t_tensors_free(&want);
    t_tensors_free(&bound);
}

static void fewer_tokens_than_ranks_is_within_bound(void **state)
{
    (void)state;
    small(t_problem(1, 1, 1, 1, 1, 4, 4, RT_MASK_CAUSAL), 1);
    small(t_problem(1, 1, 5, 2, 1, 4, 4, RT_MASK_FULL), 2);
    small(t_problem(1, 5, 1, 2, 1, 4, 4, RT_MASK_FULL), 3);
    small(t_problem(2, 3, 2, 2, 2, 4, 3, RT_MASK_CAUSAL_BOTTOM_RIGHT), 4);
}

/* Sizes that are equal where a mix-up of two of them would otherwise show. */
static void equal_sizes_of_unlike_things_is_within_bound(void **state)
{
    (void)state;
    small(t_problem(1, 8, 8, 8, 2, 4, 4, RT_MASK_CAUSAL), 5); /* Hq = S */
    small(t_problem(2, 9, 7, 4, 2, 4, 4, RT_MASK_FULL), 6);   /* B = Hkv */
    small(t_problem(4, 4, 4, 4, 4, 4, 4, RT_MASK_CAUSAL), 7); /* everything */
}

static void one_dim_is_within_bound(void **state)
{
    (void)state;
    small(t_problem(1, 9, 9, 2, 1, 1, 1, RT_MASK_CAUSAL), 8);
    small(t_problem(1, 9, 9, 2, 1, 3, 1, RT_MASK_CAUSAL), 9);
    small(t_problem(1, 9, 9, 2, 1, 1, 3, RT_MASK_CAUSAL), 10);
}

/* ---- promises ---------------------------------------------------------------------------------------- */

static void thread_count_leaves_every_bit(void **state)
{
    (void)state;
    const rt_problem p = t_problem(2, 257, 257, 4, 2, 64, 64, RT_MASK_CAUSAL);
    t_tensors t, want;
    t_tensors_create(&p, &t);
    t_tensors_create(&p, &want);
    t_fill(&t, RT_FAMILY_GAUSSIAN, 11);
    t_fill(&want, RT_FAMILY_GAUSSIAN, 11);
    const t_how one[] = {{RT_LAYOUT_ZIGZAG, 2, "ring", 1}, {RT_LAYOUT_CONTIGUOUS, 1, "single", 1}};
    for (int x = 0; x < 2; x++) {
        t_how how = one[x];
        t_run(&want, &how);
        for (how.threads = 2; how.threads <= 7; how.threads += how.threads == 2 ? 1 : 4) {
            t_run(&t, &how);
            t_check_same(&t, &want, describe(&p, &how));
        }
    }
    t_tensors_free(&t);
    t_tensors_free(&want);
}

/* With scores of 1e3 the order of a sum shows: the same plan gives the same bits, another layout does not.
 * So the comparisons of this file can see a difference. */
static void same_plan_repeats_and_another_order_shows(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 257, 257, 2, 1, 64, 64, RT_MASK_CAUSAL);
    t_tensors a, b;
    t_tensors_create(&p, &a);
    t_tensors_create(&p, &b);
    t_fill(&a, RT_FAMILY_GAUSSIAN, 12);
    t_fill(&b, RT_FAMILY_GAUSSIAN, 12);
    const t_how ring = {RT_LAYOUT_ZIGZAG, 4, "ring", 0}, single = {RT_LAYOUT_CONTIGUOUS, 1, "single", 0};
    t_run(&a, &ring);
    t_run(&b, &ring);
    t_check_same(&a, &b, "ring twice");
    t_run(&b, &single);
    int64_t differ = 0;
    for (int64_t e = 0; e < t_rows(&p, RT_DK) * p.dim; e++)
        differ += !t_same(a.x[RT_DK][e], b.x[RT_DK][e]);
    assert_true(differ > 0);
    t_tensors_free(&a);
    t_tensors_free(&b);
}

/* OpenMP may give a smaller team than was asked for, down to the calling thread alone. */
static void smaller_team_than_asked_for_leaves_every_bit(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 257, 257, 2, 2, 64, 64, RT_MASK_FULL);
    t_tensors t, want;
    t_tensors_create(&p, &t);
    t_tensors_create(&p, &want);
    t_fill(&t, RT_FAMILY_GAUSSIAN, 14);
    t_fill(&want, RT_FAMILY_GAUSSIAN, 14);
    const t_how one = {RT_LAYOUT_CONTIGUOUS, 1, "single", 1}, four = {RT_LAYOUT_CONTIGUOUS, 1, "single", 4};
    t_run(&want, &one);
    const int levels = omp_get_max_active_levels(), threads = omp_get_max_threads();
    omp_set_max_active_levels(0); /* no team at all, though four are asked for */
    t_run(&t, &four);
    omp_set_max_active_levels(levels);
    t_check_same(&t, &want, "a team of one");
    assert_int_equal(omp_get_max_threads(), threads); /* the run leaves OpenMP as it was */
    t_tensors_free(&t);
    t_tensors_free(&want);
}

/* ---- buffers ----------------------------------------------------------------------------------------- */

static double *buffer_row(const rt_buffer *b, const rt_shape *s, int64_t head, int64_t slot)
{
    const rt_part part = rt_buffer_part(b, RT_PAYLOAD_DQ, s, 0, 0);
    return rt_part_at(&part, 0, head, slot);
}

/* Rows of one shard come and go on their own; those of another shard start afresh. */
static void buffer_rows_of_a_shard_live_on_their_own(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 8, 8, 2, 2, 1, 1, RT_MASK_FULL);
    const rt_shape shape = {&p, &rt_arithmetic_f64};
    const rt_piece low = {RT_SIDE_Q, 1, 0, 2, 0, 2}, high = {RT_SIDE_Q, 1, 2, 4, 0, 1},
                   other = {RT_SIDE_Q, 0, 1, 3, 1, 2};
    const double in[4] = {1, 2, 3, 4};
    rt_context ctx = {0};
    rt_buffer b = {.held = false};
    t_assert_ok(&ctx, rt_buffer_land(&ctx, &b, RT_PAYLOAD_DQ, &shape, &low, RT_ADD, in));
    t_assert_ok(&ctx, rt_buffer_land(&ctx, &b, RT_PAYLOAD_DQ, &shape, &high, RT_ADD, in));
    t_assert_ok(&ctx, rt_buffer_land(&ctx, &b, RT_PAYLOAD_DQ, &shape, &low, RT_ADD, in));
    t_assert_bits_eq(*buffer_row(&b, &shape, 0, 1), 4); /* twice 2 */
    t_assert_bits_eq(*buffer_row(&b, &shape, 1, 0), 6);
    t_assert_bits_eq(*buffer_row(&b, &shape, 0, 3), 2); /* once */
    t_assert_bits_eq(*buffer_row(&b, &shape, 1, 3), 0); /* never */
    rt_buffer_leave(&b, RT_PAYLOAD_DQ, &shape, &low);
    assert_true(b.held);
    t_assert_bits_eq(*buffer_row(&b, &shape, 0, 3), 2);
    t_assert_ok(&ctx, rt_buffer_land(&ctx, &b, RT_PAYLOAD_DQ, &shape, &low, RT_ADD, in));
    t_assert_bits_eq(*buffer_row(&b, &shape, 0, 1), 2); /* what was there has left */
    t_assert_ok(&ctx, rt_buffer_land(&ctx, &b, RT_PAYLOAD_DQ, &shape, &other, RT_ADD, in));
    assert_true(rt_piece_equal(&b.piece, &other));
    t_assert_bits_eq(b.data[0], 1);
    rt_buffer_leave(&b, RT_PAYLOAD_DQ, &shape, &other);
    assert_false(b.held);
    rt_free(b.data);
}

static void forward_alone_stores_no_gradient(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 9, 9, 2, 1, 4, 4, RT_MASK_CAUSAL);
    t_tensors t;
    t_tensors_create(&p, &t);
    t_fill(&t, RT_FAMILY_GAUSSIAN, 13);
    rt_context ctx = {0};
    rt_run_stats stats = {.seconds = -1};
    const t_how how = {RT_LAYOUT_STRIPED, 3, "ring", 0};
    t_assert_ok(&ctx, t_run_status(&ctx, NULL, &t, &how, false, &stats));
    for (int64_t r = 0; r < t_rows(&p, RT_OUT); r++)
        assert_true(t.stored[RT_OUT][r] == 1 && t.stored[RT_LSE][r] == 1 && t.stored[RT_DQ][r] == 0);
    for (int64_t r = 0; r < t_rows(&p, RT_DK); r++)
        assert_true(t.stored[RT_DK][r] == 0 && t.stored[RT_DV][r] == 0);
    /* One process sends nothing. */
    assert_true(stats.seconds >= 0 && stats.bytes_sent == 0 && stats.messages == 0);
    t_tensors_free(&t);
}

static void wrong_plan_is_refused_before_anything_is_stored(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 12, 12, 2, 1, 4, 4, RT_MASK_CAUSAL);
    const t_how how = {RT_LAYOUT_CONTIGUOUS, 3, "ring", 0};
    rt_context ctx = {0};
    rt_layout l;
    rt_plan plan;
    rt_comm *comm;
    t_assert_ok(&ctx, t_layout_create(&ctx, &p, &how, &l));
    t_assert_ok(&ctx, t_plan_create(&ctx, &p, &l, "ring", &plan));
    t_assert_ok(&ctx, rt_comm_self(&ctx, &comm));
    assert_int_equal(rt_comm_size(comm), 1);
    assert_int_equal(rt_comm_rank(comm), 0);
    plan.forward.moves[0].to = 2; /* shard 0 skips rank 1 */
    const rt_run_io io = {0};     /* a call would crash */
    t_assert_status(&ctx, rt_run(&ctx, comm, &p, &l, &plan, rt_arithmetic_find("f64"), &io, NULL),
                    RT_ERR_FORMAT);
    rt_comm_destroy(&comm);
    assert_null(comm);
    rt_plan_reset(&plan);
    rt_layout_reset(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaussian_causal_gqa_is_within_bound),
        cmocka_unit_test(gaussian_full_mqa_is_within_bound),
        cmocka_unit_test(gaussian_fewer_queries_bottom_right_is_within_bound),
        cmocka_unit_test(gaussian_more_queries_bottom_right_mha_is_within_bound),
        cmocka_unit_test(gaussian_top_left_of_unequal_lengths_is_within_bound),
        cmocka_unit_test(gaussian_causal_documents_is_within_bound),
        cmocka_unit_test(gaussian_full_documents_of_unequal_lengths_is_within_bound),
        cmocka_unit_test(gaussian_bottom_right_documents_is_within_bound),
        cmocka_unit_test(tilted_and_huge_are_within_bound),
        cmocka_unit_test(exact_inputs_give_the_closed_form_everywhere),
        cmocka_unit_test(exact_inputs_give_the_closed_form_over_many_blocks),
        cmocka_unit_test(fewer_tokens_than_ranks_is_within_bound),
        cmocka_unit_test(equal_sizes_of_unlike_things_is_within_bound),
        cmocka_unit_test(one_dim_is_within_bound),
        cmocka_unit_test(thread_count_leaves_every_bit),
        cmocka_unit_test(same_plan_repeats_and_another_order_shows),
        cmocka_unit_test(smaller_team_than_asked_for_leaves_every_bit),
        cmocka_unit_test(buffer_rows_of_a_shard_live_on_their_own),
        cmocka_unit_test(forward_alone_stores_no_gradient),
        cmocka_unit_test(wrong_plan_is_refused_before_anything_is_stored),
    };
    return cmocka_run_group_tests_name("run", tests, NULL, t_teardown_memory);
}
