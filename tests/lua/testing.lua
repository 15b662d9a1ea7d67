-- testing.lua -- A tiny test helper: t.test(name, fn), t.eq, t.near, t.raises, t.finish().
local testing = {}

local count, failures = 0, 0

-- Text of a value for messages: tables by content, strings quoted.
local function show(value, depth)
  if type(value) == 'string' then return ('%q'):format(value) end
  if type(value) ~= 'table' or (depth or 0) > 3 then return tostring(value) end
  local parts = {}
  for key, item in pairs(value) do
    parts[#parts + 1] = tostring(key) .. '=' .. show(item, (depth or 0) + 1)
  end
  table.sort(parts)
  return '{' .. table.concat(parts, ', ') .. '}'
end

local function same(a, b)
  if a == b or (a ~= a and b ~= b) then return true end
  if type(a) ~= 'table' or type(b) ~= 'table' then return false end
  for key, value in pairs(a) do
    if not same(value, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

--- Deep equality; NaN equals NaN.
function testing.eq(a, b)
  if not same(a, b) then error(('got %s, expected %s'):format(show(a), show(b)), 2) end
end

--- |a - b| <= tol (default 1e-6), for numbers and, element by element, for tables of them.
function testing.near(a, b, tol)
  if type(a) == 'table' and type(b) == 'table' then
    if #a ~= #b then error(('got %d values, expected %d'):format(#a, #b), 2) end
    for i = 1, #b do testing.near(a[i], b[i], tol) end
    return
  end
  local close = type(a) == 'number' and type(b) == 'number' and math.abs(a - b) <= (tol or 1e-6)
  if not close then error(('got %s, expected %s'):format(show(a), show(b)), 2) end
end

--- fn() must raise an error whose text has the Lua pattern; returns the text.
function testing.raises(fn, pattern)
  local ok, message = pcall(fn)
  if ok then error(('no error, expected one like %q'):format(pattern), 2) end
  if not tostring(message):find(pattern) then
    error(('error %q is not like %q'):format(tostring(message), pattern), 2)
  end
  return tostring(message)
end

--- Runs one test; a failure prints one line that begins with file:line and goes on.
function testing.test(name, fn)
  count = count + 1
  local ok, report = xpcall(fn, function(message)
    local text = tostring(message):gsub('\n', ' ')
    if text:find('^[^:]+:%d+: ') then return text end
    local info = debug.getinfo(2, 'Sl')
    return ('%s:%d: %s'):format(info.short_src, info.currentline, text)
  end)
  if ok then return end
  failures = failures + 1
  local place, text = report:match('^([^:]+:%d+: )(.*)$')
  print((place or '') .. name .. ': ' .. (text or report))
end

--- Prints `N tests, M failed`; ends the program with 1 where one failed or none ran.
function testing.finish()
  print(('%d tests, %d failed'):format(count, failures))
  if failures > 0 or count == 0 then os.exit(1) end
end

return testing
