// jit_threads.cpp -- compiles a grid kernel to machine code of threads: variables in registers, branches and loops
#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "kernels/cpu/jit/jit_lane_statements.h"
#include "kernels/cpu/jit/jit_x64.h"

namespace mt {
namespace {

/// Layer 6 of the machine code of threads.
class ThreadEmitter : LaneStatements {
 public:
  /// `scalar`: the number of steps of threads, from the first one on, that are not tried as vectors.
  ThreadEmitter(const Grid& g, FindLoop* find_loop, std::vector<uint8_t>& buffer, bool wide,
                const std::set<int>& scalar)
      : LaneStatements(g, find_loop, buffer, wide),
        scalar_(scalar),
        once_(phases_.divides()) {}

  /// Returns false if the kernel cannot be compiled, or the buffer is too small.
  bool emit() {
    if (!phases_.fine()) return false;
    Xbyak::ClearError();
    number_values();
    find_variables();
    std::optional<GridSteps> steps;
    if (once_ && row_ > 0) steps.emplace(phases_, only_, open_, grid_.axes[0]), steps_ = &*steps;
    prologue();
    if (once_) {
      body(grid_.program->body);
    } else {
      const GridBody& all = grid_.program->body;
      const List list = GridPhases::listed(all);
      give_registers(list);
      each_thread_of_row([&] {
        for (const auto& [index, home] : homes_)
          if (!GridPhases::defines(list, index)) clear(home);
        body(all);
      });
    }
    epilogue();
    return fine_ && Xbyak::GetError() == 0;
  }
  size_t size() const { return asm_.getSize(); }
  /// The first step of threads whose vectors could not be emitted, or -1.
  int failed_step() const { return failed_step_; }
  void set_facts(ThreadCode& code) const {
    code.calls_often = calls_in_loops_ || (!has_loops_ && calls_elsewhere_);
    code.by_place = true;
    each_statement(grid_.program->body, 0, [&](const S& s, int) {
      values_of(s, [&](const V& v) { code.by_place &= v.kind != V::thread && v.kind != V::block; });
    });
    code.by_block = once_, code.clears = phases_.clears(), code.by_lanes = by_lanes_;
    code.kept = 8 * phases_.kept_count() * padded_block();
  }

