// softmax.cu -- the softmax verb on CUDA: one team of threads for each line
#include "kernels/cuda/team.h"
#include "kernels/reductions.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

struct Larger {
  template <class T> __device__ T operator()(T a, T b) const { return op::Amax::combine(a, b); }
};

/// Computes the line at `out` of n elements with stride `step`; each thread holds K of them.
template <SoftmaxPart part, int K, class T, class Team, class N>
__device__ void line(const Team& team, T* out, const T* in, const T* grad, N n, int64_t step) {
  cuda::LineRegisters<K, T> x(team, in, n, step);
  double sum = 0;
  if constexpr (part == SoftmaxPart::softmax || part == SoftmaxPart::log_softmax) {
    T most = math::lowest<T>();
    x.each(team, n, [&](T v, N, int) { most = op::Amax::combine(most, v); });
    most = team.total(most, Larger{});
    x.each(team, n, [&](T& v, N, int) {
      const T e = math::exp(v - most);
      sum += double(e);
      if constexpr (part == SoftmaxPart::softmax) v = e;
    });
    sum = team.total(sum);
    if constexpr (part == SoftmaxPart::softmax) {
      const T scale = T(1 / sum);
      x.each(team, n,
             [&](T v, N i, int) { out[i * step] = (K > 0 ? v : math::exp(v - most)) * scale; });
    } else {
      const T log_sum = T(math::log(sum));
      x.each(team, n, [&](T v, N i, int) { out[i * step] = v - most - log_sum; });
    }
  } else {
    constexpr bool plain = part == SoftmaxPart::softmax_gradient;
    const cuda::LineRegisters<K, T> g(team, grad, n, step);
    x.each(team, n, [&](T v, N i, int k) { sum += double(plain ? g.at(i, k) * v : g.at(i, k)); });
    const T total = T(team.total(sum));
    x.each(team, n, [&](T v, N i, int k) {
      out[i * step] = plain ? v * (g.at(i, k) - total) : g.at(i, k) - math::exp(v) * total;
    });
  }
}

/// A thread holds K elements of a line; if K is 0, it reads its elements several times instead.
template <SoftmaxPart part, int K, class T, class Team>
__global__ void lines(const __grid_constant__ Softmax s) {
  const Team team;
  const int64_t lines = s.outer * s.inner, turns = (lines + Team::kTogether - 1) / Team::kTogether;
  for (const int64_t t : team.lines(turns * Team::kTogether)) {
    const bool valid = t < lines;
    const int64_t i = valid ? t : 0, o = s.inner == 1 ? i : i / s.inner;
    const int64_t at = o * s.n * s.inner + (i - o * s.inner);
    T* const out = static_cast<T*>(s.out) + at;
    const T* const in = static_cast<const T*>(s.in) + at;
    const T* const grad = s.grad ? static_cast<const T*>(s.grad) + at : nullptr;
    if constexpr (K > 0) line<part, K>(team, out, in, grad, int(s.n), 1);
    else line<part, 0>(team, out, in, grad, valid ? s.n : 0, s.inner);
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
    case cuda::Teams::alone: return run_in<part, T, cuda::SingleThread>(s, n);
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
