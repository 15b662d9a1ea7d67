// tensor.cpp -- the tensor as a Lua value: fields, indexing, operators, methods that query one
// tensor
#include <algorithm>
#include <cmath>

#include "bindings/core/bind.h"
#include "bindings/core/callback.h"
#include "bindings/core/indexing.h"
#include "bindings/core/module.h"
#include "bindings/core/registry.h"
#include "engine/autograd/cycles.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt::lua {
// ---- numbers in and out -------------------------------------------------------------------------

/// Pushes element i as a Lua value: a boolean for bool, otherwise a number.
static void push_element(lua_State* L, const Tensor& x, int64_t i) {
  if (is_float(x.dtype())) return lua_pushnumber(L, x.at(i));
  const int64_t v = x.at_integer(i);
  if (x.dtype() == Dtype::b8) return lua_pushboolean(L, v != 0);
  if (v > (int64_t(1) << 53) || v < -(int64_t(1) << 53))
    fail("item: {} is beyond 2^53 and not exact as a Lua number; use x:data()", v);
  lua_pushnumber(L, double(v));
}

static void push_list(lua_State* L, const Tensor& x, int d, int64_t& at) {
  if (d == x.dim()) return push_element(L, x, at++);
  luaL_checkstack(L, 3, "tolist");
  lua_createtable(L, int(std::min<int64_t>(x.size(d), 1 << 26)), 0);
  for (int64_t i = 1; i <= x.size(d); ++i) {
    push_list(L, x, d + 1, at);
    lua_rawseti(L, -2, int(i));
  }
}

void check_keys(lua_State* L, int index, int64_t n, const char* operation,
                const std::string& what) {
  std::string wrong;  // the first in order if there are several
  lua_pushnil(L);
  while (lua_next(L, index)) {
    check_interrupt();
    lua_pop(L, 1);
    const double key = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : 0;
    if (key >= 1 && key <= double(n) && key == std::floor(key)) continue;
    const std::string message =
        lua_type(L, -1) == LUA_TNUMBER
            ? fmt::format("has an entry at [{}] but nil at [{}]", key, n + 1)
            : fmt::format("has the key {}, only 1, 2, .. are meant", describe(L, -1));
    if (wrong.empty() || message < wrong) wrong = message;
  }
  if (!wrong.empty()) fail("{}: {} {}", operation, what, wrong);
  for (int64_t i = 1; i <= n; ++i) {
    check_interrupt();
    lua_rawgeti(L, index, int(i));
    if (lua_isnil(L, -1)) fail("{}: {} has nil at [{}]", operation, what, i);
    lua_pop(L, 1);
  }
}

namespace {

/// Reads a number, a boolean or nested tables of these into `values`, and checks that the tables
/// are regular.
class NestedReader {
 public:
  explicit NestedReader(lua_State* L) : L_(L) {}
  Shape shape;
  std::vector<double> values;
  bool booleans = false;

  void read(int index) try { level(index, 0, "tensor"); } catch (const std::bad_alloc&) {
    values = {};
    double bytes = sizeof(double);
    for (int d = 0; d < shape.size(); ++d) bytes *= double(shape[d]);
    fail("tensor: out of memory: reading lists of {} needs {} bytes", to_string(shape), bytes);
  }

 private:
  void level(int index, int depth, const std::string& path) {
    check_interrupt();
    switch (lua_type(L_, index)) {
      case LUA_TNUMBER: return leaf(depth, path, lua_tonumber(L_, index), false);
      case LUA_TBOOLEAN: return leaf(depth, path, lua_toboolean(L_, index), true);
      case LUA_TTABLE: break;
      default:
        fail("tensor: {} is {}; a number, a boolean or nested lists of them are needed", path,
             describe(L_, index));
    }
    if (depth >= kMaxDims) fail("tensor: {} is nested deeper than {} levels", path, kMaxDims);
    const int64_t n = lua_objlen(L_, index);
    check_keys(L_, index, n, "tensor", path);
    if (depth == shape.size()) {
      if (rank_known_) fail("tensor: {} is a list, where the others are numbers", path);
      shape.push(n);
    } else if (shape[depth] != n) {
      fail("tensor: {} has {} entries, the others at its level {}", path, n, shape[depth]);
    }
    luaL_checkstack(L_, 2, "tensor");
    for (int64_t i = 1; i <= n; ++i) {
      lua_rawgeti(L_, index, int(i));
      level(lua_gettop(L_), depth + 1, path + "[" + std::to_string(i) + "]");
      lua_pop(L_, 1);
    }
  }

