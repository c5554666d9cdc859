#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Makes packages for Arch Linux of the present commit from tests/tools/package/arch/, and uses them in a
# fresh root as tests/tools/deb.sh does: installs them, compiles and runs README's programs, runs hwt-relay
# beside a server, removes them, and looks that nothing is left.
#
#     sh tests/tools/arch.sh
#
# It runs on Debian, with Debian's makepkg and pacman, and the root is one of Debian, whose names the packages'
# dependencies are not: they are left out of account. Installs what it needs, writes to build/arch. The root is
# kept as build/fresh-root.tar: remove that to have a new one. Needs root. The exit status is 0, 1 if
# anything is wrong, 2 for misuse, or if something has to be installed by hand.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source-path=SCRIPTDIR/../.. source=tests/tools/package/root.sh
. "$root/tests/tools/package/root.sh"
begin "$@"

# makepkg does not run as root, so it works in a folder of nobody's. Libraries are where Debian's linker looks.
build_packages()
{
    libdir=/usr/lib/$(${CC:-cc} -print-multiarch)
    work=$(mktemp -d)
    cp "$archive" "$work"
    sed -e "s/@version@/$version/" -e "s,@libdir@,$libdir," -e "s/@maintainer@/$(git -C "$root" log -1 --format='%an <%ae>')/" \
        -e "s/@sha256@/$(sha256sum "$archive" | cut -d ' ' -f 1)/" \
        "$root/tests/tools/package/arch/PKGBUILD.in" >"$work/PKGBUILD"
    chown -R nobody "$work"
    status=0
    (cd "$work" && setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME="$work" CCACHE_DISABLE=1 \
        makepkg --nodeps --noconfirm) >"$build/build.log" 2>&1 || status=$?
    rm -f "$build"/*.pkg.tar*
    find "$work" -maxdepth 1 -name '*.pkg.tar*' ! -name '*-debug-*' -exec cp {} "$build" \;
    rm -rf "$work"
    [ "$status" -eq 0 ] || {
        tail -n 40 "$build/build.log" >&2
        fail 'the packages cannot be built'
    }
    # That dependencies are not looked at is asked for.
    ! grep 'WARNING' "$build/build.log" | grep -v 'Skipping dependency checks' || fail 'makepkg complains'
}

pacman_in_root()
{
    pacman --root "$fresh" --dbpath "$fresh/var/lib/pacman" --config "$build/pacman.conf" --noconfirm "$@"
}

ensure_packages scdoc mandoc sdt isal libbsd nats mmdebstrap arch systemd
make_archive
build_packages
make_root
printf '[options]\nArchitecture = auto\nSigLevel = Never\n' >"$build/pacman.conf"
mkdir -p "$fresh/var/lib/pacman" "$fresh/var/cache/pacman"
files >"$build/before"
pacman_in_root -U -dd "$build"/*.pkg.tar* >"$build/install.log" 2>&1 || {
    cat "$build/install.log" >&2
    fail 'the packages cannot be installed'
}
in_root ldconfig
pacman_in_root -Qkk >"$build/check.log" 2>&1 || {
    cat "$build/check.log" >&2
    fail 'what is installed is not what was packaged'
}
use_all
pacman_in_root -R hwt-docs hwt-relay hwt >>"$build/install.log" 2>&1 ||
    fail "the packages cannot be removed, see $build/install.log"
end
echo 'the packages are built, clean, of use and removable'
