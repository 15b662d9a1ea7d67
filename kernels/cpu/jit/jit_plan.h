// jit_plan.h -- the decisions before emission: loop invariants, unrolling, pinned registers
#pragma once
#include "kernels/cpu/jit/lanes.h"

namespace mt {

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
  Uses(const std::vector<ir::LaneInstruction>& code, const std::vector<int32_t>& sequence,
       const std::vector<int32_t>& after = {});
  /// The n-th position that reads `id`; kNone if there are fewer.
  int32_t at(int32_t id, int32_t n) const {
    return n < count(id) ? positions_[start_[id] + n] : kNone;
  }
  int32_t count(int32_t id) const { return start_[size_t(id) + 1] - start_[id]; }
  static constexpr int32_t kNone = 0x7fffffff;

 private:
  std::vector<int32_t> start_, positions_;
};

struct LoopPlan {
  /// `max_copies` 0: one copy, and no registers pinned for the loop except the required ones.
  LoopPlan(const ir::LaneProgram&, const RegisterFile&, uint64_t repeated, int max_copies);

  std::vector<ir::LaneInstruction> code;
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
    const ir::LaneOp op = code[id].op;
    return (op == ir::LaneOp::load || op == ir::LaneOp::load_bool) && !invariant[id];
  }
  /// Whether one value is shared by all vectors of an iteration.
  bool shared(int32_t id) const { return invariant[id] || uniform[id]; }

 private:
  void expand(int item);
  void merge_bits(int item);
  void find_direct_loads(const Uses&);
  void sort_out(uint64_t repeated);
  void choose_copies(const Uses&, const RegisterFile&, bool pins);
};

}  // namespace mt