  void leaf(int depth, const std::string& path, double v, bool boolean) {
    if (depth != shape.size()) fail("tensor: {} is a number, where the others are lists", path);
    if (rank_known_ && boolean != booleans) fail("tensor: {} mixes booleans and numbers", path);
    rank_known_ = true;
    booleans = boolean;
    values.push_back(v);
  }

  lua_State* L_;
  bool rank_known_ = false;
};

// ---- fields -------------------------------------------------------------------------------------

/// Computes x.T and x.mT.
Tensor transposed(const Tensor& x) {
  if (x.dim() > 2)
    fail("T: {} is not a matrix; x.mT transposes its matrices, x:permute(..) any dimensions",
         to_string(x.shape()));
  return t(x);
}
Tensor transposed_matrices(const Tensor& x) {
  if (x.dim() < 2) fail("mT: {} is not a matrix or a batch of matrices", to_string(x.shape()));
  return transpose(x, -2, -1);
}

/// Pushes the method of this name, which is created now; false if there is none.
bool push_method(lua_State* L, const std::string& key) {
  if (!open_name(L, key)) return false;
  luaL_getmetatable(L, "mtorch.methods");
  lua_getfield(L, -1, key.c_str());
  return !lua_isnil(L, -1);
}

[[noreturn]] void fail_field(lua_State* L, const std::string& key) {
  open_all(L);
  luaL_getmetatable(L, "mtorch.methods");
  std::vector<std::string> names = {"shape",   "dtype", "device", "grad", "requires_grad",
                                    "is_leaf", "ndim",  "T",      "mT"};
  each_named(L, lua_gettop(L), [&](const std::string& name) { names.push_back(name); });
  std::ranges::sort(names);
  const std::string close = nearest(names, key);
  const std::string hint = advice(L, "tensor", key, {});
  luaL_getmetatable(L, "mtorch.module");
  lua_pushstring(L, key.c_str());
  lua_rawget(L, -2);
  fail("a tensor has no field or method '{}'{}", key,
       !hint.empty()           ? hint
       : lua_isfunction(L, -1) ? fmt::format("; use mt.{}(x, ..)", key)
       : close.empty()         ? ""
                               : " (did you mean '" + close + "'?)");
}

/// Calls f; its errors get the name of the operation.
auto as_operation(const char* name, const auto& f) {
  try {
    return f();
  } catch (const Error& e) { throw Error(named(name, e.what())); }
}

int push_item(lua_State* L, const Tensor& x) {
  push_tensor(L, as_operation("index", [&] { return read_index(L, 2, x); }));
  return 1;
}
const Entry kIndex{"index(x, key)", "x[key].", [](Args& a) { return push_item(a.L, a.tensor(1)); }};
const Entry kT{"T(x, key)", "x.T.", [](Args& a) { return a.push(transposed(a.tensor(1))); }};
const Entry kMT{"mT(x, key)", "x.mT.",
                [](Args& a) { return a.push(transposed_matrices(a.tensor(1))); }};

/// The result of such an entry, with (x, key) as arguments.
int run_field(lua_State* L, const Entry& e) {
  Args args(L, e);
  return recording ? record_call(args, e.body.run) : e.body(args);
}

/// The fallback of the Lua-side __index for names that are not yet methods: fields, positions, and
/// methods that were never used.
int get_field(lua_State* L) {
  const Tensor* self = tensor_at(L, 1);
  if (!self) fail("index: a tensor is expected, got {}", describe(L, 1));
  const Tensor& x = *self;
  const bool index = is_index(L, 2);
  if (index && step_recorder) [[unlikely]]
    report_arguments(L);
  if (index) return recording ? run_field(L, kIndex) : push_item(L, x);
  const std::string_view key = lua_tostring(L, 2);
  if (step_recorder) [[unlikely]]
    key == "grad" ? step_recorder->on_grad_read(x) : step_recorder->on_use(x);
  if (key == "shape") push_shape(L, x.shape());
  else if (key == "dtype") lua_pushstring(L, dtype_name(x.dtype()));
  else if (key == "device") lua_pushstring(L, x.device().name);
  else if (key == "grad") push_tensor(L, x.grad());
  else if (key == "requires_grad") lua_pushboolean(L, x.requires_grad());
  else if (key == "is_leaf") lua_pushboolean(L, x.is_leaf());
  else if (key == "ndim") lua_pushinteger(L, x.dim());
  else if (key == "T") return run_field(L, kT);
  else if (key == "mT") return run_field(L, kMT);
  else if (!push_method(L, std::string(key))) fail_field(L, std::string(key));
  return 1;
}

/// x[key] = value.
int assign(lua_State* L, const Tensor& x) {
  if (as_operation("assignment", [&] { return write_element(L, 2, x, 3); })) return 0;
  Tensor value;
  if (lua_type(L, 3) == LUA_TNUMBER) {
    const double v = lua_tonumber(L, 3);
    check_value("assignment", v, x.dtype());
    value = scalar(v, x.dtype());
  } else if (lua_type(L, 3) == LUA_TBOOLEAN) {
    value = scalar(lua_toboolean(L, 3), Dtype::b8);
  } else if (const Tensor* t = tensor_at(L, 3)) {
    value = *t;
  } else {
    fail("assignment: the value must be a number or a tensor, got {}", describe(L, 3));
  }
  as_operation("assignment", [&] { write_index(L, 2, x, value); });
  return 0;
}

const Entry kAssign{"assign(x, key, value)", "x[key] = value.",
                    [](Args& a) { return assign(a.L, a.tensor(1)); }};

int set_field(lua_State* L) {
  const Tensor* self = tensor_at(L, 1);
  if (!self) fail("index: a tensor is expected, got {}", describe(L, 1));
  const Tensor& x = *self;
  if (!is_index(L, 2)) {
    const std::string_view key = lua_tostring(L, 2);
    if (key == "requires_grad") {
      if (lua_type(L, 3) != LUA_TBOOLEAN)
        fail("requires_grad must be true or false, got {}", describe(L, 3));
      x.requires_grad_(lua_toboolean(L, 3));
    } else if (key == "grad") {
      if (step_recorder) [[unlikely]]
        report_arguments(L);
      const Tensor* g = tensor_at(L, 3);
      if (!g && !lua_isnil(L, 3)) fail("grad must be a tensor or nil, got {}", describe(L, 3));
      if (g && !(g->shape() == x.shape()))
        fail("grad: the tensor is {}, this gradient {}", to_string(x.shape()),
             to_string(g->shape()));
      if (g && (g->dtype() != x.dtype() || !g->is_contiguous() ||
                g->impl()->storage == x.impl()->storage))
        fail("grad must be a contiguous {} tensor of its own; use g:to('{}'):clone()",
             dtype_name(x.dtype()), dtype_name(x.dtype()));
      x.set_grad(g ? *g : Tensor());
      if (any_suspects()) Callback::watch(L);
    } else {
      fail("the field '{}' of a tensor cannot be set; only grad and requires_grad can{}", key,
           key == "data" ? "; mt.no_grad(function() x:copy_(y) end) writes values" : "");
    }
    return 0;
  }
  if (step_recorder) [[unlikely]]
    report_arguments(L);
  return recording ? run_field(L, kAssign) : assign(L, x);
}

int collect_garbage(lua_State* L) {
  free_tensor(L, 1);
  return 0;
}

int length(lua_State* L) {
  const Tensor* x = tensor_at(L, 1);
  if (!x || x->dim() == 0) fail("#: a 0-d tensor has no length");
  if (step_recorder) [[unlikely]]
    step_recorder->on_use(*x);
  lua_pushnumber(L, double(x->size(0)));
  return 1;
}

int text(lua_State* L) {
  const Tensor* x = tensor_at(L, 1);
  const std::string s = x ? to_string(*x) : "tensor";
  push_text(L, s);
  return 1;
}

/// `a == b` is whether they are the same tensor.
int same(lua_State* L) {
  const Tensor *a = tensor_at(L, 1), *b = tensor_at(L, 2);
  lua_pushboolean(L, a && b && a->impl() == b->impl());
  return 1;
}

int fail_less(lua_State*) {
  fail("'<' and '<=' can only answer true or false in Lua; use x:lt(y), x:le(y), x:gt(y), x:ge(y)");
}
int fail_concat(lua_State*) {
  fail("'..' does not join tensors; use mt.cat{{a, b}}, or tostring(x) for text");
}

template <int (*body)(lua_State*)> int safely(lua_State* L) {
  const int results = guarded(L, body);
  return results < 0 ? lua_error(L) : results;
}

// ---- methods of one tensor ----------------------------------------------------------------------

/// Pushes all of the numbers, or that of the dimension at argument 2.
int push_dims(Args& a, const Shape& numbers) {
  if (!a.given(2)) return a.push(numbers);
  const char* const name = a.called().c_str();
  if (numbers.size() == 0) fail("{}: a 0-d tensor has no dimensions", name);
  return a.push(numbers[wrap_dim(name, a.position(2), numbers.size())]);
}

const Entry kMethods[] = {
    {"dim(x)", "The number of dimensions.", bind<&Tensor::dim>},
    {"numel(x)", "The number of elements.", bind<&Tensor::numel>},
    {"size(x, dim=nil)", "The shape as a list, or the size of one dimension.",
     [](Args& a) { return push_dims(a, a.tensor(1).shape()); }},
    {"stride(x, dim=nil)", "The strides in elements, as a list or of one dimension.",
     [](Args& a) { return push_dims(a, a.tensor(1).strides()); }},
    {"is_contiguous(x)", "Whether the elements are in row-major order without gaps.",
     bind<&Tensor::is_contiguous>},
    {"is_floating_point(x)", "Whether the dtype is one of the floats.",
     bind<[](const Tensor& x) { return is_float(x.dtype()); }>},
    {"storage_offset(x)", "Where the tensor begins in its storage, in elements.",
     bind<&Tensor::offset>},
    {"item(x)", "The number in a tensor of one element; a boolean for bool.",
     [](Args& a) {
       const Tensor& x = a.tensor(1);
       if (x.numel() != 1) x.item();  // throws the engine's error
       push_element(a.L, x, 0);
       return 1;
     } | kWantsNumbers},
    {"at(x, ..)", "The number at a position, x:at(i, j): fast, outside the graph.",
     [](Args& a) {
       const Tensor& x = a.tensor(1);
       if (a.count() - 1 != x.dim()) fail_positions("at", a.count() - 1, x);
       int64_t i = 0;
       for (int d = 0; d < x.dim(); ++d)
         i = i * x.size(d) + index_position(index_number(a.L, d + 2), x.size(d), d);
       push_element(a.L, x, i);
       return 1;
     } | kWantsNumbers},
    {"tolist(x)", "Nested lists of numbers (booleans for bool); a number for a 0-d tensor.",
     [](Args& a) {
       const Tensor& x = a.tensor(1);
       double lists = x.numel() == 0;  // empty ones: a size of 0 follows these sizes
       for (int d = 0; d < x.dim() && x.size(d) > 0; ++d) lists *= double(x.size(d));
       if (lists > 1e6) fail("tolist: {} would be {} empty lists", to_string(x.shape()), lists);
       int64_t at = 0;
       push_list(a.L, contiguous(a.tensor(1).detach()), 0, at);
       return 1;
     } | kWantsNumbers},
    {"requires_grad_(x, wanted=true)", "Sets whether x requires a gradient; returns x.",
     bind<&Tensor::requires_grad_>},
    {"backward(x, gradient=nil, retain_graph=false, create_graph=false)",
     "Adds to .grad of every leaf that x was computed from. Frees the graph unless retain_graph.",
     [](Args& a) {
       const Tensor gradient = a.tensor(2);
       a.tensor(1).backward(gradient, a.boolean(3), a.boolean(4));
       if (any_suspects()) Callback::watch(a.L);
       return 0;
     } | kKeepsNames},
    {"detach(x)", "The same data, outside the graph.", bind<&Tensor::detach>},
    {"zero_grad_(x)", "Drops the gradient (sets it to nil); returns x.",
     bind<[](const Tensor& x) { x.set_grad({}); }> | kReturnsSelf},
};

}  // namespace

