-- test_topics.lua -- the samples of mt.help's topics run unchanged, in a temporary folder
local mt = require 'mtorch'
local t = require 'testing'
local topics = require 'mtorch.help.topics'
local folder = os.tmpname()
os.remove(folder)
os.execute('mkdir -p ' .. folder)

--- Runs a sample; returns its output.
local function run(sample)
  local printed, there = {}, "'" .. folder .. "/%1'"
  local here = sample:gsub("'([%w_/]+%.%a+)'", there):gsub("'(runs/%w+)'", there)
  local env = {mt = mt, nn = mt.nn, optim = mt.optim, print = function(...)
    for i = 1, select('#', ...) do printed[#printed + 1] = select(i, ...) end
  end}
  setfenv(assert(loadstring(here)), setmetatable(env, {__index = _G}))()
  return printed
end

local expected = {
  training = function(p) assert(p[1] > 0.6, p[1]) end,
  data = function(p) t.eq(p, {80, 20, 5}) end,
  saving = function(p) t.eq(p, {3, 5}) end,
  watching = function(p)
    t.eq(p, {folder .. '/run.html'})
    local lines = 0
    for _ in io.lines(folder .. '/run.jsonl') do lines = lines + 1 end
    t.eq(lines, 50)
  end,
}

for title, sample in pairs(topics.sample) do
  t.test(title, function()
    assert(topics.text[title], 'a topic has a text')
    mt.manual_seed(1)
    expected[title](run(sample))
  end)
end

os.execute('rm -rf ' .. folder)
t.finish()
