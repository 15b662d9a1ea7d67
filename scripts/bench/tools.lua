-- tools.lua -- calls for rows of the benchmark besides mtorch: copies, the BLAS, C++ loops, whole programs, launches
local mt = require 'mtorch'
local core = require 'mtorch.core'
local util = require 'mtorch.core.util'
local ffi = require 'ffi'

ffi.cdef [[
int posix_spawnp(int *pid, const char *file, const void *, const void *, char *const argv[], char *const env[]);
int waitpid(int pid, int *status, int options);
extern char **environ;
void openblas_set_num_threads(int n);
char *openblas_get_config(void);
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc);
]]

-- worker.lua sets these.
local tools = {wait = function() end, threads = 1, device = 'cpu'}

tools.program = arg[0]
for i = -1, -100, -1 do tools.program = arg[i] or tools.program end
tools.folder = (package.searchpath('bench.tools', package.path) or ''):gsub('bench/tools%.lua$', '')

--- Words as a command line of the shell.
function tools.command(words)
  local list = util.map(words, function(word) return "'" .. tostring(word):gsub("'", "'\\''") .. "'" end)
  return table.concat(list, ' ')
end

--- The fields of a line, which are separated by tabs.
function tools.fields(line)
  local list = {}
  for field in (line .. '\t'):gmatch('([^\t]*)\t') do list[#list + 1] = field end
  return list
end

--- Runs a program; returns its success and its output.
function tools.output(words)
  local pipe = io.popen(tools.command(words) .. ' 2>&1; echo "status $?"')
  local text = pipe:read('*a')
  pipe:close()
  return text:match('status (%d+)%s*$') == '0', (text:gsub('status %d+%s*$', ''))
end

--- Returns the microseconds of a process.
function tools.process(...)
  local words, pid, status = {...}, ffi.new('int[1]'), ffi.new('int[1]')
  local argv = ffi.new('const char *[?]', #words + 1)
  for i, word in ipairs(words) do argv[i - 1] = word end
  local began = core.time()
  local started = ffi.C.posix_spawnp(pid, words[1], nil, nil, ffi.cast('char *const *', argv), ffi.C.environ) == 0
  if started then ffi.C.waitpid(pid[0], status, 0) end
  local seconds = core.time() - began
  if not started or status[0] ~= 0 then error('cannot run ' .. table.concat(words, ' '), 0) end
  return seconds * 1e6
end

--- Runs a script of the folder scripts/; returns the number after `key=` in its output.
function tools.script(key, name, ...)
  local path = tools.folder .. name
  local ok, text = tools.output {tools.program, path, ...}
  local value = tonumber(text:match(key .. '=([%d.]+)'))
  if not (ok and value) then error(name .. ' ended with: ' .. text, 0) end
  return value
end

--- Returns the microseconds of a call on the host while earlier calls are still running on the GPU.
function tools.launching(call)
  local times, loops = {}, 200
  for i = 1, 10 do
    tools.wait()
    local began = core.time()
    for _ = 1, loops do call() end
    times[i] = (core.time() - began) / loops
  end
  tools.wait()
  table.sort(times)
  return times[5] * 1e6
end

--- Returns a function that computes the gradients of y for a fixed incoming gradient, without the forward pass.
function tools.gradient(y, ...)
  local inputs, options = {...}, {grad_outputs = {mt.randn_like(y)}, retain_graph = true}
  return function() return mt.grad(y, inputs, options) end
end

-- ---- limits ----

function tools.memory_copy(bytes)
  local from, to = ffi.new('char[?]', bytes + 64), ffi.new('char[?]', bytes + 64)
  ffi.fill(from, bytes, 1)
  return function() ffi.copy(to, from, bytes) end
end

local blas
function tools.open_blas()
  if blas == nil then
    pcall(mt.linalg.inv, mt.eye(2)) -- mtorch opens the library, with kernels for the processor
    local ok, library = pcall(ffi.load, 'libopenblas.so.0')
    blas = ok and library or false
    if blas then blas.openblas_set_num_threads(tools.threads) end
  end
  return blas
end

--- Returns a function that computes a b by cblas_sgemm into allocated memory; 'tn': a is stored transposed; and so on.
function tools.sgemm(layout, a, b)
  local ta, tb = layout:sub(1, 1) == 't', layout:sub(2, 2) == 't'
  local m, k, n = a:size(ta and 2 or 1), a:size(ta and 1 or 2), b:size(tb and 1 or 2)
  local c, library = mt.zeros(m, n), tools.open_blas()
  local pa, pb, pc = a:data(), b:data(), c:data()
  local row_major, no_trans, trans = 101, 111, 112
  return function()
    library.cblas_sgemm(row_major, ta and trans or no_trans, tb and trans or no_trans, m, n, k, 1, pa, ta and m or k,
      pb, tb and k or n, 0, pc, n)
    return c
  end
end

local compiled = 0
--- Compiles C++ into a shared library and opens it.
function tools.compile(text, ...)
  compiled = compiled + 1
  local base = os.tmpname()
  util.write_file('bench.lua', base .. '.cpp', text)
  local ok, words = tools.output {'g++', '-O3', '-march=native', '-shared', '-fPIC', '-o', base .. '.so',
    base .. '.cpp', ...}
  local library = ok and ffi.load(base .. '.so')
  for _, ending in ipairs {'', '.cpp', '.so'} do os.remove(base .. ending) end
  if not ok then error('g++: ' .. words, 0) end
  return library
end

--- Returns a function that runs C++ loops over float inputs into `o`, which is allocated. `body` can use the inputs by
--- name, `o` and `n`, the number of elements of the first; with `file`, a source of bench/peers/ whose function CALL
--- has no parameters, `body` is an option of g++.
function tools.compiled_loop(names, values, file, body)
  local name = ('row_%d'):format(compiled)
  if file ~= '' then
    local source = assert(util.read_file(tools.folder .. 'bench/peers/' .. file))
    local library = tools.compile(source, ('-DCALL=%s'):format(name), body)
    ffi.cdef(('void %s(void);'):format(name))
    return library[name]
  end
  local parameters, pointers = {}, {}
  for i, x in ipairs(values) do parameters[i], pointers[i] = 'const float *' .. names[i], x:data() end
  local n = values[1]:numel()
  local signature = ('void %s(%s, float *o, long n)'):format(name, table.concat(parameters, ', '))
  local library = tools.compile('#include <cmath>\n#include <algorithm>\nextern "C" ' .. signature .. '{' .. body ..
    '}\n')
  ffi.cdef(signature:gsub('const float %*%w+', 'const float *') .. ';')
  local f, out = library[name], mt.zeros(n)
  pointers[#pointers + 1] = out:data()
  pointers[#pointers + 1] = n
  local a, b, c, d, e = unpack(pointers)
  local call = ({[3] = function() f(a, b, c) end, [4] = function() f(a, b, c, d) end,
    [5] = function() f(a, b, c, d, e) end})[#pointers]
  return function()
    call()
    return out
  end
end

--- The largest resident memory of this process in MiB.
function tools.peak_mib() return util.read_file '/proc/self/status':match 'VmHWM:%s+(%d+)' / 1024 end

function tools.size_of_program()
  local path = tools.program
  if not path:find('/') then path = select(2, tools.output {'which', path}):match('[^\n]+') end
  local file = assert(io.open(path, 'rb'))
  local size = file:seek('end')
  file:close()
  return size / 2 ^ 20
end

-- ---- availability ----

local function first_line(command)
  local ok, text = tools.output(command)
  return ok and text:match('[^\n]+')
end

--- Returns why a contender of worker.lua is not available and how to install it, or nil if it is available.
function tools.missing(name)
  if name == 'cpp' then return not first_line {'g++', '--version'} and 'g++ is not here (Debian: apt install g++)' end
  if name == 'cblas' then
    return not tools.open_blas() and 'libopenblas.so.0 is not here (apt install libopenblas0-openmp)'
  end
end

function tools.python() return os.getenv('MTORCH_PEER_PYTHON') or 'python3' end

function tools.version(name)
  if name == 'cpp' then return first_line {'g++', '--version'} .. ' -O3 -march=native' end
  if name == 'cblas' then return ffi.string(tools.open_blas().openblas_get_config()) end
  if name == 'copy' then return 'memcpy' end
  return ('mtorch %s, %d thread%s'):format(tools.device == 'cpu' and core.isa() or core.device_name(tools.device),
    tools.threads, tools.threads == 1 and '' or 's')
end

return tools
