// lua.h -- entries (functions visible in Lua), their checked arguments, errors at the user's line
//
// A Lua function of mtorch is an `Entry`: its signature (signature.h), its help, its body. The
// signature is used for help, by the argument checker (the number of arguments, which are optional,
// which names an option table may use) and by the generator of stubs.
#pragma once
#include <lua.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "bindings/core/signature.h"
#include "engine/core/tensor.h"
#include "engine/ops/ops.h"

namespace mt::lua {

class Args;

/// Facts of a body.
enum Fact : uint8_t {
  kKeepsNames = 1,  // errors of the functions that it calls keep their names
  kUnset = 2,       // elements of its result are uninitialised
  kWantsNumbers =
      4,  // it reads elements as numbers of Lua, which a recorded step or function refuses
  kInPlaceToo = 8,   // the registry adds the in-place form, NAME_
  kReachesOut = 16,  // it reads or changes something other than tensors: a recorded step refuses it
  kReturnsSelf = 32  // it returns its first argument
};

/// The function that an entry runs. bind<fn> adds the types of fn's parameters and results.
struct Body {
  int (*run)(Args&) = nullptr;
  const Type* types = nullptr;
  int type_count = 0;
  const char* results = nullptr;  // "tensor, tensor"
  uint8_t facts = 0;
  Body() = default;
  Body(int (*f)(Args&)) : run(f) {}  // NOLINT: implicit from a function
  template <class F>
  requires std::is_class_v<F> Body(F f) : run(f) {}  // NOLINT: or from a lambda
  constexpr Body(int (*f)(Args&), const Type* t, int n, const char* r)
      : run(f),
        types(t),
        type_count(n),
        results(r) {}
  int operator()(Args& a) const { return run(a); }
};
inline Body operator|(Body body, Fact fact) {
  body.facts |= fact;
  if (fact == kReturnsSelf && body.types && body.types[0].kinds & kind::tensor)
    body.results = "tensor";
  return body;
}

/// One function visible in Lua. `op` is the elementwise operation that it computes, or -1.
struct Entry {
  const char* signature;
  const char* doc;
  Body body;
  int op = -1;
  bool in_place = false;
  mutable std::atomic<bool> internal{false};     // of the Lua library: errors pass unchanged
  mutable std::atomic<bool> reaches_out{false};  // as kReachesOut
  mutable std::atomic<const Signature*> parsed{nullptr};
  mutable std::atomic<uint8_t> autocast_class{0};  // see autocast.h
  ~Entry();
};

/// An entry that owns its strings.
struct OwnedEntry {
  OwnedEntry(std::string s, std::string d, Body body, int op = -1, bool in_place = false)
      : signature(std::move(s)),
        doc(std::move(d)),
        entry{signature.c_str(), doc.c_str(), body, op, in_place} {}
  OwnedEntry(const OwnedEntry&) = delete;
  const std::string signature, doc;
  const Entry entry;
};

const Signature& parse_once(const Entry&);
inline const Signature& signature_of(const Entry& e) {
  const Signature* known = e.parsed.load(std::memory_order_acquire);
  return known ? *known : parse_once(e);
}
/// The name of a function: its signature up to the parenthesis.
std::string name_of(const Entry&);

inline const Param kFurther{};  // an argument after "..": it is required

inline void push_text(lua_State* L, std::string_view s) { lua_pushlstring(L, s.data(), s.size()); }
/// Pushes a list of what push(x) pushes for each x of the range.
void push_list(lua_State* L, const auto& range, const auto& push) {
  lua_createtable(L, int(std::size(range)), 0);
  int n = 0;
  for (const auto& x : range) push(x), lua_rawseti(L, -2, ++n);
}

/// The arguments of one call: `args.tensor(1)`. Every accessor checks its argument, and throws an
/// mt::Error with the argument's number, name and value. Positions of tensors' elements and
/// dimensions are 1-based in Lua and 0-based here.
class Args {
 public:
  Args(lua_State* state, const Entry& entry) : L(state), entry_(entry) {}
  /// Moves options to their positions. After this, argument i of the signature is at stack index i.
  void bind_arguments();
  /// Refuses a call without an argument that is required.
  void require_all() const;
  /// Checks the arguments whose types the signature states, and sets defaults for missing ones.
  void check_stated() const;

  lua_State* const L;
  const Entry& entry() const { return entry_; }
  /// The name of the called function.
  const std::string& called() const { return signature_of(entry_).name; }
  /// The parameter of argument i in the signature; for those after "..": that it is required.
  const Param& param(int i) const {
    const std::vector<Param>& params = signature_of(entry_).params;
    return size_t(i) <= params.size() ? params[i - 1] : kFurther;
  }
  bool given(int i) const { return !lua_isnoneornil(L, i); }
  /// Whether argument i is missing and has a default other than nil.
  bool defaulted(int i) const { return !given(i) && param(i).has_default; }
  int count() const { return lua_gettop(L); }
  /// The stack index of the tensor given as {out=t}, or 0. It is above the arguments.
  int out() const { return out_; }

