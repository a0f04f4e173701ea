/* Dumps: every order, layout, format and arrangement of files gives the same rows; each damage is named;
 * the nine dumps of other programs open with our specs; output folders appear complete or not at all. */
#include "check.h"
#include "scratch.h"

#include <ringtrue/io.h>

/* What to write.  Everything is F32 and every element names its place. */
typedef struct {
    const char *keys; /* of the spec, after those of `base_keys` */
    int64_t batch, seqlen, seqlen_k, heads, kv_heads, dim, dim_v;
    int ranks, order, lse_shape;
    rt_layout_kind layout;
    bool global, no_batch, npy, no_metadata;
    unsigned absent;        /* bit t: tensor t is left out */
    int odd_rank, odd_what; /* on this rank: one of the damages below */
} design;
enum {
    FINE,
    ODD_ABSENT,
    ODD_DTYPE,
    ODD_SHORT,
    ODD_INTEGER,
    ODD_DIM,
    ODD_METADATA,
    ODD_REPEAT,
    ODD_POS_F32,
    ODD_CUT
};

static const char *const orders[] = {"bshd", "sbhd", "bhsd"};
static const char *const lses[] = {"bhs", "bsh", "sbh"};

static bool kv_side(int t)
{
    return t == RT_K || t == RT_V || t == RT_DK || t == RT_DV;
}

static float value_at(int t, int64_t b, int64_t pos, int64_t h, int64_t i)
{
    return (float)((((t * 3 + b) * 64 + pos) * 8 + h) * 16 + i);
}

static const char *spec_of(const design *g)
{
    static char text[1200];
    (void)snprintf(
        text, sizeof text,
        "{\"ringtrue\": 1, \"batch\": %d, \"seqlen\": %d, \"seqlen_k\": %d, \"heads\": %d, \"kv_heads\": "
        "%d, "
        "\"dim\": %d, \"dim_v\": %d, \"mask\": \"causal\", \"ranks\": %d, \"order\": \"%s\", "
        "\"lse\": {\"shape\": \"%s\"}, \"layout\": %s%s%s%s%s}",
        (int)g->batch, (int)g->seqlen, (int)g->seqlen_k, (int)g->heads, (int)g->kv_heads, (int)g->dim,
        (int)g->dim_v, g->ranks, orders[g->order], lses[g->lse_shape],
        g->layout == RT_LAYOUT_POSITIONS ? "{\"positions\": \"pos\", \"positions_k\": \"posk\"}" : "\"",
        g->layout == RT_LAYOUT_POSITIONS ? "" : rt_layout_name(g->layout),
        g->layout == RT_LAYOUT_POSITIONS ? "" : "\"", g->keys ? ", " : "", g->keys ? g->keys : "");
    return text;
}

/* The layout on paper: zigzag in the place of positions. */
static void layout_of(const design *g, rt_layout *l)
{
    rt_context ctx = {0};
    rt_problem p = {.batch = g->batch,
                    .seqlen_q = g->seqlen,
                    .seqlen_k = g->seqlen_k,
                    .heads_q = g->heads,
                    .heads_kv = g->kv_heads,
                    .dim = g->dim,
                    .dim_v = g->dim_v,
                    .scale = 1};
    rt_layout_kind kind = g->layout == RT_LAYOUT_POSITIONS ? RT_LAYOUT_ZIGZAG : g->layout;
    t_assert_ok(&ctx, rt_layout_create(&ctx, &p, kind, RT_REMAINDER_SPREAD, g->ranks, l));
}

static int64_t slots_of(const design *g, const rt_layout *l, int t, int r)
{
    rt_side side = kv_side(t) ? RT_SIDE_KV : RT_SIDE_Q;
    return g->global ? l->side[side].length : rt_layout_count(l, side, r);
}

