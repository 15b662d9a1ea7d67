// softmax.cpp -- the softmax verb on the CPU: one trip through memory instead of one per operation
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/simd_reduce.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int64_t kTile = 256;  // lines that lie side by side and are taken together
constexpr int64_t kRun = kExpRun;

/// A pass of `f(in.., i)` into out, in runs; returns the sum of what `f` gives.
template <class T, class F> double summed(int64_t n, T* out, const F& f) {
  double sum = 0;
  for (int64_t from = 0; from < n && !mt_interrupted; from += kRun) {
    const int64_t end = smaller(n, from + kRun);
    MT_INDEPENDENT
    for (int64_t i = from; i < end; ++i) out[i] = f(i);
    sum += join_run<op::Sum>(out + from, end - from);
  }
  return sum;
}

/// One line whose elements are neighbours.
template <class T> struct Line {
  static void softmax(T* out, const T* x, const T*, int64_t n) {
    const T most = join_line<op::Amax>(x, n);
    const double sum = summed(n, out, [=](int64_t i) { return math::exp(x[i] - most); });
    const T scale = T(1 / sum);
    each_element(n, [=](int64_t i) { out[i] *= scale; });
  }
  static void log_softmax(T* out, const T* x, const T*, int64_t n) {
    const T most = join_line<op::Amax>(x, n);
    T buffer[kRun];
    double sum = 0;
    for (int64_t i = 0; i < n && !mt_interrupted; i += kRun)
      sum += exp_run(x + i, most, buffer, smaller(kRun, n - i));
    const T log_sum = T(math::log(sum));
    each_element(n, [=](int64_t i) { out[i] = x[i] - most - log_sum; });
  }
  static void softmax_gradient(T* out, const T* y, const T* g, int64_t n) {
    const T mean = T(summed(n, out, [=](int64_t i) { return g[i] * y[i]; }));
    each_element(n, [=](int64_t i) { out[i] = y[i] * (g[i] - mean); });
  }
  static void log_softmax_gradient(T* out, const T* y, const T* g, int64_t n) {
    const T sum = T(join_line<op::Sum>(g, n));
    each_element(n, [=](int64_t i) { out[i] = g[i] - math::exp(y[i]) * sum; });
  }
};

