-- files.lua -- files of tensors: IDX, safetensors
local core = require 'mtorch.core'
local mt = require 'mtorch'

local files = {}

files.idx = core.declare('idx(path)', "The tensor in an IDX file, such as MNIST's (also .gz): the file's " ..
  'own values, uint8 for images and labels.', core.read_idx)

files.safetensors = core.declare('safetensors(path: string)',
  'The tensors of a safetensors file (also .gz), a table by name; and the metadata, a table of strings. uint16 ' ..
  'comes as int32, uint32 as int64, uint64 as int64 if it fits.',
  function(path) return core.read_safetensors('safetensors', path) end)

--- A string that safetensors can hold.
local function utf8(what, text)
  if type(text) ~= 'string' then
    core.fail('save_safetensors: %s must be a string, got %s', what, core.describe(text))
  end
  if not core.json_quoted(text) then core.fail('save_safetensors: %s %q is not UTF-8', what, text) end
  return text
end

files.save_safetensors = core.declare('save_safetensors(path: string, tensors: table, metadata: table = nil)',
  'Writes a table of tensors by name, contiguous, as a safetensors file: whole or not at all. metadata: a table of ' ..
  'strings by name. mt.save takes nested tables and plain values too.',
  function(path, tensors, metadata)
    local names, list, texts = {}, {}, {}
    for name in pairs(tensors) do names[#names + 1] = utf8('a name', name) end
    table.sort(names)
    for i, name in ipairs(names) do
      list[i] = tensors[name]
      if not mt.is_tensor(list[i]) then
        core.fail("save_safetensors: '%s' must be a tensor, got %s", name, core.describe(list[i]))
      end
      if name == '__metadata__' then core.fail("save_safetensors: no tensor can have the name '__metadata__'") end
    end
    for key, value in pairs(metadata or {}) do
      texts[#texts + 1] = {utf8('a key of the metadata', key), utf8('the metadata ' .. key, value)}
    end
    table.sort(texts, function(a, b) return a[1] < b[1] end)
    local flat = {}
    for _, pair in ipairs(texts) do flat[#flat + 1], flat[#flat + 2] = pair[1], pair[2] end
    core.write_safetensors('save_safetensors', path, names, list, flat)
  end)

return files
