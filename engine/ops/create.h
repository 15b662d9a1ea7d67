// create.h -- making tensors, copying and converting them
#pragma once
#include <string_view>

#include "engine/core/tensor.h"

namespace mt {

// ---- making ----

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
Tensor eye(int64_t rows, int64_t columns, Dtype = default_dtype(), const Device& = cpu_device());
/// first, first + step, .. up to last inclusive.
Tensor range(double first, double last, double step, Dtype, const Device& = cpu_device());
Tensor linspace(double first, double last, int64_t n, Dtype = default_dtype(),
                const Device& = cpu_device());

/// n powers of `base`, whose exponents lie at equal distances, both ends included.
Tensor logspace(double first, double last, int64_t n, double base, Dtype = default_dtype(),
                const Device& = cpu_device());
/// A copy of the bytes as elements; null for a shape means one dimension. The size must fit.
Tensor from_bytes(std::string_view bytes, Dtype, const Shape* shape = nullptr);

// ---- copies and conversions ----

Tensor clone(const Tensor&);
Tensor contiguous(const Tensor&);  // of an undefined one that, as the next
Tensor to(const Tensor&, Dtype);
Tensor to(const Tensor& x, const Device& device, bool non_blocking = false);
/// A copy in page-locked memory of the CPU, from which copies to the GPU need not wait.
Tensor pin_memory(const Tensor&);
/// The copy verb alone, for shapes that agree: no checks, no graph. `streams`: past the caches.
void copy_elements(const Tensor& out, const Tensor& in, bool streams = false);

}  // namespace mt
