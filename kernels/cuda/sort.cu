// sort.cu -- the sort verb on CUDA: tiles sorted in shared memory, then merged
//
// A key (kernels/keys.h) travels with its position, which decides between equal keys: no two items
// are alike, so whatever sorts them is stable. Where few places are wanted, each tile passes on no
// more items than that, until one tile holds them all. Few long lines whose items are words are left
// to CUB (radix_sort.h).
#include "kernels/cuda/radix_sort.h"
#include "kernels/device.h"
#include "kernels/keys.h"
#include "kernels/verbs.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int kTile = 1024, kLeastTile = 32;      // items that a block sorts
constexpr int kMerged = 8;                        // items that a thread merges
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
  int64_t limit;  // how many items of a tile, or of two merged runs, are of use
  int64_t run;    // the length of a sorted run
};

/// What the elements of type T and keys of type K need.
template <class T, class K> struct Items {
  using I = Item<K>;
  static __device__ K turn(const Job& j) { return j.s.descending ? ~K(0) : K(0); }
  static __device__ const T* in(const Job& j, int64_t line) {
    const Lines& l = j.s.lines;
    return static_cast<const T*>(j.s.in) +
           offset_of(j.first_line + line, l.ndim, l.size, l.in_stride);
  }
  static __device__ I load(const Job& j, int64_t line, int64_t i) {
    if (j.from) return static_cast<const I*>(j.from)[line * j.pitch + i];
    return item(K(K(key_of(in(j, line)[i * j.s.lines.in_step])) ^ turn(j)), i);
  }
  /// The i-th place of the output.
  static __device__ void put(const Job& j, int64_t line, int64_t i, const I& sorted) {
    const Lines& l = j.s.lines;
    const int64_t to =
        offset_of(j.first_line + line, l.ndim, l.size, l.out_stride) + i * l.out_step;
    const auto key = KeyOf<T>(key_in(sorted) ^ turn(j));
    const int64_t at = at_in(sorted);
    static_cast<T*>(j.s.out)[to] =
        ambiguous<T>(key) ? in(j, line)[at * l.in_step] : value_of<T>(key);
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
        Items<T, K>::put(j, line, i, x[j.s.first + i]);
    }
    __syncthreads();
  }
}

/// Two neighbouring runs of `run` items become one. A thread finds by bisection how many of the
/// items before its first one come from either run.
template <class I> __global__ void merge_runs(const __grid_constant__ Job j) {
  const int64_t groups = (j.n + kMerged - 1) / kMerged;
  for (int64_t w = cuda::thread_number(); w < j.lines * groups; w += cuda::thread_count()) {
    const int64_t line = w / groups, place = (w - line * groups) * kMerged;
    const int64_t start = place / (2 * j.run) * (2 * j.run), before = place - start;
    const int64_t middle = smaller(j.n, start + j.run), end = smaller(j.n, start + 2 * j.run);
    const int64_t many_a = smaller(middle - start, j.limit),
                  many_b = smaller(end - middle, j.limit);
    const I* const a = static_cast<const I*>(j.from) + line * j.pitch + start;
    const I* const b = a + (middle - start);
    I* const to = static_cast<I*>(j.to) + line * j.pitch + start;
    int64_t low = before > many_b ? before - many_b : 0, high = smaller(before, many_a);
    while (low < high) {
      const int64_t m = (low + high) / 2;
      if (comes_before(a[m], b[before - 1 - m])) low = m + 1;
      else high = m;
    }
    int64_t from_a = low, from_b = before - low;
    const int64_t most = smaller(smaller(many_a + many_b, j.limit), before + kMerged);
    for (int64_t i = before; i < most; ++i) {
      const bool is_a = from_b >= many_b || (from_a < many_a && comes_before(a[from_a], b[from_b]));
      to[i] = is_a ? a[from_a++] : b[from_b++];
    }
  }
}

template <class T, class K> __global__ void write(const __grid_constant__ Job j) {
  for (int64_t w = cuda::thread_number(); w < j.lines * j.s.keep; w += cuda::thread_count()) {
    const int64_t line = w / j.s.keep, i = w - line * j.s.keep;
    Items<T, K>::put(j, line, i,
                     static_cast<const Item<K>*>(j.from)[line * j.pitch + j.s.first + i]);
  }
}

