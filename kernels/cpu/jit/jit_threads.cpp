// jit_threads.cpp -- compiles a grid kernel to scalar machine code: variables in registers, branches and loops
#include <algorithm>
#include <set>
#include <vector>

#include "kernels/cpu/jit/grid_phases.h"
#include "kernels/cpu/jit/jit_thread_values.h"

namespace mt {
namespace {

class ThreadEmitter : ThreadValues {
  using S = GridStatement;

 public:
  ThreadEmitter(const Grid& g, FindLoop* find_loop, std::vector<uint8_t>& buffer)
      : ThreadValues(g, find_loop, buffer.data(), buffer.size()),
        phases_(*g.program),
        once_(phases_.divides()) {}

  /// Returns false if the kernel cannot be compiled, or the buffer is too small.
  bool emit() {
    if (!phases_.fine()) return false;
    Xbyak::ClearError();
    number_values();
    find_variables();
    prologue();
    if (once_) {
      body(grid_.program->body);
    } else {
      const GridBody& all = grid_.program->body;
      const List list = GridPhases::listed(all);
      give_registers(list);
      Label thread;
      asm_.L(thread);
      for (const auto& [index, home] : homes_)
        if (!GridPhases::defines(list, index)) clear(home);
      body(all);
      next_thread(thread);
    }
    epilogue();
    return fine_ && Xbyak::GetError() == 0;
  }
  size_t size() const { return asm_.getSize(); }
  const GridPhases& phases() const { return phases_; }
  /// Whether some statements run only in the first threads of a block.
  bool narrows() const { return narrows_; }

  /// Whether it calls functions in loops, or has no loops and calls functions.
  bool calls_often() const { return calls_in_loops_ || (!has_loops_ && calls_elsewhere_); }

 private:
  void number_values() {
    int64_t next = 0;  // as grid_value counts: a value that several others share, each time
    const auto number = [&](const V& v) { numbers_.emplace(&v, next++); };
    each_statement(grid_.program->body, 0, [&](const S& s, int) { values_of(s, number); });
  }
  void find_variables() {
    each_statement(grid_.program->body, 0, [&](const S& s, int depth) {
      has_loops_ |= depth > 0;
      if (s.variable >= 0 && !only_.try_emplace(s.variable, &s).second) only_[s.variable] = nullptr;
      if (s.variable >= 0 && homes_.try_emplace(s.variable, Home{-1, 0, s.value->type}).second)
        homes_[s.variable].slot = take();
    });
    const List all = GridPhases::listed(grid_.program->body);
    for (auto& [variable, s] : only_)
      if (!GridPhases::defines(all, variable)) s = nullptr;  // it may be 0
  }
  using List = std::vector<const S*>;
  /// Registers are given to the variables that are used most often, by the depth of loops.
  void give_registers(const List& list) {
    std::map<int, double> uses;
    each_statement(list, 0, [&](const S& s, int depth) {
      const double weight = double(int64_t(1) << std::min(4 * depth, 40));
      values_of(s, [&](const V& v) {
        if (v.kind == V::variable) uses[v.index] += weight;
      });
      if (s.variable >= 0) uses[s.variable] += weight * (s.kind == S::count ? 16 : 1);
    });
    std::vector<std::pair<double, int>> order;
    for (const auto& [index, use] : uses) order.push_back({-use, index});
    std::sort(order.begin(), order.end());
    int whole = phases_.kept_count() > 0, real = kReals;  // r12: the kept variables
    for (const auto& [weight, index] : order) {
      Home& home = homes_.at(index);
      if (home.type == GridType::real) home.reg = real < 16 ? real++ : -1;
      else home.reg = whole < int(std::size(kVariables)) ? kVariables[whole++] : -1;
    }
  }
  void clear(const Home& h) {
    if (h.reg < 0) asm_.mov(whole_slot(h.slot), 0);
    else if (h.type == GridType::real) asm_.vxorps(Xmm(h.reg), Xmm(h.reg), Xmm(h.reg));
    else asm_.xor_(Xbyak::Reg32(h.reg), Xbyak::Reg32(h.reg));
  }
  /// Sets a variable to what its temporary 0, or the first after `used`, holds.
  void set(int variable, Used used = kNone) {
    const Home& h = homes_.at(variable);
    if (h.reg < 0) put(h.slot, h.type, used);
    else if (h.type == GridType::real) asm_.vmovaps(Xmm(h.reg), Xmm(used.real));
    else asm_.mov(Reg64(h.reg), temporary(used.whole));
  }

