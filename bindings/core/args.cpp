// args.cpp -- tensors as Lua values; binding, checking and converting the arguments of a call; {out=t}
#include <algorithm>
#include <cmath>

#include "bindings/core/indexing.h"
#include "bindings/open.h"
#include "engine/autograd/graph.h"
#include "engine/core/device.h"

namespace mt::lua {

// ---- tensors and lists as Lua values ------------------------------------------------------------

namespace {

/// The contents of a tensor's userdata. No other userdata has this size and these first bytes, and
/// scripts cannot make userdata.
struct Box {
  uint64_t mark = kMark;
  Tensor tensor;
  static constexpr uint64_t kMark = 0x726f736e65742174;  // "t!tensor"
};

Box* find_box(lua_State* L, int i) {
  Box* box = static_cast<Box*>(lua_touserdata(L, i));
  return box && lua_objlen(L, i) == sizeof(Box) && box->mark == Box::kMark ? box : nullptr;
}

}  // namespace

Tensor* tensor_at(lua_State* L, int i) {
  Box* const box = find_box(L, i);
  if (!box) return nullptr;
  if (!box->tensor.defined()) fail("this tensor has been collected already");
  return &box->tensor;
}

template <bool in_closure> static void push_box(lua_State* L, const Tensor& t) {
  if (!t.defined()) return lua_pushnil(L);
  Box* box = new (lua_newuserdata(L, sizeof(Box))) Box;
  if constexpr (in_closure) lua_pushvalue(L, lua_upvalueindex(2));
  else push_registered(L, &kMetatable);
  lua_setmetatable(L, -2);
  box->tensor = t;
  notify_shared(*t.impl());
}
void push_tensor(lua_State* L, const Tensor& t) { push_box<true>(L, t); }

void free_tensor(lua_State* L, int i) {
  if (Box* box = find_box(L, i)) box->tensor.reset();
}
int Args::push(const Tensor& t) const { return push_tensor(L, t), 1; }

void push_shape(lua_State* L, const Shape& shape) {
  push_list(L, shape, [L](int64_t n) { lua_pushnumber(L, double(n)); });
  luaL_getmetatable(L, "mtorch.shape");
  lua_setmetatable(L, -2);
}
int Args::push(const Shape& s) const { return push_shape(L, s), 1; }

// ---- binding arguments to parameters ------------------------------------------------------------

namespace {

/// The forms of a table argument without a metatable: f{a, b} has arguments, f{k = v} options.
struct TableForm {
  bool empty = false, first = false, named = false;  // nothing; a value at [1]; string keys
};
/// If there is a value at [1], names are searched for only with `whole`.
TableForm classify(lua_State* L, int i, bool whole) {
  TableForm look;
  if (lua_type(L, i) != LUA_TTABLE) return look;
  if (lua_getmetatable(L, i)) return lua_pop(L, 1), look;
  look.empty = true;
  lua_rawgeti(L, i, 1);
  look.first = !lua_isnil(L, -1);
  lua_pop(L, 1);
  if (look.first && !whole) return look.empty = false, look;
  for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) {
    look.empty = false;
    look.named |= lua_type(L, -2) == LUA_TSTRING;
  }
  return look;
}

}  // namespace

/// Whether it is the common case: the arguments are in their places.
bool Args::by_position(const Signature& s) const {
  const int n = lua_gettop(L);
  return n >= s.required && n <= int(s.params.size()) && !s.collects &&
         (n == 0 || lua_type(L, n) != LUA_TTABLE);
}

void Args::bind_arguments() {
  const Signature& s = signature_of(entry_);
  if (by_position(s)) lua_settop(L, int(s.params.size()));
  else place(true);
  if (s.stated) [[unlikely]]
    check_stated();
}

/// Whether argument n is a required table: then it is not options, whatever its keys are.
static bool takes_table(const Signature& s, int n) {
  if (n > int(s.params.size())) return false;
  const Param& p = s.params[n - 1];
  return !p.optional && (p.kinds & kind::table);
}

