-- lbfgs.lua -- optim.LBFGS: limited-memory BFGS over all parameters as one vector, as torch.optim.LBFGS
local core = require 'mtorch.core'
local mt = require 'mtorch'
local row_gradients = require 'mtorch.core.row_gradients'
local sharded = require 'mtorch.core.sharded_parameters'
local util = require 'mtorch.core.util'
local Optimizer = require 'mtorch.optim.optimizer'

local min, max, abs = math.min, math.max, math.abs

local LBFGS, method = Optimizer.class 'LBFGS'

-- ---- parameters as one vector -------------------------------------------------------------------

--- The gradients as one vector, with 0 for missing ones.
local function flat_gradient(group)
  row_gradients.refuse('LBFGS', group.params)
  core.check(not sharded.any(group.params), 'LBFGS: it needs whole parameters; those of dist.shard are parts')
  local flat = mt.cat(util.map(group.params, function(p)
    return (p.grad or mt.zeros_like(p)):detach():reshape(-1)
  end), 1)
  return group.maximize and -flat or flat
end

local function add_direction(group, t, d)
  local parts = d:split(util.map(group.params, function(p) return p:numel() end))
  for i, p in ipairs(group.params) do p:detach():add_(parts[i]:view_as(p), t) end
end

local function flat_values(group) return mt.no_grad(mt.nn.parameters_to_vector, group.params) end

local function largest(x) return x:abs():max():item() end

-- ---- line search --------------------------------------------------------------------------------
-- By the strong Wolfe conditions: Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6, with minFunc's
-- safeguards (Schmidt 2005).

--- The minimum of the cubic through two points with values f and slopes g, clamped to low .. high.
local function cubic_minimum(x1, f1, g1, x2, f2, g2, low, high)
  if not low then low, high = min(x1, x2), max(x1, x2) end
  local d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
  local square = d1 * d1 - g1 * g2
  if not (square >= 0) then return (low + high) / 2 end
  local d2 = math.sqrt(square)
  if x1 > x2 then x1, g1, x2, g2 = x2, g2, x1, g1 end
  return min(max(x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2)), low), high)
end

-- A point is {t =, f =, g =, slope =}: the step, the loss, the gradient and its product with the direction.
local c1, c2 = 1e-4, 0.9

--- Increases the step until a good point is bracketed: returns one good point or two ends; and the evaluation count.
local function bracket(evaluate, start, t, max_evaluations)
  local before, point, n = start, evaluate(t), 0
  while n < max_evaluations do
    local too_high = point.f > start.f + c1 * point.t * start.slope or (n > 1 and point.f >= before.f)
    if too_high then return {before, point}, n end
    if abs(point.slope) <= -c2 * start.slope then return {point}, n, true end
    if point.slope >= 0 then return {before, point}, n end
    local least, far = point.t + 0.01 * (point.t - before.t), point.t * 10
    local next_t = cubic_minimum(before.t, before.f, before.slope, point.t, point.f, point.slope, least, far)
    before, point = point, evaluate(next_t)
    n = n + 1
  end
  return {start, point}, n
end

--- The next step inside a bracket: the cubic's minimum, moved away from the ends if the last step was also near one.
local function inside(ends, insufficient)
  local a, b = ends[1], ends[2]
  local t = cubic_minimum(a.t, a.f, a.slope, b.t, b.f, b.slope)
  local low, high = min(a.t, b.t), max(a.t, b.t)
  local margin = 0.1 * (high - low)
  if not (min(high - t, t - low) < margin) then return t, false end
  if not (insufficient or t >= high or t <= low) then return t, true end
  return abs(t - high) < abs(t - low) and high - margin or low + margin, false
end

