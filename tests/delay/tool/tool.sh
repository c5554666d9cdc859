#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# One test of the program hwt-delay: tool.sh TEST PROGRAM [HELPER]; meson's tests call this.
#
# shellcheck disable=SC1003 # backslashes before a quote are meant

set -eu

name=$1
tool=$(realpath "$2")
helper=$(realpath "${3-$2}")
stores=$(CDPATH='' cd -- "$(dirname -- "$0")/../stores" && pwd)
work=$(mktemp -d)
holder=
# shellcheck disable=SC2086 # a number, or nothing
trap 'kill $holder 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
tab=$(printf '\t')

fail()
{
    echo "$*" >&2
    exit 1
}

# run STATUS COMMAND...: runs hwt-delay, its output in `out` and `err`.
run()
{
    wanted=$1
    shift
    status=0
    "$tool" "$@" >out 2>err || status=$?
    if [ "$status" -ne "$wanted" ]; then
        cat out err >&2
        fail "hwt-delay $*: exit status $status, not $wanted"
    fi
}

# Says nothing on stdout, and this on stderr, after the program's name.
says()
{
    [ ! -s out ] || fail "prints: $(cat out)"
    grep -q "^hwt-delay: .*$1" err || fail "does not say '$1' but: $(cat err)"
}

# Prints exactly these lines, and nothing on stderr.
prints()
{
    [ ! -s err ] || fail "says: $(cat err)"
    [ $# -eq 0 ] || printf '%s\n' "$@" >wanted
    [ $# -gt 0 ] || : >wanted
    diff wanted out >&2 || fail '< wanted; > printed'
}

# line SECOND ID PAYLOAD: a message as it is printed, due in 2020.
line()
{
    printf '2020-01-01T00:00:%02d.000000000Z\t%s\t%s' "$1" "$2" "$3"
}

past=2020-01-01T00:00
far=2100-01-01T00:00:00

# ---- misuse: exit 2, and nothing happened ----

test_misuse()
{
    run 2
    says 'no command'
    run 2 fly store
    says 'fly: no such command'
    run 2 --directory store
    says 'no such command'
    for command in stat stats dump check put cancel take salvage; do
        run 2 "$command"
        says 'no directory'
        run 2 "$command" --colour store
        says 'a bad option'
        run 2 "$command" store 1 2 3 4
        says 'too many operands'
        run 0 "$command" --help
        grep -q '^Usage: hwt-delay' out || fail 'no usage'
    done
    run 2 stat --create store
    says 'stat has no such option'
    run 2 take --max
    says 'a bad option'
    for max in 0 -1 65537 x '' 1x 99999999999999999999; do
        run 2 take --max "$max" store
        says 'not a number'
    done
    for wait in 5 s 5w -5s '' 99999999999d; do
        run 2 take --wait "$wait" store
        says 'not a duration'
    done
    run 2 cancel store @1
    says 'too few operands'
    run 2 salvage store
    says 'too few operands'
    run 2 cancel store +5s id
    says 'not the due time'
    run 2 cancel store now id
    says 'not the due time'
    run 2 cancel store @1 ''
    says 'id'
    run 2 put --create store now
    says 'it is: put'
    run 2 put --create --lines store now id
    says 'it is: put'
    run 2 dump --from now store
    says 'go with --messages'
    run 2 dump --messages --from yesterday store
    says 'not a time'
    for time in '' @ @1. @1.1234567891 @18446744073.709551615 @18446744073.709551616 @18446744074 \
        @99999999999999999999 +584y +99999999999d +18446744073709551615s 1960-01-01T00:00:00Z \
        2026-02-30T00:00:00Z 2026-01-01T00:00:00 2026-01-01T00:00:00.Z \
        2026-01-01T00:00:00.1234567890Z 2554-07-21T23:34:33.709551615Z 2600-01-01T00:00:00Z; do
        run 2 dump --messages --to "$time" store
        says 'not a time'
    done
    for time in @0 @1.5 @18446744073.709551614 2554-07-21T23:34:33.709551614Z; do
        run 1 dump --messages --to "$time" store
        says 'no store is there'
    done
    run 2 put --create store now ''
    says 'id'
    run 2 put --create store now 'a\q'
    says 'backslash'
    run 2 put --create store now a 'b\x4'
    says 'payload'
    run 2 put --create store now "$(printf '%0256d' 0)"
    says '255 bytes'
    [ ! -e store ] || fail 'misuse made a store'
    run 0 --help
    grep -q '^Usage: hwt-delay' out || fail 'no usage'
    run 0 --version
    grep -q '^hwt-delay [0-9]' out || fail 'no version'
}

# ---- put and its operands ----

test_put()
{
    run 0 put --create store "$past:01Z" one payload
    prints "$(line 1 one payload)"
    run 0 put store "$past:02Z" two
    prints "$(line 2 two '')"
    run 0 put --create store "$past:01Z" one 'another payload' # the last one wins
    run 0 put store "$past:03Z" -three
    run 0 dump --messages store
    prints "$(line 1 one 'another payload')" "$(line 2 two '')" "$(line 3 -three '')"
    run 0 put store +1h hour
    run 0 put store "$past:04Z" "$(printf '%0255d' 0)"
    head -c 4194305 /dev/zero | tr '\0' x >long
    printf 'now\tid\t%s\n' "$(cat long)" >lines
    "$tool" put --lines store <lines >out 2>err && fail 'took a payload over 4 MiB'
    says 'over 4 MiB'
}

test_lines()
{
    {
        line 1 one payload
        echo
        printf '@1577836802\ttwo\n'
        printf '2020-01-01T00:00:03Z\t\\x00three\ttabs\tstay\\\\\n'
        printf '2020-01-01T00:00:04Z\tlast\tno new line'
    } >lines
    "$tool" put --create --lines store <lines >out
    run 0 dump --messages store
    prints "$(line 1 one payload)" "$(line 2 two '')" \
        "$(line 3 '\x00three' 'tabs\x09stay\\')" "$(line 4 last 'no new line')"
    # Lines may end in CRLF, which is no part of a payload or an id.
    printf '@1577836801\tone\tpayload\r\n@1577836802\ttwo\r\n' | "$tool" put --create --lines crlf >out
    prints "$(line 1 one payload)" "$(line 2 two '')"
    run 0 dump --messages store
    # What is printed can be put into another store.
    cp out printed
    "$tool" put --create --lines other <printed >out
    run 0 dump --messages other
    diff printed out || fail 'another store has other messages'
    # All or none.
    for bad in 'now' 'soon\tid' 'now\t' 'now\tid\t\\x' 'now\tid\t\0'; do
        status=0
        printf 'now\tfine\tfine\n%b\n' "$bad" >lines
        "$tool" put --lines other <lines >out 2>err || status=$?
        [ "$status" -eq 2 ] || fail "takes the line '$bad'"
        says '^*line 2: '
    done
    run 0 dump --messages other
    diff printed out || fail 'half of a batch was put'
    run 0 put --lines other </dev/null
    prints
}

test_times()
{
    run 0 put --create store @1577836801.5 a
    prints "2020-01-01T00:00:01.500000000Z${tab}a${tab}"
    run 0 put store 2020-01-01T00:00:01.123456789Z b
    prints "2020-01-01T00:00:01.123456789Z${tab}b${tab}"
    run 0 put store @0 c
    prints "1970-01-01T00:00:00.000000000Z${tab}c${tab}"
    run 0 put store 2500-12-31T23:59:59Z d
    prints "2500-12-31T23:59:59.000000000Z${tab}d${tab}"
    run 0 put store 2020-02-29T00:00:00Z e
    prints "2020-02-29T00:00:00.000000000Z${tab}e${tab}"
    run 0 put store @18446744073.709551614 f # the last instant there is
    prints "2554-07-21T23:34:33.709551614Z${tab}f${tab}"
    for unit in ns us ms s m h d; do
        run 0 put store "+5$unit" "$unit"
    done
    for time in '' + 5 +5 +5w +-5s @ @-1 '@ 1' @1. @1.x @1.1234567891 @18446744073.709551615 \
        @18446744074 +99999999999d 2020-01-01 2020-01-01T00:00:00 2020-1-01T00:00:00Z \
        2021-02-29T00:00:00Z 2020-01-01T24:00:00Z ' 2020-01-01T00:00:00Z' 1969-12-31T23:59:59Z \
        2020-01-01T00:00:00.Z 2600-01-01T00:00:00Z noww forever +forever; do
        run 2 put store "$time" x
        says 'not a time'
    done
}

test_bytes()
{
    run 0 put --create store "$past:01Z" '\x00\xff\\' '\x0a \x41\x09\x7F'
    prints "$(line 1 '\x00\xff\\' '\x0a A\x09\x7f')"
    run 0 cancel store "$past:01Z" '\x00\xff\x5c'
    run 0 dump --messages store
    prints
}

# ---- take and cancel ----

test_take()
{
    run 0 put --create store +1d tomorrow
    run 1 take store
    prints
    for second in 3 1 2; do
        run 0 put store "$past:0${second}Z" "id$second"
    done
    run 0 take store
    prints "$(line 1 id1 '')"
    run 0 take --max 10 store
    prints "$(line 2 id2 '')" "$(line 3 id3 '')"
    run 1 take --max 10 --wait 10ms store
    prints
    run 0 put store +300ms soon
    run 0 take --wait 60s store
    grep -q "Z${tab}soon${tab}" out || fail "takes $(cat out)"
    # What could not be printed comes again.
    run 0 put store "$past:01Z" again
    if [ -w /dev/full ]; then
        status=0
        "$tool" take store >/dev/full 2>err || status=$?
        [ "$status" -eq 1 ] || fail "a full output: exit status $status"
        grep -q 'writing the output failed' err || fail 'does not say so'
        run 0 take store
        prints "$(line 1 again '')"
    fi
}

test_cancel()
{
    run 0 put --create store "${far}Z" id payload
    run 0 put store "${far}Z" other payload
    run 0 cancel store "${far}Z" id
    prints
    # In the future the store need not look.
    "$tool" cancel store "${far}.000000000Z" id >out 2>err || says 'no such message is pending'
    run 0 dump --messages store
    prints "${far}.000000000Z${tab}other${tab}payload"
    run 0 put store "$past:01Z" id
    run 0 cancel store @1577836801 id
    run 1 take store
    prints
    run 0 put store "$past:02Z" id
    run 0 take store
    "$tool" cancel store "$past:02Z" id >out 2>err && fail 'cancelled what was done'
    says 'no such message is pending'
}

# ---- looking ----

test_dump()
{
    for second in 1 2 3 4; do
        run 0 put --create store "$past:0${second}Z" id
    done
    run 0 dump --messages --from "$past:02Z" --to "$past:04Z" store
    prints "$(line 2 id '')" "$(line 3 id '')"
    run 0 dump --messages --to "$past:02Z" store
    prints "$(line 1 id '')"
    run 0 dump --messages --from now store
    prints
    for what in 'dump --messages' dump stat; do
        [ -w /dev/full ] || break
        status=0
        # shellcheck disable=SC2086 # words
        "$tool" $what store >/dev/full 2>err || status=$?
        [ "$status" -eq 1 ] || fail "a full output: exit status $status of $what"
        grep -q 'writing the output failed' err || fail "$what does not say so"
    done
    run 0 dump store
    grep -q log out || fail 'says nothing of the log'
    grep -q '^handed: .* at 0,' out || fail 'says nothing of deliveries'
    run 0 take store
    run 0 dump store
    grep -q '^handed: .* at [1-9]' out || fail 'a delivery is not there'
}

# value NAME: of a row of stat.
value()
{
    awk -v name="$1" '$1 == name { print $2 }' out
}

test_stat()
{
    run 0 put --create store "${far}Z" id payload
    run 0 stat store
    [ "$(value pending)" = 1 ] || fail "pending: $(value pending)"
    [ "$(value next)" != never ] || fail 'nothing is next'
    [ "$(value disk)" -gt 0 ] || fail 'nothing on the disk'
    run 0 cancel store "${far}Z" id
    run 0 stat store
    [ "$(value pending)" = 0 ] || fail "pending: $(value pending)"
    run 0 stats store
    [ "$(value pending)" = 0 ] || fail "stats, pending: $(value pending)"
    run 0 stat --prometheus store
    grep -q '^hwt_delay_[a-z_]* [0-9]' out || fail 'no sample'
    grep -q '^# TYPE hwt_delay_' out || fail 'no type'
}

# ---- bad days ----

# Another process owns the store from now on. To ask whether it does is to own it for a moment, so
# that it may come too late: then again.
hold_store()
{
    for pause in 0.1 0.2 0.5 1 2 4 8 16; do
        "$tool" take --wait forever store >held 2>&1 &
        holder=$!
        sleep "$pause"
        "$tool" put store "${far}Z" id payload >out 2>err || ! grep -q 'another process owns' err || return 0
        kill "$holder" 2>/dev/null || true
        wait "$holder" || true
    done
    fail "nobody owns it: $(cat held)"
}

# Another process owns the store: stat, dump and check work, the others say so.
test_owned()
{
    run 0 put --create store "${far}Z" id payload
    hold_store
    for command in "put store ${far}Z id" "cancel store ${far}Z id" 'take store' \
        'salvage store new'; do
        # shellcheck disable=SC2086 # words
        run 1 $command
        says 'another process owns the store'
    done
    run 0 stat store
    [ "$(value pending)" = 1 ] || fail "pending: $(value pending)"
    run 0 dump store
    run 0 dump --messages store
    prints "${far}.000000000Z${tab}id${tab}payload"
    run 0 check store
    prints
    run 0 copy store new
    prints
    run 0 dump --messages new
    prints "${far}.000000000Z${tab}id${tab}payload"
    kill "$holder"
    wait "$holder" || true
    holder=
    run 0 put store "${far}Z" other
}

test_errors()
{
    for command in stat dump check 'put store now id' 'cancel store @1 id' take 'salvage store new'; do
        # shellcheck disable=SC2086 # words
        set -- $command
        [ $# -gt 1 ] || set -- "$1" store
        run 1 "$@"
        says 'no store is there'
    done
    mkdir full
    echo something >full/else
    run 1 put --create full now id
    says 'other things in it'
    run 1 stat full
    says 'no store is there'
    run 1 put --create full/else now id
    says 'not a directory'
    run 1 put --create nowhere/store now id
    says 'no store is there'
}

# refuses_format NAME: every command refuses that store of an earlier format, and says what to do.
refuses_format()
{
    tar -xzf "$stores/$1.tar.gz"
    cp -r "$(basename "$1")" store
    for command in stat dump check take; do
        run 1 "$command" store
        says 'an earlier release made it: .* dump --messages, .* put --lines'
    done
    run 1 put --create store now id
    says 'an earlier release made it'
    run 1 cancel store @1800000000 id
    says 'an earlier release made it'
    run 1 salvage store new
    says 'an earlier release made it'
    diff -r "$(basename "$1")" store >&2 || fail 'the store was changed'
}

test_first_format()
{
    refuses_format format-1/0.2.0
}

test_second_format()
{
    refuses_format format-2/0.3.0
}

# flip FILE OFFSET: inverts a byte.
flip()
{
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    # shellcheck disable=SC2059 # an octal escape is made
    printf "\\$(printf '%03o' $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

# A byte of a message's payload is flipped in the log, with a valid frame behind it.
damaged_store()
{
    run 0 put --create store "$past:01Z" first 'damage-me'
    run 0 put store "$past:02Z" second
    run 0 check store
    prints
    for file in store/log.*; do
        at=$(LC_ALL=C grep -abo damage-me "$file" | head -n 1 | cut -d : -f 1)
        [ -z "$at" ] || flip "$file" "$at"
    done
}

test_check()
{
    damaged_store
    status=0
    "$tool" check store >out 2>err || status=$?
    [ "$status" -eq 1 ] || fail "a damaged store: exit status $status"
    says 'it is damaged so that it cannot be opened'
    ! grep -q 'check says' err || fail "refers to itself: $(cat err)"
    run 1 put store now id
    says 'it is damaged so that it cannot be opened'
    # Opening does not read what is in slots: its damage is found, and named.
    tar xzf "$stores/0.3.0.tar.gz"
    for slot in 0.3.0/slot-*; do :; done
    flip "$slot" $(($(wc -c <"$slot") - 1))
    status=0
    "$tool" check 0.3.0 >out 2>err || status=$?
    [ "$status" -eq 1 ] || fail "a damaged slot: exit status $status"
    grep -q "^${slot#0.3.0/}: [0-9]* bytes at [0-9]*: a block" out || fail "prints: $(cat out)"
    grep -q 'damaged in 1 places' err || fail "says: $(cat err)"
    # A file that is gone is named, too, and nobody else is blamed.
    rm "$slot"
    status=0
    "$tool" check 0.3.0 >out 2>err || status=$?
    [ "$status" -eq 1 ] || fail "without a slot: exit status $status"
    grep -q "^${slot#0.3.0/}: [0-9]* bytes at 0: the file is not there" out || fail "prints: $(cat out)"
    grep -q 'damaged in 1 places' err || fail "says: $(cat err)"
    status=0
    "$tool" dump --messages 0.3.0 >out 2>err || status=$?
    [ "$status" -eq 1 ] || fail "without a slot, dump: exit status $status"
    ! grep -q owner err || fail "blames an owner: $(cat err)"
    # The same for a file that is too short. No copy is made of it.
    : >"$slot"
    status=0
    "$tool" check 0.3.0 >out 2>err || status=$?
    [ "$status" -eq 1 ] || fail "a slot that is too short: exit status $status"
    grep -q "^${slot#0.3.0/}: [0-9]* bytes at 0: " out || fail "prints: $(cat out)"
    run 1 copy 0.3.0 short
    says 'it is damaged: hwt-delay check says where'
}

test_salvage()
{
    damaged_store
    run 0 salvage store new
    grep -q '^1 damaged blocks, [0-9]* bytes, put aside in store$' out || fail "says: $(cat out)"
    grep -q '^1 messages put into new$' out || fail "says: $(cat out)"
    run 0 dump --messages new
    prints "$(line 2 second '')"
    run 0 check new
    prints
    run 0 put new "$past:03Z" third
    run 0 take --max 10 new
    prints "$(line 2 second '')" "$(line 3 third '')"
    run 1 salvage new nowhere/new
    says 'no store is there'
}

test_copy()
{
    run 0 put --create store "$past:01Z" first
    run 0 put store "${far}Z" second payload
    run 0 copy store new
    prints
    run 0 check new
    prints
    run 0 take --max 10 new
    prints "$(line 1 first '')"
    run 0 take --max 10 store
    prints "$(line 1 first '')"
    run 1 copy store new
    says 'new: there is something in it: name a new directory'
    run 0 dump --messages new
    prints "${far}.000000000Z${tab}second${tab}payload"
    run 1 copy nowhere other
    says 'no store is there'
    [ ! -e other ] || fail 'a failed copy has left something'
    run 1 copy store nowhere/other
    run 2 copy store
}

# The owner makes a checkpoint before each of the first copies: they are tried again, but not for ever.
test_stale()
{
    run 0 put --create store "${far}Z" id payload
    export OWNER_CHECKPOINTS=3
    run 0 copy store new
    prints
    run 0 stat new
    [ "$(value pending)" = 4 ] || fail "copied: $(value pending)"
    run 0 check new
    export OWNER_CHECKPOINTS=1000
    run 1 copy store other
    says 'its owner changes it too quickly to be read: try again'
    [ -z "$(ls other)" ] || fail "left: $(ls other)"
}

# The disk fails when a store is closed: whoever changes it says so, though its own change is there.
test_unclosed()
{
    for id in one two; do
        run 1 put --create store "$past:01Z" "$id" payload
        says 'store: reading or writing the disk failed'
    done
    run 1 cancel store "$past:01Z" one
    says 'store: reading or writing the disk failed'
    run 1 salvage store new
    says 'store to new: reading or writing the disk failed.* remove new and try again'
    run 1 take store
    grep -q '^hwt-delay: store: reading or writing the disk failed' err || fail "says: $(cat err)"
    : >err
    prints "$(line 1 two payload)"
    run 1 take store # there is nothing
    prints
}

# More than a batch, and every byte of it; a store that is whole.
test_salvage_whole()
{
    awk 'BEGIN { for (i = 0; i < 2500; i++) printf "@%d.%d\tid%d\t\\x00%d\n", i, i, i, i }' >lines
    "$tool" put --create --lines store <lines >printed
    run 0 salvage store new
    prints '0 damaged blocks, 0 bytes, put aside in store' '2500 messages put into new'
    run 0 dump --messages new
    diff printed out >&2 || fail 'not the same messages'
}

# Of what it prints, something will come again; alone it does not.
test_partly()
{
    printf '@1\ta\n@1\tb\n@1\tc\n' | "$tool" put --create --lines store >out
    status=0
    "$tool" take --max 2 store >out 2>err || status=$?
    [ "$status" -eq 1 ] || fail "exit status $status"
    grep -q 'some of it will come again' err || fail "says: $(cat err)"
    run 0 take store
}

# Payloads that are longer than a store of this program takes, and more than one batch has room for.
test_salvage_large()
{
    "$helper" || fail 'no store'
    run 0 salvage store new
    prints '0 damaged blocks, 0 bytes, put aside in store' '6 messages put into new'
    run 0 dump --messages new
    [ "$(cut -f 2 out | tr '\n' ' ')" = 'large0 large1 large2 large3 large4 small ' ] || fail 'not the same messages'
}

"test_$name"
