/* The main promise: in arithmetic exact every algorithm, layout, number of ranks and of processes gives the
 * same bits, forward and backward.  Random problems; of every planner its defaults and random values of all
 * its parameters, which are read from the planners' own table.  Run as one process and under MPI. */
#include "job.h"
#include "runner.h"

#include <omp.h>

#include "score_cases.h"
#include "scratch.h"

enum { MOST = 24, VARIANTS = 2 };

static int64_t runs;

/* How many runs touched what; what must be touched has its name here. */
enum { TOUCH_MOST = 64 };
typedef struct {
    const char *name[TOUCH_MOST];
    int64_t runs[TOUCH_MOST], n;
} touched;
static touched planners, layouts, masks, scores, numbers;

static void touch(touched *t, const char *name, int64_t by)
{
    int64_t i = 0;
    while (i < t->n && strcmp(t->name[i], name) != 0)
        i++;
    assert_true(i < TOUCH_MOST);
    t->n += i == t->n;
    t->name[i] = name;
    t->runs[i] += by;
}

static void touched_print(const touched *t, const char *what)
{
    int64_t never = 0;
    if (me == 0)
        print_message("# %s:", what);
    for (int64_t i = 0; i < t->n; i++) {
        if (me == 0)
            print_message(" %s %lld", t->name[i], (long long)t->runs[i]);
        never += t->runs[i] == 0;
    }
    if (me == 0)
        print_message("\n");
    if (never > 0)
        fail_msg("%lld of the %s were never touched", (long long)never, what);
}

static int64_t pick(uint64_t *seed, int64_t least, int64_t most)
{
    return least + (int64_t)(t_random(seed) % (uint64_t)(most - least + 1));
}

/* ---- a problem --------------------------------------------------------------------------------------- */

typedef struct {
    rt_problem p;
    int64_t cu_q[6], cu_k[6];
    rt_slice slices[4];
    uint8_t key_valid[2 * MOST], dense[MOST * MOST];
} question;

static void boundaries(uint64_t *seed, int64_t documents, int64_t length, int64_t *cu)
{
    cu[0] = 0;
    for (int64_t n = 1; n <= documents; n++)
        cu[n] = n == documents ? length : pick(seed, cu[n - 1], length); /* some are empty */
}

/* What a problem has for certain; otherwise each part of a mask and of the scores has a chance of its own. */
enum { WINDOW = 1, PREFIX, SLICES, PADDING, DENSE, DOCUMENTS, LEAST = 8 };

static void mask_make(uint64_t *seed, question *x, int certain)
{
    rt_problem *p = &x->p;
    const int64_t sq = p->seqlen_q, sk = p->seqlen_k;
    if (pick(seed, 0, 3) == 0 || certain == WINDOW) {
        p->has_window = true;
        p->window_left = pick(seed, -1, MOST / 2);
        p->window_right = pick(seed, -1, MOST / 2);
    }
    if (pick(seed, 0, 4) == 0 || certain == PREFIX)
        p->prefix = pick(seed, 1, sk);
    if (pick(seed, 0, 4) == 0 || certain == SLICES) { /* two runs of queries, each with two runs of keys */
        const int64_t q = pick(seed, 0, sq);
        for (int n = 0; n < 2; n++) {
            const int64_t q0 = n == 0 ? 0 : q, q1 = n == 0 ? q : sq, k = pick(seed, 0, sk);
            for (int side = 0; side < 2 && q0 < q1; side++) {
                const rt_slice slice = {q0, q1, side == 0 ? 0 : k, side == 0 ? k : sk,
                                        (rt_slice_kind)pick(seed, 0, 3)};
                if (slice.k0 < slice.k1)
                    x->slices[p->n_slices++] = slice;
            }
        }
        p->slices = x->slices;
    }
    if (pick(seed, 0, 4) == 0 || certain == PADDING) {
        for (int64_t j = 0; j < p->batch * sk; j++)
            x->key_valid[j] = (uint8_t)(pick(seed, 0, 3) > 0);
        p->key_valid = x->key_valid;
    }
    if (pick(seed, 0, 4) == 0 || certain == DENSE) {
        for (int64_t i = 0; i < sq * sk; i++)
            x->dense[i] = (uint8_t)(pick(seed, 0, 2) > 0);
        p->dense = x->dense;
    }
}

