#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Puts messages with delays of one second to four weeks into a store, cancels some, takes them, kills the
# process on the way, and looks whether every promise was kept. Builds hwt in release mode for that, and
# installs what is missing. Works from any folder, and leaves nothing in the checkout but build/.
#
#     sh perf/delay.sh [--option N]... [--directory DIR]
#
# The exit status is 0; 1 if a promise was not kept, or if it could not run; 2 for a bad option, or if
# something has to be installed by hand. Options and their defaults:

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source-path=SCRIPTDIR/.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"
# shellcheck source-path=SCRIPTDIR/.. source=perf/build.sh
. "$root/perf/build.sh"

case " $* " in
*' --help '*)
    sed -n '4,11s/^# \{0,1\}//p' "$0"
    awk -f "$root/perf/options.awk" "$root/perf/delay/life.c"
    exit 0
    ;;
esac

ensure_packages isal libbsd
build_release perf/delay.sh "$root/build/release" -Ddelay=enabled perf/delay/delay_life
exec "$root/build/release/perf/delay/delay_life" --directory "$root/build" "$@"
