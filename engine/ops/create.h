// create.h -- making tensors, copying and converting them
#pragma once
#include <initializer_list>
#include <string_view>

#include "engine/core/tensor.h"

namespace mt {

/// A copy of the bytes as elements; null for a shape means one dimension. The size must fit.
Tensor from_bytes(std::string_view bytes, Dtype, const Shape* shape = nullptr);

// ---- making: contiguous; throws Error for negative sizes, and where there is no memory ----

/// The numbers of a list, 1-d: mt::tensor({1, 2.5, 3}). Refuses those that the dtype cannot hold.
Tensor tensor(std::initializer_list<double> values, Dtype = default_dtype());
/// A copy of numbers that lie in memory row-major, of their type's dtype: mt::tensor(v.data(), {n, 3}).
template <class T> Tensor tensor(const T* values, const Shape& shape) {
  static_assert(dtype_of<T> != Dtype::none, "no dtype has elements of this type; see MT_DTYPES");
  const size_t bytes = checked_count("tensor", shape) * sizeof(T);
  return from_bytes({reinterpret_cast<const char*>(values), bytes}, dtype_of<T>, &shape);
}
/// Every element the number, 0 or 1; of shape {} 0-d.
Tensor full(const Shape&, double value, Dtype = default_dtype(), const Device& = cpu_device());
Tensor zeros(const Shape&, Dtype = default_dtype(), const Device& = cpu_device());
Tensor ones(const Shape&, Dtype = default_dtype(), const Device& = cpu_device());
// Of the dtype and on the device of another tensor.
inline Tensor full(const Shape& shape, double value, const Tensor& like) {
  return full(shape, value, like.dtype(), like.device());
}
inline Tensor zeros(const Shape& shape, const Tensor& like) { return full(shape, 0, like); }
inline Tensor ones(const Shape& shape, const Tensor& like) { return full(shape, 1, like); }
inline Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), x); }
/// 2-d: ones on the diagonal, else zeros.
Tensor eye(int64_t rows, int64_t columns, Dtype = default_dtype(), const Device& = cpu_device());
/// 1-d: first, first + step, .. up to last inclusive (torch.arange ends before it).
Tensor range(double first, double last, double step, Dtype, const Device& = cpu_device());
/// 1-d: n numbers at equal distances, both ends included.
Tensor linspace(double first, double last, int64_t n, Dtype = default_dtype(),
                const Device& = cpu_device());

/// 1-d: n powers of `base`, whose exponents lie at equal distances, both ends included.
Tensor logspace(double first, double last, int64_t n, double base, Dtype = default_dtype(),
                const Device& = cpu_device());
// ---- copies and conversions ----

// Recorded: gradients flow back through them.

/// A contiguous copy.
Tensor clone(const Tensor&);
/// The same tensor where it is contiguous, else a copy; of an undefined one that, as the next.
Tensor contiguous(const Tensor&);
/// In another dtype, or the same tensor where it has that: floats are cut towards 0 to integers.
Tensor to(const Tensor&, Dtype);
/// On another device, or the same tensor where it is there: mt::to(x, mt::device_named("cuda")).
Tensor to(const Tensor& x, const Device& device, bool non_blocking = false);
/// A copy in page-locked memory of the CPU, from which copies to the GPU need not wait.
Tensor pin_memory(const Tensor&);
/// The copy verb alone, for shapes that agree: no checks, no graph. `streams`: past the caches.
void copy_elements(const Tensor& out, const Tensor& in, bool streams = false);

}  // namespace mt
