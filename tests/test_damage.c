/* The verifier against every planner: each tile and each move of its plans, dropped, doubled or led astray, is
 * missed, and the message says what was damaged and where. */
#include <ringtrue/plan.h>

#include "check.h"

/* Besides every planner's defaults. */
static const char *const variants[] = {"ring:backward=own-last",
                                       "ring:order=up",
                                       "ring:move=needed",
                                       "double-ring:window=2,order=loongtrain",
                                       "all-gather:form=chunks",
                                       "all-gather:stride=1",
                                       "all-gather:form=rotate",
                                       "ulysses:heads=pad",
                                       "ulysses:keep=no",
                                       "hybrid:ulysses=2,order=ring-low,backward=own-last",
                                       "hybrid:ulysses=2,window=2",
                                       "hybrid:ulysses=2,keep=no",
                                       "groupcast:stages=2",
                                       "decode:join=ag-rs",
                                       "decode:join=a2a",
                                       "prefill:pass=pass-kv",
                                       NULL};

typedef struct {
    rt_problem p;
    rt_layout l;
    rt_plan plan;
    const char *name;
} bed;

static void bed_make(bed *b, const char *name)
{
    rt_context ctx = {0};
    memset(b, 0, sizeof *b);
    b->name = name;
    b->p = (rt_problem){.batch = 1,
                        .seqlen_q = 32,
                        .seqlen_k = 32,
                        .heads_q = 4,
                        .heads_kv = 2,
                        .dim = 4,
                        .dim_v = 4,
                        .scale = 0.5};
    t_assert_ok(&ctx, rt_layout_create(&ctx, &b->p, RT_LAYOUT_CONTIGUOUS, RT_REMAINDER_SPREAD, 4, &b->l));
    t_assert_ok(&ctx, rt_plan_create(&ctx, name, &b->p, &b->l, &b->plan));
    t_assert_ok(&ctx, rt_plan_verify(&ctx, &b->plan, &b->p, &b->l));
}

static void bed_reset(bed *b)
{
    rt_plan_reset(&b->plan);
    rt_layout_reset(&b->l);
}

/* The plan with one pass in a copy of its own, to be spoilt; there is room for one tile and one move more. */
typedef struct {
    const bed *b;
    int backward;
    rt_plan plan; /* one pass is the copy, the other the original's */
} spoilt;

static void *copy(const void *from, int64_t n, size_t size)
{
    void *to = calloc((size_t)n + 1, size);
    assert_non_null(to);
    memcpy(to, from, (size_t)n * size);
    return to;
}

static spoilt spoil(const bed *b, int backward)
{
    spoilt x = {b, backward, b->plan};
    rt_pass *pass = backward ? &x.plan.backward : &x.plan.forward;
    pass->steps = copy(pass->steps, pass->n_steps, sizeof *pass->steps);
    pass->tiles = copy(pass->tiles, pass->n_tiles, sizeof *pass->tiles);
    pass->moves = copy(pass->moves, pass->n_moves, sizeof *pass->moves);
    return x;
}

static rt_pass *pass_of(spoilt *x)
{
    return x->backward ? &x->plan.backward : &x->plan.forward;
}

static void tile_drop(rt_pass *pass, int64_t i)
{
    memmove(&pass->tiles[i], &pass->tiles[i + 1], (size_t)(--pass->n_tiles - i) * sizeof *pass->tiles);
    for (int64_t t = 0; t < pass->n_steps; t++) {
        pass->steps[t].tile0 -= pass->steps[t].tile0 > i;
        pass->steps[t].tile1 -= pass->steps[t].tile1 > i;
    }
}

static void tile_double(rt_pass *pass, int64_t i)
{
    memmove(&pass->tiles[i + 1], &pass->tiles[i], (size_t)(pass->n_tiles++ - i) * sizeof *pass->tiles);
    for (int64_t t = 0; t < pass->n_steps; t++) {
        pass->steps[t].tile0 += pass->steps[t].tile0 > i;
        pass->steps[t].tile1 += pass->steps[t].tile1 > i;
    }
}

