#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Reads libhwt with static analysers, all shell scripts with shellcheck, and the licence of each file
# with reuse: none may have anything to say. hwt/delay/ and hwt/relay/, a library and a program of their
# own, are not read.
#
#     sh tests/tools/analyse.sh [TOOL...]
#
#     TOOL    gcc (-fanalyzer), clang-tidy (with .clang-tidy, clang's own analyser in it),
#             cppcheck, shellcheck, reuse; all by default
#
# Installs what it needs, works from any folder, and writes to build/analyse only. The exit status
# is 0, 1 if something was found, 2 for misuse.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source-path=SCRIPTDIR/../.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

tools='gcc clang-tidy cppcheck shellcheck reuse'
build=$root/build/analyse

chosen=
for argument in "$@"; do
    case $argument in
    --help)
        sed -n '4,15s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    gcc | clang-tidy | cppcheck | shellcheck | reuse) chosen="$chosen $argument" ;;
    *)
        echo "tests/tools/analyse.sh: there is no tool $argument; see --help" >&2
        exit 2
        ;;
    esac
done
: "${chosen:=$tools}"

# set_up FOLDER COMPILER...: a build of the library alone.
set_up()
{
    folder=$build/$1
    shift
    [ -f "$folder/build.ninja" ] || CC="$*" meson setup "$folder" "$root" -Dtests=disabled \
        -Dperf=disabled -Dcore_only=true -Ddefault_library=static >"$folder.log" 2>&1 || {
        cat "$folder.log" >&2
        exit 1
    }
}

analyse_gcc()
{
    set_up gcc gcc
    meson configure "$build/gcc" -Dc_args=-fanalyzer -Dwerror=true
    ninja -C "$build/gcc" hwt/libhwt.a >"$build/gcc.log" && return
    cat "$build/gcc.log"
    return 1
}

analyse_clang_tidy()
{
    set_up clang clang
    # One at a time: over many files it takes a va_list of one for another's.
    find "$root/hwt" -name '*.c' ! -path '*/delay/*' ! -path '*/relay/*' -print0 |
        xargs -0 -P "$(nproc)" -n 1 clang-tidy -p "$build/clang" --quiet 2>"$build/clang-tidy.log" && return
    cat "$build/clang-tidy.log"
    return 1
}

analyse_cppcheck()
{
    cppcheck --quiet --enable=warning,performance,portability --std=c11 --inline-suppr \
        --suppress=missingIncludeSystem --error-exitcode=1 -D_GNU_SOURCE -DHWT_VERSION='""' \
        -DHWT_INLINE_URCU=1 -DHWT_PROBES=0 -I "$root" -i "$root/hwt/delay" -i "$root/hwt/relay" "$root/hwt"
}

analyse_shellcheck()
{
    # shellcheck disable=SC2046 # a file each
    (cd "$root" && shellcheck -x .ci/run $(git ls-files '*.sh'))
}

# By .reuse/dep5, and each source file's own line.
analyse_reuse()
{
    reuse --root "$root" lint >"$build/reuse.log" 2>&1 && return
    cat "$build/reuse.log"
    return 1
}

# shellcheck disable=SC2046,SC2086 # names are words
ensure_packages $(printf '%s\n' $chosen | sed 's/^clang-tidy$/clang &/')
mkdir -p "$build"
failed=0
for tool in $chosen; do
    echo "== $tool"
    "analyse_$(echo "$tool" | tr - _)" || {
        echo "FAILED: $tool"
        failed=$((failed + 1))
    }
done
echo "$failed failed"
[ "$failed" -eq 0 ]
