"""Steps of optimizers that read the learning rate, or which step it is, from an input: MXNet has attributes for both."""
import numpy as np

from draws.families import family

PREFIX = "_scheduled_"
OF_STEPS = ["sgd", "sgd_mom", "nag_mom", "signsgd", "signum", "adam", "adamw", "rmsprop", "rmspropalex", "ftrl", "ftml"]


def counterpart(name):
    """MXNet's operator, where `name` is one of these."""
    base = name.removeprefix(PREFIX)
    return ("_" if base == "adamw_update" else "") + base


@family(*(f"{PREFIX}{step}_update" for step in OF_STEPS), PREFIX + "lamb_update_phase1", PREFIX + "lamb_update_phase2")
def scheduled(draw):
    shape, ports = draw.shape(1, 3), draw.op["inputs"]["names"]
    draw.shapes = [(1,) if name in ("lr", "t", "r1", "r2") else shape for name in ports]
    for k, name in enumerate(ports):
        draw.domains[k] = {"lr": ("probability", 0), "t": ("class above 0", 5), "var": ("positive", 0), "n": ("positive", 0),
                           "v": ("positive", 0)}.get(name, ("any", 0))
    draw.put("rate_factor", draw.rng.choice([1, 0.5, -2]), 0.5)
    if "adamw" in draw.op["name"]:  # MXNet's, with its factor in an input, leaves the step out where it is 0
        draw.put("rescale_grad", draw.rng.choice([1, 0.5, -2]))
        for name in ("beta1", "beta2"):
            draw.put(name, round(draw.rng.uniform(0.05, 0.95), 3), 0.6)
    draw.fill()


def unscheduled(op, attrs, values):
    """Attributes and inputs of MXNet's operator that are the same step."""
    try:
        return converted(op, dict(attrs), dict(values))
    except ValueError:  # no number: MXNet refuses the attribute that it does not have
        return {**attrs, "rate_factor": "none"}, values


def converted(op, attrs, values):
    number = lambda name, default: finite(attrs.get(name, default))
    rate, t = number("rate_factor", 1), 1
    attrs.pop("rate_factor", None)
    if "op_lr" in values:
        rate *= float(values.pop("op_lr").flat[0])
        attrs["lr"] = repr(rate)
    if "op_t" in values:
        t = int(values.pop("op_t").flat[0])
        attrs["t"] = str(t)
    if counterpart(op["name"]) == "_adamw_update":
        defaults = {a["name"]: a.get("default", 0) for a in op["attributes"]}
        beta1, beta2 = (number(name, defaults[name]) for name in ("beta1", "beta2"))
        attrs |= {"eta": repr(rate), "lr": repr(float(np.sqrt(1 - beta2 ** t) / (1 - beta1 ** t)))}
        values["op_rescale_grad"] = np.float32([number("rescale_grad", 1)])
        for name in ("t", "rescale_grad"):
            attrs.pop(name, None)
    return attrs, values


def finite(text):
    text = str(text).strip()
    number = int(text[:-1]) if text.endswith("L") else float(text.rstrip("f"))
    if not np.isfinite(number):
        raise ValueError(text)
    return number
