# shellcheck shell=sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# To be sourced, with the root of the checkout in $root. What takes the processors, by step:
#
#     measure NAME COMMAND...    runs it, in a shell of its own, with its exit status; NAME is a word
#     say_cpu [NAME...]          minutes of CPU, user and system, of these or all, the most first
#
# A process counts once somebody has waited for it, so a server that outlives its step does not. The figures
# are in build/cpu/, and stay there until the step is measured again.

measure()
(
    name=$1
    shift
    status=0
    "$@" || status=$?
    mkdir -p "${root:?}/build/cpu"
    times >"$root/build/cpu/$name"
    exit "$status"
)

# The second line that `times` writes is of the children: 1m2.5s 0m3.5s.
say_cpu()
(
    cd "${root:?}/build/cpu" || exit
    [ $# -gt 0 ] || set -- *
    awk 'FNR == 2 { split($1 "m" $2, t, "[ms]+")
                    minutes = t[1] + t[2] / 60 + t[3] + t[4] / 60
                    all += minutes
                    printf "%6.1f  %s\n", minutes, FILENAME }
         END { printf "%6.1f  minutes of CPU in all\n", all }' "$@" | sort -rn
)
