"""The lists of mutants: reading them, and writing them into a copy of the sources.

A list is a text file of blocks; `#` starts a comment line.

    AGG-05 passes/gradient/accumulate.cc    the row, or rows as in AGG-02,ZERO-02; an operator: op:Pooling; or a word
    @ bool isLater(            optional: the fragment is the first one after this text
    - a.value > b.value        the fragment; without @ it must occur exactly once in the file
    + true                     what takes its place when the mutant is switched on
    ? gradient_sum_test *Copy*   optional, repeatable: test target, and filter if it is not *AGG_05*

A fragment that ends in `;` is a statement (of those a declaration will not do), any other an expression. Several `-` or `+` lines are one fragment;
`@` and `-` match whatever the white space. Without `?`, row AGG-05 is judged by every test whose name has AGG_05 in
it, and op:Pooling by the samples of Pooling in conformance_test; `? oracle_test` alone means the values that MXNet gave
for Pooling. A mutant of neither, headed by a word, has its tests written out.
"""
import pathlib
import re
import zlib
from dataclasses import dataclass, field, replace as altered

SELECTOR = """#ifndef GRADC_MUTANT_SELECTOR
#define GRADC_MUTANT_SELECTOR
#include <cstdlib>
inline const int selectedMutant = std::getenv("GRADC_MUTANT") ? std::atoi(std::getenv("GRADC_MUTANT")) : 0;
inline bool mutant(int id) { return selectedMutant == id; }
#endif
"""

# What an expression neither begins nor ends with.
OPENS_BADLY = r"\{|&&|\|\||->|:(?!:)|[?,=<>/%|^)\]}.]"
ENDS_BADLY = r"(&&|\|\||->|(?<!\+)\+|(?<!-)-|[?:,=<>*/%|^!&.])$"
# Binary operators, loosest first; they have spaces around them.
BINARY = {operator: level for level, group in enumerate(
    ["? :", "||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %"]) for operator in group.split()}
BEGINS_STATEMENT = r"([;{}):]|\belse|\bdo)\s*\Z"  # what stands before one
DECLARES = r"(const|constexpr|auto|static)\b|[A-Z]\w*(<[^;=]*>)? [&*]?\w+( =|;)"


@dataclass
class Mutant:
    number: int
    row: str
    file: str
    place: str  # list file and line, for messages
    anchor: str = ""
    find: str = ""
    replace: str = ""
    tests: list = field(default_factory=list)  # (target, filter)
    span: tuple = (0, 0)
    line: int = 0  # in the source

    def __str__(self):
        return f"{self.row} ({self.file}:{self.line})"


def read_lists(folder):
    """All mutants, in the order of the files' names. A number depends on the mutant alone: the same in longer lists, so that
    a kept copy of a file stays as it is."""
    mutants = read_blocks(folder)
    taken = set()
    for mutant in mutants:
        text = "\0".join((mutant.row, mutant.file, mutant.anchor, mutant.find, mutant.replace))
        mutant.number = zlib.crc32(text.encode("utf-8")) & 0x7fffffff
        while mutant.number == 0 or mutant.number in taken:
            mutant.number = (mutant.number + 1) & 0x7fffffff
        taken.add(mutant.number)
    return mutants


def read_blocks(folder):
    mutants = []
    for path in sorted(folder.glob("*.txt")):
        current = None
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            mark, text = line[:1], line[1:].strip()
            if not line.strip():
                current = None
            elif mark == "#":
                continue
            elif mark in "@-+?":
                if current is None:
                    raise ValueError(f"{path.name}:{number}: no mutant to belong to")
                if mark == "?":
                    current.tests.append(tuple(text.split()))
                else:
                    key = {"@": "anchor", "-": "find", "+": "replace"}[mark]
                    setattr(current, key, (getattr(current, key) + "\n" + text).strip())
            else:
                row, file = line.split()
                current = Mutant(0, row, file, f"{path.name}:{number}")
                mutants.append(current)
    return [one for mutant in mutants for one in per_row(mutant)]


def per_row(mutant):
    """A block for several rows, `AGG-02,ZERO-02`, is a mutant of each."""
    return [altered(mutant, row=row, tests=list(mutant.tests)) for row in mutant.row.split(",")]


def pattern_of(fragment):
    return re.compile(r"\s+".join(re.escape(word) for word in fragment.split()))


