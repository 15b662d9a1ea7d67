# models_check.py -- state dicts of torchvision's networks, with an input and the outputs, for test_models.lua
#
#   python models_check.py FOLDER     writes NAME.pth and NAME.io.pth for each; exits with 2 without torchvision
import sys

try:
    import torch
    from torchvision import models
except ImportError as error:
    print(error)
    sys.exit(2)

torch.manual_seed(1)
for name in 'resnet18 resnet34 resnet50 mobilenet_v2 vit_b_16'.split():
    net = getattr(models, name)(num_classes=10, **({'image_size': 64} if name == 'vit_b_16' else {}))
    with torch.no_grad():
        for key, p in net.named_parameters():  # initial zeros and ones would hide an exchange
            if p.dim() == 1 or 'heads' in key or 'token' in key:
                p.add_(torch.randn_like(p) * 0.1)
        for key, buffer in net.named_buffers():
            if key.endswith('running_mean'):
                buffer.normal_(0, 0.1)
            elif key.endswith('running_var'):
                buffer.uniform_(0.5, 1.5)
            else:
                buffer.fill_(7)
        x = torch.randn(2, 3, 64, 64)
        torch.save(net.state_dict(), f'{sys.argv[1]}/{name}.pth')
        torch.save({'x': x, 'y': net.eval()(x)}, f'{sys.argv[1]}/{name}.io.pth')
