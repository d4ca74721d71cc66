"""Random attribute settings of every operator: gradc's answers against MXNet's.

Usage: python tests/oracles/attribute_draws.py GRADC [--ops OP,...] [--draws N] [--seed N] [--verbose]

Needs a Python with mxnet 1.9.1 and numpy; nothing else in the project does.

For every operator that both have, attributes are drawn from its schema, valid ones, edges and a few that are out of range;
shapes of ranks 0 to 5 that go with them, now and then with a wrong or an empty operand; and element types. Either side refuses
the graph of one node or computes outputs, states and gradients for the same random head gradients. Where gradients differ,
central differences of MXNet's own outputs decide. An operator without attributes gets a fifth of the draws.
Operators `_scheduled_…` are compared with MXNet's that have the learning rate for an attribute. torch_draws.py does the same
with PyTorch for operators that MXNet lacks (gelu, silu, mish, ...).

The table counts, for each operator:
  agree        same shapes, types and values, gradients and states included; of random operators shapes and types
  both ref.    both refuse
  gradc ref.   gradc alone refuses, for no reason that draws/reasons.py lists
  MXNet ref.   the same of MXNet
  crash        MXNet's process ended; --verbose says what gradc does
  grad wrong   gradc's gradient is the difference of MXNet's outputs and MXNet's is not, and draws/reasons.py does not list it
  known        draws/reasons.py says why they differ
  differ       anything else, crashes of gradc included
The exit code is 1 when there is a difference without a reason.
"""
import collections
import random
import sys
import tempfile
import zlib

import numpy as np

from draws import families, layers, layout, reasons, scheduled  # all but reasons register what they draw
from draws.gradc_side import Gradc
from draws.mxnet_side import Mxnet, UNWRITTEN, registered
from draws.options import parse
from draws.schema import Draw
from draws.values import TOLERANCES, disagreement, values_of

# Nothing of these may be left without a reason.
WANT_REASONS = ["only gradc refuses", "only MXNet refuses", "MXNet's gradient wrong", "differ"]
# Their gradient is that of a loss, not of their output.
LOSSES = {"MakeLoss", "make_loss", "SVMOutput", "SoftmaxOutput", "LinearRegressionOutput", "LogisticRegressionOutput",
          "MAERegressionOutput"}
COLUMNS = {"agree": "agree", "both refuse": "both ref.", "only gradc refuses": "gradc ref.", "only MXNet refuses": "MXNet ref.",
           "MXNet crashes": "crash", "MXNet's gradient wrong": "grad wrong", "known": "known", "differ": "differ"}


