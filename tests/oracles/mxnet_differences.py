"""Where a gradient of MXNet 1.9.1 is not the derivative of its own forward pass: docs/mxnet_differences.md.

Usage: python tests/oracles/mxnet_differences.py [-o docs/mxnet_differences.md]

Needs a Python with mxnet 1.9.1 and numpy; nothing else in the project does. Each case is a graph of one node in float64. Its
gradient by MXNet is set against central differences of MXNet's own outputs, weighted by the same head gradients. Then come the
checks of mxnet_facts.py, and loops and branches: what MXNet leaves in the memory of a gradient, computes in vain, or refuses. A
case that turns out right makes the exit code 1: it does not belong on the page any more.
"""
import argparse
import json
import os
import sys
import tempfile

os.environ["MXNET_ENGINE_TYPE"] = "NaiveEngine"
os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"

import mxnet as mx
import numpy as np

from mxnet_facts import FACTS, values

STEPS = {"float64": 1e-6, "float32": 1e-2}  # what the operator has; differences are good to 1e-8 and 1e-3


class Case:
    """`inputs`: arrays by position; `wrt`: the position that is judged; `heads`: the outputs that have a head gradient.
    `casts`: types by position of inputs that the operator reads through a `Cast`; their gradients are requested as well."""

    def __init__(self, op, attrs, inputs, wrt, says, heads=None, casts=None):
        self.op, self.attrs, self.inputs, self.wrt, self.says, self.heads = op, attrs, inputs, wrt, says, heads
        self.casts = casts or {}
        self.dtype = "float64"

    def symbol(self):
        count = len(self.inputs)
        nodes = [{"op": "null", "name": f"x{i}", "inputs": []} for i in range(count)]
        source = {i: count + k for k, i in enumerate(self.casts)}
        for i, dtype in self.casts.items():
            nodes.append({"op": "Cast", "name": f"cast{i}", "attrs": {"dtype": dtype}, "inputs": [[i, 0, 0]]})
        last = len(nodes)
        nodes.append({"op": self.op, "name": "op", "attrs": {k: str(v) for k, v in self.attrs.items()},
                      "inputs": [[source.get(i, i), 0, 0] for i in range(count)]})
        text = {"nodes": nodes, "arg_nodes": list(range(count)), "heads": [[last, h, 0] for h in self.heads or [0]],
                "attrs": {"mxnet_version": ["int", 10901]}}
        return mx.sym.load_json(json.dumps(text))

    def run(self, values, wants_gradient):
        symbol = self.symbol()
        arrays = {f"x{i}": mx.nd.array(v, dtype=self.dtype) for i, v in enumerate(values)}
        aux = {n: arrays[n] for n in symbol.list_auxiliary_states()}
        args = {n: arrays[n] for n in symbol.list_arguments()}
        name = f"x{self.wrt}"
        grads = {n: mx.nd.zeros(args[n].shape, dtype=self.dtype) for n in [name, *(f"x{i}" for i in self.casts)]}
        executor = symbol.bind(mx.cpu(), args, args_grad=grads, grad_req={n: "write" if n in grads else "null" for n in args},
                               aux_states=aux)
        outputs = [o.asnumpy().astype("float64") for o in executor.forward(is_train=True)]
        weights = [np.random.RandomState(3 + k).uniform(0.5, 1.5, o.shape) for k, o in enumerate(outputs)]
        value = sum(float((o * w).sum()) for o, w in zip(outputs, weights))
        if not wants_gradient:
            return value, None
        executor.backward([mx.nd.array(w, dtype=o.dtype) for w, o in zip(weights, executor.outputs)])
        return value, grads[name].asnumpy()

    def judge(self):
        try:
            gradient = self.run(self.inputs, True)[1]
        except mx.base.MXNetError:
            self.dtype = "float32"
            gradient = self.run(self.inputs, True)[1]
        step = STEPS[self.dtype]
        difference = np.zeros_like(gradient)
        for at in np.ndindex(*gradient.shape):
            sides = []
            for sign in (1, -1):
                values = [v.copy() for v in self.inputs]
                values[self.wrt][at] += sign * step
                sides.append(self.run(values, False)[0])
            difference[at] = (sides[0] - sides[1]) / (2 * step)
        worst = np.unravel_index(np.argmax(np.nan_to_num(np.abs(gradient - difference), nan=np.inf)), gradient.shape)
        return gradient[worst], difference[worst], np.abs(difference).max()


