# function_values.py -- PyTorch's values of convolutions, pools, losses, norms, bags, samples, for the Lua tests
#
#   python tests/data/function_values.py     writes function_values.safetensors beside it
import os
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

values = {}


def lin(*shape, a=0.37, b=1.0):
    n = torch.Size(shape).numel()
    return torch.sin(torch.arange(1, n + 1, dtype=torch.float64) * a + b).reshape(shape)


def show(name, *tensors):
    """Saves the concatenated numbers of all tensors."""
    values[name.replace('-', '_')] = torch.cat([t.detach().double().reshape(-1) for t in tensors])


def slope(name, f, *inputs):
    """Saves the value of f, and the gradients by the inputs of the sum of f times sin(0, 1, ..)."""
    inputs = [x.clone().requires_grad_() for x in inputs]
    y = f(*inputs)
    show(name, y, *torch.autograd.grad((y * lin(*y.shape, a=1.0, b=0.5)).sum(), inputs))


# ---- functions of test_neural.lua and test_conv.lua ----
x=lin(2,3,4); tgt=torch.tensor([[0,1,-100,2],[2,2,0,1]]); w=torch.tensor([0.5,2.0,1.5],dtype=torch.float64)
for r in ['none','mean','sum']: show('ce_'+r,F.cross_entropy(x,tgt,reduction=r))
for r in ['none','mean','sum']: show('cew_'+r,F.cross_entropy(x,tgt,weight=w,label_smoothing=0.2,reduction=r))
p=F.softmax(lin(2,3,4,a=1.3),1)
for r in ['none','mean','sum']: show('cep_'+r,F.cross_entropy(x,p,weight=w,label_smoothing=0.1,reduction=r))
show('ce1',F.cross_entropy(x[0,:,0],torch.tensor(1)))
show('nll',F.nll_loss(F.log_softmax(x,1),tgt,weight=w))
a=lin(6)*2; b=lin(6,a=1.1)*2
show('sl1',F.smooth_l1_loss(a,b,beta=0.7,reduction='none'))
show('huber',F.huber_loss(a,b,delta=0.7,reduction='none'))
show('l1',F.l1_loss(a,b))
pr=torch.sigmoid(a); t=torch.sigmoid(b); 
show('bce',F.binary_cross_entropy(pr,t,weight=t+1,reduction='none'))
show('bcel',F.binary_cross_entropy_with_logits(a,t,weight=t+1,pos_weight=t*2,reduction='none'))
q=F.log_softmax(lin(2,3),1); pp=F.softmax(lin(2,3,a=1.3),1)
show('kl',F.kl_div(q,pp,reduction='batchmean'))
show('kll',F.kl_div(q,pp.log(),reduction='sum',log_target=True))
y=lin(2,3,a=1.3)
show('cos',F.cosine_similarity(lin(2,3),y,dim=1))
show('pd',F.pairwise_distance(lin(2,3),y,p=3))
show('norm1',F.normalize(lin(2,3),p=1,dim=0))
show('norm3',F.normalize(lin(2,3),p=3,dim=1))
show('norminf',F.normalize(lin(2,3),p=float('inf'),dim=1))
show('ln',F.layer_norm(lin(2,3),[3],w,w+1))
show('rms',F.rms_norm(lin(2,3),[3],w))
rm=torch.zeros(3,dtype=torch.float64); rv=torch.ones(3,dtype=torch.float64)
z=lin(2,3,2)
show('bn',F.batch_norm(z,rm,rv,w,w+1,True,0.3))
show('rm',rm)
show('rv',rv)
show('bne',F.batch_norm(z,rm,rv,w,w+1,False))
show('gn',F.group_norm(lin(2,4,2),2,lin(4),lin(4)+1)); 
rm=torch.zeros(3,dtype=torch.float64); rv=torch.ones(3,dtype=torch.float64)
show('inn',F.instance_norm(z,rm,rv,w,w+1,True,0.3))
show('irm',rm)
show('irv',rv)
Q,K,V=lin(1,3,2),lin(1,4,2,a=.9),lin(1,4,2,a=1.7)
m=torch.tensor([[True,False,True,True],[False,False,False,False],[True,True,False,False]])
show('att',F.scaled_dot_product_attention(Q,K,V))
show('attm',F.scaled_dot_product_attention(Q,K,V,attn_mask=m))
show('attc',F.scaled_dot_product_attention(Q,K,V,is_causal=True,scale=0.3))
show('attf',F.scaled_dot_product_attention(Q,K,V,attn_mask=lin(3,4)))
show('glu',F.glu(lin(2,4)))
show('bil',F.bilinear(lin(2,3),lin(2,2),lin(2,3,2),lin(2)))
show('tri',F.triplet_margin_loss(lin(2,3),y,lin(2,3,a=.8),swap=True))
show('mr',F.margin_ranking_loss(a,b,torch.tensor([1.,-1,1,-1,1,1],dtype=torch.float64),0.2))
show('he',F.hinge_embedding_loss(a,torch.tensor([1.,-1,1,-1,1,1],dtype=torch.float64)))
show('ces',F.cosine_embedding_loss(lin(2,3),y,torch.tensor([1.,-1]),0.1))
im=lin(1,2,5,6)
show('mp',F.max_pool2d(im,3,2,1,1,True))
show('mpi',F.max_pool2d(im,3,2,1,1,True,return_indices=True)[1]+1)
show('ap',F.avg_pool2d(im,(3,2),2,1,True,False))
show('ap2',F.avg_pool2d(im,3,2,1,True,True))
show('ap_divisor',F.avg_pool2d(im,2,divisor_override=3))
show('ad',F.adaptive_avg_pool2d(im,(3,4)))
show('ad1',F.adaptive_avg_pool2d(im,1))
show('ap1',F.avg_pool1d(im[0],3,2,1))
show('mp1',F.max_pool1d(im[0],2,2,1,2))
show('near',F.interpolate(im[:,:1,:2,:3],size=(3,5)))
show('near2',F.interpolate(im[:,:1,:2,:3],scale_factor=1.7))
show('bl',F.interpolate(im[:,:1,:2,:3],size=(3,5),mode='bilinear'))
show('blc',F.interpolate(im[:,:1,:2,:3],size=(3,5),mode='bilinear',align_corners=True))
show('bls',F.interpolate(im[:,:1,:2,:3],scale_factor=1.7,mode='bilinear'))
show('bc',F.interpolate(im[:,:1,:2,:3],size=(3,5),mode='bicubic'))
show('li',F.interpolate(im[0,:,:1,:3].reshape(1,2,3),size=5,mode='linear'))
show('uf',F.unfold(im[:,:,:3,:3],2,1,1,2))
show('fo',F.fold(lin(1,8,4),(4,3),2,1,0,(2,1)))
show('ps',F.pixel_shuffle(lin(1,4,1,2),2))
c=F.conv2d(im,lin(4,1,2,3),lin(4),2,(1,2),1,2)
show('c2',c)
show('ct',F.conv_transpose2d(im[:,:,:2,:2],lin(2,2,2,2),lin(2),(2,1),(1,0),(1,0)))
show('c1_same',F.conv1d(im[0,:,:1].reshape(1,2,6),lin(1,2,4),padding='same',dilation=1))

# ---- functions of torch_values.lua ----
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
for out in [(3, 4), (2, 2), (7, 1)]:
    show('am_%d%d' % out, *F.adaptive_max_pool2d(im, out, True))
show('am1', *F.adaptive_max_pool1d(im[0], 4, True))
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
save_file(values, os.path.splitext(__file__)[0] + '.safetensors', {'torch': torch.__version__})
