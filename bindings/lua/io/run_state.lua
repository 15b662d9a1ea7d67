-- run_state.lua -- the states of the objects of a training run as one table, and the objects from such a table
--
-- The table has the states and the plain values under their keys, and under 'checkpoint' the keys of the objects and
-- the state of the random numbers. checkpoint.lua writes it into one file, dist/checkpoint.lua into several.
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local native = core.loader()

local run_state = {}

--- Whether a value has a method, even if it raises errors for missing fields.
local function has(value, name) return core.is_callable(util.field(value, name)) end

--- The names of the methods that get and set an object's state, or nil if it has none.
local function methods_of(value)
  local kind = type(value)
  if kind ~= 'userdata' and (kind ~= 'table' or getmetatable(value) == nil and rawget(value, 'state_dict') == nil) or
    mt.is_tensor(value) then
    return nil
  end
  if has(value, 'state_dict') and has(value, 'load_state_dict') then return 'state_dict', 'load_state_dict' end
  if has(value, 'get_state') and has(value, 'set_state') then return 'get_state', 'set_state' end -- mt.Generator
end

--- Calls found(object, keys) for each object in a table and in its inner plain tables.
local function each_object(t, found, keys, above)
  keys, above = keys or {}, above or {}
  if above[t] then return end -- mt.save raises the error
  above[t] = true
  for _, key in ipairs(util.sorted_keys(t)) do
    local value = t[key]
    keys[#keys + 1] = key
    if methods_of(value) then
      found(value, {unpack(keys)})
    elseif type(value) == 'table' and not getmetatable(value) then
      each_object(value, found, keys, above)
    end
    keys[#keys] = nil
  end
  above[t] = nil
end

local function name_of(keys) return table.concat(util.map(keys, tostring), '.') end

--- A copy of the plain tables of a value; replace(value) may return replacements for other values.
function run_state.copied(value, replace, above)
  local other = replace(value)
  if other ~= nil then return other end
  above = above or {}
  if type(value) ~= 'table' or getmetatable(value) or above[value] then return value end
  local copy = {}
  above[value] = true
  for key, entry in pairs(value) do copy[key] = run_state.copied(entry, replace, above) end
  above[value] = nil
  return copy
end

function run_state.check_objects(operation, objects)
  core.check(not methods_of(objects) and not getmetatable(objects),
    '%s: a table of objects by name is needed, {model=net, optim=opt, step=n}, got one object', operation)
end

local function random_state()
  return {mt = mt.get_rng_state(), lua = native.random_state(math.random)}
end
local function set_random_state(state)
  mt.set_rng_state(state.mt)
  if state.lua then native.random_state(math.random, state.lua) end
end

function run_state.of(operation, objects)
  run_state.check_objects(operation, objects)
  if objects.checkpoint ~= nil then core.fail("%s: the key 'checkpoint' is the file's own", operation) end
  local list, states = {}, {}
  each_object(objects, function(object, keys)
    local get = methods_of(object)
    list[#list + 1], states[object] = keys, object[get](object)
  end)
  local content = run_state.copied(objects, function(value)
    return (type(value) == 'table' or type(value) == 'userdata') and states[value] or nil
  end)
  content.checkpoint = {version = 1, objects = list, random = random_state()}
  return content
end

-- ---- resuming ----------------------------------------------------------------------------------

local function at(t, keys)
  for _, key in ipairs(keys) do
    t = type(t) == 'table' and t[key] or nil
  end
  return t
end

--- The 'checkpoint' of a table that a file had; raises an error if it is not the state of a run.
function run_state.check(operation, path, content)
  local own = type(content) == 'table' and content.checkpoint
  core.check(type(own) == 'table' and type(own.objects) == 'table' and type(own.random) == 'table',
    "%s: '%s' is not a checkpoint of mtorch; mt.load(path) reads other files", operation, path)
  core.check(own.version == 1,
    "%s: '%s' is of version %s, this program reads version 1", operation, path, tostring(own.version))
  for _, keys in ipairs(own.objects) do
    if type(keys) ~= 'table' or #keys == 0 then core.fail("%s: '%s' is damaged", operation, path) end
  end
  return own
end

--- The objects to load, in order: those that are checked without being loaded are last.
local function jobs_of(operation, objects, content, own)
  local known, names, jobs, last = {}, {}, {}, {}
  for i, keys in ipairs(own.objects) do
    names[i] = name_of(keys)
    known[names[i]] = true
  end
  local class = package.loaded['mtorch.nn.class']
  each_object(objects, function(object, keys)
    local name = name_of(keys)
    local get, set = methods_of(object)
    local job = {object = object, name = name, state = at(content, keys), get = get, set = set}
    if not known[name] or job.state == nil then
      core.fail("%s: the file has no state of '%s'%s", operation, name, util.hint(name, names))
    end
    local module = class and type(object) == 'table' and class.is_module(object)
    job.checked = module and object.load_state_dict == class.Module.load_state_dict
    table.insert(job.checked and last or jobs, job)
  end)
  return util.append(jobs, last), class
end

local function clone_tensors(value) return mt.is_tensor(value) and value:clone() or nil end

--- Loads all objects, or none: if one raises an error, those loaded before get their own state back.
local function fill(operation, jobs, class, random)
  local before, current = random_state(), nil
  local ok, message = pcall(function()
    for _, job in ipairs(jobs) do
      current = job
      if job.checked then class.check_state(job.object, job.state, true) end
    end
    for _, job in ipairs(jobs) do
      current = job
      if not job.checked then job.before = run_state.copied(job.object[job.get](job.object), clone_tensors) end
      job.object[job.set](job.object, job.state)
    end
    current = nil
    set_random_state(random)
  end)
  if ok then return end
  for _, job in ipairs(jobs) do
    if job.before ~= nil then pcall(job.object[job.set], job.object, job.before) end
  end
  set_random_state(before)
  message = tostring(message):gsub('^[^:\n]*:%d+: ', '')
  core.fail("%s: nothing is changed, '%s' does not fit: %s", operation, current and current.name or
    'the random state', message)
end

--- Fills the objects from the state of a run, or none of them; returns the plain values.
function run_state.restore(operation, content, objects)
  local own = content.checkpoint
  local jobs, class = jobs_of(operation, objects, content, own)
  fill(operation, jobs, class, own.random)
  for _, keys in ipairs(own.objects) do
    local last = table.remove(keys)
    local t = at(content, keys)
    if type(t) == 'table' then t[last] = nil end
  end
  content.checkpoint = nil
  return content
end

return run_state
