// fft.cpp -- discrete Fourier transforms of tensors, by the fft verb of the CPU
#include "engine/ops/fft.h"

#include <cmath>

#include "engine/autograd/graph.h"
#include "engine/core/device.h"
#include "engine/ops/ops.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt::fft {
namespace {

Tensor real_part(const Tensor& z) { return pick(z, -1, 0); }
Tensor imaginary_part(const Tensor& z) { return pick(z, -1, 1); }

// ---- tables -------------------------------------------------------------------------------------

struct Root {
  double re, im;
};

/// exp(-2 pi i k / n), or its conjugate; exact at quarters of the circle.
Root root_of(int64_t k, int64_t n, bool inverse) {
  const int64_t quarter = (4 * k + n / 2) / n;
  const double angle = double(4 * k - quarter * n) / double(n) * 1.57079632679489662;
  const double c = std::cos(angle), s = std::sin(angle);
  const Root turned[] = {{c, s}, {-s, c}, {-c, -s}, {s, -c}}, r = turned[quarter % 4];
  return {r.re, inverse ? r.im : -r.im};
}
/// The powers 0 .. n - 1 of the root of n, as products of two entries of a table: the first 2^bits of
/// them, then the multiples of that.
struct Roots {
  int64_t bits = 5;
  Tensor table;
  Roots(int64_t n, bool inverse) {
    while (int64_t(1) << 2 * bits < n) ++bits;
    const int64_t low = int64_t(1) << bits, high = (n + low - 1) / low;
    table = constants<double>({low + high, 2}, [&](double* to) {
      for (int64_t k = 0; k < low + high; ++k) {
        const Root r = root_of(k < low ? k % n : (k - low) * low, n, inverse);
        to[2 * k] = r.re, to[2 * k + 1] = r.im;
      }
    });
  }
  Root operator()(int64_t k) const {
    const auto* const low = reinterpret_cast<const Root*>(table.argument_as<double>());
    const int64_t size = int64_t(1) << bits;
    const Root x = low[k & (size - 1)], y = low[size + (k >> bits)];
    return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
  }
};
/// n complex numbers of a dtype, f(k).
Tensor table(int64_t n, Dtype dtype, const auto& f) {
  const auto fill = [&]<class T>(T* to) {
    for (int64_t k = 0; k < n; ++k) {
      const Root r = f(k);
      to[2 * k] = T(r.re), to[2 * k + 1] = T(r.im);
    }
  };
  return dtype == Dtype::f64 ? constants<double>({n, 2}, fill) : constants<float>({n, 2}, fill);
}

// ---- calls of the verb --------------------------------------------------------------------------

/// Lines of n elements, with `outer` indices before the dimension and `inner` after it.
struct Lines {
  int64_t outer, n, inner;
  bool inverse;
  Dtype dtype;
};

FftSide side(FftLayout layout, const Tensor& x, const Tensor& factor = {}) {
  return {layout, x.data(), 0, 0, 1, false, 0, factor.defined() ? factor.data() : nullptr};
}
/// The side with the first `count` elements of each line, at these strides.
FftSide placed(FftSide s, const Lines& l, int64_t count, int64_t line, int64_t step, bool whole) {
  s.batch = (s.layout == FftLayout::half ? l.n / 2 + 1 : count) * l.inner, s.count = count;
  s.line = line, s.step = step, s.whole = whole;
  return s;
}

void call(const Lines& l, Fft f, const Roots* twiddles = nullptr) {
  const Tensor roots = table(f.n, l.dtype, Roots(f.n, l.inverse)),
               scratch = empty({cpu_threads(), fft_scratch(f.n)}, Dtype::u8);
  f.dtype = l.dtype, f.outer = l.outer, f.inner = l.inner, f.total = l.n;
  f.roots = roots.data(), f.scratch = scratch.data();
  if (twiddles) f.twiddles = twiddles->table.argument_as<double>(), f.low_bits = twiddles->bits;
  cpu_device().fft(f);
  check_interrupt();
}

/// The first factor of n if it is better transformed as a matrix, otherwise 1: a divisor near the
/// square root, even for real signals if possible.
int64_t first_factor(const Lines& l, bool real) {
  const int64_t side_by_side = 64 / item_size(l.dtype), lines = l.outer * l.inner;
  // Registers hold neighbours of such a line, so that one line is enough to fill them.
  if (l.inner == 1 && l.n % 32 == 0 && l.n >= 512 && l.n <= (1 << 15)) return 1;
  if (l.n <= 32 || (l.n <= 8192 && 2 * lines >= side_by_side)) return 1;
  // Blocks of whole registers are faster as they are (64 x 4096 on Zen 4: 3 times), while their scratch is small.
  if (l.n <= (1 << 16) && lines >= 2 * side_by_side) return 1;
  int64_t best = 1;
  for (int64_t k = int64_t(std::sqrt(double(l.n))); k > 3 && best == 1; --k)
    if (l.n % k == 0 && !(real && k % 2 && l.n % 2 == 0)) best = k;
  return best;
}

/// Transforms with scales as those of Fft; the counts are the elements of complex sides.
void run(const Lines& l, const FftSide& in, const FftSide& out, double scale, double inside,
         int64_t in_count, int64_t out_count) {
  const bool to_half = out.layout == FftLayout::half, to_real = in.layout == FftLayout::half;
  const int64_t n1 = first_factor(l, to_half || to_real), n2 = l.n / n1;
  Fft f{};
  f.scale = scale, f.inside = inside;
  if (n1 == 1) {
    f.n = l.n, f.columns = 1;
    f.in = placed(in, l, in_count, 0, 1, false), f.out = placed(out, l, out_count, 0, 1, false);
    return call(l, f);
  }
  // A matrix of n1 x n2: the transforms of its columns are `middle`, whose rows are transformed.
  const int64_t rows = to_half || to_real ? n1 / 2 + 1 : n1;
  const Tensor middle = empty({l.outer, rows * n2 * l.inner, 2}, l.dtype);
  const Roots twiddles(l.n, l.inverse);
  const Lines between{l.outer, rows * n2, l.inner, l.inverse, l.dtype};
  const auto middle_side = [&](FftLayout layout, int64_t line, int64_t step) {
    FftSide s = placed(side(FftLayout::complex, middle), between, between.n, line, step, false);
    s.layout = layout;
    return s;
  };
  Fft columns{}, by_rows = f;
  columns.n = n1, columns.columns = n2, columns.scale = 1, columns.inside = to_real ? 2 : 1;
  by_rows.n = n2, by_rows.columns = rows;
  if (to_real) {
    by_rows.in = placed(in, l, in_count, 1, n1, true);
    by_rows.out = middle_side(FftLayout::complex, n2, 1);
    columns.in = middle_side(FftLayout::half, 1, n2);
    columns.out = placed(out, l, out_count, 1, n2, true);
    call(l, by_rows, &twiddles);
    return call(l, columns);
  }
  columns.in = placed(in, l, in_count, 1, n2, true);
  columns.out = middle_side(to_half ? FftLayout::half : FftLayout::complex, 1, n2);
  by_rows.in = middle_side(FftLayout::complex, n2, 1);
  by_rows.out = placed(out, l, out_count, 1, n1, true);
  call(l, columns, &twiddles);
  call(l, by_rows);
}

// ---- transforms of any length, recorded ---------------------------------------------------------

/// From a layout to a layout.
struct Kind {
  FftLayout in, out;
  friend bool operator==(const Kind&, const Kind&) = default;
};
constexpr Kind kComplex{FftLayout::complex, FftLayout::complex},
    kToHalf{FftLayout::real, FftLayout::half}, kToReal{FftLayout::half, FftLayout::real};
/// Along dimension d; `scale` and `inside` as in Fft. Real sides have n elements, half ones n / 2 + 1.
struct Transform {
  Kind kind;
  bool inverse;
  int d;
  int64_t n;
  double scale, inside;
};

bool has_small_factors(int64_t n, int64_t largest = kFftPrime) {
  for (int64_t p = 2; p <= largest; ++p)
    while (n % p == 0) n /= p;
  return n == 1;
}
/// The length of a fast transform for at least n numbers, in pairs.
int64_t fast_length(int64_t n) {
  int64_t m = (n + 7) / 8 * 8;
  while (!has_small_factors(m, 5)) m += 8;
  return m;
}

/// j k = (j^2 + k^2 - (k - j)^2) / 2 makes a transform of a convolution, which is computed by
/// transforms of a fast length (Bluestein 1970).
void run_by_convolution(const Lines& l, const Tensor& x, const Tensor& y, double scale) {
  const int64_t m = fast_length(2 * l.n - 1);
  const Roots roots(2 * l.n, l.inverse);
  const auto chirp = [&](int64_t k) { return roots(k * k % (2 * l.n)); };
  const Tensor factor = table(l.n, l.dtype, chirp);
  const Tensor kernel = table(m, l.dtype, [&](int64_t k) {
    const int64_t distance = std::min(k, m - k);
    const Root r = distance < l.n ? chirp(distance) : Root{0, 0};
    return Root{r.re, -r.im};
  });
  const Tensor spectrum = empty({m, 2}, l.dtype), middle = empty({l.outer, m, l.inner, 2}, l.dtype);
  const auto complex = FftLayout::complex;
  run({1, m, 1, false, l.dtype}, side(complex, kernel), side(complex, spectrum), 1.0 / double(m), 0,
      m, m);
  Lines longer = l;
  longer.n = m, longer.inverse = false;
  run(longer, side(complex, x, factor), side(complex, middle, spectrum), 1, 0, l.n, m);
  longer.inverse = true;
  run(longer, side(complex, middle), side(complex, y, factor), scale, 0, m, l.n);
}

// ---- prime lengths: a Hartley transform, which is a convolution of n - 1 numbers (Rader 1968) -----

constexpr int64_t kLargestPrime = int64_t(1) << 31;  // products of two smaller numbers are exact

bool is_prime(int64_t n) {
  for (int64_t p = 2; p * p <= n; ++p)
    if (n % p == 0) return false;
  return true;
}
/// The powers 0 .. n - 2 of the least number whose powers are all numbers but 0, modulo a prime.
std::vector<int64_t> powers_of_generator(int64_t n) {
  std::vector<int64_t> powers;
  for (int64_t g = 2; int64_t(powers.size()) < n - 1; ++g) {
    powers.assign(1, 1);
    for (int64_t p = g; p != 1; p = p * g % n) powers.push_back(p);
  }
  return powers;
}

/// The sum over j of a[j] kernel(k - j), for k in 0 .. n - 1 or more, along dimension d of n real numbers; the kernel
/// has the period n.
Tensor convolve(const Tensor& a, int d, double scale, const auto& kernel) {
  const int64_t n = a.size(d), m = has_small_factors(n, 13) ? n : fast_length(2 * n - 1);
  Shape shape = a.shape();
  shape[d] = m;
  const Lines l{product(shape.first(d)), m, product(shape.from(d + 1)), false, a.dtype()};
  Lines back = l;
  back.inverse = true;
  std::vector<int64_t> more(size_t(2 * (a.dim() - d)), 0);
  more.back() = m - n;
  const Tensor values = table(m, l.dtype, [&](int64_t k) {
    return Root{k < n ? kernel(k) : m - k < n ? kernel(n - (m - k)) : 0, 0};
  });
  const Tensor in = contiguous(m == n ? a : pad(a, more)), one = contiguous(real_part(values)),
               spectrum = empty({m / 2 + 1, 2}, l.dtype),
               middle = empty({l.outer, m / 2 + 1, l.inner, 2}, l.dtype),
               out = empty(shape, l.dtype);
  const auto real = FftLayout::real, half = FftLayout::half;
  run({1, m, 1, false, l.dtype}, side(real, one), side(half, spectrum), scale / double(m),
      scale / double(m), m, m);
  run(l, side(real, in), side(half, middle, spectrum), 1, 1, m, m);
  run(back, side(half, middle), side(real, out), 1, 2, m, m);
  return out;
}

/// The scales of the frequencies 0 .. n / 2, to broadcast with complex tensors of this rank.
Tensor weights(const Transform& t, int rank, const Tensor& like) {
  const int64_t half = t.n / 2 + 1;
  const Tensor w = constants<double>(sizes_along(rank, t.d, half), [&](double* to) {
    for (int64_t k = 0; k < half; ++k) to[k] = k == 0 || 2 * k == t.n ? t.scale : t.inside;
  });
  return to(w, like.dtype());
}

/// With cas = cos + sin, u[g^r] = x[0] + sum over q of x[g^-q] cas(2 pi g^(r - q) / n) for the powers of a generator g,
/// and the transform of a real x is (u[k] + u[-k] - i (u[k] - u[-k])) / 2, or its conjugate for the inverse; g^half is
/// -1. The way back has the same sums, of the real parts minus the imaginary ones.
Tensor compute_prime(const Tensor& x, const Transform& t) {
  const int64_t n = t.n, half = n / 2;
  const int d = t.d;
  const std::vector<int64_t> powers = powers_of_generator(n);
  std::vector<int64_t> logs(size_t(n), 0);
  for (int64_t q = 0; q < n - 1; ++q) logs[powers[q]] = q;
  const Roots roots(n, true);
  const auto convolved = [&](const Tensor& u) {
    return convolve(u, d, t.inside / 2, [&](int64_t q) {
      const Root r = roots(powers[q]);
      return r.re + r.im;
    });
  };
  const auto read = [&](const Tensor& from, int64_t count, const auto& position) {
    return index_select(from, d, constants<int64_t>({count}, [&](int64_t* to) {
                          for (int64_t k = 0; k < count; ++k) to[k] = position(k);
                        }));
  };
  const auto inverse_power = [&](int64_t q) { return powers[(n - 1 - q) % (n - 1)]; };
  const auto log = [&](int64_t k) { return logs[k + 1]; };
  if (t.kind == kToHalf) {
    const Tensor sums = convolved(read(x, n - 1, inverse_power)), u = read(sums, half, log),
                 v = read(sums, half, [&](int64_t k) { return (log(k) + half) % (n - 1); });
    return cat({complex(sum(x, {d}, true) * t.scale),
                complex(u + v + slice(x, d, 0, 1) * t.inside, t.inverse ? u - v : v - u)},
               d);
  }
  const Tensor re = real_part(x), im = imaginary_part(x), first = slice(re, d, 0, 1) * t.scale;
  const Tensor both = t.inverse ? cat({re - im, re + im}, d) : cat({re + im, re - im}, d);
  const Tensor sums = convolved(read(both, n - 1, [&](int64_t q) {
    const int64_t k = inverse_power(q);
    return k <= half ? k : half + 1 + n - k;
  }));
  return cat(
      {first + sum(slice(re, d, 1, half), {d}, true) * t.inside, read(sums, n - 1, log) + first},
      d);
}

Tensor compute(const Tensor& x, const Transform& t) {
  if (!is_cpu(x.device())) return to(compute(to(x, cpu_device()), t), x.device());
  const bool real_in = t.kind == kToHalf, real_out = t.kind == kToReal;
  if (t.kind != kComplex && !has_small_factors(t.n)) {
    if (t.n < kLargestPrime && x.numel() > 0 && is_prime(t.n)) return compute_prime(x, t);
    const Transform whole{kComplex, t.inverse, t.d, t.n, 1, 1};
    if (real_in)
      return slice(compute(complex(x), whole), t.d, 0, t.n / 2 + 1) * weights(t, x.dim() + 1, x);
    // The scale of both a frequency and its conjugate is half of `inside`.
    const Transform halves{t.kind, t.inverse, t.d, t.n, t.scale, t.inside / 2};
    const Tensor z = x * weights(halves, x.dim(), x), rest = slice(z, t.d, 1, (t.n - 1) / 2);
    return pick(compute(cat({z, conj(flip(rest, {t.d}))}, t.d), whole), -1, 0);
  }
  Shape shape = x.shape();
  const int rank = x.dim() - !real_in;
  const Lines l{product(shape.first(t.d)), t.n, product(shape.first(rank).from(t.d + 1)), t.inverse,
                x.dtype()};
  shape[t.d] = real_in ? t.n / 2 + 1 : t.n;
  if (real_in) shape.push(2);
  if (real_out) shape.erase(rank);
  const Tensor in = contiguous(x), out = empty(shape, x.dtype());
  if (out.numel() == 0) return out;
  if (!has_small_factors(t.n)) run_by_convolution(l, in, out, t.scale);
  else run(l, side(t.kind.in, in), side(t.kind.out, out), t.scale, t.inside, t.n, t.n);
  return out;
}

Tensor transform(const Tensor& x, const Transform& t) {
  Tensor out;
  {
    const NoGrad off;
    out = compute(x.detach(), t);
  }
  // The adjoint is the conjugate transform, with the same scales.
  static const NodeType type{"fft", [](Node& node, const Tensor& g, Tensor* dx) {
                               Transform t = node.kept<Transform>();
                               t.inverse = !t.inverse;
                               std::swap(t.kind.in, t.kind.out);
                               dx[0] = transform(g, t);
                             }};
  if (wants_grad(x)) record(type, out, {&x}).keep(t);
  return out;
}

// ---- arguments ----------------------------------------------------------------------------------

/// x in a dtype that transforms compute in.
Tensor computable(const Tensor& x) {
  if (is_reduced_float(x.dtype())) return to(x, Dtype::f32);
  return is_float(x.dtype()) ? x : to(x, default_dtype());
}
/// A result for an input of this dtype.
Tensor in_dtype_of(const Tensor& x, const Tensor& y) {
  return is_reduced_float(x.dtype()) ? to(y, x.dtype()) : y;
}
void check_complex(const char* name, const Tensor& z) {
  if (z.dim() < 1 || z.size(-1) != 2)
    fail(
        "{}: a complex tensor is needed, whose last dimension is (real, imaginary), got {}; "
        "mt.complex(re, im) makes one",
        name, z.shape());
}
/// Complex tensors as they are; a real one, whose last size is not 2, with imaginary parts 0.
Tensor paired(const Tensor& x) { return x.dim() > 0 && x.size(-1) == 2 ? x : complex(x); }
/// The number of dimensions without that of the pairs; at least one.
int rank_of(const char* name, const Tensor& x, bool complex) {
  if (complex) check_complex(name, x);
  const int rank = x.dim() - complex;
  if (rank < 1) fail("{}: the input is a single number; a dimension is needed", name);
  return rank;
}

/// Cuts dimension d, or fills it up with zeros, to n elements.
Tensor resized(const Tensor& x, int d, int64_t n) {
  const int64_t now = x.size(d);
  if (n <= now) return n == now ? x : slice(x, d, 0, n);
  std::vector<int64_t> sides(size_t(2 * (x.dim() - d)), 0);
  sides.back() = n - now;
  return pad(x, sides);
}

double scale_of(Norm norm, bool forward, int64_t n) {
  if (norm == Norm::ortho) return 1 / std::sqrt(double(n));
  return (norm == Norm::forward) == forward ? 1 / double(n) : 1;
}

/// One function along one dimension.
Tensor along(const char* name, const Tensor& given, Kind kind, bool inverse,
             std::optional<int64_t> n, int d, Norm norm) {
  Tensor x = computable(given);
  if (!n) n = kind == kToReal ? 2 * (x.size(d) - 1) : x.size(d);
  if (*n < 1)
    fail(
        "{}: n, the number of elements of the transform along dimension {}, is {}; it must be at least 1",
        name, d + 1, *n);
  x = resized(x, d, kind == kToReal ? *n / 2 + 1 : *n);
  const double scale = scale_of(norm, !inverse, *n);
  const Transform t{kind, inverse, d, *n, scale, kind == kToReal ? 2 * scale : scale};
  return in_dtype_of(given, transform(x, t));
}
Tensor along_dim(const char* name, const Tensor& given, Kind kind, bool inverse,
                 std::optional<int64_t> n, Dim dim, Norm norm) {
  const Tensor x = kind == kComplex ? paired(given) : given;
  const int d = wrap_dim(name, dim, rank_of(name, x, kind != kToHalf));
  return along(name, x, kind, inverse, n, d, norm);
}

/// The dimensions of a transform over several, for `s` as given; by default the last ones, or all without `s`.
Shape dims_for(const char* name, int rank, const Shape& s, const Dims& given) {
  Dims dims = given;
  if (dims.size() == 0) {
    const int count = s.size() > 0 ? s.size() : rank;
    if (count > rank) fail("{}: s has {} sizes, the input {} dimensions", name, count, rank);
    for (int k = 0; k < count; ++k) dims.push(rank - count + k);
  }
  if (s.size() > 0 && s.size() != dims.size())
    fail("{}: s has {} sizes for {} dimensions", name, s.size(), dims.size());
  for (int k = 0; k < s.size(); ++k)
    if (s[k] != -1 && s[k] < 1) fail("{}: s is {}; its sizes must be at least 1, or -1", name, s);
  return wrap_dims(name, dims, rank);
}

/// Over several dimensions: `kind` along the last of them, which is first if it is real.
Tensor over(const char* name, const Tensor& original, Kind kind, bool inverse, const Shape& s,
            const Dims& dims, Norm norm) {
  const Tensor given = kind == kComplex ? paired(original) : original;
  const Shape axes = dims_for(name, rank_of(name, given, kind != kToHalf), s, dims);
  const int last = axes.size() - 1;
  Tensor x = computable(given);
  const auto one = [&](int k, Kind what) {
    const bool resizes = k < s.size() && s[k] != -1;
    x = along(name, x, what, inverse, resizes ? std::optional(s[k]) : std::nullopt, int(axes[k]),
              norm);
  };
  if (kind == kToHalf) one(last, kind);
  for (int k = kind == kComplex ? last : last - 1; k >= 0; --k) one(k, kComplex);
  if (kind == kToReal) one(last, kind);
  return in_dtype_of(given, x);
}

}  // namespace

