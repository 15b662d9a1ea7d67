-- contender.lua -- controls a process that measures rows for bench.lua, over a pipe
--
-- bench/worker.lua and peers/worker.py answer lines, whose fields are separated by tabs: `prepare`, inputs, setup, call
-- by `ready`, the seconds of the first call; then `run`, n by `time`, the seconds of n calls. Calls that return their
-- own figure: `load`, inputs, setup, call by `ready`; then `report` by `time`, the figure. Or the answer is `none`,
-- reason. The first line that they print is `hello`, versions or `none`, reason.
local core = require 'mtorch.core'
local tools = require 'bench.tools'
local util = require 'mtorch.core.util'
local command = tools.command

local Contender = {}
Contender.__index = Contender

local function last_error(path)
  local last = ''
  for line in (util.read_file(path) or ''):gmatch('[^\n]+') do
    if line:match('^%S') and line ~= 'stack traceback:' then last = line end
  end
  return last
end

--- Starts the command `words` with the environment `settings` ('A=1 B=2'), without waiting for its answer.
function Contender.start(name, words, settings)
  local self = setmetatable({name = name}, Contender)
  local path = os.tmpname()
  self.errors = path .. '.err'
  os.remove(path)
  assert(os.execute(command {'mkfifo', path}) == 0, 'mkfifo fails')
  self.to = io.popen(('env %s %s > %s 2> %s'):format(settings, command(words), command {path},
    command {self.errors}), 'w')
  self.from = io.open(path) -- blocks until the shell has opened it
  os.remove(path)
  return self
end

--- Returns the fields of the next line, or 'none' and a sentence if the program has ended.
function Contender:answer()
  local line = self.from and self.from:read('*l')
  if not line then
    local reason = last_error(self.errors)
    self:stop()
    return 'none', reason == '' and 'it ended without a message' or reason
  end
  return unpack(tools.fields(line))
end

--- Sends a line and returns the fields of the answer.
function Contender:ask(...)
  if not self.to then return 'none', 'it has ended' end
  local fields = {...}
  for i, field in ipairs(fields) do fields[i] = tostring(field):gsub('\n', '\\n'):gsub('\t', ' ') end
  self.to:write(table.concat(fields, '\t'), '\n')
  self.to:flush()
  return self:answer()
end

--- Returns the number in the answer, after its first word; raises what the program reports.
function Contender:number(...)
  local word, text = self:ask(...)
  if word == 'none' then error(text, 0) end
  return tonumber(text)
end

--- Prepares a row for run(): runs of at least `shortest` seconds, after calls for `warm` seconds.
function Contender:warm_up(first, shortest, warm)
  local loops, began = 1, core.time()
  local second = first < 100 * warm and self:number('run', 1) or first
  while second < warm do
    local taken = self:number('run', loops)
    if taken >= shortest and core.time() - began > warm then break end
    if taken < shortest then loops = math.max(2 * loops, math.floor(1.2 * loops * shortest / taken)) end
  end
  if second < 20 * shortest then loops = math.max(loops, 4) end -- a single call includes no garbage collection
  began = core.time() -- slow calls also need repetitions until code and memory are reused
  for _ = 1, 16 do
    if core.time() - began < 10 * warm then self:number('run', 1) end
  end
  self.loops = loops
end

--- Returns the microseconds of a call.
function Contender:run()
  self:number('run', math.ceil(self.loops / 2)) -- fills the caches again after another contender
  return self:number('run', self.loops) / self.loops * 1e6
end

--- Ends the program by closing its input.
function Contender:stop()
  if self.to then self.to:close() end -- the end of its input
  if self.from then self.from:close() end
  if self.errors then os.remove(self.errors) end
  self.to, self.from, self.errors = nil, nil, nil
end

return Contender
