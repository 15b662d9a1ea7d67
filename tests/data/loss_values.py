# loss_values.py -- PyTorch's losses as modules: options, inputs, results, gradients by every float input
#
#   python tests/data/loss_values.py     writes loss_cases.lua and loss_values.safetensors beside it
#
# A case is {module, options, inputs}. An input is {shape, a, b, f}: f of sin(a i + b) for i = 1, 2, ..; or {ints}.
# Labels, and `blank`, are written as positions from 1. The tensors are 'CASE' (the result) and 'CASE by INPUT': the
# gradients of the sum of the loss times sin(i + 0.5), for all inputs that have a gradient in PyTorch.
import os
import textwrap
import torch
from safetensors.torch import save_file

here = os.path.dirname(os.path.abspath(__file__))
cases, tensors = [], {}

FUNCTIONS = {
    'sigmoid': torch.sigmoid, 'abs': torch.abs, 'sign': torch.sign, 'exp': torch.exp,
    'softmax': lambda x: x.softmax(1), 'log_softmax': lambda x: x.log_softmax(1),
    'log_softmax_last': lambda x: x.log_softmax(-1), 'half': lambda x: (x > 0).double(),
}


class Lin:
    """Returns f(sin(a i + b)), which requires a gradient unless it is fixed."""

    def __init__(self, *shape, a=0.37, b=1.0, f=None, fixed=False):
        self.shape, self.a, self.b, self.f, self.fixed = shape, a, b, f, fixed

    def tensor(self):
        n = torch.Size(self.shape).numel()
        x = torch.sin(torch.arange(1, n + 1, dtype=torch.float64) * self.a + self.b).reshape(self.shape)
        return FUNCTIONS[self.f](x) if self.f else x

    def text(self):
        return '{%s, %g, %g%s}' % (lua(list(self.shape)), self.a, self.b, ", '%s'" % self.f if self.f else '')


class Labels:
    """Returns positions, which count from 0 in PyTorch; negative numbers are unchanged."""

    fixed = True

    def __init__(self, *values, plain=False):
        self.values, self.plain = list(values), plain

    def tensor(self):
        return torch.tensor(self.values)

    def text(self):
        x = self.tensor()
        return '{ints = %s}' % lua((x if self.plain else torch.where(x >= 0, x + 1, x)).tolist())


def lua(value):
    if isinstance(value, list):
        return '{' + ', '.join(map(lua, value)) + '}'
    if isinstance(value, dict):
        return '{' + ', '.join('%s = %s' % (k, lua(v)) for k, v in value.items()) + '}'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, torch.Tensor):
        return lua(value.tolist())
    return "'%s'" % value if isinstance(value, str) else '%.12g' % value


def case(name, options, *inputs):
    """Adds a case; tensors among the options are float64 vectors."""
    given = [i.tensor() for i in inputs]
    wanted = [not i.fixed for i in inputs]
    given = [x.requires_grad_() if w else x for x, w in zip(given, wanted)]
    y = getattr(torch.nn, name)(**options)(*given)
    n = torch.arange(1, y.numel() + 1, dtype=torch.float64)
    total = (y * torch.sin(n + 0.5).reshape(y.shape)).sum()
    slopes = torch.autograd.grad(total, [x for x, w in zip(given, wanted) if w])
    shown = dict(options)
    if 'blank' in shown:
        shown['blank'] += 1
    cases.append("{'%s', %s, {%s}}," % (name, lua(shown), ', '.join(i.text() for i in inputs)))
    tensors[str(len(cases))] = y.detach().reshape(-1)
    slopes = iter(slopes)
    for i, w in enumerate(wanted):
        if w:
            tensors['%d by %d' % (len(cases), i + 1)] = next(slopes).reshape(-1)


R = ['mean', 'sum', 'none']
vector = lambda *v: torch.tensor(v, dtype=torch.float64)
x, y = Lin(4, 3), Lin(4, 3, a=1.1)
for r in R:
    case('L1Loss', dict(reduction=r), x, y)
    case('MSELoss', dict(reduction=r), x, y)
case('MSELoss', {}, Lin(2, 3, 2), Lin(2, 3, 2, a=0.9))
for r in R:
    case('SmoothL1Loss', dict(reduction=r, beta=0.4), x, y)
    case('HuberLoss', dict(reduction=r, delta=0.6), x, y)
case('SmoothL1Loss', {}, x, y)
case('SmoothL1Loss', dict(beta=0.0), x, y)
case('HuberLoss', {}, x, Lin(4, 3, a=2.3))

labels, image = Labels(0, 2, 1, 1), Labels([[0, 1], [2, 2]], [[1, -100], [0, 1]])
weight = vector(0.5, 2, 1.5)
for r in R:
    case('CrossEntropyLoss', dict(reduction=r), x, labels)
    case('CrossEntropyLoss', dict(weight=weight, reduction=r), x, labels)
    case('CrossEntropyLoss', dict(weight=weight, label_smoothing=0.2, reduction=r), x, labels)
    case('CrossEntropyLoss', dict(label_smoothing=0.1, reduction=r), Lin(2, 3, 2, 2), image)
    case('CrossEntropyLoss', dict(reduction=r), x, Lin(4, 3, a=1.3, f='softmax'))
    case('CrossEntropyLoss', dict(weight=weight, label_smoothing=0.3, reduction=r), Lin(2, 3, 2),
         Lin(2, 3, 2, a=1.3, f='softmax'))
case('CrossEntropyLoss', dict(ignore_index=-1), x, Labels(0, -1, 1, -1))
case('CrossEntropyLoss', dict(weight=weight, ignore_index=-7, label_smoothing=0.1), x, Labels(0, -7, 1, 2))
case('CrossEntropyLoss', {}, Lin(3, a=1.7), Lin(3, a=0.8, f='abs'))
logp = Lin(4, 3, f='log_softmax')
for r in R:
    case('NLLLoss', dict(reduction=r), logp, labels)
    case('NLLLoss', dict(weight=weight, reduction=r), Lin(2, 3, 2, 2, f='log_softmax'), image)
