/* Every mask through every arithmetic: against the triple loop, the MPFR referee, and the same bits of exact for
 * every plan and layout; what a hidden key's slot holds reaches nothing. */
#include <omp.h>

#include "masks.h"
#include "referee.h"
#include "runner.h"

/* Each part alone, then together. */
static const int parts_of[] = {T_MASK_WINDOW,
                               T_MASK_PREFIX,
                               T_MASK_WINDOW | T_MASK_PREFIX,
                               T_MASK_SLICES,
                               T_MASK_KEYS,
                               T_MASK_DENSE,
                               T_MASK_WINDOW | T_MASK_DOCUMENTS | T_MASK_PREFIX,
                               T_MASK_SLICES | T_MASK_KEYS,
                               T_MASK_KEYS | T_MASK_DOCUMENTS | T_MASK_DENSE,
                               T_MASK_ALL};
enum { N_PARTS = sizeof parts_of / sizeof parts_of[0] };

static const rt_tensor_id results[] = {RT_LSE, RT_OUT, RT_DQ, RT_DK, RT_DV};

static void load(void *arg, rt_tensor_id id, int64_t b, int64_t pos, int64_t h, double *row)
{
    const t_tensors *t = arg;
    memcpy(row, t_row(t, id, b, pos, h), (size_t)t_width(t->p, id) * sizeof *row);
}

static void store(void *arg, rt_tensor_id id, int32_t rank, int64_t slot, int64_t b, int64_t pos, int64_t h,
                  const double *row)
{
    const t_tensors *t = arg;
    (void)rank, (void)slot;
    memcpy(t_row(t, id, b, pos, h), row, (size_t)t_width(t->p, id) * sizeof *row);
}

/* Alone, the plan proved first; results as they come (exact: in f32). */
static void run(const char *arith, t_tensors *t, const t_how *how)
{
    rt_context ctx = {0};
    rt_comm *alone;
    rt_layout l;
    rt_plan plan;
    t_assert_ok(&ctx, rt_comm_self(&ctx, &alone));
    t_assert_ok(&ctx, t_layout_create(&ctx, t->p, how, &l));
    t_assert_ok(&ctx, t_plan_create(&ctx, t->p, &l, how->plan, &plan));
    t_assert_ok(&ctx, rt_plan_verify(&ctx, &plan, t->p, &l));
    const rt_run_io io = {.load = load,
                          .store = store,
                          .arg = t,
                          .backward = true,
                          .result = strcmp(arith, "f64") == 0 ? RT_F64 : RT_F32,
                          .lse_result = strcmp(arith, "f64") == 0 ? RT_F64 : RT_F32};
    const int threads = omp_get_max_threads();
    omp_set_num_threads(how->threads > 0 ? how->threads : 1);
    t_assert_ok(&ctx, rt_run(&ctx, alone, t->p, &l, &plan, rt_arithmetic_find(arith), &io, NULL));
    omp_set_num_threads(threads);
    rt_plan_reset(&plan);
    rt_layout_reset(&l);
    rt_comm_destroy(&alone);
}

static rt_problem problem_make(uint64_t *s, int turn, int64_t most)
{
    const int64_t sq = most / 2 + t_mask_below(s, most / 2 + 1),
                  sk = turn % 2 == 0 ? sq : most / 2 + t_mask_below(s, most / 2 + 1),
                  group = 1 + t_mask_below(s, 2);
    rt_problem p = t_problem(1 + (turn / N_PARTS) % 2, sq, sk, 2 * group, 2, 5, 4,
                             (rt_mask_kind)((turn + turn / N_PARTS) % 3));
    t_mask_random(s, parts_of[turn % N_PARTS], &p);
    return p;
}

static void inputs_make(const rt_problem *p, uint64_t seed, rt_dtype format, t_tensors *t)
{
    t_tensors_create(p, t);
    t_fill(t, RT_FAMILY_GAUSSIAN, seed);
    for (int id = RT_Q; id <= RT_DOUT; id++)
        for (int64_t e = 0; e < t_rows(p, (rt_tensor_id)id) * t_width(p, (rt_tensor_id)id); e++)
            t->x[id][e] = rt_round_to(format, t->x[id][e]);
}

