-- test_programs.lua -- random programs of views, in-place changes and hooks: gradients of first and second order are
-- compared with the same program without views and in-place changes, and with finite differences
--
--   mtorch tests/lua/test_programs.lua [programs [first seed | today]]
--
-- A program is Lua source. In the reference, every base has its values as a tensor that is never changed, and every
-- view its positions in the base; reading a view gathers these, and writing creates a new tensor for the base.
local mt = require 'mtorch'
local t = require 'testing'

local programs, first_seed = tonumber(arg[1]) or 500, tonumber(arg[2]) or 1
if arg[2] == 'today' then first_seed = math.floor(os.time() / 86400) * programs end -- different programs every day

local draws = t.random_source()
local below, between, one_of, chance = draws.below, draws.between, draws.one_of, draws.chance

local function count(shape)
  local n = 1
  for _, size in ipairs(shape) do n = n * size end
  return n
end
local function positions(shape) return mt.range(1, count(shape)):long():reshape(shape) end
local function pick(x, at) return x:reshape(-1):index_select(1, at:reshape(-1)):reshape(at.shape) end
local function put(x, at, values)
  return x:reshape(-1):scatter(1, at:reshape(-1), values:reshape(-1)):reshape(x.shape)
end
local chunks = setmetatable({}, {__mode = 'k'})
local function evaluate(source, names)
  local f = chunks[source] or assert(loadstring('local x = ... return ' .. source))
  chunks[source] = f
  return f(names)
end

-- Shared by both: weights that differ for each element.
local prelude = [[
local mt = require 'mtorch'
local function w(x) return (mt.range(1, x:numel()):double():reshape(x.shape) * 0.37):sin() end
local function twice(g) return g * 2 end
]]
local weights = assert(loadstring(prelude .. 'return w'))()

-- ---- views: source behind a name, for a tensor of this shape ----

local function range_in(n)
  local first = between(1, n)
  return first, between(first, n)
