"""Records what MXNet 1.9.1 computes for the samples of the conformance suite: testdata/conformance/<operator>.json.

Usage:
    GRADC_EXPORT_SAMPLES=/tmp/samples.json bazel-bin/tests/oracle_test --gtest_filter=Oracle.ExportsSamples
    python tests/oracles/conformance_oracle.py /tmp/samples.json testdata/conformance [--all] [--only OP,...]

Needs a Python with mxnet 1.9.1 and numpy; nothing else in the project does. Every sample is a graph of one node, run
forward and backward with the recorded head gradients, in float64, or in float32 where MXNet has the operator in float32
only. Up to LIMIT configurations per operator are kept, attributes as different as there are; --all keeps every one, to
look at (GRADC_ORACLE_GOLDENS makes the test read another folder). What MXNet refuses is listed at the end.
"""
import argparse
import json
import multiprocessing
import os
import sys

os.environ["MXNET_ENGINE_TYPE"] = "NaiveEngine"  # no threads, so that processes may fork
os.environ["OMP_NUM_THREADS"] = "1"  # the same of its matrix products
os.environ["MXNET_SUBGRAPH_VERBOSE"] = "0"

import mxnet as mx
import numpy as np

LIMIT = 4          # configurations kept per operator
MAX_ELEMENTS = 400  # of a configuration that is kept, over all its arrays


def has_repeats(tensor):
    return len(set(tensor["values"])) < len(tensor["values"])


# Where MXNet's gradient is not that of its own forward pass, or missing. Values are recorded, gradients are not.
NO_GRADIENT = [
    ("BatchNorm", lambda s: "output_mean_var=True" in s["text"], "heads of the statistics are ignored"),
    ("LayerNorm", lambda s: "output_mean_var=True" in s["text"], "heads of the statistics are ignored"),
    ("GroupNorm", lambda s: "output_mean_var=True" in s["text"], "heads of the statistics are ignored"),
    ("LeakyReLU", lambda s: "selu" in s["text"], "the derivative is taken at the wrong place below 0"),
    ("SoftmaxActivation", lambda s: "channel" not in s["text"] and len(s["inputs"][0]["shape"]) > 2,
     "forward over the last axis, backward over axis 1"),
    ("_contrib_BilinearResize2D", lambda s: "mode=like" in s["text"], "that of the second input is never written"),
    ("_npi_rarctan2_scalar", lambda s: True, "-dy * x / (x^2 + scalar^2), with x in place of scalar"),
    ("_grad_add", lambda s: True, "has none"),
    ("khatri_rao", lambda s: True, "has none"),
    ("_shuffle", lambda s: True, "has none"),
    ("argmax_channel", lambda s: True, "has none"),
    ("_contrib_index_copy", lambda s: has_repeats(s["inputs"][1]), "rows that are overwritten again have a gradient"),
    ("batch_take", lambda s: True, "has none"),
    ("gather_nd", lambda s: min(s["inputs"][1]["values"], default=0) < 0, "negative ones are added outside the data"),
    ("_slice_assign", lambda s: True, "has none"),
    ("_slice_assign_scalar", lambda s: True, "has none"),
    *((op, lambda s: True, "steps of optimizers have none")
      for op in ("sgd_update", "sgd_mom_update", "adam_update", "nag_mom_update", "signsgd_update", "signum_update",
                 "_adamw_update", "rmsprop_update", "rmspropalex_update", "ftrl_update", "ftml_update",
                 "lamb_update_phase1", "lamb_update_phase2")),
]
# Constants of theirs, or their digamma function, or relu in RNN, are good to float32 only.
COARSE = [("erf", ""), ("erfinv", ""), ("degrees", ""), ("gamma", ""), ("gammaln", ""), ("LeakyReLU", "gelu"),
          ("LeakyReLU", "selu"), ("RNN", "rnn_relu")]
# Labels and lengths have the type of the data.
FLOATING = ["CTCLoss"]
# What it does not compute on a processor: refused in float64, and ignored in float32.
IGNORED = [("RNN", "lstm_state_clip"), ("RNN", "use_sequence_length")]


def graph_of(sample):
    count = len(sample["inputs"])
    nodes = [{"op": "null", "name": f"x{i}", "inputs": []} for i in range(count)]
    nodes.append({"op": sample["op"], "name": "op", "attrs": sample["attrs"],
                  "inputs": [[i, 0, 0] for i in range(count)]})
    heads = [[count, i, 0] for i in range(len(sample["heads"]))]
    return mx.sym.load_json(json.dumps({"nodes": nodes, "arg_nodes": list(range(count)), "heads": heads,
                                        "attrs": {"mxnet_version": ["int", 10901]}}))


def array_of(tensor, dtype, is_whole=False):
    dtype = "int32" if is_whole else dtype
    return mx.nd.array(np.array(tensor["values"], dtype=np.float64).reshape(tensor["shape"]), dtype=dtype)


