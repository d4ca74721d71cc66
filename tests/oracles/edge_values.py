"""Values and derivatives of element-wise operators at the edges of their ranges: testdata/edge_values.txt.

Usage: python tests/oracles/edge_values.py [-o testdata/edge_values.txt]

Needs a Python with mpmath; nothing else in the project does. Every operator gets the same points of every type: zeros of either
sign, ones, threes, hundreds, ten thousands, the largest, the smallest normal and the smallest number, infinities and NaN. Softmax
and its relatives get rows of four numbers, and fixed weights of their values and slopes. What is expected is the true value, computed from the point with enough digits and rounded once to float64. Derivatives are closed
forms, which the script itself compares with numerical ones at ordinary points.

Where the true value is undefined:
- At an infinity it is the limit; the table LIMITS has those that are not the same as the formula's.
- A pole has the infinity of the side that the sign of the zero names.
- `-` stands where PyTorch has NaN, because its formula multiplies an infinity by 0, and any answer will do.
- NaN gives NaN, but for operators that choose (KINKS): those give what MXNet's do.
"""
import argparse
import math
import struct

from mpmath import mp, mpf

mp.prec = 2400  # sin of the largest number has its digits

INF, NAN, NONE = float("inf"), float("nan"), None
TYPES = {"float64": (1.7976931348623157e308, 2.2250738585072014e-308, 5e-324),
         "float32": (3.4028234663852886e38, 1.1754943508222875e-38, 1.401298464324817e-45),
         "float16": (65504.0, 6.103515625e-05, 5.960464477539063e-08),
         "bfloat16": (3.3895313892515355e38, 1.1754943508222875e-38, 9.183549615799121e-41)}
FAR = {"float64": [1e200, 1e-200, 709.0, -745.0, 40.0], "float32": [2.0**66, 2.0**-66, 88.0, -103.0, 20.0], "float16": [300.0, 10.0],
       "bfloat16": [2.0**66, 2.0**-66, 88.0, -103.0, 20.0]}


def large(dtype):
    return 9984.0 if dtype == "bfloat16" else 1e4  # it has eight digits


def points(dtype):
    positive = [0.0, 0.5, 1.0, 3.0, 100.0, large(dtype), *TYPES[dtype], INF]
    return [*positive, *(-p for p in positive), *FAR[dtype], NAN]


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def root(x, n):
    return mp.sign(x) * mp.root(abs(x), n)


