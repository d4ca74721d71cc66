"""MXNet asked for the same numbers in other operators, where its own operator is not the judge.

    mxnet_reworded.py ORACLE_DIRECTORY compare FILE --net NAME --gradc BIN     and the oracle's other flags

Runs the oracle's verb in float64 on the same file and values. Only what MXNet executes is reworded; gradc gets the file as
it is:
- prelu becomes relu(x) - gamma · relu(-x). MXNet rounds gamma · x to single precision, and its backward operator sums
  gamma's gradient from the head gradient after it may have written the data gradient over it in place, which makes it
  gamma times too small.
- SoftmaxActivation becomes softmax, and a Crop to another input's size slice_like: MXNet has both in float32 alone,
  where retinaface-r50 is not reproducible (with and without oneDNN, MXNet's own gradients differ by a fifth).
- LRN, which MXNet has in float32 alone as well, becomes the formula it stands for. In float32 rounding decides which of two
  nearly equal elements of old-alexnet-cpp a max pooling takes.
"""
import json
import sys


def reshaped_gamma(rank):
    return "(" + ",".join(["1", "-1"] + ["1"] * (rank - 2)) + ")"


class Rewording:
    """Copies the nodes of a symbol's JSON one by one, under new numbers."""

    def __init__(self, graph, rank_of):
        self.old, self.rank_of, self.new, self.number = graph["nodes"], rank_of, [], []

    def add(self, op, name, inputs, **attrs):
        self.new.append({"op": op, "name": name, "inputs": inputs, "attrs": attrs})
        return [len(self.new) - 1, 0, 0]

    def prelu(self, name, x, gamma):
        above = self.add("relu", name + "_above", [x])
        below = self.add("relu", name + "_below", [self.add("negative", name + "_minus", [x])])
        slope = self.add("Reshape", name + "_slope", [gamma], shape=reshaped_gamma(self.rank_of(name)))
        self.add("elemwise_sub", name, [above, self.add("broadcast_mul", name + "_scaled", [below, slope])])

    def lrn(self, name, x, attrs):
        """x · (knorm + alpha/nsize · s) ^ -beta; s, the squares of nsize neighbouring channels, by pooling N × 1 × C × HW."""
        size = int(attrs["nsize"])
        planes = self.add("expand_dims", name + "_planes", [self.add("square", name + "_squares", [x])], axis="1")
        flat = self.add("Reshape", name + "_flat", [planes], shape="(0,0,0,-1)")
        pooled = self.add("Pooling", name + "_pooled", [flat], kernel="(%d,1)" % size, pad="(%d,0)" % (size // 2),
                          pool_type="sum")
        sums = self.add("reshape_like", name + "_sums", [pooled, x])
        scaled = self.add("_mul_scalar", name + "_scaled", [sums], scalar=str(float(attrs.get("alpha", 1e-4)) / size))
        base = self.add("_plus_scalar", name + "_base", [scaled], scalar=str(float(attrs.get("knorm", 2))))
        power = self.add("_power_scalar", name + "_power", [base], scalar=str(-float(attrs.get("beta", 0.75))))
        self.add("elemwise_mul", name, [x, power])

    def copy(self, node):
        inputs = [[self.number[i], k, v] for i, k, v in node["inputs"]]
        attrs = node.get("attrs", {})
        if node["op"] == "LeakyReLU" and attrs.get("act_type") == "prelu":
            self.prelu(node["name"], *inputs)
        elif node["op"] == "LRN":
            self.lrn(node["name"], inputs[0], attrs)
        elif node["op"] == "SoftmaxActivation":
            axis = "1" if attrs.get("mode") == "channel" else "-1"
            self.add("softmax", node["name"], inputs, axis=axis)
        elif node["op"] == "Crop" and len(inputs) == 2 and attrs.get("offset", "(0, 0)") in ("(0,0)", "(0, 0)"):
            self.add("slice_like", node["name"], inputs, axes="(2,3)")
        else:
            self.new.append(dict(node, inputs=inputs))
        self.number.append(len(self.new) - 1)

    def run(self, heads):
        for node in self.old:
            self.copy(node)
        return {
            "nodes": self.new,
            "arg_nodes": [i for i, n in enumerate(self.new) if n["op"] == "null"],
            "heads": [[self.number[i], k, 0] for i, k, *_ in heads],
            "attrs": {"mxnet_version": ["int", 10901]},
        }


def is_needed(symbol):
    """Whether MXNet is no judge of this network as it is."""
    return any(node["op"] in ("SoftmaxActivation", "Crop", "LRN") or node.get("attrs", {}).get("act_type") == "prelu"
               for node in json.loads(symbol.tojson())["nodes"])


def reworded(symbol, values):
    import mxnet as mx

    inner = symbol.get_internals()
    _, shapes, _ = inner.infer_shape(**{n: values[n].shape for n in symbol.list_arguments()})
    shape_of = dict(zip(inner.list_outputs(), shapes))
    graph = json.loads(symbol.tojson())
    return mx.sym.load_json(json.dumps(Rewording(graph, lambda n: len(shape_of[n + "_output"])).run(graph["heads"])))


def work_in_double(oracle):
    """Whatever type the oracle's table of shapes has for the network."""
    shapes_of = oracle.shapes_of

    def shapes_in_double(a):
        shapes = shapes_of(a)
        a.dtype, a.rtol = "float64", 1e-8
        return shapes

    oracle.shapes_of = shapes_in_double


def main():
    sys.path.insert(0, sys.argv.pop(1))
    import mxnet_oracle as oracle

    bind = oracle.bind
    oracle.bind = lambda symbol, values, *rest: bind(reworded(symbol, values), values, *rest)
    work_in_double(oracle)
    return oracle.main()


if __name__ == "__main__":
    sys.exit(main() or 0)
