"""The program that runs a source of tests, and the filter of GoogleTest that chooses the tests of that source.

    binaries.py NAME…    a line for each: TARGET FILTER; x/foo_test.cc is named foo or foo_test

Exit status 1, and nothing printed, when there is no such source.
"""
import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parent
SUITE = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P)\(\s*(\w+)", re.M)


def _rules():
    rules = {}
    exec((TESTS / "binaries.bzl").read_text(encoding="utf-8"), rules)
    return rules


_program_of = _rules()["program_of"]


def source_of(name):
    """The path of NAME.cc or NAME_test.cc under tests/; None without it."""
    stem = name if name.endswith("_test") else name + "_test"
    found = sorted(path for path in TESTS.rglob(stem + ".cc"))
    return found[0] if found else None


def suites(source):
    return list(dict.fromkeys(SUITE.findall(source.read_text(encoding="utf-8"))))


def program(source):
    return _program_of(str(source.relative_to(TESTS)))


def filter_of(source):
    """All tests of the source, with and without a parameter."""
    return ":".join(f"{suite}.*:*/{suite}.*" for suite in suites(source))


def main(names):
    sources = [source_of(name) for name in names]
    if None in sources:
        return 1
    for source in sources:
        print(program(source), filter_of(source))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
