// indexing.cpp -- x[k]: reading and writing of regions (views), positions and masks
#include "engine/ops/index_checks.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

// ---- from the entries of an index to a region and a key -----------------------------------------

/// The part of an index that needs no tensors: a view of x, and the remaining entries for the key.
class Region {
 public:
  Region(const Tensor& x, const At* items, int n, bool recorded)
      : x_(x),
        size_(x.shape()),
        stride_(x.strides()),
        given_(x.shape()),
        offset_(x.offset()),
        recorded_(recorded && wants_grad(x)) {
    for (int i = 0; i < n; ++i) enter(items[i]);
    view_ = recorded_ ? x_ : view_of(x, size_, stride_, offset_);
  }
  const Tensor& view() const { return view_; }
  /// Whether the view is all of x, with the same dimensions.
  bool covers(const Tensor& x) const { return size_ == x.shape() && stride_ == x.strides(); }
  bool plain() const { return indices_.empty(); }
  /// The mask, if a single one covers the whole view; otherwise null.
  const Tensor* whole_mask() const {
    return masks_ == 1 && mask_.defined() && int(indices_.size()) == mask_.dim() &&
                   mask_.dim() == view_.dim()
               ? &mask_
               : nullptr;
  }
  IndexKey key(const char* name) const;

 private:
  struct Entry {
    int dim, shown;
    Index at;
    Entry(int d, int s, const Index& i) : dim(d), shown(s), at(i) {}
  };

  void enter(const At& item) {
    switch (item.kind) {
      case At::skip: dim_ += int(item.count), shown_ += int(item.count); return;
      case At::newaxis: return add_dimension();
      case At::pick: return take_one(item.first);
      case At::range: return take_range(item);
      case At::positions:
        indices_.emplace_back(dim_++, shown_++, Index(on_device(*item.at), item.base));
        return;
      case At::mask: return enter_mask(on_device(*item.at));
    }
  }

  /// Returns an index on x's device: one on the CPU is copied there.
  Tensor on_device(const Tensor& index) const {
    if (!is_cpu(index.device())) check_together("index", x_, index);
    return to(index, x_.device());
  }

  void add_dimension() {
    if (recorded_) x_ = unsqueeze(x_, dim_);
    const int64_t step = dim_ < size_.size() ? size_[dim_] * stride_[dim_] : 1;
    size_.insert(dim_, 1), stride_.insert(dim_, step);
    ++dim_;
  }
  void take_one(int64_t at) {
    if (recorded_) x_ = pick(x_, dim_, at);
    offset_ += at * stride_[dim_];
    size_.erase(dim_), stride_.erase(dim_);
    ++shown_;
  }
  void take_range(const At& item) {
    if (recorded_) x_ = slice(x_, dim_, item.first, item.count, item.step);
    offset_ += item.first * stride_[dim_];
    size_[dim_] = item.count;
    int64_t step;
    if (!__builtin_mul_overflow(stride_[dim_], item.step, &step)) stride_[dim_] = step;
    ++dim_, ++shown_;
  }
  /// Converts a mask to the positions that it sets, 0-based: one index per dimension of the mask.
  void enter_mask(const Tensor& mask) {
    ++masks_;
    const int rank = mask.dim();
    if (rank == 0) {  // a new dimension, of size 1 or 0
      const bool on = mask.item() != 0;
      add_dimension();
      indices_.emplace_back(dim_ - 1, shown_, Index(zeros({on ? 1 : 0}, Dtype::i64, x_.device())));
      return;
    }
    for (int d = 0; d < rank; ++d)
      if (mask.size(d) != size_[dim_ + d])
        fail("index: the mask is {}, but dimension {} has size {}", mask.shape(), shown_ + d + 1,
             size_[dim_ + d]);
    const bool covers_all = size_.size() == rank;
    const TensorList at = covers_all ? TensorList(rank, mask) : nonzero_list(mask);
    for (int d = 0; d < rank; ++d) indices_.emplace_back(dim_++, shown_++, Index(at[d]));
    lazy_ |= covers_all, mask_ = mask;
  }

