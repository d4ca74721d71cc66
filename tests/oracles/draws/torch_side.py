"""The operators that MXNet lacks: how each is drawn, and what it is in PyTorch's functions.

Each function here draws attributes and shapes, and returns the function of tensors that the operator is. That function raises
where the setting has no meaning. Gradients come from PyTorch's automatic differentiation.
"""
import math

import torch
import torch.nn.functional as F

from draws.schema import product

OPERATORS = {}


def operator(*names):
    def add(function):
        for name in names:
            OPERATORS[name] = function
        return function
    return add


def must(condition, what="no meaning"):
    if not condition:
        raise ValueError(what)


def sometimes_wrong(draw):
    """Now and then an operand of another shape."""
    if draw.chance(0.06):
        draw.shapes[draw.rng.randrange(len(draw.shapes))] = draw.shape(0)


def within(axis, rank):
    must(-rank <= axis < rank, "axis out of range")
    return axis % rank


FUNCTIONS = {"digamma": torch.digamma, "gelu": F.gelu, "hard_swish": F.hardswish, "log_sigmoid": F.logsigmoid, "mish": F.mish,
             "silu": F.silu, "_gradient_tap": lambda x: x * 1, "_in_training": lambda x: x * 1}


@operator(*FUNCTIONS)
def unary(draw):
    draw.shapes = [draw.shape(0)]
    name = draw.op["name"]
    if name == "digamma":
        draw.domains[0] = ("positive", 0)
    draw.low, draw.high = draw.rng.choice([(-1.5, 1.5), (-4, 4), (-40, 40)])
    return FUNCTIONS[name]


@operator("_polygamma")
def polygamma(draw):
    draw.shapes, order = [draw.shape(0)], draw.rng.choice([0, 1, 2, 3, 5, 8]) if draw.chance(0.96) else -1
    draw.domains[0] = ("positive", 0)
    draw.put("order", order, 0.9 if order else 0.5)
    return lambda x: torch.polygamma(order if "order" in draw.attrs else 0, x)


def along_shapes(draw):
    whole = draw.shape(1, 4)
    axis = draw.axis(len(whole))
    picked = list(whole)
    if -len(whole) <= axis < len(whole):
        picked[axis] = draw.size()
    draw.put("axis", axis, 0.8)
    return whole, tuple(picked), axis if "axis" in draw.attrs else -1


def same_but_axis(x, positions, axis):
    at = within(axis, x.dim())
    must(x.dim() == positions.dim())
    must(all(a == b for k, (a, b) in enumerate(zip(x.shape, positions.shape)) if k != at))
    must(x.shape[at] or not positions.numel())
    return positions.trunc().long().clamp(0, max(x.shape[at] - 1, 0)), at


@operator("_take_along_axis")
def take_along_axis(draw):
    whole, picked, axis = along_shapes(draw)
    draw.shapes = [whole, picked if "axis" in draw.attrs else whole]
    draw.domains[1] = ("index", 5)
    sometimes_wrong(draw)

    def function(x, positions):
        index, at = same_but_axis(x, positions, axis)
        return x.gather(at, index)
    return function


@operator("_scatter_along_axis")
def scatter_along_axis(draw):
    whole, picked, axis = along_shapes(draw)
    picked = picked if "axis" in draw.attrs else whole
    draw.shapes = [picked, picked, whole]
    draw.domains[1] = ("index", 5)
    sometimes_wrong(draw)

    def function(v, positions, x):
        must(v.shape == positions.shape)
        index, at = same_but_axis(x, positions, axis)
        return torch.zeros_like(x).scatter_add(at, index, v)
    return function


@operator("_sort_order")
def sort_order(draw):
    draw.shapes = [draw.shape(1, 4)]
    axis, is_ascending = draw.axis(len(draw.shapes[0])), draw.chance(0.5)
    draw.put("axis", axis, 0.8)
    axis = axis if "axis" in draw.attrs else -1
    draw.put("is_ascend", is_ascending, 0.5 if is_ascending else 1)
    if draw.chance(0.4):
        draw.domains[0] = ("class", 3)  # with ties
    return lambda x: torch.sort(x, dim=within(axis, x.dim()), stable=True, descending=not is_ascending)[1]