/* f32: all terms of f64's bound are linear in the unit roundoff, 2^29 times as large here; a fifth more for what is
 * of second order. */
static void widen(t_tensors *bound)
{
    for (size_t x = 0; x < sizeof results / sizeof results[0]; x++)
        for (int64_t e = 0; e < t_rows(bound->p, results[x]) * t_width(bound->p, results[x]); e++)
            bound->x[results[x]][e] *= 1.2 * 0x1p29;
}

static void against_reference(uint64_t seed, int turns, int64_t most)
{
    static const t_how hows[] = {{RT_LAYOUT_CONTIGUOUS, 1, "single", 2},
                                 {RT_LAYOUT_ZIGZAG, 3, "ring", 1},
                                 {RT_LAYOUT_STRIPED, 2, "split", 2},
                                 {RT_LAYOUT_POSITIONS, 4, "pass-q", 1},
                                 {RT_LAYOUT_POSITIONS, 3, "ring", 2}};
    double worst64 = 0, worst32 = 0;
    uint64_t s = seed;
    for (int turn = 0; turn < turns; turn++) {
        if (t_left_out(turn))
            continue;
        rt_problem p = problem_make(&s, turn, most);
        t_tensors t, want, bound;
        inputs_make(&p, 100 + (uint64_t)turn, RT_F32, &t);
        t_tensors_create(&p, &want);
        t_tensors_create(&p, &bound);
        t_reference(&t, &want, &bound);
        char what[96], text[RT_MASK_TEXT];
        for (int h = 0; h < 2; h++) {
            const t_how *how = &hows[(turn + 2 * h) % 5];
            (void)snprintf(what, sizeof what, "turn %d, %.60s, %s", turn, rt_mask_text(text, &p),
                           how->plan);
            run("f64", &t, how);
            t_check_close(&t, &want, &bound, what, &worst64);
        }
        widen(&bound);
        run("f32", &t, &hows[turn % 5]);
        t_check_close(&t, &want, &bound, what, &worst32);
        t_tensors_free(&t);
        t_tensors_free(&want);
        t_tensors_free(&bound);
        rt_problem_reset(&p);
    }
    print_message("# of the bound at most: f64 %.3f, f32 %.3f\n", worst64, worst32);
}

static void f64_and_f32_match_the_triple_loop(void **state)
{
    (void)state;
    against_reference(3, 4 * N_PARTS, 30);
}

static void blocks_and_panels_match_the_triple_loop(void **state)
{
    (void)state;
    against_reference(9, N_PARTS, 420);
}

/* Every block is cut in its own way; whole blocks are empty and full. */
static void large_rectangles_match_the_triple_loop(void **state)
{
    (void)state;
    rt_slice slices[] = {{0, 600, 0, 300, RT_SLICE_FULL},
                         {0, 600, 500, 1100, RT_SLICE_CAUSAL},
                         {600, 1100, 300, 800, RT_SLICE_INV_CAUSAL}};
    rt_problem p = t_problem(2, 1100, 1100, 1, 1, 4, 4, RT_MASK_FULL);
    p.slices = slices;
    p.n_slices = 3;
    p.key_valid = calloc(2 * 1100, 1);
    assert_non_null(p.key_valid);
    memset(p.key_valid, 1, 260);
    memset(p.key_valid + 1100, 1, 1100);
    t_tensors t, want, bound;
    inputs_make(&p, 7, RT_F32, &t);
    t_tensors_create(&p, &want);
    t_tensors_create(&p, &bound);
    t_reference(&t, &want, &bound);
    const t_how how = {RT_LAYOUT_CONTIGUOUS, 1, "single", 2};
    run("f64", &t, &how);
    t_check_close(&t, &want, &bound, "f64", NULL);
    widen(&bound);
    run("f32", &t, &how);
    t_check_close(&t, &want, &bound, "f32", NULL);
    t_tensors_free(&t);
    t_tensors_free(&want);
    t_tensors_free(&bound);
    free(p.key_valid);
}

