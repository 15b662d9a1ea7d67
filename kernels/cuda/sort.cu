// sort.cu -- the sort verb on CUDA: short lines and small k in shared memory, others by radix sort
//
// A key (kernels/math/sort_keys.h) is sorted with its position, which breaks ties: all items are different, so any
// sort of them is stable. Lines of up to 4096 32-bit keys are radix sorted in the shared memory of a block, shorter
// or wider ones by a sorting network. For top-k with a small k, each tile passes on at most k items, until one tile
// holds them all; of long lines only those of a few groups get there. A single position far from the ends is selected
// digit by digit. Other lines longer than a tile are sorted all together (radix_sort.h): words of a position and,
// above it, as many bits of the key and the line as fit, the lowest first; the remaining bits are sorted in another
// pass.
#include <utility>

#include "kernels/cuda/block_sort.h"
#include "kernels/cuda/radix_sort.h"
#include "kernels/cuda/team.h"
#include "kernels/math/sort_keys.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int kTile = 1024, kEach = 4;           // items per block, per thread
constexpr int kShort = 256;                      // the lines for which the network is best
constexpr int64_t kMaxItems = int64_t(1) << 26;  // of the lines sorted at once

template <class T> constexpr int kAccess = sizeof(T) == 8 ? 2 : 4;  // elements per load

__device__ inline bool comes_before(uint64_t a, uint64_t b) { return a < b; }
__device__ inline bool comes_before(const Wide& a, const Wide& b) {
  return a.key != b.key ? a.key < b.key : a.at < b.at;
}
template <class I> __device__ I last_item() {
  if constexpr (sizeof(I) == 8) return ~uint64_t(0);
  else return {~uint64_t(0), ~uint64_t(0)};
}

/// Items of `lines` lines from first_line on, n of each, that are written to `to` (null: the output).
/// The items of a line are in `from`, `pitch` apart from the next line's; null: the input's elements.
struct Job {
  Sort s;
  int64_t first_line, lines, n, pitch;
  const void* from;
  void* to;
  int64_t limit;   // how many items of a tile are used
  int64_t groups;  // in a line; its accesses (kAccess elements each) are assigned in rotation
  int place;       // the number of low bits of a word that are the position of its element
  int bit;         // the bits above are those of (line, key), as one number, from this bit on
};

/// The functions for elements of type T and keys of type K.
template <class T, class K> struct Items {
  using I = Item<K>;
  static __device__ K flip(const Job& j) { return j.s.descending ? ~K(0) : K(0); }
  static __device__ const T* in(const Job& j, int64_t line) {
    const AlongDim& l = j.s.lines;
    return static_cast<const T*>(j.s.in) +
           offset_of(j.first_line + line, l.ndim, l.size, l.in_stride);
  }
  static __device__ I element(const Job& j, T x, int64_t i) {
    return item(K(K(key_of(x)) ^ flip(j)), i);
  }
  /// Writes position i of the output; the value comes from the input if the key is incomplete.
  static __device__ void put(const Job& j, int64_t line, int64_t i, K sorted, int64_t at,
                             bool known = true) {
    const AlongDim& l = j.s.lines;
    const int64_t to =
        offset_of(j.first_line + line, l.ndim, l.size, l.out_stride) + i * l.out_step;
    const auto key = KeyOf<T>(sorted ^ flip(j));
    static_cast<T*>(j.s.out)[to] = known && !ambiguous<T>(key) ? value_of<T>(key) : in(j, line)[at];
    j.s.index[to] = at;
  }
};

/// A bitonic network (Batcher 1968) for the E items of each thread of a block: partners are
/// exchanged in a thread, a warp, or `shared`.
template <int E, class I> __device__ void sort_block(I (&x)[E], I* shared) {
  const int thread = int(threadIdx.x), threads = int(blockDim.x);
  for (int size = 2; size <= E * threads; size *= 2)
    for (int apart = size / 2; apart > 0; apart /= 2) {
      const auto keep_first = [&](int k) {
        const int i = thread * E + k;
        return ((i & apart) == 0) == ((i & size) == 0);
      };
      MT_UNROLLED for (int a = 1; a < E; a *= 2)
          MT_UNROLLED for (int k = 0; k < E; ++k) if (apart == a && (k & a) == 0 &&
                                                      comes_before(x[k + a], x[k]) == keep_first(k))
              std::swap(x[k], x[k + a]);
      if (apart < E) continue;
      const int across = apart / E;
      if (across >= 32) {
        MT_UNROLLED for (int k = 0; k < E; ++k) shared[k * threads + thread] = x[k];
        __syncthreads();
      }
      MT_UNROLLED for (int k = 0; k < E; ++k) {
        const I other = across < 32 ? cuda::from_lane_across(x[k], across)
                                    : shared[k * threads + (thread ^ across)];
        if (comes_before(other, x[k]) == keep_first(k)) x[k] = other;
      }
      if (across >= 32) __syncthreads();
    }
}