  void prologue() {
    for (const int r :
         {Operand::RBP, Operand::RBX, Operand::R12, Operand::R13, Operand::R14, Operand::R15})
      asm_.push(Reg64(r));
    asm_.sub(rsp, 8);  // aligned for calls
    asm_.mov(rbp, rdi);
    asm_.mov(r13, MT_FIELD(place, grid_.axes[0]));
    asm_.mov(r15, MT_FIELD(tensors, 0));
    asm_.mov(r14, MT_FIELD(scalars, 0));
    if (phases_.kept_count() > 0) asm_.mov(r12, MT_FIELD(own, 0));
  }
  void epilogue() {
    asm_.L(end_);
    asm_.mov(MT_FIELD(place, grid_.axes[0]), r13);
    asm_.add(rsp, 8);
    for (const int r :
         {Operand::R15, Operand::R14, Operand::R13, Operand::R12, Operand::RBX, Operand::RBP})
      asm_.pop(Reg64(r));
    asm_.ret();
    report_outside();
    for (Fault& f : faults_) {
      asm_.L(f.label);
      asm_.mov(MT_FIELD(fault, 0), uint32_t(f.value));
      asm_.mov(MT_FIELD(dim, 0), uint32_t(f.dim));
      if (f.reg >= 0) {
        asm_.inc(Reg64(f.reg));
        asm_.mov(MT_FIELD(index, 0), Reg64(f.reg));
      }
      asm_.jmp(end_);
    }
    asm_.align(16);
    for (auto& [bits, label] : pool_) {
      asm_.L(label);
      asm_.dq(bits), asm_.dq(bits);
    }
  }

  /// Finds the index that is out of bounds, while variables have the registers of the access.
  void report_outside() {
    for (Outside& o : outside_) {
      asm_.L(o.label);
      element(*o.access, o.used);
      asm_.jmp(end_);
    }
    outside_.clear();
  }

  // ---- threads ---------------------------------------------------------------------------------------

