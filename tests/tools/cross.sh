#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Builds hwt for another kind of machine and passes the tests there that need no tools.
#
#     sh tests/tools/cross.sh aarch64|i386 [TEST...]
#
#     aarch64    64-bit ARM, emulated by qemu-user
#     i386       32 bits, on the machine's own processor
#     TEST       only these; all but the stress tests by default
#
# Installs a compiler and the emulator; takes the other machine's Check from Debian's
# packages into build/cross-*/root, where they concern nobody. The exit status is 0, 1 if something
# fails, 2 for misuse, or if something cannot be had.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source-path=SCRIPTDIR/../.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

case ${1-} in
aarch64) debian=arm64 triplet=aarch64-linux-gnu ;;
i386) debian=i386 triplet=i386-linux-gnu ;;
--help)
    sed -n '4,14s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
*)
    echo 'tests/tools/cross.sh: for aarch64 or for i386? See --help' >&2
    exit 2
    ;;
esac
machine=$1
shift

build=$root/build/cross-$machine
debs='check libsubunit-dev'

# Of that machine, with lists and a cache of its own: this system stays as it is.
apt_there()
{
    apt-get -qq -o "APT::Architecture=$debian" -o "APT::Architectures=$debian" \
        -o "Dir::State=$build/apt" -o "Dir::State::status=$build/apt/status" \
        -o "Dir::Cache=$build/apt/cache" -o APT::Sandbox::User=root "$@" </dev/null
}

fetch()
{
    mkdir -p "$build/apt/lists/partial" "$build/apt/cache/archives/partial" "$build/packages"
    : >"$build/apt/status"
    # shellcheck disable=SC2086 # names are words
    (cd "$build/packages" && { apt_there update || true; } && apt_there download $debs) >&2 || {
        echo "tests/tools/cross.sh: Debian's packages for $machine could not be had: $debs" >&2
        exit 2
    }
    for package in "$build"/packages/*.deb; do
        dpkg-deb --extract "$package" "$build/root"
    done
}

write_cross_file()
{
    case $machine in
    aarch64)
        wrapper="exe_wrapper = ['qemu-aarch64', '-L', '/usr/aarch64-linux-gnu']"
        needs=true compiler=aarch64-linux-gnu-gcc family=aarch64 compile='' link=''
        ;;
    i386)
        wrapper='' needs=false compiler=i686-linux-gnu-gcc family=x86
        # How GCC 10 and earlier aligned 64-bit atomics concerns nobody here.
        compile="'-Wno-psabi'"
        libraries=/usr/i686-linux-gnu/lib
        link="'-Wl,--dynamic-linker=$libraries/ld-linux.so.2', '-Wl,-rpath,$libraries'"
        ;;
    esac
    cat >"$build/cross.ini" <<END
[binaries]
c = '$compiler'
ar = 'ar'
strip = 'strip'
pkgconfig = 'pkg-config'
pkg-config = 'pkg-config'
$wrapper
[properties]
sys_root = '$build/root'
pkg_config_libdir = '$build/root/usr/lib/$triplet/pkgconfig'
needs_exe_wrapper = $needs
[built-in options]
c_args = [$compile]
c_link_args = [$link]
[host_machine]
system = 'linux'
cpu_family = '$family'
cpu = '$machine'
endian = 'little'
END
}

ensure_packages "$machine"
[ -d "$build/root/usr/include" ] || fetch
write_cross_file
[ -f "$build/meson/build.ninja" ] ||
    meson setup "$build/meson" "$root" --cross-file "$build/cross.ini" --buildtype=debugoptimized \
        -Dtests=enabled -Dperf=disabled -Ddelay=disabled -Dprobes=disabled -Dman=disabled -Dwerror=true \
        -Ddefault_library=both >"$build/setup.log" 2>&1 || { cat "$build/setup.log" >&2 && exit 1; }
ninja -C "$build/meson" >"$build/build.log" || { cat "$build/build.log" && exit 1; }
[ $# -gt 0 ] || set -- --no-suite stress --no-suite consumer --no-suite tools
CK_TIMEOUT_MULTIPLIER=5 meson test -C "$build/meson" --no-rebuild --print-errorlogs \
    --timeout-multiplier 5 "$@" </dev/null
