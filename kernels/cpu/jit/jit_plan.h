// jit_plan.h -- the decisions before emission: loop invariants, fused bit operations, unrolling, pinned registers
#pragma once
#include <algorithm>

#include "kernels/cpu/jit/lanes.h"

namespace mt {

using ir::LaneInstruction;
using ir::LaneOp;

/// The registers and features of an instruction set.
struct RegisterFile {
  int vectors, masks;  // masks 0: masks are in vector registers
  bool wide;  // AVX-512: any function of three bits, `scale` and estimates are single instructions
  int bytes;  // of a vector
};

/// For each instruction of a sequence, the positions of its uses in it, in order.
class Uses {
 public:
  /// `after`: the values that are read after the end of the sequence.
  Uses(const std::vector<LaneInstruction>& code, const std::vector<int32_t>& sequence,
       const std::vector<int32_t>& after = {})
      : start_(code.size() + 1, 0) {
    const auto each = [&](const auto& visit) {
      for (size_t p = 0; p < sequence.size(); ++p) {
        const LaneInstruction& x = code[sequence[p]];
        for (int k = 0; k < ir::inputs_of(x.op); ++k)
          if (std::find(x.in, x.in + k, x.in[k]) == x.in + k) visit(x.in[k], int32_t(p));
      }
      for (size_t k = 0; k < after.size(); ++k)
        if (std::find(after.begin(), after.begin() + int64_t(k), after[k]) ==
            after.begin() + int64_t(k))
          visit(after[k], int32_t(sequence.size()));
    };
    each([&](int32_t id, int32_t) { ++start_[size_t(id) + 1]; });
    for (size_t i = 1; i < start_.size(); ++i) start_[i] += start_[i - 1];
    positions_.resize(start_.back());
    std::vector<int32_t> next = start_;
    each([&](int32_t id, int32_t p) { positions_[next[id]++] = p; });
  }
  /// The n-th position that reads `id`; kNone if there are fewer.
  int32_t at(int32_t id, int32_t n) const {
    return n < count(id) ? positions_[start_[id] + n] : kNone;
  }
  int32_t count(int32_t id) const { return start_[size_t(id) + 1] - start_[id]; }
  static constexpr int32_t kNone = 0x7fffffff;

 private:
  std::vector<int32_t> start_, positions_;
};

inline bool is_bit_op(LaneOp op) { return op >= LaneOp::iand && op <= LaneOp::ixor; }

/// A bitwise function of up to three values: bit 4a + 2b + c of the table is its result.
struct BitFunction {
  int32_t leaf[3];
  int count;
  uint8_t table;
};
constexpr uint8_t kLeafTable[] = {0xf0, 0xcc, 0xaa};

inline uint8_t apply(LaneOp op, uint8_t a, uint8_t b) {
  switch (op) {
    case LaneOp::iand: return a & b;
    case LaneOp::ior: return a | b;
    default: return a ^ b;
  }
}
/// Adds the leaves of `f` to those of `to`; returns false if there are more than three.
inline bool add_leaves(BitFunction& to, const BitFunction& f) {
  for (int k = 0; k < f.count; ++k) {
    if (std::find(to.leaf, to.leaf + to.count, f.leaf[k]) != to.leaf + to.count) continue;
    if (to.count == 3) return false;
    to.leaf[to.count++] = f.leaf[k];
  }
  return true;
}
inline uint8_t table_over(const BitFunction& all, const BitFunction& f) {
  uint8_t table = 0;
  for (int row = 0; row < 8; ++row) {
    int index = 0;
    for (int k = 0; k < f.count; ++k) {
      const auto place = std::find(all.leaf, all.leaf + all.count, f.leaf[k]) - all.leaf;
      index |= (row >> (2 - place) & 1) << (2 - k);
    }
    table = uint8_t(table | (f.table >> index & 1) << row);
  }
  return table;
}

struct LoopPlan {
  /// `max_copies` 0: one copy, and no registers pinned for the loop except the required ones.
  LoopPlan(const ir::LaneProgram& program, const RegisterFile& file, uint64_t repeated,
           int max_copies)
      : code(program.code),
        carries(program.carries),
        active(program.active),
        copies(std::max(1, max_copies)) {
    if (file.wide) merge_bits(program.item);
    else expand(program.item);
    sort_out(repeated);
    const Uses uses(code, body, after_body);
    find_direct_loads(uses);
    choose_copies(uses, file, max_copies > 0);
  }

  std::vector<LaneInstruction> code;
  std::vector<bool> invariant;  // the same in every iteration; constants too
  std::vector<bool> uniform;    // the same in all lanes, but not in all iterations
  std::vector<bool> direct;     // a load folded into the memory operand of its only reader
  std::vector<int32_t> before;  // computed before the loop
  std::vector<int32_t> body;
  std::vector<ir::LaneProgram::Carry> carries;
  int32_t active;                    // as in the program
  std::vector<int32_t> entry, exit;  // for a program with iterations: its loads and stores
  std::vector<int32_t> after_body;   // carried to the next iteration
  std::vector<int32_t> pinned;       // constants and invariants with a register in the whole loop
  int copies = 1;                    // vectors per iteration, with interleaved instructions

