// reduce.cpp -- reductions of tensors: which dimensions go, the verb, the gradient
#include "engine/core/upcast.h"
#include "engine/ops/out.h"
#include "engine/ops/reduce_common.h"

#include <cstring>

namespace mt {

unsigned dims_mask(const char* name, const Tensor& x, const Shape& dims) {
  if (dims.size() == 0) return (1u << x.dim()) - 1;
  unsigned mask = 0;
  for (int64_t dim : dims) {
    const int d = wrap_dim(name, dim, x.dim());
    if (mask >> d & 1) fail("{}: dimension {} is named twice", name, d + 1);
    if (x.dim() > 0) mask |= 1u << d;
  }
  return mask;
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
    fail("{}: of {} it is a fraction; use x:float():{}()", name, dtype_name(x.dtype()), name);
}

void need_elements(const char* name, const Tensor& x, int d) {
  if (x.dim() == 0 || x.size(d) > 0) return;
  for (int k = 0; k < x.dim(); ++k)
    if (k != d && x.size(k) == 0) return;
  fail("{}: {} has no elements along dimension {}; of none there is no {}", name,
       to_string(x.shape()), d + 1, name);
}

Tensor run_reduce(const Reducing& how, const Tensor& x, Dtype answer, Tensor* also) {
  const Tensor* const target = Into::take();
  if (is_half(x.dtype())) {
    const Tensor out = run_reduce(how, to_compute_dtype(x), wide(answer), also);
    if (also) *also = cast_no_grad(*also, x.dtype());
    return cast_no_grad(out, answer);
  }
  Shape shape;
  for (int d = 0; d < x.dim(); ++d) {
    if (!(how.mask >> d & 1)) shape.push(x.size(d));
    else if (how.keepdim) shape.push(1);
  }
  if (count_of(x, how.mask) == 0 && !how.empty_ok && checked_count(how.name, shape) > 0)
    fail("{}: {} has no elements there; of none there is no {}", how.name, to_string(x.shape()),
         how.name);
  Tensor out = result_in(also ? nullptr : target, shape, answer, x.device(), true);
  Reduce r;
  r.op = how.op, r.number = how.number, r.dtype = x.dtype(), r.out_dtype = answer;
  r.out = out.data(), r.in = x.data(), r.out2 = nullptr;
  if (also) *also = empty(shape, x.dtype(), x.device()), r.out2 = also->data();
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
  x.device().reduce(r);
  return out;
}

Tensor spread(const Tensor& reduced, const Shape& input, unsigned mask) {
  if (reduced.numel() == 1 && !grad_enabled()) {
    Shape stride = input;
    for (int d = 0; d < input.size(); ++d) stride[d] = 0;
    return view_of(reduced, input, stride, reduced.offset());
  }
  Shape shape = input;
  for (int d = 0; d < shape.size(); ++d)
    if (mask >> d & 1) shape[d] = 1;
  return expand(reshape(reduced, shape), input);
}

void gather_backward(Node& node, const Tensor& g, Tensor* dx) {
  dx[0] = scatter_add(zeros(node.shape(0), g.dtype(), g.device()), int64_t(node.number[0]),
                      node.get(1), g);
}

void record_gather(const NodeType& type, const Tensor& x, const Tensor& values, int d,
                   const Tensor& index) {
  if (!wants_grad(x)) return;
  Node& node = record(type, values, {&x});
  node.save_shape(0, x);
  node.save(1, index, Node::kOther);
  node.number[0] = d;
}

namespace {

/// An entry of op::Reductions over the dimensions of a mask.
template <class Op>
Tensor run(const Tensor& x, unsigned mask, bool keepdim, Dtype answer,
           const char* name = Op::info.name) {
  return run_reduce({name, op::reduction_id<Op>, mask, keepdim, Op::info.empty_ok}, x, answer);
}

Dtype sum_dtype(Dtype d) { return is_float(d) ? d : Dtype::i64; }

/// amax and amin: the gradient goes to all elements that equal the result, in equal shares.
void extreme_backward(Node& node, const Tensor& g, Tensor* dx) {
  const unsigned mask = unsigned(node.number[0]);
  const Tensor x = node.get(0);
  const Shape dims = dims_of(mask, x.dim());
  const Tensor best = spread(node.get(1), x.shape(), mask);
  const Tensor hits = to(eq(x, best), x.dtype());
  const Tensor shares = dims.size() ? sum(hits, dims, true) : hits;
  dx[0] = spread(g, x.shape(), mask) * hits / shares;
}
const NodeType kAmax{"amax", extreme_backward}, kAmin{"amin", extreme_backward};

template <class Op>
Tensor extreme(const NodeType& type, const Tensor& x, const Shape& dims, bool keepdim) {
  const unsigned mask = dims_mask(Op::info.name, x, dims);
  Tensor out = run<Op>(x, mask, keepdim, x.dtype());
  if (wants_grad(x)) {
    Node& node = record(type, out, {&x});
    node.save(0, x, 0);
    node.save(1, out, Node::kOutput);
    node.number[0] = mask;
  }
  return out;
}

Tensor position(const char* name, int op, const Tensor& x, std::optional<int64_t> dim,
                bool keepdim) {
  const unsigned mask = dim ? dims_mask(name, x, {*dim}) : dims_mask(name, x, {});
  return run_reduce({name, op, mask, keepdim, false}, x, Dtype::i64);
}

ValuesIndices extreme_along(const NodeType& type, int op, const Tensor& x, int64_t dim,
                            bool keepdim) {
  return at_least_1d(type.name, x, dim, [&](const Tensor& y, int d) {
    need_elements(type.name, y, d);
    ValuesIndices p;
    p.index = run_reduce({type.name, op, 1u << d, true, true}, y, Dtype::i64, &p.values);
    record_gather(type, y, p.values, d, p.index);
    return without(p, d, keepdim || x.dim() == 0);
  });
}
const NodeType kMax{"max", gather_backward}, kMin{"min", gather_backward};

Tensor sum_as(const char* name, const Tensor& x, const Shape& dims, bool keepdim) {
  const unsigned mask = dims_mask(name, x, dims);
  Tensor out = run<op::Sum>(x, mask, keepdim, sum_dtype(x.dtype()), name);
  if (wants_grad(x)) {
    static const NodeType type{"sum", [](Node& node, const Tensor& g, Tensor* dx) {
                                 dx[0] = spread(g, node.shape(0), unsigned(node.number[0]));
                               }};
    Node& node = record(type, out, {&x});
    node.save_shape(0, x);
    node.number[0] = mask;
  }
  return out;
}

}  // namespace

Tensor sum(const Tensor& x, const Shape& dims, bool keepdim) {
  return sum_as("sum", x, dims, keepdim);
}

Tensor mean(const Tensor& x, const Shape& dims, bool keepdim) {
  if (!is_float(x.dtype()))
    fail("mean: of {} the mean is a fraction; use x:float():mean()", dtype_name(x.dtype()));
  const Tensor total = sum_as("mean", x, dims, keepdim);
  const Into same(total.requires_grad() ? nullptr : &total);
  return total / Tensor(double(count_of(x, dims_mask("mean", x, dims))));
}

namespace {

bool has_zero(const Tensor& x) {
  NoGrad off;
  return count_nonzero(x).at_integer(0) != x.numel();
}

/// For each element the product of the others: the whole divided by the element, where no zero is
/// in the way.
Tensor others_of(const Tensor& x, unsigned mask) {
  const Shape dims = dims_of(mask, x.dim());
  if (dims.size() == 0) return ones(x.shape(), x.dtype(), x.device());
  const Tensor is_zero = eq(x, 0.0);
  const Tensor zeros_there = spread(sum(to(is_zero, x.dtype()), dims, true), x.shape(), mask);
  const Tensor safe = where(is_zero, Tensor(1.0), x);
  const Tensor rest = spread(prod(safe, dims, true), x.shape(), mask);
  const Tensor alone = where(is_zero, eq(zeros_there, 1.0), eq(zeros_there, 0.0));
  return where(alone, rest / safe, Tensor(0.0));
}

/// The same in operations that can be differentiated again: each row is repeated and loses one
/// element.
Tensor others_recorded(const Tensor& x, unsigned mask) {
  Shape order, back = x.shape(), kept;
  for (int d = 0; d < x.dim(); ++d)
    if (!(mask >> d & 1)) order.push(d), kept.push(x.size(d));
  int64_t n = 1;
  for (int64_t d : dims_of(mask, x.dim())) order.push(d), n *= x.size(int(d));
  for (int i = 0; i < x.dim(); ++i) back[int(order[i])] = i;
  const Tensor moved = permute(x, order);
  Shape square = kept;
  square.push(1), square.push(n);
  const Tensor rows = reshape(moved, square);
  const Tensor left_out = where(eye(n, n, Dtype::b8, x.device()), Tensor(1.0), rows);
  return permute(reshape(prod(left_out, {-1}), moved.shape()), back);
}

}  // namespace

Tensor prod(const Tensor& x, const Shape& dims, bool keepdim) {
  const unsigned mask = dims_mask("prod", x, dims);
  Tensor out = run<op::Prod>(x, mask, keepdim, sum_dtype(x.dtype()));
  if (wants_grad(x)) {
    static const NodeType type{"prod", [](Node& node, const Tensor& g, Tensor* dx) {
                                 const Tensor x = node.get(0);
                                 const unsigned mask = unsigned(node.number[0]);
                                 const bool zeros = has_zero(x);
                                 dx[0] = spread(g, x.shape(), mask) *
                                         (!zeros ? spread(node.get(1), x.shape(), mask) / x
                                          : grad_enabled() ? others_recorded(x, mask)
                                                           : others_of(x, mask));
                               }};
    Node& node = record(type, out, {&x});
    node.save(0, x, 0);
    node.save(1, out, Node::kOutput);
    node.number[0] = mask;
  }
  return out;
}

Tensor amax(const Tensor& x, const Shape& dims, bool keepdim) {
  return extreme<op::Amax>(kAmax, x, dims, keepdim);
}
Tensor amin(const Tensor& x, const Shape& dims, bool keepdim) {
  return extreme<op::Amin>(kAmin, x, dims, keepdim);
}
Tensor all(const Tensor& x, const Shape& dims, bool keepdim) {
  return run<op::All>(to(x, Dtype::b8), dims_mask("all", x, dims), keepdim, Dtype::b8);
}
Tensor any(const Tensor& x, const Shape& dims, bool keepdim) {
  return run<op::Any>(to(x, Dtype::b8), dims_mask("any", x, dims), keepdim, Dtype::b8);
}
Tensor count_nonzero(const Tensor& x, const Shape& dims, bool keepdim) {
  return run<op::CountNonzero>(x, dims_mask("count_nonzero", x, dims), keepdim, Dtype::i64);
}
Tensor argmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  return position("argmax", kArgmax, x, dim, keepdim);
}
Tensor argmin(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  return position("argmin", kArgmin, x, dim, keepdim);
}
ValuesIndices max_along(const Tensor& x, int64_t dim, bool keepdim) {
  return extreme_along(kMax, kArgmax, x, dim, keepdim);
}
ValuesIndices min_along(const Tensor& x, int64_t dim, bool keepdim) {
  return extreme_along(kMin, kArgmin, x, dim, keepdim);
}