@operator("_index_like")
def index_like(draw):
    draw.shapes = [draw.shape(1, 4)]
    axis = draw.axis(len(draw.shapes[0]))
    draw.put("axis", axis, 0.8)

    def function(x):
        at = within(axis if "axis" in draw.attrs else 0, x.dim())
        return torch.arange(x.shape[at]).reshape([-1 if k == at else 1 for k in range(x.dim())]).expand(x.shape).clone()
    return function


@operator("_as_rows")
def as_rows(draw):
    draw.shapes = [draw.shape(0)]

    def function(x):
        must(x.dim())
        return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    return function


@operator("_cast_like")
def cast_like(draw):
    draw.shapes = [draw.shape(0), draw.shape(0)]
    draw.types[1] = draw.rng.choice(["float32", "float64", "int32", "int64"])
    draw.low, draw.high = -5, 5
    return lambda x, like: x.to(like.dtype)


@operator("_sum_like")
def sum_like(draw):
    whole = draw.shape(0)
    part = [1 if draw.chance(0.4) else d for d in whole]
    draw.shapes = [whole, tuple(part[draw.rng.randint(0, len(part)):] if draw.chance(0.4) else part)]
    sometimes_wrong(draw)

    def function(v, x):
        must(torch.broadcast_shapes(v.shape, x.shape) == v.shape)
        return v.sum_to_size(x.shape)
    return function


@operator("_broadcast_axis_like")
def broadcast_axis_like(draw):
    shape = draw.shape(2, 4)
    axis = draw.axis(len(shape))
    draw.shapes = [(shape[axis] if -len(shape) <= axis < len(shape) else 2,), shape]
    draw.put("axis", axis)
    sometimes_wrong(draw)

    def function(v, x):
        at = within(axis, x.dim())
        must(v.dim() == 1 and x.dim() > 1 and v.shape[0] == x.shape[at])
        return v.reshape([-1 if k == at else 1 for k in range(x.dim())]).expand(x.shape).clone()
    return function


def reduction(draw, rank):
    """(the function from a rank to the reduced axes, keepdims)"""
    axes, keep, exclude = draw.axes(rank), draw.chance(0.4), draw.chance(0.25)
    draw.put("axis", axes, 0.8)
    draw.put("keepdims", keep, 1 if keep else 0.3)
    draw.put("exclude", exclude, 1 if exclude else 0.3)

    def chosen(rank):
        listed = [within(a, rank) for a in axes] if "axis" in draw.attrs else []
        must(len(set(listed)) == len(listed), "an axis twice")
        if not listed:
            return list(range(rank))
        return [a for a in range(rank) if (a in listed) != exclude]
    return chosen, keep


@operator("_repeat_axes_like")
def repeat_axes_like(draw):
    shape = draw.shape(0, 4)
    chosen, keep = reduction(draw, len(shape))

    def reduced(shape):
        axes = chosen(len(shape))
        return [1 if a in axes else d for a, d in enumerate(shape)], [d for a, d in enumerate(shape) if a not in axes] or [1]
    try:
        draw.shapes = [tuple(reduced(shape)[0 if keep else 1]), shape]
    except ValueError:
        draw.shapes = [shape, shape]
    sometimes_wrong(draw)

    def function(v, x):
        kept, dropped = reduced(tuple(x.shape))
        must(list(v.shape) == (kept if keep else dropped))
        return v.reshape(kept).expand(x.shape).clone()
    return function


@operator("_product_gradient")
def product_gradient(draw):
    shape = draw.shape(1, 3, 24)
    chosen, _ = reduction(draw, len(shape))
    draw.num_args, draw.dtype = draw.rng.choice([1, 2, 3, 4]), "float64"  # PyTorch's own of this order divides
    draw.put("num_args", draw.num_args, 1 if draw.num_args > 1 else 0.5)
    draw.shapes = [shape] * draw.num_args
    sometimes_wrong(draw)

    def function(x, *directions):
        must(all(v.shape == x.shape for v in directions))
        axes = chosen(x.dim())
        at = x if x.requires_grad else x.detach().requires_grad_()
        f = at * 1
        for axis in axes:
            f = f.prod(axis, keepdim=True)
        for v in directions:
            f = slope(f, at) * v
            f = f.sum(axes, keepdim=True) if axes else f
        return slope(f, at)
    return function


def slope(f, at):
    """The gradient of the sum of f; zeros where f does not depend."""
    if not f.requires_grad:
        return torch.zeros_like(at)
    return torch.autograd.grad(f.sum(), at, create_graph=True, materialize_grads=True)[0]


