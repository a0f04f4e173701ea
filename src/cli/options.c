/* The one table of flags. */
#include "cli/options.h"
#include "cli/options_parse.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum {
    GEN = 1,
    RUN = 2,
    PLAN = 4,
    CHECK = 8,
    DIFF = 16,
    INFO = 32,
    BENCH = 64,
    GRID = 128,
    PROBLEM = GEN | PLAN | GRID
};

static const struct {
    const char *name;
    int letter;
    const char *value;
    int verbs;
    const char *help;
} table[] = {
    {"family", 1001, "NAME", GEN,
     "gaussian (default), exact, tracer, tilted, huge: see include/ringtrue/generate.h"},
    {"seed", 1002, "N", GEN | CHECK, "seed of the generator, or of the samples (default 1)"},
    {"batch", 1003, "N", PROBLEM | BENCH, "batch size B (default 1)"},
    {"seqlen", 1004, "N", PROBLEM | BENCH,
     "query tokens Sq of the whole sequence; k, M, G suffixes are powers of 1024 (default 256; bench: "
     "2048)"},
    {"seqlen-k", 1005, "N", PROBLEM, "key tokens Sk (default: seqlen)"},
    {"heads", 1006, "N", PROBLEM | BENCH, "query heads Hq (default 8)"},
    {"kv-heads", 1007, "N", PROBLEM | BENCH, "key heads Hkv, a divisor of heads (default: heads)"},
    {"dim", 1008, "N", PROBLEM | BENCH, "head dim D of q and k (default 64; bench: 128, and of v)"},
    {"dim-v", 1009, "N", PROBLEM, "head dim Dv of v and out (default: dim)"},
    {"dtype", 1010, "NAME", PROBLEM | BENCH, "bf16 (default), f16, f32, f64, e4m3, e5m2: of the inputs"},
    {"mask", 1011, "NAME", PROBLEM | BENCH, "full (default), causal, causal-bottom-right"},
    {"cu-seqlens", 1012, "LIST", PROBLEM,
     "document boundaries, e.g. 0,128,320,512; the mask then holds inside documents"},
    {"cu-seqlens-k", 1013, "LIST", PROBLEM, "boundaries of the keys (default: cu-seqlens)"},
    {"window", 1050, "LIST", PROBLEM,
     "LEFT,RIGHT: sliding window around the mask's diagonal; -1: no limit on that side"},
    {"prefix", 1051, "N", PROBLEM, "prefix-LM: the first N keys (of each document) are always visible"},
    {"slices", 1052, "FILE", PROBLEM,
     "lines 'q0 q1 k0 k1 KIND': only these rectangles; full causal inv-causal bi-causal"},
    {"key-lengths", 1053, "LIST", PROBLEM, "key padding: how many keys of each batch count, e.g. 200,256"},
    {"dense-mask", 1054, "FILE", PROBLEM, "npy file (Sq, Sk), bool: which pairs are visible"},
    {"scale", 1014, "X", PROBLEM,
     "score scale: rsqrt_dim (default, exactly 1/sqrt(D)), f32:X, f64:X or X (f64)"},
    {"softcap", 1080, "C", PROBLEM | BENCH, "scores become C tanh(s / C)"},
    {"alibi", 1081, NULL, PROBLEM | BENCH, "ALiBi with the standard slopes 2^(-8 h / heads)"},
    {"bias", 1082, "SHAPE", PROBLEM | BENCH,
     "an additive bias of shape bhss, or with 1 where it is broadcast: 1hss 11ss b1ss 111s .."},
    {"sink", 1083, NULL, PROBLEM | BENCH,
     "an attention sink: a logit for each head that joins the softmax"},
    {"dropout", 1084, "P", PROBLEM | BENCH,
     "drop weights with probability P, by (batch, head, query, key)"},
    {"dropout-seed", 1085, "N", PROBLEM | BENCH, "the seed of dropout (default 1)"},
    {"plan", 1015, "NAME", RUN | PLAN | CHECK,
     "the algorithm; plan --list names them (default: the spec's, else single)"},
    {"layout", 1016, "NAME", GEN | RUN | PLAN | GRID,
     "contiguous, zigzag, striped:stripe=2, ..; grid --list names them (default: the spec's, else "
     "contiguous)"},
    {"cu-seqlens-padded", 1070, "LIST", GEN | RUN | PLAN | GRID,
     "offsets of the documents in padded tensors, or none (default: the spec's)"},
    {"cu-seqlens-k-padded", 1071, "LIST", GEN | RUN | PLAN | GRID,
     "the same of the keys (default: cu-seqlens-padded)"},
    {"remainder", 1017, "RULE", GEN | RUN | PLAN | GRID,
     "who holds the remainder: spread (default), ceil, last, refuse"},
    {"ranks", 1018, "P", GEN | RUN | PLAN | GRID, "context-parallel ranks P (default: the spec's, else 1)"},
    {"arith", 1019, "NAME", RUN | BENCH,
     "f64 (default), f32 (fast), exact (correctly rounded); bench: a list (default: all)"},
    {"out-dtype", 1020, "NAME", RUN,
     "dtype of the results (default: the arithmetic's own; lse is f64 or f32)"},
    {"spec", 1021, "FILE", RUN | CHECK | INFO | DIFF | PLAN | GRID,
     "the spec of a dump that must not be touched (JSON)"},
    {"declare", 1022, "KEY=VALUE", CHECK,
     "override a key of the spec's arithmetic, e.g. exp=2.4e-7; may be repeated"},
    {"delta", 1023, "X", CHECK, "chance that a right result is called SUSPECT, per tensor (default 1e-6)"},
    {"budget", 1032, "TIME", CHECK,
     "judge everything if it fits in this time (60s; suffixes s, m, h), else samples"},
    {"full", 1033, NULL, CHECK, "judge everything, however long it takes"},
    {"samples", 1034, "N", CHECK,
     "how many (token, head) rows, and as many keys, a sample has (default 1024)"},
    {"sample", 1036, "WHAT", CHECK, "auto (default: as the budget demands), keys, both"},
    {"truth", 1035, "NAME", CHECK, "exact (default: correctly rounded) or f64 (binary64 with its radius)"},
    {"json", 1024, NULL, PLAN | GRID | CHECK | DIFF | INFO | BENCH,
     "JSON instead of text: one object (bench: an array of rows)"},
    {"fingerprint", 1025, NULL, RUN | INFO, "one order-free fingerprint per tensor, by original position"},
    {"verify", 1026, NULL, PLAN, "say that the plan is proved (plan and run always prove it first)"},
    {"list", 1027, NULL, PLAN | GRID, "the planners (plan) or layouts (grid), with what they take"},
    {"summary", 1028, NULL, PLAN | GRID, "counters only: no tiles and moves (plan), no positions (grid)"},
    {"relayout", 1196, "LAYOUT", RUN, "run no plan: write the dump's tensors, bit by bit, in this layout"},
    {"world", 1180, "N", GRID, "ranks of the world (default: the product of the sizes); gives dp"},
    {"order", 1181, "AXES", GRID,
     "axes, the fastest first (default tp-cp-ep-dp-pp), or megatron, mindspeed, paddle"},
    {"tp", 1182, "N", GRID, "tensor-parallel size (Paddle: model)"},
    {"cp", 1183, "N", GRID, "context-parallel size (Paddle: sep)"},
    {"dp", 1184, "N", GRID, "data-parallel size"},
    {"pp", 1185, "N", GRID, "pipeline-parallel size"},
    {"ep", 1186, "N", GRID, "expert-parallel size: groups of the expert layers too"},
    {"sharding", 1187, "N", GRID, "Paddle's sharding size"},
    {"cp-levels", 1188, "LIST", GRID, "sizes of hierarchical context parallelism, the innermost first"},
    {"ulysses", 1189, "U", GRID, "Ulysses groups of U ranks in each cp group, and the rings"},
    {"cp-order", 1190, "NAME", GRID, "ulysses-low (default: its ranks are neighbours) or ring-low"},
    {"cp-window", 1191, "W", GRID,
     "a double ring with windows of W: groups, and the order in which ranks see KV"},
    {"double-ring", 1195, "NAME", GRID, "whose: mindspeed (default), loongtrain, loongtrain-interleaved"},
    {"hybrid-cp", 1192, NULL, GRID, "Megatron's groups of hybrid (dynamic) context parallelism"},
    {"lengths", 1193, "LIST", GRID, "lengths of sequences, for the ranks that each gets (needs max-len)"},
    {"max-len", 1194, "N", GRID, "tokens that a rank takes at most"},
    {"table", 1095, NULL, PLAN,
     "who computes which pair of shards, steps by ranks, instead of tiles and moves"},
    {"forward-only", 1029, NULL, GEN | RUN, "no dout (gen), no backward (run)"},
    {"results", 1031, NULL, GEN, "family tracer: out, lse, dq, dk, dv too, by closed form, for any length"},
    {"iters", 1040, "N", BENCH, "timed repetitions (default 5)"},
    {"warmup", 1041, "N", BENCH, "repetitions before them that are not timed (default 1)"},
    {"peer", 1042, NULL, BENCH,
     "in turn with PyTorch's attention on this CPU; RINGTRUE_PYTHON names a python3 that has torch"},
    {"ring", 1063, NULL, BENCH,
     "median time of a step of run that only sends round a ring, against MPI_Sendrecv; mpirun -n 2 or "
     "more"},
    {"cost", 1064, "MACHINE", PLAN,
     "price the plan: bandwidth=25GB/s,latency=2us,flops=100TF (a rank's); see cost.h"},
    {"svg", 1060, "FILE", PLAN, "draw the plan: mask by rank, who computes what when, messages as arrows"},
    {"trace", 1061, "FILE", RUN,
     "what happened when, for ui.perfetto.dev: tiles, waits, messages of all processes; needs no -o"},
    {"transport", 1062, "NAME", RUN,
     "auto (default), p2p, collective: how messages travel; the bits are the same"},
    {"output", 'o', "FOLDER", GEN | RUN, "where the dump goes; appears complete or not at all"},
    {"force", 1030, NULL, GEN | RUN | PLAN, "replace what exists: the output folder, picture or trace"},
    {"quiet", 'q', NULL, GRID | GEN | RUN | PLAN | CHECK | DIFF | INFO | BENCH,
     "no progress on the terminal"},
    {"help", 'h', NULL, GRID | GEN | RUN | PLAN | CHECK | DIFF | INFO | BENCH, "this text"},
};
enum { N_FLAGS = sizeof table / sizeof table[0] };
_Static_assert(sizeof table / sizeof table[0] <= 256, "rt_options.given has 256 bits");

