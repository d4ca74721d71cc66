"""Cases in which the length of an axis leaves 64 bits, or the result is too large for any memory: parts and copies."""

from .graphs import LEAST, MOST, case, fine, one, refused, tuple_text, unreadable

HALF = 2**62


def crop():
    images = (1, 1, 40, 4)
    window = {"num_args": 1, "h_w": "(20,4)"}
    for offset in [MOST, MOST - 19, MOST - 20, HALF, 2**33, 21]:
        yield refused("row-%d" % offset, one("Crop", {**window, "offset": tuple_text((offset, 0))}, [images]))
        yield refused("column-%d" % offset, one("Crop", {**window, "offset": tuple_text((0, offset))}, [images]))
    yield fine("last-row", one("Crop", {**window, "offset": "(20,0)"}, [images]), (1, 1, 20, 4))
    for size in [MOST, HALF, 41]:
        yield refused("window-%d" % size, one("Crop", {"num_args": 1, "h_w": tuple_text((size, 4))}, [images]))
        yield refused(
            "center-%d" % size,
            one("Crop", {"num_args": 1, "h_w": tuple_text((2, size)), "center_crop": "True"}, [images]),
        )
    yield unreadable("offset-negative", one("Crop", {**window, "offset": "(-1,0)"}, [images]))
    yield unreadable("offset-beyond", one("Crop", {**window, "offset": tuple_text((MOST + 1, 0))}, [images]))
    for offset in [MOST, MOST - 1, 39, 38]:
        yield refused(
            "like-%d" % offset, one("Crop", {"num_args": 2, "offset": tuple_text((offset, 0))}, [images, (7, 9, 3, 2)])
        )
    # The window is worked out before anything else is known.
    yield case("unknown-data", one("Crop", {**window, "offset": tuple_text((MOST, MOST))}, [None]))
    yield case("like-unknown", one("Crop", {"num_args": 2, "offset": tuple_text((MOST, 0))}, [images, (-1, -1, 3, -1)]))
    yield case("empty-long-axis", one("Crop", {**window, "offset": tuple_text((MOST - 19, 0))}, [(0, 1, MOST, 4)]))
    yield case(
        "center-empty", one("Crop", {"num_args": 1, "h_w": "(1,1)", "center_crop": "True"}, [(0, 1, MOST, MOST)])
    )


def slices():
    bounds = [None, 0, 1, 3, 4, -1, -4, -5, MOST, -MOST, LEAST]
    steps = [MOST, -MOST, LEAST, 2**62, -(2**62), 3, -3]
    number = 0
    for i, begin in enumerate(bounds):
        for k, end in enumerate(bounds):
            step = steps[(i * len(bounds) + k) % len(steps)]
            number += 1
            if number % 3:
                continue
            # Python's own slices are the reference: bounds are cut to the axis whatever the step.
            length = len(range(4)[begin:end:step])
            attrs = {"begin": "(%s,)" % begin, "end": "(%s,)" % end, "step": "(%s,)" % step}
            yield fine("%s_%s_%s" % (begin, end, step), one("slice", attrs, [(4,)]), (length,))
    whole = {"begin": "(None,None)", "end": "(None,None)"}
    for step in [MOST, LEAST, -MOST, 2, -2]:
        length = len(range(5)[::step])
        yield fine(
            "second-axis-%d" % step, one("slice", {**whole, "step": tuple_text((1, step))}, [(3, 5)]), (3, length)
        )
    for begin in [MOST, LEAST]:
        for step in [1, -1, 2]:
            length = len(range(3)[begin::step])
            attrs = {"begin": tuple_text((begin,)), "end": "(None,)", "step": tuple_text((step,))}
            yield fine("from-%d-%d" % (begin, step), one("slice", attrs, [(3, 2)]), (length, 2))
    for text in ["(9223372036854775808,)", "(-9223372036854775809,)", "(1e3,)", "(1.0,)", "(None", "(nan,)"]:
        yield unreadable("text-" + text, one("slice", {"begin": text, "end": "(4,)"}, [(4,)]))
    for length in [MOST, HALF]:
        attrs = {"begin": "(0,0)", "end": "(None,None)", "step": "(1,2)"}
        yield refused("data-%d" % length, one("slice", attrs, [(2, length)]))
        yield case("empty-%d" % length, one("slice", attrs, [(0, length)]))
    axis = {"axis": 0, "begin": 0, "end": 4}
    for key in ["begin", "end"]:
        for bound in [MOST, LEAST, -MOST, 5, -5]:
            yield refused("axis-%s-%d" % (key, bound), one("slice_axis", {**axis, key: bound}, [(4, 2)]))
    for bad in [MOST, LEAST, 2, -3]:
        yield refused("axis-axis-%d" % bad, one("slice_axis", {**axis, "axis": bad}, [(4, 2)]))
        yield refused("like-axes-%d" % bad, one("slice_like", {"axes": tuple_text((bad,))}, [(4, 2), (3, 1)]))
    yield refused("like-longer", one("slice_like", {}, [(4, 2), (5, 1)]))
    yield refused("like-rank", one("slice_like", {}, [(4, 2), (3, 1, 1)]))
    yield refused("like-missing-axis", one("slice_like", {"axes": "(1,)"}, [(4, 2), (3,)]))
    yield refused("like-huge", one("slice_like", {}, [(4, 2), (0, MOST)]))
    yield case("like-twice", one("slice_like", {"axes": "(0,0,-2)"}, [(4, 2), (3, 1)]))
    yield refused("too-many", one("slice", {"begin": "(0,0,0)", "end": "(1,1,1)"}, [(4, 2)]))


