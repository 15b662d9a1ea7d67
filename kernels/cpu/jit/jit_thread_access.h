// jit_thread_access.h -- scalar code of grid kernels: the frame, and addresses, loads and stores of elements
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

/// Layer 1 of 6 of the machine code of threads: memory of a thread.
/// rbp is the frame, r13 the place along axes[0], r14 the scalars, r15 the tensors; rax and rdx are scratch.
class ThreadAccess {
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
    int reg;        // with the index from 0; -1: a division
    bool masked;    // the thread is the first active lane
    int lane = -1;  // the register of its lane
  };
  /// How many temporaries are in use.
  struct Used {
    int whole, real;
    Used wholes(int n) const { return {whole + n, real}; }
    Used reals(int n) const { return {whole, real + n}; }
  };
  static constexpr Used kNone{0, 0};

  ThreadAccess(const Grid& g, FindLoop* find_loop, uint8_t* buffer, size_t size)
      : grid_(g),
        find_loop_(find_loop),
        real_(g.program->real),
        item_(real_ == Dtype::f64 ? 8 : 4),
        asm_(size, buffer) {
    asm_.setDefaultJmpNEAR(true);
  }

  /// The register of an integer or boolean: that of a variable, or the first free temporary.
  virtual Reg64 whole(const V& v, Used used) = 0;

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
    faults_.push_back({{}, numbers_.at(&v), dim, reg, masked_});
    return faults_.back().label;
  }
  Address constant(uint64_t bits) { return asm_.ptr[asm_.rip + pool_[bits]]; }
  Address constant_of(double x) {
    return constant(item_ == 8 ? ir::word_of(x) : ir::word_of(float(x)) * 0x100000001);
  }
  uint64_t sign_bits() const { return item_ == 8 ? uint64_t(1) << 63 : 0x8000000080000000; }

  /// Of a thread, or of all lanes.
  void move_real(const Xmm& to, const Address& from) {
    to.isXMM() ? MT_SCALAR(vmov, to, from) : asm_.vmovups(to, from);
  }
  void move_real(const Address& to, const Xmm& from) {
    from.isXMM() ? MT_SCALAR(vmov, to, from) : asm_.vmovups(to, from);
  }

  // ---- accesses ------------------------------------------------------------------------------------

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
  struct Range {
    double lo = -HUGE_VAL, hi = HUGE_VAL;
  };
  Address tensor_word(int tensor, size_t offset, int d = 0) {
    return asm_.qword[r15 + int(size_t(tensor) * sizeof(GridTensor) + offset) + 8 * d];
  }
  const Row* row_of(const V& v) const {
    for (const Row& r : rows_) {
      bool equal = r.access->index == v.index;
      for (size_t k = 0; equal && k + 1 < size_t(v.args.count); ++k)
        equal = same(*r.access->args[k], *v.args[k]);
      if (equal) return &r;
    }
    return nullptr;
  }
  RegExp element_of(const Row& row, const V& v, Used used) {
    const Reg64 k = temporary(used.whole);
    position(*v.args[size_t(v.args.count - 1)], used);
    asm_.cmp(k, whole_slot(row.size));
    outside_.push_back({{}, &v, used});
    asm_.jae(outside_.back().label);
    asm_.mov(rax, whole_slot(row.data));
    return rax + k * int(item_size(grid_.tensors[v.index].dtype));
  }
  /// The integers that a value may be; infinite where nothing is known. Sizes of blocks are part of the code's key.
  Range range_of(const V& v, int depth = 0) const {
    constexpr double kLarge = 0x1p50;
    Range all;
    if (depth > 8 || v.type != GridType::integer) return all;
    const auto of = [&](size_t k) { return range_of(*v.args[k], depth + 1); };
    if (v.kind == V::number) return {v.value, v.value};
    if (v.kind == V::thread) return {1, double(grid_.tile[v.index])};
    if (v.kind == V::variable) {
      const auto found = only_.find(v.index);
      const GridStatement* const s = found == only_.end() ? nullptr : found->second;
      if (!s) return all;
      const Range first = range_of(*s->value, depth + 1);
      if (s->kind == GridStatement::assign) return first;
      if (s->kind != GridStatement::count || s->step->kind != V::number) return all;
      const Range last = range_of(*s->last, depth + 1);
      return s->step->value > 0 ? Range{first.lo, last.hi} : Range{last.lo, first.hi};
    }
    if (v.kind != V::operation || v.args.count > 2) return all;
    if (v.op == kConvert) return of(0);
    const Range x = of(0), y = v.args.count > 1 ? of(1) : all;
    const bool by = v.args.count > 1 && v.args[1]->kind == V::number && v.args[1]->value > 0;
    if (v.op == op::id<op::Add>) all = {x.lo + y.lo, x.hi + y.hi};
    else if (v.op == op::id<op::Sub>) all = {x.lo - y.hi, x.hi - y.lo};
    else if (v.op == op::id<op::Mul> && by) all = {x.lo * y.lo, x.hi * y.lo};
    else if (v.op == op::id<op::Remainder> && by) all = {0, y.lo - 1};
    else if (v.op == op::id<op::FloorDivide> && by)
      all = {std::floor(x.lo / y.lo), std::floor(x.hi / y.lo)};
    return all.lo > -kLarge && all.hi < kLarge ? all : Range{};
  }
  void compare_size(const Reg64& k, const V& v, int d) {
    const GridTensor& t = grid_.tensors[v.index];
    if (t.shared) asm_.cmp(k, int(t.size[d]));
    else asm_.cmp(k, tensor_word(v.index, offsetof(GridTensor, size), d));
  }
  /// Jumps if an index, counted from 0, is out of bounds.
  virtual void check_index(const V& v, int d, const Reg64& k) {
    compare_size(k, v, d);
    asm_.jae(fault(v, d, k.getIdx()));
  }
  void times_stride(const Reg64& k, const V& v, int d) {
    const GridTensor& t = grid_.tensors[v.index];
    if (t.stride[d] != 1 && t.shared) asm_.imul(k, k, int(t.stride[d]));
    else if (t.stride[d] != 1) asm_.imul(k, tensor_word(v.index, offsetof(GridTensor, stride), d));
  }
  /// Computes the offset of an index, which is checked, into the first free temporary.
  void offset_of(const V& v, int d, Used used) {
    position(*v.args[size_t(d)], used);
    check_index(v, d, temporary(used.whole));
    times_stride(temporary(used.whole), v, d);
  }
  /// The address of an element; an index of a shared array is not checked if it is known to be inside.
  RegExp element(const V& v, Used used) {
    const GridTensor& t = grid_.tensors[v.index];
    if (const Row* row = row_of(v); row && used.whole < kWholes) return element_of(*row, v, used);
    const int slots = slots_;
    const bool spills = t.ndim > 1 && used.whole + 1 >= kWholes;
    const int sum = spills ? take() : -1;
    if (used.whole >= kWholes) return fine_ = false, RegExp(rax);
    const Reg64 at = temporary(used.whole);
    int64_t shift = 0;
    bool any = false;
    for (int d = 0; d < t.ndim; ++d) {
      const V& x = *v.args[size_t(d)];
      const Range range = t.shared ? range_of(x) : Range{};
      const bool inside = range.lo >= 1 && range.hi <= double(t.size[d]);
      if (inside && range.lo == range.hi) {
        shift += (int64_t(range.lo) - 1) * t.stride[d];
        continue;
      }
      const Used now = any && !spills ? used.wholes(1) : used;
      const Reg64 k = temporary(now.whole);
      if (inside) {
        int64_t offset = -1;
        const V* rest = &without_offset(x, offset);
        if (std::abs(offset) > 1 << 12) rest = &x, offset = -1;  // a displacement has 32 bits
        shift += offset * t.stride[d];
        const Reg64 from = whole(*rest, now);
        if (t.stride[d] != 1) asm_.imul(k, from, int(t.stride[d]));
        else if (from.getIdx() != k.getIdx()) asm_.mov(k, from);
      } else {
        offset_of(v, d, now);
      }
      if (spills && any) asm_.add(whole_slot(sum), k);
      else if (spills) asm_.mov(whole_slot(sum), k);
      else if (any) asm_.add(at, k);
      any = true;
    }
    if (spills && any) asm_.mov(at, whole_slot(sum));
    slots_ = slots;
    asm_.mov(rax, tensor_word(v.index, offsetof(GridTensor, data)));
    const int item = int(item_size(t.dtype));
    return (any ? rax + at * item : RegExp(rax)) + int(shift) * item;
  }
  /// A value without the integers that are added to it.
  const GridValue& without_offset(const V& v, int64_t& offset) {
    const V* x = &v;
    while (x->kind == V::operation && x->args.count == 2 && op::is<op::Add, op::Sub>(x->op)) {
      const V& y = *x->args[1];
      if (y.kind != V::number || std::abs(y.value) > 0x1p20 || std::abs(offset) > (1 << 28)) break;
      offset += x->op == op::id<op::Add> ? int64_t(y.value) : -int64_t(y.value);
      x = x->args[0];
    }
    return *x;
  }
  void position(const V& v, Used used) {
    int64_t offset = -1;
    const V& x = without_offset(v, offset);
    const Reg64 from = whole(x, used);
    asm_.lea(temporary(used.whole), asm_.ptr[from + int(offset)]);
  }
  void load(const V& v, Used used) {
    const Dtype dtype = grid_.tensors[v.index].dtype;
    load_from(element(v, used), dtype, Xmm(used.real), used.whole);
  }
  void load_from(const RegExp& from, Dtype dtype, const Xmm& real, int whole) {
    const Reg64 word = whole < kWholes ? temporary(whole) : rax;
    switch (dtype) {
      case Dtype::f32:
        if (item_ == 4) return asm_.vmovss(real, asm_.ptr[from]);
        return asm_.vcvtss2sd(real, real, asm_.ptr[from]);
      case Dtype::f64: return asm_.vmovsd(real, asm_.ptr[from]);
      case Dtype::i64: return asm_.mov(word, asm_.ptr[from]);
      case Dtype::i32: return asm_.movsxd(word, asm_.dword[from]);
      case Dtype::i16: return asm_.movsx(word, asm_.word[from]);
      case Dtype::i8: return asm_.movsx(word, asm_.byte[from]);
      case Dtype::u8:
      case Dtype::b8: return asm_.movzx(word, asm_.byte[from]);
      case Dtype::f16:
      case Dtype::bf16:
        asm_.movzx(edx, asm_.word[from]);  // rax may be part of the address, which is used again
        if (dtype == Dtype::bf16) asm_.shl(edx, 16);
        asm_.vmovd(real, edx);
        if (dtype == Dtype::f16) asm_.vcvtph2ps(real, real);
        if (item_ == 8) asm_.vcvtss2sd(real, real, real);
        return;
      default: fine_ = false;
    }
  }
  void store_to(const RegExp& to, Dtype dtype, const Xmm& real, const Reg64& word) {
    switch (dtype) {
      case Dtype::f32:
        if (item_ == 8) asm_.vcvtsd2ss(real, real, real);
        return asm_.vmovss(asm_.ptr[to], real);
      case Dtype::f64: return asm_.vmovsd(asm_.ptr[to], real);
      case Dtype::i64: return asm_.mov(asm_.ptr[to], word);
      case Dtype::i32: return asm_.mov(asm_.ptr[to], word.cvt32());
      case Dtype::i16: return asm_.mov(asm_.ptr[to], word.cvt16());
      case Dtype::i8:
      case Dtype::u8:
      case Dtype::b8: return asm_.mov(asm_.ptr[to], word.cvt8());
      case Dtype::f16:
      case Dtype::bf16: round_to_half(dtype, real); return asm_.mov(asm_.word[to], dx);
      default: fine_ = false;
    }
  }
  /// Rounds a real to 16 bits in dx, as f16_of_float and bf16_of_float do.
  void round_to_half(Dtype dtype, const Xmm& real) {
    Label is_nan, done;
    if (item_ == 8) asm_.vcvtsd2ss(real, real, real);
    asm_.vucomiss(real, real);
    asm_.vmovd(edx, real);
    asm_.jp(is_nan);
    if (dtype == Dtype::f16) {
      asm_.vcvtps2ph(real, real, 0);
      asm_.vmovd(edx, real);
    } else {
      asm_.bt(edx, 16);
      asm_.adc(edx, 0x7fff);
      asm_.shr(edx, 16);
    }
    asm_.jmp(done);
    asm_.L(is_nan);
    asm_.shr(edx, 16);
    asm_.and_(edx, 0x8000);
    asm_.or_(edx, dtype == Dtype::f16 ? 0x7e00 : 0x7fc0);
    asm_.L(done);
  }

  const Grid& grid_;
  FindLoop* const find_loop_;
  const Dtype real_;
  const int item_;
  Xbyak::CodeGenerator asm_;
  bool fine_ = true;  // false: it cannot be compiled
  bool in_lanes_ = false,
       masked_ = false;  // the code runs vectors of threads, some of which are not active
  int depth_ = 0;        // of loops
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
