// grid_classes.h -- prepares the tree of a typed grid kernel for the tiles of a launch
#pragma once
#include "engine/compiler/kernel/grid_ir.h"

namespace mt::grid {

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
/// Finds the constraints for splitting a kernel into tiles: sets in_blocks, in_order, by_thread.
void find_needs(Kernel&);
/// Rates memory accesses of lanes along an axis of the grid; `stride` by tensor and dimension.
double axis_score(const Kernel&, int axis, const std::vector<GridTensor>&);
/// Finds whether values are the same in all lanes, affine in the lane index, or arbitrary, and where lanes
/// diverge; varying[d]: whether the threads of a tile differ in x, y, z. Returns the classes of variables.
std::vector<GridClass> classify(Kernel&, const bool varying[3]);
/// The same, then gives the values registers.
void assign_registers(Kernel&, TileProgram&, const bool varying[3]);

}  // namespace mt::grid
