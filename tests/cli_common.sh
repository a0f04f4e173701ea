#!/bin/sh
# Helpers of the command's tests; sourced, with RINGTRUE, MPIEXEC and RT_SOURCE_DIR in the environment.

fail() {
    echo "FAILED: $*" >&2
    for file in stdout.txt stderr.txt; do
        [ ! -s "$file" ] || { echo "--- $file" >&2 && head -n 30 "$file" >&2; }
    done
    exit 1
}

# expect CODE COMMAND..: run it; its texts go to stdout.txt and stderr.txt.
expect() {
    wanted=$1
    shift
    got=0
    "$@" >stdout.txt 2>stderr.txt || got=$?
    [ "$got" -eq "$wanted" ] || fail "exit code $got, not $wanted: $*"
}

ok() {
    expect 0 "$@"
    [ ! -s stderr.txt ] || fail "text on stderr: $*"
}

# refuse CODE TEXT COMMAND..: the command ends with CODE, an empty stdout, and one line on stderr that holds TEXT.
refuse() {
    wanted=$1 text=$2
    shift 2
    expect "$wanted" "$@"
    [ ! -s stdout.txt ] || fail "text on stdout: $*"
    [ "$(wc -l <stderr.txt)" -eq 1 ] || fail "not one line on stderr: $*"
    grep -qF -e "$text" stderr.txt || fail "stderr does not say '$text': $*"
}

# says TEXT: the last command's stderr holds it.
says() {
    grep -qF -e "$1" stderr.txt || fail "stderr does not say '$1'"
}

# prints TEXT: the last command's stdout holds it.
prints() {
    grep -qF -e "$1" stdout.txt || fail "stdout does not say '$1'"
}

# mpi N COMMAND..
mpi() {
    processes=$1
    shift
    "$MPIEXEC" -n "$processes" "$@"
}

# fingerprints COMMAND..: the lines of the fingerprints, sorted.
fingerprints() {
    ok "$@"
    grep '^fingerprint' stdout.txt | LC_ALL=C sort || fail "no fingerprint: $*"
}

# absent NAME: neither NAME nor anything begun for it is there.
absent() {
    for path in "$1" "$1".part-* "$1".old-*; do
        [ ! -e "$path" ] || fail "$path exists"
    done
}

# tensor_at NAME FILE: where the tensor's data begin: 8, the header's length, and its first offset.
tensor_at() {
    header=$(od -An -tu8 -N8 "$2" | tr -d ' ')
    first=$(head -c $((8 + header)) "$2" | tail -c "$header" | tr -d ' ' |
        sed "s/.*\"$1\":{[^}]*\"data_offsets\":\[\([0-9]*\),.*/\1/")
    echo $((8 + header + first))
}

# flip FILE BYTE MASK: xor one byte.
flip() {
    was=$(od -An -tu1 -j "$2" -N1 "$1" | tr -d ' ')
    # shellcheck disable=SC2059 # the escape is the format
    printf "\\$(printf %03o $((was ^ $3)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
