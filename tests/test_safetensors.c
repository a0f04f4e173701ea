/* The safetensors reader and writer: what is written is read back, and every way in which a file can be
 * wrong has its own text. */
#include "check.h"
#include "scratch.h"

#include <ringtrue/io.h>

/* A file of a header and `data` bytes of zeros; returns its size. */
static size_t make_file(const char *path, const char *header, size_t data)
{
    char bytes[4096] = {0};
    size_t n = strlen(header);
    assert_true(8 + n + data <= sizeof bytes);
    bytes[0] = (char)(unsigned char)(n & 0xff);
    bytes[1] = (char)(unsigned char)(n >> 8);
    memcpy(bytes + 8, header, n);
    t_write_file(path, bytes, 8 + n + data);
    return 8 + n + data;
}

static void expect_error(const char *path, rt_status want, const char *says)
{
    rt_context ctx = {0};
    rt_file f, before;
    memset(&f, 0x5a, sizeof f);
    memset(&before, 0x5a, sizeof before);
    t_assert_status(&ctx, rt_file_open(&ctx, path, &f), want);
    t_assert_says(&ctx, says);
    t_assert_says(&ctx, path);
    assert_memory_equal(&f, &before, sizeof f);
}

static const rt_tensor_decl decls[] = {
    {"bf16", RT_BF16, 2, {3, 5}},      {"f64", RT_F64, 1, {3}}, {"bool", RT_BOOL, 1, {7}},
    {"f16", RT_F16, 1, {1}},           {"f32", RT_F32, 0, {0}}, {"e4m3", RT_E4M3, 3, {1, 2, 3}},
    {"e5m2", RT_E5M2, 1, {2}},         {"i32", RT_I32, 1, {2}}, {"i64", RT_I64, 2, {2, 1}},
    {"none", RT_F32, 2, {4, 0}},       {"u8", RT_U8, 1, {3}},   {"i8", RT_I8, 1, {5}},
    {"a\"\\\xc3\xa9", RT_F32, 1, {2}},
};
#define N_DECLS ((int64_t)(sizeof decls / sizeof decls[0]))
static const char *const metadata_text = "{\"x\": \"quoted \\\" and\\n\"}";

static int64_t bytes_of(const rt_tensor_decl *t)
{
    int64_t n = (int64_t)rt_dtype_size(t->dtype);
    for (int32_t d = 0; d < t->ndim; d++)
        n *= t->shape[d];
    return n;
}

static void write_all_dtypes(const char *path)
{
    rt_context ctx = {0};
    rt_file_writer w;
    t_assert_ok(&ctx, rt_file_create(&ctx, path, decls, N_DECLS, metadata_text, &w));
    assert_int_equal(w.count, N_DECLS);
    for (int64_t i = 0; i < N_DECLS; i++) {
        unsigned char *at = w.data[i];
        size_t size = rt_dtype_size(decls[i].dtype);
        assert_int_equal((uintptr_t)at % size, 0);
        for (int64_t b = 0; b < bytes_of(&decls[i]); b++) {
            assert_int_equal(at[b], 0);
            at[b] = (unsigned char)(17 * i + b + 1);
        }
    }
    t_assert_ok(&ctx, rt_file_finish(&ctx, &w));
}

static void safetensors_all_dtypes_read_back(void **state)
{
    (void)state;
    rt_context ctx = {0};
    const char *path = t_scratch("all.safetensors");
    write_all_dtypes(path);
    rt_file f;
    t_assert_ok(&ctx, rt_file_open(&ctx, path, &f));
    assert_int_equal(f.count, N_DECLS);
    assert_string_equal(f.path, path);
    assert_string_equal(f.metadata, metadata_text);
    const unsigned char *map = f.map;
    assert_int_equal((map[0] + 256 * map[1] + 8) % 64, 0);
    for (int64_t i = 0; i < N_DECLS; i++) {
        const rt_file_tensor *t = rt_file_find(&f, decls[i].name);
        assert_non_null(t);
        assert_int_equal(t->view.dtype, decls[i].dtype);
        assert_int_equal(t->view.ndim, decls[i].ndim);
        for (int32_t d = 0; d < decls[i].ndim; d++)
            assert_int_equal(t->view.shape[d], decls[i].shape[d]);
        const unsigned char *at = t->view.data;
        for (int64_t b = 0; b < bytes_of(&decls[i]); b++)
            assert_int_equal(at[b], (unsigned char)(17 * i + b + 1));
    }
    assert_null(rt_file_find(&f, "nothing"));
    const rt_view *v = &rt_file_find(&f, "e4m3")->view;
    assert_int_equal(v->stride[0], 6);
    assert_int_equal(v->stride[1], 3);
    assert_int_equal(v->stride[2], 1);
    rt_file_close(&f);
    assert_null(f.map);
}

