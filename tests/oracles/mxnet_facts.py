"""What MXNet 1.9.1 gets wrong in a way that no derivative of one node shows: the list below the table of
docs/mxnet_differences.md, which mxnet_differences.py writes. Each check says whether MXNet is right by now, and what it answered.
"""
import mxnet as mx
import numpy as np


def values(*shape, seed=1, low=-1.5, high=1.5):
    return np.random.RandomState(seed).uniform(low, high, shape)


def array(numbers, dtype="float64"):
    return mx.nd.array(numbers, dtype=dtype)


def taped(function, *numbers, head=None):
    """Output and gradients, in float64; of a head gradient of ones if none is given."""
    arrays = [array(n) for n in numbers]
    for a in arrays:
        a.attach_grad()
    with mx.autograd.record():
        y = function(*arrays)
    y.backward(None if head is None else array(head))
    return y.asnumpy(), [a.grad.asnumpy() for a in arrays]


def scaled_by_output():
    head, onehot = np.array([[1.0, 2.0, 3.0]]), np.array([[0.0, 1.0, 0.0]])
    y, (gradient, _) = taped(lambda x, label: mx.nd.SoftmaxOutput(x, label, out_grad=True), values(1, 3), np.array([1.0]), head=head)
    loss = y - onehot
    return np.allclose(gradient, loss * head), (gradient[0, 1], (loss * head)[0, 1])


def added(op, label_shape, judged):
    """The gradient of the sum of the outputs that request add leaves in memory that held 7, and that of request write."""
    found = []
    for request in ("add", "write"):
        x, label = mx.sym.Variable("x"), mx.sym.Variable("label")
        grads = {"x": mx.nd.full((2, 2), 7), "label": mx.nd.full(label_shape, 7)}
        executor = op(x, label).bind(mx.cpu(), {"x": mx.nd.array(values(2, 2)), "label": mx.nd.zeros(label_shape)}, args_grad=grads,
                                     grad_req={"x": request, "label": request})
        executor.forward(is_train=True)
        executor.backward([mx.nd.ones((2, 2))])
        found.append(float(grads[judged].asnumpy().ravel()[0]))
    return found


def adding():
    softmax = added(mx.sym.SoftmaxOutput, (2,), "x")
    regression = added(mx.sym.LinearRegressionOutput, (2, 2), "x")
    second = added(mx.sym.elemwise_add, (2, 2), "label")
    rights = [np.isclose(a, 7 + w) for a, w in (softmax, regression, second)]
    return any(rights), (softmax[0], 7 + softmax[1], regression[0], 7 + regression[1], second[0], 7 + second[1])


def prelu_slope():
    x, slope = mx.sym.Variable("x"), mx.sym.Variable("slope")
    net = mx.sym.sin(mx.sym.LeakyReLU(mx.sym.sin(x), slope, act_type="prelu"))

    def run(number, backward=False):
        args = {"x": array(values(2, 1, 3)), "slope": array([number])}
        grads = {n: mx.nd.zeros(a.shape, dtype="float64") for n, a in args.items()}
        executor = net.bind(mx.cpu(), args, args_grad=grads)
        y = executor.forward(is_train=True)[0]
        if backward:
            executor.backward([mx.nd.ones(y.shape, dtype="float64")])
        return float((grads["slope"] if backward else y.sum()).asscalar())

    gradient, difference = run(0.5, True), (run(0.501) - run(0.499)) / 0.002
    return np.isclose(gradient, difference, rtol=1e-2), (gradient, difference)


def dilated():
    weight, data = values(1, 1, 3, 3, seed=2), values(2, 1, 4, 4)

    def forward(x):
        return mx.nd.Deconvolution(x, array(weight), kernel=(3, 3), num_filter=1, stride=(2, 2), dilate=(2, 2), no_bias=True)

    head = values(*forward(array(data)).shape, seed=3)
    y, (gradient,) = taped(forward, data, head=head)
    products = float((y * head).sum()), float((data * gradient).sum())
    return np.isclose(*products), products


def negative_fraction():
    y, (gradient, _) = taped(mx.nd.gather_nd, np.arange(6.0).reshape(3, 2), np.array([[-0.5]]))
    picked, added_to = int(y[0, 0]) // 2, int(np.argmax(gradient[:, 0]))
    return picked == added_to, (picked, added_to)


def largest_of_infinities():
    found = float(mx.nd.Pooling(mx.nd.full((1, 1, 2, 2), -np.inf), kernel=(2, 2), pool_type="max").asscalar())
    return found == -np.inf, (found,)


def second_phase():
    weight, weight32, one = array([1.0], "float16"), array([1.0], "float32"), array([1.0], "float32")
    mx.nd.mp_lamb_update_phase2(weight, one, one, one, weight32, lr=0.25, out=weight)
    return weight32.asscalar() == weight.asscalar(), (float(weight.asscalar()), float(weight32.asscalar()))