/* The stored shape, and the stored axis of each of B, S, H, D. */
static rt_tensor_decl decl_of(const design *g, const rt_layout *l, int t, int r, int axis[4])
{
    static const int by_order[3][4] = {{0, 1, 2, 3}, {1, 0, 2, 3}, {0, 2, 1, 3}};
    static const int by_lse[3][3] = {{0, 2, 1}, {0, 1, 2}, {1, 0, 2}};
    const int64_t extent[4] = {g->batch, slots_of(g, l, t, r), kv_side(t) ? g->kv_heads : g->heads,
                               t == RT_Q || t == RT_K || t == RT_DQ || t == RT_DK ? g->dim : g->dim_v};
    rt_tensor_decl d = {rt_tensor_name((rt_tensor_id)t), RT_F32, t == RT_LSE ? 3 : 4, {0}};
    for (int a = 0; a < d.ndim; a++) {
        axis[a] = t == RT_LSE ? by_lse[g->lse_shape][a] : by_order[g->order][a];
        d.shape[axis[a]] = extent[a];
    }
    if (g->no_batch) {
        for (int a = axis[0]; a + 1 < d.ndim; a++)
            d.shape[a] = d.shape[a + 1];
        d.ndim--;
    }
    return d;
}

static void fill(const design *g, const rt_layout *l, int t, int r, float *data)
{
    rt_side side = kv_side(t) ? RT_SIDE_KV : RT_SIDE_Q;
    int axis[4];
    design whole = *g;
    whole.no_batch = false; /* an axis of extent 1 changes no index */
    rt_tensor_decl d = decl_of(&whole, l, t, r, axis);
    int64_t n = t == RT_LSE ? 1 : d.shape[axis[3]];
    for (int64_t b = 0; b < d.shape[axis[0]]; b++) {
        for (int64_t s = 0; s < d.shape[axis[1]]; s++) {
            for (int64_t h = 0; h < d.shape[axis[2]]; h++) {
                for (int64_t i = 0; i < n; i++) {
                    int64_t index[4] = {0}, at = 0;
                    index[axis[0]] = b;
                    index[axis[1]] = s;
                    index[axis[2]] = h;
                    if (t != RT_LSE)
                        index[axis[3]] = i;
                    for (int a = 0; a < d.ndim; a++)
                        at = at * d.shape[a] + index[a];
                    data[at] = value_at(t, b, g->global ? s : rt_layout_positions(l, side, r)[s], h, i);
                }
            }
        }
    }
}

static void write_rank_npy(const char *folder, const design *g, const rt_layout *l, int r)
{
    rt_context ctx = {0};
    static float data[65536];
    char path[700];
    int axis[4];
    for (int t = 0; t < RT_TENSOR_COUNT; t++) {
        if (g->absent >> t & 1)
            continue;
        rt_tensor_decl d = decl_of(g, l, t, r, axis);
        fill(g, l, t, r, data);
        (void)(g->global ? snprintf(path, sizeof path, "%s/%s.npy", folder, d.name)
                         : snprintf(path, sizeof path, "%s/rank%d.%s.npy", folder, r, d.name));
        if (!(g->odd_what == ODD_ABSENT && r == g->odd_rank && t == RT_V))
            t_assert_ok(&ctx, rt_npy_write(&ctx, path, RT_F32, d.ndim, d.shape, data));
    }
}

static void write_rank(const char *path, const design *g, const rt_layout *l, int r)
{
    rt_context ctx = {0};
    rt_tensor_decl decls[RT_TENSOR_COUNT + 2];
    int which[RT_TENSOR_COUNT + 2], n = 0, axis[4], odd = r == g->odd_rank ? g->odd_what : FINE;
    for (int t = 0; t < RT_TENSOR_COUNT; t++) {
        if ((g->absent >> t & 1) || (odd == ODD_ABSENT && t == RT_V))
            continue;
        which[n] = t;
        decls[n] = decl_of(g, l, t, r, axis);
        if (t == RT_V && odd == ODD_DTYPE)
            decls[n].dtype = RT_BF16;
        if (t == RT_V && odd == ODD_INTEGER)
            decls[n].dtype = RT_I32;
        if (t == RT_DV && odd == ODD_SHORT)
            decls[n].shape[1]--;
        if (t == RT_V && odd == ODD_DIM)
            decls[n].shape[3]--;
        n++;
    }
    for (int side = 0; side < 2 && g->layout == RT_LAYOUT_POSITIONS; side++) {
        rt_dtype dtype = odd == ODD_POS_F32 ? RT_F32 : side ? RT_I64 : RT_I32;
        decls[n] =
            (rt_tensor_decl){side ? "posk" : "pos", dtype, 1, {slots_of(g, l, side ? RT_K : RT_Q, r)}};
        which[n++] = -1 - side;
    }
    rt_file_writer w;
    const char *metadata = g->no_metadata ? NULL : odd == ODD_METADATA ? "{}" : spec_of(g);
    t_assert_ok(&ctx, rt_file_create(&ctx, path, decls, n, metadata, &w));
    for (int i = 0; i < n; i++) {
        if (which[i] >= 0 && odd == FINE) {
            fill(g, l, which[i], r, w.data[i]);
        } else if (which[i] < 0) {
            const int64_t *pos = rt_layout_positions(l, which[i] == -1 ? RT_SIDE_Q : RT_SIDE_KV, r);
            for (int64_t s = 0; s < decls[i].shape[0]; s++) {
                int64_t p = odd == ODD_REPEAT && s == 1 ? pos[0] : pos[s];
                if (decls[i].dtype == RT_I64)
                    ((int64_t *)w.data[i])[s] = p;
                else
                    ((int32_t *)w.data[i])[s] = (int32_t)p;
            }
        }
    }
    t_assert_ok(&ctx, rt_file_finish(&ctx, &w));
    if (odd == ODD_CUT)
        assert_int_equal(truncate(path, 1000), 0);
}

