// sort.cpp -- sorting, the k-th element, quantiles and unique
#include "engine/ops/sort.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/reduce_common.h"
#include "engine/ops/views.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {
namespace {

/// The elements [first, first + keep) of each sorted line. Lines that are not contiguous are
/// transposed first.
ValuesIndices sorted_range(const NodeType& type, const Tensor& input, int d, int64_t first,
                           int64_t keep, bool descending) {
  ValuesIndices p;
  if (is_storage_only(input.dtype())) {
    p = sorted_range(type, to_compute_dtype(input.detach()), d, first, keep, descending);
    p.values = cast_no_grad(p.values, input.dtype());
  } else {
    const int last = input.dim() - 1;
    const bool along = input.size(d) == 1 || input.stride(d) == 1;
    const Tensor x = along ? input.detach() : contiguous(transpose(input.detach(), d, last));
    const int line = along ? d : last;
    Shape shape = x.shape();
    shape[line] = keep;
    p = {empty(shape, x), empty(shape, Dtype::i64, x.device())};
    Sort s{x.dtype(),       descending,
           p.values.data(), p.index.argument_as<int64_t>(),
           x.data(),        along_dim(x, p.values, line),
           first,           keep,
           nullptr};
    Tensor scratch;  // a GPU allocates its own
    if (is_cpu(x.device())) {
      const int64_t n = x.size(line);
      const int64_t threads = n < x.numel() && n < kLongLine ? cpu_threads() : 1;
      scratch = empty({threads, sort_scratch(item_size(x.dtype()), n)}, Dtype::u8);
      s.scratch = scratch.data();
    }
    if (x.numel() > 0) x.device().sort(s);
    check_interrupt();  // positions that were not written must not be used
    if (!along)
      p = {contiguous(transpose(p.values, d, last)), contiguous(transpose(p.index, d, last))};
  }
  record_gather(type, input, p.values, d, p.index);
  return p;
}

Tensor flat(const Tensor& x) { return reshape(x, {-1}); }
/// The elements of x at positions along d; backward scatters the gradient there.
ValuesIndices pick_at(const NodeType& type, const Tensor& x, int d, const Tensor& index) {
  const ValuesIndices p{gather(x.detach(), d, index), index};
  record_gather(type, x, p.values, d, index);
  return p;
}

/// 0, 1, .., n-1 along dimension d of a tensor with this rank.
Tensor arange_along(int64_t n, int d, int rank, const Device& device) {
  return reshape(arange(n, device), sizes_along(rank, d, n));
}

const NodeType kSort{"sort", gather_backward}, kTopk{"topk", gather_backward},
    kKth{"kthvalue", gather_backward}, kMedian{"median", gather_backward},
    kNanmedian{"nanmedian", gather_backward}, kMode{"mode", gather_backward};

ValuesIndices medians(const NodeType& type, const Tensor& x, Dim dim, bool keepdim, bool skip) {
  return at_least_1d(type.name, x, dim, [&](const Tensor& y, int d) {
    need_elements(type.name, y, d);
    const bool tail = x.dim() == 0 || keepdim;
    if (y.size(d) == 0) return max_along(y, d, tail);  // nothing, in the shape of the result
    const int64_t at = (y.size(d) - 1) / 2;
    if (!holds_nan(y)) return without(sorted_range(type, y, d, at, 1, false), d, tail);
    Tensor index;
    const Tensor z = y.detach(), bad = isnan(z);
    const ValuesIndices all = sort(z, d);
    if (skip) {
      const Tensor good = sum(logical_not(bad), {d}, true);
      const Tensor place = maximum(floor_divide(good - 1.0, 2.0), 0.0);
      index = gather(all.index, d, place);
    } else {
      const Tensor usual = slice(all.index, d, at, 1);
      index = where(any(bad, {d}, true), argmax(z, d, true), usual);
    }
    return without(pick_at(type, y, d, index), d, tail);
  });
}

Tensor median_of_all(const char* name, const Tensor& x, bool skip) {
  const Tensor all = flat(x.detach());
  if (all.numel() == 0 && !is_float(x.dtype())) fail("{}: {} is empty", name, x.shape());
  const Tensor out = all.numel() == 0
                         ? scalar(NAN, x.dtype(), x.device())
                         : clone(medians(skip ? kNanmedian : kMedian, all, 0, false, skip).values);
  if (wants_grad(x)) {
    static const NodeType type{"median", [](Node& node, const Tensor& g, Tensor* dx) {
                                 const Tensor x = node.get(0), out = node.get(1);
                                 const Tensor same =
                                     logical_or(eq(x, out), logical_and(isnan(x), isnan(out)));
                                 dx[0] = g * (to(same, x.dtype()) / sum(same));
                               }};
    record(type, out, {&x}).save(0, x, 0).save(1, out, Node::kOutput);
  }
  return out;
}

}  // namespace

