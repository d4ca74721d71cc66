"""MXNet 1.9.1 in a process that may crash: some of the settings that are drawn make it read or write outside its memory."""
import ctypes
import json
import multiprocessing
import os
import resource

os.environ["MXNET_ENGINE_TYPE"] = "NaiveEngine"  # no threads, so that processes may fork
os.environ["OMP_NUM_THREADS"] = "1"  # the same of its matrix products
os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"

import mxnet as mx
import numpy as np
from mxnet.base import _LIB, check_call

UNWRITTEN = 7  # what gradients hold before the backward pass
STEPS = {"float64": 1e-6, "float32": 1e-2}


def registered():
    size, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    check_call(_LIB.MXListAllOpNames(ctypes.byref(size), ctypes.byref(names)))
    return {names[i].decode() for i in range(size.value)}


def compose(op, attrs, inputs):
    """The symbol of one node; inputs that are not given are made by MXNet."""
    handle = ctypes.c_void_p()
    check_call(_LIB.NNGetOpHandle(ctypes.c_char_p(op.encode()), ctypes.byref(handle)))
    inputs = [mx.sym.Variable(name) for name in inputs]
    return mx.symbol._internal._symbol_creator(handle.value, inputs, None, list(attrs), list(attrs.values()), "op", False, False)


def describe(error):
    lines = [line.strip() for line in str(error).split("\n") if line.strip() and not line.strip().startswith("[bt]")]
    found = next((line for line in lines if "Error" in line or "Check failed" in line), lines[0] if lines else "")
    return found[:220] or type(error).__name__


def make(request):
    """The graph, and the shapes and types of all its inputs, from those of the leading ones."""
    symbol = compose(request["op"], request["attrs"], request["inputs"])
    graph = json.loads(symbol.tojson())
    inputs = [graph["nodes"][i[0]]["name"] for i in graph["nodes"][-1]["inputs"]]
    answer = {"graph": graph, "inputs": inputs}
    known = dict(zip(inputs, request["shapes"]))
    try:
        infer = symbol.infer_shape_partial(**known)
    except Exception as error:  # whatever MXNet throws is an answer
        answer["refused"] = describe(error)
        return answer
    arguments, auxiliary = symbol.list_arguments(), symbol.list_auxiliary_states()
    shapes = dict(zip(arguments + auxiliary, infer[0] + infer[2]))
    answer["shapes"] = {name: known.get(name, shapes.get(name)) for name in inputs}
    answer["auxiliary"] = auxiliary
    return answer


def execute(request):
    symbol = mx.sym.load_json(json.dumps(request["graph"]))
    arrays = {name: mx.nd.array(value, dtype=value.dtype) for name, value in request["values"].items()}
    auxiliary = symbol.list_auxiliary_states()
    args = {name: arrays[name] for name in symbol.list_arguments()}
    states = {name: arrays[name] for name in auxiliary}
    wrt = [n for n in args if args[n].dtype in (np.float16, np.float32, np.float64)] if request["gradient"] else []
    grads = {name: mx.nd.full(args[name].shape, UNWRITTEN, dtype=args[name].dtype) for name in wrt}
    reqs = {name: "write" if name in grads else "null" for name in args}
    executor = symbol.bind(mx.cpu(), args, args_grad=grads, grad_req=reqs, aux_states=states)
    outputs = [o.asnumpy().copy() for o in executor.forward(is_train=request["training"])]
    answer = {"outputs": outputs, "gradients": {}, "heads": []}
    if wrt:
        rng = np.random.RandomState(request["seed"])
        heads = [rng.uniform(0.3, 1.5, o.shape).astype(request.get("rounded", o.dtype)).astype(o.dtype) for o in outputs]
        executor.backward([mx.nd.array(h, dtype=o.dtype) for h, o in zip(heads, executor.outputs)])
        answer["heads"] = heads
        answer["gradients"] = {name: grads[name].asnumpy() for name in wrt}
    answer["states"] = {name: states[name].asnumpy() for name in auxiliary}
    return answer


def run(request):
    """Outputs, gradients and states; without gradients and with the reason where MXNet has none."""
    try:
        return execute(request)
    except Exception as error:
        if not request["gradient"]:
            raise
        reason = describe(error)
    answer = execute({**request, "gradient": False})
    answer["no_gradient"] = reason
    return answer


def differences(request):
    """Central differences of MXNet's own outputs, weighted by the heads, with respect to one input."""
    for dtype in ("float64", "float32"):
        try:
            values = {n: v.astype(dtype) if v.dtype.kind == "f" else v for n, v in request["values"].items()}
            plain = {**request, "gradient": False}

            def total(name, at, step):
                moved = {n: v.copy() for n, v in values.items()}
                moved[name][at] += step
                outputs = execute({**plain, "values": moved})["outputs"]
                return sum(float((o.astype("float64") * h.astype("float64")).sum()) for o, h in zip(outputs, request["heads"]))

            name = request["wrt"]
            result = np.zeros(values[name].shape)
            for at in np.ndindex(*result.shape):
                result[at] = (total(name, at, STEPS[dtype]) - total(name, at, -STEPS[dtype])) / (2 * STEPS[dtype])
            return {"difference": result, "dtype": dtype}
        except mx.base.MXNetError as error:
            reason = describe(error)
    return {"refused": reason}


def serve(pipe):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    while True:
        what, request = pipe.recv()
        mx.util.set_np_shape(request.get("np_shape", False))
        try:
            answer = {"make": make, "run": run, "differences": differences}[what](request)
        except Exception as error:  # whatever MXNet throws is an answer
            answer = {"refused": describe(error)}
        pipe.send(answer)


class Mxnet:
    """Starts its process again where it died."""

    LIMIT = 30  # seconds

    def __init__(self):
        self.process = None

    def ask(self, what, request):
        if not self.process or not self.process.is_alive():
            self.pipe, there = multiprocessing.Pipe()
            self.process = multiprocessing.get_context("fork").Process(target=serve, args=(there,), daemon=True)
            self.process.start()
            there.close()
        self.pipe.send((what, request))
        try:
            if self.pipe.poll(self.LIMIT):
                return self.pipe.recv()
        except EOFError:
            pass
        self.process.kill()
        self.process.join()
        return {"refused": "it crashed", "crashed": True}