/* exact is what the referee says, for one plan; and for P = 1 .. 9, every plan and layout gives the same bits. */
static void exact_is_the_same_for_every_plan(void **state)
{
    (void)state;
    uint64_t s = 21;
    for (int turn = 0; turn < 2 * N_PARTS; turn++) {
        if (t_left_out(turn))
            continue;
        rt_problem p = problem_make(&s, turn, 20);
        t_tensors first, again;
        inputs_make(&p, 300 + (uint64_t)turn, RT_BF16, &first);
        t_tensors_create(&p, &again);
        t_copy_inputs(&again, &first);
        double *want[RT_RESULT_COUNT] = {NULL};
        for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++)
            want[t] = calloc((size_t)(t_rows(&p, (rt_tensor_id)t) * t_width(&p, (rt_tensor_id)t)),
                             sizeof(double));
        const referee_inputs in = {&p, {first.x[RT_Q], first.x[RT_K], first.x[RT_V], first.x[RT_DOUT]}};
        (void)referee_results(&in, RT_F32, RT_F32, want);
        run("exact", &first, &(t_how){RT_LAYOUT_CONTIGUOUS, 1, "single", 1});
        char what[160], text[RT_MASK_TEXT];
        for (int t = RT_LSE; t < RT_TENSOR_COUNT; t++) {
            memcpy(again.x[t], want[t],
                   (size_t)(t_rows(&p, (rt_tensor_id)t) * t_width(&p, (rt_tensor_id)t)) * sizeof(double));
            free(want[t]);
        }
        (void)snprintf(what, sizeof what, "turn %d, %.100s: referee", turn, rt_mask_text(text, &p));
        t_check_same(&first, &again, what);
        for (int32_t P = 1; P <= 9; P++) {
            static const t_how hows[] = {{RT_LAYOUT_CONTIGUOUS, 0, "ring", 0},
                                         {RT_LAYOUT_ZIGZAG, 0, "ring", 0},
                                         {RT_LAYOUT_STRIPED, 0, "ring", 0},
                                         {RT_LAYOUT_POSITIONS, 0, "single", 0},
                                         {RT_LAYOUT_POSITIONS, 0, "pass-q", 0}};
            for (int h = P % 2; h < 5; h += turn < N_PARTS ? 1 : 2) {
                t_how how = hows[h];
                how.ranks = P;
                run("exact", &again, &how);
                (void)snprintf(what, sizeof what, "turn %d, %.100s: %s of %d in %s", turn,
                               rt_mask_text(text, &p), how.plan, (int)P, rt_layout_name(how.layout));
                t_check_same(&again, &first, what);
            }
        }
        t_tensors_free(&first);
        t_tensors_free(&again);
        rt_problem_reset(&p);
    }
}

