# optim_values.py -- PyTorch's optimizers: parameters after steps; its schedulers: rates (and momenta) of 60 steps
#
#   python tests/data/optim_values.py     writes optim_cases.lua and optim_values.safetensors beside it
#
# An optimizer's case is {name, options, options of the second group, waves}; 'optimizer CASE' has the parameters after
# 10 steps on the loss below, which has more minima if it has waves. A scheduler's is {spec, optimizer, initial}: a spec
# is {name, options, specs = {..}}, where a function is the name of one of FUNCTIONS; 'scheduler CASE, I' are the rates
# of the first group after 0 .. 59 steps, those of the second after 0, 7, 14 .. steps, and the momenta if they change.
# names are those of all schedulers.
import math
import os
import textwrap
import warnings
import torch
from safetensors.torch import save_file

warnings.filterwarnings('ignore')
torch.set_default_dtype(torch.float64)  # NAdam stores a product of momenta in this dtype


def lua(value):
    if isinstance(value, (list, tuple)):
        return '{' + ', '.join(map(lua, value)) + '}'
    if isinstance(value, dict):
        return '{' + ', '.join('%s = %s' % (k, lua(v)) for k, v in value.items()) + '}'
    if value is None or isinstance(value, bool):
        return {None: 'nil', True: 'true', False: 'false'}[value]
    return "'%s'" % value if isinstance(value, str) else ('%.13g' % value).replace('e-0', 'e-')


here = os.path.dirname(os.path.abspath(__file__))
rows, tensors = {'optimizers': [], 'schedulers': []}, {}


# ---- optimizers ---------------------------------------------------------------------------------


def trained(name, options, second, waves=0):
    p = torch.tensor([-1.2, 1, 0.5], dtype=torch.float64, requires_grad=True)
    q = torch.tensor([[0.3, -0.7], [1.1, 0.4]], dtype=torch.float64, requires_grad=True)
    groups = [p, q] if second is None else [{'params': [p]}, dict(second, params=[q])]
    opt = getattr(torch.optim, name)(groups, **options)

    def closure():
        opt.zero_grad()
        loss = ((1 - p[0])**2 + 5 * (p[1] - p[0]**2)**2 + p[2]**4 + (q - p[2]).square().sum() +
                0.3 * q.exp().sum() + p[0] * q[0, 0])
        loss = loss + waves * ((4 * p).sin().sum() + (7 * q).cos().sum())
        loss = -loss if options.get('maximize') else loss
        loss.backward()
        return loss

    for _ in range(10):
        if name == 'LBFGS':
            opt.step(closure)
        else:
            closure()
            opt.step()
    rows['optimizers'].append('{%s},' % ', '.join(map(lua, (name, options, second or {}, waves))))
    tensors['optimizer %d' % len(rows['optimizers'])] = torch.cat([p.detach(), q.detach().reshape(-1)])


for options, second in [
    (dict(lr=0.01), None), (dict(lr=0.01, momentum=0.9), None), (dict(lr=0.01, weight_decay=0.1), dict(lr=0.003)),
    (dict(lr=0.01, momentum=0.8, dampening=0.3, weight_decay=0.05), dict(momentum=0)),
    (dict(lr=0.01, momentum=0.9, nesterov=True), dict(lr=0.02)), (dict(lr=0.01, momentum=0.5, maximize=True), None),
]:
    trained('SGD', options, second)
adam = [
    ({}, None), (dict(lr=0.1), dict(lr=0.02)), (dict(lr=0.1, betas=(0.7, 0.95), eps=1e-3), None),
    (dict(lr=0.1, weight_decay=0.2), dict(weight_decay=0)), (dict(lr=0.1, amsgrad=True, betas=(0.8, 0.6)), None),
    (dict(lr=0.05, maximize=True, weight_decay=0.1), dict(betas=(0.5, 0.9))),
]
for options, second in adam:
    trained('Adam', options, second)
    trained('AdamW', options, second)
