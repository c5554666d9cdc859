# SPDX-License-Identifier: LGPL-2.1-or-later
"""Prints the layout of the public structs as assertions in C.

    python3 layout.py FILE.abi FOLDER HEADER...

FILE.abi is what abidw has written of a library, the headers are in FOLDER. A struct that begins with
its size may grow, any other may not. A field called reserved... may become something.
"""

import re
import sys
import xml.etree.ElementTree as tree


def main():
    path, folder, *headers = sys.argv[1:]
    text = "".join(open(f"{folder}/{header}", encoding="utf-8").read() for header in headers)
    public = set(re.findall(r"^(?:typedef )?struct (hwt_\w+) \{", text, re.MULTILINE))
    print("/* SPDX-License-Identifier: LGPL-2.1-or-later */\n")
    print("/* Made by abi.sh --release. */\n")
    print("".join(f"#include <hwt/{header}>\n" for header in headers) + "#include <stddef.h>\n")
    for struct in tree.parse(path).iter("class-decl"):
        name = struct.get("name")
        if name not in public or struct.get("is-declaration-only"):
            continue
        public.remove(name)
        fields = [(field.find("var-decl").get("name"), int(field.get("layout-offset-in-bits")) // 8)
                  for field in struct.iter("data-member")]
        at_most = ">=" if fields[0][0] == "size" else "=="
        size = int(struct.get("size-in-bits")) // 8
        print(f'_Static_assert(sizeof(struct {name}) {at_most} {size}, "{name}");')
        for field, offset in fields:
            if not field.startswith("reserved"):
                print(f'_Static_assert(offsetof(struct {name}, {field}) == {offset}, "{name}.{field}");')
    if public:
        sys.exit(f"layout.py: {path} does not have {', '.join(sorted(public))}")


main()
