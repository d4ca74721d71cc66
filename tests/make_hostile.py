#!/usr/bin/env python3
"""Writes the corpus of tests/formats/json/hostile_test.cc: one file per class of faults, one case per line.

usage: make_hostile.py [--check]      --check: only say whether the files are what this would write

testdata/hostile/originals.jsonl holds the graphs that a fuzzer and people found faults with; it is kept by hand. The other
files are their relatives: other operators, numbers, ranks, types and positions. Needs Python 3 alone; the same every time.
"""

import json
import pathlib
import sys

from hostile import documents, empty, extents, fused, loops, numbers, operands, sizes, types, windows

MODULES = [extents, windows, sizes, operands, fused, empty, documents, numbers, types, loops]
FOLDER = pathlib.Path(__file__).resolve().parents[1] / "testdata" / "hostile"


def lines(cases):
    names = set()
    for case in cases:
        assert case["name"] not in names, "two cases are named " + case["name"]
        names.add(case["name"])
        yield json.dumps(case, separators=(",", ":")) + "\n"


def main():
    different = []
    for module in MODULES:
        for name, cases in module.CLASSES.items():
            path, text = FOLDER / (name + ".jsonl"), "".join(lines(cases()))
            if "--check" in sys.argv:
                if not path.exists() or path.read_text() != text:
                    different.append(path.name)
            else:
                FOLDER.mkdir(exist_ok=True)
                path.write_text(text)
    if different:
        sys.exit("not what make_hostile.py writes: " + ", ".join(different))


if __name__ == "__main__":
    main()
