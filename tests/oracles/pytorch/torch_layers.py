"""Shapes, layers, attention, sequences and recurrent networks for torch_values.py: rows as in torch_values.rows."""
import itertools

import numpy as np
import torch
import torch.nn.functional as F

# MXNet holds numbers of attributes, and what it computes of them, in single precision: these are exact there.
EPSILON = 2.0 ** -10
ANY, POSITIVE = (-1.5, 1.5), (0.4, 1.6)
CUBE, IMAGE = [((2, 3, 4), ANY)], [((2, 4, 4, 6), ANY)]


def long(values):
    return torch.tensor(values).long()


def shapes():
    yield "Reshape", {"shape": "(0,-1)"}, CUBE, lambda x: x.reshape(2, 12), None
    yield "Reshape", {"shape": "(-3,0)"}, CUBE, lambda x: x.reshape(6, 4), None
    yield "Flatten", {}, CUBE, lambda x: x.flatten(1), None
    yield "reshape_like", {}, [((2, 6), ANY), ((3, 4), ANY)], lambda x, like: x.reshape(3, 4), [0]
    yield "expand_dims", {"axis": 1}, CUBE, lambda x: x[:, None], None
    yield "squeeze", {"axis": 1}, [((2, 1, 4), ANY)], lambda x: x.squeeze(1), None
    yield "SwapAxis", {"dim1": 0, "dim2": 2}, CUBE, lambda x: x.swapaxes(0, 2), None
    yield "slice", {"begin": "(0,2,None)", "end": "(2,None,0)", "step": "(1,-2,-1)"}, CUBE, \
        lambda x: x.flip(1)[:, ::2].flip(2)[:, :, :3], None
    yield "slice", {"begin": "(0,1)", "end": "(1,3)"}, CUBE, lambda x: x[0:1, 1:3], None
    yield "slice_axis", {"axis": -1, "begin": 1, "end": -1}, CUBE, lambda x: x[..., 1:-1], None
    yield "slice_like", {"axes": "(1,)"}, [((2, 3, 4), ANY), ((1, 2, 9), ANY)], lambda x, like: x[:, :2], [0]
    yield "Crop", {"num_args": 1, "offset": "(1,2)", "h_w": "(2,3)"}, IMAGE, lambda x: x[:, :, 1:3, 2:5], None
    yield "_slice_assign", {"begin": "(0,1)", "end": "(2,3)"}, [((3, 4), ANY), ((2, 2), ANY)], \
        lambda x, v: F.pad(v, (1, 1, 0, 1)) + x * (1 - F.pad(torch.ones_like(v), (1, 1, 0, 1))), None
    yield "_slice_assign_scalar", {"begin": "(0,1)", "end": "(2,3)", "scalar": 0.5}, [((3, 4), ANY)], \
        lambda x: torch.where(F.pad(torch.ones(2, 2), (1, 1, 0, 1)) > 0, 0.5, x), None
    yield "broadcast_to", {"shape": "(2,3,4)"}, [((2, 1, 4), ANY)], lambda x: x.expand(2, 3, 4), None
    yield "broadcast_axis", {"axis": "(0,2)", "size": "(2,4)"}, [((1, 3, 1), ANY)], lambda x: x.expand(2, 3, 4), None
    yield "broadcast_like", {}, [((2, 1, 4), ANY), ((2, 3, 4), ANY)], lambda x, like: x.expand_as(like), [0]
    yield "Concat", {"dim": 1, "num_args": 3}, [((2, n, 2), ANY) for n in (1, 3, 2)], lambda *x: torch.cat(x, 1), None
    yield "stack", {"axis": 1, "num_args": 3}, [((2, 3), ANY)] * 3, lambda *x: torch.stack(x, 1), None
    yield "add_n", {"num_args": 3}, [((2, 3), ANY)] * 3, lambda a, b, c: a + b + c, None
    yield "SliceChannel", {"num_outputs": 2, "axis": 2}, CUBE, lambda x: x.chunk(2, 2)[0], None
    yield "SliceChannel", {"num_outputs": 3, "axis": 1, "squeeze_axis": True}, CUBE, lambda x: x[:, 0], None
    yield "_split_v2", {"indices": "(0,1)", "axis": 1}, CUBE, lambda x: x[:, :1], None
    for mode, name in {"constant": "constant", "edge": "replicate", "reflect": "reflect"}.items():
        yield "Pad", {"mode": mode, "pad_width": "(0,0,0,0,1,2,2,1)"}, IMAGE, \
            lambda x, name=name: F.pad(x, (2, 1, 1, 2), mode=name), None
    yield "space_to_depth", {"block_size": 2}, IMAGE, lambda x: x.reshape(2, 4, 2, 2, 3, 2).permute(0, 3, 5, 1, 2, 4).reshape(2, 16, 2, 3), None
    yield "col2im", {"output_size": "(4,4)", "kernel": "(2,2)", "stride": "(1,2)", "pad": "(1,0)"}, [((1, 8, 10), ANY)], \
        lambda x: F.fold(x, (4, 4), (2, 2), padding=(1, 0), stride=(1, 2)), None
    yield "_copy", {}, CUBE, lambda x: x.clone(), None
    yield "BlockGrad", {}, CUBE, lambda x: x.detach() + 0 * x, None
    yield "Cast", {"dtype": "float64"}, CUBE, lambda x: x.double(), None
    yield "khatri_rao", {"num_args": 2}, [((2, 4), ANY), ((3, 4), ANY)], lambda a, b: torch.einsum("ik,jk->ijk", a, b).reshape(6, 4), None
    index = np.array([2.0, 0])
    yield "_contrib_index_copy", {}, [((3, 4), ANY), ((2,), index), ((2, 4), ANY)], lambda x, i, v: x.index_copy(0, long(index), v), [0, 2]
    cells = np.array([[1.0, 0, 2], [3, 1, 2]])
    yield "scatter_nd", {"shape": "(3,4)"}, [((3,), ANY), ((2, 3), cells)], \
        lambda v, i: torch.zeros(3, 4, dtype=v.dtype).index_put((long(cells[0]), long(cells[1])), v), [0]
    yield "_backward_gather_nd", {"shape": "(3,4)"}, [((3,), ANY), ((2, 3), cells)], \
        lambda v, i: torch.zeros(3, 4, dtype=v.dtype).index_put((long(cells[0]), long(cells[1])), v, accumulate=True), [0]


