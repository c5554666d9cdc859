# shellcheck shell=sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# To be sourced, with the root of the checkout in $root. Defines
#
#     ensure_packages [check] [c++] [cmake] [gcc] [clang] [valgrind] [spin] [fuzzer] [afl]
#                     [clang-tidy] [cppcheck] [shellcheck] [reuse] [gcovr] [abigail]
#                     [aarch64] [i386] [musl] [isal] [libbsd] [mmdebstrap] [debian] [rpm]
#                     [arch] [systemd] [nats] [kafka] [kafka-client] [python3]
#
# which installs what a build needs and is not there: the compiler, meson, ninja,
# pkg-config and liburcu's headers always, the rest if asked for. It asks nothing. Where it
# cannot install it says on stderr what to install and exits with 2.
#
#     wish_for_packages [musl] [libuv] [libev] [libevent] [glib] [sd-event] [io_uring] [scdoc]
#                       [mandoc] [sdt] [gdb] [bpftrace] [curl] [promtool] [btrfs] [nats] [kafka]
#                       [sqlite] [gnuplot] [machines] [rabbitmq] [redis] [ccache]
#                       [jdk] [netty] [jctools] [go] [rust] [tokio]
#                       [beanstalkd] [redis-server] [hiredis] [rocksdb] [lmdb]
#
# the same for what can be done without: where it cannot install it only says so.

# Debian's and Ubuntu's packages for each need, and what they are.
packages_of()
{
    case $1 in
    cc) echo gcc libc6-dev ;;
    gcc) echo gcc libc6-dev ;;
    clang) echo clang libc6-dev ;;
    c++) echo g++ ;;
    meson) echo meson ;;
    venv) echo python3-venv ;;
    ninja) echo ninja-build ;;
    pkg-config) echo pkg-config ;;
    liburcu) echo liburcu-dev ;;
    check) echo check ;;
    cmake) echo cmake make ;;
    valgrind) echo valgrind libc6-dbg ;;
    fuzzer) echo "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev" ;;
    afl) echo afl++ ;;
    spin) echo spin ;;
    clang-tidy | cppcheck | shellcheck | reuse | gcovr | mmdebstrap) echo "$1" ;;
    abigail) echo abigail-tools ;;
    aarch64) echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user ;;
    i386) echo gcc-i686-linux-gnu libc6-dev-i386-cross ;;
    musl) echo musl-tools ;;
    isal) echo libisal-dev ;;
    libbsd) echo libbsd-dev ;;
    debian) echo dpkg-dev debhelper lintian ;;
    rpm) echo rpm rpmlint debugedit ;;
    arch) echo makepkg pacman-package-manager fakeroot libarchive-tools ;;
    systemd) echo systemd ;;
    libuv) echo libuv1-dev ;;
    libev) echo libev-dev ;;
    libevent) echo libevent-dev ;;
    glib) echo libglib2.0-dev ;;
    sd-event) echo libsystemd-dev ;;
    io_uring) echo liburing-dev ;;
    scdoc) echo scdoc ;;
    mandoc) echo mandoc ;;
    sdt) echo systemtap-sdt-dev ;;
    gdb | bpftrace | curl | ccache | beanstalkd | redis-server) echo "$1" ;;
    jdk) echo openjdk-17-jdk-headless ;;
    netty | jctools) echo "lib$1-java" ;;
    go) echo golang-go ;;
    rust) echo rustc cargo ;;
    tokio) echo librust-tokio-dev ;;
    hiredis | rocksdb | lmdb) echo "lib$1-dev" ;;
    promtool) echo prometheus ;;
    btrfs) echo btrfs-progs ;;
    nats) echo libnats-dev nats-server ;;
    kafka) echo librdkafka-dev ;;
    kafka-client) echo python3-confluent-kafka ;;
    gnuplot) echo gnuplot-nox ;;
    machines) echo iproute2 nftables util-linux ;;
    rabbitmq) echo rabbitmq-server python3-pika ;;
    redis) echo redis-server python3-redis ;;
    python3) echo python3 ;;
    sqlite) echo libsqlite3-dev ;;
    esac
}

