# layers.py -- PyTorch's side of test_layers.lua: layers with their state, results and gradients, in float64
#
#   python tests/data/layers.py     writes layers.safetensors and layer_cases.lua beside it
#
# Inputs and the gradients of results are sin(a i + b) for i = 1, 2, .., which both sides compute. A case is a layer in
# Python, from which the Lua text is derived; positions (dim, padding_idx, ..) count from 1 there.
import os
import torch
from torch import nn
from torch.nn.utils import parametrizations
from safetensors.torch import save_file

here = os.path.dirname(os.path.abspath(__file__))
torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
cases, tensors = [], {}
POSITIONS = {'dim', 'start_dim', 'end_dim', 'padding_idx'}


def lin(shape, a=0.37, b=1.0):
    n = torch.Size(shape).numel()
    return torch.sin(torch.arange(1, n + 1) * a + b).reshape(shape)


def lua(value, name=None):
    if name == 'momentum' and value is None:
        return 'false'
    if name in POSITIONS and isinstance(value, int) and value >= 0:
        value += 1
    if isinstance(value, (tuple, list)):
        return '{' + ', '.join(lua(v) for v in value) + '}'
    return 'nil' if value is None else repr(value).lower() if isinstance(value, bool) else repr(value)


def text(name, args, options):
    words = [lua(a) for a in args]
    if options:
        words.append('{' + ', '.join('%s=%s' % (k, lua(v, k)) for k, v in options.items()) + '}')
    return 'nn.%s(%s)' % (name, ', '.join(words))


def case(name, *args, x, train=True, calls=1, call=(), wrap=None, ids=False, **options):
    """x: the shape of the input, or a list of shapes; with ids, tensors of positions. call: more arguments. calls: the
    number of training calls before. wrap: a function of the layer and its Lua text."""
    layer, code = getattr(nn, name)(*args, **options), text(name, args, options)
    if wrap:
        layer, code = wrap(layer, code)
    key = '%d' % (len(cases) + 1)
    for p in layer.parameters():
        with torch.no_grad():
            p.copy_(lin(p.shape, 0.71, 0.1 * p.dim()) * 0.5 + 0.1)
    inputs = x if isinstance(x, list) else [x]
    inputs = [i if torch.is_tensor(i) else lin(i, 0.37 + 0.2 * n) for n, i in enumerate(inputs)]
    for n, i in enumerate(inputs):
        if not i.is_floating_point():
            tensors['%s.in.%d' % (key, n)] = i
    for n, v in layer.state_dict().items():
        tensors['%s.state.%s' % (key, n)] = v.detach().clone()
    layer.train()
    for n in range(calls - 1):
        layer(*[i * (1 + 0.3 * n) if i.is_floating_point() else i for i in inputs], *call)
    layer.train(train)
    inputs = [i.clone().requires_grad_() if i.is_floating_point() else i for i in inputs]
    y = layer(*inputs, *call)
    parameters = dict(layer.named_parameters())
    wanted = {'in.%d' % n: i for n, i in enumerate(inputs) if i.requires_grad}
    wanted.update({'p.' + n: p for n, p in parameters.items() if p.requires_grad})
    loss, grads = (y * lin(y.shape, 1.0, 0.5)).sum(), []
    if wanted:
        grads = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
    tensors[key + '.out'] = y.detach()
    for n, g in zip(wanted, grads):
        if g is not None:
            if name == 'Hardsigmoid':  # PyTorch's derivative is 1/6 in float32
                g = g / 6 / torch.tensor(1 / 6, dtype=torch.float32).double()
            tensors['%s.grad.%s' % (key, n)] = g
    for n, b in layer.named_buffers():
        tensors['%s.after.%s' % (key, n)] = b.detach().clone()
    for n, p in parameters.items():  # embeddings with max_norm change their weights
        if not torch.equal(p, tensors['%s.state.%s' % (key, n)]):
            tensors['%s.after.%s' % (key, n)] = p.detach().clone()
    shapes = ['false' if not i.is_floating_point() else lua(tuple(i.shape)) for i in inputs]
    cases.append('{"%s", {%s}%s%s%s}' % (
        code, ', '.join(shapes), '' if train else ', eval=true', ', calls=%d' % calls if calls > 1 else '',
        ', more={%s}' % ', '.join(lua(c) for c in call) if call else ''))


