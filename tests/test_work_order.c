/* Messages are started before a step's tiles, and of a rank the longest kernel call runs first, of a call the longest tile: in
 * every plan, forward and backward, in what is printed, and in the trace of a run.  Run as one process and under MPI. */
#include "job.h"
#include "runner.h"

#include <ringtrue/run.h>

#include "schedules.h"

static const char *const more[] = {
    "ring:backward=own-last", "ring:join=end",       "ring:gradient=end",
    "double-ring:window=2",   "all-gather:stride=1", "all-gather:form=chunks",
    "all-gather:form=rotate", "hybrid:ulysses=2",    "hybrid:ulysses=3,order=ring-low",
    "groupcast:stages=2",     "decode:join=a2a",     "prefill:pass=pass-q,chunk=3",
    "ulysses:heads=pad"};
enum { MORE = sizeof more / sizeof more[0] };

/* Planner or variant number n; NULL after the last. */
static const char *plan_named(int64_t n)
{
    const rt_planner *list = rt_planners();
    int64_t planners = 0;
    while (list[planners].name != NULL)
        planners++;
    return n < planners ? list[n].name : n < planners + MORE ? more[n - planners] : NULL;
}

static int64_t work(const rt_tile *t)
{
    return t->pairs * (t->q.head1 - t->q.head0);
}

/* Pairs of the kernel call that tile number i of a step belongs to. */
static int64_t call_work(const rt_pass *pass, const rt_step *step, int64_t i)
{
    int64_t sum = 0;
    for (int64_t k = step->tile0; k < step->tile1; k++)
        if (pass->tiles[k].rank == pass->tiles[i].rank && pass->tiles[k].call == pass->tiles[i].call)
            sum += work(&pass->tiles[k]);
    return sum;
}

/* Whether tile b may follow tile a of the same rank and step; *compared counts where one is longer. */
static bool follows(const rt_pass *pass, const rt_step *step, int64_t a, int64_t b, int64_t *compared)
{
    const rt_tile *x = &pass->tiles[a], *y = &pass->tiles[b];
    const int64_t before = x->call == y->call ? work(x) : call_work(pass, step, a),
                  after = x->call == y->call ? work(y) : call_work(pass, step, b);
    *compared += before > after;
    return before >= after && (y->call == x->call || y->call == x->call + 1);
}

static void longest_first(const rt_pass *pass, const char *name, int64_t *compared)
{
    for (int64_t t = 0; t < pass->n_steps; t++) {
        const rt_step *step = &pass->steps[t];
        for (int64_t i = step->tile0; i < step->tile1; i++) {
            const bool first = i == step->tile0 || pass->tiles[i - 1].rank != pass->tiles[i].rank;
            if (i > step->tile0 && pass->tiles[i - 1].rank > pass->tiles[i].rank)
                fail_msg("%s, step %lld: ranks are not in order", name, (long long)t);
            if (first ? pass->tiles[i].call != 0 : !follows(pass, step, i - 1, i, compared))
                fail_msg("%s, step %lld: tile %lld of rank %d comes too late", name, (long long)t,
                         (long long)i, (int)pass->tiles[i].rank);
        }
    }
}

static void every_plan_lists_the_longest_first(void **state)
{
    (void)state;
    int64_t compared[2] = {0, 0}, made = 0;
    if (size > 1)
        skip();
    for (int round = 0; round < 60; round++) {
        rt_problem p;
        uint8_t dense[41 * 41], valid[2 * 41];
        int64_t cu[2][4];
        rt_layout l;
        rt_context ctx = {0};
        const char *name;
        const int32_t ranks = problem_vary(&p, round, cu, valid, dense);
        t_assert_ok(
            &ctx, rt_layout_create(&ctx, &p, (rt_layout_kind)(round % 3), RT_REMAINDER_SPREAD, ranks, &l));
        for (int64_t n = 0; (name = plan_named(n)) != NULL; n++) {
            rt_plan plan;
            const rt_status st = rt_plan_create(&ctx, name, &p, &l, &plan);
            if (st == RT_ERR_ARG && strchr(name, ':') != NULL)
                continue; /* a window or a group that does not divide P */
            t_assert_ok(&ctx, st);
            longest_first(&plan.forward, name, &compared[0]);
            longest_first(&plan.backward, name, &compared[1]);
            rt_plan_reset(&plan);
            made++;
        }
        rt_layout_reset(&l);
    }
    print_message("%lld plans; a longer one came first %lld times forward, %lld backward\n",
                  (long long)made, (long long)compared[0], (long long)compared[1]);
    assert_true(compared[0] > 1000 && compared[1] > 1000);
}

