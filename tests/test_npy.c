/* The npy reader and writer: every descr in either endianness and order, and every way to be wrong. */
#include "check.h"
#include "scratch.h"

#include <ringtrue/io.h>

/* magic, version, length, literal with its line break, data; returns the size */
static size_t make_npy(const char *path, int major, const char *literal, const void *data, size_t n)
{
    char bytes[4096] = "\x93NUMPY";
    size_t length = strlen(literal) + 1, width = major == 1 ? 2 : 4;
    bytes[6] = (char)major;
    for (size_t i = 0; i < width; i++)
        bytes[8 + i] = (char)(unsigned char)(length >> (8 * i) & 0xff);
    memcpy(bytes + 8 + width, literal, length - 1);
    bytes[8 + width + length - 1] = '\n';
    memcpy(bytes + 8 + width + length, data, n);
    t_write_file(path, bytes, 8 + width + length + n);
    return 8 + width + length + n;
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

static void npy_written_is_read_back(void **state)
{
    (void)state;
    static const struct {
        rt_dtype t;
        const char *descr;
    } kinds[] = {{RT_F64, "'<f8'"},  {RT_F32, "'<f4'"}, {RT_F16, "'<f2'"},
                 {RT_BF16, "'<V2'"}, {RT_I32, "'<i4'"}, {RT_I64, "'<i8'"},
                 {RT_BOOL, "'|b1'"}, {RT_U8, "'|u1'"},  {RT_I8, "'|i1'"}};
    static const struct {
        int32_t ndim;
        int64_t shape[4], count;
        const char *text;
    } shapes[] = {{0, {0}, 1, "'shape': (), }"},
                  {1, {6}, 6, "'shape': (6,), }"},
                  {2, {2, 3}, 6, "'shape': (2, 3), }"},
                  {3, {2, 0, 3}, 0, "'shape': (2, 0, 3), }"}};
    unsigned char data[48], bytes[512];
    const char *path = t_scratch("x.y.npy");
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(5 * i + 1);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            rt_context ctx = {0};
            rt_file f;
            t_assert_ok(&ctx, rt_npy_write(&ctx, path, kinds[k].t, shapes[s].ndim, shapes[s].shape, data));
            size_t n = (size_t)shapes[s].count * rt_dtype_size(kinds[k].t);
            size_t size = t_read_file(path, bytes, sizeof bytes - 1);
            bytes[size] = 0;
            assert_int_equal((size - n) % 64, 0);
            assert_non_null(strstr((char *)bytes + 10, kinds[k].descr));
            assert_non_null(strstr((char *)bytes + 10, shapes[s].text));
            t_assert_ok(&ctx, rt_file_open(&ctx, path, &f));
            assert_int_equal(f.count, 1);
            assert_string_equal(f.tensors[0].name, "x.y");
            assert_null(f.owned);
            const rt_view *v = &f.tensors[0].view;
            assert_int_equal(v->dtype, kinds[k].t);
            assert_int_equal(v->ndim, shapes[s].ndim);
            for (int32_t d = 0; d < v->ndim; d++)
                assert_int_equal(v->shape[d], shapes[s].shape[d]);
            assert_memory_equal(v->data, data, n);
            rt_file_close(&f);
        }
    }
}

static void npy_writer_refuses_and_leaves_nothing(void **state)
{
    (void)state;
    rt_context ctx = {0};
    const int64_t shape[2] = {2, 3}, bad[1] = {-1};
    const char *folder = t_scratch("made");
    assert_int_equal(mkdir(folder, 0777), 0);
    const char *path = t_scratch("made/x.npy");
    t_assert_status(&ctx, rt_npy_write(&ctx, path, RT_TF32, 2, shape, shape), RT_ERR_ARG);
    t_assert_status(&ctx, rt_npy_write(&ctx, path, RT_F32, 1, bad, shape), RT_ERR_ARG);
    t_assert_status(&ctx, rt_npy_write(&ctx, t_scratch("absent/x.npy"), RT_F32, 1, shape, shape),
                    RT_ERR_IO);
    /* the target is a folder, so that the last step fails: the file written aside must be gone */
    assert_int_equal(mkdir(path, 0777), 0);
    t_assert_status(&ctx, rt_npy_write(&ctx, path, RT_I64, 1, shape, shape), RT_ERR_IO);
    assert_int_equal(t_count_entries(folder), 1);
}

