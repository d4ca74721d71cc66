#!/usr/bin/env python3
"""One training step of gradc beside MXNet 1.9.1 and PyTorch eager, turn by turn on the same machine.

    bench/peers.py --gradc PATH [--mxnet PYTHON] [--torch PYTHON] [--threads 1,2] [--rounds 9] [--steps 20]
                   [--bench PATH] [--graphs FOLDER] [--net NAME=FILE:SHAPE ...] [--only NAME,NAME]

PYTHON is an interpreter that has the peer; a peer that is not there is left out. The networks are those of
testdata/demo and a perceptron written here, of eight layers of 512. --graphs adds two networks as MXNet saved them,
lenet-train and gluon-resnet18-v1, where FOLDER has NAME.symbol.json; --net adds or replaces one, SHAPE being that of
its variable `data`; --only says which to run. --bench is the benchmark program (./dev bench builds it): it adds a table of compile times.

A step is forward and backward in training mode, float32, every parameter's and the data's gradient, no update. Each
peer is a process of its own that runs `steps` steps when it is its turn; a round is one turn of each, in an order that
rotates. Reported are the median over all steps, the fastest step, and processor time per step. PyTorch runs the same
symbol file: the file's operators one after the other as torch.nn.functional calls.
"""
import argparse, ast, json, os, re, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))


GRAPHS = {'lenet-train': [64, 1, 28, 28], 'gluon-resnet18-v1': [16, 3, 32, 32]}


def perceptron():
    """Eight fully connected layers of 512 with relu between and a softmax, as a symbol file."""
    nodes = []

    def add(op, name, inputs=(), **attrs):
        nodes.append({'op': op, 'name': name, 'attrs': attrs, 'inputs': [[i, 0, 0] for i in inputs]})
        return len(nodes) - 1
    last = add('null', 'data')
    for i in range(8):
        w, b = add('null', 'f%d_weight' % i), add('null', 'f%d_bias' % i)
        last = add('FullyConnected', 'f%d' % i, (last, w, b), num_hidden='512')
        if i < 7:
            last = add('Activation', 'r%d' % i, (last,), act_type='relu')
    last = add('SoftmaxOutput', 'softmax', (last, add('null', 'softmax_label')))
    return {'nodes': nodes, 'arg_nodes': [i for i, n in enumerate(nodes) if n['op'] == 'null'],
            'heads': [[last, 0, 0]], 'attrs': {'mxnet_version': ['int', 10901]}}


# ---- peers: each answers `prepare` with its bind time and `steps` with the times of its steps -------------------------

class MXNetPeer:
    def __init__(self, path, shape, threads):
        os.environ['MXNET_SUBGRAPH_BACKEND'] = 'NONE'
        import mxnet as mx
        self.mx, sym = mx, mx.sym.load(path)
        args, outs, aux = sym.infer_shape(data=tuple(shape))
        draw = lambda names, shapes: {n: mx.nd.random.uniform(-0.05, 0.05, s) for n, s in zip(names, shapes)}
        binds = []
        for _ in range(5):
            values = draw(sym.list_arguments(), args)
            grads = {n: mx.nd.zeros(v.shape) for n, v in values.items() if not n.endswith('label')}
            states = draw(sym.list_auxiliary_states(), aux)
            mx.nd.waitall()
            start = time.perf_counter()
            self.executor = sym.bind(mx.cpu(), args=values, args_grad=grads, aux_states=states,
                                     grad_req={n: 'write' if n in grads else 'null' for n in values})
            binds.append(time.perf_counter() - start)
        self.heads = [mx.nd.ones(s) for s in outs]
        self.bind = statistics.median(binds)

    def step(self):
        self.executor.forward(is_train=True)
        self.executor.backward(self.heads)
        self.mx.nd.waitall()


