"""A network that MXNet cannot judge as it was saved, in a form that it can; both sides read the altered file.

    mxnet_altered.py FILE OUT     prints the --shape flags for it

- ntm-sparse-vae: its data are declared sparse, here dense; the numbers that it draws, which differ between systems, become
  a variable `noise`.
- ocr-gru-unrolled: MXNet 1.9.1 has no WarpCTC. What the loss reads becomes the head; states of double precision.
"""
import json
import sys


def dense_vae(nodes):
    for node in nodes:
        node.get("attrs", {}).pop("__storage_type__", None)
        if node["op"] == "_sample_normal":
            node.update(op="null", name="noise", inputs=[])
    return ["--shape", "data=4,2000", "--shape", "noise=4,10"]


def without_loss(nodes):
    for node in nodes:
        if node["op"] == "_zeros":
            node["attrs"]["dtype"] = "float64"
    return ["--shape", "data=2,1,12,798"]


ALTERATIONS = {"_sample_normal": dense_vae, "WarpCTC": without_loss}


def main():
    graph = json.load(open(sys.argv[1]))
    nodes = graph["nodes"]
    cause = next(node["op"] for node in nodes if node["op"] in ALTERATIONS)
    flags = ALTERATIONS[cause](nodes)
    heads = graph["heads"]
    if cause == "WarpCTC":
        heads = [nodes[heads[0][0]]["inputs"][0]]
    # Only what the heads reach: MXNet takes every variable of a file for an input.
    order, seen = [], set()
    stack = [(head[0], False) for head in reversed(heads)]
    while stack:
        n, is_done = stack.pop()
        if is_done:
            order.append(n)
        elif n not in seen:
            seen.add(n)
            stack.append((n, True))
            stack.extend((source[0], False) for source in reversed(nodes[n]["inputs"]))
    number = {n: i for i, n in enumerate(order)}
    kept = [dict(nodes[n], inputs=[[number[i], *rest] for i, *rest in nodes[n]["inputs"]]) for n in order]
    json.dump({"nodes": kept, "arg_nodes": [i for i, node in enumerate(kept) if node["op"] == "null"],
               "heads": [[number[i], *rest] for i, *rest in heads], "attrs": graph.get("attrs", {})}, open(sys.argv[2], "w"))
    print("\n".join(flags))


if __name__ == "__main__":
    main()
