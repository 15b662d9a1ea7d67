// jit_registers.h -- the registers and the memory of the values of an emitted lane program, and the listing
//
// Registers are allocated during emission: if all are in use, the one whose next use is furthest
// away is evicted (Belady), and its value is spilled to the stack unless memory has a copy.
#pragma once
#define XBYAK_NO_EXCEPTION
#include <xbyak/xbyak.h>

#include <algorithm>

#include "kernels/cpu/jit/jit_plan.h"
#include "kernels/cpu/jit/jit_x64.h"

namespace mt {

using namespace Xbyak::util;  // the names of registers

inline RegisterFile register_file(Isa isa) {
  return isa == Isa::avx512 ? RegisterFile{32, 6, true, 64} : RegisterFile{16, 0, false, 32};
}

/// Emits an instruction, and adds it to the listing.
#define MT_EMIT(name, ...)                              \
  ([&](const auto&... operands) {                       \
    asm_.name(operands...);                             \
    if (listing_) list_instruction(#name, operands...); \
  }(__VA_ARGS__))
/// Emits a jump; `listed` is the name of its label in the listing.
#define MT_JUMP(name, label, listed) \
  (asm_.name(label, Xbyak::CodeGenerator::T_NEAR), list("    " #name " " listed "\n"))
/// Emits the single or double instruction, depending on the element size.
#define MT_REAL(name, ...) \
  (item_ == 4 ? MT_EMIT(name##ps, __VA_ARGS__) : MT_EMIT(name##pd, __VA_ARGS__))
#define MT_WORD(name, ...) \
  (item_ == 4 ? MT_EMIT(name##d, __VA_ARGS__) : MT_EMIT(name##q, __VA_ARGS__))
/// Emits the instruction on masks of 16 or 8 lanes.
#define MT_KMASK(name, ...) \
  (lanes_ == 16 ? MT_EMIT(name##w, __VA_ARGS__) : MT_EMIT(name##b, __VA_ARGS__))

/// Layer 1 of 4 of the emitter: which register, slot of the stack or constant holds each value, and the listing.
class RegisterAllocator {
 public:
  static constexpr int kOperands = 64;

 protected:
  using Xmm = Xbyak::Xmm;
  using Ymm = Xbyak::Ymm;
  using Zmm = Xbyak::Zmm;
  using Mask = Xbyak::Opmask;
  using Address = Xbyak::Address;
  using Operand = Xbyak::Operand;
  using Reg64 = Xbyak::Reg64;

  /// The memory or register of an operand of an instruction.
  struct Source {
    Address memory;
    Xmm vector;
    bool in_memory;
    operator const Operand&() const {
      return in_memory ? static_cast<const Operand&>(memory) : vector;
    }
  };
  struct File {
    int first, count;
    int32_t holds[32];   // the value; kFree, kTaken
    uint32_t locked;     // by the instruction that is being emitted
    uint32_t temporary;  // until it has been emitted
  };
  enum : int32_t { kFree = -1, kTaken = -2 };

  RegisterAllocator(const ir::LaneProgram& program, Isa isa, uint64_t repeated, int copies,
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

  // ---- the listing ---------------------------------------------------------------------------------

  void list(const std::string& text) {
    if (listing_) *listing_ += text;
  }
  void place(Xbyak::Label& label, const char* name) {
    asm_.L(label);
    list(std::string(name) + ":\n");
  }

  /// The base, the index and the displacement of an address, as they were given.
  template <class A> static Xbyak::RegExp expression_of(const A& a) {
    if constexpr (requires { a.cloneNoOptimize(); })  // xbyak 7
      return a.cloneNoOptimize().getRegExp();
    else return a.getRegExp(false);
  }
  std::string text(const Operand& x) {
    if (!x.isMEM()) {
      std::string name = static_cast<const Xbyak::Reg&>(x).toString();
      if (x.getOpmaskIdx()) name += "{k" + std::to_string(x.getOpmaskIdx()) + "}";
      return x.hasZero() ? name + "{z}" : name;
    }
    const Address& a = x.getAddress();
    const Xbyak::RegExp e = expression_of(a);
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
  static std::string text(const Xbyak::Label&) { return {}; }
  static std::string text(int64_t number) { return std::to_string(number); }
  template <class... A> void list_instruction(const char* name, const A&... operands) {
    std::string line = "    " + std::string(name);
    if (line.back() == '_') line.pop_back();  // and_: xbyak's name, since C++ has the keyword
    const char* comma = " ";
    ((line += comma + text(operands), comma = ", "), ...);
    if (now_ && now_->line > 0) {
      line.resize(line.size() < 56 ? 56 : line.size(), ' ');
      line += "; line " + std::to_string(now_->line);
    }
    *listing_ += line + "\n";
  }

  // ---- memory --------------------------------------------------------------------------------------

  Address pool(size_t offset, bool broadcast) {
    const Xbyak::RegRip at = asm_.rip + pool_ + int(offset);
    return broadcast ? asm_.ptr_b[at] : asm_.ptr[at];
  }

  Address slot(int32_t index) { return asm_.ptr[rsp + index * bytes_]; }

  /// The address of the elements of operand k for the copy that is being emitted.
  Address operand(uint64_t k, int item) {
    const int offset = copy_ * lanes_ * item;
    if (pointer_[k] >= 0) return asm_.ptr[Reg64(pointer_[k]) + rdx * item + offset];
    const auto* const listed = now_;
    MT_EMIT(mov, rax, asm_.ptr[rdi + 8 * k]);
    now_ = listed;
    return asm_.ptr[rax + rdx * item + offset];
  }

  /// The address that a load reads: operands with a stride per iteration have a pointer register.
  Address source(const LaneInstruction& x) {
    if (!ir::is_moving(x.op)) return operand(x.operand(), ir::operand_item(x, item_));
    const int offset = x.op == LaneOp::load_one ? 0 : copy_ * bytes_;
    return asm_.ptr[Reg64(pointer_[x.bits]) + offset];
  }

  // ---- registers -----------------------------------------------------------------------------------

  int32_t value_of(int32_t id, int copy) const {
    return id * plan_.copies + (plan_.shared(id) ? 0 : copy);
  }
  int32_t id_of(int32_t value) const { return value / plan_.copies; }
  int32_t in_value(int k) const { return value_of(now_->in[k], copy_); }
  const File& file_of(int32_t id) const {
    return wide_ && ir::is_mask(plan_.code[id].op) ? masks_ : vectors_;
  }
  File& file_of(int32_t id) {
    return const_cast<File&>(static_cast<const RegisterAllocator*>(this)->file_of(id));
  }
  int32_t next_use(int32_t value) const { return uses_->at(id_of(value), next_[value]); }
  bool is_last_copy() const { return plan_.uniform[id_] || copy_ + 1 == copies_; }
  Ymm vector(int index) const { return wide_ ? Zmm(index) : Ymm(index); }
  /// Whether the value need not be spilled when its register is evicted.
  bool has_copy(int32_t value) const {
    const size_t id = id_of(value);
    return plan_.code[id].op == LaneOp::constant || slot_[value] >= 0 ||
           (plan_.direct[id] && !masked_);
  }

  /// Whether the instruction being emitted is the last use of the value.
  bool dies(int32_t value) const {
    const int32_t id = id_of(value);
    const bool shared = plan_.shared(id) && !is_last_copy();
    const int r = reg_[value];
    if (shared || (r >= 0 && file_of(id).holds[r] == kTaken))
      return false;  // other copies read it too; it is pinned, or carried
    return uses_->at(id, next_[value] + 1) == Uses::kNone;
  }

  /// Allocates a register for the value, locked until the instruction is emitted.
  int allocate(File& file, int32_t value) {
    int found = -1, furthest = -1;
    for (int r = file.first; r < file.first + file.count; ++r) {
      const int32_t held = file.holds[r];
      if (held == kFree) {
        found = r;
        break;
      }
      if (held == kTaken || (file.locked >> r & 1)) continue;
      // A value that is already in memory is evicted first.
      const int32_t use = next_use(held) / 2 + (has_copy(held) ? Uses::kNone / 2 : 0);
      if (use > furthest) furthest = use, found = r;
    }
    if (found < 0) {
      failed_ = true;
      return file.first;
    }
    if (file.holds[found] >= 0) evict(file, found);
    file.holds[found] = value;
    file.locked |= 1u << found;
    if (value >= 0) reg_[value] = int8_t(found);
    return found;
  }

  void evict(File& file, int index) {
    const int32_t value = file.holds[index];
    if (!has_copy(value)) save(value);
    reg_[value] = -1;
    file.holds[index] = kFree;
  }

  /// Spills the value's register to the stack.
  void save(int32_t value) {
    if (free_slots_.empty()) free_slots_.push_back(slots_++);
    slot_[value] = free_slots_.back();
    free_slots_.pop_back();
    const int r = reg_[value];
    if (&file_of(id_of(value)) == &masks_) MT_EMIT(kmovw, slot(slot_[value]), Mask(r));
    else MT_EMIT(vmovaps, slot(slot_[value]), vector(r));
  }

  /// The memory address of the value; for AVX-512, vectors of constants are one element.
  Address home(int32_t value) {
    const size_t id = id_of(value);
    if (slot_[value] >= 0) return slot(slot_[value]);
    if (plan_.code[id].op == LaneOp::constant) return pool(pool_offset_[id], wide_);
    return source(plan_.code[id]);
  }

  /// Loads the value into a register.
  void fill(int index, int32_t value) {
    const size_t id = id_of(value);
    const Xmm to = vector(index);
    if (&file_of(int32_t(id)) == &masks_) {
      MT_EMIT(kmovw, Mask(index), slot(slot_[value]));
    } else if (slot_[value] < 0 && plan_.code[id].op == LaneOp::constant && wide_) {
      broadcast(index, pool(pool_offset_[id], false));
    } else {
      MT_EMIT(vmovups, to, home(value));
    }
  }

  /// Copies between registers of the value's file.
  void move(int32_t value, int to, int from) {
    if (&file_of(id_of(value)) == &masks_) MT_EMIT(kmovw, Mask(to), Mask(from));
    else MT_EMIT(vmovaps, vector(to), vector(from));
  }

  void broadcast(int index, const Address& one) {
    if (item_ == 4) MT_EMIT(vbroadcastss, vector(index), one);
    else MT_EMIT(vbroadcastsd, vector(index), one);
  }

  /// Frees the registers of all values that are not pinned.
  void forget() {
    for (File* file : {&vectors_, &masks_}) {  // the next sequence finds only pinned values
      for (int r = 0; r < 32; ++r) {
        const int32_t value = file->holds[r];
        if (value >= 0) reg_[value] = -1;
        if (value >= 0 || (file->temporary >> r & 1)) file->holds[r] = kFree;
      }
      file->temporary = 0;
    }
  }

  /// The register of input k, which is loaded if necessary.
  int reload(int k) {
    const int32_t value = in_value(k);
    if (reg_[value] < 0) fill(allocate(file_of(now_->in[k]), value), value);
    return reg_[value];
  }
  Xmm reg(int k) { return vector(reload(k)); }
  Mask mask(int k) { return Mask(reload(k)); }
  bool is_near(int k) const { return reg_[in_value(k)] >= 0; }

  Source any(int k) {
    const int32_t value = in_value(k);
    const int r = reg_[value];
    if (r >= 0) return {Address(size_t(0)), vector(r), false};
    return {home(value), Xmm(0), true};
  }

  /// A scratch register until the instruction has been emitted.
  Xmm temporary() {
    const int r = allocate(vectors_, kTaken);
    vectors_.temporary |= 1u << r;
    return vector(r);
  }

  /// Locks the registers of the inputs, and frees the scratch registers of the previous instruction.
  void begin(int32_t id, int copy) {
    id_ = id, copy_ = copy, now_ = &plan_.code[id];
    for (int r = 0; r < 32; ++r)
      if (vectors_.temporary >> r & 1) vectors_.holds[r] = kFree;
    vectors_.locked = masks_.locked = vectors_.temporary = 0;
    free_slots_.insert(free_slots_.end(), read_slots_.begin(), read_slots_.end());
    read_slots_.clear();
    for (int k = 0; k < ir::inputs_of(now_->op); ++k)
      if (is_near(k)) file_of(now_->in[k]).locked |= 1u << reg_[in_value(k)];
  }

  /// Called after the inputs have been read: frees the registers of those without further uses.
  void consume() {
    for (int k = 0; k < ir::inputs_of(now_->op); ++k) {
      const int32_t in = now_->in[k], value = in_value(k);
      bool again = false;
      for (int j = 0; j < k; ++j) again |= now_->in[j] == in;
      if (again) continue;
      const bool invariant = plan_.invariant[in];
      const bool last = dies(value);
      if (!plan_.shared(in) || is_last_copy()) ++next_[value];
      if (!last) continue;
      const int r = reg_[value];
      if (r >= 0) file_of(in).holds[r] = kFree;
      reg_[value] = -1;
      if (!invariant && slot_[value] >= 0) {  // the instruction may still read it
        read_slots_.push_back(slot_[value]);
        slot_[value] = -1;
      }
    }
  }

  /// The index of the load that the value is carried into at the end of an iteration; -1: none.
  int carried_into(int32_t value) const {
    for (const ir::LaneProgram::Carry& c : plan_.carries)
      if (c.next == id_of(value)) return c.first;
    return -1;
  }

  /// Whether the instruction may write the register of the load that it is carried into, because no
  /// later instruction reads that load.
  bool carries_here(int32_t* first) const {
    const int into = carried_into(value_of(id_, copy_));
    if (into < 0 || plan_.is_entry(id_) || plan_.invariant[id_]) return false;
    *first = value_of(into, copy_);
    const int32_t use = next_use(*first), cursor = next_[*first];
    return use == Uses::kNone || (use == position_ && uses_->at(into, cursor + 1) == Uses::kNone);
  }

  /// The register for the result of the instruction.
  int define() {
    const int32_t value = value_of(id_, copy_);
    int32_t first;
    if (!carries_here(&first)) return allocate(file_of(id_), value);
    return reg_[value] = reg_[first];
  }
  Xmm result() { return vector(define()); }

  struct Two {
    Xmm to, a;
    Source b;
  };
  /// The operands of a binary instruction; if it commutes, the one in a register is first.
  Two two() {
    const int first = commutes(now_->op, now_->bits) && !is_near(0) ? 1 : 0;
    const Xmm a = reg(first);
    const Source b = any(1 - first);
    consume();
    return {result(), a, b};
  }
  struct Three {
    Xmm to;
    int target, memory;  // indices of inputs: the one in `to`, the one in memory or -1
    Source place[3];
  };
  /// Chooses which of three inputs an instruction overwrites: one without further uses, or a copy,
  /// preferably of one that must be loaded. At most one input stays in memory.
  Three three() {
    int memory = -1, target = -1;
    bool copied = true;
    int32_t first;
    const bool carried = carries_here(&first);
    for (int k = 2; k >= 0; --k) {
      if (is_near(k)) continue;
      if (memory < 0) memory = k;
      else if (target < 0 && !carried && now_->in[k] != now_->in[memory]) target = k;
      else reload(k);
      if (memory >= 0 && is_near(memory)) memory = -1;  // it was the same value
    }
    for (int k = 0; k < 3 && carried; ++k)
      if (in_value(k) == first) target = k, copied = false;
    for (int k = 0; k < 3 && target < 0 && !carried; ++k)
      if (k != memory && dies(in_value(k))) target = k, copied = false;
    if (target < 0) {
      target = memory >= 0 ? memory : 0;
      if (target == memory) memory = -1;
    }
    Three t{Xmm(0), target, memory, {any(0), any(1), any(2)}};
    const int32_t from = in_value(target), to = value_of(id_, copy_);
    if (copied) {
      const int r = define();
      if (t.place[target].in_memory) fill(r, from);
      else MT_EMIT(vmovaps, vector(r), t.place[target].vector);
      consume();
      t.to = vector(r);
      return t;
    }
    const int r = reg_[from];
    consume();
    if (vectors_.holds[r] != kTaken)
      vectors_.holds[r] = to;  // kTaken: the register of a carried value
    reg_[to] = int8_t(r);
    t.to = vector(r);
    return t;
  }

  LoopPlan plan_;
  const bool wide_;  // AVX-512
  const int item_, bytes_, lanes_, operands_;
  Xbyak::CodeGenerator asm_;
  std::string* const listing_;
  Xbyak::Label pool_;
  std::vector<size_t> pool_offset_;
  size_t ones_ = 0, signs_ = 0, indices_ = 0, pack_[2] = {};  // in the pool
  int8_t pointer_[kOperands];  // the register with the operand's address, or -1
  int rest_mask_ = -1;  // AVX2, programs with iterations: the register with the remainder's mask

  std::vector<int8_t> reg_;
  std::vector<int32_t> slot_, next_;
  std::vector<int32_t> free_slots_, read_slots_;
  int32_t slots_ = 0;
  File vectors_{}, masks_{};
  const Uses* uses_ = nullptr;
  const LaneInstruction* now_ = nullptr;
  int32_t id_ = 0, position_ = 0;
  int copy_ = 0, copies_ = 1;
  bool masked_ = false, failed_ = false;
};

}  // namespace mt
