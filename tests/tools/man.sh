#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# One check of the manual pages, named by the argument; meson's tests call this. All but
# `installed` and `lint` look at hwt/man/*.scd, and need neither scdoc nor mandoc. HWT_DELAY is the
# folder of the program hwt-delay, or empty where neither it nor its library is built: then its
# pages are not installed, and their examples not run.

set -eu

name=$1
root=$MESON_SOURCE_ROOT
work=$MESON_BUILD_ROOT/man/$name
CC=${CC:-cc}

failed=0
complain()
{
    echo "$*" >&2
    failed=1
}

skip()
{
    echo "$1"
    exit 77
}

# Whether a page, or a function, is of what is built.
is_built()
{
    case $1 in
    hwt[-_]delay*) [ -n "$HWT_DELAY" ] ;;
    hwt-relay*) [ -e "$HWT_MAN_BUILT/${1%.scd}" ] ;; # it needs a library of others, too
    esac
}

# ---- what the headers say ----

# hwt.h first: the others refer to it.
public_headers()
{
    echo "$root/hwt/hwt.h"
    grep -l '^HWT_PUBLIC' "$root"/hwt/*.h | grep -v '/hwt\.h$'
}

# Those of the version script too: the shared library has them.
functions()
{
    {
        public_headers | while read -r header; do
            sed -n -e 's/^HWT_PUBLIC .*[ *]\(hwt_[a-z_]*\)(.*/\1/p' \
                -e 's/^static inline .*[ *]\(hwt_[a-z_]*\)(.*/\1/p' "$header"
        done
        sed -n 's/^ *\(hwt_[a-z_]*\);$/\1/p' "$root/hwt/hwt.map" "$root/hwt/delay/delay.map"
    } | sort -u
}

