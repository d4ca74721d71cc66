"""Convolutions and pooling in PyTorch's functions: the parts that gradients of layers consist of."""
import itertools
import math

import torch
import torch.nn.functional as F

from draws.torch_side import must, operator, sometimes_wrong

CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def setting(draw, rank, name, values, default, p):
    chosen = [draw.rng.choice(values) for _ in range(rank)]
    draw.put(name, chosen, p)
    return chosen if name in draw.attrs else [default] * rank


def channels_last(draw, rank):
    """Draws the attribute `layout`; whether channels are the last axis."""
    is_last = draw.chance(0.3)
    draw.put("layout", {1: "NWC", 2: "NHWC", 3: "NDHWC"}[rank] if is_last else {1: "NCW", 2: "NCHW", 3: "NCDHW"}[rank],
             1 if is_last else 0.1)
    return is_last


def moved(shape):
    return (shape[0], *shape[2:], shape[1])


def linear_part(convolve, part, extra):
    """The gradient of `convolve(x, w)` toward x or w, as a function that PyTorch can differentiate again."""
    def data_grad(dy, w, x):
        at = torch.zeros_like(x).requires_grad_()
        return torch.autograd.grad(convolve(at, w, **extra), at, dy, create_graph=True)[0]

    def weight_grad(dy, x, w):
        at = torch.zeros_like(w).requires_grad_()
        return torch.autograd.grad(convolve(x, at, **extra), at, dy, create_graph=True)[0]
    return data_grad if part == "data" else weight_grad


@operator("Convolution", "_convolution_data_grad", "_convolution_weight_grad",
          "Deconvolution", "_deconvolution_data_grad", "_deconvolution_weight_grad")
