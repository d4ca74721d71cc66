"""Loops and branches as MXNet's own front end writes them: each a symbol with values of its variables.

Used by mxnet_loops.py, which needs the variable MXNET_SUBGRAPH_BACKEND set before mxnet is imported.
"""
import functools

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


def drawn(**shapes):
    draw = np.random.RandomState(5).uniform
    return {name: draw(-1, 1, shape) for name, shape in shapes.items()}


def gru():
    x, h, wi, wh, bi, bh = var("x h wi wh bi bh")

    def body(i, states):
        a = sym.SliceChannel(sym.FullyConnected(i, wi, bi, num_hidden=9), num_outputs=3)
        b = sym.SliceChannel(sym.FullyConnected(states[0], wh, bh, num_hidden=9), num_outputs=3)
        reset, update = sym.sigmoid(a[0] + b[0]), sym.sigmoid(a[1] + b[1])
        new = (1 - update) * sym.tanh(a[2] + reset * b[2]) + update * states[0]
        return new, [new]

    return group(*contrib.foreach(body, x, [h])), drawn(x=(4, 2, 5), h=(2, 3), wi=(9, 5), wh=(9, 3), bi=9, bh=9)


def attention():
    query, h, memory = var("query h memory")

    def body(q, states):
        scores = sym.batch_dot(memory, sym.expand_dims(q + states[0], axis=2))
        weights = sym.softmax(scores, axis=1)
        context = sym.Reshape(sym.batch_dot(memory, weights, transpose_a=True), shape=(2, 3))
        return weights, [context]

    return group(*contrib.foreach(body, query, [h])), drawn(query=(3, 2, 3), h=(2, 3), memory=(2, 4, 3))


def two_layers():
    x, h, k, u, v = var("x h k u v")

    def body(i, states):
        low = sym.tanh(sym.dot(i, u) + states[0])
        high = sym.relu(sym.dot(low, v, transpose_b=True) - states[1])
        return [low, high], [low, high]

    return group(*contrib.foreach(body, x, [h, k])), drawn(x=(3, 2, 4), h=(2, 3), k=(2, 4), u=(4, 3), v=(4, 3))


def layer_norm_in_loop():
    x, s, g, b = var("x s gamma beta")
    loop = contrib.foreach(lambda i, st: (st[0] * i, [sym.LayerNorm(i + st[0], g, b)]), x, [s])
    return group(*loop), drawn(x=(3, 2, 4), s=(2, 4), gamma=4, beta=4)


def fixed_norm_in_loop():
    x, s, g, b = var("x s gamma beta")
    mean, variance = var("moving_mean moving_var")

    def body(i, states):
        y = sym.BatchNorm(i * states[0], g, b, mean, variance, fix_gamma=False, use_global_stats=True, name="bn")
        return y, [sym.tanh(y)]

    values = drawn(x=(3, 4, 2), s=(4, 2), gamma=2, beta=2)
    return group(*contrib.foreach(body, x, [s])), {**values, "moving_mean": [0.5, 0.25], "moving_var": [1, 2]}


def broadcast_in_loop():
    x, s, w, c = var("x s w c")
    loop = contrib.foreach(lambda i, st: (sym.broadcast_mul(st[0], w), [sym.broadcast_add(sym.broadcast_div(i, c), st[0])]), x, [s])
    return group(*loop), {**drawn(x=(3, 1, 4), s=(2, 4), w=(2, 1)), "c": [[2], [-3]]}


def reduced_in_loop():
    x, s = var("x s")

    def body(i, states):
        new = states[0] + sym.sum(i * i, axis=1) - sym.mean(i, axis=1)
        return sym.max(i, axis=1) * new, [new]

    return group(*contrib.foreach(body, x, [s])), drawn(x=(3, 2, 4), s=2)


def embedded():
    index, h, table = var("index h table")
    loop = contrib.foreach(lambda i, st: (st[0], [sym.tanh(sym.take(table, i) + st[0])]), index, [h])
    return group(*loop), {"index": [[0, 2], [1, 1], [2, 0]], **drawn(h=(2, 3), table=(3, 3))}


def pieces_in_loop():
    x, s = var("x s")

    def body(i, states):
        y = sym.LeakyReLU(states[0] - i, act_type="leaky", slope=0.25) + sym.abs(i)
        return sym.clip(y, -0.5, 0.5), [sym.where(i > 0, y, states[0])]

    return group(*contrib.foreach(body, x, [s])), drawn(x=(4, 5), s=5)


def moved_in_loop():
    x, s = var("x s")

    def body(i, states):
        rolled = sym.Concat(sym.slice_axis(states[0], axis=1, begin=1, end=None), i, dim=1)
        return sym.transpose(rolled) * 2, [rolled]

    return group(*contrib.foreach(body, x, [s])), drawn(x=(3, 2, 1), s=(2, 3))


def chained():
    x, s, w = var("x s w")
    first, _ = contrib.foreach(lambda i, st: (i * st[0], [sym.sin(st[0])]), x, [s])
    return group(*contrib.foreach(lambda i, st: (sym.exp(i) * w, [st[0] + i * w]), first, [s])), drawn(x=(3, 2), s=2, w=2)


def rows_of_rows():
    x, s, w = var("x s w")

    def inner(j, states):
        new = sym.tanh(j * w + states[0])
        return new, [new]

    def outer(i, states):
        rows, final = contrib.foreach(inner, i, states)
        return rows, as_list(final)

    return group(*contrib.foreach(outer, x, [s])), drawn(x=(2, 3, 4), s=4, w=4)


