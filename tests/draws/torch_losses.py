"""Parts of losses, and steps of optimizers, in PyTorch's functions."""
import itertools

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
