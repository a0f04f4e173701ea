/* N processes give the bits of one, agree on what they were given, and fail together. */
#include "job.h"
#include "runner.h"

#include <omp.h>

#include "arithmetic/ops.h"
#include "run/comm.h"
#include "run/ring_rate.h"

/* All processes learn whether all passed, and only then assert: nobody waits for one that has left. */
static void assert_everywhere(bool ok, const char *what)
{
    rt_context ctx = {0};
    uint64_t bad = ok ? 0 : 1;
    if (!ok)
        print_error("process %d of %d: %s\n", (int)me, (int)size, what);
    const rt_status st = rt_comm_sum_words(&ctx, job, &bad, 1);
    t_assert_ok(&ctx, st);
    if (bad > 0)
        fail_msg("%s: %d processes failed", what, (int)bad);
}

static void fingerprints(const t_tensors *t, uint64_t words[2 * RT_RESULT_COUNT])
{
    const rt_problem *p = t->p;
    for (int id = RT_LSE; id < RT_RESULT_COUNT; id++) {
        rt_fingerprint f = {{0, 0}};
        for (int64_t b = 0; b < t_batch(p, (rt_tensor_id)id) && t_rows(p, (rt_tensor_id)id) > 0; b++)
            for (int64_t i = 0; i < t_length(p, (rt_tensor_id)id); i++)
                for (int64_t h = 0; h < t_heads(p, (rt_tensor_id)id); h++) {
                    const int64_t row =
                        (b * t_length(p, (rt_tensor_id)id) + i) * t_heads(p, (rt_tensor_id)id) + h;
                    if (t->stored[id][row] == 1)
                        rt_fingerprint_row(&f, (rt_tensor_id)id, b, i, h, RT_F64,
                                           t_row(t, (rt_tensor_id)id, b, i, h),
                                           t_width(p, (rt_tensor_id)id));
                }
        words[2 * id] = f.lane[0];
        words[2 * id + 1] = f.lane[1];
    }
}

/* Everything that this process stored is what it gets alone, bit for bit; together the processes stored
 * every row once, which the fingerprints' sum proves. */
static void same_bits(const rt_problem *p, const t_how *how, bool must_send)
{
    rt_context ctx = {0};
    t_tensors t, alone;
    t_tensors_create(p, &t);
    t_tensors_create(p, &alone);
    t_fill(&t, RT_FAMILY_GAUSSIAN, 31);
    t_fill(&alone, RT_FAMILY_GAUSSIAN, 31);
    rt_run_stats stats = {0};
    const rt_status st_alone = t_run_status(&ctx, NULL, &alone, how, true, NULL);
    const rt_status st = t_run_status(&ctx, job, &t, how, true, &stats);
    bool ok = st == RT_OK && st_alone == RT_OK;
    if (!ok)
        print_error("%s\n", ctx.message);
    for (int id = RT_LSE; id < RT_RESULT_COUNT && ok; id++)
        for (int64_t r = 0; r < t_rows(p, (rt_tensor_id)id); r++)
            for (int64_t d = 0; d < t_width(p, (rt_tensor_id)id) && t.stored[id][r] > 0; d++)
                ok = ok && t_same(t.x[id][r * t_width(p, (rt_tensor_id)id) + d],
                                  alone.x[id][r * t_width(p, (rt_tensor_id)id) + d]);
    uint64_t mine[2 * RT_RESULT_COUNT] = {0}, want[2 * RT_RESULT_COUNT] = {0},
                      traffic[2] = {stats.messages, stats.bytes_sent};
    fingerprints(&t, mine);
    fingerprints(&alone, want);
    const rt_status sum = rt_comm_sum_words(&ctx, job, mine, 2 * RT_RESULT_COUNT);
    const rt_status sent = rt_comm_sum_words(&ctx, job, traffic, 2);
    ok = ok && sum == RT_OK && sent == RT_OK && memcmp(mine, want, sizeof mine) == 0;
    ok = ok && (size > 1 || traffic[0] == 0) && (traffic[0] > 0) == (traffic[1] > 0);
    ok = ok && (size == 1 || !must_send ||
                traffic[0] > 0); /* the few tokens of a short problem may share a process */
    t_tensors_free(&t);
    t_tensors_free(&alone);
    assert_everywhere(ok, how->plan);
}