/* Write the dump into a fresh folder and return its path. */
static const char *write_dump(const design *g)
{
    static int number;
    char name[40], path[700];
    (void)snprintf(name, sizeof name, "dump%d", number++);
    const char *folder = t_scratch(name);
    rt_layout l;
    assert_int_equal(mkdir(folder, 0777), 0);
    layout_of(g, &l);
    for (int r = 0; r < (g->global ? 1 : g->ranks); r++) {
        (void)(g->global ? snprintf(path, sizeof path, "%s/all.safetensors", folder)
                         : snprintf(path, sizeof path, "%s/rank%d.safetensors", folder, r));
        if (g->npy)
            write_rank_npy(folder, g, &l, r);
        else
            write_rank(path, g, &l, r);
    }
    if (g->npy) {
        (void)snprintf(path, sizeof path, "%s/spec.json", folder);
        t_write_file(path, spec_of(g), strlen(spec_of(g)));
    }
    rt_layout_reset(&l);
    return folder;
}

static void check_rows(const rt_dump *d, const design *g)
{
    double row[16];
    for (int t = 0; t < RT_TENSOR_COUNT; t++) {
        assert_int_equal(d->present[t], !(g->absent >> t & 1));
        if (!d->present[t])
            continue;
        assert_int_equal(d->dtype[t], RT_F32);
        int64_t n = t == RT_LSE                                          ? 1
                    : t == RT_Q || t == RT_K || t == RT_DQ || t == RT_DK ? g->dim
                                                                         : g->dim_v;
        for (int64_t b = 0; b < g->batch; b++) {
            for (int64_t pos = 0; pos < (kv_side(t) ? g->seqlen_k : g->seqlen); pos++) {
                for (int64_t h = 0; h < (kv_side(t) ? g->kv_heads : g->heads); h++) {
                    rt_dump_load(d, (rt_tensor_id)t, b, pos, h, row);
                    float first;
                    memcpy(&first, rt_dump_row(d, (rt_tensor_id)t, b, pos, h), sizeof first);
                    t_assert_bits_eq((double)first, row[0]);
                    for (int64_t i = 0; i < n; i++)
                        t_assert_bits_eq(row[i], (double)value_at(t, b, pos, h, i));
                }
            }
        }
    }
}

static void open_and_check(const char *path, const design *g)
{
    rt_context ctx = {0};
    rt_dump d;
    t_assert_ok(&ctx, rt_dump_open(&ctx, &path, 1, NULL, &d));
    assert_int_equal(d.per_rank, !g->global || g->ranks == 1);
    check_rows(&d, g);
    rt_dump_close(&d);
}

static const design plain = {.batch = 2,
                             .seqlen = 22,
                             .seqlen_k = 19,
                             .heads = 4,
                             .kv_heads = 2,
                             .dim = 8,
                             .dim_v = 5,
                             .ranks = 4,
                             .layout = RT_LAYOUT_ZIGZAG,
                             .odd_rank = -1};