static void move_drop(rt_pass *pass, int64_t i)
{
    memmove(&pass->moves[i], &pass->moves[i + 1], (size_t)(--pass->n_moves - i) * sizeof *pass->moves);
    for (int64_t t = 0; t < pass->n_steps; t++) {
        pass->steps[t].move0 -= pass->steps[t].move0 > i;
        pass->steps[t].move1 -= pass->steps[t].move1 > i;
    }
}

static void move_double(rt_pass *pass, int64_t i)
{
    memmove(&pass->moves[i + 1], &pass->moves[i], (size_t)(pass->n_moves++ - i) * sizeof *pass->moves);
    for (int64_t t = 0; t < pass->n_steps; t++) {
        pass->steps[t].move0 += pass->steps[t].move0 > i;
        pass->steps[t].move1 += pass->steps[t].move1 > i;
    }
}

static void spoilt_reset(spoilt *x)
{
    free(pass_of(x)->steps);
    free(pass_of(x)->tiles);
    free(pass_of(x)->moves);
}

/* Refused, at a place of this pass, with one of the words (ended by NULL); the copy goes. */
static void refused(spoilt *x, const char *damage, int64_t index, const char *const *words)
{
    rt_context ctx = {0};
    const char *place = x->backward ? "backward" : "forward";
    const rt_status st = rt_plan_verify(&ctx, &x->plan, &x->b->p, &x->b->l);
    bool said = false;
    for (; *words != NULL; words++)
        said = said || strstr(ctx.message, *words) != NULL;
    if (st != RT_ERR_FORMAT || strncmp(ctx.message, place, strlen(place)) != 0 || !said)
        fail_msg("%s, %s, %s %lld: status %d, \"%s\"", x->b->name, place, damage, (long long)index, (int)st,
                 ctx.message);
    spoilt_reset(x);
}

#define REFUSED(x, damage, index, ...)                                                                     \
    do {                                                                                                   \
        const char *const words_[] = {__VA_ARGS__, NULL};                                                  \
        refused(x, damage, index, words_);                                                                 \
    } while (0)

/* Call `what` for both passes of every plan. */
static void each_pass(void (*what)(const bed *b, const rt_pass *pass, int backward))
{
    const char *names[64];
    int n = 0;
    for (const rt_planner *x = rt_planners(); x->name != NULL && n < 48; x++)
        names[n++] = x->name;
    for (const char *const *name = variants; *name != NULL; name++)
        names[n++] = *name;
    for (int i = 0; i < n; i++) {
        bed b;
        bed_make(&b, names[i]);
        what(&b, &b.plan.forward, 0);
        what(&b, &b.plan.backward, 1);
        bed_reset(&b);
    }
}

static bool is_result(rt_payload y)
{
    return y == RT_PAYLOAD_STATE || y == RT_PAYLOAD_DQ || y == RT_PAYLOAD_DKV;
}

static void tile_missing(const bed *b, const rt_pass *pass, int backward)
{
    for (int64_t i = 0; i < pass->n_tiles; i++) {
        spoilt x = spoil(b, backward);
        tile_drop(pass_of(&x), i);
        REFUSED(&x, "without tile", i, "a tile is missing", "without a gap");
    }
}

static void tile_twice(const bed *b, const rt_pass *pass, int backward)
{
    for (int64_t i = 0; i < pass->n_tiles; i++) {
        spoilt x = spoil(b, backward);
        tile_double(pass_of(&x), i);
        REFUSED(&x, "twice tile", i, "computes again");
    }
}

