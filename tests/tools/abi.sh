#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Compares the binary interface of the shared libraries with that of the last release, which is in
# tests/tools/abi/. Functions may have been added, and fields at the end of structs that begin with
# their size. Nothing else may differ, unless the soname does; see "Versions" in hwt(7).
#
#     sh tests/tools/abi.sh [--release [LIBRARY...]]
#
#     --release    makes the present interface of the libraries, or of libhwt or libhwt-delay alone, the
#                  one to compare with: as part of a release
#
# Says what was added and what has changed. First it makes some mistakes, which it must find. Installs
# what it needs, writes to build/abi. The exit status is 0, 1 if anything has changed, 2 for misuse. On
# another machine than 64-bit x86 it compares nothing.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source-path=SCRIPTDIR/../.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

released=$root/tests/tools/abi
build=$root/build/abi
libraries='libhwt libhwt-delay'
release=
case ${1-} in
'') ;;
--release)
    release=yes
    shift
    for library in "$@"; do
        case $library in
        libhwt | libhwt-delay) ;;
        *)
            echo "tests/tools/abi.sh: there is no library $library; see --help" >&2
            exit 2
            ;;
        esac
    done
    libraries=${*:-$libraries}
    ;;
--help)
    sed -n '4,16s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
*)
    echo "tests/tools/abi.sh: unknown option $1; see --help" >&2
    exit 2
    ;;
esac
if [ "$(uname -m)" != x86_64 ]; then
    echo 'tests/tools/abi.sh: the released interfaces are of 64-bit x86, nothing compared'
    exit 0
fi

headers_of()
{
    case $1 in
    libhwt) echo hwt.h heartbeat.h retry.h ;;
    libhwt-delay) echo delay.h ;;
    esac
}

shared_library()
{
    find "$build" -name "$1.so"
}

write_interface()
{
    abidw --headers-dir "$build/public" --drop-private-types --no-corpus-path --no-comp-dir-path \
        --out-file "$2" "$(shared_library "$1")"
}

record_release()
{
    version=$(sed -n "s/^ *version: '\(.*\)',/\1/p" "$root/meson.build" | head -n 1)
    for library in $libraries; do
        rm -f "$released/$library"-[0-9]*
        write_interface "$library" "$released/$library-$version.abi"
        # shellcheck disable=SC2046 # names are words
        python3 -B "$released/layout.py" "$released/$library-$version.abi" "$root/hwt" \
            $(headers_of "$library") >"$released/$library-$version.layout.c"
    done
}

# compare BASE NEW: what differs, on stdout, but for functions that were added.
compare()
{
    abidiff --no-added-syms --suppressions "$released/allowed.ini" --headers-dir2 "$build/public" "$1" "$2"
}

# lay_out FOLDER LIBRARY: whether the public headers in FOLDER have the structs as they were.
lay_out()
{
    gcc -std=c11 -fsyntax-only -I"$1" "$released/$2"-[0-9]*.layout.c
}

# The functions that have come since are in a version that came since, too: so a program that calls one does
# not begin with the library that was released.
check_added()
{
    nm -D --defined-only "$(shared_library "$1")" | sed -n 's/.* T //p' |
        while IFS=@ read -r function version; do
            grep -q "<elf-symbol name='$function'" "$released/$1"-[0-9]*.abi && continue
            echo "$1: added: $function"
            if grep -q "version='${version#@}'" "$released/$1"-[0-9]*.abi; then
                echo "$1: $function is in ${version#@}, which was released without it"
                return 1
            fi
        done
}

must_find()
{
    if "$@" >"$build/mistake" 2>&1; then
        cat "$build/mistake"
        echo "tests/tools/abi.sh: a mistake was not found: $*" >&2
        exit 1
    fi
}

# mistake FILE FROM TO: FILE with one thing changed, at $build/wrong.
mistake()
{
    sed "s|$2|$3|g" "$1" >"$build/wrong"
    if cmp -s "$1" "$build/wrong"; then
        echo "tests/tools/abi.sh: a mistake cannot be made any more: $2" >&2
        exit 1
    fi
}

# In the header: a field is gone, one is put before another, an embedded struct grows.
wrong_header()
{
    rm -rf "$build/mistaken"
    mkdir -p "$build/mistaken/hwt"
    cp "$root"/hwt/*.h "$build/mistaken/hwt"
    mistake "$root/hwt/$1" "$2" "$3"
    cp "$build/wrong" "$build/mistaken/hwt/$1"
    must_find lay_out "$build/mistaken" libhwt
}

make_mistakes()
{
    write_interface libhwt "$build/now.abi"
    compare "$released"/libhwt-[0-9]*.abi "$build/now.abi" >/dev/null
    mistake "$build/now.abi" "hwt_timer_stop'" "hwt_timer_halt'"
    must_find compare "$released"/libhwt-[0-9]*.abi "$build/wrong"
    mistake "$build/now.abi" "type-id='type-id-[0-9]*' name='most'" "type-id='type-id-1' name='most'"
    must_find compare "$released"/libhwt-[0-9]*.abi "$build/wrong"
    mistake "$build/now.abi" "name='HWT_GONE' value='[0-9]*'" "name='HWT_GONE' value='9'"
    must_find compare "$released"/libhwt-[0-9]*.abi "$build/wrong"
    wrong_header hwt.h 'uint64_t max_pending;' ''
    wrong_header hwt.h 'uint64_t max_pending;' 'uint64_t max_pending, more;'
    wrong_header heartbeat.h 'uint32_t reserved\[3\];' 'uint32_t reserved[9];'
}

# Reports each library that is not as it was released.
check_library()
{
    lay_out "$root" "$1" && check_added "$1" &&
        compare "$released/$1"-[0-9]*.abi "$(shared_library "$1")"
}

ensure_packages gcc abigail isal libbsd
[ -f "$build/build.ninja" ] ||
    CC=gcc meson setup "$build" "$root" --buildtype=debugoptimized -Dtests=disabled -Dperf=disabled \
        -Dman=disabled -Ddelay=enabled -Drelay=disabled -Ddefault_library=shared >&2
ninja -C "$build" >"$build.log" || { cat "$build.log" >&2 && exit 1; }
mkdir -p "$build/public"
cp "$root"/hwt/*.h "$build/public"

if [ -n "$release" ]; then
    record_release
    exit 0
fi
make_mistakes
failed=
for library in $libraries; do
    check_library "$library" || failed="$failed $library"
done
if [ -n "$failed" ]; then
    echo "tests/tools/abi.sh: programs that are built no longer run with$failed; see --help" >&2
    exit 1
fi
echo 'programs that were built with the last release run with these libraries'