Tensor fft(const Tensor& z, std::optional<int64_t> n, Dim dim, Norm norm) {
  return along_dim("fft", z, kComplex, false, n, dim, norm);
}
Tensor ifft(const Tensor& z, std::optional<int64_t> n, Dim dim, Norm norm) {
  return along_dim("ifft", z, kComplex, true, n, dim, norm);
}
Tensor rfft(const Tensor& x, std::optional<int64_t> n, Dim dim, Norm norm) {
  return along_dim("rfft", x, kToHalf, false, n, dim, norm);
}
Tensor irfft(const Tensor& z, std::optional<int64_t> n, Dim dim, Norm norm) {
  return along_dim("irfft", z, kToReal, true, n, dim, norm);
}
Tensor fftn(const Tensor& z, const Shape& s, const Dims& dims, Norm norm, const char* name) {
  return over(name, z, kComplex, false, s, dims, norm);
}
Tensor ifftn(const Tensor& z, const Shape& s, const Dims& dims, Norm norm, const char* name) {
  return over(name, z, kComplex, true, s, dims, norm);
}
Tensor rfftn(const Tensor& x, const Shape& s, const Dims& dims, Norm norm, const char* name) {
  return over(name, x, kToHalf, false, s, dims, norm);
}
Tensor irfftn(const Tensor& z, const Shape& s, const Dims& dims, Norm norm, const char* name) {
  return over(name, z, kToReal, true, s, dims, norm);
}

