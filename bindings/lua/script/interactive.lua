-- interactive.lua -- what the prompt and notebooks share: evaluation, completion and help at the cursor
--
--   fn, problem = load(text, name)                compiles a chunk; its top-level locals last
--   items, start = complete(text, cursor)         {text =, kind =, help =}.., which replace text:sub(start, cursor)
--   help = inspect(text, cursor)                  help for the name at the cursor, or the function that is called there
--
-- `cursor` is the number of bytes before the cursor. Neither completion nor inspection calls functions of the text.
local core = require 'mtorch.core'
local mt = require 'mtorch'
local modules = require 'mtorch.help.modules'
local object = require 'mtorch.core.object'
local util = require 'mtorch.core.util'

local interactive = {}

-- ---- tokens ----------------------------------------------------------------------------------------

local keywords = util.word_set [[and break do else elseif end false for function goto if in local nil not or repeat
  return then true until while]]

--- Where the long bracket [==[ that begins at `at` ends, and where its content begins; nothing if there is none.
local function long_bracket(text, at)
  local level, inside = text:match('^%[(=*)%[()', at)
  if not level then return nil end
  local _, to = text:find(']' .. level .. ']', inside, true)
  return to or #text, inside, not to
end

local function quoted(text, at)
  local quote, to = text:sub(at, at), at
  while true do
    to = text:find('[\\\n' .. quote .. ']', to + 1)
    if not to or text:sub(to, to) == '\n' then return to and to - 1 or #text, at + 1, true end
    if text:sub(to, to) == quote then return to, at + 1 end
    to = to + 1
  end
end

--- The token at a position, {kind =, text =, from =, to =}; of an unfinished string also `inside`, where it begins.
local function token_at(text, at)
  local kind, to, inside, open = 'symbol'
  local rest = text:sub(at, at + 2)
  if rest:find '^[%a_\128-\255]' then
    to = text:match('^[%w_\128-\255]+()', at) - 1
    kind = keywords[text:sub(at, to)] and 'keyword' or 'name'
  elseif rest:find '^%.?%d' then
    kind, to = 'number', text:match('^%.?%d[%w.]*()', at) - 1
    if text:find('^[eE][+-]%d', to) and not rest:find '^0[xX]' then to = text:match('^%d+()', to + 2) - 1 end
  elseif rest:find '^["\']' then
    kind, to, inside, open = 'string', quoted(text, at)
  elseif rest:find '^%[=*%[' and long_bracket(text, at) then
    kind, to, inside, open = 'string', long_bracket(text, at)
  else
    to = at + #(rest:match '^%.%.%.' or rest:match '^%.%.' or rest:match '^[=~<>]=' or rest:match '^::' or ' ') - 1
  end
  return {kind = kind, text = text:sub(at, to), from = at, to = to, inside = open and inside or nil}
end

--- The tokens of a text, without comments, and whether it ends inside a comment.
local function tokens_of(text)
  local tokens, at = {}, text:find '%S'
  while at do
    local to
    if text:sub(at, at + 1) == '--' then
      local close, _, open = long_bracket(text, at + 2)
      to = close or text:match('^[^\n]*()', at) - 1
      if open or not close and to == #text then return tokens, true end
    else
      tokens[#tokens + 1] = token_at(text, at)
      to = tokens[#tokens].to
    end
    at = text:find('%S', to + 1)
  end
  return tokens, false
end

interactive.tokens = tokens_of

--- The text in one line, for the history: the same program without comments. Strings of several lines stay.
function interactive.one_line(text)
  local parts, last = {}, nil
  for i, token in ipairs(tokens_of(text)) do
    local gap = last and text:sub(last.to + 1, token.from - 1) or ''
    parts[2 * i - 1], parts[2 * i] = (gap:find '\n' or gap:find '%-%-') and ' ' or gap, token.text
    last = token
  end
  return table.concat(parts)
end

-- ---- evaluation ------------------------------------------------------------------------------------

-- The locals that chunks declared at their top level: name -> a closure whose upvalue is the variable. A chunk that
-- uses one gets it as an upvalue, so that functions, kernels and data workers see what they would see in a script.
local variables = {}

local function new_variable(value)
  return function(...) -- assigns, too: LuaJIT takes an upvalue that nothing assigns for a constant
    if select('#', ...) > 0 then value = ... end
    return value
  end
end

local function value_of(name)
  if variables[name] then return variables[name]() end
  return rawget(_G, name)
end

local opens = {['('] = 1, ['['] = 1, ['{'] = 1, ['function'] = 1, ['do'] = 1, ['if'] = 1, ['repeat'] = 1,
  [')'] = -1, [']'] = -1, ['}'] = -1, ['end'] = -1, ['until'] = -1}
local closes_expression = util.word_set ') ] } end nil true false ...'
local begins_expression = util.word_set 'function not nil true false ... #'

--- Where the last statement begins, and the places of top-level `local`s: {token, names.., bare = token}.
local function outline(tokens)
  local depth, start, locals = 0, nil, {}
  for i, token in ipairs(tokens) do
    local before = tokens[i - 1]
    local is_value = token.kind == 'name' or token.kind == 'number' or begins_expression[token.text]
    if depth == 0 and (not before or before.text == ';' or is_value and
        (closes_expression[before.text] or before.kind == 'name' or before.kind == 'number' or before.kind == 'string'))
    then
      start = token
    end
    if depth == 0 and token.text == 'local' then
      local found, at = {token}, i + 1
      if tokens[at] and tokens[at].text == 'function' then
        found[2] = tokens[at + 1] and tokens[at + 1].text
      else
        repeat
          found[#found + 1] = tokens[at] and tokens[at].text
          at = at + 2
        until not tokens[at - 1] or tokens[at - 1].text ~= ','
        if not tokens[at - 1] or tokens[at - 1].text ~= '=' then found.bare = tokens[at - 2] end
      end
      locals[#locals + 1] = found
    end
    depth = depth + (token.kind ~= 'string' and opens[token.text] or 0)
  end
  return start, locals
end

--- text with `by` put at positions, from the last one on: {at, length of what it replaces, by}.
local function edited(text, edits)
  table.sort(edits, function(a, b) return a[1] > b[1] end)
  for _, edit in ipairs(edits) do text = text:sub(1, edit[1] - 1) .. edit[3] .. text:sub(edit[1] + edit[2]) end
  return text
end

--- The same text with top-level locals as variables that last, in a function with these variables as upvalues.
local function lasting(text, name, tokens, locals, edits)
  local used = {}
  for _, found in ipairs(locals) do
    edits[#edits + 1] = {found[1].from, 5, ''}
    if found.bare then edits[#edits + 1] = {found.bare.to + 1, 0, ' = nil'} end
    for i = 2, #found do used[found[i]] = true end
  end
  for i, token in ipairs(tokens) do
    local before = i > 1 and tokens[i - 1].text
    if variables[token.text] and before ~= '.' and before ~= ':' then used[token.text] = true end
  end
  local names = util.sorted_keys(used)
  if #names == 0 then return loadstring(edited(text, edits), name) end
  while #names > 60 do names[#names] = nil end -- LuaJIT's limit of upvalues: the others are globals
  local make = loadstring(('local %s return function(...) %s\nend'):format(table.concat(names, ','),
    edited(text, edits)), name)
  if not make then return nil end
  local fn = make()
  for i, upvalue in util.upvalues(fn) do
    variables[upvalue] = variables[upvalue] or new_variable(rawget(_G, upvalue))
    debug.upvaluejoin(fn, i, variables[upvalue], 1)
  end
  return fn
end

local function results(...) return ... end

--- Whether more lines may complete a text that does not compile, with its message: it ends too early.
function interactive.is_unfinished(text, message)
  local tokens, _, other = tokens_of(text), loadstring('return ' .. text)
  local last = tokens[#tokens]
  local quote = last and last.inside and last.text:find '^["\']' and not last.text:find '\\$' -- ends with its line
  return not quote and (message:find "'<eof>'$" or other and other:find "'<eof>'$") ~= nil
end

--- Compiles a chunk whose top-level locals last. Returns a function that runs it and returns the values of the last
--- statement if that is an expression; or nil, the message, and whether more lines may complete the text.
function interactive.load(text, name)
  local tokens = tokens_of(text)
  local fn, message = loadstring(text, name)
  local start, locals = outline(tokens)
  -- The values are arguments of a function that returns them, because a tail call would lose the line of an error.
  local edits = start and {{start.from, 0, ' return (...)('}, {tokens[#tokens].to + 1, 0, ')'}} or {}
  local with_values = loadstring(edited(text, edits), name)
  if not with_values then
    edits = {}
    if not fn then
      local unfinished = interactive.is_unfinished(text, message)
      return nil, unfinished and message or require('mtorch.help.hints').syntax(message, text), unfinished
    end
  end
  fn = lasting(text, name, tokens, locals, edits) or with_values or fn
  table.insert(core.chunks(name), text) -- grid kernels are compiled from their source
  return function() return fn(results) end
end

--- Keeps what a chunk gave: _ is its first value, _2 to _9 those of the chunks before.
function interactive.keep(...)
  if select('#', ...) == 0 then return end
  for i = 9, 2, -1 do
    rawset(_G, '_' .. i, rawget(_G, i == 2 and '_' or '_' .. i - 1))
  end
  rawset(_G, '_', (...))
end

-- ---- values ----------------------------------------------------------------------------------------

--- The value of `a.b[1].c` that ends with the token at `last`, and the index of its first token.
local function value_at(tokens, last)
  local token = tokens[last]
  local before = tokens[last - 1]
  if not token or not before and token.kind ~= 'name' then return nil, last end
  if token.text == ']' then
    local key = before.kind == 'string' and before.text:sub(2, -2) or tonumber(before.text)
    if key == nil or not tokens[last - 2] or tokens[last - 2].text ~= '[' then return nil, last end
    local owner, first = value_at(tokens, last - 3)
    return util.field(owner, key), first
  elseif token.kind ~= 'name' then return nil, last
  elseif before and (before.text == '.' or before.text == ':') then
    local owner, first = value_at(tokens, last - 2)
    return util.field(owner, token.text), first
  end
  return value_of(token.text), last
end

--- The names that may follow `value.` (or `value:`): name -> value, or true where finding it would load a module. What
--- a call returns is not known; tensors are most likely.
local function names_of(value, colon, of_call)
  local names = {}
  local function add(object)
    for key, inner in pairs(object) do
      if type(key) == 'string' then names[key] = inner end
    end
  end
  if type(value) == 'string' then
    add(string)
  elseif of_call or mt.is_tensor(value) then
    core.complete()
    add(core.methods)
    for name in (colon and '' or 'shape dtype device grad requires_grad is_leaf ndim T mT'):gmatch '%S+' do
      names[name] = true
    end
  elseif type(value) == 'table' or object.unwrap(value) then
    value = object.unwrap(value) or value
    local meta = getmetatable(value)
    if type(meta) == 'table' and meta.open then names = core.name_set(value) end
    for _, key in ipairs(rawget(value, '__fields') or {}) do -- of a module
      if type(key) == 'string' then names[key] = true end
    end
    local class = rawget(value, '__class') -- of a module
    for _, entry in ipairs(type(meta) == 'table' and meta.__methods or {}) do
      names[entry[1]:match '^[%w_]+'] = true
    end
    local base = class or type(meta) == 'table' and (type(meta.__index) == 'table' and meta.__index or
      meta.__family and meta)
    while type(base) == 'table' do
      add(base)
      meta = getmetatable(base)
      base = type(meta) == 'table' and meta.__index
    end
    add(value)
  end
  return names
end

-- ---- completion ------------------------------------------------------------------------------------

-- What is most often meant, in the order of use in scripts; other names follow in alphabetical order.
local likely = {}
local order = [[
  mt nn optim print local function for if return require shape dtype device grad item sum view mean to size matmul
  reshape t tolist detach backward requires_grad requires_grad_ float long max min argmax clone parameters forward
  zero_grad step train eval state_dict load_state_dict flatten squeeze unsqueeze transpose permute expand narrow
  select cpu cuda eq gt lt exp log abs sqrt square relu sigmoid tanh softmax std var norm any all clamp numel dim
  contiguous add_ mul_ fill_ copy_ zero_ cat cumsum sort topk gather index_select masked_fill at double int bool
  tensor zeros ones randn rand randint randperm range full eye linspace stack no_grad manual_seed save load data
  plot metrics cross_entropy mse_loss compile map args progress help Linear ReLU Sequential Conv2d class Module
  Parameter Embedding MaxPool2d Flatten LayerNorm BatchNorm2d Dropout ModuleList LSTM GRU SGD Adam AdamW lr
  DataLoader TensorDataset digits mnist csv line scatter hist heatmap images iter]]
for at, name in order:gmatch '()(%S+)' do likely[name] = at end

local function kind_of(value)
  if core.is_callable(value) then return type(value) == 'function' and 'function' or 'class' end
  return type(value) == 'table' and 'module' or 'field'
end

--- The items of names that begin with `begun`, the most likely ones first. values: name -> value.
local function items_of(values, begun, kind)
  local items = {}
  for name, value in pairs(values) do
    if name:sub(1, #begun) == begun and (begun ~= '' or not name:find '^_') then
      local signature = core.is_callable(value) and core.entry(value) or nil
      items[#items + 1] = {text = name, kind = kind or kind_of(value), help = signature}
    end
  end
  table.sort(items, function(a, b)
    local x, y = likely[a.text] or 1e9, likely[b.text] or 1e9
    return x < y or x == y and a.text < b.text
  end)
  return items
end

--- The innermost bracket that is open at the end of the tokens: its index, and that of the one around it.
local function open_brackets(tokens)
  local open = {}
  for i, token in ipairs(tokens) do
    if token.kind == 'symbol' and token.text:find '^[({%[]$' then open[#open + 1] = i end
    if token.kind == 'symbol' and token.text:find '^[)}%]]$' then open[#open] = nil end
  end
  return open[#open], open[#open - 1]
end

--- What is called at the end of the tokens: {value =, first =, last = its tokens, options = whether the end is in the
--- table of its options, argument = the number of the argument or the name of the option}; nothing outside of calls.
local function call_at(tokens)
  local inner, outer = open_brackets(tokens)
  if not inner then return nil end
  local in_table = tokens[inner].text == '{'
  local open = inner
  if in_table and outer and tokens[outer].text == '(' then open = outer end
  if open == 1 or tokens[open].text == '[' then return nil end
  local value, first = value_at(tokens, open - 1)
  local method = open > 2 and tokens[open - 2].text == ':' and core.methods[tokens[open - 1].text]
  if value == nil then value, first = method, open - 1 end
  if not core.is_callable(value) then return nil end
  local is_method = method == value
  local argument, depth = is_method and 2 or 1, 0
  for i = open + 1, #tokens do
    local token = tokens[i]
    if depth == 0 and token.text == ',' then argument = argument + 1 end
    if token.kind == 'symbol' then depth = depth + (opens[token.text] or 0) end
  end
  if in_table then
    argument = #tokens > 1 and tokens[#tokens].text == '=' and tokens[#tokens - 1].text or nil
  end
  return {value = value, first = first, last = open - 1, options = in_table, argument = argument}
end

--- The parameter at the end of the tokens, as core.parameters describes it, or nothing.
local function parameter_at(call)
  for i, p in ipairs(call and core.parameters(call.value) or {}) do
    if i == call.argument or p.name == call.argument then return p end
  end
end

local dtypes = 'float32 float64 int64 int32 uint8 bool float16 bfloat16 int8 int16 float8_e4m3fn float8_e5m2'
local devices = 'cpu cuda'

--- The texts that a parameter accepts, for its type in a signature.
local function choices_of(p)
  local words = p.name == 'dtype' and dtypes or p.name == 'device' and devices or
    p.name == 'target' and dtypes .. ' ' .. devices or '' -- of x:to
  local choices = util.word_set(words)
  for word in p.type:gmatch "'([^']*)'" do choices[word] = true end
  return choices
end

local function help_names()
  local names = util.merged(require('mtorch.help.topics').text, util.set(modules.names), names_of(mt))
  return util.set(util.sorted_keys(names))
end

--- The files and folders that begin with a path; folders end in /.
local function files(begun)
  local folder, name = begun:match '^(.*/)([^/]*)$'
  local items = {}
  local ok, plain, folders = pcall(core.formats().list_folder, 'complete', folder or '.')
  for kind, list in pairs(ok and {file = plain, folder = folders} or {}) do
    for _, entry in ipairs(list) do
      if entry:sub(1, #(name or begun)) == (name or begun) and (entry:sub(1, 1) ~= '.' or begun:find '^%.') then
        items[#items + 1] = {text = (folder or '') .. entry .. (kind == 'folder' and '/' or ''), kind = kind}
      end
    end
  end
  table.sort(items, function(a, b) return a.text < b.text end)
  return items
end

--- Completes inside a string: topics of help, choices of a parameter, or files.
local function complete_string(tokens, begun)
  local before = value_at(tokens, #tokens) -- of mt.load 'path', without brackets
  local call = core.is_callable(before) and {value = before, argument = 1} or call_at(tokens)
  if call and (call.value == mt.help or call.value == value_of 'help') then
    return items_of(help_names(), begun, 'topic')
  end
  local p = parameter_at(call)
  local choices = p and choices_of(p) or {}
  if next(choices) then return items_of(choices, begun, 'option') end
  return files(begun)
end

--- The names of the options that a call's table may have, `bias=`, where one may begin.
local function options_of(call, tokens)
  local last = tokens[#tokens]
  local names = {}
  if not (call and call.options and last and (last.text == '{' or last.text == ',')) then return names end
  local list = core.parameters(call.value) or {}
  for _, p in ipairs(list) do
    if p.default ~= nil or #tokens > 0 and not p.list then names[p.name .. '='] = true end
  end
  if list.out then names['out='] = true end
  return names
end

--- The completions of the text before the cursor, most likely first, and the position of what they replace.
function interactive.complete(text, cursor)
  text = text:sub(1, cursor or #text)
  local tokens, in_comment = tokens_of(text)
  local last = tokens[#tokens]
  if in_comment then return {}, #text + 1 end
  if last and last.inside then
    tokens[#tokens] = nil
    return complete_string(tokens, text:sub(last.inside)), last.inside
  end
  local begun = ''
  if last and last.to == #text and (last.kind == 'name' or last.kind == 'keyword') then
    begun, tokens[#tokens] = last.text, nil
  end
  local start, separator = #text - #begun + 1, tokens[#tokens]
  if separator and (separator.text == '.' or separator.text == ':') then
    local before = tokens[#tokens - 1]
    return items_of(names_of((value_at(tokens, #tokens - 1)), separator.text == ':', before and before.text == ')'),
      begun), start
  end
  local options = items_of(options_of(call_at(tokens), tokens), begun, 'option')
  if #options > 0 then return options, start end
  local names = names_of(_G)
  for name in pairs(variables) do names[name] = value_of(name) end
  for word in pairs(keywords) do names[word] = true end
  return items_of(names, begun), start
end

-- ---- help ------------------------------------------------------------------------------------------

local function help_text(name)
  require 'mtorch.help'
  return core.help_text(name)
end

--- The head of a function that has no help: "function(x, y) of train.lua:12".
local function head_of(f)
  local info, names = debug.getinfo(f, 'S'), {}
  if info.what == 'C' or info.source:find '^@mtorch/' then return 'function of the library' end
  while debug.getlocal(f, #names + 1) do names[#names + 1] = debug.getlocal(f, #names + 1) end
  if require('jit.util').funcinfo(f).isvararg then names[#names + 1] = '...' end
  return ('function(%s) of %s'):format(table.concat(names, ', '), core.place_of(f))
end

--- The answer to a function at the prompt: how it is called and the first sentence of its help, or its head.
function interactive.line_of(f)
  local signature, doc = core.entry(f)
  return signature and ('%s: %s'):format(signature, doc:match '^(.-%.)%s%u' or doc) or head_of(f)
end

--- The help of a value that goes by the text `shown`, or nothing.
local function described(value, shown)
  if value == nil then return nil end
  if core.is_callable(value) and core.entry(value) then
    return help_text(shown:find '^mt%.' and shown or type(value) == 'table' and value.__name or value)
  end
  if modules.name_of(value) then return help_text(modules.name_of(value)) end
  if type(value) == 'function' then
    local ok, help = pcall(help_text, shown:match '[%w_]*$') -- a method of an object
    return debug.getinfo(value, 'S').source:find '^@mtorch/' and ok and help or head_of(value)
  end
  return ('%s is %s'):format(shown, core.describe(value))
end

--- Help for the name at the cursor, or else the function whose arguments are there; nothing where neither is known.
function interactive.inspect(text, cursor)
  cursor = cursor or #text
  text = text:sub(1, cursor) .. text:match('^[%w_]*', cursor + 1)
  local tokens = tokens_of(text)
  local last = tokens[#tokens]
  if last and (last.kind == 'name' or last.text == ']') then
    local value, first = value_at(tokens, #tokens)
    local shown = text:sub(tokens[first].from, last.to)
    local found = described(value, shown)
    if found then return found end
    local ok, help = pcall(help_text, shown)
    if ok then return help end
  end
  local call = call_at(tokens)
  return call and described(call.value, text:sub(tokens[call.first].from, tokens[call.last].to))
end

return interactive
