#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Counts the instructions of the library's paths under Callgrind and compares them with
# perf/instructions.txt: a regression shows on a noisy machine too. More than 5 % above a
# committed figure fails. Figures hold for one compiler and architecture; for others there is
# nothing to compare with, and this says so.
#
#     sh perf/instructions.sh [--update]    --update writes the figures of this machine
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source-path=SCRIPTDIR/.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

update=no
case ${1-} in
'') ;;
--update) update=yes ;;
--help) sed -n '4,9s/^# \{0,1\}//p' "$0" && exit 0 ;;
*)
    echo "perf/instructions.sh: unknown option $1; see --help" >&2
    exit 2
    ;;
esac

dir=$root/build/instructions
figures=$root/perf/instructions.txt
mkdir -p "$dir"
ensure_packages gcc valgrind

# Built without Meson, with flags that do not change from machine to machine.
# shellcheck disable=SC2089 # the quotes are the macro's
flags='-std=c11 -O2 -g -D_GNU_SOURCE -DHWT_INLINE_URCU=1 -DHWT_VERSION="0"'
# shellcheck disable=SC2086,SC2090 # flags are words
gcc $flags -I"$root" -isystem "$(pkg-config --variable=includedir liburcu-cds)" \
    "$root"/hwt/*.c "$root/perf/instructions.c" -o "$dir/instructions" -pthread

rm -f "$dir"/counts*
valgrind --tool=callgrind --callgrind-out-file="$dir/counts" "$dir/instructions" \
    >"$dir/paths" 2>"$dir/log" </dev/null || { cat "$dir/log" >&2; exit 1; }

kind=gcc-$(gcc -dumpversion)-$(uname -m)
number=0
while read -r path operations; do
    number=$((number + 1))
    total=$(sed -n 's/^\(summary\|totals\): //p' "$dir/counts.$number" | head -n 1)
    echo "$kind $path $((total / operations))"
done <"$dir/paths" >"$dir/figures"

if [ "$update" = yes ]; then
    { grep -v "^$kind " "$figures" 2>/dev/null || true; cat "$dir/figures"; } >"$dir/all"
    mv "$dir/all" "$figures"
    echo "perf/instructions.txt: written for $kind"
    exit 0
fi
if ! grep -q "^$kind " "$figures"; then
    echo "perf/instructions.txt has no figures for $kind: nothing to compare with"
    cat "$dir/figures"
    exit 0
fi
awk 'NR == FNR { want[$1 " " $2] = $3; next }
     {
         old = want[$1 " " $2]
         bad = old == "" || $3 > old * 1.05 + 1
         failed += bad
         printf "%-16s %5d instructions, committed %5s%s\n", $2, $3, old, bad ? "  TOO MANY" : ""
     }
     END { exit failed > 0 }' "$figures" "$dir/figures"
