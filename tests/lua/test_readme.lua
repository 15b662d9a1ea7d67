-- test_readme.lua -- every Lua example of the README and of the guide runs
local t = require 'testing'

local function read(path)
  local file = assert(io.open(path))
  local text = file:read('*a')
  file:close()
  return text
end
local text = read 'README.md'
local examples = {}
for _, path in ipairs{'README.md', 'docs/guide/training.md', 'docs/guide/functions.md', 'docs/guide/gpu.md'} do
  local count = 0
  for code in read(path):gmatch('```lua\n(.-)```') do
    count = count + 1
    examples[#examples + 1] = {name = ('%s, example %d'):format(path, count), code = code}
  end
  assert(count > 0, path .. ' has no example')
end

-- Files of the examples are removed with the folder in which they run.
local ffi = require 'ffi'
ffi.cdef 'int chdir(const char *); char *getcwd(char *, size_t); char *mkdtemp(char *);'
local home = ffi.string(ffi.C.getcwd(ffi.new('char[4096]'), 4096))
local folder = ffi.string(ffi.C.mkdtemp(ffi.new('char[?]', 32, '/tmp/mtorch-readme-XXXXXX')))
ffi.C.chdir(folder)

for _, example in ipairs(examples) do
  t.test(example.name, function()
    local printed = {}
    local chunk = assert(loadstring(example.code)) -- named by its text, which kernels are read from
    setfenv(chunk, setmetatable({print = function(...) printed[#printed + 1] = {...} end}, {__index = _G}))
    chunk()
    assert(#printed > 0, 'it prints nothing')
  end)
end

t.test('the prompt gives the output in the README', function()
  local mt = require 'mtorch'
  local x = mt.tensor{{1, 2}, {3, 4}}
  for shown, value in pairs {['x:matmul(x:t())'] = x:matmul(x:t()), ['x[{{}, 2}]'] = x[{{}, 2}]} do
    local start = text:find('> ' .. shown .. '\n', 1, true)
    assert(start, shown .. ' is not in the README')
    local answer = tostring(value)
    local at = start + #shown + 3
    t.eq(text:sub(at, at + #answer - 1), answer)
  end
end)

ffi.C.chdir(home)
os.execute('rm -r ' .. folder)
t.finish()
