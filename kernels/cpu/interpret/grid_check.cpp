// grid_check.cpp -- the check mode of grid kernels: detects races between threads by element
//
// Elements are identified by address, so that tensors that share memory are treated as one. Blocks
// run one after the other; each barrier and each block starts a new epoch: accesses in the same
// epoch are unordered, and accesses of different blocks always are.
#include <cstdlib>

#include "kernels/cpu/interpret/grid_machine.h"

namespace mt {
inline namespace MT_ISA {

/// The state of one element: threads are numbered by tile and lane, -1 means none.
struct GridShadow {
  uintptr_t address;  // 0: the entry is free
  int64_t writer, adder, reader[2],
      earlier;                  // adder: with an atomic; earlier: a reader in an earlier tile
  int written, added, read[2];  // epochs
  bool many;                    // several threads have added in this epoch
};
static constexpr GridShadow untouched(uintptr_t address) {
  return {address, -1, -1, {-1, -1}, -1, 0, 0, {0, 0}, false};
}

GridCheck::~GridCheck() { std::free(entries); }

GridShadow* GridCheck::find(uintptr_t address) {
  if (2 * used >= capacity && !grow()) return nullptr;
  const uint64_t mixed = uint64_t(address) * 0x9e3779b97f4a7c15u;
  for (size_t k = size_t(mixed >> 20) & (capacity - 1);; k = (k + 1) & (capacity - 1)) {
    GridShadow& s = entries[k];
    if (s.address == address) return &s;
    if (s.address) continue;
    ++used;
    s = untouched(address);
    return &s;
  }
}

bool GridCheck::grow() {
  GridShadow* const before = entries;
  const size_t count = capacity;
  const size_t more = count ? 2 * count : 4096;
  auto* const fresh = static_cast<GridShadow*>(std::calloc(more, sizeof(GridShadow)));
  if (!fresh) return false;
  entries = fresh, capacity = more, used = 0;
  for (size_t k = 0; k < count; ++k)
    if (before[k].address) *find(before[k].address) = before[k];
  std::free(before);
  return true;
}

/// The memory range of a tensor: no access is outside of these bytes.
static void extent(const GridTensor& t, const char*& low, const char*& high) {
  low = high = static_cast<const char*>(t.data);
  const int64_t item = item_size(t.dtype);
  for (int d = 0; d < t.ndim; ++d) {
    const int64_t reach = (t.size[d] - 1) * t.stride[d] * item;
    (reach < 0 ? low : high) += t.size[d] > 0 ? reach : 0;
  }
  high += item;
}

/// Tensors that share no memory with a written tensor are not checked.
void GridMachine::watch() {
  for (int k = 0; k < program.tensors; ++k) tensor[k].stored = shares_written(k);
}
bool GridMachine::shares_written(int k) const {
  const char *low, *high;
  extent(tensor[k], low, high);
  for (int at = 0; at < program.tensors; ++at) {
    const char *first, *last;
    extent(tensor[at], first, last);
    if (grid.tensors[at].stored && first < high && low < last) return true;
  }
  return false;
}

/// The position of a thread in the grid, from its number.
void GridMachine::place_of(int64_t thread, int64_t* out) const {
  int64_t rest = thread / kGridLanes;
  const int l = int(thread % kGridLanes);
  for (int d = 0; d < 3; ++d) {
    const int64_t count = grid.tiles(d);
    out[d] = rest % count * grid.tile[d] + 1, rest /= count;
  }
  for (int k = 0; k < 3; ++k) out[grid.axes[k]] += coordinate(l, k);
}

void GridMachine::note(const GridValue& v, int l, int64_t at, bool writes, bool atomic) {
  const GridTensor& t = tensor[v.index];
  const bool shared = t.shared;
  if (!shared && !t.stored) return;
  GridShadow* const s = checks->find(
      reinterpret_cast<uintptr_t>(static_cast<char*>(t.data) + at * item_size(t.dtype)));
  if (!s) return report(GridFaultKind::no_memory, v, l);
  if (shared && s->writer / kGridLanes != tile && s->adder / kGridLanes != tile)
    *s = untouched(s->address);
  const int64_t me = tile * kGridLanes + l;
  const auto meets = [&](int64_t other, int when) {
    return other >= 0 && other != me && (other / kGridLanes != tile || when == epoch);
  };
  const auto race = [&](int64_t other, bool wrote) {
    if (fault.kind != GridFaultKind::none) return;
    report(GridFaultKind::race, v, l);
    fault.writes = writes, fault.other_writes = wrote;
    place_of(other, fault.other);
  };
  if (shared && (!writes || atomic) && s->writer < 0 && s->adder < 0)
    return report(GridFaultKind::uninitialised, v, l);
  if (meets(s->writer, s->written)) return race(s->writer, true);
  if (!atomic && (meets(s->adder, s->added) || (s->many && s->added == epoch)))
    return race(s->adder, true);
  if (writes) {
    for (int k = 0; k < 2; ++k)
      if (meets(s->reader[k], s->read[k])) return race(s->reader[k], false);
    if (s->earlier >= 0) return race(s->earlier, false);
    if (!atomic) return void((s->writer = me, s->written = epoch));
    s->many = s->added == epoch && (s->many || (s->adder >= 0 && s->adder != me));
    s->adder = me, s->added = epoch;
    return;
  }
  if (s->reader[0] >= 0 && s->reader[0] / kGridLanes != tile) {
    s->earlier = s->reader[0];
    s->reader[0] = s->reader[1] = -1;
  }
  if (s->reader[0] != me) s->reader[1] = s->reader[0], s->read[1] = s->read[0];
  s->reader[0] = me, s->read[0] = epoch;
}

}  // namespace MT_ISA
}  // namespace mt
