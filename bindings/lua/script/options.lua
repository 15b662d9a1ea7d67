-- options.lua -- the options of the program's command line
local core = require 'mtorch.core'

-- In the order of the help: names, the word for a value, the field and the help; low and high: the value is a number.
local rows = {
  {'-h', '--help', key = 'help', help = 'show this help'},
  {'-e', value = 'CODE', key = 'code', help = 'run a piece of code'},
  {'-l', value = 'LIB', key = 'libraries', help = 'require a library into a global of its name'},
  {'-i', key = 'interactive', help = 'read commands after the script'},
  {'-v', '--version', key = 'version', help = 'show the version'},
  {'-E', key = 'clean', help = 'ignore LUA_PATH and LUA_CPATH'},
  {'--device', value = 'NAME', key = 'device', help = "'cpu' or 'cuda'; fails at once if it cannot be used"},
  {'--threads', value = 'N', low = 1, high = 1024, key = 'threads', help = 'the number of threads of kernels'},
  {'--processes', value = 'N', low = 1, high = 65536, key = 'processes', launches = true,
    help = 'start several processes of the script, by mpirun (mt.dist)'},
  {'--hosts', value = 'LIST', key = 'hosts', launches = true,
    help = 'the machines of the processes, with their numbers: a:4,b:4'},
  {'--restarts', value = 'N', low = 0, high = 1000000, key = 'restarts', launches = true,
    help = 'how often all processes are started again after one has failed'},
  {'--seed', value = 'N', low = -math.huge, high = math.huge, key = 'seed', help = 'the seed of the random numbers'},
  {'--profile', optional = true, key = 'profile',
    help = 'print a profile at the end; --profile=FILE.json also writes a trace'},
}

local function help()
  local lines = {'A small deep-learning system: runs Lua scripts with tensors, gradients and fast kernels.',
    'Without a script it reads commands from the terminal; `mtorch doctor` checks this machine;',
    '`mtorch watch train.lua` takes over changes of its functions while it runs;',
    '`mtorch compare a.jsonl b.jsonl` shows logs of runs side by side.',
    'Usage: mtorch [options] [script [args]]', '', 'Options:'}
  for _, row in ipairs(rows) do
    local names = table.concat(row, ', ') .. (row.value and ' ' .. row.value or '')
    lines[#lines + 1] = ('  %-18s %s'):format(names, row.help)
  end
  return table.concat(lines, '\n') .. '\n'
end

local function unknown(word)
  local names = {}
  for _, row in ipairs(rows) do
    for _, name in ipairs(row) do
      if name:find '^%-%-' then names[#names + 1] = name end
    end
  end
  local close = core.nearest(names, word:match '^[^=]*')
  return ("unknown option '%s'%s"):format(word, close ~= '' and (' (did you mean %s?)'):format(close) or '')
end

local function row_of(name)
  for _, row in ipairs(rows) do
    if row[1] == name or row[2] == name then return row end
  end
end

--- Checks the value of an option; returns it, or nothing and the sentence of a usage error.
local function checked(row, name, value)
  if value == nil then return nil, name .. ' needs a value' end
  if not row.low then return value end
  local n, is_whole = tonumber(value), row.high < math.huge
  if n and n >= row.low and n <= row.high and not (is_whole and n % 1 ~= 0) then return n end
  local what = is_whole and ('a whole number from %d to %d'):format(row.low, row.high) or 'a number'
  return nil, ("%s: %s is needed, got '%s'"):format(name, what, value)
end

local options = {}

--- The options among the words of a command line, whose first is the program, as fields; `first` is the index of the
--- script, `others` are the words without the options that start processes. Or nothing and the sentence of an error.
function options.read(words)
  local o, i, more = {code = {}, libraries = {}, others = {}}, 2, nil -- more: '-v' after the first of '-iv'
  while more or words[i] and words[i]:find '^%-.' and words[i] ~= '--' do
    local word, begin = more or words[i], i
    local name, value = word:match '^(%-%-[^=]+)=(.*)$'
    name = name or word:find '^%-%-' and word or word:sub(1, 2)
    if name == word:sub(1, 2) and #word > 2 then value = word:sub(3) end
    local row = row_of(name)
    more = row and not row.value and #name == 2 and value and '-' .. value
    if more then value = nil end
    if not row or value and not row.value and not row.optional then return nil, unknown(word) end
    if row.value then
      if value == nil then i, value = i + 1, words[i + 1] end
      local wrong
      value, wrong = checked(row, name, value)
      if wrong then return nil, wrong end
    elseif value == nil or value == 'true' then value = true
    elseif value == 'false' then value = false
    end
    if type(o[row.key]) == 'table' then table.insert(o[row.key], value) else o[row.key] = value end
    if not more then
      for k = row.launches and i + 1 or begin, i do table.insert(o.others, words[k]) end
      i = i + 1
    end
  end
  for k = i, #words do table.insert(o.others, words[k]) end
  o.first = words[i] == '--' and i + 1 or i
  if o.help then o.help = help() end
  return o
end

--- Warns that options after a script that ignores its arguments have no effect.
function options.report_lost(words)
  local flag
  for i = 2, #words do
    for _, name in ipairs{'--threads', '--seed', '--device'} do
      if not flag and words[i]:sub(1, #name) == name then flag = name end
    end
  end
  local file = flag and io.open(words[1])
  if not file then return end
  local text = file:seek('end') and file:seek('set') and file:read '*a' or '...' -- a pipe can be read only once
  file:close()
  text = text:gsub('%-%-[^\n]*', '')
  for _, word in ipairs{'%f[%w_]args?%f[^%w_]', '%.%.%.', '%f[%w_]dofile%f[^%w_]', '%f[%w_]loadfile%f[^%w_]'} do
    if text:find(word) then return end
  end
  for name in text:gmatch '%f[%w_]require%s*%(?%s*(.[%w_.]*)' do
    if not name:find '^[\'"]mtorch' then return end -- which may read them
  end
  io.stderr:write(("mtorch: %s has no mt.args, so '%s' after it has no effect; write mtorch %s .. %s\n"):format(
    words[1], flag, flag, words[1]))
end

return options
