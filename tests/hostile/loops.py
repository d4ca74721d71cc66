"""Loops, branches and calls whose lists, counts and bodies do not fit each other, and lengths that are none."""

import copy

from .graphs import LEAST, MOST, Graph, case, fine, tuple_text, unreadable


def body(op, operands, heads, attrs=None):
    """A graph of one node over `operands` variables; a head of None is the first variable."""
    g = Graph()
    inputs = [g.var(name="b%d" % i) for i in range(operands)]
    node = g.op(op, inputs, attrs, name="inside")
    made = g.json(*[node if head is not None else 0 for head in heads])
    del made["attrs"]
    return made


ADD = body("elemwise_add", 2, (0, 0))
ONE = body("elemwise_add", 2, (0,))
LESS = body("_lesser_scalar", 1, (0,), {"scalar": 3})
STEP = body("_plus_scalar", 1, (0, 0), {"scalar": 1})

# Attributes, bodies, shapes of the operands and what infers for output 0.
LOOPS = {
    "_foreach": (
        {
            "num_args": 3,
            "num_outputs": 2,
            "num_out_data": 1,
            "in_data_locs": "(0,)",
            "in_state_locs": "(1,)",
            "remain_locs": "()",
        },
        [ADD],
        [(4, 2), (2,)],
        (4, 2),
    ),
    "_scan": (
        {"num_args": 2, "num_data": 1, "num_states": 1, "num_out_data": 1, "input_locs": "(0,1)"},
        [ADD],
        [(4, 2), (2,)],
        (4, 2),
    ),
    "_while_loop": (
        {
            "num_args": 3,
            "num_outputs": 2,
            "num_out_data": 1,
            "max_iterations": 5,
            "cond_input_locs": "(0,)",
            "func_input_locs": "(0,)",
            "func_var_locs": "(0,)",
        },
        [LESS, STEP],
        [(1,)],
        (5, 1),
    ),
    "_cond": (
        {
            "num_args": 5,
            "num_outputs": 1,
            "cond_input_locs": "(0,)",
            "then_input_locs": "(0,1)",
            "else_input_locs": "(1,0)",
        },
        [LESS, ONE, ONE],
        [(1,), (1,)],
        (1,),
    ),
    "_call": ({"num_args": 2, "num_outputs": 1, "input_locs": "(1,0)"}, [ONE], [(2, 3), (2, 3)], (2, 3)),
}


def loop(op, attrs=None, bodies=None, shapes=None, dtypes=None, heads=(0,)):
    given, graphs, known, _ = LOOPS[op]
    g = Graph()
    shapes = known if shapes is None else shapes
    inputs = [g.var(shape, dtypes[i] if dtypes else None) for i, shape in enumerate(shapes)]
    node = g.op(op, inputs, {**given, **(attrs or {})}, name="y")
    g.nodes[node]["subgraphs"] = copy.deepcopy(graphs if bodies is None else bodies)
    return g.json(*[(node, head, 0) for head in heads])


def wrong_numbers(op, attrs):
    for key, value in attrs.items():
        if isinstance(value, str):
            count = value.count(",") + (value != "()" and not value.endswith(",)"))
            for name, numbers in [
                ("none", []),
                ("below", [-1] * max(count, 1)),
                ("far", [MOST] * max(count, 1)),
                ("least", [LEAST] * max(count, 1)),
                ("more", list(range(count + 1))),
                ("many", [0] * 300),
            ]:
                if tuple_text(numbers).replace(",)", ")") != value.replace(",)", ")"):
                    yield case("%s-%s-%s" % (op, key, name), loop(op, {key: tuple_text(numbers)}))
            continue
        for number in sorted({-1, 0, value - 1, value + 1, 65535, 65536, 2**31, MOST, LEAST} - {value}):
            yield case("%s-%s-%d" % (op, key, number), loop(op, {key: number}))


def loops():
    for op, (attrs, bodies, shapes, shape) in LOOPS.items():
        yield fine(op, loop(op), shape, plan="ok", grad="ok", order2="sound")
        yield from wrong_numbers(op, attrs)
        for saved in ["(1,)", "(0,0)", "(65535,)", "(-1,)", "(%d,%d)" % (MOST, MOST), "()", "(1,1,1,1)"]:
            yield case("%s-saved-%s" % (op, saved), loop(op, {"__saved__": saved}))
        yield unreadable(op + "-no-body", loop(op, bodies=[]))
        yield unreadable(op + "-body-more", loop(op, bodies=[*bodies, bodies[-1]]))
        for b in range(len(bodies)):
            for name, change in [
                ("no-heads", lambda g: g.update(heads=[])),
                ("head-more", lambda g: g["heads"].append(g["heads"][0])),
                ("variable-head", lambda g: g["heads"].__setitem__(0, [0, 0, 0])),
                ("unknown", lambda g: g["nodes"][-1].update(op="mystery")),
                ("overwrites", lambda g: g["nodes"][-1].update(op="_assign")),
            ]:
                changed = copy.deepcopy(bodies)
                change(changed[b])
                yield case("%s-body-%d-%s" % (op, b, name), loop(op, bodies=changed))
        for name, other in [
            ("scalars", [()] * len(shapes)),
            ("unknown", [None] * len(shapes)),
            ("no-rows", [(0,) + tuple(s[1:]) for s in shapes]),
            ("long", [(2**40,) + tuple(s[1:]) for s in shapes]),
            ("longest", [(MOST,) + tuple(s[1:]) for s in shapes]),
            ("others", [(7, 3 + i) for i in range(len(shapes))]),
            ("forty", [(1,) * 40] * len(shapes)),
        ]:
            yield case("%s-shapes-%s" % (op, name), loop(op, shapes=other))
        for dtype in [1, 2, 3, 4, 5, 7]:
            yield case("%s-type-%d" % (op, dtype), loop(op, dtypes=[dtype] * len(shapes)))
    branch = {"else_input_locs": "(1,)"}
    yield fine("_cond-lacks-branch", loop("_cond", branch, [LESS, ONE]), (1,), plan="ok", grad="ok", order2="sound")
    for name, numbers in [("none", []), ("more", [1, 0]), ("below", [-1]), ("far", [2]), ("least", [LEAST]), ("most", [MOST])]:
        given = {"else_input_locs": tuple_text(numbers)}
        yield unreadable("_cond-lacks-branch-" + name, loop("_cond", given, [LESS, ONE]))
    yield unreadable("_cond-lacks-branches", loop("_cond", branch, [LESS]))
    yield unreadable("_cond-lacks-branch-saved", loop("_cond", {**branch, "__saved__": "(0,1)"}, [LESS, ONE]))
    others = [(1,), (2,)]
    yield case("_cond-lacks-branch-shapes", loop("_cond", branch, [LESS, ONE], others), infer="refused", run="refused")
    for length in [0, 3, 5, -1, 2**31, MOST]:
        yield case("_scan-length-%d" % length, loop("_scan", {"length": length}))
        steps = {"has_steps": "True", "num_args": 3}
        yield case("_scan-steps-%d" % length, loop("_scan", {**steps, "length": length}, shapes=[(1,), (4, 2), (2,)]))
    yield case("_scan-no-data", loop("_scan", {"num_data": 0, "num_states": 2, "num_out_data": 0, "length": 4}))
    nested = loop("_call")
    del nested["attrs"]
    for _ in range(70):
        outer = loop("_call", bodies=[nested])
        del outer["attrs"]
        nested = outer
    yield unreadable("nested-too-deep", {**nested, "attrs": Graph().attrs}, "bad_json")


CLASSES = {"loops": loops}