Tensor tensor_from(Args& a, int i, Dtype dtype) {
  if (const Tensor* t = tensor_at(a.L, i))
    return dtype == Dtype::none ? clone(t->detach()) : to(clone(t->detach()), dtype);
  NestedReader nested(a.L);
  nested.read(i);
  if (dtype == Dtype::none) dtype = nested.booleans ? Dtype::b8 : default_dtype();
  const int64_t n = nested.values.size();
  if (n != checked_count("tensor", nested.shape)) fail("tensor: the lists are not regular");
  return with_dtype(dtype, [&]<class T>(T) {
    return constants<T>(nested.shape, [&](T* to) {
      in_strips(n, [&](int64_t k, int64_t end) {
        for (; k < end; ++k) {
          check_value("tensor", nested.values[k], dtype);
          to[k] = T(nested.values[k]);
        }
      });
    });
  });
}

void open_tensor(lua_State* L) {
  static const luaL_Reg meta[] = {
      {"__newindex", safely<set_field>}, {"__gc", collect_garbage},   {"__len", safely<length>},
      {"__tostring", safely<text>},      {"__lt", safely<fail_less>}, {"__le", safely<fail_less>},
      {"__concat", safely<fail_concat>}, {"__eq", safely<same>},      {nullptr, nullptr}};
  lua_newtable(L);
  lua_pushvalue(L, -1);
  set_registered(L, &kMetatable);
  luaL_register(L, nullptr, meta);
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");  // getmetatable(x) is false: scripts cannot access it
  push_closure(L, safely<get_field>);
  lua_setfield(L, -2, "__get");
  lua_pop(L, 1);
}

void register_tensor(Registry& c) {
  c.methods(kMethods);
  for (const Entry& e : kMethods)  // these are functions of the module too, as in PyTorch
    if (const std::string name = name_of(e); name == "numel" || name == "detach") c.function(e);
}

}  // namespace mt::lua
