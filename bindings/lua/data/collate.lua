-- collate.lua -- collates examples to one batch, with the rules of torch.utils.data.default_collate
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'

local collate

--- An error without a position, which the caller adds.
local function fail(message, ...) error(message:format(...), 0) end

--- Collates tables by key, and lists by index.
local function collate_tables(values, path)
  local first, out = values[1], {}
  for i, value in ipairs(values) do
    for key in pairs(value) do
      if first[key] == nil then
        fail('example %d of the batch has %s[%s], the first has not', i, path, tostring(key))
      end
    end
  end
  for key in pairs(first) do
    local column = util.map(values, function(value, i)
      if value[key] == nil then fail('example %d of the batch has no %s[%s], the first has', i, path, tostring(key)) end
      return value[key]
    end)
    out[key] = collate(column, ('%s[%s]'):format(path, tostring(key)))
  end
  return out
end

local function kind_of(value) return mt.is_tensor(value) and 'tensor' or type(value) end

function collate(values, path)
  local first = values[1]
  local kind = kind_of(first)
  for i = 2, #values do
    local value = values[i]
    if kind_of(value) ~= kind then
      fail('%s is %s in example 1 of the batch and %s in example %d', path, core.describe(first),
        core.describe(value), i)
    end
    if kind == 'tensor' and (value.shape ~= first.shape or value.dtype ~= first.dtype) then
      fail('%s is %s in example 1 of the batch and %s in example %d; bring them to one size, or give ' ..
        'the loader a collate function', path, core.describe(first), core.describe(value), i)
    end
  end
  if kind == 'tensor' then return (mt.stack(values)) end
  if kind == 'number' or kind == 'boolean' then return (mt.tensor(values)) end
  if kind == 'string' then return values end
  if kind == 'table' then return collate_tables(values, path) end
  fail('%s is a %s; examples are tensors, numbers, booleans, strings and tables of them', path, kind)
end

local function default_collate(examples)
  if type(examples) ~= 'table' or #examples == 0 then
    fail('a list of examples is needed, got %s', core.describe(examples))
  end
  return collate(examples, 'a value')
end

return {
  collate = default_collate,
  default_collate = core.declare('default_collate([examples]: list)',
    'The default collate function of loaders: tensors are stacked, numbers and booleans become a tensor, ' ..
    'strings a list, tables a table of these by key.',
    function(examples) return (util.attempt('default_collate', default_collate, examples)) end),
}
