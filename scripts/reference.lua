-- reference.lua -- writes docs/reference.md, or the stubs for the Lua language server
--
--   mtorch scripts/reference.lua [FILE.md | FILE.lua]     from the declarations that check arguments and answer mt.help
--
-- The build writes the stubs (stubs/mtorch.lua); a test compares docs/reference.md with what this makes.
local mt = require 'mtorch'
local core, util = require 'mtorch.core', require 'mtorch.core.util'
local objects = require 'mtorch.tools.object_methods'

local reference = {}

-- What a parameter's name says of its type. Every name that a declaration uses stands here.
local tensor, list = 'mt.Tensor', 'mt.Tensor[]'
local integer, integers, number, boolean, text = 'integer', 'integer|integer[]', 'number', 'boolean', 'string'
local operand, callable, dtype = 'mt.Tensor|number', 'function', 'mt.Dtype'
reference.types = {}
for kind, names in pairs {
  [tensor] = [[x index source target weight bias gradient condition a b tensor A B input input1 input2 src mask sorter
    factor running_mean running_var values sorted_sequence boundaries weights pos_weight anchor positive negative query
    key theta grid log_probs targets per_sample_weights offsets LU pivots attn_mask ids v kept fweights aweights]],
  [operand] = 'y z p_or_shape elements test_elements prepend append mean std sizes_or_number var',
  [list] = 'tensors parameters indices',
  ['mt.Tensor|mt.Tensor[]'] = 'inputs outputs grad_outputs',
  [integer] = [[n m grid_x grid_y length in_features out_features ignore_index dim1 dim2 k diagonal offset minlength
    num_classes padding_idx num_groups groups upscale_factor rows columns storage_offset edgeitems linewidth
    blank downscale_factor N ind
    precision threshold seed decimals warmup bins runs max_iter top wait active r edge_order]],
  [integers] = [[shape dims dim size kernel_size stride padding dilation output_size output_padding normalized_shape
    repeats shifts destination source_dims sizes sides scale]],
  [number] = [[value first last step eps atol rtol lr weight_decay momentum dampening alpha beta p q min max delta
    init_scale growth_factor backoff_factor growth_interval nondet_tol margin rcond lambd from to label_smoothing
    dropout_p correction scale_factor divisor_override dx maxnorm]],
  [boolean] = [[keepdim requires_grad equal_nan enabled retain_graph create_graph wanted nesterov descending stable
    ceil_mode count_include_pad training upper right reverse log_target is_causal left unitriangular hermitian
    full_matrices return_indices return_counts return_inverse sorted largest invert assume_unique as_tuple replacement
    accumulate include_self allow_unused quiet unbiased centered sci_mode align_corners use_input_stats
    non_blocking swap full log_input zero_infinity include_last_offset enable_gqa pivot adjoint check_errors
    check with_replacement density]],
  [text] = [[device other reduction name path mode reduce side driver UPLO approximate rounding_mode interpolation
    equation state kind profile sort padding_mode]],
  [callable] = 'fn forward backward', [dtype] = 'dtype', ['number[]'] = 'betas range', table = 'base defines rank',
  ['string[]'] = 'options',
  ['number|number[]|mt.Tensor[]'] = 'spacing',
  ['integer|integer[]|mt.Tensor'] = 'parts',
  ['mt.Tensor|integer|integer[]'] = 'input_lengths target_lengths',
  ['number|boolean|table|mt.Tensor'] = 'data', ['number|string'] = 'ord', ['mt.Generator'] = 'generator',
} do
  for name in names:gmatch('%S+') do reference.types[name] = kind end
end
-- Where one name means something else.
reference.of = {['kernel.source'] = text, ['launch_kernel.grid'] = 'integer|table', ['cdiv.a'] = integer,
  ['cdiv.b'] = integer, ['to.target'] = text, ['full.value'] = 'number|boolean', ['fill.value'] = operand,
  ['unravel_index.indices'] = tensor, ['histogram.bins'] = 'integer|mt.Tensor',
  ['max_unpool2d.indices'] = tensor}
for _, op in ipairs(core.operations()) do -- what follows the tensors of an elementwise operation is a number
  for _, param in ipairs(op.params) do reference.of[op.name .. '.' .. param] = number end
