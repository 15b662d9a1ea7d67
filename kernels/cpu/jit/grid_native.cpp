// grid_native.cpp -- compiles loops and basic blocks of grid kernels, recorded as lane programs
#include "kernels/cpu/jit/grid_native.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "kernels/cpu/jit/jit_x64.h"
#include "kernels/cpu/jit/lane_math.h"
#include "kernels/cpu/jit/lower.h"

namespace mt {
namespace {

using ir::LaneOp;
using ir::Mask;

/// Whether the operands a, b and c are vectors, or scalars if they are negative.
bool reads_vectors(GridCode c) {
  using enum GridCode;
  return c == vector || c == store || c == atomic_add || c == branch || c == count ||
         c == count_lanes || c == warp || c == assert_;
}
bool is_index(const GridProgram& p, int vector) {
  for (int k = 0; k < p.items; ++k)
    if (p.list[k].kind == GridItem::vector && p.list[k].at == vector) return true;
  return false;
}
/// Whether an instruction outside of the block at `at` may read a vector.
bool is_read_outside(const GridProgram& p, int at, int vector) {
  if (vector >= p.variables) return false;
  for (int j = 0; j < p.count; ++j) {
    const GridInstruction& i = p.code[j];
    if (j > at && j < p.code[at].end) continue;
    if (i.code == GridCode::print) return true;
    if (i.code == GridCode::leave_if
            ? i.b == vector
            : reads_vectors(i.code) && (i.a == vector || i.b == vector || i.c == vector))
      return true;
  }
  return is_index(p, vector);
}

/// Records the body of a loop or block whose reals are T.
template <class T> class Recorder {
  using F = ir::Lane<T>;
  using W = ir::LaneBits<T>;  // integers; in float32 kernels only those that fit int32
  using I = GridInstruction;

 public:
  Recorder(const GridProgram& p, int at, uint64_t lanes, Isa isa, GridNative& out)
      : p_(p),
        at_(at),
        lanes_(lanes),
        isa_(isa),
        in_block_(p.code[at].code == GridCode::block),
        leaves_(p.code[at].code == GridCode::loop || p.code[at].flag),
        in_turns_(!in_block_ && !leaves_),
        out_(out),
        builder_(sizeof(T)) {}

  /// Returns false if the code is left to the interpreter.
  bool record(ir::LaneProgram& program) {
    const I& first = p_.code[at_];
    for (int j = at_ + 1; j < first.end; ++j) note_written(p_.code[j]);
    if (in_turns_) varying_number_[first.dst] = true;
    if (leaves_) start_lanes(first);
    if (!body(at_ + 1, first.end)) return false;
    builder_.set_line(first.line);
    if (!(in_block_ ? store_all() : carry_all())) return false;
    if (leaves_ && !carry_lanes(first)) return false;
    if (fine_.id != Mask(true).id) builder_.guard(fine_.id);
    program = builder_.finish();
    program.operands = out_.operands;
    const auto guards = [](const ir::LaneInstruction& c) { return c.op == LaneOp::guard; };
    return !in_turns_ || std::none_of(program.code.begin(), program.code.end(), guards);
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
    for (const auto& [vector, written] : written_vector_)
      complete &= carried_.count(vector) || !is_read_outside(p_, at_, vector);
    out_.complete &= complete;
    return !carried_.empty() && (complete || !leaves_);
  }
  /// The mask of the lanes that run an iteration, and their counter.
  void start_lanes(const I& first) {
    mask_ = {operand(LaneOp::load_bool, GridNative::active, GridType::boolean, 0), 0};
    active_ = Mask::of(mask_.id), inside_ = true;
    if (first.code != GridCode::count) return;
    counter_ = {operand(LaneOp::load, GridNative::counter, GridType::integer, 0), 1};
    scalar_[first.dst] = counter_.id, varying_number_[first.dst] = true;
  }
  /// After all iterations of a counting loop, its lanes have left it.
  bool carry_lanes(const I& first) {
    const bool counts = first.code == GridCode::count;
    builder_.carry(mask_.id, active_.id);
    builder_.set_active(mask_.id);
    builder_.store(mask_.operand, counts ? Mask(false).id : mask_.id);
    if (!counts) return true;
    const int32_t step = scalar_value(~first.c, GridType::integer);
    if (step < 0) return false;
    inside_ = false;
    builder_.carry(counter_.id, sum(W::of(counter_.id), W::of(step)).id);
    return true;
  }
  /// Stores what a block writes to memory, and variables that are read outside of it.
  bool store_all() {
    for (const auto& [vector, id] : vector_) {
      if (!written_vector_.count(vector)) continue;
      // a vector that was read is read again by the next iteration of an outer loop
      const auto read = read_vector_.find(vector);
      const bool in_place = read != read_vector_.end();
      if (!in_place && !is_read_outside(p_, at_, vector)) continue;
      const int place =
          in_place ? read->second : place_of({GridNative::written, p_.vector_type[vector], vector});
      if (place < 0) return false;
      out_.in_place |= in_place;
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
    else ++written_number_[i.dst];
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

  bool body(int from, int to) {
    for (int j = from; j < to;) {
      const I& i = p_.code[j];
      builder_.set_line(i.line);
      if (!instruction(i, j)) return false;
      j = i.code == GridCode::branch ? i.end : j + 1;
    }
    return true;
  }
  /// Both branches are computed and their writes are blended; lanes may leave (i.flag).
  bool branch(const I& i, int j) {
    if ((i.a < 0 && !leaves_) || (i.flag && (i.a < 0 || !leaves_))) return false;
    const int32_t condition = value(i.a, GridType::boolean);
    if (condition < 0) return false;
    const Mask c = Mask::of(condition), outside = active_;
    const bool inside = inside_, in_uniform = in_uniform_;
    inside_ = true, in_uniform_ |= i.a < 0;
    active_ = inside ? outside & c : c;
    bool fine = body(j + 1, i.other);
    const Mask yes = active_;
    active_ = inside ? outside & !c : !c;
    fine = fine && body(i.other, i.end);
    active_ = i.flag ? yes | active_ : outside;
    inside_ = inside, in_uniform_ = in_uniform;
    return fine;
  }
  bool leave(const I& i) {
    if (i.a != at_) return false;
    int32_t condition = -1;
    if (i.code == GridCode::leave_if &&
        (i.b < 0 || (condition = value(i.b, GridType::boolean)) < 0))
      return false;
    active_ = i.code == GridCode::leave ? Mask(false) : active_ & !Mask::of(condition);
    return true;
  }
  bool instruction(const I& i, int j) {
    switch (i.code) {
      case GridCode::block: return leaves_;
      case GridCode::branch: return branch(i, j);
      case GridCode::leave:
      case GridCode::leave_if: return leaves_ && leave(i);
      case GridCode::scalar:
        out_.complete &= i.result == GridType::integer || i.dst >= p_.number_variables;
        return number(i);
      case GridCode::affine: return number(i);
      case GridCode::load_scalar:
        if (leaves_)
          return written_number_[i.dst] == 1 && is_fixed(i) &&
                 (varying_number_[i.dst] = false, true);
        varying_number_[i.dst] = false;
        out_.complete &= i.dst >= p_.number_variables;
        return load(i, false, scalar_[i.dst]);
      case GridCode::load:
        if (leaves_) return made_before(i);
        return load(i, lanes_ >> accesses_ & 1, vector_[i.dst]);
      case GridCode::vector: return vector(i);
      case GridCode::store: return in_block_ && store(i);
      case GridCode::spread:
      case GridCode::compare: return !in_turns_ && made_before(i);
      case GridCode::assert_: return !in_turns_ && holds(i);
      default: return false;
    }
  }
  bool load(const I& i, bool lanes, int32_t& to) {
    const LaneOp op = in_block_ ? LaneOp::load : lanes ? LaneOp::load_turn : LaneOp::load_one;
    if (i.type == GridType::boolean || (in_turns_ && i.type != GridType::real)) return false;
    to = operand(op, GridNative::memory, i.type, accesses_++);
    return to >= 0;
  }
  bool store(const I& i) {
    const int32_t id = i.type == GridType::boolean ? -1 : value(i.a, i.type);
    const int place = id < 0 ? -1 : place_of({GridNative::memory, i.type, accesses_++});
    stores_.push_back({id, place});
    return place >= 0;
  }
  /// Values that depend only on positions, and in a loop loads from loop-invariant addresses, are
  /// computed once into their vectors before the code runs.
  bool made_before(const I& i) {
    const GridType type = i.code == GridCode::compare ? GridType::boolean : i.type;
    if (read_vector_.count(i.dst)) return false;
    if (in_uniform_ && vector_.count(i.dst)) return false;  // set by the other branch
    read_vector_[i.dst] = out_.operands;
    if (leaves_ && (i.masked || is_read_outside(p_, at_, i.dst) || !is_fixed(i))) return false;
    return (vector_[i.dst] = operand(load_of(type), GridNative::read, type, i.dst)) >= 0;
  }
  /// Whether a value that is computed before a loop is the same in every iteration.
  bool is_fixed(const I& i) {
    bool varies = false;
    const auto same = [&](int number) { return look(number, varies) && !varies; };
    if (i.code == GridCode::spread) return same(i.a);
    if (i.code == GridCode::compare) return same(i.a) && same(i.b);
    for (int k = 0; k < i.indices; ++k) {
      const GridItem& x = p_.list[i.index + k];
      if (x.kind == GridItem::vector || !same(x.at)) return false;
    }
    return true;
  }
  /// Scalar conditions are evaluated before the code runs.
  bool holds(const I& i) {
    if (i.a < 0 && !scalar_.count(~i.a)) return true;
    const int32_t condition = value(i.a, GridType::boolean);
    if (condition >= 0) must(Mask::of(condition));
    return condition >= 0;
  }

  // Integers are only used as indices. An integer that varies must be linear in the counter, and
  // must not be carried from one iteration to the next.
  static bool is_linear(int op, bool a, bool b) {
    if (op == op::id<op::Mul>) return !(a && b);
    return op == op::id<op::Add> || op == op::id<op::Sub> || op == op::id<op::Neg> ||
           op == kConvert;
  }
  /// Whether a number varies; returns false if it is carried from one iteration to the next.
  bool look(int number, bool& varies) {
    const auto seen = varying_number_.find(number);
    const bool known = seen != varying_number_.end();
    varies = known && seen->second;
    return known || !written_number_.count(number);
  }
  /// Integers and their functions are left to the caller, except those that depend on the counter
  /// of a loop that lanes leave.
  bool number(const I& i) {
    if (leaves_ && written_number_[i.dst] > 1) return false;  // perhaps set in both branches
    if (i.type == GridType::real) return lane_scalar(i);
    const int in[] = {i.a, i.b, i.c};
    bool varies[3] = {};
    for (int k = 0; k < i.operands; ++k)
      if (!look(in[k], varies[k])) return false;
    const bool any = varying_number_[i.dst] = varies[0] || varies[1] || varies[2];
    if (i.code == GridCode::scalar && !in_turns_) return !any || lane_scalar(i);
    if (i.type != GridType::integer || i.result != GridType::integer) return false;
    return !any || is_linear(i.op, varies[0], varies[1]);
  }

  /// A scalar broadcast to all lanes; -1: it is carried between iterations, or operands run out.
  int32_t scalar_value(int s, GridType type) {
    if (const auto at = scalar_.find(s); at != scalar_.end()) return at->second;
    if (type == GridType::integer && !has_whole_numbers(false)) return -1;
    const bool made = !in_turns_ && varying_number_.count(s) && written_number_[s] == 1;
    if (written_number_.count(s) && !made) return -1;
    return scalar_[s] = operand(load_of(type), GridNative::scalar, type, s);
  }
  /// A vector, or a scalar if ref < 0.
  int32_t value(int ref, GridType type) {
    if (ref < 0) return scalar_value(~ref, type);
    if (const auto at = vector_.find(ref); at != vector_.end()) return at->second;
    if (p_.vector_type[ref] != type || (type != GridType::real && in_turns_)) return -1;
    const bool carried = !in_block_ && written_vector_.count(ref);
    if (carried && type == GridType::boolean) return -1;
    const int place = read_vector_[ref] = out_.operands;
    const int32_t id =
        operand(load_of(type), carried ? GridNative::written : GridNative::read, type, ref);
    if (carried) carried_[ref] = {id, place};
    return vector_[ref] = id;
  }
  bool lane_scalar(const I& i) {
    const int in[] = {~i.a, ~i.b, ~i.c};
    return (scalar_[i.dst] = calculated(i, in)) >= 0;
  }
  /// The value of a vector after an instruction, which writes only active lanes.
  bool vector(const I& i) {
    const int in[] = {i.a, i.b, i.c};
    int32_t id = calculated(i, in);
    if (id < 0) return false;
    const bool known = vector_.count(i.dst), is_bool = i.result == GridType::boolean;
    if (inside_ && (i.masked || (in_uniform_ && known))) {
      const int32_t before = known || !is_bool ? value(i.dst, i.result) : -1;
      if (before < 0) return false;
      const int32_t choice[] = {active_.id, id, before};
      id = ir::record_operation<T>(op::id<op::Where>, is_bool, choice, nullptr);
    }
    vector_[i.dst] = id;
    return true;
  }

  // ---- what an instruction computes ----------------------------------------------------------------

  /// -1: it is left to the interpreter.
  int32_t calculated(const I& i, const int (&in)[3]) {
    const bool chooses = i.op == op::id<op::Where>, whole = i.type == GridType::integer;
    int32_t id[3] = {};
    for (int k = 0; k < i.operands; ++k)
      if ((id[k] = value(in[k], chooses && k == 0 ? GridType::boolean : i.type)) < 0) return -1;
    if (i.op == kConvert) return converted(i, id[0]);
    if (whole && !chooses) return of_integers(i.op, W::of(id[0]), W::of(id[1]));
    return ir::record_operation<T>(i.op, i.type == GridType::boolean, id, nullptr);
  }
  /// Whether there are integer instructions; `more`: also for products and conversions.
  bool has_whole_numbers(bool more) const {
    return !in_turns_ && (!more || kNarrow || isa_ == Isa::avx512);
  }
  int32_t converted(const I& i, int32_t id) {
    const bool whole = i.type == GridType::integer;
    if (i.type == i.result) return whole && !has_whole_numbers(false) ? -1 : id;
    if (!has_whole_numbers(true)) return -1;
    if (whole) return F::to_float(W::of(id)).id;
    const F x = F::of(id), end(kNarrow ? 0x1p31 : 0x1p63);
    must((-end <= x) & (x < end));
    return to_int(x).id;
  }
  int32_t of_integers(int op, W x, W y) {
    const bool divides = op == op::id<op::Remainder> || op == op::id<op::FloorDivide>;
    if (!has_whole_numbers(divides || op == op::id<op::Mul>)) return -1;
    switch (op) {
      case op::id<op::Neg>: return difference(W(0), x).id;
      case op::id<op::Abs>: return select(less(x, W(0)), difference(W(0), x), x).id;
      case op::id<op::Add>: return sum(x, y).id;
      case op::id<op::Sub>: return difference(x, y).id;
      case op::id<op::Mul>: return product(x, y).id;
      case op::id<op::LuaMin>: return select(less(x, y), x, y).id;
      case op::id<op::LuaMax>: return select(less(y, x), x, y).id;
      case op::id<op::Remainder>: return divided(x, y, true).id;
      case op::id<op::FloorDivide>: return divided(x, y, false).id;
      case op::id<op::Lt>: return less(x, y).id;
      case op::id<op::Le>: return (!less(y, x)).id;
      case op::id<op::Eq>: return (x == y).id;
      case op::id<op::Ne>: return (x != y).id;
      default: return -1;
    }
  }
  /// Adds a guard: the code stops if this does not hold in an active lane.
  void must(Mask m) { fine_ = fine_ & (inside_ ? m | !active_ : m); }
  W sum(W x, W y) {
    const W z = x + y;
    if (kNarrow) must(!less((x ^ z) & (y ^ z), W(0)));
    return z;
  }
  W difference(W x, W y) {
    const W z = x - y;
    if (kNarrow) must(!less((x ^ y) & (x ^ z), W(0)));
    return z;
  }
  W product(W x, W y) {
    if (kNarrow) must(fabs(F::to_float(x) * F::to_float(y)) < F(0x1p30));
    return x * y;
  }
  /// The floor of x / y, or the remainder, for numbers below 2^24 or 2^52: their quotient as floats is an
  /// integer, or further from the next integer than its rounding error, so that its floor is exact.
  W divided(W x, W y, bool rest) {
    const F a = F::to_float(x), b = F::to_float(y), most(kNarrow ? 0x1p24 : 0x1p52);
    must((fabs(a) < most) & (fabs(b) < most));
    const F quotient = floor(a / b);
    return to_int(rest ? fma(-quotient, b, a) : quotient);
  }

  const GridProgram& p_;
  const int at_;
  const uint64_t lanes_;
  const Isa isa_;
  const bool in_block_, leaves_, in_turns_;  // leaves_: lanes leave a loop one by one
  GridNative& out_;
  ir::LaneBuilder builder_;
  static constexpr bool kNarrow = sizeof(T) == 4;
  Mask active_;       // in branches and loops that lanes leave
  Mask fine_ = true;  // must hold in all lanes
  bool inside_ = false,
       in_uniform_ = false;  // in_uniform_: if lanes take the same branch, writes are not masked
  std::map<int, bool> written_vector_;
  std::map<int, int> read_vector_;      // their operands
  std::map<int, int> written_number_;   // how often
  std::map<int, bool> varying_number_;  // of those seen: whether they vary
  std::map<int, int32_t> vector_, scalar_;
  std::map<int, First> carried_;
  int accesses_ = 0;
  First mask_{-1, 0}, counter_{-1, 0};  // of a loop that lanes leave
  struct Store {
    int32_t id;
    int place;
  };
  std::vector<Store> stores_;  // of a block
};

/// Null: it is left to the interpreter.
std::unique_ptr<Code> make(const GridProgram& p, int at, uint64_t lanes, GridNative& out) {
  ir::LaneProgram program;
  Isa isa;
  if (!jit_isa(isa) ||
      !(p.real == Dtype::f64 ? Recorder<double>(p, at, lanes, isa, out).record(program)
                             : Recorder<float>(p, at, lanes, isa, out).record(program)))
    return nullptr;
  uint64_t repeated = 0;
  for (int k = 0; k < out.operands; ++k) {
    const auto [kind, type, j] = out.operand[k];
    const bool one =
        p.code[at].code == GridCode::block && kind == GridNative::memory && !(lanes >> j & 1);
    repeated |= uint64_t(one || kind == GridNative::scalar) << k;
  }
  return compile(program, isa, repeated);
}

/// All that the code depends on, as a cache key.
std::string key_of(const GridProgram& p, int at, uint64_t lanes) {
  std::string key;
  const auto put = [&](int64_t x) { key.append(reinterpret_cast<const char*>(&x), sizeof x); };
  put(int(p.real)), put(int64_t(lanes)), put(int(p.code[at].code)), put(p.code[at].dst),
      put(p.code[at].c), put(p.code[at].flag), put(p.number_variables);
  for (int j = at + 1; j < p.code[at].end; ++j) {
    const GridInstruction& i = p.code[j];
    const bool branches = i.code == GridCode::branch;
    const bool leaves = i.code == GridCode::leave || i.code == GridCode::leave_if;
    for (const int x : {int(i.code), int(i.op), int(i.type), int(i.result), i.dst, i.b, i.c})
      put(x);
    put(leaves ? i.a - at : i.a);
    put(i.dst >= 0 && is_read_outside(p, at, i.dst));
    const bool loads = i.code == GridCode::load || i.code == GridCode::load_scalar;
    for (int k = 0; loads && k < i.indices; ++k)
      put(p.list[i.index + k].kind), put(p.list[i.index + k].at);
    put(i.masked), put(i.flag), put(branches ? i.other - j : 0), put(branches ? i.end - j : 0);
    for (const int ref : {i.a, i.b, i.c})  // the types of vectors that it reads
      put(i.code == GridCode::vector && ref >= 0 && ref < p.vectors ? int(p.vector_type[ref]) : 0);
  }
  return key;
}

}  // namespace

const GridNative& grid_native(const GridProgram& p, int at, uint64_t lanes) {
  struct Compiled {
    GridNative native;
    std::unique_ptr<Code> code;
  };
  static std::mutex lock;
  static auto* const all = new std::map<std::string, Compiled>;
  static const GridNative none{};
  if (p.code[at].end - at - 1 > kGridNativeLength) return none;
  const std::string key = key_of(p, at, lanes);
  const std::lock_guard guard(lock);
  const auto [found, is_new] = all->try_emplace(key);
  auto& [native, code] = found->second;
  if (is_new) code = make(p, at, lanes, native), native.code = code.get();
  return native;
}

}  // namespace mt
