// normalize.cu -- the normalize verb on CUDA: one team of threads for each row, many blocks for few long rows
#include <type_traits>

#include "kernels/cuda/load.h"
#include "kernels/cuda/team.h"
#include "kernels/moments.h"
#include "kernels/verbs.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// a / b of non-negative numbers; uses 32 bits if they suffice.
__device__ inline int64_t divide(int64_t a, int64_t b) {
  return ((a | b) >> 32) == 0 ? int64_t(uint32_t(a) / uint32_t(b)) : a / b;
}

/// A row: `outer` pieces of `inner` elements; a piece has `channels_per_group` channels of
/// `spatial` elements.
template <class T, class Team> struct Row {
  const Normalize& c;
  const Team& team;
  const int64_t row, inner, step;
  const double share;     // the weight of an element in a mean
  const int64_t channel;  // the first channel

  __device__ Row(const Normalize& c, const Team& team, int64_t row, double share)
      : c(c),
        team(team),
        row(row),
        inner(c.channels_per_group * c.spatial),
        step(c.batch * c.groups * inner),
        share(share),
        channel(row % c.groups * c.channels_per_group) {}

  /// Calls `body(offset in memory, index in the piece)` for this thread's share of the elements
  /// [from, from + n) of every piece.
  template <class F> __device__ void each(int64_t from, int64_t count, const F& body) const {
    const int64_t base = row * inner + from;
    if (c.outer == 1) {
      for (int64_t i = team.number(); i < count; i += team.size()) body(base + i, from + i);
      return;
    }
    const int64_t o_step = team.size() / count, i_step = team.size() % count;
    int64_t o = team.number() / count, i = team.number() % count;
    while (o < c.outer) {
      body(base + o * step + i, from + i);
      o += o_step, i += i_step;
      if (i >= count) i -= count, ++o;
    }
  }
  /// The channel of the row that the i-th element of a piece belongs to.
  __device__ int64_t channel_of(int64_t i) const {
    return c.spatial == 1 ? i : c.channels_per_group == 1 ? 0 : divide(i, c.spatial);
  }
  __device__ T weight(int64_t p) const {
    return c.weight ? static_cast<const T*>(c.weight)[channel + p] : T(1);
  }

  /// Stores the statistics of the row; returns 1 / sqrt(variance + eps).
  __device__ T store_statistics(T mean, double variance) const {
    const T rate = 1 / math::sqrt(T(variance + c.eps));
    if (team.number() == 0) {
      static_cast<T*>(c.mean)[row] = mean;
      static_cast<T*>(c.variance)[row] = T(variance);
      static_cast<T*>(c.rate)[row] = rate;
    }
    return rate;
  }
  /// Applies the weight and bias of its channel to the normalized i-th element of a piece.
  __device__ T scaled(T y, int64_t i) const {
    const T* const bias = static_cast<const T*>(c.bias);
    if (!c.weight && !bias) return y;
    const int64_t p = channel_of(i);
    return y * weight(p) + (bias ? bias[channel + p] : T(0));
  }

  /// The accumulator of a thread for K elements: conversions to double and divisions dominate the time.
  template <int K> using Sum = std::conditional_t<(K > 0), T, double>;

  /// If a row is a single piece, a thread may hold K elements in registers.
  template <int K> __device__ void forward() const {
    const T* const x = static_cast<const T*>(c.x);
    T* const out = static_cast<T*>(c.out);
    const int64_t base = row * inner;
    cuda::LineRegisters<K, T> in_registers(team, x + base, inner, 1);
    const auto each_x = [&](const auto& body) {  // body(element, its offset, index in the piece)
      if constexpr (K > 0)
        in_registers.each(team, int(inner), [&](T v, int i, int) { body(v, base + i, i); });
      else each(0, inner, [&](int64_t at, int64_t i) { body(x[at], at, i); });
    };
    Sum<K> sum = 0, squares = 0, off = 0;
    if (c.centred) each_x([&](T v, int64_t, int64_t) { sum += v; });
    T mean = c.centred ? T(team.total(double(sum)) * share) : T(0);
    each_x([&](T v, int64_t, int64_t) {
      const T d = v - mean;
      squares += d * d;
      if constexpr (op::kRoundedMean<T>) off += d;
    });
    double all = team.total(double(squares));
    if constexpr (op::kRoundedMean<T>) {
      if (c.centred) {
        const auto m = op::moments<T>(double(c.outer * inner), mean, team.total(off), all);
        mean = m.mean, all = m.m2;
      }
    }
    const T rate = store_statistics(mean, all * share);
    each_x([&](T v, int64_t at, int64_t i) { out[at] = scaled((v - mean) * rate, i); });
  }

  /// The backward pass for channels of one element, which are held in registers.
  template <int K> __device__ void backward_in_registers() const {
    const int64_t base = row * inner;
    const int size = int(inner);
    cuda::LineRegisters<K, T> x(team, static_cast<const T*>(c.x) + base, size),
        g(team, static_cast<const T*>(c.grad) + base, size);
    const T mean = static_cast<const T*>(c.mean)[row], rate = static_cast<const T*>(c.rate)[row];
    T a = 0, b = 0;
    g.each(team, size, [&](T& v, int i, int k) {
      v = v * weight(i), x.v[k] = (x.v[k] - mean) * rate;
      a += v, b += v * x.v[k];
    });
    const T grad_mean = c.centred ? T(team.total(double(a)) * share) : T(0),
            slope = T(team.total(double(b)) * share);
    T* const dx = static_cast<T*>(c.out) + base;
    g.each(team, size, [&](T v, int i, int k) { dx[i] = (v - grad_mean - x.v[k] * slope) * rate; });
  }

  __device__ void backward() const {
    const T* const x = static_cast<const T*>(c.x);
    const T* const g = static_cast<const T*>(c.grad);
    T* const dx = static_cast<T*>(c.out);
    const T mean = static_cast<const T*>(c.mean)[row], rate = static_cast<const T*>(c.rate)[row];
    double a = 0, b = 0;
    if (c.spatial > 1) {  // the sums of each channel are also the gradient of its weight
      const int64_t to = row / c.groups * c.groups * c.channels_per_group + channel;
      for (int64_t p = 0; p < c.channels_per_group; ++p) {
        double here_a = 0, here_b = 0;
        each(p * c.spatial, c.spatial, [&](int64_t at, int64_t) {
          here_a += double(g[at]), here_b += double(g[at] * ((x[at] - mean) * rate));
        });
        here_a = team.total(here_a), here_b = team.total(here_b);
        if (team.number() == 0) {
          if (c.bias_grad) static_cast<T*>(c.bias_grad)[to + p] += T(here_a);
          if (c.weight_grad) static_cast<T*>(c.weight_grad)[to + p] += T(here_b);
        }
        a += double(weight(p)) * here_a, b += double(weight(p)) * here_b;
      }
    } else {
      each(0, inner, [&](int64_t at, int64_t i) {
        const T w = g[at] * weight(i);
        a += double(w), b += double(w * ((x[at] - mean) * rate));
      });
      a = team.total(a), b = team.total(b);
    }
    const T grad_mean = c.centred ? T(a * share) : T(0), slope = T(b * share);
    each(0, inner, [&](int64_t at, int64_t i) {
      const T w = c.weight ? weight(channel_of(i)) : T(1);
      dx[at] = (g[at] * w - grad_mean - (x[at] - mean) * rate * slope) * rate;
    });
  }
};

