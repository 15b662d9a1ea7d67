// program_text.h -- the operations of expression programs as device functions of CUDA C
#pragma once
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "kernels/device.h"

namespace mt {

/// What stands before the kernel of a program whose operands have this dtype. Floats keep their bits
/// through the casts.
std::string program_head(Dtype);
/// The type of a value while it is calculated with, and of an operand in memory: 16-bit floats become
/// floats where they are read, and are rounded where they are written.
const char* type_text(Dtype, bool is_bool);
const char* stored_text(Dtype, bool is_bool);
/// A number with all its bits.
std::string number_text(double, Dtype);

/// The device functions that a program's kernel calls, each written once: with the formulas of the CPU,
/// instruction by instruction, and for what these lack with the CUDA library's functions.
class OperationText {
 public:
  OperationText(const Program& p, Dtype dtype) : p_(p), dtype_(dtype) {}
  /// What a number, a constant or an operation of values named by `operand` computes.
  std::string value(int instruction, const std::function<std::string(int)>& operand);
  /// The same as a line, `const float x3 = op_tanh(x2);`.
  std::string line(int instruction, const std::function<std::string(int)>& operand);
  /// The name of an operation's function; bit k of `bools`: operand k is a bool.
  std::string function_of(const Instruction&, unsigned bools = 0);
  const std::string& functions() const { return functions_; }
  /// Whether every operation that came up has a function.
  bool complete() const { return complete_; }

 private:
  const Program& p_;
  const Dtype dtype_;
  std::map<std::tuple<int, int, unsigned>, std::string> known_;
  std::string functions_;
  bool complete_ = true;
};

}  // namespace mt