case('NLLLoss', dict(weight=weight, ignore_index=-5), logp, Labels(2, -5, 0, 1))

var = Lin(4, 3, a=0.9, f='exp')
for r in R:
    case('GaussianNLLLoss', dict(reduction=r), x, y, var)
    case('GaussianNLLLoss', dict(full=True, eps=0.5, reduction=r), x, y, var)
    case('GaussianNLLLoss', dict(reduction=r), x, y, Lin(4, 1, a=0.9, f='exp'))
    case('PoissonNLLLoss', dict(reduction=r), x, Lin(4, 3, a=1.1, f='exp'))
    case('PoissonNLLLoss', dict(full=True, reduction=r), x, Lin(4, 3, a=1.1, f='exp', fixed=True))
case('GaussianNLLLoss', {}, x, y, Lin(4, a=0.9, f='exp'))
case('PoissonNLLLoss', dict(log_input=False, eps=0.1), Lin(4, 3, f='exp'), Lin(4, 3, a=1.1, f='exp'))
case('PoissonNLLLoss', dict(log_input=False, full=True), Lin(4, 3, f='exp'), Lin(4, 3, a=1.1, f='exp', fixed=True))

p = Lin(4, 3, a=1.3, f='softmax')
for r in R + ['batchmean']:
    case('KLDivLoss', dict(reduction=r), logp, p)
    case('KLDivLoss', dict(reduction=r, log_target=True), logp, Lin(4, 3, a=1.3, f='log_softmax'))
case('KLDivLoss', dict(reduction='sum'), logp, Lin(4, 3, a=1.3, f='half', fixed=True))

prob, half = Lin(4, 3, f='sigmoid'), Lin(4, 3, a=1.7, f='half')
for r in R:
    case('BCELoss', dict(reduction=r), prob, Lin(4, 3, a=1.7, f='sigmoid'))
    case('BCELoss', dict(weight=weight, reduction=r), prob, half)
    case('BCEWithLogitsLoss', dict(reduction=r), x, Lin(4, 3, a=1.7, f='sigmoid'))
    case('BCEWithLogitsLoss', dict(weight=weight, pos_weight=vector(2, 0.5, 3), reduction=r), x, half)
case('BCEWithLogitsLoss', dict(pos_weight=vector(4, 1, 2)), x, Lin(4, 3, a=1.7, f='sigmoid'))

sign, signs = Lin(4, a=1.9, f='sign', fixed=True), Lin(4, 3, a=1.9, f='sign', fixed=True)
for r in R:
    case('MarginRankingLoss', dict(margin=0.3, reduction=r), x, y, signs)
    case('HingeEmbeddingLoss', dict(margin=0.7, reduction=r), x, signs)
    case('CosineEmbeddingLoss', dict(margin=0.2, reduction=r), x, y, sign)
    case('SoftMarginLoss', dict(reduction=r), x, signs)
    case('MultiLabelSoftMarginLoss', dict(reduction=r), x, half)
    case('MultiLabelSoftMarginLoss', dict(weight=weight, reduction=r), x, Lin(4, 3, a=1.7, f='sigmoid'))
    case('TripletMarginLoss', dict(reduction=r), x, y, Lin(4, 3, a=0.8))
    case('TripletMarginLoss', dict(margin=0.4, p=1, swap=True, reduction=r), x, y, Lin(4, 3, a=0.8))
case('MarginRankingLoss', {}, Lin(5), Lin(5, a=0.9), Lin(5, a=1.9, f='sign', fixed=True))
case('HingeEmbeddingLoss', {}, x, signs)
case('CosineEmbeddingLoss', {}, Lin(3), Lin(3, a=0.9), Lin(a=1.9, f='sign', fixed=True))
case('TripletMarginLoss', dict(margin=2.0, p=3, eps=1e-3), x, y, Lin(4, 3, a=0.8))

many = Labels([2, 0, -1], [-1, 1, 2], [1, -1, 0], [0, 1, 2])
for r in R:
    case('MultiMarginLoss', dict(reduction=r), x, labels)
    case('MultiMarginLoss', dict(p=2, margin=0.7, weight=weight, reduction=r), x, labels)
    case('MultiLabelMarginLoss', dict(reduction=r), x, many)

spelled, lengths = Labels([1, 1, 3], [2, 1, 3], [3, 3, 3]), Labels(6, 4, 5, plain=True)
scores, few = Lin(6, 3, 4, a=1.7, f='log_softmax_last'), Labels(2, 3, 0, plain=True)
for r in R:
    case('CTCLoss', dict(reduction=r), scores, spelled, lengths, few)
    case('CTCLoss', dict(blank=2, reduction=r), scores, Labels([1, 1, 3], [0, 1, 3], [3, 3, 3]), lengths, few)
case('CTCLoss', dict(reduction='sum', zero_infinity=True), scores, spelled, Labels(6, 4, 3, plain=True),
     Labels(2, 3, 3, plain=True))

save_file({k: v.contiguous().clone() for k, v in tensors.items()}, os.path.join(here, 'loss_values.safetensors'))
with open(os.path.join(here, 'loss_cases.lua'), 'w') as f:
    f.write('-- loss_cases.lua -- made by loss_values.py with PyTorch %s: modules, options, inputs\nreturn {\n' %
            torch.__version__)
    for case in cases:
        f.write(textwrap.fill(case, 118, initial_indent='  ', subsequent_indent='    ', break_on_hyphens=False) + '\n')
    f.write('}\n')
