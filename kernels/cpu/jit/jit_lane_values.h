// jit_lane_values.h -- integers and booleans of neighbouring threads of a grid kernel, by vector instructions
#pragma once
#include "kernels/cpu/jit/jit_thread_values.h"

namespace mt {

/// Layer 4 of the machine code of threads: integers and booleans in lanes.
class LaneValues : protected ThreadValues {
 protected:
  using ThreadValues::ThreadValues;

  // ---- booleans ------------------------------------------------------------------------------------

  void mask(const V& v, Used used) override {
    const int r = used.real;
    if (r + parts_ > kReals - 1) return void(fine_ = false);
    if (!steps_->varies(v)) return spread_truth(v, used);
    if (v.kind == V::variable) return load_mask(home_slot(v), r);
    if (v.kind == V::load) return load_wholes(v, used), test(r);
    if (v.kind != V::operation) return void(fine_ = false);
    const V& x = *v.args[0];
    if (v.op == op::id<op::LogicalNot>) return mask(x, used), invert(r);
    if (v.converts() && x.type != GridType::real)
      return x.type == GridType::boolean ? mask(x, used) : (wholes(x, used), test(r));
    if (v.converts() || v.op == op::id<op::Where> || v.args.count != 2)
      return v.op == op::id<op::Where> ? choose_masks(v, used) : void(fine_ = false);
    if (x.type == GridType::boolean) return combine(v, used);
    if (!compares(v)) return void(fine_ = false);
    if (x.type == GridType::integer) return compare_wholes(v, used);
    const Two t = two(v, used, true);
    const uint8_t order = order_of(v);
    if (wide_) MT_PACKED(vcmp, kmask(r), t.x, t.operand(), order);
    else MT_PACKED(vcmp, Ymm(r), t.x, t.operand(), order);
  }
  void spread_truth(const V& v, Used used) {
    evaluate(v, used);
    const Reg64 x = temporary(used.whole);
    asm_.neg(x);
    if (!wide_) return broadcast_whole(used.real, x);
    asm_.and_(x.cvt32(), (1 << lanes_) - 1);
    asm_.kmovw(kmask(used.real), x.cvt32());
  }
  void combine(const V& v, Used used) {
    const int r = used.real;
    const bool equal = v.has<op::Eq>(), differs = equal || v.has<op::Ne, op::LogicalXor>();
    int s = r + 1;
    if (s + parts_ <= kReals - 1) {
      mask(*v.args[0], used), mask(*v.args[1], used.reals(1));
    } else {
      const int slot = take_lanes();
      mask(*v.args[1], used), save_mask(slot, r);
      mask(*v.args[0], used), load_mask(slot, s = kScratch);
    }
    if (differs) MT_MASKS(kxor, vxor, r, r, s);
    else if (v.has<op::LogicalAnd>()) MT_MASKS(kand, vand, r, r, s);
    else if (v.has<op::LogicalOr>()) MT_MASKS(kor, vor, r, r, s);
    else fine_ = false;
    if (equal) invert(r);
  }
  void choose_masks(const V& v, Used used) {  // no ^ (c & (yes ^ no))
    const int r = used.real, c = take_lanes(), no = take_lanes();
    mask(*v.args[0], used), save_mask(c, r);
    mask(*v.args[2], used), save_mask(no, r);
    mask(*v.args[1], used);
    load_mask(no, kScratch);
    MT_MASKS(kxor, vxor, r, r, kScratch);
    load_mask(c, kScratch);
    MT_MASKS(kand, vand, r, r, kScratch);
    load_mask(no, kScratch);
    MT_MASKS(kxor, vxor, r, r, kScratch);
  }
  /// AVX-512: the mask of temporary r, of which f(mask, p) computes part p.
  void join_masks(int r, const auto& f) {
    for (int p = parts_; p-- > 0;) f(p > 0 ? k7() : kmask(r), p);
    if (parts_ == 2) asm_.kunpckbw(kmask(r), k7(), kmask(r));
  }
  /// Compares with 0.
  void test(int r) {
    if (wide_)
      return join_masks(r,
                        [&](const Opmask& m, int p) { asm_.vptestmq(m, Zmm(r + p), Zmm(r + p)); });
    asm_.vpxor(Ymm(kScratch), Ymm(kScratch), Ymm(kScratch));
    for (int p = 0; p < parts_; ++p) asm_.vpcmpeqq(Ymm(r + p), Ymm(r + p), Ymm(kScratch));
    pack(r), invert(r);
  }
  void compare_wholes(const V& v, Used used) {
    const int r = used.real, s = two_wholes(*v.args[0], *v.args[1], used), order = order_of(v);
    if (wide_)
      return join_masks(r, [&](const Opmask& m, int p) {
        asm_.vpcmpq(m, Zmm(r + p), Zmm(s + p), uint8_t(order));
      });
    for (int p = 0; p < parts_; ++p) {
      const Ymm x(r + p), y(s + p);
      if (order == 1) asm_.vpcmpgtq(x, y, x);
      else order == 2 ? asm_.vpcmpgtq(x, x, y) : asm_.vpcmpeqq(x, x, y);
    }
    pack(r);
    if (order == 2 || order == 4) invert(r);
  }

