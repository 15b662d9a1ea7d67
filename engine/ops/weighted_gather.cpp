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

/// Computes the missing part, of this shape, outside the graph.
Tensor part_of(WeightedPart part, const Tensor& x, const Tensor& at, const Tensor& weight,
               const Tensor& sums, const Shape& shape) {
  NoGrad off;
  const Tensor& given = x.defined() ? x : sums;
  if (!is_cpu(given.device())) return compose(part, x, at, weight, sums, shape);
  const auto data = [&](const Tensor& t) { return t.defined() ? contiguous(t) : t; };
  const Tensor out = empty(shape, given.dtype()), places = contiguous(at);
  const Tensor a = part == WeightedPart::x ? out : data(x),
               w = part == WeightedPart::weight ? out : data(weight),
               s = part == WeightedPart::sums ? out : data(sums);
  if (out.numel() == 0) return out;
  cpu_device().weighted_gather({part, out.dtype(), a.size(0), a.size(1), a.size(2), a.size(3),
                                w.size(1), w.size(2), a.data(), w.data(), s.data(),
                                places.argument_as<int64_t>()});
  return out;
}

Tensor grad_x(const Tensor& g, const Tensor& at, const Tensor& weight, int64_t size);
Tensor grad_w(const Tensor& x, const Tensor& at, const Tensor& g);

const NodeType kSums{"weighted_gather", [](Node& node, const Tensor& g, Tensor* dx) {
                       const Tensor x = node.get(0), at = node.get(1), weight = node.get(2);
                       if (node.wants(0)) dx[0] = grad_x(g, at, weight, node.kept<int64_t>());
                       if (node.wants(1)) dx[1] = grad_w(x, at, g);
                     }};
const NodeType kGradX{"weighted_gather_backward", [](Node& node, const Tensor& g, Tensor* dx) {
                        const Tensor sums = node.get(0), at = node.get(1), weight = node.get(2);
                        if (node.wants(0)) dx[0] = weighted_gather(g, at, weight);
                        if (node.wants(1)) dx[1] = grad_w(g, at, sums);
                      }};
const NodeType kGradW{"weighted_gather_backward", [](Node& node, const Tensor& g, Tensor* dx) {
                        const Tensor x = node.get(0), at = node.get(1), sums = node.get(2);
                        if (node.wants(0)) dx[0] = grad_x(sums, at, g, x.size(2));
                        if (node.wants(1)) dx[1] = weighted_gather(x, at, g);
                      }};

Tensor grad_x(const Tensor& g, const Tensor& at, const Tensor& weight, int64_t size) {
  const Tensor out =
      part_of(WeightedPart::x, {}, at, weight, g, {g.size(0), g.size(1), size, g.size(3)});
  if (wants_grad(g, weight))
    record(kGradX, out, {&g, &weight})
        .save_for(1, 0, g, 0)
        .save(1, at, Node::kOther)
        .save_for(0, 2, weight, 1);
  return out;
}
Tensor grad_w(const Tensor& x, const Tensor& at, const Tensor& g) {
  const Tensor out = part_of(WeightedPart::weight, x, at, {}, g, at.shape());
  if (wants_grad(x, g))
    record(kGradW, out, {&x, &g}).save(0, x, 0).save(1, at, Node::kOther).save_for(0, 2, g, 1);
  return out;
}

}  // namespace

Tensor weighted_gather(const Tensor& x, const Tensor& at, const Tensor& weight) {
  if (is_reduced_float(x.dtype()))
    return to(weighted_gather(to(x, Dtype::f32), at, to(weight, Dtype::f32)), x.dtype());
  const Tensor out =
      part_of(WeightedPart::sums, x, at, weight, {}, {x.size(0), x.size(1), at.size(2), x.size(3)});
  if (wants_grad(x, weight))
    record(kSums, out, {&x, &weight})
        .save_for(1, 0, x, 0)
        .save(1, at, Node::kOther)
        .save_for(0, 2, weight, 1)
        .keep(x.size(2));
  return out;
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
