// functions.cpp -- common parts of the files of this folder
#include "bindings/functions/functions.h"

#include "engine/autograd/graph.h"
#include "engine/gpu/launch.h"

namespace mt::lua {

int push_positions(const Args& a, const Tensor& index) {
  NoGrad off;
  const bool reusable = index.unique() && index.impl()->storage->refs == 1;  // no other owner
  const Into same(reusable ? &index : nullptr);
  return a.push(index + Tensor(1.0));
}

NewTensorOptions::NewTensorOptions(const Args& a, int i, Dtype fallback, const Device& place)
    : dtype(a.dtype(i, fallback)),
      device(a.given(i + 1) ? a.device(i + 1) : place),
      requires_grad(a.boolean(i + 2)) {}
NewTensor::NewTensor(const Args& a, Form form, int between, Dtype fallback)
    : NewTensorOptions(a, (form == Form::of ? 3 : 2) + between,
                       form == Form::plain ? fallback : a.tensor(1).dtype(),
                       form == Form::plain ? default_device() : a.tensor(1).device()),
      shape(form == Form::like ? a.tensor(1).shape() : a.new_shape(form == Form::plain ? 1 : 2)) {}
int NewTensorOptions::push(const Args& a, const Tensor& t) const {
  if (requires_grad) t.requires_grad_();
  return a.push(t);
}

WholeNumbers Arg<WholeNumbers>::get(const Args& a, int i) {
  return {{tensor_at(a.L, i) ? a.tensor(i) : constants(a.integers(i))}};
}

LaunchSize launch_size(const Args& a) {
  LaunchSize size;
  for (int d = 0; d < 3; ++d) size.grid[d] = a.integer(2 + d), size.block[d] = a.integer(5 + d);
  return size;
}

std::vector<KernelArgument> launch_arguments(const Args& a, int i) {
  std::vector<KernelArgument> list;
  for (; i <= a.count(); ++i) {
    KernelArgument& g = list.emplace_back();
    const int type = lua_type(a.L, i);
    if (type == LUA_TUSERDATA) g.tensor = tensor_at(a.L, i);
    else if (type == LUA_TNUMBER) g.kind = KernelArgument::number, g.value = lua_tonumber(a.L, i);
    else if (type == LUA_TBOOLEAN)
      g.kind = KernelArgument::boolean, g.value = lua_toboolean(a.L, i);
  }
  return list;
}

TensorList tensors_from(const Args& a, int i) {
  TensorList list;
  for (; i <= a.count(); ++i)
    if (const Tensor* t = tensor_at(a.L, i)) list.push_back(*t);
  return list;
}

int push_all(const Args& a, const TensorList& list) {
  if (list.size() > 200 || !lua_checkstack(a.L, int(list.size()) + 4))
    fail("{}: {} results are too many", a.called(), list.size());
  for (const Tensor& x : list) a.push(x);
  return int(list.size());
}

}  // namespace mt::lua
