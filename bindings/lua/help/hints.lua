-- hints.lua -- what errors of Lua add in brackets: what Lua, or mtorch, has for habits of other languages
local core = require 'mtorch.core'
local mt = require 'mtorch'
local modules = require 'mtorch.help.modules'
local util = require 'mtorch.core.util'

-- Syntax errors, by the line without its texts and comment: {pattern, hint[, pattern that it does not have]}, the first
-- that fits.
local lines = {
  {'^%s*import%s+[%a_]', "Lua writes local mt = require 'mtorch'"},
  {'^%s*from%s.*import%s', "Lua writes local mt = require 'mtorch'"},
  {'^%s*class%s+[%a_]', "Lua has no classes: local Net = nn.class 'Net', then function Net:forward(x) .. end"},
  {'^%s*def%s+[%a_]', 'Lua writes function f(x) .. end'},
  {'^%s*func?%s+[%a_]', 'Lua writes function f(x) .. end'},
  {'^%s*with%s+[%a_]', 'Lua has no with: mt.no_grad(function() .. end)'},
  {'^%s*try%s*[:{]', 'Lua writes local ok, message = pcall(function() .. end)'},
  {'^%s*raise%s+[%a_]', "Lua writes error('what is wrong')"},
  {'^%s*throw%s+[%a_]', "Lua writes error('what is wrong')"},
  {'^%s*del%s+[%a_]', 'Lua writes x = nil'},
  {'^%s*let%s+[%a_]', 'Lua writes local x = 1'},
  {'^%s*const%s+[%a_]', 'Lua writes local x = 1'},
  {'^%s*var%s+[%a_]', 'Lua writes local x = 1'},
  {'^%s*assert%s+[%w_(]', "Lua writes assert(x == y, 'what is wrong')"},
  {'^%s*print%s+[%w_]', 'Lua writes print(x)'},
  {'%f[%w_]elif%f[^%w_]', 'Lua writes elseif'},
  {'%f[%w_]continue%f[^%w_]', 'Lua has no continue: goto continue .. ::continue::, or an if around the rest'},
  {'%f[%w_]lambda%f[^%w_]', 'Lua writes function(x) return x * 2 end'},
  {'%sis%s+not%s', 'Lua writes x ~= nil'},
  {'%sis%s+None', 'Lua writes x == nil'},
  {'%sif%s.+%selse%s', 'Lua writes condition and a or b', '%sthen%s'},
  {'%?.-:', 'Lua writes condition and a or b'},
  {'%[%s*:', "a column is x[{{}, 1}] or x[':, 1']"},
  {'%[[^%[%]]*%d%s*:', "rows 1 to 3 are x[{{1, 3}}] or x['1:3']"},
  {'[%w_]%[[^%[%](){}]*,', 'an element is x[{1, 2}], a column x[{{}, 2}]'},
  {'^%s*[ifwhleor]+%s.*:%s', 'Lua writes if x then .. end, while x do .. end, for i = 1, n do .. end'},
  {':%s*$', 'Lua writes if x then .. end, while x do .. end, for i = 1, n do .. end'},
}

-- Syntax errors, by the end of the message: {pattern, hint}.
local near = {
  {"near '!'$", '"not equal" is ~=, "not" is the word not'},
  {"'=' expected near '([-+*/])'$", 'there is no %1=: write x = x %1 1'},
  {"unexpected symbol near '%+'$", 'there is no ++: write x = x + 1'},
  {"unexpected symbol near '%*'$", 'a power is x ^ 2'},
  {"unexpected symbol near '%['$", 'a list is {1, 2}'},
  {"unexpected symbol near '#'$", 'a comment begins with --'},
  {"near '@'$", 'a product of matrices is x:matmul(y)'},
  {"'%)' expected near '='$", 'named options go in a table, f(x, {dim = 1})'},
  {"function arguments expected near '[%)%],]'$", 'a field is x.shape, a method is called, x:sum()'},
  {"near '&'$", '"and" is a word'},
  {'ambiguous syntax', 'a line that begins with ( continues the one before it: write ;( there'},
  {"near '|'$", '"or" is a word'},
}

local compares = '== of tensors asks whether they are one object; x:eq(y) compares elements'
-- Errors while a program runs: {pattern of the message, hint[, pattern of the line]}.
local running = {
  {'attempt to compare .*userdata', 'tensors are compared with x:lt(y), x:le(y), x:gt(y), x:ge(y)'},
  {'attempt to index .*boolean value', 'any and all of a whole tensor are Lua booleans already', ':a%l%l%('},
  {'attempt to index .*boolean value', compares},
  {'attempt to perform arithmetic on .*boolean value', compares},
  {'attempt to perform arithmetic on .*string value',
    "text is joined by .., repeated by s:rep(n), formatted by ('%d'):format(n)"},
  {"'for' limit must be a number", 'of a tensor it is x:item()'},
  {"'for' initial value must be a number", 'of a tensor it is x:item()'},
  {'number expected, got userdata', 'the number in a tensor is x:item()'},
  {"field 'data' %(a function value%)",
    'x:data() of a tensor is a pointer; mt.no_grad(function() x:copy_(y) end) writes values'},
  {"got a function; methods are called", 'x.data is a method that gives a pointer; ' ..
    'mt.no_grad(function() x:sub_(x.grad * lr) end) writes values', '%.data%f[^%w_]'},
  {"pairs' %(table expected, got userdata%)",
    'of a loader: for .. in loader:iter() do; of a tensor or set: for i = 1, #x do'},
  {'%(table expected, got userdata%)', "the list of a tensor's elements is x:tolist()"},
  {"pairs' %(table expected, got function%)", 'an iterator needs no pairs: for name, p in net:named_parameters() do'},
  {'attempt to call a table value', 'over a list: for i, value in ipairs(list) do'},
  {'attempt to call a userdata value', 'over the rows of a tensor: for i = 1, #x do local row = x[i] .. end',
    '%f[%w]in%f[%W]'},
  {"method 'training' %(a boolean value%)", 'it is a field; net:train() and net:eval() set it'},
  {"field 'grad' %(a nil value%)",
    'a gradient comes with backward, and to leaves: steps are mt.no_grad(function() w:sub_(w.grad * lr) end)'},
}