static void npy_foreign_forms_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *descr;
        rt_dtype t;
        const char *big; /* the same in the other endianness, or NULL */
    } kinds[] = {{"<f8", RT_F64, ">f8"}, {"<f4", RT_F32, ">f4"}, {"<f2", RT_F16, ">f2"},
                 {"<i4", RT_I32, ">i4"}, {"<i8", RT_I64, ">i8"}, {"<u2", RT_BF16, ">u2"},
                 {"<V2", RT_BF16, NULL}, {"|V2", RT_BF16, NULL}, {"bfloat16", RT_BF16, NULL},
                 {"|b1", RT_BOOL, NULL}, {"|u1", RT_U8, NULL},   {"|i1", RT_I8, NULL}};
    unsigned char data[48], swapped[48];
    const char *path = t_scratch("foreign.npy");
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(7 * i + 3);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        size_t size = rt_dtype_size(kinds[k].t), n = 6 * size;
        for (size_t i = 0; i < n; i++)
            swapped[i] = data[i / size * size + size - 1 - i % size];
        for (int major = 1; major <= 3; major++) {
            for (int variant = 0; variant < 4; variant++) {
                bool big = variant & 1, fortran = variant & 2;
                if (big && !kinds[k].big)
                    continue;
                char literal[200];
                (void)snprintf(literal, sizeof literal,
                               major == 2 ? "{\"shape\":(2,3,),\"descr\":\"%s\",\"fortran_order\":%s}"
                                          : "{'descr': '%s', 'fortran_order': %s, 'shape': (2, 3), }     ",
                               big ? kinds[k].big : kinds[k].descr, fortran ? "True" : "False");
                make_npy(path, major, literal, big ? swapped : data, n);
                rt_context ctx = {0};
                rt_file f;
                t_assert_ok(&ctx, rt_file_open(&ctx, path, &f));
                const rt_view *v = &f.tensors[0].view;
                assert_int_equal(v->dtype, kinds[k].t);
                assert_int_equal(v->ndim, 2);
                assert_int_equal(big, f.owned != NULL);
                for (int64_t i = 0; i < 2; i++) {
                    for (int64_t j = 0; j < 3; j++) {
                        size_t at = (size_t)(fortran ? i + 2 * j : 3 * i + j);
                        assert_memory_equal(rt_view_at(v, (int64_t[]){i, j}), data + at * size, size);
                    }
                }
                rt_file_close(&f);
            }
        }
    }
}

#define D(descr, order, shape) "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape "}"
static const struct {
    const char *literal;
    size_t data;
    const char *says;
} wrong[] = {
    {"['<f4']", 0, "not a dictionary (no '{')"},
    {"{'descr' '<f4'}", 0, "not a dictionary of 'key': value"},
    {"{'descr': '<f4' 'shape': (2,)}", 0, "not a dictionary of 'key': value"},
    {"{'descr: '<f4'}", 0, "not a dictionary of 'key': value"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", 8, "not a dictionary of 'key': value"},
    {D("'<f4'", "False", "(2,)") " x", 8, "goes on after its dictionary"},
    {"{'descr': '<f4', 'fortran_order': False}", 8, "lacks 'shape'"},
    {"{'descr': '<f4', 'shape': (2,)}", 8, "lacks 'fortran_order'"},
    {"{'shape': (2,), 'fortran_order': False}", 8, "lacks 'descr'"},
    {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 8, "'descr' twice"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}", 8, "key 'more'"},
    {D("'<c8'", "False", "(2,)"), 16, "unknown npy descr '<c8'"},
    {D("'f4'", "False", "(2,)"), 8, "unknown npy descr 'f4'"},
    {D("'=f4'", "False", "(2,)"), 8, "unknown npy descr '=f4'"},
    {D("'|f4'", "False", "(2,)"), 8, "unknown npy descr '|f4'"},
    {D("'<b1'", "False", "(2,)"), 2, "unknown npy descr '<b1'"},
    {D("'<u1'", "False", "(2,)"), 2, "unknown npy descr '<u1'"},
    {D("''", "False", "(2,)"), 2, "unknown npy descr ''"},
    {D("'|O'", "False", "(2,)"), 2, "unknown npy descr '|O'"},
    {D("[('a', '<f4')]", "False", "(2,)"), 8, "descr must be a string"},
    {D("'<f4'", "0", "(2,)"), 8, "True or False"},
    {D("'<f4'", "False", "2"), 8, "shape must be a tuple"},
    {D("'<f4'", "False", "(2)"), 8, "shape must be a tuple"},
    {D("'<f4'", "False", "[2]"), 8, "shape must be a tuple"},
    {D("'<f4'", "False", "(-2,)"), 8, "shape must be a tuple"},
    {D("'<f4'", "False", "(2 1)"), 8, "shape must be a tuple"},
    {D("'<f4'", "False", "(2.0,)"), 8, "shape must be a tuple"},
    {D("'<f4'", "False", "(1,1,1,1,1,1,1,1,2)"), 8, "shape must be a tuple"},
    {D("'<f4'", "False", "(99999999999999999999,)"), 8, "shape must be a tuple"},
    {D("'<f4'", "False", "(4611686018427387904, 2)"), 0, "overflows 64 bits"},
    {D("'<f4'", "False", "(2,)"), 7,
     "shorter than its shape (truncated file?): 7 bytes, shape (2) of f32 takes 8"},
    {D("'<f4'", "False", "(2,)"), 9, "longer than its shape: 9 bytes"},
};

static void npy_each_error_has_its_text(void **state)
{
    (void)state;
    const char *path = t_scratch("wrong.npy");
    static const char zeros[64] = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        make_npy(path, 1, wrong[i].literal, zeros, wrong[i].data);
        expect_error(path, RT_ERR_FORMAT, wrong[i].says);
    }
    t_write_file(path, "\x93NUMPX\1\0\2\0{}", 12);
    expect_error(path, RT_ERR_FORMAT, "bad magic");
    t_write_file(path, "\x93NUMPY\4\0\2\0{}", 12);
    expect_error(path, RT_ERR_FORMAT, "version 4.0");
    t_write_file(path, "\x93NUMPY\1\1\2\0{}", 12);
    expect_error(path, RT_ERR_FORMAT, "version 1.1");
    t_write_file(path, "\x93NUMPY\1\0\3\0{}", 12);
    expect_error(path, RT_ERR_FORMAT, "header of 3 bytes is longer than the file");
    t_write_file(path, "\x93NUMPY\1\0\2\0{}", 12);
    expect_error(path, RT_ERR_FORMAT, "line break");
    t_write_file(path, "\x93NUMPY\2\0\2\0\0", 11);
    expect_error(path, RT_ERR_FORMAT, "ends inside its header length");
    t_write_file(path, "", 0);
    expect_error(path, RT_ERR_FORMAT, "bad magic");
    expect_error(t_scratch("absent.npy"), RT_ERR_IO, "cannot open");
}

