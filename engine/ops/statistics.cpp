// statistics.cpp -- moments, norms, and counts of values
#include "engine/ops/statistics.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/reduce_common.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {

// ---- moments ------------------------------------------------------------------------------------

static Tensor variance(const char* name, const Tensor& x, const Shape& dims, double correction,
                       bool keepdim, Tensor* centre = nullptr) {
  need_float(name, x);
  if (std::isnan(correction)) fail("{}: the correction is NaN", name);
  return reduce_recorded(
      {op::reduction_id<op::Var>, name, dims_mask(name, x, dims), keepdim, false, {correction}}, x,
      centre);
}

Tensor root_of_variance(const Tensor& variance) {
  if (!wants_grad(variance)) return sqrt(variance);
  const Tensor is_zero = eq(variance, 0.0);
  return where(is_zero, 0.0, sqrt(where(is_zero, 1.0, variance)));
}

VarMean var_mean(const Tensor& x, const Shape& dims, double correction, bool keepdim) {
  if (wants_grad(x))
    return {variance("var_mean", x, dims, correction, keepdim), mean(x, dims, keepdim)};
  VarMean m;
  m.variance = variance("var_mean", x, dims, correction, keepdim, &m.mean);
  return m;
}
Tensor var(const Tensor& x, const Shape& dims, double correction, bool keepdim) {
  return variance("var", x, dims, correction, keepdim);
}
Tensor standard_deviation(const Tensor& x, const Shape& dims, double correction, bool keepdim) {
  return root_of_variance(variance("std", x, dims, correction, keepdim));
}

// ---- covariance ---------------------------------------------------------------------------------

static void check_weights(const char* name, const Tensor& w, int64_t observations, bool whole) {
  if (w.dim() > 1 || w.numel() != observations)
    fail("cov: {} is {}; one for each of the {} observations is needed", name, w.shape(),
         observations);
  if (!(whole ? is_integer(w.dtype()) : is_float(w.dtype())))
    fail("cov: {} is {}; it must be of {}", name, w.dtype(), whole ? "integers" : "floats");
  const Tensor negative = lt(w, 0.0);
  if (any(negative).item() != 0)
    fail("cov: {} has {}; weights are 0 or more", name, show(amin(where(negative, w, 0.0)).item()));
}

Tensor cov(const Tensor& given, double correction, const Tensor& times, const Tensor& weight) {
  if (given.dim() > 2)
    fail("cov: {} has more than two dimensions; rows are variables, columns observations",
         given.shape());
  if (given.dtype() == Dtype::b8) fail("cov: the input is bool; use x:float()");
  if (!std::isfinite(correction)) fail("cov: the correction is {}", show(correction));
  Tensor x = as_float(given);
  if (x.dim() < 2) x = reshape(x, {1, x.numel()});
  const int64_t n = x.size(1);
  if (times.defined()) check_weights("fweights", times, n, true);
  if (weight.defined()) check_weights("aweights", weight, n, false);
  const bool weighted = times.defined() || weight.defined();
  const Tensor w = !weighted           ? Tensor(1.0)
                   : !weight.defined() ? to(times, x.dtype())
                   : !times.defined()  ? weight
                                       : weight * to(times, weight.dtype());
  const Tensor total = weighted ? sum(w) : Tensor(double(n));
  if (weighted && total.item() == 0) fail("cov: the weights sum to 0");
  Tensor divisor = weight.defined() && correction != 0
                       ? total - sum(w * weight) * correction / total
                       : total - correction;
  if (!((weighted ? divisor.item() : double(n) - correction) > 0))
    divisor = Tensor(0.0);  // infinite or NaN, as in PyTorch
  const Tensor centred = x - sum(x * w, {1}, true) / total;
  const Tensor out = matmul(centred, t(centred * w)) / divisor;
  return out.numel() == 1 ? reshape(out, {}) : out;
}

Tensor corrcoef(const Tensor& x) {
  if (x.dim() > 2 || x.dtype() == Dtype::b8)
    fail("corrcoef: {} {}; rows of numbers are variables, columns observations", x.shape(),
         x.dtype());
  const Tensor c = cov(x);
  if (c.dim() == 0) return c / c;
  const Tensor root = sqrt(diagonal(c));
  const Tensor ratio = c / unsqueeze(root, 1) / unsqueeze(root, 0);
  return clamp(ratio, -1.0, 1.0);
}

