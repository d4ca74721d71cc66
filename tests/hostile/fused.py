"""Cases in which a fused gradient does not fit the forward node it names."""

from .graphs import LEAST, MOST, Graph, case, chosen, fine, refused, tuple_text, unreadable
from .instances import FUSED, INSTANCES


def fused_graph(op, attrs=None, forward=None, shapes=None, heads=None, dep=True, reader=None, head_type=None):
    """The fused node over its forward node. heads: shape of the head gradients; reader: the shape its reader has."""
    instance, operands = FUSED[op]
    forward_op, (forward_attrs, forward_shapes) = (forward or instance).split("@")[0], INSTANCES[forward or instance]
    given_attrs = INSTANCES[instance][0] if attrs is None else attrs
    g = Graph()
    xs = [g.var(shape, "float32" if head_type else None) for shape in (shapes or forward_shapes)]
    y = g.op(forward_op, xs, forward_attrs, name="forward")
    inputs = []
    for k, operand in enumerate(operands.split()):
        number = int(operand[1:])
        if operand[0] == "x":
            inputs.append(xs[number] if number < len(xs) else g.var((2, 3)))
        elif operand[0] == "y":
            inputs.append((y, number, 0))
        else:
            inputs.append(g.var(heads, head_type))
    node = g.op(op, inputs, given_attrs, name="backward", deps=[y] if dep else [])
    if reader:
        node = g.op("elemwise_add", [node, g.var(reader)], name="reader")
    return g.json(node, y)


# Attributes that say where a kernel reads and writes, with other values than those of the forward node.
OTHER_PLACES = {
    "_backward_BatchNorm": [{"axis": 3}, {"axis": LEAST}],
    "_backward_Concat": [{"num_args": 2, "dim": 0}, {"num_args": 2, "dim": 7}],
    "_backward_Convolution": [
        {"kernel": "(5,5)"},
        {"stride": "(1,1)"},
        {"pad": "(9,9)"},
        {"num_group": 1},
        {"dilate": "(2,2)"},
        {"layout": "NHWC"},
    ],
    "_backward_Crop": [{"offset": "(300000,30)"}, {"offset": tuple_text((MOST, 0))}, {"h_w": "(5,5)"}],
    "_backward_Deconvolution": [{"kernel": "(5,5)"}, {"stride": "(1,1)"}, {"adj": "(1,1)"}, {"num_group": 1}],
    "_backward_Embedding": [{"input_dim": 500}, {"output_dim": 300}],
    "_backward_FullyConnected": [{"num_hidden": 30}],
    "_backward_L2Normalization": [{"mode": "channel"}, {"mode": "spatial"}],
    "_backward_LayerNorm": [{"axis": 0}, {"axis": 9}],
    "_backward_LeakyReLU": [{"act_type": "leaky"}, {"act_type": "gelu"}],
    "_backward_Pad": [{"pad_width": "(0,0,0,0,9,9,9,9)"}, {"pad_width": tuple_text([0] * 4 + [MOST] * 4)}],
    "_backward_Pooling": [{"kernel": "(9,9)"}, {"stride": "(1,1)"}, {"global_pool": "True"}],
    "_backward_SequenceMask": [{"axis": 1}],
    "_backward_SliceChannel": [{"axis": 0}, {"axis": 5}, {"squeeze_axis": "True"}],
    "_split_v2_backward": [{"axis": 0}, {"indices": "(0,2,3)"}, {"sections": 2}],
    "_backward_SwapAxis": [{"dim1": 1}, {"dim1": 9}],
    "_backward_UpSampling": [{"scale": 1000}, {"scale": 1}],
    "_backward_contrib_AdaptiveAvgPooling2D": [{"output_size": "(50,50)"}],
    "_backward_contrib_BilinearResize2D": [{"height": 70}, {"mode": "to_odd_up"}],
    "_backward_dot": [{"transpose_a": "True"}, {"transpose_b": "True"}],
    "_backward_log_softmax": [{"axis": 9}],
    "_backward_max": [{"axis": "(0,)"}, {"axis": "(7,)"}, {"exclude": "True"}],
    "_backward_mean": [{"axis": "(0,)"}, {"axis": "(7,)"}, {"keepdims": "True"}],
    "_backward_min": [{"axis": "(0,1)"}],
    "_backward_prod": [{"axis": "(0,)"}, {"axis": "(0,0)"}],
    "_backward_repeat": [{"repeats": 200}, {"axis": 0}, {"axis": "None"}, {"axis": 9}, {"repeats": 0}],
    "_backward_reverse": [{"axis": "(9,)"}],
    "_backward_slice": [{"begin": "(0,0)"}, {"step": "(1,-1)"}, {"begin": "(0,1,0)", "end": "(2,3,1)"}],
    "_backward_slice_axis": [{"begin": 1}, {"begin": -300000}, {"axis": 0}, {"axis": 9}, {"end": 3}],
    "_backward_softmax": [{"axis": LEAST}],
    "_backward_stack": [{"axis": 7}],
    "_backward_sum": [{"axis": "(7,)"}, {"axis": "(0,)"}, {"axis": "(1,1)"}, {"exclude": "True"}],
    "_backward_tile": [{"reps": "(200,200)"}, {"reps": "(1,1)"}, {"reps": "(2,1,1)"}, {"reps": tuple_text((MOST, 1))}],
}


