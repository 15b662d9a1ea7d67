-- house.lua -- checks the source tree: includes between rooms, first lines, widths, lengths, words, budgets
--
--   build/mtorch tests/gates/house.lua [ROOT]     prints the lines of each room, and its faults
local root = arg and arg[1] or (debug.getinfo(1, 'S').source:match('^@(.*)/[^/]*/[^/]*/[^/]*$') or '.')

local rooms = {'kernels', 'engine', 'bindings', 'scripts', 'tests'}
local may_include = {
  kernels = {kernels = true},
  engine = {engine = true, kernels = true},
  bindings = {bindings = true, engine = true, kernels = true},
  scripts = {bindings = true, engine = true, kernels = true},
  tests = {tests = true, bindings = true, engine = true, kernels = true},
}
-- Inside the engine: which room's headers, and which room's sources, may include which rooms' headers.
-- All may include core; ops and autograd include each other (accumulation is an addition); linalg includes
-- both; gpu, io and profile are leaves. Nothing else includes compiler.
local language = 'core autograd ops'
local engine_arrows = {
  core = {header = 'core', source = language},
  autograd = {header = 'core autograd', source = language},
  ops = {header = language, source = language},
  linalg = {header = language .. ' linalg', source = language .. ' linalg'},
  gpu = {header = 'core gpu', source = language .. ' gpu'},
  io = {header = 'core io', source = 'core io'},
  text = {header = 'core text', source = 'core text io'},
  dist = {header = 'core io dist', source = language .. ' dist'},
  profile = {header = 'core profile', source = 'core io ops profile'},
  compiler = {header = 'core gpu compiler', source = language .. ' gpu compiler'},
}
-- The same for the bindings: the program is at the top, core at the bottom.
local binding_arrows = {
  core = {header = 'core', source = 'core functions'}, -- the registry lists the functions
  functions = {header = 'core functions', source = 'core functions'},
  program = {header = 'core program', source = 'core program'},
}
local function may_enter(arrows, path, included)
  local room, target = path:match('^%w+/(%w+)/'), included:match('^%w+/(%w+)/')
  if not room or not target or path:match('^%w+') ~= included:match('^%w+') then return true end
  local allowed = arrows[room] and arrows[room][path:find('%.h$') and 'header' or 'source'] or ''
  return (' ' .. allowed .. ' '):find(' ' .. target .. ' ', 1, true) ~= nil
end
local containers = {}
for name in ([[array bitset deque flat_map flat_set forward_list list map queue set span stack string
  string_view unordered_map unordered_set valarray vector iostream sstream fstream functional memory]]):gmatch('%S+') do
  containers[name] = true
end
-- The list of operations grows with each operation; the length of other files is limited.
local longest_file, longest_function, widest_line = 700, 60, 120
local has_no_limit = {['kernels/ops.h'] = true}

local function read(path)
  local file = io.open(path, 'rb')
  if not file then return nil end
  local text = file:read('*a')
  file:close()
  return text
end
local function exists(path)
  local file = io.open(path, 'rb')
  if file then file:close() end
  return file ~= nil
