-- shard.lua -- dist.shard: a net of which each process keeps a part of each parameter
--
-- A unit is a module with parameters of its own, together with those inside it. Its forward gathers its parameters, and
-- they are freed after it: its nodes do not keep them, and backward gathers them again, as does mt.recompute for the
-- second run of what ran inside of the forward. While a unit runs, the parameters of the unit that followed it the last
-- time are gathered already; those of a unit that follows itself, the last one of forward and the first one of
-- backward, are kept. The gradients of a unit's parameters are reduced and scattered while backward goes on with the
-- unit before it (fully sharded data parallel, ZeRO stage 3).
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local class = require 'mtorch.nn.class'
local parts = require 'mtorch.dist.parts'
local parallel = require 'mtorch.dist.parallel'
local parameters = require 'mtorch.core.sharded_parameters'
local dist, engine = mt.dist, core.dist_parts

local shard = {}
local sharded = setmetatable({}, {__mode = 'k'})

--- The part of this process of a whole parameter's elements, with zeros at the end.
local function part_of(p, entry)
  return parts.padded(parts.own(p), entry.size):clone()
end

--- The modules with parameters of their own, outside of others.
local function units_of(net, list, seen)
  if seen[net] then return list end
  seen[net] = true
  local children = {}
  for _, _, value, kind in class.fields(net) do
    if kind == 'parameter' then
      list[#list + 1] = net
      return list
    end
    if kind == 'module' then children[#children + 1] = value end
  end
  for _, child in ipairs(children) do units_of(child, list, seen) end
  return list
end

--- A unit: the places of its parameters, {module, key, entry}, the entries, and their positions.
local function unit_of(module, entries)
  local unit = {places = {}, entries = {}, index = {}, followers = {}}
  class.walk(module, function(_, p, kind, owner, key)
    if kind ~= 'parameter' then return end
    local entry = entries[p] or {shape = p.shape, count = p:numel(), size = parts.size(p:numel())}
    if not entries[p] then
      entries[p] = entry
      entry.part = class.Parameter(part_of(p:detach(), entry), p.requires_grad)
      parameters.shapes[entry.part] = p.shape
    end
    if not unit.index[entry] then
      unit.entries[#unit.entries + 1] = entry
      unit.index[entry] = #unit.entries
    end
    unit.places[#unit.places + 1] = {owner, key, entry}
  end, true)
  return unit
end

--- Calls fn while the parameters at the places are whole, as make(entry) gives them; `made` receives these by entry.
local function with_whole(places, make, made, fn, ...)
  return class.with_tensors(places, function(place)
    local entry = place[3]
    made[entry] = made[entry] or make(entry)
    return made[entry]
  end, fn, ...)
end

--- Begins to gather the parameters of a unit: a list of flat tensors, from a list of parts.
local function start_gather(unit)
  local gather = {unit = unit, whole = {}, own = {}}
  for i, entry in ipairs(unit.entries) do
    gather.own[i] = entry.part:detach()
    gather.whole[i] = gather.own[i]:new_empty(entry.size * dist.size())
  end
  gather.state = engine.start_gather(gather.whole, gather.own)
  return gather
end

--- The gather of a unit whose forward or backward begins. The parameters of the unit that followed it the last time,
--- when the same unit had run before it, are gathered meanwhile, unless they were changed in between.
local function gather_for(order, unit)
  local wait = engine.wait_for_gather
  local is_unchanged = not unit.last or wait(unit.last)
  local gather, last, before = order.ahead, order.last, order.before
  if last then last.followers[before or order] = is_unchanged and unit end
  local is_current = gather and wait(gather.state, gather.whole)
  if not is_current or gather.unit ~= unit then
    gather = start_gather(unit)
    wait(gather.state)
  end
  order.before, order.last, unit.last = last, unit, gather.state
  local follower = unit.followers[last or order]
  order.ahead = follower == unit and gather or follower and start_gather(follower) or nil
  return gather
end

--- run(fn, ..), which is also called around the second runs of mt.recompute in fn.
local function around_reruns(run, ...)
  local outer = core.around_reruns
  local function around(...) return around_reruns(run, ...) end
  core.around_reruns = outer and function(...) return outer(around, ...) end or around
  return util.finally(function() core.around_reruns = outer end, run, ...)
end

--- Wraps the forward of a unit: its parameters are whole while it runs.
local function wrap_forward(order, module, unit)
  local forward = rawget(module, 'forward') or module.__class.forward
  local list = util.map(unit.entries, function(entry) return entry.part end)
  local function recreate() return gather_for(order, unit).whole end
  local function run(...)
    local gather = gather_for(order, unit)
    local whole = engine.whole_parameters(list, util.map(unit.entries, function(entry, i)
      return gather.whole[i]:narrow(1, 1, entry.count):view(entry.shape)
    end))
    local function make(entry) return whole[unit.index[entry]] end
    return engine.released(recreate, gather.whole, gather.own, with_whole, unit.places, make, {}, ...)
  end
  rawset(module, 'forward', function(_, ...) return around_reruns(run, forward, module, ...) end)
end

local function refuse_clone()
  core.fail('clone: a net of dist.shard has no copies; make another net, and load its state_dict()')
end

--- Wraps the forward of the net: its first unit does not follow the last one of the step before, and parameters that
--- were added later are refused.
local function wrap_net(order, net)
  local forward = rawget(net, 'forward') or net.__class.forward
  rawset(net, 'forward', function(...)
    order.last, order.before = nil, nil
    parallel.check_parameters('dist.shard', net, function(p) return parameters.shapes[p] end)
    return forward(...)
  end)
end

--- Raises an error for a net whose parameters an optimizer or dist.parallel already has: they would not see the parts.
local function check_unused(net)
  local function is_used(p) return parameters.optimizers[p] end
  local list = net:parameters()
  if #util.filter(list, is_used) > 0 then collectgarbage() end
  core.check(#util.filter(list, is_used) == 0,
    'dist.shard: an optimizer has parameters of the net already; make it after dist.shard')
  core.check(#util.filter(list, function(p) return parallel.averaged[p] end) == 0,
    'dist.shard: the net is one of dist.parallel, which keeps whole parameters')
end

local function wrap_state(net, places)
  local function whole(entry) return class.Parameter(parts.whole(entry.part:detach(), entry.shape), false) end
  rawset(net, 'state_dict', function(self) return with_whole(places, whole, {}, class.Module.state_dict, self) end)
  rawset(net, 'load_state_dict', function(self, ...)
    local made = {}
    local a, b = with_whole(places, whole, made, class.Module.load_state_dict, self, ...)
    mt.no_grad(function()
      for entry, p in pairs(made) do entry.part:copy_(part_of(p, entry)) end
    end)
    return a, b
  end)
end

shard.shard = core.declare('shard(net)',
  'The net, for training by all processes, each of which keeps 1/n of each parameter, of its gradient and of the ' ..
  "optimizer's state: net:parameters() are flat parts, from those of rank 0, and opt is made after it. A layer " ..
  'gathers its parameters for its forward and frees them after it; those of the layer that came next the last time ' ..
  'are gathered meanwhile (on a GPU, and where each process has an idle core: MTORCH_DIST_THREAD). Backward gathers ' ..
  'them again, and averages the gradients while it goes on with the layer before. A parameter is whole only while ' ..
  'the forward of its layer runs; all processes call the same layers in the same order, forward and backward. ' ..
  'optim.Sharded(opt) makes the state of the optimizer whole in checkpoints. state_dict() gathers whole parameters ' ..
  'and load_state_dict takes them, in all processes together. Fully sharded data parallel (Zhao et al. 2023), ZeRO ' ..
  'stage 3.',
  function(net)
    class.check_module('dist.shard', net)
    if sharded[net] or dist.size() == 1 then return net end
    parallel.check_net('dist.shard', net)
    check_unused(net)
    dist.broadcast_(util.append(net:parameters(), net:buffers()), 0)
    local entries, all, order = {}, {}, {}
    for _, module in ipairs(units_of(net, {}, {})) do
      local unit = unit_of(module, entries)
      util.append(all, unit.places)
      wrap_forward(order, module, unit)
      rawset(module, 'clone', refuse_clone)
    end
    wrap_net(order, net)
    rawset(net, 'clone', refuse_clone)
    for _, place in ipairs(all) do class.set_raw(place[1], place[2], place[3].part) end
    wrap_state(net, all)
    sharded[net] = true
    return net
  end)

return shard
