// matmul.cpp -- products of matrices, batches and vectors, and the affine map of a layer
#include "engine/autograd/graph.h"
#include "engine/core/device.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/libraries/bf16_product.h"

namespace mt {
namespace {

[[noreturn]] void fail_inner_sizes(const char* name, const Tensor& a, const Tensor& b) {
  const Shape x = a.shape(), y = b.shape();
  const bool second = y.size() >= 2 && y[y.size() - 1] == x[x.size() - 1];
  const bool first = x.size() >= 2 && x[x.size() - 2] == y[y.size() >= 2 ? y.size() - 2 : 0];
  const char* hint = second && y.size() == 2  ? "; did you mean the second transposed, w:t()?"
                     : second                 ? "; did you mean the second's :transpose(-2, -1)?"
                     : first && x.size() == 2 ? "; did you mean the first transposed, x:t()?"
                     : first                  ? "; did you mean the first's :transpose(-2, -1)?"
                                              : "";
  fail("{}: inner sizes differ: {} and {}{}", name, x, y, hint);
}

struct Factors {
  Shape a, b;
};
const NodeType kMatmul{
    "matmul", [](Node& node, const Tensor& g, Tensor* dx) {
      if (node.wants(0))
        dx[0] = sum_to(matmul(g, transpose(node.get(1), -2, -1)), node.kept<Factors>().a);
      if (node.wants(1))
        dx[1] = sum_to(matmul(transpose(node.get(0), -2, -1), g), node.kept<Factors>().b);
    }};

/// The arguments of the verb; a and b have out's rank.
Matmul matmul_args(const Tensor& out, const Tensor& a, const Tensor& b, bool accumulate) {
  const int rank = out.dim(), batch = rank - 2;
  Matmul m;
  m.dtype = out.dtype();
  m.m = out.size(-2), m.n = out.size(-1), m.k = a.size(-1);
  m.a = a.data(), m.b = b.data(), m.c = out.data();
  m.a_row = a.stride(batch), m.a_col = a.stride(batch + 1);
  m.b_row = b.stride(batch), m.b_col = b.stride(batch + 1);
  m.c_row = out.stride(batch), m.c_col = out.stride(batch + 1);
  m.batch_dims = batch;
  for (int d = 0; d < batch; ++d) {
    m.batch_size[d] = out.size(d);
    m.a_batch[d] = a.stride(d), m.b_batch[d] = b.stride(d), m.c_batch[d] = out.stride(d);
  }
  m.accumulate = accumulate, m.tf32 = lets_tf32(m.dtype, out.device());
  return m;
}

/// Computes a . b + bias for 16-bit floats on a CPU without converting them; undefined if the verb does not.
Tensor try_half(const Tensor* target, const Shape& size, const Tensor& a, const Tensor& b,
                const Tensor& bias = {}) {
  constexpr double kMinWork = 1 << 17;  // multiply-adds: below it the verb takes none
  if (!is_cpu(a.device()) || double(product(size)) * double(a.size(-1)) < kMinWork) return {};
  const Tensor out = result_in(target, size, a.dtype(), a.device(), true), added = contiguous(bias);
  Matmul m = matmul_args(out, a, b, false);
  m.bias = added.defined() ? added.data() : nullptr;
  return takes_half(m) && out.device().matmul(m) ? out : Tensor();
}

/// The product of tensors of rank >= 2.
Tensor product(const char* name, const Tensor& a, const Tensor& b, const Tensor* target) {
  const int ra = a.dim(), rb = b.dim();
  if (a.size(-1) != b.size(-2)) fail_inner_sizes(name, a, b);
  Shape size{a.size(-2), b.size(-1)}, sa = a.shape(), sb = b.shape();
  if (ra > 2 || rb > 2) {
    const Shape batch = broadcast(name, sa.first(ra - 2), sb.first(rb - 2));
    sa = joined(batch, sa.from(ra - 2)), sb = joined(batch, sb.from(rb - 2));
    size = joined(batch, size);
  }
  const auto whole = [](const Tensor& x, const Shape& shape) {
    NoGrad off;
    return x.dim() == shape.size() && shape.size() == 2 ? x : expand(x, shape);
  };
  Tensor out;
  if (is_half(a.dtype())) out = try_half(target, size, whole(a, sa), whole(b, sb));
  if (!out.defined()) {
    const Dtype computed = product_dtype(a.dtype(), a.device());
    const Tensor x = cast_no_grad(a, computed), y = cast_no_grad(b, computed);
    out = result_in(target, size, computed, a.device(), true);
    matmul_into(name, out, whole(x, sa), whole(y, sb), false);
    out = cast_no_grad(out, a.dtype());
  }
  if (wants_grad(a, b))
    record(kMatmul, out, {&a, &b})
        .save_for(1, 0, a, 0)
        .save_for(0, 1, b, 1)
        .keep(Factors{a.shape(), b.shape()});
  return out;
}

/// Whether x is copied: its rows or columns are one that is repeated, which BLAS does not support, as in the gradient
/// of a sum, and each element is used many times.
bool is_copied(const Tensor& x, int64_t uses) {
  constexpr int64_t kMinUses = 32, kMaxCount = 1 << 26;
  const bool repeats =
      (x.stride(-1) == 0 && x.size(-1) > 1) || (x.stride(-2) == 0 && x.size(-2) > 1);
  return repeats && uses >= kMinUses && x.numel() > 0 && x.numel() <= kMaxCount &&
         is_cpu(x.device());
}

}  // namespace

void matmul_into(const char* name, const Tensor& out, const Tensor& a, const Tensor& b,
                 bool accumulate, const Tensor& bias) {
  if (bias.defined() && !(is_cpu(out.device()) && is_float(out.dtype()))) {
    copy_elements(out, view_of(bias, out.shape(), Shape{0, bias.stride(0)}, bias.offset()));
    return matmul_into(name, out, a, b, true);
  }
  const bool copies_a = is_copied(a, out.size(-1)), copies_b = is_copied(b, out.size(-2));
  if (copies_a || copies_b) {
    NoGrad off;
    const Tensor x = copies_a ? contiguous(a) : a, y = copies_b ? contiguous(b) : b;
    return matmul_into(name, out, x, y, accumulate, bias);
  }
  const Tensor added = bias.defined() ? contiguous(to(bias, out.dtype())) : bias;
  Matmul m = matmul_args(out, a, b, accumulate);
  if (added.defined()) m.bias = added.data();
  if (is_half(a.dtype()) && !is_half(out.dtype())) {
    m.dtype = a.dtype(), m.wide = true;
    if (is_cpu(out.device()) && takes_half(m) && out.device().matmul(m)) return;
    return matmul_into(name, out, to_compute_dtype(a), to_compute_dtype(b), accumulate, added);
  }
  if (!out.device().matmul(m)) require_openblas(name);
}

Tensor as_pairs(const Tensor& given) {
  const Tensor x = given.offset() % 2 == 0 ? given : clone(given);
  const Tensor y = view_of(x, {x.size(0), x.size(1) / 2}, {x.stride(0) / 2, 1}, x.offset() / 2);
  y.impl()->dtype = Dtype::f32;
  return y;
}
void matmul_pairs_into(const Tensor& out, const Tensor& a, const Tensor& b, bool accumulate) {
  Matmul m = matmul_args(out, a, b, accumulate);
  m.pairs = true;
  out.device().matmul(m);
}

/// x in bfloat16, with its memory order if it is a transposed matrix.
static Tensor to_bf16(const Tensor& x) {
  const bool transposed = x.stride(-1) != 1 && x.stride(-2) == 1;
  return transposed ? transpose(cast_no_grad(transpose(x, -2, -1), Dtype::bf16), -2, -1)
                    : cast_no_grad(x, Dtype::bf16);
}

void rounded_matmul_into(const char* name, const Tensor& out, const Tensor& a, const Tensor& b,
                         bool accumulate) {
  const int64_t m = out.size(-2), n = out.size(-1);
  if (is_cpu(out.device()) &&
      multiplies_bf16(m, n, a.size(-1), out.numel() / std::max<int64_t>(m * n, 1)))
    matmul_into(name, out, to_bf16(a), to_bf16(b), accumulate);
  else
    matmul_into(name, out, cast_no_grad(a, out.dtype()), cast_no_grad(b, out.dtype()), accumulate);
}

Tensor matmul(const Tensor& a0, const Tensor& b0, const char* name) {
  if (a0.dim() == 0 || b0.dim() == 0)
    fail("{}: a 0-d tensor has no rows or columns: {} and {}; use *", name, a0.shape(), b0.shape());
  check_together(name, a0, b0);
  Tensor a = a0, b = b0;
  const Tensor* target = Into::take();
  if (a.dtype() != b.dtype()) {
    const Dtype d = promote(a.dtype(), b.dtype());
    a = to(a, d), b = to(b, d);
  }
  if (a.dtype() == Dtype::b8) fail("{}: bool tensors are not multiplied; use x:float()", name);
  if (a.dim() >= 2 && b.dim() >= 2) return product(name, a, b, target);
  const bool row = a.dim() == 1, column = b.dim() == 1;
  if (a.size(-1) != b.size(std::max(b.dim() - 2, 0))) fail_inner_sizes(name, a0, b0);
  if (row) a = unsqueeze(a, 0);
  if (column) b = unsqueeze(b, -1);
  Tensor matrix;  // the target as a matrix product writes it
  if (target && target->dim() == std::max(a0.dim(), b0.dim()) - 1) {
    matrix = row ? unsqueeze(*target, column ? -1 : -2) : *target;
    if (column) matrix = unsqueeze(matrix, -1);
  }
  Tensor out = product(name, a, b, matrix.defined() ? &matrix : nullptr);
  if (column) out = squeeze(out, -1);
  if (row) out = squeeze(out, column ? -1 : -2);
  return out;
}

/// x . weight^T + bias for operands of one dtype: one pass and one node instead of two.
static Tensor affine(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const NoGrad off;
  const Shape size{x.size(0), weight.size(0)};
  if (is_half(x.dtype()))
    if (const Tensor y = try_half(nullptr, size, x, t(weight), bias); y.defined()) return y;
  const Dtype computed = product_dtype(x.dtype(), x.device());
  const Tensor out = empty(size, computed, x.device());
  matmul_into("linear", out, to(x, computed), t(to(weight, computed)), false, bias);
  return to(out, x.dtype());
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (weight.dim() == 1 && x.dim() > 0 && x.size(-1) == weight.size(0)) {  // one output feature
    if (bias.defined() && bias.dim() != 0)
      fail("linear: the bias is {}, the weight {}; a vector needs one number, a 0-d tensor",
           bias.shape(), weight.shape());
    const Tensor y = matmul(x, weight, "linear");
    return bias.defined() ? y + bias : y;
  }
  if (weight.dim() != 2 || x.dim() == 0 || x.size(-1) != weight.size(1))
    fail(
        "linear: the input is {}, the weight {}; the input's last size must be the weight's second",
        x.shape(), weight.shape());
  if (bias.defined() && (bias.dim() != 1 || bias.size(0) != weight.size(0)))
    fail("linear: the bias is {}, the weight {}", bias.shape(), weight.shape());
  if (x.dim() > 2 && x.is_contiguous()) {  // as rows: the bias is added in the product
    const Shape lead = x.shape().first(x.dim() - 1);
    const Tensor rows = reshape(x, {product(lead), x.size(-1)});
    return reshape(linear(rows, weight, bias), joined(lead, {weight.size(0)}));
  }
  const bool is_fused = x.dtype() == weight.dtype() && x.dtype() != Dtype::b8 && x.dim() == 2 &&
                        bias.defined() && bias.dtype() == x.dtype() &&
                        &x.device() == &weight.device() && &x.device() == &bias.device();
  if (!is_fused) {
    const Tensor y = matmul(x, t(weight));
    return bias.defined() ? y + bias : y;
  }
  const Tensor out = affine(x, weight, bias);
  if (wants_grad(x, weight, bias)) {
    static const NodeType type{"linear", [](Node& node, const Tensor& g, Tensor* dx) {
                                 if (node.wants(0)) dx[0] = matmul(g, node.get(1));
                                 if (node.wants(1)) dx[1] = matmul(t(g), node.get(0));
                                 if (node.wants(2)) dx[2] = sum(g, {0});
                               }};
    record(type, out, {&x, &weight, &bias}).save_for(1, 0, x, 0).save_for(0, 1, weight, 1);
  }
  return out;
}

/// out = x . weight^T for an int8 weight; out and x are floats. Few rows on a CPU read int8; otherwise some rows of the
/// weight at a time are converted to x's dtype.
static void int8_product(const Tensor& out, const Tensor& x, const Tensor& weight) {
  const Tensor columns = t(weight);
  Matmul m = matmul_args(out, x, columns, false);
  m.dtype = Dtype::i8;
  if (is_cpu(x.device()) && x.dtype() == Dtype::f32 && takes_int8(m) && out.device().matmul(m))
    return;
  const int64_t n = weight.size(0), room = is_cpu(x.device()) ? 1 << 18 : 1 << 24;
  const int64_t rows = std::max<int64_t>(64, room / std::max<int64_t>(1, weight.size(1)));
  for (int64_t at = 0; at < n; at += rows) {
    const int64_t here = std::min(rows, n - at);
    matmul_into("linear_int8", slice(out, 1, at, here), x,
                t(to(slice(weight, 0, at, here), x.dtype())));
  }
}

Tensor linear_int8(const Tensor& x, const Tensor& weight, const Tensor& scale, const Tensor& bias) {
  if (weight.dtype() != Dtype::i8 || weight.dim() != 2 || x.dim() == 0 ||
      x.size(-1) != weight.size(1))
    fail(
        "linear_int8: the input is {}, the weight {} {}; an int8 matrix is needed, and the input's "
        "last size must be its second",
        x.shape(), weight.dtype(), weight.shape());
  if (!is_float(x.dtype())) fail("linear_int8: the input is {}; use x:float()", x.dtype());
  const Shape out_shape{weight.size(0)};
  for (const Tensor* v : {&scale, &bias})
    if (v->defined() && (v->shape() != out_shape || !is_float(v->dtype())))
      fail("linear_int8: the {} is {} {}, the weight {}; a float for each of its rows is needed",
           v == &scale ? "scale" : "bias", v->dtype(), v->shape(), weight.shape());
  check_together("linear_int8", x, weight);
  check_together("linear_int8", x, scale);
  if (bias.defined()) check_together("linear_int8", x, bias);
  const Shape lead = x.shape().first(x.dim() - 1);
  Tensor y;
  {
    const NoGrad off;
    const Tensor rows = reshape(to_compute_dtype(x), {product(lead), x.size(-1)});
    y = empty({rows.size(0), weight.size(0)}, rows.dtype(), x.device());
    int8_product(y, rows, weight);
    y = y * to(scale, y.dtype());
    if (bias.defined()) y = y + to(bias, y.dtype());
    y = reshape(to(y, x.dtype()), joined(lead, out_shape));
  }
  if (wants_grad(x, bias)) {
    static const NodeType type{"linear_int8", [](Node& node, const Tensor& g, Tensor* dx) {
                                 const Tensor weight = node.get(0), scale = node.get(1);
                                 if (node.wants(0)) {
                                   const Tensor wide = to_compute_dtype(g);
                                   const Tensor scaled = wide * to(scale, wide.dtype());
                                   dx[0] = to(matmul(scaled, to(weight, wide.dtype())), g.dtype());
                                 }
                                 if (node.wants(1)) dx[1] = sum_to(g, Shape{weight.size(0)});
                               }};
    record(type, y, {&x, &bias}).save(0, weight, Node::kOther).save(1, scale, Node::kOther);
  }
  return y;
}

Tensor bilinear(const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& bias) {
  const auto lead = [](const Tensor& t) { return t.shape().first(t.dim() - 1); };
  if (weight.dim() != 3 || x.dim() == 0 || y.dim() != x.dim() || x.size(-1) != weight.size(1) ||
      y.size(-1) != weight.size(2) || lead(x) != lead(y))
    fail(
        "bilinear: the inputs are {} and {}, the weight {}; expected (.. x in1), (.. x in2) and "
        "(out x in1 x in2)",
        x.shape(), y.shape(), weight.shape());
  const int64_t out = weight.size(0), in1 = weight.size(1), in2 = weight.size(2);
  if (bias.defined() && bias.shape() != Shape{out})
    fail("bilinear: the bias is {}, the weight {}", bias.shape(), weight.shape());
  const Shape shape = joined(lead(x), {out, in2});
  const Tensor half = matmul(x, reshape(permute(weight, {1, 0, 2}), {in1, out * in2}));
  const Tensor sums = sum(reshape(half, shape) * unsqueeze(y, -2), {-1});
  return bias.defined() ? sums + bias : sums;
}

// ---- variants: batches, sums with a product, Kronecker ------------------------------------------

namespace {

void check_ranks(const char* name, const char* wanted, const Tensor& a, int rank_a, const Tensor& b,
                 int rank_b) {
  if (a.dim() != rank_a || b.dim() != rank_b)
    fail("{}: {} needed, got {} and {}; use matmul", name, wanted, a.shape(), b.shape());
}

void check_batches(const char* name, const Tensor& a, const Tensor& b) {
  check_ranks(name, "two batches of matrices are", a, 3, b, 3);
  if (a.size(0) != b.size(0))
    fail("{}: the batches have {} and {} matrices: {} and {}; matmul broadcasts", name, a.size(0),
         b.size(0), a.shape(), b.shape());
}

/// beta * x + alpha * product.
Tensor add_product(const char* name, const Tensor& x, Tensor product, double beta, double alpha) {
  const Dtype dtype = promote(x.dtype(), product.dtype());
  check_value(name, alpha, dtype), check_value(name, beta, dtype);
  if (x.dim() > product.dim() || broadcast(name, product.shape(), x.shape()) != product.shape())
    fail("{}: {} does not broadcast to the product, which is {}", name, x.shape(), product.shape());
  if (alpha == 0) product = zeros_like(product);  // discards any product, also NaN
  else if (alpha != 1) product = product * alpha;
  product = to(product, dtype);
  if (beta == 0) return product;
  return (beta == 1 ? x : x * beta) + product;
}

/// The elements 2, 3, 1 along the dimension: the cyclic shift of the cross product.
Tensor next_axis(const Tensor& x, int d) { return cat({slice(x, d, 1, 2), slice(x, d, 0, 1)}, d); }

}  // namespace

Tensor mm(const Tensor& a, const Tensor& b) {
  check_ranks("mm", "two matrices are", a, 2, b, 2);
  return matmul(a, b, "mm");
}
Tensor bmm(const Tensor& a, const Tensor& b) {
  check_batches("bmm", a, b);
  return matmul(a, b, "bmm");
}
Tensor mv(const Tensor& a, const Tensor& b) {
  check_ranks("mv", "a matrix and a vector are", a, 2, b, 1);
  return matmul(a, b, "mv");
}
Tensor dot(const Tensor& a, const Tensor& b, const char* name) {
  check_ranks(name, "two vectors are", a, 1, b, 1);
  return matmul(a, b, name);
}

Tensor inner(const Tensor& x, const Tensor& y) {
  if (x.dim() == 0 || y.dim() == 0) return x * y;
  const int64_t k = x.size(-1);
  if (k != y.size(-1)) fail("inner: the last sizes differ: {} and {}", x.shape(), y.shape());
  return tensordot(x, y, {-1}, {-1});
}

Tensor outer(const Tensor& x, const Tensor& y, const char* name) {
  if (x.dim() != 1 || y.dim() != 1)
    fail("{}: two vectors are needed, got {} and {}", name, x.shape(), y.shape());
  return unsqueeze(x, 1) * y;
}

Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha) {
  check_ranks("addmm", "two matrices are", a, 2, b, 2);
  return add_product("addmm", x, matmul(a, b, "addmm"), beta, alpha);
}
Tensor addmv(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha) {
  check_ranks("addmv", "a matrix and a vector are", a, 2, b, 1);
  return add_product("addmv", x, matmul(a, b, "addmv"), beta, alpha);
}
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha) {
  check_batches("baddbmm", a, b);
  return add_product("baddbmm", x, matmul(a, b, "baddbmm"), beta, alpha);
}