static void dump_any_arrangement_gives_the_same_rows(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * 4 * 3 * 4; i++) {
        design g = plain;
        g.order = i % 3;
        g.lse_shape = (i + i / 3) % 3;
        g.layout = (rt_layout_kind)(i / 3 % 4);
        g.ranks = (const int[]){1, 3, 4}[i / 12 % 3];
        g.global = i / 36 & 1;
        g.npy = i / 72 & 1;
        if (g.layout == RT_LAYOUT_POSITIONS && (g.global || g.npy))
            continue;
        const char *folder = write_dump(&g);
        open_and_check(folder, &g);
        g.batch = 1;
        g.no_batch = i & 1;
        g.absent = 1 << RT_LSE | 1 << RT_DQ;
        open_and_check(write_dump(&g), &g);
    }
    design few = plain; /* ranks without a token */
    few.seqlen = few.seqlen_k = 2;
    open_and_check(write_dump(&few), &few);
}

static void dump_list_of_files_is_rank_by_rank(void **state)
{
    (void)state;
    rt_context ctx = {0};
    rt_dump d;
    design g = plain;
    const char *folder = write_dump(&g), *paths[5];
    static char names[5][700];
    for (int r = 0; r < 5; r++) {
        char from[700];
        (void)snprintf(from, sizeof from, "%s/rank%d.safetensors", folder, r);
        (void)snprintf(names[r], sizeof names[r], "%s/cp-%c.safetensors", folder, "dbca"[r % 4]);
        if (r < 4)
            assert_int_equal(rename(from, names[r]), 0);
        paths[r] = names[r];
    }
    t_assert_ok(&ctx, rt_dump_open(&ctx, paths, 4, NULL, &d));
    assert_string_equal(d.path, paths[0]);
    check_rows(&d, &g);
    rt_dump_close(&d);
    t_assert_status(&ctx, rt_dump_open(&ctx, paths, 3, NULL, &d), RT_ERR_IO);
    t_assert_says(&ctx, "list of 3 files has no file for rank 3 of 4");
    t_assert_status(&ctx, rt_dump_open(&ctx, paths, 5, NULL, &d), RT_ERR_FORMAT);
    t_assert_says(&ctx, "surplus file");
    t_assert_says(&ctx, "rank 4");
    t_assert_status(&ctx, rt_dump_open(&ctx, &folder, 1, NULL, &d), RT_ERR_FORMAT);
    t_assert_says(&ctx, "none is named rank0.safetensors");
    t_assert_status(&ctx, rt_dump_open(&ctx, paths, 0, NULL, &d), RT_ERR_ARG);
    paths[2] = t_scratch("gone.safetensors");
    t_assert_status(&ctx, rt_dump_open(&ctx, paths, 4, NULL, &d), RT_ERR_IO);
    t_assert_says(&ctx, "rank 2: cannot open");
    g.global = true;
    char file[700];
    (void)snprintf(file, sizeof file, "%s/all.safetensors", write_dump(&g));
    open_and_check(file, &g);
}

static void dump_fortran_and_other_endianness_are_read(void **state)
{
    (void)state;
    design g = plain;
    g.npy = g.global = true;
    const char *folder = write_dump(&g);
    for (int t = 0; t < RT_TENSOR_COUNT; t++) { /* turn each file over, in place */
        rt_context ctx = {0};
        rt_file f;
        char path[700], bytes[65536] = "\x93NUMPY\1\0\x70\0";
        (void)snprintf(path, sizeof path, "%s/%s.npy", folder, rt_tensor_name((rt_tensor_id)t));
        t_assert_ok(&ctx, rt_file_open(&ctx, path, &f));
        const rt_view *v = &f.tensors[0].view;
        const int64_t *n = v->shape;
        char shape[80];
        (void)snprintf(shape, sizeof shape, v->ndim == 4 ? "(%d, %d, %d, %d)" : "(%d, %d, %d)", (int)n[0],
                       (int)n[1], (int)n[2], (int)n[3]);
        char literal[200];
        int used = snprintf(literal, sizeof literal, "{'descr': '>f4', 'fortran_order': True, 'shape': %s}",
                            shape);
        assert_in_range(used, 1, 0x6f);
        memset(bytes + 10, ' ', 0x6f);
        memcpy(bytes + 10, literal, (size_t)used);
        bytes[10 + 0x6f] = '\n';
        int64_t last = v->ndim == 4 ? n[3] : 1, at = 10 + 0x70;
        for (int64_t l = 0; l < last; l++)
            for (int64_t k = 0; k < n[2]; k++)
                for (int64_t j = 0; j < n[1]; j++)
                    for (int64_t i = 0; i < n[0]; i++, at += 4) {
                        const char *e = rt_view_at(v, (int64_t[]){i, j, k, l});
                        for (int b = 0; b < 4; b++)
                            bytes[at + b] = e[3 - b];
                    }
        rt_file_close(&f);
        t_write_file(path, bytes, (size_t)at);
    }
    open_and_check(folder, &g);
}

