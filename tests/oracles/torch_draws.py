"""Random attribute settings of the operators that MXNet lacks: gradc's answers against PyTorch's.

Usage: python tests/oracles/torch_draws.py GRADC [--ops OP,...] [--draws N] [--seed N] [--only K]

Needs a Python with torch and numpy; nothing else in the project does. What attribute_draws.py does with MXNet, for gradc's own
operators: attributes and shapes are drawn, valid ones, edges and some that have no meaning. Either side refuses, or computes
outputs and gradients for the same random head gradients. draws/torch_side.py has what each operator is in PyTorch's functions.
Convolution, Deconvolution, Pooling and RNN are here too, for channels last, three axes and projections, which MXNet has on
graphics processors alone. An operator without attributes gets a fifth of the draws. Prints counts and every disagreement; with
one the exit code is 1.

Without a judge, here and there: operators with bodies (_call, _cond, _foreach, _scan, _while_loop), and those that depend on
the run (_assign, _uniform_like).
"""
import random
import sys
import tempfile
import zlib

import numpy as np
import torch

from draws import torch_losses, torch_rnn, torch_side, torch_windows  # the others register operators with torch_side
from draws.gradc_side import Gradc
from draws.options import parse
from draws.schema import Draw
from draws.values import disagreement, values_of


def drawn(op, seed, k):
    """(draw, function of tensors, names of inputs, values)"""
    for attempt in range(100):
        draw = Draw(op, random.Random(f"{seed}/{op['name']}/{k}/{attempt}"))
        draw.dtype = "float64" if draw.chance(0.7) else "float32"
        try:
            function = torch_side.OPERATORS[op["name"]](draw)
            break
        except ValueError:  # the setting draws itself out of what it means
            continue
    names = op["inputs"]["names"] if not op["inputs"]["variadic"] else [f"x{i}" for i in range(draw.num_args)]
    names = names[:len(draw.shapes)]
    values = values_of(draw, names, dict(zip(names, draw.shapes)), zlib.crc32(f"{seed}/{op['name']}/{k}".encode()) & 0x7FFFFFFF)
    return draw, function, names, values


def by_torch(function, values, has_gradient, seed):
    """(output, heads, gradients by name)"""
    tensors = {n: torch.tensor(v) for n, v in values.items()}
    for t in tensors.values():
        if has_gradient and t.is_floating_point():
            t.requires_grad_()
    y = function(*tensors.values())
    output, heads, gradients = y.detach().numpy(force=True), [], {}
    if has_gradient and y.is_floating_point():
        heads = [np.random.RandomState(seed).uniform(0.3, 1.5, tuple(y.shape)).astype(output.dtype)]
        wrt = [n for n, t in tensors.items() if t.requires_grad]
        if y.requires_grad:
            found = torch.autograd.grad(y, [tensors[n] for n in wrt], torch.tensor(heads[0]), allow_unused=True)
            gradients = {n: g.numpy(force=True) for n, g in zip(wrt, found) if g is not None}
    return output, heads, gradients


def judge(gradc, op, seed, k):
    """(agrees, what was found, the setting)"""
    draw, function, names, values = drawn(op, seed, k)
    nodes = [{"op": "null", "name": n, "inputs": []} for n in names]
    nodes.append({"op": op["name"], "name": "op", "attrs": draw.attrs, "inputs": [[i, 0, 0] for i in range(len(names))]})
    graph = {"nodes": nodes, "arg_nodes": list(range(len(names))), "heads": [[len(names), 0, 0]],
             "attrs": {"mxnet_version": ["int", 10901]}}
    what = f"{draw.attrs} " + " ".join(f"{n}{list(v.shape)}:{v.dtype}" for n, v in values.items())
    refusal, heads = "", []
    try:
        output, heads, gradients = by_torch(function, values, op["differentiable"], k)
    except (ValueError, RuntimeError, IndexError) as error:
        refusal = str(error).splitlines()[0]
    try:
        ours = gradc.run(graph, values, True, heads)
    except RuntimeError as error:
        return "differ", str(error), what
    if refusal and "refused" in ours:
        return "both refuse", ours["refused"] + " || " + refusal, what
    if refusal or "refused" in ours:
        return "one refuses", ours.get("refused") or "PyTorch: " + refusal, what
    found = disagreement(ours["outputs"][0], output, "output", "PyTorch")
    for name, b in gradients.items():
        a = ours["gradients"].get(name, np.zeros_like(b))
        found = found or disagreement(a, b, f"gradient of {name}", "PyTorch")
    return ("differ", found, what) if found else ("agree", "", what)


def main():
    options = parse(__doc__, "print what both refuse as well")
    torch.set_num_threads(1)
    only, bad = options.ops, 0
    columns = ["agree", "both refuse", "one refuses", "differ"]
    print(f"{'operator':44}" + "".join(f"{c:>13}" for c in columns))
    with tempfile.TemporaryDirectory() as folder:
        gradc = Gradc(options.gradc, folder)
        for op in gradc.operators():
            if op["name"] not in torch_side.OPERATORS or (only and op["name"] not in only):
                continue
            counts, shown = dict.fromkeys(columns, 0), []
            count = options.draws if op["attributes"] else max(1, options.draws // 5)
            for k in range(count) if options.only < 0 else [options.only]:
                column, found, what = judge(gradc, op, options.seed, k)
                counts[column] += 1
                if column in columns[2:] or (options.verbose and column == "both refuse"):
                    shown.append(f"  {k} {column}: {what}: {found}")
            print(f"{op['name']:44}" + "".join(f"{counts[c]:13}" for c in columns), *shown, sep="\n", flush=True)
            bad += counts["one refuses"] + counts["differ"]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
