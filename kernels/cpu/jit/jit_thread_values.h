// jit_thread_values.h -- computes the values of a grid kernel: integers and booleans of a thread, and reals
//
// A tree of values is computed with a few temporary registers; values that do not fit wait in slots of the frame.
// Reals are those of a thread in xmm registers, or of all lanes in larger ones.
#pragma once
#include <algorithm>

#include "kernels/cpu/jit/jit_lane_access.h"

namespace mt {

/// Emits the instruction for a real, or for those in all lanes, by the size of the register `to`.
#define MT_REALS(name, to, ...) \
  (to.isXMM() ? MT_SCALAR(name, to, __VA_ARGS__) : MT_PACKED(name, to, __VA_ARGS__))

/// Layer 3 of the machine code of threads: values of one thread, and reals in lanes. `lanes`: in all lanes.
class ThreadValues : protected LaneAccess {
 protected:
  using LaneAccess::LaneAccess;

  // ---- integers and booleans -----------------------------------------------------------------------

  static bool is_immediate(const V& v) { return v.kind == V::number && std::abs(v.value) < 0x1p31; }
  /// Computes a value into the first free temporary of its type; in lanes booleans are integers 0 or 1.
  void evaluate(const V& v, Used used, bool lanes = false) {
    if (v.type == GridType::real) {
      const Xmm from = real(v, used, lanes);
      if (from.getIdx() != used.real) asm_.vmovaps(real_register(used.real, lanes), from);
    } else if (lanes) {
      wholes(v, used);
    } else {
      const Reg64 from = whole(v, used), to = temporary(used.whole);
      if (from.getIdx() != to.getIdx()) asm_.mov(to, from);
    }
  }
  /// Sets temporary 0 to an integer variable.
  void evaluate_variable(int index) {
    const Home& h = homes_.at(index);
    if (h.reg >= 0) asm_.mov(temporary(0), Reg64(h.reg));
    else asm_.mov(temporary(0), whole_slot(h.slot));
  }
  /// The register in which the value is, or -1.
  int register_of(const V& v) const {
    if (v.kind == V::place && v.index == grid_.axes[0]) return Operand::R13;
    if (v.kind == V::scalar && v.type == GridType::integer)
      return register_of_word(word_of_number(v.index));
    return v.kind == V::variable ? homes_.at(v.index).reg : -1;
  }
  Address memory_of(const V& v) {
    switch (v.kind) {
      case V::scalar: return asm_.qword[r14 + 8 * (kGridNumbers + v.index)];
      case V::place: return MT_FIELD(place, v.index);
      case V::thread: return MT_FIELD(thread, v.index);
      case V::block: return MT_FIELD(block, v.index);
      default: return whole_slot(homes_.at(v.index).slot);
    }
  }
  Reg64 whole(const V& v, Used used) override {
    if (const int r = register_of(v); r >= 0) return Reg64(r);
    if (used.whole >= kWholes) return fine_ = false, temporary(0);
    const Reg64 to = temporary(used.whole);
    switch (v.kind) {
      case V::number:
      case V::boolean: asm_.mov(to, uint64_t(int64_t(v.value))); break;
      case V::load: load(v, used); break;
      case V::operation: operation(v, used); break;
      case V::thread:
        if (v.index == grid_.axes[0]) {
          asm_.mov(to, r13);
          asm_.sub(to, MT_FIELD(before, v.index));
          break;
        }
        [[fallthrough]];
      default:
        if (v.kind == V::scalar && v.type == GridType::boolean)
          asm_.movzx(to, asm_.byte[r14 + 8 * (kGridNumbers + v.index)]);
        else asm_.mov(to, memory_of(v));
    }
    return to;
  }
  /// Whether an operand needs no temporary: a literal or what is in the frame.
  static bool is_simple(const V& v) { return v.kind < V::operation; }
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
  void operation(const V& v, Used used) {
    const GridType of = v.args[v.op == op::id<op::Where>]->type;
    if (v.op == kConvert) return convert(v, used);
    if (const V* x = unwrapped(v)) return evaluate(*x, used);
    if (v.op == op::id<op::Where>) return choose(v, used);
    if (v.type == GridType::boolean) return truth(v, used);
    if (of == GridType::integer && arithmetic(v, used)) return;
    call(v, used);
  }
  bool arithmetic(const V& v, Used used) {
    const Reg64 to = temporary(used.whole);
    const int op = v.op;
    const bool divides = op::is<op::FloorDivide, op::Remainder>(op);
    if (op == op::id<op::Neg>) return evaluate(*v.args[0], used), asm_.neg(to), true;
    if (divides) return divide(v, used), true;
    if (const int by = bits_shifted(v); by >= 0)
      return evaluate(*v.args[0], used),
             v.has<op::BitwiseLeftShift>() ? asm_.shl(to, by) : asm_.sar(to, by), true;
    const bool known = op::is<op::Add, op::Sub, op::Mul>(op);
    if (known && is_immediate(*v.args[1])) {
      const int y = int(v.args[1]->value);
      const Reg64 x = whole(*v.args[0], used);
      if (op == op::id<op::Mul>) asm_.imul(to, x, y);
      else asm_.lea(to, asm_.ptr[x + (op == op::id<op::Add> ? y : -y)]);
      return true;
    }
    const bool picks = op::is<op::LuaMin, op::LuaMax>(op);
    const bool bits = is_bitwise(v);
    if (!known && !picks && !bits) return false;
    with_operands(v, used, [&](const Reg64& x, const Operand& y) {
      if (op == op::id<op::BitwiseAnd>) return asm_.and_(x, y);
      if (bits) return op == op::id<op::BitwiseOr> ? asm_.or_(x, y) : asm_.xor_(x, y);
      if (op == op::id<op::Add>) return asm_.add(x, y);
      if (op == op::id<op::Sub>) return asm_.sub(x, y);
      if (op == op::id<op::Mul>) return asm_.imul(x, y);
      asm_.cmp(x, y);
      if (op == op::id<op::LuaMin>) asm_.cmovg(x, y);
      else asm_.cmovl(x, y);
    });
    return true;
  }
  /// Whether it is an and, or, or exclusive or of bits.
  static bool is_bitwise(const V& v) {
    return v.op >= op::id<op::BitwiseAnd> && v.op <= op::id<op::BitwiseXor>;
  }
  /// By how many bits a value is shifted, if it is and they are a literal from 0 to 63; otherwise -1.
  static int bits_shifted(const V& v) {
    if (!v.has<op::BitwiseLeftShift, op::BitwiseRightShift>()) return -1;
    const V& by = *v.args[1];
    return by.kind == V::number && by.value >= 0 && by.value < 64 ? int(by.value) : -1;
  }
  /// Whether it is a quotient by a power of two, or its remainder.
  static bool is_shift(const V& v) {
    const bool divides = v.has<op::FloorDivide, op::Remainder>();
    if (!divides || v.args[1]->kind != V::number) return false;
    const int64_t y = int64_t(v.args[1]->value);
    return y > 0 && !(y & (y - 1));
  }
  /// The floor of a quotient, or its remainder.
  void divide(const V& v, Used used) {
    const bool rest = v.op == op::id<op::Remainder>;
    const V& by = *v.args[1];
    const Reg64 to = temporary(used.whole);
    if (is_shift(v)) {
      const int64_t y = int64_t(by.value);
      evaluate(*v.args[0], used);
      if (rest && y > 1 << 30) asm_.mov(rax, y - 1), asm_.and_(to, rax);
      else if (rest) asm_.and_(to, int(y - 1));
      else if (y > 1) asm_.sar(to, __builtin_ctzll(uint64_t(y)));
      return;
    }
    if (by.kind == V::number && by.value > 0) {
      evaluate(*v.args[0], used);
      return divide_by_constant(int64_t(by.value), rest, to);
    }
    const int slots = slots_, at = take();
    evaluate(by, used);
    asm_.mov(whole_slot(at), to);
    evaluate(*v.args[0], used);
    asm_.mov(rax, to);
    asm_.mov(to, whole_slot(at));
    quotient(v, to);
    asm_.mov(to, rest ? rdx : rax);
    slots_ = slots;
  }
  /// x becomes the floor of x / by, or the remainder. by is no power of two, and 2^(bits - 1) < by < 2^bits. For
  /// 0 <= n < 2^63 the quotient is the upper part of n * (floor(2^(63 + bits) / by) + 1) (Granlund and
  /// Montgomery, Division by Invariant Integers using Multiplication); for negative n, ~n is divided.
  void divide_by_constant(int64_t by, bool rest, const Reg64& x) {
    const int bits = 64 - __builtin_clzll(uint64_t(by));
    __extension__ typedef unsigned __int128 Wide;
    const auto factor = uint64_t((Wide(1) << (63 + bits)) / uint64_t(by) + 1);
    asm_.mov(rax, x);
    asm_.sar(rax, 63);
    asm_.xor_(rax, x);
    asm_.mov(rdx, factor);
    asm_.mul(rdx);
    if (bits > 1) asm_.shr(rdx, bits - 1);
    asm_.mov(rax, x);
    asm_.sar(rax, 63);
    asm_.xor_(rdx, rax);
    if (!rest) return asm_.mov(x, rdx);
    if (by >> 31) asm_.mov(rax, by), asm_.imul(rdx, rax);
    else asm_.imul(rdx, rdx, int(by));
    asm_.sub(x, rdx);
  }
  /// Divides rax by y; the floor of the quotient to rax, the remainder to rdx.
  void quotient(const V& v, const Reg64& y) {
    Label wide, done, by_minus_one;
    const bool positive = v.args[1]->kind == V::number && v.args[1]->value > 0;
    if (v.divides) {
      asm_.test(y, y);
      asm_.jz(fault(v, 0, -1));
    }
    asm_.mov(rdx, rax);
    asm_.or_(rdx, y);
    asm_.shr(rdx, 32);
    asm_.jnz(wide);
    asm_.div(y.cvt32());  // edx is 0
    asm_.jmp(done);
    asm_.L(wide);
    if (!positive) {
      asm_.cmp(y, -1);
      asm_.je(by_minus_one);
    }
    asm_.cqo();
    asm_.idiv(y);
    asm_.test(rdx, rdx);
    asm_.jz(done);
    asm_.xor_(y, rdx);  // their signs
    asm_.jns(done);
    asm_.dec(rax);
    asm_.xor_(y, rdx);
    asm_.add(rdx, y);
    if (!positive) {
      asm_.jmp(done);
      asm_.L(by_minus_one);
      asm_.neg(rax);
      asm_.xor_(edx, edx);
    }
    asm_.L(done);
  }
  static bool compares(const V& v) { return v.has<op::Lt, op::Le, op::Eq, op::Ne>(); }
  /// A boolean as 0 or 1.
  void truth(const V& v, Used used) {
    const Reg64 to = temporary(used.whole);
    const GridType of = v.args[0]->type;
    const bool equal = v.op == op::id<op::Eq>, differs = v.op == op::id<op::Ne>;
    const bool less = v.op == op::id<op::Lt>, not_more = v.op == op::id<op::Le>;
    if (of == GridType::real) {
      if (!compares(v)) return void(fine_ = false);
      const Xmm mask = compared(v, used);
      asm_.vmovd(to.cvt32(), mask);
      return asm_.and_(to.cvt32(), 1);
    }
    if (v.op == op::id<op::LogicalNot>) {
      evaluate(*v.args[0], used);
      return asm_.xor_(to.cvt32(), 1);
    }
    with_operands(v, used, [&](const Reg64& x, const Operand& y) {
      if (v.op == op::id<op::LogicalAnd>) return asm_.and_(x, y);
      if (v.op == op::id<op::LogicalOr>) return asm_.or_(x, y);
      if (v.op == op::id<op::LogicalXor>) return asm_.xor_(x, y);
      asm_.cmp(x, y);
      if (equal) asm_.sete(al);
      else if (differs) asm_.setne(al);
      else if (less) asm_.setl(al);
      else if (not_more) asm_.setle(al);
      else fine_ = false;
      asm_.movzx(x.cvt32(), al);
    });
  }
  /// Jumps if the value of a boolean is `when`.
  void jump(const V& v, bool when, Label& to, Used used) {
    const bool both = v.has<op::LogicalAnd>(), any = v.has<op::LogicalOr>();
    if (v.has<op::LogicalNot>()) return jump(*v.args[0], !when, to, used);
    if ((both || any) && v.args[0]->type == GridType::boolean) {
      if (both != when) {
        jump(*v.args[0], when, to, used);
        return jump(*v.args[1], when, to, used);
      }
      Label after;
      jump(*v.args[0], !when, after, used);
      jump(*v.args[1], when, to, used);
      return asm_.L(after);
    }
    if (compares(v) && v.args[0]->type == GridType::integer)
      return jump_of_integers(v, when, to, used);
    if (compares(v) && v.args[0]->type == GridType::real) return jump_of_reals(v, when, to, used);
    const Reg64 x = whole(v, used);
    asm_.test(x.cvt32(), x.cvt32());
    if (when) asm_.jnz(to);
    else asm_.jz(to);
  }
  void jump_of_integers(const V& v, bool when, Label& to, Used used) {
    const int a = register_of(*v.args[0]), b = register_of(*v.args[1]);
    if (is_immediate(*v.args[1])) asm_.cmp(whole(*v.args[0], used), int(v.args[1]->value));
    else if (a >= 0 && b >= 0) asm_.cmp(Reg64(a), Reg64(b));
    else with_operands(v, used, [&](const Reg64& x, const Operand& y) { asm_.cmp(x, y); });
    switch (v.op) {
      case op::id<op::Lt>: return when ? asm_.jl(to) : asm_.jge(to);
      case op::id<op::Le>: return when ? asm_.jle(to) : asm_.jg(to);
      case op::id<op::Eq>: return when ? asm_.je(to) : asm_.jne(to);
      default: return when ? asm_.jne(to) : asm_.je(to);
    }
  }
  void compare_reals(const Xmm& a, const Operand& b) { return MT_SCALAR(vucomi, a, b); }
  /// A comparison with NaN is false, and ~= is true.
  void jump_of_reals(const V& v, bool when, Label& to, Used used) {
    const Two t = two(v, used);
    if (op::is<op::Lt, op::Le>(v.op)) {  // y > x
      Xmm y = t.y;
      fine_ = fine_ && used.real + 1 < kReals;
      if (t.in_memory) move_real(y = Xmm(used.real + 1), t.memory);
      compare_reals(y, t.x);
      if (v.op == op::id<op::Lt>) return when ? asm_.ja(to) : asm_.jbe(to);
      return when ? asm_.jae(to) : asm_.jb(to);
    }
    compare_reals(t.x, t.operand());
    const bool equal = (v.op == op::id<op::Eq>) == when;
    Label after;
    if (equal) asm_.jp(after), asm_.je(to);
    else asm_.jp(to), asm_.jne(to);
    asm_.L(after);
  }

