-- extend.lua -- mt.extend: the interface for libraries on top of mtorch; the library's own extras use only this
local core = require 'mtorch.core'

local extend = {util = require 'mtorch.core.util', object = require 'mtorch.core.object'}
for _, name in ipairs{'check', 'check_options', 'check_writable', 'columns', 'declare', 'describe', 'fail', 'identity',
  'interrupted', 'is_callable', 'json_text', 'make_folders', 'operations', 'parse_json', 'rows', 'strict', 'time',
  'write_pieces'} do
  extend[name] = core[name]
end

--- The notebook that shows what this process displays, or nil (bindings/lua/jupyter/kernel.lua).
function extend.front_end() return core.front_end end

--- A step that is being recorded (mt.compile, mt.fuse) runs eagerly, and is reported with this reason.
function extend.run_eagerly(why)
  if core.step_recording then core.step_recording.why = why end
end

local lazy = {
  encode_png = function() return core.formats().encode_png end,
  in_eval = function() return require('mtorch.nn.class').in_eval end,
  is_module = function() return require('mtorch.nn.class').is_module end,
  formula = function() return core.compile().formula end,
  instructions = function() return core.compile().instructions end,
  svg_to_png = function() return core.formats().svg_to_png end,
  recorder = function() return require 'mtorch.core.record' end,
}
for _, name in ipairs{'describe_graph', 'wall_time', 'process_id'} do
  lazy[name] = function() return core.watch()[name] end
end

return core.strict(extend, 'mt.extend', nil, lazy)
