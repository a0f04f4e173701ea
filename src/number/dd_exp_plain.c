/* rt_dd_exp's loop for one instruction set: plain. */
#include "number/dd_exp.h"

#define RT_W 2
#define RT_DD_EXP_NAME rt_dd_exp_plain
#include "number/dd_exp_body.h"
