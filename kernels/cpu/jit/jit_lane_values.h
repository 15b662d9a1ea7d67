// jit_lane_values.h -- computes the values of neighbouring threads of a grid kernel by vector instructions
#pragma once
#include "kernels/cpu/jit/jit_lane_access.h"

namespace mt {

/// Layer 4 of the machine code of threads: values in lanes.
class LaneValues : protected LaneAccess {
 protected:
  using LaneAccess::LaneAccess;

  // ---- booleans ------------------------------------------------------------------------------------

  /// Computes a boolean as the mask of the first free temporary.
  void mask(const V& v, Used used) {
    const int r = used.real;
    if (r + parts_ > kStack - 1) return void(fine_ = false);
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
    const Two t = two_reals(v, used);
    const uint8_t order = order_of(v);
    if (wide_) MT_PACKED(vcmp, kmask(r), t.x, t.y, order);
    else MT_PACKED(vcmp, Ymm(r), t.x, t.y, order);
  }
  void invert(int r) {
    if (wide_) return MT_LANES_MASK(knot, kmask(r), kmask(r));
    asm_.vpcmpeqd(Ymm(kScratch), Ymm(kScratch), Ymm(kScratch));
    asm_.vxorps(Ymm(r), Ymm(r), Ymm(kScratch));
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
    const int r = used.real, s = two_masks(*v.args[0], *v.args[1], used);
    const bool equal = v.op == op::id<op::Eq>;
    const bool differs = equal || v.has<op::Ne, op::LogicalXor>();
    if (!differs && !v.has<op::LogicalAnd, op::LogicalOr>()) return void(fine_ = false);
    const bool both = v.op == op::id<op::LogicalAnd>;
    if (wide_) {
      const Opmask a = kmask(r), b = s == kScratch ? k7() : kmask(s);
      if (differs) asm_.kxorw(a, a, b);
      else both ? asm_.kandw(a, a, b) : asm_.korw(a, a, b);
    } else if (differs) {
      asm_.vxorps(Ymm(r), Ymm(r), Ymm(s));
    } else {
      both ? asm_.vandps(Ymm(r), Ymm(r), Ymm(s)) : asm_.vorps(Ymm(r), Ymm(r), Ymm(s));
    }
    if (equal) invert(r);
  }
  int two_masks(const V& x, const V& y, Used used) {
    if (used.real + 1 + parts_ <= kStack - 1)
      return mask(x, used), mask(y, used.reals(1)), used.real + 1;
    const int slot = take_lanes();
    mask(y, used), save_mask(slot, used.real);
    mask(x, used);
    if (wide_) asm_.kmovw(k7(), lane_slot(slot));
    else asm_.vmovups(Ymm(kScratch), lane_slot(slot));
    return kScratch;
  }
  void choose_masks(const V& v, Used used) {
    const int r = used.real, c = take_lanes(), no = take_lanes();
    mask(*v.args[0], used), save_mask(c, r);
    mask(*v.args[2], used), save_mask(no, r);
    mask(*v.args[1], used);
    if (wide_) {  // no ^ (c & (yes ^ no))
      asm_.kmovw(k7(), lane_slot(no)), asm_.kxorw(kmask(r), kmask(r), k7());
      asm_.kmovw(k7(), lane_slot(c)), asm_.kandw(kmask(r), kmask(r), k7());
      asm_.kmovw(k7(), lane_slot(no)), asm_.kxorw(kmask(r), kmask(r), k7());
    } else {
      asm_.vmovups(Ymm(kScratch), lane_slot(no)), asm_.vmovups(Ymm(kThird), lane_slot(c));
      asm_.vblendvps(Ymm(r), Ymm(kScratch), Ymm(r), Ymm(kThird));
    }
  }
  /// Compares with 0.
  void test(int r) {
    if (wide_) {
      if (parts_ == 2) asm_.vptestmq(k7(), Zmm(r + 1), Zmm(r + 1));
      asm_.vptestmq(kmask(r), Zmm(r), Zmm(r));
      if (parts_ == 2) asm_.kunpckbw(kmask(r), k7(), kmask(r));
      return;
    }
    asm_.vpxor(Ymm(kScratch), Ymm(kScratch), Ymm(kScratch));
    for (int p = 0; p < parts_; ++p) asm_.vpcmpeqq(Ymm(r + p), Ymm(r + p), Ymm(kScratch));
    pack(r), invert(r);
  }
  void compare_wholes(const V& v, Used used) {
    const int r = used.real, s = two_wholes(*v.args[0], *v.args[1], used), order = order_of(v);
    if (wide_) {
      if (parts_ == 2) asm_.vpcmpq(k7(), Zmm(r + 1), Zmm(s + 1), uint8_t(order));
      asm_.vpcmpq(kmask(r), Zmm(r), Zmm(s), uint8_t(order));
      if (parts_ == 2) asm_.kunpckbw(kmask(r), k7(), kmask(r));
      return;
    }
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
    if (used.real + 2 * parts_ <= kStack)
      return wholes(x, used), wholes(y, used.reals(parts_)), used.real + parts_;
    const int slot = take_lanes();
    wholes(y, used), save_parts(slot, used.real);
    wholes(x, used), load_parts(slot, kScratch);
    return kScratch;
  }
  /// Computes an integer into the first free temporaries.
  void wholes(const V& v, Used used) override {
    const int r = used.real;
    if (r + parts_ > kStack) return void(fine_ = false);
    if (const int64_t step = steps_->of(v); step != kVaries)
      return spread_whole(r, whole(v, used), step);
    if (v.kind == V::variable) return load_parts(home_slot(v), r);
    if (v.kind == V::load) return load_wholes(v, used);
    if (v.kind != V::operation || v.divides) return void(fine_ = false);
    const V& x = *v.args[0];
    if (v.converts()) return convert_to_wholes(x, used);
    if (v.op == op::id<op::Where>) return choose_wholes(v, used);
    if (v.op == op::id<op::Neg>) {
      wholes(x, used);
      asm_.vpxor(Xmm(kScratch), Xmm(kScratch), Xmm(kScratch));
      for (int p = 0; p < parts_; ++p) asm_.vpsubq(part(r + p), part(kScratch), part(r + p));
      return;
    }
    if (is_shift(v) && shift(v, used)) return;
    const bool plain = v.has<op::Add, op::Sub, op::LuaMin, op::LuaMax>() ||
                       (v.op >= op::id<op::BitwiseAnd> && v.op <= op::id<op::BitwiseXor>);
    if (!plain && !(wide_ && v.op == op::id<op::Mul>)) return call_lanes(v, used);
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
  bool shift(const V& v, Used used) {
    const auto by = int64_t(v.args[1]->value);
    const bool rest = v.op == op::id<op::Remainder>;
    if (!rest && !wide_) return false;
    wholes(*v.args[0], used);
    if (rest) asm_.mov(rax, by - 1), broadcast_whole(kScratch, rax);
    for (int p = 0; p < parts_; ++p) {
      const Xmm x = part(used.real + p);
      if (rest) asm_.vandps(x, x, part(kScratch));
      else asm_.vpsraq(x, x, uint8_t(__builtin_ctzll(uint64_t(by))));
    }
    return true;
  }
  void convert_to_wholes(const V& x, Used used) {
    const int r = used.real;
    if (x.type == GridType::integer) return wholes(x, used);
    if (x.type == GridType::boolean) return mask(x, used), mask_to_wholes(r);
    const int in = take_lanes(), out = take_lanes();
    asm_.vmovups(lane_slot(in), reals(x, used));
    each_lane(used, [&](const Reg64& lane) {
      const Reg64 word = temporary(used.whole + 1);
      move_real(xmm0, asm_.ptr[lane_place(in) + lane * item_]);
      truncate(word, xmm0);
      asm_.mov(asm_.ptr[lane_place(out) + lane * 8], word);
    });
    load_parts(out, r);
  }
  /// Integers 0 or 1 of the mask of a temporary.
  void mask_to_wholes(int r) {
    if (r + parts_ > kStack) return void(fine_ = false);
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

  // ---- reals ---------------------------------------------------------------------------------------

  void broadcast_real(const Xmm& to, const Operand& from) {
    if (item_ == 4) asm_.vbroadcastss(to, from);
    else
      wide_ ? asm_.vbroadcastsd(Zmm(to.getIdx()), from) : asm_.vbroadcastsd(Ymm(to.getIdx()), from);
  }
  /// The register of a real: that of a variable, or the first free temporary.
  Xmm reals(const V& v, Used used) {
    if (const int reg = register_of(v); reg >= 0) return vec(reg);
    if (used.real >= kStack) return fine_ = false, vec(0);
    const Xmm to = vec(used.real);
    if (!steps_->varies(v)) {
      if (v.kind == V::load && grid_.tensors[v.index].dtype == real_)
        return broadcast_real(to, asm_.ptr[element(v, used)]), to;
      if (is_simple(v)) return broadcast_real(to, real_memory(v)), to;
      return broadcast_real(to, Xmm(real(v, used).getIdx())), to;
    }
    if (v.kind == V::variable) return asm_.vmovups(to, lane_slot(home_slot(v))), to;
    if (v.kind == V::load) return load_reals(v, used), to;
    return reals_of(v, used), to;
  }
  Two two_reals(const V& v, Used used) {
    const V &x = *v.args[0], &y = *v.args[1];
    Two t{vec(used.real), vec(kScratch), asm_.ptr[rax], false};
    if (used.real + 1 < kStack) {
      t.x = reals(x, used), t.y = reals(y, used.reals(1));
      return t;
    }
    const int slot = take_lanes();
    asm_.vmovups(lane_slot(slot), reals(y, used));
    t.x = reals(x, used);
    asm_.vmovups(t.y, lane_slot(slot));
    return t;
  }
  void round_packed(const Xmm& to, const Xmm& x, int mode) {
    if (wide_) MT_PACKED(vrndscale, to, x, uint8_t(mode));
    else MT_PACKED(vround, to, x, uint8_t(mode));
  }
  void reals_of(const V& v, Used used) {
    const Xmm to = vec(used.real), scratch = vec(kScratch);
    switch (v.op) {
      case kConvert: return convert_to_reals(v, used);
      case op::id<op::Where>: return choose_reals(v, used);
      case op::id<op::Add>:
      case op::id<op::Sub>:
      case op::id<op::Mul>:
      case op::id<op::Div>:
      case op::id<op::LuaMin>:
      case op::id<op::LuaMax>: {
        const Two t = two_reals(v, used);
        return packed_operation(v.op, to, t.x, t.y);
      }
      case op::id<op::Neg>:
      case op::id<op::Abs>: {
        const bool negates = v.op == op::id<op::Neg>;
        const Xmm x = reals(*v.args[0], used);
        broadcast_real(scratch, constant(negates ? sign_bits() : ~sign_bits()));
        return negates ? asm_.vxorps(to, x, scratch) : asm_.vandps(to, x, scratch);
      }
      case op::id<op::Floor>: return round_packed(to, reals(*v.args[0], used), 9);
      case op::id<op::Ceil>: return round_packed(to, reals(*v.args[0], used), 10);
      case op::id<op::Sqrt>: return MT_PACKED(vsqrt, to, reals(*v.args[0], used));
      default: return call_lanes(v, used);
    }
  }
  void packed_operation(int op, const Xmm& to, const Xmm& x, const Xmm& y) {
    switch (op) {
      case op::id<op::Add>: return MT_PACKED(vadd, to, x, y);
      case op::id<op::Sub>: return MT_PACKED(vsub, to, x, y);
      case op::id<op::Mul>: return MT_PACKED(vmul, to, x, y);
      case op::id<op::Div>: return MT_PACKED(vdiv, to, x, y);
      case op::id<op::LuaMin>: return MT_PACKED(vmin, to, x, y);
      default: return MT_PACKED(vmax, to, x, y);
    }
  }
  void choose_reals(const V& v, Used used) {
    const int r = used.real, c = take_lanes(), no = take_lanes();
    mask(*v.args[0], used), save_mask(c, r);
    asm_.vmovups(lane_slot(no), reals(*v.args[2], used));
    const Xmm yes = reals(*v.args[1], used);
    asm_.vmovups(vec(kScratch), lane_slot(no));
    if (wide_) {
      asm_.kmovw(k7(), lane_slot(c));
      return MT_PACKED(vblendm, vec(r) | k7(), vec(kScratch), yes);
    }
    asm_.vmovups(Ymm(kThird), lane_slot(c));
    MT_PACKED(vblendv, vec(r), vec(kScratch), yes, Ymm(kThird));
  }
  void convert_to_reals(const V& v, Used used) {
    const V& x = *v.args[0];
    const int r = used.real;
    const Xmm to = vec(r);
    if (x.type == GridType::real) {
      const Xmm from = reals(x, used);
      if (from.getIdx() != r) asm_.vmovaps(to, from);
    } else if (x.type == GridType::boolean) {
      mask(x, used);
      broadcast_real(vec(kScratch), constant_of(1));
      if (wide_) MT_PACKED(vmovu, to | kmask(r) | Xbyak::util::T_z, vec(kScratch));
      else asm_.vandps(to, to, vec(kScratch));
    } else if (!wide_) {
      wholes(x, used);
      const int slot = take_lanes();
      save_parts(slot, r);
      asm_.vxorps(Xmm(kScratch), Xmm(kScratch), Xmm(kScratch));
      for (int l = 0; l < lanes_; ++l) {
        const Address from = asm_.qword[lane_place(slot, 8 * l)];
        MT_SCALAR(vcvtsi2, Xmm(kThird), Xmm(kScratch), from);
        move_real(lane_slot(slot, item_ * l), Xmm(kThird));
      }
      asm_.vmovups(to, lane_slot(slot));
    } else {
      wholes(x, used);
      if (item_ == 8) return asm_.vcvtqq2pd(Zmm(r), Zmm(r));
      for (int p = 0; p < parts_; ++p) asm_.vcvtqq2ps(Ymm(r + p), Zmm(r + p));
      if (parts_ == 2) asm_.vinsertf32x8(Zmm(r), Zmm(r), Ymm(r + 1), 1);
    }
  }
  /// Calls the loop of an operation for the elements of all lanes.
  void call_lanes(const V& v, Used used) {
    const GridType of = v.args[v.op == op::id<op::Where>]->type;
    const auto f = of == GridType::boolean || v.type == GridType::boolean
                       ? nullptr
                       : find_loop_(v.op, of == GridType::real ? real_ : Dtype::i64);
    if (!f || v.divides) return void(fine_ = false);
    const int slots = lane_slots_, out = take_lanes();
    for (int k = 0; k < v.args.count; ++k) take_lanes();
    for (int k = 0; k < v.args.count; ++k) {
      const V& x = *v.args[size_t(k)];
      const int in = out + 1 + k;
      if (x.type == GridType::real) asm_.vmovups(lane_slot(in), reals(x, used));
      else wholes(x, used), save_parts(in, used.real);
    }
    for (int k = 0; k <= v.args.count; ++k) {
      asm_.lea(rax, lane_slot(out + k));
      asm_.mov(MT_FIELD(data, k), rax);
    }
    invoke(f, used, lanes_);
    if (v.type == GridType::real) asm_.vmovups(vec(used.real), lane_slot(out));
    else load_parts(out, used.real);
    lane_slots_ = slots;
  }
  void move_reals(int slots, Used used, bool save) override {
    if (!in_lanes_) return ThreadValues::move_reals(slots, used, save);
    if (save) call_slots_ = lane_slots_;
    int at = call_slots_;
    const auto next = [&] {
      if (save) take_lanes();
      return at++;
    };
    for (const auto& [index, h] : homes_)
      if (h.reg >= 0 && h.type == GridType::real) move_whole(next(), h.reg, save);
    for (int k = 0; k < used.real; ++k) {
      move_whole(next(), k, save);
      if (const int slot = wide_ ? next() : -1; slot >= 0)
        save ? save_mask(slot, k) : load_mask(slot, k);
    }
    if (masked_) {
      const int slot = next();
      save ? save_active(slot) : load_active(slot);
    }
    if (!save) lane_slots_ = call_slots_;
  }
};

}  // namespace mt
