// grid_loops.h -- the loops that a grid kernel's arithmetic is made of
#pragma once
#include "kernels/grid.h"

namespace mt {
inline namespace MT_ISA {

/// n elements; an operand that is no vector is one element for all.
using GridLoop = void (*)(void* out, const void* a, const void* b, const void* c, int64_t n);
constexpr int kGridModes = 8;  // bit k: operand k is a vector

struct GridLoops {
  GridLoop of[int(GridOp::count)][4][kGridModes] = {};  // null where there is none
  GridLoop find(GridOp op, GridType type, int mode) const { return of[int(op)][int(type)][mode]; }
};
/// The loops of kernels whose real numbers are f32 or f64.
const GridLoops& grid_loops(Dtype real);

}  // namespace MT_ISA
}  // namespace mt
