// lanes.cpp -- records lane programs: value numbering, constant folding, dead code elimination
#include "kernels/cpu/jit/lanes.h"

#include <cmath>
#include <cstring>
#include <utility>

namespace mt::ir {
namespace {

thread_local LaneBuilder* current_builder = nullptr;

template <class T> T to_float(uint64_t bits) {
  T x;
  std::memcpy(&x, &bits, sizeof(T));  // little-endian
  return x;
}
template <class T> uint64_t to_bits(T x) {
  uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof(T));
  return bits;
}

/// The result of a float instruction for constants, rounded by the hardware, as in the loops.
template <class T> T evaluate(LaneOp op, T a, T b, T c, uint64_t bits) {
  switch (op) {
    using enum LaneOp;
    case add: return a + b;
    case sub: return a - b;
    case mul: return a * b;
    case div: return a / b;
    case min: return a < b ? a : b;
    case max: return a > b ? a : b;
    case sqrt: return std::sqrt(a);
    case floor: return std::floor(a);
    case ceil: return std::ceil(a);
    case trunc: return std::trunc(a);
    case rint: return std::rint(a);
    case scale:
      return std::isnan(b) ? b : std::ldexp(a, int(std::fmax(T(-9999), std::fmin(b, T(9999)))));
    default: return std::fma(bits & kMinusProduct ? -a : a, b, bits & kMinusAddend ? -c : c);
  }
}
template <class T> bool compare_as(Order order, T a, T b) {
  switch (order) {
    using enum Order;
    case equal: return a == b;
    case less: return a < b;
    case less_equal: return a <= b;
    case not_equal: return !(a == b);
    case not_less: return !(a < b);
    default: return !(a <= b);
  }
}

/// 1 / x if it is exact, so that dividing by x equals multiplying by it; else 0.
template <class T> T exact_inverse(T x) {
  int exponent;
  const T m = std::frexp(std::fabs(x), &exponent), y = T(1) / x;
  return m == T(0.5) && std::isnormal(x) && std::isnormal(y) ? y : T(0);
}

}  // namespace

int inputs_of(LaneOp op) {
  using enum LaneOp;
  if (op <= position) return 0;
  if (op == fma || op == ternary || op == select) return 3;
  const bool one = (op >= sqrt && op <= rsqrt) || (op >= shl && op <= to_int) || op == mnot;
  return one || op == gather || (op >= guard && op != store_as) ? 1 : 2;
}
bool is_mask(LaneOp op) {
  return op == LaneOp::load_bool || op == LaneOp::truth ||
         (op >= LaneOp::compare && op <= LaneOp::mnot);
}
bool commutes(LaneOp op, uint64_t bits) {
  using enum LaneOp;
  if (op == compare) return bits == uint64_t(Order::equal) || bits == uint64_t(Order::not_equal);
  if (op == icompare) return bits == uint64_t(IntOrder::equal);
  const bool integers = op >= iadd && op <= ixor && op != isub, masks = op >= mand && op <= mxor;
  return integers || masks || op == add || op == mul || op == fma;  // of fma the factors
}

LaneBuilder::LaneBuilder(int item) : item_(item), before_(current_builder) {
  current_builder = this;
}
LaneBuilder::~LaneBuilder() { current_builder = before_; }
LaneBuilder& LaneBuilder::current() { return *current_builder; }

int32_t LaneBuilder::constant(uint64_t bits) { return add(LaneOp::constant, -1, -1, -1, bits); }
int32_t LaneBuilder::truth(bool value) { return add(LaneOp::truth, -1, -1, -1, value); }

void LaneBuilder::store(int operand, int32_t value) {
  const LaneOp op = is_mask(code_[value].op) ? LaneOp::store_bool : LaneOp::store;
  add(op, value, -1, -1, uint64_t(operand));
}

int32_t LaneBuilder::add(LaneOp op, int32_t a, int32_t b, int32_t c, uint64_t bits) {
  LaneInstruction x{op, {a, b, c}, line_, bits};
  if (const int32_t folded = fold(x); folded >= 0) return folded;
  if (commutes(x.op, x.bits) && x.in[0] > x.in[1]) std::swap(x.in[0], x.in[1]);
  return intern(x);
}

int32_t LaneBuilder::intern(const LaneInstruction& x) {
  const auto [at, is_new] =
      known_.try_emplace({x.op, x.in[0], x.in[1], x.in[2], x.bits}, int32_t(code_.size()));
  if (is_new) code_.push_back(x);
  return at->second;
}

// ---- folding: rewrites that give the same bits with less work (except the sign of a NaN) ------------

