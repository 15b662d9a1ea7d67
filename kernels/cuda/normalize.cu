// normalize.cu -- the normalize verb on CUDA: one team of threads for each row
#include "kernels/cuda/normalize.h"

#include "kernels/cuda/team.h"
#include "kernels/moments.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

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

}  // namespace

void normalize(const Normalize& c) {
  if (c.outer * c.batch * c.groups * c.channels_per_group * c.spatial == 0) return;
  if (!c.given && normalize_split(c)) return;
  if (c.dtype == Dtype::f32) run<float>(c);
  else run<double>(c);
}

}  // namespace MT_ISA
}  // namespace mt
