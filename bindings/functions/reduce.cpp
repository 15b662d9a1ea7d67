// reduce.cpp -- reductions: fewer elements out than in
#include "bindings/functions/functions.h"
#include "engine/ops.h"

namespace mt::lua {
namespace {

template <Tensor (*reduce)(const Tensor&, const Shape&, bool)> int reduced(Args& a) {
  return a.push(reduce(a.tensor(1), a.dims(2), a.boolean(3, false)));
}

/// all and any: a Lua boolean for the whole tensor, a tensor along a dimension.
template <Tensor (*reduce)(const Tensor&, const Shape&, bool)> int asked(Args& a) {
  const Tensor answer = reduce(a.tensor(1), a.dims(2), a.boolean(3, false));
  if (a.given(2)) return a.push(answer);
  return a.push(answer.item() != 0);
}

template <Tensor (*find)(const Tensor&, std::optional<int64_t>, bool)> int found(Args& a) {
  std::optional<int64_t> dim;
  if (a.given(2)) dim = a.position(2);
  return push_positions(a, find(a.tensor(1), dim, a.boolean(3, false)));
}

/// max and min: of everything one tensor; along a dimension values and positions; of two tensors
/// elementwise.
template <int Op, Tensor (*extreme)(const Tensor&, const Shape&, bool),
          Tensor (*find)(const Tensor&, std::optional<int64_t>, bool)>
int extremes(Args& a) {
  const Tensor& x = a.tensor(1);
  if (!a.given(2)) {
    if (x.numel() == 0) fail("{}: {} is empty", signature_of(a.entry()).name, to_string(x.shape()));
    return a.push(extreme(x, {}, false));
  }
  if (const Tensor* y = tensor_at(a.L, 2)) {
    const Tensor* inputs[] = {&x, y};
    return a.push(elementwise(Op, inputs));
  }
  const bool keepdim = a.boolean(3, false);
  const std::string& name = signature_of(a.entry()).name;
  const int d = wrap_dim(name.c_str(), a.position(2), x.dim());
  if (x.dim() > 0 && x.size(d) == 0)
    fail("{}: {} has no elements along dimension {}, and nothing has no {}", name,
         to_string(x.shape()), d + 1, name);
  const Tensor index = find(x, d, true);
  Tensor values = x.dim() ? gather(x, d, index) : x;
  a.push(keepdim || !x.dim() ? values : squeeze(values, d));
  push_positions(a, keepdim || !x.dim() ? index : squeeze(index, d));
  return 2;
}


/// Functions of the module that are methods of their first argument too.
const Entry kMethods[] = {
    {"sum(x, [dim]=nil, keepdim=false)",
     "The sum of all elements, or along one dimension or several.", reduced<sum>},
    {"mean(x, [dim]=nil, keepdim=false)", "The mean of all elements, or along dimensions.",
     reduced<mean>},
    {"prod(x, [dim]=nil, keepdim=false)", "The product of all elements, or along dimensions.",
     reduced<prod>},
    {"amax(x, [dim]=nil, keepdim=false)", "The largest element; ties share the gradient.",
     reduced<amax>},
    {"amin(x, [dim]=nil, keepdim=false)", "The smallest element; ties share the gradient.",
     reduced<amin>},
    {"all(x, [dim]=nil, keepdim=false)",
     "Whether all are nonzero: a Lua boolean, or a bool tensor along dim.", asked<all>},
    {"any(x, [dim]=nil, keepdim=false)",
     "Whether one is nonzero: a Lua boolean, or a bool tensor along dim.", asked<any>},
    {"max(x, dim=nil, keepdim=false)",
     "The largest element; with dim values and positions; with a tensor maximum(x, y).",
     extremes<op::id<op::Maximum>, amax, argmax>},
    {"min(x, dim=nil, keepdim=false)",
     "The smallest element; with dim values and positions; with a tensor minimum(x, y).",
     extremes<op::id<op::Minimum>, amin, argmin>},
    {"argmax(x, dim=nil, keepdim=false)", "The position (from 1) of the first largest element.",
     found<argmax>},
    {"argmin(x, dim=nil, keepdim=false)", "The position (from 1) of the first smallest element.",
     found<argmin>},
};

}  // namespace

void open_reduce(lua_State* L) {
  add_methods(L, kMethods);
}

}  // namespace mt::lua
