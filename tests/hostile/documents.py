"""Cases in which the graph around the nodes is odd: its attributes, its edges, its names."""

from .graphs import LEAST, MOST, Graph, case, fine, refused, tuple_text, unreadable
from .instances import INSTANCES


def annotated():
    def graph(attrs, shape=None, op="exp", heads=None):
        g = Graph()
        node = g.op(op, [g.var(shape)])
        g.attrs.update(attrs)
        return g.json(node)

    for dims in [[-5], [LEAST], [-2, 3], [2, -7]]:
        yield case("negative-%s" % dims, graph({"shape": ["list_shape", [dims, []]]}), infer="refused", run="refused")
    for dims in [[MOST], [2**62, 4], [2**32, 2**32]]:
        yield case("huge-%s" % dims, graph({"shape": ["list_shape", [dims, []]]}), infer="refused", run="refused")
    yield case("huge-float", graph({"shape": ["list_shape", [[1e300], []]]}))
    yield case("fraction", graph({"shape": ["list_shape", [[1.5], []]]}))
    yield case("text", graph({"shape": ["list_shape", [["4"], []]]}))
    yield case("nested", graph({"shape": ["list_shape", [[[4]], []]]}))
    yield case("short", graph({"shape": ["list_shape", [[4]]]}))
    yield case("long", graph({"shape": ["list_shape", [[4], [4], [4]]]}))
    yield case("other-kind", graph({"shape": ["list_int", [4, 4]]}))
    yield case("against-attribute", graph({"shape": ["list_shape", [[4], []]]}, (5,)))
    yield case("unknown-dim", graph({"shape": ["list_shape", [[-1, 3], []]]}, (2, -1)))
    yield case("scalar", graph({"shape": ["list_shape", [[], []]], "shape_known": ["list_int", [1, 0]]}))
    yield case("known-short", graph({"shape": ["list_shape", [[4], []]], "shape_known": ["list_int", [1]]}))
    for code in [99, -2, MOST, 1.5]:
        yield case("dtype-%s" % code, graph({"shape": ["list_shape", [[4], [4]]], "dtype": ["list_int", [code, 0]]}))
    yield case("dtype-bfloat16", graph({"shape": ["list_shape", [[4], [4]]], "dtype": ["list_int", [12, 12]]}))
    for text in ["(-5,)", "(-5,3)", tuple_text((LEAST,)), "(-2,-3)"]:
        # A negative length in a variable's own attribute says that it is unknown.
        yield case("attribute-" + text, graph({}, text), infer="refused", run="refused", kind="infer_missing|bad_hint|infer_conflict")
    for row in [[-1, 4], [MOST, MOST], [2**62, -4], [0, 0], [3], []]:
        yield case("plan-%s" % row, graph({"plan": ["list_shape", [row, row]]}, (4,)))
    table = {
        "head_kind": ["list_str", ["grad"]],
        "grad_of": ["list_str", ["v0"]],
        "grad_of_node": ["list_int", [0]],
        "grad_of_index": ["list_int", [0]],
        "grad_order": ["list_int", [1]],
        "grad_req": ["list_str", ["write"]],
        "x_slot": ["list_int", [0]],
        "slot_status": ["list_str", ["grad"]],
        "grad_none": ["list_str", []],
        "head_grad_of": ["list_str", []],
        "num_forward_heads": ["int", 0],
    }
    for key, value in [
        ("grad_of_node", ["list_int", [99]]),
        ("grad_of_node", ["list_int", [-2]]),
        ("grad_of_node", ["list_int", [2**32]]),
        ("grad_of_index", ["list_int", [77]]),
        ("grad_of_index", ["list_int", [-1]]),
        ("grad_of_index", ["list_int", [2**33]]),
        ("grad_order", ["list_int", [-1]]),
        ("grad_order", ["list_int", [2**40]]),
        ("x_slot", ["list_int", [5]]),
        ("x_slot", ["list_int", [LEAST]]),
        ("num_forward_heads", ["int", -1]),
        ("num_forward_heads", ["int", 7]),
        ("num_forward_heads", ["int", MOST]),
        ("head_grad_of", ["list_str", ["v0"]]),
        ("head_grad_of", ["list_str", ["v0", "nothing"]]),
        ("head_grad_of", ["list_str", ["nothing", "n0_output"]]),
        ("slot_status", ["list_str", []]),
        ("slot_status", ["list_str", ["none"]]),
        ("head_kind", ["list_str", ["retained"]]),
        ("head_kind", ["list_str", ["forward"]]),
        ("head_kind", ["list_str", ["grad", "grad"]]),
        ("grad_req", ["list_str", ["add"]]),
        ("grad_req", ["list_str", ["null"]]),
        ("grad_of", ["list_str", ["nothing"]]),
        ("grad_of", ["list_str", [""]]),
        ("grad_mode", ["str", "sideways"]),
    ]:
        yield case("table-%s-%s" % (key, value[1]), graph({**table, key: value}, (4,)))
    yield case("table-alone", graph({"head_kind": ["list_str", ["grad"]]}, (4,)))
    # A variable's shape decides the gradient's.
    yield case("table-other-shape", graph(table, (4, 1), op="Flatten"))
    g = Graph()
    x = g.var((2, 3))
    y = g.op("sum", [x], {"axis": "(1,)"})
    g.attrs.update(table)
    yield case("table-sum", g.json(y))


