-- object_methods.lua -- the help of methods of modules, optimizers, hooks and the ctx of mt.Function
--
-- mt.help, the reference and the stubs use it. A test compares the names with the methods.
local mt = require 'mtorch'
local class = require 'mtorch.nn.class'
require 'mtorch.nn'

return {
  {title = 'Methods of modules', call = 'net:', class = 'Module', unpack(class.Module.__methods)},
  {title = 'Methods of optimizers', call = 'opt:', class = 'Optimizer',
   unpack(require('mtorch.optim.optimizer').__methods)},
  {title = 'Methods of schedulers', call = 'sched:', class = 'Scheduler',
   unpack(require('mtorch.optim.scheduler').methods)},
  {title = 'Methods of metrics', call = 'm:', class = 'Metric',
   unpack(getmetatable(mt.metrics.Mean()).__methods)},
  {title = 'Methods of distributions', call = 'p:', class = 'Distribution',
   unpack(require('mtorch.extras.distributions.base').methods)},
  {title = 'Methods of loaders', call = 'loader:', class = 'DataLoader',
   unpack(require('mtorch.data.loader').__methods)},
  {title = 'The ctx of mt.Function', call = 'ctx:', class = 'Context',
   unpack(require('mtorch.core.gradient').context_methods)},
  {
    title = 'The handle of x:register_hook', call = 'h:', class = 'Hook',
    {'remove()', 'Removes the hook.'},
  },
  {title = 'Methods of mt.SummaryWriter', call = 'w:', class = 'SummaryWriter',
   unpack(require('mtorch.extras.tensorboard').methods)},
  {title = 'Methods of mt.progress', call = 'bar:', class = 'Bar', unpack(require('mtorch.script.progress').methods)},
  {title = 'Methods of mt.Report', call = 'report:', class = 'Report',
   unpack(require('mtorch.extras.report.run').methods)},
  {title = 'Methods of mt.JsonLines', call = 'log:', class = 'JsonLines',
   unpack(require('mtorch.io.json_lines').methods)},
}
