-- test_wrong_calls.lua -- mistakes of newcomers with layers, losses, optimizers, sets, files: data/wrong_calls.txt
--
-- Each line there is code that must raise one sentence at its own line, which begins with the operation: a word of the
-- code, or the one after `-->`. `given` has the variables that it may use; nothing may crash.
local mt = require 'mtorch'
local t = require 'testing'
local nn, optim, data = mt.nn, mt.optim, mt.data

local tests = (arg[0]:match('^(.*/)') or './') .. '../'
local here = os.tmpname()
os.remove(here)
os.execute(('mkdir -p %s/img/a %s/img/b'):format(here, here))
here = here .. '/'
for _, class in ipairs{'a', 'b'} do
  for i = 1, 4 do data.save_image(('%simg/%s/%d.png'):format(here, class, i), mt.rand(3, 8, 8)) end
end
local csv = assert(io.open(here .. 'a.csv', 'w'))
csv:write('a,b\n1,2\n')
csv:close()

--- Returns the variables of a line, created again for each.
local function given()
  local net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
  return setmetatable({mt = mt, nn = nn, optim = optim, data = data, T = data.transforms, M = mt.metrics, here = here,
    x = mt.ones(2, 3), x3 = mt.ones(2, 3, 5), im = mt.ones(2, 3, 8, 8), d = mt.ones({2, 3}, {dtype = 'float64'}),
    l = mt.ones({2, 3}, {dtype = 'int64'}), lab = mt.tensor({1, 2}, {dtype = 'int64'}), net = net,
    opt = optim.SGD(net:parameters(), {lr = 0.1}), tok = data.CharTokenizer 'abc',
    set = data.TensorDataset(mt.ones(10, 3), mt.range(1, 10))}, {__index = _G})
end

local function plain(text) return (text:lower():gsub('_', '')) end

for line in io.lines(tests .. 'data/wrong_calls.txt') do
  t.test(line, function()
    local code, operation = line:match '^(.-)  %-%-> (%S+)$'
    code = code or line
    local ok, message = pcall(setfenv(assert(loadstring(code, '=user')), given()))
    assert(not ok, 'no error')
    message = tostring(message)
    assert(not message:find '\n', message)
    local said = message:match '^user:1: (.+)$'
    assert(said, 'another line: ' .. message)
    said = said:gsub('^%(in [^)]*%) ', '')
    local first = said:match '^([%w_.%[%]]+): ' or said:match '^(%S+)'
    if operation then t.eq(first, operation)
    else assert(plain(code):find(plain(first), 1, true), 'another operation: ' .. message) end
  end)
end

os.execute('rm -r ' .. here)
t.finish()
