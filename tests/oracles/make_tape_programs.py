#!/usr/bin/env python3
"""Draws random imperative programs and runs them in PyTorch, which judges what the tape does with them.

    PYTHON tests/oracles/make_tape_programs.py --first 1 --count 300 > testdata/tape_programs.txt

PYTHON has torch. A program is a list of lines, and what holds at its end (tests/imperative/imperative_programs_test.cc reads both):

    program SEED
    leaf v0 2,3 : 0.5 ...           const likewise
    call v1 exp v0                  quiet v1 ...: the same in NoGradScope
    into v1 elemwise_mul v1 v2      quiet-into likewise
    apply v3 product v1 v2          a Function
    detach v4 v1
    hook h0 v1 scale 2              or shift, see, post; unhook h0
    retain v1 / free v1 / clear v0
    gradof v5 v0                    the gradient itself, not a copy
    backward v1,v2 - retain create v0     heads (-: none), flags, inputs
    grad v6,v7 v1 v0,v2 - create zeros    results, ys, xs, heads, flags
    value v1 1 2,3 : ...            tracked, shape
    gradient v0 : ...               or none

A statement that PyTorch refuses ends a program and is left out of it. So is what gradc does otherwise on purpose
(docs/imperative.md): a second backward over a history that was not retained, writes into views and into what has hooks, and
gradients of a value with hooks among the xs.
"""
import argparse
import random

import torch

torch.set_default_dtype(torch.float64)

UNARY = {"exp": torch.exp, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "sin": torch.sin,
         "square": torch.square, "negative": torch.neg, "sum": lambda x: x.sum().reshape(1),
         "_copy": lambda x: x.clone()}
BINARY = {"elemwise_add": torch.add, "elemwise_mul": torch.mul, "elemwise_sub": torch.sub}
BROADCAST = {"broadcast_add": torch.add, "broadcast_mul": torch.mul}
IN_PLACE = {"exp": torch.exp_, "tanh": torch.tanh_, "sigmoid": torch.sigmoid_, "sin": torch.sin_, "square": torch.square_,
            "negative": torch.neg_}
SHAPES = [(2, 3), (1, 3), (2, 1), (3,), (1,), (3, 2), (0, 3)]


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, dy):
        a, b = ctx.saved_tensors
        return dy * b, dy * a


class First(torch.autograd.Function):
    """a + b, with a gradient for a alone."""

    @staticmethod
    def forward(ctx, a, b):
        return a + b

    @staticmethod
    def backward(ctx, dy):
        return dy * 0.5, None


class Squared(torch.autograd.Function):
    """exp(a) and a·b, keeping the first output."""

    @staticmethod
    def forward(ctx, a, b):
        y = torch.exp(a)
        ctx.save_for_backward(y, a, b)
        return y, a * b

    @staticmethod
    def backward(ctx, dy, dz):
        y, a, b = ctx.saved_tensors
        return dy * y + dz * b, dz * a


FUNCTIONS = {"product": Product, "first": First, "pair": Squared}