/* NaN and infinities in keys and values reach the rows that see them and no bit of the others. */
static void hidden_slots_reach_nothing(void **state)
{
    (void)state;
    static const char *const ariths[] = {"f64", "f32", "exact"};
    uint64_t s = 33;
    for (int turn = 0; turn < 2 * N_PARTS; turn++) {
        if (t_left_out(turn))
            continue;
        rt_problem p = problem_make(&s, turn, 24);
        const int64_t group = p.heads_q / p.heads_kv, j = t_mask_below(&s, p.seqlen_k), b = p.batch - 1;
        const t_how how = {RT_LAYOUT_POSITIONS, 3, "ring", 1};
        t_tensors clean, dirty;
        inputs_make(&p, 500 + (uint64_t)turn, RT_BF16, &clean);
        t_tensors_create(&p, &dirty);
        t_copy_inputs(&dirty, &clean);
        t_row(&dirty, RT_K, b, j, 1)[2] = turn % 2 == 0 ? T_NAN : T_INF;
        t_row(&dirty, RT_V, b, j, 1)[1] = T_INF;
        for (int a = 0; a < 3; a++) {
            run(ariths[a], &clean, &how);
            run(ariths[a], &dirty, &how);
            bool touched[64] = {false}; /* keys that rows which see j see */
            for (int64_t i = 0; i < p.seqlen_q; i++)
                for (int64_t k = 0; k < p.seqlen_k && t_mask_sees(&p, b, i, j); k++)
                    touched[k] = touched[k] || t_mask_sees(&p, b, i, k);
            for (size_t x = 0; x < sizeof results / sizeof results[0]; x++) {
                const rt_tensor_id id = results[x];
                for (int64_t e = 0; e < t_rows(&p, id) * t_width(&p, id); e++) {
                    const int64_t row = e / t_width(&p, id), h = row % t_heads(&p, id),
                                  pos = row / t_heads(&p, id) % t_length(&p, id),
                                  batch = row / t_heads(&p, id) / t_length(&p, id);
                    const bool key_side = id == RT_DK || id == RT_DV;
                    const bool meets =
                        batch == b &&
                        (key_side ? h == 1 && touched[pos] : h / group == 1 && t_mask_sees(&p, b, pos, j));
                    if (meets)
                        assert_true(isnan(dirty.x[id][e]));
                    else
                        t_assert_bits_eq(dirty.x[id][e], clean.x[id][e]);
                }
            }
        }
        t_tensors_free(&clean);
        t_tensors_free(&dirty);
        rt_problem_reset(&p);
    }
}

/* A query that sees no key: O = +0, L = -infinity, no gradient. */
static void empty_rows_are_zero(void **state)
{
    (void)state;
    static const char *const ariths[] = {"f64", "f32", "exact"};
    for (int kind = 0; kind < 3; kind++) {
        rt_problem p = t_problem(2, 20, 20, 2, 1, 4, 4, RT_MASK_FULL);
        uint8_t valid[40] = {[3] = 1, [4] = 1}, dense[400];
        rt_slice slice = {0, 20, 0, 5, RT_SLICE_CAUSAL};
        memset(dense, 1, sizeof dense);
        memset(dense + 60, 0, 100); /* queries 3 .. 7 */
        p.key_valid = kind == 0 ? valid : NULL;
        p.dense = kind == 1 ? dense : NULL;
        p.slices = kind == 2 ? &slice : NULL;
        p.n_slices = kind == 2;
        int64_t empty = 0;
        for (int a = 0; a < 3; a++) {
            t_tensors t;
            inputs_make(&p, 1, RT_BF16, &t);
            run(ariths[a], &t, &(t_how){RT_LAYOUT_ZIGZAG, 3, "ring", 1});
            for (int64_t b = 0; b < 2; b++)
                for (int64_t i = 0; i < 20; i++) {
                    if (rt_mask_row_count(&p, b, i, 1) > 0)
                        continue;
                    empty++;
                    t_assert_bits_eq(*t_row(&t, RT_LSE, b, i, 1), -T_INF);
                    for (int d = 0; d < 4; d++) {
                        t_assert_bits_eq(t_row(&t, RT_OUT, b, i, 1)[d], 0.0);
                        t_assert_bits_eq(t_row(&t, RT_DQ, b, i, 1)[d], 0.0);
                    }
                }
            t_tensors_free(&t);
        }
        assert_int_equal(empty, kind == 0 ? 60 : kind == 1 ? 30 : 90);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f64_and_f32_match_the_triple_loop),
        cmocka_unit_test(blocks_and_panels_match_the_triple_loop),
        cmocka_unit_test(large_rectangles_match_the_triple_loop),
        cmocka_unit_test(exact_is_the_same_for_every_plan),
        cmocka_unit_test(hidden_slots_reach_nothing),
        cmocka_unit_test(empty_rows_are_zero),
    };
    return cmocka_run_group_tests_name("mask_run", tests, NULL, t_teardown_memory);
}
