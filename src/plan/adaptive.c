/* MindSpeed's adaptive schedule: greedy rounds over the grid of needed tiles.
 *
 * A tile is a pair of shards, needed where the mask leaves anything visible in it, or where a given grid says
 * so.  In round t each rank, in order, first looks for keys to fetch for its own queries: those of rank r + t
 * if that tile is needed, else those of r - 1, r - 2, .. while both ranks are within the round's budget.  Then
 * each rank that is still free looks for queries to help with, of rank r + 1, r + 2, .., within the budget,
 * and no rank's queries go to two helpers in a round.  The budget of a rank and round is 6 units, sent and
 * received: KV 2 at either end, Q 1 in the round, and 1 for the partial that goes home in the next. */
#include "plan/rounds.h"

#include "base/parameters.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { BUDGET = 6, UNITS_KV = 2, UNITS_Q = 1, UNITS_STATE = 1 };

typedef struct {
    uint8_t *grid;  /* P x P: still to be done */
    int64_t *units; /* P: of this round */
    int64_t *next;  /* P: of the next */
    bool *q_sent;   /* P */
    int64_t left;   /* tiles to be done */
} greedy;

static bool tile_take(greedy *g, int32_t ranks, int32_t q, int32_t kv, rt_task *out)
{
    uint8_t *tile = g->grid + (int64_t)q * ranks + kv;
    if (*tile == 0)
        return false;
    *tile = 0;
    g->left--;
    *out = (rt_task){q, kv};
    return true;
}

/* Keys for the rank's own queries.  The first choice has no budget: so every tile's turn comes. */
static void take_keys(greedy *g, int32_t ranks, int64_t round, int32_t r, rt_task *out)
{
    for (int32_t i = 0; i < ranks; i++) {
        const int32_t kv = (int32_t)(i == 0 ? (r + round) % ranks : (r - i + ranks) % ranks);
        const bool free = g->units[r] + UNITS_KV <= BUDGET && g->units[kv] + UNITS_KV <= BUDGET;
        if ((i == 0 || free) && tile_take(g, ranks, r, kv, out)) {
            g->units[r] += UNITS_KV;
            g->units[kv] += UNITS_KV; /* the rank's own keys count twice */
            return;
        }
    }
}

static void take_queries(greedy *g, int32_t ranks, int32_t r, rt_task *out)
{
    for (int32_t i = 1; i < ranks; i++) {
        const int32_t q = (r + i) % ranks;
        if (g->q_sent[q] || g->units[q] + UNITS_Q > BUDGET || g->units[r] + UNITS_Q > BUDGET ||
            !tile_take(g, ranks, q, r, out))
            continue;
        g->q_sent[q] = true;
        g->units[q] += UNITS_Q;
        g->units[r] += UNITS_Q;
        g->next[q] += UNITS_STATE;
        g->next[r] += UNITS_STATE;
        return;
    }
}

static rt_status greedy_rounds(rt_context *ctx, greedy *g, rt_schedule *s)
{
    const size_t n = (size_t)s->ranks;
    for (int64_t i = 0; i < (int64_t)s->ranks * s->ranks; i++)
        g->left += g->grid[i];
    for (int64_t t = 0; g->left > 0; t++) {
        rt_task *row;
        RT_TRY(rt_schedule_round(ctx, s, &row));
        memcpy(g->units, g->next, n * sizeof *g->units);
        memset(g->next, 0, n * sizeof *g->next);
        memset(g->q_sent, 0, n * sizeof *g->q_sent);
        for (int32_t r = 0; r < s->ranks; r++)
            take_keys(g, s->ranks, t, r, &row[r]);
        for (int32_t r = 0; r < s->ranks; r++)
            if (row[r].q < 0)
                take_queries(g, s->ranks, r, &row[r]);
    }
    return RT_OK;
}

/* The next character of a given grid: from the file, or from the text. */
static int grid_next(FILE *f, const char **text, const char *end)
{
    if (f != NULL)
        return getc(f);
    return *text < end ? *(*text)++ : EOF;
}

