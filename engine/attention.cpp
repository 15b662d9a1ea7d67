// attention.cpp -- attention, embeddings, dropout and other parts of networks, composed of other
// operations
#include "engine/attention.h"

#include <cmath>

#include "engine/autograd.h"
#include "engine/late.h"
#include "engine/ops.h"
#include "engine/positions.h"

namespace mt {
namespace {

void check_probability(const char* name, double p, const char* what = "p") {
  if (!(p >= 0 && p <= 1)) fail("{}: {} is {}, it must lie in 0..1", name, what, show(p));
}

/// 0 or 1 / (1 - p) at random: element i depends on the stream alone, not on threads.
Tensor dropout_mask(const Tensor& x, double p) {
  NoGrad off;
  const Tensor kept = ge(rand(x.shape(), Dtype::f32, x.device()), Tensor(p));
  return to(kept, x.dtype()) * Tensor(p < 1 ? 1 / (1 - p) : 0);
}

/// ids as positions from 0 below `size`; refuses others by their place.
Tensor checked_ids(const char* name, const Tensor& ids, int64_t size) {
  if (is_float(ids.dtype()) || ids.dtype() == Dtype::b8)
    fail("{}: ids must be integers, these are {}; use ids:long()", name, dtype_name(ids.dtype()));
  NoGrad off;
  const Tensor read = reshape(to(ids, Dtype::i64), {-1});
  // Wraps around for the least integers.
  const Tensor at = read - scalar(index_base, Dtype::i64);
  if (read.numel() == 0) return at;
  const int64_t last = size - 1 + index_base;
  if (!tells_at_once(ids.device()) && size > 0 && size < INT64_MAX) {
    locate({at}, size, nullptr);
    expect(ids.device(), {Expected::id, name, index_base, last, index_base, 0, {}});
    return at;
  }
  if (amin(read).at_integer(0) >= index_base && amax(read).at_integer(0) <= last) return at;
  const Tensor host = to(read, cpu_device());
  for (int64_t i = 0; i < host.numel(); ++i) {
    const int64_t id = host.at_integer(i);
    if (id < index_base || id > last)
      fail("{}: id {} (element {}) is outside {}..{}; ids count from {}", name, id, i + index_base,
           index_base, size == INT64_MAX ? "" : std::to_string(last), index_base);
  }
  fail("{}: the ids changed while they were read", name);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& mask, double dropout_p, bool causal,
                                    std::optional<double> scale) {
  const char* name = "scaled_dot_product_attention";
  if (q.dim() < 2 || k.dim() < 2 || v.dim() < 2)
    fail("{}: query, key and value are {}, {} and {}; each needs (.. x length x features)", name,
         to_string(q.shape()), to_string(k.shape()), to_string(v.shape()));
  const int64_t e = q.size(q.dim() - 1), l = q.size(q.dim() - 2), s = k.size(k.dim() - 2);
  if (k.size(k.dim() - 1) != e)
    fail("{}: the query {} and the key {} have different last sizes", name, to_string(q.shape()),
         to_string(k.shape()));
  if (v.size(v.dim() - 2) != s)
    fail("{}: the key {} and the value {} have different lengths", name, to_string(k.shape()),
         to_string(v.shape()));
  if (causal && mask.defined()) fail("{}: give attn_mask or is_causal, not both", name);
  check_probability(name, dropout_p, "dropout_p");
  const double factor = scale ? *scale : 1 / std::sqrt(double(e));
  Tensor scores = matmul(q * Tensor(factor), transpose(k, -2, -1));
  Tensor allowed, some;  // which keys each query sees, and whether it sees any
  if (causal || mask.defined()) {
    NoGrad off;
    if (causal)
      allowed = ge(unsqueeze(range(0, double(l - 1), 1, Dtype::i64, q.device()), 1),
                   range(0, double(s - 1), 1, Dtype::i64, q.device()));
    else if (mask.dtype() == Dtype::b8) allowed = mask;
    else if (is_float(mask.dtype())) allowed = ne(mask, Tensor(-INFINITY));
    else fail("{}: attn_mask is {}; use a bool or a float tensor", name, dtype_name(mask.dtype()));
    if (!(broadcast(name, scores.shape(), allowed.shape()) == scores.shape()))
      fail("{}: attn_mask is {}, the scores are {}", name, to_string(allowed.shape()),
           to_string(scores.shape()));
    some = allowed.dim() > 0 ? any(allowed, {-1}, true) : allowed;
  }
  if (mask.defined() && is_float(mask.dtype()))
    scores = scores + where(some, to(mask, scores.dtype()), Tensor(0.0));
  else if (allowed.defined())
    scores = where(logical_or(allowed, logical_not(some)), scores, Tensor(-INFINITY));
  Tensor p = softmax(scores, -1);
  if (some.defined()) p = where(some, p, Tensor(0.0));
  if (dropout_p > 0) p = dropout(p, dropout_p);
  return matmul(p, v);
}

Tensor dropout(const Tensor& x, double p, bool training) {
  check_probability("dropout", p);
  if (!is_float(x.dtype())) fail("dropout: the input is {}; use x:float()", dtype_name(x.dtype()));
  return training && p > 0 ? x * dropout_mask(x, p) : x;
}

const Tensor& dropout_(const Tensor& x, double p, bool training) {
  check_probability("dropout_", p);
  if (!is_float(x.dtype())) fail("dropout_: the input is {}; use x:float()", dtype_name(x.dtype()));
  check_writable("dropout_", x);
  if (!training || p == 0) return x;
  const Tensor mask = dropout_mask(x, p);
  const Tensor* inputs[] = {&x, &mask};
  return elementwise_(op::id<op::Mul>, inputs);
}

Tensor embedding(const Tensor& ids, const Tensor& weight, std::optional<int64_t> padding) {
  if (weight.dim() != 2)
    fail("embedding: the weight is {}; expected (entries x features)", to_string(weight.shape()));
  const int64_t n = weight.size(0);
  if (padding && (*padding < -n || *padding >= n))
    fail("embedding: padding_idx is {}, outside {}..{}",
         *padding < 0 ? *padding : *padding + index_base, index_base, n - 1 + index_base);
  const Tensor at = checked_ids("embedding", ids, n);
  Shape shape = ids.shape();
  shape.push(weight.size(1));
  checked_count("embedding", shape);
  Tensor rows = index_select(weight, 0, at);
  if (padding && wants_grad(weight)) {
    const int64_t row = *padding < 0 ? *padding + n : *padding;
    const Tensor pads = unsqueeze(eq(at, scalar(double(row), Dtype::i64)), 1);
    rows = where(pads, rows.detach(), rows);
  }
  return reshape(rows, shape);
}

Tensor one_hot(const Tensor& ids, std::optional<int64_t> classes) {
  if (classes && *classes < 1)
    fail("one_hot: num_classes is {}, it must be at least 1", *classes);
  if (!classes && ids.numel() == 0) fail("one_hot: without ids, num_classes is needed");
  NoGrad off;
  const Tensor at = checked_ids("one_hot", ids, classes ? *classes : INT64_MAX);
  const int64_t n = classes ? *classes : amax(at).at_integer(0) + 1;
  Shape shape = ids.shape();
  shape.push(n);
  checked_count("one_hot", shape);
  if (at.numel() == 0) return zeros(shape, Dtype::i64, ids.device());
  const Tensor column = unsqueeze(at, 1);
  return reshape(scatter_add(zeros({at.numel(), n}, Dtype::i64, ids.device()), 1, column,
                             ones(column.shape(), Dtype::i64, ids.device())),
                 shape);
}

Tensor glu(const Tensor& x, int64_t dim) {
  const int d = wrap_dim("glu", dim, x.dim());
  if (x.dim() == 0 || x.size(d) % 2 != 0)
    fail("glu: {} cannot be halved along dimension {}", to_string(x.shape()), d + 1);
  const int64_t half = x.size(d) / 2;
  return slice(x, d, 0, half) * sigmoid(slice(x, d, half, half));
}

Tensor bilinear(const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& bias) {
  const bool fits = weight.dim() == 3 && x.dim() > 0 && y.dim() == x.dim() &&
                    x.size(x.dim() - 1) == weight.size(1) && y.size(y.dim() - 1) == weight.size(2);
  bool same = fits;
  for (int d = 0; same && d + 1 < x.dim(); ++d) same = x.size(d) == y.size(d);
  if (!same)
    fail("bilinear: the inputs are {} and {}, the weight {}; expected (.. x in1), (.. x in2) and "
         "(out x in1 x in2)",
         to_string(x.shape()), to_string(y.shape()), to_string(weight.shape()));
  const int64_t out = weight.size(0), in1 = weight.size(1), in2 = weight.size(2);
  if (bias.defined() && !(bias.shape() == Shape{out}))
    fail("bilinear: the bias is {}, the weight {}", to_string(bias.shape()),
         to_string(weight.shape()));
  Shape shape = x.shape();
  shape[x.dim() - 1] = out;
  shape.push(in2);
  const Tensor half = matmul(x, reshape(permute(weight, {1, 0, 2}), {in1, out * in2}));
  const Tensor sums = sum(reshape(half, shape) * unsqueeze(y, -2), {-1});
  return bias.defined() ? sums + bias : sums;
}

Tensor pixel_shuffle(const Tensor& x, int64_t r) {
  const int d = x.dim() - 3;
  if (d < 0) fail("pixel_shuffle: the input is {}; expected (.. x channels x height x width)",
                  to_string(x.shape()));
  if (r < 1 || r > 46340 || x.size(d) % (r * r) != 0)
    fail("pixel_shuffle: upscale_factor is {}, its square does not divide the {} channels of {}", r,
         x.size(d), to_string(x.shape()));
  const int64_t c = x.size(d) / (r * r), h = x.size(d + 1), w = x.size(d + 2);
  Shape split, order, result;
  for (int i = 0; i < d; ++i) split.push(x.size(i)), order.push(i), result.push(x.size(i));
  for (int64_t n : {c, r, r, h, w}) split.push(n);
  for (int i : {0, 3, 1, 4, 2}) order.push(d + i);
  for (int64_t n : {c, h * r, w * r}) result.push(n);
  return reshape(permute(reshape(x, split), order), result);
}

}  // namespace mt