/// Without `spreads` a list is one argument, not a list of arguments.
void Args::place(bool spreads) {
  const Signature& s = signature_of(entry_);
  const int params = int(s.params.size()), n = lua_gettop(L);
  if (!spreads && by_position(s)) return lua_settop(L, params);
  auto param = [&](int i) -> const Param& { return s.params[i - 1]; };
  // A single table, f{...} or x:f{...}: named options, and a list part that is either the list
  // argument or the positional arguments.
  const bool method =
      params > 1 && (param(1).name == "self" || (param(1).name == "x" && tensor_at(L, 1)));
  const int first = n == 2 && method ? 2 : 1;
  const bool only = n == first && first <= params,
             may = !s.open && n > 0 && (n <= params + 1 || s.collects);
  const TableForm last = n > 0 ? classify(L, n, only) : TableForm{};
  const bool of_tensor = first == 2 && param(1).name == "x";  // many take {2, 3} as one argument
  if (only && spreads && !of_tensor && !param(n).list && last.first && !last.named)
    return spread(n);
  const bool alone = !s.open && only && last.named;
  const bool empty = may && n > s.required && (n > params || !param(n).list) && last.empty;
  const bool options =
      alone || empty || (may && last.named && !last.first && (only || !takes_table(s, n)));
  const int base = options ? 1 : 0;  // options are at the bottom of the stack, below the arguments
  if (options) lua_insert(L, 1);
  if (alone) {
    const int length = int(lua_objlen(L, 1));
    lua_getfield(L, 1, param(first).name.c_str());
    const bool named = !lua_isnil(L, -1);
    lua_pop(L, 1);
    const bool as_list = param(first).list && (length > 0 || (param(first).collect && !named));
    if (!as_list && length > params)
      fail("{}: {} arguments given, it takes {}: {}", s.name, length, params, s.text);
    luaL_checkstack(L, params + 8, "too many arguments");
    if (as_list) lua_createtable(L, length, 0);
    for (int i = 1; i <= length; ++i) {
      lua_rawgeti(L, 1, i);
      if (as_list) lua_rawseti(L, -2, i);
    }
  }
  int collected = 0;  // the number of values collected into the list at the end of the signature
  for (int i = 1; i <= std::min(params, 2); ++i) {
    const bool none = param(i).kinds & kind::tensors && lua_gettop(L) == base + i - 1;
    if (!param(i).collect || (!none && !is_item(param(i), base + i))) continue;
    collect(param(i), base + i);
    if (i == params) collected = int(lua_objlen(L, base + i));
  }
  const int positional = lua_gettop(L) - base;
  if (positional > params && collected > 0)  // values of one type, then another one
    fail("{}: argument {} must be {}, got {}", s.name, collected + params,
         param(params).kinds & kind::tensors ? "a tensor" : "an integer",
         describe(L, base + params + 1));
  if (positional > params && !s.open)
    fail("{}: {} arguments given, it takes {}: {}{}", s.name, positional, params, s.text,
         hint_of_surplus(L, -1));
  if (!s.open || positional < params) lua_settop(L, base + params);
  if (options) bind_named();
  require_all();
}

/// Spreads the entries of the list at the top, f{3, 4}, over the argument positions.
void Args::spread(int at) {
  const Signature& s = signature_of(entry_);
  const int length = int(lua_objlen(L, at)), room = int(s.params.size()) - at + 1;
  if (length > room && !s.open && !s.collects)
    fail("{}: {} arguments given, it takes {}: {}", s.name, length, room, s.text);
  luaL_checkstack(L, length + 1, "too many arguments");
  for (int k = 1; k <= length; ++k) lua_rawgeti(L, at, k);
  lua_remove(L, at);
  place(false);
}

void Args::require_all() const {
  const Signature& s = signature_of(entry_);
  for (int i = 1; i <= int(s.params.size()); ++i) {
    const Param& p = s.params[i - 1];
    if (p.optional || !lua_isnil(L, i)) continue;
    if (i == 1 && p.name == "x")
      fail(
          "{}: argument 1 must be a tensor, got nothing; methods are called with a colon, x:{}(..)",
          s.name, s.name);
    if (i > 1 && s.params[0].name == "x" && !tensor_at(L, 1) && lua_type(L, 1) != LUA_TTABLE)
      fail("{}: argument {} '{}' is missing; methods are called with a colon, x:{}(..)", s.name, i,
           p.name, s.name);
    fail("{}: argument {} '{}' is missing: {}", s.name, i, p.name, s.text);
  }
}

