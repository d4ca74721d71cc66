#!/usr/bin/env python3
"""python3 tests/oracles/paddle_record.py [NAME ...]: records testdata/paddle/NAME.json, and testdata/paddle_steps/NAME.json of steps
of optimizers, with Paddle 2.6 (static graphs, CPU).

Each file is a program and the call that differentiates it, as docs/blocks.md describes them. `recorded` holds what Paddle
makes of it: the program after the call, the call's result, float64 values that variables were given, and the values of the
gradients, or of what a step leaves in the stored variables. Drawn numbers depend on the names of program and variable only.
tests/formats/blocks/paddle_values_test.cc and tests/formats/blocks/backward/minimize_test.cc compare."""
import json
import math
import os
import pathlib
import sys
import zlib

os.environ["PYTHONHASHSEED"] = "0"  # the order of captured inputs follows it
import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.base import unique_name
from paddle.base.proto import framework_pb2 as pb

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "testdata/paddle"
STEPS = FOLDER.with_name("paddle_steps")
# Where the user's script is and how it was run: nothing that is computed depends on them.
LEFT_OUT = {"op_callstack", "op_namescope", "op_device", "with_quant_attr", "struct_name"}
FIELDS = {"INT": "i", "STRING": "s", "BOOLEAN": "b", "BLOCK": "block_idx", "LONG": "l", "VAR": "var_name"}
LISTS = {"INTS": "ints", "STRINGS": "strings", "BOOLEANS": "bools", "BLOCKS": "blocks_idx", "LONGS": "longs", "VARS": "vars_name"}


def spelled(value, is_single):
    value = float(str(np.float32(value))) if is_single else float(value)
    return value if math.isfinite(value) else "nan" if value != value else "inf" if value > 0 else "-inf"


def scalar(of):
    kind = pb.Scalar.Type.Name(of.type)
    return [kind, {"BOOLEAN": of.b, "LONG": of.i}.get(kind, spelled(of.r, False))]


def attribute(of):
    kind = pb.AttrType.Name(of.type)
    if kind in FIELDS:
        return [kind, getattr(of, FIELDS[kind])]
    if kind in LISTS:
        return [kind, list(getattr(of, LISTS[kind]))]
    values = {"FLOAT": lambda: spelled(of.f, True), "FLOAT64": lambda: spelled(of.float64, False),
              "FLOATS": lambda: [spelled(x, True) for x in of.floats],
              "FLOAT64S": lambda: [spelled(x, False) for x in of.float64s],
              "SCALAR": lambda: scalar(of.scalar), "SCALARS": lambda: [scalar(x) for x in of.scalars]}
    return [kind, values[kind]()]


def operator(of):
    slots = lambda them: {slot.parameter: list(slot.arguments) for slot in them}
    return {"type": of.type, "in": slots(of.inputs), "out": slots(of.outputs),
            "in_order": [slot.parameter for slot in of.inputs], "out_order": [slot.parameter for slot in of.outputs],
            "attrs": {a.name: attribute(a) for a in of.attrs if a.name not in LEFT_OUT}}


def variable(of):
    kind = pb.VarType.Type.Name(of.type.type)
    made = {"kind": kind, "persistable": of.persistable, "stop_gradient": of.stop_gradient, "is_parameter": of.is_parameter}
    holders = {"LOD_TENSOR": of.type.lod_tensor, "LOD_TENSOR_ARRAY": of.type.tensor_array}
    if kind in holders:
        made["lod_level"] = holders[kind].lod_level
        made["dtype"] = pb.VarType.Type.Name(holders[kind].tensor.data_type)
        made["shape"] = list(holders[kind].tensor.dims)
    if of.need_check_feed:
        made["is_data"] = True
    return made


