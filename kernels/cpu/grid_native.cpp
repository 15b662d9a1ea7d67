// grid_native.cpp -- machine code for loops and basic blocks of grid kernels: recorded as lane programs
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

/// Whether another instruction than those of the block at `at` may read a vector.
bool is_read_outside(const GridProgram& p, int at, int vector) {
  if (vector >= p.variables) return false;
  for (int j = 0; j < p.count; ++j) {
    const GridInstruction& i = p.code[j];
    if (j > at && j < p.code[at].end) continue;
    if (i.a == vector || i.b == vector || i.c == vector || i.code == GridCode::print) return true;
  }
  return false;
}

/// Records the body of a loop or block whose real numbers are T.
template <class T> class Recorder {
  using F = ir::Lane<T>;
  using I = GridInstruction;

 public:
  Recorder(const GridProgram& p, int at, uint64_t lanes, GridNative& out)
      : p_(p),
        at_(at),
        lanes_(lanes),
        in_block_(p.code[at].code == GridCode::block),
        out_(out),
        builder_(sizeof(T)) {}

  /// False: it is left to the interpreter.
  bool record(ir::LaneProgram& program) {
    const I& first = p_.code[at_];
    for (int j = at_ + 1; j < first.end; ++j) note_written(p_.code[j]);
    if (!in_block_) varying_scalar_[first.dst] = true;
    if (!body(at_ + 1, first.end)) return false;
    builder_.set_line(first.line);
    if (!(in_block_ ? store_all() : carry_all())) return false;
    program = builder_.finish();
    program.operands = out_.operands;
    return true;
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
    return !carried_.empty();
  }
  /// What a block writes to memory, and to variables that are read elsewhere.
  bool store_all() {
    for (const auto& [vector, id] : vector_) {
      if (!written_vector_.count(vector)) continue;
      // what has been read is read by the next turn of a loop around the block
      if (!read_vector_.count(vector) && !is_read_outside(p_, at_, vector)) continue;
      if (p_.vector_type[vector] != GridType::real) return false;
      const int place = place_of({GridNative::written, vector});
      if (place < 0) return false;
      out_.in_place |= read_vector_.count(vector) > 0;
      stores_.push_back({id, place});
    }
    for (const auto& [id, place] : stores_) builder_.store(place, id);
    return !stores_.empty();
  }
  void note_written(const I& i) {
    if (i.code == GridCode::branch || i.code == GridCode::store || i.code == GridCode::spread ||
        i.code == GridCode::compare)
      return;
    if (i.code == GridCode::vector || i.code == GridCode::load) written_vector_[i.dst] = true;
    else if (i.code == GridCode::affine) written_affine_[i.dst] = true;
    else ++written_scalar_[i.dst];
  }
  int place_of(GridNative::Operand o) {
    if (out_.operands == GridNative::kOperands) return -1;
    out_.operand[out_.operands] = o;
    return out_.operands++;
  }
  int32_t operand(LaneOp op, GridNative::Kind kind, int at) {
    const int place = place_of({kind, at});
    return place < 0 ? -1 : builder_.add(op, -1, -1, -1, uint64_t(place));
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
      case GridCode::store: return in_block_ && store(i, j);
      case GridCode::spread:
      case GridCode::compare: return in_block_ && made_before(i);
      default: return false;
    }
  }
  bool load(const I&, int j, bool lanes, int32_t& to) {
    const LaneOp op = in_block_ ? LaneOp::load : lanes ? LaneOp::load_turn : LaneOp::load_one;
    to = operand(op, GridNative::memory, j - at_ - 1);
    return to >= 0;
  }
  bool store(const I& i, int j) {
    const int32_t id = i.type == GridType::real ? value(i.a) : -1;
    const int place = id < 0 ? -1 : place_of({GridNative::memory, j - at_ - 1});
    stores_.push_back({id, place});
    return place >= 0;
  }
  /// What positions alone say is in its vector before the block runs, once.
  bool made_before(const I& i) {
    if (vector_.count(i.dst) || (i.code == GridCode::spread && i.type != GridType::real))
      return false;
    const LaneOp op = i.code == GridCode::spread ? LaneOp::load : LaneOp::load_bool;
    return (vector_[i.dst] = operand(op, GridNative::read, i.dst)) >= 0;
  }

  // Whole numbers say only where elements are. A number that changes must be linear in the counter, and
  // must not be kept from turn to turn.
  static bool is_linear(GridOp op, bool a, bool b) {
    if (op == GridOp::mul) return !(a && b);
    return op == GridOp::add || op == GridOp::sub || op == GridOp::neg || op == GridOp::copy;
  }
  /// Whether a number changes; false: it is kept from turn to turn.
  bool look(bool scalar, int ref, bool& varies) {
    const bool written = scalar ? written_scalar_.count(ref) > 0 : written_affine_.count(ref) > 0;
    auto& varying = scalar ? varying_scalar_ : varying_affine_;
    varies = varying.count(ref) && varying[ref];
    return varying.count(ref) || !written;
  }
  bool whole(const I& i) {
    if (i.type != GridType::integer || i.op >= GridOp::lt) return false;
    if (i.op == GridOp::to_real) {  // made before the block runs
      bool varies = false;
      if (!in_block_ || written_scalar_[i.dst] > 1 || !look(true, i.a, varies)) return false;
      return (scalar_[i.dst] = operand(LaneOp::load, GridNative::scalar, i.dst)) >= 0;
    }
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
    return scalar_[s] = operand(LaneOp::load, GridNative::scalar, s);
  }
  /// A vector, or a scalar where ref < 0.
  int32_t value(int ref) {
    if (ref < 0) return scalar_value(~ref);
    if (const auto at = vector_.find(ref); at != vector_.end()) return at->second;
    if (p_.vector_type[ref] != GridType::real) return -1;
    const bool carried = !in_block_ && written_vector_.count(ref);
    const int place = out_.operands;
    read_vector_[ref] = true;
    const int32_t id = operand(LaneOp::load, carried ? GridNative::written : GridNative::read, ref);
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
  const bool in_block_;
  GridNative& out_;
  ir::LaneBuilder builder_;
  Mask active_;  // within branches
  bool inside_ = false;
  std::map<int, bool> written_vector_, written_affine_, read_vector_;
  std::map<int, int> written_scalar_;                    // how often
  std::map<int, bool> varying_scalar_, varying_affine_;  // of those seen: whether they change
  std::map<int, int32_t> vector_, scalar_;
  std::map<int, First> carried_;
  struct Store {
    int32_t id;
    int place;
  };
  std::vector<Store> stores_;  // of a block
};

