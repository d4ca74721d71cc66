"""Shapes and attributes that belong together, family by family. What no function here names is drawn by `same_shapes`."""
from draws.schema import product

NETS = {}


def family(*names):
    def add(function):
        for name in names:
            NETS[name] = function
        return function
    return add


def fill_in(draw):
    """Draws attributes and shapes of an operator."""
    NETS.get(draw.op["name"], by_name)(draw)


def by_name(draw):
    name = draw.op["name"]
    if name.startswith("broadcast_") or name in ("_npi_arctan2", "_npi_ldexp"):
        return broadcast_pair(draw)
    if name in ("sum", "mean", "prod", "nansum", "nanprod", "max", "min", "norm"):
        return reduction(draw)
    same_shapes(draw)


def same_shapes(draw):
    count = len(draw.op["inputs"]["names"])
    shape = draw.shape(0 if draw.chance(0.04) else 1)
    draw.shapes = [shape] * count
    draw.fill()
    if count > 1 and draw.chance(0.06):
        draw.shapes[draw.rng.randrange(count)] = draw.shape()


def broadcast_pair(draw):
    full = draw.shape(1)
    cut = [1 if draw.chance(0.3) else d for d in full]
    other = [1 if draw.chance(0.3) else d for d in full]
    if draw.op["name"].startswith("_npi"):
        other = other[draw.rng.randrange(len(other)):]
    if draw.chance(0.06):
        other = draw.shape()
    draw.shapes = [tuple(cut), tuple(other)]
    draw.fill()


def reduction(draw):
    draw.shapes = [draw.shape()]
    rank = len(draw.shapes[0])
    draw.put("axis", draw.axis(rank) if draw.chance(0.3) else draw.axes(rank, 2 if draw.op["name"] == "norm" else None), 0.85)
    if draw.op["name"] == "norm":
        draw.put("ord", draw.rng.choice([1, 2, 2, 3, 0]), 0.6)
    draw.fill()


@family("broadcast_to")
def broadcast_to(draw):
    full = draw.shape()
    draw.shapes = [tuple(1 if draw.chance(0.4) else d for d in full)]
    target = [0 if draw.chance(0.2) and a == b else b for a, b in zip(draw.shapes[0], full)]
    if draw.chance(0.06):
        target = list(draw.shape())
    draw.put("shape", target, 0.98)


@family("broadcast_axis")
def broadcast_axis(draw):
    shape = [1 if draw.chance(0.5) else d for d in draw.shape()]
    draw.shapes = [tuple(shape)]
    ones = [a for a, d in enumerate(shape) if d == 1]
    axes = draw.rng.sample(ones, draw.rng.randint(0, len(ones))) if draw.chance(0.9) else draw.axes(len(shape))
    draw.put("axis", axes)
    draw.put("size", [draw.rng.choice([1, 2, 3, 4]) for _ in axes] + ([2] if draw.chance(0.05) else []))


@family("broadcast_like")
def broadcast_like(draw):
    full = draw.shape()
    cut = tuple(1 if draw.chance(0.4) else d for d in full)
    draw.shapes = [cut, full]
    if draw.chance(0.4):
        rank = len(full)
        axes = draw.axes(rank)
        draw.put("lhs_axes", axes)
        draw.put("rhs_axes", axes if draw.chance(0.7) else draw.axes(rank))
        draw.shapes[1] = full if draw.chance(0.5) else draw.shape()


def window(draw, rank, with_dilation=True):
    rng = draw.rng
    odd = lambda values, bad: rng.choice(bad) if draw.chance(0.02) else rng.choice(values)
    count = rank if draw.chance(0.97) else rng.randint(1, 4)
    draw.put("kernel", [odd([1, 2, 3, 3], [0, -1, 9]) for _ in range(count)], 0.99)
    draw.put("stride", [odd([1, 1, 2, 3], [0, -1]) for _ in range(count)], 0.6)
    draw.put("pad", [odd([0, 0, 1, 2], [-1, 5]) for _ in range(count)], 0.6)
    if with_dilation:
        draw.put("dilate", [odd([1, 1, 2], [0, -1]) for _ in range(count)], 0.3)


