#!/usr/bin/env python3
"""Loops and branches as MXNet's own front end writes them.

  mxnet_loops.py write DIRECTORY          the files of testdata/loops
  mxnet_loops.py compare GRADC            runs each with both; MXNet decides what the outputs are

MXNet leaves rows of steps a while loop did not run, and what a loop without steps yields, as they were: such files are in
the tests with numbers of their own.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"
import mxnet as mx
import numpy as np

sym, contrib = mx.sym, mx.sym.contrib


def var(names):
    return [sym.var(name) for name in names.split()]


def as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def group(outs, finals):
    return sym.Group(as_list(outs) + as_list(finals))


def cf03():
    x, s, f = var("x s f")

    def body(i, states):
        out = 2 * i + states[0] + f
        return out, [out]

    return group(*contrib.foreach(body, x, [s])), {"x": [0.5, -1, 2], "s": [0.25], "f": [1]}


def two_states():
    x, z, s, t, w = var("x z s t w")
    loop = contrib.foreach(lambda i, st: ([i[0] * i[1], i[0]], [st[0] + i[0], st[1] * w]), [x, z], [s, t])
    rows = [[1, 2], [3, -4], [0.5, 1]]
    return group(*loop), {"x": rows, "z": rows[::-1], "s": [1, 1], "t": [2, 3], "w": [0.5, 2]}


def only_states():
    x, s = var("x s")
    return group([], contrib.foreach(lambda i, st: ([], [st[0] * i]), x, [s])[1]), {"x": [[2], [3], [4]], "s": [1]}


def swapped():
    x, s, t = var("x s t")
    loop = contrib.foreach(lambda i, st: (st[0] + 0 * i, [st[1], st[0]]), x, [s, t])
    return group(*loop), {"x": [[0], [0], [0]], "s": [1], "t": [2]}


def squares():
    x, i = var("x i")
    loop = contrib.while_loop(lambda x, i: i < 3, lambda x, i: (x, [x * x, i + 1]), [x, i], max_iterations=3)
    return group(*loop), {"x": [2], "i": [0]}


def powers():
    x, i, w = var("x i w")
    loop = contrib.while_loop(lambda x, i: i < 3, lambda x, i: ([], [x * w, i + 1]), [x, i], max_iterations=5)
    return group([], loop[1]), {"x": [2], "i": [0], "w": [3]}


def cf08():
    x, i = var("x i")
    loop = contrib.while_loop(lambda x, i: i < 3, lambda x, i: ([], [x + i, i + 1]), [x, i], max_iterations=5)
    return group([], loop[1]), {"x": [1], "i": [1]}


def cond(p):
    predicate, a, b, c = var("p a b c")
    return contrib.cond(predicate > 0, lambda: a * b, lambda: c * c), {"p": [p], "a": [2], "b": [3], "c": [5]}


def cf11():
    x, w, n = var("x w n")

    def inner(i, states):
        return [], [states[0] * w + 0 * i]

    def outer(j, states):
        final = contrib.foreach(inner, n, states)[1]
        return [], [as_list(final)[0] + w + 0 * j]

    return group([], contrib.foreach(outer, sym.var("m"), [x])[1]), {"x": [1], "w": [2], "n": [[0]] * 3, "m": [[0]] * 2}


def cf12():
    x, h, w = var("x h w")

    def body(i, states):
        new = sym.tanh(w * states[0] + i)
        return new, [new]

    return group(*contrib.foreach(body, x, [h])), {"x": [0.5, -0.25], "h": [0.1], "w": [0.8]}


def lstm(is_unrolled=False, steps=4, batch=2, size=3):
    x, h, c = var("x h c")
    wx, bx, wh, bh = var("i2h_weight i2h_bias h2h_weight h2h_bias")

    def body(i, states):
        gates = sym.FullyConnected(i, wx, bx, num_hidden=4 * size) + sym.FullyConnected(
            states[0], wh, bh, num_hidden=4 * size)
        g = sym.SliceChannel(gates, num_outputs=4)
        cell = sym.sigmoid(g[1]) * states[1] + sym.sigmoid(g[0]) * sym.tanh(g[2])
        out = sym.sigmoid(g[3]) * sym.tanh(cell)
        return out, [out, cell]

    if is_unrolled:
        outs, states = [], [h, c]
        for step in range(steps):
            row = sym.Reshape(sym.slice_axis(x, axis=0, begin=step, end=step + 1), shape=(batch, 5))
            out, states = body(row, states)
            outs.append(out)
        loop = sym.stack(*outs, axis=0), states
    else:
        loop = contrib.foreach(body, x, [h, c])
    draw = np.random.RandomState(7).uniform
    shapes = {"x": (steps, batch, 5), "h": (batch, size), "c": (batch, size), "i2h_weight": (4 * size, 5),
              "i2h_bias": (4 * size,), "h2h_weight": (4 * size, size), "h2h_bias": (4 * size,)}
    return group(*loop), {name: draw(-1, 1, shape) for name, shape in shapes.items()}


def branch_in_loop():
    x, s, w = var("x") + [sym.var("s", shape=(2,)), sym.var("w", shape=(2,))]  # MXNet needs to be told

    def body(i, states):
        new = contrib.cond(sym.slice_axis(states[0], axis=0, begin=0, end=1) > 0.7, lambda: states[0] * w, lambda: states[0] + i)
        return new, [new]

    return group(*contrib.foreach(body, x, [s])), {"x": [[1, 0.5]] * 4, "s": [0.1, 0.2], "w": [0.5, 0.25]}


def norm_in_loop():
    x, s, g, b = var("x s gamma beta")
    mean, variance = var("moving_mean moving_var")

    def body(i, states):
        y = sym.BatchNorm(i, g, b, mean, variance, fix_gamma=False, name="bn")
        return y + states[0], [states[0] * 0.5]

    rows = np.random.RandomState(3).uniform(-1, 1, (3, 4, 2))
    return group(*contrib.foreach(body, x, [s])), {"x": rows, "s": np.ones((4, 2)), "gamma": [1, 2], "beta": [0, 1],
                                                   "moving_mean": [0.5, 0.25], "moving_var": [1, 2]}


def while_in_foreach():
    x, h, w = var("x h w")

    def body(i, states):
        outs, final = contrib.while_loop(lambda a: sym.sum(a) < 3.3, lambda a: (a * a, [a * w + 0.3]), [states[0] + i],
                                         max_iterations=4)
        return sym.sum(outs, axis=0), as_list(final)

    return group(*contrib.foreach(body, x, [h])), {"x": [[0.1, 0.2]] * 3, "h": [0.5, 0.25], "w": [0.75, 1.5]}


def dropout_in_loop():
    x, h = var("x h")
    return group(*contrib.foreach(lambda i, st: (sym.Dropout(i, p=0.5), [st[0] + sym.Dropout(i, p=0.5)]), x, [h])), {
        "x": np.ones((4, 64)), "h": np.zeros(64)}


# Files for the tests that MXNet itself cannot judge.
NOT_COMPARED = {
    "branch_in_loop": "MXNet does not infer the shapes of a branch in a loop",
    "while_in_foreach": "MXNet leaves rows of steps that were not run as they were",
}

LOOPS = {
    "cf03": cf03, "two_states": two_states, "only_states": only_states, "swapped": swapped, "squares": squares,
    "powers": powers, "cf08": cf08, "cond": lambda: cond(1), "cond:else": lambda: cond(-1), "cf11": cf11,
    "cf12": cf12, "lstm": lstm, "lstm_unrolled": lambda: lstm(True), "branch_in_loop": branch_in_loop, "norm_in_loop": norm_in_loop,
    "while_in_foreach": while_in_foreach, "dropout_in_loop": dropout_in_loop,
}


def make(name):
    with mx.name.NameManager():
        symbol, values = LOOPS[name]()
    return symbol, {key: np.asarray(value, np.float32) for key, value in values.items()}


def write(directory):
    for name in filter(str.isidentifier, LOOPS):
        (pathlib.Path(directory) / f"{name}.json").write_text(make(name)[0].tojson() + "\n")


def outputs_of_mxnet(symbol, values):
    arrays = {key: mx.nd.array(value) for key, value in values.items()}
    aux = {key: arrays[key] for key in symbol.list_auxiliary_states()}
    args = {key: arrays[key] for key in symbol.list_arguments()}
    executor = symbol.bind(mx.cpu(), args=args, aux_states=aux)
    return [out.asnumpy() for out in executor.forward(is_train=False)]


def outputs_of_gradc(gradc, symbol, values):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "loop.json").write_text(symbol.tojson())
        np.savez(folder / "in.npz", **values)
        subprocess.run([gradc, "run", folder / "loop.json", "--inputs", folder / "in.npz", "--outputs", folder / "out.npz",
                        "--backend", "reference"], check=True, stdout=subprocess.DEVNULL)
        out = np.load(folder / "out.npz")
        return [out[key] for key in out.files]


def compare(gradc):
    failures = 0
    for name in sorted(LOOPS.keys() - NOT_COMPARED.keys()):
        symbol, values = make(name)
        expected, found = outputs_of_mxnet(symbol, values), outputs_of_gradc(gradc, symbol, values)
        same = len(expected) == len(found) and all(
            e.shape == f.shape and np.allclose(e, f, rtol=1e-6, atol=1e-7) for e, f in zip(expected, found))
        failures += not same
        print(f"{name}: {'agree' if same else 'DIFFER'}")
        if not same:
            print(expected, found, sep="\n")
    return failures


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2])
    else:
        sys.exit(compare(sys.argv[2]) != 0)
