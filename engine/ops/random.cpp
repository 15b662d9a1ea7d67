// random.cpp -- random tensors: every distribution is computed from uniform, normal or integer
// numbers of a stream
#include "engine/ops/random.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>

#include "engine/autograd/graph.h"
#include "engine/ops/generator.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {
namespace {

Generator& stream(Generator* g) { return g ? *g : default_generator(); }

Tensor draw(Generator* g, Distribution what, const Shape& shape, Dtype dtype, const Device& device,
            int64_t low = 0, uint64_t span = 0) {
  if (is_storage_only(dtype)) {
    const Tensor x = draw(g, what, shape, compute_dtype(dtype), device, low, span);
    if (what != Distribution::uniform) return to(x, dtype);
    const double steps = double(largest_whole(dtype));  // rounded down: 1 is excluded
    return to(floor(x * steps) / steps, dtype);
  }
  Generator& from = stream(g);
  const bool host = from.kind() == Generator::Kind::mt19937;
  const Device& where = host ? cpu_device() : device;
  Tensor out = empty(shape, dtype, where);
  from.fill({what, dtype, out.data(), out.numel(), 0, 0, low, span}, where);
  return to(out, device);
}

void check_float(const char* name, Dtype dtype) {
  if (!is_float(dtype)) fail("{}: {} cannot hold fractions; use randint", name, dtype);
}

/// Whether every element is true; true for an empty tensor.
bool all_true(const Tensor& x) { return x.numel() == 0 || all(x).item() != 0; }

/// The first number outside low..high, as shown in messages.
std::string first_outside(const Tensor& x, double low, double high) {
  for (int64_t i = 0; i < x.numel(); ++i)
    if (const double v = x.at(i); !(v >= low && v <= high)) return show(v);
  return "unknown";
}

}  // namespace

void manual_seed(uint64_t seed) { default_generator().manual_seed(seed); }

Tensor rand(const Shape& shape, Dtype dtype, const Device& device, Generator* g) {
  check_float("rand", dtype);
  return draw(g, Distribution::uniform, shape, dtype, device);
}
Tensor randn(const Shape& shape, Dtype dtype, const Device& device, Generator* g) {
  check_float("randn", dtype);
  return draw(g, Distribution::normal, shape, dtype, device);
}
Tensor randint(int64_t low, int64_t high, const Shape& shape, Dtype dtype, const Device& device,
               Generator* g) {
  if (low > high) fail("randint: the first {} lies above the last {}", low, high);
  if (dtype != Dtype::i64)
    check_value("randint", double(low), dtype), check_value("randint", double(high), dtype);
  return draw(g, Distribution::integer, shape, dtype, device, low,
              uint64_t(high) - uint64_t(low) + 1);
}

static void count_up(int64_t* p, int64_t n) {
  parallel_strips(n, [=](int64_t from, int64_t to) { std::iota(p + from, p + to, from); });
}

Tensor randperm(int64_t n, const Device& device, Generator* g) {
  if (n < 0) fail("randperm: {} is negative", n);
  Tensor out = empty({n}, Dtype::i64);
  int64_t* p = out.data_as<int64_t>();
  Generator& from = stream(g);
  if (from.kind() == Generator::Kind::mt19937) {  // PyTorch draws a 32-bit word per step, forwards
    if (n >= int64_t(1) << 32) fail("randperm: {} is too long for an mt19937 generator", n);
    count_up(p, n);
    in_strips(n - 1, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) std::swap(p[i], p[i + int64_t(from.word()) % (n - i)]);
    });
    return to(out, device);
  }
  const Tensor words = draw(g, Distribution::integer, {n}, Dtype::i64, cpu_device(), 0, 0);
  const uint64_t* word = words.data_as<const uint64_t>();
  count_up(p, n);
  in_strips(n - 1, [&](int64_t k, int64_t end) {  // Fisher and Yates
    for (int64_t i = n - 1 - k; i > n - 1 - end; --i) std::swap(p[i], p[word[i] % uint64_t(i + 1)]);
  });
  return to(out, device);
}

