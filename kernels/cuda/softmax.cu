// softmax.cu -- the softmax verb on CUDA: a team of threads for each line
#include "kernels/cuda/team.h"
#include "kernels/device.h"
#include "kernels/reductions.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

struct Add {
  __device__ double operator()(double a, double b) const { return a + b; }
};
struct Larger {
  template <class T> __device__ T operator()(T a, T b) const { return op::Amax::combine(a, b); }
};

/// The line at `out`, n elements `step` apart.
template <SoftmaxPart part, class T, class Team>
__device__ void line(const Team& team, T* out, const T* in, const T* grad, int64_t n,
                     int64_t step) {
  constexpr bool forward = part == SoftmaxPart::softmax || part == SoftmaxPart::log_softmax;
  const int64_t first = team.number(), by = team.size();
  double sum = 0;
  if constexpr (forward) {
    T most = math::lowest<T>();
    for (int64_t i = first; i < n; i += by) most = op::Amax::combine(most, in[i * step]);
    most = team.total(most, Larger{});
    for (int64_t i = first; i < n; i += by) sum += double(math::exp(in[i * step] - most));
    sum = team.total(sum, Add{});
    if constexpr (part == SoftmaxPart::softmax) {
      const T scale = T(1 / sum);
      for (int64_t i = first; i < n; i += by)
        out[i * step] = math::exp(in[i * step] - most) * scale;
    } else {
      const T log_sum = T(math::log(sum));
      for (int64_t i = first; i < n; i += by) out[i * step] = in[i * step] - most - log_sum;
    }
  } else if constexpr (part == SoftmaxPart::softmax_gradient) {
    for (int64_t i = first; i < n; i += by) sum += double(grad[i * step] * in[i * step]);
    const T mean = T(team.total(sum, Add{}));
    for (int64_t i = first; i < n; i += by) out[i * step] = in[i * step] * (grad[i * step] - mean);
  } else {
    for (int64_t i = first; i < n; i += by) sum += double(grad[i * step]);
    const T total = T(team.total(sum, Add{}));
    for (int64_t i = first; i < n; i += by)
      out[i * step] = grad[i * step] - math::exp(in[i * step]) * total;
  }
}

/// A contiguous line, which each thread reads once: the same sums in the same order.
template <SoftmaxPart part, int K, class T, class Team>
__device__ void held_line(const Team& team, T* out, const T* in, const T* grad, int n) {
  cuda::Held<K, T> x(team, in, n);
  double sum = 0;
  if constexpr (part == SoftmaxPart::softmax || part == SoftmaxPart::log_softmax) {
    T most = math::lowest<T>();
    x.each(team, n, [&](T v, int, int) { most = op::Amax::combine(most, v); });
    most = team.total(most, Larger{});
    x.each(team, n, [&](T& v, int, int) {
      const T e = math::exp(v - most);
      sum += double(e);
      if constexpr (part == SoftmaxPart::softmax) v = e;
    });
    sum = team.total(sum, Add{});
    if constexpr (part == SoftmaxPart::softmax) {
      const T scale = T(1 / sum);
      x.each(team, n, [&](T v, int i, int) { out[i] = v * scale; });
    } else {
      const T log_sum = T(math::log(sum));
      x.each(team, n, [&](T v, int i, int) { out[i] = v - most - log_sum; });
    }
  } else {
    constexpr bool plain = part == SoftmaxPart::softmax_gradient;
    cuda::Held<K, T> g(team, grad, n);
    x.each(team, n, [&](T v, int, int k) { sum += double(plain ? g.v[k] * v : g.v[k]); });
    const T total = T(team.total(sum, Add{}));
    x.each(team, n, [&](T v, int i, int k) {
      out[i] = plain ? v * (g.v[k] - total) : g.v[k] - math::exp(v) * total;
    });
  }
}

/// K: how many elements of a line a thread holds; 0: none, it reads them several times.
template <SoftmaxPart part, int K, class T, class Team>
__global__ void lines(const __grid_constant__ Softmax s) {
  const Team team;
  const int64_t lines = s.outer * s.inner, turns = (lines + Team::kTogether - 1) / Team::kTogether;
  for (const int64_t t : team.lines(turns * Team::kTogether)) {
    const bool there = t < lines;
    const int64_t i = there ? t : 0, o = s.inner == 1 ? i : i / s.inner;
    const int64_t at = o * s.n * s.inner + (i - o * s.inner);
    T* const out = static_cast<T*>(s.out) + at;
    const T* const in = static_cast<const T*>(s.in) + at;
    const T* const grad = s.grad ? static_cast<const T*>(s.grad) + at : nullptr;
    if constexpr (K > 0) held_line<part, K>(team, out, in, grad, int(s.n));
    else line<part>(team, out, in, grad, there ? s.n : 0, s.inner);
  }
}

template <SoftmaxPart part, class T, class Team> void run_in(const Softmax& s, int64_t n) {
  const auto start = [&](auto k) {
    cuda::launch_teams<Team>("softmax", lines<part, k.value, T, Team>, n, s);
  };
  if constexpr (Team::kTogether == 1 && Team::kLines < cuda::kThreads) {
    if (s.inner == 1 && cuda::held<Team>(s.n, start)) return;
  }
  start(std::integral_constant<int, 0>{});
}
template <SoftmaxPart part, class T> void run(const Softmax& s) {
  const int64_t n = s.outer * s.inner;
  if (s.inner >= 8 && s.n > 32 && n < 65536) return run_in<part, T, cuda::Column>(s, n);
  switch (cuda::team_for(n, s.n, s.inner > 1)) {
    case cuda::Teams::alone: return run_in<part, T, cuda::Alone>(s, n);
    case cuda::Teams::warp: return run_in<part, T, cuda::Warp>(s, n);
    case cuda::Teams::block: return run_in<part, T, cuda::Block>(s, n);
  }
}
template <SoftmaxPart part> void run(const Softmax& s) {
  if (s.dtype == Dtype::f32) run<part, float>(s);
  else run<part, double>(s);
}

}  // namespace

void softmax(const Softmax& s) {
  if (s.outer * s.n * s.inner == 0) return;
  switch (s.part) {
    case SoftmaxPart::softmax: return run<SoftmaxPart::softmax>(s);
    case SoftmaxPart::log_softmax: return run<SoftmaxPart::log_softmax>(s);
    case SoftmaxPart::softmax_gradient: return run<SoftmaxPart::softmax_gradient>(s);
    case SoftmaxPart::log_softmax_gradient: return run<SoftmaxPart::log_softmax_gradient>(s);
  }
}

}  // namespace MT_ISA
}  // namespace mt
