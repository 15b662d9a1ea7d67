// functions.cpp -- the functions of tensors that Lua sees: signature, help, and the engine function
// behind each
#include <deque>

#include "bindings/module.h"
#include "engine/autograd.h"
#include "engine/device.h"
#include "engine/gradcheck.h"

namespace mt::lua {
namespace {

// ---- elementwise: one body for every operation of kernels/ops.h ---------------------------------

int elementwise_body(Args& a) {
  const Entry& e = a.entry();
  const OpRow& row = op_row(e.op);
  Tensor operand[op::kMaxInputs];
  const Tensor* input[op::kMaxInputs];
  for (int i = 0; i < row.inputs; ++i) {
    const Tensor* t = tensor_at(a.L, i + 1);
    if (!t) operand[i] = a.operand(i + 1), t = &operand[i];
    input[i] = t;
  }
  double params[op::kMaxParams] = {};
  for (int i = 0; i < row.params; ++i)
    params[i] = a.number(row.inputs + i + 1, row.info->params[i].value);
  if (!e.in_place) return a.push(elementwise(e.op, input, params));
  a.tensor(1);
  elementwise_(e.op, input, params);
  return a.self();
}

std::string op_signature(const OpRow& row, bool in_place) {
  static const char* const names[][3] = {
      {"x"}, {"x", "y"}, {"x", "y", "z"}, {"condition", "x", "y"}};
  const auto& inputs = names[row.mask_first ? 3 : row.inputs - 1];
  std::string s = fmt::format("{}{}(", row.info->name, in_place ? "_" : "");
  for (int i = 0; i < row.inputs; ++i) s += fmt::format("{}{}", i ? ", " : "", inputs[i]);
  for (int i = 0; i < row.params; ++i) {
    const op::Param& p = row.info->params[i];
    s += p.required ? fmt::format(", {}", p.name) : fmt::format(", {}={}", p.name, p.value);
  }
  return s + ")";
}

struct Generated {
  std::string signature, doc;
  Entry entry;
};

/// The entries of all elementwise operations, and of their forms in place.
const std::deque<Generated>& generated() {
  static const std::deque<Generated>* const list = [] {
    auto* all = new std::deque<Generated>;
    for (int i = 0; i < kOps; ++i) {
      const OpRow& row = op_row(i);
      for (const bool in_place : {false, true}) {
        if (in_place && (row.mask_first || row.answers_bool)) continue;
        Generated& g = all->emplace_back();
        g.signature = op_signature(row, in_place);
        g.doc = fmt::format("{}{}.", row.info->doc, in_place ? ", written into x" : "");
        g.entry.signature = g.signature.c_str(), g.entry.doc = g.doc.c_str();
        g.entry.body = &elementwise_body, g.entry.op = i, g.entry.in_place = in_place;
      }
    }
    return all;
  }();
  return *list;
}

// ---- making -------------------------------------------------------------------------------------

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

// ---- reductions ---------------------------------------------------------------------------------

template <Tensor (*reduce)(const Tensor&, const Shape&, bool)> int reduced(Args& a) {
  return a.push(reduce(a.tensor(1), a.dims(2), a.boolean(3, false)));
}

/// all and any: a Lua boolean for the whole tensor, a tensor along a dimension.
template <Tensor (*reduce)(const Tensor&, const Shape&, bool)> int asked(Args& a) {
  const Tensor answer = reduce(a.tensor(1), a.dims(2), a.boolean(3, false));
  if (a.given(2)) return a.push(answer);
  return a.push(answer.item() != 0);
}

template <Tensor (*find)(const Tensor&, std::optional<int64_t>, bool)> int found(Args& a) {
  std::optional<int64_t> dim;
  if (a.given(2)) dim = a.position(2);
  return push_positions(a, find(a.tensor(1), dim, a.boolean(3, false)));
}

/// max and min: of everything one tensor; along a dimension values and positions; of two tensors
/// elementwise.
template <int Op, Tensor (*extreme)(const Tensor&, const Shape&, bool),
          Tensor (*find)(const Tensor&, std::optional<int64_t>, bool)>
int extremes(Args& a) {
  const Tensor& x = a.tensor(1);
  if (!a.given(2)) {
    if (x.numel() == 0) fail("{}: {} is empty", signature_of(a.entry()).name, to_string(x.shape()));
    return a.push(extreme(x, {}, false));
  }
  if (const Tensor* y = tensor_at(a.L, 2)) {
    const Tensor* inputs[] = {&x, y};
    return a.push(elementwise(Op, inputs));
  }
  const bool keepdim = a.boolean(3, false);
  const std::string& name = signature_of(a.entry()).name;
  const int d = wrap_dim(name.c_str(), a.position(2), x.dim());
  if (x.dim() > 0 && x.size(d) == 0)
    fail("{}: {} has no elements along dimension {}, and nothing has no {}", name,
         to_string(x.shape()), d + 1, name);
  const Tensor index = find(x, d, true);
  Tensor values = x.dim() ? gather(x, d, index) : x;
  a.push(keepdim || !x.dim() ? values : squeeze(values, d));
  push_positions(a, keepdim || !x.dim() ? index : squeeze(index, d));
  return 2;
}

// ---- losses and gradients -----------------------------------------------------------------------

Reduction reduction(const Args& a, int i) {
  if (!a.given(i)) return Reduction::mean;
  const std::string s = a.text(i);
  if (s == "mean") return Reduction::mean;
  if (s == "sum") return Reduction::sum;
  if (s == "none") return Reduction::none;
  fail("{}: reduction is '{}'; use 'mean', 'sum' or 'none'", signature_of(a.entry()).name, s);
}

/// Calls argument 1 with the arguments after it; recording stays off until it returns or fails.
int no_grad_body(Args& a) {
  a.function(1);
  NoGrad off;
  lua_call(a.L, a.count() - 1, LUA_MULTRET);
  return lua_gettop(a.L);
}

TensorFunction lua_function(const Args& a, int i) {
  lua_State* L = a.L;
  return [L, i](const std::vector<Tensor>& inputs) {
    lua_pushvalue(L, i);
    for (const Tensor& t : inputs) push_tensor(L, t);
    lua_call(L, int(inputs.size()), 1);
    const Tensor* out = tensor_at(L, -1);
    if (!out) fail("gradcheck: the function must return a tensor, it returned {}", describe(L, -1));
    const Tensor result = *out;
    lua_pop(L, 1);
    return result;
  };
}

template <void (*check)(const TensorFunction&, const std::vector<Tensor>&, const GradcheckOptions&)>
int gradcheck_body(Args& a) {
  a.function(1);
  const std::vector<Tensor> inputs =
      tensor_at(a.L, 2) ? std::vector<Tensor>{a.tensor(2)} : a.tensors(2);
  check(lua_function(a, 1), inputs, {a.number(3, 1e-6), a.number(4, 1e-5), a.number(5, 1e-3)});
  return a.push(true);
}

bool close(const Tensor& x, const Tensor& y, double rtol, double atol, bool equal_nan) {
  NoGrad off;
  broadcast("allclose", x.shape(), y.shape());
  const Tensor a = to(x, Dtype::f64), b = to(y, Dtype::f64);
  const Tensor same = eq(a, b);
  const Tensor near = le(abs(a - b), Tensor(atol) + Tensor(rtol) * abs(b));
  Tensor ok = logical_or(same, logical_and(near, isfinite(b)));
  if (equal_nan) ok = logical_or(ok, logical_and(isnan(a), isnan(b)));
  return all(ok).item() != 0;
}

int allclose_body(Args& a) {
  return a.push(
      close(a.tensor(1), a.tensor(2), a.number(3, 1e-5), a.number(4, 1e-8), a.boolean(5, false)));
}

int test_close_body(Args& a) {
  const double eps = a.number(3, 1e-5);
  NoGrad off;
  broadcast("test_close", a.tensor(1).shape(), a.tensor(2).shape());
  const Tensor x = to(a.tensor(1), Dtype::f64), y = to(a.tensor(2), Dtype::f64);
  const Tensor bad = logical_not(lt(abs(x - y), Tensor(eps)));
  const int64_t n = int64_t(sum(bad).item());
  if (n > 0) {
    const Tensor flat = reshape(bad, {-1});
    const int64_t first = int64_t(argmax(flat).item());
    const Tensor xs = reshape(expand(x, bad.shape()), {-1}),
                 ys = reshape(expand(y, bad.shape()), {-1});
    fail("test_close: {} of {} elements differ by {} or more; the first is number {}: {} and {}", n,
         bad.numel(), eps, first + 1, xs.at(first), ys.at(first));
  }
  return 0;
}

int equal_body(Args& a) {
  const Tensor &x = a.tensor(1), &y = a.tensor(2);
  NoGrad off;
  return a.push(x.shape() == y.shape() && all(eq(x, y)).item() != 0);
}

// ---- conversions --------------------------------------------------------------------------------

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
    {"cat([tensors], dim=1)", "Joins tensors along a dimension.",
     [](Args& a) { return a.push(cat(a.tensors(1), a.given(2) ? a.position(2) : 0)); }},
    {"stack([tensors], dim=1)", "Joins tensors of one shape along a new dimension.",
     [](Args& a) { return a.push(stack(a.tensors(1), a.given(2) ? a.position(2) : 0)); }},
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
    {"no_grad(fn, ..)", "Calls fn with the arguments, without recording; returns its results.",
     no_grad_body},
    {"set_grad_enabled(enabled)", "Switches recording on or off; returns the old state.",
     [](Args& a) {
       const bool on = a.boolean(1, true);
       return a.push(set_grad_enabled(on));
     }},
    {"is_grad_enabled()", "Whether operations are recorded.",
     [](Args& a) { return a.push(grad_enabled()); }},
    {"gradcheck(fn, inputs, eps=1e-6, atol=1e-5, rtol=1e-3)",
     "Compares the gradients of fn(inputs..), all float64, with finite differences; an error where "
     "they differ.",
     gradcheck_body<gradcheck>},
    {"gradgradcheck(fn, inputs, eps=1e-6, atol=1e-5, rtol=1e-3)",
     "The same for the gradients of the gradients.", gradcheck_body<gradgradcheck>},
    {"test_close(a, b, eps=1e-5)", "An error where two tensors differ by eps or more.",
     test_close_body},
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
    {"view(x, [shape..])",
     "The same elements in another shape, without a copy; -1 for one size that follows.",
     [](Args& a) { return a.push(view(a.tensor(1), a.shape(2))); }},
    {"reshape(x, [shape..])", "The same elements in another shape, copied where they must be.",
     [](Args& a) { return a.push(reshape(a.tensor(1), a.shape(2))); }},
    {"flatten(x, first=1, last=-1)", "Joins dimensions first to last into one.",
     [](Args& a) {
       return a.push(
           flatten(a.tensor(1), a.given(2) ? a.position(2) : 0, a.given(3) ? a.position(3) : -1));
     }},
    {"permute(x, [dims..])", "The dimensions in another order.",
     [](Args& a) { return a.push(permute(a.tensor(1), a.dims(2))); }},
    {"transpose(x, dim1, dim2)", "Two dimensions exchanged.",
     [](Args& a) { return a.push(transpose(a.tensor(1), a.position(2), a.position(3))); }},
    {"t(x)", "The transposed matrix.", [](Args& a) { return a.push(t(a.tensor(1))); }},
    {"expand(x, [shape..])", "Sizes of 1 repeated without a copy; -1 keeps a size.",
     [](Args& a) { return a.push(expand(a.tensor(1), a.shape(2))); }},
    {"expand_as(x, y)", "x expanded to the shape of y.",
     [](Args& a) { return a.push(expand(a.tensor(1), a.tensor(2).shape())); }},
    {"squeeze(x, dim=nil)", "Without the dimensions of size 1, or without one of them.",
     [](Args& a) {
       return a.push(a.given(2) ? squeeze(a.tensor(1), a.position(2)) : squeeze(a.tensor(1)));
     }},
    {"unsqueeze(x, dim)", "With a new dimension of size 1.",
     [](Args& a) { return a.push(unsqueeze(a.tensor(1), a.position(2))); }},
    {"narrow(x, dim, first, length)", "A view of `length` positions of a dimension.",
     [](Args& a) {
       const Tensor& x = a.tensor(1);
       const int d = wrap_dim("narrow", a.position(2), x.dim());
       int64_t first = a.position(3);
       const int64_t length = a.integer(4), size = x.dim() > 0 ? x.size(d) : 0;
       if (first < 0) first += size;
       if (first < 0 || length < 0 || first + length > size)
         fail("narrow: {} positions from {} do not lie inside 1..{} (dimension {})", length,
              first + 1, size, d + 1);
       return a.push(slice(x, d, first, length));
     }},
    {"select(x, dim, index)", "One position of a dimension, which goes away.",
     [](Args& a) { return a.push(pick(a.tensor(1), a.position(2), a.position(3))); }},
    {"index_select(x, dim, index)", "The positions of a dimension that an integer tensor lists.",
     [](Args& a) {
       return a.push(index_select(a.tensor(1), a.position(2), from_positions(a.tensor(3))));
     }},
    {"gather(x, dim, index)", "out[i][j] = x[index[i][j]][j] along dim 1, and so on.",
     [](Args& a) {
       return a.push(gather(a.tensor(1), a.position(2), from_positions(a.tensor(3))));
     }},
    {"sum(x, [dim]=nil, keepdim=false)",
     "The sum of all elements, or along one dimension or several.", reduced<sum>},
    {"mean(x, [dim]=nil, keepdim=false)", "The mean of all elements, or along dimensions.",
     reduced<mean>},
    {"prod(x, [dim]=nil, keepdim=false)", "The product of all elements, or along dimensions.",
     reduced<prod>},
    {"amax(x, [dim]=nil, keepdim=false)", "The largest element; ties share the gradient.",
     reduced<amax>},
    {"amin(x, [dim]=nil, keepdim=false)", "The smallest element; ties share the gradient.",
     reduced<amin>},
    {"all(x, [dim]=nil, keepdim=false)",
     "Whether all are nonzero: a Lua boolean, or a bool tensor along dim.", asked<all>},
    {"any(x, [dim]=nil, keepdim=false)",
     "Whether one is nonzero: a Lua boolean, or a bool tensor along dim.", asked<any>},
    {"max(x, dim=nil, keepdim=false)",
     "The largest element; with dim values and positions; with a tensor maximum(x, y).",
     extremes<op::id<op::Maximum>, amax, argmax>},
    {"min(x, dim=nil, keepdim=false)",
     "The smallest element; with dim values and positions; with a tensor minimum(x, y).",
     extremes<op::id<op::Minimum>, amin, argmin>},
    {"argmax(x, dim=nil, keepdim=false)", "The position (from 1) of the first largest element.",
     found<argmax>},
    {"argmin(x, dim=nil, keepdim=false)", "The position (from 1) of the first smallest element.",
     found<argmin>},
    {"matmul(x, y)", "The matrix product; batches broadcast; vectors as in torch.matmul.",
     [](Args& a) { return a.push(matmul(a.tensor(1), a.tensor(2))); }},
    {"mm(x, y)", "The product of two matrices.",
     [](Args& a) {
       if (a.tensor(1).dim() != 2 || a.tensor(2).dim() != 2)
         fail("mm: two matrices are needed, got {} and {}; use matmul",
              to_string(a.tensor(1).shape()), to_string(a.tensor(2).shape()));
       return a.push(matmul(a.tensor(1), a.tensor(2)));
     }},
    {"dot(x, y)", "The sum of the products of two vectors.",
     [](Args& a) {
       if (a.tensor(1).dim() != 1 || a.tensor(2).dim() != 1)
         fail("dot: two vectors are needed, got {} and {}; use matmul",
              to_string(a.tensor(1).shape()), to_string(a.tensor(2).shape()));
       return a.push(matmul(a.tensor(1), a.tensor(2)));
     }},
    {"linear(x, weight, bias=nil)", "x . weight' + bias, with weight [out x in].",
     [](Args& a) {
       return a.push(linear(a.tensor(1), a.tensor(2), a.given(3) ? a.tensor(3) : Tensor()));
     }},
    {"softmax(x, dim)", "exp(x) / sum of exp(x) along dim.",
     [](Args& a) { return a.push(softmax(a.tensor(1), a.position(2))); }},
    {"log_softmax(x, dim)", "log of softmax, exact far out.",
     [](Args& a) { return a.push(log_softmax(a.tensor(1), a.position(2))); }},
    {"mse_loss(x, target, reduction='mean')", "The mean squared difference.",
     [](Args& a) { return a.push(mse_loss(a.tensor(1), a.tensor(2), reduction(a, 3))); }},
    {"binary_cross_entropy(x, target, reduction='mean')",
     "-log of the probability of the target, for x in 0..1.",
     [](Args& a) {
       return a.push(binary_cross_entropy(a.tensor(1), a.tensor(2), reduction(a, 3)));
     }},
    {"binary_cross_entropy_with_logits(x, target, reduction='mean')",
     "The same for raw scores, before the sigmoid.",
     [](Args& a) {
       return a.push(binary_cross_entropy_with_logits(a.tensor(1), a.tensor(2), reduction(a, 3)));
     }},
    {"cross_entropy(x, target, ignore_index=-100, reduction='mean')",
     "-log of the softmax of the target classes (from 1), for scores [n x classes].",
     [](Args& a) {
       return a.push(cross_entropy(a.tensor(1), a.tensor(2), a.integer(3, -100), reduction(a, 4)));
     }},
    {"allclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=false)",
     "Whether |x - y| <= atol + rtol |y| everywhere.", allclose_body},
    {"equal(x, y)", "Whether shapes and all elements are equal: a Lua boolean.", equal_body},
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

void add_both(lua_State* L, const Entry& e) {
  const std::string name = name_of(e);
  push_function(L, e);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, name.c_str());  // the methods, at the top
  lua_setfield(L, -3, name.c_str());  // the module, below
}

/// The operators + - * / ^ % and unary minus.
void add_operators(lua_State* L) {
  static const struct {
    const char* event;
    int op;
  } operators[] = {{"__add", op::id<op::Add>}, {"__sub", op::id<op::Sub>},
                   {"__mul", op::id<op::Mul>}, {"__div", op::id<op::Div>},
                   {"__pow", op::id<op::Pow>}, {"__mod", op::id<op::Remainder>}};
  lua_pushlightuserdata(L, const_cast<char*>(&kMetatable));
  lua_rawget(L, LUA_REGISTRYINDEX);
  for (const auto& o : operators)
    for (const Generated& g : generated())
      if (g.entry.op == o.op && !g.entry.in_place) {
        push_function(L, g.entry);
        lua_setfield(L, -2, o.event);
      }
  static const Entry negate{"neg(x, ignored=nil)", "-x.",
                            [](Args& a) { return a.push(-a.tensor(1)); }};
  push_function(L, negate);
  lua_setfield(L, -2, "__unm");
  lua_pop(L, 1);
}

}  // namespace

void open_functions(lua_State* L) {
  add(L, kFunctions);
  luaL_getmetatable(L, "mtorch.methods");
  for (const Generated& g : generated()) add_both(L, g.entry);
  for (const Entry& e : kMethods) add_both(L, e);
  lua_pop(L, 1);
  add_operators(L);
  for (const char* name : {"newaxis", "ellipsis"}) {
    lua_pushlightuserdata(L, marker(name));
    lua_setfield(L, -2, name);
  }
}

void* marker(const char* name) {
  static char newaxis, ellipsis;
  return name[0] == 'n' ? &newaxis : &ellipsis;
}

}  // namespace mt::lua
