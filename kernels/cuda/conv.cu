// conv.cu -- convolution on CUDA: its three parts by elements or tiles, filters; max pooling
//
// Large convolutions use cuBLAS (conv_products.cu), or cuDNN if it is requested (conv_cudnn.cu).
// With enough channels, each part is an implicit matrix product by tiles (tiles.h), whose elements
// are read from the image. Otherwise one thread, or for the weight one block, computes one element
// of the result. Depthwise filters keep the filter in registers.
#include "kernels/cuda/conv.h"

#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

// ---- as matrix products, one per group ----------------------------------------------------------

template <class Element> struct Part {
  using T = Exact<Element>;
  using Sum = T;
  int64_t entries, m, n, k;
  bool a_along_k, b_along_k;
  Conv c;
};

/// y: outputs x (images and positions), summed over (inputs and taps).
template <class E> struct OutputPart : Part<E> {
  using Row = const E*;
  struct Column {
    const E* x;
    Corner corner;
  };
  explicit OutputPart(const Conv& c)
      : Part<E>{c.groups, c.outputs, c.batch * area(c.out), c.inputs * area(c.kernel), true,
                false,    c} {}
  OutputPart() = default;
  __device__ Row row(int64_t g, int64_t i) const {
    return static_cast<const E*>(this->c.w) + (g * this->m + i) * this->k;
  }
  __device__ Exact<E> a(Row row, int64_t k) const { return row[k]; }
  __device__ Column column(int64_t g, int64_t j) const {
    const Conv& c = this->c;
    int64_t place;
    const int64_t image = divide(j, area(c.out), &place);
    return {static_cast<const E*>(c.x) + (image * c.groups + g) * c.inputs * area(c.size),
            Corner(c, PlanePosition(place, c.out))};
  }
  __device__ Exact<E> b(const Column& column, int64_t k) const {
    const Conv& c = this->c;
    int64_t tap;
    const int64_t channel = divide(k, area(c.kernel), &tap);
    return read_x(c, column.x + channel * area(c.size), column.corner,
                  PlanePosition(tap, c.kernel));
  }
  __device__ void write(int64_t g, int64_t i, int64_t j, Exact<E> sum) const {
    const Conv& c = this->c;
    int64_t place;
    const int64_t image = divide(j, area(c.out), &place), o = g * c.outputs + i;
    if (c.bias) sum += static_cast<const E*>(c.bias)[o];
    static_cast<E*>(c.y)[(image * c.groups * c.outputs + o) * area(c.out) + place] = E(sum);
  }
};

/// x: inputs x (images and positions), summed over (outputs and taps).
template <class E> struct InputPart : Part<E> {
  using Row = const E*;
  struct Column {
    const E* y;
    int64_t place[2];
  };
  explicit InputPart(const Conv& c)
      : Part<E>{c.groups, c.inputs, c.batch * area(c.size), c.outputs * area(c.kernel), true,
                false,    c} {}
  InputPart() = default;
  __device__ Row row(int64_t g, int64_t i) const {
    const Conv& c = this->c;
    return static_cast<const E*>(c.w) + (g * c.outputs * c.inputs + i) * area(c.kernel);
  }
  __device__ Exact<E> a(Row row, int64_t k) const {
    const int64_t taps = area(this->c.kernel);
    int64_t tap;
    const int64_t channel = divide(k, taps, &tap);
    return row[channel * this->c.inputs * taps + tap];
  }
  __device__ Column column(int64_t g, int64_t j) const {
    const Conv& c = this->c;
    int64_t at;
    const int64_t image = divide(j, area(c.size), &at);
    const PlanePosition place(at, c.size);
    return {static_cast<const E*>(c.y) + (image * c.groups + g) * c.outputs * area(c.out),
            {place.of[0] - c.offset[0], place.of[1] - c.offset[1]}};
  }
  __device__ Exact<E> b(const Column& column, int64_t k) const {
    const Conv& c = this->c;
    int64_t tap;
    const int64_t channel = divide(k, area(c.kernel), &tap);
    return read_y(c, column.y + channel * area(c.out), column.place, PlanePosition(tap, c.kernel));
  }
  __device__ void write(int64_t g, int64_t i, int64_t j, Exact<E> sum) const {
    const Conv& c = this->c;
    int64_t place;
    const int64_t image = divide(j, area(c.size), &place);
    static_cast<E*>(c.x)[((image * c.groups + g) * c.inputs + i) * area(c.size) + place] = E(sum);
  }
};

