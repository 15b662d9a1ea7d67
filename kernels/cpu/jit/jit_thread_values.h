// jit_thread_values.h -- computes the values of a grid kernel by scalar instructions
//
// A tree of values is computed with a few temporary registers; values that do not fit wait in slots of the frame.
#pragma once
#define XBYAK_NO_EXCEPTION
#include <xbyak/xbyak.h>

#include <cmath>
#include <cstddef>
#include <deque>
#include <map>
#include <vector>

#include "kernels/cpu/jit/grid_threads.h"
#include "kernels/cpu/jit/lanes.h"
#include "kernels/ops.h"
#include "kernels/table.h"

namespace mt {

using namespace Xbyak::util;  // the names of registers

/// Part k of a member of the frame.
#define MT_FIELD(name, k) asm_.qword[rbp + int(offsetof(ThreadFrame, name)) + 8 * (k)]
/// Emits the single or double instruction, depending on the element size.
#define MT_SCALAR(name, ...) (item_ == 4 ? asm_.name##ss(__VA_ARGS__) : asm_.name##sd(__VA_ARGS__))

/// rbp is the frame, r13 the place along axes[0], r14 the scalars, r15 the tensors; rax and rdx are scratch.
class ThreadValues {
 protected:
  using V = GridValue;
  using Address = Xbyak::Address;
  using Label = Xbyak::Label;
  using Operand = Xbyak::Operand;
  using Reg64 = Xbyak::Reg64;
  using RegExp = Xbyak::RegExp;
  using Xmm = Xbyak::Xmm;

  static constexpr int kTemporaries[] = {Operand::RCX, Operand::RSI, Operand::RDI, Operand::R8};
  static constexpr int kVariables[] = {Operand::R12, Operand::RBX, Operand::R9, Operand::R10,
                                       Operand::R11};
  static constexpr int kSavedVariables = 2;  // the first ones, which calls preserve
  static constexpr int kReals = 6;           // xmm0 to xmm5 are temporaries, the others variables
  static constexpr int kWholes = 4;
  struct Home {
    int reg, slot;  // reg -1: it is in the slot
    GridType type;
  };
  struct Fault {
    Label label;
    int64_t value;
    int dim;
    int reg;  // with the index from 0; -1: a division
  };
  /// How many temporaries are in use.
  struct Used {
    int whole, real;
    Used wholes(int n) const { return {whole + n, real}; }
    Used reals(int n) const { return {whole, real + n}; }
  };
  static constexpr Used kNone{0, 0};

  ThreadValues(const Grid& g, FindLoop* find_loop, uint8_t* buffer, size_t size)
      : grid_(g),
        find_loop_(find_loop),
        real_(g.program->real),
        item_(real_ == Dtype::f64 ? 8 : 4),
        asm_(size, buffer) {
    asm_.setDefaultJmpNEAR(true);
  }

  int take(int count = 1) {
    const int first = slots_;
    slots_ += count;
    most_slots_ = std::max(most_slots_, slots_);
    if (most_slots_ > ThreadFrame::kSlots) fine_ = false, slots_ = 0;
    return first;
  }
  RegExp slot_place(int k) { return rbp + int(offsetof(ThreadFrame, slots)) + 8 * k; }
  Address slot(int k) { return asm_.ptr[slot_place(k)]; }
  Address whole_slot(int k) { return asm_.qword[slot_place(k)]; }
  static Reg64 temporary(int k) { return Reg64(kTemporaries[k]); }

  /// Stores the first temporary after `used` in a slot.
  void put(int k, GridType type, Used used) {
    if (type == GridType::real) move_real(slot(k), Xmm(used.real));
    else asm_.mov(whole_slot(k), temporary(used.whole));
  }

  Label& fault(const V& v, int dim, int reg) {
    faults_.push_back({{}, numbers_.at(&v), dim, reg});
    return faults_.back().label;
  }
  Address constant(uint64_t bits) { return asm_.ptr[asm_.rip + pool_[bits]]; }
  Address constant_of(double x) {
    return constant(item_ == 8 ? ir::word_of(x) : ir::word_of(float(x)) * 0x100000001);
  }
  uint64_t sign_bits() const { return item_ == 8 ? uint64_t(1) << 63 : 0x8000000080000000; }

  // ---- accesses ------------------------------------------------------------------------------------

  Address tensor_word(int tensor, size_t offset, int d = 0);
  /// A part of a tensor that has all indices but the last, which do not change in a loop.
  struct Row {
    const V* access;
    int data,
        size;  // slots of its address and of its length, which is 0 if an index is out of bounds
  };
  static bool same(const V& a, const V& b) {
    bool equal = a.kind == b.kind && a.op == b.op && a.index == b.index && a.value == b.value &&
                 a.args.count == b.args.count;
    for (int k = 0; equal && k < a.args.count; ++k)
      equal = same(*a.args[size_t(k)], *b.args[size_t(k)]);
    return equal;
  }
  const Row* row_of(const V& v) const;
  RegExp element_of(const Row& row, const V& v, Used used);
  /// The address of an element, which needs rax and a temporary.
  RegExp element(const V& v, Used used);
  static const V& without_offset(const V& v, int64_t& offset);
  struct Range {
    double lo = -HUGE_VAL, hi = HUGE_VAL;
  };
  Range range_of(const V& v, int depth = 0) const;
  /// An index, counted from 0, in its temporary.
  void position(const V& v, Used used);
  /// Loads an element into the temporary of its type.
  void load(const V& v, Used used);
  void load_from(const RegExp& from, Dtype dtype, const Xmm& real, int whole);
  void store_to(const RegExp& to, Dtype dtype, const Xmm& real, const Reg64& word);
  void round_to_half(Dtype dtype, const Xmm& real);

