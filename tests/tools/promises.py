#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether tests/README.md maps each promise to a test that exists.

    python3 tests/tools/promises.py

A promise is a paragraph of a manual page that begins with its name, as "*Order.*", in a section of PAGES. In the
tables of tests/README.md the first cell of a row says which ones it shows, as "hwt(7) *Order*", and the second one by
which tests, in backticks. A test is a file in tests/ or below the root, its stem, or a name in a meson.build, of which
a beginning like relay_ may stand apart. The exit status is 0, 1 if something is missing, 2 for misuse.
"""

import fnmatch
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Pages, and those of their sections in which each paragraph with a name is a promise. Pages need not be there.
PAGES = {"hwt(7)": ("Promises", "Memory", "Threads"), "hwt-delay(7)": ("Promises",), "hwt-relay(7)": ("Promises",)}


def promises_of(page):
    """The names, in order; a section without any is a promise itself."""
    name, number = re.fullmatch(r"(.*)\((\d)\)", page).groups()
    path = ROOT / "hwt/man" / f"{name}.{number}.scd"
    if not path.exists():
        return []
    found = []
    sections = re.split(r"^##? ", path.read_text(encoding="utf-8"), flags=re.M)
    for section in sections:
        title, _, text = section.partition("\n")
        if title in PAGES[page]:
            found += [" ".join(one.split()) for one in re.findall(r"^\*([^*]+?)\.\*", text, re.M)] or [title]
    return found


def rows():
    """(first cell, second cell) of each table."""
    for line in (ROOT / "tests/README.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith("| ") and len(cells) == 2:
            yield cells


class Tests:
    def __init__(self):
        self.files = set()  # each path, without its first folders, with and without what follows the dot
        for path in (path for top in ("tests", "perf") for path in (ROOT / top).rglob("*")):
            parts = path.relative_to(ROOT).parts
            for at in range(len(parts)):
                self.files |= {"/".join(parts[at:]), "/".join((*parts[at:-1], path.stem))}
        builds = [path.read_text(encoding="utf-8")
                  for path in (*(ROOT / "tests").rglob("meson.build"), ROOT / "perf/meson.build")]
        scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.sh")]
        self.quoted = set(re.findall(r"'([\w./-]+)'", "\n".join(builds)))
        self.quoted |= set(re.findall(r"'(\w+_)@", "\n".join(builds)))
        self.functions = set(re.findall(r"^test_(\w+)\(\)", "\n".join(scripts), re.M))

    def is_quoted(self, name):
        if name in self.quoted:
            return True
        parts = [(name[:at], name[at:]) for at in (m.end() for m in re.finditer("_", name))]
        return any(first in self.quoted and fnmatch.filter(self.quoted | self.functions | self.files, rest)
                   for first, rest in parts)

    def has(self, name):
        name = name.rstrip("/")
        if "*" in name:
            return any(fnmatch.fnmatchcase(one, name) for one in self.files | self.quoted) or self.is_quoted(name)
        return name in self.files or self.is_quoted(name)


def complaints():
    tests, shown, count = Tests(), set(), 0
    for what, tests_of in rows():
        mentioned = set(re.findall(r"(hwt[a-z-]*\(7\)) \*([^*]+)\*", what))
        shown |= mentioned
        names = [text.split()[0] for text in re.findall(r"`([^`]+)`", tests_of)]
        if mentioned and not names:
            yield f"the row of {what} has no test"
        for name in names if not re.fullmatch(r"`\w+/`", what) else ():  # that is a folder
            count += 1
            if not re.match(r"-|sh$|build/", name) and not tests.has(name):
                yield f"there is no {name}, which should show: {what}"
    if count < 100:
        yield f"only {count} tests were found in the tables: they are not read as they stand"
    promised = {(page, name) for page in PAGES for name in promises_of(page)}
    yield from (f"no row shows {page} *{name}*" for page, name in sorted(promised - shown))
    yield from (f"{page} does not promise *{name}*" for page, name in sorted(shown - promised))


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        sys.exit(0 if sys.argv[1:] == ["--help"] else 2)
    found = list(complaints())
    for complaint in found:
        print(f"tests/README.md: {complaint}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
