// verbs.h -- the verbs that each backend defines (an instruction set of the CPU, CUDA), and helpers for them
#pragma once
#include "kernels/device.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {

#define MT_DECLARE(result, verb, Argument) result verb(const Argument&);
MT_VERBS(MT_DECLARE)
MT_CPU_VERBS(MT_DECLARE)
#undef MT_DECLARE

/// Returns f(T()) for the unsigned integer T of the dtype's size: for elements that are only moved.
template <class F> auto with_item(Dtype dtype, const F& f) {
  switch (item_size(dtype)) {
    case 1: return f(uint8_t());
    case 2: return f(uint16_t());
    case 4: return f(uint32_t());
    default: return f(uint64_t());
  }
}
/// Returns f(T()) for the dtype's C++ type T; for bool it is uint8_t.
template <class F> auto with_number(Dtype dtype, const F& f) {
  switch (dtype) {
    case Dtype::i32: return f(int32_t());
    case Dtype::i64: return f(int64_t());
    case Dtype::f32: return f(float());
    case Dtype::f64: return f(double());
    default: return f(uint8_t());
  }
}
/// The same with bool for bool.
template <class F> auto with_element(Dtype dtype, const F& f) {
  return dtype == Dtype::b8 ? f(bool()) : with_number(dtype, f);
}

/// The lines, or the reduction, with adjacent dimensions merged where possible.
inline AlongDim collapsed(AlongDim l) {
  int64_t* const stride[] = {l.out_stride, l.in_stride};
  l.ndim = collapse(l.ndim, l.size, stride);
  return l;
}
inline Reduce collapsed(Reduce r) {
  int64_t *const kept[] = {r.out_stride, r.kept_stride}, *const reduced[] = {r.reduced_stride};
  r.kept = collapse(r.kept, r.kept_size, kept);
  r.reduced = collapse(r.reduced, r.reduced_size, reduced);
  return r;
}

/// The taps [begin, end) of a pooling window at position p of an axis that are in bounds.
struct WindowTaps {
  int64_t start, begin, end;
  MT_HD WindowTaps(const MaxPool& c, int d, int64_t p) : start(p * c.stride[d] + c.offset[d]) {
    const int64_t step = c.dilation[d], left = c.size[d] - start;
    begin = start >= 0 ? 0 : step == 1 ? -start : (-start + step - 1) / step;
    end = left <= 0 ? 0 : smaller(c.kernel[d], step == 1 ? left : (left + step - 1) / step);
  }
};

}  // namespace MT_ISA
}  // namespace mt
