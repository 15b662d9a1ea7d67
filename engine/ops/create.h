// create.h -- creating, copying and converting tensors
#pragma once
#include <initializer_list>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

/// Copies the bytes as elements; with a null shape the tensor is 1-d. The size must match.
Tensor from_bytes(std::string_view bytes, Dtype, const Shape* shape = nullptr);

// ---- creation: contiguous; throws Error for negative sizes and if memory is exhausted ----

/// A 1-d tensor of a list: mt::tensor({1, 2.5, 3}). Throws if the dtype cannot hold a number.
Tensor tensor(std::initializer_list<double> values, Dtype = default_dtype());
/// Copies numbers in row-major order, with the dtype of their type: mt::tensor(numbers, {n, 3}).
template <class T> Tensor tensor(const T* values, const Shape& shape) {
  static_assert(dtype_of<T> != Dtype::none, "no dtype has elements of this type; see MT_DTYPES");
  const size_t bytes = checked_count("tensor", shape) * sizeof(T);
  return from_bytes({reinterpret_cast<const char*>(values), bytes}, dtype_of<T>, &shape);
}
/// The same of a vector: mt::tensor(v, {n, 3}). Throws if it has not as many numbers.
template <class T> Tensor tensor(const std::vector<T>& values, const Shape& shape) {
  if (checked_count("tensor", shape) != int64_t(values.size()))
    fail("tensor: {} numbers do not fill the shape {}", values.size(), shape);
  return tensor(values.data(), shape);
}
/// Every element is the given number, 0 or 1; with shape {} the tensor is 0-d.
Tensor full(const Shape&, double value, Dtype = default_dtype(), const Device& = cpu_device());
Tensor zeros(const Shape&, Dtype = default_dtype(), const Device& = cpu_device());
Tensor ones(const Shape&, Dtype = default_dtype(), const Device& = cpu_device());
// These take dtype and device from `like`.
inline Tensor full(const Shape& shape, double value, const Tensor& like) {
  return full(shape, value, like.dtype(), like.device());
}
inline Tensor zeros(const Shape& shape, const Tensor& like) { return full(shape, 0, like); }
inline Tensor ones(const Shape& shape, const Tensor& like) { return full(shape, 1, like); }
inline Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), x); }
/// 2-d: ones on the diagonal and zeros elsewhere.
Tensor eye(int64_t rows, int64_t columns, Dtype = default_dtype(), const Device& = cpu_device());
/// 1-d: first, first + step, .. including last (torch.arange excludes the end).
Tensor range(double first, double last, double step, Dtype, const Device& = cpu_device());
/// 1-d, int64: 0, 1, .., n - 1.
Tensor arange(int64_t n, const Device& = cpu_device());
/// 1-d: n equally spaced numbers, both ends included.
Tensor linspace(double first, double last, int64_t n, Dtype = default_dtype(),
                const Device& = cpu_device());

/// 1-d: n powers of `base` with equally spaced exponents, both ends included.
Tensor logspace(double first, double last, int64_t n, double base, Dtype = default_dtype(),
                const Device& = cpu_device());
// ---- copies and conversions ----

// These are recorded: gradients flow back through them.

/// A contiguous copy.
Tensor clone(const Tensor&);
/// The same tensor if it is contiguous or undefined, otherwise a copy.
Tensor contiguous(const Tensor&);
/// Whether x is stored by columns, so that a loop along a row reads a cache line per element.
bool is_column_major(const Tensor& x);
/// Converts the dtype, or returns the same tensor if it has it: floats are truncated to integers.
Tensor to(const Tensor&, Dtype);
/// Copies to a device, or returns x if it is there: mt::to(x, mt::device_named("cuda")).
Tensor to(const Tensor& x, const Device& device, bool non_blocking = false);
/// A copy in page-locked memory of the CPU, from which copies to the GPU can be asynchronous.
Tensor pin_memory(const Tensor&);
/// Only the copy verb, for equal shapes: no checks, no graph. `streams`: with non-temporal stores.
void copy_elements(const Tensor& out, const Tensor& in, bool streams = false);

}  // namespace mt
