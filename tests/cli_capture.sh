#!/bin/sh
# Dumps that the Python helper writes are read, and judged right, in each of its forms.
set -eu
if ! command -v python3 >/dev/null 2>&1; then
    echo "skipped: no python3"
    exit 77
fi
for form in rfa te-bshd te-sbhd te-thd global; do
    python3 "$RT_SOURCE_DIR/tests/capture.py" "$form" "$form"
    "$RINGTRUE" check "$form" >"$form.txt" || {
        cat "$form.txt"
        echo "check $form: exit code not 0" >&2
        exit 1
    }
done