template <int E, class T, class K>
__global__ void __launch_bounds__(kTile / kEach, 4) sort_tiles(const __grid_constant__ Job j) {
  using I = Item<K>;
  I* const shared = cuda::shared_memory<I>();
  const int thread = int(threadIdx.x), threads = int(blockDim.x), tile = E * threads;
  const int64_t tiles = (j.n + tile - 1) / tile;
  for (int64_t w = blockIdx.x; w < j.lines * tiles; w += gridDim.x) {
    const int64_t line = w / tiles, number = w - line * tiles, first = number * tile;
    const int64_t n = smaller<int64_t>(tile, j.n - first);
    const I* const from = j.from ? static_cast<const I*>(j.from) + line * j.pitch + first : nullptr;
    const T* const in = Items<T, K>::in(j, line) + first;
    I x[E];
    MT_UNROLLED for (int k = 0; k < E; ++k) {
      const int i = k * threads + thread;
      if (i >= n) x[k] = last_item<I>();
      else x[k] = from ? from[i] : Items<T, K>::element(j, in[i], first + i);
    }
    sort_block(x, shared);
    MT_UNROLLED for (int k = 0; k < E; ++k) shared[thread * E + k] = x[k];
    __syncthreads();
    if (j.to) {
      I* const to = static_cast<I*>(j.to) + line * j.pitch + number * j.limit;
      for (int64_t i = thread; i < smaller(n, j.limit); i += threads) to[i] = shared[i];
    } else {
      for (int64_t i = thread; i < j.s.keep; i += threads) {
        const I& sorted = shared[j.s.first + i];
        Items<T, K>::put(j, line, i, key_in(sorted), at_in(sorted));
      }
    }
    __syncthreads();
  }
}

/// Radix sorts whole lines, with one block for each.
template <class Tile, class T> __global__ void sort_lines(const __grid_constant__ Job j) {
  using K = uint32_t;
  uint64_t* const word = cuda::shared_memory<uint64_t>();
  for (int64_t line = blockIdx.x; line < j.lines; line += gridDim.x) {
    const T* const in = Items<T, K>::in(j, line);
    for (int i = threadIdx.x; i < Tile::kWords; i += Tile::kThreads)
      word[i] = i < j.n ? Items<T, K>::element(j, in[i], i) : last_item<uint64_t>();
    cuda::sort_in_block<Tile>(word, 32, 64);
    for (int64_t i = threadIdx.x; i < j.s.keep; i += Tile::kThreads)
      Items<T, K>::put(j, line, i, key_in(word[j.s.first + i]), at_in(word[j.s.first + i]));
    __syncthreads();
  }
}

/// Computes the first item of each group.
template <class T, class K> __global__ void first_of_groups(const __grid_constant__ Job j) {
  using I = Item<K>;
  constexpr int N = kAccess<T>, kAtOnce = 4;
  for (const int64_t w : cuda::turns(j.lines * j.groups)) {
    const int64_t line = w / j.groups, group = w - line * j.groups, step = j.groups * N;
    const cuda::Access<const T, N> in(Items<T, K>::in(j, line), 1, 0);
    I first = last_item<I>();
    const auto look_at = [&](T x, int64_t i) {
      const I other = Items<T, K>::element(j, x, i);
      if (comes_before(other, first)) first = other;
    };
    int64_t i = group * N;
    for (; i + kAtOnce * step <= j.n; i += kAtOnce * step) {
      cuda::Group<T, N> x[kAtOnce];
      MT_UNROLLED for (int k = 0; k < kAtOnce; ++k) x[k] = in.load(i + k * step, j.n);
      MT_UNROLLED for (int k = 0; k < kAtOnce; ++k) MT_UNROLLED for (int v = 0; v < N; ++v)
          look_at(x[k].v[v], i + k * step + v);
    }
    for (; i < j.n; i += step)
      for (int v = 0; v < N && i + v < j.n; ++v) look_at(in.p[i + v], i + v);
    static_cast<I*>(j.to)[line * j.pitch + group] = first;
  }
}
/// Lists the items of the groups whose first items are in `from`.
template <class T, class K> __global__ void list_groups(const __grid_constant__ Job j) {
  using I = Item<K>;
  constexpr int N = kAccess<T>;
  for (const int64_t w : cuda::turns(j.lines * j.n)) {
    const int64_t line = w / j.n, i = w - line * j.n, row = i / (j.limit * N);
    const I first = static_cast<const I*>(j.from)[line * j.pitch + i / N - row * j.limit];
    const int64_t at = (at_in(first) / N % j.groups + row * j.groups) * N + i % N;
    static_cast<I*>(j.to)[line * j.pitch + i] =
        at < j.s.lines.n ? Items<T, K>::element(j, Items<T, K>::in(j, line)[at], at)
                         : last_item<I>();
  }
}