CASES = [
    Case("_npi_rarctan2_scalar", {"scalar": 0.7}, [values(5)], 0, "has x in place of the scalar"),
    Case("LeakyReLU", {"act_type": "selu"}, [values(5)], 0, "evaluates its slope at the wrong point below 0"),
    Case("SoftmaxActivation", {"mode": "instance"}, [values(2, 3, 4)], 0, "runs along axis 1, the forward pass along the last"),
    Case("BatchNorm", {"output_mean_var": "True", "fix_gamma": "False"},
         [values(4, 3), values(3, seed=2, low=0.5), values(3, seed=3), values(3, seed=4), values(3, seed=5, low=0.5)], 0,
         "ignores the head gradients of the statistics", [0, 1, 2]),
    Case("LayerNorm", {"output_mean_var": "True"}, [values(4, 3), values(3, seed=2, low=0.5), values(3, seed=3)], 0,
         "ignores the head gradients of the statistics", [0, 1, 2]),
    Case("GroupNorm", {"num_groups": 2, "output_mean_var": "True"},
         [values(2, 4, 3), values(2, seed=2, low=0.5), values(2, seed=3)], 0,
         "ignores the head gradients of the statistics", [0, 1, 2]),
]

CASES += [
    Case("prod", {"axis": 0}, [np.array([2.0, 0.0, 3.0])], 0, "divides the product by the factor, which may be 0"),
    Case("nanprod", {"axis": 0}, [np.array([0.0, 2.0, 3.0])], 0, "divides the product by the factor, which may be 0"),
    Case("norm", {"axis": 0}, [np.zeros(3)], 0, "divides by the norm, which may be 0"),
    Case("_hypot", {}, [np.zeros(3), np.zeros(3)], 0, "divides by the hypotenuse, which may be 0"),
    Case("_power", {}, [np.zeros(3), np.array([2.0, 1.0, 0.5])], 1, "multiplies 0^rhs by the logarithm of 0"),
    Case("_contrib_index_copy", {}, [values(4, 2), np.array([1.0, 1.0]), values(2, 2, seed=2)], 2,
         "goes also to rows that a later copy overwrites"),
    Case("softmax", {"use_length": "True"}, [values(2, 3), np.array([2.0, 3.0])], 0,
         "is zeros where the length comes from a `Cast` and has a gradient", casts={1: "int32"}),
]


OLD = 7.0  # what the memory of a gradient holds before


def gradients(symbol, values, requests):
    """Of the sum of the outputs, by variable; and how often each operator ran backward."""
    args = {n: mx.nd.array(v) for n, v in values.items()}
    grads = {n: mx.nd.full(a.shape, OLD) for n, a in args.items()}
    executor = symbol.bind(mx.cpu(), args, args_grad=grads, grad_req={n: requests.get(n, "write") for n in args})
    heads = [mx.nd.ones(o.shape) for o in executor.forward(is_train=True)]
    mx.nd.waitall()
    mx.profiler.dumps(reset=True)
    mx.profiler.set_state("run")
    executor.backward(heads)
    mx.nd.waitall()
    mx.profiler.set_state("stop")
    rows = [line.split() for line in mx.profiler.dumps(reset=True).splitlines() if line.startswith("_backward")]
    return {n: g.asnumpy().ravel() for n, g in grads.items()}, {row[0]: int(row[1]) for row in rows}


def null_closure():
    x, s, f = (mx.sym.Variable(n) for n in "xsf")
    rows = mx.sym.contrib.foreach(lambda i, states: (i * states[0] + mx.sym.sin(f), [i * states[0]]), x, [s])[0]
    count = gradients(rows, {"x": np.ones((5, 1)), "s": [1.0], "f": [1.0]}, {"f": "null"})[1].get("_backward_sin", 0)
    return f"`_backward_sin` runs {count} times", count == 0


def untaken_branch():
    x, y, p = (mx.sym.Variable(n) for n in "xyp")
    symbol = mx.sym.contrib.cond(p, lambda: x * x, lambda: y * y)
    found = gradients(symbol, {"x": [3.0], "y": [5.0], "p": [1.0]}, {})[0]
    return f"y {found['y'][0]:g}, p {found['p'][0]:g}", found["y"][0] == 0 and found["p"][0] == 0


def no_steps():
    x, w = (mx.sym.Variable(n) for n in "xw")
    loop = mx.sym.contrib.while_loop(lambda x: x < 3, lambda x: ([], [x * w]), [x], max_iterations=4)
    found = gradients(loop[1][0], {"x": [9.0], "w": [2.0]}, {})[0]
    return f"w {found['w'][0]:g}", found["w"][0] == 0


class LastState(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, x, s):
        return F.contrib.foreach(lambda i, states: ([], [i * states[0]]), x, [s])[1][0]


def retained():
    block = LastState()
    block.hybridize()
    x, s = mx.nd.array([[2.0], [3.0]]), mx.nd.array([1.0])
    s.attach_grad()
    with mx.autograd.record():
        y = block(x, s)
    y.backward(retain_graph=True)
    first = s.grad.asscalar()
    try:
        y.backward()
        return f"s {first:g}, then {s.grad.asscalar():g}", s.grad.asscalar() == first
    except mx.base.MXNetError as error:
        return "error: " + str(error).strip().splitlines()[-1].split(": ")[-1], False


