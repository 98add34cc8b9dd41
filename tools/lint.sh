#!/usr/bin/env bash
# The rules of the house that a compiler does not check: tools/lint.sh [FOLDER]
# Looks at the tree in FOLDER (default: the one this script is in). Every violation is one line,
# "file:line: what is wrong"; the exit status is 1 when there is one.
set -uo pipefail
export LC_ALL=C

cd "${1:-$(dirname "$0")/..}" || exit 2
failures=$(mktemp) || exit 2
trap 'rm -rf "$failures" "$failures.openmp"' EXIT

# Which rooms of src a room may include from, besides itself; or a single header of one.
rooms='
base
config      base model/fields.h
tensor      base
ref         base tensor
cpu         base tensor ref
cuda        base tensor comm/comm.h comm/channel.h
devices     base tensor ref cpu cuda
comm        base tensor
text        base
data        base config text
model       base tensor
optim       base tensor model
record      base tensor cpu text model
audit       base config
exchange    base tensor text model
train       base config tensor devices comm text data model optim record exchange
analyse     base config tensor ref comm data model record train
use         base config tensor devices cpu comm text data model train
study       base config devices model record train
report      base config record train
serve       base record report
api         base config comm text data model record train use
cli         base config tensor ref cpu/sgemm.h devices comm text data model record audit exchange train use
            analyse study report serve api
'
deviceless='model optim' # rooms that know no device

format_version=14 # the clang-format whose output is the house format
longest=600       # lines of a file; worth a question above $long
long=500

mapfile -t code < <(find src include examples bench tests -type f \
    \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null | sort)
mapfile -t others < <(find CMakeLists.txt cmake src tests bench tools .ci -type f \
    \( -name '*.cmake' -o -name CMakeLists.txt -o -name '*.sh' -o -name run -o -name '*.in' \) \
    2>/dev/null | sort)
if [[ ${#code[@]} == 0 ]]; then
    echo "tools/lint.sh: no C files under $PWD" >&2
    exit 2
fi

check_format() {
    local tool=clang-format-$format_version version found
    command -v "$tool" >/dev/null || tool=clang-format
    if ! command -v "$tool" >/dev/null; then
        if [[ ${CI:-} == true ]]; then
            echo ".clang-format:1: clang-format is missing, and this is CI (make setup)" >>"$failures"
        else
            echo "note: clang-format is missing, so the format was not checked (make setup)" >&2
        fi
        return
    fi
    version=$("$tool" --version | sed -n 's/.*version \([0-9]*\).*/\1/p')
    found=$(printf '%s\0' "${code[@]}" | xargs -0 -P 2 -n 16 "$tool" --dry-run 2>&1 |
        sed -n 's/^\([^:]*:[0-9]*\):[0-9]*: [a-z]*: code should be clang-formatted.*/\1/p' |
        sort -u -t: -k1,1 -k2,2n | awk -F: '!seen[$1]++')
    [[ -n $found ]] || return 0
    if [[ $version == "$format_version" || ${CI:-} == true ]]; then
        sed 's/$/: not in the house format (make format)/' <<<"$found" >>"$failures"
    else
        echo "note: clang-format $version would change these, but the house format is that of" \
            "version $format_version:" >&2
        sed 's/^/  /' <<<"$found" >&2
    fi
}

# Sizes, includes, devices, unfinished work and whitespace, in one pass over all lines.
check_text() {
    awk -v rooms="${rooms//$'\n            '/ }" -v deviceless="$deviceless" -v longest="$longest" -v long="$long" '
        function bad(what) { print FILENAME ":" FNR ": " what }
        function close_file() {
            if (is_code && lines > longest) {
                print last ":" lines ": " lines " lines; split what is over " longest
            } else if (is_code && lines > long) {
                print "warning: " last ": " lines " lines; over " long " is worth a split" > "/dev/stderr"
            }
        }
        BEGIN {
            count = split(rooms, lines_of, "\n")
            for (i = 1; i <= count; i++) {
                words = split(lines_of[i], word, " ")
                if (words > 0) known[word[1]] = 1
                for (k = 1; k <= words; k++) may[word[1], word[k]] = 1
            }
            count = split(deviceless, word, " ")
            for (i = 1; i <= count; i++) pure[word[i]] = 1
        }
        FNR == 1 {
            close_file()
            last = FILENAME
            is_code = FILENAME ~ /\.(c|h|cu|cuh)$/
            folder = ""
            if (is_code && match(FILENAME, /^src\/[^\/]+\//)) {
                folder = substr(FILENAME, 5, RLENGTH - 5)
                if (!(folder in known)) bad("src/" folder " is no room of the table in tools/lint.sh")
            }
        }
        { lines = FNR }
        /\t/ { bad("tab") }
        /[ \r]$/ { bad("space at the end of the line") }
        is_code && length > 100 { bad("more than 100 columns") }
        /^(<<<<<<<|>>>>>>>) / { bad("merge conflict") }
        folder == "" { next }
        /(^|[^A-Za-z0-9_])(TODO|FIXME|XXX)([^A-Za-z0-9_]|$)/ { bad("unfinished work in the source; finish it or open an issue") }
        /^[ ]*#[ ]*include[ ]*"/ {
            split($0, quoted, "\"")
            target = quoted[2]
            slash = index(target, "/")
            to = substr(target, 1, slash - 1)
            if (slash == 0 || !(to in known)) {
                bad("write the include from src/: \"" target "\"")
            } else if (!((folder, to) in may) && !((folder, target) in may)) {
                bad(folder " must not include " to " (\"" target "\"): see the table in tools/lint.sh")
            }
        }
        # The name of a device, outside of strings and comments, belongs to its folder.
        folder != "" && folder != "cuda" && folder != "devices" && FILENAME != "src/base/choices.h" {
            line = $0
            gsub(/"([^"\\]|\\.)*"/, "", line)
            sub(/\/\*.*/, "", line)
            if (line !~ /^ *\*/ && line ~ /([Cc]uda|CUDA_|[Cc]udnn|CUDNN|[Nn]ccl|NCCL|[Nn]vml|NVML)/)
                bad("names a device: what differs there is a slot of Backend")
        }
        folder in pure && /^[ ]*#[ ]*include[ ]*[<"]([^>"]*\/)?(cuda|cublas|cudnn|curand|nccl|nvml|nvtx|mpi)[^>"]*[>"]/ {
            bad(folder " knows no device: no CUDA, NCCL or MPI header")
        }
        folder in pure && /^[ ]*#[ ]*(if|ifdef|ifndef|elif)[ (!].*(CUDA|NVCC|NCCL|CUDNN|MPI)/ {
            bad(folder " knows no device: no #if over one")
        }
        END { close_file() }
    ' "${code[@]}" "${others[@]}" >>"$failures"
}