package_is()
{
    case $1 in
    cc | gcc) echo 'a C compiler and the C library headers' ;;
    clang) echo 'the clang C compiler' ;;
    c++) echo 'a C++ compiler, for the tests' ;;
    meson) echo 'the Meson build system, 1.0 or later' ;;
    venv) echo "Python's virtual environments, to have a later Meson" ;;
    ninja) echo 'the Ninja build tool' ;;
    pkg-config) echo 'the tool that finds libraries' ;;
    liburcu) echo 'the headers of liburcu (userspace RCU), for its queue' ;;
    check) echo 'the Check unit test library' ;;
    cmake) echo 'CMake and make, for the tests' ;;
    valgrind) echo "Valgrind's memcheck and the C library's symbols" ;;
    fuzzer) echo "clang's sanitizers and libFuzzer" ;;
    afl) echo 'the AFL++ fuzzer' ;;
    spin) echo 'the Spin model checker, 6.4 or later' ;;
    clang-tidy | cppcheck | shellcheck) echo 'a static analyser' ;;
    reuse) echo 'what reads the licence of each file' ;;
    gcovr) echo 'what counts covered lines' ;;
    abigail) echo 'what compares binary interfaces' ;;
    aarch64) echo 'a compiler for 64-bit ARM, and what runs its programs' ;;
    i386) echo 'what compiles for 32 bits' ;;
    musl) echo 'the musl C library and its compiler' ;;
    isal) echo 'the checksums of hwt-delay' ;;
    libbsd) echo 'the headers of trees, to build hwt-delay' ;;
    mmdebstrap) echo 'what makes a root to try packages in' ;;
    debian | rpm | arch) echo 'what builds packages and checks them' ;;
    systemd) echo 'what reads units' ;;
    libuv | libev | libevent | glib | sd-event | io_uring) echo 'an event loop, for the tests' ;;
    scdoc) echo 'what builds the manual pages' ;;
    mandoc) echo 'what checks the manual pages' ;;
    sdt) echo 'the header of static probes' ;;
    gdb | bpftrace) echo 'what reads static probes, for the tests' ;;
    curl) echo 'what reads metrics over HTTP, for the tests' ;;
    promtool) echo 'what checks metrics, for the tests' ;;
    btrfs) echo 'a file system that copies, for the tests' ;;
    gnuplot) echo 'what draws plots' ;;
    ccache) echo 'what keeps what was compiled' ;;
    jdk | netty | jctools | go | rust | tokio) echo "for a timer that hwt's is compared with" ;;
    beanstalkd | redis-server | hiredis | rocksdb | lmdb) echo 'for a store that hwt-delay is compared with' ;;
    machines) echo 'network namespaces and what cuts them off' ;;
    rabbitmq | redis) echo 'a rival of hwt-relay, and its client in Python' ;;
    python3) echo 'Python, for the scripts that are in it' ;;
    kafka) echo 'the client library of Kafka, for hwt-relay' ;;
    kafka-client) echo "the same for Debian's Python, in /usr/bin" ;;
    nats) echo 'the client library of NATS and its server, for hwt-relay' ;;
    sqlite) echo 'a database, for a recipe' ;;
    esac
}

# shellcheck disable=SC2086 # a compiler may have options
compiles_c()
{
    printf '#include <stdio.h>\nint main(void) { return 0; }\n' |
        $1 -x c -o /dev/null - >/dev/null 2>&1
}

links_fuzzer()
{
    printf 'int LLVMFuzzerTestOneInput(void);\nint LLVMFuzzerTestOneInput(void) { return 0; }\n' |
        clang -fsanitize=fuzzer,address,undefined -x c -o /dev/null - >/dev/null 2>&1
}

