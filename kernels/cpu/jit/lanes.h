// lanes.h -- the lane program: float formulas recorded as instructions, for jit_x64.h
//
// Only for the host compiler. A lane is one element of a vector register. A formula called with T =
// Lane<float> or Lane<double> records its computation in the LaneBuilder of this thread:
// straight-line code in static single assignment form, with one element width. Equal instructions
// are recorded once, constants are folded with the rounding of the loops, and code that no store or
// guard uses is removed.
#pragma once
#include <cstdint>
#include <map>
#include <tuple>
#include <type_traits>
#include <vector>

#include "kernels/base.h"

namespace mt::ir {

/// The function of `in` and `bits` that an instruction computes.
enum class LaneOp : uint8_t {
  // values: `bits` is the operand or the parameter of a run, or the bits of the constant
  load,       // an element of an operand
  load_bool,  // an element of a bool operand, as a mask
  load_as,  // an element of an operand of another dtype or stride, converted; `bits`: element_bits
  load_turn,  // in a program with iterations: an element of an operand that moves per iteration
  load_one,   // the same, but one element for all lanes
  number,     // a parameter
  constant,   // bits of an element
  truth,      // a mask that is `bits` in all lanes
  position,   // the index of the element, as an integer
  // floats
  add,
  sub,
  mul,
  div,
  min,  // a < b ? a : b
  max,  // a > b ? a : b
  sqrt,
  floor,
  ceil,
  trunc,
  rint,
  inverse,  // 1 / a for math::core::about_inverse: rounded in AVX2, within 2^-14 in AVX-512; of float32
  rsqrt,  // 1 / sqrt(a) with the same precision, for about_rsqrt
  scale,  // a 2^b rounded once; 0.5 <= |a| < 2, b an integer, b / 2 an exponent of a normal number
  fma,    // a * b + c rounded once; `bits`: kMinusProduct, kMinusAddend
  // integers of the same width, and the bits of floats
  iadd,
  isub,
  imul,
  iand,
  ior,
  ixor,
  shl,  // by `bits`
  shr,
  to_float,  // a signed integer as a float; 64 bits only in AVX-512, as imul and to_int
  to_int,    // a float truncated to an integer
  ternary,   // the bitwise function of three values with the table `bits`; created by the emitter
  // masks
  compare,   // of floats, `bits` is an Order
  icompare,  // on integers: equal, below (unsigned) or less (signed)
  mand,
  mor,
  mxor,
  mnot,
  select,  // a ? b : c
  gather,  // the element a after the first one of an operand, converted; `bits`: element_bits
  // effects
  guard,       // a must be true in all lanes
  store,       // a to operand `bits`
  store_bool,  // the mask a
  store_as     // a, converted, where the mask b holds; `bits`: element_bits
};

/// The operand of a load or store with its dtype. A strided operand has its stride in bytes in data[operands + k].
/// `high`: of int64 elements the upper half, in lanes of 32 bits.
constexpr uint64_t element_bits(int operand, Dtype d, bool strided, bool high = false) {
  return uint64_t(operand) | uint64_t(d) << 8 | uint64_t(strided) << 16 | uint64_t(high) << 17;
}

enum : uint64_t { kMinusProduct = 1, kMinusAddend = 2 };

/// Comparisons of floats; those with "not" are true if an operand is NaN.
enum class Order : uint8_t { equal, less, less_equal, not_equal, not_less, not_less_equal };
enum class IntOrder : uint8_t { equal, below, less };

struct LaneInstruction {
  LaneOp op;
  int32_t in[3];  // instructions; -1: none
  int32_t line;   // of the Lua source; 0: unknown
  uint64_t bits;
  // Of a load or store:
  uint64_t operand() const { return bits & 0xff; }
  Dtype dtype() const { return Dtype(bits >> 8 & 0xff); }
  bool is_strided() const { return bits >> 16 & 1; }
  bool is_high() const { return bits >> 17 & 1; }
};

/// The number of inputs in `in`.
int inputs_of(LaneOp);
/// Whether the value is a mask, as opposed to a number or its bits.
bool is_mask(LaneOp);
/// Whether the first two inputs can be exchanged.
bool commutes(LaneOp, uint64_t bits);
inline bool is_estimate(LaneOp op) { return op == LaneOp::inverse || op == LaneOp::rsqrt; }
inline bool is_effect(LaneOp op) { return op >= LaneOp::guard; }
inline bool is_conversion(LaneOp op) { return op == LaneOp::to_float || op == LaneOp::to_int; }
inline bool is_load(LaneOp op) { return op <= LaneOp::load_one; }
/// Whether it reads an operand in memory.
inline bool reads(LaneOp op) { return is_load(op) || op == LaneOp::gather; }
/// Whether the operand moves with each iteration.
inline bool is_moving(LaneOp op) { return op == LaneOp::load_turn || op == LaneOp::load_one; }
inline bool is_store(LaneOp op) { return op >= LaneOp::store; }
/// The element size in bytes of the operand of a load or store.
inline int operand_item(const LaneInstruction& x, int item) {
  if (x.op == LaneOp::load_as || x.op == LaneOp::gather || x.op == LaneOp::store_as)
    return int(item_size(x.dtype()));
  return x.op == LaneOp::load_bool || x.op == LaneOp::store_bool ? 1 : item;
}

/// A program is immutable. All loads and guards come before the first store. With `carries` it is a
/// loop for each lane: everything except `load` and `store` runs in every iteration; then the value
/// `first`, a load, is replaced by `next`. Stores write such values at the end. With `active`, a
/// carried mask, the loop ends when it is false in all lanes; a guard that fails ends the loop too,
/// and nothing is stored for the lanes concerned.
struct LaneProgram {
  struct Carry {
    int32_t first, next;
  };
  std::vector<LaneInstruction> code;
  std::vector<Carry> carries;
  int32_t active = -1;
  int item = 4;      // bytes of an element: 4 or 8
  int operands = 0;  // operands of loads and stores are below it
};

/// Records the instructions of one program. The last one created in a thread is its `current`.
class LaneBuilder {
 public:
  explicit LaneBuilder(int item);
  ~LaneBuilder();
  LaneBuilder(const LaneBuilder&) = delete;
  static LaneBuilder& current();

