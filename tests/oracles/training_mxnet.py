#!/usr/bin/env python3
"""Trains the digits network with gradc and with MXNet 1.9.1 from the same parameters, and compares the two.

    GRADC=path/to/gradc python3 tests/oracles/training_mxnet.py      from the root of the repository

Compares the loss of every step and the parameters after the last, for optimizers, weight decay, clipping and learning rate
schedules; then lets MXNet run the training graph that gradc emits for it. Exit code 1 when they differ by more than
rounding in float32 explains. Prints "skipped" without MXNet.
"""
import json
import os

os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"  # MXNet's default one refuses graphs with control dependencies
import subprocess
import sys
import tempfile

try:
    import mxnet as mx
    import numpy as np
except ImportError:
    print("skipped: MXNet is not installed")
    sys.exit(0)

NETWORK, DATA, BATCH, STEPS, TOLERANCE = "testdata/demo/digits.json", "testdata/digits/digits.npz", 32, 30, 5e-6
FED = ("data", "softmax_label")
CASES = [
    ("sgd", dict(learning_rate=0.1, momentum=0.9, wd=1e-3, clip_gradient=0.05),
     "--lr 0.1 --momentum 0.9 --wd 1e-3 --clip 0.05"),
    ("adam", dict(learning_rate=0.003, wd=1e-3), "--optimizer adam --lr 0.003 --wd 1e-3"),
    # Without decay: in place, as here, MXNet's operator decays the momentum by the weight that it has just overwritten.
    ("nag", dict(learning_rate=0.1, momentum=0.9, clip_gradient=0.05),
     "--optimizer nag --lr 0.1 --momentum 0.9 --clip 0.05"),
    ("signum", dict(learning_rate=0.002, momentum=0.0, wd=1e-3), "--optimizer signsgd --lr 0.002 --wd 1e-3"),
    ("signum", dict(learning_rate=0.002, momentum=0.9, wd=1e-3, wd_lh=0.1),
     "--optimizer signum --lr 0.002 --momentum 0.9 --wd 1e-3 --optimizer-attr wd_lh=0.1"),
    ("rmsprop", dict(learning_rate=0.002, wd=1e-3), "--optimizer rmsprop --lr 0.002 --wd 1e-3"),
    ("rmsprop", dict(learning_rate=0.002, gamma1=0.95, gamma2=0.8, epsilon=1e-4, centered=True, clip_weights=0.5),
     "--optimizer rmspropalex --lr 0.002 --epsilon 1e-4 --optimizer-attr gamma1=0.95 --optimizer-attr gamma2=0.8"
     " --optimizer-attr clip_weights=0.5"),
    ("adagrad", dict(learning_rate=0.02, wd=1e-3, clip_gradient=0.05),
     "--optimizer adagrad --lr 0.02 --wd 1e-3 --clip 0.05"),
    ("ftrl", dict(learning_rate=0.2, lamda1=1e-4, wd=1e-3),
     "--optimizer ftrl --lr 0.2 --wd 1e-3 --optimizer-attr lamda1=1e-4"),
    ("ftml", dict(learning_rate=0.003, wd=1e-3), "--optimizer ftml --lr 0.003 --wd 1e-3"),
    ("lamb", dict(learning_rate=0.02, wd=1e-3, upper_bound=2.0),
     "--optimizer lamb --lr 0.02 --wd 1e-3 --optimizer-attr upper_bound=2"),
    ("nag", dict(learning_rate=0.1, momentum=0.5,
                 lr_scheduler=mx.lr_scheduler.CosineScheduler(STEPS, 0.1, 0.01, warmup_steps=5)),
     "--optimizer nag --momentum 0.5 --lr 0.1 --schedule cosine --warmup 5 --final-lr 0.01"),
    ("sgd", dict(learning_rate=0.1, lr_scheduler=mx.lr_scheduler.CosineScheduler(STEPS, 0.1, 0.01, warmup_steps=5)),
     "--lr 0.1 --schedule cosine --warmup 5 --final-lr 0.01"),
    ("sgd", dict(learning_rate=0.1, lr_scheduler=mx.lr_scheduler.FactorScheduler(7, 0.5, base_lr=0.1)),
     "--lr 0.1 --schedule step --drop-every 7 --drop-factor 0.5"),
]


