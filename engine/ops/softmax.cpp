// softmax.cpp -- softmax and log_softmax: one verb for forward and one for backward
#include "engine/ops/neural.h"

#include "engine/ops/reduce_common.h"

namespace mt {
namespace {

Tensor run(SoftmaxPart part, const Tensor& input, int d, const Tensor& grad = {}) {
  if (is_reduced_float(input.dtype()))
    return cast_no_grad(run(part, to_compute_dtype(input), d, to_compute_dtype(grad)),
                        input.dtype());
  const Tensor in = contiguous(input), g = contiguous(grad);
  Tensor out = empty(in.shape(), in);
  Softmax s{part, in.dtype(), out.data(), in.data(), g.defined() ? g.data() : nullptr,
            1,    in.size(d), 1};
  for (int k = 0; k < d; ++k) s.outer *= in.size(k);
  for (int k = d + 1; k < in.dim(); ++k) s.inner *= in.size(k);
  in.device().softmax(s);
  return out;
}

template <SoftmaxPart gradient> void softmax_backward(Node& node, const Tensor& g, Tensor* dx) {
  const Tensor y = node.get(0);
  const int d = node.kept<int>();
  if (!grad_enabled()) dx[0] = run(gradient, y, d, g);
  else if (gradient == SoftmaxPart::softmax_gradient) dx[0] = y * (g - sum(g * y, {d}, true));
  else dx[0] = g - exp(y) * sum(g, {d}, true);
}
const NodeType kSoftmax{"softmax", softmax_backward<SoftmaxPart::softmax_gradient>},
    kLogSoftmax{"log_softmax", softmax_backward<SoftmaxPart::log_softmax_gradient>};

Tensor along(const NodeType& type, SoftmaxPart part, const Tensor& input, Dim dim) {
  const int d = wrap_dim(type.name, dim, input.dim());
  if (input.dim() == 0) return reshape(along(type, part, reshape(input, {1}), 0), {});
  const Tensor x = as_float(input), out = run(part, x, d);
  if (wants_grad(x)) record(type, out, {&x}).save(0, out, Node::kOutput).keep(d);
  return out;
}

}  // namespace

Tensor softmax_gradient(const Tensor& y, const Tensor& g) {
  return run(SoftmaxPart::softmax_gradient, y, y.dim() - 1, g);
}
Tensor softmax(const Tensor& x, Dim dim) { return along(kSoftmax, SoftmaxPart::softmax, x, dim); }
Tensor log_softmax(const Tensor& x, Dim dim) {
  return along(kLogSoftmax, SoftmaxPart::log_softmax, x, dim);
}
Tensor softmin(const Tensor& x, Dim dim) { return softmax(-as_float(x), dim); }

}  // namespace mt
