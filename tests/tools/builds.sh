#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Builds hwt as some of its users do, and passes the tests there that need no tools.
#
#     sh tests/tools/builds.sh [BUILD...]
#
#     BUILD    only these; all by default:
#
#     musl     with musl in place of glibc, shared and static
#     static   programs that are wholly static, with glibc
#     lto      with link-time optimisation, by gcc, at -O3
#     small    by clang, at -Os, without asserts, the shared library only
#
# Installs what it needs; Check for musl is built from Debian's source package, below
# build/builds/. The exit status is 0, 1 if something fails, 2 if something cannot be had.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source-path=SCRIPTDIR/../.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

builds='musl static lto small'
work=$root/build/builds

chosen=
for argument in "$@"; do
    case " $builds " in
    *" $argument "*) chosen="$chosen $argument" ;;
    *)
        [ "$argument" != --help ] || { sed -n '4,17s/^# \{0,1\}//p' "$0" && exit 0; }
        echo "tests/tools/builds.sh: there is no build $argument; see --help" >&2
        exit 2
        ;;
    esac
done

# check_build NAME COMPILER [option of meson setup...]
check_build()
{
    build=$work/$1
    compiler=$2
    shift 2
    [ -f "$build/build.ninja" ] ||
        CC=$compiler meson setup "$build" "$root" -Dtests=enabled -Dman=disabled -Dwerror=true "$@" \
            >"$build.log" 2>&1 || { cat "$build.log" >&2 && return 1; }
    ninja -C "$build" >"$build.log" || { cat "$build.log" && return 1; }
    # shellcheck disable=SC2086 # $without has words
    meson test -C "$build" --no-rebuild --print-errorlogs --no-suite stress --no-suite consumer \
        --no-suite loops $without --timeout-multiplier 3 </dev/null
}

source_of_check()
{
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
    : >"$work/apt/status"
    release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    echo "deb-src http://deb.debian.org/debian $release main" >"$work/apt/sources.list"
    set -- -qq -o "Dir::State=$work/apt" -o "Dir::State::status=$work/apt/status" \
        -o "Dir::Cache=$work/apt/cache" -o "Dir::Etc::SourceList=$work/apt/sources.list" \
        -o Dir::Etc::SourceParts=/dev/null -o APT::Sandbox::User=root
    (cd "$work" && apt-get "$@" update && apt-get "$@" source --download-only check) >&2 </dev/null
}

# As the tests need it: a static library and check.h, for musl.
check_for_musl()
{
    [ ! -f "$work/check/lib/pkgconfig/check.pc" ] || return 0
    mkdir -p "$work/check-source"
    source_of_check && tar -xzf "$work"/check_*.orig.tar.gz --strip-components=1 -C "$work/check-source" &&
        cmake -S "$work/check-source" -B "$work/check-build" -DCMAKE_C_COMPILER=musl-gcc \
            -DCMAKE_INSTALL_PREFIX="$work/check" -DCMAKE_INSTALL_LIBDIR=lib -DCHECK_ENABLE_TESTS=OFF \
            -DCHECK_ENABLE_SUBUNIT=OFF -DINSTALL_CHECKMK=OFF -DCMAKE_C_FLAGS=-w &&
        cmake --build "$work/check-build" --target install
}

build_musl()
{
    ensure_packages cmake musl
    check_for_musl >"$work/check.log" 2>&1 || {
        cat "$work/check.log" >&2
        echo 'tests/tools/builds.sh: Check could not be built for musl' >&2
        exit 2
    }
    # Some tests take the kernel's headers, which Debian has beside glibc's only.
    asm=/usr/include/$(gcc -print-multiarch)
    PKG_CONFIG_PATH=$work/check/lib/pkgconfig check_build musl musl-gcc -Dprobes=disabled -Ddelay=disabled \
        "-Dc_args=['-idirafter', '/usr/include', '-idirafter', '$asm']"
}

build_static()
{
    ensure_packages check
    # Refused there would also be what the C library asks of itself.
    without='--no-suite faults'
    # Debian has no static libisal.
    check_build static gcc -Ddelay=disabled -Ddefault_library=static -Dprefer_static=true -Dc_link_args=-static
}

build_lto()
{
    ensure_packages check gcc
    # Functions that are inlined cannot be wrapped, as seeded mistakes do.
    without='--no-suite once'
    check_build lto gcc -Db_lto=true -Dbuildtype=release
}

build_small()
{
    ensure_packages check clang
    check_build small clang -Doptimization=s -Db_ndebug=true -Ddefault_library=shared
}

ensure_packages
mkdir -p "$work"
failed=0
for build in ${chosen:-$builds}; do
    echo "== $build"
    without=
    "build_$build" || {
        echo "FAILED: $build"
        failed=$((failed + 1))
    }
done
echo "$failed failed"
[ "$failed" -eq 0 ]
