/* test_status.c: error texts, exit codes, progress, memory. */
#include "check.h"

static void fail_writes_one_line_and_returns_the_status(void **state)
{
    (void)state;
    rt_context ctx = {0};
    assert_int_equal(rt_fail(&ctx, RT_ERR_IO, "file %s: %d", "a\nb\tc\x7f", 7), RT_ERR_IO);
    assert_string_equal(ctx.message, "file a b c : 7");
    assert_int_equal(rt_fail(NULL, RT_ERR_ARG, "nothing"), RT_ERR_ARG);
    /* A text may quote the one before it. */
    assert_int_equal(rt_fail(&ctx, RT_ERR_FORMAT, "rank 2: %s", ctx.message), RT_ERR_FORMAT);
    assert_string_equal(ctx.message, "rank 2: file a b c : 7");
}

static void fail_marks_a_text_that_was_cut(void **state)
{
    (void)state;
    rt_context ctx = {0};
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)rt_fail(&ctx, RT_ERR_ARG, "%s", text);
    assert_int_equal(strlen(ctx.message), sizeof ctx.message - 1);
    assert_string_equal(ctx.message + sizeof ctx.message - 5, "x...");
    /* The longest text that fits is whole. */
    text[sizeof ctx.message - 1] = '\0';
    (void)rt_fail(&ctx, RT_ERR_ARG, "%s", text);
    assert_string_equal(ctx.message, text);
}

static void exit_codes_follow_the_kind_of_error(void **state)
{
    (void)state;
    assert_int_equal(rt_status_exit_code(RT_OK), 0);
    assert_int_equal(rt_status_exit_code(RT_ERR_ARG), 2);
    assert_int_equal(rt_status_exit_code(RT_ERR_UNSUPPORTED), 2);
    assert_int_equal(rt_status_exit_code(RT_ERR_IO), 3);
    assert_int_equal(rt_status_exit_code(RT_ERR_FORMAT), 3);
    assert_int_equal(rt_status_exit_code(RT_ERR_NOMEM), 4);
    assert_int_equal(rt_status_exit_code(RT_ERR_MPI), 4);
    assert_int_equal(rt_status_exit_code(RT_ERR_SYSTEM), 4);
}

static void count_progress(void *arg, const char *what, int64_t done, int64_t total)
{
    int64_t *seen = arg;
    assert_string_equal(what, "tiles");
    seen[0] = done;
    seen[1] = total;
}

static void progress_reaches_the_callback_and_silence_is_allowed(void **state)
{
    (void)state;
    int64_t seen[2] = {0, 0};
    rt_context ctx = {.progress = count_progress, .progress_arg = seen};
    rt_progress(&ctx, "tiles", 3, 9);
    assert_int_equal(seen[0], 3);
    assert_int_equal(seen[1], 9);
    rt_context silent = {0};
    rt_progress(&silent, "tiles", 1, 2);
    rt_progress(NULL, "tiles", 1, 2);
}

static void memory_is_aligned_counted_and_cleared(void **state)
{
    (void)state;
    rt_context ctx = {0};
    for (int64_t n = 0; n < 300; n += 7) {
        int64_t before = rt_alloc_live();
        unsigned char *p = rt_alloc(&ctx, n, 1);
        unsigned char *z = rt_calloc(&ctx, n, 3);
        assert_non_null(p);
        assert_non_null(z);
        assert_int_equal((uintptr_t)p % 64, 0);
        assert_int_equal((uintptr_t)z % 64, 0);
        assert_int_equal(rt_alloc_live() - before, 4 * n);
        for (int64_t i = 0; i < 3 * n; i++) {
            assert_int_equal(z[i], 0);
        }
        memset(p, 0xff, (size_t)n);
        memset(z, 0xff, (size_t)(3 * n));
        rt_free(p);
        assert_int_equal(rt_alloc_live() - before, 3 * n);
        rt_free(z);
        assert_int_equal(rt_alloc_live(), before);
    }
    rt_free(NULL);
}

static void memory_that_cannot_be_had_is_refused(void **state)
{
    (void)state;
    rt_context ctx = {0};
    const int64_t counts[] = {-1,       INT64_MIN, INT64_MAX, INT64_C(1) << 61, (INT64_C(1) << 60) + 1,
                              INT64_MAX};
    const size_t sizes[] = {1, 8, 8, 8, 16, 2};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        ctx.message[0] = '\0';
        assert_null(rt_alloc(&ctx, counts[i], sizes[i]));
        assert_true(ctx.message[0] != '\0');
        ctx.message[0] = '\0';
        assert_null(rt_calloc(&ctx, counts[i], sizes[i]));
        assert_true(ctx.message[0] != '\0');
        assert_null(rt_alloc(NULL, counts[i], sizes[i]));
    }
    assert_int_equal(rt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_writes_one_line_and_returns_the_status),
        cmocka_unit_test(fail_marks_a_text_that_was_cut),
        cmocka_unit_test(exit_codes_follow_the_kind_of_error),
        cmocka_unit_test(progress_reaches_the_callback_and_silence_is_allowed),
        cmocka_unit_test(memory_is_aligned_counted_and_cleared),
        cmocka_unit_test(memory_that_cannot_be_had_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown_memory);
}
