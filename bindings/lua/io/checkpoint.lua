-- checkpoint.lua -- mt.checkpoint: the whole state of a training run in one file, resumed bit for bit
local core = require 'mtorch.core'
local run_state = require 'mtorch.io.run_state'
local save = require 'mtorch.io.save'

local checkpoint = {}

checkpoint.save = core.declare('save(path: string, objects: table)',
  'Writes the state of a run: checkpoint.save(path, {model=net, optim=opt, sched=sched, step=n, ..}). ' ..
  'Objects with state_dict() and load_state_dict(state), and generators, are saved by their states; numbers, ' ..
  'strings, tensors and tables of them as they are; also the random states of mt and of math.random. ' ..
  'The file is replaced atomically. mt.load reads it too.',
  function(path, objects)
    save.write('checkpoint.save', path, run_state.of('checkpoint.save', objects))
  end, true)

--- The content of a checkpoint, or nil if the file does not exist.
local function read(path)
  local file, _, errno = io.open(path, 'rb')
  if not file and errno == 2 then return nil end
  if file then file:close() end
  local kind = core.file_kind('checkpoint.resume', path)
  core.check(kind == 'safetensors', "checkpoint.resume: '%s' is not a checkpoint of mtorch%s", path,
    (kind == 'zip' or kind == 'torch') and "; mt.load(path) reads PyTorch's files" or '')
  local content = save.read('checkpoint.resume', path)
  if type(content) == 'table' and type(content.dist) == 'table' then
    core.fail("checkpoint.resume: '%s' is a file of dist.checkpoint.save; dist.checkpoint.resume reads it", path)
  end
  run_state.check('checkpoint.resume', path, content)
  return content
end

checkpoint.resume = core.declare('resume(path: string, objects: table)',
  'Restores a file of checkpoint.save(path, ..): the states of the objects with the same keys and the ' ..
  'random states; returns the plain values, {step=n, ..}, or nil without a file. If one object does not ' ..
  'fit, nothing is changed. The resumed run gives the same bits as one without interruption.',
  function(path, objects)
    run_state.check_objects('checkpoint.resume', objects)
    local content = read(path)
    return content and run_state.restore('checkpoint.resume', content, objects)
  end, true)

return checkpoint
