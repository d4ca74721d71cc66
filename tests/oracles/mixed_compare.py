"""MXNet as the judge of retained intermediates, no-gradient sets and mixed requests on a real network.

    mixed_compare.py ORACLE_DIRECTORY compare FILE --net NAME --gradc BIN [--order K]    and the oracle's other flags
    mixed_compare.py ORACLE_DIRECTORY gradcheck FILE --net NAME --gradc BIN [--order K] [--samples N]

Ten operators' outputs, spread over the network, are retained. A weight and, in `compare`, one more intermediate are in the
no-gradient set (NG-01, NG-10). Every third gradient of a parameter or intermediate is added to what is there, one of each is
requested null, the others are written (REQ-08, NL-01). MXNet is asked for the same values in its own words: a variable of
zeros is added to each retained intermediate, so that the variable's gradient is the intermediate's; what the no-gradient
set cuts passes a BlockGrad; the cut weight and the null request are bound without gradient; what a gradient is added onto
is added here. Networks with prelu are reworded first, as tests/oracles/mxnet_reworded.py has it.

`compare` demands every gradient MXNet has, and none that was cut, to the oracle's tolerance. `gradcheck` has the emitted
graph checked by central differences, with --order 2 its second order. Exit status 1 on a difference.
"""
import argparse
import json
import subprocess
import sys
import tempfile

from mixed_requests import operators
from mxnet_reworded import is_needed, reworded

# A wider step at the second order, where the scalar is a sum over all first gradients: its rounding, divided by the
# step, drowns the small gradients. The error falls with the step up to 1e-4, so it is that and not the gradient.
EPSILON = {1: "1e-5", 2: "1e-4"}


