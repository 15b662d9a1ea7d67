// jit_emitter.cpp -- the frame of an emitted function: constants, prologue, loops, epilogue
#include "kernels/cpu/jit/jit_emitter.h"

#include <algorithm>

namespace mt {

using ir::LaneOp;
using namespace Xbyak::util;  // the names of registers
using Xbyak::Operand;
using Xbyak::Reg64;

// The function is int64_t (void* const* data rdi, const double* numbers rsi, int64_t from rdx,
// int64_t to rcx); rdx counts, rax and rbx are scratch, the others hold addresses of operands.
namespace {
constexpr int kPointers[] = {Operand::R8,  Operand::R9,  Operand::R10, Operand::R11, Operand::RSI,
                             Operand::R12, Operand::R13, Operand::R14, Operand::R15};
constexpr int kFirstSaved = 5;  // the first callee-saved one
constexpr int kMaxPointers = 9;
constexpr int kFrame = 0x7fffffff;  // patched when the size of the frame is known
}  // namespace

RegisterFile register_file(Isa isa) {
  return isa == Isa::avx512 ? RegisterFile{32, 6, true, 64} : RegisterFile{16, 0, false, 32};
}

Emitter::Emitter(const ir::LaneProgram& program, Isa isa, uint64_t repeated, int copies,
                 uint8_t* buffer, size_t size, std::string* listing)
    : plan_(program, register_file(isa), repeated, copies),
      wide_(isa == Isa::avx512),
      item_(program.item),
      bytes_(register_file(isa).bytes),
      lanes_(bytes_ / program.item),
      operands_(program.operands),
      asm_(size, buffer),
      listing_(listing) {
  const size_t values = plan_.code.size() * size_t(plan_.copies);
  reg_.assign(values, -1);
  slot_.assign(values, -1);
  next_.assign(values, 0);
  std::fill(std::begin(pointer_), std::end(pointer_), int8_t(-1));
  vectors_.count = wide_ ? 32 : 16;
  masks_.first = 2, masks_.count = wide_ ? 6 : 0;  // k1 is the mask of the remainder
  std::fill(std::begin(vectors_.holds), std::end(vectors_.holds), kFree);
  std::fill(std::begin(masks_.holds), std::end(masks_.holds), kFree);
}

bool Emitter::emit() {
  Xbyak::ClearError();
  const Uses in_before(plan_.code, plan_.before);
  const Uses in_body(plan_.code, plan_.body, plan_.after_body);
  uses_in_body_ = &in_body;
  write_pool();
  write_prologue();
  const size_t frame = asm_.getSize() - 4 - 4;  // of the 32-bit size in `sub rsp, size`; then `and`
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

// ---- memory ----------------------------------------------------------------------------------------

/// Writes the constants: one element each for AVX-512, which broadcasts them, or else a vector.
void Emitter::write_pool() {
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
    for (int k = 0; k < 2;
         ++k) {  // to the first bytes of each half: the lowest 1 or 2 bytes of its lanes
      pack_[k] = asm_.getSize();
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

Emitter::Address Emitter::pool(size_t offset, bool broadcast) {
  const Xbyak::RegRip at = asm_.rip + pool_ + int(offset);
  return broadcast ? asm_.ptr_b[at] : asm_.ptr[at];
}

Emitter::Address Emitter::slot(int32_t index) { return asm_.ptr[rsp + index * bytes_]; }

/// The address of the elements of operand k for the copy that is being emitted.
Emitter::Address Emitter::operand(uint64_t k, int item) {
  const int offset = copy_ * lanes_ * item;
  if (pointer_[k] >= 0) return asm_.ptr[Reg64(pointer_[k]) + rdx * item + offset];
  const auto* const listed = now_;
  MT_EMIT(mov, rax, asm_.ptr[rdi + 8 * k]);
  now_ = listed;
  return asm_.ptr[rax + rdx * item + offset];
}

/// The address that a load reads: operands with a stride per iteration have a pointer register.
Emitter::Address Emitter::source(const ir::LaneInstruction& x) {
  if (!ir::is_moving(x.op)) return operand(x.operand(), ir::operand_item(x, item_));
  const int offset = x.op == LaneOp::load_one ? 0 : copy_ * bytes_;
  return asm_.ptr[Reg64(pointer_[x.bits]) + offset];
}

// ---- the function ----------------------------------------------------------------------------------

void Emitter::write_prologue() {
  int used = 0;
  for (const int32_t id : plan_.body) {
    const ir::LaneInstruction& x = plan_.code[id];
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

void Emitter::load_pointers() {
  now_ = nullptr;
  for (int k = 0; k < kOperands; ++k)
    if (pointer_[k] >= 0) MT_EMIT(mov, Reg64(pointer_[k]), asm_.ptr[rdi + 8 * k]);
}

/// Assigns registers for the whole loop to the invariants that are read most often.
void Emitter::pin() {
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

void Emitter::write_sequence(const std::vector<int32_t>& sequence, const Uses& uses, int copies,
                             bool masked) {
  uses_ = &uses, copies_ = copies, masked_ = masked;
  std::fill(next_.begin(), next_.end(), 0);
  const bool before = &sequence == &plan_.before;
  position_ = -1;
  for (const int32_t id : sequence) {
    ++position_;
    if (plan_.carries.empty() && !before && !masked && copies > 1) prefetch(plan_.code[id], copies);
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
void Emitter::prefetch(const ir::LaneInstruction& x, int copies) {
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

/// Frees the registers of all values that are not pinned.
void Emitter::forget() {
  for (File* file : {&vectors_, &masks_}) {  // the next sequence finds only pinned values
    for (int r = 0; r < 32; ++r) {
      const int32_t value = file->holds[r];
      if (value >= 0) reg_[value] = -1;
      if (value >= 0 || (file->temporary >> r & 1)) file->holds[r] = kFree;
    }
    file->temporary = 0;
  }
}

void Emitter::write_loops() {
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
void Emitter::write_rest_mask() {
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

void Emitter::write_epilogue() {
  MT_EMIT(mov, rax, rdx);
  MT_EMIT(lea, rsp, asm_.ptr[rbp - 8 * (pushed_ + 1)]);
  for (int k = pushed_; k-- > 0;) MT_EMIT(pop, Reg64(kPointers[kFirstSaved + k]));
  MT_EMIT(pop, rbx);
  MT_EMIT(pop, rbp);
  asm_.vzeroupper();
  asm_.ret();
  list("    vzeroupper\n    ret\n");
}

// ---- the listing -----------------------------------------------------------------------------------

void Emitter::place(Xbyak::Label& label, const char* name) {
  asm_.L(label);
  list(std::string(name) + ":\n");
}

std::string Emitter::text(const Operand& x) {
  if (!x.isMEM()) {
    std::string name = static_cast<const Xbyak::Reg&>(x).toString();
    if (x.getOpmaskIdx()) name += "{k" + std::to_string(x.getOpmaskIdx()) + "}";
    return x.hasZero() ? name + "{z}" : name;
  }
  const Address& a = x.getAddress();
  const Xbyak::RegExp e = a.getRegExp(false);
  std::string inside;
  if (a.getMode() != Address::M_ModRM) inside = "constants";
  if (e.getBase().getBit()) inside = e.getBase().toString();
  if (e.getIndex().getBit()) {
    inside += std::string("+") + e.getIndex().toString();
    if (e.getScale() > 1) inside += "*" + std::to_string(e.getScale());
  }
  if (const int64_t d = e.getDisp(); d != 0) inside += (d < 0 ? "" : "+") + std::to_string(d);
  std::string all = "[" + inside + "]";
  if (a.isBroadcast()) all += "{1toN}";
  if (x.getOpmaskIdx()) all += "{k" + std::to_string(x.getOpmaskIdx()) + "}";
  return all;
}

}  // namespace mt
