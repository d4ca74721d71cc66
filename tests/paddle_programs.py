#!/usr/bin/env python3
"""python3 tests/paddle_programs.py GRADC [FOLDER]: what `gradc grad FILE` adds to Paddle's own programs.

FOLDER (../shared/programs/paddle) holds NAME.forward.json, a program and the call that differentiates it, and
NAME.backward.json, the program after that call in Paddle 2.6.2. Prints one line for each: `equal`, operator for operator
with types, slots, names, order, attributes, variables, block links and pairs; or `differs`, with the reason, for the
programs listed here; or `FAILS`. Where NumPy is there, programs that differ, and those of testdata/blocks, are run as they
came out (tests/block_interpreter.py), and their gradients compared with central differences of the forward program. Exit code 1 when
one fails."""
import json
import os
import pathlib
import subprocess
import sys

try:
    import numpy as np
    from block_interpreter import Interpreter
except ImportError:
    np = None

INTERIOR = "D-25: Paddle overwrites the gradient of a target that another target is made of"
HANDED = "D-28: Paddle drops copies of gradients that only the next step hands over"
REWRITTEN = "D-28: Paddle sums the gradients of all that a name holds in turn; gradc names the values apart"
COPIED = "D-28: Paddle reads what a loop's state is later; gradc copies the state first"
DIFFERENT = {
    "assign_same_name": REWRITTEN,
    "assign_same_name_nouse": REWRITTEN,
    "cond_no_else_assign": "D-28: Paddle adds up the gradients of both cases of a branch that writes a name or leaves it",
    "double_grad_cond.s2": "HO-09: Paddle has no gradient of conditional_block_grad and crashes; gradc refuses by name",
    "error_clip": "the file does not say the clip; the C++ test does",
    "grad_clip_sgd": "the file does not say the clip; the C++ test does",
    "gradients_multi_target": INTERIOR,
    "gradients_target_is_interior": INTERIOR,
    "loss_nonscalar": "D-24: Paddle seeds a loss of several elements with one",
    "recompute_checkpoints": "recomputation is not offered for programs of blocks",
    "while_captured_var": COPIED,
    "while_cond": COPIED,
    "while_nested": COPIED,
    "while_no_grad_param": "NG-01: no-gradient names count in blocks within, too",
    "while_passthrough_state": HANDED,
    "while_swap": COPIED,
    "while_swap_copy": HANDED,
    "while_two_state": "D-28: Paddle stops at a state whose first value is flagged stop_gradient; gradc copies it first",
}
# The interpreter has no such operators, or a gradient is stopped by request.
UNJUDGED = {"double_grad_cond.s2", "error_clip", "grad_clip_sgd", "recompute_checkpoints", "while_no_grad_param"}


def plain(document):
    return {key: document[key] for key in ("program", "result") if key in document}


def central_difference(run, bindings, name):
    gradient = np.zeros_like(bindings[name])
    for index in np.ndindex(gradient.shape):
        values = []
        for step in (1e-6, -1e-6):
            moved = bindings[name].copy()
            moved[index] += step
            values.append(run({**bindings, name: moved}))
        gradient[index] = (values[0] - values[1]) / 2e-6
    return gradient


def bindings_of(folder, name, program):
    path = folder / f"{name.split('.')[0]}.values.npz"
    if path.exists():
        arrays = np.load(path)
        return {key.split(":", 1)[1]: arrays[key] for key in arrays.files if key.split(":")[0] in ("feed", "param")}
    draws = np.random.default_rng(1)
    bindings = {}
    for variable, record in program["blocks"][0]["vars"].items():
        if record["is_parameter"] or record.get("is_data"):
            shape = [abs(size) for size in record["shape"]]
            is_count = variable in ("n", "m") and shape in ([], [1])
            bindings[variable] = np.full(shape, 3.0) if is_count else draws.normal(size=shape) / 2
    return bindings


def worst_gradient(folder, name, forward, made):
    """The largest relative difference from central differences among the gradients of the result."""
    call = forward["call"]

    def run(bindings):
        values = Interpreter(forward["program"]).run(bindings)
        if call["api"] != "gradients":
            return np.sum(values[call["loss"]])
        heads = call["target_gradients"] or [None] * len(call["targets"])
        return sum(np.sum(values[y] * (values[head] if head else 1)) for y, head in zip(call["targets"], heads))

    bindings = bindings_of(folder, name, forward["program"])
    values = Interpreter(made["program"]).run(bindings)
    rows = made["result"] if call["api"] != "gradients" else list(zip(call["inputs"], made["result"]))
    worst = 0.0 if rows else float("inf")
    for variable, gradient in rows:
        expected = central_difference(run, bindings, variable)
        scale = max(np.abs(expected).max(), 1e-9)
        worst = max(worst, np.abs(values[gradient] - expected).max() / scale)
    return worst


def check(gradc, folder, name):
    """(state, what to say)"""
    forward = json.loads((folder / f"{name}.forward.json").read_text())
    expected = json.loads((folder / f"{name}.backward.json").read_text())
    done = subprocess.run([gradc, "grad", str(folder / f"{name}.forward.json")], capture_output=True, text=True)
    made = plain(json.loads(done.stdout)) if done.returncode == 0 else None
    reason = DIFFERENT.get(name)
    if made is None:
        refusal = done.stderr.strip().splitlines()[-1:] or ["no message"]
        is_meant = reason is not None and expected["program"] is None
        return ("differs" if is_meant else "FAILS"), f"{reason or ''} {refusal[0]}".strip()
    if made == plain(expected):
        return ("FAILS", f"no difference any more: {reason}") if reason else ("equal", "")
    if not reason:
        return "FAILS", "differs from Paddle"
    if name in UNJUDGED or np is None:
        return "differs", reason
    worst = worst_gradient(folder, name, forward, made)
    return ("differs" if worst < 1e-6 else "FAILS"), f"{reason}; central differences: {worst:.1e}"


def main():
    gradc = sys.argv[1]
    beside = pathlib.Path(__file__).resolve().parents[2] / "shared/programs/paddle"
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else beside
    own = pathlib.Path(__file__).resolve().parents[1] / "testdata/blocks"
    wrong = 0
    for path in sorted(own.glob("*.json")) if np is not None else []:
        if path.stem == "power":  # it has its gradient
            continue
        forward = json.loads(path.read_text())
        made = json.loads(subprocess.run([gradc, "grad", str(path)], capture_output=True, text=True, check=True).stdout)
        worst = worst_gradient(own, path.stem, forward, made)
        print(f"{'judged' if worst < 1e-6 else 'FAILS':7} {path.name}: central differences: {worst:.1e}", flush=True)
        wrong += worst >= 1e-6
    names = sorted(path.name[: -len(".forward.json")] for path in folder.glob("*.forward.json"))
    if not names:
        print(f"skipped: no programs in {folder}")
        return 1 if wrong else 0
    counts = {"equal": 0, "differs": 0, "FAILS": 0}
    for name in names:
        state, text = check(os.path.abspath(gradc), folder, name)
        counts[state] += 1
        print(f"{state:7} {name}{': ' + text if text else ''}", flush=True)
    print(f"{len(names)} programs: {counts['equal']} equal, {counts['differs']} differ as listed, {counts['FAILS']} fail")
    return 1 if counts["FAILS"] or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
