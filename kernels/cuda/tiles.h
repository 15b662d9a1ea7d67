// tiles.h -- a matrix product by tiles in shared memory, generic over the source of its elements
//
// A problem P defines the number of rows, columns and inner elements, reads the elements of its two
// operands and writes those of the result:
//   using T, Sum                 the types of the elements and of the sums
//   int64_t entries, m, n, k     `entries` products of (m x k) and (k x n)
//   bool a_along_k, b_along_k    whether elements along k are contiguous in memory
//   Row row(entry, i), T a(Row, k); Column column(entry, j), T b(Column, k)
//   void write(entry, i, j, Sum)
// The split of the inner sum depends only on the shape: the same bits on every run.
#pragma once
#include "kernels/cuda/load.h"
#include "kernels/math/number.h"
#include "kernels/view.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int kSide = 64, kDepth = 16;  // a tile of the result, and of the inner sum at a time
constexpr int kEach = 4, kAcrossTile = kSide / kEach;  // elements of a thread in each direction
constexpr int kTileThreads = kAcrossTile * kAcrossTile;
constexpr int kLoads = kSide * kDepth / kTileThreads;  // elements of an operand that a thread loads

/// i / by and the remainder; uses 32 bits if they suffice.
__device__ inline int64_t divide(int64_t i, int64_t by, int64_t* rest) {
  if (((i | by) >> 32) == 0) {
    const uint32_t q = uint32_t(i) / uint32_t(by);
    *rest = uint32_t(i) - q * uint32_t(by);
    return q;
  }
  const int64_t q = i / by;
  *rest = i - q * by;
  return q;
}

/// x * y + z, rounded once if T is a float.
template <class T, class S> __device__ inline S multiply_add(T x, T y, S z) {
#ifdef __CUDACC__
  if constexpr (math::is_floating<S>) return ::fma(S(x), S(y), z);
#endif
  return S(z + S(x) * S(y));
}

/// Partial sums of floats are combined in double.
template <class S> struct Wide { using type = S; };
template <> struct Wide<float> { using type = double; };

/// A problem and the split of its inner sums: `partial` holds the results of the parts.
template <class P> struct SplitProblem {
  P p;
  int64_t part, parts, tiles_m, tiles_n;
  typename P::Sum* partial;  // parts x entries x m x n
};

/// The part of one operand that a thread loads per iteration: an index along it, and one along k.
struct LoadPosition {
  int side, k;
  __device__ LoadPosition(int thread, int turn, bool along_k)
      : side(along_k ? thread / kDepth + turn * (kTileThreads / kDepth) : thread % kSide),
        k(along_k ? thread % kDepth : thread / kSide + turn * (kTileThreads / kSide)) {}
};

