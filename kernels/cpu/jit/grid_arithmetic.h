// grid_arithmetic.h -- operations of grid kernels recorded on lanes: guards keep integers exact
#pragma once
#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/cpu/jit/jit_x64.h"
#include "kernels/cpu/jit/lane_math.h"
#include "kernels/cpu/jit/lower.h"
#include "kernels/grid.h"

namespace mt {

/// Records operations of a kernel whose reals are T. Integers are int64 lanes in float64 kernels and int32 lanes in
/// float32 kernels. A guard fails in a vector where one would not be exact, or is divided by zero.
template <class T> class LaneArithmetic {
 protected:
  using F = ir::Lane<T>;
  using W = ir::LaneBits<T>;
  using Mask = ir::Mask;
  using V = GridValue;
  static constexpr bool kNarrow = sizeof(T) == 4;

  /// The integers that a value may have; what is not known has the range of its type.
  struct Range {
    double low = kNarrow ? -0x1p31 : -0x1p63, high = kNarrow ? 0x1p31 - 1 : 0x1p63;
    bool within(double end) const { return -end < low && high < end; }
  };

  /// `whole`: whether there are integers; `products`: also products and conversions, which 64 bits in AVX2 only have
  /// by doubles below 2^51.
  LaneArithmetic(Isa isa, bool whole, bool products)
      : builder_(sizeof(T)),
        whole_(whole),
        products_(products),
        by_doubles_(!kNarrow && isa != Isa::avx512) {}

  /// The value of an operation for these operands; -1: it is left to others.
  int32_t calculated(const V& v, const int32_t* id) {
    if (v.op == kConvert) return converted(v, id[0]);
    if (v.of != GridType::integer || v.op == op::id<op::Where>) {
      const int32_t out = ir::record_operation<T>(v.op, v.of == GridType::boolean, id, nullptr);
      if (v.of == GridType::integer) note_either(out, id[1], id[2]);
      return out;
    }
    if (v.divides && whole_ && products_) must(W::of(id[1]) != W(0));
    return of_integers(v.op, W::of(id[0]), W::of(id[1]));
  }
  /// The value of one of two operands, by a mask.
  static int32_t chosen(Mask m, int32_t yes, int32_t no, bool is_bool) {
    const int32_t choice[] = {m.id, yes, no};
    return ir::record_operation<T>(op::id<op::Where>, is_bool, choice, nullptr);
  }
  /// Adds a guard: the code stops if this does not hold in an active lane.
  void must(Mask m) { fine_ = fine_ & (inside_ ? m | !active_ : m); }

  Range range_of(W x) const {
    const auto known = range_.find(x.id);
    return known == range_.end() ? Range{} : known->second;
  }
  W with_range(W x, double low, double high) {
    const Range all;
    range_[x.id] = {std::max(low, all.low), std::min(high, all.high)};
    return x;
  }
  /// The value is one of two.
  void note_either(int32_t id, int32_t a, int32_t b) {
    const Range x = range_of(W::of(a)), y = range_of(W::of(b));
    with_range(W::of(id), std::min(x.low, y.low), std::max(x.high, y.high));
  }
  W whole_number(int64_t value) { return with_range(W(value), double(value), double(value)); }
  F to_real(W x) {
    if (!by_doubles_) return F::to_float(x);
    below(x, 0x1p51);
    const W magic(ir::word_of(0x1.8p52));
    return F::of_bits(x + magic) - F(0x1.8p52);
  }
  /// x has no fraction.
  W to_whole(F x) {
    if (!by_doubles_) return to_int(x);
    return to_bits(x + F(0x1.8p52)) - W(ir::word_of(0x1.8p52));
  }

  int32_t converted(const V& v, int32_t id) {
    if (v.type == v.of) return v.type != GridType::integer || whole_ ? id : -1;
    if (!whole_ || !products_ || v.of == GridType::boolean || v.type == GridType::boolean)
      return -1;
    if (v.type == GridType::real) return to_real(W::of(id)).id;
    const F x = F::of(id), end(kNarrow ? 0x1p31 : by_doubles_ ? 0x1p51 : 0x1p63);
    must((-end <= x) & (x < end));
    return to_whole(by_doubles_ ? trunc(x) : x).id;
  }
  int32_t of_integers(int op, W x, W y) {
    const bool divides = op::is<op::Remainder, op::FloorDivide>(op);
    if (!whole_ || (!products_ && (divides || op == op::id<op::Mul>))) return -1;
    const Range a = range_of(x), b = range_of(y);
    switch (op) {
      case op::id<op::Neg>: return difference(whole_number(0), x).id;
      case op::id<op::Abs>:
        if (a.low >= 0) return x.id;
        return with_range(select(less(x, W(0)), difference(whole_number(0), x), x), 0,
                          std::max(-a.low, a.high))
            .id;
      case op::id<op::Add>: return sum(x, y).id;
      case op::id<op::Sub>: return difference(x, y).id;
      case op::id<op::Mul>: return product(x, y).id;
      case op::id<op::LuaMin>:
        return with_range(select(less(x, y), x, y), std::min(a.low, b.low),
                          std::min(a.high, b.high))
            .id;
      case op::id<op::LuaMax>:
        return with_range(select(less(y, x), x, y), std::max(a.low, b.low),
                          std::max(a.high, b.high))
            .id;
      case op::id<op::Remainder>: return divided(x, y, true).id;
      case op::id<op::FloorDivide>: return divided(x, y, false).id;
      case op::id<op::BitwiseAnd>: return (x & y).id;
      case op::id<op::BitwiseOr>: return (x | y).id;
      case op::id<op::BitwiseXor>: return (x ^ y).id;
      case op::id<op::Lt>: return less(x, y).id;
      case op::id<op::Le>: return (!less(y, x)).id;
      case op::id<op::Eq>: return (x == y).id;
      case op::id<op::Ne>: return (x != y).id;
      default: return -1;
    }
  }

  W sum(W x, W y) {
    const W z = x + y;
    const Range a = range_of(x), b = range_of(y);
    if (kNarrow && !fits(a.low + b.low, a.high + b.high)) must(!less((x ^ z) & (y ^ z), W(0)));
    return with_range(z, a.low + b.low, a.high + b.high);
  }

  W difference(W x, W y) {
    const W z = x - y;
    const Range a = range_of(x), b = range_of(y);
    if (kNarrow && !fits(a.low - b.high, a.high - b.low)) must(!less((x ^ y) & (x ^ z), W(0)));
    return with_range(z, a.low - b.high, a.high - b.low);
  }
  static bool fits(double low, double high) { return low >= -0x1p31 && high < 0x1p31; }

  W product(W x, W y) {
    const Range a = range_of(x), b = range_of(y);
    const auto [low, high] =
        std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
    if (by_doubles_) {
      const F z = to_real(x) * to_real(y);
      if (!Range{low, high}.within(0x1p51)) must(fabs(z) < F(0x1p51));
      return with_range(to_whole(z), low, high);
    }
    if (kNarrow && !fits(low, high))
      for (const auto& [number, other] : {std::pair(a, x), std::pair(b, y)}) {
        const double end = std::floor(0x1p30 / std::fabs(number.low));
        if (number.low != number.high || end < 2) continue;
        below(other.id == x.id ? y : x, end);
        return with_range(x * y, -0x1p30, 0x1p30);
      }
    if (kNarrow && !fits(low, high)) must(fabs(F::to_float(x) * F::to_float(y)) < F(0x1p30));
    return with_range(x * y, low, high);
  }

  /// A guard that x is in the range -end < x < end, unless it is known.
  void below(W x, double end) {
    if (range_of(x).within(end)) return;
    must(W::compare(x + W(int64_t(end) - 1), W(2 * int64_t(end) - 1), ir::IntOrder::below));
  }
  /// The constant 2^n, or -1.
  int power_of_two(W x) const {
    const Range r = range_of(x);
    if (r.low != r.high || r.low < 1 || r.low >= 0x1p30) return -1;
    const auto value = uint32_t(r.low);
    return value & (value - 1) ? -1 : __builtin_ctz(value);
  }
  /// The floor of x / y, or the remainder, for numbers below 2^24 or 2^52: their quotient as floats is an
  /// integer, or further from the next integer than its rounding error, so that its floor is exact.
  W divided(W x, W y, bool rest) {
    const Range a = range_of(x), b = range_of(y);
    if (const int n = power_of_two(y); n >= 0) {
      if (rest) return with_range(x & W((int64_t(1) << n) - 1), 0, b.low - 1);
      const W down = a.low >= 0 ? x >> n : select(less(x, W(0)), ~(~x >> n), x >> n);
      return with_range(down, std::floor(a.low / b.low), std::floor(a.high / b.low));
    }
    // (x + 1/2) / y is at least 1 / 2y from an integer, which is more than the two rounding errors of the product
    if (b.low == b.high && b.low > 0 && b.within(kNarrow ? 0x1p21 : 0x1p50) &&
        a.within(kNarrow ? 0x1p21 : 0x1p50)) {
      const F p = to_real(x), down = floor((p + F(0.5)) * F(T(1) / T(b.low)));
      return rest ? with_range(to_whole(fma(-down, F(T(b.low)), p)), 0, b.low - 1)
                  : with_range(to_whole(down), std::floor(a.low / b.low),
                               std::floor(a.high / b.low));
    }
    const double end = kNarrow ? 0x1p24 : by_doubles_ ? 0x1p51 : 0x1p52;
    const F p = to_real(x), q = to_real(y), most(end);
    if (!a.within(end)) must(fabs(p) < most);
    if (!b.within(end)) must(fabs(q) < most);
    const F quotient = floor(p / q);
    const W out = to_whole(rest ? fma(-quotient, q, p) : quotient);
    if (b.low != b.high || b.low < 1) return out;
    return rest ? with_range(out, 0, b.low - 1)
                : with_range(out, std::floor(a.low / b.low), std::floor(a.high / b.low));
  }

  ir::LaneBuilder builder_;
  Mask active_ = true;  // in branches, and loops that lanes leave
  Mask fine_ = true;    // must hold in all lanes
  bool inside_ = false;
  const bool whole_, products_, by_doubles_;
  std::map<int32_t, Range> range_;  // by instruction
};

}  // namespace mt