// ---- frequencies --------------------------------------------------------------------------------

static Tensor frequencies(const char* name, int64_t n, double d, Dtype dtype, bool half) {
  if (n < 1) fail("{}: n is {}, it must be at least 1", name, n);
  if (!is_float(dtype)) fail("{}: {} cannot hold fractions", name, dtype);
  const int64_t first = half ? 0 : -(n / 2), last = half ? n / 2 : (n - 1) / 2;
  const Tensor whole = range(double(first), double(last), 1, Dtype::f64);
  return to((half ? whole : ifftshift(whole, {0}, false)) / (double(n) * d), dtype);
}

static Tensor shifted(const char* name, const Tensor& x, const Dims& given,
                      std::optional<bool> complex, bool back) {
  if (!complex && x.dim() > 0 && x.size(-1) == 2)
    fail("{}: the last size of {} is 2, so it may be complex; say complex=true or complex=false",
         name, x.shape());
  const int rank = rank_of(name, x, complex.value_or(false));
  const Shape dims = dims_for(name, rank, {}, given);
  Shape shifts;
  for (const int64_t d : dims) shifts.push(back ? -(x.size(int(d)) / 2) : x.size(int(d)) / 2);
  return roll(x, shifts, dims);
}

Tensor fftfreq(int64_t n, double d, Dtype dtype) {
  return frequencies("fftfreq", n, d, dtype, false);
}
Tensor rfftfreq(int64_t n, double d, Dtype dtype) {
  return frequencies("rfftfreq", n, d, dtype, true);
}
Tensor fftshift(const Tensor& x, const Dims& dims, std::optional<bool> complex, const char* name) {
  return shifted(name, x, dims, complex, false);
}
Tensor ifftshift(const Tensor& x, const Dims& dims, std::optional<bool> complex) {
  return shifted("ifftshift", x, dims, complex, true);
}

