// kernel.cpp -- C functions for compile/kernel.lua: grid kernels written in Lua
#include <ranges>
#include <string_view>

#include "bindings/functions/functions.h"
#include "engine/compiler/kernel/grid_kernel.h"
#include "engine/core/read_number.h"
#include "engine/ops/ops.h"

namespace mt::lua {
namespace {

/// A kernel, the functions that it calls, and its captured values. The userdata's environment has
/// the Lua functions [1] .., `locate` (of kernel.lua: finds a function's source) and `builtins`.
struct LuaKernel {
  static constexpr char kShown[] = "a kernel of mt.kernel";
  struct Function {
    std::unique_ptr<ast::Function> tree;
    const void* address;  // of the Lua function
  };
  LuaKernel(bool check, bool lua_numbers, std::vector<grid::Tangent> tangents)
      : kernel(check, lua_numbers, std::move(tangents)) {}
  GridKernel kernel;
  std::vector<Function> functions;
  std::vector<grid::Path> numbers, tensors;  // the captured ones
  std::vector<double> values;                // of numbers, when last read
};
constexpr int kHandle = 1;  // the kernel's stack index

/// The values that a kernel captures, by their paths: upvalues or globals of its functions, and fields of tables.
class Captures : public grid::CaptureResolver {
 public:
  Captures(lua_State* L, LuaKernel& k) : L_(L), k_(k) {}

  bool is_upvalue(int function, const std::string& name) override {
    const int top = lua_gettop(L_);
    push_function(function);
    const bool found = push_upvalue(name);
    lua_settop(L_, top);
    return found;
  }
  grid::CapturedName resolve(const grid::Path& path) override {
    const int top = lua_gettop(L_);
    push(path);
    const grid::CapturedName o = classify(path);
    lua_settop(L_, top);
    return o;
  }
  const ast::Function& function(int index) override { return *k_.functions[index].tree; }
  double number(int index) override { return k_.values[index]; }
  Tensor tensor(int index) override {
    const int top = lua_gettop(L_);
    push(k_.tensors[index]);
    const Tensor* t = tensor_at(L_, -1);
    const Tensor x = t ? *t : Tensor();
    lua_settop(L_, top);
    return x;
  }
  /// Reads the source of the Lua function on top of the stack, and pops it; returns its index.
  int add_function() {
    const void* const address = lua_topointer(L_, -1);
    for (size_t k = 0; k < k_.functions.size(); ++k)
      if (k_.functions[k].address == address) return lua_pop(L_, 1), int(k);
    lua_getfenv(L_, kHandle);
    lua_pushvalue(L_, -2);
    lua_rawseti(L_, -2, int(k_.functions.size()) + 1);
    lua_getfield(L_, -1, "locate");
    lua_pushvalue(L_, -3);
    if (lua_pcall(L_, 1, 5, 0) != 0) {
      const char* const why = lua_tostring(L_, -1);
      throw Error(why ? why : "kernel: the source of a function cannot be found");
    }
    const LuaSource source(lua_tostring(L_, -5), lua_tostring(L_, -4));
    const auto places = source.functions_at(int(lua_tointeger(L_, -3)), int(lua_tointeger(L_, -2)));
    const size_t which = lua_tointeger(L_, -1);
    lua_pop(L_, 7);
    if (which < 1 || which > places.size())
      fail("kernel: the source of a function cannot be found");
    const LuaSource::FunctionTokens& place = places[which - 1];
    k_.functions.push_back({ast::parse_function(source, place, source.name_at(place)), address});
    return int(k_.functions.size()) - 1;
  }

 private:
  void push_function(int index) {
    lua_getfenv(L_, kHandle);
    lua_rawgeti(L_, -1, index + 1);
    lua_remove(L_, -2);
  }
  /// Pushes an upvalue of the function on top.
  bool push_upvalue(const std::string& name) {
    for (int k = 1;; ++k) {
      const char* const upvalue = lua_getupvalue(L_, -1, k);
      if (!upvalue) return false;
      if (name == upvalue) return true;
      lua_pop(L_, 1);
    }
  }
  void push(const grid::Path& path) {
    luaL_checkstack(L_, 8, "kernel");
    push_function(path.function);
    if (!push_upvalue(path.root)) {
      lua_getfenv(L_, -1);
      push_text(L_, path.root);
      lua_rawget(L_, -2);
    }
    for (const std::string& key : path.keys) {
      if (!lua_istable(L_, -1)) return lua_pushnil(L_);
      if (key[0] == '[') lua_pushnumber(L_, read_number(key.c_str() + 1));
      else push_text(L_, std::string_view(key).substr(1));
      lua_rawget(L_, -2);
    }
  }
  static int index_in(std::vector<grid::Path>& list, const grid::Path& path) {
    size_t k = 0;
    while (k < list.size() && !(list[k] == path)) ++k;
    if (k == list.size()) list.push_back(path);
    return int(k);
  }
  grid::CapturedName number_at(const grid::Path& path, double value,
                               grid::CapturedName::Kind kind) {
    const int index = index_in(k_.numbers, path);
    k_.values.resize(k_.numbers.size());
    k_.values[index] = value;
    return {kind, index};
  }
  /// Classifies the value on top of the stack.
  grid::CapturedName classify(const grid::Path& path) {
    using Kind = grid::CapturedName;
    switch (lua_type(L_, -1)) {
      case LUA_TNIL: return {};
      case LUA_TNUMBER: {
        const double x = lua_tonumber(L_, -1);
        return number_at(path, x, grid::is_whole(x) ? Kind::whole : Kind::real);
      }
      case LUA_TBOOLEAN: return number_at(path, lua_toboolean(L_, -1), Kind::boolean);
      case LUA_TTABLE: return {Kind::table};
      case LUA_TFUNCTION: return captured_function();
      default: break;
    }
    if (const Tensor* t = tensor_at(L_, -1))
      return {Kind::tensor, index_in(k_.tensors, path), "", t->dtype(), t->dim()};
    return {Kind::other, -1, describe(L_, -1)};
  }
  grid::CapturedName captured_function() {
    using Kind = grid::CapturedName;
    lua_getfenv(L_, kHandle);
    lua_getfield(L_, -1, "builtins");
    lua_pushvalue(L_, -3);
    lua_rawget(L_, -2);
    if (lua_isstring(L_, -1)) return {Kind::builtin, -1, lua_tostring(L_, -1)};
    if (lua_istable(L_, -1)) {
      lua_rawgeti(L_, -1, 1), lua_rawgeti(L_, -2, 2);
      const int index = add_function();
      return {Kind::builtin, index, lua_tostring(L_, -1)};
    }
    lua_pop(L_, 3);
    lua_Debug info;
    lua_pushvalue(L_, -1);
    lua_getinfo(L_, ">S", &info);
    if (info.linedefined < 0 || std::string_view(info.source).starts_with("@mtorch/"))
      return {Kind::other, -1, "a function of tensors or of a library"};
    lua_pushvalue(L_, -1);
    return {Kind::function, add_function()};
  }