def run(sample, dtype):
    symbol = graph_of(sample)
    takes_whole = sample["op"] not in FLOATING
    values = {f"x{i}": array_of(x, dtype, takes_whole and x.get("integer", False))
              for i, x in enumerate(sample["inputs"])}
    aux = {name: values[name] for name in symbol.list_auxiliary_states()}
    args = {name: values[name] for name in symbol.list_arguments()}
    judged = not any(op == sample["op"] and applies(sample) for op, applies, _ in NO_GRADIENT)
    wrt = [name for name in sample["wrt"] if name in args] if judged else []
    grads = {name: mx.nd.full(args[name].shape, 7, dtype=dtype) for name in wrt}
    reqs = {name: "write" if name in grads else "null" for name in args}
    executor = symbol.bind(mx.cpu(), args, args_grad=grads, grad_req=reqs, aux_states=aux)
    outputs = [o.asnumpy().copy() for o in executor.forward(is_train=sample["training"] or bool(wrt))]
    if wrt and not sample["training"]:
        outputs = [o.asnumpy().copy() for o in executor.forward(is_train=False)]
        return outputs, {}
    if wrt:
        heads = [array_of(h, o.dtype) for h, o in zip(sample["heads"], executor.outputs)]
        executor.backward(heads)
    return outputs, {name: grads[name].asnumpy() for name in wrt}


def number(value, digits):
    short = float(f"{value:.{digits}g}")
    return int(short) if short == int(short) and abs(short) < 1e15 else short


def tensor(array, digits):
    flat = np.asarray(array, dtype=np.float64).reshape(-1)
    if not np.all(np.isfinite(flat)):
        raise ValueError("a value is not finite")
    return {"shape": list(np.shape(array)), "values": [number(v, digits) for v in flat]}


def record(sample):
    """The golden of one sample, or a reason why there is none."""
    sizes = [x["shape"] for x in sample["inputs"]]
    if sample["random"]:
        return None, "draws random numbers"
    if any(0 in s or not s for s in sizes):
        return None, "shapes without elements or axes mean 'unknown' to it"
    if any(op == sample["op"] and part in sample["text"] for op, part in IGNORED):
        return None, "ignores an attribute"
    if not sample["heads"]:
        return None, "did not run here"
    reason = ""
    for dtype, digits in (("float64", 12), ("float32", 8)):
        try:
            outputs, gradients = run(sample, dtype)
        except Exception as error:  # whatever MXNet throws is an answer
            lines = [line.strip() for line in str(error).split("\n") if line.strip()]
            reason = next((line for line in lines if "Error" in line), lines[0] if lines else "")[:160]
            continue
        if any(o.dtype == np.float32 for o in outputs) or any(
                op == sample["op"] and part in sample["text"] for op, part in COARSE):
            dtype, digits = "float32", 9
        try:
            golden = {"text": sample["text"], "training": sample["training"], "dtype": dtype,
                      "inputs": [tensor(np.array(x["values"]).reshape(x["shape"]), 12) for x in sample["inputs"]],
                      "heads": [tensor(np.array(x["values"]).reshape(x["shape"]), 12) for x in sample["heads"]],
                      "outputs": [tensor(o, digits) for o in outputs],
                      "gradients": {name: tensor(g, digits) for name, g in gradients.items()}}
        except ValueError as error:
            return None, str(error)
        return golden, ""
    return None, reason


def send_record(sample, pipe):
    pipe.send(record(sample))


def record_apart(sample):
    """In a process of its own: MXNet 1.9.1 crashes on some configurations."""
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.Process(target=send_record, args=(sample, there))
    child.start()
    there.close()
    try:
        answer = here.recv()
    except EOFError:
        answer = None, "it crashed"
    child.join()
    return answer


def elements(golden):
    lists = golden["inputs"] + golden["heads"] + golden["outputs"] + list(golden["gradients"].values())
    return sum(len(t["values"]) for t in lists)


def chosen(goldens):
    """Different attributes first, then different shapes."""
    small = [g for g in goldens if elements(g) <= MAX_ELEMENTS]
    kept, seen = [], set()
    for golden in small:
        if golden["text"] not in seen and len(kept) < LIMIT:
            seen.add(golden["text"])
            kept.append(golden)
    for golden in small:
        if len(kept) < LIMIT and golden not in kept:
            kept.append(golden)
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples")
    parser.add_argument("folder")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    with open(options.samples, encoding="utf-8") as file:
        samples = [s for s in json.load(file) if not only or s["op"] in only]
    multiprocessing.set_start_method("fork")
    goldens, refused = {}, {}
    for sample in samples:
        golden, reason = record_apart(sample)
        if golden:
            goldens.setdefault(sample["op"], []).append(golden)
        else:
            refused.setdefault((sample["op"], reason), []).append(sample["text"])
    os.makedirs(options.folder, exist_ok=True)
    for op, rows in sorted(goldens.items()):
        rows = rows if options.all else chosen(rows)
        lines = ",\n".join(json.dumps(row, separators=(",", ":"), sort_keys=True) for row in rows)
        with open(os.path.join(options.folder, op + ".json"), "w", encoding="utf-8") as file:
            file.write("[\n" + lines + "\n]\n")
    for (op, reason), texts in sorted(refused.items()):
        print(f"{op}: {len(texts)} without golden ({reason}): {'; '.join(sorted(set(texts)))[:100]}", file=sys.stderr)
    print(f"{len(goldens)} operators, {sum(map(len, goldens.values()))} samples run, of {len(samples)}")


if __name__ == "__main__":
    main()