int32_t LaneBuilder::fold(LaneInstruction& x) {
  switch (x.op) {
    using enum LaneOp;
    case select: return fold_select(x);
    case mand:
    case mor:
    case mxor:
    case mnot: return fold_masks(x);
    default: break;
  }
  if (x.op >= LaneOp::iadd && x.op <= LaneOp::shr) return fold_integers(x);
  return x.op >= LaneOp::add && x.op <= LaneOp::compare ? fold_floats(x) : -1;
}

/// Whether `id` is -y; if so, sets it to y.
bool LaneBuilder::minus_of(int32_t& id) const {
  const LaneInstruction& x = code_[id];
  const uint64_t sign = uint64_t(1) << (8 * item_ - 1);
  if (x.op != LaneOp::ixor || !(is_bits(x.in[0], sign) || is_bits(x.in[1], sign))) return false;
  id = is_bits(x.in[0], sign) ? x.in[1] : x.in[0];
  return true;
}

int32_t LaneBuilder::fold_floats(LaneInstruction& x) {
  if (is_estimate(x.op) || is_conversion(x.op)) return -1;  // the hardware decides
  const int n = inputs_of(x.op);
  bool all = true;
  uint64_t v[3] = {};
  for (int k = 0; k < n; ++k) {
    all &= is(x.in[k], LaneOp::constant);
    v[k] = code_[x.in[k]].bits;
  }
  const auto with = [&]<class T>(T) -> int32_t {
    const T a = to_float<T>(v[0]), b = to_float<T>(v[1]), c = to_float<T>(v[2]);
    if (all && x.op == LaneOp::compare) return truth(compare_as(Order(x.bits), a, b));
    if (all) return constant(to_bits(evaluate(x.op, a, b, c, x.bits)));
    const bool divides = x.op == LaneOp::div && is(x.in[1], LaneOp::constant);
    if (const T inverse = divides ? exact_inverse(b) : T(0); inverse != T(0)) {
      x.op = LaneOp::mul;
      x.in[1] = constant(to_bits(inverse));
    }
    if (x.op == LaneOp::mul)
      for (int k = 0; k < 2; ++k)
        if (is_bits(x.in[k], to_bits(T(1)))) return x.in[1 - k];
    return -1;
  };
  if (const int32_t folded = item_ == 4 ? with(0.0f) : with(0.0); folded >= 0) return folded;
  if (x.op == LaneOp::fma) {
    if (minus_of(x.in[0]) != minus_of(x.in[1])) x.bits ^= kMinusProduct;
    if (minus_of(x.in[2])) x.bits ^= kMinusAddend;
  } else if (x.op == LaneOp::add && !is(x.in[0], LaneOp::constant)) {
    if (minus_of(x.in[1])) x.op = LaneOp::sub;
    else if (minus_of(x.in[0])) x.op = LaneOp::sub, std::swap(x.in[0], x.in[1]);
  } else if (x.op == LaneOp::sub && minus_of(x.in[1])) {
    x.op = LaneOp::add;
  }
  return -1;
}

int32_t LaneBuilder::fold_integers(LaneInstruction& x) {
  const uint64_t all = item_ == 4 ? 0xffffffffu : ~uint64_t(0);
  const bool unary = x.op == LaneOp::shl || x.op == LaneOp::shr;
  if (is(x.in[0], LaneOp::constant) && (unary || is(x.in[1], LaneOp::constant))) {
    const uint64_t a = code_[x.in[0]].bits, b = unary ? x.bits : code_[x.in[1]].bits;
    const uint64_t value = x.op == LaneOp::iadd       ? a + b
                           : x.op == LaneOp::isub     ? a - b
                           : x.op == LaneOp::imul     ? a * b
                           : x.op == LaneOp::iand     ? a & b
                           : x.op == LaneOp::ior      ? a | b
                           : x.op == LaneOp::ixor     ? a ^ b
                           : b >= 8 * uint64_t(item_) ? 0
                           : x.op == LaneOp::shl      ? a << b
                                                      : a >> b;
    return constant(value & all);
  }
  if (unary) return x.bits == 0 ? x.in[0] : -1;
  const bool neutral = x.op != LaneOp::isub && x.op != LaneOp::imul;
  for (int k = 0; k < 2; ++k) {
    const int32_t other = x.in[1 - k];
    const bool zero = is_bits(x.in[k], 0), ones = is_bits(x.in[k], all);
    if (zero && (x.op == LaneOp::iadd || x.op == LaneOp::ior || x.op == LaneOp::ixor)) return other;
    if ((zero && x.op == LaneOp::iand) || (ones && x.op == LaneOp::ior)) return x.in[k];
    if (ones && x.op == LaneOp::iand) return other;
  }
  if (x.op == LaneOp::isub && is_bits(x.in[1], 0)) return x.in[0];
  if (x.op == LaneOp::ixor) {  // (a ^ c) ^ c
    int32_t inner = x.in[0], given = x.in[1];
    if (!is(inner, LaneOp::ixor)) std::swap(inner, given);
    const LaneInstruction& y = code_[inner];
    if (y.op == LaneOp::ixor && y.in[0] == given) return y.in[1];
    if (y.op == LaneOp::ixor && y.in[1] == given) return y.in[0];
  }
  return neutral && x.in[0] == x.in[1] && x.op != LaneOp::iadd
             ? (x.op == LaneOp::ixor ? constant(0) : x.in[0])
             : -1;
}

