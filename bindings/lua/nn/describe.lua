-- describe.lua -- print(net): the tree of modules with parameter counts
local core = require 'mtorch.core'
local shown = require 'mtorch.core.shown'
local util = require 'mtorch.core.util'
local class = require 'mtorch.nn.class'
local method, is_module = class.method, class.is_module

--- The text of an option (one of core.parameters) that differs from its default, or nothing.
local function chosen(self, option)
  local value = rawget(self, option.name)
  local plain = value == nil or is_module(value) or type(value) == 'function' or tonumber(option.default) == value
  local text = not plain and shown.value(value)
  return text ~= option.default and text or nil
end

--- The method extra() of a class: '{in_channels} -> {out_channels}, stride, bias' gives '(3 -> 8, stride 2, no bias)',
--- fields in braces, and those of the named options that differ from their defaults.
function class.extra(made, form)
  return function(self)
    local options, parts = {}, {}
    for _, option in ipairs(core.parameters(made)) do options[option.name] = option end
    for part in form:gmatch '[^,%s][^,]*' do
      local option = options[part]
      local text = option and chosen(self, option)
      if option and option.type == 'bool' then
        local value = self[part] and true or false
        text = tostring(value) ~= option.default and (value and part or 'no ' .. part)
      elseif text then
        text = part .. ' ' .. text:gsub("'", '')
      elseif part:find '[ {]' then
        text = part:gsub('{([%w_]+)}', function(name)
          if self[name] == nil then error('there is no field ' .. name) end
          return shown.value(self[name])
        end)
      end
      parts[#parts + 1] = text or nil
    end
    return '(' .. table.concat(parts, ', ') .. ')'
  end
end

method('extra()', 'The text that print adds: the options that differ from their defaults, from the second one ' ..
  'with a default on by name. A class may override it.',
  function(self)
    local parts = {}
    for i, option in ipairs(core.parameters(self.__class) or {}) do
      local text, bare = chosen(self, option), i == 1 or not option.default
      if text then parts[#parts + 1] = bare and text or option.name .. '=' .. text end
    end
    return parts[1] and '(' .. table.concat(parts, ', ') .. ')' or ''
  end)

local described = {} -- modules whose text is being created
method('describe(indent: string = nil)', 'The text of print(net): the tree with parameter counts. Children at [1], ' ..
  "[2] count from 1, in state_dict's names from 0.",
  function(self, indent)
    indent = indent or ''
    if described[self] then return self.__name .. ' (that it is in)' end
    described[self] = true
    local children = {}
    for _, key, value, kind in class.fields(self, true) do
      if kind == 'module' then
        local name = type(key) == 'number' and ('[%d]'):format(key) or key
        local _, text = pcall(class.Module.describe, value, indent .. '  ')
        children[#children + 1] = ('%s  %s: %s'):format(indent, name, tostring(text))
      end
    end
    described[self] = nil
    local whole, extra = pcall(self.__class.extra, self)
    local head = self.__name .. (whole and extra or ' (its __init has not called the __init of its base)')
    local n, frozen = 0, 0
    for _, p in ipairs(class.Module.parameters(self)) do
      n, frozen = n + p:numel(), frozen + (p.requires_grad and 0 or p:numel())
    end
    local tail = n > 0 and ('  %s parameters'):format(util.thousands(n)) or ''
    if frozen > 0 then tail = ('%s (%s frozen)'):format(tail, frozen == n and 'all' or util.thousands(frozen)) end
    if #children == 0 then return head .. tail end
    return ('%s(\n%s\n%s)%s'):format(head, table.concat(children, '\n'), indent, tail)
  end)

method('forward(x, ..)', 'The computation of the module. net(x) calls it and adds the name of the module to errors.',
  function(self) core.fail('%s has no forward: define function %s:forward(x)', self.__name, self.__name) end)

method('summary(..)', 'Prints a table of the modules for an input of these sizes, net:summary{64, 1, 28, 28} (a ' ..
  'batch of 1 may be left out), or for tensors, net:summary{x, y}, or for sizes of several: shapes, parameters, ' ..
  'multiply-adds of a call (products, convolutions and normalisations), memory of parameters, buffers and results. ' ..
  'Without input only the parameters. Options: dtype of the input, device, depth, print=false. Returns the text, ' ..
  'and the numbers by name.',
  function(self, ...) return require 'mtorch.nn.summary'(self, ...) end)