/// A thread holds K elements of a row; if K is 0, it reads its elements several times instead.
/// Forward and backward are separate kernels: backward needs twice the registers.
template <class T, class Team, int K, bool Backward>
__global__ void rows(const __grid_constant__ Normalize c, double share) {
  const Team team;
  const int64_t rows = c.batch * c.groups;
  for (const int64_t i : team.lines(rows)) {
    const Row<T, Team> row(c, team, i, share);
    if constexpr (K > 0 && Backward) row.template backward_in_registers<K>();
    else if constexpr (Backward) row.backward();
    else row.template forward<K>();
  }
}

/// The gradients of the weights of single-element channels: a thread sums its part of the batch, in order.
template <class T> __global__ void element_parts(const __grid_constant__ Normalize c) {
  const int64_t width = c.groups * c.channels_per_group, each = normalize_batch_per_part(c),
                n = normalize_parts(c) * width;
  const T *const x = static_cast<const T*>(c.x), *const g = static_cast<const T*>(c.grad);
  T* const dw = static_cast<T*>(c.weight_grad);
  T* const db = static_cast<T*>(c.bias_grad);
  for (const int64_t t : cuda::turns(n)) {
    const int64_t part = t / width, i = t - part * width, end = smaller(c.batch, (part + 1) * each);
    const int64_t place = divide(i, c.channels_per_group);
    T w = 0, b = 0;
    for (int64_t image = part * each; image < end; ++image) {
      const int64_t at = image * width + i, row = image * c.groups + place;
      w += g[at] *
           ((x[at] - static_cast<const T*>(c.mean)[row]) * static_cast<const T*>(c.rate)[row]);
      b += g[at];
    }
    if (dw) dw[t] += w;
    if (db) db[t] += b;
  }
}

