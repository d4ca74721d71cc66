#!/usr/bin/env python3
"""python3 tests/house/replay.py OLD NEW: whether two builds of gradc do the same, byte for byte.

For changes that move code and change nothing. Runs both binaries over
  golden   the commands of testdata/**/args
  graphs   real networks: SHARED/graphs/mxnet
  paddle   programs: SHARED/programs/paddle, testdata/blocks, paddle and paddle_steps
  loops    testdata/loops and the networks of testdata/char_lstm, demo and gluon
  files    testdata/fuzz, and a part of testdata/hostile
  random   2,000 graphs that tests/house/replay_graphs.py draws
  pages    help texts and the operator reference
and compares what they print, exit with and write: graphs, plans, reports, pictures, values, messages. Prints one line for
each command that differs, with the first difference, and one line with counts. Exit code 1 when one differs, 2 when nothing
was compared. `differs` includes a command that runs out of time (20 s) or memory (6 GiB) with one binary alone.

  --shared DIR   ../shared; kinds that have no files there are left out
  --only KIND    repeatable
  --quick        every tenth case
  --jobs N       2
  --keep DIR     keeps what both wrote for the cases that differ, in DIR/old and DIR/new
"""
import argparse
import collections
import difflib
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import replay_graphs

ROOT = pathlib.Path(__file__).absolute().parents[2]
DATA = ROOT / "testdata"
LIMITS = "ulimit -v 6291456; ulimit -c 0"
SECONDS = 20

# Networks that run in a second or two.
RUN = {"autoencoder", "gluon-mlp", "lenet-train", "mtcnn-det1", "mtcnn-det3", "mxnet-clojure-mlp", "mxnet-elemwise-add-grad",
       "mxnet-notebook-mlp", "old-lenet-cpp", "old-mlp-cpp", "rnn-fused-gru", "rnn-fused-tanh", "tutorial-cnn",
       "tutorial-mlp-logistic"}
# Shapes for the graphs of testdata that have none.
SHAPES = {
    "loops/branch_in_loop": "x=3", "loops/cf03": "x=3", "loops/cf08": "x=1 i=1", "loops/cf11": "n=3,1 m=2,1",
    "loops/cf12": "x=3 h=1 w=1", "loops/cond": "p=1 a=1 b=1 c=1", "loops/curved_cond": "p=1 a=1 b=1",
    "loops/dropout_in_loop": "x=3,2", "loops/lacking_branch": "p=1 a=1 b=1", "loops/lstm": "x=3,2,4",
    "loops/lstm_unrolled": "x=4,2,5", "loops/norm_in_loop": "x=3,2,4", "loops/only_states": "x=3",
    "loops/powers": "x=1 i=1 w=1", "loops/squares": "x=3 i=1", "loops/swapped": "x=3",
    "loops/two_states": "x=3,2 t=2 w=2", "loops/while_in_foreach": "x=3,2", "char_lstm/loop": "data=5,3",
    "char_lstm/fused": "data=5,3", "demo/lenet": "data=4,1,28,28", "demo/digits": "data=4,1,8,8",
    "demo/resnet18": "data=2,3,32,32", "gluon/lstm_bidirectional": "data=5,2,6",
}


@dataclass
class Case:
    kind: str
    name: str
    commands: list                             # of gradc, without its name
    files: dict = field(default_factory=dict)  # name: path, bytes or text
    folder: str = ""                           # of the copy of testdata to run in; else one of its own, with the files


def shapes(text):
    return " ".join(f"--shape {shlex.quote(part)}" for part in text.split())


def golden_cases(_):
    for path in sorted(DATA.rglob("args")):
        folder = path.parent.relative_to(ROOT)
        yield Case("golden", str(folder), path.read_text().split("\n")[:1], folder=str(folder))


def graph_commands(given, runs, wrt="--wrt all"):
    """What is asked of a graph in.json with these flags."""
    gradient = f"grad in.json {wrt} --unused zeros {given}"
    commands = ["convert in.json -o canonical.json", "diff in.json canonical.json", "verify in.json",
                f"{gradient} -o grad.json", f"grad in.json --unused zeros --order 2 --naming mxnet {given} -o second.json",
                f"{gradient} --dialect mxnet -o mxnet.json", f"{gradient} --dialect primitives -o primitives.json",
                f"infer in.json --report {given}", f"plan grad.json {given} --report -o plan.json --svg plan.svg --max-nodes 400",
                f"plan in.json {given} --keep-forward --report", "show grad.json --as svg --max-nodes 400",
                "show grad.json --as dot --max-nodes 400", "show grad.json --as stats", "show grad.json"]
    if runs:
        commands += [f"run in.json --init 1 --outputs values.npz {given}",
                     f"run grad.json --init 1 --train --backend reference --outputs step.npz {given}",
                     f"run grad.json --init 2 --train --fuse all --outputs fast.npz {given}",
                     f"gradcheck in.json --init 1 --samples 2 --unused zeros {given}"]
    return commands


