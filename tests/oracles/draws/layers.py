"""Layers of networks, their losses, and attention."""
from draws.families import family
from draws.schema import product


def window(draw, rank, with_dilation=True):
    rng = draw.rng
    odd = lambda values, bad: rng.choice(bad) if draw.chance(0.02) else rng.choice(values)
    count = rank if draw.chance(0.97) else rng.randint(1, 4)
    draw.put("kernel", [odd([1, 2, 3, 3], [0, -1, 9]) for _ in range(count)], 0.99)
    draw.put("stride", [odd([1, 1, 2, 3], [0, -1]) for _ in range(count)], 0.6)
    draw.put("pad", [odd([0, 0, 1, 2], [-1, 5]) for _ in range(count)], 0.6)
    if with_dilation:
        draw.put("dilate", [odd([1, 1, 2], [0, -1]) for _ in range(count)], 0.3)


LAYOUTS = {1: ["NCW", "NWC"], 2: ["NCHW", "NHWC"], 3: ["NCDHW", "NDHWC"]}


@family("Convolution", "Deconvolution")
def convolution(draw):
    rng, rank = draw.rng, draw.rng.choice([1, 2, 2, 3])
    groups = rng.choice([1, 1, 1, 2, 3])
    channels = groups * rng.randint(1, 3) if draw.chance(0.93) else rng.randint(1, 5)
    spatial = [rng.choice([4, 5, 6, 7]) if draw.chance(0.92) else rng.choice([1, 2, 3]) for _ in range(rank)]
    draw.shapes = [(rng.choice([1, 2, 3]), channels, *spatial)]
    window(draw, rank)
    draw.put("num_group", groups if draw.chance(0.97) else 0, 1 if groups > 1 else 0.3)
    draw.put("num_filter", groups * rng.randint(1, 3) if draw.chance(0.93) else rng.choice([0, -1, 1, 5]))
    draw.put("no_bias", rng.choice(["True", "False"]), 0.7)
    draw.put("layout", LAYOUTS[rank][0] if draw.chance(0.8) else rng.choice(["NCW", "NCHW", "NCDHW", "NHWC"]), 0.15)
    if draw.op["name"] == "Deconvolution":
        strides = [int(s) for s in draw.attrs.get("stride", "").strip("(),").split(",") if s]
        most = [s - 1 for s in strides] if len(strides) == rank else [int(draw.chance(0.05))] * rank
        draw.put("adj", [rng.randint(0, max(m, 0)) for m in most], 0.3)
        draw.put("target_shape", [rng.choice([2, 4, 7, 8, 9]) for _ in range(rank)], 0.08)
    draw.fill("workspace", "cudnn_tune", "cudnn_off")


@family("Pooling")
def pooling(draw):
    rng, rank = draw.rng, draw.rng.choice([1, 2, 2, 3])
    draw.shapes = [(rng.choice([1, 2]), rng.randint(1, 3), *[rng.choice([1, 3, 4, 5, 6]) for _ in range(rank)])]
    window(draw, rank, False)
    if draw.chance(0.85):  # no window outside the image, nor in the padding alone
        draw.put("pooling_convention", rng.choice(["valid", "full"]), 0.6)
        kernel = [rng.choice([2, 3]) for _ in range(rank)]
        draw.put("kernel", kernel)
        draw.put("pad", [rng.randint(0, k - 1) for k in kernel], 0.5)
        draw.shapes = [draw.shapes[0][:2] + tuple(max(3, d) for d in draw.shapes[0][2:])]
    elif draw.chance(0.6):
        draw.put("pooling_convention", "same")
        draw.attrs.pop("pad", None)
    if draw.chance(0.15):
        draw.put("global_pool", "True")
        if draw.chance(0.5):
            draw.attrs.pop("kernel", None)
    draw.put("layout", rng.choice(LAYOUTS[rank] if draw.chance(0.8) else LAYOUTS[2]), 0.15)
    draw.put("pool_type", rng.choice(["max", "avg", "sum", "lp"]), 0.9)
    draw.put("p_value", rng.choice([1, 2, 3]) if draw.chance(0.97) else 0, 0.97 if draw.attrs.get("pool_type") == "lp" else 0.1)
    draw.fill("count_include_pad", "cudnn_off")


@family("im2col")
def im2col(draw):
    rank = draw.rng.choice([1, 2, 2, 3])
    draw.shapes = [(draw.rng.choice([1, 2]), draw.rng.randint(1, 3), *[draw.rng.choice([3, 4, 5]) for _ in range(rank)])]
    window(draw, rank)


