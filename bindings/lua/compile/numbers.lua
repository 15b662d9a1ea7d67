-- numbers.lua -- numbers that a step is given or captures: which may be others in a replay, and where they stand
--
-- Two recordings with other numbers are compared. Where they differ in numbers alone, each of which is what the step
-- calculates from its arguments by the same expression (flow.lua), the later one takes any numbers of that kind.
local captured = require 'mtorch.compile.captured'
local flow = require 'mtorch.compile.flow'
local parts = require('mtorch.compile.trace').parts

local numbers = {}

-- Operations have ways of their own for these.
local special = {[0] = true, [1] = true, [-1] = true, [2] = true, [-2] = true, [3] = true, [4] = true, [0.5] = true,
  [-0.5] = true}
--- Numbers of one class are treated alike by operations: their sign, below 1 or not; beside integers whole or not.
local function class_of(x, whole)
  if x == 0 and 1 / x < 0 then return '-0' end
  if x ~= x or x == math.huge or x == -math.huge or special[x] then return tostring(x) end
  return (x < 0 and 1 or 0) + (x > -1 and x < 1 and 2 or 0) +
    (whole and (x % 1 == 0 and 4 or 0) + (x < 2 ^ 31 and x > -2 ^ 31 and 8 or 0) or 0)
end

--- Whether the program takes the arguments in `given` and what is captured now; it gets their numbers then.
function numbers.take(free, given)
  local values = free.values
  for k = 1, #free.variables do
    local u = free.variables[k]
    local x = captured.read(u)
    if type(x) ~= 'number' then return false end
    given[u.id] = x
  end
  for k = 1, #free do
    local at = free[k]
    local x = free.expressions[at].of(given)
    if class_of(x, free.whole) ~= free.classes[k] then return false end
    values[at] = x
  end
  return true
end
function numbers.set(free, program) parts.step_set_numbers(program.step, free.values) end
--- Whether they are others than those of the recording.
function numbers.moved(free)
  for k = 1, #free do
    if free.values[free[k]] ~= free.recorded[k] then return true end
  end
  return false
end

local function values_of(expressions, given)
  local list = {}
  for k, e in ipairs(expressions) do list[k] = e.of(given) end
  return list
end

--- Which numbers differ between now and when `other` was recorded for `others`, by their keys; the first, and
--- captured variables. nil where something else differs.
local function differences(arguments, other, others)
  local moved = captured.moved_numbers(other.captured)
  if not moved then return end
  local differ, first, variables, now = {}, nil, {}, {n = arguments.n}
  for i = 1, arguments.n do
    now[i] = arguments[i]
    if type(arguments[i]) == 'number' and arguments[i] ~= others[i] then differ[i], first = true, first or i end
  end
  for id, u in pairs(moved) do
    local x = captured.read(u)
    differ[id], now[id], others[id], first = true, x, u.value, first or ("'%s'"):format(u.name)
    variables[#variables + 1] = u
  end
  return differ, first, variables, now
end

--- The numbers that may change in the program, whose arguments were `arguments`, after a look at one that was
--- recorded for `others`; or nil, and which number may not, and why.
function numbers.find(f, program, arguments, other, others)
  local differ, first, variables, now = differences(arguments, other, others)
  if not first then return end
  for i = 1, program.results.n do
    if type(program.results[i]) == 'number' then return nil, first, 'may be in a result' end
  end
  local expressions, read = flow.expressions(f, differ, arguments, variables, program.captured,
    captured.method_names(program.captured))
  if not expressions then return nil, first, read end
  local mine, theirs = values_of(expressions, now), values_of(expressions, others)
  local used, whole = parts.step_find_numbers(program.step, other.step, mine, theirs)
  if not used then return nil, first, whole end
  local free, seen = {expressions = expressions, values = mine, classes = {}, recorded = {}, arguments = differ,
    variables = variables, whole = whole}, {}
  for k, at in ipairs(used) do
    free[k], free.recorded[k], free.classes[k] = at, mine[at], class_of(mine[at], whole)
    if type(free.classes[k]) ~= 'number' or class_of(theirs[at], whole) ~= free.classes[k] then
      return nil, first, 'is one that operations treat as a case of its own'
    end
    for i in pairs(expressions[at].reads) do seen[i] = true end
  end
  for i in pairs(differ) do
    if read[i] and not seen[i] then return nil, first, 'does not show in the calculation' end
  end
  program.captured = captured.without(program.captured, differ)
  return free
end

--- "argument 2 is compared".
function numbers.reason(i, why) return (type(i) == 'number' and 'argument %d %s' or '%s %s'):format(i, why) end

return numbers
