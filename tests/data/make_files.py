#!/usr/bin/env python3
# make_files.py -- writes tests/data/files/: small files of NumPy, safetensors and PyTorch, which tests/lua read
#
#   python3 tests/data/make_files.py        needs numpy, safetensors, torch
import collections
import gzip
import io
import os
import warnings

import numpy as np
import safetensors.torch
import torch

warnings.simplefilter('ignore')
folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'files')
os.makedirs(folder, exist_ok=True)


def at(name):
    return os.path.join(folder, name)


# ---- NumPy: the numbers 0, 1, .. in each type -----------------------------------------------------
x = np.arange(6).reshape(2, 3)
for name in 'f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8'.split():
    np.save(at(f'{name}.npy'), x.astype(name))
np.save(at('bool.npy'), x % 2 == 1)
np.save(at('big.npy'), x.astype('>f4'))
np.save(at('fortran.npy'), np.asfortranarray(np.arange(24, dtype='i8').reshape(2, 3, 4)))
np.save(at('scalar.npy'), np.float64(2.5))
np.save(at('empty.npy'), np.zeros((0, 3), 'f4'))
np.save(at('large.npy'), np.array([2 ** 64 - 1], 'u8'))
for version in (2, 3):
    with open(at(f'version{version}.npy'), 'wb') as f:
        np.lib.format.write_array(f, x.astype('f4'), version=(version, 0))
np.save(at('objects.npy'), np.array([{}, None], dtype=object), allow_pickle=True)
np.save(at('records.npy'), np.zeros(2, dtype=[('a', 'f4'), ('b', 'i4')]))
np.save(at('complex.npy'), np.zeros(2, 'c8'))
np.save(at('text.npy'), np.array(['a', 'bc']))
data = io.BytesIO()
np.save(data, x.astype('f4'))
with gzip.GzipFile(at('f4.npy.gz'), 'wb', mtime=0) as f:
    f.write(data.getvalue())
np.savez(at('plain.npz'), x=x.astype('f4'), y=np.arange(3), **{'a/b.c': np.float32(7)})
np.savez(at('mixed.npz'), x=np.ones(2), complex=np.zeros(2, 'c8'), text=np.array(['ab', 'c']),
         objects=np.array([{}, 1]), records=np.zeros(2, 'i4,f4'))
np.savez(at('words.npz'), text=np.array(['ab', 'c']))
np.savez_compressed(at('packed.npz'), x=x.astype('f4'), y=np.arange(1000))

# ---- safetensors ----------------------------------------------------------------------------------
tensors = {name: torch.arange(6).reshape(2, 3).to(getattr(torch, name)) for name in
           'float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64'.split()}
tensors['bool'] = torch.tensor([True, False])
tensors['scalar'] = torch.tensor(2.5)
tensors['empty'] = torch.zeros(0, 3)
safetensors.torch.save_file(tensors, at('all.safetensors'), metadata={'format': 'pt', 'note': 'wörld'})
safetensors.torch.save_file({'x': torch.zeros(2).to(torch.float8_e4m3fn)}, at('float8.safetensors'))

# ---- PyTorch --------------------------------------------------------------------------------------
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(2):
    opt.zero_grad()
    net(torch.randn(4, 2)).sum().backward()
    opt.step()
net.eval()
probe = torch.arange(6.).reshape(3, 2)
shared = torch.arange(12.)
whole = {
    'state': net.state_dict(), 'opt': opt.state_dict(), 'probe': probe, 'answer': net(probe).detach(),
    'all': tensors, 'parameter': torch.nn.Parameter(torch.ones(2)), 'wants': torch.ones(1, requires_grad=True),
    'buffer': torch.nn.Buffer(torch.zeros(2)),
    'view': shared[2:8].reshape(2, 3).t(), 'row': shared[2:5], 'same': [shared, shared],
    'list': [1, 2.5, 'three', True, (4, [5])], 'none': None, 'size': torch.Size([2, 3]), 'dtype': torch.float32,
    'device': torch.device('cpu'), 'bytes': b'\0\xff', 'set': {7}, 'big': 2 ** 40, 'huge': 2 ** 80, 'minus': -3,
    'inf': float('inf'), 7: 'seven', (1, 2): 'a pair', 'ordered': collections.OrderedDict(b=1, a=2), 'text': 'é€',
}
torch.save({k: v for k, v in whole.items() if not isinstance(k, tuple)}, at('whole.pt'))
old = {k: v for k, v in whole.items() if not isinstance(k, tuple) and k not in ('all', 'buffer')}
torch.save(old, at('legacy.pt'), _use_new_zipfile_serialization=False)
torch.save(net.state_dict(), at('state.pt'), pickle_protocol=4)
torch.save(torch.arange(3), at('tensor.pt'))
torch.save(net, at('module.pt'))


class Evil:
    def __reduce__(self):
        return os.system, ('touch /tmp/mtorch-was-here',)


torch.save({'x': Evil()}, at('evil.pt'))