  // ---- reals ---------------------------------------------------------------------------------------

  Xmm real_variable(int index, const Xmm& to) {
    const Home& h = homes_.at(index);
    if (h.reg >= 0) return Xmm(h.reg);
    move_real(to, slot(h.slot));
    return to;
  }
  /// Two operands: the second one may be in memory.
  struct Two {
    Xmm x, y;
    Address memory;
    bool in_memory;
    const Operand& operand() const { return in_memory ? static_cast<const Operand&>(memory) : y; }
  };
  Two two(const V& v, Used used, bool lanes = false) {
    const V &x = *v.args[0], &y = *v.args[1];
    Two t{real_register(used.real, lanes), real_register(used.real, lanes), asm_.ptr[rax], false};
    if (used.real + 1 >= kReals && (lanes || !is_simple(y))) {
      t.memory = lanes ? lane_slot(take_lanes()) : slot(take());  // until the end of the statement
      move_real(t.memory, real(y, used, lanes));
      t.x = real(x, used, lanes), t.in_memory = true;
      return t;
    }
    t.x = real(x, used, lanes);
    if (lanes) t.y = real(y, used.reals(1), true);
    else if (is_simple(y) && register_of(y) < 0) t.memory = real_memory(y), t.in_memory = true;
    else if (y.kind == V::load && grid_.tensors[y.index].dtype == real_)
      t.memory = asm_.ptr[element(y, used.reals(1))], t.in_memory = true;
    else t.y = real(y, used.reals(1));
    return t;
  }
  Address real_memory(const V& v) {
    if (v.kind == V::number) return constant_of(v.value);
    if (v.kind == V::scalar) return asm_.ptr[r14 + 8 * (kGridNumbers + v.index)];
    return slot(homes_.at(v.index).slot);
  }
  void real_operation(int op, const Xmm& to, const Xmm& x, const Operand& y) {
    switch (op) {
      case op::id<op::Add>: return MT_REALS(vadd, to, x, y);
      case op::id<op::Sub>: return MT_REALS(vsub, to, x, y);
      case op::id<op::Mul>: return MT_REALS(vmul, to, x, y);
      case op::id<op::Div>: return MT_REALS(vdiv, to, x, y);
      case op::id<op::LuaMin>: return MT_REALS(vmin, to, x, y);
      default: return MT_REALS(vmax, to, x, y);
    }
  }
  void round(const Xmm& to, const Xmm& x, int mode) {
    if (to.isXMM()) return MT_SCALAR(vround, to, x, x, uint8_t(mode));
    if (wide_) return MT_PACKED(vrndscale, to, x, uint8_t(mode));
    MT_PACKED(vround, to, x, uint8_t(mode));
  }
  /// Computes y = x with the sign bits changed, or without them.
  void change_signs(const Xmm& to, const Xmm& x, bool negates) {
    const auto with = [&](const Operand& bits) {
      negates ? asm_.vxorps(to, x, bits) : asm_.vandps(to, x, bits);
    };
    const Address bits = constant(negates ? sign_bits() : ~sign_bits());
    if (to.isXMM()) return with(bits);
    broadcast_real(vec(kScratch), bits);
    with(vec(kScratch));
  }
  /// The register of a real: that of a variable, or the first free temporary.
  Xmm real(const V& v, Used used, bool lanes = false) {
    const Xmm to = real_register(used.real, lanes);
    if (const int r = register_of(v); r >= 0) return real_register(r, lanes);
    if (used.real >= kReals) return fine_ = false, real_register(0, lanes);
    if (lanes && !steps_->varies(v)) spread_real(to, v, used);
    else if (v.kind == V::load) lanes ? load_reals(v, used) : load(v, used);
    else if (v.kind == V::operation) real_operation(v, used, lanes);
    else move_real(to, lanes ? lane_slot(home_slot(v)) : real_memory(v));
    return to;
  }
  void spread_real(const Xmm& to, const V& v, Used used) {
    if (v.kind == V::load && grid_.tensors[v.index].dtype == real_)
      return broadcast_real(to, asm_.ptr[element(v, used)]);
    if (is_simple(v)) return broadcast_real(to, real_memory(v));
    broadcast_real(to, real(v, used));
  }
  void real_operation(const V& v, Used used, bool lanes) {
    const Xmm to = real_register(used.real, lanes);
    const auto x = [&] { return real(*v.args[0], used, lanes); };
    switch (v.op) {
      case kConvert: return lanes ? convert_to_reals(v, used) : convert(v, used);
      case op::id<op::Where>: return lanes ? choose_reals(v, used) : choose(v, used);
      case op::id<op::Add>:
      case op::id<op::Sub>:
      case op::id<op::Mul>:
      case op::id<op::Div>:
      case op::id<op::LuaMin>:
      case op::id<op::LuaMax>: {
        const Two t = two(v, used, lanes);
        return real_operation(v.op, to, t.x, t.operand());
      }
      case op::id<op::Neg>: return change_signs(to, x(), true);
      case op::id<op::Abs>: return change_signs(to, x(), false);
      case op::id<op::Floor>: return round(to, x(), 9);
      case op::id<op::Ceil>: return round(to, x(), 10);
      case op::id<op::Sqrt>: {
        const Xmm from = x();
        return lanes ? MT_PACKED(vsqrt, to, from) : MT_SCALAR(vsqrt, to, from, from);
      }
      default: return call(v, used, lanes);
    }
  }
  /// As in the immediate operand of comparisons of reals and of integers.
  static uint8_t order_of(const V& v) {
    return v.op == op::id<op::Eq> ? 0 : v.op == op::id<op::Lt> ? 1 : v.op == op::id<op::Le> ? 2 : 4;
  }
  /// All bits of the result are set where a comparison holds.
  Xmm compared(const V& v, Used used) {
    const Two t = two(v, used);
    const Xmm to(used.real);
    MT_SCALAR(vcmp, to, t.x, t.operand(), order_of(v));
    return to;
  }

