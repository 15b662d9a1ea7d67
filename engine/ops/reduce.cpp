// reduce.cpp -- reductions of tensors: reduced dimensions, the verb, the gradient
#include "engine/ops/reduce_common.h"

#include <algorithm>
#include <cstring>

namespace mt {

unsigned dims_mask(const char* name, const Tensor& x, const Shape& dims) {
  if (dims.size() == 0) return (1u << x.dim()) - 1;
  unsigned mask = 0;
  for (int64_t d : wrap_dims(name, dims, x.dim())) mask |= 1u << d;
  return x.dim() > 0 ? mask : 0;
}

Shape dims_of(unsigned mask, int rank) {
  Shape dims;
  for (int d = 0; d < rank; ++d)
    if (mask >> d & 1) dims.push(d);
  return dims;
}

int64_t count_of(const Tensor& x, unsigned mask) {
  int64_t n = 1;
  for (int d = 0; d < x.dim(); ++d)
    if (mask >> d & 1) n *= x.size(d);
  return n;
}

void need_float(const char* name, const Tensor& x) {
  if (!is_float(x.dtype()))
    fail("{}: the input must be a float tensor, got {}; use x:float():{}()", name, x.dtype(), name);
}

void need_elements(const char* name, const Tensor& x, int d) {
  if (x.dim() == 0 || x.size(d) > 0) return;
  for (int k = 0; k < x.dim(); ++k)
    if (k != d && x.size(k) == 0) return;
  fail("{}: {} has no elements along dimension {}, so it has no {}", name, x.shape(), d + 1, name);
}

namespace {

// ---- properties computed from the list ----------------------------------------------------------

using op::ReduceContext;

struct ReduceEntry {
  ReduceRow row;
  Dtype (*result)(Dtype);
  uint8_t reads;
  bool ties_share;
  int gradient;  // the kernel of the derivative; -1: the incoming gradient is passed on
  /// The derivative as recorded operations: the formula with T = Tensor.
  Tensor (*recorded)(const Tensor& g, const Tensor& x, const Tensor& y,
                     const ReduceContext<Tensor>&);
  Tensor (*second)(const Tensor& x, unsigned mask);  // the second result, recorded
  Tensor (*ties)(const Tensor& x, const Tensor& y);
  NodeType type;
};

template <op::Result result> Dtype result_of(Dtype d) {
  return result == op::Result::integer                ? Dtype::i64
         : result == op::Result::boolean              ? Dtype::b8
         : result == op::Result::wide && !is_float(d) ? Dtype::i64
                                                      : d;
}

void reduce_backward(Node& node, const Tensor& g, Tensor* dx);

template <class Op> constexpr ReduceEntry entry_of() {
  constexpr bool by_hand = std::is_same_v<Op, op::Prod>;
  constexpr op::ReduceInfo info = Op::info;
  ReduceEntry e{};
  e.row = {&Op::info, op::count_params(info), op::has_df<Op> || by_hand, Op::needs_index};
  e.result = result_of<info.result>;
  e.reads = info.reads, e.ties_share = Op::ties_share, e.gradient = -1;
  if constexpr (op::has_df<Op>) e.recorded = Op::template df<Tensor>;
  if constexpr (op::has_gradient_kernel<Op>) e.gradient = op::gradient_id<Op>;
  if constexpr (Op::ties_share)
    e.ties = [](const Tensor& x, const Tensor& y) -> Tensor { return Op::ties(x, y); };
  if constexpr ((info.reads & op::reads_second) != 0)
    e.second = [](const Tensor& x, unsigned mask) -> Tensor {
      const auto reduced = [&](auto other) {
        return reduce_recorded({op::reduction_id<decltype(other)>, info.name, mask, true}, x);
      };
      return Op::second_of(reduced, double(count_of(x, mask)));
    };
  e.type = {info.name, by_hand ? prod_backward : reduce_backward, op::reduction_id<Op>};
  return e;
}
constinit const auto reduce_entries =
    table_of(op::Reductions{}, [](auto op) { return entry_of<decltype(op)>(); });

}  // namespace

const ReduceRow& reduce_row(int reduction) { return reduce_entries[reduction].row; }

// ---- forward ------------------------------------------------------------------------------------

constexpr int64_t kInCache = 1 << 15;  // elements

/// The kernel's input. A tensor without adjacent elements, such as the gradient of a sum, is copied if each result has
/// few elements: the kernel would visit every result by itself (1 Mi sums of 2: 22 and 5 ms).
static Tensor input_of(const Reducing& how, const Tensor& x) {
  constexpr int64_t kFew = 32;
  if (!is_cpu(x.device())) return to_compute_dtype(x);
  if (x.numel() <= kInCache || count_of(x, how.mask) > kFew) return x;
  for (int d = 0; d < x.dim(); ++d)
    if (x.size(d) > 1 && std::abs(x.stride(d)) == 1) return x;
  NoGrad off;
  return contiguous(x);
}

/// Sorts n dimensions by their strides, the largest first; those whose elements are one are before all others.
static void order_by_stride(int n, int64_t* size, int64_t* stride, int64_t* out_stride) {
  const auto step = [&](int d) {
    return size[d] == 1 || stride[d] == 0 ? INT64_MAX : std::abs(stride[d]);
  };
  for (int d = 1; d < n; ++d)
    for (int k = d; k > 0 && step(k - 1) < step(k); --k) {
      std::swap(size[k - 1], size[k]), std::swap(stride[k - 1], stride[k]);
      if (out_stride) std::swap(out_stride[k - 1], out_stride[k]);
    }
}

/// Brings the dimensions of a tensor beyond the first caches into the order of memory, so that a transposed one is
/// read like a contiguous one. The order of the reduced ones counts for positions.
static void order_by_memory(Reduce& r, int64_t numel, bool needs_index) {
  if (numel <= kInCache) return;
  if (!needs_index) order_by_stride(r.reduced, r.reduced_size, r.reduced_stride, nullptr);
  const bool in_rows = r.reduced > 0 && r.reduced_stride[r.reduced - 1] == 1;
  if (!in_rows) order_by_stride(r.kept, r.kept_size, r.kept_stride, r.out_stride);
}

Tensor run_reduce(const Reducing& how, const Tensor& given, Tensor* second) {
  const Tensor* const target = Into::take();
  const ReduceEntry& e = reduce_entries[how.op];
  const Dtype dtype = compute_dtype(given.dtype()), result = e.result(given.dtype());
  const Tensor x = input_of(how, given);
  Shape shape;
  for (int d = 0; d < x.dim(); ++d) {
    if (!(how.mask >> d & 1)) shape.push(x.size(d));
    else if (how.keepdim) shape.push(1);
  }
  if (!how.empty_ok && e.row.info->empty == op::Empty::refused && count_of(x, how.mask) == 0 &&
      checked_count(how.name, shape) > 0)
    fail("{}: {} has no elements there, so it has no {}", how.name, x.shape(), how.name);
  const bool narrow = is_storage_only(given.dtype());
  Tensor out =
      result_in(second || narrow ? nullptr : target, shape, e.result(dtype), x.device(), true);
  Reduce r;
  r.op = how.op, r.dtype = x.dtype();
  r.out = out.data(), r.in = x.data(), r.out2 = nullptr;
  std::memcpy(r.param, how.param, sizeof r.param);
  if (second) *second = empty(shape, dtype, x.device()), r.out2 = second->data();
  r.kept = r.reduced = 0;
  for (int d = 0, o = 0; d < x.dim(); ++d) {
    if (how.mask >> d & 1) {
      r.reduced_size[r.reduced] = x.size(d);
      r.reduced_stride[r.reduced++] = x.stride(d);
      o += how.keepdim;
    } else {
      r.kept_size[r.kept] = x.size(d);
      r.kept_stride[r.kept] = x.stride(d);
      r.out_stride[r.kept++] = out.stride(o++);
    }
  }
  order_by_memory(r, x.numel(), e.row.needs_index);
  x.device().reduce(r);
  if (second && narrow) *second = cast_no_grad(*second, given.dtype());
  return narrow ? cast_no_grad(out, result) : out;
}

namespace {

Tensor accepted_input(const Reducing& how, const Tensor& x) {
  switch (reduce_entries[how.op].row.info->takes) {
    case op::Takes::any: break;
    case op::Takes::real: return as_float(x);
    case op::Takes::floats: need_float(how.name, x); break;
    case op::Takes::bools: return to(x, Dtype::b8);
  }
  return x;
}

/// The state of a node that does not save x.
struct KeptShape {
  KeptReduction reduction;
  Shape shape;
};

}  // namespace

Tensor reduce_recorded(Reducing how, const Tensor& given, Tensor* second) {
  const ReduceEntry& e = reduce_entries[how.op];
  const Tensor x = accepted_input(how, given);
  if (!e.row.differentiable || !wants_grad(x)) return run_reduce(how, x, second);
  Tensor other;
  const bool reads_second = e.reads & op::reads_second;
  if (reads_second && !second) second = &other;
  Tensor out = run_reduce(how, x, second);
  Node& node = record(e.type, out, {&x});
  if (e.reads & op::reads_x) node.save(0, x, 0);
  if (e.reads & op::reads_result) node.save(1, out, Node::kOutput);
  if (reads_second) node.save(2, *second, Node::kOther);
  KeptReduction kept{how.mask, {}};
  std::copy_n(how.param, op::kMaxParams - 1, kept.param);
  if (e.reads & op::reads_x) node.keep(kept);
  else node.keep(KeptShape{kept, x.shape()});
  return out;
}

Tensor reduce(int reduction, const Tensor& x, const Shape& dims, bool keepdim,
              const double* params) {
  const op::ReduceInfo& info = *reduce_entries[reduction].row.info;
  Reducing how{reduction, info.name, dims_mask(info.name, x, dims), keepdim};
  for (int i = 0; i < reduce_entries[reduction].row.params; ++i)
    how.param[i] = params ? params[i] : info.params[i].value;
  return reduce_recorded(how, x);
}

// ---- backward -----------------------------------------------------------------------------------

Tensor spread(const Tensor& reduced, const Shape& input, unsigned mask) {
  if (reduced.numel() == 1 && !grad_enabled()) return repeat_everywhere(reduced, input);
  Shape shape = input;
  for (int d = 0; d < shape.size(); ++d)
    if (mask >> d & 1) shape[d] = 1;
  return expand(reshape(reduced, shape), input);
}

namespace {

/// `df` of g, x and the results, all broadcast to x's shape: one kernel, or recorded operations.
void reduce_backward(Node& node, const Tensor& g, Tensor* dx) {
  const ReduceEntry& e = reduce_entries[node.type->op];
  const bool reads_x = e.reads & op::reads_x;
  const auto& [mask, params] =
      reads_x ? node.kept<KeptReduction>() : node.kept<KeptShape>().reduction;
  const Tensor x = node.get(0);
  const Shape shape = reads_x ? x.shape() : node.kept<KeptShape>().shape;
  Tensor operand[kMaxOperands] = {spread(g, shape, mask)};
  if (e.gradient < 0) {
    dx[0] = operand[0];
    return;
  }
  int n = 1;
  const auto add = [&](const Tensor& t) { return operand[n++] = t; };
  Tensor y;
  ReduceContext<Tensor> c;
  if (reads_x) add(x);
  if (e.reads & op::reads_result) y = add(spread(node.get(1), shape, mask));
  if (e.ties_share) {
    const Tensor among = e.ties(x, y);
    c.second = reduce_recorded({op::reduction_id<op::Sum>, "sum", mask, true}, among);
    c.second = add(spread(to(c.second, g.dtype()), shape, mask));
  } else if (e.reads & op::reads_second) {
    c.second = add(spread(grad_enabled() ? e.second(x, mask) : node.get(2), shape, mask));
  }
  double numbers[op::kMaxParams] = {1};
  for (int d = 0; d < shape.size(); ++d)
    if (mask >> d & 1) numbers[0] *= double(shape[d]);
  std::copy_n(params, op::kMaxParams - 1, numbers + 1);
  if (grad_enabled()) {
    c.count = numbers[0];
    std::copy_n(numbers + 1, op::kMaxParams - 1, c.param);
    dx[0] = to(e.recorded(operand[0], x, y, c), g.dtype());
    return;
  }
  const Tensor* given[kMaxOperands];
  for (int k = 0; k < n; ++k) given[k] = &operand[k];
  dx[0] = run_mapped(e.gradient, given, n, numbers);
}

ValuesIndices extreme_along(const NodeType& type, int op, const Tensor& x, int64_t dim,
                            bool keepdim) {
  return at_least_1d(type.name, x, dim, [&](const Tensor& y, int d) {
    need_elements(type.name, y, d);
    ValuesIndices p;
    p.index = run_reduce({op, type.name, 1u << d, true, true}, y, &p.values);
    record_gather(type, y, p.values, d, p.index);
    return without(p, d, keepdim || x.dim() == 0);
  });
}
const NodeType kMax{"max", gather_backward}, kMin{"min", gather_backward};

}  // namespace

ValuesIndices max_along(const Tensor& x, int64_t dim, bool keepdim) {
  return extreme_along(kMax, op::reduction_id<op::Argmax>, x, dim, keepdim);
}
ValuesIndices min_along(const Tensor& x, int64_t dim, bool keepdim) {
  return extreme_along(kMin, op::reduction_id<op::Argmin>, x, dim, keepdim);
}

Tensor mean(const Tensor& x, const Shape& dims, bool keepdim) {
  need_float("mean", x);
  const unsigned mask = dims_mask("mean", x, dims);
  const Tensor total = reduce_recorded({op::reduction_id<op::Sum>, "mean", mask, keepdim}, x);
  const Into same(total.requires_grad() ? nullptr : &total);
  return total / double(count_of(x, mask));
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int skip = x.dim() - shape.size();
  Shape dims;
  for (int d = 0; d < x.dim(); ++d)
    if (d < skip || (shape[d - skip] == 1 && x.size(d) != 1)) dims.push(d);
  return reshape(dims.size() ? sum(x, dims, true) : x, shape);
}

// ---- the gradients of prod and cumprod, with special cases for zeros ----------------------------

namespace {

/// One of two formulas, by whether x has a zero. A recorded step has both: it decides at each replay.
template <class General, class Simple>
Tensor by_zeros(const Tensor& x, const General& general, const Simple& simple) {
  const Tensor nonzeros = count_nonzero(x);
  if (step_recorder && !grad_enabled())
    return where(eq(nonzeros, double(x.numel())), simple(), general());
  return nonzeros.at_integer(0) == x.numel() ? simple() : general();
}

/// The product of all other elements, for each element: the whole product divided by the element,
/// if there is no zero.
Tensor other_products(const Tensor& x, unsigned mask) {
  const Shape dims = dims_of(mask, x.dim());
  if (dims.size() == 0) return ones(x.shape(), x);
  const Tensor is_zero = eq(x, 0.0);
  const Tensor zeros_there = spread(sum(to(is_zero, x.dtype()), dims, true), x.shape(), mask);
  const Tensor safe = where(is_zero, 1.0, x);
  const Tensor rest = spread(prod(safe, dims, true), x.shape(), mask);
  const Tensor others_nonzero = where(is_zero, eq(zeros_there, 1.0), eq(zeros_there, 0.0));
  return where(others_nonzero, rest / safe, 0.0);
}

/// The same in differentiable operations: each row is repeated, and each copy lacks one element.
Tensor recorded_products(const Tensor& x, unsigned mask) {
  Shape order, back = x.shape(), kept;
  for (int d = 0; d < x.dim(); ++d)
    if (!(mask >> d & 1)) order.push(d), kept.push(x.size(d));
  const int64_t n = count_of(x, mask);
  for (int64_t d : dims_of(mask, x.dim())) order.push(d);
  for (int i = 0; i < x.dim(); ++i) back[int(order[i])] = i;
  const Tensor moved = permute(x, order);
  Shape square = kept;
  square.push(1), square.push(n);
  const Tensor rows = reshape(moved, square);
  const Tensor left_out = where(eye(n, n, Dtype::b8, x.device()), 1.0, rows);
  return permute(reshape(prod(left_out, {-1}), moved.shape()), back);
}

/// The gradient of cumprod where x contains zeros. The general formula is valid up to the first
/// zero of a line; the zero itself gets the products without it; all products after it stay 0.
Tensor products_backward(const Tensor& x, const Tensor& out, const Tensor& g, int d) {
  const Tensor zero = eq(x, 0.0);
  const Tensor zeros_so_far = cumsum(to(zero, Dtype::i64), d);
  const Tensor first = logical_and(zero, eq(zeros_so_far, 1.0));
  const Tensor without_first = cumprod(where(first, 1.0, x), d);
  const Tensor before = sum_from_end(g * out, d) / where(zero, 1.0, x);
  const Tensor at = sum_from_end(g * without_first, d);
  return where(eq(zeros_so_far, 0.0), before, where(first, at, 0.0));
}

/// The same in differentiable operations: each line is repeated, and the k-th copy lacks the k-th
/// element.
Tensor products_backward_recorded(const Tensor& x, const Tensor& g, int d) {
  const int64_t n = x.size(d);
  const Tensor rows = unsqueeze(transpose(x, d, -1), -2),
               grads = unsqueeze(transpose(g, d, -1), -2);
  const Tensor missing = where(eye(n, n, Dtype::b8, x.device()), 1.0, rows);
  const Tensor place = arange(n, x.device());
  const Tensor after = le(unsqueeze(place, 1), unsqueeze(place, 0));
  const Tensor parts = where(after, cumprod(missing, -1) * grads, 0.0);
  return transpose(sum(parts, {-1}), d, -1);
}

}  // namespace

void prod_backward(Node& node, const Tensor& g, Tensor* dx) {
  const Tensor x = node.get(0);
  const unsigned mask = node.kept<KeptReduction>().mask;
  dx[0] =
      spread(g, x.shape(), mask) *
      by_zeros(
          x, [&] { return grad_enabled() ? recorded_products(x, mask) : other_products(x, mask); },
          [&] { return spread(node.get(1), x.shape(), mask) / x; });
}

void cumprod_backward(Node& node, const Tensor& g, Tensor* dx) {
  const Tensor x = node.get(0), out = node.get(1);
  const int d = node.kept<KeptScan>().d;
  dx[0] = by_zeros(
      x,
      [&] {
        return grad_enabled() ? products_backward_recorded(x, g, d)
                              : products_backward(x, out, g, d);
      },
      [&] { return sum_from_end(g * out, d) / x; });
}

}  // namespace mt
