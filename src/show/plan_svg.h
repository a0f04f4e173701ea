/* The picture of a plan. */
#ifndef RT_SHOW_PLAN_SVG_H
#define RT_SHOW_PLAN_SVG_H

#include "show/svg.h"

/* Draw the plan as SVG: the mask with the rank that computes each part of it, work and bytes per rank, and
 * for each pass who computes which tile at which step, with the messages as arrows.  Larger plans (more than
 * 16 ranks, or 20 steps in a pass) are drawn compactly, and beyond 128 ranks or 40 steps in part: the picture
 * says so.  The same bytes for the same plan. */
rt_status rt_show_plan_svg(rt_context *ctx, FILE *f, const rt_plan *plan, const rt_problem *p,
                           const rt_layout *l, bool verified) RT_NODISCARD;

/* ---- its parts, each in a file of its own ---- */

typedef struct {
    rt_context *ctx;
    FILE *f;
    const rt_plan *plan;
    const rt_problem *p;
    const rt_layout *l;
    rt_counters count[2]; /* forward, backward */
} rt_plan_picture;

/* The mask, in a square of so many pixels at (x, y). */
rt_status rt_picture_map(const rt_plan_picture *s, double x, double y, double size) RT_NODISCARD;

/* How a pass is drawn; all zero: not yet measured. */
typedef struct {
    bool compact;
    int32_t ranks;       /* drawn: the first so many */
    int64_t first, last; /* drawn: the first so many steps, and the last so many */
    double row, box,
        gap; /* pixels: height of a rank's row, width of a step's box and of the gap after it */
    double width, height;
} rt_picture_size;

rt_picture_size rt_picture_measure(const rt_plan_picture *s, const rt_pass *pass);
/* The steps of a pass, at (x, y). */
rt_status rt_picture_steps(const rt_plan_picture *s, bool backward, const rt_picture_size *size, double x,
                           double y) RT_NODISCARD;

#endif
