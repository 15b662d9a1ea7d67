// ops.h -- all tensor functions: the elementwise ones here, the others in the headers it includes
//
// Dimensions and positions are 0-based; -1 is the last. Every function throws mt::Error for invalid
// arguments.
#pragma once
#include <array>
#include <string>

#include "engine/autograd/inplace.h"
#include "engine/ops/common.h"
#include "engine/ops/conv.h"
#include "engine/ops/create.h"
#include "engine/ops/gather_scatter.h"
#include "engine/ops/loss.h"
#include "engine/ops/matmul.h"
#include "engine/ops/neural.h"
#include "engine/ops/random.h"
#include "engine/ops/rearrange.h"
#include "engine/ops/reduce.h"
#include "engine/ops/sort.h"
#include "engine/ops/statistics.h"
#include "engine/ops/views.h"
#include "kernels/table.h"

namespace mt {

// ---- elementwise (elementwise.cpp): the operations of kernels/ops.h, mt::relu(x), mt::add(x, y) -

/// The description of an elementwise operation for the engine and the bindings.
struct OpRow {
  const op::Info* info;
  int inputs, params;
  bool answers_bool, mask_first, differentiable;
  unsigned flat;  // if differentiable: the inputs without a derivative, as bits
};
constexpr int kOps = op::Elementwise::size;
/// A table with a row for each entry of a list; `row_of` creates the rows.
template <class... Op, class F> constexpr auto table_of(op::List<Op...>, const F& row_of) {
  return std::array{row_of(Op())...};
}
const OpRow& op_row(int op);
/// The operation with this name, or -1.
int op_named(std::string_view name);
/// The dtype that an operation computes in.
Dtype computing_dtype(const OpRow& row, const Tensor* const* inputs, const double* params);

/// Applies operation `op` to its inputs, with broadcasting and promotion.
Tensor elementwise(int op, const Tensor* const* inputs, const double* params = nullptr);
/// The in-place form: writes the result to the first input, which keeps its dtype and shape.
const Tensor& elementwise_(int op, const Tensor* const* inputs, const double* params = nullptr);

template <class Op, class... More> Tensor apply(Op, const Tensor& x, const More&... more) {
  static_assert(1 + sizeof...(More) == op::inputs<Op> + op::count_params(Op::info),
                "wrong number of arguments");
  const Tensor given[] = {x, more...};
  const Tensor* inputs[op::inputs<Op>];
  double params[op::kMaxParams] = {};
  for (int i = 0; i < op::inputs<Op>; ++i) inputs[i] = &given[i];
  for (int i = op::inputs<Op>; i < int(1 + sizeof...(More)); ++i)
    params[i - op::inputs<Op>] = given[i].item();
  return elementwise(op::id<Op>, inputs, params);
}
template <class Op> Tensor apply(Op, const Tensor& x) {
  const Tensor* inputs[] = {&x};
  return elementwise(op::id<Op>, inputs);
}
template <class Op>
Tensor apply(Op, const Tensor& x, const Tensor& y) requires(op::inputs<Op> == 2) {
  const Tensor* inputs[] = {&x, &y};
  return elementwise(op::id<Op>, inputs);
}

using namespace op::functions;  // mt::relu(x) and similar functions

inline Tensor operator+(const Tensor& a, const Tensor& b) { return op::add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return op::sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return op::mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return op::div(a, b); }
inline Tensor operator-(const Tensor& a) { return op::neg(a); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return op::lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return op::le(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return op::gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return op::ge(a, b); }
inline Tensor operator==(const Tensor& a, const Tensor& b) { return op::eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return op::ne(a, b); }
/// The function that formulas (kernels/ops.h) call for a selection.
inline Tensor select(const Tensor& mask, const Tensor& yes, const Tensor& no) {
  return op::where(mask, yes, no);
}

// In place, also into a view: `pick(x, 0, 2) *= 0.5`. The target keeps its dtype and shape.
const Tensor& operator+=(const Tensor& a, const Tensor& b);
const Tensor& operator-=(const Tensor& a, const Tensor& b);
const Tensor& operator*=(const Tensor& a, const Tensor& b);
const Tensor& operator/=(const Tensor& a, const Tensor& b);

// ---- a tensor as text (print.cpp) -------------------------------------------------------------

/// The format of printed tensors, as set by `set_printoptions`.
struct PrintOptions {
  enum class Scientific { automatic, never, always };
  int precision = 4;         // digits after the point, 0..17
  int64_t threshold = 1000;  // tensors with more elements are summarised
  int64_t edgeitems = 3;     // of a summary, at each end of a dimension
  int64_t linewidth = 80;
  Scientific scientific = Scientific::automatic;
};
/// The current options of the process; they can be modified.
PrintOptions& print_options();

/// As Lua prints it: the elements, then "[(2 x 3) float32 cpu]". Synchronises with a GPU.
std::string to_string(const Tensor&);

}  // namespace mt