/* P rows of P digits 0 or 1; slashes, commas, spaces and line ends between them count for nothing. */
static rt_status grid_read(rt_context *ctx, FILE *f, const char *text, const char *end, int32_t ranks,
                           uint8_t *grid)
{
    const int64_t want = (int64_t)ranks * ranks;
    int64_t n = 0;
    for (int ch = grid_next(f, &text, end); ch != EOF; ch = grid_next(f, &text, end)) {
        if (ch > 0 && strchr("/, \t\r\n", ch) != NULL)
            continue;
        if (ch != '0' && ch != '1')
            return rt_fail(ctx, RT_ERR_ARG,
                           "plan adaptive: the grid has '%c'; it is P rows of P digits 0 or 1, \"10/11\"",
                           ch >= ' ' ? ch : '?');
        if (n < want)
            grid[n] = ch == '1';
        n++;
    }
    if (f != NULL && ferror(f))
        return rt_fail(ctx, RT_ERR_IO, "plan adaptive: cannot read the grid: %s", strerror(errno));
    if (n != want)
        return rt_fail(ctx, RT_ERR_ARG,
                       "plan adaptive: the grid has %lld tiles; %d ranks have %d rows of %d", (long long)n,
                       (int)ranks, (int)ranks, (int)ranks);
    return RT_OK;
}

/* Replace the mask's grid by the given one, which must have all of its tiles. */
static rt_status grid_given(rt_context *ctx, const rt_plan_options *o, int32_t ranks, uint8_t *grid)
{
    int length = 0;
    const char *text = rt_parameters_find(o != NULL ? o->parameters : NULL, "grid", &length);
    if (text == NULL)
        return RT_OK;
    uint8_t *given = rt_calloc(ctx, (int64_t)ranks * ranks, 1);
    if (given == NULL)
        return RT_ERR_NOMEM;
    FILE *f = NULL;
    char *path = NULL;
    rt_status status = RT_OK;
    if (text[0] == '@')
        status = rt_parameters_path(ctx, o->folder, text + 1, length - 1, &path);
    if (path != NULL) {
        f = fopen(path, "r");
        if (f == NULL)
            status = rt_fail(ctx, RT_ERR_IO, "plan adaptive: cannot open the grid '%s': %s", path,
                             strerror(errno));
    }
    if (status == RT_OK)
        status = grid_read(ctx, f, text, text + length, ranks, given);
    for (int64_t i = 0; i < (int64_t)ranks * ranks && status == RT_OK; i++) {
        if (grid[i] && !given[i])
            status =
                rt_fail(ctx, RT_ERR_ARG,
                        "plan adaptive: the grid lacks tile q%lldk%lld, in which the mask leaves pairs",
                        (long long)(i / ranks), (long long)(i % ranks));
        grid[i] = given[i];
    }
    if (f != NULL)
        (void)fclose(f);
    rt_free(path);
    rt_free(given);
    return status;
}

const rt_plan_parameter rt_adaptive_parameters[] = {
    {"grid", "ROW/ROW/.. | @FILE",
     "the tiles to compute, P rows of P digits 0 or 1 (default: those that the mask needs)"},
    {NULL, NULL, NULL}};

rt_status rt_plan_adaptive(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                           const rt_plan_options *o, rt_plan *out)
{
    rt_schedule s;
    greedy g;
    memset(&s, 0, sizeof s);
    memset(&g, 0, sizeof g);
    s.ranks = l->ranks;
    rt_pair_counter c;
    RT_TRY(rt_pair_counter_init(ctx, p, l, &c));
    g.units = rt_calloc(ctx, l->ranks, sizeof *g.units);
    g.next = rt_calloc(ctx, l->ranks, sizeof *g.next);
    g.q_sent = rt_calloc(ctx, l->ranks, sizeof *g.q_sent);
    rt_status status = RT_ERR_NOMEM;
    if (g.units != NULL && g.next != NULL && g.q_sent != NULL)
        status = rt_shard_grid(ctx, &c, &g.grid);
    rt_pair_counter_reset(&c);
    if (status == RT_OK)
        status = grid_given(ctx, o, l->ranks, g.grid);
    if (status == RT_OK)
        status = greedy_rounds(ctx, &g, &s);
    if (status == RT_OK)
        status = rt_plan_passes(ctx, p, l, o, rt_rounds_pass, &s, out);
    rt_free(g.grid);
    rt_free(g.units);
    rt_free(g.next);
    rt_free(g.q_sent);
    rt_schedule_reset(&s);
    return status;
}