Tensor logsumexp(const Tensor& input, const Shape& dims, bool keepdim) {
  const Tensor x = as_float(input);
  const unsigned mask = dims_mask("logsumexp", x, dims);
  Tensor out = run_reduce({"logsumexp", kLogsumexp, mask, keepdim, true}, x, x.dtype());
  if (wants_grad(x)) {
    // A row of -infinity alone has the gradient 0: its sum of exp does not feel any element.
    static const NodeType type{
        "logsumexp", [](Node& node, const Tensor& g, Tensor* dx) {
          const Tensor x = node.get(0), out = node.get(1);
          const unsigned mask = unsigned(node.number[0]);
          const Tensor offset = where(eq(out, Tensor(-math::kInfinity)), Tensor(0.0), out);
          dx[0] = spread(g, x.shape(), mask) * exp(x - spread(offset, x.shape(), mask));
        }};
    Node& node = record(type, out, {&x});
    node.save(0, x, 0);
    node.save(1, out, Node::kOutput);
    node.number[0] = mask;
  }
  return out;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int skip = x.dim() - shape.size();
  Shape dims;
  for (int d = 0; d < x.dim(); ++d)
    if (d < skip || (shape[d - skip] == 1 && x.size(d) != 1)) dims.push(d);
  return reshape(dims.size() ? sum(x, dims, true) : x, shape);
}

}  // namespace mt