def phi(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def normal(x):
    """Beyond 60 the tail is 0 in every type."""
    return mp.ncdf(x) if abs(x) < 60 else mpf(x > 0)


def erf(x):
    return mp.erf(x) if abs(x) < 60 else mp.sign(x)


def mish_parts(x):
    s, w = sigmoid(x), sigmoid(-x)
    return s, w, mp.tanh(-mp.log(w)), (2 * w / (1 + w * w)) ** 2


def mish_second(x):
    s, w, g, h = mish_parts(x)
    return s * h * (2 + x * (w - 2 * g * s))


LN2, LN10 = mp.log(2), mp.log(10)
# name: value, first and second derivative.
SMOOTH = {
    "exp": (mp.exp, mp.exp, mp.exp),
    "expm1": (mp.expm1, mp.exp, mp.exp),
    "log": (mp.log, lambda x: 1 / x, lambda x: -1 / x**2),
    "log2": (lambda x: mp.log(x) / LN2, lambda x: 1 / x / LN2, lambda x: -1 / x**2 / LN2),
    "log10": (lambda x: mp.log(x) / LN10, lambda x: 1 / x / LN10, lambda x: -1 / x**2 / LN10),
    "log1p": (mp.log1p, lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2),
    "sqrt": (mp.sqrt, lambda x: 1 / (2 * mp.sqrt(x)), lambda x: -1 / (4 * x * mp.sqrt(x))),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), lambda x: -1 / (2 * x * mp.sqrt(x)), lambda x: 3 / (4 * x**2 * mp.sqrt(x))),
    "cbrt": (lambda x: root(x, 3), lambda x: 1 / (3 * root(x, 3) ** 2), lambda x: -2 / (9 * x * root(x, 3) ** 2)),
    "rcbrt": (lambda x: 1 / root(x, 3), lambda x: -1 / (3 * x * root(x, 3)), lambda x: 4 / (9 * x**2 * root(x, 3))),
    "square": (lambda x: x * x, lambda x: 2 * x, lambda x: mpf(2)),
    "reciprocal": (lambda x: 1 / x, lambda x: -1 / x**2, lambda x: 2 / x**3),
    "softsign": (lambda x: x / (1 + abs(x)), lambda x: 1 / (1 + abs(x)) ** 2, lambda x: -2 * mp.sign(x) / (1 + abs(x)) ** 3),
    "sigmoid": (sigmoid, lambda x: sigmoid(x) * sigmoid(-x), lambda x: sigmoid(x) * sigmoid(-x) * (sigmoid(-x) - sigmoid(x))),
    "tanh": (mp.tanh, lambda x: mp.sech(x) ** 2, lambda x: -2 * mp.tanh(x) * mp.sech(x) ** 2),
    "log_sigmoid": (lambda x: mp.log(sigmoid(x)), lambda x: sigmoid(-x), lambda x: -sigmoid(x) * sigmoid(-x)),
    "softrelu": (lambda x: -mp.log(sigmoid(-x)), sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
    "silu": (lambda x: x * sigmoid(x), lambda x: sigmoid(x) * (1 + x * sigmoid(-x)),
             lambda x: sigmoid(x) * sigmoid(-x) * (2 + x * (sigmoid(-x) - sigmoid(x)))),
    "mish": (lambda x: x * mish_parts(x)[2], lambda x: mish_parts(x)[2] + x * mish_parts(x)[0] * mish_parts(x)[3], mish_second),
    "gelu": (lambda x: x * normal(x), lambda x: normal(x) + x * phi(x), lambda x: phi(x) * (2 - x * x)),
    "erf": (erf, lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x), lambda x: -4 * x / mp.sqrt(mp.pi) * mp.exp(-x * x)),
    "sin": (mp.sin, mp.cos, lambda x: -mp.sin(x)),
    "cos": (mp.cos, lambda x: -mp.sin(x), lambda x: -mp.cos(x)),
    "tan": (mp.tan, lambda x: 1 + mp.tan(x) ** 2, lambda x: 2 * mp.tan(x) * (1 + mp.tan(x) ** 2)),
    "arcsin": (mp.asin, lambda x: 1 / mp.sqrt(1 - x * x), lambda x: x / mp.sqrt(1 - x * x) ** 3),
    "arccos": (mp.acos, lambda x: -1 / mp.sqrt(1 - x * x), lambda x: -x / mp.sqrt(1 - x * x) ** 3),
    "arctan": (mp.atan, lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x) ** 2),
    "sinh": (mp.sinh, mp.cosh, mp.sinh),
    "cosh": (mp.cosh, mp.sinh, mp.cosh),
    "arcsinh": (mp.asinh, lambda x: 1 / mp.sqrt(1 + x * x), lambda x: -x / mp.sqrt(1 + x * x) ** 3),
    "arccosh": (mp.acosh, lambda x: 1 / mp.sqrt(x * x - 1), lambda x: -x / mp.sqrt(x * x - 1) ** 3),
    "arctanh": (mp.atanh, lambda x: 1 / (1 - x * x), lambda x: 2 * x / (1 - x * x) ** 2),
    "degrees": (lambda x: x * 180 / mp.pi, lambda x: 180 / mp.pi, lambda x: mpf(0)),
    "radians": (lambda x: x * mp.pi / 180, lambda x: mp.pi / 180, lambda x: mpf(0)),
}
SMOOTH["leaky_gelu"] = SMOOTH["gelu"]
GRAPHS = {"leaky_gelu": "LeakyReLU(x) {act_type=gelu}", "softrelu": "Activation(x) {act_type=softrelu}"}
# Where the real function ends: NaN outside.
DOMAINS = {
    "log": lambda x: x >= 0, "log2": lambda x: x >= 0, "log10": lambda x: x >= 0, "log1p": lambda x: x >= -1,
    "sqrt": lambda x: x >= 0, "rsqrt": lambda x: x >= 0, "arcsin": lambda x: abs(x) <= 1, "arccos": lambda x: abs(x) <= 1,
    "arccosh": lambda x: x >= 1, "arctanh": lambda x: abs(x) <= 1,
}
FALLING = [0.0, 0.0, 0.0]
# Where the formula gives NaN, or differs from the limit: x → value, first and second derivative.
LIMITS = {
    "exp": [(INF, [INF, INF, INF]), (-INF, FALLING)],
    "expm1": [(INF, [INF, INF, INF]), (-INF, [-1.0, 0.0, 0.0])],
    "log": [(0.0, [-INF, INF, -INF]), (-0.0, [-INF, -INF, -INF]), (INF, [INF, 0.0, 0.0])],
    "log2": [(0.0, [-INF, INF, -INF]), (-0.0, [-INF, -INF, -INF]), (INF, [INF, 0.0, 0.0])],
    "log10": [(0.0, [-INF, INF, -INF]), (-0.0, [-INF, -INF, -INF]), (INF, [INF, 0.0, 0.0])],
    "log1p": [(-1.0, [-INF, INF, -INF]), (INF, [INF, 0.0, 0.0])],
    "sqrt": [(0.0, [0.0, INF, -INF]), (-0.0, [NONE, NONE, NONE]), (INF, [INF, 0.0, 0.0])],
    "rsqrt": [(0.0, [INF, -INF, INF]), (-0.0, [NONE, NONE, NONE]), (INF, FALLING)],
    "cbrt": [(0.0, [0.0, INF, -INF]), (-0.0, [0.0, INF, INF]), (INF, [INF, 0.0, 0.0]), (-INF, [-INF, 0.0, 0.0])],
    "rcbrt": [(0.0, [INF, -INF, INF]), (-0.0, [-INF, -INF, -INF]), (INF, FALLING), (-INF, FALLING)],
    "square": [(NAN, [NAN, NAN, 2.0]), (INF, [INF, INF, 2.0]), (-INF, [INF, -INF, 2.0])],
    "reciprocal": [(0.0, [INF, -INF, INF]), (-0.0, [-INF, -INF, -INF]), (INF, FALLING), (-INF, FALLING)],
    "softsign": [(INF, [1.0, 0.0, 0.0]), (-INF, [-1.0, 0.0, 0.0])],
    "sigmoid": [(INF, [1.0, 0.0, 0.0]), (-INF, FALLING)],
    "tanh": [(INF, [1.0, 0.0, 0.0]), (-INF, [-1.0, 0.0, 0.0])],
    "log_sigmoid": [(INF, FALLING), (-INF, [-INF, 1.0, 0.0])],
    "softrelu": [(INF, [INF, 1.0, 0.0]), (-INF, FALLING)],
    "silu": [(INF, [INF, NONE, NONE]), (-INF, [NONE, NONE, NONE])],
    "mish": [(INF, [INF, NONE, NONE]), (-INF, [NONE, NONE, NONE])],
    "gelu": [(INF, [INF, NONE, NONE]), (-INF, [NONE, NONE, NONE])],
    "erf": [(INF, [1.0, 0.0, NONE]), (-INF, [-1.0, 0.0, NONE])],
    "sin": [(INF, [NAN] * 3), (-INF, [NAN] * 3)],
    "cos": [(INF, [NAN] * 3), (-INF, [NAN] * 3)],
    "tan": [(INF, [NAN] * 3), (-INF, [NAN] * 3)],
    "arcsin": [(1.0, [float(mp.pi / 2), INF, INF]), (-1.0, [-float(mp.pi / 2), INF, -INF])],
    "arccos": [(1.0, [0.0, -INF, -INF]), (-1.0, [float(mp.pi), -INF, INF])],
    "arctan": [(INF, [float(mp.pi / 2), 0.0, 0.0]), (-INF, [-float(mp.pi / 2), 0.0, 0.0])],
    "sinh": [(INF, [INF, INF, INF]), (-INF, [-INF, INF, -INF])],
    "cosh": [(INF, [INF, INF, INF]), (-INF, [INF, -INF, INF])],
    "arcsinh": [(INF, [INF, 0.0, 0.0]), (-INF, [-INF, 0.0, 0.0])],
    "arccosh": [(1.0, [0.0, INF, -INF]), (INF, [INF, 0.0, 0.0])],
    "arctanh": [(1.0, [INF, INF, INF]), (-1.0, [-INF, INF, -INF])],
    "degrees": [(NAN, [NAN, float(180 / mp.pi), 0.0]), (INF, [INF, float(180 / mp.pi), 0.0]), (-INF, [-INF, float(180 / mp.pi), 0.0])],
    "radians": [(NAN, [NAN, float(mp.pi / 180), 0.0]), (INF, [INF, float(mp.pi / 180), 0.0]), (-INF, [-INF, float(mp.pi / 180), 0.0])],
}
LIMITS["leaky_gelu"] = LIMITS["gelu"]
# Functions that choose: the value and the slope, by MXNet's comparisons, for every number, infinities and NaN included.
KINKS = {
    "abs": ("abs(x)", lambda x: (abs(x), (x > 0) - (x < 0))),
    "sign": ("sign(x)", lambda x: ((x > 0) - (x < 0), 0)),
    "relu": ("relu(x)", lambda x: (x if x > 0 or x != x else 0.0, x > 0)),
    "negative": ("negative(x)", lambda x: (-x, -1)),
    "clip": ("clip(x) {a_min=-1, a_max=3}", lambda x: (x if x != x else min(max(x, -1.0), 3.0), not (x < -1 or x > 3))),
    "leaky": ("LeakyReLU(x) {act_type=leaky, slope=0.25}", lambda x: (x if x > 0 or x != x else 0.25 * x, 1 if x > 0 else 0.25)),
    "maximum": ("_maximum_scalar(x) {scalar=1}", lambda x: (x if x != x else max(x, 1.0), x >= 1)),
    "minimum": ("_minimum_scalar(x) {scalar=1}", lambda x: (x if x != x else min(x, 1.0), x <= 1)),
}
# The constants of selu in single precision, as in MXNet.
SELU_SCALE, SELU_ALPHA = 1.0507010221481323, 1.6732631921768188
# y = scale · x above 0, scale · limit · (exp(x) − 1) elsewhere; at 0 the derivatives are those from below.
EXPONENTIAL = {
    "elu": ("LeakyReLU(x) {act_type=elu, slope=0.25}", 1.0, 0.25),
    "selu": ("LeakyReLU(x) {act_type=selu}", SELU_SCALE, SELU_ALPHA),
}