  Tensor x_, view_;
  Shape size_, stride_, given_;  // of the view so far; of the given tensor
  int64_t offset_;
  bool recorded_, lazy_ = false;
  int dim_ = 0, shown_ = 0;  // in the remaining dimensions of x; as the user counts
  std::vector<Entry> indices_;
  int masks_ = 0;
  Tensor mask_;  // the last one
};

IndexKey Region::key(const char* name) const {
  IndexKey key;
  key.whole = given_;
  std::vector<Entry> at = indices_;
  if (lazy_) {
    const TensorList rows = nonzero_list(mask_);
    for (size_t i = 0; i < rows.size(); ++i) at[i].at = Index(rows[i]);
  }
  for (const Entry& e : at) key.dims |= 1u << e.dim;
  const int first = at.front().dim, n = int(at.size());
  key.place = at.back().dim - first == n - 1 ? first : 0;
  key.shown = at.front().shown;
  for (Entry& e : at) e.at = integer_positions(name, e.at);
  if (n == 1) {
    key.at = at[0].at;
    return key;
  }
  Shape block;
  for (const Entry& e : at) block = broadcast("index", block, e.at.at.shape());
  key.at = {empty(joined({n}, block), Dtype::i64, x_.device())};
  const int64_t each = checked_count("index", block);
  for (int i = 0; i < n; ++i) {
    const Index row{expand(at[i].at.at, block), at[i].at.first};
    const int64_t extent = view_.size(at[i].dim);
    found(ravel_index(row, extent, key.at.at.argument_as<int64_t>() + i * each), name, row, extent,
          at[i].shown, key.whole);
  }
  return key;
}

/// A value without surplus leading dimensions of size 1, in x's dtype, in the shape of the region
/// that it is written to.
Tensor fit_value(const Tensor& x, const Tensor& given, const Shape& shape) {
  Tensor value = given;
  while (value.dim() > shape.size() && value.size(0) == 1) value = squeeze(value, 0);
  if (value.dim() > shape.size() || broadcast("assignment", shape, value.shape()) != shape)
    fail("assignment: the value {} does not fit into {}", given.shape(), shape);
  return expand(to(value, x.dtype()), shape);
}

/// x[mask] = value, with one element or as many as the mask sets.
Tensor masked_put(const Tensor& x, const Tensor& mask, const Tensor& value, bool accumulate) {
  if (value.numel() == 1) {
    const Tensor v = to(reshape(value, {}), x.dtype());
    return where(mask, accumulate ? x + v : v, x);
  }
  const int64_t n = sum(mask).item();
  const Tensor source = fit_value(x, value, {n});
  return masked_scatter(x, mask, accumulate ? masked_select(x, mask) + source : source);
}

}  // namespace

Tensor index(const Tensor& x, const At* items, int n) {
  if (n == 1 && items[0].kind == At::pick && !wants_grad(x)) {  // x[2], common in loops
    Shape size = x.shape(), stride = x.strides();
    size.erase(0), stride.erase(0);
    return view_of(x, size, stride, x.offset() + items[0].first * x.stride(0));
  }
  const Region region(x, items, n, true);
  if (region.plain()) return region.view();
  if (const Tensor* mask = region.whole_mask()) return masked_select(region.view(), *mask);
  return pick_at("index", region.view(), region.key("index"));
}

void index_put_(const char* name, const Tensor& x, const At* items, int n, const Tensor& given,
                bool accumulate) {
  check_writable(name, x);
  const Region region(x, items, n, false);
  const bool whole = region.covers(x);
  const Tensor view = whole ? x : region.view();
  if (given.dim() == 0 && !accumulate && is_cpu(given.device()) && !wants_grad(given)) {
    const Tensor number = to(given, x.dtype());  // passed by value
    if (region.plain()) return assign(x, view, number);
    if (const Tensor* mask = region.whole_mask(); mask && !wants_grad(x))
      return assign(x, view, where(*mask, number, view));
  }
  const Tensor value =
      to(given.impl()->storage == x.impl()->storage ? clone(given) : given, x.device());
  const bool wants = is_float(x.dtype()) && wants_grad(x, value);
  if (region.plain()) {
    const Tensor v = fit_value(x, value, view.shape());
    if (!accumulate) return assign(x, view, v);
    return assign(x, view, (wants ? Region(x, items, n, true).view() : view) + v);
  }
  if (const Tensor* mask = region.whole_mask()) {
    const Tensor source = wants ? Region(x, items, n, true).view() : view;
    return assign(x, view, masked_put(source, *mask, value, accumulate));
  }
  const IndexKey key = region.key(name);
  const Tensor source = fit_value(x, value, shape_at(view.shape(), key));
  const ScatterReduce join = accumulate ? ScatterReduce::add : ScatterReduce::set;
  if (!wants) return void(put_at(name, view, key, source, join, true));
  assign(x, view, put_at(name, whole ? x : Region(x, items, n, true).view(), key, source, join));
}

