// elementwise.cu -- the map verb on CUDA: one kernel for each operation, derivative, type and layout
#include <cstring>
#include <utility>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/verbs.h"
#include "kernels/device.h"
#include "kernels/table.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {
namespace {

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
struct Strided : Operands {
  int64_t n;
  int ndim;
  int64_t size[kMaxDims], stride[kMaxOperands + 1][kMaxDims];
  double scalar[4];
};

/// As many elements as a thread reads at once.
template <class T, int N> struct alignas(sizeof(T) * N) Group { T v[N]; };

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

  template <class V> static __device__ Group<V, kWidth> group(const void* data, int step,
                                                              int64_t i) {
    if (step) return static_cast<const Group<V, kWidth>*>(data)[i];
    Group<V, kWidth> g;
    for (int k = 0; k < kWidth; ++k) g.v[k] = *static_cast<const V*>(data);
    return g;
  }

  template <int... I, int... S>
  static __device__ void flat(const Flat& m, std::integer_sequence<int, I...>,
                              std::integer_sequence<int, S...>) {
    const int64_t groups = m.n / kWidth;
    for (int64_t i = cuda::thread_number(); i < groups; i += cuda::thread_count()) {
      const auto apply = [&](const auto&... in) {
        Group<Out, kWidth> out;
        for (int k = 0; k < kWidth; ++k)
          out.v[k] = static_cast<Out>(F::call(in.v[k]..., math::convert<T>(m.scalar[S])...));
        static_cast<Group<Out, kWidth>*>(m.data[0])[i] = out;
      };
      apply(group<In<I>>(m.input(I + 1), m.step[I + 1], i)...);
    }
    const int64_t i = groups * kWidth + cuda::thread_number();
    if (i < m.n)
      static_cast<Out*>(m.data[0])[i] = static_cast<Out>(
          F::call(static_cast<const In<I>*>(m.input(I + 1))[i * m.step[I + 1]]...,
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
    static_cast<op::Out<Op, Part, T>*>(m.data[0])[at[0]] =
        Kernel<Op, Part, T>::one(m, at, Inputs<Op, Part>{}, Params<Op>{});
  }
}

struct Kernels {
  void (*flat)(Flat);
  void (*strided)(Strided);
};
struct Row {
  Kernels of[4][kDtypes];  // part, dtype
};

template <class Op, int Part, int D> void enter(Row& row) {
  using T = ctype<static_cast<Dtype>(D)>;
  if constexpr (op::accepts<T>(Op::info.accepts) && (Part == 0 || math::is_floating<T>))
    row.of[Part][D] = {flat<Op, Part, T>, strided<Op, Part, T>};
}
template <class Op, int Part, int... D> void enter(Row& row, std::integer_sequence<int, D...>) {
  if constexpr (Part == 0 || op::has_derivative<Op, Part>) (enter<Op, Part, D>(row), ...);
}
template <class Op> Row row_of() {
  Row row{};
  using All = std::make_integer_sequence<int, kDtypes>;
  enter<Op, 0>(row, All{});
  enter<Op, 1>(row, All{});
  enter<Op, 2>(row, All{});
  enter<Op, 3>(row, All{});
  return row;
}
template <class... Op> const Row& row_of(int op, op::List<Op...>) {
  static const Row rows[] = {row_of<Op>()...};
  return rows[op];
}

/// Whether all operands can be read in groups of 16 bytes' worth of elements.
bool aligned(const Map& m) {
  for (int k = 0; k <= m.inputs; ++k)
    if (m.stride[k][0] != 0 && reinterpret_cast<uintptr_t>(m.data[k]) % 16 != 0) return false;
  return true;
}

/// Where the operands lie, and what comes by value.
void place(const Map& m, unsigned numbers, Operands& o) {
  for (int k = 0; k <= m.inputs; ++k) {
    o.data[k] = m.data[k];
    if (!(numbers >> k & 1)) continue;
    std::memcpy(o.number[k], m.data[k], sizeof o.number[k]);
    o.data[k] = nullptr;
  }
}

template <class... Op> const char* name_of(int op, op::List<Op...>) {
  static const char* const names[] = {Op::info.name...};
  return names[op];
}

}  // namespace

void map(const Map& call) { map_numbers(call, 0); }

void map_numbers(const Map& call, unsigned numbers) {
  const Kernels& kernels =
      row_of(call.op, op::Elementwise{}).of[call.part][static_cast<int>(call.dtype)];
  const int used = call.inputs + 1;
  const char* const name = name_of(call.op, op::Elementwise{});
  Map m = call;
  int64_t* stride[kMaxOperands + 1];
  for (int k = 0; k < used; ++k) stride[k] = m.stride[k];
  const int64_t n = count(m.ndim, m.size);
  if (n == 0) return;
  m.ndim = collapse(m.ndim, m.size, stride, used);
  if (m.ndim == 0) {
    m.ndim = 1, m.size[0] = 1;
    for (int k = 0; k < used; ++k) m.stride[k][0] = numbers >> k & 1 ? 0 : 1;
  }
  bool is_flat = m.ndim == 1 && m.stride[0][0] == 1 && aligned(m);
  for (int k = 1; k < used; ++k) is_flat &= m.stride[k][0] == 1 || m.stride[k][0] == 0;
  if (is_flat) {
    Flat f;
    f.n = n;
    place(m, numbers, f);
    for (int k = 0; k < used; ++k) f.step[k] = int32_t(m.stride[k][0]);
    for (int k = 0; k < 4; ++k) f.scalar[k] = m.scalar[k];
    const int64_t each = cuda::kThreads * (16 / item_size(m.dtype));
    return cuda::launch(name, kernels.flat, cuda::blocks_for(n, each), cuda::kThreads, f);
  }
  Strided s;
  s.n = n, s.ndim = m.ndim;
  for (int d = 0; d < m.ndim; ++d) s.size[d] = m.size[d];
  place(m, numbers, s);
  for (int k = 0; k < used; ++k)
    for (int d = 0; d < m.ndim; ++d) s.stride[k][d] = m.stride[k][d];
  for (int k = 0; k < 4; ++k) s.scalar[k] = m.scalar[k];
  cuda::launch(name, kernels.strided, cuda::blocks_for(n, cuda::kThreads), cuda::kThreads, s);
}

}  // namespace MT_ISA
}  // namespace mt
