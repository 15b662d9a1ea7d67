-- refuse.lua -- functions that a traced function cannot call, and LuaJIT's errors rephrased for the function's author
local core = require 'mtorch.core'
local util = require 'mtorch.core.util'
local native = core.compile()

local refuse = {}
local instead = 'a fixed number of steps and if, or a grid kernel (mt.kernel)'
refuse.instead = instead
refuse.no_text = 'an element cannot be made text while the function is compiled; print the result'

-- ---- Lua's own functions -----------------------------------------------------------------------------

local names = {} -- a function -> its name; the last one in order if it has several: load is loadstring
for _, library in ipairs{'coroutine', 'debug', 'ffi', 'io', 'jit', 'os', 'package', 'string', 'table', 'bit', 'math'} do
  local t = _G[library] or package.loaded[library] or {}
  for _, key in ipairs(util.sorted_keys(t)) do
    if type(t[key]) == 'function' then names[t[key]] = library .. '.' .. key end
  end
end
for _, key in ipairs(util.sorted_keys(_G)) do
  if type(_G[key]) == 'function' then names[_G[key]] = key end
end
--- The name of one of Lua's own functions, or nil.
function refuse.name_of(f) return names[f] end

-- Functions that may be called because they do the same for every element: on tables that the function has created,
-- and, unless `symbols`, only with numbers and strings that do not depend on an element. rawget, rawset and
-- rawequal would take an element for an object that is equal to no number.
local allowed = {}
for _, name in ipairs{'select', 'rawequal', 'setmetatable', 'table.insert', 'table.remove', 'table.sort', 'table.maxn',
  'rawget', 'rawset'} do
  allowed[name] = 'symbols'
end
for _, library in ipairs{'string', 'bit', 'math'} do
  for key in pairs(_G[library]) do allowed[library .. '.' .. key] = 'plain' end
end
allowed['table.concat'], allowed['tonumber'] = 'plain', 'plain'
allowed['string.dump'], allowed['math.randomseed'] = nil, nil

local reasons = {
  ['string'] = 'an element has no text; print or format the result',
  ['bit'] = "use mt.bitwise_and and similar functions of integer tensors for an element's bits",
  ['table'] = 'an element has no text; print or format the result',
}

--- The replacement for one of Lua's own functions in a traced function.
function refuse.guarded(f, called, is_symbol, name_of_captured)
  local name = names[f] or called
  local way = allowed[name]
  if not way then
    return function()
      core.fail('%s in a compiled function: it would run once, when the function is traced, not for each element; ' ..
        'call it outside', name)
    end
  end
  return function(...)
    for i = 1, select('#', ...) do
      local x = select(i, ...)
      local captured = name_of_captured(x)
      if captured then
        core.fail("%s gets the captured table '%s'; a compiled function reads its fields, %s[i], and can change " ..
          'tables that it has made alone', name, captured, captured)
      end
      local first = name == 'table.concat' and type(x) == 'table' and x[1] or x
      if (way == 'plain' or i <= 2 and name:find '^raw') and is_symbol(first) then
        core.fail('%s of an element: %s', name, reasons[name:match '^%a+'] or 'it takes plain numbers')
      end
    end
    return f(...)
  end
end

-- ---- what LuaJIT says ----------------------------------------------------------------------------------

local texts = {
  {'^a compiled function of more than (%d+) operations', 'it has more than %1 operations; use fewer steps, or a ' ..
    'grid kernel (mt.kernel)'},
  {"^bad argument #%d+ to '.-' %(.- expected, got cdata%)", "one of Lua's own functions gets an element; those of " ..
    'math and the mt functions of one element take it'},
  {"^bad argument #(%d+) to '(.-)' %((%w+) expected, got (.-)%)", 'argument %1 of %2 must be a %3, got %4'},
  {"^'for' limit must be a number", 'the end of a loop depends on an element; use ' .. instead},
  {"^'for' initial value must be a number", 'the beginning of a loop depends on an element; use ' .. instead},
  {"^'for' step must be a number", 'the step of a loop depends on an element; use ' .. instead},
  {"^'.-' has no '__(i?pairs)' metamethod", '%1 goes over tables, and an element is a number'},
  {'^attempt to get length of', 'a number has no length; give the function sizes as numbers'},
  {"^attempt to call .- '([^']+)' %(a nil value%)", function(name)
    return ("'%s' is nil, not a function; %s"):format(name, native.operation(name) and ('mt.%s is one'):format(name) or
      'is it spelled right?')
  end},
  {'^attempt to call a nil value', 'nil is called as a function'},
  {"^attempt to call .- '([^']+)' %(a (%w+) value%)", "'%1' is a %2, not a function"},
  {"^attempt to index .- '([^']+)' %(a (%w+) value%)", "'%1' is %2 and has no fields"},
  {"^attempt to perform arithmetic on .- '([^']+)' %(a (%w+) value%)", "arithmetic on '%1', which is %2"},
  {'^attempt to perform arithmetic on a boolean value', 'arithmetic on a boolean; choose a number by it: condition ' ..
    'and 1 or 0'},
  {'^attempt to perform arithmetic on a (%w+) value', 'arithmetic on %1; a table indexed by an element has ' ..
    'nil there: choose by comparisons, a == 1 and s[1] or s[2]'},
  {"^attempt to compare '?.-'? with '?.-'?$", 'an element is compared with a value that is not a number'},
  {'^attempt to compare (%w+) with (%w+)', '%1 is compared with %2'},
  {"^attempt to concatenate .-", refuse.no_text},
  {'stack overflow', 'it calls itself without end, or until an element says so; use ' .. instead},
}

--- A message without its position, rephrased as advice.
function refuse.in_words(message)
  for _, t in ipairs(texts) do
    if message:find(t[1]) then
      local captures = {message:match(t[1])}
      if type(t[2]) == 'function' then return t[2](captures[1]) end
      return (t[2]:gsub('%%(%d)', function(k) return captures[tonumber(k)] end))
    end
  end
  return message
end

return refuse
