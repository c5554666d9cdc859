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

# They are alone in hwt/. HWT_DELAY is yes where hwt-delay is built.
public_headers=$(cd "$root/hwt" && printf '%s ' *.h)
packages='hwt hwt-delay'
if [ "${HWT_DELAY-}" != yes ]; then
    public_headers=$(printf '%s' "$public_headers" | sed 's/delay\.h //')
    packages=hwt
fi

fail()
{
    echo "$*" >&2
    exit 1
}

skip()
{
    echo "$*"
    exit 77
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
    [ -f "$prefix/share/licenses/hwt/LICENSE" ] || fail 'the licence is not installed'
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
    [ "$HWT_DEFAULT_LIBRARY" != static ] || skip 'there is no shared library'
    exports hwt "$root/hwt/hwt.map" hwt.h heartbeat.h retry.h
    [ "$HWT_DELAY" != yes ] || exports hwt-delay "$root/hwt/delay/delay.map" delay.h
}

# Nothing that an archive defines gets out of the program or library which has it in itself; so two
# copies in one process do not mix, even if the program exports all that it can.
test_copies()
{
    [ "$HWT_DEFAULT_LIBRARY" = both ] || skip 'there are no two libraries'
    for package in $packages; do
        readelf -sW "$libdir/lib$package.a" |
            awk '$5 == "GLOBAL" && $6 != "HIDDEN" && $7 != "UND"' | grep . &&
            fail "lib$package.a does not hide this"
    done
    # shellcheck disable=SC2046 # flags are words
    $CC -DPLUG -shared -fPIC "$here/copies.c" -o "$work/libplug.so" $(pkg-config --cflags --libs hwt)
    # shellcheck disable=SC2046 # flags are words
    $CC -rdynamic "$here/copies.c" -o "$work/copies" $(pkg-config --cflags hwt) -L"$work" -lplug \
        "$libdir/libhwt.a" -Wl,-rpath-link,"$libdir" $(pkg-config --static --libs-only-other hwt) \
        $(pkg-config --static --libs-only-l hwt | sed 's/-lhwt//')
    LD_LIBRARY_PATH=$work:$libdir "$work/copies"
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

# A macro of time takes no fraction, whatever the compiler is told to ignore.
refuses_fractions()
{
    suffix=$1
    shift
    for expression in 'HWT_SEC(1)' 'HWT_SEC(0.5)' 'HWT_MS(fraction)' 'HWT_US(1.0f)' 'HWT_MIN(1.5L)'; do
        printf '#include <hwt/hwt.h>\nuint64_t f(double fraction);\n' >"$work/fraction.$suffix"
        printf 'uint64_t f(double fraction) { (void)fraction; return %s; }\n' "$expression" \
            >>"$work/fraction.$suffix"
        accepted=no
        # shellcheck disable=SC2046 # flags are words
        ! "$@" -w -fsyntax-only "$work/fraction.$suffix" $(pkg-config --cflags hwt) \
            2>"$work/fraction.log" || accepted=yes
        case $expression,$accepted in
        'HWT_SEC(1),yes' | *.*,no | *fraction*,no) ;;
        *) fail "$expression: accepted: $accepted $(cat "$work/fraction.log")" ;;
        esac
        # In C++ the compiler says how it is to be written.
        [ "$suffix,$accepted" != cpp,no ] || grep -q 'take an integer: ' "$work/fraction.log" ||
            fail "$expression: $(cat "$work/fraction.log")"
    done
}

# What a generator of bindings reads is plain C, without any compiler's own words.
# shellcheck disable=SC2046,SC2086 # flags are words
plain()
{
    mkdir -p "$work/empty"
    for header in stdbool stddef stdint; do
        : >"$work/empty/$header.h"
    done
    echo '#include <hwt/hwt.h>' |
        $CC -std=c99 -E -P -nostdinc -I"$work/empty" $(pkg-config --cflags hwt) -x c - >"$work/plain"
    grep -q 'int hwt_timer_create(' "$work/plain" || fail 'hwt.h cannot be read'
    ! grep -n '__' "$work/plain" || fail 'hwt.h is not plain C'
}

warnings='-pedantic -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Werror'

