"""MXNet's own gradient graph of a network, read, inferred, planned and run by gradc to MXNet's numbers.

usage: host_graph.py ORACLE_DIRECTORY GRADC FILE --net NAME

The graph is the listing of MXNet's executor. It names the nodes it refers to. Operators of the network get names of their
own first; of the generated nodes all sums are called `sum_grad`. Which is meant is seen from what they sum: gradients that
come from readers of the same value. The numbers are those of one training step in float64 (float32 where MXNet has no
other); for it networks are reworded that tests/oracles/mxnet_reworded.py names.
Prints the worst relative error, or what differs; exit status 1 then.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile

import numpy as np

from host_aggregation import Forward
from mxnet_reworded import is_needed, reworded, work_in_double

ADDITIONS = {"elemwise_add", "add_n"}


class Listing:
    """The nodes of the executor's text under names of their own, as a symbol file.

    The first `num_forward` are the network's; the heads are its outputs, then gradients of `xs`.
    """

    def __init__(self, parsed, heads, num_forward, xs):
        self.nodes = []
        self.with_name = {}  # name in the listing → ids, in order
        self.forward = None
        for node in parsed:
            if len(self.nodes) == num_forward:
                self.forward = Forward(self.nodes[:])
            self.add(node)
        asked = [None] * (len(heads) - len(xs)) + [self.forward.of_name[x] for x in xs]
        self.heads = [[self.referred(name, x), int(k), 0] for (name, k), x in zip(heads, asked)]

    def add(self, node):
        made = {"op": node["op"], "name": node["name"], "inputs": []}
        if node["op"] != "null":
            value = self.forward.backward_of(node["name"]) if self.forward else None
            made["inputs"] = [[self.referred(i[0], value), i[1], i[2] if len(i) > 2 else 0] for i in node["inputs"]]
            made["control_deps"] = [self.referred(name, None) for name in node["control_deps"]]
            made["attrs"] = node["attrs"]
        taken = self.with_name.setdefault(node["name"], [])
        if taken:
            made["name"] += "~%d" % len(taken)
        taken.append(len(self.nodes))
        self.nodes.append({k: v for k, v in made.items() if v or k == "inputs"})

    def referred(self, name, value):
        """Of the nodes of this name: the last that is a gradient of forward node `value`, or simply the last."""
        ids = self.with_name[name]
        if len(ids) == 1 or value is None:
            return ids[-1]
        fitting = [i for i in ids if any(self.sums_gradients_of(i, v) for v in self.same_gradient(value))]
        return (fitting or ids)[-1]

    def same_gradient(self, value):
        """Forward nodes whose gradient is that of `value`: itself, and sums it goes into, which have no gradient node."""
        found = [value]
        for v in found:
            readers = self.forward.readers[(v, 0)]
            found += [r for r in readers if self.forward.nodes[r]["op"] in ADDITIONS and r not in found]
        return found

    def sums_gradients_of(self, i, value):
        """Whether the summands of node i come from nodes that read forward node `value`."""
        readers = [self.forward.backward_of(self.nodes[e[0]]["name"]) for e in self.nodes[i]["inputs"]]
        known = [r for r in readers if r is not None]
        return known != [] and all(any(e[0] == value for e in self.forward.nodes[r]["inputs"]) for r in known)

    def text(self):
        args = [i for i, n in enumerate(self.nodes) if n["op"] == "null"]
        return json.dumps({"nodes": self.nodes, "arg_nodes": args, "heads": self.heads,
                           "attrs": {"mxnet_version": ["int", 10901]}})

    def twice(self):
        return sum(len(ids) - 1 for ids in self.with_name.values())


def with_own_names(symbol):
    """`symbol` without two operator nodes of one name, or nameless ones: the listing could not tell them apart."""
    import mxnet as mx

    graph, taken = json.loads(symbol.tojson()), set()
    for i, node in enumerate(graph["nodes"]):
        if node["op"] != "null" and (node["name"] in taken or not node["name"]):
            node["name"] += "~node%d" % i
        taken.add(node["name"])
    return mx.sym.load_json(json.dumps(graph))


def host_step(oracle, a):
    """(listing, values of the step)."""
    bind, found = oracle.bind, []
    needs_rewording = is_needed(oracle.load(a.file, False))
    if needs_rewording:
        work_in_double(oracle)

    def bind_and_list(symbol, values, dtype, req, whole=()):
        executor = bind(with_own_names(symbol), values, "float32" if needs_rewording else dtype, req, whole)
        text = executor.debug_str()
        heads = re.findall(r"\toutput\[\d+\]=(.*)\((\d+)\)", text)
        xs = [n for n in symbol.list_arguments() if n not in whole]
        num_forward = len(json.loads(symbol.tojson())["nodes"])
        found.append(Listing(oracle.parse_debug(text), heads, num_forward, xs))
        return bind(reworded(symbol, values), values, dtype, req, whole) if needs_rewording else executor

    oracle.bind = bind_and_list
    _, _, values = oracle.step(a)
    return found[0], values


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit("FAIL %s: %s" % (command[1], done.stderr.strip()[-1500:]))


def run_by_gradc(gradc, listing, feed, dtype):
    shapes = [f for n, v in feed.items() for f in ("--shape", "%s=%s" % (n, ",".join(map(str, v.shape)) or "()"))]
    with tempfile.TemporaryDirectory() as folder:
        graph, got = folder + "/host.json", folder + "/out.npz"
        with open(graph, "w") as out:
            out.write(listing.text())
        np.savez(folder + "/in.npz", **feed)
        call(gradc, "infer", graph, "-o", folder + "/i.json", *shapes)
        call(gradc, "plan", graph, "-o", folder + "/p.json", *shapes)
        call(gradc, "run", graph, "--train", "--dtype", dtype, "--inputs", folder + "/in.npz", "--outputs", got)
        return dict(np.load(got))


def differences(oracle, a, host, pairs):
    """(what differs, the worst error); pairs of MXNet's key and gradc's array."""
    scale = {kind: max([np.abs(v).max() for k, v in host.items() if k.startswith(kind) and v.size] or [0])
             for kind in ("out/", "grad/", "aux/")}
    bad, worst = [], 0.0
    for key, own in pairs:
        if key.startswith("grad/") and not oracle.live(host[key]):
            continue
        error = oracle.error_of(own.reshape(-1), host[key].reshape(-1), scale[key.split("/")[0] + "/"])
        worst = max(worst, error)
        if not error <= a.rtol:
            bad.append((key, "error %.3g" % error))
    return bad, worst


def main():
    sys.path.insert(0, sys.argv.pop(1))
    import mxnet_oracle as oracle

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("gradc")
    p.add_argument("file")
    p.add_argument("--net", required=True)
    p.set_defaults(shape=[], seed=1, dtype="float64", train=1, rtol=1e-8)
    a = p.parse_args()
    listing, host = host_step(oracle, a)
    names = [n["name"] for n in listing.nodes if n["op"] == "null"]
    feed = {n: host["in/" + n] for n in names if "in/" + n in host}
    feed.update({n: host["hg/" + n[len("_head_grad_"):]] for n in names if n not in feed})
    values = run_by_gradc(a.gradc, listing, feed, a.dtype)
    heads = [k for k in values if "in/" + k not in host]  # aux states come under their own names
    expected = [k for k in host if k.startswith("out/")] + ["grad/" + n for n in names if "grad/" + n in host]
    if len(heads) != len(expected):
        sys.exit("FAIL %d heads for %d" % (len(heads), len(expected)))
    pairs = [(key, values[head]) for head, key in zip(heads, expected)]
    pairs += [(key, values[key[len("aux/"):]]) for key in host if key.startswith("aux/")]
    bad, worst = differences(oracle, a, host, pairs)
    print("%d nodes, %d renamed" % (len(listing.nodes), listing.twice()))
    return oracle.verdict(bad, len(pairs), worst)


if __name__ == "__main__":
    sys.exit(main())
