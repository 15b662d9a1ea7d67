// out.cpp -- {out=t}: a result written to memory of the caller
#include "engine/ops/out.h"

#include <algorithm>

namespace mt {

Tensor result_in(const Tensor* target, const Shape& shape, Dtype dtype, const Device& device,
                 bool dense) {
  if (!target || target->dtype() != dtype || &target->device() != &device ||
      !(target->shape() == shape) || (dense && !target->is_contiguous()))
    return empty(shape, dtype, device);
  bump(*target);
  return *target;
}

bool same_place(const Tensor& a, const Tensor& b) {
  const TensorImpl &x = *a.impl(), &y = *b.impl();
  return x.storage == y.storage && x.offset == y.offset && x.dtype == y.dtype && x.ndim == y.ndim &&
         std::equal(x.size, x.size + x.ndim, y.size) &&
         std::equal(x.stride, x.stride + x.ndim, y.stride);
}

}  // namespace mt