/* A tile reads a buffer that nothing came to, and another rank computes it. */
static void stale_piece(const bed *b, const rt_pass *pass, int backward)
{
    for (int64_t i = 0; i < pass->n_tiles; i++) {
        spoilt x = spoil(b, backward);
        pass_of(&x)->tiles[i].kv_buf = 40;
        REFUSED(&x, "wrong KV buffer in tile", i, "reads stale data");
        x = spoil(b, backward);
        pass_of(&x)->tiles[i].q_buf = 40;
        REFUSED(&x, "wrong Q buffer in tile", i, "reads stale data", "one kernel call");
        x = spoil(b, backward);
        pass_of(&x)->tiles[i].rank = (pass->tiles[i].rank + 1) % 4;
        REFUSED(&x, "another rank for tile", i, "reads stale data", "without a gap", "one kernel call",
                "home of");
    }
}

static void move_dropped(const bed *b, const rt_pass *pass, int backward)
{
    for (int64_t i = 0; i < pass->n_moves; i++) {
        const rt_move m = pass->moves[i];
        spoilt x = spoil(b, backward);
        move_drop(pass_of(&x), i);
        if (!is_result(m.payload))
            REFUSED(&x, "without move", i, "reads stale data");
        else
            REFUSED(&x, "without move", i, "never came home", "not complete at home", "was not moved away",
                    "on the wrong piece", "over contributions that are already there");
    }
}

/* Half of the rows stay behind. */
static void move_cut(const bed *b, const rt_pass *pass, int backward)
{
    for (int64_t i = 0; i < pass->n_moves; i++) {
        spoilt x = spoil(b, backward);
        pass_of(&x)->moves[i].piece.slot0 += 4;
        REFUSED(&x, "half of move", i, "only some of these rows", "never came home", "not complete at home",
                "over contributions that are already there", "was not moved away", "on the wrong piece");
    }
}

/* Results that come twice; what is only read may. */
static void move_twice(const bed *b, const rt_pass *pass, int backward)
{
    for (int64_t i = 0; i < pass->n_moves; i++) {
        if (!is_result(pass->moves[i].payload))
            continue;
        spoilt x = spoil(b, backward);
        move_double(pass_of(&x), i);
        REFUSED(&x, "twice move", i, "another move landed", "not complete at home");
    }
}

/* A message lands on a buffer that is being read, sent or landed on. */
static void buffer_reused(const bed *b, const rt_pass *pass, int backward)
{
    int64_t cases = 0;
    for (int64_t t = 0; t < pass->n_steps; t++)
        for (int64_t i = pass->steps[t].move0; i < pass->steps[t].move1; i++) {
            const rt_move m = pass->moves[i];
            for (int64_t k = pass->steps[t].move0; k < pass->steps[t].move1; k++) {
                const rt_move other = pass->moves[k];
                const int32_t taken = other.from == m.to && other.src_buf > 0 ? other.src_buf
                                      : other.to == m.to && k != i            ? other.dst_buf
                                                                              : 0;
                if (other.payload != m.payload || taken == 0 || taken == m.dst_buf || m.dst_buf == 0)
                    continue;
                spoilt x = spoil(b, backward);
                pass_of(&x)->moves[i].dst_buf = taken;
                REFUSED(&x, "taken buffer for move", i, "in flight", "another move landed",
                        "was not moved away", "on the wrong piece");
                cases++;
            }
            for (int64_t k = pass->steps[t].tile0; k < pass->steps[t].tile1; k++) {
                const rt_tile *tile = &pass->tiles[k];
                if (m.payload != RT_PAYLOAD_KV || tile->rank != m.to || tile->kv_buf == 0)
                    continue;
                spoilt x = spoil(b, backward);
                pass_of(&x)->moves[i].dst_buf = tile->kv_buf;
                REFUSED(&x, "buffer in use for move", i, "while a tile reads it", "in flight",
                        "another move landed");
                cases++;
            }
        }
    if (cases == 0)
        fail_msg("%s: no buffer to take", b->name);
}

