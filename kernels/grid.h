// grid.h -- grid kernels: the tree of typed values and statements, which the CPU walks, and one launch
//
// Calls of helpers are inlined. Loops, branches and scopes have bodies; `break` and `return` leave a
// loop or a scope. A value has one of three types: integer (int64), bool, and `real`, the kernel's float
// dtype. It has a register in one of two files. A number is the same in all lanes of a tile (a scalar),
// or an affine integer: base + step[0] * l0 + step[1] * l1 + step[2] * l2 for the lane (l0, l1, l2). A
// vector has an element for each lane.
#pragma once
#include <initializer_list>

#include "kernels/table.h"

namespace mt {

namespace op {
/// Whether an operation is one of these.
template <class... Op> constexpr bool is(int operation) { return ((operation == id<Op>) || ...); }
}  // namespace op

enum class GridType : uint8_t { none, boolean, integer, real };
enum class GridClass : uint8_t { scalar, affine, vector };
/// How a launch runs on the CPU: lanes in lockstep, rows of lanes as machine code, thread after thread, or so from
/// barrier to barrier with vectors of neighbouring threads.
enum class GridWay : uint8_t { lanes, rows, threads, vectors };
/// How a value is computed.
enum class GridCode : uint8_t {
  ready,  // its register has been set
  // numbers
  scalar,
  affine,
  load_scalar,
  // vectors
  vector,   // from vectors and scalars
  load,     // indices are vectors or numbers
  spread,   // the elements of an affine number
  compare,  // of affine numbers: true in ranges of lanes
};

/// Operations are those of kernels/table.h, and this one: conversion to the type of the result.
constexpr int16_t kConvert = -1;

union GridScalar {
  int64_t whole;
  double number;  // of float64 kernels
  float single;   // of float32 kernels
  bool truth;
};

/// A tensor of a launch, or an array of a block, for which the device sets `data`.
struct GridTensor {
  void* data;
  Dtype dtype;
  bool shared,     // an array of a block
      is_private,  // and of each of its threads, whose position are the last three indices
      stored;      // the kernel writes to it, or in check mode to memory that it shares
  int ndim;
  int64_t size[kMaxDims], stride[kMaxDims];
};
/// The part of a private array that is one thread's.
inline GridTensor of_one_thread(GridTensor t) {
  if (!t.is_private) return t;
  t.ndim -= 3;
  for (int64_t d = 0, threads = t.stride[t.ndim - 1]; d < t.ndim; ++d) t.stride[d] /= threads;
  return t;
}

/// The operands of an operation, or the indices of an access.
struct GridValues {
  int count = 0;
  struct GridValue* of[kMaxDims] = {};
  GridValues() = default;
  GridValues(std::initializer_list<GridValue*> list) {
    for (GridValue* v : list) push_back(v);
  }
  void push_back(GridValue* v) { of[count++] = v; }
  GridValue*& operator[](size_t k) { return of[k]; }
  GridValue* operator[](size_t k) const { return of[k]; }
  GridValue** begin() { return of; }
  GridValue** end() { return of + count; }
  GridValue* const* begin() const { return of; }
  GridValue* const* end() const { return of + count; }
};

struct GridValue {
  enum Kind : uint8_t {
    number,     // value; `index` is 1 if it is written as a float, as 1.0
    boolean,    // value
    scalar,     // number `index` of the launch
    variable,   // `index`
    place,      // position of the thread in the grid; `index` 0 is x
    thread,     // position in its block
    block,      // position of its block
    operation,  // op(args)
    load        // tensor `index`[args]
  } kind = number;
  GridType type = GridType::none;
  GridType of =
      GridType::none;  // of an operation: the type of its operands, or of those that are selected
  int16_t op = kConvert;
  int line = 0, index = 0;
  double value = 0;
  // In the tiles of the launch:
  GridClass is = GridClass::scalar;
  GridCode code = GridCode::ready;
  bool masked = false;        // lanes that are not active keep their element of the register
  bool divides = false;       // integers, by what may be 0, which is a fault
  int at = -1;                // its register
  GridValue* next = nullptr;  // the value of the statement that is computed after it
  GridValues args = {};

