"""Runs a host's own gradient graph in gradc and compares heads and gradients with the host's numbers.

usage: host_graph.py GRADC GRAPH.json STEP.npz FOLDER
STEP.npz holds in/NAME, hg/I, out/NAME and grad/NAME, as one training step of the host. The heads of GRAPH are the
outputs, then one gradient per argument the host differentiates, in argument order. Exit status 1 when they differ.
"""
import json
import subprocess
import sys

import numpy as np


def main(gradc, graph, step, folder):
    host = dict(np.load(step))
    nodes = json.load(open(graph))["nodes"]
    names = [n["name"] for n in nodes if n["op"] == "null"]
    feed = {}
    for name in names:
        if "in/" + name in host:
            feed[name] = host["in/" + name]
        elif name.startswith("_head_grad_"):
            feed[name] = host["hg/" + name[len("_head_grad_"):]]
    np.savez(folder + "/feed.npz", **feed)
    command = [gradc, "run", graph, "--train", "--dtype", "float64", "--inputs", folder + "/feed.npz"]
    done = subprocess.run(command + ["--outputs", folder + "/host.npz"], capture_output=True, text=True)
    if done.returncode:
        print(done.stderr[-1000:])
        return 1
    got = dict(np.load(folder + "/host.npz"))
    heads = [k for k in got if "in/" + k not in host]  # aux states come under their own names
    expected = [host[k] for k in host if k.startswith("out/")]
    expected += [host["grad/" + n] for n in names if "grad/" + n in host]
    if len(heads) != len(expected):
        print(len(heads), "heads for", len(expected))
        return 1
    scale = max(np.abs(e).max() for e in expected if e.size)
    for key, want in zip(heads, expected):
        have = got[key].reshape(want.shape)
        error = np.abs(have - want).max() / max(1e-30, np.abs(want).max(), 1e-6 * scale)
        if not error <= 1e-8:
            print(key, "differs by", error)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
