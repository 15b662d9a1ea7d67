-- hashes.lua -- whether two builds compute the same bits: hashes of results, values of gradients
--
--   mtorch tests/gates/hashes.lua --save before.tsv      one row per function and dtype, one column per instruction set
--   mtorch tests/gates/hashes.lua --compare before.tsv   prints the rows that differ, status 1
--   mtorch tests/gates/hashes.lua --only '^sum/' --each  also one row per layout and number of threads
--
-- Hashes are computed of forward results of every elementwise operation, reduction and scan, of
-- products, normalisations, sorting and indexing, over dtypes, layouts and 1 and 2 threads, and of
-- parameters after 20 steps of SGD, Adam and AdamW. All NaNs are equal. Gradients of first and second
-- order and RMSprop are compared within 4 ulp of the row's largest element. Bits depend on the
-- instruction set: --save replaces its column in the file, --compare needs it.
local mt = require 'mtorch'
local core = require 'mtorch.core'
local optim = require 'mtorch.optim'
local ffi = require 'ffi'
local bit = require 'bit'

local options = mt.args {save = '', compare = '', only = '', each = false}
local dtypes = {'bool', 'uint8', 'int32', 'int64', 'float16', 'bfloat16', 'float32', 'float64'}
local floats = {float16 = true, bfloat16 = true, float32 = true, float64 = true}
local wide = {'float32', 'float64'}

-- ---- values, which do not depend on mtorch's random generator ----

local state
--- Seeds the values of a row by its name, so that they do not depend on other rows.
local function seed_row(name)
  state = 1
  for i = 1, #name do state = (state * 31 + name:byte(i)) % 2147483647 end
end
local function uniform()
  state = state * 16807 % 2147483647 -- Park and Miller's: exact in a double
  return state / 2147483647
end

local special = {0 / 0, 1 / 0, -1 / 0, 0 / -1, 0, 1e-40, -1e-40, 1e30, -1e30, 1, -1, 0.5}

