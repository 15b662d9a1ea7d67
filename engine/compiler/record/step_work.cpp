// step_work.cpp -- which calls of a recorded step or function a program can compute, and their operands
#include "engine/compiler/record/step_work.h"

#include <algorithm>
#include <map>

#include "engine/compiler/record/step_fuse.h"
#include "engine/core/device.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/jit/lower.h"

namespace mt {

Shape with(Shape s, int64_t last) {
  s.push(last);
  return s;
}

const BufferUse* use_at(const StepCall& c, const void* slot) {
  for (const BufferUse& u : c.uses)
    if (u.slot == slot) return &u;
  return nullptr;
}

namespace {

constexpr int kMaxDerivativeCost = 12;

/// gelu's derivative has a special formula for numbers, with other bits than that for tensors and programs.
bool has_own_slope(int op) { return op == op::id<op::Gelu>; }

/// Adds part of an operation of the map verb: its value, its derivative, or the gradient of a reduction.
int add_part(ir::Builder& b, int op, int part, const int* in, int n, const double* params) {
  return op >= kOps  ? add_reduction_gradient(b, op, in, n, params)
         : part == 0 ? b.add(op, in, params)
                     : add_derivative(b, op, part, in, n, params);
}

/// The properties of a part of an operation.
struct PartFacts {
  int cost = 1 << 16;       // instructions of a derivative; an operation counts as one
  bool arithmetic = false;  // only steps that kernels of all devices round in the same way
};
PartFacts facts_of(int op, int part) {
  using ir::LaneOp;
  thread_local std::map<std::pair<int, int>, PartFacts> known;
  const auto [at, is_new] = known.try_emplace({op, part});
  PartFacts& facts = at->second;
  if (!is_new) return facts;
  ir::Builder b;
  int in[5];
  for (int k = 0; k < 5; ++k) in[k] = b.input(k);
  if (op < kOps && op_row(op).mask_first) in[part == 0 ? 0 : 1] = b.add(op::id<op::Lt>, in + 3);
  const double params[op::kMaxParams] = {0.25, 0.5, 0.75, 1};
  const int before = b.count(), made = add_part(b, op, part, in, 5, params);
  if (made < 0) return facts;
  facts.cost = part == 0 && op < kOps ? 1 : b.count() - before;
  std::vector<int> used;
  ir::LaneProgram lanes;
  const auto plain = [](const ir::LaneInstruction& c) {
    return c.op < LaneOp::inverse || (c.op >= LaneOp::iand && c.op <= LaneOp::iandnot) ||
           (c.op >= LaneOp::compare && c.op != LaneOp::guard);
  };
  facts.arithmetic = lower(b.finish({made}, used).program(), Dtype::f32, lanes) &&
                     std::ranges::all_of(lanes.code, plain);
  return facts;
}

/// Whether programs by rows support the reduction.
bool fuses_rows(int reduction) {
  constexpr int kinds[] = {op::reduction_id<op::Sum>, op::reduction_id<op::Amax>,
                           op::reduction_id<op::Amin>, op::reduction_id<op::LogSumExp>,
                           op::reduction_id<op::Var>};
  return std::ranges::find(kinds, reduction) != std::end(kinds);
}

/// The strides of an operand, with 0 for dimensions of one element.
Shape strides_of(const int64_t* stride, const Shape& size) {
  Shape made(stride, size.size());
  for (int d = 0; d < size.size(); ++d)
    if (size[d] == 1) made[d] = 0;
  return made;
}

/// A number of a call: one element, or one that repeats.
double number_at(Dtype dtype, const void* at) {
  return with_dtype(dtype, [&](auto zero) {
    decltype(zero) x;
    std::memcpy(&x, at, sizeof x);
    return math::convert<double>(x);
  });
}

}  // namespace

int add_map(ir::Builder& b, const Map& m, const int* in) {
  return add_part(b, m.op, m.part, in, m.inputs, m.scalar);
}
int cost_of(const FusibleCall& w) { return w.map ? facts_of(w.map->op, w.map->part).cost : 1; }

std::string name_of(const FusibleCall& w) {
  if (w.copy) return "copy";
  constexpr auto name = []<class... Op>(int op, op::List<Op...>) {
    const char* const names[] = {Op::info.name...};
    return std::string(names[op]);
  };
  if (w.reduce) return name(w.reduction, op::Reductions{});
  return name(w.map->op, op::Mapped{}) + (w.map->part || w.map->op >= kOps ? " gradient" : "");
}

/// The map as work; empty if it cannot be part of a program.
std::optional<FusibleCall> Rules::fusible(const Map& m, const StepCall& c, Reason& why) const {
  const OpRow* const row =
      m.op < kOps ? &op_row(m.op) : nullptr;  // null: of a reduction's gradient
  if (!takes(m.dtype)) return why = fmt::format("floats are fused, not {}", m.dtype), std::nullopt;
  if (row && row->info->accepts == op::Accepts::integer) return {};
  const PartFacts facts = facts_of(m.op, m.part);
  if (facts.cost > (of_function ? kMaxInstructions : kMaxDerivativeCost)) return {};
  if (!of_function &&
      ((m.part > 0 && has_own_slope(m.op)) || (!is_cpu(*c.device) && !facts.arithmetic)))
    return {};
  FusibleCall w;
  w.device = c.device;
  w.map = &m, w.dtype = compute_dtype(m.dtype), w.size = Shape(m.size, m.ndim);
  const int mask = !row || !row->mask_first ? -1 : m.part == 0 ? 1 : 2;
  for (int k = 0; k <= m.inputs; ++k) {
    const BufferUse* const u = use_at(c, &m.data[k]);
    if (!u) return {};
    Operand o{*u, strides_of(m.stride[k], w.size), m.plain >> k & 1 ? Dtype::f32 : m.dtype};
    const bool repeats = std::ranges::all_of(o.stride, [](int64_t n) { return n == 0; });
    o.mask = k == mask;
    if (o.mask || (k == 0 && m.part == 0 && row && row->answers_bool)) o.dtype = Dtype::b8;
    const size_t one = item_size(o.dtype);
    if (u->buffer < 0 && (u->bytes <= one || repeats)) {
      if (o.mask || !repeats) return {};
      o.number = true, o.value = number_at(o.dtype, m.data[k]);
    }
    if (k == 0) w.out = o;
    else w.in.push_back(o);
  }
  return w;
}

/// A reduction along contiguous rows; for others the verb sums in another order.
std::optional<FusibleCall> Rules::fusible(const Reduce& r, const StepCall& c, int reduction,
                                          const BufferUse* out, const BufferUse* mean,
                                          Reason& why) const {
  const auto no = [&why](Reason text) { return why = std::move(text), std::nullopt; };
  if (!fuses_rows(reduction))
    return no(
        "of reductions sum, mean, amax, amin, logsumexp, var and std are fused, and max and "
        "min without a gradient");
  const bool counts = r.dtype == Dtype::b8 && reduction == op::reduction_id<op::Sum>;
  if (!takes(r.dtype) && !counts) return no(fmt::format("floats are fused, not {}", r.dtype));
  const BufferUse* const in = use_at(c, &r.in);
  if (r.reduced != 1 || r.reduced_stride[0] != 1)
    return no("it is not along the last dimension alone");
  if (!in || !out || in->buffer < 0 || r.kept + 1 > kMaxDims ||
      (!of_function && !is_cpu(*c.device)))
    return {};
  // One row has one dimension before it.
  const auto with_rows = [&r](const int64_t* kept, int64_t none, int64_t last) {
    return with(r.kept ? Shape(kept, r.kept) : Shape{none}, last);
  };
  const int64_t n = r.reduced_size[0];
  FusibleCall w;
  w.device = c.device;
  w.reduce = &r, w.reduction = reduction;
  w.dtype = counts ? Dtype::none : compute_dtype(r.dtype);
  w.size = with_rows(r.kept_size, 1, n);
  if (n < 2 || n > kLongestRow)
    return no(fmt::format("rows of {} elements; 2 to {} are fused", n, kLongestRow));
  if (const int64_t all = product(w.size); all < 16 * min_fused_elements)
    return no(fmt::format("{} elements, fewer than {}", all, 16 * min_fused_elements));
  const auto strides = [&](const int64_t* kept, int64_t last) {
    return strides_of(with_rows(kept, 0, last).data(), w.size);
  };
  Operand x{*in, strides(r.kept_stride, r.reduced_stride[0]), r.dtype};
  x.mask = counts;
  w.in = {x};
  w.out = {*out, strides(r.out_stride, 0), counts ? Dtype::i64 : w.dtype};
  w.out.row = true;
  if (mean) w.mean = w.out, w.mean->use = *mean;
  return w;
}

/// A copy of contiguous rows, or of one element to a row: to another layout, from bool, or in a function to
/// another float that is computed in the same dtype.
std::optional<FusibleCall> Rules::fusible(const Copy& c, const StepCall& call) const {
  const bool same = compute_dtype(c.from) == compute_dtype(c.to) && takes(c.from);
  if (!takes(c.to) || !(same || c.from == Dtype::b8 || c.from == Dtype::i64)) return {};
  if (!of_function && is_float(c.from)) return {};
  const BufferUse *const in = use_at(call, &c.in), *const out = use_at(call, &c.out);
  if (!in || !out || in->buffer < 0 || c.ndim == 0) return {};
  FusibleCall w;
  w.device = call.device;
  w.copy = &c, w.dtype = compute_dtype(c.to), w.size = Shape(c.size, c.ndim);
  w.in = {{*in, strides_of(c.in_stride, w.size), c.from}};
  w.out = {*out, strides_of(c.out_stride, w.size), c.to};
  const int64_t read = w.in[0].stride[c.ndim - 1], written = w.out.stride[c.ndim - 1];
  if (read > 1 || written > 1 || (written == 0 && c.size[c.ndim - 1] > 1)) return {};
  w.in[0].mask = c.from == Dtype::b8, w.in[0].count = c.from == Dtype::i64;
  return w;
}

}  // namespace mt
