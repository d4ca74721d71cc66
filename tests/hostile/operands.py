"""Cases in which the operands of a node do not fit together, or its axes not the operands."""

from .graphs import LEAST, MOST, Graph, case, chosen, fine, one, refused, thinned, tuple_text, unreadable
from .instances import BROADCAST, IMAGES, INSTANCES, REDUCTIONS


def broadcast():
    for op in BROADCAST:
        # Neither order, nor an axis in front, nor one in the middle.
        yield refused(op + "-rhs", one(op, {}, [(2, 3000), (0, 3000)]))
        yield refused(op + "-lhs", one(op, {}, [(0, 3), (2, 3)]))
        yield refused(op + "-inner", one(op, {}, [(2, 0, 3), (1, 7, 1)]))
    yield fine("one-beside-0", one("broadcast_add", {}, [(1, 3), (0, 3)]), (0, 3))
    yield fine("0-beside-one", one("broadcast_mul", {}, [(2, 0, 3), (1, 3)]), (2, 0, 3))
    yield fine("0-beside-0", one("broadcast_sub", {}, [(0, 3), (0, 1)]), (0, 3))
    for dtype in ["int32", "float64", "int8", "float16"]:
        yield refused("other-type-" + dtype, one("broadcast_add", {}, [(0, 3), (4, 3)], [dtype, dtype]))
    yield refused("one-axis", one("broadcast_mul", {}, [(0,), (5,)]))
    yield refused("longer-rank", one("broadcast_mul", {}, [(4, 0), (5, 4, 7)]))
    for op in ["elemwise_add", "_grad_add", "_maximum", "_power", "_equal", "add_n"]:
        attrs = {"num_args": 2} if op == "add_n" else {}
        yield refused(op + "-0", one(op, attrs, [(0, 3), (2, 3)]))
    yield refused("like-0", one("broadcast_like", {}, [(2, 3), (0, 3)]))
    yield refused("like-from-0", one("broadcast_like", {}, [(0, 3), (2, 3)]))
    yield refused("to-from-0", one("broadcast_to", {"shape": "(4,3)"}, [(0, 3)], version=20000))
    yield case("to-0", one("broadcast_to", {"shape": "(0,3)"}, [(4, 3)]))
    yield case("to-0-of-one", one("broadcast_to", {"shape": "(0,3)"}, [(1, 3)]))
    yield refused("axis-of-0", one("broadcast_axis", {"axis": "(0,)", "size": "(4,)"}, [(0, 3)]))
    yield refused("axis-of-2", one("broadcast_axis", {"axis": "(0,)", "size": "(4,)"}, [(2, 3)]))
    yield refused("where-0", one("where", {}, [(2, 3), (0, 3), (0, 3)]))
    yield refused("where-rows-0", one("where", {}, [(0,), (2, 3), (2, 3)]))
    yield refused("where-condition-0", one("where", {}, [(0, 3), (2, 3), (2, 3)]))
    yield refused("sum-like-0", one("_sum_like", {}, [(2, 3), (0, 3)]))
    yield refused("sum-like-from-0", one("_sum_like", {}, [(0, 3), (2, 3)]))
    # Unknown lengths are settled later, by a reader of the sum.
    for first, second in [((-1, 3), (0, 3)), ((0, -1), (2, -1)), ((2, 3), (-1, -1)), ((-1, 3), (-1, 3))]:
        g = Graph()
        y = g.op("broadcast_add", [g.var(first), g.var(second)])
        g.op("elemwise_add", [y, g.var((2, 3))])
        yield case("later-%s-%s" % (tuple_text(first), tuple_text(second)), g.json())


OWN = [
    "_RegressionOutput_weight",
    "_SoftmaxOutput_target",
    "_SoftmaxOutput_weight",
    "_broadcast_axis_like",
    "_concat_part",
    "_convolution_data_grad",
    "_convolution_weight_grad",
    "_deconvolution_data_grad",
    "_deconvolution_weight_grad",
    "_identity_with_attr_like_rhs",
    "_grad_add",
    "_pool_gather",
    "_pool_scatter",
    "_pooling_grad",
    "_prelu_gamma_spread",
    "_prelu_gamma_sum",
    "_repeat_axes_like",
    "_scheduled_adam_update",
    "_scheduled_sgd_mom_update",
    "_scheduled_sgd_update",
    "_sum_like",
]


def wrong_shapes(shape):
    """Other shapes an operand may be given: longer, shorter, empty, of another rank, of as many elements otherwise."""
    yield "longer", shape[:-1] + (shape[-1] + 2,)
    yield "first", (shape[0] + 7,) + shape[1:]
    yield "empty", (0,) + shape[1:]
    yield "rank", (1,) + shape
    if len(shape) > 1:
        yield "flat", (shape[0] * shape[1],) + shape[2:]


