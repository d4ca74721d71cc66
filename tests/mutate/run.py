"""Breaks the sources in many small ways and sees that the tests notice: `./dev mutate [ROW…]`, docs/mutation.md.

Every mutant of the lists beside this file goes into one copy of the tree, each behind a number in the environment
variable GRADC_MUTANT, so there is one build. Then the tests of each run with it switched on. Exit status 1 when a
mutant survives, is stale (its fragment is no longer there exactly once), or its tests fail without it.
"""
import argparse
import concurrent.futures
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import mutants as lists

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests"))
import binaries
TIMEOUT = 120  # seconds a test may take before its mutant counts as noticed
NOT_COPIED = {".git", "out", "shared"}


def copy_tree(scratch, all_mutants):
    """Brings the copy up to date, touching only files that differ, so that a kept copy builds incrementally."""
    mutants_of = {}
    for mutant in all_mutants:
        mutants_of.setdefault(mutant.file, []).append(mutant)
    wanted = set()
    for folder, folders, files in os.walk(REPO):
        here = pathlib.Path(folder).relative_to(REPO)
        if here == pathlib.Path("."):
            folders[:] = [f for f in folders if f not in NOT_COPIED]
        for name in files:
            relative = here / name
            content = (REPO / relative).read_bytes()
            if str(relative) in mutants_of:
                content = lists.mutated(mutants_of[str(relative)], content.decode("utf-8")).encode("utf-8")
            target = scratch / relative
            wanted.add(target)
            if target.is_file() and target.read_bytes() == content:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod((REPO / relative).stat().st_mode | 0o200)
    for folder, _, files in os.walk(scratch):
        for name in files:
            if pathlib.Path(folder) / name not in wanted:
                (pathlib.Path(folder) / name).unlink()


class Bazel:
    """Bazel over the copy, with an output base of its own."""

    def __init__(self, scratch, base):
        self.scratch = scratch
        self.startup = ["bazel", *shlex.split(os.environ.get("GRADC_BAZEL_STARTUP", "")), f"--output_base={base}"]
        self.flags = shlex.split(os.environ.get("GRADC_BAZEL_FLAGS", ""))

    def run(self, command, *args, **options):
        flags = [] if command == "shutdown" else self.flags
        return subprocess.run([*self.startup, command, *flags, *args], cwd=self.scratch, text=True, **options)

    def build(self, targets):
        return self.run("build", "--keep_going", "--", *[f"//tests:{target}" for target in sorted(targets)]).returncode == 0

    def bin_dir(self):
        return pathlib.Path(self.run("info", "bazel-bin", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                     check=True).stdout.strip())