has()
{
    case $1 in
    cc) compiles_c "${CC:-cc}" ;;
    gcc) compiles_c gcc ;;
    clang) compiles_c clang ;;
    c++) command -v "${CXX:-c++}" >/dev/null ;;
    meson) command -v meson >/dev/null ;;
    venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    ninja) command -v ninja >/dev/null ;;
    pkg-config) command -v pkg-config >/dev/null ;;
    liburcu) pkg-config --exists liburcu-cds 2>/dev/null ;;
    check) pkg-config --exists check 2>/dev/null ;;
    cmake) command -v cmake >/dev/null && { command -v make || command -v ninja; } >/dev/null ;;
    valgrind) command -v valgrind >/dev/null ;;
    fuzzer) links_fuzzer ;;
    afl) command -v afl-fuzz >/dev/null && command -v afl-clang-fast >/dev/null ;;
    spin) spin -V 2>/dev/null | grep -q '^Spin Version 6' ;;
    clang-tidy | cppcheck | shellcheck | reuse | gcovr | mmdebstrap) command -v "$1" >/dev/null ;;
    abigail) command -v abidw >/dev/null ;;
    aarch64) compiles_c aarch64-linux-gnu-gcc && command -v qemu-aarch64 >/dev/null ;;
    i386) compiles_c i686-linux-gnu-gcc ;;
    musl) compiles_c musl-gcc ;;
    isal) pkg-config --exists libisal 2>/dev/null ;;
    libbsd) pkg-config --exists libbsd 2>/dev/null ;;
    debian) command -v dh >/dev/null && command -v lintian >/dev/null ;;
    arch)
        command -v makepkg >/dev/null && command -v pacman >/dev/null &&
            command -v fakeroot >/dev/null && command -v bsdtar >/dev/null
        ;;
    systemd) command -v systemd-analyze >/dev/null ;;
    rpm) command -v rpmbuild >/dev/null && command -v rpmlint >/dev/null && command -v find-debuginfo >/dev/null ;;
    libuv) pkg-config --exists libuv 2>/dev/null ;;
    libev) echo '#include <ev.h>' | "${CC:-cc}" -E - >/dev/null 2>&1 ;;
    libevent) pkg-config --exists libevent_core 2>/dev/null ;;
    glib) pkg-config --exists glib-2.0 2>/dev/null ;;
    sd-event) pkg-config --exists libsystemd 2>/dev/null ;;
    io_uring) pkg-config --exists liburing 2>/dev/null ;;
    scdoc) command -v scdoc >/dev/null ;;
    mandoc | gdb | bpftrace | curl | promtool | gnuplot | python3 | ccache | beanstalkd | redis-server | go) command -v "$1" >/dev/null ;;
    btrfs) command -v mkfs.btrfs >/dev/null ;;
    kafka) pkg-config --exists rdkafka 2>/dev/null ;;
    kafka-client) /usr/bin/python3 -c 'import confluent_kafka' 2>/dev/null ;;
    nats) pkg-config --exists libnats 2>/dev/null && command -v nats-server >/dev/null ;;
    rabbitmq) [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] && /usr/bin/python3 -c 'import pika' 2>/dev/null ;;
    redis) command -v redis-server >/dev/null && /usr/bin/python3 -c 'import redis' 2>/dev/null ;;
    machines) command -v ip >/dev/null && command -v nft >/dev/null && command -v nsenter >/dev/null ;;
    sqlite) pkg-config --exists sqlite3 2>/dev/null ;;
    jdk) command -v javac >/dev/null ;;
    rust) command -v cargo >/dev/null ;;
    netty) ls /usr/share/java/netty*common*.jar >/dev/null 2>&1 || ls /usr/share/java/netty-all*.jar >/dev/null 2>&1 ;;
    jctools) ls /usr/share/java/jctools*.jar >/dev/null 2>&1 ;;
    tokio) ls -d /usr/share/cargo/registry/tokio-[0-9]* >/dev/null 2>&1 ;;
    hiredis | lmdb) pkg-config --exists "$1" 2>/dev/null ;;
    rocksdb) echo '#include <rocksdb/c.h>' | "${CC:-cc}" -E - >/dev/null 2>&1 ;;
    sdt) echo '#include <sys/sdt.h>' | "${CC:-cc}" -E - >/dev/null 2>&1 ;;
    *)
        echo "ensure_packages: what is $1?" >&2
        exit 2
        ;;
    esac
}

