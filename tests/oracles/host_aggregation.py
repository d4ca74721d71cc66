"""Compares the sums, copies and heads of gradc's gradient graphs with those of MXNet's own, network by network.

usage: host_aggregation.py [NAME …]        (default: "wide", and every network of ../shared/oracle/shapes.json)

`gradc grad --naming mxnet` with the default cap, against the graph MXNet 1.9.1 builds for training. Compared are: which
forward values have several gradients added, by one ElementWiseSum (add_n) or by a chain of _grad_add, over how many
contributions, and through which readers in which order; which gradients are copied; and what each head is. A
contribution is named after the forward node that reads the value. MXNet's listing refers to nodes by name, and all its
sums have the same few names: a sum is recognised by its contributions. No real network has a value with eight readers, so
"wide" is one made here that does.

GRADC is the binary (default: the one ./dev build makes), MXNET_PYTHON a Python with mxnet 1.9.1, GRADC_SHARED the folder
of real networks. Prints "skipped" without them. Exit status 1 when a difference has no reason in REASONS, which
docs/gradient.md explains.
"""
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

REPO = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("GRADC_SHARED", REPO.parent / "shared"))
GRADC = os.environ.get("GRADC", str(REPO / "out/bin/tools/gradc/gradc"))
SUMS = {"add_n", "ElementWiseSum", "_sum"}

# What may differ, by class: docs/gradient.md, "Beside MXNet's graph".
REASONS = {
    "label": "MXNet emits a gradient of zeros, or none at all, for what is read only where no gradient flows",
}


class Forward:
    """The forward part: what each node reads, and who reads each value, last reader first."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.of_name = {n["name"]: i for i, n in enumerate(nodes)}
        self.readers = collections.defaultdict(list)  # (node, output) → reading nodes, in the order of contributions
        for i in reversed(range(len(nodes))):
            for entry in nodes[i]["inputs"]:
                self.readers[tuple(entry[:2])].append(i)

    def text(self, entry):
        name = self.nodes[entry[0]]["name"]
        return name if entry[1] == 0 else "%s:%d" % (name, entry[1])

    def backward_of(self, name):
        """The forward node a generated node's name speaks of; None for sums, copies, zeros and heads."""
        at = name.rfind("_backward")
        while at > 0:
            if name[:at] in self.of_name:
                return self.of_name[name[:at]]
            at = name.rfind("_backward", 0, at)
        # MXNet's zero parts of a node with several inputs: n_in1_backward.
        head, _, tail = name.partition("_in")
        return self.of_name.get(head) if tail.endswith("_backward") else None


class Gradients:
    """One gradient graph: `nodes` from `first` on are generated; inputs are [id, output]."""

    def __init__(self, forward, nodes, first, heads):
        self.forward, self.nodes, self.first, self.heads = forward, nodes, first, heads
        self.sum_at = {}  # id → (entry, kind, [reading node or None])
        for i in range(first, len(nodes)):
            terms = self.terms(i)
            if terms:
                readers = [self.reader(t) for t in terms[1]]
                self.sum_at[i] = (self.summed(readers), terms[0], readers)

    def terms(self, i):
        """("sum" or "chain", contributions) of a node that closes an aggregation."""
        node = self.nodes[i]
        if node["op"] in SUMS and self.is_aggregate(node):
            return "sum", node["inputs"]
        if node["op"] in ("_copy", "identity") and "sum_grad_final" in node["name"]:
            found, at = [], node["inputs"][0][0]
            while self.nodes[at]["op"] == "_grad_add" and "sum_grad_" in self.nodes[at]["name"]:
                found.append(self.nodes[at]["inputs"][1])
                rest = self.nodes[at]["inputs"][0]
                if self.nodes[at]["name"].endswith("sum_grad_1"):
                    found.append(rest)
                    break
                at = rest[0]
            return "chain", found[::-1]
        return None

    @staticmethod
    def is_aggregate(node):
        return node["name"] == "sum_grad"

    def reader(self, entry):
        return self.forward.backward_of(self.nodes[entry[0]]["name"]) if entry[0] >= self.first else None

    def summed(self, readers):
        """The forward value whose readers these are: every named one reads it, and it has enough of them."""
        known = [r for r in readers if r is not None]
        if not known:
            return None
        wanted = collections.Counter(known)
        candidates = []
        for entry in {tuple(e[:2]) for e in self.forward.nodes[known[0]]["inputs"]}:
            have = collections.Counter(self.forward.readers[entry])
            if all(have[r] >= k for r, k in wanted.items()) and sum(have.values()) >= len(readers):
                candidates.append((sum(have.values()) - len(readers), entry))
        return min(candidates)[1] if candidates else None

    def aggregated(self):
        """Forward value → (kind, count, readers in order); a gradient passed on as it is says '~'."""
        found = collections.defaultdict(list)
        for entry, kind, readers in self.sum_at.values():
            names = [self.forward.nodes[r]["name"] if r is not None else "~" for r in readers]
            found[self.forward.text(entry) if entry else "?"].append((kind, len(readers), names))
        return {value: sorted(rows) for value, rows in found.items()}

    def copies(self):
        """What each copy that is no end of a chain copies, and its name."""
        rows = []
        for i in range(self.first, len(self.nodes)):
            node = self.nodes[i]
            if node["op"] in ("_copy", "identity") and i not in self.sum_at:
                rows.append("%s of %s" % (node["name"], self.described(node["inputs"][0])))
        return collections.Counter(rows)

    def described(self, entry):
        """A gradient entry in words that mean the same on both sides."""
        node, output = entry[0], entry[1]
        if node < self.first:
            return "value " + self.forward.text((node, output))
        if node in self.sum_at:
            at = self.sum_at[node][0]
            return "sum at " + (self.forward.text(at) if at else "?")
        forward = self.forward.backward_of(self.nodes[node]["name"])
        if forward is not None:
            return "gradient by " + self.forward.nodes[forward]["name"]
        if self.nodes[node]["op"] in ("_copy", "identity"):
            return "copy of " + self.described(self.nodes[node]["inputs"][0])
        return self.nodes[node]["op"]