@family("Convolution", "Deconvolution")
def convolution(draw):
    rng, rank = draw.rng, draw.rng.choice([1, 2, 2, 3])
    groups = rng.choice([1, 1, 1, 2, 3])
    channels = groups * rng.randint(1, 3) if draw.chance(0.93) else rng.randint(1, 5)
    spatial = [rng.choice([1, 3, 4, 5, 6]) for _ in range(rank)]
    draw.shapes = [(rng.choice([1, 2, 3]), channels, *spatial)]
    window(draw, rank)
    draw.put("num_group", groups if draw.chance(0.97) else 0, 1 if groups > 1 else 0.3)
    draw.put("num_filter", groups * rng.randint(1, 3) if draw.chance(0.93) else rng.choice([0, -1, 1, 5]))
    draw.put("no_bias", rng.choice(["True", "False"]), 0.7)
    draw.put("layout", rng.choice(["NCW", "NCHW", "NCDHW", "NHWC", "None"]), 0.1)
    if draw.op["name"] == "Deconvolution":
        draw.put("adj", [rng.choice([0, 0, 1, 2]) for _ in range(rank)], 0.3)
        draw.put("target_shape", [rng.choice([2, 4, 7, 8, 9]) for _ in range(rank)], 0.12)
    draw.fill("workspace", "cudnn_tune", "cudnn_off")


@family("Pooling")
def pooling(draw):
    rng, rank = draw.rng, draw.rng.choice([1, 2, 2, 3])
    draw.shapes = [(rng.choice([1, 2]), rng.randint(1, 3), *[rng.choice([1, 3, 4, 5, 6]) for _ in range(rank)])]
    window(draw, rank, False)
    if draw.chance(0.15):
        draw.put("global_pool", "True")
        if draw.chance(0.5):
            draw.attrs.pop("kernel", None)
    draw.put("layout", rng.choice(["NCW", "NCHW", "NCDHW", "NWC", "NHWC", "NDHWC"]), 0.12)
    draw.put("p_value", rng.choice([1, 2, 3, 0]), 0.3)
    draw.put("pooling_convention", rng.choice(["valid", "full", "same"]), 0.6)
    draw.put("pool_type", rng.choice(["max", "avg", "sum", "lp"]), 0.9)
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
    draw.domains = {2: ("length", steps), 3: ("length", length)}
    draw.put("use_data_lengths", rng.choice(["True", "False"]), 0.5)
    draw.put("use_label_lengths", rng.choice(["True", "False"]), 0.5)
    draw.put("blank_label", rng.choice(["first", "last"]), 0.6)
    draw.domains[1] = ("class" if draw.attrs.get("blank_label") == "last" else "class above 0", classes - 1)


@family("Embedding")
def embedding(draw):
    rows = draw.rng.choice([1, 2, 3, 5])
    draw.shapes = [draw.shape(1, 3)]
    draw.put("input_dim", rows if draw.chance(0.97) else 0)
    draw.put("output_dim", draw.rng.choice([1, 2, 4]) if draw.chance(0.97) else 0)
    draw.put("dtype", draw.rng.choice(["float32", "float64"]), 0.3)
    draw.domains[0] = ("index", rows)


@family("one_hot")
def one_hot(draw):
    depth = draw.rng.choice([1, 2, 3, 4]) if draw.chance(0.95) else draw.rng.choice([0, -1])
    draw.shapes = [draw.shape(1, 3)]
    draw.put("depth", depth)
    draw.domains[0] = ("index", max(depth, 1))
    draw.fill()


@family("take")
def take(draw):
    draw.shapes = [draw.shape(1, 4), draw.shape(0 if draw.chance(0.02) else 1, 3, 30)]
    rank = len(draw.shapes[0])
    axis = draw.axis(rank)
    draw.put("axis", axis, 0.7)
    axis = axis if "axis" in draw.attrs else 0
    draw.put("mode", draw.rng.choice(["clip", "wrap", "raise"]), 0.8)
    draw.domains[1] = ("index", draw.shapes[0][axis] if -rank <= axis < rank else 3)


@family("pick")
def pick(draw):
    shape = draw.shape(1, 4)
    rank = len(shape)
    axis = draw.axis(rank)
    draw.put("axis", axis, 0.7)
    axis = axis if "axis" in draw.attrs else -1
    at = axis % rank
    draw.shapes = [shape, shape[:at] + ((1,) if draw.chance(0.3) else ()) + shape[at + 1:]]
    if draw.chance(0.05):
        draw.shapes[1] = draw.shape(1, 3)
    draw.domains[1] = ("index", shape[at])
    draw.put("keepdims", draw.rng.choice(["True", "False"]), 0.5)
    draw.put("mode", draw.rng.choice(["clip", "wrap"]), 0.6)


