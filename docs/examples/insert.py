"""Makes the edits that a page tells its reader to make: prints FILE with a block of PAGE before the first line that
begins with MARKER, and, if one is given, another line after it.

    insert.py PAGE BLOCK FILE MARKER [LINE]

BLOCK is what follows the language after the fence.
"""
import sys


def block_of(page, name):
    lines = open(page, encoding="utf-8").read().split("\n")
    begin = next(i for i, line in enumerate(lines) if line.startswith("```") and line.endswith(" " + name))
    return lines[begin + 1:lines.index("```", begin)]


def main(page, name, path, marker, *more):
    lines = open(path, encoding="utf-8").read().split("\n")
    at = next(i for i, line in enumerate(lines) if line.lstrip().startswith(marker))
    print("\n".join(lines[:at] + block_of(page, name) + [lines[at], *more] + lines[at + 1:]), end="")


main(*sys.argv[1:])
