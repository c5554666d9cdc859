#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Looks for includes in hwt/ that point upward.
#
#     sh tests/tools/layers.sh
#
# - The folders, from below: base, wheel, pool, inbox, worker, timer, report. What is in one includes what is in it or
#   below. net and delay stand on the public headers and on base, and know nothing of the others.
#   relay is a program: it stands on the public headers alone. Its room program includes what is in relay, and
#   nothing else there includes that.
# - The rooms of delay, from below: base, disk, table, log, slots, checkpoint, api, open. A room includes itself
#   and those below, and calls what their headers declare. A struct of a room that a store consists of is touched
#   in that room alone, and its functions are declared in it. tool is a program: it stands on the public headers
#   alone.
# - The public headers include public headers only, and are all that is in hwt/ itself. hwt.h may be
#   included everywhere; the others only by the folders above that have them to serve.
# - Within a folder: no header leads back to itself, and no room's source includes a header that leads
#   to the room's own, for that one is above it.
#
# The exit status is 0, 1 if there is something that points upward, 2 for misuse.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)

case $#,${1-} in
0,) ;;
*,--help)
    sed -n '4,21s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
*)
    echo 'tests/tools/layers.sh: takes no argument; see --help' >&2
    exit 2
    ;;
esac

cd "$root"
# shellcheck disable=SC2016 # it is awk's
find hwt -name '*.[ch]' | LC_ALL=C sort | xargs awk '
    BEGIN {
        split("base wheel pool inbox worker timer report", order, " ")
        for (i in order)
            rank[order[i]] = i
        split("base disk table log slots checkpoint api open", rooms, " ")
        for (i in rooms)
            room_rank[rooms[i]] = i
        # Whom a public header other than hwt.h is for.
        serves["hwt/heartbeat.h"] = serves["hwt/retry.h"] = "net"
        serves["hwt/delay.h"] = "delay relay"
    }

    function complain(text) {
        print text
        failed = 1
    }

    function below(t, f) {
        return t in rank && f in rank && rank[t] + 0 < rank[f] + 0
    }

    function folder(file,    parts) {
        return split(file, parts, "/") > 2 ? parts[2] : ""
    }

    # The room of delay that a file is in; none: it is about the whole.
    function room(file,    parts) {
        return split(file, parts, "/") > 3 && parts[2] == "delay" ? parts[3] : ""
    }

    # The header that puts the structs of the rooms of delay together.
    function is_whole(file) {
        return file ~ /^hwt\/delay\/[^\/]*$/
    }

    function room_below(t, f) {
        return t == f || (t == "" && f != "tool") || f == "" ||
            (t in room_rank && f in room_rank && room_rank[t] + 0 < room_rank[f] + 0)
    }

    # What file includes, and what that includes, marked in reached.
    function reach(file,    list, n, i) {
        n = split(includes[file], list, " ")
        for (i = 1; i <= n; i++) {
            if (list[i] in reached)
                continue
            reached[list[i]] = 1
            reach(list[i])
        }
    }

    function check_include(from, to,    f, t) {
        f = folder(from)
        t = folder(to)
        if (!(to in exists))
            complain(from ": includes " to ", which is not there")
        else if (t == "" && (to == "hwt/hwt.h" || f == "" || index(" " serves[to] " ", " " f " ")))
            return
        else if (t == "" || f == "" || (f != t && !below(t, f) && (t != "base" || f in rank || f == "relay")))
            complain(from ": may not include " to)
        else if (to ~ /^hwt\/relay\/program\// && from !~ /^hwt\/relay\/program\//)
            complain(from ": may not include " to ", which is of the room above")
        else if (!room_below(room(to), room(from)))
            complain(from ": may not include " to ", which is of a room above it")
    }

    function check_file(file,    own, list, n, i) {
        if (folder(file) == "" && file !~ /\.h$/)
            complain(file ": only public headers are in hwt/ itself")
        else if (folder(file) != "" && !(folder(file) in rank) && folder(file) !~ /^(net|delay|relay)$/)
            complain(file ": this folder has no place among the others")
        else if (folder(file) == "delay" && room(file) != "tool" && room(file) != "" && !(room(file) in room_rank))
            complain(file ": this room has no place among the others")
        delete reached
        if (file ~ /\.h$/) {
            reach(file)
            if (file in reached)
                complain(file ": leads back to itself")
            return
        }
        own = substr(file, 1, length(file) - 1) "h"
        n = split(includes[file], list, " ")
        for (i = 1; i <= n; i++) {
            delete reached
            reach(list[i])
            if (list[i] != own && own in reached && !is_whole(list[i]))
                complain(file ": includes " list[i] ", which is above it: it leads to " own)
        }
    }

    # Remembers which functions of delay a line names, by room, and looks for structs of other rooms.
    function note_calls(file, line,    own, name) {
        own = room(file)
        while (match(line, /hwt_delay_[a-z0-9_]+\(/)) {
            name = substr(line, RSTART, RLENGTH - 1)
            line = substr(line, RSTART + RLENGTH)
            if (file ~ /\.h$/ && (!(name in declared) || room_below(own, declared[name])))
                declared[name] = own
            calls[file] = calls[file] " " name
        }
    }

    # A header that declares what a room above it defines is a way upward, too.
    function check_places(    name) {
        for (name in defined)
            if (name in declared && declared[name] != defined[name])
                complain("hwt/delay/" declared[name] ": declares " name "(), which is of the room " defined[name])
    }

    function note_fields(file, line,    name) {
        while (match(line, /store->[a-z_]+/)) {
            name = substr(line, RSTART + 7, RLENGTH - 7)
            line = substr(line, RSTART + RLENGTH)
            fields[file] = fields[file] " " name
        }
    }

    # A field of the whole belongs to the room whose header has its struct.
    function check_fields(file,    list, n, i, owner) {
        n = split(fields[file], list, " ")
        for (i = 1; i <= n; i++) {
            owner = has_struct[struct_of[list[i]]]
            if (owner != "" && owner != room(file))
                complain(file ": touches " list[i] ", which is of the room " owner)
        }
    }

    function check_calls(file,    list, n, i) {
        n = split(calls[file], list, " ")
        for (i = 1; i <= n; i++) {
            if (list[i] in declared && !room_below(declared[list[i]], room(file)))
                complain(file ": calls " list[i] "(), which is of a room above it")
        }
    }

    FNR == 1 { exists[FILENAME] = 1 }
    is_whole(FILENAME) && /^    struct hwt_delay_[a-z]+ [a-z]+;/ { struct_of[substr($3, 1, index($3, ";") - 1)] = $2 }
    room(FILENAME) in room_rank && /^struct hwt_delay_[a-z]+ \{/ { has_struct[$2] = room(FILENAME) }
    room(FILENAME) in room_rank && !/^ *(\/\*|\*)/ {
        code = $0
        sub(/\/\*.*/, "", code)
        note_calls(FILENAME, code)
        note_fields(FILENAME, $0)
    }
    room(FILENAME) in room_rank && FILENAME ~ /\.c$/ && match($0, /^[a-z][^;]* [*]*hwt_delay_[a-z0-9_]+\([^;]*$/) {
        name = substr($0, 1, index($0, "(") - 1)
        sub(/.*[ *]/, "", name)
        defined[name] = room(FILENAME)
    }
    /^ *# *include *[<"]hwt\// {
        name = $0
        sub(/^[^<"]*[<"]/, "", name)
        sub(/[>"].*/, "", name)
        includes[FILENAME] = includes[FILENAME] " " name
    }
    /^ *# *include *"/ && !/"hwt\// { complain(FILENAME ": a path begins with hwt/: " $0) }

    END {
        check_places()
        for (file in exists) {
            n = split(includes[file], list, " ")
            for (i = 1; i <= n; i++)
                check_include(file, list[i])
            check_file(file)
            check_calls(file)
            check_fields(file)
        }
        exit failed
    }
' >"${TMPDIR:-/tmp}/layers.$$" && failed=0 || failed=1
LC_ALL=C sort "${TMPDIR:-/tmp}/layers.$$"
rm -f "${TMPDIR:-/tmp}/layers.$$"
[ "$failed" -ne 0 ] || echo 'nothing points upward'
exit "$failed"