--- Returns a strong Wolfe point, or the best one found, and the number of evaluations: evaluate(t) gives a point,
--- `start` is that of t = 0, `size` the direction's largest element, `max_evaluations` the limit after the first.
local function strong_wolfe(evaluate, start, t, size, tolerance, max_evaluations)
  local ends, n, done = bracket(evaluate, start, t, max_evaluations)
  local function order() return ends[1].f <= ends[#ends].f and 1 or 2 end
  local low, insufficient = order(), false
  while not done and n < max_evaluations and abs(ends[2].t - ends[1].t) * size >= tolerance do
    t, insufficient = inside(ends, insufficient)
    local point, high = evaluate(t), 3 - low
    n = n + 1
    if point.f > start.f + c1 * t * start.slope or point.f >= ends[low].f then
      ends[high] = point
      low = order()
    else
      done = abs(point.slope) <= -c2 * start.slope
      if not done and point.slope * (ends[high].t - ends[low].t) >= 0 then ends[high] = ends[low] end
      ends[low] = point
    end
  end
  return ends[low], n + 1
end

-- ---- one iteration ------------------------------------------------------------------------------

--- The direction after the first iteration: the gradient times the inverse Hessian estimated from
--- the last steps (Nocedal 1980), by the two-loop recursion.
local function direction(state, gradient, history_size)
  local dirs, steps, ro = state.old_dirs, state.old_stps, state.ro
  local y, s = gradient - state.prev_flat_grad, state.d * state.t
  local ys = y:dot(s):item()
  if ys > 1e-10 then
    if #dirs == history_size then
      for _, list in ipairs{dirs, steps, ro} do table.remove(list, 1) end
    end
    dirs[#dirs + 1], steps[#steps + 1], ro[#ro + 1] = y, s, 1 / ys
    state.H_diag = ys / y:dot(y):item()
  end
  local q, al = -gradient, {}
  for i = #dirs, 1, -1 do
    al[i] = steps[i]:dot(q):item() * ro[i]
    q:add_(dirs[i], -al[i])
  end
  q:mul_(state.H_diag)
  for i = 1, #dirs do q:add_(steps[i], al[i] - dirs[i]:dot(q):item() * ro[i]) end
  return q
end

--- Moves the parameters along state.d by line search; returns the loss and gradient there, and the evaluation count.
local function search(self, group, loss, gradient, slope, max_evaluations)
  local state, start = self.state, flat_values(group)
  local d = state.d
  local function evaluate(t)
    add_direction(group, t, d)
    local f = self.evaluate()
    local g = flat_gradient(group)
    mt.nn.vector_to_parameters(start, group.params)
    return {t = t, f = f, g = g, slope = g:dot(d):item()}
  end
  local point, n = strong_wolfe(evaluate, {t = 0, f = loss, g = gradient, slope = slope}, state.t, largest(d),
    group.tolerance_change, max_evaluations)
  state.t = point.t
  add_direction(group, point.t, d)
  return point.f, point.g, n
end

--- Runs up to max_iter iterations from a loss and its gradient.
local function iterate(self, group, loss, gradient)
  local state, evaluations = self.state, 1
  for n = 1, group.max_iter do
    state.n_iter = state.n_iter + 1
    local first = state.n_iter == 1
    if first then
      state.d, state.old_dirs, state.old_stps, state.ro, state.H_diag = -gradient, {}, {}, {}, 1
    else
      state.d = direction(state, gradient, group.history_size)
    end
    state.prev_flat_grad, state.prev_loss = gradient:clone(), loss
    state.t = first and min(1, 1 / gradient:abs():sum():item()) * group.lr or group.lr
    local slope = gradient:dot(state.d):item()
    if slope > -group.tolerance_change then return end
    local ran = 0
    if group.line_search_fn then
      loss, gradient, ran = search(self, group, loss, gradient, slope, group.max_eval - evaluations)
    else
      add_direction(group, state.t, state.d)
      if n ~= group.max_iter then loss, gradient, ran = self.evaluate(), flat_gradient(group), 1 end
    end
    evaluations, state.func_evals = evaluations + ran, state.func_evals + ran
    if n == group.max_iter or evaluations >= group.max_eval or largest(gradient) <= group.tolerance_grad or
      largest(state.d * state.t) <= group.tolerance_change or
      abs(loss - state.prev_loss) < group.tolerance_change then return end
  end
end

-- ---- options ------------------------------------------------------------------------------------

local options = {lr = 'finite >= 0', max_iter = 'int >= 1', max_eval = 'int >= 1', tolerance_grad = 'number',
  tolerance_change = 'number', history_size = 'int >= 1', line_search_fn = "'strong_wolfe'", maximize = 'bool',
  initial_lr = 'number', params = 'tensors'}

function LBFGS:check(group, where)
  for name in pairs(self.defaults) do
    if group[name] == nil then core.fail('%s: %s is nil', where, name) end
  end
  core.check_options(where, group, options)
end
LBFGS.extra, LBFGS.max_groups = {initial_lr = true, line_search_fn = true}, 1

function LBFGS.current() end
function LBFGS:state_of() return {next(self.state) and self.state} end

function LBFGS:add(group)
  if group.max_eval == 0 then group.max_eval = max(math.floor(group.max_iter * 5 / 4), 1) end
  self:check(group, 'LBFGS')
end

-- ---- methods ------------------------------------------------------------------------------------

method('step(closure)', 'Up to max_iter iterations; the closure, which computes the loss and its gradients and ' ..
  'returns the loss, is called up to max_eval times. Returns the loss of the first call.', function(self, closure)
    if not core.is_callable(closure) then
      core.fail('LBFGS: step needs a function that computes the loss and its gradients and returns the loss, got %s',
        core.describe(closure))
    end
    local group, first = self.param_groups[1], nil
    if #self.param_groups ~= 1 then core.fail('LBFGS: it takes one group, there are %d', #self.param_groups) end
    self:check(group, 'LBFGS')
    function self.evaluate()
      local loss = self.closure_loss(closure)
      if first == nil then first = loss end
      loss = util.number_in(loss, 'LBFGS: the function must return the loss, it returned %s')
      return group.maximize and -loss or loss
    end
    local state = self.state
    local loss = self.evaluate()
    local gradient = flat_gradient(group)
    state.func_evals, state.n_iter = (state.func_evals or 0) + 1, state.n_iter or 0
    if largest(gradient) > group.tolerance_grad then iterate(self, group, loss, gradient) end
    self.evaluate = false
    if core.stepped then core.stepped[self] = true end
    return first
  end)

-- The state other than the counts, with types.
local fields = {d = 'tensor', t = 'number', old_dirs = 'table', old_stps = 'table', ro = 'table', H_diag = 'number',
  prev_flat_grad = 'tensor', prev_loss = 'number', func_evals = 'number', n_iter = 'number'}

--- Converts the saved state to the state of this optimizer.
function LBFGS:saved_state(list)
  local like, saved = flat_values(self.param_groups[1]), list[1] or {}
  local size, state = like.shape, {}
  for key, kind in pairs(fields) do
    local value = saved[key]
    local ok = value == nil or (kind == 'tensor' and mt.is_tensor(value) and value.shape == size) or type(value) == kind
    for _, inner in ipairs(type(value) == 'table' and value or {}) do
      ok = ok and (key == 'ro' and type(inner) == 'number' or mt.is_tensor(inner) and inner.shape == size)
    end
    if not ok then core.fail('load_state_dict: %s is %s, which does not fit', key, core.describe(value)) end
    state[key] = util.map_leaves(value, function(x)
      return mt.is_tensor(x) and x:to(like.device):to(like.dtype) or x
    end)
  end
  return state
end

function LBFGS:load(states)
  self.state, self.param_groups[1].line_search_fn = states[1], nil
end

-- ---- construction -------------------------------------------------------------------------------

local params

local made = core.declare('LBFGS([parameters], lr: number >= 0 = 1, max_iter: int >= 1 = 20, max_eval: int >= 1 = ' ..
  'nil, tolerance_grad: number = 1e-7, tolerance_change: number = 1e-9, history_size: int >= 1 = 100, ' ..
  "line_search_fn: 'strong_wolfe' = nil, maximize: bool = false)",
  'Limited-memory BFGS, as torch.optim.LBFGS (Nocedal 1980): opt:step(function) calls a function that computes the ' ..
  'loss and its gradients and returns the loss, up to max_eval (5 / 4 of max_iter) times. line_search_fn: ' ..
  "'strong_wolfe', or nil for steps of lr. One group of parameters, on one device.",
  function(parameters, ...)
    local defaults = {}
    for i = 2, #params do defaults[params[i].name] = (select(i - 1, ...)) end
    defaults.max_eval = defaults.max_eval or 0
    return Optimizer.make(LBFGS, {defaults = defaults, state = {}, evaluate = false}, parameters)
  end)
params = core.parameters(made)

return made