@operator("_prelu_gamma_spread", "_prelu_gamma_sum")
def prelu_gamma(draw):
    shape = draw.shape(0, 4)
    channels = shape[min(1, len(shape) - 1)] if shape else 1
    gamma = (channels if draw.chance(0.7) else 1,)
    spreads = draw.op["name"].endswith("spread")
    draw.shapes = [gamma, shape] if spreads else [shape, gamma]
    sometimes_wrong(draw)

    def spread(gamma, x):
        must(gamma.dim() == 1 and gamma.shape[0] in (1, x.shape[1] if x.dim() > 1 else gamma.shape[0]))
        if x.dim() < 2:
            must(x.dim() or gamma.shape[0] == 1)
            return gamma.expand(x.shape).clone() if x.dim() else gamma.reshape([])
        return gamma.reshape([-1 if k == 1 else 1 for k in range(x.dim())]).expand(x.shape).clone()

    def add_up(v, gamma):
        zero = torch.zeros_like(gamma).detach().requires_grad_()
        return torch.autograd.grad(spread(zero, v), zero, v, create_graph=True)[0]
    return spread if spreads else add_up


@operator("_channel_window_sum")
def channel_window_sum(draw):
    draw.shapes, size = [draw.shape(1 if draw.chance(0.05) else 2, 4)], draw.rng.choice([1, 3, 5, 9]) if draw.chance(0.94) else 2
    draw.put("nsize", size)

    def function(x):
        must(size % 2 == 1 and x.dim() > 1)
        half = size // 2
        parts = [x[:, max(0, c - half):c + half + 1].sum(1) for c in range(x.shape[1])]
        return torch.stack(parts, 1) if parts else x * 1
    return function


@operator("_concat_part")
def concat_part(draw):
    rng, shape = draw.rng, list(draw.shape(1, 4))
    count, axis = rng.choice([1, 2, 3]), draw.axis(len(shape))
    index = rng.randrange(count) if draw.chance(0.95) else count
    at = axis if -len(shape) <= axis < len(shape) else 0
    parts = [tuple(draw.size() if a == at % len(shape) else d for a, d in enumerate(shape)) for _ in range(count)]
    whole = tuple(sum(p[a] for p in parts) if a == at % len(shape) else d for a, d in enumerate(shape))
    draw.put("num_args", count)
    draw.put("dim", axis)
    draw.put("index", index)
    draw.num_args = count + 1
    draw.shapes = [whole, *parts]
    sometimes_wrong(draw)

    def function(v, *parts):
        must(index < count)
        at = within(axis, v.dim())
        must(torch.cat([p.detach() for p in parts], at).shape == v.shape and all(p.dim() == v.dim() for p in parts))
        return v.split([p.shape[at] for p in parts], at)[index].clone()
    return function


@operator("_constant")
def constant(draw):
    shape = draw.shape(0, 3, 12)
    dtype = draw.rng.choice(["float32", "float64", "int32", "int64", "uint8", "int8", "float16"])
    count = product(shape) if draw.chance(0.95) else product(shape) + 1
    is_wide = dtype in ("float32", "float64")
    values = [draw.rng.choice([0.5, -2, 1e-3, 7]) if is_wide else draw.rng.randint(0, 9) for _ in range(count)]
    draw.shapes = []
    draw.put("shape", shape)
    draw.put("dtype", dtype)
    draw.put("values", values)
    return lambda: torch.tensor(values, dtype=getattr(torch, dtype)).reshape(shape)


@operator("_scatter_nd")
def scatter_nd(draw):
    shape = draw.shape(1, 4)
    depth = draw.rng.randint(1, len(shape)) if draw.chance(0.96) else len(shape) + 1
    cells = draw.shape(1, 2, 12)
    reduction = draw.rng.choice(["none", "add"])
    draw.put("reduction", reduction, 1 if reduction == "add" else 0.5)
    draw.shapes = [shape, (*cells, *shape[depth:]), (depth, *cells)]
    draw.domains[2] = ("cells" if reduction == "add" else "distinct cells", shape)
    draw.types[2] = draw.rng.choice(["int32", "int64", "float32"])
    sometimes_wrong(draw)

    def function(base, updates, indices):
        must(indices.dim() and indices.shape[0] <= base.dim())
        must(updates.shape == indices.shape[1:] + base.shape[indices.shape[0]:])
        must(not updates.numel() or base.numel())
        return base.index_put(tuple(indices.long()), updates, accumulate=reduction == "add")
    return function