/// Uses given statistics, with one thread per element.
template <class T> __global__ void shift(const __grid_constant__ Normalize c, int64_t n) {
  const T *const mean = static_cast<const T*>(c.mean), *const bias = static_cast<const T*>(c.bias),
                 *const variance = static_cast<const T*>(c.variance),
                 *const weight = static_cast<const T*>(c.weight);
  const int64_t channels = c.groups * c.channels_per_group;
  for (const int64_t i : cuda::turns(n)) {
    const int64_t row = divide(i, c.spatial), p = row - divide(row, channels) * channels;
    const T rate = op::Rsqrt::f(variance[p] + T(c.eps)), scale = weight ? rate * weight[p] : rate;
    const T y = (static_cast<const T*>(c.x)[i] - mean[p]) * scale;
    static_cast<T*>(c.out)[i] = bias ? y + bias[p] : y;
  }
}

template <class T, class Team, bool Backward> void run_rows(const Normalize& c) {
  const auto start = [&](auto k) {
    cuda::launch_teams<Team>("normalize", rows<T, Team, k.value, Backward>, c.batch * c.groups, c,
                             1 / double(c.outer * c.channels_per_group * c.spatial));
  };
  if (c.outer == 1 && (!Backward || c.spatial == 1) &&
      cuda::held<Team>(c.channels_per_group * c.spatial, start))
    return;
  start(std::integral_constant<int, 0>{});
}
template <class T, class Team> void run_rows(const Normalize& c) {
  c.grad ? run_rows<T, Team, true>(c) : run_rows<T, Team, false>(c);
}

template <class T> void run(const Normalize& c) {
  if (c.given) {
    const int64_t all = c.outer * c.batch * c.groups * c.channels_per_group * c.spatial;
    return cuda::launch_each("normalize", shift<T>, all, c, all);
  }
  const int64_t elements = c.outer * c.channels_per_group * c.spatial;
  // Short channels are summed one by one: by a warp, which needs no barriers.
  const bool short_channels = c.grad && c.spatial > 1 && c.outer * c.spatial <= 64;
  if (elements <= 512 || short_channels) run_rows<T, cuda::Warp>(c);
  else run_rows<T, cuda::Block>(c);
  if (!c.grad || c.spatial > 1 || !(c.weight_grad || c.bias_grad)) return;
  const int64_t threads = normalize_parts(c) * c.groups * c.channels_per_group;
  cuda::launch_each("normalize", element_parts<T>, threads, c);
}

