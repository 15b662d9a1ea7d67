// elementwise.cu -- the map verb on CUDA: selects the kernel for the layout of the operands
#include "kernels/cuda/elementwise.h"

#include <cstring>

#include "kernels/cuda/verbs.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {
namespace {

using namespace map_kernels;

const Row& row_of(int op) {
  switch (op % kPieces) {
    case 0: return map_kernels::row_of<0>(op);
    case 1: return map_kernels::row_of<1>(op);
    case 2: return map_kernels::row_of<2>(op);
    default: return map_kernels::row_of<3>(op);
  }
}

/// Whether all operands can be read in groups of 16 bytes.
bool aligned(const Map& m, int dim) {
  for (int k = 0; k <= m.inputs; ++k)
    if (m.stride[k][dim] != 0 && reinterpret_cast<uintptr_t>(m.data[k]) % 16 != 0) return false;
  return true;
}

/// Converts the last dimension to groups of `width` elements, if possible.
void group(const Map& m, int64_t width, Strided& s) {
  const int last = m.ndim - 1;
  s.grouped = m.stride[0][last] == 1 && m.size[last] % width == 0 && aligned(m, last);
  for (int k = 0; k <= m.inputs; ++k) {
    s.grouped &= s.step[k] == m.stride[k][last] && (s.step[k] == 0 || s.step[k] == 1);
    for (int d = 0; d < last && s.step[k] == 1; ++d) s.grouped &= m.stride[k][d] % width == 0;
  }
  if (!s.grouped) return;
  s.n /= width, s.size[last] /= width;
  for (int k = 0; k <= m.inputs; ++k) s.stride[k][last] *= width;
}

/// The addresses of the operands, and the numbers passed by value.
Operands operands_of(const Map& m, unsigned numbers, const Row& row) {
  Operands o;
  for (int k = 0; k <= m.inputs; ++k) {
    o.data[k] = m.data[k];
    o.step[k] = int32_t(m.stride[k][m.ndim - 1]);
    o.stored[k] = m.plain >> k & 1 ? Dtype::f32 : m.dtype;
  }
  if (row.mask_first) o.stored[m.part == 0 ? 1 : 2] = Dtype::b8;
  if (row.answers_bool && m.part == 0) o.stored[0] = Dtype::b8;
  for (int k = 1; k <= m.inputs; ++k) {
    if (!(numbers >> k & 1)) continue;
    std::memcpy(o.number[k], m.data[k], item_size(o.stored[k]));
    o.data[k] = nullptr;
  }
  std::memcpy(o.scalar, m.scalar, sizeof o.scalar);
  return o;
}

/// Whether this is x to the power 2, passed by value: a product is exact and several times faster.
bool is_square(const Map& m, unsigned numbers) {
  if (m.op != op::id<op::Pow> || m.part != 0 || numbers != 1u << 2) return false;
  if (m.dtype == Dtype::f32) return *static_cast<const float*>(m.data[2]) == 2;
  return m.dtype == Dtype::f64 && *static_cast<const double*>(m.data[2]) == 2;
}

template <class... Op> const char* name_of(int op, op::List<Op...>) {
  static const char* const names[] = {Op::info.name...};
  return names[op];
}

}  // namespace

void map(const Map& call) { map_numbers(call, 0); }

void map_numbers(const Map& call, unsigned numbers) {
  if (is_square(call, numbers)) {
    Map square = call;
    square.op = op::id<op::Square>, square.inputs = 1;
    return map(square);
  }
  const Row& row = row_of(call.op);
  const Kernels& kernels = row.of[call.part][int(is_half(call.dtype) ? Dtype::f16 : call.dtype)];
  const int used = call.inputs + 1;
  const char* const name = name_of(call.op, op::Mapped{});
  Map m = call;
  int64_t* stride[kMaxOperands + 1];
  for (int k = 0; k < used; ++k) stride[k] = m.stride[k];
  const int64_t n = count(m.ndim, m.size), width = 16 / item_size(m.dtype);
  if (n == 0) return;
  m.ndim = collapse(m.ndim, m.size, stride, used);
  if (m.ndim == 0) {
    m.ndim = 1, m.size[0] = 1;
    for (int k = 0; k < used; ++k) m.stride[k][0] = numbers >> k & 1 ? 0 : 1;
  }
  Operands o = operands_of(m, numbers, row);
  o.n = n;
  bool is_flat = kernels.flat && m.ndim == 1 && m.stride[0][0] == 1 && aligned(m, 0);
  for (int k = 1; k < used; ++k) is_flat &= m.stride[k][0] == 1 || m.stride[k][0] == 0;
  if (is_flat && (m.op == op::id<op::Gelu> || m.part > 0))
    return cuda::launch_each(name, kernels.flat, (n + width - 1) / width, o);
  if (is_flat) return cuda::launch_one_turn(name, kernels.flat, (n + width - 1) / width, o);
  Strided s{o, m.ndim, false, {}, {}};
  for (int d = 0; d < m.ndim; ++d) s.size[d] = m.size[d];
  for (int k = 0; k < used; ++k)
    for (int d = 0; d < m.ndim; ++d) s.stride[k][d] = m.stride[k][d];
  group(m, width, s);
  cuda::launch_each(name, kernels.strided, s.n, s);
}

}  // namespace MT_ISA
}  // namespace mt