// ---- complex numbers ----------------------------------------------------------------------------

Tensor complex(const Tensor& re, const Tensor& im) {
  return stack(broadcast_tensors({re, im.defined() ? im : zeros_like(re)}), -1);
}
Tensor polar(const Tensor& abs, const Tensor& angle) {
  return complex(abs * cos(angle), abs * sin(angle));
}
Tensor abs(const Tensor& z) {
  check_complex("complex_abs", z);
  return norm(z, 2, {-1});
}
Tensor angle(const Tensor& z) {
  check_complex("complex_angle", z);
  return atan2(imaginary_part(z), real_part(z));
}
Tensor conj(const Tensor& z) {
  check_complex("complex_conj", z);
  return complex(real_part(z), -imaginary_part(z));
}
Tensor mul(const Tensor& z, const Tensor& w) {
  check_complex("complex_mul", z), check_complex("complex_mul", w);
  const Tensor a = real_part(z), b = imaginary_part(z), c = real_part(w), d = imaginary_part(w);
  return complex(a * c - b * d, a * d + b * c);
}

// ---- short-time transforms and their windows ----------------------------------------------------

namespace {

constexpr double kPi = 3.14159265358979324;

/// Checks the options, and returns the distance of frames and the window as n_fft numbers.
struct Framing {
  int64_t n, hop;
  Tensor window;
  Framing(const char* name, const Frames& f, const Tensor& x)
      : n(f.n_fft),
        hop(f.hop.value_or(std::max<int64_t>(n / 4, 1))) {
    const int64_t length = f.win_length.value_or(n), left = (n - length) / 2;
    if (n < 1) fail("{}: n_fft is {}, it must be at least 1", name, n);
    if (hop < 1) fail("{}: hop_length is {}, it must be at least 1", name, hop);
    if (length < 1 || length > n)
      fail("{}: win_length is {}, it must be from 1 to n_fft, {}", name, length, n);
    check_beside(name, "the window", f.window, x, {length});
    window = f.window.defined() ? to(f.window, x.dtype()) : ones({length}, x);
    if (length < n) window = pad(window, {left, n - length - left});
  }
};

/// The sum of frames [batch x frames x n], each `hop` after the one before: sums of blocks of `hop`.
Tensor overlap_add(const Tensor& frames, int64_t hop) {
  const int64_t batch = frames.size(0), count = frames.size(1), n = frames.size(2),
                blocks = (n + hop - 1) / hop;
  const Tensor x = reshape(pad(frames, {0, blocks * hop - n}), {batch, count, blocks, hop});
  Tensor sum;
  for (int64_t k = 0; k < blocks; ++k) {
    const Tensor later = pad(pick(x, 2, k), {0, 0, k, blocks - 1 - k});
    sum = k == 0 ? later : sum + later;
  }
  return slice(reshape(sum, {batch, -1}), 1, 0, n + hop * (count - 1));
}

/// n samples of f(x) for the phases x = 0 .. 2 pi, of which the last is left out if it is periodic.
Tensor window(const char* name, int64_t n, bool periodic, Dtype dtype, const auto& f) {
  if (n < 0) fail("{}: {} samples were requested", name, n);
  if (!is_float(dtype)) fail("{}: {} cannot hold fractions", name, dtype);
  if (n < 2) return ones({n}, dtype);
  const double step = 2 * kPi / double(periodic ? n : n - 1);
  return to(f(range(0, double(n - 1), 1, Dtype::f64) * step), dtype);
}

}  // namespace

