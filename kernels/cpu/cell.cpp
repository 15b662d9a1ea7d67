// cell.cpp -- the cell verb on the CPU: one pass over the gates of a step
#include "kernels/cells.h"
#include "kernels/cpu/blocks.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

template <class C, class T> void run(const Cell& c) {
  const int64_t together = kGrain / 4 / (c.hidden * C::kept) + 1;
  parallel((c.rows + together - 1) / together, c.rows * c.hidden * C::kept > kGrain,
           [&](int64_t piece) {
             const int64_t end = smaller(c.rows, (piece + 1) * together);
             for (int64_t i = piece * together; i < end; ++i) {
               const cells::Row<C, T> row(c, i);
               if (c.backward) each_element(c.hidden, [=](int64_t j) { row.backward(j); });
               else each_element(c.hidden, [=](int64_t j) { row.forward(j); });
             }
           });
}

}  // namespace

void cell(const Cell& c) {
  cells::of_kind(c.kind, [&](auto kind) {
    if (c.dtype == Dtype::f32) run<decltype(kind), float>(c);
    else run<decltype(kind), double>(c);
  });
}

}  // namespace MT_ISA
}  // namespace mt
