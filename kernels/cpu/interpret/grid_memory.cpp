// grid_memory.cpp -- loads and stores of a grid kernel's tile, with bounds checks and detection of races
#include <cstdlib>
#include <type_traits>

#include "kernels/cpu/interpret/grid_machine.h"
#include "kernels/math/number.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// The type of an element of dtype D in a kernel with reals R.
template <class D, class R>
using Element = std::conditional_t<std::is_same_v<D, bool>, bool,
                                   std::conditional_t<std::is_integral_v<D>, int64_t, R>>;

template <class D, class V> D stored(V value) {
  if constexpr (math::is_stored<D>) return D(static_cast<float>(value));
  else return static_cast<D>(value);
}
template <class V, class D> V loaded(D value) {
  if constexpr (math::is_stored<D>) return V(static_cast<float>(value));
  else return static_cast<V>(value);
}

/// The loads and stores of elements of one dtype.
struct Mover {
  void (*read_run)(void* out, const void* in, int64_t step, int64_t n);
  void (*read_at)(void* out, const void* in, const int64_t* at, int64_t n);
  void (*write_run)(void* out, int64_t step, const void* in, bool one, int64_t n);
  void (*write_at)(void* out, const int64_t* at, const uint8_t* set, const void* in, bool one,
                   int64_t n);
  void (*update_at)(GridUpdate, void* out, const int64_t* at, const uint8_t* set, const void* in,
                    bool one, const void* expected, bool one_expected, void* before, int64_t n);
};
template <class D, class R> struct Moves {
  using V = Element<D, R>;
  static void read_run(void* out, const void* in, int64_t step, int64_t n) {
    V* const o = static_cast<V*>(out);
    const D* const x = static_cast<const D*>(in);
    if (step == 1)
      for (int64_t i = 0; i < n; ++i) o[i] = loaded<V>(x[i]);
    else
      for (int64_t i = 0; i < n; ++i) o[i] = loaded<V>(x[i * step]);
  }
  static void read_at(void* out, const void* in, const int64_t* at, int64_t n) {
    V* const o = static_cast<V*>(out);
    const D* const x = static_cast<const D*>(in);
    MT_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) o[i] = loaded<V>(x[at[i]]);
  }
  static void write_run(void* out, int64_t step, const void* in, bool one, int64_t n) {
    D* const o = static_cast<D*>(out);
    const V* const x = static_cast<const V*>(in);
    if (one)
      for (int64_t i = 0; i < n; ++i) o[i * step] = stored<D>(*x);
    else if (step == 1)
      for (int64_t i = 0; i < n; ++i) o[i] = stored<D>(x[i]);
    else
      for (int64_t i = 0; i < n; ++i) o[i * step] = stored<D>(x[i]);
  }
  static void write_at(void* out, const int64_t* at, const uint8_t* set, const void* in, bool one,
                       int64_t n) {
    D* const o = static_cast<D*>(out);
    const V* const x = static_cast<const V*>(in);
    for (int64_t i = 0; i < n; ++i)
      if (set[i]) o[at[i]] = stored<D>(x[one ? 0 : i]);
  }
  static void update_at(GridUpdate how, void* out, const int64_t* at, const uint8_t* set,
                        const void* in, bool one, const void* expected, bool one_expected,
                        void* before, int64_t n) {
    D* const o = static_cast<D*>(out);
    const V* const x = static_cast<const V*>(in);
    const V* const e = static_cast<const V*>(expected);
    V* const b = static_cast<V*>(before);
    for (int64_t i = 0; i < n; ++i) {
      if (!set[i]) continue;
      const V was = loaded<V>(o[at[i]]);
      o[at[i]] = stored<D>(updated(how, was, x[one ? 0 : i], e[one_expected ? 0 : i]));
      if (b) b[i] = was;
    }
  }
  static constexpr Mover all{read_run, read_at, write_run, write_at, update_at};
};
template <class R>
constexpr Mover kMovers[] = {
#define MT_MOVES(name, T, ...) Moves<T, R>::all,
    MT_DTYPES(MT_MOVES)
#undef MT_MOVES
};
const Mover& mover(Dtype d, Dtype real) {
  return (real == Dtype::f64 ? kMovers<double> : kMovers<float>)[int(d)];
}

}  // namespace

// ---- which elements ------------------------------------------------------------------------------

void GridMachine::spread(const GridNumber& a, int lo, int hi, int64_t* out) const {
  each_row(lo, hi, [&](int from, int to, int begin, int y, int z) {
    const int64_t step = a.step[0],
                  base = a.base.whole + a.step[1] * y + a.step[2] * z - step * begin;
    for (int l = from; l < to; ++l) out[l] = base + step * l;
  });
}

int64_t GridMachine::index_of(const GridValue& x, int l) const {
  if (x.is != GridClass::vector) return value(number[x.at], l);
  return static_cast<const int64_t*>(vector[x.at])[l];
}