// ---- few, long rows -------------------------------------------------------------------------------
// Each part of a row is reduced to a partial result, a warp combines the parts of a row in order,
// and a third kernel processes the elements. The elements of a thread depend only on the shape: the
// same bits on every run.

constexpr int64_t kMinPart = 8192;  // elements of a part
constexpr int64_t kBlocks = 4096;   // about as many blocks as all rows together are split into
constexpr int kAtOnce = 4;          // loads of a thread in flight

/// The sums of g and of g times the normalized x.
struct Sums {
  double g, gx;
  __device__ Sums operator+(const Sums& s) const { return {g + s.g, gx + s.gx}; }
};
struct JoinMoments {
  __device__ op::Moments operator()(const op::Moments& a, const op::Moments& b) const {
    return op::combine(a, b);
  }
};
/// Rows of `outer` pieces of `spatial` elements of one channel, in `parts` parts of `part` elements.
struct Split {
  Normalize c;
  int64_t rows, elements, part, parts;
  bool aligned;   // x, grad and out are all aligned to 16 bytes
  void* partial;  // [rows, parts] of Moments or Sums
  void* slopes;   // [rows, 2], backward: the means of the weighted g and g x
};

/// The part of a row of one block, W consecutive elements at a time.
template <class T, int W> struct Part {
  const Split& s;
  const int64_t row, from, to, base, step;

  __device__ explicit Part(const Split& s)
      : s(s),
        row(blockIdx.x),
        from(int64_t(blockIdx.y) * s.part),
        to(smaller(s.elements, from + s.part)),
        base(row * s.c.spatial),
        step(s.rows * s.c.spatial) {}

  /// The offset of element i of the row.
  __device__ int64_t place(int64_t i) const {
    const int64_t o = divide(i, s.c.spatial);
    return base + o * step + (i - o * s.c.spatial);
  }
  __device__ cuda::Group<T, W> load(const void* data, int64_t at) const {
    const T* const x = static_cast<const T*>(data) + at;
    cuda::Group<T, W> g;
    if constexpr (W > 1) {
      if (s.aligned) return cuda::load_group<cuda::Group<T, W>>(x);
    }
    for (int k = 0; k < W; ++k) g.v[k] = x[k];
    return g;
  }
  __device__ void store(void* data, int64_t at, const cuda::Group<T, W>& g) const {
    T* const y = static_cast<T*>(data) + at;
    if (s.aligned) *reinterpret_cast<cuda::Group<T, W>*>(y) = g;
    else
      for (int k = 0; k < W; ++k) y[k] = g.v[k];
  }
  /// Calls `body(offsets, count)` for this thread's share; the count is a constant.
  template <class F> __device__ void each(const F& body) const {
    const int64_t turn = int64_t(blockDim.x) * W;
    int64_t i = from + int64_t(threadIdx.x) * W;
    for (; i + (kAtOnce - 1) * turn < to; i += kAtOnce * turn) {
      int64_t at[kAtOnce];
      for (int k = 0; k < kAtOnce; ++k) at[k] = place(i + k * turn);
      body(at, std::integral_constant<int, kAtOnce>{});
    }
    for (; i < to; i += turn) {
      const int64_t at[1] = {place(i)};
      body(at, std::integral_constant<int, 1>{});
    }
  }
  /// Calls `body(x, grad)` for each element; without `kGrad` grad is 0. With `kStores` out gets its results.
  template <bool kGrad, bool kStores, class F> __device__ void elements(const F& body) const {
    each([&](const int64_t* at, auto n) {
      cuda::Group<T, W> x[n.value], g[n.value] = {};
      for (int k = 0; k < n.value; ++k) {
        x[k] = load(s.c.x, at[k]);
        if constexpr (kGrad) g[k] = load(s.c.grad, at[k]);
      }
      for (int k = 0; k < n.value; ++k) {
        for (int j = 0; j < W; ++j)
          if constexpr (kStores) x[k].v[j] = body(x[k].v[j], g[k].v[j]);
          else body(x[k].v[j], g[k].v[j]);
        if constexpr (kStores) store(s.c.out, at[k], x[k]);
      }
    });
  }
  template <class S> __device__ S& partial() const {
    return static_cast<S*>(s.partial)[row * s.parts + blockIdx.y];
  }
};

