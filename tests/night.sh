#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# What takes too long for every day: runs the jobs below one after the other.
#
#     sh tests/night.sh [--processes N] [--seed N] [JOB...]
#
#     --processes N    how many to run at a time: as many as there are processors
#     --seed N         where random numbers begin: the time of day
#     JOB              only these; all by default:
#
#     simulate         a hundred million operations of tests/simulate/simulate.c
#     delay            a million crash states of the durable store, 100000 with shortages, 50000 failures of the
#                      system, a hundred kills, and all schedules of its calls
#     fuzz             ten minutes of each fuzzer
#     spin             the models in larger bounds: ten minutes and 4 GB
#     coverage         how much of hwt/ the tests go through
#     aarch64, i386    the tests on other machines
#     deb, rpm, arch   packages in a fresh root: minutes, and a mirror of Debian
#     local            what README says, below /usr/local of a fresh root
#     builds           the tests with musl, static, with link-time optimisation, small
#     clang            all that tests/run.sh has, built by clang
#     stress           each stress test ten times, and so under ThreadSanitizer; and there ten
#                      minutes of the durable store with all its threads
#     soak             an hour of tests/stress/soak.sh
#
# Leaves what failed in build/night/. Installs what it needs. The exit status is 0, 1 if a job
# failed, 2 for misuse.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source-path=SCRIPTDIR/.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

jobs='simulate delay fuzz spin coverage aarch64 i386 deb rpm arch local builds clang stress soak'

misuse()
{
    echo "tests/night.sh: $1; see --help" >&2
    exit 2
}

processes=$(nproc)
seed=$(date +%s)
chosen=
while [ $# -gt 0 ]; do
    case $1 in
    --help)
        sed -n '4,30s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    --processes | --seed)
        case ${2-} in
        '' | *[!0-9]* | 0?*) misuse "$1 takes a number" ;;
        esac
        [ "$1" != --seed ] || seed=$2
        [ "$1" != --processes ] || processes=$2
        shift
        ;;
    --processes=* | --seed=*)
        option=$1
        shift
        set -- "${option%%=*}" "${option#*=}" "$@"
        continue
        ;;
    -*) misuse "unknown option $1" ;;
    *)
        case " $jobs " in
        *" $1 "*) chosen="$chosen $1" ;;
        *) misuse "there is no job $1" ;;
        esac
        ;;
    esac
    shift
done
[ "$processes" -gt 0 ] || misuse '--processes is 1 at least'

build=$root/build/night

# A million operations for each of a hundred seeds. A test that fails stays in build/night/.
job_simulate()
{
    ninja -C "$build" tests/simulate/simulate >"$build/simulate.log" || {
        cat "$build/simulate.log"
        return 1
    }
    # shellcheck disable=SC2016 # the inner shell expands them
    seq "$seed" $((seed + 99)) | xargs -P "$processes" -I SEED sh -c '
        "$1/tests/simulate/simulate" --seed SEED --operations 1000000 >"$1/simulate-SEED.c" || {
            echo "FAILED: seed SEED, see $1/simulate-SEED.c"
            exit 1
        }
        head -n 1 "$1/simulate-SEED.c"
        rm "$1/simulate-SEED.c"
    ' sh "$build"
}

# A failure stays in build/night/.
job_delay()
{
    ninja -C "$build" tests/delay/crash/delay_crash tests/delay/crash/delay_kill tests/delay/test_delay_pairs \
        >"$build/delay.log" || {
        cat "$build/delay.log"
        return 1
    }
    # shellcheck disable=SC2016 # the inner shell expands them
    seq "$seed" $((seed + 19)) | xargs -P "$processes" -I SEED sh -c '
        "$1/tests/delay/crash/delay_crash" --seed SEED --states 50000 >"$1/delay-SEED.log" || {
            echo "FAILED: seed SEED, see $1/delay-SEED.log"
            exit 1
        }
        tail -n 1 "$1/delay-SEED.log"
        rm "$1/delay-SEED.log"
    ' sh "$build" &&
        "$build/tests/delay/crash/delay_crash" --shortages --seed "$seed" --states 100000 &&
        "$build/tests/delay/crash/delay_crash" --each-call --seed "$seed" --states 50000 &&
        "$build/tests/delay/crash/delay_kill" --seed "$seed" --kills 100 &&
        HWT_TEST_SCALE=1 HWT_TEST_SEED=$seed "$build/tests/delay/test_delay_pairs"
}

job_fuzz()
{
    sh "$root/tests/fuzz/run.sh" --seconds 1800 && sh "$root/tests/fuzz/run.sh" --afl --seconds 1800
}

job_spin()
{
    sh "$root/tests/spin/run.sh" --long
}

job_coverage()
{
    sh "$root/tests/tools/coverage.sh"
}

job_aarch64()
{
    sh "$root/tests/tools/cross.sh" aarch64
}

job_i386()
{
    sh "$root/tests/tools/cross.sh" i386
}

job_deb()
{
    sh "$root/tests/tools/deb.sh"
}

job_rpm()
{
    sh "$root/tests/tools/rpm.sh"
}

job_arch()
{
    sh "$root/tests/tools/arch.sh"
}

job_local()
{
    sh "$root/tests/tools/local.sh"
}

job_builds()
{
    sh "$root/tests/tools/builds.sh"
}

job_clang()
{
    sh "$root/tests/run.sh" --cc clang
}

job_stress()
{
    sh "$root/tests/run.sh" --suite stress --repeat 10 &&
        sh "$root/tests/run.sh" --sanitize thread --suite stress --repeat 10 &&
        "$root/build/tests-thread/tests/delay/crash/delay_together" --seconds 600
}

job_soak()
{
    sh "$root/tests/stress/soak.sh" 60
}

ensure_packages check
[ -f "$build/build.ninja" ] ||
    meson setup "$build" "$root" --buildtype=debugoptimized -Dtests=enabled >&2

failed=0
for job in ${chosen:-$jobs}; do
    echo "== $job (seed $seed)"
    "job_$job" || failed=$((failed + 1))
done
echo "$failed jobs failed"
[ "$failed" -eq 0 ]
