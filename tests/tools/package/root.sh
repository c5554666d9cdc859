# shellcheck shell=sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# To be sourced, with the root of the checkout in $root. Makes the archive of the present commit, and a fresh
# root in which it, or packages of it, are used as a stranger uses them.

# shellcheck source-path=SCRIPTDIR/../../.. source=tests/tools/packages.sh
. "${root:?}/tests/tools/packages.sh"

script=tests/tools/${0##*/}
build=$root/build/$(basename "$0" .sh)
fresh=$build/root

fail()
{
    echo "$script: $*" >&2
    exit 1
}

# begin ["$@"]: answers --help by what the calling script says at its head, and refuses what cannot work.
begin()
{
    case ${1-} in
    '') ;;
    --help)
        sed -n '4,/^$/s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *)
        echo "$script: unknown option $1; see --help" >&2
        exit 2
        ;;
    esac
    if [ "$(id -u)" -ne 0 ]; then
        echo "$script: a root to install packages in needs root: run it as root, or by sudo" >&2
        exit 2
    fi
    mkdir -p "$build"
}

# Leaves the archive in $archive, and its version in $version.
make_archive()
{
    rm -rf "$build/setup"
    meson setup "$build/setup" "$root" -Dman=disabled -Ddelay=disabled >"$build/setup.log"
    meson dist -C "$build/setup" --no-tests --allow-dirty --formats xztar >"$build/dist.log" 2>&1 ||
        { cat "$build/dist.log" >&2 && exit 1; }
    version=$(sed -n "s/^ *version: '\(.*\)',/\1/p" "$root/meson.build" | head -n 1)
    # shellcheck disable=SC2034 # for who sources this
    archive=$build/setup/meson-dist/hwt-$version.tar.xz
}

# By mmdebstrap from the mirror of this system, with the packages of $more beside those with which programs are
# compiled and hwt-relay runs. Without $more it is kept in build/fresh-root.tar, else beside that.
make_root()
{
    kept=$root/build/fresh-root${more:+-$more}.tar
    if [ ! -f "$kept" ]; then
        # shellcheck source=/dev/null
        release=$(. /etc/os-release && echo "$VERSION_CODENAME")
        mmdebstrap --variant=minbase --format=tar --quiet \
            --include=gcc,libc6-dev,pkg-config,libisal-dev,liburcu-dev,libnats-dev,librdkafka-dev,nats-server"${more:+,$more}" \
            "$release" "$kept.new" && mv "$kept.new" "$kept"
    fi
    rm -rf --one-file-system "$fresh"
    mkdir "$fresh"
    tar -xf "$kept" -C "$fresh" --exclude='./dev/*'
    # A file where the machine does not let one make a device.
    { mknod -m 666 "$fresh/dev/null" c 1 3 && : >"$fresh/dev/null"; } 2>"$build/device.log" ||
        { rm -f "$fresh/dev/null" && : >"$fresh/dev/null"; }
}

# All files of the root but those that package managers write, and what is compiled there.
files()
{
    (cd "$fresh" && find . -path ./var/lib/dpkg -prune -o -path ./var/lib/rpm -prune -o \
        -path ./var/lib/pacman -prune -o \
        -path ./var/log -prune -o -path ./var/cache -prune -o -path ./etc/ld.so.cache -prune -o \
        -path ./tmp -prune -o -print | sort)
}

in_root()
{
    chroot "$fresh" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"
}

# README.md's n-th program in C.
program()
{
    awk -v wanted="$1" '$0 == "```c" { n++; inside = 1; next } /^```$/ { inside = 0 }
        inside && n == wanted' "$root/README.md"
}

# use PACKAGE SOURCE EXPECTED [-static]
use()
{
    # shellcheck disable=SC2016 # the inner shell expands them
    in_root sh -euc '
        cd /tmp
        cc "$2" -o program $4 $(pkg-config ${4:+--static} --cflags --libs "$1") -Wall -Werror
        ./program | grep "$3"' sh "$1" "$2" "$3" "${4-}" || fail "$2 of README.md does not run with the packages"
}

# hwt-delay looks into the store of README.md's program, and hwt-relay works beside a server.
use_tools()
{
    in_root hwt-delay stat /tmp/delays
    mkdir "$fresh/tmp/relay"
    cp "$root"/tests/relay/*.sh "$fresh/tmp/relay"
    in_root sh -euc 'cd /tmp && RELAY=hwt-relay DELAY=hwt-delay sh /tmp/relay/program.sh' ||
        fail 'hwt-relay does not run where it is installed'
}

# systemd finds the unit, accepts it, and finds the program that it starts.
use_unit()
{
    unit=hwt-relay@shop.service
    if ! {
        systemctl --root="$fresh" enable "$unit" &&
            systemd-analyze --root="$fresh" --recursive-errors=no verify --man=no "$unit" &&
            systemctl --root="$fresh" disable "$unit"
    } >"$build/unit.log" 2>&1; then
        cat "$build/unit.log" >&2
        fail 'systemd does not accept the unit'
    fi
}

# README.md's programs, the two programs that are installed, the unit, and the manual pages.
use_all()
{
    program 1 >"$fresh/tmp/first.c"
    program 2 >"$fresh/tmp/delay.c"
    use hwt first.c '^peer 1 was idle for too long$'
    use hwt first.c '^peer 1 was idle for too long$' -static
    # Debian has no static ISA-L.
    use hwt-delay delay.c '^remind order-17$'
    use_tools
    use_unit
    for page in man7/hwt.7 man3/hwt_timer_create.3 man1/hwt-delay.1 man1/hwt-relay.1; do
        [ -f "$fresh/usr/share/man/$page.gz" ] || fail "there is no $page.gz"
    done
}

# Nothing is left but what was listed before; then the root goes.
end()
{
    files | diff "$build/before" - || fail 'something is left behind'
    rm -rf --one-file-system "$fresh"
}
