#!/usr/bin/env python3
"""One turn of a peer, in a process of its own: peer_process.py KIND FILE INPUTS THREADS STEPS, started by peers.py.

KIND is mxnet, torch or compile (torch.compile); INPUTS is the JSON of a network's inputs (networks.py). Builds the network,
takes STEPS steps of training (forward, backward, SGD with momentum) and prints one JSON object: `steps`, the milliseconds of
each, including the first; `processor`, the processor time of each; and, if the peer can count them, the `flops` of a step,
multiply and add counted as two, and `memory`, the growth of resident memory, without mapped files, from before the network
was made to the highest mark."""
import ast, json, os, re, sys, time

RATE, MOMENTUM = 0.01, 0.9


def status_bytes(key):
    """A line of /proc/self/status such as VmRSS."""
    return next(int(line.split()[1]) * 1024 for line in open('/proc/self/status') if line.startswith(key + ':'))


class MXNetPeer:
    """Symbol.bind, and the updater that Module and Trainer use."""

    def __init__(self, path, inputs, threads):
        import mxnet as mx
        self.mx, sym = mx, mx.sym.load(path)
        shapes = {name: tuple(shape) for name, (shape, _) in inputs.items()}
        sizes, outs, aux = sym.infer_shape(**shapes)
        random = lambda shape: mx.nd.random.uniform(-0.05, 0.05, shape)
        values = {n: mx.nd.ones(s) if n.endswith('gamma') else random(s) for n, s in zip(sym.list_arguments(), sizes)}
        for name, (shape, classes) in inputs.items():
            values[name] = mx.nd.floor(mx.nd.random.uniform(0, classes, tuple(shape))) if classes else random(shape)
        self.weights = {n: v for n, v in values.items() if n not in inputs}
        self.gradients = {n: mx.nd.zeros(v.shape) for n, v in self.weights.items()}
        states = {n: mx.nd.ones(s) if n.endswith('var') else mx.nd.zeros(s)
                  for n, s in zip(sym.list_auxiliary_states(), aux)}
        self.executor = sym.bind(mx.cpu(), args=values, args_grad=self.gradients, aux_states=states,
                                 grad_req={n: 'write' if n in self.weights else 'null' for n in values})
        self.heads = [mx.nd.ones(s) for s in outs]
        batch = next(iter(shapes.values()))[0]
        self.updater = mx.optimizer.get_updater(
            mx.optimizer.create('sgd', learning_rate=RATE, momentum=MOMENTUM, rescale_grad=1 / batch))

    def step(self):
        self.executor.forward(is_train=True)
        self.executor.backward(self.heads)
        for i, name in enumerate(self.weights):
            self.updater(i, self.gradients[name], self.weights[name])
        self.mx.nd.waitall()

    def facts(self):
        return {}