  lua_State* L_;
  LuaKernel& k_;
};

int grid_make(Args& a) {
  a.function(1), a.function(2), a.table(3);
  std::vector<grid::Tangent> tangents;
  for (size_t i = 1; a.given(6) && i <= lua_objlen(a.L, 6); i += 2) {
    lua_rawgeti(a.L, 6, int(i)), lua_rawgeti(a.L, 6, int(i) + 1);
    tangents.push_back({int(lua_tointeger(a.L, -2)) - 1, int(lua_tointeger(a.L, -1)) - 1});
    lua_pop(a.L, 2);
  }
  LuaKernel* const k = Userdata<LuaKernel>::push(
      a.L, std::make_unique<LuaKernel>(a.boolean(4), a.boolean(5), std::move(tangents)));
  lua_createtable(a.L, 1, 2);
  lua_pushvalue(a.L, 2), lua_setfield(a.L, -2, "locate");
  lua_pushvalue(a.L, 3), lua_setfield(a.L, -2, "builtins");
  lua_setfenv(a.L, -2);
  lua_insert(a.L, kHandle);
  lua_pushvalue(a.L, kHandle + 1);
  Captures(a.L, *k).add_function();
  lua_settop(a.L, kHandle);
  return 1;
}

int grid_launch(Args& a) {
  LuaKernel& k = Userdata<LuaKernel>::at(a, kHandle);
  Captures captures(a.L, k);
  k.kernel.launch(captures, launch_size(a), launch_arguments(a, 8),
                  [&a](int i) { return describe(a.L, i + 8); });
  return 0;
}

int grid_find(Args& a) {
  const LuaSource source(a.text(1), "");
  const auto places = source.functions_at(int(a.integer(2)), int(a.integer(3)));
  push_list(a.L, places, [&](const LuaSource::FunctionTokens& p) {
    const std::string_view open = source.tokens[p.open].text, end = source.tokens[p.end].text;
    lua_pushlstring(a.L, open.data(), end.data() + end.size() - open.data());
  });
  return 1;
}

const Entry kKernelParts[] = {
    {"grid_make(fn, locate, builtins, check, lua_numbers, ..)",
     "A kernel. A last argument {argument, input, ..} lists the arguments that receive derivatives by an input.",
     grid_make},
    {"grid_launch(kernel, gx, gy, gz, bx, by, bz, ..)", "Checks and launches.", grid_launch},
    {"grid_path(kernel)", "How the last launch ran.",
     [](Args& a) { return a.push(Userdata<LuaKernel>::at(a, kHandle).kernel.path()); }},
    {"grid_operations()", "The names of the elementwise operations.",
     [](Args& a) {
       push_list(a.L, std::views::iota(0, kOps),
                 [&](int op) { lua_pushstring(a.L, op_row(op).info->name); });
       return 1;
     }},
    {"grid_find(text, first, last)", "The functions in a source that begin and end on these lines.",
     grid_find},
    {"grid_cuda(kernel, compile)",
     "The CUDA C for the types of the last launch; `compile`: compiles it.",
     [](Args& a) {
       const grid::Kernel& k = Userdata<LuaKernel>::at(a, kHandle).kernel.last();
       if (a.boolean(2)) compile_grid(k, 90);
       return a.push(grid::cuda_text(k));
     }},
    {"grid_misfit(kernel)",
     "Why a launch failed: the number of results, or the index of a tensor for booleans, or of one for floats.",
     [](Args& a) {
       const grid::GridMisfit& m = Userdata<LuaKernel>::at(a, kHandle).kernel.misfit();
       m.values < 0 ? lua_pushnil(a.L) : lua_pushinteger(a.L, m.values);
       m.boolean < 0 ? lua_pushnil(a.L) : lua_pushinteger(a.L, m.boolean + 1);
       m.real < 0 ? lua_pushnil(a.L) : lua_pushinteger(a.L, m.real + 1);
       return 3;
     }},
    {"grid_name(kernel)", "The name of a kernel.",
     [](Args& a) { return a.push(Userdata<LuaKernel>::at(a, kHandle).functions[0].tree->name); }},
};

}  // namespace

void add_grid_kernel(lua_State* L) { add_internal(L, kKernelParts); }

}  // namespace mt::lua
