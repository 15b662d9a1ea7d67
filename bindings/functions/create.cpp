// create.cpp -- creating tensors: filled, ranges, random; copies and conversions
#include <cmath>

#include "bindings/functions/functions.h"

namespace mt::lua {
namespace {

template <Form form, int Value> int fill_body(Args& a) {
  const NewTensor spec(a, form);
  return spec.push(a, full(spec.shape, Value, spec.dtype, spec.device));
}

/// Fills with the number or boolean before the options.
template <Form form> int full_body(Args& a) {
  const int i = form == Form::of ? 3 : 2;
  const bool boolean = lua_type(a.L, i) == LUA_TBOOLEAN;
  const NewTensor spec(a, form, 1, boolean ? Dtype::b8 : default_dtype());
  const double value = boolean ? a.boolean(i) : a.number(i);
  return spec.push(a, full(spec.shape, value, spec.dtype, spec.device));
}

/// Elements are uninitialised; bools are zeros, because values other than 0 and 1 are undefined.
template <Form form> int empty_body(Args& a) {
  const NewTensor spec(a, form);
  return spec.push(a, spec.dtype == Dtype::b8 ? zeros(spec.shape, Dtype::b8, spec.device)
                                              : empty(spec.shape, spec.dtype, spec.device));
}

int64_t count_of(const Args& a, int i) {
  const int64_t n = a.integer(i);
  const std::string& name = a.called();
  if (n < 0) fail("{}: {} numbers were requested", name, n);
  checked_count(name.c_str(), {n});
  return n;
}

int logspace_body(Args& a) {
  const NewTensorOptions spec(a, 5, default_dtype());
  const double first = a.number(1), last = a.number(2), base = a.number(4);
  return spec.push(a, logspace(first, last, count_of(a, 3), base, spec.dtype, spec.device));
}

int frombuffer_body(Args& a) {
  const std::string_view bytes = a.characters(1);
  const Dtype dtype = a.dtype(2, default_dtype());
  const Shape shape = a.given(3) ? a.new_shape(3) : Shape();
  return a.push(from_bytes(bytes, dtype, a.given(3) ? &shape : nullptr));
}

template <bool Lower>
Positions triangle(int64_t rows, int64_t columns, int64_t offset, const Device& device) {
  return {to(triangle_indices(Lower, rows, columns, offset), device)};
}

int range_body(Args& a) {
  const double first = a.number(1), last = a.number(2), step = a.number(3);
  const bool whole =
      first == std::floor(first) && last == std::floor(last) && step == std::floor(step);
  const NewTensorOptions spec(a, 4, whole ? Dtype::i64 : default_dtype());
  return spec.push(a, range(first, last, step, spec.dtype, spec.device));
}

/// x:long(), and mt.long{1, 2}, which makes a tensor of numbers.
template <Dtype D> int convert(Args& a) {
  const Tensor* const x = tensor_at(a.L, 1);
  return a.push(x ? to(*x, D) : tensor_from(a, 1, D));
}
template <Dtype D> constexpr Body converted{convert<D>, nullptr, 0, "tensor"};

/// Converts to a dtype or a device by name.
Tensor to_named(const Args& a, int i, const Tensor& x, bool non_blocking) {
  const std::string s = a.text(i);
  if (const Dtype d = dtype_named(s); d != Dtype::none) return to(x, d);
  if (s == "cpu" || s.substr(0, 4) == "cuda") return to(x, a.device(i), non_blocking);
  fail("to: '{}' is neither a dtype ('float32', ..) nor a device ('cpu', 'cuda')", s);
}

int to_body(Args& a) {
  Tensor x = a.tensor(1);
  if (!a.given(2) && !a.given(3) && !a.given(4) && !a.given(5))
    fail("to: argument 2 'target' is missing; a dtype, a device or a tensor: x:to('float64')");
  int dtypes = a.given(4), devices = a.given(5);
  for (int i = 2; i <= 3; ++i) {
    const Tensor* like = tensor_at(a.L, i);
    if (!like && !a.given(i)) continue;
    const bool dtype = like || dtype_named(a.text(i)) != Dtype::none;
    dtypes += dtype, devices += like || !dtype;
  }
  if (dtypes > 1 || devices > 1)
    fail("to: {} is given twice", dtypes > 1 ? "the dtype" : "the device");
  for (int i = 2; i <= 3; ++i) {
    if (const Tensor* like = tensor_at(a.L, i)) x = to(to(x, like->dtype()), like->device());
    else if (a.given(i)) x = to_named(a, i, x, a.boolean(6));
  }
  x = to(x, a.dtype(4, x.dtype()));
  return a.push(a.given(5) ? to(x, a.device(5), a.boolean(6)) : x);
}

const Entry kCreateFunctions[] = {
    {"tensor([data], " MT_SHAPED ")", "A tensor from a number, a boolean or nested lists.",
     [](Args& a) {
       const NewTensorOptions spec(a, 2, Dtype::none);
       return spec.push(a, to(tensor_from(a, 1, spec.dtype), spec.device));
     }},
    {"zeros([shape..], " MT_SHAPED ")", "A tensor of zeros.", fill_body<Form::plain, 0>},
    {"ones([shape..], " MT_SHAPED ")", "A tensor of ones.", fill_body<Form::plain, 1>},
    {"empty([shape..], " MT_SHAPED ")", "A tensor with uninitialised elements.",
     empty_body<Form::plain>},
    {"full(shape, value, " MT_SHAPED ")", "A tensor filled with a value; the shape is a list.",
     full_body<Form::plain>},
    {"eye(n, m=nil, " MT_SHAPED ")", "A matrix with ones on the diagonal.",
     [](Args& a) {
       const NewTensorOptions spec(a, 3, default_dtype());
       const int64_t n = a.integer(1), m = a.given(2) ? a.integer(2) : n;
       checked_count("eye", {n, m});
       return spec.push(a, eye(n, m, spec.dtype, spec.device));
     }},
    {"range(first, last, step=1, " MT_SHAPED ")",
     "first, first + step, .. up to last, which is included; int64 if all are integers.",
     range_body},
    {"linspace(first, last, n, " MT_SHAPED ")", "n evenly spaced numbers, both ends included.",
     [](Args& a) {
       const NewTensorOptions spec(a, 4, default_dtype());
       const double first = a.number(1), last = a.number(2);
       return spec.push(a, linspace(first, last, count_of(a, 3), spec.dtype, spec.device));
     }},
    {"logspace(first, last, n, base=10, " MT_SHAPED ")",
     "base to the power of n evenly spaced exponents, both ends included.", logspace_body},
    {"frombuffer(data, dtype=nil, shape=nil)",
     "A copy of a string's bytes as elements; the size must fit the shape exactly.",
     frombuffer_body},
    {"tril_indices(rows, columns, offset=0, device=nil)",
     "The positions on and below the diagonal: (2 x n), rows above columns.", bind<triangle<true>>},
    {"triu_indices(rows, columns, offset=0, device=nil)",
     "The positions on and above the diagonal: (2 x n), rows above columns.",
     bind<triangle<false>>},
    {"is_tensor(..)", "Whether a value is a tensor.",
     [](Args& a) { return a.push(tensor_at(a.L, 1) != nullptr); }},
    {"set_default_device(device)", "Sets the device of new tensors, 'cpu' or 'cuda'.",
     bind<set_default_device>},
    {"set_default_dtype(dtype)", "Sets the dtype of new float tensors, at first 'float32'.",
     bind<set_default_dtype>},
    {"get_default_dtype()", "The dtype of new float tensors.",
     bind<[]() { return std::string(dtype_name(default_dtype())); }>},
};

const Entry kCreateMethods[] = {
    {"clone(x)", "A copy, inside the graph.", bind<clone>},
    {"contiguous(x)", "x itself if it is contiguous, else a copy that is.", bind<contiguous>},
    {"to(x, target=nil, other=nil, dtype=nil, device=nil, non_blocking=false)",
     "Another dtype or device: x:to('float64'), x:to('cuda'), or those of another tensor. A float that an "
     "integer dtype cannot hold becomes its nearest number, NaN 0. non_blocking: from "
     "page-locked memory the copy to a GPU may be incomplete; x must not change meanwhile.",
     to_body},
    {"type_as(x, y)", "x with the dtype of y.",
     bind<[](const Tensor& x, const Tensor& y) { return to(x, y.dtype()); }>},
    {"float([x])", "x as float32.", converted<Dtype::f32>},
    {"double([x])", "x as float64.", converted<Dtype::f64>},
    {"long([x])",
     "x as int64; values out of range become its limits, NaN 0. mt.long{1, 2} makes a tensor.",
     converted<Dtype::i64>},
    {"int([x])", "x as int32; floats out of range become its limits, NaN 0.",
     converted<Dtype::i32>},
    {"byte([x])", "x as uint8; floats out of range become 0 or 255, NaN 0.", converted<Dtype::u8>},
    {"short([x])", "x as int16; floats out of range become its limits, NaN 0.",
     converted<Dtype::i16>},
    {"char([x])", "x as int8; floats out of range become -128 or 127, NaN 0.",
     converted<Dtype::i8>},
    {"bool([x])", "x as bool: true where it is not 0.", converted<Dtype::b8>},
    {"cpu(x)", "x in the memory of the CPU.",
     bind<[](const Tensor& x) { return to(x, cpu_device()); }>},
    {"half([x])", "x as float16.", converted<Dtype::f16>},
    {"bfloat16([x])", "x as bfloat16.", converted<Dtype::bf16>},
    {"zeros_like(x, " MT_LIKE ")", "Zeros of the same shape.", fill_body<Form::like, 0>},
    {"ones_like(x, " MT_LIKE ")", "Ones of the same shape.", fill_body<Form::like, 1>},
    {"empty_like(x, " MT_LIKE ")", "The same shape, with uninitialised elements.",
     empty_body<Form::like> | kUnset},
    {"full_like(x, value, " MT_LIKE ")", "The same shape, filled with a value.",
     full_body<Form::like>},
    {"new_zeros(x, [shape..], " MT_LIKE ")", "Zeros with the dtype and device of x.",
     fill_body<Form::of, 0>},
    {"new_ones(x, [shape..], " MT_LIKE ")", "Ones with the dtype and device of x.",
     fill_body<Form::of, 1>},
    {"new_empty(x, [shape..], " MT_LIKE ")", "A tensor like x of another shape, uninitialised.",
     empty_body<Form::of> | kUnset},
    {"new_full(x, shape, value, " MT_LIKE ")", "A tensor like x of another shape, filled.",
     full_body<Form::of>},
    {"new_tensor(x, [data], " MT_LIKE ")", "A tensor of data with the dtype and device of x.",
     [](Args& a) {
       const Tensor& x = a.tensor(1);
       const NewTensorOptions spec(a, 3, x.dtype(), x.device());
       return spec.push(a, to(tensor_from(a, 2, spec.dtype), spec.device));
     }},
    {"copy_(x, source)", "Writes source, broadcast and converted, into x.", bind<copy_>},
    {"fill_(x, value)", "Sets every element, to a number or a 0-d tensor.",
     [](Args& a) {
       if (const Tensor* value = tensor_at(a.L, 2)) fill_(a.tensor(1), *value);
       else fill_(a.tensor(1), a.number(2));
       return a.self();
     }},
    {"zero_(x)", "Sets every element to 0.", bind<[](const Tensor& x) {
                                               check_writable("zero_", x);
                                               fill_(x, 0);
                                             }> | kReturnsSelf},
};

/// Not a function of mt, because mt.cuda is a library.
const Entry kCuda{"cuda(x)", "x in the memory of this process's GPU, 'cuda'.",
                  bind<[](const Tensor& x) { return to(x, device_named("cuda")); }>};

}  // namespace

void register_create(Registry& c) {
  c.functions(kCreateFunctions);
  c.both(kCreateMethods);
  c.method(kCuda);
}

}  // namespace mt::lua