/* Number `round` of its list: the first LEAST have every mask and every kind of scores among them. */
static void question_make(uint64_t *seed, question *x, int round)
{
    const int certain = round < LEAST ? round : 0;
    const int64_t sq = pick(seed, 1, MOST), sk = pick(seed, 0, 3) > 0 ? sq : pick(seed, 1, MOST);
    const int64_t keys = pick(seed, 1, 3), group = pick(seed, 1, 3);
    memset(x, 0, sizeof *x);
    x->p = t_problem(pick(seed, 1, 2), sq, sk, keys * group, keys, pick(seed, 1, 5), pick(seed, 1, 5),
                     round < LEAST ? (rt_mask_kind)(round % 3) : (rt_mask_kind)pick(seed, 0, 2));
    if (pick(seed, 0, 2) == 0 || certain == DOCUMENTS) {
        x->p.documents = pick(seed, 1, 5);
        boundaries(seed, x->p.documents, sq, x->cu_q);
        boundaries(seed, x->p.documents, sk, x->cu_k);
        x->p.cu_q = x->cu_q;
        x->p.cu_k = sq == sk ? x->cu_q : x->cu_k;
    }
    mask_make(seed, x, certain);
    int bends = pick(seed, 0, 2) == 0 ? (int)pick(seed, 1, SCORE_ALL) : 0;
    bends |= round < LEAST && 1 << round <= SCORE_DROP ? 1 << round : 0;
    if (bends != 0)
        score_cases_add(&x->p, bends, seed);
    rt_context ctx = {0};
    t_assert_ok(&ctx, rt_problem_check(&ctx, &x->p));
}

static void fill(t_tensors *t, uint64_t seed)
{
    const rt_problem *p = t->p;
    for (int id = RT_Q; id <= RT_DOUT; id++)
        for (int64_t b = 0; b < p->batch; b++)
            for (int64_t i = 0; i < t_length(p, (rt_tensor_id)id); i++)
                for (int64_t h = 0; h < t_heads(p, (rt_tensor_id)id); h++)
                    rt_generate_row(RT_FAMILY_GAUSSIAN, seed, (rt_tensor_id)id, RT_BF16, b, i, h,
                                    t_width(p, (rt_tensor_id)id), t_length(p, (rt_tensor_id)id),
                                    t_row(t, (rt_tensor_id)id, b, i, h));
}

/* ---- a layout and a plan ----------------------------------------------------------------------------- */

static int64_t divisor(uint64_t *seed, int64_t n)
{
    int64_t d = pick(seed, 1, n);
    while (n % d != 0)
        d--;
    return d;
}

enum { NAME = 96, VALUE = 84 }; /* a grid of 9 x 9 digits fits */

/* One of the values that the table allows: "a | b | c", "a divisor of P", "a divisor of P/u", "1 .. Hkv", .. */
static void value_pick(uint64_t *seed, const char *values, const rt_problem *p, int64_t ranks, int64_t *u,
                       char value[VALUE])
{
    if (strcmp(values, "ROW/ROW/.. | @FILE") == 0) { /* every tile, whether or not the mask needs it */
        memset(value, '1', (size_t)(ranks * ranks));
        value[ranks * ranks] = '\0';
        return;
    }
    if (strcmp(values, "0/64/96..") == 0) { /* where chunks begin */
        const int64_t old = p->seqlen_k - p->seqlen_q, at = old > 1 ? pick(seed, 1, old - 1) : 0;
        const bool middle = at > 0 && pick(seed, 0, 1) == 0;
        (void)snprintf(value, VALUE, "0");
        if (old > 0 && middle)
            (void)snprintf(value, VALUE, "0/%lld/%lld", (long long)at, (long long)old);
        else if (old > 0)
            (void)snprintf(value, VALUE, "0/%lld", (long long)old);
        return;
    }
    if (strstr(values, " | ") != NULL) {
        int64_t n = 1;
        for (const char *c = values; (c = strstr(c, " | ")) != NULL; c += 3)
            n++;
        const char *from = values;
        for (int64_t skip = pick(seed, 0, n - 1); skip > 0; skip--)
            from = strstr(from, " | ") + 3;
        const char *end = strstr(from, " | ");
        (void)snprintf(value, VALUE, "%.*s", (int)(end != NULL ? end - from : (long)strlen(from)), from);
        return;
    }
    int64_t n = 0;
    if (strcmp(values, "a divisor of P") == 0)
        n = *u = divisor(seed, ranks);
    else if (strcmp(values, "a divisor of P/u") == 0)
        n = divisor(seed, ranks / *u);
    else if (strcmp(values, "1 .. Hkv") == 0)
        n = pick(seed, 1, p->heads_kv);
    else if (strcmp(values, "1 .. P") == 0)
        n = pick(seed, 1, ranks);
    else if (strcmp(values, "1 .. P - 1") == 0)
        n = pick(seed, 1, ranks > 1 ? ranks - 1 : 1);
    else if (strcmp(values, "0 ..") == 0 || strcmp(values, "1 ..") == 0)
        n = pick(seed, values[0] - '0', 5);
    else
        fail_msg("the sweep cannot read the values \"%s\"", values);
    (void)snprintf(value, VALUE, "%lld", (long long)n);
}

