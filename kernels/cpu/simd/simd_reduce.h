// simd_reduce.h -- reduces contiguous elements in several partial results, in an order that depends on n
#pragma once
#include <type_traits>
#include <utility>

#include "kernels/cpu/pool/parallel.h"
#include "kernels/cpu/simd/pack.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/reductions.h"

namespace mt {
inline namespace MT_ISA {

constexpr int kPackBytes = int(sizeof(simd::F32s));
/// The elements of one register; + * < and ?: work elementwise.
template <class T, int Bytes = kPackBytes> struct PackOf {
  typedef T type __attribute__((vector_size(Bytes)));
};
template <class T, int Bytes = kPackBytes> using Pack = typename PackOf<T, Bytes>::type;

using op::StateOf;

/// Whether a reduction can combine whole packs.
template <class Op, class A, class T>
constexpr bool kPacks = Op::maps&& math::is_floating<T>&& math::is_floating<A>;

/// Combines two packs; for an extreme neither operand is NaN.
template <class Op, class V> MT_HD V join_packs(V x, V y) {
  if constexpr (Op::extreme > 0) return x > y ? x : y;
  else if constexpr (Op::extreme < 0) return x < y ? x : y;
  else return Op::combine(x, y);
}

/// The number of elements of T that a lane of A adds at a time. For floats it is 16, in two halves
/// of eight that are added before they are widened. A conversion costs as much as four additions,
/// and an error of an ulp of eight elements is small compared with their rounding errors.
template <class Op, class T> constexpr int kFold = Op::folds&& std::is_same_v<T, float> ? 16 : 1;

/// As many elements of type T as there are in a pack of A.
template <class A, class T> using Part = Pack<T, kPackBytes / int(sizeof(A)) * int(sizeof(T))>;

template <class A, class T> MT_HD Part<A, T> load_part(const T* x) {
  Part<A, T> v;
  __builtin_memcpy(&v, x, sizeof v);
  return v;
}
/// Converts the part. (g++ 12 compiles __builtin_convertvector to four instructions where one would
/// widen floats.)
template <class A, class T> MT_HD Pack<A> widen(Part<A, T> v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) < sizeof(A)) return (Pack<A>)_mm512_cvtps_pd((__m256)v);
#elif defined(__AVX2__)
  if constexpr (sizeof(T) < sizeof(A)) return (Pack<A>)_mm256_cvtps_pd((__m128)v);
#endif
  return __builtin_convertvector(v, Pack<A>);
}
/// The upper half of the floats plus the lower half, in double.
MT_HD Pack<double> widen_halves(Pack<float> v) {
#if defined(__AVX512F__)
  return widen<double, float>((Part<double, float>)_mm512_castps512_ps256((__m512)v)) +
         widen<double, float>((Part<double, float>)_mm512_extractf32x8_ps((__m512)v, 1));
#elif defined(__AVX2__)
  return widen<double, float>((Part<double, float>)_mm256_castps256_ps128((__m256)v)) +
         widen<double, float>((Part<double, float>)_mm256_extractf128_ps((__m256)v, 1));
#else
  return (Pack<double>)_mm_cvtps_pd((__m128)v) +
         (Pack<double>)_mm_cvtps_pd(_mm_movehl_ps((__m128)v, (__m128)v));
#endif
}
template <class A, class T> MT_HD Pack<A> widened(const T* x) {
  return widen<A, T>(load_part<A>(x));
}

/// Loads elements of type T as a pack of A and maps them; each lane combines Fold of them.
template <class Op, class A, int Fold, class T> MT_HD Pack<A> load_pack(const T* x) {
  if constexpr (Fold == 16) {
    constexpr int width = kPackBytes / int(sizeof(T));
    const auto pair = [&](int i) {
      return Op::combine(Op::premap(load_part<T>(x + i * width)),
                         Op::premap(load_part<T>(x + (i + 1) * width)));
    };
    return widen_halves(Op::combine(Op::combine(pair(0), pair(2)), Op::combine(pair(4), pair(6))));
  }
  return Op::premap(widened<A>(x));
}