# ---- convolutions ----
for kw in [{}, dict(bias=False), dict(stride=2, padding=1), dict(dilation=2), dict(padding='same', dilation=2),
           dict(padding='valid'), dict(padding=2, padding_mode='reflect'), dict(padding=2, padding_mode='circular'),
           dict(padding=1, padding_mode='replicate'), dict(padding='same', padding_mode='reflect')]:
    case('Conv1d', 2, 3, 3, x=(2, 2, 7), **kw)
case('Conv1d', 4, 4, 2, groups=2, x=(1, 4, 5))
case('Conv1d', 2, 3, 3, x=(2, 6))
case('Conv1d', 2, 3, 4, padding='same', x=(2, 2, 6))
case('Conv1d', 2, 3, 4, padding='same', padding_mode='circular', x=(2, 2, 6))
for kw in [{}, dict(bias=False), dict(stride=2), dict(stride=(2, 1), padding=(1, 2)), dict(dilation=(1, 2)),
           dict(padding='same'), dict(padding=1, padding_mode='reflect'), dict(padding=(1, 2), padding_mode='circular'),
           dict(padding=2, padding_mode='replicate', stride=2)]:
    case('Conv2d', 2, 3, 3, x=(2, 2, 5, 6), **kw)
case('Conv2d', 4, 6, (3, 2), groups=2, x=(1, 4, 4, 4))
case('Conv2d', 3, 6, 3, groups=3, padding=1, x=(2, 3, 4, 3))
case('Conv2d', 2, 3, (1, 3), padding='same', dilation=(1, 2), x=(2, 4, 5))
case('Conv2d', 2, 2, 1, x=(2, 2, 3, 3))
for kw in [{}, dict(stride=2, padding=1), dict(padding=(1, 0, 1), bias=False), dict(padding='same'),
           dict(padding=1, padding_mode='replicate')]:
    case('Conv3d', 2, 2, 2, x=(1, 2, 3, 4, 3), **kw)
case('Conv3d', 2, 4, (1, 2, 2), groups=2, x=(2, 3, 3, 3))
for kw in [{}, dict(stride=2), dict(stride=2, padding=1, output_padding=1), dict(bias=False, dilation=2)]:
    case('ConvTranspose1d', 2, 3, 3, x=(2, 2, 4), **kw)
case('ConvTranspose1d', 4, 6, 2, groups=2, x=(1, 4, 3))
for kw in [{}, dict(stride=2, padding=1), dict(stride=2, output_padding=1), dict(stride=(2, 1), padding=(1, 0)),
           dict(dilation=2, bias=False)]:
    case('ConvTranspose2d', 2, 3, 3, x=(1, 2, 3, 4), **kw)