ValuesIndices sort(const Tensor& x, Dim dim, bool descending) {
  return at_least_1d("sort", x, dim, [&](const Tensor& y, int d) {
    return sorted_range(kSort, y, d, 0, y.size(d), descending);
  });
}

ValuesIndices topk(const Tensor& x, int64_t k, Dim dim, bool largest) {
  return at_least_1d("topk", x, dim, [&](const Tensor& y, int d) {
    if (k < 0 || k > y.size(d))
      fail("topk: k is {}, dimension {} of {} has {} elements", k, d + 1, x.shape(), y.size(d));
    if (x.dim() == 0 && k == 0) fail("topk: k is 0, a 0-d tensor has 1 element");
    return sorted_range(kTopk, y, d, 0, k, largest);
  });
}

ValuesIndices kthvalue(const Tensor& x, int64_t k, Dim dim, bool keepdim) {
  return at_least_1d("kthvalue", x, dim, [&](const Tensor& y, int d) {
    if (k < 1 || k > y.size(d))
      fail("kthvalue: k is {}, dimension {} of {} has {} elements; k counts from 1", k, d + 1,
           x.shape(), y.size(d));
    return without(sorted_range(kKth, y, d, k - 1, 1, false), d, keepdim || x.dim() == 0);
  });
}

ValuesIndices median(const Tensor& x, Dim dim, bool keepdim) {
  return medians(kMedian, x, dim, keepdim, false);
}
ValuesIndices nanmedian(const Tensor& x, Dim dim, bool keepdim) {
  return medians(kNanmedian, x, dim, keepdim, true);
}
Tensor median(const Tensor& x) { return median_of_all("median", x, false); }
Tensor nanmedian(const Tensor& x) { return median_of_all("nanmedian", x, true); }

ValuesIndices mode(const Tensor& x, Dim dim, bool keepdim) {
  return at_least_1d("mode", x, dim, [&](const Tensor& y, int d) {
    need_elements("mode", y, d);
    const ValuesIndices sorted = sort(y.detach(), d);
    const int64_t n = y.size(d), pairs = n > 0 ? n - 1 : 0;
    const Tensor &s = sorted.values, place = arange_along(n, d, y.dim(), y.device());
    const Tensor a = slice(s, d, 0, pairs), b = slice(s, d, n - pairs, pairs);
    Tensor begins = ne(a, b);
    if (is_float(s.dtype()))
      begins = logical_and(begins, logical_not(logical_and(isnan(a), isnan(b))));
    const Tensor from = where(begins, slice(place, d, n - pairs, pairs), 0.0);
    const Tensor zero = zeros_like(slice(sorted.index, d, 0, n > 0));
    const Tensor start = cummax(cat({zero, from}, d), d).values;
    const ValuesIndices longest = max_along(place - start, d, true);
    const Tensor index = gather(sorted.index, d, longest.index);
    return without(pick_at(kMode, y, d, index), d, keepdim || x.dim() == 0);
  });
}

/// Applies the interpolation rule to a fractional position, or a tensor of them, in the sorted order.
template <class T> static T apply_rule(const T& rank, QuantileRule how) {
  switch (how) {
    case QuantileRule::lower: return floor(rank);
    case QuantileRule::higher: return ceil(rank);
    case QuantileRule::nearest: return round(rank);
    case QuantileRule::midpoint: return (floor(rank) + ceil(rank)) / 2.0;
    default: return rank;
  }
}

/// The quantile f of each line of `sorted`, whose numbers end at `last` and are followed by NaNs.
/// `fraction` is f as a tensor, if it has a gradient.
static Tensor nan_quantile(const Tensor& sorted, int d, const Tensor& last, double f,
                           QuantileRule how, const Tensor& fraction) {
  const Tensor rank = apply_rule(last * f, how);
  const Tensor low = to(floor(rank), Dtype::i64), high = to(ceil(rank), Dtype::i64);
  Tensor weight = to(rank - floor(rank), sorted.dtype());
  if (fraction.defined()) weight = to(last * fraction - to(low, Dtype::f64), sorted.dtype());
  const Tensor lower = gather(sorted, d, low), higher = gather(sorted, d, high);
  return where(eq(weight, 0.0), lower, lerp(lower, higher, weight));
}

