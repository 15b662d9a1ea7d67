// lanes.h -- joins contiguous elements in many partial results at once, in an order that n decides
#pragma once
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/reductions.h"

namespace mt {
inline namespace MT_ISA {

#if defined(__AVX512F__)
constexpr int kPackBytes = 64;
#elif defined(__AVX2__)
constexpr int kPackBytes = 32;
#else
constexpr int kPackBytes = 16;
#endif
/// As many elements as one register holds; + * < and ?: work element by element.
template <class T, int Bytes = kPackBytes> struct PackOf {
  typedef T type __attribute__((vector_size(Bytes)));
};
template <class T, int Bytes = kPackBytes> using Pack = typename PackOf<T, Bytes>::type;

/// Whether a reduction's elements can be joined pack by pack.
template <class A, class T>
constexpr bool kPacks = math::is_floating<T> && math::is_floating<A>;

template <class Op, class V> MT_HD V join_packs(V x, V y) {
  if constexpr (Op::info.extreme > 0) return x != x ? x : (x > y ? x : y);
  else if constexpr (Op::info.extreme < 0) return x != x ? x : (x < y ? x : y);
  else return Op::join(x, y);
}

/// As many elements as a pack of A holds, converted. (g++ 12 makes four instructions of
/// __builtin_convertvector where one widens floats.)
template <class A, class T> MT_HD Pack<A> widened(const T* x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) < sizeof(A)) return (Pack<A>)_mm512_cvtps_pd(_mm256_loadu_ps(x));
#elif defined(__AVX2__)
  if constexpr (sizeof(T) < sizeof(A)) return (Pack<A>)_mm256_cvtps_pd(_mm_loadu_ps(x));
#endif
  Pack<T, kPackBytes / int(sizeof(A)) * int(sizeof(T))> v;
  __builtin_memcpy(&v, x, sizeof v);
  return __builtin_convertvector(v, Pack<A>);
}

/// A pack of elements of type T as a pack of A, each entered.
template <class Op, class A, class T> MT_HD Pack<A> load_pack(const T* x) {
  const Pack<A> a = widened<A>(x);
  if constexpr (Op::info.enters == op::Enters::square) return a * a;
  else if constexpr (Op::info.enters == op::Enters::magnitude) return a < 0 ? -a : a;
  else return a;
}

/// `n` contiguous elements joined: eight packs of partial results, then the packs pairwise, then
/// their elements pairwise, then the rest.
template <class Op, class T>
__attribute__((noinline)) typename op::Accumulator<Op, T>::type join_run(const T* x, int64_t n) {
  using A = typename op::Accumulator<Op, T>::type;
  A total = Op::template identity<A>();
  int64_t i = 0;
  if constexpr (kPacks<A, T>) {
    constexpr int width = kPackBytes / int(sizeof(A));
    if (n >= 8 * width) {
      Pack<A> a = load_pack<Op, A>(x), b = load_pack<Op, A>(x + width),
              c = load_pack<Op, A>(x + 2 * width), d = load_pack<Op, A>(x + 3 * width),
              e = load_pack<Op, A>(x + 4 * width), f = load_pack<Op, A>(x + 5 * width),
              g = load_pack<Op, A>(x + 6 * width), h = load_pack<Op, A>(x + 7 * width);
      for (i = 8 * width; i + 8 * width <= n; i += 8 * width) {
        a = join_packs<Op>(a, load_pack<Op, A>(x + i));
        b = join_packs<Op>(b, load_pack<Op, A>(x + i + width));
        c = join_packs<Op>(c, load_pack<Op, A>(x + i + 2 * width));
        d = join_packs<Op>(d, load_pack<Op, A>(x + i + 3 * width));
        e = join_packs<Op>(e, load_pack<Op, A>(x + i + 4 * width));
        f = join_packs<Op>(f, load_pack<Op, A>(x + i + 5 * width));
        g = join_packs<Op>(g, load_pack<Op, A>(x + i + 6 * width));
        h = join_packs<Op>(h, load_pack<Op, A>(x + i + 7 * width));
      }
      a = join_packs<Op>(join_packs<Op>(join_packs<Op>(a, b), join_packs<Op>(c, d)),
                         join_packs<Op>(join_packs<Op>(e, f), join_packs<Op>(g, h)));
      A lane[width];
      __builtin_memcpy(lane, &a, sizeof lane);
      for (int half = width / 2; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) lane[l] = Op::join(lane[l], lane[l + half]);
      total = lane[0];
    }
    A rest = Op::template identity<A>();
    for (const T *at = x + i, *end = x + n; at < end; ++at)
      rest = Op::join(rest, op::enter<Op, A>(*at));
    return Op::join(total, rest);
  } else {
    constexpr int lanes = 16;
    A lane[lanes];
    for (A& l : lane) l = total;
    for (; i + lanes <= n; i += lanes)
      for (int l = 0; l < lanes; ++l) lane[l] = Op::join(lane[l], op::enter<Op, A>(x[i + l]));
    for (const T *at = x + i, *end = x + n; at < end; ++at)
      total = Op::join(total, op::enter<Op, A>(*at));
    for (int half = lanes / 2; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) lane[l] = Op::join(lane[l], lane[l + half]);
    return Op::join(lane[0], total);
  }
}

/// y = exp(x - offset) for up to kExpRun elements; returns their sum.
constexpr int64_t kExpRun = 512;
template <class T> double exp_run(const T* x, T offset, T* y, int64_t n) {
  MT_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] = math::exp(x[i] - offset);
  return join_run<op::Sum>(y, n);
}

}  // namespace MT_ISA
}  // namespace mt
