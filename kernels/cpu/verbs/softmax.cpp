// softmax.cpp -- the softmax verb on the CPU: one pass over memory instead of one per operation
#include "kernels/cpu/simd/blocks.h"
#include "kernels/cpu/simd/simd_reduce.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int64_t kTile = 256;  // adjacent lines that are processed together
constexpr int64_t kRun = kExpRun;
constexpr int64_t kLines = 16;  // lines that a thread processes together

/// Writes f(i) to out[i], in runs; returns the sum of these values.
template <class T> double summed(int64_t n, T* out, const auto& f) {
  double sum = 0;
  for (int64_t from = 0; from < n && !mt_interrupted; from += kRun) {
    const int64_t end = smaller(n, from + kRun);
    MT_INDEPENDENT
    for (int64_t i = from; i < end; ++i) out[i] = f(i);
    sum += join_run<op::Sum>(out + from, end - from);
  }
  return sum;
}

/// Processes lines with contiguous elements, one after the other.
template <class T> struct Lines {
  /// The sum of e^(x - most); the exponentials are written to out, which may be null.
  static double sum_of_powers(T* out, const T* x, T most, int64_t n) {
    T buffer[kRun];
    double sum = 0;
    for (int64_t i = 0; i < n && !mt_interrupted; i += kRun)
      sum += exp_run(x + i, most, out ? out + i : buffer, smaller(kRun, n - i));
    return sum;
  }
  static void softmax(T* out, const T* x, const T*, int64_t n, int64_t lines) {
    for (; lines > 0; --lines, out += n, x += n) {
      const T scale = T(1 / sum_of_powers(out, x, join_line<op::Amax>(x, n), n));
      each_element(n, [=](int64_t i) { out[i] *= scale; });
    }
  }
  static void log_softmax(T* out, const T* x, const T*, int64_t n, int64_t lines) {
    T most[kLines];
    double sum[kLines];
    for (int64_t l = 0; l < lines; ++l) {
      most[l] = join_line<op::Amax>(x + l * n, n);
      sum[l] = sum_of_powers(nullptr, x + l * n, most[l], n);
    }
    T log_sum[kLines];  // computed together: one by one they take most of the time of short lines
    for (int64_t l = 0; l < lines; ++l) log_sum[l] = T(math::log(sum[l]));
    for (int64_t l = 0; l < lines; ++l, out += n, x += n)
      each_element(n, [=, m = most[l], s = log_sum[l]](int64_t i) { out[i] = x[i] - m - s; });
  }
  static void softmax_gradient(T* out, const T* y, const T* g, int64_t n, int64_t lines) {
    for (; lines > 0; --lines, out += n, y += n, g += n) {
      const T mean = T(summed(n, out, [=](int64_t i) { return g[i] * y[i]; }));
      each_element(n, [=](int64_t i) { out[i] = y[i] * (g[i] - mean); });
    }
  }
  static void log_softmax_gradient(T* out, const T* y, const T* g, int64_t n, int64_t lines) {
    for (; lines > 0; --lines, out += n, y += n, g += n) {
      const T sum = T(join_line<op::Sum>(g, n));
      each_element(n, [=](int64_t i) { out[i] = g[i] - math::exp(y[i]) * sum; });
    }
  }
};

