// normalize.cpp -- the normalize verb on the CPU: two passes over a row in forward, two in backward
#include "kernels/cpu/simd/blocks.h"
#include "kernels/cpu/simd/simd_reduce.h"
#include "kernels/moments.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

struct ReadPack {
  template <class T> MT_HD Pack<T> operator()(const T* p) const { return load_part<T>(p); }
};
struct ReadOne {
  template <class T> MT_HD T operator()(const T* p) const { return *p; }
};
struct SumPair {
  double a, b;
};

/// `f(read, i, a, b)` adds its terms to a and b, which are packs or scalars depending on `read`.
/// The order of the additions depends only on n: four packs of each, which are added to a double
/// every kRun elements.
template <class T> MT_HD SumPair sums(int64_t n, const auto& f) {
  constexpr int64_t kRun = 512, width = kPackBytes / int(sizeof(T));
  SumPair total{0, 0};
  int64_t i = 0;
  while (i + 4 * width <= n && !mt_interrupted) {
    const int64_t end = smaller(n, i + kRun);
    Pack<T> a0{}, a1{}, a2{}, a3{}, b0{}, b1{}, b2{}, b3{};
    for (; i + 4 * width <= end; i += 4 * width) {
      f(ReadPack{}, i, a0, b0);
      f(ReadPack{}, i + width, a1, b1);
      f(ReadPack{}, i + 2 * width, a2, b2);
      f(ReadPack{}, i + 3 * width, a3, b3);
    }
    const Pack<T> a = (a0 + a1) + (a2 + a3), b = (b0 + b1) + (b2 + b3);
    for (int l = 0; l < width; ++l) total.a += double(a[l]), total.b += double(b[l]);
  }
  T a = 0, b = 0;
  for (; i < n && !mt_interrupted; ++i) f(ReadOne{}, i, a, b);
  return {total.a + double(a), total.b + double(b)};
}

constexpr int64_t kAhead = 4096;  // elements of a row

