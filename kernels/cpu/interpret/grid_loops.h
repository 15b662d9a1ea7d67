// grid_loops.h -- the loops for the arithmetic of grid kernels
#pragma once
#include "kernels/grid.h"

namespace mt {
inline namespace MT_ISA {

/// Processes n elements; an operand that is not a vector is one element for all.
using GridLoop = void (*)(void* out, const void* a, const void* b, const void* c, int64_t n);
constexpr int kGridModes = 8;  // bit k: operand k is a vector

struct GridLoops {
  GridLoop of[int(GridOp::count)][4][kGridModes] = {};  // null if there is no loop
  GridLoop find(GridOp op, GridType type, int mode) const { return of[int(op)][int(type)][mode]; }
};
/// The loops of kernels whose reals are f32 or f64.
const GridLoops& grid_loops(Dtype real);

}  // namespace MT_ISA
}  // namespace mt
