// fuse.cpp -- fused functions: elementwise operations and reductions of rows are deferred, and run as one program
#include "engine/compiler/program/fuse.h"

#include <algorithm>
#include <cmath>

#include "engine/compiler/program/apply.h"
#include "engine/core/host.h"
#include "engine/ops/reduce_common.h"

namespace mt::ir {
namespace {

Shape row_shape(Shape space) {
  space[space.size() - 1] = 1;
  return space;
}

/// The position of a shape in the space [.., n]: a value per element; one per row, [.., 1]; the same
/// without the last dimension, [..]. A squeezed operand is broadcast among rows, the others among elements.
enum class Place { elements, rows, squeezed, none };
Place place_in(const Shape& space, const Shape& s) {
  return s == space                 ? Place::elements
         : s == row_shape(space)    ? Place::rows
         : s == without_last(space) ? Place::squeezed
                                    : Place::none;
}

}  // namespace

bool fuses_rows(int reduction) {
  constexpr int kinds[] = {op::reduction_id<op::Sum>, op::reduction_id<op::Amax>,
                           op::reduction_id<op::Amin>, op::reduction_id<op::LogSumExp>,
                           op::reduction_id<op::Var>};
  return std::find(std::begin(kinds), std::end(kinds), reduction) != std::end(kinds);
}

namespace {

void note(const std::string& why) {
  const char* const name = host.function ? host.function() : nullptr;
  const std::string place = host.where ? host.where() + ": " : "";
  std::string line = fmt::format("{}{}: {}", place, name ? name : "an operation", why);
  std::vector<std::string>& all = *Fuser::notes;
  if (std::ranges::find(all, line) == all.end()) all.push_back(std::move(line));
}

}  // namespace

class Fusion : public std::enable_shared_from_this<Fusion> {
 public:
  Fusion(const Shape& s, Dtype d, const Device& on, bool recorded)
      : space(s),
        dtype(d),
        device(on),
        recording(recorded) {}

  const Shape space;
  const Dtype dtype;
  const Device& device;
  const bool recording;

  struct Value : Deferred {
    Value(std::shared_ptr<Fusion> f, int v) : fusion(std::move(f)), id(v) {}
    void evaluate(const Tensor& x) override {
      if (Fuser::notes) note("it reads a result that waits, which is computed first");
      fusion->compute({x});
    }
    const std::shared_ptr<Fusion> fusion;
    const int id;
  };
  /// The value of this space for which x is deferred, or null.
  const Value* value_of(const Tensor& x) const {
    const auto* v = dynamic_cast<const Value*>(x.impl()->deferred);
    return v && v->fusion.get() == this ? v : nullptr;
  }

  /// Whether another operation can be added.
  bool has_room() const {
    return builder.count() < 16000 && inputs.size() + 3 <= kMaxProgramInputs;
  }
  /// Whether x can be an operand of such results. A value of this space must have their position.
  bool takes(const Tensor& x, Place result) const {
    return !value_of(x) ||
           (place_in(space, x.shape()) == Place::squeezed) == (result == Place::squeezed);
  }

  /// A tensor or a number as an operand of such results. If deferred elsewhere, it is computed.
  int operand(const Tensor& x, Place result, bool literal) {
    if (x.impl()->number) return number(x.at(0), literal);
    if (const Value* v = value_of(x)) return v->id;
    mt::evaluate(x);
    const int64_t row = space[space.size() - 1];
    const bool same_in_rows =
        row <= kLongestRow && (x.numel() == 1 || (x.size(x.dim() - 1) == 1 && row > 1));
    const Place place = result == Place::elements && same_in_rows ? Place::rows : result;
    size_t k = 0;
    while (k < inputs.size() && (inputs[k].x.impl() != x.impl() || inputs[k].place != place)) ++k;
    if (k == inputs.size()) inputs.push_back({x, x.impl()->storage->version, place});
    return builder.input(int(k), place != Place::elements);
  }
  int number(double x, bool literal) {
    if (literal || (x == std::floor(x) && std::fabs(x) <= 64)) return builder.constant(x);
    const auto at = std::ranges::find(numbers, x);
    if (at != numbers.end()) return builder.number(int(at - numbers.begin()));
    numbers.push_back(x);
    return builder.number(int(numbers.size()) - 1);
  }

