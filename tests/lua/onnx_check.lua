-- onnx_check.lua -- writes the networks of onnx_networks.lua as ONNX files, with inputs and mtorch's outputs
--
--   mtorch tests/lua/onnx_check.lua FOLDER [NAME]     then onnx_check.py FOLDER runs them in onnxruntime
package.path = (arg[0]:match('^(.*)/[^/]*$') or '.') .. '/?.lua;' .. package.path
local mt = require 'mtorch'

local folder, only = arg[1], arg[2]
-- The batch size of the recorded call, and the opset of cases that do not specify one.
local batch, opset = tonumber(os.getenv 'MTORCH_ONNX_BATCH') or 3, tonumber(os.getenv 'MTORCH_ONNX_OPSET')

--- Converts positions, which count from 1, to those of the file, if `counts` is true.
local function from_zero(x, is_position) return is_position and mt.where(x:gt(0), x - 1, x) or x end
local function flat(list, out)
  for _, x in ipairs(list) do
    if mt.is_tensor(x) then out[#out + 1] = x else flat(x, out) end
  end
  return out
end

--- Returns the inputs and outputs of one call, named as in the file.
local function call(case, inputs, names)
  local tensors = {}
  for i, x in ipairs(inputs) do
    tensors['in.' .. names[i]] = from_zero(x:clone(), case.positions and case.positions[i])
  end
  if type(case.net) == 'table' then case.net:eval() end
  local outputs = flat({mt.no_grad(case.net, unpack(inputs))}, {})
  for i, y in ipairs(outputs) do
    local name = #outputs == 1 and 'output' or 'output_' .. i
    tensors['out.' .. name] = from_zero(y, case.places and case.places[i])
  end
  return tensors
end

local function write(case)
  mt.manual_seed(1)
  local inputs, names, axes = case.make(batch), {}, {}
  for i in ipairs(inputs) do
    names[i] = #inputs == 1 and 'x' or 'x' .. i
    axes[names[i]] = case.axes and case.axes[i] or {[1] = 'batch'}
  end
  local path = folder .. '/' .. case.name
  mt.onnx.export(case.net, inputs, path .. '.onnx', {input_names = names, opset = case.opset or opset,
    dynamic_axes = not case.fixed and axes or nil})
  mt.data.save_safetensors(path .. '.1.safetensors', call(case, case.make(3), names))
  if not case.fixed then
    for k, n in ipairs{1, 5} do
      mt.data.save_safetensors(('%s.%d.safetensors'):format(path, k + 1), call(case, case.make(n), names))
    end
  end
end

local failed = 0
for _, case in ipairs(require 'onnx_networks') do
  if not only or only == case.name then
    local ok, message = xpcall(write, debug.traceback, case)
    if not ok then message = message:gsub("(\n[^\n]*\n[^\n]*\n[^\n]*).*", "%1") end
    if not ok then
      print(('%s: %s'):format(case.name, message))
      failed = failed + 1
    end
  end
end
os.exit(failed == 0 and 0 or 1)
