// copy.cu -- the copy verb on CUDA: plain copies, conversions, transposition in shared memory
#include <cstring>

#include "kernels/cuda/load.h"
#include "kernels/cuda/verbs.h"
#include "kernels/math/number.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// `grouped`: along the last dimension the output is contiguous, and the input is contiguous or one
/// repeated element; that dimension counts groups, and so does n.
struct Elements {
  int64_t n;
  int ndim;
  bool grouped = false;
  int64_t size[kMaxDims];
  void* out;
  const void* in;
  int64_t stride[2][kMaxDims];  // of out, of in
};

/// The number of elements that are 16 bytes of the wider dtype.
template <class To, class From>
constexpr int kWide = 16 / int(sizeof(To) > sizeof(From) ? sizeof(To) : sizeof(From));

template <class To, class From, int N>
__device__ cuda::Group<To, N> converted(const cuda::Group<From, N>& x) {
  cuda::Group<To, N> y;
  for (int k = 0; k < N; ++k) y.v[k] = math::convert<To>(x.v[k]);
  return y;
}
template <class To, class From>
__global__ void convert_flat(void* to, const void* from, int64_t n) {
  constexpr int wide = kWide<To, From>;
  const int64_t groups = n / wide;
  for (const int64_t i : cuda::turns(groups))
    static_cast<cuda::Group<To, wide>*>(to)[i] = converted<To>(
        cuda::load_group<cuda::Group<From, wide>>(static_cast<const From*>(from) + i * wide));
  const int64_t i = groups * wide + cuda::thread_number();
  if (i < n) static_cast<To*>(to)[i] = math::convert<To>(static_cast<const From*>(from)[i]);
}
template <class To, class From> __global__ void convert(const __grid_constant__ Elements c) {
  using Source = cuda::Group<From, kWide<To, From>>;
  for (const int64_t i : cuda::turns(c.n)) {
    int64_t at[2];
    cuda::offsets_of<2>(i, c.ndim, c.size, c.stride, at);
    To* const to = static_cast<To*>(c.out) + at[0];
    const From* const from = static_cast<const From*>(c.in) + at[1];
    if (!c.grouped) {
      *to = math::convert<To>(*from);
    } else {
      Source x;
      if (c.stride[1][c.ndim - 1]) x = cuda::load_group<Source>(from);
      else
        for (From& v : x.v) v = *from;
      *reinterpret_cast<cuda::Group<To, kWide<To, From>>*>(to) = converted<To>(x);
    }
  }
}

/// 16 bytes, which a thread copies at a time.
using Line = cuda::Group<uint64_t, 2>;
__global__ void copy_lines(Line* out, const Line* in, int64_t n) {
  for (const int64_t i : cuda::turns(n)) out[i] = in[i];
}

constexpr int kTile = 32, kTileRows = 8;

/// out[i, j] = in[j, i] for batched matrices (the grid's z), one tile of 32 x 32 per block: both
/// sides are accessed along their rows. One column of padding avoids bank conflicts between the
/// reads of a warp.
template <class T>
__global__ void transpose(T* out, const T* in, int64_t rows, int64_t columns, int64_t out_row,
                          int64_t in_row, int64_t out_batch, int64_t in_batch) {
  __shared__ T tile[kTile][kTile + 1];
  out += int64_t(blockIdx.z) * out_batch, in += int64_t(blockIdx.z) * in_batch;
  const int64_t i0 = int64_t(blockIdx.x) * kTile, j0 = int64_t(blockIdx.y) * kTile;
  for (int k = threadIdx.y; k < kTile; k += kTileRows)
    if (j0 + k < columns && i0 + threadIdx.x < rows)
      tile[k][threadIdx.x] = in[(j0 + k) * in_row + i0 + threadIdx.x];
  __syncthreads();
  for (int k = threadIdx.y; k < kTile; k += kTileRows)
    if (i0 + k < rows && j0 + threadIdx.x < columns)
      out[(i0 + k) * out_row + j0 + threadIdx.x] = tile[threadIdx.x][k];
}

struct ConvertKernels {
  void (*flat)(void*, const void*, int64_t);
  void (*strided)(Elements);
};
#define MT_COLUMN(name, From, ...) {convert_flat<To, From>, convert<To, From>},
template <class To> constexpr ConvertKernels converts_to[] = {MT_DTYPES(MT_COLUMN)};
#undef MT_COLUMN
#define MT_ROW(name, To, ...) converts_to<To>,
constexpr const ConvertKernels* converts[] = {MT_DTYPES(MT_ROW)};
#undef MT_ROW

/// Converts the last dimension to groups of `width` elements, if possible.
void group(int64_t width, int64_t to_size, int64_t from_size, Elements& e) {
  const int last = e.ndim - 1;
  const int64_t step = e.stride[1][last];
  e.grouped = e.stride[0][last] == 1 && (step == 0 || step == 1) && e.size[last] % width == 0 &&
              reinterpret_cast<uintptr_t>(e.out) % size_t(width * to_size) == 0 &&
              (step == 0 || reinterpret_cast<uintptr_t>(e.in) % size_t(width * from_size) == 0);
  for (int d = 0; d < last; ++d)
    e.grouped &= e.stride[0][d] % width == 0 && (step == 0 || e.stride[1][d] % width == 0);
  if (!e.grouped) return;
  e.n /= width, e.size[last] /= width, e.stride[0][last] *= width, e.stride[1][last] *= width;
}

