/* A plan as text, one self-describing row a tile or move, and as JSON. */
#include "plan/build.h"

#include <ringtrue/cost.h>

#include <errno.h>
#include <string.h>

/* The bytes that the printed counters are for: 2-byte inputs on the wire, 4-byte gradients and states. */
static const rt_wire_sizes print_wire = {2.0, 4.0, 4.0};

static const char *pass_name(bool backward)
{
    return backward ? "backward" : "forward";
}

static const char *text_or(const char *s)
{
    return s != NULL ? s : "?";
}

static double sent_total(const rt_counters *c, int32_t r)
{
    double sum = 0.0;
    for (int k = 0; k < RT_PAYLOAD_COUNT; k++)
        sum += c->sent[k][r];
    return sum;
}

static rt_status print_done(rt_context *ctx, FILE *f)
{
    if (fflush(f) != 0 || ferror(f))
        return rt_fail(ctx, RT_ERR_IO, "the plan could not be written: %s", strerror(errno));
    return RT_OK;
}

static void text_counters(FILE *f, const rt_counters *c, bool backward)
{
    const char *name = pass_name(backward);
    fprintf(
        f,
        "# %s: steps %lld, critical path %lld pairs, most partials of a row %lld, work max/mean %.4f, idle "
        "%lld of %lld slots\n",
        name, (long long)c->steps, (long long)c->critical_pairs, (long long)c->max_partials,
        c->max_over_mean, (long long)c->idle_slots, (long long)c->slots);
    fprintf(f, "# %-8s %6s %18s %18s %18s %9s %8s %14s", "pass", "rank", "pairs(all heads)", "flops",
            "sent(B)", "messages", "buffers", "elements");
    for (int k = 0; k < RT_PAYLOAD_COUNT; k++)
        fprintf(f, " %13s(B)", rt_payload_name((rt_payload)k));
    fprintf(f, "\n");
    for (int32_t r = 0; r < c->ranks; r++) {
        fprintf(f, "# %-8s %6d %18lld %18.0f %18.0f %9lld %8lld %14lld", name, (int)r,
                (long long)c->pairs[r], c->flops[r], sent_total(c, r), (long long)c->messages[r],
                (long long)c->buffers[r], (long long)c->elements[r]);
        for (int k = 0; k < RT_PAYLOAD_COUNT; k++)
            fprintf(f, " %16.0f", c->sent[k][r]);
        fprintf(f, "\n");
    }
}

/* What need not be sent again. */
static void text_held(FILE *f, const rt_pass *backward, const rt_counters *c)
{
    int64_t most = 0;
    for (int32_t r = 0; r < c->ranks; r++)
        most = c->held[r] > most ? c->held[r] : most;
    if (backward->n_held > 0)
        fprintf(
            f,
            "# held: %lld pieces of Q and KV stay where the forward brought them and are not sent again, "
            "up to %lld elements a rank\n",
            (long long)backward->n_held, (long long)most);
}

static void text_range(FILE *f, int64_t a, int64_t b)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%lld:%lld", (long long)a, (long long)b);
    fprintf(f, " %15s", text);
}

static void text_piece(FILE *f, const rt_piece *piece)
{
    fprintf(f, " %6d", (int)piece->shard);
    text_range(f, piece->slot0, piece->slot1);
    text_range(f, piece->head0, piece->head1);
}

