// elementwise.cpp -- elementwise operations on tensors: broadcasting, promotion, the verb, the
// gradient
#include <cmath>
#include <cstring>

#include "engine/autograd/function.h"
#include "engine/core/device.h"
#include "engine/ops/ops.h"
#include "engine/ops/reduce_common.h"

namespace mt {
namespace {

// ---- properties computed from the list ----------------------------------------------------------

/// Replaces the incoming gradient to find derivatives that are the identity (add, the left side of
/// sub).
struct IdentityProbe {
  bool same = false;
  explicit IdentityProbe(bool incoming) : same(incoming) {}
  explicit IdentityProbe(double) {}
  IdentityProbe operator-() const { return IdentityProbe(false); }
  friend IdentityProbe operator*(IdentityProbe, IdentityProbe) { return IdentityProbe(false); }
  friend IdentityProbe zeros_like(IdentityProbe) { return IdentityProbe(false); }
};

template <class Op, int Part> bool is_identity_gradient() {
  if constexpr (op::has_derivative<Op, Part> && Op::info.saves[Part - 1] == op::nothing &&
                op::count_params(Op::info) == 0)
    return op::Formula<Op, Part>::call(IdentityProbe{true}).same;
  else return false;
}

/// The derivative as recorded operations: the formula of kernels/ops.h with T = Tensor.
using RecordedFormula = Tensor (*)(const Tensor* operands, const double* params);

struct Derivative {
  bool exists;
  uint8_t saves;
  bool (*is_identity)();
  RecordedFormula recorded;
};
template <class Op, int Part> constexpr Derivative derivative_of() {
  if constexpr (op::has_derivative<Op, Part>)
    return {true, Op::info.saves[Part - 1], is_identity_gradient<Op, Part>,
            &op::call_formula<Op, Part, Tensor>};
  else return {};
}

/// The inputs, as bits, without a derivative where others have one. A mask is not included.
template <class Op> constexpr unsigned flat_inputs() {
  const bool has[] = {op::has_derivative<Op, 1>, op::has_derivative<Op, 2>,
                      op::has_derivative<Op, 3>};
  unsigned flat = 0;
  for (int i = op::mask_first<Op> ? 1 : 0; i < op::inputs<Op>; ++i) flat |= unsigned(!has[i]) << i;
  return has[0] || has[1] || has[2] ? flat : 0;
}

struct OpEntry {
  OpRow row;
  Derivative derivatives[3];
};
template <class Op> constexpr OpEntry op_entry() {
  const Derivative by[] = {derivative_of<Op, 1>(), derivative_of<Op, 2>(), derivative_of<Op, 3>()};
  return {{&Op::info, op::inputs<Op>, op::count_params(Op::info), op::answers_bool<Op>,
           op::mask_first<Op>, by[0].exists || by[1].exists || by[2].exists, flat_inputs<Op>()},
          {by[0], by[1], by[2]}};
}
constexpr std::array<OpEntry, op::Operations::size> op_entries =
    table_of(op::Operations{}, [](auto op) { return op_entry<decltype(op)>(); });

// ---- backward -----------------------------------------------------------------------------------

/// Whether all elements are one element in memory (strides 0).
bool is_repeated_element(const TensorImpl& t) {
  for (int d = 0; d < t.ndim; ++d)
    if (t.stride[d] != 0 && t.size[d] != 1) return false;
  return true;
}

}  // namespace

bool is_column_major(const Tensor& x) {
  const TensorImpl& t = *x.impl();
  const int last = t.ndim - 1;
  if (last < 1 || t.numel < 4096 || t.size[last] < 8 || t.stride[last] <= 1) return false;
  for (int d = 0; d < last; ++d)
    if (t.stride[d] == 1 && t.size[d] >= 8) return true;
  return false;
}

namespace {

/// A plain number has the dtype d of the tensors next to it. Next to storage-only floats it is float32 in
/// x + 0.1, 0.1 * x, x - 0.1 and x / 0.1 (`wide_numbers`), the dtype that they are computed in, so
/// that the number is not rounded first. The same holds in PyTorch on the CPU.
Dtype number_dtype(int op, int input, Dtype d) {
  if (!is_reduced_float(d) || op >= kOps) return d;
  return op_entries[op].row.info->facts.wide_numbers >> input & 1 ? compute_dtype(d) : d;
}

/// Elements passed to a kernel by value: plain numbers, and 0-d CPU tensors next to GPU tensors.
struct Numbers {
  unsigned which = 0;
  alignas(8) unsigned char value[kMaxOperands + 1][8];