  // A missing argument has the default of the signature, if that has one other than nil.
  /// A tensor; an undefined one if the argument is missing.
  const Tensor& tensor(int i) const;
  /// A tensor, or a number that will adopt the other operand's dtype.
  Tensor operand(int i) const;
  double number(int i) const;
  double number(int i, double fallback) const { return given(i) ? number(i) : fallback; }
  int64_t integer(int i) const;
  bool boolean(int i) const;
  /// The index of the parameter's choice, from 0.
  int choice(int i) const;
  std::string text(int i) const;
  std::string_view characters(int i) const;  // owned by Lua
  /// A dimension or position, 0-based; negative ones count from the end and stay negative.
  int64_t position(int i) const;
  std::vector<int64_t> integers(int i) const;
  Shape shape(int i) const;
  /// A shape for a new tensor: no size is negative, the product fits.
  Shape new_shape(int i) const;
  /// One dimension or a list of them, 0-based; empty when not given.
  Shape dims(int i) const;
  TensorList tensors(int i) const;
  /// Empty if the argument is missing.
  std::vector<std::string> strings(int i) const;
  Dtype dtype(int i) const;
  Dtype dtype(int i, Dtype fallback) const { return given(i) ? dtype(i) : fallback; }
  const Device& device(int i) const;
  void function(int i) const;
  void table(int i) const;
  /// Calls the function that is argument i with the arguments after it; returns the number of its results.
  int call_function(int i) const;

  /// Whether the value at stack index i has the type that a signature states.
  bool fits(const Param&, int i) const;
  /// "argument 2 'dim' must be an integer, got 2.7"
  [[noreturn]] void wrong(int i, const std::string& expected) const;

  int push(const Tensor&) const;
  template <class T>
  requires std::is_arithmetic_v<T>
  int push(T x) const {
    if constexpr (std::is_same_v<T, bool>) lua_pushboolean(L, x);
    else lua_pushnumber(L, double(x));
    return 1;
  }
  int push(std::string_view s) const { return push_text(L, s), 1; }
  /// Pushes a list.
  template <class T> int push(const std::vector<T>& list) const {
    return push_list(L, list, [this](const T& x) { push(x); }), 1;
  }
  /// Pushes a list of integers that prints as (2, 3) and compares with ==.
  int push(const Shape&) const;
  /// Pushes several values.
  template <class A, class B, class... C> int push(const A& x, const B& y, const C&... more) const {
    return push(x), 1 + push(y, more...);
  }
  int self() const { return lua_settop(L, 1), 1; }
  /// Sets a field of the table on top of the stack.
  void set(const char* key, const auto& value) const {
    push(value);
    lua_setfield(L, -2, key);
  }