def program_json(program):
    desc = pb.ProgramDesc.FromString(bytes(program.desc.serialize_to_string()))
    blocks = [{"idx": b.idx, "parent": b.parent_idx, "forward": b.forward_block_idx,
               "vars": {v.name: variable(v) for v in b.vars}, "ops": [operator(o) for o in b.ops]} for b in desc.blocks]
    return {"blocks": blocks, "parameters": [[p.name, bool(p.trainable)] for p in program.global_block().all_parameters()]}


class Case:
    """A program under construction: its feeds, and the last call on it."""

    def __init__(self, name):
        self.name, self.feeds, self.num_calls, self.recorded, self.kind = name, {}, 0, None, "float64"

    def draws(self, name):
        return np.random.default_rng(zlib.crc32(f"{self.name}/{name}".encode()))

    def x(self, name, shape, low=-1.0, high=1.0, stop=False, batch=3):
        made = paddle.static.data(name, shape, self.kind)
        made.stop_gradient = stop
        self.feeds[name] = self.draws(name).uniform(low, high, [batch if size == -1 else size for size in shape]).astype(self.kind)
        return made

    def w(self, name, shape):
        return paddle.create_parameter(shape, self.kind, name=name)

    def whole(self, name, values, dtype):
        self.feeds[name] = np.array(values, dtype)
        return paddle.static.data(name, self.feeds[name].shape, dtype)

    def minimize(self, loss, optimizer, **arguments):
        """`arguments` are those of the file; Paddle is given objects for some of them."""
        self.begin({"api": "minimize", "optimizer": optimizer.__name__.removesuffix("Optimizer"), "loss": loss.name,
                    "optimizer_arguments": arguments})
        given = {name: value for name, value in arguments.items() if not name.startswith("clip_")}
        if "l1_decay" in given:
            given["weight_decay"] = paddle.regularizer.L1Decay(given.pop("l1_decay"))
        elif "weight_decay" in given and optimizer is not paddle.optimizer.AdamW:
            given["weight_decay"] = paddle.regularizer.L2Decay(given["weight_decay"])
        clips = {"clip_by_value": paddle.nn.ClipGradByValue, "clip_by_global_norm": paddle.nn.ClipGradByGlobalNorm}
        for name, clip in clips.items():
            if name in arguments:
                given["grad_clip"] = clip(arguments[name])
        _, pairs = optimizer(0.1, **given).minimize(loss)
        self.end([[p.name, g.name if g is not None else None] for p, g in pairs])

    def begin(self, call):
        program = paddle.static.default_main_program()
        self.recorded = {"call": {**call, "prior_backward_calls": self.num_calls}, "program": program_json(program)}
        self.num_calls += 1

    def end(self, result):
        self.recorded["recorded"] = {"paddle": paddle.__version__, "result": result,
                                     "program": program_json(paddle.static.default_main_program())}

    def backward(self, loss):
        self.begin({"api": "append_backward", "loss": loss.name})
        pairs = paddle.static.append_backward(loss)
        self.end([[p.name, g.name if g is not None else None] for p, g in pairs])

    def gradients(self, targets, inputs, heads=None):
        self.begin({"api": "gradients", "targets": [t.name for t in targets], "inputs": [v.name for v in inputs],
                    "target_gradients": heads and [h.name for h in heads]})
        made = paddle.static.gradients(targets, inputs, heads)
        self.end([g.name if g is not None else None for g in made])
        return made


def mean_square(of):
    return paddle.mean(paddle.square(of + 0.3))


def linear(case, x, sizes):
    for i, size in enumerate(sizes):
        x = paddle.matmul(x, case.w(f"w{i}", [x.shape[-1], size]))
        if i + 1 < len(sizes):
            x = F.leaky_relu(x, 0.2)
    return x


def gradient_penalty(c):
    x = c.x("x", [4, 3])
    g, = c.gradients([linear(c, x, [5, 1])], [x])
    c.backward(paddle.mean(paddle.square(paddle.sqrt(paddle.sum(paddle.square(g), axis=1) + 1e-6) - 1.0)))