template <class T> struct Rows {
  const Normalize& c;
  const int64_t inner = c.channels_per_group * c.spatial, step = c.batch * c.groups * inner;
  const double n = double(c.outer * inner);

  const T* in(int64_t row, int64_t o) const {
    return static_cast<const T*>(c.x) + o * step + row * inner;
  }
  const T* grad(int64_t row, int64_t o) const {
    return static_cast<const T*>(c.grad) + o * step + row * inner;
  }
  T* out(int64_t row, int64_t o) const { return static_cast<T*>(c.out) + o * step + row * inner; }
  int64_t channel(int64_t row) const { return row % c.groups * c.channels_per_group; }
  static T at(const void* values, int64_t i, T otherwise) {
    return values ? static_cast<const T*>(values)[i] : otherwise;
  }
  static void add(void* sums, int64_t i, double x) {
    if (sums) static_cast<T*>(sums)[i] += T(x);
  }

  void forward(int64_t row) const {
    double sum = 0;
    if (c.centred)
      for (int64_t o = 0; o < c.outer && !mt_interrupted; ++o)
        sum += join_line<op::Sum>(in(row, o), inner);
    const T first_mean = T(sum / n);
    SumPair off{0, 0};  // the sum of squared deviations, and of deviations
    // The next row is prefetched while this one, which is in the cache, is processed.
    const int64_t ahead = c.outer == 1 && inner <= kAhead ? inner : 0;
    for (int64_t o = 0; o < c.outer && !mt_interrupted; ++o) {
      const T* const x = in(row, o);
      const SumPair s = sums<T>(inner, [=](auto read, int64_t i, auto& a, auto& b) {
        __builtin_prefetch(x + i + ahead);
        const auto d = read(x + i) - first_mean;
        a += d * d;
        if constexpr (op::kRoundedMean<T>) b += d;
      });
      off.a += s.a, off.b += s.b;
    }
    const op::Moments all = op::moments<T>(n, double(first_mean), c.centred ? off.b : 0, off.a);
    const T mean = T(all.mean);
    const double variance = all.m2 / n;
    const T rate = T(1 / math::sqrt(variance + c.eps));
    static_cast<T*>(c.mean)[row] = mean;
    static_cast<T*>(c.variance)[row] = T(variance);
    static_cast<T*>(c.rate)[row] = rate;
    const int64_t first = channel(row);
    for (int64_t o = 0; o < c.outer && !mt_interrupted; ++o) {
      if (c.spatial == 1) {
        scale(out(row, o), in(row, o), mean, rate, first);
        continue;
      }
      for (int64_t p = 0; p < c.channels_per_group; ++p) {
        const T w = at(c.weight, first + p, 1), b = at(c.bias, first + p, 0);
        const T* const x = in(row, o) + p * c.spatial;
        T* const y = out(row, o) + p * c.spatial;
        each_element(c.spatial, [=](int64_t i) { y[i] = (x[i] - mean) * rate * w + b; });
      }
    }
  }
  /// Scales a row in which every element has its own weight.
  void scale(T* y, const T* x, T mean, T rate, int64_t first) const {
    const T* const w = static_cast<const T*>(c.weight) + first;
    const T* const b = static_cast<const T*>(c.bias) + first;
    if (c.weight && c.bias) {
      each_element(inner, [=](int64_t i) { y[i] = (x[i] - mean) * rate * w[i] + b[i]; });
    } else if (c.weight) {
      each_element(inner, [=](int64_t i) { y[i] = (x[i] - mean) * rate * w[i]; });
    } else {
      each_element(
          inner, [=, this](int64_t i) { y[i] = (x[i] - mean) * rate + at(c.bias, first + i, 0); });
    }
  }

  /// Processes a row of channels: `to` is where the sums of its image begin.
  void channels_backward(int64_t row) const {
    const T mean = static_cast<const T*>(c.mean)[row], rate = static_cast<const T*>(c.rate)[row];
    const int64_t first = channel(row),
                  to = row / c.groups * c.groups * c.channels_per_group + first;
    SumPair all{0, 0};
    for (int64_t p = 0; p < c.channels_per_group; ++p) {
      SumPair here{0, 0};
      for (int64_t o = 0; o < c.outer && !mt_interrupted; ++o) {
        const T *const x = in(row, o) + p * c.spatial, *const g = grad(row, o) + p * c.spatial;
        const SumPair s = sums<T>(c.spatial, [=](auto read, int64_t i, auto& a, auto& b) {
          const auto gi = read(g + i);
          a += gi, b += gi * ((read(x + i) - mean) * rate);
        });
        here.a += s.a, here.b += s.b;
      }
      add(c.bias_grad, to + p, here.a), add(c.weight_grad, to + p, here.b);
      const double w = double(at(c.weight, first + p, 1));
      all.a += w * here.a, all.b += w * here.b;
    }
    const T grad_mean = c.centred ? T(all.a / n) : T(0), slope = T(all.b / n);
    for (int64_t o = 0; o < c.outer && !mt_interrupted; ++o)
      for (int64_t p = 0; p < c.channels_per_group; ++p) {
        const T w = at(c.weight, first + p, 1);
        const T *const x = in(row, o) + p * c.spatial, *const g = grad(row, o) + p * c.spatial;
        T* const dx = out(row, o) + p * c.spatial;
        each_element(c.spatial, [=](int64_t i) {
          dx[i] = (g[i] * w - grad_mean - (x[i] - mean) * rate * slope) * rate;
        });
      }
  }
  /// Processes a row in which every element has a weight; adds gradients to the sums of `piece`.
  template <bool weighted> void elements_backward(int64_t row, int64_t piece) const {
    const T mean = static_cast<const T*>(c.mean)[row], rate = static_cast<const T*>(c.rate)[row];
    const int64_t first = channel(row), to = piece * c.groups * c.channels_per_group + first;
    const T *const x = in(row, 0), *const g = grad(row, 0);
    const T* const w = static_cast<const T*>(c.weight) + first;
    const auto slope_at = [=](auto read, int64_t i) {
      if constexpr (weighted) return read(g + i) * read(w + i);
      else return read(g + i);
    };
    const SumPair s = sums<T>(inner, [=](auto read, int64_t i, auto& a, auto& b) {
      const auto gi = slope_at(read, i);
      a += gi, b += gi * ((read(x + i) - mean) * rate);
    });
    const T grad_mean = c.centred ? T(s.a / n) : T(0), slope = T(s.b / n);
    T* const dx = out(row, 0);
    each_element(inner, [=](int64_t i) {
      dx[i] = (slope_at(ReadOne{}, i) - grad_mean - (x[i] - mean) * rate * slope) * rate;
    });
    if (T* const dw = static_cast<T*>(c.weight_grad) + to; c.weight_grad) {
      each_element(inner, [=](int64_t i) { dw[i] += g[i] * ((x[i] - mean) * rate); });
    }
    if (T* const db = static_cast<T*>(c.bias_grad) + to; c.bias_grad) {
      each_element(inner, [=](int64_t i) { db[i] += g[i]; });
    }
  }
};