def functions():
    yield "_maximum_scalar", {"scalar": 0.3}, CUBE, lambda x: x.clamp(min=0.3), None
    yield "_minimum_scalar", {"scalar": 0.3}, CUBE, lambda x: x.clamp(max=0.3), None
    yield "hard_sigmoid", {"alpha": 0.25}, [((3, 4), (-4, 4))], lambda x: (0.25 * x + 0.5).clamp(0, 1), None
    yield "_contrib_quadratic", {"a": 0.5, "b": -1, "c": 2}, CUBE, lambda x: 0.5 * x * x - x + 2, None
    yield "_contrib_div_sqrt_dim", {}, CUBE, lambda x: x / 2, None
    yield "_contrib_gradientmultiplier", {"scalar": 0.5}, CUBE, lambda x: 0.5 * x + 0.5 * x.detach(), None
    for act in ("relu", "sigmoid", "tanh", "softsign"):
        f = {"relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "softsign": F.softsign}[act]
        yield "Activation", {"act_type": act}, CUBE, f, None
    yield "LeakyReLU", {"act_type": "leaky", "slope": 0.25}, CUBE, lambda x: F.leaky_relu(x, 0.25), None
    yield "LeakyReLU", {"act_type": "prelu"}, [((2, 3, 4), ANY), ((3,), POSITIVE)], F.prelu, None
    scale, alpha = (float(np.float32(k)) for k in (1.0507009873554805, 1.6732632423543772))
    yield "LeakyReLU", {"act_type": "selu"}, CUBE, lambda x: scale * F.elu(x, alpha), None
    yield "LeakyReLU", {"act_type": "gelu"}, CUBE, F.gelu, None
    yield "softmin", {"axis": 1}, CUBE, lambda x: F.softmin(x, 1), None
    yield "softmax", {"axis": -1, "temperature": 0.5}, CUBE, lambda x: (x / 0.5).softmax(-1), None
    yield "log_softmax", {"axis": 0, "temperature": 2}, CUBE, lambda x: (x / 2).log_softmax(0), None
    yield "SoftmaxActivation", {"mode": "channel"}, IMAGE, lambda x: x.softmax(1), None
    yield "SoftmaxActivation", {"mode": "instance"}, CUBE, lambda x: x.softmax(-1), None  # MXNet flattens the other axes
    lengths = np.array([2.0, 3])
    keeps = torch.arange(3)[None] < torch.tensor(lengths)[:, None]
    yield "softmax", {"axis": 1, "use_length": True}, [((2, 3), ANY), ((2,), lengths)], \
        lambda x, n: x.masked_fill(~keeps, -torch.inf).softmax(1).masked_fill(~keeps, 0), [0]
    yield "moments", {"axes": "(0,2)"}, CUBE, lambda x: x.mean((0, 2)), None
    yield "moments", {"axes": "(1,)", "__output__": 1}, CUBE, lambda x: x.var(1, unbiased=False), None
    yield "nanprod", {"axis": 2}, CUBE, lambda x: x.prod(2), None


def layers():
    image = ((2, 4, 5, 5), ANY)
    yield "Convolution", {"num_filter": 4, "kernel": "(3,2)", "dilate": "(2,1)", "num_group": 2, "no_bias": True}, \
        [image, ((4, 2, 3, 2), ANY)], lambda x, w: F.conv2d(x, w, dilation=(2, 1), groups=2), None
    yield "Convolution", {"num_filter": 3, "kernel": "(3,)", "stride": "(2,)", "pad": "(1,)"}, \
        [((2, 4, 7), ANY), ((3, 4, 3), ANY), ((3,), ANY)], lambda x, w, b: F.conv1d(x, w, b, 2, 1), None
    yield "Convolution", {"num_filter": 2, "kernel": "(2,2,2)", "no_bias": True}, [((1, 2, 3, 3, 4), ANY), ((2, 2, 2, 2, 2), ANY)], F.conv3d, None
    yield "Deconvolution", {"num_filter": 4, "kernel": "(3,3)", "stride": "(2,2)", "pad": "(1,1)", "adj": "(1,0)", "num_group": 2, "no_bias": False}, \
        [image, ((4, 2, 3, 3), ANY), ((4,), ANY)], lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, (1, 0), 2), None
    yield "Pooling", {"kernel": "(3,3)", "stride": "(2,2)", "pad": "(1,1)", "pool_type": "avg"}, [image], lambda x: F.avg_pool2d(x, 3, 2, 1), None
    yield "Pooling", {"kernel": "(3,3)", "stride": "(2,2)", "pad": "(1,1)", "pool_type": "avg", "count_include_pad": False}, [image], \
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), None
    yield "Pooling", {"kernel": "(2,2)", "stride": "(2,2)", "pool_type": "max", "pooling_convention": "full"}, [image], \
        lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True), None
    yield "Pooling", {"kernel": "(2,2)", "stride": "(1,2)", "pool_type": "sum"}, [image], lambda x: 4 * F.avg_pool2d(x, 2, (1, 2)), None
    yield "Pooling", {"kernel": "(2,2)", "stride": "(1,1)", "pool_type": "lp", "p_value": 2}, [image], lambda x: F.lp_pool2d(x, 2.0, 2, 1), None
    yield "Pooling", {"global_pool": True, "pool_type": "max", "kernel": "(1,1)"}, [image], lambda x: x.amax((2, 3), keepdim=True), None
    yield "Pooling", {"kernel": "(3,)", "pool_type": "max"}, [((2, 3, 7), ANY)], lambda x: F.max_pool1d(x, 3, 1), None
    statistics = [((4,), np.zeros(4)), ((4,), np.ones(4))]
    yield "BatchNorm", {"eps": EPSILON, "fix_gamma": False}, [image, ((4,), ANY), ((4,), ANY), *statistics], \
        lambda x, g, b, m, v: F.batch_norm(x, None, None, g, b, True, 0.1, EPSILON), [0, 1, 2]
    yield "BatchNorm", {"eps": EPSILON, "fix_gamma": True}, [image, ((4,), ANY), ((4,), ANY), *statistics], \
        lambda x, g, b, m, v: F.batch_norm(x, None, None, torch.ones_like(b), b, True, 0.1, EPSILON), [0, 2]
    moving = [((4,), np.array([0.5, -0.25, 0, 1])), ((4,), np.array([0.5, 1, 2, 0.25]))]
    yield "BatchNorm", {"eps": EPSILON, "fix_gamma": False, "use_global_stats": True}, [image, ((4,), ANY), ((4,), ANY), *moving], \
        lambda x, g, b, m, v: F.batch_norm(x, m, v, g, b, False, 0.1, EPSILON), [0, 1, 2]
    yield "GroupNorm", {"eps": EPSILON, "num_groups": 2}, [image, ((2,), ANY), ((2,), ANY)], \
        lambda x, g, b: F.group_norm(x, 2, g.repeat_interleave(2), b.repeat_interleave(2), EPSILON), None
    yield "LayerNorm", {"eps": EPSILON, "axis": 1}, [((2, 3, 4), ANY), ((3,), ANY), ((3,), ANY)], \
        lambda x, g, b: F.layer_norm(x.mT, (3,), g, b, EPSILON).mT, None
    yield "LRN", {"nsize": 3, "alpha": 0.75, "beta": 0.75, "knorm": 2}, [image], lambda x: F.local_response_norm(x, 3, 0.75, 0.75, 2.0), None
    yield "L2Normalization", {"mode": "channel", "eps": 1e-12}, [image], lambda x: x / (x.square().sum(1, keepdim=True) + 1e-12).sqrt(), None
    yield "L2Normalization", {"mode": "spatial", "eps": 1e-12}, [image], lambda x: x / (x.square().sum((2, 3), keepdim=True) + 1e-12).sqrt(), None
    yield "UpSampling", {"scale": 2, "sample_type": "nearest", "num_args": 1}, [image], lambda x: F.interpolate(x, scale_factor=2), None
    yield "_contrib_BilinearResize2D", {"height": 9, "width": 3}, [image], \
        lambda x: F.interpolate(x, (9, 3), mode="bilinear", align_corners=True), None
    yield "_contrib_AdaptiveAvgPooling2D", {"output_size": "(3,2)"}, [image], lambda x: F.adaptive_avg_pool2d(x, (3, 2)), None
    yield "FullyConnected", {"num_hidden": 2, "flatten": False, "no_bias": True}, [((2, 3, 4), ANY), ((2, 4), ANY)], F.linear, None
    yield "dot", {"transpose_a": True, "transpose_b": True}, [((4, 3), ANY), ((2, 4), ANY)], lambda a, b: a.T @ b.T, None
    yield "dot", {}, [((2, 3, 4), ANY), ((4, 5), ANY)], lambda a, b: torch.tensordot(a, b, 1), None
    yield "_linalg_gemm", {"alpha": 0.5, "beta": 2, "transpose_a": True}, [((2, 4, 3), ANY), ((2, 4, 5), ANY), ((2, 3, 5), ANY)], \
        lambda a, b, c: 0.5 * a.mT @ b + 2 * c, None


