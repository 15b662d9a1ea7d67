-- progress.lua -- mt.progress: progress bars on stderr if it is a terminal, otherwise nothing or plain lines.
local core = require 'mtorch.core'
local object = require 'mtorch.core.object'
local util = require 'mtorch.core.util'

local floor, min, max, huge = math.floor, math.min, math.max, math.huge
local frame_seconds = 0.1 -- at most 10 redraws a second
local max_skipped = 64   -- updates between two clock reads, so that a sudden slowdown is visible
local known = {label = 'text', every = 'int >= 1', total = 'int >= 0', unit = 'text', per_step = 'number'}
local on_screen = setmetatable({}, {__mode = 'v'}) -- the open bars by number, the outermost first
local bars, drawn_lines = 0, 0

local function write(text)
  io.stderr:write(text)
  io.stderr:flush()
end

-- "acc 0.84  loss 0.5518": sorted by name; a tensor with one element is shown as its number.
local function stats_text(stats)
  return table.concat(util.map(util.sorted_keys(stats), function(key)
    local value = util.scalar(stats[key])
    return key .. ' ' .. (type(value) == 'number' and util.number_text(value, 4) or tostring(value))
  end), '  ')
end

local function bar_text(fraction, width, utf8)
  local full = floor(fraction * width + 0.5)
  if utf8 then return ('━'):rep(full) .. ('─'):rep(width - full) end
  local head = full > 0 and full < width and 1 or 0
  return '[' .. ('='):rep(full - head) .. ('>'):rep(head) .. (' '):rep(width - full) .. ']'
end

-- "12 ms/step", or the rate per second: "4310 images/s".
local function rate_text(bar, step)
  if not bar.unit then return util.duration_text(step, bar.micro) .. '/step' end
  return util.number_text(bar.per_step / max(step, 1e-12), 4) .. ' ' .. bar.unit .. '/s'
end

-- The texts before and after the bar, and the fraction done, which is nil if the total is unknown.
local function parts_of(bar, now)
  local i, total, elapsed = bar.i, bar.total, max(now - bar.start, 0)
  local known_total = total < huge
  local fraction = known_total and (total > 0 and min(max(i / total, 0), 1) or 1) or nil
  local label, percent = bar.label, fraction and ('%3d%%'):format(floor(100 * fraction))
  local before = (label or '') .. (label and percent and ' ' or '') .. (percent or '')
  local after = (known_total and i .. '/' .. total or i) .. '  ' .. util.duration_text(elapsed, bar.micro)
  if i > 0 then
    local step = elapsed / i
    local left = i < total and known_total and ', ETA ' .. util.duration_text(step * (total - i), bar.micro) or ''
    after = after .. left .. '  ' .. rate_text(bar, step)
  end
  return before, bar.stats and after .. '  ' .. bar.stats or after, fraction
end

local function line_of(bar, now)
  local columns = core.columns() - 1 -- a full last column would wrap
  local before, after, fraction = parts_of(bar, now)
  local room = min(columns - util.length(before) - util.length(after) - (bar.utf8 and 2 or 4), 40)
  local middle = fraction and room >= 5 and ' ' .. bar_text(fraction, room, bar.utf8) .. ' ' or
    before ~= '' and ' ' or ''
  return util.truncate(before .. middle .. after, columns, not bar.utf8 and '~' or nil)
end

-- Moves to the start of the first line of the bars, and clears all of them.
local function cleared()
  local text = drawn_lines > 1 and '\r' .. ('\27[A'):rep(drawn_lines - 1) .. '\27[J' or '\r\27[K'
  drawn_lines = 0
  return text
end

local notebook_id -- of the open bars, which are one display of a notebook

-- Draws the lines of all open bars, the outermost first.
local function repaint(now)
  local front_end = core.front_end
  local lines = util.map(util.sorted_keys(on_screen), function(number, i)
    return (i > 1 and not front_end and '\27[K' or '') .. line_of(on_screen[number], now)
  end)
  if front_end then
    notebook_id = notebook_id or front_end.new_id()
    return front_end.display({['text/plain'] = table.concat(lines, '\n')}, notebook_id)
  end
  local start = cleared()
  drawn_lines = #lines
  write(start .. table.concat(lines, '\n'))
end

local function plain_line(bar, now)
  local before, after = parts_of(bar, now)
  write(before .. (before ~= '' and ' ' or '') .. after .. '\n')
  bar.printed = bar.i
end

-- The slow path of update: reads the clock, draws if it is time, and determines the next clock read.
local function look(bar, stats)
  local now, i = bar.time(), bar.i
  local due = not bar.live or i >= bar.total or now - bar.drawn >= frame_seconds
  stats = type(stats) == 'table' and stats or bar.latest
  if due and stats then bar.stats, bar.latest = stats_text(stats), nil end
  if i >= bar.total then return bar:finish() end
  if not bar.live then
    plain_line(bar, now)
    bar.next = min(i - i % bar.every + bar.every, bar.total)
    return
  end
  if due then
    bar.drawn = now
    repaint(now)
  end
  local per_second = (i - bar.looked_i) / max(now - bar.looked, 1e-9)
  bar.looked, bar.looked_i = now, i
  bar.next = min(i + min(max(floor(per_second * frame_seconds / 10), 1), max_skipped), bar.total)