class Judge:
    def __init__(self, gradc, seed):
        self.gradc, self.mxnet, self.seed = gradc, Mxnet(), seed

    def draw(self, op, k):
        draw = Draw(op, random.Random(f"{self.seed}/{op['name']}/{k}"))
        families.fill_in(draw)
        draw.respell()
        return draw

    def make(self, op, draw, np_shape):
        """(what MXNet makes of the node, names of its inputs, their shapes)"""
        ports = op["inputs"]
        named = [f"op_arg{i}" for i in range(draw.num_args or 1)] if ports["variadic"] else [f"op_{n}" for n in ports["names"]]
        given = named if ports["variadic"] or not ports["depends_on_attributes"] else []
        made = self.mxnet.ask("make", {"op": op["name"], "attrs": draw.attrs, "inputs": given, "shapes": draw.shapes,
                                       "np_shape": np_shape})
        inputs = made.get("inputs") or named
        found = made.get("shapes") or {}
        shapes = {}
        for k, name in enumerate(inputs):  # what MXNet does not know any shape will do for
            drawn = draw.shapes[min(k, len(draw.shapes) - 1)] if draw.shapes else (1,)
            shape = found.get(name, drawn)
            shapes[name] = tuple(max(d, int(not np_shape)) for d in shape) if shape is not None else (1,)
            if not np_shape and not shapes[name]:
                shapes[name] = (1,)
        return made, inputs, shapes

    def ask_gradc(self, graph, values, training, heads):
        """Of a node that MXNet refuses it is not known how many inputs it has: as many as gradc wants."""
        while True:
            ours = self.gradc.run(graph, values, training, heads)
            if "[arity]" not in ours.get("refused", "") or len(values) < 2 or heads:
                return ours
            values = dict(list(values.items())[:-1])
            node = graph["nodes"][-1]
            graph = self.graph(node["op"], node.get("attrs", {}), list(values))

    def judge(self, op, k):
        """(draw, column, what was found)"""
        draw = self.draw(op, k)
        np_shape = any(not s or 0 in s for s in draw.shapes)
        is_scheduled = op["name"].startswith(scheduled.PREFIX)
        if is_scheduled:
            inputs = [f"op_{n}" for n in op["inputs"]["names"]]
            made, shapes = {}, dict(zip(inputs, draw.shapes))
        else:
            made, inputs, shapes = self.make(op, draw, np_shape)
        graph = made.get("graph") or self.graph(op["name"], draw.attrs, inputs)
        graph["attrs"]["mxnet_version"] = ["int", 10901]
        if draw.chance(0.04) and len(inputs) > 1 and "refused" not in made:
            name = draw.rng.choice(inputs)
            draw.is_perturbed = True
            shapes[name] = (*shapes[name], 2) if draw.chance(0.5) else tuple(d + 1 for d in shapes[name])
        seed = zlib.crc32(f"{self.seed}/{op['name']}/{k}".encode()) & 0x7FFFFFFF
        values = values_of(draw, inputs, shapes, seed)
        training = draw.chance(0.8)
        request = {"graph": graph, "values": values, "training": training, "gradient": training and not op["random"],
                   "seed": seed, "np_shape": np_shape}
        ask = (lambda wanted: self.mxnet.ask("run", self.of_mxnet(op, draw, wanted) if is_scheduled else wanted))
        theirs = made if "refused" in made else ask(request)
        draw.description = self.describe(op, draw, values)
        try:
            ours = self.ask_gradc(graph, values, training, theirs.get("heads", []))
        except RuntimeError as error:
            return draw, "differ", f"{error}"
        if theirs.get("crashed"):
            return draw, "MXNet crashes", "gradc: " + ours.get("refused", "runs")
        if "refused" in ours and "refused" in theirs:
            return draw, "both refuse", ours["refused"] + " || " + theirs["refused"]
        if "refused" in ours:
            return draw, "only gradc refuses", ours["refused"]
        if "refused" in theirs:
            return draw, "only MXNet refuses", theirs["refused"]
        column, found = self.compare(op, request, ours, theirs)
        if column == "differ" and self.agrees_with_double(op, request, ours, ask):
            return draw, "known", "MXNet rounds to 16 bits in between: " + found
        return draw, column, found

    def agrees_with_double(self, op, request, ours, ask):
        """Whether float16 answers are those of MXNet in float64, for the same numbers, rounded once."""
        narrow = {name for name, value in request["values"].items() if value.dtype == np.float16}
        if not narrow:
            return False
        values = {name: v.astype(np.float64) if name in narrow else v for name, v in request["values"].items()}
        wide = ask({**request, "values": values, "rounded": "float16"})
        if "outputs" not in wide:
            return False
        for part in ("states", "gradients"):
            wide[part] = {name: a.astype(np.float16) if name in narrow else a for name, a in wide[part].items()}
        wide["outputs"] = [a.astype(np.float16) if a.dtype == np.float64 else a for a in wide["outputs"]]
        return self.compare(op, request, ours, wide)[0] == "agree"

    def of_mxnet(self, op, draw, request):
        attrs, values = scheduled.unscheduled(op, draw.attrs, request["values"])
        return {**request, "graph": self.graph(scheduled.counterpart(op["name"]), attrs, list(values)), "values": values}

    def compare(self, op, request, ours, theirs):
        if len(ours["outputs"]) != len(theirs["outputs"]):
            return "differ", f"{len(ours['outputs'])} outputs, MXNet {len(theirs['outputs'])}"
        is_random = op["random"] and (op["name"] != "Dropout" or request["training"] or "always" in str(request["graph"]))
        for i, (a, b) in enumerate(zip(ours["outputs"], theirs["outputs"])):
            if is_random:
                if a.shape != b.shape or a.dtype != b.dtype:
                    return "differ", disagreement(a, b, f"output {i}")
            elif found := disagreement(a, b, f"output {i}"):
                return "differ", found
        for name, b in theirs["states"].items():
            if name in ours["states"] and (found := disagreement(ours["states"][name], b, f"state {name}")):
                return "differ", found
        if "no_gradient" in ours:
            if any(np.any(g != 0) and np.any(g != UNWRITTEN) for g in theirs["gradients"].values()):
                return "differ", "gradc has no gradient: " + ours["no_gradient"]
            return "agree", "no gradient"
        wrong, narrowest = "", max((TOLERANCES.get(str(a.dtype), 0) for a in ours["outputs"]), default=0)
        for name, b in theirs["gradients"].items():
            a = ours["gradients"].get(name)
            if a is None:
                if np.any(b != 0) and np.any(b != UNWRITTEN):
                    return "differ", f"no gradient of {name}; MXNet has one"
                continue
            found = disagreement(a, b, f"gradient of {name}", tolerance=narrowest)
            if not found or (not np.any(a) and np.all(b == UNWRITTEN)):
                continue
            if op["name"] in LOSSES:
                return "differ", found
            answer = self.mxnet.ask("differences", {**request, "heads": theirs["heads"], "wrt": name})
            if "difference" in answer:
                truth = answer["difference"]
                scale = np.abs(truth).max() if truth.size else 0
                tolerance = 2e-3 if answer["dtype"] == "float64" else 2e-2
                if a.shape == truth.shape and np.all(np.abs(a - truth) <= tolerance * max(scale, 1e-2)):
                    wrong = found
                    continue
                found += " (not the difference)"
            return "differ", found
        return ("MXNet's gradient wrong", wrong) if wrong else ("agree", "")

    @staticmethod
    def graph(op, attrs, inputs):
        nodes = [{"op": "null", "name": n, "inputs": []} for n in inputs]
        nodes.append({"op": op, "name": "op", "attrs": attrs, "inputs": [[i, 0, 0] for i in range(len(inputs))]})
        return {"nodes": nodes, "arg_nodes": list(range(len(inputs))), "heads": [[len(inputs), 0, 0]], "attrs": {}}

    @staticmethod
    def describe(op, draw, values):
        attrs = ", ".join(f"{k}={v}" for k, v in draw.attrs.items())
        return f"{op['name']}({attrs}) " + " ".join(f"{list(v.shape)}:{v.dtype}" for v in values.values()) \
            + (" out of range" if draw.wild else "")


