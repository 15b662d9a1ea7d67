-- embedding.lua -- embedding tables
local core = require 'mtorch.core'
local mt = require 'mtorch'
local row_gradients = require 'mtorch.core.row_gradients'
local module = require 'mtorch.nn.module'

--- The row padding_idx, which counts from 1 or from the end.
local function padding_row(name, o)
  local row = o.padding_idx
  if row == nil then return nil end
  core.check(row ~= 0 and math.abs(row) <= o.num_embeddings,
    '%s: padding_idx is %d, expected 1..%d (or from the end -1..-%d)', name, row, o.num_embeddings, o.num_embeddings)
  return row < 0 and o.num_embeddings + 1 + row or row
end

--- The given table, or a random one: normal, with zeros at the padding.
local function table_of(name, o)
  local row, weight = padding_row(name, o), o._weight
  core.check(not o.scale_grad_by_freq or o.mode ~= 'max',
    "EmbeddingBag: scale_grad_by_freq is for the modes 'mean' and 'sum', not 'max'")
  if weight then
    core.check(weight:dim() == 2 and weight:size(1) == o.num_embeddings and weight:size(2) == o.embedding_dim,
      '%s: _weight is %s, expected (%d, %d)', name, weight.shape, o.num_embeddings, o.embedding_dim)
    return weight
  end
  weight = mt.randn(o.num_embeddings, o.embedding_dim)
  if row then weight[row] = 0 end
  return weight
end

--- The table for a call: rows with a norm over max_norm are scaled down first, in place.
local function looked_up(self, ids)
  local weight, max_norm = self.__params.weight, self.max_norm
  if max_norm ~= nil and mt.is_tensor(ids) and ids:numel() > 0 then
    mt.no_grad(function()
      local rows = ids:flatten():unique()
      weight:index_copy_(1, rows, mt.embedding(rows, weight):renorm(self.norm_type, 1, max_norm))
    end)
  end
  return weight
end

--- The table, ids and padding for a call. With sparse=true the table has only the rows that the ids use, and its
--- gradient becomes a sparse one of the weight. With scale_grad_by_freq=true the gradient of each row is divided by the
--- number of its ids.
local function table_for(self, ids)
  local weight, padding = looked_up(self, ids), self.padding_idx
  if not (mt.is_tensor(ids) and ids:numel() > 0 and weight.requires_grad and mt.is_grad_enabled()) then
    return weight, ids, padding
  end
  local used, at = weight, ids
  if self.sparse then
    local rows, places = ids:flatten():unique{return_inverse = true}
    used, at = mt.no_grad(mt.embedding, rows, weight):requires_grad_():view(#rows, -1), places:view_as(ids)
    used:register_hook(function(g) row_gradients.add(weight, rows, g) end)
    if padding then
      local place = rows:eq(padding_row(self.mode and 'EmbeddingBag' or 'Embedding', self)):nonzero()
      padding = place:size(1) > 0 and place[1][1]:item() or nil
    end
  end
  if self.scale_grad_by_freq then
    used = used:view_as(used)
    used:register_hook(function(g) return g / at:flatten():bincount(nil, #g):clamp(1):unsqueeze(2) end)
  end
  return used, at, padding
end

local extra = '{num_embeddings} -> {embedding_dim}, padding_idx, max_norm, norm_type, scale_grad_by_freq, mode, ' ..
  'include_last_offset'

local embedding = {}

--- A class of tables with these options, and its function from_pretrained.
local function define(name, options, doc, forward)
  local made = module.define{
    ('%s(num_embeddings: int >= 1, embedding_dim: int >= 1, %s)'):format(name, options), doc,
    parameters = {'weight'},
    init = function(o) return table_of(name, o) end,
    forward = forward,
    extra = extra,
    macs = function() return 0 end,
  }
  local params
  made.from_pretrained = core.declare(('from_pretrained(embeddings: tensor, freeze: bool = true, %s)'):format(
    (options:gsub(',? ?_weight: tensor = nil', ''))),
    'The module with this table [entries x features], which is not trained unless freeze=false.',
    function(embeddings, freeze, ...)
      core.check(embeddings:dim() == 2,
        'from_pretrained: embeddings are %s; expected (entries x features)', embeddings.shape)
      local given = {num_embeddings = embeddings:size(1), embedding_dim = embeddings:size(2), _weight = embeddings}
      for i = 3, #params do given[params[i].name] = (select(i - 2, ...)) end
      local self = made(given)
      self.weight:requires_grad_(not freeze)
      return self
    end)
  params, embedding[name] = core.parameters(made.from_pretrained), made
end

define('Embedding', 'padding_idx: int = nil, max_norm: number >= 0 = nil, norm_type: number > 0 = 2, ' ..
  'scale_grad_by_freq: bool = false, sparse: bool = false, _weight: tensor = nil',
  'Rows of weight [num_embeddings x embedding_dim] by ids, which count from 1. weight is normal; the row ' ..
  'padding_idx is zero and gets no gradient. max_norm: used rows are scaled down to this norm, in place. ' ..
  'scale_grad_by_freq: the gradient of a row is divided by the number of its ids in the call. sparse: the gradient ' ..
  'is kept for the used rows alone, beside weight.grad, for steps of SGD, Adagrad and SparseAdam, which change only ' ..
  'those rows.',
  function(self, ids)
    local weight, at, padding = table_for(self, ids)
    return mt.embedding(at, weight, padding)
  end)

local bag = core.binder 'EmbeddingBag(ids: tensor, offsets: tensor = nil, per_sample_weights: tensor = nil)'

define('EmbeddingBag', "max_norm: number >= 0 = nil, norm_type: number > 0 = 2, scale_grad_by_freq: bool = false, " ..
  "mode: 'mean'|'sum'|'max' = 'mean', sparse: bool = false, _weight: tensor = nil, " ..
  'include_last_offset: bool = false, padding_idx: int = nil',
  'Sums, means or maxima of rows over bags of ids; called with (ids, offsets=nil, per_sample_weights=nil). See ' ..
  'mt.embedding_bag and nn.Embedding.',
  function(self, ids, offsets, per_sample_weights)
    if type(offsets) == 'table' then ids, offsets, per_sample_weights = bag(ids, offsets) end
    local weight, at, padding = table_for(self, ids)
    return mt.embedding_bag(at, weight, offsets, self.mode, per_sample_weights, self.include_last_offset, padding)
  end)

return embedding
