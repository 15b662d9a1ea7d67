// weight_panels.cpp -- the weight of a convolution in blocks: transposed squares of 4 x 4 elements
#include "kernels/cpu/libraries/weight_panels.h"

#include "kernels/cpu/pool/parallel.h"

namespace mt {
namespace {

typedef float Lane __attribute__((vector_size(16)));
// kAhead: elements of a lane that are prefetched, since lanes are far apart: inference of a ResNet-18 with one image
// takes 8 % less time.
constexpr int kLane = 4, kLanes = 16, kAhead = 64;

Lane load(const float* p) {
  Lane r;
  __builtin_memcpy(&r, p, sizeof r);
  return r;
}
void store(float* p, Lane r) { __builtin_memcpy(p, &r, sizeof r); }

void transpose(Lane (&r)[kLane]) {
  const Lane a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
             b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5),
             c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7),
             d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  r[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5),
  r[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
  r[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5),
  r[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

/// Walks over the taps of others in the order of the plain weight: `at` is the place of the first lane in blocks.
struct Walk {
  const WeightPanels& p;
  float* const blocked;
  int64_t other, tap;
  float* at() const {
    return blocked + other / p.other_block * p.other_step + other % p.other_block * p.lane_block +
           (p.flipped ? p.taps - 1 - tap : tap) * p.tap_step;
  }
  void next() {
    if (++tap == p.taps) tap = 0, ++other;
  }
};

/// Copies `n` elements that are contiguous in each of 16 lanes of the plain weight.
template <bool pack> void copy_run(Walk walk, float* plain, int64_t n) {
  const int64_t row = walk.p.lane_stride;
  int64_t e = 0;
  for (; e + kLane <= n; e += kLane) {
    float* at[kLane];
    for (float*& a : at) a = walk.at(), walk.next();
    if (pack)
      for (int j = 0; j < kLane; ++j)
        __builtin_prefetch(plain + (e % kLanes + j) * row + e / kLanes * kLanes + kAhead, 0);
    for (int j = 0; j < kLanes; j += kLane) {
      Lane r[kLane];
      for (int k = 0; k < kLane; ++k) r[k] = load(pack ? plain + (j + k) * row + e : at[k] + j);
      transpose(r);
      for (int k = 0; k < kLane; ++k) store(pack ? at[k] + j : plain + (j + k) * row + e, r[k]);
    }
  }
  for (; e < n; ++e, walk.next())
    for (int j = 0; j < kLanes; ++j)
      if (pack) walk.at()[j] = plain[j * row + e];
      else plain[j * row + e] = walk.at()[j];
}

template <bool pack> void copy_all(const WeightPanels& p, float* plain, float* blocked) {
  const bool one_run = p.other_stride == p.taps;
  const int64_t runs = one_run ? 1 : p.others, n = one_run ? p.others * p.taps : p.taps;
  parallel(p.lanes / kLanes, p.lanes * p.others * p.taps > 1 << 15, [&](int64_t piece) {
    const int64_t lane = piece * kLanes;
    float* const first = blocked + lane / p.lane_block * p.lane_step + lane % p.lane_block;
    for (int64_t other = 0; other < runs; ++other)
      copy_run<pack>({p, first, other, 0}, plain + lane * p.lane_stride + other * p.other_stride,
                     n);
  });
}

}  // namespace

void pack_weight(const WeightPanels& p, const float* plain, float* blocked) {
  copy_all<true>(p, const_cast<float*>(plain), blocked);
}
void unpack_weight(const WeightPanels& p, float* plain, const float* blocked) {
  copy_all<false>(p, plain, const_cast<float*>(blocked));
}

}  // namespace mt
