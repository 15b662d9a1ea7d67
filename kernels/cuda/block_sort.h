// block_sort.h -- a stable sort of up to a tile of words by one block in shared memory
//
// This is CUB's BlockRadixSort from the toolkit; in the emulation std's sort, by the first thread.
#pragma once
#include "kernels/cuda/load.h"

#ifdef __CUDACC__
#include <cub/block/block_radix_sort.cuh>
#else
#include <algorithm>
#endif

namespace mt::cuda {

/// The configuration of a sort: the threads of its block, and the words per thread.
template <int Threads, int Each> struct Tile {
  static constexpr int kThreads = Threads, kEach = Each, kWords = Threads * Each;
#ifdef __CUDACC__
  template <class Word> using Sort = cub::BlockRadixSort<Word, Threads, Each>;
#endif
  /// The shared memory of a sort in bytes: the words, which overlap with CUB's temporary storage.
  template <class Word> static constexpr size_t room() {
    constexpr size_t words = kWords * sizeof(Word);
#ifdef __CUDACC__
    constexpr size_t sorts = sizeof(typename Sort<Word>::TempStorage);
    return sorts > words ? sorts : words;
#else
    return words;
#endif
  }
};
constexpr int kMaxInTile = 4096;

/// Calls `body(Tile)` with the smallest tile that holds n words, n <= kMaxInTile.
template <class F> void with_tile(int64_t n, const F& body) {
  if (n <= 512) body(Tile<64, 8>{});
  else if (n <= 1024) body(Tile<128, 8>{});
  else if (n <= 2048) body(Tile<256, 8>{});
  else body(Tile<256, 16>{});
}

/// Sorts the words of a tile by their bits [from, to); the sort is stable. `word` is the start of
/// shared memory. All threads call it; it synchronizes them before and after.
#ifdef __CUDACC__
// It is not inlined, so that all kernels of a file share it.
template <class Tile, class Word>
__device__ __noinline__ void sort_in_block(Word* word, int from, int to) {
  using Sort = typename Tile::template Sort<Word>;
  static_assert(alignof(typename Sort::TempStorage) <= 16);
  Word mine[Tile::kEach];
  __syncthreads();
  MT_UNROLLED for (int k = 0; k < Tile::kEach; ++k) mine[k] = word[threadIdx.x * Tile::kEach + k];
  __syncthreads();
  Sort(*reinterpret_cast<typename Sort::TempStorage*>(word)).SortBlockedToStriped(mine, from, to);
  __syncthreads();
  MT_UNROLLED for (int k = 0; k < Tile::kEach; ++k) word[k * Tile::kThreads + threadIdx.x] =
      mine[k];
  __syncthreads();
}
#else
template <class Tile, class Word> void sort_in_block(Word* word, int from, int to) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const Word mask = Word(~Word(0)) >> (8 * int(sizeof(Word)) - (to - from));
    std::stable_sort(word, word + Tile::kWords,
                     [=](Word a, Word b) { return (a >> from & mask) < (b >> from & mask); });
  }
  __syncthreads();
}
#endif

}  // namespace mt::cuda
