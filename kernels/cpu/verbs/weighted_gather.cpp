// weighted_gather.cpp -- the weighted_gather verb: sums of weighted elements along a dimension, and their gradients
#include "kernels/cpu/pool/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int64_t kPlaces = 1024;  // places whose positions and weights fit in the L1 cache
constexpr int64_t kStrip = 512;    // columns of a line that a thread processes at a time
constexpr int64_t kAhead = 8,
                  kLine =
                      16;  // places whose lines are prefetched; float32 elements of a cache line

/// The terms of a sum for each place: x[at[p]] * weight[p], or 0 if `at` is negative; the steps are
/// the strides from one term to the next.
template <class T> struct Terms {
  const T *x, *weight;
  const int64_t* at;
  int64_t n, x_step, at_step, weight_step;
};

#ifdef __AVX512F__
/// The terms of the first `count` places of a register.
MT_SIMD __m512 products_at(const float* x, const int64_t* at, const float* weight, int count) {
  const __mmask16 all = __mmask16((1u << count) - 1);
  const __m512i a = _mm512_maskz_loadu_epi64(__mmask8(all), at),
                b = _mm512_maskz_loadu_epi64(__mmask8(all >> 8), at + 8);
  const __mmask8 in_a = __mmask8(all & ~_mm512_movepi64_mask(a)),
                 in_b = __mmask8(all >> 8 & ~_mm512_movepi64_mask(b));
  const __m256 none = _mm256_setzero_ps(), low = _mm512_mask_i64gather_ps(none, in_a, a, x, 4),
               high = _mm512_mask_i64gather_ps(none, in_b, b, x, 4);
  return _mm512_maskz_mul_ps(__mmask16(in_b << 8 | in_a),
                             _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1),
                             _mm512_maskz_loadu_ps(all, weight));
}
MT_SIMD __m512d products_at(const double* x, const int64_t* at, const double* weight, int count) {
  const __mmask8 all = __mmask8((1u << count) - 1);
  const __m512i a = _mm512_maskz_loadu_epi64(all, at);
  const __mmask8 in = __mmask8(all & ~_mm512_movepi64_mask(a));
  const __m512d read = _mm512_mask_i64gather_pd(_mm512_setzero_pd(), in, a, x, 8);
  return _mm512_maskz_mul_pd(in, read, _mm512_maskz_loadu_pd(all, weight));
}
template <class T> void add_terms(const Terms<T>& t, T* sums, int64_t places) {
  using namespace simd;
  for (int64_t p = 0; p < places; p += kWidth<T>) {
    const int count = int(smaller(places - p, int64_t(kWidth<T>)));
    Vector<T> sum = products_at(t.x, t.at + p, t.weight + p, count);
    for (int64_t k = 1; k < t.n; ++k)
      sum = add(sum, products_at(t.x + k * t.x_step, t.at + k * t.at_step + p,
                                 t.weight + k * t.weight_step + p, count));
    store_first(sums + p, sum, count);
  }
}
#else
template <class T> void add_terms(const Terms<T>& t, T* sums, int64_t places) {
  for (int64_t k = 0; k < t.n; ++k) {
    const T *const x = t.x + k * t.x_step, *const weight = t.weight + k * t.weight_step;
    const int64_t* const at = t.at + k * t.at_step;
    for (int64_t p = 0; p < places; ++p) {
      const T value = at[p] < 0 ? T(0) : x[at[p]] * weight[p];
      sums[p] = k == 0 ? value : sums[p] + value;
    }
  }
}
#endif

/// to[i] (+)= from[i] * weight.
template <bool First, class T> void add_line(T* to, const T* from, T weight, int64_t n) {
  MT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) to[i] = First ? from[i] * weight : to[i] + from[i] * weight;
}
template <class T> void clear_line(T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = 0;
}

