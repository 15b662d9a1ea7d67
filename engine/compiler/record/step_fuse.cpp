// step_fuse.cpp -- fuses elementwise calls of a recorded step, and reductions of their rows, into programs
//
// On a GPU only calls with the same bits as a program there are fused: no reductions, whose order
// is the kernel's, and no functions of CUDA's library.
//
// Calls are added in order to groups with one iteration space, which run in the place of their last call. A
// group ends at a call that reads its output with another layout, or writes a buffer that it reads or
// writes. A result that no later call reads, and that is not visible after the step, is not written.
#include "engine/compiler/record/step_fuse.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "engine/compiler/cuda/program_cuda.h"
#include "engine/compiler/program/builder.h"
#include "engine/compiler/program/fuse.h"
#include "engine/core/device.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/jit/lower.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {
namespace {

using ir::Builder, ir::without_last;

constexpr int kMaxInstructions = 64, kMaxFusedInputs = 16, kMaxFusedOutputs = 8,
              kMaxDerivativeCost = 12;
constexpr size_t kMaxOpen = 8;

Shape with(Shape s, int64_t last) {
  s.push(last);
  return s;
}

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

/// An operand: elements of a buffer, or numbers that are the same at each replay.
struct Operand {
  BufferUse use;
  Shape stride;
  bool number = false, mask = false, row = false;
  double value = 0;
  bool same(const Operand& o) const {
    std::byte *a = nullptr, *b = nullptr;
    if (use.buffer < 0) std::memcpy(&a, use.slot, sizeof a), std::memcpy(&b, o.use.slot, sizeof b);
    return use.buffer == o.use.buffer && use.offset == o.use.offset && row == o.row && a == b &&
           stride == o.stride;
  }
};

/// A call that a program can compute.
struct Work {
  const Device* device;
  const Map* map = nullptr;
  const Reduce* reduce = nullptr;
  Dtype dtype;
  Shape size;
  std::vector<Operand> in;
  Operand out;
};

const BufferUse* use_at(const StepCall& c, const void* slot) {
  for (const BufferUse& u : c.uses)
    if (u.slot == slot) return &u;
  return nullptr;
}

/// gelu's derivative has a special formula for numbers, with other bits than that for tensors and programs.
bool has_own_slope(int op) { return op == op::id<op::Gelu>; }

/// The properties of a part of an operation.
struct PartFacts {
  int cost = kMaxDerivativeCost + 1;  // instructions of a derivative; an operation counts as one
  bool arithmetic = false;  // only steps that kernels of all devices round in the same way
};
PartFacts facts_of(int op, int part) {
  using ir::LaneOp;
  if (part > 0 && has_own_slope(op)) return {};
  thread_local std::map<std::pair<int, int>, PartFacts> known;
  const auto [at, is_new] = known.try_emplace({op, part});
  PartFacts& facts = at->second;
  if (!is_new) return facts;
  Builder b;
  int in[5];
  for (int k = 0; k < 5; ++k) in[k] = b.input(k);
  if (op_row(op).mask_first) in[part == 0 ? 0 : 1] = b.add(op::id<op::Lt>, in + 3);
  const double params[op::kMaxParams] = {0.25, 0.5, 0.75, 1};
  const int before = b.count(),
            made = part == 0 ? b.add(op, in, params) : add_derivative(b, op, part, in, 5, params);
  if (made < 0) return facts;
  facts.cost = part == 0 ? 1 : b.count() - before;
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

/// The map as work; empty if it cannot be part of a program.
std::optional<Work> work_of(const Map& m, const StepCall& c) {
  if (m.op >= kOps || !(m.dtype == Dtype::f32 || m.dtype == Dtype::f64)) return {};
  const OpRow& row = op_row(m.op);
  if (row.info->accepts == op::Accepts::integer) return {};
  const PartFacts facts = facts_of(m.op, m.part);
  if (facts.cost > kMaxDerivativeCost || (!is_cpu(*c.device) && !facts.arithmetic)) return {};
  Work w;
  w.device = c.device;
  w.map = &m, w.dtype = m.dtype, w.size = Shape(m.size, m.ndim);
  const int mask = !row.mask_first ? -1 : m.part == 0 ? 1 : 2;
  for (int k = 0; k <= m.inputs; ++k) {
    const BufferUse* const u = use_at(c, &m.data[k]);
    if (!u) return {};
    Operand o{*u, Shape(m.stride[k], m.ndim)};
    bool repeats = true;
    for (int d = 0; d < m.ndim; ++d) {
      if (m.size[d] == 1) o.stride[d] = 0;
      repeats &= o.stride[d] == 0;
    }
    o.mask = k == mask;
    const size_t one = item_size(m.dtype);
    if (u->buffer < 0 && (u->bytes <= one || repeats)) {
      if (o.mask || !repeats) return {};
      o.number = true;
      o.value = m.dtype == Dtype::f32 ? double(*static_cast<const float*>(m.data[k]))
                                      : *static_cast<const double*>(m.data[k]);
    }
    if (k == 0) w.out = o;
    else w.in.push_back(o);
  }
  return w;
}
/// A reduction along contiguous rows; for others the verb sums in another order.
std::optional<Work> work_of(const Reduce& r, const StepCall& c) {
  if (!ir::fuses_rows(r.op) || !(r.dtype == Dtype::f32 || r.dtype == Dtype::f64) || r.out2 ||
      r.reduced != 1 || !is_cpu(*c.device))
    return {};
  const BufferUse *const in = use_at(c, &r.in), *const out = use_at(c, &r.out);
  if (!in || !out || in->buffer < 0 || r.kept == 0 || r.kept + 1 > kMaxDims) return {};
  const int64_t n = r.reduced_size[0];
  Work w;
  w.device = c.device;
  w.reduce = &r, w.dtype = r.dtype, w.size = with(Shape(r.kept_size, r.kept), n);
  if (n < 2 || n > kLongestRow || r.reduced_stride[0] != 1 ||
      product(w.size) < 16 * ir::Fuser::smallest)
    return {};
  Operand x{*in, with(Shape(r.kept_stride, r.kept), r.reduced_stride[0])};
  for (int d = 0; d < w.size.size(); ++d)
    if (w.size[d] == 1) x.stride[d] = 0;
  w.in = {x};
  w.out = {*out, with(Shape(r.out_stride, r.kept), 0)};
  for (int d = 0; d < r.kept; ++d)
    if (r.kept_size[d] == 1) w.out.stride[d] = 0;
  w.out.row = true;
  return w;
}

struct Group {
  const Device* device;
  Dtype dtype;
  Shape size;
  bool rows = false;  // whether it reduces rows
  Builder builder;
  std::vector<size_t> calls;
  std::vector<std::string> names;
  std::vector<Operand> inputs;
  struct Value {
    Operand at;
    int id;
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
  bool move_to(const Shape& to);
  bool fit(Work&);
  bool agrees(const Work&) const;
  int value_of(const Operand&);
  bool add(const Work&);
};

/// Changes the iteration space to another one with as many elements.
bool Group::move_to(const Shape& to) {
  if (to == size) return true;
  if (rows && to[to.size() - 1] != size[size.size() - 1]) return false;
  std::vector<Shape> made;
  const auto look = [&](const Operand& o) {
    const auto s = restride(size, o.stride, to);
    if (s) made.push_back(*s);
    return bool(s);
  };
  for (const Operand& o : inputs)
    if (!look(o)) return false;
  for (const Value& v : values)
    if (!look(v.at)) return false;
  size_t k = 0;
  for (Operand& o : inputs) o.stride = made[k++];
  for (Value& v : values) v.at.stride = made[k++];
  size = to;
  return true;
}

/// Converts the work and the group to one space. The work may have one element per row.
bool Group::fit(Work& w) {
  if (w.dtype != dtype || w.device != device) return false;
  const int64_t all = product(size), n = product(w.size), last = size[size.size() - 1];
  if (w.reduce) {
    if (n != all || !move_to(w.size)) return false;
    return true;
  }
  const auto strides = [&](const Shape& to, bool row) {
    std::vector<Shape> made;
    for (const Operand* o = &w.out;; o = o == &w.out ? w.in.data() : o + 1) {
      if (o == w.in.data() + w.in.size()) break;
      const auto s = restride(w.size, o->stride, to);
      if (!s) return false;
      made.push_back(*s);
    }
    const auto set = [&](Operand& o, size_t k) {
      o.stride = row ? with(made[k], 0) : made[k];
      o.row = row && !o.number;
    };
    set(w.out, 0);
    for (size_t k = 0; k < w.in.size(); ++k) set(w.in[k], k + 1);
    return true;
  };
  if (n == all) {
    if (w.size == size || strides(size, false) || move_to(w.size)) {
      w.size = size;
      return true;
    }
    return false;
  }
  if (!rows || n * last != all || !strides(without_last(size), true)) return false;
  w.size = size;
  return true;
}

/// Whether the work accesses the group's outputs with the same layout, and writes nothing else that
/// the group reads.
bool Group::agrees(const Work& w) const {
  const auto conflicts = [](const Operand& a, const Operand& b) {
    return a.use.buffer >= 0 && a.use.buffer == b.use.buffer && !a.same(b);
  };
  for (const Value& v : values) {
    if (conflicts(v.at, w.out)) return false;
    for (const Operand& o : w.in)  // one element per row may be read by its whole row
      if (Operand row = o; row.row = v.at.row, conflicts(v.at, row)) return false;
  }
  for (const Operand& o : inputs)
    if (conflicts(o, w.out)) return false;
  for (const Operand& o : w.in)
    if (conflicts(o, w.out)) return false;
  return true;
}

int Group::value_of(const Operand& o) {
  if (o.number) {
    numbers.push_back(o.value);
    return builder.number(int(numbers.size()) - 1);
  }
  for (const Value& v : values) {
    Operand row = o;
    row.row = v.at.row;
    if (v.at.same(row)) return v.id;
  }
  for (size_t k = 0; k < inputs.size(); ++k)
    if (inputs[k].same(o)) return builder.input(int(k), o.row);
  inputs.push_back(o);
  return builder.input(int(inputs.size()) - 1, o.row);
}

/// False if the program would be too large, or needs a mask from outside.
bool Group::add(const Work& w) {
  const int cost = w.map ? facts_of(w.map->op, w.map->part).cost : 1;
  if (builder.count() + cost > kMaxInstructions || inputs.size() + w.in.size() > kMaxFusedInputs)
    return false;
  for (const Operand& o : w.in) {
    bool made_here = false;
    for (const Value& v : values) made_here |= v.at.same(o) && builder.is_bool(v.id);
    if (o.mask != made_here) return false;
  }
  int in[kMaxOperands] = {-1, -1, -1};
  for (size_t k = 0; k < w.in.size(); ++k) in[k] = value_of(w.in[k]);
  int id = -1;
  if (w.reduce) id = builder.reduce(w.reduce->op, in[0], w.reduce->param[0]);
  else if (w.map->part == 0) id = builder.add(w.map->op, in, w.map->scalar);
  else id = add_derivative(builder, w.map->op, w.map->part, in, int(w.in.size()), w.map->scalar);
  if (id < 0) return false;
  rows |= w.reduce != nullptr;
  for (Value& v : values)
    if (v.at.same(w.out)) {
      v = {w.out, id};
      return true;
    }
  values.push_back({w.out, id});
  return true;
}

struct StepFuser {
  std::vector<StepCall>& calls;
  std::vector<size_t>& ends;
  std::vector<StepBuffer>& buffers;
  std::deque<std::vector<std::byte>>& kept;
  std::vector<std::unique_ptr<Group>> open = {};
  std::map<size_t, StepCall> made = {};  // by the last of the calls that they replace
  std::vector<bool> gone = {};
  std::vector<int> last_read = {};
  std::vector<std::string> groups = {};

  std::vector<std::string> all();
  std::optional<Work> work_at(size_t) const;
  bool join(size_t, Work&);
  void close(size_t group);
  bool is_needed(const Operand&, size_t after) const;
  bool emit(Group&);
  std::string lines_of(const Group&) const;
};

std::optional<Work> StepFuser::work_at(size_t i) const {
  const StepCall& c = calls[i];
  for (const BufferUse& u : c.uses)  // a number on the CPU, which a GPU's call reads again
    if (u.buffer >= 0 && buffers[u.buffer].device != c.device) return {};
  if (c.verb == Verb::map || c.verb == Verb::map_numbers)
    return work_of(*reinterpret_cast<const Map*>(c.argument), c);
  if (c.verb == Verb::reduce) return work_of(*reinterpret_cast<const Reduce*>(c.argument), c);
  return {};
}

std::string name_of(const Work& w) {
  if (w.reduce) {
    constexpr auto name = []<class... Op>(int op, op::List<Op...>) {
      const char* const names[] = {Op::info.name...};
      return names[op];
    };
    return name(w.reduce->op, op::Reductions{});
  }
  return std::string(op_row(w.map->op).info->name) + (w.map->part ? " gradient" : "");
}

/// Adds the call to a group that has one of its operands.
bool StepFuser::join(size_t i, Work& w) {
  for (size_t k = 0; k < open.size(); ++k) {
    Group& g = *open[k];
    bool shares = false;
    for (const Operand& o : w.in)
      shares |= o.use.buffer >= 0 && (g.writes(o.use.buffer) || g.reads(o.use.buffer));
    Work fitted = w;
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

bool StepFuser::is_needed(const Operand& o, size_t after) const {
  const StepBuffer& b = buffers[o.use.buffer];
  return b.kind != StepBuffer::Kind::inner || b.kept || last_read[o.use.buffer] > int(after);
}

void StepFuser::close(size_t at) {
  const std::unique_ptr<Group> g = std::move(open[at]);
  open.erase(open.begin() + ptrdiff_t(at));
  if (g->calls.size() < 2 || !emit(*g)) return;
  for (size_t i : g->calls) gone[i] = true;
}

/// "train.lua:12, 13": the lines of the calls.
std::string StepFuser::lines_of(const Group& g) const {
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

/// Emits the group as one call; false if it stays several calls.
bool StepFuser::emit(Group& g) {
  const size_t last = g.calls.back();
  std::vector<int> ids, used, read;
  std::vector<const Operand*> out;
  for (const Group::Value& v : g.values)
    if (is_needed(v.at, last)) ids.push_back(v.id), out.push_back(&v.at);
  if (ids.empty() || ids.size() > kMaxFusedOutputs) return false;
  const ir::Expression& e = g.builder.finish(ids, used, &read);
  const Program& p = e.program();
  if (p.slots > kMaxProgramSlots) return false;
  std::byte* const argument = kept.emplace_back(sizeof(Run)).data();
  Run& r = *new (argument) Run{};
  r.program = &p, r.dtype = g.dtype, r.ndim = g.size.size();
  std::copy_n(g.size.data(), g.size.size(), r.size);
  std::byte* const numbers = kept.emplace_back(sizeof(double) * (read.size() + 1)).data();
  r.numbers = reinterpret_cast<const double*>(numbers);
  for (size_t k = 0; k < read.size(); ++k)
    std::memcpy(numbers + k * sizeof(double), &g.numbers[read[k]], sizeof(double));
  StepCall c{Verb::run, g.device, argument, nullptr, 0, {}};
  const auto place = [&](int k, const Operand& o, bool is_out) {
    BufferUse u = o.use;
    std::memcpy(&r.data[k], u.slot, sizeof(void*));
    u.slot = reinterpret_cast<std::byte*>(&r.data[k]), u.out = is_out;
    c.uses.push_back(u);
    std::copy_n(o.stride.data(), g.size.size(), r.stride[k]);
    r.is_bool[k] = is_out && e.is_bool(k);
  };
  for (int k = 0; k < p.inputs; ++k) place(p.outputs + k, g.inputs[used[k]], false);
  for (int k = 0; k < p.outputs; ++k) {
    if (p.by_rows != g.rows || (g.rows && e.is_row(k) != out[k]->row)) return false;
    place(k, *out[k], true);
  }
  if (!is_cpu(*g.device) && !prepare_on_gpu(r, *g.device)) return false;
  if (p.by_rows) {
    const int64_t row = g.size[g.size.size() - 1];
    const size_t bytes = cpu_threads() * row_scratch(p, item_size(g.dtype), row);
    c.uses.push_back({reinterpret_cast<std::byte*>(&r.scratch), int(buffers.size()), 0, true});
    buffers.push_back({bytes, &cpu_device()});
    r.scratch = reinterpret_cast<char*>(argument);  // until memory is planned
  }
  std::string text =
      fmt::format("{} {}{}: ", dtype_name(g.dtype), to_string(g.size), p.by_rows ? " by rows" : "");
  for (size_t k = 0; k < g.names.size(); ++k) text += (k ? ", " : "") + g.names[k];
  const size_t spared = g.values.size() - ids.size();
  if (spared > 0)
    text += fmt::format("; {} of {} results are not written", spared, g.values.size());
  if (const std::string lines = lines_of(g); !lines.empty()) text += " (" + lines + ")";
  groups.push_back(std::move(text));
  made.emplace(last, std::move(c));
  return true;
}

std::vector<std::string> StepFuser::all() {
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
    std::optional<Work> w = work_at(i);
    if (w && join(i, *w)) continue;
    for (size_t h = open.size(); h-- > 0;)
      if (open[h]->stands_before(calls[i])) close(h);
    if (!w || w->size.size() == 0 || product(w->size) < ir::Fuser::smallest) continue;
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
    if (const auto at = made.find(i); at != made.end()) joined.push_back(std::move(at->second));
    else if (!gone[i]) joined.push_back(std::move(calls[i]));
  }
  calls = std::move(joined);
  return std::move(groups);
}

}  // namespace

std::vector<std::string> fuse_calls(std::vector<StepCall>& calls, std::vector<size_t>& ends,
                                    std::vector<StepBuffer>& buffers,
                                    std::deque<std::vector<std::byte>>& kept) {
  return StepFuser{calls, ends, buffers, kept}.all();
}

}  // namespace mt