int32_t LaneBuilder::fold_masks(LaneInstruction& x) {
  if (x.op == LaneOp::mnot) {
    const LaneInstruction y = code_[x.in[0]];
    if (y.op == LaneOp::truth) return truth(!y.bits);
    if (y.op == LaneOp::mnot) return y.in[0];
    if (y.op == LaneOp::compare) {
      const uint64_t order = y.bits < 3 ? y.bits + 3 : y.bits - 3;
      return add(LaneOp::compare, y.in[0], y.in[1], -1, order);
    }
    return -1;
  }
  if (x.in[0] == x.in[1]) return x.op == LaneOp::mxor ? truth(false) : x.in[0];
  for (int k = 0; k < 2; ++k) {
    if (!is(x.in[k], LaneOp::truth)) continue;
    const int32_t other = x.in[1 - k];
    const bool value = code_[x.in[k]].bits;
    if (x.op == LaneOp::mxor) return value ? add(LaneOp::mnot, other) : other;
    return value == (x.op == LaneOp::mand) ? other : x.in[k];
  }
  return -1;
}

int32_t LaneBuilder::fold_select(LaneInstruction& x) {
  const LaneInstruction m = code_[x.in[0]];
  if (m.op == LaneOp::truth) return m.bits ? x.in[1] : x.in[2];
  if (x.in[1] == x.in[2]) return x.in[1];
  if (m.op == LaneOp::mnot) return add(LaneOp::select, m.in[0], x.in[2], x.in[1]);
  if (m.op != LaneOp::compare) return -1;
  // The min and max instructions return the second operand for NaN and for two zeros.
  const Order order{uint8_t(m.bits)};
  const bool same = m.in[0] == x.in[1] && m.in[1] == x.in[2];
  const bool crossed = m.in[0] == x.in[2] && m.in[1] == x.in[1];
  if (order == Order::less && same) return add(LaneOp::min, x.in[1], x.in[2]);
  if (order == Order::less && crossed) return add(LaneOp::max, x.in[1], x.in[2]);
  if (order == Order::not_less && same) return add(LaneOp::max, x.in[2], x.in[1]);
  if (order == Order::not_less && crossed) return add(LaneOp::min, x.in[2], x.in[1]);
  return -1;
}

// ---- finish -------------------------------------------------------------------------------------

LaneProgram LaneBuilder::finish() {
  std::vector<int32_t> new_id(code_.size(), -1);
  std::vector<bool> needed(code_.size(), false);
  size_t last_barrier = 0;  // the last load or guard; stores are placed after it
  for (const LaneProgram::Carry& c : carries_) needed[c.next] = true;
  for (size_t i = code_.size(); i-- > 0;) {
    if (!is_effect(code_[i].op) && !needed[i]) continue;
    needed[i] = true;
    for (int k = 0; k < inputs_of(code_[i].op); ++k) needed[code_[i].in[k]] = true;
  }
  for (size_t i = 0; i < code_.size(); ++i) {
    const LaneOp op = code_[i].op;
    if (needed[i] && (reads(op) || op == LaneOp::guard)) last_barrier = i;
  }
  LaneProgram program;
  program.item = item_;
  std::vector<size_t> delayed;
  const auto put = [&](size_t i) {
    new_id[i] = int32_t(program.code.size());
    LaneInstruction x = code_[i];
    for (int k = 0; k < inputs_of(x.op); ++k) x.in[k] = new_id[x.in[k]];
    if ((reads(x.op) || is_store(x.op)) && int(x.operand()) >= program.operands)
      program.operands = int(x.operand()) + 1;
    program.code.push_back(x);
  };
  for (size_t i = 0; i < code_.size(); ++i) {
    if (!needed[i]) continue;
    if (is_store(code_[i].op) && i < last_barrier) delayed.push_back(i);
    else put(i);
    if (i == last_barrier)
      for (const size_t w : delayed) put(w);
  }
  for (const LaneProgram::Carry& c : carries_)
    program.carries.push_back({new_id[c.first], new_id[c.next]});
  if (active_ >= 0) program.active = new_id[active_];
  return program;
}

}  // namespace mt::ir