def batch_norm_penalty(c):
    x = c.x("x", [2, 1, 4, 4])
    h = F.relu(paddle.static.nn.batch_norm(F.conv2d(x, c.w("k", [2, 1, 3, 3]))))
    g, = c.gradients([paddle.matmul(paddle.reshape(h, [2, 8]), c.w("v", [8, 1]))], [x])
    c.backward(paddle.mean(paddle.square(g)))


def inner_step(c):
    w, v = c.w("w", [3, 4]), c.w("v", [4, 2])
    net = lambda x, w, v: paddle.matmul(F.sigmoid(paddle.matmul(x, w)), v)
    loss = paddle.mean(paddle.square(net(c.x("x", [4, 3], stop=True), w, v) - c.x("y", [4, 2], stop=True)))
    w2, v2 = [p - 0.1 * g for p, g in zip((w, v), c.gradients([loss], [w, v]))]
    c.backward(paddle.mean(paddle.square(net(c.x("xq", [4, 3], stop=True), w2, v2) - c.x("yq", [4, 2], stop=True))))


def elu_derivative(c):
    x, w = c.x("x", [3, 2]), c.w("w", [2, 2])
    g, = c.gradients([F.elu(paddle.matmul(x, w))], [x])
    c.backward(paddle.mean(paddle.square(g)))


def quotient_derivative(c):
    x, w = c.x("x", [3, 2]), c.w("w", [2, 2])
    h = paddle.matmul(x, w)
    g, = c.gradients([h / paddle.sqrt(paddle.sum(paddle.square(h), axis=1, keepdim=True) + 1.0)], [x])
    c.backward(paddle.sum(paddle.square(g)))


def split_derivative(c):
    x, head, again = c.x("x", [2, 4]), c.x("h", [2, 3], stop=True), c.x("s", [2, 4], stop=True)
    a, b = paddle.split(paddle.square(x), [1, 3], axis=1)
    g, = c.gradients([a * b], [x], [head])
    c.gradients([g], [x], [again])


def attention_of_any_batch(c):
    x = c.x("x", [-1, 3, 4])
    n = paddle.shape(x)[0]
    heads = lambda w: paddle.transpose(paddle.reshape(paddle.matmul(x, c.w(w, [4, 4])), [n, 3, 2, 2]), [0, 2, 1, 3])
    q, k = heads("q"), heads("k")
    a = paddle.matmul(F.softmax(paddle.matmul(q, k, transpose_y=True)), q)
    c.backward(mean_square(paddle.reshape(paddle.transpose(a, [0, 2, 1, 3]), [n, 3, 4])))


def slice_by_shape(c):
    x = c.x("x", [4, 3])
    c.backward(mean_square(x[1 : paddle.shape(x)[0] - 1] * c.w("w", [3])))


def decoder(c):
    x, skip = c.x("x", [1, 2, 3, 3]), c.x("skip", [1, 2, 6, 5])
    up = F.interpolate(x, size=paddle.shape(skip)[2:], mode="bilinear")
    c.backward(mean_square(F.conv2d(paddle.concat([up, skip], 1), c.w("k", [1, 4, 2, 2]))))


def bicubic(c):
    c.backward(mean_square(F.interpolate(c.x("x", [1, 1, 3, 4]) * c.w("w", [1]), scale_factor=2, mode="bicubic")))


def attention_by_einsum(c):
    q, k = c.x("q", [1, 3, 2, 2]), c.x("k", [1, 2, 2, 2])
    a = F.softmax(paddle.einsum("bihd,bjhd->bhij", q, k))
    c.backward(mean_square(paddle.einsum("bhij,bjhd->bihd", a, k) * c.w("w", [2])))


def volumes(c):
    h = F.conv3d(c.x("x", [1, 2, 3, 3, 3]), c.w("k", [2, 2, 2, 2, 2]), stride=2, padding=1)
    c.backward(mean_square(F.avg_pool3d(h, 2)))


