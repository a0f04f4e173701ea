/* SVG by hand: the few shapes that the pictures need, colours of ranks and payloads. */
#ifndef RT_SHOW_SVG_H
#define RT_SHOW_SVG_H

#include <stdio.h>

#include <ringtrue/plan.h>

/* "#rrggbb" */
typedef struct {
    char text[8];
} rt_colour;

/* A colour of its own for each of so many ranks; neighbours differ. */
rt_colour rt_svg_rank_colour(int32_t rank, int32_t ranks);
const char *rt_svg_payload_colour(rt_payload y);

/* The head of a picture of so many pixels, with its styles and an arrow head per payload. */
void rt_svg_begin(FILE *f, double width, double height, const char *title);
void rt_svg_end(FILE *f);
/* Text at the left (or, by class, "m" in the middle, "e" at the end) of (x, y); escaped. */
void rt_svg_text(FILE *f, double x, double y, const char *css, const char *format, ...) RT_PRINTF(5, 6);
/* Text of a <title>: what a browser shows under the pointer; escaped. */
void rt_svg_hint(FILE *f, const char *format, ...) RT_PRINTF(2, 3);
void rt_svg_rect(FILE *f, double x, double y, double w, double h, const char *fill, double opacity);
/* An empty frame. */
void rt_svg_frame(FILE *f, double x, double y, double w, double h, bool dashed);
void rt_svg_line(FILE *f, double x0, double y0, double x1, double y1, const char *css);
/* From (x0, y0) to (x1, y1), leaving and arriving level. */
void rt_svg_arrow(FILE *f, rt_payload y, double x0, double y0, double x1, double y1, double opacity);
/* An upright bar, and a dot on it. */
void rt_svg_bar(FILE *f, rt_payload y, double x, double y0, double y1);
void rt_svg_dot(FILE *f, rt_payload y, double x, double at);

/* "384.0 MiB" */
typedef struct {
    char text[24];
} rt_bytes_text;
rt_bytes_text rt_svg_bytes(double bytes);

#endif