/// Computes words for the elements in the order of `from`.
template <class T> __global__ void list_words(const __grid_constant__ Job j) {
  constexpr int bits = 8 * int(sizeof(T));
  const uint64_t places = (uint64_t(1) << j.place) - 1;
  for (const int64_t i : cuda::turns(j.lines * j.n)) {
    const int64_t at = j.from ? int64_t(static_cast<const uint64_t*>(j.from)[i] & places) : i;
    const int64_t line = at / j.n;
    const T x = Items<T, KeyOf<T>>::in(j, line)[at - line * j.n];
    const uint64_t key = (key_of(x) ^ Items<T, KeyOf<T>>::flip(j)) & ~uint64_t(0) >> (64 - bits);
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
/// Sorts all lines at once; the two arrays have space for one word per element.
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

template <class T, class K> void launch_tiles(const Job& j) {
  const auto start = [&](auto kernel, int tile, int threads) {
    const int64_t tiles = j.lines * ((j.n + tile - 1) / tile), most = int64_t(1) << 20;
    cuda::launch_blocks("sort", kernel, unsigned(smaller(tiles, most)), unsigned(threads),
                        tile * sizeof(Item<K>), j);
  };
  if (j.n <= 32) return start(sort_tiles<1, T, K>, 32, 32);
  int tile = 32 * kEach;
  while (tile < kTile && tile < j.n) tile *= 2;
  start(sort_tiles<kEach, T, K>, tile, tile / kEach);
}

/// The number of groups per line if its `limit` first items are requested: about as many as items
/// in the `limit` groups that remain, and enough threads. 0: the line is too short.
template <class T> int64_t groups_for(int64_t lines, int64_t n, int64_t limit) {
  constexpr int64_t least = 8, threads = 1 << 16, N = kAccess<T>;
  int64_t each = 1;
  while (4 * each * each * limit <= n && (each < least || lines * n >= 2 * each * threads))
    each *= 2;
  return each < least ? 0 : ((n + N - 1) / N + each / N - 1) / (each / N);
}

/// Selects few positions; the two arrays have space for the items that are passed on. The `limit`
/// first items are in groups whose first items are among the `limit` first ones of groups.
template <class T, class K> void sort_few(Job j, void* spare, void* other) {
  const auto next = [&](int64_t n) {
    j.n = n, j.from = spare, j.to = other;
    std::swap(spare, other);
  };
  const auto pass_on = [&](int64_t most) {
    while (j.n > most) {
      launch_tiles<T, K>(j);
      const int64_t full = (j.n - 1) / kTile;
      next(full * j.limit + smaller(j.limit, j.n - full * kTile));
    }
  };
  j.to = spare;
  if (j.groups > 0) {
    const int64_t step = j.groups * kAccess<T>, each = (j.n + step - 1) / step * kAccess<T>;
    cuda::launch_each("sort", first_of_groups<T, K>, j.lines * j.groups, j);
    next(j.groups);
    pass_on(j.limit);
    j.n = j.limit * each;
    cuda::launch_each("sort", list_groups<T, K>, j.lines * j.n, j);
    next(j.n);
  }
  pass_on(kTile);
  j.to = nullptr;
  launch_tiles<T, K>(j);
}

/// The known part of the requested item of a line: the upper bits of its key, then of its position;
/// the number of items with equal bits, and how many of them precede it.
struct SelectPrefix {
  uint64_t key, at;
  int key_shift, at_shift;  // the numbers of unknown bits
  int64_t alike, before;
};
constexpr int kDigit = 11, kDigits = 1 << kDigit;
constexpr int64_t kPart = 1 << 15;  // elements that a block counts

/// A pass counts `width` bits of the keys, or of the positions, from `shift` on.
struct Select {
  Job j;
  SelectPrefix* known;
  unsigned long long* counts;  // lines x kDigits
  bool of_key;
  int shift, width;
};

/// Calls body(key, position) for the elements of this thread in a part of a line.
template <class T, class F>
__device__ void each_of_part(const Job& j, int64_t line, int64_t part, const F& body) {
  constexpr int N = kAccess<T>, kAtOnce = 4;
  const int64_t to = smaller(j.n, (part + 1) * kPart), step = int64_t(blockDim.x) * N;
  const cuda::Access<const T, N> in(Items<T, KeyOf<T>>::in(j, line), 1, 0);
  const auto key = [&](T x) {
    return KeyOf<T>((key_of(x) ^ Items<T, KeyOf<T>>::flip(j)) &
                    ~uint64_t(0) >> (64 - 8 * sizeof(T)));
  };
  for (int64_t i = part * kPart + threadIdx.x * N; i < to; i += kAtOnce * step) {
    cuda::Group<T, N> x[kAtOnce];
    MT_UNROLLED for (int k = 0; k < kAtOnce; ++k) x[k] = in.load(i + k * step, to);
    MT_UNROLLED for (int k = 0; k < kAtOnce; ++k)
        MT_UNROLLED for (int v = 0; v < N; ++v) if (i + k * step + v < to)
            body(key(x[k].v[v]), i + k * step + v);
  }
}
__global__ void start_select(const __grid_constant__ Select s) {
  for (const int64_t i : cuda::turns(s.j.lines * kDigits)) s.counts[i] = 0;
  for (const int64_t i : cuda::turns(s.j.lines)) s.known[i] = {0, 0, 0, 63, s.j.n, s.j.s.first};
}
template <class T> __global__ void count_digits(const __grid_constant__ Select s) {
  int* const counts = cuda::shared_memory<int>();
  const int64_t parts = (s.j.n + kPart - 1) / kPart;
  const unsigned digits = 1u << s.width;
  for (int64_t w = blockIdx.x; w < s.j.lines * parts; w += gridDim.x) {
    const int64_t line = w / parts;
    const SelectPrefix known = s.known[line];
    if (known.alike == 1) continue;
    for (unsigned d = threadIdx.x; d < digits; d += blockDim.x) counts[d] = 0;
    __syncthreads();
    each_of_part<T>(s.j, line, w - line * parts, [&](KeyOf<T> key, int64_t at) {
      const uint64_t bits = (s.of_key ? uint64_t(key) : uint64_t(at)) >> s.shift;
      const bool alike =
          s.of_key ? bits >> s.width == known.key : key == known.key && bits >> s.width == known.at;
      if (alike) atomicAdd(&counts[bits & (digits - 1)], 1);
    });
    __syncthreads();
    for (unsigned d = threadIdx.x; d < digits; d += blockDim.x)
      if (counts[d] > 0) atomicAdd(&s.counts[line * kDigits + d], (unsigned long long)(counts[d]));
    __syncthreads();
  }
}
/// Selects the digit of the requested item, and resets the counts to 0.
__global__ void pick_digit(const __grid_constant__ Select s) {
  constexpr int each = kDigits / cuda::kThreads;
  const cuda::Block team;
  for (const int64_t line : team.lines(s.j.lines)) {
    SelectPrefix& known = s.known[line];
    const SelectPrefix old = known;
    if (old.alike == 1) continue;
    unsigned long long* const counts = s.counts + line * kDigits + team.number() * each;
    int64_t mine[each], sum = 0;
    MT_UNROLLED for (int k = 0; k < each; ++k) {
      mine[k] = int64_t(counts[k]), counts[k] = 0;
      sum += mine[k];
    }
    int64_t before = team.scan(sum, int64_t(0), cuda::Add{}).before;
    MT_UNROLLED for (int k = 0; k < each; ++k) {
      const uint64_t digit = uint64_t(team.number() * each + k);
      if (old.before >= before && old.before < before + mine[k]) {
        if (s.of_key) known.key = old.key << s.width | digit, known.key_shift = s.shift;
        else known.at = old.at << s.width | digit, known.at_shift = s.shift;
        known.alike = mine[k], known.before = old.before - before;
      }
      before += mine[k];
    }
  }
}
template <class T> __global__ void put_selected(const __grid_constant__ Select s) {
  const int64_t parts = (s.j.n + kPart - 1) / kPart;
  for (int64_t w = blockIdx.x; w < s.j.lines * parts; w += gridDim.x) {
    const int64_t line = w / parts;
    const SelectPrefix known = s.known[line];
    each_of_part<T>(s.j, line, w - line * parts, [&](KeyOf<T> key, int64_t at) {
      if (key >> known.key_shift == known.key && uint64_t(at) >> known.at_shift == known.at)
        Items<T, KeyOf<T>>::put(s.j, line, 0, key, at);
    });
  }
}

/// Selects one position of long lines: the bits of its item from the highest on (radix select), and
/// those of the position if keys are equal. Passes over lines whose item is known do nothing.
template <class T> void select(const Job& j) {
  const cuda::Scratch known(j.lines * sizeof(SelectPrefix)),
      counts(j.lines * kDigits * sizeof(unsigned long long));
  if (!known.as<void>() || !counts.as<void>()) return;  // the error is recorded
  Select s{j, known.as<SelectPrefix>(), counts.as<unsigned long long>(), true, 0, 0};
  const int64_t parts = j.lines * ((j.n + kPart - 1) / kPart);
  const unsigned blocks = unsigned(smaller<int64_t>(parts, 1 << 20));
  const auto pass = [&](bool of_key, int bits) {
    for (s.of_key = of_key; bits > 0;) {
      s.width = smaller(kDigit, bits), s.shift = bits -= s.width;
      cuda::launch_blocks("sort", count_digits<T>, blocks, cuda::kThreads, kDigits * sizeof(int),
                          s);
      cuda::launch_teams<cuda::Block>("sort", pick_digit, j.lines, s);
    }
  };
  cuda::launch_each("sort", start_select, j.lines * kDigits, s);
  pass(true, 8 * int(sizeof(T)));
  pass(false, cuda::bits_for(j.n));
  cuda::launch("sort", put_selected<T>, blocks, cuda::kThreads, s);
}

template <class T, class K> void sort_all(const Sort& s, const AlongDim& l) {
  Job j{};
  j.s = s, j.s.lines = l;
  j.lines = count(l.ndim, l.size), j.n = j.pitch = l.n;
  const bool is_few = s.first + s.keep <= kTile / 2;
  if constexpr (sizeof(K) == 4) {
    if (l.n > kShort && l.n <= cuda::kMaxInTile && (l.n <= kTile || !is_few))
      return cuda::with_tile(l.n, [&](auto tile) {
        using Tile = decltype(tile);
        cuda::launch_blocks("sort", sort_lines<Tile, T>,
                            unsigned(smaller<int64_t>(j.lines, 1 << 20)), Tile::kThreads,
                            Tile::template room<uint64_t>(), j);
      });
  }
  if (l.n <= kTile) return launch_tiles<T, K>(j);
  if (!is_few && s.keep == 1 && l.n >= kPart) return select<T>(j);
  if (is_few) {
    j.limit = s.first + s.keep;
    j.groups = groups_for<T>(j.lines, l.n, j.limit);
    j.pitch = j.groups > 0 ? j.groups : (l.n + kTile - 1) / kTile * j.limit;
  }
  const int64_t all = j.lines, room = kMaxItems / j.pitch,
                together = smaller(all, room > 1 ? room : 1);
  const size_t bytes = size_t(together * j.pitch) * (is_few ? sizeof(Item<K>) : sizeof(uint64_t));
  const cuda::Scratch spare(bytes), other(bytes);
  if (!spare.as<void>() || !other.as<void>()) return;  // the error is recorded
  for (; j.first_line < all; j.first_line += together) {
    j.lines = smaller(together, all - j.first_line);
    if (is_few) sort_few<T, K>(j, spare.as<void>(), other.as<void>());
    else sort_words<T>(j, spare.as<uint64_t>(), other.as<uint64_t>());
  }
}

template <class T> void run(const Sort& s) {
  const AlongDim l = collapsed(s.lines);
  if (l.n < INT32_MAX) sort_all<T, KeyOf<T>>(s, l);
  else sort_all<T, uint64_t>(s, l);
}

}  // namespace

void sort(const Sort& s) {
  if (s.keep == 0 || count(s.lines.ndim, s.lines.size) == 0) return;
  with_number(s.dtype, [&](auto x) { run<decltype(x)>(s); });
}

}  // namespace MT_ISA
}  // namespace mt
