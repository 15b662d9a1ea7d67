// fuse.cpp -- fused functions: elementwise operations and reductions of rows wait, and run as one program
#include "engine/compile/fuse.h"

#include <algorithm>
#include <cmath>

#include "engine/compile/apply.h"
#include "engine/core/host.h"
#include "engine/ops/ops.h"
#include "engine/ops/reduce_common.h"

namespace mt::ir {
namespace {

Shape row_shape(Shape space) {
  space[space.size() - 1] = 1;
  return space;
}

/// Where a shape lies in the space [.., n]: a value for each element; one for each row, [.., 1]; the same
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
  if (std::find(all.begin(), all.end(), line) == all.end()) all.push_back(std::move(line));
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
  /// The value that x waits for here, or null.
  const Value* value_of(const Tensor& x) const {
    const auto* v = dynamic_cast<const Value*>(x.impl()->deferred);
    return v && v->fusion.get() == this ? v : nullptr;
  }

  /// Whether another operation can be added.
  bool has_room() const {
    return builder.count() < 16000 && inputs.size() + 3 <= size_t(kMaxProgramInputs);
  }
  /// Whether x can be an operand of results there. A value of this space must lie as they do.
  bool takes(const Tensor& x, Place result) const {
    return !value_of(x) ||
           (place_in(space, x.shape()) == Place::squeezed) == (result == Place::squeezed);
  }