def exponential_row(x, scale, limit):
    if x != x:
        return [NAN] * 3
    if x > 0:
        return [rounded(mpf(scale) * mpf(x)), scale, 0.0] if x != INF else [INF, scale, 0.0]
    e = mp.exp(mpf(x)) if x != -INF else mpf(0)
    factor = mpf(scale) * mpf(limit)
    return [rounded(factor * (e - 1)), rounded(factor * e), rounded(factor * e)]


def rounded(x):
    """To float64, once: mpmath's own conversion rounds subnormal numbers twice."""
    if abs(x) >= mpf(2) ** 1024 - mpf(2) ** 970:
        return math.copysign(INF, x)
    return float(x) if abs(x) >= mpf(2) ** -1022 else math.ldexp(int(mp.nint(mp.ldexp(x, 1074))), -1074)


def key(x):
    return struct.pack("<d", x)


def smooth_row(name, x):
    limits = {key(p): row for p, row in LIMITS[name]}
    if key(x) in limits:
        return limits[key(x)]
    if x != x:
        return [NAN] * 3
    if name in DOMAINS and not DOMAINS[name](x):
        return [NAN, NONE, NONE]
    try:
        return [rounded(f(mpf(x))) for f in SMOOTH[name]]
    except ZeroDivisionError:
        raise SystemExit(f'{name} at {x} needs a limit')


