"""Gradients with intermediates retained, a variable without gradient, and mixed requests, on real networks.

    tests/oracles/mixed_requests.py GRADC FOLDER [NAME ...]

FOLDER holds `graphs/mxnet/NAME.symbol.json` and `oracle/shapes.json`. For each network the same training step is run
twice in float64: plainly, with the ten intermediates of the second request asked for as x, and with these retained, one
weight in the no-gradient set and every third gradient added onto zeros. What both compute must be the same bytes but for
the sign of zeros (NG-10, REQ-08, NL-01), and the weight must have no gradient. Exit status 1 when anything differs.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

NETWORKS = ["lenet-train", "gluon-resnet18-v1", "old-resnet-cpp", "densenet121", "old-squeezenet-1-1", "mtcnn-det3",
            "se-resnet50", "old-lightened-cnn", "shufflenas-train", "inception-v1-tf"]


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr else "failed")


def operators(graph):
    """Names of the operator nodes whose gradient is worth asking for: no heads, and nothing that may not be there."""
    heads = {entry[0] for entry in graph["heads"]}
    return [node["name"] for i, node in enumerate(graph["nodes"])
            if node["op"] not in ("null", "Dropout", "BlockGrad") and i not in heads and node["name"]]


def intermediates(graph):
    """Ten of them, spread over the network."""
    nodes = operators(graph)
    return [nodes[i * len(nodes) // 10] for i in range(10)] if len(nodes) > 10 else nodes


def gradients(gradc, file, shapes, flags, folder):
    emitted, values = os.path.join(folder, "g.json"), os.path.join(folder, "v.npz")
    call(gradc, "grad", file, "-o", emitted, *flags, *shapes)
    call(gradc, "run", emitted, "--train", "--init", "1", "--dtype", "float64", "--backend", "reference", "--outputs", values,
         *shapes)
    table = json.load(open(emitted))["attrs"]
    with np.load(values) as arrays:
        return table, {key: arrays[key] for key in arrays.files}


def check(gradc, folder, name):
    file = os.path.join(folder, "graphs", "mxnet", name + ".symbol.json")
    dims = json.load(open(os.path.join(folder, "oracle", "shapes.json")))[name]["shape"]
    shapes = [part for key, value in dims.items() for part in ("--shape", f"{key}={','.join(map(str, value))}")]
    with tempfile.TemporaryDirectory() as work:
        table, alone = gradients(gradc, file, shapes, ["--wrt", "all"], work)
        variables = [of for of, kind in zip(table["grad_of"][1], table["head_kind"][1]) if kind == "grad"]
        upgraded = os.path.join(work, "u.json")
        call(gradc, "convert", file, "-o", upgraded)
        retained = intermediates(json.load(open(upgraded)))
        _, asked = gradients(gradc, file, shapes, ["--wrt", ",".join(retained)], work)
        weights = [v for v in variables if v.endswith("weight")]
        cut = weights[len(weights) // 2]
        rest = [v for v in variables if v != cut]
        requests = [flag for v in rest[::3] + retained[::3] for flag in ("--req", f"{v}=add")]
        _, mixed = gradients(gradc, file, shapes,
                             ["--wrt", ",".join(rest), "--retain", ",".join(retained), "--no-grad", cut, *requests], work)
    wrong = [key for v in rest for key in [v + "_grad"] if not np.array_equal(alone[key], mixed[key])]
    kept = [key for key in asked if key.endswith("_grad")]
    wrong += [key for key in kept if not np.array_equal(asked[key], mixed[key])]
    wrong += [f"{len(kept)} of {len(retained)} intermediates"] if len(kept) != len(retained) else []
    wrong += [cut + "_grad"] if cut + "_grad" in mixed else []
    print(f"{name:24} {len(rest)} gradients, {len(retained)} retained: {'DIFFERS ' + ' '.join(wrong[:5]) if wrong else 'same'}",
          flush=True)
    return not wrong


def main():
    gradc, folder, *names = sys.argv[1:]
    if not os.path.isdir(os.path.join(folder, "graphs")):
        print(f"mixed requests: skipped (no {folder}/graphs)")
        return 0
    results = []
    for name in names or NETWORKS:
        try:
            results.append(check(gradc, folder, name))
        except RuntimeError as error:
            print(f"{name:24} FAILS: {error}")
            results.append(False)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