/// Whether the value at a stack index is one of those that a parameter collects: tensors, or numbers.
bool Args::is_item(const Param& p, int i) const {
  return p.kinds & kind::tensors ? tensor_at(L, i) != nullptr : lua_type(L, i) == LUA_TNUMBER;
}

/// Collects the values from stack index `at` on into one list.
void Args::collect(const Param& p, int at) {
  int end = at;
  while (is_item(p, end)) ++end;
  lua_createtable(L, end - at, 0);
  for (int k = at; k < end; ++k) {
    lua_pushvalue(L, k);
    lua_rawseti(L, -2, k - at + 1);
  }
  lua_insert(L, at);
  for (int k = at; k < end; ++k) lua_remove(L, at + 1);
}

/// Moves the options at stack index 1 to the positions of their names, which are above them, and `out` to the top.
void Args::bind_named() {
  const Signature& s = signature_of(entry_);
  each_named(L, 1, [&](const std::string& key) {
    if (s.out && key == "out") return;
    int place = 0;
    std::vector<std::string> names;
    for (const Param& p : s.params) {
      names.push_back(p.name);
      if (p.name == key) place = int(names.size());
    }
    if (!place) {
      const std::string said = advice(L, s.name, key, names);
      for (size_t k = 0; k < s.params.size() && said.empty(); ++k)
        if (s.params[k].kinds == kind::table && lua_isnil(L, int(k) + 2))
          fail(
              "{0}: unknown option '{1}'; a table of {2} is given by its name, {{{2} = {{{1} = ..}}}}",
              s.name, key, s.params[k].name);
      fail("{}: unknown option '{}'{}", s.name, key,
           said.empty() ? fmt::format("; it takes {}", s.text) : said);
    }
    if (!lua_isnil(L, 1 + place))
      fail("{}: '{}' is given twice, by position and by name", s.name, key);
    lua_pushvalue(L, -1);
    lua_replace(L, 1 + place);
  });
  if (s.out) {
    lua_getfield(L, 1, "out");
    if (lua_isnil(L, -1)) lua_pop(L, 1);
    else out_ = int(s.params.size()) + 1;
  }
  lua_remove(L, 1);
}

/// Pushes the default as the user would have passed it.
static void push_default(lua_State* L, const Param& p) {
  const std::string& text = p.default_text;
  if (text[0] == '\'') {
    lua_pushstring(L, p.text.c_str());
  } else if (text == "true" || text == "false") {
    lua_pushboolean(L, p.boolean);
  } else if (text[0] == '{') {
    luaL_loadstring(L, ("return " + text).c_str());
    lua_call(L, 0, 1);
  } else {
    lua_pushnumber(L, p.number);
  }
}

// ---- one argument -------------------------------------------------------------------------------

std::string Args::name(int i) const {
  const Signature& s = signature_of(entry_);
  return i <= int(s.params.size()) ? fmt::format("argument {} '{}'", i, s.params[i - 1].name)
                                   : fmt::format("argument {}", i);
}

void Args::wrong(int i, const std::string& expected) const {
  const std::vector<Param>& params = signature_of(entry_).params;
  const bool dot = i == 1 && !params.empty() && params[0].name == "x";
  fail("{}: {} must be {}, got {}{}", called(), name(i), expected, describe(L, i),
       dot ? fmt::format("; methods are called with a colon, x:{}(..)", called()) : "");
}

/// Throws an Error for an argument that does not have the signature's type.
void Args::refuse(int i) const {
  const Param& p = param(i);
  if (lua_type(L, i) == LUA_TSTRING) {
    if (p.kinds == kind::dtype) dtype(i);
    if (p.kinds == kind::device) device(i);
    if (!p.choices.empty() && p.kinds == kind::any)
      fail("{}: {} is '{}'; use {}", called(), p.name, text(i), p.expected());
  }
  if (!p.stated) wrong(i, p.expected());
  fail("{}: {} must be {}, got {}", called(), p.name, p.expected(), describe(L, i));
}