static const struct {
    const char *name, *usage, *about;
    int bit;
} verbs[] = {
    {"gen", "ringtrue gen [flags] -o FOLDER",
     "Make inputs from a seed; the same numbers for any layout and P.", GEN},
    {"run", "[mpirun -n N] ringtrue run DUMP [flags] (-o FOLDER | --fingerprint | --trace FILE)",
     "Run a plan on the inputs of a dump: P ranks in one process or over N <= P.", RUN},
    {"plan", "ringtrue plan [DUMP] [flags]", "Print steps, tiles, moves and counters of a plan.", PLAN},
    {"grid", "ringtrue grid [DUMP] [flags]",
     "Print which rank owns which token, or the process groups of a world.", GRID},
    {"check", "[mpirun -n N] ringtrue check DUMP.. [flags]",
     "Judge a dump: a folder, one file, or one file per rank in rank order.", CHECK},
    {"diff", "ringtrue diff A B [flags]",
     "Bits and ulps between two files, or two dumps by original position.", DIFF},
    {"info", "ringtrue info DUMP.. [flags]", "What a dump holds, and its spec.", INFO},
    {"bench", "ringtrue bench [flags] | mpirun -n N ringtrue bench --ring",
     "Time the arithmetics against the BLAS on this machine.", BENCH},
};

