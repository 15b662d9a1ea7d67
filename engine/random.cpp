// random.cpp -- random tensors: one counter-based stream, whose numbers do not depend on device or
// threads
#include <mutex>
#include <numeric>

#include "engine/ops.h"
#include "kernels/random.h"

namespace mt {
namespace {

std::mutex guard;
uint64_t seed = 0x6d746f726368;  // until manual_seed: the same numbers in every run
uint64_t counter = 0;

Tensor draw(Distribution what, const Shape& shape, Dtype dtype, const Device& device,
            int64_t low = 0, uint64_t span = 0) {
  Tensor out = empty(shape, dtype, device);
  Random r{what, dtype, out.data(), out.numel(), 0, 0, low, span};
  const int64_t group = random_group(what, dtype);
  {
    std::lock_guard lock(guard);
    r.seed = seed, r.offset = counter;
    counter += uint64_t((out.numel() + group - 1) / group);
  }
  device.random(r);
  return out;
}

void check_float(const char* name, Dtype dtype) {
  if (!is_float(dtype)) fail("{}: {} cannot hold fractions; use randint", name, dtype_name(dtype));
}

}  // namespace

void manual_seed(uint64_t s) {
  std::lock_guard lock(guard);
  seed = s, counter = 0;
}

Tensor rand(const Shape& shape, Dtype dtype, const Device& device) {
  check_float("rand", dtype);
  return draw(Distribution::uniform, shape, dtype, device);
}
Tensor randn(const Shape& shape, Dtype dtype, const Device& device) {
  check_float("randn", dtype);
  return draw(Distribution::normal, shape, dtype, device);
}
Tensor randint(int64_t low, int64_t high, const Shape& shape, Dtype dtype, const Device& device) {
  if (low > high) fail("randint: the first {} lies above the last {}", low, high);
  if (dtype != Dtype::i64)
    check_value("randint", double(low), dtype), check_value("randint", double(high), dtype);
  return draw(Distribution::integer, shape, dtype, device, low, uint64_t(high) - uint64_t(low) + 1);
}

Tensor randperm(int64_t n, const Device& device) {
  if (n < 0) fail("randperm: {} is negative", n);
  const Tensor words = draw(Distribution::integer, {n}, Dtype::i64, cpu_device(), 0, 0);
  Tensor out = empty({n}, Dtype::i64);
  int64_t* p = out.data_as<int64_t>();
  const uint64_t* word = static_cast<const uint64_t*>(words.data());
  std::iota(p, p + n, 0);
  for (int64_t i = n - 1; i > 0; --i)
    std::swap(p[i], p[word[i] % uint64_t(i + 1)]);  // Fisher and Yates
  return to(out, device);
}

}  // namespace mt
