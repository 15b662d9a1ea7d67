// bind.h -- makes an entry's body of an engine function; its parameter types convert the arguments
//
//   {"glu(x, dim=-1)", "One half of dim times the sigmoid of the other.", bind<glu>},
//   {"ravel(x)", "..", bind<[](const Tensor& x) { return reshape(x, {-1}); }>},
//   {"masked_fill(x, mask, value)", "..", bind<masked_fill, Tensor, Tensor, Operand, InPlace>},
//   {"numel(x)", "..", bind<&Tensor::numel>},
//   {"retain_grad(x)", "..", bind<&Tensor::retain_grad> | kReturnsSelf},
// Parameter i of the function is argument i of the signature, which has the defaults; it is read as
// its own type, or as the types that follow the function, which convert to it. nil becomes
// an undefined tensor, an empty std::optional, list or shape, Dtype::none or the default device.
// Positions are 1-based in Lua and 0-based in Dim, Position and Dims. Parameters of the types const
// char* (the name of the function), int (the number in it) and InPlace are not arguments. A struct with a kShown is a
// userdata, a std::unique_ptr of it a new one; a tuple is several results.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "bindings/core/lua.h"
#include "engine/core/device.h"
#include "engine/ops/gather_scatter.h"
#include "engine/ops/random.h"
#include "engine/ops/reduce.h"

namespace mt::lua {

/// A userdata that destroys its object. T::kShown is its name in errors, and its metatable's key;
/// T::open(L), if there is one, adds the methods to the metatable on top of the stack.
template <class T> struct Userdata {
  const char* kind = T::kShown;
  std::unique_ptr<T> object;

  static T* push(lua_State* L, std::unique_ptr<T> object) {
    Userdata* h = new (lua_newuserdata(L, sizeof(Userdata))) Userdata;
    push_metatable(L);
    lua_setmetatable(L, -2);
    h->object = std::move(object);
    return h->object.get();
  }
  /// Pushes the metatable, which is created on first use.
  static void push_metatable(lua_State* L) {
    push_registered(L, T::kShown);
    if (!lua_isnil(L, -1)) return;
    lua_pop(L, 1);
    lua_createtable(L, 0, 2);
    lua_pushcfunction(L, collect);
    lua_setfield(L, -2, "__gc");
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "__metatable");
    if constexpr (requires { T::open(L); }) T::open(L);
    lua_pushvalue(L, -1);
    set_registered(L, T::kShown);
  }
  static int collect(lua_State* L) {
    if (Userdata* h = find(L, 1)) h->object.reset();
    return 0;
  }
  /// Null for other values. A userdata whose object was destroyed is empty.
  static Userdata* find(lua_State* L, int i) {
    Userdata* h = static_cast<Userdata*>(lua_touserdata(L, i));
    return h && lua_objlen(L, i) == sizeof(Userdata) && h->kind == T::kShown ? h : nullptr;
  }
  static T& at(const Args& a, int i) {
    Userdata* h = find(a.L, i);
    if (!h || !h->object) a.wrong(i, T::kShown);
    return *h->object;
  }
};

/// A tensor, or a number that will adopt the other operand's dtype.
struct Operand {
  Tensor value;
  operator const Tensor&() const { return value; }
};
/// Integers: a tensor, or the tensor of a list or a number.
struct WholeNumbers : Operand {};
/// One tensor or a list of them.
struct OneOrMore {
  TensorList list;
  operator const TensorList&() const { return list; }
};
/// Tensors as several results.
struct Several {
  TensorList list;
};
/// Positions as a result, 0-based: Lua gets them 1-based.
struct Positions {
  Tensor index;
};

/// A result, and positions if they were asked for.
using WithPositions = std::pair<Tensor, std::optional<Positions>>;
using UniqueParts = std::tuple<Tensor, std::optional<Positions>, std::optional<Tensor>>;

/// The generator at argument i; null, the default generator, if it is not given.
Generator* generator_at(const Args&, int i);

/// How an argument of a C++ type is read, and the type that its signature has.
template <class T> struct Arg;
template <class T, T (Args::*read)(int) const, unsigned kinds, bool takes_nil = false>
struct ArgBy {
  static constexpr Type type{kinds, takes_nil};
  static T get(const Args& a, int i) { return (a.*read)(i); }
};
template <> struct Arg<Tensor> : ArgBy<const Tensor&, &Args::tensor, kind::tensor, true> {};
template <> struct Arg<Operand> {
  static constexpr Type type{kind::tensor | kind::number};
  static Operand get(const Args& a, int i) { return {a.operand(i)}; }
};
template <> struct Arg<WholeNumbers> {
  static constexpr Type type{kind::tensor | kind::integer | kind::integers};
  static WholeNumbers get(const Args& a, int i);
};
template <> struct Arg<double> : ArgBy<double, &Args::number, kind::number> {};
template <> struct Arg<int64_t> : ArgBy<int64_t, &Args::integer, kind::integer> {};
template <> struct Arg<bool> : ArgBy<bool, &Args::boolean, kind::boolean> {};
template <> struct Arg<std::string> : ArgBy<std::string, &Args::text, kind::string> {};
template <> struct Arg<Dim> : ArgBy<int64_t, &Args::position, kind::integer | kind::position> {};
template <>
struct Arg<Position> : ArgBy<int64_t, &Args::position, kind::integer | kind::position> {};
template <>
struct Arg<Dims>
    : ArgBy<Shape, &Args::dims, kind::integer | kind::integers | kind::position, true> {};