/// Rows of one element from each of `outer` lines: neighbouring ones are processed together, line by line.
template <class T> struct Columns {
  static constexpr int64_t kMax = 2048, kRun = 8;  // rows; lines whose sums are added to doubles
  struct Sums {
    double a[kMax], b[kMax];
  };
  const Normalize& c;
  const double n = double(c.outer);

  const T* values(const void* of, int64_t row) const {
    return of ? static_cast<const T*>(of) + row : nullptr;
  }
  /// Calls line(at) with the offset of each line's first element.
  void lines(int64_t from, int64_t to, int64_t row, const auto& line) const {
    for (int64_t o = from; o < to && !mt_interrupted; ++o) line(o * c.groups + row);
  }
  /// `f(at, j, a, b)` adds the terms of row j of `count` to a and b.
  Sums sums(int64_t row, int64_t count, const auto& f) const {
    Sums all;
    for (int64_t j = 0; j < count; ++j) all.a[j] = all.b[j] = 0;
    for (int64_t o = 0; o < c.outer; o += kRun) {
      T a[kMax], b[kMax];
      for (int64_t j = 0; j < count; ++j) a[j] = b[j] = 0;
      lines(o, smaller(c.outer, o + kRun), row, [&](int64_t at) {
        for (int64_t j = 0; j < count; ++j) f(at + j, j, a[j], b[j]);
      });
      for (int64_t j = 0; j < count; ++j) all.a[j] += double(a[j]), all.b[j] += double(b[j]);
    }
    return all;
  }

  void forward(int64_t row, int64_t count) const {
    const T* const x = static_cast<const T*>(c.x);
    T mean[kMax], scale[kMax], bias[kMax];
    const Sums total = sums(row, count, [=](int64_t i, int64_t, T& a, T&) { a += x[i]; });
    for (int64_t j = 0; j < count; ++j) mean[j] = T(total.a[j] / n);
    const Sums off = sums(row, count, [&](int64_t i, int64_t j, T& a, T& b) {
      const T d = x[i] - mean[j];
      a += d * d;
      if constexpr (op::kRoundedMean<T>) b += d;
    });
    for (int64_t j = 0; j < count; ++j) {
      const op::Moments all = op::moments<T>(n, double(mean[j]), off.b[j], off.a[j]);
      const double variance = all.m2 / n;
      const T rate = T(1 / math::sqrt(variance + c.eps));
      static_cast<T*>(c.mean)[row + j] = mean[j] = T(all.mean);
      static_cast<T*>(c.variance)[row + j] = T(variance);
      static_cast<T*>(c.rate)[row + j] = rate;
      scale[j] = c.weight ? rate * values(c.weight, row)[j] : rate;
      bias[j] = c.bias ? values(c.bias, row)[j] : T(0);
    }
    T* const y = static_cast<T*>(c.out);
    lines(0, c.outer, row, [&](int64_t at) {
      MT_INDEPENDENT
      for (int64_t j = 0; j < count; ++j) y[at + j] = (x[at + j] - mean[j]) * scale[j] + bias[j];
    });
  }

  void backward(int64_t row, int64_t count) const {
    const T *const x = static_cast<const T*>(c.x), *const g = static_cast<const T*>(c.grad);
    const T *const mean = values(c.mean, row), *const rate = values(c.rate, row);
    const Sums all = sums(row, count, [=](int64_t i, int64_t j, T& a, T& b) {
      a += g[i], b += g[i] * ((x[i] - mean[j]) * rate[j]);
    });
    T scale[kMax], grad_mean[kMax], slope[kMax];
    for (int64_t j = 0; j < count; ++j) {
      if (c.bias_grad) static_cast<T*>(c.bias_grad)[row + j] = T(all.a[j]);
      if (c.weight_grad) static_cast<T*>(c.weight_grad)[row + j] = T(all.b[j]);
      scale[j] = c.weight ? rate[j] * values(c.weight, row)[j] : rate[j];
      grad_mean[j] = T(all.a[j] / n), slope[j] = T(all.b[j] / n) * rate[j];
    }
    T* const dx = static_cast<T*>(c.out);
    lines(0, c.outer, row, [&](int64_t at) {
      MT_INDEPENDENT
      for (int64_t j = 0; j < count; ++j)
        dx[at + j] = (g[at + j] - grad_mean[j] - (x[at + j] - mean[j]) * slope[j]) * scale[j];
    });
  }
};

