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
    if (t.is_left || t.leaves) save_mask(t.entry = take_lanes(), kActive);
    return t;
  }
  /// Activates the lanes in a slot, except those that have left a loop or scope.
  void load_remaining(int slot) {
    load_mask(slot, kActive);
    for (const Left& l : left_) {
      load_mask(l.gone, kScratch);
      MT_MASKS(kandn, vandn, kActive, kScratch, kActive);
    }
  }
  /// After an iteration.
  void end_turn(const Turns& t, Label& end) {
    if (t.entry < 0) return;
    load_remaining(t.entry);
    jump_if_none(end);
  }
  /// After a loop or scope: all lanes that entered it, and have not left others.
  void end_turns(const Turns& t) {
    if (t.is_left) left_.pop_back();
    masked_ = t.was_masked;
    if (!masked_ || t.entry < 0) return;
    load_remaining(t.entry);
    if (t.leaves) jump_if_none(*rest_);
  }
  void leave_lanes(const S& s) {
    const Left* const left = left_of(s);
    if (!left) return asm_.jmp(end_of(*s.target));
    load_mask(left->gone, kScratch);
    MT_MASKS(kor, vor, kScratch, kScratch, kActive);
    save_mask(left->gone, kScratch);
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
    if (saved >= 0) save_mask(saved, kActive);
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
    if (leaves) load_remaining(saved), jump_if_none(*rest_);
    else load_mask(saved, kActive);
  }
  /// Runs both bodies, each with its lanes.
  void divide_lanes(const S& s) {
    Label other, after;
    const int no = take_lanes();
    mask(*s.value, kNone);
    const bool both = !s.other.empty();
    if (!masked_) activate_all();
    if (both) MT_MASKS(kandn, vandn, kScratch, 0, kActive), save_mask(no, kScratch);
    MT_MASKS(kand, vand, kActive, kActive, 0);
    jump_if_none(other);
    lane_body(s.body);
    asm_.L(other);
    if (both) {
      load_mask(no, kActive);
      jump_if_none(after);
      lane_body(s.other);
    }
    asm_.L(after);
  }

  /// Sets the counter, and stores the last number and the step in two slots, of which it returns the first.
  int begin_count(const S& s) {
    const int last = take(2);
    for (const auto& [v, at] : {std::pair(s.last, last), {s.step, last + 1}}) {
      evaluate(*v, kNone);
      put(at, v->type, kNone);
    }
    evaluate(*s.value, kNone);
    set(s.variable);
    return last;
  }
  /// A loop whose counter begins with another number in each lane: lanes stop one by one.
  void count_lanes(const S& s) {
    const int last = begin_count(s), step = last + 1, entry = take_lanes();
    const int64_t by = steps_->of(*s.value);
    const bool was_masked = masked_;
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
    save_mask(entry, kActive);
    asm_.L(again);
    rest_of_count(s, last, end);
    load_remaining(entry);
    mask_of_count(by, step);
    jump_if_none(end);
    turn(s, step, end);
    asm_.jmp(again);
    asm_.L(end);
    masked_ = was_masked;
    if (!was_masked) return;
    load_remaining(entry);
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
        if (wide_) asm_.vpcmpq(p > 0 ? k7() : kmask(0), Zmm(p), Zmm(kScratch), up ? 6 : 1);
        else if (up) asm_.vpcmpgtq(Ymm(p), Ymm(p), Ymm(kScratch));
        else asm_.vpcmpgtq(Ymm(p), Ymm(kScratch), Ymm(p));
      }
      if (up) asm_.jmp(done), asm_.L(down);
    }
    asm_.L(done);
    if (wide_ && parts_ == 2) asm_.kunpckbw(kmask(0), k7(), kmask(0));
    pack(0);
    MT_MASKS(kandn, vandn, kActive, 0, kActive);
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

  void assign(const S& s) {
    const V& v = *s.value;
    const bool varies = in_lanes_ && (v.type == GridType::real ||
                                      steps_->of_variable(s.variable, v.type) == kVaries);
    if (!varies) return evaluate(v, kNone), set(s.variable);
    if (v.type == GridType::real) return set_reals(s.variable, real(v, kNone, true));
    if (v.type == GridType::integer) wholes(v, kNone), set_wholes(s.variable);
    else mask(v, kNone), set_mask(s.variable);
  }
  bool blends(int variable) const { return masked_ && !only_.at(variable); }
  void set_reals(int variable, const Xmm& from) {
    const int reg = homes_.at(variable).reg;
    const bool some = blends(variable);
    const Address slot = lane_slot(reg < 0 ? lane_homes_.at(variable) : 0);
    if (reg >= 0) {
      if (some) blend_reals(vec(reg), from, vec(reg), kActive);
      else asm_.vmovaps(vec(reg), from);
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
    if (blends(variable)) {  // old ^ (active & (old ^ new))
      load_mask(slot, kScratch);
      MT_MASKS(kxor, vxor, 0, 0, kScratch);
      MT_MASKS(kand, vand, 0, 0, kActive);
      MT_MASKS(kxor, vxor, 0, 0, kScratch);
    }
    save_mask(slot, 0);
  }
  void store(const S& s) {
    const bool real = s.value->type == GridType::real;
    evaluate(*s.value, kNone, in_lanes_);
    if (in_lanes_) return store_lanes(*s.place, s.value->type);
    const RegExp to = element(*s.place, real ? Used{0, 1} : Used{1, 0});
    store_to(to, grid_.tensors[s.place->index].dtype, xmm0, temporary(0));
  }
  /// Updates an element by what xmm0 or `value` holds; keep() stores what it was, in xmm1 or temporary `old`.
  void update_element(const S& s, const RegExp& to, const Reg64& value, int old, const auto& keep) {
    const Dtype dtype = grid_.tensors[s.place->index].dtype;
    const bool real = s.value->type == GridType::real, adds = s.update == GridUpdate::add;
    const Reg64 x = temporary(old);
    if (s.at < 0 && adds && dtype == Dtype::i64) return asm_.add(asm_.qword[to], value);
    if (s.at < 0 && adds && dtype == Dtype::i32) return asm_.add(asm_.dword[to], value.cvt32());
    load_from(to, dtype, xmm1, old);
    if (s.at >= 0) keep();
    const int op = adds                          ? op::id<op::Add>
                   : s.update == GridUpdate::min ? op::id<op::LuaMin>
                                                 : op::id<op::LuaMax>;
    if (s.update > GridUpdate::max) fine_ = false;
    else if (real) real_operation(op, xmm1, xmm1, xmm0);
    else if (adds) asm_.add(x, value);
    else
      asm_.cmp(x, value), s.update == GridUpdate::min ? asm_.cmovg(x, value) : asm_.cmovl(x, value);
    store_to(to, dtype, xmm1, x);
  }
  void atomic_update(const S& s) {
    const bool real = s.value->type == GridType::real;
    evaluate(*s.value, kNone);
    const RegExp to = element(*s.place, real ? Used{0, 1} : Used{1, 0});
    update_element(s, to, temporary(0), 2, [&] { set(s.variable, {2, 1}); });
  }
  /// Whether sums of neighbouring elements are vectors.
  bool updates_row(const S& s) const {
    const Dtype dtype = grid_.tensors[s.place->index].dtype;
    if (s.at >= 0 || s.update != GridUpdate::add || !is_row(*s.place)) return false;
    return s.value->type == GridType::real ? dtype == real_
                                           : wide_ || (item_size(dtype) >= 4 && !masked_);
  }
  void update_row(const S& s) {
    const bool real = s.value->type == GridType::real;
    evaluate(*s.value, kNone, true);
    if (real) {
      load_reals(*s.place, {0, 1});
      MT_PACKED(vadd, vec(0), vec(1), vec(0));
    } else {
      load_wholes(*s.place, {0, parts_});
      for (int p = 0; p < parts_; ++p) asm_.vpaddq(part(p), part(p), part(parts_ + p));
    }
    store_lanes(*s.place, s.value->type);
  }
  void atomic_update_lanes(const S& s) {
    const bool real = s.value->type == GridType::real;
    if (updates_row(s)) return update_row(s);
    const int in = take_lanes(), out = take_lanes();
    evaluate(*s.value, kNone, true);
    save_lanes(in, s.value->type, kNone);
    const bool adds = s.at < 0 && s.update == GridUpdate::add;
    const bool in_place = adds && !real && item_size(grid_.tensors[s.place->index].dtype) >= 4;
    each_element(
        *s.place, kNone, in_place, [&](const Reg64& lane, const RegExp& to, const Reg64& k) {
          const int item = real ? item_ : 8;
          const Address own = asm_.ptr[lane_place(in) + lane * item];
          const Address before = asm_.ptr[lane_place(out) + lane * item];
          real ? move_real(xmm0, own) : asm_.mov(k, own);
          update_element(s, to, k, 3,
                         [&] { real ? move_real(before, xmm1) : asm_.mov(before, temporary(3)); });
        });
    if (s.at < 0) return;
    load_lanes(out, s.value->type, kNone);
    real ? set_reals(s.variable, vec(0)) : set_wholes(s.variable);
  }

  // ---- kept variables ------------------------------------------------------------------------------

  /// Copies the kept values of a variable in all lanes to its home, or back.
  void move_kept_lanes(int variable, const Home& h, bool load) {
    const bool real = h.type == GridType::real;
    const RegExp at = kept_place(variable);
    asm_.mov(rax, MT_FIELD(own, 0));
    const int64_t step = steps_->of_variable(variable, h.type);
    if (real) {
      const Xmm x = vec(std::max(h.reg, 0));
      if (!load && h.reg < 0) move_real(x, lane_slot(lane_homes_.at(variable)));
      load ? move_real(x, asm_.ptr[at]) : move_real(asm_.ptr[at], x);
      if (load && h.reg < 0) move_real(lane_slot(lane_homes_.at(variable)), x);
      return;
    }
    const int slot = step == kVaries ? lane_homes_.at(variable) : -1;
    if (load) {
      if (slot < 0) return asm_.mov(temporary(0), asm_.ptr[at]), set(variable);
      for (int p = 0; p < parts_; ++p) asm_.vmovups(part(p), asm_.ptr[at + p * part_bytes_]);
      if (h.type == GridType::integer) save_parts(slot, 0);
      else test(0), save_mask(slot, 0);
      return;
    }
    if (slot < 0)
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
    const Cost all = cost_of(list, list);
    return all.fits && 1.25 * all.lanes < all.threads;
  }

 private:
  /// Of a vector of threads, in instructions.
  struct Cost {
    double lanes, threads;
    bool fits = true;
    void add(const Cost& c, double lane_times = 1, double thread_times = 1) {
      lanes += lane_times * c.lanes, threads += thread_times * c.threads, fits = fits && c.fits;
    }
  };
  template <class L> Cost cost_of(const L& list, const List& all) const {
    Cost sum{0, 0};
    for (const S* s : list) {
      const double own = s->is_loop() ? 4 : 0.5, turns = s->is_loop() ? 16 : 1;
      sum.add({own, own * lanes_});
      values_of(*s, [&](const V& v) { sum.add(cost_of(v)); });
      bool one = false;  // only one thread of a row runs the body
      if (s->kind == S::atomic_add) {
        sum.add({updates_row(*s) ? 4 : 3.0 * lanes_, 2.0 * lanes_, has_no_order(*s, all)});
      } else if (s->kind == S::count) {
        sum.add({0, 0, suits_count(*s)});
      } else if (s->kind == S::branch && steps_->varies(*s->value)) {
        sum.add({4, 0});
        one = s->value->has<op::Eq>() && s->value->args[0]->type == GridType::integer &&
              !steps_->varies(*s->value->args[0]) && !steps_->varies(*s->value->args[1]);
      }
      const double row = one ? row_ : 1;
      sum.add(cost_of(s->body, all), turns * (one ? lanes_ : 1) / row, turns / row);
      sum.add(cost_of(s->other, all), turns, turns);
    }
    return sum;
  }
  bool suits_count(const S& s) const {
    if (s.value->type != GridType::integer) return false;
    return !steps_->is_uneven(s) || (!steps_->varies(*s.value) && steps_->of(*s.last) == 0 &&
                                     steps_->of(*s.step) == 0 && !steps_->is_left(&s));
  }
  Cost cost_of(const V& v) const {
    if (v.kind < V::operation) return {0, 0};
    const bool real = v.type == GridType::real, varies = steps_->varies(v);
    Cost c{1, double(lanes_)};
    if (v.kind == V::load) {
      const bool side_by_side = is_row(v) || (!varies && (steps_->of(v) != 0 || is_even(v)));
      c.lanes = side_by_side ? 1.5 : is_gathered(v) ? 16 : (has_steps(v) ? 1.5 : 4) * lanes_;
    } else if (varies) {
      c.fits = !v.divides;
      c.lanes = real || v.type == GridType::boolean ? 1.5 : parts_;
      if (real && v.converts() && !wide_) c.lanes = 2 * lanes_;
      if (v.type == GridType::integer && v.converts() && v.args[0]->type == GridType::real)
        c.lanes = 4 * lanes_;
      if (is_called(v)) c.threads = 25 * lanes_, c.lanes = 30 + 2 * lanes_;
    }
    return c;
  }
  bool is_even(const V& v) const {
    return std::all_of(v.args.begin(), v.args.end(),
                       [&](const V* a) { return steps_->of(*a) == 0; });
  }
  bool is_called(const V& v) const {
    if (v.has<op::FloorDivide, op::Remainder>() && v.type == GridType::integer) return !is_shift(v);
    if (v.has<op::Mul>()) return v.type == GridType::integer && !wide_;
    return !v.converts() && !is_bitwise(v) && bits_shifted(v) < 0 &&
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
