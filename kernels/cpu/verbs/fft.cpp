// fft.cpp -- the fft verb: Fourier transforms of blocks of lines, as many as a register has elements
//
// A block is copied to scratch memory, where a row has one element of each of its lines, so that all
// arithmetic is on whole rows; a line of adjacent elements is a block of its own neighbours. The
// transform is Stockham's: each pass splits off one factor of n and sorts as it goes (Van Loan,
// Computational Frameworks for the Fast Fourier Transform, 1.7).
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/pool/parallel.h"
#include "kernels/cpu/simd/transpose.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

template <class T> constexpr int kLines = simd::kWidth<T>;

/// One complex number.
template <class T> struct Number {
  T re, im;
  friend MT_SIMD Number operator*(Number a, Number b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
};

/// A row: a complex number for each line of the block.
template <class T> struct Row {
  typedef T Vector __attribute__((vector_size(sizeof(simd::F32s)), may_alias));
  typedef T Unaligned
      __attribute__((vector_size(sizeof(simd::F32s)), may_alias, aligned(sizeof(T))));
  Vector re, im;
  /// Reads or writes complex numbers that are adjacent in memory.
  MT_SIMD void load(const T* from) { load(from, std::make_index_sequence<kLines<T>>()); }
  MT_SIMD void store(T* to) const { store(to, std::make_index_sequence<kLines<T>>()); }
  friend MT_SIMD Row operator+(const Row& a, const Row& b) { return {a.re + b.re, a.im + b.im}; }
  friend MT_SIMD Row operator-(const Row& a, const Row& b) { return {a.re - b.re, a.im - b.im}; }
  friend MT_SIMD Row operator*(const Row& a, T w) { return {a.re * w, a.im * w}; }
  template <class W> friend MT_SIMD Row operator*(const Row& a, const W& w) {
    const Vector re = spread(w.re), im = spread(w.im);
    return {simd::fma(a.re, re, -(a.im * im)), simd::fma(a.re, im, a.im * re)};
  }
  /// a w + b.
  friend MT_SIMD Row multiply_add(const Row& a, T w, const Row& b) {
    return {simd::fma(a.re, spread(w), b.re), simd::fma(a.im, spread(w), b.im)};
  }
  /// a times i.
  friend MT_SIMD Row turned(const Row& a) { return {-a.im, a.re}; }
  friend MT_SIMD Row conj(const Row& a) { return {a.re, -a.im}; }
  /// The lines in reverse order.
  MT_SIMD Row reversed() const { return reversed(std::make_index_sequence<kLines<T>>()); }

 private:
  template <class W> static MT_SIMD Vector spread(const W& w) {
    if constexpr (std::is_same_v<W, T>) return simd::broadcast(w);
    else return w;
  }
  template <size_t... I> MT_SIMD Row reversed(std::index_sequence<I...>) const {
    return {__builtin_shufflevector(re, re, int(kLines<T> - 1 - I)...),
            __builtin_shufflevector(im, im, int(kLines<T> - 1 - I)...)};
  }
  template <size_t... I> MT_SIMD void load(const T* from, std::index_sequence<I...>) {
    const Vector low = *reinterpret_cast<const Unaligned*>(from),
                 high = *reinterpret_cast<const Unaligned*>(from + kLines<T>);
    re = __builtin_shufflevector(low, high, int(2 * I)...);
    im = __builtin_shufflevector(low, high, int(2 * I + 1)...);
  }
  template <size_t... I> MT_SIMD void store(T* to, std::index_sequence<I...>) const {
    constexpr int L = kLines<T>;
    *reinterpret_cast<Unaligned*>(to) = __builtin_shufflevector(re, im, int(I / 2 + I % 2 * L)...);
    *reinterpret_cast<Unaligned*>(to + L) =
        __builtin_shufflevector(re, im, int(L / 2 + I / 2 + I % 2 * L)...);
  }
};

/// The transform of 2, 4, 8 or 16 numbers, or of an odd number R, by every `step`-th root.
template <int R, class T> struct Butterfly {
  static constexpr int half = (R - 1) / 2;
  T cosine[R], sine[R];
  Butterfly(const Number<T>* roots, int64_t step) {
    for (int k = 0; k < R; ++k) cosine[k] = roots[step * k].re, sine[k] = roots[step * k].im;
  }
  MT_SIMD void operator()(Row<T> (&a)[R]) const {
    if constexpr (R == 2) {
      const Row<T> x = a[0];
      a[0] = x + a[1], a[1] = x - a[1];
    } else if constexpr (R == 4) {
      four(a[0], a[1], a[2], a[3], sine[1]);
    } else if constexpr (R == 8) {
      four(a[0], a[2], a[4], a[6], sine[2]), four(a[1], a[3], a[5], a[7], sine[2]);
      const Row<T> x[] = {a[0], a[2], a[4], a[6]},
                   y[] = {a[1], a[3] + turned(a[3]) * sine[2], turned(a[5]) * sine[2],
                          turned(a[7]) * sine[2] - a[7]};
      a[0] = x[0] + y[0], a[4] = x[0] - y[0], a[2] = x[2] + y[2], a[6] = x[2] - y[2];
      for (int k = 1; k < 4; k += 2) {  // the roots 1 and 3 have parts of one size
        a[k] = multiply_add(y[k], cosine[1], x[k]), a[k + 4] = multiply_add(y[k], -cosine[1], x[k]);
      }
    } else if constexpr (R == 16) {
      Row<T> b[R];
      for (int i = 0; i < 4; ++i) {
        four(a[i], a[i + 4], a[i + 8], a[i + 12], sine[4]);
        for (int k = 0; k < 4; ++k)
          b[i + 4 * k] =
              i * k > 0 ? a[i + 4 * k] * Number<T>{cosine[i * k], sine[i * k]} : a[i + 4 * k];
      }
      for (int k = 0; k < 4; ++k) {
        four(b[4 * k], b[4 * k + 1], b[4 * k + 2], b[4 * k + 3], sine[4]);
        for (int i = 0; i < 4; ++i) a[k + 4 * i] = b[4 * k + i];
      }
    } else {
      Row<T> sum[half], difference[half], x = a[0];
      for (int j = 0; j < half; ++j) {
        sum[j] = a[j + 1] + a[R - 1 - j], difference[j] = turned(a[j + 1] - a[R - 1 - j]);
        a[0] = a[0] + sum[j];
      }
      for (int k = 1; k <= half; ++k) {
        Row<T> even = x, odd = difference[0] * sine[k];
        for (int j = 0; j < half; ++j) even = multiply_add(sum[j], cosine[(j + 1) * k % R], even);
        for (int j = 1; j < half; ++j)
          odd = multiply_add(difference[j], sine[(j + 1) * k % R], odd);
        a[k] = even + odd, a[R - k] = even - odd;
      }
    }
  }

 private:
  static MT_SIMD void four(Row<T>& a, Row<T>& b, Row<T>& c, Row<T>& d, T sine) {
    const Row<T> p = a + c, q = b + d, r = a - c, s = turned(b - d) * sine;
    a = p + q, b = r + s, c = p - q, d = r - s;
  }
};

/// A pass: transforms of length r * m, of which `s` are interleaved, become r times as many of length m. The roots of
/// r * m * s and of r are the powers `unit` and `step` of the root of n.
struct Pass {
  int64_t r, m, s, unit, step;
};
/// The passes of transforms of `length` elements, a divisor of n.
struct Passes {
  int count = 0;
  Pass at[64];
  Passes(int64_t n, int64_t length) {
    for (int64_t m = length, s = 1; m > 1;) {
      const int64_t r = factor_of(m);
      m /= r;
      at[count++] = {r, m, s, n / length, n / r};
      s *= r;
    }
  }
  /// 8 or 4 as long as they leave no 2.
  static int64_t factor_of(int64_t n) {
    if (n % 8 == 0 && n % 32 != 16) return 8;
    if (n % 4 == 0) return 4;
    int64_t r = 2;
    while (n % r != 0) ++r;
    return r;
  }
};

/// A pass from the rows x to the rows y.
template <class T> struct Transform {
  const Row<T>* x;
  Row<T>* y;
  const Number<T>* roots;
  int64_t n;
  Pass pass;

  template <int R, bool kTwiddled>
  MT_SIMD void butterflies(const Butterfly<R, T>& butterfly, int64_t p) const {
    const auto [r, m, s, unit, step] = pass;
    Number<T> w[R];
    for (int k = 1; k < R && kTwiddled; ++k) w[k] = roots[unit * s * p * k];
    for (int64_t q = 0; q < s; ++q) {
      Row<T> a[R];
      for (int j = 0; j < R; ++j) a[j] = x[q + s * (p + m * j)];
      butterfly(a);
      y[q + s * R * p] = a[0];
      for (int k = 1; k < R; ++k) y[q + s * (R * p + k)] = kTwiddled ? a[k] * w[k] : a[k];
    }
  }
  template <int R> __attribute__((noinline)) void split() const {
    const Butterfly<R, T> butterfly(roots, pass.step);
    butterflies<R, false>(butterfly, 0);
    for (int64_t p = 1; p < pass.m; ++p) butterflies<R, true>(butterfly, p);
  }
  /// The same for any r, by the definition.
  __attribute__((noinline)) void split_any() const {
    const auto [r, m, s, unit, step] = pass;
    for (int64_t p = 0; p < m; ++p)
      for (int64_t k = 0; k < r; ++k)
        for (int64_t q = 0; q < s; ++q) {
          int64_t root = unit * s * p * k;
          Row<T> sum = x[q + s * p] * roots[root];
          for (int64_t j = 1; j < r; ++j) {
            root += step * k;
            if (root >= n) root -= n;
            sum = sum + x[q + s * (p + m * j)] * roots[root];
          }
          y[q + s * (r * p + k)] = sum;
        }
  }
  void run() const {
    switch (pass.r) {
      case 2: return split<2>();
      case 3: return split<3>();
      case 4: return split<4>();
      case 5: return split<5>();
      case 7: return split<7>();
      case 8: return split<8>();
      case 11: return split<11>();
      case 13: return split<13>();
      default: return split_any();
    }
  }
};

/// Transforms the rows x, with y as the other buffer. Returns the buffer that has the result.
template <class T> Row<T>* transform(Row<T>* x, Row<T>* y, const Fft& c, const Passes& passes) {
  for (int i = 0; i < passes.count && !mt_interrupted; ++i) {
    Transform<T>{x, y, static_cast<const Number<T>*>(c.roots), c.n, passes.at[i]}.run();
    Row<T>* const other = x;
    x = y, y = other;
  }
  return x;
}

/// Whether elements 2 j and 2 j + 1 of a real side are the complex number j.
bool fft_pairs(const Fft& c) {
  return c.n % 2 == 0 && (c.in.layout == FftLayout::real || c.out.layout == FftLayout::real);
}
/// The complex numbers of a line that are transformed.
int64_t fft_length(const Fft& c) { return fft_pairs(c) ? c.n / 2 : c.n; }
/// The numbers of T in an element of a side.
int64_t parts_of(const FftSide& s) { return s.layout == FftLayout::real ? 1 : 2; }

/// Frequency k of n real numbers, from number k of the transform of the pairs and the conjugate of number n / 2 - k, is
/// even + odd, and that of n / 2 - k the conjugate of even - odd; `joined` is the inverse, times 2.
template <class T> struct Halves {
  Row<T> even, odd;
  template <class W> static MT_SIMD Halves split(const Row<T>& a, const Row<T>& b, const W& root) {
    return {(a + b) * T(0.5), turned((a - b) * T(-0.5)) * root};
  }
  template <class W> static MT_SIMD Halves joined(const Row<T>& a, const Row<T>& b, const W& root) {
    return {a + b, turned((a - b) * root)};
  }
};

/// The lines from `first` on.
template <class T> struct Block {
  static constexpr int L = kLines<T>;
  const Fft& c;
  int lines;
  int64_t line[L] = {};  // its index b
  struct Side {
    const FftSide& s;
    int64_t start[L],
        rows[L];  // the offset of each line, and the number of its elements that exist
    bool regular,
        adjacent;  // the offsets have equal differences, which are 1 number; rows are equal
  } in{c.in, {}, {}, true, true}, out{c.out, {}, {}, true, true};

  Block(const Fft& call, int64_t first)
      : c(call),
        lines(int(smaller(int64_t(L), c.outer * c.columns * c.inner - first))) {
    int64_t i = first % c.inner, column = first / c.inner % c.columns,
            batch = first / c.inner / c.columns;
    const bool entries = c.columns * c.inner == 1;
    if (entries) locate_entries(in, first), locate_entries(out, first);
    for (int v = 0; v < lines && !entries; ++v) {
      line[v] = column;
      locate(in, v, batch, i), locate(out, v, batch, i);
      if (++i == c.inner) i = 0, ++column;
      if (column == c.columns) column = 0, ++batch;
    }
  }
  bool in_pairs() const { return fft_pairs(c); }
  int64_t length() const { return fft_length(c); }
  static bool is_folded(const FftSide& s) { return s.layout == FftLayout::half && s.whole; }
  void locate(Side& side, int v, int64_t batch, int64_t i) {
    const FftSide& s = side.s;
    const int64_t at = batch * s.batch + (is_folded(s) ? 0 : line[v] * s.line * c.inner) + i;
    side.start[v] = at * parts_of(s);
    int64_t& n = side.rows[v] = length();
    if (is_folded(s)) n = c.n;
    else if (s.layout == FftLayout::half) n = c.n / 2 + 1;
    else if (s.layout == FftLayout::complex)
      n = smaller(n, s.whole ? ceil_div(larger(0, s.count - line[v] * s.line), s.step) : s.count);
    if (v == 0) return;
    const int64_t apart = side.start[v] - side.start[v - 1];
    side.regular &= apart == side.start[1] - side.start[0] && n == side.rows[0];
    side.adjacent &= apart == parts_of(s);
  }
  /// Lines that are whole entries of the batch: where short ones are transformed, this takes less time than `locate`.
  void locate_entries(Side& side, int64_t first) {
    locate(side, 0, first, 0);
    const int64_t apart = side.s.batch * parts_of(side.s);
    for (int v = 1; v < lines; ++v)
      side.start[v] = side.start[0] + v * apart, side.rows[v] = side.rows[0];
    side.adjacent = side.s.batch == 1;
  }
  T weight(int64_t k, int64_t n, double inside) const {
    return T(k == 0 || 2 * k == n ? c.scale : inside);
  }

  /// Copies the elements of all lines into rows, or back. The real part of number e of a line is at
  /// start + e * step, and the imaginary part `im` elements later, if that is not 0.
  template <bool kStore> void copy(const Side& side, Row<T>* x) const {
    const bool real = side.s.layout == FftLayout::real, full = lines == L && side.regular;
    const int64_t apart = side.s.step * c.inner, step = real && !in_pairs() ? apart : 2 * apart,
                  im = !real        ? 1
                       : in_pairs() ? apart
                                    : 0,
                  rows = side.rows[0];
    T* const data = static_cast<T*>(side.s.data);
    if constexpr (!kStore)
      if (!full || rows < length())
        std::memset(static_cast<void*>(x), 0, size_t(c.n + 1) * sizeof *x);
    if (is_folded(side.s)) return copy_folded<kStore>(side, x);
    if (full && apart == 1) {
      if (!kStore && !im) std::memset(static_cast<void*>(x), 0, size_t(rows) * sizeof *x);
      const int64_t next = side.start[1] - side.start[0], pitch = im ? L : 2 * L,
                    count = im ? 2 * rows : rows;
      T *const line = data + side.start[0], *const row = reinterpret_cast<T*>(x);
      return kStore ? transpose(line, next, row, pitch, L, count)
                    : transpose(row, pitch, line, next, count, L);
    }
    if (full && side.adjacent) {
      T* at = data + side.start[0];
      for (int64_t e = 0; e < rows; ++e, at += step) {
        if (!real) kStore ? x[e].store(at) : x[e].load(at);
        else if (kStore) simd::store(at, x[e].re), im ? simd::store(at + im, x[e].im) : void();
        else x[e] = {simd::load(at), im ? simd::load(at + im) : simd::broadcast(T(0))};
      }
      return;
    }
    for (int v = 0; v < lines; ++v) {
      T *at = data + side.start[v], *row = reinterpret_cast<T*>(x) + v;
      for (int64_t e = 0; e < side.rows[v]; ++e, at += step, row += 2 * L) {
        kStore ? * at = *row : * row = *at;
        if (im) kStore ? at[im] = row[L] : row[L] = at[im];
        else if (!kStore) row[L] = 0;
      }
    }
  }
  /// The numbers of all lines at the positions first .. first + L - 1 of `total`, if they are adjacent in memory, from
  /// `at` on. `mirrored`: they are the conjugates of a half side, in reverse order.
  struct Stretch {
    bool adjacent, mirrored;
    int64_t at;
    Row<T> turn(const Row<T>& x) const { return mirrored ? conj(x.reversed()) : x; }
  };
  Stretch stretch(const FftSide& s, int64_t e) const {
    const int64_t first = line[0] * s.line + e * s.step, last = first + L - 1;
    const bool in_order = lines == L && s.line * c.inner == 1 && line[L - 1] - line[0] == L - 1,
               half = s.layout == FftLayout::half, mirrored = half && 2 * first > c.total,
               inside = half ? first > 0 && (mirrored || 2 * last < c.total) : last < s.count;
    return {in_order && inside, mirrored, mirrored ? c.total - last : first};
  }
  /// The same for a half side of `total`: frequency k, or the conjugate of total - k.
  template <bool kStore> void copy_folded(const Side& side, Row<T>* x) const {
    const FftSide& s = side.s;
    T* const data = static_cast<T*>(s.data);
    const double inside = kStore ? c.inside : c.inside / 2;
    for (int64_t e = 0; e < c.n; ++e) {
      if (const Stretch z = stretch(s, e); z.adjacent) {
        T* const at = data + side.start[0] + 2 * z.at;
        if (!kStore) x[e].load(at);
        const Row<T> y = z.turn(x[e]) * T(inside);
        kStore ? y.store(at) : void(x[e] = y);
        continue;
      }
      for (int v = 0; v < lines; ++v) {
        const int64_t k = line[v] * s.line + e * s.step, f = smaller(k, c.total - k);
        T *const z = data + side.start[v] + 2 * f * c.inner, *const row =
                                                                 reinterpret_cast<T*>(x + e) + v;
        const T w = weight(f, c.total, inside), sign = f < k ? -w : w;
        kStore ? z[0] = row[0] * w : row[0] = z[0] * w;
        kStore ? z[1] = row[L] * sign : row[L] = z[1] * sign;
      }
    }
  }

  /// Multiplies by the factors of a side; those of a half side are of the frequencies up to total / 2.
  void multiply_side(Row<T>* x, const Side& side) const {
    const FftSide& s = side.s;
    const Number<T>* const factor = static_cast<const Number<T>*>(s.factor);
    if (!factor) return;
    if (!s.whole) {
      for (int64_t e = 0; e < side.rows[0]; ++e) x[e] = x[e] * factor[e];
      return;
    }
    for (int64_t e = 0; e < c.n; ++e) {
      Row<T> w;
      if (const Stretch z = stretch(s, e); z.adjacent) {
        w.load(&factor[z.at].re);
        x[e] = x[e] * z.turn(w);
        continue;
      }
      alignas(64) T re[L] = {}, im[L] = {};
      for (int v = 0; v < lines; ++v) {
        if (e >= side.rows[v]) continue;
        const int64_t k = line[v] * s.line + e * s.step,
                      f = is_folded(s) ? smaller(k, c.total - k) : k;
        re[v] = factor[f].re, im[v] = f < k ? -factor[f].im : factor[f].im;
      }
      x[e] = x[e] * Row<T>{simd::load(re), simd::load(im)};
    }
  }
  /// Row e of the powers line * e of total's root, for some of the lines' own tables of powers.
  Row<T> power(int64_t e) const {
    const auto* const low = reinterpret_cast<const Number<double>*>(c.twiddles);
    const auto* const high = low + (int64_t(1) << c.low_bits);
    alignas(64) T re[L], im[L];
    for (int v = 0; v < L; ++v) {
      const int64_t k = line[v] * e;
      const Number<double> z = low[k & (high - low - 1)] * high[k >> c.low_bits];
      re[v] = T(z.re), im[v] = T(z.im);
    }
    return {simd::load(re), simd::load(im)};
  }
  /// The power line * e is a product of two, of a multiple of `few` and of a smaller number.
  void multiply_twiddles(Row<T>* x) const {
    const int64_t n = c.out.layout == FftLayout::half ? c.n / 2 + 1 : c.n;
    constexpr int64_t kMax = 64;
    int64_t few = 4;
    while (few * few < n && few < kMax) few *= 2;
    Row<T> low[kMax];
    for (int64_t e = 0; e < smaller(few, n); ++e) low[e] = power(e), x[e] = x[e] * low[e];
    for (int64_t from = few; from < n; from += few) {
      const Row<T> high = power(from);
      for (int64_t e = from; e < smaller(from + few, n); ++e) x[e] = x[e] * (low[e - from] * high);
    }
  }

  /// Replaces the frequencies 0 .. n / 2 of n real numbers by the numbers whose transform are the real
  /// ones in pairs.
  void join_half(Row<T>* x) const {
    const Number<T>* const roots = static_cast<const Number<T>*>(c.roots);
    const int64_t m = c.n / 2;
    x[0].im = x[m].im = typename Row<T>::Vector{};
    for (int64_t k = 0; 2 * k <= m; ++k) {
      const auto [even, odd] = Halves<T>::joined(x[k], conj(x[m - k]), roots[k]);
      x[k] = even + odd;
      if (k > 0) x[m - k] = conj(even - odd);
    }
  }
  /// The inverse: from the transform of the pairs to frequencies.
  void split_half(Row<T>* x) const {
    const Number<T>* const roots = static_cast<const Number<T>*>(c.roots);
    const int64_t m = c.n / 2;
    x[m] = x[0];
    for (int64_t k = 0; 2 * k <= m; ++k) {
      const auto [even, odd] = Halves<T>::split(x[k], conj(x[m - k]), roots[k]);
      x[k] = even + odd, x[m - k] = conj(even - odd);
    }
  }

  /// Scales the frequencies 0 .. n / 2, unless `copy` does that.
  void scale_half(Row<T>* x, const FftSide& s, double inside) const {
    if (!s.whole && (c.scale != 1 || inside != 1))
      for (int64_t k = 0; k <= c.n / 2; ++k) x[k] = x[k] * weight(k, c.n, inside);
  }

  void run(Row<T>* x, Row<T>* y, const Passes& passes) const {
    const bool from_half = c.in.layout == FftLayout::half,
               to_half = c.out.layout == FftLayout::half;
    copy<false>(in, x);
    if (from_half) scale_half(x, c.in, c.inside / 2);
    if (from_half && in_pairs()) join_half(x);
    else if (from_half && !c.in.whole)
      for (int64_t k = 1; k <= c.n / 2; ++k) x[c.n - k] = conj(x[k]);
    multiply_side(x, in);
    x = transform(x, y, c, passes);
    if (to_half && in_pairs()) split_half(x);
    if (c.twiddles) multiply_twiddles(x);
    multiply_side(x, out);
    if (to_half) scale_half(x, c.out, c.inside);
    else if (!from_half && c.scale != 1)
      for (int64_t e = 0; e < c.n; ++e) x[e] = x[e] * T(c.scale);
    copy<true>(out, x);
  }
};

/// A line of adjacent complex numbers, or of real ones in pairs, as a matrix of m rows of a register each: its columns
/// are transformed as the lines of a block are, then its rows, across registers, in squares that are transposed
/// (Bailey, FFTs in external or hierarchical memory, 1990). Nothing is copied, and the matrix stays in the L1 cache.
template <class T> struct Line {
  static constexpr int L = kLines<T>;
  const Fft& c;
  const int64_t n = fft_length(c), m = n / L;
  const Number<T>* const roots = static_cast<const Number<T>*>(c.roots);
  // Of element k, q of the matrix the power k q of the root of n, in squares.
  Row<T>* const twiddles;

  explicit Line(const Fft& call)
      : c(call),
        twiddles(reinterpret_cast<Row<T>*>(static_cast<char*>(c.scratch) + fft_scratch(c.n) / 2)) {}

  static bool serves(const Fft& c) {
    const int64_t n = fft_length(c);
    return n % L == 0 && n >= L * L && c.columns * c.inner == 1 && !c.in.whole && !c.out.whole;
  }
  void fill_twiddles() const {
    T* to = reinterpret_cast<T*>(twiddles);
    for (int64_t k = 0; k < m; k += L)
      for (int64_t q = 0; q < L; ++q, to += 2 * L)
        for (int64_t v = 0; v < L; ++v) {
          const Number<T> w = k + v < m ? roots[c.n / n * q * (k + v)] : Number<T>{};
          to[v] = w.re, to[v + L] = w.im;
        }
  }

  /// The numbers e .. e + L - 1 of `count` at `data`; those behind are 0.
  static MT_SIMD Row<T> read(const T* data, int64_t e, int64_t count) {
    Row<T> x;
    if (e + L <= count) return x.load(data + 2 * e), x;
    T some[2 * L] = {};
    if (e < count) std::memcpy(some, data + 2 * e, size_t(2 * (count - e)) * sizeof(T));
    return x.load(some), x;
  }
  static MT_SIMD void write(const Row<T>& x, T* data, int64_t e, int64_t count) {
    if (e + L <= count) return x.store(data + 2 * e);
    T some[2 * L];
    x.store(some);
    if (e < count) std::memcpy(data + 2 * e, some, size_t(2 * (count - e)) * sizeof(T));
  }
  /// The numbers of a side that exist.
  int64_t count_of(const FftSide& s) const {
    return s.layout == FftLayout::complex ? smaller(s.count, n) : n;
  }
  /// The conjugates of the numbers n - e, n - e - 1, ..
  MT_SIMD Row<T> mirrored(const T* data, int64_t e) const {
    Row<T> x;
    x.load(data + 2 * (n - e - L + 1));
    return conj(x.reversed());
  }
  Row<T> root_row(int64_t e) const { return read(&roots->re, e, c.n); }

  void load(const T* data, Row<T>* x) const {
    const int64_t count = count_of(c.in);
    const T* const factor = static_cast<const T*>(c.in.factor);
    for (int64_t r = 0; r < m; ++r) {
      x[r] = read(data, r * L, count);
      if (factor) x[r] = x[r] * read(factor, r * L, count);
    }
  }
  /// Block::join_half.
  void load_half(const T* data, Row<T>* x) const {
    for (int64_t e = 0; e < n; e += L) {
      const auto [even, odd] = Halves<T>::joined(read(data, e, n), mirrored(data, e), root_row(e));
      x[e / L] = (even + odd) * T(c.inside / 2);
    }
    x->re[0] = (data[0] + data[2 * n]) * T(c.scale),
    x->im[0] = (data[0] - data[2 * n]) * T(c.scale);
  }
  /// Block::split_half, of the n numbers z and the first one again.
  void store_half(T* z, T* data) const {
    const T* const factor = static_cast<const T*>(c.out.factor);
    z[2 * n] = z[0], z[2 * n + 1] = z[1];
    for (int64_t e = 0; e < n; e += L) {
      const auto [even, odd] = Halves<T>::split(read(z, e, n), mirrored(z, e), root_row(e));
      Row<T> y = (even + odd) * T(c.inside);
      if (factor) y = y * read(factor, e, n);
      write(y, data, e, n);
    }
    const T ends[] = {(z[0] + z[1]) * T(c.scale), (z[0] - z[1]) * T(c.scale)};
    for (int end = 0; end < 2; ++end) {
      const int64_t at = end * 2 * n;
      data[at] = factor ? ends[end] * factor[at] : ends[end];
      data[at + 1] = factor ? ends[end] * factor[at + 1] : 0;
    }
  }
  /// Transforms the rows of the matrix x to n numbers, of which `count` are stored.
  void store(const Row<T>* x, T* data, int64_t count, const T* factor, T scale) const {
    const Butterfly<L, T> butterfly(roots, c.n / L);
    constexpr int lane = simd::kLane<T>;
    const Row<T>* w = twiddles;
    for (int64_t k = 0; k < m; k += L, w += L) {
      Row<T> a[L];
      const T* const square = &x[k].re[0];
      for (int i = 0; i < L; i += lane)
        for (int part = 0; part < 2; ++part) {
          simd::Vector<T> r[lane];
          for (int j = 0; j < lane; ++j)
            r[j] = simd::load_lanes(square + 2 * L * j + part * L + i, 2 * L * lane);
          simd::transpose_lanes(r);
          for (int j = 0; j < lane; ++j) (part ? a[i + j].im : a[i + j].re) = r[j];
        }
      for (int q = 1; q < L; ++q) a[q] = a[q] * w[q];
      butterfly(a);
      for (int q = 0; q < L; ++q) {
        const int64_t e = k + m * q, end = smaller(count, m * (q + 1));
        if (factor) a[q] = a[q] * read(factor, e, end);
        if (scale != 1) a[q] = a[q] * scale;
        write(a[q], data, e, end);
      }
    }
  }

  /// Line number `line`, with 3 (m + L) rows of scratch memory.
  void run(int64_t line, Row<T>* x, const Passes& passes) const {
    Row<T>*const y = x + m + L, *const z = y + m + L;
    const auto at = [&](const FftSide& s) {
      return static_cast<T*>(s.data) + line * s.batch * parts_of(s);
    };
    c.in.layout == FftLayout::half ? load_half(at(c.in), x) : load(at(c.in), x);
    x = transform(x, y, c, passes);
    std::memset(static_cast<void*>(x + m), 0, size_t((L - m % L) % L) * sizeof *x);
    if (c.out.layout != FftLayout::half) {
      const bool scaled = c.in.layout != FftLayout::half;
      return store(x, at(c.out), count_of(c.out), static_cast<const T*>(c.out.factor),
                   scaled ? T(c.scale) : T(1));
    }
    store(x, reinterpret_cast<T*>(z), n, nullptr, 1);
    store_half(reinterpret_cast<T*>(z), at(c.out));
  }
};

template <class T> void fft_as(const Fft& c) {
  const int64_t all = c.outer * c.columns * c.inner, blocks = ceil_div(all, kLines<T>);
  const auto rows = [&] {
    return reinterpret_cast<Row<T>*>(static_cast<char*>(c.scratch) +
                                     worker_number() * fft_scratch(c.n));
  };
  const bool spread = all * c.n > kGrain / 4;
  if (Line<T>::serves(c)) {
    const Line<T> line(c);
    const Passes passes(c.n, line.m);
    line.fill_twiddles();
    return parallel_chunks(all, ceil_div(kGrain / 4, c.n), spread, [&](int64_t i, int64_t end) {
      for (Row<T>* const x = rows(); i < end && !mt_interrupted; ++i) line.run(i, x, passes);
    });
  }
  const Passes passes(c.n, fft_length(c));
  parallel(blocks, spread, [&](int64_t i) {
    Row<T>* const x = rows();
    Block<T>(c, i * kLines<T>).run(x, x + c.n + 1, passes);
  });
}

}  // namespace

void fft(const Fft& c) {
  if (c.dtype == Dtype::f64) fft_as<double>(c);
  else fft_as<float>(c);
}

}  // namespace MT_ISA
}  // namespace mt
