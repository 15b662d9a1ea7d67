# fft_values.py -- torch.fft, stft and istft, their gradients, and window functions
#
#   python tests/data/fft_values.py     writes fft_values.safetensors beside it
#
# The tensors are 'input NAME', 'CALL' (its result) and 'CALL by NAME': the derivative of the sum of its squares
# by that input, in the direction cos 1, cos 2, .. Complex numbers are pairs. A call is the same text for both sides,
# except that options are written as {n = 5}, and dimensions count from 1 where they are positive.
import os
import re
import torch
from safetensors.torch import save_file

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
inputs = dict(x=torch.randn(2, 2, 5), z=torch.randn(2, 2, 4, dtype=torch.complex128), signal=torch.randn(2, 20),
              frames=torch.randn(5, 7, dtype=torch.complex128), window=torch.rand(8) + 0.1)
calls = []
for norm in ['backward', 'ortho', 'forward']:
    calls += ["F.%s, {norm = '%s'}" % (f, norm) for f in [
        'fft(z', 'ifft(z', 'rfft(x', 'irfft(z', 'fft2(z', 'ifft2(z', 'rfft2(x', 'irfft2(z']]
for n in [1, 2, 3, 6, 7]:
    calls += ["F.%s, {n = %d, dim = 2}" % (f, n) for f in ['fft(z', 'ifft(z', 'rfft(x', 'irfft(z']]
calls += ['F.%s, {dim = -3}' % f for f in ['fft(z', 'rfft(x', 'irfft(z']]
for f in ['fftn(z', 'ifftn(z', 'rfftn(x', 'irfftn(z']:
    calls += ['F.%s, %s' % (f, options) for options in [
        '{}', '{s = {4, 3}}', '{dim = {1, -1}}', '{s = {3, 4}, dim = {3, 1}}', "{s = {-1, 2, 4}, norm = 'ortho'}"]]
calls += ['F.rfft2(x, {s = {2, 7}, dim = {2, 1}}', 'F.irfft2(z, {s = {2, 5}}']
calls += ['T.stft(signal, {%s}' % options for options in [
    'n_fft = 8', 'n_fft = 8, window = window',
    'n_fft = 8, window = window, center = false, hop_length = 3, normalized = true',
    "window = window, n_fft = 11, win_length = 8, hop_length = 5, pad_mode = 'constant'",
    "n_fft = 7, pad_mode = 'replicate', onesided = false",
    "n_fft = 8, hop_length = 8, pad_mode = 'circular', window = window"]]
calls += ['T.istft(frames, {%s}' % options for options in [
    'n_fft = 8', 'n_fft = 8, window = window', 'n_fft = 8, window = window, length = 20, hop_length = 4',
    'n_fft = 8, window = window, hop_length = 3, length = 9', 'n_fft = 8, hop_length = 5, window = window, length = 40',
    'n_fft = 8, window = window, normalized = true, center = false']]
for name in ['hann', 'hamming', 'blackman', 'bartlett']:
    calls += ['T.%s_window(%d, {periodic = %s}' % (name, n, p) for n in [1, 2, 6, 7] for p in ['true', 'false']]
calls += ['T.hamming_window(5, true, {alpha = 0.6, beta = 0.3}', 'F.fftfreq(5',
          'F.fftfreq(4, 0.5', 'F.rfftfreq(5, 2', 'F.rfftfreq(1', 'F.fftshift(x', 'F.ifftshift(x', 'F.fftshift(x, 3',
          'F.ifftshift(z, {dim = {-1, 2}, complex = true}', 'F.fftshift(z, {complex = true}']


def python(call):
    text = call.replace('true', 'True').replace('false', 'False').replace(', complex = True', '')
    text = text.replace('{complex = True}', '').replace('F.fftshift(x, 3', 'F.fftshift(x, 2')
    text = re.sub(r'dim = (\d)', lambda m: 'dim = %d' % (int(m[1]) - 1), text)
    text = re.sub(r'dim = \{(-?\d), (-?\d)\}', lambda m: 'dim = (%s)' % ', '.join(
        str(int(d) - (int(d) > 0)) for d in m.groups()), text)
    text = re.sub(r's = \{([^}]*)\}', r's = (\1)', text).replace('{', '').replace('}', '')
    if 'stft(signal' in text:
        text += ', return_complex = True'
    return re.sub(r'[(,] *,', lambda m: m[0][0], text) + ')'


def pairs(x):
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


def slope(g):
    g = pairs(g).flatten()
    return g @ torch.arange(1., len(g) + 1).cos()


tensors = {'input ' + name: pairs(value) for name, value in inputs.items()}
for call in calls:
    of = {name: v.clone().requires_grad_() for name, v in inputs.items()}
    y = eval(python(call), dict(of, F=torch.fft, T=torch))
    tensors[call + ')'] = pairs(y.detach())
    if y.requires_grad:
        (pairs(y) ** 2).sum().backward()
        for name, v in of.items():
            if v.grad is not None:
                tensors['%s) by %s' % (call, name)] = slope(v.grad)
save_file({k: v.contiguous().clone() for k, v in tensors.items()}, os.path.splitext(__file__)[0] + '.safetensors',
          {'torch': torch.__version__})