end

local function update(self, i, stats)
  if type(i) ~= 'number' then
    if i ~= nil and type(i) ~= 'table' then
      core.fail('progress: update takes the number of the step and a table of values, got %s', core.describe(i))
    end
    i, stats = self.i + 1, stats or i
  end
  self.i = i
  if i >= self.next then look(self, stats) end
end

-- Passes on the values of an iterator; finishes the bar if there are none.
local function given(bar, first, ...)
  if first == nil then bar:finish() end
  return first, ...
end

-- One step of `for i in mt.progress(n) do`: i - 1 steps are done when step i begins. The same for
-- an iterator, whose values are passed on.
local function step(self, _, control)
  local source = self.source
  if source then
    if self.begun then update(self, self.i + 1) end
    self.begun = true
    if source.control ~= nil then control, source.control = source.control, nil end
    return given(self, source.next(source.state, control))
  end
  local i = (control or 0) + 1
  if i > 1 then update(self, i - 1) end
  if i <= self.total then return i end
  self:finish()
end

local Bar, method = object.class{called = 'bar', name = 'a progress bar', call = step,
  optional = util.word_set 'begun every iter label latest micro size source stats unit'}

function Bar:describe()
  return ('progress(%s%s of %s)'):format(self.label and self.label .. ': ' or '', self.i,
    self.total < huge and self.total or 'unknown')
end

method('update(i=nil, values=nil)', 'i steps are done (nil: one more); values, {loss=l}, are shown at the end.', update)

method('set(values)', 'Sets the values shown at the end, if the loop itself counts the steps.', function(self, stats)
  if type(stats) ~= 'table' then core.fail('progress: set takes a table, got %s', core.describe(stats)) end
  self.latest = stats
end)

method('print(..)', 'Prints a permanent line above the bars.', function(self, ...)
  local shown = drawn_lines > 0
  if shown then write(cleared()) end
  print(...)
  io.stdout:flush()
  if shown then repaint(self.time()) end
end)

method('finish()', 'Ends the bar early; the last step does so by itself.', function(self)
  if self.done then return end
  self.done, self.next = true, huge
  if self.latest then self.stats, self.latest = stats_text(self.latest), nil end
  if self.live and self.i == 0 then on_screen[self.number] = nil
  elseif self.live then
    repaint(self.time())
    on_screen[self.number] = nil
    if next(on_screen) then repaint(self.time()) -- a bar inside another one leaves no line
    else
      if not notebook_id then write('\n') end
      drawn_lines, notebook_id = 0, nil
    end
  elseif not self.live and self.every and self.printed ~= self.i then
    plain_line(self, self.time())
  end
end)

-- An iterator's three values and its number of steps: from a loader (iter, size) or from a function.
local function source_of(value, ...)
  if type(value) == 'function' then return {next = value}, nil end
  local object = type(value) == 'table' or type(value) == 'userdata' and type(getmetatable(value)) == 'table'
  if not object or type(value.iter) ~= 'function' then return nil end
  local source, size = {}, value.size
  source.next, source.state, source.control = value:iter(...)
  return source, type(size) == 'function' and value:size() or nil
end

-- The options of progress(total, {..}), progress{total, ..}, progress(loader, {..}), and the source.
local function read(total, options, ...)
  local source, size = source_of(total)
  if source and select('#', ...) > 0 then -- pairs(list): an iterator with its state and first value
    source.state, source.control, options = options, (...), nil
  end
  local out = {total = total}
  if source then out.total = size elseif type(total) == 'table' and not options then out.total, options = nil, total end
  for key, value in pairs(options or {}) do out[key == 1 and 'total' or key] = value end
  core.check_options('progress', out, known)
  return out, source
end

local function new(_, ...)
  local options, source = read(...)
  local total, every, per_step = options.total or huge, options.every, options.per_step
  local live, time, utf8 = core.front_end ~= nil or core.isatty(2), core.time, core.front_end ~= nil or util.utf8()
  local now = time()
  bars = bars + 1
  local bar = object.new(Bar, {
    total = total, label = options.label and tostring(options.label), every = every, live = live, number = bars,
    time = time, utf8 = utf8, micro = not utf8 and 'us' or nil, i = 0, printed = 0, start = now, source = source,
    drawn = now - frame_seconds, looked = now, looked_i = 0, done = false, per_step = per_step or 1,
    unit = options.unit or per_step and 'items' or nil,
    next = live and 1 or every and min(every, total) or huge,
  })
  if live then on_screen[bars] = bar end
  return bar
end

--- mt.progress(total[, {label=, every=, unit=, per_step=}]): a bar of `total` steps (nil: unknown); or `for
--- i in mt.progress(n) do`, `for x, y in mt.progress(loader) do`. Nested bars are shown below each other.
--- Without a terminal on stderr it prints nothing, or a plain line every `every` steps. mt.progress.close()
--- ends the lines of bars on the screen (called by the host before an error).
return setmetatable({methods = Bar.__methods, close = function()
  if drawn_lines > 0 then write('\n') end
  for number in pairs(on_screen) do on_screen[number] = nil end
  drawn_lines, notebook_id = 0, nil
end}, {__call = new})