template <class T> __global__ void list_items(const __grid_constant__ Job j) {
  uint64_t* const to = static_cast<uint64_t*>(j.to);
  for (int64_t i = cuda::thread_number(); i < j.n; i += cuda::thread_count())
    to[i] = Items<T, uint32_t>::load(j, 0, i);
}
/// Line by line.
template <class T> void sort_words(Job j) {
  const size_t bytes = size_t(j.n) * sizeof(uint64_t);
  const cuda::Scratch items(bytes), other(bytes);
  if (!other.as<void>()) return;  // the trouble is noted
  for (const int64_t end = j.lines; j.first_line < end; ++j.first_line) {
    j.lines = 1, j.from = nullptr, j.to = items.as<void>();
    cuda::launch("sort", list_items<T>, cuda::blocks_for(j.n, cuda::kThreads), cuda::kThreads, j);
    j.from = cuda::radix_sort("sort", items.as<uint64_t>(), other.as<uint64_t>(), j.n, 32,
                              32 + 8 * int(sizeof(T)));
    cuda::launch("sort", write<T, uint32_t>, cuda::blocks_for(j.s.keep, cuda::kThreads),
                 cuda::kThreads, j);
  }
}

template <class T, class K> void launch_tiles(Job& j) {
  j.tile = kLeastTile;
  while (j.tile < kTile && j.tile < j.n) j.tile *= 2;
  const int64_t tiles = j.lines * ((j.n + j.tile - 1) / j.tile), most = int64_t(1) << 20;
  cuda::launch_blocks("sort", sort_tiles<T, K>, unsigned(smaller(tiles, most)),
                      unsigned(j.tile > kLeastTile ? j.tile / 2 : j.tile),
                      size_t(j.tile) * sizeof(Item<K>), j);
}

/// The lines of one job; `spare` and `other` have room for their items.
template <class T, class K> void sort_lines(Job j, void* spare, void* other) {
  const int64_t wanted = j.s.first + j.s.keep;
  const auto swap = [&] {
    void* const done = j.to;
    j.to = j.from ? const_cast<void*>(j.from) : other;
    j.from = done;
  };
  if (wanted <= kTile / 2) {
    j.limit = wanted;
    for (j.to = spare; j.n > kTile; swap()) {
      launch_tiles<T, K>(j);
      const int64_t full = (j.n - 1) / kTile;
      j.n = full * wanted + smaller(wanted, j.n - full * kTile);
    }
    j.to = nullptr;
    return launch_tiles<T, K>(j);
  }
  j.to = spare, j.limit = kTile;
  launch_tiles<T, K>(j);
  swap();
  j.limit = wanted;
  const int64_t groups = j.lines * ((j.n + kMerged - 1) / kMerged);
  for (j.run = kTile; j.run < j.n; j.run *= 2, swap())
    cuda::launch("sort", merge_runs<Item<K>>, cuda::blocks_for(groups, cuda::kThreads),
                 cuda::kThreads, j);
  cuda::launch("sort", write<T, K>, cuda::blocks_for(j.lines * j.s.keep, cuda::kThreads),
               cuda::kThreads, j);
}

template <class T, class K> void sort_all(const Sort& s, const Lines& l) {
  Job j{};
  j.s = s, j.s.lines = l;
  j.lines = count(l.ndim, l.size), j.n = j.pitch = l.n;
  if (l.n <= kTile) return launch_tiles<T, K>(j);
  if constexpr (sizeof(K) == 4)  // else an item is two words
    if (s.first + s.keep > kTile / 2 && j.lines <= l.n / cuda::kRadixSort) return sort_words<T>(j);
  const int64_t all = j.lines, together = smaller(all, kMostItems / l.n > 1 ? kMostItems / l.n : 1);
  const size_t bytes = size_t(together * l.n) * sizeof(Item<K>);
  const cuda::Scratch spare(bytes), other(bytes);
  for (; j.first_line < all; j.first_line += together) {
    j.lines = smaller(together, all - j.first_line);
    sort_lines<T, K>(j, spare.as<void>(), other.as<void>());
  }
}

template <class T> void run(const Sort& s) {
  Lines l = s.lines;
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
