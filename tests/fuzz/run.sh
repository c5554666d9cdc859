#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Builds the fuzz targets with AddressSanitizer and UndefinedBehaviorSanitizer and runs them.
#
#     sh tests/fuzz/run.sh [--seconds N] [--afl]
#
#     --seconds N    how long in all, the targets one after the other: 60
#     --afl          with AFL++ in place of libFuzzer
#
# They begin with tests/fuzz/corpus-*, and with what earlier runs have added to build/fuzz*. What
# makes a target fail is left there, and printed: how to run it again, the input itself (the machine
# may be gone when this is read), and the end of what the target said. Installs what it needs. The
# exit status is 0, 1 if something was found or not built, 2 for misuse.
#
# To commit what runs have found worth keeping, for T timer, options or delay:
#
#     mkdir NEW && build/fuzz/tests/fuzz/fuzz_T -set_cover_merge=1 -use_counters=0 -max_len=900 \
#         NEW build/fuzz/corpus-T tests/fuzz/corpus-T

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source-path=SCRIPTDIR/../.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

targets='options timer delay'
most=4096 # bytes of an input

misuse()
{
    echo "tests/fuzz/run.sh: $1; see --help" >&2
    exit 2
}

seconds=60
afl=
while [ $# -gt 0 ]; do
    case $1 in
    --help)
        sed -n '4,15s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    --afl) afl=yes ;;
    --seconds)
        case ${2-} in
        '' | *[!0-9]* | 0*) misuse '--seconds takes a number from 1' ;;
        esac
        seconds=$2
        shift
        ;;
    --seconds=*)
        option=$1
        shift
        set -- "${option%%=*}" "${option#*=}" "$@"
        continue
        ;;
    *) misuse "unknown option $1" ;;
    esac
    shift
done

build=$root/build/fuzz${afl:+-afl}
fuzzer=${afl:+afl}
fuzzer=${fuzzer:-libfuzzer}
each=$((seconds / $(echo "$targets" | wc -w)))
[ "$each" -gt 0 ] || each=1

configure()
{
    CC=$1 meson setup "$build" "$root" --buildtype=debugoptimized -Dtests=enabled -Dperf=disabled \
        -Ddefault_library=static -Db_lundef=false -Db_sanitize=address,undefined \
        -Dc_args=-fsanitize=fuzzer-no-link
}

# compile COMPILER: the targets, and what makes their findings small.
compile()
{
    mkdir -p "$root/build"
    # shellcheck disable=SC2046,SC2086 # names are words
    {
        [ -f "$build/build.ninja" ] || { rm -rf "$build" && configure "$1"; }
        ninja -C "$build" tests/simulate/simulate $(printf 'tests/fuzz/fuzz_%s ' $targets)
    } >"$build.log" 2>&1 && return
    cat "$build.log" >&2
    echo 'tests/fuzz/run.sh: the targets could not be built' >&2
    exit 1
}

# run_libfuzzer TARGET
# shellcheck disable=SC2317 # it is called by its name, as the next one
run_libfuzzer()
{
    mkdir -p "$build/corpus-$1" "$build/found-$1"
    rm -f "$build/found-$1"/*
    "$build/tests/fuzz/fuzz_$1" -max_total_time="$each" -max_len="$most" -timeout=100 \
        -artifact_prefix="$build/found-$1/" "$build/corpus-$1" "$root/tests/fuzz/corpus-$1" \
        >"$build/fuzz_$1.log" 2>&1 || true
    found=$(find "$build/found-$1" -type f)
    grep '^Done' "$build/fuzz_$1.log" || [ -n "$found" ] || found=$build/fuzz_$1.log
}

# run_afl TARGET
# shellcheck disable=SC2317
run_afl()
{
    rm -rf "$build/found-$1"
    afl-fuzz -V "$each" -G "$most" -t 10000 -m none -i "$root/tests/fuzz/corpus-$1" \
        -o "$build/found-$1" -- "$build/tests/fuzz/fuzz_$1" >"$build/fuzz_$1.log" 2>&1 || true
    found=$(find "$build/found-$1" -path '*/crashes/id*')
    grep '^execs_done' "$build/found-$1/default/fuzzer_stats" || found=$build/fuzz_$1.log
}

# say_finding TARGET FILE
say_finding()
{
    if [ "$2" = "$build/fuzz_$1.log" ]; then
        echo "FAILED: fuzz_$1 did not run to its end; the end of $2:"
    else
        echo "FOUND: ${build#"$root/"}/tests/fuzz/fuzz_$1 $2"
        [ "$1" != timer ] || echo "as a small C test: ${build#"$root/"}/tests/simulate/simulate $2"
        echo "the input, for base64 -d:"
        base64 "$2"
        echo "the end of $build/fuzz_$1.log:"
    fi
    tail -n 60 "$build/fuzz_$1.log"
}

export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
if [ -n "$afl" ]; then
    export AFL_SKIP_CPUFREQ=1 AFL_NO_AFFINITY=1 # the machine is taken as it is
    export AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 AFL_NO_UI=1 AFL_QUIET=1
    export ASAN_OPTIONS=abort_on_error=1:symbolize=0 UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1
    ensure_packages check clang afl
    compile afl-clang-fast
else
    ensure_packages check clang
    ensure_packages fuzzer
    compile clang
fi

status=0
for target in $targets; do
    echo "== fuzz_$target${afl:+, AFL++}, $each seconds"
    "run_$fuzzer" "$target"
    for file in $found; do
        say_finding "$target" "$file"
        status=1
    done
done
exit "$status"
