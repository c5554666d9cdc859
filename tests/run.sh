#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Builds hwt and passes its tests; see usage() below. Works from any folder, and leaves
# nothing in the checkout but build/.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"
# shellcheck source=tests/tools/cpu.sh
. "$root/tests/tools/cpu.sh"

usage()
{
    cat <<'END'
usage: sh tests/run.sh [option...]

Installs what is missing, builds hwt in build/, and runs its tests.

    --sanitize address    with AddressSanitizer and UndefinedBehaviorSanitizer
    --sanitize thread     with ThreadSanitizer
    --memcheck            under Valgrind's memcheck, without stress, schedules, consumer, long
    --cc gcc|clang        with this compiler (default: $CC, or cc)
    --suite NAME          only these: internal, public, stress, schedules, faults, loops, consumer,
                          delay, relay
    --repeat N            all N times
    --werror              warnings are errors
    --all                 one after the other, with --werror: gcc, clang (not its stress), both
                          sanitizers, memcheck; with all event loops, and tools for manual
                          pages, probes and metrics, that can be installed
    --help                this

Environment: HWT_TEST_SEED repeats random tests; HWT_TEST_SCALE=n does an nth of their rounds;
CK_RUN_CASE runs one test case.
END
}

wrong_usage()
{
    echo "tests/run.sh: $1 (see --help)" >&2
    exit 2
}

passed=0
failed=0
skipped=

count_failure()
{
    echo "FAILED: $1"
    failed=$((failed + 1))
}

# build/tests, build/tests-clang, build/tests-thread ...
configure()
{
    set -- --buildtype=debugoptimized -Dtests=enabled -Dperf=enabled -Dwerror="$werror" \
        -Db_sanitize="$sanitizers"
    # Reports have lines, which is all of the debug information that they want: with these alone gcc takes a
    # quarter less, and a sanitizer's build at -O1 two fifths less. Valgrind up to 3.19 cannot read what clang
    # writes by default.
    debug=
    [ "$all$cc" != yesclang ] && [ "$sanitizers" = none ] || debug=-g1
    [ "$cc" != clang ] || debug="$debug -gdwarf-4"
    if [ "$sanitizers" != none ]; then
        set -- "$@" -Doptimization=1
        debug="$debug -Wno-format-truncation" # at -O1 gcc does not know how great a number can be
    fi
    set -- "$@" "-Dc_args=$debug"
    if [ -f "$dir/build.ninja" ]; then
        # Fails in a folder that was moved, or was made by another Meson.
        CC=$compiler meson setup "$dir" "$root" --reconfigure "$@" >"$dir.log" 2>&1 && return
        rm -rf "$dir"
    fi
    CC=$compiler meson setup "$dir" "$root" "$@" >"$dir.log" 2>&1
}

# With a sanitizer only what the tests run: the set-ups without one build the rest, programs of perf/.
compile()
{
    set --
    [ "$sanitizers" = none ] || set -- meson-test-prereq
    ninja -C "$dir" "$@" >"$dir.log" 2>&1 || return
    grep -A 10 'warning:' "$dir.log" || true
}

build()
{
    configure && compile
}

# Some kernels lay out memory in a way that older ThreadSanitizers refuse.
without_layout_randomisation()
{
    probe=$root/build/probe
    echo 'int main(void) { return 0; }' | $compiler -fsanitize=thread -x c -o "$probe" -
    if ! "$probe" >/dev/null 2>&1 && setarch "$(uname -m)" -R "$probe" >/dev/null 2>&1; then
        echo setarch "$(uname -m)" -R
    fi
    rm -f "$probe"
}