Tensor stft(const Tensor& given, const Frames& options, Padding padding) {
  if (given.dim() != 1 && given.dim() != 2)
    fail("stft: x is (samples) or (batch x samples), got {}", given.shape());
  check_float("stft", given);
  Tensor x = to(given, compute_dtype(given.dtype()));
  const Framing f("stft", options, x);
  if (given.dim() == 1) x = unsqueeze(x, 0);
  if (options.center) {
    const int64_t side = f.n / 2;
    if (padding == Padding::reflect && side >= x.size(1))
      fail(
          "stft: {} samples are too few for a padding of {}; use pad_mode='constant' or a smaller n_fft",
          x.size(1), side);
    x = pad(x, {side, side}, padding);
  }
  if (x.size(1) < f.n) fail("stft: {} samples are less than n_fft, {}", x.size(1), f.n);
  const Tensor frames = unfold(x, 1, f.n, f.hop) * f.window;
  const Norm norm = options.normalized ? Norm::ortho : Norm::backward;
  const Tensor z = options.onesided ? rfft(frames, {}, -1, norm)
                                    : fft(complex(frames), {}, -1, norm),
               by_frequency = to(transpose(z, 1, 2), given.dtype());
  return given.dim() == 1 ? squeeze(by_frequency, 0) : by_frequency;
}

