/* SVG by hand. */
#include "show/svg.h"

#include <stdarg.h>
#include <string.h>

/* A channel of a hue (0 .. 359), at one of three lightnesses. */
static int channel(int32_t hue, int32_t shift, int32_t low, int32_t high)
{
    const int32_t x = (hue + shift) % 360;
    const int32_t ramp = x < 60 ? x : x < 180 ? 60 : x < 240 ? 240 - x : 0; /* 0 .. 60 */
    return (int)(low + (high - low) * ramp / 60);
}

rt_colour rt_svg_rank_colour(int32_t rank, int32_t ranks)
{
    static const char *const few[] = {"#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948",
                                      "#b07aa1", "#9c755f", "#ff9da7", "#8cd17d", "#a0cbe8", "#d4a6c8"};
    static const int32_t low[] = {70, 110, 40}, high[] = {215, 240, 170};
    rt_colour c;
    if (ranks <= (int32_t)(sizeof few / sizeof few[0])) {
        (void)snprintf(c.text, sizeof c.text, "%s", few[rank]);
        return c;
    }
    const int32_t hue = (int32_t)((int64_t)rank * 360 / ranks), k = rank % 3;
    const int red = channel(hue, 120, low[k], high[k]), green = channel(hue, 0, low[k], high[k]),
              blue = channel(hue, 240, low[k], high[k]);
    (void)snprintf(c.text, sizeof c.text, "#%02x%02x%02x", (unsigned)red & 255, (unsigned)green & 255,
                   (unsigned)blue & 255);
    return c;
}

const char *rt_svg_payload_colour(rt_payload y)
{
    static const char *const colours[RT_PAYLOAD_COUNT] = {"#1f5fbf", "#c2410c", "#15803d",
                                                          "#7c3aed", "#0891b2", "#be123c"};
    return colours[y];
}

/* Text that XML allows: the five special characters named, control characters as spaces. */
static void escaped(FILE *f, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '&')
            fputs("&amp;", f);
        else if (*c == '<')
            fputs("&lt;", f);
        else if (*c == '>')
            fputs("&gt;", f);
        else if (*c == '"')
            fputs("&quot;", f);
        else
            fputc((unsigned char)*c < 32 ? ' ' : *c, f);
    }
}

void rt_svg_begin(FILE *f, double width, double height, const char *title)
{
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
            "%.0f\">\n<title>",
            width, height, width, height);
    escaped(f, title);
    fprintf(
        f, "</title>\n<style>\n"
           "text { font-family: Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; "
           "font-size: 11px; fill: #222 }\n"
           ".t { font-size: 17px; font-weight: bold } .h { font-size: 13px; font-weight: bold }\n"
           ".g { fill: #666 } .s { font-size: 9px } .m { text-anchor: middle } .e { text-anchor: end }\n"
           ".f { fill: none; stroke: #999; stroke-width: 0.8 } .d { stroke-dasharray: 3 3; stroke: #bbb }\n"
           ".l { stroke: #ccc; stroke-width: 0.8 }\n"
           ".a { fill: none; stroke-width: 1.3 }\n</style>\n<defs>\n");
    for (int y = 0; y < RT_PAYLOAD_COUNT; y++)
        fprintf(f,
                "<marker id=\"a%d\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
                "markerHeight=\"7\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0.5L8 "
                "4L0 7.5z\" fill=\"%s\"/></marker>\n",
                y, rt_svg_payload_colour((rt_payload)y));
    fprintf(f, "</defs>\n<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n", width, height);
}

void rt_svg_end(FILE *f)
{
    fprintf(f, "</svg>\n");
}

void rt_svg_text(FILE *f, double x, double y, const char *css, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\"", x, y);
    if (css[0] != '\0')
        fprintf(f, " class=\"%s\"", css);
    fputc('>', f);
    escaped(f, text);
    fputs("</text>\n", f);
}

void rt_svg_hint(FILE *f, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fputs("<title>", f);
    escaped(f, text);
    fputs("</title>", f);
}

void rt_svg_rect(FILE *f, double x, double y, double w, double h, const char *fill, double opacity)
{
    fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"", x, y, w, h, fill);
    if (opacity < 1)
        fprintf(f, " fill-opacity=\"%.2f\"", opacity);
    fputs("/>\n", f);
}

void rt_svg_frame(FILE *f, double x, double y, double w, double h, bool dashed)
{
    fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"f%s\"/>\n", x, y, w, h,
            dashed ? " d" : "");
}

void rt_svg_line(FILE *f, double x0, double y0, double x1, double y1, const char *css)
{
    fprintf(f, "<path d=\"M%.1f %.1fL%.1f %.1f\" class=\"%s\"/>\n", x0, y0, x1, y1, css);
}

void rt_svg_arrow(FILE *f, rt_payload y, double x0, double y0, double x1, double y1, double opacity)
{
    static const char *const dash[RT_PAYLOAD_COUNT] = {"", "", "5 2", "2 2", "5 2", "5 2"};
    const double bend = (x1 - x0) / 2;
    fprintf(f, "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" class=\"a\" stroke=\"%s\"", x0, y0,
            x0 + bend, y0, x1 - bend, y1, x1, y1, rt_svg_payload_colour(y));
    if (dash[y][0] != '\0')
        fprintf(f, " stroke-dasharray=\"%s\"", dash[y]);
    if (opacity < 1)
        fprintf(f, " stroke-opacity=\"%.2f\"", opacity);
    fprintf(f, " marker-end=\"url(#a%d)\"/>\n", (int)y);
}

void rt_svg_bar(FILE *f, rt_payload y, double x, double y0, double y1)
{
    rt_svg_rect(f, x - 1.5, y0 - 3, 3, y1 - y0 + 6, rt_svg_payload_colour(y), 1);
}

void rt_svg_dot(FILE *f, rt_payload y, double x, double at)
{
    fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x, at, rt_svg_payload_colour(y));
}

rt_bytes_text rt_svg_bytes(double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    rt_bytes_text t;
    int k = 0;
    while (k < 5 && bytes >= 1024) {
        bytes /= 1024;
        k++;
    }
    (void)snprintf(t.text, sizeof t.text, k == 0 || bytes >= 100 ? "%.0f %s" : "%.1f %s", bytes, units[k]);
    return t;
}
