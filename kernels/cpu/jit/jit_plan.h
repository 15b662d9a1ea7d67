// jit_plan.h -- what the emitter decides before it writes: what leaves the loop, how far it unrolls
#pragma once
#include "kernels/cpu/jit/lanes.h"

namespace mt {

/// The registers of an instruction set, and what it can do with them.
struct RegisterFile {
  int vectors, masks;  // masks 0: masks are vectors
  bool wide;  // AVX-512: any function of three bits, `scale` and the estimates are instructions
  int bytes;  // of a vector
};

/// For each instruction of a sequence the positions in it that read the instruction, in order.
class Uses {
 public:
  /// `after`: what is read when the sequence has ended.
  Uses(const std::vector<ir::LaneInstruction>& code, const std::vector<int32_t>& sequence,
       const std::vector<int32_t>& after = {});
  /// The n-th position that reads `id`; kNone when there are fewer.
  int32_t at(int32_t id, int32_t n) const {
    return n < count(id) ? positions_[start_[id] + n] : kNone;
  }
  int32_t count(int32_t id) const { return start_[size_t(id) + 1] - start_[id]; }
  static constexpr int32_t kNone = 0x7fffffff;

 private:
  std::vector<int32_t> start_, positions_;
};

struct Plan {
  /// `max_copies` 0: one, and no register for all of the loop but those that it must have.
  Plan(const ir::LaneProgram&, const RegisterFile&, uint64_t repeated, int max_copies);

  std::vector<ir::LaneInstruction> code;
  std::vector<bool> invariant;  // the same in every iteration; constants too
  std::vector<bool> uniform;    // the same in all lanes, not in all turns
  std::vector<bool> direct;     // a load whose one reader takes it from memory
  std::vector<int32_t> before;  // what is computed ahead of the loop
  std::vector<int32_t> body;
  std::vector<ir::LaneProgram::Carry> carries;
  int32_t active;                    // as of the program
  std::vector<int32_t> entry, exit;  // of a program with turns: its loads and stores
  std::vector<int32_t> after_body;   // what is carried on
  std::vector<int32_t> pinned;       // constants and invariants that keep a register throughout
  int copies = 1;                    // vectors in an iteration, their instructions interleaved

  /// A load that is done once, ahead of the turns.
  bool is_entry(int32_t id) const {
    const ir::LaneOp op = code[id].op;
    return (op == ir::LaneOp::load || op == ir::LaneOp::load_bool) && !invariant[id];
  }
  /// One value serves all vectors of an iteration.
  bool shared(int32_t id) const { return invariant[id] || uniform[id]; }

 private:
  void expand(int item);
  void merge_bits(int item);
  void find_direct_loads(const Uses&);
  void sort_out(uint64_t repeated);
  void choose_copies(const Uses&, const RegisterFile&, bool pins);
};

}  // namespace mt
