# sequence_values.py -- writes sequence_values.safetensors: results and gradients of PyTorch's recurrent
# layers, attention and transformer layers in float64, for test_sequence_values.lua
#
#   python3 tests/data/sequence_values.py
#
# A configuration is identified by its name, "LSTM 2 3 num_layers=2 ; packed=1": the class, its arguments by position
# and by name, and the call. Inputs, parameters and incoming gradients are computed by the same formula on both sides
# (`values`), so that the file has only results: NAME/out1.., NAME/grad.x, NAME/grad.weight_ih_l0 ..
import itertools
import math
import os

import torch
from safetensors.torch import save_file

torch.set_default_dtype(torch.float64)
torch.backends.mkldnn.enabled = False


def values(name, shape):
    """Element i, from 1, is 0.6 sin(0.7 i + the sum of the bytes of the name)."""
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
    o = parsed(how)[1]
    if 'stack' in o:  # copies of the layer, then a normalisation
        stack = getattr(torch.nn, positional[0].replace('Layer', ''))
        module = stack(module, o['stack'], torch.nn.LayerNorm(positional[1]) if 'norm' in o else None)
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

# ---- attention and transformers -------------------------------------------------------------------


def score_mask(kind, queries, keys, batch=None):
    shape = (queries, keys) if batch is None else (batch, queries, keys)
    if kind == 'float':
        return leaf('mask', *shape)
    if kind == 'causal':
        return torch.ones(shape, dtype=torch.bool).triu(1)
    b = torch.arange(batch or 1).reshape(-1, 1, 1)
    i, j = torch.arange(queries).reshape(-1, 1), torch.arange(keys)
    return (((b * 3 + i * 7 + j * 5) % 4 == 0) & (j != 1)).reshape(shape)


def key_mask(kind, batch, keys):
    if kind == 'float':
        return values('padding', (batch, keys))
    n, s = torch.arange(batch).reshape(-1, 1), torch.arange(keys)
    mask = (n == 0) & (s == keys - 1)
    return mask if kind == 'last' else mask | ((n == 1) & (s == 0))


def attention(config):
    module, positional, o, how = made(config)
    n, queries = 2, 3
    keys = queries if how['call'] == 'self' else 4
    e, first = positional[1], o.get('batch_first', False)

    def sequence(name, length, size):
        if how.get('unbatched'):
            return leaf(name, length, size)
        return leaf(name, n, length, size) if first else leaf(name, length, n, size)

    inputs = {'q': sequence('q', queries, e)}
    if how['call'] != 'self':
        inputs['k'] = sequence('k', keys, o.get('kdim', e))
    if how['call'] == 'three':
        inputs['v'] = sequence('v', keys, o.get('vdim', e))
    q = inputs['q']
    k = inputs.get('k', q)
    v = inputs.get('v', k)
    options = {'need_weights': 'weights' in how, 'average_attn_weights': how.get('weights') == 'mean'}
    if 'mask' in how:
        options['attn_mask'] = score_mask(how['mask'], queries, keys)
    if 'mask3' in how:
        options['attn_mask'] = score_mask(how['mask3'], queries, keys, n * positional[2])
    if 'float' in (how.get('mask'), how.get('mask3')):
        inputs['mask'] = options['attn_mask']
    if 'padding' in how:
        options['key_padding_mask'] = key_mask(how['padding'], n, keys)
    out, weights = module(q, k, v, **options)
    keep(config, module, inputs, (out, weights) if 'weights' in how else (out,))


head = 'MultiheadAttention 6 2'
for options, call in itertools.product(
        ['', 'batch_first=true', 'bias=false'],
        ['call=self', 'call=self mask=causal', 'call=two mask=bool', 'call=three padding=any weights=each',
         'call=self mask3=bool padding=last', 'call=two padding=float', 'call=self mask=causal padding=last']):
    attention(f'{head} {options} ; {call}')
attention(f'{head} kdim=4 vdim=5 batch_first=true ; call=three mask=bool')
attention(f'{head} kdim=4 vdim=5 ; call=three weights=mean')
attention(f'{head} ; call=two mask=float')
attention(f'{head} ; call=two mask3=float weights=each')
attention(f'{head} ; call=self mask=float padding=float')
attention(f'{head} ; call=self unbatched=1 mask=causal')
attention(f'{head} ; call=three unbatched=1 weights=mean')
attention(f'{head} add_bias_kv=true ; call=two mask=bool')
attention(f'{head} add_zero_attn=true add_bias_kv=true ; call=self mask=causal padding=last')


def transformer(config):
    module, positional, o, how = made(config)
    first, d, n, length = o.get('batch_first', False), positional[1], 2, 3
    decoder = 'Decoder' in positional[0]

    def sequence(name, length):
        return leaf(name, n, length, d) if first else leaf(name, length, n, d)

    inputs = {'src': sequence('src', length)}
    if decoder or positional[0] == 'Transformer':
        inputs['other'] = sequence('other', 4)
    options = {}
    if positional[0] == 'Transformer':
        options = {'tgt_mask': score_mask('causal', 4, 4), 'src_key_padding_mask': key_mask('any', n, length),
                   'memory_key_padding_mask': key_mask('any', n, length)}
    elif decoder:
        if 'mask' in how:
            options['tgt_mask'] = score_mask(how['mask'], length, length)
            options['memory_mask'] = score_mask('bool', length, 4)
        if 'padding' in how:
            options['tgt_key_padding_mask'] = key_mask('last', n, length)
            options['memory_key_padding_mask'] = key_mask('any', n, 4)
    else:
        if 'mask' in how:
            options['mask' if 'stack' in how else 'src_mask'] = score_mask(how['mask'], length, length)
        if 'padding' in how:
            options['src_key_padding_mask'] = key_mask(how['padding'], n, length)
    keep(config, module, inputs, (module(*inputs.values(), **options),))


for kind, options, call in itertools.product(
        ['Encoder', 'Decoder'],
        ['', 'norm_first=true activation=gelu batch_first=true'],
        ['', 'mask=causal padding=last', 'stack=2 norm=1 mask=causal']):
    transformer(f'Transformer{kind}Layer 4 2 dim_feedforward=5 dropout=0.0 {options} ; {call}')
transformer('TransformerEncoderLayer 4 2 dim_feedforward=5 dropout=0.0 bias=false ; padding=any')
transformer('Transformer 4 2 num_encoder_layers=1 num_decoder_layers=1 dim_feedforward=5 dropout=0.0 ; ')
transformer('Transformer 4 2 num_encoder_layers=1 num_decoder_layers=1 dim_feedforward=5 dropout=0.0 '
            'batch_first=true norm_first=true activation=gelu ; ')

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'sequence_values.safetensors')
save_file(results, path)
print(len({name.split('/')[0] for name in results}), 'configurations,', os.path.getsize(path), 'bytes')