static Tensor no_quantiles(const Tensor& input, std::optional<int> d) {
  Shape shape = input.shape();
  if (!d) shape = {};
  else if (input.dim() > 0) shape.erase(*d);
  shape.insert(0, 0);
  return empty(shape, input);
}

Tensor quantile(const Tensor& input, const std::vector<double>& q, std::optional<Dim> dim,
                bool keepdim, QuantileRule how, bool skip_nan, const Tensor& fractions) {
  const char* name = skip_nan ? "nanquantile" : "quantile";
  need_float(name, input);
  for (double f : q)
    if (!(f >= 0 && f <= 1)) fail("{}: q is {}; it must lie in 0..1", name, show(f));
  const int d = dim ? wrap_dim(name, *dim, input.dim()) : 0;
  const Tensor x = dim && input.dim() > 0 ? input : flat(input);
  if (x.size(d) == 0)
    fail("{}: {} has no elements there, so it has no quantile", name, input.shape());
  const int64_t n = x.size(d);
  const bool nan = holds_nan(x);
  Tensor bad, last;  // lines with a NaN; the last position without NaN of each line
  if (nan) {
    const Tensor good = sum(logical_not(isnan(x)), {d}, true);
    bad = skip_nan ? eq(good, 0.0) : ne(good, double(n));
    last = maximum(to(good, Dtype::f64) - 1.0, 0.0);
  }
  const bool one = q.size() == 1 && !(nan && skip_nan);
  const double only = one ? apply_rule(q[0] * double(n - 1), how) : 0;
  const int64_t first = one ? int64_t(std::floor(only)) : 0;
  const int64_t keep = one ? int64_t(std::ceil(only)) - first + 1 : n;
  Tensor sorted = sorted_range(kSort, x, d, first, keep, false).values;
  // The result depends on q only between two positions.
  const bool q_grad = how == QuantileRule::linear && fractions.defined() && wants_grad(fractions);
  if (q_grad && nan) sorted = where(isnan(sorted), 0.0, sorted);  // 0 times NaN is not a slope
  TensorList results;
  for (double f : q) {
    Tensor result, fraction;
    if (q_grad) fraction = to(pick(flat(fractions), 0, int64_t(results.size())), Dtype::f64);
    if (nan && skip_nan) {
      result = nan_quantile(sorted, d, last, f, how, fraction);
    } else {
      const double rank = apply_rule(f * double(n - 1), how), low = std::floor(rank);
      result = slice(sorted, d, int64_t(low) - first, 1);
      if (q_grad || rank != low)
        result = lerp(
            result, slice(sorted, d, int64_t(std::ceil(rank)) - first, 1),
            q_grad ? to(fraction * double(n - 1) - low, x.dtype()) : scalar(rank - low, x.dtype()));
    }
    if (nan) result = where(bad, math::kInfinity - math::kInfinity, result);
    if (!dim) {
      Shape shape;
      for (int k = 0; keepdim && k < input.dim(); ++k) shape.push(1);
      result = reshape(result, shape);
    } else if (input.dim() == 0) {
      result = reshape(result, {});
    } else if (!keepdim) {
      result = squeeze(result, d);
    }
    results.push_back(result);
  }
  return results.empty() ? no_quantiles(input, dim ? std::optional(d) : std::nullopt)
                         : stack(results, 0);
}

/// Whether row a sorts before row b: by the first of n elements that differ; NaN is the largest.
template <class T> static bool is_before(const T* a, const T* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (a[i] != b[i] && (a[i] == a[i] || b[i] == b[i])) return a[i] < b[i] || b[i] != b[i];
  return false;
}

