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
    bool is_finite() const { return lo > -0x1p60 && hi < 0x1p60; }
    /// Whether they are the values of signed integers of so many bits.
    bool fits(int bits) const {
      const double end = std::ldexp(1.0, bits - 1);
      return lo >= -end && hi < end;
    }
  };
  /// Bounds that were rounded: doubles hold integers only up to 2^53.
  static Range outwards(double lo, double hi) {
    const auto moved = [](double x, double to) {
      return std::abs(x) < 0x1p53 ? x : std::nextafter(x, to);
    };
    return {moved(lo, -HUGE_VAL), moved(hi, HUGE_VAL)};
  }
  /// less + by <= more, wherever the statements are that are emitted now.
  struct Fact {
    const V *less, *more;
    double by;
  };
  /// Words that do not change while threads run, and may have a register (`words_`): the end of a row, numbers of the
  /// launch, and, at their distance from the first one, words of the tensors.
  static constexpr int kEnd = -1;
  static int word_of_number(int index) { return -2 - index; }
  static int word_of_tensor(int tensor, size_t offset, int d = 0) {
    return int(size_t(tensor) * sizeof(GridTensor) + offset) + 8 * d;
  }
  Address word_place(int word) {
    if (word == kEnd) return MT_FIELD(end, grid_.axes[0]);
    return word < 0 ? asm_.qword[r14 + 8 * (kGridNumbers - 2 - word)] : asm_.qword[r15 + word];
  }
  int register_of_word(int word) const {
    const auto found = words_.find(word);
    return found == words_.end() ? -1 : found->second;
  }
  void compare_word(const Reg64& k, int word) {
    if (const int r = register_of_word(word); r >= 0) asm_.cmp(k, Reg64(r));
    else asm_.cmp(k, word_place(word));
  }
  /// The register of the address of a tensor: its own, or rax.
  Reg64 data_of(int tensor) {
    const int word = word_of_tensor(tensor, offsetof(GridTensor, data)), r = register_of_word(word);
    if (r < 0) asm_.mov(rax, word_place(word));
    return r < 0 ? rax : Reg64(r);
  }
  Address tensor_word(int tensor, size_t offset, int d = 0) {
    return word_place(word_of_tensor(tensor, offset, d));
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
  /// The integers that a value may be; infinite where nothing is known.
  Range range_of(const V& v, int depth = 0) const {
    Range all = plain_range_of(v, depth);
    for (const Fact& f : facts_) {
      if (f.more->kind <= V::scalar && same(*f.less, v))
        all.hi = std::min(all.hi, outwards(0, plain_range_of(*f.more, 0).hi - f.by).hi);
      if (f.less->kind <= V::scalar && same(*f.more, v))
        all.lo = std::max(all.lo, outwards(plain_range_of(*f.less, 0).lo + f.by, 0).lo);
    }
    return all;
  }
  /// Without facts. Sizes of blocks are part of the code's key.
  Range plain_range_of(const V& v, int depth) const {
    constexpr double kMax = 0x1p53;  // of positions, and the numbers of a launch
    Range all;
    if (depth > 8 || v.type != GridType::integer) return all;
    const auto of = [&](size_t k) { return range_of(*v.args[k], depth + 1); };
    if (v.kind == V::number) return {v.value, v.value};
    if (v.kind == V::scalar) return {-kMax, kMax};
    if (v.kind == V::place || v.kind == V::block) return {1, kMax};
    if (v.kind == V::thread)
      return {1, grid_.program->in_blocks ? double(grid_.tile[v.index]) : kMax};
    if (v.kind == V::load) return range_of_dtype(grid_.tensors[v.index].dtype);
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
    if (const V* same = unwrapped(v)) return range_of(*same, depth + 1);
    const Range x = of(0), y = v.args.count > 1 ? of(1) : all;
    const bool by = v.args.count > 1 && v.args[1]->kind == V::number && v.args[1]->value > 0;
    if (v.op == op::id<op::Add>) all = outwards(x.lo + y.lo, x.hi + y.hi);
    else if (v.op == op::id<op::Sub>) all = outwards(x.lo - y.hi, x.hi - y.lo);
    else if (v.op == op::id<op::Mul> && by) all = outwards(x.lo * y.lo, x.hi * y.lo);
    else if (v.op == op::id<op::Remainder> && by) all = {0, y.lo - 1};
    else if (v.op == op::id<op::FloorDivide> && by)
      all = outwards(std::floor(x.lo / y.lo), std::floor(x.hi / y.lo));
    else if (v.op == op::id<op::BitwiseAnd> && (x.lo >= 0 || y.lo >= 0))
      return {0, std::min(x.lo >= 0 ? x.hi : HUGE_VAL, y.lo >= 0 ? y.hi : HUGE_VAL)};
    else if (v.op == op::id<op::LuaMin>) return {std::min(x.lo, y.lo), std::min(x.hi, y.hi)};
    else if (v.op == op::id<op::LuaMax>) return {std::max(x.lo, y.lo), std::max(x.hi, y.hi)};
    return all.is_finite() ? all : Range{};
  }
  static Range range_of_dtype(Dtype dtype) {
    const int bits = 8 * int(item_size(dtype));
    if (is_float(dtype) || bits > 32) return {};
    const double values = std::ldexp(1.0, bits), lo = dtype == Dtype::u8 ? 0 : -values / 2;
    return {lo, lo + values - 1};
  }
  /// Of a value that is wrapped to 32 bits, as by Lua's functions of bits, though it has not more: that value.
  const V* unwrapped(const V& v) const {
    const auto shifts = [](const V& x) {
      return x.args[1]->kind == V::number && x.args[1]->value == 32;
    };
    if (!v.has<op::BitwiseRightShift>() || !shifts(v)) return nullptr;
    const V& x = *v.args[0];
    if (!x.has<op::BitwiseLeftShift>() || !shifts(x)) return nullptr;
    return range_of(*x.args[0]).fits(32) ? x.args[0] : nullptr;
  }
  /// Whether a value is the same wherever a thread computes it after its variables are set.
  bool is_fixed(const V& v) const {
    const auto found = v.kind == V::variable ? only_.find(v.index) : only_.end();
    if (v.kind == V::load || (v.kind == V::variable && (found == only_.end() || !found->second)))
      return false;
    return std::all_of(v.args.begin(), v.args.end(), [&](const V* a) { return is_fixed(*a); });
  }
  /// Notes a condition that holds, or does not, in the statements that are emitted next.
  void assume(const V& c, bool holds) {
    if (c.has<op::LogicalNot>()) return assume(*c.args[0], !holds);
    if (holds ? c.has<op::LogicalAnd>() : c.has<op::LogicalOr>())
      return assume(*c.args[0], holds), assume(*c.args[1], holds);
    if (c.has<op::Lt, op::Le>())
      assume_order(*c.args[!holds], *c.args[holds], c.has<op::Lt>() == holds);
  }
  /// Notes that x < y, or x <= y.
  void assume_order(const V& x, const V& y, bool less) {
    if (x.type != GridType::integer || !is_fixed(x) || !is_fixed(y)) return;
    int64_t more_x = 0, more_y = 0;
    const V &a = without_offset(x, more_x), &b = without_offset(y, more_y);
    if ((more_x == 0 || range_of(a).is_finite()) && (more_y == 0 || range_of(b).is_finite()))
      facts_.push_back({&a, &b, double(more_x - more_y + less)});  // the sums did not wrap around
  }
  /// Whether an index is in bounds for certain.
  bool is_inside(const V& access, int d) const {
    const GridTensor& t = grid_.tensors[access.index];
    const V& x = *access.args[size_t(d)];
    const Range range = range_of(x);
    if (range.lo < 1) return false;
    if (t.shared) return range.hi <= double(t.size[d]);
    const unsigned facts = size_facts(grid_, access.index, d);
    if (range.hi <= 256 && facts >> kSizeFacts) return true;
    int64_t offset = 0;
    const V& from = without_offset(x, offset);
    return range_of(from).is_finite() &&
           std::any_of(facts_.begin(), facts_.end(), [&](const Fact& f) {
             return f.more->kind == V::scalar && f.more->index < kSizeFacts &&
                    facts >> f.more->index & 1 && double(offset) <= f.by && same(*f.less, from);
           });
  }
  void compare_size(const Reg64& k, const V& v, int d) {
    const GridTensor& t = grid_.tensors[v.index];
    if (t.shared) asm_.cmp(k, int(t.size[d]));
    else compare_word(k, word_of_tensor(v.index, offsetof(GridTensor, size), d));
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
  /// Computes the offset of an index into the first free temporary.
  void offset_of(const V& v, int d, Used used, bool checks = true) {
    position(*v.args[size_t(d)], used);
    if (checks) check_index(v, d, temporary(used.whole));
    times_stride(temporary(used.whole), v, d);
  }
  /// The address of an element. Indices are checked unless they are inside for certain.
  RegExp element(const V& v, Used used) {
    const GridTensor& t = grid_.tensors[v.index];
    if (const Row* row = row_of(v); row && used.whole < kWholes) return element_of(*row, v, used);
    const int slots = slots_;
    const bool spills = t.ndim > 1 && used.whole + 1 >= kWholes;
    const int sum = spills ? take() : -1;
    if (used.whole >= kWholes) return fine_ = false, RegExp(rax);
    Reg64 at = temporary(used.whole);
    int64_t shift = 0;
    bool any = false;
    for (int d = 0; d < t.ndim; ++d) {
      const V& x = *v.args[size_t(d)];
      const Range range = range_of(x);
      const bool inside = is_inside(v, d), known = inside && (t.shared || t.stride[d] == 1);
      if (known && range.lo == range.hi) {
        shift += (int64_t(range.lo) - 1) * t.stride[d];
        continue;
      }
      const Used now = any && !spills ? used.wholes(1) : used;
      const Reg64 k = temporary(now.whole);
      if (known) {
        int64_t offset = -1;
        const V* rest = &without_offset(x, offset);
        if (std::abs(offset) > 1 << 12) rest = &x, offset = -1;  // a displacement has 32 bits
        shift += offset * t.stride[d];
        const Reg64 from = whole(*rest, now);
        if (t.stride[d] != 1) asm_.imul(k, from, int(t.stride[d]));
        else if (t.ndim == 1) at = from;
        else if (from.getIdx() != k.getIdx()) asm_.mov(k, from);
      } else {
        offset_of(v, d, now, !inside);
      }
      if (spills && any) asm_.add(whole_slot(sum), k);
      else if (spills) asm_.mov(whole_slot(sum), k);
      else if (any) asm_.add(at, k);
      any = true;
    }
    if (spills && any) asm_.mov(at, whole_slot(sum));
    slots_ = slots;
    const Reg64 data = data_of(v.index);
    const int item = int(item_size(t.dtype));
    return (any ? data + at * item : RegExp(data)) + int(shift) * item;
  }
  /// A value without the integers that are added to it.
  static const GridValue& without_offset(const V& v, int64_t& offset) {
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
  std::map<int, int> words_;                  // the registers of words
  std::map<int, const GridStatement*> only_;  // that sets a variable; null: there are several
  std::vector<Fact> facts_;
  std::deque<V> counters_;  // of loops, in facts
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
