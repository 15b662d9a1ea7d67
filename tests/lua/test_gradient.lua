-- test_gradient.lua -- mt.grad, hooks, functions with their own gradient, Jacobians, recompute, debugging
local mt = require 'mtorch'
local core = require 'mtorch.core'
local t = require 'testing'
local test, eq, near, raises = t.test, t.eq, t.near, t.raises

local function leaf(list) return mt.tensor(list, {dtype = 'float64'}):requires_grad_() end
local function is(x, values)
  assert(mt.is_tensor(x), 'not a tensor')
  near(x:tolist(), values, 1e-12)
end

test('the gradients of pow do not overflow before a factor of 0', function()
  for _, row in ipairs{{0.5, 1e10, 1e300, 0, 0}, {1, 1e200, 1e200, 1 / 0, 0}, {0, 3, 1.7e308, 0, 0}} do
    for _, n in ipairs{1, 33} do
      for _, y in ipairs{leaf{row[2]}:expand(n), leaf{row[2]}:expand(n):contiguous()} do
        local x = leaf{row[1]}:expand(n):contiguous()
        local g = mt.grad(x:pow(y), {x, y}, mt.full({n}, row[3], {dtype = 'float64'}))
        eq({g[1]:tolist()[n], g[2]:tolist()[n]}, {row[4], row[5]})
      end
    end
  end
end)

-- mt.grad -----------------------------------------------------------------------------------------

test('grad: one for one, a list for a list, no .grad', function()
  local w, v = leaf{1, 2, 3}, leaf{4, 5, 6}
  is(mt.grad((w * v):sum(), w), {4, 5, 6})
  local g = mt.grad((w * v):sum(), {v, w})
  is(g[1], {1, 2, 3})
  is(g[2], {4, 5, 6})
  eq(w.grad, nil)
  eq(v.grad, nil)
end)

test('grad: by computed tensors, by the same twice, of several outputs', function()
  local w = leaf{1, 2}
  local y = w * 2
  local g = mt.grad((y * y):sum(), {y, w, y})
  is(g[1], {4, 8})
  is(g[2], {8, 16})
  is(g[3], {4, 8})
  is(mt.grad({(w * 3):sum(), w * w}, w, {grad_outputs = {mt.tensor(1), mt.tensor{10, 100}}}), {23, 403})
  is(mt.grad(w * w, w, mt.tensor{1, 2}), {2, 8})
end)

test('grad: the graph is used up unless it is kept', function()
  local w = leaf{1, 2}
  local y = (w * w):sum()
  mt.grad(y, w, {retain_graph = true})
  is(mt.grad(y, w), {2, 4})
  raises(function() mt.grad(y, w) end,
    'freed by an earlier backward; pass {retain_graph=true} to the first, or detach what one step hands to the next')
end)

test('grad: only needed nodes are visited', function()
  local w, v = leaf{1, 2}, leaf{3, 4}
  local a, b = w * 2, v:exp()
  local y = (a * b):sum()
  mt.grad(y, a)       -- neither w's nor v's part is used up
  is(mt.grad(b:sum(), v), v:exp():tolist())
  is(mt.grad(a:sum(), w), {2, 2})
end)

test('grad: operations compute no gradients of inputs that lead to no target', function()
  local function products(fn)
    local n = 0
    for _, v in ipairs((require('mtorch.core').verbs_call(fn))) do n = n + (v.text:find ' matmul ' and 1 or 0) end
    return n
  end
  local x, w, v = mt.randn(4, 5):requires_grad_(), mt.randn(5, 6):requires_grad_(), mt.randn(6, 2):requires_grad_()
  local y = x:matmul(w):tanh():matmul(v):sum()
  local all, one, frozen
  eq(products(function() all = mt.grad(y, {x, w, v}, {retain_graph = true}) end), 4)
  eq(products(function() one = mt.grad(y, {x}, {retain_graph = true}) end), 2)
  eq(products(function() frozen = mt.grad(y, {w}, {create_graph = true}) end), 2)
  eq({one[1]:equal(all[1]), frozen[1]:equal(all[2])}, {true, true})
  -- Nothing of it remains: another pass, also one through the gradient, computes all.
  local both = y + frozen[1]:sum()
  both:backward()
  eq({x.grad ~= nil, w.grad ~= nil, v.grad ~= nil}, {true, true, true})
end)

test('grad: gradients of gradients', function()
  local w = leaf{1, 2, 3}
  local g = mt.grad((w ^ 4):sum(), w, {create_graph = true})
  is(g, {4, 32, 108})
  local h = mt.grad(g:sum(), w, {create_graph = true})
  is(h, {12, 48, 108})
  is(mt.grad(h:sum(), w), {24, 48, 72})
end)

test('grad: what took no part is an error, or false', function()
  local w, v = leaf{1}, leaf{2}
  raises(function() mt.grad((w * 2):sum(), {w, v}) end, 'test_gradient.lua:%d+: grad: no output depends on input 2')
  local g = mt.grad((w * 2):sum(), {w, v}, {allow_unused = true})
  is(g[1], {2})
  eq(g[2], false)
  eq(mt.grad((w * 2):sum(), v, {allow_unused = true}), false)
  raises(function() mt.grad((w * 2):sum(), mt.ones(1)) end, 'input 1 does not require a gradient')
  raises(function() mt.grad(w * leaf{1, 2}, w) end, 'without a gradient it must have one element')
  raises(function() mt.grad(mt.ones(1), w) end, 'does not depend on any')
  raises(function() mt.grad({w:sum(), w:sum()}, w, {grad_outputs = {mt.tensor(1)}}) end,
    '2 outputs, but 1 grad_outputs')
end)

-- Hooks, retain_grad ------------------------------------------------------------------------------

