-- on_device.lua -- runs a test file of tests/lua with another default device
--
--   MTORCH_CUDA_PLUGIN=build/libmtorch_cuda_emulated.so MTORCH_CUDA_SYNC=1 \
--     mtorch tests/lua/on_device.lua cuda tests/lua/test_nn.lua
--
-- MTORCH_CUDA_SYNC is set because the tests of wrong positions expect the error at the call.
local mt = require 'mtorch'
local device, script = arg[1], arg[2]
mt.set_default_device(device)
package.path = script:match('^(.*/)') .. '?.lua;' .. package.path
arg = {[0] = script}
dofile(script)
