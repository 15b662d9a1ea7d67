// attention.cu -- attention of 16-bit floats in one kernel, and in two for its gradients (Dao 2023,
// "FlashAttention-2"): scores stay in registers, with an online softmax over the keys
//
// A warp owns 16 R rows of the result: queries in forward and for dq, keys for dk and dv; the other
// side is loaded in tiles of shared memory, with double buffering. Sums have a fixed order,
// independent of scheduling: the same bits on every run.
#include "kernels/cuda/mma.h"
#include "kernels/cuda/team.h"
#include "kernels/cuda/verbs.h"

namespace mt {
inline namespace MT_ISA {
namespace {

/// The tiling of a kernel: W warps, each with 16 R of its own rows; N rows of the other side at a time.
template <class Type, int Features, int W, int R, int Other, bool kept, int Blocks, bool Causal>
struct Tiling {
  using T = Type;
  static constexpr int D = Features, kThreads = W * 32, kWarpRows = R * 16, kR = R;
  static constexpr int kRows = W * kWarpRows, N = Other;
  static constexpr int kOwn = kRows * D * 2, kStage = 2 * N * D * 2;  // bytes: own tile, two others
  static constexpr bool kKept = kept;     // whether left operands stay in registers
  static constexpr int kBlocks = Blocks;  // resident blocks per multiprocessor
  static constexpr bool kCausal = Causal;
  static_assert(attention_rows(1) % kRows == 0 && attention_rows(1) % N == 0);
};

struct Launch : FlashAttention {
  int64_t tiles;     // of the rows that blocks own
  int64_t together;  // this many heads begin with all their first tiles, which are the heaviest
  float scale_log2;  // scale * log2(e): weights are powers of 2
};

/// The rows that a block owns. `grows`: the work of tiles grows with their index, so the last tile is first.
struct TileRows {
  int64_t batch;
  int head, first;
  __device__ TileRows(const Launch& a, int heads, int rows, bool grows) {
    const int64_t all = a.batch * heads, group = blockIdx.x / (a.tiles * a.together),
                  rest = blockIdx.x - group * a.tiles * a.together, left = all - group * a.together,
                  n = left < a.together ? left : a.together;
    const int64_t tile = rest / n, line = group * a.together + rest % n;
    batch = line / heads, head = int(line % heads);
    first = int(grows ? a.tiles - 1 - tile : tile) * rows;
  }
};

template <class T> __device__ T* head_of(const AttentionSide& s, int64_t batch, int head) {
  return static_cast<T*>(s.data) + batch * s.batch + head * s.head;
}

/// The part of log_sums or delta that belongs to a head.
__device__ inline float* row_values(float* x, const Launch& a, int64_t batch, int head) {
  return x + (batch * a.heads + head) * attention_rows(a.queries);
}

/// Starts the copy of the rows that a block owns, of which `rows` exist.
template <class C>
__device__ void fetch_own(int tile, const AttentionSide& s, const TileRows& at, int rows,
                          int features) {
  using T = const typename C::T;
  cuda::Tiles<C::D, C::kRows, C::kThreads, T>(head_of<T>(s, at.batch, at.head) + at.first * s.row,
                                              s.row, rows - at.first, features / 8)
      .next(tile);
}
/// Writes the rows of a warp, from row `own` of the block on, through its part of a tile.
template <class C>
__device__ void store_own(int own, int tile, const float (&c)[C::kR][C::D / 8][4],
                          const float (&factor)[C::kR][2], const AttentionSide& to,
                          const TileRows& at, int rows, int features) {
  using T = typename C::T;
  const int first = at.first + own;
  cuda::store_rows<T, C::D, C::kR>(tile + own * C::D * 2, c, factor,
                                   head_of<T>(to, at.batch, at.head) + first * to.row, to.row,
                                   rows - first, features / 8);
}

/// Reduces over the four lanes of a row.
template <class Join> __device__ float reduce_in_row(float x, const Join& join) {
  x = join(x, cuda::from_lane_across(x, 1));
  return join(x, cuda::from_lane_across(x, 2));
}

/// Calls f(r, h, n, i) for each score of this lane: row r * 16 + 8 * h + lane / 4, column n * 8 +
/// lane % 4 * 2 + i.
template <int R, int N, class F> __device__ void each_score(const F& f) {
  MT_UNROLLED for (int r = 0; r < R; ++r) MT_UNROLLED for (int n = 0; n < N / 8; ++n)
      MT_UNROLLED for (int h = 0; h < 2; ++h) MT_UNROLLED for (int i = 0; i < 2; ++i) f(r, h, n, i);
}
__device__ inline int row_of(int r, int h) { return r * 16 + h * 8 + cuda::lane_number() / 4; }
__device__ inline int column_of(int n, int i) { return n * 8 + cuda::lane_number() % 4 * 2 + i; }

/// Sets -infinity where a query does not attend to a key; rows are queries.
template <class C>
__device__ void mask(float (&s)[C::kR][C::N / 8][4], int first_query, int first_key, int keys) {
  const bool cut = first_key + C::N > keys;
  if (!cut && !(C::kCausal && first_key + C::N - 1 > first_query)) return;
  each_score<C::kR, C::N>([&](int r, int h, int n, int i) {
    const int key = first_key + column_of(n, i), query = first_query + row_of(r, h);
    if (key >= keys || (C::kCausal && key > query)) s[r][n][2 * h + i] = -INFINITY;
  });
}

/// Converts rows of scores to weights relative to the running maximum `row_max`, which it updates; rescales `sum` and
/// `o` to it, and adds the weights to `sum`.
template <class C>
__device__ void next_weights(float (&s)[C::kR][C::N / 8][4], float (&row_max)[C::kR][2],
                             float (&sum)[C::kR][2], float (&o)[C::kR][C::D / 8][4],
                             float scale_log2) {
  MT_UNROLLED for (int r = 0; r < C::kR; ++r) MT_UNROLLED for (int h = 0; h < 2; ++h) {
    float peak = row_max[r][h];
    MT_UNROLLED for (int n = 0; n < C::N / 8; ++n) peak =
        fmaxf(peak, fmaxf(s[r][n][2 * h], s[r][n][2 * h + 1]));
    peak = reduce_in_row(peak, [](float x, float y) { return fmaxf(x, y); });
    const float rescale = cuda::exp2_fast((row_max[r][h] - peak) * scale_log2),
                shift = -peak * scale_log2;
    float acc = 0;
    MT_UNROLLED for (int n = 0; n < C::N / 8; ++n)
        MT_UNROLLED for (int i = 2 * h; i < 2 * h + 2; ++i) acc += s[r][n][i] =
            cuda::exp2_fast(fmaf(s[r][n][i], scale_log2, shift));
    row_max[r][h] = peak, sum[r][h] = fmaf(sum[r][h], rescale, acc);
    MT_UNROLLED for (int n = 0; n < C::D / 8; ++n) o[r][n][2 * h] *= rescale,
        o[r][n][2 * h + 1] *= rescale;
  }
}

/// The keys and values that a block of queries iterates over, tile by tile.
template <class C> class KeyTiles {
 public:
  __device__ KeyTiles(const Launch& a, const TileRows& at, int first)
      : end(C::kCausal && at.first + C::kRows < a.keys ? at.first + C::kRows : a.keys),
        first_(first),
        k_(tiles(a.k, a, at, a.features)),
        v_(tiles(a.v, a, at, a.value_features)) {}
  /// The offset of the keys of the tile that begins with this one; the values follow.
  __device__ int place(int key) const { return first_ + (key / C::N & 1) * C::kStage; }
  __device__ void fetch(int key) {
    if (key < end) k_.next(place(key)), v_.next(place(key) + C::kStage / 2);
  }
  const int end;  // the end of the keys that any of the queries attend to

 private:
  using Tiles = cuda::Tiles<C::D, C::N, C::kThreads, const typename C::T>;
  __device__ static Tiles tiles(const AttentionSide& s, const Launch& a, const TileRows& at,
                                int features) {
    const int head = at.head / (a.heads / a.shared_heads);
    return Tiles(head_of<const typename C::T>(s, at.batch, head), s.row, a.keys, features / 8);
  }
  const int first_;
  Tiles k_, v_;
};

template <class C> __device__ void flash_forward(const Launch& a) {
  using T = typename C::T;
  constexpr int D = C::D, R = C::kR, N = C::N;
  const TileRows at(a, a.heads, C::kRows, C::kCausal);
  const int own = int(threadIdx.x) / 32 * C::kWarpRows, first = at.first + own;
  KeyTiles<C> keys(a, at, C::kOwn);
  fetch_own<C>(0, a.q, at, a.queries, a.features);
  keys.fetch(0);
  cuda::LeftRows<D, R, C::kKept> q(own * D * 2);
  float o[R][D / 8][4] = {}, row_max[R][2], sum[R][2] = {};
  MT_UNROLLED for (int r = 0; r < R; ++r) row_max[r][0] = row_max[r][1] = -INFINITY;
  MT_ROLLED for (int key = 0; key < keys.end; key += N) {
    cuda::copies_done();
    __syncthreads();
    keys.fetch(key + N);
    if (key == 0) q.keep();
    if (C::kCausal && key > first + C::kWarpRows - 1) continue;
    const int tile = keys.place(key);
    float s[R][N / 8][4];
    cuda::multiply_rows<T, D, R, N>(s, q, tile);
    mask<C>(s, first, key, a.keys);
    next_weights<C>(s, row_max, sum, o, a.scale_log2);
    cuda::multiply_columns<T, D, R, N>(o, s, tile + C::kStage / 2);
  }
  float* const log_sums = row_values(a.log_sums, a, at.batch, at.head) + first;
  MT_UNROLLED for (int r = 0; r < R; ++r) MT_UNROLLED for (int h = 0; h < 2; ++h) {
    const float total = reduce_in_row(sum[r][h], [](float x, float y) { return x + y; });
    const int row = row_of(r, h);
    if (cuda::lane_number() % 4 == 0)
      log_sums[row] =
          first + row < a.queries ? fmaf(row_max[r][h], a.scale_log2, log2f(total)) : INFINITY;
    sum[r][h] = 1 / total;
  }
  store_own<C>(own, 0, o, sum, a.out, at, a.queries, a.value_features);
}

/// The sums of out * grad along the rows of a warp, which begin with query `first`: those that a
/// lane needs in `delta`, and all of them in a.delta.
template <class C>
__device__ void sum_products(float (&delta)[C::kR][2], const Launch& a, const TileRows& at,
                             int first) {
  using T = typename C::T;
  const T* const out = head_of<const T>(a.out, at.batch, at.head);
  const T* const grad = head_of<const T>(a.grad, at.batch, at.head);
  float* const all = row_values(a.delta, a, at.batch, at.head);
  constexpr int kTeam = cuda::Tile<C::D>::kAcross, kAtOnce = 32 / kTeam;  // per row; rows at a time
  const int lane = cuda::lane_number(), piece = lane % kTeam;
  MT_UNROLLED for (int i = 0; i < C::kWarpRows; i += kAtOnce) {
    const int query = first + i + lane / kTeam;
    float acc = 0;
    if (query < a.queries && piece < a.value_features / 8) {
      using Piece = cuda::Group<T, 8>;
      const auto x = cuda::load_group<Piece>(out + query * a.out.row + piece * 8),
                 y = cuda::load_group<Piece>(grad + query * a.grad.row + piece * 8);
      MT_UNROLLED for (int e = 0; e < 8; ++e) acc = fmaf(float(x.v[e]), float(y.v[e]), acc);
    }
    MT_UNROLLED for (int by = kTeam / 2; by > 0; by /= 2) acc += cuda::from_lane_across(acc, by);
    if (piece == 0) all[query] = acc;
    const float mine = cuda::from_lane(acc, lane / 4 % kAtOnce * kTeam);
    MT_UNROLLED for (int r = 0; r < C::kR; ++r)
        MT_UNROLLED for (int h = 0; h < 2; ++h) if (row_of(r, h) / kAtOnce * kAtOnce == i)
            delta[r][h] = mine;
  }
}

/// Computes the gradients of queries.
template <class C> __device__ void flash_queries(const Launch& a) {
  using T = typename C::T;
  constexpr int D = C::D, R = C::kR, N = C::N;
  const TileRows at(a, a.heads, C::kRows, C::kCausal);
  const int own = int(threadIdx.x) / 32 * C::kWarpRows, first = at.first + own;
  KeyTiles<C> keys(a, at, 2 * C::kOwn);
  fetch_own<C>(0, a.q, at, a.queries, a.features);
  fetch_own<C>(C::kOwn, a.grad, at, a.queries, a.value_features);
  keys.fetch(0);
  float delta[R][2], log_sum[R][2], scale[R][2], dq[R][D / 8][4] = {};
  sum_products<C>(delta, a, at, first);
  MT_UNROLLED for (int r = 0; r < R; ++r) MT_UNROLLED for (int h = 0; h < 2; ++h) {
    log_sum[r][h] = row_values(a.log_sums, a, at.batch, at.head)[first + row_of(r, h)];
    scale[r][h] = a.scale;
  }
  cuda::LeftRows<D, R, C::kKept> q(own * D * 2), grad(C::kOwn + own * D * 2);
  MT_ROLLED for (int key = 0; key < keys.end; key += N) {
    cuda::copies_done();
    __syncthreads();
    keys.fetch(key + N);
    if (key == 0) q.keep(), grad.keep();
    if (C::kCausal && key > first + C::kWarpRows - 1) continue;
    const int tile = keys.place(key);
    float s[R][N / 8][4], d[R][N / 8][4];
    cuda::multiply_rows<T, D, R, N>(s, q, tile);
    cuda::multiply_rows<T, D, R, N>(d, grad, tile + C::kStage / 2);
    mask<C>(s, first, key, a.keys);
    each_score<R, N>([&](int r, int h, int n, int i) {
      const float p = cuda::exp2_fast(fmaf(s[r][n][2 * h + i], a.scale_log2, -log_sum[r][h]));
      s[r][n][2 * h + i] = p * (d[r][n][2 * h + i] - delta[r][h]);
    });
    cuda::multiply_columns<T, D, R, N>(dq, s, tile);
  }
  store_own<C>(own, 0, dq, scale, a.q_grad, at, a.queries, a.features);
}

/// The queries that a block of keys iterates over, tile by tile: those of every head that shares
/// the keys, from the first one that attends to any of them.
template <class C> class QueryTiles {
 public:
  static constexpr int N = C::N, kStage = C::kStage + 2 * N * 4;  // with log_sums and delta
  static_assert(!cuda::Tile<C::D>::kAligned || kStage % (C::D * 2) == 0);
  static_assert(N / 2 <= C::kThreads);
  __device__ QueryTiles(const Launch& a, const TileRows& at)
      : start(C::kCausal ? at.first / N * N : 0),
        heads(a.heads / a.shared_heads),
        a_(a),
        batch_(at.batch),
        head_(at.head * heads),
        query_(start),
        q_(tiles(a.q, a.features)),
        grad_(tiles(a.grad, a.value_features)) {}
  __device__ static int place(int turn) { return 2 * C::kOwn + (turn & 1) * kStage; }
  __device__ void fetch(int to) {
    q_.next(to), grad_.next(to + C::kStage / 2);
    const int i = int(threadIdx.x), quarter = N / 4;
    if (i < N / 2)
      cuda::copy_later(to + C::kStage + i * 16,
                       row_values(i < quarter ? a_.log_sums : a_.delta, a_, batch_, head_) +
                           query_ + i % quarter * 4,
                       true);
    query_ += N;
    if (query_ < a_.queries) return;
    ++head_, query_ = start;
    q_.begin(tiles(a_.q, a_.features)), grad_.begin(tiles(a_.grad, a_.value_features));
  }
  const int start, heads;

 private:
  using Tiles = cuda::Tiles<C::D, N, C::kThreads, const typename C::T>;
  __device__ Tiles tiles(const AttentionSide& s, int features) const {
    return Tiles(head_of<const typename C::T>(s, batch_, head_) + start * s.row, s.row,
                 a_.queries - start, features / 8);
  }
  const Launch& a_;
  const int64_t batch_;
  int head_, query_;  // of the tile that is copied next
  Tiles q_, grad_;
};

/// Converts scores with keys as rows to weights: columns are queries.
template <class C>
__device__ void weights_of_keys(float (&s)[C::kR][C::N / 8][4], const float* log_sums,
                                float scale_log2, int first_query, int first_key) {
  MT_UNROLLED for (int n = 0; n < C::N / 8; ++n) MT_UNROLLED for (int i = 0; i < 2; ++i) {
    const float log_sum = log_sums[column_of(n, i)];
    MT_UNROLLED for (int r = 0; r < C::kR; ++r) MT_UNROLLED for (int h = 0; h < 2; ++h)
        s[r][n][2 * h + i] = cuda::exp2_fast(fmaf(s[r][n][2 * h + i], scale_log2, -log_sum));
  }
  if (!C::kCausal || first_query >= first_key + C::kWarpRows - 1) return;
  each_score<C::kR, C::N>([&](int r, int h, int n, int i) {
    if (first_query + column_of(n, i) < first_key + row_of(r, h)) s[r][n][2 * h + i] = 0;
  });
}

/// Computes the gradients of keys and values.
template <class C> __device__ void flash_keys(const Launch& a) {
  using T = typename C::T;
  constexpr int D = C::D, R = C::kR, N = C::N;
  const TileRows at(a, a.shared_heads, C::kRows, false);
  const int own = int(threadIdx.x) / 32 * C::kWarpRows, first = at.first + own;
  QueryTiles<C> queries(a, at);
  fetch_own<C>(0, a.k, at, a.keys, a.features);
  fetch_own<C>(C::kOwn, a.v, at, a.keys, a.value_features);
  const int start = queries.start, each = start < a.queries ? (a.queries - start + N - 1) / N : 0,
            turns = each * queries.heads;
  if (turns > 0) queries.fetch(queries.place(0));
  cuda::LeftRows<D, R, C::kKept> k(own * D * 2), v(C::kOwn + own * D * 2);
  float dk[R][D / 8][4] = {}, dv[R][D / 8][4] = {}, factor[R][2];
  MT_ROLLED for (int turn = 0, query = start; turn < turns;
                 ++turn, query = query + N < a.queries ? query + N : start) {
    cuda::copies_done();
    __syncthreads();
    if (turn + 1 < turns) queries.fetch(queries.place(turn + 1));
    if (turn == 0) k.keep(), v.keep();
    if (C::kCausal && query + N - 1 < first) continue;
    const int tile = queries.place(turn), grad = tile + C::kStage / 2;
    const float* const query_values =
        reinterpret_cast<const float*>(cuda::shared_memory<unsigned char>() + tile + C::kStage);
    float s[R][N / 8][4], d[R][N / 8][4];
    cuda::multiply_rows<T, D, R, N>(s, k, tile);
    weights_of_keys<C>(s, query_values, a.scale_log2, query, first);
    cuda::multiply_columns<T, D, R, N>(dv, s, grad);
    cuda::multiply_rows<T, D, R, N>(d, v, grad);
    each_score<R, N>([&](int r, int h, int n, int i) {
      s[r][n][2 * h + i] *= d[r][n][2 * h + i] - query_values[N + column_of(n, i)];
    });
    cuda::multiply_columns<T, D, R, N>(dk, s, tile);
  }
  cuda::copies_done();  // if there were no iterations
  __syncthreads();
  MT_UNROLLED for (int r = 0; r < R; ++r) factor[r][0] = factor[r][1] = 1;
  store_own<C>(own, C::kOwn, dv, factor, a.v_grad, at, a.keys, a.value_features);
  MT_UNROLLED for (int r = 0; r < R; ++r) factor[r][0] = factor[r][1] = a.scale;
  store_own<C>(own, 0, dk, factor, a.k_grad, at, a.keys, a.features);
}

#define MT_KERNEL(name)                                      \
  template <class C>                                         \
  __global__ void __launch_bounds__(C::kThreads, C::kBlocks) \
      kernel_##name(const __grid_constant__ Launch a) {      \
    if constexpr (cuda::kHasMma) name<C>(a);                 \
  }
MT_KERNEL(flash_forward)
MT_KERNEL(flash_queries)
MT_KERNEL(flash_keys)
#undef MT_KERNEL

/// Launches a kernel over tiles of `rows` rows for each of `heads` heads, with `shared` bytes of shared memory.
template <class C>
void launch_tiles(const char* name, void (*kernel)(Launch), const FlashAttention& call, int heads,
                  int rows, size_t shared) {
  const int64_t together =
      call.causal ? 1024 : 8;  // the heaviest tiles first: 9 % faster on an H100
  Launch a{call, (rows + C::kRows - 1) / C::kRows, together,
           float(call.scale * 1.4426950408889634)};
  cuda::launch_blocks(name, kernel, unsigned(a.tiles * a.batch * heads), C::kThreads, shared, a);
}
template <class C> void run_forward(const FlashAttention& a) {
  launch_tiles<C>("flash_attention", kernel_flash_forward<C>, a, a.heads, a.queries,
                  C::kOwn + 2 * C::kStage);
}
template <class C> void run_queries(const FlashAttention& a) {
  launch_tiles<C>("flash_attention_queries", kernel_flash_queries<C>, a, a.heads, a.queries,
                  2 * (C::kOwn + C::kStage));
}
template <class C> void run_keys(const FlashAttention& a) {
  launch_tiles<C>("flash_attention_keys", kernel_flash_keys<C>, a, a.shared_heads, a.keys,
                  2 * (C::kOwn + C::kStage + 2 * C::N * 4));
}

/// The tiles that were fastest on an H100 (16 x 12 x 1024 x 64 and 1 x 16 x 8192 x 128, causal and full).
template <class T, int D, bool causal> void run(const FlashAttention& a) {
  if constexpr (D <= 64) {
    if (!a.backward) return run_forward<Tiling<T, D, 4, 2, 128, false, 1, causal>>(a);
    run_queries<Tiling<T, D, 4, 1, 32, true, 4, causal>>(a);
    run_keys<Tiling<T, D, 4, 2, 32, false, 1, causal>>(a);
  } else {
    if (!a.backward) return run_forward<Tiling<T, D, 4, 2, 64, false, 1, causal>>(a);
    run_queries<Tiling<T, D, 4, 2, 32, false, 1, causal>>(a);
    run_keys<Tiling<T, D, 4, 1, 64, false, 1, causal>>(a);
  }
}
template <class T, int D> void run(const FlashAttention& a) {
  if (a.causal) run<T, D, true>(a);
  else run<T, D, false>(a);
}
template <class T> void run(const FlashAttention& a) {
  const int most = a.features > a.value_features ? a.features : a.value_features;
  if (most <= 32) run<T, 32>(a);
  else if (most <= 64) run<T, 64>(a);
  else if (most <= 96) run<T, 96>(a);
  else run<T, kAttentionFeatures>(a);
}

}  // namespace

void flash_attention(const FlashAttention& a) {
  if (a.dtype == Dtype::f16) run<Float16>(a);
  else run<Bfloat16>(a);
}

}  // namespace MT_ISA
}  // namespace mt