def own(one_in=4):
    for op in OWN:
        attrs, shapes = INSTANCES[op]
        yield fine(op + "-right", one(op, attrs, shapes))
        for i, shape in enumerate(shapes):
            for what, wrong in wrong_shapes(shape):
                operands = shapes[:i] + [wrong] + shapes[i + 1 :]
                name = "%s-%d-%s" % (op, i, what)
                if chosen(name, one_in):
                    yield case(name, one(op, attrs, operands))
    part = {"num_args": 2, "index": 0}
    v, x0, x1 = (4, 3), (3, 3), (1, 3)
    yield fine("concat-part", one("_concat_part", {**part, "dim": 0}, [v, x0, x1]), x0)
    yield refused("concat-part-long", one("_concat_part", {**part, "dim": 0}, [v, x0, (2, 3)]))
    yield refused("concat-part-short", one("_concat_part", {**part, "dim": 0}, [(7, 3), x0, x1]))
    yield unreadable("concat-part-index", one("_concat_part", {**part, "dim": 0, "index": 2}, [v, x0, x1]))
    yield unreadable("concat-part-index-huge", one("_concat_part", {**part, "dim": 0, "index": MOST}, [v, x0, x1]))
    for dim in [2, -3, MOST, LEAST]:
        yield refused("concat-part-dim-%d" % dim, one("_concat_part", {**part, "dim": dim}, [v, x0, x1]))
    yield refused("concat-part-other-axis", one("_concat_part", {**part, "dim": 0}, [(4, 5), x0, x1]))
    yield refused("concat-part-rank", one("_concat_part", {**part, "dim": 0}, [(4, 3, 1), x0, x1]))
    yield refused("concat-part-ranks", one("_concat_part", {**part, "dim": 0}, [v, (3,), x1]))
    yield refused(
        "concat-part-dtype", one("_concat_part", {**part, "dim": 0}, [v, x0, x1], ["float32", "float64", "float32"])
    )
    for axis in ["(2,)", "(-3,)", "(0,0)", "(0,-2)", tuple_text((MOST,))]:
        yield refused("repeat-axes-" + axis, one("_repeat_axes_like", {"axis": axis}, [(3,), (2, 3)]))
    for v in [(1,), (2,), (6,), (3, 1), (0,), (3, 2)]:
        yield refused("repeat-v-" + tuple_text(v), one("_repeat_axes_like", {"axis": "(0,)"}, [v, (2, 3)]))
    yield fine(
        "repeat-keepdims", one("_repeat_axes_like", {"axis": "(0,)", "keepdims": "True"}, [(1, 3), (2, 3)]), (2, 3)
    )
    yield refused("repeat-keepdims-v", one("_repeat_axes_like", {"axis": "(0,)", "keepdims": "True"}, [(3,), (2, 3)]))
    yield refused("repeat-exclude", one("_repeat_axes_like", {"axis": "(0,)", "exclude": "True"}, [(3,), (2, 3)]))
    yield refused("repeat-dtype", one("_repeat_axes_like", {"axis": "(0,)"}, [(3,), (2, 3)], ["float64", "float32"]))
    for axis in [2, -3, MOST]:
        yield refused("axis-like-%d" % axis, one("_broadcast_axis_like", {"axis": axis}, [(3,), (2, 3)]))
    yield refused("axis-like-v", one("_broadcast_axis_like", {"axis": 0}, [(3,), (2, 3)]))
    yield refused("sum-like-rank", one("_sum_like", {}, [(3,), (2, 3)]))
    yield refused("sum-like-axis", one("_sum_like", {}, [(4, 3), (2, 3)]))
    yield refused("gamma-sum", one("_prelu_gamma_sum", {}, [(2, 3), (2,)]))
    yield refused("gamma-spread", one("_prelu_gamma_spread", {}, [(4,), (2, 3)]))
    yield refused("gamma-spread-empty", one("_prelu_gamma_spread", {}, [(0,), (2, 3)]))
    yield refused("target-label", one("_SoftmaxOutput_target", {}, [(2, 3), (1,)]))
    yield refused("weight-label", one("_SoftmaxOutput_weight", {}, [(9, 3), (2,)]))
    yield refused("weight-multi", one("_SoftmaxOutput_weight", {"multi_output": "True"}, [(2, 3, 4), (2, 3)]))
    yield refused("lr-empty", one("_scheduled_sgd_update", {}, [(2, 3), (2, 3), (0,)]))
    yield refused("lr-grad", one("_scheduled_adam_update", {}, [(2, 3), (3, 2), (2, 3), (2, 3), (1,)]))
    pool = {"kernel": "(2,2)", "stride": "(2,2)", "pool_type": "max"}
    yield refused("pool-scatter", one("_pool_scatter", pool, [(2, 4, 9, 9), IMAGES]))
    yield refused("pool-gather", one("_pool_gather", pool, [(2, 4, 2, 2), IMAGES]))
    for kind in ["avg", "sum", "lp", "max"]:
        yield case(
            "pool-kind-" + kind, one("_pool_gather", {**pool, "pool_type": kind, "p_value": 2}, [IMAGES, IMAGES])
        )
        yield case(
            "pooling-grad-" + kind,
            one("_pooling_grad", {**pool, "pool_type": kind, "p_value": 2}, [(2, 4, 2, 2), IMAGES]),
        )
    yield unreadable("polygamma-order", one("_polygamma", {"order": 21}, [(2, 3)]))
    yield case("polygamma-20", one("_polygamma", {"order": 20}, [(2, 3)]))


