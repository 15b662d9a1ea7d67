// index.cpp -- the gather and scatter verbs on the CPU
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/verbs.h"
#include "kernels/number.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// Calls `body(i, out offset, in offset, index offset)` for the elements [from, to), walking row by
/// row.
template <class Body> void walk(const Gather& g, int64_t from, int64_t to, const Body& body) {
  const int last = g.ndim - 1;
  const int64_t row = g.ndim > 0 ? g.size[last] : 1;
  for (int64_t i = from; i < to;) {
    const int64_t n = smaller(to - i, row - i % row);
    const int64_t out = offset_of(i, g.ndim, g.size, g.out_stride),
                  in = offset_of(i, g.ndim, g.size, g.in_stride),
                  index = offset_of(i, g.ndim, g.size, g.index_stride);
    const int64_t out_step = last < 0 ? 0 : g.out_stride[last],
                  in_step = last < 0 ? 0 : g.in_stride[last],
                  index_step = last < 0 ? 0 : g.index_stride[last];
    for (int64_t j = 0; j < n; ++j)
      body(out + j * out_step, in + j * in_step, g.index[index + j * index_step]);
    i += n;
  }
}

template <class T> void gather_as(const Gather& g) {
  const int64_t total = count(g.ndim, g.size);
  T* out = static_cast<T*>(g.out);
  const T* in = static_cast<const T*>(g.in);
  parallel((total + kGrain - 1) / kGrain, total > 2 * kGrain, [&](int64_t piece) {
    walk(g, piece * kGrain, smaller(total, (piece + 1) * kGrain),
         [&](int64_t o, int64_t i, int64_t index) { out[o] = in[i + index * g.step]; });
  });
}

/// One thread, in order: values that meet are added in the same order every time.
template <class T> void scatter_as(const Gather& g) {
  const int64_t total = count(g.ndim, g.size);
  T* out = static_cast<T*>(g.out);
  const T* in = static_cast<const T*>(g.in);
  if (g.add)
    walk(g, 0, total, [&](int64_t o, int64_t i, int64_t index) {
      T& cell = out[o + index * g.step];
      cell = static_cast<T>(cell + in[i]);
    });
  else
    walk(g, 0, total,
         [&](int64_t o, int64_t i, int64_t index) { out[o + index * g.step] = in[i]; });
}

}  // namespace

void gather(const Gather& g) {
  switch (item_size(g.dtype)) {
    case 1: return gather_as<uint8_t>(g);
    case 4: return gather_as<uint32_t>(g);
    default: return gather_as<uint64_t>(g);
  }
}

void scatter(const Gather& g) {
  switch (g.dtype) {
    case Dtype::b8: return scatter_as<bool>(g);
    case Dtype::u8: return scatter_as<uint8_t>(g);
    case Dtype::i32: return scatter_as<int32_t>(g);
    case Dtype::i64: return scatter_as<int64_t>(g);
    case Dtype::f32: return scatter_as<float>(g);
    default: return scatter_as<double>(g);
  }
}

}  // namespace MT_ISA
}  // namespace mt
