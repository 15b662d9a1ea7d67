// shape.cpp -- the rules that combine sizes and strides
#include "engine/core/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace mt {

void Shape::too_many(int n) { fail("a tensor has at most {} dimensions, not {}", kMaxDims, n); }

void Shape::insert(int at, int64_t size) {
  push(0);
  for (int i = n_ - 1; i > at; --i) v_[i] = v_[i - 1];
  v_[at] = size;
}

void Shape::erase(int at) {
  for (int i = at; i + 1 < n_; ++i) v_[i] = v_[i + 1];
  --n_;
}

std::string to_string(const Shape& shape) {
  return fmt::format("({})", fmt::join(shape.begin(), shape.end(), " x "));
}

int64_t checked_count(const char* operation, const Shape& shape) {
  int64_t n = 1;
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0) fail("{}: size {} is negative in {}", operation, size, shape);
    empty |= size == 0;
  }
  for (int64_t size : shape)  // sizes next to a 0 define strides, which must not overflow either
    if (size > 0 && (__builtin_mul_overflow(n, size, &n) || n > (int64_t(1) << 46)))
      fail("{}: {} has more elements than memory can hold", operation, shape);
  return empty ? 0 : n;
}

Shape contiguous_strides(const Shape& shape) {
  Shape stride = shape;
  int64_t n = 1;
  for (int d = shape.size() - 1; d >= 0; --d) {
    stride[d] = n;
    n *= shape[d] > 0 ? shape[d] : 1;
  }
  return stride;
}

Shape broadcast(const char* operation, const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape out = longer;
  const int skip = longer.size() - shorter.size();
  for (int d = 0; d < shorter.size(); ++d) {
    int64_t& size = out[skip + d];
    if (size == shorter[d] || shorter[d] == 1) continue;
    if (size != 1)
      fail(
          "{}: shapes {} and {} do not broadcast: sizes {} and {} in dimension {} differ and "
          "neither is 1{}",
          operation, a, b, a[a.size() - shorter.size() + d], b[b.size() - shorter.size() + d],
          skip + d + 1,
          std::string_view(operation) == "mul" && a.size() == 2 && b.size() == 2 && a[1] == b[0]
              ? "; the matrix product is x:matmul(y)"
              : "");
    size = shorter[d];
  }
  return out;
}

Shape infer(const char* operation, int64_t elements, Shape wanted, const Shape& from) {
  int unknown = -1;
  int64_t known = 1;
  const Shape given = wanted;
  for (int d = 0; d < wanted.size(); ++d) {
    if (wanted[d] == -1) {
      if (unknown >= 0) fail("{}: only one size can be -1, in {}", operation, given);
      unknown = d;
    } else if (wanted[d] < 0) {
      fail("{}: size {} is negative in {}", operation, wanted[d], given);
    } else if (__builtin_mul_overflow(known, wanted[d], &known)) {
      fail("{}: {} has more elements than memory can hold", operation, given);
    }
  }
  if (unknown >= 0 && known > 0 && elements % known == 0) {
    wanted[unknown] = elements / known;
    known = elements;
  } else if (unknown >= 0 && known == 0) {
    fail("{}: -1 cannot be inferred where another size is 0, in {}", operation, given);
  }
  if (known != elements)
    fail("{}: {} has {} elements, {} cannot hold exactly these", operation, from, elements, given);
  return wanted;
}

int wrap_dim(const char* operation, int64_t dim, int rank, bool is_result) {
  const int64_t range = rank > 0 ? rank : 1;
  if (dim < -range || dim >= range)
    fail("{}: dimension {} is out of range; {}", operation, dim < 0 ? dim : dim + 1,
         rank == 0 ? "the tensor is 0-d"
                   : fmt::format("the {} has {} (1..{}, or -1 for the last)",
                                 is_result ? "result" : "tensor", rank, range));
  return int(dim < 0 ? dim + range : dim);
}

Shape wrap_dims(const char* operation, const Shape& dims, int rank) {
  Shape out = dims;
  unsigned seen = 0;
  for (int i = 0; i < dims.size(); ++i) {
    const int d = wrap_dim(operation, dims[i], rank);
    if (seen >> d & 1) fail("{}: dimension {} is named twice", operation, d + 1);
    seen |= 1u << d;
    out[i] = d;
  }
  return out;
}

}  // namespace mt

fmt::appender fmt::formatter<mt::Shape>::format(const mt::Shape& shape,
                                                fmt::format_context& to) const {
  const std::string text = mt::to_string(shape);
  return std::copy(text.begin(), text.end(), to.out());
}
