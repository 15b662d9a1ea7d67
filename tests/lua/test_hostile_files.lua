-- test_hostile_files.lua -- files of tensors that are cut, changed and made up: each loads, or is one sentence
local mt = require 'mtorch'
local t = require 'testing'
local test, raises = t.test, t.raises
local nn = mt.nn

local folder = arg[0]:gsub('[^/]*$', '') .. '../data/files/'
local rounds = tonumber(arg[1] or 200)
local path = os.tmpname()

local function read(name)
  local file = assert(io.open(name, 'rb'))
  local text = file:read('*a')
  file:close()
  return text
end
local function write(text)
  os.remove(path) -- ext4 waits for the disk where a file is cut to nothing and written again
  local file = assert(io.open(path, 'wb'))
  file:write(text)
  file:close()
end
local function written(save, ...)
  save(path, ...)
  return read(path)
end

-- Minimal standard random numbers (Park and Miller 1988): the same files everywhere.
local seed = 1
local function random(n)
  seed = seed * 16807 % 2147483647
  return seed % n + 1
end

local extremes = {'\0', '\255', '\127', '\128', '\0\0\0\0', '\255\255\255\255', '\255\255\255\127', ('\255'):rep(8),
  '"', '{', '}', '[', ']', ',', '\\', '(', '\n', '9', '-', ('9'):rep(20), ('['):rep(50)}
local ways = {
  function(s) return s:sub(1, random(#s) - 1) end, -- cut
  function(s) return s:sub(random(#s)) end,
  function(s) -- one bit
    local i = random(#s)
    return s:sub(1, i - 1) .. string.char(bit.bxor(s:byte(i), 2 ^ (random(8) - 1))) .. s:sub(i + 1)
  end,
  function(s) -- bytes that mean much, over others or between them
    local i, e = random(#s), extremes[random(#extremes)]
    return s:sub(1, i - 1) .. e .. s:sub(i + (random(2) == 1 and #e or 0))
  end,
  function(s) -- a piece is missing
    local i = random(#s)
    return s:sub(1, i - 1) .. s:sub(i + random(40))
  end,
  function(s) -- .. or there twice, or elsewhere
    local i, j, n = random(#s), random(#s), random(200)
    return s:sub(1, j - 1) .. s:sub(i, i + n) .. s:sub(j + (random(2) - 1) * n)
  end,
}

--- `rounds` damaged forms of each text, half of them damaged near the beginning, where formats say what follows.
local function storm(name, texts, load, sentence)
  test(name, function()
    local loaded = 0
    for round = 1, rounds do
      local text = texts[round % #texts + 1]
      local near = random(2) == 1 and math.min(#text, 200) or #text
      local head, tail = text:sub(1, near), text:sub(near + 1)
      for _ = 1, random(3) do
        if head ~= '' then head = ways[random(#ways)](head) end
      end
      write(head .. tail)
      local ok, message = pcall(load, path)
      if ok then loaded = loaded + 1 else
        assert(type(message) == 'string' and message:find('^[^\n]+$') and message:find(sentence) and #message < 1200,
          ('round %d: %s'):format(round, tostring(message)))
      end
    end
    assert(loaded < rounds, 'nothing was damaged')
  end)
end

local function files(...)
  local texts = {...}
  for i, name in ipairs(texts) do texts[i] = read(folder .. name) end
  return texts
end

storm('safetensors', files('all.safetensors'), mt.data.safetensors, 'safetensors: ')
storm('npy', files('f4.npy', 'fortran.npy', 'version2.npy', 'bool.npy', 'f4.npy.gz'), mt.data.npy, 'npy: ')
storm('npz', files('plain.npz', 'packed.npz'), mt.data.npz, 'npz: ')
storm('torch.save', files('tensor.pt', 'state.pt', 'whole.pt'), mt.load, 'load: ')
storm('torch.save, the stream', files('legacy.pt'), mt.load, 'load: ')

local net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
storm('mt.save', {
  written(mt.save, {a = {1, 2, {x = mt.ones(2), y = 0 / 0}}, [3] = '\255', b = mt.ones(2):requires_grad_()}),
}, mt.load, 'load: ')

local opt = mt.optim.Adam(net:parameters(), {lr = 0.1})
net(mt.ones(1, 2)):sum():backward()
opt:step()
local before = mt.get_rng_state()
storm('checkpoints', {written(mt.checkpoint.save, {model = net, optim = opt, step = 3})}, function(name)
  mt.checkpoint.resume(name, {model = net, optim = opt})
end, 'checkpoint%.resume: ')
mt.set_rng_state(before)

test('the places of archives are looked at', function()
  raises(function() mt.load(folder) end, 'load: .* is not a regular file')
  raises(function() mt.data.npz('/dev/zero') end, 'npz: .* is not a regular file')
  write('PK')
  raises(function() mt.load(path) end, 'load: .* is no zip archive')
end)

os.remove(path)
t.finish()
