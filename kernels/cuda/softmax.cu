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
  template <class T> __device__ T operator()(T a, T b) const { return op::Amax::join(a, b); }
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
    for (int64_t i = first; i < n; i += by) most = op::Amax::join(most, in[i * step]);
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

template <SoftmaxPart part, class T, class Team>
__global__ void lines(const __grid_constant__ Softmax s) {
  const Team team;
  const int64_t lines = s.outer * s.inner, turns = (lines + Team::kTogether - 1) / Team::kTogether;
  for (int64_t t = team.first_line(); t < turns * Team::kTogether; t += team.lines_at_once()) {
    const bool there = t < lines;
    const int64_t i = there ? t : 0, o = s.inner == 1 ? i : i / s.inner;
    const int64_t at = o * s.n * s.inner + (i - o * s.inner);
    line<part>(team, static_cast<T*>(s.out) + at, static_cast<const T*>(s.in) + at,
               s.grad ? static_cast<const T*>(s.grad) + at : nullptr, there ? s.n : 0, s.inner);
  }
}

template <SoftmaxPart part, class T> void run(const Softmax& s) {
  const int64_t n = s.outer * s.inner;
  if (s.inner >= 8 && s.n > 32 && n < 65536)
    return cuda::launch_teams<cuda::Column>("softmax", lines<part, T, cuda::Column>, n, s);
  switch (cuda::team_for(n, s.n, s.inner > 1)) {
    case cuda::Teams::alone:
      return cuda::launch_teams<cuda::Alone>("softmax", lines<part, T, cuda::Alone>, n, s);
    case cuda::Teams::warp:
      return cuda::launch_teams<cuda::Warp>("softmax", lines<part, T, cuda::Warp>, n, s);
    case cuda::Teams::block:
      return cuda::launch_teams<cuda::Block>("softmax", lines<part, T, cuda::Block>, n, s);
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
