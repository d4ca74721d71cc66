"""RNN in PyTorch's functions, for projections, which MXNet has on graphics processors alone."""
import torch

from draws.torch_side import must, operator, sometimes_wrong

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
FUNCTIONS = {"lstm": torch._VF.lstm, "gru": torch._VF.gru, "rnn_tanh": torch._VF.rnn_tanh, "rnn_relu": torch._VF.rnn_relu}


def weight_shapes(gates, inputs, state, output, projects):
    return [(gates * state, inputs), (gates * state, output)] + [(output, state)] * projects


@operator("RNN")
def rnn(draw):
    rng = draw.rng
    mode = rng.choice(["lstm", "lstm", "gru", "rnn_tanh", "rnn_relu"])
    steps, inputs = rng.choice([1, 2, 3]), rng.choice([1, 2, 3])
    batch, layers, state = rng.choice([1, 2]), rng.choice([1, 2]), rng.choice([2, 3])
    projects, both = mode == "lstm" and draw.chance(0.6), draw.chance(0.5)
    output, directions = (rng.randint(1, state - 1) if projects else state), 1 + both
    draw.put("mode", mode)
    draw.put("state_size", state)
    draw.put("num_layers", layers)
    draw.put("bidirectional", both, 1 if both else 0.5)
    draw.put("state_outputs", draw.chance(0.5), 0.5)
    draw.put("projection_size", output, 1 if projects else 0)
    widths = [inputs] + [directions * output] * (layers - 1)
    cells = [weight_shapes(GATES[mode], width, state, output, projects) for width in widths for _ in range(directions)]
    biases = [(GATES[mode] * state,)] * 2
    count = sum(torch.Size(s).numel() for shapes in cells for s in shapes + biases)
    draw.shapes = [(steps, batch, inputs), (count,), (layers * directions, batch, output)]
    if mode == "lstm":
        draw.shapes.append((layers * directions, batch, state))
    expected = list(draw.shapes)
    sometimes_wrong(draw)

    def function(data, parameters, *states):
        must([tuple(t.shape) for t in (data, parameters, *states)] == expected)
        at = 0

        def take(shape):
            nonlocal at
            at += torch.Size(shape).numel()
            return parameters[at - torch.Size(shape).numel():at].reshape(shape)
        weights = [[take(s) for s in shapes] for shapes in cells]  # of all cells, then the biases of all
        flat = [t for w in weights for t in [*w[:2], take(biases[0]), take(biases[1]), *w[2:]]]
        hidden = tuple(states) if mode == "lstm" else states[0]
        return FUNCTIONS[mode](data, hidden, flat, True, layers, 0.0, False, both, False)[0]
    return function