def assigned_rows(c):
    x = paddle.static.setitem(c.x("x", [3, 4]) * 1.0, (slice(0, 2), slice(1, None, 2)), c.x("v", [2]))
    c.backward(mean_square(paddle.cumprod(x, 1) * c.w("w", [4])))


def shared_batch_norm(c):
    x, w, norm = c.x("x", [4, 3]), c.w("w", [3, 3]), paddle.nn.BatchNorm1D(3)
    c.backward(mean_square(norm(paddle.matmul(norm(paddle.matmul(x, w)), w))))


def steps(c, number, body):
    i, last = paddle.full([1], 0, "int64"), paddle.full([1], number, "int64")
    return paddle.static.nn.while_loop(lambda i, h: i < last, lambda i, h: [i + 1, body(h)], [i, c.x("x", [4, 3]) * 1.0])[1]


def batch_norm_in_loop(c):
    w, norm = c.w("w", [3, 3]), paddle.nn.BatchNorm1D(3)
    c.backward(mean_square(steps(c, 3, lambda h: norm(paddle.matmul(h, w)))))


def batch_norm_in_branch(c):
    x, w, norm = c.x("x", [4, 3]), c.w("w", [3, 3]), paddle.nn.BatchNorm1D(3)
    made = lambda: norm(paddle.matmul(x, w))
    c.backward(mean_square(paddle.static.nn.cond(paddle.mean(x) < 9, made, lambda: paddle.matmul(x, w))))


def frozen_batch_norm_in_loop(c):
    w, norm = c.w("w", [3, 3]), paddle.nn.BatchNorm1D(3, use_global_stats=True)
    c.backward(mean_square(steps(c, 2, lambda h: norm(paddle.matmul(h, w)))))


def lstm_layers(c):
    first = c.w("h", [4, 2, 2]), c.w("c", [4, 2, 2])
    y, (h, last) = paddle.nn.LSTM(3, 2, num_layers=2, direction="bidirect")(c.x("x", [2, 3, 3]), first)
    c.backward(mean_square(y) + paddle.sum(h * last))


def gru_of_lengths(c):
    layer = paddle.nn.GRU(3, 2, direction="bidirect")
    y, h = layer(c.x("x", [2, 4, 3], stop=True), sequence_length=c.whole("lengths", [4, 2], "int32"))
    c.backward(mean_square(y) + paddle.sum(h))


def relu_cells(c):
    c.backward(mean_square(paddle.nn.SimpleRNN(3, 2, activation="relu", time_major=True)(c.x("x", [3, 2, 3]))[1]))


def gru_cells(c):
    y, h = paddle.nn.RNN(paddle.nn.GRUCell(3, 2))(c.x("x", [2, 4, 3]), c.x("h", [2, 2]))
    c.backward(mean_square(y) + paddle.sum(h * h))


def lstm_cells_both_ways(c):
    layer = paddle.nn.BiRNN(paddle.nn.LSTMCell(3, 2), paddle.nn.LSTMCell(3, 2), time_major=True)
    y, (forward, backward) = layer(c.x("x", [3, 2, 3]))
    c.backward(mean_square(y) + paddle.sum(forward[0] * backward[1]))


def simple_cells_of_lengths(c):
    layer = paddle.nn.RNN(paddle.nn.SimpleRNNCell(3, 2), is_reverse=True)
    y, h = layer(c.x("x", [2, 4, 3]), sequence_length=c.whole("lengths", [4, 2], "int32"))
    c.backward(mean_square(y) + paddle.sum(h * h))


def ctc(c):
    label, steps = c.whole("label", [[1, 2], [3, 0]], "int32"), c.whole("steps", [5, 4], "int64")
    lengths, x, w = c.whole("lengths", [2, 1], "int64"), c.x("x", [5, 2, 4]), c.w("w", [4])
    losses = F.ctc_loss(x * w, label, steps, lengths, reduction="none")
    last = F.ctc_loss(x + w, c.whole("other", [[1, 2], [0, 0]], "int32"), steps, lengths, blank=3, reduction="none")
    c.backward(paddle.mean(losses * last))


