// jit_elements.h -- emits loads and stores of elements of other dtypes and strides, masked stores, positions
#pragma once
#include "kernels/cpu/jit/jit_registers.h"

namespace mt {

/// Emits one of four instructions, for elements of 1, 2, 4 or 8 bytes.
#define MT_BY_BYTES(bytes, one, two, four, eight, ...) \
  (bytes == 1   ? MT_EMIT(one, __VA_ARGS__)            \
   : bytes == 2 ? MT_EMIT(two, __VA_ARGS__)            \
   : bytes == 4 ? MT_EMIT(four, __VA_ARGS__)           \
                : MT_EMIT(eight, __VA_ARGS__))

/// Layer 2 of the emitter: instructions that access elements which are not just one contiguous vector.
class ElementEmitter : protected RegisterAllocator {
 protected:
  using RegisterAllocator::RegisterAllocator;

  void write_position() {
    const Xmm to = result(), low(to.getIdx());
    MT_EMIT(lea, rax, asm_.ptr[rdx + copy_ * lanes_]);
    if (wide_ && item_ == 4) {
      MT_EMIT(vpbroadcastd, to, eax);
    } else if (wide_) {
      MT_EMIT(vpbroadcastq, to, rax);
    } else {
      MT_EMIT(vmovq, low, rax);
      MT_WORD(vpbroadcast, to, low);
    }
    MT_WORD(vpadd, to, to, pool(indices_, false));
  }

  // ---- loads ---------------------------------------------------------------------------------------

  void write_load_as() {
    const LaneInstruction x = *now_;
    const int bytes = ir::operand_item(x, item_);
    const bool halves = bytes > item_;  // of int64
    const Xmm to = result();
    if (x.is_strided()) {
      if (bytes >= item_) return read_strided(to, item_, x.is_high() ? 4 : 0);
      const int r = temporary().getIdx();
      read_strided(Xmm(r), bytes, 0);
      return lanes_ * bytes > 16 ? convert_loaded(to, Ymm(r)) : convert_loaded(to, Xmm(r));
    }
    const Address from = operand(x.operand(), bytes);
    if (!halves) return convert_loaded(to, from);
    const Address second = asm_.ptr[expression_of(from) + bytes_];
    const Xmm a = temporary();
    MT_EMIT(vmovups, a, from);
    if (!wide_) {
      MT_EMIT(vshufps, to, a, second, uint8_t(x.is_high() ? 0xdd : 0x88));
      return MT_EMIT(vpermq, Ymm(to.getIdx()), to, uint8_t(0xd8));
    }
    const Xmm b = temporary();
    MT_EMIT(vmovups, b, second);
    if (x.is_high()) MT_EMIT(vpsrlq, a, a, uint8_t(32));
    if (x.is_high()) MT_EMIT(vpsrlq, b, b, uint8_t(32));
    MT_EMIT(vpmovqd, Ymm(to.getIdx()), a);
    MT_EMIT(vpmovqd, Ymm(b.getIdx()), b);
    MT_EMIT(vinserti64x4, Zmm(to.getIdx()), Zmm(to.getIdx()), Ymm(b.getIdx()), uint8_t(1));
  }

  /// Converts elements in memory, or in the first bytes of a register.
  void convert_loaded(const Xmm& to, const Operand& from) {
    const int r = to.getIdx();
    const Xmm half = lanes_ == 16 ? Ymm(r) : lanes_ == 8 && wide_ ? Ymm(r) : Xmm(r);  // of float32
    const auto widen = [&] { MT_EMIT(vcvtps2pd, to, half); };
    switch (now_->dtype()) {
      case Dtype::b8:
      case Dtype::u8: return MT_WORD(vpmovzxb, to, from);
      case Dtype::i8: return MT_WORD(vpmovsxb, to, from);
      case Dtype::i16: return MT_WORD(vpmovsxw, to, from);
      case Dtype::f16:
        if (item_ == 4) return MT_EMIT(vcvtph2ps, to, from);
        MT_EMIT(vcvtph2ps, half, from);
        return widen();
      case Dtype::bf16:
        MT_EMIT(vpmovzxwd, item_ == 4 ? to : half, from);
        MT_EMIT(vpslld, item_ == 4 ? to : half, item_ == 4 ? to : half, uint8_t(16));
        return item_ == 4 ? void() : widen();
      case Dtype::i32:
        return item_ == 4 ? MT_EMIT(vmovups, to, from) : MT_EMIT(vpmovsxdq, to, from);
      case Dtype::f32:
        return item_ == 4 ? MT_EMIT(vmovups, to, from) : MT_EMIT(vcvtps2pd, to, from);
      default: return MT_EMIT(vmovups, to, from);
    }
  }