static void safetensors_foreign_header_is_read(void **state)
{
    (void)state;
    /* as other writers do: no padding, tensors listed in another order than they lie, other metadata */
    rt_context ctx = {0};
    rt_file f;
    const char *path = t_scratch("foreign.safetensors");
    make_file(path,
              "{\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[8,14]},\"__metadata__\":{"
              "\"format\":\"pt\"},"
              "\"a\":{\"data_offsets\":[0,8],\"shape\":[1,2],\"dtype\":\"F32\"}}  ",
              14);
    t_assert_ok(&ctx, rt_file_open(&ctx, path, &f));
    assert_int_equal(f.count, 2);
    assert_null(f.metadata);
    const char *a = rt_file_find(&f, "a")->view.data, *b = rt_file_find(&f, "b")->view.data;
    assert_int_equal(b - a, 8);
    rt_file_close(&f);
    make_file(path, "{}", 0);
    t_assert_ok(&ctx, rt_file_open(&ctx, path, &f));
    assert_int_equal(f.count, 0);
    rt_file_close(&f);
}

#define A(fields) "{\"a\":{" fields "}}"
#define GOOD "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]"
static const struct {
    const char *header;
    size_t data;
    const char *says;
} wrong[] = {
    {"[1]", 0, "does not start with '{'"},
    {" {}", 0, "does not start with '{'"},
    {"{\"a\":", 0, "not JSON at line 1"},
    {"{} x", 0, "not JSON at line 1"},
    {"{\n\"a\": nul}", 0, "not JSON at line 2"},
    {"{\"a\":{" GOOD "},\"a\":{" GOOD "}}", 8, "duplicate key"},
    {A("\"dtype\":\"F32\"," GOOD), 8, "duplicate key"},
    {A("\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,8]"), 8, "unknown dtype \"F4\""},
    {A("\"dtype\":\"f32\",\"shape\":[2],\"data_offsets\":[0,8]"), 8, "unknown dtype \"f32\""},
    {A("\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]"), 8, "unknown dtype 7"},
    {A("\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]"), 8, "list of non-negative integers, is 2"},
    {A("\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]"), 8,
     "list of non-negative integers, is [2.0]"},
    {A("\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]"), 8,
     "list of non-negative integers, is [-2]"},
    {A("\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]"), 8, "9 dimensions"},
    {A("\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]"), 0,
     "overflows 64 bits"},
    {A("\"dtype\":\"F32\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]"), 0, "overflows 64 bits"},
    {A("\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,0]"), 0, "not JSON"},
    {A("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]"), 4,
     "span 4 bytes but shape [2] of F32 takes 8"},
    {A("\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]"), 8,
     "span 8 bytes but shape [3] of F32 takes 12"},
    {A("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]"), 8, "0 <= begin <= end"},
    {A("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]"), 8, "0 <= begin <= end"},
    {A("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]"), 8, "0 <= begin <= end"},
    {A("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0.0,8.0]"), 8, "0 <= begin <= end"},
    {A("\"dtype\":\"F32\",\"shape\":[2]"), 8, "exactly the keys"},
    {A(GOOD ",\"more\":1"), 8, "exactly the keys"},
    {"{\"a\":3}", 0, "must be an object"},
    {"{\"a\":{" GOOD "},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12, "overlap"},
    {"{\"a\":{" GOOD "},\"b\":{" GOOD "}}", 8, "overlap"},
    {"{\"a\":{" GOOD "},\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]}}", 8, "overlap"},
    {"{\"a\":{" GOOD "},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[12,20]}}", 20,
     "hole: bytes 8 to 12"},
    {A("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]"), 12, "hole: bytes 0 to 4"},
    {A(GOOD), 7, "shorter than its header says: 7 bytes of 8"},
    {A(GOOD), 9, "longer than its header says: 9 bytes"},
    {"{}", 1, "longer than its header says"},
    {"{\"__metadata__\":[]}", 0, "map of strings"},
    {"{\"__metadata__\":{\"ringtrue\":{}}}", 0, "map of strings"},
    {A("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[9223372036854775799,9223372036854775807]"), 8,
     "hole"},
};

static void safetensors_each_error_has_its_text(void **state)
{
    (void)state;
    const char *path = t_scratch("wrong.safetensors");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        make_file(path, wrong[i].header, wrong[i].data);
        expect_error(path, RT_ERR_FORMAT, wrong[i].says);
    }
    t_write_file(path, "", 0);
    expect_error(path, RT_ERR_FORMAT, "0 bytes, but a safetensors file begins with 8");
    t_write_file(path, "\x02\0\0\0\0\0\0", 7);
    expect_error(path, RT_ERR_FORMAT, "7 bytes, but a safetensors file begins with 8");
    t_write_file(path, "\x03\0\0\0\0\0\0\0{}", 10);
    expect_error(path, RT_ERR_FORMAT, "header of 3 bytes is longer than the file");
    t_write_file(path, "\0\0\0\0\0\0\0\0", 8);
    expect_error(path, RT_ERR_FORMAT, "does not start with '{'");
    t_write_file(path, "\0\0\0\0\1\0\0\0{}", 10);
    expect_error(path, RT_ERR_FORMAT, "over the format's limit");
    t_write_file(path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    expect_error(path, RT_ERR_FORMAT, "over the format's limit");
    expect_error(t_scratch("absent.safetensors"), RT_ERR_IO, "cannot open");
    expect_error(t_scratch_folder, RT_ERR_IO, "not a regular file");
}

static void safetensors_cut_anywhere_is_an_error(void **state)
{
    (void)state;
    static char bytes[8192];
    const char *path = t_scratch("whole.safetensors"), *cut = t_scratch("cut.safetensors");
    write_all_dtypes(path);
    size_t size = t_read_file(path, bytes, sizeof bytes);
    assert_true(size > 500 && size < sizeof bytes);
    for (size_t n = 0; n < size; n++) {
        rt_context ctx = {0};
        rt_file f;
        t_write_file(cut, bytes, n);
        t_assert_status(&ctx, rt_file_open(&ctx, cut, &f), RT_ERR_FORMAT);
    }
}

static void safetensors_flipped_header_never_crashes(void **state)
{
    (void)state;
    static char bytes[8192], broken[8192];
    const char *path = t_scratch("whole2.safetensors"), *flip = t_scratch("flip.safetensors");
    write_all_dtypes(path);
    size_t size = t_read_file(path, bytes, sizeof bytes);
    size_t header = 8 + (size_t)(unsigned char)bytes[0] + 256 * (size_t)(unsigned char)bytes[1];
    uint64_t seed = 20250101;
    int refused = 0;
    for (int trial = 0; trial < 3000; trial++) {
        memcpy(broken, bytes, size);
        for (uint64_t n = 1 + t_random(&seed) % 3; n > 0; n--) {
            size_t at = (size_t)(t_random(&seed) % header);
            broken[at] = (char)(unsigned char)(t_random(&seed) % 256);
        }
        t_write_file(flip, broken, size);
        rt_context ctx = {0};
        rt_file f;
        if (rt_file_open(&ctx, flip, &f) != RT_OK) {
            assert_int_not_equal(ctx.message[0], '\0');
            assert_null(strchr(ctx.message, '\n'));
            refused++;
            continue;
        }
        /* what was accepted must lie inside the file: read all of it */
        unsigned sum = 0;
        for (int64_t i = 0; i < f.count; i++) {
            const rt_view *v = &f.tensors[i].view;
            size_t n = rt_dtype_size(v->dtype);
            for (int32_t d = 0; d < v->ndim; d++)
                n *= (size_t)v->shape[d];
            const unsigned char *data = v->data;
            for (size_t b = 0; b < n; b++)
                sum += data[b];
        }
        assert_true(sum < UINT32_MAX);
        rt_file_close(&f);
    }
    assert_true(refused > 1000);
}

static void writer_refuses_what_it_cannot_write(void **state)
{
    (void)state;
    rt_context ctx = {0};
    rt_file_writer w = {0};
    const char *path = t_scratch("refused.safetensors");
    const rt_tensor_decl twice[2] = {{"x", RT_F32, 1, {1}}, {"x", RT_F32, 1, {1}}};
    t_assert_status(&ctx, rt_file_create(&ctx, path, twice, 2, NULL, &w), RT_ERR_ARG);
    t_assert_says(&ctx, "\"x\" is taken");
    const rt_tensor_decl reserved = {"__metadata__", RT_F32, 1, {1}};
    t_assert_status(&ctx, rt_file_create(&ctx, path, &reserved, 1, NULL, &w), RT_ERR_ARG);
    const rt_tensor_decl tf32 = {"x", RT_TF32, 1, {1}};
    t_assert_status(&ctx, rt_file_create(&ctx, path, &tf32, 1, NULL, &w), RT_ERR_ARG);
    const rt_tensor_decl negative = {"x", RT_F32, 1, {-1}};
    t_assert_status(&ctx, rt_file_create(&ctx, path, &negative, 1, NULL, &w), RT_ERR_ARG);
    const rt_tensor_decl huge = {"x", RT_F32, 2, {INT64_MAX / 2, 3}};
    t_assert_status(&ctx, rt_file_create(&ctx, path, &huge, 1, NULL, &w), RT_ERR_ARG);
    const rt_tensor_decl latin1 = {"\xe9", RT_F32, 1, {1}};
    t_assert_status(&ctx, rt_file_create(&ctx, path, &latin1, 1, NULL, &w), RT_ERR_ARG);
    const rt_tensor_decl good = {"x", RT_F32, 1, {1}};
    t_assert_status(&ctx, rt_file_create(&ctx, path, &good, 1, "\xe9", &w), RT_ERR_ARG);
    /* more than any disk holds: an error now, and no file */
    const rt_tensor_decl full = {"x", RT_F32, 1, {INT64_MAX / 16}};
    t_assert_status(&ctx, rt_file_create(&ctx, path, &full, 1, NULL, &w), RT_ERR_IO);
    assert_false(t_exists(path));
    assert_null(w.map);

    t_assert_ok(&ctx, rt_file_create(&ctx, path, &good, 1, NULL, &w));
    rt_file_writer second = {0};
    t_assert_status(&ctx, rt_file_create(&ctx, path, &good, 1, NULL, &second), RT_ERR_IO);
    t_assert_says(&ctx, "cannot create");
    assert_true(t_exists(path));
    rt_file_abandon(&w);
    assert_false(t_exists(path));
    t_assert_status(&ctx, rt_file_create(&ctx, t_scratch("no/such/x.safetensors"), &good, 1, NULL, &w),
                    RT_ERR_IO);
}

static void writer_without_tensors_is_read(void **state)
{
    (void)state;
    rt_context ctx = {0};
    rt_file_writer w;
    rt_file f;
    const char *path = t_scratch("empty.safetensors");
    t_assert_ok(&ctx, rt_file_create(&ctx, path, NULL, 0, "{}", &w));
    t_assert_ok(&ctx, rt_file_finish(&ctx, &w));
    t_assert_ok(&ctx, rt_file_open(&ctx, path, &f));
    assert_int_equal(f.count, 0);
    assert_string_equal(f.metadata, "{}");
    rt_file_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors_all_dtypes_read_back),
        cmocka_unit_test(safetensors_foreign_header_is_read),
        cmocka_unit_test(safetensors_each_error_has_its_text),
        cmocka_unit_test(safetensors_cut_anywhere_is_an_error),
        cmocka_unit_test(safetensors_flipped_header_never_crashes),
        cmocka_unit_test(writer_refuses_what_it_cannot_write),
        cmocka_unit_test(writer_without_tensors_is_read),
    };
    return cmocka_run_group_tests(tests, t_scratch_setup, t_scratch_teardown);
}