--- Returns a tensor of `n` values from [lo, hi); with `edges` every 17th value of floats is special.
local function values(n, lo, hi, dtype, edges)
  local list = mt.zeros(n, {dtype = floats[dtype] and 'float64' or 'int64', device = 'cpu'})
  local data = list:data()
  for i = 0, n - 1 do
    local x = lo + (hi - lo) * uniform()
    if floats[dtype] then
      data[i] = edges and i % 17 == 16 and special[math.floor(i / 17) % #special + 1] or x
    else
      data[i] = dtype == 'bool' and (uniform() < 0.5 and 0 or 1) or
                dtype == 'uint8' and math.abs(math.floor(x)) or math.floor(x)
    end
  end
  return list:to(dtype)
end

-- Each function creates a matrix (or the named shape) of one dtype; `make(n)` returns n values.
local layouts = {
  {'contiguous', function(make) return make(15 * 33):view(15, 33) end},
  {'transposed', function(make) return make(15 * 33):view(33, 15):t() end},
  {'sliced', function(make) return make(30 * 70):view(30, 70)[{{1, 30, 2}, {3, 68, 2}}] end},
  {'expanded', function(make) return make(33):view(1, 33):expand(15, 33) end},
  {'column', function(make) return make(15):view(15, 1):expand(15, 33) end},
  {'empty', function(make) return make(0):view(0, 5) end},
  {'one', function(make) return make(1):view(1, 1) end},
  {'three', function(make) return make(5 * 7 * 9):view(5, 7, 9):permute(2, 1, 3) end},
  {'large', function(make) return make(150 * 1111):view(150, 1111) end},
  {'wide', function(make) return make(2 * 70001):view(2, 70001) end},
}

-- ---- hashing ----

local pointers = {float32 = 'const uint32_t *', int32 = 'const uint32_t *',
                  float64 = 'const uint64_t *', int64 = 'const uint64_t *',
                  uint8 = 'const uint8_t *', bool = 'const uint8_t *'}

--- Adds a result (tensors, numbers, booleans, lists of them) to the hash `h`, similar to FNV-1 by elements.
local function add(h, x)
  if type(x) == 'table' then
    for _, each in ipairs(x) do h = add(h, each) end
    return h
  elseif not mt.is_tensor(x) then
    return add(h, mt.tensor({tonumber(x) or x and 1 or 0}, {dtype = 'float64'}))
  end
  for _, size in ipairs(x.shape) do h = (h * 1099511628211ULL) + size + 1 end
  if x.dtype == 'float16' or x.dtype == 'bfloat16' then x = x:to('float32') end
  x = x:detach():contiguous()
  local value = x:data()
  local bits = ffi.cast(pointers[x.dtype], value)
  for i = 0, x:numel() - 1 do
    local word = value[i] ~= value[i] and 0x7ff8ULL or bits[i] + 0ULL
    h = (h * 1099511628211ULL) + bit.bxor(word, bit.rshift(h, 29))
  end
  return h
end

-- ---- rows ----

local rows, order = {}, {}
local function add_row(name, text)
  if not name:find(options.only) then return end
  if rows[name] then error('duplicate row ' .. name, 0) end
  rows[name], order[#order + 1] = text, name
end
local function text_of(h) return bit.tohex(h) end

--- Adds a row: f(x..) over the layouts and threads; each of `inputs` is {lo, hi, dtype?}.
local function hash_row(name, dtype, inputs, f, without)
  name = name .. '/' .. dtype
  if not name:find(options.only) then return end
  local all, call_count, refused = 14695981039346656037ULL, 0, nil
  seed_row(name)
  for _, layout in ipairs(layouts) do
    if not (without and layout[1]:find(without)) then
      local given = {}
      for i, input in ipairs(inputs) do
        given[i] = layout[2](function(n)
          return values(n, input[1], input[2], input[3] or dtype, input.edges)
        end)
      end
      for threads = 1, 2 do
        mt.set_num_threads(threads)
        local results = {pcall(f, unpack(given))}
        call_count = call_count + 1
        if table.remove(results, 1) then
          all = add(all, results)
          if options.each then
            add_row(('%s/%s/%d'):format(name, layout[1], threads), text_of(add(1ULL, results)))
          end
        else
          all, refused = add(all, -1), (refused or 0) + 1
        end
      end
    end
  end
  if refused ~= call_count then
    add_row(name, text_of(all) .. (refused and (' %d of %d refused'):format(refused, call_count) or ''))
  end
end

local extra_arguments = {clamp = {0.7, 1.2}, polygamma = {2}}
local divides = {floor_divide = true, trunc_divide = true, remainder = true, fmod = true}
local function elementwise_rows()
  for _, op in ipairs(core.operations()) do
    local given = extra_arguments[op.name] or {}
    local function call(...)
      local arguments = {...}
      if op.name == 'prelu' then arguments[2] = mt.full({1}, 0.25):to(arguments[1].dtype) end
      local ok, result = pcall(mt[op.name], unpack(arguments))
      if ok then return result end
      for i = 1, #op.params do arguments[op.inputs + i] = given[i] or 0.5 end
      return mt[op.name](unpack(arguments))
    end
    for _, dtype in ipairs(dtypes) do
      local inputs = {}
      for i = 1, op.inputs do inputs[i] = {op.lo, op.hi, edges = true} end
      if divides[op.name] and not floats[dtype] then inputs[2] = {1, 9} end
      if op.mask_first then inputs[1] = {0, 2, 'bool'} end
      hash_row(op.name, dtype, inputs, call)
    end
  end
end

-- {name}: called with and without a dimension.
local reductions = {
  {'sum'}, {'mean'}, {'prod'}, {'max'}, {'min'}, {'amax'}, {'amin'}, {'argmax'}, {'argmin'},
  {'aminmax'}, {'all'}, {'any'}, {'count_nonzero'}, {'nansum'}, {'nanmean'}, {'logsumexp'},
  {'var'}, {'std'}, {'var_mean'}, {'std_mean'}, {'median'}, {'mode'},
}
local scans = {'cumsum', 'cumprod', 'cummax', 'cummin', 'logcumsumexp'}

--- Returns a function that reduces all elements, along each dimension, with keepdim, and along two.
local function reduced(name)
  return function(x)
    local f, results = mt[name], {}
    local function take(...)
      local got = {pcall(f, ...)}
      if table.remove(got, 1) then results[#results + 1] = got else results[#results + 1] = -7 end
    end
    take(x)
    for dim = 1, x:dim() do take(x, dim) end
    take(x, -1, true)
    take(x, {1, 2})
    local refused = true
    for _, each in ipairs(results) do refused = refused and each == -7 end
    if refused then error('refused') end
    return unpack(results)
  end
end
local function along_all(f)
  return function(x)
    local results = {}
    for dim = 1, x:dim() do results[dim] = {f(x, dim)} end
    return unpack(results)
  end
end

local function reduction_rows()
  for _, dtype in ipairs(dtypes) do
    for _, edges in ipairs {false, true} do
      local inputs = {{-4, 4, edges = edges}}
      local suffix = edges and '_edges' or ''
      if not edges or floats[dtype] then
        for _, r in ipairs(reductions) do hash_row(r[1] .. suffix, dtype, inputs, reduced(r[1])) end
        for _, name in ipairs(scans) do
          hash_row(name .. suffix, dtype, inputs, along_all(mt[name]))
        end
        for _, p in ipairs {0, 1, 2, 3, 0.5, 1 / 0, -1 / 0, 'fro'} do
          hash_row(('norm_%s%s'):format(p, suffix), dtype, inputs, function(x)
            return mt.norm(x, p), mt.norm(x, p, 1), mt.norm(x, p, -1, true)
          end)
        end
      end
    end
  end
end

local function other_rows()
  local one = {{-4, 4}}
  for _, dtype in ipairs(dtypes) do
    for _, name in ipairs {'sort', 'argsort', 'flip', 'roll'} do
      hash_row(name, dtype, one, name == 'roll' and function(x) return x:roll(1, 1) end or
                                 name == 'flip' and function(x) return x:flip(1) end or
                                 along_all(mt[name]))
    end
    hash_row('topk', dtype, one, function(x) return mt.topk(x, math.min(3, x:size(-1))) end)
    hash_row('cat', dtype, {{-4, 4}, {-4, 4}}, function(x, y) return mt.cat({x, y}, 1) end)
    hash_row('masked_select', dtype, one, function(x) return x[x:gt(0)] end)
    hash_row('index_add', dtype, one, function(x)
      local at = mt.arange(1, x:size(1)):long():mul(7):remainder(3):add(1)
      return mt.zeros(3, x:size(2), {dtype = dtype}):index_add(1, at, x)
    end, 'three')
    hash_row('matmul', dtype, {{-4, 4}, {-4, 4}}, function(x, y)
      return mt.matmul(x, y:transpose(-1, -2))
    end, 'large')
  end
  for _, dtype in ipairs {'float16', 'bfloat16', 'float32', 'float64'} do
    for _, name in ipairs {'softmax', 'log_softmax'} do
      hash_row(name, dtype, one, along_all(mt[name]))
    end
    hash_row('layer_norm', dtype, one, function(x) return mt.layer_norm(x, {x:size(-1)}) end)
    hash_row('batch_norm', dtype, one, function(x)
      return mt.batch_norm(x, nil, nil, nil, nil, true)
    end)
    hash_row('conv2d', dtype, one, function(x)
      local weight = values(2 * 3 * 3, -1, 1, dtype):view(2, 1, 3, 3)
      return mt.conv2d(x:reshape(1, 1, x:size(-2), x:size(-1)), weight)
    end, 'three')
    hash_row('max_pool2d', dtype, one, function(x)
      return mt.max_pool2d(x:reshape(1, 1, x:size(-2), x:size(-1)), 2)
    end, 'three')
  end
end

-- ---- gradients ----

local small = {
  function(make) return make(4 * 5):view(4, 5) end,
  function(make) return make(5 * 4):view(5, 4):t() end,
  function(make) return make(2 * 3 * 4):view(2, 3, 4):permute(2, 1, 3) end,
}

local function numbers(...)
  local words = {}
  for _, x in ipairs {...} do
    local form = x.dtype == 'float64' and '%.17g' or '%.9g'
    x = x:detach():to('float64'):contiguous()
    local data = x:data()
    for i = 0, x:numel() - 1 do words[#words + 1] = form:format(data[i]) end
  end
  return table.concat(words, ' ')
end

--- Adds rows with the gradient of sum(w f(x)), and the gradient of the sum of its squares.
local function gradient_row(name, dtype, f)
  name = ('grad/%s/%s'):format(name, dtype)
  if not name:find(options.only) then return end
  mt.set_num_threads(1)
  seed_row(name)
  for layout, made in ipairs(small) do
    local leaf
    local x = made(function(n)
      leaf = values(n, 0.2, 3, dtype):requires_grad_()
      return leaf
    end)
    local ok, y = pcall(f, x)
    if ok and mt.is_tensor(y) and y.requires_grad then
      local w = values(y:numel(), -1, 1, dtype):view_as(y)
      local first = mt.grad((y * w):sum(), leaf, {create_graph = true})
      local found = {first}
      if first.requires_grad then
        local fine, second = pcall(mt.grad, first:square():sum(), leaf)
        if fine then found[2] = second end
      end
      add_row(name .. '/' .. layout, numbers(unpack(found)))
    end
  end
end

local function gradient_rows()
  for _, dtype in ipairs(wide) do
    for _, r in ipairs(reductions) do
      gradient_row(r[1], dtype, function(x) return (mt[r[1]](x)) end)
      gradient_row(r[1] .. '_1', dtype, function(x) return (mt[r[1]](x, 1)) end)
      gradient_row(r[1] .. '_2', dtype, function(x) return (mt[r[1]](x, 2, true)) end)
      gradient_row(r[1] .. '_12', dtype, function(x) return (mt[r[1]](x, {1, 2})) end)
    end
    for _, name in ipairs(scans) do
      for dim = 1, 2 do
        gradient_row(name .. '_' .. dim, dtype, function(x) return (mt[name](x, dim)) end)
      end
    end
    for _, p in ipairs {1, 2, 3, 0.5, 1 / 0} do
      gradient_row('norm_' .. p, dtype, function(x) return mt.norm(x, p, 2) end)
    end
  end
end

-- ---- optimizers ----

local optimizer_cases = {
  {'SGD', {lr = 0.1}}, {'SGD', {lr = 0.1, momentum = 0.9}},
  {'SGD', {lr = 0.1, momentum = 0.9, weight_decay = 0.01, dampening = 0.2}},
  {'SGD', {lr = 0.1, momentum = 0.9, nesterov = true}},
  {'Adam', {lr = 0.01}}, {'Adam', {lr = 0.01, betas = {0.8, 0.95}, eps = 1e-6, weight_decay = 0.1}},
  {'AdamW', {lr = 0.01}}, {'AdamW', {lr = 0.02, weight_decay = 0.2}},
  {'RMSprop', {lr = 0.01}},
  {'RMSprop', {lr = 0.01, alpha = 0.9, momentum = 0.5, weight_decay = 0.1}},
}

local function optimizer_rows()
  for at, rule in ipairs(optimizer_cases) do
    for _, dtype in ipairs {'float16', 'float32', 'float64'} do
      local parameters, all = {}, 14695981039346656037ULL
      seed_row(rule[1])
      for i, n in ipairs {1, 7, 1000, 70001} do
        parameters[i] = values(n, -1, 1, dtype):requires_grad_()
      end
      for threads = 1, 2 do
        mt.set_num_threads(threads)
        local opt = optim[rule[1]](parameters, rule[2])
        for step = 1, 20 do
          for i, p in ipairs(parameters) do
            local slope = (p:detach():float():mul(step):sin() + 0.1):to(dtype)
            p.grad = (step + i) % 5 > 0 and slope or nil
          end
          opt:step()
        end
        for _, p in ipairs(parameters) do all = add(all, p) end
      end
      local name = ('%s_%d/%s'):format(rule[1], at, dtype)
      if rule[1] == 'RMSprop' then
        local some = parameters[3]:narrow(1, 1, 100)
        add_row('step/' .. name, numbers(parameters[1], parameters[2], some))
      else
        add_row(name, text_of(all))
      end
    end
  end
end

-- ---- comparing ----

--- Returns the largest difference of two lists of values, in ulp of the largest value.
local function distance(before, now, eps)
  local a, b, largest, worst = {}, {}, 0, 0
  for word in before:gmatch('%S+') do a[#a + 1] = tonumber(word) end
  for word in now:gmatch('%S+') do b[#b + 1] = tonumber(word) end
  if #a ~= #b then return 1 / 0 end
  for _, x in ipairs(a) do
    if math.abs(x) < 1 / 0 then largest = math.max(largest, math.abs(x)) end
  end
  for i, x in ipairs(a) do
    local same = x == b[i] or x ~= x and b[i] ~= b[i]
    if not same then
      local ulps = math.abs(x - b[i]) / (largest * eps)
      worst = ulps == ulps and math.max(worst, ulps) or 1 / 0
    end
  end
  return worst
end

--- The columns of a file in their order, and its rows: lists of a name and the cells by instruction set. None: {}, {}.
local function read_file(path)
  local columns, list, file = {}, {}, io.open(path)
  for line in file and file:lines() or function() end do
    local cells, row = line:gmatch('[^\t]+'), {cells = {}}
    row.name = cells()
    if row.name == '# name' then for name in cells do columns[#columns + 1] = name end else
      for _, name in ipairs(columns) do row.cells[name] = cells() end
      list[#list + 1] = row
    end
  end
  if file then file:close() end
  return columns, list
end

local function compare(path)
  local seen, wrong, close = {}, 0, 0
  local columns, list = read_file(path)
  if not (' ' .. table.concat(columns, ' ') .. ' '):find(' ' .. core.isa() .. ' ', 1, true) then
    error(('%s has the instruction sets {%s}, not %s; set MTORCH_ISA'):format(path, table.concat(columns, ', '),
      core.isa()), 0)
  end
  for _, row in ipairs(list) do
    local name, text = row.name, row.cells[core.isa()]
    if text and text ~= '-' and name:find(options.only) then
      seen[name] = true
      local values_row = name:match('^grad/') or name:match('^step/')
      local eps = name:find('float64') and 2 ^ -52 or name:find('float16') and 2 ^ -10 or 2 ^ -23
      if not rows[name] then
        wrong = wrong + 1
        print('gone     ' .. name)
      elseif rows[name] ~= text then
        local ulps = values_row and distance(text, rows[name], eps) or 1 / 0
        wrong, close = wrong + (ulps > 4 and 1 or 0), close + (ulps <= 4 and 1 or 0)
        print(('%s  %s%s'):format(ulps > 4 and 'differs' or 'close  ', name,
                                  values_row and ('  %.2f ulp'):format(ulps) or ''))
      end
    end
  end
  local new = 0
  for _, name in ipairs(order) do
    if not seen[name] then new = new + 1 print('new      ' .. name) end
  end
  print(('%d rows: %d differ, %d within 4 ulp, %d new'):format(#order, wrong, close, new))
  return wrong == 0
end

for _, part in ipairs {elementwise_rows, reduction_rows, other_rows, gradient_rows,
                       optimizer_rows} do
  part()
end
if options.save ~= '' then
  local columns, list = read_file(options.save)
  local cells, known = {}, false
  for _, row in ipairs(list) do cells[row.name] = row.cells end
  for _, name in ipairs(columns) do known = known or name == core.isa() end
  if not known then columns[#columns + 1] = core.isa() end
  local file = assert(io.open(options.save, 'w'))
  file:write('# name\t', table.concat(columns, '\t'), '\n')
  for _, name in ipairs(order) do
    local row = cells[name] or {}
    row[core.isa()] = rows[name]
    file:write(name)
    for _, isa in ipairs(columns) do file:write('\t', row[isa] or '-') end
    file:write('\n')
  end
  file:close()
  print(('%d rows in %s'):format(#order, options.save))
elseif options.compare ~= '' then
  os.exit(compare(options.compare) and 0 or 1)
else
  for _, name in ipairs(order) do print(name .. '\t' .. rows[name]) end
end