@family("col2im")
def col2im(draw):
    rng, rank = draw.rng, draw.rng.choice([1, 2, 2])
    size = [rng.choice([3, 4, 5]) for _ in range(rank)]
    window(draw, rank)
    draw.put("output_size", size)
    numbers = {k: eval(v) for k, v in draw.attrs.items()}
    ones = [1] * rank
    kernel, stride, pad, dilate = (numbers.get(k, d) for k, d in
                                   (("kernel", ones), ("stride", ones), ("pad", [0] * rank), ("dilate", ones)))
    try:
        steps = [(s + 2 * p - d * (k - 1) - 1) // t + 1 for s, p, d, k, t in zip(size, pad, dilate, kernel, stride)]
    except ZeroDivisionError:
        steps = ones
    columns = product(max(1, s) for s in steps) if draw.chance(0.94) else 7
    draw.shapes = [(rng.choice([1, 2]), max(1, product(kernel)) * rng.randint(1, 2), columns)]


@family("FullyConnected")
def fully_connected(draw):
    draw.shapes = [draw.shape(1, 4)]
    draw.put("num_hidden", draw.rng.choice([1, 2, 3, 5]) if draw.chance(0.96) else draw.rng.choice([0, -1]))
    draw.fill()


@family("BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "L2Normalization", "LRN", "LeakyReLU", "SoftmaxActivation",
        "UpSampling")
def one_leading(draw):
    name, rng = draw.op["name"], draw.rng
    low = {"GroupNorm": 3, "InstanceNorm": 3, "LRN": 4, "UpSampling": 4, "BatchNorm": 2}.get(name, 1)
    high = {"LRN": 4, "UpSampling": 4}.get(name, 5)
    draw.shapes = [draw.shape(low if draw.chance(0.95) else 1, high)]
    if name == "GroupNorm":
        shape = list(draw.shapes[0])
        groups = rng.choice([1, 2, 3])
        if draw.chance(0.9) and len(shape) > 1:
            shape[1] = groups * rng.randint(1, 2)
        draw.shapes = [tuple(shape)]
        draw.put("num_groups", groups, 0.95)
    if name == "BatchNorm":
        draw.put("axis", draw.axis(len(draw.shapes[0])), 0.4)
    if name == "LRN":
        draw.put("nsize", rng.choice([1, 3, 5, 3, 2, 7]))
        draw.put("alpha", rng.choice([0.5, 1, 1e-4]), 0.7)
        draw.put("beta", rng.choice([0.5, 1, 0.75]), 0.7)
        draw.put("knorm", rng.choice([1, 2, 3]), 0.7)
    if name == "UpSampling":
        draw.put("sample_type", rng.choice(["nearest", "nearest", "bilinear"]))
        draw.put("scale", rng.choice([1, 2, 3]))
        count = rng.choice([1, 1, 2, 3]) if draw.attrs["sample_type"] == "nearest" else 1
        draw.put("num_filter", draw.shapes[0][1] if len(draw.shapes[0]) > 1 else 1, 1 if draw.attrs["sample_type"] == "bilinear" else 0.1)
        if draw.attrs["sample_type"] == "bilinear":
            draw.num_args = 2
            draw.attrs["num_args"] = "1" if draw.chance(0.9) else "2"
        else:
            n, c, h, w = (draw.shapes[0] + (1, 2, 4, 4))[:4]
            draw.num_args = count
            draw.attrs["num_args"] = str(count)
            draw.shapes = [(n, c, h * f, w * f) for f in ([1] if count == 1 else rng.sample([1, 2], 2) if count == 2 else [2, 1, 2])]
    draw.put("output_mean_var", "False", 0.7)
    draw.fill()


@family("RNN")
def rnn(draw):
    rng = draw.rng
    draw.shapes = [(rng.choice([1, 2, 3]), rng.choice([1, 2]), rng.choice([1, 2, 3]))]
    draw.put("mode", rng.choice(["lstm", "gru", "rnn_tanh", "rnn_relu"]))
    draw.put("state_size", rng.choice([1, 2, 3]) if draw.chance(0.97) else 0)
    draw.put("num_layers", rng.choice([1, 2]) if draw.chance(0.97) else 0)
    draw.put("bidirectional", rng.choice(["True", "False"]), 0.7)
    draw.put("state_outputs", rng.choice(["True", "False"]), 0.7)
    draw.put("projection_size", rng.choice([1, 2]), 0.08)
    draw.put("p", 0.5, 0.05)
    if draw.chance(0.05):
        draw.fill("lstm_state_clip_min", "lstm_state_clip_max", "lstm_state_clip_nan", "use_sequence_length")


@family("SoftmaxOutput")
def softmax_output(draw):
    draw.shapes = [draw.shape(2, 4)]
    draw.put("smooth_alpha", round(draw.rng.uniform(0, 1), 3) if draw.chance(0.95) else 2, 0.3)
    draw.attrs.setdefault("smooth_alpha", "0")
    draw.fill()
    classes = draw.shapes[0][1] if draw.attrs.get("multi_output") in ("True", "1") else draw.shapes[0][-1]
    draw.domains[1] = ("class", max(classes, 1))
    draw.put("ignore_label", draw.rng.choice([-1, 0, 1]), 0.4)


@family("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput")
def regression_output(draw):
    draw.shapes = [draw.shape(1, 4)]
    if draw.chance(0.2):
        draw.shapes.append(draw.shapes[0])
    draw.fill()


@family("SVMOutput", "softmax_cross_entropy")
def class_loss(draw):
    shape = draw.shape(2, 2) if draw.chance(0.95) else draw.shape(1, 3)
    draw.shapes = [shape, (shape[0],)]
    draw.domains[1] = ("class", max(shape[-1], 1))
    draw.put("regularization_coefficient", draw.rng.choice([0.5, 1, 2]), 0.5)
    draw.fill()


@family("CTCLoss")
def ctc_loss(draw):
    rng = draw.rng
    steps, batch, classes, length = rng.choice([2, 4, 5, 7]), rng.choice([1, 2]), rng.choice([2, 3, 4]), rng.choice([1, 2, 3])
    draw.shapes = [(steps, batch, classes), (batch, length)]
    for name, most in (("use_data_lengths", steps), ("use_label_lengths", length)):
        draw.put(name, draw.chance(0.5), 0.6)
        if draw.attrs.get(name) == "True":
            draw.domains[len(draw.shapes)] = ("length", most)
            draw.shapes.append((batch,))
    draw.put("blank_label", rng.choice(["first", "last"]), 0.6)
    draw.domains[1] = ("class" if draw.attrs.get("blank_label") == "last" else "class above 0", classes - 1)


@family("SequenceLast", "SequenceReverse", "SequenceMask")
def sequence(draw):
    shape = draw.shape(2 if draw.op["name"] != "SequenceReverse" else 3, 4)
    axis = draw.rng.choice([0, 0, 1]) if draw.op["name"] != "SequenceReverse" else 0
    draw.shapes = [shape]
    draw.put("axis", axis if draw.chance(0.96) else 2, 1 if axis else 0.3)
    draw.put("use_sequence_length", draw.rng.choice(["True", "False"]), 0.8)
    if draw.attrs.get("use_sequence_length") == "True":
        draw.shapes.append((shape[1 - axis],))
    draw.domains[1] = ("length", shape[axis])
    draw.fill("value")


@family("softmax", "log_softmax", "softmin")
def softmaxes(draw):
    draw.shapes = [draw.shape(1, 4)]
    rank = len(draw.shapes[0])
    axis = draw.axis(rank)
    draw.put("axis", axis, 0.7)
    draw.put("temperature", draw.rng.choice(["None", 0.5, 2, 10]), 0.4)
    draw.put("dtype", draw.rng.choice(["None", "float32", "float64", "float16"]), 0.15)
    if draw.op["name"] == "softmax" and draw.chance(0.25):
        draw.put("use_length", "True")
        at = axis if "axis" in draw.attrs and -rank <= axis < rank else -1
        shape = draw.shapes[0]
        draw.shapes.append(tuple(d for a, d in enumerate(shape) if a != at % rank))
        draw.domains[1] = ("length", shape[at])
        draw.types[1] = draw.rng.choice(["int32", "int64"])


@family("_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_selfatt_valatt",
        "_contrib_interleaved_matmul_encdec_qk", "_contrib_interleaved_matmul_encdec_valatt")
def interleaved(draw):
    rng, name = draw.rng, draw.op["name"]
    steps, others, batch, heads, size = (rng.choice([1, 2, 3]) for _ in range(5))
    width = heads * size + (1 if draw.chance(0.04) else 0)
    if "selfatt" in name:
        draw.shapes = [(steps, batch, 3 * width)]
        others = steps
    else:
        draw.shapes = [(others, batch, 2 * width)]
        if name.endswith("qk"):
            draw.shapes.insert(0, (steps, batch, width))
    if name.endswith("valatt"):
        draw.shapes.append((batch * heads, steps, others))
    draw.put("heads", heads if draw.chance(0.97) else 0)


@family("_contrib_AdaptiveAvgPooling2D", "_contrib_BilinearResize2D")
def resize(draw):
    rng = draw.rng
    draw.shapes = [draw.shape(4, 4) if draw.chance(0.96) else draw.shape(3, 3)]
    if draw.op["name"] == "_contrib_AdaptiveAvgPooling2D":
        draw.put("output_size", rng.choice([1, 2, 3, [2], [2, 3], [4, 1], [0, 2], [], [1, 2, 3]]), 0.9)
        return
    mode = rng.choice(["size", "odd_scale", "like", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up"])
    draw.put("mode", mode, 1 if mode != "size" else 0.5)
    if mode == "like":
        draw.shapes.append(draw.shape(4, 4))
    if mode == "size" and draw.chance(0.7):
        draw.put("height", rng.choice([1, 2, 4, 5]))
        draw.put("width", rng.choice([1, 2, 4, 5]))
    if mode == "odd_scale" or mode == "size" and "height" not in draw.attrs:
        draw.put("scale_height", rng.choice([0.5, 1, 2, 1.5]), 0.95)
        draw.put("scale_width", rng.choice([0.5, 1, 2, 1.5]), 0.95)
    draw.put("align_corners", rng.choice(["True", "False"]), 0.5)
