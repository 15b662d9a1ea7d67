-- init.lua -- mt.optim: optimizers that update parameters by their gradients
local core = require 'mtorch.core'
local Optimizer = require 'mtorch.optim.optimizer'
local shown = require 'mtorch.core.shown'

local optim = {}

for _, info in ipairs(core.optimizers()) do
  local parts = {'[parameters]'}
  local of = Optimizer.class(info.name)
  for i, option in ipairs(info.options) do parts[i + 1] = option.name .. '=' .. shown.value(option.default) end
  optim[info.name] = core.declare(('%s(%s)'):format(info.name, table.concat(parts, ', ')), info.doc,
    function(parameters, ...)
      local defaults = {}
      for i, option in ipairs(info.options) do
        local value = select(i, ...)
        if value == nil then value = option.default end
        defaults[option.name] = value
      end
      return Optimizer.make(of, {defaults = defaults, handle = core.optimizer(info.rule)}, parameters)
    end)
end

return core.strict(optim, 'mt.optim', nil, {
  LBFGS = function() return require 'mtorch.optim.lbfgs' end,
  Sharded = function() return require 'mtorch.optim.sharded' end,
  EarlyStopping = function() return require 'mtorch.optim.early_stopping' end,
  swa = function() return core.strict(require 'mtorch.optim.swa', 'mt.optim.swa') end,
  lr = function() return core.strict(require 'mtorch.optim.lr', 'mt.optim.lr') end,
})
