#!/usr/bin/env python3
"""Prints the rows of tests/optimizer_ops_test.cc: what MXNet 1.9.1's optimizer operators compute in float64.

    python3 tests/optimizer_values.py      with MXNet 1.9.1 installed
"""
import mxnet as mx

WEIGHT, GRAD = [0.5, -1.25, 2.0, 0.03125], [0.75, -3.0, 0.125, 10.0]
MOM, MEAN, VAR = [0.1, -0.2, 0.3, 0.0], [0.1, -0.2, 0.3, 0.0], [0.01, 0.2, 0.0, 1.5]
COMMON = [{}, {"wd": 0.01, "rescale_grad": 0.5}, {"wd": 0.1, "rescale_grad": 0.5, "clip_gradient": 0.8}]
OPS = {
    "sgd_update": ([], {"lr": 0.1}),
    "sgd_mom_update": ([MOM], {"lr": 0.1, "momentum": 0.9}),
    "adam_update": ([MEAN, VAR], {"lr": 0.1}),
}


def braces(numbers):
    return "{" + ", ".join(repr(float(x)) for x in numbers) + "}"


for op, (states, own) in OPS.items():
    for common in COMMON + ([{"beta1": 0.5, "beta2": 0.75, "epsilon": 0.1}] if op == "adam_update" else []):
        array = lambda values: mx.nd.array(values, dtype="float64")
        tensors = [array(s) for s in states]
        attrs = {**own, **common}
        out = getattr(mx.nd, op)(array(WEIGHT), array(GRAD), *tensors, **attrs)
        text = ", ".join('{"%s", "%s"}' % (key, value) for key, value in attrs.items())
        after = ", ".join(braces(t.asnumpy()) for t in tensors)
        print('    {"%s", {%s},\n     %s,\n     {%s}},' % (op, text, braces(out.asnumpy()), after))
