// jit_lane_statements.h -- statements of a grid kernel that neighbouring threads run as lanes of vectors
#pragma once
#include "kernels/cpu/jit/jit_lane_values.h"

namespace mt {

/// Layer 5 of the machine code of threads: statements in lanes. Branches on what varies become masks.
class LaneStatements : protected LaneValues {
 protected:
  using List = std::vector<const S*>;
  using LaneValues::LaneValues;

  virtual void statement(const S& s) = 0;
  virtual Label& end_of(const S& s) = 0;

  template <class L> void lane_body(const L& list) {
    Label rest;
    Label* const outer = std::exchange(rest_, &rest);
    for (const S* s : list) statement(*s);
    asm_.L(rest);
    rest_ = outer;
  }

  // ---- loops and scopes that lanes leave at different times ------------------------------------------

  /// A loop or scope while its body is emitted.
  struct Turns {
    bool was_masked = false, is_left = false, leaves = false;
    int entry = -1;  // the slot of the lanes that entered it
  };
  struct Left {
    const S* target;
    int gone;  // the slot of the lanes that have left it
  };
  /// The end of the statements of threads is one scope, whichever statement around them it ends.
  const S* target_of(const S& leave) const {
    return phases_.is_control(*leave.target) ? nullptr : leave.target;
  }
  const Left* left_of(const S& leave) const {
    for (const Left& l : left_)
      if (l.target == target_of(leave)) return &l;
    return nullptr;
  }
  /// Whether lanes may leave loops or scopes around a statement.
  bool leaves_lanes(const S& s) const {
    bool leaves = false;
    each_statement(List{&s}, 0,
                   [&](const S& x, int) { leaves |= x.kind == S::leave && left_of(x); });
    return leaves;
  }
  void open_left(const S* target) {
    const int gone = take_lanes();
    if (!masked_) activate_all();
    asm_.vxorps(Xmm(kScratch), Xmm(kScratch), Xmm(kScratch));
    asm_.vmovups(asm_.ptr[lane_place(gone)], Ymm(kScratch));
    left_.push_back({target, gone});
  }
  Turns begin_turns(const S& s) {
    if (!in_lanes_) return {};
    Turns t{masked_, steps_->is_left(&s), leaves_lanes(s)};
    if (t.is_left) open_left(&s);
    if (t.is_left || t.leaves) save_active(t.entry = take_lanes());
    return t;
  }
  void remove_left() {
    for (const Left& l : left_) remove_active(l.gone);
  }
  /// After an iteration.
  void end_turn(const Turns& t, Label& end) {
    if (t.entry < 0) return;
    load_active(t.entry), remove_left();
    jump_if_none(end);
  }
  /// After a loop or scope: all lanes that entered it, and have not left others.
  void end_turns(const Turns& t) {
    if (t.is_left) left_.pop_back();
    masked_ = t.was_masked;
    if (!masked_ || t.entry < 0) return;
    load_active(t.entry), remove_left();
    if (t.leaves) jump_if_none(*rest_);
  }
  void leave_lanes(const S& s) {
    const Left* const left = left_of(s);
    if (!left) return asm_.jmp(end_of(*s.target));
    if (wide_) {
      asm_.kmovw(k7(), lane_slot(left->gone)), asm_.korw(k7(), k7(), k1());
      asm_.kmovw(lane_slot(left->gone), k7());
    } else {
      asm_.vorps(Ymm(kScratch), Ymm(kActive), lane_slot(left->gone));
      asm_.vmovups(lane_slot(left->gone), Ymm(kScratch));
    }
    asm_.jmp(*rest_);
  }

  // ---- branches ------------------------------------------------------------------------------------

