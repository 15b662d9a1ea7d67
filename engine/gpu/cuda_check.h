// cuda_check.h -- a launch between guard regions: what a kernel writes beside its tensors is found
#pragma once
#include <string>
#include <vector>

#include "engine/core/tensor.h"

namespace mt {

/// For one launch copies of the tensors' memory, each between two regions filled with a pattern.
/// Tensors of one storage share a copy. Reads are not seen; what lies further away than a region is
/// not either.
class Guarded {
 public:
  static constexpr int64_t kRegion = 256 << 10;  // bytes on each side

  /// A tensor of a kernel, as messages call it.
  void add(const Tensor&, const std::string& argument, bool read_only);
  /// Makes the copies, once all tensors are known.
  void fill();
  /// Where the tensor's first element lies in its copy.
  void* place(const Tensor&) const;
  /// Waits, writes back what the kernel made of the tensors, and returns what it wrote beside them:
  /// a sentence, or nothing.
  std::string finish();

 private:
  struct Piece {
    Tensor first;          // of its tensors the first that is written, else the first
    std::string argument;  // of that one
    bool read_only;        // no kernel parameter may write here
    int64_t low, high;     // bytes of the storage that the tensors cover
    Tensor copy;           // bytes: region, offset of alignment, data, region
    int64_t before() const { return kRegion + low % 256; }
    Tensor original() const;
  };
  std::vector<Piece> pieces_;
};

}  // namespace mt
