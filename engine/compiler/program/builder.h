// builder.h -- builds expression programs: constant folding, common subexpressions, dead code elimination
#pragma once
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "kernels/program.h"

namespace mt::ir {

class Expression;

/// The error of a program that exceeds the limits of devices.
struct TooLarge : Error {
  using Error::Error;
};

/// An expression program under construction. Values are numbered from 0 in the order of creation.
class Builder {
 public:
  Builder() = default;
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  int input(int which, bool is_row = false);  // an element of tensor `which`, one per row if is_row
  int number(int which);                      // parameter `which`
  int constant(double);
  int constant_bool(bool);
  /// Operation `op` on values; bools become 0 and 1 if it computes with them.
  int add(int op, const int* in, const double* params = nullptr);
  /// A reduction of kernels/reductions.h along the row, with its first parameter; -1 if the value
  /// is the same in a whole row.
  int reduce(int reduction, int value, double param = 0);
  /// The values of another program's outputs, with these values as its inputs and numbers.
  std::vector<int> add(const Expression&, const std::vector<int>& inputs);

  bool is_bool(int value) const { return code_[value].is_bool; }
  /// Whether a value is the same in a whole row.
  bool is_row(int value) const { return code_[value].is_row; }
  std::optional<double> constant_of(int value) const;
  const Instruction& instruction(int value) const { return code_[value]; }
  const double* params_of(int value) const;
  int count() const { return int(code_.size()); }
  /// Operations that did not become an instruction: on constants, equal to an existing value, or
  /// equal to one of their operands, such as x * 1.
  struct Saved {
    int folded = 0, shared = 0, simplified = 0;
  };
  const Saved& saved() const { return saved_; }
  /// The following instructions get this line of the Lua source.
  void set_line(int line) { line_ = line; }
  int line() const { return line_; }

  /// The program that computes the values `outputs`, with so many inputs and numbers; equal programs are one object,
  /// which is never freed. Throws TooLarge if there are too many inputs or outputs.
  const Expression& finish(const std::vector<int>& outputs, int inputs, int numbers) const;
  /// The same with only the inputs that it reads, whose indices it appends to `inputs`, and if `numbers` is given only
  /// the numbers that it reads.
  const Expression& finish(const std::vector<int>& outputs, std::vector<int>& inputs,
                           std::vector<int>* numbers = nullptr) const;

 private:
  int put(Instruction);
  struct LiveCode {
    std::vector<Instruction> code;
    std::vector<int16_t> outputs;
  };
  LiveCode live_code(const std::vector<int>& outputs) const;
  std::vector<uint64_t> words_of(const LiveCode&, int inputs, int numbers) const;
  const Expression& intern(LiveCode, int inputs, int numbers) const;
  int simplified(int op, const int* in, int n);
  int folded(int op, const int* in, int n, const double* params);
  int power(int x, double exponent);
  int as_number(int value);
  std::vector<Instruction> code_;
  std::vector<double> params_;
  std::map<std::array<uint64_t, 3>, int> known_;  // values by what they compute
  int line_ = 0;
  Saved saved_;
};

/// Part k of operation `op` as in the map verb: its derivative by input k, from the incoming
/// gradient and the saved tensors. -1: it has none. Its parameters are numbers, or values.
int add_derivative(Builder&, int op, int part, const int* operands, int n, const double* params);
int add_derivative(Builder&, int op, int part, const int* operands, int n, const int* params);

/// The gradient of a reduction from the incoming gradient and what the derivative reads; `op` is its operation of the
/// map verb (op::GradientOf). -1: it has no formula.
int add_reduction_gradient(Builder&, int op, const int* operands, int n, const double* numbers);

/// The sum of a value along rows of `row` elements, with other bits than `reduce`: if possible it is
/// built from sums of parts that depend on few other sums, so that one pass over the row computes
/// several sums. Only values from `first` on are split into parts.
int sum_of_row(Builder&, int value, int64_t row, int first);

/// An operation's formula as a program of other operations, for these parameters; those in `unknown` (bits)
/// become its numbers. Null if the formula is a function of kernels/math, or the operation itself.
const Expression* formula_of(int op, const double* params, unsigned unknown = 0);

/// A finished program and the data derived from it.
class Expression {
 public:
  const Program& program() const { return program_; }
  /// Whether it can be computed in integers: its constants are integers, and it only adds, multiplies, compares,
  /// selects and so on.
  bool is_integral() const { return integral_; }
  /// The operation, if the program is one operation on its inputs in their order; otherwise -1.
  int single_op() const { return single_op_; }
  bool is_bool(int output) const { return program_.code[program_.output[output]].is_bool; }
  bool is_row(int output) const { return program_.code[program_.output[output]].is_row; }

  /// The program of gradients: its results are those of the inputs in `wanted` (bits), in their order; its
  /// inputs are `operands`: k < outputs() is the gradient of result k, otherwise input k - outputs().
  struct Gradient {
    const Expression* expression = nullptr;  // null: all others are zero
    std::vector<int> operands;
    std::vector<int> inputs;  // those whose gradients are the results: they are not always zero
    struct Passed {
      int input, result;
    };
    std::vector<Passed> passed;  // inputs whose gradient equals a result's; not among its results
    bool too_large = false;
  };
  const Gradient& gradient(unsigned wanted) const;

  Expression(std::vector<Instruction> code, std::vector<int16_t> outputs,
             std::vector<double> params, int inputs, int numbers, uint64_t hash);
  Expression(const Expression&) = delete;

 private:
  std::vector<Instruction> code_;
  std::vector<int16_t> outputs_;
  std::vector<double> params_;
  Program program_{};
  struct SegmentCode {
    std::vector<Instruction> code;
    std::vector<int16_t> in, out, outputs;
    Program program;
  };
  void sort_by_rows();
  void find_segments();
  void add_segment(int begin, int end);
  std::deque<SegmentCode> parts_;
  std::vector<Segment> segments_;
  bool integral_ = true;
  int single_op_ = -1;
  mutable std::mutex lock_;
  mutable std::map<unsigned, std::unique_ptr<Gradient>> gradients_;
};

/// The program as text, one instruction per line: `%3 = mul %1, %2   ; line 12`.
std::string text_of(const Program&);

}  // namespace mt::ir