 private:
  bool by_position(const Signature&) const;
  void place(bool spreads);
  [[noreturn]] void refuse(int i) const;
  bool is_item(const Param&, int i) const;
  void collect(const Param&, int at);
  Shape numbers_of_dims(int i, const char* what) const;
  void bind_named();
  void spread(int at);
  std::string name(int i) const;
  int64_t to_integer(int index, int argument, int entry = 0) const;
  const Entry& entry_;
  int out_ = 0;
};

/// For a call with {out=t}, t at stack index `at` above the arguments: writes the result of `make`
/// or `body` into t, and returns t.
int write_into(Args&, int at, const std::function<Tensor()>& make);
void check_one_result(int results);
int run_into(Args&, int at, int (*body)(Args&));
/// Whether an elementwise operation on these inputs can write to out directly: out overlaps none of
/// them, or is exactly one of them.
bool may_write_to(const Args&, const Tensor* const* inputs, int n);
/// The C function behind every entry. Upvalues: the entry, the tensors' metatable.
int call(lua_State* L);
/// Pushes a C function with the two upvalues that are needed for pushing tensors.
void push_closure(lua_State* L, lua_CFunction, const Entry* = nullptr);
/// The entry of a function made by push_function, or null.
const Entry* entry_at(lua_State* L, int index);
/// Pushes the function of an entry. The entry must live as long as the state.
void push_function(lua_State* L, const Entry&);
/// Adds functions to the table at the top of the stack, under their names.
template <size_t N> void add(lua_State* L, const Entry (&entries)[N]) {
  for (const Entry& e : entries) {
    push_function(L, e);
    lua_setfield(L, -2, name_of(e).c_str());
  }
}
/// The same for the Lua library's own functions, each of which is created on first use: most are never used, and
/// every cycle of the collector visits those that exist. Recorded steps may call those that use only tensors.
enum class Reach { anything, tensors };
void add_internal(lua_State* L, std::span<const Entry> entries, Reach = Reach::anything);

/// The tensor at a stack index, or null.
Tensor* tensor_at(lua_State* L, int index);
/// A dimension or position of Lua, 1-based, as the engine counts; negative ones stay. Throws Error for 0.
int64_t zero_based(const std::string& operation, int64_t position);
/// A number as a 0-d tensor of the dtype and device of `like`; throws Error if that dtype cannot hold it.
Tensor scalar_like(const std::string& operation, double, const Tensor& like);
/// Throws Error for a call with a colon, mt:zeros(3), which passes the module as the first argument.
void check_dot(lua_State* L, const Entry&);
/// Reports the tensor arguments of a function to the recorder of a step.
void report_arguments(lua_State* L);
/// To be called before elements become numbers or booleans of Lua: functions and steps that are recorded refuse it.
void check_may_read();
/// Pushes a tensor; an undefined one is nil. Only inside functions made by push_closure.
void push_tensor(lua_State* L, const Tensor&);
/// The implementation of __gc.
void free_tensor(lua_State* L, int index);
void push_shape(lua_State* L, const Shape&);
/// "2.7", "the string '12'", "a table", "nothing": a Lua value in the words of errors.
std::string describe(lua_State* L, int index);
/// The end of an error about too many arguments: the value at `index` may be a second result that a call passed on.
const char* hint_of_surplus(lua_State* L, int index);
/// Calls f(key), with the value on top of the stack, for each string key of the table at `index`, in key order.
void each_named(lua_State* L, int index, const auto& f) {
  std::vector<std::string> keys;
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1))
    if (lua_type(L, -2) == LUA_TSTRING) keys.emplace_back(lua_tostring(L, -2));
  std::ranges::sort(keys);
  for (const std::string& key : keys) {
    lua_pushlstring(L, key.data(), key.size());
    lua_rawget(L, index);
    f(key);
    lua_pop(L, 1);
  }
}
/// Calls f(k), with the value on top of the stack, for each entry 1..n of the list at `index`.
void each_entry(lua_State* L, int index, const auto& f) {
  for (int k = 1, n = int(lua_objlen(L, index)); k <= n; ++k) {
    lua_rawgeti(L, index, k);
    f(k);
    lua_pop(L, 1);
  }
}
/// The characters of a string; empty for other values.
inline std::string_view text_at(lua_State* L, int index) {
  size_t n = 0;
  const char* const s = lua_tolstring(L, index, &n);
  return {s ? s : "", n};
}
/// Pushes the value in the registry at the address `key`.
void push_registered(lua_State* L, const char* key);
/// Stores the value on top of the stack in the registry and pops it.
void set_registered(lua_State* L, const char* key);
/// A message without its less useful parts: the middle of lines of more than some hundred bytes.
std::string shortened(std::string text);
/// The nearest of the names, or "".
std::string nearest(const std::vector<std::string>& names, const std::string& name);
/// "; here it is workers", " (did you mean 'lr'?)" or "", from bindings/lua/core/advice.lua.
/// `owner` is the object without that name ("DataLoader", "tensor"), `names` are its names.
std::string advice(lua_State* L, const std::string& owner, const std::string& name,
                   const std::vector<std::string>& names);
/// Writes a sentence to stderr, once for each line of the script, about what is valid but probably not meant.
void hint(const std::string& sentence);
/// The hint at softmax or argmax along a first dimension of one element, all of whose results are the same.
void hint_single(const char* operation, const Tensor& x, int64_t dim, int result);
/// The sentence with the name of the called function: "clamp: .." for "minimum: .."
std::string named(const std::string& operation, const std::string& sentence);
/// Calls a function of mtorch.core with the values on top of the stack, which are popped; returns its text, or "" also
/// after an error.
std::string call_core(lua_State* L, const char* name, int arguments);
/// "train.lua:12: ": the user's line of the current call, with the module that it is in (lua/core/position.lua).
std::string position(lua_State* L);
/// The file of the Lua library that a frame, read with "S", is in: "nn/normalize.lua"; empty for the user's code.
std::string_view library_file(const lua_Debug& frame);
/// If a GPU is in use: stores the user's line, for later errors, or checks for errors.
void after_call(lua_State* L);
/// The Lua state of our current call on this thread, or null.
lua_State* current_state();
/// Sets the engine's hooks (engine/core/thread.h), the first time.
void set_host();
/// Whether the C stack has room for another call. Lua counts the levels of its own stack, not the
/// bytes of the C stack, which functions that call functions (no_grad, gradcheck, hooks) may use up
/// first: for example on a thread with a small one.
bool c_stack_left();
/// Runs `body`, and converts C++ exceptions to Lua errors at the user's line.
int guarded(lua_State* L, int (*body)(lua_State*));

extern const char kMetatable;  // the registry key of the tensors' metatable

// ---- core.record: a Lua function that is called before and after calls of the library (record.cpp) -

/// Whether calls of this thread are reported to a function.
extern constinit thread_local bool recording [[gnu::tls_model("initial-exec")]];

/// Runs a call whose arguments are already bound. The function is called before it with (depth,
/// name, signature, arguments..), and after it with (depth, nil, nil, results..). Its own calls are
/// not reported, and its errors are propagated to the caller.
int record_call(Args&, int (*run)(Args&));

}  // namespace mt::lua
