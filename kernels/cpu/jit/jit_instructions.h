// jit_instructions.h -- selects the machine instructions for each lane instruction
#pragma once
#include "kernels/cpu/jit/jit_elements.h"

namespace mt {

/// The predicates of vcmpps for each Order, and those for swapped operands.
constexpr uint8_t kPredicate[] = {0x00, 0x11, 0x12, 0x04, 0x15, 0x16};
constexpr uint8_t kSwappedPredicate[] = {0x00, 0x1e, 0x1d, 0x04, 0x1a, 0x19};

/// The truth table of a function of three bits for permuted inputs.
inline uint8_t permuted(uint8_t table, const int (&order)[3]) {
  uint8_t out = 0;
  for (int row = 0; row < 8; ++row) {
    int index = 0;  // in the original table: input order[k] has bit k
    for (int k = 0; k < 3; ++k) index |= (row >> (2 - k) & 1) << (2 - order[k]);
    out = uint8_t(out | (table >> index & 1) << row);
  }
  return out;
}

/// Layer 3 of the emitter: `write` emits one lane instruction.
class InstructionEmitter : protected ElementEmitter {
 protected:
  using ElementEmitter::ElementEmitter;

  void write(int32_t id, int copy) {
    begin(id, copy);
    switch (now_->op) {
      using enum LaneOp;
      case load:
      case load_turn:
      case load_one:
      case number:
      case constant:
      case truth: return write_value();
      case position: return write_position();
      case load_as: return write_load_as();
      case gather: return write_gather();
      case store_as: return write_store_as();
      case load_bool: return plan_.invariant[id] ? write_repeated_bool() : write_load_bool();
      case inverse:
      case rsqrt: return write_estimate(now_->op);
      case scale: return write_scale();
      case fma: return write_fma();
      case ternary: return write_ternary();
      case compare: return write_compare();
      case icompare: return write_icompare();
      case mand:
      case mor:
      case mxor:
      case mnot: return write_mask();
      case select: return write_select();
      case guard: return write_guard();
      case store: return write_store();
      case store_bool: return write_store_bool();
      default: return now_->op < fma ? write_float() : write_integer();
    }
  }

  void write_value() {
    if (now_->op == LaneOp::truth) {
      if (wide_) {
        const Mask to(define());
        if (now_->bits) MT_EMIT(kxnorw, to, to, to);
        else MT_EMIT(kxorw, to, to, to);
      } else {
        const Xmm to = result();
        if (now_->bits) MT_EMIT(vpcmpeqd, to, to, to);
        else MT_EMIT(vxorps, to, to, to);
      }
      return;
    }
    const Xmm to = result(), low(to.getIdx());
    if (now_->op == LaneOp::load_one) return broadcast(to.getIdx(), source(*now_));
    if (ir::is_load(now_->op) && !plan_.invariant[id_]) {
      const Address at = source(*now_);
      if (masked_ && wide_) MT_REAL(vmovu, to | Mask(1) | T_z, at);
      else if (masked_) MT_REAL(vmaskmov, to, vector(rest_mask_), at);
      else MT_REAL(vmovu, to, at);
      return;
    }
    Address from = asm_.ptr[rsi + 8 * now_->bits];
    if (now_->op == LaneOp::load) {
      MT_EMIT(mov, rax, asm_.ptr[rdi + 8 * now_->bits]);
      from = asm_.ptr[rax];
    }
    if (item_ == 8 || now_->op == LaneOp::load) {
      broadcast(to.getIdx(), from);
    } else {
      MT_EMIT(vmovsd, low, from);
      MT_EMIT(vcvtsd2ss, low, low, low);
      MT_EMIT(vbroadcastss, to, low);
    }
  }

#define MT_BINARY(op, NAME) \
  case LaneOp::op: return NAME
  void write_float() {
    const LaneOp op = now_->op;
    if (op >= LaneOp::sqrt) {
      const Source a = any(0);
      consume();
      const Xmm to = result();
      if (op == LaneOp::sqrt) return MT_REAL(vsqrt, to, a);
      const uint8_t rounding_mode = op == LaneOp::floor   ? 9
                                    : op == LaneOp::ceil  ? 10
                                    : op == LaneOp::trunc ? 11
                                                          : 8;
      if (wide_) return MT_REAL(vrndscale, to, a, rounding_mode);
      return MT_REAL(vround, to, a, rounding_mode);
    }
    const auto [to, a, b] = two();
    switch (op) {
      MT_BINARY(add, MT_REAL(vadd, to, a, b));
      MT_BINARY(sub, MT_REAL(vsub, to, a, b));
      MT_BINARY(mul, MT_REAL(vmul, to, a, b));
      MT_BINARY(div, MT_REAL(vdiv, to, a, b));
      MT_BINARY(min, MT_REAL(vmin, to, a, b));
      default: return MT_REAL(vmax, to, a, b);
    }
  }