class Program:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = [f"program {seed}"]
        self.tensors, self.hooks = {}, {}
        self.hooked, self.views, self.stale, self.unsure = set(), set(), set(), set()
        self.siblings = set()  # outputs of one call: where one is reached the others are (XS-01)
        self.has_post = self.has_none = self.is_recorded = False
        self.next = 0

    def name(self):
        self.next += 1
        return f"v{self.next - 1}"

    def pick(self, test=lambda name, x: True):
        names = [n for n, x in self.tensors.items() if n not in self.stale and test(n, x)]
        # Mostly late ones.
        return self.random.choice(names[-6:] if self.random.random() < 0.7 else names) if names else None

    def leaf(self):
        shape = self.random.choice(SHAPES)
        if self.random.random() < 0.7:
            shape = (2, 3)
        size = 1
        for extent in shape:
            size *= extent
        values = [round(self.random.uniform(-1.5, 1.5), 3) for _ in range(size)]
        name = self.name()
        x = torch.tensor(values).reshape(shape)
        is_leaf = self.random.random() < 0.7
        if is_leaf:
            x.requires_grad_()
        self.tensors[name] = x
        return f"{'leaf' if is_leaf else 'const'} {name} {','.join(map(str, shape)) or '-'} : " + " ".join(map(str, values))

    def expression(self):
        """An operator on what there is: text, function of the inputs."""
        a = self.pick()
        if a is None:
            return None
        x = self.tensors[a]
        kind = self.random.random()
        if kind < 0.3:
            op = self.random.choice(sorted(UNARY))
            return f"{op} {a}", lambda: UNARY[op](x)
        if kind < 0.5:
            k = round(self.random.uniform(-2, 2), 2)
            if self.random.random() < 0.5:
                return f"_mul_scalar {a} scalar={k}", lambda: x * k
            return f"_plus_scalar {a} scalar={k}", lambda: x + k
        if kind < 0.85:
            b = self.pick(lambda n, y: y.shape == x.shape)
            op = self.random.choice(sorted(BINARY))
            return f"{op} {a} {b}", lambda: BINARY[op](x, self.tensors[b])
        b = self.pick(lambda n, y: y.dim() == x.dim() and all(p == q or 1 in (p, q) for p, q in zip(x.shape, y.shape)))
        op = self.random.choice(sorted(BROADCAST))
        return f"{op} {a} {b}", lambda: BROADCAST[op](x, self.tensors[b])

    def call(self):
        made = self.expression()
        if made is None:
            return None
        name, text = self.name(), made[0]
        if self.random.random() < 0.08:
            with torch.no_grad():
                self.tensors[name] = made[1]()
            verb = "quiet"
        else:
            self.tensors[name] = made[1]()
            verb = "call"
        return f"{verb} {name} {text}"

    def into(self):
        isQuiet = self.random.random() < 0.3
        name = self.pick(lambda n, x: n not in self.views and n not in self.hooked and (isQuiet or not x.is_leaf or not x.requires_grad)
                         and not x.retains_grad)
        if name is None:
            return None
        to = self.tensors[name]
        kind = self.random.random()
        if kind < 0.35:
            op = self.random.choice(sorted(IN_PLACE))
            text, run = f"{op} {name}", lambda: IN_PLACE[op](to)
        elif kind < 0.6:
            k = round(self.random.uniform(-2, 2), 2)
            text, run = self.random.choice([(f"_mul_scalar {name} scalar={k}", lambda: to.mul_(k)),
                                            (f"_plus_scalar {name} scalar={k}", lambda: to.add_(k))])
        else:
            b = self.pick(lambda n, y: y.shape == to.shape)
            op, method = self.random.choice([("elemwise_add", "add_"), ("elemwise_mul", "mul_"), ("elemwise_sub", "sub_")])
            text, run = f"{op} {name} {b}", lambda: getattr(to, method)(self.tensors[b])
        if isQuiet:
            with torch.no_grad():
                run()
        else:
            run()
        return f"{'quiet-into' if isQuiet else 'into'} {name} {text}"

    def view(self):
        # A gradient that is seen through a view moves to new memory, which PyTorch's does not.
        a = self.pick(lambda n, x: x.dim() == 2 and not any(x is y.grad for y in self.tensors.values() if y.is_leaf))
        if a is None:
            return None
        name = self.name()
        kind = self.random.choice(["detach", "Flatten", "expand_dims"])
        x = self.tensors[a]
        self.views |= {a, name}
        if kind == "detach":
            self.tensors[name] = x.detach()
            return f"detach {name} {a}"
        if kind == "Flatten":
            self.tensors[name] = x.reshape(x.shape[0], -1) if x.numel() else x.view(x.shape)
            return f"call {name} Flatten {a}"
        self.tensors[name] = x.unsqueeze(0)
        return f"call {name} expand_dims {a} axis=0"

    def apply(self):
        a = self.pick()
        b = self.pick(lambda n, y: y.shape == self.tensors[a].shape)
        # PyTorch runs hooks after the accumulation where no gradient arrived, too (as in TA-49).
        which = self.random.choice(sorted(FUNCTIONS if not self.has_post else set(FUNCTIONS) - {"first"}))
        # It also calls functions with zeros where another function gave no gradient.
        if which == "first" and not self.tensors[b].is_leaf:
            return None
        self.has_none |= which == "first"
        made = FUNCTIONS[which].apply(self.tensors[a], self.tensors[b])
        made = made if isinstance(made, tuple) else (made,)
        names = [self.name() for _ in made]
        self.views |= {a, b, *names}  # the function holds them
        self.tensors.update(zip(names, made))
        if len(names) > 1:
            self.siblings |= set(names)
        return f"apply {','.join(names)} {which} {a} {b}"

    def hook(self):
        name = self.pick(lambda n, x: x.requires_grad)
        if name is None:
            return None
        x = self.tensors[name]
        number = f"h{len(self.hooks)}"
        kinds = ["scale", "shift", "see"] + (["post"] if x.is_leaf and not self.has_none else [])
        kind, k = self.random.choice(kinds), round(self.random.uniform(0.5, 2), 2)
        if kind == "post":
            self.has_post = True

            def halve(leaf):
                with torch.no_grad():
                    leaf.grad.mul_(k)
            self.hooks[number] = x.register_post_accumulate_grad_hook(halve)
        else:
            run = {"scale": lambda g: g * k, "shift": lambda g: g + k, "see": lambda g: None}[kind]
            # PyTorch calls it where no gradient arrives, too (TA-49).
            self.hooks[number] = x.register_hook(lambda g: None if g is None else run(g))
        self.hooked.add(name)
        return f"hook {number} {name} {kind} {k}"

    def unhook(self):
        if not self.hooks:
            return None
        number = self.random.choice(sorted(self.hooks))
        self.hooks[number].remove()
        return f"unhook {number}"

    def retain(self):
        name = self.pick(lambda n, x: x.requires_grad and not x.is_leaf)
        if name is None:
            return None
        self.tensors[name].retain_grad()
        return f"retain {name}"

    def free(self):
        name = self.pick()
        if name is None or self.random.random() < 0.5:
            return None
        del self.tensors[name]
        return f"free {name}"

    def clear(self):
        name = self.pick(lambda n, x: x.requires_grad and x.is_leaf)
        if name is None:
            return None
        self.tensors[name].grad = None
        return f"clear {name}"

    def gradof(self):
        # A recorded gradient that vanishes for any values counts as tracked, and is replaced where PyTorch adds to it.
        name = self.pick(lambda n, x: x.is_leaf and x.grad is not None and (not self.is_recorded or x.grad.requires_grad))
        if name is None:
            return None
        made = self.name()
        self.tensors[made] = self.tensors[name].grad
        self.views.add(made)
        return f"gradof {made} {name}"

    def is_target(self, name, x):
        return x.requires_grad and name not in self.hooked and name not in self.siblings

    def heads_of(self, ys):
        heads, names = [], []
        for y in ys:
            head = self.pick(lambda n, x: x.shape == self.tensors[y].shape) if self.random.random() < 0.4 else None
            names.append(head or "-")
            heads.append(self.tensors[head].clone() if head else torch.ones_like(self.tensors[y]))
        return heads, ",".join(names)

    def done(self, retain, is_partial):
        """What has been run through is not used again. PyTorch retains gradients in `grad` and with `inputs`, too."""
        if is_partial:
            self.unsure |= {id(x) for x in self.tensors.values() if x.retains_grad}
        if not retain:
            self.stale |= {n for n, x in self.tensors.items() if x.requires_grad and not x.is_leaf}
            self.stale |= {n for n, x in self.tensors.items() if x.is_leaf and x.grad is not None and x.grad.requires_grad}
            for n in list(self.tensors):
                x = self.tensors[n]
                if x.is_leaf and x.grad is not None and x.grad.requires_grad:
                    self.stale |= {m for m, y in self.tensors.items() if y is x.grad}

    def backward(self):
        ys = {self.pick(lambda n, x: x.requires_grad) for _ in range(self.random.choice([1, 1, 2]))}
        if None in ys:
            return None
        ys = sorted(ys)
        heads, names = self.heads_of(ys)
        create = self.random.random() < 0.25
        retain = create or self.random.random() < 0.6
        if not create and any(x.is_leaf and x.grad is not None and x.grad.requires_grad for x in self.tensors.values()):
            return None  # PyTorch adds in place to a gradient with a history, which then has the wrong one
        inputs = None
        if self.random.random() < 0.25:
            inputs = {self.pick(self.is_target) for _ in range(2)}
            if None in inputs:
                return None
        self.is_recorded |= create
        torch.autograd.backward([self.tensors[y] for y in ys], heads, retain_graph=retain, create_graph=create,
                                inputs=[self.tensors[x] for x in sorted(inputs)] if inputs else None)
        self.done(retain, inputs is not None)
        flags = " ".join(flag for flag, on in (("retain", retain), ("create", create)) if on)
        return f"backward {','.join(ys)} {names} {','.join(sorted(inputs)) if inputs else '-'} {flags}".rstrip()

    def grad(self):
        y = self.pick(lambda n, x: x.requires_grad)
        xs = [self.pick(self.is_target) for _ in range(self.random.choice([1, 2]))]
        if y is None or None in xs:
            return None
        heads, names = self.heads_of([y])
        create = len(set(xs)) == len(xs) and self.random.random() < 0.5  # one of two equal gradients is a copy of the other
        retain = create or self.random.random() < 0.6
        zeros = self.random.random() < 0.5
        found = torch.autograd.grad([self.tensors[y]], [self.tensors[x] for x in xs], heads, retain_graph=retain,
                                    create_graph=create, allow_unused=True)
        self.done(retain, True)
        results = []
        for x, gradient in zip(xs, found):
            if gradient is None and zeros:  # PyTorch would mark them as leaves
                gradient = torch.zeros_like(self.tensors[x]).detach()
            results.append("-" if gradient is None else self.name())
            if gradient is not None:
                # PyTorch may return the head itself, or share its memory; gradc never does (H-12).
                self.tensors[results[-1]] = gradient.clone() if create else gradient.detach().clone()
                self.views.add(results[-1])
        flags = " ".join(flag for flag, on in (("retain", retain), ("create", create), ("zeros", zeros)) if on)
        return f"grad {','.join(results)} {y} {','.join(xs)} {names} {flags}".rstrip()

    def state(self):
        lines = []
        for name, x in self.tensors.items():
            values = " ".join(f"{v:.12g}" for v in x.detach().flatten().tolist())
            lines.append(f"value {name} {int(x.requires_grad)} {','.join(map(str, x.shape)) or '-'} : {values}".rstrip())
            if (x.is_leaf and x.requires_grad) or (x.retains_grad and id(x) not in self.unsure):
                gradient = x.grad
                values = "none" if gradient is None else " ".join(f"{v:.12g}" for v in gradient.detach().flatten().tolist())
                lines.append(f"gradient {name} : {values}".rstrip())
        return lines

    def draw(self, length):
        verbs = [self.leaf] * 2 + [self.call] * 8 + [self.into] * 3 + [self.view, self.apply, self.hook, self.retain] + \
                [self.free, self.clear, self.gradof] + [self.unhook] + [self.backward] * 3 + [self.grad] * 3
        for _ in range(3):
            self.lines.append(self.leaf())
        state = self.state()
        while len(self.lines) < length:
            verb = self.random.choice(verbs)
            try:
                line = verb()
            except RuntimeError as error:
                if "memory location" in str(error) or "size" in str(error):
                    raise
                break
            if line is None:
                continue
            now = self.state()
            if any("inf" in text or "nan" in text or "e+" in text for text in now):
                break
            state = now
            self.lines.append(line)
        return self.lines + state


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--length", type=int, default=30)
    given = parser.parse_args()
    for seed in range(given.first, given.first + given.count):
        print("\n".join(Program(seed).draw(given.length)))


if __name__ == "__main__":
    main()