@family("batch_take")
def batch_take(draw):
    shape = draw.shape(2, 2)
    draw.shapes = [shape, (shape[0],) if draw.chance(0.95) else draw.shape(1, 2)]
    draw.domains[1] = ("index", max(shape[1], 1))
    draw.types[1] = "int32"


@family("gather_nd")
def gather_nd(draw):
    shape = draw.shape(1, 4)
    depth = draw.rng.randint(1, len(shape)) if draw.chance(0.96) else len(shape) + 1
    draw.shapes = [shape, (depth, *draw.shape(1, 2, 12))]
    draw.domains[1] = ("cells", shape)


@family("scatter_nd", "_scatter_set_nd")
def scatter_nd(draw):
    shape = draw.shape(1, 4)
    depth = draw.rng.randint(1, len(shape)) if draw.chance(0.96) else len(shape) + 1
    cells = draw.shape(1, 2, 12)
    data = (*cells, *shape[depth:])
    draw.put("shape", shape)
    draw.shapes = [data, (depth, *cells)]
    at = 1
    if draw.op["name"] == "_scatter_set_nd":
        draw.shapes.insert(0, shape)
        at = 2
    draw.domains[at] = ("distinct cells", shape)


@family("_contrib_index_copy")
def index_copy(draw):
    shape = draw.shape(1, 3)
    count = draw.rng.randint(1, max(shape[0], 1))
    draw.shapes = [shape, (count,), (count, *shape[1:])]
    draw.types[1] = draw.rng.choice(["int32", "int64", "float32"])
    draw.domains[1] = ("distinct", shape[0])


@family("where")
def where(draw):
    shape = draw.shape(1)
    draw.shapes = [shape if draw.chance(0.6) else shape[:1], shape, shape]
    if draw.chance(0.06):
        draw.shapes[draw.rng.randrange(3)] = draw.shape()
    draw.domains[0] = ("truth", 2)
    draw.types[0] = draw.rng.choice([draw.dtype, "float32", "int32", "int64", "uint8"])


@family("dot", "batch_dot", "_linalg_gemm2", "_linalg_gemm")
def products(draw):
    rng, name = draw.rng, draw.op["name"]
    a, b = draw.chance(0.4), draw.chance(0.4)
    m, k, n = draw.size(), draw.size(), draw.size()
    draw.put("transpose_a", a, 1 if a else 0.5)
    draw.put("transpose_b", b, 1 if b else 0.5)
    if draw.chance(0.05):
        n, k = 2, 3
        a = not a
    lead = {"dot": (), "batch_dot": (draw.size(),)}.get(name, tuple(draw.size() for _ in range(rng.randint(0, 2))))
    if name == "dot" and draw.chance(0.5):
        left, right = draw.shape(0 if draw.chance(0.1) else 1, 3, 60), list(draw.shape(1, 3, 60))
        if left:
            shared = left[0] if a else left[-1]
            right[-1 if b else 0] = shared
        draw.shapes = [left, tuple(right)]
        return
    draw.shapes = [(*lead, k, m) if a else (*lead, m, k), (*lead, n, k) if b else (*lead, k, n)]
    if name == "_linalg_gemm":
        draw.shapes.append((*lead, m, n))
    if name.startswith("_linalg"):
        draw.put("alpha", rng.choice([0, 0.5, -2]), 0.5)
        draw.put("beta", rng.choice([0, 0.5, -2]), 0.5)
        if draw.chance(0.15):
            draw.put("axis", rng.choice([-2, -3, 0, 1, 5]))


@family("khatri_rao")
def khatri_rao(draw):
    count, columns = draw.rng.choice([1, 2, 3]), draw.size()
    draw.num_args = count
    draw.put("num_args", count)
    draw.shapes = [(draw.size(), columns if draw.chance(0.97) else 2) for _ in range(count)]