/* A name with random values for some of its parameters; `plain`: with none. */
static void name_make(uint64_t *seed, const char *base, const rt_parameter *parameters, const rt_problem *p,
                      int32_t ranks, bool plain, char name[NAME])
{
    int64_t u = 1;
    (void)snprintf(name, NAME, "%s", base);
    for (const rt_parameter *each = parameters; each != NULL && each->key != NULL && !plain; each++) {
        char value[VALUE];
        const bool divides = strncmp(each->values, "a divisor", 9) == 0; /* later ones depend on it */
        if (!divides && pick(seed, 0, 2) == 0)
            continue;
        value_pick(seed, each->values, p, ranks, &u, value);
        const size_t used = strlen(name);
        (void)snprintf(name + used, NAME - used, "%s%s=%s", strchr(name, ':') == NULL ? ":" : ",",
                       each->key, value);
    }
}

/* One of the named layouts, or a list of random positions; number `turn` of those listed if it can be had.  Returns its name. */
static const char *layout_make(uint64_t *seed, const rt_problem *p, int32_t ranks, int64_t turn,
                               rt_layout *l)
{
    int64_t n = 0;
    while (rt_layout_listed(n) != NULL)
        n++;
    for (int64_t attempt = 0;; attempt++) {
        rt_context ctx = {0};
        char name[NAME];
        const rt_layout_info *x = rt_layout_listed(attempt < 4 ? turn % n : pick(seed, 0, n - 1));
        if (strcmp(x->name, "positions") == 0) {
            const t_how how = {RT_LAYOUT_POSITIONS, ranks, NULL, 0};
            t_assert_ok(&ctx, t_layout_create(&ctx, p, &how, l));
            return x->name;
        }
        name_make(seed, x->name, x->parameters, p, ranks, pick(seed, 0, 1) == 0, name);
        const rt_layout_options o = {.name = name, .remainder = (rt_remainder)pick(seed, 0, 2)};
        const rt_status st = rt_layout_make(&ctx, p, &o, ranks, l);
        if (st == RT_OK)
            return x->name;
        t_assert_status(&ctx, st, RT_ERR_ARG); /* values that do not go together */
    }
}

/* ---- running ----------------------------------------------------------------------------------------- */

static void load(void *arg, rt_tensor_id id, int64_t b, int64_t pos, int64_t h, double *row)
{
    const t_tensors *t = arg;
    memcpy(row, t_row(t, id, b, pos, h), (size_t)t_width(t->p, id) * sizeof *row);
}

static void store(void *arg, rt_tensor_id id, int32_t rank, int64_t slot, int64_t b, int64_t pos, int64_t h,
                  const double *row)
{
    t_tensors *t = arg;
    (void)rank, (void)slot;
    memcpy(t_row(t, id, b, pos, h), row, (size_t)t_width(t->p, id) * sizeof *row);
    t->stored[id][(t_row(t, id, b, pos, h) - t->x[id]) / t_width(t->p, id)]++;
}

static rt_status run(rt_context *ctx, rt_comm *comm, t_tensors *t, const rt_layout *l, const rt_plan *plan)
{
    const rt_run_io io = {
        .load = load, .store = store, .arg = t, .backward = true, .result = RT_F32, .lse_result = RT_F32};
    for (int id = RT_LSE; id < RT_RESULT_COUNT; id++)
        if (t_rows(t->p, (rt_tensor_id)id) > 0)
            memset(t->stored[id], 0, (size_t)t_rows(t->p, (rt_tensor_id)id) * sizeof(int32_t));
    runs++;
    return rt_run(ctx, comm, t->p, l, plan, rt_arithmetic_find("exact"), &io, NULL);
}

