"""Every operator with other types, unknown lengths, no axes or many; and attributes spelled as no program would."""

from .graphs import Graph, case, chosen, one, thinned
from .instances import INSTANCES

DTYPES = ["float64", "float16", "bfloat16", "uint8", "int8", "int32", "int64", "bool", "uint64"]


def dtypes(one_in=90):
    """Every operator in one other type, which its name draws; and some operands of another type than the rest."""
    for op, (attrs, shapes) in INSTANCES.items():
        drawn = [dtype for dtype in DTYPES if chosen(op + dtype, 3)] or DTYPES[:1]
        yield case("%s-all-%s" % (op, drawn[0]), one(op.split("@")[0], attrs, shapes, [drawn[0]] * len(shapes)))
        for i in range(len(shapes)):
            for dtype in DTYPES:
                name = "%s-%d-%s" % (op, i, dtype)
                if len(shapes) > 1 and chosen(name, one_in):
                    types = ["float32"] * len(shapes)
                    types[i] = dtype
                    yield case(name, one(op.split("@")[0], attrs, shapes, types))


def unknown(one_in=20):
    """Lengths that nobody gives: whatever is said of the others must not read as a length."""
    for op, (attrs, shapes) in INSTANCES.items():
        for i, shape in enumerate(shapes):
            for axis in range(len(shape)):
                name = "%s-%d-axis-%d" % (op, i, axis)
                if chosen(name, one_in):
                    open_shape = shape[:axis] + (-1,) + shape[axis + 1 :]
                    yield case(name, one(op.split("@")[0], attrs, shapes[:i] + [open_shape] + shapes[i + 1 :]))
            name = "%s-%d" % (op, i)
            if chosen(name, one_in):
                yield case(name, one(op.split("@")[0], attrs, shapes[:i] + [None] + shapes[i + 1 :]))
        name = op + "-everything"
        if shapes and chosen(name, one_in):
            yield case(name, one(op.split("@")[0], attrs, [(-1,) * len(s) for s in shapes]))


def scalars(one_in=8):
    """Operands without any axis."""
    for op, (attrs, shapes) in INSTANCES.items():
        for what in ["first", "all"]:
            name = "%s-%s" % (op, what)
            if not shapes or not chosen(name, one_in) and "oftm" not in op:
                continue
            g = Graph()
            # Axis 0 of x replaced by no axis of x.
            scalar = g.op(
                "reshape_like",
                [g.var((1,)), g.var((1,))],
                {"lhs_begin": 0, "lhs_end": 1, "rhs_begin": 0, "rhs_end": 0},
                name="scalar",
            )
            inputs = [scalar if i == 0 or what == "all" else g.var(shape) for i, shape in enumerate(shapes)]
            g.op(op.split("@")[0], inputs, attrs, name="y")
            yield case(name, g.json(), order2="sound")


def ranks(one_in=12):
    """More axes than a vector library handles, and fewer than an operator needs."""
    for op, (attrs, shapes) in INSTANCES.items():
        for what in ["short", "13", "40"]:
            name = "%s-%s" % (op, what)
            if not shapes or not chosen(name, one_in):
                continue
            if what == "short":
                others = [shape[-1:] for shape in shapes]
            else:
                others = [(1,) * (int(what) - len(shape)) + shape for shape in shapes]
            yield case(name, one(op.split("@")[0], attrs, others))


def texts(one_in=3):
    """Attributes spelled as no program would."""
    yield from thinned(number_texts(), one_in)
    yield from other_texts()


def number_texts():
    whole = [
        "",
        " ",
        "two",
        "2.5",
        "2,",
        "(2)",
        "0x2",
        "1e0",
        "2e",
        "--2",
        "+-2",
        "\u0662",
        "None",
        "nan",
        "9" * 400,
        "-" + "9" * 400,
        "2 2",
        "True",
        "2L",
        " 2 ",
        "+2",
    ]
    for text in whole:
        yield case("int-" + text[:12], one("expand_dims", {"axis": text}, [(2, 3, 4)]))
        yield case("tuple-" + text[:12], one("tile", {"reps": text}, [(2, 3)]))
    for text in [
        "",
        "(",
        ")",
        "()",
        "(,)",
        "(2,,3)",
        "((2,3))",
        "[2,3)",
        "(2;3)",
        "(2,3,)",
        "(2,3,,)",
        "2,3",
        "[2, 3]",
        "(2,None)",
        "(2,3",
        "{2,3}",
        "(" + "1," * 3000 + ")",
        "(2,3)(4)",
        "(2.0,3)",
        "None",
    ]:
        yield case("list-" + text[:12], one("tile", {"reps": text}, [(2, 3)]))
        yield case("optional-" + text[:12], one("slice", {"begin": text, "end": "(2,3)"}, [(2, 3)]))
    for text in ["yes", "2", "TRUE", "t", "", "-1", "None", " True", "1.0", "true"]:
        yield case("bool-" + text, one("sum", {"axis": "(0,)", "keepdims": text}, [(2, 3)]))
    for text in ["relu ", "RELU", "", "swish", "0", "relu\u0000"]:
        yield case("choice-" + text.strip("\u0000"), one("Activation", {"act_type": text}, [(2, 3)]))
    for text in [
        "",
        "1e",
        "0x1p3",
        "1_0",
        "inf",
        "-nan",
        "1e999",
        "1e-999",
        "9" * 400,
        "0." + "0" * 400 + "1",
        "1,5",
        "None",
        "True",
        "infinity",
        "+inf",
    ]:
        yield case("float-" + text[:12], one("_plus_scalar", {"scalar": text}, [(2, 3)]))
        yield case("optional-float-" + text[:12], one("softmax", {"temperature": text}, [(2, 3)]))


def other_texts():
    for text in [
        "float",
        "float128",
        "FLOAT32",
        "13",
        "-2",
        "",
        "1.0",
        "float32,float64",
        "None",
        "<class 'numpy.float32'>",
    ]:
        yield case("dtype-" + text, one("Cast", {"dtype": text}, [(2, 3)]))
    for value in [2, 2.5, True, None, [2], {"a": 2}]:
        g = one("expand_dims", {}, [(2, 3)])
        g["nodes"][1]["attrs"] = {"axis": value}
        yield case("json-%s" % value, g)
    for text in ["1e999", "-1e999", "1e-999", "true", '\\"1\\"', "[1]", "9" * 400]:
        g = Graph()
        g.op("exp", [g.var((2,), None, text)])
        yield case("constant-%s" % text[:12], g.json())
    for text in [
        "",
        "[",
        "[]",
        "{}",
        '["Constant"]',
        '["Constant",{}]',
        '["Constant",{"value":null}]',
        '["Uniform",{"scale":1e999}]',
        "zeros",
        "ONES",
        "[" * 2000,
        '"zeros"',
        '[["Constant",{"value":1}]]',
    ]:
        g = Graph()
        g.op("exp", [g.var((2,), __init__=text)])
        yield case("init-%s" % text[:24], g.json(), verify="ok", infer="ok", run="ok")
    yield case("unknown-attribute", one("exp", {"bogus": "1", "": "2", "__hidden__": "(("}, [(2, 3)]))


CLASSES = {"dtypes": dtypes, "unknown": unknown, "scalars": scalars, "ranks": ranks, "texts": texts}
