#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Asks each script for its --help where nothing can be installed or built: it must say how it is called
# and do nothing else. Meson's tests call this, with the folders of the built programs heartbeat and
# delay_life, or nothing for them; what these take, their scripts must say.

set -eu

root=$MESON_SOURCE_ROOT
work=$MESON_BUILD_ROOT/help
failed=0

complain()
{
    echo "$*" >&2
    failed=1
}

rm -rf "$work"
mkdir -p "$work/bin" "$work/checkout"
for tool in apt-get sudo meson ninja cc gcc clang make cmake python3 pip mmdebstrap; do
    printf '#!/bin/sh\necho "%s $*" >>"%s/called"\nexit 1\n' "$tool" "$work" >"$work/bin/$tool"
    chmod +x "$work/bin/$tool"
done
: >"$work/called"
cp -R "$root/meson.build" "$root/hwt" "$root/perf" "$root/tests" "$root/.ci" "$work/checkout"

# Those that no person calls say nothing; all that ask for packages do.
scripts=$(cd "$root" && grep -lE -e "--help( \*')?\)|!= --help|' --help '|^begin " perf/*.sh tests/*.sh tests/*/*.sh | grep -v "tests/tools/help\.sh")
for script in $(cd "$root" && grep -l '^ensure_packages\|^ *ensure_packages' perf/*.sh tests/*.sh tests/*/*.sh); do
    case " $(echo "$scripts" | tr '\n' ' ') " in
    *" $script "*) ;;
    *) [ "$script" = tests/tools/packages.sh ] || complain "$script installs packages, and has no --help" ;;
    esac
done
[ "$(echo "$scripts" | wc -l)" -ge 15 ] || complain "found only these scripts: $scripts"

for script in $scripts; do
    status=0
    (cd / && PATH=$work/bin:$PATH timeout 20 sh "$work/checkout/$script" --help) >"$work/said" 2>"$work/errors" </dev/null ||
        status=$?
    [ "$status" -eq 0 ] || complain "$script --help: status $status"
    [ ! -s "$work/errors" ] || complain "$script --help: $(cat "$work/errors")"
    grep -q "sh $script" "$work/said" || complain "$script --help does not say how it is called"
    ! grep -q '^set -eu\|^#' "$work/said" || complain "$script --help prints its source"
done
[ ! -s "$work/called" ] || complain "--help calls: $(cat "$work/called")"
[ ! -e "$work/checkout/build" ] || complain '--help makes build/'

# options PROGRAM SCRIPT: the names and defaults that both say.
same_options()
{
    "$1" --help | sed -n 's/^  --\([a-z-]*\) .*/\1/p' | sort >"$work/program"
    sh "$root/$2" --help | sed -n 's/^    --\([a-z-]*\) .*/\1/p' | cat - "$work/help-itself" | sort >"$work/script"
    diff "$work/program" "$work/script" >&2 || complain "$2: < options of the program, > of its script"
}
echo help >"$work/help-itself"
for pair in "$@"; do
    same_options "${pair%=*}" "${pair#*=}"
done
[ "$failed" -eq 0 ]