def products(c):
    a = paddle.kron(c.x("x", [2, 3]), c.w("w", [2, 1, 2]))
    b = paddle.cross(c.x("y", [2, 3]), c.w("v", [2, 3])) * paddle.transpose(paddle.cross(c.x("z", [3, 2]), c.w("u", [3, 2]), axis=0), [1, 0])
    c.backward(mean_square(a) + mean_square(b))


def spatial_transformer(c):
    x = c.x("x", [2, 1, 3, 4])
    theta = paddle.reshape(paddle.matmul(paddle.flatten(x, 1), c.w("w", [12, 6])), [-1, 2, 3])
    y = F.grid_sample(x, F.affine_grid(theta, [2, 1, 3, 2]))
    z = F.grid_sample(x, F.affine_grid(theta, [2, 1, 2, 3], align_corners=False), align_corners=False)
    c.backward(mean_square(y) + mean_square(z))


def sampled_borders(c):
    x, grid = c.x("x", [1, 2, 3, 4]) * c.w("w", [1]), 2.5 * c.w("g", [1, 3, 2, 2])
    y = F.grid_sample(x, grid, padding_mode="border")
    c.backward(mean_square(y) + mean_square(F.grid_sample(x, grid, mode="nearest")))


def shared_extrema(c):
    x, w = c.x("x", [3, 4]), c.w("w", [4])
    tied = F.relu(x * w - 5.0) + c.w("v", [1])
    kth = mean_square(paddle.kthvalue(x * w, 2, axis=0)[0]) + paddle.sum(paddle.kthvalue(x * w, 3, axis=1, keepdim=True)[0])
    c.backward(paddle.amax(tied) * paddle.sum(paddle.amin(x * w, axis=-1, keepdim=True)) + kth)


def running_logs(c):
    x, w = c.x("x", [5, 3]), c.w("w", [3])
    y = paddle.logcumsumexp(x * w, axis=0) * paddle.linspace(-1, 3, 3, dtype="float64")
    c.backward(mean_square(y) + mean_square(paddle.logcumsumexp(x + w, axis=1)))


CASES = [gradient_penalty, batch_norm_penalty, inner_step, elu_derivative, quotient_derivative, split_derivative,
         attention_of_any_batch, slice_by_shape, decoder, bicubic, attention_by_einsum, volumes, assigned_rows,
         shared_batch_norm, batch_norm_in_loop, batch_norm_in_branch, frozen_batch_norm_in_loop, lstm_layers,
         gru_of_lengths, relu_cells, gru_cells, lstm_cells_both_ways, simple_cells_of_lengths, ctc, products, spatial_transformer, sampled_borders, shared_extrema, running_logs]

OPTIMIZERS = {
    "adamw": ("AdamW", dict(beta1=0.8, beta2=0.95, epsilon=1e-5, weight_decay=0.05)),
    "adamax": ("Adamax", dict(beta1=0.7, weight_decay=0.02)),
    "adagrad": ("Adagrad", dict(epsilon=1e-3)),
    "adadelta": ("Adadelta", dict(rho=0.9)),
    "rmsprop": ("RMSProp", {}),
    "rmsprop_centered": ("RMSProp", dict(centered=True, momentum=0.5, rho=0.8, l1_decay=0.02)),
    "lamb": ("Lamb", {}),
    "lamb_without_decay": ("Lamb", dict(lamb_weight_decay=0.0)),
    "lars": ("LarsMomentum", dict(momentum=0.5, lars_coeff=0.1, epsilon=0.1)),
    "momentum_decay": ("Momentum", dict(momentum=0.8, use_nesterov=True, weight_decay=0.1)),
    "momentum_l1": ("Momentum", dict(l1_decay=0.1)),
    "sgd_decay": ("SGD", dict(weight_decay=0.1, clip_by_value=0.01)),
    "adam_clipped": ("Adam", dict(weight_decay=0.1, clip_by_global_norm=0.05)),
}


