// reduce.cpp -- reductions of tensors: which dimensions go, the verb, the gradient
#include <cstring>

#include "engine/autograd.h"
#include "engine/ops.h"

namespace mt {
namespace {

/// The dimensions that go, as bits; all when none are named.
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

/// The dimensions of a mask, as a list.
Shape dims_of(unsigned mask, int rank) {
  Shape dims;
  for (int d = 0; d < rank; ++d)
    if (mask >> d & 1) dims.push(d);
  return dims;
}

Shape reduced_shape(const Tensor& x, unsigned mask, bool keepdim) {
  Shape shape;
  for (int d = 0; d < x.dim(); ++d) {
    if (!(mask >> d & 1)) shape.push(x.size(d));
    else if (keepdim) shape.push(1);
  }
  return shape;
}

Tensor run(const char* name, int op, const Tensor& x, unsigned mask, bool keepdim, Dtype answer,
           bool empty_ok) {
  const Shape shape = reduced_shape(x, mask, keepdim);
  Tensor out = empty(shape, answer, x.device());
  Reduce r;
  r.op = op, r.dtype = x.dtype(), r.out_dtype = answer;
  r.out = out.data(), r.in = x.data();
  r.kept = r.reduced = 0;
  int64_t elements = 1;
  for (int d = 0, o = 0; d < x.dim(); ++d) {
    if (mask >> d & 1) {
      r.reduced_size[r.reduced] = x.size(d);
      r.reduced_stride[r.reduced++] = x.stride(d);
      elements *= x.size(d);
      o += keepdim;
    } else {
      r.kept_size[r.kept] = x.size(d);
      r.kept_stride[r.kept] = x.stride(d);
      r.out_stride[r.kept++] = out.stride(o++);
    }
  }
  if (elements == 0 && !empty_ok && out.numel() > 0)
    fail("{}: {} has no elements there, and nothing has no {}", name, to_string(x.shape()), name);
  x.device().reduce(r);
  return out;
}

/// A gradient or a result with its reduced dimensions back as size 1, seen in the input's shape.
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

Tensor extreme(const char* name, int op, const Tensor& x, const Shape& dims, bool keepdim) {
  const unsigned mask = dims_mask(name, x, dims);
  Tensor out = run(name, op, x, mask, keepdim, x.dtype(), false);
  if (wants_grad(x)) {
    Node& node = record(op == op::reduction_id<op::Amax> ? kAmax : kAmin, out, {&x});
    node.save(0, x, 0);
    node.save(1, out, Node::kOutput);
    node.number[0] = mask;
  }
  return out;
}

Tensor position(const char* name, int op, const Tensor& x, std::optional<int64_t> dim,
                bool keepdim) {
  const unsigned mask = dim ? dims_mask(name, x, {*dim}) : dims_mask(name, x, {});
  return run(name, op, x, mask, keepdim, Dtype::i64, false);
}

}  // namespace

namespace {

Tensor sum_as(const char* name, const Tensor& x, const Shape& dims, bool keepdim) {
  const unsigned mask = dims_mask(name, x, dims);
  Tensor out = run(name, op::reduction_id<op::Sum>, x, mask, keepdim, sum_dtype(x.dtype()), true);
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
  double n = 1;
  for (int64_t d : dims_of(dims_mask("mean", x, dims), x.dim())) n *= double(x.size(int(d)));
  return total / Tensor(n);
}

namespace {

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
  const Tensor left_out = where(to(eye(n, n), Dtype::b8), Tensor(1.0), rows);
  return permute(reshape(prod(left_out, {-1}), moved.shape()), back);
}

}  // namespace

Tensor prod(const Tensor& x, const Shape& dims, bool keepdim) {
  const unsigned mask = dims_mask("prod", x, dims);
  Tensor out =
      run("prod", op::reduction_id<op::Prod>, x, mask, keepdim, sum_dtype(x.dtype()), true);
  if (wants_grad(x)) {
    static const NodeType type{"prod", [](Node& node, const Tensor& g, Tensor* dx) {
                                 const Tensor x = node.get(0);
                                 const unsigned mask = unsigned(node.number[0]);
                                 const Tensor others =
                                     grad_enabled() ? others_recorded(x, mask) : others_of(x, mask);
                                 dx[0] = spread(g, x.shape(), mask) * others;
                               }};
    Node& node = record(type, out, {&x});
    node.save(0, x, 0);
    node.number[0] = mask;
  }
  return out;
}

Tensor amax(const Tensor& x, const Shape& dims, bool keepdim) {
  return extreme("amax", op::reduction_id<op::Amax>, x, dims, keepdim);
}
Tensor amin(const Tensor& x, const Shape& dims, bool keepdim) {
  return extreme("amin", op::reduction_id<op::Amin>, x, dims, keepdim);
}
Tensor all(const Tensor& x, const Shape& dims, bool keepdim) {
  return run("all", op::reduction_id<op::All>, to(x, Dtype::b8), dims_mask("all", x, dims), keepdim,
             Dtype::b8, true);
}
Tensor any(const Tensor& x, const Shape& dims, bool keepdim) {
  return run("any", op::reduction_id<op::Any>, to(x, Dtype::b8), dims_mask("any", x, dims), keepdim,
             Dtype::b8, true);
}
Tensor argmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  return position("argmax", kArgmax, x, dim, keepdim);
}
Tensor argmin(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  return position("argmin", kArgmin, x, dim, keepdim);
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
