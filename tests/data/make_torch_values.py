#!/usr/bin/env python3
# make_torch_values.py -- writes torch_values.txt: PyTorch's values at special and ordinary points
#
#   python3 tests/data/make_torch_values.py > tests/data/torch_values.txt
#
# `points NAME ARITY` is followed by one line for each input. `op NAME DTYPE POINTS PARAMS..` is
# followed by `y`, the values, and, if there is a gradient, by one `g` for each input (of the sum
# of the outputs). Operations on bits have blocks of integers. float32
# values are float64 values for the same inputs, rounded; if PyTorch's
# float32 value is of another class (NaN, infinite, zero and its sign), it is used,
# except for fmod and remainder, where its SIMD code loses huge quotients.
import itertools
import math

import torch
import torch.nn.functional as F

nan, inf = math.nan, math.inf


def both(*values):
    return [s * v for v in values for s in (1.0, -1.0)]


UNARY = [nan, inf, -inf, 0.0, -0.0] + both(
    1.4e-45, 1e-40, 1.2e-38, 1e-30, 1e-8, 1e-4, 1e-3, 0.01, 0.25, 0.5, 0.70710678, 0.75, 0.999, 1,
    1.0000001, 1.3, 1.5, 1.5707964, 2, 2.5, 3, 3.1415927, 3.5, 4, 5, 6.5, 8, 10, 13, 20, 20.5, 30,
    50, 87, 88, 89, 103, 104, 105, 200, 709, 710, 744, 745, 746, 1e4, 8388607.5, 1e10, 1e30, 3e38)
UNARY64 = both(5e-324, 1e-310, 2.3e-308, 1e-200, 1e-17, 4503599627370495.5, 1e40, 1e200, 1.7e308)
BINARY = [nan, inf, -inf, 0.0, -0.0] + both(0.5, 1, 2, 3) + [-7.5, 7, 1e-40, -1e30, 3e38]
TERNARY = [(0, 1, 0.5), (1, 3, 0.25), (1, 3, 0), (1, 3, 1), (-2, 2.5, 2), (5, -5, -1),
           (0.1, 0.7, 0.3), (2, 2, 7), (nan, 1, 0.5), (1, nan, 0.5), (1, 2, nan), (inf, 1, 0.5),
           (1, inf, 0.5), (1, -inf, 0.5), (0.0, -0.0, 0.5), (-0.0, -0.0, 0.5), (1e30, 1, 1),
           (1, 1e30, 0), (3e38, -3e38, 0.75), (1e-40, 2e-40, 0.5)]
UNIT = [nan, inf, -inf, 0.0, -0.0, 1, -1, 0.5, 0.25, 0.75, 0.125, 1e-40, 1e-8, 0.001, 0.1, 0.3,
        0.49, 0.51, 0.7, 0.9, 0.999, 0.9999999, 1.5, -0.5]
GAMMA = [nan, 0.0, -0.0, 1e-40, 1e-4, 0.25, 0.5, 1, 1.25, 1.5, 2, 2.75, 3, 5.5, 9.5, 10, 11.25, 33,
         1e4, 1e10]
POSITIVE = [nan, inf, 0.0, 1e-40, 0.25, 0.5, 1, 1.0000001, 1.25, 2, 2.75, 3.5, 5, 9.5, 10, 33, 1e4]
PAIRS = list(itertools.product(POSITIVE, repeat=2)) + [(-1, 1), (1, -1), (2, -1), (2, -0.5),
                                                       (3, -1.25), (2.5, -1.25), (0.5, 2)]
INTEGERS = [(12, 10), (-12, 10), (0, 0), (255, 1), (7, 3), (100, 7), (-1, 31), (-100, 63), (5, 64),
            (-5, 64), (5, -1), (-5, -1), (2**40 + 5, 2), (-2**62, 3), (1, 62), (9, 0)]
WHERE = list(itertools.product((0, 1), *[[nan, inf, 0.0, -0.0, 1.5]] * 2))
POINTS = {'unary': [[x] for x in UNARY], 'unary64': [[x] for x in UNARY64],
          'binary': [list(p) for p in itertools.product(BINARY, repeat=2)],
          'unit': [[x] for x in UNIT], 'poly': [[x] for x in GAMMA],
          'gamma': [[x] for x in GAMMA + [inf, -inf, -1, -2, -0.5, -3.25, -40]],
          'pairs': [list(p) for p in PAIRS],
          'integer': [p[:1] for p in INTEGERS], 'integers': INTEGERS,
          'ternary': [list(p) for p in TERNARY], 'where': [list(p) for p in WHERE]}