/* A sum that overwrites what it should be added to; where nothing is there (other heads), that is no damage. */
static void sum_overwrites(const bed *b, const rt_pass *pass, int backward)
{
    int64_t sums = 0, refusals = 0;
    for (int64_t i = 0; i < pass->n_moves; i++) {
        if (pass->moves[i].how == RT_PUT)
            continue;
        spoilt x = spoil(b, backward);
        rt_context ctx = {0};
        pass_of(&x)->moves[i].how = RT_PUT;
        sums++;
        refusals += rt_plan_verify(&ctx, &x.plan, &b->p, &b->l) != RT_OK;
        assert_true(ctx.message[0] == '\0' || strstr(ctx.message, " over ") != NULL ||
                    strstr(ctx.message, "another move landed") != NULL);
        spoilt_reset(&x);
    }
    if (strncmp(b->name, "ring", 4) == 0 || strncmp(b->name, "double-ring", 11) == 0 ||
        strncmp(b->name, "all-gather", 10) == 0 || strcmp(b->name, "pass-q") == 0)
        if (refusals != sums)
            fail_msg("%s: %lld of %lld sums may overwrite", b->name, (long long)(sums - refusals),
                     (long long)sums);
}

/* ---- what stays from the forward to the backward ----------------------------------------------------- */

/* The lists of held pieces of both passes are copies too. */
static spoilt held_spoil(const bed *b, int backward)
{
    spoilt x = spoil(b, backward);
    for (int pass = 0; pass < 2; pass++) {
        rt_pass *of = pass ? &x.plan.backward : &x.plan.forward;
        of->held = copy(of->held, of->n_held, sizeof *of->held);
    }
    return x;
}

static void held_drop(rt_pass *pass, int64_t i)
{
    memmove(&pass->held[i], &pass->held[i + 1], (size_t)(--pass->n_held - i) * sizeof *pass->held);
}

#define HELD_REFUSED(x, damage, index, ...)                                                                \
    do {                                                                                                   \
        rt_held *const held_[2] = {(x)->plan.forward.held, (x)->plan.backward.held};                       \
        REFUSED(x, damage, index, __VA_ARGS__);                                                            \
        free(held_[0]);                                                                                    \
        free(held_[1]);                                                                                    \
    } while (0)

/* One pass says something else than the other. */
static void held_differs(const bed *b, const rt_pass *pass, int backward)
{
    for (int64_t i = 0; i < pass->n_held && backward; i++) {
        spoilt x = held_spoil(b, backward);
        held_drop(&x.plan.forward, i);
        HELD_REFUSED(&x, "not kept by the forward, piece", i, "not what the forward keeps");
        x = held_spoil(b, backward);
        held_drop(&x.plan.backward, i);
        HELD_REFUSED(&x, "not held by the backward, piece", i, "not what the forward keeps",
                     "and not held here");
        x = held_spoil(b, backward);
        x.plan.backward.held[i].rank = (pass->held[i].rank + 1) % 4;
        HELD_REFUSED(&x, "held by another rank, piece", i, "not what the forward keeps");
        x = held_spoil(b, backward);
        x.plan.backward.held[i].buf++;
        HELD_REFUSED(&x, "held in another buffer, piece", i, "not what the forward keeps");
        x = held_spoil(b, backward);
        x.plan.backward.held[i].piece.slot0++;
        HELD_REFUSED(&x, "fewer rows held of piece", i, "not what the forward keeps");
    }
}

