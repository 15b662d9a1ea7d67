-- args.lua -- mt.args: the command-line flags of a script, and the text of --help
local core = require 'mtorch.core'
local util = require 'mtorch.core.util'

-- Declarations --------------------------------------------------------------------------------------

local field_types = {name = 'any', default = 'any', choices = 'any', help = 'string', min = 'number', max = 'number',
  metavar = 'string', required = 'bool', endings = 'strings', type = "'string'|'number'|'int'|'flag'|'output'"}
local lua_kinds = {string = 'string', number = 'number', boolean = 'flag'}

local function check(condition, message, ...) core.check(condition, 'args: ' .. message, ...) end
local function number_text(x) return ('%.14g'):format(x) end

--- "from 1 to 9", "from 1", "up to 9", of an option with limits.
local function limits(o)
  if not o.min then return 'up to ' .. number_text(o.max) end
  return 'from ' .. number_text(o.min) .. (o.max and ' to ' .. number_text(o.max) or '')
end

--- A description of the valid values of an option.
local function expected(o)
  if o.choices then return 'one of ' .. table.concat(o.choices, ', ') end
  if o.type == 'flag' then return 'true or false' end
  if o.type == 'output' then
    return 'a file to write' .. (o.endings and ' that ends in .' .. table.concat(o.endings, ' or .') or '')
  end
  local text = o.type == 'int' and 'a whole number' or o.type == 'number' and 'a number' or 'a text'
  return (o.min or o.max) and text .. ' ' .. limits(o) or text
end

local function fits(o, value)
  if o.choices and not o.spelling[tostring(value):lower()] then return false end
  if o.type == 'output' then
    local ending = type(value) == 'string' and value:match '%.(%w+)$'
    for _, known in ipairs(o.endings or {}) do
      if ending and ending:lower() == known then return true end
    end
    return value == '' or not o.endings and type(value) == 'string'
  end
  if lua_kinds[type(value)] ~= (o.type == 'int' and 'number' or o.type) then return false end
  if o.type == 'int' and value % 1 ~= 0 then return false end
  return o.type == 'string' or o.type == 'flag' or value == value and value >= (o.min or value)
    and value <= (o.max or value)
end

--- The reason why an output file of a long run could not be written, or nothing.
local function unwritable(path)
  local fine, message = pcall(core.check_writable, 'args', path)
  return not fine and path ~= '' and message:match "cannot write '.*': (.*)$" or nil
end

