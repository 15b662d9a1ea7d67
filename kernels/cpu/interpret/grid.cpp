// grid.cpp -- runs a grid kernel on the CPU: tiles of threads in lockstep, one instruction for all lanes
//
// A lane is a thread. Uniform control flow is executed directly; if lanes diverge, both branches
// are executed, each with its active lanes (Active). Lanes that leave a loop or scope are kept in
// its `left` mask until it ends.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels/cpu/interpret/grid_machine.h"
#include "kernels/cpu/jit/grid_native_run.h"
#include "kernels/cpu/verbs/elementwise.h"
#include "kernels/math/number.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// Kept between tiles and launches: the coordinates of the lanes of a tile, and the cached machine code of
/// loops and blocks. On the heap: a library loaded late (mtorch.so) gets little thread-local storage.
struct ThreadScratch {
  int n[3];
  int64_t of[3][kGridLanes];
  GridCodeEntry code[kGridCodeEntries];
  void set(int x, int y, int z) {
    if (n[0] == x && n[1] == y && n[2] == z) return;
    n[0] = x, n[1] = y, n[2] = z;
    for (int l = 0; l < x * y * z; ++l)
      of[0][l] = l % x, of[1][l] = l / x % y, of[2][l] = l / x / y;
  }
};
struct LazyThreadScratch {
  ThreadScratch* own = nullptr;
  bool reserve() { return own || (own = new (std::nothrow) ThreadScratch()); }
  ~LazyThreadScratch() { delete own; }
};
thread_local LazyThreadScratch thread_scratch;

