-- attention.lua -- multi-head attention over mt.scaled_dot_product_attention
local core = require 'mtorch.core'
local mt = require 'mtorch'
local class = require 'mtorch.nn.class'
local module = require 'mtorch.nn.module'

local xavier_uniform = module.xavier_uniform

-- ---- masks -------------------------------------------------------------------------------------
-- In modules a bool mask is true where attention is not allowed; in scaled_dot_product_attention it
-- is true where it is allowed. A float mask is added to the scores in both.

local function is_bool(mask) return mask.dtype == 'bool' end
--- Converts a mask to 0 for allowed keys and -inf for others.
local function additive_mask(mask, dtype)
  return is_bool(mask) and mt.zeros({}, {dtype = dtype, device = mask.device}):masked_fill(mask, -math.huge) or mask
end
local function combine_masks(a, b, dtype)
  if not a or not b then return a or b end
  if is_bool(a) and is_bool(b) then return a:logical_or(b) end
  return additive_mask(a, dtype) + additive_mask(b, dtype)
end

--- attn_mask [queries x keys] or [batch * heads x queries x keys], checked, and viewed as [.. x .. x queries x keys].
local function score_mask(self, mask, batch, queries, keys)
  if not mask then return nil end
  local n = mask:dim()
  local fits = mask.shape[n] == keys and mask.shape[n - 1] == queries and
    (n == 2 or n == 3 and mask.shape[1] == batch * self.num_heads)
  if not fits then
    core.fail('%s: attn_mask is %s, expected (%d x %d) or (%d x %d x %d)', self.__name, tostring(mask.shape), queries,
      keys, batch * self.num_heads, queries, keys)
  end
  return n == 2 and mask or mask:reshape(batch, self.num_heads, queries, keys)
end

--- key_padding_mask [batch x keys], checked, and viewed as [batch x 1 x 1 x keys].
local function key_mask(self, mask, batch, keys)
  if not mask then return nil end
  if mask:dim() == 1 and batch == 1 then mask = mask:unsqueeze(1) end
  if mask:dim() ~= 2 or mask.shape[1] ~= batch or mask.shape[2] ~= keys then
    core.fail('%s: key_padding_mask is %s, expected (%d x %d)', self.__name, tostring(mask.shape), batch, keys)
  end
  return mask:view(batch, 1, 1, keys)
end

-- ---- the module --------------------------------------------------------------------------------

--- One product if query, key and value are one tensor, otherwise one for each: [.. x heads x features].
local function projected(self, q, k, v)
  local size, heads = self.embed_dim, self.num_heads
  local weight, bias = self.in_proj_weight, self.in_proj_bias
  local function cut(x, w, b, n) return mt.linear(x, w, b):unflatten(-1, {n, heads, size / heads}) end
  if weight and rawequal(q, k) and rawequal(k, v) then
    local all = cut(q, weight, bias, 3)
    return all:select(-3, 1), all:select(-3, 2), all:select(-3, 3)
  end
  local w = weight and weight:split(size, 1) or {self.q_proj_weight, self.k_proj_weight, self.v_proj_weight}
  local b = bias and bias:split(size, 1) or {}
  return cut(q, w[1], b[1], 1):squeeze(-3), cut(k, w[2], b[2], 1):squeeze(-3), cut(v, w[3], b[3], 1):squeeze(-3)
end

--- The probabilities, [batch x heads x queries x keys], all in memory at once.
local function weights_of(q, k, mask, causal)
  local scores = (q / math.sqrt(q.shape[4])):matmul(k:transpose(3, 4))
  if causal then
    mask = combine_masks(mask, mt.ones({q.shape[3], k.shape[3]}, {dtype = 'bool', device = q.device}):triu(1), q.dtype)
  end
  if not mask then return scores:softmax(-1) end
  scores = is_bool(mask) and scores:masked_fill(mask, -math.huge) or scores + mask
  local nowhere = scores:detach():amax(-1, true):eq(-math.huge) -- all keys are masked: the weights are 0
  return scores:masked_fill(nowhere, 0):softmax(-1):masked_fill(nowhere, 0)
end

--- The inputs as [batch x length x features], checked.
local function batch_first_inputs(self, q, k, v)
  local single = q:dim() == 2
  local sizes = {self.embed_dim, self.kdim or self.embed_dim, self.vdim or self.embed_dim}
  for i, x in ipairs{q, k, v} do
    class.check_dtype(self, x, self.out_proj.weight)
    if x:dim() ~= (single and 2 or 3) or x.shape[x:dim()] ~= sizes[i] then
      core.fail('%s: %s is %s, expected (%s x %d), or (length x %d)', self.__name, ({'query', 'key', 'value'})[i],
        tostring(x.shape), self.batch_first and 'batch x length' or 'length x batch', sizes[i], sizes[i])
    end
  end
  local same, shared = rawequal(q, k) and rawequal(k, v), rawequal(k, v)
  local function turned(x)
    return single and x:unsqueeze(1) or self.batch_first and x or x:transpose(1, 2)
  end
  q = turned(q)
  k = same and q or turned(k)
  return q, k, (same or shared) and k or turned(v), single
end

--- add_bias_kv and add_zero_attn: appends keys that are not inputs; masks do not apply to them.
local function with_more_keys(self, k, v, masks)
  local function append_key(x, bias)
    local shape = x:size()
    shape[3] = 1
    return mt.cat({x, bias and bias:view(1, self.num_heads, 1, -1):expand(shape) or
      mt.zeros(shape, {dtype = x.dtype, device = x.device})}, 3)
  end
  for _, wanted in ipairs{self.add_bias_kv and {self.bias_k, self.bias_v} or false, self.add_zero_attn and {}} do
    if wanted then
      k, v = append_key(k, wanted[1]), append_key(v, wanted[2])
      for i = 1, 2 do masks[i] = masks[i] and masks[i]:pad({0, 1}) end
    end
  end
  return k, v
