#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Tests what tests/simulate/simulate.c prints: that its C tests compile and pass, that what it finds is
# made small and then passes where nothing is wrong, and how it answers misuse. For meson, which says
#
#     $CC               the compiler
#     $HWT_ROOT         the checkout
#     $HWT_LIBS         what a program is linked with
#     $SIMULATE         simulate, and simulate_wrong, which has something to find

set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail()
{
    echo "simulate.sh: $1" >&2
    exit 1
}

# passes FILE: as a program of its own
passes()
{
    # shellcheck disable=SC2046,SC2086 # names are words
    $CC -std=c11 -Wall -Wextra -Wpedantic -Wshadow -Werror -I"$HWT_ROOT" "$1" -o "$dir/printed" \
        $HWT_LIBS $(pkg-config --cflags --libs check) || fail "$1 does not compile"
    "$dir/printed" || fail "$1 does not pass"
}

# answers STATUS ARGUMENT...
answers()
{
    expected=$1
    shift
    status=0
    "$SIMULATE" "$@" >/dev/null 2>"$dir/said" || status=$?
    [ "$status" -eq "$expected" ] || fail "it exits with $status for: $*"
    [ "$expected" -ne 2 ] || [ -s "$dir/said" ] || fail "it says nothing for: $*"
}

seed=${HWT_TEST_SEED:-$(date +%s)}
echo "seed: $seed (set HWT_TEST_SEED to repeat)"

for i in 0 1 2 3; do
    "$SIMULATE" --seed $((seed + i)) --operations 300 --print >"$dir/$i.c"
    passes "$dir/$i.c"
done

for wrong in remaining crash; do
    status=0
    WRONG=$wrong "${SIMULATE}_wrong" --seed "$seed" >"$dir/$wrong.c" || status=$?
    [ "$status" -eq 1 ] || fail "it exits with $status where there is something to find"
    passes "$dir/$wrong.c"
    calls=$(grep -c 'hwt_time' "$dir/$wrong.c")
    [ "$calls" -lt 16 ] || fail "$calls lines with calls are left of what is wrong with $wrong"
done

head -c 1000 "$SIMULATE" >"$dir/bytes"
answers 0 "$dir/bytes"
answers 0 --help
answers 2 --seed
answers 2 --seed x
answers 2 --seed 99999999999999999999
answers 2 --operations 0
answers 2 --operations -1
answers 2 --frobnicate
answers 2 "$dir/bytes" "$dir/bytes"
answers 2 "$dir/no such file"
