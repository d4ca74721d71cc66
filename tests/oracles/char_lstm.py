#!/usr/bin/env python3
"""Writes testdata/char_lstm: a text as examples, and a network that predicts its characters, by MXNet's front end.

  char_lstm.py DIRECTORY

loop.json runs the cell in a `foreach`; fused.json is the same network with MXNet's RNN operator. loop.npz and fused.npz have
the same initial values, with those of the operator in one vector.
"""
import os
import pathlib
import sys
import zipfile

os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"
import mxnet as mx
import numpy as np

sym = mx.sym
STEPS, HIDDEN, STRIDE = 16, 24, 4


def examples(text):
    letters = sorted(set(text))
    codes = np.array([letters.index(c) for c in text], np.uint8)
    starts = range(0, len(codes) - STEPS, STRIDE)
    rows = lambda shift: np.stack([codes[s + shift:s + shift + STEPS] for s in starts])
    return {"data": rows(0), "label": rows(1)}, len(letters)


def cell(x, states):
    h, c = states
    gates = (sym.FullyConnected(x, sym.var("i2h_weight"), sym.var("i2h_bias"), num_hidden=4 * HIDDEN, name="i2h")
             + sym.FullyConnected(h, sym.var("h2h_weight"), sym.var("h2h_bias"), num_hidden=4 * HIDDEN, name="h2h"))
    i, f, g, o = sym.SliceChannel(gates, num_outputs=4, name="gates")
    c = sym.sigmoid(f) * c + sym.sigmoid(i) * sym.tanh(g)
    h = sym.sigmoid(o) * sym.tanh(c)
    return h, [h, c]


def network(size, is_fused):
    rows = sym.Embedding(sym.var("data"), sym.var("embed_weight"), input_dim=size, output_dim=HIDDEN, name="embed")
    rows = sym.transpose(rows, axes=(1, 0, 2), name="steps")
    if is_fused:
        start = sym.zeros_like(sym.slice_axis(rows, axis=0, begin=0, end=1), name="start")
        out = sym.RNN(rows, sym.var("rnn_parameters"), start, start, mode="lstm", state_size=HIDDEN, num_layers=1,
                      name="rnn")
    else:
        first = sym.reshape(sym.slice_axis(rows, axis=0, begin=0, end=1), shape=(-3, -2))
        starts = [sym.zeros_like(first, name=name) for name in ("start_h", "start_c")]
        out, _ = sym.contrib.foreach(cell, rows, starts, name="lstm")
    out = sym.reshape(sym.transpose(out, axes=(1, 0, 2)), shape=(-3, -2))
    out = sym.FullyConnected(out, sym.var("out_weight"), sym.var("out_bias"), num_hidden=size, name="out")
    label = sym.reshape(sym.var("label"), shape=(-1,))
    return sym.SoftmaxOutput(out, label, normalization="batch", name="softmax")


def parameters(size):
    draw = np.random.RandomState(1)
    shapes = {"embed_weight": (size, HIDDEN), "i2h_weight": (4 * HIDDEN, HIDDEN), "h2h_weight": (4 * HIDDEN, HIDDEN),
              "i2h_bias": (4 * HIDDEN,), "h2h_bias": (4 * HIDDEN,), "out_weight": (size, HIDDEN), "out_bias": (size,)}
    return {name: draw.uniform(-0.2, 0.2, shape).astype(np.float32) for name, shape in shapes.items()}


def save(path, arrays):
    """As np.savez, but the same bytes every time."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, array in arrays.items():
            with out.open(zipfile.ZipInfo(name + ".npy"), "w") as file:
                np.save(file, array)


def main():
    folder = pathlib.Path(sys.argv[1])
    arrays, size = examples((folder / "jabberwocky.txt").read_text())
    save(folder / "text.npz", arrays)
    for name, is_fused in (("loop", False), ("fused", True)):
        with mx.name.NameManager():
            (folder / (name + ".json")).write_text(network(size, is_fused).tojson() + "\n")
    values = parameters(size)
    save(folder / "loop.npz", values)
    cells = ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias")
    packed = np.concatenate([values.pop(name).ravel() for name in cells])
    save(folder / "fused.npz", {"rnn_parameters": packed, **values})


if __name__ == "__main__":
    main()
