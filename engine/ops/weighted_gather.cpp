// weighted_gather.cpp -- sums of weighted elements; each of the three parts is a gradient of the
// others
#include "engine/ops/weighted_gather.h"

#include "engine/autograd/graph.h"
#include "engine/core/device.h"
#include "engine/ops/ops.h"

namespace mt {
namespace {

/// Row k of a table [batch, taps, places], to broadcast with [batch, channels, places, inner].
Tensor tap(const Tensor& table, int64_t k) { return unsqueeze(slice(table, 1, k, 1), 3); }

/// A part on a GPU, composed of other kernels.
Tensor compose(WeightedPart part, const Tensor& x, const Tensor& at, const Tensor& weight,
               const Tensor& sums, const Shape& shape) {
  Tensor out = zeros(shape, x.defined() ? x : sums);
  TensorList rows;
  const Shape each = part == WeightedPart::sums ? shape : sums.shape();
  for (int64_t k = 0; k < at.size(1); ++k) {
    const Tensor place = tap(at, k), valid = ge(place, 0.0),
                 index = expand(maximum(place, 0.0), each);
    if (part == WeightedPart::x) {
      out = scatter_add(out, 2, index, where(valid, sums * tap(weight, k), 0.0));
    } else if (part == WeightedPart::sums) {
      out = out + where(valid, gather(x, 2, index) * tap(weight, k), 0.0);
    } else {
      rows.push_back(sum(where(valid, gather(x, 2, index) * sums, 0.0), {1, 3}));
    }
  }
  return part == WeightedPart::weight ? stack(rows, 1) : out;
}

/// The three tensors by their part; one of them is computed from the two others.
using WeightedParts = Tensor[3];
constexpr int kSumsPart = int(WeightedPart::sums), kXPart = int(WeightedPart::x),
              kWeightPart = int(WeightedPart::weight);
/// For each part the two others.
constexpr int kOtherParts[3][2] = {
    {kXPart, kWeightPart}, {kSumsPart, kWeightPart}, {kXPart, kSumsPart}};

/// Computes the missing part, of this shape, outside the graph.
Tensor compute_part(int part, const WeightedParts& given, const Tensor& at, const Shape& shape) {
  NoGrad off;
  const auto which = WeightedPart(part);
  const Tensor& like = given[part == kXPart ? kSumsPart : kXPart];
  if (!is_cpu(like.device()))
    return compose(which, given[kXPart], at, given[kWeightPart], given[kSumsPart], shape);
  const Tensor out = empty(shape, like.dtype()), places = contiguous(at);
  if (out.numel() == 0) return out;
  WeightedParts all;
  for (int k = 0; k < 3; ++k) all[k] = k == part ? out : contiguous(given[k]);
  const Tensor &x = all[kXPart], &w = all[kWeightPart];
  cpu_device().weighted_gather({which, out.dtype(), x.size(0), x.size(1), x.size(2), x.size(3),
                                w.size(1), w.size(2), x.data(), w.data(), all[kSumsPart].data(),
                                places.argument_as<int64_t>()});
  return out;
}

void weighted_backward(Node& node, const Tensor& g, Tensor* dx);
const NodeType kWeightedParts[] = {{"weighted_gather", weighted_backward},
                                   {"weighted_gather_backward", weighted_backward},
                                   {"weighted_gather_backward", weighted_backward}};

/// The missing part, recorded. `size`: of x along the dimension that `at` addresses.
Tensor part_of(int part, const WeightedParts& given, const Tensor& at, int64_t size) {
  const auto [first, second] = kOtherParts[part];
  const Tensor &a = given[first], &b = given[second];
  const Shape shape = part == kSumsPart ? Shape{a.size(0), a.size(1), at.size(2), a.size(3)}
                      : part == kXPart  ? Shape{a.size(0), a.size(1), size, a.size(3)}
                                        : at.shape();
  const Tensor out = compute_part(part, given, at, shape);
  if (wants_grad(a, b))
    record(kWeightedParts[part], out, {&a, &b})
        .save_for(1, first, a, 0)
        .save_for(0, second, b, 1)
        .save(3, at, Node::kOther)
        .keep(size);
  return out;
}

/// In the sum, the incoming gradient replaces the part that the node computed.
void weighted_backward(Node& node, const Tensor& g, Tensor* dx) {
  const int part = int(node.type - kWeightedParts);
  const Tensor at = node.get(3);
  WeightedParts given;
  for (int k = 0; k < 3; ++k) given[k] = k == part ? g : node.get(k);
  for (int i = 0; i < 2; ++i)
    if (node.wants(i)) dx[i] = part_of(kOtherParts[part][i], given, at, node.kept<int64_t>());
}

}  // namespace

Tensor weighted_gather(const Tensor& x, const Tensor& at, const Tensor& weight) {
  if (is_reduced_float(x.dtype()))
    return to(weighted_gather(to(x, Dtype::f32), at, to(weight, Dtype::f32)), x.dtype());
  return part_of(kSumsPart, {{}, x, weight}, at, x.size(2));
}

Tensor gather_along(const Tensor& x, int dim, int64_t size, const Tensor& at,
                    const Tensor& weight) {
  Shape result = x.shape();
  result[dim] = size;
  const Shape table{1, at.numel() / size, size};
  const Dtype dtype = is_reduced_float(x.dtype()) ? Dtype::f32 : x.dtype();
  const Tensor lines =
      reshape(x, {1, product(x.shape().first(dim)), x.size(dim), product(x.shape().from(dim + 1))});
  return reshape(weighted_gather(lines, reshape(to(at, x.device()), table),
                                 reshape(to(to(weight, dtype), x.device()), table)),
                 result);
}

// ---- images sampled at any points ---------------------------------------------------------------

namespace {

/// Reflects a coordinate repeatedly between low / 2 and high / 2.
Tensor reflect(const Tensor& at, int64_t low, int64_t high) {
  if (low == high) return at * 0.0;
  const double first = double(low) / 2, span = double(high - low) / 2;
  const Tensor far = abs(at - first), rest = fmod(far, span);
  const Tensor odd = ne(remainder(floor(far.detach() / span), 2.0), 0.0);
  return where(odd, span - rest, rest) + first;
}

/// Moves a pixel coordinate out of bounds to the inside, except for zeros padding, and clamps it so
/// that it fits an integer. NaN becomes 0, except for zeros padding, where it stays NaN.
Tensor move_inside(Tensor at, int64_t size, Beyond beyond, bool corners) {
  if (beyond == Beyond::reflection)
    at = corners ? reflect(at, 0, 2 * (size - 1)) : reflect(at, -1, 2 * size - 1);
  if (beyond != Beyond::zeros) return clamp(where(isnan(at), 0.0, at), 0.0, double(size - 1));
  return clamp(at, -0x1p30, 0x1p30);
}

/// Converts -1..1 to pixel coordinates.
Tensor pixels(const Tensor& g, int64_t size, bool corners) {
  if (corners) return (g + 1.0) * (double(size - 1) / 2);
  return ((g + 1.0) * double(size) - 1.0) * 0.5;
}

/// One of the pixels along a dimension that contribute to a sample.
struct Tap {
  Tensor place, weight;  // (n, 1, points); place is a float and may be out of bounds
};

std::vector<Tap> taps_of(const Tensor& at, int64_t size, Sampling how, Beyond beyond,
                         bool corners) {
  if (how == Sampling::nearest) {  // the gradient of the points is 0; NaN is out of bounds
    const Tensor safe = where(isnan(at), -1.0, at);
    return {{round(safe.detach()), safe - safe + 1.0}};
  }
  const Tensor low = floor(at.detach()), t = at - low;
  if (how == Sampling::linear) return {{low, 1.0 - t}, {low + 1.0, t}};
  std::vector<Tap> taps;
  for (int k = 0; k < 4; ++k) {
    const Tensor place = move_inside(low + double(k - 1), size, beyond, corners);
    taps.push_back({place, cubic_weight(t, k)});
  }
  return taps;
}

void check_grid(const Tensor& x, const Tensor& grid) {
  const char* name = "grid_sample";
  const int spatial = x.dim() - 2;
  if (spatial != 2 && spatial != 3)
    fail("{}: the input is {}; expected (batch x channels x height x width), or with depth", name,
         x.shape());
  if (grid.dim() != x.dim() || grid.size(-1) != spatial || grid.size(0) != x.size(0))
    fail("{}: the input is {}, the grid {}; expected ({} x .. x {})", name, x.shape(), grid.shape(),
         x.size(0), spatial);
  if (!is_float(x.dtype()) || grid.dtype() != x.dtype())
    fail("{}: the input is {}, the grid {}; both must be of one float dtype", name, x.dtype(),
         grid.dtype());
  check_together(name, x, grid);
  for (int d = 2; d < x.dim(); ++d)
    if (x.size(d) == 0) fail("{}: the input {} has a size of 0", name, x.shape());
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, Sampling how, Beyond beyond, bool corners) {
  check_grid(x, grid);
  const int spatial = x.dim() - 2;
  const int64_t n = x.size(0), c = x.size(1);
  const Shape places = grid.shape().first(1 + spatial).from(1), result = joined({n, c}, places);
  const int64_t points = product(places), area = product(x.shape().from(2));
  if (checked_count("grid_sample", result) == 0) return zeros(result, x);
  // Starts at the last dimension, which the first component of the grid addresses.
  std::vector<Tap> all{{Tensor(), Tensor()}};  // place: int64 in the plane
  TensorList inside{Tensor()};
  int64_t stride = 1;
  for (int j = 0; j < spatial; ++j) {
    const int64_t size = x.size(x.dim() - 1 - j);
    Tensor at = pixels(reshape(pick(grid, -1, j), {n, 1, points}), size, corners);
    at = move_inside(at, size, how == Sampling::cubic ? Beyond::zeros : beyond, corners);
    std::vector<Tap> products;
    TensorList all_inside;
    for (const Tap& tap : taps_of(at, size, how, beyond, corners)) {
      const Tensor known = logical_and(ge(tap.place, 0.0), le(tap.place, double(size - 1)));
      const Tensor valid = logical_or(known, isnan(tap.place));  // their weight is NaN
      Tensor place = to(where(known, tap.place, 0.0), Dtype::i64);
      if (size >> 24)
        place = minimum(place, double(size - 1));  // a float32 may have been rounded up
      place = place * scalar(double(stride), Dtype::i64, x.device());
      for (size_t i = 0; i < all.size(); ++i) {
        const bool first = !all[i].place.defined();
        products.push_back({first ? place : all[i].place + place,
                            first ? tap.weight : all[i].weight * tap.weight});
        all_inside.push_back(first ? valid : logical_and(inside[i], valid));
      }
    }
    all.swap(products), inside.swap(all_inside);
    stride *= size;
  }
  const int64_t taps = all.size();
  TensorList positions, weights;
  for (size_t i = 0; i < all.size(); ++i) {
    positions.push_back(where(inside[i], all[i].place, -1.0));
    weights.push_back(all[i].weight);
  }
  const Shape table{n, taps, points};
  const Tensor out = weighted_gather(reshape(x, {n, c, area, 1}), reshape(cat(positions, 1), table),
                                     reshape(cat(weights, 1), table));
  return reshape(out, result);
}

Tensor affine_grid(const Tensor& theta, const Shape& size, bool corners) {
  const char* name = "affine_grid";
  const int spatial = size.size() - 2;
  if (spatial != 2 && spatial != 3)
    fail("{}: size is {}; expected (batch x channels x height x width), or with depth", name, size);
  for (int64_t n : size)
    if (n < 1) fail("{}: size is {}; every size must be at least 1", name, size);
  check_float(name, theta, "theta is", "theta");
  if (theta.shape() != Shape{size[0], spatial, spatial + 1})
    fail("{}: theta is {}; expected ({} x {} x {})", name, theta.shape(), size[0], spatial,
         spatial + 1);
  const Shape points = size.from(2);  // (depth x) height x width
  checked_count(name, joined(points, {spatial + 1}));
  TensorList columns;
  for (int d = spatial - 1; d >= 0; --d) {  // x, y, z
    const int64_t n = points[d];
    const double end = n == 1 ? 0 : corners ? 1 : double(n - 1) / double(n);
    columns.push_back(expand(
        reshape(linspace(-end, end, n, theta.dtype(), theta.device()), sizes_along(spatial, d, n)),
        points));
  }
  columns.push_back(ones(points, theta));
  const Tensor base = reshape(stack(columns, -1), {1, -1, spatial + 1});
  return reshape(matmul(base, transpose(theta, 1, 2)),
                 joined(joined({size[0]}, points), {spatial}));
}

}  // namespace mt