bool GridMachine::box_of(Active a, LaneBox& b) const {
  b = {{0, 0, 0}, {n[0], n[1], n[2]}};
  if (one_row()) return b.lo[0] = a.lo, b.hi[0] = a.hi, !a.mask;
  if (!a.mask && a.lo == 0 && a.hi == lanes) return true;
  b = {{n[0], n[1], n[2]}, {0, 0, 0}};
  int rows = 0, from_x = -1, to_x = -1;
  bool alike = true;  // whether the rows are contiguous
  each_row(a.lo, a.hi, [&](int from, int to, int begin, int y, int z) {
    if (a.mask) {
      const void* const one = __builtin_memchr(a.mask + from, 1, size_t(to - from));
      if (!one) return;
      from = int(static_cast<const uint8_t*>(one) - a.mask);
      while (!a.mask[to - 1]) --to;
      alike &= !__builtin_memchr(a.mask + from, 0, size_t(to - from));
    }
    alike &= ++rows == 1 || (from - begin == from_x && to - begin == to_x);
    from_x = from - begin, to_x = to - begin;
    const int lo[] = {from_x, y, z}, hi[] = {to_x, y + 1, z + 1};
    for (int k = 0; k < 3; ++k) {
      b.lo[k] = lo[k] < b.lo[k] ? lo[k] : b.lo[k];
      b.hi[k] = hi[k] > b.hi[k] ? hi[k] : b.hi[k];
    }
  });
  return alike && rows == (b.hi[1] - b.lo[1]) * (b.hi[2] - b.lo[2]);
}

bool GridMachine::affine_place(const GridValue& v, const LaneBox& b, AffineOffset& p) const {
  const GridTensor& t = tensor[v.index];
  const int axes = one_row() ? 1 : 3;
  p = {};
  for (int d = 0; d < t.ndim; ++d) {
    const GridValue& x = *v.args.of[d];
    const int64_t stride = t.stride[d];
    if (x.is == GridClass::vector) return false;
    const GridNumber& f = number[x.at];
    const int64_t base = f.base.whole;
    int64_t low = base, high = base;
    for (int k = 0; k < axes; ++k) {
      const int64_t from = f.step[k] * b.lo[k], to = f.step[k] * (b.hi[k] - 1);
      low += from < to ? from : to, high += from < to ? to : from;
      p.step[k] += f.step[k] * stride;
    }
    if (low < 1 || high > t.size[d]) return false;
    p.offset += (base - 1) * stride;
  }
  return true;
}

/// Sets offset[l] and valid[l] of the lanes lo .. hi - 1; valid: the lane is active and in bounds; the
/// offset of other lanes is 0. Reports the first lane out of bounds. False: no element may be accessed.
bool GridMachine::lane_places(const GridValue& v, Active a) {
  const GridTensor& t = tensor[v.index];
  int64_t* const at = offset;
  uint8_t* const fine = valid;
  for (int l = a.lo; l < a.hi; ++l) at[l] = 0, fine[l] = 1;
  for (int d = 0; d < t.ndim; ++d) {
    const GridValue& x = *v.args.of[d];
    const uint64_t size = uint64_t(t.size[d]);
    const int64_t stride = t.stride[d];
    const int64_t* index = whole;
    if (x.is == GridClass::vector) index = static_cast<const int64_t*>(vector[x.at]);
    else spread(number[x.at], a.lo, a.hi, whole);
    MT_INDEPENDENT
    for (int l = a.lo; l < a.hi; ++l) {
      const uint64_t k = uint64_t(index[l]) - 1;
      at[l] += int64_t(k) * stride;
      fine[l] &= k < size;
    }
  }
  int outside = 0, inside = 0;
  for (int l = a.lo; l < a.hi; ++l) {
    const int active = a.has(l);
    outside += active & !fine[l];
    fine[l] = uint8_t(fine[l] & active);
    inside += fine[l];
    at[l] = fine[l] ? at[l] : 0;
  }
  if (outside) blame(v, a);
  return inside > 0;
}

/// Reports the first active lane with an index out of bounds.
void GridMachine::blame(const GridValue& v, Active a) {
  const GridTensor& t = tensor[v.index];
  for (int l = a.lo; l < a.hi; ++l) {
    if (!a.has(l)) continue;
    for (int d = 0; d < t.ndim; ++d) {
      const int64_t k = index_of(*v.args.of[d], l);
      if (k < 1 || k > t.size[d]) return report(GridFaultKind::out_of_bounds, v, l, d, k);
    }
  }
}

void GridMachine::report(GridFaultKind kind, const GridValue& v, int l, int dim, int64_t index) {
  if (grid.check) stop = true;
  if (fault.kind != GridFaultKind::none) return;
  fault.kind = kind;
  fault.line = v.line, fault.dim = dim, fault.index = index;
  fault.tensor = v.kind == GridValue::load ? v.index : 0;
  fault.tile = tile;
  thread_of(l, fault.thread);
}

/// In check mode: records the accesses of all valid lanes.
void GridMachine::note_valid(const GridValue& v, Active a, bool writes, bool atomic) {
  for (int l = a.lo; grid.check && l < a.hi && !stop; ++l)
    if (valid[l]) note(v, l, offset[l], writes, atomic);
}

