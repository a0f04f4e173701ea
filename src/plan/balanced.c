/* The balanced schedule of DistFlashAttn (LightSeq).  In round t rank r computes its queries against the keys
 * of rank r - t, as a ring does.  Where the mask empties that pair, as causal does for r < t, the rank helps
 * instead: it computes the queries of rank r - t against its own keys, the mirrored pair, which would
 * otherwise wait for round P - t.  Under a causal mask on contiguous shards the P (P + 1) / 2 pairs take
 * floor(P / 2) + 1 rounds; for even P the ranks below P / 2 are idle in the last one (its mirrored pairs are
 * the others' own).  Where no pair is empty it is the schedule of the ring. */
#include "plan/rounds.h"

#include <string.h>

/* Round t of the schedule, unless nobody has anything to do in it. */
static rt_status balanced_round(rt_context *ctx, rt_schedule *s, uint8_t *grid, int32_t t)
{
    const int32_t ranks = s->ranks;
    rt_task *row;
    bool any = false;
    RT_TRY(rt_schedule_round(ctx, s, &row));
    for (int32_t r = 0; r < ranks; r++) {
        const int32_t other = (r - t + ranks) % ranks;
        uint8_t *own = grid + (int64_t)r * ranks + other, *mirrored = grid + (int64_t)other * ranks + r;
        if (*own) {
            row[r] = (rt_task){r, other};
            *own = 0;
        } else if (2 * t < ranks && *mirrored) {
            row[r] = (rt_task){other, r};
            *mirrored = 0;
        }
        any = any || row[r].q >= 0;
    }
    s->rounds -= !any;
    return RT_OK;
}

rt_status rt_plan_balanced(rt_context *ctx, const rt_problem *p, const rt_layout *l,
                           const rt_plan_options *o, rt_plan *out)
{
    rt_schedule s;
    memset(&s, 0, sizeof s);
    s.ranks = l->ranks;
    uint8_t *grid = NULL;
    rt_pair_counter c;
    RT_TRY(rt_pair_counter_init(ctx, p, l, &c));
    rt_status status = rt_shard_grid(ctx, &c, &grid);
    for (int32_t t = 0; t < l->ranks && status == RT_OK; t++)
        status = balanced_round(ctx, &s, grid, t);
    rt_pair_counter_reset(&c);
    if (status == RT_OK)
        status = rt_plan_passes(ctx, p, l, o, rt_rounds_pass, &s, out);
    rt_free(grid);
    rt_schedule_reset(&s);
    return status;
}
