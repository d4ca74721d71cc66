"""Translates straight-line Paddle programs to gradc graphs and compares which gradients exist, and their values.

usage: paddle_programs.py [NAME …]      (default: every program of ../shared/programs/paddle)

Programs of one block whose operators gradc has. A name that is written again is a new value from there on (IR-12).
append_backward and gradients become `gradc grad --unused none`; what Paddle marks stop_gradient joins its no-gradient
set (NG-01). Compared are the (parameter, has a gradient) pairs, and values, to 1e-9. Where Paddle's own report says that
its gradient is wrong, `gradc gradcheck` judges gradc's instead.

GRADC is the binary (default: the one ./dev build makes), GRADC_SHARED the folder of the programs. Needs NumPy. Prints
"skipped" without them, and for each program that cannot be expressed in gradc's operators. Exit status 1 on a difference.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    np = None

# Features of programs, not of gradients.
EXCLUDED = {"error_clip": "clips the gradient of an intermediate value"}

REPO = pathlib.Path(__file__).resolve().parents[1]
FOLDER = pathlib.Path(os.environ.get("GRADC_SHARED", REPO.parent / "shared")) / "programs" / "paddle"
GRADC = os.environ.get("GRADC", str(REPO / "out/bin/tools/gradc/gradc"))
TYPES = {4: "float16", 5: "float32", 6: "float64"}


class Uncovered(Exception):
    """An operator or a form of one that has no counterpart here."""


class Graph:
    """A symbol file in the making: `at` is the latest value of each Paddle name, as [node, output]."""

    def __init__(self, shapes):
        self.nodes, self.at, self.shapes = [], {}, shapes
        self.definitions = {}  # name → every value it ever had

    def value(self, name):
        if name not in self.at:
            self.nodes.append({"op": "null", "name": name, "inputs": []})
            self.define(name, [len(self.nodes) - 1, 0])
        return self.at[name]

    def define(self, name, entry):
        self.at[name] = entry
        self.definitions.setdefault(name, []).append(entry)

    def add(self, op, inputs, **attrs):
        self.nodes.append({"op": op, "name": "%s_%d" % (op.lower(), len(self.nodes)), "inputs": [list(i) for i in inputs],
                           "attrs": {k: str(v) for k, v in attrs.items()}})
        return [len(self.nodes) - 1, 0]

    def entry(self, value):
        name = self.nodes[value[0]]["name"]
        return "%s:%d" % (name, value[1]) if value[1] else name

    def text(self, heads):
        args = [i for i, n in enumerate(self.nodes) if n["op"] == "null"]
        return json.dumps({"nodes": self.nodes, "arg_nodes": args, "heads": [h + [0] for h in heads]})


def axes_of(attrs):
    return {} if attrs["reduce_all"] or not attrs["dim"] else {"axis": tuple(attrs["dim"]), "keepdims": attrs["keep_dim"]}


def matmul(g, op, attrs):
    x, y = op["in"]["X"][0], op["in"]["Y"][0]
    if len(g.shapes[x]) != 2 or len(g.shapes[y]) != 2:
        raise Uncovered("matmul_v2 of %d and %d axes" % (len(g.shapes[x]), len(g.shapes[y])))
    return g.add("dot", [g.value(x), g.value(y)], transpose_a=attrs.get("trans_x", False),
                 transpose_b=attrs.get("trans_y", False))


def flattened_matmul(g, op, attrs):
    if attrs["x_num_col_dims"] != 1 or attrs["y_num_col_dims"] != 1:
        raise Uncovered("mul over other axes")
    x = op["in"]["X"][0]
    value = g.value(x) if len(g.shapes[x]) == 2 else g.add("Flatten", [g.value(x)])
    return g.add("dot", [value, g.value(op["in"]["Y"][0])])


def elementwise(name):
    def make(g, op, attrs):
        x, y = op["in"]["X"][0], op["in"]["Y"][0]
        left, right = g.value(x), g.value(y)
        rank, own = len(g.shapes[x]), len(g.shapes[y])
        if own < rank:
            axis = attrs["axis"] if attrs["axis"] >= 0 else rank - own
            shape = [1] * axis + list(g.shapes[y])
            right = g.add("Reshape", [right], shape=tuple(shape + [1] * (rank - len(shape))))
        return g.add("broadcast_" + name, [left, right])
    return make


def scale(g, op, attrs):
    scaled = g.add("_mul_scalar", [g.value(op["in"]["X"][0])], scalar=attrs["scale"])
    if attrs["bias"] and not attrs["bias_after_scale"]:
        raise Uncovered("scale after its bias")
    return g.add("_plus_scalar", [scaled], scalar=attrs["bias"]) if attrs["bias"] else scaled


def split(g, op, attrs):
    x = g.value(op["in"]["X"][0])
    if not attrs["sections"]:
        parts = g.add("SliceChannel", [x], num_outputs=attrs["num"], axis=attrs["axis"])
        return [[parts[0], i] for i in range(attrs["num"])]
    parts, begin = [], 0
    for length in attrs["sections"]:
        parts.append(g.add("slice_axis", [x], axis=attrs["axis"], begin=begin, end=begin + length))
        begin += length
    return parts


def unstack(g, op, attrs):
    parts = g.add("SliceChannel", [g.value(op["in"]["X"][0])], num_outputs=attrs["num"], axis=attrs["axis"],
                  squeeze_axis=True)
    return [[parts[0], i] for i in range(attrs["num"])]


def strided_slice(g, op, attrs):
    rank = len(g.shapes[op["in"]["Input"][0]])
    begin, end, step = ["None"] * rank, ["None"] * rank, ["1"] * rank
    for axis, first, last, by in zip(attrs["axes"], attrs["starts"], attrs["ends"], attrs["strides"]):
        begin[axis], step[axis] = str(first), str(by)
        end[axis] = "None" if last >= 2 ** 31 - 1 else str(last)
    listed = lambda parts: "(%s,)" % ", ".join(parts)
    return g.add("slice", [g.value(op["in"]["Input"][0])], begin=listed(begin), end=listed(end), step=listed(step))


def along(name, key):
    def make(g, op, attrs):
        value = g.value(op["in"]["X"][0])
        for axis in attrs["axes"]:
            value = g.add(name, [value], **{key: axis})
        return value
    return make


def embedding(g, op, attrs):
    if attrs["padding_idx"] != -1:
        raise Uncovered("lookup_table_v2 with a padding index")
    rows, width = g.shapes[op["in"]["W"][0]]
    return g.add("Embedding", [g.value(op["in"]["Ids"][0]), g.value(op["in"]["W"][0])], input_dim=rows, output_dim=width)


def convolution(g, op, attrs):
    features, _, height, width = g.shapes[op["in"]["Filter"][0]]
    return g.add("Convolution", [g.value(op["in"]["Input"][0]), g.value(op["in"]["Filter"][0])], kernel=(height, width),
                 num_filter=features, stride=tuple(attrs["strides"]), pad=tuple(attrs["paddings"]),
                 dilate=tuple(attrs["dilations"]), num_group=attrs["groups"], no_bias=True)


def batch_norm(g, op, attrs):
    names = [op["in"][k][0] for k in ("X", "Scale", "Bias", "Mean", "Variance")]
    return g.add("BatchNorm", [g.value(n) for n in names], eps=attrs["epsilon"], momentum=attrs["momentum"], fix_gamma=False)


def pooling(g, op, attrs):
    if attrs["adaptive"]:
        raise Uncovered("adaptive pool2d")
    return g.add("Pooling", [g.value(op["in"]["X"][0])], pool_type=attrs["pooling_type"], kernel=tuple(attrs["ksize"]),
                 stride=tuple(attrs["strides"]), pad=tuple(attrs["paddings"]), global_pool=attrs["global_pooling"],
                 count_include_pad=not attrs["exclusive"])


def layer_norm(g, op, attrs):
    if attrs["begin_norm_axis"] != len(g.shapes[op["in"]["X"][0]]) - 1:
        raise Uncovered("layer_norm over several axes")
    return g.add("LayerNorm", [g.value(op["in"][k][0]) for k in ("X", "Scale", "Bias")], eps=attrs["epsilon"])


def unary(name, **fixed):
    return lambda g, op, attrs: g.add(name, [g.value(op["in"]["X"][0])], **fixed)


def inputs_of(g, op):
    return [g.value(n) for n in op["in"]["X"]]


# Paddle's operator → a function that adds nodes and returns the value of its first output, or a list of all.
OPERATORS = {
    "matmul_v2": matmul,
    "mul": flattened_matmul,
    "tanh": unary("tanh"),
    "exp": unary("exp"),
    "relu": unary("relu"),
    "square": unary("square"),
    "assign": unary("_copy"),
    "elementwise_add": elementwise("add"),
    "elementwise_sub": elementwise("sub"),
    "elementwise_mul": elementwise("mul"),
    "reduce_mean": lambda g, op, attrs: g.add("mean", inputs_of(g, op), **axes_of(attrs)),
    "reduce_sum": lambda g, op, attrs: g.add("sum", inputs_of(g, op), **axes_of(attrs)),
    "scale": scale,
    "sum": lambda g, op, attrs: g.add("add_n", inputs_of(g, op), num_args=len(op["in"]["X"])),
    "concat": lambda g, op, attrs: g.add("Concat", inputs_of(g, op), num_args=len(op["in"]["X"]), dim=attrs["axis"]),
    "split": split,
    "unstack": unstack,
    "cast": lambda g, op, attrs: g.add("Cast", inputs_of(g, op), dtype=TYPES[attrs["out_dtype"]]),
    "transpose2": lambda g, op, attrs: g.add("transpose", inputs_of(g, op), axes=tuple(attrs["axis"])),
    "reshape2": lambda g, op, attrs: g.add("Reshape", inputs_of(g, op), shape=tuple(attrs["shape"])),
    "flatten_contiguous_range":
        lambda g, op, attrs: g.add("Reshape", inputs_of(g, op), shape=tuple(g.shapes[op["out"]["Out"][0]])),
    "unsqueeze2": along("expand_dims", "axis"),
    "squeeze2": along("squeeze", "axis"),
    "strided_slice": strided_slice,
    "lookup_table_v2": embedding,
    "conv2d": convolution,
    "batch_norm": batch_norm,
    "pool2d": pooling,
    "layer_norm": layer_norm,
}
MAIN_OUTPUT = {"conv2d": "Output", "batch_norm": "Y", "layer_norm": "Y", "unstack": "Y"}


def translate(program, bound):
    if len(program["blocks"]) > 1:
        raise Uncovered("several blocks")
    block = program["blocks"][0]
    shapes = {name: list(var["shape"]) for name, var in block["vars"].items() if var.get("shape") is not None}
    shapes.update({name: list(array.shape) for name, array in bound.items()})
    graph = Graph(shapes)
    add_operators(graph, block["ops"])
    return graph


def add_operators(graph, operators):
    for op in operators:
        if op["type"] not in OPERATORS:
            raise Uncovered(op["type"])
        made = OPERATORS[op["type"]](graph, op, {k: v[1] for k, v in op["attrs"].items()})
        outputs = op["out"][MAIN_OUTPUT.get(op["type"], "Out")]
        for name, value in zip(outputs, made if isinstance(made[0], list) else [made]):
            graph.define(name, value)


def request_of(call, program, backward):
    """(targets, seeds by target position, x, what Paddle says of each x: the name of its gradient or None)."""
    if call["api"] == "gradients":
        seeds = call["target_gradients"] or [None] * len(call["targets"])
        return call["targets"], seeds, call["inputs"], backward["result"]
    if call["api"] != "append_backward":
        raise Uncovered(call["api"])
    given = dict(backward["result"])
    xs = call["parameter_list"] or [name for name, trainable in program["parameters"] if trainable]
    return [call["loss"]], [None], xs, [given.get(x) for x in xs]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stderr or done.stdout).strip() if done.returncode else None


def bound_values(name):
    path = FOLDER / (name + ".values.npz")
    return {k: v for k, v in np.load(path).items()} if path.exists() else {}


def grad_command(graph, call, program, targets, seeds, xs):
    marked = [n for n, v in program["blocks"][0]["vars"].items() if v["stop_gradient"]]
    names = [n for n in marked + (call["no_grad_set"] or []) if n in graph.definitions and n not in xs_only(call, xs)]
    cut = sorted({graph.entry(value) for n in names for value in graph.definitions[n]})
    command = ["--of", ",".join(graph.entry(graph.value(t)) for t in targets), "--unused", "none",
               "--wrt", ",".join(graph.entry(graph.definitions[x][0]) for x in xs)]
    for target, seed in zip(targets, seeds):
        if seed:
            command += ["--seed", "%s=%s" % (graph.entry(graph.value(target)), graph.entry(graph.value(seed)))]
    return command + (["--no-grad", ",".join(cut)] if cut else [])


def xs_only(call, xs):
    """`gradients` gives an input its gradient whatever its flag says."""
    return set(xs) if call["api"] == "gradients" else set()


def values_differ(graph, xs, wanted, folder, file, recorded, bound, order):
    """Compares the run of an emitted graph with what Paddle computed."""
    feed = {n["name"]: bound[n["name"]] for n in graph.nodes if n["op"] == "null" and n["name"] in bound}
    np.savez(folder + "/in.npz", **feed)
    error = run([GRADC, "run", folder + file, "--train", "--dtype", "float64", "--backend", "reference",
                 "--inputs", folder + "/in.npz", "--outputs", folder + "/out.npz"])
    if error:
        return "run: " + error.splitlines()[0]
    got = dict(np.load(folder + "/out.npz"))
    for x, name in zip(xs, wanted):
        if name is None or "fetch:" + name not in recorded:
            continue
        key = graph.entry(graph.definitions[x][0]) + "_grad" + order
        value, expected = got[key].reshape(-1), recorded["fetch:" + name].reshape(-1)
        tolerance = 1e-6 if expected.dtype == np.float32 else 1e-9
        if value.shape != expected.shape or np.abs(value - expected).max() > tolerance * max(1, np.abs(expected).max()):
            return "value of the gradient of '%s' differs by %g" % (x, np.abs(value - expected).max())
    return None


def shape_flags(nodes, bound):
    flags = []
    for node in nodes:
        if node["op"] == "null" and node["name"] in bound:
            flags += ["--shape", "%s=%s" % (node["name"], ",".join(map(str, bound[node["name"]].shape)))]
    return flags


def checked_by_differences(graph, targets, folder, bound):
    """What gradcheck says of the targets alone; None when it passes."""
    heads, needed = [graph.value(t) for t in targets], set()
    stack = [h[0] for h in heads]
    while stack:
        n = stack.pop()
        if n not in needed:
            needed.add(n)
            stack += [i[0] for i in graph.nodes[n]["inputs"]]
    pathlib.Path(folder + "/t.json").write_text(graph.text(heads))
    flags = shape_flags([graph.nodes[n] for n in needed], bound)
    return run([GRADC, "gradcheck", folder + "/t.json", "--init", "1"] + flags)


def second_call(name, graph, first, recorded, bound, folder):
    """The second call on the same program, over the emitted graph of the first; what differs, or None."""
    path = FOLDER / (name + ".s2.forward.json")
    if not path.exists():
        return None
    forward, backward = json.load(open(path)), json.load(open(FOLDER / (name + ".s2.backward.json")))
    before = json.load(open(FOLDER / (name + ".backward.json")))["program"]
    emitted = json.load(open(folder + "/g.json"))
    declared = forward["program"]["blocks"][0]["vars"]
    both = Graph({**{n: list(v["shape"]) for n, v in declared.items() if v.get("shape") is not None}, **graph.shapes})
    both.nodes = [dict(n) for n in emitted["nodes"]]
    ids = {n["name"]: i for i, n in enumerate(both.nodes)}
    for known, value in graph.at.items():
        both.define(known, [ids[graph.nodes[value[0]]["name"]], value[1]])
    gradients = emitted["heads"][-len([w for w in first if w]):]
    for known, head in zip([w for w in first if w], gradients):
        both.define(known, head[:2])
        both.shapes[known] = both.shapes[known[:-len("@GRAD")]]
    add_operators(both, forward["program"]["blocks"][0]["ops"][len(before["blocks"][0]["ops"]):])
    targets, seeds, xs, wanted = request_of(forward["call"], forward["program"], backward)
    heads = [h[:2] for h in emitted["heads"]] + [both.value(t) for t in targets]
    pathlib.Path(folder + "/f2.json").write_text(both.text([h for i, h in enumerate(heads) if h not in heads[:i]]))
    arguments = grad_command(both, forward["call"], forward["program"], targets, seeds, xs)
    error = run([GRADC, "grad", folder + "/f2.json", "-o", folder + "/g2.json"] + arguments + shape_flags(both.nodes, bound))
    if error:
        return "second call: " + error.splitlines()[0]
    found = [s != "none" for s in json.load(open(folder + "/g2.json"))["attrs"]["slot_status"][1]]
    if found != [w is not None for w in wanted]:
        return "second call has gradients: Paddle %s, gradc %s" % (wanted, found)
    error = values_differ(both, xs, wanted, folder, "/g2.json", recorded, bound, "")
    return "second call: " + error if error else None


def compare(name, row, folder):
    """(verdict, text)"""
    if name in EXCLUDED:
        raise Uncovered(EXCLUDED[name])
    forward = json.load(open(FOLDER / (name + ".forward.json")))
    backward = json.load(open(FOLDER / (name + ".backward.json")))
    recorded = bound_values(name)
    bound = {k.split(":", 1)[1]: v for k, v in recorded.items() if k.startswith(("feed:", "param:"))}
    call, program = forward["call"], forward["program"]
    targets, seeds, xs, wanted = request_of(call, program, backward)
    graph = translate(program, bound)
    for x in xs:
        graph.value(x)
    # What nothing reads is a head as well, or it would be dropped and its name mean nothing.
    read = {tuple(i[:2]) for n in graph.nodes for i in n["inputs"]}
    heads = [graph.value(t) for t in targets]
    heads += [[i, 0] for i in range(len(graph.nodes)) if (i, 0) not in read and [i, 0] not in heads]
    pathlib.Path(folder + "/f.json").write_text(graph.text(heads))
    if not xs:
        return "agrees", "no trainable parameter"
    arguments = grad_command(graph, call, program, targets, seeds, xs)
    error = run([GRADC, "grad", folder + "/f.json", "-o", folder + "/g.json"] + arguments + shape_flags(graph.nodes, bound))
    if error and "[no_live_output]" in error and not any(wanted):
        return "agrees", "no gradient at all, which gradc refuses (H-10)"
    if error:
        return "DIFFERS", error.splitlines()[0]
    found = [s != "none" for s in json.load(open(folder + "/g.json"))["attrs"]["slot_status"][1]]
    wrong = {bad[0] for bad in (row.get("fd_bad") or []) + (row.get("fd_missing") or [])}
    for x, have, paddle in zip(xs, found, wanted):
        if have != (paddle is not None) and x not in wrong:
            return "DIFFERS", "'%s' has %s gradient in Paddle, %s in gradc" % (x, "a" if paddle else "no", "one" if have else "none")
    pairs = "%d of %d x have a gradient" % (sum(found), len(found))
    if wrong:
        error = checked_by_differences(graph, targets, folder, bound)
        return ("DIFFERS", error.splitlines()[-1]) if error else ("agrees", pairs + "; Paddle's are wrong, gradcheck passes")
    error = values_differ(graph, xs, wanted, folder, "/g.json", recorded, bound, "")
    error = error or second_call(name, graph, wanted, recorded, bound, folder)
    second = ", second call too" if (FOLDER / (name + ".s2.forward.json")).exists() else ""
    return ("DIFFERS", error) if error else ("agrees", pairs + ", same values" + second)


def main(names):
    if not FOLDER.exists() or np is None:
        print("paddle programs: skipped (%s)" % ("no NumPy" if np is None else "no %s" % FOLDER))
        return 0
    report = {row["name"]: row for row in json.load(open(FOLDER / "REPORT.json"))}
    counts = {"agrees": 0, "DIFFERS": 0, "skipped": 0}
    for name in names or list(report):
        with tempfile.TemporaryDirectory() as folder:
            try:
                verdict, text = compare(name, report.get(name, {}), folder)
            except Uncovered as reason:
                verdict, text = "skipped", str(reason)
        counts[verdict] += 1
        print("%-30s %s: %s" % (name, verdict, text))
    print("%(agrees)d programs agree, %(DIFFERS)d differ, %(skipped)d skipped" % counts)
    return 1 if counts["DIFFERS"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
