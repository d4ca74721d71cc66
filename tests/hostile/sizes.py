"""The same for sums of lengths and bytes, and for tensors made of nothing but a shape."""

from .graphs import LEAST, MOST, Graph, case, one, refused, thinned, tuple_text, unreadable

HALF = 2**62


def sums():
    def joined(op, attrs, lengths, axis, other=(2,)):
        shapes = [other[:axis] + (length,) + other[axis:] for length in lengths]
        return one(op, {"num_args": len(lengths), **attrs}, shapes)

    for lengths in [(MOST, MOST), (MOST, MOST, 5), (HALF, HALF), (MOST, 1), (2**47, 2**47, 2**47, 2**47)]:
        text = tuple_text(lengths)
        yield refused("Concat-" + text, joined("Concat", {"dim": 0}, lengths, 0))
        yield case("Concat-empty-" + text, joined("Concat", {"dim": 1}, lengths, 1, (0,)))
    for shape in [(2**46,), (2**23, 2**23)]:
        ones = Graph()
        part = ones.op("_ones", [], {"shape": tuple_text(shape)})
        ones.op("Concat", [part] * 64, {"dim": 0, "num_args": 64})
        yield refused("Concat-ones-%d-axes" % len(shape), ones.json())
        ones = Graph()
        part = ones.op("_ones", [], {"shape": tuple_text(shape)})
        ones.op("stack", [part] * 64, {"num_args": 64})
        yield refused("stack-ones-%d-axes" % len(shape), ones.json())
        ones = Graph()
        part = ones.op("_ones", [], {"shape": tuple_text(shape)})
        ones.op("add_n", [part] * 64, {"num_args": 64})
        yield case("add_n-ones-%d-axes" % len(shape), ones.json(), run="refused")
    for dim in [MOST, LEAST, 2, -3, 2**32]:
        yield refused("Concat-dim-%d" % dim, one("Concat", {"num_args": 2, "dim": dim}, [(2, 3), (2, 3)]))
        yield refused(
            "stack-axis-%d" % (dim + (dim > 0)),
            one("stack", {"num_args": 2, "axis": min(dim + (dim > 0), MOST) if dim != -3 else -4}, [(2, 3), (2, 3)]),
        )
        yield refused("SliceChannel-axis-%d" % dim, one("SliceChannel", {"num_outputs": 2, "axis": dim}, [(2, 2)]))
    yield refused("Concat-rank", one("Concat", {"num_args": 2, "dim": 0}, [(2, 3), (2, 3, 1)]))
    yield refused("Concat-other-axis", one("Concat", {"num_args": 2, "dim": 0}, [(2, 3), (2, 4)]))
    yield refused("stack-shapes", one("stack", {"num_args": 2}, [(2, 3), (3, 2)]))
    yield refused("add_n-shapes", one("add_n", {"num_args": 3}, [(2, 3), (2, 3), (3, 2)]))
    yield refused("SliceChannel-uneven", one("SliceChannel", {"num_outputs": 2}, [(2, 3)]))
    yield refused("SliceChannel-squeeze", one("SliceChannel", {"num_outputs": 2, "squeeze_axis": "True"}, [(2, 4)]))
    yield case("SliceChannel-empty", one("SliceChannel", {"num_outputs": 3, "axis": 1}, [(2**31, 0)]))
    parts = Graph()
    part = parts.var((2, -1))
    data = parts.var()
    split = parts.op("SliceChannel", [data], {"num_outputs": 65536, "axis": 1})
    parts.op("elemwise_add", [(split, 65535, 0), parts.var((2, HALF))])
    yield case("SliceChannel-parts-overflow", parts.json())
    yield unreadable("SliceChannel-65537", one("SliceChannel", {"num_outputs": 65537}, [(2, 3)]))
    yield unreadable("Concat-no-inputs", one("Concat", {"num_args": 0}, []))
    yield unreadable("stack-no-inputs", one("stack", {"num_args": 0}, []))
    yield unreadable("add_n-no-inputs", one("add_n", {"num_args": 0}, []), "empty_sum|bad_attribute|arity")
    yield unreadable("Concat-missing", one("Concat", {"num_args": 65536}, [(2, 3)]), "arity")
    for size in [MOST, HALF + 1]:
        yield refused("expand_dims-axis-%d" % size, one("expand_dims", {"axis": size}, [(2, 3)]))


