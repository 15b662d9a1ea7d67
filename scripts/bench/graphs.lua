-- graphs.lua -- the graphs of bench.lua: bars of ratios, time over size, a roofline
local mt = require 'mtorch'

local graphs = {}

--- A chart of the ratios to the first peer; bars upwards are rows where we are faster.
function graphs.ratios(path, run, columns)
  local ours, theirs = columns[1].name, columns[2].name
  local values, labels = {}, {}
  for _, r in ipairs(run.rows) do
    local a, b = r.results[ours], r.results[theirs]
    if a and b then
      values[#values + 1], labels[#labels + 1] = math.log(b.us / a.us) / math.log(2), r.name
    end
  end
  mt.plot.bar {values, labels = labels, title = ('Time of %s / time of %s'):format(theirs, ours),
    ylabel = 'log2 of the ratio', path = path, width = math.min(math.max(30 * #values, 640), 4000)}
end

return graphs
