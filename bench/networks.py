"""The networks of peers.py: files that gradc and MXNet both read, and the arrays that a step is fed.

A network is (file, inputs, steps): `inputs` maps each variable to its shape and its number of classes, 0 for random
numbers; `steps` is the largest number of steps in a turn."""
import json, os

HERE = os.path.dirname(os.path.abspath(__file__))
DEMO = os.path.join(HERE, '..', 'testdata', 'demo')


class Symbol:
    """A symbol file under construction."""

    def __init__(self):
        self.nodes = []

    def add(self, op, name, inputs=(), **attrs):
        """Appends a node; inputs are (node, output) or node. Returns its number."""
        entries = [[i[0], i[1], 0] if isinstance(i, tuple) else [i, 0, 0] for i in inputs]
        self.nodes.append({'op': op, 'name': name, 'attrs': attrs, 'inputs': entries})
        return len(self.nodes) - 1

    def variable(self, name):
        return self.add('null', name)

    def dense(self, name, x, weights, width):
        return self.add('FullyConnected', name, (x,) + weights, num_hidden=str(width))

    def softmax(self, x):
        return self.add('SoftmaxOutput', 'softmax', (x, self.variable('softmax_label')))

    def write(self, path, head):
        variables = [i for i, node in enumerate(self.nodes) if node['op'] == 'null']
        with open(path, 'w') as file:
            json.dump({'nodes': self.nodes, 'arg_nodes': variables, 'heads': [[head, 0, 0]],
                       'attrs': {'mxnet_version': ['int', 10901]}}, file)


def perceptron(path):
    """Eight fully connected layers of 512 with relu between, and a softmax."""
    s = Symbol()
    x = s.variable('data')
    for i in range(8):
        x = s.dense('f%d' % i, x, (s.variable('f%d_weight' % i), s.variable('f%d_bias' % i)), 512)
        if i < 7:
            x = s.add('Activation', 'r%d' % i, (x,), act_type='relu')
    s.write(path, s.softmax(x))


def lstm(path, steps=35, hidden=256, classes=50):
    """An LSTM cell as gluon unrolls it, over data of (batch, steps, hidden), and a softmax of its last output."""
    s = Symbol()
    rows = s.add('SliceChannel', 'rows', (s.variable('data'),), num_outputs=str(steps), axis='1', squeeze_axis='True')
    into = s.variable('i2h_weight'), s.variable('i2h_bias')
    over = s.variable('h2h_weight'), s.variable('h2h_bias')
    h, c = s.variable('h0'), s.variable('c0')
    gate = lambda t, cut, k, kind: s.add('Activation', 't%d_%d' % (t, k), ((cut, k),), act_type=kind)
    for t in range(steps):
        i2h = s.dense('t%d_i2h' % t, (rows, t), into, 4 * hidden)
        h2h = s.dense('t%d_h2h' % t, h, over, 4 * hidden)
        cut = s.add('SliceChannel', 't%d_gates' % t, (s.add('elemwise_add', 't%d_sum' % t, (i2h, h2h)),),
                    num_outputs='4', axis='1')
        i, f, g, o = (gate(t, cut, k, 'tanh' if k == 2 else 'sigmoid') for k in range(4))
        kept = s.add('elemwise_mul', 't%d_kept' % t, (f, c))
        c = s.add('elemwise_add', 't%d_c' % t, (kept, s.add('elemwise_mul', 't%d_new' % t, (i, g))))
        h = s.add('elemwise_mul', 't%d_h' % t, (o, s.add('Activation', 't%d_out' % t, (c,), act_type='tanh')))
    s.write(path, s.softmax(s.dense('dense', h, (s.variable('dense_weight'), s.variable('dense_bias')), classes)))


def fused_lstm(path, layers=2, batch=32, hidden=256, classes=50):
    """The operator RNN as gluon calls it, over data of (batch, steps, hidden), and a softmax of its last output."""
    s = Symbol()
    steps = s.add('SwapAxis', 'steps', (s.variable('data'),), dim1='0', dim2='1')
    zeros = [s.add('_zeros', name, shape=str((layers, batch, hidden))) for name in ('h0', 'c0')]
    x = s.add('RNN', 'rnn', (steps, s.variable('rnn_parameters'), *zeros), mode='lstm', state_size=str(hidden),
              num_layers=str(layers))
    x = s.add('SequenceLast', 'last', (x,))
    s.write(path, s.softmax(s.dense('dense', x, (s.variable('dense_weight'), s.variable('dense_bias')), classes)))


def words(path, count=50000, width=128):
    """A word predicts the next one: an embedding, and a softmax over all words."""
    s = Symbol()
    x = s.add('Embedding', 'embedding', (s.variable('data'), s.variable('embedding_weight')), input_dim=str(count),
              output_dim=str(width))
    s.write(path, s.softmax(s.dense('dense', x, (s.variable('dense_weight'), s.variable('dense_bias')), count)))


def networks(folder, graphs, steps):
    """Networks by name. Files made here go to `folder`; those that MXNet saved come from `graphs`, if it has them."""
    mlp, cell, rnn, vocabulary = (os.path.join(folder, name + '.json') for name in ('mlp', 'lstm', 'rnn', 'words'))
    perceptron(mlp)
    lstm(cell)
    fused_lstm(rnn)
    words(vocabulary)
    label = lambda batch, classes: {'softmax_label': ([batch], classes)}
    found = {
        'lenet': (os.path.join(DEMO, 'lenet.json'), {'data': ([64, 1, 28, 28], 0), **label(64, 10)}, steps),
        'resnet18': (os.path.join(DEMO, 'resnet18.json'), {'data': ([16, 3, 32, 32], 0), **label(16, 10)}, steps),
        'mlp-8x512': (mlp, {'data': ([64, 512], 0), **label(64, 512)}, steps),
        'lstm-35x256': (cell, {'data': ([32, 35, 256], 0), 'h0': ([32, 256], 0), 'c0': ([32, 256], 0),
                               **label(32, 50)}, steps),
        'rnn-2x256': (rnn, {'data': ([32, 35, 256], 0), **label(32, 50)}, steps),
        'words-50000': (vocabulary, {'data': ([128], 50000), **label(128, 50000)}, min(steps, 8)),
    }
    saved = {
        'lenet-train': ({'data': ([64, 1, 28, 28], 0), **label(64, 10)}, steps),
        'gluon-resnet18-v1': ({'data': ([16, 3, 32, 32], 0)}, steps),
        'gluon-resnet50-v1': ({'data': ([8, 3, 224, 224], 0)}, min(steps, 3)),
        'bert-qa': ({'data0': ([2, 384], 30000), 'data1': ([2, 384], 2), 'data2': ([2], 384)}, min(steps, 3)),
    }
    for name, (inputs, count) in saved.items():
        path = os.path.join(graphs or '', name + '.symbol.json')
        if graphs and os.path.exists(path):
            found[name] = path, inputs, count
    for mine, theirs in (('lenet', 'lenet-train'), ('resnet18', 'gluon-resnet18-v1')):
        if theirs in found:
            del found[mine]
    return found