/// `width` adjacent lines, with n rows `step` apart.
template <class T> struct Tile {
  const int64_t n, step, width;

  /// Calls `row(offset)` for each row.
  void rows(const auto& row) const {
    for (int64_t i = 0; i < n && !mt_interrupted; ++i) row(i * step);
  }
  /// out[at] = f(at, line) at every offset.
  void fill(T* out, const auto& f) const {
    rows([&](int64_t row) {
      MT_INDEPENDENT
      for (int64_t j = 0; j < width; ++j) out[row + j] = f(row + j, j);
    });
  }
  /// sum[line] = end(the sum of f(at, line)); the terms are written to `out`, unless it is null.
  void sums(T* out, T* sum, const auto& f, const auto& end) const {
    double all[kTile] = {};
    T buffer[kTile];
    rows([&](int64_t row) {
      T* const terms = out ? out + row : buffer;
      MT_INDEPENDENT
      for (int64_t j = 0; j < width; ++j) terms[j] = f(row + j, j);
      for (int64_t j = 0; j < width; ++j) all[j] += double(terms[j]);
    });
    for (int64_t j = 0; j < width; ++j) sum[j] = T(end(all[j]));
  }
  void most(const T* x, T* most) const {
    for (int64_t j = 0; j < width; ++j) most[j] = math::lowest<T>();
    rows([&](int64_t row) {
      for (int64_t j = 0; j < width; ++j)
        most[j] = most[j] != most[j] || most[j] > x[row + j] ? most[j] : x[row + j];
    });
  }

  void softmax(T* out, const T* x, const T*) const {
    T offset[kTile], scale[kTile];
    most(x, offset);
    sums(
        out, scale, [&](int64_t i, int64_t j) { return math::exp(x[i] - offset[j]); },
        [](double sum) { return 1 / sum; });
    fill(out, [&](int64_t i, int64_t j) { return out[i] * scale[j]; });
  }
  void log_softmax(T* out, const T* x, const T*) const {
    T offset[kTile], log_sum[kTile];
    most(x, offset);
    sums(
        nullptr, log_sum, [&](int64_t i, int64_t j) { return math::exp(x[i] - offset[j]); },
        [](double sum) { return math::log(sum); });
    fill(out, [&](int64_t i, int64_t j) { return x[i] - offset[j] - log_sum[j]; });
  }
  void softmax_gradient(T* out, const T* y, const T* g) const {
    T mean[kTile];
    sums(
        nullptr, mean, [&](int64_t i, int64_t) { return g[i] * y[i]; },
        [](double sum) { return sum; });
    fill(out, [&](int64_t i, int64_t j) { return y[i] * (g[i] - mean[j]); });
  }
  void log_softmax_gradient(T* out, const T* y, const T* g) const {
    T total[kTile];
    sums(
        nullptr, total, [&](int64_t i, int64_t) { return g[i]; }, [](double sum) { return sum; });
    fill(out, [&](int64_t i, int64_t j) { return g[i] - math::exp(y[i]) * total[j]; });
  }
};

template <class T> void each(const Softmax& s, const auto& lines, const auto& tile) {
  T* out = static_cast<T*>(s.out);
  const T *in = static_cast<const T*>(s.in), *grad = static_cast<const T*>(s.grad);
  const bool spread = s.outer * s.n * s.inner > kGrain / 2;
  if (s.inner == 1) {
    return parallel_chunks(s.outer, kLines, spread, [&](int64_t o, int64_t end) {
      const int64_t at = o * s.n;
      lines(out + at, in + at, grad ? grad + at : grad, s.n, end - o);
    });
  }
  const int64_t tiles = ceil_div(s.inner, kTile);
  parallel(s.outer * tiles, spread, [&](int64_t i) {
    const int64_t first = i % tiles * kTile, at = i / tiles * s.n * s.inner + first;
    (Tile<T>{s.n, s.inner, smaller(kTile, s.inner - first)}.*tile)(out + at, in + at,
                                                                   grad ? grad + at : grad);
  });
}

template <class T> void run(const Softmax& s) {
  switch (s.part) {
    case SoftmaxPart::softmax: return each<T>(s, Lines<T>::softmax, &Tile<T>::softmax);
    case SoftmaxPart::log_softmax: return each<T>(s, Lines<T>::log_softmax, &Tile<T>::log_softmax);
    case SoftmaxPart::softmax_gradient:
      return each<T>(s, Lines<T>::softmax_gradient, &Tile<T>::softmax_gradient);
    case SoftmaxPart::log_softmax_gradient:
      return each<T>(s, Lines<T>::log_softmax_gradient, &Tile<T>::log_softmax_gradient);
  }
}

}  // namespace

void softmax(const Softmax& s) {
  if (s.outer * s.n * s.inner == 0) return;
  if (s.dtype == Dtype::f32) run<float>(s);
  else run<double>(s);
}

}  // namespace MT_ISA
}  // namespace mt