def real_cases(shared):
    folder = shared / "graphs/mxnet"
    known = shared / "oracle/shapes.json"
    table = json.loads(known.read_text()) if known.exists() else {}
    for path in sorted(folder.glob("*.symbol.json")):
        name = path.name.split(".")[0]
        dims = table.get(name, {}).get("shape", {})
        given = shapes(" ".join(f"{key}={','.join(map(str, size))}" for key, size in dims.items()))
        yield Case("graphs", name, graph_commands(given, name in RUN), {"in.json": path})


def program_commands(name):
    bound = "--max-iterations 20"
    return [f"convert {name} -o canonical.json", f"verify {name}", f"show {name}", f"grad {name} -o backward.json",
            f"grad {name} --as graph {bound} -o graph.json", f"show {name} --as graph {bound}", f"show backward.json --as svg {bound}",
            f"infer graph.json --report", f"plan graph.json --report",
            f"run backward.json --init 1 {bound} --outputs values.npz",
            f"run {name} --init 1 {bound} --backend reference --outputs forward.npz",
            f"gradcheck {name} --init 1 --samples 2 {bound}"]


def paddle_cases(shared):
    files = sorted((shared / "programs/paddle").glob("*.forward.*"))
    files += [path for part in ("blocks", "paddle", "paddle_steps") for path in sorted((DATA / part).rglob("*.json"))]
    files += sorted(DATA.rglob("*.pb"))
    for path in files:
        suffix = "pb" if path.suffix == ".pb" else "json"
        inside = path.relative_to(DATA if DATA in path.parents else shared)
        yield Case("paddle", str(inside), program_commands(f"in.{suffix}"), {f"in.{suffix}": path})


def loop_cases(_):
    for name, dims in SHAPES.items():
        given = shapes(dims)
        commands = graph_commands(given, True) + [
            f"opt in.json --passes unroll,inline {given} -o unrolled.json", f"run unrolled.json --init 1 --train {given}",
            f"grad in.json --unused zeros --order 2 {given} -o third.json", f"run third.json --init 1 --train {given}",
            f"opt grad.json --passes unroll {given}", "show in.json --as dot", "show in.json --as svg"]
        yield Case("loops", name, commands, {"in.json": DATA / f"{name}.json"})


def file_cases(_):
    commands = ["verify in.json", "infer in.json --report", "grad in.json --unused zeros -o grad.json", "plan grad.json --report",
                "grad in.json --dialect mxnet --unused zeros", "show grad.json", "opt in.json --passes unroll,inline",
                "run in.json --init 1", "run grad.json --init 1 --train",
                "verify in.json --diag json", "convert in.json"]
    for path in sorted((DATA / "fuzz").glob("*.json")):
        yield Case("files", str(path.relative_to(DATA)), commands, {"in.json": path})
    for name, text in replay_graphs.corpus(DATA):
        yield Case("files", name, commands, {"in.json": text})
    for path in sorted((DATA / "hostile").glob("*.jsonl")):
        for number, line in enumerate(path.read_text().splitlines()):
            if number % 12 == 0 and "graph" in (row := json.loads(line)):
                text = row["graph"] if isinstance(row["graph"], str) else json.dumps(row["graph"])
                yield Case("files", f"hostile/{path.stem}:{number + 1}", commands, {"in.json": text})


def random_cases(_):
    for seed, (text, flags) in enumerate(replay_graphs.draw_all(DATA, 2000)):
        commands = [f"grad in.json {flags} -o grad.json", "plan grad.json --report -o plan.json",
                    "run grad.json --init 1 --train --outputs step.npz"
                    + (" --backend reference" if seed % 2 else "")]
        extra = ["opt in.json --passes unroll,inline", "show grad.json --as svg", "infer grad.json --report",
                 "gradcheck in.json --init 1 --samples 1 --unused zeros", "grad in.json --dialect mxnet --unused zeros",
                 "grad in.json --dialect primitives --unused zeros", "convert in.json", "show grad.json --as dot"]
        yield Case("random", f"seed {seed}", commands + [extra[seed % len(extra)]], {"in.json": text})


def page_cases(_):
    verbs = ("grad", "infer", "plan", "run", "train", "gradcheck", "convert", "verify", "show", "opt", "ops", "diff")
    yield Case("pages", "help", ["--help", "--version", ""] + [f"help {verb}" for verb in verbs] + ["help me", "run --no"])
    yield Case("pages", "ops", ["ops", "ops --reference", "ops --primitives", "ops --json", "ops Pooling", "ops Poolin"])


KINDS = {"golden": golden_cases, "graphs": real_cases, "paddle": paddle_cases, "loops": loop_cases, "files": file_cases,
         "random": random_cases, "pages": page_cases}