case('ConvTranspose2d', 4, 4, 2, groups=4, stride=2, x=(2, 4, 2, 2))
case('ConvTranspose2d', 2, 1, 3, stride=2, padding=1, x=(1, 2, 3, 3), call=((6, 6),))
case('ConvTranspose2d', 2, 1, 3, stride=2, padding=1, x=(1, 2, 3, 3), call=((5, 6),))
case('ConvTranspose3d', 2, 2, 2, stride=2, x=(1, 2, 2, 2, 2))
case('Unfold', (2, 3), x=(2, 2, 4, 5))
case('Unfold', 2, dilation=2, padding=1, stride=2, x=(1, 2, 4, 5))
case('Fold', (4, 5), (2, 3), x=(2, 12, 9))
case('Fold', (4, 4), 2, stride=2, padding=1, x=(1, 8, 9))
# ---- pooling --
case('MaxPool1d', 2, x=(2, 3, 7))
case('MaxPool1d', 3, stride=2, padding=1, x=(2, 3, 7))
case('MaxPool1d', 2, dilation=2, ceil_mode=True, stride=2, x=(2, 3, 8))
case('MaxPool2d', 2, x=(1, 2, 5, 6))
case('MaxPool2d', (3, 2), stride=(2, 1), padding=(1, 0), ceil_mode=True, x=(1, 2, 6, 5))
case('MaxPool2d', 2, dilation=2, x=(2, 5, 6))
case('MaxPool3d', 2, x=(1, 2, 4, 4, 5))
case('AvgPool1d', 3, stride=2, padding=1, x=(2, 2, 7))
case('AvgPool1d', 2, count_include_pad=False, padding=1, ceil_mode=True, x=(2, 2, 6))
case('AvgPool2d', 2, x=(1, 2, 5, 6))
case('AvgPool2d', 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False, x=(1, 2, 6, 6))
case('AvgPool2d', (2, 3), divisor_override=4, x=(2, 5, 6))
case('AvgPool3d', 2, stride=1, x=(1, 2, 3, 3, 4))
case('AdaptiveAvgPool1d', 3, x=(2, 2, 7))
case('AdaptiveAvgPool2d', (2, 3), x=(1, 2, 5, 7))
case('AdaptiveAvgPool2d', 1, x=(2, 2, 3, 3))
case('AdaptiveAvgPool3d', 2, x=(1, 2, 3, 4, 5))
case('AdaptiveMaxPool1d', 3, x=(2, 2, 7))
case('AdaptiveMaxPool2d', (2, 3), x=(1, 2, 5, 7))
case('Upsample', scale_factor=2, x=(1, 2, 3, 2))
case('Upsample', size=(5, 4), mode='bilinear', x=(1, 2, 3, 2))
case('Upsample', scale_factor=2.5, mode='bilinear', align_corners=True, x=(1, 2, 3, 2))
case('Upsample', size=7, mode='linear', x=(1, 2, 3))
case('Upsample', scale_factor=2, mode='bicubic', x=(1, 1, 3, 4))
case('Upsample', scale_factor=2, mode='trilinear', x=(1, 1, 2, 3, 2))
case('UpsamplingNearest2d', scale_factor=2, x=(1, 2, 3, 2))
case('UpsamplingBilinear2d', size=(4, 5), x=(1, 2, 3, 2))
# ---- normalisation ----
for train in [True, False]:
    case('BatchNorm1d', 3, x=(4, 3), calls=2, train=train)
    case('BatchNorm1d', 3, x=(2, 3, 4), calls=3, train=train, momentum=0.3)
    case('BatchNorm2d', 3, x=(2, 3, 2, 3), calls=2, train=train, eps=1e-3)
    case('BatchNorm2d', 3, x=(2, 3, 4, 5), calls=2, train=train, affine=False)
    case('BatchNorm2d', 3, x=(2, 3, 2, 2), train=train, track_running_stats=False)
    case('BatchNorm3d', 2, x=(2, 2, 2, 2, 3), calls=2, train=train)
    case('InstanceNorm1d', 3, x=(2, 3, 5), train=train)
    case('InstanceNorm2d', 3, x=(2, 3, 3, 4), train=train, affine=True)
    case('InstanceNorm2d', 3, x=(2, 3, 3, 2), calls=2, train=train, affine=True, track_running_stats=True)
