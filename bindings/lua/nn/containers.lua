-- containers.lua -- modules made of modules
local core = require 'mtorch.core'
local class = require 'mtorch.nn.class'
local is_module = class.is_module

--- Puts n modules at [1..n].
local function fill(self, op, children, n)
  for i = 1, n do
    if not is_module(children[i]) then
      core.fail('%s: entry %d must be a module, got %s', op, i, core.describe(children[i]))
    end
  end
  for i = 1, n do self[i] = children[i] end
end

--- The length of a list of modules, in which nothing is left out and nothing has a name.
local function list_length(op, list)
  if type(list) ~= 'table' or (is_module(list) and #list == 0) then
    core.fail('%s: a list of modules is needed, got %s', op,
      is_module(list) and list.__name or core.describe(list))
  end
  if is_module(list) then return #list end
  local n = 0
  for key in pairs(list) do
    if type(key) ~= 'number' or key < 1 or key % 1 ~= 0 then
      core.fail('%s: entries have no names, got the key %s', op, core.describe(key))
    end
    n = math.max(n, key)
  end
  return n
end

--- One module more, at the end; returns self.
local function append(self, module)
  if not is_module(module) then core.fail('append: a module is needed, got ' .. core.describe(module)) end
  self[#self + 1] = module
  return self
end

--- `nn.Sequential{a, b, c}` or `nn.Sequential(a, b, c)`: each module's result is the next one's
--- input.
local Sequential = class.class('Sequential')
class.constructor(Sequential, 'Sequential(..)',
  "Modules one after another, nn.Sequential(a, b, c) or a list of them: each one's result is the next one's input.",
  function(self, ...)
    local n, first = select('#', ...), ...
    if n ~= 1 or is_module(first) then return fill(self, 'Sequential', {...}, n) end
    fill(self, 'Sequential', first, list_length('Sequential', first))
  end)
Sequential.append = append
function Sequential:forward(x, more)
  if more ~= nil then class.refuse_inputs(self, 1, more) end
  for i = 1, #self do x = self[i](x) end
  return x
end

--- `nn.ModuleList{a, b}`: a list whose modules are registered; it is indexed, not called.
local ModuleList = class.class('ModuleList')
class.constructor(ModuleList, 'ModuleList(..)',
  'A list whose modules are registered, nn.ModuleList{a, b}; it is indexed, not called.',
  function(self, ...)
    local n, first = select('#', ...), ...
    if n > 1 then core.fail('ModuleList: %d arguments given, it takes one list of modules', n) end
    if n == 1 then fill(self, 'ModuleList', first, list_length('ModuleList', first)) end
  end)
ModuleList.append = append

return {ModuleList = ModuleList, Sequential = Sequential}