class Side:
    """One binary and the folder in which it runs."""

    def __init__(self, binary, folder):
        self.folder = folder
        (folder / "data").mkdir(parents=True)
        self.binary = folder / "gradc"
        self.binary.symlink_to(pathlib.Path(binary).absolute())

    def copy_testdata(self):
        shutil.copytree(DATA, self.folder / "data/testdata")

    def place(self, case):
        return self.folder / "data" / case.folder if case.folder else self.folder / "cases" / case_id(case)

    def run(self, case):
        """Everything the commands print, exit with and write, by name; and the place where all of it is."""
        place = self.place(case)
        results = self.folder / "results" / case_id(case)
        results.mkdir(parents=True)
        place.mkdir(parents=True, exist_ok=True)
        for name, content in case.files.items():
            data = content.read_bytes() if isinstance(content, pathlib.Path) else content
            (place / name).write_bytes(data.encode() if isinstance(data, str) else data)
        before = set(place.iterdir())
        script = [LIMITS]
        for number, command in enumerate(case.commands):
            base = shlex.quote(str(results / str(number)))
            script.append(f"timeout -k 1 {SECONDS} \"$GRADC\" {command} >{base}.out 2>{base}.err </dev/null; echo $? >{base}.code")
        environment = {**os.environ, "GRADC": str(self.binary), "GRADC_NUM_THREADS": "1"}
        # The shell says on its own error stream which of its commands were killed.
        subprocess.run(["sh", "-c", "\n".join(script)], cwd=place, env=environment, stderr=subprocess.DEVNULL, check=False)
        found = {path.name: path for path in results.iterdir()}
        found.update({path.name: path for path in place.iterdir() if path.is_file() and (not case.folder or path not in before)})
        return found

    def forget(self, case):
        shutil.rmtree(self.folder / "results" / case_id(case), ignore_errors=True)
        if not case.folder:
            shutil.rmtree(self.place(case), ignore_errors=True)


def case_id(case):
    return f"{case.kind}-{case.name}".replace("/", "_").replace(" ", "_")


def content(path, side):
    """What a command wrote, without the name of its folder."""
    return path.read_bytes().replace(str(side.folder).encode(), b"SIDE") if path else None


def first_difference(old, new):
    if old is None or new is None:
        return "written by one alone"
    try:
        lines = list(difflib.unified_diff(old.decode().splitlines(), new.decode().splitlines(), n=0, lineterm=""))[3:9]
        return "\n    ".join(line[:200] for line in lines) or "other line ends"
    except UnicodeDecodeError:
        at = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
        return f"byte {at} of {len(old)} and {len(new)}"


def compare(case, old, new):
    """The lines about what differs, and how many commands were refused."""
    results = [(side, side.run(case)) for side in (old, new)]
    differences = []
    for name in sorted(set(results[0][1]) | set(results[1][1])):
        left, right = (content(found.get(name), side) for side, found in results)
        if left != right:
            number = name.split(".")[0]
            command = case.commands[int(number)] if number.isdigit() and int(number) < len(case.commands) else "; ".join(case.commands)
            differences.append(f"DIFFERS {case.kind} {case.name}: {name}: gradc {command[:160]}\n    {first_difference(left, right)}")
    codes = [path.read_text().strip() for name, path in results[0][1].items() if name.endswith(".code")]
    return differences, codes


def replay(old, new, cases, jobs, keeps):
    """Prints what differs. Returns the counts: commands by kind, refused ones, those out of time, and cases that differ."""
    counts = collections.Counter()

    def one(case):
        differences, codes = compare(case, old, new)
        if not (differences and keeps):
            for side in (old, new):
                side.forget(case)
        return case, differences, codes

    with ThreadPoolExecutor(jobs) as pool:
        for case, differences, codes in pool.map(one, cases):
            counts[case.kind] += len(case.commands)
            counts["refused"] += sum(code == "1" for code in codes)
            counts["out of time"] += sum(code in ("124", "137") for code in codes)
            counts["crashed"] += sum(code.isdigit() and int(code) >= 70 and code not in ("124", "137") for code in codes)
            counts["differ"] += bool(differences)
            for line in differences:
                print(line, flush=True)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--shared", type=pathlib.Path, default=ROOT.parent / "shared")
    parser.add_argument("--only", action="append", choices=KINDS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    for binary in (options.old, options.new):
        if not os.access(binary, os.X_OK):
            parser.error(f"{binary} is not a program")
    kinds = options.only or list(KINDS)
    cases = [case for kind in kinds for case in list(KINDS[kind](options.shared))[:: 10 if options.quick else 1]]
    with tempfile.TemporaryDirectory() as scratch:
        work = options.keep or pathlib.Path(scratch)
        sides = [Side(binary, work / name) for binary, name in ((options.old, "old"), (options.new, "new"))]
        if "golden" in kinds:
            for side in sides:
                side.copy_testdata()
        counts = replay(*sides, cases, options.jobs, bool(options.keep))
    parts = ", ".join(f"{kind} {counts[kind]:,}" for kind in kinds)
    verdict = f"{counts['differ']:,} cases differ" if counts["differ"] else "all agree"
    print(f"replay: {sum(counts[kind] for kind in kinds):,} commands, {len(cases):,} cases ({parts}); {counts['refused']:,} refused, "
          f"{counts['crashed']:,} crashed, {counts['out of time']:,} out of time; {verdict}")
    return 2 if not cases else int(counts["differ"] > 0)


if __name__ == "__main__":
    sys.exit(main())
