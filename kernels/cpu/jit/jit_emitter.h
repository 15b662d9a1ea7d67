// jit_emitter.h -- emits the function of a planned lane program: constants, prologue, loops, epilogue
//
// The function is int64_t (void* const* data rdi, const double* numbers rsi, int64_t from rdx,
// int64_t to rcx); rdx counts, rax and rbx are scratch, the others hold addresses of operands. The
// instructions of the vectors of one iteration are interleaved, so that dependency chains overlap.
#pragma once
#include "kernels/cpu/jit/jit_instructions.h"

namespace mt {

/// The last layer of the emitter: the order of the instructions, loops and jumps.
class Emitter : InstructionEmitter {
 public:
  using RegisterAllocator::kOperands;
  static constexpr int kMaxCopies = 8;
  /// `copies`: the maximum number of vectors per iteration. `listing`: receives the assembly.
  Emitter(const ir::LaneProgram& program, Isa isa, uint64_t repeated, int copies, uint8_t* buffer,
          size_t size, std::string* listing)
      : InstructionEmitter(program, isa, repeated, copies, buffer, size, listing) {}
  /// Returns false if the buffer is too small, or (failed) if there are too few registers.
  bool emit() {
    Xbyak::ClearError();
    const Uses in_before(plan_.code, plan_.before);
    const Uses in_body(plan_.code, plan_.body, plan_.after_body);
    uses_in_body_ = &in_body;
    write_pool();
    write_prologue();
    const size_t frame = asm_.getSize() - 4 - 4;  // the size in `sub rsp, size`, before `and`
    write_sequence(plan_.before, in_before, 1, false);
    pin();
    if (plan_.carries.empty()) load_pointers();
    write_loops();
    write_epilogue();
    if (failed_ || Xbyak::GetError() != 0) return false;
    const uint64_t size = uint64_t(slots_) * uint64_t(bytes_);
    asm_.rewrite(frame, size, 4);
    if (listing_) {
      const std::string unknown = std::to_string(kFrame);
      listing_->replace(listing_->find(unknown), unknown.size(), std::to_string(size));
    }
    return true;
  }
  size_t size() const { return asm_.getSize(); }
  size_t entry() const { return entry_; }
  bool failed() const { return failed_; }

 private:
  static constexpr int kPointers[] = {Operand::R8,  Operand::R9,  Operand::R10,
                                      Operand::R11, Operand::RSI, Operand::R12,
                                      Operand::R13, Operand::R14, Operand::R15};
  static constexpr int kFirstSaved = 5;  // the first callee-saved one
  static constexpr int kMaxPointers = 9;
  static constexpr int kFrame = 0x7fffffff;  // patched when the size of the frame is known

  /// Writes the constants: one element each for AVX-512, which broadcasts them, or else a vector.
  void write_pool() {
    const int copies = wide_ ? 1 : lanes_;
    asm_.L(pool_);
    const auto put = [&](uint64_t bits, int item, int count) {
      const size_t at = asm_.getSize();
      for (int i = 0; i < count; ++i) asm_.db(bits, item);
      return at;
    };
    if (wide_) {
      ones_ = put(1, 1, 16);  // true bytes
    } else {
      ones_ = put(~uint64_t(0), 8, 4);
      put(0, 8, 4);  // ones and zeros: masks of any number of lanes
      signs_ = put(uint64_t(1) << (8 * item_ - 1), item_, lanes_);
      for (int k = 0; k < 2; ++k) {
        pack_[k] =
            asm_.getSize();  // the lowest 1 or 2 bytes of the lanes to the front of each half
        for (int half = 0; half < 2; ++half)
          for (int byte = 0; byte < 16; ++byte) {
            const int lane = byte >> k;
            put(lane < 16 / item_ ? uint64_t(lane * item_ + (byte & k)) : 0x80, 1, 1);
          }
      }
    }
    indices_ = asm_.getSize();
    for (int lane = 0; lane < lanes_; ++lane) put(uint64_t(lane), item_, 1);
    pool_offset_.assign(plan_.code.size(), 0);
    for (size_t i = 0; i < plan_.code.size(); ++i)
      if (plan_.code[i].op == LaneOp::constant)
        pool_offset_[i] = put(plan_.code[i].bits, item_, copies);
    asm_.align(64);
    entry_ = asm_.getSize();
  }