end
local function lines_of(text)
  local list = {}
  for line in (text:sub(-1) == '\n' and text or text ..
    '\n'):gmatch('(.-)\n') do list[#list + 1] = line end
  return list
end
local function characters(line) return select(2, line:gsub('[^\128-\191]', '')) end
local cpp = {cpp = true, h = true, cu = true, cuh = true}
local function is_cpp(path) return cpp[path:match('%.(%w+)$') or ''] end

--- Returns the text without comments and strings, with the same lines.
local function code_of(text)
  text = text:gsub('\\.', '  '):gsub('"[^"\n]*"', '""')
  text = text:gsub('/%*.-%*/', function(comment) return (comment:gsub('[^\n]', '')) end)
  return (text:gsub('//[^\n]*', ''))
end

--- Returns C++ with blanks instead of comments, strings and preprocessor lines; line numbers stay the same.
local function blank_out(text)
  local out, at = {}, 1
  local function ending(what, from) return select(2, text:find(what, from, true)) or #text end
  while at <= #text do
    local c, two = text:sub(at, at), text:sub(at, at + 1)
    local raw = two == 'R"' and text:match('^R"([^(]*)%(', at)
    local to = at -- of what is blanked
    if raw then to = ending(')' .. raw .. '"', at)
    elseif two == '//' then to = ending('\n', at) - 1
    elseif two == '/*' then to = ending('*/', at + 2)
    elseif c == '"' or c == "'" and not text:sub(at - 1, at - 1):find('%w') then
      repeat to = to + (text:sub(to, to) == '\\' and 2 or 1) until to >= #text or text:sub(to, to) == c
    elseif c == '#' and text:sub(math.max(1, at - 40), at - 1):find('\n%s*$') then
      repeat to = ending('\n', to + 1) until text:sub(to - 1, to - 1) ~= '\\'
    end
    out[#out + 1] = to == at and c or (text:sub(at, to):gsub('[^\n]', ' '))
    at = to + 1
  end
  return table.concat(out)
end

local scopes = {namespace = true, struct = true, class = true, union = true, enum = true}
--- Whether a brace after this text opens a function (or a block in one), not a scope or list.
local function opens_function(head)
  for word in (head:match('.*%)(.*)$') or head):gmatch('[%w_]+') do
    if scopes[word] then return false end
  end
  return not head:find('%S') or head:find('%][%s%a]*$') or head:find('%)[%s%a]*$') or
    head:find('%)[^()]*%->[^()]*$') or head:find('%)%s*:%s*[%w_]')
end

--- Calls found(line, lines) for each function of C++.
local function each_function(text, found)
  local code, open, line, counted, head = blank_out(text), {}, 1, 1, 1
  local function line_of(at)
    line = line + select(2, code:sub(counted, at - 1):gsub('\n', ''))
    counted = at
    return line
  end
  for at, mark in code:gmatch('()([{};])') do
    if mark == '{' then
      local before = code:sub(head, at - 1)
      open[#open + 1] = {line = line_of(head + #before:match('^%s*')), counts = opens_function(before)}
    elseif mark == '}' then
      local block = table.remove(open)
      if block and block.counts then found(block.line, line_of(at) - block.line + 1) end
    end
    head = at + 1
  end
end

--- Calls found(line, lines) for each function of Lua, by the information of LuaJIT's compiler.
local compiled = require 'jit.util'
local function each_lua_function(text, found)
  local function look(f)
    local info, i = compiled.funcinfo(f), -1
    if info.linedefined > 0 then found(info.linedefined, info.lastlinedefined - info.linedefined + 1) end
    while compiled.funck(f, i) ~= nil do
      if type(compiled.funck(f, i)) == 'proto' then look(compiled.funck(f, i)) end
      i = i - 1
    end
  end
  local chunk = loadstring((text:gsub('^#[^\n]*', '')))
  if chunk then look(chunk) end
end

-- Each rule is a function (path, lines, text, flag), which calls flag(line number, fault). -------

local rules = {}

--- Arrows: scripts -> bindings -> engine -> kernels; includes start at the root.
function rules.includes(path, lines, _, flag)
  if not is_cpp(path) then return end
  local room = path:match('^(%w+)/')
  for number, line in ipairs(lines) do
    local included = line:match('^%s*#%s*include%s*"([^"]*)"')
    if included then
      local target = included:match('^(%w+)/')
      if not target or not may_include[target] then
        flag(number, ('"%s" does not start at the root'):format(included))
      elseif not may_include[room][target] then
        flag(number, ('%s includes %s'):format(room, included))
      elseif room == 'engine' and not may_enter(engine_arrows, path, included) or
        room == 'bindings' and not may_enter(binding_arrows, path, included) then
        flag(number, ('%s may not include %s: see the table of arrows in tests/gates/house.lua'):format(path, included))
      elseif not exists(root .. '/' .. included) then
        flag(number, ('"%s" does not exist'):format(included))
      end
    end
    local system = line:match('^%s*#%s*include%s*<([^>]*)>')
    if system then
      if may_include[system:match('^(%w+)/') or ''] then flag(number,
        'a room in angle brackets: ' .. system) end
      if (system:find('^lua') or system == 'lauxlib.h') and (room == 'kernels' or
        room == 'engine') then
        flag(number, ('%s must not depend on Lua, but includes <%s>'):format(room, system))
      end
      if (path:find('^kernels/[^/]*%.h$') or path:find('^kernels/math/')) and containers[system] then
        flag(number, ('nvcc and NVRTC read this header; <%s> is for the host'):format(system))
      end
    end
  end
end

--- Code in kernels must not throw.
function rules.throws(path, _, text, flag)
  if not path:find('^kernels/') or not is_cpp(path) then return end
  for number, line in ipairs(lines_of(code_of(text))) do
    for _, word in ipairs{'throw', 'try', 'catch'} do
      if line:find('%f[%w_]' .. word .. '%f[^%w_]') then flag(number, 'code in kernels must not throw') end
    end
  end
end

--- Functions that read a decimal comma in some locales.
function rules.locale(path, lines, _, flag)
  if not is_cpp(path) or path == 'engine/core/read_number.h' or path:find('^tests/') then return end
  for number, line in ipairs(lines) do
    if line:find '%f[%w_]strto[df]%f[^%w_]' or line:find '%f[%w_]atof%(' or line:find '%f[%w_]sto[df]%(' then
      flag(number, 'numbers are read by read_number, which does not depend on the locale')
    end
  end
end

--- Elements of a tensor are accessed by data_as, which notifies the step recorder; Tensor::data() is for verbs.
function rules.elements(path, lines, _, flag)
  if not path:find('^engine/') and not path:find('^bindings/') then return end
  if path:find('^engine/compiler/') or path == 'engine/core/tensor.h' then return end
  for number, line in ipairs(lines) do
    if line:find('static_cast<[^<>]*%*>%([%w_.]*[%w_]%.data%(%)') then
      flag(number, 'elements of a tensor are accessed by data_as')
    end
  end
end

--- The library in bindings/lua requires only its own modules and LuaJIT's.
function rules.requires(path, lines, _, flag)
  if not path:find('^bindings/lua/') then return end
  for number, line in ipairs(lines) do
    local wanted = line:match("^[^-'\"]-require%s*%(?%s*['\"]([^'\"]+)['\"]")
    local allowed = not wanted or wanted == 'mtorch' or wanted:find('^mtorch%.') or wanted == 'ffi' or
      wanted == 'bit' or wanted == 'jit' or wanted:find('^jit%.') or wanted:find('^table%.')
    if not allowed then flag(number, 'the library requires ' .. wanted) end
    if wanted and path:find '^bindings/lua/extras/' and wanted:find '^mtorch%.' and
      not wanted:find '^mtorch%.extras%.' then
      flag(number, 'extras use only the names of mt and mt.extend, not ' .. wanted)
    end
  end
end

--- The first line states the purpose of the file: `// name -- ..`, `-- name -- ..`, `# name -- ..`.
function rules.purpose(path, lines, _, flag)
  local name = path:match('[^/]*$')
  local at = (lines[1] or ''):find('^#!') and 2 or 1
  local line = lines[at] or ''
  local mark = is_cpp(path) and '//' or path:find('%.lua$') and '--' or '#'
  local start = mark .. ' ' .. name .. ' -- '
  if path:find('CMakeLists.txt$') then start = '# ' end
  if line:sub(1, #start) ~= start or #line < #start + 10 then
    flag(at, ('the first line must be "%sPURPOSE"'):format(start))
  end
end

function rules.tabs(_, lines, _, flag)
  for number, line in ipairs(lines) do
    if line:find('\t', 1, true) then flag(number, 'a tab') end
    if line:find('\r', 1, true) then flag(number, 'a carriage return') end
  end
end

--- Lines are not too wide, except the table of test points in kernels/ops.h.
function rules.width(path, lines, _, flag)
  for number, line in ipairs(lines) do
    local width = characters(line)
    local a_table = path == 'kernels/ops.h' and line:find('^%s+static constexpr %w*Info info{')
    if width > widest_line and not a_table then
      flag(number, ('%d columns, at most %d'):format(width, widest_line))
    end
  end
end

function rules.length(path, lines, _, flag)
  local room = path:match('^(%w+)/')
  if (room == 'kernels' or room == 'engine' or room == 'bindings') and #lines > longest_file and
      not has_no_limit[path] then
    flag(#lines, ('%d lines, at most %d'):format(#lines, longest_file))
  end
end

--- The length of functions outside of tests is limited.
function rules.functions(path, _, text, flag)
  local each = path:find('%.lua$') and each_lua_function or is_cpp(path) and each_function
  if path:find('^tests/') or not each then return end
  each(text, function(line, lines)
    if lines > longest_function then
      flag(line, ('a function of %d lines, at most %d'):format(lines, longest_function))
    end
  end)
end

--- Odd words, and the usual terms.
local words = {anew = 'again', kin = 'similar functions', trouble = 'the error', vain = 'skipped',
  nobody = 'no other owner, not read', told = 'reported, printed', kMost = 'kMax', kLeast = 'kMin'}
function rules.words(path, lines, _, flag)
  if path:find('^tests/') then return end
  for number, line in ipairs(lines) do
    for word in line:gmatch('%a+') do
      local better = words[word] or words[word:match('^kMost') or word:match('^kLeast') or '']
      if better then flag(number, ("'%s': write %s"):format(word, better)) end
    end
  end
end

function rules.guard(path, _, text, flag)
  if path:find('%.h$') and not text:find('#pragma once', 1, true) then flag(1,
    '#pragma once is missing') end
end

local function faults_of(path, text)
  local faults, lines = {}, lines_of(text)
  for name, check in pairs(rules) do
    check(path, lines, text, function(number, what)
      faults[#faults + 1] = {line = number, rule = name, text = ('%s:%d: %s'):format(path, number,
        what)}
    end)
  end
  table.sort(faults, function(a,
    b) return a.line < b.line or a.line == b.line and a.text < b.text end)
  return faults
end

-- Each rule must find a fault in its sample, but none in a good file. ---------------------------

local good = '// good.h -- a header that keeps all rules\n#pragma once\n#include <cstdint>\nnamespace mt {\n' ..
  'struct S {\n' .. ('  int f(char c) const { return c == \'{\' || R"({)"[0] == c; }  // }\n'):rep(70) .. '};\n' ..
  'const int list[] = {' .. ('1,\n'):rep(70) .. '};\n}  // namespace mt\n'
local samples = {
  {'includes', 'kernels/bad.h', '#include "engine/core/shape.h"\n'},
  {'includes', 'kernels/bad.h', '#include <vector>\n'},
  {'includes', 'kernels/cpu/bad.cpp', '#include "bindings/core/lua.h"\n'},
  {'includes', 'kernels/cpu/bad.cpp', '#include <lua.hpp>\n'},
  {'includes', 'engine/bad.cpp', '#include "bindings/core/lua.h"\n'},
  {'includes', 'engine/bad.cpp', '#include <lauxlib.h>\n'},
  {'includes', 'engine/bad.cpp', '#include "shape.h"\n'},
  {'includes', 'engine/bad.cpp', '#include "engine/no_such_header.h"\n'},
  {'includes', 'bindings/bad.cpp', '#include "../engine/shape.h"\n'},
  {'includes', 'engine/core/bad.h', '#include "engine/ops/views.h"\n'},
  {'includes', 'engine/core/bad.cpp', '#include "engine/linalg/linalg.h"\n'},
  {'includes', 'engine/ops/bad.cpp', '#include "engine/linalg/linalg.h"\n'},
  {'includes', 'engine/io/bad.cpp', '#include "engine/ops/views.h"\n'},
  {'includes', 'bindings/functions/bad.cpp', '#include "bindings/program/options.h"\n'},
  {'throws', 'kernels/cpu/bad.cpp', 'void f() { throw 1; }\n'},
  {'locale', 'engine/io/bad.cpp', 'const double x = std::strtod(text, &end);\n'},
  {'elements', 'engine/ops/bad.cpp', 'float* p = static_cast<float*>(x.data());\n'},
  {'requires', 'bindings/lua/bad.lua', "local t = require 'testing'\n"},
  {'requires', 'bindings/lua/extras/bad.lua', "local class = require 'mtorch.nn.class'\n"},
  {'purpose', 'engine/bad.cpp', '#include "engine/core/shape.h"\n'},
  {'purpose', 'engine/bad.cpp', '// other.cpp -- the name of another file\n'},
  {'purpose', 'tests/bad.sh', '#!/bin/sh\nset -eu\n'},
  {'tabs', 'engine/bad.cpp', '// bad.cpp -- what this file is for\n\tint x;\n'},
  {'width', 'engine/bad.cpp', '// bad.cpp -- what this file is for\n' .. ('x'):rep(121) .. '\n'},
  {'length', 'engine/bad.cpp', '// bad.cpp -- what this file is for\n' .. ('int x;\n'):rep(700)},
  {'words', 'engine/bad.cpp', '// bad.cpp -- what this file is for\n// The list is made ' .. 'anew.\n'},
  {'words', 'kernels/bad.cpp', 'constexpr int ' .. 'kMost' .. 'Rows = 3;\n'},
  {'guard', 'engine/bad.h', '// bad.h -- what this file is for\n'},
  {'functions', 'engine/bad.cpp', 'namespace mt {\nint f(int x) {\n' .. ('  ++x;\n'):rep(60) .. '}\n}\n'},
  {'functions', 'engine/bad.h', 'struct S {\n  S(int x) : a(x), b{x} {' .. ('  ++a; // }\n'):rep(60) .. '}\n};\n'},
  {'functions', 'kernels/bad.cu', 'const Row rows[] = {{1, [](int x) -> int {\n' .. ('"}";\n'):rep(60) .. '}}};\n'},
  {'functions', 'bindings/lua/bad.lua', 'return {function()\n' .. ('if x then y = "end" end\n'):rep(60) .. 'end}\n'},
}
local missed = 0
for _, sample in ipairs(samples) do
  local rule, path, text = unpack(sample)
  local found = false
  for _, fault in ipairs(faults_of(path, text)) do found = found or fault.rule == rule end
  if not found then
    missed = missed + 1
    print(('the rule %s does not find the fault in %q'):format(rule, text:sub(1, 60)))
  end
end
for _, fault in ipairs(faults_of('kernels/good.h', good)) do
  missed = missed + 1
  print('a good file is refused: ' .. fault.text)
end

-- The source tree ---------------------------------------------------------------------------------

local extensions = {cpp = true, h = true, cu = true, cuh = true, lua = true, sh = true, py = true,
  cmake = true}
local function find(folder)
  local list = {}
  local pipe = io.popen(("cd '%s' && find %s -type f 2>/dev/null | LC_ALL=C sort"):format(root,
    folder))
  for path in pipe:lines() do
    if extensions[path:match('%.(%w+)$') or ''] or
      path:find('CMakeLists%.txt$') then list[#list + 1] = path end
  end
  pipe:close()
  return list
end

-- The maximum lines of each room. A change that needs more removes others, or its commit message states the reason.
local budgets = {
  ['kernels'] = 36183, ['kernels/cpu/verbs'] = 6452, ['kernels/cpu/simd'] = 1643, ['kernels/cpu/pool'] = 510,
  ['kernels/cpu/jit'] = 8261, ['kernels/cpu/interpret'] = 2112, ['kernels/cpu/libraries'] = 2782,
  ['kernels/cuda'] = 7640, ['kernels/math'] = 2400,
  ['engine'] = 37109, ['engine/core'] = 2548, ['engine/autograd'] = 2887, ['engine/ops'] = 11393,
  ['engine/linalg'] = 1771, ['engine/io'] = 3194, ['engine/text'] = 1388, ['engine/profile'] = 694,
  ['engine/dist'] = 1767, ['engine/gpu'] = 1841, ['engine/compiler'] = 9589,
  ['bindings'] = 38075, ['bindings/core'] = 4115, ['bindings/functions'] = 6197, ['bindings/program'] = 1353,
  ['bindings/lua/core'] = 1298, ['bindings/lua/nn'] = 3305, ['bindings/lua/optim'] = 1706,
  ['bindings/lua/data'] = 2624, ['bindings/lua/io'] = 583, ['bindings/lua/help'] = 1156, ['bindings/lua/script'] = 2900,
  ['bindings/lua/compile'] = 3032, ['bindings/lua/extras'] = 8392, ['scripts'] = 8735,
}
local function add_to_rooms(lines_in, path, count)
  for room in pairs(budgets) do
    if path:sub(1, #room + 1) == room .. '/' then lines_in[room] = (lines_in[room] or 0) + count end
  end
end

local faults, total_files, total_lines, lines_in = {}, 0, 0, {}
for _, room in ipairs(rooms) do
  local files, count = find(room), 0
  for _, path in ipairs(files) do
    local text = read(root .. '/' .. path)
    count = count + #lines_of(text)
    add_to_rooms(lines_in, path, #lines_of(text))
    for _, fault in ipairs(faults_of(path, text)) do faults[#faults + 1] = fault end
  end
  if #files == 0 then faults[#faults + 1] = {text = room .. ': no files found; is the root ' ..
    root .. '?'} end
  total_files, total_lines = total_files + #files, total_lines + count
  print(('%-10s %4d files %7d lines'):format(room, #files, count))
end
for _, path in ipairs{'CMakeLists.txt', 'cmake/embed.cpp'} do
  local text = read(root .. '/' .. path)
  if not text then faults[#faults + 1] = {text = path .. ' is missing'} else
    for _, fault in ipairs(faults_of(path, text)) do faults[#faults + 1] = fault end
  end
end
print(('%-10s %4d files %7d lines'):format('all', total_files, total_lines))

for room, budget in pairs(budgets) do
  local count = lines_in[room] or 0
  if count > budget or count < 0.9 * budget then
    faults[#faults + 1] = {text = ('%s: %d lines, its budget (tests/gates/house.lua) is %d'):format(room, count,
      budget)}
  end
end

-- Documents: paths that they name exist, the README is short, variables of the environment are listed.
local function flag_document(path, ...) faults[#faults + 1] = {text = path .. ': ' .. (...):format(select(2, ...))} end
local function lines_with(what, folders)
  local pipe = io.popen(("cd '%s' && grep -rhoE '%s' %s"):format(root, what, folders))
  local list = {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end
local top_folders = {docs = true, cmake = true}
for _, room in ipairs(rooms) do top_folders[room] = true end
local generated = {['docs/history.md'] = true, ['docs/reference.md'] = true, ['docs/benchmarks.md'] = true}
local documents = io.popen(("cd '%s' && find *.md %s docs -name '*.md' | LC_ALL=C sort"):format(root,
  table.concat(rooms, ' ')))
for path in documents:lines() do
  local text = read(root .. '/' .. path) or ''
  for named in text:gmatch '`([%w_./-]+)`' do
    if not generated[path] and top_folders[named:match '^(%w+)/'] and not exists(root .. '/' .. named) then
      flag_document(path, '%s does not exist', named)
    end
  end
  for name, file in text:gmatch '`([%w_.:]+)`%s+%(`([%w_./-]+)`%)' do
    local source = not generated[path] and top_folders[file:match '^(%w+)/'] and read(root .. '/' .. file)
    if source and not source:find(name:match '[%w_]+$', 1, true) then
      flag_document(path, '%s is not in %s', name, file)
    end
  end
  for _, line in ipairs(lines_of(text:gsub('\n```.-\n```', ''))) do
    if not generated[path] and not line:find '^[|<]' and not line:find '^    ' and characters(line) > widest_line then
      flag_document(path, 'a line of %d columns, at most %d: %s', characters(line), widest_line, line:sub(1, 40))
    end
  end
end
local readme, variables = read(root .. '/README.md') or '', read(root .. '/docs/environment.md') or ''
if #lines_of(readme) > 150 or #readme > 8192 then
  flag_document('README.md', 'it has %d lines and %d bytes, at most 150 and 8192', #lines_of(readme), #readme)
end
local uses = lines_with([[(getenv|setting)[( ]*["'"'"'"]MTORCH_[A-Z_]+]], 'kernels engine bindings scripts tests')
for _, found in ipairs(uses) do
  local name = found:match 'MTORCH_[A-Z_]+'
  if not variables:find(name, 1, true) and not name:find '^MTORCH_EMULATED_' then
    flag_document('docs/environment.md', '%s is not listed', name)
  end
end
for _, fault in ipairs(faults) do print(fault.text) end
print(('%d samples, %d not found; %d faults'):format(#samples, missed, #faults))
if missed + #faults > 0 then os.exit(1) end