bool Args::fits(const Param& p, int i) const {
  if (p.kinds == kind::any && p.choices.empty()) return true;
  const auto is = [&p](unsigned kinds) { return (p.kinds & kinds) != 0; };
  const auto all = [&](bool (*good)(lua_State*)) {
    bool fit = true;
    each_entry(L, i, [&](int) { fit = fit && good(L); });
    return fit;
  };
  switch (lua_type(L, i)) {
    case LUA_TBOOLEAN: return is(kind::boolean);
    case LUA_TNUMBER: {
      const double x = lua_tonumber(L, i);
      return is(kind::text) || (is(kind::number) && p.holds(x)) ||
             (is(kind::integer) && p.holds(x) && x == std::floor(x) && std::isfinite(x));
    }
    case LUA_TSTRING: {
      const std::string s = lua_tostring(L, i);
      return is(kind::string | kind::text) || (is(kind::dtype) && dtype_named(s) != Dtype::none) ||
             (is(kind::device) && (device(i), true)) ||
             std::ranges::find(p.choices, s) != p.choices.end();
    }
    case LUA_TFUNCTION: return is(kind::function);
    case LUA_TTABLE: break;
    default: return (is(kind::tensor | kind::list) && tensor_at(L, i)) || is(kind::generator);
  }
  if (is(kind::table | kind::list)) return true;
  if (is(kind::function) && luaL_getmetafield(L, i, "__call")) return lua_pop(L, 1), true;
  using State = lua_State;
  return (is(kind::tensors) && all([](State* l) { return tensor_at(l, -1) != nullptr; })) ||
         (is(kind::strings) && all([](State* l) { return lua_type(l, -1) == LUA_TSTRING; })) ||
         (is(kind::numbers) && all([](State* l) { return lua_type(l, -1) == LUA_TNUMBER; })) ||
         (is(kind::integers) && all([](State* l) {
            const double x = lua_tonumber(l, -1);
            return lua_type(l, -1) == LUA_TNUMBER && x == std::floor(x);
          }));
}

void Args::check_stated() const {
  require_all();
  const Signature& s = signature_of(entry_);
  for (int i = 1; i <= int(s.params.size()); ++i) {
    const Param& p = s.params[i - 1];
    if (!p.stated) continue;
    if (given(i)) {
      if (!fits(p, i)) refuse(i);
    } else if (p.has_default) {
      push_default(L, p);
      lua_replace(L, i);
    }
  }
}

const Tensor& Args::tensor(int i) const {
  static const Tensor none;
  if (const Tensor* t = tensor_at(L, i)) return *t;
  if (given(i) || !param(i).optional) wrong(i, "a tensor");
  return none;
}

Tensor Args::operand(int i) const {
  if (lua_type(L, i) == LUA_TNUMBER) return Tensor(lua_tonumber(L, i));
  if (lua_type(L, i) == LUA_TBOOLEAN) return scalar(lua_toboolean(L, i), Dtype::b8);
  const Tensor* t = tensor_at(L, i);
  if (!t) wrong(i, "a tensor or a number");
  return *t;
}

double Args::number(int i) const {
  if (lua_type(L, i) == LUA_TNUMBER) return lua_tonumber(L, i);
  if (!defaulted(i)) wrong(i, "a number");
  return param(i).number;
}

int64_t Args::to_integer(int index, int argument, int entry) const {
  const double x = lua_tonumber(L, index);
  const bool number = lua_type(L, index) == LUA_TNUMBER, large = std::fabs(x) > 9007199254740992.0;
  if (number && x == std::floor(x) && !large) return int64_t(x);
  const std::string where = entry > 0 ? fmt::format("entry {} of ", entry) : "";
  fail("{}: {}{} must be an integer{}, got {}", called(), where, name(argument),
       number && large ? " within 2^53" : "", describe(L, index));
}
int64_t Args::integer(int i) const {
  return defaulted(i) ? int64_t(param(i).number) : to_integer(i, i);
}

