// step_work.h -- which calls of a recorded step or function a program can compute, and their operands
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/compiler/program/builder.h"
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
  bool count = false;  // integers: a number of elements of a row, which the group has counted
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

/// The use of a pointer of the call's argument, or null.
const BufferUse* use_at(const StepCall&, const void* slot);
/// The shape with one more dimension.
Shape with(Shape s, int64_t last);
/// The name of the operation, for mt.explain.
std::string name_of(const FusibleCall&);
/// The number of instructions that the work needs at most.
int cost_of(const FusibleCall&);
/// Adds part of an operation of the map verb: its value, its derivative, or the gradient of a reduction.
int add_map(ir::Builder&, const Map&, const int* in);

/// Why a call is not part of a program.
using Reason = std::string;

/// What can be fused, in a step or in a function of mt.fuse.
struct Rules {
  const bool of_function;
  bool takes(Dtype d) const {
    return d == Dtype::f32 || d == Dtype::f64 || (of_function && is_half(d));
  }
  std::optional<FusibleCall> fusible(const Map&, const StepCall&, Reason&) const;
  std::optional<FusibleCall> fusible(const Reduce&, const StepCall&, int reduction,
                                     const BufferUse* out, const BufferUse* mean, Reason&) const;
  std::optional<FusibleCall> fusible(const Copy&, const StepCall&) const;
};

}  // namespace mt