  /// Runs one of the bodies, where all threads, or the only one, take the same.
  void choose_body(const S& s, const auto& run) {
    Label other, after;
    jump(*s.value, false, other, kNone);
    run(s.body);
    if (!s.other.empty()) asm_.jmp(after);
    asm_.L(other);
    run(s.other);
    asm_.L(after);
  }
  void branch_lanes(const S& s) {
    const bool leaves = leaves_lanes(s), was_masked = masked_;
    const int saved = leaves || was_masked ? take_lanes() : -1;
    if (saved >= 0) save_active(saved);
    if (steps_->varies(*s.value)) {
      divide_lanes(s);
    } else {
      if (const S* l = s.exit(); l && !leaves)
        return jump(*s.value, true, end_of(*l->target), kNone);
      choose_body(s, [&](const GridBody& list) { lane_body(list); });
      if (!leaves) return;
    }
    masked_ = was_masked;
    if (!was_masked) return;
    load_active(saved);
    if (leaves) remove_left(), jump_if_none(*rest_);
  }
  /// Runs both bodies, each with its lanes.
  void divide_lanes(const S& s) {
    Label other, after;
    const int no = take_lanes();
    mask(*s.value, kNone);
    const bool both = !s.other.empty();
    if (wide_) {
      if (both && masked_) asm_.kandnw(k7(), kmask(0), k1());
      else if (both) MT_LANES_MASK(knot, k7(), kmask(0));
      if (both) asm_.kmovw(lane_slot(no), k7());
      if (masked_) asm_.kandw(k1(), kmask(0), k1());
      else asm_.kmovw(k1(), kmask(0));
    } else {
      if (!masked_) asm_.vpcmpeqd(Ymm(kActive), Ymm(kActive), Ymm(kActive));
      if (both) asm_.vandnps(Ymm(kScratch), Ymm(0), Ymm(kActive));
      if (both) asm_.vmovups(lane_slot(no), Ymm(kScratch));
      asm_.vandps(Ymm(kActive), Ymm(kActive), Ymm(0));
    }
    masked_ = true;
    jump_if_none(other);
    lane_body(s.body);
    asm_.L(other);
    if (both) {
      load_active(no);
      jump_if_none(after);
      lane_body(s.other);
    }
    asm_.L(after);
  }

  /// A loop whose counter begins with another number in each lane: lanes stop one by one.
  void count_lanes(const S& s) {
    const int last = take(2), step = last + 1, entry = take_lanes();
    const int64_t by = steps_->of(*s.value);
    const bool was_masked = masked_;
    for (const auto& [v, at] : {std::pair(s.last, last), {s.step, step}}) {
      evaluate(*v, kNone);
      put(at, GridType::integer, kNone);
    }
    evaluate(*s.value, kNone);
    set(s.variable);
    Label again, some, end;
    if (!was_masked && by > 0) {  // while all lanes run
      Label all;
      asm_.cmp(whole_slot(step), 0);
      asm_.jle(some);
      asm_.L(all);
      rest_of_count(s, last, end);
      asm_.cmp(rax, int(by * (lanes_ - 1)));
      asm_.jl(some);
      turn(s, step, end);
      asm_.jmp(all);
    }
    asm_.L(some);
    if (!was_masked) activate_all();
    save_active(entry);
    asm_.L(again);
    rest_of_count(s, last, end);
    load_active(entry), remove_left();
    mask_of_count(by, step);
    jump_if_none(end);
    turn(s, step, end);
    asm_.jmp(again);
    asm_.L(end);
    masked_ = was_masked;
    if (!was_masked) return;
    load_active(entry), remove_left();
    if (leaves_lanes(s)) jump_if_none(*rest_);
  }
  /// Deactivates the lanes whose counter is beyond the last number, of which lane 0 is rax away.
  void mask_of_count(int64_t by, int step) {
    Label down, done;
    broadcast_whole(kScratch, rax);
    for (int p = 0; p < parts_; ++p)
      asm_.vmovups(part(p), asm_.ptr[asm_.rip + tables_[by] + p * part_bytes_]);
    asm_.cmp(whole_slot(step), 0);
    asm_.jle(down);
    for (const bool up : {true, false}) {
      for (int p = 0; p < parts_; ++p) {
        if (wide_) asm_.vpcmpq(p > 0 ? k7() : kmask(0), Zmm(p), Zmm(kScratch), up ? 2 : 5);
        else if (up) asm_.vpcmpgtq(Ymm(p), Ymm(p), Ymm(kScratch));
        else asm_.vpcmpgtq(Ymm(p), Ymm(kScratch), Ymm(p));
      }
      if (up) asm_.jmp(done), asm_.L(down);
    }
    asm_.L(done);
    if (wide_) {
      if (parts_ == 2) asm_.kunpckbw(kmask(0), k7(), kmask(0));
      return asm_.kandw(k1(), k1(), kmask(0));
    }
    pack(0);
    asm_.vandnps(Ymm(kActive), Ymm(0), Ymm(kActive));
  }
  /// Sets rax to the distance from the counter of lane 0 to the last number.
  void rest_of_count(const S& s, int last, Label& end) {
    evaluate_variable(s.variable);
    asm_.mov(rax, whole_slot(last));
    asm_.sub(rax, temporary(0));
    asm_.jo(end);
  }
  void turn(const S& s, int step, Label& end) {
    ++depth_;
    lane_body(s.body);
    --depth_;
    check_interrupt();
    evaluate_variable(s.variable);
    asm_.add(temporary(0), whole_slot(step));
    asm_.jo(end);
    set(s.variable);
  }

