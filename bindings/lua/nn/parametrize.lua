-- parametrize.lua -- parameters computed from others at every access: weight and spectral normalisation
local core = require 'mtorch.core'
local mt = require 'mtorch'
local class = require 'mtorch.nn.class'

local parametrize = {}

--- The module that computes a parameter: the rule at [1], and the originals under PyTorch's names.
local ParametrizationList = class.class('ParametrizationList')
function ParametrizationList:forward()
  local params = rawget(self, '__params')
  if params.original ~= nil then return self[1]:forward(params.original) end
  return self[1]:forward(params.original0, params.original1)
end

function ParametrizationList.__macs() return 0 end

local Parametrizations = class.class('Parametrizations')

local function unregister(module, key)
  local fields = rawget(module, '__fields')
  for i = #fields, 1, -1 do
    if fields[i] == key then table.remove(fields, i) end
  end
  rawget(module, '__seen')[key], rawget(module, '__params')[key] = nil, nil
  rawset(module, key, nil)
end

--- The parameter of the module that will be computed.
local function parameter_of(op, module, name)
  class.check_module(op, module)
  local params = rawget(module, '__params')
  if rawget(params, '__computed') and rawget(params.__computed, name) then
    core.fail("%s: %s.%s is computed already; nn.remove_parametrizations(net, '%s') first", op, module.__name, name,
      name)
  end
  local weight = rawget(params, name)
  core.check(weight ~= nil and class.registry[weight] == 'parameter',
    "%s: %s has no parameter '%s' of its own", op, module.__name, name)
  return weight
end

--- Replaces the parameter by the rule's forward of the originals, {original = tensor, ..}.
local function register(module, name, rule, originals)
  local params = rawget(module, '__params')
  local list = ParametrizationList()
  for _, key in ipairs{'original', 'original0', 'original1'} do
    if originals[key] then list[key] = class.Parameter(originals[key], params[name].requires_grad) end
  end
  list[1] = rule
  list:train(module.training)
  unregister(module, name)
  if not rawget(params, '__computed') then
    module.parametrizations = Parametrizations()
    params.__computed = module.parametrizations
    setmetatable(params, class.computed)
  end
  params.__computed[name] = list
  return module
end

-- ---- weight normalisation -----------------------------------------------------------------------

local WeightNorm = class.class('WeightNorm')
--- The norm over all dimensions except the rule's, or over all.
function WeightNorm:norm(v)
  if not self.dim then return v:norm() end
  local others = {}
  for d = 1, v:dim() do
    if d ~= self.dim then others[#others + 1] = d end
  end
  return others[1] and v:norm(2, others, true) or v:abs()
end
function WeightNorm:forward(g, v) return v * (g / self:norm(v)) end

--- A dimension of the weight, which counts from 1 or from the end.
local function dimension(op, weight, dim)
  local n = weight:dim()
  if dim == 0 or math.abs(dim) > n then core.fail('%s: dim is %d, the weight has %d dimensions', op, dim, n) end
  return dim < 0 and n + 1 + dim or dim
end

parametrize.weight_norm = core.declare('weight_norm(module, name: string = \'weight\', dim: int|bool = 1)',
  'The weight is g v / |v| from now on (Salimans 2016): parametrizations.weight.original0 is g, one for each ' ..
  'position of dim (false: one for all), original1 is v. Returns the module.',
  function(module, name, dim)
    local weight = parameter_of('weight_norm', module, name)
    local rule = WeightNorm()
    rule.dim = dim and dimension('weight_norm', weight, dim == true and 1 or dim) or nil
    local v = weight:detach()
    return register(module, name, rule, {original0 = rule:norm(v):clone(), original1 = v:clone()})
  end)

-- ---- spectral normalisation ---------------------------------------------------------------------

local SpectralNorm = class.class('SpectralNorm')
local function unit(x, eps) return mt.normalize(x, 2, 1, eps) end

--- The weight as a matrix, with the rule's dimension first and the others flattened.
function SpectralNorm:matrix(weight)
  if self.dim ~= 1 then weight = weight:movedim(self.dim, 1) end
  return weight:flatten(2)
end

--- Steps of the power iteration from _u and _v, which are updated.
function SpectralNorm:iterate(matrix, n)
  mt.no_grad(function()
    for _ = 1, n do
      self._u:copy_(unit(matrix:mv(self._v), self.eps))
      self._v:copy_(unit(matrix:t():mv(self._u), self.eps))
    end
  end)
end

function SpectralNorm:forward(weight)
  if weight:dim() == 1 then return unit(weight, self.eps) end
  local matrix = self:matrix(weight)
  if self.training then self:iterate(matrix:detach(), self.n_power_iterations) end
  return weight / self._u:clone():dot(matrix:mv(self._v:clone()))
end

parametrize.spectral_norm = core.declare(
  "spectral_norm(module, name: string = 'weight', n_power_iterations: int >= 1 = 1, eps: number > 0 = 1e-12, " ..
    'dim: int = nil)',
  'The weight over its largest singular value from now on, which n_power_iterations of the power method at each ' ..
  'use in training estimate (Miyato 2018): parametrizations.weight.original. dim is the rows of the matrix: 1, of ' ..
  'transposed convolutions 2. Returns the module.',
  function(module, name, iterations, eps, dim)
    local weight = parameter_of('spectral_norm', module, name)
    local rule = SpectralNorm()
    rule.n_power_iterations, rule.eps = iterations, eps
    rule.dim = dimension('spectral_norm', weight, dim or module.__name:find('^ConvTranspose') and 2 or 1)
    local data = weight:detach()
    if data:dim() > 1 then
      local matrix = rule:matrix(data)
      rule._u = class.Buffer(unit(mt.randn_like(matrix:select(2, 1)), eps))
      rule._v = class.Buffer(unit(mt.randn_like(matrix:select(1, 1)), eps))
      rule:iterate(matrix, 15)
    end
    return register(module, name, rule, {original = data:clone()})
  end)

-- ---- undone -------------------------------------------------------------------------------------

parametrize.remove_parametrizations = core.declare(
  "remove_parametrizations(module, name: string = 'weight', leave_parametrized: bool = true)",
  'Replaces the parameter that weight_norm or spectral_norm computes by one with its current value, or, with ' ..
  'leave_parametrized=false (spectral_norm only) with the original. Returns the module.',
  function(module, name, leave)
    local params = class.is_module(module) and rawget(module, '__params')
    local all = params and rawget(params, '__computed')
    local list = all and rawget(all, name)
    core.check(list,
      "remove_parametrizations: %s has no computed '%s'", params and module.__name or core.describe(module), name)
    local originals = rawget(list, '__params')
    core.check(leave or originals.original ~= nil,
      "remove_parametrizations: the weight has two originals; it can only be left as it is")
    local trained = (originals.original or originals.original1).requires_grad
    local value = leave and mt.no_grad(list.forward, list) or originals.original
    unregister(all, name)
    if #all:children() == 0 then
      setmetatable(params, nil)
      params.__computed = nil
      unregister(module, 'parametrizations')
    end
    module[name] = class.Parameter(value:detach():clone(), trained)
    return module
  end)

return parametrize
