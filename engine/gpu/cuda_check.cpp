// cuda_check.cpp -- runs a launch between guard regions, to find writes out of bounds of its tensors
#include "engine/gpu/cuda_check.h"

#include <algorithm>

#include "engine/autograd/graph.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

constexpr uint8_t kPattern = 0xfe;  // -1.7e38 as float32

/// The number of elements from the first to the last one of the tensor in memory.
int64_t extent(const Tensor& x) {
  if (x.numel() == 0) return 0;
  int64_t n = 1;
  for (int d = 0; d < x.dim(); ++d) n += (x.size(d) - 1) * x.stride(d);
  return n;
}

/// Bytes of a storage as a tensor.
Tensor bytes_of(const Tensor& x, int64_t from, int64_t n) {
  TensorImpl* t = TensorImpl::create();
  const Tensor bytes(Ref<TensorImpl>::adopt(t));
  t->dtype = Dtype::u8, t->ndim = 1, t->offset = from, t->numel = n;
  t->size[0] = n, t->stride[0] = 1;
  t->storage = Ref<Storage>::share(x.impl()->storage).release();
  return bytes;
}

/// The first and last byte that differ from the pattern; first > last if none differs.
struct Changed {
  int64_t first, last, count = 0;
};
Changed changed(const Tensor& region, int64_t item) {
  const Tensor here = to(region, cpu_device());
  const uint8_t* const p = here.data_as<uint8_t>();
  Changed c{here.numel(), -1};
  for (int64_t i = 0, element = -1; i < here.numel(); ++i) {
    if (p[i] == kPattern) continue;
    c.first = std::min(c.first, i), c.last = i;
    if (i / item != element) ++c.count, element = i / item;
  }
  return c;
}

std::string elements(int64_t n) { return fmt::format("{} element{}", n, n == 1 ? "" : "s"); }

}  // namespace

Tensor Guarded::Piece::original() const { return bytes_of(first, low, high - low); }

void Guarded::add(const Tensor& x, const std::string& argument, bool read_only) {
  const int64_t item = item_size(x.dtype()), low = x.offset() * item, high = low + extent(x) * item;
  for (Piece& p : pieces_) {
    if (p.first.impl()->storage != x.impl()->storage) continue;
    if (p.read_only && !read_only) p.first = x, p.argument = argument, p.read_only = false;
    p.low = std::min(p.low, low), p.high = std::max(p.high, high);
    return;
  }
  pieces_.push_back({x, argument, read_only, low, high, {}});
}

void Guarded::fill() {
  NoGrad off;
  for (Piece& p : pieces_) {
    const int64_t n = p.high - p.low;
    p.copy = full({p.before() + n + kRegion}, kPattern, Dtype::u8, p.first.device());
    if (n > 0) copy_elements(slice(p.copy, 0, p.before(), n), p.original());
  }
}

void* Guarded::place(const Tensor& x) const {
  for (const Piece& p : pieces_)
    if (p.first.impl()->storage == x.impl()->storage)
      return p.copy.data_as<uint8_t>() + p.before() + x.offset() * item_size(x.dtype()) - p.low;
  return x.data();
}

std::string Guarded::finish() {
  NoGrad off;
  std::string found;
  for (const Piece& p : pieces_) {
    const int64_t n = p.high - p.low, item = item_size(p.first.dtype());
    if (n > 0 && !p.read_only) copy_elements(p.original(), slice(p.copy, 0, p.before(), n));
    const Changed before =
                      changed(slice(p.copy, 0, p.before() % item, p.before() / item * item), item),
                  after = changed(slice(p.copy, 0, p.before() + n, kRegion), item);
    if (!found.empty()) continue;
    if (after.count)
      found =
          fmt::format("{}: {} written after its end, from {} after the last of its {}", p.argument,
                      elements(after.count), elements(after.first / item + 1), n / item);
    else if (before.count)
      found = fmt::format("{}: {} written before its beginning, the nearest {} before the first",
                          p.argument, elements(before.count),
                          elements(p.before() / item - before.last / item));
  }
  return found;
}

}  // namespace mt
