// grid_classes.h -- prepares the tree of a typed grid kernel for the tiles of a launch
#pragma once
#include <map>

#include "engine/compiler/kernel/grid_ir.h"

namespace mt::grid {

/// A program and the arrays that it points to; its tree is that of the kernel.
struct Unit {
  std::vector<GridScalar> scalars;  // constants at their positions
  std::vector<GridType> vector_type;
  GridProgram program{};
};

/// A number of a kernel with reals of this dtype.
GridScalar scalar_of(double value, GridType, Dtype real);
/// Unrolls short loops between literals, and joins statements without control flow to blocks.
void find_blocks(Kernel&);
/// Finds the constraints for splitting a kernel into tiles: sets in_blocks, in_order, by_thread.
void find_needs(Kernel&);
/// Rates memory accesses of lanes along an axis of the grid; `stride` by tensor and dimension.
double axis_score(const Kernel&, int axis, const std::vector<GridTensor>&);
/// Finds the classes of all values, and gives them registers; varying[d]: whether the threads of a tile
/// differ in x, y, z.
void assign_registers(Kernel&, Unit&, const bool varying[3]);

/// Whether values are the same in all lanes, affine in the lane index, or arbitrary; for each
/// variable and statement.
class Classes {
 public:
  Classes(Kernel&, const bool varying[3]);
  GridClass of(const Value&) const;
  GridClass of_variable(int v) const { return variable_[size_t(v)]; }
  /// Whether some lanes keep the old value of a variable if it is set inside these bodies.
  bool is_masked(int variable, const std::vector<Statement*>& regions) const;

 private:
  bool walk(const Body&);
  bool give(int variable, GridClass);
  bool mark(Statement&, bool divergent);
  bool leave(const Statement&);
  GridClass of_operation(const Value&) const;
  Kernel& p_;
  const bool* varying_;
  std::vector<GridClass> variable_;
  std::map<const Body*, size_t> depth_;  // of bodies
  std::vector<Statement*> regions_;
};

}  // namespace mt::grid