def check_derivatives():
    with mp.workprec(200):
        for name, (value, first, second) in SMOOTH.items():
            for x in [mpf(3) / 7, mpf(-2) / 7, mpf(13) / 7]:
                if name in DOMAINS and not DOMAINS[name](x):
                    continue
                for order, f in ((1, first), (2, second)):
                    assert abs(mp.diff(value, x, order) - f(x)) < 1e-12 * (1 + abs(f(x))), (name, order, x)


def text(values):
    return " ".join("-" if v is None else repr(float(v)) for v in values)


# ---- two operands

def over_squares(x, a, b):
    return x / (a * a + b * b)


def power_parts(a, b):
    """a > 0."""
    y, log = a**b, mp.log(a)
    return [y, b * y / a, y * log, b * (b - 1) * y / a**2, y / a * (1 + b * log), y * log**2]


def power_at_zero(b):
    """Limits a → +0 at a fixed b; where b is what moves, 0^b is 0 for every b > 0."""
    left = 0.0 if b == 0 or b > 1 else 1.0 if b == 1 else INF if b > 0 else -INF
    left_left = 0.0 if b in (0, 1) or b > 2 else 2.0 if b == 2 else INF if b > 1 else -INF if b > 0 else INF
    mixed = 0.0 if b > 1 else -INF if b > 0 else INF
    return [1.0 if b == 0 else 0.0 if b > 0 else INF, left, 0.0 if b >= 0 else -INF, left_left, mixed,
            0.0 if b >= 0 else INF]


