-- object_methods.lua -- the help of methods of modules, optimizers, hooks and the ctx of mt.Function
--
-- Modules declare theirs. The others are plain Lua functions: this is what mt.help, the reference and the
-- stubs say of them. A test compares the names with the methods.
local mt = require 'mtorch'
local class = require 'mtorch.nn.class'
require 'mtorch.nn'
local add = 'adds up in .grad'

return {
  {title = 'Methods of modules', call = 'net:', class = 'Module', unpack(class.methods)},
  {
    title = 'Methods of optimizers', call = 'opt:', class = 'Optimizer',
    {'step(closure=nil)', 'One step from the gradients; a closure is called before, and its loss returned.'},
    {'zero_grad()', 'Drops the gradients of all parameters: the next backward ' .. add .. ' otherwise.'},
    {'state_dict()', 'Options and state of each group, for load_state_dict.'},
    {'load_state_dict(state)', 'Goes on from what state_dict() of such an optimizer returned; where it does not fit ' ..
      'nothing is loaded.'},
    {'add_param_group(group)', 'One more group, {params = list, lr = ..}; what it leaves out is as in the optimizer.'},
    {'param_groups', 'A field: the groups, each with params and options that may be changed between steps, ' ..
      'opt.param_groups[1].lr = 0.01.'},
  },
  {title = 'Methods of schedulers', call = 'sched:', class = 'Scheduler',
   unpack(require('mtorch.optim.scheduler').methods)},
  {title = 'Methods of metrics', call = 'm:', class = 'Metric',
   unpack(getmetatable(mt.metrics.Mean()).__base.__methods)},
  {
    title = 'Methods of loaders', call = 'loader:', class = 'DataLoader',
    {'iter()', 'An iterator over the batches of one epoch, for x, y in loader:iter() do; after load_state_dict over ' ..
      'what is left of one.'},
    {'size()', 'How many batches an epoch has.'},
    {'state_dict()', 'The position, batches handed out and not those made ahead: {seed, epoch, batch, batches}.'},
    {'load_state_dict(state)', 'The next iter() goes on where state_dict() was called.'},
  },
  {
    title = 'The ctx of mt.Function', call = 'ctx:', class = 'Context',
    {'save_for_backward(..)', 'Keeps tensors for backward; a change in place of them before that is an error.'},
    {'saved_tensors()', 'What was saved, as several values, no list: local x, y = ctx:saved_tensors().'},
  },
  {
    title = 'The handle of x:register_hook', call = 'h:', class = 'Hook',
    {'remove()', 'The hook is called no more.'},
  },
  {title = 'Methods of mt.SummaryWriter', call = 'w:', class = 'SummaryWriter',
   unpack(require('mtorch.io.summary_writer').methods)},
  {
    title = 'Methods of mt.progress', call = 'bar:', class = 'Bar',
    {'update(i=nil, values=nil)', 'So many steps are done (nil: one more); values, {loss=l}, stand at the end.'},
    {'set(values)', 'What stands at the end from now on, where the loop itself counts the steps.'},
    {'print(..)', 'A line that stays, above the bars.'},
    {'finish()', 'Ends the bar early; the last step does so by itself.'},
  },
  {title = 'Methods of mt.Report', call = 'report:', class = 'Report',
   unpack(require('mtorch.tools.report_run').methods)},
  {title = 'Methods of mt.JsonLines', call = 'log:', class = 'JsonLines',
   unpack(require('mtorch.io.json_lines').methods)},
}
