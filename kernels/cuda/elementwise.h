// elementwise.h -- the kernels of the map verb on CUDA: per operation, derivative, dtype and layout
//
// They are compiled in pieces (elementwise_*.cu), each with every kPieces-th operation: a driver that
// JIT-compiles them for a new GPU compiles one piece at a time, and a build runs them in parallel.
#pragma once
#include <type_traits>
#include <utility>

#include "kernels/cuda/cuda.h"
#include "kernels/device.h"
#include "kernels/table.h"

namespace mt {
inline namespace MT_ISA {
namespace map_kernels {

constexpr int kPieces = 4;

/// The addresses of operands; null: the operand is one element in the kernel's arguments.
struct Operands {
  void* data[kMaxOperands + 1];
  alignas(16) unsigned char number[kMaxOperands + 1][8];
  int64_t n;
  int32_t step[kMaxOperands + 1];  // stride along the last dimension; used if 0 or 1
  Dtype stored[kMaxOperands + 1];  // for 16-bit floats: the dtype of each operand in memory
  double scalar[4];

  __device__ const void* input(int k) const { return data[k] ? data[k] : number[k]; }
};
/// `grouped`: along the last dimension the output is contiguous, and each input is contiguous or
/// one repeated element; the dimension counts groups of 16 bytes, and so do n and size.
struct Strided : Operands {
  int ndim;
  bool grouped;
  int64_t size[kMaxDims], stride[kMaxOperands + 1][kMaxDims];
};

struct Kernels {
  void (*flat)(Operands);  // all operands are contiguous, or one element (step 0)
  void (*strided)(Strided);
};
/// Both 16-bit floats use the column of float16.
constexpr int kColumns = kLoopDtypes + 1;
static_assert(int(Dtype::f16) == kLoopDtypes);
struct Row {
  Kernels of[4][kColumns];  // part, dtype
  bool mask_first, answers_bool;
};

/// The kernels of the operation with this number, which must be in the piece.
template <int piece> const Row& row_of(int op);

#ifdef MT_PIECE
namespace {

/// Access to elements of operands in memory, one by one and in groups of 16 bytes.
template <Dtype D> struct Access {
  using T = ctype<D>;  // the type that the formula is computed in
  static constexpr int kWidth = 16 / sizeof(T);
  template <class V> using Group = cuda::Group<V, kWidth>;

  template <class V> static __device__ V read(const Operands& m, int k, int64_t i) {
    return static_cast<const V*>(m.input(k))[i];
  }
  template <class V> static __device__ Group<V> read_group(const Operands& m, int k, int64_t i) {
    return static_cast<const Group<V>*>(m.input(k))[i];
  }
  template <class V> static __device__ void write(const Operands& m, int64_t i, V x) {
    static_cast<V*>(m.data[0])[i] = x;
  }
  template <class V> static __device__ void write_group(const Operands& m, int64_t i, Group<V> g) {
    static_cast<Group<V>*>(m.data[0])[i] = g;
  }
};
/// Accesses 16-bit floats, which are converted when they are read and written. Some operands
/// are float32, which is known only at launch.
template <> struct Access<Dtype::f16> {
  using T = float;
  static constexpr int kWidth = 8;
  template <class V> using Group = cuda::Group<V, kWidth>;
  using Words = Group<uint16_t>;

  template <class V> static __device__ V load(const void* data, Dtype stored, int64_t i) {
    if constexpr (op::is_bool<V>) return static_cast<const V*>(data)[i];
    else if (stored == Dtype::f16) return static_cast<const Float16*>(data)[i];
    else if (stored == Dtype::bf16) return static_cast<const Bfloat16*>(data)[i];
    else return static_cast<const float*>(data)[i];
  }
  template <class V> static __device__ void store(void* data, Dtype stored, int64_t i, V x) {
    if constexpr (op::is_bool<V>) static_cast<V*>(data)[i] = x;
    else if (stored == Dtype::f16) static_cast<Float16*>(data)[i] = Float16(x);
    else static_cast<Bfloat16*>(data)[i] = Bfloat16(x);
  }
  template <class V> static __device__ V read(const Operands& m, int k, int64_t i) {
    return load<V>(m.input(k), m.stored[k], i);
  }
  template <class V> static __device__ Group<V> read_group(const Operands& m, int k, int64_t i) {
    Group<V> g;
    if (is_half(m.stored[k])) {
      const Words words = static_cast<const Words*>(m.input(k))[i];
      for (int j = 0; j < kWidth; ++j) g.v[j] = load<V>(words.v, m.stored[k], j);
    } else {
      for (int j = 0; j < kWidth; ++j) g.v[j] = read<V>(m, k, i * kWidth + j);
    }
    return g;
  }
  template <class V> static __device__ void write(const Operands& m, int64_t i, V x) {
    store<V>(m.data[0], m.stored[0], i, x);
  }
  template <class V> static __device__ void write_group(const Operands& m, int64_t i, Group<V> g) {
    if constexpr (op::is_bool<V>) {
      for (int j = 0; j < kWidth; ++j) write<V>(m, i * kWidth + j, g.v[j]);
    } else {
      Words words;
      for (int j = 0; j < kWidth; ++j) store<V>(words.v, m.stored[0], j, g.v[j]);
      static_cast<Words*>(m.data[0])[i] = words;
    }
  }
};

template <int... I> using Sequence = std::integer_sequence<int, I...>;
template <class Op, int Part, Dtype D,
          class Inputs = std::make_integer_sequence<int, op::operands<Op, Part>>,
          class Params = std::make_integer_sequence<int, op::count_params(Op::info)>>
struct Kernel;
template <class Op, int Part, Dtype D, int... I, int... S>
struct Kernel<Op, Part, D, Sequence<I...>, Sequence<S...>> : Access<D> {
  using A = Access<D>;
  using T = typename A::T;
  using Out = op::Out<Op, Part, T>;
  template <int K> using In = op::In<Op, Part, T, K>;
  static constexpr int kOperands = 1 + int(sizeof...(I));

  static __device__ Out formula(const Operands& m, const In<I>&... x) {
    return Out(op::Formula<Op, Part>::call(x..., math::convert<T>(m.scalar[S])...));
  }
  /// Computes the element at offsets at[k] of the operands.
  static __device__ void element(const Operands& m, const int64_t* at) {
    A::template write<Out>(m, at[0], formula(m, A::template read<In<I>>(m, I + 1, at[I + 1])...));
  }
  /// Computes the elements from at[k] on; with step 0 that element is repeated.
  static __device__ void group(const Operands& m, const int64_t* at) {
    const auto apply = [&](const auto&... in) {
      typename A::template Group<Out> out;
      for (int j = 0; j < A::kWidth; ++j) out.v[j] = formula(m, in.v[j]...);
      A::template write_group<Out>(m, at[0] / A::kWidth, out);
    };
    apply(input<In<I>>(m, I + 1, at[I + 1])...);
  }

 private:
  template <class V>
  static __device__ typename A::template Group<V> input(const Operands& m, int k, int64_t at) {
    if (m.step[k]) return A::template read_group<V>(m, k, at / A::kWidth);
    typename A::template Group<V> g;
    const V x = A::template read<V>(m, k, at);
    for (V& v : g.v) v = x;
    return g;
  }
};

template <class K> __global__ void flat(const __grid_constant__ Operands m) {
  int64_t at[K::kOperands];
  const auto place = [&](int64_t i) {
    at[0] = i;
    for (int k = 1; k < K::kOperands; ++k) at[k] = m.step[k] ? i : 0;
  };
  const int64_t groups = m.n / K::kWidth;
  for (const int64_t i : cuda::turns(groups)) {
    place(i * K::kWidth);
    K::group(m, at);
  }
  const int64_t i = groups * K::kWidth + cuda::thread_number();
  if (i >= m.n) return;
  place(i);
  K::element(m, at);
}
template <class K> __global__ void strided(const __grid_constant__ Strided m) {
  for (const int64_t i : cuda::turns(m.n)) {
    int64_t at[K::kOperands];
    cuda::offsets_of<K::kOperands>(i, m.ndim, m.size, m.stride, at);
    if (m.grouped) K::group(m, at);
    else K::element(m, at);
  }
}

/// `flat` is for part 0 of float32 and 16-bit floats, with operands contiguous or one element; all
/// other cases, and the derivatives, use `strided`, which also reads 16 bytes at a time.
template <class Op, int Part, Dtype D> Kernels kernels_of() {
  Kernels k{};
  using T = typename Access<D>::T;
  if constexpr (op::accepts<T>(Op::info.accepts) && (Part == 0 || math::is_floating<T>)) {
    k.strided = strided<Kernel<Op, Part, D>>;
    if constexpr (Part == 0 && std::is_same_v<T, float>) k.flat = flat<Kernel<Op, Part, D>>;
  }
  return k;
}
template <class Op, int Part, int... D> void enter(Row& row, Sequence<D...>) {
  if constexpr (Part == 0 || op::has_derivative<Op, Part>)
    ((row.of[Part][D] = kernels_of<Op, Part, Dtype(D)>()), ...);
}
template <class Op> Row row_of() {
  Row row{};
  using All = std::make_integer_sequence<int, kColumns>;
  enter<Op, 0>(row, All{});
  enter<Op, 1>(row, All{});
  enter<Op, 2>(row, All{});
  enter<Op, 3>(row, All{});
  row.mask_first = op::mask_first<Op>, row.answers_bool = op::answers_bool<Op>;
  return row;
}
/// Returns an empty row for the operations of other pieces.
template <class Op, int I> Row row_at() {
  if constexpr (I % kPieces == MT_PIECE) return row_of<Op>();
  else return {};
}
template <class... Op, int... I> const Row& row_in(int op, op::List<Op...>, Sequence<I...>) {
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
