// elementwise.cpp -- the map verb on the CPU: one loop for each operation, derivative and dtype
#include <type_traits>
#include <utility>

#include "kernels/cpu/simd/blocks.h"
#include "kernels/cpu/simd/fast_path.h"
#include "kernels/cpu/simd/pack.h"
#include "kernels/cpu/simd/powers.h"
#include "kernels/cpu/simd/storage_types.h"
#include "kernels/cpu/verbs/elementwise.h"
#include "kernels/table.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {

/// The stored bits of a 16-bit float, for formulas that only copy numbers or set their signs.
struct HalfBits {
  uint16_t bits;
  friend HalfBits operator-(HalfBits x) { return {uint16_t(x.bits ^ 0x8000)}; }
  friend HalfBits fabs(HalfBits x) { return {uint16_t(x.bits & 0x7fff)}; }
};
using OfHalfBits = op::List<op::Neg, op::Abs, op::Where>;
template <> inline constexpr bool math::is_symbolic<HalfBits> = true;

namespace {

using Loop = ElementwiseLoop;

/// Whether the loop has a special case for an input of one element (x + 1, x * column), where
/// filling a buffer with copies would cost as much as the operation. Other loops get copies.
template <class Op, int Part>
constexpr bool takes_one = Part == 0 &&
                           ((op::operands<Op, Part> == 2 &&
                             Op::info.accepts != op::Accepts::real) ||
                            std::is_same_v<Op, op::Div> ||
                            std::is_same_v<Op, op::Lerp>)&&shortcut<Op, Part> != Shortcut::quotient;

#ifdef MT_HAS_PACKS
/// Whether the loop uses simd::Pack; the derivative of sinc, whose angles may be large, does not.
template <class Op, int Part, class T>
constexpr bool packed = std::is_same_v<T, float>&& is_one_of<Op>(Packed{}) &&
                        !(std::is_same_v<Op, op::Sinc> && Part > 0);

/// Calls make(one register of elements of in...) for all of [0, n). Long formulas keep few loads
/// and stores in flight, so that the hardware prefetcher is late.
template <class Make, class... In>
MT_SIMD void each_pack(int64_t n, const Make& make, float* out, const In*... in) {
  constexpr int width = simd::kWidth<float>;
  int64_t i = 0;
  for (; i + width <= n; i += width) {
    (__builtin_prefetch(in + i + 1024), ...), __builtin_prefetch(out + i + 256, 1);
    make(simd::Pack::load(in + i)...).store(out + i);
  }
  const int rest = int(n - i);
  if (rest > 0)
    simd::store_first(out + i, make(simd::Pack(simd::load_first(in + i, rest))...).v, rest);
}
#else
template <class Op, int Part, class T> constexpr bool packed = false;
#endif

/// The unsigned type for the bits of an element.
template <size_t Bytes> struct BitsOf { using type = uint8_t; };
template <> struct BitsOf<2> { using type = Two; };
template <> struct BitsOf<4> { using type = Four; };
template <> struct BitsOf<8> { using type = Eight; };

template <class Op, int Part, class T> struct Kernel {
  template <int I> using In = op::In<Op, Part, T, I>;

  template <int One, int... I>
  static void with_one(char* const* data, int64_t n, std::integer_sequence<int, I...>) {
    using Out = op::Out<Op, Part, T>;
    const auto loop = [n](Out* out, const In<I>*... in, const In<I>... first) {
      MT_INDEPENDENT
      for (int64_t i = 0; i < n; ++i)
        out[i] = static_cast<Out>(op::Formula<Op, Part>::call(One == I ? first : in[i]...));
    };
    loop(reinterpret_cast<Out*>(data[0]), reinterpret_cast<const In<I>*>(data[I + 1])...,
         *reinterpret_cast<const In<I>*>(data[I + 1])...);
  }

#ifdef MT_HAS_PACKS
  template <int... S, class... In>
  static void run_packs(int64_t n, float* out, [[maybe_unused]] const float* given,
                        std::integer_sequence<int, S...>, const In*... in) {
    using F = op::Formula<Op, Part>;
    using P = simd::Pack;
    [[maybe_unused]] const P number[sizeof...(S) + 1] = {P(given[S])..., P(0)};
    const auto make = [=](auto... x) __attribute__((always_inline)) {
      return P(F::call(x..., number[S]...));
    };
    constexpr Shortcut way = shortcut<Op, Part>;
    if constexpr (way == Shortcut::none) {
      each_pack(n, make, out, in...);
    } else {
      using E = std::conditional_t<way == Shortcut::angle, float, math::Reduced<float>>;
      for (int64_t at = 0, end; at < n; at = end) {
        end = smaller(n, at + kProbe);
        if (in_fast_range<Op, Part>(end - at, in + at...) == (way == Shortcut::angle)) {
          each_pack(end - at, make, out + at, in + at...);
        } else {  // angles of any size, or operations without a formula
          MT_INDEPENDENT
          for (int64_t i = at; i < end; ++i)
            out[i] = static_cast<float>(F::call(E(in[i])..., E(given[S])...));
        }
      }
    }
  }
#endif

  template <int... I, int... S>
  static void run(char* const* data, int64_t n, const double* scalar,
                  std::integer_sequence<int, I...>, std::integer_sequence<int, S...>) {
    using F = op::Formula<Op, Part>;
    using Out = op::Out<Op, Part, T>;
    const T given[sizeof...(S) + 1] = {math::convert<T>(scalar[S])..., T{}};
    auto loop = [&](Out* out, const In<I>*... in) {
      if constexpr (packed<Op, Part, T>) {
        run_packs(n, out, given, std::integer_sequence<int, S...>{}, in...);
      } else if constexpr (has_shortcut<Op, Part, T>) {
        using E = math::Reduced<T>;
        for (int64_t at = 0, end; at < n; at = end) {
          end = smaller(n, at + kProbe);
          if (in_fast_range<Op, Part>(end - at, in + at...)) {
            MT_INDEPENDENT
            for (int64_t i = at; i < end; ++i)
              out[i] = static_cast<Out>(F::call(E(in[i])..., E(given[S])...));
          } else {
            MT_INDEPENDENT
            for (int64_t i = at; i < end; ++i)
              out[i] = static_cast<Out>(F::call(in[i]..., given[S]...));
          }
        }
      } else if constexpr (std::is_same_v<Op, op::LogicalNot> && std::is_same_v<T, bool>) {
        // g++ does not vectorize !bool
        const uint8_t* from = reinterpret_cast<const uint8_t*>(data[1]);
        uint8_t* to = reinterpret_cast<uint8_t*>(out);
        MT_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) to[i] = from[i] ^ 1;
      } else if constexpr (std::is_same_v<Op, op::Where> && Part == 0) {  // g++ would emit a branch
        using U = typename BitsOf<sizeof(T)>::type;
        const uint8_t* mask = reinterpret_cast<const uint8_t*>(data[1]);
        const U* yes = reinterpret_cast<const U*>(data[2]);
        const U* no = reinterpret_cast<const U*>(data[3]);
        U* to = reinterpret_cast<U*>(out);
        MT_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) to[i] = no[i] ^ ((yes[i] ^ no[i]) & U(0 - U(mask[i])));
      } else {
        MT_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(F::call(in[i]..., given[S]...));
      }
    };
    loop(reinterpret_cast<Out*>(data[0]), reinterpret_cast<const In<I>*>(data[I + 1])...);
  }
  static void run(char* const* data, int64_t n, const double* scalar, int one) {
    if constexpr (std::is_same_v<Op, op::Pow> && math::is_floating<T>) {
      if constexpr (Part == 0) return run_power<T>(data, n, one);
      if constexpr (Part == 1) return run_power_gradient<T>(data, n);
    }
    if constexpr (takes_one<Op, Part>) {
      constexpr std::make_integer_sequence<int, op::operands<Op, Part>> all{};
      if (one == 0) return with_one<0>(data, n, all);
      if (one == 1) return with_one<1>(data, n, all);
      if constexpr (all.size() > 2)
        if (one == 2) return with_one<2>(data, n, all);
    }
    run(data, n, scalar, std::make_integer_sequence<int, op::operands<Op, Part>>{},
        std::make_integer_sequence<int, op::count_params(Op::info)>{});
  }
};