  // ---- variables and elements ----------------------------------------------------------------------

  void assign_lanes(const S& s) {
    const V& v = *s.value;
    if (v.type != GridType::real && steps_->of_variable(s.variable, v.type) != kVaries)
      return evaluate(v, kNone), set(s.variable);
    if (v.type == GridType::real) return set_reals(s.variable, reals(v, kNone));
    if (v.type == GridType::integer) wholes(v, kNone), set_wholes(s.variable);
    else mask(v, kNone), set_mask(s.variable);
  }
  bool blends(int variable) const { return masked_ && !only_.at(variable); }
  void set_reals(int variable, const Xmm& from) {
    const int reg = homes_.at(variable).reg;
    const bool some = blends(variable);
    const Address slot = lane_slot(reg < 0 ? lane_homes_.at(variable) : 0);
    if (reg >= 0) {
      const Xmm to = vec(reg);
      if (!some) asm_.vmovaps(to, from);
      else if (wide_) MT_PACKED(vmova, to | k1(), from);
      else MT_PACKED(vblendv, to, to, from, Ymm(kActive));
    } else if (!some) {
      asm_.vmovups(slot, from);
    } else if (wide_) {
      MT_PACKED(vmovu, slot | k1(), from);
    } else {
      MT_PACKED(vmaskmov, slot, Ymm(kActive), from);
    }
  }
  void set_wholes(int variable) {
    const int slot = lane_homes_.at(variable);
    for (int p = 0; p < parts_; ++p) {
      const Address to = bytes_of_slot(slot, p);
      if (!blends(variable)) {
        asm_.vmovups(to, part(p));
      } else if (wide_) {
        asm_.vmovdqu64(to | active_part(p), Zmm(p));
      } else {
        unpack(kScratch, kActive, p);
        asm_.vpmaskmovq(to, Ymm(kScratch), Ymm(p));
      }
    }
  }
  void set_mask(int variable) {
    const int slot = lane_homes_.at(variable);
    if (blends(variable) && wide_) {  // old ^ (active & (old ^ new))
      asm_.kmovw(k7(), lane_slot(slot));
      asm_.kxorw(kmask(0), kmask(0), k7()), asm_.kandw(kmask(0), kmask(0), k1());
      asm_.kxorw(kmask(0), kmask(0), k7());
    } else if (blends(variable)) {
      asm_.vmovups(Ymm(kScratch), lane_slot(slot));
      asm_.vblendvps(Ymm(0), Ymm(kScratch), Ymm(0), Ymm(kActive));
    }
    save_mask(slot, 0);
  }
  /// Computes a value into temporary 0; booleans as 0 or 1.
  void evaluate_lanes(const V& v) {
    if (v.type == GridType::real) {
      const Xmm from = reals(v, kNone);
      if (from.getIdx() != 0) asm_.vmovaps(vec(0), from);
    } else if (v.type == GridType::integer) {
      wholes(v, kNone);
    } else {
      mask(v, kNone), mask_to_wholes(0);
    }
  }
  void store_in_lanes(const S& s) {
    evaluate_lanes(*s.value);
    store_lanes(*s.place, s.value->type);
  }
  virtual void update(GridUpdate how, bool real, const Reg64& old, const Reg64& value) = 0;
  void update_lanes(const S& s) {
    const Dtype dtype = grid_.tensors[s.place->index].dtype;
    const bool real = s.value->type == GridType::real;
    const int in = take_lanes(), out = take_lanes();
    evaluate_lanes(*s.value);
    if (real) asm_.vmovups(lane_slot(in), vec(0));
    else save_parts(in, 0);
    each_element(*s.place, kNone, [&](const Reg64& lane, const RegExp& to, const Reg64& k) {
      const Address own = asm_.ptr[lane_place(in) + lane * (real ? item_ : 8)];
      if (real) move_real(xmm0, own);
      else asm_.mov(k, own);
      const bool adds = s.at < 0 && s.update == GridUpdate::add;
      if (adds && dtype == Dtype::i64) return asm_.add(asm_.qword[to], k);
      if (adds && dtype == Dtype::i32) return asm_.add(asm_.dword[to], k.cvt32());
      const Reg64 old = temporary(3);
      load_from(to, dtype, xmm1, 3);
      if (s.at >= 0 && real) move_real(asm_.ptr[lane_place(out) + lane * item_], xmm1);
      else if (s.at >= 0) asm_.mov(asm_.ptr[lane_place(out) + lane * 8], old);
      update(s.update, real, old, k);
      store_to(to, dtype, xmm1, old);
    });
    if (s.at < 0) return;
    if (real) asm_.vmovups(vec(0), lane_slot(out)), set_reals(s.variable, vec(0));
    else load_parts(out, 0), set_wholes(s.variable);
  }