def hypot_row(a, b, dtype):
    if a == 0 and b == 0:
        return [0.0] * 6  # the kink
    a, b = mpf(a), mpf(b)
    h = mp.sqrt(a * a + b * b)
    if not TYPES[dtype][1] <= h <= TYPES[dtype][0]:  # it has too few digits for quotients by it, or none
        return [rounded(h), *[NONE] * 5]
    return [rounded(v) for v in (h, a / h, b / h, b * b / h**3, -a * b / h**3, a * a / h**3)]


def arctan2_row(a, b, dtype):
    if a == 0 and b == 0:
        return [NONE, *[0.0] * 5]  # as in PyTorch
    a, b = mpf(a), mpf(b)
    s = a * a + b * b
    mixed = (a - b) * (a + b) / s**2
    return [rounded(v) for v in (mp.atan2(a, b), b / s, -a / s, -2 * a * b / s**2, mixed, 2 * a * b / s**2)]


def power_row(a, b, dtype):
    if a == 0:
        return power_at_zero(b)
    return [rounded(v) for v in power_parts(mpf(a), mpf(b))]


def ldexp_row(a, b, dtype):
    y = mpf(a) * mpf(2) ** mpf(b)
    first = mpf(2) ** mpf(b)
    row = [rounded(v) for v in (y, first, y * LN2, mpf(0), first * LN2, y * LN2**2)]
    return row if abs(y) <= TYPES[dtype][0] else [*row[:5], NONE]  # made of an infinite y