static void expect_error(const char *path, const char *spec, rt_status want, const char *says,
                         const char *also)
{
    rt_context ctx = {0};
    rt_dump d, before;
    memset(&d, 0x5a, sizeof d);
    memset(&before, 0x5a, sizeof before);
    t_assert_status(&ctx, rt_dump_open(&ctx, &path, 1, spec, &d), want);
    t_assert_says(&ctx, says);
    t_assert_says(&ctx, also);
    assert_memory_equal(&d, &before, sizeof d);
}

static void dump_each_damage_is_named(void **state)
{
    (void)state;
    static const struct {
        int what;
        rt_status want;
        const char *says;
    } odd[] = {
        {ODD_ABSENT, RT_ERR_FORMAT, "tensor 'v' is missing"},
        {ODD_DTYPE, RT_ERR_FORMAT, "tensor 'v' is bf16, but rank 0 has it in f32"},
        {ODD_INTEGER, RT_ERR_FORMAT, "tensor 'v' is i32; v must be a floating format"},
        {ODD_SHORT, RT_ERR_FORMAT,
         "of rank 2: layout zigzag (remainder spread, ranks 4) gives 5 slots, the file "
         "has 4"},
        {ODD_DIM, RT_ERR_FORMAT, "has shape (2, 5, 2, 4); the spec gives (2, S, 2, 5) in order bshd"},
        {ODD_METADATA, RT_ERR_FORMAT, "metadata \"ringtrue\" differs"},
        {ODD_CUT, RT_ERR_FORMAT, "rank 2: "}};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        design g = plain;
        g.odd_rank = 2;
        g.odd_what = odd[i].what;
        expect_error(write_dump(&g), NULL, odd[i].want, odd[i].says, "rank2.safetensors");
    }
    design g = plain;
    const char *folder = write_dump(&g);
    char path[700], other[700];
    (void)snprintf(path, sizeof path, "%s/rank2.safetensors", folder);
    (void)snprintf(other, sizeof other, "%s/rank4.safetensors", folder);
    assert_int_equal(rename(path, other), 0);
    expect_error(folder, NULL, RT_ERR_IO, "missing file", "rank2.safetensors': rank 2 of 4");
    assert_int_equal(rename(other, path), 0);
    t_write_file(other, "", 0);
    expect_error(folder, NULL, RT_ERR_FORMAT, "rank4.safetensors': it would be rank 4", "surplus file");
    assert_int_equal(unlink(other), 0);
    open_and_check(folder, &g);
    (void)snprintf(path, sizeof path, "%s/rank0.safetensors", folder);
    assert_int_equal(unlink(path), 0);
    expect_error(folder, NULL, RT_ERR_IO, "missing file", "rank0.safetensors': rank 0 of 4");

    g.npy = true;
    g.odd_rank = 2;
    g.odd_what = ODD_ABSENT;
    expect_error(write_dump(&g), NULL, RT_ERR_IO, "rank2.v.npy", "rank 2 of 4");
    for (int t = RT_Q; t <= RT_V; t++) {
        g = plain;
        g.absent = 1u << t;
        (void)snprintf(path, sizeof path, "tensor '%s' is missing", rt_tensor_name((rt_tensor_id)t));
        expect_error(write_dump(&g), NULL, RT_ERR_FORMAT, path, "rank0.safetensors");
    }
    g = plain;
    g.keys = "\"tensors\": {\"lse\": \"softmax_lse\"}"; /* named, hence promised */
    expect_error(write_dump(&g), NULL, RT_ERR_FORMAT, "tensor 'softmax_lse' is missing", "rank0");
    g = plain;
    g.keys = "\"remainder\": \"refuse\"";
    expect_error(write_dump(&g), NULL, RT_ERR_FORMAT, "metadata \"ringtrue\"", "zigzag");
    g = plain;
    g.keys = "\"remainder\": \"last\"";
    expect_error(write_dump(&g), NULL, RT_ERR_FORMAT, "layout zigzag (remainder last",
                 "{\"positions\": NAME}");
    expect_error(t_scratch("nowhere"), NULL, RT_ERR_IO, "cannot open", "nowhere");
    assert_int_equal(mkdir(t_scratch("empty"), 0777), 0);
    expect_error(t_scratch("empty"), NULL, RT_ERR_IO, "holds no dump", "empty");
}