bool record(const GridProgram& p, int at, uint64_t lanes, GridNative& out,
            ir::LaneProgram& program) {
  return p.real == Dtype::f64 ? Recorder<double>(p, at, lanes, out).record(program)
                              : Recorder<float>(p, at, lanes, out).record(program);
}
std::unique_ptr<Code> make(const GridProgram& p, int at, uint64_t lanes, Isa isa, GridNative& out) {
  ir::LaneProgram program;
  if (!record(p, at, lanes, out, program)) return nullptr;
  uint64_t repeated = 0;
  for (int k = 0; k < out.operands; ++k) {
    const auto [kind, j] = out.operand[k];
    const bool one =
        p.code[at].code == GridCode::block && kind == GridNative::memory && !(lanes >> j & 1);
    repeated |= uint64_t(one || kind == GridNative::scalar) << k;
  }
  return compile(program, isa, repeated);
}

/// All that the code depends on.
std::string key_of(const GridProgram& p, int at, uint64_t lanes) {
  std::string key;
  const auto put = [&](int64_t x) { key.append(reinterpret_cast<const char*>(&x), sizeof x); };
  put(int(p.real)), put(int64_t(lanes)), put(int(p.code[at].code)), put(p.code[at].dst),
      put(p.code[at].flag);
  for (int j = at + 1; j < p.code[at].end; ++j) {
    const GridInstruction& i = p.code[j];
    const bool branches = i.code == GridCode::branch;
    for (const int x : {int(i.code), int(i.op), int(i.type), i.dst, i.a, i.b, i.c}) put(x);
    if (p.code[at].code == GridCode::block) put(i.dst >= 0 && is_read_outside(p, at, i.dst));
    put(i.masked), put(i.flag), put(branches ? i.middle - j : 0), put(branches ? i.end - j : 0);
    for (const int ref : {i.a, i.b, i.c})  // the types of vectors that it reads
      put(i.code == GridCode::vector && ref >= 0 && ref < p.vectors ? int(p.vector_type[ref]) : 0);
  }
  return key;
}

/// Whether a body can be recorded at all.
bool fits(const GridProgram& p, int at) {
  if (p.code[at].flag || p.code[at].end - at - 1 > kGridNativeLength) return false;
  GridNative out;
  ir::LaneProgram program;
  return record(p, at, 0, out, program);
}

struct Made {
  GridNative native;
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
  else m.code = make(p, at, lanes, isa, m.native), m.native.code = m.code.get();
  return m;
}

}  // namespace

bool grid_native_fits(const GridProgram& p, int at) { return made(p, at, kAnyLanes).fits; }
const GridNative& grid_native(const GridProgram& p, int at, uint64_t lanes) {
  return made(p, at, lanes).native;
}

}  // namespace mt