def pairs(name, dtype):
    largest, normal, least = TYPES[dtype]
    both = [0.0, 1.0, -1.0, 3.0, -100.0, large(dtype), largest, normal, least] + (FAR[dtype][:2])
    if name == "power":
        return [(a, b) for a in (0.0, 0.5, 1.0, 3.0, 100.0, largest, normal, least) for b in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, -1.0, -0.5)]
    if name == "ldexp":
        return [(a, b) for a in (1.0, -3.0, largest, normal, least) for b in (0.0, 1.0, -1.0, 0.5, 100.0, -100.0, 1e4, -1e4)]
    return [(a, b) for a in both for b in both]


def prelu_row(x, gamma, dtype):
    return [x, 1.0, *[0.0] * 4] if x > 0 else [rounded(mpf(x) * mpf(gamma)), gamma, x, 0.0, 1.0, 0.0]


PAIRS = {"prelu": ("a = Reshape(x) {shape=(1,-1)}; y = LeakyReLU(a, z) {act_type=prelu}", prelu_row), "hypot": ("_hypot(x, z)", hypot_row), "arctan2": ("_npi_arctan2(x, z)", arctan2_row),
         "power": ("_power(x, z)", power_row), "ldexp": ("_npi_ldexp(x, z)", ldexp_row)}

# ---- rows

WEIGHTS, SECOND_WEIGHTS = [1.0, -2.0, 3.0, -0.5], [2.0, 1.0, -1.0, 0.5]
CLASS = 1  # the label
LEAST = math.log(9.99999993922529e-09)  # the least probability of softmax_cross_entropy, in single precision as in MXNet


def dot(a, b):
    return sum(mpf(s) * t for s, t in zip(a, b))


def probabilities(x):
    """Of numbers and -inf, one number at least."""
    m = max(x)
    e = [mp.exp(mpf(v) - mpf(m)) if v != -INF else mpf(0) for v in x]
    return m, sum(e), [v / sum(e) for v in e]


def softmax_row(x, sign=1):
    """y, Σ w·dy/dx, and the gradient of that weighted by q."""
    w, q = WEIGHTS, SECOND_WEIGHTS
    _, _, p = probabilities([sign * v for v in x])
    mean, weight = dot(w, p), dot(q, p)
    slope = [sign * p[k] * (w[k] - mean) for k in range(4)]
    total = sign * dot(q, slope)
    second = [p[j] * (q[j] * (w[j] - mean) - total - weight * (w[j] - mean)) for j in range(4)]
    return [*p, *slope, *second]


def logarithms(x):
    m, total, p = probabilities(x)
    return [mpf(v) - mpf(m) - mp.log(total) if v != -INF else None for v in x], p


def log_softmax_row(x):
    w, q = WEIGHTS, SECOND_WEIGHTS
    y, p = logarithms(x)
    slope = [w[k] - p[k] * sum(w) for k in range(4)]
    return [*y, *slope, *[-sum(w) * p[j] * (q[j] - dot(q, p)) for j in range(4)]]


def cross_entropy_row(x):
    """Of a head gradient w[0]; the gradient does not see the least probability."""
    w, q = WEIGHTS[0], SECOND_WEIGHTS
    y, p = logarithms(x)
    value = -mpf(LEAST) if y[CLASS] is None else -max(y[CLASS], mpf(LEAST))
    slope = [w * (p[k] - (k == CLASS)) for k in range(4)]
    return [value, *slope, *[w * p[j] * (q[j] - dot(q, p)) for j in range(4)]]


ROWS = {
    "softmax": ("softmax(x)", softmax_row),
    "softmin": ("softmin(x)", lambda x: softmax_row(x, -1)),
    "log_softmax": ("log_softmax(x)", log_softmax_row),
    "SoftmaxActivation": ("SoftmaxActivation(x)", softmax_row),
    "softmax_cross_entropy": ("softmax_cross_entropy(x, z)", cross_entropy_row),
}