Tensor istft(const Tensor& given, const Frames& options, std::optional<int64_t> length) {
  if ((given.dim() != 3 && given.dim() != 4) || given.size(-1) != 2)
    fail(
        "istft: z is complex, (frequencies x frames x 2) or (batch x frequencies x frames x 2), got {}",
        given.shape());
  check_float("istft", given);
  Tensor z = to(given, compute_dtype(given.dtype()));
  const Framing f("istft", options, z);
  z = transpose(given.dim() == 3 ? unsqueeze(z, 0) : z, 1, 2);
  const int64_t rows = options.onesided ? f.n / 2 + 1 : f.n, frames = z.size(1);
  if (z.size(2) != rows || frames == 0)
    fail("istft: {} has {} frequencies and {} frames; n_fft {} needs {} frequencies and a frame",
         given.shape(), z.size(2), frames, f.n, rows);
  const Tensor signal = irfft(slice(z, 2, 0, f.n / 2 + 1), f.n, -1,
                              options.normalized ? Norm::ortho : Norm::backward) *
                        f.window;
  Tensor y = overlap_add(signal, f.hop);
  const Tensor squares = expand(square(f.window), {1, frames, f.n});
  const int64_t total = y.size(1), begin = options.center ? f.n / 2 : 0,
                end = length           ? begin + *length
                      : options.center ? total - f.n / 2
                                       : total,
                kept = std::min(end, total) - begin;
  if (length && *length < 1) fail("istft: length is {}, it must be at least 1", *length);
  if (kept < 1) fail("istft: {} frames leave no samples after center's padding is removed", frames);
  const Tensor envelope = slice(overlap_add(squares, f.hop), 1, begin, kept);
  if (amin(envelope).item() < 1e-11)
    fail(
        "istft: the squared windows of hop_length {} add up to 0 at a sample, which no frame determines; "
        "use a smaller hop_length or another window",
        f.hop);
  y = to(pad(slice(y, 1, begin, kept) / envelope, {0, end - begin - kept}), given.dtype());
  return given.dim() == 3 ? squeeze(y, 0) : y;
}

Tensor hamming_window(int64_t n, bool periodic, double alpha, double beta, Dtype dtype) {
  return window("hamming_window", n, periodic, dtype,
                [&](const Tensor& x) { return cos(x) * -beta + alpha; });
}
Tensor hann_window(int64_t n, bool periodic, Dtype dtype) {
  return window("hann_window", n, periodic, dtype,
                [](const Tensor& x) { return square(sin(x / 2.0)); });
}
Tensor blackman_window(int64_t n, bool periodic, Dtype dtype) {
  return window("blackman_window", n, periodic, dtype,
                [](const Tensor& x) { return cos(x * 2.0) * 0.08 - cos(x) * 0.5 + 0.42; });
}
Tensor bartlett_window(int64_t n, bool periodic, Dtype dtype) {
  return window("bartlett_window", n, periodic, dtype,
                [](const Tensor& x) { return 1.0 - mt::abs(x / kPi - 1.0); });
}

}  // namespace mt::fft
