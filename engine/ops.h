// ops.h -- the functions of tensors: each checks shapes, calls a verb, records its gradient
//
// Dimensions and positions are 0-based here; -1 is the last. Every function throws mt::Error on bad
// input.
#pragma once
#include <optional>
#include <vector>

#include "engine/tensor.h"
#include "kernels/table.h"

namespace mt {

// ---- elementwise (elementwise.cpp): every operation of kernels/ops.h is a function `mt::relu(x)`, `mt::add(x, y)`

/// What the engine and the bindings know about an elementwise operation.
struct OpRow {
  const op::Info* info;
  int inputs, params;
  bool answers_bool, mask_first, differentiable;
};
constexpr int kOps = op::Elementwise::size;
const OpRow& op_row(int op);
/// The operation of that name, or -1.
int op_named(std::string_view name);

/// Applies operation `op` to its inputs, with broadcasting and promotion.
Tensor elementwise(int op, const Tensor* const* inputs, const double* params = nullptr);
/// The same, written into the first input, which keeps its dtype and shape.
const Tensor& elementwise_(int op, const Tensor* const* inputs, const double* params = nullptr);

template <class Op, class... More> Tensor apply(Op, const Tensor& x, const More&... more) {
  static_assert(1 + sizeof...(More) == op::inputs<Op> + op::count_params(Op::info),
                "wrong number of arguments");
  const Tensor all[] = {x, Tensor(more)...};
  const Tensor* inputs[op::inputs<Op>];
  double params[op::kMaxParams] = {};
  for (int i = 0; i < op::inputs<Op>; ++i) inputs[i] = &all[i];
  for (int i = op::inputs<Op>; i < int(1 + sizeof...(More)); ++i)
    params[i - op::inputs<Op>] = all[i].item();
  return elementwise(op::id<Op>, inputs, params);
}
template <class Op> Tensor apply(Op, const Tensor& x) {
  const Tensor* inputs[] = {&x};
  return elementwise(op::id<Op>, inputs);
}
template <class Op> Tensor apply(Op, const Tensor& x, const Tensor& y) {
  const Tensor* inputs[] = {&x, &y};
  return elementwise(op::id<Op>, inputs);
}

using namespace op;  // mt::relu(x) and its kin

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
/// What a formula's `select` is for tensors.
inline Tensor select(const Tensor& mask, const Tensor& yes, const Tensor& no) {
  return op::where(mask, yes, no);
}

/// a += b in place.
const Tensor& add_(const Tensor& a, const Tensor& b);

// ---- making (create.cpp) ------------------------------------------------------------------------

Tensor full(const Shape&, double value, Dtype = default_dtype(), const Device& = cpu_device());
Tensor zeros(const Shape&, Dtype = default_dtype(), const Device& = cpu_device());
Tensor ones(const Shape&, Dtype = default_dtype(), const Device& = cpu_device());
Tensor zeros_like(const Tensor&);
Tensor eye(int64_t rows, int64_t columns, Dtype = default_dtype(), const Device& = cpu_device());
/// first, first + step, .. up to last inclusive.
Tensor range(double first, double last, double step, Dtype, const Device& = cpu_device());
Tensor linspace(double first, double last, int64_t n, Dtype = default_dtype(),
                const Device& = cpu_device());

// ---- copies and conversions (create.cpp) --------------------------------------------------------

Tensor clone(const Tensor&);
Tensor contiguous(const Tensor&);
Tensor to(const Tensor&, Dtype);
Tensor to(const Tensor&, const Device&);
/// Writes `source`, broadcast and converted, into `target`; `operation` is who asks, for messages.
const Tensor& write_(const char* operation, const Tensor& target, const Tensor& source);
/// The copy verb alone, for shapes that agree: no checks, no graph.
void copy_elements(const Tensor& out, const Tensor& in);
/// Refuses what must not be changed in place: a leaf that requires a gradient, and memory that lies
/// upon itself.
void check_writable(const char* operation, const Tensor& target);
const Tensor& copy_(const Tensor& target, const Tensor& source);
const Tensor& fill_(const Tensor& target, double value);

// ---- movement (movement.cpp): views, except where reshape and cat must copy ---------------------

Tensor view(const Tensor&, const Shape&);
Tensor reshape(const Tensor&, const Shape&);
Tensor flatten(const Tensor&, int64_t first = 0, int64_t last = -1);
Tensor permute(const Tensor&, const Shape& dims);
Tensor transpose(const Tensor&, int64_t a, int64_t b);
Tensor t(const Tensor&);
/// -1 keeps a size.
Tensor expand(const Tensor&, const Shape&);
Tensor squeeze(const Tensor&);
Tensor squeeze(const Tensor&, int64_t dim);
Tensor unsqueeze(const Tensor&, int64_t dim);
/// Elements first, first + step, .. (n of them) of one dimension.
Tensor slice(const Tensor&, int64_t dim, int64_t first, int64_t n, int64_t step = 1);
/// One position of a dimension, which goes away.
Tensor pick(const Tensor&, int64_t dim, int64_t index);
Tensor cat(const std::vector<Tensor>&, int64_t dim = 0);
Tensor stack(const std::vector<Tensor>&, int64_t dim = 0);

// ---- reductions (reduce.cpp): over `dims`, or over all when it is empty -------------------------

Tensor sum(const Tensor&, const Shape& dims = {}, bool keepdim = false);
Tensor mean(const Tensor&, const Shape& dims = {}, bool keepdim = false);
Tensor prod(const Tensor&, const Shape& dims = {}, bool keepdim = false);
Tensor amax(const Tensor&, const Shape& dims = {}, bool keepdim = false);
Tensor amin(const Tensor&, const Shape& dims = {}, bool keepdim = false);
Tensor all(const Tensor&, const Shape& dims = {}, bool keepdim = false);
Tensor any(const Tensor&, const Shape& dims = {}, bool keepdim = false);
/// Positions of the first largest or smallest; without `dim` counted through the whole tensor.
Tensor argmax(const Tensor&, std::optional<int64_t> dim = {}, bool keepdim = false);
Tensor argmin(const Tensor&, std::optional<int64_t> dim = {}, bool keepdim = false);
/// Sums what broadcasting repeated, so that the result has this shape.
Tensor sum_to(const Tensor&, const Shape&);

// ---- products (matmul.cpp) ----------------------------------------------------------------------

/// (.., m, k) x (.., k, n), batches broadcast; vectors as in torch.matmul.
Tensor matmul(const Tensor&, const Tensor&);
/// x . weight' + bias with weight (out, in), bias (out) or undefined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

// ---- positions (index.cpp) ----------------------------------------------------------------------

/// out[.., i, ..] = x[.., index[.., i, ..], ..]; index is an integer tensor of x's rank.
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);
/// Adds source into a copy of x at the positions that gather would read.
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
/// Whole slices at the positions of a 1-d index.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);
/// x[region] = value, recorded: `region` is a view of x made by slice, pick and unsqueeze; the
/// value broadcasts to it.
void assign(const Tensor& x, const Tensor& region, const Tensor& value);
/// How errors count positions: 1 in Lua, 0 for C++ users.
extern int index_base;

