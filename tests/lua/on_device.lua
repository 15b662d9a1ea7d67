-- on_device.lua -- Runs a test file of tests/lua with another device as the default one
--
--   MTORCH_CUDA_PLUGIN=build/libmtorch_cuda_emulated.so MTORCH_CUDA_SYNC=1 \
--     mtorch tests/lua/on_device.lua cuda tests/lua/test_nn.lua
--
-- MTORCH_CUDA_SYNC, since the tests of wrong positions expect their sentences at once.
local mt = require 'mtorch'
local device, script = arg[1], arg[2]
mt.set_default_device(device)
package.path = script:match('^(.*/)') .. '?.lua;' .. package.path
arg = {[0] = script}
dofile(script)
