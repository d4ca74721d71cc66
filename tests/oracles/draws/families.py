"""Shapes and attributes that belong together, family by family. What no function here names is drawn by `same_shapes`."""
from draws.schema import DTYPES

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
        draw.put("ord", draw.rng.choice([1, 2]) if draw.chance(0.94) else 3, 0.7)
        draw.put("out_dtype", draw.dtype if draw.chance(0.6) else draw.rng.choice(DTYPES), 0.2)
        draw.attrs.setdefault("out_dtype", "None")
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


@family("topk", "sort", "argsort", "argmax", "argmin", "_np_cumsum")
def ordering(draw):
    draw.shapes = [draw.shape(1, 4)]
    rank = len(draw.shapes[0])
    axis = draw.axis(rank)
    draw.put("axis", axis if draw.chance(0.85) else "None", 0.8)
    draw.domains[0] = ("distinct", 0)
    draw.put("k", draw.rng.choice([1, 2, 3, 0, 1, 2]) if draw.chance(0.95) else 9, 0.8)
    draw.fill()


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
    draw.put("axes", draw.axes(len(draw.shapes[0])) or [0], 0.96)
    draw.fill("keepdims")


@family("lamb_update_phase2")
def lamb(draw):
    shape = draw.shape(1, 3)
    draw.shapes = [shape, shape, (1,), (1,)]
    draw.fill()


@family("_adamw_update", "_mp_adamw_update", "mp_lamb_update_phase1", "mp_lamb_update_phase2", "mp_nag_mom_update",
        "mp_sgd_mom_update", "mp_sgd_update")
def mixed(draw):
    """Of mixed precision as a rule with a weight and a gradient in 16 bits, the states and the other weight in float32."""
    shape, ports = draw.shape(1, 3), draw.op["inputs"]["names"]
    draw.shapes = [(1,) if name in ("rescale_grad", "r1", "r2") else shape for name in ports]
    if "mp_" in draw.op["name"] and draw.chance(0.9):
        draw.dtype = "float16" if draw.chance(0.8) else "float32"
        for k in range(len(ports)):
            draw.types[k] = "float32" if k > 1 or draw.op["name"] == "mp_lamb_update_phase2" and k == 1 else draw.dtype
    for k, name in enumerate(ports):
        if name == "var":
            draw.domains[k] = ("positive", 0)
    draw.fill()
