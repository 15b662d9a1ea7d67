// cuda_check.h -- runs a launch between guard regions, to find writes out of bounds of its tensors
#pragma once
#include <string>
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

/// Copies of the tensors' memory for one launch, each between two regions that are filled with a
/// pattern. Tensors with the same storage share a copy. Reads out of bounds are not detected, nor
/// are writes beyond the regions.
class Guarded {
 public:
  static constexpr int64_t kRegion = 256 << 10;  // bytes on each side

  /// Adds a tensor of a kernel; `argument` is its name in messages.
  void add(const Tensor&, const std::string& argument, bool read_only);
  /// Creates the copies, once all tensors are known.
  void fill();
  /// The address of the tensor's first element in its copy.
  void* place(const Tensor&) const;
  /// Synchronizes, copies the tensors back, and returns a sentence about writes out of bounds, or
  /// an empty string.
  std::string finish();

 private:
  struct Piece {
    Tensor first;          // the first of its tensors that is written, else the first
    std::string argument;  // its name in messages
    bool read_only;        // no kernel parameter may write here
    int64_t low, high;     // the range of bytes of the storage that the tensors cover
    Tensor copy;           // as bytes: region, alignment padding, data, region
    int64_t before() const { return kRegion + low % 256; }
    Tensor original() const;
  };
  std::vector<Piece> pieces_;
};

}  // namespace mt
