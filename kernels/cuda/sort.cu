// sort.cu -- the sort verb on CUDA: short lines and few places in shared memory, the rest by radix
//
// A key (kernels/math/sort_keys.h) travels with its position, which decides between equal keys: no two items
// are alike, so whatever sorts them is stable. Where few places are wanted, each tile passes on no
// more items than that, until one tile holds them all. Other lines longer than a tile are sorted all
// together (radix_sort.h): words of a position and, above it, of as many bits of the key and the
// line as there is room for, the lowest first; what did not fit is sorted by in another round.
#include "kernels/cuda/radix_sort.h"
#include "kernels/device.h"
#include "kernels/math/sort_keys.h"
#include "kernels/verbs.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int kTile = 1024, kLeastTile = 32;      // items that a block sorts
constexpr int64_t kMostItems = int64_t(1) << 26;  // of the lines that are sorted at once

__device__ inline bool comes_before(uint64_t a, uint64_t b) { return a < b; }
__device__ inline bool comes_before(const Wide& a, const Wide& b) {
  return a.key != b.key ? a.key < b.key : a.at < b.at;
}
template <class I> __device__ I last_item() {
  if constexpr (sizeof(I) == 8) return ~uint64_t(0);
  else return {~uint64_t(0), ~uint64_t(0)};
}

/// Items of `lines` lines from first_line on lie `pitch` apart: n of each in `from` (null: the input
/// itself), to be brought to `to` (null: the output).
struct Job {
  Sort s;
  int64_t first_line, lines, n, pitch;
  const void* from;
  void* to;
  int tile;       // a power of two
  int64_t limit;  // how many items of a tile are of use
  int place;  // the bits of a word that say which element it is; those above are of the line and
  int bit;    // its key, together one number, from this bit on
};

/// What the elements of type T and keys of type K need.
template <class T, class K> struct Items {
  using I = Item<K>;
  static __device__ K turn(const Job& j) { return j.s.descending ? ~K(0) : K(0); }
  static __device__ const T* in(const Job& j, int64_t line) {
    const AlongDim& l = j.s.lines;
    return static_cast<const T*>(j.s.in) +
           offset_of(j.first_line + line, l.ndim, l.size, l.in_stride);
  }
  static __device__ I load(const Job& j, int64_t line, int64_t i) {
    if (j.from) return static_cast<const I*>(j.from)[line * j.pitch + i];
    return item(K(K(key_of(in(j, line)[i * j.s.lines.in_step])) ^ turn(j)), i);
  }
  /// The i-th place of the output; where not all of the key is known, from the input.
  static __device__ void put(const Job& j, int64_t line, int64_t i, K sorted, int64_t at,
                             bool known = true) {
    const AlongDim& l = j.s.lines;
    const int64_t to =
        offset_of(j.first_line + line, l.ndim, l.size, l.out_stride) + i * l.out_step;
    const auto key = KeyOf<T>(sorted ^ turn(j));
    static_cast<T*>(j.s.out)[to] =
        known && !ambiguous<T>(key) ? value_of<T>(key) : in(j, line)[at * l.in_step];
    j.s.index[to] = at;
  }
};

/// A bitonic network (Batcher 1968).
template <class I> __device__ void sort_shared(I* x, int n) {
  for (int size = 2; size <= n; size *= 2)
    for (int apart = size / 2; apart > 0; apart /= 2) {
      __syncthreads();
      for (int p = int(threadIdx.x); p < n / 2; p += int(blockDim.x)) {
        const int low = 2 * p - (p & (apart - 1)), high = low + apart;
        const I a = x[low], b = x[high];
        if (comes_before(b, a) == ((low & size) == 0)) x[low] = b, x[high] = a;
      }
    }
  __syncthreads();
}

template <class T, class K> __global__ void sort_tiles(const __grid_constant__ Job j) {
  using I = Item<K>;
  I* const x = cuda::shared_memory<I>();
  const int64_t tiles = (j.n + j.tile - 1) / j.tile;
  for (int64_t w = blockIdx.x; w < j.lines * tiles; w += gridDim.x) {
    const int64_t line = w / tiles, tile = w - line * tiles, first = tile * j.tile;
    const int64_t n = smaller<int64_t>(j.tile, j.n - first);
    for (int i = int(threadIdx.x); i < j.tile; i += int(blockDim.x))
      x[i] = i < n ? Items<T, K>::load(j, line, first + i) : last_item<I>();
    sort_shared(x, j.tile);
    if (j.to) {
      I* const to = static_cast<I*>(j.to) + line * j.pitch + tile * j.limit;
      for (int64_t i = threadIdx.x; i < smaller(n, j.limit); i += blockDim.x) to[i] = x[i];
    } else {
      for (int64_t i = threadIdx.x; i < j.s.keep; i += blockDim.x)
        Items<T, K>::put(j, line, i, key_in(x[j.s.first + i]), at_in(x[j.s.first + i]));
    }
    __syncthreads();
  }
}