static void dump_positions_damage_is_named(void **state)
{
    (void)state;
    design g = plain;
    g.layout = RT_LAYOUT_POSITIONS;
    g.odd_rank = 2;
    g.odd_what = ODD_REPEAT;
    expect_error(write_dump(&g), NULL, RT_ERR_FORMAT, "positions 'pos'", "");
    g.odd_what = ODD_POS_F32;
    expect_error(write_dump(&g), NULL, RT_ERR_FORMAT, "one axis of i32 or i64, are f32",
                 "rank2.safetensors");
    g.odd_what = FINE;
    g.global = true;
    expect_error(write_dump(&g), NULL, RT_ERR_FORMAT, "need one file per rank", "ranks is 4");
    g = plain;
    const char *folder = write_dump(&g), *spec = t_scratch("positions.json");
    g.layout = RT_LAYOUT_POSITIONS;
    t_write_file(spec, spec_of(&g), strlen(spec_of(&g)));
    expect_error(folder, spec, RT_ERR_FORMAT, "tensor 'pos' is missing", "rank0.safetensors");
}

static void dump_spec_is_found_in_order(void **state)
{
    (void)state;
    rt_context ctx = {0};
    rt_dump d;
    design g = plain;
    g.no_metadata = true;
    const char *folder = write_dump(&g), *text = spec_of(&g), *given = t_scratch("given.json");
    expect_error(folder, NULL, RT_ERR_IO, "has no spec", "--spec FILE");
    char beside[700];
    (void)snprintf(beside, sizeof beside, "%s/spec.json", folder);
    t_write_file(beside, text, strlen(text));
    open_and_check(folder, &g);
    t_write_file(beside, "{}", 2);
    expect_error(folder, NULL, RT_ERR_FORMAT, "spec.json: key \"ringtrue\" is missing", folder);
    t_write_file(beside, "", 0);
    expect_error(folder, NULL, RT_ERR_FORMAT, "spec.json: not JSON", folder);
    t_write_file(given, text, strlen(text));
    t_assert_ok(&ctx, rt_dump_open(&ctx, &folder, 1, given, &d)); /* the given one comes first */
    check_rows(&d, &g);
    rt_declared want;
    rt_declared_init(&want, RT_F32);
    assert_memory_equal(&d.spec.declared, &want, sizeof want);
    rt_dump_close(&d);
    expect_error(folder, t_scratch("absent.json"), RT_ERR_IO, "cannot open", "absent.json");
    g.seqlen = 23;
    t_write_file(given, spec_of(&g), strlen(spec_of(&g)));
    expect_error(folder, given, RT_ERR_FORMAT,
                 "key \"seqlen\" is 23, but tensor 'q' has 22 tokens in 4 files", "given.json");
    g = plain;
    g.seqlen_k = 1000000000;
    t_write_file(given, spec_of(&g), strlen(spec_of(&g)));
    expect_error(folder, given, RT_ERR_FORMAT, "key \"seqlen_k\" is 1000000000", "given.json");
}

static void dump_undeclared_arithmetic_is_assumed_from_q(void **state)
{
    (void)state;
    static const rt_dtype dtypes[] = {RT_BF16, RT_F16, RT_F64};
    for (int i = 0; i < 3; i++) {
        rt_context ctx = {0};
        rt_file_writer w;
        rt_dump d;
        char name[40];
        (void)snprintf(name, sizeof name, "one%d.safetensors", i);
        const char *path = t_scratch(name);
        const rt_tensor_decl decls[3] = {
            {"q", dtypes[i], 3, {1, 1, 1}}, {"k", RT_F32, 3, {1, 1, 1}}, {"v", RT_E4M3, 3, {1, 1, 1}}};
        t_assert_ok(
            &ctx, rt_file_create(&ctx, path, decls, 3,
                                 "{\"ringtrue\": 1, \"batch\": 1, \"seqlen\": 1, \"heads\": 1, \"dim\": 1, "
                                 "\"mask\": \"full\", \"arithmetic\": {\"exp\": 1e-7}}",
                                 &w));
        t_assert_ok(&ctx, rt_file_finish(&ctx, &w));
        t_assert_ok(&ctx, rt_dump_open(&ctx, &path, 1, NULL, &d));
        rt_declared want;
        rt_declared_init(&want, dtypes[i]);
        want.exp_rel = 1e-7;
        want.assumed &= ~(uint32_t)RT_DECL_EXP;
        assert_memory_equal(&d.spec.declared, &want, sizeof want);
        assert_int_equal(d.dtype[RT_V], RT_E4M3);
        rt_dump_close(&d);
    }
}

