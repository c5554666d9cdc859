#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Counts the instructions and the locked operations of the library's paths under Callgrind, and
# compares them with the limits in perf/instructions.txt: both are the same on a noisy machine.
# Limits hold for one compiler and architecture; for others the figures are printed, and this says
# that there is nothing to compare them with.
#
#     sh perf/instructions.sh [--figures]
#
#     --figures    prints the figures and compares nothing
#
# The exit status is 0, 1 if a limit is exceeded, 2 for misuse or if something has to be installed
# by hand.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source-path=SCRIPTDIR/.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

compare=yes
case ${1-} in
'') ;;
--figures) compare=no ;;
--help) sed -n '4,15s/^# \{0,1\}//p' "$0" && exit 0 ;;
*)
    echo "perf/instructions.sh: unknown option $1; see --help" >&2
    exit 2
    ;;
esac

dir=$root/build/instructions
limits=$root/perf/instructions.txt
mkdir -p "$dir"
ensure_packages gcc valgrind

# Built without Meson, with flags that do not change from machine to machine.
# shellcheck disable=SC2089 # the quotes are the macro's
flags='-std=c11 -O2 -g -D_GNU_SOURCE -DHWT_INLINE_URCU=1 -DHWT_VERSION="0"'
[ "$(uname -m)" != x86_64 ] || flags="$flags -mcx16"
# hwt/delay and hwt/relay are a library and a program of their own, on top of this one.
# shellcheck disable=SC2046,SC2086,SC2090 # flags and files are words
gcc $flags -I"$root" -isystem "$(pkg-config --variable=includedir liburcu-cds)" \
    $(find "$root/hwt" -name '*.c' ! -path '*/hwt/delay/*' ! -path '*/hwt/relay/*') "$root/perf/suite/instructions.c" \
    -o "$dir/instructions" -pthread

rm -f "$dir"/counts*
valgrind --tool=callgrind --callgrind-out-file="$dir/counts" --dump-instr=yes --compress-pos=no \
    --compress-strings=no "$dir/instructions" >"$dir/paths" 2>"$dir/log" </dev/null || {
    cat "$dir/log" >&2
    exit 1
}

# locked_in DUMP: of x86-64 alone is it known what they look like.
locked_in()
{
    if [ "$(uname -m)" = x86_64 ]; then
        python3 -B "$root/perf/suite/locked.py" "$1"
    else
        echo 0
    fi
}

kind=gcc-$(gcc -dumpversion)-$(uname -m)
number=0
while read -r path operations; do
    number=$((number + 1))
    total=$(sed -n 's/^\(summary\|totals\): //p' "$dir/counts.$number" | head -n 1)
    locked=$(locked_in "$dir/counts.$number")
    echo "$path $total $locked $operations" |
        awk -v kind="$kind" '{ printf "%s %s %d %.2f\n", kind, $1, $2 / $4, $3 / $4 }'
done <"$dir/paths" >"$dir/all"
grep -v ' control ' "$dir/all" >"$dir/figures"
if [ "$(uname -m)" = x86_64 ] && ! grep -q ' control [0-9]* 1\.00$' "$dir/all"; then
    echo 'perf/instructions.sh: locked operations are not counted rightly here' >&2
    exit 1
fi

if [ "$compare" = no ] || ! grep -q "^$kind " "$limits"; then
    [ "$compare" = no ] || echo "perf/instructions.txt has no limits for $kind: nothing to compare with"
    cat "$dir/figures"
    exit 0
fi
awk 'function over(value, limit, slack) { return limit != "-" && value > limit + slack }
     NR == FNR { instructions[$1 " " $2] = $3; locked[$1 " " $2] = $4; next }
     {
         key = $1 " " $2
         if (!(key in instructions)) {
             printf "%-16s has no limit\n", $2
             failed++
             next
         }
         many = over($3, instructions[key], 0)
         dear = over($4, locked[key], 0.1)
         failed += many + dear
         printf "%-16s %5d instructions of %4s, %5.2f locked operations of %2s%s%s\n", $2, $3,
                instructions[key], $4, locked[key], many ? "  TOO MANY INSTRUCTIONS" : "",
                dear ? "  TOO MANY LOCKED" : ""
     }
     END { exit failed > 0 }' "$limits" "$dir/figures"
