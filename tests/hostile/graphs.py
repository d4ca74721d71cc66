"""Small graphs in the JSON form gradc reads, and cases: a graph with what is known of the right answer.

Keys of a case beside name and graph; what is left out may go either way:
  verify, infer, run   "ok" or "refused"; a graph that verify or infer refuses is refused by every later verb
  kind                 kinds of error the first refusal may have, with | between them
  shape                what infer gives the last node's output 0
  values               lowest, mean and highest element that run prints for the first head
  plan, gradcheck      "ok"
  grad, order2         "ok": the gradient of that order is built and infers; "sound": tried, even where few verbs are
  partial              "ok" for infer and plan with --partial
"""

import zlib

MOST = 2**63 - 1
LEAST = -(2**63)
MXNET2 = {"mxnet_version": ["int", 20000]}  # from here on a 0 in a shape is a length, not something unknown


def tuple_text(numbers):
    numbers = list(numbers)
    return "(" + ",".join(map(str, numbers)) + (",)" if len(numbers) == 1 else ")")


class Graph:
    """Nodes in order; methods return ids."""

    def __init__(self, version=20000):
        self.nodes, self.heads, self.attrs = [], [], {"mxnet_version": ["int", version]}

    def var(self, shape=None, dtype=None, constant=None, name=None, **attrs):
        texts = {}
        if shape is not None:
            texts["__shape__"] = shape if isinstance(shape, str) else tuple_text(shape)
        if dtype is not None:
            texts["__dtype__"] = str(dtype)
        if constant is not None:
            texts["__init__"] = '["Constant",{"value":%s}]' % constant
        texts.update(attrs)
        number = sum(node["op"] == "null" for node in self.nodes)
        node = {"op": "null", "name": name or "v%d" % number, "inputs": []}
        if texts:
            node["attrs"] = texts
        return self.add(node)

    def op(self, op, inputs, attrs=None, name=None, deps=()):
        entries = [list(i) if isinstance(i, tuple) else [i, 0, 0] for i in inputs]
        number = sum(node["op"] != "null" for node in self.nodes)
        node = {"op": op, "name": name or "n%d" % number, "inputs": entries}
        if attrs:
            node["attrs"] = {key: str(value) for key, value in attrs.items()}
        if deps:
            node["control_deps"] = list(deps)
        return self.add(node)

    def add(self, node):
        self.nodes.append(node)
        return len(self.nodes) - 1

    def json(self, *heads):
        entries = [list(h) if isinstance(h, tuple) else [h, 0, 0] for h in heads or (len(self.nodes) - 1,)]
        arguments = [i for i, node in enumerate(self.nodes) if node["op"] == "null"]
        return {"nodes": self.nodes, "arg_nodes": arguments, "heads": entries, "attrs": self.attrs}


def one(op, attrs, shapes, dtypes=None, version=20000):
    """One node over variables; None is an unknown shape or type."""
    g = Graph(version)
    inputs = [g.var(shape, dtypes[i] if dtypes else None) for i, shape in enumerate(shapes)]
    g.op(op, inputs, attrs, name="y")
    return g.json()


def chosen(name, one_in):
    """Whether a case is among those kept, one in so many: the same ones every time."""
    return zlib.crc32(name.encode()) % one_in == 0


def thinned(cases, one_in):
    """Of a product of many operators and numbers, one case in so many."""
    return (kept for kept in cases if chosen(kept["name"], one_in))


def case(name, graph, **expected):
    return {"name": name, **expected, "graph": graph}


def refused(name, graph):
    """By inference, or already where an attribute or a given shape is read."""
    return case(name, graph, infer="refused", kind="infer_conflict|bad_attribute|bad_hint")


def unreadable(name, graph, kind="bad_attribute"):
    return case(name, graph, verify="refused", kind=kind)


def fine(name, graph, shape=None, **expected):
    if shape is not None:
        expected["shape"] = tuple_text(shape)
    return case(name, graph, infer="ok", run="ok", **expected)
