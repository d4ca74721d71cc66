"""Parts of losses, and steps of optimizers, in PyTorch's functions."""
import itertools
import math

import torch

from draws.torch_side import must, operator, sometimes_wrong


@operator("_SoftmaxOutput_softmax")
def softmax_output_softmax(draw):
    draw.shapes = [draw.shape(1, 4)]
    draw.put("smooth_alpha", 0)
    draw.fill("multi_output", "preserve_shape", "normalization", "out_grad", "use_ignore")
    says = lambda name: draw.attrs.get(name) in ("True", "1")
    must(not {"bogus", "()", "None", "1e400"} & set(draw.attrs.values()), "redraw")

    def function(x):
        if says("multi_output"):
            must(x.dim() > 1)
            return x.softmax(1)
        if x.dim() == 1 and not says("preserve_shape"):
            return x.reshape(-1, 1).softmax(1)[:, 0]  # rows of one class
        return x.softmax(-1) if says("preserve_shape") else x.flatten(1).softmax(1).reshape(x.shape)
    return function


def label_rows(draw):
    """(an attribute by name, the layout, the shape of the rows, classes, whether labels are probabilities, rows of classes in
    the shape of the data)"""
    rng, layout = draw.rng, draw.rng.choice(["multi_output", "preserve_shape", "neither"])
    draw.shapes = [draw.shape(2, 4)]
    shape = draw.shapes[0]
    for name in ("multi_output", "preserve_shape"):
        draw.put(name, layout == name, 1 if layout == name else 0.4)
    draw.put("grad_scale", rng.choice([1, 0.5, -2]), 0.5)
    draw.put("use_ignore", draw.chance(0.5), 0.7)
    draw.put("ignore_label", rng.choice([-1, 0, 1]), 0.6)
    draw.put("normalization", rng.choice(["null", "batch", "valid"]), 0.7)
    draw.put("smooth_alpha", rng.choice([0, 0.25, 1]), 0.5)
    is_probable = draw.chance(0.2)
    rows = (shape[0], *shape[2:]) if layout == "multi_output" else shape[:-1] if layout == "preserve_shape" else shape[:1]
    classes = shape[1] if layout == "multi_output" else shape[-1] if layout == "preserve_shape" else math.prod(shape[1:])
    must(classes > 0 and 0 not in shape, "redraw")
    given = shape[:-1] if layout == "neither" else rows  # more than there are rows: the first ones count
    draw.shapes.append(shape if is_probable else given)
    if not is_probable:
        draw.domains[1] = ("class", classes)

    def of_rows(v):  # (rows…, classes) in the shape of the data
        return v.movedim(-1, 1) if layout == "multi_output" else v.reshape(shape)
    return (lambda name, default: draw.attrs.get(name, default)), layout, rows, classes, is_probable, of_rows


def labels_of(label, rows):
    return label.reshape(-1)[:math.prod(rows)].reshape(rows).trunc()


@operator("_SoftmaxOutput_target")
def softmax_output_target(draw):
    get, layout, rows, classes, is_probable, of_rows = label_rows(draw)

    def function(data, label):
        if is_probable:
            return label.detach().clone()  # which gets no gradient
        target = torch.nn.functional.one_hot(labels_of(label, rows).long(), classes).to(data.dtype)
        alpha = float(get("smooth_alpha", 0))
        if layout != "multi_output" and classes > 1:
            target = target * (1 - alpha) + (1 - target) * alpha / (classes - 1)
        return of_rows(target)
    return function


@operator("_SoftmaxOutput_weight")
def softmax_output_weight(draw):
    get, layout, rows, classes, is_probable, of_rows = label_rows(draw)

    def function(data, label):
        scale, kind, ignored = float(get("grad_scale", 1)), get("normalization", "null"), float(get("ignore_label", -1))
        if is_probable:
            return torch.full_like(data, scale)
        label = labels_of(label, rows)
        if layout == "multi_output" and kind != "valid":
            scale /= math.prod(rows[1:])
        if kind == "batch":
            scale /= rows[0] if layout == "multi_output" else math.prod(rows)
        if kind == "valid":
            scale /= max(int((label != ignored).sum()), 1)
        weight = torch.full(rows, scale, dtype=data.dtype)
        if get("use_ignore", "False") == "True":
            weight = torch.where(label == ignored, 0, weight)
        return of_rows(weight[..., None].expand(*rows, classes).clone())
    return function