# "function -ERRNO" for each error that the comment of a function names. "The same" as the one
# before it, or "as" others, are those functions' errors too; "-ERRNO: as" another is that error.
errors_in_headers()
{
    public_headers | xargs cat | awk '
        function note(function_name, error) {
            if (!((function_name, error) in seen)) {
                seen[function_name, error] = 1
                errors[function_name] = errors[function_name] " " error
                print function_name, error
            }
        }
        function inherit(function_name, other,    list, n, i) {
            n = split(errors[other], list, " ")
            for (i = 1; i <= n; i++)
                note(function_name, list[i])
        }
        function read_comment(function_name,    text) {
            if (comment ~ /^[ \/*]*The same/)
                inherit(function_name, last)
            for (text = comment; match(text, /-E[A-Z]+/); text = substr(text, RSTART + RLENGTH))
                note(function_name, substr(text, RSTART, RLENGTH))
            text = comment
            gsub(/-E[A-Z]+: as hwt_[a-z_]+\(\)/, "", text)
            while (match(text, /[Aa]s (for )?hwt_[a-z_]+\(\)/)) {
                other = substr(text, RSTART, RLENGTH - 2)
                sub(/.* /, "", other)
                inherit(function_name, other)
                text = substr(text, RSTART + RLENGTH)
                sub(/^ and hwt_/, " as hwt_", text)
            }
            last = function_name
        }
        /^\/\*/ { comment = ""; inside = 1 }
        inside { line = $0; sub(/^ \* */, "", line); comment = comment " " line }
        /\*\// { inside = 0 }
        /^(HWT_PUBLIC|static inline) .*\(/ && match($0, /hwt_[a-z_]+\(/) {
            read_comment(substr($0, RSTART, RLENGTH - 1))
        }'
}

# Without comments and white space, an @ before each declaration and a semicolon after.
squeeze()
{
    sed -e 's/^HWT_PUBLIC //' -e 's/^[a-z#]/@&/' -e 's/^{/;{/' | tr -d '\n' | awk '{
        while ((begin = index($0, "/*")) > 0) {
            rest = substr($0, begin + 2)
            $0 = substr($0, 1, begin - 1) substr(rest, index(rest, "*/") + 2)
        }
        print
    }' | tr -d " \\\\"
}

# ---- what the pages say ----

# The lines of a section.
section()
{
    awk -v wanted="# $2" '/^# / { inside = $0 == wanted; next } inside' "$1"
}

names_of()
{
    section "$1" NAME | sed -n 's/ - .*//p' | tr -d ' ' | tr ',' '\n'
}

# A section's blocks of literal text, as files $2.1, $2.2 ...; a backslash quotes what follows.
literal_blocks()
{
    awk -v prefix="$2" '/^```/ { if (inside = !inside) n++; next }
        inside { gsub(/\\\\/, "\001"); gsub(/\\/, ""); gsub(/\001/, "\\"); print >(prefix "." n) }'
}

# ---- the checks ----

# Every function has one page, and every page is of functions; references lead somewhere;
# hwt(7) and hwt-delay(7) lead to every page.
check_names()
{
    functions >"$work/functions"
    for page in "$root"/hwt/man/*.3.scd; do
        names_of "$page"
    done | sort >"$work/names"
    [ -s "$work/functions" ] || complain 'found no function in the headers'
    diff "$work/functions" "$work/names" >&2 ||
        complain '< functions that have no page; > pages that have no function, or a second one'

    for page in "$root"/hwt/man/*.scd; do
        file=$(basename "$page" .scd)
        [ "$(head -n 1 "$page")" = "${file%.*}(${file##*.}) \"hwt\"" ] ||
            complain "$file: its first line is not of this page"
        [ "$(names_of "$page" | head -n 1)" = "${file%.*}" ] ||
            complain "$file: is not called after the first function in it"
        for other in $(grep -o '\*hwt[a-z_-]*\*([1-7])' "$page" | tr -d '*' | sort -u); do
            other_page=${other%)}
            grep -qx "${other%(3)}" "$work/names" ||
                [ -f "$root/hwt/man/${other_page%(*}.${other_page#*(}.scd" ] ||
                complain "$file: refers to $other, which is not there"
        done
        case $file in
        hwt.7) continue ;;
        hwt-delay.7) overview=hwt.7 ;;
        hwt[-_]delay*) overview=hwt-delay.7 ;;
        *) overview=hwt.7 ;;
        esac
        grep -q "^- \*${file%.*}\*(${file##*.}):" "$root/hwt/man/$overview.scd" ||
            complain "$overview: does not list $file"
    done
}

# Every page has its sections, in order; says for each function how a caller gets on; and no
# line of a program is too long for a terminal.
check_sections()
{
    for page in "$root"/hwt/man/*.3.scd; do
        file=$(basename "$page" .scd)
        headings=$(sed -n 's/^# //p' "$page" | tr '\n' ',')
        wanted='NAME,SYNOPSIS,DESCRIPTION,RETURN VALUE,ERRORS,ATTRIBUTES,EXAMPLES,SEE ALSO,'
        [ "$headings" = "$wanted" ] || complain "$file: has the sections $headings"
        for function in $(names_of "$page"); do
            section "$page" ATTRIBUTES | awk -v item="*$function*()" '
                /^[^\t]/ { inside = index($0, item) }
                inside && /^\t/' | grep -Eqi 'wait-free|lock-free|blocks' ||
                complain "$file: says nothing of $function()'s progress"
        done
        if awk '/^```/ { inside = !inside } inside && length($0) > 69' "$page" | grep . >&2; then
            complain "$file: lines that are longer than 69"
        fi
    done
}

# The declarations are the headers'.
check_declarations()
{
    for page in "$root"/hwt/man/*.3.scd; do
        file=$(basename "$page" .scd)
        blocks=$work/$file
        { section "$page" SYNOPSIS; section "$page" DESCRIPTION; } | literal_blocks - "$blocks"
        header=$(sed -n 's/^#include <\(hwt\/.*\)>$/\1/p' "$blocks.1")
        squeeze <"$root/$header" >"$work/header"
        for function in $(names_of "$page"); do
            grep -q "[ *]$function(" "$blocks.1" || complain "$file: does not declare $function()"
        done
        # A block of C has semicolons; the others are drawings.
        for block in "$blocks".*; do
            ! grep -q ';$' "$block" || grep -v '^#include' "$block"
        done | squeeze | tr '@' '\n' >"$work/declared"
        while read -r declaration; do
            grep -qF -- "@$declaration" "$work/header" ||
                complain "$file: not as in $header: $declaration"
        done <"$work/declared"
    done
}

# ERRORS names what the comments in the headers name, and nothing else.
check_errors()
{
    errors_in_headers >"$work/errors"
    grep -q 'hwt_timer_create -EINVAL' "$work/errors" || complain 'found no error in the headers'
    for page in "$root"/hwt/man/*.3.scd; do
        file=$(basename "$page" .scd)
        for function in $(names_of "$page"); do
            sed -n "s/^$function //p" "$work/errors"
        done | sort -u >"$work/wanted"
        section "$page" ERRORS | grep '^\*' | grep -o -e '-E[A-Z]*' | sort >"$work/named"
        diff "$work/wanted" "$work/named" >&2 ||
            complain "$file: < errors that it does not name; > that the header does not name"
    done
}

# A program in EXAMPLES can be compiled and succeeds; if a block of other text follows, that is
# what it prints. In section 1 a block is a session: commands behind a "$ ", and what they print.
check_examples()
{
    for page in "$root"/hwt/man/*.[137].scd; do
        file=$(basename "$page" .scd)
        is_built "$file" || continue
        section "$page" EXAMPLES | literal_blocks - "$work/$file"
        programs=0
        n=1
        while [ -f "$work/$file.$n" ]; do
            block=$work/$file.$n
            if [ "${file##*.}" = 1 ]; then
                programs=$((programs + 1))
                run_session "$block" | diff "$block" - >&2 ||
                    complain "$file: block $n of EXAMPLES is not what happens"
            elif grep -q '^#include <hwt/' "$block"; then
                program=$work/$file.$n.program
                programs=$((programs + 1))
                compile_and_run "$block" "$program" || complain "$file: block $n of EXAMPLES fails"
            else
                diff "$block" "$program.output" >&2 ||
                    complain "$file: block $n of EXAMPLES is not what is printed"
            fi
            n=$((n + 1))
        done
        [ "$programs" -gt 0 ] || complain "$file: has no example"
    done
}

# Runs in a new folder: programs leave files where they are.
# shellcheck disable=SC2086 # CC and HWT_LIBS may be several words
compile_and_run()
{
    $CC -std=c99 -pedantic -Wall -Wextra -Werror -pthread -I"$root" -x c "$1" -x none -o "$2" \
        $HWT_LIBS &&
        mkdir "$2.folder" && (cd "$2.folder" && "$2" >"$2.output")
}

run_session()
{
    mkdir "$1.folder"
    sed -n 's/^\$ //p' "$1" >"$1.commands"
    while read -r command; do
        printf '$ %s\n' "$command"
        (cd "$1.folder" && PATH=$HWT_DELAY:$MESON_BUILD_ROOT/hwt/relay:$PATH && eval "$command") 2>&1
    done <"$1.commands"
}

# Every page passes mandoc's lint.
check_lint()
{
    [ -n "$HWT_MAN_BUILT" ] || skip 'the pages are not built'
    command -v mandoc >/dev/null || skip 'mandoc is not installed'
    for page in "$root"/hwt/man/*.scd; do
        is_built "$(basename "$page")" || continue
        mandoc -T lint -W warning "$HWT_MAN_BUILT/$(basename "$page" .scd)" >&2 ||
            complain "$(basename "$page")"
    done
}

# man(1) finds a page by each function's name, and nothing else is installed.
check_installed()
{
    [ -n "$HWT_MAN_BUILT" ] || skip 'the pages are not built'
    DESTDIR=$work/root meson install -C "$MESON_BUILD_ROOT" --no-rebuild --quiet --tags man
    man=$work/root$HWT_MANDIR
    for function in $(functions); do
        ! is_built "$function" || echo "$function"
    done >"$work/functions"
    while read -r function; do
        sed -n '/^\.SH NAME/{n;p;}' "$man/man3/$function.3" | grep -qw "$function" ||
            complain "$function.3 is not a page of $function()"
    done <"$work/functions"
    wanted=$({
        sed 's|.*|./man3/&.3|' "$work/functions"
        cd "$root/hwt/man" && for page in *.[125-8].scd; do
            ! is_built "$page" || echo "$page" | sed 's|\(.*\.\(.\)\)\.scd$|./man\2/\1|'
        done
    } | LC_ALL=C sort)
    found=$(cd "$man" && find . ! -type d | LC_ALL=C sort)
    [ "$found" = "$wanted" ] || complain "installed: $found"
}

rm -rf "$work"
mkdir -p "$work"
"check_$name"
[ "$failed" -eq 0 ]
