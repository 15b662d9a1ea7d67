// gradient.cpp -- gradients: recording, hooks, functions with their own gradient
#include "bindings/functions/functions.h"

#include <algorithm>

#include "bindings/core/autocast.h"
#include "bindings/core/callback.h"
#include "engine/autograd/function.h"
#include "engine/autograd/gradcheck.h"

namespace mt::lua {
namespace {

/// Calls argument 1 with recording on or off until it returns or fails.
template <bool on> int with_recording(Args& a) {
  const GradMode scope(on);
  return a.call_function(1);
}

int detect_anomaly(Args& a) {
  struct Scope {
    const bool debugging = thread_state.debugging, infinities = thread_state.detects_infinities;
    Scope() { set_detect_anomaly(true); }
    ~Scope() { infinities ? set_detect_anomaly(true) : set_debug(debugging); }
  } const scope;
  return a.call_function(1);
}

/// The function at index i: its first result, joined with the others that the first call records.
TensorFunction lua_function(const Args& a, int i) {
  lua_State* L = a.L;
  return [L, i, places = std::vector<int>()](const TensorList& inputs) mutable {
    const int top = lua_gettop(L);
    lua_pushvalue(L, i);
    for (const Tensor& t : inputs) push_tensor(L, t);
    lua_call(L, int(inputs.size()), LUA_MULTRET);
    if (lua_gettop(L) == top) lua_pushnil(L);
    if (places.empty())
      for (int k = 1; k <= lua_gettop(L) - top; ++k)
        if (const Tensor* t = tensor_at(L, top + k); k == 1 || (t && t->requires_grad()))
          places.push_back(k);
    TensorList parts;
    for (const int k : places) {
      const Tensor* out = tensor_at(L, top + k);
      if (!out)
        fail("gradcheck: the function must return a tensor, it returned {}", describe(L, top + k));
      if (out->requires_grad() && out->dtype() != Dtype::f64)
        fail("gradcheck: result {} of the function is {}; finite differences need float64", k,
             out->dtype());
      parts.push_back(places.size() == 1 ? *out : reshape(*out, {-1}));
    }
    lua_settop(L, top);
    return parts.size() == 1 ? parts[0] : cat(parts, 0);
  };
}

TensorList one_or_more(const Args& a, int i) { return Arg<OneOrMore>::get(a, i).list; }

template <void (*check)(const TensorFunction&, const TensorList&, const GradcheckOptions&)>
int gradcheck_body(Args& a) {
  a.function(1);
  const TensorList inputs = one_or_more(a, 2);
  const double eps = a.number(3), atol = a.number(4), rtol = a.number(5), nondet_tol = a.number(6);
  const std::string name = a.called();
  if (!(eps > 0)) fail("{}: eps is {}; it must be above 0", name, show(eps));
  if (!(atol >= 0) || !(rtol >= 0) || !(nondet_tol >= 0))
    fail("{}: atol is {}, rtol {}, nondet_tol {}; they must be 0 or more", name, show(atol),
         show(rtol), show(nondet_tol));
  check(lua_function(a, 1), inputs, {eps, atol, rtol, nondet_tol});
  return a.push(true);
}

int grad_body(Args& a) {
  const TensorList outputs = one_or_more(a, 1), inputs = one_or_more(a, 2);
  const TensorList first = a.given(3) ? one_or_more(a, 3) : TensorList();
  const bool create = a.boolean(5);
  const TensorList g =
      grad(outputs, inputs, first, {a.given(4) ? a.boolean(4) : create, create, a.boolean(6)});
  const auto push = [&a](const Tensor& x) { x.defined() ? a.push(x) : a.push(false); };
  if (tensor_at(a.L, 2)) push(g[0]);
  else push_list(a.L, g, push);
  return 1;
}

/// Calls a stored function with a gradient; it may return another one.
Tensor call_hook(const Callback& callback, const Tensor& g) {
  lua_State* L = current_state();
  if (!L || !lua_checkstack(L, 8)) return {};
  const int top = lua_gettop(L);
  if (!callback.push(L)) return {};
  push_tensor(L, g);
  lua_call(L, 1, 1);
  const Tensor* other = tensor_at(L, -1);
  if (!other && !lua_isnil(L, -1))
    fail("hook: it must return a gradient or nothing, it returned {}", describe(L, -1));
  const Tensor result = other ? *other : Tensor();
  lua_settop(L, top);
  return result;
}

/// The handle of a hook; `remove` clears the hook.
struct LuaHook {
  static constexpr char kShown[] = "a hook";
  std::weak_ptr<Hook> hook;
  static void open(lua_State* L) {
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, [](lua_State* L) {
      const auto* h = Userdata<LuaHook>::find(L, 1);
      if (!h)
        return luaL_error(L,
                          "remove: no hook is given; methods are called with a colon, h:remove()");
      if (const auto hook = h->object ? h->object->hook.lock() : nullptr) *hook = {};
      return 0;
    });
    lua_setfield(L, -2, "remove");
    lua_pushcfunction(L, [](lua_State* L) {
      lua_pushliteral(L, "hook of a tensor, h:remove() ends it");
      return 1;
    });
    lua_setfield(L, -2, "__tostring");
  }
};

int register_hook_body(Args& a) {
  const Tensor& x = a.tensor(1);
  a.function(2);
  const auto callback = std::make_shared<Callback>(a.L, 2, 1);
  const std::weak_ptr<Hook> hook =
      register_hook(x, [callback](const Tensor& g) { return call_hook(*callback, g); });
  hook.lock()->on_shared = [callback] { callback->hold(); };
  return push_result(a, std::make_unique<LuaHook>(hook));
}

// ---- mt.Function: the engine's side of bindings/lua/core/gradient.lua ---------------------------

/// Calls backward(g1, ..) in Lua: it returns a gradient for each argument of forward, nil or false
/// for none (also for omitted arguments); `at` has the positions of the tensors.
TensorList call_backward(const Callback& callback, const std::string& name, int arguments,
                         const std::vector<int>& at, const TensorList& g) {
  lua_State* L = current_state();
  if (L && !lua_checkstack(L, int(g.size()) + arguments + 8))
    fail("{}: Lua's stack has no room for the gradients of {} results and {} arguments", name,
         g.size(), arguments);
  if (!L || !callback.push(L)) fail("{}: its backward function is gone", name);
  const int top = lua_gettop(L) - 1;
  for (const Tensor& t : g) push_tensor(L, t);
  lua_call(L, int(g.size()), LUA_MULTRET);
  const int returned = lua_gettop(L) - top;
  int last = returned;
  while (last > arguments && !lua_toboolean(L, top + last)) --last;
  if (last != arguments)
    fail(
        "{}: backward returned {} gradients, the function was called with {} arguments; return one "
        "for each, nil for none",
        name, last, arguments);
  TensorList found(at.size());
  for (int i = 1; i <= last; ++i) {
    const Tensor* t = tensor_at(L, top + i);
    const auto place = std::ranges::find(at, i);
    if (!t && lua_toboolean(L, top + i))
      fail("{}: backward returned {} for argument {}; a gradient is a tensor, or nil for none",
           name, describe(L, top + i), i);
    if (t && place == at.end())
      fail("{}: backward returned a gradient for argument {}, which is not a tensor", name, i);
    if (t) found[place - at.begin()] = *t;
  }
  lua_settop(L, top);
  return found;
}

/// custom(name, arguments, n, outputs, plain, saved, backward): lists; `plain[k]` is true for a
/// result without a gradient. Returns the outputs, connected to the graph.
int custom_body(Args& a) {
  lua_State* L = a.L;
  const std::string name = a.text(1);
  a.table(2);
  const int n = int(a.integer(3));
  TensorList inputs;
  std::vector<int> at;
  for (int i = 1; i <= n; ++i) {
    lua_rawgeti(L, 2, i);
    if (const Tensor* t = tensor_at(L, -1)) inputs.push_back(*t), at.push_back(i);
    lua_pop(L, 1);
  }
  const TensorList outputs = a.tensors(4), saved = a.tensors(6);
  std::vector<bool> plain;
  each_entry(L, 5, [&](int) { plain.push_back(lua_toboolean(L, -1)); });
  a.function(7);
  bool wanted = false;
  for (const Tensor& x : inputs) wanted |= wants_grad(x);
  TensorList results = outputs;
  if (wanted) {
    const auto callback = std::make_shared<Callback>(L, 7);
    results = record_function(name, inputs, outputs, plain, saved, [=](const TensorList& g) {
      return call_backward(*callback, name, n, at, g);
    });
    // All results share one node, which keeps the function alive.
    const auto recorded =
        std::ranges::find_if(results, [](const Tensor& y) { return y.impl()->node; });
    if (recorded != results.end()) callback->keep_for(recorded->impl()->node->input(0).node.get());
  }
  return a.push(results);
}

/// checkpoint(again, fn, ..): calls fn(..), whose operations save nothing; `again` recomputes it.
int checkpoint_body(Args& a) {
  a.function(1), a.function(2);
  if (step_recorder) step_recorder->on_external_effect("mt.recompute runs Lua code in backward");
  const auto callback = std::make_shared<Callback>(a.L, 1);
  const auto checkpoint = std::make_shared<Checkpoint>();
  callback->keep_for(checkpoint.get());
  std::vector<std::pair<Tensor, uint32_t>> given;  // with the versions of the first run
  for (int i = 3; i <= lua_gettop(a.L); ++i)
    if (const Tensor* t = tensor_at(a.L, i))
      given.emplace_back(t->detach(), t->impl()->storage->version);
  checkpoint->again = [callback, given, casting = thread_state.autocast] {
    const SaveAndRestore scope(thread_state.autocast, casting);
    for (const auto& [x, version] : given)
      if (x.impl()->storage->version != version)
        fail("recompute: an argument {} was changed in place since; clone() it first",
             to_string(x.shape()));
    callback->call("recompute: the function is gone", 0);
  };
  const CheckpointScope scope(checkpoint, false);
  const int results = a.call_function(2);
  checkpoint->values.clear();  // made for a backward pass inside fn, before its end
  return results;
}

/// Functions for core/gradient.lua, which removes them from the module.
const Entry kGradientParts[] = {
    {"custom_function(name, arguments, n, outputs, plain, saved, backward)",
     "Results of a function with its own gradient.", custom_body},
    {"saved_tensors()", "What the running backward's forward saved, a list.", bind<saved_tensors>},
    {"checkpoint(again, fn, ..)", "fn(..) whose operations save nothing.", checkpoint_body},
};

const Entry kGradientFunctions[] = {
    {"grad(outputs, inputs, grad_outputs=nil, retain_graph=nil, create_graph=false, "
     "allow_unused=false)",
     "The gradients of outputs (one tensor or a list) by inputs: a list for a list, one tensor for "
     "one. No .grad changes. An unused input is an error, or false with allow_unused.",
     grad_body | kKeepsNames},
    {"enable_grad(fn, ..)", "Calls fn with recording on, also inside no_grad; returns its results.",
     with_recording<true>},
    {"set_debug(enabled)",
     "Errors name the line that recorded an operation, and the first NaN is an error. Slow.",
     bind<set_debug> | kReachesOut},
    {"set_detect_anomaly(enabled)",
     "set_debug, and the first infinite result is an error too, forward or backward: with its operation, its place "
     "and the line. What is infinite by an argument, masked_fill(mask, -math.huge), is none.",
     bind<set_detect_anomaly> | kReachesOut},
    {"detect_anomaly(fn, ..)", "Calls fn with set_detect_anomaly(true); returns its results.",
     Body(detect_anomaly) | kKeepsNames},
    {"no_grad(fn, ..)", "Calls fn with the arguments, without recording; returns its results.",
     with_recording<false> | kKeepsNames},
    {"set_grad_enabled(enabled)", "Switches recording on or off; returns the old state.",
     bind<set_grad_enabled>},
    {"is_grad_enabled()", "Whether operations are recorded.", bind<grad_enabled>},
    {"gradcheck(fn, inputs, eps=1e-6, atol=1e-5, rtol=1e-3, nondet_tol=0)",
     "Compares the gradients of all results of fn(inputs..), float64, with finite differences; an error where "
     "they differ, or where two backwards differ by more than nondet_tol.",
     gradcheck_body<gradcheck> | kKeepsNames},
    {"gradgradcheck(fn, inputs, eps=1e-6, atol=1e-5, rtol=1e-3, nondet_tol=0)",
     "gradcheck for the gradients of the gradients, by the inputs and by the gradient of the result.",
     gradcheck_body<gradgradcheck> | kKeepsNames},
};

const Entry kGradientMethods[] = {
    {"register_hook(x, fn)",
     "Calls fn(g) with the gradient of x in every backward; what fn returns takes its place. "
     "Returns a handle with h:remove().",
     register_hook_body},
    {"retain_grad(x)", "Keeps the gradient of a computed tensor in x.grad too; returns x.",
     bind<&Tensor::retain_grad> | kReturnsSelf},
};

}  // namespace

void register_gradient(Registry& c) {
  c.functions(kGradientFunctions);
  c.methods(kGradientMethods);
}

void add_gradient(lua_State* L) { add(L, kGradientParts); }

}  // namespace mt::lua