def pad():
    images = (1, 1, 4, 4)

    def padded(mode, before, after, shape=images, last=(0, 0)):
        widths = [0] * (2 * len(shape) - 4) + [before, after] + list(last)
        return one("Pad", {"mode": mode, "pad_width": tuple_text(widths)}, [shape])

    for mode in ["constant", "edge", "reflect"]:
        for before, after in [
            (MOST, 0),
            (MOST, MOST),
            (HALF, HALF),
            (MOST - 3, 0),
            (MOST - 5, 1),
            (2**50, 2**50),
            (0, MOST),
        ]:
            yield refused("%s-%d-%d" % (mode, before, after), padded(mode, before, after))
    yield fine("constant-3-2", padded("constant", 3, 2), (1, 1, 9, 4))
    yield fine("reflect-3-3", padded("reflect", 3, 3), (1, 1, 10, 4))
    yield refused("reflect-4", padded("reflect", 4, 0))
    yield refused("five-axes", padded("constant", MOST, 7, (1, 1, 2, 2, 2)))
    yield refused("product", padded("constant", 2**31, 2**31, last=(2**31, 2**31)))
    yield fine("empty-rows", padded("constant", 1, 1, (0, 1, 2**20, 2)), (0, 1, 2**20 + 2, 2))
    yield case("empty-long-last-axis", padded("constant", 1, 1, (0, 1, 1, 2), (2**33, 2**33)))
    yield case("empty-channels-long", padded("edge", 1, 1, (2**31, 0, 1, 2), (2**20, 0)))
    yield refused("edge-of-nothing", padded("edge", 1, 0, (1, 1, 0, 2)))
    yield unreadable("negative", padded("constant", -1, 0))


def copies():
    for reps in [(HALF, 4), (HALF,), (4, HALF, 1), (2**40, 2**40), (MOST, MOST), (2**31, 2**32)]:
        yield refused("tile-" + tuple_text(reps), one("tile", {"reps": tuple_text(reps)}, [(2, 3)]))
    yield refused("tile-first", one("tile", {"reps": tuple_text((HALF, 1))}, [(1, 4)]))
    yield case("tile-empty", one("tile", {"reps": tuple_text((HALF, 4))}, [(0, 3)]))
    yield case("tile-empty-overflow", one("tile", {"reps": tuple_text((1, 8))}, [(0, HALF)]))
    yield case("tile-new-axes", one("tile", {"reps": tuple_text([2] * 40)}, [(1,)]))
    yield unreadable("tile-beyond", one("tile", {"reps": "(99999999999999999999,)"}, [(2, 3)]))
    for repeats in [HALF, MOST, 2**61, 2**57 + 1]:
        for axis in [0, -1, None]:
            yield refused("repeat-%d-%s" % (repeats, axis), one("repeat", {"repeats": repeats, "axis": axis}, [(4, 3)]))
        yield case("repeat-empty-%d" % repeats, one("repeat", {"repeats": repeats, "axis": 1}, [(0, 3)]))
    yield fine("repeat-none", one("repeat", {"repeats": 0, "axis": 0}, [(4, 3)]), (0, 3))
    yield case("repeat-of-nothing", one("repeat", {"repeats": MOST}, [(0, 3)]))
    for shape in [(HALF + 1, 4), (MOST, MOST), (2**32, 2**32), (HALF, 4)]:
        name = tuple_text(shape)
        yield refused("broadcast_to-" + name, one("broadcast_to", {"shape": name}, [(1, 1)]))
        yield refused("broadcast_axis-" + name, one("broadcast_axis", {"axis": "(0,1)", "size": name}, [(1, 1)]))
        yield refused("broadcast_like-" + name, one("broadcast_like", {}, [(1, 1), shape]))
    yield case("broadcast_to-empty", one("broadcast_to", {"shape": tuple_text((0, MOST))}, [(1, 1)]))
    # Sums of nothing: the operand is empty, the result is not.
    for op in ["sum", "mean", "max", "min", "prod"]:
        yield refused(op + "-of-nothing", one(op, {"axis": "(0,)"}, [(0, HALF + 1)]))
        yield refused(op + "-of-nothing-2", one(op, {"axis": "(1,)"}, [(2**40, 0, 2**40)]))
        yield fine(op + "-of-little", one(op, {"axis": "(0,)"}, [(0, 5)]), (5,))
    yield refused("dot-outer", one("dot", {}, [(2**40, 0), (0, 2**40)]))
    yield refused("batch_dot-outer", one("batch_dot", {}, [(1, 2**40, 0), (1, 0, 2**40)]))
    yield refused(
        "FullyConnected-hidden", one("FullyConnected", {"num_hidden": HALF + 1, "no_bias": "True"}, [(4, 0), None])
    )
    yield refused("Embedding-table", one("Embedding", {"input_dim": HALF + 1, "output_dim": 4}, [(2,), None]))
    yield refused("Embedding-rows", one("Embedding", {"input_dim": 1, "output_dim": MOST}, [(2, 3), None]))