case('BatchNorm1d', 3, x=(4, 3), calls=3, train=False, momentum=None)
case('InstanceNorm1d', 3, x=(3, 5))
case('InstanceNorm3d', 2, x=(2, 2, 2, 2, 3), eps=1e-2)
case('LayerNorm', 5, x=(3, 4, 5))
case('LayerNorm', (4, 5), x=(3, 4, 5), eps=1e-2)
case('LayerNorm', 5, x=(3, 5), elementwise_affine=False)
case('LayerNorm', 5, x=(5,), bias=False)
case('RMSNorm', 5, x=(3, 4, 5))
case('RMSNorm', (4, 5), x=(2, 4, 5), eps=1e-3)
case('RMSNorm', 5, x=(3, 5), elementwise_affine=False)
case('GroupNorm', 2, 4, x=(2, 4, 3))
case('GroupNorm', 4, 4, x=(2, 4, 3, 2), eps=1e-3)
case('GroupNorm', 1, 4, x=(2, 4, 3), affine=False)
# ---- activations ----
for name, args, options in [
        ('CELU', (), {}), ('CELU', (), dict(alpha=1.5)), ('ELU', (), dict(alpha=0.7)), ('GELU', (), {}),
        ('GELU', (), dict(approximate='tanh')), ('Hardshrink', (), dict(lambd=0.3)), ('Hardsigmoid', (), {}),
        ('Hardswish', (), {}), ('Hardtanh', (), {}), ('Hardtanh', (-0.5, 0.7), {}), ('Identity', (), {}),
        ('LeakyReLU', (), {}), ('LeakyReLU', (), dict(negative_slope=0.3)), ('LogSigmoid', (), {}), ('Mish', (), {}),
        ('ReLU', (), {}), ('ReLU6', (), {}), ('SELU', (), {}), ('SiLU', (), {}), ('Sigmoid', (), {}),
        ('Softplus', (), {}), ('Softplus', (), dict(beta=2, threshold=1)), ('Softshrink', (), {}),
        ('Softsign', (), {}), ('Tanh', (), {}), ('Tanhshrink', (), {}), ('Threshold', (0.2, -1), {})]:
    case(name, *args, x=(3, 5), **options)
case('RReLU', x=(3, 5), train=False)
case('RReLU', 0.2, 0.4, x=(3, 5), train=False)
case('PReLU', x=(3, 5))
case('PReLU', 3, x=(2, 3, 4))
for name in ['Softmax', 'LogSoftmax', 'Softmin']:
    case(name, dim=1, x=(3, 4, 2))
    case(name, dim=-1, x=(3, 4))
case('Softmax2d', x=(2, 3, 2, 2))
case('GLU', x=(3, 4))
case('GLU', dim=1, x=(2, 4, 3))
for name in ['Dropout', 'Dropout1d', 'Dropout2d', 'Dropout3d', 'AlphaDropout']:
    case(name, 0.7, x=(2, 3, 2, 2, 2)[:4 if name == 'Dropout2d' else 3 if name == 'Dropout1d' else 5], train=False)
# ---- products and distances ----
case('Linear', 4, 3, x=(5, 4))
case('Linear', 4, 3, x=(2, 3, 4), bias=False)
case('Linear', 4, 3, x=(4,))
case('Bilinear', 3, 4, 2, x=[(5, 3), (5, 4)])
case('Bilinear', 3, 4, 2, x=[(2, 2, 3), (2, 2, 4)], bias=False)
case('CosineSimilarity', x=[(4, 3), (4, 3)])
case('CosineSimilarity', dim=0, eps=1e-3, x=[(4, 3), (4, 3)])
case('PairwiseDistance', x=[(4, 3), (4, 3)])
case('PairwiseDistance', p=3, keepdim=True, x=[(4, 3), (4, 3)])
# ---- embeddings ---
ids = torch.tensor([[0, 3, 1], [3, 3, 4]])
case('Embedding', 5, 3, x=ids)
case('Embedding', 5, 3, x=ids, padding_idx=3)
case('Embedding', 5, 3, x=ids, padding_idx=-1)
case('Embedding', 5, 3, x=ids, max_norm=0.5)
case('Embedding', 5, 3, x=ids, max_norm=0.8, norm_type=1.0)
case('Embedding', 5, 3, x=ids, scale_grad_by_freq=True)
for mode in ['mean', 'sum', 'max']:
    case('EmbeddingBag', 5, 3, x=ids, mode=mode)
    case('EmbeddingBag', 5, 3, x=[torch.tensor([1, 2, 4, 4, 0]), torch.tensor([0, 2, 2])], mode=mode, padding_idx=4)
case('EmbeddingBag', 5, 3, x=[torch.tensor([1, 2, 4, 4, 0]), torch.tensor([0, 2, 5])], mode='sum',
     include_last_offset=True)