def scaled_step(c):
    """A step in mixed precision: its program is Paddle's own, and no call of the file makes it."""
    c.kind = "float32"
    h = paddle.matmul(c.x("x", [3, 2], 5, 9), c.w("w", [2, 2])) + c.w("b", [2])
    scaled = paddle.static.amp.decorate(paddle.optimizer.SGD(0.1), init_loss_scaling=2.0, incr_every_n_steps=3,
                                        decr_every_n_nan_or_inf=2, incr_ratio=2.0, decr_ratio=0.8)
    scaled.minimize(mean_square(h))
    c.recorded = {"program": program_json(paddle.static.default_main_program()), "recorded": {"result": []}}


def overflowing_step(c):
    scaled_step(c)


def step_of(name, optimizer, arguments):
    def build(c):
        h = paddle.matmul(c.x("x", [3, 2]), c.w("w", [2, 2])) + c.w("b", [2])
        made = getattr(paddle.optimizer, optimizer, None) or getattr(paddle.incubate.optimizer, optimizer + "Optimizer")
        c.minimize(paddle.mean(paddle.tanh(h)), made, **arguments)

    build.__name__ = name
    return build


def array(of):
    of = np.atleast_1d(of)
    kind = {} if of.dtype == np.float64 else {"dtype": str(of.dtype)}
    return {"shape": list(of.shape), "values": of.ravel().tolist(), **kind}


def record(build):
    case = Case(build.__name__)
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), unique_name.guard():
        build(case)
    executor, scope = paddle.static.Executor(paddle.CPUPlace()), paddle.base.Scope()
    recorded = case.recorded["recorded"]
    is_step = case.recorded.get("call", {"api": "minimize"})["api"] == "minimize"
    read = {name for block in main.blocks for op in block.ops for name in op.input_arg_names}
    stored = [v.name for v in main.list_vars() if v.persistable and v.name in read]
    with paddle.static.scope_guard(scope):
        executor.run(startup)
        given = dict(case.feeds)
        for name in stored:
            tensor = scope.find_var(name).get_tensor()
            low = 0.4 if name.endswith(".w_2") else 0.1 if is_step else -0.7  # a variance is positive
            high = 0.9 if is_step else 1.2
            given[name] = case.draws(name).uniform(low, high, np.array(tensor).shape)
            if "mean_square" in name:
                given[name] += 1  # above the square of the mean
            if name.startswith("num_"):  # the next step is the third good one, and the second bad one
                given[name] = np.array([2 if "good" in name else 1], np.int32)
            if name.startswith("loss_scaling") and case.name == "overflowing_step":
                given[name] = np.array([3e38])
            given[name] = given[name].astype(np.array(tensor).dtype)
            tensor.set(given[name], paddle.CPUPlace())
        wanted = [row[1] if isinstance(row, list) else row for row in recorded["result"]]
        made = executor.run(main, feed=case.feeds, fetch_list=[name for name in wanted if name and not is_step])
        after = {name: array(np.array(scope.find_var(name).get_tensor())) for name in stored}
    recorded["given"] = {name: array(value) for name, value in given.items()}
    if is_step:
        recorded["after"] = after
    else:
        recorded["gradients"] = {name: array(value) for name, value in zip(filter(None, wanted), made)}
    text = json.dumps(case.recorded, sort_keys=True, separators=(",", ":"), allow_nan=False)
    ((STEPS if is_step else FOLDER) / f"{case.name}.json").write_text(text + "\n")


def main():
    paddle.enable_static()
    paddle.set_default_dtype("float64")
    FOLDER.mkdir(exist_ok=True)
    STEPS.mkdir(exist_ok=True)
    steps_taken = [step_of(name, *rest) for name, rest in OPTIMIZERS.items()] + [scaled_step, overflowing_step]
    for build in CASES + steps_taken:
        if not sys.argv[1:] or build.__name__ in sys.argv[1:]:
            record(build)


if __name__ == "__main__":
    main()