Tensor addbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha) {
  check_batches("addbmm", a, b);
  if (a.size(2) != b.size(1)) matmul(a, b, "addbmm");  // throws the error
  // The sum over the batch is one longer inner sum.
  return add_product("addbmm", x, tensordot(a, b, {0, 2}, {0, 1}), beta, alpha);
}

Tensor kron(const Tensor& x, const Tensor& y) {
  const int rank = std::max(x.dim(), y.dim());
  if (2 * rank > kMaxDims)
    fail("kron: {} and {}: at most {} dimensions are possible", x.shape(), y.shape(), kMaxDims / 2);
  Shape left, right, size;
  for (int d = 0; d < rank; ++d) {
    const int dx = d - (rank - x.dim()), dy = d - (rank - y.dim());
    const int64_t a = dx >= 0 ? x.size(dx) : 1, b = dy >= 0 ? y.size(dy) : 1;
    left.push(a), left.push(1), right.push(1), right.push(b), size.push(a * b);
  }
  return reshape(reshape(x, left) * reshape(y, right), size);
}

Tensor cross(const Tensor& x, const Tensor& y, Dim dim) {
  const Shape size = broadcast("cross", x.shape(), y.shape());
  const int d = wrap_dim("cross", dim, size.size());
  if (size.size() == 0 || x.dim() != y.dim() || x.size(d) != 3 || y.size(d) != 3)
    fail(
        "cross: both need the same number of dimensions and 3 elements along dimension {}: {} and "
        "{}",
        d + 1, x.shape(), y.shape());
  return next_axis(x * next_axis(y, d) - next_axis(x, d) * y, d);
}

Tensor trace(const Tensor& x) {
  if (x.dim() != 2) fail("trace: a matrix is needed, got {}", x.shape());
  return sum(diagonal(x));
}

}  // namespace mt