template <class V, int... L> MT_HD auto upper_half(V v, std::integer_sequence<int, L...>) {
  return __builtin_shufflevector(v, v, (int(sizeof...(L)) + L)...);
}
template <class V, int... L> MT_HD auto lower_half(V v, std::integer_sequence<int, L...>) {
  return __builtin_shufflevector(v, v, L...);
}
/// Combines the lanes of a pack pairwise: the two halves, then the halves of the result, and so on.
template <class Op, class A, int Bytes = kPackBytes> MT_HD A join_lanes(Pack<A, Bytes> part) {
  if constexpr (Bytes > 16) {
    constexpr std::make_integer_sequence<int, Bytes / 2 / int(sizeof(A))> half{};
    return join_lanes<Op, A, Bytes / 2>(
        join_packs<Op>(lower_half(part, half), upper_half(part, half)));
  } else if constexpr (sizeof(A) == 8) {
    return join_packs<Op>(part[0], part[1]);
  } else {
    return join_packs<Op>(join_packs<Op>(part[0], part[2]), join_packs<Op>(part[1], part[3]));
  }
}
/// Whether a lane of a comparison is true.
template <class Mask> bool any_lane(Mask mask) {
  constexpr int words = int(sizeof mask) / 8;
  int64_t word[words], all = 0;
  __builtin_memcpy(word, &mask, sizeof word);
  for (int i = 0; i < words; ++i) all |= word[i];
  return all != 0;
}
/// The extreme of the whole packs from `i` on; advances `i` past them.
template <class Op, class A, class T> A short_extreme(const T* x, int64_t& i, int64_t n) {
  constexpr int width = kPackBytes / int(sizeof(A));
  if (n - i < width) return Op::template identity<A>();
  Pack<A> part = load_pack<Op, A, 1>(x + i);
  auto nan = part != part;
  for (i += width; i + width <= n; i += width) {
    const Pack<A> v = load_pack<Op, A, 1>(x + i);
    nan |= v != v;
    part = join_packs<Op>(part, v);
  }
  return any_lane(nan) ? A(__builtin_nan("")) : join_lanes<Op, A>(part);
}