/* ---- the dumps of other programs ---- */

static const struct {
    const char *name;
    int ranks;
    rt_dtype dtype;
    bool lse;
} field[] = {{"rfa-ring-minilm", 4, RT_BF16, true},   {"rfa-zigzag-gqa", 4, RT_BF16, true},
             {"rfa-stripe", 3, RT_F16, true},         {"rfa-llama3-docs", 4, RT_BF16, true},
             {"torch-cp-headtail", 4, RT_BF16, true}, {"torch-cp-contiguous", 3, RT_F32, true},
             {"usp-u2r2-zigzag", 4, RT_BF16, false},  {"jax-ring", 4, RT_F32, false},
             {"diffusers-ring", 4, RT_BF16, true}};

/* A row by its original position against the file, read on its own through the position tensor. */
static void check_field_dump(const rt_dump *d, int i)
{
    int64_t seen = 0;
    assert_int_equal(d->spec.ranks, field[i].ranks);
    assert_int_equal(d->layout.note[0], '\0');
    assert_int_equal(d->spec.declared.assumed, RT_DECL_TANH); /* none has a softcap */
    for (int t = 0; t < RT_TENSOR_COUNT; t++) {
        assert_int_equal(d->present[t], t == RT_LSE ? field[i].lse : true);
        if (d->present[t])
            assert_int_equal(d->dtype[t], t == RT_LSE ? RT_F32 : field[i].dtype);
    }
    for (int r = 0; r < field[i].ranks; r++) {
        const rt_view *pos = &rt_file_find(&d->files[r], "pos")->view;
        const int64_t n = pos->shape[0];
        assert_int_equal(n, rt_layout_count(&d->layout, RT_SIDE_Q, r));
        for (int64_t s = 0; s < n; s++, seen++) {
            int32_t p;
            memcpy(&p, rt_view_at(pos, &s), sizeof p);
            assert_int_equal(p, rt_layout_positions(&d->layout, RT_SIDE_Q, r)[s]);
            assert_int_equal(p, rt_layout_positions(&d->layout, RT_SIDE_KV, r)[s]);
            for (int t = 0; t < RT_TENSOR_COUNT; t++) {
                if (!d->present[t])
                    continue;
                const rt_view *v = &rt_file_find(&d->files[r], rt_tensor_name((rt_tensor_id)t))->view;
                int64_t heads = v->shape[t == RT_LSE ? 1 : 2], h = (s + t) % heads;
                const int64_t index[4] = {0, t == RT_LSE ? h : s, t == RT_LSE ? s : h, 0};
                assert_ptr_equal(rt_dump_row(d, (rt_tensor_id)t, 0, p, h), rt_view_at(v, index));
            }
        }
    }
    assert_int_equal(seen, d->spec.problem.seqlen_q);
}

/* Open those that `data` holds; how many there were. */
static int open_field_dumps(const char *data, const char *source)
{
    int opened = 0;
    for (int i = 0; i < (int)(sizeof field / sizeof field[0]); i++) {
        rt_context ctx = {0};
        rt_dump d;
        char folder[700], spec[700];
        (void)snprintf(folder, sizeof folder, "%s/%s", data, field[i].name);
        (void)snprintf(spec, sizeof spec, "%s/validation/specs/%s.json", source, field[i].name);
        const char *path = folder;
        if (!t_exists(folder))
            continue;
        t_assert_ok(&ctx, rt_dump_open(&ctx, &path, 1, spec, &d));
        check_field_dump(&d, i);
        rt_dump_close(&d);
        opened++;
    }
    return opened;
}

static void dump_of_other_programs_open_with_our_specs(void **state)
{
    (void)state;
    const char *source = getenv("RT_SOURCE_DIR");
    char data[700];
    if (!source || !*source) {
        print_message("RT_SOURCE_DIR is not set: skipped\n");
        skip();
    }
    (void)snprintf(data, sizeof data, "%s/data", source);
    assert_int_equal(open_field_dumps(data, source), 3);
}