static void npy_cut_anywhere_is_an_error(void **state)
{
    (void)state;
    static const char zeros[64] = {0};
    char bytes[512];
    const char *path = t_scratch("whole.npy"), *cut = t_scratch("cut.npy");
    for (int major = 1; major <= 3; major++) {
        size_t size = make_npy(path, major, D("'>f4'", "True", "(2, 3)"), zeros, 24);
        assert_int_equal(t_read_file(path, bytes, sizeof bytes), size);
        for (size_t n = 0; n < size; n++) {
            rt_context ctx = {0};
            rt_file f;
            t_write_file(cut, bytes, n);
            t_assert_status(&ctx, rt_file_open(&ctx, cut, &f), RT_ERR_FORMAT);
        }
    }
}

static void npy_flipped_header_never_crashes(void **state)
{
    (void)state;
    static const char zeros[64] = {0};
    char bytes[512], broken[512];
    const char *path = t_scratch("whole2.npy"), *flip = t_scratch("flip.npy");
    size_t size = make_npy(path, 1, D("'<f4'", "False", "(2, 3)"), zeros, 24);
    assert_int_equal(t_read_file(path, bytes, sizeof bytes), size);
    uint64_t seed = 20250102;
    int refused = 0;
    for (int trial = 0; trial < 3000; trial++) {
        memcpy(broken, bytes, size);
        for (uint64_t n = 1 + t_random(&seed) % 3; n > 0; n--)
            broken[t_random(&seed) % (size - 24)] = (char)(unsigned char)(t_random(&seed) % 128);
        t_write_file(flip, broken, size);
        rt_context ctx = {0};
        rt_file f;
        if (rt_file_open(&ctx, flip, &f) != RT_OK) {
            assert_int_not_equal(ctx.message[0], '\0');
            assert_null(strchr(ctx.message, '\n'));
            refused++;
            continue;
        }
        const rt_view *v = &f.tensors[0].view; /* first and last element */
        int64_t at[RT_MAX_DIMS] = {0}, count = 1;
        for (int32_t d = 0; d < v->ndim; d++) {
            at[d] = v->shape[d] - 1;
            count *= v->shape[d];
        }
        assert_int_equal(count * (int64_t)rt_dtype_size(v->dtype), 24);
        assert_int_equal(*(const char *)rt_view_at(v, at), 0);
        rt_file_close(&f);
    }
    assert_true(refused > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_written_is_read_back),
        cmocka_unit_test(npy_writer_refuses_and_leaves_nothing),
        cmocka_unit_test(npy_foreign_forms_are_read),
        cmocka_unit_test(npy_each_error_has_its_text),
        cmocka_unit_test(npy_cut_anywhere_is_an_error),
        cmocka_unit_test(npy_flipped_header_never_crashes),
    };
    return cmocka_run_group_tests(tests, t_scratch_setup, t_scratch_teardown);
}
