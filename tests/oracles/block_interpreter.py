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


def element(value):
    """The one number of an array of any rank; NumPy 2 lets int() take it of rank 0 alone."""
    return np.asarray(value).item()


def swapped(a):
    return np.swapaxes(a, -1, -2)


UNARY = {"tanh": np.tanh, "exp": np.exp, "relu": lambda x: np.maximum(x, 0), "square": np.square, "sqrt": np.sqrt,
         "logical_not": np.logical_not, "assign": np.copy, "rnn_memory_helper": np.copy}
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
        elif kind == "increment":
            put("Out", [get("X")[0] + attrs["step"]])
        elif kind == "cast":
            put("Out", [get("X")[0].astype(np.int32 if attrs["out_dtype"] == 2 else np.float64)])
        elif kind == "fill_constant":
            put("Out", [np.full(attrs["shape"], attrs["value"])])
        elif kind == "fill_any_like":
            put("Out", [np.full_like(get("X")[0], attrs["value"])])
        elif kind == "select_input":
            put("Out", [get("X")[element(get("Mask")[0])]])
        elif kind == "select_output":
            x, mask = get("X")[0], element(get("Mask")[0])
            put("Out", [x if i == mask else np.zeros_like(x) for i in range(len(op["out"]["Out"]))])
        elif kind == "fill_constant_batch_size_like":
            shape = list(attrs["shape"])
            shape[attrs["output_dim_idx"]] = get("Input")[0].shape[attrs["input_dim_idx"]]
            put("Out", [np.full(shape, attrs["value"])])
        elif kind == "rnn_memory_helper_grad":  # the last step gets no gradient of a state
            name = op["in"]["Out@GRAD"][0]
            put("X@GRAD", [scope.find(name) if name in self.visible(scope) else np.zeros_like(get("X")[0])])
        elif kind == "recurrent":
            self.recurrent(op, attrs, scope, put)
        elif kind == "recurrent_grad":
            self.recurrent_gradient(op, attrs, scope, put)
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

    def recurrent(self, op, attrs, scope, put):
        """As recurrent_op.cc: rows of the inputs, states of the step before, outputs stacked."""
        inputs = [scope.find(name) for name in op["in"]["inputs"]]
        rows = range(len(inputs[0]))
        steps, outputs = {}, {name: [None] * len(inputs[0]) for name in op["out"]["outputs"]}
        states = [scope.find(name) for name in op["in"]["initial_states"]]
        for row in reversed(rows) if attrs["reverse"] else rows:
            step = Scope(scope)
            step.values.update(zip(op["in"]["inputs"], [array[row] for array in inputs]))
            step.values.update(zip(attrs["ex_states"], states))
            self.block(attrs["sub_block"], step, False)
            states = [step.values[name] for name in attrs["states"]]
            for name in outputs:
                outputs[name][row] = step.values[name]
            steps[row] = step
        put("outputs", [np.stack(outputs[name]) for name in op["out"]["outputs"]])
        put("step_scopes", [steps])

    def recurrent_gradient(self, op, attrs, scope, put):
        """The steps in the other direction: rows of the outputs' gradients arrive, those of states from the step after."""
        steps = scope.find(op["in"]["step_scopes"][0])
        arriving = {name: scope.find(name) for name in op["in"]["outputs@GRAD"]}
        carried, rows = {}, {name: [None] * len(steps) for name in op["in"]["inputs"]}
        sums, forward = {}, op["in"]
        for row in reversed(list(steps)):
            inner = Scope(steps[row])
            inner.values.update({name: array[row] for name, array in arriving.items()})
            for name, value in carried.items():
                inner.values[name] = inner.values[name] + value if name in arriving else value
            self.block(attrs["sub_block"], inner, True)
            carried = {after + "@GRAD": inner.values[before + "@GRAD"]
                       for before, after in zip(attrs["ex_states"], attrs["states"])}
            for name in rows:
                rows[name][row] = inner.values.get(name + "@GRAD")
            for i, name in enumerate(forward.get("parameters", [])):
                if name + "@GRAD" in inner.values:
                    sums[i] = sums.get(i, 0) + inner.values[name + "@GRAD"]
        put("inputs@GRAD", [None if made[0] is None else np.stack(made) for made in rows.values()])
        put("initial_states@GRAD", [inner.values[name + "@GRAD"] for name in attrs["ex_states"]])
        put("parameters@GRAD", [sums.get(i) for i in range(len(forward.get("parameters", [])))])

    def branch_gradient(self, op, attrs, scope, get, put):
        taken = scope.find(op["in"]["Scope"][0])
        inner = Scope(taken if taken else scope)
        inner.values.update(zip([name + "@GRAD" for name in op["in"]["Out"]], get("Out@GRAD")))
        inner.seen = {}
        if taken:
            self.block(attrs["sub_block"], inner, True)
        local = self.blocks[attrs["sub_block"]]["vars"]  # Paddle takes no others
        put("Input@GRAD", [inner.values.get(name + "@GRAD", np.zeros_like(scope.find(name)))
                           if taken and name + "@GRAD" in local else np.zeros_like(scope.find(name))
                           for name in op["in"]["Input"]])
