#!/usr/bin/env python3
"""A step of training in gradc beside MXNet 1.9.1, PyTorch eager and torch.compile, out of the box, on the same machine.

    bench/peers.py --gradc PATH [--tape PATH] [--products PATH] [--mxnet PYTHON] [--torch PYTHON] [--compile]
                   [--threads 1,2] [--turns 9] [--steps 20] [--graphs FOLDER] [--only NAME,NAME] [--bench PATH]

PYTHON is an interpreter that has the peer; peers without an interpreter are skipped. The networks are those of networks.py:
testdata/demo and two written there, and with --graphs those that MXNet saved, FOLDER/NAME.symbol.json. --tape is
//bench:tape_step, which calls the operators of the same files on gradc's tape. --bench is the benchmark program (./dev bench builds
it): it adds a table of compile times.

A step is forward and backward in training mode, float32, and the update of every parameter by SGD with momentum. A turn is
a fresh process with only the number of threads set in its environment; peers alternate in rotating order. Two figures, never
mixed: the median over all steps of all turns, the first steps included, and the wall time of the whole process, which is
reported and not judged. gradc's steps are those of `gradc train`, from the times in its log; `of peak` is the operations of
the step, as PyTorch counts them, a second, relative to gradc's product of 2048³; `memory` is the growth of resident memory,
without mapped files, from before the network was made to the highest mark.

A second table has the parts of a step, from a profile of the same graph: nodes that are convolutions and products, without the
conversions of their operands; those conversions, which oneDNN's log times; all `other` nodes; what is left `between` them.
--products is //bench:products: `alone` is the time of oneDNN's convolutions and products by
themselves. Where they take more than 0.85 of the best peer's step, gradc's bar is 1.08 times that, elsewhere 0.9 of the
peer's step."""
import argparse, json, os, re, statistics, struct, subprocess, sys, tempfile, time, zipfile

import networks

HERE = os.path.dirname(os.path.abspath(__file__))
PRODUCTS = re.compile(r'.*(onvolution|FullyConnected|dot|_linalg_gemm|interleaved_matmul|RNN).*')
REORDER = re.compile(r'^\w+_verbose,.*exec,.*cpu,reorder,.*,([\d.e+-]+)$', re.M)


def array_file(shape):
    """Zeros in the NPY format, float32."""
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % ''.join('%d, ' % d for d in shape)
    text += ' ' * (-(len(text) + 11) % 64) + '\n'
    size = 4
    for length in shape:
        size *= length
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(text)) + text.encode() + bytes(size)


