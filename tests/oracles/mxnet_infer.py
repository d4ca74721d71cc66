"""Shapes and element types of every entry of a network: gradc's against MXNet's.

usage: mxnet_infer.py GRADC ORACLE_DIRECTORY FILE NAME
ORACLE_DIRECTORY holds mxnet_oracle.py and shapes.json, in which NAME has the input shapes. Both sides get these and
the element type of these inputs, nothing else; where MXNet refuses float64, gradc must, and float32 is compared. What MXNet leaves unknown is not compared. The last line is the verdict;
exit status 1 when anything differs.
"""
import json
import os
import subprocess
import sys
import tempfile

DTYPES = ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"]


def entries(path):
    """Name as MXNet spells it -> [shape, dtype], for each entry of an inferred graph; hidden outputs too.

    Where names repeat the last one counts, as it does in the oracle's answer.
    """
    graph = json.load(open(path))
    shapes, types = graph["attrs"]["shape"][1], graph["attrs"]["dtype"][1]
    found = {}
    for i, node in enumerate(graph["nodes"]):
        first, end = graph["node_row_ptr"][i], graph["node_row_ptr"][i + 1]
        for k in range(end - first):
            value = [shapes[first + k], DTYPES[types[first + k]] if 0 <= types[first + k] < len(DTYPES) else None]
            if node["op"] == "null":
                found[node["name"]] = value
                continue
            stem = node["name"] + "_output" if node["name"] else "output"
            found["%s%d" % (stem, k)] = value
            if k == 0:
                found[stem] = value
            if node["op"] in ("BatchNorm", "LayerNorm") and k:
                found[node["name"] + ("", "_mean", "_var" if node["op"] == "BatchNorm" else "_std")[k]] = value
    return found


def differences(ours, theirs):
    for name, entry in theirs.items():
        shape, dtype = entry["shape"], entry["dtype"]
        if name not in ours:
            yield name, "not found"
        elif all(d > 0 for d in shape) and shape != ours[name][0] and (shape or dtype):
            yield name, "shape %s, MXNet %s" % (ours[name][0], shape)
        elif dtype and dtype != ours[name][1]:
            yield name, "type %s, MXNet %s" % (ours[name][1], dtype)


def ask_gradc(gradc, path, row, dtype, out):
    """Runs `gradc infer`; the first line of its error, or nothing."""
    flags = []
    for variable, dims in row["shape"].items():
        flags += ["--shape", "%s=%s" % (variable, ",".join(map(str, dims)))]
        flags += ["--dtype", "%s=%s" % (variable, dtype)]
    done = subprocess.run([gradc, "infer", path, "-o", out] + flags, capture_output=True, text=True)
    return (done.stderr.strip().splitlines() or ["gradc infer failed"])[0] if done.returncode else None


def ask_mxnet(oracle, path, name, dtype, out):
    """Whether MXNet infers it."""
    ask = [sys.executable, oracle + "/mxnet_oracle.py", "infer", path, "--net", name, "--dtype", dtype, "-o", out]
    return subprocess.run(ask, capture_output=True).returncode == 0


def main(gradc, oracle, path, name):
    row = json.load(open(oracle + "/shapes.json"))[name]
    dtype = row.get("dtype", "float64")
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = folder + "/ours.json", folder + "/theirs.json"
        # Files that say __dtype__ of their parameters are float32 networks to both sides.
        if not ask_mxnet(oracle, path, name, dtype, theirs):
            if not ask_gradc(gradc, path, row, dtype, ours):
                print("DIFFERS MXNet refuses data of type %s" % dtype)
                return 1
            dtype = "float32"
            if not ask_mxnet(oracle, path, name, dtype, theirs):
                print("FAIL MXNet does not infer it")
                return 1
        error = ask_gradc(gradc, path, row, dtype, ours)
        if error:
            print("FAIL " + error)
            return 1
        theirs = json.load(open(theirs))
        found = list(differences(entries(ours), theirs))
    for line in found[:12]:
        print("  %s: %s" % line)
    unknown = sum(1 for e in theirs.values() if not e["dtype"] or any(d <= 0 for d in e["shape"]))
    verdict = "DIFFERS" if found else "AGREES"
    print("%s %d entries%s" % (verdict, len(theirs), ", %d unknown to MXNet" % unknown if unknown else ""))
    return 1 if found else 0


if __name__ == "__main__":
    os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")
    sys.exit(main(*sys.argv[1:]))
