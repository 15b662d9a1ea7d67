// program_text.h -- translates the operations of expression programs to CUDA C device functions
#pragma once
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "kernels/device.h"

namespace mt {

/// The prologue of the kernel of a program whose operands have this dtype. Its casts preserve the
/// bits of floats.
std::string program_head(Dtype);
extern const char kReducedFloats[];  // the text of kernels/math/reduced_floats.h
/// That text, with the types of storage-only floats, if the dtype is one.
const char* reduced_floats_text(Dtype);
/// The type of a value in computations, and of an operand in memory: those floats are converted to
/// float when they are read, and rounded when they are written.
const char* type_text(Dtype, bool is_bool);
const char* stored_text(Dtype, bool is_bool);
/// A number literal that preserves all bits.
std::string number_text(double, Dtype);

/// The device functions that the kernel of a program calls, each emitted once: with the formulas of
/// the CPU, instruction by instruction, and otherwise with functions of the CUDA library.
class OperationText {
 public:
  OperationText(const Program& p, Dtype dtype) : p_(p), dtype_(dtype) {}
  /// The statement of a number, a constant or an operation on values named by `operand`:
  /// `const float x3 = op_tanh(x2);`.
  std::string line(int instruction, const std::function<std::string(int)>& operand);
  /// The name of the function of an operation, whose result may be a bool; `which`: its first parameter in the
  /// program. Bit k of `bools`: operand k is a bool.
  std::string function_of(int op, bool is_bool = false, int which = -1, unsigned bools = 0);
  const std::string& functions() const { return functions_; }
  /// Whether every operation so far has a function.
  bool complete() const { return complete_; }

 private:
  std::string value(const Instruction&, const std::function<std::string(int)>& operand);
  const Program& p_;
  const Dtype dtype_;
  std::map<std::tuple<int, int, unsigned>, std::string> known_;
  std::string functions_;
  bool complete_ = true;
};

}  // namespace mt
