-- init.lua -- mt.help: functions with their arguments, from the declarations that also check
-- arguments; topics; names of PyTorch and their equivalents here
local core = require 'mtorch.core'
local mt = require 'mtorch'
local topics = require 'mtorch.help.topics'
local util = require 'mtorch.core.util'
local objects = require 'mtorch.help.object_methods'
local modules = require 'mtorch.help.modules'

local wrap, field = util.wrap, util.field

local lines -- of the text that is being made
local function say(text) lines[#lines + 1] = text end

local subjects = core.complete()

--- The values with a name such as `matmul`, `x:sum`, `nn.Linear`: a list of {shown=, value=}.
local function find(name)
  local found = {}
  local function add(shown, value)
    if value ~= nil then found[#found + 1] = {shown = shown, value = value} end
  end
  local module, rest = name:match('^([%w_.]+)%.([%w_]+)$')
  if module then
    add(name, field(modules.at(module), rest))
    return found
  end
  local method, of_module = core.methods[name], rawget(mt, name) or field(mt, name)
  if method and method == of_module then
    add(name, method)
  else
    add('mt.' .. name, of_module)
    add('x:' .. name, method)
  end
  for _, other in ipairs(modules.names) do add(other .. '.' .. name, field(modules.at(other), name)) end
  return found
end

--- The name in an entry {signature, help} of an object's methods.
local function name_of(entry) return entry[1]:match '^[%w_]+' end

--- The same for objects: `parameters`, `net:parameters`, `Optimizer.step`.
local function find_of_objects(name)
  local found, owner, method = {}, name:match('^(%w+)[:.]([%w_]+)$')
  for _, object in ipairs(objects) do
    if not owner or owner .. ':' == object.call or owner:lower() == object.class:lower() then
      for _, entry in ipairs(object) do
        if name_of(entry) == (method or name) then found[#found + 1] = {object.call, unpack(entry)} end
      end
    end
  end
  return found
end

--- A name of PyTorch without an equivalent yet, whole or its last part, and advice.
local function missing_name(name)
  for _, word in ipairs{name, name:match('[^.]+$') or name, name:match('^optim%.(lr_scheduler)%.') or name} do
    if topics.absent[word] then return word, topics.absent[word] end
  end
end

local function members(value)
  return table.concat(util.filter(core.names(value), function(key)
    return not (key:find('^_') or key:find('^svg_') or type(value[key]) == 'string') -- internal names of plot
  end), ' ')
end

--- "mt.sum(x, ..) or x:sum(..)": the forms in which a signature is called.
local function call_forms(shown, signature, is_both)
  local name, arguments = signature:match('^([%w_]+)%((.*)%)$')
  local prefix = shown:match('^(.*[.:])') or 'mt.'
  if prefix == 'x:' then return ('x:%s(%s)'):format(name, (arguments:gsub('^x,? ?', ''))) end
  local text = prefix .. signature
  if not is_both then return text end
  local first, rest = arguments:match('^([%w_]+),? ?(.*)$')
  return ('%s   or   %s:%s(%s)'):format(text, first, name, rest)
end

local function show(found)
  local value, shown = found.value, found.shown
  local signature, doc, limits = core.entry(value)
  if signature then
    local name, known = shown:match('[%w_]+$'), signature:match('^[%w_]+')
    if name ~= known and (core.methods[known] == value or rawget(mt, known) == value) then
      say(("'%s' is another name of %s:"):format(name, known))
    end
    say(call_forms(shown, signature, core.methods[name] == value))
    say(wrap(doc, '  ', 92))
    if limits ~= '' then say(wrap(limits .. '.', '  ', 92)) end
    local in_place = not name:find('_$') and core.methods[name .. '_']
    if in_place and core.methods[name] == value then say(('  In place: x:%s_(..)'):format(name)) end
  elseif type(value) == 'table' then
    say(shown .. ' has ' .. members(value))
  else
    say(('%s is a %s'):format(shown, type(value)))
  end
end

local function list_subjects()
  local function say_names(title, names) say(title .. '\n' .. wrap(table.concat(names, ' '), '  ', 92)) end
  local listed = {arange = true}
  for _, subject in ipairs(subjects) do
    local names = util.filter(subject, function(name)
      listed[name] = true
      local twin = name:find('_$') and core.methods[name:sub(1, -2)]
      return not twin and (core.methods[name] or rawget(mt, name))
    end)
    table.sort(names)
    say_names(subject.title, names)
  end
  say_names('The rest', util.filter(core.names(mt), function(name) return not listed[name] end))
  for _, object in ipairs(objects) do
    say_names(('%s, %sname(..)'):format(object.title, object.call), util.map(object, name_of))
  end
  say_names("Topics: mt.help('indexing')", util.sorted_keys(topics.text))
end

--- The names whose help contains the word, for an unknown name.
local function names_with(word)
  local names = {}
  for _, subject in ipairs(subjects) do
    util.append(names, util.filter(subject, function(name)
      local _, doc = core.entry(core.methods[name] or rawget(mt, name))
      return doc and doc:lower():find(word:lower(), 1, true) and not name:find('_$')
    end))
  end
  table.sort(names)
  return names
end

local function near(name)
  local names = util.append(util.sorted_keys(core.methods), util.sorted_keys(topics.text))
  util.append(names, core.names(mt))
  for _, module in ipairs(modules.names) do util.append(names, core.names(modules.at(module))) end
  for _, object in ipairs(objects) do util.append(names, util.map(object, name_of)) end
  table.sort(names)
  return core.did_you_mean(names, name)
end

local function topics_with(word)
  local titles = {}
  for _, title in ipairs(util.sorted_keys(topics.text)) do
    if topics.text[title]:lower():find('%f[%w]' .. word:lower():gsub('%p', '%%%0') .. '%f[^%w]') then
      titles[#titles + 1] = ("mt.help('%s')"):format(title)
    end
  end
  return titles
end

local function unknown(name)
  local word = name:match('[^.]+$') or name
  local hint, others = near(word), names_with(word)
  if #others > 0 then
    hint = hint .. '; in the help of: ' .. table.concat(others, ' ', 1, math.min(#others, 12))
  end
  local titles = topics_with(word)
  if #titles > 0 then hint = hint .. '; see ' .. table.concat(titles, ', ') end
  core.fail("help: nothing is called '%s'%s", name, hint)
end

--- Says what there is about a name without torch; returns whether there is anything.
local function say_about(name)
  local said = topics.text[name] or topics.text[name:lower()]
  if said then say(said) end
  local sample = topics.sample[name] or topics.sample[name:lower()]
  if sample then say('\n  ' .. sample:gsub('\n', '\n  ')) end
  local other = topics.renamed[name] or topics.renamed['nn.' .. name] or topics.renamed['module.' .. name]
  if other then say(("'%s' is here: %s"):format(name, other)) end
  local word, instead = missing_name(name)
  if word then say(("'%s' is not there yet: %s"):format(word, instead)) end
  local found = name == 'arange' and {} or find(name)
  local of_objects = find_of_objects(name)
  for _, entry in ipairs(of_objects) do
    say((entry[2]:find('(', 1, true) and entry[1] or entry[1]:gsub(':', '.')) .. entry[2])
    say(wrap(entry[3], '  ', 92))
  end
  for _, one in ipairs(found) do
    if not said or core.entry(one.value) or type(one.value) == 'table' then show(one) end
  end
  return #found + #of_objects > 0 or said or other or word
end

--- Says what there is about a name, or a function. Of a name in PyTorch's packages (torch.utils.data.DataLoader) the
--- longest end that is known counts, or else the package.
local function explain(name)
  if type(name) == 'function' or (type(name) == 'table' and core.entry(name)) then
    local signature = core.entry(name) or core.fail('help: this function is not one of mtorch')
    name = signature:match('^[%w_]+')
  end
  if type(name) ~= 'string' then core.fail('help: a name is needed, got ' .. core.describe(name)) end
  local plain = name:gsub('^torch%.', ''):gsub('^mt%.', ''):gsub('^Tensor[.:]', ''):gsub('^x:', ''):gsub('%(.*$', '')
  plain = plain:gsub('^torchvision%.transforms%.', 'data.transforms.')
    :gsub('^torchvision%.datasets%.ImageFolder', 'data.folder')
    :gsub('^torchvision%.datasets%.(%w+)', function(set) return 'data.' .. set:lower() end)
  local rest = plain
  while rest and not say_about(rest) do rest = rest:match('^[^.]*%.(.+)$') end
  if rest then return end
  local package = plain:match('^([^.]+)%.')
  if not (package and topics.renamed[package]) then unknown(plain) end
  say(("'%s' is here: %s"):format(package, topics.renamed[package]))
end

--- The help of a name or of a function as text, with which the prompt answers too; without a name all names.
function core.help_text(name)
  lines = {}
  if name == nil then list_subjects() else explain(name) end
  return table.concat(lines, '\n')
end

return core.declare('help(name=nil)', "How a function is called and what it does; without a name all names.",
  function(name) print(core.help_text(name)) end)
