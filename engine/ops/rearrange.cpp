// rearrange.cpp -- elements in a different order: flipped, repeated, padded, triangles
#include "engine/ops/rearrange.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "engine/autograd/graph.h"
#include "engine/core/device.h"
#include "engine/ops/reduce_common.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {
constexpr int64_t kMaxPositions = int64_t(1) << 46;  // more positions than a tensor can have

Tensor flip(const Tensor& x, const Dims& dims) {
  Shape stride = x.strides();
  unsigned flipped = 0;
  int64_t offset = x.offset();
  for (int64_t dim : wrap_dims("flip", dims, x.dim())) {
    const int d = int(dim);
    flipped |= 1u << d;
    if (x.dim() == 0 || x.numel() == 0) continue;
    offset += (x.size(d) - 1) * x.stride(d);
    stride[d] = -x.stride(d);
  }
  Tensor out = empty(x.shape(), x);
  copy_elements(out, view_of(x, x.shape(), stride, offset));
  if (wants_grad(x)) {
    static const NodeType type{"flip", [](Node& node, const Tensor& g, Tensor* dx) {
                                 dx[0] = flip(g, dims_of(node.kept<unsigned>(), g.dim()));
                               }};
    record(type, out, {&x}).keep(flipped);
  }
  return out;
}

/// Rolls every dimension by shift[d] positions, 0 <= shift[d] < size[d]; copies each block once.
static Tensor roll_all(const Tensor& x, const int64_t* shift) {
  Tensor out = empty(x.shape(), x);
  const std::function<void(Tensor, Tensor, int)> copy = [&](Tensor to, Tensor from, int d) {
    while (d < x.dim() && shift[d] == 0) ++d;
    if (d == x.dim()) return copy_elements(to, from);
    const int64_t n = x.size(d), k = shift[d];
    copy(slice(to, d, k, n - k), slice(from, d, 0, n - k), d + 1);
    copy(slice(to, d, 0, k), slice(from, d, n - k, k), d + 1);
  };
  copy(out, x.detach(), 0);
  if (wants_grad(x)) {
    static const NodeType type{"roll", [](Node& node, const Tensor& g, Tensor* dx) {
                                 int64_t back[kMaxDims];
                                 for (int d = 0; d < g.dim(); ++d) {
                                   const int64_t k = node.kept_list<int64_t>()[d];
                                   back[d] = k == 0 ? 0 : g.size(d) - k;
                                 }
                                 dx[0] = roll_all(g, back);
                               }};
    std::copy_n(shift, x.dim(), record(type, out, {&x}).keep_list<int64_t>(x.dim()));
  }
  return out;
}

Tensor roll(const Tensor& x, const Shape& shifts, const Dims& dims) {
  if (dims.size() == 0) {
    if (shifts.size() != 1) fail("roll: {} shifts are given without dims", shifts.size());
    return reshape(roll(reshape(x, {-1}), shifts, {0}), x.shape());
  }
  if (shifts.size() != dims.size())
    fail("roll: {} shifts for {} dimensions", shifts.size(), dims.size());
  int64_t shift[kMaxDims] = {};
  if (x.dim() == 0) fail("roll: a 0-d tensor has no dimension to shift along");
  for (int i = 0; i < dims.size(); ++i) {
    const int d = wrap_dim("roll", dims[i], x.dim());
    const int64_t size = x.shape()[d];
    if (size > 0) shift[d] = (shift[d] + shifts[i] % size + size) % size;
  }
  return roll_all(x, shift);
}

Tensor rot90(const Tensor& x, int64_t k, Dim a, Dim b) {
  if (x.dim() < 2) fail("rot90: {} has fewer than two dimensions", x.shape());
  const int i = wrap_dim("rot90", a, x.dim()), j = wrap_dim("rot90", b, x.dim());
  if (i == j) fail("rot90: dimension {} is named twice", i + 1);
  switch ((k % 4 + 4) % 4) {
    case 0: return clone(x);
    case 1: return transpose(flip(x, {j}), i, j);
    case 2: return flip(x, {i, j});
    default: return flip(transpose(x, i, j), {j});
  }
}

