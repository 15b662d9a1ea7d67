-- tokens.lua -- counts the code tokens of kernels, engine and bindings, without comments, by commit
--
--   mtorch tests/gates/tokens.lua [COMMIT..]      the working tree by default
--
-- A token is a name, a number, a string, or an operator of C++ or Lua, also in preprocessor lines.
local rooms = 'kernels engine bindings'

local function read(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read('*a')
  pipe:close()
  return text
end

--- Returns the text without comments; strings become one name.
local function strip(text, is_lua)
  local out, at = {}, 1
  while at <= #text do
    local first = text:find(is_lua and '[-%[\'"]' or '[/R\'"]', at)
    if not first then break end
    local stop
    local rest = text:sub(first, first + 40)
    local equal_signs = is_lua and rest:match('^%-%-%[(=*)%[') or rest:match('^%[(=*)%[')
    local raw = not is_lua and rest:match('^R"([^(]*)%(')
    local word
    if is_lua and rest:match('^%-%-') then
      if equal_signs then stop = select(2, text:find(']' .. equal_signs .. ']', first, true))
      else stop = (text:find('\n', first) or #text + 1) - 1 end
    elseif is_lua and equal_signs then
      word, stop = true, select(2, text:find(']' .. equal_signs .. ']', first, true))
    elseif not is_lua and rest:match('^//') then
      stop = (text:find('\n', first) or #text + 1) - 1
    elseif not is_lua and rest:match('^/%*') then
      stop = select(2, text:find('*/', first, true))
    elseif raw then
      word, stop = true, select(2, text:find(')' .. raw .. '"', first, true))
    elseif rest:match('^"') or rest:match("^'") and not (not is_lua and text:sub(first - 1, first):match("^%x'")) then
      local quote = rest:sub(1, 1)
      stop = first + 1
      while stop <= #text and text:sub(stop, stop) ~= quote do
        stop = stop + (text:sub(stop, stop) == '\\' and 2 or 1)
      end
      word = true
    end
    out[#out + 1] = text:sub(at, first - 1)
    if stop then
      out[#out + 1] = word and ' s ' or ' '
    else
      stop = first
      out[#out + 1] = text:sub(first, first)
    end
    at = stop + 1
  end
  out[#out + 1] = text:sub(at)
  return table.concat(out)
end

local operators = {} -- by length
local words = '<<= >>= ... ->* <=> :: -> ++ -- << >> <= >= == != ~= && || += -= *= /= %= &= |= ^= .. ##'
for word in words:gmatch('%S+') do
  local n = #word
  operators[n] = operators[n] or {}
  operators[n][word] = true
end

local function count(text, is_lua)
  text = strip(text, is_lua)
  local n, at = 0, 1
  while true do
    at = text:find('[^%s\\]', at)
    if not at then return n end
    local _, stop = text:find('^[%a_][%w_]*', at)
    if not stop then _, stop = text:find("^%.?%d[%w_.']*", at) end
    if not stop then
      stop = at
      for length = 3, 2, -1 do
        if operators[length][text:sub(at, at + length - 1)] then
          stop = at + length - 1
          break
        end
      end
    end
    n, at = n + 1, stop + 1
  end
end

-- Tests of lines that are easily counted wrong.
for _, sample in ipairs{
  {'a += b->c; // d e f', 6}, {'f("// no comment", \'"\'); /* g\nh */ i', 8}, {'R"(a "b" // c)" x', 2},
  {"n = 1'000'000;", 4}, {'x = a[i] -- b c', 6, true}, {"s = 'it -- is' .. [[a -- b]] --[[ c\n d ]] e", 6, true},
} do
  local n = count(sample[1], sample[3])
  assert(n == sample[2], ('tokens.lua counts %d tokens in %q, not %d'):format(n, sample[1], sample[2]))
end

local function tokens_of(commit)
  local total = {all = 0}
  local list = 'git ls-files -co --exclude-standard -- ' .. rooms
  if commit then list = ('git ls-tree -r --name-only %s -- %s'):format(commit, rooms) end
  for path in read(list):gmatch('[^\n]+') do
    local ending = path:match('%.(%w+)$')
    if ending == 'cpp' or ending == 'h' or ending == 'cu' or ending == 'lua' then
      local text = read((commit and "git show %s:'%s'" or "cat '%s%s'"):format(commit or '', path))
      local n, room = count(text, ending == 'lua'), path:match('^%w+')
      total[room], total.all = (total[room] or 0) + n, total.all + n
    end
  end
  return total
end

local commits = #arg > 0 and arg or {false}
local first
for _, commit in ipairs(commits) do
  local t = tokens_of(commit)
  first = first or t.all
  print(('%-12s kernels %7d  engine %7d  bindings %7d  all %7d  %+.1f %%'):format(commit or 'tree', t.kernels, t.engine,
    t.bindings, t.all, (t.all / first - 1) * 100))
end