# shellcheck disable=SC2086 # CC, CXX and warnings may be several words
test_c99()
{
    alone c $CC -std=c99 $warnings
    refuses_fractions c $CC -std=c99
    plain
    build $CC -std=c99 $warnings "$here/c99.c"
    "$work/program"
    for level in -O0 -O2; do
        build $CC -std=c99 $warnings $level -include stdbool.h "$here/units.c"
        "$work/program"
    done
}

# shellcheck disable=SC2086
test_cxx11()
{
    alone cpp $CXX -std=c++11 $warnings -Wold-style-cast
    refuses_fractions cpp $CXX -std=c++11
    build $CXX -std=c++11 $warnings -Wold-style-cast -pthread "$here/cxx11.cpp"
    "$work/program"
    build $CXX -x c++ -std=c++11 $warnings -Wold-style-cast "$here/units.c" -x none
    "$work/program"
}

# shellcheck disable=SC2086
test_cxx17()
{
    alone cpp $CXX -std=c++17 $warnings -Wold-style-cast
    refuses_fractions cpp $CXX -std=c++17
    build $CXX -std=c++17 $warnings -Wold-style-cast -pthread "$here/cxx17.cpp"
    "$work/program"
}

test_ctypes()
{
    [ "$HWT_DEFAULT_LIBRARY" != static ] || skip 'there is no shared library'
    python3 "$here/binding.py" "$libdir/libhwt.so"
}

test_cmake()
{
    cmake -S "$here/cmake" -B "$work/cmake"
    cmake --build "$work/cmake"
    "$work/cmake/consumer"
}

# find_package(), in an installation that was moved; and without pkg-config.
test_cmake_package()
{
    mv "$work/root" "$work/moved"
    PKG_CONFIG_LIBDIR=$work/nowhere cmake -S "$here/cmake-package" -B "$work/cmake" \
        -DCMAKE_PREFIX_PATH="$work/moved$HWT_PREFIX" -DCMAKE_BUILD_TYPE=Debug
    cmake --build "$work/cmake"
    (cd "$work/cmake" && unset LD_LIBRARY_PATH && ctest --output-on-failure)
}

# Two archives of one commit have the same bytes, whatever the time.
test_dist()
{
    git -C "$root" rev-parse HEAD >/dev/null 2>&1 || skip 'this is no checkout of git'
    for number in 1 2; do
        meson dist -C "$MESON_BUILD_ROOT" --no-tests --allow-dirty --formats xztar
        mv "$MESON_BUILD_ROOT"/meson-dist/hwt-*.tar.xz "$work/$number"
    done
    cmp "$work/1" "$work/2"
}

# libhwt-delay and its program find libhwt beside them, where nothing else tells them and the
# installation was moved: a program needs to be told of its own library only.
test_run_path()
{
    [ "$HWT_DEFAULT_LIBRARY" != static ] || skip 'there is no shared library'
    [ "$HWT_DELAY" = yes ] || skip 'there is no libhwt-delay'
    readme_block 2 c >"$work/readme.c"
    (unset LD_LIBRARY_PATH
    package=hwt-delay
    # shellcheck disable=SC2086
    build $CC -pthread "$work/readme.c" -Wl,-rpath,"$libdir"
    cd "$work"
    ./program | grep '^remind order-17$'
    "$prefix/bin/hwt-delay" dump delays >dumped
    mv root moved
    "moved$HWT_PREFIX/bin/hwt-delay" dump delays | cmp - dumped)
}

