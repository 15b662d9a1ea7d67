// radix_sort.cu -- CUB's device radix sort of an array; the emulation uses std::stable_sort
#include "kernels/cuda/radix_sort.h"

#ifdef __CUDACC__
#include <cub/device/device_radix_sort.cuh>
#else
#include <algorithm>
#endif

namespace mt::cuda {

uint64_t* radix_sort(const char* name, uint64_t* words, uint64_t* other, int64_t n, int from,
                     int to) {
  if (stopped()) return words;
#ifdef __CUDACC__
  using Word = unsigned long long;
  cub::DoubleBuffer<Word> buffers(reinterpret_cast<Word*>(words), reinterpret_cast<Word*>(other));
  size_t bytes = 0;
  const auto sort = [&](void* room) {
    return cub::DeviceRadixSort::SortKeys(room, bytes, buffers, n, from, to, stream());
  };
  if (!check(sort(nullptr), name)) return words;
  const Scratch scratch(bytes > 0 ? bytes : 1);  // with null CUB would only return the size again
  const void* const used[] = {words, other, scratch.as<void>()};
  if (!used[2]) return words;
  if (capturing()) keep(used, sizeof used);
  const Timed timed(name);
  check(sort(scratch.as<void>()), name);
  started(name);
  return reinterpret_cast<uint64_t*>(buffers.Current());
#else
  const void* const used[] = {words, other};
  if (capturing()) keep(used, sizeof used);
  emulation::start(name, false, 1, 1, 0, [=] {
    const uint64_t mask = (to - from == 64 ? 0 : uint64_t(1) << (to - from)) - 1;
    std::copy(words, words + n, other);
    std::stable_sort(other, other + n, [=](uint64_t a, uint64_t b) {
      return (a >> from & mask) < (b >> from & mask);
    });
  });
  started(name);
  return other;
#endif
}

}  // namespace mt::cuda
