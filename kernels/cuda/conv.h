// conv.h -- index computations for the windows of a convolution; its cuDNN and cuBLAS paths
#pragma once
#include "kernels/conv.h"

#include <type_traits>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/tiles.h"

namespace mt {
inline namespace MT_ISA {

/// Uses cuDNN; returns false if the convolution is too small for it, or cuDNN is off, missing or
/// has no suitable algorithm. Then y, x or w are undefined.
bool conv_by_cudnn(const Conv& c);
/// Uses cuBLAS; returns false, and leaves the result undefined, if it is slower or missing.
bool conv_by_products(const Conv& c);

/// The number of multiplications, which is the same for its three parts.
inline double work_of(const Conv& c) {
  return double(c.batch) * double(c.groups * c.outputs) * double(c.inputs * area(c.kernel)) *
         double(area(c.out));
}

namespace {

/// The type that elements of type T are computed in.
template <class T> using Exact = std::conditional_t<math::is_stored<T>, float, T>;

/// The two coordinates of a position in a plane, or in a kernel, from a linear index.
struct PlanePosition {
  int64_t of[2];
  PlanePosition() = default;
  __device__ PlanePosition(int64_t i, const int64_t* size) { of[0] = divide(i, size[1], &of[1]); }
};
__device__ inline bool within(int64_t i, int64_t size) { return uint64_t(i) < uint64_t(size); }

/// The coordinates in a plane of x that window `p` reads at its first tap.
struct Corner {
  int64_t at[2];
  Corner() = default;
  __device__ Corner(const Conv& c, const PlanePosition& p)
      : at{p.of[0] * c.stride[0] + c.offset[0], p.of[1] * c.stride[1] + c.offset[1]} {}
};

/// The element of a plane of x that tap k of a window reads.
template <class T>
__device__ T read_x(const Conv& c, const T* plane, const Corner& from, const PlanePosition& k) {
  const int64_t h = from.at[0] + k.of[0] * c.dilation[0], w = from.at[1] + k.of[1] * c.dilation[1];
  return within(h, c.size[0]) && within(w, c.size[1]) ? plane[h * c.size[1] + w] : T(0);
}

/// The window that reads position `t` (relative to the first tap) of one axis at tap 0; -1: none.
__device__ inline int64_t window_at(const Conv& c, int d, int64_t t) {
  if (t < 0) return -1;
  int64_t rest = 0;
  const int64_t p = c.stride[d] == 1 ? t : divide(t, c.stride[d], &rest);
  return rest == 0 && p < c.out[d] ? p : -1;
}
/// The element of a plane of y that depends on a position of x through tap k.
template <class T>
__device__ T read_y(const Conv& c, const T* plane, const int64_t* place, const PlanePosition& k) {
  const int64_t p = window_at(c, 0, place[0] - k.of[0] * c.dilation[0]);
  const int64_t q = window_at(c, 1, place[1] - k.of[1] * c.dilation[1]);
  return p >= 0 && q >= 0 ? plane[p * c.out[1] + q] : T(0);
}

}  // namespace
}  // namespace MT_ISA
}  // namespace mt
