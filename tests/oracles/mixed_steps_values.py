#!/usr/bin/env python3
"""Prints the rows of tests/networks/mixed_steps_test.cc: what MXNet 1.9.1's optimizer operators compute for weights of float16.

    python3 tests/oracles/mixed_steps_values.py      with MXNet 1.9.1 installed

`mp_nag_mom_update` lets the new weight decay into the momentum, where nag_mom_update has the old one: the rows have the
momentum of that one, in float32. `mp_lamb_update_phase2` leaves weight32 as it is, although it declares to overwrite it; the row has what is written there
otherwise, the weight before it is rounded, in float32: weight32 - lr * r1 / r2 * g.
"""
import mxnet as mx
import numpy as np

WEIGHT, GRAD = [0.5, -1.25, 2.0, 0.03125], [0.75, -3.0, 0.125, 10.0]
WEIGHT32 = [0.50004, -1.2501, 2.0004, 0.031253]
MEAN, VAR = [0.1, -0.2, 0.3, 0.0], [0.01, 0.2, 0.0, 1.5]
CLIPPED = {"wd": 0.1, "rescale_grad": 0.5, "clip_gradient": 0.8}
# operator, inputs behind the gradient, sets of attributes
OPS = [
    ("mp_sgd_update", [WEIGHT32], [{"lr": 0.1}, {"lr": 0.1, **CLIPPED}]),
    ("mp_sgd_mom_update", [MEAN, WEIGHT32], [{"lr": 0.1, "momentum": 0.9}, {"lr": 0.1, "momentum": 0.9, **CLIPPED}]),
    ("mp_nag_mom_update", [MEAN, WEIGHT32], [{"lr": 0.1, "momentum": 0.9}, {"lr": 0.1, "momentum": 0.9, **CLIPPED}]),
    ("_mp_adamw_update", [MEAN, VAR, WEIGHT32, [0.5]], [{"lr": 0.1, "eta": 0.5, "wd": 0.1, "clip_gradient": 0.8}]),
    ("_mp_adamw_update", [MEAN, VAR, WEIGHT32, [float("nan")]], [{"lr": 0.1, "eta": 0.5}]),
    ("mp_lamb_update_phase1", [MEAN, VAR, WEIGHT32], [{"t": 1, "wd": 0}, {"t": 3, **CLIPPED}]),
    ("mp_lamb_update_phase2", [[1.5], [2.0], WEIGHT32], [{"lr": 0.1}, {"lr": 0.1, "lower_bound": 3}]),
]


def braces(numbers):
    return "{" + ", ".join(repr(float(x)).replace("nan", "NAN") for x in numbers) + "}"


for op, behind, sets in OPS:
    for attrs in sets:
        weight = mx.nd.array(WEIGHT, dtype="float16")
        grad = mx.nd.array(GRAD, dtype="float32" if op.endswith("phase2") else "float16")
        rest = [mx.nd.array(values, dtype="float32") for values in behind]
        function = getattr(mx.nd, op, None) or getattr(mx.nd._internal, op)
        y = function(weight, grad, *rest, **attrs) if not np.isnan(behind[-1][0]) else weight
        after = [r.asnumpy() for r in rest]
        if op == "mp_nag_mom_update":
            momentum = mx.nd.array(MEAN)
            mx.nd.nag_mom_update(mx.nd.array(WEIGHT32), grad.astype("float32"), momentum, **attrs)
            after[0] = momentum.asnumpy()
        if op.endswith("phase2"):
            norm = max(np.float32(1.5), np.float32(attrs.get("lower_bound", 0)))
            rate = np.float32(attrs["lr"]) * norm / np.float32(2)
            after[-1] = np.array(WEIGHT32, np.float32) - rate * np.array(GRAD, np.float32)
        text = ", ".join(f"{key}={value}" for key, value in attrs.items())
        last = f'     {{{", ".join(map(braces, after))}}}}},'
        if len(last) > 120:
            last = last.replace("}, {", "},\n      {")
        print(f'    {{"{op}", "{text}",\n     {braces(y.asnumpy())},\n     {{{", ".join(map(braces, behind))}}},\n{last}')