static int verb_bit(const char *verb)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(verbs[i].name, verb) == 0)
            return verbs[i].bit;
    return 0;
}

void rt_options_help(FILE *f, const char *verb)
{
    if (verb == NULL) {
        fprintf(f,
                "ringtrue %s: the referee for context-parallel attention\n\nusage: ringtrue VERB "
                "[arguments] [flags]\n\n",
                RT_VERSION);
        for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
            fprintf(f, "  %-6s %s\n", verbs[i].name, verbs[i].about);
        fprintf(f, "\nringtrue VERB --help lists a verb's flags.  mpirun -n N ringtrue run | check spreads "
                   "the work.\n"
                   "Exit codes: 0 pass, 1 numeric failure, 2 usage, 3 input or format, 4 MPI or system.\n");
        return;
    }
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(verbs[i].name, verb) == 0)
            fprintf(f, "%s\n\nusage: %s\n\n", verbs[i].about, verbs[i].usage);
    for (int i = 0; i < N_FLAGS; i++) {
        if ((table[i].verbs & verb_bit(verb)) == 0)
            continue;
        char left[64];
        snprintf(left, sizeof left, "%s--%s%s%s",
                 table[i].letter == 'o'   ? "-o, "
                 : table[i].letter == 'q' ? "-q, "
                 : table[i].letter == 'h' ? "-h, "
                                          : "",
                 table[i].name, table[i].value != NULL ? " " : "",
                 table[i].value != NULL ? table[i].value : "");
        fprintf(f, "  %-24s %s\n", left, table[i].help);
    }
}

