-- shard.lua -- dist.shard: a net of which each process keeps a part of each parameter
--
-- A unit is a module with parameters of its own, together with those inside it. Its forward gathers its parameters, and
-- they are freed after it. mt.recompute runs that forward again when the backward pass needs it, which gathers them
-- again; a unit with buffers keeps its parameters instead, because running statistics would be updated twice. The
-- gradient of a gathered parameter is reduced and scattered (fully sharded data parallel, ZeRO stage 3).
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local class = require 'mtorch.nn.class'
local parts = require 'mtorch.dist.parts'
local dist = mt.dist

-- shapes: of the whole parameter, by its part in this process
local shard = {shapes = setmetatable({}, {__mode = 'k'})}
local sharded = setmetatable({}, {__mode = 'k'})

local gather = mt.Function{name = 'gathered', forward = function(ctx, part, entry)
  ctx.entry = entry
  return parts.whole(part, entry.shape)
end, backward = function(ctx, g)
  local size = ctx.entry.size
  return dist.reduce_scatter_(g:new_empty(size), parts.padded(g, size * dist.size()), 'mean'), nil
end}

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

--- The places of all parameters in a unit, {module, key, entry}.
local function places_of(unit, entries)
  local places = {}
  class.walk(unit, function(_, p, kind, module, key)
    if kind ~= 'parameter' then return end
    if not entries[p] then
      entries[p] = {shape = p.shape, size = parts.size(p:numel())}
      entries[p].part = class.Parameter(part_of(p:detach(), entries[p]), p.requires_grad)
      shard.shapes[entries[p].part] = p.shape
    end
    places[#places + 1] = {module, key, entries[p]}
  end, true)
  return places
end

local function set_parts(places)
  for _, place in ipairs(places) do class.set_raw(place[1], place[2], place[3].part) end
end

--- Calls fn while the parameters at the places are whole, as make(entry) gives them; `made` receives these by entry.
local function with_whole(places, make, made, fn, ...)
  for _, place in ipairs(places) do
    local entry = place[3]
    made[entry] = made[entry] or make(entry)
    class.set_raw(place[1], place[2], made[entry])
  end
  return util.finally(function() set_parts(places) end, fn, ...)
end

local function wrap_forward(unit, places)
  local forward = rawget(unit, 'forward') or unit.__class.forward
  local keeps = next(unit:buffers()) ~= nil
  local function run(...)
    return with_whole(places, function(entry) return gather(entry.part, entry) end, {}, forward, unit, ...)
  end
  rawset(unit, 'forward', function(_, ...)
    if keeps or not mt.is_grad_enabled() then return run(...) end
    return mt.recompute(run, ...)
  end)
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
  'gathers its parameters for its forward and frees them after it; the backward pass runs the forward of a layer ' ..
  'without buffers a second time, and averages the gradients. A parameter is whole only while the forward of its ' ..
  'layer runs; all processes call the same layers in the same order. nn.clip_grad_norm_ would see parts. ' ..
  'optim.Sharded(opt) makes the state of the optimizer whole in checkpoints. ' ..
  'state_dict() gathers whole parameters and load_state_dict takes them, in all processes together. Fully ' ..
  'sharded data parallel (Zhao et al. 2023), ZeRO stage 3.',
  function(net)
    if not class.is_module(net) then core.fail('dist.shard: a module is needed, got %s', class.describe(net)) end
    if sharded[net] or dist.size() == 1 then return net end
    dist.broadcast_(util.append(net:parameters(), net:buffers()), 0)
    local entries, all = {}, {}
    local units = units_of(net, {}, {})
    for _, unit in ipairs(units) do
      local places = places_of(unit, entries)
      util.append(all, places)
      wrap_forward(unit, places)
    end
    set_parts(all)
    wrap_state(net, all)
    sharded[net] = true
    return net
  end)

return shard