bool Args::boolean(int i) const {
  if (lua_type(L, i) == LUA_TBOOLEAN) return lua_toboolean(L, i);
  if (!defaulted(i)) wrong(i, "true or false");
  return param(i).boolean;
}

int Args::choice(int i) const {
  const Param& p = param(i);
  if (defaulted(i)) return p.choice;
  const char* s = lua_type(L, i) == LUA_TSTRING ? lua_tostring(L, i) : nullptr;
  for (size_t k = 0; s && k < p.choices.size(); ++k)
    if (p.choices[k] == s) return int(k);
  refuse(i);
}

std::string Args::text(int i) const {
  return std::string(defaulted(i) ? param(i).text : characters(i));
}

std::string_view Args::characters(int i) const {
  if (lua_type(L, i) != LUA_TSTRING) wrong(i, "a string");
  return text_at(L, i);
}

int64_t zero_based(const std::string& operation, int64_t position) {
  if (position == 0)
    fail("{}: 0 is not a position; positions count from 1, and from -1 at the end", operation);
  return position > 0 ? position - 1 : position;
}

Tensor scalar_like(const std::string& operation, double x, const Tensor& like) {
  check_value(operation.c_str(), x, like.dtype());
  return scalar(x, like.dtype(), like.device());
}

int64_t Args::position(int i) const { return zero_based(called(), integer(i)); }

std::vector<int64_t> Args::integers(int i) const {
  std::vector<int64_t> list;
  if (lua_type(L, i) == LUA_TNUMBER) return {integer(i)};
  if (lua_type(L, i) != LUA_TTABLE) wrong(i, "an integer or a list of integers");
  const int n = int(lua_objlen(L, i));
  if (has_other_keys(L, i, n)) check_keys(L, i, n, called().c_str(), name(i));
  each_entry(L, i, [&](int k) { list.push_back(to_integer(-1, i, n > 1 ? k : 0)); });
  return list;
}

Shape Args::shape(int i) const {
  if (!given(i) && param(i).optional) return param(i).shape;
  return numbers_of_dims(i, "asked for");
}

/// A list of integers, one for each of some dimensions.
Shape Args::numbers_of_dims(int i, const char* what) const {
  const std::vector<int64_t> list = integers(i);
  if (list.size() > kMaxDims)
    fail("{}: {} dimensions are {}, a tensor has at most {}", called(), list.size(), what,
         kMaxDims);
  return Shape(list.data(), int(list.size()));
}

Shape Args::new_shape(int i) const {
  const Shape s = shape(i);
  checked_count(called().c_str(), s);
  return s;
}

Shape Args::dims(int i) const {
  if (!given(i) && param(i).optional) return param(i).shape;
  Shape dims = numbers_of_dims(i, "named");
  for (int k = 0; k < dims.size(); ++k) dims[k] = zero_based(called(), dims[k]);
  return dims;
}

TensorList Args::tensors(int i) const {
  if (lua_type(L, i) != LUA_TTABLE) wrong(i, "a list of tensors");
  TensorList list;
  list.reserve(lua_objlen(L, i));
  if (lua_objlen(L, i) == 0 && (lua_pushnil(L), lua_next(L, i)))
    wrong(i, "a list of tensors, as net:parameters()");
  each_entry(L, i, [&](int k) {
    const Tensor* t = tensor_at(L, -1);
    if (!t)
      fail("{}: {} must be a list of tensors, entry {} is {}", called(), name(i), k,
           describe(L, -1));
    list.push_back(*t);
  });
  return list;
}

std::vector<std::string> Args::strings(int i) const {
  std::vector<std::string> list;
  const char* const expected = "a list of strings";
  if (!given(i)) return list;
  if (lua_type(L, i) != LUA_TTABLE) wrong(i, expected);
  each_entry(L, i, [&](int) {
    if (lua_type(L, -1) != LUA_TSTRING) wrong(i, expected);
    list.emplace_back(text_at(L, -1));
  });
  return list;
}