test('a hook gets the gradient of a leaf, and may replace it', function()
  local w, seen = leaf{1, 2}, {}
  local handle = w:register_hook(function(g) seen[#seen + 1] = g:tolist() end)
  local second = w:register_hook(function(g) return g * 10 end);
  (w * w + w):sum():backward()
  eq(seen, {{3, 5}}) -- once, with the whole gradient
  is(w.grad, {30, 50})
  second:remove()
  second:remove()
  is(mt.grad((w * 2):sum(), w), {2, 2})
  eq(#seen, 2)
  handle:remove()
  w:sum():backward()
  eq(#seen, 2)
end)

test('a hook on a computed tensor', function()
  local w = leaf{1, 2}
  local y = w * 3
  y:register_hook(function(g) return g + 1 end);
  (y * y):sum():backward()
  is(w.grad, {21, 39})
end)

test('a hook that fails or answers nonsense changes nothing', function()
  local w, v = leaf{1, 2}, leaf{3, 4}
  local h = w:register_hook(function() error('mine', 0) end)
  local ok, message = pcall(function() (w * v):sum():backward() end)
  eq({ok, message}, {false, 'mine'})
  eq(w.grad, nil)
  eq(v.grad, nil)
  h:remove()
  h = w:register_hook(function() return mt.ones(3) end)
  raises(function() (w * v):sum():backward() end, 'hook: the returned gradient is %(3%)')
  h:remove()
  h = w:register_hook(function() return 7 end)
  raises(function() (w * v):sum():backward() end, 'hook: it must return a gradient or nothing, it returned 7')
  h:remove();
  (w * v):sum():backward()
  is(w.grad, {3, 4})
  raises(function() mt.ones(1):register_hook(print) end, 'does not require a gradient')
  raises(function() w:register_hook(3) end, 'must be a function')
end)

test('retain_grad keeps the gradient of a computed tensor', function()
  local w = leaf{1, 2}
  local y = (w * 2):retain_grad()
  local z = y * y
  z:sum():backward()
  is(y.grad, {4, 8})
  is(w.grad, {8, 16})
  eq(z.grad, nil)
  y.grad = nil
  eq(y.grad, nil)
  raises(function() mt.ones(1):retain_grad() end, 'does not require a gradient')
end)

test('retain_grad follows a tensor through changes in place, as in PyTorch', function()
  local w = leaf{1, 2}
  local function after(change) -- y * y, unless the change says otherwise
    local y = w * 2
    local of, loss = change(y)
    ;(loss or y * y):sum():backward()
    return of.grad and of.grad:tolist()
  end
  eq(after(function(y) y:retain_grad():mul_(3) return y end), {12, 24})
  eq(after(function(y) y:retain_grad()[1] = 5 return y end), {10, 8})
  eq(after(function(y) y:retain_grad()[{{1, 1}}]:mul_(3) return y end), {12, 8})
  eq(after(function(y) y:retain_grad():mul_(3):add_(1) return y end), {14, 26})
  eq(after(function(y)
    local v = y[{{1, 1}}]:retain_grad()
    v:mul_(3)
    return v, v * v
  end), {12})
  eq(after(function(y)
    local v = y[{{1, 1}}]:retain_grad()
    y:mul_(3)
    return v, v * v
  end), {12})
  eq(after(function(y) -- changed, then not used
    local v = y[{{1, 1}}]:retain_grad()
    v:mul_(3)
    return v
  end), nil)
  local y, seen = (w * 2):retain_grad(), nil -- the old gradient is kept until the next backward
  y:sum():backward()
  y:mul_(3)
  is(y.grad, {1, 1})
  y = w * 2
  y:register_hook(function(g) seen = g:tolist() end) -- a hook stays with the old values
  y:mul_(3)
  y:sum():backward()
  eq(seen, {3, 3})
end)

local function settled() -- the bytes of tensors after full garbage collections
  jit.flush() -- compiled code keeps the closures that it was recorded with alive
  for _ = 1, 5 do collectgarbage() end
  return (core.memory())
end

test('a hook on a computed tensor that holds it is garbage with it, also without a backward', function()
  local w = mt.zeros(1000):requires_grad_()
  local before = settled()
  local function circle(use)
    local y = w * 2
    y:register_hook(function(g) return g + y:detach() end)
    if use then use(y) end
  end
  circle()
  eq(settled(), before)
  circle(function(y) return y:sum() * 2 end)
  eq(settled(), before)
  circle(function(y)
    settled() -- seen alone, then used
    return y:sum()
  end)
  eq(settled(), before)
  for _ = 1, 50 do
    local y = w * 2
    y:register_hook(function(g) return g + y end):remove()
  end
  eq(settled(), before)
  local removed = setmetatable({}, {__mode = 'v'})
  removed[1] = function() end
  w:register_hook(removed[1]):remove()
  settled()
  eq(removed[1], nil)
end)

test('many functions kept in one graph cost no more each', function()
  local function seconds(n)
    settled() -- otherwise only some runs include a collector cycle
    local x, began = leaf{1, 2}, os.clock()
    for _ = 1, n do x = mt.recompute(function(z) return z * 1.0001 end, x) end
    x:sum():backward()
    return os.clock() - began
  end
  seconds(100)
  local few, many = seconds(500), seconds(2500)
  if many > 20 * few + 0.1 then error(('500: %.3f s, 2500: %.3f s'):format(few, many)) end
end)

test('circles through hooks, recompute and gradients are garbage', function()
  local w = mt.zeros(1000):requires_grad_()
  local before = settled()
  local function circles(make)
    for _ = 1, 20 do make() end
    eq(settled(), before)
  end
  circles(function() -- a hook that holds a later result
    local y = w * 2
    local z = y:exp()
    y:register_hook(function(g) return z:detach() * g end)
  end)
  circles(function() -- deep in tables, two hooks, a result of a result, a view
    local y = w * 2
    local kept = {list = {y:exp()}}
    kept.list[2] = kept.list[1]:view(10, 100)
    y:register_hook(function(g) return kept.list[2]:detach():view(1000) * g end)
    kept.list[1]:register_hook(function(g) return g + kept.list[2]:sum():detach() end)
  end)
  circles(function()
    local y
    y = mt.recompute(function(x) return y and x:exp() or x:exp() end, w)
  end)
  circles(function() -- each of three functions keeps the last result, and through it the other functions
    local y = w
    for _ = 1, 3 do y = mt.recompute(function(x) return y and x:exp() or x:exp() end, y) end
  end)
  circles(function()
    local y, z = w, nil
    for _ = 1, 3 do
      local double = mt.Function{forward = function(_, x) return x * 2, x * 3 end,
        backward = function(_, g) return y and g * 2 end}
      y, z = double(y)
    end
    y = y + z
  end)
  circles(function()
    local a, b = mt.zeros(1000), mt.zeros(1000)
    a.grad, b.grad = b, a
  end)
  circles(function()
    local v = mt.ones(1000):requires_grad_()
    v:exp():sum():backward{create_graph = true}
    local u = v:sin()
    u:retain_grad()
    u:exp():sum():backward{create_graph = true}
  end)
end)

test('what a circle leads to lives as long as something else leads to it', function()
  local w, calls = leaf{1, 2}, 0
  local function made(use)
    local y = w * 2
    local z = y:exp()
    y:register_hook(function(g) calls = calls + 1 return z:detach() * 0 + g end)
    settled()
    return use(y, z)
  end
  for _, use in ipairs{
    function(_, z) return z end, function(y) return y end,
    function(_, z) settled() return z * 2 end, function(_, z) settled() return (z[1]) end,
    function(_, z) return {z:view(2, 1)} end, function(_, z) return function() return z end end,
    function(_, z) local x = mt.zeros_like(z):detach() settled() x.grad = z return x end,
  } do
    local kept = made(use)
    settled()
    settled()
    kept = type(kept) == 'table' and kept[1] or type(kept) == 'function' and kept() or kept
    kept = kept.is_leaf and kept.grad or kept
    calls = 0
    mt.grad(kept:sum(), w)
    eq(calls, 1)
  end
  -- A function of which only the other result is referenced.
  local function second_of()
    local y, z
    local double = mt.Function{forward = function(_, x) return x * 2, x * 3 end,
      backward = function(_, g, h) return y and z and g * 2 + h * 3 end}
    y, z = double(w)
    return z
  end
  local z = second_of()
  settled()
  settled()
  is(mt.grad(z:sum(), w), {3, 3})
  -- A gradient with a graph, referenced only through its tensor.
  local v = leaf{1, 2}
  v:exp():sum():backward{create_graph = true}
  settled()
  is(mt.grad(v.grad:sum(), v), {math.exp(1), math.exp(2)}, 1e-5)
  local a, b = mt.zeros(2), mt.ones(2)
  a.grad, b.grad = b, a
  b = nil
  settled()
  is(a.grad, {1, 1})
  eq(a.grad.grad:tolist(), {0, 0})
end)

test('a hook is called while anything leads to its tensor, whatever the collector saw', function()
  local w, calls = leaf{1, 2}, 0
  local function count() calls = calls + 1 end
  local function hooked(early, use)
    local y = w * 2
    if early == 'before' then y:register_hook(function(g) count() return g + y:detach() end) end
    if early == 'alone' then
      y:register_hook(function(g) count() return g + y:detach() end)
      settled()
    end
    local z = use(y)
    if early == 'after' then y:register_hook(function(g) count() return g + y:detach() end) end
    return z
  end
  local uses = {
    function(y) return y:sum() end,
    function(y) return (y * 1)[1] + y[2] end,
    function(y) return y:contiguous() end,
    function(y) return y[{}] end,
    function(y) return {y} end,
  }
  for _, early in ipairs{'before', 'alone', 'after'} do
    for k, use in ipairs(uses) do
      local z = hooked(early, use)
      settled()
      calls = 0
      is(mt.grad(mt.is_tensor(z) and z:sum() or z[1]:sum(), w), {2 * (1 + 2), 2 * (1 + 4)})
      eq({early, k, calls}, {early, k, 1})
    end
  end
end)

test('the hook of a leaf is called while a graph leads to the leaf, without its handle in Lua', function()
  local calls = 0
  local function loss_of(captures, settle)
    local w = leaf{1, 2}
    if settle then settled() end
    local first = captures == 'first' and (w * 3):sum() or nil
    w:register_hook(function(g)
      calls = calls + 1
      return captures == 'own' and g * w:detach() or nil
    end)
    if settle then settled() end
    return first or (w * 3):sum()
  end
  for _, captures in ipairs{'own', 'nothing', 'first'} do
    for _, settle in ipairs{false, true} do
      local loss = loss_of(captures, settle)
      settled()
      calls = 0
      loss:backward()
      eq(calls, 1)
    end
  end
end)

test('what a hook captures does not live for ever', function()
  local function live()
    collectgarbage()
    collectgarbage()
    return (core.memory())
  end
  local before = live()
  local function circles()
    local w = mt.zeros(1000):requires_grad_()
    w:register_hook(function(g) return g + w end) -- a circle through the leaf
    local y = w * 2
    y:register_hook(function(g) return g + y:detach() end) -- one through the graph, ended by backward
    y:sum():backward()
    eq(w.grad:numel(), 1000)
    local v = mt.zeros(1000):requires_grad_()
    local z = v * 2
    v:register_hook(function(g) return g + z:detach() end) -- one through the graph, without backward
  end
  circles()
  eq(live(), before)
end)

-- mt.Function --------------------------------------------------------------------------------------

local Exp = mt.Function{
  forward = function(ctx, x)
    local y = x:exp()
    ctx:save_for_backward(y)
    return y
  end,
  backward = function(ctx, g) return g * ctx:saved_tensors() end,
}

local Pair = mt.Function{
  name = 'Pair',
  forward = function(ctx, x, n, y)
    ctx:save_for_backward(x, y)
    ctx.n = n
    return x * y * n, 'kept', x:sin()
  end,
  backward = function(ctx, g, _, h)
    local x, y = ctx:saved_tensors()
    h = h or _
    return g * y * ctx.n + h * x:cos(), nil, g * x * ctx.n
  end,
}

test('Function: gradients of both orders, saved results and inputs', function()
  local x, y = leaf{0.3, -0.7, 1.1}, leaf{0.5, 1.5, -0.2}
  is(Exp(x), x:exp():tolist())
  mt.gradcheck(function(a) return (Exp(a)) end, {x})
  mt.gradgradcheck(function(a) return (Exp(a)) end, {x})
  local both = function(a, b)
    local p, word, q = Pair(a, 3, b)
    eq(word, 'kept')
    return p * q
  end
  mt.gradcheck(both, {x, y})
  local one = mt.tensor({1}, {dtype = 'float64', requires_grad = true})
  raises(function() mt.gradcheck(function(v) return v * 2 end, {one:expand(3)}) end, 'elements of input 1 share memory')
  mt.gradgradcheck(both, {x, y})
  local third = mt.grad(mt.grad(mt.grad(Exp(x):sum(), x, {create_graph = true}):sum(), x,
    {create_graph = true}):sum(), x)
  is(third, x:exp():tolist())
end)

test('Function: a saved result without references is part of second gradients', function()
  local Both = mt.Function{
    forward = function(ctx, x)
      local y = x:exp()
      ctx:save_for_backward(y)
      return x * x, y
    end,
    backward = function(ctx, g, h)
      local y = ctx:saved_tensors()
      return g * y + h * y -- not the square's gradient, but one with a simple gradient
    end,
  }
  local x = leaf{0.5, 2}
  local first = Both(x)
  collectgarbage()
  collectgarbage()
  local g = mt.grad(first:sum(), x, {create_graph = true})
  is(g, x:exp():tolist())
  is(mt.grad(g:sum(), x), x:exp():tolist())
end)

test('Function: results that share memory are tensors of their own', function()
  local Thrice = mt.Function{
    forward = function(_, a)
      local r = a * 2
      return r, r, r:view(-1)
    end,
    backward = function(_, g, h, i) return (g + h + i) * 2 end,
  }
  local a = leaf{1, 2}
  local p, q, s = Thrice(a)
  p:mul_(10)
  is(q, {2, 4})
  is(mt.grad((p + q + s):sum(), a), {24, 24}) -- 20 + 2 + 2
end)

test('Function: a result without a gradient, no recording, gradients that are not needed', function()
  local Split = mt.Function{
    forward = function(ctx, x)
      local positive = x:relu()
      local rest = x - positive
      ctx:mark_non_differentiable(rest)
      eq(ctx.needs_input_grad, {true})
      return positive, rest, x:gt(0)
    end,
    backward = function(_, g) return g * 5 end,
  }
  local x = leaf{1, -2}
  local a, b, c = Split(x)
  eq({a.requires_grad, b.requires_grad, c.requires_grad}, {true, false, false});
  (a * 2):sum():backward()
  is(x.grad, {10, 10})
  local off = mt.no_grad(Exp, x)
  eq(off.requires_grad, false)
  eq(Exp(mt.ones(2)).requires_grad, false)
end)

test('Function: errors name the function and the line', function()
  local x, y = leaf{1, 2}, leaf{3, 4}
  local function with(backward)
    local F = mt.Function{name = 'F', forward = function(_, a, n, b) return a * b * n end, backward = backward}
    return function() F(x, 2, y):sum():backward() end
  end
  raises(with(function() return mt.ones(3), nil, nil end),
    'F: backward returned a gradient %(3%) for argument 1, which is %(2%)')
  raises(with(function(_, g) return g, g, g end), 'F: .* returned a gradient for argument 2, which is not a tensor')
  raises(with(function(_, g) return g, nil, g, g end),
    'F: backward returned 4 gradients, the function was called with 3 arguments')
  raises(with(function() end), 'F: backward returned 0 gradients, the function was called with 3 arguments; return')
  raises(with(function(_, g) return g end), 'F: backward returned 1 gradients')
  raises(with(function(_, g) return g, nil end), 'F: backward returned 2 gradients')
  raises(with(function() return 'x', nil, nil end), "F: backward returned the string 'x' for argument 1")
  raises(with(function(_, g) return g:long(), nil, nil end), 'a gradient of int64 for argument 1')
  raises(with(function() error('inside', 0) end), '^inside$')
  eq(x.grad, nil)
  eq(y.grad, nil)
  with(function() return nil, nil, nil end)()
  eq({x.grad, y.grad}, {})
  with(function(_, g) return false, nil, g end)()
  eq(x.grad, nil)
  is(y.grad, {1, 1})
  with(function(_, g) return g, false, nil, nil, false end)() -- as for arguments that were left out
  is(x.grad, {1, 1})
  raises(function() mt.Function{forward = print} end, "'backward' is missing")
  raises(function() mt.Function{forward = print, backward = 3} end, 'must be a function')
  raises(function() Exp() end, 'nil')
  raises(function() mt.Function{name = 'None', forward = function() end, backward = print}(x) end,
    'None: forward returned no tensor')
  local Saves = mt.Function{forward = function(ctx, a) ctx:save_for_backward(7) return a end, backward = print}
  raises(function() Saves(x) end, 'save_for_backward: argument 1 must be a tensor, got 7')
  local Dotted = mt.Function{forward = function(ctx, a) ctx.save_for_backward(a) return a end, backward = print}
  raises(function() Dotted(x) end, 'save_for_backward: methods are called with a colon, ctx:save_for_backward%(..%)')
end)

test('Function: nil among the saved tensors, as an omitted bias', function()
  local Linear = mt.Function{
    forward = function(ctx, x, w, bias, scale)
      ctx:save_for_backward(x, bias, w, scale)
      return bias and x:matmul(w:t()) * (scale or 1) + bias or x:matmul(w:t()) * (scale or 1)
    end,
    backward = function(ctx, g)
      local x, bias, w, scale = ctx:saved_tensors()
      eq(select('#', ctx:saved_tensors()), 4)
      eq(scale, nil)
      return g:matmul(w), g:t():matmul(x), bias and g:sum(1), nil
    end,
  }
  local x, w, bias = leaf{{1, 2}}, leaf{{3, 4}, {5, 6}}, leaf{7, 8}
  for _, given in ipairs{{x, w}, {x, w, bias}} do
    mt.gradgradcheck(function(a, b) return (Linear(a, b, given[3], nil)) end, {x, w})
    Linear(x, w, given[3], nil):sum():backward()
  end
  is(x.grad, {{16, 20}})
  is(bias.grad, {1, 1})
end)

test('Function: a saved tensor that was changed is refused, a graph is used once', function()
  local x = leaf{1, 2}
  local y = Exp(x)
  y:add_(1)
  raises(function() y:sum():backward() end, 'saved tensor %(2%) was changed in place')
  local z = Exp(x)
  z:sum():backward()
  raises(function() z:sum():backward() end, 'freed by an earlier')
  eq(x.grad ~= nil, true)
end)

test('a walk inside a walk, through the same leaf', function()
  local w = leaf{1, 2}
  local Inner = mt.Function{
    name = 'Inner',
    forward = function(_, x) return x * 1 end,
    backward = function(_, g)
      mt.enable_grad(function() is(mt.grad((w * w * 3):sum(), w), {6, 12}) end)
      return g * 2
    end,
  }
  local y = Inner(w:exp()) -- visited after w's own part has been added
  ;(y + w * 5):sum():backward()
  near(w.grad:tolist(), {2 * math.exp(1) + 5, 2 * math.exp(2) + 5}, 1e-12)
  w.grad = nil
  local v = w * 2
  v:register_hook(function()
    mt.enable_grad(function() is(mt.grad((w * 3):sum(), w), {3, 3}) end)
  end)
  v:sum():backward()
  is(w.grad, {2, 2})
end)

test('a walk inside a walk, through the same function', function()
  local x, y = leaf{1, 2}, leaf{3, 4}
  local expected = mt.grad(((Pair(x, 3, y)) * 2 + select(3, Pair(x, 3, y)) * 5):sum(), {x, y})
  for _, through in ipairs{1, 2} do -- the hook sits on the result that is visited last
    local p, _, q = Pair(x, 3, y)
    local inner
    p:register_hook(function(g)
      if inner then return end -- the inner backward also calls this
      inner = true
      inner = mt.enable_grad(function()
        return mt.grad(through == 1 and (p * 7):sum() or (q * 7):sum(), x, {retain_graph = true}):tolist()
      end)
      return g
    end)
    local got = mt.grad((p * 2 + q * 5):sum(), {x, y}, {retain_graph = true})
    is(got[1], expected[1]:tolist())
    is(got[2], expected[2]:tolist())
    near(inner, through == 1 and {63, 84} or {7 * math.cos(1), 7 * math.cos(2)}, 1e-12)
  end
  local p, _, q = Pair(x, 3, y) -- a backward that fails between the results must not affect the next one
  local handle = p:register_hook(function() error('mine', 0) end)
  raises(function() mt.grad((p + q):sum(), x) end, '^mine$')
  handle:remove()
  p, _, q = Pair(x, 3, y)
  handle = p:register_hook(function() error('mine', 0) end)
  raises(function() mt.grad((p + q):sum(), x, {retain_graph = true}) end, '^mine$')
  handle:remove()
  is(mt.grad((p * 2):sum(), x), {18, 24})
end)

test('a hook that calls itself is refused', function()
  local w = leaf{1, 2}
  w:register_hook(function() mt.enable_grad(function() mt.grad((w * 3):sum(), w) end) end)
  raises(function() w:sum():backward() end, 'more than 20 nested backward passes')
  eq(w.grad, nil)
  is(mt.grad((leaf{1} * 3):sum() + (w * 0):sum(), {w * 1}, {allow_unused = true})[1] or w, {1, 2})
end)

test('gradcheck: a gradient that differs the second time is refused', function()
  local x, calls = leaf{1, 2}, 0
  local Drifts = mt.Function{
    forward = function(_, a) return a * 1 end,
    backward = function(_, g)
      calls = calls + 1
      return g * (1 + calls * 1e-9)
    end,
  }
  local function f(a) return (Drifts(a)) end
  raises(function() mt.gradcheck(f, x) end,
    'gradcheck: input 1, element 1, output 1: the gradient is 1.000000001, and 1.000000002 when it is computed again')
  eq(mt.gradcheck(f, x, {nondet_tol = 1e-6}), true)
  raises(function() mt.gradcheck(f, x, {nondet_tol = -1}) end, 'nondet_tol %-1; they must be 0 or more')
end)

test('gradcheck: all results count; gradgradcheck: so does the gradient of the result', function()
  local x = mt.rand(3, {dtype = 'float64', requires_grad = true})
  local wrong = mt.Function{name = 'wrong', forward = function(_, a) return a * 1 end,
    backward = function(_, g) return g * 2 end}
  raises(function() mt.gradcheck(function(a) return a * 2, wrong(a) end, {x}) end, 'finite differences give 1')
  mt.gradcheck(function(a) return a:max(1) end, {x})
  raises(function() mt.gradcheck(function(a) return a * a, a:float() end, {x}) end, 'result 2 of the function is')
  local cut = mt.Function{name = 'cut', forward = function(_, a) return a * 2 end,
    backward = function(_, g) return g:detach() * 2 end}
  mt.gradcheck(cut, {x})
  raises(function() mt.gradgradcheck(cut, {x}) end, 'the gradient changes with the gradient of the result')
  local softmax = mt.Function{name = 'softmax', forward = function(ctx, a)
    local y = a:softmax(1)
    ctx:save_for_backward(y)
    return y
  end, backward = function(ctx, g)
    local y = ctx:saved_tensors():detach()
    return y * (g - (g * y):sum())
  end}
  mt.gradcheck(softmax, {x})
  raises(function() mt.gradgradcheck(softmax, {x}) end, 'finite differences')
end)

test('backward: a leaf that was frozen after its forward gets no gradient', function()
  local x, w = mt.ones(2):requires_grad_(), mt.ones(2):requires_grad_()
  local called = false
  w:register_hook(function() called = true end)
  local loss = (x * w):sum()
  w:requires_grad_(false)
  loss:backward()
  eq({w.grad == nil, called, x.grad:tolist()}, {true, false, {1, 1}})
  w:requires_grad_(true);
  (x * w):sum():backward()
  eq(w.grad:tolist(), {1, 1})
end)

test('gradcheck: no .grad changes, neither of inputs nor of what the function captures', function()
  local x, w = leaf{1, 2}, leaf{3, 4}
  x.grad = mt.tensor({5, 6}, 'float64')
  mt.gradcheck(function(a) return a * a * w end, x)
  mt.gradgradcheck(function(a) return a * a * w end, x)
  is(x.grad, {5, 6})
  eq(w.grad, nil)
  mt.gradcheck(function(a) return a * a end, x * 2) -- an input that was computed
end)

-- Jacobians ------------------------------------------------------------------------------------------

test('jacobian, hessian, vjp, jvp as torch.autograd.functional', function()
  local x, y = mt.tensor({1, 2}, {dtype = 'float64'}), mt.tensor({3, 4, 5}, {dtype = 'float64'})
  is(mt.jacobian(function(a) return a * a end, x), {{2, 0}, {0, 4}})
  local J = mt.jacobian(function(a, b) return a:outer(b), a:sum() end, {x, y})
  eq(#J[1][1].shape, 3)
  is(J[1][2], {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, {{2, 0, 0}, {0, 2, 0}, {0, 0, 2}}})
  is(J[2][1], {1, 1})
  is(J[2][2], {0, 0, 0})
  is(mt.hessian(function(a) return (a ^ 3):sum() end, x), {{6, 0}, {0, 12}})
  local H = mt.hessian(function(a, b) return a:sum() * b:square():sum() end, {x, y})
  is(H[1][1], {{0, 0}, {0, 0}})
  is(H[1][2], {{6, 8, 10}, {6, 8, 10}})
  is(H[2][2], {{6, 0, 0}, {0, 6, 0}, {0, 0, 6}})
  local value, g = mt.vjp(function(a) return a * a end, x, mt.tensor({1, 10}, {dtype = 'float64'}))
  is(value, {1, 4})
  is(g, {2, 40})
  local moved, by = mt.jvp(function(a) return a * a:sum() end, x, mt.tensor({1, 10}, {dtype = 'float64'}))
  is(moved, {3, 6})
  is(by, {14, 52})
  -- Results that do not depend on the inputs.
  local function constant() return mt.tensor{7, 8} end
  is(select(2, mt.vjp(constant, x, mt.ones(2))), {0, 0})
  is(select(2, mt.jvp(constant, x, x)), {0, 0})
  is(select(2, mt.vjp(function(a) return a:argmax() end, x, mt.tensor(1))), {0, 0})
  local _, parts = mt.jvp(function(a) return constant(), a * 2 end, x, x)
  is(parts[1], {0, 0})
  is(parts[2], {2, 4})
  local rows = mt.jacobian(function() return mt.tensor{true, false}, constant() end, x)
  for k = 1, 2 do eq({rows[k].dtype, rows[k]:tolist()}, {'float64', {{0, 0}, {0, 0}}}) end
  raises(function() mt.hessian(function(a) return a end, x) end, 'must return one number, it returned a tensor %(2%)')
  raises(function() mt.hessian(function(a) return a:sum(), a:sum() end, x) end, 'one number, it returned 2 tensors')
  raises(function() mt.jacobian(function() return 7 end, x) end, 'must return tensors, it returned 7')
  for _, name in ipairs{'jacobian', 'hessian', 'vjp', 'jvp'} do
    raises(function() mt[name](function(a) return a end, mt.ones(2, 'int64'), mt.ones(2)) end,
      name .. ': input 1 must be a float tensor, got a tensor %(2%) int64')
  end
  raises(function() mt.jvp(function(a) return a:argmax() end, x, x) end,
    'jvp: the function must return float tensors, it returned a tensor %(%) int64')
  raises(function() mt.jvp(function(a) return a end, x, mt.ones(3)) end, 'vector 1 must have the shape %(2%)')
  for _, name in ipairs{'jacobian', 'hessian', 'vjp', 'jvp'} do -- a list does not end at a hole
    raises(function() mt[name](function(a) return a:sum() end, {x, nil, y}) end,
      name .. ': input 2 must be a float tensor, got nil')
  end
  raises(function() mt.jvp(function(a) return a end, {x, y, x}, {x, nil, x}) end,
    'vector 2 must have the shape %(3%), got nil')
end)

-- recompute ------------------------------------------------------------------------------------------

test('recompute: the same gradients, of every order and of captured parameters', function()
  local x, w = leaf{0.3, -0.7, 1.1}, leaf{0.5, 1.5, -0.2}
  local runs = 0
  local function f(a)
    runs = runs + 1
    return ((a * w):sin() * a:exp()):tanh()
  end
  local expected = mt.grad(f(x):sum(), {x, w})
  runs = 0
  local y = mt.recompute(f, x)
  eq(runs, 1)
  local got = mt.grad(y:sum(), {x, w})
  eq(runs, 2)
  is(got[1], expected[1]:tolist())
  is(got[2], expected[2]:tolist())
  mt.gradcheck(function(a) return (mt.recompute(f, a)) end, {x})
  mt.gradgradcheck(function(a) return (mt.recompute(f, a)) end, {x})
end)

test('recompute: the same random numbers, less memory', function()
  local x = mt.rand(100000):requires_grad_()
  local function f(a)
    for _ = 1, 10 do a = mt.dropout(a:exp():sin(), 0.3) end
    return a
  end
  mt.manual_seed(5)
  local expected = mt.grad(f(x):sum(), x)
  mt.manual_seed(5)
  local y = mt.recompute(f, x)
  collectgarbage()
  collectgarbage()
  local with = core.memory()
  local after = mt.rand(3)
  local got = mt.grad(y:sum(), x)
  assert(got:equal(expected), 'other numbers')
  eq(mt.rand(1):numel(), 1)
  mt.manual_seed(5)
  f(x)
  eq(after:tolist(), mt.rand(3):tolist())
  local z = f(x)
  collectgarbage()
  collectgarbage()
  local without = core.memory()
  assert(without - with > 5 * 400000, ('saved only %d bytes'):format(without - with))
  assert(z)
end)

test('recompute: normalisation layers update their running statistics once', function()
  local nn, tracked = mt.nn, {track_running_stats = true}
  for _, make in ipairs{function() return nn.BatchNorm1d(2) end, function() return nn.SyncBatchNorm(2) end,
      function() return nn.BatchNorm1d(2, {momentum = false}) end,
      function() return nn.InstanceNorm1d(2, tracked) end} do
    local plain, twice = make(), make()
    for _ = 1, 2 do
      local x = mt.randn(3, 2, 4):requires_grad_()
      plain(x):sum():backward()
      mt.recompute(function(a) return mt.recompute(twice, a):sin() end, x):sum():backward()
    end
    for name, value in pairs(plain:state_dict()) do assert(mt.equal(twice:state_dict()[name], value), name) end
  end
end)

test('recompute: a function that does something else the second time is refused', function()
  local x, first = leaf{1, 2}, true
  local y = mt.recompute(function(a)
    if first then
      first = false
      return a:exp():sin()
    end
    return a:exp()
  end, x)
  raises(function() y:sum():backward() end, 'recompute: the second run')
  eq(x.grad, nil)
  raises(function() mt.recompute(3) end, 'fn must be a function')
end)

test('recompute: operations in place inside, as without it', function()
  local scale = mt.tensor({0.5, -1.5, 2}, 'float64')
  local changes = {
    sin_ = function(x) return x:sin_() end, square_ = function(x) return x:square_() end,
    log_ = function(x) return x:abs():log_() end, silu_ = function(x) return x:silu_() end,
    gelu_ = function(x) return x:gelu_() end, mul_ = function(x) return x:mul_(scale) end,
    pow_ = function(x) return x:pow_(3) end, abs_ = function(x) return x:abs_() end,
    clamp_ = function(x) return x:clamp_(-0.5, 0.5) end, exp_ = function(x) return x:exp_() end,
    itself = function(x) return x:mul_(x) end, twice = function(x) return x:sin_():square_():mul_(scale) end,
    view = function(x) x[{{1, 2}}]:sin_() return x:cos_() end,
    regions = function(x) x[2] = x[1] * 4 return x:square_() end,
  }
  for name, change in pairs(changes) do
    local function f(x) return change(x * 2) * 3 end
    local x = leaf{0.3, -0.7, 1.1}
    local expected = mt.grad(f(x):sum(), x):tolist()
    local y = mt.recompute(f, x)
    near(y:tolist(), f(x):tolist(), 0)
    local got = mt.grad(y:sum(), x)
    assert(got:equal(mt.tensor(expected, 'float64')), name)
    mt.gradcheck(function(a) return (mt.recompute(f, a)) end, {x})
    mt.gradgradcheck(function(a) return (mt.recompute(f, a)) end, {x})
  end
end)

test('recompute: what the function captures and what was changed since is refused', function()
  local changed = "recompute: the second run of the function computed '%a+'[ %d()]* from other numbers"
  local function refused(make, change, n)
    local x = mt.rand(n or 3, 'float64'):requires_grad_()
    local fn, captured = make()
    local y = mt.recompute(fn, x)
    mt.no_grad(change, captured)
    raises(function() y:sum():backward() end, changed)
    raises(function() y:sum():backward() end, changed) -- and again
    eq(x.grad, nil)
  end
  local function one_of(n) return function(w) w[n] = w[n] + 1 end end
  for _, n in ipairs{3, 1001, 2000001} do
    local function parameter() -- saved itself
      local w = mt.rand(n, 'float64'):requires_grad_()
      return function(a) return a * w end, w
    end
    local function constant() -- behind an operation that is not recorded
      local w = mt.rand(n, 'float64')
      return function(a) return a * w:exp() end, w
    end
    local function shift() -- behind an operation that saves nothing
      local w = mt.rand(n, 'float64'):requires_grad_()
      return function(a) return (a + w):sin() end, w
    end
    for _, make in ipairs{parameter, constant, shift} do
      refused(make, one_of(1), n)
      refused(make, one_of(n), n)
      refused(make, one_of(math.floor(n / 2) + 1), n)
    end
    refused(constant, function(w) -- two elements are swapped
      local first = w[1]:clone()
      w[1] = w[2]
      w[2] = first
    end, n)
  end
  refused(function()
    local box = {mt.rand(3, 'float64')}
    return function(a) return a * box[1] end, box
  end, function(box) box[1] = mt.rand(3, 'float64') end)
  refused(function()
    local box = {2.5}
    return function(a) return a * box[1] end, box
  end, function(box) box[1] = 3 end)
  refused(function() -- random numbers that are not mtorch's own
    local g = mt.Generator('philox', 3)
    return function(a) return a * mt.rand(3, {generator = g, dtype = 'float64'}) end, g
  end, function() end)
  local w, x = mt.rand(3, 'float64'), leaf{1, 2, 3}
  local y = mt.recompute(function(a) return a * w end, x)
  local kept = w:clone()
  mt.no_grad(function()
    w:zero_()
    w:copy_(kept) -- writing the same values is allowed
  end)
  is(mt.grad(y:sum(), x), kept:tolist())
end)

test('recompute: backward inside the function, and through what the second run left', function()
  local x = mt.tensor({0.5, 2}, {dtype = 'float64', requires_grad = true})
  local function f(a)
    local u = a:detach():requires_grad_()
    return (a:exp() * mt.grad((u ^ 3):sum(), u)):sin()
  end
  local y, z = mt.recompute(f, x), f(x)
  eq(mt.grad(y:sum(), x):tolist(), mt.grad(z:sum(), x):tolist())
  local n = 0
  y = mt.recompute(function(a)
    n = n + 1
    local run, b = n, (a * a):exp()
    local g = mt.grad(b:sum(), a, {retain_graph = true})
    for _ = 1, run == 1 and 300 or 0 do b = b:sin() end
    return b * g
  end, x)
  raises(function() y:sum():backward() end, 'recompute: the second run of the function saved 4 tensors')
  local kept
  y = mt.recompute(function(a)
    kept = a:sin()
    return kept:exp()
  end, x)
  y:sum():backward()
  x.grad = nil
  kept:sum():backward()
  eq(x.grad:tolist(), x:detach():cos():tolist())
end)

test('recompute: a second run that fails leaves nothing behind', function()
  local x, broken = leaf{1, 2}, false
  local y = mt.recompute(function(a)
    local b = a:exp()
    if broken then error('not now', 0) end
    return b:sin()
  end, x)
  broken = true
  raises(function() y:sum():backward() end, '^not now$')
  broken = false
  y:sum():backward()
  is(x.grad, {math.cos(math.exp(1)) * math.exp(1), math.cos(math.exp(2)) * math.exp(2)})
end)

test('recompute: a layer norm with a weight', function()
  local x, w = mt.rand({4, 3}, 'float64'):requires_grad_(), mt.rand(3, 'float64'):requires_grad_()
  mt.gradcheck(function(a, b) return (mt.recompute(function(c, d) return mt.layer_norm(c, 3, d) end, a, b)) end, {x, w})
end)

test('no_grad around a Jacobian, a function that returns its input, changed arguments', function()
  local x = leaf{1, 2}
  is(mt.no_grad(mt.jacobian, function(a) return a * a end, x), {{2, 0}, {0, 4}})
  is(mt.no_grad(mt.hessian, function(a) return (a ^ 3):sum() end, x), {{6, 0}, {0, 12}})
  local Same = mt.Function{forward = function(_, a) return a end, backward = function(_, g) return g end}
  local y = x * 1
  local z = Same(y)
  z:mul_(3)
  is(y, {1, 2})
  is(mt.grad((z * z + y):sum(), x), {19, 37})
  local w = x * 2
  local r = mt.recompute(function(a) return a:exp() end, w)
  w:add_(1)
  raises(function() r:sum():backward() end, 'recompute: an argument %(2%) was changed in place')
end)

-- Debugging --------------------------------------------------------------------------------------------

test('set_detect_anomaly: the first result that is not finite, forward and backward, with lines', function()
  local line = debug.getinfo(1, 'l').currentline
  local function check(x) return mt.detect_anomaly(function() return (x:log()) end) end
  raises(function() check(mt.tensor{1, 0}) end,
    'test_gradient.lua:' .. line + 1 .. ': log: produced an infinity at %[2%]')
  raises(function() check(mt.tensor{-1, 0}) end, 'log: produced NaN at %[1%]')
  eq(check(mt.tensor{1}):item(), 0)
  eq(mt.tensor{0}:log():item(), -math.huge) -- it is off again, after an error too
  mt.set_detect_anomaly(true)
  local ok, message = pcall(function()
    local x = leaf{0, 4}
    local y = x:sqrt()
    raises(function() y:sum():backward() end,
      'sqrt backward produced an infinity at %[1%], recorded at .*:' .. line + 10)
    local masked = mt.ones(2):masked_fill(mt.tensor{true, false}, -math.huge) -- asked for
    eq(masked:softmax(1):tolist(), {0, 1})
    raises(function() return (mt.tensor{3e38} * 10) end, 'mul: produced an infinity')
  end)
  mt.set_detect_anomaly(false)
  assert(ok, message)
  eq(({pcall(mt.detect_anomaly, function(...) return ... end, 1, 2)}), {true, 1, 2})
end)

test('set_debug: the first NaN, forward and backward, with lines', function()
  mt.set_debug(true)
  local ok, message = pcall(function()
    raises(function() return (mt.tensor{4, -1}:sqrt()) end, 'test_gradient.lua:%d+: sqrt: produced NaN at %[2%]')
    raises(function() return (mt.tensor{{1, 1}, {0, 1}} / mt.tensor{{1, 1}, {0, 1}}) end,
      'div: produced NaN at %[2, 1%]')
    local x = leaf{0, 4}
    local line = debug.getinfo(1, 'l').currentline + 1
    local y = x:sqrt() * 0
    raises(function() y:sum():backward() end,
      'sqrt backward produced NaN at %[1%], recorded at .*test_gradient.lua:' .. line)
    eq(x.grad, nil)
    local z = x:exp()
    z:add_(1)
    raises(function() z:sum():backward() end,
      'changed in place .*recorded at .*:' .. line + 4 .. ', changed at .*:' .. line + 5)
    eq((mt.tensor{0 / 0} + 1):isnan():any(), true) -- not the first
  end)
  mt.set_debug(false)
  assert(ok, message)
  eq(mt.tensor{-1}:sqrt():isnan():any(), true)
end)

t.test('more results and arguments than Lua passes at once are named as such', function()
  local n = 3999
  local function each(f)
    local list = {}
    for i = 1, n do list[i] = f(i) end
    return list
  end
  local F = mt.Function{backward = function(_, ...) return ... end, forward = function(_, ...)
    local x = {...}
    return unpack(each(function(i) return x[i] * 2 end))
  end}
  local y = {F(unpack(each(function() return mt.ones(1):requires_grad_() end)))}
  t.raises(function() (y[1] + y[n]):sum():backward() end,
    "Function: Lua's stack has no room for the gradients of 3999 results and 3999 arguments")
end)

t.finish()
