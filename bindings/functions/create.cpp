// create.cpp -- making tensors: filled, counted, random; copies and conversions
#include <cmath>

#include "bindings/functions/functions.h"
#include "engine/device.h"
#include "engine/ops.h"

namespace mt::lua {
namespace {

/// Options (dtype, device, requires_grad) that every constructor ends with, from argument i on.
struct Made {
  Dtype dtype;
  const Device& device;
  bool requires_grad;
  Made(const Args& a, int i, Dtype fallback)
      : dtype(a.dtype(i, fallback)),
        device(a.device(i + 1)),
        requires_grad(a.boolean(i + 2, false)) {}
  int push(const Args& a, const Tensor& t) const {
    if (requires_grad) t.requires_grad_();
    return a.push(t);
  }
};

template <int Value> int filled(Args& a) {
  const Made made(a, 2, default_dtype());
  return made.push(a, full(a.new_shape(1), Value, made.dtype, made.device));
}

template <Tensor (*draw)(const Shape&, Dtype, const Device&)> int drawn(Args& a) {
  const Made made(a, 2, default_dtype());
  return made.push(a, draw(a.new_shape(1), made.dtype, made.device));
}

template <int Value> int filled_like(Args& a) {
  const Tensor& x = a.tensor(1);
  const Made made(a, 2, x.dtype());
  return made.push(a, full(x.shape(), Value, made.dtype, made.device));
}

int range_body(Args& a) {
  const double first = a.number(1), last = a.number(2), step = a.number(3, 1);
  const bool whole =
      first == std::floor(first) && last == std::floor(last) && step == std::floor(step);
  const Made made(a, 4, whole ? Dtype::i64 : default_dtype());
  return made.push(a, range(first, last, step, made.dtype, made.device));
}

template <Dtype D> int converted(Args& a) { return a.push(to(a.tensor(1), D)); }

int to_body(Args& a) {
  Tensor x = a.tensor(1);
  for (int i = 2; i <= 3; ++i) {
    if (!a.given(i)) continue;
    const std::string s = a.text(i);
    if (const Dtype d = dtype_named(s); d != Dtype::none) x = to(x, d);
    else if (s == "cpu" || s.substr(0, 4) == "cuda") x = to(x, a.device(i));
    else fail("to: '{}' is neither a dtype ('float32', ..) nor a device ('cpu', 'cuda')", s);
  }
  return a.push(x);
}

#define MT_SHAPED "dtype=nil, device='cpu', requires_grad=false)"


/// Functions of the module that are not methods.
const Entry kFunctions[] = {
    {"tensor([data], " MT_SHAPED, "A tensor from a number, a boolean or nested lists.",
     [](Args& a) {
       const Made made(a, 2, Dtype::none);
       return made.push(a, to(tensor_from(a, 1, made.dtype), made.device));
     }},
    {"zeros([shape..], " MT_SHAPED, "A tensor of zeros.", filled<0>},
    {"ones([shape..], " MT_SHAPED, "A tensor of ones.", filled<1>},
    {"empty([shape..], " MT_SHAPED, "A tensor whose elements are not set.",
     [](Args& a) {
       const Made made(a, 2, default_dtype());
       return made.push(a, empty(a.new_shape(1), made.dtype, made.device));
     }},
    {"full(shape, value, " MT_SHAPED, "A tensor filled with a value; the shape is a list.",
     [](Args& a) {
       const bool boolean = lua_type(a.L, 2) == LUA_TBOOLEAN;
       const Made made(a, 3, boolean ? Dtype::b8 : default_dtype());
       const double value = boolean ? double(lua_toboolean(a.L, 2)) : a.number(2);
       return made.push(a, full(a.new_shape(1), value, made.dtype, made.device));
     }},
    {"eye(n, m=nil, " MT_SHAPED, "A matrix with ones on the diagonal.",
     [](Args& a) {
       const Made made(a, 3, default_dtype());
       const int64_t n = a.integer(1), m = a.integer(2, n);
       checked_count("eye", {n, m});
       return made.push(a, eye(n, m, made.dtype, made.device));
     }},
    {"range(first, last, step=1, " MT_SHAPED,
     "first, first + step, .. up to last, which is included.", range_body},
    {"linspace(first, last, n, " MT_SHAPED, "n numbers at equal distances, both ends included.",
     [](Args& a) {
       const Made made(a, 4, default_dtype());
       const int64_t n = a.integer(3);
       if (n < 0) fail("linspace: {} numbers are asked for", n);
       return made.push(a, linspace(a.number(1), a.number(2), n, made.dtype, made.device));
     }},
    {"rand([shape..], " MT_SHAPED, "Uniform numbers in [0, 1).", drawn<rand>},
    {"randn([shape..], " MT_SHAPED, "Normal numbers with mean 0 and deviation 1.", drawn<randn>},
    {"randint(first, last, shape, " MT_SHAPED, "Whole numbers from first to last, both included.",
     [](Args& a) {
       const Made made(a, 4, Dtype::i64);
       return made.push(
           a, randint(a.integer(1), a.integer(2), a.new_shape(3), made.dtype, made.device));
     }},
    {"randperm(n)", "The numbers 1..n in random order.",
     [](Args& a) {
       const int64_t n = a.integer(1);
       return push_positions(a, randperm(n));
     }},
    {"is_tensor(..)", "Whether a value is a tensor.",
     [](Args& a) { return a.push(tensor_at(a.L, 1) != nullptr); }},
    {"manual_seed(n)",
     "Starts the random numbers anew; the same seed gives the same numbers on every device.",
     [](Args& a) {
       const int64_t n = a.integer(1);
       manual_seed(uint64_t(n));
       return 0;
     }},
    {"set_default_dtype(dtype)", "The type of numbers without a dtype: 'float32' or 'float64'.",
     [](Args& a) {
       set_default_dtype(a.dtype(1, Dtype::f32));
       return 0;
     }},
};

/// Functions of the module that are methods of their first argument too.
const Entry kMethods[] = {
    {"clone(x)", "A copy, inside the graph.", [](Args& a) { return a.push(clone(a.tensor(1))); }},
    {"contiguous(x)", "x itself if it is contiguous, else a copy that is.",
     [](Args& a) { return a.push(contiguous(a.tensor(1))); }},
    {"to(x, target, other=nil)", "Another dtype or device: x:to('float64'), x:to('cuda').",
     to_body},
    {"type_as(x, y)", "x with the dtype of y.",
     [](Args& a) { return a.push(to(a.tensor(1), a.tensor(2).dtype())); }},
    {"float(x)", "x as float32.", converted<Dtype::f32>},
    {"double(x)", "x as float64.", converted<Dtype::f64>},
    {"long(x)", "x as int64.", converted<Dtype::i64>},
    {"int(x)", "x as int32.", converted<Dtype::i32>},
    {"byte(x)", "x as uint8.", converted<Dtype::u8>},
    {"bool(x)", "x as bool: true where it is not 0.", converted<Dtype::b8>},
    {"cpu(x)", "x in the memory of the CPU.",
     [](Args& a) { return a.push(to(a.tensor(1), cpu_device())); }},
    {"zeros_like(x, " MT_SHAPED, "Zeros of the same shape.", filled_like<0>},
    {"ones_like(x, " MT_SHAPED, "Ones of the same shape.", filled_like<1>},
    {"copy_(x, source)", "Writes source, broadcast and converted, into x.",
     [](Args& a) {
       copy_(a.tensor(1), a.tensor(2));
       return a.self();
     }},
    {"fill_(x, value)", "Sets every element.",
     [](Args& a) {
       fill_(a.tensor(1), a.number(2));
       return a.self();
     }},
    {"zero_(x)", "Sets every element to 0.",
     [](Args& a) {
       check_writable("zero_", a.tensor(1));
       fill_(a.tensor(1), 0);
       return a.self();
     }},
};

}  // namespace

void open_create(lua_State* L) {
  add(L, kFunctions);
  add_methods(L, kMethods);
}

}  // namespace mt::lua
