-- line_search.lua -- line search for a step length with the strong Wolfe conditions, as in torch.optim.LBFGS
--
-- Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6, with minFunc's safeguards (Schmidt 2005).
local min, max, abs = math.min, math.max, math.abs

--- The minimum of the cubic through two points with values f and slopes g, clamped to low .. high.
local function cubic_minimum(x1, f1, g1, x2, f2, g2, low, high)
  if not low then low, high = min(x1, x2), max(x1, x2) end
  local d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
  local square = d1 * d1 - g1 * g2
  if not (square >= 0) then return (low + high) / 2 end
  local d2 = math.sqrt(square)
  if x1 > x2 then x1, g1, x2, g2 = x2, g2, x1, g1 end
  return min(max(x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2)), low), high)
end

-- A point is {t =, f =, g =, slope =}: the step, the loss, the gradient and its product with the direction.
local c1, c2 = 1e-4, 0.9

--- Increases the step until a good point is bracketed: returns one good point or two ends; and the evaluation count.
local function bracket(evaluate, start, t, max_evaluations)
  local before, point, n = start, evaluate(t), 0
  while n < max_evaluations do
    local too_high = point.f > start.f + c1 * point.t * start.slope or (n > 1 and point.f >= before.f)
    if too_high then return {before, point}, n end
    if abs(point.slope) <= -c2 * start.slope then return {point}, n, true end
    if point.slope >= 0 then return {before, point}, n end
    local least, far = point.t + 0.01 * (point.t - before.t), point.t * 10
    local next_t = cubic_minimum(before.t, before.f, before.slope, point.t, point.f, point.slope, least, far)
    before, point = point, evaluate(next_t)
    n = n + 1
  end
  return {start, point}, n
end

--- The next step inside a bracket: the cubic's minimum, moved away from the ends if the last step was also near one.
local function inside(ends, insufficient)
  local a, b = ends[1], ends[2]
  local t = cubic_minimum(a.t, a.f, a.slope, b.t, b.f, b.slope)
  local low, high = min(a.t, b.t), max(a.t, b.t)
  local margin = 0.1 * (high - low)
  if not (min(high - t, t - low) < margin) then return t, false end
  if not (insufficient or t >= high or t <= low) then return t, true end
  return abs(t - high) < abs(t - low) and high - margin or low + margin, false
end

--- Returns a strong Wolfe point, or the best one found, and the number of evaluations: evaluate(t) gives a point,
--- `start` is that of t = 0, `size` the direction's largest element, `max_evaluations` the limit after the first.
return function(evaluate, start, t, size, tolerance, max_evaluations)
  local ends, n, done = bracket(evaluate, start, t, max_evaluations)
  local function order() return ends[1].f <= ends[#ends].f and 1 or 2 end
  local low, insufficient = order(), false
  while not done and n < max_evaluations and abs(ends[2].t - ends[1].t) * size >= tolerance do
    t, insufficient = inside(ends, insufficient)
    local point, high = evaluate(t), 3 - low
    n = n + 1
    if point.f > start.f + c1 * t * start.slope or point.f >= ends[low].f then
      ends[high] = point
      low = order()
    else
      done = abs(point.slope) <= -c2 * start.slope
      if not done and point.slope * (ends[high].t - ends[low].t) >= 0 then ends[high] = ends[low] end
      ends[low] = point
    end
  end
  return ends[low], n + 1
end