Tensor tile(const Tensor& x, const Shape& repeats) {
  const int rank = std::max(x.dim(), repeats.size());
  Shape size = x.shape(), times = repeats, whole;
  while (size.size() < rank) size.insert(0, 1);
  while (times.size() < rank) times.insert(0, 1);
  int more = 0;
  for (int d = 0; d < rank; ++d) {
    if (times[d] < 0) fail("tile: {} repeats in {}", times[d], repeats);
    int64_t n;
    if (__builtin_mul_overflow(size[d], times[d], &n))
      fail("tile: {} times {} has more elements than memory can hold", size, times);
    whole.push(n);
    more += times[d] != 1 && size[d] != 1;
  }
  checked_count("tile", whole);
  if (rank + more > kMaxDims) {  // in two steps
    Shape first = times, second = times;
    for (int d = 0; d < rank; ++d) (d < rank / 2 ? first : second)[d] = 1;
    return tile(tile(x, first), second);
  }
  // Each repeated dimension is split in two, of which the first is expanded.
  Shape split, expanded;
  for (int d = 0; d < rank; ++d) {
    if (times[d] != 1 && size[d] != 1) split.push(1), expanded.push(times[d]);
    split.push(size[d]);
    expanded.push(size[d] == 1 ? times[d] : size[d]);
  }
  const Tensor out = expand(reshape(x, split), expanded);
  return out.is_contiguous() ? clone(reshape(out, whole)) : reshape(clone(out), whole);
}

/// x and its dimension d; without `dim` the flattened x and dimension 0.
static Tensor repeat_input(const Tensor& x, std::optional<Dim> dim, int& d) {
  d = dim ? wrap_dim("repeat_interleave", *dim, x.dim()) : 0;
  return dim && x.dim() > 0 ? x : reshape(x, {-1});
}

Tensor repeat_interleave(const Tensor& x, int64_t repeats, std::optional<Dim> dim) {
  int d;
  const Tensor from = repeat_input(x, dim, d);
  if (repeats < 0) fail("repeat_interleave: repeats is {}; it must be 0 or more", repeats);
  Shape size = from.shape(), wide = size;
  if (__builtin_mul_overflow(size[d], repeats, &size[d]))
    fail("repeat_interleave: {} times {} has more elements than memory can hold", x.shape(),
         repeats);
  checked_count("repeat_interleave", size);
  if (from.dim() == kMaxDims) {
    const Tensor all = zeros({from.size(d)}, Dtype::i64) + double(repeats);
    return repeat_interleave(from, all, dim);
  }
  wide.insert(d + 1, repeats);
  return reshape(clone(expand(unsqueeze(from, d + 1), wide)), size);
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<Dim> dim) {
  int d;
  const Tensor from = repeat_input(x, dim, d);
  const int64_t n = from.size(d);
  check_integers("repeat_interleave", repeats, "repeats", "repeats");
  if (repeats.dim() > 1 || (repeats.numel() != n && repeats.numel() != 1))
    fail("repeat_interleave: repeats {} for {} positions of dimension {}", repeats.shape(), n,
         d + 1);
  const Tensor counts = expand(to(repeats.detach(), cpu_device()), {n});
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t times = counts.at_integer(i);
    if (times < 0) fail("repeat_interleave: {} repeats of position {}", times, i + message_base());
    if (times > kMaxPositions || (total += times) > kMaxPositions)
      fail("repeat_interleave: the repeats sum to more than memory can hold");
  }
  Tensor index = empty({total}, Dtype::i64);
  int64_t* p = index.data_as<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t times = counts.at_integer(i);
    in_strips(times, [&](int64_t from, int64_t to) { std::fill(p + from, p + to, i); });
    p += times;
  }
  return index_select(from, d, to(index, x.device()));
}

// ---- triangles ----------------------------------------------------------------------------------