# Adds this run's results to the counters, and what it skipped, each with the last line that it said; it is
# a failure if there are no results.
count_results()
{
    results=$(cat "$dir"/meson-logs/run*.json 2>/dev/null || true)
    ok=$(printf '%s\n' "$results" | grep -Ec '"result": "(OK|EXPECTEDFAIL)"' || true)
    bad=$(printf '%s\n' "$results" |
        grep -Ec '"result": "(FAIL|ERROR|TIMEOUT|INTERRUPT|UNEXPECTEDPASS)"' || true)
    skipped="$skipped
$(printf '%s\n' "$results" | sed -n '/"result": "SKIP"/{
        s/^{"name": "\([^"]* \)*\([^"]*\)", "stdout": "\(.*\\n\)*\(..*\)\\n", "result".*/    \2: \4/p
        s/^{"name": "\([^"]* \)*\([^"]*\)".*/    \2/p
    }')"
    passed=$((passed + ok))
    failed=$((failed + bad))
    if [ "$bad" -eq 0 ] && { [ "$1" -ne 0 ] || [ "$ok" -eq 0 ]; }; then
        count_failure "the tests did not run in $dir"
    fi
}

# run_tests [meson test argument...]: what Check prints is shown where a test fails.
run_tests()
{
    rm -f "$dir"/meson-logs/run*
    status=0
    # Some wait for most of their time, so there are more of them than processors.
    # shellcheck disable=SC2086 # $only has words
    measure "run-$step" $launcher meson test -C "$dir" --no-rebuild --logbase run --print-errorlogs \
        --num-processes "$(($(nproc) + 2))" $only "$@" </dev/null || status=$?
    count_results "$status"
}

# One set-up, from $cc ('' for the default), $sanitize ('', address, thread), $memcheck, $werror.
run_setup()
{
    dir=$root/build/tests${cc:+-$cc}${sanitize:+-$sanitize}
    compiler=${cc:-${CC:-cc}}
    sanitizers=none
    launcher=
    echo "== tests${cc:+, $cc}${sanitize:+, $sanitize sanitizer}${memcheck:+, memcheck}"

    case $sanitize in
    address) sanitizers=address,undefined launcher='env CK_TIMEOUT_MULTIPLIER=5' ;;
    thread)
        sanitizers=thread
        launcher="env CK_TIMEOUT_MULTIPLIER=5 $(without_layout_randomisation)"
        ;;
    esac
    step=${dir##*/}${memcheck:+-memcheck}
    if ! measure "build-$step" build; then
        cat "$dir.log"
        count_failure "the build in $dir"
        return
    fi
    if [ -n "$memcheck" ]; then
        # Forked tests would be checked too, with all that Check itself holds at a fork; but a
        # schedule wants a process of its own. The models take an eighth of their random steps, for an error of
        # memory shows at the first step that has it, and their answers were compared in full before.
        launcher='env CK_FORK=no HWT_TEST_SCALE=8'
        run_tests --no-suite consumer --no-suite stress --no-suite schedules --no-suite long \
            --timeout-multiplier 10 --wrapper "valgrind --quiet \
            --leak-check=full --show-leak-kinds=definite,indirect \
            --errors-for-leak-kinds=definite,indirect --error-exitcode=99 --fair-sched=yes"
    elif [ "$sanitize" = thread ]; then
        run_tests --no-suite alone --timeout-multiplier 5
    elif [ -n "$sanitize" ]; then
        run_tests --no-suite once --timeout-multiplier 5
    else
        run_tests
    fi
}

run_all()
{
    werror=true
    for setup in gcc clang address thread memcheck; do
        cc=gcc sanitize='' memcheck='' only=''
        case $setup in
        clang) cc=clang only='--suite internal --suite public --suite loops' ;;
        address | thread) sanitize=$setup ;;
        memcheck) memcheck=yes ;;
        esac
        run_setup
    done
}

cc='' sanitize='' memcheck='' werror=false all='' only=''
while [ $# -gt 0 ]; do
    case $1 in
    --sanitize=* | --cc=* | --suite=* | --repeat=*)
        option=$1
        shift
        set -- "${option%%=*}" "${option#*=}" "$@"
        continue
        ;;
    --sanitize)
        case ${2-} in
        address | thread) sanitize=$2 ;;
        *) wrong_usage '--sanitize is address or thread' ;;
        esac
        shift
        ;;
    --cc)
        case ${2-} in
        gcc | clang) cc=$2 ;;
        *) wrong_usage '--cc is gcc or clang' ;;
        esac
        shift
        ;;
    --suite | --repeat)
        [ -n "${2-}" ] || wrong_usage "$1 takes one more word"
        only="$only $1 $2"
        shift
        ;;
    --memcheck) memcheck=yes ;;
    --werror) werror=true ;;
    --all) all=yes ;;
    -h | --help)
        usage
        exit 0
        ;;
    *) wrong_usage "unknown option $1" ;;
    esac
    shift
done
[ -z "$sanitize" ] || [ -z "$memcheck" ] || wrong_usage '--sanitize and --memcheck exclude each other'

mkdir -p "$root/build"
# As it is by default with newer compilers: locals may be elsewhere than on the stack.
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_stack_use_after_return=1}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}"

if [ -n "$all" ]; then
    ensure_packages check c++ cmake isal libbsd gcc clang valgrind
    wish_for_packages musl libuv libev libevent glib sd-event io_uring scdoc mandoc sdt gdb bpftrace curl promtool btrfs nats kafka sqlite
    run_all
else
    # shellcheck disable=SC2086 # one name each
    ensure_packages check c++ cmake isal libbsd $cc ${memcheck:+valgrind}
    run_setup
fi

[ -z "$(printf '%s' "$skipped" | tr -d '\n')" ] ||
    printf 'skipped:\n%s\n' "$(printf '%s\n' "$skipped" | grep . | sort -u)"
[ -z "$all" ] || say_cpu
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
