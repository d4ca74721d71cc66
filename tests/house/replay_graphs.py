"""The graphs that tests/house/replay.py runs beside those of the repository: drawn node by node, and edits of files in testdata.

A function of the seed alone. Most are valid graphs that run; some are refused, which is compared as well."""
import json
import random

UNARY = ("tanh", "sigmoid", "relu", "negative", "square", "abs", "exp", "softmax", "log_softmax", "_copy", "erf", "softsign",
         "rsqrt", "cbrt", "round", "sign", "BlockGrad", "make_loss", "gamma", "silu", "zeros_like", "ones_like", "Flatten")
BINARY = ("elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "_maximum", "_hypot", "_grad_add")
BROADCAST = ("broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div", "broadcast_maximum", "broadcast_greater")
SCALAR = ("_plus_scalar", "_mul_scalar", "_rminus_scalar", "_div_scalar", "_power_scalar", "_maximum_scalar")
REDUCE = ("sum", "mean", "max", "norm", "prod")
MARKS = ({"__stop_gradient__": "True"}, {"__tap_gradient__": "True"}, {"__lr_mult__": "2"}, {"__ctx_group__": "a"},
         {"__profiler_scope__": "s:"})
FLAGS = ("", "--order 2", "--heads input", "--sum-cap 2", "--naming mxnet", "--naming nnvm", "--naming fluid", "--mode infer",
         "--unused none", "--dialect mxnet", "--dialect primitives", "--zero-terms keep", "--loss-scale 8", "--emit gradient",
         "--reach whole-graph", "--control-only zeros", "--integers permissive", "--order 3", "--heads scalar")


class Drawer:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.nodes = []
        self.entries = []  # (node, output, shape); no shape where it is not known here

    def text(self):
        heads = [e for e in self.entries if e[0] == len(self.nodes) - 1] or self.entries[-1:]
        heads += [e for e in self.entries if self.rng.random() < 0.08]
        return json.dumps({"nodes": self.nodes, "arg_nodes": [i for i, n in enumerate(self.nodes) if n["op"] == "null"],
                           "heads": [[n, o, 0] for n, o, _ in heads]})

    def add(self, op, inputs, attrs=None, shapes=((),)):
        node = {"op": op, "name": self.name(op), "inputs": [[n, o, 0] for n, o, _ in inputs]}
        attrs = {key: str(value) for key, value in (attrs or {}).items()}
        if self.rng.random() < 0.06:
            attrs.update(self.rng.choice(MARKS))
        if attrs:
            node["attrs"] = attrs
        if op != "null" and self.nodes and self.rng.random() < 0.05:
            node["control_deps"] = [self.rng.randrange(len(self.nodes))]
        self.nodes.append(node)
        made = [(len(self.nodes) - 1, o, shape) for o, shape in enumerate(shapes)]
        self.entries += made
        return made[0]

    def name(self, op):
        if self.rng.random() < 0.03:
            return "same"
        return f"{'x' if op == 'null' else op.strip('_').lower()}{len(self.nodes)}"

    def variable(self, shape):
        attrs = {"__shape__": tuple(shape)}
        if self.rng.random() < 0.05:
            attrs["__dtype__"] = self.rng.choice((1, 2))
        return self.add("null", [], attrs, [tuple(shape)])

    def pick(self, rank=None):
        known = [e for e in self.entries[-12:] if e[2] is not None and (rank is None or len(e[2]) == rank)]
        return self.rng.choice(known) if known else self.variable([self.rng.randint(1, 4) for _ in range(rank or 2)])

    def like(self, entry):
        same = [e for e in self.entries if e[2] == entry[2]]
        return self.rng.choice(same) if same and self.rng.random() < 0.7 else self.variable(entry[2])

    def step(self):
        rng, x = self.rng, self.pick()
        kind = rng.choices(("unary", "binary", "broadcast", "scalar", "reduce", "many", "dense", "norm", "image", "split", "move",
                            "where", "loss", "loop", "state"), (8, 6, 4, 3, 4, 3, 4, 2, 2, 2, 3, 1, 2, 1, 1))[0]
        getattr(self, "draw_" + kind)(x)

    def draw_unary(self, x):
        op = self.rng.choice(UNARY)
        shape = x[2] if op != "Flatten" else (x[2][0] if x[2] else 1, 1) if len(x[2]) < 2 else None
        self.add(op, [x], shapes=[shape])

    def draw_binary(self, x):
        self.add(self.rng.choice(BINARY), [x, self.like(x)], shapes=[x[2]])

    def draw_broadcast(self, x):
        other = self.variable([size if self.rng.random() < 0.5 else 1 for size in x[2]])
        self.add(self.rng.choice(BROADCAST), self.rng.sample([x, other], 2), shapes=[x[2]])

    def draw_scalar(self, x):
        self.add(self.rng.choice(SCALAR), [x], {"scalar": self.rng.choice((2, 0.5, -1, 3))}, [x[2]])

    def draw_reduce(self, x):
        if not x[2]:
            return self.draw_unary(x)
        axis, keep = self.rng.randrange(len(x[2])), self.rng.random() < 0.5
        shape = tuple(size if i != axis else 1 for i, size in enumerate(x[2]) if keep or i != axis)
        self.add(self.rng.choice(REDUCE), [x], {"axis": axis, "keepdims": keep}, [shape or (1,)])

    def draw_many(self, x):
        inputs = [x] + [self.like(x) for _ in range(self.rng.randint(0, 9))]
        if self.rng.random() < 0.6 or not x[2]:
            self.add("add_n", inputs, {"num_args": len(inputs)}, [x[2]])
        else:
            self.add("Concat", inputs, {"num_args": len(inputs), "dim": 0}, [(x[2][0] * len(inputs), *x[2][1:])])

    def draw_dense(self, x):
        x, units = self.pick(2), self.rng.randint(1, 5)
        inputs = [x, self.variable((units, x[2][1]))]
        no_bias = self.rng.random() < 0.3
        if not no_bias:
            inputs.append(self.variable((units,)))
        self.add("FullyConnected", inputs, {"num_hidden": units, "no_bias": no_bias}, [(x[2][0], units)])

    def draw_norm(self, _):
        x = self.pick(2)
        size = x[2][1]
        if self.rng.random() < 0.5:
            self.add("LayerNorm", [x, self.variable((size,)), self.variable((size,))], {"axis": -1}, [x[2]])
        else:
            inputs = [x] + [self.variable((size,)) for _ in range(4)]
            self.add("BatchNorm", inputs, {"fix_gamma": self.rng.random() < 0.5}, [x[2]])

    def draw_image(self, _):
        x, filters = self.pick(4), self.rng.randint(1, 3)
        n, c, h, w = x[2]
        if self.rng.random() < 0.6:
            made = self.add("Convolution", [x, self.variable((filters, c, 3, 3)), self.variable((filters,))],
                            {"kernel": (3, 3), "pad": (1, 1), "num_filter": filters}, [(n, filters, h, w)])
            self.add("Activation", [made], {"act_type": "relu"}, [made[2]])
        else:
            self.add("Pooling", [x], {"kernel": (2, 2), "stride": (1, 1), "pad": (1, 1),
                                      "pool_type": self.rng.choice(("max", "avg"))}, [(n, c, h + 1, w + 1)])

    def draw_split(self, x):
        if not x[2] or x[2][0] < 2:
            return self.draw_unary(x)
        parts = x[2][0]
        self.add("SliceChannel", [x], {"num_outputs": parts, "axis": 0}, [(1, *x[2][1:])] * parts)

    def draw_move(self, x):
        op = self.rng.choice(("transpose", "expand_dims", "reverse", "repeat", "slice_axis"))
        if not x[2]:
            return self.draw_unary(x)
        attrs, shape = {"transpose": ({}, x[2][::-1]), "expand_dims": ({"axis": 0}, (1, *x[2])), "reverse": ({"axis": 0}, x[2]),
                        "repeat": ({"repeats": 2, "axis": 0}, (2 * x[2][0], *x[2][1:])),
                        "slice_axis": ({"axis": 0, "begin": 0, "end": 1}, (1, *x[2][1:]))}[op]
        self.add(op, [x], attrs, [shape])

    def draw_where(self, x):
        self.add("where", [self.add("_greater_scalar", [x], {"scalar": 0}, [x[2]]), x, self.like(x)], shapes=[x[2]])

    def draw_loss(self, _):
        x = self.pick(2)
        op = self.rng.choice(("SoftmaxOutput", "LinearRegressionOutput", "LogisticRegressionOutput", "softmax_cross_entropy"))
        label = self.variable((x[2][0],) if "oftmax" in op else x[2])
        self.add(op, [x, label], shapes=[x[2] if op != "softmax_cross_entropy" else (1,)])

    def draw_loop(self, x):
        """_foreach over the rows of x: state = tanh(row * w + state), output = state."""
        if len(x[2]) < 2:
            x = self.pick(2)
        row = x[2][1:]
        body = Drawer(self.rng.random())
        names = [body.add("null", [], shapes=[row]) for _ in range(3)]
        total = body.add("broadcast_add", [body.add("elemwise_mul", [names[0], names[2]], shapes=[row]), names[1]], shapes=[row])
        state = body.add(self.rng.choice(("tanh", "sigmoid", "relu")), [total], shapes=[row])
        for node in body.nodes:
            node.pop("control_deps", None)
        graph = {"nodes": body.nodes, "arg_nodes": [0, 1, 2], "heads": [[state[0], 0, 0], [state[0], 0, 0]]}
        inputs = [x, self.variable(row), self.variable(row)]
        self.add("_foreach", inputs, {"num_args": 4, "num_outputs": 2, "num_out_data": 1, "in_data_locs": (0,),
                                      "in_state_locs": (1,), "remain_locs": (2,)}, [x[2], row])
        self.nodes[-1]["subgraphs"] = [graph]

    def draw_state(self, x):
        weight = self.variable(x[2])
        self.add("sgd_mom_update", [weight, x, self.variable(x[2])], {"lr": 0.1, "momentum": 0.9}, [x[2]])


def draw(seed):
    drawer = Drawer(seed)
    for _ in range(drawer.rng.randint(1, 3)):
        drawer.variable([drawer.rng.randint(1, 4) for _ in range(drawer.rng.choice((2, 2, 2, 4, 1)))])
    for _ in range(drawer.rng.choice((2, 4, 6, 9, 14, 25))):
        drawer.step()
    return drawer.text()


def corpus(data):
    """(name, text) for each line of the fuzzer's corpus."""
    for number, line in enumerate((data / "fuzz/corpus.jsonl").read_text().splitlines()):
        yield f"corpus.jsonl:{number + 1}", json.loads(line) if line.startswith('"') else line


def sources(data):
    """Graphs to edit."""
    texts = [text for _, text in corpus(data)] + [path.read_text() for path in sorted((data / "loops").glob("*.json"))]
    texts += [path.read_text() for path in sorted((data / "cli").glob("*/in.json"))]
    graphs = []
    for text in texts:
        try:
            graph = json.loads(text)
        except ValueError:
            continue
        nodes = graph.get("nodes") if isinstance(graph, dict) else None
        if isinstance(nodes, list) and nodes and all(isinstance(node, dict) and isinstance(node.get("inputs"), list) for node in nodes):
            graphs.append(graph)
    return graphs


def edit(rng, graph, others):
    """Changes one thing in place."""
    nodes, heads = graph["nodes"], graph.get("heads", [])
    node = rng.choice(nodes)
    kind = rng.choice(("head", "fewer heads", "dependency", "mark", "attribute", "input", "names", "operator", "splice", "version"))
    if kind == "head":
        heads.append([rng.randrange(len(nodes)), 0, 0])
    elif kind == "fewer heads" and len(heads) > 1:
        heads.pop(rng.randrange(len(heads)))
    elif kind == "dependency":
        node["control_deps"] = [rng.randrange(len(nodes))]
    elif kind == "mark":
        node["attrs"] = {**(node.get("attrs") or {}), **rng.choice(MARKS)}
    elif kind == "attribute" and isinstance(node.get("attrs"), dict) and node["attrs"]:
        key = rng.choice(sorted(node["attrs"]))
        value = str(node["attrs"][key])
        digits = [i for i, c in enumerate(value) if c.isdigit()]
        if digits:
            at = rng.choice(digits)
            node["attrs"][key] = value[:at] + rng.choice("01234") + value[at + 1:]
        elif rng.random() < 0.5:
            del node["attrs"][key]
    elif kind == "input" and node["inputs"] and isinstance(node["inputs"][0], list):
        node["inputs"][rng.randrange(len(node["inputs"]))] = [rng.randrange(len(nodes)), rng.choice((0, 0, 0, 1)), 0]
    elif kind == "names":
        for each in nodes:
            each["name"] = rng.choice(("a", "b", each.get("name", "")))
    elif kind == "operator":
        node["op"] = rng.choice(rng.choice(others)["nodes"]).get("op", "null")
    elif kind == "splice":
        other = json.loads(json.dumps(rng.choice(others)))
        shift = len(nodes)
        for each in other["nodes"]:
            each["inputs"] = [[i[0] + shift, *i[1:]] if isinstance(i, list) and i and isinstance(i[0], int) else i for i in each["inputs"]]
            each.pop("control_deps", None)
        nodes += other["nodes"]
        heads.append([len(nodes) - 1, 0, 0])
    graph.pop("node_row_ptr", None)
    graph["arg_nodes"] = [i for i, each in enumerate(nodes) if each.get("op") == "null"]
    graph["heads"] = heads


def draw_all(data, count):
    """(text, flags of grad) for each of so many graphs: three of five drawn, the others edited."""
    files = sources(data)
    for seed in range(count):
        rng = random.Random(seed)
        flags = f"--unused zeros {rng.choice(FLAGS)}".strip()
        if seed % 5 < 3:
            text = draw(seed)
        else:
            graph = json.loads(json.dumps(rng.choice(files)))
            for _ in range(rng.choice((1, 1, 2, 3))):
                edit(rng, graph, files)
            text = json.dumps(graph)
        names = [node.get("name") for node in json.loads(text)["nodes"] if node.get("op") not in ("null", None)]
        plain = [name for name in names if isinstance(name, str) and name.isidentifier()]
        if plain and rng.random() < 0.3:
            flags += f" {rng.choice(('--retain', '--no-grad', '--stop', '--of'))} {rng.choice(plain)}"
        yield text, flags