Dtype Args::dtype(int i) const {
  if (!given(i) && param(i).optional) return param(i).dtype;
  const std::string s = text(i);
  const Dtype d = dtype_named(s);
  if (d == Dtype::none) {
    std::vector<std::string> names;
    for (int k = 0; k < kDtypes; ++k) names.push_back(fmt::format("'{}'", dtype_name(Dtype(k))));
    if (s == "cpu" || s.rfind("cuda", 0) == 0)
      fail("{}: '{}' is a device, no dtype; write {{device='{}'}}", called(), s, s);
    fail("{}: '{}' is not a dtype; use {}", called(), s, one_of(names));
  }
  return d;
}

const Device& Args::device(int i) const {
  if (!given(i)) return default_device();
  if (lua_type(L, i) != LUA_TSTRING) wrong(i, "'cpu', 'cuda' or 'cuda:0'");
  const std::string wanted = text(i);
  try {
    return device_named(wanted);
  } catch (const Error& e) { fail("{}: {}", called(), e.what()); }
}

void Args::function(int i) const {
  if (lua_type(L, i) == LUA_TFUNCTION) return;
  if (lua_type(L, i) != LUA_TTABLE || !luaL_getmetafield(L, i, "__call")) wrong(i, "a function");
  lua_pop(L, 1);  // for example a module
}
void Args::table(int i) const {
  if (lua_type(L, i) != LUA_TTABLE) wrong(i, "a table");
}

int Args::call_function(int i) const {
  function(i);
  lua_call(L, count() - i, LUA_MULTRET);
  return lua_gettop(L) - i + 1;
}

// ---- {out=t}: the result of a function is written into a tensor of the caller ----------------------

static bool shares_memory(const Tensor& a, const Tensor& b) {
  return a.impl()->storage == b.impl()->storage;
}

/// Checks that the result fits before anything is written.
static void check_fits(const Tensor& out, const Tensor& made) {
  if (!(made.shape() == out.shape()))
    fail("out is {}, the result {}; they must have one shape", to_string(out.shape()),
         to_string(made.shape()));
  if (!can_hold(out.dtype(), made.dtype()))
    fail("out is {}, which cannot hold the result, {}", dtype_name(out.dtype()),
         dtype_name(made.dtype()));
  if (&out.device() != &made.device())
    fail("out is on {}, the result on {}", out.device().name, made.device().name);
}

void check_one_result(int results) {
  if (results != 1)
    fail("out=: this call has several results; take them as they are, and copy_ them");
}

int write_into(Args& a, int at, const std::function<Tensor()>& make) {
  lua_State* L = a.L;
  if (!tensor_at(L, at)) fail("out must be a tensor, got {}", describe(L, at));
  const Tensor out = *tensor_at(L, at);
  bool shares = false, recorded = out.requires_grad();
  for (int i = 1; i < at; ++i)
    if (const Tensor* t = tensor_at(L, i))
      shares |= shares_memory(*t, out), recorded |= t->requires_grad();
  if (recorded && grad_enabled())
    fail(
        "out=: a result that requires a gradient cannot be written there; omit out, or use "
        "mt.no_grad(function) around the call");
  check_writable("out", out);
  const Into into(shares ? nullptr : &out);
  if (const Tensor made = make(); !same_place(made, out)) {
    check_fits(out, made);
    copy_(out, made);
  }
  lua_pushvalue(L, at);
  return 1;
}

int run_into(Args& a, int at, int (*body)(Args&)) {
  return write_into(a, at, [&a, body] {
    check_one_result(body(a));
    const Tensor* made = tensor_at(a.L, -1);
    if (!made) fail("out=: this call returns {}, not a tensor", describe(a.L, -1));
    return *made;
  });
}

bool may_write_to(const Args& a, const Tensor* const* inputs, int n) {
  const Tensor& out = *tensor_at(a.L, a.out());
  for (int i = 0; i < n; ++i)
    if (shares_memory(*inputs[i], out) && !same_place(*inputs[i], out)) return false;
  return true;
}

}  // namespace mt::lua

namespace mt {

void tensor_to_lua(lua_State* L, const Tensor& x) { lua::push_box<false>(L, x); }
Tensor tensor_from_lua(lua_State* L, int index) {
  const Tensor* const x = lua::tensor_at(L, index);
  return x ? *x : Tensor();
}

}  // namespace mt
