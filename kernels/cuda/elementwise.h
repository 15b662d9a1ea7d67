// elementwise.h -- the kernels of the map verb on CUDA: for each operation, derivative, type and layout
//
// They are compiled in pieces (elementwise_*.cu), each with every kPieces-th operation: a driver that
// has to translate them for a new GPU takes a piece at a time, and a build several at once.
#pragma once
#include <utility>

#include "kernels/cuda/cuda.h"
#include "kernels/device.h"
#include "kernels/table.h"

namespace mt {
inline namespace MT_ISA {
namespace map_kernels {

constexpr int kPieces = 4;

/// Where operands lie; null: the operand is one element and comes with the kernel's arguments.
struct Operands {
  void* data[kMaxOperands + 1];
  alignas(16) unsigned char number[kMaxOperands + 1][8];

  __device__ const void* input(int k) const { return data[k] ? data[k] : number[k]; }
};
/// Operands that lie contiguous, or are one element (step 0).
struct Flat : Operands {
  int64_t n;
  int32_t step[kMaxOperands + 1];
  double scalar[4];
};
/// `grouped`: the last dimension lies side by side in the result, and in each operand side by side or
/// on one element; it counts groups of 16 bytes' worth of elements, and so do n and size.
struct Strided : Operands {
  int64_t n;
  int ndim;
  bool grouped;
  int32_t step[kMaxOperands + 1];  // of a grouped last dimension: 0 or 1
  int64_t size[kMaxDims], stride[kMaxOperands + 1][kMaxDims];
  double scalar[4];
};

/// Of 16-bit floats: how the operands lie, as dtypes.
struct Stored {
  Dtype of[kMaxOperands + 1];
};

struct Kernels {
  void (*flat)(Flat);
  void (*strided)(Strided);
};
struct HalfKernels {
  void (*flat)(Flat, Stored);
  void (*strided)(Strided, Stored);
};
struct Row {
  Kernels of[4][kLoopDtypes];  // part, dtype
  HalfKernels half[4];
  bool mask_first, answers_bool;
};

/// The kernels of the operation with this number, which is of the piece.
template <int piece> const Row& row_of(int op);

#ifdef MT_PIECE
namespace {

/// Element i of an operand, whose dtype is known to the launch alone.
template <class V> __device__ V read(const void* data, Dtype stored, int64_t i) {
  if constexpr (op::is_bool<V>) return static_cast<const V*>(data)[i];
  else if (stored == Dtype::f16) return static_cast<const Float16*>(data)[i];
  else if (stored == Dtype::bf16) return static_cast<const Bfloat16*>(data)[i];
  else return static_cast<const float*>(data)[i];
}
template <class V> __device__ void write(void* data, Dtype stored, int64_t i, V x) {
  if constexpr (op::is_bool<V>) static_cast<V*>(data)[i] = x;
  else if (stored == Dtype::f16) static_cast<Float16*>(data)[i] = Float16(x);
  else static_cast<Bfloat16*>(data)[i] = Bfloat16(x);
}

/// The formula for float32, on 16-bit floats that are converted as they come and go; eight at a
/// time where they lie side by side.
template <class Op, int Part> struct HalfKernel {
  using F = op::Formula<Op, Part>;
  using Out = op::Out<Op, Part, float>;
  template <int I> using In = op::In<Op, Part, float, I>;
  static constexpr int kWidth = 8;
  using Words = cuda::Group<uint16_t, kWidth>;

  template <class V>
  static __device__ cuda::Group<V, kWidth> group(const void* data, Dtype stored, int step,
                                                 int64_t i, int64_t at = 0) {
    cuda::Group<V, kWidth> g;
    if (!step) {
      const V x = read<V>(data, stored, at);
      for (int k = 0; k < kWidth; ++k) g.v[k] = x;
    } else if (is_half(stored)) {
      const Words words = static_cast<const Words*>(data)[i];
      for (int k = 0; k < kWidth; ++k) g.v[k] = read<V>(words.v, stored, k);
    } else {
      for (int k = 0; k < kWidth; ++k) g.v[k] = read<V>(data, stored, i * kWidth + k);
    }
    return g;
  }
  template <int... I, int... S>
  static __device__ void flat(const Flat& m, const Stored& stored, std::integer_sequence<int, I...>,
                              std::integer_sequence<int, S...>) {
    const int64_t groups = m.n / kWidth;
    for (int64_t i = cuda::thread_number(); i < groups; i += cuda::thread_count()) {
      const auto apply = [&](const auto&... in) {
        [[maybe_unused]] Words words;
        for (int k = 0; k < kWidth; ++k) {
          const Out x = static_cast<Out>(F::call(in.v[k]..., math::convert<float>(m.scalar[S])...));
          if constexpr (op::is_bool<Out>) write<Out>(m.data[0], Dtype::b8, i * kWidth + k, x);
          else write<Out>(words.v, stored.of[0], k, x);
        }
        if constexpr (!op::is_bool<Out>) static_cast<Words*>(m.data[0])[i] = words;
      };
      apply(group<In<I>>(m.input(I + 1), stored.of[I + 1], m.step[I + 1], i)...);
    }
    const int64_t i = groups * kWidth + cuda::thread_number();
    if (i < m.n)
      write<Out>(m.data[0], stored.of[0], i,
                 static_cast<Out>(
                     F::call(read<In<I>>(m.input(I + 1), stored.of[I + 1], i * m.step[I + 1])...,
                             math::convert<float>(m.scalar[S])...)));
  }
  template <int... I, int... S>
  static __device__ void row(const Strided& m, const Stored& stored, const int64_t* at,
                             std::integer_sequence<int, I...>, std::integer_sequence<int, S...>) {
    const auto apply = [&](const auto&... in) {
      [[maybe_unused]] Words words;
      for (int k = 0; k < kWidth; ++k) {
        const Out x = static_cast<Out>(F::call(in.v[k]..., math::convert<float>(m.scalar[S])...));
        if constexpr (op::is_bool<Out>) write<Out>(m.data[0], Dtype::b8, at[0] + k, x);
        else write<Out>(words.v, stored.of[0], k, x);
      }
      if constexpr (!op::is_bool<Out>) static_cast<Words*>(m.data[0])[at[0] / kWidth] = words;
    };
    apply(group<In<I>>(m.input(I + 1), stored.of[I + 1], m.step[I + 1], at[I + 1] / kWidth,
                       at[I + 1])...);
  }
  template <int... I, int... S>
  static __device__ void one(const Strided& m, const Stored& stored, const int64_t* at,
                             std::integer_sequence<int, I...>, std::integer_sequence<int, S...>) {
    write<Out>(m.data[0], stored.of[0], at[0],
               static_cast<Out>(F::call(read<In<I>>(m.input(I + 1), stored.of[I + 1], at[I + 1])...,
                                        math::convert<float>(m.scalar[S])...)));
  }
};

template <class Op, int Part, class T> struct Kernel {
  using F = op::Formula<Op, Part>;
  using Out = op::Out<Op, Part, T>;
  template <int I> using In = op::In<Op, Part, T, I>;
  static constexpr int kWidth = 16 / sizeof(T);

  template <int... I, int... S>
  static __device__ Out one(const Strided& m, const int64_t* at, std::integer_sequence<int, I...>,
                            std::integer_sequence<int, S...>) {
    return static_cast<Out>(F::call(static_cast<const In<I>*>(m.input(I + 1))[at[I + 1]]...,
                                    math::convert<T>(m.scalar[S])...));
  }

  /// The i-th group, or with step 0 element `at` in all places.
  template <class V>
  static __device__ cuda::Group<V, kWidth> group(const void* data, int step, int64_t i,
                                                 int64_t at = 0) {
    if (step) return static_cast<const cuda::Group<V, kWidth>*>(data)[i];
    cuda::Group<V, kWidth> g;
    const V x = static_cast<const V*>(data)[at];
    for (int k = 0; k < kWidth; ++k) g.v[k] = x;
    return g;
  }
  template <int... I, int... S>
  static __device__ void row(const Strided& m, const int64_t* at, std::integer_sequence<int, I...>,
                             std::integer_sequence<int, S...>) {
    const auto apply = [&](const auto&... in) {
      cuda::Group<Out, kWidth> out;
      for (int k = 0; k < kWidth; ++k)
        out.v[k] = static_cast<Out>(F::call(in.v[k]..., math::convert<T>(m.scalar[S])...));
      static_cast<cuda::Group<Out, kWidth>*>(m.data[0])[at[0] / kWidth] = out;
    };
    apply(group<In<I>>(m.input(I + 1), m.step[I + 1], at[I + 1] / kWidth, at[I + 1])...);
  }

  template <int... I, int... S>
  static __device__ void flat(const Flat& m, std::integer_sequence<int, I...>,
                              std::integer_sequence<int, S...>) {
    const int64_t groups = m.n / kWidth;
    for (int64_t i = cuda::thread_number(); i < groups; i += cuda::thread_count()) {
      const auto apply = [&](const auto&... in) {
        cuda::Group<Out, kWidth> out;
        for (int k = 0; k < kWidth; ++k)
          out.v[k] = static_cast<Out>(F::call(in.v[k]..., math::convert<T>(m.scalar[S])...));
        static_cast<cuda::Group<Out, kWidth>*>(m.data[0])[i] = out;
      };
      apply(group<In<I>>(m.input(I + 1), m.step[I + 1], i)...);
    }
    const int64_t i = groups * kWidth + cuda::thread_number();
    if (i < m.n)
      static_cast<Out*>(m.data[0])[i] =
          static_cast<Out>(F::call(static_cast<const In<I>*>(m.input(I + 1))[i * m.step[I + 1]]...,
                                   math::convert<T>(m.scalar[S])...));
  }
};

template <class Op, int Part>
using Inputs = std::make_integer_sequence<int, op::operands<Op, Part>>;
template <class Op> using Params = std::make_integer_sequence<int, op::count_params(Op::info)>;

template <class Op, int Part, class T> __global__ void flat(const __grid_constant__ Flat m) {
  Kernel<Op, Part, T>::flat(m, Inputs<Op, Part>{}, Params<Op>{});
}
template <class Op, int Part, class T> __global__ void strided(const __grid_constant__ Strided m) {
  constexpr int used = op::operands<Op, Part> + 1;
  for (int64_t i = cuda::thread_number(); i < m.n; i += cuda::thread_count()) {
    int64_t at[used];
    cuda::offsets_of<used>(i, m.ndim, m.size, m.stride, at);
    if (m.grouped) Kernel<Op, Part, T>::row(m, at, Inputs<Op, Part>{}, Params<Op>{});
    else
      static_cast<op::Out<Op, Part, T>*>(m.data[0])[at[0]] =
          Kernel<Op, Part, T>::one(m, at, Inputs<Op, Part>{}, Params<Op>{});
  }
}

template <class Op, int Part>
__global__ void flat_half(const __grid_constant__ Flat m, const Stored stored) {
  HalfKernel<Op, Part>::flat(m, stored, Inputs<Op, Part>{}, Params<Op>{});
}
template <class Op, int Part>
__global__ void strided_half(const __grid_constant__ Strided m, const Stored stored) {
  constexpr int used = op::operands<Op, Part> + 1;
  for (int64_t i = cuda::thread_number(); i < m.n; i += cuda::thread_count()) {
    int64_t at[used];
    cuda::offsets_of<used>(i, m.ndim, m.size, m.stride, at);
    if (m.grouped) HalfKernel<Op, Part>::row(m, stored, at, Inputs<Op, Part>{}, Params<Op>{});
    else HalfKernel<Op, Part>::one(m, stored, at, Inputs<Op, Part>{}, Params<Op>{});
  }
}

/// The ways for float32 and 16-bit floats where all operands are contiguous or repeat one element; all
/// else, and the way back, goes through `strided`, which reads 16 bytes at a time as well.
template <class Op, int Part, int D> void enter(Row& row) {
  using T = ctype<static_cast<Dtype>(D)>;
  constexpr bool is_f32 = D == int(Dtype::f32);
  if constexpr (op::accepts<T>(Op::info.accepts) && (Part == 0 || math::is_floating<T>)) {
    row.of[Part][D].strided = strided<Op, Part, T>;
    if constexpr (is_f32 && Part == 0) row.of[Part][D].flat = flat<Op, Part, T>;
  }
  if constexpr (op::accepts<float>(Op::info.accepts) && is_f32) {
    row.half[Part].strided = strided_half<Op, Part>;
    if constexpr (Part == 0) row.half[Part].flat = flat_half<Op, Part>;
  }
}
template <class Op, int Part, int... D> void enter(Row& row, std::integer_sequence<int, D...>) {
  if constexpr (Part == 0 || op::has_derivative<Op, Part>) (enter<Op, Part, D>(row), ...);
}
template <class Op> Row row_of() {
  Row row{};
  using All = std::make_integer_sequence<int, kLoopDtypes>;
  enter<Op, 0>(row, All{});
  enter<Op, 1>(row, All{});
  enter<Op, 2>(row, All{});
  enter<Op, 3>(row, All{});
  row.mask_first = op::mask_first<Op>, row.answers_bool = op::answers_bool<Op>;
  return row;
}
/// Of other pieces' operations: nothing.
template <class Op, int I> Row row_at() {
  if constexpr (I % kPieces == MT_PIECE) return row_of<Op>();
  else return {};
}
template <class... Op, int... I>
const Row& row_in(int op, op::List<Op...>, std::integer_sequence<int, I...>) {
  static const Row rows[] = {row_at<Op, I>()...};
  return rows[op];
}
template <class... Op> const Row& row_in(int op, op::List<Op...> all) {
  return row_in(op, all, std::make_integer_sequence<int, sizeof...(Op)>{});
}

}  // namespace

template <> const Row& row_of<MT_PIECE>(int op) { return row_in(op, op::Mapped{}); }
#endif

}  // namespace map_kernels
}  // namespace MT_ISA
}  // namespace mt