static void any_number_of_processes_gives_the_same_bits(void **state)
{
    (void)state;
    int64_t cu[] = {0, 5, 5, 31, 47, 67};
    rt_problem documents = t_problem(1, 67, 67, 4, 2, 8, 6, RT_MASK_CAUSAL);
    documents.documents = 5;
    documents.cu_q = documents.cu_k = cu;
    const rt_problem problems[] = {t_problem(2, 67, 67, 4, 2, 8, 6, RT_MASK_CAUSAL),
                                   t_problem(1, 29, 67, 2, 2, 8, 6, RT_MASK_FULL), documents,
                                   t_problem(1, 4, 3, 2, 1, 3, 3, RT_MASK_CAUSAL_BOTTOM_RIGHT)};
    const rt_layout_kind layouts[] = {RT_LAYOUT_CONTIGUOUS, RT_LAYOUT_ZIGZAG, RT_LAYOUT_STRIPED,
                                      RT_LAYOUT_POSITIONS};
    const char *const plans[] = {"ring", "single", "split", "pass-q"};
    const int32_t ranks[] = {size, 5, 8};
    for (int x = 0; x < 4; x++)
        for (int y = 0; y < 4; y++) {
            /* One case in which the processes differ in their number of threads. */
            const t_how how = {layouts[(x + y) % 4], ranks[(x + 2 * y) % 3], plans[y],
                               x == 0 && y == 0 ? 1 + me % 2 : 1};
            same_bits(&problems[x], &how, x < 3);
        }
}

/* Sums over queries, batches and heads that different processes hold. */
static void scores_have_the_same_gradients_over_processes(void **state)
{
    (void)state;
    double sink[4] = {0.5, -1, 2, 0.25}, slopes[4] = {0.5, 0.25, 0.125, 0.0625};
    const char *const shapes[] = {"bhss", "11ss", "111s", "b1ss"};
    const char *const plans[] = {"ring", "pass-q", "split", "single"};
    for (int x = 0; x < 4; x++) {
        rt_problem p = t_problem(2, 37, 37, 4, 2, 6, 5, RT_MASK_CAUSAL);
        p.softcap = 2;
        p.sink = sink;
        p.alibi = slopes;
        p.dropout = 0.25;
        p.dropout_seed = 3;
        bool ok = rt_bias_shape_parse(shapes[x], &p, p.bias_shape);
        const int64_t n = p.bias_shape[0] * p.bias_shape[1] * p.bias_shape[2] * p.bias_shape[3];
        p.bias = calloc((size_t)n, sizeof *p.bias);
        ok = ok && p.bias != NULL;
        for (int64_t e = 0; e < n && ok; e++)
            p.bias[e] = (double)(e * 7 % 13) / 8;
        assert_everywhere(ok, "memory");
        const t_how how = {RT_LAYOUT_POSITIONS, x % 2 == 0 ? 5 : 8, plans[x], 1};
        same_bits(&p, &how, false);
        free(p.bias);
    }
}

/* The same bits whichever way the messages take, and in however many pieces. */
static void every_transport_gives_the_same_bits(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 41, 41, 4, 2, 8, 6, RT_MASK_CAUSAL);
    const char *const plans[] = {"ring", "single", "split", "pass-q"};
    const int64_t pieces[] = {RT_COMM_PIECE, 1000, 24};
    for (int y = 0; y < 4; y++)
        for (int32_t ranks = size; ranks <= size + 3; ranks += 3)
            for (int t = 0; t < 3; t++)
                for (int k = 0; k < 3; k++) {
                    const t_how how = {RT_LAYOUT_POSITIONS, ranks, plans[y], 1};
                    t_run_with((rt_transport)t, NULL);
                    job->piece = pieces[k];
                    same_bits(&p, &how, false);
                }
    job->piece = RT_COMM_PIECE;
    t_run_with(RT_TRANSPORT_AUTO, NULL);
}