template <> struct Arg<Shape> : ArgBy<Shape, &Args::shape, kind::integer | kind::integers, true> {};
template <>
struct Arg<std::vector<int64_t>>
    : ArgBy<std::vector<int64_t>, &Args::integers, kind::integer | kind::integers> {};
template <> struct Arg<TensorList> : ArgBy<TensorList, &Args::tensors, kind::tensors> {};
template <> struct Arg<OneOrMore> {
  static constexpr Type type{kind::tensor | kind::tensors};
  static OneOrMore get(const Args& a, int i) {
    return {tensor_at(a.L, i) ? TensorList{a.tensor(i)} : a.tensors(i)};
  }
};
template <>
struct Arg<std::vector<std::string>>
    : ArgBy<std::vector<std::string>, &Args::strings, kind::strings, true> {};
template <> struct Arg<Dtype> : ArgBy<Dtype, &Args::dtype, kind::dtype, true> {};
template <> struct Arg<Device> : ArgBy<const Device&, &Args::device, kind::device, true> {};
template <> struct Arg<Generator*> {
  static constexpr Type type{kind::generator, true};
  static Generator* get(const Args& a, int i) { return generator_at(a, i); }
};
template <class T> struct Arg<std::optional<T>> {
  static constexpr Type type = [] {
    Type t = Arg<T>::type;
    t.takes_nil = true;
    return t;
  }();
  static std::optional<T> get(const Args& a, int i) {
    if (!a.given(i) && !a.param(i).has_default) return std::nullopt;
    return Arg<T>::get(a, i);
  }
};
template <> struct Arg<Index> {
  static constexpr Type type{kind::tensor};
  static Index get(const Args& a, int i) { return {a.tensor(i), 1}; }
};
template <> struct Arg<std::string_view> {
  static constexpr Type type{kind::string};
  static std::string_view get(const Args& a, int i) {
    return a.defaulted(i) ? a.param(i).text : a.characters(i);
  }
};
/// The name of the called function; not an argument.
template <> struct Arg<const char*> {
  static constexpr Type type{};
  static const char* get(const Args& a, int) { return a.called().c_str(); }
};
/// The number in that name, 2 of conv2d; not an argument.
template <> struct Arg<int> {
  static constexpr Type type{};
  static int get(const Args& a, int) {
    const std::string& name = a.called();
    return name[name.find_first_of("123")] - '0';
  }
};
/// Whether the entry is the in-place form; not an argument.
template <> struct Arg<InPlace> {
  static constexpr Type type{};
  static InPlace get(const Args& a, int) { return {a.entry().in_place}; }
};
template <class T>
requires requires { T::kShown; }
struct Arg<T> {
  static constexpr Type type{};
  static T& get(const Args& a, int i) { return Userdata<T>::at(a, i); }
};
/// An enum with the values 0, 1, .. and the names of `names_of(E)`.
template <class E>
requires std::is_enum_v<E>
struct Arg<E> {
  static constexpr auto names = names_of(E());
  static constexpr Type type{kind::any, false, names.data(), int(names.size())};
  static E get(const Args& a, int i) { return E(a.choice(i)); }
};

/// Pushes tensors as several results.
int push_all(const Args&, const TensorList&);
/// Pushes 0-based positions as the user counts them.
int push_positions(const Args&, const Tensor& index);
/// Pushes a result, or for an in-place form writes it into argument 1 and pushes that.
int push_or_write(const Args&, const Tensor& result);
/// Pushes values and their positions.
int push_result(const Args&, ValuesIndices);
template <class T> int push_result(const Args& a, std::unique_ptr<T> made) {
  return Userdata<T>::push(a.L, std::move(made)), 1;
}

template <class T> constexpr bool is_optional = false;
template <class T> constexpr bool is_optional<std::optional<T>> = true;

/// Pushes the results of an engine function; an optional one without a value is not a result.
template <class R> int push_result(const Args& a, const R& result) {
  if constexpr (std::is_same_v<R, Tensor>)
    return a.entry().in_place ? push_or_write(a, result) : a.push(result);
  else if constexpr (std::is_same_v<R, Positions>) return push_positions(a, result.index);
  else if constexpr (std::is_same_v<R, Several>) return push_all(a, result.list);
  else if constexpr (requires { a.push(result); }) return a.push(result);
  else if constexpr (is_optional<R>) return result ? push_result(a, *result) : 0;
  else if constexpr (requires { std::tuple_size<R>(); })
    return std::apply(
        [&](const auto&... x) {
          int n = 0;
          return ((n += push_result(a, x)), ...), n;
        },
        result);
  else if constexpr (requires { R{Tensor(), Tensor(), Tensor(), Tensor()}; }) {
    const auto& [x, y, z, w] = result;
    return a.push(x, y, z, w);
  } else if constexpr (requires { R{Tensor(), Tensor(), Tensor()}; }) {
    const auto& [x, y, z] = result;
    return a.push(x, y, z);
  } else {
    const auto& [x, y] = result;
    return push_result(a, x) + push_result(a, y);
  }
}

