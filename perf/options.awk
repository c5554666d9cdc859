# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Prints the options of a program from its table `rules` in C, as its --help does, so that a script can
# say them before the program is built.

function say(entry,    name, text, value)
{
    split(entry, part, ", *")
    name = part[1]
    gsub(/[{" ]/, "", name)
    value = part[4]
    text = entry
    sub(/^[^"]*"[^"]*"[^"]*"/, "", text)
    sub(/".*/, "", text)
    printf "    --%-16s %s%s\n", name, text, part[6] == "0" ? "" : " (" value ")"
}

/^static const struct option_rule rules\[\] = \{$/ { inside = 1; next }
/^\};$/ { inside = 0 }
inside {
    entry = entry $0
    if (/\},$/) {
        say(entry)
        entry = ""
    }
}