# A header compiles as the first and only include, also when it is included twice.
check_headers() {
    local flags header
    flags=$(pkg-config --cflags openblas libcjson yaml-0.1 libxxhash 2>/dev/null)
    export flags
    for header in "${code[@]}"; do
        [[ $header == src/cuda/* || $header != *.h ]] || printf '%s\0' "$header"
    done | xargs -0 -r -P 2 -n 8 bash -c '
        for header; do
            name=${header#src/}
            name=${name#tests/}
            name=${name#include/}
            if ! output=$(printf "#include \"%s\"\n#include \"%s\"\n" "$name" "$name" |
                ${CC:-cc} -fsyntax-only -x c -std=c11 -D_GNU_SOURCE -DPACER_ISA=base -fopenmp -Wall \
                    -Wextra -Werror -Isrc -Iinclude -Itests -Ibench $flags - 2>&1); then
                first=$(grep -m1 "error:" <<<"$output" || head -n1 <<<"$output")
                echo "$header:1: does not compile alone: $first"
            fi
        done' check_headers >>"$failures"
}

# Generated pages are those that the source makes now.
check_generated() {
    [[ -f include/pacer.h && -f docs/reference/api.md ]] || return 0
    if ! awk -f tools/api_reference.awk include/pacer.h | cmp -s - docs/reference/api.md; then
        echo "docs/reference/api.md:1: is not what include/pacer.h makes (make docs)" >>"$failures"
    fi
}

# clang-tidy with the checks of .clang-tidy, over what the build compiles. Where clang has no omp.h,
# the compiler's own is found in a folder that has nothing else.
check_tidy() {
    local tool=clang-tidy-$format_version missing='' database=${BUILD:-build} openmp=$failures.openmp
    command -v "$tool" >/dev/null || tool=clang-tidy
    command -v "$tool" >/dev/null || missing="clang-tidy is missing (make setup)"
    [[ -f .clang-tidy && -f CMakeLists.txt ]] || return 0
    [[ -n $missing || -f $database/compile_commands.json ]] || missing="there is no build (make)"
    if [[ -n $missing ]]; then
        if [[ ${CI:-} == true ]]; then
            echo ".clang-tidy:1: $missing, and this is CI" >>"$failures"
        else
            echo "note: clang-tidy was not run: $missing" >&2
        fi
        return
    fi
    mkdir "$openmp" && ln -s "$(${CC:-cc} -print-file-name=include/omp.h)" "$openmp/omp.h"
    sed -n "s|^ *\"file\": \"$PWD/\(src/.*\.c\)\",*$|\1|p" "$database/compile_commands.json" |
        sort -u | xargs -r -P 2 -n 8 "$tool" -p "$database" --quiet \
        ${TIDY_CHECKS:+"--checks=$TIDY_CHECKS"} \
        --extra-arg="-idirafter$openmp" 2>/dev/null |
        sed -n "s|^$PWD/\([^:]*:[0-9]*\):[0-9]*: [a-z]*: \(.*\)$|\1: \2|p" |
        sort -u >>"$failures"
}

check_format
check_text
check_headers
check_generated
check_tidy

if [[ -s $failures ]]; then
    sort -t: -k1,1 -k2,2n "$failures"
    echo "lint: $(wc -l <"$failures") violations in ${#code[@]} files" >&2
    exit 1
fi
echo "lint: ${#code[@]} files, no violations"