/* ---- print ------------------------------------------------------------------------------------------- */

/* The text says so, and its rows are in that order: the moves of a step, then the tiles. */
static void the_text_says_so(void **state)
{
    (void)state;
    if (size > 1)
        skip();
    const rt_problem p = t_problem(1, 24, 24, 2, 1, 4, 4, RT_MASK_CAUSAL);
    rt_layout l;
    rt_plan plan;
    rt_context ctx = {0};
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    const rt_plan_print_options o = {.verified = false};
    assert_non_null(f);
    t_assert_ok(&ctx, rt_layout_create(&ctx, &p, RT_LAYOUT_CONTIGUOUS, RT_REMAINDER_SPREAD, 4, &l));
    t_assert_ok(&ctx, rt_plan_create(&ctx, "groupcast:stages=3", &p, &l, &plan));
    t_assert_ok(&ctx, rt_plan_print(&ctx, f, &plan, &p, &l, &o));
    assert_int_equal(fclose(f), 0);
    assert_non_null(strstr(text,
                           "moves are started before the tiles of their step, of which each rank's longest "
                           "come first"));
    char pass[16], kind[8], was_pass[16] = "";
    long long step, was_step = -1;
    bool tile_seen = false;
    int64_t rows = 0, after = 0;
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n') + 1) {
        if (sscanf(line, " %15s %lld %7s", pass, &step, kind) != 3 || line[0] == '#')
            continue;
        tile_seen = tile_seen && strcmp(pass, was_pass) == 0 && step == was_step;
        assert_false(tile_seen && strcmp(kind, "move") == 0);
        after += strcmp(kind, "tile") == 0 && strcmp(pass, was_pass) == 0 && step == was_step && !tile_seen;
        tile_seen = tile_seen || strcmp(kind, "tile") == 0;
        (void)snprintf(was_pass, sizeof was_pass, "%s", pass);
        was_step = step;
        rows++;
    }
    assert_int_equal(rows, plan.forward.n_tiles + plan.forward.n_moves + plan.backward.n_tiles +
                               plan.backward.n_moves);
    assert_true(after >= 4); /* steps in which tiles follow moves */
    free(text);
    rt_plan_reset(&plan);
    rt_layout_reset(&l);
}

/* ---- trace ------------------------------------------------------------------------------------------- */

static void load(void *arg, rt_tensor_id id, int64_t b, int64_t pos, int64_t h, double *row)
{
    const t_tensors *t = arg;
    memcpy(row, t_row(t, id, b, pos, h), (size_t)t_width(t->p, id) * sizeof *row);
}

static void store(void *arg, rt_tensor_id id, int32_t rank, int64_t slot, int64_t b, int64_t pos, int64_t h,
                  const double *row)
{
    (void)arg, (void)id, (void)rank, (void)slot, (void)b, (void)pos, (void)h, (void)row;
}

/* The number in its pass of a tile that an event counts among those of its rank; -1: there is none. */
static int64_t number_of(const rt_pass *pass, const rt_event *e)
{
    int64_t left = e->index;
    for (int64_t i = 0; i < pass->n_tiles; i++)
        if (pass->tiles[i].rank == e->rank && left-- == 0)
            return i;
    return -1;
}

