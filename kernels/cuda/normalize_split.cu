// normalize_split.cu -- the normalize verb on CUDA for few, long rows: each is split over many blocks
//
// Each part of a row is reduced to a partial result, a warp combines the parts of a row in order,
// and a third kernel processes the elements. The elements of a thread depend only on the shape: the
// same bits on every run.
#include <type_traits>

#include "kernels/cuda/load.h"
#include "kernels/cuda/normalize.h"
#include "kernels/cuda/team.h"
#include "kernels/moments.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {
namespace {

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
  /// Calls `body(x)` for each element of `data`.
  template <class F> __device__ void elements(const void* data, const F& body) const {
    each([&](const int64_t* at, auto n) {
      cuda::Group<T, W> x[n.value];
      for (int k = 0; k < n.value; ++k) x[k] = load(data, at[k]);
      for (int k = 0; k < n.value; ++k)
        for (int j = 0; j < W; ++j) body(x[k].v[j]);
    });
  }
  /// Calls `body(x, grad)` for each element.
  template <class F> __device__ void pairs(const F& body) const {
    each([&](const int64_t* at, auto n) {
      cuda::Group<T, W> x[n.value], g[n.value];
      for (int k = 0; k < n.value; ++k) x[k] = load(s.c.x, at[k]), g[k] = load(s.c.grad, at[k]);
      for (int k = 0; k < n.value; ++k)
        for (int j = 0; j < W; ++j) body(x[k].v[j], g[k].v[j]);
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
    part.elements(s.c.x, [&](T x) { sum += double(x); });
    sum = team.total(sum);
  }
  const double mean = sum / n;
  const T rounded_mean = T(mean);
  part.elements(s.c.x, [&](T x) {
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
  part.each([&](const int64_t* at, auto n) {
    cuda::Group<T, W> x[n.value];
    for (int k = 0; k < n.value; ++k) x[k] = part.load(s.c.x, at[k]);
    for (int k = 0; k < n.value; ++k) {
      for (T& v : x[k].v) {
        const T y = (v - mean) * rate;
        v = plain ? y : y * w + b;
      }
      part.store(s.c.out, at[k], x[k]);
    }
  });
}

template <class T, int W> __global__ void sums(const __grid_constant__ Split s) {
  const Part<T, W> part(s);
  const cuda::Block team;
  const T mean = static_cast<const T*>(s.c.mean)[part.row],
          rate = static_cast<const T*>(s.c.rate)[part.row];
  Sums all{0, 0};
  part.pairs([&](T x, T g) { all.g += double(g), all.gx += double(g * ((x - mean) * rate)); });
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
  part.each([&](const int64_t* at, auto n) {
    cuda::Group<T, W> x[n.value], g[n.value];
    for (int k = 0; k < n.value; ++k)
      x[k] = part.load(s.c.x, at[k]), g[k] = part.load(s.c.grad, at[k]);
    for (int k = 0; k < n.value; ++k) {
      for (int j = 0; j < W; ++j)
        x[k].v[j] = (g[k].v[j] * w - mean_grad - (x[k].v[j] - mean) * rate * slope) * rate;
      part.store(s.c.out, at[k], x[k]);
    }
  });
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

}  // namespace

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

}  // namespace MT_ISA
}  // namespace mt
