// index.cpp -- reading and adding at positions that are themselves data
#include <cstring>

#include "engine/autograd.h"
#include "engine/ops.h"

namespace mt {

int index_base = 0;

namespace {

/// The index as int64 on x's device; refuses floats and what lies outside 0..size-1.
Tensor checked_index(const char* name, const Tensor& x, int d, const Tensor& index) {
  if (is_float(index.dtype()) || index.dtype() == Dtype::b8)
    fail("{}: positions must be integers, this index is {}; use index:long()", name,
         dtype_name(index.dtype()));
  const Tensor at = to(index, Dtype::i64);
  if (at.numel() == 0) return at;
  NoGrad off;
  const int64_t low = amin(at).at_integer(0), high = amax(at).at_integer(0), size = x.size(d);
  if (low < 0 || high >= size)
    fail("{}: position {} is outside {}..{} (dimension {} of {})", name,
         (low < 0 ? low : high) + index_base, index_base, size - 1 + index_base, d + 1,
         to_string(x.shape()));
  return at;
}

Gather call(const Tensor& whole, const Tensor& part, const Tensor& index, int d) {
  Gather g;
  g.dtype = whole.dtype();
  g.ndim = index.dim();
  const size_t bytes = sizeof(int64_t) * size_t(g.ndim);
  std::memcpy(g.size, index.impl()->size, bytes);
  std::memcpy(g.index_stride, index.impl()->stride, bytes);
  std::memcpy(g.out_stride, part.impl()->stride, bytes);
  std::memcpy(g.in_stride, whole.impl()->stride, bytes);
  g.in_stride[d] = 0;
  g.step = whole.stride(d);
  g.index = index.data_as<int64_t>();
  g.out = part.data(), g.in = whole.data();
  return g;
}

void check_ranks(const char* name, const Tensor& x, const Tensor& index, int d) {
  if (index.dim() != x.dim())
    fail("{}: the index is {}, the tensor {}; they need the same number of dimensions", name,
         to_string(index.shape()), to_string(x.shape()));
  for (int k = 0; k < x.dim(); ++k)
    if (k != d && index.size(k) > x.size(k))
      fail("{}: the index {} is larger than {} in dimension {}", name, to_string(index.shape()),
           to_string(x.shape()), k + 1);
}

const NodeType kGather{"gather", [](Node& node, const Tensor& g, Tensor* dx) {
                         dx[0] = scatter_add(zeros(node.shape(0), g.dtype(), g.device()),
                                             int64_t(node.number[0]), node.get(1), g);
                       }};

Tensor gather_checked(const Tensor& x, int d, const Tensor& at) {
  Tensor out = empty(at.shape(), x.dtype(), x.device());
  x.device().gather(call(x, out, at, d));
  if (wants_grad(x)) {
    Node& node = record(kGather, out, {&x});
    node.save_shape(0, x);
    node.save(1, at, Node::kOther);
    node.number[0] = d;
  }
  return out;
}

}  // namespace

Tensor gather(const Tensor& x, int64_t dim, const Tensor& index) {
  const int d = wrap_dim("gather", dim, x.dim());
  if (x.dim() == 0) fail("gather: a 0-d tensor has no positions");
  check_ranks("gather", x, index, d);
  return gather_checked(x, d, checked_index("gather", x, d, index));
}

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  const int d = wrap_dim("index_select", dim, x.dim());
  if (x.dim() == 0) fail("index_select: a 0-d tensor has no positions");
  if (index.dim() != 1)
    fail("index_select: the index is {}; it must have one dimension", to_string(index.shape()));
  const Tensor at = checked_index("index_select", x, d, index);
  Shape shape = x.shape(), stride = x.shape();
  for (int k = 0; k < x.dim(); ++k) stride[k] = 0;
  shape[d] = at.size(0);
  stride[d] = at.stride(0);
  return gather_checked(x, d, view_of(at, shape, stride, at.offset()));
}

Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source) {
  const int d = wrap_dim("scatter_add", dim, x.dim());
  check_ranks("scatter_add", x, index, d);
  if (source.dtype() != x.dtype())
    fail("scatter_add: the source is {}, the tensor {}", dtype_name(source.dtype()),
         dtype_name(x.dtype()));
  if (source.dim() != x.dim())
    fail("scatter_add: the source is {}, the tensor {}", to_string(source.shape()),
         to_string(x.shape()));
  for (int k = 0; k < x.dim(); ++k)
    if (index.size(k) > source.size(k))
      fail("scatter_add: the index {} is larger than the source {}", to_string(index.shape()),
           to_string(source.shape()));
  const Tensor at = checked_index("scatter_add", x, d, index);
  Tensor out = empty(x.shape(), x.dtype(), x.device());
  {
    NoGrad off;
    copy_(out, x);
  }
  Gather g = call(out, source, at, d);
  std::swap(g.out_stride, g.in_stride);
  g.out = out.data(), g.in = source.data();
  g.add = true;
  x.device().scatter(g);
  if (wants_grad(x, source)) {
    static const NodeType type{
        "scatter_add", [](Node& node, const Tensor& grad, Tensor* dx) {
          if (node.wants(0)) dx[0] = grad;
          if (node.wants(1)) {
            const Tensor at = node.get(0);
            Tensor part = gather(grad, int64_t(node.number[0]), at);
            const Shape full = node.shape(1);
            if (!(part.shape() ==
                  full)) {  // the source was larger than the index: the rest took no part
              Tensor whole = zeros(full, part.dtype(), part.device()), corner = whole;
              for (int k = 0; k < full.size(); ++k) corner = slice(corner, k, 0, at.size(k));
              assign(whole, corner, part);
              part = whole;
            }
            dx[1] = part;
          }
        }};
    Node& node = record(type, out, {&x, &source});
    node.save(0, at, Node::kOther);
    node.save_shape(1, source);
    node.number[0] = d;
  }
  return out;
}

}  // namespace mt
