-- test_recurrent.lua -- recurrent layers, cells and packed sequences: shapes, gradients, options, errors
local t = require 'testing'
local mt = require 'mtorch'
local nn = mt.nn

local function same(a, b) assert(mt.equal(a, b), ('%s\n%s'):format(tostring(a), tostring(b))) end

t.test('results and states', function()
  local lstm = nn.LSTM(3, 4, {num_layers = 2, bidirectional = true})
  local out, h, c = lstm(mt.randn(5, 2, 3))
  t.eq(tostring(out.shape) .. tostring(h.shape) .. tostring(c.shape), '(5, 2, 8)(4, 2, 4)(4, 2, 4)')
  same(out[{-1, {}, {1, 4}}], h[3]) -- the last layer forwards ends at the last step, backwards at the first
  same(out[{1, {}, {5, 8}}], h[4])
  local alone, last = nn.GRU(3, 4, {batch_first = true})(mt.randn(7, 3))
  t.eq(tostring(alone.shape) .. tostring(last.shape), '(7, 4)(1, 4)')
  t.eq(tostring(nn.LSTM(3, 4, {num_layers = 2, dropout = 0.5})),
    'LSTM(3 -> 4, num_layers 2, dropout 0.5)  304 parameters')
end)

t.test('parameters have names, shapes and distributions of PyTorch', function()
  local names = {}
  for name in nn.LSTM(3, 4, {num_layers = 2, bidirectional = true, proj_size = 2}):named_parameters() do
    names[#names + 1] = name
  end
  t.eq(table.concat(names, ' ', 1, 6), 'weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0 weight_hr_l0 ' ..
    'weight_ih_l0_reverse')
  t.eq(#names, 20)
  mt.manual_seed(1)
  local gru = nn.GRU(50, 100)
  t.eq(gru.weight_ih_l0.shape, gru.weight_hh_l0.shape and mt.zeros(300, 50).shape)
  for _, p in ipairs(gru:parameters()) do -- uniform in +-0.1
    local most = p:abs():max():item()
    assert(most <= 0.1 and most > 0.095, most)
    t.near(p:mean():item(), 0, 0.01)
  end
end)

t.test('gradients of the first and second order, packed ones too', function()
  mt.manual_seed(2)
  for _, make in ipairs{
    function() return nn.LSTM(2, 3, {num_layers = 2, bidirectional = true, proj_size = 2}) end,
    function() return nn.GRU(2, 3, {bidirectional = true}) end,
    function() return nn.RNN(2, 3, {nonlinearity = 'relu', bias = false}) end,
  } do
    local net, x = make():double(), mt.randn({4, 3, 2}, {dtype = 'float64', requires_grad = true})
    local function through(packed)
      return function(given)
        local out, h, c = net(packed and nn.pack_padded_sequence(given, {2, 4, 1}, {enforce_sorted = false}) or given)
        local sum = ((packed and out.data or out) ^ 2):sum()
        sum = sum + (h * mt.range(1, h:numel()):double():reshape(h.shape)):sum()
        return c and sum + (c ^ 3):sum() or sum
      end
    end
    for _, packed in ipairs{false, true} do
      t.checks(through(packed), x)
    end
    local weight = net.weight_hh_l0
    t.checks(function() return through(false)(x) end, weight)
  end
end)

t.test('an input that another was computed from is not counted twice', function()
  local x = mt.randn({2, 2, 3}, {dtype = 'float64', requires_grad = true})
  local gru = nn.GRU(3, 3):double()
  assert(mt.gradgradcheck(function(given)
    local a = given:tanh()
    return (gru(a, a[{{1}}]) ^ 2):sum()
  end, {x}))
end)

t.test('cells are steps of the layers', function()
  for _, name in ipairs{'RNN', 'LSTM', 'GRU'} do
    local layer, cell = nn[name](3, 4), nn[name .. 'Cell'](3, 4)
    local state = {}
    for key, value in pairs(layer:state_dict()) do state[key:gsub('_l0$', '')] = value end
    cell:load_state_dict(state)
    local x, h, c = mt.randn(6, 2, 3), nil, nil
    local out, last = layer(x)
    for step = 1, 6 do
      h, c = cell(x[step], h, c)
      assert(mt.allclose(out[step], h, {atol = 1e-6}))
    end
    assert(mt.allclose(last[1], h, {atol = 1e-6}))
    t.eq(tostring(cell(mt.randn(3)).shape), '(4)')
  end
end)

t.test('dropout is between layers, only in training', function()
  mt.manual_seed(3)
  local net, x = nn.RNN(2, 8, {num_layers = 2, dropout = 0.5}), mt.randn(3, 4, 2)
  local first = (net(x))
  assert(not mt.equal(first, (net(x))))
  net:eval()
  same((net(x)), (net(x)))
  mt.manual_seed(4)
  net:train()
  local a = net(x)
  mt.manual_seed(4)
  same(a, (net(x)))
end)

t.test('the same bits with any number of threads', function()
  local net, x = nn.GRU(32, 64, {bidirectional = true}), mt.randn(9, 150, 32)
  t.on_threads(function()
    net:zero_grad()
    local out = net(x)
    out:square():sum():backward()
    return out, net.weight_hh_l0.grad, net.bias_ih_l0_reverse.grad
  end)
end)

t.test('16-bit floats', function()
  local net = nn.LSTM(3, 4):bfloat16()
  local out, _, c = net(mt.randn(5, 2, 3):bfloat16())
  t.eq(out.dtype .. c.dtype, 'bfloat16bfloat16')
  out:float():sum():backward()
  t.eq(net.weight_hh_l0.grad.dtype, 'bfloat16')
end)

t.test('sequences are padded, packed and come back', function()
  local list = {mt.range(1, 6):view(3, 2):float():requires_grad_(), mt.ones(1, 2), mt.zeros(4, 2)}
  local padded = nn.pad_sequence(list, {batch_first = true, padding_value = 9})
  t.eq(padded[1]:tolist(), {{1, 2}, {3, 4}, {5, 6}, {9, 9}})
  t.eq(nn.pad_sequence(list, {padding_side = 'left'})[1]:tolist(), {{0, 0}, {0, 0}, {0, 0}})
  t.raises(function() nn.pack_sequence(list) end, 'must fall, or pass {enforce_sorted=false}')
  local packed = nn.pack_sequence(list, {enforce_sorted = false})
  t.eq(packed.batch_sizes:tolist(), {3, 2, 2, 1})
  t.eq(packed.sorted_indices:tolist(), {3, 1, 2})
  t.eq(packed.unsorted_indices:tolist(), {2, 3, 1})
  local out, lengths = nn.pad_packed_sequence(packed, {batch_first = true, padding_value = 9, total_length = 5})
  t.eq(lengths:tolist(), {3, 1, 4})
  same(out[{{}, {1, 4}}], padded)
  out:sum():backward()
  t.eq(list[1].grad:tolist(), {{1, 1}, {1, 1}, {1, 1}})
  t.eq(packed:to('float64').data.dtype, 'float64')
end)

t.test('packed results equal those of each single sequence', function()
  local net = nn.GRU(2, 3, {num_layers = 2, bidirectional = true})
  local list = {mt.randn(3, 2), mt.randn(5, 2), mt.randn(1, 2)}
  local first = mt.randn(4, 3, 3)
  local out, h = net(nn.pack_sequence(list, {enforce_sorted = false}), first)
  local padded = nn.pad_packed_sequence(out)
  for i, x in ipairs(list) do
    local one, alone, last = padded[{{1, #x}, i}], net(x, first[{{}, i}])
    assert(mt.allclose(one, alone, {atol = 1e-6}))
    assert(mt.allclose(h[{{}, i}], last, {atol = 1e-6}))
  end
end)

t.test('what does not fit is one sentence', function()
  local net = nn.LSTM(3, 4, {num_layers = 2})
  t.raises(function() net(mt.randn(5, 2, 4)) end, 'LSTM: the input is %(5, 2, 4%), expected %(time x batch x 3%)')
  t.raises(function() net(mt.randn(5, 2, 3), mt.zeros(1, 2, 4)) end, 'LSTM: h is %(1, 2, 4%), expected %(2 x 2 x 4%)')
  t.raises(function() net(mt.randn(5, 2, 3), nil, mt.zeros(2, 2, 5)) end, 'c is %(2, 2, 5%)')
  t.raises(function() net() end, 'LSTM')
  t.raises(function() nn.GRU(3, 4)(mt.randn(5, 2, 3), nil, mt.zeros(1)) end, 'too many arguments')
  t.raises(function() net(mt.randn(0, 2, 3)) end, 'no steps')
  t.raises(function() net({1, 2}) end, 'must be a tensor or a packed sequence, got a table')
  t.raises(function() net(mt.ones({5, 2, 3}, {dtype = 'int64'})) end, 'float')
  t.raises(function() nn.LSTM(3, 4, {proj_size = 4}) end, 'proj_size is 4, it must be smaller than hidden_size, 4')
  t.raises(function() nn.RNN(3, 4, {nonlinearity = 'sigmoid'}) end, "'tanh'")
  t.raises(function() nn.RNN(3, 4, {dropout = 2}) end, 'dropout must be a number from 0 to 1, got 2')
  t.raises(function() nn.pack_padded_sequence(mt.randn(4, 2, 3), {4, 5}) end, 'length 2 is 5, expected a whole number')
  t.raises(function() nn.pack_padded_sequence(mt.randn(4, 2, 3), {4}) end, '1 lengths for 2 sequences')
  t.raises(function() nn.pad_packed_sequence({}) end, 'a packed sequence is needed')
  local x, w, u = mt.randn(6, 2), mt.randn(4, 2), mt.randn(4, 1)
  local function layer(...) return mt.recurrent_layer(x, w, u, nil, nil, nil, nil, nil, ...) end
  t.raises(function() layer('lstm', false, {2, 3, 1}) end, 'batch size 2 is 3; they are at least 1 and never increase')
  t.raises(function() layer('lstm', false, {3, 2}) end, 'do not add up to the 6 rows')
  t.raises(function() layer('lstm', false, {2^53, 2^53}) end, 'do not add up')
  t.raises(function() layer('gru', false, {3, 3}) end, 'weight_ih is %(4 x 2%); expected %(3 gates')
  t.raises(function() layer('lstm') end, 'time x batch x features')
  t.raises(function()
    mt.recurrent_layer(x, w, u, mt.zeros(4), nil, nil, nil, nil, 'lstm', false, {6})
  end, 'both biases')
end)

t.finish()
