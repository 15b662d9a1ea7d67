# neural_values.py -- PyTorch's values of convolutions, pools, losses and layers, for the Lua tests
#
#   python tests/data/neural_values.py > tests/data/neural_values.lua
import textwrap
import torch
import torch.nn.functional as F
def lin(*s, a=0.37, b=1.0):
    n=1
    for v in s: n*=v
    return torch.sin(torch.arange(1,n+1,dtype=torch.float64)*a+b).reshape(s)
def show(n,t):
    if isinstance(t,tuple): t=t[0]
    text = n + ' = {' + ', '.join('%.9g' % v for v in t.detach().reshape(-1).tolist()) + '},'
    print(textwrap.fill(text, 98, initial_indent='  ', subsequent_indent='    '))
print("-- neural_values.lua -- made by neural_values.py with PyTorch " + torch.__version__)
print('return {')
x=lin(2,3,4); tgt=torch.tensor([[0,1,-100,2],[2,2,0,1]]); w=torch.tensor([0.5,2.0,1.5],dtype=torch.float64)
for r in ['none','mean','sum']: show('ce_'+r,F.cross_entropy(x,tgt,reduction=r))
for r in ['none','mean','sum']: show('cew_'+r,F.cross_entropy(x,tgt,weight=w,label_smoothing=0.2,reduction=r))
p=F.softmax(lin(2,3,4,a=1.3),1)
for r in ['none','mean','sum']: show('cep_'+r,F.cross_entropy(x,p,weight=w,label_smoothing=0.1,reduction=r))
show('ce1',F.cross_entropy(x[0,:,0],torch.tensor(1)))
show('nll',F.nll_loss(F.log_softmax(x,1),tgt,weight=w))
a=lin(6)*2; b=lin(6,a=1.1)*2
show('sl1',F.smooth_l1_loss(a,b,beta=0.7,reduction='none')); show('huber',F.huber_loss(a,b,delta=0.7,reduction='none'))
show('l1',F.l1_loss(a,b))
pr=torch.sigmoid(a); t=torch.sigmoid(b); 
show('bce',F.binary_cross_entropy(pr,t,weight=t+1,reduction='none'))
show('bcel',F.binary_cross_entropy_with_logits(a,t,weight=t+1,pos_weight=t*2,reduction='none'))
q=F.log_softmax(lin(2,3),1); pp=F.softmax(lin(2,3,a=1.3),1)
show('kl',F.kl_div(q,pp,reduction='batchmean')); show('kll',F.kl_div(q,pp.log(),reduction='sum',log_target=True))
y=lin(2,3,a=1.3)
show('cos',F.cosine_similarity(lin(2,3),y,dim=1)); show('pd',F.pairwise_distance(lin(2,3),y,p=3))
show('norm1',F.normalize(lin(2,3),p=1,dim=0)); show('norm3',F.normalize(lin(2,3),p=3,dim=1)); show('norminf',F.normalize(lin(2,3),p=float('inf'),dim=1))
show('ln',F.layer_norm(lin(2,3),[3],w,w+1)); show('rms',F.rms_norm(lin(2,3),[3],w))
rm=torch.zeros(3,dtype=torch.float64); rv=torch.ones(3,dtype=torch.float64)
z=lin(2,3,2)
show('bn',F.batch_norm(z,rm,rv,w,w+1,True,0.3)); show('rm',rm); show('rv',rv)
show('bne',F.batch_norm(z,rm,rv,w,w+1,False))
show('gn',F.group_norm(lin(2,4,2),2,lin(4),lin(4)+1)); 
rm=torch.zeros(3,dtype=torch.float64); rv=torch.ones(3,dtype=torch.float64)
show('inn',F.instance_norm(z,rm,rv,w,w+1,True,0.3)); show('irm',rm); show('irv',rv)
Q,K,V=lin(1,3,2),lin(1,4,2,a=.9),lin(1,4,2,a=1.7)
m=torch.tensor([[True,False,True,True],[False,False,False,False],[True,True,False,False]])
show('att',F.scaled_dot_product_attention(Q,K,V)); show('attm',F.scaled_dot_product_attention(Q,K,V,attn_mask=m))
show('attc',F.scaled_dot_product_attention(Q,K,V,is_causal=True,scale=0.3)); show('attf',F.scaled_dot_product_attention(Q,K,V,attn_mask=lin(3,4)))
show('glu',F.glu(lin(2,4))); show('bil',F.bilinear(lin(2,3),lin(2,2),lin(2,3,2),lin(2)))
show('tri',F.triplet_margin_loss(lin(2,3),y,lin(2,3,a=.8),swap=True)); show('mr',F.margin_ranking_loss(a,b,torch.tensor([1.,-1,1,-1,1,1],dtype=torch.float64),0.2))
show('he',F.hinge_embedding_loss(a,torch.tensor([1.,-1,1,-1,1,1],dtype=torch.float64))); show('ces',F.cosine_embedding_loss(lin(2,3),y,torch.tensor([1.,-1]),0.1))
im=lin(1,2,5,6)
show('mp',F.max_pool2d(im,3,2,1,1,True)); show('mpi',F.max_pool2d(im,3,2,1,1,True,return_indices=True)[1]+1)
show('ap',F.avg_pool2d(im,(3,2),2,1,True,False)); show('ap2',F.avg_pool2d(im,3,2,1,True,True)); show('ap3',F.avg_pool2d(im,2,divisor_override=3))
show('ad',F.adaptive_avg_pool2d(im,(3,4))); show('ad1',F.adaptive_avg_pool2d(im,1)); show('ap1',F.avg_pool1d(im[0],3,2,1)); show('mp1',F.max_pool1d(im[0],2,2,1,2))
show('near',F.interpolate(im[:,:1,:2,:3],size=(3,5))); show('near2',F.interpolate(im[:,:1,:2,:3],scale_factor=1.7))
show('bl',F.interpolate(im[:,:1,:2,:3],size=(3,5),mode='bilinear')); show('blc',F.interpolate(im[:,:1,:2,:3],size=(3,5),mode='bilinear',align_corners=True)); show('bls',F.interpolate(im[:,:1,:2,:3],scale_factor=1.7,mode='bilinear'))
show('bc',F.interpolate(im[:,:1,:2,:3],size=(3,5),mode='bicubic')); show('li',F.interpolate(im[0,:,:1,:3].reshape(1,2,3),size=5,mode='linear'))
show('uf',F.unfold(im[:,:,:3,:3],2,1,1,2)); show('fo',F.fold(lin(1,8,4),(4,3),2,1,0,(2,1)))
show('ps',F.pixel_shuffle(lin(1,4,1,2),2))
c=F.conv2d(im,lin(4,1,2,3),lin(4),2,(1,2),1,2); show('c2',c)
show('ct',F.conv_transpose2d(im[:,:,:2,:2],lin(2,2,2,2),lin(2),(2,1),(1,0),(1,0)))
show('cs',F.conv1d(im[0,:,:1].reshape(1,2,6),lin(1,2,4),padding='same',dilation=1))
print('}')
