"""Values of the inputs that are drawn, and how two answers are compared."""
import numpy as np

TOLERANCES = {"float64": 1e-6, "float32": 3e-4, "float16": 2e-2}


def spread(rng, domain, size, shape, draw):
    """Values of a domain; of indices some are out of range."""
    if domain in ("index", "class", "class above 0", "length"):
        low = int(domain in ("length", "class above 0"))
        top = max(size - 1 + low, low)
        values = rng.randint(low, top + 1, shape)
        if draw.wild and domain == "index":
            values = np.where(rng.rand(*shape) < 0.3, rng.randint(-size - 2, 2 * size + 2, shape), values)
        return values
    if domain == "truth":
        return rng.randint(0, 2, shape)
    if domain == "distinct":
        count = int(np.prod(shape))
        return rng.permutation(max(size, count))[:count].reshape(shape)
    if domain in ("cells", "distinct cells") and shape:
        depth, count = shape[0], int(np.prod(shape[1:]))
        rows = [d if k < len(size) else 2 for k, d in enumerate((tuple(size) + (2,) * depth)[:depth])]
        if domain == "cells":
            values = np.stack([rng.randint(0, max(d, 1), shape[1:]) for d in rows])
            if draw.wild:
                values = np.where(rng.rand(*shape) < 0.15, values - np.array(rows).reshape(-1, *[1] * (len(shape) - 1)), values)
            return values
        total = max(int(np.prod(rows)), 1)
        flat = rng.permutation(total)[:count] if count <= total else rng.randint(0, total, count)
        return np.stack(np.unravel_index(flat, [max(d, 1) for d in rows])).reshape(shape) if count else np.zeros(shape)
    low, high = {"positive": (0.4, 1.6), "probability": (0.05, 0.95), "within_one": (-0.9, 0.9),
                 "above_one": (1.1, 2.1)}.get(domain, (draw.low, draw.high))
    values = rng.uniform(low, high, shape)
    return np.where(np.abs(values) < 0.02, 0.1, values)


def values_of(draw, inputs, shapes, seed):
    rng = np.random.RandomState(seed)
    result = {}
    domains = draw.op["domains"] or []  # none where they depend on the attributes
    draw.wild = draw.chance(0.3)
    for k, name in enumerate(inputs):
        domain, size = draw.domains.get(k, (domains[k] if k < len(domains) else "any", 3))
        dtype = draw.types.get(k, draw.dtype)
        shape = tuple(shapes[name])
        values = spread(rng, domain, size, shape, draw)
        if np.dtype(dtype).kind != "f" and domain in ("any", "positive"):
            values = rng.randint(1 if domain == "positive" else -4, 5, shape)
        result[name] = np.asarray(values).astype(dtype)
    return result


def disagreement(ours, theirs, what, judge="MXNet", tolerance=0):
    """What differs between two arrays, or nothing; `tolerance` where intermediate results are narrower than the arrays."""
    if ours.shape != theirs.shape:
        return f"{what}: shape {list(ours.shape)}, {judge} {list(theirs.shape)}"
    if ours.dtype != theirs.dtype:
        return f"{what}: type {ours.dtype}, {judge} {theirs.dtype}"
    if not ours.size:
        return ""
    a, b = ours.astype("float64"), theirs.astype("float64")
    both = np.isfinite(a) & np.isfinite(b)
    equal = np.where(both, False, (a == b) | (np.isnan(a) & np.isnan(b)))
    scale = np.abs(b[both]).max() if both.any() else 0
    tolerance = max(tolerance, TOLERANCES.get(str(ours.dtype), 0))
    with np.errstate(invalid="ignore"):
        error = np.where(equal, 0, np.abs(a - b))
    bad = ~(error <= tolerance * max(scale, 0.1 if tolerance else 0))
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{what}{list(at)}: {ours[at]}, {judge} {theirs[at]}"
