#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Makes RPM packages of the present commit from tests/tools/package/rpm/, holds them to rpmlint, and
# uses them in a fresh root as tests/tools/deb.sh does: installs them, compiles and runs README's programs,
# shared and static, runs hwt-relay beside a server, removes them, and looks that nothing is left.
#
#     sh tests/tools/rpm.sh
#
# It runs on Debian, and the root is one of Debian: RPM's database does not know what is there, so this
# script looks that the packages ask for nothing but libraries that the root has, and each other. Installs
# what it needs, writes to build/rpm. The root is kept as build/fresh-root.tar: remove that to have a new
# one. Needs root. The exit status is 0, 1 if anything is wrong, 2 for misuse, or if something has to be
# installed by hand.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source-path=SCRIPTDIR/../.. source=tests/tools/package/root.sh
. "$root/tests/tools/package/root.sh"
begin "$@"

# Libraries where Debian's linker looks for them. The host's RPM knows of no package, and not by itself that
# pages are compressed and symbols stripped.
build_packages()
{
    rm -rf "$build/top"
    mkdir -p "$build/top/SOURCES"
    cp "$archive" "$build/top/SOURCES"
    libdir=/usr/lib/$(${CC:-cc} -print-multiarch)
    sed -e "s/@version@/$version/" -e "s/@date@/$(LC_ALL=C date -u -d "@$(git -C "$root" log -1 --format=%ct)" '+%a %b %d %Y')/" \
        -e "s/@maintainer@/$(git -C "$root" log -1 --format='%an <%ae>')/" \
        "$root/tests/tools/package/rpm/hwt.spec.in" >"$build/hwt.spec"
    tools=/usr/lib/rpm
    rpmbuild -ba --nodeps --define "_topdir $build/top" --define "_libdir $libdir" \
        --define "__os_install_post bash $tools/brp-compress && bash $tools/brp-strip-static-archive && strip --strip-unneeded %{buildroot}%{_bindir}/* %{buildroot}%{_libdir}/*.so.*" \
        "$build/hwt.spec" >"$build/build.log" 2>&1 || {
        tail -n 40 "$build/build.log" >&2
        fail 'the packages cannot be built'
    }
    find "$build/top/RPMS" -name '*.rpm' ! -name '*-debug*' >"$build/packages"
    # shellcheck disable=SC2046 # one package each
    rpmlint --strict --config "$root/tests/tools/package/rpm/rpmlint.toml" "$build/hwt.spec" \
        "$build"/top/SRPMS/*.rpm $(cat "$build/packages") || fail 'rpmlint complains'
}

# Debian's RPM has its database in a home folder.
rpm_in_root()
{
    rpm --root "$fresh" --dbpath /var/lib/rpm "$@"
}

# What they ask for: each other, the shell's and RPM's own features, and libraries.
check_requirements()
{
    # shellcheck disable=SC2046 # one package each
    rpm -qp --requires $(cat "$build/packages") | sort -u >"$build/requires"
    # shellcheck disable=SC2046
    rpm -qp --provides $(cat "$build/packages") | sort -u >"$build/provides"
    grep -Fvx -f "$build/provides" "$build/requires" | while read -r name rest; do
        case $name in
        rpmlib\(* | 'rtld(GNU_HASH)' | /usr/bin/pkg-config | pkgconfig\(* ) ;;
        *.so.*)
            [ -n "$(find "$fresh/usr/lib" "$fresh/lib" -name "${name%%(*}" | head -n 1)" ] ||
                fail "no library ${name%%(*} is in the root"
            ;;
        *) grep -q "^$name " "$build/provides" || fail "a package asks for $name $rest" ;;
        esac
    done
}

ensure_packages scdoc mandoc sdt isal libbsd nats kafka mmdebstrap rpm systemd
make_archive
build_packages
make_root
check_requirements
mkdir -p "$fresh/usr/share/licenses" # a folder of all packages of such a system
files >"$build/before"
rpm_in_root --initdb
# shellcheck disable=SC2046 # one package each
rpm_in_root --nodeps -i $(cat "$build/packages") >"$build/install.log" 2>&1 || {
    cat "$build/install.log" >&2
    fail 'the packages cannot be installed'
}
in_root ldconfig
# shellcheck disable=SC2046
rpm_in_root -V --nodeps $(rpm_in_root -qa) || fail 'what is installed is not what was packaged'
use_all
# shellcheck disable=SC2046
rpm_in_root --nodeps -e $(rpm_in_root -qa) >>"$build/install.log" 2>&1 ||
    fail "the packages cannot be removed, see $build/install.log"
end
echo 'the packages are built, clean, of use and removable'