struct Loops {
  Loop of[4][kLoopDtypes];  // part, dtype
  Loop of_half_bits;        // part 0
};

template <class Op, int Part, int D> constexpr void enter(Loops& loops) {
  using T = ctype<static_cast<Dtype>(D)>;
  if constexpr (op::accepts<T>(Op::info.accepts) && (Part == 0 || math::is_floating<T>))
    loops.of[Part][D] = &Kernel<Op, Part, T>::run;
}
template <class Op, int Part, int... D>
constexpr void enter(Loops& loops, std::integer_sequence<int, D...>) {
  if constexpr (Part == 0 || op::has_derivative<Op, Part>) (enter<Op, Part, D>(loops), ...);
}
template <class Op> constexpr Loops loops_of() {
  Loops loops{};
  using All = std::make_integer_sequence<int, kLoopDtypes>;
  enter<Op, 0>(loops, All{});
  enter<Op, 1>(loops, All{});
  enter<Op, 2>(loops, All{});
  enter<Op, 3>(loops, All{});
  if constexpr (is_one_of<Op>(OfHalfBits{})) loops.of_half_bits = &Kernel<Op, 0, HalfBits>::run;
  return loops;
}
template <class L> struct Table;
template <class... Op> struct Table<op::List<Op...>> {
  static constexpr Loops row[] = {loops_of<Op>()...};
  static constexpr op::Accepts accepts[] = {Op::info.accepts...};
  static constexpr bool mask_first[] = {op::mask_first<Op>...};
  static constexpr bool answers_bool[] = {op::answers_bool<Op>...};
  static constexpr bool one[] = {takes_one<Op, 0>...};
};
using All = Table<op::Mapped>;

constexpr int64_t kFew = 512;