  void write_integer() {
    const LaneOp op = now_->op;
    if (op == LaneOp::shl || op == LaneOp::shr) {
      const Xmm a = reg(0);
      consume();
      const Xmm to = result();
      const uint8_t n = uint8_t(now_->bits);
      if (op == LaneOp::shl) return MT_WORD(vpsll, to, a, n);
      return MT_WORD(vpsrl, to, a, n);
    }
    if (ir::is_conversion(op)) {
      const Source a = any(0);
      consume();
      const Xmm to = result();
      if (op == LaneOp::to_float && item_ == 4) return MT_EMIT(vcvtdq2ps, to, a);
      if (op == LaneOp::to_float) return MT_EMIT(vcvtqq2pd, to, a);
      if (item_ == 4) return MT_EMIT(vcvttps2dq, to, a);
      return MT_EMIT(vcvttpd2qq, to, a);
    }
    const auto [to, a, b] = two();
    switch (op) {
      MT_BINARY(iadd, MT_WORD(vpadd, to, a, b));
      MT_BINARY(isub, MT_WORD(vpsub, to, a, b));
      MT_BINARY(imul, MT_WORD(vpmull, to, a, b));
      MT_BINARY(iand, MT_REAL(vand, to, a, b));
      MT_BINARY(ior, MT_REAL(vor, to, a, b));
      default: return MT_REAL(vxor, to, a, b);
    }
  }

  void write_mask() {
    const LaneOp op = now_->op;
    if (wide_) {
      const Mask a = mask(0), b = op == LaneOp::mnot ? a : mask(1);
      consume();
      const Mask to(define());
      switch (op) {
        MT_BINARY(mand, MT_KMASK(kand, to, a, b));
        MT_BINARY(mor, MT_KMASK(kor, to, a, b));
        MT_BINARY(mxor, MT_KMASK(kxor, to, a, b));
        default: return MT_KMASK(knot, to, a);
      }
    }
    const Xmm a = reg(0);
    const Source b = op == LaneOp::mnot ? Source{pool(ones_, false), Xmm(0), true} : any(1);
    consume();
    const Xmm to = result();
    switch (op) {
      MT_BINARY(mand, MT_REAL(vand, to, a, b));
      MT_BINARY(mor, MT_REAL(vor, to, a, b));
      default: return MT_REAL(vxor, to, a, b);
    }
  }
#undef MT_BINARY

  void write_estimate(LaneOp op) {
    const Source a = any(0);
    consume();
    const Xmm to = result();
    if (op == LaneOp::inverse) MT_EMIT(vrcp14ps, to, a);
    else MT_EMIT(vrsqrt14ps, to, a);
  }

  void write_scale() {
    const Xmm a = reg(0);
    const Source b = any(1);
    consume();
    MT_REAL(vscalef, result(), a, b);
  }