/* Both say so, and it is not true, or not enough. */
static void held_is_not_there(const bed *b, const rt_pass *pass, int backward)
{
    for (int64_t i = 0; i < pass->n_held && !backward; i++) {
        const rt_held was = pass->held[i];
        const struct {
            const char *what, *words[2];
            rt_held now;
        } cases[] = {
            {"a buffer that nothing came to, piece",
             {"is not there for the backward", "it holds nothing"},
             {was.payload, was.piece, was.rank, 40}},
            {"at home, piece", {"the home of", "the home of"}, {was.payload, was.piece, was.rank, 0}},
            {"a result, piece",
             {"cannot be held", "cannot be held"},
             {RT_PAYLOAD_STATE, was.piece, was.rank, was.buf}},
            {"rank 4 for piece", {"ranks are 0 .. 3", "ranks are 0 .. 3"}, {was.payload, was.piece, 4, 1}},
        };
        for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
            spoilt x = held_spoil(b, 0);
            x.plan.forward.held[i] = x.plan.backward.held[i] = cases[k].now;
            HELD_REFUSED(&x, cases[k].what, i, cases[k].words[0], cases[k].words[1]);
        }
        /* all heads of the shard: more than came */
        spoilt x = held_spoil(b, 0);
        rt_piece *all[2] = {&x.plan.forward.held[i].piece, &x.plan.backward.held[i].piece};
        for (int n = 0; n < 2; n++) {
            all[n]->head0 = 0;
            all[n]->head1 = was.payload == RT_PAYLOAD_Q ? b->p.heads_q : b->p.heads_kv;
        }
        HELD_REFUSED(&x, "more heads of piece", i, "it holds only some of these rows");
        /* less than is read: the backward misses it */
        x = held_spoil(b, 1);
        held_drop(&x.plan.forward, i);
        held_drop(&x.plan.backward, i);
        HELD_REFUSED(&x, "neither, piece", i, "reads stale data");
        x = held_spoil(b, 1);
        x.plan.forward.held[i].piece.slot1--;
        x.plan.backward.held[i].piece.slot1--;
        HELD_REFUSED(&x, "a row less of piece", i, "reads stale data");
    }
}

/* The forward lets something else land in that buffer: in its last step, when nobody reads it there any more. */
static void held_is_overwritten(const bed *b, const rt_pass *pass, int backward)
{
    for (int64_t i = 0; i < pass->n_held && !backward; i++) {
        const rt_held x = pass->held[i];
        const int32_t other = (x.piece.shard + 1) % 4;
        spoilt y = held_spoil(b, 0);
        rt_move *last = &y.plan.forward.moves[y.plan.forward.n_moves++];
        *last = (rt_move){x.payload, x.piece, other, x.rank, 0, x.buf, RT_PUT};
        last->piece.shard = other;
        y.plan.forward.steps[y.plan.forward.n_steps - 1].move1++;
        char holds[32];
        (void)snprintf(holds, sizeof holds, "it holds shard %d", (int)other);
        HELD_REFUSED(&y, "overwritten, piece", i, holds);
    }
}

static void what_is_held_falsely_is_named(void **state)
{
    (void)state;
    each_pass(held_differs);
    each_pass(held_is_not_there);
    each_pass(held_is_overwritten);
    bed b;
    bed_make(&b, "ulysses"); /* or nothing was tried */
    assert_int_equal(b.plan.forward.n_held, 2 * 4 * 3);
    bed_reset(&b);
    bed_make(&b, "hybrid:ulysses=2");
    assert_int_equal(b.plan.forward.n_held, 2 * 4);
    bed_reset(&b);
}

static void a_tile_missing_is_named(void **state)
{
    (void)state;
    each_pass(tile_missing);
}

static void a_tile_twice_is_named(void **state)
{
    (void)state;
    each_pass(tile_twice);
}

static void a_stale_piece_is_named(void **state)
{
    (void)state;
    each_pass(stale_piece);
}

static void a_move_dropped_is_named(void **state)
{
    (void)state;
    each_pass(move_dropped);
    each_pass(move_cut);
    each_pass(move_twice);
}

static void a_buffer_reused_is_named(void **state)
{
    (void)state;
    each_pass(buffer_reused);
    each_pass(sum_overwrites);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tile_missing_is_named),  cmocka_unit_test(a_tile_twice_is_named),
        cmocka_unit_test(a_stale_piece_is_named),   cmocka_unit_test(a_move_dropped_is_named),
        cmocka_unit_test(a_buffer_reused_is_named), cmocka_unit_test(what_is_held_falsely_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
