-- object_methods.lua -- the help of methods of modules, optimizers, hooks and the ctx of mt.Function
--
-- These are plain Lua functions, which have no declaration: this is what mt.help, the reference and the
-- stubs say of them. A test compares the names with the methods.
local add = 'adds up in .grad'

return {
  {
    title = 'Methods of modules', call = 'net:', class = 'Module',
    {'parameters()', 'All parameters of the module and of those inside, each once, as a list: what optimizers take.'},
    {'named_parameters()', "An iterator: for name, p in net:named_parameters() do. Names are PyTorch's, '0.weight'."},
    {'buffers()', 'All buffers, as a list.'},
    {'named_buffers()', 'An iterator over names and buffers.'},
    {'children()', 'The modules that are direct fields, as a list.'},
    {'modules()', 'The module itself and all inside, as a list.'},
    {'named_modules()', 'An iterator over names and the modules inside.'},
    {'apply(fn)', 'Calls fn(module) for every module inside, then for this one; returns it.'},
    {'train(mode=true)', 'Switches to training, what dropout and normalisations ask for (net.training); returns it.'},
    {'eval()', 'The same as train(false).'},
    {'requires_grad_(on=true)', 'Whether the parameters have gradients: false freezes them; returns it.'},
    {'zero_grad()', 'Drops the gradients of all parameters: the next backward ' .. add .. ' otherwise.'},
    {'to(target, ..)', "Parameters and buffers to another dtype or device, in place, net:to('cuda'); returns it. " ..
      'float double half bfloat16 cpu cuda are short for it.'},
    {'float()', "The same as to('float32')."}, {'double()', "The same as to('float64')."},
    {'half()', "The same as to('float16')."}, {'bfloat16()', "The same as to('bfloat16')."},
    {'cpu()', "The same as to('cpu')."}, {'cuda()', "The same as to('cuda')."},
    {'clone()', 'A copy with parameters of its own; what is shared inside stays shared.'},
    {'state_dict()', "A table of names to detached tensors that share the parameters' memory. The names are " ..
      "PyTorch's: children of a Sequential count from 0, '0.weight', where print(net) and net[1] count from 1."},
    {'load_state_dict(state, strict=true)', 'Copies such a table into the parameters; returns the module. Where it ' ..
      'does not fit nothing is loaded; {strict=false} leaves missing and unknown names alone and returns both lists.'},
    {'describe()', 'What print(net) shows: the tree with its parameters counted. Children at [1], [2] count from 1, ' ..
      "in state_dict's names from 0."},
    {'forward(x, ..)', 'What the module computes. net(x) calls it and adds the name of the module to errors.'},
  },
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
  {
    title = 'The ctx of mt.Function', call = 'ctx:', class = 'Context',
    {'save_for_backward(..)', 'Keeps tensors for backward; a change in place of them before that is an error.'},
    {'saved_tensors()', 'What was saved, as several values, no list: local x, y = ctx:saved_tensors().'},
  },
  {
    title = 'The handle of x:register_hook', call = 'h:', class = 'Hook',
    {'remove()', 'The hook is called no more.'},
  },
}