  /// 132: to = to * c + b, 213: to = b * to + c, 231: to = b * c + to.
  void write_fma() {
    const Three t = three();
    const int sign = int(now_->bits);
    const auto choose = [&](const Xmm& to, const Xmm& b, const Operand& c, int form) {
#define MT_FORM(n)                                                       \
  if (form == n) {                                                       \
    if (sign == 0) return MT_REAL(vfmadd##n, to, b, c);                  \
    if (sign == ir::kMinusProduct) return MT_REAL(vfnmadd##n, to, b, c); \
    if (sign == ir::kMinusAddend) return MT_REAL(vfmsub##n, to, b, c);   \
    return MT_REAL(vfnmsub##n, to, b, c);                                \
  }
      MT_FORM(132)
      MT_FORM(213)
      MT_FORM(231)
#undef MT_FORM
    };
    if (t.target == 2) {
      const int c = t.memory == 0 ? 0 : 1;
      return choose(t.to, t.place[1 - c].vector, t.place[c], 231);
    }
    const int factor = 1 - t.target;
    if (t.memory == factor) return choose(t.to, t.place[2].vector, t.place[factor], 132);
    choose(t.to, t.place[factor].vector, t.place[2], 213);
  }

  void write_ternary() {
    const Three t = three();
    const int last = t.memory >= 0 ? t.memory : t.target == 2 ? 1 : 2, middle = 3 - t.target - last;
    const uint8_t table = permuted(uint8_t(now_->bits), {t.target, middle, last});
    MT_WORD(vpternlog, t.to, t.place[middle].vector, t.place[last], table);
  }

  void write_compare() {
    const int first = is_near(0) || !is_near(1) ? 0 : 1;
    const uint8_t predicate = (first == 0 ? kPredicate : kSwappedPredicate)[now_->bits];
    const Xmm a = reg(first);
    const Source b = any(1 - first);
    consume();
    if (wide_) MT_REAL(vcmp, Mask(define()), a, b, predicate);
    else MT_REAL(vcmp, result(), a, b, predicate);
  }

  void write_icompare() {
    const ir::IntOrder order{uint8_t(now_->bits)};
    if (wide_) {
      const Xmm a = reg(0);
      const Source b = any(1);
      consume();
      const Mask to(define());
      const uint8_t predicate = order == ir::IntOrder::equal ? 0 : 1;
      if (order == ir::IntOrder::below) MT_WORD(vpcmpu, to, a, b, predicate);
      else MT_WORD(vpcmp, to, a, b, predicate);
      return;
    }
    if (order == ir::IntOrder::equal) {
      const Xmm a = reg(0);
      const Source b = any(1);
      consume();
      return MT_WORD(vpcmpeq, result(), a, b);
    }
    Xmm b = reg(1);
    Source a = any(0);
    if (order == ir::IntOrder::below) {  // a signed comparison with the sign bits flipped
      const Xmm x = temporary(), y = temporary();
      MT_EMIT(vmovaps, x, pool(signs_, false));
      MT_EMIT(vpxor, y, x, b);
      MT_EMIT(vpxor, x, x, a);
      b = y, a.vector = x, a.in_memory = false;
    }
    consume();
    MT_WORD(vpcmpgt, result(), b, a);
  }

  void write_select() {
    const Xmm no = reg(2);
    if (wide_) {
      const Mask m = mask(0);
      const Source yes = any(1);
      consume();
      return MT_REAL(vblendm, result() | m, no, yes);
    }
    const Xmm m = reg(0);
    const Source yes = any(1);
    consume();
    MT_REAL(vblendv, result(), no, yes, m);
  }

  // ---- bools: one byte each in memory --------------------------------------------------------------

  void write_load_bool() {
    const Address from = operand(now_->bits, 1);
    if (wide_) {
      const Xmm bytes(temporary().getIdx());
      if (masked_) MT_EMIT(vmovdqu8, bytes | Mask(1) | T_z, from);
      else if (lanes_ == 16) MT_EMIT(vmovdqu8, bytes, from);
      else MT_EMIT(vmovq, bytes, from);
      return MT_EMIT(vptestmb, Mask(define()), bytes, bytes);
    }
    const Xmm zero = temporary(), to = result();
    MT_EMIT(vpxor, zero, zero, zero);
    MT_WORD(vpmovzxb, to, from);
    MT_WORD(vpcmpgt, to, to, zero);
  }

  void write_repeated_bool() {
    MT_EMIT(mov, rax, asm_.ptr[rdi + 8 * now_->bits]);
    MT_EMIT(movzx, eax, asm_.byte[rax]);
    MT_EMIT(neg, eax);  // 0 or -1
    if (wide_) return MT_KMASK(kmov, Mask(define()), eax);
    const Xmm to = result(), low(to.getIdx());
    MT_EMIT(vmovd, low, eax);
    MT_EMIT(vpbroadcastd, to, low);
  }

  void write_store_bool() {
    const Address to = operand(now_->bits, 1);
    if (wide_) {
      const Xmm bytes(temporary().getIdx());
      const Mask m = mask(0);
      MT_EMIT(vmovdqu8, bytes | m | T_z, pool(ones_, false));
      if (masked_) MT_EMIT(vmovdqu8, to | Mask(1), bytes);
      else if (lanes_ == 16) MT_EMIT(vmovdqu8, to, bytes);
      else MT_EMIT(vmovq, to, bytes);
      return consume();
    }
    const Xmm m = reg(0), half(temporary().getIdx()), low(m.getIdx());
    MT_EMIT(vextractf128, half, Ymm(m.getIdx()), uint8_t(1));
    if (item_ == 4) MT_EMIT(vpackssdw, half, low, half);
    else MT_EMIT(vshufps, half, low, half, uint8_t(0x88));
    if (item_ == 8) MT_EMIT(vpackssdw, half, half, half);
    MT_EMIT(vpacksswb, half, half, half);
    MT_EMIT(vpabsb, half, half);
    if (item_ == 4) MT_EMIT(vmovq, to, half);
    else MT_EMIT(vmovd, to, half);
    consume();
  }

  void write_store() {
    const Address to = operand(now_->bits, item_);
    const Xmm from = reg(0);
    if (masked_ && wide_) MT_REAL(vmovu, to | Mask(1), from);
    else if (masked_) MT_REAL(vmaskmov, to, vector(rest_mask_), from);
    else MT_REAL(vmovu, to, from);
    consume();
  }

  /// Leaves the loop if the guard fails in a lane.
  void write_guard() {
    if (wide_) {
      const Mask m = mask(0), failing(0);
      if (masked_) MT_KMASK(kandn, failing, m, Mask(1));
      if (masked_) MT_KMASK(kortest, failing, failing);
      else MT_KMASK(kortest, m, m);
      if (masked_) MT_JUMP(jnz, *failing_, "stopped");
      else MT_JUMP(jnc, *failing_, "stopped");
      return consume();
    }
    const Xmm m = reg(0);
    MT_REAL(vmovmsk, eax, m);
    MT_EMIT(cmp, eax, item_ == 4 ? 0xff : 0xf);
    MT_JUMP(jne, *failing_, "stopped");
    consume();
  }

  Xbyak::Label stopped_;
  const Xbyak::Label* failing_ = &stopped_;  // the jump target of guards that fail
};

}  // namespace mt