trained('Adam', dict(lr=0.1, weight_decay=0.2, decoupled_weight_decay=True), dict(decoupled_weight_decay=False))
for options, second in [
    (dict(lr=0.02), None), (dict(lr=0.02, alpha=0.8, eps=1e-4, weight_decay=0.1), dict(lr=0.05)),
    (dict(lr=0.02, momentum=0.6), dict(momentum=0)), (dict(lr=0.02, centered=True, momentum=0.3), None),
    (dict(lr=0.02, centered=True, maximize=True), None),
]:
    trained('RMSprop', options, second)
for options, second in [
    ({}, None), (dict(lr=0.3, lr_decay=0.1, weight_decay=0.1), dict(lr=0.1)),
    (dict(lr=0.3, initial_accumulator_value=0.5, eps=1e-3, maximize=True), None),
]:
    trained('Adagrad', options, second)
for options, second in [
    ({}, None), (dict(lr=3, rho=0.7, eps=1e-3, weight_decay=0.1), dict(rho=0.95)), (dict(lr=2, maximize=True), None)
]:
    trained('Adadelta', options, second)
for options, second in [
    ({}, None), (dict(lr=0.1, betas=(0.7, 0.8), eps=1e-3, weight_decay=0.1), dict(lr=0.02)),
    (dict(lr=0.05, maximize=True), None),
]:
    trained('Adamax', options, second)
for name in ['NAdam', 'RAdam']:
    trained(name, {}, None)
    trained(name, dict(lr=0.1, betas=(0.7, 0.9), eps=1e-3, weight_decay=0.1), dict(lr=0.03))
    trained(name, dict(lr=0.1, weight_decay=0.1, decoupled_weight_decay=True), None)
    trained(name, dict(lr=0.05, maximize=True), None)
trained('NAdam', dict(lr=0.1, momentum_decay=0.1), None)
for options in [
    dict(), dict(lr=0.3), dict(lr=0.1, max_iter=1), dict(lr=0.2, max_iter=3, history_size=2),
    dict(line_search_fn='strong_wolfe', max_iter=1), dict(line_search_fn='strong_wolfe', max_iter=2, history_size=1),
    dict(line_search_fn='strong_wolfe', max_iter=3, max_eval=4), dict(line_search_fn='strong_wolfe'),
    dict(line_search_fn='strong_wolfe', tolerance_grad=0.5), dict(lr=0.5, tolerance_change=0.1),
    dict(line_search_fn='strong_wolfe', max_iter=2, lr=0.01, maximize=True),
]:
    if 'lr' not in options and 'line_search_fn' not in options:
        options['lr'] = 0.05
    trained('LBFGS', options, None)
for waves, lr, max_iter in [(1, 1, 1), (2, 0.3, 2), (3, 4, 1), (5, 10, 2), (8, 1, 4), (0.2, 3, 2), (0.2, 0.01, 1),
                            (0.2, 10, 1)]:
    trained('LBFGS', dict(line_search_fn='strong_wolfe', max_iter=max_iter, max_eval=25, lr=lr), None, waves)

# ---- schedulers ---------------------------------------------------------------------------------

FUNCTIONS = {
    'decay': lambda n: 0.95**n, 'sawtooth': lambda n: 1 - (n % 7) / 10, 'slow': lambda n: 1 - 0.01 * (n % 3),
    'shrink': lambda x: 0.8**(x - 1), 'inverse': lambda x: 5 / (5 + x),
}
STEPS = 60


def built(spec, opt):
    """Creates the scheduler of a spec, (name, options) or (name, specs, options)."""
    name, options = spec[0], {k: v for k, v in spec[-1].items()}
    for key, value in options.items():
        if key in ('lr_lambda', 'scale_fn'):
            options[key] = [FUNCTIONS[v] for v in value] if isinstance(value, list) else FUNCTIONS[value]
    kind = getattr(torch.optim.lr_scheduler, name, None) or getattr(torch.optim.swa_utils, name)
    if len(spec) == 3:
        inner = [built(s, opt) for s in spec[1]]
        return kind(inner) if name == 'ChainedScheduler' else kind(opt, inner, **options)
    return kind(opt, **options)


def spec_text(spec):
    inner = '{%s}' % ', '.join(spec_text(s) for s in spec[1]) if len(spec) == 3 else 'nil'
    return "{'%s', %s%s}" % (spec[0], lua(spec[-1]), ', specs = ' + inner if len(spec) == 3 else '')