Tensor normal(const Tensor& mean, const Tensor& deviation, Generator* g) {
  NoGrad off;
  Dtype dtype = promote(mean.dtype(), deviation.dtype());
  if (mean.impl()->number) dtype = deviation.dtype();
  else if (deviation.impl()->number) dtype = mean.dtype();
  check_float("normal", dtype);
  if (!all_true(ge(deviation, 0.0)))
    fail("normal: a standard deviation is {}; it must be 0 or more",
         first_outside(deviation, 0, HUGE_VAL));
  const Shape shape = broadcast("normal", mean.shape(), deviation.shape());
  const Device& device = mean.impl()->number ? deviation.device() : mean.device();
  return to(randn(shape, compute_dtype(dtype), device, g) * deviation + mean, dtype);
}

Tensor bernoulli(const Tensor& p, Generator* g) {
  check_float("bernoulli", p.dtype());
  if (!all_true(logical_and(ge(p, 0.0), le(p, 1.0))))
    fail("bernoulli: a probability is {}, outside 0..1", first_outside(p, 0, 1));
  return to(lt(rand(p.shape(), compute_dtype(p.dtype()), p.device(), g), p), p.dtype());
}

/// Draws n classes with replacement: searches uniform numbers in the cumulative sums.
template <class T>
static void draw_by_sums(const T* row, int64_t classes, const double* uniform, int64_t n,
                         int64_t* out) {
  std::vector<T> sums(classes);
  T total = 0;
  int64_t first = classes, last = 0;  // rounding must not select a class with weight 0
  in_strips(classes, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      sums[i] = total += row[i];
      if (row[i] > 0) first = std::min(first, i), last = i;
    }
  });
  each_element(classes, [&](int64_t i) { sums[i] /= total; });
  parallel_strips(n, [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      const int64_t at = std::ranges::lower_bound(sums, uniform[i]) - sums.begin();
      out[i] = std::clamp(at, first, last);
    }
  });
}

/// The arithmetic is PyTorch's, in the weights' dtype, so that its stream gives the same positions.
Tensor multinomial(const Tensor& weights, int64_t n, bool replacement, Generator* g) {
  if (weights.dim() < 1 || weights.dim() > 2)
    fail("multinomial: the weights are {}; one row or a matrix of rows is needed", weights.shape());
  if (n < 1) fail("multinomial: {} positions were requested; at least 1 is needed", n);
  const int64_t classes = weights.size(-1), rows = weights.dim() == 2 ? weights.size(0) : 1;
  if (classes == 0) fail("multinomial: {} has no weights", weights.shape());
  if (!replacement && n > classes)
    fail("multinomial: {} of {} cannot be drawn without replacement", n, classes);
  const Shape shape = weights.dim() == 2 ? Shape{rows, n} : Shape{n};
  checked_count("multinomial", shape);
  const Dtype dtype = weights.dtype() == Dtype::f32 ? Dtype::f32 : Dtype::f64;
  const Tensor w = contiguous(to(to(weights.detach(), cpu_device()), dtype));
  const Tensor wide = to(w, Dtype::f64);
  const double* row = wide.data_as<double>();
  for (int64_t r = 0; r < rows; ++r) {
    double total = 0;
    int64_t possible = 0;
    in_strips(classes, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        const double v = row[r * classes + i];
        if (!(v >= 0) || std::isinf(v))
          fail("multinomial: weight {} of row {} is {}; weights are finite and not negative", i + 1,
               r + 1, show(v));
        total += v, possible += v > 0;
      }
    });
    check_interrupt();
    if (!(total > 0)) fail("multinomial: all weights of row {} are 0", r + 1);
    if (total > (dtype == Dtype::f32 ? FLT_MAX : DBL_MAX))
      fail("multinomial: the weights of row {} sum to {}, more than {} holds; divide them first",
           r + 1, total, dtype);
    if (!replacement && possible < n)
      fail("multinomial: row {} has {} weights above 0, {} cannot be drawn without replacement",
           r + 1, possible, n);
  }
  if (!replacement || n == 1) {  // the positions with the shortest exponential waiting times
    const Tensor u = rand(w.shape(), Dtype::f64, cpu_device(), g);
    const Tensor speed = where(gt(w, 0.0), w / to(-log1p(-u), dtype), -1.0);
    return to(topk(speed, n, -1, true).index, weights.device());
  }
  const Tensor u = rand({rows, n}, Dtype::f64, cpu_device(), g);
  Tensor out = empty(shape, Dtype::i64);
  const auto draw = [&]<class T>(T) {
    for (int64_t r = 0; r < rows && !mt_interrupted; ++r)
      draw_by_sums(w.data_as<T>() + r * classes, classes, u.data_as<double>() + r * n, n,
                   out.data_as<int64_t>() + r * n);
  };
  dtype == Dtype::f32 ? draw(0.0f) : draw(0.0);
  return to(out, weights.device());
}

