"""Cases in which numbers have no integer, or none of the type they go to."""

from .graphs import LEAST, MOST, Graph, case, chosen, fine, one
from .instances import INSTANCES, SCALAR

INTEGERS = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 1), "int64": (LEAST, MOST)}


def special(g, what, shape=(2,), dtype=None):
    """A tensor filled with a number that has no integer, or no integer of the type it goes to."""
    if what == "nan":
        return g.op("log", [g.var(shape, dtype, -1)])
    if what in ("inf", "-inf"):
        infinite = g.op("exp", [g.var(shape, dtype, 1000)])
        return infinite if what == "inf" else g.op("negative", [infinite])
    return g.var(shape, dtype, what)


def saturated(what, low, high):
    """What a number becomes in an integer type: cut toward 0, kept within the type; NaN is 0."""
    number = float(what)
    if number != number:
        return 0
    return low if number <= low else high if number >= high else int(number)


def thrice(number):
    return "%.6g %.6g %.6g" % ((number,) * 3)


def convert(one_in=3):
    numbers = ["nan", "inf", "-inf", "1e300", "-1e300", "3e9", "-3e9", "300.7", "-1.5", "127.9", "-129"]
    for source in ["float32", "float64"]:
        for target, (low, high) in INTEGERS.items():
            for what in numbers:
                if source == "float64" and not chosen(target + what, one_in):
                    continue
                g = Graph()
                g.op("Cast", [special(g, what, dtype=source)], {"dtype": target})
                # float32 has its own nearest number to some of these.
                yield fine("%s-%s-%s" % (source, target, what), g.json(), values=thrice(saturated(what, low, high)))
    for what in ["nan", "inf", "-1e300", "0.25"]:
        g = Graph()
        g.op("Cast", [special(g, what)], {"dtype": "bool"})
        yield fine("bool-" + what, g.json(), values=thrice(1))
    for target, (low, high) in INTEGERS.items():
        for what in ["1e300", "-1e300", "300.7", "-1.5", "3e9"]:
            g = Graph()
            g.op("_copy", [g.var((2,), target, what)])
            yield fine("constant-%s-%s" % (target, what), g.json(), values=thrice(saturated(what, low, high)))
        for what in ["inf", "-inf", "1e300", "-7.5"]:
            g = Graph()
            g.op("_full", [], {"shape": "(2,)", "dtype": target, "value": what})
            yield fine("full-%s-%s" % (target, what), g.json(), values=thrice(saturated(what, low, high)))
    for op in SCALAR:
        for target, what in [("int32", "1e300"), ("int8", "-200"), ("int64", "-inf"), ("uint8", "-1")]:
            if not chosen(op + target, one_in):
                continue
            g = Graph()
            g.op(op, [g.var((2,), target, 1)], {"scalar": what})
            yield case("%s-%s-%s" % (op, target, what), g.json())
    for target, what in [("int32", "1e300"), ("uint8", "-5"), ("int8", "300"), ("int64", "inf")]:
        g = Graph()
        g.op("clip", [g.var((2,), target, 1)], {"a_min": what, "a_max": what})
        yield case("clip-%s-%s" % (target, what), g.json())
        g = Graph()
        g.op(
            "Pad",
            [g.var((1, 1, 1, 1), target, 1)],
            {"mode": "constant", "pad_width": "(0,0,0,0,1,1,1,1)", "constant_value": what},
        )
        yield case("pad-%s-%s" % (target, what), g.json())
    least = {"int8": "-128", "int32": "-2147483648", "int64": "-1e300"}
    for target, what in least.items():
        for op in ["abs", "negative", "square", "sum", "prod", "sign", "round"]:
            g = Graph()
            g.op(op, [g.var((2,), target, what)])
            yield case("least-%s-%s" % (op, target), g.json())
        for op in ["elemwise_mul", "elemwise_sub", "elemwise_add", "elemwise_div", "_power", "_maximum"]:
            g = Graph()
            g.op(op, [g.var((2,), target, what), g.var((2,), target, -1)])
            yield case("least-%s-%s" % (op, target), g.json())
        g = Graph()
        g.op("_div_scalar", [g.var((2,), target, what)], {"scalar": "-1"})
        yield case("least-div-%s" % target, g.json())
        g = Graph()
        g.op("elemwise_div", [g.var((2,), target, 7), g.var((2,), target, 0)])
        yield case("divided-by-0-%s" % target, g.json())
        g = Graph()
        g.op("_rdiv_scalar", [g.var((2,), target, 0)], {"scalar": 5})
        yield case("scalar-divided-by-0-%s" % target, g.json())
        for power in ["-1", "1e9", "64"]:
            g = Graph()
            g.op("_power_scalar", [g.var((2,), target, 3)], {"scalar": power})
            yield case("power-%s-%s" % (power, target), g.json())


