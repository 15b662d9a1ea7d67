-- damage.lua -- reproducibly damaged files: each must load or raise an error of one sentence
local t = require 'testing'

-- Minimal standard random numbers (Park and Miller 1988), so that all machines get the same files.
local seed = 1
local function random(n)
  seed = seed * 16807 % 2147483647
  return seed % n + 1
end

local extremes = {'\0', '\255', '\127', '\128', '\0\0\0\0', '\255\255\255\255', '\255\255\255\127', ('\255'):rep(8),
  '"', '{', '}', '[', ']', ',', '\\', '(', '\n', '9', '-', ('9'):rep(20), ('['):rep(50)}
local damages = {
  function(s) return s:sub(1, random(#s) - 1) end, -- cut
  function(s) return s:sub(random(#s)) end,
  function(s) -- flips one bit
    local i = random(#s)
    return s:sub(1, i - 1) .. string.char(bit.bxor(s:byte(i), 2 ^ (random(8) - 1))) .. s:sub(i + 1)
  end,
  function(s) -- special bytes, replaced or inserted
    local i, e = random(#s), extremes[random(#extremes)]
    return s:sub(1, i - 1) .. e .. s:sub(i + (random(2) == 1 and #e or 0))
  end,
  function(s) -- removes a piece
    local i = random(#s)
    return s:sub(1, i - 1) .. s:sub(i + random(40))
  end,
  function(s) -- duplicates or moves a piece
    local i, j, n = random(#s), random(#s), random(200)
    return s:sub(1, j - 1) .. s:sub(i, i + n) .. s:sub(j + (random(2) - 1) * n)
  end,
}

--- Loads `rounds` damaged forms of the texts, half of them damaged near the beginning, where formats have headers.
return function(rounds, path, name, texts, load, sentence)
  t.test(name, function()
    local loaded = 0
    for round = 1, rounds do
      local text = texts[round % #texts + 1]
      local limit = random(2) == 1 and math.min(#text, 200) or #text
      local head, tail = text:sub(1, limit), text:sub(limit + 1)
      for _ = 1, random(3) do
        if head ~= '' then head = damages[random(#damages)](head) end
      end
      os.remove(path) -- truncating and rewriting a file makes ext4 wait for the disk
      local file = assert(io.open(path, 'wb'))
      file:write(head .. tail)
      file:close()
      local ok, message = pcall(load, path)
      if ok then loaded = loaded + 1 else
        assert(type(message) == 'string' and message:find('^[^\n]+$') and message:find(sentence) and #message < 1200,
          ('round %d: %s'):format(round, tostring(message)))
      end
    end
    assert(loaded < rounds, 'nothing was damaged')
  end)
end