template <class T> __device__ T value_at(const void* values, int64_t i, T otherwise) {
  return values ? static_cast<const T*>(values)[i] : otherwise;
}

/// Computes the mean of a part and its squared deviations; the second pass reads from the cache.
template <class T, int W> __global__ void part_moments(const __grid_constant__ Split s) {
  const Part<T, W> part(s);
  const cuda::Block team;
  const double n = double(part.to - part.from);
  double sum = 0, squares = 0, off = 0;
  if (s.c.centred) {
    part.template elements<false, false>([&](T x, T) { sum += double(x); });
    sum = team.total(sum);
  }
  const double mean = sum / n;
  const T rounded_mean = T(mean);
  part.template elements<false, false>([&](T x, T) {
    const T d = x - rounded_mean;
    squares += double(d * d);
    if constexpr (op::kRoundedMean<T>) off += d;
  });
  squares = team.total(squares);
  if constexpr (op::kRoundedMean<T>) off = s.c.centred ? team.total(off) : 0;
  const double lost = mean - double(rounded_mean);
  if (team.number() == 0)
    part.template partial<op::Moments>() = op::moments<T>(n, mean, off, squares - n * lost * lost);
}
/// Combines the parts of each row in one warp.
template <class T> __global__ void join_moments(const __grid_constant__ Split s) {
  const cuda::Warp team;
  for (const int64_t row : team.lines(s.rows)) {
    const op::Moments* const parts = static_cast<const op::Moments*>(s.partial) + row * s.parts;
    op::Moments all{0, 0, 0};
    for (int64_t p = team.number(); p < s.parts; p += team.size()) all = op::combine(all, parts[p]);
    all = team.total(all, JoinMoments{});
    if (team.number() != 0) continue;
    const double variance = all.m2 / all.n;
    static_cast<T*>(s.c.mean)[row] = T(all.mean);
    static_cast<T*>(s.c.variance)[row] = T(variance);
    static_cast<T*>(s.c.rate)[row] = T(1 / math::sqrt(variance + s.c.eps));
  }
}
template <class T, int W> __global__ void scale(const __grid_constant__ Split s) {
  const Part<T, W> part(s);
  const int64_t channel = part.row % s.c.groups;
  const T mean = static_cast<const T*>(s.c.mean)[part.row],
          rate = static_cast<const T*>(s.c.rate)[part.row];
  const T w = value_at<T>(s.c.weight, channel, 1), b = value_at<T>(s.c.bias, channel, 0);
  const bool plain = !s.c.weight && !s.c.bias;
  part.template elements<false, true>([&](T x, T) {
    const T y = (x - mean) * rate;
    return plain ? y : y * w + b;
  });
}