/* What is wrong in the events of this process, or NULL.  Events stand in the order in which they ended. */
static const char *trace_fault(const rt_trace *trace, const rt_plan *plan, int64_t overlapped[2])
{
    const rt_pass *passes[2] = {&plan->forward, &plan->backward};
    int64_t compared = 0, mine[2] = {0, 0}, ran[2] = {0, 0};
    for (int back = 0; back < 2; back++)
        for (int64_t i = 0; i < passes[back]->n_tiles; i++)
            mine[back] += rt_comm_owner(job, passes[back]->tiles[i].rank, plan->ranks) == me;
    for (int64_t e = 0; e < trace->count; e++) {
        const rt_event *x = &trace->events[e];
        const rt_pass *pass = passes[x->backward];
        bool posted = false;
        if (x->kind != RT_EVENT_TILE)
            continue;
        ran[x->backward]++;
        const rt_event *last = NULL; /* the tile before it */
        for (int64_t k = 0; k < trace->count; k++) {
            const rt_event *y = &trace->events[k];
            if (y->backward != x->backward || y->step != x->step)
                continue;
            if (y->kind == RT_EVENT_TILE && k < e)
                last = y;
            if (y->kind == RT_EVENT_POST && !(y->end <= x->begin))
                return "a tile began before the messages of its step were posted";
            if ((y->kind == RT_EVENT_SEND || y->kind == RT_EVENT_RECEIVE) && !(y->begin <= x->begin))
                return "a message was started after a tile";
            posted = posted || y->kind == RT_EVENT_POST;
        }
        overlapped[x->backward] += posted;
        if (last == NULL)
            continue;
        const int64_t before = number_of(pass, last), number = number_of(pass, x);
        if (!(0 <= before && before < number && last->end <= x->begin))
            return "tiles did not run in the plan's order";
        if (last->rank == x->rank && !follows(pass, &pass->steps[x->step], before, number, &compared))
            return "a shorter tile ran first";
    }
    return ran[0] == mine[0] && ran[1] == mine[1] ? NULL : "tiles are missing";
}

static void the_trace_shows_it(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 48, 48, 6, 3, 4, 4, RT_MASK_CAUSAL);
    const char *name;
    t_tensors t;
    int64_t overlapped[2] = {0, 0};
    rt_context ctx = {0};
    t_tensors_create(&p, &t);
    t_fill(&t, RT_FAMILY_GAUSSIAN, 5);
    for (int64_t n = 0; (name = plan_named(n)) != NULL; n++) {
        rt_layout l;
        rt_plan plan;
        rt_trace trace = {0};
        t_assert_ok(&ctx, rt_layout_create(&ctx, &p, n % 2 == 0 ? RT_LAYOUT_ZIGZAG : RT_LAYOUT_CONTIGUOUS,
                                           RT_REMAINDER_SPREAD, 6, &l));
        t_assert_ok(&ctx, rt_plan_create(&ctx, name, &p, &l, &plan));
        const rt_run_io io = {.load = load,
                              .store = store,
                              .arg = &t,
                              .backward = true,
                              .result = RT_F64,
                              .lse_result = RT_F64,
                              .trace = &trace};
        const rt_status st = rt_run(&ctx, job, &p, &l, &plan, rt_arithmetic_find("f64"), &io, NULL);
        const char *fault = st == RT_OK ? trace_fault(&trace, &plan, overlapped) : ctx.message;
        uint64_t bad = fault != NULL;
        if (fault != NULL)
            print_error("%s, process %d of %d: %s\n", name, (int)me, (int)size, fault);
        t_assert_ok(&ctx, rt_comm_sum_words(&ctx, job, &bad, 1)); /* all fail together */
        assert_true(bad == 0);
        rt_trace_reset(&trace);
        rt_plan_reset(&plan);
        rt_layout_reset(&l);
    }
    t_tensors_free(&t);
    uint64_t words[2] = {(uint64_t)overlapped[0], (uint64_t)overlapped[1]};
    t_assert_ok(&ctx, rt_comm_sum_words(&ctx, job, words, 2));
    if (me == 0)
        print_message("%llu tiles forward and %llu backward ran behind messages\n",
                      (unsigned long long)words[0], (unsigned long long)words[1]);
    if (size > 1)
        assert_true(words[0] > 200 && words[1] > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_plan_lists_the_longest_first),
                                       cmocka_unit_test(the_text_says_so),
                                       cmocka_unit_test(the_trace_shows_it)};
    return cmocka_run_group_tests_name("work order", tests, job_setup, job_teardown);
}