def main():
    options = parse(__doc__, "print every draw that is not an agreement")
    only = options.ops
    names = registered()
    totals, failed = collections.Counter(), False
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(Gradc(options.gradc, folder), options.seed)
        print(f"{'operator':44}" + "".join(f"{title:>12}" for title in COLUMNS.values()))
        for op in judge.gradc.operators():
            name = op["name"]
            if scheduled.counterpart(name) not in names or (only and name not in only):
                continue
            counts, shown = collections.Counter(), []
            count = options.draws if op["attributes"] else max(1, options.draws // 5)  # shapes and types alone
            for k in range(count) if options.only < 0 else [options.only]:
                try:
                    draw, column, found = judge.judge(op, k)
                except Exception as error:
                    raise RuntimeError(f"draw {k} of {name}") from error
                if column in WANT_REASONS and reasons.explain(name, draw, column, found):
                    column = "known"
                counts[column] += 1
                if column in WANT_REASONS or (options.verbose and column not in ("agree", "known")):
                    shown.append(f"  {k} {column}: {draw.description}: {found}")
            print(f"{name:44}" + "".join(f"{counts[c]:12}" for c in COLUMNS), flush=True)
            for line in shown:
                print(line, flush=True)
            totals += counts
            failed |= any(counts[c] for c in WANT_REASONS)
    print(f"{'all':44}" + "".join(f"{totals[c]:12}" for c in COLUMNS))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
