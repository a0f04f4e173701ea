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

/* The mask: one square of `height` pixels, or one for each group of heads that the plan tells apart (the first 16),
 * as large as width x height pixels allow. */
typedef struct {
    int64_t beside;             /* so many stand side by side */
    double size, width, height; /* pixels of one; of all, with remarks below them */
} rt_picture_maps;

rt_status rt_picture_map_measure(const rt_plan_picture *s, double width, double height,
                                 rt_picture_maps *out) RT_NODISCARD;
rt_status rt_picture_map(const rt_plan_picture *s, const rt_picture_maps *z, double x,
                         double y) RT_NODISCARD;
/* Whether there is more than one group of heads. */
bool rt_picture_splits_heads(const rt_plan_picture *s);

/* How a pass is drawn; all zero: not yet measured. */
typedef struct {
    bool compact;
    int32_t ranks;       /* drawn: the first so many */
    int64_t first, last; /* drawn: the first so many steps, and the last so many */
    double row, box,
        gap;     /* pixels: height of a rank's row, width of a step's box and of the gap after it */
    double head; /* pixels from the top to the first rank's row */
    double width, height;
} rt_picture_size;

rt_picture_size rt_picture_measure(const rt_plan_picture *s, const rt_pass *pass);
/* The steps of a pass, at (x, y). */
rt_status rt_picture_steps(const rt_plan_picture *s, bool backward, const rt_picture_size *size, double x,
                           double y) RT_NODISCARD;
/* The messages of a step, in the gap right of x; y: of the first rank's row. */
rt_status rt_picture_messages(const rt_plan_picture *s, const rt_picture_size *z, const rt_pass *pass,
                              const rt_step *step, double x, double y) RT_NODISCARD;
/* How many payloads travel in one step, at most: each has a line above the messages. */
int rt_picture_lines(const rt_pass *pass);

#endif