/// Words for the elements in the order of `from`.
template <class T> __global__ void list_words(const __grid_constant__ Job j) {
  constexpr int bits = 8 * int(sizeof(T));
  const uint64_t places = (uint64_t(1) << j.place) - 1;
  for (const int64_t i : cuda::turns(j.lines * j.n)) {
    const int64_t at = j.from ? int64_t(static_cast<const uint64_t*>(j.from)[i] & places) : i;
    const int64_t line = at / j.n;
    const T x = Items<T, KeyOf<T>>::in(j, line)[(at - line * j.n) * j.s.lines.in_step];
    const uint64_t key = (key_of(x) ^ Items<T, KeyOf<T>>::turn(j)) & ~uint64_t(0) >> (64 - bits);
    const uint64_t upper = j.bit < bits ? key >> j.bit | uint64_t(line) << 1 << (bits - 1 - j.bit)
                                        : uint64_t(line) >> (j.bit - bits);
    static_cast<uint64_t*>(j.to)[i] = upper << j.place | uint64_t(at);
  }
}
template <class T> __global__ void write(const __grid_constant__ Job j, bool known) {
  const uint64_t places = (uint64_t(1) << j.place) - 1;
  for (const int64_t w : cuda::turns(j.lines * j.s.keep)) {
    const int64_t line = w / j.s.keep, i = w - line * j.s.keep;
    const uint64_t word = static_cast<const uint64_t*>(j.from)[line * j.n + j.s.first + i];
    Items<T, KeyOf<T>>::put(j, line, i, KeyOf<T>(word >> j.place),
                            int64_t(word & places) - line * j.n, known);
  }
}
/// All lines at once; the two arrays have room for a word of each element.
template <class T> void sort_words(Job j, uint64_t* words, uint64_t* other) {
  const int64_t n = j.lines * j.n;
  const int bits = 8 * int(sizeof(T)) + cuda::bits_for(j.lines);
  j.place = cuda::bits_for(n);
  const int room = 64 - j.place;
  for (; j.bit < bits; j.bit += room) {
    j.to = words;
    cuda::launch_each("sort", list_words<T>, n, j);
    uint64_t* const sorted =
        cuda::radix_sort("sort", words, other, n, j.place, j.place + smaller(room, bits - j.bit));
    if (sorted == other) other = words, words = sorted;
    j.from = words;
  }
  cuda::launch_each("sort", write<T>, j.lines * j.s.keep, j, bits <= room);
}

template <class T, class K> void launch_tiles(Job& j) {
  j.tile = kLeastTile;
  while (j.tile < kTile && j.tile < j.n) j.tile *= 2;
  const int64_t tiles = j.lines * ((j.n + j.tile - 1) / j.tile), most = int64_t(1) << 20;
  cuda::launch_blocks("sort", sort_tiles<T, K>, unsigned(smaller(tiles, most)),
                      unsigned(j.tile > kLeastTile ? j.tile / 2 : j.tile),
                      size_t(j.tile) * sizeof(Item<K>), j);
}

/// Few places; the two arrays have room for the items.
template <class T, class K> void sort_few(Job j, void* spare, void* other) {
  j.limit = j.s.first + j.s.keep;
  for (j.to = spare; j.n > kTile; j.from = j.to, j.to = other, other = const_cast<void*>(j.from)) {
    launch_tiles<T, K>(j);
    const int64_t full = (j.n - 1) / kTile;
    j.n = full * j.limit + smaller(j.limit, j.n - full * kTile);
  }
  j.to = nullptr;
  launch_tiles<T, K>(j);
}

template <class T, class K> void sort_all(const Sort& s, const AlongDim& l) {
  Job j{};
  j.s = s, j.s.lines = l;
  j.lines = count(l.ndim, l.size), j.n = j.pitch = l.n;
  if (l.n <= kTile) return launch_tiles<T, K>(j);
  const bool few = s.first + s.keep <= kTile / 2;
  const int64_t all = j.lines, together = smaller(all, kMostItems / l.n > 1 ? kMostItems / l.n : 1);
  const size_t bytes = size_t(together * l.n) * (few ? sizeof(Item<K>) : sizeof(uint64_t));
  const cuda::Scratch spare(bytes), other(bytes);
  if (!spare.as<void>() || !other.as<void>()) return;  // the error is noted
  for (; j.first_line < all; j.first_line += together) {
    j.lines = smaller(together, all - j.first_line);
    if (few) sort_few<T, K>(j, spare.as<void>(), other.as<void>());
    else sort_words<T>(j, spare.as<uint64_t>(), other.as<uint64_t>());
  }
}

template <class T> void run(const Sort& s) {
  AlongDim l = s.lines;
  int64_t* const stride[2] = {l.out_stride, l.in_stride};
  l.ndim = collapse(l.ndim, l.size, stride);
  if (l.n < INT32_MAX) sort_all<T, KeyOf<T>>(s, l);
  else sort_all<T, uint64_t>(s, l);
}

}  // namespace

void sort(const Sort& s) {
  if (s.keep == 0 || count(s.lines.ndim, s.lines.size) == 0) return;
  switch (s.dtype) {
    case Dtype::f32: return run<float>(s);
    case Dtype::f64: return run<double>(s);
    case Dtype::i64: return run<int64_t>(s);
    case Dtype::i32: return run<int32_t>(s);
    default: return run<uint8_t>(s);  // bool too
  }
}

}  // namespace MT_ISA
}  // namespace mt
