// gather_scatter.cpp -- reading and writing the elements that index tensors select; gather and scatter
#include "engine/ops/gather_scatter.h"

#include <cstring>

#include "engine/core/step_listener.h"
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

/// The valid positions, in the user's numbering.
static IndexBound valid_positions(const char* name, const Index& index, int64_t extent, int dim,
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

// ---- keys: the elements that index tensors select -----------------------------------------------

Shape IndexKey::block() const {
  Shape shape = at.at.shape();
  if (several()) shape.erase(0);
  return shape;
}

/// The dimensions of the elements that a key selects, in order: calls block() for those of the index, and other(d) for
/// dimension d of x, which is not indexed.
static void each_dim(int rank, const IndexKey& key, const auto& block, const auto& other) {
  int others = 0;
  for (int d = 0; d < rank; ++d) {
    if (key.dims >> d & 1) continue;
    if (others++ == key.place) block();
    other(d);
  }
  if (others == key.place) block();
}

Shape shape_at(const Shape& x, const IndexKey& key) {
  if (key.along) return key.block();
  Shape out;
  each_dim(
      x.size(), key, [&] { out = joined(out, key.block()); }, [&](int d) { out.push(x[d]); });
  return out;
}

namespace {

/// The offsets of the selected elements, for several indexed dimensions of a tensor with these sizes and strides.
Tensor offsets_in(const Shape& size, const Shape& stride, const IndexKey& key) {
  Tensor out = empty(key.block(), Dtype::i64, key.at.at.device());
  int row = 0;
  for (int d = 0; d < size.size(); ++d) {
    if (!(key.dims >> d & 1)) continue;
    ravel_index({pick(key.at.at, 0, row)}, size[d], out.argument_as<int64_t>(), stride[d], row > 0);
    ++row;
  }
  return out;
}

/// The verb's argument: `whole` has the indexed dimensions, `part` the shape of shape_at. `offsets`
/// owns the memory that the argument points to.
Gather call_at(const Tensor& whole, const Tensor& part, const IndexKey& key, Tensor& offsets) {
  Gather g;
  g.dtype = whole.dtype();
  g.ndim = part.dim();
  const size_t bytes = sizeof(int64_t) * g.ndim;
  std::memcpy(g.size, part.impl()->size, bytes);
  std::memcpy(g.out_stride, part.impl()->stride, bytes);
  g.out = part.data(), g.in = whole.data();
  const bool several = key.several();
  offsets = several ? offsets_in(whole.shape(), whole.strides(), key) : key.at.at;
  int to = 0;
  const auto add = [&](int64_t index_stride, int64_t in_stride) {
    g.index_stride[to] = index_stride, g.in_stride[to++] = in_stride;
  };
  const auto add_index = [&] {
    for (int b = 0; b < offsets.dim(); ++b)
      add(offsets.stride(b), key.along && !(key.dims >> b & 1) ? whole.stride(b) : 0);
  };
  if (key.along) add_index();
  else each_dim(whole.dim(), key, add_index, [&](int d) { add(0, whole.stride(d)); });
  g.index = offsets.argument_as<int64_t>();
  if (several) {
    g.step = 1, g.extent = 1, g.first = g.back = 0;
    for (int d = 0; d < whole.dim(); ++d)
      if (key.dims >> d & 1) g.extent += (whole.size(d) - 1) * whole.stride(d);
  } else {
    const int d = __builtin_ctz(key.dims);
    g.step = whole.stride(d), g.extent = whole.size(d);
    g.first = key.at.first, g.back = key.at.back(g.extent);
  }
  return g;
}

int64_t extent_of(const Shape& x, const IndexKey& key) { return x[__builtin_ctz(key.dims)]; }

/// Checks positions that the kernel will not read.
void check_unread(const char* name, const Shape& x, const IndexKey& key, int64_t part) {
  if (key.several()) return;  // offsets_in has checked them
  const int64_t extent = extent_of(x, key);
  if (extent == 0 && key.at.at.numel() > 0) fail_position(name, key.at, 0, key.shown, key.whole);
  if (part == 0) check_positions(name, key.at, extent, key.shown, key.whole);
}

/// A key as a node stores it, without the positions.
struct KeptKey {
  Shape whole;
  int64_t first;
  unsigned dims;
  int place;
  bool along, adds;  // adds: put_at adds instead of replacing
};
IndexKey saved_key(Node& node) {
  const KeptKey& k = node.kept<KeptKey>();
  IndexKey key;
  key.dims = k.dims, key.place = k.place, key.along = k.along;
  key.at = {node.get(0), k.first}, key.whole = k.whole;
  return key;
}
Node& save_key(Node& node, const Tensor& x, const IndexKey& key, bool adds) {
  return node.save(0, key.at.at, Node::kOther)
      .keep(KeptKey{x.shape(), key.at.first, key.dims, key.place, key.along, adds});
}

const NodeType kIndex{"index", gather_backward}, kGather{"gather", gather_backward};

}  // namespace

void gather_backward(Node& node, const Tensor& g, Tensor* dx) {
  dx[0] = put_at(node.type->name, zeros(node.kept<KeptKey>().whole, g), saved_key(node), g,
                 ScatterReduce::add);
}

Tensor pick_at(const char* name, const Tensor& x, const IndexKey& key) {
  Tensor out = empty(shape_at(x.shape(), key), x);
  check_unread(name, x.shape(), key, out.numel());
  if (out.numel() > 0) {
    Tensor offsets;
    const bool there = x.device().gather(call_at(x, out, key, offsets));
    if (!key.several())  // several indices were checked before
      found(there, name, key.at, extent_of(x.shape(), key), key.shown, key.whole);
  }
  if (wants_grad(x)) save_key(record(key.along ? kGather : kIndex, out, {&x}), x, key, true);
  return out;
}

namespace {

/// Whether the positions of a key are known to differ. A recorded step may be replayed with others.
bool are_distinct(const IndexKey& key) {
  const Tensor& at = key.at.at;
  if (key.along || !is_cpu(at.device()) || step_recorder) return false;
  const Shape& x = key.whole;
  const Index index = key.several() ? Index(offsets_in(x, contiguous_strides(x), key)) : key.at;
  const int64_t extent = key.several() ? product(x) : extent_of(x, key);
  std::vector<int64_t> places(index.at.numel());
  ravel_index(index, extent, places.data());
  std::vector<bool> seen(extent);
  for (const int64_t p : places) {
    if (seen[p]) return false;
    seen[p] = true;
  }
  return true;
}

/// Whether each value of the source is in the result: of several at one position, the last is.
Tensor last_writes(const IndexKey& key) {
  const Shape shape = shape_at(key.whole, key);
  const Tensor ids = reshape(
      range(1, double(checked_count("index", shape)), 1, Dtype::i64, key.at.at.device()), shape);
  const Tensor zero = zeros(key.whole, Dtype::i64, ids.device());
  const Tensor winners = put_at("index", zero, key, ids, ScatterReduce::set, true);
  return eq(pick_at("index", winners, key), ids);
}

void put_backward(Node& node, const Tensor& g, Tensor* dx) {
  const char* const name = node.type->name;
  const IndexKey key = saved_key(node);
  const bool adds = node.kept<KeptKey>().adds;
  const Tensor zero = zeros({}, g);
  if (node.wants(0))
    dx[0] =
        adds ? g : put_at(name, g, key, expand(zero, shape_at(g.shape(), key)), ScatterReduce::set);
  if (!node.wants(1)) return;
  const Tensor part = pick_at(name, g, key);
  dx[1] = adds || are_distinct(key) ? part : where(last_writes(key), part, zero);
}

/// Elements equal to the maximum or minimum share the gradient.
void extreme_backward(Node& node, const Tensor& g, Tensor* dx) {
  const char* const name = node.type->name;
  const IndexKey key = saved_key(node);
  const Tensor x = node.get(1), source = node.get(2), best = node.get(3);
  const Tensor self_hits = to(eq(x, best), g.dtype()),
               source_hits = to(eq(source, pick_at(name, best, key)), g.dtype());
  const Tensor part =
      g / maximum(put_at(name, self_hits, key, source_hits, ScatterReduce::add), 1.0);
  if (node.wants(0)) dx[0] = part * self_hits;
  if (node.wants(1)) dx[1] = pick_at(name, part, key) * source_hits;
}

/// The gradient is the product of the others, which is computed again for the only zero of a group.
/// For several zeros it is 0, but its derivative is not: recording it throws Error.
void product_backward(Node& node, const Tensor& g, Tensor* dx) {
  const char* const name = node.type->name;
  const IndexKey key = saved_key(node);
  const Tensor x = node.get(1), source = node.get(2), product = node.get(3);
  const auto times = [&](const Tensor& a, const Tensor& b) {
    return put_at(name, a, key, b, ScatterReduce::mul);
  };
  if (node.wants(0)) {
    const Tensor safe = where(eq(x, 0.0), 1.0, x);
    dx[0] = g * times(safe, source) / safe;
  }
  if (!node.wants(1)) return;
  const Tensor is_zero = eq(source, 0.0), zero = zeros(x.shape(), Dtype::i64, x.device());
  const Tensor zeros_there = put_at(name, zero, key, to(is_zero, Dtype::i64), ScatterReduce::add);
  const Tensor is_only_zero = logical_and(is_zero, eq(pick_at(name, zeros_there, key), 1.0));
  if (grad_enabled() && zeros_there.numel() > 0 && amax(zeros_there).item() > 1)
    fail(
        "scatter_reduce: two zeros of the source go to one position; their product has no second "
        "derivative here; leave create_graph out, or use mt.prod");
  const Tensor others = times(x, where(is_only_zero, 1.0, source));
  const Tensor safe = where(is_zero, 1.0, source);
  dx[1] =
      where(is_only_zero, pick_at(name, g * others, key), pick_at(name, g * product, key) / safe);
}

const NodeType kPut{"index_put", put_backward}, kSet{"scatter", put_backward},
    kAdd{"scatter_add", put_backward}, kMul{"scatter_reduce", product_backward},
    kExtreme{"scatter_reduce", extreme_backward};

void record_put(ScatterReduce join, const Tensor& out, const Tensor& x, const IndexKey& key,
                const Tensor& source) {
  const bool set = join == ScatterReduce::set, add = join == ScatterReduce::add;
  const NodeType& type = !key.along                   ? kPut
                         : set                        ? kSet
                         : add                        ? kAdd
                         : join == ScatterReduce::mul ? kMul
                                                      : kExtreme;
  Node& node = save_key(record(type, out, {&x, &source}), x, key, add);
  if (!set && !add) node.save(1, x, 0).save(2, source, 1).save(3, out, Node::kOutput);
}

}  // namespace

Tensor put_at(const char* name, Tensor x, IndexKey key, const Tensor& source, ScatterReduce join,
              InPlace in_place) {
  const bool wants = wants_grad(x, source);
  const bool unused = x.unique() && x.impl()->storage->refs == 1;  // by others
  Tensor out = x, values = source;
  check_unread(name, x.shape(), key, source.numel());
  if (wants || !(in_place || unused)) {
    out = empty(x.shape(), x);
    copy_elements(out, x);
  } else if (in_place) {
    const auto shares = [&](const Tensor& t) { return t.impl()->storage == x.impl()->storage; };
    if (!key.several() && reports_synchronously(x.device()))
      check_positions(name, key.at, extent_of(x.shape(), key), key.shown, key.whole);
    if (shares(values)) values = clone(values);
    if (shares(key.at.at)) key.at.at = clone(key.at.at);
  }
  const auto write = [&](const Tensor& whole, const Tensor& part) {
    Tensor offsets;
    Gather g = call_at(whole, part, key, offsets);
    std::swap(g.out_stride, g.in_stride);
    g.out = whole.data(), g.in = part.data();
    g.join = join;
    const bool there = whole.device().scatter(g);
    if (!key.several()) found(there, name, key.at, extent_of(x.shape(), key), key.shown, key.whole);
  };
  if (source.numel() > 0 && join == ScatterReduce::set) write(out, values);
  else if (source.numel() > 0)
    in_compute_dtype(out, [&](const Tensor& whole) { write(whole, to_compute_dtype(values)); });
  if (wants) record_put(join, out, x, key, source);
  if (!in_place) return out;
  if (!wants) return bump(x), x;
  keep_saved(out, x);
  return write_(name, x, out);
}

// ---- along one dimension ------------------------------------------------------------------------

namespace {

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

/// The key of an index of x's rank.
IndexKey key_along(const Tensor& x, int d, const Index& index) {
  IndexKey key;
  key.dims = 1u << d, key.along = true, key.shown = d, key.whole = x.shape(), key.at = index;
  return key;
}

/// Views a 0-d tensor or index as one of size 1.
Tensor at_least_1d(const Tensor& x) { return x.dim() ? x : reshape(x, {1}); }

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
  const Index index = integer_positions(name, given);
  Tensor part = source;
  for (int k = 0; k < x.dim(); ++k) {
    if (index.at.size(k) > source.size(k) && index.at.numel() > 0)
      fail("{}: the index {} is larger than the source {}", name, index.at.shape(), source.shape());
    if (index.at.size(k) < part.size(k)) part = slice(part, k, 0, index.at.size(k));
  }
  if (index.at.numel() == 0) return in_place ? x : clone(x);
  return put_at(name, x, key_along(x, d, index), part, join, in_place);
}

/// The identity element of a product, a maximum, a minimum or a sum.
double identity(ScatterReduce join, Dtype dtype) {
  return with_dtype(dtype, [&]<class T>(T) {
    return join == ScatterReduce::mul   ? 1
           : join == ScatterReduce::add ? 0
           : join == ScatterReduce::max ? double(math::lowest<T>())
                                        : double(math::highest<T>());
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

void record_gather(const NodeType& type, const Tensor& x, const Tensor& values, int d,
                   const Index& index) {
  if (wants_grad(x)) save_key(record(type, values, {&x}), x, key_along(x, d, index), true);
}

Tensor gather(const Tensor& x, Dim dim, const Index& given) {
  const int d = wrap_dim("gather", dim, x.dim());
  if (x.dim() == 0 && given.at.dim() <= 1)
    return reshape(gather(reshape(x, {1}), 0, {at_least_1d(given.at), given.first}),
                   given.at.shape());
  check_ranks("gather", x, given.at, d);
  return pick_at("gather", x, key_along(x, d, integer_positions("gather", given)));
}

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