/* What this process stored is as wanted, and all processes together stored each row once. */
static bool same(const t_tensors *got, const t_tensors *want, rt_context *ctx, char text[200])
{
    bool ok = true;
    for (int id = RT_LSE; id < RT_RESULT_COUNT; id++) {
        uint64_t stored = 0;
        const int64_t w = t_width(got->p, (rt_tensor_id)id), rows = t_rows(got->p, (rt_tensor_id)id);
        for (int64_t e = 0; e < rows * w; e++) {
            stored += e % w == 0 && got->stored[id][e / w] == 1;
            if (ok && got->stored[id][e / w] > 0 && !t_same(got->x[id][e], want->x[id][e])) {
                ok = false;
                (void)snprintf(text, 200, "%s row %lld dim %lld is %a, not %a",
                               rt_tensor_name((rt_tensor_id)id), (long long)(e / w), (long long)(e % w),
                               got->x[id][e], want->x[id][e]);
            }
        }
        if (rt_comm_sum_words(ctx, job, &stored, 1) != RT_OK || stored != (uint64_t)rows) {
            ok = false;
            (void)snprintf(text, 200, "%lld of %lld rows of %s came", (long long)stored, (long long)rows,
                           rt_tensor_name((rt_tensor_id)id));
        }
    }
    return ok;
}

/* One plan of one layout; false if the planner refuses these values together. */
static bool plan_agrees(const char *name, const rt_layout *l, t_tensors *t, const t_tensors *want)
{
    rt_plan plan;
    rt_context ctx = {0};
    char text[200] = "", mask[RT_MASK_TEXT];
    const rt_status made = rt_plan_create(&ctx, name, t->p, l, &plan);
    if (made == RT_ERR_ARG && strchr(name, ':') != NULL)
        return false;
    t_assert_ok(&ctx, made);
    const rt_status st = run(&ctx, job, t, l, &plan);
    rt_plan_reset(&plan);
    const bool ok = st == RT_OK && same(t, want, &ctx, text);
    uint64_t bad = ok ? 0 : 1;
    if (!ok)
        print_error("plan %s over %s, P = %d, %lldx%lld, heads %lld/%lld, %s, %lld documents: %s%s\n", name,
                    l->name, (int)l->ranks, (long long)t->p->seqlen_q, (long long)t->p->seqlen_k,
                    (long long)t->p->heads_q, (long long)t->p->heads_kv, rt_mask_text(mask, t->p),
                    (long long)t->p->documents, ctx.message, text);
    t_assert_ok(&ctx, rt_comm_sum_words(&ctx, job, &bad,
                                        1)); /* all assert together: nobody waits for one that left */
    if (bad > 0)
        fail_msg("%s differs", name);
    return true;
}

