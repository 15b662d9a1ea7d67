-- worker.lua -- the code in the Lua state of a loader's worker: receives jobs, returns batches
local core = require 'mtorch.core'
local native = core.loader()
local copy = require 'mtorch.data.copy'
local maker = require('mtorch.data.batch').maker

-- A worker must not end the program.
function os.exit(code) error(('a worker called os.exit(%s)'):format(code == nil and '' or tostring(code)), 2) end

local function prepare(setup)
  local values = copy.unpack(setup)
  return maker(values.set, values['collate function'])
end

local function give(ticket, good, ...)
  if not good then return native.give({tostring((...))}, 1, ticket, false) end
  local ok, message = pcall(native.give, {...}, select('#', ...), ticket, true)
  if not ok then native.give({'DataLoader: of what collate returned ' .. tostring(message)}, 1, ticket, false) end
end

return function()
  local make
  local source = native.item_random() -- random numbers that modules draw while loading must not affect the program's
  native.enter(source, math.random)
  while true do
    local ticket, job, setup = native.wait()
    if not ticket then return end
    if setup then
      local ok, result = pcall(prepare, setup)
      make = ok and result or function() error(result, 0) end
    end
    give(ticket, pcall(make, job))
  end
end