  Tensor result(int id, const Shape& shape, bool wants) {
    const bool is_bool = builder.is_bool(id);
    return deferred_tensor(shape, is_bool ? Dtype::b8 : dtype, wants && recording && !is_bool,
                           std::make_unique<Value>(shared_from_this(), id));
  }

  void compute(const std::vector<Tensor>& list);

  Builder builder;

 private:
  struct Input {
    Tensor x;
    uint32_t version;
    Place place;
  };
  Tensor prepared(const Input&) const;
  std::vector<Input> inputs;
  std::vector<double> numbers;
};

/// An input in the space's shape, or in that with one element per row.
Tensor Fusion::prepared(const Input& in) const {
  if (in.x.impl()->storage->version != in.version)
    fail("fuse: a tensor {} was changed in place after the function read it; clone() it first",
         to_string(in.x.shape()));
  const Shape shape = in.place == Place::elements ? space
                      : in.place == Place::rows   ? row_shape(space)
                                                  : without_last(space);
  const Tensor x = in.x.shape() == shape ? in.x : expand(in.x, shape);
  return in.place == Place::squeezed ? unsqueeze(x, -1) : x;
}

void Fusion::compute(const std::vector<Tensor>& list) {
  const EagerScope now;
  const NoGrad scope(recording);
  std::vector<int> ids, place, used, read;
  for (const Tensor& x : list) {
    const int id = value_of(x)->id;
    const auto at = std::ranges::find(ids, id);
    place.push_back(int(at - ids.begin()));
    if (at == ids.end()) ids.push_back(id);
  }
  const Expression& e = builder.finish(ids, used, &read);
  std::vector<Tensor> operands;
  for (int k : used) operands.push_back(prepared(inputs[k]));
  std::vector<double> given;
  for (int k : read) given.push_back(numbers[k]);
  const std::vector<Tensor> results =
      apply_in(e, "fuse", operands, dtype, space, device, given.data());
  for (size_t k = 0; k < list.size(); ++k) {
    if (!list[k].impl()->deferred) continue;
    Tensor y = results[place[k]];
    if (y.numel() == list[k].numel())
      y = y.shape() == list[k].shape() ? y : reshape(y, list[k].shape());
    else y = contiguous(expand(y, list[k].shape()));
    set_evaluated(list[k], y);
  }
}

// ---- deferred tensors -----------------------------------------------------------------------------

namespace {

/// The positions of a reduction, deferred.
struct Positions : Deferred {
  Positions(const Reducing& h, Tensor t) : how(h), x(std::move(t)) {}
  void evaluate(const Tensor& y) override {
    const EagerScope now;
    const NoGrad off;
    mt::evaluate(x);
    const int64_t d = std::countr_zero(how.mask);
    const bool largest = how.op == op::reduction_id<op::Argmax>;
    Tensor index = (largest ? max_along(x, d, how.keepdim) : min_along(x, d, how.keepdim)).index;
    set_evaluated(y, shift == 0 ? index : index + Tensor(shift));
  }
  bool add(double n) override {
    shift += n;
    return true;
  }
  const Reducing how;
  const Tensor x;
  double shift = 0;
};

}  // namespace

Fuser::Fuser() : before_(thread_state.lazy) {
  if (!thread_state.debugging && !thread_state.autocast.on()) thread_state.lazy = this;
}
Fuser::~Fuser() { thread_state.lazy = before_; }

namespace {

/// The device of a tensor, even if it is deferred.
const Device* device_of(const Tensor& x) {
  if (!x.impl()->deferred) return &x.device();
  const auto* v = dynamic_cast<const Fusion::Value*>(x.impl()->deferred);
  return v ? &v->fusion->device : nullptr;
}

/// Notes why an operation is not deferred.
template <class... A> bool refused(fmt::format_string<A...> why, A&&... values) {
  if (Fuser::notes) note(fmt::vformat(why, fmt::make_format_args(values...)));
  return false;
}
bool not_float(Dtype d) { return refused("floats are fused, not {}", d); }
bool too_few(int64_t count, int64_t least) {
  return refused("{} elements, fewer than {}", count, least);
}

}  // namespace

bool Fuser::can_wait(const OpRow& row, const Tensor* const* inputs, IterationSpace& at) const {
  if (row.info->accepts == op::Accepts::integer) return refused("it is of integers");
  bool several = false, waits = false;
  for (int k = 0; k < row.inputs; ++k) {
    const TensorImpl& x = *inputs[k]->impl();
    at.wants |= inputs[k]->requires_grad();
    several |= x.ndim > 0;
    waits |= x.deferred != nullptr;
    if (x.number) continue;
    const bool condition = row.mask_first && k == 0 && !is_float(x.dtype);
    if (!is_float(x.dtype) && !condition) return not_float(x.dtype);
    if (condition && !(x.dtype == Dtype::b8 && x.deferred))
      return refused("its condition was computed outside");
    const Device* const device = device_of(*inputs[k]);
    if (at.device && device != at.device) return refused("its operands are on two devices");
    at.device = device;
    if (condition) continue;
    if (at.dtype != Dtype::none && at.dtype != x.dtype)
      return refused("{} meets {}; convert one before", at.dtype, x.dtype);
    if (x.ndim == 0 && x.deferred) return refused("it reads a result that has no dimensions");
    at.dtype = x.dtype;
  }
  if (at.dtype == Dtype::none || !several) return refused("it has no dimensions");
  for (int k = 1; k < row.inputs; ++k)
    if (inputs[k]->dim() > 0) at.result = broadcast(row.info->name, at.result, inputs[k]->shape());
  const int64_t count = product(at.result);
  if (count == 0 || (!waits && count < min_elements_)) return too_few(count, min_elements_);
  if (at.wants && grad_enabled() && (row.flat || !row.differentiable) && !row.answers_bool)
    return refused("its gradient is not fused");
  if (!waits && at.result[at.result.size() - 1] == 1)
    return refused("it has one element in each row");
  return true;
}

bool Fuser::can_wait(const Reducing& how, const Tensor& x, IterationSpace& at) {
  const int last = x.dim() - 1;
  const int64_t count = x.numel();
  if (count < min_rows_) min_elements_ = min_rows_;
  if (!fuses_rows(how.op))
    return refused(
        "of reductions sum, mean, amax, amin, logsumexp, var and std are fused, and max and min "
        "without a gradient");
  if (last < 0 || how.mask != 1u << last)
    return refused("it is not along the last dimension alone");
  if (!is_float(x.dtype())) return not_float(x.dtype());
  if (count == 0 || count < min_rows_) return too_few(count, min_rows_);
  if (x.size(last) == 1 || x.size(last) > kLongestRow)
    return refused("rows of {} elements; 2 to {} are fused", x.size(last), kLongestRow);
  at.dtype = x.dtype(), at.device = device_of(x), at.wants = x.requires_grad();
  return true;
}

/// The space of the operands, if one of them is deferred in one; otherwise a new one.
std::shared_ptr<Fusion> Fuser::fusion_of(const IterationSpace& at, const Tensor* const* inputs,
                                         int n) {
  for (const std::shared_ptr<Fusion>& f : open_) {
    bool here = false,
         fits = f->dtype == at.dtype && &f->device == at.device && f->recording == grad_enabled();
    const Place place = place_in(f->space, at.result);
    fits = fits && f->has_room() && place != Place::none;
    for (int k = 0; k < n && fits; ++k) {
      here |= f->value_of(*inputs[k]) != nullptr;
      fits &= f->takes(*inputs[k], place);
    }
    if (fits && (here || (place == Place::elements && f->builder.count() < 2000))) return f;
  }
  open_.push_back(std::make_shared<Fusion>(at.result, at.dtype, *at.device, grad_enabled()));
  return open_.back();
}

namespace {

/// Computes the operands of an operation that is not deferred.
void evaluate_operands(const Tensor* const* inputs, int n) {
  const SaveAndRestore said(Fuser::notes, nullptr);
  for (int k = 0; k < n; ++k) evaluate(*inputs[k]);
}

}  // namespace

Tensor Fuser::elementwise(int op, const Tensor* const* inputs, const double* params) {
  const OpRow& row = op_row(op);
  IterationSpace at{inputs[0]->shape()};
  if (!can_wait(row, inputs, at)) {
    evaluate_operands(inputs, row.inputs);
    return {};
  }
  const std::shared_ptr<Fusion> f = fusion_of(at, inputs, row.inputs);
  const Place place = place_in(f->space, at.result);
  int in[3] = {-1, -1, -1};
  for (int k = 0; k < row.inputs; ++k) in[k] = f->operand(*inputs[k], place, op == op::id<op::Pow>);
  return wait(f->result(f->builder.add(op, in, params), at.result, at.wants));
}

Tensor Fuser::reduce(const Reducing& how, const Tensor& x) {
  const Tensor* const inputs[] = {&x};
  IterationSpace at{x.shape()};
  int id = -1;
  std::shared_ptr<Fusion> f;
  if (can_wait(how, x, at)) {
    f = fusion_of(at, inputs, 1);
    if (f->space == at.result)
      id = f->builder.reduce(how.op, f->operand(x, Place::elements, false), how.param[0]);
    if (id < 0) refused("its rows are results of a fused reduction");
  }
  if (id < 0) {
    evaluate_operands(inputs, 1);
    return {};
  }
  const Shape& shape = at.result;
  return wait(f->result(id, how.keepdim ? row_shape(shape) : without_last(shape), at.wants));
}

Tensor Fuser::positions(const Reducing& how, const Tensor& x) {
  const Shape shape = x.shape();
  return wait(deferred_tensor(how.keepdim ? row_shape(shape) : without_last(shape), Dtype::i64,
                              false, std::make_unique<Positions>(how, x)));
}

Tensor Fuser::wait(Tensor x) {
  waiting_.push_back(x);
  return x;
}

void Fuser::evaluate_all() {
  std::vector<Tensor> alive;
  for (const Tensor& x : std::exchange(waiting_, {}))
    if (!x.unique()) alive.push_back(x);
  if (notes && !alive.empty())
    note("it may change something in place; what waits is computed first");
  open_.clear();
  evaluate_together(alive);
}

void Fuser::evaluate_together(const std::vector<Tensor>& list) {
  std::unordered_map<Fusion*, std::vector<Tensor>> by_space;
  for (const Tensor& x : list)
    if (const auto* v = dynamic_cast<const Fusion::Value*>(x.impl()->deferred))
      by_space[v->fusion.get()].push_back(x);
  for (const auto& [f, of] : by_space) {
    const std::shared_ptr<Fusion> kept = f->shared_from_this();
    for (size_t k = 0; k < of.size(); k += kMaxProgramOutputs) {
      const size_t end = std::min(of.size(), k + kMaxProgramOutputs);
      kept->compute({of.begin() + ptrdiff_t(k), of.begin() + ptrdiff_t(end)});
    }
  }
  const SaveAndRestore nowhere(notes, nullptr);
  for (const Tensor& x : list) evaluate(x);
}

}  // namespace mt::ir
