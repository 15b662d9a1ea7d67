-- prompt.lua -- the prompt: commands, results shown by their contents, completion with Tab
local core = require 'mtorch.core'
local interactive = require 'mtorch.script.interactive'
local mt = require 'mtorch'
local shown = require 'mtorch.core.shown'
local util = require 'mtorch.core.util'

local prompt = {}

-- ---- values as text ------------------------------------------------------------------------------

local max_entries, max_depth, max_bytes = 30, 4, 3000 -- limits: of one table; of nested tables; of the text

--- A value in one line.
function prompt.short(value)
  if type(value) == 'string' then return (('%q'):format(util.truncate(value, 60)):gsub('\\\n', '\\n')) end
  if mt.is_tensor(value) then return (core.describe(value):gsub('^a ', '')) end
  return util.truncate(tostring(value):match('^[^\n]*'), 60)
end

--- {1, 2, name = "x"}: limited in depth, entries and bytes; a table that contains itself is {..}.
local function show(value, seen, depth, room)
  local meta = type(value) == 'table' and getmetatable(value)
  if type(value) ~= 'table' or type(meta) == 'table' and meta.__tostring then return prompt.short(value) end
  if seen[value] or depth > max_depth then return next(value) == nil and '{}' or '{..}' end
  seen[value] = true
  local parts, count, length = {}, 0, 0
  for i, key in ipairs(util.sorted_keys(value)) do
    count = i
    if i > max_entries or length > room then break end
    local text = show(value[key], seen, depth + 1, (room - length) / 2)
    local name = type(key) == 'string' and key:find('^[%a_][%w_]*$') and key or '[' .. prompt.short(key) .. ']'
    if key ~= i then text = name .. ' = ' .. text end
    parts[#parts + 1], length = text, length + #text + 2
  end
  seen[value] = nil
  if count > #parts then parts[#parts + 1] = '..' end
  return '{' .. table.concat(parts, ', ') .. '}'
end

local modules = require 'mtorch.help.modules'

--- "mt.nn has BCELoss ..": the names in one of the library's tables, or nothing.
local function contents(value)
  if value == mt then
    return "mt has the modules " .. table.concat(modules.names, ' ') .. ' and the functions that mt.help() lists'
  end
  local name = modules.name_of(value)
  return name and util.wrap(('mt.%s has %s'):format(name, table.concat(core.names(value), ' ')), '', 92)
end

--- The results of a line as text: as `print` shows them, but tables by their contents, those of the library by their
--- names, and functions by their help.
function prompt.text(...)
  local texts = shown.texts(...)
  for i, text in ipairs(texts) do
    local value = select(i, ...)
    if type(value) == 'function' or type(value) == 'table' and core.entry(value) then
      texts[i] = interactive.line_of(value)
    elseif type(value) == 'table' then
      texts[i] = contents(value) or text:find('^table: 0x') and show(value, {}, 1, max_bytes) or text
    end
  end
  return util.side_by_side(texts)
end

function prompt.print(...)
  interactive.keep(...)
  io.stdout:write(prompt.text(...), '\n')
end

-- ---- lines -----------------------------------------------------------------------------------------

local greeting = [[
help(mt.matmul), help 'indexing' or ?name says what a function takes, or how things are done; mt.help() lists all names.
Tab completes names, options, files and topics. _ is the last result, _2 the one before. quit or Ctrl-D ends.
:time CODE  :profile CODE   how long it takes, and what takes the time
:edit       the last input in $EDITOR            !COMMAND    runs a command of the shell]]

local last_input = ''

--- The text that an editor leaves of the last input.
local function edit()
  local path = os.tmpname()
  core.write_file('edit', path, last_input .. '\n')
  os.execute(('%s %s'):format(os.getenv 'VISUAL' or os.getenv 'EDITOR' or 'vi', path))
  local text = util.read_file(path)
  os.remove(path)
  io.stdout:write(text)
  return text
end

--- The text of a call fn(code), where code is an expression or statements.
local function measured(fn, code)
  return ('%s(function() %s%s\nend)'):format(fn, loadstring('return ' .. code) and 'return ' or '', code)
end

local commands = {
  time = function(code) return ('select(2, %s)'):format(measured('mt.time', code)) end,
  profile = function(code) return ('do local _ = %s end'):format(measured('mt.profile', code)) end,
  edit = edit,
}

--- What a line means that is no Lua: a text to run instead, or a function.
local function command(line)
  local name = line:match '^%s*%?%s*([%w_.:]+)%s*$' or line:match '^%s*:doc%s+([%w_.:]+)%s*$' or
    line:match '^%s*help%s+([%w_.:]+)%s*$'
  if name then
    return nil, function() print(interactive.inspect(name) or core.help_text(name)) end
  end
  local shell = line:match '^%s*!(.*)$'
  if shell then return nil, function() os.execute(shell) end end
  local word, rest = line:match '^%s*:(%a+)%s*(.*)$'
  if not word then return line end
  if not commands[word] then core.fail("there is no command ':%s'; help says which there are", word) end
  return commands[word](rest)
end

--- Compiles what was typed. Returns a function; false to end the program; or nil, the message, and whether more lines
--- may complete the text.
function prompt.load(text)
  local word = text:match '^%s*(%a+)%s*%(?%)?%s*$'
  if (word == 'quit' or word == 'exit') and rawget(_G, word) == nil then return false end
  local code, run = command(text)
  if run then return run end
  if not text:find '^%s*:' then last_input = text end
  return interactive.load(code:gsub('^%s*=', ''), '=stdin')
end

local typed = '' -- the earlier lines of what is being typed

--- Runs what was typed when it is complete, and prints its values unless it ends with ';'. Without a line the input has
--- ended, or was given up. Returns whether more lines are needed, and whether the prompt ends.
function prompt.step(line, gave_up)
  local text = typed .. (line or '')
  typed = ''
  if gave_up or not text:find '[^ \t]' then return false end
  local ok, run, message, unfinished = pcall(prompt.load, text)
  if run == false then return false, true end
  if ok and unfinished and line then
    typed = text .. '\n'
    return true
  end
  core.program.remember_line(interactive.one_line(text))
  if not ok or not run then error(ok and message or run, 0) end
  local function show(...)
    if select('#', ...) > 0 and not text:find ';$' then prompt.print(...) end
  end
  show(core.program.call(run))
end

--- The globals of the prompt; `help` is alone, called with a name, or with a function.
function prompt.predefine()
  require('mtorch.script.program').predefine 'nn optim'
  if rawget(_G, 'help') ~= nil then return end
  rawset(_G, 'help', setmetatable({}, {__tostring = function() return greeting end, __call = function(_, name)
    if name == nil then print(greeting) else mt.help(name) end
  end}))
end

--- The completions of the text before the cursor, each as what replaces the text from the position `from` on. Of a long
--- list for nothing typed yet only the likely names.
function prompt.complete(line, from)
  local text = typed .. line
  from = from + #typed
  local items, start = interactive.complete(text)
  local found, all = {}, #items > 100 and start > #text
  for i, item in ipairs(items) do
    if all and i > 60 then break end
    found[i] = text:sub(from, start - 1) .. item.text:sub(math.max(1, from - start + 1))
  end
  return found
end

return prompt
