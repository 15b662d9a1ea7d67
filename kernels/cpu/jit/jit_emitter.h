// jit_emitter.h -- emits the machine code of a planned lane program into a buffer
//
// Registers are allocated during emission: if all are in use, the one whose next use is furthest
// away is evicted (Belady), and its value is spilled to the stack unless memory has a copy. The
// instructions of the vectors of one iteration are interleaved, so that dependency chains overlap.
#pragma once
#define XBYAK_NO_EXCEPTION
#include <xbyak/xbyak.h>

#include "kernels/cpu/jit/jit_plan.h"
#include "kernels/cpu/jit/jit_x64.h"

namespace mt {

RegisterFile register_file(Isa);

class Emitter {
 public:
  static constexpr int kMaxCopies = 8, kOperands = 64;
  /// `copies`: the maximum number of vectors per iteration. `listing`: receives the assembly.
  Emitter(const ir::LaneProgram&, Isa, uint64_t repeated, int copies, uint8_t* buffer, size_t size,
          std::string* listing);
  /// Returns false if the buffer is too small, or (failed) if there are too few registers.
  bool emit();
  size_t size() const { return asm_.getSize(); }
  size_t entry() const { return entry_; }
  bool failed() const { return failed_; }

 private:
  using Xmm = Xbyak::Xmm;
  using Mask = Xbyak::Opmask;
  using Address = Xbyak::Address;
  using Reg64 = Xbyak::Reg64;

  /// The memory or register of an operand of an instruction.
  struct Source {
    Address memory;
    Xmm vector;
    bool in_memory;
    operator const Xbyak::Operand&() const {
      return in_memory ? static_cast<const Xbyak::Operand&>(memory) : vector;
    }
  };
  struct File {
    int first, count;
    int32_t holds[32];   // the value; kFree, kTaken
    uint32_t locked;     // by the instruction that is being emitted
    uint32_t temporary;  // until it has been emitted
  };
  enum : int32_t { kFree = -1, kTaken = -2 };

  // jit_emitter.cpp: the frame of the function and its loops
  void write_pool();
  void write_prologue();
  void write_epilogue();
  void write_loops();
  void load_pointers();
  void write_rest_mask();
  void pin();
  void write_sequence(const std::vector<int32_t>& sequence, const Uses&, int copies, bool masked);
  void forget();
  void prefetch(const ir::LaneInstruction&, int copies);
  Address pool(size_t offset, bool broadcast);
  Address slot(int32_t index);
  Address operand(uint64_t k, int item);
  Address source(const ir::LaneInstruction&);
  void list(const std::string& text) {
    if (listing_) *listing_ += text;
  }
  void place(Xbyak::Label&, const char* name);
  template <class... A> void list_instruction(const char* name, const A&... operands);
  static std::string text(const Xbyak::Operand&);
  static std::string text(const Xbyak::Label&) { return {}; }
  static std::string text(int64_t number) { return std::to_string(number); }

  // jit_turns.cpp: programs with iterations
  void write_turns(int copies, bool masked);
  void start_operands();
  void move_operands();
  void carry_on(int copies);
  int carried_into(int32_t value) const;
  bool carries_here(int32_t* first) const;
  void test_active(const Xbyak::Label& none);

  // jit_registers.cpp: register allocation
  int32_t value_of(int32_t id, int copy) const {
    return id * plan_.copies + (plan_.shared(id) ? 0 : copy);
  }
  int32_t id_of(int32_t value) const { return value / plan_.copies; }
  int32_t in_value(int k) const { return value_of(now_->in[k], copy_); }
  const File& file_of(int32_t id) const {
    return wide_ && ir::is_mask(plan_.code[id].op) ? masks_ : vectors_;
  }
  File& file_of(int32_t id) {
    return const_cast<File&>(static_cast<const Emitter*>(this)->file_of(id));
  }
  int32_t next_use(int32_t value) const { return uses_->at(id_of(value), next_[value]); }
  bool has_copy(int32_t value) const;
  bool dies(int32_t value) const;
  bool is_last_copy() const { return plan_.uniform[id_] || copy_ + 1 == copies_; }
  Xbyak::Ymm vector(int index) const { return wide_ ? Xbyak::Zmm(index) : Xbyak::Ymm(index); }
  int allocate(File&, int32_t value);
  void evict(File&, int index);
  void fill(int index, int32_t value);
  void move(int32_t value, int to, int from);
  void broadcast(int index, const Address& one);
  void save(int32_t value);
  int reload(int k);
  Address home(int32_t value);
  void begin(int32_t id, int copy);
  Xmm reg(int k) { return vector(reload(k)); }
  Mask mask(int k) { return Mask(reload(k)); }
  Source any(int k);
  bool is_near(int k) const { return reg_[in_value(k)] >= 0; }
  Xmm temporary();
  void consume();
  int define();
  Xmm result() { return vector(define()); }
  struct Two {
    Xmm to, a;
    Source b;
  };
  Two two();
  struct Three {
    Xmm to;
    int target, memory;  // indices of inputs: the one in `to`, the one in memory or -1
    Source place[3];
  };
  Three three();

  // jit_elements.cpp: elements of other dtypes and strides, masked stores
  void write_position();
  void write_load_as();
  void write_gather();
  void write_store_as();
  void strided_address();
  template <class F> void each_strided(int count, int offset, const F&);
  void read_strided(const Xmm& to, int bytes, int offset);
  void convert_loaded(const Xmm& to, const Xbyak::Operand& from);
  Xmm packed_elements(const Xmm& from);
  void write_halves(const Address& to, const Xmm& from);
  void write_packed(const Address& to, const Xmm& packed, int bytes);
  void write_strided(const Xmm& packed, int bytes);
  void write_each(const Xmm& packed, int bytes);

  // jit_instructions.cpp: one lane instruction
  void write(int32_t id, int copy);
  void write_value();
  void write_float();
  void write_integer();
  void write_mask();
  void write_estimate(ir::LaneOp);
  void write_scale();
  void write_fma();
  void write_ternary();
  void write_compare();
  void write_icompare();
  void write_select();
  void write_load_bool();
  void write_repeated_bool();
  void write_guard();
  void write_store();
  void write_store_bool();

  LoopPlan plan_;
  const bool wide_;  // AVX-512
  const int item_, bytes_, lanes_, operands_;
  Xbyak::CodeGenerator asm_;
  std::string* const listing_;
  size_t entry_ = 0;
  Xbyak::Label pool_, stopped_;
  const Xbyak::Label* failing_ = &stopped_;  // the jump target of guards that fail
  std::vector<size_t> pool_offset_;
  size_t ones_ = 0, signs_ = 0, indices_ = 0, pack_[2] = {};  // in the pool
  int8_t pointer_[kOperands];  // the register with the operand's address, or -1
  int pushed_ = 0;
  int rest_mask_ = -1;  // AVX2, programs with iterations: the register with the remainder's mask

  std::vector<int8_t> reg_;
  std::vector<int32_t> slot_, next_;
  std::vector<int32_t> free_slots_, read_slots_;
  int32_t slots_ = 0;
  File vectors_{}, masks_{};
  const Uses* uses_ = nullptr;
  const Uses* uses_in_body_ = nullptr;
  const ir::LaneInstruction* now_ = nullptr;
  int32_t id_ = 0, position_ = 0;
  int copy_ = 0, copies_ = 1;
  bool masked_ = false, failed_ = false;
};

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

template <class... A> void Emitter::list_instruction(const char* name, const A&... operands) {
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

}  // namespace mt