CREATED = ["_zeros", "_ones", "_full", "_zeros_without_dtype"]


TYPES = [
    "float32",
    "float64",
    "float16",
    "uint8",
    "int32",
    "int8",
    "int64",
    "bool",
    "int16",
    "uint16",
    "uint32",
    "uint64",
    "bfloat16",
]


WIDTHS = [4, 8, 2, 1, 4, 1, 8, 1, 2, 2, 4, 8, 2]


def created(one_in=2):
    yield from thinned(created_sizes(), one_in)
    yield from created_ranges()


def created_sizes():
    for op in CREATED:
        more = {"value": 1} if op == "_full" else {}
        for shape in [(MOST,), (MOST, 2), (HALF + 1, 4), (2**32, 2**32), (2**21, 2**21, 2**21, 2), (2**50,)]:
            g = Graph()
            g.op(op, [], {"shape": tuple_text(shape), "dtype": "float32", **more})
            yield refused("%s-%s" % (op, tuple_text(shape)), g.json())
        for shape in [(2**36,), (2**40,)]:
            g = Graph()
            g.op(op, [], {"shape": tuple_text(shape), "dtype": "float32", **more})
            yield case("%s-%s" % (op, tuple_text(shape)), g.json(), infer="ok", run="refused")
            g.op("sum", [0])
            yield case("sum-of-%s-%s" % (op, tuple_text(shape)), g.json(), infer="ok", run="refused")
        g = Graph()
        g.op(op, [], {"shape": tuple_text((0, MOST)), "dtype": "float32", **more})
        yield case(op + "-empty", g.json())
        g = Graph()
        g.op(op, [], {"shape": "(-2,%d)" % LEAST, "dtype": "float32", **more})
        yield case(op + "-negative", g.json(), infer="refused", kind="infer_missing|infer_conflict|bad_attribute")
    for dtype, width in zip(TYPES, WIDTHS):
        for name, count in [
            ("beyond", 2**50 // width),
            ("wrap", 2**64 // width if width > 1 else MOST),
            ("some", 2**36),
        ]:
            if count > MOST:
                count = MOST
            g = Graph()
            g.op("_zeros", [], {"shape": tuple_text((count,)), "dtype": dtype})
            expected = {"infer": "ok"} if name == "some" else {"infer": "refused", "kind": "infer_conflict"}
            yield case("zeros-%s-%s" % (dtype, name), g.json(), run="refused", **expected)


def created_ranges():
    range_ = {"start": 0, "stop": 6}
    for name, attrs in {
        "stop-1e15": {"stop": "1e15"},
        "stop-inf": {"stop": "inf"},
        "stop-nan": {"stop": "nan"},
        "start-nan": {"start": "nan"},
        "start-inf": {"start": "-inf"},
        "step-0": {"step": "0"},
        "step-nan": {"step": "nan"},
        "step-tiny": {"step": "1e-300"},
        "step-tinier": {"step": "5e-324"},
        "step-inf": {"step": "inf"},
        "repeat-huge": {"repeat": MOST},
        "repeat-half": {"repeat": HALF},
        "repeat-wraps": {"repeat": 2**60 + 1, "stop": 16},
        "empty": {"stop": "0"},
        "backwards": {"stop": "-6"},
        "stop-2^53": {"stop": "9007199254740992"},
        "stop-1e18": {"stop": "1e18"},
        "stop-1e300": {"stop": "1e300"},
    }.items():
        g = Graph()
        g.op("_arange", [], {**range_, **attrs})
        if name in ("step-inf",):
            yield case("arange-" + name, g.json())
        else:
            yield case("arange-" + name, g.json(), run="refused")
    g = Graph()
    g.op("_arange", [], {"start": 0, "infer_range": "True"})
    yield case("arange-infer-alone", g.json(), infer="refused")
    g = Graph()
    g.op("elemwise_add", [g.op("_arange", [], {"start": 0, "infer_range": "True"}), g.var((2**50,))])
    yield refused("arange-infer-huge", g.json())
    for dtype in ["int8", "uint8", "float16", "bool", "int64"]:
        g = Graph()
        g.op("_arange", [], {"start": "1e300", "stop": "2e300", "step": "1e299", "dtype": dtype})
        yield case("arange-1e300-" + dtype, g.json())
        g = Graph()
        g.op("_arange", [], {"start": -300, "stop": 300, "step": 100, "dtype": dtype})
        yield case("arange-300-" + dtype, g.json())


def variables(one_in=2):
    yield from thinned(variables_of_all_types(), one_in)
    yield from variables_spelled()


def variables_of_all_types():
    for code, (dtype, width) in enumerate(zip(TYPES, WIDTHS)):
        for name, shape in [
            ("wraps-to-0", (2**64 // width if width > 2 else HALF,) if width > 2 else (2**32, 2**32)),
            ("beyond", (2**50 // width,)),
            ("product", (2**31, 2**31, 2)),
        ]:
            g = Graph()
            g.op("_copy", [g.var(tuple_text(min(n, MOST) for n in shape), code)])
            yield refused("%s-%s" % (dtype, name), g.json())
        g = Graph()
        g.op("_copy", [g.var((2**36,), dtype)])
        yield case(dtype + "-2^36", g.json(), infer="ok", run="refused")


def variables_spelled():
    for shape in [(MOST,), (HALF, 4), (2**56 + 1,), (2**40,), (2**36,), (2**32, 2**32), (MOST, MOST, 0)]:
        g = Graph()
        g.var(shape)
        yield case("alone-" + tuple_text(shape), g.json(), **({} if 0 in shape else {"run": "refused"}))
    for code in ["13", "-1", "-2", "99999999999999999999", "float", "", "nan", "1.0", "float32 ", "0x1"]:
        g = Graph()
        g.op("exp", [g.var((2, 3), code)])
        yield case("dtype-" + code, g.json())
    for text in [
        "",
        "(",
        "()",
        "(2,,3)",
        "2,3",
        "[2,3]",
        "(2,3",
        "(2 3)",
        "(9223372036854775808,)",
        "(-9223372036854775808,)",
        "(1e3,)",
        "None",
        "(None,)",
        "(True,)",
        "((2,3))",
        "(2,3)x",
        "(+2,-0)",
        "(2L,3L)",
        "(\u0662,3)",
    ]:
        g = Graph()
        g.op("exp", [g.var(text)])
        yield case("text-" + text, g.json())
    g = Graph()
    g.op("exp", [g.var(tuple_text([1] * 5000))])
    yield case("rank-5000", g.json())
    g = Graph()
    g.op("exp", [g.var(tuple_text([2] * 100))])
    yield refused("rank-100", g.json())


def byte_sums():
    def variables(count, elements):
        g = Graph()
        g.heads = []
        ids = [g.op("exp", [g.var((elements,))]) for _ in range(count)]
        return g.json(*ids)

    for count, elements in [(40, 2**45), (200, 2**45), (40, 2**40), (3, 2**36)]:
        yield case("heads-%d-%d" % (count, elements), variables(count, elements), run="refused")
    for count, elements in [(30, 2**45), (80, 2**44)]:
        g = Graph()
        x = g.var((1,))
        parts = [g.op("broadcast_to", [x], {"shape": tuple_text((elements,))}) for _ in range(count)]
        g.op("add_n", [g.op("exp", [p]) for p in parts], {"num_args": count})
        yield case("arena-%d-%d" % (count, elements), g.json(), run="refused")
        g.op("sum", [len(g.nodes) - 1])
        yield case("arena-sum-%d-%d" % (count, elements), g.json(), run="refused")
    g = Graph()
    last = g.var((2**45,))
    for _ in range(60):
        last = g.op("exp", [last])
    yield case("chain", g.json(), run="refused")
    g = Graph()
    x = g.var((2**22, 2**22))
    w = g.var((2**22, 2**22))
    g.op("FullyConnected", [x, w], {"num_hidden": 2**22, "no_bias": "True"})
    yield case("workspace", g.json(), run="refused")


CLASSES = {"sums": sums, "created": created, "variables": variables, "bytes": byte_sums}