static void text_rows(FILE *f, const rt_pass *pass, bool backward)
{
    for (int64_t i = 0; i < pass->n_held && backward; i++) {
        const rt_held *x = &pass->held[i];
        fprintf(f, "  %-8s %6s %-4s %6d %6d %-7s %-4s", pass_name(backward), "-", "held", (int)x->rank,
                (int)x->rank, text_or(rt_payload_name(x->payload)), "-");
        text_piece(f, &x->piece);
        fprintf(f, " %5d %5s %6s %15s %15s %6s %6s %14s %5s\n", (int)x->buf, "-", "-", "-", "-", "-", "-",
                "-", "-");
    }
    for (int64_t t = 0; t < pass->n_steps; t++) {
        for (int64_t i = pass->steps[t].move0; i < pass->steps[t].move1; i++) {
            const rt_move *x = &pass->moves[i];
            fprintf(f, "  %-8s %6lld %-4s %6d %6d %-7s %-4s", pass_name(backward), (long long)t, "move",
                    (int)x->from, (int)x->to, text_or(rt_payload_name(x->payload)),
                    text_or(rt_how_name(x->how)));
            text_piece(f, &x->piece);
            fprintf(f, " %5d %5d %6s %15s %15s %6s %6s %14s %5s\n", (int)x->src_buf, (int)x->dst_buf, "-",
                    "-", "-", "-", "-", "-", "-");
        }
        for (int64_t i = pass->steps[t].tile0; i < pass->steps[t].tile1; i++) {
            const rt_tile *x = &pass->tiles[i];
            fprintf(f, "  %-8s %6lld %-4s %6d %6d %-7s %-4s", pass_name(backward), (long long)t, "tile",
                    (int)x->rank, (int)x->rank, "Q", "-");
            text_piece(f, &x->q);
            fprintf(f, " %5d %5d", (int)x->q_buf, (int)x->dst_q);
            text_piece(f, &x->kv);
            if (backward)
                fprintf(f, " %6d %6d", (int)x->kv_buf, (int)x->dst_kv);
            else
                fprintf(f, " %6d %6s", (int)x->kv_buf, "-");
            fprintf(f, " %14lld %5d\n", (long long)x->pairs, (int)x->call);
        }
    }
}

static void text_cost(FILE *f, const rt_pass_cost *c, bool backward)
{
    for (int64_t t = 0; t <= c->steps; t++) {
        const rt_step_cost *x = t < c->steps ? &c->step[t] : &c->total;
        char number[24] = "total";
        if (t < c->steps)
            (void)snprintf(number, sizeof number, "%lld", (long long)t);
        fprintf(f, "# %-8s %6s %14.6e %14.6e %14.6e %14.6e\n", pass_name(backward), number, x->compute,
                x->comm, x->time, x->exposed);
    }
}

/* What the plan takes on a machine. */
static rt_status text_costs(rt_context *ctx, FILE *f, const rt_plan *plan, const rt_problem *p,
                            const rt_layout *l, const rt_machine *machine)
{
    rt_pass_cost c[2];
    RT_TRY(rt_plan_cost(ctx, &plan->forward, p, l, &print_wire, machine, false, &c[0]));
    rt_status status = rt_plan_cost(ctx, &plan->backward, p, l, &print_wire, machine, true, &c[1]);
    if (status == RT_OK) {
        fprintf(
            f,
            "# cost: %.6g B/s each way and %.6g s a message on the link of a rank, %.6g FLOP/s a rank; a "
            "step takes the larger of its compute and its communication\n",
            machine->bandwidth, machine->latency, machine->flops);
        fprintf(f, "# %-8s %6s %14s %14s %14s %14s\n", "pass", "step", "compute(s)", "comm(s)", "time(s)",
                "exposed(s)");
        text_cost(f, &c[0], false);
        text_cost(f, &c[1], true);
        fprintf(f, "# forward and backward: %.6e s, of which %.6e s of exposed communication\n",
                c[0].total.time + c[1].total.time, c[0].total.exposed + c[1].total.exposed);
        rt_pass_cost_reset(&c[1]);
    }
    rt_pass_cost_reset(&c[0]);
    return status;
}

static void json_step_cost(FILE *f, const rt_step_cost *x)
{
    fprintf(f, "{\"compute\": %.17g, \"comm\": %.17g, \"time\": %.17g, \"exposed\": %.17g}", x->compute,
            x->comm, x->time, x->exposed);
}

static rt_status json_costs(rt_context *ctx, FILE *f, const rt_plan *plan, const rt_problem *p,
                            const rt_layout *l, const rt_machine *machine)
{
    fprintf(f, "  \"cost\": {\"bandwidth\": %.17g, \"latency\": %.17g, \"flops\": %.17g",
            machine->bandwidth, machine->latency, machine->flops);
    for (int backward = 0; backward < 2; backward++) {
        rt_pass_cost c;
        RT_TRY(rt_plan_cost(ctx, backward ? &plan->backward : &plan->forward, p, l, &print_wire, machine,
                            backward, &c));
        fprintf(f, ",\n    \"%s\": {\"total\": ", pass_name(backward));
        json_step_cost(f, &c.total);
        fprintf(f, ", \"steps\": [");
        for (int64_t t = 0; t < c.steps; t++) {
            fprintf(f, "%s\n      ", t > 0 ? "," : "");
            json_step_cost(f, &c.step[t]);
        }
        fprintf(f, "]}");
        rt_pass_cost_reset(&c);
    }
    fprintf(f, "},\n");
    return RT_OK;
}