def rescaled_in_half():
    gradient, scale = np.float16(1.001), np.float32(1.4492)
    weight, mean = mx.nd.zeros((1,), dtype="float16"), mx.nd.zeros((1,))
    mx.nd.mp_lamb_update_phase1(weight, array([gradient], "float16"), mean, mx.nd.ones((1,)), mx.nd.zeros((1,)), t=1, wd=0.0,
                                beta1=0.5, rescale_grad=scale)
    found, right = 2 * float(mean.asscalar()), float(np.float32(gradient) * scale)
    return np.isclose(found, right, rtol=1e-6), (found, right)


def decayed_momentum():
    settings = {"lr": 0.5, "momentum": 0.5, "wd": 0.5}
    single, half = mx.nd.zeros((1,)), mx.nd.zeros((1,))
    mx.nd.nag_mom_update(array([1.0], "float32"), array([0.5], "float32"), single, **settings)
    mx.nd.mp_nag_mom_update(array([1.0], "float16"), array([0.5], "float16"), half, array([1.0], "float32"), **settings)
    found = float(half.asscalar()), float(single.asscalar())
    return found[0] == found[1], found


def whole_quotient():
    a, b = np.array([1.0]), np.array([0.1])
    rest, gradients = taped(mx.nd.broadcast_mod, a, b)
    by_value, by_gradient = round(float((a - rest)[0] / b[0])), -float(gradients[1][0])
    return by_value == by_gradient, (by_value, by_gradient)


def clipped_state():
    weights, zeros = mx.nd.array(values(4 * 2 * (2 + 2) + 2 * 4 * 2)), mx.nd.zeros((1, 2, 2))
    outputs = mx.nd.RNN(mx.nd.array(values(3, 2, 2, seed=2)), weights, zeros, zeros, state_size=2, num_layers=1, mode="lstm",
                        state_outputs=True, lstm_state_clip_min=-0.01, lstm_state_clip_max=0.01)
    largest = float(outputs[2].abs().max().asscalar())
    return largest <= 0.01, (largest,)


# check, what it shows
FACTS = [
    (scaled_by_output, """\
- `SoftmaxOutput` with `out_grad=True` multiplies its gradient by the output, {:.3g}; by its documentation, and in gradc, by the
  head gradient, {:.3g}.
"""),
    (adding, """\
- The request `add` to memory that holds 7: `SoftmaxOutput` leaves {:.3g} where {:.3g} is right, `LinearRegressionOutput` {:.3g}
  where {:.3g} is, and the second gradient of `elemwise_add` is {:.3g} instead of {:.3g}.
"""),
    (prelu_slope, """\
- The gradient of the slope of `LeakyReLU` with `act_type=prelu` depends on the nodes around it ([gradient.md](gradient.md)): in
  sin(LeakyReLU(sin x)) it is {:.3g}, and the central difference is {:.3g}.
"""),
    (dilated, """\
- `Deconvolution` with a stride and a dilation in float64: its forward pass is not the adjoint of its own backward pass, by which
  ⟨y, dy⟩ = {:.4g} would be ⟨x, dx⟩ = {:.4g}; gradc's is.
"""),
    (negative_fraction, """\
- `gather_nd` counts negative indices from the end, but adds their gradients to the memory in front of the data. For the
  index -0.5 of three rows it picks row {}, and adds the gradient to row {}; gradc cuts the index to 0 in both.
"""),
    (largest_of_infinities, """\
- `Pooling` of type max: where all elements of a window are -∞, MXNet's maximum is {:.3g}, the lowest finite number; gradc's is -∞,
  and the first element gets the gradient.
"""),
    (second_phase, """\
- `mp_lamb_update_phase2` leaves the weight in float32 as it was, so that every step starts from the first weight: after a step
  the weight is {:g}, and that in float32 {:g}. In gradc it holds the step, as that of the other `mp_` operators does.
"""),
    (rescaled_in_half, """\
- `mp_lamb_update_phase1` rounds the rescaled gradient to float16 before it enters the states: {:.7g} where float32 gives {:.7g}, as
  gradc does.
"""),
    (decayed_momentum, """\
- `mp_nag_mom_update` with a weight decay takes the decay of its momentum from the new weight: {:g}. `nag_mom_update`, {:g}, and
  both in gradc, from the old one.
"""),
    (whole_quotient, """\
- `_mod`, `broadcast_mod` and `_rmod_scalar` have the floor of the rounded quotient as slope: by its value 1 mod 0.1 has {} times
  the divisor taken away, by its gradient {:g} times; gradc has the former in both.
"""),
    (clipped_state, """\
- `RNN` ignores `lstm_state_clip_min` and `lstm_state_clip_max` on a processor: under the bounds -0.01 and 0.01 a state is {:.3g};
  gradc clips.
"""),
]
