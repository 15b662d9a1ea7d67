#!/usr/bin/env python3
# check_files.py -- checks that NumPy, safetensors and PyTorch read files of mtorch, and mtorch theirs
#
#   python3 tests/data/check_files.py build/mtorch        needs numpy, safetensors, torch; prints a line for each file
import os
import subprocess
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch

mtorch = os.path.abspath(sys.argv[1])
os.chdir(tempfile.mkdtemp())

ours = r'''
local mt = require 'mtorch'
local nn = mt.nn
local all = {x = mt.range(0, 23):reshape(2, 3, 4):permute(3, 1, 2), none = mt.zeros(0, 3), scalar = mt.tensor(2.5)}
for _, dtype in ipairs{'float32', 'float64', 'float16', 'int64', 'int32', 'int16', 'int8', 'uint8', 'bool'} do
  all[dtype] = mt.tensor{{1, 0, 1}, {0, 1, 1}}:to(dtype)
end
mt.data.save_npz('ours.npz', all)
for name, x in pairs(all) do mt.data.save_npy(name .. '.npy', x) end
all.bfloat16 = all.float32:bfloat16()
mt.data.save_safetensors('ours.safetensors', all, {metadata = {note = 'wörld'}})
mt.manual_seed(1)
local net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
mt.save('net.safetensors', net:state_dict())
mt.checkpoint.save('checkpoint', {model = net, step = 3, again = net:state_dict()})
mt.data.save_npy('answer.npy', net(mt.ones(1, 3)):detach())
'''
subprocess.run([mtorch, '-e', ours], check=True)
x = np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1)
small = np.array([[1, 0, 1], [0, 1, 1]])


def check(name, arrays):
    for key, value in arrays.items():
        want = x if key == 'x' else np.zeros((0, 3)) if key == 'none' else 2.5 if key == 'scalar' else small
        value = np.asarray(value.float() if str(value.dtype) == 'torch.bfloat16' else value)
        assert value.shape == np.shape(want) and (value == want).all(), (name, key)
        assert key in ('x', 'none', 'scalar', 'bfloat16') or str(value.dtype) == key, (name, key, value.dtype)
    print('ok', name, len(arrays), 'arrays')


npz = np.load('ours.npz')
check('ours.npz', {key: npz[key] for key in npz})
check('ours.npy', {key: np.load(key + '.npy') for key in npz})
check('ours.safetensors', safetensors.torch.load_file('ours.safetensors'))
with safetensors.safe_open('ours.safetensors', 'pt') as f:
    assert f.metadata() == {'note': 'wörld'}
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
net.load_state_dict(safetensors.torch.load_file('net.safetensors'))
answer = torch.from_numpy(np.load('answer.npy'))
assert torch.allclose(net(torch.ones(1, 3)), answer)
saved = safetensors.torch.load_file('checkpoint')
state = {name[6:]: t for name, t in saved.items() if name.startswith('again.')}
net.load_state_dict(state)
assert torch.allclose(net(torch.ones(1, 3)), answer)
print('ok networks of mt.save and mt.checkpoint')

# Random networks and arrays of PyTorch and NumPy, read by mtorch and written again.
torch.manual_seed(1)
theirs = {'a': torch.randn(5, 3).t(), 'b': [torch.arange(4), {'c': torch.randn(2).bfloat16()}]}
torch.save(theirs, 'theirs.pt')
torch.save(theirs, 'old.pt', _use_new_zipfile_serialization=False)
safetensors.torch.save_file({'a': torch.randn(5, 3), 'h': torch.randn(7).half()}, 'theirs.safetensors')
np.savez_compressed('theirs.npz', a=np.random.randn(4, 5).T, b=np.arange(3, dtype='>i2'))
again = r'''
local mt = require 'mtorch'
for _, name in ipairs{'theirs.pt', 'old.pt', 'theirs.safetensors', 'theirs.npz'} do
  mt.save(name .. '.again', mt.load(name))
end
'''
subprocess.run([mtorch, '-e', again], check=True)
for name in ('theirs.pt', 'old.pt'):
    back = safetensors.torch.load_file(name + '.again')
    assert torch.equal(back['a'], theirs['a']) and torch.equal(back['b.1'], theirs['b'][0])
    assert torch.equal(back['b.2.c'], theirs['b'][1]['c'])
first, back = safetensors.torch.load_file('theirs.safetensors'), safetensors.torch.load_file('theirs.safetensors.again')
assert all(torch.equal(first[key], back[key]) for key in first)
first, back = np.load('theirs.npz'), safetensors.torch.load_file('theirs.npz.again')
assert all((first[key] == back[key].numpy()).all() for key in first)
print('ok what PyTorch, safetensors and NumPy wrote')
