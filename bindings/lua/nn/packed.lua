-- packed.lua -- sequences of different lengths: padded to one tensor, or packed without the padding
local core = require 'mtorch.core'
local mt = require 'mtorch'
local object = require 'mtorch.core.object'
local util = require 'mtorch.core.util'
local class = require 'mtorch.nn.class'

local packed = {}

local Packed = object.class{called = 'sequence', name = 'PackedSequence',
  optional = util.word_set 'sorted_indices unsorted_indices'}
function Packed:describe()
  return ('PackedSequence(%d sequences, data %s)'):format(self.batch_sizes:at(1), tostring(self.data.shape))
end

--- Whether the value is a result of pack_padded_sequence.
function class.is_packed(value) return getmetatable(value) == Packed end

--- The concatenated rows of all steps, [all x features..]: in each step those of the sequences that are long enough,
--- by decreasing length. batch_sizes has their numbers; sorted_indices the original positions (nil: unchanged).
local function make(data, batch_sizes, sorted, unsorted)
  return object.new(Packed, {data = data, batch_sizes = batch_sizes, sorted_indices = sorted,
    unsorted_indices = unsorted})
end

--- The same with other data that has the same number of rows.
function Packed:with(data) return make(data, self.batch_sizes, self.sorted_indices, self.unsorted_indices) end
--- The data converted to another dtype or device.
function Packed:to(...)
  local data = self.data:to(...)
  local function to_device(t) return t and t:to(data.device) end
  return make(data, self.batch_sizes, to_device(self.sorted_indices), to_device(self.unsorted_indices))
end

local op = 'pack_padded_sequence'

--- Lengths, a tensor or a list, as a list of integers in 1..max_length.
local function length_list(lengths, n, max_length)
  if mt.is_tensor(lengths) then
    if lengths:dim() ~= 1 then core.fail('%s: the lengths are %s, expected (%d)', op, tostring(lengths.shape), n) end
    lengths = lengths:tolist()
  end
  if #lengths ~= n then core.fail('%s: %d lengths for %d sequences', op, #lengths, n) end
  for i, length in ipairs(lengths) do
    if not util.is_whole(length, 1, max_length) then
      core.fail('%s: length %d is %s, expected a whole number in 1..%d', op, i, core.describe(length), max_length)
    end
  end
  return lengths
end

--- [rows x columns], true in the first counts[row] columns of each row.
local function first_columns(counts, columns)
  return mt.range(1, columns, 1, {device = 'cpu'}):le(counts:unsqueeze(2))
end

--- The positions of the packed rows among [time x batch] rows: (t - 1) * batch + b for step t and sequence b.
--- `present` is [time x batch], the sequences in decreasing order, `order` their positions.
local function rows_of(present, order)
  local at = present:nonzero()
  local b = at:select(2, 2)
  return (at:select(2, 1) - 1) * present:size(2) + (order and order:index_select(1, b) or b)
end

packed.pack_padded_sequence = core.declare('pack_padded_sequence(input: tensor, lengths: tensor|ints, ' ..
  'batch_first: bool = false, enforce_sorted: bool = true)',
  'Packs padded sequences [time x batch x ..], or with batch_first [batch x time x ..], of these lengths; recurrent ' ..
  'layers accept the result. enforce_sorted: the lengths must decrease; without it they are sorted.',
  function(input, lengths, batch_first, enforce_sorted)
    if input:dim() < 2 then core.fail('%s: the input is %s, expected time and batch', op, tostring(input.shape)) end
    if batch_first then input = input:transpose(1, 2) end
    local time, batch = input.shape[1], input.shape[2]
    if batch == 0 then core.fail('%s: the input %s has no sequences', op, tostring(input.shape)) end
    lengths = mt.tensor(length_list(lengths, batch, time), {dtype = 'int64', device = 'cpu'})
    local sorted, order = lengths:sort(1, true)
    if sorted:equal(lengths) then order = nil
    elseif enforce_sorted then
      core.fail('%s: the lengths must fall, or pass {enforce_sorted=false}', op)
    end
    local present = first_columns(sorted, sorted:at(1)):t()
    local data = input:flatten(1, 2):index_select(1, rows_of(present, order):to(input.device))
    return make(data, present:sum(2), order and order:to(input.device), order and order:argsort():to(input.device))
  end)

packed.pad_packed_sequence = core.declare('pad_packed_sequence(sequence: table, batch_first: bool = false, ' ..
  'padding_value: number = 0, total_length: int = nil)',
  'The sequences padded to the longest, or to total_length, [time x batch x ..], and their lengths (an int64 tensor).',
  function(sequence, batch_first, padding_value, total_length)
    if not class.is_packed(sequence) then
      core.fail('pad_packed_sequence: a packed sequence is needed, got %s; see nn.pack_padded_sequence',
        core.describe(sequence))
    end
    local sizes, order, unsorted = sequence.batch_sizes, sequence.sorted_indices, sequence.unsorted_indices
    local longest, batch = #sizes, sizes:at(1)
    local time = total_length or longest
    if time < longest then
      core.fail('pad_packed_sequence: total_length is %d, the longest sequence %d', time, longest)
    end
    local data, shape = sequence.data, sequence.data:size()
    table.remove(shape, 1)
    local present = first_columns(sizes, batch)
    local rows, lengths = rows_of(present, order and order:cpu()), present:sum(1)
    local out = mt.full({time * batch, unpack(shape)}, padding_value, {dtype = data.dtype, device = data.device})
      :index_copy(1, rows:to(data.device), data):reshape(time, batch, unpack(shape))
    return batch_first and out:transpose(1, 2) or out, unsorted and lengths:index_select(1, unsorted:cpu()) or lengths
  end)

packed.pad_sequence = core.declare("pad_sequence([sequences]: tensors, batch_first: bool = false, " ..
  "padding_value: number = 0, padding_side: 'right'|'left' = 'right')",
  'A list of tensors [length x ..] as one [longest x batch x ..], padded with padding_value.',
  function(sequences, batch_first, padding_value, padding_side)
    local max_length = 0
    if #sequences == 0 then core.fail('pad_sequence: the list is empty') end
    for i, x in ipairs(sequences) do
      if x:dim() == 0 then core.fail('pad_sequence: sequence %d has no length, it is one number', i) end
      local first = sequences[1]
      local alike = x:dim() == first:dim() and x.dtype == first.dtype
      for d = 2, x:dim() do alike = alike and x.shape[d] == first.shape[d] end
      if not alike then
        core.fail('pad_sequence: sequence %d is %s, sequence 1 %s; all but their lengths must be alike', i,
          core.describe(x), core.describe(first))
      end
      max_length = math.max(max_length, x.shape[1])
    end
    return (mt.stack(util.map(sequences, function(x)
      local sides, n = {}, 2 * x:dim()
      for i = 1, n do sides[i] = 0 end
      sides[padding_side == 'left' and n - 1 or n] = max_length - x.shape[1]
      return x:pad(sides, 'constant', padding_value)
    end), batch_first and 1 or 2))
  end)

packed.pack_sequence = core.declare('pack_sequence([sequences]: tensors, enforce_sorted: bool = true)',
  'A list of tensors [length x ..] packed: pack_padded_sequence of pad_sequence.',
  function(sequences, enforce_sorted)
    local lengths = util.map(sequences, function(x) return x.shape[1] end)
    return packed.pack_padded_sequence(packed.pad_sequence(sequences), lengths, {enforce_sorted = enforce_sorted})
  end)

return packed