/// An interpreter of the instructions, for kernels with reals R.
template <class R> struct Walk : GridMachine {
  using I = GridInstruction;

  // ---- lanes -------------------------------------------------------------------------------------

  /// The lanes between lo and hi that are set in `set`.
  static Active lanes_of(uint8_t* set, int lo, int hi) {
    const void* const one = std::memchr(set + lo, 1, size_t(hi - lo));
    if (!one) return kNoLanes;
    lo = int(static_cast<const uint8_t*>(one) - set);
    while (!set[hi - 1]) --hi;
    return {lo, hi, std::memchr(set + lo, 0, size_t(hi - lo)) ? set : nullptr};
  }
  /// The lanes of `a` in which `c` equals `wanted`.
  static Active where(Active a, const bool* c, bool wanted, uint8_t* set) {
    if (a.mask)
      for (int l = a.lo; l < a.hi; ++l) set[l] = uint8_t(a.mask[l] & (c[l] == wanted));
    else
      for (int l = a.lo; l < a.hi; ++l) set[l] = uint8_t(c[l] == wanted);
    return lanes_of(set, a.lo, a.hi);
  }
  void clear(uint8_t* set) const { std::memset(set, 0, size_t(lanes)); }
  static void add(uint8_t* set, Active a) {
    for (int l = a.lo; l < a.hi; ++l) set[l] = uint8_t(set[l] | uint8_t(a.has(l)));
  }
  Active both(Active a, Active b, uint8_t* set) const {
    if (a.empty() && b.empty()) return kNoLanes;
    if (b.empty() && !a.mask) return a;
    if (a.empty() && !b.mask) return b;
    uint8_t sum[kGridLanes];
    clear(sum), add(sum, a), add(sum, b);
    std::memcpy(set, sum, size_t(lanes));
    return lanes_of(set, 0, lanes);
  }
  /// The same lanes with their mask in `set`.
  Active moved(Active a, uint8_t* set) const {
    if (!a.mask || a.mask == set) return a;
    std::memcpy(set, a.mask, size_t(lanes));
    return {a.lo, a.hi, set};
  }
  /// A bool operand as a vector.
  const bool* truth(int ref) { return static_cast<const bool*>(vector[ref]); }

  // ---- arithmetic --------------------------------------------------------------------------------

  template <class T> static char* repeat(char* to, T x, int64_t n) {
    for (int64_t k = 0; k < n; ++k) reinterpret_cast<T*>(to)[k] = x;
    return to;
  }
  ConvertLoop conversion(const I& i) const {
    return i.op == kConvert ? convert_loop(dtype_of(i.result), dtype_of(i.type)) : nullptr;
  }
  void scalar_op(const I& i) {
    GridScalar& d = number[i.dst].base;
    GridScalar &x = number[i.a].base, &y = number[i.b].base;
    if (i.type == GridType::integer) switch (i.op) {
        case op::id<op::Add>: d.whole = x.whole + y.whole; return;
        case op::id<op::Sub>: d.whole = x.whole - y.whole; return;
        case op::id<op::Mul>: d.whole = x.whole * y.whole; return;
        case op::id<op::FloorDivide>: d.whole = math::floor_divide(x.whole, y.whole); return;
        case op::id<op::Remainder>: d.whole = math::remainder(x.whole, y.whole); return;
        case op::id<op::Lt>: d.truth = x.whole < y.whole; return;
        case op::id<op::Le>: d.truth = x.whole <= y.whole; return;
        default: break;
      }
    GridScalar out;
    char* const data[] = {reinterpret_cast<char*>(&out), reinterpret_cast<char*>(&x),
                          reinterpret_cast<char*>(&y), reinterpret_cast<char*>(&number[i.c].base)};
    bool takes_one;
    if (const ConvertLoop convert = conversion(i)) convert(data[0], data[1], 1);
    else elementwise_loop(i.op, dtype_of(i.type), takes_one)(data, 1, nullptr, -1);
    d = out;
  }

  void affine_op(const I& i) {
    GridNumber x = number[i.a];
    const GridNumber& y = number[i.b];
    if (i.op == op::id<op::Add> || i.op == op::id<op::Sub>) {
      const int64_t sign = i.op == op::id<op::Add> ? 1 : -1;
      x.base.whole += sign * y.base.whole;
      for (int k = 0; k < 3; ++k) x.step[k] += sign * y.step[k];
    } else if (i.op == op::id<op::Neg>) {
      x.base.whole = -x.base.whole;
      for (int k = 0; k < 3; ++k) x.step[k] = -x.step[k];
    } else if (i.op == op::id<op::Mul>) {  // one of them is a scalar
      for (int k = 0; k < 3; ++k) x.step[k] = x.step[k] * y.base.whole + x.base.whole * y.step[k];
      x.base.whole *= y.base.whole;
    }
    number[i.dst] = x;
  }

  /// dst = the output of `run(out)` for the lanes from lo on; inactive lanes keep their values.
  template <class Run> void write(const I& i, Active a, const Run& run) {
    const int64_t bytes = bytes_of(i.result);
    char* const own_memory = static_cast<char*>(own[i.dst]);
    vector[i.dst] = own_memory;
    if (!i.masked || !a.mask) return run(own_memory + a.lo * bytes);
    run(spare + a.lo * bytes);
    if (bytes == 1)
      blend(reinterpret_cast<uint8_t*>(own_memory), reinterpret_cast<uint8_t*>(spare), a);
    else if (bytes == 4)
      blend(reinterpret_cast<float*>(own_memory), reinterpret_cast<float*>(spare), a);
    else blend(reinterpret_cast<int64_t*>(own_memory), reinterpret_cast<int64_t*>(spare), a);
  }
  template <class T> static void blend(T* out, const T* in, Active a) {
    for (int l = a.lo; l < a.hi; ++l) out[l] = a.mask[l] ? in[l] : out[l];
  }
  /// The floor of x / y, or the remainder, for one y. With |x| < 2^52 and y < 2^31 the quotient of doubles is
  /// an integer or further than its rounding error from the next one, so its floor is exact. False: not done.
  static bool divide_by_one(const I& i, void* to, const void* from, int64_t y, int64_t n) {
    const bool rest = i.op == op::id<op::Remainder>;
    if (y <= 0 || y >> 31 || (!rest && i.op != op::id<op::FloorDivide>)) return false;
    int64_t* const out = static_cast<int64_t*>(to);
    const int64_t* const x = static_cast<const int64_t*>(from);
    int64_t bits = 0;
    for (int64_t k = 0; k < n; ++k) bits |= x[k] ^ x[k] >> 63;
    if (bits >> 52) return false;
    const double by = double(y);
    MT_INDEPENDENT
    for (int64_t k = 0; k < n; ++k) {
      const int64_t quotient = int64_t(math::floor(double(x[k]) / by));
      out[k] = rest ? x[k] - quotient * y : quotient;
    }
    return true;
  }
  void vector_op(const I& i, Active a) {
    const int64_t bytes = bytes_of(i.type), n = a.hi - a.lo;
    bool takes_one = false;
    const ConvertLoop convert = conversion(i);
    const ElementwiseLoop loop =
        convert ? nullptr : elementwise_loop(i.op, dtype_of(i.type), takes_one);
    const int in[] = {i.a, i.b, i.c};
    char *data[4], *copied = copies;
    int one = -1;
    for (int k = 0; k < i.operands; ++k) {
      const bool mask = i.op == op::id<op::Where> && k == 0;
      data[k + 1] = operand(in[k], a.lo, mask ? 1 : bytes);
      if (in[k] >= 0) continue;
      if (takes_one && one < 0) {
        one = k;
        continue;
      }
      const GridScalar& x = at(in[k]);
      data[k + 1] = mask || bytes == 1 ? repeat(copied, x.truth, n)
                    : bytes == 4       ? repeat(copied, x.single, n)
                                       : repeat(copied, x.whole, n);
      copied += 8 * kGridLanes;
    }
    const int64_t by = i.operands == 2 && i.b < 0 && i.a >= 0 ? at(i.b).whole : 0;
    write(i, a, [&](char* out) {
      data[0] = out;
      if (convert) return convert(out, data[1], n);
      if (i.type == GridType::integer && divide_by_one(i, out, data[1], by, n)) return;
      loop(data, n, nullptr, one);
    });
  }
  void spread_op(const I& i, Active a) {
    const bool real = i.type == GridType::real;
    write(i, a, [&](char* out) {
      int64_t* const numbers = real ? whole + a.lo : reinterpret_cast<int64_t*>(out);
      spread(number[i.a], a.lo, a.hi, numbers - a.lo);
      if (!real) return;
      for (int l = 0; l < a.hi - a.lo; ++l) reinterpret_cast<R*>(out)[l] = R(numbers[l]);
    });
  }

  /// lt or le of affine numbers: in each row the result is a range of lanes.
  void compare_op(const I& i, Active a) {
    GridNumber d = number[i.a];
    const GridNumber& y = number[i.b];
    d.base.whole -= y.base.whole;
    for (int k = 0; k < 3; ++k) d.step[k] -= y.step[k];
    const int64_t least = i.op == op::id<op::Lt> ? 0 : 1;  // true where d < least
    bool* const out = static_cast<bool*>(vector[i.dst] = own[i.dst]);
    const int64_t s = d.step[0], step = s > 0 ? s : -s;
    each_row(a.lo, a.hi, [&](int from, int to, int begin, int y, int z) {
      const int64_t base = d.base.whole + d.step[1] * y + d.step[2] * z;
      if (s == 0) return void(std::memset(out + from, base < least, size_t(to - from)));
      // base + s * x < least: x < edge where s > 0, else x >= edge
      const int64_t room = s > 0 ? least - base : base - least;
      int64_t edge =
          begin + (s > 0 ? -math::floor_divide(-room, step) : math::floor_divide(room, step) + 1);
      edge = edge < from ? from : edge > to ? to : edge;
      std::memset(out + from, s > 0, size_t(edge - from));
      std::memset(out + edge, s < 0, size_t(to - edge));
    });
  }

  // ---- control flow ------------------------------------------------------------------------------

  Active run(int at, int end, Active a, int level) {
    while (at < end) {
      if (a.empty() || stop) return kNoLanes;
      const I& i = program.code[at];
      switch (i.code) {
        case GridCode::block:
          run(at + 1, i.end, run_block<R>(*this, i, at, a), level);
          at = i.end;
          continue;
        case GridCode::scalar: scalar_op(i); break;
        case GridCode::affine: affine_op(i); break;
        case GridCode::vector: vector_op(i, a); break;
        case GridCode::spread: spread_op(i, a); break;
        case GridCode::compare: compare_op(i, a); break;
        case GridCode::load_scalar: load_scalar(i, a); break;
        case GridCode::load: load(i, a); break;
        case GridCode::store: store(i, a); break;
        default: a = rarer(i, at, a, level);
      }
      at = i.end > at ? i.end : at + 1;
    }
    return a;
  }
  Active rarer(const I& i, int at, Active a, int level) {
    switch (i.code) {
      case GridCode::atomic_add: atomic_add(i, a); break;
      case GridCode::branch: return branch(i, at, a, level);
      case GridCode::count:
        return i.type == GridType::real ? count<R>(i, at, a, level)
                                        : count<int64_t>(i, at, a, level);
      case GridCode::count_lanes:
        return i.type == GridType::real ? count_lanes<R>(i, at, a, level)
                                        : count_lanes<int64_t>(i, at, a, level);
      case GridCode::loop:
      case GridCode::scope: return loop(i, at, a, level);
      case GridCode::leave: add(left[i.a], a); return kNoLanes;
      case GridCode::leave_if: return leave_if(i, a, level);
      case GridCode::barrier: barrier(i, a); break;
      case GridCode::warp: warp(i, a); break;
      case GridCode::print: print(i, a); break;
      case GridCode::assert_: check(i, a); break;
      default: break;
    }
    return a;
  }

  Active branch(const I& i, int at, Active a, int level) {
    Active yes = a, no = kNoLanes;
    if (i.a < 0) {
      if (!this->at(i.a).truth) yes = kNoLanes, no = a;
    } else {
      const bool* const c = truth(i.a);
      yes = where(a, c, true, mask(level, 0));
      if (i.other < i.end || i.flag) no = where(a, c, false, mask(level, 1));
    }
    if (!yes.empty()) yes = moved(run(at + 1, i.other, yes, level + 1), mask(level, 0));
    if (!no.empty() && i.other < i.end) no = run(i.other, i.end, no, level + 1);
    return i.flag ? both(yes, no, mask(level, 2)) : a;  // flag: lanes may have left the loop
  }

  Active leave_if(const I& i, Active a, int level) {
    if (i.b < 0) {
      if (!at(i.b).truth) return a;
      add(left[i.a], a);
      return kNoLanes;
    }
    const bool* const c = truth(i.b);
    uint8_t* const out = left[i.a];
    for (int l = a.lo; l < a.hi; ++l) out[l] = uint8_t(out[l] | uint8_t(c[l] & a.has(l)));
    return where(a, c, false, mask(level, 2));
  }

  bool interrupted() const { return mt_interrupted || stop; }
  uint8_t* begin(int at, int level) {
    clear(mask(level, 0));
    return left[at] = mask(level, 0);
  }
  Active loop(const I& i, int at, Active a, int level) {
    uint8_t* const gone = begin(at, level);
    Active now = a;
    if (i.code == GridCode::loop) now = native_lanes<R>(*this, i, at, a, 0, mask(level, 3), gone);
    while (!now.empty() && !interrupted()) {
      now = moved(run(at + 1, i.end, now, level + 1), mask(level, 3));
      if (i.code == GridCode::scope) break;
    }
    return both(i.code == GridCode::scope ? now : kNoLanes, lanes_of(gone, 0, lanes),
                mask(level, 2));
  }

  template <class T> T& as(GridScalar& s) {
    if constexpr (sizeof(T) == 4) return s.single;
    else if constexpr (math::is_integer<T>) return s.whole;
    else return s.number;
  }
  /// A loop with the same bounds in all lanes; flag: lanes may leave.
  template <class T> Active count(const I& i, int at, Active a, int level) {
    const T last = as<T>(this->at(i.b)), step = as<T>(this->at(i.c));
    T k = as<T>(this->at(i.a));
    if constexpr (math::is_integer<T>)
      if (!i.flag && native_turns<R>(*this, i, at, a, k)) return a;
    uint8_t* const gone = i.flag ? begin(at, level) : nullptr;
    Active now = a;
    if constexpr (math::is_integer<T>)
      if (gone && (step > 0 ? k <= last : step < 0 && last <= k))
        now = native_lanes<R>(*this, i, at, a, (last - k) / step + 1, mask(level, 3), gone);
    for (; (step > 0 ? k <= last : last <= k) && !now.empty() && !interrupted();) {
      as<T>(number[i.dst].base) = k;
      const Active after = run(at + 1, i.end, now, level + 1);
      if (gone) {
        now = moved(after, mask(level, 3));
        if (now.empty()) break;
      }
      if constexpr (math::is_integer<T>)
        if (step > 0 ? k > last - step : k < last - step) break;
      k += step;
    }
    return gone ? both(now, lanes_of(gone, 0, lanes), mask(level, 2)) : a;
  }

  template <class T> const T* from_lane_0(int ref) {
    return reinterpret_cast<const T*>(operand(ref, 0, sizeof(T)));
  }
  /// A loop with bounds that differ between lanes: affine, or (flag) vectors.
  template <class T> Active count_lanes(const I& i, int at, Active a, int level) {
    uint8_t* const gone = begin(at, level);
    uint8_t* const finished = mask(level, 1);
    clear(finished);
    const bool one_last = i.b < 0, one_step = i.c < 0;
    if (!i.flag) number[i.dst] = number[~i.a];
    for (Active now = a; !now.empty() && !interrupted();) {
      if (!i.flag) spread(number[i.dst], now.lo, now.hi, whole);
      const T* const k = static_cast<const T*>(i.flag ? vector[i.dst] : whole);
      const T *const last = from_lane_0<T>(i.b), *step = from_lane_0<T>(i.c);
      for (int l = now.lo; l < now.hi; ++l) {
        const T end = last[one_last ? 0 : l];
        condition[l] = step[one_step ? 0 : l] > 0 ? k[l] <= end : end <= k[l];
        finished[l] |= uint8_t(now.has(l) & !condition[l]);
      }
      now = where(now, condition, true, mask(level, 3));
      now = moved(run(at + 1, i.end, now, level + 1), mask(level, 3));
      if (!i.flag) number[i.dst].base.whole += this->at(i.c).whole;
      step = from_lane_0<T>(i.c);
      for (int l = now.lo; i.flag && l < now.hi; ++l)
        if (now.has(l)) static_cast<T*>(own[i.dst])[l] += step[one_step ? 0 : l];
    }
    add(finished, lanes_of(gone, 0, lanes));
    std::memcpy(mask(level, 2), finished, size_t(lanes));
    return lanes_of(mask(level, 2), 0, lanes);
  }

  // ---- barriers and warps ------------------------------------------------------------------------

  void barrier(const I& i, Active a) {
    ++epoch;
    if (!grid.check || (!a.mask && a.lo == 0 && a.hi == lanes)) return;
    for (int l = 0; l < lanes; ++l)
      if (l < a.lo || l >= a.hi || !a.has(l)) return report(GridFaultKind::divergent_barrier, i, l);
  }

  static constexpr int kWarp = 32;
  template <class T> void warp_as(const I& i, Active a, T* out) {
    const T* const x = static_cast<const T*>(vector[i.a]);
    const int64_t* const by = from_lane_0<int64_t>(i.b);
    const GridWarp what = GridWarp(i.flag);
    for (int w = a.lo / kWarp * kWarp; w < a.hi; w += kWarp) {
      const auto active = [&](int l) { return l >= a.lo && l < a.hi && a.has(l); };
      T value[kWarp];
      for (int l = 0; l < kWarp; ++l) {
        const T nothing = what == GridWarp::max   ? T(-INFINITY)
                          : what == GridWarp::min ? T(INFINITY)
                                                  : T(0);
        value[l] = active(w + l) ? x[w + l] : nothing;
      }
      if (what < GridWarp::shuffle_down) butterfly(value, what);
      for (int l = 0; l < kWarp && w + l < lanes; ++l) {
        if (!active(w + l)) continue;
        const int64_t k = i.b < 0 ? *by : by[w + l];
        const int64_t from = what == GridWarp::shuffle_down  ? l + k
                             : what == GridWarp::shuffle_xor ? l ^ k
                                                             : l;
        const bool there = from >= 0 && from < kWarp && w + from < lanes;
        out[w + l] = there ? value[from] : value[l];
      }
    }
  }
  template <class T> static void butterfly(T* value, GridWarp what) {
    for (int half = kWarp / 2; half > 0; half /= 2) {
      T next[kWarp];
      for (int l = 0; l < kWarp; ++l) {
        const T x = value[l], y = value[l ^ half];
        next[l] = what == GridWarp::sum   ? T(x + y)
                  : what == GridWarp::max ? (x > y ? x : y)
                                          : (x < y ? x : y);
      }
      std::memcpy(value, next, sizeof next);
    }
  }
  void warp(const I& i, Active a) {
    vector[i.dst] = own[i.dst];
    if (i.type == GridType::real) warp_as<R>(i, a, static_cast<R*>(own[i.dst]));
    else warp_as<int64_t>(i, a, static_cast<int64_t*>(own[i.dst]));
  }

  // ---- print -------------------------------------------------------------------------------------

  void print(const I& i, Active a) {
    for (int l = a.lo; l < a.hi; ++l) {
      if (!a.has(l)) continue;
      for (int k = 0; k < i.b; ++k) {
        if (k) std::fputc('\t', stdout);
        print_item(program.list[i.a + k], l);
      }
      std::fputc('\n', stdout);
    }
  }
  void print_item(const GridItem& x, int l) {
    if (x.kind == GridItem::text) {
      std::fputs(program.texts[x.at], stdout);
      return;
    }
    GridScalar s{};
    if (x.kind == GridItem::number) {
      s = number[x.at].base;
      if (x.type == GridType::integer) s.whole = value(number[x.at], l);
    } else {
      std::memcpy(&s, static_cast<const char*>(vector[x.at]) + l * bytes_of(x.type),
                  size_t(bytes_of(x.type)));
    }
    if (x.type == GridType::boolean) std::fputs(s.truth ? "true" : "false", stdout);
    else if (x.type == GridType::integer) std::printf("%lld", static_cast<long long>(s.whole));
    else std::printf("%.14g", double(as<R>(s)));
  }
  void check(const I& i, Active a) {
    for (int l = a.lo; l < a.hi; ++l)
      if (a.has(l) && !(i.a < 0 ? at(i.a).truth : truth(i.a)[l]))
        return report(GridFaultKind(i.flag), i, l);
  }

  // ---- tiles -------------------------------------------------------------------------------------

  void set_shape(const int64_t* size) {
    // Stored as scalars: a vector store of two would stall the later load of one (store forwarding).
    const int x = int(size[grid.axes[0]]), y = int(size[grid.axes[1]]), z = int(size[grid.axes[2]]);
    thread_scratch.own->set(x, y, z);
    n[0] = x, n[1] = y, n[2] = z, lanes = x * y * z;
    for (int k = 0; k < 3; ++k) lane[k] = thread_scratch.own->of[k];
  }
  void run_tile(int64_t at) {
    tile = at;
    int64_t place[3], size[3], rest = at;
    for (int d = 0; d < 3; ++d) {
      const int64_t count = grid.tiles(d);
      place[d] = rest % count, rest /= count;
      first[d] = place[d] * grid.tile[d];
      const int64_t left_over = grid.total[d] - first[d];
      size[d] = left_over < grid.tile[d] ? left_over : grid.tile[d];
    }
    set_shape(size);
    for (int k = 0; k < program.numbers; ++k) number[k] = {grid.scalars[k], {0, 0, 0}};
    std::memcpy(vector, own, sizeof(void*) * size_t(program.vectors));
    for (int d = 0; d < 3; ++d) {
      number[kGridBlock + d].base.whole = place[d] + 1;
      number[kGridFirst + d].base.whole = first[d] + 1;
      GridNumber position{{1}, {0, 0, 0}};
      for (int k = 0; k < 3; ++k) position.step[k] = grid.axes[k] == d;
      number[kGridThread + d] = position;
      position.base.whole += first[d];
      number[kGridPlace + d] = position;
    }
    for (int k = 0; k < program.tensors; ++k) {
      const GridTensor& t = tensor[k];
      if (t.shared) std::memset(t.data, 0, size_t(t.size[0] * t.stride[0] * item_size(t.dtype)));
    }
    ++epoch;
    run(0, program.count, {0, lanes, nullptr}, 0);
  }
};

