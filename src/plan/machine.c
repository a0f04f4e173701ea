/* A machine from text: "bandwidth=25GB/s,latency=2us,flops=100TF". */
#include <ringtrue/cost.h>

#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *text;
    double value;
} unit;

static const unit of_bandwidth[] = {
    {"", 1},           {"B/s", 1},        {"kB/s", 1e3},  {"KB/s", 1e3},   {"MB/s", 1e6},
    {"GB/s", 1e9},     {"TB/s", 1e12},    {"PB/s", 1e15}, {"KiB/s", 1024}, {"MiB/s", 0x1p20},
    {"GiB/s", 0x1p30}, {"TiB/s", 0x1p40}, {NULL, 0}};
static const unit of_latency[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {NULL, 0}};
static const unit of_flops[] = {{"", 1},           {"F", 1},         {"kF", 1e3},      {"MF", 1e6},
                                {"GF", 1e9},       {"TF", 1e12},     {"PF", 1e15},     {"FLOP/s", 1},
                                {"kFLOP/s", 1e3},  {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12},
                                {"PFLOP/s", 1e15}, {NULL, 0}};

static const unit of_element[] = {{"", 1}, {"B", 1}, {NULL, 0}};

/* "25GB/s" of n characters. */
static bool quantity(const char *text, size_t n, const unit *units, double *out)
{
    char copy[64], *end = copy;
    if (n == 0 || n >= sizeof copy)
        return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    const double x = strtod(copy, &end);
    if (end == copy || !(x >= 0) || !(x <= 1e30))
        return false;
    for (; units->text != NULL; units++)
        if (strcmp(units->text, end) == 0) {
            *out = x * units->value;
            return true;
        }
    return false;
}

rt_status rt_machine_parse(rt_context *ctx, const char *text, rt_machine *out)
{
    static const struct {
        const char *key, *units;
        const unit *table;
    } keys[] = {{"bandwidth", "B/s with k M G T P, Ki Mi Gi Ti", of_bandwidth},
                {"latency", "s ms us ns", of_latency},
                {"flops", "F or FLOP/s with k M G T P", of_flops},
                {"element", "B", of_element}};
    double value[4] = {0, 0, 0, 0};
    bool given[4] = {false, false, false, false};
    for (const char *at = text; *at != '\0';) {
        const size_t item = strcspn(at, ","), key = strcspn(at, "=,");
        int k = -1;
        for (int i = 0; i < 4; i++)
            k = strlen(keys[i].key) == key && strncmp(keys[i].key, at, key) == 0 ? i : k;
        if (k < 0 || given[k] || key == item)
            return rt_fail(
                ctx, RT_ERR_ARG,
                "machine \"%.80s\": \"%.*s\" is unknown or given twice; it takes bandwidth=, latency=, "
                "flops=, element=. Hint: bandwidth=25GB/s,latency=2us,flops=100TF",
                text, (int)(item < 40 ? item : 40), at);
        if (!quantity(at + key + 1, item - key - 1, keys[k].table, &value[k]))
            return rt_fail(ctx, RT_ERR_ARG, "machine \"%.80s\": %s is a number and a unit: %s", text,
                           keys[k].key, keys[k].units);
        given[k] = true;
        at += item;
        at += *at == ',';
    }
    if (!given[0] || !given[2] || !(value[0] > 0) || !(value[2] > 0))
        return rt_fail(ctx, RT_ERR_ARG,
                       "machine \"%.80s\": bandwidth and flops are needed, both above 0. Hint: "
                       "bandwidth=25GB/s,latency=2us,flops=100TF",
                       text);
    *out = (rt_machine){.bandwidth = value[0], .latency = value[1], .flops = value[2], .element = value[3]};
    return RT_OK;
}
