// grid_native.cpp -- compiles loops of grid kernels, recorded as lane programs
#include "kernels/cpu/jit/grid_native.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "kernels/cpu/jit/grid_arithmetic.h"

namespace mt {
namespace {

using ir::LaneOp;
using ir::Mask;
using V = GridValue;
using S = GridStatement;

/// The vectors of variables that statements read, other than those of `without`.
void find_reads(const GridBody& body, const S& without, std::map<int, bool>& reads) {
  for (const S* s : body) {
    if (s == &without) continue;
    values_of(*s, [&](const V& v) {
      if (v.kind == V::variable && v.is == GridClass::vector) reads[v.at] = true;
    });
    find_reads(s->body, without, reads), find_reads(s->other, without, reads);
  }
}

/// Records the body of a loop whose reals are T.
template <class T> class CodeRecorder : LaneArithmetic<T> {
  using Base = LaneArithmetic<T>;
  using typename Base::F, typename Base::W;
  using Base::active_, Base::builder_, Base::fine_, Base::inside_, Base::sum;

 public:
  CodeRecorder(const GridProgram& p, const S& at, uint64_t lanes, Isa isa, GridNative& out)
      : Base(isa, at.kind != S::count || at.leaves, sizeof(T) == 4 || isa == Isa::avx512),
        at_(at),
        lanes_(lanes),
        leaves_(at.kind == S::loop || at.leaves),
        out_(out) {
    find_reads(p.body, at, read_outside_);
  }

  /// Returns false if the code is left to the interpreter.
  bool record(ir::LaneProgram& program) {
    each_statement(at_.body, 0, [this](const S& s, int) { note_written(s); });
    if (leaves_) start_lanes();
    else varying_number_[at_.at] = true;
    if (!body(at_.body) || accesses_ > GridNative::kOperands) return false;
    builder_.set_line(at_.line);
    if (!carry_all()) return false;
    if (leaves_ && !carry_lanes()) return false;
    if (fine_.id != Mask(true).id) builder_.guard(fine_.id);
    program = builder_.finish();
    program.operands = out_.operands;
    const auto guards = [](const ir::LaneInstruction& c) { return c.op == LaneOp::guard; };
    return leaves_ || std::none_of(program.code.begin(), program.code.end(), guards);
  }

 private:
  struct First {
    int32_t id;
    int operand;
  };
  bool carry_all() {
    for (const auto& [vector, first] : carried_) {
      builder_.carry(first.id, vector_[vector]);
      builder_.store(first.operand, first.id);
    }
    bool complete = true;
    for (const auto& [vector, type] : written_vector_)
      complete &= carried_.count(vector) || !read_outside_.count(vector);
    out_.complete &= complete;
    return !carried_.empty() && (complete || !leaves_);
  }
  /// The mask of the lanes that run an iteration, and their counter.
  void start_lanes() {
    mask_ = {operand(LaneOp::load_bool, GridNative::active, GridType::boolean, 0), 0};
    active_ = Mask::of(mask_.id), inside_ = true;
    if (at_.kind != S::count) return;
    counter_ = {operand(LaneOp::load, GridNative::counter, GridType::integer, 0), 1};
    scalar_[at_.at] = counter_.id, varying_number_[at_.at] = true;
  }
  /// After all iterations of a counting loop, its lanes have left it.
  bool carry_lanes() {
    const bool counts = at_.kind == S::count;
    builder_.carry(mask_.id, active_.id);
    builder_.set_active(mask_.id);
    builder_.store(mask_.operand, counts ? Mask(false).id : mask_.id);
    if (!counts) return true;
    const int32_t step = scalar_value(at_.step->at, GridType::integer);
    if (step < 0) return false;
    inside_ = false;
    builder_.carry(counter_.id, sum(W::of(counter_.id), W::of(step)).id);
    return true;
  }
  void note_written(const S& s) {
    const bool sets = s.kind == S::assign || s.kind == S::count;
    if (sets && s.is != GridClass::vector) ++written_number_[s.at];
    else if (sets && !is_of_positions(*s.value)) written_vector_[s.at] = s.value->type;
  }
  int place_of(GridNative::Operand o) {
    if (out_.operands == GridNative::kOperands) return -1;
    out_.operand[out_.operands] = o;
    return out_.operands++;
  }
  int32_t operand(LaneOp op, GridNative::Kind kind, GridType type, int at) {
    const int place = place_of({kind, type, at});
    return place < 0 ? -1 : builder_.add(op, -1, -1, -1, uint64_t(place));
  }
  static LaneOp load_of(GridType type) {
    return type == GridType::boolean ? LaneOp::load_bool : LaneOp::load;
  }

  // ---- statements ----------------------------------------------------------------------------------

  bool body(const GridBody& list) {
    for (const S* s : list) {
      builder_.set_line(s->line);
      if (!statement(*s)) return false;
    }
    return true;
  }
  bool statement(const S& s) {
    switch (s.kind) {
      case S::assign: return s.is == GridClass::vector ? vector(s) : number(s);
      case S::branch: return s.exit() ? leave(*s.exit(), s.value) : branch(s);
      case S::leave: return leave(s, nullptr);
      default: return false;
    }
  }
  /// Both branches are computed and their writes are blended; lanes may leave.
  bool branch(const S& s) {
    const bool uniform = s.value->is == GridClass::scalar;
    if ((uniform || s.leaves) && (!leaves_ || (uniform && s.leaves))) return false;
    const int32_t condition = value(*s.value);
    if (condition < 0) return false;
    const Mask c = Mask::of(condition), outside = active_;
    const bool inside = inside_, in_uniform = in_uniform_;
    inside_ = true, in_uniform_ |= uniform;
    active_ = inside ? outside & c : c;
    bool fine = body(s.body);
    const Mask yes = active_;
    active_ = inside ? outside & !c : !c;
    fine = fine && body(s.other);
    active_ = s.leaves ? yes | active_ : outside;
    inside_ = inside, in_uniform_ = in_uniform;
    return fine;
  }
  bool leave(const S& s, const V* condition) {
    if (!leaves_ || s.target != &at_ || (condition && condition->is == GridClass::scalar))
      return false;
    const int32_t id = condition ? value(*condition) : 0;
    if (id >= 0) active_ = condition ? active_ & !Mask::of(id) : Mask(false);
    return id >= 0;
  }
  /// Integers are left to the caller, except those that depend on the counter of a loop that lanes leave.
  bool number(const S& s) {
    const V& v = *s.value;
    if (leaves_ && written_number_[s.at] > 1) return false;  // perhaps set in both branches
    out_.complete &= v.type == GridType::integer;
    if (is_in_lanes(v)) return (scalar_[s.at] = scalar(v)) >= 0;
    bool varies = false;
    if (!look(v, varies)) return false;
    varying_number_[s.at] = varies;
    const bool in_lanes = varies && leaves_ && v.is == GridClass::scalar;
    return !in_lanes || (scalar_[s.at] = scalar(v)) >= 0;
  }
  /// The value of a vector after an assignment, which writes only active lanes.
  bool vector(const S& s) {
    const V& v = *s.value;
    const bool direct = v.kind == V::load || is_of_positions(v);
    if (direct && v.masked && leaves_) return false;
    int32_t id = value(v);
    if (id < 0) return false;
    const bool known = vector_.count(s.at), is_bool = v.type == GridType::boolean;
    if (!direct && inside_ && (v.masked || (in_uniform_ && known))) {
      const int32_t before = known || !is_bool ? vector_value(s.at, v.type) : -1;
      if (before < 0) return false;
      id = Base::chosen(active_, id, before, is_bool);
    }
    vector_[s.at] = id;
    return true;
  }

  // ---- numbers -------------------------------------------------------------------------------------

  /// Whether a number is computed by the code.
  static bool is_in_lanes(const V& v) {
    return v.type == GridType::real || (v.kind == V::operation && v.of == GridType::real);
  }
  /// Whether a number can be computed before the code runs, also more than once; in a loop that lanes do
  /// not leave it is linear in the counter, or does not vary.
  bool look(const V& v, bool& varies) {
    if (v.kind == V::variable) {
      const auto seen = varying_number_.find(v.at);
      const bool known = seen != varying_number_.end();
      varies = known && seen->second;
      return known || !written_number_.count(v.at);
    }
    int varying = 0;
    for (const V* a : v.args) {
      bool one = false;
      if (!look(*a, one)) return false;
      varying += one;
    }
    varies = varying > 0;
    if (v.kind == V::load) return ++accesses_, leaves_ && !varies;
    if (leaves_ || v.kind != V::operation) return true;
    const bool linear =
        op::is<op::Add, op::Sub, op::Neg>(v.op) || (v.op == op::id<op::Mul> && varying < 2);
    return v.type == GridType::integer && v.of == GridType::integer && !v.divides &&
           (linear || !varies);
  }
  /// Whether the indices of an access, or the operands of a function of positions, are such numbers; in a
  /// loop that lanes leave they do not vary.
  bool are_indices(const V& access) {
    for (const V* a : access.args) {
      bool varies = false;
      if (a->is == GridClass::vector || !look(*a, varies) || (varies && leaves_)) return false;
    }
    return true;
  }
  /// The lanes' value of a scalar; -1: it is left to the interpreter.
  int32_t scalar(const V& v) {
    if (v.kind == V::load && !leaves_) return are_indices(v) ? load(v, false) : -1;
    if (v.kind == V::operation && is_in_lanes(v) && v.of == GridType::real) return calculated(v);
    bool varies = false;
    if (v.kind >= V::operation && !look(v, varies)) return -1;
    return varies ? calculated(v) : scalar_value(v.at, v.type);
  }
  /// A scalar broadcast to all lanes; -1: it is carried between iterations, or operands run out.
  int32_t scalar_value(int s, GridType type) {
    if (const auto at = scalar_.find(s); at != scalar_.end()) return at->second;
    if (type == GridType::integer && !leaves_) return -1;
    const bool made = leaves_ && varying_number_.count(s) && written_number_[s] == 1;
    if (written_number_.count(s) && !made) return -1;
    return scalar_[s] = operand(load_of(type), GridNative::scalar, type, s);
  }

  // ---- vectors -------------------------------------------------------------------------------------

  static bool is_of_positions(const V& v) {
    return v.code == GridCode::spread || v.code == GridCode::compare;
  }
  /// The lanes' value of an operand.
  int32_t value(const V& v) {
    if (v.is == GridClass::scalar) return scalar(v);
    if (is_of_positions(v)) return !leaves_ ? -1 : made_before(v);
    if (v.kind == V::variable) return vector_value(v.at, v.type);
    if (v.kind != V::load) return calculated(v);
    if (leaves_) return made_before(v);
    return are_indices(v) ? load(v, lanes_ >> accesses_ & 1) : -1;
  }
  int32_t load(const V& v, bool lanes) {
    const LaneOp op = lanes ? LaneOp::load_turn : LaneOp::load_one;
    if (v.type == GridType::boolean || (!leaves_ && v.type != GridType::real)) return -1;
    return operand(op, GridNative::memory, v.type, accesses_++);
  }
  /// Values that depend only on positions, and in a loop that lanes leave loads from loop-invariant
  /// addresses, are computed once into their vectors before the code runs.
  int32_t made_before(const V& v) {
    const int at = v.at;
    if (read_vector_.count(at)) return -1;
    if (in_uniform_ && vector_.count(at)) return -1;  // set by the other branch
    if (leaves_ && read_outside_.count(at)) return -1;
    if (!are_indices(v)) return -1;
    read_vector_[at] = out_.operands;
    return vector_[at] = operand(load_of(v.type), GridNative::read, v.type, at);
  }
  int32_t vector_value(int at, GridType type) {
    if (const auto found = vector_.find(at); found != vector_.end()) return found->second;
    if (type != GridType::real && !leaves_) return -1;
    const bool carried = written_vector_.count(at);
    if (carried && type == GridType::boolean) return -1;
    const int place = read_vector_[at] = out_.operands;
    const int32_t id =
        operand(load_of(type), carried ? GridNative::written : GridNative::read, type, at);
    if (carried) carried_[at] = {id, place};
    return vector_[at] = id;
  }

  /// -1: it is left to the interpreter.
  int32_t calculated(const V& v) {
    int32_t id[3] = {};
    for (int k = 0; k < v.args.count; ++k)
      if ((id[k] = value(*v.args.of[k])) < 0) return -1;
    return Base::calculated(v, id);
  }

  const S& at_;
  const uint64_t lanes_;
  const bool leaves_;  // lanes leave the loop one by one
  GridNative& out_;
  bool in_uniform_ = false;  // if lanes take the same branch, writes are not masked
  // by register:
  std::map<int, bool> read_outside_;  // vectors that other statements read
  std::map<int, GridType> written_vector_;
  std::map<int, int> read_vector_;      // their operands
  std::map<int, int> written_number_;   // how often
  std::map<int, bool> varying_number_;  // of those seen: whether they vary
  std::map<int, int32_t> vector_, scalar_;
  std::map<int, First> carried_;
  int accesses_ = 0;
  First mask_{-1, 0}, counter_{-1, 0};  // of a loop that lanes leave
};

/// Null: it is left to the interpreter.
std::unique_ptr<Code> make(const GridProgram& p, const S& s, uint64_t lanes, GridNative& out) {
  ir::LaneProgram program;
  Isa isa;
  if (!jit_isa(isa) ||
      !(p.real == Dtype::f64 ? CodeRecorder<double>(p, s, lanes, isa, out).record(program)
                             : CodeRecorder<float>(p, s, lanes, isa, out).record(program)))
    return nullptr;
  uint64_t repeated = 0;
  for (int k = 0; k < out.operands; ++k) {
    repeated |= uint64_t(out.operand[k].kind == GridNative::scalar) << k;
  }
  return compile(program, isa, repeated);
}

}  // namespace

const GridNative& grid_native(const GridProgram& p, const GridStatement& s, uint64_t lanes) {
  struct Compiled {
    GridNative native;
    std::unique_ptr<Code> code;
  };
  static std::mutex lock;
  static auto* const all = new std::map<std::tuple<int64_t, int, uint64_t>, Compiled>;
  static const GridNative none{};
  if (s.length > kGridNativeLength) return none;
  const std::lock_guard guard(lock);
  const auto [found, is_new] = all->try_emplace({p.number, s.id, lanes});
  auto& [native, code] = found->second;
  if (is_new) code = make(p, s, lanes, native), native.code = code.get();
  return native;
}

}  // namespace mt