// ---- memory, and the launch ------------------------------------------------------------------------

/// Memory of a thread that is kept between launches.
struct Memory {
  char* data = nullptr;
  size_t bytes = 0;
  bool need(size_t wanted) {
    if (wanted <= bytes) return true;
    std::free(data);
    data = static_cast<char*>(std::aligned_alloc(64, (wanted + 63) / 64 * 64));
    bytes = data ? wanted : 0;
    return data != nullptr;
  }
  ~Memory() { std::free(data); }
};
thread_local Memory memory;

/// Allocates parts of it; with a null `base` it only counts.
struct Parts {
  char* base;
  size_t used = 0;
  template <class T> T* take(int64_t count) {
    T* const part = reinterpret_cast<T*>(base + used);
    used += (size_t(count) * sizeof(T) + 63) / 64 * 64;
    return part;
  }
};

/// Assigns its memory to the machine, or counts it.
void lay_out(GridMachine& m, Parts& parts, bool real) {
  const GridProgram& p = m.program;
  m.number = parts.take<GridNumber>(p.numbers);
  m.own = parts.take<void*>(p.vectors), m.vector = parts.take<void*>(p.vectors);
  m.tensor = parts.take<GridTensor>(p.tensors);
  m.left = parts.take<uint8_t*>(p.count);
  m.masks = parts.take<uint8_t>(int64_t(p.levels) * kMasks * kGridLanes);
  m.valid = parts.take<uint8_t>(kGridLanes), m.condition = parts.take<bool>(kGridLanes);
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
  char* const shared = parts.take<char>(p.shared_bytes);
  if (!real) return;
  char* next = shared;
  std::copy_n(m.grid.tensors, p.tensors, m.tensor);
  for (int k = 0; k < p.tensors; ++k) {
    GridTensor& t = m.tensor[k];
    if (!t.shared) continue;
    t.data = next;
    next += (t.size[0] * t.stride[0] * item_size(t.dtype) + 63) / 64 * 64;
  }
}

