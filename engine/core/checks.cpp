// checks.cpp -- checks of the tensors that operations receive
#include "engine/core/checks.h"

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

}  // namespace mt
