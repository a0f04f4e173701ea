/* The verdict of a job is that of one process alone.  Processes agree on the outcome before any of them
 * asserts. */
#include "emulator.h"

static rt_comm *job;

static void verdict_of_a_job_is_the_same_as_alone(void **state)
{
    (void)state;
    static const int64_t key_heads[] = {1, 2, 3}; /* fewer (batch, key head) pairs than processes, too */
    for (int n = 0; n < 6; n++) {
        rt_context ctx = {0};
        rt_problem p = emu_problem(40, 40, 2 * key_heads[n % 3], key_heads[n % 3], 8,
                                   n % 2 == 0 ? RT_MASK_CAUSAL : RT_MASK_FULL);
        p.batch = 1 + n / 3;
        emu_case c;
        emu_create(&c, p, RT_LAYOUT_ZIGZAG, 2, RT_FAMILY_GAUSSIAN, (uint64_t)n, RT_BF16);
        const emu_arithmetic a = emu_declared(RT_BF16);
        emu_run(&c, &a);
        for (int t = RT_LSE; t < RT_TENSOR_COUNT && n > 1; t++) /* the first two pass */
            for (int64_t i = 5; i < emu_elements(&c.p, (rt_tensor_id)t); i += 131)
                c.t[t][i] = i % 2 == 0 ? T_NAN : c.t[t][i] + 3;
        const rt_verdict alone = emu_judge(&c, &a.d);
        rt_verdict v;
        memset(&v, 0, sizeof v);
        rt_status mine = rt_judge(&ctx, job, &c.p, &c.l, &c.plan, &a.d, &c.in, NULL, &v);
        if (mine == RT_OK && !(emu_same(&alone, &v) && v.pass == (n <= 1)))
            mine = rt_fail(&ctx, RT_ERR_FORMAT,
                           "case %d: the verdict on process %d of %d differs from that of one process", n,
                           (int)rt_comm_rank(job), (int)rt_comm_size(job));
        const rt_status all = rt_comm_agree(&ctx, job, mine);
        emu_reset(&c);
        t_assert_ok(&ctx, all);
    }
}

/* With dsink and dbias, whose sums cross the pairs. */
static void verdict_of_bent_scores_is_the_same_as_alone(void **state)
{
    (void)state;
    static const char *const shapes[] = {"bhss", "11ss", "111s", "b1ss", "1h1s"};
    for (int n = 0; n < 5; n++) {
        rt_context ctx = {0};
        rt_problem p = emu_problem(24, 24, 4, 2, 8, n % 2 == 0 ? RT_MASK_CAUSAL : RT_MASK_FULL);
        p.batch = 2;
        p.softcap = 3;
        emu_bias(&p, shapes[n], n % 2 == 1);
        emu_sinks(&p, 1);
        emu_case c;
        emu_create(&c, p, RT_LAYOUT_ZIGZAG, 2, RT_FAMILY_GAUSSIAN, (uint64_t)n, RT_BF16);
        emu_arithmetic a = emu_declared(RT_BF16);
        a.d.tanh_rel = 0x1p-24;
        emu_run(&c, &a);
        for (int64_t i = 5; i < emu_elements(&c.p, RT_DBIAS) && n > 2; i += 131)
            c.t[RT_DBIAS][i] += 3;
        const rt_judge_options o = {.truth = n < 4 ? RT_TRUTH_EXACT : RT_TRUTH_F64};
        const rt_verdict alone = emu_judge_with(&c, &a.d, &o);
        rt_verdict v;
        memset(&v, 0, sizeof v);
        rt_status mine = rt_judge(&ctx, job, &c.p, &c.l, &c.plan, &a.d, &c.in, &o, &v);
        if (mine == RT_OK && memcmp(&alone.certificate, &v.certificate, sizeof v.certificate) != 0)
            mine = rt_fail(&ctx, RT_ERR_FORMAT, "bias %s: the certificates differ", shapes[n]);
        if (mine == RT_OK && !(emu_same(&alone, &v) && v.truth[RT_DBIAS] == o.truth && v.pass == (n <= 2) &&
                               v.tensor[RT_DBIAS].judged && v.tensor[RT_DSINK].judged))
            mine = rt_fail(&ctx, RT_ERR_FORMAT,
                           "bias %s: the verdict on process %d of %d differs from that of one process",
                           shapes[n], (int)rt_comm_rank(job), (int)rt_comm_size(job));
        const rt_status all = rt_comm_agree(&ctx, job, mine);
        emu_reset(&c);
        t_assert_ok(&ctx, all);
    }
}

int main(void)
{
    rt_context ctx = {0};
    if (rt_comm_create(&ctx, &job) != RT_OK) {
        print_error("%s\n", ctx.message);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdict_of_a_job_is_the_same_as_alone),
        cmocka_unit_test(verdict_of_bent_scores_is_the_same_as_alone),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rt_comm_destroy(&job);
    return failed + (t_teardown_memory(NULL) != 0);
}
