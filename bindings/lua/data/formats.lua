-- formats.lua -- mt.data: files of other programs, read and written
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local native = core.formats()

local formats = {}

-- ---- tables and text -----------------------------------------------------------------------------

local function check_delimiter(op, delimiter)
  core.check(#delimiter == 1 and not delimiter:find '["%d.\r\n]',
    "%s: delimiter must be one character, no quote, digit, point or line break, got '%s'", op, delimiter)
end

--- The columns with these indices.
local function chosen(path, names, list, positions)
  local some_names, some = {}, {}
  for k, at in ipairs(positions) do
    if not names[at] then core.fail("csv: '%s': it has %d columns, column %d is wanted", path, #names, at) end
    some_names[k], some[k] = names[at], list[at]
  end
  return some_names, some
end

--- The first rows of the columns as text, and their number.
local function shown_columns(t)
  local n, rows = #t.names > 0 and #t[1] or 0, {util.append({}, t.names)}
  for i = 1, math.min(n, 5) do
    rows[i + 1] = util.map(t.names, function(_, k)
      local cell = t[k][i]
      return mt.is_tensor(cell) and ('%.6g'):format(cell:item()) or tostring(cell):sub(1, 20)
    end)
  end
  local lines = util.aligned(rows, 0)
  table.remove(lines, 2) -- the rules
  table.remove(lines)
  return ('  %s\n[%d rows x %d columns]'):format(table.concat(lines, '\n  '), n, #t.names)
end

formats.csv = core.declare("csv(path: string, header: bool = true, delimiter: string = '', " ..
  'columns: strings|ints = nil, quotes: bool = true, text: strings = nil)',
  'A table of the columns of a CSV file (also .gz) by name, their names in .names: float64 tensors where all cells ' ..
  'are numbers or missing (NaN: empty, NA, N/A, n/a, #N/A, null, NULL, None or <NA>), else lists of strings; ' ..
  'numbers with a zero in front (00501) and whole ones that float64 would round are text. t[k] is column k. text: ' ..
  'names of columns that stay text, NA too. Cells may be quoted, unless quotes=false. delimiter: a comma; in a ' ..
  '.tsv file a tab. columns: the names or positions of those to read, in this order. header=false: the first row is ' ..
  "data, and columns names them all ('1', '2', .. otherwise).",
  function(path, header, delimiter, columns, quotes, text)
    if delimiter == '' then delimiter = path:gsub('%.gz$', ''):find('%.tsv$') and '\t' or ',' end
    check_delimiter('csv', delimiter)
    local positions = columns and type(columns[1]) == 'number' and columns
    local names, list = native.csv(path, header, delimiter, not positions and columns or nil, quotes, text)
    if positions then names, list = chosen(path, names, list, positions) end
    local result = {names = names}
    for k, name in ipairs(names) do
      if name ~= 'names' then result[name] = list[k] end
    end
    return setmetatable(result, {__index = function(_, key) return list[key] end, __tostring = shown_columns})
  end)

formats.factorize = core.declare('factorize([values]: list|tensor, names: list = nil)',
  'Values (texts, numbers, booleans) as positions, an int64 tensor, and the list of the different values in order: ' ..
  'ids, names = mt.data.factorize(t.city); names[ids:at(1)] is the first value. With names, of a set seen before, ' ..
  'positions in these, and 0 for others.',
  function(values, names)
    if mt.is_tensor(values) then values = values:view(-1):tolist() end
    if mt.is_tensor(names) then names = names:view(-1):tolist() end
    local place = {}
    for what, list in pairs{name = names or {}, value = values} do
      for i, value in ipairs(list) do
        if type(value) == 'table' or value ~= value then
          core.fail('factorize: %s %d is %s; texts, numbers or booleans are needed', what, i, core.describe(value))
        end
        place[value] = 0
      end
    end
    if not names then
      names = util.sorted_keys(place)
      local n = #names
      if names[n] == false and place[true] then names[n - 1], names[n] = false, true end
    end
    for k, value in ipairs(names) do place[value] = k end
    local ids, options = util.map(values, function(value) return place[value] end), {dtype = 'int64', device = 'cpu'}
    return #ids > 0 and mt.tensor(ids, options) or mt.zeros({0}, options), names
  end)

formats.text = core.declare('text(path: string)', 'The bytes of a file as a string, unpacked if it is gzip.',
  function(path) return (native.read('text', path)) end)

formats.json = core.declare('json(path: string, null: bool|number|string|table = nil)',
  'The value in a JSON file (also .gz): objects and lists are tables, null is nil or the given value; ' ..
  'an integer beyond 2^53 that Lua cannot represent is the string of its digits.',
  function(path, null)
    return (util.attempt(("json: '%s'"):format(path), core.parse_json, native.read('json', path), null))
  end)

formats.save_json = core.declare('save_json(path: string, value: table)', 'Writes a table as JSON: tables with the ' ..
  'keys 1..n are lists, others objects with their keys in order. Returns the path.',
  function(path, value)
    return core.write_file('save_json', path, core.json_text(value) .. '\n')
  end)

--- A cell as text: numbers with all digits, NaN as an empty cell.
local function cell(value, special)
  value = util.plain(value)
  local kind = type(value)
  if kind ~= 'number' and kind ~= 'string' and kind ~= 'boolean' then
    core.fail('save_csv: cells are numbers, texts or booleans, got %s', core.describe(value))
  end
  if kind == 'number' then
    if value ~= value then return '' end
    return math.abs(value) < math.huge and core.json_number(value) or value > 0 and 'inf' or '-inf'
  end
  local text = tostring(value)
  if text:find(special) or text:find '^%s' or text:find '%s$' then text = '"' .. text:gsub('"', '""') .. '"' end
  return text
end

--- The elements of a tensor [n] as a list; integers that a Lua number cannot represent become strings of digits.
local function listed(column)
  local large = column.dtype == 'int64' and column:gt(2 ^ 53):logical_or(column:lt(-2 ^ 53)):any()
  if not large then return column:tolist() end
  local numbers, list = column:detach():cpu():contiguous(), {}
  local data = numbers:data()
  for i = 1, #numbers do list[i] = tostring(data[i - 1]):gsub('LL$', '') end
  return list
end

formats.save_csv = core.declare('save_csv(path: string, columns: table, delimiter: string = nil)',
  'Writes a table of columns by name, tensors of one dimension or lists, as CSV with a header: in the order of ' ..
  '.names, else of the names. Returns the path.',
  function(path, columns, delimiter)
    delimiter = delimiter or ','
    check_delimiter('save_csv', delimiter)
    local names, lists, lines = rawget(columns, 'names') or util.sorted_keys(columns), {}, {}
    for k, name in ipairs(names) do
      local column = columns[name == 'names' and k or name] -- columns.names are the names
      if mt.is_tensor(column) and column:dim() == 1 then column = listed(column) end
      core.check(type(column) == 'table' and #column == #(lists[1] or column),
        "save_csv: '%s' must be a list or a tensor [n] as long as the first column, got %s", tostring(name),
        core.describe(columns[name]))
      lists[k] = column
    end
    local special, row = '["\r\n%' .. delimiter .. ']', {}
    for i = 0, #(lists[1] or '') do
      for k, name in ipairs(names) do row[k] = cell(i == 0 and name or i > 0 and lists[k][i], special) end
      local line = table.concat(row, delimiter)
      lines[i + 1] = line == '' and '""' or line -- an empty line would not be a row
    end
    return core.write_file('save_csv', path, table.concat(lines, '\n') .. '\n')
  end)

-- ---- images --------------------------------------------------------------------------------------

formats.image = core.declare('image(path: string, channels: int >= 1 <= 4 = nil)',
  'The pixels of a PNG or JPEG file, uint8 [channels x height x width]: 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and ' ..
  'alpha. channels converts. 16 bits become 8, palettes RGB.',
  function(path, channels) return (native.image(path, channels or 0)) end)

--- An image as uint8 [channels x height x width]; floats are from 0 to 1.
local function pixels(name, x)
  local shape = x.shape
  if #shape == 2 then x, shape = x:unsqueeze(1), {1, shape[1], shape[2]} end
  core.check(#shape == 3 and shape[1] >= 1 and shape[1] <= 4 and shape[2] * shape[3] ~= 0,
    '%s: a picture is [height x width] or [1 to 4 x height x width], got %s', name, x.shape)
  x = x:detach():cpu()
  if x.dtype == 'bool' then x = x:byte() * 255
  elseif x:is_floating_point() then x = (x:float():nan_to_num(0) * 255 + 0.5):clamp(0, 255):byte()
  elseif x.dtype ~= 'uint8' then
    core.fail('%s: a picture is uint8, bool, or a float from 0 to 1, got %s; use x:byte()', name, x.dtype)
  end
  return x:contiguous()
end

formats.save_image = core.declare('save_image(path: string, x: tensor, quality: int >= 1 <= 100 = 75)',
  'Writes a picture as .png, .jpg or .jpeg: [height x width] or [channels x height x width] with 1 gray, 2 gray and ' ..
  'alpha (PNG), 3 RGB, 4 RGB and alpha (PNG); uint8, bool, or a float from 0 to 1. quality: of JPEG. Returns the path.',
  function(path, x, quality)
    local ending = path:lower():match('%.(%w+)$')
    core.check(ending == 'png' or ending == 'jpg' or ending == 'jpeg',
      "save_image: the path must end in .png, .jpg or .jpeg, got '%s'", path)
    x = pixels('save_image', x)
    core.check(ending == 'png' or x.shape[1] % 2 ~= 0,
      'save_image: JPEG has 1 or 3 channels, got %d; write a .png', x.shape[1])
    return core.write_file('save_image', path,
      ending == 'png' and native.encode_png(x) or native.encode_jpeg(x, quality))
  end)

-- ---- sound ---------------------------------------------------------------------------------------

formats.wav = core.declare('wav(path: string)', 'A WAV file (PCM of 8, 16, 24, 32 bits, or floats): samples float32 ' ..
  '[channels x frames] from -1 to 1, and the sample rate.', native.wav)

formats.save_wav = core.declare('save_wav(path: string, x: tensor, sample_rate: int >= 1, bits: int = nil)',
  'Writes samples [channels x frames] or [frames] as WAV: uint8, int16 and int32 as they are, floats as 32-bit ' ..
  'floats or, with bits (8, 16, 24, 32), as integers, cut to -1..1. Returns the path.',
  function(path, x, rate, bits)
    if #x.shape == 1 then x = x:unsqueeze(1) end
    if #x.shape ~= 2 then core.fail('save_wav: samples are [channels x frames], got %s', tostring(x.shape)) end
    local real = x:is_floating_point()
    core.check(real or x.dtype == 'uint8' or x.dtype == 'int16' or x.dtype == 'int32',
      'save_wav: samples are floats, uint8, int16 or int32, got %s', x.dtype)
    core.check(not bits or real and bits % 8 == 0 and bits >= 8 and bits <= 32,
      'save_wav: bits must be 8, 16, 24 or 32, of float samples, got %d of %s', bits, x.dtype)
    x = x:detach():cpu()
    x = (real and x:float() or x):contiguous()
    return core.write_file('save_wav', path, util.attempt('save_wav', native.encode_wav, x, rate, bits or 0))
  end)

return formats