def axes(one_in=2):
    yield from thinned(axes_of_reductions(), one_in)
    yield from thinned(axes_of_rows(), one_in)
    for text in ["(0,0)", "(0,2)", "(0,)", "(1,0,2)", "(0,-2)", tuple_text((MOST, 0)), tuple_text((LEAST, 1))]:
        yield refused("transpose-" + text, one("transpose", {"axes": text}, [(2, 3)]))
    for text in ["(2,)", "(-3,)", tuple_text((MOST,)), tuple_text((LEAST,))]:
        yield refused("reverse-" + text, one("reverse", {"axis": text}, [(2, 3)]))
        yield refused("squeeze-" + text, one("squeeze", {"axis": text}, [(1, 3)]))
    yield case("reverse-twice", one("reverse", {"axis": "(0,0)"}, [(2, 3)]))
    yield case("squeeze-twice", one("squeeze", {"axis": "(0,0)"}, [(1, 3)]))
    yield refused("squeeze-long", one("squeeze", {"axis": "(1,)"}, [(1, 3)]))
    yield refused("squeeze-0", one("squeeze", {"axis": "(0,)"}, [(0, 3)]))
    for axis in [MOST, LEAST, 3, -4]:
        yield refused("expand_dims-%d" % axis, one("expand_dims", {"axis": axis}, [(2, 3)]))
    for dims in [(2, 0), (0, -3), (MOST, 0), (0, LEAST)]:
        yield refused("SwapAxis-%d-%d" % dims, one("SwapAxis", {"dim1": dims[0], "dim2": dims[1]}, [(2, 3)]))
    yield fine("SwapAxis-same", one("SwapAxis", {"dim1": 1, "dim2": 1}, [(2, 3)]), (2, 3))
    for text in ["(0,0)", "(0,-2)"]:
        yield refused("broadcast_axis-" + text, one("broadcast_axis", {"axis": text, "size": "(2,3)"}, [(1, 1)]))
        yield refused(
            "broadcast_like-" + text, one("broadcast_like", {"lhs_axes": text, "rhs_axes": "(0,1)"}, [(1, 3), (2, 3)])
        )
    yield unreadable("broadcast_axis-sizes", one("broadcast_axis", {"axis": "(0,)", "size": "(2,3)"}, [(1, 1)]))
    yield unreadable(
        "broadcast_like-sizes", one("broadcast_like", {"lhs_axes": "(0,)", "rhs_axes": "()"}, [(1, 3), (2, 3)])
    )
    for text in ["(2,)", "(0,0)", tuple_text((MOST,)), "(5,6,7)"]:
        yield case("Dropout-" + text, one("Dropout", {"axes": text, "mode": "always"}, [(2, 3)]))
        yield case("Dropout-train-" + text, one("Dropout", {"axes": text}, [(2, 3)]))
    for bounds in [(2, 1), (0, 3), (-3, 2), (MOST, MOST), (LEAST, 1)]:
        attrs = {"lhs_begin": bounds[0], "lhs_end": bounds[1], "rhs_begin": 0, "rhs_end": 1}
        yield refused("reshape_like-%d-%d" % bounds, one("reshape_like", attrs, [(2, 3), (2, 3)]))
    yield refused("Concat-scalar-axis", one("Concat", {"num_args": 1, "dim": 1}, [(2,)]))


def axes_of_reductions():
    for op in REDUCTIONS:
        for axis in ["(0,0)", "(0,-2)", "(2,)", "(-3,)", tuple_text((MOST,)), tuple_text((LEAST,)), "(0,1,0)"]:
            yield refused("%s-%s" % (op, axis), one(op, {"axis": axis}, [(2, 3)]))
        yield case(op + "-exclude-twice", one(op, {"axis": "(0,0)", "exclude": "True"}, [(2, 3)]))


def axes_of_rows():
    for axis in [2, -3, MOST, LEAST]:
        for op in ["softmax", "log_softmax", "softmin"]:
            yield refused("%s-%d" % (op, axis), one(op, {"axis": axis}, [(2, 3)]))
        yield refused("LayerNorm-%d" % axis, one("LayerNorm", {"axis": axis}, [(2, 3), (3,), (3,)]))
        yield refused("BatchNorm-%d" % axis, one("BatchNorm", {"axis": axis}, [(2, 3)] + [(3,)] * 4))
        yield refused("softmax-length-%d" % axis, one("softmax", {"axis": axis, "use_length": "True"}, [(2, 3), (2,)]))
        yield refused("repeat-%d" % axis, one("repeat", {"repeats": 2, "axis": axis}, [(2, 3)]))
        yield refused(
            "broadcast_axis-%d" % axis, one("broadcast_axis", {"axis": tuple_text((axis,)), "size": "(4,)"}, [(1, 1)])
        )
        yield refused(
            "broadcast_like-%d" % axis,
            one("broadcast_like", {"lhs_axes": "(0,)", "rhs_axes": tuple_text((axis,))}, [(1, 3), (2, 3)]),
        )


CLASSES = {"broadcast": broadcast, "own": own, "axes": axes}
