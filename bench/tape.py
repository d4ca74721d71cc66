#!/usr/bin/env python3
"""The tape beside libtorch: builds bench/torch/tape.cc against a wheel of PyTorch, runs it and the benchmarks of
bench/imperative.cc in turns, and prints a table of medians and ratios. Each side uses one thread; times are gradc's
processor time and PyTorch's wall time. Exit status 1 if a ratio is above its limit.

    bench/tape.py --torch PYTHON --bench BENCH [--rounds 9]

PYTHON is the interpreter of a virtual environment with torch; BENCH is out/bin/bench/bench."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

LIMITS = {  # of PyTorch's
    "recorded call": 0.4,
    "backward, structure seen before": 0.2,
    "backward, new structure": 1.5,
    "backward with createGraph": 0.5,
    "step of 8 dense layers of 64": 0.35,
    "peak memory, chain": 1.0,
    "peak memory, network": 1.0,
}


def build_torch(python, folder):
    """Builds the libtorch program in `folder`."""
    paths = json.loads(subprocess.check_output(
        [python, "-c", "import json, torch.utils.cpp_extension as e; "
         "print(json.dumps([e.include_paths(), e.library_paths()]))"], text=True))
    program = os.path.join(folder, "tape_torch")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch", "tape.cc")
    command = ["g++", "-std=c++20", "-O2", "-D_GLIBCXX_USE_CXX11_ABI=1", source, "-o", program]
    command += [flag for path in paths[0] for flag in ("-isystem", path)]
    command += [flag for path in paths[1] for flag in ("-L" + path, "-Wl,-rpath," + path)]
    subprocess.run(command + ["-Wl,--no-as-needed", "-ltorch_cpu", "-lc10"], check=True)
    return program


def torch_figures(program):
    lines = subprocess.check_output([program], text=True, stderr=subprocess.DEVNULL).splitlines()
    return {name: float(value) for name, value in (line.split("\t") for line in lines)}


def gradc_figures(bench, folder):
    out = os.path.join(folder, "gradc.json")
    subprocess.run([bench, "--benchmark_filter=^imperative/", "--benchmark_min_time=0.1", "--benchmark_out=" + out,
                    "--benchmark_out_format=json"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(out, encoding="utf-8") as file:
        rows = json.load(file)["benchmarks"]
    figures = {}
    for row in rows:
        name = row["name"].removeprefix("imperative/").split("/iterations")[0]
        figures[name] = row.get("bytes", row.get("per call", row["cpu_time"] * 1e-9))
    return figures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    ours, theirs = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        program = build_torch(arguments.torch, folder)
        for _ in range(arguments.rounds):
            for into, figures in ((theirs, torch_figures(program)), (ours, gradc_figures(arguments.bench, folder))):
                for name, value in figures.items():
                    into.setdefault(name, []).append(value)
    is_within = True
    print("| Measure | gradc | PyTorch | ratio | limit |\n|---|---|---|---|---|")
    for name, limit in LIMITS.items():
        one, other = statistics.median(ours[name]), statistics.median(theirs[name])
        unit, factor = ("KiB", 1 / 1024) if name.startswith("peak") else ("µs", 1e6)
        is_within &= one <= limit * other
        print(f"| {name} | {one * factor:.3g} {unit} | {other * factor:.3g} {unit} | {one / other:.2f} | {limit} |")
    return 0 if is_within else 1


if __name__ == "__main__":
    sys.exit(main())
