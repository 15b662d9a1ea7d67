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

}  // namespace mt