 private:
  static constexpr int kSaved[] = {Operand::RBP, Operand::RBX, Operand::R12,
                                   Operand::R13, Operand::R14, Operand::R15};

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
      if (!GridPhases::defines(all, variable)) s = nullptr, open_.insert(variable);  // it may be 0
  }
  /// Registers are given to the variables that are used most often, by the depth of loops.
  void give_registers(const List& list) {
    std::map<int, double> uses;
    each_statement(list, 0, [&](const S& s, int depth) {
      const double weight = double(int64_t(1) << std::min(4 * depth, 40));
      values_of(s, [&](const V& v) {
        if (v.kind == V::variable) uses[v.index] += weight;
      });
      const bool is_read = s.kind != S::atomic_add || s.at >= 0;
      if (s.variable >= 0 && is_read) uses[s.variable] += weight * (s.kind == S::count ? 16 : 1);
    });
    const int end = !in_lanes_ ? 16 : wide_ ? 32 : kActive;
    std::vector<std::pair<double, int>> order;
    for (const auto& [index, use] : uses) order.push_back({-use, index});
    std::sort(order.begin(), order.end());
    int whole = phases_.kept_count() > 0,
        real = in_lanes_ ? kFirst : kReals;  // r12: the kept variables
    for (const auto& [weight, index] : order) {
      Home& home = homes_.at(index);
      const bool varies = in_lanes_ && steps_->of_variable(index, home.type) == kVaries;
      const bool is_real =
          home.type == GridType::real;  // scalar instructions have only 16 registers
      if (is_real) home.reg = real < (varies ? end : std::min(end, 16)) ? real++ : -1;
      else home.reg = !varies && whole < int(std::size(kVariables)) ? kVariables[whole++] : -1;
      if (varies && home.reg < 0) lane_homes_[index] = take_lanes();
    }
    hold_words(list, whole);
  }
  /// Words get the registers that are left: above all addresses, as a load of one after a store waits for it.
  void hold_words(const List& list, int whole) {
    std::map<int, double> uses;
    if (!in_lanes_) uses[kEnd] = 0.75;
    each_statement(list, 0, [&](const S& s, int depth) {
      const double weight = double(int64_t(1) << std::min(4 * depth, 40));
      values_of(s, [&](const V& v) {
        if (v.kind == V::scalar && v.type == GridType::integer)
          uses[word_of_number(v.index)] += weight / 2;
        if (v.kind != V::load) return;
        const GridTensor& t = grid_.tensors[v.index];
        uses[word_of_tensor(v.index, offsetof(GridTensor, data))] += weight;
        for (int d = 0; d < t.ndim && !t.shared; ++d)
          uses[word_of_tensor(v.index, offsetof(GridTensor, size), d)] += weight / 4;
      });
    });
    std::vector<std::pair<double, int>> order;
    for (const auto& [word, use] : uses) order.push_back({-use, word});
    std::sort(order.begin(), order.end());
    for (const auto& [use, word] : order) {
      if (whole == int(std::size(kVariables))) break;
      words_[word] = kVariables[whole++];
    }
    for (const auto& [word, r] : words_) asm_.mov(Reg64(r), word_place(word));
  }
  void clear(const Home& h) {
    if (h.reg < 0) asm_.mov(whole_slot(h.slot), 0);
    else if (h.type == GridType::real) asm_.vxorps(Xmm(h.reg), Xmm(h.reg), Xmm(h.reg));
    else asm_.xor_(Xbyak::Reg32(h.reg), Xbyak::Reg32(h.reg));
  }
  void prologue() {
    for (const int r : kSaved) asm_.push(Reg64(r));
    asm_.sub(rsp, 8);  // aligned for calls
    asm_.mov(rbp, rdi);
    asm_.mov(r13, MT_FIELD(place, grid_.axes[0]));
    asm_.mov(r15, MT_FIELD(tensors, 0));
    asm_.mov(r14, MT_FIELD(scalars, 0));
    if (phases_.kept_count() > 0) asm_.xor_(r12d, r12d);
  }
  void epilogue() {
    asm_.L(end_);
    if (by_lanes_) asm_.vzeroupper();
    asm_.mov(MT_FIELD(place, grid_.axes[0]), r13);
    asm_.add(rsp, 8);
    for (size_t k = std::size(kSaved); k-- > 0;) asm_.pop(Reg64(kSaved[k]));
    asm_.ret();
    report_outside();
    for (Fault& f : faults_) {
      asm_.L(f.label);
      masked_ = f.masked;
      if (f.masked) active_bits(eax), asm_.tzcnt(eax, eax), asm_.add(r13, rax);
      if (f.lane >= 0) asm_.add(r13, Reg64(f.lane));
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
    for (auto& [step, label] : tables_) {
      asm_.align(64);
      asm_.L(label);
      for (int l = 0; l < lanes_; ++l) asm_.dq(uint64_t(step * l));
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

  /// Emits a loop over the threads along axes[0], with four copies of their code if it is short.
  template <class F> void each_thread_of_row(const F& thread) {
    constexpr size_t kShort = 192;
    constexpr int kCopies = 4;
    Label one, next, copies, done;
    asm_.jmp(next);
    asm_.L(one);
    const size_t before = asm_.getSize();
    thread(), asm_.inc(r13);
    if (asm_.getSize() - before < kShort) {
      compare_word(r13, kEnd);
      asm_.jge(done);
      asm_.L(next);
      asm_.lea(rax, asm_.ptr[r13 + kCopies - 1]);
      compare_word(rax, kEnd);
      asm_.jge(one);
      asm_.L(copies);
      for (int k = 0; k < kCopies; ++k) thread(), asm_.inc(r13);
      asm_.lea(rax, asm_.ptr[r13 + kCopies - 1]);
      compare_word(rax, kEnd);
      asm_.jl(copies);
    } else {
      asm_.L(next);
    }
    compare_word(r13, kEnd);
    asm_.jl(one);
    asm_.L(done);
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
    return true;
  }
  /// Copies the kept value of a variable to its home, or back.
  void move_kept(int variable, bool load) {
    const Home& h = homes_.at(variable);
    if (in_lanes_) return move_kept_lanes(variable, h, load);
    asm_.mov(rax, MT_FIELD(own, 0));
    const Address at = asm_.ptr[kept_place(variable)];
    const bool real = h.type == GridType::real;
    if (load) {
      real ? move_real(xmm0, at) : asm_.mov(temporary(0), at);
      return set(variable);
    }
    if (real) return move_real(at, real_variable(variable, xmm0));
    evaluate_variable(variable);
    asm_.mov(at, temporary(0));
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
    const int slots = slots_, end = take(), vectors = lane_slots_;
    const bool one = list[0]->value && list[0]->value->has<op::Eq>();
    const bool reduced = reduce_end(list, end, skip);
    in_lanes_ = !scalar_.count(++step_) && !(reduced && one) && suits_lanes(list);
    by_lanes_ |= in_lanes_;
    give_registers(list);
    load_block_variables();
    once_ = false;
    Label again[3];
    for (int k = 3; k-- > 1;) asm_.L(again[k]);
    const List& inside = reduced && in_lanes_ ? GridPhases::listed(list[0]->body) : list;
    if (in_lanes_) row_in_lanes(inside, loads, stores, reduced);
    else row_of_threads(list, loads, stores);
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
    if (!outside_.empty() || !edges_.empty()) {
      asm_.jmp(skip);
      report_outside(), check_edges();
    }
    asm_.L(skip);
    if (phases_.kept_count() > 0) asm_.xor_(r12d, r12d);
    const bool failed = !fine_ || Xbyak::GetError() != 0;
    if (in_lanes_ && failed && failed_step_ < 0) failed_step_ = step_;
    once_ = true, in_lanes_ = false, slots_ = slots, lane_slots_ = vectors;
    lane_homes_.clear(), words_.clear();
    for (auto& [index, h] : homes_) h.reg = -1;
  }
  /// Loads the variables of the block that have registers.
  void load_block_variables() {
    for (const auto& [index, h] : homes_) {
      if (h.reg < 0 || phases_.is_own(index)) continue;
      if (h.type != GridType::real) asm_.mov(Reg64(h.reg), whole_slot(h.slot));
      else if (in_lanes_) broadcast_real(vec(h.reg), slot(h.slot));
      else move_real(Xmm(h.reg), slot(h.slot));
    }
  }
  void row_of_threads(const List& list, const std::set<int>& loads, const std::set<int>& stores) {
    each_thread_of_row([&] {
      Label thread_end;
      thread_end_ = &thread_end;
      for (const int v : loads) move_kept(v, true);
      statements(list);
      asm_.L(thread_end);
      for (const int v : stores) move_kept(v, false);
      if (phases_.kept_count() > 0) asm_.inc(r12);
    });
    if (const int more = int(padded_row() - row_); phases_.kept_count() > 0 && more > 0 && row_ > 0)
      asm_.add(r12, more);
  }
  /// The threads of a row as vectors, of which the last one may be partial.
  void row_in_lanes(const List& list, const std::set<int>& loads, const std::set<int>& stores,
                    bool reduced) {
    const bool whole = row_ >= lanes_, rest = reduced || row_ % lanes_ > 0;
    Label again, tail, done;
    const auto remaining = [&] {
      asm_.mov(rax, MT_FIELD(end, grid_.axes[0]));
      asm_.sub(rax, r13);
    };
    if (whole) {
      asm_.L(again);
      if (rest) {
        remaining();
        asm_.cmp(rax, lanes_);
        asm_.jl(tail);
      }
      vector_of_threads(list, loads, stores);
      asm_.add(r13, lanes_);
      asm_.cmp(r13, MT_FIELD(end, grid_.axes[0]));
      asm_.jl(again);
      if (rest) asm_.jmp(done);
    }
    asm_.L(tail);
    if (rest) {
      remaining();
      activate_first();
      vector_of_threads(list, loads, stores);
      masked_ = false;
    }
    asm_.L(done);
  }
  void vector_of_threads(const List& list, const std::set<int>& loads,
                         const std::set<int>& stores) {
    Label thread_end;
    thread_end_ = &thread_end;
    const bool was_masked = masked_;
    for (const int v : loads) move_kept(v, true);
    bool ends = false;  // some threads before others
    each_statement(list, 0, [&](const S& s, int) {
      ends |= s.kind == S::leave && !target_of(s) && steps_->is_left(s.target);
    });
    if (ends) open_left(nullptr);
    lane_body(list);
    asm_.L(thread_end);
    left_.clear();
    masked_ = was_masked;
    for (const int v : stores) move_kept(v, false);
    if (phases_.kept_count() > 0) asm_.add(r12, lanes_);
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
      if (v.kind == V::variable && phases_.kept(v.index) >= 0) move_kept(v.index, true);
    });
  }

  // ---- statements ----------------------------------------------------------------------------------

  void body(const GridBody& list) {
    if (in_lanes_) return lane_body(list);
    if (const auto* steps = phases_.steps(list)) {
      for (const GridPhase& step : *steps)
        if (step.once) statement(*step.once);
        else threads(step.threads);
    } else {
      statements(list);
    }
  }
  template <class L> void statements(const L& list) {
    const size_t facts = facts_.size();
    for (const S* s : list) {
      statement(*s);
      if (s->exit() && !once_) assume(*s->value, false);
    }
    facts_.resize(facts);
  }
  Label& end_of(const S& s) override {
    return !once_ && phases_.is_control(s) ? *thread_end_ : ends_[&s];
  }
  void statement(const S& s) override {
    const int slots = slots_, vectors = lane_slots_;
    if (once_) read_first_thread(s);
    switch (s.kind) {
      case S::assign: assign(s); break;
      case S::store: store(s); break;
      case S::atomic_add: in_lanes_ ? atomic_update_lanes(s) : atomic_update(s); break;
      case S::branch: in_lanes_ ? branch_lanes(s) : branch(s); break;
      case S::count: in_lanes_ && steps_->is_uneven(s) ? count_lanes(s) : count(s); break;
      case S::loop:
      case S::scope: loop(s); break;
      case S::leave: in_lanes_ ? leave_lanes(s) : asm_.jmp(end_of(*s.target)); break;
      default: fine_ = false;
    }
    slots_ = slots, lane_slots_ = vectors;
  }
  void branch(const S& s) {
    if (const S* leaves = s.exit()) return jump(*s.value, true, end_of(*leaves->target), kNone);
    choose_body(s, [&](const GridBody& list) {
      const size_t facts = facts_.size();
      if (!once_) assume(*s.value, &list == &s.body);
      body(list);
      facts_.resize(facts);
    });
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
    if (once_ || in_lanes_) return;
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
  void loop(const S& s) {
    ends_.erase(&s);
    Label again, &end = ends_[&s];
    const size_t rows = rows_.size();
    if (s.kind == S::loop) find_rows(s);
    const Turns turns = begin_turns(s);
    asm_.L(again);
    depth_ += s.kind == S::loop;
    body(s.body);
    depth_ -= s.kind == S::loop;
    if (s.kind == S::loop) {
      end_turn(turns, end);
      check_interrupt();
      asm_.jmp(again);
    }
    asm_.L(end);
    end_turns(turns);
    rows_.resize(rows);
  }
  void count(const S& s) {
    const int last = begin_count(s), step = last + 1;
    ends_.erase(&s);
    Label again, &end = ends_[&s];
    const Turns turns = begin_turns(s);
    leave_count(s, last, step, end);
    const size_t rows = rows_.size();
    find_rows(s);
    asm_.align(16);
    asm_.L(again);
    const size_t facts = facts_.size();
    counters_.push_back({.kind = V::variable, .type = s.value->type, .index = s.variable});
    if (s.step->kind == V::number && s.step->value > 0)
      assume_order(counters_.back(), *s.last, false);
    ++depth_;
    body(s.body);
    --depth_;
    facts_.resize(facts);
    end_turn(turns, end);
    check_interrupt();
    if (const Home& h = homes_.at(s.variable);
        h.reg >= 0 && is_immediate(*s.step) && s.value->type == GridType::integer) {
      asm_.add(Reg64(h.reg), int(s.step->value));
      asm_.jo(end);
      asm_.cmp(Reg64(h.reg), whole_slot(last));
      if (s.step->value > 0) asm_.jle(again);
      else asm_.jge(again);
    } else {
      if (s.value->type == GridType::integer) {
        evaluate_variable(s.variable);
        asm_.add(temporary(0), whole_slot(step));
        asm_.jo(end);
      } else {
        real_operation(op::id<op::Add>, xmm0, real_variable(s.variable, xmm0), slot(step));
      }
      set(s.variable);
      leave_count(s, last, step, end);
      asm_.jmp(again);
    }
    asm_.L(end);
    end_turns(turns);
    rows_.resize(rows);
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

  const std::set<int>& scalar_;
  int step_ = -1, failed_step_ = -1;  // of threads
  std::set<int> open_;                // variables that may be read before they are set
  bool by_lanes_ = false;
  bool once_;  // the code runs once in a block, not in each thread
  Label* thread_end_ = nullptr;
  bool has_loops_ = false;
  std::map<const S*, Label> ends_;  // of loops and scopes
};

}  // namespace

std::vector<uint8_t> emit_threads(const Grid& given, FindLoop* find_loop, ThreadCode& code) {
  Isa isa;
  if (!jit_isa(isa)) return {};
  Grid g = given;
  std::vector<GridTensor> tensors(g.tensors, g.tensors + g.program->tensors);
  if (!GridPhases(*g.program).divides())
    std::ranges::transform(tensors, tensors.begin(), of_one_thread);
  g.tensors = tensors.data();
  std::set<int> scalar;  // steps that have no vectors
  for (;;) {
    std::vector<uint8_t> buffer(size_t(1) << 18);
    ThreadEmitter emitter(g, find_loop, buffer, isa == Isa::avx512, scalar);
    if (!emitter.emit()) {
      if (emitter.failed_step() < 0) return {};
      scalar.insert(emitter.failed_step());
      continue;
    }
    buffer.resize(emitter.size());
    emitter.set_facts(code);
    return buffer;
  }
}

}  // namespace mt