class Gradc:
    """`gradc train`; and `gradc run` of the graph that it emits, network, gradients and optimizer, for what only a profile
    has: the steps of a run all start from the same parameters."""

    def __init__(self, gradc, path, inputs, folder, optimizer=('sgd', '--momentum', '0.9')):
        self.train, data = os.path.join(folder, 'train.json'), os.path.join(folder, 'data.npz')
        self.log = os.path.join(folder, 'steps.log')
        shapes = {name: shape for name, (shape, _) in inputs.items()}
        batch = next(iter(shapes.values()))[0]
        with zipfile.ZipFile(data, 'w') as file:
            for name, shape in shapes.items():
                file.writestr(name + '.npy', array_file(shape))
        self.arguments = [a for name, shape in shapes.items() for a in ('--shape', name + '=' + ','.join(map(str, shape)))]
        self.training = [gradc, 'train', path, '--data', data, '--batch', str(batch), '--lr', '0.01', '-o', os.devnull,
                         '--optimizer', *optimizer]
        done = subprocess.run(self.training + ['--steps', '1', '--emit-graph', self.train], capture_output=True, text=True)
        errors = [line for line in done.stderr.split('\n') if ': error: ' in line]
        self.refusal = '' if done.returncode == 0 else errors[0] if errors else 'gradc train failed'
        self.gradc = gradc

    def turn(self, threads, steps):
        start = time.perf_counter()
        subprocess.run(self.training + ['--steps', str(steps), '--threads', str(threads), '--log', self.log], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wall = time.perf_counter() - start
        ends = [row['seconds'] for row in map(json.loads, open(self.log)) if row['kind'] == 'step']
        return {'steps': [1e3 * (end - begin) for begin, end in zip([0] + ends, ends)], 'wall': wall,
                'processor': [float(re.search(r'processor ([\d.]+) ms', self.run(threads, steps).stderr).group(1))]}

    def run(self, threads, steps, arguments=(), environment=()):
        command = [self.gradc, 'run', self.train, '--train', '--init', '1', '--threads', str(threads), '-o', os.devnull,
                   '--repeat', str(max(steps, 2)), *arguments]
        return subprocess.run(command + self.arguments, check=True, capture_output=True, text=True,
                              env=dict(os.environ, **dict(environment)))

    def parts(self, threads, steps):
        """Milliseconds of the parts of the last step; of conversions, the mean over the steps."""
        count = max(steps, 2)
        with tempfile.NamedTemporaryFile(suffix='.json') as profile:
            done = self.run(threads, count, ('--profile', profile.name), {'DNNL_VERBOSE': '1'})
            events = json.load(open(profile.name))['traceEvents']
        times = [(event['dur'] / 1e3, bool(PRODUCTS.match(event['cat']))) for event in events]
        conversions = sum(map(float, REORDER.findall(done.stdout))) / count
        products, others = (sum(ms for ms, is_product in times if is_product == kind) for kind in (True, False))
        end = max(event['ts'] + event['dur'] for event in events) / 1e3
        return {'products': products - conversions, 'conversions': conversions, 'other': others,
                'between': end - products - others}

    def alone(self, program, threads):
        """Milliseconds of oneDNN's convolutions and products alone; None if the graph has some that are not timed."""
        shapes = self.arguments[1::2]
        found = json.loads(subprocess.check_output([program, self.train, str(threads), *shapes], text=True))
        return None if found['left'] else found['convolutions'] + found['products']


class Tape:
    """The operators of the file on gradc's tape, one call each."""

    def __init__(self, program, path, inputs):
        self.command = [program, path]
        self.shapes = [name + '=' + ','.join(map(str, shape)) for name, (shape, _) in inputs.items()]
        self.refusal = ''

    def turn(self, threads, steps):
        return json.loads(subprocess.check_output(self.command + [str(threads), str(steps)] + self.shapes, text=True))


class Peer:
    def __init__(self, kind, python, path, inputs):
        self.command = [python, os.path.join(HERE, 'peer_process.py'), kind, path, json.dumps(inputs)]
        self.refusal = ''

    def turn(self, threads, steps):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
        done = subprocess.run(self.command + [str(threads), str(steps)], capture_output=True, text=True, env=environment)
        if done.returncode:
            self.refusal = (done.stderr.strip().split('\n') or ['it failed'])[-1]
            return None
        return json.loads(done.stdout.strip().split('\n')[-1])


def measure(sides, threads, turns, steps):
    """By side: the times of all steps, processor times, wall times of processes, and whatever else its turns report."""
    results = {side: {'steps': [], 'processor': [], 'wall': []} for side in sides}
    order = list(sides)
    for _ in range(turns):
        for side in list(order):
            start = time.perf_counter()
            turn = sides[side].turn(threads, steps)
            if turn is None:
                order.remove(side)
                results.pop(side)
                print('skipped: %s: %s' % (side, sides[side].refusal), file=sys.stderr)
                continue
            found = results[side]
            found['wall'].append(turn.get('wall', time.perf_counter() - start))
            found['steps'] += turn['steps']
            found['processor'] += turn['processor']
            for key in ('flops', 'memory'):
                if key in turn:
                    found.setdefault(key, []).append(turn[key])
        order = order[1:] + order[:1]
    return results


def peak_rate(gradc, threads):
    """Operations per second of a product of two 2048 x 2048 matrices, the fastest of ten. It is oneDNN's product, which uses
    AVX-512 on every processor that has it."""
    with tempfile.TemporaryDirectory() as folder:
        graph, size = networks.Symbol(), 2048
        graph.write(os.path.join(folder, 'dot.json'), graph.add('dot', 'y', (graph.variable('a'), graph.variable('b'))))
        shapes = [a for name in 'ab' for a in ('--shape', '%s=%d,%d' % (name, size, size))]
        done = subprocess.run([gradc, 'run', os.path.join(folder, 'dot.json'), '--init', '1', '--threads', str(threads), '--repeat',
                               '10', '-o', os.path.join(folder, 'y.npz')] + shapes, check=True, stderr=subprocess.PIPE, text=True)
        return 2 * size**3 / float(re.search(r'fastest ([\d.]+) ms', done.stderr).group(1)) * 1e3


def report(name, threads, results, peak):
    median = {side: statistics.median(found['steps']) for side, found in results.items()}
    peers = [m for side, m in median.items() if side not in ('gradc', 'tape')]
    least = ms_at(peak, results)
    for side, found in results.items():
        ours = side == 'gradc'
        cells = [name, threads, side, '%.2f' % median[side], '%.2f' % min(found['steps']),
                 '%.2f' % statistics.median(found['processor']),
                 '%.2f' % (median[side] / min(peers)) if ours and peers else '' if ours else '%.2f' % (median['gradc'] / median[side]),
                 '%.0f %%' % (100 * least / median[side]) if least else '',
                 '%.1f' % (statistics.median(found['memory']) / 2**20) if 'memory' in found else '',
                 '%.2f' % statistics.median(found['wall'])]
        print('| ' + ' | '.join(map(str, cells)) + ' |', flush=True)


def ms_at(peak, results):
    """Milliseconds of the step's operations at that rate; None where no peer counts them."""
    flops = results.get('torch', {}).get('flops', [0])[0]
    return flops / peak * 1e3 if flops else None


def report_parts(name, threads, gradc, results, products, steps, peak):
    """A row of the second table."""
    peers = [statistics.median(found['steps']) for side, found in results.items() if side not in ('gradc', 'tape')]
    step, best = statistics.median(results['gradc']['steps']), min(peers) if peers else None
    cells = [name, threads, '%.2f' % step] + ['%.2f' % ms for ms in gradc.parts(threads, steps).values()]
    alone = gradc.alone(products, threads) if products else None
    least = ms_at(peak, results)
    cells += ['%.2f' % alone, '%.0f %%' % (100 * least / alone) if least else '', '%.2f' % (step / alone)] if alone else [''] * 3
    if best:
        bar = alone * 1.08 if alone and alone > 0.85 * best else 0.9 * best
        cells += ['%.2f' % (alone / best) if alone else '', '%.2f' % bar, '%.2f' % (step / bar)]
    return '| ' + ' | '.join(map(str, cells)) + ' |'


def compile_times(options, found):
    """Milliseconds of gradient, infer and plan."""
    print('\n| network | gradient, infer and plan, ms |\n|---|---|')
    for name, (path, inputs, _) in found.items():
        if 'data' not in inputs:
            continue
        environment = dict(os.environ, GRADC_BENCH_MODEL=path, GRADC_BENCH_SHAPE=','.join(map(str, inputs['data'][0])))
        with tempfile.NamedTemporaryFile(suffix='.json') as out:
            subprocess.run([options.bench, '--benchmark_filter=^prepare/model', '--benchmark_out=' + out.name],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
            rows = json.load(open(out.name))['benchmarks']
        print('| %s | %.3f |' % (name, rows[0]['real_time']) if rows else '| %s | |' % name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gradc', required=True)
    for flag in ('--tape', '--products', '--mxnet', '--torch', '--bench', '--graphs'):
        parser.add_argument(flag)
    parser.add_argument('--compile', action='store_true', help='torch.compile too: minutes for a large network')
    parser.add_argument('--threads', default='1,2')
    parser.add_argument('--turns', type=int, default=9)
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--only', help='names of networks, comma-separated')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = networks.networks(folder, options.graphs, options.steps)
        if options.only:
            found = {name: found[name] for name in options.only.split(',')}
        print('| network | threads | | median ms | fastest ms | processor ms | gradc to it, gradc to the best | of peak | memory MiB | process s |')
        print('|---|---|---|---|---|---|---|---|---|---|')
        peaks = {threads: peak_rate(options.gradc, threads) for threads in map(int, options.threads.split(','))}
        parts = []
        for name, (path, inputs, steps) in found.items():
            sides = {'gradc': Gradc(options.gradc, path, inputs, folder)}
            if sides['gradc'].refusal:
                sys.exit('%s: %s' % (name, sides['gradc'].refusal))
            if options.tape:
                sides['tape'] = Tape(options.tape, path, inputs)
            for kind, python in (('mxnet', options.mxnet), ('torch', options.torch),
                                 ('compile', options.torch if options.compile else None)):
                if python:
                    sides[kind] = Peer(kind, python, path, inputs)
            for threads in peaks:
                results = measure(sides, threads, options.turns, steps)
                report(name, threads, results, peaks[threads])
                parts.append(report_parts(name, threads, sides['gradc'], results, options.products, steps, peaks[threads]))
        print('\n| network | threads | step ms | products | conversions | other | between | alone | of peak | step to it | alone to the best peer | bar ms | step to it |')
        print('|---|---|---|---|---|---|---|---|---|---|---|---|---|')
        print('\n'.join(parts))
        if options.bench:
            compile_times(options, found)


if __name__ == '__main__':
    main()
