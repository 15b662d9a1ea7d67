// gradient.cpp -- gradients: recording, checking
#include "bindings/functions/functions.h"
#include "engine/autograd.h"
#include "engine/gradcheck.h"
#include "engine/ops.h"

namespace mt::lua {
namespace {

/// Calls argument 1 with the arguments after it; recording stays off until it returns or fails.
int no_grad_body(Args& a) {
  a.function(1);
  NoGrad off;
  lua_call(a.L, a.count() - 1, LUA_MULTRET);
  return lua_gettop(a.L);
}

TensorFunction lua_function(const Args& a, int i) {
  lua_State* L = a.L;
  return [L, i](const std::vector<Tensor>& inputs) {
    lua_pushvalue(L, i);
    for (const Tensor& t : inputs) push_tensor(L, t);
    lua_call(L, int(inputs.size()), 1);
    const Tensor* out = tensor_at(L, -1);
    if (!out) fail("gradcheck: the function must return a tensor, it returned {}", describe(L, -1));
    const Tensor result = *out;
    lua_pop(L, 1);
    return result;
  };
}

template <void (*check)(const TensorFunction&, const std::vector<Tensor>&, const GradcheckOptions&)>
int gradcheck_body(Args& a) {
  a.function(1);
  const std::vector<Tensor> inputs =
      tensor_at(a.L, 2) ? std::vector<Tensor>{a.tensor(2)} : a.tensors(2);
  const double eps = a.number(3, 1e-6), atol = a.number(4, 1e-5), rtol = a.number(5, 1e-3);
  const std::string name = name_of(a.entry());
  if (!(eps > 0)) fail("{}: eps is {}; it must be above 0", name, show(eps));
  if (!(atol >= 0) || !(rtol >= 0))
    fail("{}: atol is {} and rtol is {}; they must be 0 or more", name, show(atol), show(rtol));
  check(lua_function(a, 1), inputs, {eps, atol, rtol});
  return a.push(true);
}


/// Functions of the module that are not methods.
const Entry kFunctions[] = {
    {"no_grad(fn, ..)", "Calls fn with the arguments, without recording; returns its results.",
     no_grad_body},
    {"set_grad_enabled(enabled)", "Switches recording on or off; returns the old state.",
     [](Args& a) {
       const bool on = a.boolean(1, true);
       return a.push(set_grad_enabled(on));
     }},
    {"is_grad_enabled()", "Whether operations are recorded.",
     [](Args& a) { return a.push(grad_enabled()); }},
    {"gradcheck(fn, inputs, eps=1e-6, atol=1e-5, rtol=1e-3)",
     "Compares the gradients of fn(inputs..), all float64, with finite differences; an error where "
     "they differ.",
     gradcheck_body<gradcheck>},
    {"gradgradcheck(fn, inputs, eps=1e-6, atol=1e-5, rtol=1e-3)",
     "The same for the gradients of the gradients.", gradcheck_body<gradgradcheck>},
};

}  // namespace

void open_gradient(lua_State* L) {
  add(L, kFunctions);
}

}  // namespace mt::lua
