// upcast.cpp -- the conversions of storage-only dtypes for verbs that do not support them
#include "engine/core/upcast.h"

#include "engine/autograd/graph.h"
#include "engine/ops/create.h"

namespace mt {

Tensor cast_no_grad(const Tensor& x, Dtype dtype) {
  if (x.dtype() == dtype) return x;
  NoGrad off;
  return to(x, dtype);
}
void round_into(const Tensor& out, const Tensor& wide) { copy_elements(out, wide); }

}  // namespace mt