/// One batch of the call.
template <class T> struct Batch {
  const WeightedGather& c;
  const int64_t* at;
  T *weight, *x, *sums;
  Batch(const WeightedGather& call, int64_t b)
      : c(call),
        at(c.at + b * c.taps * c.places),
        weight(static_cast<T*>(c.weight) + b * c.taps * c.places),
        x(static_cast<T*>(c.x) + b * c.channels * c.size * c.inner),
        sums(static_cast<T*>(c.sums) + b * c.channels * c.places * c.inner) {}

  /// Computes the places [p, p + n) of a channel.
  void sum(int64_t channel, int64_t p, int64_t n) const {
    const T* const from = x + channel * c.size * c.inner;
    T* to = sums + (channel * c.places + p) * c.inner;
    if (c.inner == 1)
      return add_terms<T>({from, weight + p, at + p, c.taps, 0, c.places, c.places}, to, n);
    for (int64_t end = p + n; p < end; ++p, to += c.inner) {
      for (int64_t k = p + kAhead; p + kAhead < end && k < c.taps * c.places; k += c.places)
        for (int64_t line = 0; line < smaller(c.inner, 4 * kLine); line += kLine)
          __builtin_prefetch(from + at[k] * c.inner + line);
      if (at[p] < 0) clear_line(to, c.inner);
      else add_line<true>(to, from + at[p] * c.inner, weight[p], c.inner);
      for (int64_t k = p + c.places; k < c.taps * c.places; k += c.places)
        if (at[k] >= 0) add_line<false>(to, from + at[k] * c.inner, weight[k], c.inner);
    }
  }
  /// Computes the gradient of the columns [from, from + n) of a channel.
  void x_gradient(int64_t channel, int64_t from, int64_t n) const {
    T* const to = x + channel * c.size * c.inner + from;
    const T* const g = sums + channel * c.places * c.inner + from;
    const int64_t places = c.places, all = c.taps * places;
    if (c.inner == 1) {
      clear_line(to, c.size);
      for (int64_t p = 0; p < places; ++p)
        for (int64_t k = p; k < all; k += places)
          if (at[k] >= 0) to[at[k]] += g[p] * weight[k];
      return;
    }
    for (int64_t s = 0; s < c.size; ++s) clear_line(to + s * c.inner, n);
    for (int64_t p = 0; p < places && !mt_interrupted; ++p)
      for (int64_t k = p; k < all; k += places)
        if (at[k] >= 0) add_line<false>(to + at[k] * c.inner, g + p * c.inner, weight[k], n);
  }
  /// Computes the gradient of the weights of the places [p, p + n).
  void weight_gradient(int64_t p, int64_t n) const {
    for (int64_t k = p; k < c.taps * c.places; k += c.places)
      add_terms<T>({x, sums + p, at + k, c.channels, c.size, 0, c.places}, weight + k, n);
  }
};

template <class T> void weighted_gather_as(const WeightedGather& c) {
  // Work items are pieces of a channel's places or columns; if these are few, of several channels.
  const bool columns = c.part == WeightedPart::x;
  const int64_t line = columns ? c.inner : c.places, piece = columns ? kStrip : kPlaces,
                cost = larger(c.taps, 1) * smaller(line, piece) * (columns ? c.places : c.inner);
  const int64_t channels = c.part == WeightedPart::weight ? 1 : c.channels;
  const int64_t pieces = ceil_div(line, piece), together = larger(kGrain / larger(cost, 1), 1),
                groups = ceil_div(channels, together);
  parallel(
      c.batch * groups * pieces, c.batch * channels * pieces * cost > 2 * kGrain, [&](int64_t i) {
        const Batch<T> batch(c, i / (groups * pieces));
        const int64_t from = i % pieces * piece, n = smaller(line - from, piece);
        const int64_t first = i / pieces % groups * together;
        if (c.part == WeightedPart::weight) return batch.weight_gradient(from, n);
        for (int64_t k = first; k < smaller(first + together, channels) && !mt_interrupted; ++k)
          if (columns) batch.x_gradient(k, from, n);
          else batch.sum(k, from, n);
      });
}

}  // namespace

void weighted_gather(const WeightedGather& c) {
  if (c.dtype == Dtype::f64) weighted_gather_as<double>(c);
  else weighted_gather_as<float>(c);
}

}  // namespace MT_ISA
}  // namespace mt