  // ---- integers and booleans -------------------------------------------------------------------------

  /// Computes a value into the first free temporary of its type.
  void evaluate(const V& v, Used used);
  /// Sets temporary 0 to an integer variable.
  void evaluate_variable(int index);
  /// Whether an operand needs no temporary: a literal or what is in the frame.
  static bool is_simple(const V& v) { return v.kind < V::operation; }
  /// The register in which the value is, or -1.
  int register_of(const V& v) const;
  Address memory_of(const V& v);
  /// The register of an integer or boolean: that of a variable, or the first free temporary.
  Reg64 whole(const V& v, Used used);
  /// Calls f(x, y) with the registers or the memory of two operands; f may change x, the first temporary.
  template <class F> void with_operands(const V& v, Used used, const F& f) {
    const V &x = *v.args[0], &y = *v.args[1];
    const Reg64 to = temporary(used.whole);
    const int slots = slots_;
    const bool in_register = register_of(y) >= 0;
    const bool computed = y.kind == V::thread && y.index == grid_.axes[0];
    const bool in_frame = is_simple(y) && y.kind >= V::scalar && !in_register && !computed &&
                          y.type == GridType::integer;
    if (!in_register && !in_frame && used.whole + 1 >= kWholes) {
      const int at = take();
      evaluate(y, used);
      asm_.mov(whole_slot(at), to);
      evaluate(x, used);
      f(to, whole_slot(at));
    } else {
      evaluate(x, used);
      if (in_frame) f(to, memory_of(y));
      else f(to, whole(y, used.wholes(1)));
    }
    slots_ = slots;
  }
  static bool is_immediate(const V& v) { return v.kind == V::number && std::abs(v.value) < 0x1p31; }
  void operation(const V& v, Used used);
  bool arithmetic(const V& v, Used used);
  /// Whether it is a quotient by a power of two, or its remainder.
  static bool is_shift(const V& v) {
    const bool divides = v.has(op::id<op::FloorDivide>) || v.has(op::id<op::Remainder>);
    if (!divides || v.args[1]->kind != V::number) return false;
    const int64_t y = int64_t(v.args[1]->value);
    return y > 0 && !(y & (y - 1));
  }
  /// The floor of a quotient, or its remainder.
  void divide(const V& v, Used used);
  void divide_by_constant(int64_t by, bool rest, const Reg64& x);
  /// Divides rax by y; the floor of the quotient to rax, the remainder to rdx.
  void quotient(const V& v, const Reg64& y);
  static bool compares(const V& v) {
    return v.has(op::id<op::Lt>) || v.has(op::id<op::Le>) || v.has(op::id<op::Eq>) ||
           v.has(op::id<op::Ne>);
  }
  /// A boolean as 0 or 1.
  void truth(const V& v, Used used);
  /// Jumps if the value of a boolean is `when`.
  void jump(const V& v, bool when, Label& to, Used used);
  void jump_of_integers(const V& v, bool when, Label& to, Used used);
  /// A comparison with NaN is false, and ~= is true.
  void jump_of_reals(const V& v, bool when, Label& to, Used used);

  // ---- reals ---------------------------------------------------------------------------------------

  void move_real(const Xmm& to, const Address& from) { return MT_SCALAR(vmov, to, from); }
  void move_real(const Address& to, const Xmm& from) { return MT_SCALAR(vmov, to, from); }
  void compare_reals(const Xmm& a, const Operand& b) { return MT_SCALAR(vucomi, a, b); }
  Xmm real_variable(int index, const Xmm& to);
  /// Two operands: the second one may be in memory.
  struct Two {
    Xmm x, y;
    Address memory;
    bool in_memory;
    const Operand& operand() const { return in_memory ? static_cast<const Operand&>(memory) : y; }
  };
  Two two(const V& v, Used used);
  Address real_memory(const V& v);
  void real_operation(int op, const Xmm& to, const Xmm& x, const Operand& y);
  void round(const Xmm& to, const Xmm& x, int mode);
  /// The register of a real: that of a variable, or the first free temporary.
  Xmm real(const V& v, Used used);
  void real_operation(const V& v, Used used);
  /// All bits of the result are set where a comparison holds.
  Xmm compared(const V& v, Used used);

  // ---- choices, conversions, calls -----------------------------------------------------------------

  /// c and x or y: neither has an effect.
  void choose(const V& v, Used used);
  void convert(const V& v, Used used);
  /// Calls the loop of an operation for one element.
  void call(const V& v, Used used);
  /// Saves what a call may change: variables and temporaries in use; or restores it.
  void move_registers(int at, Used used, bool save);

  const Grid& grid_;
  FindLoop* const find_loop_;
  const Dtype real_;
  const int item_;
  Xbyak::CodeGenerator asm_;
  bool fine_ = true;  // false: it cannot be compiled
  int depth_ = 0;     // of loops
  bool calls_in_loops_ = false, calls_elsewhere_ = false;
  int slots_ = 0, most_slots_ = 0;
  std::map<int, Home> homes_;                 // by variable
  std::map<int, const GridStatement*> only_;  // that sets a variable; null: there are several
  std::map<const V*, int64_t> numbers_;
  std::map<uint64_t, Label> pool_;
  std::deque<Fault> faults_;
  struct Outside {
    Label label;
    const V* access;
    Used used;
  };
  std::deque<Outside> outside_;  // accesses of rows out of bounds
  std::vector<Row> rows_;        // of the loops around the statement
};

}  // namespace mt
