// cell.cpp -- the cell verb on the CPU: one pass over the gates of a step
#include "kernels/cells.h"
#include "kernels/cpu/simd/blocks.h"
#include "kernels/cpu/simd/pack.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// Calls f(j, Pack) for the elements of [0, n) that fill registers of floats, f(j, T) for the rest.
template <class T> void each(int64_t n, const auto& f) {
  int64_t j = 0;
#ifdef MT_HAS_PACKS
  if constexpr (sizeof(T) == 4)
    for (constexpr int width = simd::kWidth<float>; j + width <= n; j += width) f(j, simd::Pack(0));
#endif
  for (; j < n; ++j) f(j, T(0));
}

template <class C, class T> void run(const Cell& c) {
  const int64_t together = kGrain / 4 / (c.hidden * C::kept) + 1;
  parallel_chunks(
      c.rows, together, c.rows * c.hidden * C::kept > kGrain / 4, [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
          const cells::Row<C, T> row(c, i);
          if (c.backward)
            each<T>(c.hidden, [&](int64_t j, auto p) { row.template backward<decltype(p)>(j); });
          else each<T>(c.hidden, [&](int64_t j, auto p) { row.template forward<decltype(p)>(j); });
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
