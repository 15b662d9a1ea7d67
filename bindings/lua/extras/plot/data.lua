-- data.lua -- converts the user's lists and tensors to lists of numbers, matrices and pixels for plots
local mt = require 'mtorch'
local extend = mt.extend
local util = extend.util

local check, fail, plain = extend.check, extend.fail, util.plain

local data = {}

function data.number(op, what, i, v)
  local got = type(v) == 'number' and v or util.scalar(v)
  if type(got) == 'boolean' then got = got and 1 or 0 end
  if type(got) == 'number' then return got end
  local shown = type(v) == 'string' and ("the string '%s'"):format(v) or 'a ' .. type(v)
  fail('%s: %s: value %d is %s, expected a number', op, what, i, shown)
end

--- Returns the numbers of a list, a 1-D tensor, or an [n x 1] tensor.
function data.numbers(op, what, value)
  local list = plain(value)
  check(type(list) == 'table', '%s: %s is a %s, expected a list or a tensor', op, what, type(list))
  if #list == 0 then fail('%s: %s is empty: give at least one value', op, what) end
  return util.tabulate(#list, function(i) return data.number(op, what, i, list[i]) end)
end

--- Replaces the tensors and booleans in nested lists by numbers; a list may hold itself.
local function numbers_of(value, depth)
  value = plain(value)
  if type(value) == 'boolean' then return value and 1 or 0 end
  if type(value) ~= 'table' or depth > 16 then return value end
  return util.map(value, function(inner) return numbers_of(inner, depth + 1) end)
end

--- Converts a tensor, or nested lists, to a float64 tensor.
function data.tensor(op, value)
  if mt.is_tensor(value) then return value:detach():cpu():double() end
  local ok, x = pcall(mt.tensor, numbers_of(value, 1), {dtype = 'float64', device = 'cpu'})
  return ok and x or fail('%s: %s', op, (x:gsub('^.-tensor: tensor', 'the data', 1)))
end

--- Converts a nested list or a 2-D tensor to a list of rows of equal length.
function data.matrix(op, value)
  local x = data.tensor(op, value)
  check(x:dim() == 2 and x:numel() > 0, '%s: the data is %s, expected a matrix [rows x columns]', op, x.shape)
  return x:tolist()
end

--- Returns the columns of a 2-D tensor or nested list, or nil if the rows are not lists of `width` numbers.
function data.columns(op, value, width)
  local rows = plain(value)
  local first = type(rows) == 'table' and plain(rows[1])
  if type(first) ~= 'table' or #first < 2 or (width and #first ~= width) then return nil end
  return data.tensor(op, value):transpose(1, 2):tolist()
end

function data.texts(op, what, value, count, of)
  if value == nil then return nil end
  local list, out = plain(value), {}
  if type(list) ~= 'table' then fail('%s: %s is %s, expected a list', op, what, extend.describe(list)) end
  for i = 1, #list do out[i] = tostring(list[i]) end
  check(not count or #out == count, '%s: %s has %d values, expected %d (%s)', op, what, #out, count, of)
  return out
end

function data.same_length(op, what, list, x)
  check(#list == #x, '%s: %s has %d values, expected %d (as many as x)', op, what, #list, #x)
end

--- Converts an image to a list of channels, 1 or 3 matrices of one size. Gray or RGB with alpha is blended onto white:
--- alpha is 0..1, or 0..255 if a value is above 1.
function data.image(op, value)
  local x = data.tensor(op, value)
  if x:numel() == 0 then fail('%s: the image is empty: give at least one pixel', op) end
  if x:dim() == 2 then x = x:unsqueeze(1) end
  check(x:dim() == 3,
    '%s: an image has %d dimension%s, expected [h x w] or [channels x h x w]', op, x:dim(), x:dim() == 1 and '' or 's')
  check(#x <= 4, '%s: an image has %d channels, expected 1 (gray), 2 (with alpha), 3 (RGB) or 4 (RGBA); ' ..
    'x:unsqueeze(2) makes a picture of each for plot.images', op, #x)
  if #x % 2 == 0 then
    local most = x:gt(1):any() and 255 or 1
    local alpha = x[#x] / most
    x = x:narrow(1, 1, #x - 1) * alpha + most * (1 - alpha)
  end
  return x:tolist()
end

--- Converts a list of images, or a tensor [n x h x w] or [n x channels x h x w], to images.
function data.images(op, value)
  local list = plain(value)
  if type(list) ~= 'table' or #list == 0 then fail(op .. ': no images: give a list or [n x h x w]') end
  local out = {}
  for i = 1, #list do
    out[i] = data.image(op, list[i])
    check(#out[i] == #out[1] and #out[i][1] == #out[1][1] and #out[i][1][1] == #out[1][1][1],
      '%s: image %d is %d x %d x %d, expected the size of the first, %d x %d x %d', op, i, #out[i], #out[i][1],
      #out[i][1][1], #out[1], #out[1][1], #out[1][1][1])
  end
  return out
end

--- Returns a path and its ending; raises an error unless that is one of those given.
function data.check_path(op, path, ...)
  path = tostring(path)
  local ending = path:lower():match '[^/]%.(%w+)$'
  check(util.set{...}[ending],
    "%s: cannot write '%s': use a path ending in .%s", op, path, table.concat({...}, ' or .'))
  return path, ending
end

function data.is_plain(value) return type(value) == 'table' and not getmetatable(value) end

return data
