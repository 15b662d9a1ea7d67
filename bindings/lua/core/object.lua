-- object.lua -- objects of the library: a metatable with declared methods, which check their arguments and have help
local core = require 'mtorch.core'

local function results(...) return ... end

--- A metatable for objects that errors call `shown`, as in 'writer:add_scalar'; its methods come by
--- of.method(signature, doc, body) and stand in of.methods as help shows them, {signature, help}. Arguments
--- are checked where the signature states types. `optional` is the set of fields that may be nil.
return function(shown, optional)
  local of = {methods = {}}
  of.__metatable = false
  of.__index = core.members(of, shown, shown, optional)
  function of.__tostring(self) return of.describe and of.describe(self) or shown end
  function of.method(signature, doc, body)
    local check = core.declare(signature, doc, results)
    local name, shown_as = signature:match('^[%w_]+'), core.entry(check)
    of.methods[#of.methods + 1] = {shown_as, doc}
    of[name] = function(self, ...)
      if type(self) ~= 'table' or rawget(self, 'of') ~= of then
        core.fail('%s: methods are called with a colon, %s:%s(..)', name, shown, name)
      end
      if shown_as == signature then return body(self, ...) end
      return body(self, check(...))
    end
  end
  --- An object with these fields.
  function of.new(fields)
    fields.of = of
    return setmetatable(fields, of)
  end
  return of
end