# Attributes that change values alone, or nothing for these shapes.
OTHER_VALUES = {
    "_SoftmaxOutput_grad": [{"multi_output": "True"}, {"normalization": "valid"}],
    "_backward_Activation": [{"act_type": "tanh"}],
    "_backward_BatchNorm": [{"eps": 5}, {"use_global_stats": "True"}],
    "_backward_Crop": [{"center_crop": "True"}],
    "_backward_Dropout": [{"p": 0.9}, {"axes": "(0,)"}, {"axes": "(7,)"}],
    "_backward_FullyConnected": [{"flatten": "False"}, {"no_bias": "True"}],
    "_backward_InstanceNorm": [{"eps": 1}],
    "_backward_LRN": [{"nsize": 2147483647}, {"alpha": 2}],
    "_backward_LayerNorm": [{"eps": 1}],
    "_backward_MakeLoss": [{"normalization": "batch"}, {"grad_scale": 7}],
    "_backward_Pad": [{"mode": "reflect"}],
    "_backward_Pooling": [{"pool_type": "sum"}],
    "_backward_SequenceMask": [{"value": 7}],
    "_backward_SoftmaxActivation": [{"mode": "channel"}],
    "_backward_SoftmaxOutput": [{"multi_output": "True"}, {"preserve_shape": "True"}, {"out_grad": "True"}],
    "_backward_UpSampling": [{"multi_input_mode": "sum"}],
    "_backward_cast": [{"dtype": "int8"}],
    "_backward_clip": [{"a_min": -9}],
    "_backward_contrib_BilinearResize2D": [{"align_corners": "False"}],
    "_backward_div_scalar": [{"scalar": 3}],
    "_backward_hard_sigmoid": [{"alpha": 7}],
    "_backward_log_softmax": [{"axis": 0}, {"temperature": 2}],
    "_backward_mul_scalar": [{"scalar": "nan"}],
    "_backward_power_scalar": [{"scalar": 3}],
    "_backward_reverse": [{"axis": "(1,)"}],
    "_backward_slice": [{"end": "(2,300)"}],
    "_backward_slice_like": [{"axes": "(0,)"}],
    "_backward_smooth_l1": [{"scalar": 3}],
    "_backward_softmax": [{"axis": 0}, {"temperature": 3}],
    "_backward_squeeze": [{"axis": "(0,)"}],
    "_backward_stack": [{"axis": 1}],
    "_contrib_backward_gradientmultiplier": [{"scalar": 3}],
    "_contrib_backward_quadratic": [{"a": 3}],
}


def fused_attrs():
    for changes, expected in [(OTHER_PLACES, {"infer": "refused", "run": "refused"}), (OTHER_VALUES, {})]:
        for op, ways in changes.items():
            base = INSTANCES[FUSED[op][0]][0]
            for change in ways:
                text = ",".join("%s=%s" % pair for pair in change.items())
                yield case("%s-%s" % (op, text), fused_graph(op, {**base, **change}), **expected)
    # Left out, so that defaults take the place of what the forward node has.
    for op in ["_backward_Crop", "_backward_slice", "_backward_sum", "_backward_repeat", "_backward_UpSampling"]:
        yield case(op + "-none", fused_graph(op, {}), infer="refused", run="refused")


# A forward operator of the same arity whose gradient the fused operator is not.
def stranger(op):
    instance = FUSED[op][0]
    shapes = INSTANCES[instance][1]
    for candidate in ["exp", "elemwise_mul", "where", "LayerNorm", "square", "broadcast_power", "add_n", "adam_update"]:
        if (
            len(INSTANCES[candidate][1]) == len(shapes)
            and candidate != instance.split("@")[0]
            and candidate not in FUSED[op]
        ):
            return candidate
    return "Concat"