def gradc(folder, flags):
    """Parameters after, and the loss of every step."""
    command = [os.environ.get("GRADC", "out/bin/tools/gradc/gradc"), "train", NETWORK, "--data", DATA,
               "--feed", "data=train_images", "--feed", "softmax_label=train_labels", "--batch", str(BATCH),
               "--shuffle", "none", "--init", "5", "-o", folder + "/params.npz", "--log", folder + "/log.jsonl"]
    subprocess.run(command + flags.split(), check=True, stdout=subprocess.DEVNULL)
    with open(folder + "/log.jsonl", encoding="utf-8") as log:
        losses = [json.loads(line)["loss"] for line in log]
    return dict(np.load(folder + "/params.npz")), np.array(losses)


def mxnet(start, name, options):
    network, data = mx.sym.load(NETWORK), np.load(DATA)
    request = {n: "null" if n in FED else "write" for n in network.list_arguments()}
    executor = network.simple_bind(mx.cpu(), data=(BATCH, 1, 8, 8), softmax_label=(BATCH,), grad_req=request)
    names = list(start)
    for n in names:
        executor.arg_dict[n][:] = start[n]
    optimizer = mx.optimizer.create(name, rescale_grad=1.0, param_idx2name=dict(enumerate(names)), sym=network, **options)
    update, losses = mx.optimizer.get_updater(optimizer), []
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        labels = data["train_labels"][rows]
        executor.arg_dict["data"][:] = data["train_images"][rows]
        executor.arg_dict["softmax_label"][:] = labels
        likelihood = executor.forward(is_train=True)[0].asnumpy()[np.arange(BATCH), labels]
        losses.append(-np.log(likelihood).mean())
        executor.backward()
        for i, n in enumerate(names):
            update(i, executor.grad_dict[n], executor.arg_dict[n])
    return {n: executor.arg_dict[n].asnumpy() for n in names}, np.array(losses)


def emitted(folder, start):
    """Parameters after one step of the emitted graph, in MXNet."""
    graph = folder + "/train.json"
    after, _ = gradc(folder, f"--steps 1 --lr 0.05 --momentum 0.9 --dialect mxnet --emit-graph {graph}")
    network, data = mx.sym.load(graph), np.load(DATA)
    executor = network.simple_bind(mx.cpu(), grad_req="null", data=(BATCH, 1, 8, 8), softmax_label=(BATCH,))
    for n in start:
        executor.arg_dict[n][:] = start[n]
    for state in executor.aux_arrays:
        state[:] = 0
    executor.arg_dict["data"][:] = data["train_images"][:BATCH]
    executor.arg_dict["softmax_label"][:] = data["train_labels"][:BATCH]
    outputs = dict(zip(network.list_outputs(), executor.forward(is_train=True)))
    return max(np.abs(outputs[n + "_update_output"].asnumpy() - after[n]).max() for n in start)


worst = 0
with tempfile.TemporaryDirectory() as folder:
    start, _ = gradc(folder, "--steps 1 --lr 0")
    for name, options, flags in CASES:
        theirs, their_losses = mxnet(start, name, options)
        for backend in ("reference", "auto"):
            ours, our_losses = gradc(folder, f"--steps {STEPS} --backend {backend} {flags}")
            parameters = max(np.abs(ours[n] - theirs[n]).max() for n in ours)
            losses = np.abs(our_losses - their_losses).max()
            worst = max(worst, parameters, losses)
            print(f"{flags} --backend {backend}: parameters differ by {parameters:.1e}, losses by {losses:.1e}")
    difference = emitted(folder, start)
    worst = max(worst, difference)
    print(f"the emitted graph, run by MXNet: parameters differ by {difference:.1e}")
print("AGREES" if worst <= TOLERANCE else "DIFFERS")
sys.exit(worst > TOLERANCE)
