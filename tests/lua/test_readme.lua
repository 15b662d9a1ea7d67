-- test_readme.lua -- every Lua example of the README runs, and its C++ functions exist in the engine
local t = require 'testing'

local file = assert(io.open('README.md'))
local text = file:read('*a')
file:close()

local examples = {}
for code in text:gmatch('```lua\n(.-)```') do examples[#examples + 1] = code end

-- What examples write goes with the folder that they run in.
local ffi = require 'ffi'
ffi.cdef 'int chdir(const char *); char *getcwd(char *, size_t); char *mkdtemp(char *);'
local home = ffi.string(ffi.C.getcwd(ffi.new('char[4096]'), 4096))
local folder = ffi.string(ffi.C.mkdtemp(ffi.new('char[?]', 32, '/tmp/mtorch-readme-XXXXXX')))
ffi.C.chdir(folder)

t.test('there are examples', function() assert(#examples > 0) end)

for i, code in ipairs(examples) do
  t.test('example ' .. i, function()
    local printed = {}
    local chunk = assert(loadstring(code)) -- named by its text, which kernels are read from
    setfenv(chunk, setmetatable({print = function(...) printed[#printed + 1] = {...} end}, {__index = _G}))
    chunk()
    assert(#printed > 0, 'it prints nothing')
  end)
end

t.test('the prompt of the README answers as it says', function()
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
