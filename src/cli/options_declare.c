/* --declare KEY=VALUE: fields of the declared arithmetic. */
#include <stdio.h>
#include <string.h>

#include "cli/options.h"
#include "cli/options_parse.h"

/* A relative accuracy. */
static rt_status relative(rt_context *ctx, const char *text, const char *value, double *out)
{
    char flag[40];
    (void)snprintf(flag, sizeof flag, "declare %.*s", (int)(value - 1 - text), text);
    RT_TRY(rt_option_real(ctx, flag, value, out));
    if (!(*out >= 0 && *out < 1))
        return rt_fail(ctx, RT_ERR_ARG, "--declare %s: a relative accuracy from 0 to 1", text);
    return RT_OK;
}

rt_status rt_options_declare(rt_context *ctx, const rt_options *o, rt_declared *d)
{
    static const struct {
        const char *key;
        uint32_t bit;
    } keys[] = {{"accumulate", RT_DECL_ACCUMULATE},
                {"exp", RT_DECL_EXP},
                {"block_keys", RT_DECL_BLOCK},
                {"probabilities", RT_DECL_PROBABILITIES},
                {"partial", RT_DECL_PARTIAL},
                {"state", RT_DECL_STATE},
                {"join", RT_DECL_JOIN},
                {"grad_partial", RT_DECL_GRAD_PARTIAL},
                {"grad_state", RT_DECL_GRAD_STATE},
                {"tanh", RT_DECL_TANH}};
    for (int64_t i = 0; i < o->n_declare; i++) {
        const char *text = o->declare[i], *eq = strchr(text, '=');
        int key = -1;
        for (int k = 0; k < 10 && eq != NULL; k++)
            if (strlen(keys[k].key) == (size_t)(eq - text) &&
                strncmp(keys[k].key, text, (size_t)(eq - text)) == 0)
                key = k;
        if (key < 0)
            return rt_fail(ctx, RT_ERR_ARG,
                           "--declare %s: KEY=VALUE with a key of accumulate exp block_keys probabilities "
                           "partial state join "
                           "grad_partial grad_state tanh",
                           text);
        const char *v = eq + 1;
        rt_dtype t = RT_F32;
        switch (key) {
        case 0:
            if (!rt_declared_accumulate(d, v))
                return rt_option_unknown(ctx, "declare", text, rt_declared_accumulate_names());
            break;
        case 1:
            RT_TRY(relative(ctx, text, v, &d->exp_rel));
            break;
        case 9:
            RT_TRY(relative(ctx, text, v, &d->tanh_rel));
            break;
        case 2:
            RT_TRY(rt_option_int(ctx, "declare block_keys", v, 1, INT64_C(1) << 40, &d->block_keys));
            break;
        case 6:
            if (!rt_join_parse(v, &d->join))
                return rt_option_unknown(ctx, "declare", text, "sigmoid two-pass split raw");
            break;
        default:
            if (!rt_dtype_parse(v, &t) || !rt_dtype_is_float(t))
                return rt_option_unknown(ctx, "declare", text, "f64 f32 bf16 f16 tf32 e4m3 e5m2");
            *(key == 3   ? &d->probabilities
              : key == 4 ? &d->partial
              : key == 5 ? &d->state
              : key == 7 ? &d->grad_partial
                         : &d->grad_state) = t;
            break;
        }
        d->assumed &= ~keys[key].bit;
    }
    return RT_OK;
}