  // ---- kept variables ------------------------------------------------------------------------------

  /// Copies the kept values of a variable in all lanes to its home, or back.
  void move_kept_lanes(int variable, const Home& h, bool load) {
    const bool real = h.type == GridType::real;
    const RegExp at = kept_place(variable);
    asm_.mov(rax, MT_FIELD(own, 0));
    const int64_t step = steps_->of_variable(variable, h.type);
    if (real && h.reg >= 0)
      return load ? asm_.vmovups(vec(h.reg), asm_.ptr[at]) : asm_.vmovups(asm_.ptr[at], vec(h.reg));
    if (step != kVaries && load) {
      asm_.mov(temporary(0), asm_.ptr[at]);
      return set(variable);
    }
    const int slot = step == kVaries ? lane_homes_.at(variable) : 0;
    if (real) {
      if (load) asm_.vmovups(vec(0), asm_.ptr[at]), asm_.vmovups(lane_slot(slot), vec(0));
      else asm_.vmovups(vec(0), lane_slot(slot)), asm_.vmovups(asm_.ptr[at], vec(0));
      return;
    }
    if (load) {
      for (int p = 0; p < parts_; ++p) asm_.vmovups(part(p), asm_.ptr[at + p * part_bytes_]);
      if (h.type == GridType::integer) save_parts(slot, 0);
      else test(0), save_mask(slot, 0);
      return;
    }
    if (step != kVaries)
      spread_whole(0, h.reg < 0 ? (evaluate_variable(variable), temporary(0)) : Reg64(h.reg), step);
    else if (h.type == GridType::integer) load_parts(slot, 0);
    else load_mask(slot, 0), mask_to_wholes(0);
    for (int p = 0; p < parts_; ++p) asm_.vmovups(asm_.ptr[at + p * part_bytes_], part(p));
  }
  /// The threads of a row of a block, rounded up to whole vectors: the arrays of kept variables have so many for each.
  int64_t padded_row() const { return (row_ + lanes_ - 1) / lanes_ * lanes_; }
  int64_t padded_block() const {
    return padded_row() * grid_.tile[grid_.axes[1]] * grid_.tile[grid_.axes[2]];
  }
  /// Where the kept value of the thread at r12 is; rax is the first array.
  RegExp kept_place(int variable) {
    const int item = homes_.at(variable).type == GridType::real ? item_ : 8;
    return rax + r12 * item + int(8 * padded_block() * phases_.kept(variable));
  }

  // ---- which statements ----------------------------------------------------------------------------

  /// Whether vectors run the statements, and are faster.
  bool suits_lanes(const List& list) const {
    if (row_ < 4 || !steps_) return false;
    Cost all;
    weigh(list, list, 1, 1, all);
    return all.fits && 1.25 * all.lanes < all.threads;
  }

