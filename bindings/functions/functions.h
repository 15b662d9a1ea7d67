// functions.h -- what the files of this folder share: adding entries, positions, who opens what
//
// Each file holds the functions of one subject: a table of entries (signature, help, body) and the
// bodies. A function of the module goes into kFunctions, one that is a method of its first argument
// too into kMethods.
#pragma once
#include "bindings/module.h"
#include "engine/reduce.h"

namespace mt::lua {

/// Adds a function to the module, at the top of the stack, and to the methods.
void add_method(lua_State* L, const Entry&);
template <size_t N> void add_methods(lua_State* L, const Entry (&entries)[N]) {
  for (const Entry& e : entries) add_method(L, e);
}

/// Pushes 0-based positions as the user counts them.
int push_positions(const Args&, const Tensor& index);
/// Pushes values and where they stood.
int push_picked(const Args&, Picked);
/// The user's positions, counted from 0. What is no integer tensor is handed on, for the engine's
/// sentence.
Tensor from_positions(const Tensor& index);

/// Options (dtype, device, requires_grad) that every constructor ends with, from argument i on.
struct Made {
  Dtype dtype;
  const Device& device;
  bool requires_grad;
  Made(const Args& a, int i, Dtype fallback, const Device& place = cpu_device());
  int push(const Args&, const Tensor&) const;
};
#define MT_SHAPED "dtype=nil, device='cpu', requires_grad=false"
#define MT_LIKE "dtype=nil, device=nil, requires_grad=false"

/// Pushes a result, or in a form in place writes it into argument 1: nothing changes unless it fits.
int push_or_write(const Args&, const Tensor& result);
/// A list of tensors as one value, or as several.
int push_list(const Args&, const std::vector<Tensor>&);
int push_all(const Args&, const std::vector<Tensor>&);
/// The generator at argument i; null, the stream of manual_seed, where none is given.
Generator* generator_at(const Args&, int i);

// Each adds the functions of its file to the module at the top of the stack.
void open_conv(lua_State* L);
void open_create(lua_State* L);
void open_elementwise(lua_State* L);
void open_gradient(lua_State* L);
void open_index(lua_State* L);
void open_linalg(lua_State* L);
void open_neural(lua_State* L);
void open_print(lua_State* L);
void open_product(lua_State* L);
void open_random(lua_State* L);
void open_reduce(lua_State* L);
void open_shape(lua_State* L);
void open_sort(lua_State* L);

}  // namespace mt::lua
