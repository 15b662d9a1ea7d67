-- memory.lua -- trains a small CNN on generated digits for one epoch and prints the largest memory of the process
--
--   mtorch scripts/bench/memory.lua --count 8192      peers/memory_torch.py does the same
local mt = require 'mtorch'
package.path = arg[0]:gsub('bench/memory%.lua$', '?.lua;') .. package.path
local options = mt.args {{'count', 8192, 'digits', type = 'int', min = 64}}
local x, y = mt.rand(options.count, 1, 28, 28), mt.randint(1, 10, {options.count})
local step = require('bench.networks').cnn()
for a, b in mt.data.DataLoader(mt.data.TensorDataset(x, y), {batch_size = 64, shuffle = true}):iter() do step(a, b) end
print(('peak_mib=%.1f'):format(require('bench.tools').peak_mib()))
