#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Counts the lines of code of the timer: a row for each folder, and their sum.
#
#     sh tests/tools/lines.sh
#
# A line of code is one that is not empty when the compiler has taken the comments away.
#
# Needs gcc. The exit status is 0, 1 if a file cannot be read as C, 2 for misuse.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)

case $#,${1-} in
0,) ;;
*,--help)
    sed -n '4,11s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
*)
    echo 'tests/tools/lines.sh: takes no argument; see --help' >&2
    exit 2
    ;;
esac

# In a macro of several lines a # may begin one. That is no directive, so it gets a neighbour.
code_of()
{
    awk 'continued { sub(/^ *#/, "x #") }
        { continued = /\\$/; print }' "$1" | gcc -fpreprocessed -dD -E -P -w -x c -
}

cd "$root/hwt"
sum=0
for folder in base wheel pool inbox worker timer report; do
    lines=0
    for file in "$folder"/*.[ch]; do
        code=$(code_of "$file") || {
            echo "tests/tools/lines.sh: hwt/$file cannot be read" >&2
            exit 1
        }
        lines=$((lines + $(printf '%s\n' "$code" | grep -c .)))
    done
    printf '%-8s %5d\n' "$folder" "$lines"
    sum=$((sum + lines))
done
printf '%-8s %5d\n' sum "$sum"
