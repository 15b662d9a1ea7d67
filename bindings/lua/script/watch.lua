-- watch.lua -- `mtorch watch script.lua`: takes over saved changes of functions while the script runs
--
-- Changed functions are compiled with the variables of the old ones as their upvalues, and replace them wherever they
-- are: in locals, upvalues and tables. What runs keeps its old code until it returns.
local depth = require('mtorch.script.frames').depth
local interactive = require 'mtorch.script.interactive'
local util = require 'mtorch.core.util'

local watch = {}
local path, shown, text -- of the script: its name in messages, and the text whose functions are in use
local functions, rest -- of that text; `line` and `last` are those with which a function was compiled

local function tell(format, ...) io.stderr:write('mtorch: ', shown, ': ', format:format(...), '\n') end

-- ---- the functions of a text -----------------------------------------------------------------------

local opens = util.word_set 'function do if repeat'
local closes = util.word_set 'end until'

--- "f", "Net:forward" of the function whose keyword is token i, and the index of its bracket; nothing without a name.
local function name_of(tokens, i)
  local at, name = i + 1, ''
  while tokens[at] and tokens[at].text ~= '(' do name, at = name .. tokens[at].text, at + 1 end
  if name ~= '' then return name, at end
  if i < 3 or tokens[i - 1].text ~= '=' or tokens[i - 2].kind ~= 'name' then return nil end
  local from = i - 2
  while from > 1 and (tokens[from - 1].text == '.' or tokens[from].text == '.') do from = from - 1 end
  for k = from, i - 2 do name = name .. tokens[k].text end
  return name, at
end