@operator("_RegressionOutput_weight")
def regression_output_weight(draw):
    shape = draw.shape(1, 4)
    draw.shapes = [shape, shape]
    draw.put("grad_scale", draw.rng.choice([1, 0.5, -2]), 0.7)
    must(0 not in shape, "redraw")
    return lambda data, label: torch.full_like(data, float(draw.attrs.get("grad_scale", 1)) / math.prod(shape[1:]))


@operator("_ctc_loss_grad")
def ctc_loss_grad(draw):
    rng = draw.rng
    length, batch, classes = rng.choice([1, 2]), rng.choice([1, 2]), rng.choice([2, 3])
    uses_steps = draw.chance(0.3)
    length = 1 if uses_steps else length  # fits any number of steps
    steps = 2 * length + rng.choice([0, 1])
    draw.shapes = [(steps, batch, classes), (batch, length)]
    blank = draw.rng.choice(["first", "last"])
    for name, most in (("use_data_lengths", steps), ("use_label_lengths", length)):
        uses = uses_steps if name == "use_data_lengths" else draw.chance(0.5)
        draw.put(name, uses, 1 if uses else 0.3)
        if uses:
            draw.domains[len(draw.shapes)] = ("length", most)
            draw.shapes.append((batch,))
    draw.put("blank_label", blank, 1 if blank == "last" else 0.5)
    draw.domains[1] = ("class" if blank == "last" else "class above 0", classes - 1)

    def loss(data, label, *lengths):
        lengths = list(lengths)
        used = lengths.pop(0) if draw.attrs.get("use_data_lengths") == "True" else [steps] * batch
        labels = lengths.pop(0) if draw.attrs.get("use_label_lengths") == "True" else [length] * batch
        total = 0
        for n in range(batch):
            logs, target = data[:, n].log_softmax(-1), [int(c) for c in label[n]][:int(labels[n])]
            paths = [logs[range(len(p)), list(p)].sum() for p in itertools.product(range(classes), repeat=int(used[n]))
                     if collapse(p, 0 if blank == "first" else classes - 1) == target]
            total = total - torch.logsumexp(torch.stack(paths), 0)
        return total

    def function(data, *others):
        at = data if data.requires_grad else data.detach().requires_grad_()
        return torch.autograd.grad(loss(at, *others), at, create_graph=True)[0]
    return function


def collapse(path, blank):
    return [c for k, c in enumerate(path) if c != blank and (k == 0 or path[k - 1] != c)]


@operator("_adagrad_update", "_scheduled_adagrad_update")
def adagrad_update(draw):
    draw.shapes = [draw.shape(1, 3)] * 3
    draw.domains[2] = ("positive", 0)
    number = lambda name, default: float(draw.attrs.get(name, default))
    for name, values in {"lr": [0.1, 0.5, 0], "epsilon": [1e-7, 0.1], "wd": [0, 0.01, 0.5], "rescale_grad": [1, 0.5, -2],
                         "clip_gradient": [-1, 0.3, 0], "rate_factor": [1, 0.5, -2]}.items():
        draw.put(name, draw.rng.choice(values), 1 if name == "lr" else 0.5)
    sometimes_wrong(draw)
    if "scheduled" in draw.op["name"]:
        draw.shapes.append((1,))

    def function(weight, grad, history, rate=None):
        must(weight.shape == grad.shape == history.shape)
        rate = number("lr", 0) if rate is None else rate * number("rate_factor", 1)
        g, clip = grad * number("rescale_grad", 1), number("clip_gradient", -1)
        g = g.clamp(-clip, clip) if clip >= 0 else g
        history = history + g * g
        return weight - rate * (g / (history + number("epsilon", 1e-7)).sqrt() + number("wd", 0) * weight)
    return function
