/* One text file that appears complete or not at all: written aside, then renamed. */
#ifndef RT_IO_TEXT_FILE_H
#define RT_IO_TEXT_FILE_H

#include <stdio.h>

#include <ringtrue/status.h>

#include <stdbool.h>

typedef struct {
    FILE *file; /* where the text goes; NULL: not begun */
    char *path, *aside;
    bool force; /* an existing file is replaced */
} rt_text_file;

/* RT_ERR_IO when the file exists and `force` does not say that it may be replaced. */
rt_status rt_text_file_begin(rt_context *ctx, const char *path, bool force, rt_text_file *out) RT_NODISCARD;
/* The end of the text: `before` is what became of it.  Renamed into place, or given up; returns `before`, or
 * RT_ERR_IO when not everything could be written. */
rt_status rt_text_file_end(rt_context *ctx, rt_text_file *f, rt_status before) RT_NODISCARD;

#endif