// ---- whole slices -------------------------------------------------------------------------------

/// The key of a 1-d index for one dimension.
static IndexKey slices_at(const char* name, const Tensor& x, int d, const Index& given) {
  if (given.at.dim() > 1)
    fail("{}: the index is {}; it must have one dimension", name, given.at.shape());
  check_together(name, x, given.at);
  IndexKey key;
  key.dims = 1u << d, key.place = key.shown = d, key.whole = x.shape();
  key.at = integer_positions(name, given);
  if (key.at.at.dim() == 0) key.at.at = reshape(key.at.at, {1});
  return key;
}

/// Common part of index_add, index_copy and index_fill; `fills`: the source broadcasts.
static Tensor put_slices(const char* name, const Tensor& x, Dim dim, const Index& given,
                         const Tensor& source, ScatterReduce join, bool fills, InPlace in_place) {
  const int d = wrap_dim(name, dim, x.dim());
  if (in_place) check_writable(name, x);
  if (x.dim() == 0) {
    const Tensor y = reshape(
        put_slices(name, reshape(x, {1}), 0, given,
                   fills || source.dim() ? source : reshape(source, {1}), join, fills, false),
        {});
    return in_place ? write_(name, x, y) : y;
  }
  const IndexKey key = slices_at(name, x, d, given);
  check_source(name, x, source);
  const Shape shape = shape_at(x.shape(), key);
  if (!fills && source.shape() != shape)
    fail("{}: the source is {}, the index picks {} of {}", name, source.shape(), shape, x.shape());
  return put_at(name, x, key, expand(source, shape), join, in_place);
}

Tensor index_select(const Tensor& x, Dim dim, const Index& given) {
  const int d = wrap_dim("index_select", dim, x.dim());
  if (x.dim() == 0) {
    if (given.at.numel() != 1)
      fail("index_select: a 0-d tensor has one position, this index picks {}", given.at.numel());
    return reshape(index_select(reshape(x, {1}), 0, {reshape(given.at, {1}), given.first}), {});
  }
  return pick_at("index_select", x, slices_at("index_select", x, d, given));
}

Tensor take(const Tensor& x, const Index& given) {
  check_together("take", x, given.at);
  const Tensor flat = reshape(x, {-1});
  IndexKey key;
  key.dims = 1, key.whole = flat.shape();
  key.at = integer_positions("take", given);
  return pick_at("take", flat, key);
}

Tensor index_add(const Tensor& x, Dim dim, const Index& index, const Tensor& source, double alpha,
                 InPlace in_place) {
  const char* const name = in_place ? "index_add_" : "index_add";
  check_value(name, alpha, x.dtype());
  const Tensor scaled = alpha == 1 ? source : to(source * alpha, source.dtype());
  return put_slices(name, x, dim, index, scaled, ScatterReduce::add, false, in_place);
}

Tensor index_copy(const Tensor& x, Dim dim, const Index& index, const Tensor& source,
                  InPlace in_place) {
  return put_slices(in_place ? "index_copy_" : "index_copy", x, dim, index, source,
                    ScatterReduce::set, false, in_place);
}

Tensor index_fill(const Tensor& x, Dim dim, const Index& index, const Tensor& value,
                  InPlace in_place) {
  const char* const name = in_place ? "index_fill_" : "index_fill";
  Tensor one = filling(name, x, value);
  if (&one.device() != &x.device()) one = scalar(one.item(), x.dtype(), x.device());
  return put_slices(name, x, dim, index, one, ScatterReduce::set, true, in_place);
}

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