/* So many runs had these masks and scores. */
static void question_count(const rt_problem *p, int32_t ranks, int64_t by)
{
    static const char *const number[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
    touch(&masks, "full", p->mask == RT_MASK_FULL ? by : 0);
    touch(&masks, "causal", p->mask == RT_MASK_CAUSAL ? by : 0);
    touch(&masks, "bottom-right", p->mask == RT_MASK_CAUSAL_BOTTOM_RIGHT ? by : 0);
    touch(&masks, "window", p->has_window ? by : 0);
    touch(&masks, "prefix", p->prefix > 0 ? by : 0);
    touch(&masks, "slices", p->n_slices > 0 ? by : 0);
    touch(&masks, "padding", p->key_valid != NULL ? by : 0);
    touch(&masks, "dense", p->dense != NULL ? by : 0);
    touch(&masks, "documents", p->documents > 0 ? by : 0);
    touch(&scores, "plain", !rt_problem_has_scores(p) ? by : 0);
    touch(&scores, "alibi", p->alibi != NULL ? by : 0);
    touch(&scores, "bias", p->bias != NULL ? by : 0);
    touch(&scores, "softcap", p->softcap > 0 ? by : 0);
    touch(&scores, "sink", p->sink != NULL ? by : 0);
    touch(&scores, "dropout", p->dropout > 0 ? by : 0);
    for (int32_t n = size; n <= 9; n++)
        touch(&numbers, number[n - 1], n == ranks ? by : 0);
    for (const rt_planner *each = rt_planners(); each->name != NULL; each++)
        touch(&planners, each->name, 0);
    for (int64_t n = 0; rt_layout_listed(n) != NULL; n++)
        touch(&layouts, rt_layout_listed(n)->name, 0);
}

static void question_answer(uint64_t *seed, const question *x, int round)
{
    t_tensors t, want;
    rt_context ctx = {0};
    rt_comm *alone = NULL;
    rt_layout l;
    rt_plan plan;
    t_tensors_create(&x->p, &t);
    t_tensors_create(&x->p, &want);
    fill(&t, t_random(seed));
    t_copy_inputs(&want, &t);
    t_assert_ok(&ctx, rt_comm_self(&ctx, &alone));
    t_assert_ok(&ctx, rt_layout_create(&ctx, &x->p, RT_LAYOUT_CONTIGUOUS, RT_REMAINDER_SPREAD, 1, &l));
    t_assert_ok(&ctx, rt_plan_create(&ctx, "single", &x->p, &l, &plan));
    t_assert_ok(&ctx, run(&ctx, alone, &want, &l, &plan));
    rt_plan_reset(&plan);
    rt_layout_reset(&l);
    rt_comm_destroy(&alone);
    const int32_t ranks = size + round % (10 - size); /* each number in turn */
    const int64_t before = runs;
    for (const rt_planner *each = rt_planners(); each->name != NULL; each++)
        for (int variant = 0; variant <= (each->parameters != NULL ? VARIANTS : 0); variant++) {
            char name[NAME];
            touch(&layouts, layout_make(seed, &x->p, ranks, runs, &l), 1);
            do
                name_make(seed, each->name, each->parameters, &x->p, ranks, variant == 0, name);
            while (!plan_agrees(name, &l, &t, &want));
            touch(&planners, each->name, 1);
            rt_layout_reset(&l);
        }
    question_count(&x->p, ranks, runs - before);
    t_tensors_free(&t);
    t_tensors_free(&want);
}

static void every_plan_gives_the_same_bits(void **state)
{
    (void)state;
    const int rounds = T_EVERY == 1 ? (size == 1 ? 60 : 18) : 9; /* 9 have everything among them */
    const int threads = omp_get_max_threads();
    uint64_t seed = 20240601 + (uint64_t)size;
    omp_set_num_threads(1);
    for (int round = 0; round < rounds; round++) {
        question x;
        question_make(&seed, &x, round);
        question_answer(&seed, &x, round);
        score_cases_free(&x.p);
    }
    omp_set_num_threads(threads);
    if (me == 0)
        print_message("%lld runs\n", (long long)runs);
    touched_print(&planners, "planners");
    touched_print(&layouts, "layouts");
    touched_print(&masks, "masks");
    touched_print(&scores, "scores");
    touched_print(&numbers, "ranks");
}

/* ---- the proof --------------------------------------------------------------------------------------- */

/* One number of what stays for the backward, in one pass or (then it may be right) in both. */
static void held_spoil(uint64_t *seed, rt_plan *plan)
{
    const int64_t i = pick(seed, 0, plan->backward.n_held - 1), n = pick(seed, 0, 6),
                  passes = pick(seed, 1, 8);
    const int32_t by = pick(seed, 0, 1) == 0 ? 1 : -1;
    for (int k = 0; k < 2; k++) {
        rt_held *x = k == 0 ? &plan->forward.held[i] : &plan->backward.held[i];
        int32_t *const small[] = {&x->rank, &x->buf, &x->piece.shard};
        int64_t *const large[] = {&x->piece.slot0, &x->piece.slot1, &x->piece.head0, &x->piece.head1};
        if (passes < 3 && passes != k + 1)
            continue;
        if (n < 3)
            *small[n] += by;
        else
            *large[n - 3] += by;
    }
}

/* One number of one tile, move, held piece or step of a plan, changed. */
static void plan_spoil(uint64_t *seed, rt_plan *plan)
{
    if (plan->backward.n_held > 0 && pick(seed, 0, 2) == 0) {
        held_spoil(seed, plan);
        return;
    }
    rt_pass *pass = pick(seed, 0, 1) == 0 ? &plan->forward : &plan->backward;
    const int32_t by = pick(seed, 0, 1) == 0 ? 1 : -1;
    if (pick(seed, 0, 1) == 0 && pass->n_tiles > 0) {
        rt_tile *t = &pass->tiles[pick(seed, 0, pass->n_tiles - 1)],
                *u = &pass->tiles[pick(seed, 0, pass->n_tiles - 1)];
        int32_t *const small[] = {&t->rank,   &t->q_buf, &t->kv_buf,  &t->dst_q,
                                  &t->dst_kv, &t->call,  &t->q.shard, &t->kv.shard};
        int64_t *const large[] = {&t->q.slot0, &t->q.slot1, &t->kv.slot0, &t->kv.slot1,
                                  &t->q.head0, &t->q.head1, &t->kv.head0, &t->kv.head1};
        const int64_t n = pick(seed, 0, 16);
        if (n < 8)
            *small[n] += by;
        else if (n < 16)
            *large[n - 8] += by;
        else {
            const rt_tile swap = *t;
            *t = *u;
            *u = swap;
        }
    } else if (pass->n_moves > 0) {
        rt_move *m = &pass->moves[pick(seed, 0, pass->n_moves - 1)],
                *o = &pass->moves[pick(seed, 0, pass->n_moves - 1)];
        int32_t *const small[] = {&m->from, &m->to, &m->src_buf, &m->dst_buf, &m->piece.shard};
        int64_t *const large[] = {&m->piece.slot0, &m->piece.slot1, &m->piece.head0, &m->piece.head1};
        const int64_t n = pick(seed, 0, 10);
        if (n < 5)
            *small[n] += by;
        else if (n < 9)
            *large[n - 5] += by;
        else if (n == 9)
            m->how = (rt_how)pick(seed, 0, 2);
        else {
            const rt_move swap = *m;
            *m = *o;
            *o = swap;
        }
    }
}

/* What the verifier lets pass is right: it gives the bits of the sound plan. */
static void what_the_verifier_accepts_is_right(void **state)
{
    (void)state;
    if (size > 1)
        skip();
    const int threads = omp_get_max_threads();
    int64_t accepted = 0, refused = 0;
    uint64_t seed = 7;
    omp_set_num_threads(1);
    for (int round = 0; round < t_cases(16); round++) {
        question x;
        t_tensors t, want;
        question_make(&seed, &x, LEAST + round);
        t_tensors_create(&x.p, &t);
        t_tensors_create(&x.p, &want);
        fill(&t, t_random(&seed));
        t_copy_inputs(&want, &t);
        const int32_t ranks = (int32_t)pick(&seed, 2, 5);
        for (const rt_planner *each = rt_planners(); each->name != NULL; each++) {
            rt_layout l;
            rt_plan plan;
            rt_context ctx = {0};
            char text[200] = "";
            (void)layout_make(&seed, &x.p, ranks, pick(&seed, 0, TOUCH_MOST), &l);
            t_assert_ok(&ctx, rt_plan_create(&ctx, each->name, &x.p, &l, &plan));
            t_assert_ok(&ctx, run(&ctx, job, &want, &l, &plan));
            rt_plan_reset(&plan);
            for (int spoilt = 0; spoilt < 12; spoilt++) {
                rt_context said = {0};
                t_assert_ok(&ctx, rt_plan_create(&ctx, each->name, &x.p, &l, &plan));
                plan_spoil(&seed, &plan);
                const rt_status st = rt_plan_verify(&said, &plan, &x.p, &l);
                if (st == RT_OK) {
                    t_assert_ok(&ctx, run(&ctx, job, &t, &l, &plan));
                    if (!same(&t, &want, &ctx, text))
                        fail_msg("%s over %s, P = %d, spoilt and not refused: %s", each->name, l.name,
                                 (int)ranks, text);
                    accepted++;
                } else {
                    t_assert_status(&said, st, RT_ERR_FORMAT);
                    refused++;
                }
                rt_plan_reset(&plan);
            }
            rt_layout_reset(&l);
        }
        t_tensors_free(&t);
        t_tensors_free(&want);
        score_cases_free(&x.p);
    }
    omp_set_num_threads(threads);
    print_message("%lld refused, %lld harmless\n", (long long)refused, (long long)accepted);
    assert_true(refused > 1000 / T_EVERY && accepted > 100 / T_EVERY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_plan_gives_the_same_bits),
                                       cmocka_unit_test(what_the_verifier_accepts_is_right)};
    return cmocka_run_group_tests_name("sweep", tests, job_setup, job_teardown);
}
