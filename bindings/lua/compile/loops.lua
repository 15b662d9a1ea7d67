-- loops.lua -- mt.map of functions whose loops depend on an element: as a grid kernel with a thread for each element
local core = require 'mtorch.core'
local mt = require 'mtorch'

local loops = {}

-- What a kernel calculates in: float32, or float64 where one of its tensors has it.
local rank = setmetatable({float32 = 1, float64 = 2}, {__index = function() return 0 end})

--- Whether a trace failed for a loop, or for too many ways through the function.
function loops.are_why(trouble)
  return trouble:find "'for' %a+ must be a number" or trouble:find "'for' initial value" or
    trouble:find 'decides more than' or trouble:find 'ways through'
end

--- Raises what the kernel's compiler said, at the function's own line, which is the last place in it.
function loops.refuse(name, trouble)
  local place, message = tostring(trouble):match '.*%f[%S](%S+:%d+): (.*)$'
  error(place and ('%s: %s: %s'):format(place, name, message) or trouble, 0)
end

--- A kernel that calls f for each element; `kinds` says which arguments are tensors.
function loops.kernel(f, kinds)
  local parameters, arguments = {}, {}
  for i, kind in ipairs(kinds) do
    parameters[i] = 'a' .. i
    arguments[i] = kind == 'tensor' and ('a%d[i]'):format(i) or 'a' .. i
  end
  local text = ('local f = ...\nreturn function(result, %s)\n  local i = grid(1)\n  if i <= #result then\n' ..
    '    result[i] = f(%s)\n  end\nend\n'):format(table.concat(parameters, ', '), table.concat(arguments, ', '))
  return mt.kernel(assert(loadstring(text))(f))
end

local function common_shape(name, tensors)
  local all = {pcall(mt.broadcast_tensors, unpack(tensors))}
  if not all[1] then core.fail('%s: %s', name, (tostring(all[2]):gsub('^.-:%d+: ', ''))) end
  return {unpack(all, 2)}
end

--- The kernel's result for these tensors and numbers, in the order of `kinds`.
function loops.run(name, kernel, kinds, tensors, numbers, out)
  local dtype = tensors[1].dtype
  for _, x in ipairs(tensors) do
    if x.requires_grad and mt.is_grad_enabled() then
      core.fail('%s: a function with a loop whose end depends on an element has no gradient; give x:detach(), or ' ..
        'wrap a kernel in mt.Function', name)
    end
    if rank[x.dtype] > rank[dtype] then dtype = x.dtype end
  end
  if rank[dtype] == 0 then dtype = mt.get_default_dtype() end
  local all = common_shape(name, tensors)
  local shape, arguments, t, n = all[1].shape, {}, 0, 0
  for i, kind in ipairs(kinds) do
    if kind == 'tensor' then
      t = t + 1
      arguments[i] = all[t]:to(dtype):reshape(-1)
    else
      n = n + 1
      arguments[i] = numbers[n]
    end
  end
  local result = mt.empty(shape, {dtype = dtype, device = all[1].device})
  if result:numel() > 0 then
    local launch = kernel[{math.ceil(result:numel() / 256), 256}]
    local ok, trouble = pcall(launch, result:view(-1), unpack(arguments))
    if not ok then loops.refuse(name, trouble) end
  end
  if out == nil then return result end
  if out.shape ~= result.shape then
    core.fail('%s: out is %s, the result %s', name, tostring(out.shape), tostring(result.shape))
  end
  return out:copy_(result)
end

return loops
