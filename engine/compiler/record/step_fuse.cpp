// step_fuse.cpp -- fuses elementwise calls of a recorded step, and reductions of their rows, into programs
//
// In a step, on a GPU only calls with the same bits as a program there are fused: no reductions, whose
// order is the kernel's, and no functions of CUDA's library.
//
// Calls are added in order to groups with one iteration space, which run in the place of their last call. A
// group ends at a call that reads its output with another layout, or writes a buffer that it reads or
// writes. A result that no later call reads, and that is not visible after the step, is not written.
#include "engine/compiler/record/step_fuse.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "engine/compiler/cuda/program_cuda.h"
#include "engine/compiler/program/builder.h"
#include "engine/compiler/record/step_work.h"
#include "engine/core/device.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/jit/lower.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {
namespace {

using ir::Builder;

// ---- which calls a program can compute -------------------------------------------------------------------

/// The shape with one more dimension.
Shape with(Shape s, int64_t last) {
  s.push(last);
  return s;
}

/// The use of a pointer of the call's argument, or null.
const BufferUse* use_at(const StepCall& c, const void* slot) {
  for (const BufferUse& u : c.uses)
    if (u.slot == slot) return &u;
  return nullptr;
}

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
    return c.op < LaneOp::inverse || (c.op >= LaneOp::iand && c.op <= LaneOp::ixor) ||
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

int add_map(ir::Builder& b, const Map& m, const int* in) {
  return add_part(b, m.op, m.part, in, m.inputs, m.scalar);
}
/// The number of instructions that the work needs at most.
int cost_of(const FusibleCall& w) { return w.map ? facts_of(w.map->op, w.map->part).cost : 1; }

/// The name of the operation, for mt.explain.
std::string name_of(const FusibleCall& w) {
  if (w.copy) return "copy";
  constexpr auto name = []<class... Op>(int op, op::List<Op...>) {
    const char* const names[] = {Op::info.name...};
    return std::string(names[op]);
  };
  if (w.reduce) return name(w.reduction, op::Reductions{});
  return name(w.map->op, op::Mapped{}) + (w.map->part || w.map->op >= kOps ? " gradient" : "");
}

/// Why a call is not part of a program.
using Reason = std::string;

/// What can be fused, in a step or in a function of mt.fuse.
struct Rules {
  const bool of_function;
  bool takes(Dtype d) const {
    return d == Dtype::f32 || d == Dtype::f64 || (of_function && is_half(d));
  }
  /// The map as work; empty if it cannot be part of a program.
  std::optional<FusibleCall> fusible(const Map& m, const StepCall& c, Reason& why) const {
    const OpRow* const row =
        m.op < kOps ? &op_row(m.op) : nullptr;  // null: of a reduction's gradient
    if (!takes(m.dtype))
      return why = fmt::format("floats are fused, not {}", m.dtype), std::nullopt;
    if (row && row->info->accepts == op::Accepts::integer) return {};
    const PartFacts facts = facts_of(m.op, m.part);
    if (facts.cost > (of_function ? kMaxInstructions : kMaxDerivativeCost)) return {};
    if (!of_function &&
        ((m.part > 0 && has_own_slope(m.op)) || (!is_cpu(*c.device) && !facts.arithmetic)))
      return {};
    FusibleCall w;
    w.device = c.device;
    w.map = &m, w.dtype = compute_dtype(m.dtype), w.size = Shape(m.size, m.ndim);
    for (int k = 0; k <= m.inputs; ++k) {
      const BufferUse* const u = use_at(c, &m.data[k]);
      if (!u) return {};
      Operand o{*u, strides_of(m.stride[k], w.size), operand_dtype(m, k)};
      const bool repeats = std::ranges::all_of(o.stride, [](int64_t n) { return n == 0; });
      o.mask = k > 0 && o.dtype == Dtype::b8;
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
  std::optional<FusibleCall> fusible(const Reduce& r, const StepCall& c, int reduction,
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
  /// A copy of contiguous rows, or of one element to a row: to another layout, from bool, or in a function to another
  /// float that is computed in the same dtype.
  std::optional<FusibleCall> fusible(const Copy& c, const StepCall& call) const {
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
};

// ---- groups of calls --------------------------------------------------------------------------------------

constexpr int kMaxFusedInputs = 20, kMaxFusedOutputs = 8;
constexpr size_t kMaxOpen = 8;

Shape without_last(const Shape& s) { return Shape(s.data(), s.size() - 1); }

/// The strides of an operand over `from` for the same elements iterated over `to`; empty if no
/// strides describe that.
std::optional<Shape> restride(const Shape& from, const Shape& stride, const Shape& to) {
  Shape made = to;
  if (from.size() == 0) {
    for (int d = 0; d < to.size(); ++d) made[d] = 0;
    return made;
  }
  int view = to.size() - 1;
  int64_t base = stride[from.size() - 1], elements = 1, seen = 1;
  for (int d = from.size() - 1; d >= 0; --d) {
    elements *= from[d];
    if (d > 0 && (from[d - 1] == 1 || stride[d - 1] == elements * base)) continue;
    while (view >= 0 && (seen < elements || to[view] == 1)) {
      made[view] = to[view] == 1 ? 0 : seen * base;
      seen *= to[view--];
    }
    if (seen != elements) return {};
    if (d > 0) base = stride[d - 1], elements = 1, seen = 1;
  }
  if (view >= 0) return {};
  return made;
}
/// Does that for all of the operands, or for none.
bool restride_all(const std::vector<Operand*>& operands, const Shape& from, const Shape& to) {
  std::vector<Shape> made;
  for (const Operand* o : operands) {
    const auto s = restride(from, o->stride, to);
    if (!s) return false;
    made.push_back(*s);
  }
  for (size_t k = 0; k < operands.size(); ++k) operands[k]->stride = made[k];
  return true;
}

struct Group {
  const Device* device;
  Dtype dtype;
  Shape size;
  bool rows = false;       // whether it reduces rows
  int first_gradient = 0;  // the first value of the builder that belongs to a gradient, or 0
  Builder builder;
  std::vector<size_t> calls;
  std::vector<std::string> names;
  std::vector<Operand> inputs;
  struct Value {
    Operand at;
    int id;
    /// Whether an operand reads it: one element per row may be read by its whole row.
    bool is(Operand o) const { return o.row = at.row, at.same(o); }
  };
  std::vector<Value> values;  // the values that the group writes to memory
  std::vector<double> numbers;

  bool reads(int buffer) const {
    return std::ranges::any_of(inputs, [&](const Operand& o) { return o.use.buffer == buffer; });
  }
  bool writes(int buffer) const {
    return std::ranges::any_of(values, [&](const Value& v) { return v.at.use.buffer == buffer; });
  }
  /// Whether a call must run after this group.
  bool stands_before(const StepCall& c) const {
    for (const BufferUse& u : c.uses)
      if (u.buffer >= 0 && (writes(u.buffer) || (u.out && reads(u.buffer)))) return true;
    return false;
  }
  /// Changes the iteration space to another one with as many elements.
  bool move_to(const Shape& to) {
    if (to == size) return true;
    if (rows && to[to.size() - 1] != size[size.size() - 1]) return false;
    std::vector<Operand*> operands;
    for (Operand& o : inputs) operands.push_back(&o);
    for (Value& v : values) operands.push_back(&v.at);
    if (!restride_all(operands, size, to)) return false;
    size = to;
    return true;
  }
  /// Converts the work and the group to one space. The work may have one element per row.
  bool fit(FusibleCall& w) {
    if ((w.dtype != dtype && w.dtype != Dtype::none) || w.device != device) return false;
    const int64_t all = product(size), n = product(w.size), last = size[size.size() - 1];
    if (w.reduce) return n == all && move_to(w.size);
    std::vector<Operand*> operands = {&w.out};
    for (Operand& o : w.in) operands.push_back(&o);
    if (n == all) {
      if (w.size != size && !restride_all(operands, w.size, size) && !move_to(w.size)) return false;
    } else {
      if (!rows || n * last != all || !restride_all(operands, w.size, without_last(size)))
        return false;
      for (Operand* o : operands) o->stride = with(o->stride, 0), o->row = !o->number;
    }
    w.size = size;
    return true;
  }
  /// Whether the work accesses the group's outputs with the same layout, and writes nothing else that
  /// the group reads.
  bool agrees(const FusibleCall& w) const {
    const auto conflicts = [](const Operand& a, const Operand& b) {
      return a.use.buffer >= 0 && a.use.buffer == b.use.buffer && !a.same(b);
    };
    for (const Value& v : values) {
      if (conflicts(v.at, w.out) || (w.mean && conflicts(v.at, *w.mean))) return false;
      for (const Operand& o : w.in)
        if (o.use.buffer >= 0 && o.use.buffer == v.at.use.buffer && !v.is(o)) return false;
    }
    for (const Operand& o : inputs)
      if (conflicts(o, w.out)) return false;
    for (const Operand& o : w.in)
      if (conflicts(o, w.out)) return false;
    return true;
  }
  /// A bool as 1 or 0.
  int as_float(int value) {
    const int in[] = {value, builder.constant(1), builder.constant(0)};
    return builder.is_bool(value) ? builder.add(op::id<op::Where>, in) : value;
  }
  int value_of(const Operand& o) {
    if (o.number) {
      if (o.value == std::floor(o.value) && std::fabs(o.value) <= 64)
        return builder.constant(o.value);
      const auto at = std::ranges::find(numbers, o.value);
      if (at != numbers.end()) return builder.number(int(at - numbers.begin()));
      numbers.push_back(o.value);
      return builder.number(int(numbers.size()) - 1);
    }
    for (const Value& v : values)
      if (v.is(o)) return v.id;
    for (size_t k = 0; k < inputs.size(); ++k)
      if (inputs[k].same(o)) return builder.input(int(k), o.row);
    inputs.push_back(o);
    return builder.input(int(inputs.size()) - 1, o.row);
  }
  /// False if the program would be too large, or needs a mask from outside.
  bool add(const FusibleCall& w) {
    if (builder.count() + cost_of(w) > kMaxInstructions ||
        inputs.size() + w.in.size() > kMaxFusedInputs)
      return false;
    for (const Operand& o : w.in) {
      bool made_here = false, counted = false;
      for (const Value& v : values) {
        made_here |= v.is(o) && builder.is_bool(v.id);
        counted |= v.is(o);
      }
      if (o.mask != made_here || (o.count && !counted)) return false;
    }
    int in[kMaxOperands] = {-1, -1, -1};
    if (w.gradient && !first_gradient) first_gradient = builder.count();
    for (size_t k = 0; k < w.in.size(); ++k) in[k] = value_of(w.in[k]);
    int id = -1;
    if (w.reduce) in[0] = as_float(in[0]);
    if (w.reduce && first_gradient && w.reduction == op::reduction_id<op::Sum> &&
        !builder.is_row(in[0]))
      id = sum_of_row(builder, in[0], size[size.size() - 1], first_gradient);
    else if (w.reduce) id = builder.reduce(w.reduction, in[0], w.reduce->param[0]);
    else if (w.copy) id = as_float(in[0]);
    else id = add_map(builder, *w.map, in);
    if (id < 0) return false;
    rows |= w.reduce != nullptr;
    if (w.mean) {
      const int of[] = {builder.reduce(op::reduction_id<op::Sum>, in[0]),
                        builder.constant(double(size[size.size() - 1]))};
      values.push_back({*w.mean, builder.add(op::id<op::Div>, of)});
    }
    for (Value& v : values)
      if (v.at.same(w.out)) {
        v = {w.out, id};
        return true;
      }
    values.push_back({w.out, id});
    return true;
  }
};

/// The dtype of the operands in memory, if they have one and the device has programs of it; otherwise that
/// of the group.
Dtype dtype_of_run(const Group& g, const std::vector<const Operand*>& out,
                   const std::vector<int>& used) {
  Dtype stored = Dtype::none;
  bool alike = true;
  const auto look = [&](const Operand& o) {
    if (o.dtype == Dtype::b8) return;
    alike &= stored == Dtype::none || stored == o.dtype;
    stored = o.dtype;
  };
  for (const Operand* o : out) look(*o);
  for (int k : used) look(g.inputs[k]);
  const bool directly = alike && stored != Dtype::none && (!is_half(stored) || !is_cpu(*g.device));
  return directly ? stored : g.dtype;
}

struct StepFuser {
  std::vector<StepCall>& calls;
  std::vector<size_t>& ends;
  std::vector<StepBuffer>& buffers;
  std::deque<std::vector<std::byte>>& kept;
  std::vector<std::string>* separate;
  Rules rules{separate != nullptr};
  std::vector<std::unique_ptr<Group>> open = {};
  std::map<size_t, std::vector<StepCall>> made = {};  // by the last of the calls that they replace
  std::vector<bool> gone = {};
  std::vector<int> last_read = {};
  std::vector<std::string> groups = {};

  std::optional<FusibleCall> fusible_at(size_t i, Reason& why) const {
    const StepCall& c = calls[i];
    for (const BufferUse& u : c.uses)  // a number on the CPU, which a GPU's call reads again
      if (u.buffer >= 0 && buffers[u.buffer].device != c.device) return {};
    std::optional<FusibleCall> w;
    if (c.verb == Verb::map || c.verb == Verb::map_numbers)
      w = rules.fusible(*reinterpret_cast<const Map*>(c.argument), c, why);
    if (c.verb == Verb::copy) w = rules.fusible(*reinterpret_cast<const Copy*>(c.argument), c);
    if (c.verb == Verb::reduce) {
      const Reduce& r = *reinterpret_cast<const Reduce*>(c.argument);
      const BufferUse *out = use_at(c, &r.out), *second = use_at(c, &r.out2);
      const auto is_dead = [&](const BufferUse* u) {
        return u && u->buffer >= 0 && last_read[u->buffer] <= int(i) &&
               buffers[u->buffer].kind == StepBuffer::Kind::inner;
      };
      int reduction = r.op;
      const bool is_max = r.op == op::reduction_id<op::Argmax>;
      if (r.out2 && (is_max || r.op == op::reduction_id<op::Argmin>)&&is_dead(out)) {
        reduction = is_max ? op::reduction_id<op::Amax> : op::reduction_id<op::Amin>;
        out = second, second = nullptr;
      } else if (is_dead(second)) {
        second = nullptr;
      }
      if (r.op != op::reduction_id<op::Var> && second) reduction = r.op, out = nullptr;
      if (!rules.of_function && r.out2) return {};
      w = rules.fusible(r, c, reduction, out, second, why);
    }
    if (w) w->gradient = c.gradient;
    return w;
  }
  /// Adds the call to a group that has one of its operands.
  bool join(size_t i, FusibleCall& w) {
    for (size_t k = 0; k < open.size(); ++k) {
      Group& g = *open[k];
      bool shares = false;
      for (const Operand& o : w.in)
        shares |= o.use.buffer >= 0 && (g.writes(o.use.buffer) || g.reads(o.use.buffer));
      FusibleCall fitted = w;
      if (!shares || !g.fit(fitted) || !g.agrees(fitted)) continue;
      for (size_t h = open.size(); h-- > 0;)  // the other groups that must run first
        if (open[h].get() != &g && open[h]->stands_before(calls[i])) close(h);
      if (!g.add(fitted)) return false;
      g.calls.push_back(i);
      g.names.push_back(name_of(w));
      return true;
    }
    return false;
  }
  bool is_needed(const Operand& o, size_t after) const {
    const StepBuffer& b = buffers[o.use.buffer];
    return b.kind != StepBuffer::Kind::inner || b.kept || last_read[o.use.buffer] > int(after);
  }
  void close(size_t at) {
    const std::unique_ptr<Group> g = std::move(open[at]);
    open.erase(open.begin() + ptrdiff_t(at));
    if (g->calls.size() < 2 || !emit(*g)) return;
    for (size_t i : g->calls) gone[i] = true;
  }
  /// "train.lua:12, 13": the lines of the calls.
  std::string lines_of(const Group& g) const {
    std::string text, file;
    std::vector<std::string> seen;
    for (size_t i : g.calls) {
      const std::string& w = calls[i].where;
      if (w.empty() || std::ranges::find(seen, w) != seen.end()) continue;
      const size_t colon = w.rfind(':') + 1;
      const bool same_file = !seen.empty() && w.substr(0, colon) == file;
      file = w.substr(0, colon);
      text += (seen.empty() ? "" : ", ") + (same_file ? w.substr(colon) : w);
      seen.push_back(w);
    }
    return text;
  }
  /// Adds a line on a call that is not fused.
  void note(size_t i, const Reason& why) {
    const StepCall& c = calls[i];
    if (!separate || why.empty() || c.where.empty()) return;
    Reason none;
    const Map* const map =
        c.verb == Verb::reduce ? nullptr : reinterpret_cast<const Map*>(c.argument);
    FusibleCall w;
    w.map = map, w.reduce = map ? nullptr : reinterpret_cast<const Reduce*>(c.argument);
    if (w.reduce) w.reduction = w.reduce->op;
    std::string line = fmt::format("{}: {}: {}", c.where, name_of(w), why);
    if (std::ranges::find(*separate, line) == separate->end()) separate->push_back(std::move(line));
  }
  /// The use of a new buffer of another dtype, for a 16-bit operand of a program; `copy` converts it.
  BufferUse converted(const Operand& o, Dtype dtype, const Shape& size, bool is_out,
                      StepCall& copy) {
    std::byte* const argument = kept.emplace_back(sizeof(Copy)).data();
    Copy& c = *new (argument) Copy{};
    c.to = is_out ? o.dtype : dtype, c.from = is_out ? dtype : o.dtype, c.ndim = size.size();
    Shape dense = size;
    int64_t n = 1;
    for (int d = size.size() - 1; d >= 0; --d) {
      const bool repeats = o.stride[d] == 0;
      c.size[d] = repeats ? 1 : size[d];
      dense[d] = repeats ? 0 : n, n *= c.size[d];
    }
    std::copy_n((is_out ? o.stride : dense).data(), size.size(), c.out_stride);
    std::copy_n((is_out ? dense : o.stride).data(), size.size(), c.in_stride);
    BufferUse made{nullptr, int(buffers.size()), 0, is_out};
    buffers.push_back({size_t(n * item_size(dtype)), copy.device});
    const auto put = [&](auto& field, BufferUse u, bool out) {
      if (u.slot) std::memcpy(&field, u.slot, sizeof(void*));
      u.slot = reinterpret_cast<std::byte*>(&field), u.out = out;
      copy.uses.push_back(u);
    };
    BufferUse there = made;
    put(c.in, is_out ? there : o.use, false);
    put(c.out, is_out ? o.use : there, true);
    copy.verb = Verb::copy, copy.argument = argument;
    return made;
  }
  /// "float32 (64 x 64): mul, add; 1 of 2 results are not written (train.lua:12)".
  std::string text_of(const Group& g, const Run& r, size_t written) const {
    std::string text = fmt::format("{} {}{}: ", dtype_name(r.dtype), to_string(g.size),
                                   r.program->by_rows ? " by rows" : "");
    for (size_t k = 0; k < g.names.size(); ++k) text += (k ? ", " : "") + g.names[k];
    if (const size_t spared = g.values.size() - written; spared > 0)
      text += fmt::format("; {} of {} results are not written", spared, g.values.size());
    if (const std::string lines = lines_of(g); !lines.empty()) text += " (" + lines + ")";
    return text;
  }
  /// Adds a buffer for the scratch of a program by rows.
  void add_scratch(StepCall& c, Run& r) {
    const size_t bytes =
        cpu_threads() * row_scratch(*r.program, item_size(r.dtype), r.size[r.ndim - 1]);
    c.uses.push_back({reinterpret_cast<std::byte*>(&r.scratch), int(buffers.size()), 0, true});
    buffers.push_back({bytes, &cpu_device()});
    r.scratch = reinterpret_cast<char*>(&r);  // until memory is planned
  }
  /// Emits the group as one call, with conversions of 16-bit floats before and after it if the device has
  /// none; false if it stays several calls.
  bool emit(Group& g) {
    const size_t last = g.calls.back();
    std::vector<int> ids, used, read;
    std::vector<const Operand*> out;
    for (const Group::Value& v : g.values)
      if (is_needed(v.at, last)) ids.push_back(v.id), out.push_back(&v.at);
    const auto counts = [](const Operand* o) { return o->dtype == Dtype::i64; };
    if (ids.empty() || ids.size() > kMaxFusedOutputs || std::ranges::any_of(out, counts))
      return false;
    const ir::Expression& e = g.builder.finish(ids, used, &read);
    const Program& p = e.program();
    if (p.slots > kMaxProgramSlots || p.by_rows != g.rows) return false;
    const Dtype stored = dtype_of_run(g, out, used);
    std::byte* const argument = kept.emplace_back(sizeof(Run)).data();
    Run& r = *new (argument) Run{};
    r.program = &p, r.dtype = stored, r.ndim = g.size.size();
    std::copy_n(g.size.data(), g.size.size(), r.size);
    std::byte* const numbers = kept.emplace_back(sizeof(double) * (read.size() + 1)).data();
    r.numbers = reinterpret_cast<const double*>(numbers);
    for (size_t k = 0; k < read.size(); ++k)
      std::memcpy(numbers + k * sizeof(double), &g.numbers[read[k]], sizeof(double));
    StepCall c{Verb::run, g.device, argument, nullptr, 0, {}};
    std::vector<StepCall> before, after;
    const size_t buffers_before = buffers.size();
    const auto place = [&](int k, const Operand& o, bool is_out) {
      BufferUse u = o.use;
      Shape stride = o.stride;
      if (o.dtype != r.dtype && o.dtype != Dtype::b8) {
        StepCall copy{Verb::copy, g.device, nullptr, nullptr, 0, {}};
        u = converted(o, r.dtype, g.size, is_out, copy);
        const Copy& made = *reinterpret_cast<const Copy*>(copy.argument);
        stride = Shape(is_out ? made.in_stride : made.out_stride, made.ndim);
        (is_out ? after : before).push_back(std::move(copy));
      } else {
        std::memcpy(&r.data[k], u.slot, sizeof(void*));
      }
      u.slot = reinterpret_cast<std::byte*>(&r.data[k]), u.out = is_out;
      c.uses.push_back(u);
      std::copy_n(stride.data(), g.size.size(), r.stride[k]);
      r.is_bool[k] = is_out && e.is_bool(k);
    };
    bool fits = true;
    for (int k = 0; k < p.inputs; ++k) place(p.outputs + k, g.inputs[used[k]], false);
    for (int k = 0; k < p.outputs; ++k) {
      fits &= !g.rows || e.is_row(k) == out[k]->row;
      place(k, *out[k], true);
    }
    if (!fits || (!is_cpu(*g.device) && !prepare_on_gpu(r, *g.device))) {
      buffers.resize(buffers_before);
      return false;
    }
    if (p.by_rows && is_cpu(*g.device)) add_scratch(c, r);
    groups.push_back(text_of(g, r, ids.size()));
    std::vector<StepCall>& list = made[last];
    std::ranges::move(before, std::back_inserter(list));
    list.push_back(std::move(c));
    std::ranges::move(after, std::back_inserter(list));
    return true;
  }
  std::vector<std::string> all() {
    gone.assign(calls.size(), false);
    last_read.assign(buffers.size(), -1);
    for (size_t i = 0; i < calls.size(); ++i)
      for (const BufferUse& u : calls[i].uses)
        if (u.buffer >= 0) last_read[u.buffer] = int(i);
    size_t part = 0;
    for (size_t i = 0; i < calls.size(); ++i) {
      while (part < ends.size() && ends[part] <= i) {
        while (!open.empty()) close(open.size() - 1);
        ++part;
      }
      Reason why;
      std::optional<FusibleCall> w = fusible_at(i, why);
      if (w && join(i, *w)) continue;
      for (size_t h = open.size(); h-- > 0;)
        if (open[h]->stands_before(calls[i])) close(h);
      if (w && product(w->size) < min_fused_elements)
        why =
            fmt::format("{} elements, fewer than {}", product(w->size), min_fused_elements.load());
      note(i, why);
      if (!w || w->size.size() == 0 || w->dtype == Dtype::none || !why.empty()) continue;
      if (open.size() == kMaxOpen) close(0);
      auto g = std::make_unique<Group>();
      g->device = w->device, g->dtype = w->dtype, g->size = w->size;
      if (!g->agrees(*w) || !g->add(*w)) continue;
      g->calls.push_back(i);
      g->names.push_back(name_of(*w));
      open.push_back(std::move(g));
    }
    while (!open.empty()) close(open.size() - 1);
    std::vector<StepCall> joined;
    part = 0;
    for (size_t i = 0; i <= calls.size(); ++i) {
      while (part < ends.size() && ends[part] == i) ends[part++] = joined.size();
      if (i == calls.size()) break;
      if (const auto at = made.find(i); at != made.end())
        std::ranges::move(at->second, std::back_inserter(joined));
      else if (!gone[i]) joined.push_back(std::move(calls[i]));
    }
    calls = std::move(joined);
    return std::move(groups);
  }
};

}  // namespace

std::vector<std::string> fuse_calls(std::vector<StepCall>& calls, std::vector<size_t>& ends,
                                    std::vector<StepBuffer>& buffers,
                                    std::deque<std::vector<std::byte>>& kept,
                                    std::vector<std::string>* separate) {
  return StepFuser{calls, ends, buffers, kept, separate}.all();
}

}  // namespace mt
