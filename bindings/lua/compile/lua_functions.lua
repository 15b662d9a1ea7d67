-- lua_functions.lua -- functions of Lua's libraries that are not one operation, in terms of mt's operations
--
-- Compiled functions (symbols.lua) and grid kernels (kernel.lua), which compile them from this text, call them. Kernels
-- have integers of 64 bits; the functions of bit give LuaJIT's results, of 32 bits with their sign.
local text = [[
local mt, bit = ...
return {
  math = {
    log = function(x, base) return mt.log(x) / mt.log(base) end,
    deg = function(x) return mt.rad2deg(x) end,
    rad = function(x) return mt.deg2rad(x) end,
    ldexp = function(m, e) return mt.where(mt.eq(m + m, m), m, m * mt.exp2(mt.trunc(e))) end, -- 0 and infinity stay
    modf = function(x)
      local part = mt.copysign(mt.where(mt.isinf(x), 0, mt.frac(x)), x)
      return mt.copysign(x - part, x), part
    end,
  },
  mt = {
    cdiv = function(a, b) return mt.ceil(a / b) end,
  },
  bit = {
    tobit = function(a) return mt.bitwise_right_shift(mt.bitwise_left_shift(a, 32), 32) end,
    band = function(a, b) return bit.tobit(mt.bitwise_and(a, b)) end,
    bor = function(a, b) return bit.tobit(mt.bitwise_or(a, b)) end,
    bxor = function(a, b) return bit.tobit(mt.bitwise_xor(a, b)) end,
    bnot = function(a) return bit.tobit(mt.bitwise_not(a)) end,
    lshift = function(a, n) return bit.tobit(mt.bitwise_left_shift(a, mt.bitwise_and(n, 31))) end,
    rshift = function(a, n)
      return bit.tobit(mt.bitwise_right_shift(mt.bitwise_and(a, 4294967295), mt.bitwise_and(n, 31)))
    end,
    arshift = function(a, n) return mt.bitwise_right_shift(bit.tobit(a), mt.bitwise_and(n, 31)) end,
    rol = function(a, n) return bit.bor(bit.lshift(a, n), bit.rshift(a, -n)) end,
    ror = function(a, n) return bit.bor(bit.rshift(a, n), bit.lshift(a, -n)) end,
    bswap = function(a)
      return bit.bor(bit.band(bit.rol(a, 8), 16711935), bit.band(bit.ror(a, 8), 4278255360))
    end,
  },
}
]]

--- {library = {name = function}}, which call the operations in `mt`.
return function(mt) return assert(loadstring(text))(mt, bit) end