HEADS, TIME, BATCH, WIDTH = 2, 4, 3, 5


def attention():
    """Projections (time, batch, heads * parts * width), parts interleaved within a head."""
    def parts(x, count):
        return x.reshape(x.shape[0], BATCH, HEADS, count, WIDTH).permute(3, 1, 2, 0, 4).reshape(count, BATCH * HEADS, x.shape[0], WIDTH)

    def joined(y):
        return y.reshape(BATCH, HEADS, -1, WIDTH).permute(2, 0, 1, 3).reshape(-1, BATCH, HEADS * WIDTH)

    heads = {"heads": HEADS}
    three = ((TIME, BATCH, HEADS * 3 * WIDTH), ANY)
    yield "_contrib_interleaved_matmul_selfatt_qk", heads, [three], lambda x: parts(x, 3)[0] @ parts(x, 3)[1].mT / WIDTH ** 0.5, None
    yield "_contrib_interleaved_matmul_selfatt_valatt", heads, [three, ((BATCH * HEADS, TIME, TIME), ANY)], \
        lambda x, a: joined(a @ parts(x, 3)[2]), None
    one, two = ((TIME, BATCH, HEADS * WIDTH), ANY), ((6, BATCH, HEADS * 2 * WIDTH), ANY)
    yield "_contrib_interleaved_matmul_encdec_qk", heads, [one, two], lambda q, k: parts(q, 1)[0] @ parts(k, 2)[0].mT / WIDTH ** 0.5, None
    yield "_contrib_interleaved_matmul_encdec_valatt", heads, [two, ((BATCH * HEADS, TIME, 6), ANY)], \
        lambda x, a: joined(a @ parts(x, 2)[1]), None


