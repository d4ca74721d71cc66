#!/usr/bin/env python3
"""Loops and branches as MXNet's own front end writes them.

  mxnet_loops.py write DIRECTORY          the files of testdata/loops
  mxnet_loops.py compare GRADC [NAME …]   runs each with both; MXNet decides what the outputs are
  mxnet_loops.py exchange GRADC [NAME …]  MXNet runs the gradient graph that gradc writes for it, and finds its own gradients
  mxnet_loops.py gradcheck GRADC [NAME …] gradc's gradients against central differences, at the same values

MXNet leaves rows of steps a while loop did not run, and what a loop without steps yields, as they were: such files are in
the tests with numbers of their own. A name and what is wrong there, or the reason why a loop is left out, is printed.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"
import mxnet as mx
import numpy as np

from loop_graphs import LOOPS, make

# Files for the tests that MXNet itself cannot judge.
NOT_COMPARED = {
    "branch_in_loop": "MXNet does not infer the shapes of a branch in a loop",
    "while_in_foreach": "MXNet leaves rows of steps that were not run as they were",
}

# Loops whose gradients MXNet has not: gradc's are what MXNet has to find, and `gradc gradcheck` judges them.
NOT_DIFFERENTIATED = {
    "branch_in_loop": NOT_COMPARED["branch_in_loop"],
    "while_in_foreach": NOT_COMPARED["while_in_foreach"],
    "fixed_norm_in_loop": "MXNet's gradient of a body with auxiliary states fails",
    "newton": "MXNet's gradient fails where the condition alone reads something",
    "entropy_in_loop": "MXNet's loop asks for the gradient of the label, which its loss refuses",
    "counted_in_cond": "MXNet's gradient of a loop in a branch fails",
}

# What MXNet cannot run of the gradients.
NOT_EXCHANGED = {
    "convolved": "in a body MXNet infers no shapes of _backward_Convolution",
    "dropout_in_loop": "MXNet's executor runs bodies outside training: nothing is dropped, and no mask is kept",
    "still_dropout": "MXNet's executor runs bodies outside training: nothing is dropped, and no mask is kept",
    "norm_in_loop": "MXNet's executor runs bodies outside training, where BatchNorm has another gradient",
}

# The loops that are files of testdata/loops.
WRITTEN = ("branch_in_loop", "cf03", "cf08", "cf11", "cf12", "cond", "curved_cond", "dropout_in_loop", "lstm", "lstm_unrolled",
           "norm_in_loop", "only_states", "powers", "squares", "swapped", "two_states", "while_in_foreach")


def char_lstm():
    """The network that tests/oracles/char_lstm.py made, and a batch of its text."""
    folder = pathlib.Path(__file__).resolve().parents[2] / "testdata/char_lstm"
    text = {key: array[:4] for key, array in np.load(folder / "text.npz").items()}
    return mx.sym.load(str(folder / "loop.json")), {**np.load(folder / "loop.npz"), **text}


LOOPS["char_lstm"] = char_lstm


def write(directory):
    for name in WRITTEN:
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
        return run_of_gradc(gradc, folder, "loop.json", values)


def run_of_gradc(gradc, folder, file, values, *flags):
    np.savez(folder / "in.npz", **values)
    subprocess.run([gradc, "run", folder / file, "--inputs", folder / "in.npz", "--outputs", folder / "out.npz",
                    "--backend", "reference", *flags], check=True, stdout=subprocess.DEVNULL)
    out = np.load(folder / "out.npz")
    return [out[key] for key in out.files]


def compare(gradc, name):
    symbol, values = make(name)
    return difference(outputs_of_mxnet(symbol, values), outputs_of_gradc(gradc, symbol, values), 1e-5)


def difference(expected, found, tolerance):
    """None where they agree, else what to print."""
    same = len(expected) == len(found) and all(
        e.shape == f.shape and np.allclose(e, f, rtol=tolerance, atol=tolerance / 10) for e, f in zip(expected, found))
    return None if same else f"{expected}\n{found}"


def bound(symbol, values, dtype, **options):
    arrays = {key: mx.nd.array(values[key], dtype=dtype) for key in symbol.list_inputs()}
    return symbol.bind(mx.cpu(), args={key: arrays[key] for key in symbol.list_arguments()},
                       aux_states={key: arrays[key] for key in symbol.list_auxiliary_states()}, **options)


def gradients_of_mxnet(symbol, values, heads, dtype):
    """Outputs, then gradients by the name of the argument."""
    grads = {key: mx.nd.zeros(np.shape(values[key]), dtype=dtype) for key in symbol.list_arguments()}
    # MXNet's Embedding refuses the gradient of its indices, and its SoftmaxOutput leaves that of labels as memory was: zeros here.
    asked = {key: grad for key, grad in grads.items() if key not in ("data", "label")}
    executor = bound(symbol, values, dtype, args_grad=asked)
    outputs = executor.forward(is_train=True)
    executor.backward([mx.nd.array(head, dtype=dtype) for head in heads])
    return [out.asnumpy() for out in outputs], {key: grad.asnumpy() for key, grad in grads.items()}


def write_gradient(gradc, symbol, values, dtype, folder, file, *flags):
    """The gradient graph with a variable head<i> for each output; the heads' kinds and what they are gradients of."""
    (folder / "loop.json").write_text(symbol.tojson())
    command = [gradc, "grad", folder / "loop.json", "--wrt", "all", "-o", folder / file, *flags]
    for key, value in values.items():
        command += ["--shape", key + "=" + ",".join(map(str, value.shape)), "--dtype", f"{key}={dtype}"]
    for i, output in enumerate(symbol.list_outputs()):
        command += ["--seed", f"{output}=head{i}"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    table = json.loads((folder / file).read_text())["attrs"]
    return list(zip(table["head_kind"][1], table["grad_of"][1]))


def exchange(gradc, name):
    symbol, values = make(name)
    heads = [np.random.RandomState(i).uniform(-1, 1, out.shape) for i, out in enumerate(outputs_of_gradc(gradc, symbol, values))]
    given = {**values, **{f"head{i}": head for i, head in enumerate(heads)}}
    dtype = "float32" if "cond" in name else "float64"  # MXNet takes what decides in float32 alone
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        kinds = write_gradient(gradc, symbol, values, dtype, folder, "mxnet.json", "--dialect", "mxnet")
        if name in NOT_DIFFERENTIATED:
            write_gradient(gradc, symbol, values, dtype, folder, "grad.json")
            expected = run_of_gradc(gradc, folder, "grad.json", given, "--dtype", dtype)
        else:
            outputs, gradients = gradients_of_mxnet(symbol, values, heads, dtype)
            wanted = iter(outputs)
            expected = [next(wanted) if kind == "forward" else gradients[of] for kind, of in kinds]
        graph = mx.sym.load(str(folder / "mxnet.json"))
    found = [out.asnumpy() for out in bound(graph, given, dtype, grad_req="null").forward(is_train=True)]
    return difference(expected, found, 1e-8 if dtype == "float64" else 1e-5)


def gradcheck(gradc, name):
    symbol, values = make(name)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "loop.json").write_text(symbol.tojson())
        np.savez(folder / "in.npz", **values)
        done = subprocess.run([gradc, "gradcheck", folder / "loop.json", "--inputs", folder / "in.npz", "--dtype", "float64"],
                              capture_output=True, text=True)
        return None if done.returncode == 0 else done.stdout + done.stderr


def run(verb, skipped, gradc, names):
    failures = 0
    for name in names or sorted(LOOPS):
        try:
            found = None if name in skipped else verb(gradc, name)
        except subprocess.CalledProcessError as error:
            found = error.stderr
        except mx.MXNetError as error:
            found = str(error)
        failures += found is not None
        print(f"{name}: {'DIFFER' if found is not None else skipped.get(name, 'agree')}")
        if found is not None:
            print(found)
    return failures


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2])
    else:
        verb, skipped = {"compare": (compare, NOT_COMPARED), "exchange": (exchange, NOT_EXCHANGED),
                         "gradcheck": (gradcheck, {})}[sys.argv[1]]
        sys.exit(run(verb, skipped, sys.argv[2], sys.argv[3:]) != 0)