case('EmbeddingBag', 5, 3, x=ids, max_norm=0.5)
# ---- shapes ----
case('Flatten', x=(2, 3, 4))
case('Flatten', start_dim=0, end_dim=1, x=(2, 3, 4))
case('Unflatten', dim=1, unflattened_size=(2, 3), x=(2, 6))
case('PixelShuffle', 2, x=(2, 8, 2, 3))
case('PixelUnshuffle', 2, x=(2, 2, 4, 6))
for name in ['ZeroPad', 'ReflectionPad', 'ReplicationPad', 'CircularPad']:
    case(name + '1d', 2, x=(2, 2, 4))
    case(name + '1d', (1, 3), x=(2, 4))
    case(name + '2d', (1, 2, 0, 1), x=(1, 2, 3, 4))
    case(name + '2d', 1, x=(2, 3, 4))
case('ReplicationPad3d', (1, 0, 2, 1, 0, 1), x=(1, 1, 2, 3, 2))
case('ReflectionPad3d', 1, x=(1, 1, 2, 3, 2))
case('ZeroPad2d', (-1, 1, 0, -1), x=(1, 2, 3, 4))
case('ConstantPad1d', 1, 2.5, x=(2, 2, 3))
case('ConstantPad2d', (1, 0, 2, 0), -1.5, x=(1, 2, 3, 2))
case('ConstantPad3d', 1, 0.5, x=(1, 1, 1, 2, 2))
# ---- parametrizations ----
def normed(kind, **options):
    def wrap(layer, code):
        words = ''.join(', {%s}' % ', '.join('%s=%s' % (k, 'false' if v is None else lua(v, k))
                                             for k, v in options.items()) if options else '')
        return getattr(parametrizations, kind)(layer, **options), 'nn.%s(%s%s)' % (kind, code, words)
    return wrap


case('Linear', 4, 3, x=(5, 4), wrap=normed('weight_norm'))
case('Linear', 4, 3, x=(5, 4), wrap=normed('weight_norm', dim=1), bias=False)
case('Linear', 4, 3, x=(5, 4), wrap=normed('weight_norm', dim=None))
case('Linear', 4, 3, x=(5, 4), wrap=normed('weight_norm', name='bias'))
case('Conv2d', 2, 3, 3, x=(2, 2, 4, 5), wrap=normed('weight_norm'))
case('ConvTranspose1d', 2, 3, 3, x=(2, 2, 4), wrap=normed('weight_norm', dim=2))
case('Linear', 4, 3, x=(5, 4), calls=2, wrap=normed('spectral_norm'))
case('Linear', 4, 3, x=(5, 4), calls=3, train=False, wrap=normed('spectral_norm', n_power_iterations=2))
case('Conv2d', 2, 3, 3, x=(2, 2, 4, 5), wrap=normed('spectral_norm', dim=1))
case('ConvTranspose2d', 2, 3, 3, x=(1, 2, 3, 4), wrap=normed('spectral_norm'))


# ---- 100 steps of training from the same start, in the same order ----
def curve(dtype):
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                        parametrizations.weight_norm(nn.Conv2d(4, 6, 3)), nn.GELU(), nn.AdaptiveAvgPool2d(2),
                        nn.Flatten(), nn.LayerNorm(24), nn.Linear(24, 3)).to(dtype)
    for p in net.parameters():
        with torch.no_grad():
            p.copy_(lin(p.shape, 0.71, 0.1 * p.dim()) * 0.5 + 0.1)
    opt, losses = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3), []
    for step in range(100):
        x = lin((8, 1, 8, 8), 0.37 + 0.01 * (step % 7))
        y = torch.arange(8) * (step % 7 + 1) % 3
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net((x + y.view(8, 1, 1, 1) * 0.3).to(dtype)), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


tensors['curve.float32'], tensors['curve.float64'] = curve(torch.float32), curve(torch.float64)

save_file({k: v.contiguous().clone() for k, v in tensors.items()}, os.path.join(here, 'layers.safetensors'))
with open(os.path.join(here, 'layer_cases.lua'), 'w') as f:
    f.write('-- layer_cases.lua -- made by layers.py with PyTorch %s: layers, sizes of inputs (false: in the '
            'file)\nreturn {\n' % torch.__version__)
    f.write(''.join('  %s,\n' % c for c in cases) + '}\n')
print(len(cases), 'cases', os.path.getsize(os.path.join(here, 'layers.safetensors')), 'bytes')
