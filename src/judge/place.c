/* Where an element lives, and which steps of the plan brought what it was made of. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <ringtrue/judge.h>

static void append(char *text, size_t size, const char *format, ...) RT_PRINTF(3, 4);

static void append(char *text, size_t size, const char *format, ...)
{
    const size_t used = strlen(text);
    if (used + 1 >= size)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

static bool in_piece(const rt_piece *p, int32_t shard, int64_t slot)
{
    return p->shard == shard && slot >= p->slot0 && slot < p->slot1;
}

/* A gradient of the bias: who holds the query, and the step that computed the pair. */
static void bias_place(const rt_problem *p, const rt_layout *l, const rt_plan *plan, const rt_element *e,
                       char *text, size_t size)
{
    const rt_layout_side *q = &l->side[RT_SIDE_Q], *k = &l->side[RT_SIDE_KV];
    const int32_t shard = k->rank_of[e->dim];
    text[0] = '\0';
    if (p->bias_shape[2] == 1 && p->seqlen_q > 1) {
        append(text, size, "summed over the queries; key %lld is slot %lld of shard %d", (long long)e->dim,
               (long long)k->slot_of[e->dim], shard);
        return;
    }
    append(text, size, "query of rank %d, slot %lld; key %lld of shard %d", q->rank_of[e->pos],
           (long long)q->slot_of[e->pos], (long long)e->dim, shard);
    const rt_pass *pass = &plan->backward;
    for (int64_t step = 0; step < pass->n_steps; step++)
        for (int64_t i = pass->steps[step].tile0; i < pass->steps[step].tile1; i++) {
            const rt_tile *tile = &pass->tiles[i];
            if (e->head < tile->q.head0 || e->head >= tile->q.head1 ||
                !in_piece(&tile->q, q->rank_of[e->pos], q->slot_of[e->pos]) ||
                !in_piece(&tile->kv, shard, k->slot_of[e->dim]))
                continue;
            append(text, size, " at step %lld on rank %d", (long long)step, tile->rank);
            return;
        }
}

void rt_element_place(const rt_problem *p, const rt_layout *l, const rt_plan *plan, rt_tensor_id t,
                      const rt_element *e, char *text, size_t size)
{
    if (t == RT_DSINK) {
        snprintf(text, size, "summed over the rows of the head in every batch");
        return;
    }
    if (t == RT_DBIAS) {
        bias_place(p, l, plan, e, text, size);
        return;
    }
    const bool key_side = t == RT_K || t == RT_V || t == RT_DK || t == RT_DV;
    const rt_layout_side *side = &l->side[key_side ? RT_SIDE_KV : RT_SIDE_Q];
    const int32_t owner = side->rank_of[e->pos];
    const int64_t slot = side->slot_of[e->pos], slots = side->first[owner + 1] - side->first[owner];
    text[0] = '\0';
    if (p->documents > 0)
        append(text, size, "document %lld, ",
               (long long)(key_side ? rt_document_of_key(p, e->pos) : rt_document_of_query(p, e->pos)));
    append(text, size, "owner rank %d, slot %lld of %lld", owner, (long long)slot, (long long)slots);
    if (side->row_of != NULL)
        append(text, size, ", row %lld of its tensors", (long long)side->row_of[e->pos]);
    if (side->half[owner] > 0 && side->half[owner] < slots)
        append(text, size, slot < side->half[owner] ? " (first half)" : " (second half)");
    /* Steps: of a query, those that computed its row; of a key, those that computed its gradient. */
    const bool backward = t == RT_DQ || key_side;
    const rt_pass *pass = backward ? &plan->backward : &plan->forward;
    const int64_t head = key_side ? e->head * (p->heads_q / p->heads_kv) : e->head;
    int listed = 0;
    for (int64_t step = 0; step < pass->n_steps && listed <= 8; step++)
        for (int64_t i = pass->steps[step].tile0; i < pass->steps[step].tile1; i++) {
            const rt_tile *tile = &pass->tiles[i];
            if (head < tile->q.head0 || head >= tile->q.head1 ||
                !in_piece(key_side ? &tile->kv : &tile->q, owner, slot))
                continue;
            const rt_side other = key_side ? RT_SIDE_Q : RT_SIDE_KV;
            const rt_piece *source = key_side ? &tile->q : &tile->kv;
            const int64_t *pos = rt_layout_positions(l, other, source->shard) + source->slot0;
            bool any = false;
            for (int64_t x = 0; x < source->slot1 - source->slot0 && !any; x++)
                any = key_side ? rt_mask_visible(p, e->b, pos[x], e->pos)
                               : rt_mask_visible(p, e->b, e->pos, pos[x]);
            if (!any)
                continue;
            if (listed++ == 8) {
                append(text, size, ", ..");
                break;
            }
            append(text, size, "%s%s of shard %d at step %lld", listed == 1 ? "; " : ", ",
                   key_side ? "queries" : "keys", source->shard, (long long)step);
        }
    if (listed == 0)
        append(text, size, key_side ? "; no query sees it" : "; it sees no key");
}
