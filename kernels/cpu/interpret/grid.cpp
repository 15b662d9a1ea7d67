// grid.cpp -- runs a grid kernel on the CPU: tiles of threads in lockstep, one operation for all lanes
//
// A lane is a thread. Uniform control flow is executed directly; if lanes diverge, both branches
// are executed, each with its active lanes (Active). Lanes that leave a loop or scope are kept in
// its `left` mask until it ends.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <utility>

#include "kernels/cpu/interpret/grid_arena.h"
#include "kernels/cpu/interpret/grid_machine.h"
#include "kernels/cpu/jit/grid_native_run.h"
#include "kernels/cpu/jit/grid_rows_run.h"
#include "kernels/cpu/jit/grid_threads.h"
#include "kernels/cpu/verbs/elementwise.h"
#include "kernels/math/number.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// An interpreter of the tree, for kernels with reals R.
template <class R> struct TreeInterpreter : GridMachine {
  using V = GridValue;
  using S = GridStatement;

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
    const uint8_t* const holds = reinterpret_cast<const uint8_t*>(c);
    if (a.mask) {
      MT_INDEPENDENT
      for (int l = a.lo; l < a.hi; ++l) set[l] = uint8_t(a.mask[l] & (holds[l] ^ !wanted));
    } else {
      MT_INDEPENDENT
      for (int l = a.lo; l < a.hi; ++l) set[l] = uint8_t(holds[l] ^ !wanted);
    }
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
  const bool* truth(const V& v) { return static_cast<const bool*>(vector[v.at]); }

  // ---- arithmetic --------------------------------------------------------------------------------

  template <class T> static char* repeat(char* to, T x, int64_t n) {
    for (int64_t k = 0; k < n; ++k) reinterpret_cast<T*>(to)[k] = x;
    return to;
  }
  ConvertLoop conversion(const V& v) const {
    return v.op == kConvert ? convert_loop(dtype_of(v.type), dtype_of(v.of)) : nullptr;
  }
  void scalar_op(const V& v) {
    GridScalar& d = at(v);
    GridScalar &x = at(*v.args.of[0]), &y = at(*v.args.of[v.args.count > 1]);
    if (v.of == GridType::integer) switch (v.op) {
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
    GridScalar& z = v.args.count > 2 ? at(*v.args.of[2]) : x;
    char* const data[] = {reinterpret_cast<char*>(&out), reinterpret_cast<char*>(&x),
                          reinterpret_cast<char*>(&y), reinterpret_cast<char*>(&z)};
    bool takes_one;
    if (const ConvertLoop convert = conversion(v)) convert(data[0], data[1], 1);
    else elementwise_loop(v.op, dtype_of(v.of), takes_one)(data, 1, nullptr, -1);
    d = out;
  }

  void affine_op(const V& v) {
    GridNumber x = number[v.args.of[0]->at];
    const GridNumber& y = number[v.args.of[v.args.count - 1]->at];
    if (v.op == op::id<op::Add> || v.op == op::id<op::Sub>) {
      const int64_t sign = v.op == op::id<op::Add> ? 1 : -1;
      x.base.whole += sign * y.base.whole;
      for (int k = 0; k < 3; ++k) x.step[k] += sign * y.step[k];
    } else if (v.op == op::id<op::Neg>) {
      x.base.whole = -x.base.whole;
      for (int k = 0; k < 3; ++k) x.step[k] = -x.step[k];
    } else {  // a product; one of them is a scalar
      for (int k = 0; k < 3; ++k) x.step[k] = x.step[k] * y.base.whole + x.base.whole * y.step[k];
      x.base.whole *= y.base.whole;
    }
    number[v.at] = x;
  }
  /// Integer division by 0 is reported as a fault.
  void check_divisor(const V& v, Active a) {
    const V& by = *v.args.of[1];
    const int64_t* const y = from_lane_0<int64_t>(by);
    for (int l = a.lo; l < a.hi; ++l)
      if (a.has(l) && y[is_one(by) ? 0 : l] == 0)
        return report(GridFaultKind::division_by_zero, v, l);
  }

  /// The vector v = the output of `run(out)` for the lanes from lo on.
  template <class Run> void write(const V& v, Active a, const Run& run) {
    const int64_t bytes = bytes_of(v.type);
    char* const own_memory = static_cast<char*>(own[v.at]);
    vector[v.at] = own_memory;
    if (!v.masked || !a.mask) return run(own_memory + a.lo * bytes);
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
  static bool divide_by_one(const V& v, void* to, const void* from, int64_t y, int64_t n) {
    const bool rest = v.op == op::id<op::Remainder>;
    if (y <= 0 || y >> 31 || (!rest && v.op != op::id<op::FloorDivide>)) return false;
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
  /// The address of an operand from lane a.lo on, with a scalar repeated in `copied`.
  char* repeated(const V& x, Active a, char* copied) {
    if (!is_one(x)) return operand(x, a.lo);
    const int64_t n = a.hi - a.lo, bytes = bytes_of(x.type);
    const GridScalar& s = at(x);
    return bytes == 1   ? repeat(copied, s.truth, n)
           : bytes == 4 ? repeat(copied, s.single, n)
                        : repeat(copied, s.whole, n);
  }
  void vector_op(const V& v, Active a) {
    const int64_t n = a.hi - a.lo;
    bool takes_one = false;
    const ConvertLoop convert = conversion(v);
    const ElementwiseLoop loop =
        convert ? nullptr : elementwise_loop(v.op, dtype_of(v.of), takes_one);
    char *data[4], *copied = copies;
    int one = -1;
    for (int k = 0; k < v.args.count; ++k) {
      const V& x = *v.args.of[k];
      if (is_one(x) && takes_one && one < 0) {
        data[k + 1] = operand(x, 0), one = k;
        continue;
      }
      data[k + 1] = repeated(x, a, copied);
      if (is_one(x)) copied += 8 * kGridLanes;
    }
    const bool by_one = v.args.count == 2 && is_one(*v.args.of[1]) && !is_one(*v.args.of[0]);
    const int64_t by = by_one ? at(*v.args.of[1]).whole : 0;
    write(v, a, [&](char* out) {
      data[0] = out;
      if (convert) return convert(out, data[1], n);
      if (v.of == GridType::integer && divide_by_one(v, out, data[1], by, n)) return;
      loop(data, n, nullptr, one);
    });
  }
  /// The elements of an affine number.
  void spread_op(const V& v, Active a) {
    const GridNumber& from = number[v.args.of[0]->at];
    const bool real = v.type == GridType::real;
    write(v, a, [&](char* out) {
      int64_t* const numbers = real ? whole + a.lo : reinterpret_cast<int64_t*>(out);
      spread(from, a.lo, a.hi, numbers - a.lo);
      if (!real) return;
      for (int l = 0; l < a.hi - a.lo; ++l) reinterpret_cast<R*>(out)[l] = R(numbers[l]);
    });
  }

  /// Whether all elements of an affine number are far from the limits of int64.
  bool is_small(const GridNumber& x) const {
    double most = std::fabs(double(x.base.whole));
    for (int k = 0; k < 3; ++k) most += std::fabs(double(x.step[k])) * n[k];
    return most < 0x1p61;
  }
  /// lt or le of affine numbers: in each row the result is a range of lanes.
  void compare_op(const V& v, Active a) {
    GridNumber d = number[v.args.of[0]->at];
    const GridNumber& y = number[v.args.of[1]->at];
    if (!is_small(d) || !is_small(y)) {
      bool* const out = static_cast<bool*>(vector[v.at] = own[v.at]);
      for (int l = a.lo; l < a.hi; ++l)
        out[l] = v.op == op::id<op::Lt> ? value(d, l) < value(y, l) : value(d, l) <= value(y, l);
      return;
    }
    d.base.whole -= y.base.whole;
    for (int k = 0; k < 3; ++k) d.step[k] -= y.step[k];
    const int64_t least = v.op == op::id<op::Lt> ? 0 : 1;  // true where d < least
    bool* const out = static_cast<bool*>(vector[v.at] = own[v.at]);
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

  // ---- statements --------------------------------------------------------------------------------

  /// Computes the values of a statement.
  void compute(const S& s, Active a) {
    for (const V* v = s.first; v; v = v->next) step(*v, a);
  }
  [[gnu::always_inline]] void step(const V& v, Active a) {
    if (v.divides) check_divisor(v, a);
    switch (v.code) {
      case GridCode::ready: break;
      case GridCode::scalar: scalar_op(v); break;
      case GridCode::affine: affine_op(v); break;
      case GridCode::load_scalar: load_scalar(v, a); break;
      case GridCode::vector: vector_op(v, a); break;
      case GridCode::load: load(v, a); break;
      case GridCode::spread: spread_op(v, a); break;
      case GridCode::compare: compare_op(v, a); break;
    }
  }
  /// Sets a number to its computed value; vectors are computed in the register of their variable.
  void assign(const S& s) {
    if (s.is != GridClass::vector) number[s.at] = number[s.value->at];
  }

  // ---- control flow ------------------------------------------------------------------------------

  Active run(const GridBody& body, Active a, int level) {
    for (const S* s = body.first; s; s = s->next) {
      if (a.empty() || stop) return kNoLanes;
      a = run(*s, a, level);
    }
    return a;
  }
  Active run(const S& s, Active a, int level) {
    compute(s, a);
    switch (s.kind) {
      case S::assign: assign(s); break;
      case S::store: store(s, a); break;
      case S::atomic_add: atomic_add(s, a); break;
      case S::branch: return s.exit() ? leave_if(s, a, level) : branch(s, a, level);
      case S::count:
        assign(s);
        return s.value->type == GridType::real ? count<R>(s, a, level)
                                               : count<int64_t>(s, a, level);
      case S::loop:
      case S::scope: return loop(s, a, level);
      case S::leave: add(left[s.target->id], a); return kNoLanes;
      case S::barrier: barrier(s, a); break;
      case S::warp: warp(s, a); break;
      case S::print: print(s, a); break;
      case S::item: break;
    }
    return a;
  }

  Active branch(const S& s, Active a, int level) {
    Active yes = a, no = kNoLanes;
    if (is_one(*s.value)) {
      if (!at(*s.value).truth) yes = kNoLanes, no = a;
    } else {
      const bool* const c = truth(*s.value);
      yes = where(a, c, true, mask(level, 0));
      if (!s.other.empty() || s.leaves) no = where(a, c, false, mask(level, 1));
    }
    if (!yes.empty()) yes = moved(run(s.body, yes, level + 1), mask(level, 0));
    if (!no.empty() && !s.other.empty()) no = run(s.other, no, level + 1);
    return s.leaves ? both(yes, no, mask(level, 2)) : a;  // lanes may have left the loop
  }

  Active leave_if(const S& s, Active a, int level) {
    uint8_t* const out = left[s.exit()->target->id];
    if (is_one(*s.value)) {
      if (!at(*s.value).truth) return a;
      add(out, a);
      return kNoLanes;
    }
    const bool* const c = truth(*s.value);
    add(out, where(a, c, true, mask(level, 1)));
    return where(a, c, false, mask(level, 2));
  }

  bool interrupted() const { return mt_interrupted || stop; }
  uint8_t* begin(const S& s, int level) {
    clear(mask(level, 0));
    return left[s.id] = mask(level, 0);
  }
  Active loop(const S& s, Active a, int level) {
    uint8_t* const gone = begin(s, level);
    Active now = a;
    if (s.kind == S::loop) now = native_lanes<R>(*this, s, a, 0, mask(level, 3), gone);
    while (!now.empty() && !interrupted()) {
      now = moved(run(s.body, now, level + 1), mask(level, 3));
      if (s.kind == S::scope) break;
    }
    return both(s.kind == S::scope ? now : kNoLanes, lanes_of(gone, 0, lanes), mask(level, 2));
  }

  template <class T> T& as(GridScalar& s) {
    if constexpr (sizeof(T) == 4) return s.single;
    else if constexpr (math::is_integer<T>) return s.whole;
    else return s.number;
  }
  /// A loop with the same bounds in all lanes, which may leave it.
  template <class T> Active count(const S& s, Active a, int level) {
    if (s.is != GridClass::scalar) return count_lanes<T>(s, a, level);
    const T last = as<T>(at(*s.last)), step = as<T>(at(*s.step));
    T k = as<T>(number[s.at].base);
    if (step == 0) return a;
    if constexpr (math::is_integer<T>)
      if (!s.leaves && native_turns<R>(*this, s, a, k)) return a;
    uint8_t* const gone = s.leaves ? begin(s, level) : nullptr;
    Active now = a;
    if constexpr (math::is_integer<T>)
      if (gone && (step > 0 ? k <= last : last <= k)) {
        const uint64_t up = step > 0 ? uint64_t(step) : 0 - uint64_t(step);
        const uint64_t far = step > 0 ? uint64_t(last) - uint64_t(k) : uint64_t(k) - uint64_t(last);
        const int64_t turns = int64_t(far / up < 0x7fffffff ? far / up : 0x7fffffff) + 1;
        now = native_lanes<R>(*this, s, a, turns, mask(level, 3), gone);
      }
    for (; (step > 0 ? k <= last : last <= k) && !now.empty() && !interrupted();) {
      as<T>(number[s.at].base) = k;
      const Active after = run(s.body, now, level + 1);
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

  template <class T> const T* from_lane_0(const V& v) {
    return reinterpret_cast<const T*>(operand(v, 0));
  }
  /// A loop with bounds that differ between lanes.
  template <class T> Active count_lanes(const S& s, Active a, int level) {
    uint8_t* const gone = begin(s, level);
    uint8_t* const finished = mask(level, 1);
    clear(finished);
    const bool affine = s.is == GridClass::affine;
    const int one_last = is_one(*s.last), one_step = is_one(*s.step);
    bool again = false;
    for (Active now = a; !now.empty() && !interrupted(); again = true) {
      if (affine) spread(number[s.at], now.lo, now.hi, whole);
      const T* const k = static_cast<const T*>(affine ? whole : vector[s.at]);
      const T *const last = from_lane_0<T>(*s.last), *step = from_lane_0<T>(*s.step);
      for (int l = now.lo; l < now.hi; ++l) {
        const T end = last[one_last ? 0 : l], by = step[one_step ? 0 : l];
        condition[l] = by > 0 ? k[l] <= end : by < 0 && end <= k[l];
        if constexpr (math::is_integer<T>)  // a counter beyond the largest integer starts again
          condition[l] &=
              !again || (by > 0 ? k[l] >= math::lowest<T>() + by : k[l] <= math::highest<T>() + by);
        finished[l] |= uint8_t(now.has(l) & !condition[l]);
      }
      now = where(now, condition, true, mask(level, 3));
      now = moved(run(s.body, now, level + 1), mask(level, 3));
      if (affine) number[s.at].base.whole += at(*s.step).whole;
      step = from_lane_0<T>(*s.step);
      for (int l = now.lo; !affine && l < now.hi; ++l)
        if (now.has(l)) static_cast<T*>(own[s.at])[l] += step[one_step ? 0 : l];
    }
    add(finished, lanes_of(gone, 0, lanes));
    std::memcpy(mask(level, 2), finished, size_t(lanes));
    return lanes_of(mask(level, 2), 0, lanes);
  }

  // ---- barriers and warps ------------------------------------------------------------------------

  void barrier(const S& s, Active a) {
    ++epoch;
    if (!grid.check || (!a.mask && a.lo == 0 && a.hi == lanes)) return;
    for (int l = 0; l < lanes; ++l)
      if (l < a.lo || l >= a.hi || !a.has(l))
        return report(GridFaultKind::divergent_barrier, {.line = s.line}, l);
  }

  static constexpr int kWarp = 32;
  template <class T> void warp_as(const S& s, Active a, T* out) {
    const T* const x = from_lane_0<T>(*s.value);
    const int64_t* const by = from_lane_0<int64_t>(*s.step);
    const bool one_by = is_one(*s.step);
    const GridWarp what = s.what;
    for (int w = a.lo / kWarp * kWarp; w < a.hi; w += kWarp) {
      const bool all = !a.mask && w >= a.lo && w + kWarp <= a.hi;
      const auto active = [&](int l) { return all || (l >= a.lo && l < a.hi && a.has(l)); };
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
        const int64_t k = one_by ? *by : by[w + l];
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
  void warp(const S& s, Active a) {
    vector[s.at] = own[s.at];
    if (s.value->type == GridType::real) warp_as<R>(s, a, static_cast<R*>(own[s.at]));
    else warp_as<int64_t>(s, a, static_cast<int64_t*>(own[s.at]));
  }

  // ---- print -------------------------------------------------------------------------------------

  void print(const S& s, Active a) {
    for (int l = a.lo; l < a.hi; ++l) {
      if (!a.has(l)) continue;
      for (const S* x : s.body) {
        if (x != s.body.first) std::fputc('\t', stdout);
        if (x->text) std::fputs(x->text, stdout);
        else print_value(*x->value, l);
      }
      std::fputc('\n', stdout);
    }
  }
  void print_value(const V& v, int l) {
    GridScalar x{};
    if (v.is == GridClass::vector) std::memcpy(&x, operand(v, l), size_t(bytes_of(v.type)));
    else if (v.type == GridType::integer) x.whole = value(number[v.at], l);
    else x = at(v);
    if (v.type == GridType::boolean) std::fputs(x.truth ? "true" : "false", stdout);
    else if (v.type == GridType::integer) std::printf("%lld", static_cast<long long>(x.whole));
    else std::printf("%.14g", double(as<R>(x)));
  }

  // ---- tiles -------------------------------------------------------------------------------------

  void set_shape(const int64_t* size) {
    // Stored as scalars: a vector store of two would stall the later load of one (store forwarding).
    const int x = int(size[grid.axes[0]]), y = int(size[grid.axes[1]]), z = int(size[grid.axes[2]]);
    n[0] = x, n[1] = y, n[2] = z, lanes = x * y * z;
  }
  /// Sets the shape of a tile and its first thread; returns its position among the tiles.
  std::array<int64_t, 3> locate(int64_t at) {
    tile = at;
    std::array<int64_t, 3> place;
    int64_t size[3], rest = at;
    for (int d = 0; d < 3; ++d) {
      const int64_t count = grid.tiles(d);
      place[d] = rest % count, rest /= count;
      first[d] = place[d] * grid.tile[d];
      const int64_t left_over = grid.total[d] - first[d];
      size[d] = left_over < grid.tile[d] ? left_over : grid.tile[d];
    }
    set_shape(size);
    return place;
  }
  /// Runs the threads of a part of a tile's rows one after the other.
  void run_threads(const ThreadCode& code, ThreadFrame& f, int64_t at, int64_t part,
                   int64_t parts) {
    const std::array<int64_t, 3> place = locate(at);
    const int from = int(n[0] * part / parts), to = int(n[0] * (part + 1) / parts);
    for (int z = 0; z < n[2]; ++z)
      for (int y = 0; y < n[1]; ++y) run_threads(code, f, place, {from, y, z}, to);
  }
  /// Runs the threads from a lane on, before lane `to` of its row.
  void run_threads(const ThreadCode& code, ThreadFrame& f, const std::array<int64_t, 3>& place,
                   const std::array<int, 3>& lane, int to) {
    for (int k = 0; k < 3; ++k) {
      const int d = grid.axes[k];
      f.block[d] = place[d] + 1, f.before[d] = first[d];
      f.thread[d] = lane[k] + 1, f.place[d] = first[d] + lane[k] + 1;
    }
    const int64_t end = f.end[grid.axes[0]] = f.place[grid.axes[0]] + to - lane[0];
    int64_t& place_now = f.place[grid.axes[0]];
    for (; place_now < end && !mt_interrupted; ++place_now) {
      code.run(&f);
      if (f.fault < 0) break;
      report_fault(f);  // the threads after it run
    }
  }
  /// Runs the threads of a block from barrier to barrier; a fault ends it.
  void run_block(const ThreadCode& code, ThreadFrame& f, int64_t at) {
    const std::array<int64_t, 3> place = locate(at);
    for (int d = 0; d < 3; ++d) {
      f.block[d] = place[d] + 1, f.thread[d] = 1, f.before[d] = first[d];
      f.place[d] = first[d] + 1, f.end[d] = first[d] + 1 + grid.tile[d];
    }
    if (code.clears) std::memset(f.own, 0, size_t(code.kept));
    code.run(&f);
    if (f.fault >= 0) report_fault(f);
  }
  /// Runs rows of lanes as vectors where that is possible: the tiles from `from` on, before tile `to`.
  void run_rows(RowRunner<TreeInterpreter>& rows, const RowFit& fit, const ThreadCode& code,
                ThreadFrame& f, int64_t from, int64_t to) {
    int axis = 0;
    while (axis < 2 && grid.tiles(axis) == 1) ++axis;
    const int64_t line = grid.tiles(axis);
    for (int64_t next; from < to && !interrupted(); from = next) {
      next = (from / line + 1) * line < to ? (from / line + 1) * line : to;
      rows.run(
          next - from, fit.linear[axis], [&](int64_t row) { start(locate(from + row)); },
          [&](int64_t row, int64_t lo, int64_t hi) {
            run_threads(code, f, locate(from + row), {int(lo), 0, 0}, int(hi));
          });
    }
  }
  void report_fault(ThreadFrame& f) {
    const V& v = *grid_value(program, std::exchange(f.fault, -1));
    int at[3];
    for (int k = 0; k < 3; ++k) at[k] = int(f.place[grid.axes[k]] - first[grid.axes[k]] - 1);
    const int l = (at[2] * n[1] + at[1]) * n[0] + at[0];
    if (v.kind == V::load) report(GridFaultKind::out_of_bounds, v, l, int(f.dim), f.index);
    else report(GridFaultKind::division_by_zero, v, l);
  }
  /// Sets the numbers that a tile begins with.
  void start(const std::array<int64_t, 3>& place) {
    for (int k = 0; k < program.numbers; ++k) number[k] = {grid.scalars[k], {0, 0, 0}};
    for (int d = 0; d < 3; ++d) {
      number[kGridBlock + d].base.whole = place[d] + 1;
      number[kGridFirst + d].base.whole = first[d] + 1;
      GridNumber position{{1}, {0, 0, 0}};
      for (int k = 0; k < 3; ++k) position.step[k] = grid.axes[k] == d;
      number[kGridThread + d] = position;
      position.base.whole += first[d];
      number[kGridPlace + d] = position;
    }
  }
  void clear_shared() {
    for (int k = 0; k < program.tensors; ++k) {
      const GridTensor& t = tensor[k];
      if (t.shared) std::memset(t.data, 0, size_t(t.size[0] * t.stride[0] * item_size(t.dtype)));
    }
  }
  void run_tile(int64_t at) {
    start(locate(at));
    std::memcpy(vector, own, sizeof(void*) * size_t(program.vectors));
    clear_shared();
    ++epoch;
    run(program.body, {0, lanes, nullptr}, 0);
  }
};

// ---- the launch ------------------------------------------------------------------------------------

thread_local ThreadArena memory;

/// Runs tiles in lanes or, with `code`, parts of tiles thread after thread, or as rows.
template <class R>
void run_tiles(const Grid& g, const ThreadCode& code, const RowFit* rows, int64_t parts,
               int64_t from, int64_t to) {
  TreeInterpreter<R> m{{g, *g.program, int(sizeof(R))}};
  ThreadFrame frame;
  const bool threads = code.run && !rows;
  ArenaLayout layout{nullptr};
  const auto lay = [&](bool real) {
    if (!threads) return lay_out(m, layout, real, rows);
    lay_out_tensors(m, layout, real, !code.by_block);
    frame.own = layout.take<char>(code.kept);
  };
  lay(false);
  if (!memory.need(layout.used)) {
    m.fault.kind = GridFaultKind::no_memory, m.fault.tile = from;
    return keep(g, m.fault);
  }
  layout = {memory.data};
  lay(true);
  if (rows) m.tensor = const_cast<GridTensor*>(g.tensors);
  frame.tensors = m.tensor, frame.scalars = g.scalars, frame.interrupted = &mt_interrupted;
  frame.fault = -1;
  if (rows) {
    RowRunner<TreeInterpreter<R>> row(m, *memory.rows, m.valid);
    m.run_rows(row, *rows, code, frame, from, to);
  } else if (threads) {
    for (int64_t t = from; t < to && !mt_interrupted; ++t) {
      m.clear_shared();
      if (code.by_block) m.run_block(code, frame, t);
      else m.run_threads(code, frame, t / parts, t % parts, parts);
    }
  } else {
    GridCheck checks;
    m.checks = &checks, m.code_cache = memory.code;
    if (g.check) m.watch();
    for (int64_t t = from; t < to && !mt_interrupted && !m.stop; ++t) m.run_tile(t);
  }
  if (m.fault.kind != GridFaultKind::none) keep(g, m.fault);
}

}  // namespace

constexpr int64_t kLongestRow = 16384;

void launch_grid(const Grid& given) {
  const auto find_loop = [](int op, Dtype dtype) {
    bool takes_one;
    return elementwise_loop(op, dtype, takes_one);
  };
  static const ThreadCode none;
  const ThreadCode& code = given.check ? none : thread_code(given, find_loop);
  const bool waits = code.by_block || given.program->shares;
  const RowFit* const rows = code.run && !waits ? rows_fit(given) : nullptr;
  if (given.way)
    *given.way = rows            ? GridWay::rows
                 : code.by_lanes ? GridWay::vectors
                 : code.run      ? GridWay::threads
                                 : GridWay::lanes;
  Grid g = given;
  // Blocks are in the order of their threads: one tile may have many.
  const bool joins = code.run && code.by_place && !waits && g.total[1] * g.total[2] == 1;
  if (const int x = g.axes[0]; rows ? !rows->by_blocks : joins && g.program->in_order && x == 0)
    g.tile[x] = g.total[x] < kLongestRow ? g.total[x] : kLongestRow;
  int64_t tiles = 1;
  for (int d = 0; d < 3; ++d) tiles *= g.tiles(d);
  const bool alone = g.program->in_order || g.check || !g.spread;
  const bool cuts = code.run && !rows && !waits && !alone && tiles < 32;
  const int64_t parts = cuts ? 32 / tiles : 1, all = tiles * parts;
  const int64_t least = all < 32 ? all : 32,
                many = all / (rows ? 32 : 8);  // each has its own layout
  const int64_t pieces = alone ? 1 : many > 256 ? 256 : many > least ? many : least;
  parallel(pieces, !alone, [&](int64_t i) {
    const int64_t from = all * i / pieces, to = all * (i + 1) / pieces;
    if (g.program->real == Dtype::f64) run_tiles<double>(g, code, rows, parts, from, to);
    else run_tiles<float>(g, code, rows, parts, from, to);
  });
}

}  // namespace MT_ISA
}  // namespace mt
