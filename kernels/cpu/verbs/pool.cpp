// pool.cpp -- max pooling on CPUs: one register of windows at a time
#include <type_traits>

#include "kernels/cpu/pool/parallel.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

using namespace simd;

template <class T> using Lane = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
/// One position for each element of a register.
template <class T> struct PlacesOf {
  typedef Lane<T> type __attribute__((vector_size(sizeof(Vector<T>))));
};
template <class T> using Places = typename PlacesOf<T>::type;

/// The windows of one row of results.
template <class T> struct Row {
  const MaxPool& c;
  WindowTaps rows;
  const T* x;  // the plane
  T* values;
  int64_t* index;  // null if positions are not wanted
};

template <class T> void one_window(const Row<T>& r, int64_t q) {
  const MaxPool& c = r.c;
  const WindowTaps columns(c, 1, q);
  const int64_t left = columns.start + columns.begin * c.dilation[1];
  int64_t best = (r.rows.start + r.rows.begin * c.dilation[0]) * c.size[1] + left;
  T most = r.x[best];
  for (int64_t i = r.rows.begin; i < r.rows.end && !mt_interrupted; ++i) {
    int64_t at = (r.rows.start + i * c.dilation[0]) * c.size[1] + left;
    for (int64_t j = columns.begin; j < columns.end; ++j, at += c.dilation[1]) {
      const T value = r.x[at];
      const bool is_larger = (value > most) | (value != value);
      best = is_larger ? at : best;
      most = is_larger ? value : most;
    }
  }
  r.values[q] = most;
  if (r.index) r.index[q] = best;
}

/// Loads the n elements p[0], p[stride], .. into a register. Stride is 1, 2, or 0 for any other.
template <class T, int Stride> MT_SIMD Vector<T> load_every(const T* p, int64_t stride, int n) {
  constexpr int W = kWidth<T>;
  if constexpr (Stride == 1) return n == W ? load(p) : load_first(p, n);
  if constexpr (Stride == 2) {
    const int all = 2 * n - 1;
    return all <= W ? even_elements(load_first(p, all), broadcast(T(0)))
                    : even_elements(load(p), load_first(p + W, all - W));
  }
  T x[W] = {};
  for (int i = 0; i < n; ++i) x[i] = p[i * stride];
  return load(x);
}

/// Computes the windows [q, q + n) of a register, all of whose columns are in bounds.
template <class T, int Stride> MT_SIMD void windows_of_register(const Row<T>& r, int64_t q, int n) {
  constexpr int W = kWidth<T>;
  const MaxPool& c = r.c;
  const int64_t stride = c.stride[1];
  const int64_t start =
      (r.rows.start + r.rows.begin * c.dilation[0]) * c.size[1] + q * stride + c.offset[1];
  const T* row = r.x + start;
  Vector<T> most = load_every<T, Stride>(row, stride, n);
  Places<T> best{};
  for (int64_t i = r.rows.begin, at = 0; i < r.rows.end && !mt_interrupted; ++i) {
    for (int64_t j = 0; j < c.kernel[1]; ++j) {
      const int64_t tap = at + j * c.dilation[1];
      const Vector<T> value = load_every<T, Stride>(row + tap, stride, n);
      const Places<T> is_larger = Places<T>((value > most) | (value != value));
      best = is_larger ? Places<T>{} + Lane<T>(tap) : best;
      most = is_larger ? value : most;
    }
    at += c.dilation[0] * c.size[1];
  }
  if (n == W) store(r.values + q, most);
  else store_first(r.values + q, most, n);
  if (!r.index) return;
  alignas(64) Lane<T> taps[W];
  __builtin_memcpy(taps, &best, sizeof taps);
  int64_t index[W];
  for (int k = 0; k < W; ++k) index[k] = start + k * stride + taps[k];
  __builtin_memcpy(r.index + q, index, n * sizeof *index);
}

template <class T, int Stride>
__attribute__((noinline)) void all_windows(const Row<T>& r, int64_t from, int64_t to) {
  constexpr int W = kWidth<T>;
  for (; to - from >= W && !mt_interrupted; from += W) windows_of_register<T, Stride>(r, from, W);
  if (from < to && to - from < W) windows_of_register<T, Stride>(r, from, int(to - from));
}

/// Calls body(plane) for each plane, with enough planes in a piece to be worth a task.
void each_plane(int64_t planes, int64_t cost, const auto& body) {
  const int64_t together = larger(kGrain / larger(cost, 1), 1);
  parallel_chunks(planes, together, planes * cost > 2 * kGrain, [&](int64_t i, int64_t end) {
    for (; i < end && !mt_interrupted; ++i) body(i);
  });
}

template <class T> void max_pool_as(const MaxPool& c) {
  const int64_t places = area(c.out), reach = (c.kernel[1] - 1) * c.dilation[1];
  // The windows of a row whose columns are in bounds; a position in a window fits in a lane.
  int64_t from = larger(ceil_div(-c.offset[1], c.stride[1]), 0);
  int64_t to = smaller(ceil_div(c.size[1] - reach - c.offset[1], c.stride[1]), c.out[1]);
  if (from >= to || area(c.size) > INT32_MAX) from = to = c.out[1];
  const auto run = c.stride[1] == 1   ? all_windows<T, 1>
                   : c.stride[1] == 2 ? all_windows<T, 2>
                                      : all_windows<T, 0>;
  each_plane(c.planes, places * area(c.kernel), [&](int64_t plane) {
    const T* x = static_cast<const T*>(c.x) + plane * area(c.size);
    T* values = static_cast<T*>(c.values) + plane * places;
    int64_t* index = c.index ? c.index + plane * places : nullptr;
    for (int64_t p = 0; p < c.out[0] && !mt_interrupted; ++p) {
      const Row<T> row{c, WindowTaps(c, 0, p), x, values + p * c.out[1],
                       index ? index + p * c.out[1] : nullptr};
      for (int64_t q = 0; q < from && !mt_interrupted; ++q) one_window(row, q);
      run(row, from, to);
      for (int64_t q = to; q < c.out[1] && !mt_interrupted; ++q) one_window(row, q);
    }
  });
}

template <class T> void max_pool_back(const MaxPool& c) {
  const int64_t places = area(c.out), size = area(c.size);
  each_plane(c.planes, places + size, [&](int64_t plane) {
    T* x = static_cast<T*>(c.x) + plane * size;
    const T* g = static_cast<const T*>(c.values) + plane * places;
    const int64_t* index = c.index + plane * places;
    __builtin_memset(x, 0, size * sizeof(T));
    in_strips(places, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) x[index[i]] += g[i];
    });
  });
}

}  // namespace

void max_pool(const MaxPool& c) {
  if (c.backward) return c.dtype == Dtype::f64 ? max_pool_back<double>(c) : max_pool_back<float>(c);
  if (c.dtype == Dtype::f64) max_pool_as<double>(c);
  else max_pool_as<float>(c);
}

}  // namespace MT_ISA
}  // namespace mt
