-- gradient.lua -- functions with their own gradient, full Jacobians, and recomputation
local core = require 'mtorch.core'
local mt = require 'mtorch'
local object = require 'mtorch.core.object'
local util = require 'mtorch.core.util'
local engine = core.gradient()

local gradient = {}

local pack = core.pack


-- ---- mt.Function -------------------------------------------------------------------------------

local Context = {}
local _, method = object.class({called = 'ctx', get = Context}, Context)
gradient.context_methods = Context.__methods

-- Inputs and results saved this way form no reference cycles; fields of ctx may.
method('save_for_backward(..)', 'Saves tensors, or nil, for backward; until then changing one in place is an error.',
  function(self, ...)
    local list, places = {}, {n = select('#', ...)}
    for i = 1, places.n do
      local x = select(i, ...)
      if mt.is_tensor(x) then
        list[#list + 1], places[#list + 1] = x, i
      elseif x ~= nil then
        core.fail('save_for_backward: argument %d must be a tensor, got %s', i, core.describe(x))
      end
    end
    self.saved_by_forward, self.saved_places = list, places
  end)

method('saved_tensors()', 'The saved tensors, as several values, not a list: local x, y = ctx:saved_tensors().',
  function(self)
    local list, places, values = engine.saved_tensors(), self.saved_places or {n = 0}, {}
    for k, x in ipairs(list) do values[places[k]] = x end
    return unpack(values, 1, places.n)
  end)

method('mark_non_differentiable(..)', 'Marks results that have no gradient.', function(self, ...)
  self.without_gradient = util.set{...}
end)

--- Calls forward, and records it as one operation whose gradient backward computes.
local function call_function(self, ...)
  local arguments = pack(...)
  local ctx = setmetatable({needs_input_grad = {}}, Context)
  for i = 1, arguments.n do
    local x = arguments[i]
    ctx.needs_input_grad[i] = mt.is_tensor(x) and x.requires_grad or false
  end
  local results = pack(mt.no_grad(self.forward, ctx, ...))
  local outputs, places, plain, without = {}, {}, {}, ctx.without_gradient
  for k = 1, results.n do
    if mt.is_tensor(results[k]) then
      outputs[#outputs + 1], places[#places + 1] = results[k], k
      plain[#outputs] = without and without[results[k]] or false
    end
  end
  if #outputs == 0 then core.fail(self.name .. ': forward returned no tensor') end
  local saved = ctx.saved_by_forward or {}
  ctx.saved_by_forward, ctx.without_gradient = nil, nil
  local backward = self.backward
  local recorded = engine.custom_function(self.name, arguments, arguments.n, outputs, plain, saved,
    function(...) return backward(ctx, ...) end)
  for i, k in ipairs(places) do results[k] = recorded[i] end
  return unpack(results, 1, results.n)
end

local function_meta = {__call = call_function, __tostring = function(self) return 'mt.Function ' .. self.name end}

gradient.Function = core.declare("Function(forward: function, backward: function, name: string = 'Function')",
  'An operation with your own gradient, F = mt.Function{forward=function(ctx, ...) .. end, backward=function(ctx, ' ..
  'g1, ...) .. end}, called F(...). ctx:save_for_backward(tensors..), ctx:saved_tensors() (several values); ' ..
  'backward gets a gradient for each result and returns one for each argument, nil for none.',
  function(forward, backward, name)
    return setmetatable({forward = forward, backward = backward, name = name}, function_meta)
  end)

-- ---- mt.recompute --------------------------------------------------------------------------------

local function call(fn, ...) return fn(...) end

gradient.recompute = core.declare('recompute(fn: function, ..)',
  'fn(..) without saving tensors for its gradient: backward runs fn a second time, with the same random numbers. ' ..
    'The running statistics of normalisation layers are updated once; what fn itself changes is changed twice. A ' ..
    'backward inside fn runs it once more.',
  function(fn, ...)
    local arguments, state, around = pack(...), mt.get_rng_state(), core.around_reruns or call
    local function rerun()
      local now, outer = mt.get_rng_state(), core.is_rerun
      mt.set_rng_state(state)
      core.is_rerun = true -- nn/normalize.lua reads it
      util.finally(function()
        core.is_rerun = outer
        mt.set_rng_state(now)
      end, around, fn, unpack(arguments, 1, arguments.n))
    end
    return engine.checkpoint(rerun, fn, ...)
  end, true)

-- ---- whole Jacobians ------------------------------------------------------------------------------

--- The inputs as a list of tensors that require a gradient: new leaves, or parts of the graph.
local function new_inputs(name, inputs, create_graph)
  local single = mt.is_tensor(inputs)
  local list = single and {inputs} or inputs
  core.check(type(list) == 'table' and #list > 0,
    '%s: inputs must be a tensor or a list of tensors, got %s', name, core.describe(inputs))
  local new = {}
  for i = 1, #list do
    local x = list[i]
    core.check(mt.is_tensor(x) and x:is_floating_point(),
      '%s: input %d must be a float tensor, got %s', name, i, core.describe(x))
    new[i] = create_graph and x.requires_grad and x:view_as(x) or x:detach():requires_grad_()
  end
  return new, single
end

--- The function with recording enabled, also inside no_grad.
local function recorded(body)
  return function(...) return mt.enable_grad(body, ...) end
end

--- fn's results as a list of tensors.
local function results_of(name, fn, inputs)
  local results = pack(mt.enable_grad(fn, unpack(inputs)))
  if results.n == 1 and type(results[1]) == 'table' then results = pack(unpack(results[1])) end
  for k = 1, results.n do
    core.check(mt.is_tensor(results[k]),
      '%s: the function must return tensors, it returned %s', name, core.describe(results[k]))
  end
  if results.n == 0 then core.fail(name .. ': the function returned nothing') end
  return results
end

--- d y / d x for each x of a list, or for a single one: shapes y.shape followed by x.shape.
local function jacobian_of(y, inputs, single, create_graph)
  local rows = util.map(inputs, function() return {} end)
  if y.requires_grad then
    local flat = y:reshape(-1)
    for k = 1, #flat do
      local g = mt.grad(flat[k], inputs, {retain_graph = true, create_graph = create_graph, allow_unused = true})
      for i, x in ipairs(inputs) do rows[i][k] = g[i] or mt.zeros_like(x) end
    end
  end
  local blocks = util.map(inputs, function(x, i)
    local shape = util.append({unpack(y.shape)}, x.shape)
    return #rows[i] > 0 and mt.stack(rows[i]):reshape(shape) or x:new_zeros(shape)
  end)
  return single and blocks[1] or blocks
end

gradient.jacobian = core.declare('jacobian(fn: function, inputs, create_graph=false)',
  'The Jacobian of fn(inputs..): for one result and one input a tensor whose shape is the result\'s followed by the ' ..
  'input\'s; lists of inputs or results give lists, J[result][input].',
  recorded(function(fn, inputs, create_graph)
    local list, single = new_inputs('jacobian', inputs, create_graph)
    local results = results_of('jacobian', fn, list)
    local all = util.map(results, function(y) return jacobian_of(y, list, single, create_graph or false) end)
    return #all == 1 and all[1] or all
  end), true)

gradient.hessian = core.declare('hessian(fn: function, inputs, create_graph=false)',
  'The second derivatives of fn(inputs..), which returns one number: for one input a tensor of its shape twice; ' ..
  'for a list H[input][input].',
  recorded(function(fn, inputs, create_graph)
    local list, single = new_inputs('hessian', inputs, create_graph)
    local results = results_of('hessian', fn, list)
    local y = results[1]
    core.check(results.n <= 1 and y:numel() == 1, 'hessian: the function must return one number, it returned %s',
      results.n > 1 and results.n .. ' tensors' or core.describe(y))
    local slopes = y.requires_grad and
      mt.grad(y:reshape({}), list, {create_graph = true, allow_unused = true}) or {}
    local rows = util.map(list, function(x, i)
      return jacobian_of(slopes[i] or mt.zeros_like(x), list, single, create_graph or false)
    end)
    return single and rows[1] or rows
  end), true)

local function vectors(name, v, like)
  local list = mt.is_tensor(v) and {v} or v
  if v == nil and #like == 1 and like[1]:numel() == 1 then list = {mt.ones_like(like[1])} end
  core.check(type(list) == 'table' and #list == #like,
    '%s: v must be a tensor or a list of %d tensors, got %s', name, #like, core.describe(v))
  for i, x in ipairs(like) do
    core.check(mt.is_tensor(list[i]) and list[i].shape == x.shape,
      '%s: vector %d must have the shape %s, got %s', name, i, x.shape, core.describe(list[i]))
  end
  return list
end

--- The gradients of those outputs that depend on the inputs, each times its weight; an output may be nil.
local function gradients(outputs, weights, list, create_graph)
  local differentiable, used_weights = {}, {}
  for k, weight in ipairs(weights) do
    local y = outputs[k]
    if y and y.requires_grad then
      differentiable[#differentiable + 1], used_weights[#used_weights + 1] = y, weight
    end
  end
  if #differentiable == 0 then return {} end
  return mt.grad(differentiable, list, {grad_outputs = used_weights, create_graph = create_graph, allow_unused = true})
end

gradient.vjp = core.declare('vjp(fn: function, inputs, v=nil)',
  "fn(inputs..), and v' J: the gradients of its results times v by the inputs. v has the results' shapes.",
  recorded(function(fn, inputs, v)
    local list, single = new_inputs('vjp', inputs)
    local outputs = {unpack(results_of('vjp', fn, list))}
    local g = gradients(outputs, vectors('vjp', v, outputs), list, false)
    for i, x in ipairs(list) do g[i] = g[i] or mt.zeros_like(x) end
    for k, y in ipairs(outputs) do outputs[k] = y:detach() end
    return #outputs == 1 and outputs[1] or outputs, single and g[1] or g
  end), true)

--- The gradient by v of the vector-Jacobian product with v (the double-backward trick of J. Townsend, 2017).
gradient.jvp = core.declare('jvp(fn: function, inputs, v=nil)',
  "fn(inputs..), and J v: the derivatives of the results along v. v has the inputs' shapes.",
  recorded(function(fn, inputs, v)
    local list = new_inputs('jvp', inputs)
    local outputs, dummies = {unpack(results_of('jvp', fn, list))}, {}
    for k, y in ipairs(outputs) do
      core.check(y:is_floating_point(), 'jvp: the function must return float tensors, it returned ' .. core.describe(y))
      dummies[k] = mt.zeros_like(y):requires_grad_()
    end
    local g = gradients(outputs, dummies, list, true)
    local tangents = gradients(g, vectors('jvp', v, list), dummies, false)
    for k, y in ipairs(outputs) do
      tangents[k] = tangents[k] or mt.zeros_like(y)
      outputs[k] = y:detach()
    end
    if #outputs == 1 then return outputs[1], tangents[1] end
    return outputs, tangents
  end), true)

return gradient
