-- cartpole.lua -- reinforcement learning: policy gradients balance a pole on a cart
--
--   mtorch scripts/cartpole.lua                                 stops when it balances, after seconds
--   mtorch scripts/cartpole.lua --limit 200 --hidden 32 --rate 0.005
--   mtorch scripts/cartpole.lua --plot steps.svg --report cartpole.html
--   mtorch scripts/cartpole.lua --dry-run                       a short run of every part
--
-- The cart (Barto, Sutton and Anderson 1983; the numbers of Gym's CartPole-v1) is pushed left or right 50 times a
-- second; an episode ends when the pole leans by more than 12 degrees, the cart leaves the track, or after --limit
-- steps. The reward of each step is 1. The policy network returns the probability of either push. REINFORCE (Williams
-- 1992) plays episodes with pushes sampled from the policy. Then each push is made more likely in proportion to its
-- advantage: the return after it minus the value that a second network, the critic, predicted.
local mt = require 'mtorch'
local refuse = require 'refuse'
local nn, optim = mt.nn, mt.optim

local options = mt.args{
  {'updates', 300, 'maximum number of optimizer steps', type = 'int', min = 1},
  {'episodes', 16, 'episodes played for each update', type = 'int', min = 1},
  {'hidden', 64, 'units of the hidden layers', type = 'int', min = 1},
  {'rate', 0.01, 'learning rate', min = 0},
  {'discount', 0.99, 'discount factor of rewards, per step', min = 0, max = 1},
  {'entropy', 0.01, 'weight of the entropy bonus, which keeps the policy exploring', min = 0},
  {'limit', 500, 'steps after which an episode ends', type = 'int', min = 1},
  {'target', help = 'required mean steps of 100 test episodes; default: 95 % of the limit', min = 0},
  {'enough', help = 'mean steps at which training stops; default: 95 % of the limit', min = 0},
  {'plot', help = 'file for the curve (.svg, .png)', endings = {'svg', 'png'}},
  {'report', help = 'HTML page with all results', type = 'output'},
  {'dry_run', false, 'a short run of every part'},
}
local small = options.dry_run
local updates, episodes = small and 2 or options.updates, small and 4 or options.episodes
local tests = small and 4 or 100
local default_target = 0.95 * options.limit -- CartPole-v1's 475 of 500
local target, enough = options.target or default_target, options.enough or default_target

-- ---- the cart ------------------------------------------------------------------------------------

local gravity, cart_mass, pole_mass, half_length, force, seconds = 9.8, 1, 0.1, 0.5, 10, 0.02
local mass, pole_moment = cart_mass + pole_mass, pole_mass * half_length

--- Returns the next position, velocity, angle and angular velocity after a push (1: left, 2: right), by Euler's method,
--- and whether the episode has ended.
local function push(x, v, angle, angular_velocity, action)
  local applied_force = (action == 2 and force or -force)
  local sin, cos = math.sin(angle), math.cos(angle)
  local free = (applied_force + pole_moment * angular_velocity * angular_velocity * sin) / mass
  local angular_acceleration = (gravity * sin - cos * free) / (half_length * (4 / 3 - pole_mass * cos * cos / mass))
  local acceleration = free - pole_moment * angular_acceleration * cos / mass
  x, v = x + seconds * v, v + seconds * acceleration
  angle, angular_velocity = angle + seconds * angular_velocity, angular_velocity + seconds * angular_acceleration
  return x, v, angle, angular_velocity, math.abs(x) > 2.4 or math.abs(angle) > math.rad(12)
end

-- ---- the networks --------------------------------------------------------------------------------

local function network(outputs)
  return nn.Sequential(nn.Linear(4, options.hidden), nn.Tanh(), nn.Linear(options.hidden, outputs)):to(options.device)
end
local policy, critic = network(2), network(1)
local opt = optim.Adam({{params = policy:parameters()}, {params = critic:parameters()}}, {lr = options.rate})

--- Plays n episodes side by side; returns lists of their states, actions and lengths. With `greedy` the more probable
--- push is chosen, otherwise pushes are sampled.
local function play(n, greedy)
  local carts, states, actions, lengths = {}, {}, {}, {}
  local start = ((mt.rand(n, 4) - 0.5) * 0.1):tolist()
  for i = 1, n do carts[i], states[i], actions[i] = start[i], {}, {} end
  local active = {}
  for i = 1, n do active[i] = i end
  mt.no_grad(function()
    for step = 1, options.limit do
      local seen = {}
      for k, i in ipairs(active) do seen[k] = carts[i] end
      -- One call for all carts returns the probabilities of a push to the right.
      local right = policy(mt.tensor(seen):to(options.device)):softmax(2)[{{}, 2}]:tolist()
      local drawn, still_active = greedy or mt.rand(#active):tolist(), {}
      for k, i in ipairs(active) do
        local action = right[k] > (greedy and 0.5 or drawn[k]) and 2 or 1
        states[i][step], actions[i][step] = carts[i], action
        local x, v, angle, angular_velocity, ended = push(carts[i][1], carts[i][2], carts[i][3], carts[i][4], action)
        carts[i], lengths[i] = {x, v, angle, angular_velocity}, step
        if not ended then still_active[#still_active + 1] = i end
      end
      active = still_active
      if #active == 0 then break end
    end
  end)
  return states, actions, lengths
end

-- ---- learning ------------------------------------------------------------------------------------

--- Returns the discounted sum of rewards from each step to the end of the episode. As every reward is 1, it depends
--- only on the number of steps to the end: the flipped cumulative sum. Other rewards would have to be
--- flipped before the sum, too.
local function returns_of(length)
  return (mt.ones(length):discounted_cumsum(1, options.discount):flip(1))
end

local function mean(list) return mt.tensor(list):mean():item() end

local curve, times, solved = {}, {}, 0
local bar = mt.progress(updates, {label = 'cartpole'})
for update = 1, updates do
  times[update] = mt.time(function()
    local states, actions, lengths = play(episodes)
    local seen, done, returns = {}, {}, {}
    for i = 1, episodes do
      seen[i] = mt.tensor(states[i])
      done[i] = mt.tensor(actions[i], 'int64')
      returns[i] = returns_of(lengths[i])
    end
    local x, action = mt.cat(seen):to(options.device), mt.cat(done):to(options.device)
    local reward = mt.cat(returns):to(options.device) * (1 - options.discount) -- about 0 to 1

    local expected = critic(x):squeeze(2)
    local advantage = (reward - expected):detach()
    advantage = (advantage - advantage:mean()) / (advantage:std() + 1e-6)
    local log_p = policy(x):log_softmax(2)
    local chosen = log_p:gather(2, action:unsqueeze(2)):squeeze(2)
    local entropy = -(log_p:exp() * log_p):sum(2):mean() -- of the pushes
    local loss = -(chosen * advantage):mean() - entropy * options.entropy + mt.mse_loss(expected, reward)
    opt:zero_grad()
    loss:backward()
    nn.clip_grad_norm_(policy:parameters(), 1)
    opt:step()
    curve[update] = mean(lengths)
  end, {quiet = true}).wall
  if update % 5 == 0 or update == updates then
    bar:print(('update %3d  steps %.1f'):format(update, curve[update]))
  end
  bar:update(update, {steps = curve[update]})
  solved = curve[update] >= enough and solved + 1 or 0
  if solved == 3 then break end -- three times in a row
end
bar:finish()

-- ---- test ----------------------------------------------------------------------------------------

local _, _, lengths = play(tests, true)
local steps, worst = mean(lengths), mt.tensor(lengths):min():item()
if options.plot then
  print('plot: ' .. mt.plot.line{curve, path = options.plot, title = 'Steps of an episode', xlabel = 'update',
    ylabel = 'steps'})
end
if options.report then
  print('report: ' .. mt.report{path = options.report, title = 'Cart and pole', config = options,
    curves = {steps = {policy = curve}}, timing = {update = times}})
end
print(('final: steps=%.1f worst=%d target=%g updates=%d episodes=%d'):format(steps, worst, target, #curve,
  #curve * episodes))
if not small and not (steps >= target) then
  refuse('the mean of %d test episodes is %.1f steps, below the target of %g', tests, steps, target)
end
