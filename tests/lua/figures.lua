-- figures.lua -- what the tests of mt.plot share: output of a simulated terminal, and checks of SVG
local t = require 'testing'
local core = require 'mtorch.core'

local figures = {}

--- Runs fn with a given environment and functions of the terminal (isatty, time, columns); returns its output on both
--- streams.
function figures.captured(environment, host, fn)
  local getenv, stdout, stderr, real_print = os.getenv, io.stdout, io.stderr, print
  local real, out, err = {}, {}, {}
  local function sink(list)
    local function write(_, ...) list[#list + 1] = table.concat{...} end
    return {write = write, flush = function() end}
  end
  os.getenv = function(name) return environment[name] end -- luacheck: ignore
  for name, other in pairs{isatty = function() return false end, time = os.clock,
      columns = function() return tonumber(environment.COLUMNS) or 80 end} do
    real[name], core[name] = core[name], host and host[name] or other
  end
  io.stdout, io.stderr = sink(out), sink(err) -- luacheck: ignore
  print = function(...) out[#out + 1] = table.concat({...}, '\t') .. '\n' end -- luacheck: ignore
  local ok, message = pcall(fn)
  os.getenv, io.stdout, io.stderr, print = getenv, stdout, stderr, real_print -- luacheck: ignore
  for name, former in pairs(real) do core[name] = former end
  if not ok then error(message, 0) end
  return table.concat(out), table.concat(err)
end

function figures.count(text, pattern) return select(2, text:gsub(pattern, '')) end

--- Asserts that elements are closed in order, each & is an entity, and no number is nan or inf.
function figures.well_formed(svg)
  local open = {}
  for close, name, rest in svg:gmatch('<(/?)([%a]+)([^>]*)>') do
    if close == '/' then t.eq(table.remove(open), name)
    elseif rest:sub(-1) ~= '/' then open[#open + 1] = name end
  end
  t.eq(#open, 0)
  t.eq(figures.count(svg, '&') - figures.count(svg, '&%a+;') - figures.count(svg, '&#%d+;'), 0)
  for attribute in svg:gmatch('="([^"]*)"') do
    if attribute:find('%f[%a]nan%f[%A]') or attribute:find('%f[%a]inf%f[%A]') then
      error('not a number in ' .. attribute:sub(1, 80))
    end
  end
  return svg
end

return figures