static void text_head(FILE *f, const rt_plan *plan, const rt_problem *p, const rt_layout *l)
{
    char mask[RT_MASK_TEXT];
    fprintf(f, "# plan %s, layout %s, remainder %s, %d ranks\n", plan->name, l->name,
            text_or(rt_remainder_name(l->remainder)), (int)plan->ranks);
    if (l->note[0] != '\0')
        fprintf(f, "# note: %s\n", l->note);
    fprintf(f, "# batch %lld, Sq %lld, Sk %lld, heads %lld/%lld, dim %lld/%lld, mask %s, documents %lld\n",
            (long long)p->batch, (long long)p->seqlen_q, (long long)p->seqlen_k, (long long)p->heads_q,
            (long long)p->heads_kv, (long long)p->dim, (long long)p->dim_v, rt_mask_text(mask, p),
            (long long)p->documents);
    char scores[RT_SCORE_TEXT];
    if (rt_problem_has_scores(p))
        fprintf(f, "# scores %s\n", rt_score_text(scores, p));
    fprintf(f,
            "# bytes are for %.0f-byte Q, K, V and dO, %.0f-byte gradients and %.0f-byte partial outputs "
            "on the wire\n",
            print_wire.kv, print_wire.dkv, print_wire.state);
}

static rt_status counters_both(rt_context *ctx, const rt_plan *plan, const rt_problem *p,
                               const rt_layout *l, rt_counters c[2])
{
    RT_TRY(rt_plan_count(ctx, &plan->forward, p, l, &print_wire, false, &c[0]));
    rt_status status = rt_plan_count(ctx, &plan->backward, p, l, &print_wire, true, &c[1]);
    if (status != RT_OK)
        rt_counters_reset(&c[0]);
    return status;
}

rt_status rt_plan_print(rt_context *ctx, FILE *f, const rt_plan *plan, const rt_problem *p,
                        const rt_layout *l, const rt_plan_print_options *o)
{
    rt_counters c[2];
    rt_status status = RT_OK;
    RT_TRY(counters_both(ctx, plan, p, l, c));
    text_head(f, plan, p, l);
    text_counters(f, &c[0], false);
    text_counters(f, &c[1], true);
    text_held(f, &plan->backward, &c[1]);
    if (o->verified)
        fprintf(f, "# verified: every visible pair once forward and once backward, every result home, no "
                   "buffer overwritten in use\n");
    if (o->table) {
        fprintf(f, "# qXkY: the rank computes queries of shard X against keys of shard Y; . nothing\n");
        status = rt_pass_table(ctx, f, &plan->forward, plan->ranks, pass_name(false));
        if (status == RT_OK)
            status = rt_pass_table(ctx, f, &plan->backward, plan->ranks, pass_name(true));
    }
    if (status == RT_OK && o->machine != NULL)
        status = text_costs(ctx, f, plan, p, l, o->machine);
    if (o->summary || o->table || status != RT_OK)
        goto counted;
    fprintf(
        f, "# a tile is computed by its rank: `shard slots heads` are its queries, the k columns its keys; "
           "src and dst are buffers, 0 is home; what is held is in src when the backward begins\n# tiles "
           "of one rank, step and call are one call of a kernel; "
           "moves are started before the tiles of their step, of which each rank's longest come first\n");
    fprintf(f, "# %-8s %6s %-4s %6s %6s %-7s %-4s %6s %15s %15s %5s %5s %6s %15s %15s %6s %6s %14s %5s\n",
            "pass", "step", "kind", "from", "to", "payload", "how", "shard", "slots", "heads", "src", "dst",
            "kshard", "kslots", "kheads", "ksrc", "kdst", "pairs", "call");
    fprintf(f, "# %-8s %6s %-4s %6s %6s %-7s %-4s %6s %15s %15s %5s %5s %6s %15s %15s %6s %6s %14s %5s\n",
            "", "", "", "(rank)", "(rank)", "", "", "(rank)", "(tokens)", "(heads)", "(buf)", "(buf)",
            "(rank)", "(tokens)", "(heads)", "(buf)", "(buf)", "(per head)", "");
    text_rows(f, &plan->forward, false);
    text_rows(f, &plan->backward, true);
counted:
    rt_counters_reset(&c[0]);
    rt_counters_reset(&c[1]);
    return status == RT_OK ? print_done(ctx, f) : status;
}