template <class P> __global__ void tiles(const __grid_constant__ SplitProblem<P> c) {
  using T = typename P::T;
  using Sum = typename P::Sum;
  __shared__ T a[kDepth][kSide + 1], b[kDepth][kSide + 1];
  const int thread = int(threadIdx.x), across = thread % kAcrossTile, down = thread / kAcrossTile;
  const int64_t each = c.tiles_m * c.tiles_n, all = each * c.parts * c.p.entries;
  for (int64_t number = blockIdx.x; number < all; number += gridDim.x) {
    int64_t tile, entry, tile_n;
    const int64_t place = divide(number, each, &tile), part = divide(place, c.p.entries, &entry);
    const int64_t tile_m = divide(tile, c.tiles_n, &tile_n);
    const int64_t i0 = tile_m * kSide, j0 = tile_n * kSide;
    const int64_t first = part * c.part, last = smaller(c.p.k, first + c.part);
    typename P::Row row[kLoads];
    typename P::Column column[kLoads];
    MT_UNROLLED for (int r = 0; r < kLoads; ++r) {
      const int64_t i = i0 + LoadPosition(thread, r, c.p.a_along_k).side;
      const int64_t j = j0 + LoadPosition(thread, r, c.p.b_along_k).side;
      row[r] = c.p.row(entry, smaller(i, c.p.m - 1));
      column[r] = c.p.column(entry, smaller(j, c.p.n - 1));
    }
    Sum sum[kEach][kEach] = {};
    for (int64_t k0 = first; k0 < last; k0 += kDepth) {
      MT_UNROLLED for (int r = 0; r < kLoads; ++r) {
        const LoadPosition f(thread, r, c.p.a_along_k), g(thread, r, c.p.b_along_k);
        a[f.k][f.side] = k0 + f.k < last ? c.p.a(row[r], k0 + f.k) : T(0);
        b[g.k][g.side] = k0 + g.k < last ? c.p.b(column[r], k0 + g.k) : T(0);
      }
      __syncthreads();
      Sum some[kEach][kEach] = {};  // separate partial sums: long sums lose fewer digits
      MT_UNROLLED for (int k = 0; k < kDepth; ++k) {
        T x[kEach], y[kEach];
        MT_UNROLLED for (int r = 0; r < kEach; ++r) x[r] = a[k][down + r * kAcrossTile];
        MT_UNROLLED for (int r = 0; r < kEach; ++r) y[r] = b[k][across + r * kAcrossTile];
        MT_UNROLLED for (int r = 0; r < kEach; ++r) MT_UNROLLED for (int s = 0; s < kEach; ++s)
            some[r][s] = multiply_add(x[r], y[s], some[r][s]);
      }
      MT_UNROLLED for (int r = 0; r < kEach; ++r) MT_UNROLLED for (int s = 0; s < kEach; ++s)
          sum[r][s] = Sum(sum[r][s] + some[r][s]);
      __syncthreads();
    }
    MT_UNROLLED for (int r = 0; r < kEach; ++r) MT_UNROLLED for (int s = 0; s < kEach; ++s) {
      const int64_t i = i0 + down + r * kAcrossTile, j = j0 + across + s * kAcrossTile;
      if (i >= c.p.m || j >= c.p.n) continue;
      if (c.parts == 1) c.p.write(entry, i, j, sum[r][s]);
      else c.partial[((part * c.p.entries + entry) * c.p.m + i) * c.p.n + j] = sum[r][s];
    }
  }
}

/// Combines the parts of each element, in order.
template <class P> __global__ void join_tiles(const __grid_constant__ SplitProblem<P> c) {
  using Sum = typename P::Sum;
  const int64_t n = c.p.entries * c.p.m * c.p.n;
  for (const int64_t e : cuda::turns(n)) {
    typename Wide<Sum>::type total = 0;
    for (int64_t part = 0; part < c.parts; ++part) total += c.partial[part * n + e];
    int64_t i, j;
    const int64_t rest = divide(e, c.p.n, &j), entry = divide(rest, c.p.m, &i);
    c.p.write(entry, i, j, Sum(total));
  }
}

/// Computes the whole product. A few tiles with long sums are split along k.
template <class P> void run_tiles(const char* name, const P& p) {
  SplitProblem<P> c;
  c.p = p;
  c.tiles_m = (p.m + kSide - 1) / kSide, c.tiles_n = (p.n + kSide - 1) / kSide;
  const int64_t whole = c.tiles_m * c.tiles_n * p.entries;
  constexpr int64_t wanted = 512, shortest = 256;
  c.parts = whole >= wanted ? 1 : smaller(wanted / whole, (p.k + shortest - 1) / shortest);
  if (c.parts < 1) c.parts = 1;
  c.part = (p.k + c.parts - 1) / c.parts;
  if (c.part > 0) c.parts = (p.k + c.part - 1) / c.part;
  const int64_t kept = c.parts > 1 ? c.parts * p.entries * p.m * p.n : 0;
  const cuda::Scratch scratch(kept * sizeof(typename P::Sum));
  c.partial = scratch.as<typename P::Sum>();
  cuda::launch_blocks(name, tiles<P>, unsigned(smaller<int64_t>(whole * c.parts, 1 << 30)),
                      kTileThreads, 0, c);
  if (c.parts > 1) cuda::launch_each(name, join_tiles<P>, p.entries * p.m * p.n, c);
}

}  // namespace
}  // namespace MT_ISA
}  // namespace mt
