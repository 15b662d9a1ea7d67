-- test_readme.lua -- every Lua example of the README and of the guide runs
local t = require 'testing'

local read = t.read_file
local text = read 'README.md'
local examples = {}
local pages = {'README.md', 'docs/many_machines.md'}
for path in io.popen 'ls docs/guide/*.md':lines() do pages[#pages + 1] = path end
for _, path in ipairs(pages) do
  local count = 0
  for code in read(path):gmatch('```lua\n(.-)```') do
    count = count + 1
    examples[#examples + 1] = {name = ('%s, example %d'):format(path, count), code = code}
  end
end
assert(#examples > 25, 'only ' .. #examples .. ' examples')

-- Files of the examples are removed with the folder in which they run.
local ffi = require 'ffi'
ffi.cdef [[int chdir(const char *); char *getcwd(char *, size_t); char *mkdtemp(char *);]]
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

-- From folders of pictures to a classifier: the page's scripts, run as it says.
t.test('docs/guide/pictures.md, word for word', function()
  local page = read(home .. '/docs/guide/pictures.md')
  for name, code in page:gmatch '```lua (%S+)\n(.-)```' do
    local file = assert(io.open(name, 'w'))
    file:write(code)
    file:close()
  end
  local function output(script)
    local pipe = io.popen(("'%s' %s 2>&1"):format(t.program(), script))
    local text = pipe:read '*a'
    assert(pipe:close(), text)
    return text
  end
  t.eq(output 'make_pictures.lua', 'wrote pictures/\n')
  local text = output 'classify.lua'
  local accuracy = tonumber(text:match 'not seen: ([%d.]+)')
  assert(accuracy and accuracy > 0.85, text)
  assert(io.open 'classifier.safetensors' and io.open 'loss.svg')
  local said = output 'name.lua pictures/round/1.png'
  assert(said == 'round\n' or said == 'square\n', said)
end)

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