  // ---- choices, conversions, calls -----------------------------------------------------------------

  /// c and x or y: neither has an effect.
  void choose(const V& v, Used used) {
    const V &c = *v.args[0], &yes = *v.args[1], &no = *v.args[2];
    const int slots = slots_, at = take();
    if (v.type == GridType::real) {
      move_real(slot(at), real(no, used));
      Label after;
      jump(c, false, after, used);
      move_real(slot(at), real(yes, used));
      asm_.L(after);
      move_real(Xmm(used.real), slot(at));
    } else {
      asm_.mov(whole_slot(at), whole(no, used));
      const int choice = take();
      asm_.mov(whole_slot(choice), whole(yes, used));
      const Reg64 to = temporary(used.whole);
      evaluate(c, used);
      asm_.test(to, to);
      asm_.mov(to, whole_slot(at));
      asm_.cmovnz(to, whole_slot(choice));
    }
    slots_ = slots;
  }
  void choose_reals(const V& v, Used used) {
    const int c = take_lanes(), no = take_lanes(), m = wide_ ? kScratch : kThird;
    mask(*v.args[0], used), save_mask(c, used.real);
    move_real(lane_slot(no), real(*v.args[2], used, true));
    const Xmm yes = real(*v.args[1], used, true);
    move_real(vec(kScratch), lane_slot(no));
    load_mask(c, m);
    blend_reals(vec(used.real), yes, vec(kScratch), m);
  }
  void convert(const V& v, Used used) {
    const V& x = *v.args[0];
    if (v.type == x.type) return evaluate(x, used);
    const Xmm xmm(std::min(used.real, kReals - 1));
    const Reg64 word = temporary(std::min(used.whole, kWholes - 1));
    if (v.type == GridType::real) {
      const Reg64 from = whole(x, used);
      asm_.vxorps(xmm, xmm, xmm);
      return MT_SCALAR(vcvtsi2, xmm, xmm, from);
    }
    if (x.type == GridType::boolean) return evaluate(x, used);
    if (v.type == GridType::boolean) {
      if (x.type == GridType::real) return void(fine_ = false);
      evaluate(x, used);
      asm_.test(word, word);
      asm_.setne(al);
      return asm_.movzx(word.cvt32(), al);
    }
    truncate(word, real(x, used));
  }
  void convert_to_reals(const V& v, Used used) {
    const V& x = *v.args[0];
    const int r = used.real;
    const Xmm to = vec(r);
    if (x.type == GridType::real) return evaluate(x, used, true);
    if (x.type == GridType::boolean) {
      mask(x, used);
      broadcast_real(vec(kScratch), constant_of(1));
      if (wide_) MT_PACKED(vmovu, to | kmask(r) | Xbyak::util::T_z, vec(kScratch));
      else asm_.vandps(to, to, vec(kScratch));
      return;
    }
    wholes(x, used);
    if (!wide_) {
      const int place = take_lanes();
      save_parts(place, r);
      asm_.vxorps(Xmm(kScratch), Xmm(kScratch), Xmm(kScratch));
      for (int l = 0; l < lanes_; ++l) {
        const Address from = asm_.qword[lane_place(place, 8 * l)];
        MT_SCALAR(vcvtsi2, Xmm(kThird), Xmm(kScratch), from);
        move_real(lane_slot(place, item_ * l), Xmm(kThird));
      }
      return move_real(to, lane_slot(place));
    }
    if (item_ == 8) return asm_.vcvtqq2pd(Zmm(r), Zmm(r));
    for (int p = 0; p < parts_; ++p) asm_.vcvtqq2ps(Ymm(r + p), Zmm(r + p));
    if (parts_ == 2) asm_.vinsertf32x8(Zmm(r), Zmm(r), Ymm(r + 1), 1);
  }
  /// Beyond int64 the result is its ends; NaN is 0.
  void truncate(const Reg64& word, const Xmm& from) {
    Label done, end;
    if (item_ == 4) asm_.vcvttss2si(word, from);
    else asm_.vcvttsd2si(word, from);
    asm_.cmp(word, 1);
    asm_.jno(done);
    compare_reals(from, from);
    asm_.jnp(end);
    asm_.xor_(word.cvt32(), word.cvt32());
    asm_.jmp(done);
    asm_.L(end);
    compare_reals(from, constant(0));
    asm_.jb(done);
    asm_.not_(word);
    asm_.L(done);
  }
  /// Calls the loop of an operation for one element, or for those of all lanes.
  void call(const V& v, Used used, bool lanes = false) {
    const GridType of = v.args[v.op == op::id<op::Where>]->type;
    const bool bools = of == GridType::boolean || v.type == GridType::boolean;
    const Dtype dtype = of == GridType::real      ? real_
                        : of == GridType::integer ? Dtype::i64
                                                  : Dtype::b8;
    const auto f = lanes && bools ? nullptr : find_loop_(v.op, dtype);
    if (!f || v.divides) return void(fine_ = false);
    (depth_ > 0 ? calls_in_loops_ : calls_elsewhere_) = true;
    const int slots = slots_, vectors = lane_slots_, count = 1 + v.args.count;
    const int out = lanes ? take_lanes(count) : take(count);
    const auto place = [&](int k) { return lanes ? lane_slot(out + k) : slot(out + k); };
    for (int k = 1; k < count; ++k) {
      const V& x = *v.args[size_t(k - 1)];
      if (x.type == GridType::real) move_real(place(k), real(x, used, lanes));
      else if (lanes) wholes(x, used), save_parts(out + k, used.real);
      else asm_.mov(place(k), whole(x, used));
    }
    for (int k = 0; k < count; ++k) {
      asm_.lea(rax, place(k));
      asm_.mov(MT_FIELD(data, k), rax);
    }
    invoke(f, used, lanes ? lanes_ : 1);
    if (lanes) load_lanes(out, v.type, used);
    else if (v.type == GridType::real) move_real(Xmm(used.real), place(0));
    else if (v.type == GridType::integer) asm_.mov(temporary(used.whole), place(0));
    else asm_.movzx(temporary(used.whole), asm_.byte[slot_place(out)]);
    slots_ = slots, lane_slots_ = vectors;
  }
  /// Calls a loop for n elements at the addresses in the frame.
  void invoke(ThreadLoop f, Used used, int n) {
    const int slots = slots_, saved = take(int(std::size(kVariables)) + 16 + kWholes);
    move_registers(saved, used, true);
    asm_.lea(rdi, MT_FIELD(data, 0));
    asm_.mov(esi, n);
    asm_.xor_(edx, edx);
    asm_.mov(ecx, -1);
    asm_.mov(rax, reinterpret_cast<uint64_t>(f));
    asm_.call(rax);
    move_registers(saved, used, false);
    slots_ = slots;
  }
  /// Saves what a call may change: variables and temporaries in use; or restores it.
  void move_registers(int at, Used used, bool save) {
    const auto word = [&](const Reg64& r) {
      if (save) asm_.mov(whole_slot(at++), r);
      else asm_.mov(r, whole_slot(at++));
    };
    for (const auto& [index, h] : homes_)
      if (h.reg >= 0 && h.type != GridType::real &&
          std::find(kVariables, kVariables + kSavedVariables, h.reg) ==
              kVariables + kSavedVariables)
        word(Reg64(h.reg));
    for (int k = 0; k < used.whole; ++k) word(temporary(k));
    move_reals(at, used, save);
  }
  void move_reals(int at, Used used, bool save) {
    const int vectors = lane_slots_;
    const auto next = [&] { return in_lanes_ ? lane_slot(take_lanes()) : slot(at++); };
    const auto move = [&](int r) {
      const Xmm x = in_lanes_ ? part(r) : Xmm(r);
      save ? move_real(next(), x) : move_real(x, next());
    };
    const auto move_mask = [&](int m) {
      const int place = take_lanes();
      save ? save_mask(place, m) : load_mask(place, m);
    };
    for (const auto& [index, h] : homes_)
      if (h.reg >= 0 && h.type == GridType::real) move(h.reg);
    for (int k = 0; k < used.real; ++k) {
      move(k);
      if (in_lanes_ && wide_) move_mask(k);
    }
    if (masked_) move_mask(kActive);
    for (const auto& [place, r] : words_)
      if (!save) asm_.mov(Reg64(r), word_place(place));
    lane_slots_ = vectors;
  }
  /// Sets a variable to what its temporary 0, or the first after `used`, holds.
  void set(int variable, Used used = kNone) {
    const Home& h = homes_.at(variable);
    if (h.reg < 0) put(h.slot, h.type, used);
    else if (h.type == GridType::real) asm_.vmovaps(Xmm(h.reg), Xmm(used.real));
    else asm_.mov(Reg64(h.reg), temporary(used.whole));
  }
  void check_interrupt() {
    asm_.mov(rax, MT_FIELD(interrupted, 0));
    asm_.cmp(asm_.dword[rax], 0);
    asm_.jne(end_);
  }

  Label end_;  // of the code
};

}  // namespace mt
