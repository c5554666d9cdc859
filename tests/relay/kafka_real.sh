#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# hwt-relay on three real brokers of Kafka, with what breaks it: see kafka_real.py, which has the cases. Builds in release
# mode for that, and installs what is missing. Maven brings the brokers into build/kafka.
#
#     sh tests/relay/kafka_real.sh [CASE]...
#
# Exit status: 0; 1: a case fails; 77 where the brokers cannot be had, which is said.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source-path=SCRIPTDIR/../.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"
case ${1-} in
--help)
    sed -n '4,9s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac

dir=$root/build/release
# shellcheck source-path=SCRIPTDIR/../.. source=perf/build.sh
. "$root/perf/build.sh"

ensure_packages isal libbsd kafka kafka-client
build_relay tests/relay/kafka_real.sh
rm -rf "$root/build/kafka-real"
exec /usr/bin/python3 "$root/tests/relay/kafka_real.py" "$dir/hwt/relay/hwt-relay" "$root/build/kafka-real" "$@"