/* Which way: what is forced; by itself, all-to-all for a step of messages between all ranks, all-gather where
 * each of them sends the same to all. */
static void statistics_say_which_way_messages_took(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 40, 40, 2, 2, 4, 4, RT_MASK_FULL);
    t_tensors t;
    t_tensors_create(&p, &t);
    t_fill(&t, RT_FAMILY_GAUSSIAN, 3);
    for (int y = 0; y < 3; y++) {
        rt_context ctx = {0};
        rt_run_stats stats = {0};
        const t_how how = {RT_LAYOUT_CONTIGUOUS, 5, "pass-q", 1};
        t_run_with((rt_transport)y, NULL);
        const rt_status st = t_run_status(&ctx, job, &t, &how, true, &stats);
        /* each pass: queries go out beside tiles, and results come home in a step of their own */
        const int64_t want[3][3] = {{2, 2, 0}, {4, 0, 0}, {0, 2, 2}};
        bool ok = st == RT_OK && stats.comm_seconds >= 0 && stats.hidden_seconds >= 0 &&
                  stats.hidden_seconds <= stats.comm_seconds && stats.compute_seconds > 0;
        for (int w = 0; w < 3; w++)
            ok = ok && stats.steps[w] == (size > 1 ? want[y][w] : 0);
        assert_everywhere(ok, rt_transport_name((rt_transport)y));
    }
    t_run_with(RT_TRANSPORT_AUTO, NULL);
    t_tensors_free(&t);
}

/* An event for each tile of this process and each message, in an order that makes sense: messages are posted
 * before the first tile of their step begins and have come before anything lands. */
static void the_trace_shows_messages_before_tiles(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 60, 60, 2, 2, 8, 8, RT_MASK_FULL);
    t_tensors t;
    t_tensors_create(&p, &t);
    t_fill(&t, RT_FAMILY_GAUSSIAN, 3);
    rt_trace trace = {0}, all = {0};
    rt_context ctx = {0};
    rt_run_stats stats = {0};
    const t_how how = {RT_LAYOUT_CONTIGUOUS, 6, "ring", 1};
    t_run_with(RT_TRANSPORT_AUTO, &trace);
    bool ok = t_run_status(&ctx, job, &t, &how, true, &stats) == RT_OK;
    t_run_with(RT_TRANSPORT_AUTO, NULL);
    int64_t count[RT_EVENT_COUNT] = {0}, bytes = 0, step_bytes = 0;
    double posted = 0, landed = 0;
    for (int64_t i = 0; i < trace.count && ok; i++) {
        const rt_event *e = &trace.events[i];
        count[e->kind]++;
        ok = e->process == me && 0 <= e->begin && e->begin <= e->end && e->end <= stats.seconds;
        bytes += e->kind == RT_EVENT_SEND ? e->bytes : 0;
        step_bytes += e->kind == RT_EVENT_STEP ? e->bytes : 0;
        if (e->kind == RT_EVENT_POST)
            posted = e->end;
        if (e->kind == RT_EVENT_TILE)
            ok = ok && e->begin >= posted && e->begin >= landed && e->pairs == 2 * 100;
        if (e->kind == RT_EVENT_LAND)
            landed = e->end;
        if (e->kind == RT_EVENT_RECEIVE || e->kind == RT_EVENT_SEND)
            ok = ok && e->begin <= posted && e->end >= landed && e->index >= 0;
    }
    uint64_t words[3] = {(uint64_t)count[RT_EVENT_TILE], (uint64_t)count[RT_EVENT_SEND],
                         (uint64_t)count[RT_EVENT_RECEIVE]};
    ok = rt_comm_sum_words(&ctx, job, words, 3) == RT_OK && ok;
    ok = ok && words[0] == 72 && words[1] == words[2] && count[RT_EVENT_STEP] == 13;
    /* every process sends what its last rank passes on: 5 shards, then 5 again with 6 gradients */
    ok = ok && words[1] == (size > 1 ? (uint64_t)(5 + 5 + 6) * (uint64_t)size : 0);
    ok = ok && (uint64_t)bytes == stats.bytes_sent && (uint64_t)step_bytes == stats.bytes_sent;
    ok = rt_trace_gather(&ctx, job, &trace, &all) == RT_OK && ok;
    uint64_t n = (uint64_t)trace.count;
    ok = rt_comm_sum_words(&ctx, job, &n, 1) == RT_OK && ok;
    ok = ok && (uint64_t)all.count == (me == 0 ? n : 0);
    for (int64_t i = 1; i < all.count; i++)
        ok = ok && all.events[i - 1].process <= all.events[i].process;
    rt_trace_reset(&trace);
    rt_trace_reset(&all);
    t_tensors_free(&t);
    assert_everywhere(ok, "trace");
}

