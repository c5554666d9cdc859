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

public_headers='hwt.h heartbeat.h retry.h'
packages=hwt
# HWT_DELAY is yes where hwt-delay is built.
if [ "$HWT_DELAY" = yes ]; then
    public_headers="$public_headers delay.h"
    packages='hwt hwt-delay'
fi

fail()
{
    echo "$*" >&2
    exit 1
}

# A prefix below the work folder, with this project's packages alone in pkg-config's search path.
install_package()
{
    rm -rf "$work"
    mkdir -p "$work/pkgconfig"
    DESTDIR=$work/root meson install -C "$MESON_BUILD_ROOT" --no-rebuild --quiet
    prefix=$work/root$HWT_PREFIX
    libdir=$prefix/$HWT_LIBDIR
    for package in $packages; do
        sed "s|^prefix=.*|prefix=$prefix|" "$libdir/pkgconfig/$package.pc" \
            >"$work/pkgconfig/$package.pc"
    done
    PKG_CONFIG_LIBDIR=$work/pkgconfig
    LD_LIBRARY_PATH=$libdir
    export PKG_CONFIG_LIBDIR LD_LIBRARY_PATH
    unset PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
}

# The compiler and the flags, then what is to be compiled, to $work/program; with $package.
package=hwt
build()
{
    # shellcheck disable=SC2046 # flags are words
    "$@" -o "$work/program" $(pkg-config --cflags --libs "$package")
}

# The shared library of a package, and its name for the linker.
check_shared()
{
    version=$(pkg-config --modversion "$1")
    [ -f "$libdir/lib$1.so.$version" ] || fail "no lib$1.so.$version"
    readelf -d "$libdir/lib$1.so" | grep -q "SONAME.*\[lib$1\.so\.[0-9]*\]" ||
        fail "the SONAME is not lib$1.so.N"
}

# Exactly this in the package, and nothing of liburcu needed to use it.
test_files()
{
    headers=$(cd "$prefix/include" && find . -type f | sort)
    # shellcheck disable=SC2086 # names of files are words
    [ "$headers" = "$(printf './hwt/%s\n' $public_headers | sort)" ] ||
        fail "installed headers: $headers"
    pkg-config --print-requires --print-requires-private hwt | grep . &&
        fail 'hwt.pc requires another package'
    if [ "$HWT_DEFAULT_LIBRARY" != static ]; then
        for package in $packages; do
            check_shared "$package"
        done
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

# exports PACKAGE MAP HEADER...: the headers, the version script and the shared library name the
# same functions. HWT_PUBLIC itself is defined in one of the headers, in two lines.
exports()
{
    library=$libdir/lib$1.so
    map=$2
    shift 2
    (cd "$prefix/include/hwt" && cat "$@") >"$work/headers"
    sed -n 's/^HWT_PUBLIC .*[ *]\(hwt_[a-z_]*\)(.*/\1/p' "$work/headers" | sort >"$work/header"
    sed -n 's/^ *\(hwt_[a-z_]*\);$/\1/p' "$map" | sort >"$work/map"
    nm -D --defined-only "$library" |
        awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$work/library"
    [ -s "$work/header" ] || fail 'found no function in the headers'
    diff "$work/header" "$work/map"
    diff "$work/header" "$work/library"
    [ "$(grep -v '^#' "$work/headers" | grep -c HWT_PUBLIC)" -eq "$(wc -l <"$work/header")" ] ||
        fail 'a function was overlooked'
}

test_exports()
{
    [ "$HWT_DEFAULT_LIBRARY" != static ] || exit 77
    exports hwt "$root/hwt/hwt.map" hwt.h heartbeat.h retry.h
    [ "$HWT_DELAY" != yes ] || exports hwt-delay "$root/hwt/delay/delay.map" delay.h
}

# Each header alone, and twice, with this compiler for a source of this suffix.
alone()
{
    suffix=$1
    shift
    for header in $public_headers; do
        printf '#include <hwt/%s>\n#include <hwt/%s>\n' "$header" "$header" \
            >"$work/alone.$suffix"
        # shellcheck disable=SC2046 # flags are words
        "$@" -c "$work/alone.$suffix" -o "$work/alone.o" $(pkg-config --cflags hwt)
    done
}

# shellcheck disable=SC2086 # CC and CXX may be several words
test_c99()
{
    alone c $CC -std=c99 -pedantic -Wall -Wextra -Werror
    build $CC -std=c99 -pedantic -Wall -Wextra -Werror "$here/c99.c"
    "$work/program"
}

# shellcheck disable=SC2086
test_cxx11()
{
    alone cpp $CXX -std=c++11 -pedantic -Wall -Wextra -Werror
    build $CXX -std=c++11 -pedantic -Wall -Wextra -Werror -pthread "$here/cxx11.cpp"
    "$work/program"
}

test_cmake()
{
    cmake -S "$here/cmake" -B "$work/cmake"
    cmake --build "$work/cmake"
    "$work/cmake/consumer"
}

# README.md's first, second, ... block of C.
readme_block()
{
    awk -v wanted="$1" '/^```c$/ { n++; inside = 1; next } /^```$/ { inside = 0 }
                        inside && n == wanted' "$root/README.md"
}

# Builds and runs a program of README.md; it must say what is expected.
# shellcheck disable=SC2086
readme_program()
{
    readme_block "$1" >"$work/readme.c"
    grep -q 'int main' "$work/readme.c" || fail "block $1 of README.md is no program"
    build $CC -Wall -Wextra -Werror -pthread "$work/readme.c"
    "$work/program" | grep "$2" || fail "program $1 of README.md does not say: $2"
}

# The programs in README.md are complete and do what they say; its lines for an event loop are
# those of the program they are said to be from.
test_readme()
{
    readme_program 1 'idle for too long'
    readme_program 2 '^100 done'
    lines=$(readme_block 3)
    [ -n "$lines" ] || fail 'README.md has no third block'
    if [ "$HWT_DELAY" = yes ]; then
        package=hwt-delay
        (cd "$work" && readme_program 4 '^remind order-17$')
    fi
    case $(sed 's/^    //' "$root/tests/loops/loop_epoll.c") in
    *"$lines"*) ;;
    *) fail 'block 3 of README.md is not in tests/loops/loop_epoll.c' ;;
    esac
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
