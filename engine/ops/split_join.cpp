// split_join.cpp -- functions that combine tensors, or write to a region of a copy
#include <algorithm>

#include "engine/autograd/graph.h"
#include "engine/ops/ops.h"

namespace mt {
Tensor block_diag(const TensorList& given) {
  if (given.empty()) return zeros({1, 0});
  Dtype dtype = given[0].dtype();
  TensorList blocks;
  int64_t columns = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    const Tensor& x = given[i];
    if (x.dim() > 2)
      fail("block_diag: tensor {} is {}; matrices, vectors and numbers are joined", i + 1,
           x.shape());
    check_together("block_diag", given[0], x);
    dtype = promote(dtype, x.dtype());
    blocks.push_back(at_least(x, 2));
    columns += blocks.back().size(1);
  }
  TensorList rows;
  int64_t before = 0;
  for (const Tensor& block : blocks) {
    const int64_t height = block.size(0), after = columns - before - block.size(1);
    const Device& device = block.device();
    rows.push_back(cat({zeros({height, before}, dtype, device), to(block, dtype),
                        zeros({height, after}, dtype, device)},
                       1));
    before += block.size(1);
  }
  return cat(rows, 0);
}

Tensor cartesian_prod(const TensorList& vectors) {
  if (vectors.empty()) fail("cartesian_prod: no vectors are given");
  for (size_t i = 0; i < vectors.size(); ++i)
    if (vectors[i].dim() != 1)
      fail("cartesian_prod: tensor {} is {}; it must have one dimension", i + 1,
           vectors[i].shape());
  if (vectors.size() == 1) return vectors[0];
  return reshape(stack(meshgrid(vectors), -1), {-1, int64_t(vectors.size())});
}

/// The binomial coefficient of n and r; throws Error if it exceeds what memory can hold.
static int64_t count_choices(int64_t n, int64_t r) {
  double total = 1;
  for (int64_t k = 1; k <= std::min(r, n - r); ++k) total = total * double(n - k + 1) / double(k);
  if (total * double(r) > 0x1p40)
    fail("combinations: {} of {} elements are {:.3g} choices, more than memory can hold", r, n,
         total);
  int64_t count = 1;
  for (int64_t k = 1; k <= std::min(r, n - r); ++k) count = count * (n - k + 1) / k;
  return count;
}

Tensor combinations(const Tensor& x, int64_t r, bool repeats) {
  if (x.dim() != 1) fail("combinations: {} is not a vector; it must have one dimension", x.shape());
  if (r < 0) fail("combinations: r is {}; it must be 0 or more", r);
  if (r == 0) return empty({0}, x);
  // Combinations with repetition are those of n + r - 1 elements, minus the column's number.
  const int64_t n = x.numel() == 0 ? 0 : x.numel() + (repeats ? r - 1 : 0);
  if (r > n) return reshape(slice(x, 0, 0, 0), {0, r});
  const int64_t rows = count_choices(n, r);
  std::vector<int64_t> place(r);
  for (int64_t k = 0; k < r; ++k) place[k] = k;
  const Tensor at = constants<int64_t>({rows, r}, [&](int64_t* out) {
    for (int64_t row = 0; row < rows; ++row) {
      if (row % 1024 == 0) check_interrupt();
      for (int64_t k = 0; k < r; ++k) *out++ = place[k] - (repeats ? k : 0);
      int64_t k = r - 1;
      while (k > 0 && place[k] == n - r + k) --k;
      ++place[k];
      for (++k; k < r; ++k) place[k] = place[k - 1] + 1;
    }
  });
  return take(x, to(at, x.device()));
}

// ---- a copy with a region written ---------------------------------------------------------------

/// Copies the source into `region`, a view of y, and returns y.
static Tensor put_region(const char* name, const Tensor& y, const Tensor& region,
                         const Tensor& source) {
  if (region.shape() != source.shape())
    fail("{}: the source is {}, the region {}; their shapes must be equal", name, source.shape(),
         region.shape());
  copy_(region, source);
  return y;
}

Tensor select_scatter(const Tensor& x, const Tensor& source, Dim dim, Position index) {
  const Tensor y = clone(x);
  return put_region("select_scatter", y, pick(y, dim, index), source);
}

Tensor slice_scatter(const Tensor& x, const Tensor& source, const At* items, int n) {
  const Tensor y = clone(x);
  return put_region("slice_scatter", y, index(y, items, n), source);
}

Tensor diagonal_scatter(const Tensor& x, const Tensor& source, int64_t offset, Dim a, Dim b) {
  const Tensor y = clone(x);
  return put_region("diagonal_scatter", y, diagonal(y, offset, a, b), source);
}

// ---- positions ----------------------------------------------------------------------------------

TensorList unravel_index(const Index& given, const Shape& shape) {
  check_integers("unravel_index", given.at, "positions", "x");
  const int64_t n = checked_count("unravel_index", shape);
  if (n > int64_t(1) << 53) fail("unravel_index: {} has too many elements", shape);
  Tensor at = to(given.at, Dtype::i64);
  if (at.numel() > 0) {
    const int64_t low = amin(at).at_integer(0), high = amax(at).at_integer(0);
    const bool counts_back = given.first > 0;  // -1 is the last position
    const int64_t lowest = counts_back ? -n : 0, highest = n - 1 + given.first;
    if (low < lowest || high > highest || (counts_back && any(eq(at, 0.0)).item() != 0))
      fail("unravel_index: a position is {}; a tensor of {} has positions {}..{}",
           low < lowest     ? low
           : high > highest ? high
                            : 0,
           shape, given.first, highest);
    if (counts_back) at = where(lt(at, 0.0), at + double(n), at - double(given.first));
  }
  TensorList out(shape.size());
  for (int d = shape.size() - 1; d >= 0; --d) {
    const Tensor size(double(std::max<int64_t>(1, shape[d])));
    out[d] = remainder(at, size) + double(given.first);
    at = floor_divide(at, size);
  }
  return out;
}

}  // namespace mt
