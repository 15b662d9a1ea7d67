-- seeds.lua -- files for the fuzzers to begin with: mtorch tests/fuzz/seeds.lua FOLDER makes FOLDER/csv/.. and so on
local here, folder = arg[0]:match '^(.*)/fuzz/[^/]*$', arg[1]
local samples = dofile(here .. '/data/file_samples.lua')

local function write(kind, name, text)
  os.execute(("mkdir -p '%s/%s'"):format(folder, kind))
  local file = assert(io.open(('%s/%s/%s'):format(folder, kind, name), 'wb'))
  file:write(text)
  file:close()
end
local function bytes(hex)
  return (hex:gsub('%s', ''):gsub('%x%x', function(two) return string.char(tonumber(two, 16)) end))
end
local function read(path)
  local file = assert(io.open(path, 'rb'))
  local text = file:read '*a'
  file:close()
  return text
end

for name, sample in pairs(samples.pictures) do write('image', name, bytes(sample.file)) end
for name, sample in pairs(samples.sounds) do write('wav', name, bytes(sample.file)) end
write('idx', 'plain', '\0\0\8\2\0\0\0\2\0\0\0\3abcdef')
write('idx', 'doubles', '\0\0\14\1\0\0\0\2' .. ('x'):rep(16))
for first = 0, 3 do
  write('csv', 'numbers' .. first, string.char(first) .. 'a,b\n1,2.5\n-3e4,nan\n')
  write('csv', 'text' .. first, string.char(first) .. 'a\tb\r\n"x ""y""\n"\t2\r\n\r\n,\t\n')
end
write('json', 'all', '{"a": [1, -2.5e3, true, false, null, "\\u00e9\\n"], "b": {}}')
for _, name in ipairs {'gpt2', 'llama2', 'llama3', 'metaspace'} do
  local text = read(here .. '/data/tokenizers/' .. name .. '.json')
  local merges = text:find '"merges"'
  write('tokenizer', name, text:sub(1, merges - 1) .. '"merges":[]}}') -- short, so that changes meet what matters
  write('tokenizer', name .. '_whole', text)
  local pattern = text:match '"Regex":"(.-)"[,}]'
  if pattern then write('regex', name, pattern:gsub('\\\\', '\\') .. "\0It's  12 w\195\182rds,\n\n x") end
end
write('regex', 'parts', '(?i:ab|c)+[^\\s\\p{Lu}a-f]*x{2,3}(?=y)\\P{N}?+\0ABcxx y')

-- Of NumPy, safetensors and PyTorch, small ones: a change of few bytes of them meets what matters.
local function sample(kind, ...)
  for _, name in ipairs {...} do write(kind, name, read(here .. '/data/files/' .. name)) end
end
sample('safetensors', 'all.safetensors', 'float8.safetensors')
sample('npy', 'f4.npy', 'f4.npy.gz', 'fortran.npy', 'bool.npy', 'u8.npy', 'big.npy', 'version3.npy', 'records.npy')
sample('npz', 'plain.npz', 'packed.npz')
sample('torch_file', 'tensor.pt', 'state.pt', 'evil.pt')
-- Values of streams, with the list of their storages.
for name, pickle in pairs {
  tensor = 'ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0000X\3\0\0\0cpu' ..
    'K\4tQK\0K\4\133K\1\133\137ccollections\nOrderedDict\n)RtR.](X\1\0\0\0000e.\4\0\0\0\0\0\0\0' .. ('x'):rep(16),
  numbers = '(K\1M\1\2J\1\2\3\4G\63\248\0\0\0\0\0\0F2.5\nI01\nL99L\n\138\1\255\136\137Nt.].',
  texts = "(S'a'\nU\1bX\1\0\0\0cVd\n\140\1e\148\142\1\0\0\0\0\0\0\0ft.].",
  tables = '}q\0(K\1]q\1(K\2K\3eK\4(K\5K\6du\143(K\7\1440h\1h\1a0g1\n0.].',
} do write('torch_file', name, pickle) end