# README.md's first, second, ... block of this language.
readme_block()
{
    awk -v wanted="$1" -v begin="\`\`\`$2" '$0 == begin { n++; inside = 1; next }
        /^```$/ { inside = 0 }
        inside && n == wanted' "$root/README.md"
}

# Builds and runs a program of README.md; it must say what is expected.
# shellcheck disable=SC2086
readme_program()
{
    readme_block "$1" c >"$work/readme.c"
    grep -q 'int main' "$work/readme.c" || fail "block $1 of README.md is no program"
    build $CC -Wall -Wextra -Werror -pthread "$work/readme.c"
    "$work/program" | grep "$2" || fail "program $1 of README.md does not say: $2"
}

# The programs in README.md are complete and do what they say.
test_readme()
{
    readme_program 1 'idle for too long'
    if [ "$HWT_DELAY" = yes ]; then
        package=hwt-delay
        (cd "$work" && readme_program 2 '^remind order-17$')
    fi
}

# The example at the head of delay.h, as it stands but for the directory: it does what it says; and it
# gets on where the store cannot be opened, and where nothing is due.
# shellcheck disable=SC2086
test_delay_usage()
{
    package=hwt-delay
    sed -n '/^ \* USAGE$/,/^ \* PROMISES$/s/^ \*     //p' "$prefix/include/hwt/delay.h" \
        >"$work/usage"
    grep -q '"/var/lib/shop/delays"' "$work/usage" || fail 'delay.h has no example'
    sed 's|"/var/lib/shop/delays"|directory|' "$work/usage" >"$work/usage.inc"
    build $CC -std=gnu11 -g -Wall -Wextra -Wconversion -Wshadow -Werror -I"$work" "$here/usage.c"
    [ "$("$work/program" "$work/delays")" = 'remind order-17' ] || fail 'the example does nothing'
    ! "$work/program" "$work/nowhere/delays" 2>"$work/errors" || fail 'no store, and no failure'
    grep -q '^it fails: ' "$work/errors" || fail 'the example ends without a word'
    sed 's/HWT_SEC(10)/HWT_MS(10)/' "$work/usage.inc" >"$work/late" && mv "$work/late" "$work/usage.inc"
    build $CC -std=gnu11 -g -I"$work" "$here/usage.c"
    [ -z "$("$work/program" "$work/delays")" ] || fail 'the message is early'
}

# shellcheck disable=SC2086
test_delay_cxx17()
{
    package=hwt-delay
    build $CXX -std=c++17 $warnings -Wold-style-cast "$here/delay17.cpp"
    "$work/program" "$work/delays"
}

# shellcheck disable=SC2086
test_delay_ctypes()
{
    [ "$HWT_DEFAULT_LIBRARY" != static ] || skip 'there is no shared library'
    python3 "$here/binding_delay.py" "$libdir/libhwt-delay.so" "$work/delays"
    package=hwt-delay
    python3 "$here/binding_delay.py" --layout >"$work/layout.c"
    build $CC -std=c11 "$work/layout.c"
    sed 's/, lease) == 16/, lease) == 24/' "$work/layout.c" >"$work/other.c"
    ! build $CC -std=c11 "$work/other.c" 2>"$work/errors" || fail 'another layout is compiled, too'
}

# What README.md says to copy and paste, in a checkout that has nothing but what is built and installed.
test_plain_build()
{
    mkdir -p "$work/checkout/tests"
    cp -R "$root/meson.build" "$root/meson_options.txt" "$root/LICENSE" "$root/hwt" "$work/checkout"
    cp -R "$root/tests/recipes" "$root/tests/loops" "$work/checkout/tests"
    cd "$work/checkout"
    readme_block 1 c >first.c
    readme_block 1 sh >commands
    [ -s commands ] || fail 'README.md has no commands'
    unset PKG_CONFIG_LIBDIR LD_LIBRARY_PATH
    sh -eu commands | tee output
    grep -q '^peer 1 was idle for too long$' output || fail 'the program does not say what it should'
    # Who has no tests is told so, by the summary and by the command that runs them.
    grep -q 'tests *: no: -Dtests=enabled' output || fail 'the summary does not say that there are no tests'
    meson test -C build/hwt >tested 2>&1 || fail "$(cat tested)"
    grep -q 'not built, for want of -Dtests=enabled' tested || fail "$(cat tested)"
}

# sanitized FLAG SOURCE: a program with a sanitizer, on the library without one; skipped where the
# compiler has none, or where it does not run.
# shellcheck disable=SC2086
sanitized()
{
    echo 'int main(void) { return 0; }' >"$work/nothing.c"
    if ! $CC "-fsanitize=$1" "$work/nothing.c" -o "$work/nothing" || ! "$work/nothing"; then
        echo "no $1 sanitizer here"
        exit 77
    fi
    build $CC -g -O1 "-fsanitize=$1" -pthread "$here/$2"
}

# The suppressions leave nothing of a program without a race.
test_tsan()
{
    sanitized thread raced.c
    export TSAN_OPTIONS="suppressions=$prefix/share/hwt/tsan.supp"
    "$work/program"
}

valgrind_tool()
{
    command -v valgrind >/dev/null || { echo 'valgrind is not installed' && exit 77; }
    # Valgrind up to 3.19 cannot read what clang writes by default.
    # shellcheck disable=SC2086
    build $CC -gdwarf-4 -O1 -pthread "$here/raced.c"
    valgrind --tool="$1" --fair-sched=yes --error-exitcode=9 \
        --suppressions="$prefix/share/hwt/valgrind.supp" "$work/program"
}

test_helgrind()
{
    valgrind_tool helgrind
}

test_drd()
{
    valgrind_tool drd
}

# gdb's command shows what is pending, and says what it cannot do.
test_gdb()
{
    command -v gdb >/dev/null || { echo 'gdb is not installed' && exit 77; }
    gdb -batch -ex run --args true 2>&1 | grep -q 'exited normally' ||
        { echo 'gdb cannot trace here' && exit 77; }
    # shellcheck disable=SC2086 # CC may be several words
    build $CC -g -O0 "$here/shown.c"
    gdb -q -batch -ex "source $prefix/share/hwt/hwt-gdb.py" -ex 'break reached' -ex run \
        -ex 'hwt-timer timer 3' -ex 'echo and\n' -ex 'hwt-timer' -ex 'hwt-timer (hwt_timer *)0' \
        -ex kill "$work/program" >"$work/shown" 2>&1 </dev/null
    cat "$work/shown"
    for line in '^runs; ticks of 0.1 s, [0-9]* handled' '^203 pending\|, 203 pending' \
        '^[0-9]* filed in [0-9]* buckets, [0-9]* at most in one; [0-9]* hints' \
        '^  in 1[78][0-9][0-9]\.[0-9]* s: other_task, arg 0x' \
        '^  in 2[34][0-9][0-9]\.[0-9]* s: first_task, arg 0x0' \
        '^  and 200 more' 'which timer' 'the timer is NULL'; do
        grep -q "$line" "$work/shown" || fail "gdb did not show: $line"
    done
}

# LeakSanitizer knows what pending timeouts lead to.
test_leaks()
{
    sanitized leak leaks.c
    "$work/program"
    status=0
    "$work/program" lose >"$work/leaks" 2>&1 || status=$?
    if [ "$status" -eq 0 ] || ! grep -q 'Direct leak of' "$work/leaks"; then
        fail "a leak was not found: $(cat "$work/leaks")"
    fi
}

# variant COMPILER FLAGS [option of meson setup...]: the library alone, built by this compiler in this
# way; then programs with it and these flags, shared and wholly static. Skipped where it compiles
# nothing.
# shellcheck disable=SC2046,SC2086 # a compiler and flags may be words
variant()
{
    compiler=$1
    flags=$2
    shift 2
    echo 'int main(void) { return 0; }' >"$work/nothing.c"
    if ! $compiler "$work/nothing.c" -o "$work/nothing" || ! "$work/nothing"; then
        echo "$compiler compiles no program that runs here"
        exit 77
    fi
    unset PKG_CONFIG_LIBDIR LD_LIBRARY_PATH
    CC=$compiler meson setup "$work/build" "$root" -Dcore_only=true -Dwerror=true --libdir=lib \
        --prefix="$work/variant" "$@"
    meson install -C "$work/build"
    PKG_CONFIG_LIBDIR=$work/variant/lib/pkgconfig
    export PKG_CONFIG_LIBDIR
    package=hwt
    for program in c99 raced; do
        build $compiler $flags -pthread "$here/$program.c" -Wl,-rpath,"$work/variant/lib"
        "$work/program"
        $compiler $flags -static -pthread "$here/$program.c" -o "$work/program" \
            $(pkg-config --cflags hwt) "$work/variant/lib/libhwt.a" \
            $(pkg-config --static --libs-only-l hwt | sed 's/-lhwt//')
        "$work/program"
    done
}

test_musl()
{
    variant musl-gcc '' -Dprobes=disabled
}

test_m32()
{
    variant "$CC -m32" '' -Dprobes=disabled
}

test_lto()
{
    variant gcc '-O3 -flto' -Db_lto=true -Dbuildtype=release
}

# Whether the other libraries that a command asks for are here. libev has no pkg-config file.
has_libraries()
{
    case $1 in
    *' -lev'*) echo '#include <ev.h>' | $CC -E -x c - >"$work/has_ev" 2>&1 || return 1 ;;
    esac
    # shellcheck disable=SC2046 # names are words
    pkg-config --exists $(echo "$1" | sed 's/.*--libs \([^)]*\)).*/\1/')
}

# How a program that is to be copied is compiled, by its own comment.
command_of()
{
    sed -n "s|.*: \(cc .*${1##*/} .*)\( -l[a-z0-9]*\)\{0,1\}\).*|\1|p" "$1"
}

# Each program that is to be copied, by the very command in its comment, held to what newer
# compilers refuse; and as strict C, for it says itself what it needs of the system.
test_recipes()
{
    export PKG_CONFIG_PATH="$work/pkgconfig"
    unset PKG_CONFIG_LIBDIR
    mkdir "$work/folder"
    cp "$root"/tests/recipes/*.c "$root"/tests/loops/*.[ch] "$work/folder"
    cd "$work/folder"
    for source in *.c; do
        command=$(command_of "$source")
        [ -n "$command" ] || fail "$source does not say how it is compiled"
        if ! has_libraries "$command"; then
            echo "$source: its libraries are not here"
            continue
        fi
        for flags in '' '-std=c99' '-std=c11'; do
            rm -f a.out
            eval "$CC -Wall -Wextra -Werror $flags ${command#cc}" || fail "$source: $flags $command"
        done
    done
}

# They are all installed. Copied elsewhere, they are built by their own Makefile, and one is run. The
# Makefile leaves out only those whose libraries are not here.
test_examples()
{
    command -v make >"$work/make" || skip 'needs make'
    cp -R "$prefix/share/doc/hwt/examples" "$work/elsewhere"
    for source in "$root"/tests/recipes/*.c "$root"/tests/loops/*.[ch]; do
        example=$work/elsewhere/${source##*/}
        [ "$HWT_DELAY" = yes ] || ! grep -q 'hwt/delay\.h' "$source" || continue
        cmp "$source" "$example"
    done
    [ "$HWT_DELAY" != yes ] || cmp "$root/tests/recipes/hwt_delay.py" "$work/elsewhere/hwt_delay.py"
    if PKG_CONFIG_LIBDIR=$work make -C "$work/elsewhere" CC="$CC" >"$work/made" 2>&1; then
        fail 'make is content without hwt'
    fi
    grep -q 'PKG_CONFIG_PATH=PREFIX' "$work/made" || fail "$(cat "$work/made")"
    unset PKG_CONFIG_LIBDIR LD_LIBRARY_PATH
    make -C "$work/elsewhere" CC="$CC" PKG_CONFIG_PATH="$work/pkgconfig" CFLAGS='-Wall -Wextra -Werror' \
        >"$work/made" || fail "$(cat "$work/made")"
    export PKG_CONFIG_PATH="$work/pkgconfig"
    for source in "$work"/elsewhere/*.c; do
        [ -x "${source%.c}" ] || ! has_libraries "$(command_of "$source")" || fail "$source was not built"
    done
    "$work/elsewhere/sessions"
    make -C "$work/elsewhere" clean >>"$work/made"
    [ ! -e "$work/elsewhere/sessions" ] || fail 'make clean leaves programs'
}

# The tests of the API need nothing but what is installed; meson runs them. But for those that
# refuse what the library asks of the system: they are linked to do so.
# shellcheck disable=SC2046,SC2086
test_api()
{
    for source in "$root"/tests/api/*.c; do
        ! grep -q '__real_' "$source" || continue
        $CC -std=c11 -D_GNU_SOURCE -pthread -I"$root/tests/support" "$source" -o "$work/program" \
            $(pkg-config --cflags --libs hwt) \
            $(unset PKG_CONFIG_LIBDIR; pkg-config --cflags --libs check)
    done
}

test_subproject()
{
    mkdir -p "$work/source/subprojects/hwt"
    cp "$here/subproject/meson.build" "$here/c99.c" "$work/source"
    cp -R "$root/meson.build" "$root/meson_options.txt" "$root/LICENSE" "$root/hwt" \
        "$work/source/subprojects/hwt"
    unset PKG_CONFIG_LIBDIR LD_LIBRARY_PATH
    meson setup "$work/build" "$work/source"
    meson test -C "$work/build" --print-errorlogs
    ninja -C "$work/build" -t targets all >"$work/targets"
    grep -q '^subprojects/hwt/hwt/libhwt' "$work/targets" || fail "$(cat "$work/targets")"
    ! grep -E 'delay|relay|\.[1-7]:' "$work/targets" || fail 'more than libhwt is built'
}

cd "$MESON_BUILD_ROOT"
install_package
"test_$name"
