// grid_native.cpp -- machine code for loops of grid kernels: recorded as lane programs with turns
#include "kernels/cpu/grid_native.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "kernels/cpu/jit_x64.h"
#include "kernels/cpu/lane_math.h"

#include "kernels/cpu/grid_formulas.h"

namespace mt {
namespace {

using ir::LaneOp;
using ir::Mask;

/// The formula of `op`, if it is one of `ops`, on lanes.
template <GridOp... ops, class V, class Out> bool calculate(GridOp op, const V (&in)[3], Out& out) {
  return ((op == ops && (out = grid::formula<ops>(in[0], in[1], in[2]), true)) || ...);
}
template <class F> bool calculate_number(GridOp op, const F (&in)[3], F& out) {
  using enum GridOp;
  return calculate<neg, abs, sqrt, exp, log, log10, tanh, copy, add, sub, mul, div, mod, min, max,
                   mul_add>(op, in, out);
}

/// Records the body of a loop whose real numbers are T.
template <class T> class LoopRecorder {
  using F = ir::Lane<T>;
  using I = GridInstruction;

 public:
  LoopRecorder(const GridProgram& p, int at, uint64_t lanes, GridLoopCode& out)
      : p_(p),
        at_(at),
        lanes_(lanes),
        out_(out),
        builder_(sizeof(T)) {}

  /// False: the loop is left to the interpreter.
  bool record(ir::LaneProgram& program) {
    const I& loop = p_.code[at_];
    for (int j = at_ + 1; j < loop.end; ++j) note_written(p_.code[j]);
    varying_scalar_[loop.dst] = true;
    if (!body(at_ + 1, loop.end)) return false;
    builder_.set_line(loop.line);
    if (carried_.empty()) return false;
    for (const auto& [vector, first] : carried_) {
      builder_.carry(first.id, vector_[vector]);
      builder_.store(first.operand, first.id);
    }
    program = builder_.finish();
    program.operands = out_.operands;
    return true;
  }

 private:
  struct First {
    int32_t id;
    int operand;
  };
  void note_written(const I& i) {
    if (i.code == GridCode::branch) return;
    if (i.code == GridCode::vector || i.code == GridCode::load) written_vector_[i.dst] = true;
    else if (i.code == GridCode::affine) written_affine_[i.dst] = true;
    else written_scalar_[i.dst] = true;
  }
  int32_t operand(LaneOp op, GridLoopCode::Kind kind, int at) {
    if (out_.operands == GridLoopCode::kOperands) return -1;
    out_.operand[out_.operands] = {kind, at};
    return builder_.add(op, -1, -1, -1, uint64_t(out_.operands++));
  }

  bool body(int from, int to) {
    for (int j = from; j < to;) {
      const I& i = p_.code[j];
      builder_.set_line(i.line);
      if (!instruction(i, j)) return false;
      j = i.code == GridCode::branch ? i.end : j + 1;
    }
    return true;
  }
  /// Both ways are done, and what they write is chosen.
  bool branch(const I& i, int j) {
    if (i.a < 0 || i.flag || !vector_.count(i.a)) return false;
    const Mask c = Mask::of(vector_[i.a]), outside = active_;
    const bool inside = inside_;
    inside_ = true;
    active_ = inside ? outside & c : c;
    bool fine = body(j + 1, i.middle);
    active_ = inside ? outside & !c : !c;
    fine = fine && body(i.middle, i.end);
    active_ = outside, inside_ = inside;
    return fine;
  }
  bool instruction(const I& i, int j) {
    switch (i.code) {
      case GridCode::branch: return branch(i, j);
      case GridCode::scalar: return i.type == GridType::real ? real_scalar(i) : whole(i);
      case GridCode::affine: return affine(i);
      case GridCode::load_scalar:
        return i.type == GridType::real && load(i, j, false, scalar_[i.dst]);
      case GridCode::load:
        return i.type == GridType::real && load(i, j, lanes_ >> (j - at_ - 1) & 1, vector_[i.dst]);
      case GridCode::vector: return vector(i);
      default: return false;
    }
  }
  bool load(const I&, int j, bool lanes, int32_t& to) {
    to = operand(lanes ? LaneOp::load_turn : LaneOp::load_one, GridLoopCode::memory, j - at_ - 1);
    return to >= 0;
  }

  // Whole numbers say only where elements are. A number that changes must be linear in the counter, and
  // must not be kept from turn to turn.
  static bool is_linear(GridOp op, bool a, bool b) {
    if (op == GridOp::mul) return !(a && b);
    return op == GridOp::add || op == GridOp::sub || op == GridOp::neg || op == GridOp::copy;
  }
  /// Whether a number changes; false: it is kept from turn to turn.
  bool look(bool scalar, int ref, bool& varies) {
    auto& written = scalar ? written_scalar_ : written_affine_;
    auto& varying = scalar ? varying_scalar_ : varying_affine_;
    varies = varying.count(ref) && varying[ref];
    return varying.count(ref) || !written.count(ref);
  }
  bool whole(const I& i) {
    if (i.type != GridType::integer || i.op == GridOp::to_real || i.op >= GridOp::lt) return false;
    const int arity = kGridArity[int(i.op)];
    const int in[] = {i.a, i.b};
    bool varies[2] = {};
    for (int k = 0; k < arity; ++k)
      if (!look(true, in[k], varies[k])) return false;
    varying_scalar_[i.dst] = varies[0] || varies[1];
    return !varying_scalar_[i.dst] || is_linear(i.op, varies[0], varies[1]);
  }
  bool affine(const I& i) {
    const int in[] = {i.a, i.b};
    bool varies[2] = {};
    for (int k = 0; k < kGridArity[int(i.op)] && k < 2; ++k)
      if (!look(in[k] < 0, in[k] < 0 ? ~in[k] : in[k], varies[k])) return false;
    varying_affine_[i.dst] = varies[0] || varies[1];
    return is_linear(i.op, varies[0], varies[1]);
  }

  /// A real scalar; -1: it is kept from turn to turn, or there are too many operands.
  int32_t scalar_value(int s) {
    if (const auto at = scalar_.find(s); at != scalar_.end()) return at->second;
    if (written_scalar_.count(s)) return -1;
    return scalar_[s] = operand(LaneOp::load, GridLoopCode::scalar, s);
  }
  /// A vector, or a scalar where ref < 0.
  int32_t value(int ref) {
    if (ref < 0) return scalar_value(~ref);
    if (const auto at = vector_.find(ref); at != vector_.end()) return at->second;
    if (p_.vector_type[ref] != GridType::real) return -1;
    const bool carried = written_vector_.count(ref);
    const int place = out_.operands;
    const int32_t id =
        operand(LaneOp::load, carried ? GridLoopCode::carried : GridLoopCode::fixed, ref);
    if (carried) carried_[ref] = {id, place};
    return vector_[ref] = id;
  }
  bool real_scalar(const I& i) {
    const int in[] = {i.a, i.b, i.c};
    int32_t id[3] = {};
    for (int k = 0; k < kGridArity[int(i.op)]; ++k)
      if ((id[k] = scalar_value(in[k])) < 0) return false;
    F out;
    if (!calculate_number(i.op, {F::of(id[0]), F::of(id[1]), F::of(id[2])}, out)) return false;
    scalar_[i.dst] = out.id;
    return true;
  }
  /// What a vector is after an instruction, which writes active lanes.
  bool set(const I& i, Mask value) {
    if (i.masked && inside_) {
      if (!vector_.count(i.dst)) return false;
      value = (active_ & value) | ((!active_) & Mask::of(vector_[i.dst]));
    }
    vector_[i.dst] = value.id;
    return true;
  }
  bool set(const I& i, F number) {
    if (i.masked && inside_) {
      const int32_t before = value(i.dst);
      if (before < 0) return false;
      number = select(active_, number, F::of(before));
    }
    vector_[i.dst] = number.id;
    return true;
  }
  bool vector(const I& i) {
    const int in[] = {i.a, i.b, i.c};
    int32_t id[3] = {};
    for (int k = 0; k < kGridArity[int(i.op)]; ++k) {
      const bool truth = i.type == GridType::boolean || (i.op == GridOp::select && k == 0);
      if (truth && (in[k] < 0 || !vector_.count(in[k]))) return false;
      if ((id[k] = value(in[k])) < 0) return false;
    }
    using enum GridOp;
    const Mask truth[] = {Mask::of(id[0]), Mask::of(id[1]), Mask::of(id[2])};
    const F in_lanes[] = {F::of(id[0]), F::of(id[1]), F::of(id[2])};
    Mask mask;
    F number;
    if (i.type == GridType::boolean)
      return calculate<copy, logical_not, logical_and, logical_or, eq, ne>(i.op, truth, mask) &&
             set(i, mask);
    if (i.type != GridType::real) return false;
    if (i.op == select) return set(i, grid::formula<select>(truth[0], in_lanes[1], in_lanes[2]));
    if (calculate<lt, le, eq, ne>(i.op, in_lanes, mask)) return set(i, mask);
    return calculate_number(i.op, in_lanes, number) && set(i, number);
  }

  const GridProgram& p_;
  const int at_;
  const uint64_t lanes_;
  GridLoopCode& out_;
  ir::LaneBuilder builder_;
  Mask active_;  // within branches
  bool inside_ = false;
  std::map<int, bool> written_vector_, written_scalar_, written_affine_;
  std::map<int, bool> varying_scalar_, varying_affine_;  // of those seen: whether they change
  std::map<int, int32_t> vector_, scalar_;
  std::map<int, First> carried_;
};

bool record(const GridProgram& p, int at, uint64_t lanes, GridLoopCode& out,
            ir::LaneProgram& program) {
  return p.real == Dtype::f64 ? LoopRecorder<double>(p, at, lanes, out).record(program)
                              : LoopRecorder<float>(p, at, lanes, out).record(program);
}
std::unique_ptr<Code> make(const GridProgram& p, int at, uint64_t lanes, Isa isa,
                           GridLoopCode& out) {
  ir::LaneProgram program;
  if (!record(p, at, lanes, out, program)) return nullptr;
  uint64_t repeated = 0;
  for (int k = 0; k < out.operands; ++k)
    repeated |= uint64_t(out.operand[k].kind == GridLoopCode::scalar) << k;
  return compile(program, isa, repeated);
}

/// All that the code depends on.
std::string key_of(const GridProgram& p, int at, uint64_t lanes) {
  std::string key;
  const auto put = [&](int64_t x) { key.append(reinterpret_cast<const char*>(&x), sizeof x); };
  put(int(p.real)), put(int64_t(lanes)), put(p.code[at].dst), put(p.code[at].flag);
  for (int j = at + 1; j < p.code[at].end; ++j) {
    const GridInstruction& i = p.code[j];
    const bool branches = i.code == GridCode::branch;
    for (const int x : {int(i.code), int(i.op), int(i.type), i.dst, i.a, i.b, i.c}) put(x);
    put(i.masked), put(i.flag), put(branches ? i.middle - j : 0), put(branches ? i.end - j : 0);
    for (const int ref : {i.a, i.b, i.c})  // the types of vectors that it reads
      put(i.code == GridCode::vector && ref >= 0 && ref < p.vectors ? int(p.vector_type[ref]) : 0);
  }
  return key;
}

/// Whether a loop can be recorded at all.
bool fits(const GridProgram& p, int at) {
  const GridInstruction& loop = p.code[at];
  if (loop.flag || loop.end - at - 1 > kGridLoopLength) return false;
  for (int j = at + 1; j < loop.end; ++j) {
    const GridCode c = p.code[j].code;
    const bool loads = c == GridCode::load || c == GridCode::load_scalar;
    if (!loads && c != GridCode::scalar && c != GridCode::affine && c != GridCode::vector &&
        c != GridCode::branch)
      return false;
  }
  GridLoopCode out;
  ir::LaneProgram program;
  return record(p, at, 0, out, program);
}

struct Made {
  GridLoopCode loop;
  std::unique_ptr<Code> code;
  bool fits = false;
};
constexpr uint64_t kAnyLanes = ~uint64_t(0);

/// The entry of a loop, made at first use.
const Made& made(const GridProgram& p, int at, uint64_t lanes) {
  static std::mutex lock;
  static auto* const all = new std::map<std::string, Made>;
  const std::string key = key_of(p, at, lanes);
  const std::lock_guard guard(lock);
  const auto [found, is_new] = all->try_emplace(key);
  Made& m = found->second;
  Isa isa;
  if (!is_new || !jit_isa(isa)) return m;
  if (lanes == kAnyLanes) m.fits = fits(p, at);
  else m.code = make(p, at, lanes, isa, m.loop), m.loop.code = m.code.get();
  return m;
}

}  // namespace

bool grid_loop_fits(const GridProgram& p, int at) { return made(p, at, kAnyLanes).fits; }
const GridLoopCode& grid_loop_code(const GridProgram& p, int at, uint64_t lanes) {
  return made(p, at, lanes).loop;
}

}  // namespace mt
