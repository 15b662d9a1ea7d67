-- workers.lua -- batches prefetched by threads, each with its own Lua state
local core = require 'mtorch.core'
local util = require 'mtorch.core.util'
local native = core.loader()
local copy = require 'mtorch.data.copy'

-- Unused loaders keep their threads until they are garbage-collected.
local teams = setmetatable({}, {__mode = 'k'})
local max_teams = 8

local function start(n)
  if util.count_keys(teams) >= max_teams then collectgarbage() end
  local team = native.start(n)
  teams[team] = true
  return team
end

--- A function that returns batch k of an iteration, and keeps `prefetch` further ones per worker in progress. A
--- loader's workers serve one iteration at a time: requests of another one are cancelled.
return function(loader, iteration, job)
  local ok, setup = pcall(copy.pack, {set = loader.dataset, ['collate function'] = loader.collate})
  if not ok then core.fail(setup) end
  local tickets, posted, ahead = {}, 0, loader.workers * loader.prefetch
  local function received(k, good, ...)
    loader.served, tickets[k] = iteration, nil
    if good then return ... end
    local message = ...
    if core.interrupted() then error(message, 0) end
    core.fail(message)
  end
  return function(k)
    if not loader.team or not native.works(loader.team) then loader.team, loader.served = start(loader.workers), nil end
    if loader.served ~= iteration then
      native.set_up(setup, loader.team)
      native.give_up(loader.team)
      tickets, posted = {}, k - 1
    end
    for i = posted + 1, math.min(iteration.n, k - 1 + ahead) do
      tickets[i], posted = native.post(job(i), loader.team), i
    end
    loader.served = nil -- so that all jobs are posted again if take is interrupted
    return received(k, native.take(loader.team, tickets[k]))
  end
end
