-- display.lua -- mt.display: shows a value as the prompt or a notebook shows the result of a line or cell
local core = require 'mtorch.core'

return core.declare('display(value, id: text = nil)',
  'Shows a value as the result of a cell: in a notebook a tensor as a table, uint8 images [c x h x w] as pictures, ' ..
  'a module as a tree; elsewhere its text. With an id it replaces what was shown under this id before, in a notebook.',
  function(value, id)
    local front_end = core.front_end
    if front_end then return front_end.display(front_end.bundle(value), id) end
    print(require('mtorch.help.prompt').text(value))
  end)
