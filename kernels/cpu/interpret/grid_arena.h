// grid_arena.h -- the memory of a grid kernel's machine, which a thread keeps, and the first fault of a launch
#pragma once
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "kernels/cpu/interpret/grid_machine.h"
#include "kernels/cpu/jit/grid_rows.h"

namespace mt {
inline namespace MT_ISA {

/// What a thread keeps between tiles and launches: memory, and the machine code of loops and rows. On the
/// heap: a library loaded late (mtorch.so) gets little thread-local storage.
struct ThreadArena {
  char* data = nullptr;
  size_t bytes = 0;
  GridCodeEntry* code = nullptr;
  RowCodes* rows = nullptr;
  bool need(size_t wanted) {
    if (!code)
      code = static_cast<GridCodeEntry*>(std::calloc(kGridCodeEntries, sizeof(GridCodeEntry)));
    if (!rows) rows = static_cast<RowCodes*>(std::calloc(1, sizeof(RowCodes)));
    if (!code || !rows || wanted <= bytes) return code && rows;
    std::free(data);
    data = static_cast<char*>(std::aligned_alloc(64, (wanted + 63) / 64 * 64));
    bytes = data ? wanted : 0;
    return data != nullptr;
  }
  ~ThreadArena() { std::free(data), std::free(code), std::free(rows); }
};
/// Allocates parts of it; with a null `base` it only counts.
struct ArenaLayout {
  char* base;
  size_t used = 0;
  template <class T> T* take(int64_t count) {
    T* const part = reinterpret_cast<T*>(base + used);
    used += (size_t(count) * sizeof(T) + 63) / 64 * 64;
    return part;
  }
};

/// Copies the tensors of a launch, with memory of shared arrays. `apart`: threads run one after the other.
inline void lay_out_tensors(GridMachine& m, ArenaLayout& parts, bool real, bool apart) {
  m.tensor = parts.take<GridTensor>(m.program.tensors);
  for (int k = 0; k < m.program.tensors; ++k) {
    GridTensor t = apart ? of_one_thread(m.grid.tensors[k]) : m.grid.tensors[k];
    if (t.shared) t.data = parts.take<char>(t.size[0] * t.stride[0] * item_size(t.dtype));
    if (real) m.tensor[k] = t;
  }
}

/// Assigns its memory to the machine, or counts it; for rows, only that of numbers.
inline void lay_out(GridMachine& m, ArenaLayout& parts, bool real, bool rows) {
  const GridProgram& p = m.program;
  m.number = parts.take<GridNumber>(p.numbers);
  m.valid = parts.take<uint8_t>(rows ? p.vectors : kGridLanes);
  if (rows) return;
  lay_out_tensors(m, parts, real, false);
  m.own = parts.take<void*>(p.vectors), m.vector = parts.take<void*>(p.vectors);
  m.left = parts.take<uint8_t*>(p.statements);
  m.masks = parts.take<uint8_t>(int64_t(p.levels) * kMasks * kGridLanes);
  m.condition = parts.take<bool>(kGridLanes);
  m.offset = parts.take<int64_t>(kGridLanes), m.whole = parts.take<int64_t>(kGridLanes);
  m.spare = parts.take<char>(8 * kGridLanes), m.copies = parts.take<char>(2 * 8 * kGridLanes);
  const int64_t lanes = m.grid.tile[0] * m.grid.tile[1] * m.grid.tile[2];
  const int64_t most = (lanes + 15) / 16 * 16;  // machine code runs full vectors
  for (int v = 0; v < p.vectors; ++v) {
    const int64_t bytes = most * m.bytes_of(p.vector_type[v]);
    void* const own = parts.take<char>(bytes);
    if (real)
      m.own[v] = std::memset(own, 0, size_t(bytes));  // lanes that are inactive hold numbers
  }
}

/// Keeps the fault of the first tile, and of the first thread in it.
inline void keep(const Grid& g, const GridFault& fault) {
  static AtomicInt busy{0};
  int none = 0;
  while (
      !__atomic_compare_exchange_n(&busy.word, &none, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
    none = 0;
  const auto order = [&](const GridFault& f) {
    return std::tuple(f.tile, f.thread[g.axes[2]], f.thread[g.axes[1]], f.thread[g.axes[0]]);
  };
  if (g.fault->kind == GridFaultKind::none || order(fault) < order(*g.fault)) *g.fault = fault;
  __atomic_store_n(&busy.word, 0, __ATOMIC_RELEASE);
}

}  // namespace MT_ISA
}  // namespace mt