class Choice:
    """What is asked of a network: names only, as gradc's flags take them."""

    def __init__(self, symbol, variables, has_interior_cut):
        graph = json.loads(symbol.tojson())
        parameters = [v for v in variables if v.endswith(("weight", "bias", "gamma", "beta"))]
        weights = [v for v in parameters if v.endswith("weight")]
        self.cut = weights[len(weights) // 2]
        self.dropped = [v for v in parameters if v != self.cut][-1]
        nodes = operators(graph)
        self.interior = nodes[len(nodes) // 8] if has_interior_cut else None
        rest = [n for n in nodes if n != self.interior]
        self.retained = [rest[i * len(rest) // 11] for i in range(11)] if len(rest) > 11 else rest
        self.silent = self.retained.pop(len(self.retained) // 2)  # retained, and requested null
        listed = set(symbol.get_internals().list_outputs())
        self.listed = {n: n + suffix for n in rest for suffix in ("_output0", "_output") if n + suffix in listed}
        live = [v for v in parameters if v not in (self.cut, self.dropped)]
        self.added = live[::3] + self.retained[::3]

    def key(self, name):
        """Of the gradient, among `run`'s inputs and outputs."""
        return self.listed.get(name, name) + "_grad"

    def flags(self):
        cut = [self.cut] + ([self.interior] if self.interior else [])
        requests = [flag for name in self.added for flag in ("--req", name + "=add")]
        return ["--retain", ",".join([*self.retained, self.silent]), "--no-grad", ",".join(cut), "--unused", "none",
                "--req", self.dropped + "=null", "--req", self.silent + "=null", *requests]


def instrumented(symbol, choice):
    """`symbol` with the retained intermediates passing an addition, the interior cut a BlockGrad."""
    import mxnet as mx

    graph = json.loads(symbol.tojson())
    nodes, number = [], []

    def add(op, name, inputs):
        nodes.append({"op": op, "name": name, "inputs": inputs})
        return [len(nodes) - 1, 0, 0]

    moved = {}  # node of the old graph → what its readers read in place of output 0

    def entry(i, k, *_):
        return moved[i] if k == 0 and i in moved else [number[i], k, 0]

    for i, node in enumerate(graph["nodes"]):
        nodes.append(dict(node, inputs=[entry(*e) for e in node["inputs"]]))
        number.append(len(nodes) - 1)
        if node["op"] != "null" and node["name"] in choice.retained:
            zeros = add("null", "zeros/" + node["name"], [])
            moved[i] = add("elemwise_add", "kept/" + node["name"], [[number[i], 0, 0], zeros])
        elif node["op"] != "null" and node["name"] == choice.interior:
            moved[i] = add("BlockGrad", "cut/" + node["name"], [[number[i], 0, 0]])
    made = {"nodes": nodes, "arg_nodes": [i for i, n in enumerate(nodes) if n["op"] == "null"],
            "heads": [entry(*h) for h in graph["heads"]], "attrs": {"mxnet_version": ["int", 10901]}}
    return mx.sym.load_json(json.dumps(made))


class Executor:
    """MXNet's executor of the instrumented network, under the names of the network itself."""

    def __init__(self, executor):
        self.executor, self.aux_dict = executor, executor.aux_dict
        self.forward, self.backward = executor.forward, executor.backward
        self.grad_dict = {n[len("zeros/"):] if n.startswith("zeros/") else n: g for n, g in executor.grad_dict.items()}


def reference(oracle, a, has_interior_cut):
    """(symbol, shapes, MXNet's values, what is asked)."""
    import numpy as np

    bind, chosen = oracle.bind, []

    def bind_instrumented(symbol, values, dtype, req, whole=()):
        choice = Choice(symbol, [n for n in symbol.list_arguments() if n not in whole], has_interior_cut)
        chosen.append(choice)
        inner = instrumented(reworded(symbol, values) if is_needed(symbol) else symbol, choice)
        shapes, _, _ = inner.infer_shape(**{n: v.shape for n, v in values.items() if n in inner.list_arguments()})
        zeros = {n: np.zeros(s) for n, s in zip(inner.list_arguments(), shapes) if n.startswith("zeros/")}
        return Executor(bind(inner, {**values, **zeros}, dtype, req, {*whole, choice.cut, choice.dropped}))

    oracle.bind = bind_instrumented
    symbol, shapes, values = oracle.step(a)
    return symbol, shapes, values, chosen[0]


def onto(oracle, name, gradient):
    """What an added gradient is added to: of its own size, so that neither hides the other's error."""
    size = max(abs(gradient).max(), 1e-3) if gradient.size else 0
    return size * oracle.rng(3, name).uniform(-1, 1, gradient.shape)


def differences(oracle, a, choice, expected, got):
    """(what differs, how many were compared, the worst error)."""
    scale, worst, count, bad = {}, 0.0, 0, []
    for kind in ("out/", "grad/", "aux/"):
        scale[kind] = max([abs(r).max() for k, r in expected.items() if k.startswith(kind) and r.size] or [0])
    for key, want in expected.items():
        kind, name = key.split("/", 1)
        if kind + "/" not in scale:
            continue
        own = choice.key(name) if kind == "grad" else name
        if own not in got:
            if kind != "grad" or oracle.live(want):
                bad.append((key, "absent"))
            continue
        error = oracle.error_of(got[own].reshape(-1), want.reshape(-1), scale[kind + "/"])
        count, worst = count + 1, max(worst, error)
        if not error <= a.rtol:
            bad.append((key, "error %.3g" % error))
    return bad, count, worst


def compare(oracle, a):
    import numpy as np

    symbol, shapes, values, choice = reference(oracle, a, True)
    feed = {k[3:]: v for k, v in values.items() if k.startswith("in/")}
    feed.update({"hg" + k[3:]: v for k, v in values.items() if k.startswith("hg/")})
    for name in choice.added:
        gradient = values["grad/" + name]
        if oracle.live(gradient):
            feed[choice.key(name)] = onto(oracle, name, gradient)
            values["grad/" + name] = gradient + feed[choice.key(name)]
    with tempfile.TemporaryDirectory() as folder:
        emit = oracle.grad_command(a, symbol, shapes, folder) + choice.flags() + ["--order", str(a.order)]
        np.savez(folder + "/in.npz", **feed)
        run = [a.gradc, "run", folder + "/g.json", "--train", "--dtype", a.dtype, "--inputs", folder + "/in.npz",
               "--outputs", folder + "/out.npz"]
        for command in (emit, run + a.run_flag):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print("FAIL %s\n%s" % (" ".join(command[:2]), done.stderr[-2000:]))
                return 1
        got = dict(np.load(folder + "/out.npz"))
    bad, count, worst = differences(oracle, a, choice, values, got)
    bad += [(n, "has a gradient") for n in (choice.cut, choice.dropped, choice.silent) if choice.key(n) in got]
    return oracle.verdict(bad, count, worst)


def gradcheck(oracle, a):
    symbol, shapes = oracle.load(a.file), oracle.shapes_of(a)
    whole = oracle.label_classes(symbol, shapes)
    choice = Choice(symbol, [n for n in symbol.list_arguments() if n not in whole], False)
    flags = [f for k, s in shapes.items() for f in ("--shape", "%s=%s" % (k, ",".join(map(str, s))))]
    with tempfile.TemporaryDirectory() as folder:
        emit = [a.gradc, "grad", a.file, "-o", folder + "/g.json", "--wrt", "all", "--order", str(a.order),
                "--heads", "input"]
        check = [a.gradc, "gradcheck", folder + "/g.json", "--init", "1", "--samples", str(a.samples), "--eps",
                 EPSILON[a.order]]
        for command in (emit + choice.flags(), check):
            done = subprocess.run(command + flags, capture_output=True, text=True)
            if done.returncode:
                print("FAIL %s\n%s" % (" ".join(command[:2]), (done.stdout + done.stderr)[-2000:]))
                return 1
    print(done.stdout.splitlines()[-1])
    return 0


def main():
    directory, verb, *rest = sys.argv[1:]
    sys.path.insert(0, directory)
    import mxnet_oracle as oracle

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file")
    p.add_argument("--net")
    p.add_argument("--gradc", default="gradc")
    p.add_argument("--order", type=int, choices=[1, 2], default=1)
    p.add_argument("--samples", type=int, default=40)
    p.add_argument("--rtol", type=float, default=1e-8)
    p.add_argument("--run-flag", action="append", default=[])
    p.set_defaults(shape=[], seed=1, dtype="float64", train=1, req="write")
    a = p.parse_args(rest)
    return {"compare": compare, "gradcheck": gradcheck}[verb](oracle, a)


if __name__ == "__main__":
    sys.exit(main())