@family("Concat", "stack", "add_n", "amp_multicast")
def many(draw):
    rng, name = draw.rng, draw.op["name"]
    count = rng.choice([1, 2, 3, 4])
    draw.num_args = count
    draw.put("num_outputs" if name == "amp_multicast" else "num_args", count)
    shape = draw.shape(1, 4)
    draw.shapes = [shape] * count
    rank = len(shape)
    if name == "Concat":
        axis = draw.axis(rank)
        draw.put("dim", axis, 0.8)
        axis = axis if "dim" in draw.attrs else 1
        if -rank <= axis < rank:
            draw.shapes = [tuple(draw.size() if a == axis % rank else d for a, d in enumerate(shape)) for _ in range(count)]
    if name == "stack":
        draw.put("axis", rng.randint(-rank - 1, rank) if draw.chance(0.93) else rank + 2, 0.8)
    if name == "amp_multicast":
        for k in range(count):
            draw.types[k] = rng.choice(["float16", "float32", "float64"])
        draw.fill("cast_narrow")
    if draw.chance(0.05):
        draw.shapes[-1] = draw.shape(1, 4)


@family("SliceChannel")
def slice_channel(draw):
    count, shape = draw.rng.choice([1, 2, 3]), list(draw.shape(1, 4))
    axis = draw.axis(len(shape))
    draw.put("axis", axis, 0.7)
    axis = axis if "axis" in draw.attrs else 1
    if -len(shape) <= axis < len(shape) and draw.chance(0.93):
        shape[axis] = count * draw.rng.choice([1, 1, 2])
    draw.shapes = [tuple(shape)]
    draw.put("num_outputs", count if draw.chance(0.97) else 0)
    draw.put("squeeze_axis", draw.rng.choice(["True", "False"]), 0.5)


def ranges(draw, shape):
    """begin, end and step of a slice, mostly such that something is left."""
    rng, begin, end, step = draw.rng, [], [], []
    for d in shape[:rng.randint(1, max(len(shape), 1))]:
        s = rng.choice([1, 1, 2, -1, -2]) if draw.chance(0.97) else 0
        a, b = sorted((rng.randint(0, d), rng.randint(0, d)))
        if a == b and draw.chance(0.9):
            a, b = 0, d
        if s < 0:
            a, b = b - 1, a - 1
        wrapped = lambda v: v - d if draw.chance(0.3) and 0 <= v < d else v
        begin.append("None" if draw.chance(0.2) else wrapped(a))
        end.append("None" if draw.chance(0.2) or b < 0 else wrapped(b))
        if draw.chance(0.03):
            end[-1] = rng.choice([d + 2, -d - 2])
        step.append(s)
    draw.put("begin", begin)
    draw.put("end", end)
    draw.put("step", step if draw.chance(0.95) else step + [1], 1 if any(s not in (1, "None") for s in step) else 0.4)


@family("slice")
def slice_(draw):
    draw.shapes = [draw.shape(1, 4)]
    ranges(draw, draw.shapes[0])


@family("_slice_assign", "_slice_assign_scalar")
def slice_assign(draw):
    shape = draw.shape(1, 4)
    draw.shapes = [shape]
    ranges(draw, shape)
    if draw.op["name"] == "_slice_assign":
        import numpy
        parts = [[None if x in ("None", "") else int(x) for x in draw.attrs[k].strip("(),").split(", ")] if k in draw.attrs
                 else [None] * 9 for k in ("begin", "end", "step")]
        try:
            rhs = numpy.zeros(shape)[tuple(slice(*p) for p in zip(*parts))].shape
        except ValueError:
            rhs = shape
        draw.shapes.append(rhs)
    draw.fill("scalar")


@family("slice_axis")
def slice_axis(draw):
    draw.shapes = [draw.shape(1, 4)]
    rank, rng = len(draw.shapes[0]), draw.rng
    axis = draw.axis(rank)
    size = draw.shapes[0][axis] if -rank <= axis < rank else 3
    begin, end = sorted((rng.randint(0, size), rng.randint(0, size)))
    if begin == end:
        begin, end = 0, size
    draw.put("axis", axis)
    draw.put("begin", begin - size if draw.chance(0.3) else begin)
    draw.put("end", "None" if draw.chance(0.2) else end - size if draw.chance(0.2) else end if draw.chance(0.96) else size + 2)


@family("slice_like")
def slice_like(draw):
    shape = draw.shape(1, 4)
    draw.shapes = [shape, tuple(draw.rng.randint(1, d) if d else 0 for d in shape)]
    if draw.chance(0.1):
        draw.shapes[1] = draw.shape(1, 4)
    draw.fill()


