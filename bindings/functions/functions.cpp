// functions.cpp -- opens the functions of tensors that Lua sees, and what their files share
#include "bindings/functions/functions.h"


#include "engine/autograd.h"
#include "engine/ops.h"

namespace mt::lua {

void add_method(lua_State* L, const Entry& e) {
  const std::string name = name_of(e);
  push_function(L, e);
  luaL_getmetatable(L, "mtorch.methods");
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, name.c_str());
  lua_pop(L, 1);
  lua_setfield(L, -2, name.c_str());
}

/// 0-based positions as the user counts them.
int push_positions(const Args& a, const Tensor& index) {
  NoGrad off;
  return a.push(index + Tensor(1.0));
}

/// The user's positions, counted from 0. What is no integer tensor is handed on, for the engine's
/// sentence.
Tensor from_positions(const Tensor& index) {
  if (is_float(index.dtype()) || index.dtype() == Dtype::b8) return index;
  NoGrad off;
  return to(index, Dtype::i64) - Tensor(1.0);
}

void open_functions(lua_State* L) {
  open_create(L);
  open_elementwise(L);
  open_gradient(L);
  open_index(L);
  open_neural(L);
  open_product(L);
  open_reduce(L);
  open_shape(L);
  open_sort(L);
}

void* marker(const char* name) {
  static char newaxis, ellipsis;
  return name[0] == 'n' ? &newaxis : &ellipsis;
}

}  // namespace mt::lua