end

local function forward(self, q, k, v, padding, need_weights, mask, average, causal)
  k = k or q
  v = v or k
  local single
  q, k, v, single = batch_first_inputs(self, q, k, v)
  if k.shape[1] ~= q.shape[1] or v.shape[1] ~= k.shape[1] or v.shape[2] ~= k.shape[2] then
    core.fail('%s: query, key and value are %s, %s and %s as (batch x length x features)', self.__name,
      tostring(q.shape), tostring(k.shape), tostring(v.shape))
  end
  local batch, queries, keys = q.shape[1], q.shape[2], k.shape[2]
  local masks = {score_mask(self, mask, batch, queries, keys), key_mask(self, padding, batch, keys)}
  causal = causal and not masks[1] -- in PyTorch is_causal is a hint that attn_mask is causal
  q, k, v = projected(self, q, k, v)
  q, k, v = q:transpose(2, 3), k:transpose(2, 3), v:transpose(2, 3)
  if self.add_bias_kv or self.add_zero_attn then
    if causal then
      masks[1], causal = mt.ones({queries, keys}, {dtype = 'bool', device = q.device}):triu(1), false
    end
    k, v = with_more_keys(self, k, v, masks)
  end
  mask = combine_masks(masks[1], masks[2], q.dtype)
  local dropped, out, weights = self.training and self.dropout or 0
  if need_weights then
    weights = weights_of(q, k, mask, causal)
    weights = dropped > 0 and mt.dropout(weights, dropped) or weights
    out = weights:matmul(v)
    weights = average and weights:mean(2) or weights
    weights = single and weights:squeeze(1) or weights
  else
    out = mt.scaled_dot_product_attention(q, k, v, mask and is_bool(mask) and mask:logical_not() or mask, dropped,
      causal)
  end
  out = mt.linear(out:transpose(2, 3):flatten(3, 4), self.out_proj.weight, self.out_proj.bias)
  if single then out = out:squeeze(1) elseif not self.batch_first then out = out:transpose(1, 2) end
  if need_weights then return out, weights end
  return out
end

local MultiheadAttention = class.class('MultiheadAttention')
class.options_constructor(MultiheadAttention, 'MultiheadAttention(embed_dim: int >= 1, num_heads: int >= 1, ' ..
  'dropout: number >= 0 <= 1 = 0, bias: bool = true, add_bias_kv: bool = false, add_zero_attn: bool = false, ' ..
  'kdim: int >= 1 = nil, vdim: int >= 1 = nil, batch_first: bool = false)',
  'out[, weights] = mha(q[, k[, v]], {attn_mask=, key_padding_mask=, is_causal=, need_weights=false, ' ..
  'average_attn_weights=true}) over [length x batch x embed_dim], or one sequence. A bool mask is true where ' ..
  'attention is not allowed, a float one is added; key_padding_mask is [batch x keys]. Only with need_weights the ' ..
  'scores of all queries are in memory at once.', {bias = true}, true,
  function(self, o)
    local n, bias = o.embed_dim, o.bias
    core.check(n % self.num_heads == 0,
      'MultiheadAttention: embed_dim, %d, must be a multiple of num_heads, %d', n, self.num_heads)
    if (self.kdim or n) == n and (self.vdim or n) == n then
      self.in_proj_weight = class.Parameter(xavier_uniform(3 * n, n))
    else
      self.q_proj_weight = class.Parameter(xavier_uniform(n, n))
      self.k_proj_weight = class.Parameter(xavier_uniform(n, self.kdim or n))
      self.v_proj_weight = class.Parameter(xavier_uniform(n, self.vdim or n))
    end
    if bias then self.in_proj_bias = class.Parameter(mt.zeros(3 * n)) end
    self.out_proj = mt.nn.Linear(n, n, bias)
    if bias then self.out_proj.bias = class.Parameter(mt.zeros(n)) end
    if self.add_bias_kv then
      local deviation = math.sqrt(2 / (2 * n))
      self.bias_k = class.Parameter(mt.randn(1, 1, n) * deviation)
      self.bias_v = class.Parameter(mt.randn(1, 1, n) * deviation)
    end
  end)
module.bind_forward(MultiheadAttention, 'query: tensor, key: tensor = nil, value: tensor = nil, ' ..
  'key_padding_mask: tensor = nil, need_weights: bool = false, attn_mask: tensor = nil, ' ..
  'average_attn_weights: bool = true, is_causal: bool = false', forward)
MultiheadAttention.extra = class.extra(MultiheadAttention, '{embed_dim}, {num_heads} heads, batch_first')
--- The multiply-adds for net:summary: of the projections of queries, keys, values and results, and
--- of the two products between them.
function MultiheadAttention.__macs(self, q, _, inputs)
  local k = mt.is_tensor(inputs[2]) and inputs[2] or q
  local n, batch = self.embed_dim, q:dim() == 2 and 1 or q:size(self.batch_first and 1 or 2)
  local queries, keys = q:numel() / n, k:numel() / k:size(-1)
  return queries * 2 * n * n + keys * n * ((self.kdim or n) + (self.vdim or n)) + 2 * queries * keys / batch * n
end

return {MultiheadAttention = MultiheadAttention}