static bool ordered(const rt_quartiles *x)
{
    return x->low > 0 && x->low <= x->median && x->median <= x->high;
}

static void the_rate_of_a_ring_is_measured(void **state)
{
    (void)state;
    rt_context ctx = {0};
    rt_ring_rate rate = {0};
    const rt_status st = rt_ring_rate_measure(&ctx, job, 3000, 1, 2, &rate);
    bool ok = size > 1 ? st == RT_OK : st == RT_ERR_ARG && strstr(ctx.message, "mpirun -n 2") != NULL;
    if (size > 1)
        ok = ok && rate.bytes == 3072 && rate.hops == 2 * 2 * (256 - 6) && ordered(&rate.plain) &&
             ordered(&rate.step) && ordered(&rate.ratio);
    assert_everywhere(ok, "ring rate");
}

static void different_problems_are_refused_by_all(void **state)
{
    (void)state;
    rt_problem p = t_problem(1, 12, 12, 2, 1, 4, 4, RT_MASK_CAUSAL);
    if (me == size - 1)
        p.scale *= 2; /* one process was started with another flag */
    p.scale_kind = RT_SCALE_F64;
    t_tensors t;
    t_tensors_create(&p, &t);
    rt_context ctx = {0};
    const t_how how = {RT_LAYOUT_CONTIGUOUS, 5, "ring", 0};
    const rt_status st = t_run_status(&ctx, job, &t, &how, true, NULL);
    bool ok = size == 1 ? st == RT_OK : st == RT_ERR_MPI && strstr(ctx.message, "same problem") != NULL;
    for (int64_t r = 0; r < t_rows(&p, RT_OUT) && size > 1; r++)
        ok = ok && t.stored[RT_OUT][r] == 0;
    t_tensors_free(&t);
    assert_everywhere(ok, "different problems");
}

static void different_layouts_plans_and_directions_are_refused_by_all(void **state)
{
    (void)state;
    const rt_problem p = t_problem(1, 12, 12, 2, 1, 4, 4, RT_MASK_CAUSAL);
    const bool odd = me == size - 1;
    t_tensors t;
    t_tensors_create(&p, &t);
    const struct {
        t_how how;
        bool backward;
        const char *what;
    } cases[] = {
        {{odd ? RT_LAYOUT_ZIGZAG : RT_LAYOUT_CONTIGUOUS, 5, "ring", 0}, true, "same layout"},
        {{RT_LAYOUT_CONTIGUOUS, odd ? 1 : 5, "ring", 0},
         true,
         "same layout"}, /* fewer ranks than processes, in one */
        {{RT_LAYOUT_CONTIGUOUS, 5, odd ? "single" : "ring", 0}, true, "same plan"},
        {{RT_LAYOUT_CONTIGUOUS, 5, "ring", 0}, !odd, "same arithmetic"},
    };
    for (int x = 0; x < 4; x++) {
        rt_context ctx = {0};
        const rt_status st = t_run_status(&ctx, job, &t, &cases[x].how, cases[x].backward, NULL);
        const bool ok =
            size == 1 ? st == RT_OK : st == RT_ERR_MPI && strstr(ctx.message, cases[x].what) != NULL;
        assert_everywhere(ok, cases[x].what);
    }
    t_tensors_free(&t);
}