// ---- losses (loss.cpp): compositions ------------------------------------------------------------

enum class Reduction { none, mean, sum };
Tensor softmax(const Tensor&, int64_t dim);
Tensor log_softmax(const Tensor&, int64_t dim);
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean);
Tensor binary_cross_entropy(const Tensor& p, const Tensor& target, Reduction = Reduction::mean);
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        Reduction = Reduction::mean);
/// Rows of logits against class labels, which count from `index_base`; targets equal to
/// `ignore_index` do not count.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, int64_t ignore_index = -100,
                     Reduction = Reduction::mean);

// ---- random numbers (random.cpp) ----------------------------------------------------------------

void manual_seed(uint64_t seed);
Tensor rand(const Shape&, Dtype = default_dtype(), const Device& = cpu_device());
Tensor randn(const Shape&, Dtype = default_dtype(), const Device& = cpu_device());
/// Whole numbers from low to high, both included.
Tensor randint(int64_t low, int64_t high, const Shape&, Dtype = Dtype::i64,
               const Device& = cpu_device());
/// A random order of 0 .. n-1.
Tensor randperm(int64_t n, const Device& = cpu_device());

// ---- optimizer steps (optim.cpp) ----------------------------------------------------------------

struct SgdOptions {
  double lr = 0.01, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
/// One step for every parameter that has a gradient; `velocity` (one entry each) is filled when
/// momentum asks for it.
void sgd_step(const std::vector<Tensor>& parameters, std::vector<Tensor>& velocity,
              const SgdOptions&);
struct AdamOptions {
  double lr = 0.001, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;
  int64_t step = 1;
};
void adam_step(const std::vector<Tensor>& parameters, std::vector<Tensor>& mean,
               std::vector<Tensor>& square, const AdamOptions&);

// ---- text (print.cpp) ---------------------------------------------------------------------------

std::string to_string(const Tensor&);

}  // namespace mt