/// The lexicographic order of x's rows (along dimension 0).
static Tensor order_of_rows(const Tensor& rows) {
  const int64_t n = rows.size(0), width = rows.size(1);
  Tensor order;
  if (!is_cpu(rows.device())) {
    order = arange_along(n, 0, 1, rows.device());
    for (int64_t c = width - 1; c >= 0; --c) {
      const Tensor column = index_select(pick(rows, 1, c), 0, order);
      order = index_select(order, 0, sort(column, 0).index);
    }
    return order;
  }
  const Tensor data = contiguous(to_compute_dtype(rows));
  order = sort(pick(data, 1, 0), 0).index;
  int64_t* const at = order.data_as<int64_t>();
  with_dtype(data.dtype(), [&]<class T>(T) {
    const T* const x = data.data_as<T>();
    for (int64_t from = 0, to; from < n; from = to) {  // rows with the same first element
      const auto ends = [&](int64_t k) {
        return is_before(x + at[from] * width, x + k * width, 1);
      };
      to = std::find_if(at + from, at + n, ends) - at;
      std::stable_sort(at + from, at + to, [&](int64_t a, int64_t b) {
        check_interrupt();
        return is_before(x + a * width, x + b * width, width);
      });
    }
  });
  return order;
}

/// For integers in a small range: counts each value. Returns false if the range is too large.
static bool unique_by_counting(const Tensor& x, Unique& u) {
  const int64_t n = x.numel();
  if (is_float(x.dtype()) || n == 0) return false;
  const Tensor at = to(flat(x), Dtype::i64);
  const int64_t low = amin(at).at_integer(0), high = amax(at).at_integer(0);
  int64_t span;
  if (__builtin_sub_overflow(high, low, &span) || span > std::max<int64_t>(n, 4096)) return false;
  const Tensor counts = bincount(at, {}, 0, low), there = ne(counts, 0.0);
  const Index known(nonzero_list(there)[0]);
  const Tensor ids = arange(span + 1, x.device());
  // Not `+ low`: an integer of this size may not be exact in double.
  const Tensor first = to(constants(std::vector{low}), x.device());
  u.values = to(index_select(ids, 0, known) + first, x.dtype());
  u.counts = index_select(counts, 0, known);
  const Tensor place = cumsum(to(there, Dtype::i64), 0) - 1.0;
  u.inverse = reshape(index_select(place, 0, Index(at - first)), x.shape());
  return true;
}

Unique unique(const Tensor& input, std::optional<Dim> dim, bool consecutive) {
  const Tensor x = input.detach();
  const char* name = consecutive ? "unique_consecutive" : "unique";
  const int d = dim ? wrap_dim(name, *dim, x.dim()) : 0;
  const bool slices = dim && x.dim() > 0;
  if (Unique u; !slices && !consecutive && unique_by_counting(x, u)) return u;
  Tensor moved = slices ? movedim(x, {d}, {0}) : flat(x);
  const int64_t n = moved.size(0);
  if (slices && n > 0 && x.numel() == 0)
    fail("{}: {} has slices without elements", name, x.shape());
  const Tensor rows = reshape(moved, {n, n > 0 ? moved.numel() / n : 1});
  Tensor order, sorted = rows;
  if (!consecutive) {
    if (rows.size(1) == 1) {
      const ValuesIndices p = sort(flat(rows), 0);
      order = p.index, sorted = unsqueeze(p.values, 1);
    } else {
      order = order_of_rows(rows), sorted = index_select(rows, 0, order);
    }
  }
  const Shape inverse_shape = slices ? Shape{n} : x.shape();
  const auto ints = [&](const Shape& shape) { return zeros(shape, Dtype::i64, x.device()); };
  if (n == 0) return {slices ? x : moved, ints(inverse_shape), ints({0})};
  const Tensor begins = any(ne(slice(sorted, 0, 0, n - 1), slice(sorted, 0, 1, n - 1)), {1});
  const Tensor group = cumsum(cat({ints({1}), to(begins, Dtype::i64)}, 0), 0);
  const int64_t groups = group.at_integer(n - 1) + 1;
  const Tensor starts = cat({ones({1}, Dtype::b8, x.device()), begins}, 0);
  const Tensor first =
      scatter_add(ints({groups}), 0, group, where(starts, arange_along(n, 0, 1, x.device()), 0.0));
  Unique u;
  u.values = index_select(sorted, 0, first);
  if (slices) {
    const Shape shape = joined({groups}, moved.shape().from(1));
    u.values = contiguous(movedim(reshape(u.values, shape), {0}, {d}));
  } else {
    u.values = flat(u.values);
  }
  u.inverse = reshape(consecutive ? group : scatter_add(ints({n}), 0, order, group), inverse_shape);
  u.counts = diff(cat({first, full({1}, double(n), Dtype::i64, x.device())}, 0));
  return u;
}

}  // namespace mt
