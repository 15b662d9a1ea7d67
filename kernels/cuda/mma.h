// mma.h -- 16-bit tiles in shared memory and their products by a warp's tensor cores: cp.async,
// ldmatrix, mma.sync of sm_80 and later
//
// A tile has rows of D elements in pieces of 16 bytes, which are swizzled by row: eight lanes that
// read the same piece of eight rows have no bank conflicts. Positions are byte offsets in the
// shared memory of the launch. Fragments have the layout of the PTX ISA ("Matrix Fragments for
// mma.m16n8k16"): lane l has rows l / 4 and l / 4 + 8 of a result, columns l % 4 * 2 and the next.
#pragma once
#include "kernels/cuda/load.h"
#include "kernels/math/reduced_floats.h"

namespace mt::cuda {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr bool kHasMma = false;
#else
constexpr bool kHasMma = true;
#endif

#if defined(__CUDACC__)
__device__ inline uint32_t shared_address(int offset) {
  return uint32_t(__cvta_generic_to_shared(shared_memory<unsigned char>())) + uint32_t(offset);
}
#endif

/// Copies 16 bytes, or zeros unless `there`, to shared memory; copies_done() waits for the copy.
__device__ inline void copy_later(int to, const void* from, bool there) {
#ifdef __CUDACC__
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(there ? 16 : 0));
#else
  emulation::copy_later(shared_memory<unsigned char>() + to, there ? from : nullptr);
#endif
}
/// Waits for the copies of this thread; other threads see them after a barrier.
__device__ inline void copies_done() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
#else
  emulation::copies_done();
#endif
}

/// Loads four 8 x 8 matrices: lane l passes the address of row l % 8 of matrix l / 8, and receives
/// from each matrix two elements of row l / 4, or with `across` of column l / 4.
template <bool across> __device__ inline void load_matrices(uint32_t (&m)[4], int at) {
#ifdef __CUDACC__
  if constexpr (across)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(shared_address(at)));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"(shared_address(at)));
#else
  emulation::load_matrices(m, shared_memory<unsigned char>() + at, across);
#endif
}

/// c += a b for 16 x 16 and 16 x 8 elements of type T.
template <class T>
__device__ inline void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#ifdef __CUDACC__
#define MT_MMA(type)                                                         \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                 \
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                       \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
  if constexpr (std::is_same_v<T, Float16>) MT_MMA("f16");
  else MT_MMA("bf16");
#undef MT_MMA
#else
  emulation::multiply<T>(c, a, b0, b1);
#endif
}

/// Packs two floats as elements of type T.
template <class T> __device__ inline uint32_t packed(float low, float high) {
#ifdef __CUDACC__
  uint32_t both;
  if constexpr (std::is_same_v<T, Float16>)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#else
  return uint32_t(T(high).bits) << 16 | T(low).bits;
#endif
}

/// 2^x with an error of 2 ulp; subnormal results are flushed to 0.
__device__ inline float exp2_fast(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
#endif
}

__device__ inline int lane_number() { return int(threadIdx.x) % 32; }

/// The offsets of pieces of a tile.
template <int D> struct Tile {
  static_assert(D % 32 == 0);
  static constexpr int kRow = D * 2, kPieces = D / 8;
  static constexpr int kAcross = D > 64 ? 16 : D > 32 ? 8 : 4;  // lanes per row
  static constexpr bool kAligned = (kRow & (kRow - 1)) == 0;    // rows start at multiples of kRow
  __device__ static int swizzle(int row) { return (D % 64 == 0 ? row & 7 : row >> 1 & 3) << 4; }
  __device__ static int at(int row, int piece) { return row * kRow + (piece << 4 ^ swizzle(row)); }
};
/// The address that a lane passes to load_matrices, and those 2 k pieces further along its row.
template <int D> struct LanePlace {
  int row, piece;
  /// `tile` is a multiple of kRow.
  __device__ LanePlace(int tile, int in_tile, int piece)
      : row(tile + in_tile * Tile<D>::kRow),
        piece(piece << 4 ^ Tile<D>::swizzle(in_tile)) {}
  __device__ int operator[](int k) const {
    return Tile<D>::kAligned ? row | (piece ^ k << 5) : row + (piece ^ k << 5);
  }
};

/// Copies the tiles of a matrix in order, with Rows rows each; rows out of bounds are zero.
template <int D, int Rows, int Threads, class T> class Tiles {
 public:
  /// The matrix has `rows` rows of `pieces` pieces.
  __device__ Tiles(const T* from, int64_t stride, int rows, int pieces)
      : from_(from + own_row() * stride + own_piece() * 8),
        step_(kStep * stride),
        rows_(own_piece() < pieces ? rows - own_row() : 0) {}
  /// Continues with a matrix that has the same strides.
  __device__ void begin(const Tiles& other) { from_ = other.from_, rows_ = other.rows_; }
  __device__ void next(int tile) {
    const int to = tile + Tile<D>::at(own_row(), own_piece());
    MT_UNROLLED for (int turn = 0; turn < Rows / kStep; ++turn) {
      if (own_piece() < Tile<D>::kPieces)
        copy_later(to + turn * kStep * Tile<D>::kRow, from_, turn * kStep < rows_);
      from_ += step_;
    }
    rows_ -= Rows;
  }

 private:
  static constexpr int kAcross = Tile<D>::kAcross, kStep = Threads / kAcross;
  static_assert(Rows % kStep == 0 && kStep % 8 == 0);
  __device__ static int own_row() { return int(threadIdx.x) / kAcross; }
  __device__ static int own_piece() { return int(threadIdx.x) % kAcross; }
  const T* from_;
  const int64_t step_;
  int rows_;
};

