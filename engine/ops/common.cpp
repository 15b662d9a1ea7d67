// common.cpp -- common parts of operations: checks of tensors, conversions, memory for results
#include "engine/ops/common.h"

#include "engine/autograd/graph.h"
#include "engine/ops/create.h"
#include "kernels/cpu/libraries/openblas.h"

namespace mt {

void check_together(const char* operation, const Tensor& x, const Tensor& y) {
  if (&x.device() != &y.device())
    fail("{}: the tensors are on {} and {}; move one with x:to('{}')", operation, x.device().name,
         y.device().name, x.device().name);
}

void check_float(const char* operation, const Tensor& x, const char* what, const char* name) {
  if (!is_float(x.dtype())) fail("{}: {} {}; use {}:float()", operation, what, x.dtype(), name);
}

void check_integers(const char* operation, const Tensor& x, const char* what, const char* name) {
  if (!is_integer(x.dtype()))
    fail("{}: {} must be integers, these are {}; use {}:long()", operation, what, x.dtype(), name);
}

void check_beside(const char* operation, const char* what, const Tensor& t, const Tensor& x,
                  const Shape& shape) {
  if (!t.defined()) return;
  if (t.shape() != shape) fail("{}: {} is {}, expected {}", operation, what, t.shape(), shape);
  if (&t.device() != &x.device())
    fail("{}: {} is on {}, the input on {}; move one with x:to('{}')", operation, what,
         t.device().name, x.device().name, x.device().name);
}

void require_openblas(const char* name) {
  if (!openblas::open()) fail("{}: this needs OpenBLAS: {}", name, openblas::why());
}

Tensor cast_no_grad(const Tensor& x, Dtype dtype) {
  if (x.dtype() == dtype) return x;
  NoGrad off;
  return to(x, dtype);
}
void round_into(const Tensor& out, const Tensor& wide) { copy_elements(out, wide); }

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