def sequences():
    lengths = np.array([2.0, 4, 1])
    series, inputs = torch.arange(4)[:, None, None] < torch.tensor(lengths)[None, :, None], [((4, 3, 2), ANY), ((3,), lengths)]
    attrs = {"use_sequence_length": True}
    yield "SequenceMask", attrs | {"value": 0.5}, inputs, lambda x, n: torch.where(series, x, 0.5), [0]
    yield "SequenceMask", {}, inputs[:1], lambda x: x.clone(), None
    yield "SequenceLast", attrs, inputs, lambda x, n: x[long(lengths) - 1, torch.arange(3)], [0]
    yield "SequenceReverse", attrs, inputs, \
        lambda x, n: torch.stack([torch.cat([x[:int(k), b].flip(0), x[int(k):, b]]) for b, k in enumerate(lengths)], 1), [0]
    for mode, gates in {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}.items():
        for layers_, both in ((1, False), (2, True)):
            yield recurrent(mode, gates, layers_, both)


def recurrent(mode, gates, num_layers, both):
    time, batch, width, hidden, directions = 3, 2, 4, 3, 2 if both else 1
    cells = [(width if layer == 0 else hidden * directions) for layer in range(num_layers) for _ in range(directions)]
    blocks = [(gates * hidden, n) for k in cells for n in (k, hidden)] + [(gates * hidden,)] * (2 * len(cells))
    size = sum(int(np.prod(block)) for block in blocks)

    def run(x, parameters, *states):
        at, parts = 0, []
        for block in blocks:
            parts.append(parameters[at:at + int(np.prod(block))].reshape(block))
            at += int(np.prod(block))
        matrices, biases = parts[:2 * len(cells)], parts[2 * len(cells):]
        weights = [part for k in range(len(cells)) for part in (*matrices[2 * k:2 * k + 2], *biases[2 * k:2 * k + 2])]
        function = getattr(torch._VF, mode)
        first = states if mode == "lstm" else states[0]
        return function(x, first, weights, True, num_layers, 0.0, False, both, False)[0]

    state = ((len(cells), batch, hidden), ANY)
    inputs = [((time, batch, width), ANY), ((size,), (-0.7, 0.7)), *[state] * (2 if mode == "lstm" else 1)]
    attrs = {"state_size": hidden, "num_layers": num_layers, "mode": mode, "bidirectional": both}
    return "RNN", attrs, inputs, run, None


