#!/usr/bin/env python3
"""An LSTM cell in a loop, beside the same steps unrolled, PyTorch's Python loop and MXNet's foreach.

  loops.py --gradc PATH [--mxnet PYTHON] [--torch PYTHON] [--rounds 7] [--repeat 20] [--steps 100] [--hidden 64]

Batch 1, float32, one thread; a time is forward and gradient of everything but the states. Sides take turns. Prints medians over
the rounds, their ratio to the loop, and the bytes of the memory plan.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
WEIGHTS = ("i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias")


def shapes(steps, hidden):
    return {"x": (steps, 1, hidden), "h": (1, hidden), "c": (1, hidden), "i2h_weight": (4 * hidden, hidden),
            "i2h_bias": (4 * hidden,), "h2h_weight": (4 * hidden, hidden), "h2h_bias": (4 * hidden,)}


class MXNetPeer:
    def __init__(self, path, steps, hidden):
        os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"
        import mxnet as mx
        self.mx, symbol = mx, mx.sym.load(path)
        draw = lambda shape: mx.nd.random.uniform(-0.1, 0.1, shape)
        values = {name: draw(shape) for name, shape in shapes(steps, hidden).items()}
        wanted = {name: mx.nd.zeros(values[name].shape) for name in ("x",) + WEIGHTS}
        self.executor = symbol.bind(mx.cpu(), args=values, args_grad=wanted,
                                    grad_req={name: "write" if name in wanted else "null" for name in values})

    def step(self):
        outs = self.executor.forward(is_train=True)
        self.executor.backward([self.mx.nd.ones_like(out) for out in outs])
        self.mx.nd.waitall()


class TorchPeer:
    def __init__(self, path, steps, hidden):
        import torch
        torch.set_num_threads(1)
        self.torch = torch
        self.values = {name: (torch.rand(shape) * 0.2 - 0.1).requires_grad_(name not in "hc")
                       for name, shape in shapes(steps, hidden).items()}

    def step(self):
        torch, v = self.torch, self.values
        for value in v.values():
            value.grad = None
        h, c, outs = v["h"], v["c"], []
        for row in v["x"]:
            gates = (torch.nn.functional.linear(row, v["i2h_weight"], v["i2h_bias"])
                     + torch.nn.functional.linear(h, v["h2h_weight"], v["h2h_bias"]))
            i, f, g, o = gates.chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outs.append(h)
        (torch.stack(outs).sum() + h.sum() + c.sum()).backward()


def work(kind, path, steps, hidden):
    peer = (MXNetPeer if kind == "mxnet" else TorchPeer)(path, int(steps), int(hidden))
    for _ in range(3):
        peer.step()
    print("ready", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            peer.step()
            times.append(1e3 * (time.perf_counter() - start))
        print(statistics.median(times), flush=True)


class Peer:
    def __init__(self, kind, python, path, options):
        command = [python, __file__, "--work", kind, str(path), str(options.steps), str(options.hidden)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, OMP_NUM_THREADS="1"))
        self.works = self.process.stdout.readline() == "ready\n"

    def measure(self, repeat):
        self.process.stdin.write(f"{repeat}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


class Gradc:
    def __init__(self, options, graph, flags):
        self.gradc, self.graph, self.flags = options.gradc, graph, flags

    def measure(self, repeat):
        done = subprocess.run([self.gradc, "run", self.graph, "--init", "1", "--train", "--threads", "1", "--repeat", str(repeat),
                               "-o", os.devnull] + self.flags, check=True, stderr=subprocess.PIPE, text=True).stderr
        return float(re.search(r"median ([\d.]+) ms", done).group(1))


def cell(hidden):
    """The file of the tests with another number of hidden units."""
    text = (HERE / ".." / "testdata" / "loops" / "lstm.json").read_text()
    return re.sub(r'("num_hidden": *)"12"', rf'\g<1>"{4 * hidden}"', text)


def main():
    if sys.argv[1:2] == ["--work"]:
        return work(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gradc", required=True)
    for flag in ("--mxnet", "--torch"):
        parser.add_argument(flag)
    for flag, value in (("--rounds", 7), ("--repeat", 20), ("--steps", 100), ("--hidden", 64)):
        parser.add_argument(flag, type=int, default=value)
    options = parser.parse_args()
    flags = [f"--shape={name}={','.join(map(str, shape))}" for name, shape in shapes(options.steps, options.hidden).items()]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        gradc = lambda *arguments: subprocess.run([options.gradc, *map(str, arguments)], check=True, stdout=subprocess.PIPE,
                                                  stderr=subprocess.DEVNULL, text=True).stdout
        (folder / "loop.json").write_text(cell(options.hidden))
        gradc("opt", "--passes", "unroll", folder / "loop.json", "-o", folder / "unrolled.json", *flags)
        sides, plans = {}, {}
        for name in ("loop", "unrolled"):
            train = folder / (name + ".train.json")
            gradc("grad", folder / (name + ".json"), "--wrt", ",".join(("x",) + WEIGHTS), "-o", train, *flags)
            nodes = len(json.loads(train.read_text())["nodes"])
            report = gradc("plan", train, "--report", *flags)
            plans[name] = nodes, re.search(r"planned +(\d+)", report).group(1)
            sides[name] = Gradc(options, train, flags)
        for kind, python in (("torch", options.torch), ("mxnet", options.mxnet)):
            if python:
                peer = Peer(kind, python, folder / "loop.json", options)
                if peer.works:
                    sides[kind] = peer
                else:
                    print(f"skipped: {kind} cannot run the loop", file=sys.stderr)
        times = {name: [] for name in sides}
        for _ in range(options.rounds):
            for name, side in sides.items():
                times[name].append(side.measure(options.repeat))
        medians = {name: statistics.median(list_) for name, list_ in times.items()}
        print("| | median ms | the loop, relative to it | nodes | bytes planned |\n|---|---|---|---|---|")
        for name, median in medians.items():
            nodes, planned = plans.get(name, ("", ""))
            print(f"| {name} | {median:.2f} | {medians['loop'] / median:.2f} | {nodes} | {planned} |")


if __name__ == "__main__":
    main()
