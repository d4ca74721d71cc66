"""Operators that move, pick and place elements."""
import numpy as np

from draws.families import family


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
        parts = [[None if x in ("None", "") else int(x) for x in draw.attrs[k].strip("(),").split(", ")] if k in draw.attrs
                 else [None] * 9 for k in ("begin", "end", "step")]
        try:
            rhs = np.zeros(shape)[tuple(slice(*p) for p in zip(*parts))].shape
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
