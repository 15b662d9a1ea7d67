// jit_x64.h -- lane programs as machine code: AVX-512, or AVX2 with FMA
#pragma once
#include <memory>
#include <string>

#include "kernels/cpu/jit/lanes.h"

namespace mt {

enum class Isa : uint8_t { avx2, avx512 };

/// The machine code of a lane program, in memory that is executable and not writable, until it is
/// destroyed. It may be run by several threads at once.
class Code {
 public:
  struct Operand {
    int item = 0;  // bytes of an element; 0: neither read nor written
    bool read = false, written = false, repeated = false;
  };
  ~Code();
  Code(const Code&) = delete;

  /// Runs the elements [from, to) of operands that are contiguous (data[k] is the address of element
  /// 0) or one element repeated. Returns `to`, or the element before which a guard stopped: nothing
  /// from there on has been written, and it is within 128 of one that does not pass.
  /// Of a program with turns data[operands + k] is how many bytes operand k moves on with each turn, and
  /// data[2 operands] how many turns there are, at least one; both as integers. Of one with active lanes a
  /// guard that fails sets data[2 operands + 1].
  int64_t run(void* const* data, const double* numbers, int64_t from, int64_t to) const;
  size_t bytes() const { return bytes_; }

 private:
  friend std::unique_ptr<Code> compile(const ir::LaneProgram&, Isa, uint64_t repeated);
  using Entry = int64_t (*)(void* const*, const double*, int64_t, int64_t);
  Code(void* memory, size_t bytes, size_t entry, int whole)
      : memory_(memory),
        bytes_(bytes),
        whole_(whole) {
    entry_ = reinterpret_cast<Entry>(static_cast<char*>(memory) + entry);
  }
  int64_t run_rest(void* const* data, const double* numbers, int64_t from, int64_t to) const;

  void* memory_;
  size_t bytes_;
  Entry entry_;
  int whole_;  // the code runs multiples of this only
  std::vector<Operand> operands_;
};

/// Bit k of `repeated`: operand k is one element repeated. Null where the program has too many
/// operands, the system refuses executable memory, or MTORCH_JIT=vm is in the environment.
std::unique_ptr<Code> compile(const ir::LaneProgram&, Isa, uint64_t repeated);

/// What `compile` emits, as assembly with the lines of the Lua source.
std::string machine_code(const ir::LaneProgram&, Isa, uint64_t repeated);

/// The instruction set that the CPU's loops have been chosen for; false: one that has no emitter.
bool jit_isa(Isa&);

}  // namespace mt
