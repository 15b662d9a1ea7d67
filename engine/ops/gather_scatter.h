// gather_scatter.h -- reading and writing with tensors of positions
#pragma once
#include <optional>
#include <string_view>

#include "engine/core/tensor.h"

namespace mt {

/// Whether a result is written into x, which is then returned.
struct InPlace {
  bool on = false;
  constexpr InPlace(bool in_place = false) : on(in_place) {}  // NOLINT: a bool is one
  constexpr operator bool() const { return on; }
};

/// Positions, ids or labels in an integer tensor, and the number of the first one: 0, or 1 in Lua,
/// where negative positions count from the end (ids and labels do not). One out of bounds is an
/// Error; on a GPU at the next synchronisation.
struct Index {
  Tensor at;
  int64_t first = 0;
  Index(const Tensor& positions, int64_t counted_from = 0)  // NOLINT: a tensor is an index
      : at(positions),
        first(counted_from) {}
  /// The number that is added to a negative position; 0 if there are none.
  int64_t back(int64_t extent) const { return first ? extent : 0; }
  /// The tensor, counted from 0; the smallest integers wrap around.
  Tensor from_zero() const;
};

// ---- along one dimension (gather_scatter.cpp); `in_place`: writes into x, which is returned ----

/// out[.., i, ..] = x[.., index[.., i, ..], ..]; the index is an integer tensor of x's rank.
Tensor gather(const Tensor& x, Dim dim, const Index&);
/// A copy of x with the source at the positions that gather would read; the last value is kept.
Tensor scatter(const Tensor& x, Dim dim, const Index&, const Tensor& source, InPlace in_place = {});
/// scatter with the source added to x.
Tensor scatter_add(const Tensor& x, Dim dim, const Index&, const Tensor& source,
                   InPlace in_place = {});
/// scatter with a reduction, "sum", "prod", "mean", "amax" or "amin", including x or not.
Tensor scatter_reduce(const Tensor& x, Dim dim, const Index&, const Tensor& source,
                      std::string_view reduce, bool include_self = true, InPlace in_place = {});
/// gather where x and the index broadcast; without `dim` both are flattened.
Tensor take_along_dim(const Tensor& x, const Index&, std::optional<Dim> dim);

// ---- whole slices (indexing.cpp) ----

/// Whole slices at the positions of a 1-d index.
Tensor index_select(const Tensor& x, Dim dim, const Index&);
/// The elements at positions of the flattened x, in the index's shape.
Tensor take(const Tensor& x, const Index&);
/// x with the slices of `source`, which may broadcast, added to or written at these positions.
Tensor index_add(const Tensor& x, Dim dim, const Index&, const Tensor& source, double alpha = 1,
                 InPlace in_place = {});
Tensor index_copy(const Tensor& x, Dim dim, const Index&, const Tensor& source,
                  InPlace in_place = {});
/// x with the slices at these positions filled with a number (0-d).
Tensor index_fill(const Tensor& x, Dim dim, const Index&, const Tensor& value,
                  InPlace in_place = {});

/// One entry of an index such as x[{2, {}, {1, 3}, mask}]; entries consume x's dimensions in order.
struct At {
  enum class Kind : uint8_t { pick, range, newaxis, skip, positions, mask };
  using enum Kind;
  Kind kind;
  int64_t first = 0;            // pick, range
  int64_t count = 1, step = 1;  // range; skip: the number of dimensions
  const Tensor* at = nullptr;   // positions, mask
  int64_t base = 0;             // the number of the first position in `positions`
};
/// x[items]: a view if no entry is a tensor. As in PyTorch, index tensors broadcast together; their
/// dimensions replace the indexed ones, or are first if other dimensions are between those.
Tensor index(const Tensor& x, const At* items, int n);
/// x[items] = value, or += (`accumulate`), recorded; for equal positions the last value is kept.
void index_put_(const char* name, const Tensor& x, const At* items, int n, const Tensor& value,
                bool accumulate = false);

// ---- masks and sorted data (masks.cpp) ----

/// The elements where the mask is set, in row-major order.
Tensor masked_select(const Tensor& x, const Tensor& mask);
/// x with a value, a number or 0-d, where the mask is set.
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value, InPlace in_place = {});
/// x with the first elements of `source`, in order, where the mask is set.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source,
                      InPlace in_place = {});
/// [n x rank]: the positions of the nonzero elements, counted from `first`.
Tensor nonzero(const Tensor& x, int64_t first = 0);
/// The same as one tensor per dimension; a 0-d tensor is handled as one of size 1.
TensorList nonzero_list(const Tensor& x, int64_t first = 0);
/// The insertion positions of the values in `sorted`: one sequence, or one for each row of values.
Tensor searchsorted(const char* name, const Tensor& sorted, const Tensor& values, bool right,
                    int64_t first = 0);
/// Whether each element is equal to an element of `test`.
Tensor isin(const Tensor& elements, const Tensor& test, bool invert = false);

}  // namespace mt