static void more_processes_than_ranks_is_refused_by_all(void **state)
{
    (void)state;
    if (size == 1)
        return;
    const rt_problem p = t_problem(1, 12, 12, 2, 1, 4, 4, RT_MASK_CAUSAL);
    t_tensors t;
    t_tensors_create(&p, &t);
    rt_context ctx = {0};
    const t_how how = {RT_LAYOUT_CONTIGUOUS, size - 1, "ring", 0};
    const rt_status st = t_run_status(&ctx, job, &t, &how, true, NULL);
    char said[64];
    (void)snprintf(said, sizeof said, "%d processes for %d plan ranks", (int)size, (int)size - 1);
    t_tensors_free(&t);
    assert_everywhere(st == RT_ERR_ARG && strstr(ctx.message, said) != NULL, said);
}

/* ---- one process fails ------------------------------------------------------------------------------- */

static int32_t failing; /* this process fails .. */
static int calls_left;  /* .. at the call after so many */

static rt_status fail_now(rt_context *ctx, const char *what)
{
    if (me != failing || calls_left-- > 0)
        return RT_OK;
    return rt_fail(ctx, RT_ERR_NOMEM, "process %d: no memory for a %s tile", (int)me, what);
}

static rt_status failing_forward(rt_context *ctx, const rt_tile_data *t)
{
    RT_TRY(fail_now(ctx, "forward"));
    return rt_arithmetic_f64.forward(ctx, t);
}

static rt_status failing_backward(rt_context *ctx, const rt_tile_data *t)
{
    RT_TRY(fail_now(ctx, "backward"));
    return rt_arithmetic_f64.backward(ctx, t);
}

static void load_row(void *arg, rt_tensor_id id, int64_t b, int64_t pos, int64_t h, double *row)
{
    const rt_problem *p = arg;
    rt_generate_row(RT_FAMILY_GAUSSIAN, 1, id, RT_F64, b, pos, h, t_width(p, id), t_length(p, id), row);
}

static void store_nothing(void *arg, rt_tensor_id id, int32_t r, int64_t slot, int64_t b, int64_t pos,
                          int64_t h, const double *row)
{
    (void)arg, (void)id, (void)r, (void)slot, (void)b, (void)pos, (void)h, (void)row;
}

/* Whichever process fails, at whichever tile: all return its status and its words, and nobody hangs. */
static void failure_of_one_process_is_the_failure_of_all(void **state)
{
    (void)state;
    rt_problem p = t_problem(1, 20, 20, 2, 1, 4, 4, RT_MASK_FULL);
    const t_how how = {RT_LAYOUT_CONTIGUOUS, 5, "ring", 0};
    rt_arithmetic_ops ops = rt_arithmetic_f64;
    ops.forward = failing_forward;
    ops.backward = failing_backward;
    rt_context ctx = {0};
    rt_layout l;
    rt_plan plan;
    t_assert_ok(&ctx, t_layout_create(&ctx, &p, &how, &l));
    t_assert_ok(&ctx, t_plan_create(&ctx, &p, &l, "ring", &plan));
    const rt_run_io io = {.load = load_row, .store = store_nothing, .arg = &p, .backward = true};
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    for (failing = 0; failing < size; failing++)
        for (int at = 0; at < 10; at += 3) { /* a process has 5 tiles or more in each pass */
            memset(&ctx, 0, sizeof ctx);
            calls_left = at;
            const rt_status st = rt_run(&ctx, job, &p, &l, &plan, &ops, &io, NULL);
            char said[64];
            (void)snprintf(said, sizeof said, "process %d: no memory for a ", (int)failing);
            assert_everywhere(st == RT_ERR_NOMEM && strstr(ctx.message, said) == ctx.message, said);
        }
    omp_set_num_threads(threads);
    rt_plan_reset(&plan);
    rt_layout_reset(&l);
}