// ---- in place -----------------------------------------------------------------------------------

const Tensor& normal_(const Tensor& x, double mean, double deviation, Generator* g) {
  check_float("normal_", x.dtype());
  if (!(deviation >= 0))
    fail("normal_: the standard deviation is {}; it must be 0 or more", show(deviation));
  check_writable("normal_", x);
  Tensor r = randn(x.shape(), compute_dtype(x.dtype()), x.device(), g);
  if (deviation != 1) r = r * deviation;
  if (mean != 0) r = r + mean;
  return write_("normal_", x, to(r, x.dtype()));
}

const Tensor& uniform_(const Tensor& x, double low, double high, Generator* g) {
  check_float("uniform_", x.dtype());
  const auto in_dtype = [&](double value) {
    return with_dtype(x.dtype(), [&]<class T>(T) { return double(math::convert<T>(value)); });
  };
  if (!(low <= high) || !(std::isfinite(in_dtype(low)) && std::isfinite(in_dtype(high)) &&
                          std::isfinite(in_dtype(high - low))))
    fail("uniform_: {} to {} is not a range of {}", show(low), show(high), x.dtype());
  check_writable("uniform_", x);
  Tensor r = rand(x.shape(), x.dtype(), x.device(), g);
  // The sum may be rounded to the end.
  if (low != 0 || high != 1) r = r * (high - low) + low, r = where(lt(r, high), r, low);
  return write_("uniform_", x, r);
}

const Tensor& bernoulli_(const Tensor& x, const Tensor& p, Generator* g) {
  check_writable("bernoulli_", x);
  const Tensor wide = p.impl()->number || !is_float(p.dtype()) ? to(p, Dtype::f64) : p;
  if (broadcast("bernoulli_", x.shape(), p.shape()) != x.shape())
    fail("bernoulli_: the probabilities {} do not fit into {}", p.shape(), x.shape());
  return write_("bernoulli_", x, to(bernoulli(expand(wide, x.shape()), g), x.dtype()));
}

const Tensor& exponential_(const Tensor& x, double rate, Generator* g) {
  check_float("exponential_", x.dtype());
  if (!(rate > 0) || std::isinf(rate))
    fail("exponential_: the rate is {}; it must be positive", show(rate));
  check_writable("exponential_", x);
  const Tensor u = rand(x.shape(), compute_dtype(x.dtype()), x.device(), g);
  return write_("exponential_", x, to(log1p(-u) * (-1 / rate), x.dtype()));
}

const Tensor& random_(const Tensor& x, int64_t low, int64_t high, Generator* g) {
  if (low > high) fail("random_: the first {} lies above the last {}", low, high);
  check_value("random_", double(low), x.dtype());
  if (x.dtype() != Dtype::i64) check_value("random_", double(high), x.dtype());
  check_writable("random_", x);
  return write_("random_", x, randint(low, high, x.shape(), x.dtype(), x.device(), g));
}

}  // namespace mt