  void set(Map& m, int k, void* element) {
    m.data[k] = element;
    which |= 1u << k;
  }
  void set(Map& m, int k, double number, Dtype dtype) {
    with_dtype(dtype, [&](auto zero) {
      zero = math::convert<decltype(zero)>(number);
      std::memcpy(value[k], &zero, sizeof zero);
    });
    set(m, k, value[k]);
  }
};

void run_part(int op, int part, Dtype dtype, const Tensor& out, const Tensor* const* operand, int n,
              const double* params);

/// run_part for int8, int16 and 8-bit floats, which the kernels of a GPU do not convert.
void run_converted(int op, int part, Dtype dtype, const Tensor& out, const Tensor* const* operand,
                   int n, const double* params) {
  Tensor computed[kMaxOperands];
  const Tensor* given[kMaxOperands];
  for (int k = 0; k < n; ++k) {
    const bool number = operand[k]->impl()->number;
    if (number && number_dtype(op, k, dtype) != dtype) computed[k] = *operand[k];
    else computed[k] = to_compute_dtype(number ? cast_no_grad(*operand[k], dtype) : *operand[k]);
    given[k] = &computed[k];
  }
  if (out.dtype() != dtype) return run_part(op, part, compute_dtype(dtype), out, given, n, params);
  const Tensor result = empty(out.shape(), compute_dtype(dtype), out.device());
  run_part(op, part, compute_dtype(dtype), result, given, n, params);
  round_into(out, result);
}

/// Calls the map verb for operands of one shape, plain numbers, and 0-d CPU tensors next to a
/// GPU's. Operands that are contiguous or one repeated element are passed as one dimension.
void run_part(int op, int part, Dtype dtype, const Tensor& out, const Tensor* const* operand, int n,
              const double* params) {
  if (is_storage_only(dtype) && !is_half(dtype) && !is_cpu(out.device()))
    return run_converted(op, part, dtype, out, operand, n, params);
  Map m;
  m.op = op, m.part = part, m.dtype = dtype, m.plain = 0, m.inputs = n;
  const auto type_of = [&](int k) {
    const Tensor& x = *operand[k - 1];
    return x.impl()->number ? number_dtype(op, k - 1, dtype) : x.dtype();
  };
  if (is_reduced_float(dtype)) [[unlikely]]
    for (int k = 1; k <= n; ++k) m.plain |= unsigned(type_of(k) == Dtype::f32) << k;
  if (params) std::copy_n(params, op::kMaxParams, m.scalar);
  const TensorImpl& o = *out.impl();
  const bool on_cpu = is_cpu(out.device());
  Numbers numbers;
  m.data[0] = out.data();
  m.stride[0][0] = 1;
  for (int k = 1; k <= n; ++k) {
    const Tensor& x = *operand[k - 1];
    if (x.impl()->number) numbers.set(m, k, x.at(0), type_of(k));
    else if (!on_cpu && is_cpu(x.device())) numbers.set(m, k, x.data());
    else m.data[k] = x.data();
  }
  bool flat = o.contiguous;
  for (int k = 1; k <= n && flat; ++k) {
    const TensorImpl& t = *operand[k - 1]->impl();
    const bool whole = t.contiguous && t.numel == o.numel && !(numbers.which >> k & 1);
    m.stride[k][0] = whole ? 1 : 0;
    flat = whole || is_repeated_element(t);
  }
  const auto start = [&] {
    if (numbers.which && !on_cpu) gpu_of(out.device()).map_numbers(m, numbers.which);
    else out.device().map(m);
  };
  if (flat) {
    m.ndim = 1;
    m.size[0] = o.numel;
    return start();
  }
  m.ndim = o.ndim;
  const size_t bytes = sizeof(int64_t) * o.ndim;
  std::memcpy(m.size, o.size, bytes);
  std::memcpy(m.stride[0], o.stride, bytes);
  Tensor copy[kMaxOperands];
  for (int k = 1; k <= n; ++k) {
    if (numbers.which >> k & 1) {
      std::memset(m.stride[k], 0, bytes);
      continue;
    }
    const Tensor& x = *operand[k - 1];
    if (!on_cpu && is_column_major(x)) copy[k - 1] = contiguous(x.detach());
    const Tensor& given = copy[k - 1].defined() ? copy[k - 1] : x;
    m.data[k] = given.data();
    std::memcpy(m.stride[k], given.impl()->stride, bytes);
  }
  start();
}

void elementwise_backward(Node& node, const Tensor& g, Tensor* dx) {
  const int op = node.type->op;
  const double* const params = op_entries[op].row.params ? node.kept_list<double>() : nullptr;
  for (int i = 0; i < node.inputs; ++i) {
    if (!node.wants(i)) continue;
    const Derivative& d = op_entries[op].derivatives[i];
    if (d.is_identity()) {
      dx[i] = g;
      continue;
    }
    Tensor operand[kMaxOperands];
    const Tensor* given[kMaxOperands] = {&g};
    int n = 1;
    for (int slot = 0; slot < kMaxSaved; ++slot) {
      if (!(d.saves >> slot & 1)) continue;
      operand[n] = node.get(slot);
      given[n] = &operand[n];
      ++n;
    }
    if (grad_enabled()) {
      operand[0] = g;
      dx[i] = to(d.recorded(operand, params), g.dtype());  // a number operand is float32
    } else {
      dx[i] = empty(g.shape(), g);
      run_part(op, i + 1, g.dtype(), dx[i], given, n, params);
    }
  }
}

struct Types {
  NodeType of[kOps];
};
const Types node_types = [] {
  Types types{};
  for (int i = 0; i < kOps; ++i)
    types.of[i] = {op_entries[i].row.info->name, &elementwise_backward, i};
  return types;
}();

/// Records the operation; inputs have the shape and dtype of the computation.
void record_elementwise(int op, const Tensor& out, const Tensor* const* inputs,
                        const double* params) {
  const OpEntry& f = op_entries[op];
  Node& node = f.row.inputs == 1 ? record(node_types.of[op], out, {inputs[0]})
               : f.row.inputs == 2
                   ? record(node_types.of[op], out, {inputs[0], inputs[1]})
                   : record(node_types.of[op], out, {inputs[0], inputs[1], inputs[2]});
  uint8_t saves = 0;
  for (int i = 0; i < f.row.inputs; ++i) {
    if (!node.wants(i)) continue;
    if (!f.derivatives[i].exists) node.edge[i] = {};  // for example a mask
    else saves |= f.derivatives[i].saves;
  }
  for (int i = 0; i < f.row.inputs; ++i)
    if (saves >> i & 1) node.save(i, *inputs[i], i);
  if (saves & op::output) node.save(3, out, Node::kOutput);
  if (params) std::copy_n(params, f.row.params, node.keep_list<double>(op::kMaxParams));
}

// ---- forward ------------------------------------------------------------------------------------

/// As torch.result_type: a 0-d tensor ranks below tensors, a Lua number below both; the lower rank
/// may change the category (bool < integer < float), but never the width.
Dtype widen(Dtype d, Dtype lesser) {
  if (d == Dtype::none) return lesser;
  if (lesser == Dtype::none || is_float(d)) return d;
  return d == Dtype::b8 || is_float(lesser) ? promote(d, lesser) : d;
}

}  // namespace

Dtype computing_dtype(const OpRow& row, const Tensor* const* inputs, const double* params) {
  Dtype tensors = Dtype::none, scalars = Dtype::none, numbers = Dtype::none;
  for (int i = row.mask_first ? 1 : 0; i < row.inputs; ++i) {
    const TensorImpl& t = *inputs[i]->given();
    Dtype& kind = t.number ? numbers : t.ndim == 0 ? scalars : tensors;
    kind = promote(kind, t.number && is_float(t.dtype) ? default_dtype() : t.dtype);
  }
  for (int i = 0; params && i < row.params; ++i)  // fractions, as in clamp's limits
    if (std::isfinite(params[i]) && params[i] != std::floor(params[i]))
      numbers = promote(numbers, default_dtype());
  const Dtype d = row.info->facts.logical && widen(tensors, scalars) == Dtype::b8
                      ? Dtype::b8
                      : widen(widen(tensors, scalars), numbers);
  switch (row.info->accepts) {
    case op::Accepts::any: return d;
    case op::Accepts::number:
      if (d == Dtype::b8 && row.info->facts.refuses_bool)
        fail("{}: {}", row.info->name, row.info->facts.refuses_bool);
      return d == Dtype::b8 ? Dtype::i64 : d;
    case op::Accepts::real: return is_float(d) ? d : default_dtype();
    case op::Accepts::integer:
      if (is_float(d)) fail("{}: {} numbers {}", row.info->name, d, row.info->facts.refuses_float);
      return d;
  }
  return d;
}

namespace {

/// x / 0 and 2 ^ -1 are not defined for integers: this throws before the kernel runs.
void check_integers(int op, const Tensor& divisor, Dtype dtype) {
  const op::Info& info = *op_entries[op].row.info;
  const op::Divisor may_be = info.facts.divisor;
  if (!is_integer(dtype) || may_be == op::Divisor::any || divisor.numel() == 0) return;
  NoGrad off;
  if (may_be == op::Divisor::nonzero && any(op::eq(divisor, 0.0)).item() != 0)
    fail("{}: an integer is divided by 0; use :float() first", info.name);
  if (may_be == op::Divisor::nonnegative && any(op::lt(divisor, 0.0)).item() != 0)
    fail("{}: an integer to a negative power is not an integer; use :float() first", info.name);
}

/// The device of the operands. Plain numbers and 0-d CPU tensors follow the others there; those without a gradient are
/// passed by value.
const Device& common_device(const OpRow& row, const Tensor* const* inputs) {
  const Tensor* first = nullptr;
  for (int i = 0; i < row.inputs; ++i) {
    const Tensor& x = *inputs[i];
    if (x.impl()->number || (x.dim() == 0 && is_cpu(x.device()))) continue;
    if (first) check_together(row.info->name, *first, x);
    first = &x;
  }
  return (first ? first : inputs[0])->device();
}

Dtype result_dtype(const OpRow& row, Dtype computed) {
  return row.answers_bool ? Dtype::b8 : computed;
}

/// Whether an operation accepts elements of the dtype without conversion.
bool takes(op::Accepts accepts, Dtype d) {
  if (accepts == op::Accepts::any) return true;
  if (is_float(d)) return accepts != op::Accepts::integer;
  return accepts == op::Accepts::integer || (accepts == op::Accepts::number && d != Dtype::b8);
}

/// What needs preparation: nothing, if shapes and dtypes are equal and all inputs are contiguous;
/// the index of the plain number among such float inputs, which is passed by value; or all inputs.
constexpr int kNone = -1, kAll = -2;
int unprepared_input(const OpRow& row, const Tensor* const* inputs) {
  const int first = row.mask_first;
  int number = kNone, seen = -1;  // seen: the first input that is not a number
  for (int i = first; i < row.inputs; ++i) {
    const TensorImpl& x = *inputs[i]->given();
    if (x.number) {
      if (number != kNone) return kAll;
      number = i;
    } else if (!x.contiguous) return kAll;
    else if (seen < 0) seen = i;
  }
  if (seen < 0) return kAll;
  const TensorImpl& a = *inputs[seen]->impl();
  if ((number != kNone || row.params > 0) && !is_float(a.dtype)) return kAll;
  if (!takes(row.info->accepts, a.dtype)) return kAll;
  for (int i = 0; i < row.inputs; ++i) {
    const TensorImpl& b = *inputs[i]->given();
    if (i == seen || i == number) continue;
    if (b.dtype != (i < first ? Dtype::b8 : a.dtype) || b.ndim != a.ndim || !b.contiguous ||
        b.number || b.storage->device != a.storage->device)
      return kAll;
    for (int d = 0; d < a.ndim; ++d)
      if (b.size[d] != a.size[d]) return kAll;
  }
  return number;
}

/// Whether the operation is recorded. Throws if an input without derivative requires a gradient.
bool wants_record(const OpRow& row, const Tensor* const* inputs) {
  if (!row.differentiable || !grad_enabled()) return false;
  bool wants = false;
  for (int i = 0; i < row.inputs; ++i) {
    if (!inputs[i]->requires_grad()) continue;
    if (row.flat >> i & 1)
      fail("{}: argument {} has no gradient; pass x:detach()", row.info->name, i + 1);
    wants = true;
  }
  return wants;
}

/// Prepared inputs: one dtype, one device, and broadcast to one shape by recorded operations.
struct BroadcastInputs {
  Tensor tensor[3];
  const Tensor* input[3];
  Shape shape;
  Dtype dtype;
  const Device* device;
};
BroadcastInputs prepare(int op, const Tensor* const* inputs, const double* params) {
  const OpRow& row = op_entries[op].row;
  const Device& device = common_device(row, inputs);
  BroadcastInputs p;
  p.device = &device;
  p.dtype = computing_dtype(row, inputs, params);
  p.shape = inputs[0]->shape();
  for (int i = 1; i < row.inputs; ++i)
    p.shape = broadcast(row.info->name, p.shape, inputs[i]->shape());
  bool is_empty = false;
  for (int64_t size : p.shape) is_empty |= size == 0;
  if (row.inputs == 2 && !is_empty) check_integers(op, *inputs[1], p.dtype);
  for (int i = 0; i < row.inputs; ++i) {
    const bool mask = row.mask_first && i == 0;
    if (mask && inputs[0]->dtype() != Dtype::b8)
      fail("{}: the condition must be a bool tensor, this one is {}; use x:ne(0)", row.info->name,
           inputs[0]->dtype());
    double number = inputs[i]->impl()->number ? inputs[i]->at(0) : 0;
    if (p.dtype == Dtype::b8 && row.info->facts.logical) number = number != 0;
    if (inputs[i]->impl()->number) check_value(row.info->name, number, p.dtype);
    Tensor x = inputs[i]->impl()->number ? scalar(number, number_dtype(op, i, p.dtype))
               : mask                    ? *inputs[i]
                                         : to(*inputs[i], p.dtype);
    if (&x.device() != &device) {
      if (x.dim() == 0 && !wants_grad(x)) {  // passed by value
        p.tensor[i] = x;
        p.input[i] = &p.tensor[i];
        continue;
      }
      x = to(x, device);
    }
    p.tensor[i] = x.shape() == p.shape        ? x
                  : inputs[i]->impl()->number ? repeat_everywhere(x, p.shape)
                                              : expand(x, p.shape);
    p.input[i] = &p.tensor[i];
  }
  return p;
}

/// The result of an operation in place must have the target's shape.
void check_fits(const char* name, const Tensor& target, const Shape& result) {
  if (result != target.shape())
    fail("{}: the result is {}, the tensor {}; a change in place keeps the shape", name, result,
         target.shape());
}

/// x + 2 and similar calls: input k is a number passed by value; a recorded call saves it.
Tensor with_number(int op, const Tensor* const* inputs, int k, bool wants, const double* params,
                   const Tensor* target) {
  const OpRow& row = op_entries[op].row;
  const int n = row.inputs;
  const Tensor& x = *inputs[k == n - 1 ? n - 2 : n - 1];
  Tensor number = wants ? scalar(inputs[k]->at(0), number_dtype(op, k, x.dtype())) : *inputs[k];
  Tensor out = result_in(target, x.shape(), result_dtype(row, x.dtype()), x.device());
  const Tensor* operand[3];
  bool saved = false;
  for (int i = 0; i < n; ++i) {
    operand[i] = i == k ? &number : inputs[i];
    saved |= i != k && op_entries[op].derivatives[i].saves >> k & 1;
  }
  run_part(op, 0, x.dtype(), out, operand, n, params);
  if (!wants) return out;
  if (saved && is_cpu(x.device())) number = repeat_everywhere(number, x.shape());
  record_elementwise(op, out, operand, params);
  return out;
}

/// The parameters of a call. Where limits are defaults, those of a tensor of storage-only floats are
/// the limits of its own dtype, not of the dtype it is computed in.
const double* params_for(int op, const Tensor& x, const double* params, double* own) {
  if (!is_reduced_float(x.dtype()) || !params) return params;
  const double largest = with_dtype(x.dtype(), []<class T>(T) -> double {
    if constexpr (math::is_stored<T>) return T::kLargest;
    else return math::kInfinity;
  });
  for (int i = 0; i < op::kMaxParams; ++i) {
    const op::Default is = op_entries[op].row.info->params[i].is;
    own[i] = is == op::Default::value || !std::isnan(params[i]) ? params[i]
             : is == op::Default::largest                       ? largest
                                                                : -largest;
  }
  return own;
}

}  // namespace

const OpRow& op_row(int op) { return op_entries[op].row; }

int op_named(std::string_view name) {
  for (int i = 0; i < kOps; ++i)
    if (name == op_entries[i].row.info->name) return i;
  return -1;
}

Tensor repeat_everywhere(const Tensor& x, const Shape& shape) {
  Shape stride = shape;
  for (int d = 0; d < shape.size(); ++d) stride[d] = 0;
  return view_of(x, shape, stride, x.offset());
}

Tensor run_mapped(int op, const Tensor* const* operands, int n, const double* params) {
  const Tensor& g = *operands[0];
  Tensor out = empty(g.shape(), g);
  run_part(op, 0, g.dtype(), out, operands, n, params);
  return out;
}

Tensor elementwise(int op, const Tensor* const* inputs, const double* given) {
  const Tensor* const target = Into::take();
  double own[op::kMaxParams];
  const double* const params = params_for(op, *inputs[0], given, own);
  const OpRow& row = op_entries[op].row;
  const bool wants = wants_record(row, inputs);
  const int unprepared = unprepared_input(row, inputs);
  if (unprepared == kNone) {
    const Tensor& a = *inputs[row.inputs - 1];  // the first input may be a mask
    if (!is_float(a.dtype()) && row.inputs == 2) check_integers(op, a, a.dtype());
    Tensor out = result_in(target, a.shape(), result_dtype(row, a.dtype()), a.device());
    run_part(op, 0, a.dtype(), out, inputs, row.inputs, params);
    if (wants) record_elementwise(op, out, inputs, params);
    return out;
  }
  if (unprepared >= 0) return with_number(op, inputs, unprepared, wants, params, target);
  const BroadcastInputs p = prepare(op, inputs, params);
  Tensor out = result_in(target, p.shape, result_dtype(row, p.dtype), *p.device);
  run_part(op, 0, p.dtype, out, p.input, row.inputs, params);
  if (wants) record_elementwise(op, out, p.input, params);
  return out;
}

/// Whether a recorded operation may overwrite its first input, because backward needs nothing that it overwrites.
static bool may_overwrite(int op, const OpRow& row, const Tensor* const* inputs) {
  const TensorImpl* target = inputs[0]->impl();
  if (target->base || row.mask_first || in_checkpoint() || unprepared_input(row, inputs) != kNone)
    return false;
  for (int i = 0; i < row.inputs; ++i)
    if ((i > 0 && inputs[i]->impl() == target) ||
        (wants_grad(*inputs[i]) && op_entries[op].derivatives[i].saves & op::a))
      return false;
  return true;
}

const Tensor& elementwise_(int op, const Tensor* const* inputs, const double* given) {
  double own[op::kMaxParams];
  const double* const params = params_for(op, *inputs[0], given, own);
  const OpRow& row = op_entries[op].row;
  const Tensor& target = *inputs[0];
  const std::string name = std::string(row.info->name) + "_";
  check_writable(name.c_str(), target);
  const Dtype computed = computing_dtype(row, inputs, params), answer = result_dtype(row, computed);
  if (!can_hold(target.dtype(), answer))
    fail("{}: the result is {}, which this {} tensor cannot hold; use {} without '_'", name, answer,
         target.dtype(), row.info->name);
  const bool wants = wants_record(row, inputs);
  bool overlaps = false;
  for (int i = 1; i < row.inputs; ++i)
    overlaps |=
        inputs[i]->impl()->storage == target.impl()->storage && inputs[i]->impl() != target.impl();
  const bool has_history = grad_enabled() && target.requires_grad();
  if (!wants && !has_history && !overlaps && answer == target.dtype()) {
    const BroadcastInputs p = prepare(op, inputs, params);
    check_fits(name.c_str(), target, p.shape);
    if (p.device != &target.device())
      fail("{}: the tensors are on {} and {}; move one with x:to('{}')", name, target.device().name,
           p.device->name, p.device->name);
    run_part(op, 0, p.dtype, target, p.input, row.inputs, params);
    bump(target);
    return target;
  }
  if (wants && !overlaps && answer == target.dtype() && may_overwrite(op, row, inputs)) {
    check_recordable(name.c_str(), target);
    run_part(op, 0, target.dtype(), target, inputs, row.inputs, params);
    bump(target);
    const Tensor old = history(target);
    const Tensor* operands[] = {&old, row.inputs > 1 ? inputs[1] : nullptr,
                                row.inputs > 2 ? inputs[2] : nullptr};
    record_elementwise(op, target, operands, params);
    keep_retaining(old, target);
    return target;
  }
  const Tensor result = elementwise(op, inputs, params);  // computed separately, then written
  check_fits(name.c_str(), target, result.shape());
  if (wants) keep_saved(result, target);
  return write_(name.c_str(), target, result);
}

template <class Op> static const Tensor& in_place(const Tensor& a, const Tensor& b) {
  const Tensor* inputs[] = {&a, &b};
  return elementwise_(op::id<Op>, inputs);
}
const Tensor& operator+=(const Tensor& a, const Tensor& b) { return in_place<op::Add>(a, b); }
const Tensor& operator-=(const Tensor& a, const Tensor& b) { return in_place<op::Sub>(a, b); }
const Tensor& operator*=(const Tensor& a, const Tensor& b) { return in_place<op::Mul>(a, b); }
const Tensor& operator/=(const Tensor& a, const Tensor& b) { return in_place<op::Div>(a, b); }

}  // namespace mt