  int32_t constant(uint64_t bits);
  int32_t truth(bool);
  /// Records an instruction, or returns an equal one, or the value that it folds to.
  int32_t add(LaneOp, int32_t a = -1, int32_t b = -1, int32_t c = -1, uint64_t bits = 0);
  void guard(int32_t mask) { add(LaneOp::guard, mask); }
  /// Stores a number or a mask.
  void store(int operand, int32_t value);
  /// At the end of each iteration the load `first` becomes `next`.
  void carry(int32_t first, int32_t next) { carries_.push_back({first, next}); }
  /// The carried load with the mask of the lanes that run an iteration.
  void set_active(int32_t first) { active_ = first; }
  /// Sets the line of the instructions that follow.
  void set_line(int32_t line) { line_ = line; }
  LaneProgram finish();

 private:
  int32_t intern(const LaneInstruction&);
  int32_t fold(LaneInstruction&);
  int32_t fold_floats(LaneInstruction&);
  int32_t fold_integers(LaneInstruction&);
  int32_t fold_masks(LaneInstruction&);
  int32_t fold_select(LaneInstruction&);
  bool is(int32_t id, LaneOp op) const { return code_[id].op == op; }
  bool is_bits(int32_t id, uint64_t bits) const {
    return is(id, LaneOp::constant) && code_[id].bits == bits;
  }
  bool minus_of(int32_t& id) const;