static void json_piece(FILE *f, const char *key, const rt_piece *x)
{
    fprintf(f, "\"%s\": {\"shard\": %d, \"slots\": [%lld, %lld], \"heads\": [%lld, %lld]}", key,
            (int)x->shard, (long long)x->slot0, (long long)x->slot1, (long long)x->head0,
            (long long)x->head1);
}

static void json_integers(FILE *f, const char *key, const int64_t *x, int32_t n)
{
    fprintf(f, "\"%s\": [", key);
    for (int32_t i = 0; i < n; i++)
        fprintf(f, "%s%lld", i > 0 ? ", " : "", (long long)x[i]);
    fprintf(f, "]");
}

/* Whole numbers, which a double holds exactly to 2^53. */
static void json_reals(FILE *f, const char *key, const double *x, int32_t n)
{
    fprintf(f, "\"%s\": [", key);
    for (int32_t i = 0; i < n; i++)
        fprintf(f, "%s%.17g", i > 0 ? ", " : "", x[i]);
    fprintf(f, "]");
}

static void json_counters(FILE *f, const rt_counters *c, bool summary)
{
    fprintf(f,
            "    \"counters\": {\"steps\": %lld, \"critical_pairs\": %lld, \"max_partials\": %lld, "
            "\"max_over_mean\": "
            "%.17g, \"slots\": %lld, \"idle_slots\": %lld,\n      ",
            (long long)c->steps, (long long)c->critical_pairs, (long long)c->max_partials, c->max_over_mean,
            (long long)c->slots, (long long)c->idle_slots);
    json_integers(f, "pairs", c->pairs, c->ranks);
    fprintf(f, ",\n      ");
    json_reals(f, "flops", c->flops, c->ranks);
    fprintf(f, ",\n      ");
    json_integers(f, "messages", c->messages, c->ranks);
    fprintf(f, ",\n      ");
    json_integers(f, "buffers", c->buffers, c->ranks);
    fprintf(f, ",\n      ");
    json_integers(f, "elements", c->elements, c->ranks);
    fprintf(f, ",\n      ");
    json_integers(f, "held", c->held, c->ranks);
    if (!summary) {
        fprintf(f, ",\n      \"step_pairs\": [");
        for (int64_t t = 0; t < c->steps; t++) {
            for (int32_t r = 0; r < c->ranks; r++)
                fprintf(f, "%s%lld",
                        r > 0   ? ", "
                        : t > 0 ? ", ["
                                : "[",
                        (long long)c->step_pairs[t * c->ranks + r]);
            fprintf(f, "]");
        }
        fprintf(f, "]");
    }
    fprintf(f, ",\n      \"sent_bytes\": {");
    for (int k = 0; k < RT_PAYLOAD_COUNT; k++) {
        fprintf(f, "%s", k > 0 ? ",\n        " : "");
        json_reals(f, rt_payload_name((rt_payload)k), c->sent[k], c->ranks);
    }
    fprintf(f, "}}");
}

