// team.h -- cooperating threads that process one line: a single thread, a warp, a block
//
// A team numbers its threads, reduces their values (`total`), and scans them in order (`scan`). The
// order of combination depends only on the team: the same bits on every run. Teams that share a
// block and its barriers run the same number of iterations: `kTogether` teams, of which the last
// ones may have no line.
#pragma once
#include <type_traits>

#include "kernels/cuda/cuda.h"

namespace mt::cuda {

#define MT_SHUFFLE(name, builtin)                                       \
  template <class T> __device__ inline T name(const T& value, int by) { \
    static_assert(sizeof(T) % 4 == 0);                                  \
    uint32_t word[sizeof(T) / 4];                                       \
    memcpy(word, &value, sizeof(T));                                    \
    for (uint32_t & w : word) w = builtin(0xffffffffu, w, by);          \
    T answer;                                                           \
    memcpy(&answer, word, sizeof(T));                                   \
    return answer;                                                      \
  }
MT_SHUFFLE(from_lane, __shfl_sync)
MT_SHUFFLE(from_lane_before, __shfl_up_sync)
MT_SHUFFLE(from_lane_across, __shfl_xor_sync)
#undef MT_SHUFFLE

struct Add {
  template <class S> __device__ S operator()(const S& a, const S& b) const { return a + b; }
};

/// The reduction of the values of all lanes of a warp, and their inclusive scan.
template <class S, class Join> __device__ S joined(S s, const Join& join) {
  for (int by = 16; by > 0; by /= 2) s = join(s, from_lane_across(s, by));
  return s;
}
template <class S, class Join> __device__ S scanned(S s, const Join& join) {
  for (int by = 1; by < 32; by *= 2) {
    const S other = from_lane_before(s, by);
    if (int(threadIdx.x) % 32 >= by) s = join(other, s);
  }
  return s;
}

template <class S> struct PrefixAndTotal {
  S before;  // the reduction over the threads before this one
  S all;
};

struct SingleThread {
  static constexpr int kLines = kThreads, kTogether = 1;  // per block
  __device__ int number() const { return 0; }
  __device__ int size() const { return 1; }
  __device__ Turns lines(int64_t n) const { return turns(n); }
  template <class S, class Join = Add> __device__ S total(const S& s, const Join& = {}) const {
    return s;
  }
  template <class S, class Join>
  __device__ PrefixAndTotal<S> scan(const S& s, const S& nothing, const Join&) const {
    return {nothing, s};
  }
};

/// The block is (32, kLines).
struct Warp {
  static constexpr int kLines = kThreads / 32, kTogether = 1;
  __device__ int number() const { return int(threadIdx.x); }
  __device__ int size() const { return 32; }
  __device__ Turns lines(int64_t n) const {
    return {int64_t(blockIdx.x) * kLines + threadIdx.y, n, int64_t(gridDim.x) * kLines};
  }
  template <class S, class Join = Add> __device__ S total(S s, const Join& join = {}) const {
    return joined(s, join);
  }
  template <class S, class Join>
  __device__ PrefixAndTotal<S> scan(S s, const S& nothing, const Join& join) const {
    const int lane = int(threadIdx.x);
    s = scanned(s, join);
    const S before = from_lane_before(s, 1);
    return {lane > 0 ? before : nothing, from_lane(s, 31)};
  }
};

/// The block is kThreads; it needs kShared bytes of shared memory.
struct Block {
  static constexpr int kLines = 1, kTogether = 1, kWarps = kThreads / 32;
  static constexpr size_t kShared = kWarps * 32;
  __device__ int number() const { return int(threadIdx.x); }
  __device__ int size() const { return kThreads; }
  __device__ Turns lines(int64_t n) const { return {blockIdx.x, n, gridDim.x}; }
  template <class S, class Join = Add> __device__ S total(S s, const Join& join = {}) const {
    static_assert(sizeof(S) <= 32);
    S* const of_warp = shared_memory<S>();
    s = joined(s, join);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = s;
    __syncthreads();
    s = of_warp[0];
    for (int w = 1; w < kWarps; ++w) s = join(s, of_warp[w]);
    __syncthreads();
    return s;
  }
  template <class S, class Join>
  __device__ PrefixAndTotal<S> scan(S s, const S& nothing, const Join& join) const {
    static_assert(sizeof(S) <= 32);
    S* const of_warp = shared_memory<S>();
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    s = scanned(s, join);
    const S left = from_lane_before(s, 1);
    if (lane == 31) of_warp[warp] = s;
    __syncthreads();
    S before = nothing, all = nothing;
    for (int w = 0; w < kWarps; ++w) {
      if (w == warp) before = all;
      all = join(all, of_warp[w]);
    }
    __syncthreads();
    return {lane > 0 ? join(before, left) : before, all};
  }
};

/// Adjacent lines: the block is (kLines, kDown), and each of its columns is a team.
struct Column {
  static constexpr int kLines = 32, kTogether = 32, kDown = kThreads / kLines;
  static constexpr size_t kShared = kThreads * 8;
  __device__ int number() const { return int(threadIdx.y); }
  __device__ int size() const { return kDown; }
  __device__ Turns lines(int64_t n) const {
    return {int64_t(blockIdx.x) * kLines + threadIdx.x, n, int64_t(gridDim.x) * kLines};
  }
  template <class S, class Join = Add> __device__ S total(S s, const Join& join = {}) const {
    static_assert(sizeof(S) <= 8);
    S* const column = shared_memory<S>() + threadIdx.x;
    column[threadIdx.y * kLines] = s;
    __syncthreads();
    s = column[0];
    for (int y = 1; y < kDown; ++y) s = join(s, column[y * kLines]);
    __syncthreads();
    return s;
  }
};

/// A line of n elements with a stride of `step`, as its team reads it: K elements per thread once,
/// into registers (step 1), or with K = 0 all elements at each use.
template <int K, class T> struct LineRegisters {
  T v[K];
  template <class Team>
  __device__ LineRegisters(const Team& team, const T* from, int n, int64_t = 1) {
    for (int k = 0, i = team.number(); k < K; ++k, i += team.size()) v[k] = i < n ? from[i] : T(0);
  }
  /// Calls `body(element, its index in the line, its index in v)` for the elements of this thread.
  template <class Team, class F> __device__ void each(const Team& team, int n, const F& body) {
    for (int k = 0, i = team.number(); k < K; ++k, i += team.size())
      if (i < n) body(v[k], i, k);
  }
  __device__ T at(int64_t, int k) const { return v[k]; }
};
template <class T> struct LineRegisters<0, T> {
  const T* const from;
  const int64_t step;
  template <class Team>
  __device__ LineRegisters(const Team&, const T* from, int64_t, int64_t step)
      : from(from),
        step(step) {}
  template <class Team, class F> __device__ void each(const Team& team, int64_t n, const F& body) {
    for (int64_t i = team.number(); i < n; i += team.size()) {
      T x = from[i * step];
      body(x, i, 0);
    }
  }
  __device__ T at(int64_t i, int) const { return from[i * step]; }
};
/// Calls `body(elements per thread, a constant)` with the smallest number that suffices for a line
/// of n elements in registers; returns false if the line is too long.
template <class Team, class F> bool held(int64_t n, const F& body) {
  const auto fits = [&](auto k) {
    if (n > k.value * (kThreads / Team::kLines)) return false;
    body(k);
    return true;
  };
  if constexpr (Team::kLines == 1) {
    if (fits(std::integral_constant<int, 4>{})) return true;
  }
  return fits(std::integral_constant<int, 16>{});
}

/// Launches a kernel whose teams process `lines` lines in a grid-stride loop.
template <class Team, class... P, class... A>
void launch_teams(const char* name, void (*kernel)(P...), int64_t lines, const A&... a) {
  const int64_t blocks = (lines + Team::kLines - 1) / Team::kLines, most = int64_t(1) << 20;
  const unsigned grid = unsigned(blocks < most ? blocks : most);
  if constexpr (Team::kLines == kThreads) launch(name, kernel, grid, kThreads, a...);
  else if constexpr (Team::kTogether > 1)
    launch_blocks(name, kernel, grid, dim3(Team::kLines, kThreads / Team::kLines), Team::kShared,
                  a...);
  else if constexpr (Team::kLines > 1)
    launch_blocks(name, kernel, grid, dim3(32, Team::kLines), 0, a...);
  else launch_blocks(name, kernel, grid, kThreads, Team::kShared, a...);
}

enum class Teams { alone, warp, block };
/// The team for `lines` lines of n elements; `apart`: adjacent elements belong to different lines,
/// so that only single threads have coalesced reads.
inline Teams team_for(int64_t lines, int64_t n, bool apart) {
  if (n <= 4 || (apart && (n <= 32 || lines >= 8192))) return Teams::alone;
  return n <= 512 ? Teams::warp : Teams::block;
}

}  // namespace mt::cuda
