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

Made::Made(const Args& a, int i, Dtype fallback, const Device& place)
    : dtype(a.dtype(i, fallback)),
      device(a.given(i + 1) ? a.device(i + 1) : place),
      requires_grad(a.boolean(i + 2, false)) {}
int Made::push(const Args& a, const Tensor& t) const {
  if (requires_grad) t.requires_grad_();
  return a.push(t);
}

int push_list(const Args& a, const std::vector<Tensor>& list) {
  lua_createtable(a.L, int(list.size()), 0);
  for (size_t i = 0; i < list.size(); ++i) {
    a.push(list[i]);
    lua_rawseti(a.L, -2, int(i + 1));
  }
  return 1;
}
int push_all(const Args& a, const std::vector<Tensor>& list) {
  if (list.size() > 200 || !lua_checkstack(a.L, int(list.size()) + 4))
    fail("{}: {} results are too many", signature_of(a.entry()).name, list.size());
  for (const Tensor& x : list) a.push(x);
  return int(list.size());
}

namespace {

/// Appends the names of the table at `index` that are not in `seen` to the list at the top.
void list_new(lua_State* L, int index, int seen) {
  const int list = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, index)) {
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_rawget(L, seen);
    const bool known = lua_toboolean(L, -1);
    lua_pop(L, 1);
    if (known) continue;
    lua_pushvalue(L, -1);
    lua_rawseti(L, list, int(lua_objlen(L, list)) + 1);
    lua_pushvalue(L, -1);
    lua_pushboolean(L, 1);
    lua_rawset(L, seen);
  }
}

}  // namespace

/// Opens each subject, and leaves what it added in the registry (`mtorch.subjects`), a list of
/// {title, names}: help and the reference are ordered by it. A later subject may replace a name.
void open_functions(lua_State* L) {
  static const struct {
    const char* title;
    void (*open)(lua_State*);
  } subjects[] = {{"About one tensor", open_tensor},
                  {"Making tensors", open_create},
                  {"Random numbers", open_random},
                  {"Elementwise", open_elementwise},
                  {"Positions", open_index},
                  {"Shapes", open_shape},
                  {"Reductions", open_reduce},
                  {"Sorting and scanning", open_sort},
                  {"Products", open_product},
                  {"Linear algebra", open_linalg},
                  {"Convolution and pooling", open_conv},
                  {"Networks", open_neural},
                  {"Gradients", open_gradient},
                  {"Printing", open_print}};
  const int module = lua_gettop(L);
  luaL_getmetatable(L, "mtorch.methods");
  lua_newtable(L);  // the names seen so far
  lua_newtable(L);  // the subjects
  int n = 0;
  for (const auto& subject : subjects) {
    lua_pushvalue(L, module);
    subject.open(L);
    lua_pop(L, 1);
    lua_newtable(L);
    list_new(L, module, module + 2);
    list_new(L, module + 1, module + 2);
    lua_pushstring(L, subject.title);
    lua_setfield(L, -2, "title");
    lua_rawseti(L, module + 3, ++n);
  }
  lua_setfield(L, LUA_REGISTRYINDEX, "mtorch.subjects");
  lua_settop(L, module);
}

void* marker(const char* name) {
  static char newaxis, ellipsis;
  return name[0] == 'n' ? &newaxis : &ellipsis;
}

}  // namespace mt::lua