def indices(one_in=4):
    numbers = {
        "nan": 0,
        "inf": 4,
        "-inf": 0,
        "1e300": 4,
        "-1e300": 0,
        "4.9": 4,
        "-0.5": 0,
        "5": 4,
        "1e18": 4,
        "9.3e18": 4,
        "1.5": 1,
    }
    for what, row in numbers.items():
        # Row r of the table is 3r, 3r + 1, 3r + 2.
        g = Graph()
        table = g.op("Reshape", [g.op("_arange", [], {"start": 0, "stop": 15})], {"shape": "(5,3)"})
        g.op("Embedding", [special(g, what), table], {"input_dim": 5, "output_dim": 3})
        yield fine("Embedding-" + what, g.json(), (2, 3), values="%d %d %d" % (3 * row, 3 * row + 1, 3 * row + 2))
    for what in ["1e300", "-1e300", "5", "-1"]:
        for dtype in ["int32", "uint8", "int64", "int8", "float64"]:
            g = Graph()
            g.op("Embedding", [g.var((2,), dtype, what), g.var((5, 3))], {"input_dim": 5, "output_dim": 3})
            yield case("Embedding-%s-%s" % (dtype, what), g.json(), run="ok")
    kept = {"nan": 0, "inf": 4, "-inf": 0, "1e300": 4, "-1e300": 0, "2.9": 2, "-0.5": 0, "9.3e18": 4, "0": 0}
    for what, steps in kept.items():
        for axis in [0, 1]:
            g = Graph()
            data = g.var((4, 2, 1) if axis == 0 else (2, 4, 1), None, 1)
            g.op("SequenceMask", [data, special(g, what)], {"use_sequence_length": "True", "value": 9, "axis": axis})
            low, high, mean = (9, 9, 9) if steps == 0 else (1, 1, 1) if steps == 4 else (1, 9, 5)
            yield fine("SequenceMask-%d-%s" % (axis, what), g.json(), values="%d %d %d" % (low, mean, high))
        g = Graph()
        g.op("softmax", [g.var((2, 4), None, 1), special(g, what)], {"use_length": "True"})
        low, high = (0, 0) if steps == 0 else (0.25, 0.25) if steps == 4 else (0, 0.5)
        yield fine("softmax-" + what, g.json(), values="%g %g %g" % (low, 0 if steps == 0 else 0.25, high))
    for what in ["1e300", "-1e300", "-1", "127"]:
        for dtype in ["int32", "uint8", "int64", "int8", "float64"]:
            for op in ["SequenceMask", "softmax"]:
                g = Graph()
                shape = (4, 2, 1) if op == "SequenceMask" else (2, 4)
                attrs = {"use_sequence_length": "True"} if op == "SequenceMask" else {"use_length": "True"}
                g.op(op, [g.var(shape), g.var((2,), dtype, what)], attrs)
                name = "%s-%s-%s" % (op, dtype, what)
                if chosen(name, one_in):
                    yield case(name, g.json(), run="ok")
    for what in [
        "nan",
        "inf",
        "-inf",
        "1e300",
        "-1e300",
        "3",
        "-1",
        "0.9",
        "4611686018427387904",
        "-4611686018427387904",
    ]:
        for number, attrs in enumerate(
            [
                {},
                {"use_ignore": "True", "ignore_label": what},
                {"normalization": "valid", "ignore_label": what},
                {"smooth_alpha": 1},
            ]
        ):
            if what == "nan" and "ignore_label" in attrs or not chosen("%s %d" % (what, number), one_in):
                continue  # no attribute is NaN
            g = Graph()
            node = g.op("SoftmaxOutput", [g.var((2, 3)), special(g, what)], attrs)
            yield fine("SoftmaxOutput-%d-%s" % (number, what), g.json(), grad="ok")
            h = Graph()
            h.op("_SoftmaxOutput_target", [h.var((2, 3)), special(h, what)], attrs)
            expected = {} if attrs or what in ("0.9",) else {"values": thrice(0)}
            yield fine("target-%d-%s" % (number, what), h.json(), **expected)
        for op in ["LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"]:
            g = Graph()
            g.op(op, [g.var((2,)), special(g, what)], {"grad_scale": "1e300"})
            yield case("%s-%s" % (op, what), g.json(), run="ok", grad="ok")
    for what in ["nan", "inf", "-1e300", "0"]:
        g = Graph()
        g.op("where", [special(g, what), g.var((2,), None, 5), g.var((2,), None, 7)])
        yield fine("where-" + what, g.json(), values=thrice(7 if what == "0" else 5))
    for key, op in [
        ("eps", "LayerNorm"),
        ("eps", "BatchNorm"),
        ("eps", "InstanceNorm"),
        ("eps", "L2Normalization"),
        ("temperature", "softmax"),
        ("momentum", "BatchNorm"),
        ("alpha", "LRN"),
        ("beta", "LRN"),
        ("knorm", "LRN"),
        ("p", "Dropout"),
        ("lr", "adam_update"),
        ("slope", "LeakyReLU@gelu"),
        ("grad_scale", "MakeLoss"),
        ("valid_thresh", "MakeLoss@valid"),
        ("scalar", "smooth_l1"),
        ("alpha", "hard_sigmoid"),
        ("value", "SequenceMask"),
        ("lower_bound", "LeakyReLU@rrelu"),
        ("clip_gradient", "sgd_update"),
        ("smooth_alpha", "SoftmaxOutput"),
        ("constant_value", "Pad"),
        ("value", "_full"),
    ]:
        attrs, shapes = INSTANCES[op]
        for what in ["nan", "inf", "1e300", "-1e300", "1e400", "1e-400", "-0.0", ""]:
            name = "%s-%s-%s" % (op, key, what)
            if chosen(name, 2 * one_in):
                yield case(name, one(op.split("@")[0], {**attrs, key: what}, shapes))


CLASSES = {"convert": convert, "indices": indices}