def ctc(x, labels):
    """-log of the sum, over all paths that spell the labels, of the product of their probabilities."""
    probabilities, losses = x.softmax(2), []
    for n, label in enumerate(labels):
        wanted = [int(k) for k in label if k > 0]
        total = 0
        for path in itertools.product(range(x.shape[2]), repeat=x.shape[0]):
            spelt = [k for k, _ in itertools.groupby(path) if k != 0]
            if spelt == wanted:
                total = total + torch.stack([probabilities[t, n, k] for t, k in enumerate(path)]).prod()
        losses.append(-total.log())
    return torch.stack(losses)


def losses():
    """The function gives the output and the loss that takes the place of the head gradients."""
    pair = [((3, 4), ANY), ((3, 4), ANY)]
    w = 0.5 / 4
    yield "LinearRegressionOutput", {"grad_scale": 0.5}, pair, lambda x, t: (x, w * (x - t).square().sum() / 2), [0]
    yield "LogisticRegressionOutput", {"grad_scale": 0.5}, pair, lambda x, t: (x.sigmoid(), w * (F.softplus(x) - t * x).sum()), [0]
    yield "MAERegressionOutput", {"grad_scale": 0.5}, pair, lambda x, t: (x, w * (x - t).abs().sum()), [0]
    yield "MakeLoss", {"grad_scale": 0.5}, CUBE, lambda x: (x, 0.5 * x.sum()), None
    yield "MakeLoss", {"normalization": "batch"}, [((2, 2, 3), ANY)], lambda x: (x, x.sum() / 4), None
    yield "make_loss", {}, CUBE, lambda x: (x, x.sum()), None
    labels = np.array([2.0, 0, 1, 2])
    sides = torch.where(torch.arange(3)[None] == torch.tensor(labels)[:, None], 1.0, -1.0)
    inputs = [((4, 3), ANY), ((4,), labels)]
    yield "SVMOutput", {"margin": 0.5, "regularization_coefficient": 0.25}, inputs, \
        lambda x, t: (x, 0.25 * F.relu(0.5 - sides * x).square().sum()), [0]
    yield "SVMOutput", {"use_linear": True}, inputs, lambda x, t: (x, F.relu(1 - sides * x).sum()), [0]
    yield "SoftmaxOutput", {"grad_scale": 0.5}, inputs, \
        lambda x, t: (x.softmax(1), 0.5 * F.cross_entropy(x, long(labels), reduction="sum")), [0]
    yield "SoftmaxOutput", {"normalization": "batch", "use_ignore": True, "ignore_label": 0}, inputs, \
        lambda x, t: (x.softmax(1), F.cross_entropy(x, long(labels), reduction="sum", ignore_index=0) / 4), [0]
    yield "SoftmaxOutput", {"smooth_alpha": 0.25}, inputs, \
        lambda x, t: (x.softmax(1), -(torch.where(sides > 0, 0.75, 0.125) * x.log_softmax(1)).sum()), [0]
    yield "SoftmaxOutput", {"multi_output": True}, [((2, 3, 4), ANY), ((2, 4), np.array([[2.0, 0, 1, 2], [1, 1, 0, 2]]))], \
        lambda x, t: (x.softmax(1), F.cross_entropy(x, t.detach().long(), reduction="sum") / 4), [0]
    spelt = np.array([[1.0, 2], [2, 2], [1, 0]])
    yield "CTCLoss", {}, [((4, 3, 3), ANY), ((3, 2), spelt)], lambda x, t: ctc(x, spelt), [0]


