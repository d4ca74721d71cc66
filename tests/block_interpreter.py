"""Runs a block program (JSON, docs/blocks.md) with NumPy, its gradient blocks too, as Paddle's executor does: a second
opinion on emitted programs that needs neither gradc nor Paddle.

Of a loop's state a gradient block sees the value at the beginning of the step, a block within that one what the state is
at the end of the loop: a program that needs another value there is wrong, and comes out wrong here."""
import numpy as np

EMPTY = "@EMPTY@"


class Scope:
    def __init__(self, parent=None):
        self.values, self.seen, self.parent = {}, {}, parent

    def find(self, name):
        if name in self.seen:
            return self.seen[name]
        scope = self
        while scope and name not in scope.values:
            scope = scope.parent
        if not scope:
            raise KeyError(name)
        return scope.values[name]

    def write(self, name, value):
        scope = self
        while scope and name not in scope.values:
            scope = scope.parent
        (scope or self).values[name] = value


def reduce_to(value, like):
    """Undoes broadcasting."""
    while value.ndim > like.ndim:
        value = value.sum(0)
    axes = tuple(i for i in range(like.ndim) if like.shape[i] == 1 and value.shape[i] != 1)
    return value.sum(axes, keepdims=True) if axes else value


def swapped(a):
    return np.swapaxes(a, -1, -2)


UNARY = {"tanh": np.tanh, "exp": np.exp, "relu": lambda x: np.maximum(x, 0), "square": np.square, "sqrt": np.sqrt,
         "logical_not": np.logical_not, "assign": np.copy}
FROM_OUT = {"tanh_grad": lambda y, g: g * (1 - y * y), "exp_grad": lambda y, g: g * y, "relu_grad": lambda y, g: g * (y > 0)}
BINARY = {"elementwise_add": np.add, "elementwise_sub": np.subtract, "elementwise_mul": np.multiply,
          "matmul_v2": np.matmul, "less_than": np.less}
PARTS = {"elementwise_add_grad": lambda x, y, g: (g, g), "elementwise_sub_grad": lambda x, y, g: (g, -g),
         "elementwise_mul_grad": lambda x, y, g: (g * y, g * x),
         "matmul_v2_grad": lambda x, y, g: (g @ swapped(y), swapped(x) @ g)}


