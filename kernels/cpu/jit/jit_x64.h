// jit_x64.h -- lane programs as machine code: AVX-512, or AVX2 with FMA
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "kernels/cpu/jit/lanes.h"

namespace mt {

enum class Isa : uint8_t { avx2, avx512 };

/// The machine code of a lane program, in memory that is executable and not writable. Several
/// threads may run it at once.
class Code {
 public:
  struct Operand {
    int item = 0;  // bytes of an element; 0: it is not accessed
    bool read = false, written = false, repeated = false;
  };
  ~Code();
  Code(const Code&) = delete;

  /// Runs the elements [from, to) of operands that are contiguous (data[k] is the address of
  /// element 0) or one repeated element. Returns `to`, or the element before which a guard stopped:
  /// no element from there on has been written, and one within 128 of it fails the guard.
  /// In a program with iterations, data[operands + k] is the byte stride of operand k per
  /// iteration, and data[2 operands] the number of iterations, at least one; both are integers. In
  /// a program with active lanes, a guard that fails sets data[2 operands + 1].
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
  int whole_;  // the code runs only multiples of this
  std::vector<Operand> operands_;
};

/// Bit k of `repeated`: operand k is one repeated element. Null if the program has too many
/// operands, or memory cannot be executable.
std::unique_ptr<Code> compile(const ir::LaneProgram&, Isa, uint64_t repeated);

/// The output of `compile` as assembly, with the lines of the Lua source.
std::string machine_code(const ir::LaneProgram&, Isa, uint64_t repeated);

/// Copies the code to memory that becomes executable, of `bytes`; null if the system does not allow it, or
/// MTORCH_JIT=vm is set.
void* executable(const std::vector<uint8_t>& code, size_t& bytes);

/// MTORCH_JIT: vm, lanes or threads; or empty.
std::string_view jit_setting();

/// The instruction set of the CPU's loops; returns false if it has no emitter.
bool jit_isa(Isa&);

}  // namespace mt