  /// Whether it is one of these operations, or a conversion.
  template <class... Op> bool has() const { return kind == operation && op::is<Op...>(op); }
  bool converts() const { return kind == operation && op == kConvert; }
};

/// A list of statements, which are linked.
struct GridBody {
  struct GridStatement *first = nullptr, *last = nullptr;
  struct Iterator {
    GridStatement* at;
    GridStatement* operator*() const { return at; }
    bool operator!=(Iterator x) const { return at != x.at; }
    inline Iterator& operator++();
  };
  Iterator begin() const { return {first}; }
  Iterator end() const { return {nullptr}; }
  bool empty() const { return !first; }
  inline void append(GridStatement*);
  inline void append(GridBody);
};

enum class GridWarp : uint8_t { sum, max, min, shuffle_down, shuffle_xor };
/// An atomic update of an element. exchange: it becomes the value; compare_exchange: if it equals another value.
enum class GridUpdate : uint8_t { add, min, max, exchange, compare_exchange };
/// The new element: min and max are those of Lua.
template <class T> MT_HD T updated(GridUpdate how, T before, T value, T expected) {
  switch (how) {
    case GridUpdate::add: return T(before + value);
    case GridUpdate::min: return before < value ? before : value;
    case GridUpdate::max: return before > value ? before : value;
    case GridUpdate::exchange: return value;
    default: return before == expected ? value : before;
  }
}

struct GridStatement {
  enum Kind : uint8_t {
    assign,      // variable = value
    store,       // place = value
    atomic_add,  // the `update` of place by value, in thread order; the variable is the old value;
                 // last: what compare_exchange expects
    branch,      // if value: body, otherwise other
    count,       // for variable = value, last, step
    loop,        // repeats the body
    scope,       // runs the body once
    leave,       // leaves the loop or scope `target`
    barrier,
    warp,   // variable = the function `what` of value; step: the distance or mask
    print,  // the items of the body
    item    // of a print: the value, or `text`
  } kind = assign;
  GridWarp what = GridWarp::sum;
  GridUpdate update = GridUpdate::add;
  // In the tiles of the launch:
  bool divergent = false;            // its lanes may run different statements of it
  bool leaves = false;               // lanes may leave it or a statement around it
  bool masked = false;               // an assignment: lanes that are not active keep the old value
  GridClass is = GridClass::scalar;  // of the variable
  int at = -1;                       // its register; -1: it is not read
  int id = 0;                        // its number in the program, from 0
  int length = 0;                    // of the body: the number of its operations
  int line = 0, variable = -1;
  GridValue *value = nullptr, *last = nullptr, *step = nullptr, *place = nullptr;  // place: a load
  GridValue* first = nullptr;  // of the values that are computed, in their order
  const char* text = nullptr;
  GridStatement *target = nullptr, *next = nullptr;
  GridBody body = {}, other = {};

  bool is_loop() const { return kind == count || kind == loop; }
  /// Of a branch whose body only leaves a loop or scope: that statement; otherwise null.
  const GridStatement* exit() const {
    const bool alone = kind == branch && body.first && !body.first->next && other.empty();
    return alone && body.first->kind == leave ? body.first : nullptr;
  }
};
GridBody::Iterator& GridBody::Iterator::operator++() {
  at = at->next;
  return *this;
}
void GridBody::append(GridStatement* s) {
  s->next = nullptr;
  (last ? last->next : first) = s;
  last = s;
}
void GridBody::append(GridBody more) {
  if (more.empty()) return;
  (last ? last->next : first) = more.first;
  last = more.last;
}

/// Visits a value and all values it is computed from; the values of a statement, without its bodies.
template <class F> void each_value(const GridValue& v, const F& f) {
  f(v);
  for (const GridValue* a : v.args) each_value(*a, f);
}
template <class F> void values_of(const GridStatement& s, const F& f) {
  for (const GridValue* v : {s.place, s.value, s.last, s.step})
    if (v) each_value(*v, f);
}

/// Visits the statements of a body, or of a list, and those in them, with the number of loops around each.
template <class List, class F> void each_statement(const List& list, int depth, const F& f) {
  for (auto* s : list) {
    f(*s, depth);
    const int inside = depth + s->is_loop();
    each_statement(s->body, inside, f), each_statement(s->other, inside, f);
  }
}

/// A program's first numbers: x, y, z of the block's position, of the position of the first thread in
/// the grid, and of a thread's positions in its block and in the grid; all from 1.
constexpr int kGridBlock = 0, kGridFirst = 3, kGridThread = 6, kGridPlace = 9, kGridNumbers = 12;

struct GridProgram {
  GridBody body;
  Dtype real;  // f32 or f64
  int numbers, vectors;
  int variables;  // vectors from this one on live for a statement
  const GridType* vector_type;
  int64_t number;  // of this program in the process, from 1; equal programs have the same
  int statements;
  int levels;   // the depth of nested control flow
  double work;  // the approximate number of operations of a thread
  int tensors;
  bool shares;     // there are shared arrays
  bool in_order;   // blocks run one after the other, because the order of their updates matters
  bool in_blocks;  // a tile is a block
};

enum class GridFaultKind : int {
  none,
  out_of_bounds,
  division_by_zero,
  race,
  divergent_barrier,
  uninitialised,
  no_memory
};
/// The first fault in the order of blocks; positions count from 1.
struct GridFault {
  GridFaultKind kind;
  int line, tensor, dim;
  int64_t index, tile;
  int64_t thread[3];  // in the grid
  int64_t other[3];   // of a race: the thread of the earlier access
  bool writes, other_writes;
};

/// total = blocks x threads in x, y, z, divided into tiles that run in lockstep: a tile is a block where
/// threads cooperate, and any set of threads otherwise. Lanes of a tile count along axes[0] first.
struct Grid {
  const GridProgram* program;
  const GridScalar* scalars;  // for each number of the program; the device sets the first
  const GridTensor* tensors;
  int64_t total[3], tile[3];
  int axes[3];
  bool check;   // stop at the first fault, and detect races
  bool spread;  // large enough for more than one thread
  GridFault* fault;
  GridWay* way;  // set to how the launch runs
  MT_HD int64_t tiles(int axis) const { return (total[axis] + tile[axis] - 1) / tile[axis]; }
};
constexpr int kGridLanes = 1024;            // the most lanes of a tile
constexpr int64_t kGridShared = 48 << 10;   // bytes of shared memory
constexpr int64_t kGridPrivate = 16 << 10;  // bytes of private memory

}  // namespace mt