class TorchPeer:
    def __init__(self, path, shape, threads):
        import torch
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self.torch, self.bind = torch, None
        self.graph = json.load(open(path))
        self.states = {}
        self.parameters = {}
        self.data = torch.randn(*shape, requires_grad=True)
        with torch.no_grad():
            self.forward(create=True)

    def attrs(self, node):
        found = {k: v for key in ('attrs', 'attr', 'param') for k, v in node.get(key, {}).items()}
        literal = lambda text: ast.literal_eval(text) if re.match(r'[\[(\d.-]|True|False', text) else text
        return {k: literal(v) for k, v in found.items()}

    def variable(self, name, shape, create):
        if create:
            made = self.torch.ones(shape) if name.endswith('gamma') else self.torch.randn(shape) * 0.05
            self.parameters[name] = made.requires_grad_(True)
        return self.parameters[name]

    def forward(self, create):
        f, nodes, values = self.torch.nn.functional, self.graph['nodes'], {}
        if create:
            self.program = [(n, self.attrs(n)) for n in nodes]
        for i, (node, a) in enumerate(self.program):
            op, names = node['op'], [nodes[e[0]]['name'] for e in node['inputs']]
            if op == 'null':
                continue
            x = values[node['inputs'][0][0]] if node['inputs'][0][0] in values else self.data
            if op == 'Convolution':
                w = self.variable(names[1], (a['num_filter'], x.shape[1]) + a['kernel'], create)
                b = self.variable(names[2], (a['num_filter'],), create) if len(names) > 2 else None
                y = f.conv2d(x, w, b, a.get('stride', 1), a.get('pad', 0))
            elif op == 'FullyConnected':
                x = x.flatten(1)
                w = self.variable(names[1], (a['num_hidden'], x.shape[1]), create)
                y = f.linear(x, w, self.variable(names[2], (a['num_hidden'],), create))
            elif op == 'BatchNorm':
                if create:
                    self.states[names[3]] = self.torch.zeros(x.shape[1]), self.torch.ones(x.shape[1])
                gamma, beta = (self.variable(n, (x.shape[1],), create) for n in names[1:3])
                mean, var = self.states[names[3]]
                y = f.batch_norm(x, mean, var, gamma, beta, True, 1 - a.get('momentum', 0.9), a.get('eps', 1e-3))
            elif op == 'Activation':
                y = {'relu': f.relu, 'tanh': self.torch.tanh, 'sigmoid': self.torch.sigmoid}[a['act_type']](x)
            elif op == 'Pooling' and a.get('global_pool'):
                y = f.adaptive_avg_pool2d(x, 1)
            elif op == 'Pooling':
                pool = f.max_pool2d if a['pool_type'] == 'max' else f.avg_pool2d
                y = pool(x, a['kernel'], a.get('stride', 1), a.get('pad', 0))
            elif op == 'elemwise_add':
                y = x + values[node['inputs'][1][0]]
            elif op == 'Flatten':
                y = x.flatten(1)
            elif op == 'SoftmaxOutput':
                if create:
                    self.label = self.torch.randint(0, x.shape[1], (x.shape[0],))
                y = f.cross_entropy(x, self.label, reduction='sum')
            else:
                raise SystemExit('no translation of ' + op)
            values[i] = y
        return y

    def step(self):
        for p in self.parameters.values():
            p.grad = None
        self.data.grad = None
        y = self.forward(create=False)
        if y.dim() == 0:
            y.backward()
        else:
            if not hasattr(self, 'head'):
                self.head = self.torch.ones_like(y)
            y.backward(self.head)


def work(kind, path, shape, threads):
    """A peer's process: reads numbers of steps, answers with their times; the first answer is the bind time."""
    peer = (MXNetPeer if kind == 'mxnet' else TorchPeer)(path, shape, threads)
    for _ in range(3):
        peer.step()
    print(json.dumps(peer.bind), flush=True)
    for line in sys.stdin:
        times, processor = [], []
        for _ in range(int(line)):
            start, processor_start = time.perf_counter(), time.process_time()
            peer.step()
            times.append(1e3 * (time.perf_counter() - start))
            processor.append(1e3 * (time.process_time() - processor_start))
        print(json.dumps([times, statistics.median(processor)]), flush=True)


class Process:
    """The far end of `work`."""

    def __init__(self, kind, python, path, shape, threads):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
        command = [python, os.path.abspath(__file__), '--work', kind, path, ','.join(map(str, shape)), str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=environment)
        line = self.process.stdout.readline()
        self.works = bool(line)
        self.bind = json.loads(line) if line else None

    def steps(self, count):
        self.process.stdin.write('%d\n' % count)
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Gradc:
    def __init__(self, gradc, path, shape, threads, folder):
        self.works, self.bind = True, None
        self.train = os.path.join(folder, 'train.json')
        self.arguments = ['--shape', 'data=' + ','.join(map(str, shape))]
        subprocess.run([gradc, 'grad', path, '--wrt', 'all', '-o', self.train] + self.arguments, check=True,
                       stderr=subprocess.DEVNULL)
        self.command = [gradc, 'run', self.train, '--train', '--init', '1', '--threads', str(threads), '-o', os.devnull]

    def steps(self, count):
        """A process for each turn; the medians that the tool prints are not moved by its first step."""
        done = subprocess.run(self.command + self.arguments + ['--repeat', str(count)], check=True,
                              stderr=subprocess.PIPE, text=True).stderr
        found = re.search(r'median ([\d.]+) ms, fastest ([\d.]+) ms, processor ([\d.]+) ms', done)
        median, fastest, processor = map(float, found.groups())
        return [[fastest] + [median] * (count - 1), processor]

    def end(self):
        pass


