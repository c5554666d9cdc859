#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Runs a program on little of a processor; see usage() below.

set -eu

usage()
{
    cat <<'END'
usage: sh tests/stress/hard_times.sh [--quota percent] program [argument...]

Runs the program with so many percent of one processor's time (1 to 100, default 5): in a
control group of its own where one can be made, version 2 or 1, which takes root's rights; else
on one processor and beside busy loops that leave it about as much. It says which. The exit
status is the program's; 77: neither can be had.
END
}

wrong_usage()
{
    echo "tests/stress/hard_times.sh: $1 (see --help)" >&2
    exit 2
}

group=
processes=
clean_up()
{
    # shellcheck disable=SC2086 # numbers of processes that were started here
    [ -z "$processes" ] || kill $processes 2>/dev/null || true
    wait
    [ -z "$group" ] || rmdir "$group" 2>/dev/null || true
}

# Sets $group to a new one below $1.
make_group()
{
    [ -w "$1" ] && mkdir "$1/hwt-hard-times-$$" 2>/dev/null || return 1
    group=$1/hwt-hard-times-$$
}

# The version 2 group of this process, or the nearest one above it that hands processor time out.
quota_by_version_2()
{
    mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
    own=$(sed -n 's/^0:://p' /proc/self/cgroup)
    [ -n "$mount" ] || return 1
    while ! grep -qw cpu "$mount$own/cgroup.subtree_control" 2>/dev/null; do
        [ -n "${own%/}" ] || return 1
        own=${own%/*}
    done
    make_group "$mount${own%/}" && echo "$((quota * 1000)) 100000" >"$group/cpu.max"
}

quota_by_version_1()
{
    mount=$(awk '$3 == "cgroup" && $4 ~ /(^|,)cpu(,|$)/ { print $2; exit }' /proc/mounts)
    own=$(sed -nE 's/^[0-9]+:([^:]*,)?cpu(,[^:]*)?://p' /proc/self/cgroup)
    [ -n "$mount" ] || return 1
    make_group "$mount${own%/}" && echo 100000 >"$group/cpu.cfs_period_us" &&
        echo $((quota * 1000)) >"$group/cpu.cfs_quota_us"
}

# Waits for the program that was started last, so that a signal to the script ends it at once.
await_program()
{
    program=$!
    processes="$processes $program"
    wait "$program"
}

run_in_group()
{
    echo "$quota % of a processor, by $group"
    sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@" &
    await_program
}

# Until the script is no more.
# shellcheck disable=SC2016 # the loop's own
hog='while kill -0 "$0" 2>/dev/null; do i=0; while [ $i -lt 99999 ]; do i=$((i + 1)); done; done'

run_beside_hogs()
{
    command -v taskset >/dev/null || {
        echo 'neither a control group nor taskset (util-linux) can be had'
        return 77
    }
    processor=$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')
    i=$quota
    while [ "$i" -lt 100 ]; do
        taskset -c "$processor" sh -c "$hog" $$ &
        processes="$processes $!"
        i=$((i + quota))
    done
    echo "about $quota % of processor $processor, beside busy loops"
    taskset -c "$processor" nice -n 5 "$@" &
    await_program
}

quota=5
case ${1-} in
--quota)
    quota=${2-}
    [ $# -lt 2 ] || shift
    shift
    ;;
--quota=*)
    quota=${1#*=}
    shift
    ;;
-h | --help)
    usage
    exit 0
    ;;
-*) wrong_usage "unknown option $1" ;;
esac
case $quota in
[1-9] | [1-9][0-9] | 100) ;;
*) wrong_usage '--quota is 1 to 100' ;;
esac
[ $# -gt 0 ] || wrong_usage 'no program'

trap clean_up EXIT
trap 'exit 130' INT TERM HUP
if quota_by_version_2 || quota_by_version_1; then
    run_in_group "$@"
else
    run_beside_hogs "$@"
fi