// ---- norms --------------------------------------------------------------------------------------

/// The derivative of sum(|x|^p)^(1/p); 0 where x or the norm is 0.
static void norm_backward(Node& node, const Tensor& g, Tensor* dx) {
  const Tensor x = node.get(0), out = node.get(1), zero(0.0), one(1.0);
  const auto [mask, params] = node.kept<KeptReduction>();
  const double p = params[0];
  if (p == 0) return void(dx[0] = zeros_like(x));
  const Tensor norms = spread(out, x.shape(), mask), grads = spread(g, x.shape(), mask);
  const Tensor norm_is_zero = eq(norms, zero), x_is_zero = eq(x, zero);
  const Tensor size = abs(where(x_is_zero, one, x));
  const Tensor slope = sign(x) * pow(size / where(norm_is_zero, one, norms), p - 1);
  dx[0] = where(logical_or(norm_is_zero, x_is_zero), zero, grads * slope);
}

static Tensor power_norm(const Tensor& x, double p, unsigned mask, bool keepdim) {
  if (is_reduced_float(x.dtype()))
    return to(power_norm(to(x, Dtype::f32), p, mask, keepdim), x.dtype());
  const Reducing how{op::reduction_id<op::Sum>, "norm", mask, keepdim};
  const Tensor size = abs(x);
  if (count_of(x, mask) == 0) return pow(run_reduce(how, size), 1 / p);
  // Scaled by the dominant magnitude: no power overflows or underflows unless the norm does.
  const Shape dims = dims_of(mask, x.dim());
  const Tensor dominant = p > 0 ? amax(size, dims, keepdim) : amin(size, dims, keepdim);
  const Tensor unit = where(logical_or(eq(dominant, 0.0), eq(dominant, INFINITY)), 1.0, dominant);
  const Tensor powers = pow(size / spread(unit, x.shape(), mask), p);
  return unit * pow(run_reduce(how, powers), 1 / p);
}

Tensor norm(const Tensor& x, double p, const Shape& dims, bool keepdim) {
  need_float("norm", x);
  if (std::isnan(p)) fail("norm: p is NaN");
  const unsigned mask = dims_mask("norm", x, dims);
  if (std::isinf(p) && count_of(x, mask) == 0)
    fail("norm: {} has no elements there, so it has no largest or smallest magnitude", x.shape());
  const auto reduced = [&](auto op, const Tensor& of) {
    return reduce_recorded({op::reduction_id<decltype(op)>, "norm", mask, keepdim}, of);
  };
  if (p == 2) return reduced(op::Norm2{}, x);
  if (p == 1) return reduced(op::Norm1{}, x);
  if (std::isinf(p)) return p > 0 ? reduced(op::NormMax{}, x) : reduced(op::Amin{}, abs(x));
  const Tensor out = p == 0 ? to(reduced(op::CountNonzero{}, x), x.dtype())
                            : power_norm(x.detach(), p, mask, keepdim);
  if (wants_grad(x)) {
    static const NodeType type{"norm", norm_backward};
    record(type, out, {&x})
        .save(0, x, 0)
        .save(1, out, Node::kOutput)
        .keep(KeptReduction{mask, {p}});
  }
  return out;
}

Tensor renorm(const Tensor& x, double p, int64_t dim, double maxnorm) {
  need_float("renorm", x);
  const int d = wrap_dim("renorm", dim, x.dim());
  if (x.dim() < 2)
    fail("renorm: {} has no parts along a dimension; two dimensions are needed", x.shape());
  if (!(p > 0)) fail("renorm: p is {}; it must be above 0", show(p));
  if (!(maxnorm >= 0)) fail("renorm: maxnorm is {}; it must be 0 or more", show(maxnorm));
  if (x.numel() == 0) return clone(x);
  const Tensor norms = norm(x, p, dims_of(((1u << x.dim()) - 1) & ~(1u << d), x.dim()), true);
  const Tensor larger = gt(norms, maxnorm);
  const Tensor safe = where(larger, norms, 1.0) + 1e-7;
  return x * where(larger, maxnorm / safe, 1.0);
}