static rt_status layout_check(rt_context *ctx, const char *flag, const char *value)
{
    rt_context inner = {.message = ""};
    if (rt_layout_check_name(&inner, value) == RT_OK)
        return RT_OK;
    return rt_fail(ctx, RT_ERR_ARG, "--%s %.200s: %s", flag, value, inner.message);
}

static rt_status unknown_arithmetic(rt_context *ctx, const char *flag, const char *value)
{
    char names[200] = "";
    for (const rt_arithmetic_ops *const *a = rt_arithmetics(); *a != NULL; a++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? " " : "", rt_arithmetic_name(*a));
    }
    return rt_option_unknown(ctx, flag, value, names);
}

/* A list of names: bench. */
static rt_status check_arithmetics(rt_context *ctx, const char *flag, const char *list)
{
    for (const char *at = list;; at++) {
        char one[32];
        const size_t n = strcspn(at, ",");
        snprintf(one, sizeof one, "%.*s", (int)(n < sizeof one ? n : sizeof one - 1), at);
        if (rt_arithmetic_find(one) == NULL)
            return unknown_arithmetic(ctx, flag, list);
        at += n;
        if (*at == '\0')
            return RT_OK;
    }
}

/* The flags of the groups: numbers, lists and names. */
static rt_status apply_grid(rt_context *ctx, rt_grid_options *g, int letter, const char *name,
                            const char *v)
{
    int64_t *const numbers[] = {&g->world, NULL,         &g->tp,   &g->cp,      &g->dp, &g->pp,
                                &g->ep,    &g->sharding, NULL,     &g->ulysses, NULL,   &g->window,
                                NULL,      NULL,         &g->most, NULL};
    g->asked = true;
    if (numbers[letter - 1180] != NULL)
        return rt_option_int(ctx, name, v, 1, letter == 1194 ? INT64_C(1) << 40 : INT64_C(1) << 20,
                             numbers[letter - 1180]);
    switch (letter) {
    case 1181:
        g->order = v;
        return RT_OK;
    case 1188:
        return rt_option_list(ctx, name, v, &g->levels, &g->n_levels);
    case 1195:
        g->double_ring = v;
        return strcmp(v, "mindspeed") == 0 || strcmp(v, "loongtrain") == 0 ||
                       strcmp(v, "loongtrain-interleaved") == 0
                   ? RT_OK
                   : rt_option_unknown(ctx, name, v, "mindspeed loongtrain loongtrain-interleaved");
    case 1190:
        g->cp_order = v;
        return strcmp(v, "ulysses-low") == 0 || strcmp(v, "ring-low") == 0
                   ? RT_OK
                   : rt_option_unknown(ctx, name, v, "ulysses-low ring-low");
    case 1192:
        g->hybrid = true;
        return RT_OK;
    default:
        return rt_option_list(ctx, name, v, &g->lengths, &g->n_lengths);
    }
}

