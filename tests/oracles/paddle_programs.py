#!/usr/bin/env python3
"""python3 tests/oracles/paddle_programs.py GRADC [FOLDER]: what `gradc grad FILE` adds to Paddle's own programs.

FOLDER (../shared/programs/paddle) holds NAME.forward.json, a program and the call that differentiates it,
NAME.forward.pb, the same in Paddle's form, NAME.backward.json, the program after that call in Paddle 2.6.2, and for most
NAME.values.npz, what Paddle computed. Prints one line for each program: `equal`, operator for operator with types, slots,
names, order, attributes, variables, block links and pairs; or `differs`, with the reason, for the programs listed here and
in docs/blocks.md; or `FAILS`.

What is emitted is also judged by value. `gradc run` of equal programs gives Paddle's values to 1e-9, or, where there are
none, `gradc gradcheck` passes. Programs that differ, and those of testdata/blocks, are run as they came out
(tests/oracles/block_interpreter.py), and their gradients compared with central differences of the forward program. Paddle's form
with the call on the command line gives the same program. Requires NumPy. Exit code 1 when one fails."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from block_interpreter import Interpreter
except ImportError:
    sys.exit("not judged: NumPy is missing")

INTERIOR = "D-25: Paddle overwrites the gradient of a target that another target is made of"
HANDED = "D-28: Paddle drops copies of gradients that only the next step hands over"
REWRITTEN = "D-28: Paddle sums the gradients of all that a name holds in turn; gradc names the values apart"
COPIED = "D-28: Paddle reads what a loop's state is later; gradc copies the state first"
DIFFERENT = {
    "assign_same_name": REWRITTEN,
    "assign_same_name_nouse": REWRITTEN,
    "cond_no_else_assign": "D-28: Paddle adds up the gradients of both cases of a branch that writes a name or leaves it",
    "double_grad_cond.s2": "HO-09: Paddle has no gradient of conditional_block_grad and crashes; gradc refuses by name",
    "gradients_multi_target": INTERIOR,
    "gradients_target_is_interior": INTERIOR,
    "loss_nonscalar": "D-24: Paddle seeds a loss of several elements with one",
    "loss_stop_gradient": "the flag of a target does not stop its gradient",
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
UNJUDGED = {"double_grad_cond.s2", "while_no_grad_param"}
# Arguments that Paddle was given and the files do not hold.
ARGUMENTS = {
    "error_clip": {"error_clip": {"tanh_0.tmp_0": [-0.01, 0.01]}},
    "grad_clip_sgd": {"optimizer_arguments": {"clip_by_global_norm": 0.05}},
}
# Equal programs that no values judge, and why.
NO_VALUES = {
    "backward_inside_cond": "no operator runs the gradient block of a loss in a branch",
    "dropout": "other numbers are drawn",
}


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


def run_gradc(gradc, arguments, text=None):
    return subprocess.run([gradc, *arguments], input=text, capture_output=True, text=True)


def dense(archive, name):
    """A fetched value; a sparse one is the sum of its rows."""
    if f"fetch:{name}" in archive:
        return archive[f"fetch:{name}"]
    value = archive[f"value:{name}"]
    made = np.zeros((int(archive[f"height:{name}"]), *value.shape[1:]), value.dtype)
    np.add.at(made, archive[f"rows:{name}"], value)
    return made


def checked(gradc, text):
    """Empty if `gradc gradcheck` passes. A program that lists no gradient has none to check."""
    if not any(row[1] if isinstance(row, list) else row for row in json.loads(text)["result"]):
        return ""
    done = run_gradc(gradc, ["gradcheck", "--init", "1", "--max-iterations", "20", "-"], text)
    return "" if done.returncode == 0 else f"gradcheck: {(done.stdout + done.stderr).strip()[-200:]}"


def wrong_value(gradc, folder, name, text):
    """What is wrong with the values of an emitted program, empty if nothing, and the number of values compared."""
    path = folder / f"{name}.values.npz"
    if not path.exists():
        return checked(gradc, text), 0
    archive = np.load(path)
    given = {key.split(":", 1)[1]: archive[key] for key in archive.files if key.split(":")[0] in ("feed", "param")}
    wanted = {key.split(":", 1)[1] for key in archive.files if key.split(":")[0] in ("fetch", "value")}
    with tempfile.TemporaryDirectory() as scratch:
        while True:
            np.savez(f"{scratch}/in.npz", **given)
            flags = ["--train", "--inputs", f"{scratch}/in.npz", "--outputs", f"{scratch}/out.npz", "--max-iterations", "20"]
            done = run_gradc(gradc, ["run", "-", *flags], text)
            if done.returncode == 0:
                break
            unread = done.stderr.split("'")[1] if "is bound, but" in done.stderr else ""
            if given.pop(unread, None) is None:
                return f"run: {done.stderr.strip()[-200:]}", 0
        outputs = dict(np.load(f"{scratch}/out.npz"))
    compared = sorted(wanted & set(outputs))
    if not any("@GRAD" in key for key in compared):  # those of a later call
        return checked(gradc, text), 0
    # Behind a cast from float32 a number has the digits of that.
    is_rounded = any(archive[key].dtype == np.float32 for key in archive.files)
    for key in compared:
        expected, ours = dense(archive, key), outputs[key]
        bound = 1e-5 if expected.dtype != np.float64 else 1e-7 if is_rounded else 1e-9
        worst = np.abs(expected.ravel() - ours.ravel()).max(initial=0) if expected.size == ours.size else np.inf
        if not worst <= bound * max(1, np.abs(expected).max(initial=0)):
            return f"'{key}' differs from Paddle's value by {worst:.1e}", len(compared)
    return "", len(compared)


def flags_of(call):
    """The call as flags of `gradc grad`; None if flags cannot express it."""
    if call.get("prior_backward_calls") or call.get("current_block") or call["api"] == "minimize":
        return None
    is_gradients = call["api"] == "gradients"
    lists = {"--of": call["targets"] if is_gradients else [call["loss"]], "--wrt": call["inputs"] if is_gradients else None}
    lists |= {"--parameters": call.get("parameter_list"), "--no-grad": call.get("no_grad_set")}
    flags = [part for flag, names in lists.items() if names for part in (flag, ",".join(names))]
    for target, head in zip(call.get("targets", []), call.get("target_gradients") or []):
        flags += ["--seed", f"{target}={head}"] if head else []
    return flags


def differs_in_protobuf(gradc, folder, name):
    """Whether Paddle's form gives another program than the JSON form. It does not hold the order of parameters."""
    path, document = folder / f"{name}.forward.pb", folder / f"{name}.forward.json"
    flags = flags_of(json.loads(document.read_text())["call"]) if path.exists() else None
    if flags is None:
        return False
    made = [run_gradc(gradc, ["grad", str(file), *flags]).stdout for file in (path, document)]
    if not all(made):
        return made[0] != made[1]
    programs = [plain(json.loads(text)) for text in made]
    for program in programs:
        program["program"]["parameters"].sort()
    return programs[0] != programs[1]