/// w: outputs x (inputs and taps), summed over (images and positions).
template <class E> struct WeightPart : Part<E> {
  struct Column {
    const E* x;
    PlanePosition tap;
  };
  using Row = const E*;
  explicit WeightPart(const Conv& c)
      : Part<E>{c.groups, c.outputs, c.inputs * area(c.kernel), c.batch * area(c.out), true,
                true,     c} {}
  WeightPart() = default;
  __device__ Row row(int64_t g, int64_t i) const {
    return static_cast<const E*>(this->c.y) + (g * this->m + i) * area(this->c.out);
  }
  __device__ Exact<E> a(Row row, int64_t k) const {
    const Conv& c = this->c;
    int64_t place;
    const int64_t image = divide(k, area(c.out), &place);
    return row[image * c.groups * c.outputs * area(c.out) + place];
  }
  __device__ Column column(int64_t g, int64_t j) const {
    const Conv& c = this->c;
    int64_t tap;
    const int64_t channel = divide(j, area(c.kernel), &tap);
    return {static_cast<const E*>(c.x) + (g * c.inputs + channel) * area(c.size),
            PlanePosition(tap, c.kernel)};
  }
  __device__ Exact<E> b(const Column& column, int64_t k) const {
    const Conv& c = this->c;
    int64_t place;
    const int64_t image = divide(k, area(c.out), &place);
    return read_x(c, column.x + image * c.groups * c.inputs * area(c.size),
                  Corner(c, PlanePosition(place, c.out)), column.tap);
  }
  __device__ void write(int64_t g, int64_t i, int64_t j, Exact<E> sum) const {
    static_cast<E*>(this->c.w)[(g * this->m + i) * this->n + j] = E(sum);
  }
};

// ---- by elements --------------------------------------------------------------------------------

/// Computes each element of y in one thread.
template <class T> __global__ void outputs(const __grid_constant__ Conv c, int64_t n) {
  const int64_t taps = area(c.kernel);
  for (const int64_t e : cuda::turns(n)) {
    int64_t place, o;
    const int64_t plane = divide(e, area(c.out), &place);
    const int64_t image = divide(plane, c.groups * c.outputs, &o), g = o / c.outputs;
    const Corner from(c, PlanePosition(place, c.out));
    const T* x = static_cast<const T*>(c.x) + (image * c.groups + g) * c.inputs * area(c.size);
    const T* w = static_cast<const T*>(c.w) + o * c.inputs * taps;
    Exact<T> sum = c.bias ? Exact<T>(static_cast<const T*>(c.bias)[o]) : 0;
    for (int64_t channel = 0; channel < c.inputs; ++channel, x += area(c.size), w += taps)
      for (int64_t i = 0; i < c.kernel[0]; ++i) {
        const int64_t h = from.at[0] + i * c.dilation[0];
        if (!within(h, c.size[0])) continue;
        for (int64_t j = 0; j < c.kernel[1]; ++j) {
          const int64_t at = from.at[1] + j * c.dilation[1];
          if (within(at, c.size[1]))
            sum = multiply_add(w[i * c.kernel[1] + j], x[h * c.size[1] + at], sum);
        }
      }
    static_cast<T*>(c.y)[e] = T(sum);
  }
}

