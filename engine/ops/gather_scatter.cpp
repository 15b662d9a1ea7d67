// gather_scatter.cpp -- gather and scatter: indexing along one dimension by tensors
#include "engine/ops/gather_scatter.h"
#include "engine/core/host.h"
#include "engine/core/upcast.h"

#include <cstring>

#include "engine/ops/index_checks.h"
#include "engine/ops/ops.h"

namespace mt {

// ---- positions ----------------------------------------------------------------------------------

Tensor Index::from_zero() const { return first ? at - scalar(double(first), at.dtype()) : at; }

Index integer_positions(const char* name, const Index& index, const char* what,
                        const char* argument) {
  check_integers(name, index.at, what, argument);
  return {to(index.at, Dtype::i64), index.first};
}

namespace {

/// The valid positions, in the user's numbering.
IndexBound valid_positions(const char* name, const Index& index, int64_t extent, int dim,
                           const Shape& shape) {
  const int64_t shift = index.first ? 0 : message_base();
  return {IndexBound::position,
          name,
          index.first + shift,
          extent - 1 + index.first + shift,
          shift,
          dim,
          shape};
}

}  // namespace

void fail_position(const char* name, const Index& index, int64_t extent, int dim,
                   const Shape& shape) {
  const IndexBound e = valid_positions(name, index, extent, dim, shape);
  const int64_t back = index.back(extent);
  const Tensor at = to(index.at.detach(), cpu_device());
  for (int64_t i = 0; i < at.numel(); ++i) {
    const int64_t p = at.at_integer(i);
    if (p < 0 ? back > 0 && p + back >= 0 : p >= index.first && p < extent + index.first) continue;
    fail("{}: {}", name, describe_violation(e, p));
  }
  fail("{}: positions outside {}..{} (dimension {} of {})", name, e.first, e.last, dim + 1, shape);
}

void found(bool there, const char* name, const Index& index, int64_t extent, int dim,
           const Shape& shape) {
  if (!there) fail_position(name, index, extent, dim, shape);
  if (!is_cpu(index.at.device()))
    defer_check(index.at.device(), valid_positions(name, index, extent, dim, shape));
}

bool ravel_index(const Index& index, int64_t extent, int64_t* out, int64_t step, bool add) {
  RavelIndex l;
  const Tensor& at = index.at;
  const bool flat = at.is_contiguous();
  l.ndim = flat ? 1 : at.dim();
  const size_t bytes = sizeof(int64_t) * l.ndim;
  if (flat) {
    l.size[0] = at.numel(), l.index_stride[0] = 1;
  } else {
    std::memcpy(l.size, at.impl()->size, bytes);
    std::memcpy(l.index_stride, at.impl()->stride, bytes);
  }
  l.index = at.argument_as<int64_t>();
  l.out = out, l.step = step, l.add = add;
  l.extent = extent, l.first = index.first, l.back = index.back(extent);
  return at.device().ravel_index(l);
}

void check_positions(const char* name, const Index& index, int64_t extent, int dim,
                     const Shape& shape) {
  found(ravel_index(index, extent, nullptr), name, index, extent, dim, shape);
}

void check_counted(IndexBound::Kind kind, const char* name, const Index& given, const Tensor& at,
                   int64_t extent, std::optional<int64_t> ignore) {
  const int64_t base = given.first;
  const int64_t last = extent - 1 + base;
  if (at.numel() == 0) return;
  if (!reports_synchronously(at.device()) && extent > 0 && extent < INT64_MAX) {
    ravel_index({at}, extent, nullptr);
    return defer_check(at.device(), {kind, name, base, last, base, 0, {}});
  }
  if (amin(at).at_integer(0) >= 0 && amax(at).at_integer(0) < extent) return;
  const Tensor known = to(given.at, cpu_device());
  for (int64_t i = 0; i < known.numel(); ++i) {
    const int64_t k = known.at_integer(i);
    if (k == ignore || (k >= base && k <= last)) continue;
    if (kind == IndexBound::label)
      fail("{}: target {} is {}, expected {}..{} (labels count from {} here)", name, i + base, k,
           base, last, base);
    fail("{}: id {} (element {}) is outside {}..{}; ids count from {}", name, k, i + base, base,
         extent == INT64_MAX ? "" : std::to_string(last), base);
  }
}

Tensor filling(const char* name, const Tensor& x, const Tensor& value) {
  if (value.dim() != 0)
    fail("{}: the value is {}; one number or a 0-d tensor is needed", name, value.shape());
  if (value.impl()->number) {
    check_value(name, value.at(0), x.dtype());
    return scalar(value.at(0), x.dtype());
  }
  if (!can_hold(x.dtype(), value.dtype()))
    fail("{}: the value is {}, which this {} tensor cannot hold", name, value.dtype(), x.dtype());
  return to(to(value, x.dtype()), x.device());
}

void check_source(const char* name, const Tensor& x, const Tensor& source) {
  if (source.dtype() != x.dtype())
    fail("{}: the source is {}, the tensor {}; use source:to('{}')", name, source.dtype(),
         x.dtype(), x.dtype());
  check_together(name, x, source);
}

namespace {

/// `whole` is the tensor with the indexed dimension, `part` the one with the index's shape.
Gather gather_args(const Tensor& whole, const Tensor& part, const Index& index, int d) {
  Gather g;
  g.dtype = whole.dtype();
  g.ndim = index.at.dim();
  const size_t bytes = sizeof(int64_t) * g.ndim;
  std::memcpy(g.size, index.at.impl()->size, bytes);
  std::memcpy(g.index_stride, index.at.impl()->stride, bytes);
  std::memcpy(g.out_stride, part.impl()->stride, bytes);
  std::memcpy(g.in_stride, whole.impl()->stride, bytes);
  g.in_stride[d] = 0;
  g.step = whole.stride(d);
  g.extent = whole.size(d), g.first = index.first, g.back = index.back(g.extent);
  g.index = index.at.argument_as<int64_t>();
  g.out = part.data(), g.in = whole.data();
  return g;
}

void check_ranks(const char* name, const Tensor& x, const Tensor& index, int d) {
  check_together(name, x, index);
  if (index.dim() != x.dim())
    fail("{}: the index is {}, the tensor {}; they need the same number of dimensions", name,
         index.shape(), x.shape());
  if (index.numel() == 0) return;
  for (int k = 0; k < x.dim(); ++k)
    if (k != d && index.size(k) > x.size(k))
      fail("{}: the index {} is larger than {} in dimension {}", name, index.shape(), x.shape(),
           k + 1);
}

/// Views a 0-d tensor or index as one of size 1.
Tensor at_least_1d(const Tensor& x) { return x.dim() ? x : reshape(x, {1}); }

/// The dimension of an index, its first position, and the shape of the tensor that it indexes.
struct IndexedDim {
  int d;
  int64_t first;
  Shape whole;
};
std::pair<Index, int> saved_index(Node& node) {
  const IndexedDim& saved = node.kept<IndexedDim>();
  return {{node.get(0), saved.first}, saved.d};
}
Node& save_index(Node& node, const Index& index, int d, const Tensor& x) {
  return node.save(0, index.at, Node::kOther).keep(IndexedDim{d, index.first, x.shape()});
}

const NodeType kGather{"gather", gather_backward};

}  // namespace

void gather_backward(Node& node, const Tensor& g, Tensor* dx) {
  const auto [index, d] = saved_index(node);
  dx[0] = scatter_add(zeros(node.kept<IndexedDim>().whole, g), d, index, g);
}

void record_gather(const NodeType& type, const Tensor& x, const Tensor& values, int d,
                   const Index& index) {
  if (wants_grad(x)) save_index(record(type, values, {&x}), index, d, x);
}

Tensor gather(const Tensor& x, Dim dim, const Index& given) {
  const int d = wrap_dim("gather", dim, x.dim());
  if (x.dim() == 0 && given.at.dim() <= 1)
    return reshape(gather(reshape(x, {1}), 0, {at_least_1d(given.at), given.first}),
                   given.at.shape());
  check_ranks("gather", x, given.at, d);
  const Index index = integer_positions("gather", given);
  if (index.at.numel() > 0 && x.size(d) == 0) fail_position("gather", index, 0, d, x.shape());
  Tensor out = empty(index.at.shape(), x);
  found(x.device().gather(gather_args(x, out, index, d)), "gather", index, x.size(d), d, x.shape());
  record_gather(kGather, x, out, d, index);
  return out;
}

// ---- scatter ------------------------------------------------------------------------------------

namespace {

void scatter_into(const char* name, const Tensor& out, int d, const Index& index,
                  const Tensor& source, ScatterReduce join) {
  if (index.at.numel() == 0) return;
  if (join != ScatterReduce::set && is_storage_only(out.dtype()))
    return in_compute_dtype(out, [&](const Tensor& wide) {
      scatter_into(name, wide, d, index, to_compute_dtype(source), join);
    });
  if (out.size(d) == 0) fail_position(name, index, 0, d, out.shape());
  Gather g = gather_args(out, source, index, d);
  std::swap(g.out_stride, g.in_stride);
  g.out = out.data(), g.in = source.data();
  g.join = join;
  found(out.device().scatter(g), name, index, out.size(d), d, out.shape());
}

/// Whether each value of the source is in the result: of several at one position, the last is.
Tensor last_writes(const Shape& whole, int d, const Index& index) {
  const int64_t n = index.at.numel();
  const Tensor ids =
      reshape(range(1, double(n), 1, Dtype::i64, index.at.device()), index.at.shape());
  const Tensor zero = zeros(whole, Dtype::i64, ids.device());
  return eq(gather(scatter(zero, d, index, ids), d, index), ids);
}

void set_backward(Node& node, const Tensor& g, Tensor* dx) {
  const auto [index, d] = saved_index(node);
  const Tensor zero = zeros({}, g);
  if (node.wants(0)) dx[0] = scatter(g, d, index, expand(zero, index.at.shape()));
  if (node.wants(1)) dx[1] = where(last_writes(g.shape(), d, index), gather(g, d, index), zero);
}

void add_backward(Node& node, const Tensor& g, Tensor* dx) {
  if (node.wants(0)) dx[0] = g;
  const auto [index, d] = saved_index(node);
  if (node.wants(1)) dx[1] = gather(g, d, index);
}

/// Elements equal to the maximum or minimum share the gradient.
void extreme_backward(Node& node, const Tensor& g, Tensor* dx) {
  const auto [index, d] = saved_index(node);
  const Tensor x = node.get(1), source = node.get(2), best = node.get(3);
  const Tensor self_hits = to(eq(x, best), g.dtype()),
               source_hits = to(eq(source, gather(best, d, index)), g.dtype());
  const Tensor part = g / maximum(scatter_add(self_hits, d, index, source_hits), 1.0);
  if (node.wants(0)) dx[0] = part * self_hits;
  if (node.wants(1)) dx[1] = gather(part, d, index) * source_hits;
}

/// The gradient is the product of the others, which is computed again for the only zero of a group.
/// For several zeros it is 0, but its derivative is not: recording it throws Error.
void prod_backward(Node& node, const Tensor& g, Tensor* dx) {
  const auto [index, d] = saved_index(node);
  const Tensor x = node.get(1), source = node.get(2), product = node.get(3);
  if (node.wants(0)) {
    const Tensor safe = where(eq(x, 0.0), 1.0, x);
    dx[0] = g * scatter_reduce(safe, d, index, source, "prod") / safe;
  }
  if (!node.wants(1)) return;
  const Tensor is_zero = eq(source, 0.0), zero = zeros(x.shape(), Dtype::i64, x.device());
  const Tensor zeros_there = scatter_add(zero, d, index, to(is_zero, Dtype::i64));
  const Tensor is_only_zero = logical_and(is_zero, eq(gather(zeros_there, d, index), 1.0));
  if (grad_enabled() && zeros_there.numel() > 0 && amax(zeros_there).item() > 1)
    fail(
        "scatter_reduce: two zeros of the source go to one position; their product has no second "
        "derivative here; leave create_graph out, or use mt.prod");
  const Tensor others = scatter_reduce(x, d, index, where(is_only_zero, 1.0, source), "prod");
  const Tensor safe = where(is_zero, 1.0, source);
  dx[1] = where(is_only_zero, gather(g * others, d, index), gather(g * product, d, index) / safe);
}

const NodeType kSet{"scatter", set_backward}, kAdd{"scatter_add", add_backward},
    kMul{"scatter_reduce", prod_backward}, kExtreme{"scatter_reduce", extreme_backward};

void record_scatter(ScatterReduce join, const Tensor& out, const Tensor& x, int d,
                    const Index& index, const Tensor& source) {
  const NodeType& type = join == ScatterReduce::set   ? kSet
                         : join == ScatterReduce::add ? kAdd
                         : join == ScatterReduce::mul ? kMul
                                                      : kExtreme;
  Node& node = save_index(record(type, out, {&x, &source}), index, d, x);
  if (join == ScatterReduce::set || join == ScatterReduce::add) return;
  node.save(1, x, 0).save(2, source, 1).save(3, out, Node::kOutput);
}

/// Implements every kind of scatter. In place and without a gradient it writes x, after all checks.
Tensor scatter_any(const char* name, const Tensor& x, Dim dim, const Index& given,
                   const Tensor& source, ScatterReduce join, InPlace in_place) {
  const int d = wrap_dim(name, dim, x.dim());
  if (in_place) check_writable(name, x);
  if (x.dim() == 0 && given.at.dim() <= 1) {
    const Tensor y =
        reshape(scatter_any(name, reshape(x, {1}), 0, {at_least_1d(given.at), given.first},
                            at_least_1d(source), join, false),
                {});
    return in_place ? write_(name, x, y) : y;
  }
  check_ranks(name, x, given.at, d);
  check_source(name, x, source);
  if (source.dim() != x.dim())
    fail("{}: the source is {}, the tensor {}", name, source.shape(), x.shape());
  Index index = integer_positions(name, given);
  Tensor part = source;
  for (int k = 0; k < x.dim(); ++k) {
    if (index.at.size(k) > source.size(k) && index.at.numel() > 0)
      fail("{}: the index {} is larger than the source {}", name, index.at.shape(), source.shape());
    if (index.at.size(k) < part.size(k)) part = slice(part, k, 0, index.at.size(k));
  }
  if (index.at.numel() == 0) return in_place ? x : clone(x);
  const bool wants = wants_grad(x, part);
  if (in_place && !wants) {
    if (reports_synchronously(x.device())) check_positions(name, index, x.size(d), d, x.shape());
    if (part.impl()->storage == x.impl()->storage) part = clone(part);
    if (index.at.impl()->storage == x.impl()->storage) index.at = clone(index.at);
    scatter_into(name, x, d, index, part, join);
    bump(x);
    return x;
  }
  Tensor out = empty(x.shape(), x);
  copy_elements(out, x);
  scatter_into(name, out, d, index, part, join);
  if (wants) record_scatter(join, out, x, d, index, part);
  if (in_place && wants) keep_saved(out, x);
  return in_place ? write_(name, x, out) : out;
}

/// The identity element of a product, a maximum, a minimum or a sum.
double identity(ScatterReduce join, Dtype dtype) {
  if (join == ScatterReduce::mul) return 1;
  if (join == ScatterReduce::add || join == ScatterReduce::set) return 0;
  const bool low = join == ScatterReduce::max;
  return with_dtype(dtype, [&]<class T>(T) {
    return low ? double(math::lowest<T>()) : double(math::highest<T>());
  });
}

/// The number of values that are averaged in each element of x.
Tensor counts(const Tensor& x, Dim dim, const Index& index, bool include_self) {
  const Dtype dtype = is_float(x.dtype()) ? x.dtype() : Dtype::i64;
  const Tensor n = scatter_add(full(x.shape(), include_self, dtype, x.device()), dim, index,
                               ones(index.at.shape(), dtype, x.device()));
  return maximum(n, 1.0);
}

}  // namespace

Tensor scatter(const Tensor& x, Dim dim, const Index& index, const Tensor& source,
               InPlace in_place) {
  return scatter_any(in_place ? "scatter_" : "scatter", x, dim, index, source, ScatterReduce::set,
                     in_place);
}

Tensor scatter_add(const Tensor& x, Dim dim, const Index& index, const Tensor& source,
                   InPlace in_place) {
  return scatter_any(in_place ? "scatter_add_" : "scatter_add", x, dim, index, source,
                     ScatterReduce::add, in_place);
}

Tensor scatter_reduce(const Tensor& x, Dim dim, const Index& given, const Tensor& source,
                      std::string_view reduce, bool include_self, InPlace in_place) {
  const char* const name = in_place ? "scatter_reduce_" : "scatter_reduce";
  const bool mean = reduce == "mean";
  const ScatterReduce join = reduce == "sum" || mean ? ScatterReduce::add
                             : reduce == "prod"      ? ScatterReduce::mul
                             : reduce == "amax"      ? ScatterReduce::max
                             : reduce == "amin"      ? ScatterReduce::min
                                                     : ScatterReduce::set;
  if (join == ScatterReduce::set)
    fail("{}: unknown reduction '{}'; use 'sum', 'prod', 'mean', 'amax' or 'amin'", name, reduce);
  if (mean && x.dtype() == Dtype::b8) fail("{}: bool has no mean; use x:float()", name);
  const Index index = integer_positions(name, given);
  if (in_place) check_writable(name, x);
  if (include_self && !mean) return scatter_any(name, x, dim, index, source, join, in_place);
  Tensor start = x;
  if (!include_self) {
    wrap_dim(name, dim, x.dim());
    const Tensor neutral = scalar(identity(join, x.dtype()), x.dtype(), x.device());
    start = scatter_any(name, x, dim, index, expand(neutral, index.at.shape()), ScatterReduce::set,
                        false);
  }
  Tensor out = scatter_any(name, start, dim, index, source, join, false);
  if (mean) {
    const Tensor n = counts(x, dim, index, include_self);
    out = is_float(x.dtype()) ? out / n : to(floor_divide(out, n), x.dtype());
  }
  return in_place ? write_(name, x, out) : out;
}

Tensor take_along_dim(const Tensor& x, const Index& index, std::optional<Dim> dim) {
  if (!dim) return gather(reshape(x, {-1}), 0, {reshape(index.at, {-1}), index.first});
  const int d = wrap_dim("take_along_dim", *dim, x.dim());
  if (x.dim() != index.at.dim())
    fail("take_along_dim: the index is {}, the tensor {}; they need the same number of dimensions",
         index.at.shape(), x.shape());
  if (x.dim() == 0) return gather(x, 0, index);
  Shape a = x.shape(), b = index.at.shape();
  a[d] = b[d] = 1;
  Shape both = broadcast("take_along_dim", a, b);
  both[d] = x.size(d);
  const Tensor wide = expand(x, both);
  both[d] = index.at.size(d);
  return gather(wide, d, {expand(index.at, both), index.first});
}

}  // namespace mt