  /// The address of a strided operand's first element to rax, the stride to rbx.
  void strided_address() {
    const uint64_t k = now_->operand();
    MT_EMIT(lea, rax, asm_.ptr[rdx + copy_ * lanes_]);
    MT_EMIT(mov, rbx, asm_.ptr[rdi + 8 * (uint64_t(operands_) + k)]);
    MT_EMIT(imul, rax, rbx);
    if (pointer_[k] >= 0) MT_EMIT(add, rax, Reg64(pointer_[k]));
    else MT_EMIT(add, rax, asm_.ptr[rdi + 8 * k]);
  }

  /// f(element, its address) for each of `count` elements from rax on.
  template <class F> void each_strided(int count, int offset, const F& f) {
    for (int k = 0; k < count; ++k) {
      f(k, k % 2 ? asm_.ptr[rax + rbx + offset] : asm_.ptr[rax + offset]);
      if (k % 2) MT_EMIT(lea, rax, asm_.ptr[rax + rbx * 2]);
    }
  }

  /// Reads elements of so many bytes to the first bytes of a register. AVX-512 has vxorps of all registers, not vpxor.
  void read_strided(const Xmm& to, int bytes, int offset) {
    strided_address();
    const int each = std::min(16 / bytes, lanes_), r = to.getIdx();
    const int other = each < lanes_ ? temporary().getIdx() : r;
    for (int part = 0; part * each < lanes_; ++part) {
      const Xmm x(part == 0 ? r : other);
      if (bytes < 4) MT_EMIT(vxorps, x, x, x);
      each_strided(each, offset, [&](int k, const Address& from) {
        if (k == 0 && bytes == 4) return MT_EMIT(vmovd, x, from);
        if (k == 0 && bytes == 8) return MT_EMIT(vmovq, x, from);
        MT_BY_BYTES(bytes, vpinsrb, vpinsrw, vpinsrd, vpinsrq, x, x, from, uint8_t(k));
      });
      if (part == 0) continue;
      if (!wide_) MT_EMIT(vinserti128, Ymm(r), Ymm(r), x, uint8_t(part));
      else if (lanes_ * bytes == 32) MT_EMIT(vinserti32x4, Ymm(r), Ymm(r), x, uint8_t(part));
      else MT_EMIT(vinserti32x4, Zmm(r), Zmm(r), x, uint8_t(part));
    }
  }

  /// Of small integers, in lanes of 32 bits, the 32 bits that end with the element.
  void write_gather() {
    const LaneInstruction x = *now_;
    const int bytes = ir::operand_item(x, item_), i = reg(0).getIdx();
    const bool is_half = item_ == 8 && bytes == 4;
    const int before = std::max(0, 4 - bytes);
    const int r = temporary().getIdx();
    if (pointer_[x.operand()] < 0) MT_EMIT(mov, rax, asm_.ptr[rdi + 8 * x.operand()]);
    const Reg64 base = pointer_[x.operand()] >= 0 ? Reg64(pointer_[x.operand()]) : rax;
    const Xbyak::RegExp at = base + vector(i) * bytes + (x.is_high() ? 4 : -before);
    MT_EMIT(vxorps, Xmm(r), Xmm(r), Xmm(r));
    if (wide_) {
      const Mask all(1);  // of the rest, which whole vectors do not use
      MT_KMASK(kxnor, all, all, all);
      if (item_ == 4) MT_EMIT(vgatherdps, Zmm(r) | all, asm_.ptr[at]);
      else if (is_half) MT_EMIT(vgatherqps, Ymm(r) | all, asm_.ptr[at]);
      else MT_EMIT(vgatherqpd, Zmm(r) | all, asm_.ptr[at]);
      MT_KMASK(kxnor, all, all, all);
    } else {
      const int m = temporary().getIdx();
      MT_EMIT(vpcmpeqd, Ymm(m), Ymm(m), Ymm(m));
      if (item_ == 4) MT_EMIT(vgatherdps, Ymm(r), asm_.ptr[at], Ymm(m));
      else if (is_half) MT_EMIT(vgatherqps, Xmm(r), asm_.ptr[at], Xmm(m));
      else MT_EMIT(vgatherqpd, Ymm(r), asm_.ptr[at], Ymm(m));
    }
    consume();
    const Xmm to = result();
    if (is_half) convert_loaded(to, wide_ ? Xmm(Ymm(r)) : Xmm(r));
    else if (x.dtype() == Dtype::u8) MT_EMIT(vpsrld, to, vector(r), uint8_t(8 * before));
    else if (before > 0) MT_EMIT(vpsrad, to, vector(r), uint8_t(8 * before));
    else MT_EMIT(vmovaps, to, vector(r));
  }

