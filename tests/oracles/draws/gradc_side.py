"""gradc on one graph: values of its outputs, gradients and states, or the message with which it refuses."""
import json
import subprocess

import numpy as np


def call(*command):
    """The message of the first error, or an empty one; a crash raises."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError("gradc does not end") from None
    if done.returncode < 0 or done.returncode > 4:
        raise RuntimeError(f"gradc crashed with {done.returncode}: {done.stderr[-300:]}")
    if done.returncode == 0:
        return ""
    return next((line for line in done.stderr.splitlines() if "error:" in line), done.stderr.strip() or "failed")


class Gradc:
    def __init__(self, tool, folder):
        self.tool, self.folder = tool, folder

    def operators(self):
        return json.loads(subprocess.check_output([self.tool, "ops", "--json"], text=True))

    def path(self, name):
        return f"{self.folder}/{name}"

    def run(self, graph, values, training, heads):
        """`heads`: an array per head of the graph, or empty: no gradient is asked for."""
        with open(self.path("g.json"), "w", encoding="utf-8") as file:
            json.dump(graph, file)
        flags = []
        for name, value in values.items():
            flags += ["--shape", f"{name}={','.join(map(str, value.shape)) or '()'}", "--dtype", f"{name}={value.dtype}"]
        model, answer, given = self.path("g.json"), {}, dict(values)
        if heads:
            seeds = []
            for k, head in enumerate(heads):
                seeds += ["--seed", f"op:{k}=head{k}"]
            refused = call(self.tool, "grad", model, "--wrt", "all", "--unused", "zeros", *seeds, *flags,
                           "--mode", "train" if training else "infer", "-o", self.path("t.json"))
            if refused:
                answer["no_gradient"] = refused
            else:
                model, flags = self.path("t.json"), []
                given.update((f"head{k}", head) for k, head in enumerate(heads))
        np.savez(self.path("in.npz"), **given)
        refused = call(self.tool, "run", model, *flags, "--inputs", self.path("in.npz"), "--outputs", self.path("out.npz"),
                       *(["--train"] if training else []))
        if refused:
            return {"refused": refused}
        found = dict(np.load(self.path("out.npz")))
        answer["gradients"] = {n[:-5]: v for n, v in found.items() if n.endswith("_grad") and n[:-5] in values}
        answer["states"] = {n: v for n, v in found.items() if n in values}
        answer["outputs"] = [v for n, v in found.items() if n not in values and not n.endswith("_grad")]
        return answer
