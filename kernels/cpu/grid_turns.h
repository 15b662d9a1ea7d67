// grid_turns.h -- runs loops of a grid kernel's tile as machine code (grid_native.h), row by row
#pragma once
#include "kernels/cpu/grid_machine.h"
#include "kernels/cpu/grid_native.h"
#include "kernels/cpu/native.h"

namespace mt {
inline namespace MT_ISA {

/// What a machine knows of a loop: whether its turns can be machine code, and that of the last time.
struct GridSeen {
  int at = -1;
  bool fits = false;
  uint64_t lanes = 0;
  const GridLoopCode* code = nullptr;
};

/// All turns of one row of lanes; `vectors`: where the row begins in vectors; element 0 of load k is
/// at[k] in the first turn, by[k] further in the next.
template <class R, class Walk>
void run_row_turns(Walk& w, const GridLoopCode& loop, int64_t vectors, int lo, int hi,
                   const R* const* at, const int64_t* by, int64_t turns) {
  void* data[2 * GridLoopCode::kOperands + 1];
  int64_t done = 0;
  for (constexpr int64_t kPiece = 1 << 16; done < turns && !w.interrupted();) {
    for (int k = 0; k < loop.operands; ++k) {
      const GridLoopCode::Operand& o = loop.operand[k];
      const bool moves = o.kind == GridLoopCode::memory;
      data[loop.operands + k] = reinterpret_cast<void*>(moves ? by[o.at] * int64_t(sizeof(R)) : 0);
      if (moves) data[k] = const_cast<R*>(at[o.at] + done * by[o.at]);
      else if (o.kind == GridLoopCode::scalar) data[k] = &w.scalar[o.at];
      else data[k] = static_cast<R*>(w.vector[o.at]) + vectors;
    }
    const int64_t now = turns - done < kPiece ? turns - done : kPiece;
    data[2 * loop.operands] = reinterpret_cast<void*>(now);
    run_native(*loop.code, data, nullptr, lo, hi);
    done += now;
  }
}

template <class R, class Walk>
int64_t run_turns(Walk& w, const GridLoopCode& loop, Active a, const GridBox& box,
                  const typename Walk::Factor* place, int64_t turns) {
  for (int k = 0; k < loop.operands; ++k) {
    const int v = loop.operand[k].at;
    if (loop.operand[k].kind != GridLoopCode::carried || w.vector[v] == w.own[v]) continue;
    __builtin_memcpy(static_cast<R*>(w.own[v]) + a.lo, static_cast<R*>(w.vector[v]) + a.lo,
                     sizeof(R) * size_t(a.hi - a.lo));
    w.vector[v] = w.own[v];
  }
  const int height = box.hi[1] - box.lo[1], rows = height * (box.hi[2] - box.lo[2]);
  for (int r = 0; r < rows; ++r) {
    const int y = box.lo[1] + r % height, z = box.lo[2] + r / height;
    const R* at[kGridLoopLength];
    int64_t by[kGridLoopLength];
    for (int k = 0; k < loop.operands; ++k) {
      const int j = loop.operand[k].at;
      if (loop.operand[k].kind != GridLoopCode::memory) continue;
      const GridFactor<R> f = place[j].row(y, z);
      at[j] = f.at, by[j] = f.by;
    }
    run_row_turns(w, loop, int64_t(z * w.n[1] + y) * w.n[0], box.lo[0], box.hi[0], at, by, turns);
  }
  return turns;
}

/// Does all turns but the last of the loop at instruction `at` by machine code, where it can, and says how
/// many those were.
template <class R, class Walk>
int64_t native_turns(Walk& w, const GridInstruction& i, int at, Active a) {
  const int64_t from = w.at(i.a).whole, step = w.at(i.c).whole, last = w.at(i.b).whole;
  constexpr int64_t kFewest = 4;
  if (w.grid.check || (step > 0 ? last - from < kFewest * step : last - from > kFewest * step))
    return 0;
  GridSeen& s = w.seen[at % 8];
  if (s.at != at) s = {at, grid_loop_fits(w.program, at), 0, nullptr};
  GridBox box;
  if (!s.fits || !w.box_of(a, box)) return 0;
  const int64_t count = (last - from) / step + 1, places[] = {0, 1, count - 1};
  typename Walk::Factor place[kGridLoopLength];
  uint64_t lanes = 0;  // of the loads
  for (const int64_t k : places) {
    w.scalar[i.dst].whole = from + k * step;
    for (int j = at + 1; j < i.end; ++j) {
      const GridInstruction& x = w.program.code[j];
      const bool loads = x.code == GridCode::load || x.code == GridCode::load_scalar;
      if (x.code == GridCode::scalar && x.type == GridType::integer) w.scalar_op(x);
      if (x.code == GridCode::affine) w.affine_op(x);
      if (!loads) continue;
      if (!w.find_factor(x, box, k, place[j - at - 1])) return 0;
      lanes |= uint64_t(place[j - at - 1].step[0] == 1) << (j - at - 1);
    }
  }
  if (!s.code || s.lanes != lanes) s.lanes = lanes, s.code = &grid_loop_code(w.program, at, lanes);
  return s.code->code ? run_turns<R>(w, *s.code, a, box, place, count - 1) : 0;
}

}  // namespace MT_ISA
}  // namespace mt
