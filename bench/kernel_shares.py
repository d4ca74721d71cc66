#!/usr/bin/env python3
"""How much of a training step runs on reference kernels, in slices or whole, network by network.

    bench/kernel_shares.py GRADC SHAPES FOLDER [--limit PERCENT] [--channels-last] [--threads N]
                           [--optimizers sgd,adam] NAME...

SHAPES is a JSON object with the shapes of each network's variables, {NAME: {"shape": {VARIABLE: [2, 3]}}}; FOLDER has
NAME.symbol.json. Prints a row per network and optimizer (SGD is that with momentum; `none` is the gradient alone): the
step's time, the share of nodes that `run --profile` calls reference, of groups if one of their nodes is, and which operators
these are. Networks that `gradc train` refuses are measured without an optimizer. A row beyond the limit is indented and ends in FAILS. A step of less than a tenth of a
millisecond, where each node is mostly the cost of calling it, is shown and not judged.

--channels-last runs copies whose convolutions and poolings of two axes have the channels last by attribute, with the data
transposed in front and behind where other operators meet them.
"""
import argparse, collections, json, os, subprocess, sys, tempfile, zipfile

from peers import array_file

SHORTEST_MS = 0.1


def attrs_of(node):
    return node.setdefault('attrs', node.pop('param', None) or node.pop('attr', None) or {})


def channels_last(graph):
    """The network with each convolution and pooling of two axes in NHWC between two transpositions."""
    nodes, place = [], {}

    def add(op, name, inputs, **attrs):
        nodes.append({'op': op, 'name': name, 'inputs': inputs, 'attrs': attrs})
        return [len(nodes) - 1, 0, 0]

    def read(entry):
        return [place[entry[0]], entry[1], 0]
    for i, node in enumerate(graph['nodes']):
        attrs = attrs_of(node)
        inputs = [read(e) for e in node['inputs']]
        isTurned = (node['op'] in ('Convolution', 'Pooling') and 'layout' not in attrs and
                    (attrs.get('global_pool') in ('True', 'true', '1') or attrs.get('kernel', '').count(',') == 1 and
                     attrs['kernel'].rstrip(' )')[-1] != ','))
        if isTurned:
            name = node['name']
            turned = [add('transpose', name + '_in', [inputs[0]], axes='(0,2,3,1)')]
            turned += [add('transpose', name + '_w', [e], axes='(0,2,3,1)') for e in inputs[1:2]] + inputs[2:]
            last = add(node['op'], name, turned, **{**attrs, 'layout': 'NHWC'})
            place[i] = add('transpose', name + '_out', [last], axes='(0,3,1,2)')[0]
        else:
            place[i] = add(node['op'], node['name'], inputs, **attrs)[0]
    return {'nodes': nodes, 'arg_nodes': [i for i, n in enumerate(nodes) if n['op'] == 'null'],
            'heads': [read(e) for e in graph['heads']], 'attrs': graph.get('attrs', {})}


OPTIMIZERS = {'sgd': ['--optimizer', 'sgd', '--momentum', '0.9'], 'adam': ['--optimizer', 'adam']}


def makes_step(gradc, path, shapes, optimizer, train, work):
    """Writes the graph of a step, with the optimizer, to `train`; false if gradc refuses."""
    data = os.path.join(work, 'data.npz')
    with zipfile.ZipFile(data, 'w') as file:
        for name, dims in shapes.items():
            file.writestr(name + '.npy', array_file(dims))
    batch = next(iter(shapes.values()))[0]
    command = [gradc, 'train', path, '--data', data, '--batch', str(batch), '--steps', '1', '--emit-graph', train,
               '-o', os.devnull]
    return subprocess.run(command + OPTIMIZERS[optimizer], capture_output=True).returncode == 0


def profile(gradc, path, shapes, optimizer, threads, work):
    """The events of the last step of two runs, each as long as in the faster one; an error's first line instead where there
    are none."""
    train, trace = os.path.join(work, 'train.json'), os.path.join(work, 'trace.json')
    flags = [f'--shape={v}={",".join(map(str, dims))}' for v, dims in shapes.items()]
    makes_gradient = [[gradc, 'grad', path, '--wrt', 'all', *flags, '-o', train]]
    if optimizer != 'none' and makes_step(gradc, path, shapes, optimizer, train, work):
        makes_gradient = []
    run = [gradc, 'run', train, '--train', '--init', '1', '--threads', str(threads), '--repeat', '3', *flags,
           '--profile', trace]
    events = []
    for command in makes_gradient + [run, run]:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return (done.stderr.splitlines() or ['failed'])[0]
        if command is run:
            with open(trace) as file:
                found = json.load(file)['traceEvents']
            events = [dict(e, dur=min(e['dur'], before['dur'])) for e, before in zip(found, events or found)]
    return events


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('gradc')
    parser.add_argument('shapes')
    parser.add_argument('folder')
    parser.add_argument('names', nargs='*', metavar='NAME')
    parser.add_argument('--limit', type=float, default=1.0)
    parser.add_argument('--channels-last', action='store_true')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--optimizers', default='sgd,adam')
    options = parser.parse_intermixed_args()
    shapes = json.load(open(options.shapes))
    numBeyond = 0
    cases = [(name, optimizer) for name in options.names or shapes for optimizer in options.optimizers.split(',')]
    for name, optimizer in cases:
        path = os.path.join(options.folder, name + '.symbol.json')
        with tempfile.TemporaryDirectory() as work:
            if options.channels_last:
                graph = channels_last(json.load(open(path)))
                path = os.path.join(work, 'last.json')
                json.dump(graph, open(path, 'w'))
            events = profile(options.gradc, path, shapes[name]['shape'], optimizer, options.threads, work)
        name += ' ' + optimizer
        if isinstance(events, str):
            print(f'{name:<33} {events}', flush=True)
            continue
        total = sum(e['dur'] for e in events)
        slow = collections.Counter()
        for e in events:
            if e['args']['kernel'] != 'fast':
                slow[e['cat']] += e['dur']
        share = 100 * sum(slow.values()) / total
        isBeyond = share > options.limit and total >= 1000 * SHORTEST_MS
        numBeyond += isBeyond
        which = ', '.join(f'{op} {100 * t / total:.2f} %' for op, t in slow.most_common(4))
        print(f'{"  " if isBeyond else ""}{name:<33} {total / 1000:10.2f} ms  {share:6.2f} %  {which}'
              f'{"  FAILS" if isBeyond else ""}', flush=True)
    return int(numBeyond > 0)


sys.exit(main())