  // ---- the function --------------------------------------------------------------------------------

  void write_prologue() {
    int used = 0;
    for (const int32_t id : plan_.body) {
      const LaneInstruction& x = plan_.code[id];
      if ((reads(x.op) || is_store(x.op)) && pointer_[x.operand()] < 0 && used < kMaxPointers)
        pointer_[x.operand()] = int8_t(kPointers[used++]);
      failed_ |= ir::is_moving(x.op) && pointer_[x.operand()] < 0;
    }
    pushed_ = std::max(0, used - kFirstSaved);
    MT_EMIT(push, rbp);
    MT_EMIT(mov, rbp, rsp);
    MT_EMIT(push, rbx);
    for (int k = 0; k < pushed_; ++k) MT_EMIT(push, Reg64(kPointers[kFirstSaved + k]));
    MT_EMIT(sub, rsp, kFrame);
    MT_EMIT(and_, rsp, -64);
  }

  void load_pointers() {
    now_ = nullptr;
    for (int k = 0; k < kOperands; ++k)
      if (pointer_[k] >= 0) MT_EMIT(mov, Reg64(pointer_[k]), asm_.ptr[rdi + 8 * k]);
  }

  /// Assigns registers for the whole loop to the invariants that are read most often.
  void pin() {
    now_ = nullptr;
    if (!plan_.carries.empty() && !wide_) {
      rest_mask_ = vectors_.count - 1;
      vectors_.holds[rest_mask_] = kTaken;
    }
    for (const int32_t id : plan_.pinned) {
      const int32_t value = value_of(id, 0);
      int r = vectors_.first + vectors_.count - 1;
      while (vectors_.holds[r] == kTaken) --r;
      fill(r, value);
      vectors_.holds[r] = kTaken;
      reg_[value] = int8_t(r);
    }
  }

  void write_sequence(const std::vector<int32_t>& sequence, const Uses& uses, int copies,
                      bool masked) {
    uses_ = &uses, copies_ = copies, masked_ = masked;
    std::fill(next_.begin(), next_.end(), 0);
    const bool before = &sequence == &plan_.before;
    position_ = -1;
    for (const int32_t id : sequence) {
      ++position_;
      if (plan_.carries.empty() && !before && !masked && copies > 1)
        prefetch(plan_.code[id], copies);
      if (plan_.direct[id] && !masked) continue;
      for (int copy = 0; copy < copies; ++copy) {
        write(id, copy);
        const int32_t value = value_of(id, copy);
        if (before && (uses_in_body_->count(id) > 0 || !plan_.exit.empty())) save(value);
        if (plan_.uniform[id]) break;
      }
    }
    if (plan_.carries.empty() || before) forget();
  }

  /// Prefetches the lines that a load or store accesses some iterations later. Long bodies gain 5 to
  /// 8 % if operands are not cached; short ones are left to the hardware prefetcher.
  void prefetch(const LaneInstruction& x, int copies) {
    constexpr int kLine = 64, kAhead = 1024;
    constexpr size_t kLong = 24;
    const bool memory = (is_load(x.op) || is_store(x.op)) && !x.is_strided();
    if (!memory || pointer_[x.operand()] < 0 || plan_.body.size() < kLong) return;
    const int item = operand_item(x, item_);
    now_ = nullptr;
    for (int at = 0; at < copies * lanes_ * item; at += kLine) {
      const Address line = asm_.ptr[Reg64(pointer_[x.operand()]) + rdx * item + (at + kAhead)];
      if (is_store(x.op)) MT_EMIT(prefetchw, line);
      else MT_EMIT(prefetcht0, line);
    }
  }

