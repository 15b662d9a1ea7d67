-- workers.lua -- threads that make batches ahead, each with a Lua state of its own
local core = require 'mtorch.core'

return {fetcher = function() core.fail 'DataLoader: workers are not there yet' end}
