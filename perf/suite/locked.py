#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counts the locked operations that were executed, from Callgrind's dumps and a disassembly.

    python3 perf/suite/locked.py DUMP...

Prints one number a dump. The dumps are made with --dump-instr=yes --compress-pos=no
--compress-strings=no. Locked are, on x86-64, instructions with a lock prefix, an exchange with
memory, which has it without saying so, and mfence, which costs as much.
"""

import functools
import re
import subprocess
import sys

LOCKED = re.compile(r"^\s*([0-9a-f]+):\s+(lock\s|xchg\s.*\(|mfence\b)")
POSITION = re.compile(r"^0x([0-9a-f]+) \S+ (\d+)$")


@functools.lru_cache(maxsize=None)
def locked_instructions(program):
    """Their addresses."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], check=True,
                          capture_output=True, text=True).stdout
    matches = (LOCKED.match(line) for line in text.splitlines())
    return {int(match[1], 16) for match in matches if match}


def count(dump):
    """Of the instructions themselves; the line after calls= has the cost of what was called."""
    found, program, skip = 0, None, False
    with open(dump, encoding="utf-8") as file:
        for line in file:
            if line.startswith("ob="):
                program = line[3:].strip()
            elif line.startswith("calls="):
                skip = True
            elif match := POSITION.match(line):
                if not skip and program.startswith("/"):
                    if int(match[1], 16) in locked_instructions(program):
                        found += int(match[2])
                skip = False
    return found


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: locked.py DUMP...")
    for dump in sys.argv[1:]:
        print(count(dump))


if __name__ == "__main__":
    main()