namespace {

/// Processes all rows of all matrices: copies the triangle and writes zeros elsewhere.
void cut_triangles(const Tensor& from, const Tensor& to, int64_t diagonal, bool lower) {
  const int64_t rows = to.size(-2), columns = to.size(-1);
  const int64_t item = item_size(to.dtype());
  const char* in = from.data_as<const char>();
  char* out = to.data_as<char>();
  const auto copy = [&](int64_t at, int64_t end) {
    std::memcpy(out + at * item, in + at * item, (end - at) * item);
  };
  const auto clear = [&](int64_t at, int64_t end) {
    std::memset(out + at * item, 0, (end - at) * item);
  };
  parallel_strips(to.numel(), [&](int64_t at, int64_t last) {
    for (int64_t end; at < last; at = end) {
      const int64_t row = at / columns, begin = row * columns;
      end = std::min(last, begin + columns);
      const int64_t edge = begin + row % rows + diagonal + (lower ? 1 : 0);
      const int64_t middle = std::clamp(edge, at, end);
      if (lower) copy(at, middle), clear(middle, end);
      else clear(at, middle), copy(middle, end);
    }
  });
}

struct Triangle {
  int64_t diagonal;
  bool lower;
};

Tensor triangle(const NodeType& type, const Tensor& x, Triangle t);

void triangle_backward(Node& node, const Tensor& g, Tensor* dx) {
  dx[0] = triangle(*node.type, g, node.kept<Triangle>());
}
const NodeType kTril{"tril", triangle_backward}, kTriu{"triu", triangle_backward};

Tensor triangle(const NodeType& type, const Tensor& x, Triangle t) {
  if (x.dim() < 2) fail("{}: {} is not a matrix", type.name, x.shape());
  const int64_t rows = x.size(-2), columns = x.size(-1);
  t.diagonal = std::clamp(t.diagonal, -rows - 1, columns + 1);
  Tensor out;
  if (is_cpu(x.device()) && !step_recorder) {  // without a verb
    out = empty(x.shape(), x);
    if (x.numel() > 0) cut_triangles(contiguous(x.detach()), out, t.diagonal, t.lower);
  } else {
    const Tensor end = unsqueeze(arange(rows, x.device()), 1) + double(t.diagonal),
                 column = arange(columns, x.device());
    out = masked_fill(x.detach(), t.lower ? gt(column, end) : lt(column, end), 0.0);
  }
  if (wants_grad(x)) record(type, out, {&x}).keep(t);
  return out;
}

}  // namespace

Tensor tril(const Tensor& x, int64_t diagonal) { return triangle(kTril, x, {diagonal, true}); }
Tensor triu(const Tensor& x, int64_t diagonal) { return triangle(kTriu, x, {diagonal, false}); }

Tensor triangle_indices(bool lower, int64_t rows, int64_t columns, int64_t offset) {
  const char* name = lower ? "tril_indices" : "triu_indices";
  if (rows < 0 || columns < 0) fail("{}: {} rows and {} columns", name, rows, columns);
  checked_count(name, {rows, columns});
  offset = std::clamp(offset, -rows - 1, columns + 1);
  // In row i the first `width(i)` columns are below the diagonal, or on it if it is included.
  const int64_t shift = offset + (lower ? 1 : 0);
  const auto width = [&](int64_t i) { return std::clamp<int64_t>(i + shift, 0, columns); };
  const auto below = [&](int64_t i) {  // the elements in the rows before i
    const int64_t begin = std::clamp<int64_t>(-shift, 0, i);
    const int64_t full = std::clamp<int64_t>(columns - shift, begin, i);
    const int64_t some = full - begin, least = width(begin);
    return int64_t(__int128(some) * (2 * least + some - 1) / 2) + (i - full) * columns;
  };
  const auto before = [&](int64_t i) { return lower ? below(i) : i * columns - below(i); };
  const int64_t n = before(rows);
  return constants<int64_t>({2, n}, [&](int64_t* p) {
    parallel_strips(n, [&](int64_t at, int64_t end) {
      int64_t row = 0;  // the last non-empty row that begins at or before `at`
      for (int64_t step = std::bit_floor(uint64_t(rows)); step > 0; step /= 2)
        if (row + step < rows && before(row + step) <= at) row += step;
      for (int64_t column = at - before(row) + (lower ? 0 : width(row)); at < end; ++at, ++column) {
        while (column >= (lower ? width(row) : columns)) ++row, column = lower ? 0 : width(row);
        p[at] = row, p[n + at] = column;
      }
    });
  });
}

Tensor diag(const Tensor& x, int64_t offset) {
  if (x.dim() == 1) return diag_embed(x, offset);
  if (x.dim() != 2) fail("diag: {} is neither a vector nor a matrix", x.shape());
  return clone(diagonal(x, offset));
}

// ---- padding ------------------------------------------------------------------------------------