  /// Jumps back to `again` unless this was the last thread along axes[0].
  void next_thread(Label& again) {
    asm_.inc(r13);
    asm_.cmp(r13, MT_FIELD(end, grid_.axes[0]));
    asm_.jl(again);
  }
  bool is_thread(const V& v) const {
    if (v.kind == V::operation && v.op == kConvert) return is_thread(*v.args[0]);
    if (v.kind == V::thread) return v.index == grid_.axes[0];
    const auto found = v.kind == V::variable ? only_.find(v.index) : only_.end();
    return found != only_.end() && found->second && found->second->kind == S::assign &&
           is_thread(*found->second->value);
  }
  /// Where only the first threads of a row run statements, the others are left out: end[axes[0]] is
  /// reduced, and the slot `end` holds what it was. Returns whether it was.
  bool reduce_end(const List& list, int end, Label& skip) {
    const S& s = *list[0];
    if (list.size() > 1 || s.kind != S::branch || !s.other.empty()) return false;
    if (grid_.tile[grid_.axes[1]] * grid_.tile[grid_.axes[2]] != 1) return false;
    const V& v = *s.value;
    const bool less = v.has<op::Lt>(), one = v.has<op::Eq>();
    if (!less && !one && !v.has<op::Le>()) return false;
    if (v.args[1]->type != GridType::integer) return false;
    if (!is_thread(*v.args[0]) || v.args[1]->is != GridClass::scalar) return false;
    bool own = false;
    each_value(*v.args[1],
               [&](const V& x) { own |= x.kind == V::variable && phases_.is_own(x.index); });
    if (own) return false;
    evaluate(*v.args[1], kNone);  // the last thread, if it is not less
    if (less) asm_.dec(temporary(0));
    asm_.mov(rdx, MT_FIELD(end, grid_.axes[0]));
    asm_.mov(whole_slot(end), rdx);
    asm_.mov(rax, rdx);
    asm_.sub(rax, r13);
    asm_.cmp(temporary(0), rax);
    asm_.cmovg(temporary(0), rax);
    asm_.test(temporary(0), temporary(0));
    asm_.jle(skip, Xbyak::CodeGenerator::T_NEAR);
    asm_.add(temporary(0), r13);
    asm_.mov(MT_FIELD(end, grid_.axes[0]), temporary(0));
    return narrows_ = true;
  }
  /// Copies the kept value of a variable to its home, or back.
  void move_kept(const Home& h, int kept, bool load) {
    const RegExp at = r12 + 8 * kept;
    if (h.reg < 0 && load) asm_.mov(rdx, asm_.ptr[at]), asm_.mov(whole_slot(h.slot), rdx);
    else if (h.reg < 0) asm_.mov(rdx, whole_slot(h.slot)), asm_.mov(asm_.ptr[at], rdx);
    else if (h.type != GridType::real && load) asm_.mov(Reg64(h.reg), asm_.ptr[at]);
    else if (h.type != GridType::real) asm_.mov(asm_.ptr[at], Reg64(h.reg));
    else if (load) move_real(Xmm(h.reg), asm_.ptr[at]);
    else move_real(asm_.ptr[at], Xmm(h.reg));
  }
  /// Runs statements for each thread of a block, and is the first thread again.
  void threads(const List& list) {
    std::set<int> loads, stores;
    each_statement(list, 0, [&](const S& s, int) {
      const auto note = [&](int v) {
        if (phases_.kept(v) >= 0 && !GridPhases::assigns(list, v)) loads.insert(v);
      };
      if (s.variable >= 0) note(s.variable);
      if (phases_.kept(s.variable) >= 0) stores.insert(s.variable);
      values_of(s, [&](const V& v) {
        if (v.kind == V::variable) note(v.index);
      });
    });
    Label skip;
    const int slots = slots_, end = take();
    const bool reduced = reduce_end(list, end, skip);
    give_registers(list);
    for (const auto& [index, h] : homes_)
      if (h.reg >= 0 && !phases_.is_own(index)) {
        if (h.type == GridType::real) move_real(Xmm(h.reg), slot(h.slot));
        else asm_.mov(Reg64(h.reg), whole_slot(h.slot));
      }
    once_ = false;
    Label again[3], thread_end;
    thread_end_ = &thread_end;
    for (int k = 3; k-- > 0;) asm_.L(again[k]);
    for (const int v : loads) move_kept(homes_[v], phases_.kept(v), true);
    for (const S* s : list) statement(*s);
    asm_.L(thread_end);
    for (const int v : stores) move_kept(homes_[v], phases_.kept(v), false);
    if (phases_.kept_count() > 0) asm_.add(r12, 8 * phases_.kept_count());
    next_thread(again[0]);
    for (int k = 1; k < 3; ++k) {
      const int d = grid_.axes[k];
      first_thread(k - 1);
      if (grid_.tile[d] == 1) continue;
      asm_.inc(MT_FIELD(thread, d));
      asm_.mov(rax, MT_FIELD(place, d));
      asm_.inc(rax);
      asm_.mov(MT_FIELD(place, d), rax);
      asm_.cmp(rax, MT_FIELD(end, d));
      asm_.jl(again[k]);
    }
    first_thread(2);
    if (reduced) {
      asm_.mov(rax, whole_slot(end));
      asm_.mov(MT_FIELD(end, grid_.axes[0]), rax);
    }
    if (!outside_.empty()) {
      asm_.jmp(skip);
      report_outside();
    }
    asm_.L(skip);
    if (phases_.kept_count() > 0) asm_.mov(r12, MT_FIELD(own, 0));
    once_ = true, slots_ = slots;
    for (auto& [index, h] : homes_) h.reg = -1;
  }
  /// Sets the position along axes[k] to that of the first thread.
  void first_thread(int k) {
    const int d = grid_.axes[k];
    if (k > 0 && grid_.tile[d] == 1) return;
    const Reg64 at = k == 0 ? r13 : rax;
    asm_.mov(at, MT_FIELD(before, d));
    asm_.inc(at);
    if (k > 0) asm_.mov(MT_FIELD(place, d), at), asm_.mov(MT_FIELD(thread, d), 1);
  }
  /// The values of variables in the first thread, for a statement that runs once.
  void read_first_thread(const S& s) {
    values_of(s, [&](const V& v) {
      if (v.kind == V::variable && phases_.kept(v.index) >= 0)
        move_kept(homes_[v.index], phases_.kept(v.index), true);
    });
  }

  // ---- statements ----------------------------------------------------------------------------------