static void dump_all_nine_open_with_our_specs(void **state)
{
    (void)state;
    const char *data = getenv("RT_FIELD_DATA"), *source = getenv("RT_SOURCE_DIR");
    if (!data || !*data || !source || !*source) {
        print_message("no field data (CMake: RT_FIELD_DATA): skipped\n");
        skip();
    }
    assert_int_equal(open_field_dumps(data, source), 9);
}

/* ---- output folders ---- */

static void folder_appears_complete_or_not_at_all(void **state)
{
    (void)state;
    rt_context ctx = {0};
    char *aside = NULL, file[700];
    const char *home = t_scratch("home"), *out = t_scratch("home/out"), *slash = t_scratch("home/out/");
    assert_int_equal(mkdir(home, 0777), 0);
    t_assert_ok(&ctx, rt_folder_begin(&ctx, slash, false, &aside));
    assert_int_equal(strncmp(aside, out, strlen(out)), 0);
    assert_int_equal(strncmp(aside + strlen(out), ".part-", 6), 0);
    assert_false(t_exists(out));
    (void)snprintf(file, sizeof file, "%s/new", aside);
    t_write_file(file, "1", 1);
    t_assert_ok(&ctx, rt_folder_commit(&ctx, slash, false, &aside));
    assert_null(aside);
    assert_true(t_exists(t_scratch("home/out/new")));
    assert_int_equal(t_count_entries(home), 1);

    /* an existing folder stays, unless forced; then it is replaced whole */
    t_assert_status(&ctx, rt_folder_begin(&ctx, out, false, &aside), RT_ERR_IO);
    t_assert_says(&ctx, "exists");
    assert_null(aside);
    t_assert_ok(&ctx, rt_folder_begin(&ctx, out, true, &aside));
    t_assert_status(&ctx, rt_folder_commit(&ctx, out, false, &aside), RT_ERR_IO);
    assert_non_null(aside);
    assert_true(t_exists(t_scratch("home/out/new")));
    t_assert_ok(&ctx, rt_folder_commit(&ctx, out, true, &aside));
    assert_int_equal(t_count_entries(out), 0);
    assert_int_equal(t_count_entries(home), 1);

    /* abandoned: nothing is left, links are not followed */
    t_write_file(t_scratch("kept"), "1", 1);
    t_assert_ok(&ctx, rt_folder_begin(&ctx, t_scratch("home/second"), false, &aside));
    (void)snprintf(file, sizeof file, "%s/deep", aside);
    assert_int_equal(mkdir(file, 0777), 0);
    (void)snprintf(file, sizeof file, "%s/deep/link", aside);
    assert_int_equal(symlink(t_scratch_folder, file), 0);
    rt_folder_abandon(&aside);
    assert_null(aside);
    rt_folder_abandon(&aside);
    assert_int_equal(t_count_entries(home), 1);
    assert_true(t_exists(t_scratch("kept")));

    t_assert_status(&ctx, rt_folder_begin(&ctx, t_scratch("no/such/out"), false, &aside), RT_ERR_IO);
    t_assert_status(&ctx, rt_folder_begin(&ctx, "/", true, &aside), RT_ERR_ARG);
    t_assert_status(&ctx, rt_folder_begin(&ctx, "..", true, &aside), RT_ERR_ARG);
    t_assert_status(&ctx, rt_folder_begin(&ctx, "", true, &aside), RT_ERR_ARG);
    assert_null(aside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dump_any_arrangement_gives_the_same_rows),
        cmocka_unit_test(dump_list_of_files_is_rank_by_rank),
        cmocka_unit_test(dump_fortran_and_other_endianness_are_read),
        cmocka_unit_test(dump_each_damage_is_named),
        cmocka_unit_test(dump_positions_damage_is_named),
        cmocka_unit_test(dump_spec_is_found_in_order),
        cmocka_unit_test(dump_undeclared_arithmetic_is_assumed_from_q),
        cmocka_unit_test(dump_of_other_programs_open_with_our_specs),
        cmocka_unit_test(dump_all_nine_open_with_our_specs),
        cmocka_unit_test(folder_appears_complete_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, t_scratch_setup, t_scratch_teardown);
}
