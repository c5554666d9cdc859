#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Makes Debian packages of the present commit from tests/tools/package/debian/, holds them to lintian,
# and uses them in a fresh root as a stranger does: installs them, compiles and runs README's programs,
# shared and static, runs hwt-relay beside a server, removes them, and looks that nothing is left.
#
#     sh tests/tools/deb.sh
#
# The maintainer is $DEBFULLNAME <$DEBEMAIL>, or the commit's author. Installs what it needs, writes to
# build/deb. The fresh root is made by mmdebstrap from the mirror of this system, and kept as
# build/fresh-root.tar: remove that to have a new one. Needs root. The exit status is 0, 1 if anything
# is wrong, 2 for misuse, or if something has to be installed by hand.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source-path=SCRIPTDIR/../.. source=tests/tools/package/root.sh
. "$root/tests/tools/package/root.sh"
begin "$@"

# The source package: the commit's archive, with debian/ from the template.
unpack_source()
{
    rm -rf "$build/source"
    mkdir -p "$build/source"
    cp "$archive" "$build/source/hwt_$version.orig.tar.xz"
    tar -xJf "$archive" -C "$build/source"
    cp -R "$root/tests/tools/package/debian" "$build/source/hwt-$version"
    cd "$build/source/hwt-$version"
    chmod +x debian/rules
    mkdir debian/source
    echo '3.0 (quilt)' >debian/source/format
    maintainer=$(git -C "$root" log -1 --format='%an <%ae>')
    [ -z "${DEBEMAIL-}" ] || maintainer="${DEBFULLNAME:-$DEBEMAIL} <$DEBEMAIL>"
    sed -i "s|@maintainer@|$maintainer|" debian/control debian/changelog.in
    sed -e "s/@version@/$version/" -e "s/@date@/$(git -C "$root" log -1 --format=%cD)/" \
        debian/changelog.in >debian/changelog
    rm debian/changelog.in
}

build_packages()
{
    DEB_BUILD_OPTIONS=nocheck dpkg-buildpackage -us -uc >"$build/build.log" 2>&1 || {
        tail -n 40 "$build/build.log" >&2
        fail 'the packages cannot be built'
    }
    # There is no bug of Debian's that this would close.
    lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs \
        "$build"/source/*.changes || fail 'lintian complains'
}

ensure_packages scdoc mandoc sdt isal libbsd nats kafka mmdebstrap debian systemd
make_archive
unpack_source
build_packages
make_root
files >"$build/before"
mkdir "$fresh/tmp/packages"
find "$build/source" -name '*.deb' ! -name '*-dbgsym_*' -exec cp {} "$fresh/tmp/packages" \;
in_root sh -euc 'dpkg -i /tmp/packages/*.deb' >"$build/install.log" 2>&1 || {
    cat "$build/install.log" >&2
    fail 'the packages cannot be installed'
}
use_all
in_root dpkg --purge libhwt-dev hwt-tools hwt-relay hwt-doc libhwt-delay1 libhwt1 >>"$build/install.log" 2>&1 ||
    fail "the packages cannot be removed, see $build/install.log"
end
echo 'the packages are built, clean, of use and removable'