# Prints those of the arguments that are not there.
missing()
{
    for need in "$@"; do
        has "$need" || printf '%s ' "$need"
    done
}

# Prints what runs a command as root; fails where nothing does. May have to ask for a
# password, if there is somebody to ask.
root_command()
{
    if [ "$(id -u)" -eq 0 ]; then
        echo env
    elif ! command -v sudo >/dev/null; then
        return 1
    elif sudo -n true 2>/dev/null; then
        echo sudo -n env
    elif [ -t 0 ]; then
        echo sudo env
    else
        return 1
    fi
}

apt_get()
{
    $as_root DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

# The first try fails where the lists of packages are absent or out of date.
apt_install()
{
    apt_get install --no-install-recommends "$@" >/dev/null 2>&1 && return
    apt_get update >&2 && apt_get install --no-install-recommends "$@" >&2
}

say_what_to_install()
{
    {
        echo "$1 Please install, by Debian's names:"
        shift
        for need in "$@"; do
            printf '    %-22s %s\n' "$(packages_of "$need")" "$(package_is "$need")"
        done
    } >&2
    exit 2
}

install_missing()
{
    # shellcheck disable=SC2046 # names are words
    set -- $(missing "$@")
    [ $# -gt 0 ] || return 0
    command -v apt-get >/dev/null ||
        say_what_to_install 'Something is missing, and this system has no apt-get.' "$@"
    as_root=$(root_command) ||
        say_what_to_install 'Something is missing, and apt-get needs root or sudo.' "$@"

    packages=$(for need in "$@"; do packages_of "$need"; done | tr '\n' ' ')
    echo "installing $packages" >&2
    # shellcheck disable=SC2086 # names are words
    apt_install $packages || true

    # shellcheck disable=SC2046
    set -- $(missing "$@")
    [ $# -eq 0 ] ||
        say_what_to_install 'Something is missing, and apt-get could not install it.' "$@"
}

meson_is_late_enough()
{
    major=$(meson --version 2>/dev/null)
    major=${major%%.*}
    [ "${major:-0}" -ge 1 ] 2>/dev/null
}

# Releases of before 2023 have a Meson that is too old: then one in the build folder.
ensure_meson()
{
    tools=${root:?}/build/tools
    [ ! -x "$tools/bin/meson" ] || PATH=$tools/bin:$PATH
    install_missing meson
    meson_is_late_enough && return
    install_missing venv
    echo "installing a later meson in $tools" >&2
    if ! { python3 -m venv "$tools" && "$tools/bin/pip" --quiet install meson; } </dev/null >&2
    then
        say_what_to_install 'This Meson is too old, and a later one could not be had.' meson
    fi
    PATH=$tools/bin:$PATH
}

ensure_packages()
{
    install_missing cc pkg-config liburcu ninja "$@"
    ensure_meson
    export PATH
}

wish_for_packages()
{
    for need in $(missing "$@"); do
        if command -v apt-get >/dev/null && as_root=$(root_command); then
            echo "installing $(packages_of "$need")" >&2
            # shellcheck disable=SC2046 # names are words
            apt_install $(packages_of "$need") || true
        fi
        has "$need" ||
            echo "not installed: $(packages_of "$need"), $(package_is "$need")" >&2
    done
}
