#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Does literally what README.md says, in a fresh root: builds the archive of the present commit there and
# installs it below /usr/local, compiles and runs README's programs by cc, meson and CMake, the examples by
# their Makefile, starts hwt-delay and hwt-relay, takes all away again, and looks that nothing is left.
#
#     sh tests/tools/local.sh
#
# Installs what it needs, writes to build/local. The root is made by mmdebstrap from the mirror of this
# system, and kept as build/fresh-root-*.tar: remove that to have a new one. Needs root. The exit status is
# 0, 1 if anything is wrong, 2 for misuse, or if something has to be installed by hand.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source-path=SCRIPTDIR/../.. source=tests/tools/package/root.sh
. "$root/tests/tools/package/root.sh"
begin "$@"

# README.md's indented block that has this in it.
block()
{
    awk -v RS= -v wanted="$1" 'index($0, "    ") == 1 && index($0, wanted)' "$root/README.md" | sed 's/^    //'
}

# in_folder FOLDER NAME COMMANDS: as one types them there, one after the other.
in_folder()
{
    [ -n "$3" ] || fail "README.md does not say: $2"
    printf 'cd %s\n%s\n' "$1" "$3" >"$fresh/tmp/commands"
    in_root sh -eu /tmp/commands >"$build/$2.log" 2>&1 || {
        cat "$build/$2.log" >&2
        fail "$2 does not work as README.md says it"
    }
}

# What $2 said last has the line $1.
said()
{
    grep -q "^$1\$" "$build/$2.log" || { cat "$build/$2.log" >&2 && fail "$2 does not say $1"; }
}

idle='peer 1 was idle for too long'

# shellcheck disable=SC2016 # as README.md has it
use_cc()
{
    in_folder /tmp/first cc "$(block 'cc program.c $(pkg-config --cflags --libs hwt)')
./a.out"
    said "$idle" cc
    in_folder /tmp/delay delay "$(block 'cc program.c $(pkg-config --cflags --libs hwt-delay)')"
    said 'remind order-17' delay
}

use_meson()
{
    { echo "project('program', 'c')" && block "dependency('hwt'"; } >"$fresh/tmp/first/meson.build"
    in_folder /tmp/first meson 'meson setup build
ninja -C build
build/program'
    said "$idle" meson
}

# cmake FOLDER TARGET SAYS [VERSION]: README.md's lines, with another target or version.
use_cmake()
{
    lines=$(block 'find_package(hwt ')
    printf 'cmake_minimum_required(VERSION 3.16)\nproject(program C)\nadd_executable(program program.c)\n%s\n' \
        "$(echo "$lines" | sed -e "s/hwt::hwt/hwt::$2/" -e "s/(hwt [0-9.]*/(hwt ${4:-0.3}/")" \
        >"$fresh/tmp/$1/CMakeLists.txt"
    rm -rf "$fresh/tmp/$1/by-cmake" "$fresh/tmp/$1/delays"
    in_folder "/tmp/$1" cmake "${lines:+cmake -B by-cmake
cmake --build by-cmake
by-cmake/program}"
    said "$3" cmake
}

# refuses VERSION: it is of another series, or later.
refuses()
{
    ! (use_cmake first hwt "$idle" "$1") >"$build/refused.log" 2>&1 || fail "find_package(hwt $1) takes hwt $version"
    grep -q "version: $version" "$build/cmake.log" || fail "find_package(hwt $1): $(cat "$build/cmake.log")"
}

use_examples()
{
    in_folder /tmp examples 'cp -R /usr/local/share/doc/hwt/examples .
make -C examples
examples/sessions'
    for program in keepalive loop_epoll delay_epoll jobs; do
        [ -x "$fresh/tmp/examples/$program" ] || fail "make builds no $program"
    done
}

ensure_packages mmdebstrap
make_archive
more=cmake,libbsd-dev,make,meson,scdoc
make_root
[ -c "$fresh/dev/null" ] || { echo "$script: a device /dev/null cannot be made here" >&2 && exit 2; }
# Python's own files are not of hwt.
files >"$build/before"
tar -xf "$archive" -C "$fresh/tmp"
folder=/tmp/hwt-$version
in_folder "$folder" install "$(block 'meson install')"
mkdir "$fresh/tmp/first" "$fresh/tmp/delay"
program 1 >"$fresh/tmp/first/program.c"
program 2 >"$fresh/tmp/delay/program.c"
use_cc
use_meson
for target in hwt static; do
    use_cmake first "$target" "$idle"
done
use_cmake first hwt "$idle" 0.3.0...0.4
use_cmake delay delay 'remind order-17'
for other in 0.2 0.3.9 0.9 1; do
    refuses "$other"
done
cp -R "$fresh/tmp/delay/delays" "$fresh/tmp"
use_tools
use_examples
for page in man7/hwt.7 man3/hwt_timer_create.3 man1/hwt-delay.1 man1/hwt-relay.1; do
    [ -f "$fresh/usr/local/share/man/$page" ] || fail "there is no $page"
done
in_folder "$folder" uninstall "$(block ' uninstall')"
end
echo 'what README.md says is true below /usr/local'