def check(gradc, folder, name):
    """(state, what to say)"""
    forward = json.loads((folder / f"{name}.forward.json").read_text())
    forward["call"] |= ARGUMENTS.get(name, {})
    expected = json.loads((folder / f"{name}.backward.json").read_text())
    done = run_gradc(gradc, ["grad", "-"], json.dumps(forward))
    made = plain(json.loads(done.stdout)) if done.returncode == 0 else None
    reason = DIFFERENT.get(name)
    if differs_in_protobuf(gradc, folder, name):
        return "FAILS", "Paddle's form gives another program"
    if made is None:
        refusal = done.stderr.strip().splitlines()[:1] or ["no message"]
        is_meant = reason is not None and expected["program"] is None
        return ("differs" if is_meant else "FAILS"), f"{reason or ''} {refusal[0]}".strip()
    if made == plain(expected):
        if reason:
            return "FAILS", f"no difference any more: {reason}"
        if name in NO_VALUES:
            return "equal", NO_VALUES[name]
        wrong, count = wrong_value(gradc, folder, name, done.stdout)
        return ("FAILS", wrong) if wrong else ("equal", f"{count} values" if count else "central differences")
    if not reason:
        return "FAILS", "differs from Paddle"
    if name in UNJUDGED:
        return "differs", reason
    worst = worst_gradient(folder, name, forward, made)
    return ("differs" if worst < 1e-6 else "FAILS"), f"{reason}; central differences: {worst:.1e}"


def main():
    gradc = sys.argv[1]
    beside = pathlib.Path(__file__).resolve().parents[3] / "shared/programs/paddle"
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else beside
    own = pathlib.Path(__file__).resolve().parents[2] / "testdata/blocks"
    wrong = 0
    for path in sorted(own.glob("*.json")):
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
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs/blocks.md").read_text()
    for name in sorted(DIFFERENT):
        if not re.search(rf"\b{re.escape(name)}\b", page):
            print(f"FAILS   {name}: differs, but docs/blocks.md does not list it")
            wrong += 1
    print(f"{len(names)} programs: {counts['equal']} equal, {counts['differs']} differ as listed, {counts['FAILS']} fail")
    return 1 if counts["FAILS"] or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
