// scan.cpp -- sums, products and extremes of all elements so far: the verb and the gradients
#include "engine/ops/scan.h"

#include "engine/core/upcast.h"
#include "engine/ops/reduce_common.h"

namespace mt {

AlongDim along_dim(const Tensor& in, const Tensor& out, int d) {
  AlongDim l;
  l.ndim = 0;
  for (int k = 0; k < in.dim(); ++k) {
    if (k == d) continue;
    l.size[l.ndim] = in.size(k);
    l.in_stride[l.ndim] = in.stride(k);
    l.out_stride[l.ndim++] = out.stride(k);
  }
  l.n = in.size(d), l.in_step = in.stride(d), l.out_step = out.stride(d);
  return l;
}

namespace {

/// The scan verb; `backwards` from the end of each line to its beginning.
Tensor run(ScanOp op, const Tensor& x, int d, bool backwards, Tensor* index = nullptr) {
  if (is_half(x.dtype()))
    return cast_no_grad(run(op, to_compute_dtype(x), d, backwards, index), x.dtype());
  Tensor out = empty(x.shape(), x.dtype(), x.device());
  if (index) *index = empty(x.shape(), Dtype::i64, x.device());
  Scan s{op,       x.dtype(),           out.data(), index ? index->data_as<int64_t>() : nullptr,
         x.data(), along_dim(x, out, d)};
  if (backwards && x.numel() > 0) {
    AlongDim& l = s.lines;
    const int64_t item = item_size(x.dtype()), last = l.n - 1;
    s.in = static_cast<const char*>(s.in) + last * l.in_step * item;
    s.out = static_cast<char*>(s.out) + last * l.out_step * item;
    l.in_step = -l.in_step, l.out_step = -l.out_step;
  }
  x.device().scan(s);
  return out;
}

/// Integers are summed as int64.
Tensor summable(const Tensor& x) { return is_float(x.dtype()) ? x : to(x, Dtype::i64); }

template <class F> Tensor each_line(const char* name, const Tensor& x, int64_t dim, const F& f) {
  const int d = wrap_dim(name, dim, x.dim());
  return x.dim() > 0 ? f(x, d) : reshape(f(reshape(x, {1}), 0), {});
}

Tensor sums(const Tensor& x, int d, bool backwards) {
  Tensor out = run(ScanOp::sum, x, d, backwards);
  if (wants_grad(x)) {
    static const NodeType type{"cumsum", [](Node& node, const Tensor& g, Tensor* dx) {
                                 dx[0] = sums(g, int(node.number[0]), node.number[1] == 0);
                               }};
    Node& node = record(type, out, {&x});
    node.number[0] = d, node.number[1] = backwards;
  }
  return out;
}

/// The gradient of cumprod where x holds zeros. Up to the first zero of a line the general formula
/// holds; the zero itself gets the products without it; behind it all products stay 0.
Tensor products_backward(const Tensor& x, const Tensor& out, const Tensor& g, int d) {
  const Tensor zero = eq(x, Tensor(0.0));
  const Tensor zeros_so_far = sums(to(zero, Dtype::i64), d, false);
  const Tensor first = logical_and(zero, eq(zeros_so_far, Tensor(1.0)));
  const Tensor without = run(ScanOp::prod, where(first, Tensor(1.0), x), d, false);
  const Tensor before = sums(g * out, d, true) / where(zero, Tensor(1.0), x);
  const Tensor at = sums(g * without, d, true);
  return where(eq(zeros_so_far, Tensor(0.0)), before, where(first, at, Tensor(0.0)));
}

/// The same in operations that can be differentiated again: each line is repeated, and the k-th
/// copy lacks the k-th element.
Tensor products_backward_recorded(const Tensor& x, const Tensor& g, int d) {
  const int64_t n = x.size(d);
  const Tensor rows = unsqueeze(transpose(x, d, -1), -2),
               grads = unsqueeze(transpose(g, d, -1), -2);
  const Tensor missing = where(eye(n, n, Dtype::b8, x.device()), Tensor(1.0), rows);
  const Tensor place = range(0, double(n - 1), 1, Dtype::i64, x.device());
  const Tensor after = le(unsqueeze(place, 1), unsqueeze(place, 0));
  const Tensor parts = where(after, cumprod(missing, -1) * grads, Tensor(0.0));
  return transpose(sum(parts, {-1}), d, -1);
}

Tensor log_sums(const Tensor& x, int d, bool backwards) {
  Tensor out;
  {
    NoGrad off;  // lines side by side are joined as vectors, which pays for two transpositions
    const bool turn = d > 0 && x.stride(d) == 1 && x.numel() >= 4 * x.size(d);
    const Tensor y = turn ? contiguous(transpose(x.detach(), 0, d)) : x;
    out = run(ScanOp::logaddexp, y, turn ? 0 : d, backwards);
    if (turn) out = contiguous(transpose(out, 0, d));
  }
  if (!wants_grad(x)) return out;
  // sum over later i of g[i] exp(x - out[i]), in logarithms and for each sign of g by itself.
  static const NodeType type{"logcumsumexp", [](Node& node, const Tensor& g, Tensor* dx) {
                               const Tensor x = node.get(0), out = node.get(1);
                               const int d = int(node.number[0]);
                               const bool backwards = node.number[1] != 0;
                               const Tensor none(-math::kInfinity);
                               const Tensor safe = where(eq(out, none), Tensor(0.0), out);
                               const auto part = [&](const Tensor& amount) {
                                 const Tensor some = gt(amount, Tensor(0.0));
                                 const Tensor logs = where(
                                     some, log(where(some, amount, Tensor(1.0))) - safe, none);
                                 return exp(log_sums(logs, d, !backwards) + x);
                               };
                               dx[0] = part(g) - part(-g);
                             }};
  Node& node = record(type, out, {&x});
  node.save(0, x, 0);
  node.save(1, out, Node::kOutput);
  node.number[0] = d, node.number[1] = backwards;
  return out;
}

ValuesIndices extremes(const NodeType& type, ScanOp op, const Tensor& x, int64_t dim) {
  return at_least_1d(type.name, x, dim, [&](const Tensor& y, int d) {
    ValuesIndices p;
    p.values = run(op, y, d, false, &p.index);
    record_gather(type, y, p.values, d, p.index);
    return p;
  });
}

}  // namespace

Tensor cumsum(const Tensor& x, int64_t dim) {
  return each_line("cumsum", summable(x), dim,
                   [](const Tensor& y, int d) { return sums(y, d, false); });
}

Tensor cumprod(const Tensor& x, int64_t dim) {
  return each_line("cumprod", summable(x), dim, [](const Tensor& y, int d) {
    Tensor out = run(ScanOp::prod, y, d, false);
    if (!wants_grad(y)) return out;
    static const NodeType type{"cumprod", [](Node& node, const Tensor& g, Tensor* dx) {
                                 const Tensor x = node.get(0), out = node.get(1);
                                 const int d = int(node.number[0]);
                                 bool zeros;
                                 {
                                   NoGrad off;
                                   zeros = count_nonzero(x).at_integer(0) != x.numel();
                                 }
                                 dx[0] = !zeros           ? sums(g * out, d, true) / x
                                         : grad_enabled() ? products_backward_recorded(x, g, d)
                                                          : products_backward(x, out, g, d);
                               }};
    Node& node = record(type, out, {&y});
    node.save(0, y, 0);
    node.save(1, out, Node::kOutput);
    node.number[0] = d;
    return out;
  });
}

Tensor logcumsumexp(const Tensor& x, int64_t dim) {
  return each_line("logcumsumexp", as_float(x), dim,
                   [](const Tensor& y, int d) { return log_sums(y, d, false); });
}

ValuesIndices cummax(const Tensor& x, int64_t dim) {
  static const NodeType type{"cummax", gather_backward};
  return extremes(type, ScanOp::max, x, dim);
}
ValuesIndices cummin(const Tensor& x, int64_t dim) {
  static const NodeType type{"cummin", gather_backward};
  return extremes(type, ScanOp::min, x, dim);
}

Tensor diff(const Tensor& x, int64_t n, int64_t dim) {
  const int d = wrap_dim("diff", dim, x.dim());
  if (x.dim() == 0) fail("diff: a 0-d tensor has no neighbours");
  if (n < 0) fail("diff: n is {}; it must be 0 or more", n);
  if (n == 0) return clone(x);
  Tensor y = x;
  for (; n > 0 && y.size(d) > 0; --n) {
    const int64_t left = y.size(d) - 1;
    const Tensor a = slice(y, d, 0, left), b = slice(y, d, y.size(d) - left, left);
    y = y.dtype() == Dtype::b8 ? ne(b, a) : b - a;
  }
  return y;
}

}  // namespace mt