  /// A tensor or a number as an operand of results there. One that waits elsewhere is computed.
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
    const auto at = std::find(numbers.begin(), numbers.end(), x);
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

/// An input in the space's shape, or in that of one element a row.
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
  const Undeferred now;
  const NoGrad scope(recording);
  std::vector<int> ids, place, used, read;
  for (const Tensor& x : list) {
    const int id = value_of(x)->id;
    const auto at = std::find(ids.begin(), ids.end(), id);
    place.push_back(int(at - ids.begin()));
    if (at == ids.end()) ids.push_back(id);
  }
  const Expression& e = builder.finish(ids, used, &read);
  std::vector<Tensor> operands;
  for (int k : used) operands.push_back(prepared(inputs[size_t(k)]));
  std::vector<double> given;
  for (int k : read) given.push_back(numbers[size_t(k)]);
  const std::vector<Tensor> results =
      apply_in(e, "fuse", operands, dtype, space, device, given.data());
  for (size_t k = 0; k < list.size(); ++k) {
    if (!list[k].impl()->deferred) continue;
    Tensor y = results[size_t(place[k])];
    if (y.numel() == list[k].numel())
      y = y.shape() == list[k].shape() ? y : reshape(y, list[k].shape());
    else y = contiguous(expand(y, list[k].shape()));
    set_evaluated(list[k], y);
  }
}

// ---- what waits -----------------------------------------------------------------------------------

namespace {

/// The positions of a reduction.
struct Positions : Deferred {
  Positions(const Reducing& h, Tensor t) : how(h), x(std::move(t)) {}
  void evaluate(const Tensor& y) override {
    const Undeferred now;
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

Fuser::Fuser() : before_(thread_state.deferral) {
  if (!thread_state.debugging && !thread_state.autocast.on()) thread_state.deferral = this;
}
Fuser::~Fuser() { thread_state.deferral = before_; }

/// The space where operands meet, if one of them waits in one; else a new one.
std::shared_ptr<Fusion> Fuser::fusion_of(const Shape& result, const Tensor* const* inputs, int n,
                                         const Meeting& at) {
  for (const std::shared_ptr<Fusion>& f : open_) {
    bool here = false,
         fits = f->dtype == at.dtype && &f->device == at.device && f->recording == grad_enabled();
    const Place place = place_in(f->space, result);
    fits = fits && f->has_room() && place != Place::none;
    for (int k = 0; k < n && fits; ++k) {
      here |= f->value_of(*inputs[k]) != nullptr;
      fits &= f->takes(*inputs[k], place);
    }
    if (fits && (here || (place == Place::elements && f->builder.count() < 2000))) return f;
  }
  if (result.size() == 0) return nullptr;
  open_.push_back(std::make_shared<Fusion>(result, at.dtype, *at.device, grad_enabled()));
  return open_.back();
}

namespace {

/// The device of a tensor, also of one that waits.
const Device* device_of(const Tensor& x) {
  if (!x.impl()->deferred) return &x.device();
  const auto* v = dynamic_cast<const Fusion::Value*>(x.impl()->deferred);
  return v ? &v->fusion->device : nullptr;
}

/// Where the operands of an operation meet.
Meeting meeting_of(const OpRow& row, const Tensor* const* inputs) {
  Meeting at;
  for (int k = 0; k < row.inputs; ++k) {
    const TensorImpl& x = *inputs[k]->impl();
    if (x.number) continue;
    const Device* const device = device_of(*inputs[k]);
    if (at.device && device != at.device) return {};
    at.device = device;
    if (x.dtype == Dtype::b8 && x.deferred && row.mask_first && k == 0) continue;
    if (!is_float(x.dtype) || (at.dtype != Dtype::none && at.dtype != x.dtype)) return {};
    if (x.ndim == 0 && x.deferred) return {};
    at.dtype = x.dtype;
  }
  return at;
}

/// Why an operation does not wait.
std::string why_not(const OpRow& row, const Tensor* const* inputs, int64_t count, int64_t least,
                    bool several, bool refused) {
  if (row.info->accepts == op::Accepts::integer) return "it is of integers";
  Dtype first = Dtype::none;
  for (int k = 0; k < row.inputs; ++k) {
    const TensorImpl& x = *inputs[k]->impl();
    if (x.number) continue;
    if (!is_float(x.dtype) && !(row.mask_first && k == 0))
      return fmt::format("floats are fused, not {}", x.dtype);
    if (first != Dtype::none && first != x.dtype && is_float(x.dtype) && is_float(first))
      return fmt::format("{} meets {}; convert one before", first, x.dtype);
    if (is_float(x.dtype)) first = x.dtype;
    else if (!x.deferred) return "its condition was computed outside";
  }
  if (!several) return "it has no dimensions";
  if (count < least) return fmt::format("{} elements, fewer than {}", count, least);
  return refused ? "its gradient is not fused" : "it has one element in each row";
}

std::string why_not(const Reducing& how, const Tensor& x, int64_t least) {
  const int last = x.dim() - 1;
  if (!fuses_rows(how.op))
    return "of reductions sum, mean, max, min, amax, amin, logsumexp, var and std are fused";
  if (last < 0 || how.mask != 1u << last) return "it is not along the last dimension alone";
  if (!is_float(x.dtype())) return fmt::format("floats are fused, not {}", x.dtype());
  if (x.numel() < least) return fmt::format("{} elements, fewer than {}", x.numel(), least);
  return fmt::format("rows of {} elements; 2 to {} are fused", x.size(last), kLongestRow);
}

}  // namespace

Tensor Fuser::elementwise(int op, const Tensor* const* inputs, const double* params) {
  const OpRow& row = op_row(op);
  const Meeting at =
      row.info->accepts == op::Accepts::integer ? Meeting() : meeting_of(row, inputs);
  Shape result = inputs[0]->shape();
  bool wants = false, several = false, waits = false;
  for (int k = 0; k < row.inputs && at.dtype != Dtype::none; ++k) {
    if (k > 0) result = broadcast(row.info->name, result, inputs[k]->shape());
    wants |= inputs[k]->requires_grad();
    several |= inputs[k]->dim() > 0;
    waits |= inputs[k]->impl()->deferred != nullptr;
  }
  int64_t count = 1;
  for (int64_t n : result) count *= n;
  const bool large = count > 0 && (waits || count >= least_);
  const bool refused =
      wants && grad_enabled() && (row.flat || !row.differentiable) && !row.answers_bool;
  std::shared_ptr<Fusion> f;
  if (at.dtype != Dtype::none && several && large && !refused &&
      (waits || result[result.size() - 1] > 1))
    f = fusion_of(result, inputs, row.inputs, at);
  if (!f) {
    if (notes) note(why_not(row, inputs, count, least_, several, refused));
    const Noting said(nullptr);
    for (int k = 0; k < row.inputs; ++k) evaluate(*inputs[k]);
    return {};
  }
  const Place place = place_in(f->space, result);
  int in[3] = {-1, -1, -1};
  for (int k = 0; k < row.inputs; ++k) in[k] = f->operand(*inputs[k], place, op == op::id<op::Pow>);
  return wait(f->result(f->builder.add(op, in, params), result, wants));
}

Tensor Fuser::reduce(const Reducing& how, const Tensor& x) {
  const Shape shape = x.shape();
  const int last = shape.size() - 1;
  bool taken = fuses_rows(how.op) && is_float(x.dtype()) && last >= 0 && how.mask == 1u << last;
  if (x.numel() < least_rows_) least_ = least_rows_;
  taken = taken && x.numel() > 0 && x.numel() >= least_rows_;
  taken = taken && shape[last] > 1 && shape[last] <= kLongestRow;
  const Tensor* const inputs[] = {&x};
  const std::shared_ptr<Fusion> f =
      taken ? fusion_of(shape, inputs, 1, {x.dtype(), device_of(x)}) : nullptr;
  const int id =
      f && f->space == shape
          ? f->builder.reduce(how.op, f->operand(x, Place::elements, false), how.param[0])
          : -1;
  if (id < 0) {
    if (notes) note(why_not(how, x, least_rows_));
    const Noting said(nullptr);
    evaluate(x);
    return {};
  }
  return wait(
      f->result(id, how.keepdim ? row_shape(shape) : without_last(shape), x.requires_grad()));
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
  const Noting nowhere(nullptr);
  for (const Tensor& x : list) evaluate(x);
}

}  // namespace mt::ir
