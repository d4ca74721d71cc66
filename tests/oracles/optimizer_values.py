#!/usr/bin/env python3
"""Prints the rows of tests/support/ops/optimizer_steps.cc: what MXNet 1.9.1's optimizer operators compute in float64.

    python3 tests/oracles/optimizer_values.py      with MXNet 1.9.1 installed

Each row is one step, or ten that follow one another with the gradient of kGrad halved and negated from step to step.
AdaGrad, whose operator takes row-sparse gradients only, is the Python optimizer's.
"""
import mxnet as mx
import numpy as np

WEIGHT, GRAD = [0.5, -1.25, 2.0, 0.03125], [0.75, -3.0, 0.125, 10.0]
MEAN, VAR, EXTRA = [0.1, -0.2, 0.3, 0.0], [0.01, 0.2, 0.0, 1.5], [0.25, 1.0, 4.0, 2.0]
SMALL = [0.05, -0.1, 0.0, 0.5]
COMMON = [{}, {"wd": 0.01, "rescale_grad": 0.5}, {"wd": 0.1, "rescale_grad": 0.5, "clip_gradient": 0.8}]
STEPS = 10

# operator: states, attributes it needs, attributes of its own, one-element inputs
OPS = {
    "sgd_update": ([], {"lr": 0.1}, [], []),
    "sgd_mom_update": ([MEAN], {"lr": 0.1, "momentum": 0.9}, [], []),
    "nag_mom_update": ([MEAN], {"lr": 0.1, "momentum": 0.9}, [{"momentum": 0}], []),
    "signsgd_update": ([], {"lr": 0.1}, [], []),
    "signum_update": ([MEAN], {"lr": 0.1, "momentum": 0.9}, [{"wd_lh": 0.25, "momentum": 0.1}], []),
    "adam_update": ([MEAN, VAR], {"lr": 0.1}, [{"beta1": 0.5, "beta2": 0.75, "epsilon": 0.1}], []),
    "_adamw_update": ([MEAN, VAR], {"lr": 0.1, "eta": 0.5}, [{"beta1": 0.5, "beta2": 0.75, "epsilon": 0.1}], [0.5]),
    "rmsprop_update": ([EXTRA], {"lr": 0.1}, [{"gamma1": 0.3, "epsilon": 0.1, "clip_weights": 1.5}], []),
    "rmspropalex_update": ([EXTRA, SMALL, MEAN], {"lr": 0.1},
                           [{"gamma1": 0.3, "gamma2": 0.7, "epsilon": 0.5, "clip_weights": 1.5}], []),
    "ftrl_update": ([MEAN, EXTRA], {"lr": 0.1}, [{"lamda1": 0.75, "beta": 0.25}], []),
    "ftml_update": ([EXTRA, VAR, MEAN], {"lr": 0.1, "t": 1},
                    [{"beta1": 0.5, "beta2": 0.75, "epsilon": 0.1, "t": 5}], []),
    "adagrad": ([EXTRA], {"lr": 0.1}, [{"epsilon": 0.1}], []),
    "lamb_update_phase1": ([MEAN, VAR], {"t": 1, "wd": 0},
                           [{"t": 5, "beta1": 0.5, "beta2": 0.75, "epsilon": 0.1}, {"bias_correction": False}], []),
    "lamb_update_phase2": ([], {"lr": 0.1}, [{"lower_bound": 3}, {"upper_bound": 0.5}, {"numbers": [0.0, 2.0]},
                                             {"numbers": [2.0, 0.0]}], [1.5, 2.0]),
}


def braces(numbers):
    return "{" + ", ".join(repr(float(x)) for x in numbers) + "}"


def array(values, dtype="float64"):
    return mx.nd.array(values, dtype=dtype)


def adagrad(weight, grad, states, attrs):
    attrs = {key: float(np.float32(value)) for key, value in attrs.items()}  # as attributes of operators are
    optimizer = mx.optimizer.AdaGrad(eps=attrs.get("epsilon", float(np.float32(1e-7))), learning_rate=attrs["lr"],
                                     wd=attrs.get("wd", 0), rescale_grad=attrs.get("rescale_grad", 1),
                                     clip_gradient=attrs.get("clip_gradient"))
    optimizer.update(0, weight, grad, states[0])
    return weight


def step(op, weight, grad, states, attrs, numbers):
    """The new weight; MXNet's dense AdamW scales its gradient in place."""
    if op == "adagrad":
        return adagrad(weight, grad, states, attrs)
    dtype = "float32" if op == "_adamw_update" else "float64"
    function = getattr(mx.nd, op, None) or getattr(mx.nd._internal, op)
    return function(weight, grad.copy(), *states, *[array([x], dtype) for x in numbers], **attrs)


def row(op, attrs, count, numbers):
    weight, states = array(WEIGHT), [array(s) for s in OPS[op][0]]
    for k in range(count):
        grad = array([g * (-0.5) ** k for g in GRAD])
        weight = step(op, weight, grad, states, {**attrs, "t": k + 1} if "t" in attrs and count > 1 else attrs, numbers)
    name = "_adagrad_update" if op == "adagrad" else op
    text = ", ".join('{"%s", "%s"}' % (key, value) for key, value in attrs.items())
    after = ", ".join(braces(t.asnumpy()) for t in states)
    given = ", ".join(braces(s) for s in OPS[op][0])
    print('    {"%s", {%s}, %d, {%s},\n     %s,\n     {%s},\n     {%s}},' %
          (name, text, count, ", ".join(repr(float(x)) for x in numbers), braces(weight.asnumpy()), given, after))


for op, (_, needed, own, numbers) in OPS.items():
    common = COMMON if op != "lamb_update_phase2" else [{}]
    for more in common + own:
        attrs = {**needed, **more}
        if op == "_adamw_update":
            attrs.pop("rescale_grad", None)
        if op == "ftml_update" and "clip_gradient" in attrs:
            attrs["clip_grad"] = attrs.pop("clip_gradient")
        row(op, attrs, 1, attrs.pop("numbers", numbers))
    row(op, needed, STEPS, numbers)
row("_adamw_update", {"lr": 0.1, "eta": 0.5, "wd": 0.01}, 1, [1.0])