/// 16 R rows of a tile as left operands of products: kept in registers, or reloaded at each use.
template <int D, int R, bool kept> class LeftRows {
 public:
  __device__ explicit LeftRows(int first) : first_(first, lane_number() & 15, lane_number() >> 4) {}
  __device__ void keep() {
    if constexpr (kept)
      MT_UNROLLED for (int r = 0; r < R; ++r) MT_UNROLLED for (int k = 0; k < D / 16; ++k)
          read(held_[r][k], r, k);
  }
  __device__ void get(uint32_t (&a)[4], int r, int k) const {
    if constexpr (kept) MT_UNROLLED for (int i = 0; i < 4; ++i) a[i] = held_[r][k][i];
    else read(a, r, k);
  }

 private:
  __device__ void read(uint32_t (&a)[4], int r, int k) const {
    load_matrices<false>(a, first_[k] + r * 16 * Tile<D>::kRow);
  }
  const LanePlace<D> first_;
  uint32_t held_[kept ? R : 1][kept ? D / 16 : 1][4];
};

/// c = a b^T for a tile b of N rows.
template <class T, int D, int R, int N, bool kept>
__device__ void multiply_rows(float (&c)[R][N / 8][4], const LeftRows<D, R, kept>& a, int b) {
  const int lane = lane_number();
  const LanePlace<D> first(b, (lane >> 4) * 8 + (lane & 7), lane >> 3 & 1);
  MT_UNROLLED for (int r = 0; r < R; ++r) MT_UNROLLED for (int n = 0; n < N / 8; ++n)
      MT_UNROLLED for (int i = 0; i < 4; ++i) c[r][n][i] = 0;
  MT_UNROLLED for (int k = 0; k < D / 16; ++k) {
    uint32_t left[R][4];
    MT_UNROLLED for (int r = 0; r < R; ++r) a.get(left[r], r, k);
    MT_UNROLLED for (int n = 0; n < N / 16; ++n) {
      uint32_t right[4];
      load_matrices<false>(right, first[k] + n * 16 * Tile<D>::kRow);
      MT_UNROLLED for (int r = 0; r < R; ++r) {
        multiply<T>(c[r][2 * n], left[r], right[0], right[1]);
        multiply<T>(c[r][2 * n + 1], left[r], right[2], right[3]);
      }
    }
  }
}

/// c += p b for a tile b of N rows, with p from multiply_rows.
template <class T, int D, int R, int N>
__device__ void multiply_columns(float (&c)[R][D / 8][4], const float (&p)[R][N / 8][4], int b) {
  const LanePlace<D> first(b, lane_number() & 15, lane_number() >> 4);
  MT_UNROLLED for (int k = 0; k < N / 16; ++k) {
    uint32_t left[R][4];
    MT_UNROLLED for (int r = 0; r < R; ++r) MT_UNROLLED for (int i = 0; i < 4; ++i) left[r][i] =
        packed<T>(p[r][2 * k + i / 2][i % 2 * 2], p[r][2 * k + i / 2][i % 2 * 2 + 1]);
    MT_UNROLLED for (int n = 0; n < D / 16; ++n) {
      uint32_t right[4];
      load_matrices<true>(right, first[n] + k * 16 * Tile<D>::kRow);
      MT_UNROLLED for (int r = 0; r < R; ++r) {
        multiply<T>(c[r][2 * n], left[r], right[0], right[1]);
        multiply<T>(c[r][2 * n + 1], left[r], right[2], right[3]);
      }
    }
  }
}

/// Stores 16 R rows of a warp, each scaled by a factor, through a part of a tile that only this
/// warp uses. Only the first `rows` of the warp's rows exist.
template <class T, int D, int R>
__device__ void store_rows(int part, const float (&c)[R][D / 8][4], const float (&factor)[R][2],
                           T* to, int64_t stride, int rows, int pieces) {
  using Tile = Tile<D>;
  unsigned char* const memory = shared_memory<unsigned char>() + part;
  const int lane = lane_number();
  __syncwarp();
  MT_UNROLLED for (int r = 0; r < R; ++r) MT_UNROLLED for (int n = 0; n < D / 8; ++n)
      MT_UNROLLED for (int h = 0; h < 2; ++h) {
    const float f = factor[r][h];
    *reinterpret_cast<uint32_t*>(memory + Tile::at(r * 16 + h * 8 + lane / 4, n) + lane % 4 * 4) =
        packed<T>(c[r][n][2 * h] * f, c[r][n][2 * h + 1] * f);
  }
  __syncwarp();
  using Piece = Group<T, 8>;
  for (int i = lane; i < 16 * R * Tile::kPieces; i += 32) {
    const int row = i / Tile::kPieces, piece = i % Tile::kPieces;
    if (row < rows && piece < pieces)
      store_group(to + row * stride + piece * 8, load_group<Piece>(memory + Tile::at(row, piece)));
  }
}

}  // namespace mt::cuda