def metric(k):
    """A metric that falls, is constant, and rises slightly."""
    return math.exp(-k / 15) + 0.2 * math.sin(k / 3) if k < 40 else 0.5


def momentum(group):
    return group['betas'][0] if 'betas' in group else group['momentum']


def scheduled(*spec, optimizer='SGD', initial=None):
    p, q = torch.zeros(2, requires_grad=True), torch.zeros(1, requires_grad=True)
    groups = [{'params': [p], 'lr': 0.5}, {'params': [q], 'lr': 0.03}]
    for group in groups:
        if initial:
            group['initial_lr'] = group['lr'] * initial
    opt = getattr(torch.optim, optimizer)(groups, **(dict(momentum=0.9) if optimizer == 'SGD' else {}))
    sched = built(spec, opt)
    moves = spec[-1].get('cycle_momentum', spec[0] in ('CyclicLR', 'OneCycleLR'))
    lists = [[] for _ in range(4 if moves else 2)]
    for k in range(STEPS):
        for i, group in enumerate(opt.param_groups):
            if i == 0 or k % 7 == 0:
                lists[i].append(group['lr'])
                if moves:
                    lists[i + 2].append(momentum(group))
        assert sched.get_last_lr() == [group['lr'] for group in opt.param_groups]
        opt.step()
        sched.step(metric(k)) if spec[0] == 'ReduceLROnPlateau' else sched.step()
    rows['schedulers'].append("{%s, '%s', %s}," % (spec_text(spec), optimizer, initial or 'false'))
    for i, values in enumerate(lists):
        tensors['scheduler %d, %d' % (len(rows['schedulers']), i + 1)] = torch.tensor(values)


for options in [dict(step_size=4), dict(step_size=7, gamma=0.5), dict(step_size=1, gamma=1.02)]:
    scheduled('StepLR', options)
scheduled('StepLR', dict(step_size=7, gamma=0.5, last_epoch=9), initial=2)
for options in [dict(milestones=[5, 20, 33]), dict(milestones=[3, 3, 30], gamma=0.6), dict(milestones=[50], gamma=2)]:
    scheduled('MultiStepLR', options)
for options in [dict(gamma=0.9), dict(gamma=1.01)]:
    scheduled('ExponentialLR', options)
scheduled('ExponentialLR', dict(gamma=0.9, last_epoch=5), initial=1.5)
for options in [{}, dict(factor=0.25, total_iters=20), dict(factor=1, total_iters=0)]:
    scheduled('ConstantLR', options)
for options in [{}, dict(start_factor=0.01, total_iters=30), dict(start_factor=1, end_factor=0.1, total_iters=45)]:
    scheduled('LinearLR', options)
for options in [{}, dict(total_iters=40, power=2), dict(total_iters=59, power=0.5), dict(total_iters=100, power=0.9)]:
    scheduled('PolynomialLR', options)
for options in [dict(T_max=60), dict(T_max=10, eta_min=0.001), dict(T_max=7, eta_min=0.2), dict(T_max=1000)]:
    scheduled('CosineAnnealingLR', options)
scheduled('CosineAnnealingLR', dict(T_max=20, eta_min=0.01, last_epoch=4), initial=1.3)
for options in [dict(T_0=10), dict(T_0=4, T_mult=2, eta_min=0.01), dict(T_0=1, T_mult=3), dict(T_0=100)]:
    scheduled('CosineAnnealingWarmRestarts', options)
for options in [dict(lr_lambda='decay'), dict(lr_lambda=['sawtooth', 'decay'])]:
    scheduled('LambdaLR', options)
    scheduled('MultiplicativeLR', options if options['lr_lambda'] == 'decay' else dict(lr_lambda=['slow', 'decay']))
for options in [
    dict(max_lr=0.1, total_steps=61), dict(max_lr=[0.1, 0.4], epochs=9, steps_per_epoch=7, pct_start=0.2),
    dict(max_lr=0.2, total_steps=100, anneal_strategy='linear', base_momentum=0.7, max_momentum=0.99),
    dict(max_lr=0.2, total_steps=60, three_phase=True, div_factor=10, final_div_factor=50),
    dict(max_lr=0.2, total_steps=80, cycle_momentum=False, pct_start=0.5),
]:
    scheduled('OneCycleLR', options)
