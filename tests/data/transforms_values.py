# transforms_values.py -- torchvision's results for test_transforms.lua
#
#   python3 tests/data/transforms_values.py     writes transforms_values.safetensors beside it
import os

import torch
import torchvision
from safetensors.torch import save_file
from torchvision.transforms import InterpolationMode as M
from torchvision.transforms import functional as F
from torchvision.transforms import transforms as T

nearest, bilinear = M.NEAREST, M.BILINEAR


def image(channels, height, width):
    """The image of test_transforms.lua: (37 k) mod 256 at element k."""
    return ((torch.arange(channels * height * width) * 37) % 256).to(torch.uint8).reshape(channels, height, width)


cases = {}


def case(name, fn, byte=True):
    x = image(3, 6, 7)
    cases[name] = fn(x.float() / 255)
    if byte:
        cases[name + ' uint8'] = fn(x)


case('ToTensor', lambda x: x if x.is_floating_point() else x.float() / 255)
case('Normalize', T.Normalize([0.1, 0.2, 0.3], [0.5, 0.6, 0.7]), byte=False)
case('Grayscale', T.Grayscale())
case('Grayscale 3', T.Grayscale(3))
case('CenterCrop 3 4', T.CenterCrop([3, 4]))
case('CenterCrop 9 4', T.CenterCrop([9, 4]))
case('Pad 1', T.Pad(1, fill=7))
case('Pad 1 2 edge', T.Pad([1, 2], padding_mode='edge'))
case('Pad 1 2 3 0 reflect', T.Pad([1, 2, 3, 0], padding_mode='reflect'))
case('Pad 2 1 symmetric', T.Pad([2, 1], padding_mode='symmetric'))
for antialias in (True, False):
    for size in ([3, 4], [9, 11], [4, 10]):
        case(f'Resize {size[0]} {size[1]} {str(antialias).lower()}', T.Resize(size, antialias=antialias))
case('Resize 4', T.Resize(4))
case('Resize 4 max 4', T.Resize(3, max_size=4))
case('Resize nearest', T.Resize([4, 9], interpolation=nearest))
case('flip h', F.hflip)
case('flip v', F.vflip)
for name, mode in (('nearest', nearest), ('bilinear', bilinear)):
    case(f'rotate 30 {name}', lambda x: F.rotate(x, 30, interpolation=mode, fill=[0]))
    case(f'rotate -50 fill {name}',
         lambda x: F.rotate(x, -50, interpolation=mode, fill=[0.5 if x.is_floating_point() else 9]))
    case(f'rotate expand {name}', lambda x: F.rotate(x, 75, interpolation=mode, expand=True, fill=[0]))
    case(f'rotate center {name}', lambda x: F.rotate(x, 20, interpolation=mode, center=[1, 2], fill=[0]))
    case(f'affine {name}', lambda x: F.affine(x, 15, [1, -2], 1.3, [5.0, 0.0], interpolation=mode, fill=[0]))
    case(f'affine center {name}',
         lambda x: F.affine(x, -25, [0, 1], 0.8, [3.0, 9.0], interpolation=mode, center=[2, 2], fill=[0]))
for factor in (0.4, 1.7):
    case(f'brightness {factor}', lambda x: F.adjust_brightness(x, factor))
    case(f'contrast {factor}', lambda x: F.adjust_contrast(x, factor))
    case(f'saturation {factor}', lambda x: F.adjust_saturation(x, factor))
case('hue 0.2', lambda x: F.adjust_hue(x, 0.2))
case('hue -0.35', lambda x: F.adjust_hue(x, -0.35))
case('blur', lambda x: F.gaussian_blur(x, [5, 3], [0.8, 0.8]))

save_file({name: x.contiguous().clone() for name, x in cases.items()}, os.path.splitext(__file__)[0] + '.safetensors',
          {'torchvision': torchvision.__version__})
