/* What the files of the groups share. */
#ifndef RT_LAYOUT_GRID_H
#define RT_LAYOUT_GRID_H

#include <ringtrue/grid.h>

/* Room for `count` groups and `ranks` ranks in all; the caller sets count, first and ranks. */
rt_status rt_groups_alloc(rt_context *ctx, int64_t count, int64_t ranks, rt_groups *out) RT_NODISCARD;

#endif
