-- variant.lua -- runs a test file of tests/lua interpreted, with eager compilation, or with a random order of pairs
--
--   mtorch tests/lua/variant.lua interpreted|hot|shuffled tests/lua/test_nn.lua
--
-- `hot` compiles loops in their second iteration (LuaJIT's default is the 56th). With `shuffled`, pairs and next have
-- a random order, which the environment variable SEED repeats; the seed is printed. Results must not depend on the
-- order, because the real one depends on addresses.
local mode, script = arg[1], arg[2]

--- Returns a function like next, in the order of random numbers that belong to the keys.
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
      for index, k in ipairs(order.keys) do order.places[k] = index end
      orders[t] = order
    end
    local index = key == nil and 0 or order.places[key]
    while true do
      index = index + 1
      local k = order.keys[index]
      if k == nil then
        orders[t] = nil -- it refers to the keys, which may be weak
        return nil
      end
      local value = rawget(t, k)
      if value ~= nil then return k, value end
    end
  end
end

if mode == 'interpreted' then jit.off()
elseif mode == 'hot' then jit.opt.start('hotloop=2', 'hotexit=2')
elseif mode == 'shuffled' then
  local seed = tonumber(os.getenv 'SEED') or os.time() % 100000
  print('SEED=' .. seed)
  local shuffled, real_pairs = shuffled_next(seed), pairs
  next = shuffled -- luacheck: ignore 121
  pairs = function(t) -- luacheck: ignore 121
    real_pairs(t) -- raises an error if t is not a table
    return shuffled, t
  end
else error('variant.lua: unknown mode ' .. tostring(mode)) end
package.path = script:match('^(.*/)') .. '?.lua;' .. package.path
arg = {[-1] = arg[-1], [0] = script}
dofile(script)
