#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# One use of the installed package, named by the argument; meson's tests call this. The
# package is installed below the build folder first, and found there by pkg-config alone.

set -eu

name=$1
root=$MESON_SOURCE_ROOT
here=$root/tests/consumer
work=$MESON_BUILD_ROOT/consumer/$name
CC=${CC:-cc}
CXX=${CXX:-c++}

fail()
{
    echo "$*" >&2
    exit 1
}

# A prefix below the work folder, with hwt.pc alone in pkg-config's whole search path.
install_package()
{
    rm -rf "$work"
    mkdir -p "$work/pkgconfig"
    DESTDIR=$work/root meson install -C "$MESON_BUILD_ROOT" --no-rebuild --quiet
    prefix=$work/root$HWT_PREFIX
    libdir=$prefix/$HWT_LIBDIR
    sed "s|^prefix=.*|prefix=$prefix|" "$libdir/pkgconfig/hwt.pc" >"$work/pkgconfig/hwt.pc"
    PKG_CONFIG_LIBDIR=$work/pkgconfig
    LD_LIBRARY_PATH=$libdir
    export PKG_CONFIG_LIBDIR LD_LIBRARY_PATH
    unset PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
}

# The compiler and the flags, then what is to be compiled, to $work/program.
build()
{
    # shellcheck disable=SC2046 # flags are words
    "$@" -o "$work/program" $(pkg-config --cflags --libs hwt)
}

# Exactly this in the package, and nothing of liburcu needed to use it.
test_files()
{
    headers=$(cd "$prefix/include" && find . -type f)
    [ "$headers" = ./hwt/hwt.h ] || fail "installed headers: $headers"
    pkg-config --print-requires --print-requires-private hwt | grep . &&
        fail 'hwt.pc requires another package'
    if [ "$HWT_DEFAULT_LIBRARY" != static ]; then
        version=$(pkg-config --modversion hwt)
        [ -f "$libdir/libhwt.so.$version" ] || fail "no libhwt.so.$version"
        readelf -d "$libdir/libhwt.so" | grep -q 'SONAME.*\[libhwt\.so\.[0-9]*\]' ||
            fail "the SONAME is not libhwt.so.N"
    fi
    if [ "$HWT_DEFAULT_LIBRARY" != shared ]; then
        [ -f "$libdir/libhwt.a" ] || fail 'no libhwt.a'
        # shellcheck disable=SC2046,SC2086 # flags are words
        $CC -std=c99 "$here/c99.c" -o "$work/static" $(pkg-config --cflags hwt) \
            "$libdir/libhwt.a" $(pkg-config --static --libs-only-other hwt) \
            $(pkg-config --static --libs-only-l hwt | sed 's/-lhwt//')
        "$work/static"
    fi
}

# The header, the version script and the shared library name the same functions.
test_exports()
{
    [ "$HWT_DEFAULT_LIBRARY" != static ] || exit 77
    sed -n 's/^HWT_PUBLIC .*[ *]\(hwt_[a-z_]*\)(.*/\1/p' "$prefix/include/hwt/hwt.h" |
        sort >"$work/header"
    sed -n 's/^ *\(hwt_[a-z_]*\);$/\1/p' "$root/hwt/hwt.map" | sort >"$work/map"
    nm -D --defined-only "$libdir/libhwt.so" |
        awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$work/library"
    [ -s "$work/header" ] || fail 'found no function in hwt.h'
    diff "$work/header" "$work/map"
    diff "$work/header" "$work/library"
    [ "$(grep -c HWT_PUBLIC "$root/hwt/hwt.h")" -eq "$(($(wc -l <"$work/header") + 2))" ] ||
        fail 'a function of hwt.h was overlooked'
}

# shellcheck disable=SC2086 # CC and CXX may be several words
test_c99()
{
    build $CC -std=c99 -pedantic -Wall -Wextra -Werror "$here/c99.c"
    "$work/program"
}

# shellcheck disable=SC2086
test_cxx11()
{
    build $CXX -std=c++11 -pedantic -Wall -Wextra -Werror -pthread "$here/cxx11.cpp"
    "$work/program"
}

test_cmake()
{
    cmake -S "$here/cmake" -B "$work/cmake"
    cmake --build "$work/cmake"
    "$work/cmake/consumer"
}

# The program in README.md is complete and does what it says.
# shellcheck disable=SC2086
test_readme()
{
    awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' \
        "$root/README.md" >"$work/readme.c"
    grep -q 'int main' "$work/readme.c" || fail 'found no program in README.md'
    build $CC -Wall -Wextra -Werror "$work/readme.c"
    "$work/program" | grep 'idle for too long' || fail 'it does not say that peer 1 is idle'
}

# The tests of the API need nothing but what is installed; meson runs them.
# shellcheck disable=SC2046,SC2086
test_api()
{
    for source in "$root"/tests/test_api*.c "$root"/tests/test_slips*.c; do
        $CC -std=c11 -D_GNU_SOURCE -pthread "$source" -o "$work/program" \
            $(pkg-config --cflags --libs hwt) \
            $(unset PKG_CONFIG_LIBDIR; pkg-config --cflags --libs check)
    done
}

test_subproject()
{
    mkdir -p "$work/source/subprojects/hwt"
    cp "$here/subproject/meson.build" "$here/c99.c" "$work/source"
    cp -R "$root/meson.build" "$root/meson_options.txt" "$root/hwt" \
        "$work/source/subprojects/hwt"
    unset PKG_CONFIG_LIBDIR LD_LIBRARY_PATH
    meson setup "$work/build" "$work/source"
    meson test -C "$work/build" --print-errorlogs
}

cd "$MESON_BUILD_ROOT"
install_package
"test_$name"
