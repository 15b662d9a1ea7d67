// grid_native_run.h -- runs compiled loops (grid_native.h) over the rows of a grid kernel's tile
#pragma once
#include "kernels/cpu/interpret/grid_machine.h"
#include "kernels/cpu/jit/grid_native.h"
#include "kernels/cpu/jit/native.h"

namespace mt {
inline namespace MT_ISA {

/// The elements that the lanes of a box access.
struct GridAccess {
  GridMachine::AffineOffset place;
  char* data;  // of lane 0
  int64_t by;  // bytes from one iteration to the next
  bool find(const GridMachine& w, const GridValue& x, const LaneBox& box) {
    const GridTensor& t = w.tensor[x.index];
    if (t.dtype != w.program.real || !w.affine_place(x, box, place)) return false;
    data = static_cast<char*>(t.data) + place.offset * w.item, by = 0;
    return place.step[0] == 0 || place.step[0] == 1;
  }
  char* row(int y, int z, int item) const {
    return data + (place.step[1] * y + place.step[2] * z) * item;
  }
  bool is(const GridAccess& x) const {
    return data == x.data && place.step[0] == x.place.step[0] && place.step[1] == x.place.step[1] &&
           place.step[2] == x.place.step[2];
  }
};

/// Computes what must exist before machine code runs, in the order of the statements: numbers, vectors that
/// depend on positions alone, and where the accesses are. Functions return false if it cannot run.
template <class Walk> struct GridPreparation {
  enum Kind { turns, lanes } kind;  // as in GridNative: two kinds of loops
  Walk& w;
  const Active a;
  const LaneBox& box;
  GridAccess* const access;  // up to kOperands
  int accesses = 0;
  uint64_t contiguous = 0;  // bits: accesses with one element per lane

  using V = GridValue;
  using S = GridStatement;

  bool body(const GridBody& list) {
    for (const S* s = list.first; s; s = s->next) {
      for (const V* v = s->first; v; v = v->next)
        if (!value(*v)) return false;
      if (s->kind == S::assign && !is_left(*s->value)) w.assign(*s);
      if (!body(s->body) || !body(s->other)) return false;
    }
    return true;
  }
  bool value(const V& v) {
    const bool loads = v.kind == V::load;
    if (loads && !find(v)) return false;
    if (v.divides && v.args.of[1]->is == GridClass::scalar && w.at(*v.args.of[1]).whole == 0)
      return false;
    if (!is_left(v)) w.step(v, a);
    return true;
  }
  /// Whether a value is left to the code: vectors, and in loops that lanes do not leave reals.
  bool is_left(const V& v) const {
    return v.code == GridCode::vector || (kind == turns && v.type != GridType::integer) ||
           (kind != lanes && v.code == GridCode::load);
  }
  bool find(const V& v) {
    GridMachine::AffineOffset place;
    if (kind == lanes) return w.affine_place(v, box, place);
    GridAccess& now = access[accesses];
    if (!now.find(w, v, box)) return false;
    contiguous |= uint64_t(now.place.step[0]) << accesses++;
    return true;
  }
};

/// Converts the integers of the lanes lo .. hi - 1 to int32 in place, at the same address, and
/// back. Returns false, with nothing done, if they do not fit.
inline bool narrow(void* own, int lo, int hi) {
  int64_t* const whole = static_cast<int64_t*>(own) + lo;
  uint64_t beyond = 0;
  for (int l = 0; l < hi - lo; ++l) beyond |= uint64_t(whole[l] + (int64_t(1) << 31)) >> 32;
  for (int l = 0; !beyond && l < hi - lo; ++l) {
    const int32_t x = int32_t(whole[l]);
    __builtin_memcpy(reinterpret_cast<char*>(whole) + 4 * l, &x, sizeof x);
  }
  return !beyond;
}
inline void widen(void* own, int lo, int hi) {
  int64_t* const whole = static_cast<int64_t*>(own) + lo;
  for (int l = hi - lo - 1; l >= 0; --l) {
    int32_t x;
    __builtin_memcpy(&x, reinterpret_cast<char*>(whole) + 4 * l, sizeof x);
    whole[l] = x;
  }
}

/// The operands of a loop in the memory of the machine. From here on the integers of a
/// float32 kernel are int32, except those of the operands from `fine` on.
template <class R, class Walk>
void lane_operands(Walk& w, const GridNative& loop, int64_t first, Active a, uint8_t* set, int lo,
                   int hi, void** data, int& fine) {
  constexpr bool kNarrow = sizeof(R) == 4;
  for (fine = 0; fine < loop.operands; ++fine) {
    const GridNative::Operand& o = loop.operand[fine];
    const bool narrows = kNarrow && o.type == GridType::integer;
    if (o.kind == GridNative::active) {
      data[fine] = set;
    } else if (o.kind == GridNative::scalar) {
      const GridScalar& s = w.number[o.at].base;
      if (narrows && s.whole != int32_t(s.whole)) break;
      data[fine] = &w.number[o.at].base;
    } else if (o.kind == GridNative::memory) {
      data[fine] = nullptr;
    } else if (o.kind == GridNative::counter) {
      if (narrows && first != int32_t(first)) break;
      data[fine] = w.whole;
      for (int l = lo; l < hi; ++l)
        __builtin_memcpy(reinterpret_cast<char*>(w.whole) + l * sizeof(R), &first, sizeof(R));
    } else {
      char* const own = static_cast<char*>(w.own[o.at]);
      const int64_t bytes = w.bytes_of(o.type);
      if (w.vector[o.at] != own)
        __builtin_memcpy(own + a.lo * bytes, static_cast<char*>(w.vector[o.at]) + a.lo * bytes,
                         size_t((a.hi - a.lo) * bytes));
      w.vector[o.at] = own;
      if (narrows && !narrow(own, lo, hi)) break;
      data[fine] = own + (narrows ? 4 * lo : 0);
    }
  }
}

template <class R, class Walk>
void widen_operands(Walk& w, const GridNative& code, int lo, int hi, int fine) {
  for (int k = 0; k < fine && sizeof(R) == 4; ++k) {
    const GridNative::Operand& o = code.operand[k];
    const bool vector = o.kind == GridNative::written || o.kind == GridNative::read;
    if (vector && o.type == GridType::integer) widen(w.own[o.at], lo, hi);
  }
}

/// The operands for a row of lanes from `first` on, from those in `base`; accesses are `done` iterations on.
template <class Walk>
void row_operands(const Walk& w, const GridNative& code, void* const* base,
                  const GridAccess* access, int first, int y, int z, int64_t done, void** data) {
  for (int k = 0; k < code.operands; ++k) {
    const GridNative::Operand& o = code.operand[k];
    const int64_t bytes = o.type == GridType::boolean ? 1 : w.item;
    if (o.kind == GridNative::memory)
      data[k] = access[o.at].row(y, z, w.item) + done * access[o.at].by;
    else data[k] = static_cast<char*>(base[k]) + (o.kind == GridNative::scalar ? 0 : first * bytes);
  }
}

/// Runs iterations for each row of lanes; the loads of `access` move with each iteration.
template <class R, class Walk>
void run_turns(Walk& w, const GridNative& loop, Active a, const LaneBox& box,
               const GridAccess* access, int64_t turns) {
  constexpr int64_t kPiece = 1 << 16;
  void* base[GridNative::kOperands];
  int fine;
  lane_operands<R>(w, loop, 0, a, nullptr, 0, 0, base, fine);  // all: there are no integers
  w.each_row_of(box, [&](int lane, int y, int z) {
    void* data[2 * GridNative::kOperands + 1];
    for (int k = 0; k < loop.operands; ++k) {
      const GridNative::Operand& o = loop.operand[k];
      const int64_t by = o.kind == GridNative::memory ? access[o.at].by : 0;
      data[loop.operands + k] = reinterpret_cast<void*>(by);
    }
    for (int64_t done = 0; done < turns && !w.interrupted(); done += kPiece) {
      row_operands(w, loop, base, access, lane - box.lo[0], y, z, done, data);
      const int64_t now = turns - done < kPiece ? turns - done : kPiece;
      data[2 * loop.operands] = reinterpret_cast<void*>(now);
      run_native(*loop.code, data, nullptr, box.lo[0], box.hi[0]);
    }
  });
}

/// Runs iterations of a counting loop as machine code, if possible: all (true), or all except the last; then
/// `k` becomes the counter of that one.
template <class R, class Walk>
bool native_turns(Walk& w, const GridStatement& s, Active a, int64_t& k) {
  const int64_t from = k, step = w.at(*s.step).whole, last = w.at(*s.last).whole;
  constexpr int64_t kFewest = 4;
  if (w.grid.check || (step > 0 ? last - from < kFewest * step : last - from > kFewest * step))
    return false;
  GridCodeEntry& e = w.code_entry(s);
  LaneBox box;
  if (!e.fits || !w.box_of(a, box)) return false;
  const int64_t count = (last - from) / step + 1, places[] = {0, 1, count - 1};
  GridAccess access[GridNative::kOperands];
  uint64_t lanes = 0;  // of the loads
  for (const int64_t turn : places) {
    w.number[s.at].base.whole = from + turn * step;
    GridAccess found[GridNative::kOperands];
    GridPreparation<Walk> now{GridPreparation<Walk>::turns, w, a, box, found};
    if (!now.body(s.body)) return false;
    for (int j = 0; j < now.accesses; ++j) {
      GridAccess &first = access[j], &x = found[j];
      if (turn == 0) first = x;
      if (turn == 1) first.by = x.data - first.data;
      x.data -= turn * first.by;
      if (!x.is(first)) return false;
    }
    lanes |= now.contiguous;
  }
  const GridNative& native = w.native(e, s, lanes);
  if (!native.code) return false;
  run_turns<R>(w, native, a, box, access, native.complete ? count : count - 1);
  k += (count - 1) * step;
  return native.complete;
}

/// Runs iterations of a loop that lanes leave one by one as machine code:
/// `turns` of them, or all if `turns` is 0. Adds finished lanes to `gone`; returns, with the mask
/// `set`, the lanes that have not been run or have iterations left.
template <class R, class Walk>
Active native_lanes(Walk& w, const GridStatement& s, Active a, int64_t turns, uint8_t* set,
                    uint8_t* gone) {
  constexpr int64_t kPiece = 1 << 16;
  GridCodeEntry& e = w.code_entry(s);
  if (!e.fits || w.grid.check || turns > kPiece) return a;
  const int64_t first = turns > 0 ? w.number[s.at].base.whole : 0;
  LaneBox box;
  w.box_of(a, box);
  if (!GridPreparation<Walk>{GridPreparation<Walk>::lanes, w, a, box, nullptr}.body(s.body))
    return a;
  const GridNative& native = w.native(e, s, 0);
  if (!native.code) return a;
  constexpr int kWidth = 64 / sizeof(R);
  const int lo = a.lo / kWidth * kWidth, hi = (a.hi + kWidth - 1) / kWidth * kWidth;
  void* data[2 * GridNative::kOperands + 2];
  void** const failed = data + 2 * native.operands + 1;
  int fine;
  lane_operands<R>(w, native, first, a, set, lo, hi, data, fine);
  __builtin_memset(set + lo, 0, size_t(hi - lo));
  w.add(set, a);
  if (fine == native.operands) do {
      *failed = nullptr;
      failed[-1] = reinterpret_cast<void*>(turns > 0 ? turns : kPiece);
      run_native(*native.code, data, nullptr, lo, hi);
    } while (turns == 0 && !*failed && __builtin_memchr(set + lo, 1, size_t(hi - lo)) &&
             !w.interrupted());
  widen_operands<R>(w, native, lo, hi, fine);
  for (int l = a.lo; l < a.hi; ++l) gone[l] = uint8_t(gone[l] | (a.has(l) & !set[l]));
  return w.lanes_of(set, a.lo, a.hi);
}

}  // namespace MT_ISA
}  // namespace mt