  // ---- integers ------------------------------------------------------------------------------------

  /// The vectors that begin with a number and grow by `step`.
  void spread_whole(int r, const Reg64& from, int64_t step) {
    broadcast_whole(r, from);
    for (int p = 1; p < parts_; ++p) asm_.vmovaps(part(r + p), part(r));
    for (int p = 0; step != 0 && p < parts_; ++p)
      asm_.vpaddq(part(r + p), part(r + p), asm_.ptr[asm_.rip + tables_[step] + p * part_bytes_]);
  }
  /// Computes x into the temporaries, and returns where y is.
  int two_wholes(const V& x, const V& y, Used used) {
    if (used.real + 2 * parts_ <= kReals)
      return wholes(x, used), wholes(y, used.reals(parts_)), used.real + parts_;
    const int slot = take_lanes();
    wholes(y, used), save_parts(slot, used.real);
    wholes(x, used), load_parts(slot, kScratch);
    return kScratch;
  }
  /// Computes an integer into the first free temporaries.
  void wholes(const V& v, Used used) override {
    const int r = used.real;
    if (r + parts_ > kReals) return void(fine_ = false);
    if (const int64_t step = steps_->of(v); step != kVaries)
      return spread_whole(r, whole(v, used), step);
    if (v.type == GridType::boolean) return mask(v, used), mask_to_wholes(r);
    if (v.kind == V::variable) return load_parts(home_slot(v), r);
    if (v.kind == V::load) return load_wholes(v, used);
    if (v.kind != V::operation || v.divides) return void(fine_ = false);
    const V& x = *v.args[0];
    if (v.converts()) return convert_to_wholes(x, used);
    if (const V* same = unwrapped(v)) return wholes(*same, used);
    if (v.op == op::id<op::Where>) return choose_wholes(v, used);
    if (v.op == op::id<op::Neg>) {
      wholes(x, used);
      asm_.vpxor(Xmm(kScratch), Xmm(kScratch), Xmm(kScratch));
      for (int p = 0; p < parts_; ++p) asm_.vpsubq(part(r + p), part(kScratch), part(r + p));
      return;
    }
    if (is_shift(v)) return shift(v, used);
    if (const int by = bits_shifted(v); by >= 0) {
      wholes(x, used);
      for (int p = 0; p < parts_ && v.has<op::BitwiseLeftShift>(); ++p)
        asm_.vpsllq(part(r + p), part(r + p), uint8_t(by));
      return v.has<op::BitwiseRightShift>() ? shift_right(r, by) : void();
    }
    const bool plain = v.has<op::Add, op::Sub, op::LuaMin, op::LuaMax>() || is_bitwise(v);
    if (!plain && !(wide_ && v.op == op::id<op::Mul>)) return call(v, used, true);
    const int s = two_wholes(x, *v.args[1], used);
    for (int p = 0; p < parts_; ++p) whole_operation(v.op, part(r + p), part(s + p));
  }
  void whole_operation(int op, const Xmm& x, const Xmm& y) {
    const bool least = op == op::id<op::LuaMin>;
    switch (op) {
      case op::id<op::Add>: return asm_.vpaddq(x, x, y);
      case op::id<op::Sub>: return asm_.vpsubq(x, x, y);
      case op::id<op::Mul>: return asm_.vpmullq(x, x, y);
      case op::id<op::BitwiseAnd>: return asm_.vandps(x, x, y);
      case op::id<op::BitwiseOr>: return asm_.vorps(x, x, y);
      case op::id<op::BitwiseXor>: return asm_.vxorps(x, x, y);
      default: break;
    }
    if (wide_) return least ? asm_.vpminsq(x, x, y) : asm_.vpmaxsq(x, x, y);
    asm_.vpcmpgtq(Ymm(kThird), Ymm(x.getIdx()), y);
    if (least) asm_.vblendvpd(x, x, y, Ymm(kThird));
    else asm_.vblendvpd(x, y, x, Ymm(kThird));
  }
  /// A quotient by a power of two, or its remainder.
  void shift(const V& v, Used used) {
    const auto by = int64_t(v.args[1]->value);
    wholes(*v.args[0], used);
    if (v.has<op::FloorDivide>()) return shift_right(used.real, __builtin_ctzll(uint64_t(by)));
    asm_.mov(rax, by - 1), broadcast_whole(kScratch, rax);
    for (int p = 0; p < parts_; ++p)
      asm_.vandps(part(used.real + p), part(used.real + p), part(kScratch));
  }
  /// Shifts the integers in the registers from r on, and copies their signs. AVX2 has no such instruction: with the
  /// bit m where the sign arrives, it is (x ^ m) - m for what zeros were shifted into.
  void shift_right(int r, int by) {
    if (!wide_) asm_.mov(rax, uint64_t(1) << (63 - by)), broadcast_whole(kScratch, rax);
    for (int p = 0; p < parts_; ++p) {
      const Xmm x = part(r + p), m = part(kScratch);
      if (wide_) asm_.vpsraq(x, x, uint8_t(by));
      else asm_.vpsrlq(x, x, uint8_t(by)), asm_.vpxor(x, x, m), asm_.vpsubq(x, x, m);
    }
  }
  void convert_to_wholes(const V& x, Used used) {
    const int r = used.real;
    if (x.type != GridType::real) return wholes(x, used);
    const int in = take_lanes(), out = take_lanes();
    move_real(lane_slot(in), real(x, used, true));
    each_lane(used, used.whole < 2, [&](const Reg64& lane) {
      const Reg64 word = temporary(used.whole + 1);
      move_real(xmm0, asm_.ptr[lane_place(in) + lane * item_]);
      truncate(word, xmm0);
      asm_.mov(asm_.ptr[lane_place(out) + lane * 8], word);
    });
    load_parts(out, r);
  }
  /// Integers 0 or 1 of the mask of a temporary.
  void mask_to_wholes(int r) {
    if (r + parts_ > kReals) return void(fine_ = false);
    for (int p = parts_; p-- > 0;) {
      if (wide_) {
        if (p > 0) asm_.kshiftrw(k7(), kmask(r), 8);
        asm_.vpmovm2q(Zmm(r + p), p > 0 ? k7() : kmask(r));
      } else {
        unpack(r + p, r, p);
      }
      asm_.vpsrlq(part(r + p), part(r + p), 63);
    }
  }
  void choose_wholes(const V& v, Used used) {
    const int r = used.real, c = take_lanes();
    mask(*v.args[0], used), save_mask(c, r);
    const int no = two_wholes(*v.args[1], *v.args[2], used);
    blend_parts(c, r, r, no);
  }
  /// The lanes of `yes` that are set in the mask of a slot, otherwise those of `no`.
  void blend_parts(int slot, int to, int yes, int no) {
    if (wide_) asm_.kmovw(k7(), lane_slot(slot));
    for (int p = 0; p < parts_; ++p) {
      if (wide_) {
        if (p > 0) asm_.kshiftrw(k7(), k7(), 8);
        asm_.vpblendmq(Zmm(to + p) | k7(), Zmm(no + p), Zmm(yes + p));
      } else {
        asm_.vmovups(Ymm(kThird), lane_slot(slot));
        unpack(kThird, kThird, p);
        asm_.vblendvpd(Ymm(to + p), Ymm(no + p), Ymm(yes + p), Ymm(kThird));
      }
    }
  }
};

}  // namespace mt
