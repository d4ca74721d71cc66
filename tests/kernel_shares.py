#!/usr/bin/env python3
"""How much of a training step runs on reference kernels, in slices or whole, network by network.

    tests/kernel_shares.py GRADC SHAPES FOLDER [--limit PERCENT] [--channels-last] [--threads N] NAME...

SHAPES is a JSON object with the shapes of each network's variables, {NAME: {"shape": {VARIABLE: [2, 3]}}}; FOLDER has
NAME.symbol.json. Prints a row per network: the step's time, the share of nodes that `run --profile` calls reference, and
which operators these are. A row beyond the limit is indented and ends in FAILS. A step of less than a tenth of a
millisecond, where each node is mostly the cost of calling it, is shown and not judged.

--channels-last runs copies whose convolutions and poolings of two axes have the channels last by attribute, with the data
transposed in front and behind where other operators meet them.
"""
import argparse, collections, json, os, subprocess, sys, tempfile

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


def profile(gradc, path, flags, threads, work):
    """The events of the last step of two runs, each as long as in the faster one; an error's first line instead where there
    are none."""
    train, trace = os.path.join(work, 'train.json'), os.path.join(work, 'trace.json')
    run = [gradc, 'run', train, '--train', '--init', '1', '--threads', str(threads), '--repeat', '3', *flags,
           '--profile', trace]
    events = []
    for command in ([gradc, 'grad', path, '--wrt', 'all', *flags, '-o', train], run, run):
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
    options = parser.parse_intermixed_args()
    shapes = json.load(open(options.shapes))
    numBeyond = 0
    for name in options.names or shapes:
        flags = [f'--shape={v}={",".join(map(str, dims))}' for v, dims in shapes[name]['shape'].items()]
        path = os.path.join(options.folder, name + '.symbol.json')
        with tempfile.TemporaryDirectory() as work:
            if options.channels_last:
                graph = channels_last(json.load(open(path)))
                path = os.path.join(work, 'last.json')
                json.dump(graph, open(path, 'w'))
            events = profile(options.gradc, path, flags, options.threads, work)
        if isinstance(events, str):
            print(f'{name:<28} {events}', flush=True)
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
        print(f'{"  " if isBeyond else ""}{name:<28} {total / 1000:10.2f} ms  {share:6.2f} %  {which}'
              f'{"  FAILS" if isBeyond else ""}', flush=True)
    return int(numBeyond > 0)


sys.exit(main())