@family("Reshape")
def reshape(draw):
    shape = draw.shape(1, 5)
    rng, left, target = draw.rng, list(shape), []
    if draw.chance(0.08):
        target = [rng.choice([-5, -4, -3, -2, -1, 0, 1, 2, 3]) for _ in range(rng.randint(0, 4))]
    else:
        inferred = False
        while left:
            code = rng.choice(["keep", "keep", "copy", "merge", "split", "rest", "infer"])
            if code == "keep":
                target.append(left.pop(0))
            elif code == "copy":
                target.append(0)
                left.pop(0)
            elif code == "merge" and len(left) > 1:
                target.append(-3)
                left[:2] = []
            elif code == "split":
                d = left.pop(0)
                divisors = [k for k in range(1, d + 1) if d % k == 0] or [1]
                a = rng.choice(divisors)
                pair = [a, d // a]
                if draw.chance(0.3):
                    pair[rng.randrange(2)] = -1
                target += [-4] + pair
            elif code == "rest":
                target.append(-2)
                left = []
            elif code == "infer" and not inferred:
                inferred = True
                target.append(-1)
                left[:rng.randint(1, len(left))] = []
    draw.shapes = [shape]
    draw.put("shape", target, 0.98)
    draw.put("reverse", rng.choice(["True", "False"]), 0.4)
    if draw.chance(0.04):
        draw.fill("target_shape", "keep_highest")


@family("reshape_like")
def reshape_like(draw):
    shape = draw.shape(1, 4)
    other = list(shape)
    draw.rng.shuffle(other)
    draw.shapes = [shape, tuple(other)]
    if draw.chance(0.5):
        rank = len(shape)
        a = draw.rng.randint(0, rank)
        b = draw.rng.randint(a, rank)
        draw.shapes[1] = shape
        for side in ("lhs", "rhs"):
            draw.put(side + "_begin", a if draw.chance(0.8) else a - rank, 0.8)
            draw.put(side + "_end", b if draw.chance(0.8) else "None", 0.8)


@family("transpose")
def transpose(draw):
    draw.shapes = [draw.shape(1, 5)]
    rank = len(draw.shapes[0])
    axes = draw.rng.sample(range(rank), rank)
    if draw.chance(0.15):
        axes[0] -= rank
    if draw.chance(0.06):
        axes = draw.axes(rank)
    draw.put("axes", axes, 0.9)


@family("expand_dims")
def expand_dims(draw):
    draw.shapes = [draw.shape(0 if draw.chance(0.05) else 1, 4)]
    rank = len(draw.shapes[0])
    draw.put("axis", draw.rng.randint(-rank - 1, rank) if draw.chance(0.93) else rank + 2)


@family("squeeze")
def squeeze(draw):
    shape = tuple(1 if draw.chance(0.5) else d for d in draw.shape())
    draw.shapes = [shape]
    ones = [a for a, d in enumerate(shape) if d == 1]
    axes = draw.rng.sample(ones, draw.rng.randint(0, len(ones)))
    draw.put("axis", [a - len(shape) if draw.chance(0.3) else a for a in axes] if draw.chance(0.9) else draw.axes(len(shape)), 0.7)


@family("tile", "repeat")
def tile(draw):
    draw.shapes = [draw.shape(1, 3, 40)]
    rng, rank = draw.rng, len(draw.shapes[0])
    draw.put("reps", [rng.choice([1, 2, 3]) if draw.chance(0.96) else rng.choice([0, -1]) for _ in range(rng.randint(0, rank + 1))])
    draw.put("repeats", rng.choice([1, 2, 3]) if draw.chance(0.95) else rng.choice([0, -1]))
    draw.put("axis", draw.axis(rank), 0.7)


@family("Pad")
def pad(draw):
    rng = draw.rng
    draw.put("mode", rng.choice(["constant", "edge", "reflect"]))
    shape = draw.shape(4, 5) if draw.chance(0.95) else draw.shape(1, 3)
    draw.shapes = [shape]
    width = []
    for a, d in enumerate(shape):
        most = 0 if a < 2 and draw.chance(0.96) else d - 1 if draw.chance(0.95) else d + 1
        width += [rng.randint(0, max(0, min(most, 3))), rng.randint(0, max(0, min(most, 3)))]
    if draw.chance(0.03):
        width.pop()
    draw.put("pad_width", width)
    draw.fill("constant_value")


@family("Crop")
def crop(draw):
    rng, shape = draw.rng, draw.shape(4, 4)
    count = rng.choice([1, 2])
    draw.put("num_args", count)
    inner = [rng.randint(1, max(d, 1)) if draw.chance(0.96) else d + 1 for d in shape[2:]]
    draw.num_args = count
    draw.shapes = [shape] + ([(*shape[:2], *inner)] if count == 2 else [])
    draw.put("h_w", inner, 1 if count == 1 else 0.1)
    draw.put("offset", [rng.randint(0, max(0, d - i)) for d, i in zip(shape[2:], inner)], 0.5)
    draw.put("center_crop", rng.choice(["True", "False"]), 0.4)


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


@family("topk", "sort", "argsort", "argmax", "argmin", "_np_cumsum")
def ordering(draw):
    draw.shapes = [draw.shape(1, 4)]
    rank = len(draw.shapes[0])
    axis = draw.axis(rank)
    draw.put("axis", axis if draw.chance(0.85) else "None", 0.8)
    draw.domains[0] = ("distinct", 0)
    draw.put("k", draw.rng.choice([1, 2, 3, 0, 1, 2]) if draw.chance(0.95) else 9, 0.8)
    draw.fill()


@family("depth_to_space", "space_to_depth")
def blocks(draw):
    rng, block = draw.rng, draw.rng.choice([1, 2, 3])
    n, c, h, w = rng.choice([1, 2]), rng.choice([1, 2]), rng.choice([1, 2]), rng.choice([1, 3])
    shape = (n, c * block * block, h, w) if draw.op["name"][0] == "d" else (n, c, h * block, w * block)
    draw.shapes = [shape if draw.chance(0.93) else draw.shape(3, 5)]
    draw.put("block_size", block if draw.chance(0.97) else rng.choice([0, -1]))


@family("diag")
def diag(draw):
    draw.shapes = [draw.shape(1, 4)]
    draw.put("k", draw.rng.choice([0, 1, -1, 2, -2, 5]), 0.7)
    draw.fill()


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


@family("argmax_channel")
def argmax_channel(draw):
    draw.shapes = [draw.shape(2, 4)]


@family("clip")
def clip(draw):
    low = draw.rng.uniform(-1.5, 1)
    draw.shapes = [draw.shape()]
    draw.put("a_min", round(low, 3))
    draw.put("a_max", round(low + (draw.rng.uniform(0.1, 2) if draw.chance(0.95) else -0.5), 3))


@family("_arange", "_linspace", "_eye", "_full", "_ones", "_zeros", "_zeros_without_dtype")
def made(draw):
    rng = draw.rng
    draw.shapes = []
    draw.put("shape", [rng.choice([1, 2, 3]) for _ in range(rng.randint(1, 3))])
    draw.put("start", rng.choice([0, 1, -2.5, 3]))
    draw.put("stop", rng.choice([4, 5.5, 2, -1]), 0.9)
    draw.put("step", rng.choice([1, 0.5, 2, -1, 0.3]), 0.6)
    draw.put("repeat", rng.choice([1, 2, 3]), 0.3)
    draw.put("num", rng.choice([1, 2, 5, 0]))
    draw.put("N", rng.choice([1, 3, 4]))
    draw.fill()


@family("_random_normal", "_random_uniform", "_sample_normal", "_sample_uniform")
def randoms(draw):
    rng = draw.rng
    draw.shapes = [draw.shape(1, 2)] * len(draw.op["inputs"]["names"])
    draw.put("shape", [rng.choice([1, 2, 3]) for _ in range(rng.randint(1, 3))], 0.9)
    draw.put("low", 0.5, 0.5 if not draw.shapes else 0)
    draw.put("dtype", rng.choice(["float32", "float64", "None"]), 0.6)


@family("moments")
def moments(draw):
    draw.shapes = [draw.shape(1, 4)]
    draw.put("axes", draw.axes(len(draw.shapes[0])), 0.8)
    draw.fill("keepdims")


@family("lamb_update_phase2")
def lamb(draw):
    shape = draw.shape(1, 3)
    draw.shapes = [shape, shape, (1,), (1,)]
    draw.fill()


@family("_adamw_update")
def adamw(draw):
    shape = draw.shape(1, 3)
    draw.shapes = [shape] * 4 + [(1,)]
    draw.fill()