def same(points, names):
    """Operations that PyTorch has under the same name, without parameters."""
    return [(n, getattr(torch, n), points, ()) for n in names.split()]


# name, function of tensors and parameters, point list, parameters
OPS = same('unary', 'neg sign abs reciprocal square sqrt rsqrt floor ceil round trunc exp expm1 '
                    'log log1p log2 log10 sin cos erf erfc tanh sigmoid relu frac deg2rad '
                    'rad2deg exp2 tan asin acos atan sinh cosh asinh acosh atanh erfinv selu '
                    'sinc')
OPS += [('ndtr', torch.special.ndtr, 'unary', ()), ('tanhshrink', F.tanhshrink, 'unary', ())]
OPS += [('clamp', torch.clamp, 'unary', (-1.5, 2.5)), ('clamp', torch.clamp, 'unary', (2.5, -1.5)),
        ('clamp', torch.clamp, 'unary', (-0.0, inf)),
        ('leaky_relu', F.leaky_relu, 'unary', (0.01,)),
        ('leaky_relu', F.leaky_relu, 'unary', (-2.0,)),
        ('elu', F.elu, 'unary', (1.0,)), ('elu', F.elu, 'unary', (1.75,)),
        ('gelu', F.gelu, 'unary', ()), ('silu', F.silu, 'unary', ()),
        ('softplus', F.softplus, 'unary', (1.0, 20.0)),
        ('softplus', F.softplus, 'unary', (1.75, 30.0))]
OPS += [('nan_to_num', torch.nan_to_num, 'unary', ()),
        ('nan_to_num', torch.nan_to_num, 'unary', (1.5, 2.5, -3.5)),
        ('logit', torch.logit, 'unit', ()), ('logit', torch.logit, 'unit', (0.25,)),
        ('hardtanh', F.hardtanh, 'unary', (-1.0, 1.0)),
        ('hardtanh', F.hardtanh, 'unary', (0.5, 2.5)),
        ('threshold', F.threshold, 'unary', (1.5, -7.0)),
        ('hardshrink', F.hardshrink, 'unary', (0.5,)),
        ('softshrink', F.softshrink, 'unary', (0.5,)),
        ('huber', lambda x, delta: F.huber_loss(x, torch.zeros_like(x), 'none', delta), 'unary', (1.5,)),
        ('celu', F.celu, 'unary', (1.0,)), ('celu', F.celu, 'unary', (1.75,)),
        ('gelu_tanh', lambda x: F.gelu(x, approximate='tanh'), 'unary', ()),
        ('polygamma', lambda x, n: torch.polygamma(int(n), x), 'poly', (1.0,)),
        ('polygamma', lambda x, n: torch.polygamma(int(n), x), 'poly', (2.0,))]
OPS += [(n, getattr(F, n), 'unary', ())
        for n in 'softsign relu6 hardsigmoid hardswish logsigmoid mish'.split()]
OPS += same('gamma', 'lgamma') + same('poly', 'digamma')
OPS += same('unary', 'logical_not isnan isinf isposinf isneginf isfinite signbit')
OPS += same('pairs', 'igamma igammac')
OPS += same('binary', 'add sub mul div floor_divide remainder fmod pow minimum maximum fmin fmax '
            'atan2 hypot')
OPS += same('binary', 'copysign xlogy logaddexp heaviside')
OPS += [('trunc_divide', lambda a, b: torch.div(a, b, rounding_mode='trunc'), 'binary', ()),
        ('prelu', torch._prelu_kernel, 'binary', ())]
OPS += same('binary', 'lt le gt ge eq ne logical_and logical_or logical_xor')
OPS += same('ternary', 'lerp')
OPS += [(n, lambda a, b, c, value, f=getattr(torch, n): f(a, b, c, value=value), 'ternary', (v,))
        for n in ('addcmul', 'addcdiv') for v in (1.0, -2.5)]
OPS += [('where', lambda c, a, b: torch.where(c != 0, a, b), 'where', ())]


# These round the same way in both types: float32 is enough.
EXACT = set('neg sign abs floor ceil round trunc square relu clamp leaky_relu add sub mul div '
            'floor_divide remainder fmod minimum maximum fmin fmax where frac nan_to_num hardtanh '
            'relu6 threshold hardshrink softshrink trunc_divide copysign heaviside prelu'.split())