def own():
    """Operators that only gradients and decompositions use."""
    cells = np.array([[1.0, 0, 2], [3, 1, 2]])
    places, like = np.array([[0.0, 2], [1, 1], [2, 0]]), ((3, 4), ANY)
    yield "_grad_add", {}, [((3, 4), ANY), ((3, 4), ANY)], torch.add, None
    yield "_sum_like", {}, [((2, 3, 4), ANY), ((3, 1), ANY)], lambda v, x: v.sum((0, 2))[:, None], [0]
    yield "_take_along_axis", {"axis": 1}, [like, ((3, 2), places)], lambda x, i: x.take_along_dim(long(places), 1), [0]
    yield "_scatter_along_axis", {"axis": 1}, [((3, 2), ANY), ((3, 2), places), like], \
        lambda v, i, x: torch.zeros(3, 4, dtype=v.dtype).scatter_add(1, long(places), v), [0]
    yield "_as_rows", {}, CUBE, lambda x: x.reshape(6, 4), None
    yield "_repeat_axes_like", {"axis": 1}, [((2, 4), ANY), ((2, 3, 4), ANY)], lambda v, x: v[:, None].expand(2, 3, 4), [0]
    yield "_channel_window_sum", {"nsize": 3}, [((2, 4, 5), ANY)], lambda x: F.avg_pool1d(x.mT, 3, 1, 1).mT * 3, None
    yield "_cast_like", {}, [like, like], lambda x, y: x.clone(), [0]
    yield "_identity_with_attr_like_rhs", {}, [like, like], lambda x, y: x.clone(), [0]
    yield "amp_cast", {"dtype": "float64"}, CUBE, lambda x: x.clone(), None
    yield "_rnn_param_concat", {"dim": 0, "num_args": 2}, [((3,), ANY), ((4,), ANY)], lambda *x: torch.cat(x), None
    yield "_scatter_set_nd", {"shape": "(3,4)"}, [like, ((3,), ANY), ((2, 3), cells)], \
        lambda x, v, i: x.index_put((long(cells[0]), long(cells[1])), v), [0, 1]
    yield "_polygamma", {"order": 1}, [((3, 4), POSITIVE)], lambda x: torch.polygamma(1, x), None
    yield "_contrib_round_ste", {}, CUBE, lambda x: x + (x.round() - x).detach(), None
    yield "_contrib_sign_ste", {}, CUBE, lambda x: x + (x.sign() - x).detach(), None


def rows():
    for family in (shapes, functions, layers, attention, sequences, losses, own):
        yield from family()
