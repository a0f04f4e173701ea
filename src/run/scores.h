/* The gradients of what joins the scores, from the rows of a finished backward. */
#ifndef RT_RUN_SCORES_H
#define RT_RUN_SCORES_H

#include <ringtrue/run.h>

#include "run/buffers.h"

typedef struct {
    rt_context *ctx;
    rt_comm *comm;
    rt_shape shape;
    const rt_layout *layout;
    int32_t first, end;           /* plan ranks of this process */
    const rt_rank_buffers *ranks; /* end - first: DO and DQ in buffer 0 */
    const rt_run_io *io;
    rt_certificate *certificate; /* RT_RESULT_COUNT: of this process, added to */
} rt_score_run;

/* dsink and dbias, where the problem has a sink and a bias: summed in the order of original positions, whatever
 * the layout, the plan and the processes, and given to io->store.  Collective. */
rt_status rt_score_gradients(const rt_score_run *r) RT_NODISCARD;

#endif