def host_gradients(listing):
    """MXNet's listing, whose names are resolved to the last node of that name before the reader."""
    nodes, at, entry_of = [], {}, lambda name, k: [at.get(name, -1), k]
    first = None
    for raw in listing["nodes"]:
        is_generated = raw["name"].startswith("_head_grad_") or "_backward" in raw["name"] or "sum_grad" in raw["name"]
        if first is None and is_generated:
            first = len(nodes)
        nodes.append({"op": raw["op"], "name": raw["name"], "inputs": [entry_of(e[0], int(e[1])) for e in raw.get("inputs", [])]})
        at[raw["name"]] = len(nodes) - 1
    first = len(nodes) if first is None else first
    forward = Forward(nodes[:first])
    heads = []
    for text in listing["outputs"]:
        name, _, index = text.rpartition("(")
        heads.append(entry_of(name, int(index[:-1])))
    return Gradients(forward, nodes, first, heads)


def own_gradients(emitted):
    nodes = emitted["nodes"]
    generated = [i for i, n in enumerate(nodes) if "__origin__" in n.get("attrs", {}) or n["name"].startswith("_head_grad_")]
    first = min(generated) if generated else len(nodes)
    plain = [{"op": n["op"], "name": n["name"], "inputs": n["inputs"]} for n in nodes]
    return Gradients(Forward(plain[:first]), plain, first, emitted["heads"])


def heads_by_x(gradients, num_outputs, names):
    """(x, what its gradient is) in the order of the heads. Of MXNet's sums of one name the one at x is meant."""
    values = gradients.aggregated()
    rows = []
    for name, entry in zip(names, gradients.heads[num_outputs:]):
        is_sum = entry[0] in gradients.sum_at
        rows.append((name, "sum at " + name if is_sum and name in values else gradients.described(entry)))
    return rows


def differences(host, own, num_outputs, host_names, own_names):
    """(class, text) of everything that is not the same."""
    found = []
    theirs, ours = host.aggregated(), own.aggregated()
    for value in sorted(theirs.keys() | ours.keys()):
        if theirs.get(value) != ours.get(value):
            found.append(("sum", "%s: MXNet %s, gradc %s" % (value, theirs.get(value), ours.get(value))))
    for text, count in (host.copies() - own.copies()).items():
        found.append(("copy", "MXNet has %d more %s" % (count, text)))
    for text, count in (own.copies() - host.copies()).items():
        found.append(("copy", "gradc has %d more %s" % (count, text)))
    theirs, ours = heads_by_x(host, num_outputs, host_names), heads_by_x(own, num_outputs, own_names)
    for name, text in theirs:
        if name not in own_names:
            found.append(("label", "MXNet has a gradient of '%s': %s" % (name, text)))
    theirs = [row for row in theirs if row[0] in own_names]
    for (a, left), (b, right) in zip(theirs, ours):
        if (a, left) != (b, right):
            found.append(("head", "MXNet %s: %s, gradc %s: %s" % (a, left, b, right)))
    if len(theirs) != len(ours):
        found.append(("head", "MXNet has %d gradients, gradc %d" % (len(theirs), len(ours))))
    return found


def wide():
    """Values with seven, eight, nine and twelve readers, one of them reading twice; several outputs; x read directly."""
    nodes = [{"op": "null", "name": "x", "inputs": []}, {"op": "null", "name": "w", "inputs": []}]

    def add(op, *inputs, **attrs):
        nodes.append({"op": op, "name": "%s%d" % (op.lower(), len(nodes)), "inputs": [[i, 0, 0] for i in inputs],
                      **({"attrs": attrs} if attrs else {})})
        return len(nodes) - 1

    def fan(value, readers):
        made = [add(("tanh", "sigmoid", "square", "exp")[k % 4], value) for k in range(readers)]
        total = made[0]
        for term in made[1:]:
            total = add("elemwise_mul", total, term)
        return add("tanh", total)

    seven, eight, nine = fan(0, 7), fan(add("tanh", 1), 8), fan(add("elemwise_mul", 0, 1), 9)
    twice = add("elemwise_add", seven, seven)
    twelve = fan(add("elemwise_add", twice, nine), 12)
    heads = [[twelve, 0, 0], [add("elemwise_add", eight, twelve), 0, 0], [nine, 0, 0]]
    return {"nodes": nodes, "arg_nodes": [0, 1], "heads": heads, "attrs": {"mxnet_version": ["int", 10901]}}