LOOPS = [
    ("`foreach` over 5 rows yields sin(f); request null for f", null_closure, "nothing is computed for f",
     "from the second step backward on, makes `add` of null"),
    ("`cond` takes the branch x·x, the other is y·y", untaken_branch, "y 0, p 0",
     f"writes nothing: the memory of gradients keeps the {OLD:g} it had"),
    ("`while_loop` whose first condition fails; its body has x·w", no_steps, "w 0", "writes nothing"),
    ("`foreach`, `backward(retain_graph=True)`, then `backward()`", retained, "the same again",
     "frees what its steps kept, retained or not"),
]

LOOPS_HEAD = """
## Loops and branches

Run with MXNet's own front end by the same script; the first with its profiler.

| graph | MXNet | right, and gradc | what MXNet does |
|---|---|---|---|
"""

HEAD = """# Where MXNet's gradients are wrong

Written by `tests/oracles/mxnet_differences.py`. Each row is a graph of one node, run by MXNet 1.9.1 in float64, or in float32 where
it has the operator in float32 only: its gradient at the element where it is furthest from the truth, and the central
difference of MXNet's own outputs there. gradc computes the latter.

| operator | attributes | MXNet's gradient | difference of its outputs | what MXNet's gradient does |
|---|---|---|---|---|
"""

FACTS_HEAD = """
Other differences, which no single derivative shows:

"""

# Without a check: some read outside of MXNet's memory, others show themselves in other graphs than those of one node.
FOOT = """\
- `SoftmaxOutput` of data with more than two axes, without `preserve_shape` and `multi_output`: in float64 the classes are all
  axes but the first, as documented and in gradc; in float32 they are the last axis. Under `normalization` it counts labels
  that it does not read.
- `Pooling` of type avg under `pooling_convention=full` in float32: where a window ends outside the image, the forward pass
  divides by the elements inside, and the gradient by all of the window. In float64 both divide by the elements inside.
- The gradient of `LRN` of images of one pixel with one channel is another number in every run.
- `Reshape` writes the length for -1 to a wrong axis, or outside its memory, if -4 precedes it.
- The gradient of `RNN` of several layers, but for mode lstm, overwrites the head gradient of its output, which a second
  order reads as well.
- `BatchNorm` of an empty batch writes NaN to its moving statistics in training; in gradc they stay, and are the ones in use.
- `CTCLoss` without labels, or with more of them than fit the steps, reads outside its memory.
- `erf`, `erfinv`, `degrees`, `gamma` and `gammaln` have constants, or a digamma function, of single precision in float64.
- Labels get a gradient of zeros; in gradc they get none. Most of MXNet's gradient operators cannot be differentiated again.
"""

DRAWS = """
`tests/oracles/attribute_draws.py` looks for more: it draws attributes, shapes and types for every operator that both have, and
compares refusals, shapes, types, values, gradients and states. Where gradients differ, central differences of MXNet's outputs
decide. `tests/oracles/draws/reasons.py` lists the settings in which one refuses what the other accepts, and why. Operators without
attributes get a fifth of the draws. The head of the script says how to run it. `tests/oracles/torch_draws.py` does the same with PyTorch
for operators that MXNet lacks.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", default="")
    options = parser.parse_args()
    # MXNet puts a file of its own in the place of whatever is named, /dev/null included.
    profile = tempfile.NamedTemporaryFile(suffix=".json")
    mx.profiler.set_config(profile_all=True, aggregate_stats=True, filename=profile.name)
    text, right = HEAD, 0
    for case in CASES:
        gradient, difference, scale = case.judge()
        casts = [f"input {i} cast to {dtype}" for i, dtype in case.casts.items()]
        attrs = ", ".join([f"{k}={v}" for k, v in case.attrs.items()] + casts)
        text += f"| `{case.op}` | {attrs} | {gradient:.6g} | {difference:.6g} | {case.says} |\n"
        # False for NaN, which is wrong as well.
        if abs(gradient - difference) <= (1e-5 if case.dtype == "float64" else 1e-2) * scale:
            print(f"right: {case.op} {attrs}", file=sys.stderr)
            right += 1
    text += FACTS_HEAD
    for check, says in FACTS:
        is_right, found = check()
        text += says.format(*found)
        if is_right:
            print(f"right: {says}", file=sys.stderr)
            right += 1
    text += FOOT + LOOPS_HEAD
    for graph, check, wanted, says in LOOPS:
        found, is_right = check()
        text += f"| {graph} | {found} | {wanted} | {says} |\n"
        if is_right:
            print(f"right: {graph}", file=sys.stderr)
            right += 1
    text += DRAWS
    if options.o:
        with open(options.o, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        print(text, end="")
    return 1 if right else 0


if __name__ == "__main__":
    sys.exit(main())