def row_points(dtype):
    largest, normal, least = TYPES[dtype]
    return [[0.0] * 4, [1.0, 2.0, 3.0, 4.0], [100.0, 0.0, 0.0, 0.0], [0.0, 100.0, 0.0, 0.0], [1.0, -100.0, 0.0, -0.0],
            [0.0, 20.0, 0.0, -20.0], [-17.0, -18.0, 0.0, -19.0], [200.0, -200.0, 199.0, 0.0], [large(dtype), 0.0, -large(dtype), 1.0],
            [largest, -largest, 0.0, 1.0], [largest, largest, -largest, largest], [least, normal, 0.0, -normal],
            [-INF, 0.0, 1.0, 2.0], [0.0, -INF, 1.0, 2.0], [-INF, -INF, -INF, 3.0], [-INF] * 4, [INF, 0.0, 1.0, 2.0],
            [NAN, 0.0, 1.0, 2.0]]


def weighted_row(name, x):
    """NaN where no largest element is a number; the least probability of a loss may then count or not."""
    wrong = -INF if name == "softmin" else INF
    size = 1 if name == "softmax_cross_entropy" else 4
    if any(v != v or v == wrong for v in x) or all(v == -wrong for v in x):
        return [NONE if size == 1 else NAN] * size + [NAN] * 8
    return [-INF if v is None else rounded(v) for v in ROWS[name][1](x)]


def check_rows():
    with mp.workprec(300):
        x = [mpf(3) / 7, mpf(-2) / 7, mpf(13) / 7, mpf(1) / 9]
        for name, (_, row) in ROWS.items():
            size = 1 if name == "softmax_cross_entropy" else 4

            def weighted(at, begin, count, weights):
                return dot(weights[:count], row(at)[begin:begin + count])

            for begin, count, weights, slopes in ((0, size, WEIGHTS, size), (size, 4, SECOND_WEIGHTS, size + 4)):
                for k in range(4):
                    numeric = mp.diff(lambda v: weighted([*x[:k], v, *x[k + 1:]], begin, count, weights), x[k])
                    assert abs(numeric - row(x)[slopes + k]) < 1e-12, (name, begin, k)


HEAD = """# Written by tests/oracles/edge_values.py. After a function and a type: x, y, y', y''; of two operands x, z, y, its derivatives toward x and
# z, and the second ones toward x twice, both, and z twice. After `==`: rows of four numbers, their values, the gradient of the values
# weighted by 1, -2, 3, -0.5, and the gradient of that weighted by 2, 1, -1, 0.5. `-` is not checked.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", default="")
    options = parser.parse_args()
    check_derivatives()
    check_rows()
    lines = [HEAD]
    for dtype in TYPES:
        for name in SMOOTH:
            lines.append(f"= {name} {dtype} {GRAPHS.get(name, name + '(x)')}\n")
            lines += [f"{text([x, *smooth_row(name, x)])}\n" for x in points(dtype)]
        for name, (graph, row) in KINKS.items():
            lines.append(f"= {name} {dtype} {graph}\n")
            lines += [f"{text([x, *row(x), 0.0])}\n" for x in points(dtype)]
        for name, (graph, scale, limit) in EXPONENTIAL.items():
            lines.append(f"= {name} {dtype} {graph}\n")
            lines += [f"{text([x, *exponential_row(x, scale, limit)])}\n" for x in points(dtype)]
        for name, (graph, _) in ROWS.items():
            lines.append(f"== {name} {dtype} {graph}\n")
            lines += [f"{text([*x, *weighted_row(name, x)])}\n" for x in row_points(dtype)]
        for name, (graph, row) in PAIRS.items():
            if dtype.endswith("16") and name != "prelu":
                continue
            lines.append(f"= {name} {dtype} {graph}\n")
            lines += [f"{text([a, b, *row(a, b, dtype)])}\n" for a, b in pairs(name, dtype)]
    if options.o:
        with open(options.o, "w", encoding="utf-8") as file:
            file.writelines(lines)
    else:
        print("".join(lines), end="")


if __name__ == "__main__":
    main()