  // ---- stores --------------------------------------------------------------------------------------

  void write_store_as() {
    const LaneInstruction x = *now_;
    const int bytes = ir::operand_item(x, item_);
    const LaneInstruction& where = plan_.code[x.in[1]];
    const bool all = where.op == LaneOp::truth && where.bits;
    const Xmm from = reg(0), mask = all ? from : wide_ ? Xmm(0) : reg(1);
    const Mask some = all || !wide_ ? Mask(0) : this->mask(1);
    if (bytes > item_) {
      write_halves(operand(x.operand(), bytes), from);
      return consume();
    }
    const Xmm packed = packed_elements(from);
    Xbyak::Label whole, done;
    if (x.is_strided()) strided_address();
    const Address to = x.is_strided() ? asm_.ptr[rax] : operand(x.operand(), bytes);
    if (all) {
      if (x.is_strided()) write_strided(packed, bytes);
      else write_packed(to, packed, lanes_ * bytes);
      return consume();
    }
    if (wide_ && !x.is_strided()) {
      MT_BY_BYTES(bytes, vmovdqu8, vmovdqu16, vmovdqu32, vmovdqu64, to | some, packed);
      return consume();
    }
    MT_EMIT(lea, rbx, to);
    if (wide_) MT_KMASK(kmov, eax, some);
    else MT_REAL(vmovmsk, eax, mask);
    MT_EMIT(test, eax, eax);
    MT_JUMP(jz, done, "none");
    if (!x.is_strided()) {
      MT_EMIT(cmp, eax, (1 << lanes_) - 1);
      MT_JUMP(je, whole, "all");
    }
    if (bytes == item_ && !x.is_strided()) MT_REAL(vmaskmov, asm_.ptr[rbx], mask, packed);
    else write_each(packed, bytes);
    if (!x.is_strided()) {
      MT_JUMP(jmp, done, "none");
      place(whole, "all");
      write_packed(asm_.ptr[rbx], packed, lanes_ * bytes);
    }
    place(done, "none");
    consume();
  }

  /// Writes the int64 of lanes of 32 bits.
  void write_halves(const Address& to, const Xmm& from) {
    const Address second = asm_.ptr[expression_of(to) + bytes_];
    const Xmm wider = temporary();
    const int r = from.getIdx(), h = temporary().getIdx();
    if (wide_) {
      MT_EMIT(vpmovsxdq, wider, Ymm(r));
      MT_EMIT(vmovups, to, wider);
      MT_EMIT(vextracti64x4, Ymm(h), Zmm(r), uint8_t(1));
      MT_EMIT(vpmovsxdq, wider, Ymm(h));
    } else {
      MT_EMIT(vpmovsxdq, wider, Xmm(r));
      MT_EMIT(vmovups, to, wider);
      MT_EMIT(vextracti128, Xmm(h), Ymm(r), uint8_t(1));
      MT_EMIT(vpmovsxdq, wider, Xmm(h));
    }
    MT_EMIT(vmovups, second, wider);
  }

  /// Converts lanes to elements in the first bytes of a register.
  Xmm packed_elements(const Xmm& from) {
    const Dtype d = now_->dtype();
    const int bytes = int(item_size(d)), r = from.getIdx();
    if (bytes == item_) return from;
    const int t = temporary().getIdx();
    const Xmm half = wide_ ? Ymm(t) : Xmm(t);  // of lanes of half the size
    if (is_float(d)) {
      if (item_ == 8) MT_EMIT(vcvtpd2ps, half, from);
      if (bytes == 4) return half;
      const bool quarter = item_ == 8 || !wide_;
      if (item_ == 8) MT_EMIT(vcvtps2ph, Xmm(t), half, uint8_t(0));
      else MT_EMIT(vcvtps2ph, half, from, uint8_t(0));
      return quarter ? Xmm(t) : half;
    }
    if (wide_) {
      if (item_ == 4 && bytes == 1) MT_EMIT(vpmovdb, Xmm(t), from);
      else if (item_ == 4) MT_EMIT(vpmovdw, Ymm(t), from);
      else if (bytes == 1) MT_EMIT(vpmovqb, Xmm(t), from);
      else if (bytes == 2) MT_EMIT(vpmovqw, Xmm(t), from);
      else MT_EMIT(vpmovqd, Ymm(t), from);
      return lanes_ * bytes > 16 ? Xmm(Ymm(t)) : Xmm(t);
    }
    const int h = temporary().getIdx();
    if (bytes == 4) {
      MT_EMIT(vextracti128, Xmm(h), Ymm(r), uint8_t(1));
      MT_EMIT(vshufps, Xmm(t), Xmm(r), Xmm(h), uint8_t(0x88));
      return Xmm(t);
    }
    MT_EMIT(vpshufb, Ymm(t), from, pool(pack_[bytes - 1], false));
    MT_EMIT(vextracti128, Xmm(h), Ymm(t), uint8_t(1));
    const int each = bytes * 16 / item_;  // bytes of a half
    if (each == 2) MT_EMIT(vpunpcklwd, Xmm(t), Xmm(t), Xmm(h));
    else if (each == 4) MT_EMIT(vpunpckldq, Xmm(t), Xmm(t), Xmm(h));
    else MT_EMIT(vpunpcklqdq, Xmm(t), Xmm(t), Xmm(h));
    return Xmm(t);
  }