/// Computes each element of x in one thread.
template <class T> __global__ void inputs(const __grid_constant__ Conv c, int64_t n) {
  const int64_t taps = area(c.kernel);
  for (const int64_t e : cuda::turns(n)) {
    int64_t at, channel;
    const int64_t plane = divide(e, area(c.size), &at);
    const int64_t image = divide(plane, c.groups * c.inputs, &channel), g = channel / c.inputs;
    const PlanePosition place(at, c.size);
    const int64_t h = place.of[0] - c.offset[0], v = place.of[1] - c.offset[1];
    const T* y = static_cast<const T*>(c.y) + (image * c.groups + g) * c.outputs * area(c.out);
    const T* w =
        static_cast<const T*>(c.w) + (g * c.outputs * c.inputs + channel - g * c.inputs) * taps;
    Exact<T> sum = 0;
    for (int64_t o = 0; o < c.outputs; ++o, y += area(c.out), w += c.inputs * taps)
      for (int64_t i = 0; i < c.kernel[0]; ++i) {
        const int64_t p = window_at(c, 0, h - i * c.dilation[0]);
        if (p < 0) continue;
        for (int64_t j = 0; j < c.kernel[1]; ++j) {
          const int64_t q = window_at(c, 1, v - j * c.dilation[1]);
          if (q >= 0) sum = multiply_add(w[i * c.kernel[1] + j], y[p * c.out[1] + q], sum);
        }
      }
    static_cast<T*>(c.x)[e] = T(sum);
  }
}

/// A sum over images and positions for each weight, split into parts.
struct Weights {
  Conv c;
  int64_t n, elements, part, parts;
  double* partial;  // n x parts
};

/// Computes each part of each element of w in one block.
template <class T> __global__ void weights(const __grid_constant__ Weights job) {
  double* const all = cuda::shared_memory<double>();
  const Conv& c = job.c;
  const int t = int(threadIdx.x);
  const int64_t places = area(c.out);
  for (int64_t number = blockIdx.x; number < job.n * job.parts; number += gridDim.x) {
    int64_t part, tap, channel;
    const int64_t e = divide(number, job.parts, &part), rest = divide(e, area(c.kernel), &tap);
    const int64_t o = divide(rest, c.inputs, &channel), g = o / c.outputs;
    const PlanePosition k(tap, c.kernel);
    const int64_t last = smaller(job.elements, (part + 1) * job.part);
    double sum = 0;
    for (int64_t i = part * job.part + t; i < last; i += blockDim.x) {
      int64_t place;
      const int64_t image = divide(i, places, &place);
      const T* x =
          static_cast<const T*>(c.x) + ((image * c.groups + g) * c.inputs + channel) * area(c.size);
      const T* y = static_cast<const T*>(c.y) + (image * c.groups * c.outputs + o) * places;
      sum += double(y[place]) * double(read_x(c, x, Corner(c, PlanePosition(place, c.out)), k));
    }
    all[t] = sum;
    for (int half = int(blockDim.x) / 2; half > 0; half /= 2) {
      __syncthreads();
      if (t < half) all[t] += all[t + half];
    }
    if (t == 0) {
      if (job.parts > 1) job.partial[number] = all[0];
      else static_cast<T*>(c.w)[e] = T(all[0]);
    }
    __syncthreads();
  }
}
template <class T> __global__ void join_weights(const __grid_constant__ Weights job) {
  for (const int64_t e : cuda::turns(job.n)) {
    double sum = 0;
    for (int64_t part = 0; part < job.parts; ++part) sum += job.partial[e * job.parts + part];
    static_cast<T*>(job.c.w)[e] = T(sum);
  }
}