--- Checks that the choices are a list of distinct strings; o.spelling has each by its lower case.
local function check_choices(o)
  local list, spelling = o.choices, {}
  check(type(list) == 'table' and #list > 0, "'%s' has no choices", o.name)
  for _, choice in ipairs(list) do
    check(type(choice) == 'string', "the choices of '%s' must be strings", o.name)
    check(not spelling[choice:lower()], "'%s' has the choice '%s' twice", o.name, choice)
    spelling[choice:lower()] = choice
  end
  o.spelling = spelling
  if o.default == nil and not o.required then o.default = list[1] end
end

--- An option from its fields, checked. Its flag is `--` and its name with dashes.
local function checked(o)
  check(type(o.name) == 'string', 'every option needs a name, got %s', core.describe(o.name))
  o.name = o.name:gsub('-', '_')
  check(o.name:find '^%a[%w_]*$' and o.name:lower() ~= 'help' and o.name:lower() ~= 'h',
    "'%s' cannot be the name of a flag", o.name)
  for field, kind in pairs(field_types) do
    local wanted = o[field] ~= nil and core.misfit(kind, o[field])
    check(not wanted, "the %s of '%s' must be %s, got %s", field, o.name, wanted, core.describe(o[field]))
  end
  if type(o.default) == 'table' then o.choices, o.default = o.default, nil end
  if o.choices then
    check_choices(o)
    o.type = 'string'
  end
  o.type = o.type or o.endings and 'output' or lua_kinds[type(o.default)] or o.default == nil and
    ((o.min or o.max) and 'number' or 'string')
  check(o.type, "the default of '%s' must be a number, a string, a boolean or a list of choices, got %s", o.name,
    core.describe(o.default))
  if o.type == 'flag' and o.default == nil then o.default = false end
  check(o.default == nil or fits(o, o.default),
    "the default of '%s' must be %s, got %s", o.name, expected(o), core.describe(o.default))
  o.flag = '--' .. o.name:gsub('_', '-')
  return o
end

--- {'hidden', 100, 'units of each layer', min = 1}: name, default and help by position or by name.
local function entry(k, given)
  check(type(given) == 'table',
    "every option needs a name, got the key %s: write name = default or {'name', default, 'what it is for'}", k)
  local o, places = {}, {'name', 'default', 'help'}
  for key, value in pairs(given) do
    key = places[key] or key
    check(field_types[key], "entry %d, '%s': unknown field '%s'%s", k, tostring(given[1] or given.name), key,
      util.hint(key, util.sorted_keys(field_types)))
    o[key] = value
  end
  return checked(o)
end

--- All options: the listed ones in order, those by name alphabetically, then those of every script.
local function read(defaults)
  local listed = util.map(defaults, function(given, k) return entry(k, given) end)
  for _, key in ipairs(util.sorted_keys(defaults)) do
    local is_name = type(key) == 'string'
    check(is_name or listed[key], 'every option needs a name, got the key %s', core.describe(key))
    if is_name then listed[#listed + 1] = checked{name = key, default = defaults[key]} end
  end
  local options, by_flag = {}, {}
  local function add(o)
    check(not by_flag[o.flag:lower()], "'%s' is declared twice", o.name)
    options[#options + 1], by_flag[o.flag:lower()] = o, o
  end
  for _, o in ipairs(listed) do add(o) end
  for _, o in ipairs{
    {name = 'device', default = 'cpu', help = 'where tensors are computed: cpu, cuda or cuda:0', metavar = 'NAME'},
    {name = 'threads', default = core.get_num_threads(), help = 'threads of the CPU', type = 'int', min = 1},
    {name = 'seed', default = 1, help = 'the start of all random numbers', type = 'int'},
  } do
    if by_flag['--' .. o.name] then
      o = by_flag['--' .. o.name]
      if o.name ~= 'device' then o.type = 'int' end
    else
      add(checked(o))
    end
  end
  return options, by_flag
end

-- The text of --help --------------------------------------------------------------------------------

--- The comment at the beginning of the script, without its dashes.
local function head(path)
  local lines = {}
  for line in (path and util.read_file(path) or ''):gmatch '([^\n]*)\n?' do
    if line:find '^%-%-' and not line:find '^%-%-%[=*%[' then lines[#lines + 1] = (line:gsub('^%-%-+ ?', ''))
    elseif #lines > 0 or not line:find '^#!' then break end
  end
  return #lines > 0 and table.concat(lines, '\n'):gsub('%s+$', '') .. '\n\n' or ''
end

local function metavar(o)
  if o.metavar then return ' ' .. o.metavar end
  if o.choices then return ' ' .. table.concat(o.choices, '|') end
  return o.type == 'flag' and '' or o.type == 'int' and ' N' or o.type == 'number' and ' X' or
    o.type == 'output' and ' FILE' or ' TEXT'
end

local function facts(o)
  local list = {(o.min or o.max) and limits(o)}
  if o.required then list[#list + 1] = 'needed' end
  local default = type(o.default) == 'number' and number_text(o.default) or tostring(o.default)
  if o.default == true then default = 'on' end
  if o.default ~= nil and o.default ~= '' and o.default ~= false then list[#list + 1] = 'default ' .. default end
  return #list > 0 and '(' .. table.concat(list, '; ') .. ')' or ''
end

local function help(options, script)
  local usage = ('Usage: mtorch %s [flags], --name value or --name=value'):format(script or 'script.lua')
  local lines = {head(script) .. usage}
  local left, width = {}, 0
  for i, o in ipairs(options) do
    left[i] = (o.type == 'flag' and o.default and '--[no-]' .. o.flag:sub(3) or o.flag) .. metavar(o)
    if #left[i] <= 28 then width = math.max(width, #left[i]) end
  end
  local room = math.max(math.min(core.columns(), 110) - width - 4, 30)
  local indent = (' '):rep(width + 4)
  for i, o in ipairs(options) do
    local text = util.wrap(((o.help or '') .. ' ' .. facts(o)), indent, room)
    if #left[i] > width then lines[#lines + 1] = '  ' .. left[i]
    else text = '  ' .. left[i] .. (' '):rep(width - #left[i] + 2) .. text:sub(#indent + 1) end
    if text:find '%S' then lines[#lines + 1] = (text:gsub('%s+$', '')) end
  end
  lines[#lines + 1] = '  --help' .. (' '):rep(width - 4) .. 'this text'
  return table.concat(lines, '\n') .. '\n'
end

-- Parsing -------------------------------------------------------------------------------------------

local yes = {['true'] = true, yes = true, on = true, ['1'] = true}
local no = {['false'] = true, no = true, off = true, ['0'] = true}

--- Converts a word to a value of the option, or returns nil.
local function converted(o, word)
  if o.type == 'output' then return fits(o, word) and word or nil end
  if o.choices then return o.spelling[word:lower()] end
  if o.type == 'string' then return word end
  if o.type == 'flag' then return yes[word:lower()] or (no[word:lower()] and false) end
  local value = tonumber(word)
  if value and fits(o, value) then return value end
  return nil
end

--- Returns the words' values by name; or nil and a message, which is '' for --help.
local function parse(options, by_flag, words)
  local values, i = {}, 1
  for _, o in ipairs(options) do values[o.name] = o.default end
  while i <= #words do
    local word = tostring(words[i])
    local flag, value = word:match '^(%-%-[^=]*)=(.*)$'
    flag = (flag or word):gsub('(.)_', '%1-')
    local o, negated = by_flag[flag:lower()], false
    if not o and flag:lower():sub(1, 5) == '--no-' then
      o = by_flag['--' .. flag:lower():sub(6)]
      negated = true
      if o and (o.type ~= 'flag' or value) then o = nil end
    end
    if flag:lower() == '--help' or flag == '-h' then return nil, '' end
    if not o then
      if word:sub(1, 2) ~= '--' then return nil, ("'%s' is not a flag; see --help"):format(word) end
      local names = {}
      for _, known in ipairs(options) do
        names[#names + 1] = known.flag
        if known.type == 'flag' then names[#names + 1] = '--no-' .. known.flag:sub(3) end
      end
      local near = core.nearest(names, flag)
      return nil, ('unknown flag %s%s'):format(word, near ~= '' and (' (did you mean %s?)'):format(near)
        or '; see --help')
    end
    if o.type == 'flag' then
      value = value or (negated and 'false' or 'true')
    elseif not value then
      i = i + 1
      value = words[i] and tostring(words[i])
      if not value or value:find '^%-%-%S*$' then -- the next flag; one with spaces, '--epochs 2', is a text
        return nil, ('%s needs a value, %s'):format(o.flag, expected(o))
      end
    end
    values[o.name] = converted(o, value)
    if values[o.name] == nil then
      local shown = tonumber(value) and value or ("'%s'"):format(value)
      return nil, ('%s must be %s, got %s'):format(o.flag, expected(o), shown)
    end
    if o.type == 'output' and value == '' then values[o.name] = o.default and '' end
    local reason = o.type == 'output' and unwritable(value)
    if reason then return nil, ("%s: '%s' cannot be written: %s"):format(o.flag, value, reason) end
    i = i + 1
  end
  for _, o in ipairs(options) do
    if o.required and values[o.name] == nil then
      return nil, ('%s is needed%s'):format(o.flag, o.help and ': ' .. o.help or '')
    end
  end
  return values
end

return core.declare('args(..)', "The script's flags, mt.args{hidden=100, rate=0.05, dataset={'split', 'xor'}}: " ..
  "types from the defaults, a list is a choice, dry_run is --dry-run; {'hidden', 100, 'units of each layer', " ..
  "type='int', min=1} says more, mt.help('flags'); --device --threads --seed --help always. Returns their values.",
function(defaults, arguments)
  check(type(defaults) == 'table', 'a table of defaults is needed, got %s', core.describe(defaults))
  local words = type(arg) == 'table' and arg or {} -- the script may have changed this global
  arguments = arguments or words
  check(type(arguments) == 'table', 'a list of words is needed, got %s', core.describe(arguments))
  local script = type(words[0]) == 'string' and words[0]
  local options, by_flag = read(defaults)
  local values, message = parse(options, by_flag, arguments)
  if message == '' then
    io.stdout:write(help(options, script))
    os.exit(0)
  end
  local reason = values and core.device_unavailable_reason(values.device) or ''
  for _, effect in ipairs{{core.set_num_threads, 'threads'}, {require('mtorch').manual_seed, 'seed'}} do
    if values and reason == '' then
      local ok, problem = pcall(effect[1], values[effect[2]])
      reason = ok and '' or problem:gsub('^.-:%d+: [%w_]+', '--' .. effect[2])
    end
  end
  if reason ~= '' then values, message = nil, reason end
  if not values then
    io.stderr:write('mtorch: ', script or 'script', ': ', message, '\n')
    os.exit(2)
  end
  return values
end)
