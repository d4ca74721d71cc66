#!/usr/bin/env python3
"""python3 tests/house/draw.py [-]: draws docs/house.svg from the sources; with `-`, on standard output.

A box is a folder with its number of files, an arrow an #include that is not implied by others. Folders are above what
they include; those that include each other are in a red frame. Tests, benchmarks and examples are left out."""
import collections
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).absolute().parent.parent.parent
OTHERS = ("bench", "docs", "external", "out", "testdata", "tests", "third_party")
MOST_FILES = 25
BOX, HIGH, GAP, DROP, MARGIN = 146, 40, 18, 74, 16
ROW = 8  # boxes beside each other

STYLE = """  text { font: 12px sans-serif; fill: #1f2328; text-anchor: middle }
  .count { font-size: 10px; fill: #59636e }
  .box { fill: #f6f8fa; stroke: #8c959f }
  .crowded { stroke: #cf222e }
  .circle { fill: none; stroke: #cf222e; stroke-dasharray: 4 3 }
  .arrow { fill: none; stroke: #8c959f }
  .tip { fill: #8c959f }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .count { fill: #9198a1 } .box { fill: #151b23 }
  }"""


def read_tree(root):
    """Number of sources by folder, and the folders that each includes."""
    counts, edges = collections.Counter(), collections.defaultdict(set)
    parts = sorted(path.name for path in root.iterdir() if path.is_dir() and path.name[0] != "." and path.name not in OTHERS)
    for part in parts:
        for folder, below, names in os.walk(root / part):
            below.sort()
            here = pathlib.Path(folder).relative_to(root).as_posix()
            for name in sorted(names):
                if not name.endswith((".cc", ".h")):
                    continue
                counts[here] += 1
                text = pathlib.Path(folder, name).read_text()
                for included in re.findall(r'^#include "([^"]*)/[^"/]*"', text, re.M):
                    if included != here and included.split("/")[0] in parts:
                        edges[here].add(included)
    return counts, edges


def reached(edges, start):
    found, todo = set(), [start]
    while todo:
        for to in edges[todo.pop()]:
            if to not in found:
                found.add(to)
                todo.append(to)
    return found


def groups_of(folders, edges):
    """Folders that lead to each other, as one tuple."""
    from_ = {folder: reached(edges, folder) for folder in folders}
    return sorted({tuple(sorted(other for other in folders if other == folder or (other in from_[folder] and folder in from_[other])))
                   for folder in folders})


def reduced(groups, edges):
    """The arrows between groups that no others imply: (from, to, the two folders)."""
    group = {folder: g for g in groups for folder in g}
    between = collections.defaultdict(set)
    for folder in sorted(edges):
        between[group[folder]] |= {group[to] for to in edges[folder] if group[to] != group[folder]}
    for g in groups:
        between[g]  # a group without arrows
    implied = {g: set().union(*(reached(between, to) for to in between[g])) for g in groups}
    arrows = []
    for g in groups:
        for to in sorted(between[g] - implied[g]):
            arrows.append((g, to, min((a, b) for a in g for b in sorted(edges[a]) if b in to)))
    return arrows, between


def levels_of(groups, between):
    levels = {}

    def level(g):
        if g not in levels:
            levels[g] = 1 + max((level(to) for to in between[g]), default=-1)
        return levels[g]

    for g in groups:
        level(g)
    return levels


def rows_of(groups, levels, between):
    """From the top: lists of groups that fit beside each other, each near what it includes."""
    places, rows = {}, []
    for number in range(max(levels.values()) + 1):
        here = [g for g in groups if levels[g] == number]
        here.sort(key=lambda g: (sum(places[to] for to in sorted(between[g])) / max(len(between[g]), 1), g))
        row = []
        for g in here:
            if row and sum(map(len, row)) + len(g) > ROW:
                rows.append(row)
                row = []
            row.append(g)
        rows.append(row)
        for g in here:
            mine = next(row for row in rows if g in row)
            before = sum(len(other) for other in mine[:mine.index(g)])
            places[g] = before + len(g) / 2 - sum(map(len, mine)) / 2
    return rows[::-1]


def place(rows):
    """The upper left corner of each folder's box, and the size of the picture."""
    width = max(sum(map(len, row)) for row in rows) * (BOX + GAP) + 2 * MARGIN
    corners = {}
    for number, row in enumerate(rows):
        left = (width - sum(map(len, row)) * (BOX + GAP) + GAP) // 2
        for folder in (folder for g in row for folder in g):
            corners[folder] = (left, MARGIN + number * (HIGH + DROP))
            left += BOX + GAP
    return corners, width, 2 * MARGIN + len(rows) * (HIGH + DROP) - DROP


def draw(root):
    counts, edges = read_tree(root)
    groups = groups_of(sorted(counts), edges)
    arrows, between = reduced(groups, edges)
    corners, width, height = place(rows_of(groups, levels_of(groups, between), between))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
           "<title>Folders of gradc and what they include</title>", f"<style>\n{STYLE}\n</style>",
           '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
           '<path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>']
    leaving, entering = (collections.Counter(pair[i] for _, _, pair in arrows) for i in (0, 1))
    used = collections.Counter()

    def along(folder, key, total):
        """The next place on a side of a box: arrows share it evenly."""
        used[key] += 1
        return corners[folder][0] + BOX * used[key] // (total + 1)

    for _, _, (a, b) in sorted(arrows, key=lambda arrow: (corners[arrow[2][0]], corners[arrow[2][1]])):
        x, y = along(a, (a, "out"), leaving[a]), corners[a][1] + HIGH
        u, v = along(b, (b, "in"), entering[b]), corners[b][1]
        out.append(f'<path class="arrow" marker-end="url(#tip)" d="M{x} {y}C{x} {y + DROP // 2} {u} {v - DROP // 2} {u} {v}"/>')
    for g in groups:
        if len(g) > 1:
            (left, top), right = corners[g[0]], corners[g[-1]][0] + BOX
            out.append(f'<rect class="circle" x="{left - 6}" y="{top - 6}" width="{right - left + 12}" height="{HIGH + 12}" rx="6"/>')
    for folder in sorted(counts):
        x, y = corners[folder]
        crowded = " crowded" if counts[folder] > MOST_FILES else ""
        out += [f'<rect class="box{crowded}" x="{x}" y="{y}" width="{BOX}" height="{HIGH}" rx="4"/>',
                f'<text x="{x + BOX // 2}" y="{y + 17}">{folder}/</text>',
                f'<text class="count" x="{x + BOX // 2}" y="{y + 32}">{counts[folder]} files</text>']
    return "\n".join(out + ["</svg>", ""])


if __name__ == "__main__":
    if sys.argv[1:] == ["-"]:
        sys.stdout.write(draw(ROOT))
    else:
        (ROOT / "docs/house.svg").write_text(draw(ROOT))
