-- json_lines.lua -- mt.JsonLines: a log with one JSON object per line
local core = require 'mtorch.core'
local util = require 'mtorch.core.util'
local object = require 'mtorch.core.object'

local null = {}

-- Converts values for JSON: tensors to numbers and lists, non-finite numbers to null.
local function plain(value, depth)
  value = util.plain(value)
  if type(value) == 'number' then return (value == value and math.abs(value) < math.huge) and value or null end
  if type(value) ~= 'table' then return value end
  if depth > 100 then core.fail('JsonLines: the record is nested more than 100 deep; does a table contain itself?') end
  local out = {}
  for key, inner in pairs(value) do out[key] = plain(inner, depth + 1) end
  return out
end

local JsonLines, method = object.class{called = 'log', optional = {path = true, file = true}}
function JsonLines:describe() return self.path and ("JsonLines('%s')"):format(self.path) or 'JsonLines(off)' end

method('write(record)',
  'Adds a line, {epoch=3, loss=loss}: numbers, texts, booleans, tensors, lists and tables of them; nan and inf are ' ..
    'null. It is written at once.',
  function(self, record)
    if type(record) ~= 'table' then core.fail('write: the record is %s, expected a table', core.describe(record)) end
    if not self.path then return end
    if not self.file then core.fail("JsonLines: '%s' is closed", self.path) end
    local text = core.json_text(plain(record, 0), null):gsub('^%[%]$', '{}')
    util.write_log('JsonLines', self.path, self.file, text .. '\n')
  end)

method('close()', 'Closes the file.', function(self)
  if self.file then self.file:close() end
  self.file = nil
end)

return {
  methods = JsonLines.__methods,
  JsonLines = core.declare("JsonLines(path: string = '', append: bool = true)",
    'A log of one JSON object for each line: log:write{epoch=1, loss=loss}. append=false truncates it. Without a ' ..
      "path it writes nothing, so that a script's flag may be empty.",
    function(path, append)
      local self = object.new(JsonLines, {path = path ~= '' and path or nil})
      if not self.path then return self end
      self.file = util.open_log('JsonLines', path, append and 'ab' or 'wb')
      return self
    end),
}