  void write_loops() {
    const int step = plan_.copies * lanes_;
    Xbyak::Label loop, rest, again, done;
    if (wide_ || plan_.copies > 1) {
      MT_EMIT(lea, rax, asm_.ptr[rdx + step]);
      MT_EMIT(cmp, rax, rcx);
      MT_JUMP(jg, rest, "rest");
      asm_.align(32);
      place(loop, "loop");
      if (plan_.carries.empty()) write_sequence(plan_.body, *uses_in_body_, plan_.copies, false);
      else write_turns(plan_.copies, false);
      now_ = nullptr;
      MT_EMIT(add, rdx, step);
      MT_EMIT(lea, rax, asm_.ptr[rdx + step]);
      MT_EMIT(cmp, rax, rcx);
      MT_JUMP(jle, loop, "loop");
    }
    asm_.L(rest);
    place(again, "rest");
    const bool all = wide_ || !plan_.carries.empty();
    if (all) {
      MT_EMIT(mov, rax, rcx);
      MT_EMIT(sub, rax, rdx);
      MT_JUMP(jle, done, "done");
      write_rest_mask();
    } else {  // whole vectors only
      MT_EMIT(lea, rax, asm_.ptr[rdx + lanes_]);
      MT_EMIT(cmp, rax, rcx);
      MT_JUMP(jg, done, "done");
    }
    if (plan_.carries.empty()) write_sequence(plan_.body, *uses_in_body_, 1, wide_);
    else write_turns(1, true);
    now_ = nullptr;
    MT_EMIT(add, rdx, lanes_);
    MT_JUMP(jmp, again, "rest");
    place(done, "done");
    if (all) MT_EMIT(mov, rdx, rcx);
    place(stopped_, "stopped");
  }

  /// The mask of the remaining lanes, whose number is in rax: k1, or a vector mask.
  void write_rest_mask() {
    if (wide_) {
      MT_EMIT(mov, ebx, -1);
      MT_EMIT(bzhi, ebx, ebx, eax);
      return MT_KMASK(kmov, Mask(1), ebx);
    }
    MT_EMIT(mov, ebx, lanes_);
    MT_EMIT(cmp, rax, rbx);
    MT_EMIT(cmovg, rax, rbx);
    MT_EMIT(neg, rax);
    MT_EMIT(lea, rbx, pool(ones_ + 32, false));
    MT_EMIT(vmovups, vector(rest_mask_), asm_.ptr[rbx + rax * item_]);
  }

  void write_epilogue() {
    MT_EMIT(mov, rax, rdx);
    MT_EMIT(lea, rsp, asm_.ptr[rbp - 8 * (pushed_ + 1)]);
    for (int k = pushed_; k-- > 0;) MT_EMIT(pop, Reg64(kPointers[kFirstSaved + k]));
    MT_EMIT(pop, rbx);
    MT_EMIT(pop, rbp);
    asm_.vzeroupper();
    asm_.ret();
    list("    vzeroupper\n    ret\n");
  }

  // ---- programs with iterations: reductions over k in registers ------------------------------------

  /// Loads the addresses of operands that move per iteration, for the lanes from rdx on.
  void start_operands() {
    now_ = nullptr;
    for (const int32_t id : plan_.body) {
      const LaneInstruction& x = plan_.code[id];
      if (!ir::is_moving(x.op)) continue;
      const Reg64 at(pointer_[x.bits]);
      MT_EMIT(mov, at, asm_.ptr[rdi + 8 * x.bits]);
      if (x.op == LaneOp::load_turn) MT_EMIT(lea, at, asm_.ptr[at + rdx * item_]);
    }
  }

  void move_operands() {
    now_ = nullptr;
    for (const int32_t id : plan_.body) {
      const LaneInstruction& x = plan_.code[id];
      if (ir::is_moving(x.op))
        MT_EMIT(add, Reg64(pointer_[x.bits]), asm_.ptr[rdi + 8 * (uint64_t(operands_) + x.bits)]);
    }
  }

