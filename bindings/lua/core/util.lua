-- util.lua -- helpers of several modules: option checks, text, terminal, files
local core = require 'mtorch.core'

local util = {}

local floor, max = math.floor, math.max

--- `: did you mean 'x'?` for an unknown name, or the list of the known ones.
function util.hint(name, names)
  local near = core.nearest(names, tostring(name))
  if near ~= '' then return (": did you mean '%s'?"):format(near) end
  return ': known are ' .. table.concat(names, ', ')
end

--- The keys of `t` as a list: numbers in order, then strings in order, then the rest in the order of `next`.
function util.sorted_keys(t)
  local keys, strings, rest = {}, {}, {}
  local of = {number = keys, string = strings}
  for key in next, t do
    local list = of[type(key)] or rest
    list[#list + 1] = key
  end
  table.sort(keys)
  table.sort(strings)
  return util.append(util.append(keys, strings), rest)
end

function util.count_keys(t)
  local n = 0
  for _ in next, t do n = n + 1 end
  return n
end

--- Whether a table has only the elements 1 to #t.
function util.is_list(t) return util.count_keys(t) == #t end

--- Whether a value is a whole number from low to high, each of which may be nil.
function util.is_whole(value, low, high)
  return type(value) == 'number' and value % 1 == 0 and value >= (low or value) and value <= (high or value)
end

local function get(object, name) return object[name] end

--- object[name], or nil where reading it raises an error.
function util.field(object, name)
  local ok, value = pcall(get, object, name)
  if ok then return value end
end

--- A tensor (anything with `:tolist()`) as numbers or nested lists; other values unchanged.
function util.plain(value)
  local kind = type(value)
  local has_fields = kind == 'userdata' or kind == 'cdata' or kind == 'table' and getmetatable(value)
  if has_fields and util.field(value, 'tolist') then return value:tolist() end
  return value
end

--- The number, boolean or string in a tensor or nested list with one element; other values unchanged.
function util.scalar(value)
  value = util.plain(value)
  for _ = 1, 32 do -- a list may contain itself
    if type(value) ~= 'table' or #value ~= 1 then break end
    value = value[1]
  end
  return value
end

--- The list of f(value, i) for the values of a list.
function util.map(list, f)
  local mapped = {}
  for i, value in ipairs(list) do mapped[i] = f(value, i) end
  return mapped
end

--- The list f(1), .., f(n).
function util.tabulate(n, f)
  local list = {}
  for i = 1, n do list[i] = f(i) end
  return list
end

--- The list of the values of a list for which keep(value, i) is true.
function util.filter(list, keep)
  local kept = {}
  for i, value in ipairs(list) do
    if keep(value, i) then kept[#kept + 1] = value end
  end
  return kept
end

--- The values of a list as a set, {value = true}.
function util.set(list)
  local set = {}
  for _, value in ipairs(list) do set[value] = true end
  return set
end

--- Adds the values of another list at the end of a list, and returns it.
function util.append(list, more)
  for _, value in ipairs(more) do list[#list + 1] = value end
  return list
end

--- A new table with the fields of several tables, some of which may be nil; those of later ones replace others.
function util.merged(...)
  local all = {}
  for i = 1, select('#', ...) do
    for key, value in pairs((select(i, ...)) or {}) do all[key] = value end
  end
  return all
end

--- The number in a value, see util.scalar. Raises an error for others: message, a format of their description.
function util.number_in(value, message)
  local number = util.scalar(value)
  if type(number) ~= 'number' then core.fail(message, core.describe(value)) end
  return number
end

--- A copy of nested plain tables, with each other value x replaced by leaf(x).
function util.map_leaves(value, leaf)
  if type(value) ~= 'table' or getmetatable(value) ~= nil then return leaf(value) end
  local copy = {}
  for key, inner in pairs(value) do copy[key] = util.map_leaves(inner, leaf) end
  return copy
end

--- The name if it is not in the set `taken`, else the first of format:format(name, 2), (name, 3) .. that is not; it is
--- added to the set.
function util.unused_name(taken, name, format)
  local free, n = name, 1
  while taken[free] do
    n = n + 1
    free = format:format(name, n)
  end
  taken[free] = true
  return free
end

--- A number as text with at most `digits` significant digits: 0.5518, 1e-5, 1.5e7, nan.
function util.number_text(value, digits)
  if value ~= value then return 'nan' end
  return (('%.' .. (digits or 4) .. 'g'):format(value):gsub('e([+-])0*(%d)', function(sign, digit)
    return (sign == '-' and 'e-' or 'e') .. digit
  end))
end

--- n in the largest unit that it reaches, or in the last one: util.in_units('%.3g %s', 0.5, 1, 's', 1e-3, 'ms').
function util.in_units(format, n, ...)
  for i = 1, select('#', ...), 2 do
    local size, unit = select(i, ...)
    if n >= size or i + 1 == select('#', ...) then return format:format(n / size, unit) end
  end
end

--- A whole number as text: 1,234,567.
function util.thousands(n) return (tostring(n):reverse():gsub('%d%d%d', '%0,'):reverse():gsub('^,', '')) end

local function finish(after, ok, ...)
  after()
  if not ok then error((...), 0) end
  return ...
end
--- The results of fn(..); calls after() then, also if fn raises an error.
function util.finally(after, fn, ...) return finish(after, pcall(fn, ...)) end

--- Calls visit(text) for the string constants of a function and of its inner functions: among others names of fields.
function util.each_string(code, visit)
  local jit_util = require 'jit.util'
  for k = 1, jit_util.funcinfo(code).gcconsts do
    local constant = jit_util.funck(code, -k)
    if type(constant) == 'proto' then util.each_string(constant, visit)
    elseif type(constant) == 'string' then visit(constant) end
  end
end

--- The result of f(..); its errors get the prefix `what` instead of their position.
function util.attempt(what, f, ...)
  local ok, result = pcall(f, ...)
  if not ok then core.fail('%s: %s', what, (tostring(result):gsub('^.-:%d+: ', ''))) end
  return result
end

local function next_upvalue(f, i)
  local name, value = debug.getupvalue(f, i + 1)
  if name then return i + 1, name, value end
end
--- `for i, name, value in util.upvalues(f) do`: iterates over the upvalues of a function.
function util.upvalues(f) return next_upvalue, f, 0 end

--- The innermost frame outside the library, as debug.getinfo(level, 'Sl') gives it, or nil.
function util.user_frame()
  for level = 2, 200 do
    local info = debug.getinfo(level, 'Sl')
    if not info or info.currentline > 0 and not info.source:find '^@mtorch/' then return info end
  end
end

--- An iterator over the values of a list, or over those of two: for a, b in util.values(list, other) do.
function util.values(list, other)
  local i = 0
  return function()
    i = i + 1
    if other then return list[i], other[i] end
    return list[i]
  end
end

--- An iterator over the batches of a loader, a list, or an iterator, which may be a mt.progress.
function util.batches(name, loader)
  if type(loader) == 'function' then return loader end
  local meta = getmetatable(loader)
  if type(meta) == 'table' and loader.iter then return loader:iter() end
  core.check(type(loader) == 'table',
    '%s: a loader, a list of batches or an iterator is needed, got %s', name, core.describe(loader))
  if meta and meta.__call then return loader end
  return util.values(loader)
end

-- Text --------------------------------------------------------------------------------------------

--- The number of characters (code points) of a UTF-8 text.
function util.length(text)
  local _, continuation = text:gsub('[\128-\191]', '')
  return #text - continuation
end

--- The text cut to `limit` characters, the last of which is then `mark` (default …).
function util.truncate(text, limit, mark)
  if util.length(text) <= limit then return text end
  local count, stop = 0, #text
  for i = 1, #text do
    local byte = text:byte(i)
    if byte < 128 or byte > 191 then count = count + 1 end
    if count == max(limit, 1) then stop = i - 1 break end
  end
  return text:sub(1, stop) .. (mark or '…')
end

--- The words of a text, a list.
function util.words(text)
  local list = {}
  for word in text:gmatch('%S+') do list[#list + 1] = word end
  return list
end

--- The words of a text as a set, {word = true}.
function util.word_set(text) return util.set(util.words(text)) end

--- The words of a text in lines of at most `width` characters, each after `indent`.
function util.wrap(text, indent, width)
  local lines, line = {}, ''
  for word in text:gmatch('%S+') do
    if #line + #word + 1 > width and line ~= '' then
      lines[#lines + 1], line = line, ''
    end
    line = line == '' and word or line .. ' ' .. word
  end
  lines[#lines + 1] = line
  return indent .. table.concat(lines, '\n' .. indent)
end

--- The texts of several values in a line, as print shows them; the lines of one stay below each other.
function util.side_by_side(texts)
  local shown, before = {}, ''
  for i, text in ipairs(texts) do
    if i > 1 then before = before .. '\t' end
    shown[i] = text:gsub('\n', '\n' .. before:gsub('[\128-\191]', ''):gsub('[^\t]', ' '))
    before = text:find '\n' and shown[i]:match '[^\n]*$' or before .. text
  end
  return table.concat(shown, '\t')
end

--- Whether larger values of a metric are better, by its name.
function util.larger_is_better(name)
  for _, word in ipairs{'loss', 'err', 'perplexity', 'bits', 'mse', 'mae', 'nll', 'time', 'second', '_m?s$'} do
    if name:lower():find(word) then return false end
  end
  return true
end

--- A duration in seconds as text: 12 µs, 3.4 ms, 5.6 s, 2m 05s, 1h 02m.
function util.duration_text(seconds, micro)
  local s = math.abs(seconds)
  if s ~= s or s == math.huge then return '-' end
  if s < 9.995e-4 then return util.number_text(seconds * 1e6, 3) .. ' ' .. (micro or 'µs') end
  if s < 0.9995 then return util.number_text(seconds * 1e3, 3) .. ' ms' end
  if s < 99.95 then return util.number_text(seconds, 3) .. ' s' end
  local whole = floor(seconds + 0.5)
  if whole < 3600 then return ('%dm %02ds'):format(floor(whole / 60), whole % 60) end
  return ('%dh %02dm'):format(floor(whole / 3600), floor(whole % 3600 / 60))
end

--- Lines of texts in columns, the first `left` of them left-aligned; rules below the first and the last line.
function util.aligned(lines, left)
  local rule = {}
  for c = 1, #lines[1] do
    local width = 0
    for _, line in ipairs(lines) do width = max(width, util.length(line[c])) end
    for _, line in ipairs(lines) do
      local space = (' '):rep(width - util.length(line[c]))
      line[c] = c <= left and line[c] .. space or space .. line[c]
    end
    rule[c] = ('-'):rep(width)
  end
  table.insert(lines, 2, rule)
  lines[#lines + 1] = rule
  return util.map(lines, function(line) return table.concat(line, '  ') end)
end

-- The terminal -----------------------------------------------------------------------------------

local function environment(name)
  local value = os.getenv(name)
  return value ~= '' and value or nil
end

--- Whether the locale's encoding is UTF-8 (LC_ALL, LC_CTYPE, LANG: the first one that is set).
function util.utf8()
  local locale = environment('LC_ALL') or environment('LC_CTYPE') or environment('LANG') or ''
  return locale:lower():find('utf%-?8') ~= nil
end

function util.is_utf8(text) return not text:find '[\128-\255]' or core.json_quoted(text) ~= nil end

--- The number of colours of the terminal at `fd`: 0 (no terminal, NO_COLOR, TERM=dumb), 256 or 2^24.
function util.colours(fd)
  if not core.isatty(fd) or environment('NO_COLOR') or os.getenv('TERM') == 'dumb' then return 0 end
  local depth = os.getenv('COLORTERM') or ''
  return (depth == 'truecolor' or depth == '24bit') and 2 ^ 24 or 256
end

local function cannot_write(op, path, why) core.fail("%s: cannot write '%s': %s", op, path, why:gsub('^.*: ', '')) end

--- Opens a file to which lines are appended.
function util.open_log(op, path, mode)
  local file, why = io.open(path, mode)
  return file or cannot_write(op, path, why)
end

--- Appends to such a file and flushes it.
function util.write_log(op, path, file, text)
  local ok, why = file:write(text)
  if ok then ok, why = file:flush() end
  if not ok then cannot_write(op, path, why) end
end

--- The bytes of a file, or the first of them; nil if it cannot be read.
function util.read_file(path, most)
  local file = io.open(path, 'rb')
  local text = file and file:read(most or '*a')
  if file then file:close() end
  return text
end

--- Whether a file can be opened.
function util.exists(path)
  local file = io.open(path, 'rb')
  if file then file:close() end
  return file ~= nil
end

--- Refuses options that are not in known, {name = type}, or whose value is not of that type.
function util.check_options(operation, options, known)
  core.check(type(options) == 'table', '%s: options must be a table, got %s', operation, core.describe(options))
  for _, key in ipairs(util.sorted_keys(options)) do
    local value, names = options[key], util.sorted_keys(known)
    if type(key) == 'string' and not known[key] then
      core.fail("%s: unknown option '%s'%s", operation, key, util.hint(key, names))
    end
    local expected = type(key) == 'string' and core.misfit(known[key], value)
    if expected then core.fail('%s: %s must be %s, got %s', operation, key, expected, core.describe(value)) end
  end
end

--- Writes a whole file or nothing, see engine/core/file.h; returns the path.
function util.write_file(op, path, text) return core.write_file(op, tostring(path), text) end

return util