  void body(const GridBody& list) {
    if (const auto* steps = phases_.steps(list)) {
      for (const GridPhase& step : *steps)
        if (step.once) statement(*step.once);
        else threads(step.threads);
    } else {
      for (const S* s : list) statement(*s);
    }
  }
  Label& end_of(const S& s) { return !once_ && phases_.is_control(s) ? *thread_end_ : ends_[&s]; }
  void statement(const S& s) {
    const int slots = slots_;
    if (once_) read_first_thread(s);
    switch (s.kind) {
      case S::assign: evaluate(*s.value, kNone), set(s.variable); break;
      case S::store: store(s); break;
      case S::atomic_add: atomic_add(s); break;
      case S::branch: branch(s); break;
      case S::count: count(s); break;
      case S::loop:
      case S::scope: loop(s); break;
      case S::leave: asm_.jmp(end_of(*s.target)); break;
      default: fine_ = false;
    }
    slots_ = slots;
  }
  void branch(const S& s) {
    if (const S* leaves = s.exit()) return jump(*s.value, true, end_of(*leaves->target), kNone);
    Label other, after;
    jump(*s.value, false, other, kNone);
    body(s.body);
    if (!s.other.empty()) asm_.jmp(after);
    asm_.L(other);
    body(s.other);
    asm_.L(after);
  }
  /// Computes the address of the row of an access.
  void find_row(const V& v) {
    const GridTensor& t = grid_.tensors[v.index];
    const Row row{&v, take(), take()};
    const Reg64 at = temporary(1), k = temporary(2);
    Label done;
    asm_.mov(whole_slot(row.size), 0);
    asm_.xor_(at.cvt32(), at.cvt32());
    for (int d = 0; d + 1 < t.ndim; ++d) {
      position(*v.args[size_t(d)], {2, 0});
      asm_.cmp(k, tensor_word(v.index, offsetof(GridTensor, size), d));
      asm_.jae(done);
      asm_.imul(k, tensor_word(v.index, offsetof(GridTensor, stride), d));
      asm_.add(at, k);
    }
    asm_.mov(rax, tensor_word(v.index, offsetof(GridTensor, data)));
    asm_.lea(rax, asm_.ptr[rax + at * int(item_size(t.dtype))]);
    asm_.mov(whole_slot(row.data), rax);
    asm_.mov(rax, tensor_word(v.index, offsetof(GridTensor, size), t.ndim - 1));
    asm_.mov(whole_slot(row.size), rax);
    asm_.L(done);
    rows_.push_back(row);
  }
  /// Whether a value does not change in a loop that assigns these variables.
  static bool is_invariant(const V& v, const std::set<int>& assigned) {
    const bool adds = v.has<op::Add, op::Sub, op::Mul>();
    if (v.kind == V::load || (v.kind == V::operation && !adds) ||
        (v.kind == V::variable && assigned.count(v.index)))
      return false;
    return std::all_of(v.args.begin(), v.args.end(),
                       [&](const V* a) { return is_invariant(*a, assigned); });
  }
  static constexpr int kRowSlots = ThreadFrame::kSlots / 2;
  /// Before a loop: the rows that its accesses read and write.
  void find_rows(const S& loop) {
    if (once_) return;
    std::set<int> assigned;
    if (loop.variable >= 0) assigned.insert(loop.variable);
    each_statement(loop.body, 0, [&](const S& s, int) {
      if (s.variable >= 0) assigned.insert(s.variable);
    });
    each_statement(loop.body, 0, [&](const S& s, int) {
      values_of(s, [&](const V& v) {
        if (v.kind != V::load || v.args.count < 2 || row_of(v) || slots_ > kRowSlots) return;
        bool fits =
            !grid_.tensors[v.index].shared && grid_.tensors[v.index].stride[v.args.count - 1] == 1;
        for (int d = 0; d + 1 < v.args.count; ++d)
          fits = fits && is_invariant(*v.args[size_t(d)], assigned);
        if (fits) find_row(v);
      });
    });
  }
  void check_interrupt() {
    asm_.mov(rax, MT_FIELD(interrupted, 0));
    asm_.cmp(asm_.dword[rax], 0);
    asm_.jne(end_);
  }
  void loop(const S& s) {
    Label again;
    const size_t rows = rows_.size();
    if (s.kind == S::loop) find_rows(s);
    asm_.L(again);
    depth_ += s.kind == S::loop;
    body(s.body);
    depth_ -= s.kind == S::loop;
    if (s.kind == S::loop) {
      check_interrupt();
      asm_.jmp(again);
    }
    asm_.L(ends_[&s]);
    rows_.erase(rows_.begin() + int64_t(rows), rows_.end());
  }
  void count(const S& s) {
    const int last = take(2), step = last + 1;
    for (const auto& [v, at] : {std::pair(s.last, last), {s.step, step}}) {
      evaluate(*v, kNone);
      put(at, v->type, kNone);
    }
    evaluate(*s.value, kNone);
    set(s.variable);
    Label again, &end = ends_[&s];
    leave_count(s, last, step, end);
    const size_t rows = rows_.size();
    find_rows(s);
    asm_.align(16);
    asm_.L(again);
    ++depth_;
    body(s.body);
    --depth_;
    check_interrupt();
    if (const Home& h = homes_.at(s.variable);
        h.reg >= 0 && is_immediate(*s.step) && s.value->type == GridType::integer) {
      asm_.add(Reg64(h.reg), int(s.step->value));
      asm_.jo(end);
      asm_.cmp(Reg64(h.reg), whole_slot(last));
      if (s.step->value > 0) asm_.jle(again);
      else asm_.jge(again);
      asm_.L(end);
      return void(rows_.resize(rows));
    }
    if (s.value->type == GridType::integer) {
      evaluate_variable(s.variable);
      if (is_immediate(*s.step)) asm_.add(temporary(0), int(s.step->value));
      else asm_.add(temporary(0), whole_slot(step));
      asm_.jo(end);
    } else {
      real_operation(op::id<op::Add>, xmm0, real_variable(s.variable, xmm0), slot(step));
    }
    set(s.variable);
    leave_count(s, last, step, end);
    asm_.jmp(again);
    asm_.L(end);
    rows_.erase(rows_.begin() + int64_t(rows), rows_.end());
  }
  /// Jumps if the counter is beyond the last number, or one of them is NaN.
  void leave_count(const S& s, int last, int step, Label& end) {
    const bool whole = s.value->type == GridType::integer, known = s.step->kind == V::number;
    if (!known && !whole) return void(fine_ = false);
    Label down, go_on;
    if (!known) {
      asm_.cmp(whole_slot(step), 0);
      asm_.jle(down);
    }
    for (const bool up : {true, false}) {
      if (known && up != (s.step->value > 0)) continue;
      if (whole) {
        evaluate_variable(s.variable);
        asm_.cmp(temporary(0), whole_slot(last));
        if (up) asm_.jg(end);
        else asm_.jl(end);
      } else {
        move_real(xmm1, slot(last));
        const Xmm k = real_variable(s.variable, xmm0);
        compare_reals(up ? xmm1 : k, up ? k : xmm1);
        asm_.jb(end);
      }
      if (known) return;
      if (up) asm_.jmp(go_on), asm_.L(down);
    }
    asm_.L(go_on);
  }