/// The type of a function's result in a signature; "tensor?" is optional.
template <class R> constexpr const char* result_text() {
  if constexpr (std::is_void_v<R>) return "";
  else if constexpr (std::is_same_v<R, Tensor> || std::is_same_v<R, Positions>) return "tensor";
  else if constexpr (std::is_same_v<R, bool>) return "bool";
  else if constexpr (std::is_integral_v<R>) return "int";
  else if constexpr (std::is_floating_point_v<R>) return "number";
  else if constexpr (std::is_same_v<R, std::string>) return "string";
  else if constexpr (std::is_same_v<R, Shape>) return "ints";
  else if constexpr (std::is_same_v<R, TensorList>) return "tensors";
  else if constexpr (std::is_same_v<R, WithPositions>) return "tensor, tensor?";
  else if constexpr (std::is_same_v<R, UniqueParts>) return "tensor, tensor?, tensor?";
  else if constexpr (requires { R{Tensor(), Tensor(), Tensor(), Tensor()}; })
    return "tensor, tensor, tensor, tensor";
  else if constexpr (requires { R{Tensor(), Tensor(), Tensor()}; }) return "tensor, tensor, tensor";
  else if constexpr (requires { R{Tensor(), Tensor()}; }) return "tensor, tensor";
  else if constexpr (is_optional<R>) return result_text<typename R::value_type>();
  else return nullptr;
}

template <class T>
constexpr bool is_argument =
    !std::is_same_v<T, const char*> && !std::is_same_v<T, int> && !std::is_same_v<T, InPlace>;

/// The body of a function with the result R, whose arguments are read as the types A.
template <auto fn, class R, class... A> struct Bound {
  static constexpr int count = (0 + ... + is_argument<A>);
  static constexpr auto types = [] {
    std::array<Type, count + 1> list;
    [[maybe_unused]] size_t n = 0;
    ((list[n] = Arg<A>::type, n += is_argument<A>), ...);
    return list;
  }();
  /// The index of the argument for parameter k.
  static constexpr int place(size_t k) {
    constexpr bool from_call[] = {is_argument<A>..., false};
    int at = 1;
    for (size_t i = 0; i < k; ++i) at += from_call[i];
    return at;
  }

  static constexpr const char* results = result_text<std::remove_cvref_t<R>>();
  static constexpr bool returns_first =
      std::is_reference_v<R> && (std::is_same_v<std::remove_cvref_t<R>, A> || ...);

  /// Braces guarantee evaluation from left to right, so that the first wrong argument is reported.
  struct Call {
    int results;
    template <class... X> Call(Args& a, X&&... x) {
      if constexpr (std::is_void_v<R>) {
        fn(std::forward<X>(x)...);
        results = a.entry().body.facts & kReturnsSelf ? a.self() : 0;
      } else if constexpr (returns_first) {  // which is written in place
        fn(std::forward<X>(x)...);
        results = a.self();
      } else if constexpr ((std::is_same_v<A, InPlace> || ...)) {
        const auto& result = fn(std::forward<X>(x)...);
        results = a.entry().in_place ? a.self() : a.push(result);
      } else {
        results = push_result(a, fn(std::forward<X>(x)...));
      }
    }
  };
  template <size_t... I> static int run(Args& a, std::index_sequence<I...>) {
    return Call{a, Arg<A>::get(a, place(I))...}.results;
  }
  static int body(Args& a) { return run(a, std::index_sequence_for<A...>()); }
};

template <auto fn, class... As, class R, class... A> constexpr Body body_of(R (*)(A...)) {
  using B = std::conditional_t<sizeof...(As) == 0, Bound<fn, R, std::remove_cvref_t<A>...>,
                               Bound<fn, R, As...>>;
  return {&B::body, B::types.data(), B::count, B::results};
}
template <auto fn, class... As, class R, class T, class... A>
constexpr Body body_of(R (T::*)(A...) const) {
  constexpr auto call = [](const T& x, A... a) -> R { return (x.*fn)(a...); };
  return body_of<call, As...>(+call);
}
template <auto fn> constexpr auto pointer_to() {
  if constexpr (std::is_member_function_pointer_v<decltype(fn)>) return fn;
  else return +fn;
}
template <auto fn, class... As> constexpr Body bind = body_of<fn, As...>(pointer_to<fn>());

/// The types of a body that reads its arguments: takes<Tensor, std::optional<Dim>>(squeeze_body).
template <class... A> Body takes(int (*body)(Args&), const char* results = "tensor") {
  static constexpr Type types[] = {Arg<A>::type...};
  return {body, types, int(sizeof...(A)), results};
}

}  // namespace mt::lua
