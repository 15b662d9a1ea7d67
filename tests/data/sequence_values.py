# sequence_values.py -- writes sequence_values.safetensors: what PyTorch's recurrent layers, attention and
# transformer layers compute in float64, and every gradient; test_sequence_values.lua reads them
#
#   python3 tests/data/sequence_values.py
#
# A configuration is its own name, "LSTM 2 3 num_layers=2 ; packed=1": the class, its arguments by position and
# by name, and how it is called. Inputs, parameters and the gradients that come in are made by the same formula
# on both sides (`values`), so that the file holds results only: NAME/out1.., NAME/grad.x, NAME/grad.weight_ih_l0 ..
import itertools
import math
import os

import torch
from safetensors.torch import save_file

torch.set_default_dtype(torch.float64)
torch.backends.mkldnn.enabled = False


def values(name, shape):
    """Of the element i, counted from 1: 0.6 sin(0.7 i + the bytes of the name added up)."""
    n = math.prod(shape)
    i = torch.arange(1, n + 1, dtype=torch.float64)
    return (0.6 * torch.sin(0.7 * i + sum(name.encode()))).reshape(shape)


def slopes(y):
    return torch.cos(0.3 * torch.arange(1, y.numel() + 1, dtype=torch.float64)).reshape(y.shape)


def parsed(text):
    positional, named = [], {}
    for word in text.split():
        key, equals, value = word.partition('=')
        if not equals:
            key, value = None, key
        value = {'true': True, 'false': False}.get(value, value)
        if isinstance(value, str) and value.replace('.', '', 1).isdigit():
            value = float(value) if '.' in value else int(value)
        if key:
            named[key] = value
        else:
            positional.append(value)
    return positional, named


def made(config):
    head, _, how = config.partition(';')
    positional, options = parsed(head)
    module = getattr(torch.nn, positional[0])(*positional[1:], **options)
    for name, p in module.named_parameters():
        with torch.no_grad():
            p.copy_(values(name, p.shape))
    return module, positional, options, parsed(how)[1]


results = {}


def keep(config, module, inputs, outputs):
    loss = sum((y * slopes(y)).sum() for y in outputs)
    loss.backward()
    for k, y in enumerate(outputs):
        results[f'{config}/out{k + 1}'] = y.detach().clone().contiguous()
    for name, x in inputs.items():
        results[f'{config}/grad.{name}'] = x.grad.clone().contiguous()
    for name, p in module.named_parameters():
        if p.grad is not None:
            results[f'{config}/grad.{name}'] = p.grad.clone().contiguous()


def leaf(name, *shape):
    return values(name, shape).requires_grad_()


def recurrent(config):
    module, positional, o, how = made(config)
    cell, lstm = positional[0].endswith('Cell'), positional[0].startswith('LSTM')
    time, n, size, hidden = 4, 3, positional[1], positional[2]
    first = o.get('batch_first', False)
    batch = () if how.get('unbatched') else (n,)
    if cell:
        x = leaf('x', *batch, size)
        shapes = [(*batch, hidden)] * 2
    else:
        x = leaf('x', time, *batch, size) if not first or not batch else leaf('x', n, time, size)
        layers = o.get('num_layers', 1) * (2 if o.get('bidirectional') else 1)
        state = o.get('proj_size', 0) or hidden
        shapes = [(layers, *batch, state), (layers, *batch, hidden)]
    inputs, states = {'x': x}, None
    if how.get('states'):
        inputs['h'] = leaf('h', *shapes[0])
        states = inputs['h']
        if lstm:
            inputs['c'] = leaf('c', *shapes[1])
            states = (inputs['h'], inputs['c'])
    if how.get('packed'):
        lengths = [2, 4, 1] if how['packed'] == 'any' else [4, 2, 2]
        given = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=first,
                                                        enforce_sorted=how['packed'] != 'any')
        out, last = module(given, states)
        out, _ = torch.nn.utils.rnn.pad_packed_sequence(out, batch_first=first)
    elif cell:
        y = module(x, states)
        keep(config, module, inputs, y if lstm else (y,))
        return
    else:
        out, last = module(x, states)
    keep(config, module, inputs, (out, *last) if lstm else (out, last))


kinds = ['RNN 2 3', 'RNN 2 3 nonlinearity=relu', 'LSTM 2 3', 'GRU 2 3']
shapes = ['', 'num_layers=2', 'bidirectional=true', 'num_layers=2 bidirectional=true batch_first=true', 'bias=false']
calls = ['', 'states=1', 'packed=sorted', 'packed=any states=1']
for kind, shape, call in itertools.product(kinds, shapes, calls):
    if 'relu' in kind and call.startswith('packed'):
        continue
    recurrent(f'{kind} {shape} ; {call}')
for shape, call in itertools.product(['', 'num_layers=2 bidirectional=true'], ['states=1', 'packed=any states=1']):
    recurrent(f'LSTM 2 3 proj_size=2 {shape} ; {call}')
for kind in ['RNN 2 3', 'LSTM 2 3 batch_first=true', 'GRU 2 3 num_layers=2 bidirectional=true']:
    recurrent(f'{kind} ; unbatched=1 states=1')
for kind in ['RNNCell 2 3', 'RNNCell 2 3 nonlinearity=relu', 'LSTMCell 2 3', 'GRUCell 2 3', 'GRUCell 2 3 bias=false']:
    recurrent(f'{kind} ; ')
    recurrent(f'{kind} ; states=1')
recurrent('LSTMCell 2 3 ; unbatched=1 states=1')

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'sequence_values.safetensors')
save_file(results, path)
print(len({name.split('/')[0] for name in results}), 'configurations,', os.path.getsize(path), 'bytes')
