#!/usr/bin/env bash
# Brings the packages pacer is built from: tools/setup.sh [--tests] [--list]
#   --tests  also what the tests and the linter need
#   --list   only print the packages that are missing, one per line
# Says nothing when nothing is missing. Installs as root, or through sudo; without either it prints
# the command to run and, if pacer cannot be built without, exits 1. A package counts as present when
# the distribution says so, or when what it brings is found another way (a newer cmake, a library of
# one's own that PKG_CONFIG_PATH leads to).
set -euo pipefail

# package:probe. A probe is a command to find, or a module of pkg-config after "pc=".
needs=(
    build-essential:cc
    cmake:cmake
    ninja-build:ninja
    pkg-config:pkg-config
    libopenblas-openmp-dev:pc=openblas
    libcjson-dev:pc=libcjson
    libyaml-dev:pc=yaml-0.1
    libxxhash-dev:pc=libxxhash
    libpcre2-dev:pc=libpcre2-8
    libutf8proc-dev:pc=libutf8proc
)
test_needs=(
    libcmocka-dev:pc=cmocka
    clang-format:clang-format
    clang-tidy:clang-tidy
    libopenmpi-dev:mpicc
    openmpi-bin:mpirun
)

# Installed where that is possible; without them pacer draws no charts, names no commit in its records,
# is slower, runs as one rank only, or has no pages for a browser.
wanted=(gnuplot-nox git libdnnl-dev libopenmpi-dev openmpi-bin libjs-dygraphs libmicrohttpd-dev)

list=0
for argument in "$@"; do
    case "$argument" in
    --tests)
        needs+=("${test_needs[@]}")
        wanted+=(clang-format-14 clang-tidy-14 chromium) # tools/lint.sh takes their verdict; test_browser
        ;;
    --list) list=1 ;;
    *)
        echo "tools/setup.sh: unknown argument '$argument' (known: --tests, --list)" >&2
        exit 2
        ;;
    esac
done

found_by_probe() {
    case "$1" in
    pc=*) command -v pkg-config >/dev/null && pkg-config --exists "${1#pc=}" ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

installed=" "
if command -v dpkg-query >/dev/null; then
    installed+=$(dpkg-query -W -f '${db:Status-Status}=${Package} ' "${needs[@]%%:*}" "${wanted[@]}" \
        2>/dev/null || true)
fi

missing=()
for need in "${needs[@]}"; do
    package=${need%%:*}
    if [[ "$installed" != *" installed=$package "* ]] && ! found_by_probe "${need#*:}"; then
        missing+=("$package")
    fi
done
required=("${missing[@]}")

# add_wanted: appends to missing what is wanted, known here and not yet in it.
add_wanted() {
    local package
    for package in "${wanted[@]}"; do
        if [[ " ${missing[*]} " != *" $package "* && "$installed" != *" installed=$package "* ]] &&
            apt-cache show "$package" >/dev/null 2>&1; then
            missing+=("$package")
        fi
    done
}
if [[ ${#missing[@]} != 0 ]] || ! command -v gnuplot >/dev/null || ! command -v git >/dev/null ||
    ! pkg-config --exists libmicrohttpd; then
    add_wanted
fi

if [[ $list == 1 ]]; then
    ((${#missing[@]} == 0)) || printf '%s\n' "${missing[@]}"
    exit 0
fi
if [[ ${#missing[@]} == 0 ]]; then
    exit 0
fi

if ! command -v apt-get >/dev/null; then
    {
        echo "pacer needs a C compiler, CMake 3.22, Ninja, pkg-config, OpenBLAS (OpenMP build),"
        echo "cJSON, libyaml, xxHash, PCRE2 and utf8proc; its tests need cmocka, clang-format, clang-tidy and"
        echo "Open MPI. gnuplot (charts), git, oneDNN (speed), MPI (ranks), libmicrohttpd and dygraphs"
        echo "(pages for a browser) are optional, and so is Chromium, which tests these pages."
        echo "Not found here, by the names of Debian's packages: ${missing[*]}"
        echo "Install them with this system's package manager, then run make again."
    } >&2
    exit 1
fi

# What to do where nobody can become root; what is only wanted stops nothing.
explain_without_root() {
    local optional=() package
    for package in "${missing[@]}"; do
        [[ " ${required[*]} " == *" $package "* ]] || optional+=("$package")
    done
    if [[ ${#required[@]} == 0 ]]; then
        echo "optional, for root to install: ${optional[*]}"
        return
    fi
    echo "pacer cannot be built without these packages, which only root can install:"
    echo "    sudo apt-get install --no-install-recommends ${required[*]}"
    [[ ${#optional[@]} == 0 ]] || echo "and is better with: ${optional[*]}"
    echo "Without root, unpack them into a folder of your own and build against that:"
    echo "    mkdir -p ~/pacer-deps && cd ~/pacer-deps && apt-get download $(with_libraries)"
    echo "    for deb in *.deb; do dpkg -x \$deb .; done"
    echo "    make DEPS=~/pacer-deps"
}

# The packages that are required, and those that they need in turn and that are not here.
with_libraries() {
    apt-get install --print-uris --no-install-recommends -qq -y "${required[@]}" 2>/dev/null |
        awk '{ sub(/_.*/, "", $2); printf "%s ", $2 }' | sed 's/ $//' | grep . || echo "${required[*]}"
}

install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends)
update=(env DEBIAN_FRONTEND=noninteractive apt-get update)
as_root=()
if [[ $(id -u) != 0 ]]; then
    if sudo -n true 2>/dev/null; then
        as_root=(sudo -n)
    elif command -v sudo >/dev/null && [[ -t 0 && -t 2 ]]; then
        as_root=(sudo)
    else
        explain_without_root >&2
        exit $((${#required[@]} > 0))
    fi
fi

echo "installing: ${missing[*]}" >&2
# The package lists of a fresh machine are empty or old; a first try tells without the network.
if ! "${as_root[@]}" "${install[@]}" "${missing[@]}" >/dev/null 2>&1; then
    "${as_root[@]}" "${update[@]}" >/dev/null || true
    add_wanted # only now an empty machine knows whether there are such packages
    if ! "${as_root[@]}" "${install[@]}" "${missing[@]}" >/dev/null; then
        {
            echo "tools/setup.sh: could not install: ${missing[*]}"
            echo "Try: sudo apt-get update && sudo apt-get install --no-install-recommends ${missing[*]}"
        } >&2
        exit 1
    fi
fi