  /// A load that is executed once, before the iterations.
  bool is_entry(int32_t id) const {
    const LaneOp op = code[id].op;
    return (op == LaneOp::load || op == LaneOp::load_bool) && !invariant[id];
  }
  /// Whether one value is shared by all vectors of an iteration.
  bool shared(int32_t id) const { return invariant[id] || uniform[id]; }

 private:
  /// Removes dead code, and assigns instructions to before, inside and after the loop.
  void sort_out(uint64_t repeated) {
    std::vector<bool> needed(code.size(), false);
    for (const ir::LaneProgram::Carry& c : carries) {
      needed[c.next] = true;
      after_body.push_back(c.next);
    }
    for (size_t i = code.size(); i-- > 0;) {
      if (!needed[i] && !is_effect(code[i].op)) continue;
      needed[i] = true;
      for (int k = 0; k < ir::inputs_of(code[i].op); ++k) needed[code[i].in[k]] = true;
    }
    invariant.assign(code.size(), false), uniform = direct = invariant;
    for (size_t i = 0; i < code.size(); ++i) {
      const LaneInstruction& x = code[i];
      bool same = !is_effect(x.op) && x.op != LaneOp::position && x.op != LaneOp::gather,
           one = same && x.op != LaneOp::load_turn;
      if (is_load(x.op)) same = repeated >> x.operand() & 1, one &= x.op == LaneOp::load_one;
      for (int k = 0; k < ir::inputs_of(x.op); ++k) {
        same &= bool(invariant[x.in[k]]);
        one &= shared(x.in[k]);
      }
      invariant[i] = same, uniform[i] = one && !same;
      if (!needed[i] || x.op == LaneOp::constant) continue;
      const bool turns = !carries.empty() && !same;
      (same                            ? before
       : turns && is_entry(int32_t(i)) ? entry
       : turns && is_store(x.op)       ? exit
                                       : body)
          .push_back(int32_t(i));
    }
  }
  /// Replaces a 2^b by two products, as math::core::scaled, and inverses by quotients.
  void expand(int item) {
    const int mantissa = item == 4 ? 23 : 52;
    const uint64_t round = item == 4 ? ir::word_of(0x1.8p23f) : ir::word_of(0x1.8p52);
    const uint64_t bias = item == 4 ? 127 : 1023, all = item == 4 ? 0xffffffffu : ~uint64_t(0);
    std::vector<LaneInstruction> out;
    std::vector<int32_t> place(code.size());
    for (size_t i = 0; i < code.size(); ++i) {
      LaneInstruction x = code[i];
      for (int k = 0; k < ir::inputs_of(x.op); ++k) x.in[k] = place[x.in[k]];
      const auto add = [&](LaneOp op, int32_t a = -1, int32_t b = -1, uint64_t bits = 0) {
        out.push_back({op, {a, b, -1}, x.line, bits});
        return int32_t(out.size() - 1);
      };
      if (x.op == LaneOp::scale) {
        const LaneInstruction whole =
            out[x.in[1]];  // often n - c with a constant c such as `round`
        const bool known = whole.op == LaneOp::sub && out[whole.in[1]].op == LaneOp::constant &&
                           out[whole.in[1]].bits >> mantissa == round >> mantissa;
        const uint64_t zero = known ? out[whole.in[1]].bits : round;
        const int32_t n =
            known ? whole.in[0] : add(LaneOp::add, x.in[1], add(LaneOp::constant, -1, -1, round));
        const int32_t offset = add(LaneOp::constant, -1, -1, (zero - 2 * bias) & all);
        const int32_t k = add(LaneOp::isub, n, offset), half = add(LaneOp::shr, k, -1, 1);
        const int32_t up = add(LaneOp::shl, half, -1, uint64_t(mantissa));
        const int32_t down = add(LaneOp::shl, add(LaneOp::isub, k, half), -1, uint64_t(mantissa));
        add(LaneOp::mul, add(LaneOp::mul, x.in[0], up), down);
      } else if (is_estimate(x.op)) {
        const int32_t of = x.op == LaneOp::rsqrt ? add(LaneOp::sqrt, x.in[0]) : x.in[0];
        add(LaneOp::div, add(LaneOp::constant, -1, -1, ir::word_of(1.0f)), of);
      } else {
        out.push_back(x);
      }
      place[i] = int32_t(out.size() - 1);
    }
    code = out;
    for (ir::LaneProgram::Carry& c : carries) c = {place[c.first], place[c.next]};
    if (active >= 0) active = place[active];
  }
  /// Fuses and, or, xor whose results have one reader into one bitwise function of three values.
  void merge_bits(int item) {
    const uint64_t all = item == 4 ? 0xffffffffu : ~uint64_t(0);
    std::vector<int32_t> readers(code.size(), 0);
    for (const LaneInstruction& x : code)
      for (int k = 0; k < ir::inputs_of(x.op); ++k) ++readers[x.in[k]];
    std::vector<BitFunction> function(code.size());
    const auto leaf = [&](int32_t id) {  // for two complementary constants, one of them
      for (int32_t j = 0; code[id].op == LaneOp::constant && j < id; ++j)
        if (code[j].op == LaneOp::constant && code[j].bits == (~code[id].bits & all))
          return BitFunction{{j, -1, -1}, 1, uint8_t(~kLeafTable[0])};
      return BitFunction{{id, -1, -1}, 1, kLeafTable[0]};
    };
    for (size_t i = 0; i < code.size(); ++i) {
      function[i] = {{int32_t(i), -1, -1}, 1, kLeafTable[0]};
      LaneInstruction& x = code[i];
      if (!is_bit_op(x.op)) continue;
      for (const int into : {3, 1, 2, 0}) {  // the inputs that are fused
        BitFunction f[2], all{{}, 0, 0};
        bool fits = true;
        for (int k = 0; k < 2; ++k) {
          const size_t in = x.in[k];
          if (into >> k & 1) {
            f[k] = function[in];
            fits &= readers[in] == 1 && (is_bit_op(code[in].op) || code[in].op == LaneOp::ternary);
          } else {
            f[k] = leaf(x.in[k]);
          }
          fits = fits && add_leaves(all, f[k]);
        }
        if (!fits) continue;
        all.table = apply(x.op, table_over(all, f[0]), table_over(all, f[1]));
        function[i] = all;
        if (into == 0 || all.count < 3) break;
        x.op = LaneOp::ternary;
        x.bits = all.table;
        std::copy(all.leaf, all.leaf + 3, x.in);
        break;
      }
    }
  }
  void find_direct_loads(const Uses& uses) {
    size_t first_store = body.size();
    for (size_t p = body.size(); p-- > 0;)
      if (code[body[p]].op >= LaneOp::store) first_store = p;
    for (const int32_t id : body) {
      const LaneOp op = code[id].op;
      if ((op != LaneOp::load && op != LaneOp::load_turn) || uses.count(id) != 1) continue;
      const size_t at = uses.at(id, 0);
      if (at == body.size()) continue;
      const LaneInstruction& reader = code[body[at]];
      const bool first = reader.in[0] == id, both = first && reader.in[1] == id;
      switch (reader.op) {
        using enum LaneOp;
        case add:
        case mul:
        case fma: direct[id] = !both && at < first_store; break;
        case sub:
        case div:
        case min:
        case max: direct[id] = !first && at < first_store; break;
        default: break;
      }
    }
  }
  void choose_copies(const Uses& uses, const RegisterFile& file, bool pins) {
    const auto is_in_masks = [&](int32_t id) { return file.masks > 0 && ir::is_mask(code[id].op); };
    int live[2] = {0, 0};  // vectors, masks
    for (const int32_t id : entry) ++live[is_in_masks(id)];
    int most[2] = {live[0], live[1]};
    std::vector<std::pair<int32_t, int32_t>>
        wanted;  // readers in the loop, and the values they read
    for (size_t p = 0; p < body.size(); ++p) {
      const size_t i = body[p];
      const LaneInstruction& x = code[i];
      for (int k = 0; k < ir::inputs_of(x.op); ++k) {
        const int32_t in = x.in[k];
        const bool again = std::find(x.in, x.in + k, in) != x.in + k;
        if (again || invariant[in] || (!carries.empty() && is_entry(in))) continue;
        const bool last = uses.at(in, uses.count(in) - 1) == int32_t(p);
        if (last && !direct[in]) --live[is_in_masks(in)];
      }
      if (is_effect(x.op) || direct[i]) continue;
      const int kind = is_in_masks(body[p]);
      if (uses.count(int32_t(i)) > 0) ++live[kind];
      most[kind] = std::max(most[kind], live[kind]);
    }
    for (size_t i = 0; i < code.size(); ++i)
      if (invariant[i] && !ir::is_mask(code[i].op) && uses.count(int32_t(i)) > 0)
        wanted.push_back({-uses.count(int32_t(i)), int32_t(i)});
    const int temporary = carries.empty() ? 2 : 3;   // one for the mask of the remainder
    for (const ir::LaneProgram::Carry& c : carries)  // a carried load needs a second register
      most[is_in_masks(c.next)] += is_entry(c.next) && c.next != c.first;
    if (carries.empty()) copies = std::min(copies, 4);
    if (active >= 0) copies = std::min(copies, 2);  // all copies run until the last lane has left
    for (; copies > 1; --copies)
      if (most[0] * copies + temporary <= file.vectors && most[1] * copies <= file.masks) break;
    const int free = !pins ? 0 : std::max(0, file.vectors - temporary - most[0] * copies);
    std::sort(wanted.begin(), wanted.end());
    for (const auto& [count, id] : wanted)
      if (int(pinned.size()) < free) pinned.push_back(id);
  }
};

}  // namespace mt