  /// Writes the first bytes of a register.
  void write_packed(const Address& to, const Xmm& packed, int bytes) {
    const int r = packed.getIdx();
    if (bytes == 4) MT_EMIT(vmovd, to, Xmm(r));
    else if (bytes == 8) MT_EMIT(vmovq, to, Xmm(r));
    else if (bytes == 16) MT_EMIT(vmovups, to, Xmm(r));
    else if (bytes == 32) MT_EMIT(vmovups, to, Ymm(r));
    else MT_EMIT(vmovups, to, Zmm(r));
  }

  /// Writes all elements to the addresses from rax on, rbx apart.
  void write_strided(const Xmm& packed, int bytes) {
    const int each = std::min(16 / bytes, lanes_), r = packed.getIdx();
    const int other = each < lanes_ ? temporary().getIdx() : r;
    for (int part = 0; part * each < lanes_; ++part) {
      const Xmm x(part == 0 ? r : other);
      if (part > 0 && !wide_) MT_EMIT(vextracti128, x, Ymm(r), uint8_t(part));
      else if (part > 0 && lanes_ * bytes == 32) MT_EMIT(vextracti32x4, x, Ymm(r), uint8_t(part));
      else if (part > 0) MT_EMIT(vextracti32x4, x, Zmm(r), uint8_t(part));
      each_strided(each, 0, [&](int k, const Address& to) {
        MT_BY_BYTES(bytes, vpextrb, vpextrw, vpextrd, vpextrq, to, x, uint8_t(k));
      });
    }
  }

  /// Writes the elements whose bits are set in eax, one after the other; rbx is the address of the first. The red
  /// zone below the stack pointer holds them.
  void write_each(const Xmm& packed, int bytes) {
    Xbyak::Label next;
    MT_EMIT(vmovups, asm_.ptr[rsp - 64], vector(packed.getIdx()));
    MT_EMIT(mov, asm_.ptr[rsp - 72], rcx);
    MT_EMIT(mov, asm_.ptr[rsp - 80], rdx);
    place(next, "next");
    MT_EMIT(tzcnt, ecx, eax);
    if (bytes == 1) MT_EMIT(movzx, edx, asm_.byte[rsp + rcx - 64]);
    else if (bytes == 2) MT_EMIT(movzx, edx, asm_.word[rsp + rcx * 2 - 64]);
    else if (bytes == 4) MT_EMIT(mov, edx, asm_.ptr[rsp + rcx * 4 - 64]);
    else MT_EMIT(mov, rdx, asm_.ptr[rsp + rcx * 8 - 64]);
    const bool strided = now_->is_strided();
    if (strided) MT_EMIT(imul, rcx, asm_.ptr[rdi + 8 * (uint64_t(operands_) + now_->operand())]);
    const Address to = strided ? asm_.ptr[rbx + rcx] : asm_.ptr[rbx + rcx * bytes];
    if (bytes == 1) MT_EMIT(mov, to, dl);
    else if (bytes == 2) MT_EMIT(mov, to, dx);
    else if (bytes == 4) MT_EMIT(mov, to, edx);
    else MT_EMIT(mov, to, rdx);
    MT_EMIT(blsr, eax, eax);
    MT_JUMP(jnz, next, "next");
    MT_EMIT(mov, rcx, asm_.ptr[rsp - 72]);
    MT_EMIT(mov, rdx, asm_.ptr[rsp - 80]);
  }
};

}  // namespace mt