def run_test(bin_dir, target, test_filter, number, is_limited=True):
    """(outcome, output): passed, failed, timeout or empty (no such test). A limit on its address space stops a mutant that
    asks for more and more memory."""
    tree = bin_dir / "tests" / f"{target}.runfiles" / "gradc"
    # Out of the way of other runs, and of what a mutant may leave behind.
    with tempfile.TemporaryDirectory(prefix="gradc-mutant-") as temporary:
        environment = dict(os.environ, TEST_TMPDIR=temporary, TMPDIR=temporary)
        environment.pop("GRADC_MUTANT", None)
        if number:
            environment["GRADC_MUTANT"] = str(number)
        command = [str(bin_dir / "tests" / target), f"--gtest_filter={test_filter}", "--gtest_fail_fast",
                   "--gtest_brief=1"]
        space = [f"--as={8 << 30}"] if is_limited else []
        limits = ["prlimit", *space, "--core=0", "--"] if shutil.which("prlimit") else []
        try:
            done = subprocess.run(limits + command, cwd=tree, env=environment, timeout=TIMEOUT,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")
        except subprocess.TimeoutExpired:
            return "timeout", ""
    if done.returncode:
        return "failed", done.stdout
    return ("empty" if "PASSED  ] 0 tests" in done.stdout else "passed"), done.stdout


def broken_tests(pool, bin_dir, chosen):
    """Tests that do not exist or fail with every mutant off, with what they said; and those that pass only without the limit
    on memory: they reserve more than the machine has."""
    pairs = sorted({pair for mutant in chosen for pair in mutant.tests})
    broken, unlimited = {}, set()
    for pair, (outcome, output) in zip(pairs, pool.map(lambda pair: run_test(bin_dir, *pair, 0), pairs)):
        if outcome == "failed" and run_test(bin_dir, *pair, 0, is_limited=False)[0] == "passed":
            unlimited.add(pair)
        elif outcome != "passed":
            said = {"failed": "fails without a mutant", "timeout": "takes too long", "empty": "matches no test"}[outcome]
            broken[pair] = f"{pair[0]} {pair[1]}: {said}\n{output[-2000:]}"
    return broken, unlimited


def is_noticed(bin_dir, mutant, broken, unlimited):
    return any(run_test(bin_dir, *pair, mutant.number, pair not in unlimited)[0] != "passed"
               for pair in mutant.tests if pair not in broken)


def judge(bin_dir, chosen):
    """Runs the chosen mutants; returns the survivors and the tests that are themselves at fault."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
        broken, unlimited = broken_tests(pool, bin_dir, chosen)
        for said in broken.values():
            print(said)
        noticed = pool.map(lambda mutant: is_noticed(bin_dir, mutant, broken, unlimited), chosen)
        survivors = []
        for mutant, found in zip(chosen, noticed):
            if not found and all(pair in broken for pair in mutant.tests):
                print(f"no judge {mutant}")
                continue
            print(f"{'noticed ' if found else 'SURVIVED'} {mutant}", flush=True)
            if not found:
                survivors.append(mutant)
        return survivors, list(broken)


def changed_since(commit):
    """Files of the working tree that differ from the commit, those that are new to git included."""
    def names(*command):
        done = subprocess.run(["git", command[0], "-z", *command[1:]], cwd=REPO, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode:
            sys.exit(f"--changed: {done.stderr.strip()}")
        return {name for name in done.stdout.split("\0") if name}
    return names("diff", "--name-only", commit, "--") | names("ls-files", "--others", "--exclude-standard")


def in_programs(tests):
    """(program, filter) of each (source, filter): a program has the tests of several sources."""
    pairs = []
    for name, test_filter in tests:
        source = binaries.source_of(name)
        pairs.append((binaries.program(source), binaries.filter_of(source) if test_filter == "*" else test_filter)
                     if source else (name, test_filter))
    return list(dict.fromkeys(pairs))


def build_and_judge(all_mutants, chosen, keep):
    folder = pathlib.Path(keep).resolve() if keep else pathlib.Path(tempfile.mkdtemp(prefix="gradc-mutate-"))
    bazel = Bazel(folder / "tree", folder / "base")
    try:
        (folder / "tree").mkdir(parents=True, exist_ok=True)
        copy_tree(folder / "tree", all_mutants)
        if not bazel.build({target for mutant in chosen for target, _ in mutant.tests}):
            print("the mutated copy does not build")
            return None
        return judge(bazel.bin_dir(), chosen)
    finally:
        bazel.run("shutdown", stderr=subprocess.DEVNULL)
        if not keep:
            # Bazel's own files are read-only.
            subprocess.run(["chmod", "-R", "u+w", str(folder)], check=False)
            shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(prog="./dev mutate", description="break the sources, see that the tests notice")
    parser.add_argument("rows", nargs="*", help="only the mutants of these rows (AGG-05) and operators (op:Pooling)")
    parser.add_argument("--changed", metavar="COMMIT", help="only the mutants of files that differ from this commit")
    parser.add_argument("--list", action="store_true", help="only locate the mutants and list them")
    parser.add_argument("--keep", metavar="DIR", help="work in this folder and leave it, so that the next build is short")
    options = parser.parse_args()

    all_mutants = lists.read_lists(pathlib.Path(__file__).parent)
    rows = lists.rows_of_tests(REPO)
    problems = lists.place_all(all_mutants, REPO) + lists.give_default_tests(all_mutants, rows)
    changed = changed_since(options.changed) if options.changed else None
    chosen = [m for m in all_mutants if (not options.rows or m.row in options.rows)
              and (changed is None or m.file in changed)]
    problems += [f"no mutant of {row}" for row in options.rows if not any(m.row == row for m in all_mutants)]
    if problems:
        print("\n".join(problems))
        return 1
    if changed is not None and not chosen:
        print(f"no mutant of the files that differ from {options.changed}")
        return 0
    if options.list:
        for mutant in chosen:
            print(mutant, " ".join(f"{target}:{test_filter}" for target, test_filter in mutant.tests))
        return 0
    for mutant in chosen:
        mutant.tests = in_programs(mutant.tests)
    start = time.monotonic()
    # Files without a chosen mutant stay as they are, so that they need not be compiled again.
    verdict = build_and_judge([m for m in all_mutants if m.file in {c.file for c in chosen}], chosen, options.keep)
    if verdict is None:
        return 1
    survivors, broken = verdict
    print()
    without = sorted(rows.keys() - {m.row for m in all_mutants})
    if without and not options.rows and not options.changed:
        print(f"rows with tests and without a mutant: {' '.join(without)}")
    for target, test_filter in broken:
        print(f"no judge, for it does not pass without a mutant: {target} {test_filter}")
    for mutant in survivors:
        print(f"survived: {mutant}: {mutant.find!r} -> {mutant.replace!r}")
    print(f"{len(chosen)} mutants, {len(survivors)} survived, {time.monotonic() - start:.0f} s")
    return 1 if survivors or broken else 0


if __name__ == "__main__":
    sys.exit(main())