namespace {

struct PadWidths {
  int64_t before[kMaxDims] = {}, after[kMaxDims] = {};
};

Shape padded(const Tensor& x, const PadWidths& s) {
  Shape size = x.shape();
  for (int d = 0; d < x.dim(); ++d) size[d] += s.before[d] + s.after[d];
  checked_count("pad", size);
  return size;
}

/// The dimensions from d on without what `s` adds to them.
Tensor middle(Tensor out, const PadWidths& s, int d = 0) {
  for (; d < out.dim(); ++d)
    if (s.before[d] != 0 || s.after[d] != 0)
      out = slice(out, d, s.before[d], out.size(d) - s.before[d] - s.after[d]);
  return out;
}

/// A border of a constant, or of positions of the tensor itself.
struct Border {
  PadWidths widths;  // not negative
  Padding mode;
  double value;  // of `constant`
};
Tensor add_border(const Tensor& x, const Border&);
Tensor fold_border(const Tensor& g, const Border&);

/// Calls f(added, source) for the two sides of dimension d of a padded tensor; dimensions after d are not padded yet.
void each_side(const Tensor& out, const Border& border, int d, const auto& f) {
  const Tensor part = middle(out, border.widths, d + 1);
  const int64_t before = border.widths.before[d], after = border.widths.after[d],
                n = part.size(d) - before - after;
  const auto side = [&](int64_t at, int64_t count, int64_t circular, int64_t reflected,
                        int64_t edge) {
    if (count == 0) return;
    const Tensor added = slice(part, d, at, count);
    const bool one = border.mode == Padding::replicate;
    const int64_t from = one ? edge : border.mode == Padding::circular ? circular : reflected;
    f(added, slice(part, d, before + from, one ? 1 : count));
  };
  side(0, before, n - before, 1, 0);
  side(before + n, after, 0, n - 1 - after, n - 1);
}

Tensor add_border(const Tensor& x, const Border& border) {
  const bool constant = border.mode == Padding::constant;
  const Shape size = padded(x, border.widths);
  const Tensor out = constant ? full(size, border.value, x) : empty(size, x);
  {
    NoGrad off;
    copy_elements(middle(out, border.widths), x);
    for (int d = 0; d < x.dim() && !constant; ++d)
      each_side(out, border, d, [&](const Tensor& added, const Tensor& source) {
        copy_elements(added, border.mode == Padding::reflect ? flip(source, {d})
                                                             : expand(source, added.shape()));
      });
  }
  if (wants_grad(x)) {
    static const NodeType type{"pad", [](Node& node, const Tensor& g, Tensor* dx) {
                                 dx[0] = fold_border(g, node.kept<Border>());
                               }};
    record(type, out, {&x}).keep(border);
  }
  return out;
}

/// The opposite, for gradients: adds the border to the positions that it is from.
Tensor fold_border(const Tensor& g, const Border& border) {
  Tensor out;
  {
    NoGrad off;
    const bool constant = border.mode == Padding::constant;
    const Tensor all = constant ? g.detach() : clone(g);
    for (int d = g.dim() - 1; d >= 0 && !constant; --d)
      each_side(all, border, d, [&](const Tensor& added, Tensor source) {
        source += border.mode == Padding::replicate ? sum(added, {d}, true)
                  : border.mode == Padding::reflect ? flip(added, {d})
                                                    : added;
      });
    out = clone(middle(all, border.widths));
  }
  if (wants_grad(g)) {
    static const NodeType type{"pad backward", [](Node& node, const Tensor& g2, Tensor* dx) {
                                 Border border = node.kept<Border>();
                                 border.value = 0;
                                 dx[0] = add_border(g2, border);
                               }};
    record(type, out, {&g}).keep(border);
  }
  return out;
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<int64_t>& sides, Padding mode, double value) {
  if (sides.size() % 2)
    fail("pad: {} sides are given; each dimension has two, before and after", sides.size());
  if (sides.size() / 2 > size_t(x.dim()))
    fail("pad: sides of {} dimensions are given, the tensor {} has {}", sides.size() / 2, x.shape(),
         x.dim());
  Border border{{}, mode, value};
  PadWidths cropped;
  for (size_t i = 0; i < sides.size() / 2; ++i) {
    const int d = x.dim() - 1 - int(i);
    const int64_t n = x.size(d), before = sides[2 * i], after = sides[2 * i + 1];
    if (std::max(std::abs(before), std::abs(after)) > kMaxPositions)
      fail("pad: ({}, {}) has more elements than memory can hold", before, after);
    const int64_t rest = n + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
    if (rest < 0)
      fail("pad: ({}, {}) cuts off more than the {} positions of dimension {}", before, after, n,
           d + 1);
    const int64_t most = std::max(before, after);
    if (mode == Padding::reflect && most >= n && most > 0)
      fail("pad: a reflection of {} positions needs more than the {} of dimension {}", most, n,
           d + 1);
    if (mode == Padding::circular && most > rest)
      fail("pad: circular padding of {} positions is larger than dimension {}, of size {}{}", most,
           d + 1, rest, rest < n ? " after cropping" : "");
    if (mode == Padding::replicate && most > 0 && n == 0)
      fail("pad: dimension {} has no position to replicate", d + 1);
    border.widths.before[d] = std::max<int64_t>(before, 0);
    border.widths.after[d] = std::max<int64_t>(after, 0);
    cropped.before[d] = std::max<int64_t>(-before, 0);
    cropped.after[d] = std::max<int64_t>(-after, 0);
  }
  if (mode == Padding::constant) check_value("pad", value, x.dtype());
  // Cropped positions return in a border of edges or reflections.
  if (mode == Padding::constant || mode == Padding::circular)
    return add_border(middle(x, cropped), border);
  const Tensor out = add_border(x, border), rest = middle(out, cropped);
  return rest.shape() == out.shape() ? out : clone(rest);
}

// ---- pixels and channels ------------------------------------------------------------------------

static void check_images(const char* name, const Tensor& x) {
  if (x.dim() < 3)
    fail("{}: the input is {}; expected (.. x channels x height x width)", name, x.shape());
}

/// Splits the last three dimensions of x into `sizes`, permutes, and reshapes to `result`.
static Tensor split_permute(const Tensor& x, const Shape& sizes, const Shape& order,
                            const Shape& result) {
  const Shape lead = x.shape().first(x.dim() - 3);
  Shape dims;
  for (int d = 0; d < lead.size(); ++d) dims.push(d);
  for (int64_t d : order) dims.push(lead.size() + d);
  return reshape(permute(reshape(x, joined(lead, sizes)), dims), joined(lead, result));
}

Tensor depth_to_space(const Tensor& x, int64_t r, int64_t s) {
  const int64_t n = x.size(-3) / (r * s), h = x.size(-2), w = x.size(-1);
  return split_permute(x, {n, r, s, h, w}, {0, 3, 1, 4, 2}, {n, h * r, w * s});
}

Tensor space_to_depth(const Tensor& x, int64_t r, int64_t s) {
  const int64_t c = x.size(-3), h = x.size(-2) / r, w = x.size(-1) / s;
  return split_permute(x, {c, h, r, w, s}, {0, 2, 4, 1, 3}, {c * r * s, h, w});
}

Tensor pixel_shuffle(const Tensor& x, int64_t r) {
  check_images("pixel_shuffle", x);
  const int64_t c = x.size(-3);
  if (r < 1 || r > 46340 || c % (r * r) != 0)
    fail("pixel_shuffle: upscale_factor is {}, its square does not divide the {} channels of {}", r,
         c, x.shape());
  return depth_to_space(x, r, r);
}

Tensor pixel_unshuffle(const Tensor& x, int64_t r) {
  check_images("pixel_unshuffle", x);
  if (r < 1 || r > 46340 || x.size(-2) % r != 0 || x.size(-1) % r != 0)
    fail("pixel_unshuffle: downscale_factor is {}, it does not divide the height and width of {}",
         r, x.shape());
  return space_to_depth(x, r, r);
}

// ---- joins --------------------------------------------------------------------------------------

static TensorList at_least(const TensorList& list, int dims) {
  TensorList out;
  for (const Tensor& x : list) out.push_back(at_least(x, dims));
  return out;
}

Tensor vstack(const TensorList& list) { return cat(at_least(list, 2), 0); }
Tensor hstack(const TensorList& list) {
  const TensorList parts = at_least(list, 1);
  return cat(parts, parts.empty() || parts[0].dim() == 1 ? 0 : 1);
}
}  // namespace mt