/// Whether the last two of at most three dimensions are transposed.
bool is_transposition(const Copy& c) {
  return c.to == c.from && (c.ndim == 2 || c.ndim == 3) && c.out_stride[c.ndim - 1] == 1 &&
         c.in_stride[c.ndim - 2] == 1 && c.size[c.ndim - 1] >= 8 && c.size[c.ndim - 2] >= 8 &&
         (c.ndim == 2 || c.size[0] <= 65535) && (c.size[c.ndim - 1] + 31) / 32 <= 65535;
}

template <class T> void run_transpose(const Copy& c) {
  const int i = c.ndim - 2, j = c.ndim - 1;
  const dim3 grid(unsigned((c.size[i] + kTile - 1) / kTile),
                  unsigned((c.size[j] + kTile - 1) / kTile),
                  c.ndim == 3 ? unsigned(c.size[0]) : 1u);
  cuda::launch_blocks("copy", transpose<T>, grid, dim3(kTile, kTileRows), 0, static_cast<T*>(c.out),
                      static_cast<const T*>(c.in), c.size[i], c.size[j], c.out_stride[i],
                      c.in_stride[j], c.ndim == 3 ? c.out_stride[0] : 0,
                      c.ndim == 3 ? c.in_stride[0] : 0);
}

/// Stores one value in all elements.
template <class T> __global__ void fill_flat(T* out, int64_t n, T value) {
  for (const int64_t i : cuda::turns(n)) out[i] = value;
}
template <class T> __global__ void fill_strided(const __grid_constant__ Elements e, T value) {
  for (const int64_t i : cuda::turns(e.n)) {
    int64_t at[1];
    cuda::offsets_of<1>(i, e.ndim, e.size, e.stride, at);
    static_cast<T*>(e.out)[at[0]] = value;
  }
}
template <class T> void fill_as(const Elements& e, bool flat, const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  if (flat) cuda::launch_each("fill", fill_flat<T>, e.n, static_cast<T*>(e.out), e.n, value);
  else cuda::launch_each("fill", fill_strided<T>, e.n, e, value);
}

}  // namespace

void fill(const Copy& call) {
  Copy c = call;
  int64_t* const stride[1] = {c.out_stride};
  Elements e;
  e.n = count(c.ndim, c.size);
  if (e.n == 0) return;
  e.ndim = collapse(c.ndim, c.size, stride);
  e.out = c.out, e.in = nullptr;
  for (int d = 0; d < e.ndim; ++d)
    e.size[d] = c.size[d], e.stride[0][d] = c.out_stride[d], e.stride[1][d] = 0;
  const bool flat = e.ndim == 0 || (e.ndim == 1 && c.out_stride[0] == 1);
  with_item(c.to, [&](auto x) { fill_as<decltype(x)>(e, flat, c.in); });
}

void copy(const Copy& call) {
  Copy c = call;
  int64_t* const stride[2] = {c.out_stride, c.in_stride};
  const int64_t n = count(c.ndim, c.size);
  if (n == 0) return;
  c.ndim = collapse(c.ndim, c.size, stride);
  const bool flat = c.ndim == 0 || (c.ndim == 1 && c.out_stride[0] == 1 && c.in_stride[0] == 1);
  if (c.to == c.from && flat) {
    const int64_t bytes = n * item_size(c.to);
    if ((reinterpret_cast<uintptr_t>(c.out) | reinterpret_cast<uintptr_t>(c.in) |
         uintptr_t(bytes)) %
            16 ==
        0)
      return cuda::launch_one_turn("copy", copy_lines, bytes / 16, static_cast<Line*>(c.out),
                                   static_cast<const Line*>(c.in), bytes / 16);
    if (cuda::stopped()) return;
    if (cuda::capturing()) cuda::keep(&c, sizeof c);
    const cuda::Timed timed("copy");
    cuda::check(cudaMemcpyAsync(c.out, c.in, bytes, cudaMemcpyDeviceToDevice, cuda::stream()),
                "copy");
    return cuda::started("copy");
  }
  if (is_transposition(c)) return with_item(c.to, [&](auto x) { run_transpose<decltype(x)>(c); });
  const int64_t to_size = item_size(c.to), from_size = item_size(c.from);
  const int64_t width = 16 / (to_size > from_size ? to_size : from_size);
  const ConvertKernels& kernels = converts[int(c.to)][int(c.from)];
  if (flat && reinterpret_cast<uintptr_t>(c.out) % size_t(width * to_size) == 0 &&
      reinterpret_cast<uintptr_t>(c.in) % size_t(width * from_size) == 0)
    return cuda::launch_each("copy", kernels.flat, (n + width - 1) / width, c.out, c.in, n);
  Elements e;
  e.n = n, e.ndim = c.ndim, e.out = c.out, e.in = c.in;
  for (int d = 0; d < c.ndim; ++d)
    e.size[d] = c.size[d], e.stride[0][d] = c.out_stride[d], e.stride[1][d] = c.in_stride[d];
  if (c.ndim > 0) group(width, to_size, from_size, e);
  cuda::launch_each("copy", kernels.strided, e.n, e);
}

}  // namespace MT_ISA
}  // namespace mt