scheduled('OneCycleLR', dict(max_lr=0.1, total_steps=70, base_momentum=[0.8, 0.7], max_momentum=0.9), optimizer='Adam')
for options in [
    dict(base_lr=0.01, max_lr=0.1, step_size_up=7), dict(base_lr=[0.01, 0.1], max_lr=0.3, step_size_up=5,
                                                         step_size_down=9, mode='triangular2'),
    dict(base_lr=0.01, max_lr=0.1, step_size_up=6, mode='exp_range', gamma=0.97, base_momentum=0.6, max_momentum=0.95),
    dict(base_lr=0.01, max_lr=0.1, step_size_up=6, scale_fn='shrink'),
    dict(base_lr=0.01, max_lr=0.1, step_size_up=4, scale_fn='inverse', scale_mode='iterations', cycle_momentum=False),
]:
    scheduled('CyclicLR', options)
scheduled('CyclicLR', dict(base_lr=0.01, max_lr=0.1, step_size_up=8), optimizer='AdamW')
for options in [
    dict(patience=3), dict(factor=0.5, patience=0, threshold=0.05, cooldown=4, min_lr=0.001),
    dict(mode='max', factor=0.3, patience=2, threshold=0.1, threshold_mode='abs', min_lr=[0.01, 0.02]),
    dict(patience=1, threshold=0.2, threshold_mode='abs', eps=0.01), dict(mode='max', patience=1, factor=0.7),
]:
    scheduled('ReduceLROnPlateau', options)
warm, cosine = ('LinearLR', dict(start_factor=0.1, total_iters=10)), ('CosineAnnealingLR', dict(T_max=50))
scheduled('SequentialLR', [warm, cosine], dict(milestones=[10]))
scheduled('SequentialLR', [('ConstantLR', dict(total_iters=4)), ('ExponentialLR', dict(gamma=0.9)),
                           ('CosineAnnealingWarmRestarts', dict(T_0=6))], dict(milestones=[7, 25]))
scheduled('SequentialLR', [('LambdaLR', dict(lr_lambda='decay')), ('StepLR', dict(step_size=5)),
                           ('PolynomialLR', dict(total_iters=12)), ('MultiStepLR', dict(milestones=[3, 9]))],
          dict(milestones=[15, 20, 40]))
scheduled('ChainedScheduler', [warm, ('ExponentialLR', dict(gamma=0.95))], {})
scheduled('ChainedScheduler', [('ConstantLR', dict(factor=0.5, total_iters=8)), cosine,
                               ('StepLR', dict(step_size=20))], {})
scheduled('SequentialLR', [('ChainedScheduler', [warm, ('ExponentialLR', dict(gamma=0.95))], {}), cosine],
          dict(milestones=[12]))
scheduled('SequentialLR', [('SequentialLR', [warm, ('ExponentialLR', dict(gamma=0.95))], dict(milestones=[5])),
                           cosine], dict(milestones=[30]))
scheduled('ChainedScheduler', [('SequentialLR', [warm, ('ExponentialLR', dict(gamma=0.95))], dict(milestones=[5])),
                               ('StepLR', dict(step_size=9))], {})
names = [name for name in torch.optim.lr_scheduler.__all__ if name != 'LRScheduler']


def fill(text, indent):
    lines = textwrap.wrap(text, 118, initial_indent=indent, subsequent_indent=indent + '  ', break_on_hyphens=False)
    return '\n'.join(lines) + '\n'


save_file(tensors, os.path.join(here, 'optim_values.safetensors'))
with open(os.path.join(here, 'optim_cases.lua'), 'w') as f:
    title = "-- optim_cases.lua -- made by optim_values.py with PyTorch %s: optimizers and schedulers by their options"
    f.write(title % torch.__version__ + '\nreturn {\n')
    for kind, texts in rows.items():
        f.write('  %s = {\n%s  },\n' % (kind, ''.join(fill(text, '    ') for text in texts)))
    f.write(fill('names = %s,' % lua(names), '  ') + '}\n')
