// index_checks.h -- what functions of positions share: reading them, refusing wrong ones, the node of picked values
#pragma once
#include "engine/autograd/graph.h"
#include "engine/core/async_errors.h"
#include "engine/ops/gather_scatter.h"

namespace mt {

/// The index as int64; refuses what is no integer.
Index integer_positions(const char* name, const Index&);
/// "gather: position 5 is outside 1..4 (dimension 2 of (3 x 4))": finds the one that is not there.
[[noreturn]] void fail_position(const char* name, const Index&, int64_t extent, int dim,
                                const Shape& shape);
/// After a verb that looked at positions said whether they are there: refuses, or remembers what to
/// say if a GPU finds out later.
void found(bool there, const char* name, const Index&, int64_t extent, int dim, const Shape& shape);
/// Refuses positions outside, before anything is written.
void check_positions(const char* name, const Index&, int64_t extent, int dim, const Shape& shape);
/// out[i] = (or +=) index[i] * step, counted from 0; false: a position is not there.
bool ravel_index(const Index&, int64_t extent, int64_t* out, int64_t step = 1, bool add = false);
/// Refuses labels or ids that lie outside as the user counts them, but those equal to `ignore`; `at`:
/// the same from 0, below `extent`.
void check_counted(IndexBound::Kind, const char* name, const Tensor& given, const Tensor& at,
                   int64_t extent, std::optional<int64_t> ignore = {});
/// The one number that masked_fill and index_fill put into x: 0-d, of x's dtype.
Tensor filling(const char* name, const Tensor& x, const Tensor& value);
/// Records that `values` are x at `index` along dimension d; the gradient goes back there.
void record_gather(const NodeType&, const Tensor& x, const Tensor& values, int d, const Index&);
/// The `backward` of such a node.
void gather_backward(Node& node, const Tensor& g, Tensor* dx);
/// Refuses a source of another dtype or on another device.
void check_source(const char* name, const Tensor& x, const Tensor& source);

}  // namespace mt
