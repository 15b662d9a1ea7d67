-- on_device.lua -- Runs a test file of tests/lua with another device as the default one
--
--   MTORCH_CUDA_PLUGIN=build/libmtorch_cuda_emulated.so mtorch tests/on_device.lua cuda tests/lua/test_nn.lua
local mt = require 'mtorch'
local device, script = arg[1], arg[2]
mt.set_default_device(device)
package.path = script:match('^(.*/)') .. '?.lua;' .. package.path
arg = {[0] = script}
dofile(script)
