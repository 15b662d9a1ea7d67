// shape.h -- sizes and strides as small values, and the rules that combine them
#pragma once
#include <initializer_list>
#include <string>

#include "engine/core/error.h"
#include "kernels/base.h"

namespace mt {

/// Up to kMaxDims sizes (or strides), without heap memory.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) : Shape(sizes.begin(), int(sizes.size())) {}
  Shape(const int64_t* sizes, int n) : n_(n) {
    if (n > kMaxDims) too_many(n);
    for (int i = 0; i < n; ++i) v_[i] = sizes[i];
  }
  int size() const { return n_; }
  int64_t& operator[](int i) { return v_[i]; }
  int64_t operator[](int i) const { return v_[i]; }
  const int64_t* begin() const { return v_; }
  const int64_t* end() const { return v_ + n_; }
  const int64_t* data() const { return v_; }
  void push(int64_t size) {
    if (n_ == kMaxDims) too_many(n_ + 1);
    v_[n_++] = size;
  }
  /// The first n sizes, and the sizes from index n on.
  Shape first(int n) const { return Shape(v_, n); }
  Shape from(int n) const { return Shape(v_ + n, n_ - n); }
  void insert(int at, int64_t size);
  void erase(int at);
  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.n_ != b.n_) return false;
    for (int i = 0; i < a.n_; ++i)
      if (a.v_[i] != b.v_[i]) return false;
    return true;
  }

 private:
  [[noreturn]] static void too_many(int n);
  int n_ = 0;
  int64_t v_[kMaxDims];
};

/// An index in a dimension or among classes, 0-based; if it may be negative, -1 is the last. Lua
/// counts from 1, and the bindings convert arguments of this type.
struct Position {
  int64_t at;
  constexpr Position(int64_t position) : at(position) {}  // NOLINT: implicit from a number
  constexpr operator int64_t() const { return at; }
  /// The index among n, with negative ones counted from the end.
  constexpr int64_t among(int64_t n) const { return at < 0 ? at + n : at; }
};
/// A dimension, in the same way.
struct Dim : Position {
  using Position::Position;
};
/// Several dimensions.
struct Dims : Shape {
  using Shape::Shape;
  Dims(const Shape& dims) : Shape(dims) {}  // NOLINT: implicit from a list of numbers
};

/// `(2 x 3)`; `()` for 0-d. Messages can format a Shape directly.
std::string to_string(const Shape&);

/// The concatenation of the sizes.
inline Shape joined(Shape a, const Shape& b) {
  for (int64_t size : b) a.push(size);
  return a;
}
/// The number of elements, for sizes that were checked; 1 for no sizes.
inline int64_t product(const Shape& shape) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return n;
}
/// The number of elements. Throws if a size is negative or the product overflows.
int64_t checked_count(const char* operation, const Shape&);
/// Row-major strides.
Shape contiguous_strides(const Shape&);
/// The shape to which both broadcast; the error names both shapes and the dimension that differs.
Shape broadcast(const char* operation, const Shape&, const Shape&);
/// Resolves one -1 in `wanted` so that it holds `elements`.
Shape infer(const char* operation, int64_t elements, Shape wanted, const Shape& from);
/// A dimension from -rank .. rank-1 as 0 .. rank-1. Messages count from 1, as Lua does.
int wrap_dim(const char* operation, int64_t dim, int rank, bool is_result = false);
/// Several dimensions, each at most once.
Shape wrap_dims(const char* operation, const Shape& dims, int rank);

}  // namespace mt

template <> struct fmt::formatter<mt::Shape> : mt::PlainFormat {
  fmt::appender format(const mt::Shape&, fmt::format_context&) const;
};
template <> struct fmt::formatter<mt::Dims> : fmt::formatter<mt::Shape> {};