def quoted_spans(text):
    """Where comments and the insides of string and character literals are."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z])\'(?:\\.|[^\'\\\n])*\''
    return [match.span() for match in re.finditer(pattern, text, re.DOTALL)]


def matches_in_code(fragment, text, start=0):
    """Where the fragment is in code; one that begins with a quote may begin a string."""
    found = list(pattern_of(fragment).finditer(text, start))
    spans = quoted_spans(text)
    return [match for match in found
            if not any(begin < match.start() < end or (begin == match.start() and text[begin] == "/")
                       for begin, end in spans)]


def loosest_level(fragment):
    """The level of the loosest operator outside of brackets and strings; None where there is none."""
    levels, depth = [], 0
    for token in re.findall(r'"(?:\\.|[^"\\])*"|[(\[{]|[)\]}]|(?<=\s)[?:|&^=!<>+*/%-]+(?=\s)', fragment):
        depth += (token in "([{") - (token in ")]}")
        if depth == 0 and token in BINARY:
            levels.append(BINARY[token])
    return min(levels, default=None)


def is_torn(fragment, before, after):
    """Whether what stands around the fragment binds more tightly than an operator of it, so that it cannot be an operand."""
    level = loosest_level(fragment)
    if level is None:
        return False
    left, right = re.search(r"\s(\S+)\s+\Z", before), re.match(r"\s+(\S+)\s", after)
    return (any(side and BINARY.get(side.group(1), 0) > level for side in (left, right))
            or bool(re.search(r"[\s(\[{,][!~*&-]\Z", before)) or bool(re.match(r"\.\w|->|\(|\[", after)))


def locate(mutant, text):
    """Sets where the fragment is; returns what is wrong, or None."""
    if not mutant.find or not mutant.replace:
        return "lacks a fragment or what to put in its place"
    for open_mark, close_mark in ("()", "{}", "[]"):
        if any(part.count(open_mark) != part.count(close_mark) for part in (mutant.find, mutant.replace)):
            return f"its {open_mark} and {close_mark} do not match"
    if not mutant.find.endswith(";") and any(re.match(r";|(if|for|while|return|else|case)\b", part) for part in (mutant.find, mutant.replace)):
        return "it is part of a statement and no expression"
    if not mutant.find.endswith(";") and any(re.match(OPENS_BADLY, part) or re.search(ENDS_BADLY, part)
                                             for part in (mutant.find, mutant.replace)):
        return "it begins or ends with a binary operator, so it is not an expression"
    if mutant.find.endswith(";") and re.match(DECLARES, mutant.find):
        return "it is a declaration, which would be of the inner block alone"
    if re.match(r"else\b", mutant.find):
        return "its `else` would lose the `if`"
    start = 0
    if mutant.anchor:
        anchors = matches_in_code(mutant.anchor, text)
        if len(anchors) != 1:
            return f"its anchor occurs {len(anchors)} times in {mutant.file}"
        start = anchors[0].start()
    found = matches_in_code(mutant.find, text, start)
    if not found or (len(found) > 1 and not mutant.anchor):
        return f"its fragment occurs {len(found)} times in {mutant.file}"
    if mutant.find.endswith(";") and not re.search(BEGINS_STATEMENT, re.sub(r"//[^\n]*", "", text[:found[0].start()])):
        return "it is the end of a statement"
    if not mutant.find.endswith(";") and is_torn(mutant.find, text[:found[0].start()], text[found[0].end():]):
        return "it is cut out of an expression that binds more tightly"
    mutant.span = found[0].span()
    mutant.line = text.count("\n", 0, mutant.span[0]) + 1
    return None


def place_all(mutants, root):
    """Locates every mutant; returns the list of complaints."""
    problems = []
    for mutant in mutants:
        path = root / mutant.file
        problem = locate(mutant, path.read_text(encoding="utf-8")) if path.exists() else "its file is gone"
        if problem:
            problems.append(f"{mutant.place}: {mutant.row}: {problem}")
    if problems:
        return problems
    for i, a in enumerate(mutants):
        for b in mutants[i + 1:]:
            if a.file == b.file and a.span != b.span:
                if a.span[0] < b.span[1] and b.span[0] < a.span[1]:
                    problems.append(f"{b.place}: {b.row}: overlaps {a.row} of {a.place}")
    return problems


def switched(group, original):
    """The source text that stands for `original` and every mutant of that same span."""
    if original.endswith(";"):
        text = "{ " + original + " }"
        for mutant in group:
            text = f"if (::mutant({mutant.number})) {{ {mutant.replace} }} else {text}"
        return "{ " + text + " }"  # no `if` or `else` around it may pair with these
    text = "(" + original + ")"
    for mutant in group:
        text = f"(::mutant({mutant.number}) ? ({mutant.replace}) : {text})"
    return text


def mutated(mutants, text):
    """The text of one file with all of its mutants, already located in it."""
    spans = {}
    for mutant in mutants:
        spans.setdefault(mutant.span, []).append(mutant)
    for (begin, end), group in sorted(spans.items(), reverse=True):
        text = text[:begin] + switched(group, text[begin:end]) + text[end:]
    return SELECTOR + text


def rows_of_tests(root):
    """Row → test targets with a test, golden case or vector named after it."""
    named = [(path.stem, re.findall(r"^TEST(?:_[FP])?\(\s*\w+,\s*(\w+)", path.read_text(encoding="utf-8"), re.M))
             for path in sorted((root / "tests").rglob("*_test.cc"))]
    named.append(("golden_test", sorted(path.parent.name for path in (root / "testdata").rglob("args"))))
    named.append(("vectors_test", sorted(path.stem for path in (root / "testdata" / "vectors").glob("*.json"))))
    rows = {}
    for target, names in named:
        for kind, number in re.findall(r"(?<![A-Za-z])([A-Z]+)_(\d\d)(?!\d)", " ".join(names)):
            targets = rows.setdefault(f"{kind}-{number}", [])
            if target not in targets:
                targets.append(target)
    return rows


def own_filters(operator):
    """Test target → the filter that chooses the operator's samples, or the values that MXNet gave for it."""
    return {"conformance_test": f"*/{'own' if operator.startswith('_') else ''}{operator}_*",
            "oracle_test": f"*/op_{operator}"}


def give_default_tests(mutants, rows):
    """Fills in the tests that are not written out; returns the list of complaints."""
    problems = []
    for mutant in mutants:
        if mutant.row.startswith("op:"):
            own = own_filters(mutant.row[3:])
            default = [("conformance_test", own["conformance_test"])]
        else:
            own = dict.fromkeys(rows.get(mutant.row, []), f"*{mutant.row.replace('-', '_')}*")
            default = list(own.items())
        # Of a block for several rows, each row has its tests in some of the targets.
        written = [test if len(test) == 2 else (test[0], own[test[0]]) for test in mutant.tests
                   if len(test) == 2 or test[0] in own]
        mutant.tests = written if mutant.tests else default
        if not mutant.tests:
            problems.append(f"{mutant.place}: no test is named after {mutant.row}")
    return problems
