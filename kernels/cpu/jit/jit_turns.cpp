// jit_turns.cpp -- the inner loop of programs with iterations: reductions over k in registers
#include "kernels/cpu/jit/jit_emitter.h"

namespace mt {

using ir::LaneOp;
using namespace Xbyak::util;  // the names of registers
using Xbyak::Reg64;

/// The index of the load that the value is carried into at the end of an iteration; -1: none.
int Emitter::carried_into(int32_t value) const {
  for (const ir::LaneProgram::Carry& c : plan_.carries)
    if (c.next == id_of(value)) return c.first;
  return -1;
}

/// Whether the instruction may write the register of the load that it is carried into, because no
/// later instruction reads that load.
bool Emitter::carries_here(int32_t* first) const {
  const int into = carried_into(value_of(id_, copy_));
  if (into < 0 || plan_.is_entry(id_) || plan_.invariant[id_]) return false;
  *first = value_of(into, copy_);
  const int32_t use = next_use(*first), cursor = next_[*first];
  return use == Uses::kNone || (use == position_ && uses_->at(into, cursor + 1) == Uses::kNone);
}

/// Loads the addresses of operands that move per iteration, for the lanes from rdx on.
void Emitter::start_operands() {
  now_ = nullptr;
  for (const int32_t id : plan_.body) {
    const ir::LaneInstruction& x = plan_.code[id];
    if (!ir::is_moving(x.op)) continue;
    const Reg64 at(pointer_[x.bits]);
    MT_EMIT(mov, at, asm_.ptr[rdi + 8 * x.bits]);
    if (x.op == LaneOp::load_turn) MT_EMIT(lea, at, asm_.ptr[at + rdx * item_]);
  }
}

void Emitter::move_operands() {
  now_ = nullptr;
  for (const int32_t id : plan_.body) {
    const ir::LaneInstruction& x = plan_.code[id];
    if (ir::is_moving(x.op))
      MT_EMIT(add, Reg64(pointer_[x.bits]), asm_.ptr[rdi + 8 * (uint64_t(operands_) + x.bits)]);
  }
}

/// At the end of an iteration: moves carried values into the registers of their loads.
void Emitter::carry_on(int copies) {
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
void Emitter::test_active(const Xbyak::Label& none) {
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
void Emitter::write_turns(int copies, bool masked) {
  copies_ = copies, masked_ = masked, uses_ = uses_in_body_;
  std::vector<int32_t> held;
  for (const int32_t id : plan_.entry)
    for (int copy = 0; copy < copies; ++copy) {
      write(id, copy);
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

}  // namespace mt