def storage():
    for code in ["1", "2"]:
        for op in ["exp", "dot", "_copy", "Embedding"]:
            attrs, shapes = INSTANCES[op]
            g = Graph()
            inputs = [g.var(shape, __storage_type__=code) for shape in shapes]
            g.op(op, inputs, attrs)
            yield case("%s-%s" % (op, code), g.json(), run="refused", kind="storage")
        g = Graph()
        g.var((2, 3), __storage_type__=code)
        yield case("alone-" + code, g.json(), run="refused", kind="storage")
        g = Graph()
        g.op("exp", [g.var((2, 3))])
        g.attrs["storage_type"] = ["list_int", [int(code), int(code)]]
        yield case("annotated-" + code, g.json())
    for code in ["3", "-2", "csr", "", "1.0", "99999999999999"]:
        g = Graph()
        g.op("exp", [g.var((2, 3), __storage_type__=code)])
        yield case("code-" + code, g.json(), infer="refused", kind="bad_hint|storage")
    g = Graph()
    g.op("elemwise_add", [g.var((2, 3), __storage_type__="1"), g.var((2, 3), __storage_type__="2")])
    yield case("mixed", g.json(), run="refused", kind="storage|infer_conflict")


def structure():
    g = Graph()
    g.var((2, 3))
    yield fine("variable-alone", g.json(0))
    g = Graph()
    g.var((2, 3))
    empty = g.json(0)
    empty["heads"] = []
    yield case("no-heads", empty, verify="ok", infer="ok")
    yield case("nothing", {"nodes": [], "arg_nodes": [], "heads": []})
    g = Graph()
    y = g.op("exp", [g.var((2, 3))])
    yield fine("head-300-times", g.json(*[y] * 300), (2, 3))
    g = Graph()
    x = g.var((2, 3))
    yield fine("variable-is-head-twice", g.json(x, x))
    for op in [
        "BatchNorm",
        "Dropout",
        "L2Normalization",
        "LayerNorm",
        "LRN",
        "InstanceNorm",
        "Pooling",
        "LeakyReLU@rrelu",
    ]:
        attrs, shapes = INSTANCES[op]
        g = Graph()
        node = g.op(op.split("@")[0], [g.var(shape) for shape in shapes], attrs)
        last = {"BatchNorm": 2, "LayerNorm": 2, "InstanceNorm": 2}.get(op, 1)
        yield case("hidden-head-" + op, g.json(node, (node, last, 0)))
        yield case("hidden-alone-" + op, g.json((node, last, 0)))
        yield unreadable("output-beyond-" + op, g.json((node, last + 1, 0)), "bad_entry")
        h = Graph()
        node = h.op(op.split("@")[0], [h.var(shape) for shape in shapes], attrs)
        h.op("sum", [(node, last, 0)])
        yield case("hidden-read-" + op, h.json())
    for op, count in [("BatchNorm", 5), ("adam_update", 4), ("sgd_mom_update", 3), ("_scheduled_adam_update", 5)]:
        attrs, shapes = INSTANCES[op]
        g = Graph()
        x = g.var(shapes[-1] if op == "BatchNorm" else shapes[0])
        data = g.var(shapes[0])
        inputs = [data] + [x] * (count - 1) if op == "BatchNorm" else [x] * count
        g.op(op, inputs, attrs)
        yield case("same-state-" + op, g.json())
        g = Graph()
        inputs = [g.op("_copy", [g.var(shape)]) for shape in shapes]
        g.op(op, inputs, attrs)
        yield unreadable("state-is-no-variable-" + op, g.json(), "bad_mutation")
        g = Graph()
        inputs = [g.var(shape) for shape in shapes]
        first = g.op(op, inputs, attrs)
        second = g.op(op, inputs, attrs)
        yield case("state-twice-" + op, g.json(first, second))
    for version in [1, 65535, 65536, 2**32, -1, MOST]:
        g = Graph()
        x = g.var((2, 3))
        g.op("exp", [(x, 0, version)])
        yield case("version-%d" % version, g.json())
    g = Graph()
    a = g.op("exp", [g.var((2, 3))])
    b = g.op("exp", [a], deps=[a, a, a])
    yield case("dep-three-times", g.json(b))
    g = Graph()
    x = g.var((2, 3))
    yield case("dep-on-variable", (g.op("exp", [x], deps=[x]), g.json())[1])
    for ids in [
        [[7, 0, 0]],
        [[-1, 0, 0]],
        [[2**32, 0, 0]],
        [[0, 2**32, 0]],
        [[0, -1, 0]],
        [[0]],
        [[0, 0, 0, 0]],
        [[0.5, 0, 0]],
        [["v0", 0, 0]],
    ]:
        g = Graph()
        g.var((2, 3))
        g.op("exp", [])
        text = g.json()
        text["nodes"][1]["inputs"] = ids
        yield (
            unreadable("input-%s" % ids, text, "bad_json|bad_entry|arity|cycle|bad_mutation")
            if ids != [[0]]
            else case("input-short", text)
        )
    g = Graph()
    g.var((2, 3))
    g.op("exp", [1])
    yield unreadable("reads-itself", g.json(), "cycle|bad_json")
    for name in ["", "v0", "n0\u0000", "a,b", "x" * 500, "\n", "\ud83d\ude00", "name#2", "#1", "@0", "y:1"]:
        g = Graph()
        y = g.op("exp", [g.var((2, 3))], name="same" if name == "v0" else name)
        z = g.op("exp", [y], name="same" if name == "v0" else name)
        yield case("name-%s" % name.encode("ascii", "backslashreplace").decode()[:20], g.json(y, z))
    for op, shape in [("SoftmaxOutput", (2, 3)), ("LinearRegressionOutput", (2,)), ("MAERegressionOutput", (2,))]:
        g = Graph()
        g.op(op, [g.var(shape), g.op("negative", [g.var((2,))])])
        yield fine("computed-label-" + op, g.json(), shape, gradcheck="ok", grad="ok")
    g = Graph()
    g.op("NoSuchOperator", [g.var((2, 3))])
    yield case("unknown-operator", g.json(), run="refused", infer="refused", kind="unknown_op")
    g = Graph()
    wide = g.op("SliceChannel", [g.var((1, 65535))], {"num_outputs": 65535})
    yield case("wide", g.json((wide, 65534, 0)))


CLASSES = {"annotated": annotated, "storage": storage, "structure": structure}
