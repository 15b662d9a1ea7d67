// fft.cpp -- the fft verb: Fourier transforms of blocks of lines, as many as a cache line has elements
//
// A block is copied to scratch memory, where a row has one element of each of its lines, so that all
// arithmetic is on whole rows. The transform is Stockham's: each pass splits off one factor of n and
// sorts as it goes (Van Loan, Computational Frameworks for the Fast Fourier Transform, 1.7).
#include <cstring>

#include "kernels/cpu/pool/parallel.h"
#include "kernels/cpu/simd/transpose.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

template <class T> constexpr int kLines = int(64 / sizeof(T));

/// One complex number.
template <class T> struct Number {
  T re, im;
  friend MT_SIMD Number operator*(Number a, Number b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
};

/// A row: a complex number for each line of the block.
template <class T> struct Row {
  typedef T Vector __attribute__((vector_size(64)));
  Vector re, im;
  friend MT_SIMD Row operator+(const Row& a, const Row& b) { return {a.re + b.re, a.im + b.im}; }
  friend MT_SIMD Row operator-(const Row& a, const Row& b) { return {a.re - b.re, a.im - b.im}; }
  friend MT_SIMD Row operator*(const Row& a, T w) { return {a.re * w, a.im * w}; }
  template <class W> friend MT_SIMD Row operator*(const Row& a, const W& w) {
    return {a.re * w.re - a.im * w.im, a.re * w.im + a.im * w.re};
  }
  /// a times i.
  friend MT_SIMD Row turned(const Row& a) { return {-a.im, a.re}; }
  friend MT_SIMD Row conj(const Row& a) { return {a.re, -a.im}; }
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
            sum = sum + x[q + s * (p + m * j)] * roots[(unit * s * p * k + n / r * (j * k % r)) % n];
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

/// How the elements of a side are read as complex numbers: the real part of number j is at
/// start + j * step, and the imaginary part `im` elements later; it is 0 if im is 0.
struct Walk {
  int64_t step, im;
};

/// The lines from `first` on.
template <class T> struct Block {
  static constexpr int L = kLines<T>;
  const Fft& c;
  int lines;
  int64_t line[L];  // its index b
  struct Side {
    const FftSide& s;
    int64_t start[L], rows[L];  // the offset of each line, and the number of its elements that exist
    bool regular, adjacent;     // the offsets have equal differences, which are 1 number; rows are equal
  } in{c.in, {}, {}, true, true}, out{c.out, {}, {}, true, true};

  Block(const Fft& call, int64_t first)
      : c(call), lines(int(smaller(int64_t(L), c.outer * c.columns * c.inner - first))) {
    for (int v = 0; v < lines; ++v) {
      const int64_t i = (first + v) % c.inner, rest = (first + v) / c.inner;
      line[v] = rest % c.columns;
      locate(in, v, rest / c.columns, i), locate(out, v, rest / c.columns, i);
    }
  }
  static int64_t elements(const FftSide& s) { return s.layout == FftLayout::real ? 1 : 2; }
  /// Whether the real side's elements 2 j and 2 j + 1 become the complex number j.
  bool in_pairs() const {
    const bool real = c.in.layout == FftLayout::real || c.out.layout == FftLayout::real;
    return real && c.n % 2 == 0;
  }
  int64_t length() const { return in_pairs() ? c.n / 2 : c.n; }
  Walk walk(const FftSide& s) const {
    const int64_t step = s.step * c.inner;
    if (s.layout != FftLayout::real) return {2 * step, 1};
    return in_pairs() ? Walk{2 * step, step} : Walk{step, 0};
  }
  void locate(Side& side, int v, int64_t batch, int64_t i) {
    const FftSide& s = side.s;
    const bool folded = s.layout == FftLayout::half && s.whole;
    const int64_t at = batch * s.batch + (folded ? 0 : line[v] * s.line * c.inner) + i;
    side.start[v] = at * elements(s);
    int64_t n = s.layout == FftLayout::half ? c.n / 2 + 1 : length();
    if (s.layout == FftLayout::complex && s.whole)
      n = larger(0, smaller(n, ceil_div(larger(0, s.count - line[v] * s.line), s.step)));
    else if (s.layout == FftLayout::complex) n = smaller(n, s.count);
    side.rows[v] = n;
    if (v == 0) return;
    const int64_t apart = side.start[v] - side.start[v - 1];
    side.regular &= apart == side.start[1] - side.start[0] && n == side.rows[0];
    side.adjacent &= apart == elements(s);
  }

  /// Reads the elements of all lines into rows.
  void load(Row<T>* x) const {
    const T* const data = static_cast<const T*>(c.in.data);
    const Walk w = walk(c.in);
    const int64_t n = length() + 1;
    if (lines == L && in.regular && w.step == 2 && w.im == 1) {
      const int64_t rows = in.rows[0];
      transpose(reinterpret_cast<T*>(x), L, data + in.start[0], in.start[1] - in.start[0], 2 * rows, L);
      std::memset(static_cast<void*>(x + rows), 0, size_t(n - rows) * sizeof *x);
      return;
    }
    std::memset(static_cast<void*>(x), 0, size_t(n) * sizeof *x);
    if (lines == L && in.regular && in.adjacent && c.in.layout != FftLayout::real)
      for (int64_t e = 0; e < in.rows[0]; ++e) {
        const T* const from = data + in.start[0] + e * w.step;
        for (int v = 0; v < L; ++v) x[e].re[v] = from[2 * v], x[e].im[v] = from[2 * v + 1];
      }
    else
      for (int64_t e = 0; e < length() + 1; ++e)
        for (int v = 0; v < lines; ++v) {
          if (e >= in.rows[v]) continue;
          const T* const from = data + in.start[v] + e * w.step;
          x[e].re[v] = from[0], x[e].im[v] = w.im ? from[w.im] : T(0);
        }
  }
  void store(Row<T>* x) const {
    T* const data = static_cast<T*>(c.out.data);
    const Walk w = walk(c.out);
    if (lines == L && out.regular && w.step == 2 && w.im == 1) {
      transpose(data + out.start[0], out.start[1] - out.start[0], reinterpret_cast<const T*>(x), L, L,
                2 * out.rows[0]);
    } else if (lines == L && out.regular && out.adjacent && c.out.layout != FftLayout::real) {
      for (int64_t e = 0; e < out.rows[0]; ++e) {
        T* const to = data + out.start[0] + e * w.step;
        for (int v = 0; v < L; ++v) to[2 * v] = x[e].re[v], to[2 * v + 1] = x[e].im[v];
      }
    } else {
      for (int64_t e = 0; e < length() + 1; ++e)
        for (int v = 0; v < lines; ++v) {
          if (e >= out.rows[v]) continue;
          T* const to = data + out.start[v] + e * w.step;
          to[0] = x[e].re[v];
          if (w.im) to[w.im] = x[e].im[v];
        }
    }
  }

  /// Calls f(row, line, offset, whether it is conjugated, frequency) for the elements of a half side of
  /// the whole transform.
  template <class F> void each_folded(const FftSide& s, const int64_t (&start)[L], const F& f) const {
    for (int64_t e = 0; e < c.n; ++e)
      for (int v = 0; v < lines; ++v) {
        const int64_t k = line[v] * s.line + e * s.step, folded = smaller(k, c.total - k);
        f(e, v, start[v] + 2 * folded * c.inner, folded != k, folded);
      }
  }
  T weight(int64_t k, int64_t n, double inside) const {
    return T(k == 0 || 2 * k == n ? c.scale : inside);
  }
  /// Multiplies row e by factor(v, e) for each line v.
  template <class F> void multiply(Row<T>* x, int64_t n, const F& factor) const {
    for (int64_t e = 0; e < n; ++e) {
      Row<T> w{};
      for (int v = 0; v < lines; ++v) {
        const auto z = factor(v, e);
        w.re[v] = T(z.re), w.im[v] = T(z.im);
      }
      x[e] = x[e] * w;
    }
  }
  void multiply_side(Row<T>* x, const Side& side) const {
    const FftSide& s = side.s;
    const Number<T>* const factor = static_cast<const Number<T>*>(s.factor);
    if (factor)
      multiply(x, c.n, [&](int v, int64_t e) {
        return e < side.rows[v] ? factor[s.whole ? line[v] * s.line + e * s.step : e] : Number<T>{};
      });
  }
  void multiply_twiddles(Row<T>* x) const {
    const auto* const low = reinterpret_cast<const Number<double>*>(c.twiddles);
    const auto* const high = low + c.low;
    multiply(x, c.out.layout == FftLayout::half ? c.n / 2 + 1 : c.n, [&](int v, int64_t e) {
      const int64_t power = line[v] * e;
      return low[power % c.low] * high[power / c.low];
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

  /// Reads a half side.
  void load_half(Row<T>* x) const {
    if (c.in.whole) {
      const T* const data = static_cast<const T*>(c.in.data);
      std::memset(static_cast<void*>(x), 0, size_t(c.n) * sizeof *x);
      return each_folded(c.in, in.start, [&](int64_t e, int v, int64_t at, bool conjugated, int64_t k) {
        const T w = weight(k, c.total, c.inside / 2), im = data[at + 1] * w;
        x[e].re[v] = data[at] * w, x[e].im[v] = conjugated ? -im : im;
      });
    }
    load(x);
    for (int64_t k = 0; k <= c.n / 2; ++k) x[k] = x[k] * weight(k, c.n, c.inside / 2);
    if (in_pairs()) return join_half(x);
    for (int64_t k = 1; k <= c.n / 2; ++k) x[c.n - k] = conj(x[k]);
  }
  void store_half(Row<T>* x) const {
    if (c.out.whole) {
      T* const data = static_cast<T*>(c.out.data);
      return each_folded(c.out, out.start, [&](int64_t e, int v, int64_t at, bool conjugated, int64_t k) {
        const T w = weight(k, c.total, c.inside), im = x[e].im[v] * w;
        data[at] = x[e].re[v] * w, data[at + 1] = conjugated ? -im : im;
      });
    }
    for (int64_t k = 0; k <= c.n / 2; ++k) x[k] = x[k] * weight(k, c.n, c.inside);
    store(x);
  }

  void run(Row<T>* x, Row<T>* y) const {
    if (c.in.layout == FftLayout::half) load_half(x);
    else load(x);
    multiply_side(x, in);
    x = transform(x, y, c, length());
    if (c.out.layout == FftLayout::half && in_pairs()) split_half(x);
    if (c.twiddles) multiply_twiddles(x);
    multiply_side(x, out);
    if (c.out.layout == FftLayout::half) return store_half(x);
    if (c.in.layout != FftLayout::half && c.scale != 1)
      for (int64_t e = 0; e < c.n; ++e) x[e] = x[e] * T(c.scale);
    store(x);
  }
};

template <class T> void fft_as(const Fft& c) {
  const int64_t all = c.outer * c.columns * c.inner, blocks = ceil_div(all, kLines<T>);
  parallel(blocks, all * c.n > kGrain / 4, [&](int64_t i) {
    Row<T>* const x =
        reinterpret_cast<Row<T>*>(static_cast<char*>(c.scratch) + worker_number() * fft_scratch(c.n));
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
