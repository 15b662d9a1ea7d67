# layer_values.py -- PyTorch's values of losses, bags, samples and volumes, for the Lua tests
#
#   python tests/data/layer_values.py > tests/data/layer_values.lua
import textwrap
import torch
import torch.nn.functional as F


def lin(*shape, a=0.37, b=1.0):
    n = torch.Size(shape).numel()
    return torch.sin(torch.arange(1, n + 1, dtype=torch.float64) * a + b).reshape(shape)


def show(name, *tensors):
    """Returns the concatenated numbers of all tensors."""
    numbers = [v for t in tensors for v in t.detach().double().reshape(-1).tolist()]
    text = name.replace('-', '_') + ' = {' + ', '.join('%.9g' % v for v in numbers) + '},'
    print(textwrap.fill(text, 98, initial_indent='  ', subsequent_indent='    '))


def slope(name, f, *inputs):
    """Returns the value of f, and the gradients by the inputs of the sum of f times sin(0, 1, ..)."""
    inputs = [x.clone().requires_grad_() for x in inputs]
    y = f(*inputs)
    show(name, y, *torch.autograd.grad((y * lin(*y.shape, a=1.0, b=0.5)).sum(), inputs))


print('-- layer_values.lua -- made by layer_values.py with PyTorch ' + torch.__version__)
print('return {')
x, y, var = lin(4, 3), lin(4, 3, a=1.1), lin(4, 1, a=0.9).abs()
for r in ['none', 'mean', 'sum']:
    show('gauss_' + r, F.gaussian_nll_loss(x, y, var, full=True, eps=0.3, reduction=r))
    show('poisson_' + r, F.poisson_nll_loss(x, 4 * y.abs(), full=True, reduction=r))
    show('mm_' + r, F.multi_margin_loss(x, torch.tensor([0, 2, 1, 1]), 2, 0.7,
                                        torch.tensor([0.5, 2, 1.5], dtype=torch.float64),
                                        reduction=r))
    many = torch.tensor([[2, 0, -1], [-1, 1, 2], [1, -1, 0], [0, 1, 2]])
    show('mlm_' + r, F.multilabel_margin_loss(x, many, reduction=r))
slope('gauss_slope', lambda x, v: F.gaussian_nll_loss(x, y, v, eps=0.3), x, var)
show('poisson_plain', F.poisson_nll_loss(x.abs(), y.abs(), log_input=False))
p, spelled = lin(6, 3, 4, a=1.7).log_softmax(2), torch.tensor([[1, 1, 3], [2, 1, 3], [3, 3, 3]])
for blank in [0, 2]:
    for r in ['none', 'mean', 'sum']:
        slope('ctc_%s_%d' % (r, blank), lambda x: F.ctc_loss(
            x, torch.where(spelled == blank, 0, spelled), (6, 4, 5), (2, 3, 0), blank=blank, reduction=r), p)
slope('ctc_never', lambda x: F.ctc_loss(x, spelled, (6, 4, 3), (2, 3, 3), reduction='none',
                                        zero_infinity=True), p)
ids, table, weights = torch.tensor([1, 3, 0, 0, 2, 3, 3]), lin(4, 2), lin(7, a=0.8)
offsets = torch.tensor([0, 3, 3, 5])
for mode in ['sum', 'mean', 'max']:
    slope('bag_' + mode, lambda t: F.embedding_bag(ids, t, offsets, mode=mode), table)
    slope('bagp_' + mode, lambda t: F.embedding_bag(ids, t, offsets, mode=mode, padding_idx=3), table)
slope('bagw', lambda t, w: F.embedding_bag(ids, t, offsets, mode='sum', per_sample_weights=w), table,
      weights)
show('bag2', F.embedding_bag(ids[:6].reshape(2, 3), table))
show('gqa', F.scaled_dot_product_attention(lin(1, 4, 3, 2), lin(1, 2, 5, 2, a=0.9), lin(
    1, 2, 5, 2, a=1.7), enable_gqa=True))
im, vol = lin(1, 2, 5, 6), lin(1, 2, 4, 5, 3)
show('pu', F.pixel_unshuffle(im[:, :, :4], 2))
show('cs', F.channel_shuffle(lin(1, 6, 2), 3))
for out in [(3, 4), (2, 2), (7, 1)]:
    show('am_%d%d' % out, *F.adaptive_max_pool2d(im, out, True))
show('am1', *F.adaptive_max_pool1d(im[0], 4, True))
pooled, where = F.max_pool2d(im, 2, return_indices=True)
show('unpool', F.max_unpool2d(pooled, where, 2, output_size=(5, 6)))
for mode in ['nearest-exact', 'area']:
    show('in2_' + mode, F.interpolate(im, size=(3, 8), mode=mode))
    show('in3_' + mode, F.interpolate(vol, scale_factor=(1.5, 0.7, 2), mode=mode))
show('in3_tri', F.interpolate(vol, size=(3, 7, 2), mode='trilinear'))
show('in3_tric', F.interpolate(vol, size=(3, 7, 2), mode='trilinear', align_corners=True))
grid = lin(1, 3, 4, 2, a=1.3) * 1.6
grid3 = lin(1, 2, 2, 3, 3, a=1.3) * 1.6
for mode in ['bilinear', 'nearest', 'bicubic']:
    for beyond in ['zeros', 'border', 'reflection']:
        for corners in [False, True]:
            slope('gs_%s_%s_%d' % (mode, beyond, corners),
                  lambda x, g: F.grid_sample(x, g, mode, beyond, corners), im[:, :1], grid)
    slope('gs3_' + mode, lambda x, g: F.grid_sample(x, g, mode, 'reflection', False), vol, grid3)
for corners in [False, True]:
    show('ag_%d' % corners, F.affine_grid(lin(2, 2, 3), (2, 1, 3, 2), corners))
    show('ag3_%d' % corners, F.affine_grid(lin(1, 3, 4), (1, 1, 3, 2, 1), corners))
w3 = lin(4, 1, 2, 3, 2)
slope('c3', lambda x, w, b: F.conv3d(x, w, b, (1, 2, 1), (1, 2, 0), (2, 1, 1), 2), vol, w3, lin(4))
show('c3s', F.conv3d(vol, lin(1, 2, 2, 3, 4), padding='same'))
slope('ct3', lambda x, w, b: F.conv_transpose3d(x, w, b, (2, 1, 2), (1, 0, 1), (1, 0, 0), 2,
                                                (2, 1, 1)), vol, lin(2, 2, 2, 1, 3), lin(4))
show('mp3', *F.max_pool3d(vol, (2, 3, 2), (1, 2, 2), (1, 1, 0), 1, True, return_indices=True))
show('mp3d', *F.max_pool3d(vol, 2, 1, 0, (2, 3, 1), return_indices=True))
show('ap3', F.avg_pool3d(vol, (2, 3, 2), 2, (1, 1, 0), True, False))
show('ap3i', F.avg_pool3d(vol, (2, 3, 2), 2, (1, 1, 0), True))
show('ap3d', F.avg_pool3d(vol, 2, divisor_override=3))
show('ad3', F.adaptive_avg_pool3d(vol, (3, 2, None)))
print('}')