// ---- accesses ------------------------------------------------------------------------------------

void GridMachine::load_scalar(const GridValue& v, Active a) {
  const GridTensor& t = tensor[v.index];
  GridScalar& to = number[v.at].base;
  AffineOffset p;
  if (!affine_place(v, {{0, 0, 0}, {1, 1, 1}}, p)) {
    to.whole = 0;
    return blame(v, a);
  }
  const int64_t at = p.offset;
  for (int l = a.lo; grid.check && l < a.hi && !stop; ++l)
    if (a.has(l)) note(v, l, at, false, false);
  if (t.dtype == Dtype::f32 && program.real == Dtype::f32)
    to.single = static_cast<const float*>(t.data)[at];
  else
    mover(t.dtype, program.real)
        .read_run(&to, static_cast<char*>(t.data) + at * item_size(t.dtype), 1, 1);
}

/// A temporary may be the elements of the tensor themselves.
void GridMachine::load(const GridValue& v, Active a) {
  const GridTensor& t = tensor[v.index];
  const int64_t item = item_size(t.dtype), bytes = bytes_of(v.type);
  const Mover& m = mover(t.dtype, program.real);
  char* const out = static_cast<char*>(own[v.at]);
  const bool is_temporary = v.at >= program.variables;
  AffineOffset p;
  LaneBox box;
  if (!grid.check && (box_of(a, box), affine_place(v, box, p))) {
    const char* const from = static_cast<const char*>(t.data) + p.offset * item;
    const bool merged = one_row() || (p.step[1] == n[0] && (n[2] == 1 || p.step[2] == n[1] * n[0]));
    if (merged && p.step[0] == 1 && is_temporary && item == bytes && !is_half(t.dtype)) {
      vector[v.at] = const_cast<char*>(from);
      return;
    }
    vector[v.at] = out;
    each_row_of(box, [&](int lane, int y, int z) {
      const int64_t at = z * p.step[2] + y * p.step[1] + box.lo[0] * p.step[0];
      m.read_run(out + lane * bytes, from + at * item, p.step[0], box.hi[0] - box.lo[0]);
    });
    return;
  }
  const bool any = lane_places(v, a);
  vector[v.at] = out;  // only now: a position may be the temporary that the result replaces
  if (!any) {
    __builtin_memset(out + a.lo * bytes, 0, size_t((a.hi - a.lo) * bytes));
    return;
  }
  m.read_at(out + a.lo * bytes, t.data, offset + a.lo, a.hi - a.lo);
  for (int l = a.lo; l < a.hi; ++l)
    if (!valid[l]) __builtin_memset(out + l * bytes, 0, size_t(bytes));
  note_valid(v, a, false, false);
}

void GridMachine::store(const GridStatement& s, Active a) {
  const GridValue& place = *s.place;
  const GridTensor& t = tensor[place.index];
  const int64_t item = item_size(t.dtype), bytes = bytes_of(s.value->type);
  const Mover& m = mover(t.dtype, program.real);
  const bool one = is_one(*s.value);
  AffineOffset p;
  LaneBox box;
  if (!grid.check && box_of(a, box) && affine_place(place, box, p) && p.step[0] != 0) {
    const char* const in = operand(*s.value, 0);
    char* const to = static_cast<char*>(t.data) + (p.offset + box.lo[0] * p.step[0]) * item;
    const int64_t length = box.hi[0] - box.lo[0], each = one ? 0 : bytes;
    each_row_of(box, [&](int lane, int y, int z) {
      m.write_run(to + (z * p.step[2] + y * p.step[1]) * item, p.step[0], in + lane * each, one,
                  length);
    });
    return;
  }
  if (!lane_places(place, a)) return;
  note_valid(place, a, true, false);
  m.write_at(t.data, offset + a.lo, valid + a.lo, operand(*s.value, a.lo), one, a.hi - a.lo);
}

void GridMachine::atomic_add(const GridStatement& s, Active a) {
  const GridTensor& t = tensor[s.place->index];
  const int64_t bytes = bytes_of(s.value->type);
  char* before = nullptr;
  if (s.at >= 0) {
    vector[s.at] = own[s.at];
    before = static_cast<char*>(own[s.at]) + a.lo * bytes;
    __builtin_memset(before, 0, size_t((a.hi - a.lo) * bytes));
  }
  if (!lane_places(*s.place, a)) return;
  note_valid(*s.place, a, true, true);
  const GridValue& expected = s.last ? *s.last : *s.value;
  mover(t.dtype, program.real)
      .update_at(s.update, t.data, offset + a.lo, valid + a.lo, operand(*s.value, a.lo),
                 is_one(*s.value), operand(expected, a.lo), is_one(expected), before, a.hi - a.lo);
}

// ---- the check mode: detects races between threads by element --------------------------------------
//
// Elements are identified by address, so that tensors that share memory are treated as one. Blocks
// run one after the other; each barrier and each block starts a new epoch: accesses in the same
// epoch are unordered, and accesses of different blocks always are.

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