/* Process 0 has the whole plan, the others what they run or more: the tiles of all are told from others. */
static void parts_of_plans_are_held_against_the_whole(void **state)
{
    (void)state;
    rt_problem p = t_problem(1, 20, 20, 5, 1, 4, 4, RT_MASK_CAUSAL);
    const t_how how = {RT_LAYOUT_CONTIGUOUS, 5, "ulysses", 0};
    const rt_run_io io = {.load = load_row, .store = store_nothing, .arg = &p, .backward = true};
    rt_context ctx = {0};
    rt_layout l;
    t_assert_ok(&ctx, t_layout_create(&ctx, &p, &how, &l));
    const rt_ranks mine = rt_comm_ranks(job, 5), all = {0, 5}, next = {mine.first + 1, mine.end};
    enum { SOUND, LARGER, TOO_SMALL, NO_WHOLE, SPOILT, CASES };
    for (int x = 0; x < CASES; x++) {
        const bool odd = me == size - 1;
        rt_plan plan;
        memset(&ctx, 0, sizeof ctx);
        if (me == 0 && !(x == NO_WHOLE || (x == TOO_SMALL && size == 1)))
            t_assert_ok(&ctx, rt_plan_create(&ctx, "ulysses", &p, &l, &plan));
        else
            t_assert_ok(&ctx, rt_plan_create_part(&ctx, NULL, "ulysses", &p, &l,
                                                  x == LARGER             ? all
                                                  : x == TOO_SMALL && odd ? next
                                                                          : mine,
                                                  &plan));
        if (x == SPOILT && odd)
            plan.backward.tiles[plan.backward.n_tiles - 1].kv_buf++;
        const rt_status st = rt_run(&ctx, job, &p, &l, &plan, &rt_arithmetic_f64, &io, NULL);
        const char *say = x == TOO_SMALL && size > 1        ? "it needs those that it runs"
                          : x == TOO_SMALL || x == NO_WHOLE ? "it needs the whole, to prove it"
                          : size == 1                       ? "reads stale data"
                                                            : "not given the same plan";
        const rt_status want = x == SOUND || x == LARGER         ? RT_OK
                               : x == TOO_SMALL || x == NO_WHOLE ? RT_ERR_ARG
                               : size == 1                       ? RT_ERR_FORMAT
                                                                 : RT_ERR_MPI;
        assert_everywhere(st == want && (want == RT_OK || strstr(ctx.message, say) != NULL), say);
        rt_plan_reset(&plan);
    }
    rt_layout_reset(&l);
}

/* Whole exchanges beside which some ranks compute and others do not: a process that holds only its own tiles chooses the same way of
 * transport as the others, or all would wait for ever. */
static void all_choose_one_way_where_only_some_compute(void **state)
{
    (void)state;
    int64_t cu[] = {0, 16, 16, 48}; /* ranks whose part of a document has been computed wait for others */
    rt_problem p = t_problem(1, 48, 48, 2, 1, 4, 4, RT_MASK_CAUSAL);
    p.documents = 3;
    p.cu_q = p.cu_k = cu;
    const rt_run_io io = {.load = load_row, .store = store_nothing, .arg = &p, .backward = true};
    static const char *const plans[] = {"prefill:pass=pass-q,chunk=3", "prefill:pass=pass-kv,chunk=3"};
    bool ok = true;
    for (size_t y = 0; y < sizeof plans / sizeof plans[0]; y++)
        for (int kind = 0; kind < 2; kind++) {
            const rt_layout_options how = {.name = kind == 0 ? "contiguous" : "striped:stripe=3"};
            rt_context ctx = {0};
            rt_layout l;
            rt_plan plan;
            rt_run_stats stats = {0};
            t_assert_ok(&ctx, rt_layout_make(&ctx, &p, &how, 6, &l));
            t_assert_ok(&ctx, me == 0 ? rt_plan_create(&ctx, plans[y], &p, &l, &plan)
                                      : rt_plan_create_part(&ctx, NULL, plans[y], &p, &l,
                                                            rt_comm_ranks(job, 6), &plan));
            ok = rt_run(&ctx, job, &p, &l, &plan, &rt_arithmetic_f64, &io, &stats) == RT_OK && ok;
            int64_t mine[3], root[3];
            for (int w = 0; w < 3; w++)
                mine[w] = root[w] = (int64_t)stats.steps[w];
            ok = rt_comm_broadcast(&ctx, job, root, (int64_t)sizeof root) == RT_OK && ok;
            ok = memcmp(mine, root, sizeof mine) == 0 && ok;
            rt_plan_reset(&plan);
            rt_layout_reset(&l);
        }
    assert_everywhere(ok, "one way");
}