static rt_status apply(rt_context *ctx, rt_options *o, int letter, const char *name, const char *v)
{
    const int64_t big = INT64_C(1) << 40;
    int64_t n = 0;
    switch (letter) {
    case 1001:
        return rt_family_parse(v, &o->family)
                   ? RT_OK
                   : rt_option_unknown(ctx, name, v, "gaussian exact tracer tilted huge");
    case 1002:
        RT_TRY(rt_option_int(ctx, name, v, 0, INT64_MAX, &n));
        o->seed = (uint64_t)n;
        return RT_OK;
    case 1003:
        return rt_option_int(ctx, name, v, 1, big, &o->batch);
    case 1004:
        return rt_option_int(ctx, name, v, 1, big, &o->seqlen);
    case 1005:
        return rt_option_int(ctx, name, v, 1, big, &o->seqlen_k);
    case 1006:
        return rt_option_int(ctx, name, v, 1, 65536, &o->heads);
    case 1007:
        return rt_option_int(ctx, name, v, 1, 65536, &o->kv_heads);
    case 1008:
        return rt_option_int(ctx, name, v, 1, 65536, &o->dim);
    case 1009:
        return rt_option_int(ctx, name, v, 1, 65536, &o->dim_v);
    case 1010:
    case 1020:
        if (!rt_dtype_parse(v, letter == 1010 ? &o->dtype : &o->out_dtype) ||
            !rt_dtype_is_float(letter == 1010 ? o->dtype : o->out_dtype) ||
            rt_dtype_size(letter == 1010 ? o->dtype : o->out_dtype) == 0)
            return rt_option_unknown(ctx, name, v, "f64 f32 bf16 f16 e4m3 e5m2");
        o->has_out_dtype = o->has_out_dtype || letter == 1020;
        return RT_OK;
    case 1011:
        return rt_mask_parse(v, &o->mask)
                   ? RT_OK
                   : rt_option_unknown(ctx, name, v, "full causal causal-bottom-right");
    case 1012:
        return rt_option_list(ctx, name, v, &o->cu_q, &o->n_cu_q);
    case 1013:
        return rt_option_list(ctx, name, v, &o->cu_k, &o->n_cu_k);
    case 1070:
        o->unpadded = strcmp(v, "none") == 0;
        return o->unpadded ? RT_OK : rt_option_list(ctx, name, v, &o->padded_q, &o->n_padded_q);
    case 1071:
        return rt_option_list(ctx, name, v, &o->padded_k, &o->n_padded_k);
    case 1050:
        RT_TRY(rt_option_list(ctx, name, v, &o->window, &o->n_window));
        return o->n_window == 2
                   ? RT_OK
                   : rt_fail(ctx, RT_ERR_ARG,
                             "--window %s: two numbers LEFT,RIGHT are needed, e.g. 128,0 or -1,0", v);
    case 1051:
        return rt_option_int(ctx, name, v, 0, big, &o->prefix);
    case 1052:
        o->slices = v;
        return RT_OK;
    case 1053:
        return rt_option_list(ctx, name, v, &o->key_lengths, &o->n_key_lengths);
    case 1054:
        o->dense_mask = v;
        return RT_OK;
    case 1014:
        o->scale = v;
        return RT_OK;
    case 1015:
        o->plan = v;
        o->has_plan = true;
        return RT_OK;
    case 1016:
        o->layout = v;
        o->has_layout = true;
        return layout_check(ctx, name, v);
    case 1017:
        o->has_remainder = true;
        return rt_remainder_parse(v, &o->remainder_kind)
                   ? RT_OK
                   : rt_option_unknown(ctx, name, v, "spread ceil last refuse");
    case 1018:
        o->has_ranks = true;
        return rt_option_int(ctx, name, v, 1, 65536, &o->ranks);
    case 1019:
        o->arith = v;
        if (strcmp(o->verb, "bench") == 0)
            return check_arithmetics(ctx, name, v);
        return rt_arithmetic_find(v) != NULL ? RT_OK : unknown_arithmetic(ctx, name, v);
    case 1021:
        o->spec = v;
        return RT_OK;
    case 1022:
        if (o->n_declare == RT_MAX_DECLARATIONS)
            return rt_fail(ctx, RT_ERR_ARG, "--declare %s: at most %d of them", v, RT_MAX_DECLARATIONS);
        o->declare[o->n_declare++] = v;
        return RT_OK;
    case 1023:
        RT_TRY(rt_option_real(ctx, name, v, &o->delta));
        return o->delta > 0 && o->delta < 1
                   ? RT_OK
                   : rt_fail(ctx, RT_ERR_ARG, "--delta %s: a chance between 0 and 1 is needed", v);
    case 1024:
        o->json = true;
        return RT_OK;
    case 1025:
        o->fingerprint = true;
        return RT_OK;
    case 1026:
        o->verify = true;
        return RT_OK;
    case 1027:
        o->list = true;
        return RT_OK;
    case 1028:
        o->summary = true;
        return RT_OK;
    case 1095:
        o->table = true;
        return RT_OK;
    case 1029:
        o->forward_only = true;
        return RT_OK;
    case 1030:
        o->force = true;
        return RT_OK;
    case 1031:
        o->results = true;
        return RT_OK;
    case 1032:
        return rt_option_time(ctx, name, v, &o->budget);
    case 1033:
        o->full = true;
        return RT_OK;
    case 1034:
        return rt_option_int(ctx, name, v, 1, big, &o->samples);
    case 1036:
        o->sampling = strcmp(v, "keys") == 0   ? RT_SAMPLE_KEYS
                      : strcmp(v, "both") == 0 ? RT_SAMPLE_BOTH
                                               : RT_SAMPLE_AUTO;
        return o->sampling != RT_SAMPLE_AUTO || strcmp(v, "auto") == 0
                   ? RT_OK
                   : rt_option_unknown(ctx, name, v, "auto keys both");
    case 1035:
        if (strcmp(v, "exact") != 0 && strcmp(v, "f64") != 0)
            return rt_option_unknown(ctx, name, v, "exact f64");
        o->truth = v[0] == 'e' ? RT_TRUTH_EXACT : RT_TRUTH_F64;
        return RT_OK;
    case 1040:
        return rt_option_int(ctx, name, v, 1, 100000, &o->iters);
    case 1041:
        return rt_option_int(ctx, name, v, 0, 100000, &o->warmup);
    case 1042:
        o->peer = true;
        return RT_OK;
    case 1080:
        RT_TRY(rt_option_real(ctx, name, v, &o->softcap));
        return o->softcap > 0 ? RT_OK
                              : rt_fail(ctx, RT_ERR_ARG, "--softcap %s: a positive number is needed", v);
    case 1081:
        o->alibi = true;
        return RT_OK;
    case 1082:
        o->bias = v;
        return RT_OK;
    case 1083:
        o->sink = true;
        return RT_OK;
    case 1084:
        RT_TRY(rt_option_real(ctx, name, v, &o->dropout));
        return o->dropout >= 0 && o->dropout < 1
                   ? RT_OK
                   : rt_fail(ctx, RT_ERR_ARG, "--dropout %s: a probability from 0 to below 1 is needed", v);
    case 1085:
        RT_TRY(rt_option_int(ctx, name, v, 0, INT64_MAX, &n));
        o->dropout_seed = (uint64_t)n;
        return RT_OK;
    case 1060:
        o->svg = v;
        return RT_OK;
    case 1061:
        o->trace = v;
        return RT_OK;
    case 1064:
        o->has_cost = true;
        return rt_machine_parse(ctx, v, &o->cost);
    case 1063:
        o->ring = true;
        return RT_OK;
    case 1062:
        return rt_transport_parse(v, &o->transport)
                   ? RT_OK
                   : rt_option_unknown(ctx, name, v, "auto p2p collective");
    case 'o':
        o->output = v;
        return RT_OK;
    case 'q':
        o->quiet = true;
        return RT_OK;
    case 1196:
        o->relayout = true;
        o->layout = v;
        o->has_layout = true;
        return layout_check(ctx, name, v);
    default:
        if (letter >= 1180 && letter <= 1195)
            return apply_grid(ctx, &o->grid, letter, name, v);
        o->help = true;
        return RT_OK;
    }
}