class Interpreter:
    def __init__(self, program):
        self.blocks = program["blocks"]

    def run(self, bindings):
        """The values of the root block's variables at the end."""
        scope = Scope()
        scope.values.update(bindings)
        self.block(0, scope, False)
        return scope.values

    def block(self, index, scope, is_local):
        for op in self.blocks[index]["ops"]:
            self.op(op, scope, is_local, self.blocks[index]["vars"])

    def op(self, op, scope, is_local, declared):
        kind, attrs = op["type"], {k: v[1] for k, v in op["attrs"].items()}

        def get(slot):
            return [scope.find(name) for name in op["in"].get(slot, []) if name != EMPTY]

        def put(slot, values):
            for name, value in zip(op["out"].get(slot, []), values):
                if name == EMPTY:
                    continue
                if is_local or name in declared and name not in scope.values:
                    scope.values[name] = value
                else:
                    scope.write(name, value)

        if kind in UNARY:
            put("Out", [UNARY[kind](get("X")[0])])
        elif kind in FROM_OUT:
            put("X@GRAD", [FROM_OUT[kind](get("Out")[0], get("Out@GRAD")[0])])
        elif kind in BINARY:
            put("Out", [BINARY[kind](get("X")[0], get("Y")[0])])
        elif kind in PARTS:
            x, y = get("X")[0], get("Y")[0]
            dx, dy = PARTS[kind](x, y, np.broadcast_to(get("Out@GRAD")[0], np.broadcast(get("Out@GRAD")[0]).shape))
            put("X@GRAD", [reduce_to(dx, x)])
            put("Y@GRAD", [reduce_to(dy, y)])
        elif kind in ("reduce_mean", "reduce_sum"):
            put("Out", [get("X")[0].mean() if kind == "reduce_mean" else get("X")[0].sum()])
        elif kind in ("reduce_mean_grad", "reduce_sum_grad"):
            x = get("X")[0]
            put("X@GRAD", [np.full(x.shape, np.sum(get("Out@GRAD")[0]) / (x.size if "mean" in kind else 1))])
        elif kind == "sum":
            put("Out", [sum(get("X")[1:], get("X")[0])])
        elif kind == "scale":
            put("Out", [get("X")[0] * attrs["scale"] + attrs["bias"]])
        elif kind == "cast":
            put("Out", [get("X")[0].astype(np.int32 if attrs["out_dtype"] == 2 else np.float64)])
        elif kind == "fill_constant":
            put("Out", [np.full(attrs["shape"], attrs["value"])])
        elif kind == "fill_any_like":
            put("Out", [np.full_like(get("X")[0], attrs["value"])])
        elif kind == "select_input":
            put("Out", [get("X")[int(get("Mask")[0])]])
        elif kind == "select_output":
            x, mask = get("X")[0], int(get("Mask")[0])
            put("Out", [x if i == mask else np.zeros_like(x) for i in range(len(op["out"]["Out"]))])
        elif kind == "while":
            put("StepScopes", [self.loop(op, attrs, scope)])
        elif kind == "while_grad":
            self.loop_gradient(op, attrs, scope, get, put)
        elif kind == "conditional_block":
            inner = Scope(scope) if bool(np.all(get("Cond")[0])) else None
            if inner:
                for name in op["out"]["Out"]:
                    if name not in self.visible(scope):
                        scope.values[name] = None
                self.block(attrs["sub_block"], inner, False)
            else:
                for name in op["out"]["Out"]:
                    if name not in self.visible(scope):
                        scope.values[name] = np.zeros(1)
            put("Scope", [inner])
        elif kind == "conditional_block_grad":
            self.branch_gradient(op, attrs, scope, get, put)
        else:
            raise NotImplementedError(kind)

    @staticmethod
    def visible(scope):
        names = set()
        while scope:
            names |= set(scope.values)
            scope = scope.parent
        return names

    def loop(self, op, attrs, scope):
        states = set(op["in"]["X"]) & set(op["out"]["Out"])
        steps = []
        while bool(np.all(scope.find(op["in"]["Condition"][0]))):
            step = Scope(scope)
            step.begin = {name: scope.find(name) for name in states if name in self.visible(scope)}
            step.seen = {}
            self.block(attrs["sub_block"], step, False)
            steps.append(step)
        return steps

    def loop_gradient(self, op, attrs, scope, get, put):
        carried = dict(zip(attrs["original_output_grad"], get("Out@GRAD")))
        inside = [name + "@GRAD" for name in op["in"]["X"]]
        outside = op["out"]["X@GRAD"]
        is_state = [name in op["in"]["Out@GRAD"] for name in outside]
        sums = {}
        for step in reversed(scope.find(op["in"]["StepScopes"][0])):
            inner = Scope(step)
            inner.seen = dict(step.begin)
            inner.values.update(carried)
            self.block(attrs["sub_block"], inner, True)
            for name, to, state in zip(inside, outside, is_state):
                if to == EMPTY:
                    continue
                value = inner.values[name]
                if state:
                    carried[name] = value
                else:
                    sums[to] = sums.get(to, 0) + value
        values = []
        for forward, name, to, state in zip(op["in"]["X"], inside, outside, is_state):
            values.append(carried[name] if state else sums.get(to, None if to == EMPTY else np.zeros_like(scope.find(forward))))
        put("X@GRAD", values)

    def branch_gradient(self, op, attrs, scope, get, put):
        taken = scope.find(op["in"]["Scope"][0])
        inner = Scope(taken if taken else scope)
        inner.values.update(zip([name + "@GRAD" for name in op["in"]["Out"]], get("Out@GRAD")))
        inner.seen = {}
        if taken:
            self.block(attrs["sub_block"], inner, True)
        put("Input@GRAD", [inner.values.get(name + "@GRAD", np.zeros_like(scope.find(name))) if taken
                           else np.zeros_like(scope.find(name)) for name in op["in"]["Input"]])