/// `width` lines side by side, rows `step` apart.
template <class T> struct Tile {
  static void most(const T* x, int64_t n, int64_t step, int64_t width, T* most) {
    for (int64_t j = 0; j < width; ++j) most[j] = math::lowest<T>();
    for (int64_t i = 0; i < n && !mt_interrupted; ++i, x += step)
      for (int64_t j = 0; j < width; ++j)
        most[j] = most[j] != most[j] || most[j] > x[j] ? most[j] : x[j];
  }
  static void softmax(T* out, const T* x, const T*, int64_t n, int64_t step, int64_t width) {
    T offset[kTile], scale[kTile];
    double sum[kTile] = {};
    most(x, n, step, width, offset);
    for (int64_t i = 0; i < n && !mt_interrupted; ++i) {
      T* to = out + i * step;
      const T* at = x + i * step;
      MT_INDEPENDENT
      for (int64_t j = 0; j < width; ++j) to[j] = math::exp(at[j] - offset[j]);
      for (int64_t j = 0; j < width; ++j) sum[j] += double(to[j]);
    }
    for (int64_t j = 0; j < width; ++j) scale[j] = T(1 / sum[j]);
    for (int64_t i = 0; i < n && !mt_interrupted; ++i) {
      T* to = out + i * step;
      for (int64_t j = 0; j < width; ++j) to[j] *= scale[j];
    }
  }
  static void log_softmax(T* out, const T* x, const T*, int64_t n, int64_t step, int64_t width) {
    T offset[kTile], buffer[kTile], log_sum[kTile];
    double sum[kTile] = {};
    most(x, n, step, width, offset);
    for (int64_t i = 0; i < n && !mt_interrupted; ++i) {
      const T* at = x + i * step;
      for (int64_t j = 0; j < width; ++j) buffer[j] = math::exp(at[j] - offset[j]);
      for (int64_t j = 0; j < width; ++j) sum[j] += double(buffer[j]);
    }
    for (int64_t j = 0; j < width; ++j) log_sum[j] = T(math::log(sum[j]));
    for (int64_t i = 0; i < n && !mt_interrupted; ++i) {
      T* to = out + i * step;
      const T* at = x + i * step;
      MT_INDEPENDENT
      for (int64_t j = 0; j < width; ++j) to[j] = at[j] - offset[j] - log_sum[j];
    }
  }
  static void softmax_gradient(T* out, const T* y, const T* g, int64_t n, int64_t step,
                               int64_t width) {
    double sum[kTile] = {};
    T mean[kTile];
    for (int64_t i = 0; i < n && !mt_interrupted; ++i)
      for (int64_t j = 0; j < width; ++j) sum[j] += double(g[i * step + j] * y[i * step + j]);
    for (int64_t j = 0; j < width; ++j) mean[j] = T(sum[j]);
    for (int64_t i = 0; i < n && !mt_interrupted; ++i) {
      T* to = out + i * step;
      const T *a = y + i * step, *b = g + i * step;
      MT_INDEPENDENT
      for (int64_t j = 0; j < width; ++j) to[j] = a[j] * (b[j] - mean[j]);
    }
  }
  static void log_softmax_gradient(T* out, const T* y, const T* g, int64_t n, int64_t step,
                                   int64_t width) {
    double sum[kTile] = {};
    T total[kTile];
    for (int64_t i = 0; i < n && !mt_interrupted; ++i)
      for (int64_t j = 0; j < width; ++j) sum[j] += double(g[i * step + j]);
    for (int64_t j = 0; j < width; ++j) total[j] = T(sum[j]);
    for (int64_t i = 0; i < n && !mt_interrupted; ++i) {
      T* to = out + i * step;
      const T *a = y + i * step, *b = g + i * step;
      MT_INDEPENDENT
      for (int64_t j = 0; j < width; ++j) to[j] = b[j] - math::exp(a[j]) * total[j];
    }
  }
};

template <class T, class OneLine, class OneTile>
void each(const Softmax& s, const OneLine& line, const OneTile& tile) {
  T* out = static_cast<T*>(s.out);
  const T *in = static_cast<const T*>(s.in), *grad = static_cast<const T*>(s.grad);
  const bool spread = s.outer * s.n * s.inner > kGrain / 2;
  if (s.inner == 1) {
    constexpr int64_t kLines = 16;
    return parallel((s.outer + kLines - 1) / kLines, spread, [&](int64_t group) {
      for (int64_t o = group * kLines; o < smaller(s.outer, (group + 1) * kLines); ++o)
        line(out + o * s.n, in + o * s.n, grad ? grad + o * s.n : grad, s.n);
    });
  }
  const int64_t tiles = (s.inner + kTile - 1) / kTile;
  parallel(s.outer * tiles, spread, [&](int64_t i) {
    const int64_t first = i % tiles * kTile, at = i / tiles * s.n * s.inner + first;
    tile(out + at, in + at, grad ? grad + at : grad, s.n, s.inner, smaller(kTile, s.inner - first));
  });
}

template <class T> void run(const Softmax& s) {
  switch (s.part) {
    case SoftmaxPart::softmax: return each<T>(s, Line<T>::softmax, Tile<T>::softmax);
    case SoftmaxPart::log_softmax: return each<T>(s, Line<T>::log_softmax, Tile<T>::log_softmax);
    case SoftmaxPart::softmax_gradient:
      return each<T>(s, Line<T>::softmax_gradient, Tile<T>::softmax_gradient);
    case SoftmaxPart::log_softmax_gradient:
      return each<T>(s, Line<T>::log_softmax_gradient, Tile<T>::log_softmax_gradient);
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
