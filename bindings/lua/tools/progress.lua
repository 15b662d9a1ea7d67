-- progress.lua -- mt.progress: a live line on stderr when it is a terminal, else nothing or lines.
local core = require 'mtorch.core'
local util = require 'mtorch.core.util'

local floor, min, max, huge = math.floor, math.min, math.max, math.huge
local clear_line = '\r\27[K'
local frame_seconds = 0.1 -- at most 10 redraws a second
local most_skipped = 64   -- updates between two looks at the clock: a sudden slowness must show
local known = {label = 'text', every = 'number'}
local on_screen = setmetatable({}, {__mode = 'v'}) -- on_screen.bar: the bar whose line is open

local Bar = {}
Bar.__index = Bar

local function write(text)
  io.stderr:write(text)
  io.stderr:flush()
end

-- "acc 0.84  loss 0.5518": sorted by name; a tensor of one element gives its number.
local function stats_text(stats)
  local parts = {}
  for _, key in ipairs(util.sorted_keys(stats)) do
    local value = util.scalar(stats[key])
    local text = type(value) == 'number' and util.number_text(value, 4) or tostring(value)
    parts[#parts + 1] = key .. ' ' .. text
  end
  return table.concat(parts, '  ')
end

local function bar_text(fraction, width, utf8)
  local full = floor(fraction * width + 0.5)
  if utf8 then return ('━'):rep(full) .. ('─'):rep(width - full) end
  local head = full > 0 and full < width and 1 or 0
  return '[' .. ('='):rep(full - head) .. ('>'):rep(head) .. (' '):rep(width - full) .. ']'
end

-- The texts before and after the bar itself, and the fraction done.
local function parts_of(bar, now)
  local i, total, elapsed = bar.i, bar.total, max(now - bar.start, 0)
  local fraction = total > 0 and min(max(i / total, 0), 1) or 1
  local before = (bar.label and bar.label .. ' ' or '') .. ('%3d%%'):format(floor(100 * fraction))
  local after = ('%d/%d  %s'):format(i, total, util.duration_text(elapsed, bar.micro))
  if i > 0 then
    local step = elapsed / i
    local left = i < total and ', ETA ' .. util.duration_text(step * (total - i), bar.micro) or ''
    after = after .. left .. '  ' .. util.duration_text(step, bar.micro) .. '/step'
  end
  return before, bar.stats and after .. '  ' .. bar.stats or after, fraction
end

local function redraw(bar, now)
  local columns = util.columns() - 1 -- a full last column would wrap
  local before, after, fraction = parts_of(bar, now)
  local room = min(columns - util.length(before) - util.length(after) - (bar.utf8 and 2 or 4), 40)
  local middle = room >= 5 and ' ' .. bar_text(fraction, room, bar.utf8) .. ' ' or ' '
  local line = util.truncate(before .. middle .. after, columns, not bar.utf8 and '~' or nil)
  write(clear_line .. line)
  bar.drawn, on_screen.bar = now, bar
end

local function plain_line(bar, now)
  local before, after = parts_of(bar, now)
  write(before .. ' ' .. after .. '\n')
  bar.printed = bar.i
end

-- The slow path of update: looks at the clock, draws if it is time, chooses when to look again.
local function look(bar, stats)
  local now, i = bar.time(), bar.i
  local due = not bar.live or i >= bar.total or now - bar.drawn >= frame_seconds
  if due and type(stats) == 'table' then bar.stats = stats_text(stats) end
  if i >= bar.total then return bar:finish() end
  if not bar.live then
    plain_line(bar, now)
    bar.next = min(i - i % bar.every + bar.every, bar.total)
    return
  end
  if due then redraw(bar, now) end
  local per_second = (i - bar.looked_i) / max(now - bar.looked, 1e-9)
  bar.looked, bar.looked_i = now, i
  bar.next = min(i + min(max(floor(per_second * frame_seconds / 10), 1), most_skipped), bar.total)
end

--- bar:update([i][, {loss=..}]): i steps are done (default one more); the values stand at the end.
--- The last step finishes the bar.
function Bar:update(i, stats)
  if type(i) ~= 'number' then i, stats = self.i + 1, stats or i end
  self.i = i
  if i >= self.next then look(self, stats) end
end

--- bar:print(line): a permanent line on stdout, above the bar.
function Bar.print(_, ...)
  local shown = on_screen.bar
  if shown then write(clear_line) end
  print(...)
  io.stdout:flush()
  if shown then redraw(shown, shown.time()) end
end

--- bar:finish(): draws the last state and ends the line; the bar draws no more.
function Bar:finish()
  if self.done then return end
  self.done, self.next = true, huge
  if self.live and self.i > 0 then
    redraw(self, self.time())
    write('\n')
    on_screen.bar = nil
  elseif not self.live and self.every and self.printed ~= self.i then
    plain_line(self, self.time())
  end
end

-- One step of `for i in mt.progress(n) do`: i - 1 steps are done when step i begins.
function Bar:__call(_, i)
  i = (i or 0) + 1
  if i > 1 then self:update(i - 1) end
  if i <= self.total then return i end
  self:finish()
end

local function whole(value, least)
  return type(value) == 'number' and value >= least and value < huge and value % 1 == 0
end

local function new(_, total, options)
  if type(total) == 'table' and not options then -- progress{total=, label=}
    options = {}
    for key, value in pairs(total) do options[key] = value end
    total = options.total or options[1]
    options.total, options[1] = nil, nil
  end
  options = options or {}
  if not whole(total, 0) then
    core.fail('progress: total is %s, expected a whole number of steps', tostring(total))
  end
  core.check_options('progress', options, known)
  local every = options.every
  if every and not whole(every, 1) then
    core.fail('progress: every is %s, expected a whole number from 1', tostring(every))
  end
  local live, time, utf8 = util.isatty(2), util.host('time') or os.clock, util.utf8()
  local now = time()
  return setmetatable({
    total = total, label = options.label and tostring(options.label), every = every, live = live,
    time = time, utf8 = utf8, micro = not utf8 and 'us' or nil, i = 0, printed = 0, start = now,
    drawn = now - frame_seconds, looked = now, looked_i = 0, done = false,
    next = live and 1 or every and min(every, total) or huge,
  }, Bar)
end

--- mt.progress(total[, {label=, every=}]): a bar of `total` steps; or `for i in mt.progress(n) do`.
--- Without a terminal on stderr it draws nothing, or a plain line each `every` steps.
--- mt.progress.close() ends the line of a bar that is on the screen (the host, before an error).
return setmetatable({close = function()
  if on_screen.bar then write('\n') end
  on_screen.bar = nil
end}, {__call = new})