/// Keeps the fault of the first tile in grid order.
void keep(const Grid& g, const GridFault& fault) {
  static AtomicInt busy{0};
  int none = 0;
  while (
      !__atomic_compare_exchange_n(&busy.word, &none, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
    none = 0;
  if (g.fault->kind == GridFaultKind::none || fault.tile < g.fault->tile) *g.fault = fault;
  __atomic_store_n(&busy.word, 0, __ATOMIC_RELEASE);
}

template <class R> void run_tiles(const Grid& g, int64_t from, int64_t to) {
  Walk<R> m{{g, *g.program, int(sizeof(R))}};
  Parts parts{nullptr};
  lay_out(m, parts, false);
  if (!memory.need(parts.used) || !thread_scratch.reserve()) {
    m.fault.kind = GridFaultKind::no_memory, m.fault.tile = from;
    return keep(g, m.fault);
  }
  parts = {memory.data};
  lay_out(m, parts, true);
  GridCheck checks;
  m.checks = &checks, m.code_cache = thread_scratch.own->code;
  for (int64_t t = from; t < to && !mt_interrupted && !m.stop; ++t) m.run_tile(t);
  if (m.fault.kind != GridFaultKind::none) keep(g, m.fault);
}

}  // namespace

void launch_grid(const Grid& g) {
  int64_t tiles = 1;
  for (int d = 0; d < 3; ++d) tiles *= g.tiles(d);
  const bool alone = g.program->in_order || g.check || !g.spread;
  const int64_t least = tiles < 32 ? tiles : 32, many = tiles / 8;  // a thread has its own layout
  const int64_t pieces = alone ? 1 : many > 256 ? 256 : many > least ? many : least;
  parallel(pieces, !alone, [&](int64_t i) {
    const int64_t from = tiles * i / pieces, to = tiles * (i + 1) / pieces;
    if (g.program->real == Dtype::f64) run_tiles<double>(g, from, to);
    else run_tiles<float>(g, from, to);
  });
}

}  // namespace MT_ISA
}  // namespace mt
