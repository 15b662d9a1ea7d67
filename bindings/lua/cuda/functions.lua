-- functions.lua -- mt.cuda: its functions, whose parts are loaded when they are called
local core = require 'mtorch.core'

return {
  is_available = function()
    local reason = core.cuda_unavailable_reason()
    if reason == '' then return true end
    return false, reason
  end,
  device_count = core.declare('device_count()', 'The number of usable GPUs.', core.cuda_devices),
  device_name = core.declare("device_name(device: device = 'cuda')", 'The product name of a GPU.',
    function(device) return core.device_name(device) end),
  kernel = core.declare('kernel(source: string, name: string = nil, options: strings = nil, ' ..
    "defines: table = nil, rank: table = nil, device: device = 'cuda', check: bool = false)",
    'A kernel in CUDA C, compiled by NVRTC and cached on disk; k[{blocks, threads}](..) launches it, k[{ {gx, gy}, ' ..
    "{bx, by}, bytes}](..) too. name may be 'scale<float>'; options are NVRTC's; defines = {TILE = 16}; rank = " ..
    "{m = 2} says how many dimensions a tensor must have; k:set_constant('name', x) fills a " ..
    '__constant__. check=true finds what a launch writes beside its tensors.',
    function(...) return require('mtorch.cuda.kernel')(...) end),
  synchronize = core.declare("synchronize(device: device = 'cuda')", 'Waits until a GPU has finished its work.',
    function(device) core.synchronize(device) end),
  get_device_properties = core.declare("get_device_properties(device: device = 'cuda')",
    'The properties of a GPU: name, major, minor (compute capability), multi_processor_count, warp_size, ' ..
    'max_threads_per_block, max_threads_per_multi_processor, regs_per_multiprocessor, total_memory, ' ..
    'shared_memory_per_block and L2_cache_size in bytes.',
    function(device) return require('mtorch.cuda').get_device_properties(device) end),
  memory_stats = core.declare("memory_stats(device: device = 'cuda')",
    'Bytes of a GPU: allocated (in tensors), peak, ' ..
    'reserved (from the driver, in use or kept for reuse), free, total; and the numbers of allocations, launches, ' ..
    'copies and waits; products, convolutions and collectives name the libraries of large ones.',
    function(device) return require('mtorch.cuda').memory_stats(device) end),
  empty_cache = core.declare("empty_cache(device: device = 'cuda')",
    'Returns memory that is kept for reuse to the driver.',
    function(device) require('mtorch.cuda').empty_cache(device) end),
  reset_peak = core.declare("reset_peak(device: device = 'cuda')",
    "memory_stats().peak begins again at what is allocated.",
    function(device) require('mtorch.cuda').reset_peak(device) end),
  Event = core.declare("Event(device: device = 'cuda')", 'A mark in the order of a GPU\'s work: e:record(), ' ..
    'e:synchronize(), e:query(), and e1:elapsed_time(e2) in milliseconds.',
    function(device) return require('mtorch.cuda').Event(device) end),
  graph = core.declare("graph(fn: function, warmup: int >= 0 = 2, device: device = 'cuda')",
    'Runs fn warmup times, then records its GPU work without executing it. g() replays the work with the memory, ' ..
    'the numbers and the shapes of the recording, and returns the tensors that fn returned. Inputs are tensors that ' ..
    'are written before: x:copy_(batch). fn may not wait for the GPU (item, tolist, printing, x:cpu()) and begins ' ..
    'with zero_grad; its random numbers continue from replay to replay. Optimizers use their current options; one ' ..
    'that needs other state than was recorded is an error. g:release() frees the graph.',
    function(fn, warmup, device) return require('mtorch.cuda').graph(fn, warmup, device) end),
}
