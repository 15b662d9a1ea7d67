// fft.cpp -- the fft verb: Fourier transforms of blocks of lines, as many as a register has elements
//
// A block is copied to scratch memory, where a row has one element of each of its lines, so that all
// arithmetic is on whole rows. The transform is Stockham's: each pass splits off one factor of n and
// sorts as it goes (Van Loan, Computational Frameworks for the Fast Fourier Transform, 1.7).
#include <cstring>
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
    return {a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re};
  }
  /// a times i.
  friend MT_SIMD Row turned(const Row& a) { return {-a.im, a.re}; }
  friend MT_SIMD Row conj(const Row& a) { return {a.re, -a.im}; }

 private:
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

/// The transform of 2 or 4 numbers, or of an odd number R, by the roots of n.
template <int R, class T> struct Butterfly {
  static constexpr int half = (R - 1) / 2;
  T cosine[R], sine[R];
  Butterfly(const Number<T>* roots, int64_t n) {
    for (int k = 0; k < R; ++k) cosine[k] = roots[n / R * k].re, sine[k] = roots[n / R * k].im;
  }
  MT_SIMD void operator()(Row<T> (&a)[R]) const {
    if constexpr (R == 2) {
      const Row<T> x = a[0];
      a[0] = x + a[1], a[1] = x - a[1];
    } else if constexpr (R == 4) {
      const Row<T> p = a[0] + a[2], q = a[1] + a[3], r = a[0] - a[2],
                   s = turned(a[1] - a[3]) * sine[1];
      a[0] = p + q, a[1] = r + s, a[2] = p - q, a[3] = r - s;
    } else {
      Row<T> sum[half], difference[half], x = a[0];
      for (int j = 0; j < half; ++j) {
        sum[j] = a[j + 1] + a[R - 1 - j], difference[j] = turned(a[j + 1] - a[R - 1 - j]);
        a[0] = a[0] + sum[j];
      }
      for (int k = 1; k <= half; ++k) {
        Row<T> even = x, odd = difference[0] * sine[k];
        for (int j = 0; j < half; ++j) even = even + sum[j] * cosine[(j + 1) * k % R];
        for (int j = 1; j < half; ++j) odd = odd + difference[j] * sine[(j + 1) * k % R];
        a[k] = even + odd, a[R - k] = even - odd;
      }
    }
  }
};

/// A pass: transforms of length R * m, of which `s` are interleaved, become R times as many of length m.
template <class T> struct Pass {
  const Row<T>* x;
  Row<T>* y;
  const Number<T>* roots;
  int64_t n, unit, m, s;  // unit: the root of R * m * s is this power of the root of n

  template <int R> __attribute__((noinline)) void split() const {
    const Butterfly<R, T> butterfly(roots, n);
    for (int64_t p = 0; p < m; ++p) {
      Number<T> w[R];
      for (int k = 1; k < R; ++k) w[k] = roots[unit * s * p * k];
      for (int64_t q = 0; q < s; ++q) {
        Row<T> a[R];
        for (int j = 0; j < R; ++j) a[j] = x[q + s * (p + m * j)];
        butterfly(a);
        y[q + s * R * p] = a[0];
        for (int k = 1; k < R; ++k) y[q + s * (R * p + k)] = p > 0 ? a[k] * w[k] : a[k];
      }
    }
  }
  /// The same for any R, by the definition.
  __attribute__((noinline)) void split_any(int64_t r) const {
    for (int64_t p = 0; p < m; ++p)
      for (int64_t k = 0; k < r; ++k)
        for (int64_t q = 0; q < s; ++q) {
          Row<T> sum = x[q + s * p] * roots[unit * s * p * k];
          for (int64_t j = 1; j < r; ++j)
            sum =
                sum + x[q + s * (p + m * j)] * roots[(unit * s * p * k + n / r * (j * k % r)) % n];
          y[q + s * (r * p + k)] = sum;
        }
  }
  void run(int64_t r) const {
    switch (r) {
      case 2: return split<2>();
      case 3: return split<3>();
      case 4: return split<4>();
      case 5: return split<5>();
      case 7: return split<7>();
      default: return split_any(r);
    }
  }
};

/// The next factor of n.
int64_t factor_of(int64_t n) {
  if (n % 4 == 0) return 4;
  int64_t r = 2;
  while (n % r != 0) ++r;
  return r;
}

