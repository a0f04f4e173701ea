/* Parts of plans: what a process needs that runs some of the ranks. */
#include "planned.h"
#include "schedules.h"

static bool same_piece(const rt_piece *a, const rt_piece *b)
{
    return a->side == b->side && a->shard == b->shard && a->slot0 == b->slot0 && a->slot1 == b->slot1 &&
           a->head0 == b->head0 && a->head1 == b->head1;
}

static bool same_tile(const rt_tile *a, const rt_tile *b)
{
    return a->rank == b->rank && same_piece(&a->q, &b->q) && same_piece(&a->kv, &b->kv) &&
           a->q_buf == b->q_buf && a->kv_buf == b->kv_buf && a->dst_q == b->dst_q &&
           a->dst_kv == b->dst_kv && a->pairs == b->pairs && a->call == b->call;
}

static bool same_move(const rt_move *a, const rt_move *b)
{
    return a->payload == b->payload && same_piece(&a->piece, &b->piece) && a->from == b->from &&
           a->to == b->to && a->src_buf == b->src_buf && a->dst_buf == b->dst_buf && a->how == b->how;
}

/* The whole without the tiles of other ranks: nothing else is missing, or in another order. */
static bool is_part(const rt_pass *whole, const rt_pass *part, rt_ranks of)
{
    bool same =
        whole->n_steps == part->n_steps && whole->n_moves == part->n_moves && whole->n_held == part->n_held;
    for (int64_t i = 0; i < whole->n_moves && same; i++)
        same = same_move(&whole->moves[i], &part->moves[i]);
    for (int64_t i = 0; i < whole->n_held && same; i++) {
        const rt_held *a = &whole->held[i], *b = &part->held[i];
        same = a->payload == b->payload && same_piece(&a->piece, &b->piece) && a->rank == b->rank &&
               a->buf == b->buf;
    }
    int64_t at = 0;
    for (int64_t t = 0; t < whole->n_steps && same; t++) {
        const rt_step *x = &whole->steps[t], *y = &part->steps[t];
        same = x->move0 == y->move0 && x->move1 == y->move1 && y->tile0 == at;
        for (int64_t i = x->tile0; i < x->tile1 && same; i++)
            if (whole->tiles[i].rank >= of.first && whole->tiles[i].rank < of.end)
                same = at < y->tile1 && same_tile(&whole->tiles[i], &part->tiles[at++]);
        same = same && y->tile1 == at;
    }
    return same && part->n_tiles == at;
}

static const char *const more_variants[] = {"ring:move=needed",
                                            "ring:backward=own-last",
                                            "ring:join=end,gradient=end",
                                            "ring:gradient=end,backward=own-last,move=needed",
                                            "double-ring",
                                            "all-gather",
                                            "all-gather:form=chunks",
                                            "all-gather:form=rotate",
                                            "ulysses",
                                            "ulysses:keep=no,heads=pad",
                                            "hybrid",
                                            "hybrid:order=ring-low,move=needed,backward=own-last",
                                            "single",
                                            "pass-q",
                                            NULL};

static void parts_have_the_tiles_of_their_ranks(void **state)
{
    (void)state;
    int64_t tiles = 0;
    for (int round = 0; round < 24; round++) {
        rt_problem p;
        int64_t cu[2][4];
        uint8_t valid[80], dense[1600];
        rt_context ctx = {0};
        rt_layout l;
        const int32_t ranks = problem_vary(&p, round, cu, valid, dense);
        t_assert_ok(
            &ctx, rt_layout_create(&ctx, &p, (rt_layout_kind)(round % 3), RT_REMAINDER_SPREAD, ranks, &l));
        const int32_t cut = (int32_t)(vary(round, 21) % (uint32_t)(ranks + 1));
        const rt_ranks parts[3] = {{0, cut}, {cut, ranks}, {cut, cut}};
        for (int n = 0, list = 0; list < 2; n++) {
            const char *name = list == 0 ? schedule_variants[n] : more_variants[n];
            if (name == NULL) {
                list++;
                n = -1;
                continue;
            }
            rt_plan whole, part;
            t_assert_ok(&ctx, rt_plan_create(&ctx, name, &p, &l, &whole));
            assert_false(whole.part);
            int64_t sum = 0;
            for (int k = 0; k < 3; k++) {
                t_assert_ok(&ctx, rt_plan_create_part(&ctx, NULL, name, &p, &l, parts[k], &part));
                assert_true(part.part && part.ranks == ranks && part.of.first == parts[k].first &&
                            part.of.end == parts[k].end);
                if (!is_part(&whole.forward, &part.forward, parts[k]) ||
                    !is_part(&whole.backward, &part.backward, parts[k]))
                    fail_msg("round %d, %s: the part of ranks [%d, %d) of %d", round, name,
                             (int)parts[k].first, (int)parts[k].end, (int)ranks);
                sum += part.forward.n_tiles + part.backward.n_tiles;
                rt_plan_reset(&part);
            }
            assert_int_equal(sum, whole.forward.n_tiles + whole.backward.n_tiles);
            tiles += sum;
            rt_plan_reset(&whole);
        }
        rt_layout_reset(&l);
    }
    assert_true(tiles > 1000);
}

static void a_part_is_no_proof(void **state)
{
    (void)state;
    const rt_problem p = problem_make(16, 16, 4, 2, 4, RT_MASK_FULL);
    rt_context ctx = {0};
    rt_layout l;
    rt_plan plan;
    t_assert_ok(&ctx, rt_layout_create(&ctx, &p, RT_LAYOUT_CONTIGUOUS, RT_REMAINDER_SPREAD, 4, &l));
    t_assert_ok(&ctx, rt_plan_create_part(&ctx, NULL, "ulysses", &p, &l, (rt_ranks){0, 4}, &plan));
    t_assert_status(&ctx, rt_plan_verify(&ctx, &plan, &p, &l), RT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "the tiles of ranks [0, 4) only; a proof needs the whole plan"));
    rt_plan_reset(&plan);
    const rt_ranks bad[] = {{-1, 2}, {3, 2}, {0, 5}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        t_assert_status(&ctx, rt_plan_create_part(&ctx, NULL, "ring", &p, &l, bad[i], &plan), RT_ERR_ARG);
        assert_non_null(strstr(ctx.message, "the part of a plan is of ranks"));
    }
    rt_layout_reset(&l);
}

/* Every pair of shards is a tile of each rank: P^3 in all, P^2 in the part of one. */
static void a_rank_of_ulysses_needs_a_share_of_the_tiles(void **state)
{
    (void)state;
    const rt_problem p = problem_make(64, 64, 32, 32, 4, RT_MASK_FULL);
    rt_context ctx = {0};
    rt_layout l;
    rt_plan plan;
    t_assert_ok(&ctx, rt_layout_create(&ctx, &p, RT_LAYOUT_CONTIGUOUS, RT_REMAINDER_SPREAD, 32, &l));
    t_assert_ok(&ctx, rt_plan_create_part(&ctx, NULL, "ulysses", &p, &l, (rt_ranks){7, 8}, &plan));
    assert_int_equal(plan.forward.n_tiles, 32 * 32);
    assert_int_equal(plan.backward.n_tiles, 32 * 32);
    rt_plan_reset(&plan);
    rt_layout_reset(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_have_the_tiles_of_their_ranks),
        cmocka_unit_test(a_part_is_no_proof),
        cmocka_unit_test(a_rank_of_ulysses_needs_a_share_of_the_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
