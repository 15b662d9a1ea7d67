// conv3d.cpp -- volumes as images: the windows along the depth, and their sums
#include "engine/ops/conv3d.h"

#include "engine/autograd/graph.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

/// A volume, and its windows along the depth.
struct Volume {
  int64_t n, c, h, w;
  Window d;
  Shape whole() const { return {n, c, d.size, h, w}; }
  Shape slices() const { return {n * d.out, c * d.kernel, h, w}; }
};

Tensor windows_of(const Tensor& x, const Volume& v);
Tensor sums_of(const Tensor& slices, const Volume& v);

const NodeType kWindows{"depth_windows", [](Node& node, const Tensor& g, Tensor* dx) {
                          dx[0] = sums_of(g, node.kept<Volume>());
                        }};
const NodeType kSums{"depth_sums", [](Node& node, const Tensor& g, Tensor* dx) {
                       dx[0] = windows_of(g, node.kept<Volume>());
                     }};

void record_volume(const NodeType& type, const Tensor& out, const Tensor& x, const Volume& v) {
  if (wants_grad(x)) record(type, out, {&x}).keep(v);
}

/// Calls f(slices, places) for each slice k of the windows: views of (n, windows, c, h, w) in both.
template <class F>
void each_slice(const Tensor& slices, const Tensor& whole, const Volume& v, const F& f) {
  const Window& d = v.d;
  const Tensor parts = reshape(slices, {v.n, d.out, v.c, d.kernel, v.h, v.w});
  for (int64_t k = 0; k < d.kernel; ++k) {
    const int64_t first = k * d.dilation + d.offset;
    const int64_t from = first < 0 ? (-first + d.stride - 1) / d.stride : 0;
    const int64_t to = first >= d.size ? 0 : std::min(d.out, (d.size - 1 - first) / d.stride + 1);
    if (from >= to) continue;
    f(slice(pick(parts, 3, k), 1, from, to - from),
      transpose(slice(whole, 2, first + from * d.stride, to - from, d.stride), 1, 2));
  }
}

Tensor windows_of(const Tensor& x, const Volume& v) {
  const Tensor out = zeros(v.slices(), x.dtype(), x.device());
  each_slice(out, x.detach(), v,
             [](const Tensor& slices, const Tensor& places) { copy_(slices, places); });

  record_volume(kWindows, out, x, v);
  return out;
}

Tensor sums_of(const Tensor& slices, const Volume& v) {
  const Tensor out = zeros(v.whole(), slices.dtype(), slices.device());
  each_slice(contiguous(slices.detach()), out, v,
             [](const Tensor& part, const Tensor& places) { add_(places, part); });

  record_volume(kSums, out, slices, v);
  return out;
}

}  // namespace

Tensor depth_windows(const Tensor& x, const Window& d) {
  const Volume v{x.size(0), x.size(1), x.size(3), x.size(4), d};
  checked_count("conv3d", v.slices());
  return windows_of(x, v);
}

Tensor depth_sums(const Tensor& slices, const Window& d, int64_t n) {
  const Volume v{n, slices.size(1) / d.kernel, slices.size(2), slices.size(3), d};
  checked_count("conv_transpose3d", v.whole());
  return sums_of(slices, v);
}

}  // namespace mt
