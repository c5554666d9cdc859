#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Builds the peers that are not C: sh perf/peers/build.sh OUTDIR
#
# Leaves peer_netty, peer_stpe, peer_go and peer_tokio in OUTDIR, and beside each a line about
# its versions in NAME.version. Installs nothing: a peer whose tools are not there, or that
# does not compile, is named on stderr and left out; the exit status is 0 all the same.

set -eu

if [ $# -ne 1 ]; then
    echo 'Usage: sh perf/peers/build.sh OUTDIR' >&2
    exit 2
fi
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$1"
out=$(CDPATH='' cd -- "$1" && pwd)
java_jars=/usr/share/java
crates=/usr/share/cargo/registry

leave_out()
{
    echo "peer_$1 is left out: $2" >&2
}

# jar_of NAME: Debian's, without or with a version.
jar_of()
{
    for jar in "$java_jars/$1.jar" "$java_jars/$1"-[0-9]*.jar; do
        [ ! -f "$jar" ] || { echo "$jar" && return; }
    done
    return 1
}

# quoted TEXT: as one word for a shell.
quoted()
{
    printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"
}

# launcher NAME CLASS CLASSPATH
launcher()
{
    {
        echo '#!/bin/sh'
        echo "exec java -cp $(quoted "$3") $2 \"\$@\""
    } >"$out/peer_$1"
    chmod +x "$out/peer_$1"
}

# build_java NAME CLASS JARS VERSION
build_java()
{
    classes=$out/classes_$1
    mkdir -p "$classes"
    if ! javac -d "$classes" -cp "$classes${3:+:$3}" \
        "$here/Workloads.java" "$here/Requests.java" "$here/$2.java" >"$out/peer_$1.log" 2>&1; then
        leave_out "$1" "javac failed, see $out/peer_$1.log"
        return
    fi
    launcher "$1" "$2" "$classes${3:+:$3}"
    echo "$1: $4$(java -version 2>&1 | head -n 1)" >"$out/$1.version"
}

build_stpe()
{
    build_java stpe StpePeer '' ''
}

build_netty()
{
    # netty-all.jar may be nothing but a list of what it depends on.
    if ! netty=$(jar_of netty-common) && ! netty=$(jar_of netty-all); then
        leave_out netty 'there is no Netty (libnetty-java)'
    elif ! jctools=$(jar_of jctools-core); then
        leave_out netty 'there is no JCTools (libjctools-java)'
    else
        version=$(find "$java_jars" -name 'netty-common-[0-9]*.jar' | head -n 1)
        build_java netty NettyPeer "$netty:$jctools" "$(basename "${version:-$netty}" .jar), "
    fi
}

build_go()
{
    if ! command -v go >/dev/null; then
        leave_out go 'there is no go (golang-go)'
    elif ! (cd "$here" && GO111MODULE=off GOFLAGS='' go build -o "$out/peer_go" go_peer.go) \
        >"$out/peer_go.log" 2>&1; then
        leave_out go "go build failed, see $out/peer_go.log"
    else
        echo "go: $(go version)" >"$out/go.version"
    fi
}

# A package of cargo's that takes its crates from Debian's folder and nowhere else.
write_crate()
{
    mkdir -p "$1/src" "$1/.cargo"
    rm -f "$1/Cargo.lock"
    cp "$here/tokio_peer.rs" "$1/src/main.rs"
    cat >"$1/Cargo.toml" <<'EOF'
[package]
name = "peer_tokio"
version = "0.0.0"
edition = "2021"

[dependencies]
libc = "0.2"
tokio = { version = "1", features = ["rt-multi-thread", "time"] }

[profile.release]
lto = true

[workspace]
EOF
    cat >"$1/.cargo/config.toml" <<EOF
[source.crates-io]
replace-with = "debian"

[source.debian]
directory = "$crates"
EOF
}

build_tokio()
{
    crate=$out/crate_tokio
    if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
        leave_out tokio 'there is no cargo or no rustc (cargo, rustc)'
        return
    fi
    tokio=$(find "$crates" -maxdepth 1 -name 'tokio-[0-9]*' 2>/dev/null | head -n 1)
    if [ -z "$tokio" ]; then
        leave_out tokio 'there is no tokio (librust-tokio-dev)'
        return
    fi
    if ! (write_crate "$crate" && cd "$crate" &&
        cargo build --offline --release --target-dir "$crate/target") \
        >"$out/peer_tokio.log" 2>&1; then
        leave_out tokio "cargo build failed, see $out/peer_tokio.log"
        return
    fi
    cp "$crate/target/release/peer_tokio" "$out/peer_tokio"
    echo "tokio: $(basename "$tokio"), $(rustc --version)" >"$out/tokio.version"
}

for name in netty stpe go tokio; do
    rm -f "$out/peer_$name" "$out/$name.version"
done
if command -v javac >/dev/null && command -v java >/dev/null; then
    build_netty
    build_stpe
else
    leave_out netty 'there is no JDK (openjdk-17-jdk-headless)'
    leave_out stpe 'there is no JDK (openjdk-17-jdk-headless)'
fi
build_go
build_tokio
