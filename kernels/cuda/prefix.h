// prefix.h -- exclusive prefix sums over the threads of a block, and over an array
#pragma once
#include "kernels/cuda/team.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int kPrefixThreads = cuda::kThreads;  // per block that calls block_prefix
constexpr size_t kPrefixShared = cuda::Block::kShared;

/// The exclusive prefix sum of the values of the threads, and in `total` the sum of all. All
/// threads of a one-dimensional block of kPrefixThreads with kPrefixShared bytes call it.
__device__ inline int64_t block_prefix(int64_t value, int64_t& total) {
  const cuda::PrefixAndTotal<int64_t> s = cuda::Block{}.scan(value, int64_t(0), cuda::Add{});
  total = s.all;
  return s.before;
}

constexpr int64_t kPrefixPart = 4096;  // elements per block in a long array

__global__ void prefix_sums(const int64_t* a, int64_t n, int64_t* sums) {
  const int64_t from = int64_t(blockIdx.x) * kPrefixPart;
  int64_t sum = 0, total;
  for (int64_t i = from + threadIdx.x; i < from + kPrefixPart && i < n; i += kPrefixThreads)
    sum += a[i];
  block_prefix(sum, total);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

/// Replaces a[i] by the exclusive prefix sum in the `part` elements of its block, plus `before`.
__global__ void prefix_parts(int64_t* a, int64_t n, int64_t part, const int64_t* before) {
  const int64_t first = int64_t(blockIdx.x) * part;
  int64_t carry = before ? before[blockIdx.x] : 0, total;
  for (int64_t from = first; from < first + part && from < n; from += kPrefixThreads) {
    const int64_t i = from + threadIdx.x;
    const int64_t sum = block_prefix(i < n ? a[i] : 0, total);
    if (i < n) a[i] = carry + sum;
    carry += total;
  }
}

/// Replaces a[i] by its exclusive prefix sum.
void prefix(const char* name, int64_t* a, int64_t n) {
  const auto start = [=](int64_t parts, auto kernel, const auto&... arguments) {
    cuda::launch_blocks(name, kernel, unsigned(parts), kPrefixThreads, kPrefixShared, arguments...);
  };
  if (n <= 2 * kPrefixPart) return start(1, prefix_parts, a, n, n, nullptr);
  const int64_t parts = (n + kPrefixPart - 1) / kPrefixPart;
  const cuda::Scratch scratch(parts * sizeof(int64_t));
  int64_t* const sums = scratch.as<int64_t>();
  start(parts, prefix_sums, a, n, sums);
  start(1, prefix_parts, sums, parts, parts, nullptr);
  start(parts, prefix_parts, a, n, kPrefixPart, sums);
}

}  // namespace
}  // namespace MT_ISA
}  // namespace mt