end
-- What comes back, where that is no tensor.
reference.returns = {}
for returned, names in pairs {
  integer = 'cdiv dim numel get_num_threads storage_offset',
  boolean = 'is_contiguous is_pinned is_tensor allclose equal ' ..
    'set_grad_enabled is_grad_enabled gradcheck gradgradcheck', any = 'all any size stride item at tolist data ' ..
    'no_grad help profile timeit time memory_stats indices', ['mt.Tensor, mt.Tensor'] = '',
} do
  for name in names:gmatch('%S+') do reference.returns[name] = returned end
end

local function type_of(owner, p, untyped)
  local known = p.out and '{out?: mt.Tensor}' or reference.of[owner:gsub('_$', '') .. '.' .. p.name] or
    reference.types[p.name]
  if not known then untyped[#untyped + 1] = owner .. '.' .. p.name end
  return known or 'any'
end

--- One function as a stub: `---@param` lines and an empty body.
local function stub(owner, name, signature, doc, is_method, untyped)
  local lines, names = {'--- ' .. doc:gsub('\n', ' ')}, {}
  for i, p in ipairs(util.parameters(signature)) do
    local self = is_method and i == 1
    if p.open then
      lines[#lines + 1], names[#names + 1] = '---@param ... any', '...'
    elseif not self then
      lines[#lines + 1] = ('---@param %s%s %s%s'):format(p.name, p.default and '?' or '',
        type_of(name, p, untyped), p.default and p.default ~= 'nil' and ' default ' .. p.default or '')
      names[#names + 1] = p.name
    end
  end
  local returned = reference.returns[name] or (owner == 'mt' or is_method) and tensor or 'any'
  lines[#lines + 1] = '---@return ' .. returned .. ' ...'
  lines[#lines + 1] = ('function %s%s%s(%s) end'):format(owner, is_method and ':' or '.', name,
    table.concat(names, ', '))
  return table.concat(lines, '\n') .. '\n'
end

local function sorted(names)
  table.sort(names)
  return names
end

local function keys(t)
  local names = {}
  for key in pairs(t) do names[#names + 1] = key end
  return sorted(names)
end

local modules = {}
for name in ('linalg nn optim data plot cuda'):gmatch('%S+') do
  local ok, module = pcall(function() return mt[name] end)
  if ok then modules[#modules + 1] = {name = name, module = module} end
end

--- Every declared function: {subject=, name=, signature=, doc=, method=, of_module=}, in order.
function reference.functions()
  local all = {}
  local function add(subject, owner, name, value)
    local signature, doc, limits = core.entry(value)
    local known = signature and signature:match('^[%w_]+')
    if signature and known ~= name then -- another name of the same function
      signature, doc, limits = name .. signature:sub(#known + 1), ('The same as %s.'):format(known), ''
    end
    if signature then
      if limits ~= '' then doc = ('%s %s.'):format(doc, limits) end
      all[#all + 1] = {subject = subject, owner = owner, name = name, signature = signature, doc = doc,
                       parameters = core.parameters(value),
                       method = owner == 'mt' and core.methods[name] == value or owner == 'x'}
    end
    return signature
  end
  local listed = {}
  for _, subject in ipairs(core.complete()) do
    local names = {}
    for _, name in ipairs(subject) do names[#names + 1], listed[name] = name, true end
    for _, name in ipairs(sorted(names)) do
      if rawget(mt, name) then add(subject.title, 'mt', name, mt[name]) end
      if core.methods[name] and core.methods[name] ~= rawget(mt, name) then
        add(subject.title, 'x', name, core.methods[name])
      end
    end
  end
  for _, name in ipairs(keys(core.methods)) do
    if not listed[name] then add('About one tensor', 'x', name, core.methods[name]) end
  end
  for _, name in ipairs(keys(core.lazy)) do local _ = mt[name] end
  for _, name in ipairs(keys(mt)) do
    if not listed[name] then add('The program', 'mt', name, mt[name]) end
  end
  for _, m in ipairs(modules) do
    for _, name in ipairs(core.names(m.module)) do add('mt.' .. m.name, 'mt.' .. m.name, name, m.module[name]) end
  end
  return all
end

function reference.markdown()
  local lines = {
    '# Reference', '',
    'Made by `mtorch scripts/reference.lua` from the declarations that also check arguments and answer `mt.help`.',
    "`name=value` is optional, by position or by name in one last table; `[name]` takes a list, `[shape..]` numbers",
    'or a list. What has the mark · is a method too: `x:sum(2)` is `mt.sum(x, 2)`. Positions count from 1. `{out=}`:',
    'by name only, a tensor that the result is written into and that is returned.',
  }
  local subject
  for _, f in ipairs(reference.functions()) do
    local in_place = f.name:find('_$') and core.methods[f.name:sub(1, -2)]
    if f.subject ~= subject then
      subject = f.subject
      lines[#lines + 1], lines[#lines + 2], lines[#lines + 3] = '', '## ' .. subject, ''
    end
    if not in_place then
      local twin = core.methods[f.name .. '_'] and f.method and ' In place: `' .. f.name .. '_`.' or ''
      local prefix = f.owner == 'x' and 'x:' or f.owner == 'mt' and '' or f.owner .. '.'
      local signature = f.owner == 'x' and f.signature:gsub('%(x,? ?', '(') or f.signature
      lines[#lines + 1] = ('- `%s%s`%s %s%s'):format(prefix, signature, f.method and f.owner == 'mt' and ' ·' or '',
        f.doc, twin)
    end
  end
  for _, object in ipairs(objects) do
    lines[#lines + 1], lines[#lines + 2], lines[#lines + 3] = '', '## ' .. object.title, ''
    for _, entry in ipairs(object) do
      local call = entry[1]:find('(', 1, true) and object.call or object.call:gsub(':', '.')
      lines[#lines + 1] = ('- `%s%s` %s'):format(call, entry[1], entry[2])
    end
  end
  return table.concat(lines, '\n') .. '\n'
end

--- The stubs, and the names of parameters whose type nobody knows.
function reference.stubs()
  local untyped, parts = {}, {
    '---@meta mtorch', '-- Stubs for the Lua language server, made by scripts/reference.lua.', '',
    "---@alias mt.Dtype 'float32'|'float64'|'float16'|'bfloat16'|'int64'|'int32'|'uint8'|'bool'", '',
    '---@class mt.Generator', '',
    '---@class mt.Tensor', '---@field shape integer[]', '---@field dtype mt.Dtype', '---@field device string',
    '---@field grad? mt.Tensor', '---@field requires_grad boolean', '---@field is_leaf boolean',
    '---@field ndim integer', '---@field T mt.Tensor', '---@field mT mt.Tensor',
    '---@field [any] any', '---@operator add(mt.Tensor|number): mt.Tensor',
    '---@operator sub(mt.Tensor|number): mt.Tensor',
    '---@operator mul(mt.Tensor|number): mt.Tensor', '---@operator div(mt.Tensor|number): mt.Tensor',
    '---@operator pow(mt.Tensor|number): mt.Tensor', '---@operator mod(mt.Tensor|number): mt.Tensor',
    '---@operator unm: mt.Tensor', '---@operator len: integer', 'local Tensor = {}', '', 'local mt = {}', '',
  }
  for _, m in ipairs(modules) do parts[#parts + 1] = ('mt.%s = {}'):format(m.name) end
  parts[#parts + 1] = ''
  for _, f in ipairs(reference.functions()) do
    if f.name == 'repeat' then -- no name in Lua's grammar; x['repeat'](x, 2) works
    elseif f.owner ~= 'x' then parts[#parts + 1] = stub(f.owner, f.name, f.signature, f.doc, false, untyped) end
    if f.method and f.name ~= 'repeat' then
      parts[#parts + 1] = stub('Tensor', f.name, f.signature, f.doc, true, untyped)
    end
  end
  for _, object in ipairs(objects) do
    parts[#parts + 1] = ('---@class mt.%s\nlocal %s = {}\n'):format(object.class, object.class)
    for _, entry in ipairs(object) do
      local name, arguments = entry[1]:match('^([%w_]+)%((.*)%)$')
      local names = {}
      for argument in (arguments or ''):gmatch('[^,%s]+') do names[#names + 1] = (argument:gsub('=.*', '')) end
      local code = name and ('function %s:%s(%s) end'):format(object.class, name,
        (table.concat(names, ', '):gsub('%.%.', '...'))) or ('%s.%s = nil'):format(object.class, entry[1])
      parts[#parts + 1] = ('--- %s\n%s\n'):format(entry[2], code)
    end
  end
  parts[#parts + 1] = 'return mt\n'
  return table.concat(parts, '\n'), untyped
end

if arg and arg[0] and (arg[0] == 'reference.lua' or arg[0]:find('/reference%.lua$')) then
  local file, stubs, untyped = arg[1] or 'docs/reference.md', reference.stubs()
  util.write_file('reference', file, file:find('%.lua$') and stubs or reference.markdown())
  if #untyped > 0 then print('no type is known for: ' .. table.concat(sorted(untyped), ' ')) end
end

return reference