template <class T, int W> __global__ void sums(const __grid_constant__ Split s) {
  const Part<T, W> part(s);
  const cuda::Block team;
  const T mean = static_cast<const T*>(s.c.mean)[part.row],
          rate = static_cast<const T*>(s.c.rate)[part.row];
  Sums all{0, 0};
  part.template elements<true, false>(
      [&](T x, T g) { all.g += double(g), all.gx += double(g * ((x - mean) * rate)); });
  all = team.total(all);
  if (team.number() == 0) part.template partial<Sums>() = all;
}
template <class T> __global__ void join_sums(const __grid_constant__ Split s) {
  const cuda::Warp team;
  const double n = double(s.elements);
  for (const int64_t row : team.lines(s.rows)) {
    const Sums* const parts = static_cast<const Sums*>(s.partial) + row * s.parts;
    Sums all{0, 0};
    for (int64_t p = team.number(); p < s.parts; p += team.size()) all = all + parts[p];
    all = team.total(all);
    if (team.number() != 0) continue;
    const double w = double(value_at<T>(s.c.weight, row % s.c.groups, 1));
    if (s.c.bias_grad) static_cast<T*>(s.c.bias_grad)[row] += T(all.g);
    if (s.c.weight_grad) static_cast<T*>(s.c.weight_grad)[row] += T(all.gx);
    static_cast<T*>(s.slopes)[2 * row] = s.c.centred ? T(w * all.g / n) : T(0);
    static_cast<T*>(s.slopes)[2 * row + 1] = T(w * all.gx / n);
  }
}
template <class T, int W> __global__ void gradients(const __grid_constant__ Split s) {
  const Part<T, W> part(s);
  const T mean = static_cast<const T*>(s.c.mean)[part.row],
          rate = static_cast<const T*>(s.c.rate)[part.row];
  const T w = value_at<T>(s.c.weight, part.row % s.c.groups, 1);
  const T mean_grad = static_cast<const T*>(s.slopes)[2 * part.row],
          slope = static_cast<const T*>(s.slopes)[2 * part.row + 1];
  part.template elements<true, true>(
      [&](T x, T g) { return (g * w - mean_grad - (x - mean) * rate * slope) * rate; });
}

template <class T, int W> void run(const Split& s) {
  const dim3 grid(unsigned(s.rows), unsigned(s.parts));
  const auto parts = [&](auto kernel) {
    cuda::launch_blocks("normalize", kernel, grid, cuda::kThreads, cuda::Block::kShared, s);
  };
  if (s.c.grad) {
    parts(sums<T, W>);
    cuda::launch_teams<cuda::Warp>("normalize", join_sums<T>, s.rows, s);
    cuda::launch("normalize", gradients<T, W>, grid, cuda::kThreads, s);
  } else {
    parts(part_moments<T, W>);
    cuda::launch_teams<cuda::Warp>("normalize", join_moments<T>, s.rows, s);
    cuda::launch("normalize", scale<T, W>, grid, cuda::kThreads, s);
  }
}
template <class T> void run(Split& s) {
  constexpr int wide = 16 / sizeof(T);
  const auto address = [](const void* data) { return reinterpret_cast<uintptr_t>(data); };
  s.aligned = (address(s.c.x) | address(s.c.grad) | address(s.c.out)) % 16 == 0;
  if (s.c.spatial % wide == 0) run<T, wide>(s);
  else run<T, 1>(s);
}

/// Normalizes with several blocks per row; does nothing and returns false for short or many rows.
bool normalize_split(const Normalize& c) {
  Split s{c, c.batch * c.groups, c.outer * c.spatial, 0, 0, false, nullptr, nullptr};
  if (c.channels_per_group > 1 || c.spatial == 1 || s.rows >= kBlocks / 2 ||
      s.elements < 2 * kMinPart)
    return false;
  const int64_t most = kBlocks / s.rows;
  s.part = (s.elements + most - 1) / most;
  s.part = s.part < kMinPart ? kMinPart : (s.part + 15) / 16 * 16;
  s.parts = (s.elements + s.part - 1) / s.part;
  const size_t slopes = c.grad ? size_t(s.rows) * 2 * sizeof(double) : 0,
               partial = size_t(s.rows * s.parts) * (c.grad ? sizeof(Sums) : sizeof(op::Moments));
  const cuda::Scratch scratch(slopes + partial);
  s.slopes = scratch.as<void>();
  s.partial = scratch.as<char>() + slopes;
  if (c.dtype == Dtype::f32) run<float>(s);
  else run<double>(s);
  return true;
}

}  // namespace

void normalize(const Normalize& c) {
  if (c.outer * c.batch * c.groups * c.channels_per_group * c.spatial == 0) return;
  if (!c.given && normalize_split(c)) return;
  if (c.dtype == Dtype::f32) run<float>(c);
  else run<double>(c);
}

}  // namespace MT_ISA
}  // namespace mt