def newton():
    a, x, i = var("a x i")

    def step(x, i):
        new = 0.5 * (x + a / x)
        return [], [new, i + 1]

    return group([], contrib.while_loop(lambda x, i: sym.abs(x * x - a) > 0.01, step, [x, i], max_iterations=20)[1]), {
        "a": [2], "x": [1.5], "i": [0]}


def all_steps():
    x, i, w = var("x i w")
    loop = contrib.while_loop(lambda x, i: i < 4, lambda x, i: (sym.sin(x), [x * w, i + 1]), [x, i], max_iterations=4)
    return group(*loop), {"x": [0.3], "i": [0], "w": [1.5]}


def wide_while():
    x, i, w = var("x i w")
    loop = contrib.while_loop(lambda x, i: i < 2, lambda x, i: ([], [sym.tanh(sym.dot(x, w)), i + 1]), [x, i], max_iterations=6)
    return group([], loop[1]), {**drawn(x=(2, 3), w=(3, 3)), "i": [0]}


def while_in_while():
    x, i, j = var("x i j")

    def inner(x, j):
        return [], [x * 1.5 - 0.25, j + 1]

    def outer(x, i):
        final = contrib.while_loop(lambda x, j: j < 2, inner, [x, j], max_iterations=3)[1]
        return [], [final[0] * final[0], i + 1]

    return group([], contrib.while_loop(lambda x, i: i < 2, outer, [x, i], max_iterations=3)[1]), {"x": [0.9], "i": [0], "j": [0]}


def curved_cond(p):
    predicate, a, b = var("p a b")
    return contrib.cond(predicate > 0, lambda: sym.tanh(a * b) * a, lambda: sym.exp(b) / a), {"p": [p], "a": [2], "b": [0.5]}


def loop_in_cond(p):
    predicate, x, s = var("p x s")
    loop = lambda: contrib.foreach(lambda i, st: ([], [sym.tanh(st[0] * i)]), x, [s])[1][0]
    return contrib.cond(predicate > 0, loop, lambda: s * s), {"p": [p], **drawn(x=(3, 2), s=2)}


def still_dropout():
    x, s = var("x s")
    return group(*contrib.foreach(lambda i, st: (sym.Dropout(i * st[0], p=0), [st[0] + i]), x, [s])), drawn(x=(3, 4), s=4)


def convolved():
    x, s, w = var("x s w")

    def body(i, states):
        y = sym.Convolution(i, w, kernel=(3, 3), num_filter=2, pad=(1, 1), no_bias=True)
        return y, [states[0] + y]

    return group(*contrib.foreach(body, x, [s])), drawn(x=(2, 1, 2, 4, 4), s=(1, 2, 4, 4), w=(2, 2, 3, 3))


def ordered_in_loop():
    x, s = var("x s")

    def body(i, states):
        new = sym.tanh(i * states[0])
        return [sym.topk(new, k=2, ret_typ="value", axis=0), sym.sort(new, axis=1)], [sym.sort(new, axis=-1, is_ascend=False)]

    return group(*contrib.foreach(body, x, [s])), drawn(x=(3, 2, 4), s=(2, 4))


def entropy_in_loop():
    x, label, s, w = var("x label s w")

    def body(i, states):
        scores = sym.dot(i[0] * states[0], w)
        return sym.softmax_cross_entropy(scores, i[1]), [states[0] * 1.5]

    return group(*contrib.foreach(body, [x, label], [s])), {**drawn(x=(3, 2, 4), s=(2, 4), w=(4, 3)), "label": [[0, 1], [2, 2], [1, 0]]}


def counted_in_cond(p):
    predicate, a, b = var("p a b")

    def loop():
        return contrib.while_loop(lambda a: sym.sum(a) < 2, lambda a: ([], [a * 1.5 + b]), [a], max_iterations=4)[1][0]

    return contrib.cond(predicate > 0, loop, lambda: a * b), {"p": [p], "a": [0.25, 0.5], "b": [0.125, 0.25]}


def indexed_in_cond(p):
    predicate, index, table = var("p index table")
    pick = lambda: sym.tanh(sym.take(table, sym.Cast(index, dtype="int64"))) * 2
    return contrib.cond(predicate > 0, pick, lambda: table * table), {"p": [p], "index": [2.5, 0.5, 0.25], **drawn(table=3)}


LOOPS = {loop.__name__: loop for loop in (
    cf03, two_states, only_states, swapped, squares, powers, cf08, cf11, cf12, lstm, branch_in_loop, norm_in_loop,
    while_in_foreach, dropout_in_loop, gru, attention, two_layers, layer_norm_in_loop, fixed_norm_in_loop, broadcast_in_loop,
    reduced_in_loop, embedded, pieces_in_loop, moved_in_loop, chained, rows_of_rows, newton, all_steps, wide_while,
    while_in_while, still_dropout, convolved, ordered_in_loop, entropy_in_loop)}
LOOPS["lstm_unrolled"] = lambda: lstm(True)
for _branch in (cond, curved_cond, loop_in_cond, counted_in_cond, indexed_in_cond):
    LOOPS[_branch.__name__] = functools.partial(_branch, 1)
    LOOPS[_branch.__name__ + ":else"] = functools.partial(_branch, -1)


def make(name):
    with mx.name.NameManager():
        symbol, values = LOOPS[name]()
    return symbol, {key: np.asarray(value, np.float32) for key, value in values.items()}
