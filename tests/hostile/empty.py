"""Tensors without any element beside axes so long that a loop over them does not end."""

from .graphs import case, fine, one, thinned, tuple_text
from .instances import INSTANCES

EMPTY = [(2**31, 0, 3), (0, 2**33, 2), (2**33, 2, 0), (2**20, 0, 2**20, 3), (2, 2**33, 0, 1)]


def empty(one_in=3):
    """No element at all beside axes so long that a loop over them does not end."""
    plain = [
        "softmax",
        "log_softmax",
        "softmin",
        "SoftmaxActivation",
        "_SoftmaxOutput_softmax",
        "L2Normalization",
        "L2Normalization@channel",
        "L2Normalization@spatial",
        "LRN",
        "_channel_window_sum",
        "Dropout",
        "Dropout@axes",
        "exp",
        "sum",
        "mean",
        "max",
        "min",
        "prod",
        "transpose",
        "SwapAxis",
        "Flatten",
        "_as_rows",
        "expand_dims",
        "reverse",
        "slice_axis",
        "tile",
        "repeat",
        "repeat@flat",
        "_contrib_div_sqrt_dim",
        "LeakyReLU@rrelu",
        "LeakyReLU@gelu",
        "_plus_scalar",
        "Cast",
        "MakeLoss@valid",
        "zeros_like",
        "SliceChannel",
    ]
    for number, op in enumerate(plain):
        attrs = INSTANCES[op][0]
        for k in (number, number + 2):
            shape = EMPTY[k % len(EMPTY)]
            yield case("%s-%s" % (op, tuple_text(shape)), one(op.split("@")[0], attrs, [shape]))
    yield fine("softmax", one("softmax", {}, [(2**31, 0, 3)]), (2**31, 0, 3))
    yield fine("log_softmax", one("log_softmax", {"axis": 0}, [(2**31, 0, 3)]), (2**31, 0, 3))
    yield fine("exp", one("exp", {}, [(2**31, 0, 3)]), (2**31, 0, 3))
    yield from thinned(empty_rows(), one_in)
    yield from thinned(empty_images(), one_in)
    for shapes in [[(2**33, 0), (0, 1)], [(0, 2**20), (2**20, 4)], [(0, 4), (4, 2**33)], [(0, 2**33), (2**33, 0)]]:
        yield case("dot-" + tuple_text(shapes[0]), one("dot", {}, shapes))
        yield case("batch_dot-" + tuple_text(shapes[0]), one("batch_dot", {}, [(1,) + s for s in shapes]))
    yield case("batch_dot-batch", one("batch_dot", {}, [(2**40, 0, 4), (2**40, 4, 0)]))
    yield case("batch_dot-batch-2", one("batch_dot", {}, [(2**40, 2, 0), (2**40, 0, 0)]))
    yield case("FullyConnected-rows", one("FullyConnected", {"num_hidden": 1, "no_bias": "True"}, [(0, 2**20), None]))
    yield case(
        "FullyConnected-axes",
        one("FullyConnected", {"num_hidden": 1, "flatten": "False"}, [(2**30, 2**10, 0, 4), None, None]),
    )
    yield case("Embedding", one("Embedding", {"input_dim": 3, "output_dim": 2}, [(2**33, 0), None]))
    yield case("stack", one("stack", {"num_args": 2}, [(2**33, 0)] * 2))
    yield case("broadcast_to", one("broadcast_to", {"shape": tuple_text((2**33, 0))}, [(1, 1)]))
    yield case("adam_update", one("adam_update", {"lr": 0.1}, [(2**33, 0)] * 4))
    yield case("LeakyReLU-prelu", one("LeakyReLU", {"act_type": "prelu"}, [(2**33, 3, 0), None]))
    yield case("LeakyReLU-prelu-one", one("LeakyReLU", {"act_type": "prelu"}, [(2**33, 0, 3), (1,)]))
    yield case("slice_like", one("slice_like", {"axes": "(1,)"}, [(2**33, 4), (1, 0)]))


def empty_rows():
    for shape in EMPTY:
        text = tuple_text(shape)
        yield case("LayerNorm-" + text, one("LayerNorm", {"axis": -1}, [shape, None, None]))
        yield case("BatchNorm-" + text, one("BatchNorm", {"axis": -1}, [shape] + [None] * 4))
        yield case("LinearRegressionOutput-" + text, one("LinearRegressionOutput", {}, [shape, shape]))
        for multi in ["True", "False"]:
            yield case(
                "SoftmaxOutput-%s-%s" % (text, multi),
                one("SoftmaxOutput", {"multi_output": multi, "normalization": "valid"}, [shape, None]),
            )
        yield case("SoftmaxOutput-preserve-" + text, one("SoftmaxOutput", {"preserve_shape": "True"}, [shape, None]))
        yield case("SequenceMask-" + text, one("SequenceMask", {"use_sequence_length": "True"}, [shape, None]))
        yield case("broadcast-" + text, one("broadcast_add", {}, [shape, (1,) * len(shape)]))
        yield case("Concat-" + text, one("Concat", {"num_args": 2, "dim": 0}, [shape, shape]))
        yield case("where-" + text, one("where", {}, [shape[:1], shape, shape]))
        yield case("elemwise-" + text, one("elemwise_mul", {}, [shape, shape]))
        yield case("softmax-length-" + text, one("softmax", {"use_length": "True"}, [shape, None]))


def empty_images():
    for shape in [(2**33, 0, 1, 1), (0, 2**33, 1, 1), (1, 0, 2**16, 2**17), (2**20, 0, 2**10, 2**10)]:
        text = tuple_text(shape)
        yield case("Pooling-" + text, one("Pooling", {"kernel": "(1,1)", "pool_type": "max"}, [shape]))
        yield case("Pooling-avg-" + text, one("Pooling", {"kernel": "(1,1)", "pool_type": "avg"}, [shape]))
        yield case("Pooling-global-" + text, one("Pooling", {"global_pool": "True", "pool_type": "sum"}, [shape]))
        yield case("InstanceNorm-" + text, one("InstanceNorm", {}, [shape, None, None]))
        yield case(
            "Convolution-" + text,
            one("Convolution", {"kernel": "(1,1)", "num_filter": 1, "no_bias": "True"}, [shape, None]),
        )
        yield case("Deconvolution-" + text, one("Deconvolution", {"kernel": "(1,1)", "num_filter": 1}, [shape, None]))
        yield case(
            "UpSampling-" + text, one("UpSampling", {"scale": 2, "sample_type": "nearest", "num_args": 1}, [shape])
        )
        yield case("Adaptive-" + text, one("_contrib_AdaptiveAvgPooling2D", {"output_size": "(3,3)"}, [shape]))
        yield case("Bilinear-" + text, one("_contrib_BilinearResize2D", {"height": 3, "width": 3}, [shape]))
        yield case("Crop-" + text, one("Crop", {"num_args": 1, "h_w": "(1,1)"}, [shape]))
        yield case("Pad-" + text, one("Pad", {"mode": "constant", "pad_width": "(0,0,0,0,1,1,1,1)"}, [shape]))
        yield case("LRN-" + text, one("LRN", {"nsize": 2147483647}, [shape]))


CLASSES = {"empty": empty}