// ---- without NaN --------------------------------------------------------------------------------

Tensor nanmean(const Tensor& x, const Shape& dims, bool keepdim) {
  need_float("nanmean", x);
  return nansum(x, dims, keepdim) / to(sum(eq(x, x), dims, keepdim), x.dtype());
}

// ---- counts -------------------------------------------------------------------------------------

/// The counts of first, first + 1, .. in contiguous integers of this range. Four tables are used in
/// turn, so that equal neighbours do not depend on each other.
static Tensor count_values(const Tensor& at, int64_t bins, int64_t first) {
  constexpr int64_t kTables = 4, kSmall = 8192, kPart = int64_t(1) << 20;
  const int64_t n = at.numel();
  const Tensor out = zeros({bins}, Dtype::i64, at.device());
  if (!is_cpu(at.device()))
    return scatter_add(out, 0, at - double(first), ones({n}, Dtype::i64, at.device()));
  const bool few = bins <= kSmall && n >= kTables * bins;
  const Tensor tables = few ? zeros({kTables, bins}, Dtype::i64) : out;
  int64_t* const c0 = tables.data_as<int64_t>();
  const int64_t step = few ? bins : 0, *const x = at.data_as<int64_t>();
  int64_t *const c1 = c0 + step, *const c2 = c1 + step, *const c3 = c2 + step;
  int64_t i = 0;
  while (i + kTables <= n && !mt_interrupted)
    for (const int64_t end = std::min(n, i + kPart); i + kTables <= end; i += kTables) {
      ++c0[x[i] - first], ++c1[x[i + 1] - first];
      ++c2[x[i + 2] - first], ++c3[x[i + 3] - first];
    }
  for (; i < n && !mt_interrupted; ++i) ++c0[x[i] - first];
  return few ? sum(tables, {0}) : out;
}

Tensor bincount(const Tensor& x, const Tensor& weights, int64_t min_bins, int64_t first) {
  if (!is_integer(x.dtype()) || x.dim() != 1)
    fail("bincount: it counts a 1-d tensor of integers, this is {} {}", x.shape(), x.dtype());
  if (min_bins < 0) fail("bincount: minlength is {}; it must be 0 or more", min_bins);
  if (weights.defined() && weights.shape() != x.shape())
    fail("bincount: the weights are {}, the values {}", weights.shape(), x.shape());
  const Tensor at = contiguous(to(x.detach(), Dtype::i64));
  int64_t bins = min_bins;
  if (x.numel() > 0) {
    const int64_t low = amin(at).at_integer(0), high = amax(at).at_integer(0);
    if (low < first) fail("bincount: {} is below {}, where counting begins", low, first);
    constexpr int64_t kMaxCounts = int64_t(1) << 40;
    if (high - first >= kMaxCounts)
      fail("bincount: {} would need as many counts; use unique", high);
    bins = std::max(bins, high - first + 1);
  }
  const Device& device = at.device();
  if (!weights.defined() && is_cpu(device)) return count_values(at, bins, first);
  const Dtype dtype = !weights.defined()              ? Dtype::i64
                      : weights.dtype() == Dtype::f32 ? Dtype::f32
                                                      : Dtype::f64;
  const Tensor amount =
      weights.defined() ? to(weights.detach(), dtype) : ones(at.shape(), dtype, device);
  Tensor place = at;
  if (first != 0)  // not `- first`: an integer of this size may not be exact in double
    place = at - to(constants(std::vector{first}), device);
  return scatter_add(zeros({bins}, dtype, device), 0, place, amount);
}

static void check_bins(const char* name, int64_t bins) {
  if (bins < 1 || bins > int64_t(1) << 40) fail("{}: bins is {}; it must be 1 to 2^40", name, bins);
}