static rt_status add_argument(rt_context *ctx, rt_options *o, const char *text)
{
    if (o->n_arguments == RT_MAX_ARGUMENTS)
        return rt_fail(ctx, RT_ERR_ARG, "%.80s: more than %d arguments", text, RT_MAX_ARGUMENTS);
    o->arguments[o->n_arguments++] = text;
    return RT_OK;
}

/* getopt takes --se for --seed; a script that relies on it breaks with the next flag, so it is refused. */
static bool spelled_out(const char *what, const char *name)
{
    const size_t n = strlen(name);
    return what[0] != '-' || what[1] != '-' ||
           (strncmp(what + 2, name, n) == 0 && (what[2 + n] == '\0' || what[2 + n] == '='));
}

rt_status rt_options_parse(rt_context *ctx, int argc, char **argv, rt_options *out)
{
    rt_options o = {.verb = argv[0],
                    .seed = 1,
                    .dropout_seed = 1,
                    .batch = 1,
                    .seqlen = 256,
                    .heads = 8,
                    .dim = 64,
                    .ranks = 1,
                    .dtype = RT_BF16,
                    .iters = 5,
                    .warmup = 1,
                    .arith = "f64",
                    .budget = 60,
                    .truth = RT_TRUTH_EXACT};
    const int bit = verb_bit(argv[0]);
    if (bit == 0) {
        char names[100] = "";
        for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
            snprintf(names + strlen(names), sizeof names - strlen(names), " %s", verbs[i].name);
        return rt_fail(ctx, RT_ERR_ARG, "unknown verb; allowed:%s. Hint: ringtrue --help", names);
    }
    if (bit == BENCH) {
        o.seqlen = 2048;
        o.dim = 128;
        o.arith = "f32,f64,exact";
    }
    struct option longs[N_FLAGS + 1];
    memset(longs, 0, sizeof longs);
    for (int i = 0; i < N_FLAGS; i++)
        longs[i] = (struct option){table[i].name, table[i].value != NULL ? required_argument : no_argument,
                                   NULL, table[i].letter};
    optind = 1;
    opterr = 0;
    rt_status st = RT_OK;
    while (st == RT_OK) {
        const char *what = argv[optind]; /* the word that getopt is about to read */
        const int c = getopt_long(argc, argv, "-:o:qh", longs, NULL);
        if (c == -1)
            break;
        if (c == 1) { /* an argument between the flags */
            st = add_argument(ctx, &o, optarg);
            continue;
        }
        if (c == '?' || c == ':') {
            st = c == ':'
                     ? rt_fail(ctx, RT_ERR_ARG, "%s needs a value. Hint: ringtrue %s --help", what, argv[0])
                 : optopt >= 1000
                     ? rt_fail(ctx, RT_ERR_ARG, "%s: this flag takes no value. Hint: ringtrue %s --help",
                               what, argv[0])
                     : rt_fail(ctx, RT_ERR_ARG, "%s: unknown flag of %s. Hint: ringtrue %s --help", what,
                               argv[0], argv[0]);
            continue;
        }
        for (int i = 0; i < N_FLAGS; i++)
            if (table[i].letter == c) {
                if ((table[i].verbs & bit) == 0)
                    st = rt_fail(ctx, RT_ERR_ARG, "--%s: not a flag of %s. Hint: ringtrue %s --help",
                                 table[i].name, argv[0], argv[0]);
                else if (!spelled_out(what, table[i].name))
                    st = rt_fail(ctx, RT_ERR_ARG, "%s: write --%s in full", what, table[i].name);
                else
                    st = apply(ctx, &o, c, table[i].name, optarg);
                o.given[i / 64] |= UINT64_C(1) << i % 64;
                break;
            }
    }
    for (; st == RT_OK && optind < argc; optind++) /* after "--" */
        st = add_argument(ctx, &o, argv[optind]);
    if (st != RT_OK) {
        rt_options_reset(&o);
        return st;
    }
    *out = o;
    return RT_OK;
}