def fused_forward(one_in=6):
    for op in FUSED:
        other = stranger(op)
        if "y1" in FUSED[op][1] and op != "_backward_LayerNorm":
            continue  # the stranger has no such output
        name = "%s-of-%s" % (op, other)
        if chosen(name, one_in):
            yield case(name, fused_graph(op, forward=other), infer="refused", run="refused")
        if chosen(name + "-read", one_in) and FUSED[op][1].startswith("d0") and "y1" not in FUSED[op][1]:
            yield case(
                name + "-read",
                fused_graph(op, forward=other, heads=(2, 3), reader=(300, 300)),
                infer="refused",
                run="refused",
            )
    # A forward node that nothing flows through, so that only a reader says what the shape is.
    for number, (op, (instance, operands)) in enumerate(FUSED.items()):
        g = Graph()
        if number % 2:
            forward = g.op("_ones", [], {"shape": "(2,3)"})
        else:
            forward = g.op("sgd_update", [g.var((2, 3)), g.var((2, 3))], {"lr": 1})
        node = g.op(op, [g.var((2, 3)) for _ in operands.split()], INSTANCES[instance][0], deps=[forward])
        read = g.op("elemwise_add", [node, g.var((300, 300))])
        yield case(op + "-of-nothing", g.json(read, forward), infer="refused", run="refused")
    for op in ["_backward_where", "_backward_Crop", "_backward_sum", "_backward_copy", "_broadcast_backward"]:
        g = Graph()
        unknown = g.op("NoSuchOperator", [g.var((2, 3))])
        node = g.op(op, [g.var((2, 3)) for _ in FUSED[op][1].split()], INSTANCES[FUSED[op][0]][0], deps=[unknown])
        g.op("elemwise_add", [node, g.var((300, 300))])
        yield case(op + "-of-unknown", g.json(), run="refused")


# Whose results are of one element, or of any type.
OF_ONE_ELEMENT = ["_backward_softmax_cross_entropy"]
OF_ANY_TYPE = ["_backward_cast", "_backward_amp_cast", "_backward_amp_multicast"]


def fused_operands(one_in=10):
    for op, (_, operands) in FUSED.items():
        if chosen(op, 2):
            yield fine(op + "-right", fused_graph(op))
        if "d0" in operands:
            for heads in [(7, 7), (200, 300), (1,), (0, 3), (2, 3, 4, 5, 6)]:
                name = "%s-head-%s" % (op, tuple_text(heads))
                if chosen(name, one_in) and not (heads == (1,) and op in OF_ONE_ELEMENT):
                    yield case(name, fused_graph(op, heads=heads), infer="refused", run="refused")
            name = op + "-head-float64"
            if chosen(name, one_in) and op not in OF_ANY_TYPE:
                yield case(name, fused_graph(op, head_type="float64"), infer="refused", run="refused")
        if chosen(op + "-alone", one_in):
            yield unreadable(op + "-alone", fused_graph(op, dep=False), "backward_match")


# Their kernels read operands that no rule about the shape of the result speaks of.
UNRELATED = [
    "_backward_broadcast_mul",
    "_backward_broadcast_maximum",
    "_backward_broadcast_power",
    "_backward_max",
    "_backward_prod",
    "_backward_where",
    "_backward_linear_reg_out",
    "_backward_mae_reg_out",
    "_backward_Dropout",
]


def fused_others(one_in=7):
    """Instead of the forward node's own inputs and outputs, variables of other shapes and types."""
    for op, (_, operands) in FUSED.items():
        for k, operand in enumerate(operands.split()):
            if operand[0] == "d":
                continue
            for shape in [(1,), (300, 300), (0, 3), (2, 3, 4, 5, 6)]:
                name = "%s-%d-%s" % (op, k, tuple_text(shape))
                if op in UNRELATED or chosen(name, one_in):
                    graph = fused_graph(op)
                    yield case(
                        name, replaced(graph, k, {"__shape__": tuple_text(shape)}), infer="refused", run="refused"
                    )
            name = "%s-%d-float64" % (op, k)
            if chosen(name, one_in):
                yield case(name, replaced(fused_graph(op), k, {"__dtype__": "float64"}))


def replaced(graph, k, attrs):
    """The graph with a new variable in front of it as input k of its last node."""
    for node in graph["nodes"]:
        node["inputs"] = [[i[0] + 1] + i[1:] for i in node["inputs"]]
        if "control_deps" in node:
            node["control_deps"] = [d + 1 for d in node["control_deps"]]
    graph["nodes"].insert(0, {"op": "null", "name": "other", "inputs": [], "attrs": attrs})
    graph["nodes"][-1]["inputs"][k] = [0, 0, 0]
    graph["arg_nodes"] = [0] + [i + 1 for i in graph["arg_nodes"]]
    graph["heads"] = [[h[0] + 1] + h[1:] for h in graph["heads"]]
    return graph


CLASSES = {
    "fused_attrs": fused_attrs,
    "fused_forward": fused_forward,
    "fused_operands": fused_operands,
    "fused_others": fused_others,
}