  /// At the end of an iteration: moves carried values into the registers of their loads.
  void carry_on(int copies) {
    now_ = nullptr;
    vectors_.locked = masks_.locked = 0;
    struct Move {
      int32_t value;
      int to, from;
    };
    std::vector<Move> last;
    const auto each = [&](const auto& visit) {
      for (const ir::LaneProgram::Carry& c : plan_.carries)
        for (int copy = 0; copy < copies; ++copy)
          visit(value_of(c.first, copy), value_of(c.next, copy), plan_.is_entry(c.next));
    };
    each([&](int32_t first, int32_t next, bool entry) {  // carried loads may be overwritten
      if (!entry || first == next) return;
      File& file = file_of(id_of(next));
      const int spare = allocate(file, kTaken);
      file.temporary |= 1u << spare;
      move(next, spare, reg_[next]);
      last.push_back({next, reg_[first], spare});
    });
    each([&](int32_t first, int32_t next, bool entry) {
      if (entry) return;
      if (reg_[next] < 0) fill(allocate(file_of(id_of(next)), next), next);
      const int to = reg_[first], from = reg_[next];
      if (to != from) move(next, to, from);
    });
    for (const Move& m : last) move(m.value, m.to, m.from);
    each([&](int32_t, int32_t next, bool entry) {
      if (entry || plan_.invariant[id_of(next)]) return;
      const int r = reg_[next];
      if (r >= 0 && file_of(id_of(next)).holds[r] == kTaken) reg_[next] = -1;
      if (slot_[next] >= 0) free_slots_.push_back(slot_[next]);
      slot_[next] = -1;
    });
    forget();
  }

  /// Jumps if no lane is active.
  void test_active(const Xbyak::Label& none) {
    const int a = reg_[value_of(plan_.active, 0)], b = reg_[value_of(plan_.active, copies_ - 1)];
    if (wide_) {
      MT_KMASK(kortest, Mask(a), Mask(b));
    } else {
      const Xmm any = temporary();
      MT_EMIT(vorps, any, vector(a), vector(b));
      MT_EMIT(vptest, any, any);
      forget();
    }
    MT_JUMP(jz, none, "left");
  }

  /// Writes all iterations of some lanes, from the loads to the stores; rbx is the counter.
  void write_turns(int copies, bool masked) {
    copies_ = copies, masked_ = masked, uses_ = uses_in_body_;
    std::vector<int32_t> held;
    for (const int32_t id : plan_.entry)
      for (int copy = 0; copy < copies; ++copy) {
        write(id, copy);
        if (failed_) return;  // more loads than registers
        held.push_back(value_of(id, copy));
        file_of(id).holds[reg_[held.back()]] = kTaken;
      }
    start_operands();
    MT_EMIT(mov, rbx, asm_.ptr[rdi + 8 * 2 * uint64_t(operands_)]);
    Xbyak::Label turn, left, failing, next;
    if (plan_.active >= 0) failing_ = &failing;
    asm_.align(32);
    place(turn, "turn");
    write_sequence(plan_.body, *uses_in_body_, copies, masked);
    carry_on(copies);
    move_operands();
    if (plan_.active >= 0) test_active(left);
    MT_EMIT(dec, rbx);
    MT_JUMP(jnz, turn, "turn");
    if (plan_.active >= 0) place(left, "left");
    for (const int32_t id : plan_.exit)
      for (int copy = 0; copy < copies; ++copy) write(id, copy);
    now_ = nullptr;
    if (plan_.active >= 0) {
      MT_JUMP(jmp, next, "next");
      place(failing, "failing");
      MT_EMIT(mov, asm_.ptr[rdi + 8 * (2 * uint64_t(operands_) + 1)], rdi);
      place(next, "next");
      failing_ = &stopped_;
    }
    for (const int32_t value : held) {
      file_of(id_of(value)).holds[reg_[value]] = kFree;
      reg_[value] = -1;
    }
    forget();
  }

  size_t entry_ = 0;
  int pushed_ = 0;
  const Uses* uses_in_body_ = nullptr;
};

}  // namespace mt