end
local views = {
  function(s, d) return (':select(%d, %d)'):format(d, between(1, s[d])) end,
  function(s, d)
    local first, last = range_in(s[d])
    return (':narrow(%d, %d, %d)'):format(d, first, last - first + 1)
  end,
  function(s, d) return (':slice(%d, %d, %d, 2)'):format(d, between(1, s[d]), s[d]) end,
  function(s, d) return (':unbind(%d)[%d]'):format(d, between(1, s[d])) end,
  function(s, d) return (':chunk(2, %d)[1]'):format(d, s[d]) end,
  function(s, d)
    local size = between(1, s[d])
    return (':split(%d, %d)[%d]'):format(size, d, between(1, math.ceil(s[d] / size)))
  end,
  function(s, d) return (':unfold(%d, %d, %d)'):format(d, between(1, s[d]), between(1, 2)) end,
  function(s, d) return (':unsqueeze(%d):transpose(1, %d)'):format(d, #s + 1) end,
  function(s, d) return (':transpose(%d, %d)'):format(d, between(1, #s)) end,
  function(s, d)
    local first, last = range_in(s[d])
    return ('[{%s{%d, %d}}]'):format(('{}, '):rep(d - 1), first, last)
  end,
  function(s, d) return ('[{%s%d}]'):format(('{}, '):rep(d - 1), between(1, s[d])) end,
  function(s) return ('[%d]'):format(between(1, s[1])) end,
  function(s) return #s > 1 and (':diagonal(%d)'):format(between(-1, 1)) or ':unsqueeze(1)' end,
  function(s) return (':expand(2, %s)'):format(table.concat(s, ', ')) end,
  function(s, _, x) return x:is_contiguous() and ':view(-1)' or #s == 2 and ':t()' end,
  function(s, d, x)
    if not x:is_contiguous() or s[d] % 2 > 0 then return end
    return (':unflatten(%d, {2, %d})'):format(d, s[d] / 2)
  end,
  function(s, _, x, base)
    if not base then return end
    local n = count(s)
    local step = between(0, 2)
    local size = between(1, 3)
    if (size - 1) * step >= n then return end
    local offset = between(0, n - 1 - (size - 1) * step)
    local other = between(1, n - offset - (size - 1) * step)
    return (':as_strided({%d, %d}, {%d, 1}, %d)'):format(size, math.min(other, 3), step, offset)
  end,
}

-- ---- a program ----

local Program = {}
Program.__index = Program

local function leaf(shape, seed)
  return (mt.range(1, count(shape)):double():reshape(shape) * 0.7 + seed):sin():requires_grad_()
end

--- Adds a named statement to the source; `entry` has its values in the reference.
function Program:add(source, entry)
  local name = 't' .. #self.entries + 1
  entry.name = name
  self.source[#self.source + 1] = ('  %s = %s'):format(name, source)
  self.entries[#self.entries + 1] = entry
  -- A hook doubles the gradient of the values on which it was registered.
  if entry.value.requires_grad and chance(8) then
    self.source[#self.source + 1] = ('  if %s.requires_grad then %s:register_hook(twice) end'):format(name, name)
    entry.value = entry.value * 2 - entry.value:detach()
    entry.hooked, self.hooked = true, true
  elseif entry.value.requires_grad and chance(8) then
    self.source[#self.source + 1] = ('  if %s.requires_grad then %s:retain_grad() end'):format(name, name)
    entry.retained = entry.value
  end
  return entry
end

--- Returns the reference's values of an entry; a view that is older than a change of its base reads it again.
local function value_of(e)
  if e.base and e.seen ~= e.base.changes then
    e.value, e.seen, e.hooked = pick(e.base.value, e.at), e.base.changes, false
    e.retained = e.retained and e.value.requires_grad and e.value -- of the latest values
  end
  return e.value
end

function Program:any() return self.entries[between(1, #self.entries)] end

function Program:of_shape(shape)
  local list = {}
  for _, e in ipairs(self.entries) do
    if e.at.shape == shape then list[#list + 1] = e end
  end
  return one_of(list)
end

function Program:new_base()
  local a = self:any()
  local kind = below(6)
  local value, source = kind > 0 and value_of(a), nil
  if kind == 0 then
    local list = table.concat(a.at.shape, ', ')
    source, value = ("mt.ones({%s}, 'float64') * 0.5"):format(list), mt.ones(a.at.shape, 'float64') * 0.5
  elseif kind <= 2 then
    local b = self:of_shape(a.at.shape)
    local operator = one_of{'+', '-', '*'}
    source = ('%s%s %s %s%s'):format(a.name, operator == '*' and ':clone()' or '', operator, b.name,
      operator == '*' and chance(70) and ':clone()' or '')
    value = evaluate('x[1] ' .. operator .. ' x[2]', {value, value_of(b)})
  else
    local tail = one_of{' * 0.7', ' + 0.3', ' * 1', ':clone():sin()', ':clone():square()', ':clone()', ':cumsum(1)',
      ':neg()'}
    if #a.at.shape == 0 then tail = ' * 1.5' end
    source, value = a.name .. tail, evaluate('x' .. tail, value)
  end
  local e = self:add(source, {value = value, at = positions(value.shape), changes = 0})
  e.whole = true
end

function Program:new_view()
  local parent = self:any()
  local shape = parent.at.shape
  if #shape == 0 or #shape > 4 then return end
  local tail = one_of(views)(shape, between(1, #shape), parent.at, not parent.base)
  if not tail then return end
  local at = evaluate('x' .. tail, parent.at)
  if count(at.shape) == 0 or count(at.shape) > 40 then return end
  local inside = evaluate('x' .. tail, positions(shape))
  local base = parent.base or parent
  local value = pick(value_of(parent), inside)
  self:add(parent.name .. tail, {value = value, at = at, base = base, seen = base.changes})
end

--- Adds an in-place change of a base or view that is not of a leaf and does not overlap itself.
function Program:change()
  local e = self:any()
  local base = e.base or e
  if base.leaf then return end
  local list, met = e.at:reshape(-1):tolist(), {}
  for _, at in ipairs(list) do
    if met[at] then return end
    met[at] = true
  end
  local b, kind, source = self:of_shape(e.at.shape), below(6), nil
  if b == e or #e.at.shape == 0 then kind = 0 end -- a copy into itself is none
  local value = value_of(e)
  if kind == 0 then source, value = ':mul_(0.6)', value * 0.6
  elseif kind == 1 then source, value = ':add_(' .. b.name .. ')', value + value_of(b)
  elseif kind == 2 then source, value = ':copy_(' .. b.name .. ')', value_of(b) * 1
  elseif kind == 3 then source, value = ':fill_(0.25)', value:detach() * 0 + 0.25
  elseif kind == 4 then source, value = ':sin_()', value:sin()
  else source, value = '[{}] = ' .. b.name, value_of(b) * 1 end
  self.source[#self.source + 1] = '  ' .. e.name .. source
  base.value = e == base and value or put(base.value, e.at, value)
  base.changes = base.changes + 1
  base.hooked = false
  base.retained = base.retained and base.value.requires_grad and base.value
end

local function generate(seed)
  draws.seed(seed)
  local self = setmetatable({source = {}, entries = {}}, Program)
  self.shapes = {one_of{{2, 3}, {4}, {3, 2, 2}, {6}}, one_of{{2, 3}, {2, 2}, {5}}}
  for i, name in ipairs{'a', 'b'} do
    local x = leaf(self.shapes[i], i)
    self.entries[i] = {name = name, value = x, at = positions(x.shape), changes = 0, leaf = true}
    self[name] = x
  end
  self:new_base()
  for _ = 1, between(4, 22) do
    local way = below(100)
    if way < 25 then self:new_base() elseif way < 65 then self:new_view() else self:change() end
  end
  local terms, result = {}, mt.zeros({}, 'float64')
  for i = 1, #self.entries do
    local e = self.entries[i]
    if i <= 2 or chance(60) then
      local x = value_of(e)
      local tail = chance(50) and '' or ':clone():square()'
      terms[#terms + 1] = ('  s = s + (%s%s * w(%s)):sum()'):format(e.name, tail, e.name)
      result = result + (evaluate('x' .. tail, x) * weights(x)):sum()
    end
  end
  self.result = result
  local names = {}
  for i = 3, #self.entries do names[#names + 1] = self.entries[i].name end
  local text = {prelude, 'local ' .. table.concat(names, ', '), 'local function f(a, b)',
    table.concat(self.source, '\n'), "  local s = mt.zeros({}, 'float64')", table.concat(terms, '\n'),
    ('  return s, {a, b, %s}'):format(table.concat(names, ', ')), 'end'}
  self.text = table.concat(text, '\n')
  return self
end

local function script_of(p, message)
  return ([[
%s
local function leaf(shape, seed)
  return (mt.range(1, mt.ones(shape):numel()):double():reshape(shape) * 0.7 + seed):sin():requires_grad_()
end
local a, b = leaf({%s}, 1), leaf({%s}, 2)
local g = mt.grad((f(a, b)), {a, b}, {create_graph = true})
print(g[1], g[2])
print(pcall(mt.grad, (g[1] * w(g[1])):sum() + (g[2] * w(g[2])):sum(), {a, b}, {allow_unused = true}))
f(a, b):backward()
print(a.grad, b.grad)
%smt.gradcheck(function(x, y) return (f(x, y)) end, {a, b})
-- %s]]):format(p.text, table.concat(p.shapes[1], ', '), table.concat(p.shapes[2], ', '),
    p.hooked and '-- hooks: ' or '', message:gsub('\n', ' '))
end

-- ---- what is compared ----

local function compare(what, x, y)
  if not x and not y then return end
  x, y = x or y * 0, y or x * 0
  local apart = (x - y):abs():amax():item()
  local scale = 1 + y:abs():amax():item()
  if not (apart <= 1e-9 * scale) then
    error(('%s: %s, the reference has %s'):format(what, tostring(x), tostring(y)), 0)
  end
end

local function second(g, inputs)
  local s = mt.zeros({}, 'float64')
  for i = 1, 2 do s = s + (g[i] * weights(g[i])):sum() end
  return s.requires_grad and mt.grad(s, inputs, {allow_unused = true, retain_graph = true}) or {}
end

local function finite(f, a, b)
  for _, x in ipairs{a, b} do
    local g, flat = x.grad:reshape(-1), x:detach():reshape(-1)
    for i = 1, flat:numel() do
      local kept = flat[i]:item()
      flat[i] = kept + 1e-5
      local up = f(a, b):item()
      flat[i] = kept - 1e-5
      local slope = (up - f(a, b):item()) / 2e-5
      flat[i] = kept
      if math.abs(slope - g[i]:item()) > 1e-4 * (1 + math.abs(slope)) then
        error(('backward: %.9g, finite differences say %.9g'):format(g[i]:item(), slope), 0)
      end
    end
  end
end

local function check(p)
  local f = assert(loadstring(p.text .. '\nreturn f'))()
  local a, b = leaf(p.shapes[1], 1), leaf(p.shapes[2], 2)
  local s, all = f(a, b)
  compare('value', s, p.result)
  local known = mt.grad(p.result, {p.a, p.b}, {create_graph = true})
  -- Through the tensors in between as well, as long as they are what they were.
  local inner = one_of(p.entries)
  local wanted, expected = {a, b}, {p.a, p.b}
  for i, e in ipairs(p.entries) do
    if e == inner and not e.leaf and not e.hooked and e.value.requires_grad and
       (not e.base or e.seen == e.base.changes) and not e.whole then
      wanted[3], expected[3] = all[i], e.value
    end
  end
  local options = {create_graph = true, retain_graph = true, allow_unused = true}
  local g = mt.grad(s, wanted, options)
  local h = mt.grad(p.result, expected, options)
  for i = 1, #wanted do compare('grad ' .. i, g[i], h[i]) end
  local twice, known_twice = second(g, {a, b}), second(known, {p.a, p.b})
  for i = 1, 2 do compare('second grad ' .. i, twice[i], known_twice[i]) end
  s:backward{create_graph = chance(30)}
  compare('backward 1', a.grad, known[1])
  compare('backward 2', b.grad, known[2])
  for i, e in ipairs(p.entries) do
    if e.retained and (not e.base or e.seen == e.base.changes) then
      compare('retained ' .. i, all[i].grad, mt.grad(p.result, e.retained, options))
    end
  end
  a.grad, b.grad = a.grad:detach(), b.grad:detach()
  if not p.hooked then mt.no_grad(finite, f, a, b) end
  a.grad, b.grad, p.a.grad, p.b.grad = nil, nil, nil, nil
end

local refused = 0
t.test(('%d random programs from seed %d'):format(programs, first_seed), function()
  for seed = first_seed, first_seed + programs - 1 do
    local p = generate(seed)
    local ok, message = pcall(check, p)
    if not ok and tostring(message):find 'changed in place since' then
      refused = refused + 1
    elseif not ok then
      print(script_of(p, tostring(message)))
      error(('seed %d: %s'):format(seed, message), 0)
    end
  end
  if refused > programs / 3 then error(refused .. ' programs changed what their gradient needs') end
end)
print(refused .. ' of them refused: they change what their gradient needs')
t.finish()