/// Transforms `length` rows of x, with y as the other buffer; length * unit is n. Returns the buffer
/// that has the result.
template <class T> Row<T>* transform(Row<T>* x, Row<T>* y, const Fft& c, int64_t length) {
  for (int64_t left = length; left > 1 && !mt_interrupted;) {
    const int64_t r = factor_of(left), s = length / left;
    left /= r;
    Pass<T>{x, y, static_cast<const Number<T>*>(c.roots), c.n, c.n / length, left, s}.run(r);
    Row<T>* const other = x;
    x = y, y = other;
  }
  return x;
}

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
    for (int v = 0; v < lines; ++v) {
      const int64_t i = (first + v) % c.inner, rest = (first + v) / c.inner;
      line[v] = rest % c.columns;
      locate(in, v, rest / c.columns, i), locate(out, v, rest / c.columns, i);
    }
  }
  static int64_t elements(const FftSide& s) { return s.layout == FftLayout::real ? 1 : 2; }
  /// Whether elements 2 j and 2 j + 1 of a real side are the complex number j.
  bool in_pairs() const {
    const bool real = c.in.layout == FftLayout::real || c.out.layout == FftLayout::real;
    return real && c.n % 2 == 0;
  }
  int64_t length() const { return in_pairs() ? c.n / 2 : c.n; }
  static bool is_folded(const FftSide& s) { return s.layout == FftLayout::half && s.whole; }
  void locate(Side& side, int v, int64_t batch, int64_t i) {
    const FftSide& s = side.s;
    const int64_t at = batch * s.batch + (is_folded(s) ? 0 : line[v] * s.line * c.inner) + i;
    side.start[v] = at * elements(s);
    int64_t& n = side.rows[v] = length();
    if (is_folded(s)) n = c.n;
    else if (s.layout == FftLayout::half) n = c.n / 2 + 1;
    else if (s.layout == FftLayout::complex)
      n = smaller(n, s.whole ? ceil_div(larger(0, s.count - line[v] * s.line), s.step) : s.count);
    if (v == 0) return;
    const int64_t apart = side.start[v] - side.start[v - 1];
    side.regular &= apart == side.start[1] - side.start[0] && n == side.rows[0];
    side.adjacent &= apart == elements(s);
  }
  T weight(int64_t k, int64_t n, double inside) const {
    return T(k == 0 || 2 * k == n ? c.scale : inside);
  }

  /// Copies the elements of all lines into rows, or back. The real part of number e of a line is at
  /// start + e * step, and the imaginary part `im` elements later, if that is not 0.
  template <bool kStore> void copy(const Side& side, Row<T>* x) const {
    const bool real = side.s.layout == FftLayout::real, folded = is_folded(side.s),
               full = lines == L && side.regular && !folded;
    const int64_t apart = side.s.step * c.inner, step = real && !in_pairs() ? apart : 2 * apart,
                  im = !real        ? 1
                       : in_pairs() ? apart
                                    : 0,
                  rows = side.rows[0];
    T* const data = static_cast<T*>(side.s.data);
    const auto one = [](T& memory, T& row, T w) { kStore ? memory = row* w : row = memory * w; };
    if (full && step == 2 && im == 1) {
      T *const from = data + side.start[0], *const to = reinterpret_cast<T*>(x);
      const int64_t next = side.start[1] - side.start[0];
      return kStore ? transpose(from, next, to, L, L, 2 * rows)
                    : transpose(to, L, from, next, 2 * rows, L);
    }
    for (int64_t e = 0; e <= length(); ++e) {
      T* const row = reinterpret_cast<T*>(x + e);
      if (full && side.adjacent && !real) {
        T* const at = data + side.start[0] + e * step;
        if (e >= rows) break;
        kStore ? x[e].store(at) : x[e].load(at);
        continue;
      }
      for (int v = 0; v < lines; ++v) {
        if (e >= side.rows[v]) continue;
        T *at = data + side.start[v] + e * step, w = 1, sign = 1;
        if (folded) {  // frequency k of the whole transform, or the conjugate of total - k
          const int64_t k = line[v] * side.s.line + e * side.s.step, f = smaller(k, c.total - k);
          at = data + side.start[v] + 2 * f * c.inner, sign = f < k ? T(-1) : T(1);
          w = weight(f, c.total, kStore ? c.inside : c.inside / 2);
        }
        one(at[0], row[v], w);
        if (im) one(at[im], row[L + v], w * sign);
      }
    }
  }

  /// Multiplies row e by factor(v, e) for each line v; those that do not exist are line 0 without rows.
  template <class F> void multiply(Row<T>* x, int64_t n, const F& factor) const {
    for (int64_t e = 0; e < n; ++e) {
      alignas(64) T re[L], im[L];
      MT_INDEPENDENT
      for (int v = 0; v < L; ++v) {
        const auto z = factor(v, e);
        re[v] = T(z.re), im[v] = T(z.im);
      }
      Row<T> w;
      std::memcpy(&w.re, re, sizeof re), std::memcpy(&w.im, im, sizeof im);
      x[e] = x[e] * w;
    }
  }
  void multiply_side(Row<T>* x, const Side& side) const {
    const FftSide& s = side.s;
    const Number<T>* const factor = static_cast<const Number<T>*>(s.factor);
    if (!factor) return;
    if (!s.whole)
      for (int64_t e = 0; e < side.rows[0]; ++e) x[e] = x[e] * factor[e];
    else
      multiply(x, c.n, [&](int v, int64_t e) {
        return e < side.rows[v] ? factor[line[v] * s.line + e * s.step] : Number<T>{};
      });
  }
  void multiply_twiddles(Row<T>* x) const {
    const auto* const low = reinterpret_cast<const Number<double>*>(c.twiddles);
    const auto* const high = low + (int64_t(1) << c.low_bits);
    multiply(x, c.out.layout == FftLayout::half ? c.n / 2 + 1 : c.n, [&](int v, int64_t e) {
      const int64_t power = line[v] * e;
      return low[power & (high - low - 1)] * high[power >> c.low_bits];
    });
  }

  /// Replaces the frequencies 0 .. n / 2 of n real numbers by the numbers whose transform are the real
  /// ones in pairs.
  void join_half(Row<T>* x) const {
    const Number<T>* const roots = static_cast<const Number<T>*>(c.roots);
    const int64_t m = c.n / 2;
    x[0].im = x[m].im = typename Row<T>::Vector{};
    for (int64_t k = 0; 2 * k <= m; ++k) {
      const Row<T> a = x[k], b = conj(x[m - k]), even = a + b, odd = turned((a - b) * roots[k]);
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
      const Row<T> a = x[k], b = conj(x[m - k]), even = (a + b) * T(0.5),
                   odd = turned((a - b) * T(-0.5)) * roots[k];
      x[k] = even + odd, x[m - k] = conj(even - odd);
    }
  }

  /// Scales the frequencies 0 .. n / 2, unless `copy` does that.
  void scale_half(Row<T>* x, const FftSide& s, double inside) const {
    if (!s.whole)
      for (int64_t k = 0; k <= c.n / 2; ++k) x[k] = x[k] * weight(k, c.n, inside);
  }

  void run(Row<T>* x, Row<T>* y) const {
    const bool from_half = c.in.layout == FftLayout::half,
               to_half = c.out.layout == FftLayout::half;
    std::memset(static_cast<void*>(x), 0, size_t(c.n + 1) * sizeof *x);
    copy<false>(in, x);
    if (from_half) scale_half(x, c.in, c.inside / 2);
    if (from_half && in_pairs()) join_half(x);
    else if (from_half && !c.in.whole)
      for (int64_t k = 1; k <= c.n / 2; ++k) x[c.n - k] = conj(x[k]);
    multiply_side(x, in);
    x = transform(x, y, c, length());
    if (to_half && in_pairs()) split_half(x);
    if (c.twiddles) multiply_twiddles(x);
    multiply_side(x, out);
    if (to_half) scale_half(x, c.out, c.inside);
    else if (!from_half && c.scale != 1)
      for (int64_t e = 0; e < c.n; ++e) x[e] = x[e] * T(c.scale);
    copy<true>(out, x);
  }
};

template <class T> void fft_as(const Fft& c) {
  const int64_t all = c.outer * c.columns * c.inner, blocks = ceil_div(all, kLines<T>);
  parallel(blocks, all * c.n > kGrain / 4, [&](int64_t i) {
    Row<T>* const x = reinterpret_cast<Row<T>*>(static_cast<char*>(c.scratch) +
                                                worker_number() * fft_scratch(c.n));
    Block<T>(c, i * kLines<T>).run(x, x + c.n + 1);
  });
}

}  // namespace

void fft(const Fft& c) {
  if (c.dtype == Dtype::f64) fft_as<double>(c);
  else fft_as<float>(c);
}

}  // namespace MT_ISA
}  // namespace mt