# Runs under MXNET_PYTHON: which arguments get a gradient, in order.
ASKED = """
import sys, json, argparse
sys.path.insert(0, sys.argv[1])
import mxnet_oracle as o
a = argparse.Namespace(net=sys.argv[3], shape=sys.argv[4:], dtype="float64", rtol=1)
sym, shapes = o.load(sys.argv[2], False), o.shapes_of(a)
whole = o.label_classes(sym, shapes)
print(json.dumps({"outputs": len(sym.list_outputs()), "shapes": shapes,
                  "asked": [n for n in sym.list_arguments() if n not in whole]}))
"""


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done if done.returncode == 0 else None, (done.stderr or done.stdout).strip()


def xs_of(emitted):
    kinds = emitted["attrs"]["head_kind"][1]
    return [of for of, kind in zip(emitted["attrs"]["grad_of"][1], kinds) if kind == "grad"]


def gradient_graph(command, asked, folder):
    """The emitted graph for every x that MXNet is asked for as well, and the error."""
    wrt = []
    while True:
        done, error = run(command + wrt)
        if not done:
            return None, error
        emitted = json.load(open(folder + "/own.json"))
        common = [x for x in xs_of(emitted) if x in asked]
        if wrt or common == xs_of(emitted):
            return emitted, None
        wrt = ["--wrt", ",".join(common)]


def compare(python, net, folder):
    """Prints one line, and one per difference; returns how many differences have no reason, or None when skipped."""
    graph, oracle = str(SHARED / "graphs/mxnet" / (net + ".symbol.json")), str(SHARED / "oracle/mxnet_oracle.py")
    shapes = [net]
    if net == "wide":
        graph, shapes = folder + "/wide.json", ["", "x=2,3", "w=2,3"]
        pathlib.Path(graph).write_text(json.dumps(wide()))
    done, error = run([python, "-c", ASKED, str(SHARED / "oracle"), graph] + shapes)
    if not done:
        print("%-28s skipped: MXNet: %s" % (net, error.splitlines()[-1][:90] if error else "failed"))
        return None
    asked = json.loads(done.stdout.splitlines()[-1])
    given = ["--net", net] if shapes[0] else [flag for shape in shapes[1:] for flag in ("--shape", shape)]
    done, error = run([python, oracle, "graph", graph, "-o", folder + "/host.json"] + given)
    if not done:
        print("%-28s skipped: MXNet: %s" % (net, error.splitlines()[-1][:90] if error else "failed"))
        return None
    command = [GRADC, "grad", graph, "--naming", "mxnet", "--heads", "input", "-o", folder + "/own.json"]
    for name, shape in asked["shapes"].items():
        command += ["--shape", "%s=%s" % (name, ",".join(map(str, shape)))]
    emitted, error = gradient_graph(command, asked["asked"], folder)
    if not emitted:
        print("%-28s skipped: gradc: %s" % (net, error.split("error: ")[-1].splitlines()[0][:110]))
        return None
    host, own = host_gradients(json.load(open(folder + "/host.json"))), own_gradients(emitted)
    own_names = xs_of(emitted)
    found = differences(host, own, asked["outputs"], asked["asked"], own_names)
    unexplained = [row for row in found if row[0] not in REASONS]
    sums = [rows for values in own.aggregated().values() for rows in values]
    print("%-28s %s: %d sums, %d chains, %d copies, %d gradients%s" % (
        net, "DIFFERS" if unexplained else "agrees", sum(r[0] == "sum" for r in sums),
        sum(r[0] == "chain" for r in sums), sum(own.copies().values()), len(own_names),
        "".join(", %d %s" % (n, k) for k, n in sorted(collections.Counter(r[0] for r in found).items()))))
    for kind, text in found[:int(os.environ.get("SHOWN", "6"))]:
        print("    [%s] %s" % (kind, text))
    return len(unexplained)


def main(names):
    shapes, python = SHARED / "oracle/shapes.json", os.environ.get("MXNET_PYTHON", "python3")
    if not shapes.exists():
        print("host aggregation: skipped (no %s)" % shapes)
        return 0
    if not run([python, "-c", "import mxnet"])[0]:
        print("host aggregation: skipped (no MXNet in %s; MXNET_PYTHON names another Python)" % python)
        return 0
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for net in names or ["wide", *json.load(open(shapes))]:
            results.append(compare(python, net, folder))
    judged = [r for r in results if r is not None]
    print("%d networks compared, %d differ without a reason, %d skipped" % (
        len(judged), sum(r > 0 for r in judged), len(results) - len(judged)))
    return 1 if any(judged) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
