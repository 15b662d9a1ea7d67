-- data.lua -- converts the user's lists and tensors to lists of numbers, matrices and pixels for plots
local mt = require 'mtorch'
local extend = mt.extend
local util = extend.util

local fail, plain = extend.fail, util.plain

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
  if type(list) ~= 'table' then
    fail('%s: %s is a %s, expected a list or a tensor', op, what, type(list))
  end
  if #list == 0 then fail('%s: %s is empty: give at least one value', op, what) end
  return util.tabulate(#list, function(i) return data.number(op, what, i, list[i]) end)
end

--- Converts a nested list or a 2-D tensor to a list of rows of equal length.
function data.matrix(op, value)
  local rows = plain(value)
  if type(rows) ~= 'table' then
    fail('%s: the matrix is a %s, expected rows of numbers', op, type(rows))
  end
  if #rows == 0 then fail(op .. ': the matrix is empty: give at least one row') end
  local out = {}
  for i = 1, #rows do
    local row = plain(rows[i])
    if type(row) ~= 'table' then
      fail(op .. ': the data has one dimension, expected a matrix (a list of rows)')
    end
    out[i] = data.numbers(op, 'row ' .. i, row)
    if #out[i] ~= #out[1] then
      fail('%s: row %d has %d values, expected %d (as many as row 1)', op, i, #out[i], #out[1])
    end
  end
  return out
end

--- Appends all numbers of a list or tensor of any depth.
function data.flatten(op, value, out, depth)
  local list = plain(value)
  depth = depth or 1
  if depth > 32 then fail('%s: the data is nested more than 32 deep; does a list hold itself?', op) end
  if type(list) ~= 'table' then
    fail('%s: the data is a %s, expected a list or a tensor', op, type(list))
  end
  for i = 1, #list do
    local v = list[i]
    if type(v) == 'table' then data.flatten(op, v, out, depth + 1) else
      out[#out + 1] = data.number(op, 'the data', i, v)
    end
  end
  return out
end

--- Returns the columns of a 2-D tensor or nested list, or nil if the rows are not lists of `width` numbers.
function data.columns(op, value, width)
  local rows = plain(value)
  local first = type(rows) == 'table' and plain(rows[1])
  if type(first) ~= 'table' or #first < 2 or (width and #first ~= width) then return nil end
  rows = data.matrix(op, rows)
  return util.map(rows[1], function(_, c) return util.map(rows, function(row) return row[c] end) end)
end

function data.texts(op, what, value, count, of)
  if value == nil then return nil end
  local list, out = plain(value), {}
  if type(list) ~= 'table' then fail('%s: %s is %s, expected a list', op, what, extend.describe(list)) end
  for i = 1, #list do out[i] = tostring(list[i]) end
  if count and #out ~= count then
    fail('%s: %s has %d values, expected %d (%s)', op, what, #out, count, of)
  end
  return out
end

function data.same_length(op, what, list, x)
  if #list ~= #x then
    fail('%s: %s has %d values, expected %d (as many as x)', op, what, #list, #x)
  end
end

--- Returns the nesting depth of a list: 2 for a matrix.
local function depth_of(list)
  local depth = 0
  while type(list) == 'table' and depth < 8 do
    list, depth = plain(list[1]), depth + 1
  end
  return depth
end

--- Blends gray or RGB with alpha onto white: alpha is 0..1, or 0..255 if a value is above 1.
local function blend_onto_white(channels)
  local x = mt.tensor(channels, {dtype = 'float64', device = 'cpu'})
  local most = x:gt(1):any() and 255 or 1
  local alpha = x[#x] / most
  return (x:narrow(1, 1, #x - 1) * alpha + most * (1 - alpha)):tolist()
end

--- Converts an image to a list of channels, 1 or 3 matrices of one size.
function data.image(op, value)
  local list = plain(value)
  local depth = depth_of(list)
  if type(list) == 'table' and #list == 0 then fail('%s: the image is empty: give at least one pixel', op) end
  if depth ~= 2 and depth ~= 3 then
    fail('%s: an image has %d dimension%s, expected [h x w] or [channels x h x w]', op, depth,
      depth == 1 and '' or 's')
  end
  local channels = depth == 2 and {list} or list
  if #channels > 4 then
    fail("%s: an image has %d channels, expected 1 (gray), 2 (with alpha), 3 (RGB) or 4 (RGBA); x:unsqueeze(2) " ..
      'makes a picture of each for plot.images', op, #channels)
  end
  local out = {}
  for k = 1, #channels do
    out[k] = data.matrix(op, channels[k])
    if #out[k] ~= #out[1] or #out[k][1] ~= #out[1][1] then fail(op .. ': the channels differ in size') end
  end
  return #out % 2 == 0 and blend_onto_white(out) or out
end

--- Converts a list of images, or a tensor [n x h x w] or [n x channels x h x w], to images.
function data.images(op, value)
  local list = plain(value)
  if type(list) ~= 'table' or #list == 0 then fail(op .. ': no images: give a list or [n x h x w]') end
  local out = {}
  for i = 1, #list do
    out[i] = data.image(op, list[i])
    if #out[i] ~= #out[1] or #out[i][1] ~= #out[1][1] or #out[i][1][1] ~= #out[1][1][1] then
      fail('%s: image %d is %d x %d x %d, expected the size of the first, %d x %d x %d', op, i, #out[i],
        #out[i][1], #out[i][1][1], #out[1], #out[1][1], #out[1][1][1])
    end
  end
  return out
end

--- Returns a path and its ending; raises an error unless that is one of those given.
function data.check_path(op, path, ...)
  path = tostring(path)
  local ending = path:lower():match '[^/]%.(%w+)$'
  if not util.set{...}[ending] then
    fail("%s: cannot write '%s': use a path ending in .%s", op, path, table.concat({...}, ' or .'))
  end
  return path, ending
end

function data.is_plain(value) return type(value) == 'table' and not getmetatable(value) end

return data