/// The result of the whole blocks of integers from `i` on; advances `i` past them.
template <class Op, int Lanes, class T>
StateOf<Op, T> join_blocks(const T* x, int64_t& i, int64_t n) {
  using A = StateOf<Op, T>;
  if (n - i < Lanes) return Op::template identity<A>();
  A lane[Lanes];
  for (A& l : lane) l = Op::template identity<A>();
  for (; i + Lanes <= n; i += Lanes)
    for (int l = 0; l < Lanes; ++l)
      lane[l] = Op::combine(lane[l], op::enter<Op, A>(x[i + l], 0, nullptr));
  for (int half = Lanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lane[l] = Op::combine(lane[l], lane[l + half]);
  return lane[0];
}

/// Whether a reduction adds elements that are bytes without a conversion.
template <class Op, class T>
constexpr bool kAddsBytes = sizeof(T) == 1 &&
                            (std::is_same_v<Op, op::Sum> ||
                             (std::is_base_of_v<op::Adds, Op> && std::is_same_v<T, bool>));

/// The sum of n bytes; one instruction adds eight of them.
inline int64_t sum_bytes(const uint8_t* x, int64_t n) {
  Pack<int64_t, 16> sums = {}, v;
  int64_t i = 0, rest = 0;
  for (; i + 16 <= n; i += 16) {
    __builtin_memcpy(&v, x + i, sizeof v);
    sums += (Pack<int64_t, 16>)_mm_sad_epu8((__m128i)v, _mm_setzero_si128());
  }
  for (; i < n; ++i) rest += x[i];
  return rest + sums[0] + sums[1];
}

/// Reduces `n` contiguous elements in packs of partial results, then the packs and their lanes
/// pairwise, then single packs in the same way, and the rest. With Fold 1 it widens each element.
template <class Op, class T, int Fold = kFold<Op, T>>
__attribute__((noinline)) StateOf<Op, T> join_run(const T* x, int64_t n) {
  using A = StateOf<Op, T>;
  A total = Op::template identity<A>();
  int64_t i = 0;
  if constexpr (kPacks<Op, A, T>) {
    constexpr int width = kPackBytes / int(sizeof(A)), step = Fold * width;
    constexpr int parts = Fold > 1 ? 4 : 8;
    const auto load = [&](int64_t at) { return load_pack<Op, A, Fold>(x + at); };
    if (n >= parts * step) {
      Pack<A> part[parts];
      for (Pack<A>& p : part) p = Pack<A>{} + total;
      auto nan = part[0] != part[0];  // separate, which costs less than extremes that propagate NaN
      for (; i + parts * step <= n; i += parts * step)
#pragma GCC unroll 8
        for (int k = 0; k < parts; ++k) {
          const Pack<A> v = load(i + k * step);
          if constexpr (Op::extreme != 0) nan |= v != v;
          part[k] = join_packs<Op>(part[k], v);
        }
      for (int half = parts / 2; half > 0; half /= 2)
        for (int k = 0; k < half; ++k) part[k] = join_packs<Op>(part[k], part[k + half]);
      A lane[width];  // not join_lanes: a second call makes g++'s short lines 1.7 times slower
      __builtin_memcpy(lane, &part[0], sizeof lane);
      for (int half = width / 2; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) lane[l] = Op::combine(lane[l], lane[l + half]);
      total = lane[0];
      if constexpr (Op::extreme != 0)
        if (any_lane(nan)) total = A(__builtin_nan(""));
    }
    if constexpr (Fold > 1) return Op::combine(total, A(join_run<Op, T, 1>(x + i, n - i)));
    if constexpr (Op::extreme != 0 && Fold == 1)
      total = Op::combine(total, short_extreme<Op, A>(x, i, n));
    if constexpr (Op::extreme == 0 && Fold == 1)
      if (i + width <= n) {  // one after the other would take most of the time for short rows
        Pack<A> part = load(i);
        for (i += width; i + width <= n; i += width) part = Op::combine(part, load(i));
        total = Op::combine(total, join_lanes<Op, A>(part));
      }
    A rest = Op::template identity<A>();
#pragma GCC unroll 8
    for (const T *at = x + i, *end = x + n; at < end; ++at)
      rest = Op::combine(rest, op::enter<Op, A>(*at, 0, nullptr));
    return Op::combine(total, rest);
  } else if constexpr (kAddsBytes<Op, T>) {
    return sum_bytes(reinterpret_cast<const uint8_t*>(x), n);
  } else if constexpr (std::is_same_v<T, uint8_t>) {  // g++ generates the partial results
    for (; i < n; ++i) total = Op::combine(total, op::enter<Op, A>(x[i], 0, nullptr));
    return total;
  } else {
    if constexpr (sizeof(A) == 1) total = join_blocks<Op, 64>(x, i, n);
    total = Op::combine(total, join_blocks<Op, 16>(x, i, n));
    for (const T *at = x + i, *end = x + n; at < end; ++at)
      total = Op::combine(total, op::enter<Op, A>(*at, 0, nullptr));
    return total;
  }
}

/// Reduces a line of any length.
template <class Op, class T> StateOf<Op, T> join_line(const T* x, int64_t n) {
  auto total = join_run<Op>(x, n < kGrain ? n : kGrain);
  in_strips(n - kGrain, [&](int64_t from, int64_t to) {
    total = Op::combine(total, join_run<Op>(x + kGrain + from, to - from));
  });
  return total;
}

/// y = exp(x - offset) for up to kExpRun elements; returns their sum.
constexpr int64_t kExpRun = 512;
template <class T> double exp_run(const T* x, T offset, T* y, int64_t n) {
  int64_t i = 0;
#ifdef MT_HAS_PACKS
  if constexpr (std::is_same_v<T, float>) {
    constexpr int width = simd::kWidth<float>;
    for (; i + width <= n; i += width)
      math::exp(simd::Pack::load(x + i) - simd::Pack(offset)).store(y + i);
    if (const int rest = int(n - i); rest > 0) {
      const simd::Pack last(simd::load_first(x + i, rest));
      simd::store_first(y + i, math::exp(last - simd::Pack(offset)).v, rest);
      i = n;
    }
  }
#endif
  MT_INDEPENDENT
  for (; i < n; ++i) y[i] = math::exp(x[i] - offset);
  return join_run<op::Sum>(y, n);
}

}  // namespace MT_ISA
}  // namespace mt