--- The named functions of a program that are in no other function: name -> {code =, line =, last =, is_local =}; and
--- the text between them.
local function functions_of(program)
  local tokens = interactive.tokens(program)
  local found, open, inside, between, after = {}, {}, 0, {}, 1
  local function line_of(token) return select(2, program:sub(1, token.from - 1):gsub('\n', '')) + 1 end
  for i, token in ipairs(tokens) do
    if token.kind == 'keyword' and opens[token.text] then
      open[#open + 1] = i
      if token.text == 'function' then inside = inside + 1 end
    elseif token.kind == 'keyword' and closes[token.text] then
      local at = table.remove(open)
      local is_function = tokens[at].text == 'function'
      if is_function then inside = inside - 1 end
      local name, bracket = name_of(tokens, at)
      if is_function and inside == 0 and name then
        local head = name:find ':' and (tokens[bracket + 1].text == ')' and '(self' or '(self, ') or '('
        while found[name] do name = name .. "'" end
        found[name] = {code = head .. program:sub(tokens[bracket].to + 1, token.to), line = line_of(tokens[at]),
          last = line_of(token), is_local = at > 1 and tokens[at - 1].text == 'local'}
        local first = tokens[at - (found[name].is_local and 1 or 0)].from
        between[#between + 1], after = program:sub(after, first - 1), token.to + 1
      end
    end
  end
  return found, (table.concat(between) .. program:sub(after)):gsub('%s+', ' ')
end

-- ---- where functions are ---------------------------------------------------------------------------

--- Calls visit(value, kind, owner, key) for everything that the program reaches; kind: 'local', 'upvalue', 'field'.
local function walk(visit)
  local seen, queue = {}, {}
  local function meet(value, kind, owner, key)
    local type_of = type(value)
    if type_of ~= 'function' and type_of ~= 'table' and type_of ~= 'userdata' then return end
    if kind then visit(value, kind, owner, key) end
    if not seen[value] then seen[value], queue[#queue + 1] = true, value end
  end
  meet(debug.getregistry())
  for level = 2, depth() do
    local info = debug.getinfo(level, 'fS')
    local i, place = 1, depth() - level + 1
    if info.source ~= '@mtorch/script/watch.lua' then meet(info.func) else i = math.huge end
    while i < math.huge and debug.getlocal(level, i) do
      meet(select(2, debug.getlocal(level, i)), 'local', place, i)
      i = i + 1
    end
  end
  local at = 1
  while queue[at] do
    local value = queue[at]
    at = at + 1
    meet(debug.getmetatable(value))
    if type(value) == 'table' then
      for key, inner in next, value do meet(inner, 'field', value, key) end
    else
      meet(debug.getfenv(value))
      for i, _, inner in util.upvalues(type(value) == 'function' and value or tell) do
        meet(inner, 'upvalue', value, i)
      end
    end
  end
end

local function put(kind, owner, key, value)
  if kind == 'local' then debug.setlocal(depth() - owner + 1, key, value)
  elseif kind == 'upvalue' then debug.setupvalue(owner, key, value)
  else
    rawset(owner, key, value)
    if key == 'f' and rawget(owner, 'entries') then owner.entries = {} end -- of mt.compile: it records again
  end
end

--- Where the functions in use are: name -> list of {function, kind, owner, key}; and the variables of all functions of
--- the script: name -> {function, index of the upvalue}.
local function places_now()
  local places, cells = {}, {}
  walk(function(f, kind, owner, key)
    if type(f) ~= 'function' then return end
    local info = debug.getinfo(f, 'S')
    if info.source ~= '@' .. path then return end
    for i, name in util.upvalues(f) do cells[name] = cells[name] or {f, i} end
    for name, one in pairs(functions) do
      if one.line == info.linedefined and one.last == info.lastlinedefined then
        places[name] = places[name] or {}
        table.insert(places[name], {f, kind, owner, key})
      end
    end
  end)
  return places, cells
end

-- ---- taking over -----------------------------------------------------------------------------------

--- Whether a program assigns a variable, apart from its declaration.
local function assigns(code, name)
  for before in code:gmatch('([^\n;=]*)%f[%w_]' .. name .. '%s*=[^=]') do
    if not before:find 'local%s+[%w_%s,]*$' then return true end
  end
  return false
end

--- A new function with the variables of the old one, or those of that name that another function of the script has.
local function build(new, old, cells)
  local own, names = {}, {}
  for i, name in util.upvalues(old or function() end) do own[name] = {old, i} end
  for _, token in ipairs(interactive.tokens(new.code)) do
    if token.kind == 'name' and (own[token.text] or cells[token.text]) then names[token.text] = true end
  end
  local list = util.sorted_keys(names)
  local head = #list > 0 and ('local %s '):format(table.concat(list, ',')) or ''
  local f = assert(loadstring(('\n'):rep(new.line - 1) .. head .. 'return function' .. new.code, '@' .. path))()
  for i, name in util.upvalues(f) do
    local cell = own[name] or cells[name]
    debug.upvaluejoin(f, i, cell[1], cell[2])
    if assigns(new.code, name) and not assigns(text, name) then jit.off() end -- LuaJIT takes it for a constant
  end
  return old and debug.setfenv(f, debug.getfenv(old)) or f
end

local function take_over(new_text)
  local old, new, new_rest = functions, functions_of(new_text)
  local places, cells = places_now()
  local taken, missed = {}, {}
  for _, name in ipairs(util.sorted_keys(new)) do
    if not old[name] and new[name].is_local then -- others may use it
      local f = build(new[name], nil, cells)
      cells[name], taken[#taken + 1] = {function(other) f = other or f end, 1}, name
    end
  end
  for _, name in ipairs(util.sorted_keys(new)) do
    local one = new[name]
    local changed = old[name] and old[name].code ~= one.code
    if changed and not places[name] then missed[#missed + 1] = name end
    local built = {}
    for _, place in ipairs(changed and places[name] or {}) do
      local f = place[1]
      built[f] = built[f] or build(one, f, cells)
      put(place[2], place[3], place[4], built[f])
    end
    if changed and places[name] then taken[#taken + 1] = name
    elseif old[name] then
      new[name] = old[name]
    end
  end
  jit.flush() -- compiled code has the old functions
  if #taken > 0 then tell('took over %s', table.concat(taken, ', ')) end
  if #missed > 0 then tell('%s cannot be replaced now', table.concat(missed, ', ')) end
  if rest ~= new_rest then tell 'what is outside of functions takes effect at the next start' end
  functions, rest = new, new_rest
end

--- Looks for a change of the script's file, and takes it over; the program calls it every half second.
function watch.check()
  local now = util.read_file(path)
  if not now or now == text then return end
  local _, problem = loadstring(now, '@' .. path)
  if problem then
    if watch.problem ~= problem then tell('%s; the old functions stay', (problem:gsub('^.-:(%d+:)', 'line %1'))) end
    watch.problem = problem
    return
  end
  watch.problem = nil
  local ok, message = pcall(take_over, now)
  if not ok then tell('%s; the old functions stay', message) end
  text = now
end

function watch.start(script)
  path, shown = script, script:match '[^/]*$'
  text = util.read_file(path) or ''
  functions, rest = functions_of(text)
end

return watch