template <class T> void run_weights(const Conv& c) {
  Weights job;
  job.c = c;
  job.n = c.groups * c.outputs * c.inputs * area(c.kernel), job.elements = c.batch * area(c.out);
  constexpr int64_t wanted = 1024, shortest = 4096;
  job.parts = smaller(wanted / job.n + 1, (job.elements + shortest - 1) / shortest);
  job.part = (job.elements + job.parts - 1) / job.parts;
  job.parts = (job.elements + job.part - 1) / job.part;
  const cuda::Scratch scratch(job.parts > 1 ? size_t(job.n * job.parts) * sizeof(double) : 0);
  job.partial = scratch.as<double>();
  int threads = 32;
  while (threads < cuda::kThreads && threads < job.part) threads *= 2;
  cuda::launch_blocks("conv", weights<T>, unsigned(smaller<int64_t>(job.n * job.parts, 1 << 30)),
                      threads, threads * sizeof(double), job);
  if (job.parts > 1) cuda::launch_each("conv", join_weights<T>, job.n, job);
}

// ---- a depthwise filter of K x K with stride and dilation 1 -------------------------------------

constexpr int kFilterWide = 32, kFilterHigh = 8, kFilterRows = 4;  // of a block; rows of a thread

/// A thread computes kFilterRows positions of a column: a loaded value is used for several of them.
template <class T, int K>
__global__ void filter(const __grid_constant__ Conv c, int64_t tiles_h, int64_t tiles_w,
                       int64_t n) {
  for (int64_t number = blockIdx.x; number < n; number += gridDim.x) {
    int64_t tile, tile_w, g;
    const int64_t plane = divide(number, tiles_h * tiles_w, &tile);
    const int64_t tile_h = divide(tile, tiles_w, &tile_w);
    divide(plane, c.groups, &g);
    const int64_t q = tile_w * kFilterWide + threadIdx.x;
    const int64_t p = (tile_h * kFilterHigh + threadIdx.y) * kFilterRows;
    if (q >= c.out[1] || p >= c.out[0]) continue;
    const int64_t h = p + c.offset[0], v = q + c.offset[1];
    const T* x = static_cast<const T*>(c.x) + plane * area(c.size);
    Exact<T> w[K][K], sum[kFilterRows];
    MT_UNROLLED for (int i = 0; i < K; ++i) MT_UNROLLED for (int j = 0; j < K; ++j) w[i][j] =
        static_cast<const T*>(c.w)[(g * K + i) * K + j];
    const Exact<T> start = c.bias ? Exact<T>(static_cast<const T*>(c.bias)[g]) : 0;
    MT_UNROLLED for (int r = 0; r < kFilterRows; ++r) sum[r] = start;
    const bool inside =
        h >= 0 && h + kFilterRows + K - 1 <= c.size[0] && v >= 0 && v + K <= c.size[1];
    MT_UNROLLED for (int i = 0; i < kFilterRows + K - 1; ++i) {
      Exact<T> value[K];
      MT_UNROLLED for (int j = 0; j < K; ++j) value[j] =
          inside || (within(h + i, c.size[0]) && within(v + j, c.size[1]))
              ? Exact<T>(x[(h + i) * c.size[1] + v + j])
              : 0;
      MT_UNROLLED for (int r = 0; r < kFilterRows; ++r)
          MT_UNROLLED for (int j = 0; j < K; ++j) if (i >= r && i - r < K) sum[r] =
              multiply_add(w[i - r][j], value[j], sum[r]);
    }
    T* y = static_cast<T*>(c.y) + plane * area(c.out) + p * c.out[1] + q;
    MT_UNROLLED for (int r = 0; r < kFilterRows; ++r) if (p + r < c.out[0]) y[r * c.out[1]] =
        T(sum[r]);
  }
}

template <class T, int K> void run_filter(const Conv& c) {
  const int64_t tiles_h = (c.out[0] + kFilterHigh * kFilterRows - 1) / (kFilterHigh * kFilterRows);
  const int64_t tiles_w = (c.out[1] + kFilterWide - 1) / kFilterWide;
  const int64_t n = c.batch * c.groups * tiles_h * tiles_w;
  cuda::launch("conv", filter<T, K>, unsigned(smaller<int64_t>(n, 1 << 30)),
               dim3(kFilterWide, kFilterHigh), c, tiles_h, tiles_w, n);
}