 private:
  /// Of a vector of threads, in instructions.
  struct Cost {
    double lanes = 0, threads = 0;
    bool fits = true;
  };
  template <class L>
  void weigh(const L& list, const List& all, double times, double share, Cost& c) const {
    for (const S* s : list) {
      values_of(*s, [&](const V& v) { weigh(v, times, share, c); });
      c.threads += times * share * lanes_ * (s->is_loop() ? 4 : 0.5);
      c.lanes += times * share * (s->is_loop() ? 4 : 0.5);
      bool one = false;  // only one thread of a row runs the body
      if (s->kind == S::atomic_add) {
        c.fits = c.fits && has_no_order(*s, all);
        c.lanes += times * share * 3 * lanes_, c.threads += times * share * 2 * lanes_;
      } else if (s->kind == S::count) {
        const bool uneven = steps_->is_uneven(*s);
        c.fits = c.fits && s->value->type == GridType::integer &&
                 (!uneven || (!steps_->varies(*s->value) && steps_->of(*s->last) == 0 &&
                              steps_->of(*s->step) == 0 && !steps_->is_left(s)));
      } else if (s->kind == S::branch && steps_->varies(*s->value)) {
        c.lanes += times * share * 4;
        one = s->value->has<op::Eq>() && s->value->args[0]->type == GridType::integer &&
              !steps_->varies(*s->value->args[0]) && !steps_->varies(*s->value->args[1]);
      }
      const double inside = times * (s->is_loop() ? 16 : 1);
      const double part = one ? share * lanes_ / row_ : share;
      Cost body;
      weigh(s->body, all, inside, part, body);
      c.lanes += body.lanes, c.threads += one ? body.threads / lanes_ : body.threads;
      c.fits = c.fits && body.fits;
      weigh(s->other, all, inside, share, c);
    }
  }
  void weigh(const V& v, double times, double share, Cost& c) const {
    if (v.kind < V::load && v.kind != V::operation) return;
    const bool real = v.type == GridType::real;
    double cost = 1, lanes = 1;
    if (steps_->varies(v) && v.kind == V::load) {
      lanes = is_row(v) ? 1.5 : 4 * lanes_;
    } else if (v.kind == V::load) {
      lanes = steps_->of(v) == 0 && !is_row(v) && !is_even(v) ? 4 * lanes_ : 1.5;
    } else if (steps_->varies(v)) {
      c.fits = c.fits && !v.divides;
      lanes = real || v.type == GridType::boolean ? 1.5 : parts_;
      if (real && v.converts() && !wide_) lanes = 2 * lanes_;
      if (v.type == GridType::integer && v.converts() && v.args[0]->type == GridType::real)
        lanes = 4 * lanes_;
      if (is_called(v)) cost = 25, lanes = 30 + 2 * lanes_;
    }
    c.threads += times * share * cost * lanes_, c.lanes += times * share * lanes;
  }
  bool is_even(const V& v) const {
    return std::all_of(v.args.begin(), v.args.end(),
                       [&](const V* a) { return steps_->of(*a) == 0; });
  }
  bool is_called(const V& v) const {
    if (v.has<op::FloorDivide, op::Remainder>() && v.type == GridType::integer) return !is_shift(v);
    if (v.has<op::Mul>()) return v.type == GridType::integer && !wide_;
    return !v.converts() &&
           !v.has<op::Where, op::Add, op::Sub, op::Div, op::LuaMin, op::LuaMax>() &&
           !v.has<op::Neg, op::Abs, op::Floor, op::Ceil, op::Sqrt>() && v.type != GridType::boolean;
  }
  /// Whether an update gives the same in any order, or there is only this access to its tensor.
  bool has_no_order(const S& update, const List& all) const {
    const auto is_free = [&](const S& s) {
      return s.kind == S::atomic_add && s.place->index == update.place->index && s.at < 0 &&
             s.value->type == GridType::integer && s.update == update.update;
    };
    int accesses = 0, free = 0, depth_of = 0;
    each_statement(all, 0, [&](const S& s, int depth) {
      if (&s == &update) depth_of = depth;
      free += is_free(s);
      values_of(
          s, [&](const V& v) { accesses += v.kind == V::load && v.index == update.place->index; });
    });
    if (update.update > GridUpdate::max) return false;
    return (is_free(update) && free == accesses) || (accesses == 1 && depth_of == 0);
  }

 protected:
  std::vector<Left> left_;
  Label* rest_ = nullptr;  // the end of the innermost body
};

}  // namespace mt
