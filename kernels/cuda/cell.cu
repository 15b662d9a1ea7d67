// cell.cu -- the cell verb on CUDA: one thread for each element of the state
#include "kernels/cells.h"
#include "kernels/cuda/cuda.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

template <class C, class T> __global__ void steps(const __grid_constant__ Cell c) {
  for (const int64_t i : cuda::turns(c.rows * c.hidden)) {
    const cells::Row<C, T> row(c, i / c.hidden);
    if (c.backward) row.backward(i % c.hidden);
    else row.forward(i % c.hidden);
  }
}

template <class C, class T> void run(const Cell& c) {
  cuda::launch_each("cell", steps<C, T>, c.rows * c.hidden, c);
}

}  // namespace

void cell(const Cell& c) {
  if (c.rows * c.hidden == 0) return;
  cells::of_kind(c.kind, [&](auto kind) {
    if (c.dtype == Dtype::f32) run<decltype(kind), float>(c);
    else run<decltype(kind), double>(c);
  });
}

}  // namespace MT_ISA
}  // namespace mt