void rt_options_reset(rt_options *o)
{
    rt_free(o->cu_q);
    rt_free(o->cu_k);
    rt_free(o->grid.levels);
    rt_free(o->grid.lengths);
    o->grid.levels = o->grid.lengths = NULL;
    rt_free(o->padded_q);
    rt_free(o->padded_k);
    rt_free(o->window);
    rt_free(o->key_lengths);
    o->window = o->key_lengths = NULL;
    o->cu_q = o->cu_k = o->padded_q = o->padded_k = NULL;
}

bool rt_options_given(const rt_options *o, const char *name)
{
    for (int i = 0; i < N_FLAGS; i++)
        if (strcmp(table[i].name, name) == 0)
            return (o->given[i / 64] >> i % 64 & 1) != 0;
    return false;
}

const char *rt_options_problem_flag(const rt_options *o)
{
    for (int i = 0; i < N_FLAGS; i++)
        if ((table[i].verbs & ~BENCH) == PROBLEM && (o->given[i / 64] >> i % 64 & 1) != 0)
            return table[i].name;
    return NULL;
}

static rt_status set_scale(rt_context *ctx, const rt_options *o, rt_problem *p)
{
    const char *s = o->scale;
    if (s == NULL && o->family == RT_FAMILY_EXACT && strcmp(o->verb, "gen") == 0)
        s = "1"; /* that family's scale */
    if (s == NULL || strcmp(s, "rsqrt_dim") == 0) {
        p->scale_kind = RT_SCALE_RSQRT_DIM;
        p->scale = rt_rsqrt_dim(p->dim);
        return RT_OK;
    }
    const bool single = strncmp(s, "f32:", 4) == 0;
    if (rt_option_real(NULL, "scale", single || strncmp(s, "f64:", 4) == 0 ? s + 4 : s, &p->scale) != RT_OK)
        return rt_option_unknown(ctx, "scale", s, "rsqrt_dim, or f32:X, f64:X or X with a finite number X");
    p->scale_kind = single ? RT_SCALE_F32 : RT_SCALE_F64;
    if (single)
        p->scale = rt_round_to(RT_F32, p->scale);
    return RT_OK;
}