class TorchPeer:
    """The operators of the file, one after the other, as torch.nn.functional calls."""

    def __init__(self, path, inputs, threads, compiles=False):
        import torch
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self.torch, self.resident = torch, status_bytes('VmRSS') - status_bytes('RssFile')
        self.nodes = json.load(open(path))['nodes']
        self.program = [(node, self.attrs(node)) for node in self.nodes if node['op'] != 'null']
        self.inputs = {name: torch.randint(0, classes, shape) if classes else torch.randn(*shape)
                       for name, (shape, classes) in inputs.items()}
        self.parameters, self.states, self.modules = {}, {}, {}
        with torch.no_grad():
            self.forward()
        self.run = torch.compile(self.forward) if compiles else self.forward
        self.optimizer = torch.optim.SGD(self.parameters.values(), lr=RATE, momentum=MOMENTUM)

    @staticmethod
    def attrs(node):
        found = {k: v for key in ('attrs', 'attr', 'param') for k, v in node.get(key, {}).items()}
        literal = lambda text: ast.literal_eval(text) if re.match(r'[\[(\d.-]|True|False', text) else text
        return {k: literal(v) for k, v in found.items() if not k.startswith('__')}

    def parameter(self, name, shape):
        if name not in self.parameters:
            made = self.torch.ones(shape) if name.endswith('gamma') else self.torch.randn(shape) * 0.05
            self.parameters[name] = made.requires_grad_(True)
        return self.parameters[name]

    def recurrent(self, a, name, x):
        """torch.nn.LSTM with weights of its own and states of zero."""
        if name not in self.modules:
            made = self.modules[name] = self.torch.nn.LSTM(x.shape[2], a['state_size'], a['num_layers'])
            self.parameters.update({'%s.%s' % (name, key): value for key, value in made.named_parameters()})
        return self.modules[name](x)

    def forward(self):
        values, y = {}, None
        position = {id(node): i for i, node in enumerate(self.nodes)}
        for node, a in self.program:
            names = [self.nodes[e[0]]['name'] for e in node['inputs']]
            operands = [values.get((e[0], e[1]), self.inputs.get(name)) for e, name in zip(node['inputs'], names)]
            made = self.call(node['op'], a, names, operands)
            for o, y in enumerate(made if isinstance(made, (list, tuple)) else [made]):
                values[position[id(node)], o] = y
        return y if y.dim() == 0 else y.sum()

    @staticmethod
    def reshape(x, shape, reverse):
        """0 keeps the extent of that axis, counted from the end under `reverse`."""
        sizes, turn = list(x.shape), slice(None, None, -1 if reverse else 1)
        kept = [size if size != 0 else sizes[turn][i] for i, size in enumerate(shape[turn])]
        return x.reshape(kept[turn])

    def call(self, op, a, names, operands):
        torch, f = self.torch, self.torch.nn.functional
        x = operands[0] if operands else None
        if op == 'Convolution':
            w = self.parameter(names[1], (a['num_filter'], x.shape[1] // a.get('num_group', 1)) + a['kernel'])
            b = self.parameter(names[2], (a['num_filter'],)) if len(names) > 2 else None
            return f.conv2d(x, w, b, a.get('stride', 1), a.get('pad', 0), groups=a.get('num_group', 1))
        if op == 'FullyConnected':
            x = x.flatten(1) if a.get('flatten', True) else x
            w = self.parameter(names[1], (a['num_hidden'], x.shape[-1]))
            return f.linear(x, w, self.parameter(names[2], (a['num_hidden'],)) if len(names) > 2 else None)
        if op == 'BatchNorm':
            if names[3] not in self.states:
                self.states[names[3]] = torch.zeros(x.shape[1]), torch.ones(x.shape[1])
            gamma, beta = (self.parameter(n, (x.shape[1],)) for n in names[1:3])
            mean, var = self.states[names[3]]
            return f.batch_norm(x, mean, var, gamma, beta, True, 1 - a.get('momentum', 0.9), a.get('eps', 1e-3))
        if op == 'Activation':
            return {'relu': f.relu, 'tanh': torch.tanh, 'sigmoid': torch.sigmoid}[a['act_type']](x)
        if op == 'Pooling':
            if a.get('global_pool'):
                return f.adaptive_avg_pool2d(x, 1)
            pool = f.max_pool2d if a['pool_type'] == 'max' else f.avg_pool2d
            return pool(x, a['kernel'], a.get('stride', 1), a.get('pad', 0))
        if op in ('elemwise_add', '_Plus', '_plus'):
            return x + operands[1]
        if op == 'elemwise_mul':
            return x * operands[1]
        if op == 'Embedding':
            return f.embedding(x, self.parameter(names[1], (a['input_dim'], a['output_dim'])))
        if op == 'RNN':
            return self.recurrent(a, names[1], x)[0]
        if op == '_zeros':
            return torch.zeros(a['shape'])
        if op == 'SequenceLast':
            return x[-1]
        if op == 'SwapAxis':
            return x.swapaxes(a['dim1'], a['dim2'])
        if op == 'SliceChannel':
            parts = x.chunk(a['num_outputs'], a.get('axis', 1))
            return [p.squeeze(a.get('axis', 1)) for p in parts] if a.get('squeeze_axis') else list(parts)
        if op == 'Flatten':
            return x.flatten(1)
        if op == 'SoftmaxOutput':
            return f.cross_entropy(x, operands[1])
        if op == 'Embedding':
            return f.embedding(x.long(), self.parameter(names[1], (a['input_dim'], a['output_dim'])))
        if op == 'LayerNorm':
            gamma, beta = (self.parameter(n, x.shape[-1:]) for n in names[1:3])
            return f.layer_norm(x, x.shape[-1:], gamma, beta, a['eps'])
        if op == 'Dropout':
            return f.dropout(x, a['p'])
        if op == 'batch_dot':
            return torch.bmm(x, operands[1].transpose(1, 2) if a.get('transpose_b') else operands[1])
        if op == 'Reshape':
            return self.reshape(x, list(a['shape']), a.get('reverse', False))
        if op == 'SequenceMask':  # with the time on the second axis
            within = torch.arange(x.shape[1])[None, :] < operands[1][:, None]
            return x * within.reshape(within.shape + (1,) * (x.dim() - 2))
        simple = {'transpose': lambda: x.permute(a['axes']),
                  'expand_dims': lambda: x.unsqueeze(a['axis']),
                  'broadcast_axis': lambda: x.repeat_interleave(a['size'], a['axis']),
                  'broadcast_add': lambda: x + operands[1],
                  'broadcast_lesser': lambda: (x < operands[1]).float(),
                  'where': lambda: torch.where(x != 0, operands[1], operands[2]),
                  'softmax': lambda: f.softmax(x, a.get('axis', -1)),
                  'erf': lambda: torch.erf(x),
                  'ones_like': lambda: torch.ones_like(x),
                  '_arange': lambda: torch.arange(a['start']),  # start alone is the end
                  '_contrib_div_sqrt_dim': lambda: x / x.shape[-1] ** 0.5,
                  '_mul_scalar': lambda: x * a['scalar'],
                  '_div_scalar': lambda: x / a['scalar'],
                  '_plus_scalar': lambda: x + a['scalar']}
        if op in simple:
            return simple[op]()
        raise SystemExit('no translation of ' + op)

    def step(self):
        self.optimizer.zero_grad()
        self.run().backward()
        self.optimizer.step()

    def facts(self):
        memory = status_bytes('VmHWM') - status_bytes('RssFile') - self.resident
        from torch.utils.flop_counter import FlopCounterMode
        with FlopCounterMode(display=False) as counter:
            self.forward().backward()
        return {'flops': counter.get_total_flops(), 'memory': memory}


def main():
    kind, path, inputs, threads, steps = sys.argv[1:]
    inputs, threads, steps = json.loads(inputs), int(threads), int(steps)
    peer = MXNetPeer(path, inputs, threads) if kind == 'mxnet' else TorchPeer(path, inputs, threads, kind == 'compile')
    times, processor = [], []
    for _ in range(steps):
        start, processor_start = time.perf_counter(), time.process_time()
        peer.step()
        times.append(1e3 * (time.perf_counter() - start))
        processor.append(1e3 * (time.process_time() - processor_start))
    # Not part of the steps: `facts` runs at the end, and the wall time of the process is not judged.
    print(json.dumps({'steps': times, 'processor': processor, **(peer.facts() if kind == 'torch' else {})}))


if __name__ == '__main__':
    main()
