// grid_ir.h -- a grid kernel while it is compiled: its tree (kernels/grid.h) and the names in it
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "engine/compiler/kernel/lua_parser.h"
#include "kernels/grid.h"

namespace mt {
class Tensor;
}
namespace mt::grid {

using Value = GridValue;
using Statement = GridStatement;
using Body = GridBody;

struct Variable {
  std::string name;
  int line = 0;
  GridType type = GridType::none;
  const Body* home = nullptr;  // the body that declares it
  bool is_result = false;      // the result of a call, which is not set after it
};
struct Tensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  int ndim = 0;
  bool shared = false, real = false;      // real: has the kernel's dtype
  bool is_private = false;                // a shared array that has a part for each thread
  int64_t size[3] = {1, 1, 1};            // of a shared array
  bool stored = false, constant = false;  // the kernel writes to it; it is in constant memory
  int line = 0;                           // of a shared array
  int captured = -1;                      // the number of the captured tensor; -1 for arguments
};
/// A number that a launch passes.
struct LaunchScalar {
  enum Kind { argument, captured, size, block_dim, grid_dim } kind;
  int index, dim;  // argument, capture or tensor; dimension or axis
  GridType type;
  bool operator==(const LaunchScalar&) const = default;
};

/// The reason why a kernel of mt.map could not be built, which its creator can correct: the number of `values` that a
/// call returns, or the index of a tensor that is not bool and gets a `boolean`, or is of integers and gets a `real`.
/// Else -1.
struct GridMisfit {
  int values = -1, boolean = -1, real = -1;
};

/// The result of resolving a captured name; or an argument of the kernel.
struct CapturedName {
  enum Kind {
    nothing,
    whole,
    real,
    boolean,
    tensor,
    function,
    builtin,
    table,
    other
  } kind = nothing;
  int index = -1;            // of an argument, a captured number or tensor, or a function
  std::string text = {};     // the name of a builtin; for others the text for messages
  Dtype dtype = Dtype::f32;  // of a tensor
  int ndim = 0;
  bool operator==(const CapturedName&) const = default;
  /// The type of a number or boolean.
  GridType type() const {
    return kind == whole ? GridType::integer : kind == real ? GridType::real : GridType::boolean;
  }
};
/// Whether a double is an integer in the range of exact integers.
bool is_whole(double);
/// The location of a captured value: the upvalue or global of a function, then fields.
struct Path {
  int function = 0;
  std::string root;
  std::vector<std::string> keys;  // ".name" for a string, "[2]" for a number
  bool operator==(const Path&) const = default;
  std::string text() const;
};
struct Kernel {
  std::string name;
  std::vector<std::string> chunks;  // by function: its file. A line is function << 20 | line
  Dtype real = Dtype::f32;
  std::deque<Value> values;
  std::deque<Statement> statements;
  std::vector<Variable> variables;
  std::vector<Tensor> tensors;  // those of the launch are first
  std::vector<LaunchScalar> scalars;
  std::deque<std::string> texts;
  Body body;
  bool lua_numbers = false;  // all numbers are reals, as in mt.map
  bool loops = false;
  bool in_blocks = false;  // a tile must be a block
  bool in_order = false;   // threads and blocks must also run one after the other
  bool by_thread = false;  // lanes are in the order of threads
  GridMisfit misfit;       // why it could not be built
  // The captured values that it was built with:
  std::vector<std::pair<Path, CapturedName>> captured;
  std::vector<std::pair<int, double>> numbers;

  Value* add(const Value& v) { return &values.emplace_back(v); }
  Value* add(int op, const GridValues& args, GridType type, int line) {
    return add(
        {.kind = Value::operation, .type = type, .op = int16_t(op), .line = line, .args = args});
  }
  Statement* add(const Statement& s) { return &statements.emplace_back(s); }
};

/// The interface to Lua for a kernel: resolves captured names, and reads their current values.
class CaptureResolver {
 public:
  virtual ~CaptureResolver() = default;
  virtual bool is_upvalue(int function, const std::string& name) = 0;
  virtual CapturedName resolve(const Path&) = 0;
  virtual const ast::Function& function(int index) = 0;
  virtual double number(int index) = 0;
  virtual mt::Tensor tensor(int index) = 0;
};

/// Converts function 0 of `resolver`, called with these arguments, to statements.
void build(Kernel&, CaptureResolver&, const std::vector<CapturedName>& arguments);
/// Infers the type of every value and variable, and inserts conversions.
void infer_types(Kernel&);

/// The argument, a tensor, that receives the derivative of a written tensor by the elements of an input.
struct Tangent {
  int result, input;
};
/// Converts a typed kernel to one that computes derivatives.
void differentiate(Kernel&, const std::vector<Tangent>&);
/// Replaces operations that are defined by others, such as clamp or isnan, by their formulas. An operation with
/// parameters has these as its last operands.
void expand_formulas(Kernel&);
/// A program and the arrays that it points to; its tree is that of the kernel.
struct TileProgram {
  std::vector<GridScalar> scalars;  // constants at their positions
  std::vector<GridType> vector_type;
  GridProgram program{};
};

/// A number of a kernel with reals of this dtype.
GridScalar scalar_of(double value, GridType, Dtype real);
/// Unrolls short loops between literals.
void unroll(Kernel&);
/// Whether a kernel is one loop whose iterations its threads share, and that may run in any order.
bool shares_iterations(const Kernel&);
/// Changes it to run at most one iteration in a thread; returns the number of threads it needs.
const Value& divide_iterations(Kernel&);
/// Whether no tensor that a kernel writes to shares memory with another tensor, and no two of its elements do.
bool are_apart(const std::vector<GridTensor>&);
/// Finds the constraints for splitting a kernel into tiles: sets loops, in_blocks, in_order, by_thread.
void find_constraints(Kernel&);
/// Rates memory accesses of lanes along an axis of the grid; `stride` by tensor and dimension.
double axis_score(const Kernel&, int axis, const std::vector<GridTensor>&);
/// Finds whether values are the same in all lanes, affine in the lane index, or arbitrary, and where lanes
/// diverge; then gives them registers. varying[d]: whether the threads of a tile differ in x, y, z.
void assign_registers(Kernel&, TileProgram&, const bool varying[3]);

[[noreturn]] void fail_at(const Kernel&, int line, const std::string& text);
/// "kernel: train.lua:12: .."; the arguments are those of fmt::format.
template <class... A>
[[noreturn]] void fail_line(const Kernel& k, int line, fmt::format_string<A...> text,
                            A&&... values) {
  fail_at(k, line, fmt::format(text, std::forward<A>(values)...));
}

}  // namespace mt::grid