def measure(options, name, path, shape, threads):
    with tempfile.TemporaryDirectory() as folder:
        sides = {'gradc': Gradc(options.gradc, path, shape, threads, folder)}
        for kind, python in (('mxnet', options.mxnet), ('torch', options.torch)):
            if not python:
                continue
            process = Process(kind, python, path, shape, threads)
            if process.works:
                sides[kind] = process
            else:
                print('skipped: %s cannot run %s' % (kind, name), file=sys.stderr)
        results = {side: ([], []) for side in sides}
        order = list(sides)
        for _ in range(options.rounds):
            for side in order:
                times, processor = sides[side].steps(options.steps)
                results[side][0].extend(times)
                results[side][1].append(processor)
            order = order[1:] + order[:1]
        for side in sides.values():
            side.end()
        report(name, threads, results)
        return {side: sides[side].bind for side in sides}


def report(name, threads, results):
    cells = {s: (statistics.median(t), min(t), statistics.median(c)) for s, (t, c) in results.items()}
    for side, (median, fastest, processor) in cells.items():
        ratio = '' if side == 'gradc' else '%.2f' % (cells['gradc'][0] / median)
        least = '' if side == 'gradc' else '%.2f' % (cells['gradc'][1] / fastest)
        print('| %s | %d | %s | %.2f | %.2f | %.2f | %s | %s |' % (name, threads, side, median, fastest, processor, ratio, least),
              flush=True)


def compile_times(options, networks, binds):
    """Milliseconds of gradient, infer and plan beside MXNet's bind."""
    print('\n| network | gradient, infer and plan, ms | MXNet binds, ms | ratio |\n|---|---|---|---|')
    for name, (path, shape) in networks.items():
        environment = dict(os.environ, GRADC_BENCH_MODEL=path, GRADC_BENCH_SHAPE=','.join(map(str, shape)))
        with tempfile.NamedTemporaryFile(suffix='.json') as out:
            subprocess.run([options.bench, '--benchmark_filter=^prepare/model', '--benchmark_out=' + out.name],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
            ours = json.load(open(out.name))['benchmarks'][0]['real_time']
        bind = binds.get(name)
        print('| %s | %.3f | %s | %s |' % (name, ours, '%.1f' % (1e3 * bind) if bind else '',
                                          '%.3f' % (ours / 1e3 / bind) if bind else ''))


def saved_graphs(folder):
    """Those of GRAPHS that are there."""
    found = {}
    for name, shape in GRAPHS.items():
        path = os.path.join(folder, name + '.symbol.json')
        if os.path.exists(path):
            found[name] = path, shape
        else:
            print('skipped: there is no ' + path, file=sys.stderr)
    return found


def main():
    if sys.argv[1:2] == ['--work']:
        kind, path, shape, threads = sys.argv[2:6]
        return work(kind, path, [int(d) for d in shape.split(',')], int(threads))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gradc', required=True)
    for flag in ('--mxnet', '--torch', '--bench', '--graphs'):
        parser.add_argument(flag)
    parser.add_argument('--threads', default='1,2')
    parser.add_argument('--rounds', type=int, default=9)
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--net', action='append', default=[], metavar='NAME=FILE:SHAPE')
    parser.add_argument('--only', help='names of networks, comma-separated')
    options = parser.parse_args()
    demo = os.path.join(HERE, '..', 'testdata', 'demo')
    with tempfile.TemporaryDirectory() as folder:
        mlp = os.path.join(folder, 'mlp.json')
        json.dump(perceptron(), open(mlp, 'w'))
        networks = {'lenet': (os.path.join(demo, 'lenet.json'), [64, 1, 28, 28]),
                    'resnet18': (os.path.join(demo, 'resnet18.json'), [16, 3, 32, 32]), 'mlp-8x512': (mlp, [64, 512])}
        if options.graphs:
            networks.update(saved_graphs(options.graphs))
        for item in options.net:
            name, rest = item.split('=', 1)
            path, shape = rest.rsplit(':', 1)
            networks[name] = path, [int(d) for d in shape.split(',')]
        if options.only:
            networks = {name: networks[name] for name in options.only.split(',')}
        print('| network | threads | | median ms | fastest ms | processor ms | median, gradc to it | fastest |')
        print('|---|---|---|---|---|---|---|---|')
        binds = {}
        for name, (path, shape) in networks.items():
            for threads in map(int, options.threads.split(',')):
                found = measure(options, name, path, shape, threads).get('mxnet')
                binds[name] = min(filter(None, (found, binds.get(name))), default=None)
        if options.bench:
            compile_times(options, networks, binds)


if __name__ == '__main__':
    main()
