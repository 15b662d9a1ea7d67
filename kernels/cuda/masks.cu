// masks.cu -- the CUDA verbs that pack and unpack by a mask, find set elements, search sorted data
//
// A block processes kPart elements of a mask: it counts the set elements from the start of their
// piece up to them, which gives the rank of each set element.
#include "kernels/cuda/team.h"
#include "kernels/math/index_math.h"
#include "kernels/table.h"
#include "kernels/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// The exclusive prefix sum of the values of the threads, and in `total` the sum of all. All threads of a block of
/// cuda::kThreads with cuda::Block::kShared bytes call it.
__device__ inline int64_t block_prefix(int64_t value, int64_t& total) {
  const cuda::PrefixAndTotal<int64_t> s = cuda::Block{}.scan(value, int64_t(0), cuda::Add{});
  total = s.all;
  return s.before;
}

constexpr int kTogether = 8;  // elements that a thread loads at once
constexpr int64_t kRound = int64_t(cuda::kThreads) * kTogether;
constexpr int64_t kPart = 8192;
static_assert(kMaskPiece % kPart == 0 && kPart % kRound == 0);

/// The elements [i, i + 8) as bytes of 0 or 1; those from `end` on are 0. A mask may be unaligned.
__device__ inline uint64_t load_eight(const bool* set, int64_t i, int64_t end) {
  if (i + kTogether <= end && reinterpret_cast<uintptr_t>(set + i) % 8 == 0)
    return *reinterpret_cast<const uint64_t*>(set + i);
  uint64_t all = 0;
  for (int b = 0; b < kTogether && i + b < end; ++b) all |= uint64_t(set[i + b]) << (8 * b);
  return all;
}
__device__ inline int count_of(uint64_t all) { return int((all * 0x0101010101010101u) >> 56); }

/// The number of set elements in [from, end): a block-wide reduction; all threads get the result.
__device__ inline int64_t count_set(const bool* set, int64_t from, int64_t end) {
  int64_t sum = 0, total;
  for (int64_t i = from + int64_t(threadIdx.x) * kTogether; i < end; i += kRound)
    sum += count_of(load_eight(set, i, end));
  block_prefix(sum, total);
  return total;
}

__global__ void count_pieces(const bool* set, int64_t n, int64_t* counts) {
  const int64_t from = int64_t(blockIdx.x) * kMaskPiece;
  const int64_t sum = count_set(set, from, smaller(n, from + kMaskPiece));
  if (threadIdx.x == 0) counts[blockIdx.x] = sum;
}

/// Calls each(i, k) for the k-th set element i of the part of this block.
template <class Each> __device__ void each_set(const Mask& m, const Each& each) {
  const int64_t from = int64_t(blockIdx.x) * kPart, end = smaller(m.n, from + kPart);
  const int64_t piece = from / kMaskPiece;
  int64_t k = m.before[piece] + count_set(m.set, piece * kMaskPiece, from), total;
  for (int64_t round = from; round < end; round += kRound) {
    const int64_t i = round + int64_t(threadIdx.x) * kTogether;
    const uint64_t all = i < end ? load_eight(m.set, i, end) : 0;
    int64_t at = k + block_prefix(count_of(all), total);
    for (int b = 0; b < kTogether; ++b)
      if (all >> (8 * b) & 1) each(i + b, at++);
    k += total;
  }
}

template <class T, bool Unpack>
__global__ void compress_as(const __grid_constant__ Mask m, T* whole, T* packed) {
  each_set(m, [=](int64_t i, int64_t k) {
    if (Unpack) whole[i] = packed[k];
    else packed[k] = whole[i];
  });
}

__global__ void coordinates(const __grid_constant__ Nonzero z, int64_t pieces) {
  const int64_t total = z.mask.before[pieces];
  each_set(z.mask, [&](int64_t i, int64_t k) {
    for (int d = z.ndim - 1; d >= 0; --d) {
      const int64_t rest = d > 0 ? i / z.size[d] : 0;
      z.out[d * total + k] = z.first + i - rest * z.size[d];
      i = rest;
    }
  });
}

template <class T, bool Right> __global__ void search_as(const __grid_constant__ Search s) {
  for (const int64_t i : cuda::turns(s.rows * s.values)) {
    const int64_t row = s.sorted_row ? i / s.values : 0;
    const T* const sorted = static_cast<const T*>(s.sorted) + row * s.sorted_row;
    s.out[i] =
        s.first + place_among<Right>(sorted, s.sorted_size, static_cast<const T*>(s.value)[i]);
  }
}

int64_t pieces_of(const Mask& m) { return (m.n + kMaskPiece - 1) / kMaskPiece; }
unsigned parts_of(const Mask& m) { return unsigned((m.n + kPart - 1) / kPart); }

template <class T> void compress_items(const Compress& c) {
  cuda::launch_blocks("compress", c.unpack ? compress_as<T, true> : compress_as<T, false>,
                      parts_of(c.mask), cuda::kThreads, cuda::Block::kShared, c.mask,
                      static_cast<T*>(c.whole), static_cast<T*>(c.packed));
}
template <class T> void search_side(const Search& s) {
  cuda::launch_each("search", s.right ? search_as<T, true> : search_as<T, false>, s.rows * s.values,
                    s);
}

}  // namespace

void count_mask(const Mask& m) {
  const int64_t pieces = pieces_of(m);
  if (cuda::stopped()) return;
  if (cuda::capturing()) cuda::keep(&m, sizeof m);
  cuda::check(cudaMemsetAsync(m.before, 0, sizeof(int64_t), cuda::stream()), "count_mask");
  if (pieces == 0) return;
  int64_t* const counts = m.before + 1;
  cuda::launch_blocks("count_mask", count_pieces, unsigned(pieces), cuda::kThreads,
                      cuda::Block::kShared, m.set, m.n, counts);
  Scan sums{op::scan_id<op::Cumsum>, Dtype::i64, counts, nullptr, counts, {}, {}};
  sums.lines.n = pieces, sums.lines.in_step = sums.lines.out_step = 1;
  scan(sums);
}

void compress(const Compress& c) {
  if (c.mask.n == 0) return;
  with_item(c.dtype, [&](auto x) { compress_items<decltype(x)>(c); });
}

void nonzero(const Nonzero& z) {
  if (z.mask.n == 0 || z.ndim == 0) return;
  cuda::launch_blocks("nonzero", coordinates, parts_of(z.mask), cuda::kThreads,
                      cuda::Block::kShared, z, pieces_of(z.mask));
}

void search(const Search& s) {
  if (s.rows * s.values == 0) return;
  with_number(s.dtype, [&](auto x) { search_side<decltype(x)>(s); });
}

}  // namespace MT_ISA
}  // namespace mt