  void store(const S& s) {
    const Dtype dtype = grid_.tensors[s.place->index].dtype;
    const bool real = s.value->type == GridType::real;
    evaluate(*s.value, kNone);
    const RegExp to = element(*s.place, real ? Used{0, 1} : Used{1, 0});
    store_to(to, dtype, xmm0, temporary(0));
  }
  void atomic_add(const S& s) {
    const Dtype dtype = grid_.tensors[s.place->index].dtype;
    const bool real = s.value->type == GridType::real;
    evaluate(*s.value, kNone);
    const RegExp to = element(*s.place, real ? Used{0, 1} : Used{1, 0});
    const bool adds = s.at < 0 && s.update == GridUpdate::add;
    if (adds && dtype == Dtype::i64) return asm_.add(asm_.qword[to], temporary(0));
    if (adds && dtype == Dtype::i32) return asm_.add(asm_.dword[to], temporary(0).cvt32());
    load_from(to, dtype, xmm1, 2);
    if (s.at >= 0) set(s.variable, {2, 1});
    update(s.update, real);
    store_to(to, dtype, xmm1, temporary(2));
  }

  /// Updates what was loaded, xmm1 or temporary 2, by the value in xmm0 or temporary 0.
  void update(GridUpdate how, bool real) {
    const Reg64 old = temporary(2), value = temporary(0);
    const int op = how == GridUpdate::add   ? op::id<op::Add>
                   : how == GridUpdate::min ? op::id<op::LuaMin>
                                            : op::id<op::LuaMax>;
    if (how > GridUpdate::max) fine_ = false;
    else if (real) real_operation(op, xmm1, xmm1, xmm0);
    else if (how == GridUpdate::add) asm_.add(old, value);
    else
      asm_.cmp(old, value),
          how == GridUpdate::min ? asm_.cmovg(old, value) : asm_.cmovl(old, value);
  }

  const GridPhases phases_;
  bool once_;  // the code runs once in a block, not in each thread
  Label* thread_end_ = nullptr;
  bool has_loops_ = false, narrows_ = false;
  std::map<const S*, Label> ends_;  // of loops and scopes
  Label end_;
};

}  // namespace

ThreadMachineCode emit_threads(const Grid& g, FindLoop* find_loop) {
  std::vector<uint8_t> buffer(size_t(1) << 16);
  ThreadEmitter emitter(g, find_loop, buffer);
  if (!emitter.emit()) return {};
  buffer.resize(emitter.size());
  const GridPhases& p = emitter.phases();
  return {std::move(buffer), emitter.calls_often(), p.divides(),
          p.clears(),        emitter.narrows(),     p.kept_count()};
}

}  // namespace mt