def convolution(draw):
    rng, rank, name = draw.rng, draw.rng.choice([1, 2, 2, 3]), draw.op["name"]
    is_transposed, is_last = "deconv" in name.lower(), channels_last(draw, rank)
    groups = rng.choice([1, 1, 2, 3])
    channels, filters = groups * rng.randint(1, 2), groups * rng.randint(1, 2)
    kernel = [rng.choice([1, 2, 3]) for _ in range(rank)]
    draw.put("kernel", kernel)
    stride, dilate = setting(draw, rank, "stride", [1, 2, 3], 1, 0.6), setting(draw, rank, "dilate", [1, 2], 1, 0.4)
    pad = setting(draw, rank, "pad", [0, 1, 2], 0, 0.6)
    adj = [rng.randint(0, s - 1) for s in stride]
    draw.put("adj", adj, 0.3)
    adj = adj if "adj" in draw.attrs else [0] * rank
    draw.put("num_group", groups, 1 if groups > 1 else 0.5)
    draw.put("num_filter", filters)
    has_bias = name[0] != "_" and draw.chance(0.5)
    draw.put("no_bias", not has_bias)
    draw.put("cudnn_off", draw.chance(0.5), 0.3)
    sizes = [rng.choice([3, 4, 5]) for _ in range(rank)]
    x = (rng.choice([1, 2]), channels, *sizes)
    w = (channels, filters // groups, *kernel) if is_transposed else (filters, channels // groups, *kernel)
    extra = dict(stride=stride, padding=pad, dilation=dilate, groups=groups)
    if is_transposed:
        extra["output_padding"] = adj
        out = [(d - 1) * s - 2 * p + e * (k - 1) + 1 + a for d, s, p, e, k, a in zip(sizes, stride, pad, dilate, kernel, adj)]
    else:
        out = [(d + 2 * p - e * (k - 1) - 1) // s + 1 for d, s, p, e, k in zip(sizes, stride, pad, dilate, kernel)]
    must(not is_transposed or min(out) > 0)
    shapes = {"x": x, "w": w, "dy": (x[0], filters, *(max(d, 1) for d in out))}
    order = ["x", "w"] if name[0] != "_" else ["dy", "w", "x"] if "data" in name else ["dy", "x", "w"]
    draw.shapes = [moved(shapes[n]) if is_last else shapes[n] for n in order] + [(filters,)] * has_bias
    sometimes_wrong(draw)
    convolve = (TRANSPOSED if is_transposed else CONVOLVE)[rank]
    part = linear_part(convolve, "data" if "data" in name else "weight", extra) if name[0] == "_" else None

    def function(*tensors):
        bias = tensors[len(order):]
        must(all(t.dim() == rank + 2 for t in tensors[:len(order)]) and all(b.shape == (filters,) for b in bias))
        given = [t.movedim(-1, 1) if is_last else t for t in tensors[:len(order)]]
        must(given[order.index("w")].shape == w)
        y = part(*given) if part else convolve(*given, *bias, **extra)
        return y.movedim(1, -1) if is_last else y
    return function


def window_cells(sizes, kernel, stride, pad, convention):
    """Of each axis: of each window the first element and the one behind the last, cut to the image, and cut to the padding."""
    for d, k, s, p in zip(sizes, kernel, stride, pad):
        steps = (d + 2 * p - k) / s
        count = math.ceil(d / s) if convention == "same" else (math.floor if convention == "valid" else math.ceil)(steps) + 1
        must(d + 2 * p >= k or convention == "same")
        starts = [i * s - p for i in range(count)]
        yield [(max(a, 0), min(a + k, d), min(a + k, d + p) - a) for a in starts]


@operator("Pooling", "_pooling_grad", "_pool_gather", "_pool_scatter")
def pooling(draw):
    rng, name = draw.rng, draw.op["name"]
    rank = 2 if draw.chance(0.6) else rng.choice([1, 3])
    is_last = channels_last(draw, rank)
    sizes = [rng.choice([3, 4, 5]) for _ in range(rank)]
    kernel = [rng.choice([1, 2, 3]) for _ in range(rank)]
    draw.put("kernel", kernel)
    stride = setting(draw, rank, "stride", [1, 2, 3], 1, 0.7)
    pad = [rng.randint(0, k - 1) for k in kernel]
    draw.put("pad", pad, 0.5)
    pad = pad if "pad" in draw.attrs else [0] * rank
    convention = rng.choice(["valid", "valid", "full"])
    draw.put("pooling_convention", convention, 1 if convention == "full" else 0.5)
    kind = rng.choice({"_pooling_grad": ["avg", "sum"], "Pooling": ["avg", "sum", "max"]}.get(name, ["max"]))
    draw.put("pool_type", kind, 0.5 if kind == "max" else 1)
    counts_pad = draw.chance(0.5)
    draw.put("count_include_pad", counts_pad, 0.5 if counts_pad else 1)
    if draw.chance(0.15):
        draw.put("global_pool", "True")
        kernel, stride, pad, convention = sizes, [1] * rank, [0] * rank, "valid"
    x = (rng.choice([1, 2]), rng.choice([1, 2]), *sizes)
    axes = list(window_cells(sizes, kernel, stride, pad, convention))
    dy = (*x[:2], *map(len, axes))
    draw.shapes = {"_pool_gather": [x, x], "Pooling": [x]}.get(name, [dy, x])
    if is_last:
        draw.shapes = [moved(s) for s in draw.shapes]
    if kind == "max":
        draw.domains[len(draw.shapes) - 1] = ("distinct", 0)
    sometimes_wrong(draw)

    def pooled(v, x):
        must(v.shape == x.shape and x.numel())
        sizes = x.shape[2:]
        axes = [[(0, d, d)] for d in sizes] if "global_pool" in draw.attrs else list(
            window_cells(sizes, kernel, stride, pad, convention))
        results = []
        for index in itertools.product(*(range(len(a)) for a in axes)):
            cells = [a[i] for a, i in zip(axes, index)]
            part = (..., *(slice(a, max(a, b)) for a, b, _ in cells))
            window, chosen = v[part].flatten(2), x[part].flatten(2)
            if not window.shape[-1]:
                least = torch.finfo(v.dtype).min if name == "Pooling" and kind == "max" else 0  # as MXNet has it
                results.append(v.flatten(2).sum(-1) * 0 + least)
            elif kind == "max":
                results.append(window.gather(2, chosen.argmax(2, keepdim=True))[..., 0])
            else:
                size = math.prod(c[2] for c in cells) if counts_pad else window.shape[-1]
                results.append(window.sum(-1) / (size if kind == "avg" else 1))
        return torch.stack(results, -1).reshape(*x.shape[:2], *map(len, axes))

    def spread(dy, x):
        at = torch.zeros_like(x).requires_grad_()
        y = pooled(at, x)
        must(y.shape == dy.shape)
        return torch.autograd.grad(y, at, dy, create_graph=True)[0]

    def function(*tensors):
        must(all(t.dim() == rank + 2 or "global_pool" in draw.attrs and 2 < t.dim() < 6 for t in tensors))
        given = [t.movedim(-1, 1) if is_last else t for t in tensors]
        y = pooled(given[0], given[0].detach()) if name == "Pooling" else (pooled if name == "_pool_gather" else spread)(*given)
        return y.movedim(1, -1) if is_last else y
    return function