static void json_pass(FILE *f, const rt_pass *pass, const rt_counters *c, bool backward, bool summary)
{
    fprintf(f, "  \"%s\": {\n    \"held\": [", pass_name(backward));
    for (int64_t i = 0; i < pass->n_held && !summary; i++) {
        const rt_held *x = &pass->held[i];
        fprintf(f, "%s\n      {\"payload\": \"%s\", ", i > 0 ? "," : "",
                text_or(rt_payload_name(x->payload)));
        json_piece(f, "piece", &x->piece);
        fprintf(f, ", \"rank\": %d, \"buf\": %d}", (int)x->rank, (int)x->buf);
    }
    fprintf(f, "],\n    \"steps\": [");
    for (int64_t t = 0; t < pass->n_steps && !summary; t++) {
        const rt_step *step = &pass->steps[t];
        fprintf(f, "%s\n      {\"tiles\": [", t > 0 ? "," : "");
        for (int64_t i = step->tile0; i < step->tile1; i++) {
            const rt_tile *x = &pass->tiles[i];
            fprintf(f, "%s\n        {\"rank\": %d, ", i > step->tile0 ? "," : "", (int)x->rank);
            json_piece(f, "q", &x->q);
            fprintf(f, ", ");
            json_piece(f, "kv", &x->kv);
            fprintf(f,
                    ", \"q_buf\": %d, \"kv_buf\": %d, \"dst_q\": %d, \"dst_kv\": %d, \"pairs\": %lld, "
                    "\"call\": %d}",
                    (int)x->q_buf, (int)x->kv_buf, (int)x->dst_q, (int)x->dst_kv, (long long)x->pairs,
                    (int)x->call);
        }
        fprintf(f, "],\n       \"moves\": [");
        for (int64_t i = step->move0; i < step->move1; i++) {
            const rt_move *x = &pass->moves[i];
            fprintf(f, "%s\n        {\"payload\": \"%s\", ", i > step->move0 ? "," : "",
                    text_or(rt_payload_name(x->payload)));
            json_piece(f, "piece", &x->piece);
            fprintf(f, ", \"from\": %d, \"to\": %d, \"src_buf\": %d, \"dst_buf\": %d, \"how\": \"%s\"}",
                    (int)x->from, (int)x->to, (int)x->src_buf, (int)x->dst_buf,
                    text_or(rt_how_name(x->how)));
        }
        fprintf(f, "]}");
    }
    fprintf(f, "],\n");
    json_counters(f, c, summary);
    fprintf(f, "}");
}

rt_status rt_plan_print_json(rt_context *ctx, FILE *f, const rt_plan *plan, const rt_problem *p,
                             const rt_layout *l, const rt_plan_print_options *o)
{
    rt_counters c[2];
    char mask[RT_MASK_TEXT];
    RT_TRY(counters_both(ctx, plan, p, l, c));
    fprintf(f,
            "{\"schema\": 1, \"kind\": \"plan\", \"planner\": \"%s\", \"layout\": \"%s\", \"remainder\": "
            "\"%s\", "
            "\"ranks\": %d, \"note\": \"%s\", \"verified\": %s,\n",
            plan->name, l->name, text_or(rt_remainder_name(l->remainder)), (int)plan->ranks, l->note,
            o->verified ? "true" : "false");
    fprintf(
        f,
        "  \"problem\": {\"batch\": %lld, \"seqlen\": %lld, \"seqlen_k\": %lld, \"heads\": %lld, "
        "\"kv_heads\": %lld, "
        "\"dim\": %lld, \"dim_v\": %lld, \"mask\": \"%s\", \"mask_text\": \"%s\", \"documents\": %lld},\n",
        (long long)p->batch, (long long)p->seqlen_q, (long long)p->seqlen_k, (long long)p->heads_q,
        (long long)p->heads_kv, (long long)p->dim, (long long)p->dim_v, text_or(rt_mask_name(p->mask)),
        rt_mask_text(mask, p), (long long)p->documents);
    fprintf(f, "  \"wire_bytes\": {\"kv\": %.17g, \"dkv\": %.17g, \"state\": %.17g, \"statistics\": 4},\n",
            print_wire.kv, print_wire.dkv, print_wire.state);
    rt_status status = RT_OK;
    if (o->machine != NULL)
        status = json_costs(ctx, f, plan, p, l, o->machine);
    json_pass(f, &plan->forward, &c[0], false, o->summary);
    fprintf(f, ",\n");
    json_pass(f, &plan->backward, &c[1], true, o->summary);
    fprintf(f, "}\n");
    rt_counters_reset(&c[0]);
    rt_counters_reset(&c[1]);
    return status != RT_OK ? status : print_done(ctx, f);
}