rt_status rt_options_problem(rt_context *ctx, const rt_options *o, rt_problem *out)
{
    rt_problem p = {.batch = o->batch,
                    .seqlen_q = o->seqlen,
                    .seqlen_k = o->seqlen_k > 0 ? o->seqlen_k : o->seqlen,
                    .heads_q = o->heads,
                    .heads_kv = o->kv_heads > 0 ? o->kv_heads : o->heads,
                    .dim = o->dim,
                    .dim_v = o->dim_v > 0 ? o->dim_v : o->dim,
                    .mask = o->mask};
    rt_status st = set_scale(ctx, o, &p);
    if (st == RT_OK && o->n_cu_q > 0) {
        const int64_t n_k = o->n_cu_k > 0 ? o->n_cu_k : o->n_cu_q;
        if (o->n_cu_q < 2 || n_k != o->n_cu_q)
            st = rt_fail(
                ctx, RT_ERR_ARG,
                "--cu-seqlens has %lld boundaries and --cu-seqlens-k %lld: at least 2, and as many of each",
                (long long)o->n_cu_q, (long long)n_k);
        if (st == RT_OK) {
            p.documents = o->n_cu_q - 1;
            p.cu_q = rt_alloc(ctx, o->n_cu_q, sizeof *p.cu_q);
            p.cu_k = rt_alloc(ctx, o->n_cu_q, sizeof *p.cu_k);
            st = p.cu_q == NULL || p.cu_k == NULL ? RT_ERR_NOMEM : RT_OK;
        }
        for (int64_t i = 0; i < o->n_cu_q && st == RT_OK; i++) {
            p.cu_q[i] = o->cu_q[i];
            p.cu_k[i] = o->n_cu_k > 0 ? o->cu_k[i] : o->cu_q[i];
        }
    } else if (st == RT_OK && o->n_cu_k > 0) {
        st = rt_fail(ctx, RT_ERR_ARG, "--cu-seqlens-k without --cu-seqlens");
    }
    if (st == RT_OK)
        st = rt_options_scores(ctx, o, strcmp(o->verb, "plan") != 0 && strcmp(o->verb, "grid") != 0, &p);
    if (st == RT_OK)
        st = rt_options_mask(ctx, o, &p);
    if (st == RT_OK)
        st = rt_problem_check(ctx, &p);
    if (st != RT_OK) {
        rt_problem_reset(&p);
        return st;
    }
    *out = p;
    return RT_OK;
}