static void agreement_takes_the_lowest_failure(void **state)
{
    (void)state;
    rt_context ctx = {0};
    bool ok = rt_comm_agree(&ctx, job, RT_OK) == RT_OK && ctx.message[0] == '\0';
    /* every process but the first fails, each with its own words */
    rt_status mine = RT_OK;
    if (me > 0)
        mine = rt_fail(&ctx, me == 1 ? RT_ERR_IO : RT_ERR_FORMAT, "process %d says so", (int)me);
    const rt_status st = rt_comm_agree(&ctx, job, mine);
    ok = ok && (size == 1 ? st == RT_OK : st == RT_ERR_IO && strcmp(ctx.message, "process 1 says so") == 0);
    const rt_status blank =
        rt_comm_agree(NULL, job, me == 0 ? RT_ERR_IO : RT_OK); /* a context is not needed */
    assert_everywhere(ok && blank == RT_ERR_IO, "agreement");
}

static void gather_and_broadcast_carry_bytes(void **state)
{
    (void)state;
    rt_context ctx = {0};
    unsigned char mine[16], shared[9];
    memset(mine, 'a' + me, sizeof mine);
    memset(shared, me == 0 ? 7 : 0, sizeof shared);
    void *all = NULL;
    int64_t *offsets = NULL, at = 0;
    const rt_status st = rt_comm_gather(&ctx, job, mine, 3 * me, &all, &offsets); /* process 0 gives none */
    bool ok = st == RT_OK && (all != NULL) == (me == 0);
    for (int32_t r = 0; r < size && ok && me == 0; r++) {
        ok = offsets[r] == at;
        for (int64_t x = 0; x < 3 * r && ok; x++)
            ok = ((unsigned char *)all)[at + x] == 'a' + r;
        at += 3 * r;
    }
    ok = ok && (me > 0 || offsets[size] == at);
    rt_free(all);
    rt_free(offsets);
    const rt_status sent = rt_comm_broadcast(&ctx, job, shared, (int64_t)sizeof shared);
    for (size_t x = 0; x < sizeof shared; x++)
        ok = ok && shared[x] == 7;
    const rt_status same = rt_comm_same(&ctx, job, 5, "number");
    assert_everywhere(ok && sent == RT_OK && same == RT_OK, "gather and broadcast");
    for (int32_t r = 0; r < 13; r++)
        assert_int_equal(rt_comm_owner(job, r, 13), r * size / 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_processes_gives_the_same_bits),
        cmocka_unit_test(every_transport_gives_the_same_bits),
        cmocka_unit_test(statistics_say_which_way_messages_took),
        cmocka_unit_test(the_trace_shows_messages_before_tiles),
        cmocka_unit_test(scores_have_the_same_gradients_over_processes),
        cmocka_unit_test(the_rate_of_a_ring_is_measured),
        cmocka_unit_test(different_problems_are_refused_by_all),
        cmocka_unit_test(different_layouts_plans_and_directions_are_refused_by_all),
        cmocka_unit_test(more_processes_than_ranks_is_refused_by_all),
        cmocka_unit_test(failure_of_one_process_is_the_failure_of_all),
        cmocka_unit_test(parts_of_plans_are_held_against_the_whole),
        cmocka_unit_test(all_choose_one_way_where_only_some_compute),
        cmocka_unit_test(agreement_takes_the_lowest_failure),
        cmocka_unit_test(gather_and_broadcast_carry_bytes),
    };
    return cmocka_run_group_tests_name("mpi run", tests, job_setup, job_teardown);
}