  std::vector<LaneInstruction> code_;
  std::vector<LaneProgram::Carry> carries_;
  int32_t active_ = -1;
  std::map<std::tuple<LaneOp, int32_t, int32_t, int32_t, uint64_t>, int32_t> known_;
  int item_;
  int32_t line_ = 0;
  LaneBuilder* const before_;
};

inline int32_t record(LaneOp op, int32_t a, int32_t b = -1, int32_t c = -1, uint64_t bits = 0) {
  return LaneBuilder::current().add(op, a, b, c, bits);
}
/// The bits of a float or double in the low part of a word.
inline uint64_t word_of(float x) { return __builtin_bit_cast(uint32_t, x); }
inline uint64_t word_of(double x) { return __builtin_bit_cast(uint64_t, x); }

/// A bool in each lane.
struct Mask {
  int32_t id;
  Mask() : id(-1) {}
  Mask(bool value) : id(LaneBuilder::current().truth(value)) {}
  static Mask of(int32_t id) {
    Mask m;
    m.id = id;
    return m;
  }
  friend Mask operator&(Mask a, Mask b) { return of(record(LaneOp::mand, a.id, b.id)); }
  friend Mask operator|(Mask a, Mask b) { return of(record(LaneOp::mor, a.id, b.id)); }
  friend Mask operator^(Mask a, Mask b) { return of(record(LaneOp::mxor, a.id, b.id)); }
  friend Mask operator!=(Mask a, Mask b) { return a ^ b; }
  friend Mask operator==(Mask a, Mask b) { return !(a ^ b); }
  friend Mask operator!(Mask a) { return of(record(LaneOp::mnot, a.id)); }
};

/// The bits of a Lane<T> as an unsigned integer.
template <class T> struct LaneBits {
  int32_t id;
  LaneBits() : id(-1) {}
  template <class N, class = std::enable_if_t<std::is_integral_v<N>>>
  LaneBits(N value)
      : id(LaneBuilder::current().constant(sizeof(T) == 4 ? uint32_t(value) : uint64_t(value))) {}
  static LaneBits of(int32_t id) {
    LaneBits b;
    b.id = id;
    return b;
  }
  friend LaneBits operator+(LaneBits a, LaneBits b) { return of(record(LaneOp::iadd, a.id, b.id)); }
  friend LaneBits operator-(LaneBits a, LaneBits b) { return of(record(LaneOp::isub, a.id, b.id)); }
  friend LaneBits operator*(LaneBits a, LaneBits b) { return of(record(LaneOp::imul, a.id, b.id)); }
  friend LaneBits operator&(LaneBits a, LaneBits b) { return of(record(LaneOp::iand, a.id, b.id)); }
  friend LaneBits operator|(LaneBits a, LaneBits b) { return of(record(LaneOp::ior, a.id, b.id)); }
  friend LaneBits operator^(LaneBits a, LaneBits b) { return of(record(LaneOp::ixor, a.id, b.id)); }
  friend LaneBits operator~(LaneBits a) { return a ^ LaneBits(-1); }
  friend LaneBits operator<<(LaneBits a, int n) {
    return of(record(LaneOp::shl, a.id, -1, -1, uint64_t(n)));
  }
  friend LaneBits operator>>(LaneBits a, int n) {
    return of(record(LaneOp::shr, a.id, -1, -1, uint64_t(n)));
  }
  friend Mask operator==(LaneBits a, LaneBits b) { return compare(a, b, IntOrder::equal); }
  friend Mask operator!=(LaneBits a, LaneBits b) { return !(a == b); }
  friend Mask operator<(LaneBits a, LaneBits b) { return compare(a, b, IntOrder::below); }
  friend Mask operator>(LaneBits a, LaneBits b) { return b < a; }
  friend Mask operator<=(LaneBits a, LaneBits b) { return !(b < a); }
  friend Mask operator>=(LaneBits a, LaneBits b) { return !(a < b); }
  /// Compares as signed integers.
  friend Mask less(LaneBits a, LaneBits b) { return compare(a, b, IntOrder::less); }
  friend LaneBits select(Mask m, LaneBits a, LaneBits b) {
    return of(record(LaneOp::select, m.id, a.id, b.id));
  }
  static Mask compare(LaneBits a, LaneBits b, IntOrder order) {
    return Mask::of(record(LaneOp::icompare, a.id, b.id, -1, uint64_t(order)));
  }
};

/// A float or double in each lane.
template <class T> struct Lane {
  int32_t id;
  Lane() : id(-1) {}
  template <class N, class = std::enable_if_t<std::is_arithmetic_v<N>>>
  Lane(N value) : id(LaneBuilder::current().constant(word_of(T(value)))) {}
  static Lane of(int32_t id) {
    Lane x;
    x.id = id;
    return x;
  }
  static Lane load(int operand) { return of(record(LaneOp::load, -1, -1, -1, uint64_t(operand))); }
  static Lane number(int which) { return of(record(LaneOp::number, -1, -1, -1, uint64_t(which))); }

  friend Lane operator+(Lane a, Lane b) { return of(record(LaneOp::add, a.id, b.id)); }
  friend Lane operator-(Lane a, Lane b) { return of(record(LaneOp::sub, a.id, b.id)); }
  friend Lane operator*(Lane a, Lane b) { return of(record(LaneOp::mul, a.id, b.id)); }
  friend Lane operator/(Lane a, Lane b) { return of(record(LaneOp::div, a.id, b.id)); }
  friend Lane operator-(Lane a) { return of_bits(to_bits(a) ^ sign()); }
  Lane& operator+=(Lane b) { return *this = *this + b; }
  Lane& operator-=(Lane b) { return *this = *this - b; }
  Lane& operator*=(Lane b) { return *this = *this * b; }
  Lane& operator/=(Lane b) { return *this = *this / b; }
  friend Mask operator==(Lane a, Lane b) { return compare(a, b, Order::equal); }
  friend Mask operator!=(Lane a, Lane b) { return compare(a, b, Order::not_equal); }
  friend Mask operator<(Lane a, Lane b) { return compare(a, b, Order::less); }
  friend Mask operator<=(Lane a, Lane b) { return compare(a, b, Order::less_equal); }
  friend Mask operator>(Lane a, Lane b) { return b < a; }
  friend Mask operator>=(Lane a, Lane b) { return b <= a; }
  friend Lane select(Mask m, Lane a, Lane b) {
    return of(record(LaneOp::select, m.id, a.id, b.id));
  }
  friend Lane fma(Lane a, Lane b, Lane c) { return of(record(LaneOp::fma, a.id, b.id, c.id)); }
  friend Lane scale(Lane a, Lane b) { return of(record(LaneOp::scale, a.id, b.id)); }
  friend Lane about_inverse(Lane a) {
    if constexpr (sizeof(T) == 8) return Lane(1) / a;
    else return of(record(LaneOp::inverse, a.id));
  }
  friend Lane about_rsqrt(Lane a) {
    if constexpr (sizeof(T) == 8) return Lane(1) / sqrt(a);
    else return of(record(LaneOp::rsqrt, a.id));
  }
  friend Lane sqrt(Lane a) { return of(record(LaneOp::sqrt, a.id)); }
  friend Lane floor(Lane a) { return of(record(LaneOp::floor, a.id)); }
  friend Lane ceil(Lane a) { return of(record(LaneOp::ceil, a.id)); }
  friend Lane trunc(Lane a) { return of(record(LaneOp::trunc, a.id)); }
  friend Lane rint(Lane a) { return of(record(LaneOp::rint, a.id)); }
  friend Lane fabs(Lane a) { return of_bits(to_bits(a) & ~sign()); }
  friend Lane copysign(Lane a, Lane b) {
    return of_bits((to_bits(a) & ~sign()) | (to_bits(b) & sign()));
  }
  /// Conversion from signed integers, and to them by truncation.
  static Lane to_float(LaneBits<T> a) { return of(record(LaneOp::to_float, a.id)); }
  friend LaneBits<T> to_int(Lane a) { return LaneBits<T>::of(record(LaneOp::to_int, a.id)); }
  friend LaneBits<T> to_bits(Lane a) { return LaneBits<T>::of(a.id); }
  static Lane of_bits(LaneBits<T> b) { return of(b.id); }
  static LaneBits<T> sign() { return LaneBits<T>(uint64_t(1) << (8 * sizeof(T) - 1)); }
  static Mask compare(Lane a, Lane b, Order order) {
    return Mask::of(record(LaneOp::compare, a.id, b.id, -1, uint64_t(order)));
  }
};
template <class L> L from_bits(LaneBits<float> b) { return L::of_bits(b); }
template <class L> L from_bits(LaneBits<double> b) { return L::of_bits(b); }

}  // namespace mt::ir