template <class T> void run_columns(const Normalize& c) {
  const Columns<T> columns{c};
  const int64_t width =  // a row's bits do not depend on it
      smaller(ceil_div(c.groups, 16 * cpu_threads()) * 16, columns.kMax);
  parallel_chunks(c.groups, width, c.groups * c.outer > kGrain, [&](int64_t row, int64_t end) {
    if (c.grad) columns.backward(row, end - row);
    else columns.forward(row, end - row);
  });
}

template <class T> void run(const Normalize& c) {
  if (c.outer > 1 && c.spatial == 1) return run_columns<T>(c);
  const Rows<T> rows{c};
  const int64_t all = c.batch * c.groups;
  const bool spread = all * c.outer * rows.inner > kGrain;
  if (!c.grad || c.spatial > 1) {
    const int64_t together = smaller(kGrain / (c.outer * rows.inner) + 1, all);
    return parallel_chunks(all, together, spread, [&](int64_t row, int64_t end) {
      for (; row < end; ++row)
        if (c.grad) rows.channels_backward(row);
        else rows.forward(row);
    });
  }
  const int64_t each = normalize_batch_per_part(c);
  parallel_chunks(c.batch, each, spread, [&](int64_t from, int64_t to) {
    for (int64_t row = from * c.groups; row < to * c.groups; ++row)
      if (c.weight) rows.template elements_backward<true>(row, from / each);
      else rows.template elements_backward<false>(row, from / each);
  });
}

/// y = (x - mean) * scale + bias, with one parameter per element of a row, or one per row.
template <bool kEach, class T>
void shift(T* y, const T* x, int64_t n, const T* mean, const T* scale, const T* bias) {
  const T mean0 = *mean, scale0 = *scale, bias0 = bias ? *bias : T(0);
  if (bias) {
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      y[i] = (x[i] - (kEach ? mean[i] : mean0)) * (kEach ? scale[i] : scale0) +
             (kEach ? bias[i] : bias0);
  } else {
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i)
      y[i] = (x[i] - (kEach ? mean[i] : mean0)) * (kEach ? scale[i] : scale0);
  }
}

template <class T> void by_statistics(const Normalize& c) {
  const int64_t channels = c.groups * c.channels_per_group,
                all = c.outer * c.batch * channels * c.spatial;
  const T *const mean = static_cast<const T*>(c.mean), *const bias = static_cast<const T*>(c.bias),
                 *const variance = static_cast<const T*>(c.variance),
                 *const weight = static_cast<const T*>(c.weight);
  T* const scale = static_cast<T*>(c.rate);
  MT_INDEPENDENT
  for (int64_t i = 0; i < channels; ++i) scale[i] = op::Rsqrt::f(variance[i] + T(c.eps));
  if (weight)
    for (int64_t i = 0; i < channels; ++i) scale[i] *= weight[i];
  const bool each = c.spatial == 1;
  const int64_t n = each ? channels : c.spatial, rows = all / n, together = kGrain / n + 1;
  parallel_chunks(rows, together, all > 2 * kGrain, [&](int64_t row, int64_t end) {
    for (; row < end; ++row) {
      const T* const x = static_cast<const T*>(c.x) + row * n;
      T* const y = static_cast<T*>(c.out) + row * n;
      const int64_t at = row % channels;
      if (each) shift<true>(y, x, n, mean, scale, bias);
      else shift<false>(y, x, n, mean + at, scale + at, bias ? bias + at : bias);
    }
  });
}

}  // namespace

void normalize(const Normalize& c) {
  if (c.given) return c.dtype == Dtype::f32 ? by_statistics<float>(c) : by_statistics<double>(c);
  if (c.dtype == Dtype::f32) run<float>(c);
  else run<double>(c);
}

}  // namespace MT_ISA
}  // namespace mt