def reshapes():
    empty = (0, HALF, 4)
    for codes in [
        "(-3,0)",
        "(0,-3)",
        "(-3,-2)",
        "(-1,0,0)",
        "(0,-1)",
        "(-2,)",
        "(0,0,-4,2,-1)",
        "(-3,-4,2,-1)",
        "(0,-4,-1,4,0)",
    ]:
        yield case("empty-" + codes, one("Reshape", {"shape": codes}, [empty]))
        yield case("empty-reverse-" + codes, one("Reshape", {"shape": codes, "reverse": "True"}, [empty]))
    for codes in [(-4, HALF, 4), (-4, 4, HALF), (-4, MOST, MOST), (-4, 2**32, 2**32), (-4, -1, 0)]:
        yield case("split-empty-" + tuple_text(codes), one("Reshape", {"shape": tuple_text(codes)}, [(0,)]))
        yield refused("split-" + tuple_text(codes), one("Reshape", {"shape": tuple_text(codes)}, [(6,)]))
    for codes in [(HALF, 4), (2**32, 2**32), (MOST,), (MOST, MOST), (2**33, 2**31, 2, 3)]:
        yield refused("to-" + tuple_text(codes), one("Reshape", {"shape": tuple_text(codes)}, [(2, 3)]))
        yield case("to-empty-" + tuple_text(codes), one("Reshape", {"shape": tuple_text(codes)}, [(0, 3)]))
    for codes in [
        "(-1,-1)",
        "(-4,-1,-1)",
        "(-4,2)",
        "(-4,)",
        "(-3,-3)",
        "(-3)",
        "(0,0,0)",
        "(-2,-2)",
        "(2,-1,-1)",
        "(-4,0,-1)",
        "(-1,0)",
    ]:
        yield case("codes-" + codes, one("Reshape", {"shape": codes}, [(2, 3)]))
    yield refused("to-nothing", one("Reshape", {"shape": "(5,-1)"}, [(2, 3)]))
    yield case("nothing-to-unknown", one("Reshape", {"shape": tuple_text((0, -1))}, [(0, MOST)]))
    yield unreadable("code-5", one("Reshape", {"shape": "(-5,)"}, [(2, 3)]))
    yield case("target", one("Reshape", {"target_shape": tuple_text((HALF, 4))}, [(2, 3)]))
    yield case(
        "target-highest", one("Reshape", {"target_shape": tuple_text((0, MOST)), "keep_highest": "True"}, [(2, 3)])
    )
    yield case("target-zeros", one("Reshape", {"target_shape": "(0,0)"}, [(2, 3)]))
    yield refused("like-overflow", one("reshape_like", {}, [(2, 3), (2**32, 2**32)]))
    yield case("like-empty", one("reshape_like", {}, [(0, 3), (0, MOST)]))
    # Both products leave 64 bits, so neither may be taken for the other.
    yield refused("like-both-overflow", one("reshape_like", {}, [(2**32, 2**33), (2**34, 2**35)]))
    yield case("flatten-empty", one("Flatten", {}, [(0, 2**32, 2**32)]))
    yield refused("flatten", one("Flatten", {}, [(2, 2**32, 2**32)]))
    yield case("as-rows-empty", one("_as_rows", {}, [(2**32, 2**32, 0)]))
    yield case("rank-64", one("Reshape", {"shape": tuple_text([1] * 64)}, [(1,)]))
    yield refused("rank-64-of-2", one("Reshape", {"shape": tuple_text([2] * 64)}, [(1,)]))


CLASSES = {"crop": crop, "slice": slices, "pad": pad, "copies": copies, "reshape": reshapes}
