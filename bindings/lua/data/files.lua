-- files.lua -- files of tensors: IDX, npy, npz, safetensors
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'

local files = {}

files.idx = core.declare('idx(path)', "The tensor in an IDX file, such as MNIST's (also .gz): the file's " ..
  'values, uint8 for images and labels.', core.read_idx)

files.safetensors = core.declare('safetensors(path: string)',
  'The tensors of a safetensors file (also .gz), a table by name; and the metadata, a table of strings. uint16 ' ..
  'becomes int32, uint32 int64, uint64 int64 if it fits. Unsupported entries (complex numbers) ' ..
  'are skipped with a message, if there are others; a third table has the reasons by name.',
  function(path) return core.read_safetensors('safetensors', path) end)

--- Checks that a string can be stored in the file.
local function utf8(operation, what, text)
  if type(text) ~= 'string' then core.fail('%s: %s must be a string, got %s', operation, what, core.describe(text)) end
  if not core.json_quoted(text) then core.fail('%s: %s %q is not UTF-8', operation, what, text) end
  return text
end

--- The names of a table of tensors in order, and the tensors.
local function names_and_tensors(operation, tensors)
  local names = util.sorted_keys(tensors)
  local list = util.map(names, function(name)
    local x = tensors[utf8(operation, 'a name', name)]
    if not mt.is_tensor(x) then core.fail("%s: '%s' must be a tensor, got %s", operation, name, core.describe(x)) end
    return x
  end)
  return names, list
end

files.save_safetensors = core.declare('save_safetensors(path: string, tensors: table, metadata: table = nil)',
  'Writes a table of tensors by name, contiguous, as a safetensors file, atomically. metadata: a table of ' ..
  'strings by name. mt.save takes nested tables and plain values too.',
  function(path, tensors, metadata)
    local operation, texts = 'save_safetensors', {}
    local names, list = names_and_tensors(operation, tensors)
    if tensors.__metadata__ then core.fail("save_safetensors: no tensor can have the name '__metadata__'") end
    for _, key in ipairs(util.sorted_keys(metadata or {})) do
      texts[#texts + 1] = utf8(operation, 'a key of the metadata', key)
      texts[#texts + 1] = utf8(operation, 'the metadata ' .. key, metadata[key])
    end
    core.write_safetensors(operation, path, names, list, texts)
  end)

files.npy = core.declare('npy(path: string)',
  "The array of NumPy's npy file (also .gz), in the dtype of the file; " ..
  'uint16 becomes int32, uint32 int64, uint64 int64 if it fits.', core.read_npy)
files.npz = core.declare('npz(path: string)', "The arrays of NumPy's npz file (also .gz), a table by name. " ..
  'Unsupported arrays (text, objects, complex numbers) are skipped with a message, if there are others; a second ' ..
  'table has the reasons by name.',
  core.read_npz)
files.save_npy = core.declare('save_npy(path: string, x: tensor)', "Writes a tensor as NumPy's npy file, contiguous.",
  core.write_npy)
files.save_npz = core.declare('save_npz(path: string, tensors: table)',
  "Writes a table of tensors by name as NumPy's npz file, contiguous and not packed.",
  function(path, tensors) core.write_npz(path, names_and_tensors('save_npz', tensors)) end)

return files
