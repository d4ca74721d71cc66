#!/usr/bin/env python3
"""python3 tests/house/similar.py [--list]: how much code there is, and how much of it twice.

Lines of code by folder, without blank lines and comments; and the pairs of files of the product that share six consecutive
lines or more, letter by letter, or but for names and numbers. Besides blank lines and comments, what every file has at its
top and rows of tables (lines that begin with a field, a brace, a literal or an address and end with a comma) do not count.
--list names the pairs of equal lines, most lines first."""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).absolute().parent.parent.parent
PRODUCT = ("formats", "imperative", "ir", "ops", "passes", "runtime", "tools")
LEAST = 6

STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
WORD = re.compile(r"\b\w+\b")


def code_lines(text):
    """(number, text) of the lines that are neither blank nor comments."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    for number, line in enumerate(text.split("\n"), 1):
        bare = STRING.sub(lambda m: "s" * len(m.group()), line)
        line = line[:bare.index("//")] if "//" in bare else line
        if line.strip():
            yield number, " ".join(line.split())


def is_counted(line):
    return not (line.startswith(("#", "using ", "namespace ")) or (line[0] in '.{"&' and line.endswith(",")))


def windows(lines):
    """(position, LEAST lines) for each run of so many."""
    for at in range(len(lines) - LEAST + 1):
        yield at, tuple(text for _, text in lines[at:at + LEAST])


def shared_lines(left, right):
    """The lines of the left file that are in a run which the right file has, too."""
    known = {window for _, window in windows(right)}
    shared = set()
    for at, window in windows(left):
        if window in known:
            shared.update(number for number, _ in left[at:at + LEAST])
    return shared


def pairs_of(files):
    """The files that have a run of lines in common, and the lines of the first in such runs."""
    owners = collections.defaultdict(set)
    for name, lines in files.items():
        for _, window in windows(lines):
            owners[window].add(name)
    pairs = sorted({(a, b) for names in owners.values() for a in names for b in names if a < b})
    return {pair: shared_lines(files[pair[0]], files[pair[1]]) for pair in pairs}


def main():
    folders, files = collections.Counter(), {}
    for part in (*PRODUCT, "bench", "tests", "docs"):
        for path in sorted((ROOT / part).rglob("*")):
            if path.suffix not in (".cc", ".h"):
                continue
            lines = list(code_lines(path.read_text()))
            name = path.relative_to(ROOT).as_posix()
            folders[name.rpartition("/")[0]] += len(lines)
            if part in PRODUCT:
                files[name] = [(number, line) for number, line in lines if is_counted(line)]
    equal = pairs_of(files)
    alike = pairs_of({name: [(number, WORD.sub("x", line)) for number, line in lines] for name, lines in files.items()})
    if "--list" in sys.argv[1:]:
        for a, b in sorted(equal, key=lambda pair: (-len(equal[pair]), pair)):
            print(f"{len(equal[a, b]):7} lines from {a}:{min(equal[a, b])} in {b}")
    for folder in sorted(folders):
        print(f"{folders[folder]:7,} {folder}")
    product = sum(count for folder, count in folders.items() if folder.split("/")[0] in PRODUCT)
    print(f"lines of code: {product:,} of the product, {sum(folders.values()) - product:,} of tests, benchmarks and examples")
    print(f"pairs of files that share {LEAST} lines or more: {len(equal)}, with {sum(map(len, equal.values())):,} lines; "
          f"but for names and numbers: {len(alike)}, with {sum(map(len, alike.values())):,}")


if __name__ == "__main__":
    main()
