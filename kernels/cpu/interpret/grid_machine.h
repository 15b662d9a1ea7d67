// grid_machine.h -- the state of a tile of a grid kernel whose threads run in lockstep
#pragma once
#include "kernels/cpu/jit/grid_native.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt {
inline namespace MT_ISA {

struct GridNumber {
  GridScalar base;
  int64_t step[3];  // 0 in scalars
};
/// The active lanes of lo .. hi - 1: those that are set in `mask`, or all if it is null.
struct Active {
  int lo, hi;
  const uint8_t* mask;
  bool empty() const { return lo >= hi; }
  bool has(int lane) const { return !mask || mask[lane]; }
};
constexpr Active kNoLanes{0, 0, nullptr};
/// The lanes of a tile from lo to hi - 1 along each axis.
struct LaneBox {
  int lo[3], hi[3];
};
constexpr int kMasks = 4;  // for each level of control flow

/// The check mode's record of elements that threads accessed, by address.
struct GridShadow;
struct GridCheck {
  GridShadow* entries = nullptr;
  size_t capacity = 0, used = 0;
  GridCheck() = default;
  GridCheck(const GridCheck&) = delete;
  ~GridCheck();
  /// The entry of the element at an address, new if there is none yet; null: out of memory.
  GridShadow* find(uintptr_t address);
  bool grow();
};

/// Cached by a thread for a loop: whether it can be compiled, and its last machine code.
struct GridCodeEntry {
  int64_t program = 0;
  int id = 0;  // of the statement
  bool fits = false;
  uint64_t lanes = 0;
  const GridNative* native = nullptr;
};
constexpr int kGridCodeEntries = 16;

struct GridMachine {
  const Grid& grid;
  const GridProgram& program;
  int item;  // bytes of a real
  int lanes = 0, n[3] = {1, 1, 1};
  int64_t tile = 0;
  int64_t first[3] = {0, 0, 0};  // of the tile, in x, y, z
  GridNumber* number = nullptr;
  void **own = nullptr, **vector = nullptr;  // memory of vectors, current addresses of elements
  GridTensor* tensor = nullptr;
  uint8_t** left = nullptr;  // by the id of a loop or scope: the lanes that left it
  uint8_t *masks = nullptr, *valid = nullptr;
  bool* condition = nullptr;
  int64_t *offset = nullptr, *whole = nullptr;  // element offsets; scratch
  char *spare = nullptr, *copies = nullptr;     // a vector of results; two of copies of scalars
  GridCheck* checks = nullptr;                  // in check mode
  GridCodeEntry* code_cache = nullptr;          // kGridCodeEntries
  int epoch = 1;                                // counts barriers
  GridFault fault{};
  bool stop = false;

  uint8_t* mask(int level, int k) { return masks + (level * kMasks + k) * kGridLanes; }
  GridScalar& at(const GridValue& v) { return number[v.at].base; }
  GridCodeEntry& code_entry(const GridStatement& s) const {
    GridCodeEntry& e = code_cache[(program.number + s.id) % kGridCodeEntries];
    if (e.program != program.number || e.id != s.id)
      e = {program.number, s.id, grid_native(program, s, ~uint64_t(0)).code != nullptr, 0, nullptr};
    return e;
  }
  const GridNative& native(GridCodeEntry& e, const GridStatement& s, uint64_t lanes) const {
    if (!e.native || e.lanes != lanes) e.lanes = lanes, e.native = &grid_native(program, s, lanes);
    return *e.native;
  }
  static bool is_one(const GridValue& v) { return v.is == GridClass::scalar; }
  /// The elements of an operand from lane lo on, or the only one of a scalar.
  char* operand(const GridValue& v, int lo) {
    return is_one(v) ? reinterpret_cast<char*>(&at(v))
                     : static_cast<char*>(vector[v.at]) + lo * bytes_of(v.type);
  }
  Dtype dtype_of(GridType t) const {
    return t == GridType::real ? program.real : t == GridType::integer ? Dtype::i64 : Dtype::b8;
  }
  int64_t bytes_of(GridType t) const {
    return t == GridType::real ? item : t == GridType::integer ? 8 : 1;
  }
  /// The coordinate k of a lane in its tile, from 0.
  int64_t coordinate(int l, int k) const {
    return k == 0 ? l % n[0] : k == 1 ? l / n[0] % n[1] : l / n[0] / n[1];
  }
  int64_t value(const GridNumber& a, int l) const {
    int64_t sum = a.base.whole;
    for (int k = 0; k < 3; ++k) sum += a.step[k] * coordinate(l, k);
    return sum;
  }
  bool one_row() const { return n[1] == 1 && n[2] == 1; }
  /// f(first lane, end lane, lane 0 of the row, y, z) for each row of the lanes lo .. hi - 1.
  template <class F> void each_row(int lo, int hi, const F& f) const {
    for (int l = lo; l < hi;) {
      const int row = l / n[0], begin = row * n[0], end = begin + n[0] < hi ? begin + n[0] : hi;
      f(l, end, begin, row % n[1], row / n[1]);
      l = end;
    }
  }
  /// f(first lane, y, z) for each row of a box.
  template <class F> void each_row_of(const LaneBox& b, const F& f) const {
    for (int z = b.lo[2]; z < b.hi[2]; ++z)
      for (int y = b.lo[1]; y < b.hi[1]; ++y) f((z * n[1] + y) * n[0] + b.lo[0], y, z);
  }
  /// The bounding box of the active lanes; there must be some. Returns true if all lanes in it are
  /// active, as after bounds checks on each coordinate.
  bool box_of(Active, LaneBox&) const;
  /// Writes a whole number as a vector.
  void spread(const GridNumber& a, int lo, int hi, int64_t* out) const;
  /// The thread of a lane in x, y, z, counted from 1.
  void thread_of(int l, int64_t* out) const {
    for (int k = 0; k < 3; ++k) out[grid.axes[k]] = first[grid.axes[k]] + coordinate(l, k) + 1;
  }
  /// `v` is an access if the fault has a tensor.
  void report(GridFaultKind, const GridValue& v, int lane, int dim = 0, int64_t index = 0);

  /// The elements of the lanes: offset + step[0] * l0 + .. Returns false if an index is not affine,
  /// or may be out of bounds.
  struct AffineOffset {
    int64_t offset, step[3];
  };
  bool affine_place(const GridValue& access, const LaneBox&, AffineOffset&) const;

  // Their indices, and what is stored, have been computed.
  void load_scalar(const GridValue&, Active);
  void load(const GridValue&, Active);
  void store(const GridStatement&, Active);
  void atomic_add(const GridStatement&, Active);
  /// In check mode: marks the tensors to check.
  void watch();
  /// In check mode: records the access of a thread to an element, and reports a race.
  void note(const GridValue& access, int lane, int64_t offset, bool writes, bool atomic);

 private:
  void note_valid(const GridValue&, Active, bool writes, bool atomic);
  bool lane_places(const GridValue&, Active);
  bool shares_written(int tensor) const;
  void place_of(int64_t thread, int64_t* out) const;
  int64_t index_of(const GridValue&, int lane) const;
  void blame(const GridValue&, Active);
};

}  // namespace MT_ISA
}  // namespace mt
