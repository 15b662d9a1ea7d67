// step_work.h -- a call of a recorded step or function that a program can compute, and its operands
#pragma once
#include <optional>
#include <vector>

#include "engine/compiler/record/step_calls.h"
#include "engine/core/shape.h"

namespace mt {

constexpr int kMaxInstructions = 128;  // of a program that calls are joined to

/// An operand: elements of a buffer, or numbers that are the same at each replay.
struct Operand {
  BufferUse use;
  Shape stride;
  Dtype dtype = Dtype::none;  // of its elements in memory
  bool number = false, mask = false, row = false;
  bool count = false;  // integers: how many elements of a row are true, computed in the same group
  double value = 0;
  bool same(const Operand& o) const {
    std::byte *a = nullptr, *b = nullptr;
    if (use.buffer < 0) std::memcpy(&a, use.slot, sizeof a), std::memcpy(&b, o.use.slot, sizeof b);
    return use.buffer == o.use.buffer && use.offset == o.use.offset && row == o.row && a == b &&
           stride == o.stride && dtype == o.dtype;
  }
};

/// A call that a program can compute.
struct FusibleCall {
  const Device* device;
  const Map* map = nullptr;  // one of the three
  const Reduce* reduce = nullptr;
  const Copy* copy = nullptr;
  Dtype dtype;  // that it computes in; none: any
  int reduction = -1;
  bool gradient = false;
  Shape size;
  std::vector<Operand> in;
  Operand out;
  std::optional<Operand> mean;  // a second result of a variance
};

}  // namespace mt
