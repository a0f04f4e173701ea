/* tensor.c: names of the tensors of a dump, and addresses inside a view. */
#include <ringtrue/tensor.h>

static const char *const names[RT_NAME_COUNT] = {
    [RT_Q] = "q",         [RT_K] = "k",       [RT_V] = "v",       [RT_DOUT] = "dout", [RT_LSE] = "lse",
    [RT_OUT] = "out",     [RT_DQ] = "dq",     [RT_DK] = "dk",     [RT_DV] = "dv",     [RT_DSINK] = "dsink",
    [RT_DBIAS] = "dbias", [RT_SINK] = "sink", [RT_BIAS] = "bias",
};

const char *rt_tensor_name(rt_tensor_id id)
{
    return (unsigned)id < RT_NAME_COUNT ? names[id] : "?";
}

const void *rt_view_at(const rt_view *v, const int64_t *index)
{
    int64_t at = 0;
    for (int32_t d = 0; d < v->ndim; d++) {
        at += index[d] * v->stride[d];
    }
    return (const unsigned char *)v->data + at * (int64_t)rt_dtype_size(v->dtype);
}
