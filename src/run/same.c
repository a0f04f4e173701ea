/* Digests of what all processes must have been given, and their comparison. */
#include "run/same.h"

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

static uint64_t mix_piece(uint64_t h, const rt_piece *x)
{
    h = mix(mix(mix(h, (uint64_t)x->side), (uint64_t)x->shard), (uint64_t)x->slot0);
    return mix(mix(mix(h, (uint64_t)x->slot1), (uint64_t)x->head0), (uint64_t)x->head1);
}

static uint64_t mix_pair(uint64_t h, int32_t a, int32_t b)
{
    return mix(mix(h, (uint64_t)a), (uint64_t)b);
}

/* Of all but the tiles. */
static uint64_t pass_digest(const rt_pass *a)
{
    uint64_t h = mix(mix(mix(1, (uint64_t)a->n_steps), (uint64_t)a->n_held), (uint64_t)a->n_moves);
    for (int64_t i = 0; i < a->n_steps; i++)
        h = mix(mix(h, (uint64_t)a->steps[i].move0), (uint64_t)a->steps[i].move1);
    for (int64_t i = 0; i < a->n_moves; i++) {
        const rt_move *m = &a->moves[i];
        h = mix_pair(mix_pair(mix_piece(h, &m->piece), m->from, m->to), m->src_buf, m->dst_buf);
        h = mix_pair(h, (int32_t)m->payload, (int32_t)m->how);
    }
    for (int64_t i = 0; i < a->n_held; i++) {
        const rt_held *x = &a->held[i];
        h = mix(mix_pair(mix_piece(h, &x->piece), x->rank, x->buf), (uint64_t)x->payload);
    }
    return h;
}

/* The sum over the ranks `of` of a digest of each one's tiles: sums over all ranks are equal if the tiles are. */
static rt_status tiles_digest(const rt_same *s, rt_ranks of, uint64_t *out)
{
    uint64_t *h = rt_calloc(s->ctx, s->plan->ranks, sizeof *h);
    if (h == NULL)
        return RT_ERR_NOMEM;
    for (int32_t r = 0; r < s->plan->ranks; r++)
        h[r] = mix(3, (uint64_t)r);
    for (int backward = 0; backward < 2; backward++) {
        const rt_pass *a = backward ? &s->plan->backward : &s->plan->forward;
        for (int64_t t = 0; t < a->n_steps; t++)
            for (int64_t i = a->steps[t].tile0; i < a->steps[t].tile1; i++) {
                const rt_tile *x = &a->tiles[i];
                if (x->rank < of.first || x->rank >= of.end)
                    continue;
                uint64_t *mine = &h[x->rank];
                *mine = mix_piece(mix_piece(mix(*mine, (uint64_t)(2 * t + backward)), &x->q), &x->kv);
                *mine = mix_pair(mix_pair(*mine, x->q_buf, x->kv_buf), x->dst_q, x->dst_kv);
                *mine = mix(mix(*mine, (uint64_t)x->call), (uint64_t)x->pairs);
            }
    }
    *out = 0;
    for (int32_t r = of.first; r < of.end; r++)
        *out += h[r];
    rt_free(h);
    return RT_OK;
}

/* The tiles of all processes are those of process 0's plan, which is whole. */
static rt_status same_tiles(const rt_same *s)
{
    const rt_plan *plan = s->plan;
    const bool root = s->comm->rank == 0;
    uint64_t sum = 0, whole = 0;
    rt_status st = RT_OK;
    if (plan->part && (root || plan->of.first > s->of.first || plan->of.end < s->of.end))
        st = rt_fail(s->ctx, RT_ERR_ARG,
                     "process %d was given the part of the plan with ranks [%d, %d); it needs %s",
                     s->comm->rank, (int)plan->of.first, (int)plan->of.end,
                     root ? "the whole, to prove it" : "those that it runs");
    if (s->comm->size == 1)
        return st;
    if (st == RT_OK)
        st = tiles_digest(s, s->of, &sum);
    if (st == RT_OK && root)
        st = tiles_digest(s, (rt_ranks){0, plan->ranks}, &whole);
    RT_TRY(rt_comm_agree(s->ctx, s->comm, st));
    RT_TRY(rt_comm_sum_words(s->ctx, s->comm, &sum, 1));
    if (root && sum != whole)
        st = rt_fail(
            s->ctx, RT_ERR_MPI,
            "the processes were not given the same plan: the tiles of some are not those of process "
            "0's. Hint: the same files and flags on every host");
    return rt_comm_agree(s->ctx, s->comm, st);
}

static uint64_t layout_digest(const rt_layout *l)
{
    uint64_t h = mix(1, (uint64_t)l->ranks);
    for (int side = 0; side < 2; side++) {
        for (int32_t r = 0; r <= l->ranks; r++)
            h = mix(h, (uint64_t)l->side[side].first[r]);
        for (int64_t i = 0; i < l->side[side].length; i++)
            h = mix(h, (uint64_t)l->side[side].pos[i]);
    }
    return h;
}

rt_status rt_run_same(const rt_same *s)
{
    RT_TRY(rt_comm_same(s->ctx, s->comm, rt_problem_digest(s->p), "problem"));
    RT_TRY(rt_comm_same(s->ctx, s->comm, layout_digest(s->l), "layout"));
    const uint64_t plan = mix(pass_digest(&s->plan->forward), pass_digest(&s->plan->backward));
    RT_TRY(rt_comm_same(s->ctx, s->comm, mix(plan, (uint64_t)s->plan->ranks), "plan"));
    RT_TRY(same_tiles(s));
    RT_TRY(rt_comm_same(s->ctx, s->comm, (uint64_t)s->transport, "transport"));
    uint64_t h = s->backward ? 1 : 2;
    for (const char *c = s->arithmetic; *c != '\0'; c++)
        h = mix(h, (uint64_t)*c);
    return rt_comm_same(s->ctx, s->comm, h, "arithmetic");
}