FLAT = set('floor_divide trunc_divide heaviside'.split())  # PyTorch has no gradient for them
COARSE = set('digamma polygamma igamma igammac'.split())  # PyTorch's float64 is not exact
UNSMOOTH = set('igamma igammac'.split())  # no gradient by the first input
BITS = 'and or xor not left_shift right_shift'.split()


def text(x):
    if isinstance(x, bool):
        return str(int(x))
    if math.isnan(x) or math.isinf(x):
        return str(x)
    if x == int(x) and abs(x) < 1e6:
        return '-0' if x == 0 and math.copysign(1, x) < 0 else str(int(x))
    return repr(x)


def float32_text(x):
    if math.isnan(x) or math.isinf(x) or x == 0:
        return text(x)
    for digits in range(1, 10):
        s = '%.*g' % (digits, x)
        if torch.tensor(float(s), dtype=torch.float32).item() == x:
            return text(float(s))
    return repr(x)


def run(name, f, columns, params, dtype):
    """Returns the values, and a gradient for each input or None (for functions that are flat in PyTorch)."""
    x = [torch.tensor(c, dtype=dtype, requires_grad=True) for c in columns]
    y = f(*x, *params)
    if not y.requires_grad or not y.dtype.is_floating_point or name in FLAT:
        return y.tolist(), None
    if name in UNSMOOTH:
        y = f(x[0].detach(), *x[1:])
    g = torch.autograd.grad(y.sum(), x, allow_unused=True)
    return y.tolist(), [None if t is None else t.tolist() for t in g]


def kind(x):
    if math.isnan(x):
        return 'nan'
    return (math.copysign(1, x), 'inf' if math.isinf(x) else 'zero' if x == 0 else '')


def merge(wide, narrow):
    """Returns float64's values rounded, or float32's values where the class differs."""
    out = []
    for w, n in zip(wide, narrow):
        r = w if isinstance(w, bool) else torch.tensor(w, dtype=torch.float64).float().item()
        out.append(r if isinstance(w, bool) or kind(r) == kind(n) else n)
    return out


def rounded(columns):
    return [torch.tensor(c, dtype=torch.float32).double().tolist() for c in columns]


def line(letter, values, write):
    print(letter, *(write(v) for v in values))


def print_bits():
    for name in ['bitwise_' + n for n in BITS] + ['gcd', 'lcm']:
        f, arity = getattr(torch, name), 1 if name == 'bitwise_not' else 2
        for dtype in ('int64', 'int32', 'uint8'):
            columns = [torch.tensor(c).to(getattr(torch, dtype)) for c in zip(*INTEGERS)][:arity]
            print('op', name, dtype, 'integer' if arity == 1 else 'integers')
            line('y', f(*columns).tolist(), str)


def main():
    print('# made by make_torch_values.py with torch', torch.__version__)
    for name, points in POINTS.items():
        print('points', name, len(points[0]))
        exact = name == 'unary64' or name.startswith('integer')
        columns = list(zip(*points)) if exact else rounded(list(zip(*points)))
        for c in columns:
            line('x', c, str if name.startswith('integer') else text if exact else float32_text)
    for name, f, points, params in OPS:
        columns = rounded(list(zip(*POINTS[points])))
        y64, g64 = run(name, f, columns, params, torch.float64)
        y32, g32 = run(name, f, columns, params, torch.float32)
        words = [text(p) for p in params]
        print('op', name, 'float32', points, *words)
        line('y', merge(y64, y64 if name in ('fmod', 'remainder') else y32), float32_text)
        if g64 and (points != 'binary' or name in EXACT):
            for a, b in zip(g64, g32):
                print('g -') if a is None else line('g', merge(a, b), float32_text)
        if isinstance(y64[0], bool):
            continue
        if name not in EXACT | COARSE:
            print('op', name, 'float64', points, *words)
            line('y', y64, text)
            for g in g64 or []:
                print('g -') if g is None else line('g', g, text)
        if points == 'unary':
            y64, g64 = run(name, f, list(zip(*POINTS['unary64'])), params, torch.float64)
            print('op', name, 'float64 unary64', *words)
            line('y', y64, text)
            for g in g64 or []:
                line('g', g, text)
    print_bits()


main()
