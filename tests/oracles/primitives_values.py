"""The gradient graph of a network against the same graph in primitives: every head and aux state, as `gradc run` computes them.

usage: primitives_values.py ORACLE_DIRECTORY GRADC FILE --net NAME

Inputs are those of the oracle, in float64: MXNet, which has some operators in float32 alone, is not asked. Dropout draws the
same numbers in both.
Prints the worst relative error, or what differs; exit status 1 then.
"""
import argparse
import subprocess
import sys
import tempfile

import numpy as np


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError("%s: %s" % (command[1], done.stderr.strip()[-1500:]))


def step(gradc, graph, dialect, shapes, feed, in_float64, folder):
    """Heads and aux states by name, of the graph in a dialect."""
    made, got = "%s/%s.json" % (folder, dialect), "%s/%s.npz" % (folder, dialect)
    types = [f for n in feed for f in ("--dtype", "%s=%s" % (n, feed[n].dtype))]
    call(gradc, "grad", graph, "--wrt", "all", "--dialect", dialect, *shapes, *types, "-o", made)
    call(gradc, "run", made, "--train", *(in_float64 or types), "--inputs", folder + "/in.npz", "--outputs", got)
    return dict(np.load(got))


def both(gradc, graph, shapes, feed, folder):
    """The step of the operators and that of the primitives. The types are those of the variables, because an output for regression
    divides in float32 whatever the data; where a variable or the graph's own tensors are float32, everything is in float64."""
    everything = ("--dtype", "float64")
    for in_float64 in ((), everything) if all(v.dtype != "float32" for v in feed.values()) else (everything,):
        try:
            return [step(gradc, graph, dialect, shapes, feed, in_float64, folder) for dialect in ("gradc", "primitives")]
        except RuntimeError as error:
            failure = error
    sys.exit("FAIL %s" % failure)


def main():
    sys.path.insert(0, sys.argv.pop(1))
    import mxnet_oracle as oracle

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("gradc")
    p.add_argument("file")
    p.add_argument("--net", required=True)
    p.set_defaults(shape=[], seed=1, dtype="float64", rtol=1e-9)
    a = p.parse_args()
    symbol, known = oracle.load(a.file), oracle.shapes_of(a)
    feed, _ = oracle.values(symbol, known, a.seed, a.dtype)
    a.rtol = 1e-9  # not that of what MXNet computes in
    shapes = [f for n, s in known.items() for f in ("--shape", "%s=%s" % (n, ",".join(map(str, s))))]
    with tempfile.TemporaryDirectory() as folder:
        np.savez(folder + "/in.npz", **{n: v.astype("float64") if v.dtype.kind == "f" else v for n, v in feed.items()})
        expected, found = both(a.gradc, a.file, shapes, feed, folder)
    heads = [[name for name in values if name not in feed] for values in (expected, found)]
    if len(heads[0]) != len(heads[1]):
        sys.exit("FAIL %d heads for %d" % (len(heads[1]), len(heads[0])))
    pairs = [(ours, expected[ours], found[theirs]) for ours, theirs in zip(*heads)]
    # A state that nothing overwrites is an input like any other.
    pairs += [(name, expected[name], found.get(name, feed[name])) for name in expected if name in feed]
    scale = max(np.abs(ours).max() for _, ours, _ in pairs if ours.size)

    def vanishes(values):
        """Whether it is zero but for rounding, as the gradient of a bias before batch norm."""
        return not values.size or np.abs(values).max() <= 1e-12 * scale

    bad, worst = [], 0.0
    for name, ours, theirs in pairs:
        if ours.shape == theirs.shape and vanishes(ours) and vanishes(theirs):
            continue  # noise in both has no digits to compare
        error = oracle.error_of(theirs, ours, scale) if ours.shape == theirs.shape else np.inf
        worst = max(worst, error)
        if not error <= a.rtol:
            bad.append((name, "error %.3g" % error))
    return oracle.verdict(bad, len(pairs), worst)


if __name__ == "__main__":
    sys.exit(main())
