"""Compares values and gradients of the first two orders with PyTorch's, in float64, operator by operator.

Usage: python tests/oracles/pytorch/torch_values.py GRADC [--only OP,...] [--seeds N] [--type float64|float16|bfloat16]
       python tests/oracles/pytorch/torch_values.py --record FOLDER --only OP,...

Needs a Python with torch and numpy; nothing else in the project does. Each row is a graph of one node. gradc differentiates
it twice (`grad --order 2`, its head gradient an input); PyTorch differentiates the sum of its first gradients. Prints one line
per operator with the largest relative errors of output, first and second gradients; exit code 1 when one exceeds 1e-9.

--record writes PyTorch's values and first gradients to FOLDER/OP.json, in the form of tests/oracles/conformance_oracle.py: for operators
that MXNet lacks.

In float16 and bfloat16 the second gradients are left out. Both sides round every node to 16 bits, PyTorch some intermediate
results of a node too, so they may be apart by a few units of the last place; what PyTorch cannot run there is skipped.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import zlib

import numpy as np
import torch
import torch.nn.functional as F

import torch_layers

TOLERANCE = {"float64": 1e-9, "float16": 6 * 2.0 ** -11, "bfloat16": 6 * 2.0 ** -8}
EPSILON = 2.0 ** -10  # MXNet holds it in single precision
ANY, POSITIVE, UNIT, ABOVE_ONE = (-1.5, 1.5), (0.4, 1.6), (-0.9, 0.9), (1.1, 2.1)
MATRIX = (3, 4)


def rows():
    """(operator, attributes, [(shape, range or array)], function of tensors, inputs to differentiate). The attribute __output__ is
    the number of the output that is compared. Of an operator that ignores its head gradient the function gives a pair: the output, and the loss."""
    unary = {
        "negative": torch.neg, "exp": torch.exp, "square": torch.square, "reciprocal": torch.reciprocal, "abs": torch.abs,
        "relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "softsign": F.softsign, "expm1": torch.expm1,
        "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "arctan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh,
        "arcsinh": torch.asinh, "degrees": torch.rad2deg, "radians": torch.deg2rad, "erf": torch.erf, "silu": F.silu,
        "log_sigmoid": F.logsigmoid, "mish": F.mish, "gelu": F.gelu, "hard_swish": F.hardswish,
    }
    for op, f in unary.items():
        yield op, {}, [(MATRIX, (-2.5, 2.5) if op != "reciprocal" else POSITIVE)], f, None
    positive = {"log": torch.log, "log2": torch.log2, "log10": torch.log10, "log1p": torch.log1p, "sqrt": torch.sqrt,
                "rsqrt": torch.rsqrt, "gammaln": torch.lgamma, "digamma": torch.digamma,
                "cbrt": lambda x: x ** (1 / 3), "rcbrt": lambda x: x ** (-1 / 3), "gamma": lambda x: torch.exp(torch.lgamma(x))}
    for op, f in positive.items():
        yield op, {}, [(MATRIX, POSITIVE)], f, None
    for op, f in {"arcsin": torch.asin, "arccos": torch.acos, "arctanh": torch.atanh, "erfinv": torch.erfinv}.items():
        yield op, {}, [(MATRIX, UNIT)], f, None
    yield "arccosh", {}, [(MATRIX, ABOVE_ONE)], torch.acosh, None

    binary = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "power": torch.pow, "hypot": torch.hypot,
              "maximum": torch.maximum, "minimum": torch.minimum, "mod": torch.remainder}
    for op, f in binary.items():
        yield "broadcast_" + op, {}, [((2, 3, 4), POSITIVE), ((3, 1), POSITIVE)], f, None
    for op, f in {"elemwise_add": torch.add, "elemwise_sub": torch.sub, "elemwise_mul": torch.mul, "elemwise_div": torch.div,
                  "_power": torch.pow, "_hypot": torch.hypot, "_maximum": torch.maximum, "_minimum": torch.minimum,
                  "_mod": torch.remainder}.items():
        yield op, {}, [(MATRIX, POSITIVE), (MATRIX, POSITIVE)], f, None
    yield "_npi_arctan2", {}, [(MATRIX, ANY), ((4,), ANY)], torch.atan2, None
    yield "_npi_ldexp", {}, [(MATRIX, ANY), ((4,), ANY)], lambda a, b: a * 2 ** b, None
    s = 0.7
    scalar = {"_plus_scalar": lambda x: x + s, "_minus_scalar": lambda x: x - s, "_rminus_scalar": lambda x: s - x,
              "_mul_scalar": lambda x: x * s, "_div_scalar": lambda x: x / s, "_rdiv_scalar": lambda x: s / x,
              "_power_scalar": lambda x: x ** s, "_rpower_scalar": lambda x: s ** x,
              "_hypot_scalar": lambda x: torch.hypot(x, torch.tensor(s, dtype=torch.float64)),
              "_mod_scalar": lambda x: torch.remainder(x, s), "_rmod_scalar": lambda x: torch.remainder(torch.full_like(x, s), x),
              "_npi_arctan2_scalar": lambda x: torch.atan2(x, torch.full_like(x, s)),
              "_npi_rarctan2_scalar": lambda x: torch.atan2(torch.full_like(x, s), x),
              "_npi_ldexp_scalar": lambda x: x * 2 ** s, "_npi_rldexp_scalar": lambda x: s * 2 ** x}
    for op, f in scalar.items():
        yield op, {"scalar": s}, [(MATRIX, POSITIVE)], f, None

    data = [((2, 3, 4), ANY)]
    yield "sum", {"axis": 1}, data, lambda x: x.sum(1), None
    yield "mean", {"axis": "(0,2)"}, data, lambda x: x.mean((0, 2)), None
    yield "prod", {"axis": 1}, data, lambda x: x.prod(1), None
    yield "max", {"axis": 1}, data, lambda x: x.amax(1), None
    yield "min", {"axis": 1}, data, lambda x: x.amin(1), None
    yield "nansum", {"axis": 1}, data, lambda x: x.nansum(1), None
    yield "norm", {"axis": 1}, data, lambda x: x.norm(dim=1), None
    yield "norm", {"axis": 1, "ord": 1}, data, lambda x: x.norm(p=1, dim=1), None
    yield "_np_cumsum", {"axis": 1}, data, lambda x: x.cumsum(1), None
    yield "softmax", {"axis": 1}, data, lambda x: x.softmax(1), None
    yield "log_softmax", {"axis": 1}, data, lambda x: x.log_softmax(1), None
    yield "sort", {"axis": 1}, data, lambda x: x.sort(1)[0], None
    yield "topk", {"axis": 2, "k": 2, "ret_typ": "value"}, data, lambda x: x.topk(2, 2)[0], None
    yield "transpose", {"axes": "(2,0,1)"}, data, lambda x: x.permute(2, 0, 1), None
    yield "reverse", {"axis": 1}, data, lambda x: x.flip(1), None
    yield "tile", {"reps": "(2,1,2)"}, data, lambda x: x.tile(2, 1, 2), None
    yield "repeat", {"repeats": 2, "axis": 1}, data, lambda x: x.repeat_interleave(2, 1), None
    yield "clip", {"a_min": -0.5, "a_max": 0.6}, data, lambda x: x.clamp(-0.5, 0.6), None
    yield "diag", {"k": 1}, [(MATRIX, ANY)], lambda x: x.diag(1), None
    yield "depth_to_space", {"block_size": 2}, [((1, 8, 2, 3), ANY)], lambda x: dcr(x, 2), None
    yield "im2col", {"kernel": "(2,2)", "stride": "(1,2)", "pad": "(1,0)"}, [((1, 2, 4, 4), ANY)], \
        lambda x: F.unfold(x, (2, 2), stride=(1, 2), padding=(1, 0)), None

    index = np.array([2.0, 0, 1, 2])
    long = lambda v: torch.tensor(v).long()
    yield "take", {"axis": 1}, [((2, 3, 4), ANY), ((4,), index)], lambda x, i: x.index_select(1, long(index)), [0]
    yield "pick", {"axis": 1}, [((4, 3), ANY), ((4,), index)], lambda x, i: x.gather(1, long(index)[:, None])[:, 0], [0]
    yield "batch_take", {}, [((4, 3), ANY), ((4,), index)], lambda x, i: x.gather(1, long(index)[:, None])[:, 0], [0]
    yield "Embedding", {"input_dim": 3, "output_dim": 5}, [((4,), index), ((3, 5), ANY)], lambda i, w: F.embedding(long(index), w), [1]
    cells = np.array([[1.0, 0, 1], [2, 1, 2]])
    yield "gather_nd", {}, [((3, 4), ANY), ((2, 3), cells)], lambda x, i: x[long(cells[0]), long(cells[1])], [0]
    yield "where", {}, [(MATRIX, (np.arange(12) % 2.0).reshape(MATRIX)), (MATRIX, ANY), (MATRIX, ANY)], \
        lambda c, x, y: torch.where(c > 0, x, y), [1, 2]

    yield "dot", {}, [((3, 4), ANY), ((4, 2), ANY)], torch.matmul, None
    yield "batch_dot", {}, [((2, 3, 4), ANY), ((2, 4, 2), ANY)], torch.bmm, None
    yield "_linalg_gemm2", {"alpha": 0.5, "transpose_b": True}, [((2, 3, 4), ANY), ((2, 5, 4), ANY)], \
        lambda a, b: 0.5 * a @ b.mT, None
    yield "FullyConnected", {"num_hidden": 2}, [((3, 4), ANY), ((2, 4), ANY), ((2,), ANY)], F.linear, None
    yield "Convolution", {"num_filter": 2, "kernel": "(2,2)", "stride": "(1,2)", "pad": "(1,0)"}, \
        [((2, 3, 4, 4), ANY), ((2, 3, 2, 2), ANY), ((2,), ANY)], lambda x, w, b: F.conv2d(x, w, b, (1, 2), (1, 0)), None
    yield "Deconvolution", {"num_filter": 2, "kernel": "(2,2)", "stride": "(2,2)", "no_bias": True}, \
        [((2, 3, 3, 3), ANY), ((3, 2, 2, 2), ANY)], lambda x, w: F.conv_transpose2d(x, w, stride=(2, 2)), None
    yield "Pooling", {"kernel": "(2,2)", "stride": "(2,2)", "pool_type": "avg"}, [((2, 2, 4, 4), ANY)], lambda x: F.avg_pool2d(x, 2), None
    yield "Pooling", {"kernel": "(2,2)", "stride": "(2,2)", "pool_type": "max"}, [((2, 2, 4, 4), ANY)], lambda x: F.max_pool2d(x, 2), None
    yield "LayerNorm", {"eps": EPSILON}, [((3, 4), ANY), ((4,), ANY), ((4,), ANY)], lambda x, g, b: F.layer_norm(x, (4,), g, b, EPSILON), None
    yield "InstanceNorm", {"eps": EPSILON}, [((2, 3, 4), ANY), ((3,), ANY), ((3,), ANY)], \
        lambda x, g, b: F.instance_norm(x, weight=g, bias=b, eps=EPSILON), None
    yield "L2Normalization", {"eps": 1e-12}, [((3, 4), POSITIVE)], lambda x: x / (x.square().sum(1, keepdim=True) + 1e-12).sqrt(), None
    yield "LeakyReLU", {"act_type": "elu", "slope": 0.25}, [((3, 4), ANY)], lambda x: torch.where(x > 0, x, 0.25 * torch.expm1(x)), None
    yield "Activation", {"act_type": "softrelu"}, [((3, 4), ANY)], F.softplus, None
    yield "smooth_l1", {"scalar": 1}, [((3, 4), (-2.5, 2.5))], lambda x: F.smooth_l1_loss(x, torch.zeros_like(x), reduction="none"), None
    yield "softmax_cross_entropy", {}, [((4, 3), ANY), ((4,), index)], \
        lambda x, i: F.cross_entropy(x, long(index), reduction="sum").reshape(1), [0]
    yield from torch_layers.rows()


def dcr(x, block):
    n, c, h, w = x.shape
    parts = x.reshape(n, block, block, c // block ** 2, h, w)
    return parts.permute(0, 3, 4, 1, 5, 2).reshape(n, c // block ** 2, h * block, w * block)


def draw(op, k, seed, shape, what):
    if isinstance(what, np.ndarray):
        return what
    rng = np.random.RandomState(zlib.crc32(f"{op}/{k}/{seed}".encode()) & 0x7FFFFFFF)
    values = rng.uniform(what[0], what[1], shape)
    # Away from kinks at 0, which is where the peers choose freely.
    return np.where(np.abs(values) < 0.02, 0.1, values)


def rounded(array, dtype, k=None):
    if dtype != "float64" and k is not None and not float(np.max(np.abs(array))).is_integer():
        # No two operands tie, where the peers choose freely.
        array = np.round(array * 64) / 64 + (k % 2) / 128
    return torch.tensor(array).to(getattr(torch, dtype)).to(torch.float64).numpy()


def by_torch(arrays, wrt, function, head, dtype):
    tensors = [torch.tensor(a, dtype=getattr(torch, dtype), requires_grad=k in wrt) for k, a in enumerate(arrays)]
    y = function(*tensors)
    y, loss = y if isinstance(y, tuple) else (y, (y * torch.tensor(head(y.shape)).to(y.dtype)).sum())
    chosen = [tensors[k] for k in wrt]
    isDouble = dtype == "float64"
    first = torch.autograd.grad(loss, chosen, create_graph=isDouble)
    second = []
    if isDouble:
        total = sum(g.sum() for g in first)
        second = torch.autograd.grad(total, chosen, allow_unused=True) if total.requires_grad else [None] * len(chosen)
        second = [torch.zeros_like(x) if g is None else g for g, x in zip(second, chosen)]
    return [t.detach().to(torch.float64).numpy(force=True) for t in [y, *first, *second]]


def numbers(array):
    """bfloat16 is two raw bytes in a file."""
    if array.dtype.kind == "V":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def by_gradc(gradc, folder, op, attrs, arrays, wrt, head, dtype):
    nodes = [{"op": "null", "name": f"x{k}", "inputs": []} for k in range(len(arrays))]
    nodes.append({"op": op, "name": "op", "attrs": {k: str(v) for k, v in attrs.items() if k != "__output__"},
                  "inputs": [[k, 0, 0] for k in range(len(arrays))]})
    output = attrs.get("__output__", 0)
    graph = {"nodes": nodes, "arg_nodes": list(range(len(arrays))), "heads": [[len(arrays), output, 0]],
             "attrs": {"mxnet_version": ["int", 10901]}}
    path = os.path.join(folder, "in.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(graph, file)
    inputs = {f"x{k}": a for k, a in enumerate(arrays)} | {"hg": head}
    np.savez(os.path.join(folder, "in.npz"), **inputs)
    isDouble = dtype == "float64"
    shapes = [f"--shape=x{k}={','.join(map(str, a.shape))}" for k, a in enumerate(arrays)]
    command = [gradc, "grad", path, "--wrt", ",".join(f"x{k}" for k in wrt), "--seed", f"op:{output}=hg", "--unused=zeros",
               *(["--order", "2"] if isDouble else []),
               *[f"--dtype=x{k}={dtype}" for k in range(len(arrays))], *shapes, "-o", os.path.join(folder, "g.json")]
    subprocess.run(command, check=True, capture_output=True, text=True)
    out = os.path.join(folder, "out.npz")
    types = ["--dtype=float64"] if isDouble else [f"--dtype=x{k}={dtype}" for k in range(len(arrays))]
    subprocess.run([gradc, "run", os.path.join(folder, "g.json"), "--train", *types, "--inputs", os.path.join(folder, "in.npz"),
                    "--outputs", out], check=True, capture_output=True, text=True)
    with open(os.path.join(folder, "g.json"), encoding="utf-8") as file:
        kinds = json.load(file)["attrs"]["head_kind"][1]
    with np.load(out) as archive:
        return [numbers(archive[name]) for name in archive.files][: len(kinds)]


# Operators that are not compared, by parts of their names, and why.
OTHERS = {
    "no gradient flows through it":
        r"argmax(_channel)?|argmin|argsort|.*(equal|greater|lesser)(_scalar)?|.*logical_(and|or|xor|not)(_scalar)?|one_hot|(ones|zeros)_like|"
        r"_(arange|eye|full|linspace|ones|zeros|constant|zeros_without_dtype|index_like|sort_order|in_training)|"
        r"_contrib_(arange_like|index_array)|_(un)?ravel_(multi_)?index|(shape|size)_array",
    "its derivative is 0 almost everywhere": r"ceil|floor|fix|rint|round|sign|trunc",
    "draws random numbers": r"Dropout|_random_.*|_sample_.*|_shuffle|_uniform_like",
    "a step of an optimizer, which is not differentiated": r".*_update(_phase\d)?",
    "runs bodies": r"_(call|cond|foreach|scan|while_loop)",
    "changes no value": r"_assign|_gradient_tap|amp_multicast",
    "part of the gradient of an operator above, whose second gradient contains it":
        r"_(pool_(gather|scatter)|pooling_grad|(de)?convolution_(data|weight)_grad|ctc_loss_grad|prelu_gamma_.*|product_gradient|"
        r"concat_part|scatter_nd|broadcast_axis_like|RegressionOutput_weight|SoftmaxOutput_.*)",
}


def print_others(gradc, compared):
    """Prints what is not compared, with the reason; returns how many have none."""
    listed = subprocess.run([gradc, "ops"], check=True, capture_output=True, text=True).stdout.splitlines()[1:]
    names = [line.split()[0] for line in listed if line.strip()]
    left = [name for name in names if name not in compared]
    for reason, pattern in OTHERS.items():
        found = [name for name in left if re.fullmatch(pattern, name)]
        left = [name for name in left if name not in found]
        print(f"not compared, {reason}: {' '.join(found)}")
    for name in left:
        print(f"MISSING {name}: neither compared nor listed with a reason")
    print(f"{len(names)} operators, {len(compared & set(names))} compared")
    return len(left)


def error(found, expected):
    if found.shape != expected.shape and found.size != expected.size:
        return float("inf")
    if expected.size == 0:
        return 0.0
    difference = np.abs(found.reshape(-1) - expected.reshape(-1)).max()
    return float(difference / max(1e-3, np.abs(expected).max()))


def number(value):
    short = float(f"{value:.12g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def tensor(array):
    return {"shape": list(array.shape), "values": [number(v) for v in array.reshape(-1)]}


def record(folder, only):
    """Two drawn configurations of each row whose operator has one output and a head gradient."""
    goldens = {}
    for op, attrs, inputs, function, wrt in rows():
        if op not in only:
            continue
        for seed in range(2):
            arrays = [np.round(draw(op, k, seed, shape, what), 4) for k, (shape, what) in enumerate(inputs)]
            chosen = list(range(len(arrays))) if wrt is None else wrt
            head = lambda shape: np.round(np.random.RandomState(seed).uniform(-1.5, 1.5, tuple(shape)), 4)
            values = by_torch(arrays, chosen, function, head, "float64")
            gradients = {f"x{k}": tensor(g) for k, g in zip(chosen, values[1:])}
            text = ", ".join(f"{k}={v}" for k, v in attrs.items())
            goldens.setdefault(op, []).append(
                {"text": text, "training": True, "dtype": "float64", "inputs": [tensor(x) for x in arrays],
                 "heads": [tensor(head(values[0].shape))], "outputs": [tensor(values[0])], "gradients": gradients})
    for op, found in goldens.items():
        lines = ",\n".join(json.dumps(row, separators=(",", ":"), sort_keys=True) for row in found)
        with open(os.path.join(folder, op + ".json"), "w", encoding="utf-8") as file:
            file.write("[\n" + lines + "\n]\n")
    for op in sorted(only - goldens.keys()):
        print(f"{op}: no row")
    return 1 if only - goldens.keys() else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gradc", nargs="?")
    parser.add_argument("--record", metavar="FOLDER")
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--type", default="float64", choices=list(TOLERANCE))
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    if options.record:
        return record(options.record, only)
    if not options.gradc:
        parser.error("which gradc?")
    bad = count = skipped = 0
    dtype = options.type
    with tempfile.TemporaryDirectory() as folder:
        for op, attrs, inputs, function, wrt in rows():
            if only and op not in only:
                continue
            count += 1
            worst = [0.0, 0.0, 0.0]
            try:
                for seed in range(options.seeds):
                    arrays = [rounded(draw(op, k, seed, shape, what), dtype, k if len(inputs) > 1 else None)
                              for k, (shape, what) in enumerate(inputs)]
                    chosen = list(range(len(arrays))) if wrt is None else wrt
                    head = lambda shape: rounded(np.random.RandomState(7).uniform(0.5, 1.5, tuple(shape)), dtype)
                    expected = by_torch(arrays, chosen, function, head, dtype)
                    found = by_gradc(options.gradc, folder, op, attrs, arrays, chosen, head(expected[0].shape), dtype)
                    for k, (a, b) in enumerate(zip(found, expected)):
                        order = 0 if k == 0 else 1 if k <= len(chosen) else 2
                        worst[order] = max(worst[order], error(a, b))
                    if len(found) != len(expected):
                        raise ValueError(f"{len(found)} results, expected {len(expected)}")
            except (RuntimeError, NotImplementedError) as refusal:
                if dtype == "float64":
                    raise
                print(f"skipped {op}: PyTorch: {refusal}")
                skipped += 1
                continue
            except (subprocess.CalledProcessError, ValueError) as failure:
                print(f"FAILED {op} {attrs}: {getattr(failure, 'stderr', None) or failure}")
                bad += 1
                continue
            verdict = "ok" if max(worst) <= TOLERANCE[dtype] else "DIFFERS"
            bad += verdict != "ok"
            print(f"{verdict:8}{op:28}{str(attrs):50.50} {worst[0]:9.1e} {worst[1]:9.1e} {worst[2]:9.1e}")
    if not only:
        bad += print_others(options.gradc, {row[0] for row in rows()})
    print(f"{count} rows, {bad} bad" + (f", {skipped} skipped" if skipped else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
