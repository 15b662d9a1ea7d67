-- variant.lua -- Runs a test file of tests/lua in another way: interpreted, compiled at once, with pairs shuffled
--
--   mtorch tests/lua/variant.lua interpreted|hot|shuffled tests/lua/test_nn.lua
--
-- `hot` compiles loops at their second round (LuaJIT waits for the 56th). `shuffled` has pairs and next go through
-- tables in an order that is drawn at the start of the process (SEED in the environment repeats one, which is printed):
-- nothing may depend on it, as the real one depends on addresses.
local way, script = arg[1], arg[2]

--- next, in an order by random numbers that each key keeps.
local function shuffled_next(seed)
  local real, drawn = next, seed + 1
  local ranks, orders = setmetatable({}, {__mode = 'k'}), setmetatable({}, {__mode = 'k'})
  local function rank(key)
    if not ranks[key] then
      drawn = drawn * 16807 % 2147483647
      ranks[key] = drawn
    end
    return ranks[key]
  end
  return function(t, key)
    if type(t) ~= 'table' then return real(t, key) end
    local order = orders[t]
    if key == nil or not order then
      order = {keys = {}, places = {}}
      for k in real, t do order.keys[#order.keys + 1] = k end
      table.sort(order.keys, function(a, b) return rank(a) < rank(b) end)
      for place, k in ipairs(order.keys) do order.places[k] = place end
      orders[t] = order
    end
    local place = key == nil and 0 or order.places[key]
    while true do
      place = place + 1
      local k = order.keys[place]
      if k == nil then
        orders[t] = nil -- it holds the keys, which may be weak
        return nil
      end
      local value = rawget(t, k)
      if value ~= nil then return k, value end
    end
  end
end

if way == 'interpreted' then jit.off()
elseif way == 'hot' then jit.opt.start('hotloop=2', 'hotexit=2')
elseif way == 'shuffled' then
  local seed = tonumber(os.getenv 'SEED') or os.time() % 100000
  print('SEED=' .. seed)
  local shuffled, real_pairs = shuffled_next(seed), pairs
  next = shuffled -- luacheck: ignore 121
  pairs = function(t) -- luacheck: ignore 121
    real_pairs(t) -- refuses what is no table
    return shuffled, t
  end
else error('variant.lua: no way ' .. tostring(way)) end
package.path = script:match('^(.*/)') .. '?.lua;' .. package.path
arg = {[-1] = arg[-1], [0] = script}
dofile(script)