Tensor histc(const Tensor& input, int64_t bins, double low, double high) {
  check_float("histc", input, "the values are");
  check_bins("histc", bins);
  const Tensor x = reshape(input.detach(), {-1});
  if (low == high && x.numel() > 0) low = amin(x).item(), high = amax(x).item();
  if (low == high) low -= 1, high += 1;
  if (!std::isfinite(low) || !std::isfinite(high))
    fail("histc: the range {} to {} is not finite; give min and max", show(low), show(high));
  if (high < low) fail("histc: min is {} and max {}; max must be larger", low, high);
  if (x.numel() == 0) return zeros({bins}, x);
  const auto bin_of = [&](const Tensor& some) {  // one more bin for elements outside
    const Tensor place = (to(some, Dtype::f64) - low) / (high - low) * double(bins);
    const Tensor inside = logical_and(ge(some, low), le(some, high));
    return to(where(inside, minimum(place, double(bins - 1)), double(bins)), Dtype::i64);
  };
  // On the CPU x is processed in parts whose temporaries fit the cache.
  const int64_t n = x.numel(), part = is_cpu(x.device()) ? int64_t(1) << 15 : n;
  const Tensor counts = zeros({bins + 1}, Dtype::i64, x.device());
  for (int64_t from = 0; from < n; from += part)
    counts += count_values(bin_of(slice(x, 0, from, std::min(part, n - from))), bins + 1, 0);
  return to(slice(counts, 0, 0, bins), x.dtype());
}

Histogram histogram(const Tensor& given, const Tensor& edges0, const Tensor& weight, bool density) {
  check_float("histogram", given, "the values are");
  const Tensor x = reshape(given.detach(), {-1}), edges = contiguous(edges0.detach());
  if (edges.dim() != 1 || edges.numel() < 2)
    fail("histogram: the edges are {}; a vector of at least 2 is needed", edges.shape());
  if (edges.dtype() != x.dtype())
    fail("histogram: the edges are {}, the values {}; use edges:to('{}')", edges.dtype(), x.dtype(),
         x.dtype());
  const int64_t bins = edges.numel() - 1;
  if (all(ge(slice(edges, 0, 1, bins), slice(edges, 0, 0, bins))).item() == 0)
    fail("histogram: the edges are not sorted; use edges:sort()");
  if (weight.defined() && weight.shape() != given.shape())
    fail("histogram: the weights are {}, the values {}", weight.shape(), given.shape());
  const Tensor inside = logical_and(ge(x, pick(edges, 0, 0)), le(x, pick(edges, 0, bins)));
  const Tensor after = searchsorted("histogram", edges, x, true) - 1.0;
  const Tensor bin = where(inside, minimum(after, double(bins - 1)), double(bins));
  Tensor counts;
  if (weight.defined())
    counts = scatter_add(zeros({bins + 1}, Dtype::f64, x.device()), 0, bin,
                         to(reshape(weight.detach(), {-1}), Dtype::f64));
  else counts = to(count_values(bin, bins + 1, 0), Dtype::f64);
  counts = slice(counts, 0, 0, bins);
  if (density) {
    const Tensor wide = to(edges, Dtype::f64);
    counts = counts / (sum(counts) * diff(wide));
  }
  return {to(counts, x.dtype()), edges};
}

Histogram histogram(const Tensor& x, int64_t bins, const double* range, const Tensor& weight,
                    bool density) {
  check_float("histogram", x, "the values are");
  check_bins("histogram", bins);
  double low = 0, high = 1;
  if (range) low = range[0], high = range[1];
  else if (x.numel() > 0) low = amin(x.detach()).item(), high = amax(x.detach()).item();
  if (!std::isfinite(low) || !std::isfinite(high))
    fail("histogram: the range {} to {} is not finite; give range={{min, max}}", show(low),
         show(high));
  if (high < low) fail("histogram: the range is {} to {}; its end must be larger", low, high);
  if (low == high) low -= 0.5, high += 0.5;
  const double width = (high - low) / double(bins);
  const Tensor edges = constants<double>({bins + 1}, [&](double* edge) {
    parallel_strips(bins + 1, [&](int64_t k, int64_t end) {
      for (; k < end; ++k)  // from the nearer end, so that integers stay exact
        edge[k] = 2 * k < bins + 1 ? low + width * double(k) : high - width * double(bins - k);
    });
  });
  return histogram(x, to(to(edges, x.dtype()), x.device()), weight, density);
}

}  // namespace mt