Dtype operand_dtype(const Map& m, int k) {
  const int mask = !All::mask_first[m.op] ? -1 : m.part == 0 ? 1 : 2;
  const bool is_bool = k == mask || (k == 0 && m.part == 0 && All::answers_bool[m.op]);
  return is_bool ? Dtype::b8 : m.plain >> k & 1 ? compute_dtype(m.dtype) : m.dtype;
}
int64_t operand_item(const Map& m, int k) { return item_size(operand_dtype(m, k)); }

/// Runs a loop of float32 or int32 over a storage-only dtype, which is converted through buffers in
/// L1.
__attribute__((noinline)) void run_converted(const Map& m, Loop loop, char* const* data, int64_t n,
                                             int one) {
  constexpr int64_t kPiece = 512;
  alignas(64) char buffer[kMaxOperands + 1][kPiece * 4];
  for (int64_t at = 0; at < n; at += kPiece) {
    const int64_t here = smaller(kPiece, n - at);
    char* part[kMaxOperands + 1];
    for (int k = 0; k <= m.inputs; ++k) {
      const Dtype d = operand_dtype(m, k);
      const bool repeated = one >= 0 && k == one + 1;
      part[k] = data[k] + (repeated ? 0 : at) * item_size(d);
      if (!is_storage_only(d)) continue;
      if (k > 0) load_converted(d, buffer[k], part[k], repeated ? 1 : here);
      part[k] = buffer[k];
    }
    loop(part, here, m.scalar, one);
    const Dtype d = operand_dtype(m, 0);
    if (is_storage_only(d)) store_converted(d, data[0] + at * item_size(d), buffer[0], here);
  }
}
/// Runs the loop of a call over contiguous data.
struct Runner {
  const Map& m;
  const Loop of_bits = is_half(m.dtype) && m.part == 0 ? All::row[m.op].of_half_bits : nullptr;
  const Loop loop =
      of_bits ? of_bits : All::row[m.op].of[m.part][static_cast<int>(compute_dtype(m.dtype))];
  const bool narrow = is_storage_only(m.dtype) && !of_bits;

  void operator()(char* const* data, int64_t n, int one) const {
    if (narrow) run_converted(m, loop, data, n, one);
    else loop(data, n, m.scalar, one);
  }
};

/// Maps a few elements in one dimension, where some inputs are one repeated element, without the
/// overhead of blocks.
void map_few(const Map& m, const Runner& run, bool takes_one) {
  alignas(64) char buffer[kMaxOperands][kFew * 8];
  char* data[kMaxOperands + 1];
  data[0] = static_cast<char*>(m.data[0]);
  const int64_t n = m.size[0];
  if (n == 0) return;
  int one = -1;
  for (int k = 1; k <= m.inputs; ++k) {
    data[k] = static_cast<char*>(m.data[k]);
    if (m.stride[k][0] == 1) continue;
    if (takes_one && one < 0 && m.stride[k][0] == 0) {
      one = k - 1;
      continue;
    }
    const int64_t item = operand_item(m, k);
    move_run(buffer[k - 1], 1, data[k], m.stride[k][0], n, item);
    data[k] = buffer[k - 1];
  }
  if (m.stride[0][0] == 1 || n <= 1) return run(data, n, one);
  const int64_t item = operand_item(m, 0);
  alignas(64) char result[kFew * 8];
  char* const out = data[0];
  data[0] = result;
  run(data, n, one);
  move_run(out, m.stride[0][0], result, 1, n, item);
}

}  // namespace

ElementwiseLoop elementwise_loop(int op, Dtype dtype, bool& one) {
  one = All::one[op];
  return All::row[op].of[0][static_cast<int>(dtype)];
}

void map(const Map& call) {
  const Runner run{call};
  const bool takes_one = call.part == 0 && All::one[call.op];
  Map m;  // after merging dimensions
  m.ndim = call.ndim;
  const int used = call.inputs + 1;
  bool flat = true;
  if (call.ndim == 1) {  // the common cases: operands are contiguous or one repeated element
    for (int k = 0; k < used; ++k) flat &= call.stride[k][0] == 1;
    if (flat && call.size[0] <= kGrain) {
      run(reinterpret_cast<char* const*>(call.data), call.size[0], -1);
      return;
    }
    if (call.size[0] <= kFew) return map_few(call, run, takes_one);
  }
  int64_t* stride[kMaxOperands + 1];
  for (int k = 0; k < used; ++k) {
    __builtin_memcpy(m.stride[k], call.stride[k], sizeof(int64_t) * size_t(call.ndim));
    stride[k] = m.stride[k];
  }
  __builtin_memcpy(m.size, call.size, sizeof(int64_t) * size_t(call.ndim));
  if (count(m.ndim, m.size) == 0) return;
  m.ndim = collapse(m.ndim, m.size, stride, used);
  const int cost = All::accepts[call.op] == op::Accepts::real ? 8 : 1;
  for_blocks<kMaxOperands + 1>(
      used, m.ndim, m.size, cost, takes_one,
      [&](Operand* operand) {
        for (int k = 0; k < used; ++k) {
          operand[k].set(call.data[k], operand_item(call, k), m.ndim, m.size, m.stride[k]);
        }
      },
      run);
}

}  // namespace MT_ISA
}  // namespace mt
