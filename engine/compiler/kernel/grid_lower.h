// grid_lower.h -- lowers a typed grid kernel to instructions for a device's interpreter
#pragma once
#include <map>

#include "engine/compiler/kernel/grid_ir.h"

namespace mt::grid {

/// A program and the arrays that it points to.
struct Unit {
  std::vector<GridInstruction> code;
  std::vector<GridItem> list;
  std::vector<GridScalar> scalars;  // constants at their positions
  std::vector<GridType> vector_type;
  std::vector<const char*> texts;
  GridProgram program{};
};

/// Visits a value and all values it is computed from; the values of a statement, without its bodies.
template <class F> void each_value(const Value& v, const F& f) {
  f(v);
  for (const Value* a : v.args) each_value(*a, f);
}
template <class F> void values_of(const Statement& s, const F& f) {
  for (const Value* v : {s.value, s.last, s.step})
    if (v) each_value(*v, f);
  for (const Value* v : s.args)
    if (v) each_value(*v, f);
}

/// Finds the constraints for splitting a kernel into tiles: sets in_blocks, in_order, by_thread.
void find_needs(Kernel&);
/// Rates memory accesses of lanes along an axis of the grid; `stride` by tensor and dimension.
double axis_score(const Kernel&, int axis, const std::vector<GridTensor>&);
/// varying[d]: whether the threads of a tile differ in x, y, z.
std::unique_ptr<Unit> lower(Kernel&, const bool varying[3]);

/// Whether values are the same in all lanes, affine in the lane index, or arbitrary; for each
/// variable and statement.
enum class Class { scalar, affine, vector };
class Classes {
 public:
  Classes(Kernel&, const bool varying[3]);
  Class of(const Value&) const;
  Class of_variable(int v) const { return variable_[size_t(v)]; }
  /// Whether some lanes keep the old value of a variable if it is set inside these bodies.
  bool is_masked(int variable, const std::vector<Statement*>& regions) const;

 private:
  bool walk(const Body&);
  bool give(int variable, Class);
  bool mark(Statement&, bool divergent);
  bool leave(const Statement&);
  Class of_operation(const Value&) const;
  Kernel& p_;
  const bool* varying_;
  std::vector<Class> variable_;
  std::map<const Body*, size_t> depth_;  // of bodies
  std::vector<Statement*> regions_;
};

}  // namespace mt::grid
