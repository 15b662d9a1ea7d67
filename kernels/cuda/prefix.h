// prefix.h -- sums before each place: of the threads of a block, of an array
#pragma once
#include "kernels/cuda/team.h"

namespace mt {
inline namespace MT_ISA {
namespace {

constexpr int kPrefixThreads = cuda::kThreads;  // of a block that calls block_prefix
constexpr size_t kPrefixShared = cuda::Block::kShared;

/// The sum of the values of the threads before this one, and in `total` that of all. Called by all
/// threads of a block of kPrefixThreads in one dimension, started with kPrefixShared bytes.
__device__ inline int64_t block_prefix(int64_t value, int64_t& total) {
  const auto sum = [](int64_t x, int64_t y) { return x + y; };
  const cuda::Scanned<int64_t> s = cuda::Block{}.scan(value, int64_t(0), sum);
  total = s.all;
  return s.before;
}

/// a[i] becomes the sum of what came before it: one block for the array.
template <class T> __global__ void prefix_whole(T* a, int64_t n) {
  int64_t carry = 0, total;
  for (int64_t from = 0; from < n; from += kPrefixThreads) {
    const int64_t i = from + threadIdx.x;
    const int64_t before = block_prefix(i < n ? int64_t(a[i]) : 0, total);
    if (i < n) a[i] = T(carry + before);
    carry += total;
  }
}

constexpr int64_t kPrefixPart = 4096;  // elements that a block looks after in a long array

template <class T> __global__ void prefix_sums(const T* a, int64_t n, int64_t* sums) {
  const int64_t from = int64_t(blockIdx.x) * kPrefixPart;
  int64_t sum = 0, total;
  for (int64_t i = from + threadIdx.x; i < from + kPrefixPart && i < n; i += kPrefixThreads)
    sum += int64_t(a[i]);
  block_prefix(sum, total);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

template <class T> __global__ void prefix_parts(T* a, int64_t n, const int64_t* before) {
  const int64_t part = int64_t(blockIdx.x) * kPrefixPart;
  int64_t carry = before[blockIdx.x], total;
  for (int64_t from = part; from < part + kPrefixPart && from < n; from += kPrefixThreads) {
    const int64_t i = from + threadIdx.x;
    const int64_t sum = block_prefix(i < n ? int64_t(a[i]) : 0, total);
    if (i < n) a[i] = T(carry + sum);
    carry += total;
  }
}

/// a[i] becomes the sum of what came before it.
template <class T> void prefix(const char* name, T* a, int64_t n) {
  if (n <= 2 * kPrefixPart)
    return cuda::launch_blocks(name, prefix_whole<T>, 1, kPrefixThreads, kPrefixShared, a, n);
  const int64_t parts = (n + kPrefixPart - 1) / kPrefixPart;
  const cuda::Scratch scratch(size_t(parts) * sizeof(int64_t));
  int64_t* const sums = scratch.as<int64_t>();
  cuda::launch_blocks(name, prefix_sums<T>, unsigned(parts), kPrefixThreads, kPrefixShared, a, n,
                      sums);
  cuda::launch_blocks(name, prefix_whole<int64_t>, 1, kPrefixThreads, kPrefixShared, sums, parts);
  cuda::launch_blocks(name, prefix_parts<T>, unsigned(parts), kPrefixThreads, kPrefixShared, a, n,
                      sums);
}

}  // namespace
}  // namespace MT_ISA
}  // namespace mt