/// Launches a filter kernel if there is one for this convolution; returns whether it did.
template <class T> bool by_filter(const Conv& c) {
  if (c.inputs != 1 || c.outputs != 1 || c.kernel[0] != c.kernel[1]) return false;
  for (int d = 0; d < 2; ++d)
    if (c.stride[d] != 1 || c.dilation[d] != 1) return false;
  if (c.kernel[0] == 3) return run_filter<T, 3>(c), true;
  if (c.kernel[0] == 5) return run_filter<T, 5>(c), true;
  return false;
}

template <class T> void conv_as(const Conv& c) {
  const int64_t taps = area(c.kernel);
  constexpr int64_t most = 16;  // tiles with fewer of any of these are mostly empty
  if (c.part == ConvPart::output) {
    if (by_filter<T>(c)) return;
    if (c.outputs >= most && c.inputs * taps >= most) return run_tiles("conv", OutputPart<T>(c));
    const int64_t n = c.batch * c.groups * c.outputs * area(c.out);
    cuda::launch_each("conv", outputs<T>, n, c, n);
  } else if (c.part == ConvPart::input) {
    if (c.inputs >= most && c.outputs * taps >= most) return run_tiles("conv", InputPart<T>(c));
    const int64_t n = c.batch * c.groups * c.inputs * area(c.size);
    cuda::launch_each("conv", inputs<T>, n, c, n);
  } else if (c.outputs >= most && c.inputs * taps >= most) {
    run_tiles("conv", WeightPart<T>(c));
  } else {
    run_weights<T>(c);
  }
}

// ---- pooling ------------------------------------------------------------------------------------

template <class T> __global__ void pool(const __grid_constant__ MaxPool c, int64_t n) {
  for (const int64_t e : cuda::turns(n)) {
    int64_t place;
    const int64_t plane = divide(e, area(c.out), &place);
    const PlanePosition p(place, c.out);
    const WindowTaps rows(c, 0, p.of[0]), columns(c, 1, p.of[1]);
    const T* x = static_cast<const T*>(c.x) + plane * area(c.size);
    const int64_t left = columns.start + columns.begin * c.dilation[1];
    int64_t best = (rows.start + rows.begin * c.dilation[0]) * c.size[1] + left;
    T most = x[best];
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      int64_t at = (rows.start + i * c.dilation[0]) * c.size[1] + left;
      for (int64_t j = columns.begin; j < columns.end; ++j, at += c.dilation[1]) {
        const T value = x[at];
        if (value > most || value != value) best = at, most = value;
      }
    }
    if (c.index) c.index[e] = best;
    static_cast<T*>(c.values)[e] = most;
  }
}

template <class T> void max_pool_as(const MaxPool& c) {
  const int64_t n = c.planes * area(c.out);
  if (n > 0) cuda::launch_each("max_pool", pool<T>, n, c, n);
}

void direct_conv(const Conv& c) {
  switch (c.dtype) {
    case Dtype::f64: return conv_as<double>(c);
    case Dtype::f16: return conv_as<Float16>(c);
    case Dtype::bf16: return conv_as<Bfloat16>(c);
    default: return conv_as<float>(c);
  }
}

}  // namespace

bool conv(const Conv& c) {
  // cuDNN is slower than a single product.
  if (!(is_plain(c) && conv_by_products(c)) && !conv_by_cudnn(c) && !conv_by_products(c))
    direct_conv(c);
  return true;
}

void max_pool(const MaxPool& c) {
  if (c.dtype == Dtype::f64) max_pool_as<double>(c);
  else max_pool_as<float>(c);
}

}  // namespace MT_ISA
}  // namespace mt