-- Global names that are nil: Python's, with their equivalents here, and in Lua.
local here = {torch = "here it is mt: local mt = require 'mtorch'", np = 'tensors do what arrays do: mt.help()',
  numpy = 'tensors do what arrays do: mt.help()', plt = 'pictures are in mt.plot', F = 'functions are in mt',
  mt = "local mt = require 'mtorch' comes first", nngraph = 'a graph is a forward of nn.class',
  cutorch = "tensors move by x:to('cuda')", cunn = "networks move by net:to('cuda')", xlua = 'it is mt.progress(n)',
  isinstance = 'Lua writes type(x), mt.is_tensor(x), nn.is(m, nn.Linear)'}
local lua = {len = '#x', range = 'for i = 1, n do .. end', enumerate = 'for i, value in ipairs(list) do .. end',
  zip = 'for i = 1, #x do local a, b = x[i], y[i] .. end', sorted = 'table.sort(list)', list = '{}', dict = '{}',
  tuple = '{}', str = 'tostring(x)', int = 'math.floor(x)', float = 'tonumber(x)', append = 'list[#list + 1] = value',
  super = 'Base.__init(self, ..)', input = 'io.read()', exit = 'os.exit()', f = "('%d of %d'):format(a, b)",
  open = 'io.open(path)', max = 'math.max of numbers, mt.max of tensors',
  min = 'math.min of numbers, mt.min of tensors',
  abs = 'math.abs of numbers, mt.abs of tensors', round = 'math.floor(x + 0.5) of numbers, mt.round of tensors'}

local function of_global(name)
  for _, module in ipairs(modules.names) do
    if module == name then return ('it is mt.%s: local %s = mt.%s'):format(name, name, name) end
  end
  if here[name] or lua[name] then return here[name] or 'Lua writes ' .. lua[name] end
  if core.name_set(mt)[name] then return 'it is mt.' .. name end
  for _, module in ipairs{'nn', 'optim', 'data'} do
    if core.name_set(mt[module])[name] then return ('it is mt.%s.%s'):format(module, name) end
  end
end

local function line_in(text, n)
  for line in (text or ''):gmatch '([^\n]*)\n?' do
    n = n - 1
    if n == 0 then return line end
  end
  return ''
end

--- The line of the program that a message begins with.
local function line_of(message)
  local path, n = message:match '^([^\n:]+):(%d+): '
  local texts = path and core.chunks('=' .. path) or {}
  return line_in(texts[#texts] or path and util.read_file(path), tonumber(n) or 0)
end

--- The same without the contents of strings, and without its comment.
local function code_in(text, n)
  return (line_in(text, n):gsub("(['\"]).-%1", '%1%1'):gsub('%-%-.*', ''))
end

local hints = {}

local function with(message, hint) return hint and ('%s (%s)'):format(message, hint) or message end

--- The message of a syntax error in a text, with a hint if there is one.
function hints.syntax(message, text)
  local n = tonumber(message:match ':(%d+): ') or 0
  local line, before = code_in(text, n), code_in(text, n - 1)
  for _, row in ipairs(near) do
    local found = message:match(row[1])
    if found then return with(message, (row[2]:gsub('%%1', found))) end
  end
  for _, row in ipairs(lines) do
    local found = line:find(row[1]) or before:find ':%s*$' and before:find(row[1])
    if found and not (row[3] and line:find(row[3])) then return with(message, row[2]) end
  end
  return message
end

--- The message of an error while a program runs, with a hint if there is one.
function hints.running(message)
  for _, row in ipairs(running) do
    if message:find(row[1]) and (not row[3] or line_of(message):find(row[3])) then return with(message, row[2]) end
  end
  local first, module = message:match "^([^\n]*module '([%w_]+)' not found):"
  if module and of_global(module) then return with(first, of_global(module)) end
  local kind, name = message:match "(%w+) '([%w_]+)' %(a nil value%)$"
  if kind == 'global' then return with(message, of_global(name)) end
  if kind == 'field' and name == 'append' then return with(message, 'Lua writes ' .. lua.append) end
  return name and core.missing_field and message .. (core.missing_field(name) or '') or message
end

return hints
